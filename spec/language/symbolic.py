"""The symbolic state: the same field names as the run reading, holding terms instead of numbers.

A table is a closure over an uninterpreted function; a write puts one more case on top. A roster is its size and a
pair of tables, member and position, that are inverse to one another.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from poolproof.spec.language import tracing
from poolproof.spec.language.errors import NotBoolean, SortMismatch, SpecError
from poolproof.spec.language.state import Field, State, fields_of, sized
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


def _keys(key: Any, sorts: tuple[Any, ...]) -> tuple[Term, ...]:
    """A key as terms, one for each of the table's sorts."""
    parts = key if isinstance(key, tuple) else (key,)
    if len(parts) != len(sorts):
        wanted = ", ".join(name_of(sort) for sort in sorts)
        raise SortMismatch(f"expected a key of {wanted}, got {len(parts)} part(s)")
    return tuple(lift(part, sort) for part, sort in zip(parts, sorts, strict=True))


class SymbolicSet(_Incomparable):
    """A first-class set: a predicate over ids, or over tuples of ids; `prefix` is its place in a family of sets."""

    def __init__(self, version: Version, prefix: tuple[Term, ...] = ()) -> None:
        self.version = version
        self.prefix = prefix

    @property
    def sorts(self) -> tuple[Any, ...]:
        """The sort of the members, part by part."""
        return self.version.key_sorts[len(self.prefix) :]

    def _has(self, keys: tuple[Term, ...]) -> Term:
        return Term("read", (self.version, *self.prefix, *keys), bool)

    def has(self, key: Any) -> Term:
        """Is this id a member?"""
        return self._has(_keys(key, self.sorts))

    def with_(self, key: Any) -> SymbolicSet:
        """This set and one id."""
        return self._put(("set", (*self.prefix, *_keys(key, self.sorts)), TRUE))

    def without(self, key: Any) -> SymbolicSet:
        """This set less one id."""
        return self._put(("set", (*self.prefix, *_keys(key, self.sorts)), FALSE))

    def none(self) -> SymbolicSet:
        """The empty set of the same kind."""
        return self._where(lambda keys: TRUE, FALSE)

    def join(self, other: SymbolicSet) -> SymbolicSet:
        """The members of either."""
        return self._where(other.has, TRUE)

    def minus(self, other: SymbolicSet) -> SymbolicSet:
        """The members that the other set lacks."""
        return self._where(other.has, FALSE)

    def disjoint(self, other: SymbolicSet) -> Term:
        """Have the two sets no member in common?"""
        return self._quantify("forall", lambda keys: Term("not", (other.has(keys),), bool))

    def quantify(self, op: str, body: Callable[..., Any], witness: Callable[[], Any] | None = None) -> Term:
        """`forall` or `exists` over the members; the body takes the parts of a member."""
        return self._quantify(op, lambda keys: body(*keys), witness)

    def _quantify(
        self, op: str, body: Callable[[tuple[Term, ...]], Any], witness: Callable[[], Any] | None = None
    ) -> Term:
        trace = tracing.current()
        variables = tuple(trace.fresh(sort) for sort in self.sorts)
        member = self._has(variables)  # any id may be a member, even of a kind with a size
        with ExitStack() as bound:
            for variable in variables:
                bound.enter_context(trace.binding(variable, None, None))
            with trace.assuming(member):
                inside = boolean(body(variables), f"the body of {op}")
        found = Term("=>", (member, inside), bool) if op == "forall" else conjunction([member, inside])
        shown = None
        if witness is not None:
            keys = _keys(witness(), self.sorts)
            shown = conjunction([self._has(keys), boolean(body(keys), "the body of exists")])
        for variable in reversed(variables):
            found = Term(op, (variable, None, None, found, *((shown,) if op == "exists" else ())), bool)
        return found

    def _where(self, condition: Callable[[tuple[Term, ...]], Term], value: Term) -> SymbolicSet:
        """This set with a value for every member that meets a condition."""
        trace = tracing.current()
        places = tuple(trace.fresh(sort) for sort in self.version.key_sorts)
        here = [Term("=", pair, bool) for pair in zip(places, self.prefix, strict=False)]
        return self._put(("where", places, conjunction([*here, condition(places[len(self.prefix) :])]), value))

    def _put(self, write: tuple[Any, ...]) -> SymbolicSet:
        old = self.version
        return SymbolicSet(Version(old.field, old.key_sorts, bool, old, write), self.prefix)

    def __iter__(self) -> Any:
        raise SpecError("a symbolic set cannot be iterated; use forall or exists")

    def __contains__(self, key: object) -> bool:
        raise SpecError("use .has(id) instead of `in`")


def _in_range(state: SymbolicState, sorts: tuple[Any, ...], key: Any) -> tuple[Term, ...]:
    """A key as terms, each demanded to be an id of its kind."""
    keys = _keys(key, sorts)
    for part, sort in zip(keys, sorts, strict=True):
        ids = state.all(sort)
        if not tracing.current().ranges_over(part, ids.high):
            tracing.current().demand(ids.has(part))
    return keys


class SymbolicMap(_Incomparable):
    """A table of a symbolic state."""

    def __init__(self, state: SymbolicState, f: Field) -> None:
        self._state, self._field = state, f

    def _key(self, key: Any) -> tuple[Term, ...]:
        return _in_range(self._state, self._field.keys, key)

    def __getitem__(self, key: Any) -> Term:
        return Term("read", (self._state.get(self._field.name), *self._key(key)), self._field.value)

    def __setitem__(self, key: Any, value: Any) -> None:
        keys, stored = self._key(key), lift(value, self._field.value)
        self._state.note(self._field, keys, stored, *keys)
        self._state.write(self._field.name, ("set", keys, stored))

    def relabel(self, to: Callable[..., Any], where: Callable[..., Any] | None = None) -> None:
        """Bulk update of every key for which `where` holds."""
        trace = tracing.current()
        variables = tuple(trace.fresh(sort) for sort in self._field.keys)
        with ExitStack() as bound:
            for variable, sort in zip(variables, self._field.keys, strict=True):
                ids = self._state.all(sort)
                bound.enter_context(trace.binding(variable, ids.low, ids.high))
            condition = TRUE if where is None else boolean(where(*variables), "where=")
            with trace.assuming(condition):
                value = lift(to(*variables), self._field.value)
        self._state.note(self._field, None, condition, value)
        self._state.write(self._field.name, ("where", variables, condition, value))

    def __iter__(self) -> Any:
        raise SpecError("a symbolic table cannot be iterated; use forall over its ids")


class SymbolicFamily(_Incomparable):
    """A table of sets or of rosters."""

    def __init__(self, state: SymbolicState, f: Field) -> None:
        self._state, self._field = state, f

    def __getitem__(self, key: Any) -> Any:
        place = _in_range(self._state, self._field.family, key)
        if self._field.kind == "roster":
            return SymbolicRoster(self._state, self._field, place)
        return SymbolicSet(self._state.get(self._field.name), place)

    def __setitem__(self, key: Any, value: Any) -> None:
        f, name = self._field, self._field.name
        if f.kind != "set" or not isinstance(value, SymbolicSet):
            raise SpecError(f"{name}: an entry of a table of {f.kind}s cannot be assigned {describe(value)}")
        place = _in_range(self._state, f.family, key)
        _same_members(f, value)
        trace = tracing.current()
        variables = tuple(trace.fresh(sort) for sort in (*f.family, *f.keys))
        here = conjunction([Term("=", pair, bool) for pair in zip(variables, place, strict=False)])
        member = value._has(variables[len(place) :])
        self._state.note(f, None, member, *place)
        self._state.write(name, ("where", variables, here, member))

    def _each(self, act: Callable[[SymbolicRoster, tuple[Term, ...]], None]) -> None:
        """Do the same to every roster of the family."""
        trace = tracing.current()
        place = tuple(trace.fresh(sort) for sort in self._field.family)
        with ExitStack() as bound:
            for variable in place:
                ids = self._state.all(variable.sort)
                bound.enter_context(trace.binding(variable, ids.low, ids.high))
            act(SymbolicRoster(self._state, self._field, place, bulk=True), place)

    def are_bijections(self, place: tuple[Term, ...] = ()) -> Term:
        """What every roster of the family keeps; with a part of a key, every roster at it."""
        if len(place) == len(self._field.family):
            claim: Term = self[place].is_bijection()
            return claim
        ids = self._state.all(self._field.family[len(place)])
        return ids.quantify("forall", lambda k: self.are_bijections((*place, k)))

    def fill(self, low: Callable[[Any], Any], high: Callable[[Any], Any]) -> None:
        """Have each roster hold exactly the ids low(k) .. high(k) - 1."""
        if self._field.kind != "roster":
            raise SpecError(f"{self._field.name}: only rosters are filled")
        self._each(lambda roster, place: roster.fill(low(*place), high(*place)))

    def empty(self) -> None:
        """Have each roster, or each set, hold nothing."""
        f = self._field
        if f.kind == "roster":
            self._each(lambda roster, place: roster.empty())
            return
        variables = tuple(tracing.current().fresh(sort) for sort in (*f.family, *f.keys))
        self._state.note(f, None)
        self._state.write(f.name, ("where", variables, TRUE, FALSE))

    def __iter__(self) -> Any:
        raise SpecError("a symbolic table cannot be iterated; use forall over its ids")


def _same_members(f: Field, value: SymbolicSet) -> None:
    if value.sorts != f.keys:
        held, given = (", ".join(name_of(sort) for sort in sorts) for sorts in (f.keys, value.sorts))
        raise SortMismatch(f"{f.name} holds {held}, not {given}")


class SymbolicRoster(_Incomparable):
    """A roster of a symbolic state: position(member(i)) = i for 0 <= i < size.

    `place` is its key in a table of rosters; with `bulk`, writes reach every roster of that table.
    """

    def __init__(self, state: SymbolicState, f: Field, place: tuple[Term, ...] = (), bulk: bool = False) -> None:
        self._state, self._field, self._place, self._bulk = state, f, place, bulk

    def _put_size(self, value: Term) -> None:
        name = self._field.name + ".size"
        if not self._place:
            self._state.put(name, value)
        else:
            self._state.write(name, ("where", self._place, TRUE, value) if self._bulk else ("set", self._place, value))

    def _put_entry(self, part: str, key: Term, value: Term) -> None:
        self._state.write(f"{self._field.name}.{part}", ("set", (*self._place, key), value))

    def _put_where(self, part: str, key: Term, condition: Term, value: Term) -> None:
        """Write the entries of this roster at every key that meets a condition."""
        if self._bulk or not self._place:
            self._state.write(f"{self._field.name}.{part}", ("where", (*self._place, key), condition, value))
            return
        trace = tracing.current()
        own = tuple(trace.fresh(place.sort) for place in self._place)
        here = [Term("=", pair, bool) for pair in zip(own, self._place, strict=True)]
        write = ("where", (*own, key), conjunction([*here, condition]), value)
        self._state.write(f"{self._field.name}.{part}", write)

    @property
    def size(self) -> Term:
        """The number of members."""
        stored = self._state.get(self._field.name + ".size")
        return Term("read", (stored, *self._place), int) if self._place else stored

    def member(self, index: Any) -> Term:
        """The member at a position (a ghost order)."""
        table = self._state.get(self._field.name + ".member")
        return Term("read", (table, *self._place, lift(index, int)), self._field.key)

    def position(self, key: Term) -> Term:
        """The position of a member."""
        return Term("read", (self._state.get(self._field.name + ".position"), *self._place, key), int)

    def _in_table(self, key: Any) -> Term:
        return _in_range(self._state, self._field.keys, key)[0]

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
        self._state.note(self._field, None, item, *self._place)
        size = self.size
        self._put_entry("member", size, item)
        self._put_entry("position", item, size)
        self._put_size(size + 1)

    def remove(self, key: Any) -> None:
        """Remove a member; the last one takes its position."""
        item = self._in_table(key)
        tracing.current().demand(self._has(item))
        self._state.note(self._field, None, item, *self._place)
        size, index = self.size, self.position(item)
        last = self.member(size - 1)
        self._put_entry("member", index, last)
        self._put_entry("position", last, index)
        self._put_size(size - 1)

    def absorb(self, other: SymbolicRoster) -> None:
        """Append all members of a disjoint roster."""
        trace, ids = tracing.current(), self._state.all(self._field.key)
        trace.demand(ids.quantify("forall", lambda k: Term("not", (conjunction([self._has(k), other._has(k)]),), bool)))
        if other._state._prefix != self._state._prefix:  # another component, with a size of its own
            listed = SymbolicIds(int, lift(0, int), other.size)
            trace.demand(listed.quantify("forall", lambda i: ids.has(other.member(i))))
        size, index, key = self.size, trace.fresh(int), trace.fresh(self._field.key)
        self._state.note(self._field, None, other.size, other._has(key))
        appended = other.member(index - size)
        position, joins, total = size + other.position(key), other._has(key), size + other.size
        self._put_where("member", index, size <= index, appended)
        self._put_where("position", key, joins, position)
        self._put_size(total)

    def fill(self, low: Any, high: Any) -> None:
        """Hold exactly the ids low .. high - 1."""
        trace = tracing.current()
        first, ids = lift(low, self._field.key), self._state.all(self._field.key)
        bound = _as_id(high, self._field.key)
        trace.demand(conjunction([ids.low <= first, first <= bound, bound <= ids.high]))
        self._state.note(self._field, None, first, bound)
        index, key = trace.fresh(int), trace.fresh(self._field.key)
        self._put_where("member", index, TRUE, Term("+", (first, index), self._field.key))
        self._put_where("position", key, TRUE, key - first)
        self._put_size(bound - first)

    def empty(self) -> None:
        """Hold nothing."""
        self._state.note(self._field, None)
        self._put_size(lift(0, int))

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
        self.put(name, Version(old.field, old.key_sorts, old.value_sort, old, write))

    def note(self, f: Field, key: tuple[Term, ...] | None, *values: Term) -> None:
        """Record an effect; what is written to a real field must not depend on ghosts."""
        trace = tracing.current()
        if f.given:
            raise SpecError(f"{self._prefix}{f.name} is given with the sizes and never changes")
        if not f.ghost:
            for value in values:
                trace.reject_ghosts(value, f"the write to {f.name}")
        trace.wrote(self._prefix + f.name, key, f.kind == "map")

    def all(self, sort: Any) -> SymbolicIds:
        """All ids of a kind that this state, or a component of it, sizes."""
        for f in fields_of(self._cls):
            if f.kind == "size" and f.key is sort:
                return SymbolicIds(sort, lift(sort(0), sort), _as_id(self.get(f.name), sort))
        for f in fields_of(self._cls):
            if f.kind == "component" and sort in sized(f.value):
                inner: SymbolicState = getattr(self, f.name)
                return inner.all(sort)
        raise SpecError(f"{self._cls.__name__} has no Size[{name_of(sort)}]")

    def _described(self, name: str) -> Field:
        for f in fields_of(self._cls):
            if f.name == name:
                return f
        raise AttributeError(f"{self._cls.__name__} has no field {name!r}")

    def __getattr__(self, name: str) -> Any:
        f = self._described(name)
        if f.family:
            return SymbolicFamily(self, f)
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
        if f.kind == "set" and not f.family and isinstance(value, SymbolicSet):
            _same_members(f, value)
            variables = tuple(tracing.current().fresh(sort) for sort in f.keys)
            self.note(f, None, value._has(variables))
            if value.prefix or value.version.field != self._prefix + name:
                self.write(name, ("where", variables, TRUE, value._has(variables)))
            else:
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
            store[name] = Version(name, (*f.family, *f.keys), f.value)
        elif f.kind == "roster":
            size = name + ".size"
            store[size] = Version(size, f.family, int) if f.family else Term("field", (size,), int)
            store[name + ".member"] = Version(name + ".member", (*f.family, int), f.key)
            store[name + ".position"] = Version(name + ".position", (*f.family, f.key), int)
        else:
            store[name] = Term("field", (name,), f.value)
