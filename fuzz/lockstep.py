"""One target and the spec in lockstep: each operation is done by both, and both must end in the same state.

What the target chose (which slots) goes into the spec's action as its chosen parameter, and the spec says whether that
was allowed. What one refuses, the other must refuse. A call with nothing in it (zero slots, no ids) may be refused or
not, but must change nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn

from poolproof.fuzz import operations as language
from poolproof.fuzz.binding import Binding, Crashed
from poolproof.fuzz.comparison import LISTED, Difference, find_difference
from poolproof.fuzz.divergence import Divergence
from poolproof.fuzz.events import Schedule, ScheduledEvents
from poolproof.fuzz.operations import Operation, PickKind, name_of
from poolproof.fuzz.picks import resolve
from poolproof.fuzz.steps import StepsInFlight
from poolproof.fuzz.tally import Tally
from poolproof.fuzz.targets import PROMISES, Profile
from poolproof.spec import slots as spec
from poolproof.spec.language import Refused
from poolproof.spec.slots import SPEC, Owner

_OWNERS: Final = {owner.name.lower(): owner for owner in Owner}
_TENANTS: Final = (Owner.REQUEST, Owner.CACHE)
_TAGS: Final = {item.name: item.tags[0] for item in SPEC.invariants}


class Lockstep:
    """A new target beside the spec's initial state.

    Args:
        target: the allocator, with `slots` usable slots.
        profile: what it offers and promises; the rest is left out.
        slots: number of usable slots.
        schedule: when steps in flight complete; the clock ticks once an operation.
        check_every: the spec's invariants and the target's own checker are evaluated after this many operations
            (0: a number in proportion to the size of the pool, for their cost grows with it) and at the end.
    """

    def __init__(self, target: Any, profile: Profile, slots: int, schedule: Schedule, check_every: int = 0) -> None:
        self.profile = profile
        self.state = SPEC.initial(total=slots + 1)
        self.tally = Tally()
        self._binding = Binding(target, profile)
        self._events = ScheduledEvents(schedule)
        self._steps = StepsInFlight(self._events)
        self._number = 0
        self._check_every = check_every or max(16, 6 * slots)
        self._unchecked = 0
        self._action = "create"
        self._told: Callable[[], str] = lambda: "a new pool"
        capabilities, promises = profile.capabilities, profile.promises
        self._holders = "holders" in capabilities
        self._snapshot = target.snapshot if "snapshot" in capabilities else None
        self._available = target.available if "available" in capabilities else None
        self._checker = target.check if "check" in capabilities else None
        self._all_promised = promises == PROMISES
        self._compare()

    # --------------------------------------------------------------------------------------------------- operations

    def apply(self, operation: Operation) -> None:
        """Do one operation on both sides and compare them; then reclaim what the steps that are now over held.

        Raises:
            Divergence: they disagree. Neither side can be used any more.
        """
        name = name_of(operation)
        lacking = self._lacking(operation, name)
        if lacking:
            self.tally.skipped[lacking] += 1
        else:
            self.tally.operations[name] += 1
            try:
                _HANDLERS[type(operation)](self, operation)
            except Crashed as crash:
                self._diverge("crash", (), str(crash), "a result or a refusal", "")
            self._compare()
        self._number += 1
        self._events.now += 1
        self._reclaim_completed()

    def finish(self) -> None:
        """End the run: all steps complete, everybody gives back what he has, and then every slot can be had once.

        Raises:
            Divergence: they disagree.
        """
        self._events.finish()
        self._reclaim_completed()
        pending = [slot for slot, owner in self.state.owner.items() if owner == Owner.PENDING]
        if pending:
            self._run(lambda: self._give_back("reclaim", pending, 0))
        if self.state.group_is_open:
            self.apply(language.CloseGroup())
        for holder in sorted(set(self.state.holder.values()) - {spec.NOBODY}):
            mine = [slot for slot, has in self.state.holder.items() if has == holder]
            self._run(lambda mine=mine, holder=holder: self._give_back("free", mine, holder))  # type: ignore[misc]
        self.apply(language.Alloc(n=0, beyond=True))
        self.apply(language.Alloc(n=1))
        self._check()

    def _run(self, step: Callable[[], None]) -> None:
        try:
            step()
        except Crashed as crash:
            self._diverge("crash", (), str(crash), "a result or a refusal", "")
        self._compare()

    def _reclaim_completed(self) -> None:
        for slots in self._steps.complete():
            self._run(lambda slots=slots: self._give_back("reclaim", slots, 0))  # type: ignore[misc]

    def _lacking(self, operation: Any, name: str) -> str:
        """The capability or promise without which this operation means nothing for the target, or ""."""
        needs = _NEEDS.get(name)
        if needs is not None and needs not in self.profile.capabilities:
            return needs
        if self._all_promised:
            return ""
        promises = self.profile.promises
        fine = PickKind.PENDING if name == "reclaim" else PickKind.MINE
        for pick in getattr(operation, "picks", ()):
            if pick.kind is not fine and pick.kind is not PickKind.MINE and pick.kind not in promises:
                return str(pick.kind)
        if min(getattr(operation, "holder", 0), getattr(operation, "heir", 0)) < 0 and "bad_holder" not in promises:
            return "bad_holder"
        if name == "transfer" and "bad_owner" not in promises and _OWNERS[operation.to] not in _TENANTS:
            return "bad_owner"
        return ""

    # ------------------------------------------------------------------------------------------------- handing out

    def _alloc(self, op: language.Alloc | language.TryAlloc) -> None:
        free = self.state.free_slots.size
        n, holder = op.n + free if op.beyond else op.n, self._holder(op.holder)
        optional = type(op) is language.TryAlloc
        self._tell("try_alloc" if optional else "alloc", lambda: f"alloc {n} for {holder}")
        given = (self._binding.try_alloc if optional else self._binding.alloc)(n, holder)
        if optional and given is None and self._binding.raised and holder >= 0:
            self._diverge("verdict", (), f"raised {self._binding.refusal}", "None", "I4")
        self._hand_out("alloc", given, n, n <= free and holder >= 0, (spec.alloc_batch, holder))

    def _take(self, op: language.Take) -> None:
        held = self.state.reserved_slots.size
        n, holder = op.n + held if op.beyond else op.n, self._holder(op.holder)
        self._tell("take", lambda: f"take {n} for {holder}")
        self._hand_out("take", self._binding.take(n, holder), n, n <= held and holder >= 0, (spec.take_batch, holder))

    def _open_group(self, op: language.OpenGroup) -> None:
        state = self.state
        n = op.n + state.free_slots.size if op.beyond else op.n
        self._tell("open_group", lambda: f"open a group of {n}")
        given = self._binding.open_group(n)
        if state.group_is_open:
            if given is not None:
                self._diverge("verdict", (), f"opened a group of {given}", "refused: a group is open", "I4")
            self.tally.refused["open_group"] += 1
            return
        possible = n <= state.free_slots.size
        if given is not None:
            spec.open_group(state)
            self.tally.done["open_group"] += 1
        self._hand_out("reserve", given, n, possible, (spec.reserve_batch,))

    def _hand_out(self, action: str, given: list[int] | None, n: int, possible: bool, step: tuple[Any, ...]) -> None:
        """The target was asked for n slots and gave these; `step` is the spec's batch and what precedes the slots."""
        if given is None:
            if possible and n:
                self._diverge("verdict", (), f"refused: {self._binding.refusal}", "allowed", "I4")
            if n:
                self.tally.refused[action] += 1
            return
        if len(given) != n:
            self._diverge("given", given, f"{len(given)} ids", f"{n} ids", "I4")
        try:
            step[0](self.state, *step[1:], given)
        except Refused:
            self._diverge("verdict", given, "handed out", self._standing(given), "I1" if possible else "I4")
        if n:
            self.tally.done[action] += 1

    # ------------------------------------------------------------------------------------------------- giving back

    def _free(self, op: language.Free) -> None:
        holder = self._holder(op.holder)
        self._give_back("free", resolve(op.picks, holder, self.state), holder)

    def _retire(self, op: language.Retire) -> None:
        holder = self._holder(op.holder)
        ids = resolve(op.picks, holder, self.state)
        if self._give_back("retire", ids, holder) and ids:
            self._steps.hold(ids, op.step)

    def _reclaim(self, op: language.Reclaim) -> None:
        self._give_back("reclaim", resolve(op.picks, 0, self.state), 0)

    def _give_back(self, action: str, ids: list[int], holder: int) -> bool:
        """Have both sides take these ids back; whether they did."""
        state = self.state
        if action == "reclaim":
            self._tell(action, lambda: f"reclaim {ids}")
            accepted = self._binding.reclaim(ids)
            return self._agree(action, accepted, ids, (spec.reclaim_batch, state, ids)) and self._reclaimed(ids)
        self._tell(action, lambda: f"{action} {ids} of {holder}")
        call = self._binding.free if action == "free" else self._binding.retire
        batch = spec.free_batch if action == "free" else spec.retire_batch
        return self._agree(action, call(ids, holder), ids, (batch, state, holder, ids))

    def _reclaimed(self, ids: list[int]) -> bool:
        self._steps.forget(ids)
        return True

    def _transfer(self, op: language.Transfer) -> None:
        holder, heir, to, state = op.holder, op.heir, _OWNERS[op.to], self.state
        ids = resolve(op.picks, holder, state)
        if heir == holder and "unchanged" not in self.profile.promises and any(_owner(state, s) == to for s in ids):
            self.tally.skipped["unchanged"] += 1
            return
        self._tell("transfer", lambda: f"transfer {ids} of {holder} to {op.to} {heir}")
        accepted = self._binding.transfer(ids, holder, to, heir)
        self._agree("transfer", accepted, ids, (spec.transfer_batch, state, holder, ids, to, heir))

    def _close_group(self, op: language.CloseGroup) -> None:
        self._tell("close_group", lambda: "close the group")
        self._agree("close_group", self._binding.close_group(), (), (spec.close_group, self.state))

    def _clear(self, op: language.Clear) -> None:
        self._tell("clear", lambda: "clear")
        if self._agree("clear", self._binding.clear(), (), (spec.clear, self.state)):
            self._steps.forget_all()

    def _agree(self, action: str, accepted: bool, ids: list[int] | tuple[()], step: tuple[Any, ...]) -> bool:
        """Run the spec's step where the target accepted; where it refused, the spec must refuse too."""
        empty = type(ids) is list and not ids
        if empty:
            return False
        try:
            step[0](*step[1:])
        except Refused:
            if accepted:
                self._diverge("verdict", ids, "accepted", f"refused: {self._standing(ids)}", _THEOREM_OF[action])
            self.tally.refused[action] += 1
            return False
        if not accepted:
            self._diverge("verdict", ids, f"refused: {self._binding.refusal}", "allowed", _THEOREM_OF[action])
        self.tally.done[action] += 1
        return True

    # ---------------------------------------------------------------------------------------------------- comparing

    def _compare(self) -> None:
        self.tally.checked += 1
        if self._snapshot is not None:
            try:
                found = find_difference(self._snapshot(), self.state)
            except Exception as error:
                self._diverge("crash", (), f"snapshot raised {type(error).__name__}: {error}", "a snapshot", "")
            if found is not None:
                raise Divergence(self._number, self._action, self._told(), found)
        if self._available is not None and self._available() != self.state.free_slots.size:
            self._diverge("available", (), self._available(), self.state.free_slots.size, "I4")
        if self._binding.handles is not None:
            changed = self._binding.handles.find_changed()
            if changed is not None:
                self._diverge("handles", (), f"{changed[1]} now", f"{changed[0]} as handed out", "I3")
        self._unchecked += 1
        if self._unchecked >= self._check_every:
            self._check()

    def _check(self) -> None:
        """The spec's invariants, and the target's own checker."""
        self._unchecked = 0
        for name in SPEC.violations(self.state):
            self._diverge("invariant", (), name, "holds", _TAGS[name])
        for found in self._checker() if self._checker is not None else ():
            self._diverge("check", (), str(found), "nothing wrong", str(getattr(found, "theorem", "")))

    def _holder(self, holder: int) -> int:
        return holder if self._holders else 0

    def _tell(self, action: str, told: Callable[[], str]) -> None:
        self._action, self._told = action, told

    def _standing(self, ids: list[int] | tuple[()]) -> list[str]:
        """What the spec says of each of these ids."""
        state = self.state
        return [_standing(state, slot) + (", twice" if ids.count(slot) > 1 else "") for slot in ids[:LISTED]]

    def _diverge(self, field: str, ids: Any, target: Any, wanted: Any, theorem: str) -> NoReturn:
        raise Divergence(
            self._number, self._action, self._told(), Difference(field, tuple(ids[:LISTED]), target, wanted, theorem)
        )


def _owner(state: spec.Slots, slot: int) -> Owner | None:
    return dict.get(state.owner, slot)  # type: ignore[arg-type]


def _standing(state: spec.Slots, slot: int) -> str:
    owner = _owner(state, slot)
    if owner is None:
        return f"{slot} is no slot"
    whose = f" of {state.holder[slot]}" if owner in _TENANTS else ""  # type: ignore[index]
    return f"{slot} is {owner.name}{whose}"


_NEEDS: Final = {
    "try_alloc": "try_alloc",
    "retire": "retire",
    "reclaim": "retire",
    "transfer": "transfer",
    "open_group": "groups",
    "take": "groups",
    "close_group": "groups",
    "clear": "clear",
}
_THEOREM_OF: Final = {
    "free": "I2",
    "retire": "I2",
    "reclaim": "I2",
    "transfer": "I2",
    "close_group": "I4",
    "clear": "I25",
}
_HANDLERS: Final[dict[type[Operation], Callable[[Lockstep, Any], None]]] = {
    language.Alloc: Lockstep._alloc,
    language.TryAlloc: Lockstep._alloc,
    language.Free: Lockstep._free,
    language.Retire: Lockstep._retire,
    language.Reclaim: Lockstep._reclaim,
    language.Transfer: Lockstep._transfer,
    language.OpenGroup: Lockstep._open_group,
    language.Take: Lockstep._take,
    language.CloseGroup: Lockstep._close_group,
    language.Clear: Lockstep._clear,
}
