"""`check` finds damage to every array and counter that a slot pool keeps, and names the claim that it breaks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import poolproof as pp
from poolproof import Owner, SlotPool
from poolproof.slot_key import FREE, PENDING, REQUEST, RESERVED, SINK, key_of
from poolproof.spec import slots as spec


def busy_pool() -> SlotPool:
    """Slots 1-3 of request 1, 4 of cache node 1, 5 pending, 6 taken from a group, 7-8 reserved, 9-12 free."""
    pool = SlotPool(12)
    pool.alloc(5, holder=1)
    pool.transfer([4], holder=1, to=Owner.CACHE, heir=1)
    pool.retire([5], holder=1)
    pool.open_group(3).take(1, holder=2)
    return pool


def put(name: str, at: int, value: int) -> Callable[[SlotPool], None]:
    return lambda pool: getattr(pool, name).__setitem__(at, value)


def set_to(name: str, value: Any) -> Callable[[SlotPool], None]:
    return lambda pool: setattr(pool, name, value)


def put_tenancy(pool: SlotPool) -> None:
    pool._tenancies.ended[3] = -1


def shorten_tenancies(pool: SlotPool) -> None:
    pool._tenancies.ended = np.zeros(3, np.int64)


LISTS = "I1 free_slots_are_listed"
RESERVE = "I1 reserved_slots_are_listed"
PLACES = "I1 every_slot_is_in_exactly_one_place"
HOLDERS = "I1 exactly_the_owned_slots_have_a_holder"
SINKS = "I1 the_sink_is_only_the_sink"
GROUP = "I1 a_reserve_needs_an_open_group"
STORAGE = "I1 storage_is_well_formed"
HANDLES = "I2 only_a_live_handle_can_be_given_back"
TENANCIES = "I3 tenancies_are_numbered_from_zero"
SUM = "I21 slots_are_conserved"
NEGATIVE = "I21 counts_are_never_negative"
REQUESTS = "I21 requests_are_counted"
CACHED = "I21 cached_slots_are_counted"
WAITING = "I21 pending_slots_are_counted"
PEAK = "I21 peak_is_between_use_and_size"

DAMAGE = [
    ("a request's slot turns free", put("_keys", 1, FREE), {LISTS, REQUESTS}),
    ("a request's slot turns pending", put("_keys", 1, PENDING), {REQUESTS, WAITING}),
    ("a request's slot turns reserved", put("_keys", 1, RESERVED), {RESERVE}),
    ("a cached slot turns into a request's", put("_keys", 4, key_of(REQUEST, 1)), {CACHED}),
    ("a free slot is owned", put("_keys", 9, key_of(REQUEST, 1)), {LISTS, PLACES}),
    ("a reserved slot is owned", put("_keys", 7, key_of(REQUEST, 1)), {RESERVE}),
    ("an owner is unknown", put("_keys", 2, key_of(6, 1)), {PLACES}),
    ("a request has no holder", put("_keys", 2, key_of(REQUEST, -1)), {HOLDERS}),
    ("a free slot has a holder", put("_keys", 9, key_of(FREE, 3)), {HOLDERS}),
    ("a holder is below nobody", put("_keys", 9, key_of(FREE, -4)), {HOLDERS}),
    ("the sink is free", put("_keys", 0, FREE), {SINKS, LISTS}),
    ("there is a second sink", put("_keys", 9, SINK), {SINKS}),
    ("ids past the end look owned", put("_keys", -1, key_of(REQUEST, 0)), {HANDLES}),
    ("the keys are cut short", lambda pool: setattr(pool, "_keys", pool._keys[:-2]), {STORAGE}),
    ("a free slot is listed twice", put("_stack", 11, 9), {LISTS, PLACES}),
    ("the sink is listed as free", put("_stack", 11, 0), {LISTS}),
    ("a stray id is listed as free", put("_stack", 11, 13), {LISTS}),
    ("a negative id is listed as free", put("_stack", 11, -1), {LISTS}),
    ("an owned slot is listed as free", put("_stack", 11, 1), {LISTS}),
    ("a pending slot is listed as free", put("_stack", 11, 5), {LISTS, PLACES}),
    ("a reserved slot is listed as free", put("_stack", 11, 7), {LISTS}),
    ("the free list has another type", lambda pool: setattr(pool, "_stack", pool._stack.astype(float)), {STORAGE}),
    ("a free slot is lost", set_to("_head", 9), {SUM, LISTS}),
    ("a stale slot comes back", set_to("_head", 7), {SUM, LISTS}),
    ("the free list is negative", set_to("_head", 13), {NEGATIVE}),
    ("the free list is too long", set_to("_head", -1), {NEGATIVE}),
    ("a slot is reserved twice", put("_reserve", 2, 7), {RESERVE}),
    ("a free slot is reserved", put("_reserve", 2, 9), {RESERVE, PLACES}),
    ("a taken slot is reserved", set_to("_reserve_head", 0), {RESERVE, SUM}),
    ("a reserved slot is lost", set_to("_reserve_head", 2), {RESERVE, SUM}),
    ("the reserve is negative", set_to("_reserve_head", 4), {NEGATIVE}),
    ("the group is forgotten", set_to("_group", None), {GROUP}),
    ("requests are miscounted", set_to("_in_requests", 3), {REQUESTS, SUM}),
    ("requests are negative", set_to("_in_requests", -1), {NEGATIVE}),
    ("the cache is miscounted", set_to("_in_cache", 2), {CACHED}),
    ("pending slots are miscounted", set_to("_in_pending", 0), {WAITING}),
    ("the peak is too low", set_to("_peak", 2), {PEAK}),
    ("the peak is too high", set_to("_peak", 13), {PEAK}),
    ("a tenancy is negative", put_tenancy, {TENANCIES}),
    ("the tenancies are cut short", shorten_tenancies, {STORAGE}),
    ("the tenancy log is negative", lambda pool: setattr(pool._tenancies, "logged", -1), {NEGATIVE}),
    ("the tenancy log has a stray id", lambda pool: pool._tenancies.log.__setitem__(0, 13), {TENANCIES}),
    ("the scratch is cut short", lambda pool: setattr(pool, "_stamp", pool._stamp[:2]), {STORAGE}),
]  # fmt: skip


@pytest.mark.parametrize(("damage", "claims"), [d[1:] for d in DAMAGE], ids=[d[0] for d in DAMAGE])
def test_damage_is_found(damage: Callable[[SlotPool], None], claims: set[str]) -> None:
    pool = busy_pool()
    pool.free([2, 3], holder=1)
    assert pool.check() == []
    pool = busy_pool()
    damage(pool)
    found = pool.check()
    assert claims <= {f"{violation.theorem} {violation.name}" for violation in found}
    assert all(violation.text for violation in found)


def test_a_pool_in_use_is_healthy_to_the_first_and_last_slot() -> None:
    pool = busy_pool()
    pool.alloc(4, holder=1)
    pool.free([1, 12], holder=1)
    pool.retire([2, 11], holder=1)
    assert pool._tenancies.logged == 6
    assert pool.check() == []


def test_long_lists_are_cut_short() -> None:
    pool = SlotPool(12)
    pool._keys[3:12] = SINK
    texts = {v.name: v.text for v in pool.check()}
    assert texts["the_sink_is_only_the_sink"] == "slots [3, 4, 5, 6, 7, 8, 9, 10, ...] belong to the sink"
    pool._keys[11] = FREE
    texts = {v.name: v.text for v in pool.check()}
    assert texts["the_sink_is_only_the_sink"] == "slots [3, 4, 5, 6, 7, 8, 9, 10] belong to the sink"


def test_scratch_and_stale_entries_mean_nothing() -> None:
    pool = busy_pool()
    pool._stamp[:] = 77
    pool._stack[: pool._head] = -5
    assert pool.check() == []
    pool.free([1, 2], holder=1)
    with pytest.raises(pp.InvalidFree):
        pool.free([3, 3], holder=1)
    assert pool.check() == []


def test_violations_carry_the_names_of_the_spec() -> None:
    claims = {item.name: item.tags for item in [*spec.SPEC.invariants, *spec.SPEC.theorems]}
    own = {"storage_is_well_formed", "peak_is_between_use_and_size"}
    named = {tuple(claim.split()) for _, _, broken in DAMAGE for claim in broken}
    assert {name for _, name in named} - own <= set(claims)
    assert all(tag in claims[name] for tag, name in named if name not in own)
    assert {item.name for item in spec.SPEC.invariants} <= {name for _, name in named}


def test_a_violation_reads_as_a_line() -> None:
    pool = busy_pool()
    pool._in_cache = 2
    assert "I21 cached_slots_are_counted: the count is 2, 1 slots have that owner" in map(str, pool.check())
