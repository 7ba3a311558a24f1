"""The explorer: counts checked by hand, shortest traces, what was never witnessed, and its limit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from lockers_text import LOCKERS, WITH_A_HARMLESS_TWIN, planted, with_more

from poolproof.proofs import explore
from poolproof.proofs.arguments import argument_tuples
from poolproof.proofs.explore import Explorer, claim_name
from poolproof.proofs.results import EXHAUSTED, EXPLORED, REFUTED, UNKNOWN, Report
from poolproof.spec.language import SpecError
from poolproof.spec.language.source import is_guard, parse, statements

Make = Callable[[str], Any]
Run = Callable[..., Report]


def explored(report: Report) -> Any:
    return next(r for r in report.obligations if r.kind == "explore")


@pytest.mark.parametrize(("total", "states", "steps"), [(1, 3, 7), (2, 9, 33), (3, 27, 135)])
def test_every_state_and_step_is_counted_once(make: Make, total: int, states: int, steps: int) -> None:
    """Each locker is free or has one of two people: 3^n states. From one with k free lockers there are 2k takes, n - k
    leaves and a clear; over all states that is (2n / 3 + 2n / 3 + 1) 3^n steps.
    """
    seen = Explorer(make(LOCKERS).SPEC, {"total": total}).run()
    assert (seen.states, seen.steps, seen.complete) == (states, steps, True)
    assert 3 * steps == (4 * total + 3) * 3**total
    assert seen.broken == []


def test_traces_are_the_shortest(make: Make) -> None:
    explorer = Explorer(make(LOCKERS).SPEC, {"total": 2})
    seen = explorer.run()
    assert seen.enabled == {
        "take": ["take(person=0, locker=0)"],
        "leave": ["take(person=0, locker=0)", "leave(person=0, locker=0)"],
        "clear": ["clear()"],
    }
    lengths = {state.key(): len(explorer.trace_to(state.key())) for state in explorer.seen}
    assert {state.key(): state.taken for state in explorer.seen} == lengths


def test_every_guard_of_the_lockers_both_passes_and_refuses(make: Make) -> None:
    made = make(LOCKERS)
    seen = Explorer(made.SPEC, {"total": 2}).run()
    for item in made.SPEC.actions:
        lines = {s.lineno for s in statements(parse(item.function)) if is_guard(s)}
        assert seen.guards[item.name] == seen.refused[item.name] == lines
    assert seen.gaps(made.SPEC) == []


def test_arguments_reach_one_beyond_the_ids_on_either_side(make: Make) -> None:
    made = make(LOCKERS)
    state = made.SPEC.initial(total=2)
    tried = set(argument_tuples(made.SPEC, state, made.SPEC.action("take").parameters))
    assert tried == {(person, locker) for person in (-1, 0, 1) for locker in (-1, 0, 1, 2)}


def test_a_broken_claim_comes_with_the_shortest_trace(make: Make) -> None:
    made = make(planted("    lockers.free.add(locker)\n", ""))
    seen = Explorer(made.SPEC, {"total": 2}).run()
    found = {f.claim: f for f in seen.broken}
    first = found["free_lockers_are_listed"]
    assert first.trace == ["take(person=0, locker=0)", "leave(person=0, locker=0)"]
    assert first.state.plain()["free"] == [1]


def test_a_step_outside_a_table_is_found(make: Make) -> None:
    made = make(planted("    lockers.free.add(locker)\n", "    lockers.free.add(locker + 1)\n"))
    seen = Explorer(made.SPEC, {"total": 1}).run()
    found = next(f for f in seen.broken if f.claim == "leave/is_well_defined")
    assert found.trace == ["take(person=0, locker=0)", "leave(person=0, locker=0)"]


def test_an_initial_state_outside_a_table_is_found(make: Make) -> None:
    made = make(planted("    lockers.taken = 0", "    lockers.taken = 0\n    lockers.use[Locker(3)] = Use.FREE"))
    seen = Explorer(made.SPEC, {"total": 2}).run()
    assert [f.claim for f in seen.broken] == ["init/is_well_defined"]
    assert seen.states == 0


NEVER = '''
@action
def burn(lockers: Lockers, locker: Locker) -> None:
    """Needs what never is."""
    require(lockers.taken < 0)
    require(lockers.all(Locker).has(locker))
    lockers.use[locker] = Use.FREE
'''


def test_an_action_that_is_never_enabled_is_a_gap(make: Make) -> None:
    made = make(with_more(NEVER))
    gaps = Explorer(made.SPEC, {"total": 2}).run().gaps(made.SPEC)
    line = 1 + made_line(made, "require(lockers.taken < 0)")
    assert gaps == ["burn was never enabled", f"the guard of burn in line {line} never refused"]


def made_line(made: Any, text: str) -> int:
    """The line of a module that holds a text."""
    with open(made.__file__) as file:
        return next(number for number, line in enumerate(file, 1) if text in line)


def test_a_guard_that_never_refuses_is_a_gap(make: Make) -> None:
    guard = "    require(lockers.taken >= 0)\n"
    made = make(
        planted(
            "    lockers.turns.relabel(lambda l: lockers.turns[l] + 1",
            guard + "    lockers.turns.relabel(lambda l: lockers.turns[l] + 1",
        )
    )
    gaps = Explorer(made.SPEC, {"total": 2}).run().gaps(made.SPEC)
    assert gaps == [f"the guard of clear in line {made_line(made, guard)} never refused"]


VACUOUS = {
    "its own": "return implies(lockers.taken < 0, lockers.taken == 77)",
    "its second": "return and_(implies(lockers.taken >= 0, lockers.total > 0), implies(lockers.taken < 0, False))",
    "a definition's": "return never(lockers)",
    "a definition's, beside its own": "return implies(lockers.taken >= 0, lambda: never(lockers))",
    "of no element": "return forall(lockers.all(Locker), lambda l: implies(lockers.person[l] < NOBODY, False))",
}

NEVER_MET = '''
@define
def never(lockers: Lockers) -> Bool:
    """A premise in a definition."""
    return implies(lockers.taken < 0, lockers.taken == 77)


@theorem("L9")
def vacuous(lockers: Lockers) -> Bool:
    """L9: says nothing."""
    {}
'''


@pytest.mark.parametrize("body", VACUOUS.values(), ids=VACUOUS)
def test_a_premise_that_is_never_met_is_a_gap(make: Make, body: str) -> None:
    made = make(with_more(NEVER_MET.format(body)))
    seen = Explorer(made.SPEC, {"total": 2}).run()
    assert seen.gaps(made.SPEC) == ["the premise of vacuous was never met"]


def test_every_premise_of_the_lockers_is_met(make: Make) -> None:
    made = make(LOCKERS)
    seen = Explorer(made.SPEC, {"total": 2}).run()
    facts = [fact for b in made.SPEC.batches for fact in b.facts()]
    claims = [
        *made.SPEC.theorems,
        *made.SPEC.steps,
        *facts,
        *(c for a in made.SPEC.actions for c in made.SPEC.ensures(a)),
    ]
    assert {claim_name(claim) for claim in claims} <= set(seen.premises)
    assert seen.premises["a_free_locker_can_be_taken"] == "the initial state"
    assert seen.premises["take_batch/items_do_not_interfere"] == "the initial state"


def test_beyond_its_limit_it_has_only_explored(make: Make) -> None:
    explorer = Explorer(make(LOCKERS).SPEC, {"total": 3}, limit=10)
    seen = explorer.run()
    assert (seen.states, seen.complete, len(explorer.parents)) == (10, False, 10)


FULL = '''
@action
def burn(lockers: Lockers) -> None:
    """Needs that nobody has left."""
    require(lockers.taken == lockers.total)
    lockers.free.fill(Locker(0), 0)
'''
TOTAL = 9
ALL_ARE_TAKEN = tuple(("take", 0, locker) for locker in range(TOTAL))


def test_beyond_its_limit_it_wanders_until_everything_is_witnessed(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the initial state nobody can leave: that is witnessed by walking on, and so are the claims about it."""
    made = make(LOCKERS)
    seen = Explorer(made.SPEC, {"total": 3}, limit=1).run()
    assert (seen.states, seen.complete, seen.gaps(made.SPEC), seen.broken) == (1, False, [], [])
    assert 0 < seen.wandered < explore.WANDER
    assert seen.enabled["leave"][-1].startswith("leave(")
    assert seen.enabled["leave"][0].startswith("take(")
    monkeypatch.setattr(explore, "WANDER", 0)
    seen = Explorer(made.SPEC, {"total": 3}, limit=1).run()
    assert seen.wandered == 0
    assert "leave was never enabled" in seen.gaps(made.SPEC)


def test_it_wanders_the_same_way_every_time(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explore, "WANDER", 150)
    spec = make(with_more(FULL)).SPEC
    one, other = (Explorer(spec, {"total": TOTAL}, limit=2) for _ in range(2))
    assert one.run() == other.run()
    assert list(one.parents.items()) == list(other.parents.items())
    assert len(one.parents) > 10


@pytest.mark.parametrize(("limit", "check"), [(27, True), (10, False)])
def test_it_wanders_only_for_witnesses_and_only_where_states_are_left(make: Make, limit: int, check: bool) -> None:
    """Where all states are seen, what is missing is a gap; without checks nothing is to be witnessed."""
    seen = Explorer(make(with_more(NEVER)).SPEC, {"total": 3}, limit).run(check)
    assert seen.wandered == 0
    assert "burn" not in seen.enabled


def test_a_scene_leads_to_what_chance_does_not_find(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explore, "WANDER", 500)
    spec = make(with_more(FULL)).SPEC
    by_chance = Explorer(spec, {"total": TOTAL}, limit=2).run()
    assert "burn was never enabled" in by_chance.gaps(spec)
    assert by_chance.broken == []
    seen = Explorer(spec, {"total": TOTAL}, limit=2, scenes=[ALL_ARE_TAKEN]).run()
    takes = [f"take(person=0, locker={locker})" for locker in range(TOTAL)]
    assert seen.enabled["burn"] == [*takes, "burn()"]
    assert "burn was never enabled" not in seen.gaps(spec)


NO_THIRD = '''
@theorem("L9")
def no_third_is_taken(lockers: Lockers) -> Bool:
    """L9: true as far as the limit lets the search go."""
    return implies(lockers.taken == 3, lockers.free.size > 2)
'''


def test_a_claim_that_fails_beyond_the_limit_is_found_with_its_trace(make: Make) -> None:
    spec = make(with_more(FULL + NO_THIRD)).SPEC
    assert Explorer(spec, {"total": 3}, limit=7).run(check=False).broken == []
    (found,) = Explorer(spec, {"total": 3}, limit=7).run().broken
    state = spec.initial(total=3)
    for step in found.trace:
        name, arguments = step.rstrip(")").split("(")
        spec.action(name).function(state, *(int(a.partition("=")[2]) for a in arguments.split(", ") if a))
    assert found.claim == "no_third_is_taken"
    assert (state.key(), state.taken) == (found.state.key(), 3)


@pytest.mark.parametrize(
    ("scene", "said"),
    [
        ((("leave", 0, 0),), r"lockers: a scene says leave\(0, 0\), which is refused there"),
        ((*ALL_ARE_TAKEN, ("take", 1, 4)), r"lockers: a scene says take\(1, 4\), which is refused there"),
        ((("take", 0, TOTAL + 5),), r"lockers: a scene says take\(0, 14\), which is refused there"),
    ],
    ids=["at first", "at its end", "no such locker"],
)
def test_a_scene_that_is_refused_is_an_error(make: Make, scene: explore.Scene, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        Explorer(make(with_more(FULL)).SPEC, {"total": TOTAL}, limit=2, scenes=[scene]).run()


def test_a_run_says_how_far_it_wandered_and_walks_its_scenes(run: Run) -> None:
    limited = planted("explore_limit=200", "explore_limit=1")
    assert " random steps and " in explored(run(limited, only=ONLY_TAKE)).doc
    assert "random steps" not in explored(run(LOCKERS, only=ONLY_TAKE)).doc
    scene = planted("explore_limit=200", 'explore_limit=1, scenes=((("leave", 0, 0),),)')
    with pytest.raises(SpecError, match=r"a scene says leave\(0, 0\)"):
        run(scene, only=ONLY_TAKE)


ONLY_TAKE = ("lockers/take/preserves/taken_lockers_are_counted",)


@pytest.mark.parametrize(("limit", "grade"), [(26, EXPLORED), (27, EXHAUSTED)])
def test_the_grade_says_whether_all_states_were_seen(run: Run, limit: int, grade: str) -> None:
    larger = planted('explore_sizes=({"total": 2},),', 'explore_sizes=({"total": 3},),')
    limited = planted("explore_limit=200", f"explore_limit={limit}", larger)
    result = explored(run(limited, only=ONLY_TAKE))
    assert result.grade == grade
    assert result.claim == "lockers/explore/total=3"
    assert result.doc.startswith(f"{limit} states, ")


def test_the_control_of_an_exploration_is_a_planted_fault(run: Run) -> None:
    result = explored(run(LOCKERS, only=ONLY_TAKE))
    assert result.twins == [
        "leave_by_anybody: a_leave_frees_the_locker after take(person=0, locker=0); leave(person=-1, locker=0)"
    ]


def test_a_broken_claim_refutes_the_exploration(run: Run) -> None:
    report = run(planted("lockers.taken -= 1", "lockers.taken -= 2"), only=ONLY_TAKE)
    result = explored(report)
    assert result.grade == REFUTED
    assert result.note == "taken_lockers_are_counted after take(person=0, locker=0); leave(person=0, locker=0)"
    assert not report.passed


def test_a_gap_leaves_the_exploration_unknown(run: Run) -> None:
    result = explored(run(with_more(NEVER), only=ONLY_TAKE))
    assert result.grade == UNKNOWN
    assert "burn was never enabled" in result.note


def test_an_instance_with_arguments_that_are_not_all_tried_is_only_explored(run: Run) -> None:
    """The spec says which people an instance means; without that the explorer has tried some of them only."""
    whole = explored(run(LOCKERS, only=ONLY_TAKE))
    assert whole.grade == EXHAUSTED
    assert "Person from {-1, 0, 1}" in whole.doc
    undeclared = planted(", {Person: (NOBODY, Person(0), Person(1))})", ")")
    partial = explored(run(undeclared, only=ONLY_TAKE))
    assert partial.grade == EXPLORED
    assert partial.doc.startswith("9 states")


def test_a_guard_outside_a_table_is_found(make: Make) -> None:
    made = make(planted("    require(lockers.all(Locker).has(locker))\n", ""))
    seen = Explorer(made.SPEC, {"total": 1}).run()
    found = next(f for f in seen.broken if f.claim == "take/is_well_defined")
    assert found.trace == ["take(person=0, locker=-1)"]


GHOSTLY = '''
@invariant("L9")
def no_locker_has_a_second_turn(lockers: Lockers) -> Bool:
    """L9: false after a take and a leave, where all but the ghosts is as at first."""
    return forall(lockers.all(Locker), lambda l: lockers.turns[l] == 0)
'''


def test_claims_about_ghosts_are_checked_in_states_that_differ_in_ghosts_only(make: Make) -> None:
    seen = Explorer(make(with_more(GHOSTLY)).SPEC, {"total": 1}).run()
    assert seen.states == 3
    assert [(f.claim, f.trace) for f in seen.broken] == [
        ("no_locker_has_a_second_turn", ["take(person=0, locker=0)", "leave(person=0, locker=0)"])
    ]


def test_an_explorer_that_misses_its_planted_fault_has_shown_nothing(run: Run) -> None:
    result = explored(run(WITH_A_HARMLESS_TWIN, only=ONLY_TAKE))
    assert result.grade == UNKNOWN
    assert "neither was the planted fault found" in result.note


HALLS = '''
class Hall(State):
    """A part with a size of its own. Its scalars are named as the parts of a roster are."""

    seats: Size[Locker]
    use: Map[Locker, Use]
    size: Int
    position: Int


class Halls(State):
    """Two parts."""

    left: Hall
    right: Hall


@initial
def build(halls: Halls) -> None:
    """Nothing is taken."""
    halls.left.use.relabel(lambda l: Use.FREE)
    halls.right.use.relabel(lambda l: Use.FREE)
    halls.left.size = 0
    halls.right.size = 0
    halls.left.position = 0
    halls.right.position = 0


@action
def sit(halls: Halls, seat: Locker) -> None:
    """A seat of the left hall is taken."""
    require(halls.left.all(Locker).has(seat))
    require(halls.left.use[seat] == Use.FREE)
    halls.left.use[seat] = Use.TAKEN
    halls.left.size += 1
    halls.left.position = halls.left.size


@invariant("H1")
def the_left_is_counted(halls: Halls) -> Bool:
    """H1: the size of the left hall."""
    return counts(halls.left.size, halls.left.all(Locker), lambda l: halls.left.use[l] == Use.TAKEN)


@invariant("H2")
def the_position_is_the_size(halls: Halls) -> Bool:
    """H2: reads scalars only, whose names end as those of a roster's parts."""
    return halls.left.position == halls.left.size


SPEC = Specification("halls", Halls, {"left.seats": 1, "right.seats": 1})
SUBJECT = Subject(
    SPEC,
    mutant_sizes=({"left.seats": 2, "right.seats": 1},),
    explore_sizes=({"left.seats": 2, "right.seats": 1},),
    redundant={"build: *": "the right hall is not looked at"},
    implied={"init/*": "not the point here"},
    ref=f"{__name__}:SUBJECT",
)
'''
HEAD = LOCKERS[: LOCKERS.index("class Lockers(State)")]


def test_products_are_explored_at_the_sizes_of_their_components(run: Run) -> None:
    report = run(HEAD + HALLS, only=("halls/sit/*",))
    assert explored(report).grade == EXHAUSTED
    assert explored(report).claim == "halls/explore/left.seats=2, right.seats=1"
    assert explored(report).doc.startswith("4 states, 4 steps, ")
    assert {r.claim: r.grade for r in report.obligations if r.kind != "explore"} == {
        "halls/sit/is_well_defined": "PROVED",
        "halls/sit/preserves/the_left_is_counted": "PROVED",
        "halls/sit/preserves/the_position_is_the_size": "PROVED",
    }


def test_a_scalar_named_as_a_part_of_a_roster_is_no_frame(run: Run) -> None:
    """A claim about `left.size` is touched by an action that writes it, though no roster is called `left`."""
    report = run(HEAD + HALLS, only=("halls/sit/*",))
    assert [r.claim for r in report.obligations if r.twins == ["FRAME"]] == []
    old, new = (f"    halls.left.position = {value}\n\n" for value in ("halls.left.size", "0"))
    broken = run(HEAD + HALLS.replace(old, new), only=("halls/sit/*",))
    refuted = next(r for r in broken.obligations if r.claim.endswith("the_position_is_the_size"))
    assert refuted.grade == REFUTED
