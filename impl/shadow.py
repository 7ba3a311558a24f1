"""The spec in lockstep with a slot pool: the only module of the pools that runs the spec.

Each operation of the pool is applied to a state of the spec, and the two are compared in full. What the pool refuses,
the spec must refuse too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

import numpy as np

from poolproof.errors import SpecViolation
from poolproof.spec import slots as spec
from poolproof.spec.language import Refused

if TYPE_CHECKING:
    from poolproof.slot_pool import SlotPool

Step: TypeAlias = tuple[Any, ...]
"""The name of an action or batch of the spec and its arguments, slot ids as an int64 array."""

_TABLES: Final = ("owner", "holder", "tenancy")
_ROSTERS: Final = ("free_slots", "reserved_slots")
_SCALARS: Final = ("total", "in_requests", "in_cache", "in_pending", "group_is_open")
_LISTED: Final = 8

_ACTIONS: Final[dict[str, Callable[..., None]]] = {
    "alloc": spec.alloc_batch,
    "free": spec.free_batch,
    "retire": spec.retire_batch,
    "reclaim": spec.reclaim_batch,
    "transfer": spec.transfer_batch,
    "open_group": spec.open_group,
    "reserve": spec.reserve_batch,
    "take": spec.take_batch,
    "close_group": spec.close_group,
    "clear": spec.clear,
}


class Shadow:
    """The spec's state beside a new pool."""

    def __init__(self, pool: SlotPool) -> None:
        self._pool = pool
        self._state = spec.SPEC.initial(total=pool.total)
        self._compare("create")

    def ran(self, *steps: Step) -> None:
        """The pool has done these steps, as one operation.

        Raises:
            SpecViolation: the spec refuses one, or ends in another state than the pool.
        """
        for step in steps:
            try:
                _apply(self._state, step)
            except Refused as refusal:
                raise SpecViolation(_told(*step), "verdict", (), "done", "refused", str(refusal)) from refusal
        self._compare(", ".join(_told(*step) for step in steps))

    def refused(self, step: Step) -> None:
        """The pool has refused this step because of its state.

        Raises:
            SpecViolation: the spec allows the step, or the pool changed all the same.
        """
        try:
            _apply(self._state.copy(), step)
        except Refused:
            self._compare(f"refused {_told(*step)}")
        else:
            raise SpecViolation(_told(*step), "verdict", (), "refused", "allowed")

    def lacked(self, operation: str, n: int) -> None:
        """The pool has refused an `alloc`, `open_group` or `take` of n slots because it has fewer.

        Raises:
            SpecViolation: the spec has as many, or the pool changed all the same.
        """
        roster = self._state.reserved_slots if operation == "take" else self._state.free_slots
        if roster.size >= n:
            raise SpecViolation(_told(operation, n), "verdict", (), "refused", "allowed", f"{roster.size} are at hand")
        self._compare(f"refused {_told(operation, n)}")

    def _compare(self, operation: str) -> None:
        ours, theirs = self._pool.snapshot(), self._state
        for field in _SCALARS:
            if getattr(ours, field) != getattr(theirs, field):
                raise SpecViolation(operation, field, (), getattr(ours, field), getattr(theirs, field))
        for field in _TABLES:
            table = tuple(getattr(theirs, field).values())
            if getattr(ours, field) != table:
                _report(operation, field, getattr(ours, field), table)
        for field in _ROSTERS:
            listed, members = getattr(ours, field), getattr(theirs, field)
            if len(listed) != members.size or set(listed) != set(members):
                _report_lists(operation, field, ours.total, listed, tuple(members))


def _apply(state: spec.Slots, step: Step) -> None:
    name, *arguments = step
    _ACTIONS[name](state, *(item.tolist() if isinstance(item, np.ndarray) else item for item in arguments))


def _told(name: str, *arguments: Any) -> str:
    return f"{name}({', '.join(str(a.tolist()) if isinstance(a, np.ndarray) else str(a) for a in arguments)})"


def _report(operation: str, field: str, ours: Sequence[int], theirs: Sequence[int]) -> NoReturn:
    slots = [slot for slot, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b][:_LISTED]
    raise SpecViolation(operation, field, slots, [int(ours[s]) for s in slots], [int(theirs[s]) for s in slots])


def _report_lists(operation: str, field: str, total: int, ours: Sequence[int], theirs: Sequence[int]) -> NoReturn:
    """Compares how often each slot is listed; a stray id of the pool's list counts for no slot."""
    counts, wanted = Counter(ours), Counter(theirs)
    strays = sorted(set(counts) - set(range(total)))
    if strays:
        raise SpecViolation(operation, field, strays[:_LISTED], "listed", "none of the ids")
    _report(operation, field, [counts[s] for s in range(total)], [wanted[s] for s in range(total)])
