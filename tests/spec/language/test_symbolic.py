"""Symbolic values are loud wherever Python would need their concrete value, or where sorts do not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import depot
import pytest
from depot import Bay, Colour, Crate, Worker
from spec_text import STATE

from poolproof.proofs.obligations import Generator
from poolproof.proofs.solver import SHORT_LIMIT, solve
from poolproof.spec.language import (
    GhostLeak,
    NotBoolean,
    SortMismatch,
    SpecError,
    SymbolicBranch,
    after,
    and_,
    between,
    counts,
    enabled,
    exists,
    forall,
    iff,
    implies,
    ite,
    not_,
    or_,
    require,
)
from poolproof.spec.language.specification import variables
from poolproof.spec.language.symbolic import SymbolicState
from poolproof.spec.language.terms import Term
from poolproof.spec.language.tracing import Trace, current, tracing

Function = Callable[..., ModuleType]


@pytest.fixture
def state() -> Iterator[Any]:
    """A symbolic depot while it is traced."""
    with tracing(Trace()):
        yield SymbolicState.base(depot.Depot)


@pytest.fixture
def crate() -> Term:
    return Term("param", ("crate",), Crate)


# ------------------------------------------------------------------------------------------- Python's own constructs

LOUD: dict[str, tuple[Callable[[Any], Any], str]] = {
    "if": (lambda s: 1 if s.reds > 0 else 2, "as a Python truth value"),
    "and": (lambda s: s.is_open and s.reds > 0, "as a Python truth value"),
    "or": (lambda s: s.is_open or s.reds > 0, "as a Python truth value"),
    "not": (lambda s: not s.is_open, "as a Python truth value"),
    "chained comparison": (lambda s: 0 <= s.reds <= 3, "as a Python truth value"),
    "in a list": (lambda s: s.reds in [1, 2], "as a Python truth value"),
    "in a set": (lambda s: s.reds in {1, 2}, "as a dictionary key or set member"),
    "in a term": (lambda s: 3 in s.reds, "with `in`"),
    "dict key": (lambda s: {s.reds: 1}, "as a dictionary key or set member"),
    "dict lookup": (lambda s: {1: 2}[s.reds], "as a dictionary key or set member"),
    "list index": (lambda s: [1, 2][s.reds], "as a Python index"),
    "range": (lambda s: range(s.reds), "as a Python index"),
    "int": (lambda s: int(s.reds), "as a Python int"),
    "min": (lambda s: min(s.reds, 3), "as a Python truth value"),
    "max": (lambda s: max(s.reds, s.low), "as a Python truth value"),
    "sorted": (lambda s: sorted([s.reds, s.low]), "as a Python truth value"),
    "f-string": (lambda s: f"{s.reds}", "in a formatted string"),
    "str": (lambda s: str(s.reds), "as text"),
    "for": (lambda s: list(s.reds), "as an iterable"),
    "len": (lambda s: len(s.reds), r"with len\(\)"),
    "~": (lambda s: ~s.is_open, "with ~"),
    "&": (lambda s: s.is_open & s.is_open, "with &"),
    "|": (lambda s: s.is_open | s.is_open, r"with \|"),
    "pairs compared": (lambda s: (s.reds, s.low) == (s.low, s.reds), "as a Python truth value"),
    "pairs ordered": (lambda s: (s.reds, s.low) < (s.low, s.reds), "as a Python truth value"),
    "a pair as dict key": (lambda s: {(s.reds, s.low): 1}, "as a dictionary key or set member"),
    "// by a term": (lambda s: s.reds // s.low, "div needs a positive literal divisor"),
    "% by a term": (lambda s: s.reds % s.low, "mod needs a positive literal divisor"),
    "// by zero": (lambda s: s.reds // 0, "div needs a positive literal divisor"),
    "% by a negative": (lambda s: s.reds % -2, "mod needs a positive literal divisor"),
}


@pytest.mark.parametrize(("use", "message"), LOUD.values(), ids=LOUD)
def test_a_symbolic_value_never_decides_for_python(state: Any, use: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(SymbolicBranch, match=message):
        use(state)


def test_the_remedy_is_named(state: Any) -> None:
    with pytest.raises(SymbolicBranch, match=r"a symbolic bool was used .*; use and_, or_, not_, implies, ite, forall"):
        bool(state.is_open)


ITERATED: dict[str, Callable[[Any], Any]] = {
    "ids": lambda s: s.all(Crate),
    "table": lambda s: s.weight,
    "roster": lambda s: s.idle,
}


@pytest.mark.parametrize("domain", ITERATED.values(), ids=ITERATED)
def test_a_symbolic_container_is_not_iterated(state: Any, domain: Callable[[Any], Any]) -> None:
    with pytest.raises(SpecError, match="cannot be iterated; use forall"):
        list(domain(state))


@pytest.mark.parametrize("domain", [lambda s: s.all(Crate), lambda s: s.idle], ids=["ids", "roster"])
def test_a_symbolic_container_is_not_asked_with_in(state: Any, crate: Term, domain: Callable[[Any], Any]) -> None:
    with pytest.raises(SpecError, match=r"use \.has\(id\) instead of `in`"):
        crate in domain(state)  # noqa: B015


COMPARED: dict[str, Callable[[Any], Any]] = {
    "table": lambda s: s.weight == s.weight,
    "table, unequal": lambda s: s.weight != s.bay,
    "set": lambda s: s.sealed == s.watched,
    "set, unequal": lambda s: s.sealed != s.watched,
    "roster": lambda s: s.idle == s.ready,
    "ids": lambda s: s.all(Crate) == s.all(Bay),
    "table and value": lambda s: s.weight == 3,
    "state": lambda s: s == s.snapshot(),
    "state, unequal": lambda s: s != s.snapshot(),
}


@pytest.mark.parametrize("compare", COMPARED.values(), ids=COMPARED)
def test_symbolic_containers_are_not_compared(state: Any, compare: Callable[[Any], Any]) -> None:
    """Python would compare the objects, and silently say that two tables differ."""
    with pytest.raises(SpecError, match="cannot be compared with ==; compare their"):
        compare(state)


def test_a_claim_that_compares_tables_is_loud(function: Function) -> None:
    with pytest.raises(SpecError, match="two symbolic containers cannot be compared"):
        function("theorem", "return and_(pool.used >= 0, pool.locked != pool.marked)")


def test_a_symbolic_state_is_only_read_while_it_is_traced() -> None:
    outside = SymbolicState.base(depot.Depot)
    with pytest.raises(SpecError, match="a symbolic state can only be read while it is traced"):
        outside.weight[Crate(0)]


# -------------------------------------------------------------------------------------------------------------- sorts

MISMATCHED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "two kinds of id": (lambda s: s.head == s.bay[s.head], "expected Crate, got symbolic Bay"),
    "an id and a concrete one": (lambda s: s.head == Bay(1), r"expected Crate, got Bay 1"),
    "a plain int for an id": (lambda s: s.head == 0, "expected Crate, got int 0"),
    "a plain int as key": (lambda s: s.weight[0], "expected Crate, got int 0"),
    "a wrong kind as key": (lambda s: s.weight[Bay(0)], "expected Crate, got Bay 0"),
    "a plain int stored": (lambda s: s.bay.__setitem__(s.head, 1), "expected Bay, got int 1"),
    "an int term for an id": (lambda s: s.weight[s.reds], "expected Crate, got symbolic int"),
    "an id for an int": (lambda s: s.reds == s.head, "expected int, got symbolic Crate"),
    "order of two kinds": (lambda s: s.head < s.bay[s.head], "expected Crate, got symbolic Bay"),
    "order of enumerations": (lambda s: s.colour[s.head] < Colour.BLUE, "Colour has no order"),
    "order of truth values": (lambda s: s.is_open < True, "bool has no order"),
    "arithmetic on truth values": (lambda s: s.is_open + 1, "bool has no arithmetic"),
    "arithmetic on enumerations": (lambda s: s.colour[s.head] + 1, "Colour has no arithmetic"),
    "sum of two kinds": (lambda s: s.head + s.bay[s.head], r"Crate \+ symbolic Bay has no meaning"),
    "int less id": (lambda s: s.reds - s.head, r"int - symbolic Crate has no meaning"),
    "int times id": (lambda s: s.reds * s.head, r"int \* symbolic Crate has no meaning"),
    "int less a concrete id": (lambda s: s.reds - Crate(1), r"int - Crate 1 has no meaning"),
    "id times int": (lambda s: s.head * s.reds, r"Crate \* symbolic int has no meaning"),
    "id plus a concrete one of another kind": (lambda s: s.head + Bay(1), r"Crate \+ Bay 1 has no meaning"),
    "a pair as key": (lambda s: s.weight[s.head, s.head], r"expected a key of Crate, got 2 part\(s\)"),
    "a pair in a set": (lambda s: s.sealed.has((s.head, s.head)), r"expected a key of Crate, got 2 part\(s\)"),
    "sets of two kinds, less": (lambda s: s.sealed.minus(s.staff), "expected Worker, got symbolic Crate"),
    "sets of two kinds, disjoint": (lambda s: s.sealed.disjoint(s.staff), "expected Worker, got symbolic Crate"),
    "a truth value for an int": (lambda s: s.reds + True, r"int \+ bool True has no meaning"),
    "a number for an enumeration": (lambda s: s.colour[s.head] == 1, "expected Colour, got int 1"),
    "a float": (lambda s: s.reds + 1.5, r"int \+ float 1.5 has no meaning"),
    "None": (lambda s: s.reds == None, "expected int, got NoneType None"),  # noqa: E711
    "an int for a truth value": (lambda s: s.is_open == 1, "expected bool, got int 1"),
    "a wrong kind in a set": (lambda s: s.sealed.has(Worker(1)), "expected Crate, got Worker 1"),
    "sets of two kinds": (lambda s: s.sealed.join(s.staff), "expected Worker, got symbolic Crate"),
    "branches of two sorts": (lambda s: ite(s.is_open, s.head, s.reds), "expected Crate, got symbolic int"),
    "a plain int in a branch": (lambda s: ite(s.is_open, s.head, 0), "expected Crate, got int 0"),
    "ids in a range": (lambda s: forall(between(s.head, s.reds), lambda i: i > 0), "expected int, got symbolic Crate"),
    "a symbolic body over a list": (lambda s: forall([1, 2], lambda i: s.reds > i), "forall over a concrete domain"),
}


@pytest.mark.parametrize(("use", "message"), MISMATCHED.values(), ids=MISMATCHED)
def test_sorts_that_do_not_fit_are_loud(state: Any, use: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(SortMismatch, match=message):
        use(state)


def test_a_set_of_another_kind_is_not_assigned(state: Any) -> None:
    with pytest.raises(SortMismatch, match="sealed holds Crate, not Worker"):
        state.sealed = state.staff


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("require(slot == holder)\npool.used = 0", "expected Slot, got symbolic Holder"),
        ("require(slot == 0)\npool.used = 0", "expected Slot, got int 0"),
        ("pool.kind[holder] = Kind.USED", "expected Slot, got symbolic Holder"),
        ("pool.free.add(Slot(amount))", "a symbolic int was used as a Python int"),
    ],
)
def test_a_spec_that_mixes_sorts_is_not_made(function: Function, body: str, message: str) -> None:
    with pytest.raises((SortMismatch, SymbolicBranch), match=message):
        function("action", body)


BOOLEAN: dict[str, tuple[Callable[[Any], Any], str]] = {
    "require": (lambda s: require(s.reds), "require must be a truth value, got symbolic int"),
    "require of a pair": (lambda s: require((s.is_open, s.is_open)), "require must be given a truth value, got tuple"),  # type: ignore[arg-type]
    "and_ of a pair": (lambda s: and_(s.is_open, (s.is_open,)), "a part of and_ must be a truth value, got tuple"),  # type: ignore[arg-type]
    "require of a number": (lambda s: require(1), "require must be given a truth value, got int 1"),  # type: ignore[arg-type]
    "require of a function": (lambda s: require(lambda: True), "require must be given a truth value, got function"),  # type: ignore[arg-type]
    "and_": (lambda s: and_(s.is_open, s.reds), "a part of and_ must be a truth value, got symbolic int"),
    "and_ of a number": (lambda s: and_(True, 1), "a part of and_ must be a truth value, got int 1"),  # type: ignore[arg-type]
    "or_": (lambda s: or_(s.is_open, lambda: 3), "a part of or_ must be a truth value, got int 3"),  # type: ignore[arg-type, return-value]
    "not_": (lambda s: not_(s.reds), "not_ must be a truth value, got symbolic int"),
    "premise": (lambda s: implies(s.reds, True), "the premise of implies must be a truth value"),
    "conclusion": (lambda s: implies(s.is_open, s.reds), "the conclusion of implies must be a truth value"),
    "iff": (lambda s: iff(s.is_open, s.reds), "iff must be a truth value, got symbolic int"),
    "ite": (lambda s: ite(s.reds, 1, 2), "the condition of ite must be a truth value, got symbolic int"),
    "forall": (lambda s: forall(s.all(Crate), lambda c: s.weight[c]), "the body of forall must be a truth value"),
    "exists": (lambda s: exists(s.sealed, lambda c: s.reds), "the body of exists must be a truth value"),
    "counts": (lambda s: counts(s.reds, s.all(Crate), lambda c: s.weight[c]), "the predicate of counts must be a"),
    "where": (lambda s: s.weight.relabel(lambda c: 1, where=lambda c: s.weight[c]), "where= must be a truth value"),
}


@pytest.mark.parametrize(("use", "message"), BOOLEAN.values(), ids=BOOLEAN)
def test_what_must_be_a_truth_value_is_one(state: Any, use: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(NotBoolean, match=message):
        use(state)


# ------------------------------------------------------------------------------------------------------------- fields


def test_an_unknown_field_is_loud_when_read(function: Function) -> None:
    with pytest.raises(AttributeError, match="Pool has no field 'usde'"):
        function("invariant", "return pool.usde >= 0")


def test_an_unknown_field_is_loud_when_written(function: Function) -> None:
    with pytest.raises(AttributeError, match="Pool has no field 'usde'"):
        function("action", "pool.usde = 0")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("pool.free = pool.shadow", "free is a roster and cannot be assigned"),
        ("pool.kind = pool.kind", "kind is a map and cannot be assigned"),
        ("pool.total = 3", "total is a size and cannot be assigned"),
        ("pool.total += 1", "total is a size and cannot be assigned"),
        ("pool.locked = pool.free", "locked is a set and cannot be assigned"),
    ],
)
def test_only_scalars_and_sets_are_assigned(function: Function, body: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        function("action", body)


def test_ids_without_a_size_have_no_domain(function: Function) -> None:
    with pytest.raises(SpecError, match=r"Pool has no Size\[Holder\]"):
        function("invariant", "return forall(pool.all(Holder), lambda holder: holder > Holder(0))")


# -------------------------------------------------------------------------------------------------------------- ghosts

LEAKS = {
    "guard": ("require(pool.notes[Slot(0)] == 0)\npool.used = 0", "a guard depends on the ghost field.s. notes"),
    "guard through a definition": ("require(is_noted(pool))\npool.used = 0", "a guard depends on the ghost"),
    "guard through an action": (
        "require(after(create, pool).shadow.has(Slot(0)))\npool.used = 0",
        "a guard depends on the ghost",
    ),
    "scalar": ("pool.used = pool.seen", "the write to used depends on the ghost field.s. seen"),
    "table entry": ("pool.holder[slot] = ite(pool.seen > 0, holder, Holder(0))", "the write to holder depends on"),
    "table key": ("pool.kind[slot + pool.notes[slot]] = Kind.FREE", "the write to kind depends on the ghost"),
    "relabel": ("pool.kind.relabel(lambda s: ite(pool.notes[s] > 0, Kind.FREE, Kind.USED))", "the write to kind"),
    "where": ("pool.kind.relabel(lambda s: Kind.FREE, where=lambda s: pool.shadow.has(s))", "the write to kind"),
    "roster member": ("pool.free.add(slot + pool.seen)", "the write to free depends on the ghost field.s. seen"),
    "roster absorbed": ("pool.free.absorb(pool.shadow)", "the write to free depends on the ghost field.s. shadow"),
    "roster filled": ("pool.free.fill(Slot(0), pool.seen)", "the write to free depends on the ghost field.s. seen"),
    "set": ("pool.locked = pool.locked.with_(slot + pool.seen)", "the write to locked depends on the ghost"),
    "by way of another write": (
        "pool.seen = 3\npool.notes[slot] = 1\npool.used = pool.notes[slot]",
        "the write to used",
    ),
}

GHOSTLY = '''
@define
def is_noted(pool: Pool) -> Bool:
    """Looks at a ghost."""
    return pool.seen > 0
'''


@pytest.mark.parametrize(("body", "message"), LEAKS.values(), ids=LEAKS)
def test_a_ghost_decides_nothing_real(function: Function, body: str, message: str) -> None:
    with pytest.raises(GhostLeak, match=message):
        function("action", body, state=STATE + GHOSTLY)


def test_ghosts_may_follow_real_fields_and_one_another(function: Function) -> None:
    made = function(
        "action",
        """
        require(pool.all(Slot).has(slot))
        require(pool.free.has(slot))
        pool.free.remove(slot)
        pool.shadow.absorb(pool.free)
        pool.notes[slot] = pool.seen + pool.used
        pool.seen = pool.notes[slot]
        """,
    )
    assert made.SPEC.ghosts == {"notes", "shadow", "shadow.size", "shadow.member", "shadow.position", "seen"}


# --------------------------------------------------------------------------------------------------- well-definedness


def obligations(spec: Any) -> dict[str, Any]:
    return {o.claim: o for o in Generator(spec).all()}


@pytest.mark.parametrize(
    ("body", "proved"),
    [
        ("pool.used = ite(pool.kind[slot] == Kind.FREE, 0, 1)", False),
        ("require(pool.all(Slot).has(slot))\npool.used = ite(pool.kind[slot] == Kind.FREE, 0, 1)", True),
        ("require(pool.kind[slot] == Kind.FREE)\nrequire(pool.all(Slot).has(slot))\npool.used = 0", False),
        ("require(and_(pool.all(Slot).has(slot), pool.kind[slot] == Kind.FREE))\npool.used = 0", False),
        ("require(and_(pool.all(Slot).has(slot), lambda: pool.kind[slot] == Kind.FREE))\npool.used = 0", True),
        ("require(implies(pool.all(Slot).has(slot), lambda: pool.free.has(slot)))\npool.used = 0", True),
        ("require(or_(pool.all(Slot).has(slot), lambda: pool.free.has(slot)))\npool.used = 0", False),
        ("pool.used = ite(pool.all(Slot).has(slot), lambda: ite(pool.kind[slot] == Kind.FREE, 0, 1), 0)", True),
        ("require(pool.all(Slot).has(slot))\npool.free.add(slot)", False),
        ("require(pool.all(Slot).has(slot))\nrequire(not_(pool.free.has(slot)))\npool.free.add(slot)", True),
        ("require(pool.all(Slot).has(slot))\npool.free.remove(slot)", False),
        ("pool.free.fill(slot, pool.total)", False),
        ("require(pool.all(Slot).has(slot))\npool.free.fill(slot, pool.total)", True),
        ("pool.kind.relabel(lambda s: pool.kind[s + 1])", False),
        ("pool.kind.relabel(lambda s: pool.kind[s + 1], where=lambda s: s + 1 < slot)", False),
        ("pool.kind.relabel(lambda s: pool.kind[s - 1], where=lambda s: s > Slot(0))", True),
        ("pool.used = ite(exists(pool.locked, lambda s: pool.kind[s] == Kind.FREE), 0, 1)", False),
    ],
)
def test_a_read_outside_a_table_is_an_obligation(function: Function, body: str, proved: bool) -> None:
    made = function("action", body)
    verdict = solve(obligations(made.SPEC)["pool/act/is_well_defined"].text, SHORT_LIMIT).verdict
    assert (verdict == "unsat") is proved


def test_the_demands_of_a_claim_are_part_of_it(function: Function) -> None:
    made = function("theorem", "return or_(pool.kind[slot] == Kind.FREE, pool.kind[slot] == Kind.USED)")
    assert solve(obligations(made.SPEC)["pool/theorem/holds"].text, SHORT_LIMIT).verdict == "sat"


def test_an_action_inside_a_claim_keeps_its_demands_with_the_claim(state: Any, crate: Term) -> None:
    before = len(current().demands)
    enabled(depot.stow, state, crate, Bay(0))
    guarded = len(current().demands)
    after(depot.stow, state, crate, Bay(0))
    assert before < guarded < len(current().demands)
    assert current().guards == []
    assert current().writes == []


def test_every_action_of_the_toys_reads_without_a_branch() -> None:
    for item in depot.SPEC.actions:
        trace, value = depot.SPEC.trace(item, SymbolicState.base(depot.Depot), list(variables(item.parameters)))
        assert value is None
        assert trace.writes
