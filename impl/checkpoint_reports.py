"""What a checkpoint pool tells about itself: slots by owner for people, and the whole state for comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from poolproof.checkpoint_pool import CheckpointPool


@dataclass(frozen=True)
class CheckpointStats:
    """Slots of both pools by owner, and who the owners are; all figures are numbers.

    Attributes:
        active_queued, active_running: active slots of requests that wait, and of those that run.
        active_tracks: track buffers.
        active_free: active slots that one allocation could get now, a compaction included.
        active_pending: active slots given back that wait for a copy.
        active_others: active slots that are taken by nobody here.
        storing: checkpoint slots of donations.
        cached: checkpoint slots of nodes.
        checkpoints_free, checkpoints_pending, checkpoints_others: as for active slots.
        queued, running: requests that wait, and those that run, with a slot or without.
        nodes: of the cache, with a checkpoint or without.
        page_locks, state_locks: held, by scope.
        copies: donations in flight.
        bytes_per_slot: of a checkpoint.
        mem_usage: bytes of the checkpoint slots that are owned, or wait for a copy.
    """

    active_queued: int
    active_running: int
    active_tracks: int
    active_free: int
    active_pending: int
    active_others: int
    storing: int
    cached: int
    checkpoints_free: int
    checkpoints_pending: int
    checkpoints_others: int
    queued: int
    running: int
    nodes: int
    page_locks: int
    state_locks: int
    copies: int
    bytes_per_slot: int
    mem_usage: int

    def __str__(self) -> str:
        return (
            f"active slots: {self.active_queued} queued, {self.active_running} running, {self.active_tracks} tracks, "
            f"{self.active_pending} pending, {self.active_free} free, {self.active_others} of others\n"
            f"checkpoint slots: {self.storing} storing, {self.cached} cached, {self.checkpoints_pending} pending, "
            f"{self.checkpoints_free} free, {self.checkpoints_others} of others; {self.mem_usage:,} bytes, "
            f"{self.bytes_per_slot:,} a slot\n"
            f"{self.queued} requests queued, {self.running} running; {self.nodes} nodes, {self.page_locks} locks of "
            f"pages, {self.state_locks} of states; {self.copies} copies in flight"
        )


class RequestSnapshot(NamedTuple):
    """A request. Slots and positions are -1 where there are none.

    Attributes:
        number, is_running: the request, and whether it runs or waits.
        own, latest, spare: its active slots.
        positions: tokens of the three.
        donations: (checkpoint, active slot, length, phase, in flight) of those under way, sorted.
        locks: (number, node, scope) of those it holds, sorted.
    """

    number: int
    is_running: bool
    own: int
    latest: int
    spare: int
    positions: tuple[int, int, int]
    donations: tuple[tuple[int, int, int, str, bool], ...]
    locks: tuple[tuple[int, int, str], ...]


class CheckpointSnapshot(NamedTuple):
    """Who owns what.

    Attributes:
        requests: sorted by number.
        nodes: (number, length, checkpoint or -1, locks of pages, locks of state), sorted.
        holders: (active slot, request), sorted.
        cached: (checkpoint slot, node), sorted.
        flying: (checkpoint slot, active slot, phase) of the donations in flight, in the order in which they began.
        counts: active slots queued, running, tracks and pending, and checkpoint slots pending.
    """

    requests: tuple[RequestSnapshot, ...]
    nodes: tuple[tuple[int, int, int, int, int], ...]
    holders: tuple[tuple[int, int], ...]
    cached: tuple[tuple[int, int], ...]
    flying: tuple[tuple[int, int, str], ...]
    counts: tuple[int, int, int, int, int]


def checkpoint_stats(pool: CheckpointPool) -> CheckpointStats:
    """The pool in figures."""
    tenants, places = pool._tenants.values(), pool._places.values()
    for below in (pool.states._pool, pool.checkpoints._pool):
        below._look()
    running = sum(tenant.is_running for tenant in tenants)
    return CheckpointStats(
        active_queued=pool._queued,
        active_running=pool._running,
        active_tracks=pool._tracks,
        active_free=pool.states._pool._have(pool.states._table),
        active_pending=pool._waiting + pool.states._table.pending.size,
        active_others=int(pool.states._table.bound) - pool._queued - pool._running - pool._tracks - pool._waiting,
        storing=len(pool._donors),
        cached=len(pool._nodes),
        checkpoints_free=pool.checkpoints._pool._have(pool.checkpoints._table),
        checkpoints_pending=pool._parked + pool.checkpoints._table.pending.size,
        checkpoints_others=int(pool.checkpoints._table.bound) - len(pool._donors) - len(pool._nodes) - pool._parked,
        queued=len(tenants) - running,
        running=running,
        nodes=len(places),
        page_locks=sum(place.pages for place in places),
        state_locks=sum(place.state for place in places),
        copies=len(pool._flying),
        bytes_per_slot=pool.bytes_per_slot,
        mem_usage=pool.mem_usage,
    )


def checkpoint_snapshot(pool: CheckpointPool) -> CheckpointSnapshot:
    """The whole state, that of the buffers below excepted."""
    return CheckpointSnapshot(
        requests=tuple(_request(pool, number) for number in sorted(pool._tenants)),
        nodes=tuple(
            (number, place.length, _or_none(place.checkpoint), place.pages, place.state)
            for number, place in sorted(pool._places.items())
        ),
        holders=tuple(sorted(pool._holders.items())),
        cached=tuple(sorted(pool._nodes.items())),
        flying=tuple((one.checkpoint, one.active, one.phase.value) for one in pool._flying),
        counts=(pool._queued, pool._running, pool._tracks, pool._waiting, pool._parked),
    )


def _request(pool: CheckpointPool, number: int) -> RequestSnapshot:
    tenant = pool._tenants[number]
    slots = tenant.own, tenant.latest, tenant.spare
    own, latest, spare = (-1 if slot is None else pool._positions.get(slot, -1) for slot in slots)
    return RequestSnapshot(
        number,
        tenant.is_running,
        _or_none(tenant.own),
        _or_none(tenant.latest),
        _or_none(tenant.spare),
        (own, latest, spare),
        tuple(
            sorted(
                (one.checkpoint, one.active, one.length, one.phase.value, one.is_in_flight)
                for one in tenant.donations.values()
            )
        ),
        tuple(sorted((lock.number, lock.node, lock.scope) for lock in tenant.locks.values())),
    )


def _or_none(slot: int | None) -> int:
    return -1 if slot is None else slot
