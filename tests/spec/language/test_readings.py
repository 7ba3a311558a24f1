"""The language itself: what running a spec says and what its lowered form says are the same, on random states."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from functools import cache
from typing import Any

import annex
import depot
import harbour
import pytest
import stacks
from differential import Chance, compare_claim, compare_step

from poolproof.proofs import lowered, smtlib
from poolproof.proofs.concrete import run
from poolproof.proofs.lowered import lowered_claim
from poolproof.proofs.smtlib import Printer
from poolproof.spec.language import IllDefined, Set, SpecError, items, symbolic
from poolproof.spec.language.symbolic import (
    SymbolicFamily,
    SymbolicIds,
    SymbolicMap,
    SymbolicRoster,
    SymbolicSet,
    SymbolicState,
)
from poolproof.spec.language.terms import TRUE, Term, Version, lift
from poolproof.spec.language.tracing import Trace, current

SEED = 20240611

DEPOT_SIZES = [{"crates": 3, "bays": 2}, {"crates": 1, "bays": 3}, {"crates": 4, "bays": 1}]
HARBOUR_SIZES = [
    {"north": {"berths": 2}, "south": {"berths": 3}, "fleet": {"ships": 2}},
    {"north": {"berths": 3}, "south": {"berths": 1}, "fleet": {"ships": 1}},
]
WOOD, STEEL = stacks.Material.WOOD, stacks.Material.STEEL
WIDE = {"shelves": 2, "boxes": 2, "clerks": 2, "weight": [1, 3], "material": [STEEL, WOOD]}
TALL = {"shelves": 1, "boxes": 3, "clerks": 1, "weight": [2], "material": [WOOD]}
STACKS_SIZES: list[dict[str, Any]] = [
    {**WIDE, "limit": 3, "front": 1, "is_cold": False},
    {**TALL, "limit": 5, "front": 0, "is_cold": True},
]
ANNEX_SIZES = [{"stacks": sizes, "patrons": 2} for sizes in STACKS_SIZES]
SPECS: dict[str, tuple[Any, list[dict[str, Any]]]] = {
    "depot": (depot.SPEC, DEPOT_SIZES),
    "harbour": (harbour.SPEC, HARBOUR_SIZES),
    "stacks": (stacks.SPEC, STACKS_SIZES),
    "annex": (annex.SPEC, ANNEX_SIZES),
}
STEPS = [(name, item.name) for name, (spec, _) in SPECS.items() for item in [spec.initializer, *spec.actions]]
CLAIMS = [
    (name, claim.name)
    for name, (spec, _) in SPECS.items()
    for claim in [*spec.invariants, *spec.theorems, *(fact for b in spec.batches for fact in b.facts())]
]


def chance_for(name: str, about: str) -> Chance:
    return Chance(SPECS[name][0], SEED + sum(map(ord, about)))


def where(chance: Chance, trial: int) -> str:
    return f"seed {chance.seed}, trial {trial}"


def step_for(chance: Chance, item: Any, sizes: dict[str, Any], trial: int) -> tuple[Any, tuple[Any, ...]]:
    """Any state; in turn any arguments, some whose ids exist, and some that the guards let pass, if there are any."""
    state = chance.state(sizes)
    arguments = chance.allowed(item, state) if trial % 3 == 2 else None
    draw = chance.arguments_inside if trial % 3 else chance.arguments
    return state, arguments or draw(state, item.parameters)


def item_named(spec: Any, name: str) -> Any:
    return next(item for item in [spec.initializer, *spec.actions] if item.name == name)


@pytest.mark.parametrize(("name", "action"), STEPS)
def test_steps_agree(name: str, action: str) -> None:
    spec, sizes = SPECS[name]
    item, chance, seen = item_named(spec, action), chance_for(name, action), Counter[str]()
    for trial in range(8):
        state, arguments = step_for(chance, item, sizes[trial // 3 % len(sizes)], trial)
        seen[compare_step(spec, item, state, arguments, where(chance, trial))] += 1
    assert seen.total() == 8


@pytest.mark.parametrize(("name", "claim"), dict.fromkeys(CLAIMS))
def test_claims_about_states_agree(name: str, claim: str) -> None:
    spec, sizes = SPECS[name]
    chance, seen = chance_for(name, claim), Counter[str]()
    facts = [fact for batch in spec.batches for fact in batch.facts()]
    for item in (c for c in [*spec.invariants, *spec.theorems, *facts] if c.name == claim):
        for trial in range(8):
            state = chance.state(sizes[trial % len(sizes)])
            arguments = chance.arguments(state, item.parameters)
            quantified = trial % 2 == 1 and not claim.endswith("counted")
            seen[compare_claim(spec, item, [state], arguments, where(chance, trial), quantified)] += 1
    assert seen["True"] + seen["False"] > 0, seen


@pytest.mark.parametrize("name", SPECS)
def test_claims_about_steps_agree(name: str) -> None:
    spec, sizes = SPECS[name]
    chance, seen = chance_for(name, "steps"), Counter[str]()
    for trial in range(5):
        for item in spec.actions:
            before = chance.state(sizes[trial % len(sizes)])
            after, arguments = chance.after(item, before)
            for claim in [*spec.steps, *spec.ensures(item)]:
                given = arguments if claim.kind == "ensures" else ()
                seen[compare_claim(spec, claim, [before, after], given, where(chance, trial), trial % 2 == 1)] += 1
    assert min(seen["True"], seen["False"]) > 2, seen


@pytest.mark.parametrize("name", SPECS)
def test_random_actions_are_refused_done_and_ill_defined(name: str) -> None:
    """The random states and arguments reach all three outcomes, so that agreeing on them says something."""
    spec, sizes = SPECS[name]
    chance, seen = chance_for(name, "coverage"), Counter[str]()
    done = set()
    for trial in range(200):
        for item in spec.actions:
            state, arguments = step_for(chance, item, sizes[trial % len(sizes)], trial)
            outcome = run(spec, item, state, arguments)
            seen["refused" if outcome.refused else "ill defined" if outcome.ill_defined else "done"] += 1
            if outcome.after is not None:
                done.add(item.name)
    assert min(seen["refused"], seen["ill defined"], seen["done"]) > 50, seen
    assert done == {item.name for item in spec.actions}


# ------------------------------------------------------------------------- a broken lowering does not go unnoticed


def disagreements(name: str, action: str) -> int:
    """In how many of some random steps the two readings differ."""
    trials = 20 if name == "depot" else 9
    spec, sizes = SPECS[name]
    item, chance, found = item_named(spec, action), chance_for(name, action), 0
    for trial in range(trials):
        state, arguments = step_for(chance, item, sizes[0], trial)
        try:
            compare_step(spec, item, state, arguments, where(chance, trial))
        except AssertionError:
            found += 1
    return found


@cache
def agree(name: str, action: str) -> bool:
    """Do the two readings agree on all of these steps as they are?"""
    return disagreements(name, action) == 0


def remove_without_position(self: SymbolicRoster, key: Any) -> None:
    """The last member takes the place, but its position still says where it was."""
    item = self._in_table(key)
    current().demand(self._has(item))
    size, index = self.size, self.position(item)
    self._state.note(self._field, None, item)
    self._put_entry("member", index, self.member(size - 1))
    self._put_size(size - 1)


def remove_without_size(self: SymbolicRoster, key: Any) -> None:
    """The last member takes the place, and is still listed at the end."""
    item = self._in_table(key)
    current().demand(self._has(item))
    size, index = self.size, self.position(item)
    self._state.note(self._field, None, item)
    last = self.member(size - 1)
    self._put_entry("member", index, last)
    self._put_entry("position", last, index)


def case_without_parent(self: Printer, version: Version, keys: tuple[str, ...], env: dict[Any, str]) -> str:
    """A write at one key is taken for a write at every key."""
    variables = version.write[1] if version.write[0] == "where" else ()
    bound = {v.args[0]: key for v, key in zip(variables, keys, strict=False)}
    return self.term(version.write[-1], {**env, **bound})


def case_by_the_first_part(self: Printer, version: Version, keys: tuple[str, ...], env: dict[Any, str]) -> str:
    """A write at a key of several parts is taken for one at every key that has its first part."""
    if version.write[0] != "set":
        return case(self, version, keys, env)
    assert version.parent is not None
    below, place = self._read(version.parent, keys, env), self.term(version.write[1][0], env)
    return f"(ite (= {keys[0]} {place}) {self.term(version.write[2], env)} {below})"


def division_towards_zero(self: Term, other: Any) -> Term:
    """Division as the machine has it."""
    below = Term("-", (Term("lit", (0,), int), self), self.sort)
    up = Term("-", (Term("lit", (0,), int), Term("div", (below, Term("lit", (other,), int)), int)), self.sort)
    down = Term("div", (self, Term("lit", (other,), int)), self.sort)
    return Term("ite", (Term("<", (self, Term("lit", (0,), int)), bool), up, down), self.sort)


def path_is_forgotten(self: Trace, condition: Term) -> Any:
    """What a connective has found out on its left is not told to its right."""
    return nullcontext()


def checked_in_the_first_part(state: SymbolicState, sorts: tuple[Any, ...], key: Any) -> tuple[Term, ...]:
    """Only the first part of a key has to be an id of its kind."""
    found = symbolic._keys(key, sorts)
    current().demand(state.all(sorts[0]).has(found[0]))
    return found


def put_where_everywhere(self: SymbolicRoster, part: str, key: Term, condition: Term, value: Term) -> None:
    """What one roster of a table lists, all of them list."""
    own = tuple(current().fresh(place.sort) for place in self._place)
    self._state.write(f"{self._field.name}.{part}", ("where", (*own, key), condition, value))


def put_size_at_zero(self: SymbolicRoster, value: Term) -> None:
    """The size of every roster of a table goes to the first one."""
    first = tuple(lift(place.sort(0), place.sort) for place in self._place)
    self._state.write(f"{self._field.name}.size", ("set", first, value))


def roster_at_zero(self: SymbolicFamily, key: Any) -> Any:
    """Whichever roster is asked for, it is the first one."""
    if self._field.kind == "set":
        return entry(self, key)
    place = symbolic._in_range(self._state, self._field.family, key)
    return SymbolicRoster(self._state, self._field, tuple(lift(part.sort(0), part.sort) for part in place))


def assigned_everywhere(self: SymbolicFamily, key: Any, value: SymbolicSet) -> None:
    """A set that is assigned to one entry of a table goes to all."""
    symbolic._in_range(self._state, self._field.family, key)
    variables = tuple(current().fresh(sort) for sort in (*self._field.family, *self._field.keys))
    self._state.note(self._field, None)
    self._state.write(self._field.name, ("where", variables, TRUE, value._has(variables[len(self._field.family) :])))


def filled_without_end(self: SymbolicFamily, low: Any, high: Any) -> None:
    """In bulk, every roster is filled up to what the first one is."""
    first = tuple(sort(0) for sort in self._field.family)
    self._each(lambda roster, place: roster.fill(low(*place), high(*first)))


def quantified_over_anything(self: SymbolicSet, op: str, body: Any, witness: Any = None) -> Term:
    """The body speaks of every pair, member or not."""
    trace = current()
    variables = first, second = tuple(trace.fresh(sort) for sort in self.sorts)
    with trace.binding(first, None, None), trace.binding(second, None, None), trace.assuming(self._has(variables)):
        found = lift(body(variables), bool)
    for variable in reversed(variables):
        found = Term(op, (variable, None, None, found, None)[: 5 if op == "exists" else 4], bool)
    return found


def performs(half: str) -> Any:
    """The symbolic reading of a performed action has one half of it only."""

    def perform(item: Any, body: Any, state: Any, arguments: tuple[Any, ...]) -> None:
        whole(item, getattr(item, half) if isinstance(state, SymbolicState) else body, state, arguments)

    return perform


relabel, case, whole, cases = SymbolicMap.relabel, Printer._case, items._perform, smtlib._cases
entry = SymbolicFamily.__getitem__

BROKEN: list[tuple[str, Any, str, Any, str]] = [
    ("depot", SymbolicMap, "_key", lambda self, key: symbolic._keys(key, self._field.keys), "stow_anywhere"),
    ("depot", SymbolicRoster, "remove", remove_without_position, "park"),
    ("depot", SymbolicRoster, "remove", remove_without_size, "remove_blindly"),
    ("depot", Printer, "_case", case_without_parent, "swap"),
    ("depot", Term, "__floordiv__", division_towards_zero, "repaint"),
    ("depot", Trace, "assuming", path_is_forgotten, "weigh_sealed"),
    ("depot", SymbolicSet, "without", lambda self, key: self.with_(key), "trade"),
    ("depot", SymbolicMap, "relabel", lambda self, to, where=None: relabel(self, to), "wrap"),
    ("depot", SymbolicIds, "has", lambda self, key: lift(key, self.sort) >= self.low, "stow"),
    ("stacks", Printer, "_case", case_by_the_first_part, "swap"),
    ("stacks", symbolic, "_in_range", checked_in_the_first_part, "write_blindly"),
    ("stacks", SymbolicMap, "relabel", lambda self, to, where=None: relabel(self, to), "relabel_row"),
    ("stacks", SymbolicRoster, "_put_where", put_where_everywhere, "refill"),
    ("stacks", SymbolicRoster, "_put_size", put_size_at_zero, "gather"),
    ("stacks", SymbolicRoster, "_put_size", put_size_at_zero, "line_up"),
    ("stacks", SymbolicFamily, "__getitem__", roster_at_zero, "gather"),
    ("stacks", SymbolicFamily, "fill", filled_without_end, "refill_all"),
    ("stacks", SymbolicFamily, "empty", lambda self: None, "wipe"),
    ("stacks", SymbolicFamily, "__setitem__", assigned_everywhere, "watch"),
    ("stacks", SymbolicSet, "none", lambda self: self, "forget"),
    ("stacks", SymbolicSet, "join", lambda self, other: other, "forget"),
    ("stacks", SymbolicSet, "with_", lambda self, key: self, "take"),
    ("stacks", SymbolicSet, "_quantify", quantified_over_anything, "sweep"),
    ("stacks", smtlib, "_cases", lambda key, values: cases(key, values[::-1]), "write"),
    ("annex", items, "_perform", performs("effects"), "lend"),
    ("annex", items, "_perform", performs("guards"), "note"),
]


@pytest.mark.parametrize(
    ("name", "owner", "method", "broken", "action"),
    BROKEN,
    ids=[
        f"{name}: {owner.__name__.rpartition('.')[2]}.{method}: {action}" for name, owner, method, _, action in BROKEN
    ],
)
def test_a_broken_lowering_is_noticed(
    name: str, owner: Any, method: str, broken: Any, action: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert agree(name, action)
    monkeypatch.setattr(owner, method, broken)
    assert disagreements(name, action) > 0


def test_a_failure_names_the_seed_and_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SymbolicSet, "with_", SymbolicSet.without)
    spec, sizes = SPECS["depot"]
    state = Chance(spec, SEED).state(sizes[0])
    state.sealed = Set()
    said = r"seed 20240611, trial 7: seal\(2,\) on \{'crates': 3.*: run and lowered differ in \{'sealed'"
    with pytest.raises(AssertionError, match=said):
        compare_step(spec, item_named(spec, "seal"), state, (2,), where(Chance(spec, SEED), 7))


def test_an_ill_defined_claim_is_so_in_both_readings() -> None:
    spec, sizes = SPECS["depot"]
    claim = next(t for t in spec.theorems if t.name == "a_look_outside")
    state = Chance(spec, SEED).state(sizes[0])
    state.is_open = False
    with pytest.raises(IllDefined, match="outside a table of 3 entries"):
        claim.function(state, 3)
    with pytest.raises(IllDefined, match="a_look_outside reads outside a table"):
        lowered_claim(spec, claim, [state], [3])
    state.is_open = True
    assert lowered_claim(spec, claim, [state], [3]) is claim.function(state, 3) is True


def test_a_range_beyond_what_is_pinned_is_loud(monkeypatch: pytest.MonkeyPatch) -> None:
    spec, sizes = SPECS["depot"]
    claim = next(t for t in spec.theorems if t.name == "every_range_has_a_middle")
    state = Chance(spec, SEED).state(sizes[0])
    state.low, state.high = -2, 5
    assert lowered_claim(spec, claim, [state], ()) is claim.function(state)
    monkeypatch.setattr(lowered, "MARGIN", -4)
    with pytest.raises(SpecError, match="is not decided on a pinned state"):
        lowered_claim(spec, claim, [state], ())
