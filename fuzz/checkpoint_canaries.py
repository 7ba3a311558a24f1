"""Checkpoint pools that are broken on purpose, each in one way: the fuzzer must find them.

In some it is what the pool notes that is wrong, in others what it refuses, its copies, or a pool below it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Final, Literal

from poolproof.arguments import Ids
from poolproof.checkpoint_bytes import Copy, Kernel
from poolproof.checkpoint_owners import Donation, DonationPhase, Lock, Tenant
from poolproof.checkpoint_pool import CheckpointPool
from poolproof.fuzz.cache_canaries import (
    AnyLengthWillDo,
    ForgetsConvWindows,
    ForgetsLocks,
    ForgetsToTrack,
    LosesTheSlotOfAFailedHit,
    LosesTheSlotOfAFailedStore,
)
from poolproof.fuzz.cache_world import Make
from poolproof.fuzz.unified_canaries import KeepsNothingForSteps, WaitsForNobody

# ------------------------------------------------------------------------------------------------- copies in flight


class FreesWhatIsRead(CheckpointPool):
    """A slot that a donation still copies from is free as soon as it is given back."""

    def _free_active(self, tenant: Tenant, slots: list[int]) -> None:
        flying, self._flying = self._flying, []
        try:
            super()._free_active(tenant, slots)
        finally:
            self._flying = flying


class FreesWithTheFirstCopy(CheckpointPool):
    """Of several donations from one slot the first that is complete frees it."""

    def _complete(self, donation: Donation) -> None:
        active = donation.active
        others = [one for one in self._flying if one is not donation and one.active == active]
        for one in others:
            one.active = -1
        try:
            super()._complete(donation)
        finally:
            for one in others:
                one.active = active


class FreesWhatIsStored(CheckpointPool):
    """A donation that is dropped in flight has its slot free at once."""

    def _let_go(self, donation: Donation) -> None:
        copy, donation._copy = donation._copy, None
        super()._let_go(donation)
        donation._copy = copy
        if copy is not None:
            self._parked += 1

    def _complete(self, donation: Donation) -> None:
        is_dropped, free = donation.phase is DonationPhase.DROPPED, self.checkpoints._pool._free
        if is_dropped:
            self.checkpoints._pool._free = lambda table, ids: None  # type: ignore[method-assign]
        try:
            super()._complete(donation)
        finally:
            self.checkpoints._pool._free = free  # type: ignore[method-assign]


class PublishesInFlight(CheckpointPool):
    """A donation is published before its copy is complete."""

    def _publish(self, donation: Donation, node: int) -> None:
        if donation.phase is DonationPhase.STORING:
            donation.phase = DonationPhase.STORED
        super()._publish(donation, node)


class AdvancesWhatIsRead(CheckpointPool):
    """A request computes on while its state is copied."""

    def _check_unread(self, operation: str, active: int) -> None:
        pass


class ForgetsWhatWasDropped(CheckpointPool):
    """Nobody is told of a dropped donation that is in flight."""

    def in_flight(self) -> tuple[Donation, ...]:
        """As it should be, but for those."""
        return tuple(one for one in self._flying if one.phase is not DonationPhase.DROPPED)


class LeavesFailedCopiesInFlight(CheckpointPool):
    """A copy on another stream that has failed is never over."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        end = self._bytes._end
        self._bytes._end = lambda steps, failed=False: end(steps)  # type: ignore[method-assign]


# ------------------------------------------------------------------------------------------------- books, refusals


class ReleasesTheOtherScope(CheckpointPool):
    """A lock of the pages releases one of the state, where there is any."""

    def _release(self, lock: Lock) -> None:
        super()._release(lock)
        place = self._places[lock.node]
        if lock.scope == "pages" and place.state:
            place.pages, place.state = place.pages + 1, place.state - 1


class EvictsWhatIsLocked(CheckpointPool):
    """A lock keeps no checkpoint."""

    def evict(self, node: int) -> None:
        """As it should be, but for locks."""
        place = self._place("evict", node)
        held, place.state = place.state, 0
        try:
            super().evict(node)
        finally:
            place.state = held


class RetractsLocks(CheckpointPool):
    """A request that goes back to the queue loses its locks."""

    def retract(self, request: int) -> None:
        """As it should be, and more."""
        super().retract(request)
        for lock in list(self._tenants[request].locks.values()):
            self._unlock(lock)


class GivesBackTooMuch(CheckpointPool):
    """Whoever gives back track buffers loses its own state too."""

    def give_back(self, request: int, what: Literal["own", "tracks", "all"] = "all") -> None:
        """Everything goes."""
        super().give_back(request, "all" if what == "tracks" else what)


class RevivesDonations(CheckpointPool):
    """What was donated before a `clear` can be published after it."""

    def clear(self) -> None:
        """As it should be, but for donations."""
        donors = list(self._donors.values())
        super().clear()
        for donation in donors:
            donation.phase = DonationPhase.STORED


class StoresOverCheckpoints(CheckpointPool):
    """Others may write over the checkpoint of a node."""

    def _owner(self, checkpoint: int) -> str | None:
        return None


class LoadsOverStates(CheckpointPool):
    """Others may load a checkpoint into the slot of a request."""

    def load_to_active(self, checkpoints: Ids, active: Ids, stream: Any = None) -> Copy | None:
        """Nobody is asked."""
        holders, self._holders = self._holders, {}
        try:
            return super().load_to_active(checkpoints, active, stream)
        finally:
            self._holders = holders


# ------------------------------------------------------------------------------------------------------- bytes alone


class TracksOverTheLatest(CheckpointPool):
    """A track is written over the last one, and noted as if it were in the other buffer."""

    def track(self, request: int) -> int:
        """As it should be, but for the place of the bytes."""
        copies, plain = self._bytes, self._bytes.copy
        latest = self._tenants[request].latest if request in self._tenants else None
        if latest is not None:
            copies.copy = lambda source, target: plain(source, latest)  # type: ignore[method-assign]
        try:
            return super().track(request)
        finally:
            copies.copy = plain  # type: ignore[method-assign]


class HitsTheOldestCheckpoint(CheckpointPool):
    """A hit loads what was published first, whatever node it is of."""

    def hit(self, request: int, node: int) -> int:
        """As it should be, but for the source of the bytes."""
        copies, plain, first = self._bytes, self._bytes.load, next(iter(self._nodes), None)
        if first is not None:
            copies.load = lambda source, target, stream=None: plain(first, target, stream)  # type: ignore
        try:
            return super().hit(request, node)
        finally:
            copies.load = plain  # type: ignore[method-assign]


class _SomeTime(CheckpointPool):
    """Copies of one kind are done on a stream that nobody waits for, when it pleases the device."""

    what = ""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        kernel: Kernel | None = getattr(self._bytes, self.what)
        events: Any = self.states._pool._events

        def late(source: Any, target: Any) -> None:
            """Somewhere else."""
            if kernel is not None:
                events.give(events.streams[-1], partial(kernel, source, target))

        setattr(self._bytes, self.what, late)


class StoresSomeTime(_SomeTime):
    """A checkpoint is stored when it pleases the device."""

    what = "_store"


class LoadsSomeTime(_SomeTime):
    """A checkpoint is loaded when it pleases the device."""

    what = "_load"


class CopiesTheFirst(CheckpointPool):
    """Of several slots that are copied at once only the first one is."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        for what in ("_store", "_load"):
            setattr(self._bytes, what, partial(self._first, getattr(self._bytes, what)))

    @staticmethod
    def _first(kernel: Kernel, source: Any, target: Any) -> None:
        one = isinstance(source, int)
        kernel(source if one else source[:1], target if one else target[:1])


OF_BYTES: Final[tuple[Make, ...]] = tuple(
    Make(cache=None, states=states, has_shadow=False)
    for states in (
        TracksOverTheLatest,
        HitsTheOldestCheckpoint,
        StoresSomeTime,
        LoadsSomeTime,
        CopiesTheFirst,
        ForgetsConvWindows,
        ForgetsToTrack,
    )
)
"""Those whose books are right: a hit, a track or a checkpoint holds other bytes."""

_SHADOWED: Final[tuple[Make, ...]] = (
    *(
        Make(cache=None, states=states)
        for states in (
            FreesWhatIsRead,
            FreesWithTheFirstCopy,
            FreesWhatIsStored,
            PublishesInFlight,
            AdvancesWhatIsRead,
            ForgetsWhatWasDropped,
            LeavesFailedCopiesInFlight,
            ReleasesTheOtherScope,
            EvictsWhatIsLocked,
            RetractsLocks,
            GivesBackTooMuch,
            RevivesDonations,
            StoresOverCheckpoints,
            LoadsOverStates,
            AnyLengthWillDo,
            ForgetsLocks,
            LosesTheSlotOfAFailedHit,
            LosesTheSlotOfAFailedStore,
        )
    ),
    *(Make(cache=None, pool=pool) for pool in (KeepsNothingForSteps, WaitsForNobody)),
)

CANARIES: Final[tuple[Make, ...]] = (*_SHADOWED, *OF_BYTES)
"""Where the spec of the pool may run, it does in some rounds; without it each of these is found too."""

UNSHADOWED: Final[tuple[Make, ...]] = tuple(replace(make, has_shadow=False) for make in _SHADOWED)
