"""One target and the spec, step by step: the target acts and chooses, the spec says whether that was allowed.

What the target chose (which slots) is the spec action's chosen parameter. Both must do the operation or both refuse it.
After every operation the states are compared. A batch of nothing says nothing: a target may do or refuse it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn, TypeVar

from poolproof.fuzz import claims
from poolproof.fuzz.binding import Binding, Crashed
from poolproof.fuzz.claims import Claim
from poolproof.fuzz.comparison import LISTED, Comparison, FullComparison, Mismatch
from poolproof.fuzz.coverage import Coverage
from poolproof.fuzz.divergence import Diverged, Divergence
from poolproof.spec import slots as spec
from poolproof.spec.language import Refused, Roster, item_of
from poolproof.spec.slots import SINK, Owner, Slots

T = TypeVar("T")
_ALLOC: Final = item_of(spec.alloc)
_TAKE: Final = item_of(spec.take)
_RESERVE: Final = item_of(spec.reserve)


class Lockstep:
    """A target and the spec's state beside it. Every method raises `Diverged` at the first difference.

    Args:
        binding: the target, new.
        slots: its number of usable slots.
        coverage: where to count.
        comparison: makes the comparison that follows every operation; everything by default.

    Attributes:
        state: the spec's state.
        checked: operations done or refused, and compared, so far.
    """

    def __init__(
        self,
        binding: Binding,
        slots: int,
        coverage: Coverage,
        comparison: Callable[[Binding, Slots], Comparison] = FullComparison,
    ) -> None:
        self.state = spec.SPEC.initial(total=slots + 1)
        self.checked = 0
        self._binding = binding
        self._coverage = coverage
        self._call: tuple[Any, ...] = ("create", slots)
        self._action = "clear"
        self._comparison = self._comparing(lambda: comparison(binding, self.state))

    # --------------------------------------------------------------------------------------------------- operations

    def alloc(self, n: int, holder: int, attempt: bool = False) -> list[int] | None:
        """Ask for n slots, with `attempt` through `try_alloc`; what was handed out, None where it was refused."""
        self._begin("alloc", "try_alloc" if attempt else "alloc", n, "holder", holder)
        ids = self._called(self._binding.try_alloc if attempt else self._binding.alloc, n, holder)
        if attempt and ids is None and holder >= 0 and self._binding.raised:
            self._fail("verdict", (), f"raised {self._binding.refusal}", "None", claims.CRASHED)
        if ids is None:
            self._check_lack(_ALLOC, self.state.free_slots, n, holder)
        else:
            self._choose(spec.alloc_batch, "alloc", ids, n, holder)
        return self._end(ids)

    def take(self, n: int, holder: int) -> list[int] | None:
        """Take n slots of the open group's reserve; what was handed out, None where it was refused."""
        self._begin("take", "take", n, "holder", holder)
        ids = self._called(self._binding.take, n, holder)
        if ids is None:
            self._check_lack(_TAKE, self.state.reserved_slots, n, holder)
        else:
            self._choose(spec.take_batch, "take", ids, n, holder)
        return self._end(ids)

    def open_group(self, n: int) -> list[int] | None:
        """Open a group with n slots; what it holds back, None where it was refused."""
        self._begin("reserve", "open_group", n)
        ids = self._called(self._binding.open_group, n)
        if ids is None and self.state.free_slots.size < n and not self.state.group_is_open:
            opened = self.state.copy()
            spec.open_group(opened)
            self._says_no(_RESERVE, opened, SINK)
        else:
            self._judge("open_group", spec.open_group, ids is not None)
        if ids is not None:
            self._choose(spec.reserve_batch, "reserve", ids, n)
        return self._end(ids)

    def free(self, ids: list[int], holder: int) -> bool:
        """The holder frees; whether it was accepted."""
        self._begin("free", "free", ids, "holder", holder)
        accepted = self._called(self._binding.free, ids, holder)
        return self._batch("free", spec.free_batch, accepted, ids, holder, ids)

    def retire(self, ids: list[int], holder: int) -> bool:
        """The holder retires; whether it was accepted."""
        self._begin("retire", "retire", ids, "holder", holder)
        accepted = self._called(self._binding.retire, ids, holder)
        return self._batch("retire", spec.retire_batch, accepted, ids, holder, ids)

    def reclaim(self, ids: list[int]) -> bool:
        """Reclaim pending slots; whether it was accepted."""
        self._begin("reclaim", "reclaim", ids)
        accepted = self._called(self._binding.reclaim, ids)
        return self._batch("reclaim", spec.reclaim_batch, accepted, ids, ids)

    def transfer(self, ids: list[int], holder: int, to: Owner, heir: int) -> bool:
        """Slots pass on; whether it was accepted."""
        self._begin("transfer", "transfer", ids, "holder", holder, "to", to.name, "heir", heir)
        accepted = self._called(self._binding.transfer, ids, holder, to, heir)
        return self._batch("transfer", spec.transfer_batch, accepted, ids, holder, ids, to, heir)

    def close_group(self) -> bool:
        """Close the group; whether it was accepted."""
        self._begin("close_group", "close_group")
        accepted = self._called(self._binding.close_group)
        self._judge("close_group", spec.close_group, accepted)
        self._end(accepted or None)
        return accepted

    def clear(self) -> bool:
        """Clear; whether it was accepted."""
        self._begin("clear", "clear")
        accepted = self._called(self._binding.clear)
        self._judge("clear", spec.clear, accepted)
        self._end(accepted or None)
        return accepted

    def check_health(self) -> None:
        """Every invariant of the spec's state, and the target's own checker."""
        broken = spec.SPEC.violations(self.state)
        if broken:
            self._fail("spec", (), "", broken, Claim("meta", broken[0]))
        if "check" in self._binding.profile.capabilities:
            found = self._called(self._binding.check)
            if found:
                named = Claim(
                    getattr(found[0], "theorem", claims.HEALTHY.theorem), getattr(found[0], "name", claims.HEALTHY.name)
                )
                self._fail("check", (), [str(item) for item in found], "healthy", named)

    # -------------------------------------------------------------------------------------------------------- parts

    def _begin(self, action: str, *call: Any) -> None:
        self._action = action
        self._call = call

    def _called(self, method: Callable[..., T], *arguments: Any) -> T:
        try:
            return method(*arguments)
        except Crashed as crash:
            self._fail("crash", (), str(crash), "done or refused", claims.CRASHED)

    def _batch(self, action: str, step: Callable[..., None], accepted: bool, ids: list[int], *arguments: Any) -> bool:
        if ids:
            self._judge(action, step, accepted, *arguments, steps=len(ids))
        self._end(ids if accepted else None)
        return accepted

    def _judge(self, action: str, step: Callable[..., None], accepted: bool, *arguments: Any, steps: int = 1) -> None:
        """Do the step in the spec: it must be allowed just where the target has accepted it."""
        try:
            step(self.state, *arguments)
        except Refused as refusal:
            self._coverage.refuse(action, refusal)
            if accepted:
                repeated = str(refusal).endswith("occurs twice")
                claim = claims.REPEATED if repeated else claims.WRONGLY_DONE[action]
                self._fail("verdict", self._named_ids(), "done", "refused", claim, self._standing())
            return
        if not accepted:
            note = self._binding.refusal
            self._fail("verdict", self._named_ids(), "refused", "allowed", claims.WRONGLY_REFUSED[action], note)
        self._coverage.steps[action] += steps

    def _named_ids(self) -> list[int]:
        """The first few ids that the caller passed in."""
        return self._call[1][:LISTED] if len(self._call) > 1 and type(self._call[1]) is list else []

    def _standing(self) -> str:
        """What the spec knows about the ids that the caller passed in."""
        state, told = self.state, []
        for slot in map(spec.Slot, self._named_ids()):
            if not state.all(spec.Slot).has(slot):
                told.append(f"{slot} is no slot")
            else:
                holder = f" of {state.holder[slot]}" if state.holder[slot] != spec.NOBODY else ""
                told.append(f"{slot} is {state.owner[slot].name}{holder}")
        return "by the spec " + ", ".join(told) if told else ""

    def _choose(self, step: Callable[..., None], action: str, ids: list[int], n: int, *holder: int) -> None:
        """The target has handed out these ids: as many as asked for, and the spec allows each of them."""
        if len(ids) != n:
            self._fail("ids", ids, f"{len(ids)} ids", f"{n} ids", claims.RESULT[action])
        try:
            step(self.state, *holder, ids)
        except Refused as refusal:
            self._coverage.refuse(action, refusal)
            self._fail_choice(action, ids, *holder)
        self._coverage.steps[action] += n

    def _fail_choice(self, action: str, ids: list[int], holder: int = 0) -> NoReturn:
        if holder < 0:
            self._fail("verdict", (), "done", "refused", claims.WRONGLY_DONE[action], f"holder {holder} names nobody")
        state, wanted = self.state, Owner.RESERVED if action == "take" else Owner.FREE
        slots = [spec.Slot(i) for i in ids]
        owners = [state.owner[slot].name if state.all(spec.Slot).has(slot) else "no slot" for slot in slots]
        bad = [at for at, owner in enumerate(owners) if owner != wanted.name or ids[at] in ids[:at]]
        named = [owners[at] if owners[at] != wanted.name else "given twice" for at in bad]
        claim = claims.NO_SINK if 0 in ids else claims.ONE_PLACE
        self._fail("ids", [ids[at] for at in bad], "handed out", named, claim)

    def _check_lack(self, item: Any, roster: Roster[Any], n: int, holder: int) -> None:
        """The target has refused to hand out n slots: there must be fewer, or the holder must be none."""
        if n == 0:
            return
        slot = roster.pick() if roster.size >= n else SINK
        if not self._says_no(item, self.state, holder, slot):
            note = f"{roster.size} are at hand; {self._binding.refusal}"
            self._fail("verdict", (), "refused", "allowed", claims.WRONGLY_REFUSED[item.name], note)

    def _says_no(self, item: Any, state: Slots, *arguments: Any) -> bool:
        """Does a guard of the action say no?"""
        try:
            item.guards(state, *arguments)
        except Refused as refusal:
            self._coverage.refuse(item.name, refusal)
            return True
        return False

    def _end(self, outcome: T) -> T:
        """Count and compare; `outcome` is None where the operation was refused."""
        self.checked += 1
        ids = outcome if isinstance(outcome, list) else ()
        self._comparing(lambda: self._comparison.after(outcome is not None, ids), outcome is None)
        return outcome

    def _comparing(self, work: Callable[[], T], refused: bool = False) -> T:
        try:
            return work()
        except Crashed as crash:
            self._fail("crash", (), str(crash), "readable", claims.CRASHED)
        except Mismatch as found:
            claim = claims.NOTHING_CHANGED if refused else claims.RESULT[self._action]
            if not refused and found.field in claims.COUNTS:
                claim = claims.COUNTS[found.field]
            if found.field == "handle":
                claim = claims.VALUES
            self._fail(found.field, found.slots, found.target, found.spec, claim, found.note)

    def _fail(self, field: str, slots: Sequence[int], target: Any, spec: Any, claim: Claim, note: str = "") -> NoReturn:
        raise Diverged(
            Divergence(
                number=0,
                operation=_told(*self._call),
                field=field,
                slots=tuple(slots),
                target=target,
                spec=spec,
                theorem=claim.theorem,
                claim=claim.name,
                note=note,
            )
        )


def _told(name: str, *arguments: Any) -> str:
    """A call as reports show it; arguments after the first come as name, value, name, value."""
    first = [str(arguments[0])] if arguments else []
    named = [f"{key}={value}" for key, value in zip(arguments[1::2], arguments[2::2], strict=True)]
    return f"{name}({', '.join(first + named)})"
