"""Unified pools that are broken on purpose, each in one way that a public report had: the fuzzer must find them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from poolproof import chain
from poolproof.page_table import NOTHING, PageTable, Range
from poolproof.steps import Flight, Step
from poolproof.unified_pool import UnifiedPool

Pages = NDArray[np.int64]


class WaitsForNobody(UnifiedPool):
    """A step does not wait for the steps on other streams that it depends on."""

    def _to_wait_for(self, stream: Any, read: Any, written: Any, after: Sequence[Step]) -> set[Step]:
        return set()


class _ShortSighted(Flight):
    def before(self, step: Step) -> tuple[Step | None, list[Step]]:
        return next((other for other in self if other.is_before(step) and not other.own), None), super().before(step)[1]


class LooksPastItsOwn(UnifiedPool):
    """A step can be completed before what the pool's own steps ahead of it wait for."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._flight = _ShortSighted()


class LeavesOldBytes(UnifiedPool):
    """Pages that are handed out are not zeroed."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        refresh = self._bytes.refresh
        none = [NOTHING] * len(self._tables)
        self._bytes.refresh = lambda zeros, changes: refresh(none, changes)  # type: ignore[method-assign]


class CopiesInAnotherOrder(UnifiedPool):
    """A compaction copies the right pages to the wrong holes."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        copy = self._bytes.copy
        self._bytes.copy = lambda page_bytes, sources, targets: copy(page_bytes, sources[::-1], targets)  # type: ignore


class KeepsNothingForSteps(UnifiedPool):
    """A page that a step away from home still touches is handed out again."""

    def _hold_for(self, step: Step) -> None:
        pass


class MovesWhatIsLeased(UnifiedPool):
    """A compaction moves pages that somebody outside addresses."""

    def _fixed(self, k: int) -> Range | None:
        leases, self._leases = self._leases, []
        try:
            return super()._fixed(k)
        finally:
            self._leases = leases


class MovesPastGates(UnifiedPool):
    """A compaction moves pages behind a closed gate."""

    def _fixed(self, k: int) -> Range | None:
        gates, self._gates = self._gates, []
        try:
            return super()._fixed(k)
        finally:
            self._gates = gates


class MovesBehindOpenSteps(UnifiedPool):
    """A compaction copies ahead of a step that has resolved its pages and is not on the stream yet."""

    def _fixed(self, k: int) -> Range | None:
        fixed = super()._fixed(k)
        return (chain.NOWHERE, 0) if fixed is None else fixed


class CountsOneTooMany(UnifiedPool):
    """The capacity counts a page that cannot be had."""

    def _room(self, k: int) -> int:
        return super()._room(k) + 1


class ForgetsWindows(UnifiedPool):
    """An owner's ids die, and the window's pages for them stay bound."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._windows = [[] for _ in self._windows]


class KeepsHolds(UnifiedPool):
    """Pages that were kept for a step are never given back."""

    def _complete(self, step: Step) -> None:
        step.touched = {}
        super()._complete(step)


class ZeroesWhatHasMovedOn(UnifiedPool):
    """A queued zeroing is done whatever has become of the page since."""

    def _refresh(self, with_tables: bool = True) -> None:
        for table in self._tables:
            if table._queue:
                table.to_zero[np.concatenate(table._queue)] = True
                table.waiting = 1
        super()._refresh(with_tables)


class FreesInGroupsAtOnce(UnifiedPool):
    """A group of deferred frees defers nothing."""

    def _let_go(self, table: PageTable, ids: Pages, pages: Pages) -> None:
        if len(ids):
            table.let_go(ids, pages)


class PublishesForOthers(UnifiedPool):
    """A step publishes an id that has died and been given out again since."""

    def _same(self, step: Step, name: str, ids: Any) -> NDArray[np.bool_]:
        return np.ones(len(ids), np.bool_)


class CrossesFrontiers(UnifiedPool):
    """An extent grows over the one above it."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._compaction.ceiling = lambda k: self.total_bytes  # type: ignore[method-assign]


class CountsAGapTwice(UnifiedPool):
    """Two demands are each compared with the room there is, not together."""

    def _starts(self, wanted: list[int]) -> list[int] | None:
        starts = super()._starts(wanted)
        if starts is None and all(n <= self._have(table) for n, table in zip(wanted, self._tables, strict=True)):
            starts = [table.first for table in self._tables]
        return starts


class RemembersTheRoom(UnifiedPool):
    """The room that was worked out is used again after a neighbour has grown."""

    def _room(self, k: int) -> int:
        if k not in self._capacities:
            self._capacities[k] = 0, chain.room(self._spans(), k, self.sink_bytes, self.total_bytes)
        return self._capacities[k][1]


CANARIES: Final[tuple[Callable[..., UnifiedPool], ...]] = (
    WaitsForNobody,
    LeavesOldBytes,
    CopiesInAnotherOrder,
    KeepsNothingForSteps,
    MovesWhatIsLeased,
    MovesPastGates,
    MovesBehindOpenSteps,
    CountsOneTooMany,
    ForgetsWindows,
    KeepsHolds,
    ZeroesWhatHasMovedOn,
    FreesInGroupsAtOnce,
    PublishesForOthers,
    CrossesFrontiers,
    CountsAGapTwice,
    RemembersTheRoom,
)
