"""A campaign against the state cache: one small cache after another, until one shows a fault or all is spent."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, cast

from poolproof.fuzz.cache_canaries import CANARIES
from poolproof.fuzz.cache_driver import CacheDriver
from poolproof.fuzz.cache_layouts import CacheLayout
from poolproof.fuzz.cache_world import SHIPPED, Make
from poolproof.fuzz.round_campaign import (
    RoundResult,
    Subject,
    Tally,
    look_for_canary,
    open_possible,
    play_round,
    play_rounds,
    run_rounds,
    shorten,
    shrink_round,
)
from poolproof.fuzz.unified_campaign import Found

TARGET: Final = "state-cache"


def open_cache_driver(name: str, make: Make = SHIPPED, device: str = "host") -> CacheDriver:
    """A driver of the first layout drawn for this name that is possible.

    Raises:
        SettingError: none is; there is no such device.
    """

    def drive(layout: CacheLayout) -> CacheDriver:
        return CacheDriver(name, layout, make, device)

    return open_possible(name, device, drive)


def _open(name: str, make: Make, device: str) -> CacheDriver:
    return open_cache_driver(name, make, device)  # looked up at each call, as tests put another in its place


SUBJECT: Final = Subject(TARGET, _open, CANARIES, "cache", "admit hit")


def play_cache(
    seed: int,
    number: int,
    kept: Collection[int] | None = None,
    make: Make = SHIPPED,
    with_trace: bool = False,
    device: str = "host",
) -> tuple[CacheDriver, Exception | None]:
    """One cache of a seed: the driver afterwards, and what was wrong."""
    driver, error = play_round(SUBJECT, seed, number, kept, make, with_trace, device)
    return cast(CacheDriver, driver), error


def play_caches(seed: int, numbers: Collection[int], make: Make = SHIPPED, device: str = "host") -> Tally:
    """Some caches of a seed, one after the other, up to the first failure."""
    return play_rounds(SUBJECT, seed, numbers, make, device)


def shrink_cache(seed: int, number: int, last: int, make: Make = SHIPPED, device: str = "host") -> Found | None:
    """See `shrink_round`."""
    return shrink_round(SUBJECT, seed, number, last, make, device)


def shrunk(seed: int, failure: tuple[int, int, str], device: str = "host") -> Found:
    """See `shorten`."""
    return shorten(SUBJECT, seed, failure, device)


def look_for_cache_canary(seed: int, make: Make | None = None, device: str = "host") -> tuple[str, int]:
    """Fuzz a cache that is broken on purpose: its name, and after how many operations it was found; 0 for never."""
    return look_for_canary(SUBJECT, seed, make, device)


def run_cache(
    seed: int,
    ops: int | None = None,
    seconds: float | None = None,
    jobs: int = 1,
    progress: Callable[[str, int, int], None] | None = None,
    device: str = "host",
) -> RoundResult:
    """Fuzz the state cache until it fails or the budget is spent.

    Args and errors are those of `run_rounds`.
    """
    return run_rounds(SUBJECT, seed, ops, seconds, jobs, progress, device)
