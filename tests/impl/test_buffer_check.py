"""`check` of a unified pool: nothing to report while the pool is used as meant, and every kind of damage by name."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from buffers import chain_of, queued

import poolproof as pp
from poolproof import Pages, UnifiedPool, WindowPages
from poolproof.buffer_check import OWN_CLAIMS, SPEC_CLAIMS
from poolproof.page_table import FILLED, PUBLISHED
from poolproof.spec.buffer import SPEC as BUFFER
from poolproof.spec.schedule import SPEC as SCHEDULE
from poolproof.steps import Phase

OF_GHOSTS = {
    "what_is_read_is_what_was_written",
    "reads_are_of_pages",
    "writes_are_of_pages",
    "pages_that_wait_for_zeroing_count_as_zero",
    "zeroed_pages_have_no_stale_byte",
    "what_nobody_is_writing_is_on_the_device",
    "the_last_writer_is_in_flight",
    "the_last_writer_has_the_last_word",
    "earlier_writers_are_ahead_of_the_last",
    "readers_without_a_source_find_it_on_the_device",
    "no_writer_overtakes_a_reader",
    "readers_are_promised_what_their_source_leaves",
    "no_writer_comes_between_source_and_reader",
    "captured_tables_are_current_or_told_apart",
    "zeroed_ids_hold_zeros_or_their_own",
}


def window(name: str, grows: Any, **more: Any) -> WindowPages:
    """A window of "a" with pages of 2 bytes."""
    return WindowPages(name, ids_of="a", layers=1, kv_heads=1, head_dim=1, dtype="uint8", grows=grows, **more)


def busy_pool() -> UnifiedPool:
    """A pool with something of everything.

    a: pages 2 to 11 with ids 1, 3, 5, 6, 7, 9, 10 on 2, 4, 6, 7, 8, 10, 11; 9 is a hole, 3 and 5 are pending.
    w: pages 33 to 36 with ids 1, 3 on 33, 35; 34 and 36 are pending.
    f: pages 26 to 31 with ids 1, 2, 4, 6 on 26, 27, 29, 31; 30 is a hole, 28 is pending.
    e: a float without pages. d: pages 92 to 99 with ids 8 to 1; 92 and 93 wait to be zeroed.
    Step 2 is at home, 3 and 4 are away and wait for it; the group of frees is open.
    """
    pool = UnifiedPool(
        200,
        [
            Pages("a", bytes=3, grows="up", zero="never"),
            window("w", "float"),
            Pages("f", bytes=4, grows="float", zero="never"),
            Pages("e", bytes=5, grows="float"),
            Pages("d", bytes=2, grows="down"),
        ],
    )
    a, f, d = pool["a"].alloc(10), pool["f"].alloc(6), pool["d"].alloc(6)
    pool["w"].bind(a[:4])
    over = pool.begin_step(writes={"a": a[:6], "d": d[:2]})
    over.launched()
    over.complete()
    over.publish("a", a[4:6])
    pool.begin_step(writes={"f": f[:2]}).launched()
    pool.begin_step(reads={"a": a[:2], "d": d[1:3]}, writes={"a": a[2:3]}, stream=1).launched()
    pool.begin_step(reads={"f": f[:1]}, stream=2)
    pool.lease("f", f[2:4], "rdma")
    pool.gate("d", "copy")
    pool["a"].free(a[7:8])
    pool["f"].free(f[4:5])
    pool.free_group()
    pool["a"].free(a[[1, 3]])
    pool["f"].free(f[2:3])
    pool["d"].alloc(2)
    pool.capacity("a")
    return pool


# ---------------------------------------------------------------------------------------------------------- damages

Damage = Callable[[UnifiedPool], Any]


def put(name: str, array: str, at: Any, value: Any) -> Damage:
    """An entry of an array of a table is changed."""

    def damage(pool: UnifiedPool) -> None:
        owner: Any = pool._at(name)
        for part in array.split("."):
            owner = getattr(owner, part)
        owner[at] = value

    return damage


def set_to(name: str, field: str, value: Any) -> Damage:
    """A field of a table is changed."""

    def damage(pool: UnifiedPool) -> None:
        owner: Any = pool._at(name)
        *parts, last = field.split(".")
        for part in parts:
            owner = getattr(owner, part)
        setattr(owner, last, value)

    return damage


def change(name: str, what: Callable[[Any], Any]) -> Damage:
    """Something is done to a table."""

    def damage(pool: UnifiedPool) -> None:
        what(pool._at(name))

    return damage


def step(at: int, what: Callable[[Any], Any]) -> Damage:
    """Something is done to a step in flight, counted from the oldest one."""

    def damage(pool: UnifiedPool) -> None:
        what(pool._flight.steps[at])

    return damage


def numbers(*values: int) -> Any:
    """An int64 array."""
    return np.array(values, np.int64)


def move_extent(name: str, by: int) -> Damage:
    """An extent is said to lie elsewhere."""

    def damage(pool: UnifiedPool) -> None:
        table = pool._at(name)
        table.first, table.last = table.first + by, table.last + by

    return damage


def all_at_once(*damages: Damage) -> Damage:
    """Several damages."""

    def damage(pool: UnifiedPool) -> None:
        for one in damages:
            one(pool)

    return damage


def leave_hole(name: str, v: int) -> Damage:
    """An id is freed; its page, at a frontier, is a hole and does not leave the extent."""

    def damage(pool: UnifiedPool) -> None:
        table = pool._at(name)
        page = int(table.physical[v])
        table.physical[v] = table.virtual[page] = -1
        table.to_zero[page] = False
        table.holes.add(numbers(page))
        table.bound -= 1
        table.push_ids(numbers(v))

    return damage


def bind_dead(pool: UnifiedPool) -> None:
    """Id 8 of "a", which is dead, has a page of the window."""
    pool._at("w").take_frontier(numbers(8), pool._time, upwards=True)


def rebind(pool: UnifiedPool) -> None:
    """Id 1 of "a" is as if it had been freed and given out again while step 3 reads its page."""
    pool._at("a").born[1] = pool._time


def wait_in_vain(pool: UnifiedPool) -> None:
    """The oldest step in flight waits for the newest."""
    pool._flight.steps[0].waits.add(pool._flight.steps[-1])


EXTENT, ENDS, BETWEEN = "extents_are_page_ranges", "the_ends_do_not_move", "extents_are_between_sink_and_end"
ORDER, PARKED, FRONTIER = "extents_are_in_order", "empty_floats_are_parked", "no_hole_is_at_a_frontier"
SINK, IDS, PAGES = "the_sink_is_the_sink_of_all", "ids_lead_to_pages_and_back", "pages_lead_to_ids_and_back"
WINDOWS, UNMAPPED = "windows_bind_only_live_ids", "unmapped_ids_are_listed"
HOLES, PENDING, LOST = (
    "holes_are_free_pages",
    "pending_pages_belong_to_nobody",
    "every_page_of_an_extent_is_accounted_for",
)
LISTS, HELD, BOUND = "lists_agree_with_their_marks", "pending_pages_are_held", "bound_pages_are_counted"
PAGE_SUM, ID_SUM = "pages_are_conserved", "ids_are_conserved"
TICKETS, WAITS, FLIGHT = "tickets_are_in_order", "waits_look_back", "only_steps_in_flight_touch_pages"
READS, WRITES, AWAY = "read_sets_hold_pages", "write_sets_hold_pages", "pages_touched_from_away_are_kept"
LEASED, COUNTED, GATES = "leased_pages_are_kept", "leases_are_counted", "gates_are_counted"
DEFERRED, ZEROED = "deferred_pages_wait", "only_bound_pages_wait_for_zeroing"
ZERO_AWAY, QUEUE = "pages_that_wait_for_zeroing_are_untouched_from_away", "queued_zeroings_are_found"
VERSIONS, SAME, CREDIT = (
    "versions_are_captured_before_they_pass",
    "the_same_id_has_the_same_tenancy",
    "a_remembered_credit_is_the_credit",
)
FILLS, STALE, PUBLISHES = (
    "filled_pages_are_written",
    "filled_pages_have_no_stale_byte",
    "published_ids_are_filled",
)
STORAGE, NEGATIVE = "storage_is_well_formed", "counts_are_never_negative"

DAMAGE: list[tuple[str, Damage, set[str]]] = [
    ("an extent ends before it begins", set_to("e", "first", 3), {EXTENT, BETWEEN, ORDER, PAGE_SUM}),
    ("an extent is negative", set_to("e", "first", -1), {EXTENT, BETWEEN, ORDER, PAGE_SUM}),
    ("an extent passes the tables", set_to("d", "last", 101), {EXTENT, BETWEEN, ENDS, PAGE_SUM}),
    ("the up end has moved", set_to("a", "first", 3), {ENDS, IDS, PAGE_SUM, AWAY, LEASED}),
    ("the down end has moved", set_to("d", "last", 99), {ENDS, IDS, PAGE_SUM}),
    ("an extent reaches into the sink", set_to("a", "first", 1), {BETWEEN, ENDS, LOST, PAGE_SUM}),
    ("extents cross", set_to("w", "first", 16), {ORDER, LOST, PAGE_SUM}),
    ("extents cross over an empty one", set_to("d", "first", 62), {ORDER, LOST, PAGE_SUM}),
    ("an extent crosses two", set_to("a", "last", 36), {ORDER, LOST, PAGE_SUM, CREDIT}),
    ("an empty float lies somewhere", move_extent("e", 20), {PARKED}),
    ("a hole is left at the upper frontier", leave_hole("f", 6), {FRONTIER}),
    ("a hole is left at the lower frontier", leave_hole("d", 8), {FRONTIER}),
    ("the sink's id leads elsewhere", put("a", "physical", 0, 2), {SINK}),
    ("the sink's page leads elsewhere", put("a", "virtual", 0, 5), {SINK}),
    ("two ids lead to one page", put("a", "physical", 6, 6), {IDS, PAGES}),
    ("an id leads outside the extent", put("a", "physical", 6, 40), {IDS, PAGES}),
    ("an id leads past the tables", put("a", "physical", 6, 70), {IDS, PAGES}),
    ("an id leads below the tables", put("a", "physical", 6, -2), {IDS, PAGES}),
    ("an id past the end leads to a page", put("a", "physical", -1, 7), {IDS}),
    ("two pages lead to one id", put("a", "virtual", 8, 6), {PAGES, IDS}),
    ("a page leads to no id", put("a", "virtual", 8, 67), {PAGES, IDS}),
    ("a page leads to the sink's id", put("a", "virtual", 8, 0), {PAGES, IDS}),
    ("a page is lost", put("a", "virtual", 8, -1), {IDS, LOST, BOUND}),
    ("a page past the end leads to an id", put("a", "virtual", -1, 7), {PAGES}),
    ("a dead id has a page of the window", bind_dead, {WINDOWS}),
    ("an id is listed as free twice", put("a", "_free_ids", -1, 65), {UNMAPPED}),
    ("a live id is listed as free", put("a", "_free_ids", -1, 1), {UNMAPPED}),
    ("a stray id is listed as free", put("a", "_free_ids", -1, 67), {UNMAPPED}),
    ("the sink is listed as free", put("a", "_free_ids", -1, 0), {UNMAPPED}),
    ("a free id is lost", set_to("a", "_free_head", 8), {UNMAPPED, ID_SUM}),
    ("a taken id comes back", set_to("a", "_free_head", 6), {UNMAPPED, ID_SUM}),
    ("a free page is bound", put("a", "virtual", 9, 8), {PAGES, HOLES, BOUND}),
    ("a hole is outside the extent", change("a", lambda t: t.holes.add(numbers(20))), {HOLES, PAGE_SUM}),
    ("a hole is pending", change("f", lambda t: t.pending.add(numbers(30))), {HOLES, HELD, PAGE_SUM}),
    ("a pending page is bound", put("a", "virtual", 5, 4), {PAGES, PENDING, BOUND}),
    ("a pending page is outside", change("a", lambda t: t.pending.add(numbers(20))), {PENDING, HELD, PAGE_SUM}),
    ("a hole is lost", change("f", lambda t: t.holes.clear()), {LOST, PAGE_SUM}),
    ("a hole is listed twice", all_at_once(put("f", "holes._items", 1, 30), set_to("f", "holes.size", 2)),
     {LISTS, PAGE_SUM}),
    ("a hole is marked that is not listed", put("a", "holes._place", 40, 2), {LISTS}),
    ("a hole is not marked", put("a", "holes._place", 9, 0), {LISTS}),
    ("a stray is listed as a hole", put("a", "holes._items", 0, 66), {LISTS, LOST}),
    ("pending pages have changed places", put("w", "pending._place", slice(34, 37, 2), [2, 1]), {LISTS}),
    ("nothing keeps a pending page", all_at_once(put("w", "hold", 34, 0), set_to("w", "kept", 1)), {HELD, COUNTED}),
    ("bound pages are miscounted", set_to("a", "bound", 6), {BOUND, PAGE_SUM, ID_SUM}),
    ("ids of a window are miscounted", set_to("w", "bound", 3), {BOUND, PAGE_SUM, ID_SUM}),
    ("two steps have one number", step(1, lambda s: setattr(s, "number", 2)), {TICKETS, WAITS}),
    ("a step is yet to come", step(2, lambda s: setattr(s, "number", 5)), {TICKETS}),
    ("steps are out of order", lambda pool: pool._flight.steps.reverse(), {TICKETS}),
    ("a step waits for a later one", wait_in_vain, {WAITS}),
    ("a step waits for one that is over", lambda pool: pool._flight.steps.pop(0), {WAITS}),
    ("a step that is over is in flight", step(0, lambda s: setattr(s, "phase", Phase.OVER)), {FLIGHT}),
    ("a step reads a page past the end", step(2, lambda s: s.reads.update(f=numbers(50))), {READS, AWAY}),
    ("a step writes a negative page", step(0, lambda s: s.writes.update(f=numbers(-1))), {WRITES}),
    ("a step away touches more than is noted", step(2, lambda s: s.reads.update(f=numbers(26, 27))), {AWAY}),
    ("a step away touches less than is noted", step(2, lambda s: s.reads.clear()), {AWAY}),
    ("a step at home is noted", step(0, lambda s: s.touched.update(f=numbers(27))), {AWAY, COUNTED}),
    ("a page is noted twice", step(2, lambda s: s.touched.update(f=numbers(26, 26))), {AWAY, COUNTED}),
    ("a page in use is a hole", change("a", lambda t: t.holes.add(numbers(4))), {HOLES, AWAY, LEASED, PAGE_SUM}),
    ("a leased page is a hole", change("f", lambda t: t.holes.add(numbers(29))), {HOLES, LEASED, PAGE_SUM}),
    ("a leased page is given up", set_to("f", "last", 29), {IDS, HOLES, LEASED, PAGE_SUM}),
    ("a lease is forgotten", lambda pool: pool._leases.clear(), {COUNTED}),
    ("a lease is listed twice", lambda pool: pool._leases.append(pool._leases[0]), {COUNTED}),
    ("a lease is of a stray page", lambda pool: setattr(pool._leases[0], "physical", numbers(28, 50)),
     {LEASED, COUNTED}),
    ("a hold too many", all_at_once(put("a", "hold", 7, 1), set_to("a", "kept", 6)), {COUNTED}),
    ("the holds are summed up wrongly", set_to("a", "kept", 4), {COUNTED}),
    ("a free page is held", all_at_once(put("f", "hold", 30, 1), set_to("f", "kept", 5)), {COUNTED, LEASED}),
    ("an open gate is listed", lambda pool: setattr(pool._gates[0], "is_closed", False), {GATES}),
    ("a gate is listed twice", lambda pool: pool._gates.append(pool._gates[0]), {GATES}),
    ("a gate is of no sub-pool", lambda pool: setattr(pool._gates[0], "name", "z"), {GATES}),
    ("the group is forgotten", lambda pool: setattr(pool, "_group", None), {DEFERRED}),
    ("a deferred page is bound", lambda pool: pool._deferred[0].append(numbers(10)), {DEFERRED, COUNTED}),
    ("a page is deferred twice", lambda pool: pool._deferred[0].append(numbers(3)), {DEFERRED, COUNTED}),
    ("a stray page is deferred", lambda pool: pool._deferred[0].append(numbers(66)), {DEFERRED}),
    ("a hole waits to be zeroed", put("w", "to_zero", 40, True), {ZEROED, QUEUE}),
    ("a pending page waits to be zeroed", put("w", "to_zero", 34, True), {ZEROED, QUEUE}),
    ("a page waits that is never zeroed", put("a", "to_zero", 10, True), {ZEROED, QUEUE}),
    ("a page in use waits to be zeroed", put("d", "to_zero", 97, True), {ZERO_AWAY, QUEUE}),
    ("the queue is lost", change("d", lambda t: t._queue.clear()), {QUEUE}),
    ("a stray is queued", change("d", lambda t: t._queue.append(numbers(-1))), {QUEUE}),
    ("a step began after now", step(2, lambda s: setattr(s, "began", 10)), {VERSIONS}),
    ("an id was given out after now", put("a", "born", 9, 10), {VERSIONS}),
    ("a page in use is another tenant's", rebind, {SAME}),
    ("remembered room is wrong", lambda pool: pool._capacities.update({0: (pool._epoch, 20)}), {CREDIT}),
    ("room is remembered too early", lambda pool: pool._capacities.update({0: (pool._epoch + 1, 21)}), {CREDIT}),
    ("a dead id is filled", put("a", "flags", 8, FILLED), {FILLS}),
    ("a dead id is published", put("a", "flags", 8, FILLED | PUBLISHED), {FILLS}),
    ("the sink is filled", put("a", "flags", 0, FILLED), {FILLS}),
    ("a flag means nothing", put("a", "flags", 7, 4), {FILLS}),
    ("a page that waits to be zeroed is filled", put("d", "flags", 8, FILLED), {STALE}),
    ("an empty id is published", put("a", "flags", 7, PUBLISHED), {PUBLISHES}),
    ("a table is cut short", change("a", lambda t: setattr(t, "physical", t.physical[:-1])), {STORAGE}),
    ("a table has another type", change("a", lambda t: setattr(t, "virtual", t.virtual.astype(float))), {STORAGE}),
    ("the holds are a list", change("a", lambda t: setattr(t, "hold", t.hold.tolist())), {STORAGE}),
    ("a list has another type", change("a", lambda t: setattr(t.holes, "_items", t.holes._items.astype(float))),
     {STORAGE}),
    ("there are more ids than in the tables", set_to("a", "ids", 68), {STORAGE}),
    ("a page has another size", set_to("a", "page_bytes", 4), {STORAGE}),
    ("an extent is no page", set_to("f", "first", 26.0), {STORAGE}),
    ("a lease is of no sub-pool", lambda pool: setattr(pool._leases[0], "name", "z"), {STORAGE}),
    ("a step reads a list", step(2, lambda s: s.reads.update(f=[26])), {STORAGE}),
    ("frees of no sub-pool are deferred", lambda pool: pool._deferred.update({5: [numbers(1)]}), {STORAGE}),
    ("a queue holds a list", change("d", lambda t: t._queue.append([92])), {STORAGE}),
    ("holes are negative", set_to("a", "holes.size", -1), {NEGATIVE}),
    ("pending pages are more than listed", set_to("a", "pending.size", 10_000), {NEGATIVE}),
    ("bound pages are negative", set_to("a", "bound", -1), {NEGATIVE}),
    ("the free list is negative", set_to("a", "_free_head", 67), {NEGATIVE}),
]  # fmt: skip


@pytest.mark.parametrize(("damage", "names"), [d[1:] for d in DAMAGE], ids=[d[0] for d in DAMAGE])
def test_damage_is_found_by_name(damage: Damage, names: set[str]) -> None:
    pool = busy_pool()
    assert pool.check() == []
    damage(pool)
    found = pool.check()
    assert {broken.name for broken in found} == names
    assert all(broken.text and broken.theorem == (SPEC_CLAIMS | OWN_CLAIMS)[broken.name] for broken in found)


def test_every_claim_is_found_broken_by_some_damage() -> None:
    assert set.union(*(names for _, _, names in DAMAGE)) == {*SPEC_CLAIMS, *OWN_CLAIMS}


def test_the_claims_are_those_of_the_spec_that_need_no_ghosts() -> None:
    invariants = [*BUFFER.invariants, *SCHEDULE.invariants]
    assert {item.name: item.tags[0] for item in invariants if item.name not in OF_GHOSTS} == SPEC_CLAIMS
    assert {item.name for item in invariants} >= OF_GHOSTS
    assert not {item.name for item in invariants} & {*OWN_CLAIMS}


def test_an_extent_that_crosses_two_is_told_of_both() -> None:
    pool = busy_pool()
    pool._at("a").last = 36
    texts = [broken.text for broken in pool.check() if broken.name == ORDER]
    assert texts == ["'w': it begins at byte 66, 'a' ends at 108", "'f': it begins at byte 104, 'a' ends at 108"]


def test_violations_name_the_sub_pool_and_the_numbers() -> None:
    pool = busy_pool()
    pool._at("d").to_zero[20:40] = True
    found = {broken.name: broken.text for broken in pool.check()}
    assert found[QUEUE] == "'d': 20 pages wait to be zeroed and are not queued: [20, 21, 22, 23, 24, 25, 26, 27, ...]"
    pool._leases[0].physical = numbers(28, 31)
    found = {broken.name: broken.text for broken in pool.check()}
    assert found[COUNTED].startswith("'f': 2 pages have another count of holds")
    assert found[COUNTED].endswith("[29, 31]")


def test_checking_changes_nothing() -> None:
    pool = busy_pool()
    before = pool.snapshot()
    assert pool.check() == []
    assert pool.snapshot() == before


# --------------------------------------------------------------------------------------------------- used as meant


class Use:
    """Random use of a pool. Calls may be refused; whatever happens, the pool is healthy."""

    def __init__(self, pool: UnifiedPool, seed: int) -> None:
        self.pool, self.draw = pool, random.Random(seed)
        self.names = [layout.name for layout in pool.layouts]
        self.steps: list[Any] = []
        self.ends: list[Any] = []
        self.done: set[str] = set()

    def run(self, calls: int) -> None:
        names = [*["alloc"] * 3, *["free"] * 2, *["bind", "begin", "end_step", "end"] * 2]
        names += ["alloc_all", "compact", "hold", "group"]
        for _ in range(calls):
            name = self.draw.choice(names)
            try:
                getattr(self, name)()
                self.done.add(name)
            except pp.PoolError:
                pass
            assert self.pool.check() == [], name

    def live(self, name: str, most: int = 5) -> Any:
        ids = np.flatnonzero(self.pool._at(name).physical[1:-1] >= 0) + 1
        return self.draw.sample(ids.tolist(), self.draw.randint(0, min(len(ids), most)))

    def owners(self) -> list[str]:
        return [layout.name for layout in self.pool.layouts if layout.ids_of is None]

    def alloc(self) -> None:
        name = self.draw.choice(self.owners())
        most = self.pool.capacity(name)
        self.pool[name].alloc(self.draw.choice([1, 3, most // 2, most, most + 1]))

    def alloc_all(self) -> None:
        self.pool.alloc({name: self.draw.randint(0, 2) for name in self.owners()})

    def bind(self) -> None:
        windows = [layout for layout in self.pool.layouts if layout.ids_of is not None]
        if windows:
            chosen = self.draw.choice(windows)
            self.pool[chosen.name].bind(self.live(str(chosen.ids_of)))

    def free(self) -> None:
        name = self.draw.choice(self.names)
        self.pool[name].free(self.live(name, most=12))

    def compact(self) -> None:
        self.pool.compact(urgent=self.draw.random() < 0.5, moves=2)

    def begin(self) -> None:
        read, written = self.draw.choices(self.names, k=2)
        reads = [v for v in self.live(read) if self.pool._at(read).zeroed or self.pool._at(read).flags[v]]
        stream = self.draw.choice([None, None, 1, 2])
        self.steps.append(self.pool.begin_step({read: reads}, {written: self.live(written)}, stream=stream))

    def end_step(self) -> None:
        for step in [step for step in self.steps if step.phase is Phase.OPEN]:
            step.launched()
        if self.steps:
            step = self.draw.choice(self.steps)
            step.complete()
            self.steps.remove(step)
            name = self.draw.choice([*step.writes])
            ids = np.flatnonzero(np.isin(self.pool._at(name).physical[1:], step.writes[name])) + 1
            step.publish(name, ids)

    def hold(self) -> None:
        name = self.draw.choice(self.names)
        if self.draw.random() < 0.8:
            self.ends.append(self.pool.lease(name, self.live(name), "test").release)
        else:
            self.ends.append(self.pool.gate(name, "test").open)

    def group(self) -> None:
        self.ends.append(self.pool.free_group().end)

    def end(self) -> None:
        if self.ends:
            self.ends.pop(self.draw.randrange(len(self.ends)))()


def wide_chain() -> list[Any]:
    """Two windows, floats with pages that do not divide each other, zeroed and not."""
    return [
        Pages("a", bytes=3, grows="up"),
        window("w", "float"),
        Pages("b", bytes=5, grows="float", zero="never"),
        window("v", "float", zero="never"),
        Pages("c", bytes=4, grows="down"),
    ]


CHAINS: dict[str, Callable[[], list[Any]]] = {
    "one": lambda: chain_of(2, zero="on_handout"),
    "two": lambda: chain_of(3, 2),
    "floats": lambda: chain_of(2, 5, 3, 1, zero="on_handout"),
    "windows": wide_chain,
}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", list(CHAINS))
@pytest.mark.parametrize("total", [40, 150])
def test_a_pool_in_use_is_healthy(name: str, total: int, seed: int) -> None:
    pool = UnifiedPool(total, CHAINS[name](), events=queued(seed) if seed % 2 else None)
    use = Use(pool, seed)
    use.run(200)
    assert use.done >= {"alloc", "free", "begin", "end_step", "hold", "group", "end", "compact"}
