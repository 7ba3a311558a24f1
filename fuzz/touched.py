"""A comparison for large pools: what a step touched, at every step; everything, now and then and at the end."""

from __future__ import annotations

from collections.abc import Sequence

from poolproof.fuzz.binding import Binding
from poolproof.fuzz.comparison import LISTED, FullComparison, Mismatch
from poolproof.slot_pool import SlotPool
from poolproof.spec.slots import NOBODY, Slot, Slots


class TouchedComparison:
    """Compares the shipped slot pool with the spec.

    After every step: all counts, and of each slot that the step touched the tenancy number and whether the holder that
    the spec names has it. After every `full_every` steps and by `finish`: the whole state.

    Args:
        binding: the target that `pool` is in.
        state: the spec's state.
        pool: the slot pool.
        full_every: the whole state is compared after this many steps; 0: by `finish` only.
    """

    def __init__(self, binding: Binding, state: Slots, pool: SlotPool, full_every: int) -> None:
        self._binding = binding
        self._state = state
        self._pool = pool
        self._full_every = full_every
        self._steps = 0

    def after(self, accepted: bool, ids: Sequence[int]) -> None:
        """See `Comparison.after`."""
        state, stats = self._state, self._pool.stats()
        ours = stats.free, stats.in_requests, stats.in_cache, stats.pending, stats.reserved
        theirs = (
            state.free_slots.size,
            state.in_requests,
            state.in_cache,
            state.in_pending,
            state.reserved_slots.size,
        )
        if ours != theirs:
            name, mine, its = next(row for row in zip(_COUNTS, ours, theirs, strict=True) if row[1] != row[2])
            raise Mismatch(name, (), mine, its)
        if ids:
            self._compare_touched(list(ids))
        self._steps += 1
        if self._full_every and self._steps % self._full_every == 0:
            self.finish()

    def _compare_touched(self, ids: list[int]) -> None:
        """These slots; the spec gives all of them to one holder, or to nobody."""
        tenancy = self._state.tenancy
        numbers = self._pool.tenancy(ids)
        wanted = [tenancy[Slot(slot)] for slot in ids]
        if numbers.tolist() != wanted:
            raise Mismatch("tenancy", ids[:LISTED], numbers.tolist()[:LISTED], wanted[:LISTED])
        holder = self._state.holder[Slot(ids[0])]
        live = self._pool.is_live(ids, numbers, max(holder, 0))
        if not (live.all() if holder > NOBODY else not live.any()):
            raise Mismatch("holder", ids[:LISTED], live.tolist()[:LISTED], [holder > NOBODY] * len(ids[:LISTED]))

    def finish(self) -> None:
        """Compare the whole state.

        Raises:
            Mismatch: it differs.
        """
        FullComparison(self._binding, self._state)


_COUNTS = ("available", "in_requests", "in_cache", "in_pending", "reserved_slots")
