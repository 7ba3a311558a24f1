"""What an allocator must offer to be fuzzed, what it may offer, and what it may decline to promise.

A target is made by a factory that takes the number of usable slots:

    class MyPool:
        def __init__(self, slots: int) -> None: ...
        def alloc(self, n: int): ...        # n slot ids (any sequence of ints, array or CPU tensor), or None
        def free(self, ids: list[int]): ... # raises where it refuses

    poolproof fuzz my_module:MyPool

Slot ids are 1..slots, and 0 is the sink, where padding rows write. A target whose ids start elsewhere says so with
`first_id`. A refusal is a None from a method that gives ids, or an exception; it must leave everything as it was.
Everything else is optional and used where it is there: see `FullTarget`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from poolproof.fuzz.errors import TargetError
from poolproof.fuzz.operations import PickKind
from poolproof.spec.slots import Owner


class Target(Protocol):
    """The least that can be fuzzed."""

    def alloc(self, n: int) -> Any:
        """n slot ids, or None (or an exception) where there are too few. Zero ids may be refused or given."""
        ...

    def free(self, ids: list[int]) -> Any:
        """Take slots back, all of them, or raise and take none. What is returned is ignored."""
        ...


Factory = Callable[[int], Any]
"""Makes a target with this many usable slots."""


class Snapshot(Protocol):
    """The whole state of a target under the spec's names. An attribute that is missing or None is not compared."""

    @property
    def owner(self) -> Sequence[int]:
        """The number of the `Owner` of each id 0..slots."""

    @property
    def holder(self) -> Sequence[int]:
        """Who holds each id, -1 for nobody."""

    @property
    def tenancy(self) -> Sequence[int]:
        """How often each id has left a holder."""

    @property
    def free_slots(self) -> Sequence[int]:
        """The free ids, in any order."""

    @property
    def reserved_slots(self) -> Sequence[int]:
        """The ids that the open group holds back, in any order."""

    @property
    def in_requests(self) -> int:
        """The number of ids owned by requests."""

    @property
    def in_cache(self) -> int:
        """The number of ids owned by the cache."""

    @property
    def in_pending(self) -> int:
        """The number of ids that wait for `reclaim`."""

    @property
    def group_is_open(self) -> bool:
        """Whether a group is open."""


class FullTarget(Protocol):
    """All that a target can offer. Each method that is there adds a capability; none but alloc and free is needed.

    `alloc` and `free` with a parameter `holder` add the capability "holders"; then `retire`, `take` and `transfer` take
    one too. Without holders everything belongs to one request.

    Attributes:
        first_id: the least id that can be handed out (1 unless given).
        refusals: the exception types that mean "refused" (all unless given); any other is a crash, and a failure.
        unclaimed: promises that the target does not make, from `PROMISES`; they are left out and listed in the report.
        rejects_bad_frees: False stands for all promises about ids in `free` and the like.
    """

    first_id: int
    refusals: tuple[type[Exception], ...]
    unclaimed: Collection[str]
    rejects_bad_frees: bool

    def alloc(self, n: int, holder: int) -> Any: ...
    def free(self, ids: list[int], holder: int) -> Any: ...
    def try_alloc(self, n: int, holder: int) -> Any:
        """As `alloc`, never raising for lack of slots."""

    def retire(self, ids: list[int], holder: int) -> Any:
        """Take slots back that a step in flight may still touch: they wait for `reclaim`."""

    def reclaim(self, ids: list[int]) -> Any:
        """These pending slots are free."""

    def transfer(self, ids: list[int], holder: int, to: Owner, heir: int) -> Any:
        """The slots pass on to a request (`Owner.REQUEST`) or a cache node (`Owner.CACHE`)."""

    def open_group(self, n: int) -> Any:
        """Hold n free slots back; the ids held back, or None. One group at a time."""

    def take(self, n: int, holder: int) -> Any:
        """Give n of the held-back slots to a request; their ids, or None."""

    def close_group(self) -> Any:
        """What is left of the reserve is free again."""

    def clear(self) -> Any:
        """Back to the initial state."""

    def available(self) -> int:
        """How many slots one `alloc` can get now."""

    def snapshot(self) -> Snapshot:
        """The whole state."""

    def check(self) -> Sequence[object]:
        """The target's own checker: what it finds wrong; nothing while it is healthy."""


_METHODS: Final = {
    "try_alloc": ("try_alloc",),
    "retire": ("retire", "reclaim"),
    "transfer": ("transfer",),
    "groups": ("open_group", "take", "close_group"),
    "clear": ("clear",),
    "available": ("available",),
    "snapshot": ("snapshot",),
    "check": ("check",),
}
CAPABILITIES: Final = frozenset(_METHODS) | {"holders"}
"""The names of all capabilities."""

BAD_IDS: Final = frozenset(PickKind) - {PickKind.MINE}
PROMISES: Final = frozenset(map(str, BAD_IDS)) | {"bad_holder", "bad_owner", "unchanged", "values"}
"""What a target promises unless it says otherwise: a batch with a bad id of this kind is refused; a negative holder is
refused ("bad_holder"); so is a transfer to what can own nothing ("bad_owner"), or one that changes nothing
("unchanged"); ids that were handed out, and lists of ids that were passed in, share no memory with the target
("values")."""


@dataclass(frozen=True)
class Profile:
    """What a target can do and what it promises; names are those of `CAPABILITIES` and `PROMISES`."""

    capabilities: frozenset[str]
    promises: frozenset[str]

    @property
    def unclaimed(self) -> list[str]:
        """The promises that the target does not make, by name."""
        return sorted(PROMISES - self.promises)


def profile_of(target: Any, name: str) -> Profile:
    """What this target offers, by its methods and attributes.

    Raises:
        TargetError: it lacks alloc or free, has half of a capability, or declines a promise that there is not.
    """
    missing = [method for method in ("alloc", "free") if not callable(getattr(target, method, None))]
    if missing:
        raise TargetError(f"{name}: {type(target).__name__} has no method {' and no method '.join(missing)}")
    capabilities = {have for have, methods in _METHODS.items() if _offers(target, name, have, methods)}
    holders = [method for method in ("alloc", "free") if _takes_holder(getattr(target, method))]
    if len(holders) == 1:
        raise TargetError(f"{name}: {holders[0]} takes a holder and the other of alloc and free does not")
    if holders:
        capabilities.add("holders")
    elif "transfer" in capabilities:
        raise TargetError(f"{name}: transfer needs an alloc and a free that take a holder")
    return Profile(frozenset(capabilities), PROMISES - _declined(target, name))


def _offers(target: Any, name: str, capability: str, methods: tuple[str, ...]) -> bool:
    there = [callable(getattr(target, method, None)) for method in methods]
    if any(there) and not all(there):
        lacks = ", ".join(method for method, has in zip(methods, there, strict=True) if not has)
        raise TargetError(f"{name}: capability {capability!r} needs the methods {', '.join(methods)}; no {lacks}")
    return all(there)


def _takes_holder(method: Callable[..., Any]) -> bool:
    try:
        return "holder" in inspect.signature(method).parameters
    except (TypeError, ValueError):
        return False


def _declined(target: Any, name: str) -> frozenset[str]:
    declined = frozenset(map(str, getattr(target, "unclaimed", ())))
    unknown = declined - PROMISES
    if unknown:
        raise TargetError(
            f"{name}: unclaimed names no promise {', '.join(sorted(unknown))}; there are {', '.join(sorted(PROMISES))}"
        )
    if not getattr(target, "rejects_bad_frees", True):
        declined |= BAD_IDS | {"unchanged", "bad_owner"}
    # Id 0 is an ordinary id of a pool without a sink.
    return declined | ({PickKind.SINK} if getattr(target, "first_id", 1) < 1 else frozenset())
