"""One byte buffer that several sub-pools share: KV pages, window pages, recurrent states, checkpoints.

A chain of sub-pools stands over the bytes: one grows up from the sink, one down from the top, floats lie between.
Everything above the pool holds ids; pages move underneath when a neighbour needs room, and no id changes. What each
operation may do is written down, and proved, in `poolproof.spec.buffer` and `poolproof.spec.schedule`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from poolproof import chain
from poolproof.arguments import Ids, as_count, as_ids
from poolproof.compaction import Compaction, Move
from poolproof.errors import GroupError, LayoutError, WrongThread
from poolproof.events import EventSource, Immediate
from poolproof.holds import FreeGroup, Gate, Lease
from poolproof.page_bytes import PageBytes
from poolproof.page_errors import BufferExhausted, GateError, InvalidPages, LeaseError, PoolBusy, StepError
from poolproof.page_faults import find_page_fault
from poolproof.page_table import FILLED, PUBLISHED, UNMAPPED, PageTable
from poolproof.spec.arithmetic import ceil_div
from poolproof.steps import HOME, Flight, Phase, Step
from poolproof.sub_pool import SubPool
from poolproof.sub_pools import Declaration, Resolved, resolve

if TYPE_CHECKING:
    from poolproof.buffer_reports import BufferSnapshot, BufferStats
    from poolproof.violation import Violation

Pages = NDArray[np.int64]
_NO_THREAD: Final = 0
_NONE: Final = np.empty(0, np.int64)
_FEW: Final = 128
MOVES: Final = 64
"""Pages that a compaction at a quiet moment moves at most, where nothing is said."""


class UnifiedPool:
    """A pool of pages of several sizes over one buffer.

    Every operation is done in full, or refused with an error that leaves the pool as it was. Ids and pages come back as
    fresh int64 arrays. The time of a call does not depend on the size of the buffer, but on the pages that it touches
    (`clear`, `check` and `snapshot` excepted). The thread of the first operation drives the pool.

    Args:
        total_bytes: bytes of the buffer, the sink's included.
        sub_pools: declarations, see `poolproof.sub_pools`: one grows up, at most one down, any number floats.
        device: "cpu", or "meta" for all the bookkeeping and no bytes. Torch is not needed but for `buffer` and `views`.
        events: orders the pool's own work with everybody else's; by default a host's, where work is over when done.
        shadow: run the spec in lockstep and raise `SpecViolation` where the pool departs from it. Every operation then
            takes time in proportion to the size of the buffer *in bytes*: for tests.

    Raises:
        LayoutError: the declarations are impossible, or the buffer is too small for them or too large for the device.
    """

    def __init__(
        self,
        total_bytes: int,
        sub_pools: Iterable[Declaration],
        *,
        device: str = "cpu",
        events: EventSource | None = None,
        shadow: bool = False,
    ) -> None:
        self.layouts: tuple[Resolved, ...] = resolve(tuple(sub_pools))
        self.total_bytes = as_count("total_bytes", total_bytes)
        self.sink_bytes = max(layout.page_bytes for layout in self.layouts)
        check_size(self.layouts, self.total_bytes)
        self._bytes = PageBytes(self.total_bytes, self.sink_bytes, device)
        self._events: EventSource = Immediate() if events is None else events
        self._journal: Any = None
        self._tables = [self._table(k) for k in range(len(self.layouts))]
        self._places = {layout.name: k for k, layout in enumerate(self.layouts)}
        owners = [k if layout.ids_of is None else self._places[layout.ids_of] for k, layout in enumerate(self.layouts)]
        self._owners = owners
        self._windows = [[w for w, o in enumerate(owners) if o == k and w != k] for k in range(len(owners))]
        self._handles = {layout.name: SubPool(self, layout.name, self._at(layout.name)) for layout in self.layouts}
        self._compaction = Compaction(self._tables, self.sink_bytes, self.total_bytes, self._move)
        self._flight = Flight()
        self._leases: list[Lease] = []
        self._gates: list[Gate] = []
        self._group: FreeGroup | None = None
        self._deferred: dict[int, list[Pages]] = {}
        self._given_back: deque[Lease] = deque()
        self._moves: list[Move] | None = None
        self._time = self._begun = self._epoch = 0
        self._capacities: dict[int, tuple[int, int]] = {}
        self._thread = _NO_THREAD
        if shadow:
            from poolproof.buffer_shadow import BufferShadow

            self._follow(BufferShadow(self))

    def _table(self, k: int) -> PageTable:
        layout, last = self.layouts[k], len(self.layouts) - 1
        is_up, is_down = k == 0, 0 < k == last
        pages = self.total_bytes // layout.page_bytes
        owner = next((other for other in self.layouts if other.name == layout.ids_of), layout)
        start = ceil_div(self.sink_bytes, layout.page_bytes) if is_up else pages if is_down else 0
        return PageTable(
            k,
            is_up=is_up,
            is_down=is_down,
            page_bytes=layout.page_bytes,
            pages=pages,
            ids=self.total_bytes // owner.page_bytes + 1,
            start=start,
            zeroed=layout.zeroed,
        )

    def _follow(self, journal: Any) -> None:
        """Tell somebody of every change from now on."""
        self._journal = journal
        for table in self._tables:
            table.journal = journal

    def _note(self, action: str, *arguments: Any) -> None:
        if self._journal is not None:
            self._journal(action, *arguments)

    # ------------------------------------------------------------------------------------------------------ entering

    def __getitem__(self, name: str) -> SubPool:
        """The sub-pool of this name, with its `alloc`, `free` and so on."""
        return self._handles[self._name(name)]

    def _name(self, name: str) -> str:
        if name not in self._places:
            raise KeyError(f"no sub-pool {name!r}; there are {', '.join(map(repr, self._places))}")
        return name

    def _at(self, name: str) -> PageTable:
        return self._tables[self._places[self._name(name)]]

    def _enter(self) -> None:
        """An operation begins: on the thread that drives the pool, with what other threads gave back taken in."""
        if self._thread != get_ident():
            if self._thread != _NO_THREAD:
                raise WrongThread(self._thread, get_ident())
            self._thread = get_ident()
        while self._given_back:
            self._take_back_lease(self._given_back.popleft())

    def _changed(self) -> None:
        """Whatever was worked out from the state no longer holds."""
        self._epoch += 1

    def _done(self, operation: str) -> None:
        """An operation is over."""
        self._epoch += 1
        if self._journal is not None:
            self._journal.done(operation)

    # -------------------------------------------------------------------------------------------------------- room

    def _fixed(self, k: int) -> Pages | None:
        """The pages that a sub-pool cannot move now, beside the pending ones; None where it can move none."""
        name = self.layouts[k].name
        if self._flight.open_home_step is not None or any(gate.name == name for gate in self._gates):
            return None
        held = [lease.physical for lease in self._leases if lease.name == name]
        held += [step.touched[name] for step in self._flight.away if name in step.touched]
        return np.concatenate(held) if held else _NONE

    def _spans(self) -> list[chain.Span]:
        return [table.span(self._fixed(k)) for k, table in enumerate(self._tables)]

    def _has_room(self, table: PageTable, n: int) -> bool:
        """Can n more pages be bound, a compaction included? Without one, this is known at once."""
        more = n - table.holes.size
        if more <= 0:
            return True
        k = table.index
        if not table.is_down and (table.is_up or table.first != table.last) and more <= self._compaction.gap_above(k):
            return True
        if not table.is_up and (table.is_down or table.first != table.last) and more <= self._compaction.gap_below(k):
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
        """How many pages one `alloc`, or one `bind` of a window, can get now, an urgent compaction included."""
        table = self._at(name)
        owner = self._owners[table.index]
        ids = table.free_ids if owner == table.index else self._tables[owner].bound - table.bound
        return min(ids, table.holes.size + self._room(table.index))

    def fits(self, demand: Mapping[str, int]) -> bool:
        """Can so many pages of each of these sub-pools be had together, one after the other in any order?

        Args:
            demand: pages by sub-pool; those of a window for ids of the same demand, or for live ones without a page.

        Raises:
            KeyError: there is no such sub-pool.
            TypeError, ValueError: a number is no integer, or negative.
        """
        wanted = self._wanted(demand)
        for k, table in enumerate(self._tables):
            owner = self._owners[k]
            ids = table.free_ids if owner == k else self._tables[owner].bound + wanted[owner] - table.bound
            if wanted[k] > ids:
                return False
        return chain.demand_fits(self._spans(), wanted, self.sink_bytes, self.total_bytes)

    def _wanted(self, demand: Mapping[str, int]) -> list[int]:
        """A demand as pages by place in the chain."""
        wanted = [0] * len(self._tables)
        for name, n in demand.items():
            wanted[self._at(name).index] = as_count(name, n)
        return wanted

    # ------------------------------------------------------------------------------------------------ pages and ids

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
        for name, n in demand.items():
            owner = self.layouts[self._at(name).index].ids_of
            if owner is not None and as_count(name, n) > as_count(owner, demand.get(owner, 0)):
                raise ValueError(f"{n} pages of window {name!r} for {demand.get(owner, 0)} new ids of {owner!r}")
        if not self.fits(demand):
            own = [name for name in demand if self.layouts[self._places[name]].ids_of is None]
            short = next((name for name in own if demand[name] > self.capacity(name)), own[0])
            raise self._exhausted(self._at(short), demand[short], demand)
        wanted = self._wanted(demand)
        starts = chain.lowest_starts(self._spans(), wanted, self.sink_bytes, self.total_bytes)
        assert starts is not None
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
            new = given.get(owner, _NONE)
            return new[len(new) - n :].copy()
        ids = self._tables[k].next_ids(n)
        self._tables[k].pop_ids(n)
        return ids

    def _alloc(self, table: PageTable, n: int) -> Pages | None:
        """Ids of one sub-pool with pages, or None where there are fewer."""
        self._enter()
        n = as_count("n", n)
        if self._owners[table.index] != table.index:
            name = self.layouts[table.index].name
            raise TypeError(f"sub-pool {name!r} is a window and owns no ids: `bind` pages for ids of its owner")
        if n > table.free_ids or not self._has_room(table, n):
            return None
        ids = table.next_ids(n)
        table.pop_ids(n)
        self._give(table, ids)
        self._done("alloc")
        return ids

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
            raise InvalidPages(name, "bind", "bound to a page already", bound.tolist(), table.ids - 1)
        if not self._has_room(table, len(ids)):
            return False
        self._give(table, ids)
        self._done("bind")
        return True

    def _give(self, table: PageTable, ids: Pages, start: int | None = None) -> None:
        """Bind ids to pages, holes first. There is room; with `start`, a float takes what is below, down to there."""
        self._time += 1
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
        if table.first == table.last:
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

    def _exhausted(self, table: PageTable, need: int, demand: Mapping[str, int] | None = None) -> BufferExhausted:
        return BufferExhausted(
            self.layouts[table.index].name,
            need=need,
            have=self.capacity(self.layouts[table.index].name),
            page_bytes=table.page_bytes,
            reclaimable=table.pending.size,
            free_ids=table.free_ids,
            demand=demand,
        )

    def _check_live(self, operation: str, table: PageTable, ids: Pages) -> Pages:
        """The pages of ids, which must be live, none twice."""
        pages: Pages = table.physical.take(ids, None, None, "clip")
        if _are_wrong(ids, pages):
            why, bad = find_page_fault(ids, table.physical, table.ids)
            raise InvalidPages(self.layouts[table.index].name, operation, why, bad.tolist(), table.ids - 1)
        return pages

    def _free(self, table: PageTable, ids: Ids) -> None:
        """Let ids go, and the pages that windows have bound for them."""
        self._enter()
        ids = as_ids(ids)
        pages = self._check_live("free", table, ids)
        for w in self._windows[table.index]:
            window = self._tables[w]
            bound = ids[window.physical[ids] != UNMAPPED]
            self._let_go(window, bound, window.physical[bound])
        self._let_go(table, ids, pages)
        if self._owners[table.index] == table.index:
            table.push_ids(ids)
        self._done("free")

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
        self._group = FreeGroup(self)
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

    # ------------------------------------------------------------------------------------------ the pool's own steps

    def _own_step(self) -> Step:
        """A step of the pool's own begins on the home stream."""
        step = Step(self, self._begun, HOME, self._time, own=True)
        self._begun += 1
        self._flight.steps.append(step)
        self._note("begin", step)
        return step

    def _launch_own(self, step: Step) -> None:
        step.phase = Phase.LAUNCHED
        self._events.launched(step)
        self._note("launch", step)
        if self._events.is_immediate:
            self._complete_own()

    def _complete_own(self, before: int | None = None) -> None:
        """The pool's own steps are over that have nothing of anybody else's before them: on a device, all up to one."""
        for step in [step for step in self._flight if step.own and (before is None or step.number < before)]:
            if self._flight.blocker(step) is not None:
                return
            self._end(step)
            self._end_results(step)

    def _move(self, table: PageTable, sources: Pages, holes: Pages) -> None:
        """Copy bound pages into holes, in a step of the pool's own; the sources become holes."""
        self._zero_queued()
        step, size = self._own_step(), table.page_bytes
        name, sources, holes = self.layouts[table.index].name, _fixed(sources), _fixed(holes)
        ids = table.relocate(step, sources, holes)
        step.reads, step.writes = {name: sources}, {name: holes}
        self._events.run(step, lambda: self._bytes.copy(size, sources, holes))
        self._launch_own(step)
        if self._moves is not None:
            self._moves.append(Move(name, ids, sources, holes))

    def _has_queue(self) -> bool:
        """Do pages wait to be zeroed?"""
        return any(table.has_queue() for table in self._tables)

    def _zero_queued(self) -> None:
        """Zero what was handed out since the last time, in a step of the pool's own."""
        if not self._has_queue():
            return
        step, writes = self._own_step(), {}
        for table in self._tables:
            pages = table.zero_queue(step)
            if len(pages):
                writes[self.layouts[table.index].name] = pages
        step.writes = writes
        sizes = {name: self._at(name).page_bytes for name in writes}

        def zero() -> None:
            for name, pages in writes.items():
                self._bytes.zero(sizes[name], pages)

        self._events.run(step, zero)
        self._launch_own(step)

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
            fixed = self._fixed(k)
            if fixed is not None:
                left = None if most is None else most - sum(len(move.ids) for move in moved)
                self._compaction.shrink(k, table.span(fixed), left)
        self._moves = None
        self._done("compact")
        return moved

    # -------------------------------------------------------------------------------------------------------- steps

    def begin_step(
        self,
        reads: Mapping[str, Ids] | None = None,
        writes: Mapping[str, Ids] | None = None,
        stream: Any = HOME,
        after: Sequence[Step] = (),
    ) -> Step:
        """A piece of device work begins: its ids are resolved to pages, which stay the ids' own until it is over.

        The step waits, on its stream, for every step in flight that it must come behind; a step away from home comes
        behind all steps at home.

        Args:
            reads: ids by sub-pool whose pages it reads: filled, or zeroed when handed out.
            writes: ids by sub-pool whose pages it writes; with this the pages count as filled.
            stream: None for home; any other value that can be compared, a torch stream among them.
            after: further steps that it waits for, which are launched.

        Returns:
            The step, open: `launched` it once the work is on the stream.

        Raises:
            InvalidPages: an id is not live, or listed twice in one mapping.
            StepError: a page that is read holds nothing yet, or a step that must come before is not launched.
            WrongThread, KeyError, TypeError: as elsewhere.
        """
        self._enter()
        if any(not isinstance(step, Step) or step._pool is not self for step in after):
            raise StepError(f"begin_step: after = {list(after)!r} are not all steps of this pool. Nothing was changed.")
        read = {name: self._step_ids("reads", name, ids) for name, ids in (reads or {}).items()}
        written = {name: self._step_ids("writes", name, ids) for name, ids in (writes or {}).items()}
        for name, ids in read.items():
            self._check_filled(name, ids)
        if self._has_queue():
            self._check_no_open_step("zero pages that were handed out")
        waits = self._to_wait_for(stream, read, written, after)
        self._zero_queued()
        if stream is not HOME:
            waits |= {step for step in self._flight if step.is_home}
        return self._begin(stream, read, written, waits)

    def _begin(self, stream: Any, read: dict[str, Pages], written: dict[str, Pages], waits: set[Step]) -> Step:
        self._time += 1
        step = Step(self, self._begun, stream, self._time)
        self._begun += 1
        self._flight.steps.append(step)
        self._note("begin", step)
        for other in sorted(waits, key=lambda other: other.number):
            step.waits.add(other)
            self._events.wait(step, other)
            self._note("wait_for", step, other)
        step.reads = {name: _fixed(self._at(name).physical[ids]) for name, ids in read.items()}
        step.writes = {name: _fixed(self._at(name).physical[ids]) for name, ids in written.items()}
        for name, ids in read.items():
            self._note("read", step, self._places[name], ids)
        for name, ids in written.items():
            self._at(name).flags[ids] |= FILLED
            self._note("write_page", step, self._places[name], ids)
        if not step.is_home:
            self._hold_for(step)
        self._done("begin_step")
        return step

    def _hold_for(self, step: Step) -> None:
        """What a step away from home touches is kept until it is over."""
        for name in {*step.reads, *step.writes}:
            pages = np.union1d(step.reads.get(name, _NONE), step.writes.get(name, _NONE))
            step.touched[name] = pages
            self._at(name).keep(pages)

    def _step_ids(self, what: str, name: str, ids: Ids) -> Pages:
        checked = as_ids(ids).copy()
        self._check_live(f"begin_step({what})", self._at(name), checked)
        return checked

    def _check_filled(self, name: str, ids: Pages) -> None:
        table = self._at(name)
        if table.zeroed or not len(ids):
            return
        empty = ids[table.flags[ids] & FILLED == 0]
        if len(empty):
            raise StepError(
                f"begin_step: {len(empty)} pages of {name!r} are read that nobody has written, of ids "
                f"{empty[:8].tolist()}: write them first, or declare zero='on_handout'. Nothing was changed."
            )

    def _check_no_open_step(self, what: str) -> None:
        step = self._flight.open_home_step
        if step is not None:
            raise StepError(f"{step!r} is not launched, and before that the pool cannot {what}. Nothing was changed.")

    def _to_wait_for(
        self, stream: Any, read: dict[str, Pages], written: dict[str, Pages], after: Sequence[Step]
    ) -> set[Step]:
        """The steps on other streams that must be over first; all of them are launched."""
        waits = {step for step in after if step.is_in_flight}
        for step in self._flight:
            if step.stream == stream:
                continue
            if (step.is_home and stream is not HOME) or self._conflicts(step, read, written):
                waits.add(step)
        for step in waits:
            if step.phase is Phase.OPEN:
                raise StepError(f"begin_step must wait for {step!r}: launch that first. Nothing was changed.")
        return waits

    def _conflicts(self, step: Step, read: dict[str, Pages], written: dict[str, Pages]) -> bool:
        """Does the step write what is to be read or written, or read what is to be written?"""
        for mine, names in ((step.writes, read), (step.writes, written), (step.reads, written)):
            for name, ids in names.items():
                if name in mine and np.isin(self._at(name).physical[ids], mine[name]).any():
                    return True
        return False

    def _launch(self, step: Step) -> None:
        self._enter()
        self._flight.check_launch(step)
        step.phase = Phase.LAUNCHED
        self._events.launched(step)
        self._note("launch", step)
        self._done("launched")

    def _complete(self, step: Step) -> None:
        self._enter()
        if step.phase is not Phase.LAUNCHED:
            raise StepError(f"{step!r} is not launched, or over already. Nothing was changed.")
        blocker = self._flight.blocker(step)
        if blocker is not None:
            raise StepError(f"{step!r} comes after {blocker!r}: complete that first. Nothing was changed.")
        self._events.completed(step)
        ahead = [other.number for other in self._flight if other.own and other.is_before(step)]
        if ahead:
            self._complete_own(before=max(ahead) + 1)
        self._end(step)
        for name, pages in step.touched.items():
            self._at(name).release(pages)
        if self._events.is_immediate:
            self._complete_own()
        self._done("complete")

    def _end(self, step: Step) -> None:
        """A step is over."""
        step.phase = Phase.OVER
        self._flight.steps.remove(step)
        for other in self._flight:
            other.waits.discard(step)
        self._note("complete", step)

    def _end_results(self, step: Step) -> None:
        step.phase = Phase.RETIRED
        self._note("retire", step)

    def _retire(self, step: Step) -> None:
        self._enter()
        if step.phase is not Phase.OVER:
            raise StepError(f"{step!r} is in flight, or was retired before. Nothing was changed.")
        self._end_results(step)
        self._done("retire")

    def _same(self, step: Step, name: str, ids: Ids) -> NDArray[np.bool_]:
        table, ids = self._at(name), as_ids(ids)
        live: NDArray[np.bool_] = table.physical.take(ids, mode="clip") > 0
        live &= (ids > 0) & (ids < table.ids)
        live[live] = table.born[ids[live]] < step.began
        return live

    def _publish(self, step: Step, name: str, ids: Ids) -> None:
        self._enter()
        table, ids = self._at(name), as_ids(ids)
        if step.phase is not Phase.OVER:
            raise StepError(f"publish: {step!r} is not over, or is retired. Nothing was changed.")
        pages = self._check_live("publish", table, ids)
        for bad, why in (
            (~self._same(step, name, ids), "are not the ones that the step saw"),
            (table.flags[ids] & FILLED == 0, "lead to pages that nobody has written"),
            (table.flags[ids] & PUBLISHED != 0, "are published already"),
            (self._is_written(table, pages), "lead to pages that a step in flight writes"),
        ):
            if bad.any():
                raise StepError(f"publish: ids {ids[bad][:8].tolist()} of {name!r} {why}. Nothing was changed.")
        table.flags[ids] |= PUBLISHED
        self._note("publish", step, table.index, ids)
        self._done("publish")

    def _is_written(self, table: PageTable, pages: Pages) -> NDArray[np.bool_]:
        """Which pages have a byte that a step in flight writes, through whatever sub-pool."""
        found = np.zeros(len(pages), np.bool_)
        first, size = pages * table.page_bytes, table.page_bytes
        for step in self._flight:
            for name, written in step.writes.items():
                other = self._at(name).page_bytes
                # The written page that begins last before the end of a page is the only one that can reach into it.
                begins = np.sort(written) * other
                at = np.searchsorted(begins, first + size)
                reaches = np.concatenate([[-1], begins + other])[at]
                found |= reaches > first
        return found

    # ------------------------------------------------------------------------------------------------ leases, gates

    def lease(self, name: str, ids: Ids, why: str) -> Lease:
        """Pages stay where they are, and keep their bytes, until the release, whatever is freed meanwhile.

        Args:
            name: the sub-pool.
            ids: live ids, none twice.
            why: for messages, such as "rdma".

        Returns:
            The lease, with the pages' numbers.

        Raises:
            InvalidPages: an id is not live, or given twice.
            LeaseError: a step in flight writes one of the pages, or a page waits for its zeroing behind a step that is
                not launched.
        """
        self._enter()
        table, ids = self._at(name), as_ids(ids)
        pages = _fixed(self._check_live("lease", table, ids).copy())
        self._check_unwritten(name, table, ids, pages)
        if table.zeroed and table.to_zero[pages].any():
            if not self._events.is_immediate or any(step.is_home for step in self._flight):
                raise LeaseError(
                    f"lease: pages of {name!r} wait to be zeroed before the next step at home: begin, launch and "
                    f"complete one first, and what is in flight there. Nothing was changed."
                )
            self._zero_queued()
        table.keep(pages)
        lease = Lease(self, name, pages, why)
        self._leases.append(lease)
        self._note("lease_page", lease, table.index, ids)
        self._done("lease")
        return lease

    def _check_unwritten(self, name: str, table: PageTable, ids: Pages, pages: Pages) -> None:
        written = self._is_written(table, pages)
        if written.any():
            raise LeaseError(
                f"lease: a step in flight writes pages of {name!r}, of ids {ids[written][:8].tolist()}: complete it "
                f"first. Nothing was changed."
            )

    def _give_back(self, lease: Lease) -> None:
        if not lease.is_held:
            raise LeaseError(f"{lease!r} was released before. Nothing was changed.")
        lease.is_held = False
        self._given_back.append(lease)
        if self._thread == get_ident():
            self._enter()

    def _take_back_lease(self, lease: Lease) -> None:
        if lease not in self._leases:
            return
        self._leases.remove(lease)
        table = self._at(lease.name)
        self._note("release_page", lease, table.index, lease.physical)
        table.release(lease.physical)
        self._done("release")

    def gate(self, name: str, why: str) -> Gate:
        """No page of the sub-pool moves until the gate is opened again; every other operation goes on."""
        self._enter()
        gate = Gate(self, self._name(name), why)
        self._gates.append(gate)
        self._note("close_gate", gate, self._places[name])
        self._done("gate")
        return gate

    def _open_gate(self, gate: Gate) -> None:
        self._enter()
        if not gate.is_closed:
            raise GateError(f"{gate!r} was opened before. Nothing was changed.")
        gate.is_closed = False
        self._gates.remove(gate)
        self._note("open_gate", gate, self._places[gate.name])
        self._done("open_gate")

    def clear(self) -> None:
        """Back to a new pool: every id dies; no byte is touched.

        Raises:
            PoolBusy: steps are in flight, leases held, gates closed, or a group of frees is open.
        """
        self._enter()
        busy = [repr(step) for step in self._flight]
        busy += [repr(lease) for lease in self._leases] + [repr(gate) for gate in self._gates]
        busy += ["a group of frees"] if self._group is not None else []
        if busy:
            own = any(step.own for step in self._flight)
            remedy = " The pool's own steps end with the next step at home that completes." if own else ""
            raise PoolBusy(
                f"clear: {len(busy)} in the way: {', '.join(busy[:8])}; end them first.{remedy} Nothing was changed."
            )
        for table in self._tables:
            table.clear()
        self._note("clear")
        self._done("clear")

    # ------------------------------------------------------------------------------------------------------ queries

    @property
    def buffer(self) -> Any:
        """[total_bytes], uint8: the one torch tensor under everything."""
        return self._bytes.tensor

    def views(self, name: str) -> Any:
        """The sub-pool's tensors, as strided views of the buffer that never change: see `poolproof.page_views`."""
        from poolproof.page_views import views

        return views(self.buffer, self.layouts[self._at(name).index])

    def stats(self) -> BufferStats:
        """The pool in figures; its time depends on the number of sub-pools, leases and gates alone."""
        from poolproof.buffer_reports import buffer_stats

        return buffer_stats(self)

    def snapshot(self) -> BufferSnapshot:
        """The whole state, bytes excepted, in plain ints."""
        from poolproof.buffer_reports import buffer_snapshot

        return buffer_snapshot(self)

    def check(self) -> list[Violation]:
        """Every claim of the spec's invariants, tested against the stored tables; [] means healthy."""
        from poolproof.buffer_check import check_buffer

        return check_buffer(self)

    def __reduce__(self) -> NoReturn:
        """A pool is not copied or pickled: its pages would have two owners."""
        raise TypeError("a UnifiedPool cannot be copied or pickled; make a new one")


def _fixed(pages: Pages) -> Pages:
    """An array that is handed out and relied on: it cannot be written."""
    pages.setflags(write=False)
    return pages


def _are_wrong(ids: Pages, pages: Pages) -> bool:
    """Does an id lead to no page, or come twice? For few ids lists are faster than arrays."""
    if len(ids) <= _FEW:
        listed = ids.tolist()
        return bool(listed) and (min(pages.tolist()) <= 0 or len(set(listed)) < len(listed))
    ordered = np.sort(ids)
    return int(pages.min()) <= 0 or bool((ordered[1:] == ordered[:-1]).any())


def check_size(layouts: Sequence[Resolved], total: int) -> None:
    """Raises LayoutError where a buffer does not hold the sink and one page of every sub-pool."""
    sink = max(layout.page_bytes for layout in layouts)
    need = sink
    for layout in layouts:
        need = (ceil_div(need, layout.page_bytes) + 1) * layout.page_bytes
    if total < need:
        sizes = ", ".join(f"{layout.name} {layout.page_bytes}" for layout in layouts)
        raise LayoutError(
            f"a buffer of {total} bytes is too small: the sink ({sink} bytes) and one page of every sub-pool ({sizes}) "
            f"need {need}; make total_bytes larger or pages smaller"
        )
