"""States: named fields (sizes, scalars, tables, rosters, sets) and named components, described once by annotations."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cache
from typing import Any, Self, TypeVar, get_args, get_origin, get_type_hints

from poolproof.spec.language.errors import SpecError
from poolproof.spec.language.run import IdRange, Map, Roster, Rosters, Set, Sets, Unseen
from poolproof.spec.language.sorts import Size, is_enumeration, is_id, unwrap

K = TypeVar("K", bound=int)


@dataclass(frozen=True)
class Field:
    """One field of a state.

    `kind` is size, scalar, map, roster, set or component; `key` is the sort of a table's keys (a tuple of sorts where
    it has several; the id kind that a size counts); `value` is the sort of what is stored (for a component: its State
    class). A table of rosters or sets is of kind roster or set, with the sorts of its keys in `family`.
    """

    name: str
    kind: str
    key: Any
    value: Any
    ghost: bool
    given: bool = False
    family: tuple[Any, ...] = ()

    @property
    def keys(self) -> tuple[Any, ...]:
        """The sorts of the keys, one by one."""
        return self.key if isinstance(self.key, tuple) else () if self.key is None else (self.key,)


class _StateMeta(type):
    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> Any:
        namespace.setdefault("__slots__", tuple(namespace.get("__annotations__", ())))
        return super().__new__(mcs, name, bases, namespace)


class State(metaclass=_StateMeta):
    """Base of all states. Subclasses only annotate fields; there is no constructor to write.

    `total: Size[Slot]` says how many `Slot` ids exist; a table keyed by `Slot` is total over them.
    """

    __slots__ = ("_domains",)

    _domains: dict[Any, IdRange[Any]]

    def all(self, sort: type[K]) -> IdRange[K]:
        """All ids of a kind that this state, or a component of it, sizes."""
        return self._domains[sort]

    @classmethod
    def blank(cls, **sizes: Any) -> Self:
        """A state of these sizes and given fields, with every other table entry at its sort's zero value.

        Sizes of a component are given as a dict under the component's name, a given table as a sequence.

        Raises:
            SpecError: a size or given field is missing, unknown, negative or of another length.
        """
        state = cls.__new__(cls)
        state._domains = {}
        described = fields_of(cls)
        wanted = {f.name for f in described if f.kind in ("size", "component") or f.given}
        if set(sizes) != wanted:
            raise SpecError(f"{cls.__name__} takes the sizes {sorted(wanted)}, got {sorted(sizes)}")
        for f in (f for f in described if f.kind == "size"):
            if sizes[f.name] < 0:
                raise SpecError(f"{cls.__name__}.{f.name} is {sizes[f.name]}; a size is never negative")
            state._domains[f.key] = IdRange(sizes[f.name])
            setattr(state, f.name, sizes[f.name])
        for f in (f for f in described if f.kind == "component"):
            part = _blank_value(f, state, sizes)
            state._domains = {**part._domains, **state._domains}
            setattr(state, f.name, part)
        for f in (f for f in described if f.kind not in ("size", "component")):
            setattr(state, f.name, _blank_value(f, state, sizes))
        return state

    def copy(self) -> Self:
        """An independent copy."""
        twin = type(self).__new__(type(self))
        twin._domains = self._domains
        for f in fields_of(type(self)):
            value = getattr(self, f.name)
            if f.family:
                value = type(value)(value if f.kind == "set" else {key: item.copy() for key, item in value.items()})
            elif f.kind == "map" and not f.given:
                value = type(value)(value)
            elif f.kind in ("roster", "component"):
                value = value.copy()
            setattr(twin, f.name, value)
        return twin

    def without_ghosts(self) -> Self:
        """A copy whose ghost tables read as zero and take no writes, which makes steps cheaper.

        What is no ghost changes as it would otherwise, since no guard and no effect on it reads a ghost. Claims about
        ghosts mean nothing of such a state.
        """
        twin = self.copy()
        for f in fields_of(type(self)):
            if f.kind == "component":
                setattr(twin, f.name, getattr(twin, f.name).without_ghosts())
            elif f.ghost and f.kind == "map":
                setattr(twin, f.name, Unseen())
        return twin

    def key(self, ghosts: bool = False) -> tuple[Any, ...]:
        """A hashable value that is equal for equal states; ghosts are left out unless asked for."""
        return tuple(
            plain_value(f, getattr(self, f.name), ghosts) for f in fields_of(type(self)) if ghosts or not f.ghost
        )

    def plain(self) -> dict[str, Any]:
        """The state as plain numbers, lists and dicts, for printing and for saved traces."""
        return {f.name: _jsonable(f, getattr(self, f.name)) for f in fields_of(type(self))}


def _places(state: State, sorts: tuple[Any, ...]) -> list[Any]:
    """All keys of a table: ids, or tuples of ids where there are several sorts."""
    if len(sorts) == 1:
        return list(state.all(sorts[0]))
    return list(itertools.product(*(state.all(sort) for sort in sorts)))


def _given_value(f: Field, state: State, value: Any) -> Any:
    """A given field as the instance's maker states it."""
    if f.kind == "scalar":
        return value
    places = _places(state, f.keys)
    entries = list(value)
    if len(entries) != len(places):
        raise SpecError(f"{type(state).__name__}.{f.name}: {len(entries)} value(s) for a table of {len(places)}")
    return Map(zip(places, entries, strict=True))


def _blank_value(f: Field, state: State, sizes: dict[str, Any]) -> Any:
    if f.given:
        return _given_value(f, state, sizes[f.name])
    if f.family:
        places = _places(state, f.family)
        if f.kind == "set":
            return Sets(dict.fromkeys(places, Set()))
        return Rosters({place: Roster(state.all(f.key).size) for place in places})
    if f.kind == "map":
        return Map(dict.fromkeys(_places(state, f.keys), zero_of(f.value)))
    if f.kind == "roster":
        return Roster(state.all(f.key).size)
    if f.kind == "set":
        return Set()
    if f.kind == "component":
        return f.value.blank(**sizes[f.name])
    return zero_of(f.value)


def zero_of(sort: Any) -> Any:
    """The value that a blank state holds: False, 0, id 0, or the first member of an enumeration."""
    return next(iter(sort)) if is_enumeration(sort) else False if sort is bool else 0


def plain_value(f: Field, value: Any, ghosts: bool) -> Any:
    """A hashable form of one field's value."""
    if f.family and f.kind == "roster":
        return tuple(frozenset(roster.members) for roster in value.values())
    if f.kind == "map" or f.family:
        return tuple(value.values())
    if f.kind == "roster":
        return frozenset(value.members)
    if f.kind == "component":
        return value.key(ghosts)
    return value


def _jsonable(f: Field, value: Any) -> Any:
    if f.family:
        return _nested({key: _members(item) for key, item in value.items()}, len(f.family))
    if f.kind == "map":
        return _nested({key: plain_scalar(item) for key, item in value.items()}, len(f.keys))
    if f.kind in ("roster", "set"):
        return _members(value)
    if f.kind == "component":
        return value.plain()
    return plain_scalar(value)


def _members(value: Any) -> list[Any]:
    """The members of a roster or set, in order; a tuple as a list."""
    return [list(map(int, item)) if isinstance(item, tuple) else int(item) for item in sorted(value)]


def _nested(table: dict[Any, Any], depth: int) -> list[Any]:
    """The values of a table in the order of its keys, a list in a list for every further key."""
    if depth == 1:
        return list(table.values())
    rows: dict[Any, dict[Any, Any]] = {}
    for key, value in table.items():
        rows.setdefault(key[0], {})[key[1:] if depth > 2 else key[1]] = value
    return [_nested(row, depth - 1) for row in rows.values()]


def plain_scalar(value: Any) -> Any:
    """A scalar for people: an enumeration's member by its name, anything else as it is."""
    return value.name if is_enumeration(type(value)) else value if isinstance(value, bool) else int(value)


@cache
def fields_of(cls: type[State]) -> tuple[Field, ...]:
    """The fields of a state class, in the order of their annotations.

    Raises:
        SpecError: an annotation is none that a state can hold.
    """
    hints = get_type_hints(cls, include_extras=True)
    found = tuple(_field(cls, name, hint) for name, hint in hints.items() if not name.startswith("_"))
    sizes = [f.key for f in found if f.kind == "size"]
    known = {*sizes, *(sort for f in found if f.kind == "component" for sort in sized(f.value))}
    if len(set(sizes)) < len(sizes):
        raise SpecError(f"{cls.__name__}: two sizes count the same kind of id; put them in components of their own")
    for f in found:
        if hasattr(State, f.name):
            raise SpecError(f"{cls.__name__}.{f.name}: the name is taken by the language; choose another")
        keys = {*f.family, *(f.keys if f.kind in ("map", "roster") else ())}
        if not keys <= known:
            raise SpecError(f"{cls.__name__}.{f.name}: a table needs a Size[...] of its keys beside it")
    return found


@cache
def sized(cls: type[State]) -> frozenset[Any]:
    """The kinds of id that a state or a component of it sizes."""
    own = {f.key for f in fields_of(cls) if f.kind == "size"}
    return frozenset(own.union(*(sized(f.value) for f in fields_of(cls) if f.kind == "component")))


def names_of(cls: type[State], kind: str, prefix: str = "") -> list[str]:
    """The full names of all fields of a kind ("given" for given ones), those of components included: "slots.total"."""
    found = []
    for f in fields_of(cls):
        if f.kind == "component":
            found += names_of(f.value, kind, f"{prefix}{f.name}.")
        elif f.given if kind == "given" else f.kind == kind:
            found.append(prefix + f.name)
    return found


def nested_sizes(sizes: dict[str, Any]) -> dict[str, Any]:
    """Sizes by their full names as `State.blank` takes them: {"slots.total": 3} becomes {"slots": {"total": 3}}."""
    nested: dict[str, Any] = {}
    for name, size in sizes.items():
        *path, last = name.split(".")
        inner = nested
        for part in path:
            inner = inner.setdefault(part, {})
        inner[last] = size
    return nested


def is_scalar(sort: Any) -> bool:
    """Is this a sort of single values: integers, truth values, ids, enumerations?"""
    return sort in (int, bool) or is_id(sort) or is_enumeration(sort)


def _ids(annotation: Any) -> tuple[Any, ...]:
    """The id sorts of a key, one or a tuple of several; () where it is no key."""
    if is_id(annotation):
        return (annotation,)
    parts = get_args(annotation) if get_origin(annotation) is tuple else ()
    return parts if parts and all(is_id(part) for part in parts) else ()


def _one_or_all(annotation: Any) -> Any:
    """The sort of a key of one part; the tuple of the sorts of several."""
    sorts = _ids(annotation)
    return sorts[0] if len(sorts) == 1 else sorts


def _field(cls: type[State], name: str, hint: Any) -> Field:
    bare, marks = unwrap(hint)
    origin, args = get_origin(bare), get_args(bare)
    ghost = "ghost" in marks
    if origin is Size and is_id(args[0]):
        return Field(name, "size", args[0], int, ghost)
    given = "given" in marks
    if given and not (origin is Map and is_scalar(args[1])) and not is_scalar(bare):
        raise SpecError(f"{cls.__name__}.{name}: only single values and tables of them are given")
    if given and origin is Map and len(_ids(args[0])) > 1:
        raise SpecError(f"{cls.__name__}.{name}: a given table has one key")
    if origin is Map and _ids(args[0]) and is_scalar(args[1]):
        return Field(name, "map", _one_or_all(args[0]), args[1], ghost, given)
    if origin is Map and _ids(args[0]) and get_origin(args[1]) in (Roster, Set):
        kind, (inner,) = "roster" if get_origin(args[1]) is Roster else "set", get_args(args[1])
        if _ids(inner) and (kind == "set" or is_id(inner)):
            return Field(name, kind, _one_or_all(inner), bool, ghost, family=_ids(args[0]))
    if origin is Roster and is_id(args[0]):
        return Field(name, "roster", args[0], bool, ghost)
    if origin is Set and _ids(args[0]):
        return Field(name, "set", _one_or_all(args[0]), bool, ghost)
    if isinstance(bare, type) and issubclass(bare, State):
        if ghost:
            raise SpecError(f"{cls.__name__}.{name}: a component is no ghost; mark its fields instead")
        return Field(name, "component", None, bare, ghost)
    if is_scalar(bare):
        return Field(name, "scalar", None, bare, ghost, given)
    raise SpecError(f"{cls.__name__}.{name}: a state cannot hold {hint!r}")
