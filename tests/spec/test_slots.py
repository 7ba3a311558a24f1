"""The slots spec: both readings agree, a refused action changes nothing, and random walks break no claim."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from differential import Chance, compare_claim, compare_step

from poolproof.proofs.concrete import holds, run
from poolproof.proofs.lowered import observed
from poolproof.spec.language import IllDefined, Refused
from poolproof.spec.language.source import is_guard, parse, statements
from poolproof.spec.slots import NOBODY, SINK, SPEC, Owner, Slots

SEED = 4011
HOLDERS = (NOBODY, 0, 1)
ITEMS = [SPEC.initializer, *SPEC.actions]
STATE_CLAIMS = [*SPEC.invariants, *SPEC.theorems, *(fact for b in SPEC.batches for fact in b.facts())]


def label(claim: Any) -> str:
    return f"{claim.batch.name}-{claim.name}" if claim.kind == "batch" else str(claim.name)


def chance_for(about: str) -> Chance:
    return Chance(SPEC, SEED + sum(map(ord, about)), HOLDERS)


def stroll(chance: Chance, state: Slots, steps: int = 1) -> Slots:
    """The state after some random allowed steps; what undoes much happens rarely."""
    for _ in range(steps):
        rare = chance.draw.random() < 0.1
        item = chance.draw.choice([a for a in SPEC.actions if rare or a.name not in ("clear", "close_group", "free")])
        state, _ = chance.after(item, state)
    return state


def any_state(chance: Chance, trial: int) -> Slots:
    """By turns a state that can be reached and one that need not make sense."""
    total = chance.draw.choice((1, 2, 3, 4))
    return stroll(chance, SPEC.initial(total=total), 12) if trial % 2 else chance.state({"total": total})


# ------------------------------------------------------------------------------------------------- the readings agree


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: item.name)
def test_steps_agree(item: Any) -> None:
    chance, seen = chance_for(item.name), Counter[str]()
    for trial in range(14):
        state = any_state(chance, trial)
        good = chance.allowed(item, state) if trial % 3 else None
        arguments = good or chance.arguments(state, item.parameters)
        seen[compare_step(SPEC, item, state, arguments, f"seed {chance.seed}, trial {trial}")] += 1
    assert seen["done"] > 0, seen


@pytest.mark.parametrize("claim", STATE_CLAIMS, ids=label)
def test_claims_about_states_agree(claim: Any) -> None:
    chance, seen = chance_for(label(claim)), Counter[str]()
    for trial in range(6):
        state = any_state(chance, trial)
        arguments = chance.arguments(state, claim.parameters)
        quantified = trial % 4 < 2 and not claim.name.endswith("counted")
        seen[compare_claim(SPEC, claim, [state], arguments, f"seed {chance.seed}, trial {trial}", quantified)] += 1
    assert seen["True"] + seen["False"] > 0, seen


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: item.name)
def test_claims_about_steps_agree(item: Any) -> None:
    chance, seen = chance_for(f"claims of {item.name}"), Counter[str]()
    for trial in range(4):
        before = any_state(chance, trial)
        after, arguments = chance.after(item, before)
        for claim in [*(SPEC.steps if item.kind == "action" else ()), *SPEC.ensures(item)]:
            given = arguments if claim.kind == "ensures" else ()
            where = f"seed {chance.seed}, trial {trial}"
            seen[compare_claim(SPEC, claim, [before, after], given, where, trial % 2 == 0)] += 1
    assert seen["True"] + seen["False"] > 0, seen


# --------------------------------------------------------------------------------------------------- the run reading


def guard_lines(item: Any) -> set[int]:
    return {statement.lineno for statement in statements(parse(item.function)) if is_guard(statement)}


@pytest.mark.parametrize("item", SPEC.actions, ids=lambda item: item.name)
def test_every_guard_refuses_and_changes_nothing(item: Any) -> None:
    chance, refused_by = chance_for(f"guards of {item.name}"), set[int]()
    state: Slots = SPEC.initial(total=2)
    for trial in range(350):
        state = any_state(chance, trial) if trial % 30 == 0 else stroll(chance, state)
        arguments, before = chance.arguments(state, item.parameters), observed(state)
        try:
            item.function(state.copy(), *arguments)
        except Refused as refusal:
            frame = refusal.__traceback__
            while frame is not None and frame.tb_frame.f_code is not item.function.__code__:
                frame = frame.tb_next
            assert frame is not None
            refused_by.add(frame.tb_lineno)
            assert observed(state) == before, f"seed {chance.seed}, trial {trial}: {item.name}{arguments}"
        except IllDefined:
            assert SPEC.violations(state), f"seed {chance.seed}, trial {trial}: ill defined in a sound state"
    assert refused_by == guard_lines(item)


def test_random_walks_break_no_claim() -> None:
    chance, taken = Chance(SPEC, SEED, HOLDERS), Counter[str]()
    for total in (1, 2, 5, 16):
        state = SPEC.initial(total=total)
        for step in range(150):
            item = chance.draw.choice(SPEC.actions)
            arguments = chance.allowed(item, state) or chance.arguments(state, item.parameters)
            outcome = run(SPEC, item, state, arguments)
            where = f"seed {SEED}, total {total}, step {step}: {item.name}{arguments} on {state.plain()}"
            assert not outcome.ill_defined, where
            if outcome.after is None:
                continue
            taken[item.name] += 1
            assert SPEC.violations(outcome.after) == [], where
            claims = [(c, ()) for c in SPEC.steps] + [(c, arguments) for c in SPEC.ensures(item)]
            assert [c.name for c, given in claims if not holds(SPEC, c, state, outcome.after, *given)] == [], where
            state = outcome.after
        for claim in STATE_CLAIMS:
            for _ in range(10):
                assert holds(SPEC, claim, state, *chance.arguments(state, claim.parameters)), claim.name
    assert set(taken) == {item.name for item in SPEC.actions}


@pytest.mark.parametrize("made", SPEC.batches, ids=lambda made: made.name)
def test_a_batch_is_its_fold_or_nothing(made: Any) -> None:
    chance, seen = chance_for(made.name), Counter[bool]()
    walked = stroll(chance, SPEC.initial(total=6), 20)
    for trial in range(150):
        walked = stroll(chance, walked, 3)
        state = walked.copy()
        head = chance.allowed(made.item, state) or chance.arguments(state, made.item.parameters)
        items = [head[made.position]]
        for _ in range(chance.draw.randrange(3)):
            items.append(chance.draw.choice([chance.draw.randrange(1, 6), chance.draw.randrange(1, 6), items[0], -1]))
        arguments = [*head[: made.position], items, *head[made.position + 1 :]]
        before, folded = observed(state), state.copy()
        try:
            made(state, *arguments)
        except Refused:
            seen[False] += 1
            assert observed(state) == before
            with pytest.raises(Refused):
                made.fold(folded, *arguments)
            continue
        seen[True] += 1
        made.fold(folded, *arguments)
        assert observed(state) == observed(folded), f"seed {chance.seed}, trial {trial}: {made.name}{arguments}"
    assert min(seen[True], seen[False]) > 3, seen


def test_a_new_pool() -> None:
    assert SPEC.initial(total=3).plain() == {
        "total": 3,
        "owner": ["SINK", "FREE", "FREE"],
        "holder": [-1, -1, -1],
        "tenancy": [0, 0, 0],
        "free_slots": [1, 2],
        "reserved_slots": [],
        "in_requests": 0,
        "in_cache": 0,
        "in_pending": 0,
        "group_is_open": False,
    }


def test_one_slot_through_its_life() -> None:
    state = SPEC.initial(total=3)
    steps = [
        ("alloc", (7, 1), Owner.REQUEST),
        ("transfer", (7, 1, Owner.CACHE, 9), Owner.CACHE),
        ("transfer", (9, 1, Owner.REQUEST, 8), Owner.REQUEST),
        ("retire", (8, 1), Owner.PENDING),
        ("reclaim", (1,), Owner.FREE),
        ("open_group", (), Owner.FREE),
        ("reserve", (1,), Owner.RESERVED),
        ("take", (4, 1), Owner.REQUEST),
        ("free", (4, 1), Owner.FREE),
        ("reserve", (1,), Owner.RESERVED),
        ("close_group", (), Owner.FREE),
    ]
    for name, arguments, owner in steps:
        SPEC.action(name).function(state, *arguments)
        assert state.owner[1] is owner
        assert SPEC.violations(state) == []
    assert (state.tenancy[1], state.owner[SINK], state.holder[1]) == (4, Owner.SINK, NOBODY)


@pytest.mark.parametrize("slot", [-1, 0, 3, 99])
def test_bad_ids_are_refused_everywhere(slot: int) -> None:
    state = SPEC.initial(total=3)
    SPEC.action("open_group").function(state)
    calls: dict[str, tuple[Any, ...]] = {
        "alloc": (1, slot),
        "free": (1, slot),
        "retire": (1, slot),
        "reclaim": (slot,),
        "transfer": (1, slot, Owner.CACHE, 2),
        "reserve": (slot,),
        "take": (1, slot),
    }
    for name, arguments in calls.items():
        with pytest.raises(Refused):
            SPEC.action(name).function(state, *arguments)
    assert set(calls) == {item.name for item in SPEC.actions if any(p.name == "slot" for p in item.parameters)}
