"""The symbolic state: the same field names as the run reading, holding terms instead of numbers.

A table is a closure over an uninterpreted function; a write puts one more case on top. A roster is its size and a
pair of tables, member and position, that are inverse to one another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from poolproof.spec.language import tracing
from poolproof.spec.language.errors import NotBoolean, SortMismatch, SpecError
from poolproof.spec.language.state import Field, State, fields_of
from poolproof.spec.language.terms import FALSE, TRUE, Term, Version, conjunction, describe, lift, name_of


class _Incomparable:
    """A container whose == would compare Python objects, not contents, and so is loud."""

    def __eq__(self, other: object) -> bool:
        raise SpecError("two symbolic containers cannot be compared with ==; compare their entries with forall")

    __hash__ = None  # type: ignore[assignment]


class SymbolicIds(_Incomparable):
    """All ids of one kind (low <= id < high), or of any integer range."""

    def __init__(self, sort: Any, low: Term, high: Term) -> None:
        self.sort, self.low, self.high = sort, low, high

    def has(self, key: Any) -> Term:
        """Is this an id of the kind?"""
        item = lift(key, self.sort)
        return conjunction([Term("<=", (self.low, item), bool), Term("<", (item, self.high), bool)])

    def quantify(self, op: str, body: Callable[[Any], Any], witness: Callable[[], Any] | None = None) -> Term:
        """`forall` or `exists` over the range."""
        trace = tracing.current()
        variable = trace.fresh(self.sort)
        with trace.binding(variable, self.low, self.high):
            inside = boolean(body(variable), f"the body of {op}")
        if op == "forall":
            return Term("forall", (variable, self.low, self.high, inside), bool)
        shown = None
        if witness is not None:
            item = lift(witness(), self.sort)
            shown = conjunction([self.has(item), boolean(body(item), "the body of exists")])
        return Term("exists", (variable, self.low, self.high, inside, shown), bool)

    def __iter__(self) -> Any:
        raise SpecError("a symbolic range cannot be iterated; use forall or exists")

    def __contains__(self, key: object) -> bool:
        raise SpecError("use .has(id) instead of `in`")


class SymbolicSet(_Incomparable):
    """A first-class set: a predicate over ids."""

    def __init__(self, version: Version) -> None:
        self.version = version

    def has(self, key: Any) -> Term:
        """Is this id a member?"""
        return Term("read", (self.version, lift(key, self.version.key_sort)), bool)

    def with_(self, key: Any) -> SymbolicSet:
        """This set and one id."""
        return self._put(("set", lift(key, self.version.key_sort), TRUE))

    def without(self, key: Any) -> SymbolicSet:
        """This set less one id."""
        return self._put(("set", lift(key, self.version.key_sort), FALSE))

    def join(self, other: SymbolicSet) -> SymbolicSet:
        """The members of either."""
        variable = tracing.current().fresh(self.version.key_sort)
        return self._put(("where", variable, other.has(variable), TRUE))

    def minus(self, other: SymbolicSet) -> SymbolicSet:
        """The members that the other set lacks."""
        variable = tracing.current().fresh(self.version.key_sort)
        return self._put(("where", variable, other.has(variable), FALSE))

    def disjoint(self, other: SymbolicSet) -> Term:
        """Have the two sets no member in common?"""
        return self.quantify("forall", lambda key: Term("not", (other.has(key),), bool))

    def quantify(self, op: str, body: Callable[[Any], Any], witness: Callable[[], Any] | None = None) -> Term:
        """`forall` or `exists` over the members."""
        trace = tracing.current()
        variable = trace.fresh(self.version.key_sort)
        member = self.has(variable)  # any id may be a member, even of a kind with a size
        with trace.binding(variable, None, None), trace.assuming(member):
            inside = boolean(body(variable), f"the body of {op}")
        if op == "forall":
            return Term("forall", (variable, None, None, Term("=>", (member, inside), bool)), bool)
        shown = None
        if witness is not None:
            item = lift(witness(), self.version.key_sort)
            shown = conjunction([self.has(item), boolean(body(item), "the body of exists")])
        return Term("exists", (variable, None, None, conjunction([member, inside]), shown), bool)

    def _put(self, write: tuple[Any, ...]) -> SymbolicSet:
        old = self.version
        return SymbolicSet(Version(old.field, old.key_sort, bool, old, write))


class SymbolicMap(_Incomparable):
    """A table of a symbolic state."""

    def __init__(self, state: SymbolicState, f: Field) -> None:
        self._state, self._field = state, f

    def _key(self, key: Any) -> Term:
        item = lift(key, self._field.key)
        tracing.current().demand(self._state.all(self._field.key).has(item))
        return item

    def __getitem__(self, key: Any) -> Term:
        return Term("read", (self._state.get(self._field.name), self._key(key)), self._field.value)

    def __setitem__(self, key: Any, value: Any) -> None:
        item, stored = self._key(key), lift(value, self._field.value)
        self._state.note(self._field, item, stored, item)
        self._state.write(self._field.name, ("set", item, stored))

    def relabel(self, to: Callable[[Any], Any], where: Callable[[Any], Any] | None = None) -> None:
        """Bulk update of every key for which `where` holds."""
        trace = tracing.current()
        variable = trace.fresh(self._field.key)
        ids = self._state.all(self._field.key)
        with trace.binding(variable, ids.low, ids.high):
            condition = TRUE if where is None else boolean(where(variable), "where=")
            with trace.assuming(condition):
                value = lift(to(variable), self._field.value)
        self._state.note(self._field, None, condition, value)
        self._state.write(self._field.name, ("where", variable, condition, value))

    def __iter__(self) -> Any:
        raise SpecError("a symbolic table cannot be iterated; use forall over its ids")


class SymbolicRoster(_Incomparable):
    """A roster of a symbolic state: position(member(i)) = i for 0 <= i < size."""

    def __init__(self, state: SymbolicState, f: Field) -> None:
        self._state, self._field = state, f

    @property
    def size(self) -> Term:
        """The number of members."""
        term: Term = self._state.get(self._field.name + ".size")
        return term

    def member(self, index: Any) -> Term:
        """The member at a position (a ghost order)."""
        return Term("read", (self._state.get(self._field.name + ".member"), lift(index, int)), self._field.key)

    def position(self, key: Term) -> Term:
        """The position of a member."""
        return Term("read", (self._state.get(self._field.name + ".position"), key), int)

    def _in_table(self, key: Any) -> Term:
        item = lift(key, self._field.key)
        tracing.current().demand(self._state.all(self._field.key).has(item))
        return item

    def has(self, key: Any) -> Term:
        """Is this id a member?"""
        return self._has(self._in_table(key))

    def _has(self, item: Term) -> Term:
        index = self.position(item)
        return conjunction([index >= 0, index < self.size, self.member(index) == item])

    def pick(self) -> Term:
        """Some member."""
        tracing.current().demand(self.size > 0)
        return self.member(0)

    def add(self, key: Any) -> None:
        """Append an id that is not a member."""
        item = self._in_table(key)
        tracing.current().demand(Term("not", (self._has(item),), bool))
        self._state.note(self._field, item, item)
        size, name = self.size, self._field.name
        self._state.write(name + ".member", ("set", size, item))
        self._state.write(name + ".position", ("set", item, size))
        self._state.put(name + ".size", size + 1)

    def remove(self, key: Any) -> None:
        """Remove a member; the last one takes its position."""
        item = self._in_table(key)
        tracing.current().demand(self._has(item))
        self._state.note(self._field, item, item)
        size, index, name = self.size, self.position(item), self._field.name
        last = self.member(size - 1)
        self._state.write(name + ".member", ("set", index, last))
        self._state.write(name + ".position", ("set", last, index))
        self._state.put(name + ".size", size - 1)

    def absorb(self, other: SymbolicRoster) -> None:
        """Append all members of a disjoint roster."""
        trace, ids, name = tracing.current(), self._state.all(self._field.key), self._field.name
        trace.demand(ids.quantify("forall", lambda k: Term("not", (conjunction([self._has(k), other._has(k)]),), bool)))
        if other._state._prefix != self._state._prefix:  # another component, with a size of its own
            listed = SymbolicIds(int, lift(0, int), other.size)
            trace.demand(listed.quantify("forall", lambda i: ids.has(other.member(i))))
        size, index, key = self.size, trace.fresh(int), trace.fresh(self._field.key)
        self._state.note(self._field, None, other.size, other._has(key))
        appended = other.member(index - size)
        position, joins, total = size + other.position(key), other._has(key), size + other.size
        self._state.write(name + ".member", ("where", index, size <= index, appended))
        self._state.write(name + ".position", ("where", key, joins, position))
        self._state.put(name + ".size", total)

    def fill(self, low: Any, high: Any) -> None:
        """Hold exactly the ids low .. high - 1."""
        trace, name = tracing.current(), self._field.name
        first, ids = lift(low, self._field.key), self._state.all(self._field.key)
        bound = _as_id(high, self._field.key)
        trace.demand(conjunction([ids.low <= first, first <= bound, bound <= ids.high]))
        self._state.note(self._field, None, first, bound)
        index, key = trace.fresh(int), trace.fresh(self._field.key)
        self._state.write(name + ".member", ("where", index, TRUE, Term("+", (first, index), self._field.key)))
        self._state.write(name + ".position", ("where", key, TRUE, key - first))
        self._state.put(name + ".size", bound - first)

    def empty(self) -> None:
        """Hold nothing."""
        self._state.note(self._field, None)
        self._state.put(self._field.name + ".size", lift(0, int))

    def is_bijection(self) -> Term:
        """What every roster keeps: member and position are inverse to one another on 0 .. size - 1."""
        ids = self._state.all(self._field.key)

        def listed(index: Term) -> Term:
            item = self.member(index)
            return conjunction([ids.has(item), self.position(item) == index])

        return conjunction([self.size >= 0, SymbolicIds(int, lift(0, int), self.size).quantify("forall", listed)])

    def __iter__(self) -> Any:
        raise SpecError("a symbolic roster cannot be iterated; use forall over its ids")

    def __contains__(self, key: object) -> bool:
        raise SpecError("use .has(id) instead of `in`")


def _as_id(value: Any, sort: Any) -> Term:
    """A size as the exclusive upper bound of ids."""
    term = value if isinstance(value, Term) else lift(value, int)
    return Term("as", (term,), sort)


def boolean(value: Any, what: str) -> Term:
    """The value as a truth value.

    Raises:
        NotBoolean: it is none.
    """
    try:
        return lift(value, bool)
    except SortMismatch:
        raise NotBoolean(f"{what} must be a truth value, got {describe(value)}") from None


class SymbolicState:
    """A view of the store of terms under one component's name."""

    def __init__(self, cls: type[State], store: dict[str, Any], prefix: str = "") -> None:
        object.__setattr__(self, "_cls", cls)
        object.__setattr__(self, "_store", store)
        object.__setattr__(self, "_prefix", prefix)

    @classmethod
    def base(cls, state: type[State]) -> SymbolicState:
        """An arbitrary state: every field an uninterpreted constant or function."""
        store: dict[str, Any] = {}
        _fill_store(state, store, "")
        return cls(state, store)

    def snapshot(self) -> SymbolicState:
        """An independent copy."""
        return SymbolicState(self._cls, dict(self._store), self._prefix)

    def get(self, name: str) -> Any:
        """The current term or version of a stored part."""
        return self._store[self._prefix + name]

    def put(self, name: str, value: Any) -> None:
        """Replace a stored part."""
        self._store[self._prefix + name] = value

    def write(self, name: str, write: tuple[Any, ...]) -> None:
        """Put one write on top of a stored table."""
        old = self.get(name)
        self.put(name, Version(old.field, old.key_sort, old.value_sort, old, write))

    def note(self, f: Field, key: Term | None, *values: Term) -> None:
        """Record an effect; what is written to a real field must not depend on ghosts."""
        trace = tracing.current()
        if not f.ghost:
            for value in values:
                trace.reject_ghosts(value, f"the write to {f.name}")
        trace.writes.append(tracing.Write(self._prefix + f.name, key, f.kind == "map"))

    def all(self, sort: Any) -> SymbolicIds:
        """All ids of a kind that this state sizes."""
        for f in fields_of(self._cls):
            if f.kind == "size" and f.key is sort:
                return SymbolicIds(sort, lift(sort(0), sort), _as_id(self.get(f.name), sort))
        raise SpecError(f"{self._cls.__name__} has no Size[{name_of(sort)}]")

    def _described(self, name: str) -> Field:
        for f in fields_of(self._cls):
            if f.name == name:
                return f
        raise AttributeError(f"{self._cls.__name__} has no field {name!r}")

    def __getattr__(self, name: str) -> Any:
        f = self._described(name)
        if f.kind == "map":
            return SymbolicMap(self, f)
        if f.kind == "roster":
            return SymbolicRoster(self, f)
        if f.kind == "component":
            return SymbolicState(f.value, self._store, f"{self._prefix}{name}.")
        if f.kind == "set":
            return SymbolicSet(self.get(name))
        return self.get(name)

    def __setattr__(self, name: str, value: Any) -> None:
        f = self._described(name)
        if f.kind == "set" and isinstance(value, SymbolicSet):
            if value.version.key_sort is not f.key:
                raise SortMismatch(f"{f.name} holds {name_of(f.key)}, not {name_of(value.version.key_sort)}")
            probe = value.has(tracing.current().fresh(f.key))
            self.note(f, None, probe)
            self.put(name, value.version)
        elif f.kind == "scalar":
            stored = lift(value, f.value)
            self.note(f, None, stored)
            self.put(name, stored)
        else:
            raise SpecError(f"{f.name} is a {f.kind} and cannot be assigned")

    def __eq__(self, other: object) -> bool:
        raise SpecError("two symbolic states cannot be compared with ==; compare their fields")

    __hash__ = None  # type: ignore[assignment]


def _fill_store(cls: type[State], store: dict[str, Any], prefix: str) -> None:
    for f in fields_of(cls):
        name = prefix + f.name
        if hasattr(SymbolicState, f.name):
            raise SpecError(f"{cls.__name__}.{f.name}: the name is taken by the language; choose another")
        if f.kind == "component":
            _fill_store(f.value, store, name + ".")
        elif f.kind in ("map", "set"):
            store[name] = Version(name, f.key, f.value, None, ("base",))
        elif f.kind == "roster":
            store[name + ".size"] = Term("field", (name + ".size",), int)
            store[name + ".member"] = Version(name + ".member", int, f.key, None, ("base",))
            store[name + ".position"] = Version(name + ".position", f.key, int, None, ("base",))
        else:
            store[name] = Term("field", (name,), f.value)
