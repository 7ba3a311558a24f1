"""What is wrong with refused slot ids. Runs only after the fast check has failed, or for ids of mixed kinds."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from poolproof.errors import Fault
from poolproof.slot_key import PENDING, are_tenants

Finding = tuple[Fault, NDArray[np.int64]]


def find_held_fault(ids: NDArray[np.int64], keys: NDArray[np.int64], total: int, holder: int) -> Finding | None:
    """Why `holder` cannot give these ids back: the first fault in order of gravity with its ids, None if it can.

    `keys` are the keys gathered for the ids, int64 of the same shape.
    """
    for fault, bad in (
        *_range_faults(ids, total),
        (Fault.NOT_OWNED, ~are_tenants(keys)),
        (Fault.FOREIGN, (keys >> 3) != holder + 1),
    ):
        if bad.any():
            return fault, ids[bad]
    return None


def find_pending_fault(ids: NDArray[np.int64], keys: NDArray[np.int64], total: int) -> Finding | None:
    """Why these ids cannot be reclaimed, None if they can."""
    for fault, bad in (*_range_faults(ids, total), (Fault.NOT_PENDING, keys != PENDING)):
        if bad.any():
            return fault, ids[bad]
    return None


def find_range_fault(ids: NDArray[np.int64], total: int) -> Finding | None:
    """Which of these ids are none of the pool's 0..total-1, None if all are."""
    for fault, bad in tuple(_range_faults(ids, total))[:2]:
        if bad.any():
            return fault, ids[bad]
    return None


def _range_faults(ids: NDArray[np.int64], total: int) -> Iterator[tuple[Fault, NDArray[np.bool_]]]:
    yield Fault.NEGATIVE, ids < 0
    yield Fault.OUT_OF_RANGE, ids >= total
    yield Fault.SINK, ids == 0
