"""A unified pool with its bound pages counted beside it, and with promises: pages that running requests may yet need.

The counts are kept from what the calls say, not asked of the pool, so that they can be held against it at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poolproof.events import Immediate
from poolproof.steps import Step
from poolproof.sub_pools import Declaration
from poolproof.unified_pool import UnifiedPool

Pages = NDArray[np.int64]


class MoveCounter(Immediate):
    """A host's events that count the moves: each is one copy of some pages of one sub-pool.

    Attributes:
        own_steps: steps of the pool's own.
        copies: those of them that are moves.
        pages: pages moved, by sub-pool.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.own_steps = self.copies = 0
        self.pages = dict.fromkeys(names, 0)

    def run(self, step: Step | None, work: Callable[[], None]) -> None:
        """See `EventSource`; the pool's own steps that read are moves."""
        if step is None:
            super().run(step, work)
            return
        self.own_steps += 1
        for name, sources in step.reads.items():
            self.copies += 1
            self.pages[name] += len(sources)
        super().run(step, work)


class CountedPool:
    """A pool on `meta`, and what is known of it from outside.

    Attributes:
        pool: the pool.
        page_bytes: by sub-pool.
        bound: pages bound now, by sub-pool.
        promised: pages that were promised and are not bound yet, by sub-pool.
        peak: most pages bound at once, by sub-pool.
        peak_bytes: most bytes bound at once, of all sub-pools together.
        idle_copies: moves at quiet moments; all others made room for an allocation.
    """

    def __init__(self, total_bytes: int, sub_pools: Sequence[Declaration], shadow: bool = False) -> None:
        self.moves = MoveCounter([declaration.name for declaration in sub_pools])
        self.pool = UnifiedPool(total_bytes, sub_pools, device="meta", events=self.moves, shadow=shadow)
        self.page_bytes = {layout.name: layout.page_bytes for layout in self.pool.layouts}
        self.bound = dict.fromkeys(self.page_bytes, 0)
        self.promised = dict.fromkeys(self.page_bytes, 0)
        self.peak = dict.fromkeys(self.page_bytes, 0)
        self.peak_bytes = self.bytes = self.idle_copies = 0
        self._slack = sum(layout.page_bytes for layout in self.pool.layouts)

    # ----------------------------------------------------------------------------------------------- before a grant

    def fits(self, demand: Mapping[str, int]) -> bool:
        """Can all promises be kept, and this demand be met too?"""
        return self.pool.fits({name: n + demand.get(name, 0) for name, n in self.promised.items()})

    def surely_fits_without(self, idle: Mapping[str, int], demand: Mapping[str, int]) -> bool:
        """Would the demand fit, wherever things lie, if these pages were freed? Less than a page of each is lost."""
        sizes = self.page_bytes
        wanted = sum(
            (self.promised[name] + demand.get(name, 0) - idle.get(name, 0)) * size for name, size in sizes.items()
        )
        return self.bytes + wanted + self._slack + self.pool.sink_bytes <= self.pool.total_bytes

    def promise(self, demand: Mapping[str, int], sign: int = 1) -> None:
        """So many more pages are promised; with a sign of -1, no longer."""
        for name, n in demand.items():
            self.promised[name] += sign * n

    # ------------------------------------------------------------------------------------------------------- changes

    def alloc(self, demand: Mapping[str, int]) -> dict[str, Pages]:
        """As the pool's own."""
        given = self.pool.alloc(demand)
        for name, ids in given.items():
            self._bind(name, len(ids))
        return given

    def extend(self, tails: Pages, old: Pages, new: Pages) -> Pages:
        """As that of "full"; the pages were promised."""
        ids = self.pool["full"].extend(tails, old, new)
        self._bind("full", len(ids))
        self.promised["full"] -= len(ids)
        return ids

    def bind_window(self, ids: Pages) -> None:
        """Pages of the window for ids of "full"; they were promised."""
        self.pool["window"].bind(ids)
        self._bind("window", len(ids))
        self.promised["window"] -= len(ids)

    def free(self, name: str, ids: Pages, windowed: int = 0) -> None:
        """Ids die, with so many pages of the window."""
        if not len(ids):
            return
        self.pool[name].free(ids)
        self._bind(name, -len(ids))
        if windowed:
            self._bind("window", -windowed)

    def _bind(self, name: str, n: int) -> None:
        self.bound[name] += n
        self.bytes += n * self.page_bytes[name]
        if n > 0:
            self.peak[name] = max(self.peak[name], self.bound[name])
            self.peak_bytes = max(self.peak_bytes, self.bytes)

    def compact(self) -> None:
        """A quiet moment."""
        self.idle_copies += len(self.pool.compact())

    def capacities(self) -> dict[str, Any]:
        """What one allocation of each sub-pool could get."""
        return {name: self.pool.capacity(name) for name in self.page_bytes}
