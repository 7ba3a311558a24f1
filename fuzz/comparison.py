"""Is the target in the state that the spec is in? The whole state, or as much of it as the target shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final, Protocol

from poolproof.fuzz.binding import Binding
from poolproof.fuzz.errors import TargetError
from poolproof.spec.slots import Owner, Slots

TABLES: Final = ("owner", "holder", "tenancy")
ROSTERS: Final = ("free_slots", "reserved_slots")
SCALARS: Final = ("in_requests", "in_cache", "in_pending", "group_is_open")
LISTED: Final = 8
_EVERYTHING: Final = TABLES + ROSTERS + SCALARS


class Mismatch(Exception):
    """A field of the state differs: its name, the slots concerned, the target's values and the spec's."""

    def __init__(self, field: str, slots: Sequence[int], target: Any, spec: Any, note: str = "") -> None:
        super().__init__(field)
        self.field = field
        self.slots = tuple(slots)
        self.target = target
        self.spec = spec
        self.note = note


class Comparison(Protocol):
    """Compares a target with the spec after an operation."""

    def after(self, accepted: bool, ids: Sequence[int]) -> None:
        """Compare; `ids` are the slots that the operation was about, `accepted` says whether it was done.

        Raises:
            Mismatch: the states differ.
        """
        ...


class FullComparison:
    """Compares everything that the target shows: its snapshot, its capacity, the ids that it handed out."""

    def __init__(self, binding: Binding, state: Slots) -> None:
        self._state = state
        has = binding.profile.capabilities
        self._snapshot = binding.snapshot if "snapshot" in has else None
        self._available = binding.available if "available" in has else None
        self._handles = binding.handles
        shown = self._snapshot() if self._snapshot is not None else None
        # What the target does not show is not compared.
        self._tables = [name for name in TABLES if _is_shown(shown, name, sized=True)]
        self._rosters = [name for name in ROSTERS if _is_shown(shown, name, sized=True)]
        self._scalars = [name for name in SCALARS if _is_shown(shown, name, sized=False)]
        shows_all = len(self._tables + self._rosters + self._scalars) == len(_EVERYTHING)
        self._read_all = attrgetter(*_EVERYTHING) if shows_all else None
        self._image = self._read_spec()
        self.after(True, ())

    def _read_spec(self) -> tuple[Any, ...]:
        """The spec's state: its tables, its rosters, its scalars."""
        state = self._state
        return (
            (tuple(state.owner.values()), tuple(state.holder.values()), tuple(state.tenancy.values())),
            (frozenset(state.free_slots.members), frozenset(state.reserved_slots.members)),
            (state.in_requests, state.in_cache, state.in_pending, state.group_is_open),
        )

    def after(self, accepted: bool, ids: Sequence[int]) -> None:
        """See `Comparison.after`."""
        image = self._read_spec()
        if not accepted and image != self._image:
            raise Mismatch("spec", (), "unchanged", "changed by a refused step")
        self._image = image
        if self._snapshot is not None:
            self._compare(self._snapshot(), image)
        if self._available is not None and self._available() != len(image[1][0]):
            raise Mismatch("available", (), self._available(), len(image[1][0]))
        if self._handles is not None:
            changed = self._handles.find_changed()
            if changed is not None:
                raise Mismatch("handle", (), changed[1], changed[0], "an id that was handed out has changed since")

    def _compare(self, shown: Any, image: tuple[Any, ...]) -> None:
        if self._read_all is not None:
            # Nearly always everything is equal, and one look at the whole is cheaper than one at each field.
            got = self._read_all(shown)
            free, reserved = got[3:5]
            if (
                got[:3] == image[0]
                and got[5:] == image[2]
                and len(free) == len(image[1][0])
                and len(reserved) == len(image[1][1])
                and image[1] == (set(free), set(reserved))
            ):
                return
        for name, table in zip(TABLES, image[0], strict=True):
            if name in self._tables and tuple(getattr(shown, name)) != table:
                raise table_mismatch(name, getattr(shown, name), table)
        for name, members in zip(ROSTERS, image[1], strict=True):
            if name in self._rosters:
                listed = getattr(shown, name)
                if len(listed) != len(members) or members != frozenset(listed):
                    raise _roster_mismatch(name, listed, members)
        for name, value in zip(SCALARS, image[2], strict=True):
            if name in self._scalars and getattr(shown, name) != value:
                raise Mismatch(name, (), getattr(shown, name), value)


def _is_shown(shown: Any, name: str, sized: bool) -> bool:
    value = getattr(shown, name, None)
    if sized and value is not None and not (hasattr(value, "__len__") and hasattr(value, "__iter__")):
        raise TargetError(f"snapshot().{name} must be a sequence of ints, it is a {type(value).__name__}")
    return value is not None


def table_mismatch(name: str, target: Sequence[int], spec: Sequence[int]) -> Mismatch:
    """How two tables differ that are not equal."""
    if len(target) != len(spec):
        return Mismatch(name, (), f"{len(target)} entries", f"{len(spec)} entries")
    slots = [slot for slot, (a, b) in enumerate(zip(target, spec, strict=True)) if a != b][:LISTED]
    return Mismatch(name, slots, [_named(name, target[s]) for s in slots], [_named(name, spec[s]) for s in slots])


def _named(field: str, value: Any) -> Any:
    """A value as reports show it: owners by name, integers plain."""
    if field != "owner":
        return int(value)
    return Owner(value).name if value in set(Owner) else repr(value)


def _roster_mismatch(name: str, target: Sequence[int], spec: frozenset[int]) -> Mismatch:
    counts = Counter(map(int, target))
    slots = sorted(slot for slot in {*counts, *spec} if counts[slot] != (slot in spec))[:LISTED]
    return Mismatch(
        name, slots, [f"listed {counts[s]} times" for s in slots], [f"listed {int(s in spec)} times" for s in slots]
    )
