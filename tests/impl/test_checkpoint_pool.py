"""What a checkpoint pool does when nothing is wrong: requests, donations, nodes and locks, and what `check` reports."""

from __future__ import annotations

import copy
import pickle
import random
from collections.abc import Callable
from typing import Any

import pytest
from checkpoint_pools import KINDS, buffer, cached, compute, lifecycle, refused, running, whole

from poolproof import BufferExhausted
from poolproof.checkpoint_check import OWN_CLAIMS, SPEC_CLAIMS
from poolproof.checkpoint_errors import LifecycleError, LockError
from poolproof.checkpoint_owners import DonationPhase, Tenant
from poolproof.checkpoint_pool import CheckpointPool
from poolproof.kernels import interpreter
from poolproof.page_errors import StepError
from poolproof.spec.checkpoint import SPEC

ASIDE = "aside"


@pytest.fixture(autouse=True)
def kernels_in_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not interpreted, which takes a hundred times as long."""
    monkeypatch.setattr(interpreter, "is_on", lambda: False)


def active(pool: CheckpointPool) -> tuple[int, int, int, int]:
    """Active slots queued, running, tracks, pending."""
    stats = pool.stats()
    return stats.active_queued, stats.active_running, stats.active_tracks, stats.active_pending


def kept(pool: CheckpointPool) -> tuple[int, int, int]:
    """Checkpoint slots storing, cached, pending."""
    stats = pool.stats()
    return stats.storing, stats.cached, stats.checkpoints_pending


# -------------------------------------------------------------------------------------------------------- requests


@pytest.mark.parametrize("kind", KINDS)
def test_a_request_from_its_arrival_to_its_end(kind: str) -> None:
    pool = lifecycle(kind)
    new = whole(pool)[:2]
    pool.enqueue(3)
    assert pool.slot_of(3) is None
    slot = pool.admit(3)
    assert (pool.slot_of(3), pool.position(3), active(pool)) == (slot, 0, (1, 0, 0, 0))
    pool.start(3)
    compute(pool, 3, 16)
    compute(pool, 3, 1)
    assert (pool.position(3), active(pool)) == (17, (0, 1, 0, 0))
    assert pool.check() == []
    pool.finish(3)
    assert whole(pool)[:2] == new
    pool.enqueue(3)  # a number is used again
    assert pool.check() == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_donation_becomes_a_nodes_checkpoint_and_a_hit_restores_its_position(kind: str) -> None:
    pool = lifecycle(kind)
    slot = running(pool, 1, 16)
    donation = pool.donate(1)
    assert donation is not None
    assert (donation.request, donation.active, donation.length) == (1, slot, 16)
    assert (donation.phase, donation.is_in_flight, kept(pool)) == (DonationPhase.STORED, False, (1, 0, 0))
    pool.add_node(5, 16)
    donation.publish(5)
    assert (pool.checkpoint_of(5), kept(pool)) == (donation.checkpoint, (0, 1, 0))
    pool.finish(1)
    pool.enqueue(2)
    with pool.lock(2, 5, "state") as lock:
        assert (pool.pins(5, "state"), pool.pins(5, "pages")) == (1, 0)
        fresh = pool.hit(2, 5)
    assert not lock.is_held
    assert (pool.slot_of(2), pool.position(2), active(pool)) == (fresh, 16, (1, 0, 0, 0))
    pool.start(2)
    compute(pool, 2, 4)
    assert pool.position(2) == 20
    assert pool.check() == []
    pool.finish(2)
    pool.evict(5)
    pool.remove_node(5)
    stats = pool.stats()
    assert (stats.nodes, stats.cached, stats.mem_usage, active(pool)) == (0, 0, 0, (0, 0, 0, 0))
    assert pool.check() == []


def test_a_waiting_request_that_hit_can_give_up() -> None:
    pool = lifecycle()
    cached(pool)
    before = pool.stats()
    pool.enqueue(1)
    lock = pool.lock(1, 7, "state")
    pool.hit(1, 7)
    pool.give_back(1)
    assert pool.slot_of(1) is None
    assert pool.hit(1, 7) == pool.slot_of(1)
    pool.finish(1)
    assert not lock.is_held
    assert pool.stats() == before
    assert pool.check() == []


def test_two_hits_are_two_private_copies() -> None:
    pool = lifecycle()
    checkpoint = cached(pool)
    slots = []
    for request in (1, 2):
        pool.enqueue(request)
        with pool.lock(request, 7, "state"):
            slots.append(pool.hit(request, 7))
    assert len(set(slots)) == 2
    assert pool.checkpoint_of(7) == checkpoint


@pytest.mark.parametrize("kind", KINDS)
def test_track_buffers_take_turns(kind: str) -> None:
    pool = lifecycle(kind)
    slot = running(pool, 1, 4)
    first, second = pool.add_tracks(1)
    assert len({slot, first, second}) == 3
    assert active(pool) == (0, 1, 2, 0)
    turns = []
    for _ in range(4):
        compute(pool, 1, 4)
        turns.append(pool.track(1))
    assert turns == [second, first, second, first]
    compute(pool, 1, 1)
    donation = pool.donate(1, "track")
    assert donation is not None
    assert (donation.active, donation.length, pool.position(1)) == (first, 20, 21)
    own = pool.donate(1)
    assert own is not None
    assert own.length == 21
    assert pool.check() == []
    pool.finish(1)
    assert (active(pool), kept(pool)) == ((0, 0, 0, 0), (0, 0, 0))
    assert (donation.phase, own.phase) == (DonationPhase.DROPPED, DonationPhase.DROPPED)


@pytest.mark.parametrize(("what", "left"), [("own", (0, 0, 2, 0)), ("tracks", (0, 1, 0, 0)), ("all", (0, 0, 0, 0))])
def test_slots_are_given_back_by_kind(what: Any, left: tuple[int, ...]) -> None:
    pool = lifecycle()
    running(pool, 1, 4)
    pool.add_tracks(1)
    pool.give_back(1, what)
    assert active(pool) == left
    assert pool.check() == []
    pool.give_back(1, what)
    assert active(pool) == left
    pool.finish(1)
    assert active(pool) == (0, 0, 0, 0)


def test_a_retracted_request_comes_back_by_a_hit() -> None:
    pool = lifecycle()
    running(pool, 1, 16)
    pool.add_tracks(1)
    donation = pool.donate(1)
    assert donation is not None
    pool.add_node(2, 16)
    donation.publish(2)
    pool.retract(1)
    assert (pool.slot_of(1), active(pool)) == (None, (0, 0, 0, 0))
    with pool.lock(1, 2, "state"):
        pool.hit(1, 2)
    pool.start(1)
    assert pool.position(1) == 16
    assert pool.check() == []


def test_a_retracted_request_keeps_its_donations_and_locks() -> None:
    pool = lifecycle()
    cached(pool)
    running(pool, 1, 16)
    lock, donation = pool.lock(1, 7, "pages"), pool.donate(1)
    assert donation is not None
    pool.retract(1)
    assert (lock.is_held, donation.phase) == (True, DonationPhase.STORED)
    assert pool.check() == []
    lock.release()
    donation.drop()
    assert (pool.pins(7, "pages"), kept(pool)) == (0, (0, 1, 0))


def test_a_redundant_checkpoint_is_dropped() -> None:
    pool = lifecycle()
    checkpoint = cached(pool, length=16)
    running(pool, 1, 16)
    donation = pool.donate(1)
    assert donation is not None
    refused(pool, LifecycleError, lambda: donation.publish(7), "has the checkpoint")
    donation.drop()
    pool.finish(1)
    assert (pool.checkpoint_of(7), kept(pool)) == (checkpoint, (0, 1, 0))


@pytest.mark.parametrize("kind", KINDS)
def test_a_donation_that_finds_no_slot_is_skipped(kind: str) -> None:
    pool = lifecycle(kind, total=2000, slots=2)
    running(pool, 1, 16)
    donations = []
    while (donation := pool.donate(1)) is not None:
        donations.append(donation)
    assert donations
    before = whole(pool)
    assert pool.donate(1) is None
    assert whole(pool) == before
    for donation in donations:
        donation.drop()
    assert pool.check() == []


def test_without_slots_a_hit_changes_nothing() -> None:
    pool = lifecycle(total=2000)
    cached(pool)
    pool.enqueue(1)
    lock = pool.lock(1, 7, "state")
    request = 10
    while pool.stats().active_free:
        pool.enqueue(request)
        pool.admit(request)
        request += 1
    pool.enqueue(request)
    refused(pool, BufferExhausted, lambda: pool.hit(1, 7))
    refused(pool, BufferExhausted, lambda: pool.admit(request))
    running_one = 10
    pool.start(running_one)
    refused(pool, BufferExhausted, lambda: pool.add_tracks(running_one))
    pool.finish(10)
    pool.hit(1, 7)
    lock.release()
    assert pool.check() == []


def test_an_alloc_may_evict_but_not_what_the_hit_reads() -> None:
    pool = lifecycle(total=2000)
    cached(pool, 7)
    cached(pool, 8)
    pool.enqueue(1)
    lock = pool.lock(1, 7, "state")
    refused(pool, LockError, lambda: pool.evict(7), "1 of scope 'state'")
    pool.evict(8)
    pool.hit(1, 7)
    lock.release()
    pool.evict(7)
    assert pool.check() == []


def test_locks_are_counted_by_scope() -> None:
    pool = lifecycle()
    cached(pool)
    pool.enqueue(1)
    pool.enqueue(2)
    locks = [pool.lock(1, 7, "pages"), pool.lock(1, 7, "pages"), pool.lock(2, 7, "state"), pool.lock(2, 7, "pages")]
    assert (pool.pins(7, "pages"), pool.pins(7, "state")) == (3, 1)
    assert (pool.stats().page_locks, pool.stats().state_locks) == (3, 1)
    locks[2].release()
    assert (pool.pins(7, "pages"), pool.pins(7, "state")) == (3, 0)
    pool.evict(7)  # pages alone do not keep the checkpoint
    refused(pool, LockError, lambda: pool.remove_node(7), "3 locks of scope 'pages'")
    pool.finish(1)
    locks[3].release()
    assert [lock.is_held for lock in locks] == [False] * 4
    pool.remove_node(7)
    assert pool.check() == []


# ------------------------------------------------------------------------------------------------- copies in flight


@pytest.mark.parametrize("kind", KINDS)
def test_a_donation_in_flight_is_published_after_it_is_complete(kind: str) -> None:
    pool = lifecycle(kind)
    running(pool, 1, 16)
    pool.add_node(5, 16)
    donation = pool.donate(1, stream=ASIDE)
    assert donation is not None
    assert (donation.phase, donation.is_in_flight, pool.stats().copies) == (DonationPhase.STORING, True, 1)
    refused(pool, LifecycleError, lambda: donation.publish(5), "after its copy is complete")
    refused(pool, LifecycleError, lambda: pool.advance(1, 1), "copies from active slot")
    refused(pool, LifecycleError, pool.clear, "in flight")
    donation.complete()
    assert (donation.phase, donation.is_in_flight) == (DonationPhase.STORED, False)
    refused(pool, LifecycleError, donation.complete, "not in flight")
    donation.publish(5)
    compute(pool, 1, 1)
    assert pool.check() == []


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_copy_in_flight_touches_is_pending_when_its_request_ends(kind: str) -> None:
    pool = lifecycle(kind)
    new = pool.stats()
    running(pool, 1, 16)
    first, second = pool.donate(1, stream=ASIDE), pool.donate(1, stream=ASIDE)
    assert first is not None
    assert second is not None
    pool.finish(1)
    assert (active(pool), kept(pool)) == ((0, 0, 0, 1), (0, 0, 2))
    assert (first.phase, second.phase) == (DonationPhase.DROPPED, DonationPhase.DROPPED)
    assert pool.check() == []
    assert running(pool, 1, 1) != first.active
    pool.advance(1, 1)
    first.complete()
    assert (active(pool), kept(pool)) == ((0, 1, 0, 1), (0, 0, 1))
    assert pool.check() == []
    second.complete()
    assert (active(pool), kept(pool)) == ((0, 1, 0, 0), (0, 0, 0))
    pool.finish(1)
    assert pool.stats() == new
    assert pool.check() == []


def test_a_dropped_donation_in_flight_waits() -> None:
    pool = lifecycle()
    running(pool, 1, 16)
    donation = pool.donate(1, stream=ASIDE)
    assert donation is not None
    donation.drop()
    assert kept(pool) == (0, 0, 1)
    refused(pool, LifecycleError, donation.drop, "drop it once")
    donation.complete()
    refused(pool, LifecycleError, lambda: donation.publish(1), "publish it once")
    assert kept(pool) == (0, 0, 0)
    assert pool.check() == []


def test_a_track_buffer_that_a_donation_reads_is_not_written() -> None:
    pool = lifecycle()
    running(pool, 1, 4)
    pool.add_tracks(1)
    pool.track(1)
    donation = pool.donate(1, "track", stream=ASIDE)
    assert donation is not None
    pool.track(1)  # the other buffer's turn
    refused(pool, LifecycleError, lambda: pool.track(1), "copies from active slot")
    donation.complete()
    pool.track(1)
    assert pool.check() == []


def test_copies_come_behind_an_engine_step_that_is_in_flight() -> None:
    pool = lifecycle()
    cached(pool)
    below = pool.states._pool
    slot = running(pool, 1, 4)
    forward = below.begin_step(writes={"state": slot})
    pool.enqueue(2)
    lock = pool.lock(2, 7, "state")
    refused(pool, Exception, lambda: pool.hit(2, 7), "launch it before slots are copied")
    refused(pool, Exception, lambda: pool.donate(1), "launch it before slots are copied")
    forward.launched()
    pool.advance(1, 1)
    pool.hit(2, 7)  # at home, behind the step
    donation = pool.donate(1)
    assert donation is not None
    pool.add_node(8, 5)
    donation.publish(8)
    assert pool.check() == []
    forward.complete()
    forward.retire()
    lock.release()
    assert below.stats().steps == 0
    assert pool.check() == []


@pytest.mark.parametrize("copies", [1, 3])
def test_what_a_copy_waits_for_holds_up_the_steps_behind_the_copy(copies: int) -> None:
    pool = lifecycle()
    below = pool.states._pool
    slot = running(pool, 1, 4)
    away = below.begin_step(writes={"state": slot}, stream="other")
    away.launched()
    pool.advance(1, 4)
    assert all(pool.donate(1) is not None for _ in range(copies))
    behind = below.begin_step()
    behind.launched()
    refused(pool, StepError, behind.complete, "complete that first")
    assert below.stats().steps == copies + 2
    away.complete()
    behind.complete()
    assert below.stats().steps == 0
    assert pool.check() == []


def test_a_finished_request_does_not_wait_for_its_engine_step() -> None:
    pool = lifecycle()
    slot = running(pool, 1, 4)
    step = pool.states._pool.begin_step(reads={"state": slot}, stream="host copy")
    step.launched()
    pool.finish(1)
    assert active(pool) == (0, 0, 0, 1)
    assert pool.check() == []
    step.complete()
    step.retire()
    assert active(pool) == (0, 0, 0, 0)


# ----------------------------------------------------------------------------------------------------------- the whole


@pytest.mark.parametrize("kind", KINDS)
def test_clear_leaves_a_new_pool(kind: str) -> None:
    pool = lifecycle(kind)
    new = pool.stats()
    cached(pool)
    running(pool, 1, 4)
    pool.add_tracks(1)
    donation, lock = pool.donate(1), pool.lock(1, 7, "state")
    pool.enqueue(2)
    pool.clear()
    assert pool.stats() == new
    assert pool.check() == []
    assert donation is not None
    assert (donation.phase, lock.is_held) == (DonationPhase.DROPPED, False)
    refused(pool, LockError, lock.release)
    refused(pool, LifecycleError, donation.drop)
    running(pool, 1, 4)
    cached(pool)
    assert pool.check() == []


def test_a_pool_a_lock_and_a_donation_are_not_copied() -> None:
    pool = lifecycle()
    cached(pool)
    running(pool, 1, 4)
    for one in (pool, pool.lock(1, 7, "pages"), pool.donate(1)):
        with pytest.raises(TypeError, match="cannot be copied or pickled"):
            copy.copy(one)
        with pytest.raises(TypeError, match="cannot be copied or pickled"):
            pickle.dumps(one)


def test_what_is_printed_says_who_has_what() -> None:
    pool = lifecycle()
    cached(pool)
    running(pool, 1, 4)
    lock, donation = pool.lock(1, 7, "pages"), pool.donate(1, stream=ASIDE)
    assert str(pool.stats()).splitlines()[0].startswith("active slots: 0 queued, 1 running, 0 tracks, 0 pending")
    assert "1 storing, 1 cached" in str(pool.stats())
    assert repr(lock) == "Lock(request 1, node 7, 'pages', held=True)"
    assert donation is not None
    assert repr(donation).endswith("4 tokens, storing, in flight)")
    assert repr(donation._copy).startswith("Copy(Step(")


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", KINDS)
def test_any_interleaving_is_healthy_and_leaves_nothing(kind: str, seed: int) -> None:
    """Random operations, allowed or not, with the spec in lockstep, and then all requests end."""
    draw = random.Random(seed)
    below = lifecycle(kind, total=3000, slots=4, shadow=False)
    pool = CheckpointPool(below.states, below.checkpoints, shadow=True)
    new = pool.stats()
    flying: list[Any] = []
    ready: list[Any] = []
    locks: list[Any] = []

    def donate() -> None:
        stream = draw.choice([None, ASIDE])
        donation = pool.donate(draw.randrange(4), draw.choice(["own", "track"]), stream)
        if donation is not None:
            (flying if donation.is_in_flight else ready).append(donation)

    def complete() -> None:
        if flying:
            ready.append(flying.pop(0))
            ready[-1].complete()

    def settle() -> None:
        if ready:
            donation = ready.pop(draw.randrange(len(ready)))
            draw.choice([donation.drop, lambda: donation.publish(draw.randrange(4))])()

    def unlock() -> None:
        if locks:
            locks.pop(draw.randrange(len(locks))).release()

    operations: list[Callable[[], Any]] = [
        lambda: pool.enqueue(draw.randrange(4)),
        lambda: pool.admit(draw.randrange(4)),
        lambda: pool.hit(draw.randrange(4), draw.randrange(4)),
        lambda: pool.start(draw.randrange(4)),
        lambda: compute(pool, draw.randrange(4), draw.choice([4, 4, 1])),
        lambda: pool.add_tracks(draw.randrange(4)),
        lambda: pool.track(draw.randrange(4)),
        donate,
        complete,
        settle,
        lambda: pool.give_back(draw.randrange(4), draw.choice(["own", "tracks", "all"])),
        lambda: pool.retract(draw.randrange(4)),
        lambda: pool.finish(draw.randrange(4)),
        lambda: pool.add_node(draw.randrange(4), draw.choice([4, 8])),
        lambda: pool.remove_node(draw.randrange(4)),
        lambda: locks.append(pool.lock(draw.randrange(4), draw.randrange(4), draw.choice(["pages", "state"]))),
        unlock,
        lambda: pool.evict(draw.randrange(4)),
        lambda: pool.states._pool.compact(urgent=True),
    ]
    done = 0
    for _ in range(1200):
        try:
            draw.choice(operations)()
            done += 1
        except (LifecycleError, BufferExhausted, AssertionError):
            pass
        assert pool.check_states() + pool.check_checkpoints() == []
        if done % 20 == 0:
            assert pool.check() == []
    assert done > 300
    for donation in flying:
        donation.complete()
    for request in list(pool._tenants):
        pool.finish(request)
    for node in list(pool._places):
        if pool.checkpoint_of(node) is not None:
            pool.evict(node)
        pool.remove_node(node)
    assert pool.stats() == new
    assert pool.check() == []


# ------------------------------------------------------------------------------------------------------------- journal


class Told(list[tuple[Any, ...]]):
    """What a journal is told."""

    def __call__(self, action: str, *arguments: int) -> None:
        assert all(type(argument) is int for argument in arguments), (action, arguments)
        self.append((action, *arguments))

    def done(self, operation: str) -> None:
        """An operation is over."""

    def check_room(self, kind: str, more: int) -> None:
        """There is always room."""


def test_a_journal_is_told_of_every_elementary_change() -> None:
    pool = lifecycle()
    told = pool._journal = Told()
    slot = running(pool, 1, 4)
    first, second = pool.add_tracks(1)
    pool.track(1)
    donation = pool.donate(1, stream=ASIDE)
    assert donation is not None
    found = donation.checkpoint
    donation.complete()
    pool.add_node(7, 4)
    donation.publish(7)
    pool.retract(1)
    lock = pool.lock(1, 7, "state")
    fresh = pool.hit(1, 7)
    pool.finish(1)
    pool.evict(7)
    pool.remove_node(7)
    pool.clear()
    parts = [("store_part", found, part) for part in range(3)]
    loads = [("load_part", fresh, part) for part in range(3)]
    assert told == [
        ("enqueue", 1),
        ("admit", 1, slot),
        ("start", 1),
        ("advance", 1, 4),
        ("add_track", 1, first),
        ("add_track", 1, second),
        ("track", 1),
        ("begin_store", 1, slot, found),
        *parts,
        ("end_store", found),
        ("add_node", 7, 4),
        ("publish", 1, found, 7),
        ("release", 1, first),
        ("release", 1, second),
        ("release", 1, slot),
        ("retract", 1),
        ("take_lock", 1, lock.number, 7, 1),
        ("hit", 1, 7, lock.number, fresh),
        *loads,
        ("end_load", fresh),
        ("release", 1, fresh),
        ("release_lock", 1, lock.number),
        ("leave", 1),
        ("evict", 7),
        ("remove_node", 7),
        ("clear",),
    ]


def test_a_journal_is_told_of_what_waits_for_a_copy() -> None:
    pool = lifecycle()
    slot = running(pool, 1, 4)
    donation = pool.donate(1, stream=ASIDE)
    assert donation is not None
    told, found = Told(), donation.checkpoint
    pool._journal = told
    pool.finish(1)
    donation.complete()
    assert told == [
        ("retire_active", 1, slot),
        ("retire_checkpoint", 1, found),
        ("leave", 1),
        *(("store_part", found, part) for part in range(3)),
        ("end_store", found),
        ("reclaim_checkpoint", found),
        ("reclaim_active", slot),
    ]


# --------------------------------------------------------------------------------------------------------------- check


def scene() -> CheckpointPool:
    """One of everything: two nodes with checkpoints, a running request with tracks, a lock and two donations."""
    pool = lifecycle(total=6000, shadow=False)
    cached(pool, 7)
    cached(pool, 8, length=4)
    running(pool, 1, 4)
    pool.add_tracks(1)
    pool.track(1)
    assert pool.donate(1, stream=ASIDE) is not None
    assert pool.donate(1, "track") is not None
    pool.lock(1, 7, "state")
    pool.lock(1, 8, "pages")
    pool.enqueue(2)
    pool.admit(2)
    return pool


def tenant(pool: CheckpointPool, number: int = 1) -> Tenant:
    """A request as the pool has noted it."""
    return pool._tenants[number]


def flying(pool: CheckpointPool) -> Any:
    """The donation in flight."""
    return pool._flying[0]


def _leak_active(pool: CheckpointPool) -> None:
    pool.states.alloc(1)


def _leak_checkpoint(pool: CheckpointPool) -> None:
    pool.checkpoints.alloc(1)


def _free_active(pool: CheckpointPool) -> None:
    pool.states.free(tenant(pool).own or 0)


def _free_checkpoint(pool: CheckpointPool) -> None:
    pool.checkpoints.free(pool.checkpoint_of(7) or 0)


def _share_active(pool: CheckpointPool) -> None:
    tenant(pool, 2).own = tenant(pool, 1).own


def _share_checkpoint(pool: CheckpointPool) -> None:
    pool._places[8].checkpoint = pool._places[7].checkpoint


def _cache_a_donation(pool: CheckpointPool) -> None:
    pool._nodes[flying(pool).checkpoint] = 7


def _forget_request(pool: CheckpointPool) -> None:
    del pool._tenants[2]


def _forget_donor(pool: CheckpointPool) -> None:
    for donation in pool._donors.values():
        donation.request = 5


def _forget_donation(pool: CheckpointPool) -> None:
    tenant(pool).donations.popitem()


def _forget_flight(pool: CheckpointPool) -> None:
    pool._flying.clear()


def _move_source(pool: CheckpointPool) -> None:
    flying(pool).active = tenant(pool, 2).own


def _advance_source(pool: CheckpointPool) -> None:
    pool._positions[flying(pool).active] += 1


def _same_slot_twice(pool: CheckpointPool) -> None:
    tenant(pool).spare = tenant(pool).latest


def _track_of_a_waiting_one(pool: CheckpointPool) -> None:
    tenant(pool).is_running = False


def _publish_in_flight(pool: CheckpointPool) -> None:
    place, donation = pool._places[8], flying(pool)
    place.checkpoint = donation.checkpoint


def _never_written(pool: CheckpointPool) -> None:
    pool.checkpoints._table.flags[pool.checkpoint_of(7)] = 0


def _longer_key(pool: CheckpointPool) -> None:
    pool._places[7].length += 1


def _set(name: str, value: Any) -> Callable[[CheckpointPool], None]:
    def damage(pool: CheckpointPool) -> None:
        setattr(pool, name, value)

    return damage


def _pins(scope: str) -> Callable[[CheckpointPool], None]:
    def damage(pool: CheckpointPool) -> None:
        setattr(pool._places[7], scope, 5)

    return damage


def _lock_of_nothing(pool: CheckpointPool) -> None:
    next(iter(tenant(pool).locks.values())).node = 99


def _renumber(pool: CheckpointPool) -> None:
    pool._places[7].number = 9


def _negative_position(pool: CheckpointPool) -> None:
    pool._positions[tenant(pool, 2).own or 0] = -1


def _no_position(pool: CheckpointPool) -> None:
    del pool._positions[tenant(pool, 2).own or 0]


DAMAGES: list[tuple[Callable[[CheckpointPool], None], str]] = [
    (_leak_active, "exactly_the_tenanted_slots_have_a_holder"),
    (_leak_active, "actives_are_conserved"),
    (_leak_checkpoint, "exactly_cached_slots_have_a_node"),
    (_leak_checkpoint, "checkpoints_are_conserved"),
    (_free_active, "owned_slots_are_live"),
    (_free_checkpoint, "owned_slots_are_live"),
    (_share_active, "a_request_names_only_slots_that_it_owns"),
    (_share_active, "a_slot_is_where_its_request_says"),
    (_share_checkpoint, "a_node_names_only_its_checkpoint"),
    (_share_checkpoint, "exactly_cached_slots_have_a_node"),
    (_cache_a_donation, "exactly_cached_slots_have_a_node"),
    (_forget_request, "an_idle_request_holds_no_slot"),
    (_forget_donor, "an_idle_request_holds_no_slot"),
    (_forget_donation, "exactly_donations_have_a_donor"),
    (_forget_flight, "donations_in_flight_are_noted"),
    (_move_source, "what_is_being_stored_stays"),
    (_advance_source, "what_is_being_stored_stays"),
    (_same_slot_twice, "a_request_names_only_slots_that_it_owns"),
    (_track_of_a_waiting_one, "a_slot_is_where_its_request_says"),
    (_publish_in_flight, "a_cached_checkpoint_is_complete"),
    (_never_written, "a_cached_checkpoint_is_complete"),
    (_longer_key, "a_checkpoint_is_as_long_as_its_key"),
    (_set("_queued", 4), "queued_states_are_counted"),
    (_set("_running", -1), "running_states_are_counted"),
    (_set("_running", -1), "counts_are_never_negative"),
    (_set("_tracks", 0), "tracks_are_counted"),
    (_set("_waiting", 1), "pending_actives_are_counted"),
    (_set("_parked", 1), "pending_checkpoints_are_counted"),
    (_pins("pages"), "page_pins_are_counted"),
    (_pins("state"), "state_pins_are_counted"),
    (_lock_of_nothing, "a_lock_is_somebodys_on_something"),
    (_renumber, "owners_are_noted_under_their_numbers"),
    (_negative_position, "positions_are_those_of_slots"),
    (_no_position, "positions_are_those_of_slots"),
]


@pytest.mark.parametrize(("damage", "claim"), DAMAGES)
def test_check_reports_damage(damage: Callable[[CheckpointPool], None], claim: str) -> None:
    pool = scene()
    assert pool.check() == []
    damage(pool)
    found = pool.check()
    assert claim in {violation.name for violation in found}
    assert all(violation.text and violation.theorem[0] == "I" for violation in found)


def test_every_claim_of_check_can_break() -> None:
    assert {claim for _, claim in DAMAGES} == set(SPEC_CLAIMS | OWN_CLAIMS)


def test_claims_are_those_of_the_spec() -> None:
    tags = {invariant.name: invariant.tags for invariant in SPEC.invariants}
    for name, tag in SPEC_CLAIMS.items():
        assert tag in tags[name], name


def test_each_pool_is_checked_alone() -> None:
    pool = scene()
    pool._queued += 1
    assert {violation.name for violation in pool.check_states()} == {
        "queued_states_are_counted",
        "actives_are_conserved",
    }
    assert pool.check_checkpoints() == []
    pool._queued -= 1
    pool._parked += 1
    assert pool.check_states() == []
    assert {violation.name for violation in pool.check_checkpoints()} == {
        "pending_checkpoints_are_counted",
        "checkpoints_are_conserved",
    }


def test_what_is_wrong_below_is_reported_too() -> None:
    pool = scene()
    pool.states._pool._tables[0].bound += 1
    assert {violation.name for violation in pool.check()} >= {"bound_pages_are_counted"}
    assert pool.check_states() == pool.check_checkpoints() == []


def test_kv_pages_and_slots_share_the_bytes() -> None:
    below = buffer(2000)
    pool = CheckpointPool(below["state"], below["checkpoint"])
    most = pool.stats().active_free
    pages = below["full"].alloc(below["full"].capacity())
    assert pool.stats().active_free == pool.stats().checkpoints_free == 0
    below["full"].free(pages)
    assert pool.stats().active_free == most
