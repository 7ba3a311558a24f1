"""Controls: what nothing can break, what is never reached, and what is excused without need is not PROVED."""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lockers_text import LOCKERS, WITH_A_HARMLESS_TWIN, planted, with_more

from poolproof.proofs import controls, tasks
from poolproof.proofs.concrete import refusing
from poolproof.proofs.concrete import run as run_action
from poolproof.proofs.controls import Kill, Killer, walk
from poolproof.proofs.explore import Explorer
from poolproof.proofs.mutate import Mutant, mutants
from poolproof.proofs.results import PROVED, REFUTED, UNKNOWN, Report, Result
from poolproof.spec.language import Refused
from poolproof.spec.language.source import is_binding, parse, statements

Make = Callable[[str], Any]
Run = Callable[..., Report]


def result(report: Report, claim: str) -> Result:
    return next(r for r in report.obligations if r.claim == claim)


# ------------------------------------------------------------------------------------------------- a spec that is right


def test_the_lockers_are_proved_with_every_control(run: Run) -> None:
    report = run(LOCKERS)
    assert report.failures == []
    assert {r.grade for r in report.obligations if r.kind != "explore"} == {PROVED}
    assert [r.claim for r in report.obligations if not r.witness or not r.twins] == []
    assert len(report.mutants) > 40
    assert all(control.broken for control in [*report.mutants, *report.twins])
    taken = result(report, "lockers/take/preserves/taken_lockers_are_counted")
    assert taken.witness == "take(person=0, locker=0)"
    assert taken.twins[0] == "take: drops `lockers.use[locker] = Use.TAKEN`"
    assert taken.solver.startswith("z3 ")


# -------------------------------------------------------------------------------------------------------------- vacuity

VACUOUS = '''
@theorem("L9")
def vacuous(lockers: Lockers) -> Bool:
    """L9: says nothing."""
    return {}
'''


@pytest.mark.parametrize(
    "body",
    [
        "implies(lockers.taken < 0, lockers.free.size == 99)",
        "and_(implies(lockers.taken >= 0, lockers.total > 0), implies(lockers.taken < 0, lockers.free.size == 99))",
    ],
)
def test_a_theorem_whose_premise_cannot_be_met_is_not_proved(run: Run, body: str) -> None:
    excused = planted(
        "    implied={\n",
        '    implied={\n        "/vacuous": "no mutant breaks it",\n',
        with_more(VACUOUS.format(body)),
    )
    report = run(excused, only=("vacuous",))
    assert result(report, "lockers/theorem/vacuous").grade == UNKNOWN
    assert result(report, "lockers/theorem/vacuous").note == "unsat, but no reachable state meets the premise"
    assert not report.passed


NEVER = '''
@action
def burn(lockers: Lockers, locker: Locker) -> None:
    """Needs what never is."""
    require(lockers.all(Locker).has(locker))
    require(lockers.taken < 0)
    lockers.use[locker] = Use.FREE
    lockers.taken -= 5
'''


def test_an_action_that_is_never_enabled_is_not_proved(run: Run) -> None:
    report = run(with_more(NEVER), only=("lockers/burn/preserves/*",))
    grades = {r.claim: (r.grade, r.note) for r in report.obligations if r.kind == "preserves"}
    assert len(grades) == 4
    assert set(grades.values()) == {(UNKNOWN, "unsat, but no reachable state meets the premise")}


CONTRADICTION = '''
@invariant("L9")
def one(lockers: Lockers) -> Bool:
    """L9: true of some states."""
    return {}


@invariant("L9")
def other(lockers: Lockers) -> Bool:
    """L9: true of others."""
    return {}


@theorem("L9")
def the_moon_is_a_locker(lockers: Lockers) -> Bool:
    """L9: follows from anything."""
    return lockers.taken == 99
'''


@pytest.mark.parametrize(
    ("one", "other"),
    [("lockers.taken == 0", "lockers.taken == 1"), ("lockers.free.size > 0", "lockers.free.size == 0")],
)
def test_contradictory_invariants_are_caught_at_the_initial_state(run: Run, one: str, other: str) -> None:
    report = run(with_more(CONTRADICTION.format(one, other)), only=("L9",))
    grades = [result(report, f"lockers/init/establishes/{name}").grade for name in ("one", "other")]
    assert REFUTED in grades
    assert not report.passed
    explored = next(r for r in report.obligations if r.kind == "explore")
    assert explored.grade == REFUTED


# ---------------------------------------------------------------------------------------- claims that nothing can break

UNBREAKABLE = '''
@theorem("L9")
def lockers_exist(lockers: Lockers) -> Bool:
    """L9: true of sizes alone."""
    return lockers.total >= 1


@invariant("L9")
def sizes_are_sizes(lockers: Lockers) -> Bool:
    """L9: true of sizes alone."""
    return lockers.total >= 0
'''


def test_a_claim_that_no_mutant_breaks_must_be_declared_implied(run: Run) -> None:
    report = run(with_more(UNBREAKABLE), only=("L9",))
    for claim in ("lockers/theorem/lockers_exist", "lockers/init/establishes/sizes_are_sizes"):
        assert result(report, claim).grade == UNKNOWN
        assert (
            result(report, claim).note == "unsat, but no mutant or twin breaks it: declare it implied, with the reason"
        )
    framed = result(report, "lockers/take/preserves/sizes_are_sizes")
    assert (framed.grade, framed.twins) == (PROVED, ["FRAME"])


def test_a_claim_that_is_declared_implied_is_proved_with_the_reason(run: Run) -> None:
    excuses = (
        '    implied={\n        "/lockers_exist": "sizes",\n        "init/sizes_are_sizes": "sizes do not change",\n'
    )
    report = run(planted("    implied={\n", excuses, with_more(UNBREAKABLE)), only=("L9",))
    assert report.failures == []
    assert result(report, "lockers/theorem/lockers_exist").twins == ["IMPLIED: sizes"]
    assert result(report, "lockers/init/establishes/sizes_are_sizes").twins == ["IMPLIED: sizes do not change"]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (
            "    implied={\n",
            '    implied={\n        "take/no_such_claim": "stale",\n',
            "lockers: declared implied, but nothing needs it: take/no_such_claim",
        ),
        (
            "    implied={\n",
            '    implied={\n        "take/free_lockers_are_listed": "wrong",\n',
            "lockers: declared implied, but a mutant breaks it: take/free_lockers_are_listed",
        ),
        (
            "    implied={\n",
            '    redundant={"take: drops*": "stale"},\n    implied={\n',
            "lockers: declared redundant, but no surviving mutant matches: take: drops*",
        ),
    ],
    ids=["implied, not needed", "implied, but broken", "redundant, not needed"],
)
def test_a_stale_declaration_fails_the_run(run: Run, old: str, new: str, problem: str) -> None:
    report = run(planted(old, new))
    assert problem in report.problems
    assert not report.passed


def test_declarations_are_not_judged_by_a_part_of_a_run(run: Run) -> None:
    stale = planted("    implied={\n", '    implied={\n        "take/no_such_claim": "stale",\n')
    assert run(stale, only=("lockers/take/preserves/*",)).failures == []


TWICE = "    require(lockers.use[locker] == Use.TAKEN)\n"


def test_a_redundant_guard_must_be_declared(run: Run) -> None:
    doubled = planted(TWICE, TWICE + "    require(lockers.taken > 0)\n")
    report = run(doubled, only=("lockers/leave/*",))
    survived = [c.name for c in report.mutants if c.failed]
    assert "leave: drops `require(lockers.taken > 0)`" in survived
    assert f"not refuted: mutant of lockers/{survived[0]}" in report.failures
    declared = planted(
        "    implied={\n", '    redundant={"leave: *lockers.taken *0)`*": "follows"},\n    implied={\n', doubled
    )
    report = run(declared, only=("lockers/leave/*",))
    assert [c.name for c in report.mutants if c.failed] == []
    assert [line.partition(":")[0] for line in report.failures] == ["UNKNOWN lockers/explore/total=2"]
    assert "never refused" in report.failures[0]
    assert {c.reason for c in report.mutants if not c.broken} == {"follows"}


def test_a_twin_that_is_not_refuted_as_declared_fails_the_run(run: Run) -> None:
    wrong = planted('("only_the_person_can_leave",)', '("only_the_person_can_leave", "taken_lockers_are_counted")')
    report = run(wrong, only=("lockers/leave/*",))
    assert report.failures == ["not refuted as declared: twin lockers/leave_by_anybody (made-up#1)"]


def test_a_twin_that_is_no_fault_fails_the_run(run: Run) -> None:
    report = run(WITH_A_HARMLESS_TWIN, only=("lockers/leave/*",))
    assert "not refuted as declared: twin lockers/leave_by_anybody (made-up#1)" in report.failures


# -------------------------------------------------------------------------------------------------------------- mutants


def test_every_guard_and_effect_is_dropped_and_changed(make: Make) -> None:
    spec = make(LOCKERS).SPEC
    for item in [*spec.actions, spec.initializer]:
        body = [s for s in statements(parse(item.function)) if not is_binding(s)]
        made = mutants(spec, item)
        assert {m.line for m in made if m.name.startswith("drops ")} == {s.lineno for s in body}
        assert len({m.label for m in made}) == len(made)
        assert all(parse(m.function) is not None for m in made)


def test_the_mutants_of_one_action(make: Make) -> None:
    spec = make(LOCKERS).SPEC
    assert [m.name for m in mutants(spec, spec.action("take"))] == [
        "drops `require(person > NOBODY)`",
        "`require(person >= NOBODY)` for `require(person > NOBODY)`",
        "drops `require(lockers.all(Locker).has(locker))`",
        "drops `require(lockers.use[locker] == Use.FREE)`",
        "`require(lockers.use[locker] != Use.FREE)` for `require(lockers.use[locker] == Use.FREE)`",
        "`require(lockers.use[locker] == Use.TAKEN)` for `require(lockers.use[locker] == Use.FREE)`",
        "drops `lockers.use[locker] = Use.TAKEN`",
        "`lockers.use[locker] = Use.FREE` for `lockers.use[locker] = Use.TAKEN`",
        "drops `lockers.person[locker] = person`",
        "drops `lockers.free.remove(locker)`",
        "`lockers.free.add(locker)` for `lockers.free.remove(locker)`",
        "drops `lockers.taken += 1`",
        "`lockers.taken += 2` for `lockers.taken += 1`",
        "`lockers.taken -= 1` for `lockers.taken += 1`",
    ]


GUARDED = '''
@define
def is_good(lockers: Lockers, locker: Locker) -> Bool:
    """Two parts."""
    return and_(lockers.all(Locker).has(locker), lambda: lockers.use[locker] == Use.TAKEN)


@action
def wear(lockers: Lockers, locker: Locker) -> None:
    """A guard in a definition."""
    require(is_good(lockers, locker))
    lockers.turns[locker] += 1
'''


def test_a_definition_that_a_guard_calls_is_mutated_part_by_part(make: Make) -> None:
    spec = make(with_more(GUARDED)).SPEC
    found = {m.name: m.function for m in mutants(spec, spec.action("wear"))}
    whole = spec.action("wear").function
    part = found["is_good without `lambda: lockers.use[locker] == Use.TAKEN`"]
    assert "is_good without `lockers.all(Locker).has(locker)`" in found
    state = spec.initial(total=1)
    part(state, 0)
    assert state.turns[0] == 1
    with pytest.raises(Refused):
        whole(state, 0)


def test_a_mutant_names_the_fields_of_what_it_changes(make: Make) -> None:
    """Those that it reaches through a definition too, but none of the rest of the action."""
    spec = make(with_more(GUARDED)).SPEC
    fields = {item: {m.name: m.fields & FIELDS for m in mutants(spec, spec.action(item))} for item in ("take", "wear")}
    assert fields["take"]["drops `lockers.taken += 1`"] == {"taken"}
    assert fields["take"]["`lockers.taken += 2` for `lockers.taken += 1`"] == {"taken"}
    assert fields["take"]["drops `lockers.free.remove(locker)`"] == {"free"}
    assert fields["take"]["drops `require(person > NOBODY)`"] == set()
    assert fields["wear"]["drops `require(is_good(lockers, locker))`"] == {"use"}
    assert fields["wear"]["is_good without `lambda: lockers.use[locker] == Use.TAKEN`"] == {"use"}
    assert fields["wear"]["is_good without `lockers.all(Locker).has(locker)`"] == set()


FIELDS = {"use", "person", "turns", "free", "taken"}


# ------------------------------------------------------------------------------------------------------------- searches


def test_a_kill_is_a_step_that_the_run_reading_confirms(make: Make) -> None:
    subject = make(LOCKERS).SUBJECT
    killer = Killer(subject.spec, {"total": 2})
    item = subject.spec.action("take")
    dropped = next(m for m in mutants(subject.spec, item) if m.name == "drops `lockers.free.remove(locker)`")
    sampled = killer.run(item, dropped)
    solved = Kill(dropped.label, item.name, dropped.line)
    killer.search(item, dropped, solved, {"free_lockers_are_listed"})
    for kill in (sampled, solved):
        assert kill.broken["free_lockers_are_listed"].startswith("take(person=")
        assert kill.mutant == "take: drops `lockers.free.remove(locker)`"


def test_an_action_that_is_not_changed_is_not_killed(make: Make) -> None:
    subject = make(LOCKERS).SUBJECT
    for name in ("take", "leave", "clear"):
        item = subject.spec.action(name)
        same = Mutant(name, "changes nothing", 1, item.function)
        killer = Killer(subject.spec, {"total": 2})
        kill = killer.run(item, same)
        killer.search(item, same, kill, set())
        assert kill.broken == {}


WRONG = '''
@step("L9")
def nothing_is_ever_taken(pre: Lockers, post: Lockers) -> Bool:
    """L9: broken by the action itself."""
    return post.taken <= pre.taken
'''


def test_what_an_action_breaks_itself_is_put_down_to_no_mutant(make: Make) -> None:
    """Only where a mutant does something else than the action, or where that is refused."""
    spec = make(with_more(WRONG)).SPEC
    item = spec.action("take")
    killer = Killer(spec, {"total": 2})
    assert killer.run(item, Mutant("take", "changes nothing", 1, item.function)).broken == {}
    found = {m.name: killer.run(item, m) for m in mutants(spec, item)}
    assert "nothing_is_ever_taken" in found["drops `lockers.person[locker] = person`"].broken
    anybody = found["drops `require(person > NOBODY)`"].broken
    assert anybody["nothing_is_ever_taken"].startswith("take(person=-1, ")


def test_well_definedness_is_asked_without_what_it_stands_for(make: Make) -> None:
    """The other claims assume the guards and well-definedness, which are what is assumed and no part of the claims."""
    spec = make(LOCKERS).SPEC
    killer, item = Killer(spec, {"total": 2}), spec.action("take")
    assumed, goals = killer.goals_for(item, spec)
    names = {claim.name for claim in [*spec.invariants, *spec.steps, *spec.ensures(item)]}
    assert {"is_well_defined", *names} <= set(goals)
    facts = [name for name, goal in goals.items() if any(goal is fact for fact in assumed)]
    assert facts == ["is_well_defined"]
    assert len(assumed) > 1


def test_claims_that_are_broken_already_need_no_breaking(make: Make) -> None:
    spec = make(LOCKERS).SPEC
    every = Killer(spec, {"total": 2}).missing
    assert {"only_the_person_can_leave", "take_batch/items_do_not_interfere"} <= every
    left = Killer(spec, {"total": 2}, broken=["only_the_person_can_leave", "free_lockers_are_listed"])
    assert left.missing == every - {"only_the_person_can_leave"}
    assert "only_the_person_can_leave" not in left.concerned(spec.action("leave"))


def test_what_is_declared_redundant_is_sampled_and_never_searched(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    doubled = planted(TWICE, TWICE + "    require(lockers.taken > 0)\n")
    excuse = '    redundant={"leave: *lockers.taken *0)`*": "follows"},\n    implied={\n'
    asked: dict[str, set[str]] = {"run": set(), "search": set()}

    def watch(name: str, whole: Any) -> Any:
        """Note which mutants are looked at."""
        return lambda self, item, mutant, *rest: asked[name].add(mutant.name) or whole(self, item, mutant, *rest)

    for name in asked:
        monkeypatch.setattr(Killer, name, watch(name, getattr(Killer, name)))
    redundant = "drops `require(lockers.taken > 0)`"
    tasks.control_task(make(doubled).SUBJECT, "leave")
    assert redundant in asked["run"] & asked["search"]
    for seen in asked.values():
        seen.clear()
    tasks.control_task(make(planted("    implied={\n", excuse, doubled)).SUBJECT, "leave")
    assert redundant in asked["run"] - asked["search"]


def test_the_guard_that_refuses_is_named_by_file_and_line(make: Make) -> None:
    made = make(LOCKERS)
    spec, text = made.SPEC, Path(made.__file__).read_text().splitlines()
    state = spec.initial(total=2)

    def guard(name: str, *arguments: Any) -> str:
        """The text of the guard that refuses; nothing where none does."""
        at = refusing(spec, spec.action(name), state, arguments)
        assert at is None or at[0] == made.__file__
        return "" if at is None else text[at[1] - 1].strip()

    assert guard("take", -1, 0) == "require(person > NOBODY)"
    assert guard("take", 0, 2) == "require(lockers.all(Locker).has(locker))"
    assert guard("leave", 0, 0) == TWICE.strip()
    assert guard("take", 0, 0) == ""
    assert state.key(ghosts=True) == spec.initial(total=2).key(ghosts=True)


def test_a_guard_of_what_an_action_performs_is_named_where_it_stands(make: Make) -> None:
    made = make(with_more(PERFORMS))
    at = refusing(made.SPEC, made.SPEC.action("go"), made.SPEC.initial(total=2), (0, 0))
    assert at is not None
    assert Path(at[0]).read_text().splitlines()[at[1] - 1] == TWICE.rstrip()


PERFORMS = '''
@action
def go(lockers: Lockers, person: Person, locker: Locker) -> None:
    """Somebody leaves."""
    perform(leave, lockers, person, locker)
'''


def test_outside_a_table_no_guard_refuses(make: Make) -> None:
    spec = make(planted("    require(lockers.all(Locker).has(locker))\n", "")).SPEC
    assert refusing(spec, spec.action("take"), spec.initial(total=1), (0, 7)) is None


def test_states_in_which_a_guard_refuses_are_found_a_step_from_those_in_which_none_does(make: Make) -> None:
    """Whoever has the locker has left it, one step on; a few such states are enough."""
    made = make(planted("Ghost[Map[Locker, Int]]", "Map[Locker, Int]"))
    spec, item, enabled = made.SPEC, made.SPEC.action("leave"), []
    for turns in range(9):
        state = spec.initial(total=1)
        state.turns[0] = turns
        enabled.append(run_action(spec, spec.action("take"), state, (1, 0)).after)
    found = controls._spoiled(spec, item, enabled, random.Random(0))
    assert 2 < len(found) <= controls.NEAR < len(enabled)
    for key, state in found.items():
        assert (key, state.taken, state.turns[0] > 0) == (state.key(), 0, True)
        guard = refusing(spec, item, state, (1, 0))
        assert guard is not None
        assert Path(guard[0]).read_text().splitlines()[guard[1] - 1] == TWICE.rstrip()
    assert controls._spoiled(spec, item, [], random.Random(0)) == {}


def test_such_states_are_sampled_too(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even where all the others were found on the first step of a walk."""
    spec = make(LOCKERS).SPEC
    monkeypatch.setattr(controls, "SAMPLES", 1)
    sampled = walk(spec, {"total": 1}, spec.action("take"))
    assert [state.taken for state in sampled] == [0, 1]


def test_the_solver_looks_only_for_what_it_is_asked_until_something_is_broken(make: Make) -> None:
    """A mutant that nothing has broken is searched for any claim; one that has, only for what is still aimed at."""
    subject = make(LOCKERS).SUBJECT
    killer, item = Killer(subject.spec, {"total": 2}), subject.spec.action("take")
    twice = next(m for m in mutants(subject.spec, item) if m.name == "`lockers.taken += 2` for `lockers.taken += 1`")
    nothing = Kill(twice.label, item.name, twice.line)
    killer.search(item, twice, nothing, set())
    assert "taken_lockers_are_counted" in nothing.broken
    known = Kill(twice.label, item.name, twice.line, {"something": "known"})
    killer.search(item, twice, known, set())
    assert known.broken == {"something": "known"}
    killer.search(item, twice, known, {"taken_lockers_are_counted"})
    assert "taken_lockers_are_counted" in known.broken


def test_sampled_states_are_reachable_different_and_the_same_every_time(make: Make) -> None:
    spec = make(LOCKERS).SPEC
    found = walk(spec, {"total": 3}, spec.action("leave"))
    keys = [state.key() for state in found]
    explorer = Explorer(spec, {"total": 3})
    explorer.run(check=False)
    assert len(set(keys)) == len(keys)
    assert 3 < len(keys) <= 27
    assert set(keys) <= set(explorer.parents)
    assert sum(state.taken > 0 for state in found) > 2  # there `leave` is enabled
    assert all(spec.violations(state) == [] for state in found)
    again = walk(spec, {"total": 3}, spec.action("leave"))
    assert [state.key(ghosts=True) for state in again] == [state.key(ghosts=True) for state in found]


def test_the_controls_of_the_initial_state_start_from_anything(make: Make) -> None:
    found = tasks.control_task(make(LOCKERS).SUBJECT, "")
    kills = {kill["mutant"]: kill["broken"] for kill in found["mutants"]}
    assert "a_new_set_of_lockers_is_free" in kills["create: drops `lockers.turns.relabel(lambda locker: 0)`"]
    assert set(found["shifted"]) == {item.name for item in make(LOCKERS).SPEC.invariants}


ILL = '''
@invariant("L9")
def the_next_is_free(lockers: Lockers) -> Bool:
    """L9: reads beyond the end once every locker is taken."""
    return implies(lockers.free.size == 0, lambda: lockers.use[Locker(7)] == Use.FREE)
'''


def test_an_ill_defined_invariant_is_refuted_and_stops_nothing(run: Run) -> None:
    report = run(with_more(ILL), only=("L9",))
    assert result(report, "lockers/invariant/the_next_is_free/is_well_defined").grade == REFUTED
    assert result(report, "lockers/take/preserves/the_next_is_free").grade != PROVED
    explored = next(r for r in report.obligations if r.kind == "explore")
    assert explored.note.startswith("the_next_is_free after take(person=0, locker=0); take(person=0, locker=1)")


def test_an_ill_defined_initial_state_is_refuted_and_stops_nothing(run: Run) -> None:
    report = run(
        planted("    lockers.taken = 0", "    lockers.taken = 0\n    lockers.use[Locker(5)] = Use.FREE"),
        only=("L1", "lockers/init/*"),
    )
    assert result(report, "lockers/init/is_well_defined").grade == REFUTED
    assert result(report, "lockers/take/preserves/free_lockers_are_listed").grade == UNKNOWN


def test_logic_in_a_binding_is_mutated_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bound.py").write_text(BOUND)
    monkeypatch.syspath_prepend(tmp_path)
    spec = importlib.import_module("bound").SPEC
    names = [mutant.name for mutant in mutants(spec, spec.action("bump"))]
    assert "`more = pool.n - 1` for `more = pool.n + 1`" in names
    assert not any(name.startswith("drops `more") for name in names)


BOUND = '''
from poolproof.spec.language import *


class Pool(State):
    """One number."""

    n: Int


@initial
def create(pool: Pool) -> None:
    """Zero."""
    pool.n = 0


@action
def bump(pool: Pool) -> None:
    """One more."""
    more = pool.n + 1
    require(pool.n < 3)
    pool.n = more


SPEC = Specification(name="bound", state=Pool, at_least={})
'''
