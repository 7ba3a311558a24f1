"""The invariants of the spec, tested against the stored tables of a unified pool and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from poolproof import chain
from poolproof.page_list import PageList
from poolproof.page_table import FILLED, NO_ID, PUBLISHED, UNMAPPED, PageTable
from poolproof.spec.arithmetic import ceil_div
from poolproof.violation import Violation

if TYPE_CHECKING:
    from poolproof.steps import Step
    from poolproof.unified_pool import UnifiedPool

Pages: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]
_LISTED: Final = 8
_NONE: Final = np.empty(0, np.int64)

SPEC_CLAIMS: Final = {
    "extents_are_page_ranges": "I14",
    "the_ends_do_not_move": "I14",
    "extents_are_between_sink_and_end": "I14",
    "extents_are_in_order": "I14",
    "the_sink_is_the_sink_of_all": "I9",
    "ids_lead_to_pages_and_back": "I9",
    "pages_lead_to_ids_and_back": "I9",
    "windows_bind_only_live_ids": "I9",
    "unmapped_ids_are_listed": "I1",
    "holes_are_free_pages": "I1",
    "pending_pages_belong_to_nobody": "I1",
    "every_page_of_an_extent_is_accounted_for": "I1",
    "bound_pages_are_counted": "I21",
    "pages_are_conserved": "I21",
    "ids_are_conserved": "I21",
    "tickets_are_in_order": "I5",
    "waits_look_back": "I5",
    "read_sets_hold_pages": "I5",
    "write_sets_hold_pages": "I5",
    "only_steps_in_flight_touch_pages": "I5",
    "pages_touched_from_away_are_kept": "I5",
    "leased_pages_are_kept": "I5",
    "leases_are_counted": "I8",
    "gates_are_counted": "I8",
    "deferred_pages_wait": "I3",
    "only_bound_pages_wait_for_zeroing": "I15",
    "pages_that_wait_for_zeroing_are_untouched_from_away": "I15",
    "versions_are_captured_before_they_pass": "I24",
    "the_same_id_has_the_same_tenancy": "I24",
    "a_remembered_credit_is_the_credit": "I12",
    "filled_pages_are_written": "I6",
    "filled_pages_have_no_stale_byte": "I6",
    "published_ids_are_filled": "I6",
}
"""Claims of `poolproof.spec.buffer` and `poolproof.spec.schedule`, and the first tag of each."""

OWN_CLAIMS: Final = {
    "storage_is_well_formed": "I1",
    "counts_are_never_negative": "I21",
    "lists_agree_with_their_marks": "I1",
    "pending_pages_are_held": "I11",
    "no_hole_is_at_a_frontier": "I11",
    "empty_floats_are_parked": "I14",
    "queued_zeroings_are_found": "I15",
}
"""Claims about how this pool stores its state, or about what it does at once where the spec lets it wait."""

_TAGS: Final = SPEC_CLAIMS | OWN_CLAIMS


class _Chart:
    """One sub-pool's tables, and where each of its pages and ids stands.

    Attributes:
        pages: pages of the tables.
        inside, hole, pending: [pages], those of the extent, and the members of the two lists.
        leads: [pages], those other than the sink's that lead to an id.
        live: [ids], those other than the sink that lead to a page.
        kept: [pages], those whose bytes are still theirs: bound or pending.
    """

    def __init__(self, pool: UnifiedPool, k: int) -> None:
        table = pool._tables[k]
        self.k, self.table, self.name = k, table, pool.layouts[k].name
        self.pages = len(table.virtual) - 1
        number = np.arange(self.pages)
        self.inside: Mask = (table.first <= number) & (number < table.last)
        self.hole = _mask(self.pages, table.holes.members)
        self.pending = _mask(self.pages, table.pending.members)
        self.leads: Mask = table.virtual[:-1] != NO_ID
        self.live: Mask = table.physical[:-1] != UNMAPPED
        self.leads[0] = self.live[0] = False
        self.kept: Mask = self.inside & ~self.hole

    def broken(self, name: str, text: str) -> Violation:
        """A claim does not hold here."""
        return _broken(name, f"{self.name!r}: {text}")

    def wrong(self, name: str, found: Mask | Pages, text: str) -> Iterator[Violation]:
        """A claim does not hold of these pages or ids, given as numbers or as a mask, if there are any."""
        numbers: Pages = np.flatnonzero(found) if found.dtype == np.bool_ else found.astype(np.int64)
        if numbers.size:
            yield self.broken(name, f"{numbers.size} {text}: {_listed(numbers)}")


def check_buffer(pool: UnifiedPool) -> list[Violation]:
    """The broken claims, [] for a healthy pool. Where the tables cannot be read at all, only that is reported."""
    unreadable = list(_storage(pool))
    if unreadable:
        return unreadable
    charts = [_Chart(pool, k) for k in range(len(pool._tables))]
    found = [broken for claim in _OF_EACH for chart in charts for broken in claim(pool, chart)]
    return found + [broken for claim in _OF_ALL for broken in claim(pool, charts)]


def _broken(name: str, text: str) -> Violation:
    return Violation(_TAGS[name], name, text)


def _listed(numbers: Pages) -> str:
    more = ", ..." if numbers.size > _LISTED else ""
    return f"[{', '.join(map(str, numbers[:_LISTED].tolist()))}{more}]"


def _within(n: int, numbers: Pages) -> Pages:
    """Those from 0 to n - 1."""
    return numbers[(numbers >= 0) & (numbers < n)]


def _mask(n: int, numbers: Pages) -> Mask:
    """[n], True at these numbers; others are passed over."""
    found = np.zeros(n, np.bool_)
    found[_within(n, numbers)] = True
    return found


def _joined(arrays: Iterable[Pages]) -> Pages:
    return np.concatenate([_NONE, *arrays])


# --------------------------------------------------------------------------------------------------------- storage


def _storage(pool: UnifiedPool) -> Iterator[Violation]:
    for k, table in enumerate(pool._tables):
        yield from _arrays(pool, k, table)
        yield from _counts(pool.layouts[k].name, table)
    known = set(pool._places)
    for what, name, pages in _page_sets(pool):
        if name not in known:
            yield _broken("storage_is_well_formed", f"{what} is of {name!r}, which is no sub-pool")
        elif not _is_int64(pages):
            yield _broken("storage_is_well_formed", f"{what} of {name!r} holds {_kind(pages)}, not int64[n]")


def _arrays(pool: UnifiedPool, k: int, table: PageTable) -> Iterator[Violation]:
    layout = pool.layouts[k]
    pages = pool.total_bytes // layout.page_bytes
    ids = pool.total_bytes // pool.layouts[pool._owners[k]].page_bytes + 1
    for name, array, length, dtype in (
        ("physical", table.physical, ids + 1, np.int64),
        ("virtual", table.virtual, pages + 1, np.int64),
        ("born", table.born, ids, np.int64),
        ("flags", table.flags, ids, np.int8),
        ("hold", table.hold, pages, np.int32),
        ("to_zero", table.to_zero, pages, np.bool_),
        ("holes._place", table.holes._place, pages, np.int32),
        ("pending._place", table.pending._place, pages, np.int32),
        ("_free_ids", table._free_ids, ids - 1, np.int64),
    ):
        if _kind(array) != f"{np.dtype(dtype)}[{length}]":
            text = f"{layout.name!r}: {name} is {_kind(array)}, not {np.dtype(dtype)}[{length}]"
            yield _broken("storage_is_well_formed", text)
    for name, items in (("holes", table.holes._items), ("pending", table.pending._items)):
        if not _is_int64(items):
            yield _broken("storage_is_well_formed", f"{layout.name!r}: {name}._items is {_kind(items)}, not int64[n]")
    yield from _numbers(layout.name, table, layout.page_bytes, ids)


def _numbers(name: str, table: PageTable, page_bytes: int, ids: int) -> Iterator[Violation]:
    for what, number, right in (("page_bytes", table.page_bytes, page_bytes), ("ids", table.ids, ids)):
        if number != right:
            yield _broken("storage_is_well_formed", f"{name!r}: {what} is {number}, not {right}")
    for what, number in (("first", table.first), ("last", table.last), ("bound", table.bound), ("kept", table.kept)):
        if isinstance(number, bool) or not isinstance(number, int | np.integer):
            yield _broken("storage_is_well_formed", f"{name!r}: {what} is {number!r}, no integer")


def _counts(name: str, table: PageTable) -> Iterator[Violation]:
    for what, count, limit in (
        ("bound", table.bound, table.ids - 1),
        ("holes.size", table.holes.size, len(table.holes._items)),
        ("pending.size", table.pending.size, len(table.pending._items)),
        ("_free_head", table._free_head, table.ids - 1),
    ):
        if not 0 <= count <= limit:
            yield _broken("counts_are_never_negative", f"{name!r}: {what} is {count}, outside 0..{limit}")


def _page_sets(pool: UnifiedPool) -> Iterator[tuple[str, Any, Any]]:
    """Everything that lists pages of a sub-pool: what it is, the sub-pool's name, the pages."""
    for lease in pool._leases:
        yield repr(lease), lease.name, lease.physical
    for step in pool._flight:
        for what in ("reads", "writes", "touched"):
            for name, pages in getattr(step, what).items():
                yield f"{step!r}.{what}", name, pages
    names = dict(enumerate(pool._places))
    for k, groups in pool._deferred.items():
        for pages in groups:
            yield "the group of frees", names.get(k), pages
    for table in pool._tables:
        for pages in table._queue:
            yield "the queue of pages to be zeroed", names[table.index], pages


def _kind(array: Any) -> str:
    is_array = isinstance(array, np.ndarray)
    return f"{array.dtype}[{', '.join(map(str, array.shape))}]" if is_array else type(array).__name__


def _is_int64(array: Any) -> bool:
    return isinstance(array, np.ndarray) and array.dtype == np.int64 and array.ndim == 1


# --------------------------------------------------------------------------------------------------------- extents


def _extent(pool: UnifiedPool, chart: _Chart) -> Iterator[Violation]:
    first, last, size = chart.table.first, chart.table.last, chart.table.page_bytes
    if not 0 <= first <= last <= chart.pages:
        yield chart.broken("extents_are_page_ranges", f"pages {first} to {last} of {chart.pages}")
    if first != last and not pool.sink_bytes <= first * size <= last * size <= pool.total_bytes:
        text = f"bytes {first * size} to {last * size}, the sink ends at {pool.sink_bytes} and all at "
        yield chart.broken("extents_are_between_sink_and_end", f"{text}{pool.total_bytes}")


def _ends(pool: UnifiedPool, chart: _Chart) -> Iterator[Violation]:
    first, last, end = chart.table.first, chart.table.last, len(pool._tables) - 1
    bottom, top = ceil_div(pool.sink_bytes, chart.table.page_bytes), chart.pages
    if chart.k == 0 and first != bottom:
        yield chart.broken("the_ends_do_not_move", f"it grows up from page {first}, not {bottom}")
    elif 0 < chart.k == end and last != top:
        yield chart.broken("the_ends_do_not_move", f"it grows down from page {last}, not {top}")
    elif 0 < chart.k < end and first == last != 0:
        yield chart.broken("empty_floats_are_parked", f"it has no pages, and lies at page {first}, not 0")


def _order(pool: UnifiedPool, charts: list[_Chart]) -> Iterator[Violation]:
    below: _Chart | None = None
    for chart in charts:
        if chart.table.first == chart.table.last:
            continue
        end = below.table.last * below.table.page_bytes if below is not None else 0
        begin = chart.table.first * chart.table.page_bytes
        if below is not None and end > begin:
            yield chart.broken("extents_are_in_order", f"it begins at byte {begin}, {below.name!r} ends at {end}")
        if below is None or chart.table.last * chart.table.page_bytes > end:
            below = chart


def _frontiers(pool: UnifiedPool, chart: _Chart) -> Iterator[Violation]:
    is_down = 0 < chart.k == len(pool._tables) - 1
    edges = ([] if is_down else [chart.table.last - 1]) + ([chart.table.first] if chart.k else [])
    wrong = np.array([page for page in sorted(set(edges)) if 0 <= page < chart.pages and chart.hole[page]], np.int64)
    yield from chart.wrong("no_hole_is_at_a_frontier", wrong, "holes are at a frontier that should have retreated")


# ----------------------------------------------------------------------------------------------------- ids and pages


def _sink(pool: UnifiedPool, chart: _Chart) -> Iterator[Violation]:
    page, v = int(chart.table.physical[0]), int(chart.table.virtual[0])
    if page != 0 or v != 0:
        yield chart.broken("the_sink_is_the_sink_of_all", f"id 0 leads to page {page}, page 0 to id {v}")


def _ids(pool: UnifiedPool, chart: _Chart) -> Iterator[Violation]:
    name, virtual = "ids_lead_to_pages_and_back", chart.table.virtual
    if chart.table.physical[-1] != UNMAPPED:
        yield chart.broken(name, f"the entry that stands for ids past the end is {chart.table.physical[-1]}")
    ids = np.flatnonzero(chart.live)
    pages = chart.table.physical[ids]
    is_page = (pages >= 0) & (pages < chart.pages)
    yield from chart.wrong(name, ids[~is_page], "ids lead to no page of the tables")
    ids, pages = ids[is_page], pages[is_page]
    yield from chart.wrong(name, ids[~chart.inside[pages]], "ids lead to pages outside the extent")
    yield from chart.wrong(name, ids[virtual[pages] != ids], "ids lead to pages that lead elsewhere")


def _pages(pool: UnifiedPool, chart: _Chart) -> Iterator[Violation]:
    name = "pages_lead_to_ids_and_back"
    if chart.table.virtual[-1] != NO_ID:
        yield chart.broken(name, f"the entry that stands for no page is {chart.table.virtual[-1]}")
    pages = np.flatnonzero(chart.leads)
    ids = chart.table.virtual[pages]
    is_id = (ids > 0) & (ids < len(chart.live))
    yield from chart.wrong(name, pages[~is_id], "pages lead to no id")
    pages, ids = pages[is_id], ids[is_id]
    yield from chart.wrong(name, pages[chart.table.physical[ids] != pages], "pages lead to ids that lead elsewhere")


def _windows(pool: UnifiedPool, charts: list[_Chart]) -> Iterator[Violation]:
    for chart in charts:
        wrong = chart.live & ~charts[pool._owners[chart.k]].live
        yield from chart.wrong("windows_bind_only_live_ids", wrong, "ids have a page here and none in their owner")


def _free_list(pool: UnifiedPool, chart: _Chart) -> Iterator[Violation]:
    if pool._owners[chart.k] != chart.k:
        return
    name, listed = "unmapped_ids_are_listed", chart.table._free_ids[chart.table._free_head :]
    strays = listed[(listed < 1) | (listed >= len(chart.live))]
    yield from chart.wrong(name, strays, "numbers are listed as free and are no ids")
    times = np.bincount(_within(len(chart.live), listed), minlength=len(chart.live))
    times[0] = 1  # the sink, which is on no list
    yield from chart.wrong(name, times > 1, "ids are listed as free more than once")
    yield from chart.wrong(name, (times > 0) & chart.live, "ids are listed as free and are live")
    yield from chart.wrong(name, (times == 0) & ~chart.live, "ids have no page and are not listed as free")


# ------------------------------------------------------------------------------------------------ lists and counts


def _lists(pool: UnifiedPool, chart: _Chart) -> Iterator[Violation]:
    for what, pages in (("holes", chart.table.holes), ("pending pages", chart.table.pending)):
        yield from _list(chart, what, pages)


def _list(chart: _Chart, what: str, pages: PageList) -> Iterator[Violation]:
    name, members = "lists_agree_with_their_marks", pages.members
    places = np.zeros(chart.pages, np.int64)
    inside = _within(chart.pages, members)
    yield from chart.wrong(name, np.setdiff1d(members, inside), f"{what} are no pages of the tables")
    places[inside] = 1 + np.flatnonzero((members >= 0) & (members < chart.pages))
    once, times = np.unique(inside, return_counts=True)
    yield from chart.wrong(name, once[times > 1], f"{what} are listed more than once")
    wrong = pages._place != places
    wrong[once[times > 1]] = False
    yield from chart.wrong(name, wrong, f"{what} are not where their marks say")


def _holes(pool: UnifiedPool, chart: _Chart) -> Iterator[Violation]:
    name = "holes_are_free_pages"
    yield from chart.wrong(name, chart.hole & ~chart.inside, "holes are outside the extent")
    yield from chart.wrong(name, chart.hole & chart.leads, "holes lead to an id")
    yield from chart.wrong(name, chart.hole & chart.pending, "holes are pending")


def _pending(pool: UnifiedPool, chart: _Chart) -> Iterator[Violation]:
    name = "pending_pages_belong_to_nobody"
    yield from chart.wrong(name, chart.pending & ~chart.inside, "pending pages are outside the extent")
    yield from chart.wrong(name, chart.pending & chart.leads, "pending pages lead to an id")
    free = chart.pending & (chart.table.hold == 0)
    yield from chart.wrong("pending_pages_are_held", free, "pages are pending and nothing keeps them")


def _every_page(pool: UnifiedPool, chart: _Chart) -> Iterator[Violation]:
    lost = chart.inside & ~(chart.leads | chart.hole | chart.pending)
    text = "pages of the extent are neither bound, nor holes, nor pending"
    yield from chart.wrong("every_page_of_an_extent_is_accounted_for", lost, text)


def _conservation(pool: UnifiedPool, chart: _Chart) -> Iterator[Violation]:
    table, number = chart.table, int(np.count_nonzero(chart.leads))
    if table.bound != number:
        yield chart.broken("bound_pages_are_counted", f"the count is {table.bound}, {number} pages lead to an id")
    parts = table.bound + table.holes.size + table.pending.size
    if parts != table.last - table.first:
        text = f"{table.bound} bound + {table.holes.size} holes + {table.pending.size} pending = {parts}, the extent"
        yield chart.broken("pages_are_conserved", f"{text} has {table.last - table.first} pages")
    owns = pool._owners[chart.k] == chart.k
    unmapped = len(table._free_ids) - table._free_head if owns else int(np.count_nonzero(~chart.live)) - 1
    if table.bound + unmapped + 1 != table.ids:
        text = f"{table.bound} bound + {unmapped} free + the sink = {table.bound + unmapped + 1}, not {table.ids}"
        yield chart.broken("ids_are_conserved", text)


# ------------------------------------------------------------------------------------------------------------ steps


def _tickets(pool: UnifiedPool, charts: list[_Chart]) -> Iterator[Violation]:
    numbers = [step.number for step in pool._flight]
    if sorted(set(numbers)) != numbers or any(not 0 <= number < pool._begun for number in numbers):
        yield _broken("tickets_are_in_order", f"steps {numbers} are in flight, {pool._begun} have begun")
    for step in pool._flight:
        if not step.is_in_flight:
            yield _broken("only_steps_in_flight_touch_pages", f"{step!r} is among those in flight")
        if not 0 <= step.began <= pool._time:
            text = f"{step!r} began at {step.began}, it is {pool._time} now"
            yield _broken("versions_are_captured_before_they_pass", text)


def _waits(pool: UnifiedPool, charts: list[_Chart]) -> Iterator[Violation]:
    steps = set(pool._flight)
    for step in pool._flight:
        wrong = [other for other in step.waits if other not in steps or other.number >= step.number]
        if wrong:
            text = f"{step!r} waits for {len(wrong)} that are over or began later: {wrong[:_LISTED]}"
            yield _broken("waits_look_back", text)


def _step_pages(pool: UnifiedPool, chart: _Chart) -> Iterator[Violation]:
    for step in pool._flight:
        for name, found in (("read_sets_hold_pages", step.reads), ("write_sets_hold_pages", step.writes)):
            pages = found.get(chart.name, _NONE)
            wrong = pages[(pages < 0) | (pages >= chart.pages)]
            yield from chart.wrong(name, wrong, f"numbers in a set of {step!r} are no pages")


def _away(pool: UnifiedPool, chart: _Chart) -> Iterator[Violation]:
    for step in pool._flight:
        touched = step.touched.get(chart.name, _NONE)
        expected = _NONE if step.is_home else _touches(step, chart.name)
        wrong = np.setxor1d(touched, expected)
        if not wrong.size and touched.size > expected.size:
            wrong = touched
        name = "pages_touched_from_away_are_kept"
        yield from chart.wrong(name, wrong, f"pages are touched by {step!r} and not noted, or the reverse, or twice")
        if not step.is_home:
            yield from _kept_for(step, chart, _within(chart.pages, expected))


def _touches(step: Step, name: str) -> Pages:
    return np.union1d(step.reads.get(name, _NONE), step.writes.get(name, _NONE))


def _kept_for(step: Step, chart: _Chart, pages: Pages) -> Iterator[Violation]:
    table = chart.table
    name = "pages_touched_from_away_are_kept"
    yield from chart.wrong(name, pages[~chart.kept[pages]], f"pages touched by {step!r} are neither bound nor pending")
    name = "pages_that_wait_for_zeroing_are_untouched_from_away"
    yield from chart.wrong(name, pages[table.to_zero[pages]], f"pages touched by {step!r} wait to be zeroed")
    ids = table.virtual[pages]
    ids = _within(table.ids, ids[ids > 0])
    name = "the_same_id_has_the_same_tenancy"
    text = f"ids have pages that {step!r} touches, and were given them after it began"
    yield from chart.wrong(name, ids[table.born[ids] >= step.began], text)


# ------------------------------------------------------------------------------------------------------------ holds


def _holds(pool: UnifiedPool, chart: _Chart) -> Iterator[Violation]:
    table = chart.table
    leased = _joined(lease.physical for lease in pool._leases if lease.name == chart.name)
    touched = _joined(step.touched.get(chart.name, _NONE) for step in pool._flight)
    deferred = _joined(pool._deferred.get(chart.k, []))
    strays = leased[(leased < 0) | (leased >= chart.pages)]
    yield from chart.wrong("leased_pages_are_kept", strays, "numbers in leases are no pages")
    held = (table.hold != 0) | _mask(chart.pages, leased)
    yield from chart.wrong("leased_pages_are_kept", held & ~chart.kept, "pages are held and neither bound nor pending")
    count = sum(
        np.bincount(_within(chart.pages, pages), minlength=chart.pages) for pages in (leased, touched, deferred)
    )
    text = "pages have another count of holds than leases, steps away from home and deferred frees add up to"
    yield from chart.wrong("leases_are_counted", table.hold != count, text)
    if table.kept != (total := int(table.hold.sum())):
        yield chart.broken("leases_are_counted", f"the sum of holds is noted as {table.kept}, it is {total}")
    yield from _deferred(pool, chart, deferred)


def _deferred(pool: UnifiedPool, chart: _Chart, deferred: Pages) -> Iterator[Violation]:
    name = "deferred_pages_wait"
    if pool._group is None:
        yield from chart.wrong(name, deferred, "pages are deferred, and no group is open")
    once, times = np.unique(deferred, return_counts=True)
    yield from chart.wrong(name, once[times > 1], "pages are deferred more than once")
    pages = _within(chart.pages, once)
    yield from chart.wrong(name, np.setdiff1d(once, pages), "deferred numbers are no pages")
    yield from chart.wrong(name, pages[~chart.pending[pages]], "pages are deferred and not pending")


def _gates(pool: UnifiedPool, charts: list[_Chart]) -> Iterator[Violation]:
    if len(set(pool._gates)) != len(pool._gates):
        yield _broken("gates_are_counted", f"a gate is listed more than once: {pool._gates[:_LISTED]}")
    for gate in pool._gates:
        if not gate.is_closed or gate.name not in pool._places:
            yield _broken("gates_are_counted", f"{gate!r} is listed as closed")


# ------------------------------------------------------------------------------------------ contents, memory of room


def _zeroing(pool: UnifiedPool, chart: _Chart) -> Iterator[Violation]:
    waiting, queued = chart.table.to_zero, _joined(chart.table._queue)
    is_bound = chart.inside & chart.leads & ~chart.hole & ~chart.pending
    wrong = waiting & ~is_bound if pool.layouts[chart.k].zeroed else waiting
    name = "only_bound_pages_wait_for_zeroing"
    yield from chart.wrong(name, wrong, "pages wait to be zeroed and are not bound, or not to be zeroed at all")
    name = "queued_zeroings_are_found"
    yield from chart.wrong(name, waiting & ~_mask(chart.pages, queued), "pages wait to be zeroed and are not queued")
    strays = queued[(queued < 0) | (queued >= chart.pages)]
    yield from chart.wrong(name, strays, "numbers in the queue are no pages")


def _contents(pool: UnifiedPool, chart: _Chart) -> Iterator[Violation]:
    table, flags = chart.table, chart.table.flags
    filled = flags & FILLED != 0
    name = "filled_pages_are_written"
    yield from chart.wrong(name, filled & ~chart.live, "ids count as filled and are not live")
    yield from chart.wrong(name, flags & ~(FILLED | PUBLISHED) != 0, "ids have flags that mean nothing")
    yield from chart.wrong("published_ids_are_filled", (flags & PUBLISHED != 0) & ~filled, "ids are published unfilled")
    ids = np.flatnonzero(filled & chart.live)
    pages = table.physical[ids]
    is_page = (pages >= 0) & (pages < chart.pages)
    ids, pages = ids[is_page], pages[is_page]
    text = "ids count as filled and wait to be zeroed"
    yield from chart.wrong("filled_pages_have_no_stale_byte", ids[table.to_zero[pages]], text)


def _births(pool: UnifiedPool, chart: _Chart) -> Iterator[Violation]:
    wrong = (chart.table.born < 0) | (chart.table.born > pool._time)
    text = f"ids were given out before the beginning, or after now, which is {pool._time}"
    yield from chart.wrong("versions_are_captured_before_they_pass", wrong, text)


def _credit(pool: UnifiedPool, charts: list[_Chart]) -> Iterator[Violation]:
    for k, (epoch, room) in pool._capacities.items():
        if epoch == pool._epoch:
            now = chain.room(
                [table.span(pool._fixed(k)) for k, table in enumerate(pool._tables)],
                k,
                pool.sink_bytes,
                pool.total_bytes,
            )
            if room != now:
                text = f"room for {room} pages is remembered, there is room for {now}"
                yield charts[k].broken("a_remembered_credit_is_the_credit", text)
        elif epoch > pool._epoch:
            text = f"room is remembered from change {epoch} on, there have been {pool._epoch}"
            yield charts[k].broken("a_remembered_credit_is_the_credit", text)


_OF_EACH: Final[tuple[Callable[[UnifiedPool, _Chart], Iterator[Violation]], ...]] = (
    _extent,
    _ends,
    _frontiers,
    _sink,
    _ids,
    _pages,
    _free_list,
    _lists,
    _holes,
    _pending,
    _every_page,
    _conservation,
    _step_pages,
    _away,
    _holds,
    _zeroing,
    _contents,
    _births,
)
_OF_ALL: Final[tuple[Callable[[UnifiedPool, list[_Chart]], Iterator[Violation]], ...]] = (
    _order,
    _windows,
    _tickets,
    _waits,
    _gates,
    _credit,
)
