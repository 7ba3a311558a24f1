"""Calls of a state cache that the state does not allow: each with the errors that it may raise."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeAlias

from poolproof.cached_request import CachedRequest
from poolproof.checkpoint_errors import LifecycleError
from poolproof.fuzz.cache_oracle import CacheOracle, Running
from poolproof.fuzz.cache_world import World
from poolproof.page_errors import BufferExhausted, PoolBusy

Misuse: TypeAlias = tuple[str, tuple[type[Exception], ...], Callable[[], Any]]

_WRONG = (ValueError, TypeError)


def misuses(
    world: World, oracle: CacheOracle, live: dict[int, CachedRequest], ended: CachedRequest | None, draw: random.Random
) -> list[Misuse]:
    """What can be called wrongly now."""
    found = [*_of_cache(world), *([] if ended is None else _of_ended(world, ended))]
    if live:
        request = live[draw.choice(list(live))]
        found += _of_request(world, oracle, request, oracle.running[request.number], draw)
        found.append(("clear", (PoolBusy,), world.cache.clear))
    return found


def _of_cache(world: World) -> Iterator[Misuse]:
    cache = world.cache
    for tokens in ([], [1, -1], [2**63], [[1]], "12", 5):
        yield f"admit({tokens!r})", _WRONG, partial(cache.admit, tokens)  # type: ignore[arg-type]
    yield "admit at most -1", _WRONG, lambda: cache.admit([1, 2], at_most=-1)
    yield "make_room of nothing known", (KeyError,), lambda: cache.make_room({cache.kv.name: 1, "nowhere": 1})
    yield "make_room(-1)", _WRONG, lambda: cache.make_room({cache.kv.name: -1})
    yield "evict(-1)", _WRONG, lambda: cache.evict(-1)
    for node in list(cache._tree.nodes.values())[:2]:
        if node.stamp:
            yield "remove_node with a checkpoint", (LifecycleError,), partial(world.states.remove_node, node.number)
    states, cached, held = world.states, list(world.states._nodes)[:1], list(world.states._holders)[:1]
    if cached and held:
        yield "store over a checkpoint", (LifecycleError,), lambda: states.store_from_active(held, cached)
        yield "load over a state", (LifecycleError,), lambda: states.load_to_active(cached, held)
        yield "free the sink", (ValueError,), lambda: states.checkpoints.free([*cached, 0])


def _of_ended(world: World, ended: CachedRequest) -> Iterator[Misuse]:
    cache = world.cache
    for name, call in (
        ("extend", lambda: cache.extend(ended, 9)),
        ("computed", lambda: cache.computed(ended, 9)),
        ("track", lambda: cache.track(ended)),
        ("keep", lambda: cache.keep(ended, [1])),
        ("finish", lambda: cache.finish(ended, [1])),
        ("retract", lambda: cache.retract(ended)),
        ("abort", lambda: cache.abort(ended)),
    ):
        yield f"{name} of a request that has ended", (LifecycleError,), call


def _of_request(
    world: World, oracle: CacheOracle, request: CachedRequest, running: Running, draw: random.Random
) -> Iterator[Misuse]:
    cache, size, tokens = world.cache, world.cache.page_size, running.tokens
    _, length = oracle.donor(running)
    yield "extend to too much", (BufferExhausted,), lambda: cache.extend(request, 10**6 * size)
    yield "computed beyond its pages", _WRONG, lambda: cache.computed(request, len(request.pages) * size + 1)
    if running.length:
        yield "extend to less", _WRONG, lambda: cache.extend(request, running.length - 1)
        yield "computed less", _WRONG, lambda: cache.computed(request, running.length - 1)
        if running.length > 1:
            yield "finish with too few tokens", _WRONG, lambda: cache.finish(request, tokens[: running.length - 1])
    at = draw.randrange(len(request._known))
    other = [*tokens[:at], tokens[at] + 1, *tokens[at + 1 :]]
    yield "finish with other tokens", _WRONG, lambda: cache.finish(request, other)
    if at < length:
        yield "keep of other tokens", _WRONG, lambda: cache.keep(request, other[:length])
    error = LifecycleError if not length else ValueError
    yield "keep of another length", (error,), lambda: cache.keep(request, [*tokens[:length], tokens[0]])
    if length % size:
        yield "keep in the midst of a page", (ValueError,), lambda: cache.keep(request, tokens[:length])
    if oracle.strategy == "no_buffer":
        yield "track without buffers", (LifecycleError,), lambda: cache.track(request)
    elif not running.length or running.length % size:
        yield "track in the midst of a page", (ValueError,), lambda: cache.track(request)
    yield "hit of a running request", (LifecycleError,), lambda: world.states.hit(request.number, 10**6)
