"""Copies as steps of the pools below: who may begin them, what they wait for, and when they are over."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import Any

import pytest
from checkpoint_pools import cached, lifecycle, refused, running, whole

from poolproof import LeaseError, PoolBroken, PoolBusy, WrongThread
from poolproof.checkpoint_pool import CheckpointPool
from poolproof.kernels import interpreter
from poolproof.page_errors import StepError

SHADOW = pytest.mark.parametrize("shadow", [True, False])
KIND = pytest.mark.parametrize("kind", ["one", "two"])


@pytest.fixture(autouse=True)
def kernels_in_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not interpreted, which takes a hundred times as long."""
    monkeypatch.setattr(interpreter, "is_on", lambda: False)


class Decides:
    """A device that decides when work of the pools' own is over; it does it at once."""

    is_immediate = False

    def place(self, stream: Any) -> Any:
        return stream

    def begun(self, step: Any) -> None:
        """Nothing to be noted."""

    def run(self, step: Any, work: Callable[[], None]) -> None:
        work()

    def wait(self, stream: Any, other: Any) -> None:
        """Nothing to wait for."""

    def launched(self, step: Any) -> None:
        """Nothing to be noted."""

    def completed(self, step: Any) -> None:
        """Nothing to be noted."""

    def mark(self) -> None:
        """Nothing to be marked."""

    def join(self) -> None:
        """Nothing to wait for."""

    def is_capturing(self) -> bool:
        return False


def copies(pool: CheckpointPool) -> dict[str, Callable[[], Any]]:
    """Every call that copies: request 1 runs with track buffers, request 2 waits with a lock on node 7."""
    running(pool, 1, 16)
    pool.add_tracks(1)
    cached(pool)
    pool.enqueue(2)
    pool.lock(2, 7, "state")
    free, active = pool.checkpoints.alloc(1), pool.states.alloc(1)
    return {
        "track": lambda: pool.track(1),
        "donate": lambda: pool.donate(1),
        "hit": lambda: pool.hit(2, 7),
        "store": lambda: pool.store_from_active(pool.slot_of(1) or 0, free),
        "load": lambda: pool.load_to_active(pool.checkpoint_of(7) or 0, active),
    }


@SHADOW
@KIND
def test_copies_are_the_driving_threads(kind: str, shadow: bool) -> None:
    pool = lifecycle(kind, 9000, shadow=shadow)
    calls = copies(pool)
    before = whole(pool)
    for name, call in calls.items():
        found: list[BaseException] = []

        def run(call: Callable[[], Any] = call, found: list[BaseException] = found) -> None:
            with pytest.raises(WrongThread) as raised:
                call()
            found.append(raised.value)

        thread = Thread(target=run)
        thread.start()
        thread.join()
        assert found, name
    assert whole(pool) == before
    for call in calls.values():
        call()


@SHADOW
@KIND
@pytest.mark.parametrize("end", ["states", "checkpoints"])
def test_a_broken_pool_copies_nothing(end: str, kind: str, shadow: bool) -> None:
    pool = lifecycle(kind, 9000, shadow=shadow)
    calls, before = copies(pool), whole(pool)
    below = getattr(pool, end)._pool
    below._broken = OSError("a kernel was lost")
    for name, call in calls.items():
        with pytest.raises(PoolBroken):
            call()
        assert whole(pool) == before, name


@SHADOW
def test_in_a_graph_that_is_captured_nothing_is_copied(shadow: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = lifecycle(total=9000, shadow=shadow)
    calls, before = copies(pool), whole(pool)
    events = pool.states._pool._events
    with monkeypatch.context() as patched:
        patched.setattr(type(events), "is_capturing", lambda _: True)
        for call in calls.values():
            with pytest.raises(PoolBusy):
                call()
    assert whole(pool) == before


@SHADOW
@KIND
def test_a_failed_copy_holds_up_nobody(kind: str, shadow: bool) -> None:
    """It is on another stream, behind an engine's step at home, and that engine goes on on both streams."""
    pool = lifecycle(kind, shadow=shadow)
    below, slot = pool.states._pool, running(pool, 1, 4)
    at_home = below.begin_step(writes={"state": slot})
    at_home.launched()
    good = pool._bytes._store

    def fail(*_: Any) -> None:
        raise OSError("no such kernel")

    pool._bytes._store = fail
    with pytest.raises(OSError, match="no such kernel"):
        pool.donate(1, stream="aside")
    pool._bytes._store = good
    behind = below.begin_step(reads={"state": slot}, stream="aside")
    behind.launched()
    refused(pool, StepError, behind.complete, "complete that first")
    at_home.complete()
    behind.complete()
    assert below.stats().steps == pool.checkpoints._pool.stats().steps == 0
    assert pool.stats().checkpoints_pending == 0
    assert pool.check() == []


@SHADOW
def test_a_checkpoint_is_leased_when_what_comes_before_it_is_over(shadow: bool) -> None:
    pool = lifecycle(shadow=shadow)
    below, slot = pool.states._pool, running(pool, 1, 4)
    before = below.begin_step(reads={"state": slot})
    before.launched()
    donation = pool.donate(1)  # at home, behind a step that is in flight
    assert donation is not None
    with pytest.raises(LeaseError, match="a step in flight writes"):
        below.lease("checkpoint", donation.checkpoint, "rdma")
    later = below.begin_step()
    later.launched()
    before.complete()
    lease = below.lease("checkpoint", donation.checkpoint, "rdma")
    lease.release()
    later.complete()
    assert below._copied == []
    assert pool.check() == []


@SHADOW
def test_steps_of_copies_do_not_pile_up(shadow: bool) -> None:
    """No engine ever has a step in the buffer of the checkpoints."""
    pool = lifecycle("two", events=Decides(), shadow=shadow)
    running(pool, 1, 4)
    for _ in range(20):
        donation = pool.donate(1)
        assert donation is not None
        donation.drop()
        step = pool.states._pool.begin_step()
        step.launched()
        step.complete()
        step.retire()
        assert pool.states._pool.stats().steps == 0
        assert pool.checkpoints._pool.stats().steps <= 1
    assert pool.check() == []


@SHADOW
def test_a_copy_is_completed_in_both_pools_or_in_neither(shadow: bool) -> None:
    pool = lifecycle("two", shadow=shadow)
    running(pool, 1, 4)
    donation = pool.donate(1, stream="aside")
    assert donation is not None
    other, before = pool.checkpoints._pool, whole(pool)
    other._broken = OSError("a kernel was lost")
    with pytest.raises(PoolBroken):
        donation.complete()
    assert whole(pool) == before
    other._broken = None
    donation.complete()
    assert pool.check() == []
