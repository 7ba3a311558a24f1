"""The spec in lockstep with a unified pool: every change of the pool is a step of `poolproof.spec.schedule`.

The pool tells its journal what it does, under the names of the spec's actions. Each is applied to a state of the spec,
whose guards say whether it is allowed, and after each operation of the pool the two are compared in full. The spec's
ghosts, what every byte holds, are left out here; the fuzzer looks at the bytes themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import TYPE_CHECKING, Any, Final, NoReturn

from poolproof.errors import SpecViolation
from poolproof.page_table import FILLED, PUBLISHED
from poolproof.spec import schedule as spec
from poolproof.spec.arithmetic import ceil_div
from poolproof.spec.language import Refused

if TYPE_CHECKING:
    from poolproof.page_table import PageTable
    from poolproof.steps import Step
    from poolproof.unified_pool import UnifiedPool

STEPS: Final = 12
LEASES: Final = 12
STAMP: Final = 1
"""What a write writes: of which write it is, only ghosts tell."""

_LISTED: Final = 8
_BATCHES: Final[dict[str, Callable[..., None]]] = {
    "take_hole": spec.take_hole,
    "take_frontier": spec.take_frontier,
    "let_go": spec.let_go,
    "let_go_later": spec.let_go_later,
    "take_back": spec.take_back,
    "widen": spec.widen,
}
"""Actions of a sub-pool, once for each element of the arrays."""

_OF_STEPS: Final[dict[str, Callable[..., None]]] = {
    "relocate": spec.relocate,
    "zero": spec.zero,
    "read": spec.read,
    "publish": spec.publish,
}
"""The same of a step and a sub-pool."""

_PLAIN: Final[dict[str, Callable[..., None]]] = {
    "put_float": spec.put_float,
    "lay_float_aside": spec.lay_float_aside,
    "end_group": spec.end_group,
    "clear": spec.clear,
}


class BufferShadow:
    """The spec's state beside a new pool; the pool calls it with every change.

    Args:
        pool: a new pool.
        steps, leases: how many steps can be in flight or over, and how many leases and gates held, at a time.

    Attributes:
        state: the spec's, whose ids are plain ints here.
        taken: steps of the spec that were taken.
        counts: the same by action.
        history: every change as text, where it is a list; None by default.
    """

    def __init__(self, pool: UnifiedPool, steps: int = STEPS, leases: int = LEASES) -> None:
        self._pool = pool
        self.state: Any = _initial(pool, steps, leases)
        self.taken = 0
        self.counts: dict[str, int] = {}
        self._streams: list[Any] = [None]
        self._steps: dict[int, Step] = {}
        self._holders: dict[int, Any] = {}
        self._told: list[str] = []
        self.history: list[str] | None = None
        self.compare("create")

    # ------------------------------------------------------------------------------------------------------- journal

    def __call__(self, action: str, *arguments: Any) -> None:
        """The pool has done this.

        Raises:
            SpecViolation: the spec refuses it.
        """
        self._told.append(f"{action}({', '.join(map(_short, arguments))})")
        if self.history is not None:
            self.history.append(self._told[-1])
        getattr(self, f"_{action}", self._others)(action, *arguments)

    def done(self, operation: str) -> None:
        """An operation of the pool is over.

        Raises:
            SpecViolation: the pool and the spec are in different states.
        """
        self.compare(operation)
        self._told = []

    def _others(self, action: str, *arguments: Any) -> None:
        if action in _BATCHES:
            k, *columns = arguments
            for row in zip(*(column.tolist() for column in columns), strict=True):
                self._do(action, _BATCHES[action], k, *row)
        elif action in _OF_STEPS:
            step, k, *columns = arguments
            for row in zip(*(column.tolist() for column in columns), strict=True):
                self._do(action, _OF_STEPS[action], self.number(step), k, *row)
        else:
            self._do(action, _PLAIN[action], *arguments)

    def _do(self, action: str, function: Callable[..., None], *arguments: Any) -> None:
        try:
            function(self.state, *arguments)
        except Refused as refusal:
            told = "; ".join(self._told[-_LISTED:])
            raise SpecViolation(
                f"{action}{arguments}", "verdict", (), "done", "refused", f"{refusal}; {told}"
            ) from refusal
        self.taken += 1
        self.counts[action] = self.counts.get(action, 0) + 1

    def _begin(self, action: str, step: Step) -> None:
        if step.stream not in self._streams:
            self._streams.append(step.stream)
        self._steps[self._free_step()] = step
        self._do(action, spec.begin, self.number(step), self._streams.index(step.stream))

    def _free_step(self) -> int:
        """A place for a step; where all are taken, the step that has been over for longest gives up its own."""
        for number in range(self.state.steps):
            if number not in self._steps:
                return number
        over = [number for number, step in self._steps.items() if not step.is_in_flight]
        if not over:
            raise SpecViolation("begin", "steps", (), "more", f"{self.state.steps} at most in a shadowed pool")
        number = min(over, key=lambda number: self._steps[number].number)
        self._pool._end_results(self._steps[number])  # and no more: the pool is in the midst of an operation
        return number

    def _wait_for(self, action: str, step: Step, other: Step) -> None:
        self._do(action, spec.wait_for, self.number(step), self.number(other))

    def _write_page(self, action: str, step: Step, k: int, ids: Any) -> None:
        for v in ids.tolist():
            self._do(action, spec.write_page, self.number(step), k, v, STAMP)

    def _launch(self, action: str, step: Step) -> None:
        self._do(action, spec.launch, self.number(step))

    def _complete(self, action: str, step: Step) -> None:
        self._do(action, spec.complete, self.number(step))

    def _retire(self, action: str, step: Step) -> None:
        number = self.number(step)
        self._do(action, spec.retire, number)
        del self._steps[number]

    def _give_up_high(self, action: str, k: int, n: int) -> None:
        for _ in range(n):
            self._do(action, spec.give_up_high, k)

    def _give_up_low(self, action: str, k: int, n: int) -> None:
        for _ in range(n):
            self._do(action, spec.give_up_low, k)

    def _lease_page(self, action: str, lease: Any, k: int, ids: Any) -> None:
        for v in ids.tolist():
            self._do(action, spec.lease_page, self._holder(lease), k, v)

    def _release_page(self, action: str, lease: Any, k: int, pages: Any) -> None:
        for page in pages.tolist():
            self._do(action, spec.release_page, self._holder(lease), k, page)
        self._forget(lease)

    def _close_gate(self, action: str, gate: Any, k: int) -> None:
        self._do(action, spec.close_gate, self._holder(gate), k)

    def _open_gate(self, action: str, gate: Any, k: int) -> None:
        self._do(action, spec.open_gate, self._holder(gate), k)
        self._forget(gate)

    def number(self, step: Step) -> int:
        """The spec's number of a step."""
        return next(number for number, other in self._steps.items() if other is step)

    def _holder(self, held: Any) -> int:
        """The spec's number of a lease or gate."""
        for number, other in self._holders.items():
            if other is held:
                return number
        number = self.free_holder()
        if number < 0:
            raise SpecViolation("lease", "leases", (), "more", f"{self.state.leases} at most in a shadowed pool")
        self._holders[number] = held
        return number

    def free_holder(self) -> int:
        """A number that no lease or gate has; -1 where all are taken."""
        return next((n for n in range(self.state.leases) if n not in self._holders), -1)

    def _forget(self, held: Any) -> None:
        self._holders = {number: other for number, other in self._holders.items() if other is not held}

    # ---------------------------------------------------------------------------------------------------- comparison

    def compare(self, operation: str) -> None:
        """Compare the pool's tables with the spec's.

        Raises:
            SpecViolation: they differ.
        """
        buffer = self.state.buffer
        for k, table in enumerate(self._pool._tables):
            for field, ours, theirs in (
                ("first", table.first, buffer.first[k]),
                ("last", table.last, buffer.last[k]),
                ("bound", table.bound, buffer.bound[k]),
            ):
                if ours != theirs:
                    self._fail(operation, f"{field}[{k}]", (), ours, theirs)
            self._compare_ids(operation, k, table)
            self._compare_pages(operation, k, table)

    def _compare_ids(self, operation: str, k: int, table: PageTable) -> None:
        buffer, ids = self.state.buffer, range(table.ids)
        flags = table.flags.tolist()
        free = set(table._free_ids[table._free_head :].tolist()) if self._pool._owns_ids(table) else None
        self._same(
            operation, f"physical[{k}]", table.physical[: table.ids].tolist(), [buffer.physical[k, v] for v in ids]
        )
        filled, published = ([bool(flag & bit) for flag in flags] for bit in (FILLED, PUBLISHED))
        self._same(operation, f"filled[{k}]", filled, [self.state.filled[k, v] for v in ids])
        self._same(operation, f"published[{k}]", published, [self.state.published[k, v] for v in ids])
        if free is not None:
            self._same(operation, f"unmapped[{k}]", sorted(free), sorted(buffer.unmapped[k].members))

    def _compare_pages(self, operation: str, k: int, table: PageTable) -> None:
        buffer, pages = self.state.buffer, range(len(table.hold))
        self._same(
            operation, f"virtual[{k}]", table.virtual[: len(pages)].tolist(), [buffer.virtual[k, p] for p in pages]
        )
        self._same(operation, f"to_zero[{k}]", table.to_zero.tolist(), [self.state.to_zero[k, p] for p in pages])
        for field, ours, theirs in (
            ("holes", table.holes.members, buffer.holes[k].members),
            ("pending", table.pending.members, buffer.pending[k].members),
        ):
            self._same(operation, f"{field}[{k}]", sorted(ours.tolist()), sorted(theirs))
        away = self._pool._flight.away
        name = self._pool.layouts[k].name
        touching = [sum(p in step.touched.get(name, ()) for step in away) for p in pages]
        deferred = [(k, p) in self.state.deferred for p in pages]
        held = [self.state.pins[k, p] + touching[p] + deferred[p] for p in pages]
        self._same(operation, f"hold[{k}]", table.hold.tolist(), held)

    def _same(self, operation: str, field: str, ours: list[Any], theirs: list[Any]) -> None:
        if ours != theirs:
            at = [n for n, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b][:_LISTED]
            if len(ours) != len(theirs):
                self._fail(operation, field, (), ours, theirs)
            self._fail(operation, field, at, [ours[n] for n in at], [theirs[n] for n in at])

    def _fail(self, operation: str, field: str, at: Any, ours: Any, theirs: Any) -> NoReturn:
        raise SpecViolation(operation, field, at, ours, theirs, "; ".join(self._told[-_LISTED:]))


def _short(value: Any) -> str:
    return str(value.tolist()) if hasattr(value, "tolist") else str(value)


def _initial(pool: UnifiedPool, steps: int, leases: int) -> spec.Schedule:
    """The spec's state for the layouts of a pool.

    Bytes are counted in units of which every page is a whole number, without the rest at the end: no page begins or
    ends inside a unit, so that all comparisons come out alike, and the state is no larger than its tables.
    """
    unit = gcd(*(layout.page_bytes for layout in pool.layouts))
    sizes, total = [layout.page_bytes // unit for layout in pool.layouts], pool.total_bytes // unit
    sink = pool.sink_bytes // unit
    tables = pool._tables
    buffer = {
        "sub_pools": len(tables),
        "pages": max(total // size for size in sizes),
        "virtual_ids": max(table.ids for table in tables),
        "total": total,
        "page_bytes": sizes,
        "ids": [table.ids for table in tables],
        "id_owner": pool._owners,
        "zeroed": [layout.zeroed for layout in pool.layouts],
        "sink_bytes": sink,
        "bottom": ceil_div(sink, sizes[0]),
        "top": total // sizes[-1],
    }
    return spec.SPEC.initial(buffer=buffer, steps=steps, leases=leases).without_ghosts()
