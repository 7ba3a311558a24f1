"""What a state cache refuses: the type of the error, its numbers and remedy, and that everything is as it was."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from caches import KV, PAGE, SIZE, SLOT, STATES, World, refused

import poolproof as pp
from poolproof import Checkpoints, KVPages, Pages, StateSlots, UnifiedPool, WindowPages
from poolproof.cached_request import CachedRequest
from poolproof.checkpoint_errors import LifecycleError
from poolproof.checkpoint_pool import CheckpointPool
from poolproof.kernels import interpreter
from poolproof.state_cache import StateCache

A = list(range(100, 140))

NO_TOKENS: list[Any] = [
    ([], ValueError, "no tokens"),
    ([1, -1], ValueError, "token 1 is -1"),
    ([2**64], ValueError, "token 0 is"),
    (np.ones((2, 2), np.int64), ValueError, "1-D"),
    ([1.5], TypeError, "int"),
    ("12", TypeError, "integers"),
    (5, TypeError, "one number"),
    (None, TypeError, "int"),
]


@pytest.fixture(autouse=True)
def kernels_in_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not interpreted, which takes a hundred times as long."""
    monkeypatch.setattr(interpreter, "is_on", lambda: False)


@pytest.fixture(params=["no_buffer", "extra_buffer"])
def world(request: pytest.FixtureRequest) -> World:
    """A prefix of 20 tokens is cached."""
    world = World(strategy=request.param)
    first = world.cache.admit(A)
    world.run(first, A, 20)
    if request.param == "extra_buffer":
        world.cache.track(first)
    assert world.cache.finish(first, A[:20])
    return world


@pytest.fixture
def running(world: World) -> CachedRequest:
    """A request that stands at 24 tokens, which it could keep."""
    request = world.cache.admit(A)
    world.run(request, A, 24)
    if world.cache.strategy == "extra_buffer":
        world.cache.track(request)
    return request


def calls(world: World) -> dict[str, Callable[[Any], Any]]:
    """Every method that takes a request."""
    cache = world.cache
    return {
        "extend": lambda request: cache.extend(request, 30),
        "computed": lambda request: cache.computed(request, 24),
        "track": cache.track,
        "keep": lambda request: cache.keep(request, A[:24]),
        "finish": lambda request: cache.finish(request, A),
        "retract": lambda request: cache.retract(request, A),
        "abort": cache.abort,
    }


METHODS = ["extend", "computed", "track", "keep", "finish", "retract", "abort"]


# ------------------------------------------------------------------------------------------------------------- requests


@pytest.mark.parametrize("method", METHODS)
def test_a_request_that_has_ended(world: World, running: CachedRequest, method: str) -> None:
    world.cache.abort(running)
    error = refused(world, LifecycleError, lambda: calls(world)[method](running))
    assert "ended" in str(error)
    assert "Nothing was changed" in str(error)


@pytest.mark.parametrize("method", METHODS)
def test_a_request_of_another_cache(world: World, method: str) -> None:
    other = World().cache.admit(A)
    error = refused(world, LifecycleError, lambda: calls(world)[method](other))
    assert "another cache" in str(error)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("request_", [None, 0, "a"])
def test_what_is_no_request(world: World, method: str, request_: Any) -> None:
    refused(world, TypeError, lambda: calls(world)[method](request_))


@pytest.mark.parametrize("what", ["request", "cache"])
def test_handles_are_not_copied(world: World, running: CachedRequest, what: str) -> None:
    for make in (copy.copy, copy.deepcopy, pickle.dumps):
        refused(world, TypeError, lambda make=make: make(running if what == "request" else world.cache))


@pytest.mark.parametrize("method", ["extend", "keep", "abort", "admit", "evict", "clear", "make_room"])
def test_another_thread(world: World, running: CachedRequest, method: str) -> None:
    cache = world.cache
    one: dict[str, Callable[[], Any]] = {
        "admit": lambda: cache.admit(A),
        "evict": cache.evict,
        "clear": cache.clear,
        "make_room": lambda: cache.make_room({"full": 99}),
    }
    call = one.get(method, lambda: calls(world)[method](running))
    raised: list[BaseException] = []

    def elsewhere() -> None:
        try:
            call()
        except BaseException as error:
            raised.append(error)

    before = world.state()
    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert isinstance(raised[0], pp.WrongThread)
    assert world.state() == before


# --------------------------------------------------------------------------------------------------------------- tokens


@pytest.mark.parametrize(("tokens", "error", "why"), NO_TOKENS)
@pytest.mark.parametrize("method", ["admit", "try_admit", "match", "keep", "finish", "retract"])
def test_what_no_tokens_are(
    world: World, running: CachedRequest, method: str, tokens: Any, error: Any, why: str
) -> None:
    call = getattr(world.cache, method)
    if tokens is None and method == "retract":
        return  # nothing is kept then
    given = (tokens,) if method in ("admit", "try_admit", "match") else (running, tokens)
    assert why in str(refused(world, error, lambda: call(*given)))


@pytest.mark.parametrize("method", ["keep", "finish", "retract"])
@pytest.mark.parametrize("at", [0, 19, 20, 23])
def test_tokens_of_another_request(world: World, running: CachedRequest, method: str, at: int) -> None:
    tokens = A[:24]
    tokens[at] += 1
    error = refused(world, ValueError, lambda: getattr(world.cache, method)(running, tokens))
    assert f"token {at} is {A[at] + 1}" in str(error)


def test_tokens_that_are_known_since(world: World, running: CachedRequest) -> None:
    tokens = [*A, 1, 2, 3, 4]
    world.run(running, tokens, 44)
    if world.cache.strategy == "extra_buffer":
        world.cache.track(running)
    assert world.cache.keep(running, tokens)
    tokens[42] = 9
    error = refused(world, ValueError, lambda: world.cache.finish(running, tokens))
    assert "token 42 is 9" in str(error)


@pytest.mark.parametrize("n", [4, 20, 23, 25, 28, 40])
def test_a_length_that_the_state_is_not_at(world: World, running: CachedRequest, n: int) -> None:
    error = refused(world, ValueError, lambda: world.cache.keep(running, A[:n]))
    assert f"{n} tokens are given, the state to keep is at 24" in str(error)


def test_a_length_in_the_midst_of_a_page() -> None:
    world = World()
    request = world.cache.admit(A)
    world.run(request, A, 22)
    refused(world, ValueError, lambda: world.cache.keep(request, A[:22]))


@pytest.mark.parametrize("method", ["finish", "retract"])
def test_fewer_tokens_than_were_computed(world: World, running: CachedRequest, method: str) -> None:
    error = refused(world, ValueError, lambda: getattr(world.cache, method)(running, A[:23]))
    assert "23 tokens are given and 24 were computed" in str(error)


def test_there_is_nothing_to_keep(world: World) -> None:
    request = world.cache.admit([5, 6, 7, 8, 9])
    error = refused(world, LifecycleError, lambda: world.cache.keep(request, [5, 6, 7, 8]))
    assert "nothing" in str(error)


@pytest.mark.parametrize("at_most", [-1, 1.5, "1"])
def test_how_much_is_restored_at_most(world: World, at_most: Any) -> None:
    refused(world, (TypeError, ValueError), lambda: world.cache.admit(A, at_most=at_most))
    refused(world, (TypeError, ValueError), lambda: world.cache.match(A, at_most=at_most))


# -------------------------------------------------------------------------------------------------------------- lengths


@pytest.mark.parametrize("length", [23, 0, -1, 1.5, None])
def test_a_request_does_not_shrink(world: World, running: CachedRequest, length: Any) -> None:
    refused(world, (TypeError, ValueError), lambda: world.cache.extend(running, length))
    refused(world, (TypeError, ValueError), lambda: world.cache.computed(running, length))


def test_more_is_computed_than_there_are_pages(world: World, running: CachedRequest) -> None:
    error = refused(world, ValueError, lambda: world.cache.computed(running, 25))
    assert "24 tokens and has room for 24" in str(error)


def test_a_track_ends_at_a_whole_page() -> None:
    world = World(strategy="extra_buffer")
    request = world.cache.admit(A)
    refused(world, ValueError, lambda: world.cache.track(request))
    world.run(request, A, 22)
    error = refused(world, ValueError, lambda: world.cache.track(request))
    assert "at 22 tokens; only a state at whole pages of 4" in str(error)


def test_there_are_no_tracks_without_an_extra_buffer() -> None:
    world = World()
    request = world.cache.admit(A)
    world.run(request, A, 20)
    error = refused(world, LifecycleError, lambda: world.cache.track(request))
    assert "strategy='no_buffer'" in str(error)


# ---------------------------------------------------------------------------------------------------------------- steps


def test_an_open_step_stands_in_the_way(world: World, running: CachedRequest) -> None:
    step = world.pool.begin_step(writes={"state": running.state})
    for call in (
        lambda: world.cache.admit(A),
        lambda: world.cache.keep(running, A[:24]),
        lambda: world.cache.finish(running, A[:24]),
    ):
        refused(world, pp.StepError, call)
    world.cache.abort(running)  # it can always end
    assert world.cache.check() == []
    step.launched()
    step.complete()
    assert world.cache.admit(A).cached == 20


def test_a_state_that_nobody_has_written() -> None:
    world = World()
    request = world.cache.admit(A)
    world.cache.extend(request, 20)
    world.cache.computed(request, 20)
    refused(world, pp.StepError, lambda: world.cache.keep(request, A[:20]))
    refused(world, pp.StepError, lambda: world.cache.finish(request, A[:20]))
    world.cache.abort(request)
    assert world.pool.stats().used_bytes == 0


# ----------------------------------------------------------------------------------------------------------------- room


def test_demands(world: World) -> None:
    cache = world.cache
    for demand, error in (
        ({"else": 1}, KeyError),
        ({"full": -1}, ValueError),
        ({"full": 1.5}, TypeError),
        ([("full", 1)], TypeError),
        (None, TypeError),
    ):
        refused(world, error, lambda demand=demand: cache.make_room(demand))
    for nodes, error in ((-1, ValueError), (1.5, TypeError), (None, TypeError)):
        refused(world, error, lambda nodes=nodes: cache.evict(nodes))


def test_pages_that_can_never_be_had(world: World, running: CachedRequest) -> None:
    error = refused(world, pp.BufferExhausted, lambda: world.cache.extend(running, 100 * SIZE))
    assert (error.name, error.need) == ("full", 94)


# --------------------------------------------------------------------------------------------------------- construction


def pools(*more: Any, kv: Any = KV, states: Any = STATES, device: str = "cpu") -> tuple[UnifiedPool, CheckpointPool]:
    """A pool of KV pages, states and checkpoints."""
    pool = UnifiedPool(40 * PAGE, [kv, states, Checkpoints("checkpoint", of="state"), *more], device=device)
    return pool, CheckpointPool(pool["state"], pool["checkpoint"])


@pytest.mark.parametrize("kv", ["else", "state", "checkpoint", "window"])
def test_a_sub_pool_that_holds_no_tokens(kv: Any) -> None:
    window = WindowPages("window", grows="float", layers=1, kv_heads=1, head_dim=4, dtype="float32")
    pool, states = pools(window)
    with pytest.raises(pp.LayoutError, match="name a sub-pool of tokens that owns its ids: full"):
        StateCache(pool, states, kv=kv)


def test_a_pool_without_tokens() -> None:
    _, states = pools()
    other = UnifiedPool(40 * SLOT, [StateSlots(**{**vars(STATES), "grows": "up"})])
    with pytest.raises(pp.LayoutError, match="none: declare KVPages"):
        StateCache(other, states)


def test_states_of_another_pool() -> None:
    pool, _ = pools()
    _, others = pools()
    with pytest.raises(pp.LayoutError, match="the pool has states of its own, state"):
        StateCache(pool, others)


def test_states_on_another_device() -> None:
    _, states = pools()
    with pytest.raises(pp.LayoutError, match="the pool is on 'meta', the states on 'cpu'"):
        StateCache(UnifiedPool(40 * PAGE, [KV], device="meta"), states)


def test_pools_in_use() -> None:
    pool, states = pools()
    pages = pool["full"].alloc(2)
    with pytest.raises(pp.PoolBusy, match="2 pages of 'full' are live"):
        StateCache(pool, states)
    pool["full"].free(pages)
    states.enqueue(5)
    with pytest.raises(pp.PoolBusy, match="0 nodes and 1 requests"):
        StateCache(pool, states)
    states.finish(5)
    states.add_node(3, 8)
    with pytest.raises(pp.PoolBusy, match="1 nodes and 0 requests"):
        StateCache(pool, states)


@pytest.mark.parametrize(
    ("pool", "states", "more", "error"),
    [
        (None, "ours", {}, TypeError),
        ("ours", None, {}, TypeError),
        ("ours", "pool", {}, TypeError),
        ("ours", "ours", {"strategy": "lazy"}, ValueError),
        ("ours", "ours", {"strategy": None}, ValueError),
    ],
)
def test_what_no_cache_is_made_of(pool: Any, states: Any, more: Any, error: type[Exception]) -> None:
    ours, checkpoints = pools()
    given = {"ours": checkpoints, "pool": ours["state"], None: None}[states]
    with pytest.raises(error):
        StateCache(ours if pool else pool, given, **more)


@pytest.mark.parametrize(
    "kv",
    [
        Pages("full", grows="up", bytes=PAGE, page_size=SIZE),
        KVPages("full", layers=1, kv_heads=1, head_dim=4, dtype=torch.bfloat16, page_size=16),
    ],
)
def test_what_may_hold_the_tokens(kv: Any) -> None:
    pool, states = pools(kv=kv)
    cache = StateCache(pool, states)
    assert cache.page_size == kv.page_size
    assert cache.check() == []
