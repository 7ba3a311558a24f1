"""Whose slots the two sub-pools of a checkpoint pool are, and how to get out of what was begun elsewhere."""

from __future__ import annotations

import pytest
from checkpoint_pools import buffer, compute, fill, lifecycle

import poolproof as pp


def test_slots_that_somebody_has_already_are_not_taken_over() -> None:
    pool = buffer()
    pool["state"].alloc(1)
    before = pool.snapshot()
    with pytest.raises(pp.PoolBusy, match="1 slots of 'state' and 0 of 'checkpoint' are taken"):
        pp.CheckpointPool(pool["state"], pool["checkpoint"])
    assert pool.snapshot() == before
    shared = pp.CheckpointPool(pool["state"], pool["checkpoint"], shared=True)
    assert shared.check() == []


def test_bytes_alone_are_moved_between_slots_of_others() -> None:
    pool = buffer()
    states = pp.CheckpointPool(pool["state"], pool["checkpoint"], shared=True, shadow=True)
    active, cached = pool["state"].alloc(2), pool["checkpoint"].alloc(2)
    for slot in active.tolist():
        fill(states, slot, slot)
    states.store_from_active(active, cached)
    states.load_to_active(cached[::-1], active)
    states.enqueue(1)
    states.admit(1)
    assert states.check() == []
    assert states.stats().active_others == 2
    pool["state"].free(active)
    pool["checkpoint"].free(cached)
    states.finish(1)
    assert states.check() == []


def test_a_slot_of_others_has_leaked_where_nothing_is_shared() -> None:
    states = lifecycle(shadow=False)
    states.states.alloc(1)
    assert "exactly_the_tenanted_slots_have_a_holder" in {found.name for found in states.check()}


def test_a_donation_whose_handle_is_lost_can_be_ended() -> None:
    states = lifecycle()
    states.enqueue(7)
    states.admit(7)
    states.start(7)
    compute(states, 7, 4)
    states.donate(7, stream="aside")
    states.finish(7)
    (donation,) = states.in_flight()
    donation.complete()
    assert states.in_flight() == ()
    states.clear()
    assert states.check() == []


def test_a_clear_comes_after_one_of_the_pool_below() -> None:
    states = lifecycle(shadow=False)
    states.enqueue(1)
    states.admit(1)
    states.states._pool.clear()
    states.clear()
    assert states.check() == []
    states.enqueue(1)
    assert states.admit(1) == 1


def test_a_checkpoint_pool_is_that_of_one_cache() -> None:
    pool = buffer(8000)
    states = pp.CheckpointPool(pool["state"], pool["checkpoint"])
    cache = pp.StateCache(pool, states)
    with pytest.raises(pp.PoolBusy, match="is that of StateCache"):
        pp.StateCache(pool, states)
    assert cache.check() == []
    states.enqueue(5)
    assert "the_cache_and_its_states_agree" in {found.name for found in cache.check()}
    with pytest.raises(TypeError, match="kv is"):
        pp.StateCache(pool, states, kv=["full"])  # type: ignore[arg-type]
