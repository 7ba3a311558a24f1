"""The spec in lockstep: silent beside a sound pool, it names the first operation where an unsound one departs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import poolproof as pp
from poolproof import Owner, SlotPool
from poolproof.slot_key import FREE, PENDING, REQUEST, RESERVED, key_of


def busy_pool() -> SlotPool:
    """Slots 1-3 of request 1, 4 of cache node 1, 5 pending, 6 taken from a group, 7-8 reserved, 9-12 free."""
    pool = SlotPool(12, shadow=True)
    pool.alloc(5, holder=1)
    pool.transfer([4], holder=1, to=Owner.CACHE, heir=1)
    pool.retire([5], holder=1)
    pool.open_group(3).take(1, holder=2)
    return pool


def put(name: str, at: int, value: int) -> Callable[[SlotPool], None]:
    return lambda pool: getattr(pool, name).__setitem__(at, value)


def set_to(name: str, value: Any) -> Callable[[SlotPool], None]:
    return lambda pool: setattr(pool, name, value)


def bump_a_tenancy(pool: SlotPool) -> None:
    pool._tenancies.ended[3] += 1


def lose_slots_and_group(pool: SlotPool) -> None:
    pool._head, pool._group = 11, None


DAMAGE: list[tuple[str, Callable[[SlotPool], None], str, list[int], Any, Any]] = [
    ("another holder", put("_keys", 1, key_of(REQUEST, 9)), "holder", [1], [9], [1]),
    ("another owner", put("_keys", 5, FREE), "owner", [5], [0], [4]),
    ("two owners", lambda p: put("_keys", slice(1, 3), key_of(PENDING, 1))(p), "owner", [1, 2], [4, 4], [2, 2]),  # type: ignore[arg-type]
    ("a tenancy too far", bump_a_tenancy, "tenancy", [3], [1], [0]),
    ("a free slot listed twice", put("_stack", 11, 11), "free_slots", [11, 12], [2, 0], [1, 1]),
    ("a stray free slot", put("_stack", 11, 99), "free_slots", [99], "listed", "none of the ids"),
    ("a lost free slot", set_to("_head", 9), "free_slots", [9], [0], [1]),
    ("a lost reserved slot", set_to("_reserve_head", 2), "reserved_slots", [7], [0], [1]),
    ("requests miscounted", set_to("_in_requests", 7), "in_requests", [], 7, 4),
    ("cache miscounted", set_to("_in_cache", 0), "in_cache", [], 0, 1),
    ("pending miscounted", set_to("_in_pending", 2), "in_pending", [], 2, 1),
    ("the group forgotten", set_to("_group", None), "group_is_open", [], False, True),
]


@pytest.mark.parametrize("damage", DAMAGE, ids=[d[0] for d in DAMAGE])
def test_damage_is_told_with_the_values_of_both_sides(damage: tuple[Any, ...]) -> None:
    _, harm, field, slots, ours, theirs = damage
    pool = busy_pool()
    harm(pool)
    with pytest.raises(pp.SpecViolation) as raised:
        pool.free([])
    error = raised.value
    assert (error.operation, error.field, list(error.slots)) == ("free(0, [])", field, slots)
    assert (error.pool_value, error.spec_value) == (ours, theirs)
    for told in ("free(0, [])", field, repr(ours), repr(theirs)):
        assert told in str(error)


def test_a_refusal_is_checked_for_side_effects_too() -> None:
    pool = busy_pool()
    pool._in_cache = 0
    with pytest.raises(pp.SpecViolation) as raised:
        pool.free([0])
    assert raised.value.operation == "refused free(0, [0])"
    with pytest.raises(pp.SpecViolation):
        pool.try_alloc(100)


UNSOUND_REFUSALS: list[tuple[str, Callable[[SlotPool], None], Callable[[SlotPool], Any]]] = [
    ("free", put("_keys", 1, key_of(REQUEST, 9)), lambda pool: pool.free([1], holder=1)),
    ("retire", put("_keys", 1, FREE), lambda pool: pool.retire([1], holder=1)),
    ("reclaim", put("_keys", 5, FREE), lambda pool: pool.reclaim([5])),
    ("transfer", put("_keys", 1, FREE), lambda pool: pool.transfer([1], holder=1, to=Owner.CACHE, heir=2)),
    ("alloc", set_to("_head", 12), lambda pool: pool.alloc(1)),
    ("open_group", lose_slots_and_group, lambda pool: pool.open_group(4)),
    ("try_alloc", set_to("_head", 11), lambda pool: pool.try_alloc(4)),
    ("take", set_to("_reserve_head", 3), lambda pool: pool._group.take(2)),  # type: ignore[union-attr]
]


@pytest.mark.parametrize(("name", "harm", "call"), UNSOUND_REFUSALS, ids=[u[0] for u in UNSOUND_REFUSALS])
def test_what_the_spec_allows_must_not_be_refused(
    name: str, harm: Callable[[SlotPool], None], call: Callable[[SlotPool], Any]
) -> None:
    pool = busy_pool()
    harm(pool)
    with pytest.raises(pp.SpecViolation) as raised:
        call(pool)
    assert (raised.value.field, raised.value.pool_value, raised.value.spec_value) == ("verdict", "refused", "allowed")
    assert raised.value.operation.startswith(name.removeprefix("try_"))


UNSOUND_CONSENT: list[tuple[str, Callable[[SlotPool], None], Callable[[SlotPool], Any]]] = [
    ("free", put("_keys", 9, key_of(REQUEST, 1)), lambda pool: pool.free([9], holder=1)),
    ("retire", put("_keys", 7, key_of(REQUEST, 1)), lambda pool: pool.retire([7], holder=1)),
    ("reclaim", put("_keys", 1, PENDING), lambda pool: pool.reclaim([1])),
    ("alloc", put("_stack", 8, 1), lambda pool: pool.alloc(1)),
    ("alloc the sink", put("_stack", 8, 0), lambda pool: pool.alloc(1)),
    ("take", put("_reserve", 1, 1), lambda pool: pool._group.take(1)),  # type: ignore[union-attr]
    ("transfer", put("_keys", 4, key_of(REQUEST, 1)), lambda p: p.transfer([4], holder=1, to=Owner.CACHE, heir=1)),
]


@pytest.mark.parametrize(("name", "harm", "call"), UNSOUND_CONSENT, ids=[u[0] for u in UNSOUND_CONSENT])
def test_what_the_spec_refuses_must_not_be_done(
    name: str, harm: Callable[[SlotPool], None], call: Callable[[SlotPool], Any]
) -> None:
    pool = busy_pool()
    harm(pool)
    with pytest.raises(pp.SpecViolation) as raised:
        call(pool)
    assert (raised.value.field, raised.value.pool_value, raised.value.spec_value) == ("verdict", "done", "refused")
    assert raised.value.operation.startswith(name.split()[0])


class TwoForOne(SlotPool):
    """A pool that does not look for duplicates: the classic double free within one batch."""

    def _check_distinct(self, ids: Any, step: Any) -> None:
        return


def test_a_planted_double_free_is_caught_at_once() -> None:
    pool = TwoForOne(4, shadow=True)
    pool.alloc(2)
    with pytest.raises(pp.SpecViolation, match=r"free\(0, \[1, 1\]\).*occurs twice"):
        pool.free([1, 1])


class Forgetful(SlotPool):
    """A pool that loses what is left of a closed group."""

    def _push(self, ids: Any) -> None:
        super()._push(ids[:0])


def test_a_planted_leak_is_caught_at_once() -> None:
    pool = Forgetful(4, shadow=True)
    group = pool.open_group(3)
    group.take(1)
    with pytest.raises(pp.SpecViolation, match=r"close_group\(\): free_slots at slots \[2, 3\]"):
        group.close()


class Stillborn(SlotPool):
    """A pool that forgets a slot when it is made."""

    def _make_all_free(self) -> None:
        super()._make_all_free()
        self._head = 1


def test_a_planted_fault_of_the_new_pool_is_caught_at_once() -> None:
    with pytest.raises(pp.SpecViolation, match=r"create: free_slots at slots \[1\]"):
        Stillborn(4, shadow=True)


def test_reserved_key_of_a_free_slot_is_seen_by_the_shadow() -> None:
    pool = busy_pool()
    pool._keys[9] = RESERVED
    with pytest.raises(pp.SpecViolation, match="owner"):
        pool.alloc(0)


def test_a_shadow_takes_ids_in_any_form() -> None:
    pool = SlotPool(6, shadow=True)
    pool.alloc(np.int64(6), np.int64(3))
    pool.free(np.array([1, 2], np.uint16), np.int64(3))
    pool.retire((3,), 3)
    pool.reclaim(3)
    pool.transfer(range(4, 7), holder=3, to=Owner.CACHE, heir=3)
    assert pool.check() == []
