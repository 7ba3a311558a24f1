"""Making room: which pages move into which holes, so that frontiers retreat and floats give way.

Only as much moves as is asked for. Whether there is enough room at all is worked out beforehand, by `poolproof.chain`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import numpy as np

from poolproof.chain import Span
from poolproof.page_table import NO_ID, Pages, PageTable
from poolproof.spec.arithmetic import ceil_div

_LOOK: Final = 256


class Move(NamedTuple):
    """Pages of one sub-pool that were moved.

    Attributes:
        name: the sub-pool.
        ids: [n], whose pages they are.
        sources, targets: [n], the pages before and after.
    """

    name: str
    ids: Pages
    sources: Pages
    targets: Pages


class Compaction:
    """The moves of one buffer.

    Args:
        tables: in the order of the chain.
        sink_bytes: what lies below is nobody's.
        total: bytes of the buffer.
        move: moves bound pages of a table into holes, sources and holes as given.
    """

    def __init__(
        self,
        tables: list[PageTable],
        sink_bytes: int,
        total: int,
        move: Callable[[PageTable, Pages, Pages], None],
    ) -> None:
        self._tables, self._sink_bytes, self._total, self._move = tables, sink_bytes, total, move

    # ------------------------------------------------------------------------------------------------- room as it is

    def ceiling(self, k: int) -> int:
        """The byte at which the next extent above begins."""
        table = self._next(self._tables[k + 1 :])
        return self._total if table is None else table.first * table.page_bytes

    def floor(self, k: int) -> int:
        """The byte at which the next extent below ends."""
        table = self._next(reversed(self._tables[:k]))
        return self._sink_bytes if table is None else table.last * table.page_bytes

    @staticmethod
    def _next(tables: Iterable[PageTable]) -> PageTable | None:
        """The first of these that has pages."""
        return next((table for table in tables if not table.is_empty), None)

    def gap_above(self, k: int) -> int:
        """How many pages extent k can grow upwards by as things are; an empty float counts from the next one below."""
        table = self._tables[k]
        return 0 if table.is_down else self.ceiling(k) // table.page_bytes - table.last

    def gap_below(self, k: int) -> int:
        """How many pages extent k can grow downwards by as things are."""
        table = self._tables[k]
        return 0 if table.is_up else table.first + -self.floor(k) // table.page_bytes

    # ---------------------------------------------------------------------------------------------------- making room

    def clear_above(self, k: int, byte: int) -> None:
        """Every extent above k begins at this byte or later."""
        table = self._next(self._tables[k + 1 :])
        if table is not None and table.first * table.page_bytes < byte:
            self._vacate_low(table, ceil_div(byte, table.page_bytes))

    def clear_below(self, k: int, byte: int) -> None:
        """Every extent below k ends at this byte or earlier."""
        table = self._next(reversed(self._tables[:k]))
        if table is not None and table.last * table.page_bytes > byte:
            self._vacate_high(table, byte // table.page_bytes)

    def _vacate_low(self, table: PageTable, target: int) -> None:
        """The extent begins at page `target` or later."""
        sources, holes = self._split(table, table.first, min(target, table.last))
        if len(sources) > holes:
            end = max(table.last, target) + len(sources) - holes
            self.clear_above(table.index, end * table.page_bytes)
            table.widen(end - table.last, upwards=True)
        self._into_holes(table, sources, target, table.last)

    def _vacate_high(self, table: PageTable, target: int) -> None:
        """The extent ends at page `target` or earlier."""
        sources, holes = self._split(table, max(target, table.first), table.last)
        if len(sources) > holes:
            start = min(table.first, target) - (len(sources) - holes)
            self.clear_below(table.index, start * table.page_bytes)
            table.widen(table.first - start, upwards=False)
        self._into_holes(table, sources, table.first, target)

    def _split(self, table: PageTable, first: int, last: int) -> tuple[Pages, int]:
        """The bound pages in a part of the extent where none is pending, and how many holes there are elsewhere."""
        sources = first + np.flatnonzero(table.virtual[first:last] != NO_ID)
        return sources, table.holes.size - (last - first - len(sources))

    def _into_holes(self, table: PageTable, sources: Pages, low: int, high: int) -> None:
        if len(sources):
            self._move(table, sources, table.holes.some(len(sources), low, high))
        table.trim()

    # ------------------------------------------------------------------------------------------------ quiet moments

    def shrink(self, k: int, span: Span, most: int | None) -> None:
        """The holes of an extent leave it, as far as that takes at most so many moves, and past nothing that is fixed.

        Ends shrink towards where they begin, floats towards their lower side.
        """
        table = self._tables[k]
        if not table.holes.size or most == 0:
            return
        if table.is_down:
            target = min(span.low, table.last - table.size)
            cut = table.first + self._affordable(table.virtual[table.first : target], most)
            self._vacate_low(table, cut)
        else:
            target = max(span.high, table.first + table.size)
            cut = table.last - self._affordable(table.virtual[target : table.last][::-1], most)
            self._vacate_high(table, cut)

    @staticmethod
    def _affordable(ids: Pages, most: int | None) -> int:
        """How many pages from the frontier on hold no more than so many bound ones; looked at part by part."""
        if most is None or len(ids) <= most:
            return len(ids)
        start, look = 0, _LOOK
        while start < len(ids):
            bound = np.cumsum(ids[start : start + look] != NO_ID)
            if bound[-1] > most:
                return start + int(np.searchsorted(bound, most, side="right"))
            most -= int(bound[-1])
            start += look
            look *= 2
        return len(ids)
