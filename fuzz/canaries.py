"""Broken on purpose: one planted fault each, after public faults of real allocators. A campaign must find them all.

A campaign that finds nothing in its target says something only if it would have found something: each campaign
fuzzes the canaries too, with what its target offers, and fails where one of them sings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from poolproof.fuzz.picks import WRAP
from poolproof.fuzz.plain_pool import NOBODY, PlainPool, Refusal
from poolproof.fuzz.targets import BAD_IDS, Profile
from poolproof.spec.slots import Owner


class DoubleFree(PlainPool):
    """A slot that is free already is taken back once more, and listed twice."""

    def check_held(self, ids: list[int], holder: int) -> None:
        super().check_held([slot for slot in ids if self.owner[slot] != Owner.FREE], holder)

    def leave(self, ids: list[int], owner: Owner) -> None:
        super().leave([slot for slot in ids if self.owner[slot] in self.counts], owner)


class DuplicateInBatch(PlainPool):
    """A batch that names a slot twice is taken, and the slot listed twice."""

    def check_distinct(self, ids: list[int]) -> None:
        pass

    def leave(self, ids: list[int], owner: Owner) -> None:
        super().leave(list(dict.fromkeys(ids)), owner)


class SinkFreed(PlainPool):
    """The sink can be freed, and is handed out next."""

    def free(self, ids: list[int], holder: int = 0) -> None:
        others = [slot for slot in ids if slot]
        super().free(others, holder)
        self.unused[:0] = [slot for slot in ids if not slot]


class ForeignFree(PlainPool):
    """Anybody can give back anybody's slots."""

    def check_held(self, ids: list[int], holder: int) -> None:
        for slot in ids:
            super().check_held([slot], self.holder[slot])


class NegativeIndex(PlainPool):
    """Id -1 is taken for the last slot, as Python indexes."""

    def free(self, ids: list[int], holder: int = 0) -> None:
        super().free([slot + self.total if -self.total < slot < 0 else slot for slot in ids], holder)


class PastTheEnd(PlainPool):
    """One id past the end passes the range check, and is listed as free."""

    def free(self, ids: list[int], holder: int = 0) -> None:
        inside = [slot for slot in ids if slot != self.total]
        super().free(inside, holder)
        self.unused.extend(slot for slot in ids if slot == self.total)


class CutTo32Bits(PlainPool):
    """Ids are cut to 32 bits before they are looked at."""

    def free(self, ids: list[int], holder: int = 0) -> None:
        super().free([slot % WRAP if slot > 0 else slot for slot in ids], holder)


class HalfAFree(PlainPool):
    """A batch is taken slot by slot: the good ones are gone when the bad one is refused."""

    def free(self, ids: list[int], holder: int = 0) -> None:
        self.check_distinct(ids)
        for slot in ids:
            super().free([slot], holder)


class HalfAnAlloc(PlainPool):
    """An alloc that fails halfway keeps what it had already."""

    def pull(self, n: int) -> list[int]:
        ids = super().pull(min(n, len(self.unused)))
        if len(ids) < n:
            raise Refusal(f"{n - len(ids)} more slots needed")
        return ids


class LastSlotRefused(PlainPool):
    """The last free slot cannot be had."""

    def pull(self, n: int) -> list[int]:
        if n and n == len(self.unused):
            raise Refusal("full")
        return super().pull(n)


class OwnedHandedOut(PlainPool):
    """The free list is not cut when all of it is asked for: the same slots are given twice."""

    def pull(self, n: int) -> list[int]:
        ids = super().pull(n)
        if not self.unused:
            self.unused = ids[-1:]
        return ids


class ViewsOfStorage(PlainPool):
    """Ids are handed out as a view of the free stack, which later frees overwrite."""

    def reset(self) -> None:
        super().reset()
        self.stack = np.zeros(self.total, np.int64)

    def alloc(self, n: int, holder: int = 0) -> Any:
        ids = super().alloc(n, holder)
        self.stack[:n] = ids
        return self.stack[:n]


class KeepsTheList(PlainPool):
    """The caller's list of ids becomes a part of the pool."""

    def reset(self) -> None:
        super().reset()
        self.returned: list[list[int]] = []

    def free(self, ids: list[int], holder: int = 0) -> None:
        self.check_batch(ids, holder)
        self.leave(ids, Owner.FREE)
        self.returned.append(ids)

    def pull(self, n: int) -> list[int]:
        self.unused.extend(slot for ids in self.returned for slot in ids)
        self.returned = []
        return super().pull(n)

    def available(self) -> int:
        return len(self.unused) + sum(map(len, self.returned))

    def snapshot(self) -> Any:
        taken = super().snapshot()
        taken.free_slots = self.unused + [slot for ids in self.returned for slot in ids]
        return taken


class NobodyFrees(PlainPool):
    """Holder -1 passes for the holder of every slot that nobody has."""

    def check_holder(self, holder: int) -> None:
        pass

    def check_held(self, ids: list[int], holder: int) -> None:
        for slot in ids:
            if self.holder[slot] != holder:
                raise Refusal(f"{holder} does not hold {slot}")

    def leave(self, ids: list[int], owner: Owner) -> None:
        super().leave([slot for slot in ids if self.owner[slot] in self.counts], owner)


class NoFence(PlainPool):
    """A retired slot can be handed out at once, while a step in flight may still write to it."""

    def retire(self, ids: list[int], holder: int = 0) -> None:
        super().retire(ids, holder)
        self.unused[:0] = ids


class ReclaimUnchecked(PlainPool):
    """Reclaim frees slots that somebody owns."""

    def check_pending(self, ids: list[int]) -> None:
        for slot in ids:
            if self.owner[slot] in (Owner.FREE, Owner.RESERVED):
                raise Refusal(f"{slot} is not pending")


class ClearForgetsPending(PlainPool):
    """A clear leaves pending slots pending, and nobody will ever reclaim them."""

    def clear(self) -> None:
        waiting = [slot for slot, owner in enumerate(self.owner) if owner == Owner.PENDING]
        super().clear()
        for slot in waiting:
            self.owner[slot] = Owner.PENDING
            self.unused.remove(slot)
        self.counts[Owner.PENDING] = len(waiting)


class ClearKeepsTheGroup(PlainPool):
    """A group stays open across a clear, and its reserve can still be taken."""

    def clear(self) -> None:
        reserve, is_open = self.reserve, self.open
        super().clear()
        self.reserve, self.open = reserve, is_open


class GroupLeaks(PlainPool):
    """What a group has not used is lost when it is closed."""

    def close_group(self) -> None:
        super().close_group()
        self.unused = [slot for slot in self.unused if slot % 2]


class TakeBeyondTheReserve(PlainPool):
    """A group that has run out takes slots that it had not reserved."""

    def take(self, n: int, holder: int = 0) -> list[int]:
        if self.open and n > len(self.reserve) and n <= len(self.reserve) + len(self.unused):
            self.reserve.extend(self.pull(n - len(self.reserve)))
        return super().take(n, holder)


class SecondGroup(PlainPool):
    """A second group can be opened; the reserve of the first is lost."""

    def open_group(self, n: int) -> list[int]:
        self.open = False
        return super().open_group(n)


class OldHandleLives(PlainPool):
    """A donated slot can still be freed by the request that donated it."""

    def reset(self) -> None:
        super().reset()
        self.donor: dict[int, int] = {}

    def transfer(self, ids: list[int], holder: int, to: Owner, heir: int) -> None:
        super().transfer(ids, holder, to, heir)
        self.donor.update(dict.fromkeys(ids, holder))

    def leave(self, ids: list[int], owner: Owner) -> None:
        super().leave(ids, owner)
        for slot in ids:
            self.donor.pop(slot, None)

    def check_held(self, ids: list[int], holder: int) -> None:
        super().check_held([slot for slot in ids if self.donor.get(slot) != holder], holder)


class HeirUnchecked(PlainPool):
    """A slot can pass on to holder -1, that is, to nobody."""

    def transfer(self, ids: list[int], holder: int, to: Owner, heir: int) -> None:
        super().transfer(ids, holder, to, max(heir, 0))
        for slot in ids:
            self.holder[slot] = max(heir, NOBODY)


class CountDrifts(PlainPool):
    """Freeing a cached slot does not lower the count of cached slots."""

    def leave(self, ids: list[int], owner: Owner) -> None:
        cached = sum(self.owner[slot] == Owner.CACHE for slot in ids)
        super().leave(ids, owner)
        self.counts[Owner.CACHE] += cached if owner == Owner.FREE else 0


class CapacityCountsPending(PlainPool):
    """The capacity that is reported counts pending slots, which alloc then refuses."""

    def available(self) -> int:
        return len(self.unused) + self.counts[Owner.PENDING]


class TenancyStays(PlainPool):
    """A slot's tenancy number stays when it is retired, so a handle from before looks live again."""

    def retire(self, ids: list[int], holder: int = 0) -> None:
        super().retire(ids, holder)
        for slot in ids:
            self.tenancy[slot] -= 1


class OptionalAllocCrashes(PlainPool):
    """An allocation that may fail fails with an assertion."""

    def try_alloc(self, n: int, holder: int = 0) -> list[int] | None:
        assert n <= len(self.unused), "pool exhausted"
        return super().try_alloc(n, holder)


@dataclass(frozen=True)
class Canary:
    """A broken pool and what a campaign must be able to do to notice.

    Attributes:
        name: its name as a target, `canary-...`.
        make: the pool; its docstring says what is wrong.
        needs: capabilities without which the fault does not show.
        breaks: the promises that it breaks; one of them must be claimed (none: it breaks what every target promises).
    """

    name: str
    make: type[PlainPool]
    needs: frozenset[str]
    breaks: frozenset[str]

    def shows_under(self, profile: Profile) -> bool:
        """Must a campaign against a target of this profile find it?"""
        return self.needs <= profile.capabilities and (not self.breaks or bool(self.breaks & profile.promises))


def _canary(make: type[PlainPool], needs: str = "", breaks: str = "") -> Canary:
    words = "".join(
        f"-{c.lower()}" if c.isupper() or (c.isdigit() and make.__name__[i - 1].isalpha()) else c
        for i, c in enumerate(make.__name__)
    )
    return Canary(f"canary{words}", make, frozenset(needs.split()), frozenset(breaks.split()))


CANARIES: Final = (
    _canary(DoubleFree, breaks="freed"),
    _canary(DuplicateInBatch, breaks="duplicate"),
    _canary(SinkFreed, breaks="sink"),
    _canary(ForeignFree, needs="holders", breaks="foreign"),
    _canary(NegativeIndex, breaks="negative"),
    _canary(PastTheEnd, breaks="past_end"),
    _canary(CutTo32Bits, breaks="wrapped"),
    _canary(HalfAFree, breaks=" ".join(BAD_IDS - {"duplicate"})),
    _canary(HalfAnAlloc),
    _canary(LastSlotRefused),
    _canary(OwnedHandedOut),
    _canary(ViewsOfStorage, breaks="values"),
    _canary(KeepsTheList, breaks="values"),
    _canary(NobodyFrees, needs="holders", breaks="bad_holder"),
    _canary(NoFence, needs="retire"),
    _canary(ReclaimUnchecked, needs="retire", breaks="owned"),
    _canary(ClearForgetsPending, needs="retire clear"),
    _canary(ClearKeepsTheGroup, needs="groups clear"),
    _canary(GroupLeaks, needs="groups"),
    _canary(TakeBeyondTheReserve, needs="groups"),
    _canary(SecondGroup, needs="groups"),
    _canary(OldHandleLives, needs="transfer", breaks="foreign"),
    _canary(HeirUnchecked, needs="transfer", breaks="bad_holder"),
    _canary(CountDrifts, needs="transfer snapshot"),
    _canary(CapacityCountsPending, needs="retire available"),
    _canary(TenancyStays, needs="retire snapshot"),
    _canary(OptionalAllocCrashes, needs="try_alloc"),
)
"""All canaries."""
