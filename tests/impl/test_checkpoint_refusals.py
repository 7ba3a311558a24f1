"""What a checkpoint pool refuses: by which error, and that nothing has changed then, in it and in the pools below."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from checkpoint_pools import KINDS, buffer, cached, compute, declared, fill, lifecycle, refused, running, whole

import poolproof as pp
from poolproof import (
    BufferExhausted,
    Checkpoints,
    InvalidHolder,
    InvalidPages,
    LayoutError,
    Pages,
    PoolError,
    StepError,
    UnifiedPool,
    WrongThread,
)
from poolproof.checkpoint_errors import LifecycleError, LockError
from poolproof.checkpoint_pool import CheckpointPool
from poolproof.kernels import interpreter

ASIDE = "aside"
Call = Callable[[CheckpointPool], Any]


@pytest.fixture(autouse=True)
def kernels_in_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not interpreted, which takes a hundred times as long."""
    monkeypatch.setattr(interpreter, "is_on", lambda: False)


def scene(kind: str = "one") -> CheckpointPool:
    """Request 1 runs at 16 tokens, 2 waits on a slot, 3 waits without; nodes 7 with a checkpoint and 8 without."""
    pool = lifecycle(kind)
    cached(pool, 7, 16)
    pool.add_node(8, 8)
    running(pool, 1, 16)
    pool.enqueue(2)
    pool.admit(2)
    pool.enqueue(3)
    return pool


# ------------------------------------------------------------------------------------------------------------ numbers


NUMBERS: list[tuple[Any, type[Exception]]] = [
    (-1, InvalidHolder),
    (True, TypeError),
    (1.0, TypeError),
    ("1", TypeError),
    (None, TypeError),
]
OF_REQUESTS: dict[str, Callable[[CheckpointPool, Any], Any]] = {
    "enqueue": lambda pool, r: pool.enqueue(r),
    "admit": lambda pool, r: pool.admit(r),
    "hit": lambda pool, r: pool.hit(r, 7),
    "start": lambda pool, r: pool.start(r),
    "advance": lambda pool, r: pool.advance(r, 1),
    "add_tracks": lambda pool, r: pool.add_tracks(r),
    "track": lambda pool, r: pool.track(r),
    "donate": lambda pool, r: pool.donate(r),
    "give_back": lambda pool, r: pool.give_back(r),
    "retract": lambda pool, r: pool.retract(r),
    "finish": lambda pool, r: pool.finish(r),
    "lock": lambda pool, r: pool.lock(r, 7, "pages"),
    "position": lambda pool, r: pool.position(r),
    "slot_of": lambda pool, r: pool.slot_of(r),
}
OF_NODES: dict[str, Callable[[CheckpointPool, Any], Any]] = {
    "add_node": lambda pool, n: pool.add_node(n, 4),
    "remove_node": lambda pool, n: pool.remove_node(n),
    "hit": lambda pool, n: pool.hit(3, n),
    "lock": lambda pool, n: pool.lock(1, n, "state"),
    "evict": lambda pool, n: pool.evict(n),
    "checkpoint_of": lambda pool, n: pool.checkpoint_of(n),
    "pins": lambda pool, n: pool.pins(n, "state"),
    "publish": lambda pool, n: _donated(pool).publish(n),
}


def _donated(pool: CheckpointPool) -> Any:
    """The donation that request 1 has under way."""
    return next(iter(pool._tenants[1].donations.values()))


@pytest.mark.parametrize("operation", OF_REQUESTS)
def test_requests_are_numbered_by_ints_from_zero(operation: str) -> None:
    pool = scene()
    for number, error in NUMBERS:
        refused(pool, error, lambda number=number: OF_REQUESTS[operation](pool, number))
    if operation != "enqueue":
        refused(pool, LifecycleError, lambda: OF_REQUESTS[operation](pool, 99), "there is no request 99")


@pytest.mark.parametrize("operation", OF_NODES)
def test_nodes_are_numbered_by_ints_from_zero(operation: str) -> None:
    pool = scene()
    assert pool.donate(1) is not None
    for number, error in NUMBERS:
        refused(pool, error, lambda number=number: OF_NODES[operation](pool, number))
    if operation != "add_node":
        refused(pool, LifecycleError, lambda: OF_NODES[operation](pool, 99), "there is no node 99")


@pytest.mark.parametrize(("tokens", "error"), [(0, ValueError), (-1, ValueError), (True, TypeError), (1.5, TypeError)])
def test_tokens_are_counted_by_ints_from_one(tokens: Any, error: type[Exception]) -> None:
    pool = scene()
    refused(pool, error, lambda: pool.advance(1, tokens))
    refused(pool, error, lambda: pool.add_node(9, tokens))


def test_numbers_of_numpy_are_kept_as_ints() -> None:
    pool = lifecycle()
    pool.enqueue(np.int64(1))
    pool.admit(np.int32(1))
    pool.start(np.int64(1))
    fill(pool, pool.slot_of(1) or 0, 1)
    pool.advance(np.int64(1), np.int64(4))
    pool.add_node(np.int64(7), np.int64(4))
    lock = pool.lock(np.int64(1), np.int64(7), "state")
    donation = pool.donate(np.int64(1))
    assert donation is not None
    donation.publish(np.int64(7))
    lock.release()
    numbers = [*pool._holders.values(), *pool._positions.values(), *pool._nodes.values(), *pool._tenants, *pool._places]
    assert {type(number) for number in [*numbers, donation.request, donation.length, lock.node]} == {int}
    assert pool.check() == []


# -------------------------------------------------------------------------------------------------------------- phases


PHASES: dict[str, tuple[Call, str]] = {
    "a second request of a number": (lambda pool: pool.enqueue(1), "already"),
    "admit one that runs": (lambda pool: pool.admit(1), "request 1 runs on slot"),
    "admit one that has a slot": (lambda pool: pool.admit(2), "request 2 waits on slot"),
    "hit by one that runs": (lambda pool: pool.hit(1, 7), "request 1 runs on slot"),
    "hit by one that has a slot": (lambda pool: pool.hit(2, 7), "request 2 waits on slot"),
    "start one that runs": (lambda pool: pool.start(1), "request 1 runs"),
    "start one without a slot": (lambda pool: pool.start(3), "request 3 waits without a slot"),
    "advance one that waits": (lambda pool: pool.advance(2, 1), "request 2 waits on slot"),
    "tracks for one that waits": (lambda pool: pool.add_tracks(2), "request 2 waits"),
    "track without buffers": (lambda pool: pool.track(1), "no track buffers"),
    "track of one that waits": (lambda pool: pool.track(2), "request 2 waits"),
    "donate before anything was computed": (lambda pool: pool.donate(2), "has seen no token"),
    "donate without a slot": (lambda pool: pool.donate(3), "no slot of its own"),
    "donate a track without buffers": (lambda pool: pool.donate(1, "track"), "no track buffers"),
    "retract one that waits": (lambda pool: pool.retract(2), "request 2 waits"),
    "position without a slot": (lambda pool: pool.position(3), "no slot of its own"),
    "a second node of a number": (lambda pool: pool.add_node(7, 4), "is there already"),
    "remove a node with a checkpoint": (lambda pool: pool.remove_node(7), "has the checkpoint"),
    "evict nothing": (lambda pool: pool.evict(8), "has no checkpoint"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("what", PHASES)
def test_what_is_in_another_phase_is_refused(what: str, kind: str) -> None:
    pool = scene(kind)
    call, text = PHASES[what]
    error = refused(pool, LifecycleError, lambda: call(pool), text)
    assert isinstance(error, PoolError)
    assert str(error).endswith("Nothing was changed.")


def test_tracks_are_added_once_and_copied_after_something_was_computed() -> None:
    pool = lifecycle()
    running(pool, 1)
    pool.add_tracks(1)
    refused(pool, LifecycleError, lambda: pool.add_tracks(1), "with the track buffers")
    refused(pool, LifecycleError, lambda: pool.track(1), "has seen no token")
    compute(pool, 1, 4)
    refused(pool, LifecycleError, lambda: pool.donate(1, "track"), "has seen no token")
    pool.give_back(1, "own")
    refused(pool, LifecycleError, lambda: pool.track(1), "runs without a slot")
    refused(pool, LifecycleError, lambda: pool.donate(1), "no slot of its own")


def test_a_state_that_nobody_wrote_is_not_copied() -> None:
    pool = lifecycle()
    running(pool, 1)
    pool.add_tracks(1)
    pool.advance(1, 4)
    refused(pool, StepError, lambda: pool.donate(1), "nobody has written")
    refused(pool, StepError, lambda: pool.track(1), "nobody has written")


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda pool: pool.lock(1, 7, "all"), "scope is 'all'"),
        (lambda pool: pool.pins(7, "all"), "scope is 'all'"),
        (lambda pool: pool.donate(1, "mine"), "source is 'mine'"),
        (lambda pool: pool.give_back(1, "some"), "what is 'some'"),
    ],
)
def test_words_that_mean_nothing_are_refused(call: Call, text: str) -> None:
    pool = scene()
    refused(pool, ValueError, lambda: call(pool), text)


# ----------------------------------------------------------------------------------------------- locks and donations


def test_a_hit_needs_a_lock_of_its_request_on_its_node_with_scope_state() -> None:
    pool = scene()
    cached(pool, 9, 4, request=91)
    pool.lock(3, 7, "pages")
    pool.lock(3, 9, "state")
    pool.lock(1, 7, "state")
    refused(pool, LockError, lambda: pool.hit(3, 7), "holds no lock of scope 'state' on node 7")
    lock = pool.lock(3, 7, "state")
    lock.release()
    refused(pool, LockError, lambda: pool.hit(3, 7))
    pool.lock(3, 8, "state")
    refused(pool, LifecycleError, lambda: pool.hit(3, 8), "has no checkpoint")


def test_a_lock_is_released_once() -> None:
    pool = scene()
    lock, ended = pool.lock(1, 7, "state"), pool.lock(2, 7, "pages")
    lock.release()
    refused(pool, LockError, lock.release, "was released before")
    pool.finish(2)
    refused(pool, LockError, ended.release, "was released before")
    with pool.lock(1, 7, "state") as inner:
        inner.release()
    assert pool.pins(7, "state") == 0


def test_a_locked_checkpoint_is_not_evicted_nor_a_locked_node_removed() -> None:
    pool = scene()
    state, pages = pool.lock(1, 7, "state"), pool.lock(1, 8, "pages")
    refused(pool, LockError, lambda: pool.evict(7), "release those first")
    refused(pool, LockError, lambda: pool.remove_node(8), "release those first")
    state.release()
    pages.release()
    pool.evict(7)
    pool.remove_node(8)


def test_a_donation_is_published_on_a_free_node_of_just_its_length() -> None:
    pool = scene()
    donation = pool.donate(1)
    assert donation is not None
    refused(pool, LifecycleError, lambda: donation.publish(7), "has the checkpoint")
    refused(pool, LifecycleError, lambda: donation.publish(8), "a key of 8 tokens, the state 16")
    pool.add_node(9, 17)
    refused(pool, LifecycleError, lambda: donation.publish(9), "a key of 17 tokens, the state 16")
    refused(pool, LifecycleError, donation.complete, "at home never")
    pool.add_node(10, 16)
    donation.publish(10)
    refused(pool, LifecycleError, lambda: donation.publish(10), "publish it once")
    refused(pool, LifecycleError, donation.drop, "not after it was published")


def test_a_donation_ends_with_its_request() -> None:
    pool = scene()
    donation = pool.donate(1)
    assert donation is not None
    pool.finish(1)
    pool.add_node(9, 16)
    refused(pool, LifecycleError, lambda: donation.publish(9), "publish it once")
    refused(pool, LifecycleError, donation.drop, "drop it once")


@pytest.mark.parametrize("stream", [float("nan"), object])
def test_streams_can_be_compared(stream: Any) -> None:
    class Odd:
        def __eq__(self, other: object) -> bool:
            raise ValueError("no")

        __hash__ = None  # type: ignore[assignment]

    pool = scene()
    bad = Odd() if stream is object else stream
    refused(pool, TypeError, lambda: pool.donate(1, stream=bad), "stream")
    ids = pool.states.alloc(1), pool.checkpoints.alloc(1)
    before = whole(pool)
    for call in (pool.store_from_active, lambda a, c, stream: pool.load_to_active(c, a, stream)):
        with pytest.raises(TypeError, match="stream"):
            call(*ids, stream=bad)
    assert whole(pool) == before


def test_while_a_step_is_open_nothing_is_copied() -> None:
    pool = scene()
    below = pool.states._pool
    pool.lock(3, 7, "state")
    for stream, call in ((None, lambda: pool.hit(3, 7)), (ASIDE, lambda: pool.donate(1, stream=ASIDE))):
        step = below.begin_step(stream=stream)
        refused(pool, StepError, call, "launch it before slots are copied")
        step.launched()
        step.complete()
        step.retire()
    pool.hit(3, 7)


# ------------------------------------------------------------------------------------------------------- bytes only


def unowned(pool: CheckpointPool, error: type[Exception], call: Callable[[], Any], match: str | None = None) -> None:
    """As `refused`, for a pool with slots that nobody in it owns."""
    before = whole(pool)
    with pytest.raises(error, match=match):
        call()
    assert whole(pool) == before


@pytest.mark.parametrize("kind", KINDS)
def test_slots_that_are_free_or_of_the_other_pool_are_refused(kind: str) -> None:
    pool = scene(kind)
    own = pool.slot_of(1)
    assert own is not None
    active, checkpoint = pool.states.alloc(1).item(), pool.checkpoints.alloc(1).item()
    far = max(pool.states.ids, pool.checkpoints.ids)
    pool.store_from_active(own, checkpoint)
    for bad in (0, -1, far, active + 1):
        unowned(pool, InvalidPages, lambda bad=bad: pool.store_from_active(bad, checkpoint))
        unowned(pool, InvalidPages, lambda bad=bad: pool.load_to_active(checkpoint, bad))
    for bad in (0, -1, far, checkpoint + 1):
        unowned(pool, InvalidPages, lambda bad=bad: pool.store_from_active(own, bad))
        unowned(pool, InvalidPages, lambda bad=bad: pool.load_to_active(bad, active))
    unowned(pool, InvalidPages, lambda: pool.store_from_active([own, own], [checkpoint, checkpoint]))
    unowned(pool, ValueError, lambda: pool.store_from_active([own], [checkpoint, checkpoint]), "as many of either")
    unowned(pool, StepError, lambda: pool.store_from_active(active, checkpoint), "nobody has written")
    for odd in (True, 1.5, "1"):
        unowned(pool, TypeError, lambda odd=odd: pool.store_from_active(odd, checkpoint))
        unowned(pool, TypeError, lambda odd=odd: pool.load_to_active(checkpoint, odd))


def test_what_is_cached_is_not_written_and_a_requests_slot_not_loaded() -> None:
    pool = scene()
    own, found = pool.slot_of(1), pool.checkpoint_of(7)
    assert own is not None
    assert found is not None
    refused(pool, LifecycleError, lambda: pool.store_from_active(own, found), "is node 7's, and is not written again")
    refused(pool, LifecycleError, lambda: pool.load_to_active(found, own), "is request 1's; use `hit`")
    donation = pool.donate(1, stream=ASIDE)
    assert donation is not None
    there = donation.checkpoint
    refused(pool, LifecycleError, lambda: pool.store_from_active(own, there), r"that of Donation\(request 1")
    active = pool.states.alloc(1).item()
    unowned(pool, LifecycleError, lambda: pool.load_to_active(there, active), "complete it first")
    donation.complete()
    pool.load_to_active(there, active)
    pool.states.free(active)
    assert pool.check() == []


# --------------------------------------------------------------------------------------------------- what goes together


WRONG: dict[str, dict[str, Any]] = {
    "layers": {"layers": 3},
    "heads": {"temporal_shape": (3, 4, 8)},
    "rows": {"temporal_shape": (2, 5, 8)},
    "channels": {"temporal_shape": (2, 4, 9)},
    "temporal dtype": {"temporal_dtype": "float16"},
    "conv dtype": {"conv_dtype": "float32"},
    "conv shapes": {"conv_shapes": [(2, 1), (3, 2)]},
    "conv windows": {"conv_shapes": [(3, 2)]},
}


@pytest.mark.parametrize("what", WRONG)
def test_checkpoints_of_other_states_are_refused(what: str) -> None:
    here, there = buffer(), buffer(states=declared(**WRONG[what]))
    before = here.snapshot(), there.snapshot()
    with pytest.raises(LayoutError, match="declare Checkpoints"):
        CheckpointPool(here["state"], there["checkpoint"])
    assert (here.snapshot(), there.snapshot()) == before


def test_sub_pools_of_other_kinds_are_refused() -> None:
    pool = buffer()
    plain = UnifiedPool(
        4000, [declared(), Checkpoints("checkpoint", bytes=100), Pages("pages", bytes=8, grows="up")], shadow=True
    )
    for states, checkpoints, text in (
        (pool["full"], pool["checkpoint"], "kind 'kv'"),
        (pool["checkpoint"], pool["checkpoint"], "kind 'checkpoint'"),
        (pool["state"], pool["full"], "kind 'kv'"),
        (pool["state"], pool["state"], "kind 'state'"),
        (plain["state"], plain["checkpoint"], "plain bytes"),
    ):
        with pytest.raises(LayoutError, match=text):
            CheckpointPool(states, checkpoints)
    for bad in (pool, None, "state"):
        with pytest.raises(TypeError, match="must be a sub-pool"):
            CheckpointPool(bad, pool["checkpoint"])  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="must be a sub-pool"):
            CheckpointPool(pool["state"], bad)  # type: ignore[arg-type]


def test_windows_of_a_dtype_that_is_not_copied_are_refused() -> None:
    pool = buffer(states=declared(conv_dtype="float8_e4m3fn"))
    with pytest.raises(LayoutError, match="slots are copied of"):
        CheckpointPool(pool["state"], pool["checkpoint"])


# ---------------------------------------------------------------------------------------------------------- who may ask


def test_the_thread_of_the_first_operation_drives_the_pool() -> None:
    pool = scene("two")
    lock, donation = pool.lock(1, 7, "pages"), pool.donate(1, stream=ASIDE)
    assert donation is not None
    calls: list[Callable[[], Any]] = [
        lambda: pool.enqueue(5),
        lambda: pool.admit(3),
        lambda: pool.start(2),
        lambda: pool.advance(1, 1),
        lambda: pool.add_tracks(1),
        lambda: pool.donate(1),
        lambda: pool.finish(1),
        lambda: pool.retract(1),
        lambda: pool.give_back(1),
        lambda: pool.add_node(50, 1),
        lambda: pool.remove_node(8),
        lambda: pool.evict(7),
        lambda: pool.lock(1, 7, "pages"),
        lock.release,
        donation.complete,
        donation.drop,
        pool.clear,
    ]
    before, errors = whole(pool), []

    def others() -> None:
        for call in calls:
            with pytest.raises(WrongThread) as raised:
                call()
            errors.append(raised.value)

    thread = threading.Thread(target=others)
    thread.start()
    thread.join()
    assert len(errors) == len(calls)
    assert whole(pool) == before
    assert pool.check() == []


def test_errors_say_that_nothing_was_changed() -> None:
    pool = scene()
    pool.lock(1, 7, "state")
    for call in (lambda: pool.evict(7), lambda: pool.hit(3, 7), lambda: pool.admit(1)):
        with pytest.raises(PoolError, match="Nothing was changed"):
            call()
    assert issubclass(LockError, LifecycleError)
    assert issubclass(LifecycleError, pp.PoolError)
    assert not issubclass(LifecycleError, BufferExhausted)
