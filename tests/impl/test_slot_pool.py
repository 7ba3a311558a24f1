"""What the methods of a slot pool do when nothing is wrong."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from poolproof import Owner, SlotPool
from poolproof.spec import slots as spec


@pytest.fixture(params=[False, True], ids=["alone", "shadowed"])
def pool(request: pytest.FixtureRequest) -> SlotPool:
    return SlotPool(8, shadow=request.param)


def owners_of(pool: SlotPool, ids: object) -> set[Owner]:
    return {Owner(owner) for owner in pool.owners()[ids]}


def test_a_new_pool_is_free_but_for_the_sink(pool: SlotPool) -> None:
    assert (pool.slots, pool.total, pool.capacity()) == (8, 9, 8)
    assert pool.owners().tolist() == [Owner.SINK] + [Owner.FREE] * 8
    assert pool.holders().tolist() == [-1] * 9
    assert pool.tenancies().tolist() == [0] * 9
    assert pool.check() == []


def test_alloc_hands_out_distinct_slots_up_to_the_last(pool: SlotPool) -> None:
    ids = pool.alloc(8, holder=5)
    assert ids.dtype == np.int64
    assert sorted(ids.tolist()) == list(range(1, 9))
    assert owners_of(pool, ids) == {Owner.REQUEST}
    assert set(pool.holders()[ids]) == {5}
    assert pool.capacity() == 0
    assert pool.try_alloc(1) is None
    assert pool.check() == []


def test_try_alloc_gives_what_alloc_gives(pool: SlotPool) -> None:
    ids = pool.try_alloc(3, holder=2)
    assert ids is not None
    assert ids.tolist() == SlotPool(8).alloc(3, holder=2).tolist()


@pytest.mark.parametrize("n", [0, np.int64(0)])
def test_alloc_of_none_is_empty(pool: SlotPool, n: int) -> None:
    ids = pool.alloc(n)
    assert ids.shape == (0,)
    assert ids.dtype == np.int64
    assert pool.capacity() == 8


def test_alloc_of_none_works_when_nothing_is_free(pool: SlotPool) -> None:
    pool.alloc(8)
    assert pool.alloc(0).size == 0


def test_free_makes_slots_allocable_again(pool: SlotPool) -> None:
    ids = pool.alloc(8, holder=1)
    pool.free(ids[2:5], holder=1)
    assert pool.capacity() == 3
    assert set(pool.holders()[ids[2:5]]) == {-1}
    assert sorted(pool.alloc(3).tolist()) == sorted(ids[2:5].tolist())


@pytest.mark.parametrize(
    "form",
    [
        list,
        tuple,
        np.array,
        lambda ids: np.array(ids, np.int32),
        lambda ids: np.array(ids, np.uint64),
        lambda ids: np.array(ids, ">i8"),
        lambda ids: np.repeat(np.array(ids), 2)[::2],
        lambda ids: [np.int16(i) for i in ids],
        lambda ids: range(min(ids), max(ids) + 1),
    ],
    ids=["list", "tuple", "int64", "int32", "uint64", "big-endian", "strided", "numpy scalars", "range"],
)
def test_ids_come_in_many_forms(pool: SlotPool, form: object) -> None:
    pool.free(form(sorted(pool.alloc(4).tolist())))  # type: ignore[operator]
    assert pool.capacity() == 8
    assert pool.check() == []


@pytest.mark.parametrize("form", [int, np.int64, np.array, lambda i: np.array(i, np.uint8)])
def test_one_id_needs_no_list(pool: SlotPool, form: object) -> None:
    (slot,) = pool.alloc(1).tolist()
    pool.free(form(slot))  # type: ignore[operator]
    assert pool.capacity() == 8


@pytest.mark.parametrize("nothing", [[], (), np.empty(0, np.int64), np.empty(0, np.int8), range(0)])
def test_giving_nothing_back_is_allowed(pool: SlotPool, nothing: object) -> None:
    before = pool.snapshot()
    pool.free(nothing)  # type: ignore[arg-type]
    pool.retire(nothing)  # type: ignore[arg-type]
    pool.reclaim(nothing)  # type: ignore[arg-type]
    pool.transfer(nothing, holder=0, to=Owner.CACHE, heir=0)  # type: ignore[arg-type]
    assert pool.snapshot() == before


def test_a_retired_slot_waits_for_reclaim(pool: SlotPool) -> None:
    ids = pool.alloc(8, holder=1)
    pool.retire(ids[:3], holder=1)
    assert owners_of(pool, ids[:3]) == {Owner.PENDING}
    assert (pool.capacity(), pool.stats().pending) == (0, 3)
    pool.reclaim(ids[1:3])
    assert (pool.capacity(), pool.stats().pending) == (2, 1)
    assert sorted(pool.alloc(2).tolist()) == sorted(ids[1:3].tolist())


def test_transfer_moves_between_requests_and_the_cache(pool: SlotPool) -> None:
    ids = pool.alloc(4, holder=1)
    pool.transfer(ids[:3], holder=1, to=Owner.CACHE, heir=9)
    assert owners_of(pool, ids[:3]) == {Owner.CACHE}
    assert set(pool.holders()[ids[:3]]) == {9}
    assert (pool.stats().in_requests, pool.stats().in_cache) == (1, 3)
    pool.transfer(ids[0], holder=9, to=Owner.REQUEST, heir=2)
    pool.transfer(ids[3], holder=1, to=Owner.REQUEST, heir=2)
    pool.free(ids[[0, 3]], holder=2)
    pool.retire(ids[1:3], holder=9)
    assert pool.stats().in_cache == 0
    assert pool.check() == []


def test_a_transfer_may_keep_the_holder_or_the_kind_but_not_both(pool: SlotPool) -> None:
    ids = pool.alloc(2, holder=1)
    pool.transfer(ids, holder=1, to=Owner.CACHE, heir=1)
    pool.transfer(ids, holder=1, to=Owner.CACHE, heir=2)
    assert set(pool.holders()[ids]) == {2}


def test_one_call_gives_back_what_a_holder_has_of_both_kinds(pool: SlotPool) -> None:
    ids = pool.alloc(6, holder=1)
    pool.transfer(ids[::2], holder=1, to=Owner.CACHE, heir=1)
    pool.free(ids[:3], holder=1)
    assert (pool.stats().in_requests, pool.stats().in_cache) == (2, 1)
    pool.transfer(ids[3:], holder=1, to=Owner.REQUEST, heir=4)
    assert (pool.stats().in_requests, pool.stats().in_cache) == (3, 0)
    assert pool.check() == []


def test_tenancies_count_the_changes_of_hands(pool: SlotPool) -> None:
    (slot,) = pool.alloc(1)
    assert pool.tenancy(slot).tolist() == [0]
    pool.transfer(slot, holder=0, to=Owner.CACHE, heir=0)
    assert pool.tenancy([slot]).tolist() == [1]
    pool.retire(slot)
    pool.reclaim(slot)
    assert pool.tenancies()[slot] == 2
    pool.alloc(1)
    pool.free(slot)
    assert pool.tenancies()[slot] == 3
    assert pool.tenancy([]).shape == (0,)
    assert pool.tenancy(0).tolist() == [0]


def test_a_handle_lives_until_its_slot_changes_hands(pool: SlotPool) -> None:
    ids = pool.alloc(3, holder=1)
    tenancies = pool.tenancy(ids)
    assert pool.is_live(ids, tenancies, 1).tolist() == [True] * 3
    assert not pool.is_live(ids, tenancies, 2).any()
    pool.free(ids[0], holder=1)
    assert pool.is_live(ids, tenancies, 1).tolist() == [False, True, True]
    again = pool.alloc(1, holder=1)
    assert again[0] == ids[0]
    assert pool.is_live(ids, tenancies, 1).tolist() == [False, True, True]
    assert pool.is_live(again, pool.tenancy(again), 1).tolist() == [True]


@pytest.mark.parametrize("slot", [0, -1, 9, 10**30, -(10**30)])
def test_no_handle_of_a_stray_id_is_live(pool: SlotPool, slot: int) -> None:
    pool.alloc(8)
    assert pool.is_live(slot, 0).tolist() == [False]
    assert pool.is_live(slot, 0, -1).tolist() == [False]


def test_clear_frees_everything_and_kills_every_handle(pool: SlotPool) -> None:
    ids = pool.alloc(4, holder=1)
    tenancies = pool.tenancy(ids)
    pool.transfer(ids[0], holder=1, to=Owner.CACHE, heir=3)
    pool.retire(ids[1], holder=1)
    pool.open_group(2)
    pool.clear()
    assert pool.capacity() == 8
    assert set(pool.holders()) == {-1}
    assert pool.tenancies()[ids].tolist() == [2, 1, 1, 1]
    assert pool.check() == []
    again = pool.alloc(8, holder=1)
    assert not pool.is_live(ids, tenancies, 1).any()
    assert pool.is_live(again, pool.tenancy(again), 1).all()


def test_stats_count_slots_and_calls(pool: SlotPool) -> None:
    assert pool.stats().peak == 0
    ids = pool.alloc(5, holder=1)
    pool.transfer(ids[:1], holder=1, to=Owner.CACHE, heir=2)
    pool.retire(ids[1:3], holder=1)
    pool.reclaim(ids[1])
    group = pool.open_group(3)
    group.take(1)
    pool.try_alloc(100)
    stats = pool.stats()
    assert (stats.total, stats.sink, stats.free, stats.reserved) == (9, 1, 1, 2)
    assert (stats.in_requests, stats.in_cache, stats.pending, stats.peak) == (3, 1, 1, 7)
    assert stats.operations == {
        "alloc": 1, "free": 0, "retire": 1, "reclaim": 1, "transfer": 1,
        "open_group": 1, "take": 1, "close_group": 0, "clear": 0,
    }  # fmt: skip
    assert stats.refusals == dict.fromkeys(stats.operations, 0) | {"alloc": 1}
    group.close()
    pool.free(ids[3:], holder=1)
    pool.clear()
    assert pool.stats().peak == 7
    assert [pool.stats().operations[name] for name in ("close_group", "free", "clear")] == [1, 1, 1]


def test_slots_go_to_request_0_unless_told_otherwise(pool: SlotPool) -> None:
    group = pool.open_group(1)
    for ids in (pool.alloc(1), pool.try_alloc(1), group.take(1)):
        assert pool.holders()[ids].tolist() == [0]
        pool.free(ids)
    ids = pool.alloc(1)
    assert pool.is_live(ids, pool.tenancy(ids)).all()
    pool.retire(ids)
    assert pool.stats().pending == 1


def test_the_same_calls_give_the_same_slots() -> None:
    def trace() -> list[list[int]]:
        pool = SlotPool(8)
        first = pool.alloc(5)
        pool.free(first[[3, 1]])
        return [first.tolist(), pool.alloc(4).tolist()]

    assert trace() == trace()
    assert trace()[0] == [1, 2, 3, 4, 5]


def test_handles_are_values_and_tables_are_copies(pool: SlotPool) -> None:
    ids = pool.alloc(4, holder=1)
    kept = ids.copy()
    pool.free(ids[:2], holder=1)
    pool.alloc(3, holder=2)
    assert ids.tolist() == kept.tolist()
    before = pool.snapshot()
    group = pool.open_group(1)
    for mine in (ids, pool.owners(), pool.holders(), pool.tenancies(), pool.tenancy(kept), group.take(1, holder=1)):
        mine[:] = 0
    group.close()
    assert pool.check() == []
    assert pool.snapshot().holder[:6] == before.holder[:6]


def test_a_pool_keeps_no_argument(pool: SlotPool) -> None:
    ids = pool.alloc(4)
    pool.retire(ids)
    pool.reclaim(ids)
    ids[:] = 0
    assert pool.check() == []
    assert sorted(pool.alloc(8).tolist()) == list(range(1, 9))


def test_the_stored_arrays_overlap_nothing_that_is_handed_out() -> None:
    pool = SlotPool(2000)
    group = pool.open_group(5)
    stored = [pool._keys, pool._stack, pool._stamp, pool._reserve, pool._tenancies.numbers()]
    given = [pool.alloc(3), group.take(2), pool.owners(), pool.holders(), pool.tenancies(), pool.tenancy([1, 2])]
    assert not any(np.shares_memory(a, b) for a in stored for b in given)


def test_batches_longer_than_the_tenancy_log_are_counted() -> None:
    pool = SlotPool(5000)
    for n in (1000, 1500, 24, 5000, 1, 1023, 1024, 1025):
        expected = pool.tenancies()
        ids = pool.alloc(n)
        expected[ids] += 1
        pool.free(ids)
        assert (pool.tenancies() == expected).all()
    assert pool.check() == []


@pytest.mark.parametrize("batches", [(1000, 24, 1), (1000, 100, 1024), (5, 1025, 5), (1024, 1024), [7] * 400])
def test_the_tenancy_log_is_added_up_when_it_is_full(batches: Sequence[int]) -> None:
    pool = SlotPool(1100)
    expected = pool.tenancies()
    for n in batches:
        ids = pool.alloc(n)
        expected[ids] += 1
        pool.free(ids)
        assert pool.check() == []
    assert (pool.tenancies() == expected).all()


def test_the_numbers_of_owners_are_the_specs() -> None:
    assert {o.name: o.value for o in Owner} == {o.name: o.value for o in spec.Owner}


def test_a_pool_shows_its_figures(pool: SlotPool) -> None:
    pool.alloc(3)
    assert repr(pool) == "SlotPool(slots=8, free=5, reserved=0, in_requests=3, in_cache=0, pending=0)"
