"""What a unified pool is made of: its tables, its bytes, what is in flight and held, and work of the pool's own.

The classes of a pool stand on one another, one concern a file: this state, then its pages (`pool_pages`), its steps
(`pool_steps`), and the face that callers see (`unified_pool`).
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final, cast

from poolproof.arguments import as_count
from poolproof.chain import Span
from poolproof.compaction import Compaction, Move
from poolproof.errors import LayoutError, WrongThread
from poolproof.events import METHODS, EventSource, Immediate
from poolproof.guard_layout import Zone, guarded
from poolproof.holds import FreeGroup, Gate, Lease
from poolproof.page_bytes import NO_CHANGES, HostBytes, PageBytes
from poolproof.page_errors import PoolBroken, PoolBusy
from poolproof.page_table import NOTHING, Pages, PageTable
from poolproof.spec.arithmetic import ceil_div
from poolproof.steps import HOME, Copied, Flight, Phase, Step
from poolproof.sub_pool import SubPool
from poolproof.sub_pools import Declaration, Resolved, resolve

if TYPE_CHECKING:
    from poolproof.guard import Guard
    from poolproof.unified_pool import UnifiedPool

_NO_THREAD: Final = 0
_TABLE_BYTES: Final = 45


class PoolState:
    """The state of a pool, and the steps by which it moves and zeroes pages itself. See `UnifiedPool`."""

    def __init__(
        self,
        total_bytes: int,
        sub_pools: Iterable[Declaration],
        *,
        device: str = "cpu",
        events: EventSource | None = None,
        shadow: bool = False,
        guard: bool = False,
    ) -> None:
        layouts = resolve(tuple(sub_pools))
        zones = [guarded(layout) for layout in layouts] if guard else []
        self.layouts: tuple[Resolved, ...] = tuple(layout for layout, _ in zones) if guard else layouts
        self.total_bytes = as_count("total_bytes", total_bytes)
        self.sink_bytes = max(layout.page_bytes for layout in self.layouts)
        check_size(self.layouts, self.total_bytes)
        check_tables(self.layouts, self.total_bytes)
        self._events = _events(device, events)
        self._journal: Any = None
        self._tables = [self._table(k) for k in range(len(self.layouts))]
        self._bytes = self._open_bytes(str(device), max(layout.align for layout in self.layouts))
        self._guard = self._open_guard([zone for _, zone in zones]) if guard else None
        self._places = {layout.name: k for k, layout in enumerate(self.layouts)}
        owners = [k if layout.ids_of is None else self._places[layout.ids_of] for k, layout in enumerate(self.layouts)]
        self._owners = owners
        self._windows = [[w for w, o in enumerate(owners) if o == k and w != k] for k in range(len(owners))]
        whole = cast("UnifiedPool", self)
        self._handles = {layout.name: SubPool(whole, layout.name, self._at(layout.name)) for layout in self.layouts}
        self._compaction = Compaction(self._tables, self.sink_bytes, self.total_bytes, self._move)
        self._flight = Flight()
        self._copied: list[Copied] = []
        self._leases: list[Lease] = []
        self._gates: list[Gate] = []
        self._group: FreeGroup | None = None
        self._deferred: dict[int, list[Pages]] = {}
        self._given_back: deque[Lease] = deque()
        self._moves: list[Move] | None = None
        self._time = self._begun = self._epoch = 0
        self._broken: BaseException | None = None
        self._known: tuple[int, list[Span]] | None = None
        self._capacities: dict[int, tuple[int, int]] = {}
        self._thread = _NO_THREAD
        if shadow:
            from poolproof.buffer_shadow import BufferShadow

            self._follow(BufferShadow(whole))

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

    def _open_bytes(self, device: str, align: int) -> PageBytes:
        """The buffer on its device."""
        if not device.startswith("cuda"):
            sizes = [layout.page_bytes for layout in self.layouts]
            return HostBytes(self.total_bytes, sizes, self.sink_bytes, device, align)
        return self._open_tensor(device, align)

    def _open_tensor(self, device: str, align: int) -> PageBytes:
        """The buffer as a torch tensor."""
        from poolproof.device_bytes import DeviceBytes

        home, where = getattr(self._events, "home", None), getattr(self._events, "device", device)
        if str(where) not in (device, f"{device}:{getattr(where, 'index', None)}"):
            raise LayoutError(f"device is {device!r}, and the streams are those of {where}: give the same to both")
        return DeviceBytes(self.total_bytes, self._tables, self.sink_bytes, where, align, home)

    def _open_guard(self, zones: list[Zone]) -> Guard:
        """Red zones, poison and tags; the pool's buffer has bytes."""
        if self._bytes.device == "meta":
            raise LayoutError("guard=True on 'meta', which has no bytes to look at; leave it out")
        from poolproof.device_bytes import on_stream
        from poolproof.guard import Guard

        names = [layout.name for layout in self.layouts]
        with on_stream(getattr(self._events, "home", None)):
            return Guard(self._bytes.tensor, self._tables, zones, names, self.sink_bytes)

    def _follow(self, journal: Any) -> None:
        """Tell somebody of every change from now on."""
        self._journal = journal
        for table in self._tables:
            table.journal = journal

    def _note(self, action: str, *arguments: Any) -> None:
        if self._journal is not None:
            self._journal(action, *arguments)

    # -------------------------------------------------------------------------------------------------------- entering

    def _at(self, name: str) -> PageTable:
        """The tables of the sub-pool of this name."""
        if name not in self._places:
            raise KeyError(f"no sub-pool {name!r}; there are {', '.join(map(repr, self._places))}")
        return self._tables[self._places[name]]

    def _owns_ids(self, table: PageTable) -> bool:
        """Has the sub-pool ids of its own? A window has not."""
        return self._owners[table.index] == table.index

    def _enter(self) -> None:
        """An operation begins: on the thread that drives the pool, with what other threads gave back taken in."""
        if self._events.is_capturing():
            raise PoolBusy(
                "a CUDA graph is being captured, which would record the pool's own work: do this before, and capture "
                "only translations and the engine's kernels. Nothing was changed."
            )
        if self._thread != get_ident():
            if self._thread != _NO_THREAD:
                raise WrongThread(self._thread, get_ident())
            self._thread = get_ident()
        if self._broken is not None:
            raise PoolBroken(
                f"moving or zeroing pages failed before ({self._broken!r}), and what they hold is not known: stop "
                f"using this pool, and make a new one"
            )
        self._take_in()

    def _take_in(self) -> None:
        """Leases that were released since the last call end."""
        while self._given_back:
            self._take_back_lease(self._given_back.popleft())

    def _take_back_lease(self, lease: Lease) -> None:
        if lease not in self._leases:
            return
        self._leases.remove(lease)
        table = self._at(lease.name)
        self._note("release_page", lease, table.index, lease.physical)
        table.release(lease.physical)
        self._done("release")

    def _changed(self) -> None:
        """Whatever was worked out from the state no longer holds."""
        self._epoch += 1

    def _done(self, operation: str) -> None:
        """An operation is over."""
        self._changed()
        if self._journal is not None:
            self._journal.done(operation)

    # -------------------------------------------------------------------------------------------- the pool's own steps

    def _own_step(self) -> Step:
        """A step of the pool's own begins on the home stream."""
        step = Step(cast("UnifiedPool", self), self._begun, HOME, self._time, own=True)
        self._begun += 1
        self._flight.steps.append(step)
        self._note("begin", step)
        return step

    def _run(self, step: Step | None, work: Callable[[], None]) -> None:
        """Do work of the pool's own. The tables say already that it is done, so that nothing can be taken back."""
        try:
            self._events.run(step, work)
        except BaseException as error:
            self._broken = error
            raise

    def _launch_own(self, step: Step) -> None:
        self._events.launched(step)
        step.phase = Phase.LAUNCHED
        self._note("launch", step)
        self._complete_own()

    def _complete_own(self) -> None:
        """The pool's own steps are over that have nothing of anybody else's before them.

        Those at home are so where nobody can tell; where the device decides, with the next step that is completed.
        """
        for step in self._flight.free_own:
            is_next = not step.is_home and not any(other.is_before(step) for other in self._flight)
            if self._events.is_immediate or is_next:
                self._end_own(step)

    def _end_own(self, step: Step) -> None:
        """One of the pool's own steps is over, and dealt with."""
        if not step.is_home:
            self._events.completed(step)
        self._end(step)
        self._end_results(step)

    def _end(self, step: Step) -> None:
        """A step is over, and what was kept for it is not any more."""
        step.phase = Phase.OVER
        self._flight.steps.remove(step)
        for other in self._flight:
            other.waits.discard(step)
        self._note("complete", step)
        for name, pages in step.touched.items():
            self._at(name).release(pages)
        if self._copied:
            home = min((other.number for other in self._flight if other.is_home), default=self._begun)
            self._copied = [copied for copied in self._copied if copied.number > home]

    def _end_results(self, step: Step) -> None:
        step.phase = Phase.RETIRED
        self._note("retire", step)

    def _move(self, table: PageTable, sources: Pages, holes: Pages) -> None:
        """Copy bound pages into holes, in a step of the pool's own; the sources become holes."""
        self._refresh(with_tables=False)
        step, size = self._own_step(), table.page_bytes
        name, sources, holes = self.layouts[table.index].name, unwritable(sources), unwritable(holes)
        if self._guard is not None:
            self._run(None, self._guard.moved(table.index, sources, holes))
        ids = table.relocate(step, sources, holes)
        step.reads, step.writes = {name: sources}, {name: holes}
        self._run(step, lambda: self._bytes.copy(size, sources, holes))
        self._launch_own(step)
        self._changed()
        if self._moves is not None:
            self._moves.append(Move(name, ids, sources, holes))

    def _has_queue(self) -> bool:
        """Do pages wait to be zeroed?"""
        return any(table.waiting for table in self._tables)

    def _refresh(self, with_tables: bool = True) -> None:
        """Zero what was handed out since the last time, in a step of the pool's own, and tell a device of the tables.

        While a step at home is open, none of this may concern its pages: its work comes after.
        """
        due = None if self._guard is None else self._guard.due(self._flight.open_home_step is not None)
        if due is not None:
            self._run(None, due[0])
        self._refresh_bytes(with_tables)
        if due is not None:
            self._run(None, due[1])

    def _refresh_bytes(self, with_tables: bool) -> None:
        if not self._has_queue():
            if with_tables:
                self._tell_tables()
            return
        changes = self._bytes.take_changes() if with_tables else NO_CHANGES
        step = self._own_step()
        zeros = [unwritable(table.zero_queue(step)) for table in self._tables]
        named = zip(self.layouts, zeros, strict=True)
        step.writes = {layout.name: pages for layout, pages in named if len(pages)}
        self._run(step, lambda: self._bytes.refresh(zeros, changes))
        self._launch_own(step)

    def _tell_tables(self) -> None:
        """Tell a device of the tables, and no more."""
        changes = self._bytes.take_changes()
        if len(changes.places) or changes.wiped:
            self._run(None, lambda: self._bytes.refresh([NOTHING] * len(self._tables), changes))


def _events(device: Any, events: EventSource | None) -> EventSource:
    """Streams and events of a device, unless others are given."""
    if events is not None:
        if not all(hasattr(events, name) for name in METHODS):
            raise TypeError(f"events is {events!r}, which has not the methods of an EventSource: {', '.join(METHODS)}")
        return events
    if not str(device).startswith("cuda"):
        return Immediate()
    from poolproof.cuda_streams import CudaStreams, check_device

    check_device(device)
    return CudaStreams(device)


def unwritable(pages: Pages) -> Pages:
    """An array that is handed out and relied on: it cannot be written."""
    pages.setflags(write=False)
    return pages


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


def check_tables(layouts: Sequence[Resolved], total: int) -> None:
    """Raises LayoutError where the tables alone, about 45 bytes a page, would not fit into the host's memory."""
    need = sum(_TABLE_BYTES * (total // layout.page_bytes) for layout in layouts)
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if need > memory:
        sizes = ", ".join(f"{layout.name} {total // layout.page_bytes}" for layout in layouts)
        raise LayoutError(
            f"the tables of {sizes} pages take {need} bytes, and the host has {memory}: make total_bytes smaller or "
            f"pages larger"
        )
