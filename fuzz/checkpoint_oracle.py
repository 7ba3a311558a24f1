"""What a checkpoint pool must hold, worked out from the calls alone: who has which slot, and what is in it.

Slots have the ids that the pool gave; everything else follows from the calls: phases, positions, locks, donations, and
the state or checkpoint in each slot, as a value. `reasons_*` say why a call must be refused, all that apply; without
any it must not be.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from poolproof.checkpoint_errors import LifecycleError, LockError
from poolproof.checkpoint_owners import Donation, Lock, Scope, Source
from poolproof.checkpoint_reports import CheckpointSnapshot, RequestSnapshot
from poolproof.fuzz.cache_comparison import Departure
from poolproof.fuzz.cache_states import State, StateModel, Stored
from poolproof.page_errors import StepError

Reasons: TypeAlias = tuple[type[Exception], ...]
"""Errors, any of which is right; none where the call must be done."""

NO: Final[Reasons] = (LifecycleError,)
LOCKED: Final[Reasons] = (LockError,)
YES: Final[Reasons] = ()


@dataclass(eq=False)
class Active:
    """An active slot that somebody has.

    Attributes:
        slot: its id.
        position: tokens that its state has seen, for the books.
        state: what is in it; None where nobody can know.
        depth: how often something of it was quantised.
        is_filled: whether it can be read.
    """

    slot: int
    position: int = 0
    state: State | None = None
    depth: int = 0
    is_filled: bool = False


@dataclass(eq=False)
class Kept:
    """A checkpoint slot that somebody has.

    Attributes:
        slot: its id.
        stored: what is in it; None where nobody can know.
        is_filled: whether it can be read.
    """

    slot: int
    stored: Stored | None = None
    is_filled: bool = True


@dataclass(eq=False)
class Gift:
    """A donation.

    Attributes:
        handle: the pool's.
        request, active, kept, length: whose state, from where, to where, at how many tokens.
        phase: as `DonationPhase` has it.
        in_flight: whether its copy is.
        pending: whether the slot that it copies from is free when it has been copied.
    """

    handle: Donation
    request: int
    active: Active
    kept: Kept
    length: int
    phase: str
    in_flight: bool
    pending: bool = False


@dataclass(eq=False)
class Hold:
    """A lock, and the pool's handle of it."""

    handle: Lock
    number: int
    request: int
    node: int
    scope: Scope
    is_held: bool = True


@dataclass(eq=False)
class Asker:
    """A request: what it holds."""

    number: int
    is_running: bool = False
    own: Active | None = None
    latest: Active | None = None
    spare: Active | None = None
    gifts: list[Gift] = field(default_factory=list)
    holds: list[Hold] = field(default_factory=list)

    @property
    def actives(self) -> list[Active]:
        """Its slots."""
        return [one for one in (self.own, self.latest, self.spare) if one is not None]

    @property
    def is_waiting(self) -> bool:
        """Does it wait for a slot?"""
        return not self.is_running and self.own is None

    def source(self, source: Source) -> Active | None:
        """The slot that it would donate from."""
        return self.own if source == "own" else self.latest

    def state_hold(self, node: int) -> Hold | None:
        """A lock of scope "state" on a node."""
        return next((one for one in self.holds if (one.node, one.scope) == (node, "state")), None)


@dataclass(eq=False)
class Spot:
    """A node of the cache, with its checkpoint."""

    number: int
    length: int
    kept: Kept | None = None


@dataclass
class CheckpointOracle:
    """The state of a checkpoint pool, as it must be.

    Args:
        model: what states are.
        zeros: the state of an active slot that nobody has written; None where that cannot be read.

    Attributes:
        requests, nodes: by number.
        flying: donations in flight, in the order in which they began.
        actives, checkpoints: slots that others have.
        taken: locks that were ever taken.
        deepest: how often something of a loaded checkpoint was quantised at most.
    """

    model: StateModel
    zeros: State | None
    requests: dict[int, Asker] = field(default_factory=dict)
    nodes: dict[int, Spot] = field(default_factory=dict)
    flying: list[Gift] = field(default_factory=list)
    actives: list[Active] = field(default_factory=list)
    checkpoints: list[Kept] = field(default_factory=list)
    taken: int = 0
    deepest: int = 0

    # ---------------------------------------------------------------------------------------------------------- slots

    def all_actives(self) -> Iterator[tuple[str, Active]]:
        """Active slots that somebody has, pending ones too, and whose they are."""
        for asker in self.requests.values():
            for name in ("own", "latest", "spare"):
                one = getattr(asker, name)
                if one is not None:
                    yield f"{name} of request {asker.number}", one
        for active in dict.fromkeys(gift.active for gift in self.flying if gift.pending):
            yield "pending", active
        for active in self.actives:
            yield "of others", active

    def all_kept(self) -> Iterator[tuple[str, Kept]]:
        """Checkpoint slots that somebody has, pending ones too, and whose they are."""
        for node in self.nodes.values():
            if node.kept is not None:
                yield f"checkpoint of node {node.number}", node.kept
        for gift in self.all_gifts():
            yield f"donation of request {gift.request}", gift.kept
        for kept in self.checkpoints:
            yield "checkpoint of others", kept

    def all_gifts(self) -> list[Gift]:
        """Donations that have a slot: those under way, and dropped ones in flight."""
        held = [gift for asker in self.requests.values() for gift in asker.gifts]
        return held + [gift for gift in self.flying if gift.phase == "dropped"]

    def new_active(self, slot: int) -> Active:
        """An active slot was given out.

        Raises:
            Departure: somebody has it.
        """
        taken = {one.slot: whose for whose, one in self.all_actives()}
        if slot in taken or slot <= 0:
            raise Departure(f"active slot {slot} is given out, and is {taken.get(slot, 'none')}")
        return Active(slot, state=self.zeros, is_filled=self.zeros is not None)

    def new_kept(self, slot: int) -> Kept:
        """A checkpoint slot was given out.

        Raises:
            Departure: somebody has it.
        """
        taken = {one.slot: whose for whose, one in self.all_kept()}
        if slot in taken or slot <= 0:
            raise Departure(f"checkpoint slot {slot} is given out, and is {taken.get(slot, 'none')}")
        return Kept(slot, is_filled=False)

    def store(self, active: Active, kept: Kept) -> None:
        """A state is quantised into a checkpoint slot."""
        kept.stored = None if active.state is None else self.model.store(active.state, active.depth)
        kept.is_filled = True

    def load(self, kept: Kept, active: Active) -> None:
        """A checkpoint is loaded into an active slot."""
        stored = kept.stored
        active.state, active.depth = (None, 0) if stored is None else (stored.loaded, stored.depth)
        active.is_filled = True
        self.deepest = max(self.deepest, active.depth)

    def is_read(self, active: Active | None) -> bool:
        """Does a donation in flight copy from this slot?"""
        return any(gift.active is active for gift in self.flying)

    # ------------------------------------------------------------------------------------------------------- requests

    def reasons_admit(self, number: int) -> Reasons:
        """For `admit`, room left out."""
        asker = self.requests.get(number)
        return YES if asker is not None and asker.is_waiting else NO

    def reasons_hit(self, number: int, node: int) -> Reasons:
        """For `hit`, room and steps left out."""
        asker, spot = self.requests.get(number), self.nodes.get(node)
        found = self.reasons_admit(number)
        if spot is None or spot.kept is None:
            found += NO
        return found + (LOCKED if asker is None or asker.state_hold(node) is None else YES)

    def reasons_start(self, number: int) -> Reasons:
        """For `start`."""
        asker = self.requests.get(number)
        return NO if asker is None or asker.is_running or asker.own is None else YES

    def reasons_advance(self, number: int) -> Reasons:
        """For `advance`."""
        asker = self.requests.get(number)
        can = asker is not None and asker.is_running and asker.own is not None and not self.is_read(asker.own)
        return YES if can else NO

    def reasons_add_tracks(self, number: int) -> Reasons:
        """For `add_tracks`, room left out."""
        asker = self.requests.get(number)
        return YES if asker is not None and asker.is_running and asker.latest is None else NO

    def reasons_track(self, number: int) -> Reasons:
        """For `track`, steps left out."""
        asker = self.requests.get(number)
        if asker is None or not asker.is_running or asker.own is None or asker.spare is None:
            return NO
        found = NO if not asker.own.position or self.is_read(asker.spare) else YES
        return found + (() if asker.own.is_filled else (StepError,))

    def reasons_donate(self, number: int, source: Source) -> Reasons:
        """For `donate`, room and steps left out."""
        asker = self.requests.get(number)
        active = None if asker is None else asker.source(source)
        if active is None:
            return NO
        return (YES if active.position else NO) + (() if active.is_filled else (StepError,))

    def free(self, asker: Asker, actives: list[Active]) -> None:
        """Slots of a request are given back."""
        for gift in self.flying:
            gift.pending |= gift.active in actives
        for name in ("own", "latest", "spare"):
            if getattr(asker, name) in actives:
                setattr(asker, name, None)

    def finish(self, asker: Asker) -> None:
        """A request ends."""
        self.free(asker, asker.actives)
        for gift in list(asker.gifts):
            self.drop(gift)
        for hold in list(asker.holds):
            self.release(hold)
        del self.requests[asker.number]

    def clear(self) -> None:
        """Everything is gone."""
        for asker in list(self.requests.values()):
            self.finish(asker)
        self.nodes.clear()

    # ------------------------------------------------------------------------------------------------------ donations

    def donate(self, asker: Asker, active: Active, handle: Donation) -> Gift:
        """A donation begins; where its copy is not in flight it is stored at once."""
        kept = self.new_kept(handle.checkpoint)
        self.store(active, kept)
        phase = "storing" if handle.is_in_flight else "stored"
        gift = Gift(handle, asker.number, active, kept, active.position, phase, handle.is_in_flight)
        asker.gifts.append(gift)
        if gift.in_flight:
            self.flying.append(gift)
        return gift

    def complete(self, gift: Gift) -> None:
        """The copy of a donation is over."""
        self.flying.remove(gift)
        gift.in_flight = False
        if gift.phase == "storing":
            gift.phase = "stored"

    def reasons_publish(self, gift: Gift, node: int) -> Reasons:
        """For `publish`."""
        spot = self.nodes.get(node)
        fits = spot is not None and spot.kept is None and spot.length == gift.length
        return YES if fits and gift.phase == "stored" else NO

    def publish(self, gift: Gift, node: int) -> None:
        """A checkpoint is a node's."""
        self.nodes[node].kept = gift.kept
        self._end(gift, "published")

    @staticmethod
    def reasons_drop(gift: Gift) -> Reasons:
        """For `drop`."""
        return YES if gift.phase in ("storing", "stored") else NO

    def drop(self, gift: Gift) -> None:
        """A donation is not wanted."""
        self._end(gift, "dropped")

    def _end(self, gift: Gift, phase: str) -> None:
        self.requests[gift.request].gifts.remove(gift)
        gift.phase = phase

    # ---------------------------------------------------------------------------------------------------------- nodes

    def pins(self, node: int, scope: Scope) -> int:
        """Locks that are held on a node."""
        holds = (hold for asker in self.requests.values() for hold in asker.holds)
        return sum((hold.node, hold.scope) == (node, scope) for hold in holds)

    def reasons_remove(self, node: int) -> Reasons:
        """For `remove_node`."""
        spot = self.nodes.get(node)
        if spot is None:
            return NO
        locked = self.pins(node, "pages") + self.pins(node, "state") > 0
        return (YES if spot.kept is None else NO) + (LOCKED if locked else YES)

    def reasons_evict(self, node: int) -> Reasons:
        """For `evict`."""
        spot = self.nodes.get(node)
        if spot is None or spot.kept is None:
            return NO
        return LOCKED if self.pins(node, "state") else YES

    def lock(self, handle: Lock, number: int, node: int, scope: Scope) -> Hold:
        """A request keeps a node."""
        hold = Hold(handle, self.taken, number, node, scope)
        self.requests[number].holds.append(hold)
        self.taken += 1
        return hold

    def release(self, hold: Hold) -> None:
        """A lock ends."""
        self.requests[hold.request].holds.remove(hold)
        hold.is_held = False

    # ---------------------------------------------------------------------------------------------------------- whole

    def snapshot(self) -> CheckpointSnapshot:
        """What the pool's must be."""
        askers = sorted(self.requests.values(), key=lambda asker: asker.number)
        nodes = sorted(self.nodes.values(), key=lambda node: node.number)
        own = [asker.is_running for asker in askers if asker.own is not None]
        pending = {gift.active for gift in self.flying if gift.pending}
        return CheckpointSnapshot(
            requests=tuple(_snapshot(asker) for asker in askers),
            nodes=tuple(
                (
                    one.number,
                    one.length,
                    _slot(one.kept),
                    self.pins(one.number, "pages"),
                    self.pins(one.number, "state"),
                )
                for one in nodes
            ),
            holders=tuple(sorted((active.slot, asker.number) for asker in askers for active in asker.actives)),
            cached=tuple(sorted((one.kept.slot, one.number) for one in nodes if one.kept is not None)),
            flying=tuple((gift.kept.slot, gift.active.slot, gift.phase) for gift in self.flying),
            counts=(
                own.count(False),
                own.count(True),
                sum(len(asker.actives) - (asker.own is not None) for asker in askers),
                len(pending),
                sum(gift.phase == "dropped" for gift in self.flying),
            ),
        )

    def figures(self) -> dict[str, Any]:
        """What the pool's `stats` must say, as far as it follows from the calls."""
        whole = self.snapshot()
        queued, running, tracks, _, _ = whole.counts
        return {
            "active_queued": queued,
            "active_running": running,
            "active_tracks": tracks,
            "active_others": len(self.actives),
            "storing": sum(len(asker.gifts) for asker in self.requests.values()),
            "cached": len(whole.cached),
            "checkpoints_others": len(self.checkpoints),
            "queued": sum(not asker.is_running for asker in self.requests.values()),
            "running": sum(asker.is_running for asker in self.requests.values()),
            "nodes": len(self.nodes),
            "page_locks": sum(node[3] for node in whole.nodes),
            "state_locks": sum(node[4] for node in whole.nodes),
            "copies": len(self.flying),
        }


def _snapshot(asker: Asker) -> RequestSnapshot:
    slots = asker.own, asker.latest, asker.spare
    own, latest, spare = map(_slot, slots)
    at_own, at_latest, at_spare = (-1 if one is None else one.position for one in slots)
    gifts = ((one.kept.slot, one.active.slot, one.length, one.phase, one.in_flight) for one in asker.gifts)
    holds = ((one.number, one.node, one.scope) for one in asker.holds)
    return RequestSnapshot(
        asker.number,
        asker.is_running,
        own,
        latest,
        spare,
        (at_own, at_latest, at_spare),
        tuple(sorted(gifts)),
        tuple(sorted(holds)),
    )


def _slot(one: Active | Kept | None) -> int:
    return -1 if one is None else one.slot
