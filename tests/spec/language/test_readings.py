"""The language itself: what running a spec says and what its lowered form says are the same, on random states."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from typing import Any

import depot
import harbour
import pytest
from differential import Chance, compare_claim, compare_step

from poolproof.proofs import lowered
from poolproof.proofs.concrete import run
from poolproof.proofs.lowered import lowered_claim
from poolproof.proofs.smtlib import Printer
from poolproof.spec.language import IllDefined, Set, SpecError
from poolproof.spec.language.symbolic import SymbolicIds, SymbolicMap, SymbolicRoster, SymbolicSet
from poolproof.spec.language.terms import Term, Version, lift
from poolproof.spec.language.tracing import Trace, current

SEED = 20240611

DEPOT_SIZES = [{"crates": 3, "bays": 2}, {"crates": 1, "bays": 3}, {"crates": 4, "bays": 1}]
HARBOUR_SIZES = [
    {"north": {"berths": 2}, "south": {"berths": 3}, "fleet": {"ships": 2}},
    {"north": {"berths": 3}, "south": {"berths": 1}, "fleet": {"ships": 1}},
]
SPECS = {"depot": (depot.SPEC, DEPOT_SIZES), "harbour": (harbour.SPEC, HARBOUR_SIZES)}
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


def item_named(spec: Any, name: str) -> Any:
    return next(item for item in [spec.initializer, *spec.actions] if item.name == name)


@pytest.mark.parametrize(("name", "action"), STEPS)
def test_steps_agree(name: str, action: str) -> None:
    spec, sizes = SPECS[name]
    item, chance, seen = item_named(spec, action), chance_for(name, action), Counter[str]()
    for trial in range(8):
        state = chance.state(sizes[trial % len(sizes)])
        arguments = chance.arguments(state, item.parameters)
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
            state = chance.state(sizes[trial % len(sizes)])
            outcome = run(spec, item, state, chance.arguments(state, item.parameters))
            seen["refused" if outcome.refused else "ill defined" if outcome.ill_defined else "done"] += 1
            if outcome.after is not None:
                done.add(item.name)
    assert min(seen["refused"], seen["ill defined"], seen["done"]) > 50, seen
    assert done == {item.name for item in spec.actions}


# ------------------------------------------------------------------------- a broken lowering does not go unnoticed


def disagreements(name: str, action: str, trials: int = 20) -> int:
    """In how many of some random steps the two readings differ."""
    spec, sizes = SPECS[name]
    item, chance, found = item_named(spec, action), chance_for(name, action), 0
    for trial in range(trials):
        state = chance.state(sizes[0])
        try:
            compare_step(spec, item, state, chance.arguments(state, item.parameters), where(chance, trial))
        except AssertionError:
            found += 1
    return found


def remove_without_position(self: SymbolicRoster, key: Any) -> None:
    """The last member takes the place, but its position still says where it was."""
    item = self._in_table(key)
    current().demand(self._has(item))
    size, index, name = self.size, self.position(item), self._field.name
    self._state.note(self._field, item, item)
    self._state.write(name + ".member", ("set", index, self.member(size - 1)))
    self._state.put(name + ".size", size - 1)


def remove_without_size(self: SymbolicRoster, key: Any) -> None:
    """The last member takes the place, and is still listed at the end."""
    item = self._in_table(key)
    current().demand(self._has(item))
    size, index, name = self.size, self.position(item), self._field.name
    self._state.note(self._field, item, item)
    last = self.member(size - 1)
    self._state.write(name + ".member", ("set", index, last))
    self._state.write(name + ".position", ("set", last, index))


def case_without_parent(self: Printer, version: Version, key: str, env: dict[Any, str]) -> str:
    """A write at one key is taken for a write at every key."""
    return self.term(version.write[-1], {**env, **({version.write[1].args[0]: key} if len(version.write) == 4 else {})})


def division_towards_zero(self: Term, other: Any) -> Term:
    """Division as the machine has it."""
    below = Term("-", (Term("lit", (0,), int), self), self.sort)
    up = Term("-", (Term("lit", (0,), int), Term("div", (below, Term("lit", (other,), int)), int)), self.sort)
    down = Term("div", (self, Term("lit", (other,), int)), self.sort)
    return Term("ite", (Term("<", (self, Term("lit", (0,), int)), bool), up, down), self.sort)


def path_is_forgotten(self: Trace, condition: Term) -> Any:
    """What a connective has found out on its left is not told to its right."""
    return nullcontext()


relabel = SymbolicMap.relabel

BROKEN = [
    (SymbolicMap, "_key", lambda self, key: lift(key, self._field.key), "stow_anywhere"),
    (SymbolicRoster, "remove", remove_without_position, "remove_blindly"),
    (SymbolicRoster, "remove", remove_without_size, "remove_blindly"),
    (Printer, "_case", case_without_parent, "swap"),
    (Term, "__floordiv__", division_towards_zero, "repaint"),
    (Trace, "assuming", path_is_forgotten, "weigh_sealed"),
    (SymbolicSet, "without", lambda self, key: self.with_(key), "trade"),
    (SymbolicMap, "relabel", lambda self, to, where=None: relabel(self, to), "wrap"),
    (SymbolicIds, "has", lambda self, key: lift(key, self.sort) >= self.low, "stow"),
]


@pytest.mark.parametrize(
    ("owner", "method", "broken", "action"), BROKEN, ids=[f"{owner.__name__}.{method}" for owner, method, *_ in BROKEN]
)
def test_a_broken_lowering_is_noticed(
    owner: Any, method: str, broken: Any, action: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert disagreements("depot", action) == 0
    monkeypatch.setattr(owner, method, broken)
    assert disagreements("depot", action) > 0


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
