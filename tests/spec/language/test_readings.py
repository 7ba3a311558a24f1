"""The language itself: what running a spec says and what its lowered form says are the same, on random states."""

from __future__ import annotations

from collections import Counter
from typing import Any

import depot
import harbour
import pytest
from differential import Chance, compare_claim, compare_step

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
    for trial in range(16):
        state = chance.state(sizes[trial % len(sizes)])
        arguments = chance.arguments(state, item.parameters)
        seen[compare_step(spec, item, state, arguments, where(chance, trial))] += 1
    assert seen.total() == 16


@pytest.mark.parametrize(("name", "claim"), dict.fromkeys(CLAIMS))
def test_claims_about_states_agree(name: str, claim: str) -> None:
    spec, sizes = SPECS[name]
    chance, seen = chance_for(name, claim), Counter[str]()
    facts = [fact for batch in spec.batches for fact in batch.facts()]
    for item in (c for c in [*spec.invariants, *spec.theorems, *facts] if c.name == claim):
        for trial in range(12):
            state = chance.state(sizes[trial % len(sizes)])
            arguments = chance.arguments(state, item.parameters)
            seen[compare_claim(spec, item, [state], arguments, where(chance, trial))] += 1
    assert seen["True"] + seen["False"] > 0, seen


@pytest.mark.parametrize("name", SPECS)
def test_claims_about_steps_agree(name: str) -> None:
    spec, sizes = SPECS[name]
    chance, seen = chance_for(name, "steps"), Counter[str]()
    for trial in range(8):
        for item in spec.actions:
            before = chance.state(sizes[trial % len(sizes)])
            after, arguments = chance.after(item, before)
            for claim in [*spec.steps, *spec.ensures(item)]:
                given = arguments if claim.kind == "ensures" else ()
                seen[compare_claim(spec, claim, [before, after], given, where(chance, trial))] += 1
    assert seen["True"] > 5
    assert seen["False"] > 5


@pytest.mark.parametrize("name", SPECS)
def test_random_actions_are_refused_done_and_ill_defined(name: str) -> None:
    """The random states and arguments reach all three outcomes, so that agreeing on them says something."""
    from poolproof.proofs.concrete import run

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
