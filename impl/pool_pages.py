"""The pages of a unified pool: how much room there is, who is given what, and what is moved for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from poolproof import chain
from poolproof.arguments import Ids, as_count, as_ids
from poolproof.compaction import Move
from poolproof.errors import Fault, GroupError
from poolproof.holds import FreeGroup
from poolproof.page_errors import BufferExhausted, InvalidPages
from poolproof.page_faults import find_page_fault
from poolproof.page_table import FEW, NOTHING, UNMAPPED, Pages, PageTable, Range, range_of
from poolproof.pool_state import PoolState
from poolproof.spec.arithmetic import ceil_div

if TYPE_CHECKING:
    from poolproof.unified_pool import UnifiedPool

MOVES: Final = 64
"""Pages that a compaction at a quiet moment moves at most, where nothing is said."""


class PoolPages(PoolState):
    """Pages are handed out and taken back. See `UnifiedPool`."""

    # ------------------------------------------------------------------------------------------------------------ room

    def _fixed(self, k: int) -> Range | None:
        """Between which pages lies what a sub-pool cannot move now, beside pending ones; None where it moves none."""
        if not (self._flight.steps or self._gates or self._leases):
            return chain.NOWHERE, 0
        name = self.layouts[k].name
        if self._flight.open_home_step is not None or any(gate.name == name for gate in self._gates):
            return None
        held = [lease.range for lease in self._leases if lease.name == name]
        held += [range_of(step.touched[name]) for step in self._flight.away if name in step.touched]
        return min((low for low, _ in held), default=chain.NOWHERE), max((high for _, high in held), default=0)

    def _spans(self) -> list[chain.Span]:
        """The extents as `chain` has them, worked out once until anything changes."""
        if self._known is None or self._known[0] != self._epoch:
            spans = [table.span(self._fixed(k)) for k, table in enumerate(self._tables)]
            self._known = self._epoch, spans
        return self._known[1]

    def _has_room(self, table: PageTable, n: int) -> bool:
        """Can n more pages be bound, a compaction included? Without one, this is known at once."""
        more = n - table.holes.size
        if more <= 0:
            return True
        k = table.index
        is_placed = not (table.is_float and table.is_empty)
        if is_placed and (more <= self._compaction.gap_above(k) or more <= self._compaction.gap_below(k)):
            return True
        return more <= self._room(k)

    def _room(self, k: int) -> int:
        """Pages that sub-pool k could have beyond its extent, cached until anything changes."""
        cached = self._capacities.get(k)
        if cached is None or cached[0] != self._epoch:
            cached = self._epoch, chain.room(self._spans(), k, self.sink_bytes, self.total_bytes)
            self._capacities[k] = cached
        return cached[1]

    def capacity(self, name: str) -> int:
        """How many pages one `alloc`, or one `bind` of a window, can get now, an urgent compaction included.

        Raises:
            WrongThread, KeyError: another thread drives the pool; there is no such sub-pool.
        """
        self._enter()
        table = self._at(name)
        return min(self._ids_left(table), table.holes.size + self._room(table.index))

    def _ids_left(self, table: PageTable, coming: int = 0) -> int:
        """Ids that a page can be bound for: free ones of its own, or live ones of its owner, with so many to come."""
        owner = self._tables[self._owners[table.index]]
        return table.free_ids if owner is table else owner.bound + coming - table.bound

    def fits(self, demand: Mapping[str, int]) -> bool:
        """Can so many pages of each of these sub-pools be had together, by one `alloc` of them all?

        Args:
            demand: pages by sub-pool; those of a window for ids of the same demand, or for live ones without a page.

        Raises:
            WrongThread, KeyError: another thread drives the pool; there is no such sub-pool.
            TypeError, ValueError: the demand is no mapping, or a number no integer or negative.
        """
        self._enter()
        return self._starts(self._wanted(demand)) is not None

    def _starts(self, wanted: list[int]) -> list[int] | None:
        """Where extents can begin that have so many pages more, all at once; None if they are not to be had."""
        for table, n, owner in zip(self._tables, wanted, self._owners, strict=True):
            if n > self._ids_left(table, coming=wanted[owner]):
                return None
        return chain.lowest_starts(self._spans(), wanted, self.sink_bytes, self.total_bytes)

    def _wanted(self, demand: Mapping[str, int]) -> list[int]:
        """A demand as pages by place in the chain."""
        if not isinstance(demand, Mapping):
            raise TypeError(f"a demand is a mapping such as {{'full': 8}}, not {demand!r}")
        wanted = [0] * len(self._tables)
        for name, n in demand.items():
            wanted[self._at(name).index] = as_count(name, n)
        return wanted

    # --------------------------------------------------------------------------------------------------- pages and ids

    def alloc(self, demand: Mapping[str, int]) -> dict[str, Pages]:
        """Pages of several sub-pools, all of them or none.

        Args:
            demand: pages by sub-pool. A window binds pages for the last n of the ids that its owner is given.

        Returns:
            Ids by sub-pool, fresh int64 arrays.

        Raises:
            BufferExhausted: they are not to be had together.
            WrongThread, KeyError, TypeError, ValueError: as elsewhere; a window asks for more than its owner.
        """
        self._enter()
        wanted = self._wanted(demand)
        for layout, n, owner in zip(self.layouts, wanted, self._owners, strict=True):
            if n > wanted[owner]:
                raise ValueError(
                    f"{n} pages of window {layout.name!r} for {wanted[owner]} new ids of {layout.ids_of!r}"
                )
        starts = self._starts(wanted)
        if starts is None:
            short = next((name for name, n in demand.items() if n > self._have(self._at(name))), next(iter(demand)))
            raise self._exhausted(self._at(short), demand[short], demand)
        given: dict[str, Pages] = {}
        for is_window in (False, True):  # a window binds pages for ids that have one
            for k, layout in enumerate(self.layouts):
                if layout.name in demand and (layout.ids_of is not None) == is_window:
                    given[layout.name] = self._next_ids(k, wanted[k], given)
                    self._give(self._tables[k], given[layout.name], starts[k])
        self._done("alloc")
        return {name: given[name] for name in demand}

    def _next_ids(self, k: int, n: int, given: Mapping[str, Pages]) -> Pages:
        """The ids of a sub-pool's next n pages: its own next ones, or the last of those given to its owner."""
        owner = self.layouts[k].ids_of
        if owner is not None:
            new = given.get(owner, NOTHING)
            return new[len(new) - n :].copy()
        ids = self._tables[k].next_ids(n)
        self._tables[k].pop_ids(n)
        return ids

    def _alloc(self, table: PageTable, n: int) -> Pages | None:
        """Ids of one sub-pool with pages, or None where there are fewer."""
        self._enter()
        n = as_count("n", n)
        if not self._owns_ids(table):
            name = self.layouts[table.index].name
            raise TypeError(f"sub-pool {name!r} is a window and owns no ids: `bind` pages for ids of its owner")
        if n > table.free_ids or not self._has_room(table, n):
            return None
        ids = table.next_ids(n)
        table.pop_ids(n)
        self._give(table, ids)
        self._done("alloc")
        return ids

    def _alloc_one(self, table: PageTable) -> int | None:
        """As `_alloc` of one id, no window's: without arrays, where there is a hole or an end's next page is free.

        The caller has entered the pool.
        """
        if self._journal is None and table.bound < table.ids - 1 and (table.holes.size or self._is_next_free(table)):
            self._time += 1
            self._epoch += 1
            return table.take_one(self._time)
        ids = self._alloc(table, 1)
        return None if ids is None else int(ids[0])

    def _is_next_free(self, table: PageTable) -> bool:
        """Is the next page of an end's extent free as things are? Of floats, which have two, this is not asked."""
        size = table.page_bytes
        if table.is_up:
            end = (table.last + 1) * size
            for other in self._tables[table.index + 1 :]:
                if other.first < other.last:
                    return end <= other.first * other.page_bytes
            return end <= self.total_bytes
        if not table.is_down:
            return False
        start = (table.first - 1) * size
        for other in self._tables[table.index - 1 :: -1]:
            if other.first < other.last:
                return other.last * other.page_bytes <= start
        return self.sink_bytes <= start

    def _bind(self, name: str, ids: Ids) -> bool:
        """Pages of a window for ids of its owner; False where there are fewer."""
        self._enter()
        table, ids = self._at(name), as_ids(ids)
        owner = self._tables[self._owners[table.index]]
        if owner is table:
            raise TypeError(f"sub-pool {name!r} owns its ids: `alloc` gives out ids that have pages")
        self._check_live("bind", owner, ids)
        bound = ids[table.physical[ids] != UNMAPPED]
        if len(bound):
            why = "bound to a page already; bind each id once"
            raise InvalidPages(name, "bind", Fault.UNCHANGED, bound.tolist(), table.ids - 1, why)
        if not self._has_room(table, len(ids)):
            return False
        self._give(table, ids)
        self._done("bind")
        return True

    def _give(self, table: PageTable, ids: Pages, start: int | None = None) -> None:
        """Bind ids to pages, holes first. There is room; with `start`, a float takes what is below, down to there."""
        self._time += 1
        self._changed()
        inside = min(len(ids), table.holes.size)
        if inside:
            table.take_holes(ids[:inside], self._time)
        if inside < len(ids):
            self._grow(table, ids[inside:], start)

    def _grow(self, table: PageTable, ids: Pages, start: int | None) -> None:
        """Bind ids to pages beyond the extent, for which there is room or can be made."""
        k, n = table.index, len(ids)
        if table.is_float:
            self._grow_float(table, ids, start)
        elif table.is_up:
            if n > self._compaction.gap_above(k):
                self._compaction.clear_above(k, (table.last + n) * table.page_bytes)
            table.take_frontier(ids, self._time, upwards=True)
        else:
            if n > self._compaction.gap_below(k):
                self._compaction.clear_below(k, (table.first - n) * table.page_bytes)
            table.take_frontier(ids, self._time, upwards=False)

    def _grow_float(self, table: PageTable, ids: Pages, start: int | None) -> None:
        k, n = table.index, len(ids)
        if table.is_empty:
            self._place(table, n, start)
        above, below = self._compaction.gap_above(k), self._compaction.gap_below(k)
        up = self._upwards(table, n, above, below, start)
        if up > above:
            self._compaction.clear_above(k, (table.last + up) * table.page_bytes)
        if n - up > below:
            self._compaction.clear_below(k, (table.first - (n - up)) * table.page_bytes)
        if up:
            table.take_frontier(ids[:up], self._time, upwards=True)
        if up < n:
            table.take_frontier(ids[up:], self._time, upwards=False)

    def _upwards(self, table: PageTable, n: int, above: int, below: int, start: int | None) -> int:
        """How many of n pages a float takes at its upper frontier."""
        if start is not None:
            return n - min(n, max(table.first - start, 0))
        if n > above + below:
            return max(min(n, above), n - chain.room_below(self._spans(), table.index, self.sink_bytes))
        return max(min(n, above), n - below) if above >= below else n - max(min(n, below), n - above)

    def _place(self, table: PageTable, n: int, start: int | None) -> None:
        """An empty float that is to take n pages lies where they will fit, in the middle of its gap if it can."""
        k, size = table.index, table.page_bytes
        bottom, top = ceil_div(self._compaction.floor(k), size), self._compaction.ceiling(k) // size
        if start is not None:
            at = start
        elif n <= top - bottom:
            at = bottom + (top - bottom - n) // 2
        else:
            at = min(bottom, chain.ceiling_above(self._spans(), k, self.total_bytes) // size - n)
        self._compaction.clear_below(k, at * size)
        self._compaction.clear_above(k, (at + n) * size)
        table.put(at)
        self._changed()

    def _have(self, table: PageTable) -> int:
        """Pages of this sub-pool to be had; of a window, whatever its owner's ids."""
        own = table.free_ids if self._owns_ids(table) else table.ids
        return min(own, table.holes.size + self._room(table.index))

    def _exhausted(self, table: PageTable, need: int, demand: Mapping[str, int] | None = None) -> BufferExhausted:
        return BufferExhausted(
            self.layouts[table.index].name,
            need=need,
            have=self._have(table),
            page_bytes=table.page_bytes,
            reclaimable=table.pending.size,
            free_ids=table.free_ids,
            slots=table.ids - 1,
            demand=demand,
        )

    def _check_live(self, operation: str, table: PageTable, ids: Pages) -> Pages:
        """The pages of ids, which must be live, none twice."""
        pages: Pages = table.physical.take(ids, None, None, "clip")
        if _are_wrong(ids, pages):
            fault, bad = find_page_fault(ids, table.physical, table.ids)
            raise InvalidPages(self.layouts[table.index].name, operation, fault, bad.tolist(), table.ids - 1)
        return pages

    def _free(self, table: PageTable, ids: Ids) -> None:
        """Let ids go, and the pages that windows have bound for them."""
        self._enter()
        if type(ids) is int and self._free_one(table, ids):
            return
        ids = as_ids(ids)
        pages = self._check_live("free", table, ids)
        for w in self._windows[table.index]:
            window = self._tables[w]
            bound = ids[window.physical[ids] != UNMAPPED]
            self._let_go(window, bound, window.physical[bound])
        self._let_go(table, ids, pages)
        if self._owns_ids(table):
            table.push_ids(ids)
        self._done("free")

    def _free_one(self, table: PageTable, v: int) -> bool:
        """As `_free` of one id, without arrays: where it is live and nobody keeps, awaits or watches its page."""
        is_watched = self._journal is not None or table.touched is not None or self._windows[table.index]
        if is_watched or self._group is not None or table.kept or table.waiting or not self._owns_ids(table):
            return False
        page = table.physical.item(v) if 0 < v < table.ids else 0
        if page <= 0:
            return False
        table.let_go_one(v, page)
        self._done("free")
        return True

    def _let_go(self, table: PageTable, ids: Pages, pages: Pages) -> None:
        if not len(ids):
            return
        if self._group is None:
            table.let_go(ids, pages)
        else:
            table.let_go(ids, pages, deferred=True)
            self._deferred.setdefault(table.index, []).append(pages)

    def free_group(self) -> FreeGroup:
        """Until the group ends, the pages of what is freed are kept; the ids die at once.

        Raises:
            GroupError: a group is open already.
        """
        self._enter()
        if self._group is not None:
            raise GroupError("a group of frees is open already; end it first. Nothing was changed.")
        self._group = FreeGroup(cast("UnifiedPool", self))
        self._changed()
        return self._group

    def _end_group(self, group: FreeGroup) -> None:
        self._enter()
        if self._group is not group:
            raise GroupError("this group of frees has ended; open a new one. Nothing was changed.")
        self._group, group.is_open = None, False
        deferred, self._deferred = self._deferred, {}
        self._note("end_group")
        for k, pages in deferred.items():
            self._tables[k].release(np.concatenate(pages))
        self._done("end_group")

    def compact(self, urgent: bool = False, *, moves: int = MOVES) -> list[Move]:
        """Move pages into holes, so that frontiers retreat and neighbours find room without waiting for it.

        Args:
            urgent: move as much as there is to move, and not `moves` pages at most.
            moves: see `urgent`.

        Returns:
            What moved. Nothing moves behind a closed gate, nor while a step at home is begun and not launched; leased
            pages, and those that a step away from home touches, stay.
        """
        self._enter()
        most = None if urgent else as_count("moves", moves)
        moved: list[Move] = []
        self._moves = moved
        for k, table in enumerate(self._tables):
            fixed = self._fixed(k) if table.holes.size else None
            if fixed is not None:
                left = None if most is None else most - sum(len(move.ids) for move in moved)
                self._compaction.shrink(k, table.span(fixed), left)
        self._moves = None
        self._done("compact")
        return moved


def _are_wrong(ids: Pages, pages: Pages) -> bool:
    """Does an id lead to no page, or come twice? For few ids lists are faster than arrays."""
    if len(ids) <= FEW:
        listed = ids.tolist()
        return bool(listed) and (min(pages.tolist()) <= 0 or len(set(listed)) < len(listed))
    ordered = np.sort(ids)
    return int(pages.min()) <= 0 or bool((ordered[1:] == ordered[:-1]).any())
