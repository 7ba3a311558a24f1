"""Where operations come from: one definition of what can be drawn, for any source of choices.

`RandomSource` is for speed; `poolproof.fuzz.strategies` feeds the same functions from Hypothesis.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from random import Random
from typing import Any, Final, Protocol

from poolproof.fuzz import operations as language
from poolproof.fuzz.events import Schedule
from poolproof.fuzz.operations import AnyOperation, OwnerName, Pick, PickKind, Picks
from poolproof.fuzz.targets import Profile

MAX_SLOTS: Final = 64
"""Pools have 1 .. MAX_SLOTS usable slots."""
_LONGEST_RUN: Final = 400
_LARGEST_BATCH: Final = 8
_MOST_HOLDERS: Final = 4


class Source(Protocol):
    """A source of choices."""

    def below(self, n: int) -> int:
        """An integer 0 <= i < n; smaller is simpler."""
        ...


class RandomSource:
    """Choices from a seeded generator."""

    __slots__ = ("_random",)

    def __init__(self, seed: str) -> None:
        self._random = Random(seed).random

    def below(self, n: int) -> int:
        """An integer 0 <= i < n, evenly."""
        return int(self._random() * n)


@dataclass(frozen=True)
class Swarm:
    """What one run draws from: each run leaves some operations out and leans towards others.

    Attributes:
        names: the operations, by name.
        weights: their running weights; the last is the sum.
        holders: number of holders, 1 or more.
        batch: largest batch.
        bad_in_64: how many of 64 batches get an id that is to be refused.
        bad: kinds of such ids, for operations of holders.
        bad_pending: kinds of such ids, for `reclaim`.
        bad_holder: whether negative holders are drawn.
        bad_owner: whether transfers to what can own nothing are drawn.
    """

    names: tuple[str, ...]
    weights: tuple[int, ...]
    holders: int
    batch: int
    bad_in_64: int
    bad: tuple[PickKind, ...]
    bad_pending: tuple[PickKind, ...]
    bad_holder: bool
    bad_owner: bool


def draw_swarm(source: Source, profile: Profile) -> Swarm:
    """The weights of one run, for what a target offers and promises."""
    names = [name for name, (needs, _) in VOCABULARY.items() if not needs or needs in profile.capabilities]
    weights = [_weight(source, name) for name in names]
    bad = tuple(kind for kind in _BAD if kind in profile.promises)
    return Swarm(
        names=tuple(names),
        weights=tuple(accumulate(weights)),
        holders=1 + source.below(_MOST_HOLDERS) if "holders" in profile.capabilities else 1,
        batch=1 + source.below(_LARGEST_BATCH),
        bad_in_64=(8, 16, 0, 32)[source.below(4)],
        bad=bad,
        # Repeated ids are listed once more: few reclaims find anything pending to repeat.
        bad_pending=tuple(kind for kind in (*bad, *bad[:1]) if kind is not PickKind.PENDING),
        bad_holder="bad_holder" in profile.promises and "holders" in profile.capabilities,
        bad_owner="bad_owner" in profile.promises,
    )


def _weight(source: Source, name: str) -> int:
    base = _WEIGHTS.get(name, 8)
    return base * (1, 2, 4, 0)[source.below(3 if name in ("alloc", "free") else 4)]


_BAD: Final = (PickKind.DUPLICATE, *(kind for kind in PickKind if kind not in (PickKind.MINE, PickKind.DUPLICATE)))
_WEIGHTS: Final = {"free": 12, "clear": 1, "close_group": 3, "open_group": 3, "reclaim": 6, "try_alloc": 4}


def draw_operation(source: Source, swarm: Swarm) -> AnyOperation:
    """One operation."""
    at = bisect_right(swarm.weights, source.below(swarm.weights[-1]))
    return VOCABULARY[swarm.names[at]][1](source, swarm)


def draw_slots(source: Source) -> int:
    """The size of a pool, small ones more often."""
    return 1 + source.below(1 + source.below(MAX_SLOTS))


def draw_length(source: Source) -> int:
    """How many operations a run has."""
    return 1 + source.below(_LONGEST_RUN)


def draw_schedule(source: Source) -> Schedule:
    """When steps in flight complete."""
    longest = (0, 5, 30, 100)[source.below(4)]
    return Schedule(seed=source.below(1 << 16), shortest=source.below(longest + 1) // 2, longest=longest)


# ------------------------------------------------------------------------------------------------------- vocabulary


def _holder(source: Source, swarm: Swarm) -> int:
    if swarm.bad_holder and source.below(40) == 39:
        return -1
    return source.below(swarm.holders)


def _picks(source: Source, swarm: Swarm, fine: PickKind, bad: tuple[PickKind, ...]) -> Picks:
    picks = [Pick(fine, source.below(8)) for _ in range(1 + source.below(swarm.batch))]
    if bad and source.below(64) >= 64 - swarm.bad_in_64:
        stray = Pick(bad[source.below(len(bad))], source.below(4))
        if stray.kind is PickKind.DUPLICATE:
            picks.append(stray)
        else:
            picks.insert(source.below(len(picks) + 1), stray)
            del picks[-1 if source.below(2) else len(picks) :]
    return tuple(picks)


def _amount(source: Source, swarm: Swarm) -> dict[str, Any]:
    if source.below(8) == 7:
        return {"n": source.below(3), "beyond": True}
    return {"n": source.below(swarm.batch + 1)}


def _alloc(source: Source, swarm: Swarm) -> language.Alloc:
    return language.Alloc(holder=_holder(source, swarm), **_amount(source, swarm))


def _try_alloc(source: Source, swarm: Swarm) -> language.TryAlloc:
    return language.TryAlloc(holder=_holder(source, swarm), **_amount(source, swarm))


def _free(source: Source, swarm: Swarm) -> language.Free:
    return language.Free(picks=_picks(source, swarm, PickKind.MINE, swarm.bad), holder=_holder(source, swarm))


def _retire(source: Source, swarm: Swarm) -> language.Retire:
    picks = _picks(source, swarm, PickKind.MINE, swarm.bad)
    return language.Retire(picks=picks, holder=_holder(source, swarm), step=source.below(4))


def _reclaim(source: Source, swarm: Swarm) -> language.Reclaim:
    return language.Reclaim(picks=_picks(source, swarm, PickKind.PENDING, swarm.bad_pending))


def _transfer(source: Source, swarm: Swarm) -> language.Transfer:
    kinds: tuple[OwnerName, ...] = ("cache", "cache", "cache", "request", "request", "request")
    to = kinds[source.below(6)]
    if swarm.bad_owner and source.below(32) == 31:
        others: tuple[OwnerName, ...] = ("free", "pending", "reserved", "sink")
        to = others[source.below(4)]
    picks = _picks(source, swarm, PickKind.MINE, swarm.bad)
    return language.Transfer(picks=picks, holder=_holder(source, swarm), to=to, heir=_holder(source, swarm))


def _open_group(source: Source, swarm: Swarm) -> language.OpenGroup:
    return language.OpenGroup(**_amount(source, swarm))


def _take(source: Source, swarm: Swarm) -> language.Take:
    return language.Take(n=source.below(3), holder=_holder(source, swarm), beyond=source.below(16) == 15)


def _close_group(source: Source, swarm: Swarm) -> language.CloseGroup:
    return language.CloseGroup()


def _clear(source: Source, swarm: Swarm) -> language.Clear:
    return language.Clear()


VOCABULARY: Final[dict[str, tuple[str, Callable[[Source, Swarm], AnyOperation]]]] = {
    "alloc": ("", _alloc),
    "free": ("", _free),
    "try_alloc": ("try_alloc", _try_alloc),
    "retire": ("retire", _retire),
    "reclaim": ("retire", _reclaim),
    "transfer": ("transfer", _transfer),
    "open_group": ("groups", _open_group),
    "take": ("groups", _take),
    "close_group": ("groups", _close_group),
    "clear": ("clear", _clear),
}
"""For each operation: the capability that it needs ("" for none), and how one is drawn. Simplest first."""
