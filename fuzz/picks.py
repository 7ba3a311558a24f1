"""Which slot ids the picks of an operation mean in a given state of the spec."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from poolproof.fuzz.operations import PickKind, Picks
from poolproof.spec.slots import Owner, Slots

WRAP: Final = 1 << 32


def resolve(picks: Picks, holder: int, state: Slots) -> list[int]:
    """The slot ids that these picks name, in order; a pick without a candidate is left out.

    Picks of one kind name different slots as long as there are any, so a batch only repeats an id where it says so.
    """
    candidates: dict[PickKind, list[int]] = {}
    chosen: list[int] = []
    for pick in picks:
        kind, k = pick.kind, pick.k
        if kind in _STRAYS:
            chosen.append(_STRAYS[kind](state.total, k))
            continue
        if kind is PickKind.DUPLICATE:
            chosen.extend(chosen[k % len(chosen) :][:1] if chosen else ())
            continue
        if kind not in candidates:
            candidates[kind] = _candidates(kind, holder, state)
        among = candidates[kind]
        if among:
            chosen.append(among.pop(k % len(among)))
    return chosen


_STRAYS: Final[dict[PickKind, Callable[[int, int], int]]] = {
    PickKind.SINK: lambda total, k: 0,
    PickKind.NEGATIVE: lambda total, k: -1 - k,
    PickKind.PAST_END: lambda total, k: total + k,
}

_OWNERS: Final = {
    PickKind.FREED: Owner.FREE,
    PickKind.PENDING: Owner.PENDING,
    PickKind.RESERVED: Owner.RESERVED,
}


def _candidates(kind: PickKind, holder: int, state: Slots) -> list[int]:
    """The slots that a kind of pick can mean, by rising id."""
    owner = _OWNERS.get(kind)
    if owner is not None:
        return [slot for slot, has in state.owner.items() if has == owner]
    holders = state.holder.items()
    if kind is PickKind.MINE:
        return [slot for slot, has in holders if has == holder]
    if kind is PickKind.OWNED:
        return [slot for slot, has in holders if has >= 0]
    if kind is PickKind.FOREIGN:
        return [slot for slot, has in holders if has >= 0 and has != holder]
    assert kind is PickKind.WRAPPED
    return [WRAP + slot for slot, has in holders if has == holder] or [WRAP + 1]
