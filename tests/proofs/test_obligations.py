"""The obligations: none is missing, none has another's name, and their text depends on the spec alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from granary_text import ESTATE, GRANARY
from lockers_text import LOCKERS, planted, with_more
from z3 import Z3Exception

from poolproof.proofs.obligations import Generator, none_or_all, symbolic_fact
from poolproof.proofs.smtlib import Printer, literal, script, with_witnesses
from poolproof.proofs.solver import SHORT_LIMIT, solve, solve_each
from poolproof.spec.language import SpecError
from poolproof.spec.language.terms import FALSE, TRUE, Term
from poolproof.spec.slots import SPEC, Owner

Make = Callable[[str], Any]

LIMIT = 300_000


def claims(spec: Any) -> dict[str, Any]:
    return {o.claim: o for o in Generator(spec).all()}


def test_nothing_is_listed_by_hand(make: Make) -> None:
    spec = make(LOCKERS).SPEC
    invariants = [item.name for item in spec.invariants]
    expected: set[str] = set()  # the invariants read no table but at the ids that they range over
    for action in ("take", "leave", "clear"):
        expected |= {f"lockers/{action}/preserves/{name}" for name in [*invariants, "free_is_a_bijection"]}
        expected |= {f"lockers/{action}/is_well_defined", f"lockers/{action}/step/a_change_of_hands_goes_through_free"}
    expected |= {f"lockers/init/establishes/{name}" for name in [*invariants, "free_is_a_bijection"]}
    expected |= {"lockers/init/is_well_defined", "lockers/init/ensures/a_new_set_of_lockers_is_free"}
    expected |= {
        "lockers/take/ensures/a_take_gives_the_locker",
        "lockers/leave/ensures/a_leave_frees_the_locker",
        "lockers/clear/ensures/a_clear_frees_everything",
        "lockers/theorem/only_the_person_can_leave",
        "lockers/theorem/a_free_locker_can_be_taken",
        "lockers/take_batch/items_do_not_interfere",
        "lockers/take_batch/a_repeated_item_is_refused",
        "lockers/take_batch/a_bad_item_stays_bad",
    }
    assert set(claims(spec)) == expected


def test_every_item_of_the_slots_spec_is_in_some_obligation() -> None:
    about = {o.about for o in claims(SPEC).values()}
    ensured = [claim for item in [SPEC.initializer, *SPEC.actions] for claim in SPEC.ensures(item)]
    assert {item.name for item in [*SPEC.invariants, *SPEC.theorems, *SPEC.steps, *ensured]} <= about
    acted = {o.action for o in claims(SPEC).values()}
    assert acted == {"", *(item.name for item in SPEC.actions)}


def test_a_claim_that_reads_nothing_written_is_a_frame(make: Make) -> None:
    more = '''
@action
def tidy(lockers: Lockers, locker: Locker) -> None:
    """Only a ghost changes."""
    require(lockers.all(Locker).has(locker))
    require(lockers.use[locker] == Use.TAKEN)
    lockers.turns[locker] += 1
'''
    found = {o.about: o.frame for o in claims(make(with_more(more)).SPEC).values() if o.action == "tidy"}
    assert found.pop("is_well_defined") is False
    assert found.pop("a_change_of_hands_goes_through_free") is False
    assert set(found.values()) == {True}


def test_two_obligations_never_share_a_name(make: Make) -> None:
    """An invariant named as the structural one of a roster would hide it."""
    text = planted("def free_lockers_are_listed", "def free_is_a_bijection")
    with pytest.raises(SpecError, match=r"two obligations have one name: .*/preserves/free_is_a_bijection"):
        Generator(make(text).SPEC).all()


def test_the_text_depends_on_the_spec_alone(make: Make) -> None:
    spec = make(LOCKERS).SPEC
    first = {claim: o.text for claim, o in claims(spec).items()}
    again = {o.claim: o.text for o in reversed(Generator(spec).all())}
    other = {claim: o.text for claim, o in claims(make(LOCKERS).SPEC).items()}
    assert first == again == other
    changed = {claim: o.text for claim, o in claims(make(planted("+= 1", "+= 2")).SPEC).items()}
    assert {claim for claim in first if first[claim] != changed[claim]} == {
        claim for claim in first if claim == "lockers/take/preserves/taken_lockers_are_counted"
    }


def test_names_that_mean_something_to_a_solver_are_good_names(make: Make) -> None:
    names = "(lockers: Lockers, {}: Person, {}: Locker)"
    text = planted("def leave" + names.format("person", "locker"), "def leave" + names.format("let", "select"))
    body = text[text.index("def leave(") : text.index("@action\ndef clear")]
    renamed = body.replace("[locker]", "[select]").replace("(locker)", "(select)").replace("== person", "== let")
    spec = make(text.replace(body, renamed)).SPEC
    verdicts = {solve(o.text, SHORT_LIMIT).verdict for o in claims(spec).values() if o.action == "leave"}
    assert verdicts == {"unsat"}


@pytest.mark.parametrize("action", [SPEC.initializer, *SPEC.actions], ids=lambda item: item.name)
def test_the_hypotheses_of_the_slots_spec_do_not_contradict_each_other(action: Any) -> None:
    generator = Generator(SPEC)
    guards = generator.read(action).trace.guards
    facts = [symbolic_fact(term) for term in [*generator.known, *guards]]
    assert solve(script(Printer(), facts, {"nothing": FALSE}), LIMIT).verdict != "unsat"
    bounded = script(Printer({"total": 3}), [*generator.known, *guards], {"nothing": FALSE})
    assert solve(bounded, SHORT_LIMIT).verdict == "sat"


# ------------------------------------------------------------------------------------------ components and given fields

LISTED = '''
@invariant("E1")
def kept_places_are_not_listed(estate: Estate) -> Bool:
    """E1: it reads a roster of the component."""
    return forall(
        estate.all(Farmer),
        lambda f: forall(
            estate.kept[f],
            lambda k, i: or_(not_(is_place(estate.granary, k, i)), lambda: not_(estate.granary.free[k].has(i))),
        ),
    )


@theorem("E2")'''


@pytest.fixture
def estate(make: Make) -> Any:
    """A product over a granary, whose invariants it inherits."""
    text = planted('@theorem("E2")', LISTED.lstrip(), ESTATE)
    return make(text.replace("GRANARY_MODULE", make(GRANARY).__name__))


def test_what_a_component_keeps_is_known_and_not_to_be_shown(estate: Any) -> None:
    generator = Generator(estate.SPEC)
    inherited = len(estate.GRANARY_SPEC.invariants)
    assert len(generator.inherited) == inherited + 1  # and that the rosters of the table are bijections
    assert all(any(term is known for known in generator.known) for term in generator.inherited)
    own = {item.name for item in [*estate.SPEC.invariants, *estate.SPEC.theorems]}
    ensured = {
        claim.name for item in [estate.SPEC.initializer, *estate.SPEC.actions] for claim in estate.SPEC.ensures(item)
    }
    assert {o.about for o in generator.all()} == {*own, *ensured, "is_well_defined"}


def test_a_claim_that_reads_a_roster_of_a_component_is_no_frame_where_it_changes(estate: Any) -> None:
    found = {o.action: o.frame for o in claims(estate.SPEC).values() if o.about == "kept_places_are_not_listed"}
    assert found == {"": False, "deliver": False, "collect": False, "settle": True}
    dues = {o.action: o.frame for o in claims(estate.SPEC).values() if o.about == "nobody_is_owed"}
    assert dues == {"": False, "deliver": False, "collect": True, "settle": False}


def test_an_invariant_over_both_is_proved_with_what_the_component_keeps(estate: Any) -> None:
    for claim, obligation in claims(estate.SPEC).items():
        assert solve(obligation.text, LIMIT).verdict == "unsat", claim


@pytest.mark.parametrize("part", ["SPEC", "GRANARY_SPEC"])
def test_hypotheses_with_given_fields_do_not_contradict_each_other(estate: Any, part: str) -> None:
    spec = getattr(estate, part)
    sizes = estate.SMALL if part == "GRANARY_SPEC" else estate.sized(estate.SMALL)
    generator = Generator(spec)
    for item in [spec.initializer, *spec.actions]:
        guards = generator.read(item).trace.guards
        facts = [symbolic_fact(term) for term in [*generator.known, *guards]]
        assert solve(script(Printer(), facts, {"nothing": FALSE}), LIMIT).verdict != "unsat"
        bounded = script(Printer(sizes), [*generator.known, *guards], {"nothing": FALSE})
        assert solve(bounded, SHORT_LIMIT).verdict == "sat"


def test_an_assumption_is_a_hypothesis_of_everything(make: Make) -> None:
    """Without it a weight may be below zero, and with it a product inherits it."""
    bare = planted("lambda k: granary.weight[k] > 0)", "lambda k: granary.weight[k] > -1)", GRANARY)
    made = make(ESTATE.replace("GRANARY_MODULE", make(bare).__name__))
    verdicts = {claim: solve(o.text, LIMIT).verdict for claim, o in claims(made.SPEC).items() if o.action == "deliver"}
    assert {claim for claim, verdict in verdicts.items() if verdict != "unsat"} == {
        "estate/deliver/ensures/a_delivery_is_kept"
    }


# ---------------------------------------------------------------------------------------------------------- witnesses


def number(value: int) -> Term:
    return Term("lit", (value,), int)


VARIABLE = Term("var", (-1,), int)
SOME = Term("exists", (VARIABLE, number(0), number(9), VARIABLE == 5, TRUE), bool)


def has_quantifier(term: Term) -> bool:
    return "exists" in Printer().term(term)


@pytest.mark.parametrize(
    ("term", "kept"),
    [
        (SOME, False),
        (Term("not", (SOME,), bool), True),
        (Term("not", (Term("not", (SOME,), bool),), bool), False),
        (Term("and", (SOME, FALSE), bool), False),
        (Term("or", (SOME, FALSE), bool), False),
        (Term("=>", (SOME, FALSE), bool), True),
        (Term("=>", (FALSE, SOME), bool), False),
        (Term("=", (SOME, FALSE), bool), True),
        (Term("ite", (FALSE, SOME, FALSE), bool), True),
        (Term("forall", (Term("var", (-2,), int), number(0), number(2), SOME), bool), False),
    ],
)
def test_a_witness_stands_in_only_where_it_makes_the_goal_harder(term: Term, kept: bool) -> None:
    assert has_quantifier(with_witnesses(term)) is kept


def test_a_witness_that_is_none_does_not_prove_the_claim(make: Make) -> None:
    wrong = planted("witness=lambda: lockers.free.pick(),", "witness=lambda: Locker(0),")
    verdict = solve(claims(make(wrong).SPEC)["lockers/theorem/a_free_locker_can_be_taken"].text, LIMIT).verdict
    assert verdict != "unsat"


# ------------------------------------------------------------------------------------------------------------- counts


@pytest.mark.parametrize(
    ("low", "high", "counter", "true"), [(0, 3, 3, True), (0, 3, 0, False), (3, 0, -3, False), (3, 0, 0, True)]
)
def test_all_or_nothing_is_about_ranges_that_exist(low: int, high: int, counter: int, true: bool) -> None:
    everything = Term("counts", (number(counter), VARIABLE, number(low), number(high), VARIABLE >= -99), bool)
    for goal in (none_or_all(everything), everything):
        printer = Printer({}) if goal.op == "counts" else Printer()
        assert (solve(script(printer, [], {"goal": goal}), LIMIT).verdict == "unsat") is true


# ------------------------------------------------------------------------------------------------------------- solver


def test_values_of_every_sort_are_read_from_a_model() -> None:
    printer = Printer()
    kind, level, flag = Term("param", ("kind",), Owner), Term("param", ("level",), int), Term("param", ("flag",), bool)
    facts = [kind == Owner.CACHE, level == -7, flag]
    said = solve(script(printer, facts, {"nothing": FALSE}), LIMIT)
    assert said.model is not None
    values = [said.model.value(printer.term(term).strip("|")) for term in (kind, level, flag)]
    assert values == ["Owner.CACHE", -7, True]
    assert said.model.value("missing") is None
    assert literal(-7) == "(- 7)"


def test_goals_behind_switches_are_decided_one_by_one() -> None:
    level = Term("param", ("level",), int)
    goals = {"big": level > 3, "bigger": level > 9, "odd": Term("not", (level == 6,), bool)}
    text = script(Printer(), [level > 5], goals)
    answers = {name: answer.verdict for name, answer in dict(solve_each(text, list(goals), LIMIT)).items()}
    assert answers == {"big": "unsat", "bigger": "sat", "odd": "sat"}


def test_text_that_is_no_script_is_loud() -> None:
    with pytest.raises(Z3Exception, match="error"):
        solve("(assert (no such thing", LIMIT)
