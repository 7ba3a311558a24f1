"""The shipped slot pool as a target."""

from __future__ import annotations

from poolproof.errors import GroupError, PoolError
from poolproof.slot_group import Group
from poolproof.slot_pool import SlotPool


class SlotPoolTarget:
    """`poolproof.SlotPool`, with the open group as methods of the pool.

    Args:
        slots: number of usable slots.
    """

    refusals = (PoolError,)

    def __init__(self, slots: int) -> None:
        pool = SlotPool(slots)
        self.pool = pool
        self.alloc, self.try_alloc = pool.alloc, pool.try_alloc
        self.free, self.retire, self.reclaim = pool.free, pool.retire, pool.reclaim
        self.transfer, self.clear = pool.transfer, pool.clear
        self.available, self.snapshot, self.check = pool.capacity, pool.snapshot, pool.check
        self._group: Group | None = None

    def open_group(self, n: int) -> list[int]:
        """`SlotPool.open_group`; the ids held back."""
        self._group = self.pool.open_group(n)
        return list(self.pool.snapshot().reserved_slots)

    def take(self, n: int, holder: int = 0) -> object:
        """`Group.take` of the last group."""
        return self._last_group().take(n, holder)

    def close_group(self) -> None:
        """`Group.close` of the last group."""
        self._last_group().close()

    def _last_group(self) -> Group:
        if self._group is None:
            raise GroupError("no group was ever opened")
        return self._group
