"""Two pools with one lifecycle: active states of requests, and int8 checkpoints of a prefix cache.

A request is given an active slot, fresh or with a node's checkpoint loaded into it, and gives it back. On the way its
state is donated: quantised into a checkpoint slot, which becomes a node's once the copy is complete. What each
operation may do is written down, and proved, in `poolproof.spec.checkpoint`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn

from poolproof.arguments import Ids, as_count, as_ids
from poolproof.checkpoint_bytes import Copy
from poolproof.checkpoint_errors import LockError
from poolproof.checkpoint_memory import (
    CheckpointMemory,
    check_memory,
    estimate,
    free_memory,
    slots_of,
    standalone,
)
from poolproof.checkpoint_nodes import CheckpointNodes
from poolproof.checkpoint_owners import Donation, DonationPhase, Source, Tenant, as_number
from poolproof.sub_pool import SubPool
from poolproof.sub_pools import Codec, Resolved, StateSlots

if TYPE_CHECKING:
    from poolproof.checkpoint_reports import CheckpointSnapshot, CheckpointStats
    from poolproof.violation import Violation

_PER_ACTIVE: Final = 2
"""Checkpoint slots for each active slot, where nothing is said."""


class CheckpointPool(CheckpointNodes):
    """Active slots and checkpoint slots, and the requests and nodes that own them.

    Every operation is done in full, or refused with an error that leaves both pools as they were (an allocation may
    have compacted). Requests and nodes are numbered by the caller, from 0 up. Slots are ids of the two sub-pools. What
    is copied at home is ordered with everything else there; on another stream it is in flight until it is completed.

    Args:
        states, checkpoints: `pool["state"]` and `pool["checkpoint"]`, of one pool or of two on one device, which are
            not cleared under it.
        shadow: run the spec in lockstep and raise `SpecViolation` where the pool departs from it.
        shared: others take slots of the two as well, such as those for `store_from_active` and `load_to_active`. By
            default nobody does, and `check` calls a slot that is neither a request's nor a node's leaked.

    Attributes:
        states, checkpoints: as given.
        is_shared: whether others take slots of the two as well.

    Raises:
        LayoutError: the two do not belong together.
        PoolBusy: somebody has slots of one, and they are not shared.
        TypeError: they are no sub-pools.
    """

    @classmethod
    def beside(
        cls, states: SubPool, slots: int | None = None, *, codec: Codec = "int8", shadow: bool = False
    ) -> CheckpointPool:
        """A pool whose checkpoints have a buffer of their own, on the device of the states.

        Args:
            states: the sub-pool of active states.
            slots: checkpoint slots; by default two for each active slot that the states' buffer has room for.
            codec: "int8", or "none" for plain copies.
            shadow: as for the pool; of the new buffer too.

        Raises:
            LayoutError: the device has less memory free; nothing was allocated.
            TypeError, ValueError: slots is no integer, or less than 1.
        """
        from poolproof.unified_pool import UnifiedPool

        if not isinstance(states, SubPool):
            raise TypeError(f"states must be a sub-pool such as pool['state'], not {states!r}"[:200])
        declaration = standalone(states, codec)
        count = _PER_ACTIVE * slots_of(states) if slots is None else as_count("slots", slots)
        if count < 1:
            raise ValueError(f"slots is {count}; a pool has one checkpoint slot at least")
        pool, need = states._pool, estimate(states, count, codec)
        device = pool._bytes.device
        check_memory(need, count, free_memory(device), device)
        own = UnifiedPool(need.total, [declaration], device=device, events=pool._events, shadow=shadow)
        return cls(states, own[declaration.name], shadow=shadow)

    @classmethod
    def opt_in(
        cls, states: SubPool, codec: Codec | None, slots: int | None = None, *, shadow: bool = False
    ) -> CheckpointPool | None:
        """`beside`, for an engine's option: None, and nothing allocated, where no codec is named.

        Args and errors are those of `beside`.
        """
        return None if codec is None else cls.beside(states, slots, codec=codec, shadow=shadow)

    @staticmethod
    def estimate(states: SubPool | Resolved | StateSlots, slots: int, codec: Codec = "int8") -> CheckpointMemory:
        """Bytes of so many checkpoints of these states, before anything is allocated.

        Raises:
            LayoutError: states are of another kind, or of a dtype that the codec does not take.
            TypeError, ValueError: slots is no integer or negative.
        """
        return estimate(states, slots, codec)

    @property
    def bytes_per_slot(self) -> int:
        """Bytes of a checkpoint slot, padding included."""
        return self.checkpoints.layout.page_bytes

    @property
    def mem_usage(self) -> int:
        """Bytes of the checkpoint slots that are owned, or wait for a copy."""
        table = self.checkpoints._table
        return int(table.size) * table.page_bytes

    @property
    def size(self) -> int:
        """Checkpoint slots that there can be at most, if nothing else is in their buffer."""
        return slots_of(self.checkpoints)

    # ------------------------------------------------------------------------------------------------------ bytes only

    def store_from_active(self, active: Ids, checkpoints: Ids, stream: Any = None) -> Copy | None:
        """Quantise states into checkpoint slots: codes and scales, and the conv windows as they are.

        Args:
            active: ids of active slots that hold states, a request's or others'.
            checkpoints: as many ids of checkpoint slots, each once, none of which is a node's or a donation's.
            stream: None for home; another one as for `UnifiedPool.begin_step`.

        Returns:
            None at home; on another stream the copy, to be completed.

        Raises:
            LifecycleError: a checkpoint is cached, or being stored by a donation.
            InvalidPages: an id is not live, or given twice.
            StepError: an active slot holds nothing yet, or an open step must be launched before.
            ValueError: there are not as many of either.
        """
        self._enter()
        pairs = _pairs(active, checkpoints)
        for slot in pairs[1].tolist():
            owner = self._owner(slot)
            if owner is not None:
                self._refuse("store_from_active", f"checkpoint {slot} is {owner}, and is not written again")
        return self._bytes.store(*pairs, stream)

    def load_to_active(self, checkpoints: Ids, active: Ids, stream: Any = None) -> Copy | None:
        """Dequantise checkpoints into active slots, all parts of them.

        Args:
            checkpoints: ids of checkpoint slots that hold states; one may serve several active slots in several calls.
            active: as many ids of active slots, each once, none of which is a request's: those are for `hit`.
            stream: as for `store_from_active`.

        Returns:
            As for `store_from_active`.

        Raises:
            LifecycleError: an active slot is a request's, or a donation into a checkpoint is in flight.
            InvalidPages, StepError, ValueError: as for `store_from_active`.
        """
        self._enter()
        pairs = _pairs(checkpoints, active)
        for donation in self._flying:
            if donation.checkpoint in pairs[0]:
                self._refuse("load_to_active", f"{donation!r} is being stored; complete it first")
            if donation.active in pairs[1]:
                self._refuse("load_to_active", f"{donation!r} copies from active slot {donation.active}")
        for slot in pairs[1].tolist():
            if slot in self._holders:
                self._refuse("load_to_active", f"active slot {slot} is request {self._holders[slot]}'s; use `hit`")
        return self._bytes.load(*pairs, stream)

    def _owner(self, checkpoint: int) -> str | None:
        """Whose a checkpoint slot is."""
        if checkpoint in self._nodes:
            return f"node {self._nodes[checkpoint]}'s"
        donations = [*self._donors.values(), *self._flying]
        return next((f"that of {one!r}" for one in donations if one.checkpoint == checkpoint), None)

    # -------------------------------------------------------------------------------------------------------- requests

    def enqueue(self, request: int) -> None:
        """A request arrives, and waits.

        Raises:
            LifecycleError: there is a request of this number.
            TypeError, InvalidHolder: the number is no integer, or negative.
        """
        self._drive()
        request = as_number("request", request)
        if request in self._tenants:
            self._refuse("enqueue", f"{self._tenants[request]} already; finish it first")
        self._check_shadow("request")
        self._tenants[request] = Tenant(request)
        self._told("enqueue", request)

    def admit(self, request: int) -> int:
        """A queued request that hits nothing is given an active slot, for the state before its first token.

        Returns:
            The slot's id. Nothing is in it: the request's first step writes it.

        Raises:
            LifecycleError: the request does not wait, or has a slot.
            BufferExhausted: there is none.
        """
        self._enter()
        tenant = self._waiting_tenant("admit", request)
        slot = self._take_active()
        self._seat(tenant, slot, 0)
        self._told("admit", tenant.number, slot)
        return slot

    def hit(self, request: int, node: int) -> int:
        """A queued request is given an active slot with a private copy of the node's checkpoint, of its key's length.

        Args:
            request: it holds a lock of scope "state" on the node.
            node: one with a checkpoint.

        Returns:
            The slot's id.

        Raises:
            LockError: the request holds no such lock.
            LifecycleError: the request does not wait, or has a slot; there is no such node, or it has no checkpoint.
            BufferExhausted: there is no slot.
            StepError: a step at home is not launched.
        """
        self._enter()
        tenant = self._waiting_tenant("hit", request)
        place = self._place("hit", node)
        lock, checkpoint = tenant.state_lock(node), place.checkpoint
        if lock is None:
            raise LockError(
                f"hit: request {request} holds no lock of scope 'state' on node {node}; take one first, so that the "
                f"checkpoint is not evicted for the slot. Nothing was changed."
            )
        if checkpoint is None:
            self._refuse("hit", f"node {node} has no checkpoint; admit the request, or hit a node that has one")
        self._bytes.check_launched()
        slot = self._take_active()
        try:
            self._bytes.load(checkpoint, slot)
        except BaseException:
            self.states.free(slot)
            raise
        self._seat(tenant, slot, place.length)
        if self._journal is not None:
            self._note("hit", tenant.number, place.number, lock.number, slot)
            self._note_parts("load_part", slot)
            self._told("end_load", slot)
        return slot

    def _take_active(self) -> int:
        """A fresh active slot."""
        pool, table = self.states._pool, self.states._table
        slot = pool._alloc_one(table)
        if slot is None:
            raise pool._exhausted(table, 1)
        return slot

    def _seat(self, tenant: Tenant, slot: int, position: int) -> None:
        """A request that waits has a slot."""
        tenant.own = slot
        self._holders[slot] = tenant.number
        self._positions[slot] = position
        self._queued += 1

    def start(self, request: int) -> None:
        """A queued request that has a slot begins to run.

        Raises:
            LifecycleError: it does not wait, or has no slot.
        """
        self._drive()
        tenant = self._tenant("start", request)
        if tenant.is_running or tenant.own is None:
            self._refuse("start", f"{tenant}; admit it, or hit a node, before it starts")
        tenant.is_running = True
        self._queued -= 1
        self._running += 1
        self._told("start", tenant.number)

    def advance(self, request: int, tokens: int) -> None:
        """A step was launched that folds so many tokens more into the request's own state.

        Args:
            request: a running one.
            tokens: at least 1.

        Raises:
            LifecycleError: the request does not run, has no slot, or a donation from it is in flight.
            TypeError, ValueError: tokens is no integer, or less than 1.
        """
        self._drive()
        tenant = self._tenant("advance", request)
        own = self._own("advance", tenant)
        tokens = as_count("tokens", tokens)
        if not tokens:
            raise ValueError("tokens is 0; advance a request by 1 or more. Nothing was changed.")
        if self._flying:
            self._check_unread("advance", own)
        self._positions[own] += tokens
        if self._journal is not None:
            self._told("advance", tenant.number, tokens)

    def add_tracks(self, request: int) -> tuple[int, int]:
        """A running request is given two track buffers, which take turns.

        Returns:
            Their slots' ids.

        Raises:
            LifecycleError: the request does not run, or has track buffers.
            BufferExhausted: there are not two slots.
        """
        tenant = self._tenant("add_tracks", request)
        if not tenant.is_running or tenant.latest is not None:
            have = "" if tenant.latest is None else f" with the track buffers {tenant.latest} and {tenant.spare}"
            self._refuse("add_tracks", f"{tenant}{have}; add them once, to a running request")
        first, second = self.states.alloc(2).tolist()
        tenant.latest, tenant.spare = first, second
        for slot in (first, second):
            self._holders[slot] = tenant.number
            self._positions[slot] = 0
            self._tracks += 1
            self._note("add_track", tenant.number, slot)
        self._done("add_tracks")
        return first, second

    def track(self, request: int) -> int:
        """The request's own state is copied, as it is, to the track buffer that was not written last.

        Returns:
            That buffer's slot, which is the latest now.

        Raises:
            LifecycleError: the request does not run, has no slot or no track buffers, has computed nothing, or a
                donation from the buffer is in flight.
            StepError: a step at home is not launched, or nobody has written the state.
        """
        self._enter()
        tenant = self._tenant("track", request)
        own, target = self._own("track", tenant), tenant.spare
        if target is None:
            self._refuse("track", f"request {request} has no track buffers; add_tracks first")
        self._computed("track", request, own)
        self._check_unread("track", target)
        self._bytes.copy(own, target)
        self._positions[target] = self._positions[own]
        tenant.latest, tenant.spare = target, tenant.latest
        self._told("track", tenant.number)
        return target

    def give_back(self, request: int, what: Literal["own", "tracks", "all"] = "all") -> None:
        """Active slots of a request are free; what a copy in flight reads is pending until that is complete.

        Args:
            request: a waiting or running one; of what it does not have nothing is given back.
            what: "own" for its own state, "tracks" for its track buffers, "all" for both.

        Raises:
            LifecycleError: there is no such request.
            ValueError: `what` is something else.
        """
        tenant = self._tenant("give_back", request)
        if what not in ("own", "tracks", "all"):
            raise ValueError(f"what is {what!r}; it is 'own', 'tracks' or 'all'. Nothing was changed.")
        own = [slot for slot in tenant.slots if slot == tenant.own]
        tracks = [slot for slot in tenant.slots if slot != tenant.own]
        self._free_active(tenant, {"own": own, "tracks": tracks, "all": tracks + own}[what])
        self._done("give_back")

    def retract(self, request: int) -> None:
        """A running request goes back to the queue, without its active slots. Locks and donations stay.

        Raises:
            LifecycleError: it does not run.
        """
        tenant = self._tenant("retract", request)
        if not tenant.is_running:
            self._refuse("retract", f"{tenant}; only a running one goes back to the queue")
        self._free_active(tenant, tenant.slots)
        tenant.is_running = False
        self._told("retract", tenant.number)

    def finish(self, request: int) -> None:
        """A request ends, at whatever point: slots are given back, donations dropped, locks released.

        A donation whose copy is in flight is still to be completed.

        Raises:
            LifecycleError: there is no such request.
        """
        tenant = self._tenant("finish", request)
        self._enter()
        self._free_active(tenant, tenant.slots)
        for donation in list(tenant.donations.values()):
            self._let_go(donation)
        for lock in list(tenant.locks.values()):
            self._release(lock)
        del self._tenants[tenant.number]
        self._told("leave", tenant.number)

    def _free_active(self, tenant: Tenant, slots: list[int]) -> None:
        """Active slots of a request are free, or pending where copies in flight read them."""
        read = {donation.active for donation in self._flying}
        unread = [slot for slot in slots if slot not in read]
        self.states.free(unread[0] if len(unread) == 1 else unread)
        for slot in slots:
            if slot != tenant.own:
                tenant.latest, tenant.spare = (tenant.spare, None) if slot == tenant.latest else (tenant.latest, None)
                self._tracks -= 1
            else:
                tenant.own = None
                self._queued -= not tenant.is_running
                self._running -= tenant.is_running
            del self._holders[slot], self._positions[slot]
            self._waiting += slot in read
            self._note("retire_active" if slot in read else "release", tenant.number, slot)
        for donation in self._flying:
            donation._pending |= donation.active in slots

    # ------------------------------------------------------------------------------------------------------- donations

    def donate(self, request: int, source: Source = "own", stream: Any = None) -> Donation | None:
        """A request's state is stored in a free checkpoint slot, for the cache.

        Args:
            request: a waiting or running one.
            source: "own" for its own state, "track" for that of its latest track buffer.
            stream: None for home; another one as for `UnifiedPool.begin_step`.

        Returns:
            The donation, to be published or dropped; on another stream, to be completed before. None where no slot is
            free: that request goes on without.

        Raises:
            LifecycleError: the request has no such state, or has computed nothing of it.
            StepError: nobody has written the state, or an open step must be launched before.
            ValueError: `source` is something else.
        """
        self._enter()
        tenant = self._tenant("donate", request)
        active = self._source(tenant, source)
        length = self._computed("donate", request, active)
        self._bytes.check_source(active, stream)
        checkpoint = self.checkpoints._pool._alloc_one(self.checkpoints._table)
        if checkpoint is None:
            return None
        try:
            copy = self._bytes.store(active, checkpoint, stream)
        except BaseException:
            self.checkpoints.free(checkpoint)
            raise
        donation = Donation(self, tenant.number, active, checkpoint, length, copy)
        tenant.donations[checkpoint] = self._donors[checkpoint] = donation
        if copy is not None:
            self._flying.append(donation)
        self._note("begin_store", tenant.number, active, checkpoint)
        if copy is None:
            self._note_end(checkpoint)
        self._done("donate")
        return donation

    def _note_end(self, checkpoint: int) -> None:
        """A store is over: all parts have arrived."""
        self._note_parts("store_part", checkpoint)
        self._note("end_store", checkpoint)

    def _source(self, tenant: Tenant, source: str) -> int:
        if source not in ("own", "track"):
            raise ValueError(f"source is {source!r}; it is 'own' or 'track'. Nothing was changed.")
        active = tenant.own if source == "own" else tenant.latest
        if active is None:
            what = "slot of its own" if source == "own" else "track buffers"
            self._refuse("donate", f"request {tenant.number} has no {what}")
        return active

    def _complete(self, donation: Donation) -> None:
        copy = donation._copy
        if copy is None:
            self._refuse("complete", f"{donation!r} is not in flight; complete it once, and at home never")
        copy.complete()
        donation._copy = None
        self._flying.remove(donation)
        self._note_end(donation.checkpoint)
        if donation.phase is DonationPhase.STORING:
            donation.phase = DonationPhase.STORED
        else:
            self.checkpoints.free(donation.checkpoint)
            self._parked -= 1
            self._note("reclaim_checkpoint", donation.checkpoint)
        if donation._pending and all(other.active != donation.active for other in self._flying):
            self.states.free(donation.active)
            self._waiting -= 1
            self._note("reclaim_active", donation.active)
        self._done("complete")

    def _publish(self, donation: Donation, node: int) -> None:
        self._drive()
        if donation.phase is not DonationPhase.STORED:
            self._refuse("publish", f"{donation!r}; publish it once, after its copy is complete")
        place = self._place("publish", node)
        if place.checkpoint is not None:
            self._refuse("publish", f"node {node} has the checkpoint {place.checkpoint}; drop the donation")
        if place.length != donation.length:
            self._refuse("publish", f"node {node} has a key of {place.length} tokens, the state {donation.length}")
        place.checkpoint, place.stored = donation.checkpoint, donation.length
        self._nodes[donation.checkpoint] = place.number
        self._forget(donation)
        donation.phase = DonationPhase.PUBLISHED
        self._told("publish", donation.request, donation.checkpoint, place.number)

    def _drop(self, donation: Donation) -> None:
        self._drive()
        if donation.phase not in (DonationPhase.STORING, DonationPhase.STORED):
            self._refuse("drop", f"{donation!r}; drop it once, and not after it was published")
        self._let_go(donation)
        self._done("drop")

    def _let_go(self, donation: Donation) -> None:
        """A donation is given up: its slot is free, or pending until the copy into it is over."""
        if not donation.is_in_flight:
            self.checkpoints.free(donation.checkpoint)
        self._forget(donation)
        donation.phase = DonationPhase.DROPPED
        self._parked += donation.is_in_flight
        self._note("retire_checkpoint" if donation.is_in_flight else "drop", donation.request, donation.checkpoint)

    def _forget(self, donation: Donation) -> None:
        """The request has the donation no longer."""
        del self._donors[donation.checkpoint]
        del self._tenants[donation.request].donations[donation.checkpoint]

    def clear(self) -> None:
        """Back to a new pool: all slots are free, and requests, nodes, locks and donations gone; no byte is touched.

        Slots that are free already, because the pools below were cleared first, are in nobody's way.

        Raises:
            LifecycleError: a donation is in flight.
        """
        self._enter()
        if self._flying:
            self._refuse("clear", f"{len(self._flying)} donations are in flight, {self._flying[0]!r} first")
        _free_live(self.states, self._holders)
        _free_live(self.checkpoints, [*self._donors, *self._nodes])
        for donation in self._donors.values():
            donation.phase = DonationPhase.DROPPED
        for tenant in self._tenants.values():
            for lock in tenant.locks.values():
                lock.is_held = False
        self._reset()
        self._told("clear")

    # --------------------------------------------------------------------------------------------------------- queries

    def in_flight(self) -> tuple[Donation, ...]:
        """The donations whose copies are in flight, dropped ones too, in the order in which they began."""
        return tuple(self._flying)

    def position(self, request: int) -> int:
        """Tokens that the request's own state has seen.

        Raises:
            LifecycleError: there is no such request, or it has no slot.
        """
        tenant = self._tenant("position", request)
        if tenant.own is None:
            self._refuse("position", f"request {request} has no slot of its own")
        return self._positions[tenant.own]

    def slot_of(self, request: int) -> int | None:
        """The slot of a request's own state; None without one.

        Raises:
            LifecycleError: there is no such request.
        """
        return self._tenant("slot_of", request).own

    def check(self) -> list[Violation]:
        """Every claim about both pools, one by one and together, and about what is below them; [] means healthy."""
        from poolproof.checkpoint_check import check_all

        return check_all(self)

    def check_states(self) -> list[Violation]:
        """The claims about active slots and requests alone."""
        from poolproof.checkpoint_check import check_states

        return check_states(self)

    def check_checkpoints(self) -> list[Violation]:
        """The claims about checkpoint slots, nodes and locks alone."""
        from poolproof.checkpoint_check import check_checkpoints

        return check_checkpoints(self)

    def stats(self) -> CheckpointStats:
        """Slots of both pools by owner."""
        from poolproof.checkpoint_reports import checkpoint_stats

        return checkpoint_stats(self)

    def snapshot(self) -> CheckpointSnapshot:
        """Who owns what, in plain ints."""
        from poolproof.checkpoint_reports import checkpoint_snapshot

        return checkpoint_snapshot(self)

    def __reduce__(self) -> NoReturn:
        """A pool is not copied or pickled: its slots would have two owners."""
        raise TypeError("a CheckpointPool cannot be copied or pickled; make a new one")


def _free_live(sub_pool: SubPool, slots: Iterable[int]) -> None:
    """Free those of these slots that are live."""
    physical = sub_pool._table.physical
    sub_pool.free([slot for slot in slots if physical[slot] > 0])


def _pairs(sources: Ids, targets: Ids) -> tuple[Any, Any]:
    """Ids of as many copies."""
    pairs = as_ids(sources), as_ids(targets)
    if len(pairs[0]) != len(pairs[1]):
        raise ValueError(f"{len(pairs[0])} slots to {len(pairs[1])}: give as many of either. Nothing was changed.")
    return pairs
