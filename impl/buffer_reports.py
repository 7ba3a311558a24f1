"""What a unified pool tells about itself: figures for people, and the whole state for comparison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from numpy.typing import NDArray

from poolproof.page_table import FILLED, PUBLISHED

if TYPE_CHECKING:
    from poolproof.page_table import PageTable
    from poolproof.steps import Step
    from poolproof.unified_pool import UnifiedPool

Numbers: TypeAlias = tuple[int, ...]
Sets: TypeAlias = tuple[tuple[str, Numbers], ...]
"""Pages by sub-pool, in the order of the names."""

_COLUMNS: Final = ("sub-pool", "kind", "page bytes", "bound", "holes", "pending", "extent bytes", "used bytes")
_MORE_COLUMNS: Final = ("free ids", "of ids", "leases", "gates")


@dataclass(frozen=True)
class SubPoolStats:
    """One sub-pool in figures.

    Attributes:
        name: of the sub-pool.
        kind: "kv", "mla", "window", "state", "checkpoint" or "pages".
        page_bytes: bytes of a page.
        ids: ids that there are, the sink's not counted.
        bound: ids that lead to a page.
        holes: free pages inside the extent.
        pending: pages that were let go of and are kept for a step, a lease or a group of frees.
        extent_bytes: bytes from the extent's first page to its last.
        used_bytes: bytes of the bound pages.
        free_ids: ids that could be given a page: free ones, or for a window live ones of its owner without a page.
        leases: leases that are held.
        gates: gates that are closed.
    """

    name: str
    kind: str
    page_bytes: int
    ids: int
    bound: int
    holes: int
    pending: int
    extent_bytes: int
    used_bytes: int
    free_ids: int
    leases: int
    gates: int


@dataclass(frozen=True)
class BufferStats:
    """A unified pool in figures; printed, it is a small table.

    Attributes:
        sub_pools: in the order of the chain, from byte 0 up.
        total_bytes: bytes of the buffer.
        sink_bytes: bytes at its beginning that nobody is given.
        gap_bytes: bytes between the extents, which are nobody's now.
        used_bytes: bytes of all bound pages.
        steps: steps in flight, the pool's own among them.
    """

    sub_pools: tuple[SubPoolStats, ...]
    total_bytes: int
    sink_bytes: int
    gap_bytes: int
    used_bytes: int
    steps: int

    def __str__(self) -> str:
        rows = [(*_COLUMNS, *_MORE_COLUMNS), *map(_row, self.sub_pools)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [_line(row, widths) for row in rows]
        steps = "1 step" if self.steps == 1 else f"{self.steps} steps"
        return "\n".join(
            [
                f"{self.total_bytes:,} bytes: {self.used_bytes:,} used, {self.gap_bytes:,} in gaps, "
                f"{self.sink_bytes:,} of the sink; {steps} in flight",
                *lines,
            ]
        )


class StepSnapshot(NamedTuple):
    """A step in flight.

    Attributes:
        number: its place in the order in which all steps began.
        stream: "home", or the stream as it prints.
        phase: name of its `Phase`, in lower case.
        own: whether it is the pool's own.
        began: the pool's time when it began.
        reads, writes, touched: pages by sub-pool.
        waits: numbers of the steps that it waits for, sorted.
    """

    number: int
    stream: str
    phase: str
    own: bool
    began: int
    reads: Sets
    writes: Sets
    touched: Sets
    waits: Numbers


class SubPoolSnapshot(NamedTuple):
    """One sub-pool's tables, under the names that the spec has for them.

    Attributes:
        name: of the sub-pool.
        first, last: the extent is the pages first to last - 1.
        physical: the page of each id, -1 for none, 0 for the sink.
        virtual: the id of each page, -1 for none, 0 for the sink.
        holes, pending: pages in the order of the lists.
        bound: ids that lead to a page.
        free_ids: ids in the order in which they are handed out; () for a window.
        filled, published: ids whose pages are written, and can be given to others.
        born: the pool's time of each id's last bind.
        to_zero: pages that wait to be zeroed.
        hold: how many leases, steps away from home and deferred frees keep each page.
        deferred: pages that the open group of frees keeps, in the order of the frees.
    """

    name: str
    first: int
    last: int
    physical: Numbers
    virtual: Numbers
    holes: Numbers
    pending: Numbers
    bound: int
    free_ids: Numbers
    filled: Numbers
    published: Numbers
    born: Numbers
    to_zero: Numbers
    hold: Numbers
    deferred: Numbers


class BufferSnapshot(NamedTuple):
    """Everything that decides what a unified pool does next, its bytes excepted, as plain ints and texts.

    Attributes:
        total: bytes of the buffer.
        time: how many binds and begun steps there have been.
        sub_pools: in the order of the chain.
        steps: in flight, in the order in which they began.
        leases: (sub-pool, pages, why) of those that hold pages, in the order in which they were taken.
        gates: (sub-pool, why) of the closed ones, in the order in which they were closed.
        group_is_open: whether a group of frees is.
    """

    total: int
    time: int
    sub_pools: tuple[SubPoolSnapshot, ...]
    steps: tuple[StepSnapshot, ...]
    leases: tuple[tuple[str, Numbers, str], ...]
    gates: tuple[tuple[str, str], ...]
    group_is_open: bool


def buffer_stats(pool: UnifiedPool) -> BufferStats:
    """The pool in figures."""
    leases = Counter(lease.name for lease in pool._leases)
    gates = Counter(gate.name for gate in pool._gates)
    rows = tuple(_stats(pool, k, leases, gates) for k in range(len(pool._tables)))
    return BufferStats(
        sub_pools=rows,
        total_bytes=pool.total_bytes,
        sink_bytes=pool.sink_bytes,
        gap_bytes=pool.total_bytes - pool.sink_bytes - sum(row.extent_bytes for row in rows),
        used_bytes=sum(row.used_bytes for row in rows),
        steps=len(pool._flight.steps),
    )


def _stats(pool: UnifiedPool, k: int, leases: Mapping[str, int], gates: Mapping[str, int]) -> SubPoolStats:
    layout, table, owner = pool.layouts[k], pool._tables[k], pool._owners[k]
    return SubPoolStats(
        name=layout.name,
        kind=layout.kind,
        page_bytes=layout.page_bytes,
        ids=table.ids - 1,
        bound=table.bound,
        holes=table.holes.size,
        pending=table.pending.size,
        extent_bytes=int(table.last - table.first) * layout.page_bytes,
        used_bytes=table.bound * layout.page_bytes,
        free_ids=table.free_ids if owner == k else pool._tables[owner].bound - table.bound,
        leases=leases.get(layout.name, 0),
        gates=gates.get(layout.name, 0),
    )


def _row(row: SubPoolStats) -> tuple[str, ...]:
    figures = (row.page_bytes, row.bound, row.holes, row.pending, row.extent_bytes, row.used_bytes)
    more = (row.free_ids, row.ids, row.leases, row.gates)
    return (row.name, row.kind, *(f"{figure:,}" for figure in figures + more))


def _line(row: tuple[str, ...], widths: list[int]) -> str:
    texts = [cell.ljust(width) for cell, width in zip(row[:2], widths[:2], strict=True)]
    return "  ".join(texts + [cell.rjust(width) for cell, width in zip(row[2:], widths[2:], strict=True)])


def buffer_snapshot(pool: UnifiedPool) -> BufferSnapshot:
    """The whole state."""
    return BufferSnapshot(
        total=pool.total_bytes,
        time=pool._time,
        sub_pools=tuple(_sub_pool(pool, table) for table in pool._tables),
        steps=tuple(_step(step) for step in pool._flight),
        leases=tuple((lease.name, _ints(lease.physical), lease.why) for lease in pool._leases),
        gates=tuple((gate.name, gate.why) for gate in pool._gates),
        group_is_open=pool._group is not None,
    )


def _sub_pool(pool: UnifiedPool, table: PageTable) -> SubPoolSnapshot:
    owns = pool._owners[table.index] == table.index
    return SubPoolSnapshot(
        name=pool.layouts[table.index].name,
        first=int(table.first),
        last=int(table.last),
        physical=_ints(table.physical[:-1]),
        virtual=_ints(table.virtual[:-1]),
        holes=_ints(table.holes.members),
        pending=_ints(table.pending.members),
        bound=int(table.bound),
        free_ids=_ints(table._free_ids[table._free_head :]) if owns else (),
        filled=_ints((table.flags & FILLED).nonzero()[0]),
        published=_ints((table.flags & PUBLISHED).nonzero()[0]),
        born=_ints(table.born),
        to_zero=_ints(table.to_zero.nonzero()[0]),
        hold=_ints(table.hold),
        deferred=tuple(page for pages in pool._deferred.get(table.index, ()) for page in pages.tolist()),
    )


def _step(step: Step) -> StepSnapshot:
    return StepSnapshot(
        number=step.number,
        stream="home" if step.is_home else repr(step.stream),
        phase=step.phase.value,
        own=step.own,
        began=step.began,
        reads=_sets(step.reads),
        writes=_sets(step.writes),
        touched=_sets(step.touched),
        waits=tuple(sorted(other.number for other in step.waits)),
    )


def _sets(sets: Mapping[str, NDArray[Any]]) -> Sets:
    return tuple((name, _ints(sets[name])) for name in sorted(sets))


def _ints(numbers: NDArray[Any]) -> Numbers:
    return tuple(numbers.tolist())
