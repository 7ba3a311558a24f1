"""A run of the proofs: processes, patterns, the cache, a second solver, and a solver that gives up."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lockers_text import LOCKERS, planted, with_more

from poolproof.proofs import prove as proving
from poolproof.proofs import tasks
from poolproof.proofs.cache import Cache, cache_directory, digest
from poolproof.proofs.prove import Options, prove
from poolproof.proofs.results import PROVED, REFUTED, UNKNOWN, Report
from poolproof.proofs.second_opinion import ask_cvc5, core_of, second_opinion
from poolproof.proofs.smtlib import Printer
from poolproof.proofs.solver import LONG_LIMIT, SHORT_LIMIT, solve
from poolproof.proofs.subject import Subject, SubjectError, load
from poolproof.spec.language.symbolic import SymbolicMap, SymbolicRoster
from poolproof.spec.language.terms import Term, lift

Make = Callable[[str], Any]
Run = Callable[..., Report]

LEAVE = ("lockers/leave/preserves/*",)


def plain(report: Report) -> list[Any]:
    """What a run found, without the times and where they came from."""
    results = [(r.claim, r.grade, r.witness, r.twins, r.note, r.counterexample) for r in report.obligations]
    controls = [(c.name, c.action, c.broken) for c in [*report.mutants, *report.twins]]
    return [sorted(results, key=lambda r: r[0]), controls, report.failures]


# ------------------------------------------------------------------------------------------------------------ processes


@pytest.mark.parametrize(
    "text", [LOCKERS, planted("lockers.taken -= 1", "lockers.taken -= 2")], ids=["right", "faulty"]
)
def test_the_number_of_processes_changes_nothing(run: Run, make: Make, text: str) -> None:
    subject = make(text).SUBJECT
    assert plain(run(subject, jobs=2)) == plain(run(subject, jobs=1))


def test_the_order_in_which_work_is_done_changes_nothing(run: Run, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    subject = make(LOCKERS).SUBJECT
    forwards = plain(run(subject))
    original = proving._outcomes
    monkeypatch.setattr(proving, "_outcomes", lambda work, jobs: original(work[::-1], jobs))
    assert plain(run(subject)) == forwards


def test_a_subject_that_no_other_process_could_load_runs_in_one(make: Make) -> None:
    spec = make(LOCKERS).SPEC
    subject = Subject(spec, mutant_sizes=({"total": 1},), explore_sizes=({"total": 1},))
    with pytest.raises(
        SubjectError, match="lockers has no reference by which another process could load it; use jobs=1"
    ):
        prove([subject], Options(jobs=2, use_cache=False))
    assert len(prove([subject], Options(jobs=1, use_cache=False, only=LEAVE)).obligations) == 5


def test_progress_is_reported_to_the_end(run: Run) -> None:
    said: list[tuple[str, int, int]] = []
    run(LOCKERS, only=LEAVE, progress=lambda what, done, of: said.append((what, done, of)))
    assert [done for _, done, _ in said] == list(range(1, len(said) + 1))
    assert {of for _, _, of in said} == {len(said)}
    assert any("mutants of leave" in what for what, _, _ in said)


# ------------------------------------------------------------------------------------------------------------- patterns


@pytest.mark.parametrize(
    ("only", "expected"),
    [
        ((), 32),
        (("lockers/leave/*",), 7),
        (("*/preserves/taken_lockers_are_counted",), 3),
        (("taken_lockers_are_counted",), 4),
        (("L2",), 4),
        (("L3", "lockers/theorem/*"), 2),
        (("lockers/take_batch/*",), 3),
        (("lockers/init/is_well_defined",), 1),
    ],
)
def test_patterns_choose_claims_names_and_theorems(make: Make, only: tuple[str, ...], expected: int) -> None:
    subject = make(LOCKERS).SUBJECT
    chosen = proving.Run(subject, Options(only=only))
    assert len(chosen.obligations) == expected
    assert chosen.whole is (only == ())


@pytest.mark.parametrize("pattern", ["lockers/fly/*", "L7", "taken_lockers"])
def test_a_pattern_that_matches_nothing_is_loud(run: Run, pattern: str) -> None:
    with pytest.raises(SubjectError, match=r"matches no claim; give a glob such as .*: L1, I2, L2, L3, I4, L4, L5, L6"):
        run(LOCKERS, only=("lockers/leave/*", pattern))


def test_a_part_of_a_run_has_only_the_controls_that_it_needs(run: Run) -> None:
    report = run(LOCKERS, only=LEAVE)
    assert {c.action for c in report.mutants} == {"leave"}
    report = run(LOCKERS, only=("lockers/theorem/*",))
    assert {c.action for c in report.mutants} == {"init", "take", "leave", "clear"}


@pytest.mark.parametrize(
    ("ref", "message"),
    [
        ("lockers", "'lockers' is not of the form module:NAME"),
        ("no_such_module:SPEC", "cannot load 'no_such_module:SPEC'"),
        ("lockers_text:NOTHING", "cannot load 'lockers_text:NOTHING'"),
        ("lockers_text:LOCKERS", "'lockers_text:LOCKERS' is a str, neither a Specification nor a Subject"),
    ],
)
def test_a_reference_that_leads_nowhere_is_loud(ref: str, message: str) -> None:
    with pytest.raises(SubjectError, match=message):
        load(ref)


def test_a_bare_specification_gets_small_sizes(make: Make) -> None:
    made = make(LOCKERS)
    subject = load(f"{made.__name__}:SPEC")
    assert subject.explore_sizes == subject.mutant_sizes == ({"total": 3},)


# ---------------------------------------------------------------------------------------------------------------- cache


def stored() -> Path:
    return cache_directory() / "proofs.sqlite"


def test_a_second_run_comes_from_the_cache(run: Run, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    subject = make(LOCKERS).SUBJECT
    first = run(subject, use_cache=True)
    assert [r.claim for r in first.obligations if r.cached] == []
    for task in ("solve_task", "control_task", "explore_task"):
        monkeypatch.setattr(tasks, task, lambda *given: pytest.fail("the cache was not asked"))
    again = run(subject, use_cache=True)
    assert [r.claim for r in again.obligations if not r.cached] == []
    assert plain(again) == plain(first)


def test_without_the_cache_nothing_is_read_or_kept(run: Run, make: Make) -> None:
    subject = make(LOCKERS).SUBJECT
    run(subject, use_cache=False, only=LEAVE)
    assert not stored().exists()
    run(subject, use_cache=True, only=LEAVE)
    assert stored().exists()
    assert not any(r.cached for r in run(subject, use_cache=False, only=LEAVE).obligations)


def test_what_is_cached_depends_on_the_spec(run: Run) -> None:
    assert run(LOCKERS, use_cache=True, only=LEAVE).failures == []
    report = run(planted("lockers.taken -= 1", "lockers.taken -= 2"), use_cache=True, only=LEAVE)
    grades = {r.claim: (r.grade, r.cached) for r in report.obligations}
    assert grades["lockers/leave/preserves/taken_lockers_are_counted"] == (REFUTED, False)
    assert grades["lockers/leave/preserves/free_lockers_are_listed"] == (PROVED, True)
    assert grades["lockers/explore/total=2"] == (REFUTED, False)


def test_what_is_cached_depends_on_the_solver(run: Run, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    subject = make(LOCKERS).SUBJECT
    run(subject, use_cache=True, only=LEAVE)
    monkeypatch.setattr(proving, "solver_name", lambda: "z3 0.0.0")
    assert [r.claim for r in run(subject, use_cache=True, only=LEAVE).obligations if r.cached] == []


PARTS = '''\
"""What another module of a spec may hold: sorts, states and definitions."""

from __future__ import annotations

from poolproof.spec.language import *


class Step(Enumeration):
    """A direction."""

    UP = 0
    DOWN = 1


@define
def is_small(level: Int) -> Bool:
    """Is this a small number?"""
    return level < 3
'''

CLIMB = '''\
"""A spec that takes a definition from another module."""

from __future__ import annotations

from parts_of_a_spec import Step, is_small
from poolproof.proofs.subject import Subject
from poolproof.spec.language import *


class Ladder(State):
    """How high."""

    level: Int


@initial
def start(ladder: Ladder) -> None:
    """On the floor."""
    ladder.level = 0


@action
def climb(ladder: Ladder, way: Step) -> None:
    """One rung up."""
    require(is_small(ladder.level))
    require(way == Step.UP)
    ladder.level += 1


@invariant("K1")
def never_high(ladder: Ladder) -> Bool:
    """K1: not too high."""
    return ladder.level < 4


SPEC = Specification("ladder", Ladder, {})
SUBJECT = Subject(SPEC, mutant_sizes=({},), explore_sizes=({},), ref=f"{__name__}:SUBJECT")
'''


def test_what_is_cached_depends_on_the_modules_of_a_spec(run: Run, make: Callable[..., Any]) -> None:
    """The explorer and the controls read definitions of other modules: their text is part of the key."""
    make(PARTS, "parts_of_a_spec")
    first = run(make(CLIMB, "ladder_one").SUBJECT, use_cache=True)
    assert next(r for r in first.obligations if r.kind == "explore").doc.startswith("4 states")
    sys.modules.pop("parts_of_a_spec")
    make(PARTS.replace("level < 3", "level < 2"), "parts_of_a_spec")
    again = run(make(CLIMB, "ladder_two").SUBJECT, use_cache=True)
    assert next(r for r in again.obligations if r.kind == "explore").doc.startswith("3 states")
    sys.modules.pop("parts_of_a_spec")


@pytest.mark.parametrize("damage", ["garbage", "folder", "truncated", "other table", "no folder"])
def test_a_cache_that_is_of_no_use_costs_only_time(run: Run, make: Make, damage: str) -> None:
    subject = make(LOCKERS).SUBJECT
    folder = cache_directory()
    if damage == "no folder":
        folder.write_text("in the way")
    else:
        folder.mkdir()
    if damage == "garbage":
        stored().write_bytes(b"not a database " * 100)
    elif damage == "folder":
        stored().mkdir()
    elif damage == "truncated":
        run(subject, use_cache=True, only=LEAVE)
        stored().write_bytes(stored().read_bytes()[:5000])
    elif damage == "other table":
        with sqlite3.connect(stored()) as connection:
            connection.execute("create table verdicts (something text)")
    report = run(subject, use_cache=True, only=LEAVE)
    assert report.failures == []
    assert len(report.obligations) == 5


def test_a_garbage_cache_is_replaced(run: Run, make: Make) -> None:
    subject = make(LOCKERS).SUBJECT
    cache_directory().mkdir()
    stored().write_bytes(b"not a database " * 100)
    run(subject, use_cache=True, only=LEAVE)
    assert all(r.cached for r in run(subject, use_cache=True, only=LEAVE).obligations)


def test_a_cache_that_somebody_holds_is_left_alone() -> None:
    cache_directory().mkdir()
    with sqlite3.connect(stored()) as holder:
        holder.execute("create table verdicts (key text primary key, value text)")
        holder.execute("insert into verdicts values ('k', '[1]')")
    cache = Cache()
    assert cache.get("k") == [1]
    cache.close()


def test_a_value_that_is_not_json_is_a_miss() -> None:
    cache = Cache()
    cache.put("good", {"verdict": "unsat"})
    with sqlite3.connect(stored()) as connection:
        connection.execute("insert into verdicts values ('bad', '{')")
    assert (cache.get("good"), cache.get("bad"), cache.get("none")) == ({"verdict": "unsat"}, None, None)
    cache.close()
    assert cache.get("good") is None
    cache.put("good", 1)


def test_keys_tell_their_parts_apart() -> None:
    assert len({digest("a", "b"), digest("ab"), digest("b", "a"), digest("a", "b", ""), digest("a\0b")}) >= 4
    assert digest("a", "b") == digest("a", "b")


# ----------------------------------------------------------------------------------------------- a solver that gives up


def test_a_claim_that_the_solver_cannot_decide_is_unknown(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "SHORT_LIMIT", 50)
    monkeypatch.setattr(tasks, "LONG_LIMIT", 50)
    report = run(LOCKERS, only=("lockers/take/preserves/free_lockers_are_listed",))
    result = report.obligations[0]
    assert result.grade == UNKNOWN
    assert result.counterexample is None
    assert result.note
    assert not report.passed


def test_limits_are_counted_in_resources_not_in_time(make: Make) -> None:
    obligation = tasks.obligations_of(make(LOCKERS).SUBJECT)["lockers/take/preserves/free_lockers_are_listed"]
    spent = {solve(obligation.text, limit).resources for limit in (SHORT_LIMIT, LONG_LIMIT)}
    assert len(spent) == 1
    assert solve(obligation.text, 50).verdict == "unknown"


# ------------------------------------------------------------------------------------------------------ a second solver


def test_a_second_solver_agrees_on_what_is_true(make: Make) -> None:
    subject = make(LOCKERS).SUBJECT
    for claim in list(tasks.obligations_of(subject).values())[::4]:
        assert second_opinion(claim.text) == "unsat", claim.claim


def test_the_core_is_a_part_of_the_script(make: Make) -> None:
    text = tasks.obligations_of(make(LOCKERS).SUBJECT)["lockers/take/preserves/taken_lockers_are_counted"].text
    core = core_of(text)
    assert set(core.splitlines()) < set(text.splitlines())
    assert solve(core, SHORT_LIMIT).verdict == "unsat"


def test_a_second_solver_says_sat_of_what_is_false() -> None:
    script = "(set-logic ALL)\n(declare-fun |amount| () Int)\n(assert (not (< |amount| 5)))\n(check-sat)\n"
    assert ask_cvc5(script) == "sat"
    assert second_opinion(script) == "sat"


def test_a_second_solver_may_have_no_opinion(monkeypatch: pytest.MonkeyPatch) -> None:
    script = (
        "(set-logic ALL)\n(declare-fun f (Int) Int)\n(declare-fun a () Int)\n"
        "(assert (forall ((x Int)) (> (f (* x x)) (f x))))\n(assert (= (* a a a) (+ (f a) 77)))\n(check-sat)\n"
    )
    monkeypatch.setattr("poolproof.proofs.second_opinion.RESOURCE_LIMIT", 5)
    assert ask_cvc5(script) == "no second opinion"


def test_only_a_second_solver_that_disagrees_fails_the_run(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    only = ("lockers/leave/preserves/taken_lockers_are_counted",)
    said = {}
    for opinion in ("unsat", "no second opinion", "sat"):
        monkeypatch.setattr(tasks, "second_task", lambda claims, opinion=opinion: dict.fromkeys(claims, opinion))
        report = run(LOCKERS, only=only, second="cvc5")
        assert report.obligations[0].second == opinion
        said[opinion] = report.passed
    assert said == {"unsat": True, "no second opinion": True, "sat": False}


def test_a_second_solver_is_asked_about_every_claim(run: Run) -> None:
    report = run(LOCKERS, only=LEAVE, second="cvc5")
    assert {r.second for r in report.obligations if r.kind != "explore"} == {"unsat"}
    assert report.failures == []


# -------------------------------------------------------------------------------------------- a lowering that is broken


def broken_remove(self: SymbolicRoster, key: Any) -> None:
    """The last member takes the place, but its position still says where it was."""
    item = self._in_table(key)
    size, index = self.size, self.position(item)
    self._state.note(self._field, item, item)
    self._put_entry("member", index, self.member(size - 1))
    self._put_size(size - 1)


def broken_case(self: Printer, version: Any, key: str, env: dict[Any, str]) -> str:
    """A write on top of a table is not seen."""
    return self._read(version.parent, key, env)


def broken_relabel(self: SymbolicMap, to: Any, where: Any = None) -> None:
    """A bulk update reaches nothing."""


BROKEN = {
    "remove": (SymbolicRoster, "remove", broken_remove),
    "writes": (Printer, "_case", broken_case),
    "relabel": (SymbolicMap, "relabel", broken_relabel),
    "entries": (SymbolicMap, "__setitem__", lambda self, key, value: None),
    "order": (Term, "__lt__", lambda self, other: Term("<=", (self, lift(other, self.sort)), bool)),
}


@pytest.mark.parametrize(("owner", "method", "broken"), BROKEN.values(), ids=BROKEN)
def test_the_proofs_notice_a_broken_lowering(
    make: Make, owner: Any, method: str, broken: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject = make(LOCKERS).SUBJECT
    monkeypatch.setattr(owner, method, broken)
    claims = tasks.obligations_of(subject)
    verdicts = {
        claim: solve(o.text, SHORT_LIMIT).verdict
        for claim, o in claims.items()
        if "/preserves/" in claim or "/init/" in claim or "well_defined" in claim
    }
    assert set(verdicts.values()) != {"unsat"}


def test_a_claim_without_a_fault_in_the_lowering_is_proved(make: Make) -> None:
    claims = tasks.obligations_of(make(LOCKERS).SUBJECT)
    assert {solve(o.text, SHORT_LIMIT).verdict for o in claims.values()} == {"unsat"}


def test_a_subject_without_sizes_of_its_own_is_searched_all_the_same(make: Make) -> None:
    made = make(with_more(""))
    subject = Subject(make(planted("lockers.taken += 1", "lockers.taken += 2")).SPEC)
    claim = "lockers/take/preserves/taken_lockers_are_counted"
    said = tasks.solve_task(subject, {claim: tasks.obligations_of(subject)[claim].text})[claim]
    assert said["counterexample"]["call"] == "take(person=0, locker=0)"
    assert made.SPEC.name == "lockers"
