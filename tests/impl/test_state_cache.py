"""What a state cache keeps, restores and gives up, with the bytes; and thousands of operations beside a model."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pytest
from caches import CHECKPOINT, PAGE, SIZE, SLOT, World, refused

import poolproof as pp
from poolproof.cached_request import CachedRequest
from poolproof.kernels import interpreter
from poolproof.state_cache import StateCache

Strategy = Literal["no_buffer", "extra_buffer"]

A = list(range(100, 140))
"""Forty tokens; ten pages."""


def fork(n: int, tail: int, total: int = 40) -> list[int]:
    """The first n tokens of A, and others from there on."""
    return A[:n] + [1000 * tail + token for token in range(n, total)]


def nodes(world: World) -> list[tuple[int, bool]]:
    """(length, has a checkpoint) of all nodes, sorted."""
    return sorted((node.length, node.stamp > 0) for node in world.cache._tree.nodes.values())


@pytest.fixture(autouse=True)
def kernels_in_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not interpreted, which takes a hundred times as long."""
    monkeypatch.setattr(interpreter, "is_on", lambda: False)


@pytest.fixture(params=[False, True], ids=["together", "apart"])
def world(request: pytest.FixtureRequest) -> World:
    return World(apart=request.param)


# ------------------------------------------------------------------------------------------------------ hits and misses


def test_what_one_request_leaves_the_next_one_finds(world: World) -> None:
    first = world.cache.admit(A)
    assert (first.cached, first.shared, len(first.pages), first.length) == (0, 0, 0, 0)
    world.run(first, A, 40)
    assert world.cache.finish(first, A)
    assert world.cache.match([*A, 7]) == (40, 1)
    second = world.cache.admit([*A, 7])
    assert (second.cached, second.shared, second.length) == (40, 10, 40)
    assert world.is_restored(second, A)
    assert world.cache.check() == []
    stats = world.cache.stats()
    assert (stats.hits, stats.misses, stats.hit_tokens, stats.requested_tokens) == (1, 1, 40, 81)
    assert stats.hit_rate == 40 / 81
    assert (stats.nodes, stats.tokens, stats.pages, stats.checkpoints, stats.locked) == (1, 40, 10, 1, 1)
    assert (stats.requests, stats.request_pages, stats.idle_pages) == (1, 0, 0)


@pytest.mark.parametrize(("prompt", "cached"), [(A, 20), (A[:21], 20), (A[:20], 0), (A[:19], 0), (fork(20, 3), 20)])
def test_one_token_at_least_is_left_to_compute(world: World, prompt: list[int], cached: int) -> None:
    world.serve(A[:20])
    request = world.cache.admit(prompt)
    assert request.cached == cached
    assert world.is_restored(request, prompt)


def test_a_hit_needs_a_checkpoint_and_not_only_pages(world: World) -> None:
    world.serve(A[:8])
    world.serve(A)
    assert world.cache.match(A[:32]) == (8, 1)
    request = world.cache.admit(A[:32])
    assert request.cached == 8
    assert world.is_restored(request, A)


def test_at_most_restores_less(world: World) -> None:
    world.serve(A[:8])
    world.serve(A)
    assert [world.cache.match([*A, 1], at_most=n).length for n in (0, 7, 8, 39, 40, 99)] == [0, 0, 8, 8, 40, 40]
    assert world.cache.admit([*A, 1], at_most=39).cached == 8


def test_a_hit_is_a_private_copy(world: World) -> None:
    world.serve(A[:20])
    first, second = world.cache.admit(A), world.cache.admit(fork(20, 2))
    assert first.state != second.state
    assert first.pages.tolist() == second.pages.tolist()
    world.run(first, A, 40)
    assert world.is_restored(second, A)
    world.run(second, fork(20, 2), 40)
    assert world.has_pages(first, A)
    assert world.has_pages(second, fork(20, 2))
    assert world.cache.check() == []


def test_a_look_changes_nothing(world: World) -> None:
    world.serve(A[:20])
    before = world.state()
    assert world.cache.match(A).length == 20
    assert world.cache.match([5, 6]) == (0, None)
    assert world.state() == before


def test_a_chain_of_hits_and_donations(world: World) -> None:
    for length in range(8, 41, 8):
        request = world.cache.admit(A[:length])
        assert request.cached == length - 8
        assert world.is_restored(request, A)
        world.run(request, A, length)
        assert world.cache.finish(request, A[:length])
    assert nodes(world) == [(length, True) for length in range(8, 41, 8)]
    assert world.cache.check() == []


# ------------------------------------------------------------------------------------------------- keeping and sharing


def test_a_running_request_keeps_and_goes_on(world: World) -> None:
    request = world.cache.admit(A)
    world.run(request, A, 12)
    pages = request.pages
    assert world.cache.keep(request, A[:12])
    assert (request.shared, request.pages.tolist()) == (3, pages.tolist())
    assert world.cache.stats().locked == 1
    world.run(request, A, 27)
    assert (request.shared, len(request.pages)) == (3, 7)
    other = world.cache.admit(A)
    assert other.cached == 12
    assert world.is_restored(other, A)
    assert not world.cache.finish(request, A[:27])
    assert world.has_pages(other, A)
    assert nodes(world) == [(12, True)]
    assert world.cache.check() == []


def test_the_pages_of_the_second_of_two_are_given_back(world: World) -> None:
    first, second = world.cache.admit(A), world.cache.admit(A)
    world.run(first, A, 20)
    world.run(second, A, 20)
    world.run(second, A, 23)
    world.cache.abort(world.cache.admit(A))
    assert world.cache.keep(first, A[:20])
    with pytest.raises(ValueError, match="20 tokens are given, the state to keep is at 23"):
        world.cache.keep(second, A[:20])
    third = world.cache.admit(A[:20])
    world.run(third, A, 20)
    own = third.pages
    assert world.cache.keep(third, A[:20])
    assert third.pages.tolist() == first.pages.tolist() != own.tolist()
    assert third.shared == 5
    stats = world.cache.stats()
    assert (stats.deduplicated, stats.duplicate_pages, stats.kept, stats.checkpoints) == (1, 5, 1, 1)
    world.run(third, A, 22)
    for request in (first, second, third):
        assert world.has_pages(request, A)
    assert world.cache.check() == []


def test_keys_that_part_share_what_they_can(world: World) -> None:
    world.serve(A)
    world.serve(fork(18, 2))
    assert nodes(world) == [(16, False), (40, True), (40, True)]
    assert world.cache.stats().splits == 1
    assert world.cache.stats().duplicate_pages == 4
    assert world.cache.match([*A, 1]).length == 40
    assert world.cache.match(A[:17]).length == 0
    for tokens in (A, fork(18, 2)):
        request = world.cache.admit([*tokens, 1])
        assert world.is_restored(request, tokens)
    assert world.cache.check() == []


def test_a_checkpoint_in_the_midst_of_an_edge(world: World) -> None:
    world.serve(A)
    request = world.cache.admit(A[:16])
    world.run(request, A, 16)
    assert world.cache.keep(request, A[:16])
    assert nodes(world) == [(16, True), (40, True)]
    assert world.cache.stats().duplicate_pages == 4
    world.run(request, fork(16, 2), 30)
    assert world.has_pages(request, fork(16, 2))
    hit = world.cache.admit(fork(16, 3))
    assert hit.cached == 16
    assert world.is_restored(hit, A)
    assert world.cache.check() == []


def test_a_split_above_a_running_request_keeps_it(world: World) -> None:
    world.serve(A)
    request = world.cache.admit([*A, 5])
    world.serve(fork(16, 2))
    assert nodes(world) == [(16, False), (40, True), (40, True)]
    assert world.cache.stats().locked == 2
    assert world.cache.check() == []
    assert world.cache.evict(2) == 2
    assert nodes(world) == [(40, False)]  # the upper half has one child left, and is a part of it again
    assert world.has_pages(request, A)
    assert world.cache.check() == []
    world.cache.abort(request)
    assert nodes(world) == []


def test_what_ends_in_the_midst_of_a_page_is_not_kept_without_a_track(world: World) -> None:
    request = world.cache.admit(A)
    world.run(request, A, 39)
    assert not world.cache.finish(request, A[:39])
    assert world.cache.stats().nodes == 0
    assert world.pool.stats().used_bytes == 0


def test_finish_takes_tokens_that_are_not_computed_yet(world: World) -> None:
    request = world.cache.admit(A[:20])
    world.run(request, A, 20)
    assert world.cache.finish(request, A[:21])
    assert world.cache.match(A).length == 20


def test_a_request_that_computed_nothing_leaves_nothing(world: World) -> None:
    assert not world.cache.finish(world.cache.admit(A), A)
    world.serve(A[:20])
    hit = world.cache.admit(A)
    assert world.cache.finish(hit, A)  # what it had is in the cache as before
    stats = world.cache.stats()
    assert (stats.kept, stats.deduplicated, stats.skipped) == (1, 1, 0)
    assert world.cache.check() == []


def test_a_state_as_it_was_loaded_is_not_stored_again(world: World) -> None:
    world.serve(A[:20])
    hit = world.cache.admit(A)
    assert world.cache.evict() == 1
    assert not world.cache.keep(hit, A[:20])
    assert world.cache.stats().skipped == 1
    world.run(hit, A, 24)
    assert world.cache.keep(hit, A[:24])
    assert nodes(world) == [(24, True)]
    assert world.cache.check() == []


@pytest.mark.parametrize("tokens", [None, A[:20]])
def test_a_retracted_request_comes_back(world: World, tokens: list[int] | None) -> None:
    request = world.cache.admit(A)
    world.run(request, A, 20)
    world.cache.retract(request, tokens)
    assert not request.is_live
    again = world.cache.admit(A)
    assert again.number != request.number
    assert again.cached == (20 if tokens else 0)
    assert world.is_restored(again, A)


def test_nothing_of_an_ended_request_is_left() -> None:
    world = World(strategy="extra_buffer")
    request = world.cache.admit(A)
    world.run(request, A, 12)
    world.cache.track(request)
    world.cache.abort(request)
    assert (request.state, request.tracks, len(request.pages), request.shared) == (None, (), 0, 0)
    assert world.pool.stats().used_bytes == 0
    assert world.cache.check() == []


def test_pages_cannot_be_written(world: World) -> None:
    request = world.cache.admit(A)
    world.run(request, A, 12)
    with pytest.raises(ValueError, match="read-only"):
        request.pages[0] = 1


# --------------------------------------------------------------------------------------------------------- extra buffer


@pytest.fixture(params=[False, True], ids=["together", "apart"])
def tracking(request: pytest.FixtureRequest) -> World:
    return World(strategy="extra_buffer", apart=request.param, slots=7)


def test_a_track_is_kept_while_the_state_goes_on(tracking: World) -> None:
    request = tracking.cache.admit(A)
    assert len({request.state, *request.tracks}) == 3
    tracking.run(request, A, 12)
    tracking.cache.track(request)
    tracking.run(request, A, 15)
    assert request.tracked == 12
    assert tracking.cache.keep(request, A[:12])
    hit = tracking.cache.admit(A)
    assert hit.cached == 12
    assert tracking.is_restored(hit, A)
    assert tracking.cache.check() == []


def test_the_latest_track_is_what_is_kept_at_the_end(tracking: World) -> None:
    request = tracking.cache.admit(A)
    for length in (8, 16, 24):
        tracking.run(request, A, length)
        tracking.cache.track(request)
    tracking.run(request, A, 31)
    pages = request.pages
    assert tracking.cache.finish(request, A[:31])
    assert nodes(tracking) == [(24, True)]
    hit = tracking.cache.admit(A)
    assert hit.pages.tolist() == pages[:6].tolist()
    assert tracking.is_restored(hit, A)
    assert tracking.cache.check() == []


def test_without_a_track_nothing_is_kept(tracking: World) -> None:
    request = tracking.cache.admit(A)
    tracking.run(request, A, 20)
    assert not tracking.cache.finish(request, A[:20])
    assert tracking.cache.stats().nodes == 0


def test_a_track_that_was_kept_is_kept_once(tracking: World) -> None:
    request = tracking.cache.admit(A)
    tracking.run(request, A, 20)
    tracking.cache.track(request)
    assert tracking.cache.keep(request, A[:20])
    tracking.run(request, A, 22)
    assert tracking.cache.finish(request, A[:22])
    stats = tracking.cache.stats()
    assert (stats.kept, stats.deduplicated, stats.duplicate_pages) == (1, 1, 0)


def test_three_slots_or_none() -> None:
    world = World(strategy="extra_buffer", apart=True, slots=5)
    first = world.cache.admit(A)
    error = refused(world, pp.BufferExhausted, lambda: world.cache.admit(A))
    assert (error.name, error.need, error.have) == ("state", 3, 2)
    assert world.cache.try_admit(A) is None
    world.cache.abort(first)
    assert world.cache.try_admit(A) is not None


# ------------------------------------------------------------------------------------------------------------ evictions


def test_the_least_recently_used_goes_first(world: World) -> None:
    for tail in (1, 2, 3):
        world.serve(fork(0, tail, 12))
    world.cache.abort(world.cache.admit(fork(0, 1)))  # a hit is a use
    order = []
    for _ in range(3):
        assert world.cache.evict() == 1
        order.append([tail for tail in (1, 2, 3) if world.cache.match(fork(0, tail)).length])
        assert world.cache.check() == []
    assert order == [[1, 3], [1], []]
    assert world.pool.stats().used_bytes == 0
    assert world.cache.evict(5) == 0
    assert world.cache.evict(0) == 0


def test_a_dedup_is_a_use(world: World) -> None:
    for tail in (1, 2, 1):
        world.serve(fork(0, tail, 12))
    world.cache.evict()
    assert world.cache.match(fork(0, 1)).length == 12


def test_an_inner_checkpoint_goes_without_its_pages(world: World) -> None:
    world.serve(A[:20])
    world.serve(A)
    assert world.cache.evict() == 1
    assert nodes(world) == [(40, True)]  # and the node that nobody needs is a part of the lower one
    assert world.cache.stats().pages == 10
    assert world.cache.match([*A, 1]).length == 40
    assert world.is_restored(world.cache.admit([*A, 1]), A)


def test_pages_go_upwards_as_far_as_nothing_needs_them(world: World) -> None:
    world.serve(A[:20])
    for tail in (1, 2):
        world.serve(fork(32, tail))
    assert nodes(world) == [(20, True), (32, False), (40, True), (40, True)]
    assert world.cache.evict() == 1
    assert nodes(world) == [(20, True), (40, True)]
    assert world.cache.stats().pages == 10
    assert world.cache.evict() == 1
    assert nodes(world) == [(40, True)]
    assert world.cache.evict() == 1
    assert nodes(world) == []
    assert world.pool.stats().used_bytes == 0
    assert world.cache.check() == []


def test_a_running_request_keeps_its_pages_but_not_its_checkpoint(world: World) -> None:
    world.serve(A[:20])
    request = world.cache.admit(A)
    assert world.cache.evict(9) == 1
    assert nodes(world) == [(20, False)]
    assert world.cache.stats().pages == 5
    assert world.has_pages(request, A)
    assert world.cache.check() == []
    world.cache.abort(request)
    assert world.cache.stats().nodes == 0
    assert world.cache.check() == []


def test_a_node_without_use_goes_when_the_request_moves_on(world: World) -> None:
    world.serve(A[:20])
    request = world.cache.admit(A)
    world.cache.evict()
    world.run(request, A, 32)
    assert world.cache.keep(request, A[:32])
    assert nodes(world) == [(32, True)]
    assert request.shared == 8
    assert world.has_pages(request, A)
    assert world.cache.check() == []


def test_a_checkpoint_that_a_lock_keeps_is_passed_over(world: World) -> None:
    for tail in (1, 2):
        world.serve(fork(0, tail, 12))
    request = world.cache.admit([5])
    lock = world.states.lock(request.number, 1, "state")
    assert world.cache.evict(9) == 1
    assert world.cache.match(fork(0, 1)).length == 12
    lock.release()
    assert world.cache.evict(9) == 1
    assert world.cache.check() == []


def test_room_for_pages_is_made_at_the_cost_of_states() -> None:
    world = World(20)
    for tail in (1, 2):
        world.serve(fork(0, tail, 16))
    request = world.cache.admit([1] * 40)
    free = world.pool.capacity("full")
    new = world.cache.extend(request, free * SIZE)
    assert world.cache.stats().evictions == 0
    more = world.cache.extend(request, (free + 5) * SIZE)
    assert request.pages.tolist() == [*new.tolist(), *more.tolist()]
    assert (len(new), len(more)) == (free, 5)
    assert world.cache.stats().evictions == 1  # and no more than it takes
    assert [world.cache.match(fork(0, tail)).length for tail in (1, 2)] == [0, 16]
    assert world.cache.extend(request, (free + 5) * SIZE).shape == (0,)
    assert world.cache.check() == []


def test_a_shortage_is_served_by_either_kind_of_bytes() -> None:
    world = World(16)
    world.serve(A[:20])
    world.serve(A)  # a node between, whose checkpoint holds no pages
    used = world.pool.stats().used_bytes
    request = world.cache.admit([7] * 9)
    free = world.pool.capacity("full")
    world.cache.extend(request, (free + 1) * SIZE)
    stats = world.cache.stats()
    assert (stats.evictions, stats.evicted_pages, stats.checkpoints, stats.pages) == (1, 0, 1, 10)
    assert world.pool.stats().used_bytes == used - CHECKPOINT + SLOT + (free + 1) * PAGE
    assert world.cache.check() == []


def test_for_pages_apart_only_leaves_are_evicted() -> None:
    world = World(14, apart=True)
    world.serve(A[:20])
    world.serve(A)
    world.serve(fork(0, 1, 12))
    request = world.cache.admit([7] * 9)
    world.cache.extend(request, 8)
    assert [world.cache.match([*tokens, 1]).length for tokens in (A, fork(0, 1, 12))] == [20, 12]
    assert world.cache.stats().evictions == 1
    assert world.cache.check() == []


def test_checkpoints_apart_are_evicted_for_checkpoints_alone() -> None:
    world = World(60, apart=True, checkpoints=2)
    for tail in (1, 2, 3):
        world.serve(fork(0, tail, 12))
    stats = world.cache.stats()
    assert (stats.checkpoints, stats.evictions, stats.kept, stats.pages) == (2, 1, 3, 6)
    assert [world.cache.match(fork(0, tail)).length for tail in (1, 2, 3)] == [0, 12, 12]


def test_states_apart_have_nothing_to_gain_from_evictions() -> None:
    world = World(60, apart=True, slots=2)
    world.serve(A)
    running = [world.cache.admit(A), world.cache.admit(A)]
    error = refused(world, pp.BufferExhausted, lambda: world.cache.admit([*A, 1]))
    assert (error.name, error.need, error.have) == ("state", 1, 0)
    assert world.cache.stats().evictions == 0
    assert world.cache.stats().refused == 1
    world.cache.abort(running[0])
    assert world.cache.try_admit([*A, 1]) is not None


def test_nothing_is_evicted_for_what_can_never_be_had(world: World) -> None:
    world.serve(A[:20])
    request = world.cache.admit([5])
    before = world.state()
    assert not world.cache.make_room({"full": 1000})
    assert world.state() == before
    error = refused(world, pp.BufferExhausted, lambda: world.cache.extend(request, 4000))
    assert (error.name, error.need) == ("full", 1000)
    assert world.cache.stats().evictions == 0


def test_room_is_made_for_kinds_together() -> None:
    world = World(16)
    for tail in (1, 2):
        world.serve(fork(0, tail, 16))
    demand = {"full": 4, "state": 2, "checkpoint": 1}
    assert not world.pool.fits(demand)
    assert world.cache.make_room(demand)
    assert world.pool.fits(demand)
    assert world.cache.stats().evictions == 1
    assert world.cache.make_room(demand)
    assert world.cache.make_room({})
    assert world.cache.stats().evictions == 1


def test_room_is_made_in_several_pools() -> None:
    world = World(10, apart=True, checkpoints=2)
    for tail in (1, 2):
        world.serve(fork(0, tail, 16))
    assert world.cache.make_room({"full": 4, "checkpoint": 1, "state": 6})
    assert world.cache.stats().evictions == 1
    assert not world.cache.make_room({"state": 7, "full": 10})
    assert world.cache.stats().evictions == 1


def test_what_is_pending_is_no_room() -> None:
    world = World(20)
    world.serve(A)
    lease = world.pool.lease("full", world.cache._tree.pages_of(world.cache._tree.nodes[1]), "test")
    free = world.pool.capacity("full")
    assert not world.cache.make_room({"full": free + 4})  # all was evicted, and its pages wait for the release
    assert world.cache.stats().evictions == 1
    lease.release()
    assert world.cache.make_room({"full": free + 4})
    assert world.cache.check() == []


def test_nothing_is_evicted_where_what_is_pending_would_be_needed_too() -> None:
    world = World(20)
    world.serve(A[:20])
    request = world.cache.admit([5] * 40)
    world.run(request, [5] * 40, 24)
    lease = world.pool.lease("full", request.pages, "test")
    world.cache.abort(request)
    free = world.pool.capacity("full")
    assert not world.cache.make_room({"full": free + 8})
    assert world.cache.stats().evictions == 0
    lease.release()
    assert world.cache.make_room({"full": free + 8})


def test_what_an_admission_needs_is_not_evicted_for_it() -> None:
    world = World(20)
    world.serve(A[:20])
    world.serve(fork(0, 1, 12))  # the prefix to hit is the oldest
    full = world.pool["full"]
    ballast = full.alloc(world.pool.capacity("full"))
    assert not world.pool.fits({"state": 1})
    request = world.cache.admit(A)
    assert request.cached == 20
    assert world.is_restored(request, A)
    assert world.cache.match(fork(0, 1)).length == 0
    world.cache.abort(request)
    full.free(ballast)
    assert world.cache.check() == []


def test_an_admission_that_fails_changes_nothing() -> None:
    world = World(16)
    world.serve(A[:20])
    ballast = world.pool["full"].alloc(world.pool.capacity("full"))
    before = world.state()
    with pytest.raises(pp.BufferExhausted):
        world.cache.admit(A)
    assert world.state() == before
    world.pool["full"].free(ballast)
    assert world.cache.admit(A).number == 1
    assert world.cache.check() == []


def test_a_prefix_is_skipped_where_no_checkpoint_is_to_be_had() -> None:
    world = World(60, apart=True, checkpoints=1)
    world.serve(A[:20])
    request, other = world.cache.admit(A), world.cache.admit([5])
    lock = world.states.lock(other.number, 1, "state")
    world.run(request, A, 32)
    assert not world.cache.keep(request, A[:32])
    assert (request.shared, world.cache.stats().skipped, world.cache.stats().evictions) == (5, 1, 0)
    assert world.cache.check()[0].name == "locks_are_those_of_running_requests"
    lock.release()
    assert world.cache.keep(request, A[:32])
    assert nodes(world) == [(32, True)]
    assert world.has_pages(request, A)
    assert world.cache.check() == []


def test_a_checkpoint_may_take_the_place_of_one_above() -> None:
    world = World(60, apart=True, checkpoints=1)
    request = world.cache.admit(A)
    for length in (8, 16, 24):
        world.run(request, A, length)
        assert world.cache.keep(request, A[:length])
        assert nodes(world) == [(length, True)]
        assert world.cache.check() == []
    assert world.cache.stats().evictions == 2


def test_the_heaps_do_not_grow_with_use(world: World) -> None:
    world.serve(A[:20])
    for _ in range(500):
        world.cache.abort(world.cache.admit(A))
    stock = world.cache._stock
    assert max(len(stock._oldest), len(stock._oldest_leaves)) < 100
    assert world.cache.check() == []
    assert world.cache.evict() == 1


def test_clear_leaves_an_empty_pool(world: World) -> None:
    for tail in (1, 2, 3):
        world.serve(fork(16, tail))
    request = world.cache.admit(A)
    refused(world, pp.PoolBusy, world.cache.clear)
    world.cache.abort(request)
    world.cache.clear()
    assert world.cache.stats().nodes == 0
    assert world.pool.stats().used_bytes == world.home.stats().used_bytes == 0
    assert world.cache.check() == []
    assert world.serve(A)


def test_a_cache_says_what_it_is(world: World) -> None:
    world.serve(A)
    request = world.cache.admit([*A, 1])
    assert repr(world.cache) == "StateCache('no_buffer', nodes=1, pages=10, checkpoints=1, requests=1)"
    assert repr(request) == "CachedRequest(1, cached=40, length=40, pages=10, shared=10, state=1)"
    world.cache.abort(request)
    assert repr(request).endswith(", state=None, ended)")


# --------------------------------------------------------------------------------------------------------------- checks


def without_a_node(cache: StateCache, request: CachedRequest) -> None:
    del cache._tree.nodes[1]


def with_a_page_twice(cache: StateCache, request: CachedRequest) -> None:
    request._pages = np.concatenate([request.pages, request.pages[-1:]])


DAMAGES: list[tuple[str, Any]] = [
    ("every_node_is_in_the_tree_once", without_a_node),
    ("a_node_has_whole_pages_of_tokens", lambda cache, request: setattr(request._node, "length", 21)),
    ("figures_are_counts", lambda cache, request: setattr(cache._tree, "idle_pages", 1)),
    ("figures_are_counts", lambda cache, request: setattr(cache._stock, "checkpoints", 1)),
    ("a_stamp_means_a_checkpoint", lambda cache, request: setattr(request._node, "stamp", 0)),
    ("the_order_of_eviction_is_total", lambda cache, request: setattr(request._node, "stamp", 99)),
    ("the_order_of_eviction_is_total", lambda cache, request: setattr(cache._stock, "clock", 1)),
    ("what_can_be_evicted_is_listed", lambda cache, request: cache._stock._oldest.clear()),
    ("what_can_be_evicted_is_listed", lambda cache, request: cache._stock._oldest_leaves.clear()),
    ("locks_are_those_of_running_requests", lambda cache, request: setattr(request._node, "pins", 7)),
    ("locks_are_those_of_running_requests", lambda cache, request: request._lock.release()),
    ("every_page_has_one_owner", with_a_page_twice),
    ("every_page_has_one_owner", lambda cache, request: cache.kv.free(request.pages[-1])),
    ("a_request_is_where_it_says", lambda cache, request: setattr(request, "length", 23)),
    ("a_request_is_where_it_says", lambda cache, request: setattr(request, "state", 2)),
    ("a_request_is_where_it_says", lambda cache, request: cache.states.advance(request.number, 1)),
    ("running_requests_are_listed", lambda cache, request: setattr(request, "is_live", False)),
]


@pytest.mark.parametrize(("claim", "damage"), DAMAGES, ids=[f"{n}-{name}" for n, (name, _) in enumerate(DAMAGES)])
def test_what_is_damaged_is_found(world: World, claim: str, damage: Any) -> None:
    world.serve(A[:20])
    world.serve(fork(0, 1, 12))
    request = world.cache.admit(A)
    world.run(request, A, 22)
    assert world.cache.check() == []
    damage(world.cache, request)
    assert claim in {violation.name for violation in world.cache.check()}


def test_a_page_that_nobody_owns_is_found(world: World) -> None:
    world.pool["full"].alloc(1)
    assert [str(each) for each in world.cache.check()] == [
        "I21 every_page_has_one_owner: 1 pages are live and nobody's: [1]"
    ]


def test_a_node_of_no_use_is_found(world: World) -> None:
    world.serve(A)
    tree = world.cache._tree
    leaf = tree.append(tree.nodes[1], np.arange(4), world.pool["full"].alloc(1))
    world.states.add_node(leaf.number, leaf.length)
    assert [each.name for each in world.cache.check()] == ["every_node_is_of_use"]


# ------------------------------------------------------------------------------------------------------------ at random


class Model:
    """The keys with a checkpoint, the least recently used first, and what running requests keep."""

    def __init__(self, apart: bool) -> None:
        self.keys: dict[tuple[int, ...], None] = {}
        self.kept: dict[int, tuple[int, ...]] = {}
        self.apart = apart

    def use(self, key: Sequence[int]) -> None:
        self.keys.pop(tuple(key), None)
        self.keys[tuple(key)] = None

    def restorable(self, tokens: Sequence[int], at_most: int | None) -> int:
        most = min(len(tokens) - 1, len(tokens) if at_most is None else at_most)
        return max((len(k) for k in self.keys if len(k) <= most and tuple(tokens[: len(k)]) == k), default=0)

    def evict(self, n: int, *, locked: Sequence[int] = (), for_pages: bool = False) -> None:
        for _ in range(n):
            held = [*self.keys, *self.kept.values()]
            idle = [k for k in self.keys if k != tuple(locked)]
            if for_pages and self.apart:
                idle = [k for k in idle if k not in self.kept.values()]
                idle = [k for k in idle if not any(len(o) > len(k) and o[: len(k)] == k for o in held)]
            del self.keys[idle[0]]

    def pages(self) -> int:
        held = [*self.keys, *self.kept.values()]
        return len({key[:end] for key in held for end in range(SIZE, len(key) + 1, SIZE)})


class Play:
    """Random operations on a world and the model beside it."""

    def __init__(self, seed: int, strategy: Strategy, apart: bool, shadow: bool = False) -> None:
        self.draw, self.strategy = random.Random(seed), strategy
        pages = 26 if apart else 40 if strategy == "no_buffer" else 35
        self.world = World(pages, strategy, apart=apart, slots=10, checkpoints=4, shadow=shadow)
        self.model, self.most = Model(apart), 6 if strategy == "no_buffer" else 4
        self.tokens: dict[int, list[int]] = {}
        self.live: list[CachedRequest] = []
        self.seen = {"hit": 0, "full": 0, "kept": 0, "skipped": 0}

    def some_tokens(self) -> list[int]:
        pages = [[b] * SIZE for b in self.draw.choices((1, 2), (5, 1), k=self.draw.randint(0, 7))]
        return [token for page in pages for token in page] + self.draw.choices((1, 2), k=self.draw.randint(1, SIZE))

    def evicted(self, call: Any, **how: Any) -> Any:
        """What a call returns, or None where there is no room; the model evicts as many as it has."""
        before = self.world.cache.stats().evictions
        try:
            found = call()
        except pp.BufferExhausted:
            self.seen["full"] += 1
            found = None
        self.model.evict(self.world.cache.stats().evictions - before, **how)
        return found

    def admit(self) -> None:
        tokens = self.some_tokens()
        at_most = self.draw.choice([None, None, self.draw.randint(0, 30)])
        key = tokens[: self.model.restorable(tokens, at_most)]
        request = self.evicted(lambda: self.world.cache.admit(tokens, at_most=at_most), locked=key)
        if request is None:
            return
        assert request.cached == len(key)
        assert self.world.is_restored(request, tokens)
        self.seen["hit"] += request.cached > 0
        if key:
            self.model.use(key)
        self.model.kept[request.number] = tuple(key)
        self.tokens[request.number] = tokens
        self.live.append(request)

    def run(self, request: CachedRequest) -> None:
        tokens = self.tokens[request.number]
        if request.length == len(tokens):
            tokens += self.some_tokens()
        length = self.draw.randint(request.length + 1, len(tokens))
        if self.draw.random() < 0.6:
            length = max(length // SIZE * SIZE, request.length + 1)
        room = self.evicted(lambda: self.world.cache.extend(request, length), for_pages=True)
        if room is not None:
            self.world.run(request, tokens, length, is_late=self.draw.random() < 0.5)

    def length_to_keep(self, request: CachedRequest) -> int:
        length = request.length if self.strategy == "no_buffer" else request.tracked
        return 0 if length % SIZE else length

    def keep(self, request: CachedRequest) -> None:
        length = self.length_to_keep(request)
        if length:
            key = self.tokens[request.number][:length]
            is_kept = self.evicted(lambda: self.world.cache.keep(request, key))
            self.check_kept(is_kept, key)
            if is_kept:
                self.model.kept[request.number] = tuple(key)
                assert request.shared == length // SIZE

    def check_kept(self, is_kept: bool, key: list[int]) -> None:
        self.seen["kept" if is_kept else "skipped"] += 1
        if is_kept:
            self.model.use(key)

    def finish(self, request: CachedRequest) -> None:
        tokens, length = self.tokens[request.number], self.length_to_keep(request)
        more = tokens[: self.draw.randint(request.length, len(tokens))] or tokens
        end = self.world.cache.finish if self.draw.random() < 0.7 else self.world.cache.retract
        before = self.world.cache.stats()
        is_kept = self.evicted(lambda: end(request, more))
        after = self.world.cache.stats()
        done = after.kept + after.deduplicated > before.kept + before.deduplicated
        assert is_kept in (None, done)
        if length:
            self.check_kept(done, tokens[:length])
        else:
            assert not done
        self.forget(request)

    def forget(self, request: CachedRequest) -> None:
        self.live.remove(request)
        del self.model.kept[request.number], self.tokens[request.number]

    def abort(self, request: CachedRequest) -> None:
        self.world.cache.abort(request)
        self.forget(request)

    def track(self, request: CachedRequest) -> None:
        if self.strategy == "extra_buffer" and request.length and request.length % SIZE == 0:
            self.world.cache.track(request)

    def make_room(self) -> None:
        cache, n = self.world.cache, self.draw.randint(1, 8)
        action = self.draw.random()
        if action < 0.3:
            self.evicted(lambda: cache.evict(self.draw.randint(1, 2)))
        elif action < 0.6 and self.model.apart:
            self.evicted(lambda: cache.make_room({"checkpoint": self.draw.randint(1, 2)}))
        else:
            demand = {"full": n} if self.model.apart else {"full": n, "state": self.draw.randint(0, 2)}
            room = self.evicted(lambda: cache.make_room(demand), for_pages=True)
            assert room == cache.pool.fits(demand)

    def step(self) -> None:
        one = self.draw.choice(self.live) if self.live else None
        action = self.draw.choices(
            [self.admit, self.run, self.keep, self.track, self.finish, self.abort, self.make_room, "compact"],
            [3 if len(self.live) < self.most else 0, 5, 3, 3, 2, 0.3, 0.3, 1],
        )[0]
        if self.draw.random() < 0.5:
            self.world.complete()
        if action == "compact":
            for pool in (self.world.pool, self.world.home):
                pool.compact(moves=self.draw.randint(1, 8))
        elif action in (self.admit, self.make_room):
            action()  # type: ignore[operator]
        elif one is not None:
            action(one)  # type: ignore[operator]

    def agree(self) -> None:
        cache, tokens = self.world.cache, self.some_tokens()
        assert cache.check() == []
        stats = cache.stats()
        assert (stats.checkpoints, stats.pages) == (len(self.model.keys), self.model.pages())
        assert stats.requests == len(self.live)
        assert cache.match(tokens).length == self.model.restorable(tokens, None)
        for request in self.live[-2:]:
            assert self.world.has_pages(request, self.tokens[request.number])


@pytest.mark.parametrize("apart", [False, True], ids=["together", "apart"])
@pytest.mark.parametrize("strategy", ["no_buffer", "extra_buffer"])
def test_it_is_a_dictionary_of_prefixes(strategy: Strategy, apart: bool) -> None:
    seed = 7
    print(f"seed {seed}")
    play = Play(seed, strategy, apart)
    for _ in range(1500):
        play.step()
        play.agree()
    stats = play.world.cache.stats()
    print(stats, play.seen)
    assert min(stats.hits, stats.evictions, stats.deduplicated, play.seen["kept"]) > 20
    assert min(stats.splits, stats.duplicate_pages, play.seen["full"]) > 1
    for request in list(play.live):
        play.abort(request)
    play.world.complete()
    play.world.cache.clear()
    assert play.world.pool.stats().used_bytes == play.world.home.stats().used_bytes == 0


def test_the_same_calls_end_the_same() -> None:
    plays = [Play(3, "no_buffer", False) for _ in range(2)]
    for play in plays:
        for _ in range(300):
            play.step()
    assert plays[0].world.state() == plays[1].world.state()


def test_a_cache_without_bytes() -> None:
    world = World(device="meta")
    for tail in (1, 2, 1):
        world.serve(fork(16, tail))
    assert world.cache.stats().hits == 0
    assert world.cache.admit([*fork(16, 1), 1]).cached == 40
    assert world.cache.check() == []


@pytest.mark.parametrize("apart", [False, True], ids=["together", "apart"])
@pytest.mark.parametrize("strategy", ["no_buffer", "extra_buffer"])
def test_the_spec_agrees(strategy: Strategy, apart: bool) -> None:
    play = Play(1, strategy, apart, shadow=True)
    for _ in range(60):
        play.step()
        play.agree()


def test_kernels_restore_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    world = World()
    world.serve(A[:20])
    assert world.is_restored(world.cache.admit(A), A)
