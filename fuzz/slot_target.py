"""The pool that ships, as a target."""

from __future__ import annotations

from typing import Any

import numpy as np

from poolproof.errors import PoolError
from poolproof.slot_group import Group
from poolproof.slot_pool import SlotPool
from poolproof.spec.slots import Owner


class SlotPoolTarget:
    """`poolproof.SlotPool` behind the methods of `FullTarget`; ids go in as arrays, as an engine passes them.

    Args:
        slots: number of usable slots.
    """

    refusals = (PoolError,)

    def __init__(self, slots: int) -> None:
        self.pool = SlotPool(slots)
        self.group: Group | None = None
        self.alloc = self.pool.alloc
        self.try_alloc = self.pool.try_alloc
        self.available = self.pool.capacity
        self.snapshot = self.pool.snapshot

    def free(self, ids: list[int], holder: int) -> None:
        """`SlotPool.free`."""
        array = np.array(ids, np.int64)
        self.pool.free(array, holder)
        array.fill(-1)  # the array is the caller's again: the pool must not have kept it

    def retire(self, ids: list[int], holder: int) -> None:
        """`SlotPool.retire`."""
        array = np.array(ids, np.int64)
        self.pool.retire(array, holder)
        array.fill(-1)

    def reclaim(self, ids: list[int]) -> None:
        """`SlotPool.reclaim`."""
        array = np.array(ids, np.int64)
        self.pool.reclaim(array)
        array.fill(-1)

    def transfer(self, ids: list[int], holder: int, to: Owner, heir: int) -> None:
        """`SlotPool.transfer`."""
        array = np.array(ids, np.int64)
        self.pool.transfer(array, holder=holder, to=to, heir=heir)  # type: ignore[arg-type]
        array.fill(-1)

    def open_group(self, n: int) -> list[int]:
        """`SlotPool.open_group`; the ids that the group holds back."""
        self.group = self.pool.open_group(n)
        return list(self.pool.snapshot().reserved_slots)

    def take(self, n: int, holder: int) -> Any:
        """`Group.take` of the last group opened, if it is closed too: then it must refuse."""
        return self._last_group().take(n, holder)

    def close_group(self) -> None:
        """`Group.close` of the last group opened."""
        self._last_group().close()

    def clear(self) -> None:
        """`SlotPool.clear`."""
        self.pool.clear()

    def check(self) -> list[object]:
        """`SlotPool.check`, and whether all that the pool reports about itself agrees."""
        shown, stats, pool = self.pool.snapshot(), self.pool.stats(), self.pool
        told = (stats.free, stats.reserved, stats.in_requests, stats.in_cache, stats.pending, pool.capacity())
        held = (len(shown.free_slots), len(shown.reserved_slots), shown.in_requests, shown.in_cache, shown.in_pending)
        found: list[object] = list(pool.check())
        if told != (*held, held[0]):
            found.append(f"stats and capacity say {told}, the snapshot says {(*held, held[0])}")
        remaining = 0 if self.group is None else self.group.remaining
        if remaining != len(shown.reserved_slots):
            found.append(f"the group says {remaining} remain, the snapshot says {len(shown.reserved_slots)}")
        arrays = (tuple(pool.owners().tolist()), tuple(pool.holders().tolist()), tuple(pool.tenancies().tolist()))
        if arrays != (shown.owner, shown.holder, shown.tenancy):
            found.append("owners, holders or tenancies differ from the snapshot")
        return found

    def _last_group(self) -> Group:
        if self.group is None:
            raise NoGroup("no group was ever opened")
        return self.group


class NoGroup(PoolError):
    """There is no group to take from or to close."""
