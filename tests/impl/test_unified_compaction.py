"""What moves in a unified pool, when, and no more than that."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from buffers import extent, finish, holes, moved, pending, places, plain, refused, values, write

import poolproof as pp
from poolproof import UnifiedPool


def filled(pool: UnifiedPool, **counts: int) -> dict[str, np.ndarray]:
    """Pages that are written with the numbers of their ids."""
    given = {name: pool[name].alloc(n) for name, n in counts.items()}
    for name, ids in given.items():
        write(pool, name, ids, ids)
    return given


def kept(pool: UnifiedPool, **ids: Any) -> bool:
    """Do the pages still hold the numbers of their ids?"""
    return all(values(pool, name, listed) == list(listed) for name, listed in ids.items())


def changed(pool: UnifiedPool, call: Any, **ids: Any) -> dict[str, int]:
    """How many pages of ids the call moves."""
    before = {name: places(pool, name, listed) for name, listed in ids.items()}
    call()
    found = {
        name: sum(old != new for old, new in zip(before[name], places(pool, name, listed), strict=True))
        for name, listed in ids.items()
    }
    return {name: n for name, n in found.items() if n}


# -------------------------------------------------------------------------------------------------- only what is needed


def test_nothing_moves_while_there_are_holes_or_a_gap() -> None:
    pool = plain(12, 1, 1)
    a, b = filled(pool, a=5, b=3).values()
    pool["a"].free(a[1:3])
    assert changed(pool, lambda: pool["a"].alloc(5), a=a[[0, 3, 4]], b=b) == {}


@pytest.mark.parametrize("n", [6, 7, 8, 9])
def test_only_the_pages_in_the_way_move(n: int) -> None:
    """Eleven pages: three ids are left above three holes, and a neighbour wants n."""
    pool = plain(12, 1, 1)
    a = filled(pool, a=6)["a"]
    pool["a"].free(a[:3])
    if n == 9:
        refused(pool, pp.BufferExhausted, lambda: pool["b"].alloc(n))
        return
    assert changed(pool, lambda: pool["b"].alloc(n), a=a[3:]) == {"a": n - 5}
    assert kept(pool, a=a[3:])


@pytest.mark.parametrize("n", [4, 5, 6])
def test_the_lower_end_gets_room_from_the_upper_one(n: int) -> None:
    pool = plain(12, 1, 1)
    b = filled(pool, b=8)["b"]
    pool["b"].free(b[:3])
    assert changed(pool, lambda: pool["a"].alloc(n), b=b[3:]) == {"b": n - 3}
    assert kept(pool, b=b[3:])


@pytest.mark.parametrize(("sizes", "want"), [((1, 2, 1), "a"), ((1, 2, 1), "c"), ((2, 1, 3), "a"), ((3, 1, 2), "c")])
def test_a_float_gives_way_to_either_side(sizes: tuple[int, ...], want: str) -> None:
    pool = plain(40, *sizes)
    b = filled(pool, b=4)["b"]
    before = extent(pool, "b")
    most = pool.capacity(want)
    ids = pool[want].alloc(most)
    assert extent(pool, "b") != before
    assert kept(pool, b=b)
    pool[want].free(ids)
    other = "c" if want == "a" else "a"
    ids = pool[other].alloc(pool.capacity(other))
    assert kept(pool, b=b)
    lone = 40 - pool.sink_bytes - 4 * sizes[1]
    assert lone - len(ids) * pool[other].layout.page_bytes < sum(sizes)


def test_a_float_moves_no_more_than_lies_in_the_way() -> None:
    pool = plain(41, 1, 1, 1)
    b = filled(pool, b=4)["b"]
    low, high = extent(pool, "b")
    assert changed(pool, lambda: pool["a"].alloc(low + 1), b=b) == {"b": 2}
    assert extent(pool, "b") == (low + 2, high + 2)


def test_two_floats_are_pushed_one_by_the_other() -> None:
    pool = plain(41, 1, 2, 3, 1)
    ids = filled(pool, b=3, c=3)
    pool["a"].alloc(pool.capacity("a"))
    assert kept(pool, **ids)
    pool["a"].free(list(range(1, 20)))
    pool["d"].alloc(pool.capacity("d"))
    assert kept(pool, **ids)
    assert pool.capacity("b") == pool.capacity("c") == 0 or pool.check() == []


def test_an_empty_float_is_given_a_place_between_full_neighbours() -> None:
    pool = plain(30, 2, 3, 4)
    a = filled(pool, a=8)["a"]
    c = filled(pool, c=2)["c"]
    pool["a"].free(a[:4])
    pool["c"].free(c[1:])
    n = pool.capacity("b")
    assert n > (pool.stats().gap_bytes // 3)
    b = filled(pool, b=n)["b"]
    assert kept(pool, a=a[4:], b=b, c=c[:1])


# --------------------------------------------------------------------------------------------------------- joint demand


def test_a_joint_demand_is_met_or_refused_as_a_whole() -> None:
    pool = plain(34, 1, 2, 3)
    a, b, c = filled(pool, a=5, b=3, c=3).values()
    for name, ids in (("a", a), ("b", b), ("c", c)):
        pool[name].free(ids[:1])
    capacities = {name: pool.capacity(name) for name in "abc"}
    refused(pool, pp.BufferExhausted, lambda: pool.alloc(capacities))
    given = pool.alloc({"a": 4, "b": 2, "c": 2})
    assert sorted(given) == list("abc")
    assert kept(pool, a=a[1:], b=b[1:], c=c[1:])


@pytest.mark.parametrize("seed", range(6))
def test_whatever_fits_leaves_what_was_written(seed: int) -> None:
    """Leases and steps away pin pages; demands of several sub-pools push the rest about."""
    draw = random.Random(seed)
    pool = plain(46, 2, 1, 3, 1)
    live: dict[str, list[int]] = {name: [] for name in "abcd"}
    for _ in range(25):
        demand = {name: draw.choice([0, 0, 1, 2, 4]) for name in "abcd"}
        if pool.fits(demand):
            for name, ids in pool.alloc(demand).items():
                write(pool, name, ids, ids)
                live[name] += ids.tolist()
        leases = [pool.lease(name, draw.sample(ids, 1), "test") for name, ids in live.items() if ids]
        for name in "abcd":
            gone = draw.sample(live[name], len(live[name]) // 3)
            pool[name].free(gone)
            live[name] = [v for v in live[name] if v not in gone]
        at = {lease: lease.physical.tolist() for lease in leases}
        pool.compact(moves=draw.randint(0, 5))
        for lease in leases:
            assert lease.physical.tolist() == at[lease]
            if draw.random() < 0.6:
                lease.release()
                leases = [other for other in leases if other is not lease]
        assert kept(pool, **live)
        for lease in leases:
            lease.release()


# ----------------------------------------------------------------------------------------------------------- what stays


def test_leased_pages_stay() -> None:
    pool = plain(12, 1, 1)
    a = filled(pool, a=6)["a"]
    lease = pool.lease("a", a[4:5], "test")
    pool["a"].free(a[:3])
    assert pool.capacity("b") == 6
    assert moved(pool.compact(urgent=True)) == {"a": 1}
    assert places(pool, "a", a[4:5]) == lease.physical.tolist() == [5]
    refused(pool, pp.BufferExhausted, lambda: pool["b"].alloc(7))
    lease.release()
    assert pool.capacity("b") == 8
    pool["b"].alloc(8)
    assert kept(pool, a=a[3:])


def test_pages_that_were_freed_stay_for_their_lease() -> None:
    pool = plain(12, 1, 1)
    a = filled(pool, a=6)["a"]
    with pool.lease("a", a[5:], "test") as lease:
        pool["a"].free(a)
        assert pending(pool, "a") == [6]
        assert (extent(pool, "a"), pool.capacity("a")) == ((1, 7), 10)
        assert pool.capacity("b") == 5
        assert pool.compact(urgent=True) == []
        pool["b"].alloc(5)
        assert pool.buffer[6] == a[5]
    assert not lease.is_held
    assert (pending(pool, "a"), pool.capacity("a")) == ([], 6)


@pytest.mark.parametrize("name", list("abc"))
def test_a_closed_gate_stops_every_mover(name: str) -> None:
    """By quiet and urgent compaction, and by the demand of either neighbour."""
    pool = plain(41, 1, 1, 1)
    ids = filled(pool, a=4, b=4, c=4)
    for listed in ids.values():
        pool[name].free(ids[name][1:3]) if listed is ids[name] else None
    left = ids[name][[0, 3]]
    before, gate = places(pool, name, left), pool.gate(name, "test")
    capacities = {other: pool.capacity(other) for other in "abc"}
    assert name not in moved(pool.compact(urgent=True))
    for other in "abc":
        taken = pool[other].alloc(pool.capacity(other))
        assert places(pool, name, left) == before
        pool[other].free(taken)
    gate.open()
    assert sum(pool.capacity(other) for other in "abc") > sum(capacities.values())
    assert kept(pool, **{name: left})


def test_gates_are_counted() -> None:
    pool = plain(12, 1, 1)
    a = filled(pool, a=6)["a"]
    pool["a"].free(a[:3])
    first, second = pool.gate("a", "one"), pool.gate("a", "two")
    capacities = [pool.capacity("b")]
    first.open()
    capacities.append(pool.capacity("b"))
    refused(pool, pp.GateError, first.open)
    with second:
        pass
    capacities.append(pool.capacity("b"))
    assert capacities == [5, 5, 8]


def test_pages_of_a_step_away_stay() -> None:
    pool = plain(12, 1, 1)
    a = filled(pool, a=6)["a"]
    pool["a"].free(a[:3])
    step = pool.begin_step(reads={"a": a[5:]}, stream=1)
    assert pool.capacity("b") == 5
    refused(pool, pp.BufferExhausted, lambda: pool["b"].alloc(6))
    assert moved(pool.compact(urgent=True)) == {}
    finish(step)
    assert moved(pool.compact(urgent=True)) == {"a": 3}
    assert kept(pool, a=a[3:])


# -------------------------------------------------------------------------------------------------------- quiet moments


@pytest.mark.parametrize("most", [0, 1, 2, 3, 4, 100])
def test_a_quiet_compaction_moves_so_many_pages_at_most(most: int) -> None:
    pool = plain(30, 1, 1)
    a, b = filled(pool, a=8, b=8).values()
    pool["a"].free(a[[0, 2, 4]])
    pool["b"].free(b[[0, 2, 4]])
    count = sum(moved(pool.compact(moves=most)).values())
    assert count == min(most, 6)
    assert kept(pool, a=a[[1, 3, 5, 6, 7]], b=b[[1, 3, 5, 6, 7]])


def test_quiet_compactions_come_to_an_end_without_holes() -> None:
    pool = plain(60, 1, 2, 3)
    ids = filled(pool, a=8, b=8, c=8)
    for name in "abc":
        pool[name].free(ids[name][::2])
    rounds = 0
    while any(holes(pool, name) for name in "abc"):
        assert pool.compact(moves=1)
        rounds += 1
    assert rounds <= 12
    assert pool.compact() == []
    assert kept(pool, **{name: ids[name][1::2] for name in "abc"})


def test_an_urgent_compaction_leaves_no_hole() -> None:
    pool = plain(60, 1, 2, 3)
    ids = filled(pool, a=8, b=8, c=8)
    for name in "abc":
        pool[name].free(ids[name][::2])
    moves = pool.compact(urgent=True, moves=0)
    assert [holes(pool, name) for name in "abc"] == [[], [], []]
    for move in moves:
        assert places(pool, move.name, move.ids) == move.targets.tolist()
        assert not set(move.sources.tolist()) & set(move.targets.tolist())
    assert kept(pool, **{name: ids[name][1::2] for name in "abc"})


def test_nothing_moves_in_a_pool_without_holes() -> None:
    pool = plain(60, 1, 2, 3)
    filled(pool, a=3, b=3, c=3)
    before = pool.snapshot()
    assert pool.compact() == pool.compact(urgent=True) == []
    assert pool.snapshot() == before


# ------------------------------------------------------------------------------------------------------------- capacity


@pytest.mark.parametrize("seed", range(10))
def test_capacity_can_be_had_and_one_more_cannot(seed: int) -> None:
    """In random states, with leases, gates, steps away and an open step at home."""
    draw = random.Random(seed)
    sizes = draw.choice([(1,), (2, 1), (1, 2, 1), (3, 1, 2), (2, 3, 1, 2)])
    pool = plain(draw.randint(24, 40), *sizes)
    names, held = [layout.name for layout in pool.layouts], list[Any]()
    for _ in range(30):
        name = draw.choice(names)
        capacity, before = pool.capacity(name), pool.snapshot()
        assert pool[name].try_alloc(capacity + 1) is None
        assert pool.snapshot() == before
        assert pool.fits({name: capacity}) or not capacity or is_empty_float(pool, name)
        assert not pool.fits({name: capacity + 1})
        n = capacity if draw.random() < 0.4 else draw.randint(0, min(capacity, 3))
        assert len(pool[name].alloc(n)) == n
        hold(pool, draw, held)
        for other in names:
            live = live_ids(pool, other)
            pool[other].free(draw.sample(live, draw.randint(0, len(live))))
        while held and draw.random() < 0.5:
            held.pop(draw.randrange(len(held)))()
    assert pool.check() == []


def is_empty_float(pool: UnifiedPool, name: str) -> bool:
    return pool[name].layout.grows == "float" and extent(pool, name) == (0, 0)


def live_ids(pool: UnifiedPool, name: str) -> list[int]:
    return [v for v in range(1, pool[name].ids) if pool[name].physical(v)[0]]


def hold(pool: UnifiedPool, draw: random.Random, held: list[Any]) -> None:
    """Something that keeps pages where they are, and how to end it."""
    name = draw.choice([layout.name for layout in pool.layouts])
    live = live_ids(pool, name)
    some = draw.sample(live, min(len(live), 2))
    what = draw.randrange(5)
    if len(held) > 3:
        return
    if what == 0:
        held.append(pool.gate(name, "test").open)
    elif what == 1:
        held.append(pool.lease(name, some, "test").release)
    elif what == 2 and pool.stats().steps == 0:
        step = pool.begin_step(writes={name: some}, stream=1)
        held.append(lambda: finish(step))
    elif what == 3 and pool.stats().steps == 0:
        home = pool.begin_step(writes={name: some[:1]})
        held.append(lambda: finish(home))


def test_capacity_counts_what_either_neighbour_can_give_up() -> None:
    pool = plain(41, 1, 1, 1)
    ids = filled(pool, a=12, b=4, c=12)
    pool["a"].free(ids["a"][:10])
    assert pool.capacity("c") == 22
    pool["c"].free(ids["c"][:10])
    assert [pool.capacity(name) for name in "abc"] == [32, 32, 32]
    pool["b"].alloc(32)
    assert kept(pool, a=ids["a"][10:], b=ids["b"], c=ids["c"][10:])


def test_asking_changes_nothing() -> None:
    pool = plain(41, 1, 2, 1)
    ids = filled(pool, a=6, b=6, c=6)
    pool["b"].free(ids["b"][::2])
    before = pool.snapshot()
    for name in "abc":
        pool.capacity(name)
        pool.fits({name: 5})
        repr(pool[name])
    pool.stats()
    assert pool.check() == []
    assert pool.snapshot() == before
