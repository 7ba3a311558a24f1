"""Runs a trace of operations against a target in lockstep with the spec, steps in flight included."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from poolproof.fuzz.binding import Binding
from poolproof.fuzz.coverage import Coverage
from poolproof.fuzz.divergence import Diverged
from poolproof.fuzz.events import Event, Schedule, ScheduledEvents
from poolproof.fuzz.lockstep import Lockstep
from poolproof.fuzz.operations import (
    Alloc,
    Clear,
    CloseGroup,
    Free,
    OpenGroup,
    Operation,
    PickKind,
    Picks,
    Reclaim,
    Retire,
    Take,
    Transfer,
    TryAlloc,
    name_of,
)
from poolproof.fuzz.picks import resolve
from poolproof.spec.slots import Owner

T = TypeVar("T")
HEALTH_EVERY: Final = 250
"""How many operations lie between two checks of all invariants."""

_OWNERS: Final = {owner.name.lower(): owner for owner in Owner}


class Flight:
    """A step in flight: its event, and the slots that become free when it completes."""

    __slots__ = ("event", "slots")

    def __init__(self, event: Event) -> None:
        self.event = event
        self.slots: list[int] = []


class Driver:
    """One run: a new target, a trace of operations, and a schedule of when steps in flight complete.

    An operation that the target cannot do, or that breaks a promise it does not make, is skipped and counted. After
    each operation the clock ticks once, and each step that completes has its slots reclaimed.

    Args:
        binding: the target, new.
        slots: its number of usable slots.
        schedule: how long steps in flight take.
        coverage: where to count.

    Raises:
        Diverged: the new target is not in the spec's initial state.
    """

    def __init__(self, binding: Binding, slots: int, schedule: Schedule, coverage: Coverage | None = None) -> None:
        self.coverage = coverage if coverage is not None else Coverage()
        self.number = 0
        self._slots = slots
        self._can = binding.profile.capabilities
        self._promises = binding.profile.promises
        self._declines = bool(binding.profile.unclaimed)
        self._events = ScheduledEvents(schedule)
        self._flights: list[Flight] = []
        self._fences: dict[int, Flight] = {}
        self._until_health = HEALTH_EVERY
        self.lockstep = self._numbering(lambda: Lockstep(binding, slots, self.coverage))

    @property
    def checked(self) -> int:
        """How many operations have been done or refused, and compared."""
        return self.lockstep.checked

    def run(self, operations: Iterable[Operation]) -> None:
        """Run a whole trace and the closing check.

        Raises:
            Diverged: at the first difference.
        """
        for operation in operations:
            self.step(operation)
        self.close()

    def step(self, operation: Operation) -> None:
        """Run one operation, let the clock tick, and reclaim what has become due.

        Raises:
            Diverged: the target and the spec part.
        """
        self.number += 1
        self._numbering(lambda: self._step(operation))

    def _step(self, operation: Operation) -> None:
        self._do(operation)
        self._tick()
        self._until_health -= 1
        if not self._until_health:
            self._until_health = HEALTH_EVERY
            self.lockstep.check_health()

    def close(self) -> None:
        """The closing check: all work ends, everything is given back, and the whole pool can be had once more.

        Raises:
            Diverged: the target and the spec part; a leak shows here at the latest.
        """
        self.number += 1
        self._numbering(self._close, "closing check: ")

    def _numbering(self, work: Callable[[], T], prefix: str = "") -> T:
        """Do the work; a divergence gets the number of the operation in the trace."""
        try:
            return work()
        except Diverged as error:
            found = error.divergence
            numbered = replace(found, number=self.number, operation=prefix + found.operation)
            raise Diverged(numbered) from error.__cause__

    def _close(self) -> None:
        self._events.finish()
        self._reclaim_due()
        state = self.lockstep.state
        if state.group_is_open:
            self._count("close_group", self.lockstep.close_group())
        for holder in sorted(set(state.holder.values()) - {-1}):
            self._free([slot for slot, has in state.holder.items() if has == holder], holder)
        ids = self.lockstep.alloc(self._slots, 0)
        self._count("alloc", ids is not None)
        if ids is not None:
            self._free(ids, 0)
        self.lockstep.check_health()

    def _free(self, ids: list[int], holder: int) -> None:
        self._count("free", self.lockstep.free(ids, holder))

    def _count(self, name: str, accepted: bool) -> None:
        counts = self.coverage.done if accepted else self.coverage.refused
        counts[name] += 1

    # --------------------------------------------------------------------------------------------------- operations

    def _do(self, operation: Operation) -> None:
        name = name_of(operation)
        need, run = _RUNS[name]
        if operation.pool or (need and need not in self._can):
            self.coverage.skipped[name] += 1
            return
        accepted = run(self, operation)
        if accepted is None:
            self.coverage.skipped[name] += 1
        else:
            self._count(name, accepted)

    def _holder(self, holder: int) -> int | None:
        """The holder to act for; None where the target promises nothing about it."""
        if "holders" not in self._can:
            return 0
        return None if holder < 0 and "bad_holder" not in self._promises else holder

    def _pick(self, picks: Picks, holder: int, good: PickKind) -> list[int]:
        if self._declines:
            picks = tuple(pick for pick in picks if pick.kind is good or pick.kind in self._promises)
        return resolve(picks, holder, self.lockstep.state)

    def _alloc(self, operation: Alloc | TryAlloc) -> bool | None:
        holder = self._holder(operation.holder)
        if holder is None:
            return None
        n = operation.n + (self.lockstep.state.free_slots.size if operation.beyond else 0)
        return self.lockstep.alloc(n, holder, type(operation) is TryAlloc) is not None

    def _take(self, operation: Take) -> bool | None:
        holder = self._holder(operation.holder)
        if holder is None:
            return None
        n = operation.n + (self.lockstep.state.reserved_slots.size if operation.beyond else 0)
        return self.lockstep.take(n, holder) is not None

    def _open_group(self, operation: OpenGroup) -> bool:
        n = operation.n + (self.lockstep.state.free_slots.size if operation.beyond else 0)
        return self.lockstep.open_group(n) is not None

    def _give_back(self, operation: Free) -> bool | None:
        holder = self._holder(operation.holder)
        if holder is None:
            return None
        return self.lockstep.free(self._pick(operation.picks, holder, PickKind.MINE), holder)

    def _retire(self, operation: Retire) -> bool | None:
        holder = self._holder(operation.holder)
        if holder is None:
            return None
        ids = self._pick(operation.picks, holder, PickKind.MINE)
        accepted = self.lockstep.retire(ids, holder)
        if accepted and ids:
            flight = self._flight(operation.step)
            flight.slots += ids
            self._fences.update(dict.fromkeys(ids, flight))
        return accepted

    def _reclaim(self, operation: Reclaim) -> bool:
        ids = self._pick(operation.picks, -1, PickKind.PENDING)
        accepted = self.lockstep.reclaim(ids)
        if accepted:
            for slot in ids:
                self._fences.pop(slot, None)
        return accepted

    def _transfer(self, operation: Transfer) -> bool | None:
        holder, heir = self._holder(operation.holder), self._holder(operation.heir)
        if holder is None or heir is None:
            return None
        ids, to = self._pick(operation.picks, holder, PickKind.MINE), _OWNERS[operation.to]
        if "bad_owner" not in self._promises and operation.to not in ("request", "cache"):
            return None
        owner: dict[Any, Owner] = self.lockstep.state.owner
        if "unchanged" not in self._promises and heir == holder and any(owner.get(slot) == to for slot in ids):
            return None
        return self.lockstep.transfer(ids, holder, to, heir)

    def _close_group(self, operation: CloseGroup) -> bool:
        return self.lockstep.close_group()

    def _clear(self, operation: Clear) -> bool:
        accepted = self.lockstep.clear()
        if accepted:
            self._flights.clear()
            self._fences.clear()
        return accepted

    # ----------------------------------------------------------------------------------------------- steps in flight

    def _flight(self, step: int) -> Flight:
        at = step % (len(self._flights) + 1)
        if at == len(self._flights):
            self._flights.append(Flight(self._events.record()))
        return self._flights[at]

    def _tick(self) -> None:
        self._events.advance()
        if self._flights:
            self._reclaim_due()

    def _reclaim_due(self) -> None:
        """Reclaim what each completed step still fences; slots reclaimed out of turn, or cleared, are not among it."""
        for flight in [flight for flight in self._flights if flight.event.is_complete()]:
            self._flights.remove(flight)
            ids = [slot for slot in dict.fromkeys(flight.slots) if self._fences.get(slot) is flight]
            for slot in ids:
                del self._fences[slot]
            if ids:
                self._count("reclaim", self.lockstep.reclaim(ids))


_RUNS: Final[dict[str, tuple[str, Callable[[Driver, Any], bool | None]]]] = {
    "alloc": ("", Driver._alloc),
    "try_alloc": ("try_alloc", Driver._alloc),
    "free": ("", Driver._give_back),
    "retire": ("retire", Driver._retire),
    "reclaim": ("retire", Driver._reclaim),
    "transfer": ("transfer", Driver._transfer),
    "open_group": ("groups", Driver._open_group),
    "take": ("groups", Driver._take),
    "close_group": ("groups", Driver._close_group),
    "clear": ("clear", Driver._clear),
}
"""By operation: the capability that it needs, and how it is run. None means that it was skipped."""
