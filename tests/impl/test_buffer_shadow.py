"""The spec beside a unified pool: it follows what is right, and names what is not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import poolproof as pp
from poolproof.errors import SpecViolation


def make() -> pp.UnifiedPool:
    """Three sub-pools of unequal pages, one of them zeroed, with the spec in lockstep."""
    sub_pools = [
        pp.Pages("full", bytes=2, grows="up"),
        pp.Pages("between", bytes=3, grows="float", zero="never"),
        pp.Pages("state", bytes=4, grows="down", zero="never"),
    ]
    return pp.UnifiedPool(60, sub_pools, shadow=True)


def test_a_healthy_pool_is_followed() -> None:
    pool = make()
    ids, other = pool["full"].alloc(6), pool["between"].alloc(3)
    step = pool.begin_step(reads={"full": ids[:2]}, writes={"between": other}, stream=7)
    step.launched()
    pool["full"].free(ids[:3])
    pool.compact(urgent=True)
    step.complete()
    step.publish("between", other)
    with pool.lease("full", ids[4:], "test"), pool.gate("between", "test"):
        pool.compact(urgent=True)
    step.retire()
    pool.clear()
    counts = pool._journal.counts
    assert {"take_frontier", "put_float", "relocate", "lease_page", "close_gate", "publish", "clear"} <= set(counts)
    assert pool._journal.taken == sum(counts.values())


def tamper_physical(pool: pp.UnifiedPool) -> None:
    pool._at("full").physical[2] = 9


def tamper_holes(pool: pp.UnifiedPool) -> None:
    pool._at("full").holes.take(1)


def tamper_extent(pool: pp.UnifiedPool) -> None:
    pool._at("between").last += 1


def tamper_flags(pool: pp.UnifiedPool) -> None:
    pool._at("full").flags[3] = 1


def tamper_hold(pool: pp.UnifiedPool) -> None:
    pool._at("full").hold[5] += 1


def tamper_queue(pool: pp.UnifiedPool) -> None:
    pool._at("full").to_zero[:] = False


@pytest.mark.parametrize(
    ("tamper", "field"),
    [
        (tamper_physical, "physical[0]"),
        (tamper_holes, "holes[0]"),
        (tamper_extent, "last[1]"),
        (tamper_flags, "filled[0]"),
        (tamper_hold, "hold[0]"),
        (tamper_queue, "to_zero[0]"),
    ],
)
def test_what_was_changed_behind_its_back_is_named(tamper: Callable[[pp.UnifiedPool], None], field: str) -> None:
    pool = make()
    ids = pool["full"].alloc(5)
    pool["full"].free(ids[1:2])
    pool["between"].alloc(1)
    tamper(pool)
    with pytest.raises(SpecViolation, match=field.replace("[", r"\[").replace("]", r"\]")) as violation:
        pool["state"].alloc(1)
    assert violation.value.field == field


def test_a_step_that_the_spec_refuses_is_named_with_what_led_to_it() -> None:
    pool = make()
    ids = pool["full"].alloc(3)
    pool._at("full")._bind(np.array([4]), np.array([5]), 1)
    with pytest.raises(SpecViolation, match=r"take_hole\(0, 4, 5\): verdict: the pool has 'done', the spec 'refused'"):
        pool._journal("take_hole", 0, np.array([4]), np.array([5]))
    assert len(ids) == 3


def test_more_steps_than_the_spec_has_places_for_retire_the_oldest() -> None:
    pool = make()
    ids = pool["state"].alloc(1)
    steps = []
    for _ in range(15):
        step = pool.begin_step(writes={"state": ids})
        step.launched()
        step.complete()
        steps.append(step)
    with pytest.raises(pp.StepError, match="retired"):
        steps[0].publish("state", ids)
    steps[-1].publish("state", ids)


def test_a_place_that_is_given_up_in_the_midst_of_an_operation_is_no_difference() -> None:
    """Twelve steps that are over and not retired, and an alloc that must move pages, in a step of the pool's own."""
    pool = make()
    for _ in range(12):
        step = pool.begin_step()
        step.launched()
        step.complete()
    ids = pool["full"].alloc(pool.capacity("full"))
    pool["full"].free(ids[:8])
    assert len(pool["state"].alloc(1)) == 1
    assert "relocate" in pool._journal.counts
    assert pool.check() == []
