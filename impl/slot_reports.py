"""What a slot pool tells about itself: figures for people, and the whole state for comparison with the spec."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class SlotStats:
    """Slots by kind of owner, and calls by method. All figures are numbers of slots or of calls.

    Attributes:
        total: slots of the pool, the sink included.
        sink: slots that are never handed out (always 1).
        free: slots that `alloc` can hand out now.
        reserved: slots held back by the open group.
        in_requests: slots owned by requests.
        in_cache: slots owned by the cache.
        pending: slots given back that wait for `reclaim`.
        peak: most slots that were not free at once, the sink not counted, since the pool was made.
        operations: successful calls by method.
        refusals: calls that raised a `PoolError` (or, for `try_alloc`, gave None) by method.
    """

    total: int
    sink: int
    free: int
    reserved: int
    in_requests: int
    in_cache: int
    pending: int
    peak: int
    operations: dict[str, int]
    refusals: dict[str, int]


class SlotSnapshot(NamedTuple):
    """Everything that the spec's state of a slot pool has, under the spec's names, as plain ints.

    Attributes:
        total: slots of the pool, the sink included.
        owner: number of the `Owner` of each slot.
        holder: holder of each slot, -1 for nobody.
        tenancy: number of the current (or next) tenancy of each slot.
        free_slots: free slots in the order in which they are handed out.
        reserved_slots: slots held back by the open group, in the order in which they are handed out.
        in_requests: slots owned by requests.
        in_cache: slots owned by the cache.
        in_pending: slots given back that wait for `reclaim`.
        group_is_open: whether a pre-allocation group is open.
    """

    total: int
    owner: tuple[int, ...]
    holder: tuple[int, ...]
    tenancy: tuple[int, ...]
    free_slots: tuple[int, ...]
    reserved_slots: tuple[int, ...]
    in_requests: int
    in_cache: int
    in_pending: int
    group_is_open: bool
