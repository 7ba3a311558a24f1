"""Calls of a checkpoint pool that no state allows: each with the errors that it may raise."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeAlias

from poolproof.checkpoint_errors import LifecycleError
from poolproof.checkpoint_pool import CheckpointPool
from poolproof.errors import InvalidHolder, WrongThread
from poolproof.fuzz.checkpoint_oracle import CheckpointOracle, Reasons
from poolproof.page_errors import InvalidPages, StepError

Misuse: TypeAlias = tuple[str, Reasons, Callable[[], Any]]

_TYPE: Reasons = (TypeError,)
_VALUE: Reasons = (ValueError,)


def misuses(pool: CheckpointPool, oracle: CheckpointOracle, draw: random.Random) -> list[Misuse]:
    """What can be called wrongly now."""
    found = [*_of_numbers(pool), *_of_nobody(pool, oracle), *_of_slots(pool, oracle), *_of_threads(pool, oracle)]
    if oracle.requests:
        found += _of_request(pool, draw.choice(list(oracle.requests)), oracle)
    return found


def _of_numbers(pool: CheckpointPool) -> Iterator[Misuse]:
    anything: Any = pool
    for name, more in (
        ("enqueue", ()),
        ("admit", ()),
        ("hit", (0,)),
        ("start", ()),
        ("advance", (1,)),
        ("add_tracks", ()),
        ("track", ()),
        ("give_back", ()),
        ("retract", ()),
        ("finish", ()),
        ("donate", ()),
        ("position", ()),
        ("slot_of", ()),
        ("lock", (0, "pages")),
        ("add_node", (1,)),
        ("remove_node", ()),
        ("evict", ()),
        ("checkpoint_of", ()),
        ("pins", ("state",)),
    ):
        for number, errors in ((-1, (InvalidHolder,)), ("1", _TYPE), (True, _TYPE), (1.0, _TYPE), (None, _TYPE)):
            yield f"{name}({number!r})", errors, partial(getattr(anything, name), number, *more)


def _of_nobody(pool: CheckpointPool, oracle: CheckpointOracle) -> Iterator[Misuse]:
    number = next(n for n in range(1000) if n not in oracle.requests)
    node = next(n for n in range(1000) if n not in oracle.nodes)
    for name in ("position", "slot_of", "finish", "retract", "give_back", "track"):
        yield f"{name} of no request", (LifecycleError,), partial(getattr(pool, name), number)
    for name in ("checkpoint_of", "evict", "remove_node"):
        yield f"{name} of no node", (LifecycleError,), partial(getattr(pool, name), node)
    yield "add_node of no tokens", _VALUE, partial(pool.add_node, node, 0)
    yield "add_node of -1 tokens", _VALUE, partial(pool.add_node, node, -1)
    yield "add_node of 1.5 tokens", _TYPE, partial(pool.add_node, node, 1.5)  # type: ignore[arg-type]


def _of_request(pool: CheckpointPool, number: int, oracle: CheckpointOracle) -> Iterator[Misuse]:
    anything: Any = pool
    yield "give_back of something", _VALUE, partial(anything.give_back, number, "slots")
    yield "donate of something", _VALUE, partial(anything.donate, number, "spare")
    if not oracle.reasons_advance(number):
        yield "advance by nothing", _VALUE, partial(pool.advance, number, 0)
        yield "advance by -1", _VALUE, partial(pool.advance, number, -1)
        yield "advance by 1.5", _TYPE, partial(anything.advance, number, 1.5)
    if not oracle.reasons_donate(number, "own"):
        yield "donate on no stream", _TYPE, partial(anything.donate, number, stream=float("nan"))
    for node in list(oracle.nodes)[:1]:
        yield "lock of something", _VALUE, partial(anything.lock, number, node, "checkpoint")
        yield "pins of something", _VALUE, partial(anything.pins, node, "checkpoint")


def _of_slots(pool: CheckpointPool, oracle: CheckpointOracle) -> Iterator[Misuse]:
    dead = (InvalidPages, StepError)
    actives, kept = [one.slot for one in oracle.actives], [one.slot for one in oracle.checkpoints]
    yield "store of more than there is place for", _VALUE, lambda: pool.store_from_active([1, 2], [1])
    yield "load of less than there is place for", _VALUE, lambda: pool.load_to_active([1], [1, 2])
    yield "store of no integer", _TYPE, lambda: pool.store_from_active(["1"], [1])  # type: ignore[list-item]
    yield "store into the sink", dead, lambda: pool.store_from_active(actives[:1] or [-1], [0])
    yield "load into nothing", dead, lambda: pool.load_to_active(kept[:1] or [-1], [pool.states.ids])
    if actives and kept:
        yield "store into one twice", dead, lambda: pool.store_from_active(actives[:1] * 2, kept[:1] * 2)
        yield "load into one twice", dead, lambda: pool.load_to_active(kept[:1] * 2, actives[:1] * 2)


def _of_threads(pool: CheckpointPool, oracle: CheckpointOracle) -> Iterator[Misuse]:
    wrong: Reasons = (WrongThread,)
    number = next(n for n in range(1000) if n not in oracle.requests)
    node = next(n for n in range(1000) if n not in oracle.nodes)
    yield "enqueue elsewhere", wrong, partial(_elsewhere, partial(pool.enqueue, number))
    yield "add_node elsewhere", wrong, partial(_elsewhere, partial(pool.add_node, node, 1))
    yield "store elsewhere", wrong, partial(_elsewhere, partial(pool.store_from_active, [], []))
    yield "load elsewhere", wrong, partial(_elsewhere, partial(pool.load_to_active, [], []))
    yield "clear elsewhere", wrong, partial(_elsewhere, pool.clear)
    for name in ("admit", "hit", "track", "donate", "finish"):
        for asker in list(oracle.requests)[:1]:
            more = (node,) if name == "hit" else ()
            yield f"{name} elsewhere", wrong, partial(_elsewhere, partial(getattr(pool, name), asker, *more))
    for gift in oracle.flying[:1]:
        yield "complete elsewhere", wrong, partial(_elsewhere, gift.handle.complete)


def _elsewhere(call: Callable[[], Any]) -> None:
    """A call in a thread of its own, which raises here what it raises there."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(call).result()
