"""A target's whole state beside the spec's: the first field that differs, with the slots and both values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from poolproof.fuzz.targets import Snapshot
from poolproof.spec.slots import Owner, Slots

LISTED: Final = 8
"""How many slots a difference names at most."""

_TABLES: Final = ("owner", "holder", "tenancy")
_ROSTERS: Final = ("free_slots", "reserved_slots")
_OWNERS: Final = frozenset(Owner)
_SCALARS: Final = ("in_requests", "in_cache", "in_pending", "group_is_open")

THEOREM_OF: Final = {
    "owner": "I1",
    "holder": "I1",
    "tenancy": "I3",
    "free_slots": "I1",
    "reserved_slots": "I1",
    "in_requests": "I21",
    "in_cache": "I21",
    "in_pending": "I21",
    "group_is_open": "I4",
    "available": "I4",
    "handles": "I3",
}
"""The theorem that a target breaks when this field is wrong."""


@dataclass(frozen=True)
class Difference:
    """One thing about which a target and the spec disagree.

    Attributes:
        field: a field of the spec's state; or "verdict" (one allows what the other refuses), "given" (the number of
            ids), "available", "handles" (ids that were handed out have changed), "crash", "check" (the target's own
            checker) or "invariant" (the spec's own).
        slots: the first few slots concerned.
        target: what the target has there: one value a slot, or one value.
        spec: what the spec has there.
        theorem: the theorem that is broken, for example "I2"; "" where it is none of the spec's.
    """

    field: str
    slots: tuple[int, ...]
    target: Any
    spec: Any
    theorem: str


def find_difference(snapshot: Snapshot, state: Slots) -> Difference | None:
    """The first field in which a snapshot and the spec differ. What the snapshot lacks (or has as None) is passed over.

    Raises:
        Exception: whatever a malformed snapshot leads to (a table that is no sequence, for example).
    """
    for name in _TABLES:
        ours = getattr(snapshot, name, None)
        if ours is not None:
            theirs = tuple(getattr(state, name).values())
            if (ours if type(ours) is tuple else tuple(ours)) != theirs:
                return _table_difference(name, [int(value) for value in ours], theirs)
    for name in _ROSTERS:
        listed = getattr(snapshot, name, None)
        if listed is not None:
            members = getattr(state, name).members
            if len(listed) != len(members) or members.keys() != set(listed):
                return _roster_difference(name, [int(slot) for slot in listed], set(members))
    for name in _SCALARS:
        value = getattr(snapshot, name, None)
        if value is not None and value != getattr(state, name):
            return Difference(name, (), value, getattr(state, name), THEOREM_OF[name])
    return None


def _table_difference(name: str, ours: Sequence[int], theirs: Sequence[int]) -> Difference:
    if len(ours) != len(theirs):
        return Difference(name, (), f"{len(ours)} entries", f"{len(theirs)} entries", THEOREM_OF[name])
    slots = [slot for slot, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b][:LISTED]
    sides = [[_told(name, side[slot]) for slot in slots] for side in (ours, theirs)]
    return Difference(name, tuple(slots), sides[0], sides[1], THEOREM_OF[name])


def _told(name: str, value: int) -> Any:
    """A kind of owner by its name, any other number as it is."""
    return Owner(value).name if name == "owner" and value in _OWNERS else int(value)


def _roster_difference(name: str, listed: Sequence[int], members: set[int]) -> Difference:
    """How often each slot is listed, where that is not as often as it should be."""
    counts = Counter(listed)
    wrong = sorted(slot for slot in counts.keys() | members if counts[slot] != (slot in members))[:LISTED]
    times = [counts[slot] for slot in wrong], [int(slot in members) for slot in wrong]
    told = [[f"listed {n}x" for n in side] for side in times]
    return Difference(name, tuple(wrong), told[0], told[1], THEOREM_OF[name])
