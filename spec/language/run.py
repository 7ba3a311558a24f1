"""The concrete containers of the run reading: tables, rosters, sets and id ranges, each checked at its border."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from poolproof.spec.language.errors import IllDefined

K = TypeVar("K", bound=int)
Key = TypeVar("Key")
V = TypeVar("V")


class IdRange(Generic[K]):
    """All ids of one kind: 0 <= id < size."""

    __slots__ = ("size",)

    def __init__(self, size: int) -> None:
        self.size = size

    def has(self, key: K) -> bool:
        """Is this an id of the kind?"""
        return 0 <= key < self.size

    def __iter__(self) -> Iterator[K]:
        return iter(range(self.size))  # type: ignore[arg-type]

    def __len__(self) -> int:
        return self.size


class Map(dict[Key, V], Generic[Key, V]):
    """A total table over all ids of one kind, or all tuples of some. Reads and writes outside it raise `IllDefined`."""

    __slots__ = ()

    if TYPE_CHECKING:  # a table of rosters or of sets is annotated as a Map, and is made as one of the two below

        def fill(self, low: Callable[..., Any], high: Callable[..., int]) -> None: ...

        def empty(self) -> None: ...

    def __missing__(self, key: Key) -> V:
        raise IllDefined(f"read at {key!r}, outside a table of {len(self)} entries")

    def __setitem__(self, key: Key, value: V) -> None:
        if key not in self:
            raise IllDefined(f"write at {key!r}, outside a table of {len(self)} entries")
        dict.__setitem__(self, key, value)

    def relabel(self, to: Callable[..., V], where: Callable[..., bool] | None = None) -> None:
        """Bulk update: every key for which `where` holds gets the value `to(key)`, all read before any is written.

        Both take the parts of a key of several as so many arguments.
        """
        keys: list[Any] = list(self)
        if keys and isinstance(keys[0], tuple):
            chosen = keys if where is None else [key for key in keys if where(*key)]
            dict.update(self, [(key, to(*key)) for key in chosen])
        else:
            chosen = keys if where is None else [key for key in keys if where(key)]
            dict.update(self, [(key, to(key)) for key in chosen])


class Unseen(Map[Any, Any]):
    """A ghost table that nobody looks at: it reads as zero and takes no writes."""

    __slots__ = ()

    def __missing__(self, key: Any) -> int:
        return 0

    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    def relabel(self, to: Callable[..., Any], where: Callable[..., bool] | None = None) -> None:
        """Nothing changes."""


class Roster(Generic[K]):
    """A set of ids whose size is known and whose members can be listed: a bijection with 0 .. size - 1.

    Use it where "the count is positive" must yield a member. The order of members is a ghost.
    """

    __slots__ = ("limit", "members")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.members: dict[K, None] = {}

    @property
    def size(self) -> int:
        """The number of members."""
        return len(self.members)

    def has(self, key: K) -> bool:
        """Is this id a member?"""
        if not 0 <= key < self.limit:
            raise IllDefined(f"{key!r} is outside a table of {self.limit} entries")
        return key in self.members

    def pick(self) -> K:
        """Some member; the roster must not be empty."""
        if not self.members:
            raise IllDefined("an empty roster has no member to pick")
        return next(iter(self.members))

    def add(self, key: K) -> None:
        """Add an id that is not a member."""
        if self.has(key):
            raise IllDefined(f"{key!r} is a member already")
        self.members[key] = None

    def remove(self, key: K) -> None:
        """Remove a member."""
        if not self.has(key):
            raise IllDefined(f"{key!r} is not a member")
        del self.members[key]

    def absorb(self, other: Roster[K]) -> None:
        """Add all members of a roster that has none in common with this one and none outside this one's table."""
        if not self.members.keys().isdisjoint(other.members):
            raise IllDefined("the rosters have members in common")
        if other.limit > self.limit and any(key >= self.limit for key in other.members):
            raise IllDefined(f"a member of the other roster is outside a table of {self.limit} entries")
        self.members.update(other.members)

    def fill(self, low: K, high: int) -> None:
        """Hold exactly the ids low .. high - 1."""
        if not 0 <= low <= high <= self.limit:
            raise IllDefined(f"{low!r} .. {high!r} is outside a table of {self.limit} entries")
        self.members = dict.fromkeys(range(low, high))  # type: ignore[arg-type]

    def empty(self) -> None:
        """Hold nothing."""
        self.members = {}

    def __iter__(self) -> Iterator[K]:
        return iter(self.members)

    def copy(self) -> Roster[K]:
        """An independent copy."""
        twin: Roster[K] = Roster(self.limit)
        twin.members = dict(self.members)
        return twin


class Rosters(Map[Key, "Roster[Any]"], Generic[Key]):
    """A table of rosters."""

    __slots__ = ()

    def fill(self, low: Callable[..., Any], high: Callable[..., int]) -> None:
        """Have each roster hold exactly the ids low(k) .. high(k) - 1; both take the parts of a key of several."""
        for key, roster in self.items():
            parts = key if isinstance(key, tuple) else (key,)
            roster.fill(low(*parts), high(*parts))

    def empty(self) -> None:
        """Have each roster hold nothing."""
        for roster in self.values():
            roster.empty()


class Sets(Map[Key, "Set[Any]"], Generic[Key]):
    """A table of first-class sets."""

    __slots__ = ()

    def empty(self) -> None:
        """Have each set hold nothing."""
        dict.update(self, dict.fromkeys(self, Set()))


class Set(frozenset[Key], Generic[Key]):
    """A first-class immutable set of ids or of tuples of ids, table or not; assign a new one to change a field."""

    __slots__ = ()

    def has(self, key: Key) -> bool:
        """Is this id a member?"""
        return key in self

    def with_(self, key: Key) -> Set[Key]:
        """This set and one id."""
        return Set(self.union((key,)))

    def without(self, key: Key) -> Set[Key]:
        """This set less one id."""
        return Set(self.difference((key,)))

    def none(self) -> Set[Key]:
        """The empty set of the same kind."""
        return Set()

    def join(self, other: Set[Key]) -> Set[Key]:
        """The members of either."""
        return Set(self.union(other))

    def minus(self, other: Set[Key]) -> Set[Key]:
        """The members that the other set lacks."""
        return Set(self.difference(other))

    def disjoint(self, other: Set[Key]) -> bool:
        """Have the two sets no member in common?"""
        return self.isdisjoint(other)


def ids(values: Iterable[Any]) -> Set[Any]:
    """A set of these ids."""
    return Set(values)
