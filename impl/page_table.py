"""The tables of one sub-pool: which id leads to which page, where its extent lies, and what in it is free.

Every change is one that `poolproof.spec.schedule` has an action for, or a batch of them, and is told to the journal
under that action's name. Whether a change is allowed is for the callers to have checked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from poolproof.chain import NOWHERE, Span
from poolproof.page_list import PageList

if TYPE_CHECKING:
    from poolproof.steps import Step

Pages: TypeAlias = NDArray[np.int64]
Range: TypeAlias = tuple[int, int]
"""The pages from the first number on, up to the second; NOWHERE and 0 for none."""

Journal: TypeAlias = Callable[..., None]
"""Called with an action of the spec, the sub-pool's place in the chain, and arrays or numbers, one for each step."""

UNMAPPED: Final = -1
NO_ID: Final = -1
FILLED: Final = 1
PUBLISHED: Final = 2

_LOOK: Final = 64
_QUEUED: Final = 4096
FEW: Final = 128
"""Up to so many numbers, a list is faster than an array."""

NOTHING: Final = np.empty(0, np.int64)


def distinct(numbers: Pages) -> Pages:
    """The numbers in order, each once; many times faster than `numpy.unique`."""
    ordered: Pages = np.sort(numbers)
    is_new = np.ones(len(ordered), np.bool_)
    is_new[1:] = ordered[1:] != ordered[:-1]
    return ordered[is_new]


def together(parts: Sequence[Pages | int]) -> Pages:
    """Arrays and single numbers as one array, in no order."""
    single = [part for part in parts if isinstance(part, int)]
    arrays = [part for part in parts if not isinstance(part, int)]
    found: Pages = np.concatenate([np.array(single, np.int64), *arrays])
    return found


def range_of(pages: Pages) -> Range:
    """Between which numbers these pages lie."""
    return (int(pages.min()), int(pages.max()) + 1) if len(pages) else (NOWHERE, 0)


class PageTable:
    """One sub-pool's tables.

    Args:
        index: place in the chain.
        is_up, is_down: which end it is; a float is neither.
        page_bytes: bytes of a page.
        pages: pages of the whole buffer, that of the sink included.
        ids: ids, the sink's included.
        start: where an empty extent of an end lies: the up end's first page, or the down end's last plus one.
        zeroed: pages read as zeros when they are handed out.
        journal: told of every change; None where nobody listens.

    Attributes:
        first, last: the extent is the pages first to last - 1.
        ids: ids, the sink's included.
        physical: [ids + 1], the page of an id, UNMAPPED for those that have none and one past the end, 0 for the sink.
        virtual: [pages + 1], the id of a page, NO_ID for those that have none.
        born: [ids], the time of an id's last bind.
        flags: [ids], FILLED and PUBLISHED.
        hold: [pages], the leases, steps away from home and deferred frees that keep a page.
        kept: the sum of `hold`.
        to_zero: [pages], those that were handed out and wait to be zeroed; `waiting` is how many.
        bound: ids that lead to a page.
        changed: ids that lead elsewhere than a device was told, in arrays or alone; None where there is no device.
        touched: pages that changed hands since a guard was told; None where there is none.
        is_wiped: all entries have been wiped since, before those changes.
    """

    __slots__ = (
        "_free_head",
        "_free_ids",
        "_queue",
        "born",
        "bound",
        "changed",
        "first",
        "flags",
        "hold",
        "holes",
        "ids",
        "index",
        "is_down",
        "is_up",
        "is_wiped",
        "journal",
        "kept",
        "last",
        "page_bytes",
        "pending",
        "physical",
        "start",
        "to_zero",
        "touched",
        "virtual",
        "waiting",
        "zeroed",
    )

    def __init__(
        self,
        index: int,
        *,
        is_up: bool,
        is_down: bool,
        page_bytes: int,
        pages: int,
        ids: int,
        start: int,
        zeroed: bool,
        journal: Journal | None = None,
    ) -> None:
        self.index, self.is_up, self.is_down = index, is_up, is_down
        self.page_bytes, self.start, self.zeroed, self.journal = page_bytes, start, zeroed, journal
        self.ids = ids
        self.physical = np.full(ids + 1, UNMAPPED, np.int64)
        self.virtual = np.full(pages + 1, NO_ID, np.int64)
        self.physical[0] = self.virtual[0] = 0
        self.born = np.zeros(ids, np.int64)
        self.flags = np.zeros(ids, np.int8)
        self.hold = np.zeros(pages, np.int32)
        self.to_zero = np.zeros(pages, np.bool_)
        self.holes, self.pending = PageList(pages), PageList(pages)
        self._free_ids = np.arange(1, ids)
        self.changed: list[Pages | int] | None = None
        self.touched: list[Pages] | None = None
        self.is_wiped = False
        self.reset()

    def reset(self) -> None:
        """Counts and extent as in a new table; the tables themselves are as they were."""
        self.first = self.last = self.start
        self.bound = self.kept = self.waiting = self._free_head = 0
        self._queue: list[Pages] = []

    def _note(self, action: str, *arguments: Any) -> None:
        if self.journal is not None:
            self.journal(action, self.index, *arguments)

    # ------------------------------------------------------------------------------------------------------ queries

    @property
    def is_empty(self) -> bool:
        """Whether the extent has no pages."""
        return self.first == self.last

    @property
    def free_ids(self) -> int:
        """How many ids lead to no page."""
        return self.ids - 1 - self.bound

    @property
    def size(self) -> int:
        """Pages of the extent that are no holes."""
        return self.bound + self.pending.size

    @property
    def is_float(self) -> bool:
        """Whether it lies between the two ends."""
        return not (self.is_up or self.is_down)

    def span(self, fixed: Range | None) -> Span:
        """The extent for `chain`; what is `fixed` cannot move, nor can pending pages; None: nothing can."""
        if self.is_empty:
            return Span(self.page_bytes, self.first, self.last, 0, NOWHERE, 0)
        if fixed is None:
            return Span(self.page_bytes, self.first, self.last, self.size, self.first, self.last)
        waiting = range_of(self.pending.members)
        low, high = min(fixed[0], waiting[0]), max(fixed[1], waiting[1])
        return Span(self.page_bytes, self.first, self.last, self.size, low, high)

    def next_ids(self, n: int) -> Pages:
        """The ids that the next n binds of a sub-pool with ids of its own take."""
        return self._free_ids[self._free_head : self._free_head + n].copy()

    # ----------------------------------------------------------------------------------------------- binds and frees

    def take_holes(self, ids: Pages, now: int) -> Pages:
        """Bind ids to as many holes; the pages."""
        pages = self.holes.take(len(ids))
        self._bind(ids, pages, now)
        self._note("take_hole", ids, pages)
        return pages

    def take_frontier(self, ids: Pages, now: int, upwards: bool) -> Pages:
        """Bind ids to the next pages of the extent, which are free and its own to take; the pages."""
        pages = self._annex(len(ids), upwards)
        self._bind(ids, pages, now)
        self._note("take_frontier", ids, pages)
        return pages

    def take_one(self, now: int) -> int:
        """Bind the next id of its own to a hole, or without one, of an end, to the next page of the extent; the id.

        As `pop_ids` and `take_holes` or `take_frontier` for one page, where no journal listens, without arrays.
        """
        v: int = self._free_ids.item(self._free_head)
        self._free_head += 1
        if self.holes.size:
            page = self.holes.pop()
        elif self.is_up:
            page = int(self.last)
            self.last += 1
        else:
            self.first -= 1
            page = int(self.first)
        self.physical[v], self.virtual[page], self.born[v] = page, v, now
        self.bound += 1
        if self.touched is not None or self.zeroed:
            self._bound(np.array([v]), np.array([page]))
        elif self.changed is not None:
            self._add_change(v)
        return v

    def _bind(self, ids: Pages, pages: Pages, now: int) -> None:
        self.physical[ids] = pages
        self.virtual[pages] = ids
        self.born[ids] = now
        self.bound += len(ids)
        self._bound(ids, pages)

    def _bound(self, ids: Pages, pages: Pages) -> None:
        """Whoever must know of pages that were handed out is told."""
        self._tell(ids)
        if self.touched is not None:
            self.touched.append(pages)
        if self.zeroed:
            self.to_zero[pages] = True
            self._queue.append(pages)
            self.waiting += len(pages)
            if len(self._queue) > _QUEUED:
                self._queue = [self._waiting()]

    def _tell(self, ids: Pages) -> None:
        """These ids lead elsewhere; the array may be the caller's, who may write to it."""
        if self.changed is not None:
            self._add_change(ids.copy())

    def _add_change(self, ids: Pages | int) -> None:
        assert self.changed is not None
        self.changed.append(ids)
        if len(self.changed) > _QUEUED:
            self.changed = [distinct(together(self.changed))]

    def pop_ids(self, n: int) -> None:
        """The next n ids are taken."""
        self._free_head += n

    def push_ids(self, ids: Pages) -> None:
        """Ids of its own are free again."""
        head = self._free_head - len(ids)
        self._free_ids[head : self._free_head] = ids
        self._free_head = head

    def let_go(self, ids: Pages, pages: Pages, deferred: bool = False) -> None:
        """Unbind live ids, none twice, from their pages, which are pending where anything keeps them, or else holes."""
        self.physical[ids] = UNMAPPED
        self.virtual[pages] = NO_ID
        self.flags[ids] = 0
        self.bound -= len(ids)
        self._tell(ids)
        if self.waiting:
            self.waiting -= int(np.count_nonzero(self.to_zero[pages]))
            self.to_zero[pages] = False
        if deferred:
            self.keep(pages)
        self._note("let_go_later" if deferred else "let_go", ids)
        if self.kept:
            is_kept = self.hold[pages] != 0
            self.pending.add(pages[is_kept])
            pages = pages[~is_kept]
        self._add_holes(pages)

    def let_go_one(self, v: int, page: int) -> None:
        """A live id of its own is free again, and its page a hole.

        As `let_go` and `push_ids` for one id, where nothing is kept, waits or listens, without arrays.
        """
        self.physical[v], self.virtual[page], self.flags[v] = UNMAPPED, NO_ID, 0
        self.bound -= 1
        if self.changed is not None:
            self._add_change(v)
        self._free_head -= 1
        self._free_ids[self._free_head] = v
        if not self.is_down and page == self.last - 1:
            self.last -= 1
        elif not self.is_up and page == self.first:
            self.first += 1
        else:
            self.holes.add_one(page)
        self.trim()

    def keep(self, pages: Pages) -> None:
        """Somebody more keeps each of these pages, none twice."""
        self.hold[pages] += 1
        self.kept += len(pages)

    def release(self, pages: Pages) -> None:
        """One hold on each of these pages ends; the pending ones that nothing keeps any more are holes."""
        self.hold[pages] -= 1
        self.kept -= len(pages)
        over = pages[(self.hold[pages] == 0) & self.pending.has(pages)]
        if len(over):
            self.pending.remove(over)
            self._add_holes(over)

    def _add_holes(self, pages: Pages) -> None:
        """Pages that were let go of are holes; those at a frontier leave the extent."""
        n = len(pages)
        if not n:
            return
        self._note("take_back", pages)
        if self.touched is not None:
            self.touched.append(pages.copy())
        listed = pages.tolist() if n <= FEW else [0, n]
        low, high = min(listed), max(listed)
        if high - low >= n:
            self.holes.add(pages)
        elif not self.is_down and high == self.last - 1:
            self._give_up(n, upper=True)
        elif not self.is_up and low == self.first:
            self._give_up(n, upper=False)
        else:
            self.holes.add(pages)
        self.trim()

    # ------------------------------------------------------------------------------------------------------- extents

    def trim(self) -> None:
        """The frontiers absorb the holes next to them; an empty float is laid aside."""
        if not self.is_down and self.holes.is_member(self.last - 1):
            self._retreat(self._edge(upper=True), upper=True)
        if not self.is_up and self.holes.is_member(self.first):
            self._retreat(self._edge(upper=False), upper=False)
        if self.is_float and self.first == self.last != 0:
            self.lay_aside()

    def _edge(self, upper: bool) -> int:
        """How many holes in a row there are at a frontier."""
        count, look = 0, _LOOK
        while count < self.last - self.first:
            if upper:
                marks = self.holes.marks(max(self.last - count - look, self.first), self.last - count)[::-1]
            else:
                marks = self.holes.marks(self.first + count, min(self.first + count + look, self.last))
            run = len(marks) if marks.all() else int(marks.argmin())
            count += run
            if run < len(marks):
                break
            look *= 2
        return count

    def _retreat(self, n: int, upper: bool) -> None:
        """So many holes at a frontier leave the extent."""
        start = self.last - n if upper else self.first
        self.holes.remove(np.arange(start, start + n))
        self._give_up(n, upper)

    def _give_up(self, n: int, upper: bool) -> None:
        """So many pages at a frontier, which are in no list, leave the extent."""
        if upper:
            self.last -= n
        else:
            self.first += n
        self._note("give_up_high" if upper else "give_up_low", n)

    def widen(self, n: int, upwards: bool) -> None:
        """The extent takes its next n pages, which are free and its own to take, as holes."""
        pages = self._annex(n, upwards)
        self.holes.add(pages)
        self._note("widen", pages)

    def _annex(self, n: int, upwards: bool) -> Pages:
        """The extent's next n pages, from its frontier on, which are inside it from now on."""
        if upwards:
            self.last += n
            return np.arange(self.last - n, self.last)
        self.first -= n
        return np.arange(self.first + n - 1, self.first - 1, -1)

    def put(self, at: int) -> None:
        """An empty float lies at a page that fits."""
        self.first = self.last = at
        self._note("put_float", at)

    def lay_aside(self) -> None:
        """An empty float lies nowhere."""
        self.first = self.last = 0
        self._note("lay_float_aside")

    # -------------------------------------------------------------------------------------------------- bytes to come

    def relocate(self, step: Step, sources: Pages, holes: Pages) -> Pages:
        """The ids of bound pages lead to these holes, to which a step copies; the sources are holes. The ids."""
        ids = self.virtual[sources]
        self.holes.remove(holes)
        self.virtual[sources] = NO_ID
        self.virtual[holes] = ids
        self.physical[ids] = holes
        self._tell(ids)
        if self.journal is not None:
            self.journal("relocate", step, self.index, ids, holes)
        self.holes.add(sources)
        if self.touched is not None:
            self.touched.append(sources)
        self._note("take_back", sources)
        return ids

    def _waiting(self) -> Pages:
        """The pages of the queue that still wait, each once."""
        queued = np.concatenate(self._queue)
        return distinct(queued[self.to_zero[queued]])

    def zero_queue(self, step: Step) -> Pages:
        """The pages that were handed out and wait to be zeroed, which a step does now."""
        if not self.waiting:
            return NOTHING
        pages = self._waiting()
        self.to_zero[pages] = False
        self._queue, self.waiting = [], 0
        if self.journal is not None:
            self.journal("zero", step, self.index, pages)
        return pages

    def clear(self) -> None:
        """Every id is free, the extent empty, as in a new table."""
        self.physical[1:] = UNMAPPED
        self.virtual[1:] = NO_ID
        self.flags[:] = 0
        self.to_zero[:] = False
        self.holes.clear()
        self.pending.clear()
        if self.changed is not None:
            self.changed, self.is_wiped = [], True
        self._free_ids = np.arange(1, self.ids)
        self.reset()
