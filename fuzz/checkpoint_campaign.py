"""A campaign against the checkpoint pool: one small pool after another, until one shows a fault or all is spent."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from poolproof.fuzz.cache_layouts import CacheLayout
from poolproof.fuzz.cache_world import SHIPPED, Make
from poolproof.fuzz.checkpoint_canaries import CANARIES
from poolproof.fuzz.checkpoint_driver import CheckpointDriver
from poolproof.fuzz.round_campaign import Subject, open_possible

TARGET: Final = "checkpoint-pool"


def open_checkpoint_driver(name: str, make: Make, device: str) -> CheckpointDriver:
    """A driver of the first layout drawn for this name that is possible.

    Raises:
        SettingError: none is; there is no such device.
    """

    def drive(layout: CacheLayout) -> CheckpointDriver:
        return CheckpointDriver(name, layout, make, device)

    return open_possible(name, device, drive)


SUBJECT: Final = Subject(TARGET, open_checkpoint_driver, CANARIES, "pool", "hit done", replace(SHIPPED, cache=None))
