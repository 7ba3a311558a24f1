"""The bytes of donations, hits and track buffers, held to the codec's reference bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from buffers import finish, queued
from checkpoint_pools import (
    bits,
    buffer,
    cached,
    compute,
    declared,
    fill,
    image,
    lifecycle,
    random_state,
    reloaded,
    running,
    same,
    state,
    stored,
    whole,
)

import poolproof as pp
from poolproof.checkpoint_bytes import CheckpointBytes
from poolproof.checkpoint_pool import CheckpointPool

KINDS = ("one", "two")
ASIDE = "aside"
SHAPES: dict[str, dict[str, Any]] = {
    "bfloat16": {},
    "float16": {"temporal_dtype": "float16", "conv_dtype": "float16"},
    "float32 beside bfloat16": {"temporal_dtype": "float32"},
    "bfloat16 beside float32": {"conv_dtype": "float32"},
    "no windows": {"conv_shapes": []},
    "five windows": {"conv_shapes": [(2, 1), (1, 3), (3, 1), (2, 2), (1, 1)]},
    "one element": {"layers": 1, "temporal_shape": (1, 1, 1), "conv_shapes": [(1, 1)]},
    "aligned": {"align": 16, "temporal_shape": (2, 4, 16), "conv_shapes": [(8, 1)]},
    "zeroed": {"zero": "on_handout"},
}


def hit(pool: CheckpointPool, request: int, node: int = 7) -> int:
    """A request that hits a node; its slot."""
    pool.enqueue(request)
    with pool.lock(request, node, "state"):
        return pool.hit(request, node)


def seeded(request: int, length: int) -> int:
    """The seed that `compute` uses."""
    return request * 1000 + length


@pytest.mark.parametrize("shadow", [True, False])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_donation_is_quantised_and_a_hit_dequantised_bit_for_bit(kind: str, shape: str, shadow: bool) -> None:
    pool = lifecycle(kind, states=declared(**SHAPES[shape]), shadow=shadow)
    checkpoint = cached(pool, length=16, request=90)
    parts = random_state(pool, seeded(90, 16))
    assert same(stored(pool, checkpoint), image(parts))
    slot = hit(pool, 1)
    assert same(state(pool, slot), reloaded(parts))
    assert pool.check() == []


@pytest.mark.parametrize("shadow", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_bytes_survive_moves(kind: str, shadow: bool) -> None:
    pool = lifecycle(kind, total=6000, slots=8, shadow=shadow)
    below = pool.states._pool
    for number in range(4):
        cached(pool, node=number, length=number + 1, request=10 + number)
    requests = [running(pool, 20 + number, tokens=3) for number in range(4)]
    assert len(set(requests)) == 4
    pool.finish(20)
    pool.finish(22)
    pool.evict(1)
    pool.remove_node(1)
    moves = below.compact(urgent=True) + pool.checkpoints._pool.compact(urgent=True)
    assert {move.name for move in moves} == {"state", "checkpoint"}
    for number in (0, 2, 3):
        parts = random_state(pool, seeded(10 + number, number + 1))
        found = pool.checkpoint_of(number)
        assert found is not None
        assert same(stored(pool, found), image(parts))
        assert same(state(pool, hit(pool, 30 + number, number)), reloaded(parts))
    for request in (21, 23):
        slot = pool.slot_of(request)
        assert slot is not None
        assert same(state(pool, slot), [bits(part) for part in random_state(pool, seeded(request, 3))])
    assert pool.check() == []


def test_the_buffer_is_shared_with_kv_pages_and_moves_for_them() -> None:
    pool = lifecycle(total=6000)
    below = pool.states._pool
    for number in range(6):
        cached(pool, node=number, length=number + 1, request=10 + number)
    for number in (0, 2, 3):
        pool.evict(number)
    most = below["full"].capacity()
    pages = below["full"].alloc(most)  # what lies in the way moves
    step = below.begin_step(writes={"full": pages})
    view = below.views("full")
    for layer in (*view.k, *view.v):
        layer[torch.from_numpy(step.writes["full"].copy())] = 1.0
    finish(step)
    for number in (1, 4, 5):
        found = pool.checkpoint_of(number)
        assert found is not None
        assert same(stored(pool, found), image(random_state(pool, seeded(10 + number, number + 1))))
    below["full"].free(pages)
    assert pool.check() == []


def test_a_hit_is_a_private_copy() -> None:
    pool = lifecycle()
    checkpoint = cached(pool, length=16)
    parts = random_state(pool, seeded(90, 16))
    first, second = hit(pool, 1), hit(pool, 2)
    pool.start(1)
    compute(pool, 1, 4)
    assert not same(state(pool, first), reloaded(parts))
    assert same(state(pool, second), reloaded(parts))
    assert same(stored(pool, checkpoint), image(parts))
    pool.start(2)
    again = pool.donate(2)
    assert again is not None
    assert again.length == 16


def test_a_hit_of_what_is_evicted_afterwards_stays() -> None:
    pool = lifecycle(total=2500)
    cached(pool, length=16)
    parts = random_state(pool, seeded(90, 16))
    slot = hit(pool, 1)
    pool.evict(7)
    cached(pool, node=8, length=3, request=91)
    assert same(state(pool, slot), reloaded(parts))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_track_buffer_is_a_copy_bit_for_bit(kind: str, shape: str) -> None:
    pool = lifecycle(kind, states=declared(**SHAPES[shape]))
    running(pool, 1, 4)
    pool.add_tracks(1)
    at = {}
    for length in (8, 12, 16):
        compute(pool, 1, 4)
        at[pool.track(1)] = length
    compute(pool, 1, 1)
    assert sorted(at.values()) == [12, 16]
    for slot, length in at.items():
        assert same(state(pool, slot), [bits(part) for part in random_state(pool, seeded(1, length))])
    donation = pool.donate(1, "track")
    assert donation is not None
    assert donation.length == 16
    assert same(stored(pool, donation.checkpoint), image(random_state(pool, seeded(1, 16))))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", [list, np.array, torch.tensor])
def test_slots_are_stored_and_loaded_together(kind: str, form: Any) -> None:
    pool = lifecycle(kind)
    active, cached_slots = pool.states.alloc(3).tolist(), pool.checkpoints.alloc(3).tolist()
    for slot in active:
        fill(pool, slot, slot)
    assert pool.store_from_active(form(active), form(cached_slots)) is None
    for slot, checkpoint in zip(active, cached_slots, strict=True):
        assert same(stored(pool, checkpoint), image(random_state(pool, slot)))
    assert pool.load_to_active(form(cached_slots[::-1]), form(active)) is None
    for slot, source in zip(active, active[::-1], strict=True):
        assert same(state(pool, slot), reloaded(random_state(pool, source)))
    pool.store_from_active([], [])
    pool.load_to_active(cached_slots[0], active[1])
    assert same(state(pool, active[1]), reloaded(random_state(pool, active[0])))


def test_reloading_a_stored_state_gives_the_same_checkpoint() -> None:
    pool = lifecycle()
    first = cached(pool, length=16)
    hit(pool, 1)
    donation = pool.donate(1)
    assert donation is not None
    assert same(stored(pool, donation.checkpoint)[:1], stored(pool, first)[:1])


@pytest.mark.parametrize("kind", KINDS)
def test_copies_on_other_streams_are_completed_by_the_caller(kind: str) -> None:
    pool = lifecycle(kind)
    active, slots = pool.states.alloc(2), pool.checkpoints.alloc(2)
    for slot in active.tolist():
        fill(pool, slot, slot)
    copy = pool.store_from_active(active, slots, stream=ASIDE)
    assert copy is not None
    assert copy.is_in_flight
    copy.complete()
    assert not copy.is_in_flight
    with pytest.raises(pp.StepError, match="complete a copy once"):
        copy.complete()
    first, second = (pool.load_to_active(slots, active, stream=ASIDE) for _ in range(2))
    assert first is not None
    assert second is not None
    with pytest.raises(pp.StepError, match="complete that first"):
        second.complete()
    first.complete()
    second.complete()
    for slot in active.tolist():
        assert same(state(pool, slot), reloaded(random_state(pool, slot)))
    assert pool.states._pool.stats().steps == 0


@pytest.mark.parametrize("stream", [None, 1])
@pytest.mark.parametrize("seed", range(3))
def test_on_a_device_that_works_when_it_pleases(seed: int, stream: Any) -> None:
    """Copies and an engine's steps are queued on streams that run at random times."""
    device = queued(seed)
    pool = lifecycle(events=device)
    steps = [compute_on(pool, device, 1, 16)]
    donation = pool.donate(1, stream=stream)
    assert donation is not None
    device.pass_time(3)
    if donation.is_in_flight:
        finish_launched(steps)
        donation.complete()
    pool.add_node(7, 16)
    donation.publish(7)
    pool.finish(1)
    steps.append(compute_on(pool, device, 3, 2))
    fresh = hit(pool, 2)
    pool.evict(7)
    steps.append(compute_on(pool, device, 4, 2))
    step = pool.states._pool.begin_step(reads={"state": fresh})
    step.launched()
    device.drain()
    views, page = pool.states._pool.views("state"), int(step.reads["state"][0])
    found = [bits(view[:, page]) for view in (views.temporal, *views.conv)]
    assert same(found, reloaded(random_state(pool, seeded(1, 16))))
    finish_launched([*steps, step])
    assert pool.states._pool.stats().steps == 0
    assert pool.check() == []


def compute_on(pool: CheckpointPool, device: Any, request: int, length: int) -> Any:
    """A running request whose state an engine's step writes on the home stream, some time; the step."""
    pool.enqueue(request)
    slot = pool.admit(request)
    pool.start(request)
    below = pool.states._pool
    step = below.begin_step(writes={"state": slot})
    views, page, parts = below.views("state"), int(step.writes["state"][0]), random_state(pool, seeded(request, length))

    def work() -> None:
        for view, part in zip((views.temporal, *views.conv), parts, strict=True):
            view[:, page] = part

    device.give(None, work)
    step.launched()
    pool.advance(request, length)
    return step


def finish_launched(steps: list[Any]) -> None:
    """The engine's steps are over, those that are not yet."""
    for step in steps:
        if step.is_in_flight:
            step.complete()
            step.retire()


def test_with_a_guard() -> None:
    pool = lifecycle(total=8000, guard=True, shadow=False)
    checkpoint = cached(pool, length=16)
    parts = random_state(pool, seeded(90, 16))
    slot = hit(pool, 1)
    pool.start(1)
    pool.add_tracks(1)
    track = pool.track(1)
    for one in (slot, track):
        assert same(state(pool, one), reloaded(parts))
    assert same(stored(pool, checkpoint), image(parts))
    pool.states._pool.compact(urgent=True)
    pool.finish(1)
    assert pool.check() == []


@pytest.mark.parametrize("layers", [0, 1])
def test_a_stage_may_have_no_layers(layers: int) -> None:
    pool = lifecycle(total=100_000, states=declared(layers=layers), shadow=False)
    cached(pool)
    hit(pool, 1)
    pool.start(1)
    pool.add_tracks(1)
    pool.track(1)
    pool.finish(1)
    assert pool.check() == []


def test_without_bytes_there_is_nothing_to_copy() -> None:
    pool = lifecycle("meta")
    cached(pool)
    assert pool._bytes._load is None
    slot = hit(pool, 1)
    assert pool.store_from_active(slot, pool.checkpoints.alloc(1)) is None


# -------------------------------------------------------------------------------------------------- copies that fail


class Failing:
    """A kernel that fails."""

    def __call__(self, sources: Any, targets: Any) -> None:
        raise RuntimeError("the device is gone")


def without_clock(pool: CheckpointPool) -> Any:
    """All that a pool has noted, but for what an allocation that was taken back leaves."""
    mine, stats, *below = whole(pool)
    tables = [[(t.name, t.physical, t.virtual, t.holes, t.pending) for t in one.sub_pools] for one in below]
    return mine, stats, tables, [one.steps for one in below]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stream", [None, ASIDE])
def test_a_copy_that_fails_gives_its_slot_back(kind: str, stream: Any) -> None:
    pool = lifecycle(kind)
    checkpoint = cached(pool)
    running(pool, 1, 4)
    pool.add_tracks(1)
    pool.track(1)
    pool.enqueue(2)
    pool.lock(2, 7, "state")
    good = pool._bytes._store, pool._bytes._load, pool._bytes._copy
    before = without_clock(pool)
    pool._bytes._store = pool._bytes._load = pool._bytes._copy = Failing()
    for call in (lambda: pool.donate(1, stream=stream), lambda: pool.hit(2, 7), lambda: pool.track(1)):
        with pytest.raises(RuntimeError, match="the device is gone"):
            call()
        assert without_clock(pool) == before
        assert pool.check() == []
    pool._bytes._store, pool._bytes._load, pool._bytes._copy = good
    assert same(state(pool, pool.hit(2, 7)), reloaded(random_state(pool, seeded(90, 16))))
    assert same(stored(pool, checkpoint), image(random_state(pool, seeded(90, 16))))
    assert pool.check() == []


def test_a_failed_copy_on_a_busy_stream_ends_behind_what_comes_before_it() -> None:
    pool = lifecycle()
    cached(pool)
    below = pool.states._pool
    slot = running(pool, 1, 4)
    step = below.begin_step(reads={"state": slot}, stream=ASIDE)
    step.launched()
    good, pool._bytes._store = pool._bytes._store, Failing()
    with pytest.raises(RuntimeError):
        pool.donate(1, stream=ASIDE)
    pool._bytes._store = good
    assert below.stats().steps == 2
    assert pool.check() == []
    step.complete()
    step.retire()
    donation = pool.donate(1, stream=ASIDE)
    assert donation is not None
    assert below.stats().steps == 1
    donation.complete()
    assert (below.stats().steps, pool.stats().checkpoints_pending) == (0, 0)
    assert pool.check() == []


def test_the_second_pool_may_refuse_after_the_first_has_begun() -> None:
    pool = lifecycle("two")
    cached(pool)
    running(pool, 1, 4)
    there = pool.checkpoints._pool
    blocked = there.begin_step(reads={"checkpoint": pool.checkpoint_of(7) or 0}, stream="other")
    slots = pool.checkpoints.alloc(1)
    write = there.begin_step(writes={"checkpoint": slots}, stream="third")
    with pytest.raises(pp.StepError, match="launch that first"):
        pool.store_from_active(pool.slot_of(1) or 0, slots, stream=ASIDE)
    assert pool.states._pool.stats().steps == 0
    finish(blocked, write)
    pool.checkpoints.free(slots)
    assert pool.check() == []


# ------------------------------------------------------------------------------------------------------ where pools are


def test_pools_on_two_devices_or_homes_do_not_belong_together() -> None:
    here, there = buffer(), buffer(device="meta")
    with pytest.raises(pp.LayoutError, match="on one device"):
        CheckpointBytes(here["state"], there["checkpoint"])
    other = buffer(events=queued(), shadow=False)
    with pytest.raises(pp.LayoutError, match="different home streams"):
        CheckpointBytes(here["state"], other["checkpoint"])


def test_two_buffers_of_one_engine_belong_together() -> None:
    here, there = buffer(), buffer()
    pool = CheckpointPool(here["state"], there["checkpoint"])
    checkpoint = cached(pool)
    assert same(stored(pool, checkpoint), image(random_state(pool, seeded(90, 16))))
    assert here.stats().sub_pools[1].bound == 0
    assert pool.check() == []


# ---------------------------------------------------------------------------------------------------- on a CUDA device


gpu = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]
on_cuda = [pytest.param("cuda", marks=gpu)]
LONG = 400_000_000
"""Cycles: about 0.2 seconds."""


@pytest.mark.parametrize("device", on_cuda)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_device_gives_the_same_bytes(kind: str, shape: str, device: str) -> None:
    pool = lifecycle(kind, 12_000, states=declared(**SHAPES[shape]), device=device, shadow=False)
    parts = random_state(pool, seeded(90, 16))
    assert same(stored(pool, cached(pool, length=16)), image(parts))
    slot = hit(pool, 1)
    pool.start(1)
    pool.add_tracks(1)
    for found in (slot, pool.track(1)):
        assert same(state(pool, found), reloaded(parts))
    active, slots = pool.states.alloc(2), pool.checkpoints.alloc(2)
    for one in active.tolist():
        fill(pool, one, one)
    pool.store_from_active(active, slots)
    pool.load_to_active(slots[::-1], active)
    for one, source in zip(active.tolist(), active[::-1].tolist(), strict=True):
        assert same(state(pool, one), reloaded(random_state(pool, source)))


@pytest.mark.parametrize("device", on_cuda)
@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_that_is_late_is_waited_for(kind: str, device: str) -> None:
    pool = lifecycle(kind, device=device, shadow=False)
    aside = torch.cuda.Stream()
    running(pool, 1, 16)
    torch.cuda.synchronize()
    with torch.cuda.stream(aside):
        torch.cuda._sleep(LONG)
    donation = pool.donate(1, stream=aside)
    assert donation is not None
    donation.complete()
    pool.add_node(7, 16)
    donation.publish(7)
    pool.finish(1)
    running(pool, 3, 2)  # over the slot that is being read, behind the copy
    slot = hit(pool, 2)
    assert same(state(pool, slot), reloaded(random_state(pool, seeded(1, 16))))
    assert pool.check() == []


@pytest.mark.parametrize("device", on_cuda)
@pytest.mark.parametrize("kind", KINDS)
def test_a_donation_and_a_hit_do_not_wait_for_the_device(kind: str, device: str) -> None:
    pool = lifecycle(kind, device=device, shadow=False)
    cached(pool)
    running(pool, 1, 4)
    pool.add_tracks(1)
    for request in (2, 3):  # the first time, kernels are compiled
        torch.cuda.synchronize()
        torch.cuda.set_sync_debug_mode("error" if request == 3 else "default")
        try:
            hit(pool, request)
            pool.track(1)
            donation = pool.donate(1, "track")
            assert donation is not None
            donation.drop()
            pool.finish(request)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    assert pool.check() == []
