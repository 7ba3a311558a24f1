"""The invariants of the spec, tested against what a checkpoint pool has noted and the tables of the pools below it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from poolproof.checkpoint_owners import DonationPhase, Tenant
from poolproof.page_table import FILLED
from poolproof.violation import Violation

if TYPE_CHECKING:
    from poolproof.checkpoint_pool import CheckpointPool
    from poolproof.sub_pool import SubPool

_LISTED: Final = 8

SPEC_CLAIMS: Final = {
    "exactly_the_tenanted_slots_have_a_holder": "I1",
    "a_slot_is_where_its_request_says": "I1",
    "a_request_names_only_slots_that_it_owns": "I3",
    "queued_states_are_counted": "I21",
    "running_states_are_counted": "I21",
    "tracks_are_counted": "I21",
    "pending_actives_are_counted": "I21",
    "actives_are_conserved": "I21",
    "exactly_donations_have_a_donor": "I1",
    "exactly_cached_slots_have_a_node": "I1",
    "a_node_names_only_its_checkpoint": "I1",
    "pending_checkpoints_are_counted": "I21",
    "checkpoints_are_conserved": "I21",
    "a_cached_checkpoint_is_complete": "I7",
    "a_checkpoint_is_as_long_as_its_key": "I19",
    "what_is_being_stored_stays": "I7",
    "page_pins_are_counted": "I13",
    "state_pins_are_counted": "I13",
    "a_lock_is_somebodys_on_something": "I13",
    "an_idle_request_holds_no_slot": "I3",
}
"""Claims of `poolproof.spec.checkpoint`, and one tag of each."""

OWN_CLAIMS: Final = {
    "owned_slots_are_live": "I2",
    "positions_are_those_of_slots": "I19",
    "owners_are_noted_under_their_numbers": "I1",
    "counts_are_never_negative": "I21",
    "donations_in_flight_are_noted": "I7",
}
"""Claims about how this pool stores its state."""

_TAGS: Final = SPEC_CLAIMS | OWN_CLAIMS


def check_states(pool: CheckpointPool) -> list[Violation]:
    """The broken claims about active slots and requests."""
    return _broken(pool, _OF_STATES)


def check_checkpoints(pool: CheckpointPool) -> list[Violation]:
    """The broken claims about checkpoint slots, nodes and locks."""
    return _broken(pool, _OF_CHECKPOINTS)


def check_all(pool: CheckpointPool) -> list[Violation]:
    """The broken claims about both and each, and those of the buffers below."""
    found = check_states(pool) + check_checkpoints(pool) + _broken(pool, _OF_BOTH)
    for below in dict.fromkeys((pool.states._pool, pool.checkpoints._pool)):
        found += below.check()
    return found


Found = Iterator[tuple[str, str]]
"""Names of broken claims, and what was found."""


def _broken(pool: CheckpointPool, claims: Iterable[Callable[[CheckpointPool], Found]]) -> list[Violation]:
    return [Violation(_TAGS[name], name, text) for claim in claims for name, text in claim(pool)]


def _listed(numbers: Iterable[Any]) -> str:
    ordered = sorted(numbers)
    more = ", ..." if len(ordered) > _LISTED else ""
    return f"[{', '.join(map(str, ordered[:_LISTED]))}{more}]"


def _live(sub_pool: SubPool) -> set[int]:
    """Ids that lead to a page."""
    table = sub_pool._table
    return set((table.physical[: table.ids] > 0).nonzero()[0].tolist())


def _retired(pool: CheckpointPool) -> set[int]:
    """Active slots that were given back while a copy reads them."""
    return {donation.active for donation in pool._flying if donation._pending}


def _parked(pool: CheckpointPool) -> set[int]:
    """Checkpoint slots of donations that were dropped in flight."""
    return {donation.checkpoint for donation in pool._flying if donation.phase is DonationPhase.DROPPED}


def _slots_of(tenant: Tenant) -> list[tuple[str, int | None]]:
    return [("own", tenant.own), ("latest", tenant.latest), ("spare", tenant.spare)]


# ------------------------------------------------------------------------------------------------------- active slots


def _request_numbers(pool: CheckpointPool) -> Found:
    wrong = [number for number, tenant in pool._tenants.items() if tenant.number != number]
    if wrong:
        yield "owners_are_noted_under_their_numbers", f"requests noted under {_listed(wrong)} have other numbers"


def _holders(pool: CheckpointPool) -> Found:
    live, held = _live(pool.states), pool._holders.keys() | _retired(pool)
    if live - held and not pool.is_shared:
        text = f"active slots {_listed(live - held)} are taken, and no request has them: they have leaked"
        yield "exactly_the_tenanted_slots_have_a_holder", text
    if held - live:
        yield "owned_slots_are_live", f"active slots {_listed(held - live)} are owned, and not taken"
    both = _retired(pool) & pool._holders.keys()
    if both:
        yield "exactly_the_tenanted_slots_have_a_holder", f"active slots {_listed(both)} are requests', and pending"
    for slot, request in pool._holders.items():
        tenant = pool._tenants.get(request)
        if tenant is None:
            yield "an_idle_request_holds_no_slot", f"active slot {slot} is that of request {request}, which is gone"
        elif slot not in tenant.slots:
            yield (
                "a_slot_is_where_its_request_says",
                f"active slot {slot} is {tenant.number}'s, which has {tenant.slots}",
            )


def _requests(pool: CheckpointPool) -> Found:
    name = "a_request_names_only_slots_that_it_owns"
    for tenant in pool._tenants.values():
        for what, slot in _slots_of(tenant):
            if slot is not None and pool._holders.get(slot) != tenant.number:
                holder = pool._holders.get(slot)
                yield name, f"{tenant}: its slot {slot} ({what}) is that of {holder}"
        if len(set(tenant.slots)) < len(tenant.slots):
            yield name, f"{tenant} has one slot twice: {tenant.slots}"
        if tenant.spare is not None and tenant.latest is None:
            yield name, f"{tenant} has a spare track buffer {tenant.spare} and no other one"
        if tenant.latest is not None and not tenant.is_running:
            yield "a_slot_is_where_its_request_says", f"{tenant}, and has track buffers"
    owners = Counter(slot for tenant in pool._tenants.values() for slot in set(tenant.slots))
    twice = [slot for slot, times in owners.items() if times > 1]
    if twice:
        yield "a_slot_is_where_its_request_says", f"active slots {_listed(twice)} are those of several requests"


def _positions(pool: CheckpointPool) -> Found:
    name = "positions_are_those_of_slots"
    if pool._positions.keys() != pool._holders.keys():
        odd = pool._positions.keys() ^ pool._holders.keys()
        yield name, f"active slots {_listed(odd)} have an owner and no position, or the reverse"
    wrong = [slot for slot, position in pool._positions.items() if position < 0]
    if wrong:
        yield name, f"active slots {_listed(wrong)} have negative positions"


def _active_counts(pool: CheckpointPool) -> Found:
    tenants = pool._tenants.values()
    own = [tenant.is_running for tenant in tenants if tenant.own is not None]
    for name, counter, number in (
        ("queued_states_are_counted", pool._queued, own.count(False)),
        ("running_states_are_counted", pool._running, own.count(True)),
        ("tracks_are_counted", pool._tracks, sum(len(t.slots) - (t.own is not None) for t in tenants)),
        ("pending_actives_are_counted", pool._waiting, len(_retired(pool))),
    ):
        yield from _count(name, counter, number)
    parts = {"queued": pool._queued, "running": pool._running, "tracks": pool._tracks, "pending": pool._waiting}
    yield from _sum("actives_are_conserved", parts, int(pool.states._table.bound), pool.is_shared)


def _sum(name: str, parts: dict[str, int], taken: int, is_shared: bool) -> Found:
    """The parts are all slots that are taken; where others take some too, they are no more."""
    if sum(parts.values()) > taken or (sum(parts.values()) < taken and not is_shared):
        text = " + ".join(f"{count} {part}" for part, count in parts.items())
        yield name, f"{text} = {sum(parts.values())}, and {taken} slots are taken"


def _count(name: str, counter: int, number: int) -> Found:
    if counter != number:
        yield name, f"the count is {counter}, the number {number}"
    if counter < 0:
        yield "counts_are_never_negative", f"{name}: the count is {counter}"


# --------------------------------------------------------------------------------------------------- checkpoint slots


def _cached(pool: CheckpointPool) -> Found:
    live, owned = _live(pool.checkpoints), pool._donors.keys() | pool._nodes.keys() | _parked(pool)
    if live - owned and not pool.is_shared:
        text = f"checkpoint slots {_listed(live - owned)} are taken, and no node or donation has them: they have leaked"
        yield "exactly_cached_slots_have_a_node", text
    if owned - live:
        yield "owned_slots_are_live", f"checkpoint slots {_listed(owned - live)} are owned, and not taken"
    both = (pool._donors.keys() | _parked(pool)) & pool._nodes.keys() | pool._donors.keys() & _parked(pool)
    if both:
        text = f"checkpoint slots {_listed(both)} have two owners, a node, a donation, or a copy that nobody wants"
        yield "exactly_cached_slots_have_a_node", text
    for checkpoint, node in pool._nodes.items():
        place = pool._places.get(node)
        if place is None or place.checkpoint != checkpoint:
            has = "is gone" if place is None else f"has {place.checkpoint}"
            yield "exactly_cached_slots_have_a_node", f"checkpoint {checkpoint} is that of node {node}, which {has}"


def _node_numbers(pool: CheckpointPool) -> Found:
    wrong = [number for number, place in pool._places.items() if place.number != number]
    if wrong:
        yield "owners_are_noted_under_their_numbers", f"nodes noted under {_listed(wrong)} have other numbers"


def _nodes(pool: CheckpointPool) -> Found:
    flags = pool.checkpoints._table.flags
    storing = {donation.checkpoint for donation in pool._flying if donation.phase is not DonationPhase.DROPPED}
    for place in pool._places.values():
        found, node = place.checkpoint, place.number
        if found is None:
            continue
        if pool._nodes.get(found) != node:
            text = f"node {node} has checkpoint {found}, which is that of node {pool._nodes.get(found)}"
            yield "a_node_names_only_its_checkpoint", text
        if place.stored != place.length:
            text = f"node {node} has a key of {place.length} tokens, its checkpoint was computed from {place.stored}"
            yield "a_checkpoint_is_as_long_as_its_key", text
        if found in storing:
            yield "a_cached_checkpoint_is_complete", f"checkpoint {found} of node {node} is being stored"
        if not 0 < found < len(flags) or not flags[found] & FILLED:
            yield "a_cached_checkpoint_is_complete", f"checkpoint {found} of node {node} was never written"


def _donations(pool: CheckpointPool) -> Found:
    name = "exactly_donations_have_a_donor"
    for checkpoint, donation in pool._donors.items():
        if donation.checkpoint != checkpoint:
            yield name, f"{donation!r} is noted at checkpoint {checkpoint}"
        if donation.phase not in (DonationPhase.STORING, DonationPhase.STORED):
            yield name, f"{donation!r} is over, and noted at its slot"
        if (donation.phase is DonationPhase.STORING) != donation.is_in_flight:
            yield "donations_in_flight_are_noted", f"{donation!r}: its copy and its phase do not agree"
    for donation in pool._flying:
        if not donation.is_in_flight:
            yield "donations_in_flight_are_noted", f"{donation!r} is noted as in flight"
    missing = [d.checkpoint for d in pool._donors.values() if d.is_in_flight and d not in pool._flying]
    if missing:
        yield "donations_in_flight_are_noted", f"donations into {_listed(missing)} are in flight, and not noted so"


def _checkpoint_counts(pool: CheckpointPool) -> Found:
    yield from _count("pending_checkpoints_are_counted", pool._parked, len(_parked(pool)))
    parts = {"donations": len(pool._donors), "cached": len(pool._nodes), "pending": pool._parked}
    yield from _sum("checkpoints_are_conserved", parts, int(pool.checkpoints._table.bound), pool.is_shared)


def _pins(pool: CheckpointPool) -> Found:
    locks = [lock for tenant in pool._tenants.values() for lock in tenant.locks.values()]
    held: Counter[tuple[int, str]] = Counter((lock.node, lock.scope) for lock in locks)
    for place in pool._places.values():
        for name, scope, pins in (
            ("page_pins_are_counted", "pages", place.pages),
            ("state_pins_are_counted", "state", place.state),
        ):
            number = held.get((place.number, scope), 0)
            if pins != number:
                text = f"node {place.number} has {pins} pins of scope {scope!r}, and {number} such locks are held"
                yield name, text


# --------------------------------------------------------------------------------------------------------------- both


def _locks(pool: CheckpointPool) -> Found:
    name = "a_lock_is_somebodys_on_something"
    for tenant in pool._tenants.values():
        for number, lock in tenant.locks.items():
            if not lock.is_held or lock.request != tenant.number or lock.number != number:
                yield name, f"{lock!r} is noted as lock {number} of request {tenant.number}"
            if lock.node not in pool._places:
                yield name, f"{lock!r} is on a node that is gone"


def _donors(pool: CheckpointPool) -> Found:
    name = "exactly_donations_have_a_donor"
    for checkpoint, donation in pool._donors.items():
        tenant = pool._tenants.get(donation.request)
        if tenant is None:
            yield "an_idle_request_holds_no_slot", f"{donation!r} is that of a request which is gone"
        elif tenant.donations.get(checkpoint) is not donation:
            yield name, f"{donation!r} is not noted with its request"
    for tenant in pool._tenants.values():
        odd = tenant.donations.keys() - pool._donors.keys()
        if odd:
            yield name, f"{tenant} has noted donations into {_listed(odd)}, which are nobody's"


def _sources(pool: CheckpointPool) -> Found:
    for donation in pool._flying:
        if donation._pending:
            continue
        slot, request = donation.active, pool._holders.get(donation.active)
        if request != donation.request:
            text = f"{donation!r} copies from active slot {slot}, which is that of {request}"
            yield "what_is_being_stored_stays", text
        elif pool._positions.get(slot) != donation.length:
            text = f"{donation!r} copies from active slot {slot}, which is at {pool._positions.get(slot)} tokens"
            yield "what_is_being_stored_stays", text


_OF_STATES: Final = (_request_numbers, _holders, _requests, _positions, _active_counts)
_OF_CHECKPOINTS: Final = (_node_numbers, _cached, _nodes, _donations, _checkpoint_counts, _pins)
_OF_BOTH: Final = (_locks, _donors, _sources)
