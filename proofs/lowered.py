"""The lowered reading of one step or one claim: the terms that the proofs are about, evaluated by Z3 on a given state.

Everything about the state is pinned in the text that the solver reads, so what it answers is what the lowering says,
by way of the same printer that the proofs use. The differential tests hold it against the run reading.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from poolproof.proofs.concrete import concrete
from poolproof.proofs.smtlib import Printer, field_name, literal
from poolproof.proofs.solver import LONG_LIMIT, solve_each
from poolproof.spec.language import IllDefined, Item, SpecError, Specification, State, fields_of
from poolproof.spec.language.sorts import is_enumeration
from poolproof.spec.language.specification import variables
from poolproof.spec.language.state import Field
from poolproof.spec.language.symbolic import SymbolicState
from poolproof.spec.language.terms import Term, Version, conjunction, lift
from poolproof.spec.language.tracing import Trace, tracing

_ENTRIES = {"roster": ("", ".size", ".listed"), "set": ("",)}
"""The entries of `observed` for a container of each kind."""

MARGIN = 4
"""How far beyond the numbers of the pinned state and arguments the members of a set are looked for."""

NEAR = 2
"""How far beyond the ids of its kind a part of a tuple is looked for: pairs over all numbers would be too many."""


@dataclass(frozen=True)
class LoweredOutcome:
    """What the lowered reading says of one step.

    Attributes:
        allowed: all guards hold.
        well_defined: every table access of the guards that are reached, and of the effects, is inside its table.
        after: every field of the state after the step, as `observed` shows it; meaningful where both of the above are
            true.
    """

    allowed: bool
    well_defined: bool
    after: dict[str, Any]


def observed(state: State, prefix: str = "") -> dict[str, Any]:
    """Every field of a run state by its full name: tuples for tables, frozensets for sets.

    A roster has three entries: its members, its size, and the members that its positions list; of a table of rosters
    each is a tuple.
    """
    seen: dict[str, Any] = {}
    for f in fields_of(type(state)):
        value, name = getattr(state, f.name), prefix + f.name
        if f.kind == "component":
            seen |= observed(value, f"{name}.")
        elif f.kind == "map":
            seen[name] = tuple(value.values())
        elif f.kind == "roster":
            members, size = _each(f, value, frozenset), _each(f, value, lambda roster: roster.size)
            seen |= {name: members, f"{name}.size": size, f"{name}.listed": members}
        else:
            seen[name] = _each(f, value, frozenset) if f.kind == "set" else value
    return seen


def _each(f: Field, value: Any, look: Callable[[Any], Any]) -> Any:
    """What a look at a container shows; of a table of containers, a look at each."""
    return tuple(map(look, value.values())) if f.family else look(value)


def lowered_step(spec: Specification[Any], item: Item, state: State, arguments: Sequence[Any]) -> LoweredOutcome:
    """One action (or the initializer) on one state, as its lowered form has it.

    Raises:
        SpecError: the solver does not answer, or a quantifier ranges beyond what was pinned.
    """
    question = _Question([state], arguments)
    post = question.pin(state, SymbolicState.base(spec.state), "")
    question.pin_arguments(item, arguments)
    trace, _ = spec.trace(item, post, list(variables(item.parameters)))
    question.ask("allowed", conjunction(trace.guards))
    question.ask("well defined", conjunction(trace.demands))
    with tracing(Trace()):
        shapes = list(question.ask_state(state, post, ""))
    question.answer()
    after = {name: shape() for name, shape in shapes}
    return LoweredOutcome(question.value("allowed"), question.value("well defined"), after)


def lowered_claim(
    spec: Specification[Any], claim: Any, states: Sequence[State], arguments: Sequence[Any], quantified: bool = False
) -> bool:
    """One claim on its state (invariants, theorems, batch facts) or its two states (step claims, ensures), as lowered.

    Quantifiers are written out, as in the search for counterexamples; `quantified` keeps them, as in proofs (counts
    have no such form).

    Raises:
        IllDefined: the claim's well-definedness does not hold there.
        SpecError: the solver does not answer, or a quantifier ranges beyond what was pinned.
    """
    question = _Question(states, arguments, quantified)
    pinned = [question.pin(state, _base(spec, mark), mark) for state, mark in zip(states, ("", "after!"), strict=False)]
    question.pin_arguments(claim, arguments)
    trace, value = spec.trace(claim, pinned[0], list(variables(claim.parameters)), *pinned[1:])
    well_defined, holds = question.decide([conjunction(trace.demands), lift(value, bool)])
    if well_defined is False:
        raise IllDefined(f"{claim.name} reads outside a table")
    if well_defined is None or holds is None:
        raise SpecError(f"the lowered reading of {claim.name} is not decided on a pinned state")
    return holds


def _base(spec: Specification[Any], mark: str) -> SymbolicState:
    """An arbitrary state whose symbols carry a mark, so that two states can be pinned side by side."""
    base = SymbolicState.base(spec.state)
    store = {name: _marked(part, mark) for name, part in base._store.items()}
    return SymbolicState(spec.state, store)


def _marked(part: Term | Version, mark: str) -> Term | Version:
    if isinstance(part, Term):
        return Term("field", (mark + part.args[0],), part.sort)
    return Version(mark + part.field, part.key_sorts, part.value_sort)


class _PinnedPrinter(Printer):
    """The printer, its bounded form made exact for one pinned state: `window` holds every number that may matter."""

    def __init__(self, sizes: dict[str, int] | None, window: range) -> None:
        super().__init__(sizes)
        self.window = window
        self.ranges: list[str] = []

    def _instances(self, low: Term | None, high: Term | None, env: dict[Any, str]) -> list[tuple[str, str | None]]:
        if low is None or high is None:
            return [(literal(value), None) for value in self.window]
        first, end = self.term(low, env), self.term(high, env)
        if first.isdigit() and end.isdigit():
            return [(str(value), None) for value in range(int(first), int(end))]
        if "key!" in first + end:
            raise SpecError("a quantifier inside a table update has bounds that depend on the key")
        self.ranges.append(f"(and (<= {self.window.start} {first}) (<= {end} {self.window.stop}))")
        return [(literal(v), f"(and (<= {first} {literal(v)}) (< {literal(v)} {end}))") for v in self.window]

    def _product(self, left: Term, right: Term, env: dict[Any, str]) -> str:
        """All is pinned, so a product is what it is; the lemmas of the proofs would leave it open."""
        if self.sizes is None:
            return f"(* {self.term(left, env)} {self.term(right, env)})"
        return super()._product(left, right, env)


@dataclass
class _Question:
    """A script under construction: pinned states, and terms whose values are asked for."""

    states: Sequence[State]
    arguments: Sequence[Any]
    quantified: bool = False
    pins: list[str] = field(default_factory=list)
    asked: dict[Any, Term] = field(default_factory=dict)

    def __post_init__(self) -> None:
        numbers = [int(a) for a in self.arguments]
        for state in self.states:
            numbers += _numbers(observed(state).values())
        self.window = range(min([0, *numbers]) - MARGIN, max([0, *numbers]) + MARGIN + 1)
        sizes: dict[str, Any] = {}
        for state, mark in zip(self.states, ("", "after!"), strict=False):
            sizes |= dict(_sizes(state, mark))
        self.printer = _PinnedPrinter(None if self.quantified else sizes, self.window)
        self._values: dict[int, Any] = {}
        self._index: dict[Any, int] = {}

    # ------------------------------------------------------------------------------------------------------ pinning

    def pin(self, state: State, symbolic: SymbolicState, mark: str) -> SymbolicState:
        """State the value of every field; gives the symbolic state back."""
        for name, f, part in _fields(state, mark):
            value = getattr(part, f.name)
            if f.kind == "map":
                for key, entry in value.items():
                    self._pin_entry(name, f.keys, f.value, _parts(key), entry)
            elif f.kind == "roster":
                for place, roster in value.items() if f.family else [((), value)]:
                    self._pin_roster(name, f, _parts(place), list(roster))
            elif f.kind == "set":
                self._pin_sets(name, f, value if f.family else {(): value})
            else:
                self._pin(Term("field", (name,), f.value), value)
        return symbolic

    def _pin_roster(self, name: str, f: Field, place: tuple[int, ...], members: list[int]) -> None:
        self._pin_entry(name + ".size", f.family, int, place, len(members))
        for index, key in enumerate(members):
            self._pin_entry(name + ".member", (*f.family, int), f.key, (*place, index), key)
            self._pin_entry(name + ".position", (*f.family, f.key), int, (*place, key), index)

    def _pin_sets(self, name: str, f: Field, sets: dict[Any, Any]) -> None:
        names = [f"key!{index}" for index in range(len(f.family) + len(f.keys))]
        found = [(*_parts(place), *_parts(member)) for place, members in sets.items() for member in members]
        tests = [" ".join(f"(= {n} {literal(v)})" for n, v in zip(names, keys, strict=True)) for keys in sorted(found)]
        symbol, declared = field_name(name), " ".join(f"({n} Int)" for n in names)
        body = " ".join(["false", *(f"(and {test})" for test in tests)])
        self.printer._declare(symbol, f"(define-fun {symbol} ({declared}) Bool (or {body}))")

    def _pin_entry(
        self, name: str, key_sorts: tuple[Any, ...], value_sort: Any, keys: tuple[int, ...], value: Any
    ) -> None:
        if not key_sorts:
            self._pin(Term("field", (name,), value_sort), value)
            return
        table = Version(name, key_sorts, value_sort)
        self._pin(Term("read", (table, *_literals(key_sorts, keys)), value_sort), value)

    def _pin(self, term: Term, value: Any) -> None:
        self.pins.append(f"(= {self.printer.term(term)} {_text(term.sort, value)})")

    def pin_arguments(self, item: Any, arguments: Sequence[Any]) -> None:
        """State the value of every parameter."""
        for parameter, value in zip(item.parameters, arguments, strict=True):
            self._pin(Term("param", (parameter.name,), parameter.sort), value)

    # ------------------------------------------------------------------------------------------------------- asking

    def ask(self, what: Any, term: Term) -> None:
        """Have the value of a term looked up."""
        self.asked[what] = term

    def ask_state(self, state: State, symbolic: SymbolicState, mark: str) -> Iterator[tuple[str, Any]]:
        """Ask for every field of a symbolic state; gives for each entry of `observed` how to put its value together."""
        for f in fields_of(type(state)):
            name, part = mark + f.name, getattr(symbolic, f.name)
            if f.kind == "component":
                yield from self.ask_state(getattr(state, f.name), part, f"{name}.")
            elif f.kind == "map":
                yield name, self._ask_map(name, f, symbolic.get(f.name), _places(state, f.keys))
            elif f.kind in _ENTRIES:
                yield from self._ask_containers(state, name, f, part)
            else:
                self.ask(name, part)
                yield name, partial(self.value, name, f.value)

    def _ask_map(self, name: str, f: Field, table: Version, places: list[tuple[int, ...]]) -> Callable[[], Any]:
        for keys in places:
            self.ask((name, keys), Term("read", (table, *_literals(f.keys, keys)), f.value))
        return lambda: tuple(self.value((name, keys), f.value) for keys in places)

    def _ask_containers(self, state: State, name: str, f: Field, part: Any) -> Iterator[tuple[str, Any]]:
        """Ask for a roster or set; of a table of them for each, and every entry is then a tuple."""
        asked = []
        for place in _places(state, f.family):
            one, about = part[_literals(f.family, place)] if place else part, (name, *place)
            if f.kind == "roster":
                asked.append(self._ask_roster(about, f, one, range(len(state.all(f.key)))))
            else:
                asked.append([self._ask_set(about, f, one, [self._near(state, sort) for sort in f.keys])])
        for index, entry in enumerate(_ENTRIES[f.kind]):
            yield name + entry, partial(_shown, f, [shapes[index] for shapes in asked])

    def _near(self, state: State, sort: Any) -> range:
        """Where parts of members are looked for: around the ids of the kind, or where any number of the state is."""
        return range(-NEAR, len(state.all(sort)) + NEAR) if sort in state._domains else self.window

    def _ask_set(self, about: Any, f: Field, members: Any, near: list[range]) -> Callable[[], Any]:
        tried = list(itertools.product(*near) if len(near) > 1 else ((key,) for key in self.window))
        for keys in tried:
            self.ask((about, keys), members.has(_literals(f.keys, keys)))
        return lambda: frozenset(_key(keys) for keys in tried if self.value((about, keys)))

    def _ask_roster(self, about: Any, f: Field, roster: Any, ids: range) -> list[Callable[[], Any]]:
        for key in ids:
            self.ask((about, key), roster._has(Term("lit", (key,), f.key)))
            self.ask((about, "listed", key), roster.member(key))
        self.ask((about, "size"), roster.size)
        size = partial(self.value, (about, "size"))
        return [
            lambda: frozenset(key for key in ids if self.value((about, key))),
            size,
            lambda: frozenset(self.value((about, "listed", key)) for key in ids if key < size()),
        ]

    def decide(self, terms: Sequence[Term]) -> list[bool | None]:
        """Which truth values follow from what is pinned; False where the opposite does, None where neither is shown."""
        lines, switches = [], []
        for index, text in enumerate([self.printer.term(term) for term in terms]):
            for side, part in (("true", f"(not {text})"), ("false", text)):
                switches.append(f"{index} to be {side}")
                lines += [
                    f"(declare-fun |fails {switches[-1]}| () Bool)",
                    f"(assert (=> |fails {switches[-1]}| {part}))",
                ]
        said = [answer.verdict for answer in dict(solve_each(self._script(lines), switches, LONG_LIMIT)).values()]
        known = {("unsat", "sat"): True, ("sat", "unsat"): False}
        return [known.get((said[index], said[index + 1])) for index in range(0, len(said), 2)]

    def answer(self) -> None:
        """Look up the values of all that was asked.

        Raises:
            SpecError: there is no model, so something ranges beyond what was pinned; or the solver gives up.
        """
        asked = [(self.printer.term(term), self.printer.sort(term.sort)) for term in self.asked.values()]
        lines = []
        for index, (text, sort) in enumerate(asked):
            lines += [f"(declare-fun asked!{index} () {sort})", f"(assert (= asked!{index} {text}))"]
        self._values = _values(self._script(lines))
        self._index = {what: index for index, what in enumerate(self.asked)}

    def _script(self, lines: list[str]) -> str:
        pinned = [f"(assert {text})" for text in [*self.pins, *self.printer.ranges]]
        return "\n".join(["(set-logic ALL)", *self.printer.lines, *pinned, *lines, "(check-sat)", ""])

    def value(self, what: Any, sort: Any = int) -> Any:
        """The value of what was asked, as the run reading holds it."""
        return concrete(sort, self._values[self._index[what]])


def _values(script: str) -> dict[int, Any]:
    """The values of the constants asked!0, asked!1, ... in a model of a script.

    The model's own text is read, which is several times faster than asking for each value.

    Raises:
        SpecError: there is no model, or the solver gives up.
    """
    import z3

    solver = z3.Solver(ctx=z3.Context())
    solver.set("rlimit", LONG_LIMIT)
    solver.from_string(script)
    verdict = solver.check()
    if verdict != z3.sat:
        raise SpecError(f"the lowered reading of a pinned state is {verdict}")
    return {int(index): _parsed(text) for index, text in _VALUE.findall(solver.model().sexpr())}


_VALUE = re.compile(r"\(define-fun asked!(\d+) \(\) \S+\s+(\(- \d+\)|[^\s()]+)\)")


def _parsed(text: str) -> Any:
    """A value of a model: a truth value, a number, or the symbol of an enumeration's member."""
    if text in ("true", "false"):
        return text == "true"
    digits = text.removeprefix("(- ").removesuffix(")")
    return (-int(digits) if text.startswith("(") else int(digits)) if digits.isdigit() else text


def _fields(state: State, prefix: str) -> Iterator[tuple[str, Field, State]]:
    """All fields of a state and of its components, with full names and the state that holds each."""
    for f in fields_of(type(state)):
        if f.kind == "component":
            yield from _fields(getattr(state, f.name), f"{prefix}{f.name}.")
        else:
            yield prefix + f.name, f, state


def _sizes(state: State, prefix: str) -> Iterator[tuple[str, Any]]:
    """The sizes and given fields, as the printer takes them."""
    for name, f, part in _fields(state, prefix):
        value = getattr(part, f.name)
        if f.kind == "size" or f.given:
            yield name, list(value.values()) if f.kind == "map" else value


def _numbers(values: Any) -> list[int]:
    """All numbers in what `observed` shows."""
    found: list[int] = []
    for value in values:
        found += _numbers(value) if isinstance(value, tuple | frozenset) else [int(value)]
    return found


def _places(state: State, sorts: tuple[Any, ...]) -> list[tuple[int, ...]]:
    """All keys of a table, part by part; the empty one where it is no table."""
    return list(itertools.product(*(range(len(state.all(sort))) for sort in sorts)))


def _parts(key: Any) -> tuple[int, ...]:
    return key if isinstance(key, tuple) else (key,)


def _key(parts: tuple[int, ...]) -> Any:
    return parts if len(parts) > 1 else parts[0]


def _literals(sorts: tuple[Any, ...], parts: tuple[int, ...]) -> tuple[Term, ...]:
    return tuple(Term("lit", (part,), sort) for part, sort in zip(parts, sorts, strict=True))


def _shown(f: Field, shapes: Sequence[Callable[[], Any]]) -> Any:
    """What a container shows; of a table of containers, what each does."""
    values = tuple(shape() for shape in shapes)
    return values if f.family else values[0]


def _text(sort: Any, value: Any) -> str:
    """A concrete value as text; the run reading may hold an enumeration's member as a plain number."""
    return literal(sort(value) if is_enumeration(sort) or sort is bool else value)
