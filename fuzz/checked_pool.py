"""The shipped slot pool with the spec in lockstep, at sizes where the whole state cannot be compared at every step.

After every step all counts are compared, and of the slots that the step touched the tenancy number and whether the
holder that the spec names owns them. Everything is compared every `full_every` steps and by `compare_all`, where the
spec's invariants and the pool's own checker are evaluated too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from poolproof.fuzz.comparison import LISTED, Difference, find_difference
from poolproof.fuzz.divergence import Divergence
from poolproof.owner import Owner
from poolproof.slot_pool import SlotPool
from poolproof.spec import slots as spec
from poolproof.spec.language import Refused
from poolproof.spec.slots import SPEC

Slots = NDArray[np.int64]


class CheckedPool:
    """A `SlotPool` and the spec; every method raises `Divergence` where the two disagree.

    Args:
        slots: number of usable slots.
        full_every: the whole state is compared after this many steps; 0: at `compare_all` only.
    """

    def __init__(self, slots: int, full_every: int = 0) -> None:
        self.pool = SlotPool(slots)
        self.state = SPEC.initial(total=slots + 1)
        self.steps = 0
        self._full_every = full_every

    @property
    def free_slots(self) -> int:
        """How many slots are free."""
        return self.pool.capacity()

    def alloc(self, n: int, request: int) -> Slots | None:
        """`SlotPool.try_alloc`."""
        slots = self.pool.try_alloc(n, request)
        if slots is None:
            if self.state.free_slots.size >= n:
                self._diverge("alloc", "verdict", (), "refused", "allowed", "I4")
        else:
            ids = slots.tolist()
            self._step("alloc", ids, spec.alloc_batch, request, ids)
        self._compare("alloc", slots, request)
        return slots

    def free(self, slots: Slots | Sequence[int], holder: int) -> None:
        """`SlotPool.free`."""
        ids = [int(slot) for slot in slots]
        self._call("free", ids, lambda: self.pool.free(slots, holder))
        self._step("free", ids, spec.free_batch, holder, ids)
        self._compare("free", np.asarray(ids, np.int64), None)

    def donate(self, slots: Slots, request: int, cache: int) -> None:
        """A request's slots pass on to a node of the cache."""
        ids = slots.tolist()
        self._call("transfer", ids, lambda: self.pool.transfer(slots, holder=request, to=Owner.CACHE, heir=cache))
        self._step("transfer", ids, spec.transfer_batch, request, ids, spec.Owner.CACHE, cache)
        self._compare("transfer", slots, cache)

    def _call(self, action: str, ids: list[int], call: Callable[[], object]) -> None:
        try:
            call()
        except Exception as error:
            self._diverge(action, "verdict", ids, f"refused: {type(error).__name__}: {error}", "allowed", "I2")

    def _step(self, action: str, ids: list[int], batch: Callable[..., None], *arguments: Any) -> None:
        try:
            batch(self.state, *arguments)
        except Refused:
            self._diverge(action, "verdict", ids, "done", "refused", "I1" if action == "alloc" else "I2")

    # ---------------------------------------------------------------------------------------------------- comparing

    def _compare(self, action: str, slots: Slots | None, holder: int | None) -> None:
        state, stats = self.state, self.pool.stats()
        for name, ours, theirs in (
            ("in_requests", stats.in_requests, state.in_requests),
            ("in_cache", stats.in_cache, state.in_cache),
            ("in_pending", stats.pending, state.in_pending),
            ("free_slots", stats.free, state.free_slots.size),
            ("reserved_slots", stats.reserved, state.reserved_slots.size),
        ):
            if ours != theirs:
                self._diverge(action, name, (), ours, theirs, "I21")
        if slots is not None and len(slots):
            self._compare_slots(action, slots, holder)
        self.steps += 1
        if self._full_every and self.steps % self._full_every == 0:
            self.compare_all()

    def _compare_slots(self, action: str, slots: Slots, holder: int | None) -> None:
        """The slots that a step touched; `holder` has them now, or nobody does (None)."""
        ids, tenancy = slots.tolist(), self.state.tenancy
        numbers = self.pool.tenancy(slots)
        wanted = [tenancy[slot] for slot in ids]
        if numbers.tolist() != wanted:
            self._diverge(action, "tenancy", ids, numbers.tolist()[:LISTED], wanted[:LISTED], "I3")
        if holder is not None and not self.pool.is_live(slots, numbers, holder).all():
            self._diverge(action, "holder", ids, f"{holder} does not hold them all", holder, "I1")

    def compare_all(self) -> None:
        """Compare the whole state, and evaluate the spec's invariants and the pool's own checker."""
        found = find_difference(self.pool.snapshot(), self.state)
        if found is not None:
            raise Divergence(self.steps, "compare", "the whole state", found)
        for violation in self.pool.check():
            self._diverge("compare", "check", (), str(violation), "nothing wrong", violation.theorem)
        for name in SPEC.violations(self.state):
            self._diverge("compare", "invariant", (), name, "holds", "")

    def _diverge(self, action: str, field: str, ids: Sequence[int], ours: Any, theirs: Any, theorem: str) -> NoReturn:
        told = f"{action} {list(ids[:LISTED])}"
        raise Divergence(self.steps, action, told, Difference(field, tuple(ids[:LISTED]), ours, theirs, theorem))
