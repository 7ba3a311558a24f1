"""Every planted fault is refuted by a step that the run reading confirms, shown as a table, and saved as a test."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from lockers_text import LOCKERS, planted, with_more

from poolproof.proofs.counterexample import Counterexample, replay, save, state_from_plain
from poolproof.spec.language import SpecError

Decide = Callable[..., tuple[str, Counterexample | None]]


@dataclass(frozen=True)
class Fault:
    """A planted fault, the claim that refutes it, and what the table says.

    `because` is the violated conjunct, `step` the call; `mended` is the text without the fault.
    """

    text: str
    claim: str
    because: str
    step: str
    mended: str = LOCKERS


SWAP = '''
@action
def swap(lockers: Lockers, first: Locker, second: Locker) -> None:
    """A free locker and a taken one change places."""
    require(lockers.all(Locker).has(first))
    require(lockers.all(Locker).has(second))
    {guard}
    lockers.use[first] = Use.FREE
    lockers.use[second] = Use.TAKEN
    lockers.taken += {change}
'''
RIGHT_SWAP = SWAP.format(
    guard="require(and_(lockers.use[first] == Use.TAKEN, lockers.use[second] == Use.FREE))", change="0"
)
SAME_KEY_TWICE = SWAP.format(
    guard="require(lockers.use[second] == Use.FREE)", change="1 - ite(lockers.use[first] == Use.TAKEN, 1, 0)"
)
ONE_COUNTED = RIGHT_SWAP.replace("+= 0", "+= ite(lockers.use[first] == Use.FREE, 0, -1)").replace(
    "first] == Use.TAKEN, ", "first] == Use.FREE, "
)

EVICT = '''
@action
def evict(lockers: Lockers, person: Person) -> None:
    """All lockers of one person are free."""
    require(person > NOBODY)
    lockers.use.relabel(lambda l: Use.FREE, where=lambda l: {whose})
    lockers.person.relabel(lambda l: NOBODY, where=lambda l: {whose})
    lockers.free.fill(Locker(0), lockers.total)
    lockers.taken = {left}
'''

EDGE = '''
@invariant("L9")
def the_next_locker_is_free(lockers: Lockers) -> Bool:
    """L9: made up."""
    return forall(lockers.all(Locker), lambda l: or_({guard}lambda: lockers.use[l + 1] != Use.FREE, True))
'''

FAULTS = {
    "an effect is missing": Fault(
        planted("    lockers.free.remove(locker)\n", ""),
        "lockers/take/preserves/free_lockers_are_listed",
        "l=0: iff(lockers.free.has(l), lockers.use[l] == Use.FREE)",
        "take(person=0, locker=0)",
    ),
    "a count is off by one": Fault(
        planted("lockers.taken += 1", "lockers.taken += 2"),
        "lockers/take/preserves/taken_lockers_are_counted",
        "counts(lockers.taken, lockers.all(Locker), lambda l: lockers.use[l] == Use.TAKEN)",
        "take(person=0, locker=0)",
    ),
    "a guard is missing": Fault(
        planted("    require(person > NOBODY)\n", ""),
        "lockers/take/preserves/exactly_the_taken_lockers_have_a_person",
        "l=0: ite(lockers.use[l] == Use.TAKEN, lambda: lockers.person[l] > NOBODY, lambda: lockers.person[l] ==",
        "take(person=-1, locker=0)",
    ),
    "a guard that only well-definedness sees": Fault(
        planted("    require(lockers.use[locker] == Use.FREE)\n", ""),
        "lockers/take/is_well_defined",
        "0 is not a member",
        "take(person=0, locker=0)",
    ),
    "an id that is not checked": Fault(
        planted("    require(lockers.all(Locker).has(locker))\n", ""),
        "lockers/take/is_well_defined",
        "outside a table of 1 entries",
        "take(",
    ),
    "anybody may give back": Fault(
        planted("    require(lockers.person[locker] == person)\n", ""),
        "lockers/leave/ensures/a_leave_frees_the_locker",
        "pre.person[locker] == person",
        "leave(",
    ),
    "anybody may give back, as a theorem": Fault(
        planted("    require(lockers.person[locker] == person)\n", ""),
        "lockers/theorem/only_the_person_can_leave",
        "not_(enabled(leave, lockers, person, locker))",
        "for only_the_person_can_leave(",
    ),
    "a step claim breaks": Fault(
        planted("    lockers.turns[locker] += 1\n    lockers.free", "    lockers.free"),
        "lockers/leave/step/a_change_of_hands_goes_through_free",
        "l=0: or_(and_(post.person[l] == pre.person[l]",
        "leave(",
    ),
    "a bulk update reaches too far": Fault(
        planted("    lockers.person[locker] = NOBODY\n", "    lockers.person.relabel(lambda l: NOBODY)\n"),
        "lockers/leave/ensures/a_leave_frees_the_locker",
        "or_(l == locker, and_(pre.use[l] == post.use[l]",
        "leave(",
    ),
    "a bulk update where it must not": Fault(
        planted("where=lambda l: lockers.use[l] == Use.TAKEN", "where=lambda l: lockers.use[l] != Use.TAKEN"),
        "lockers/clear/ensures/a_clear_frees_everything",
        "l=0: or_(pre.use[l] == Use.TAKEN, pre.turns[l] == post.turns[l])",
        "clear()",
    ),
    "a bulk update with the old count": Fault(
        planted("    lockers.taken = 0\n\n\ntake_batch", "    lockers.taken = lockers.taken\n\n\ntake_batch"),
        "lockers/clear/preserves/taken_lockers_are_counted",
        "counts(lockers.taken",
        "clear()",
    ),
    "the initial state is wrong": Fault(
        planted("    lockers.free.fill(Locker(0), lockers.total)", "    lockers.free.fill(Locker(1), lockers.total)"),
        "lockers/init/establishes/free_lockers_are_listed",
        "l=0: iff(lockers.free.has(l), lockers.use[l] == Use.FREE)",
        "create()",
    ),
    "the initial count is wrong": Fault(
        planted("    lockers.taken = 0", "    lockers.taken = 1"),
        "lockers/init/establishes/taken_lockers_are_counted",
        "counts(lockers.taken",
        "create()",
    ),
    "the initial state keeps what was there": Fault(
        planted("    lockers.turns.relabel(lambda locker: 0)\n", ""),
        "lockers/init/ensures/a_new_set_of_lockers_is_free",
        "l=0: post.turns[l] == 0",
        "create()",
    ),
    "the initial state writes outside": Fault(
        planted("    lockers.taken = 0", "    lockers.taken = 0\n    lockers.use[Locker(3)] = Use.FREE"),
        "lockers/init/is_well_defined",
        "write at 3, outside a table of 1 entries",
        "create()",
    ),
    "a theorem is false": Fault(
        planted("and_(person > NOBODY, lockers.free.size > 0)", "and_(person > NOBODY, lockers.free.size >= 0)"),
        "lockers/theorem/a_free_locker_can_be_taken",
        "exists(lockers.all(Locker), lambda locker: enabled(take, lockers, person, locker)",
        "for a_free_locker_can_be_taken(person=0)",
    ),
    "a theorem reads outside": Fault(
        planted("            not_(lockers.all(Locker).has(locker)),\n", ""),
        "lockers/theorem/only_the_person_can_leave",
        "outside a table of 1 entries",
        "for only_the_person_can_leave(",
    ),
    "an ensures is false": Fault(
        planted("        post.person[locker] == person,", "        post.person[locker] == NOBODY,"),
        "lockers/take/ensures/a_take_gives_the_locker",
        "post.person[locker] == NOBODY",
        "take(person=0, locker=0)",
    ),
    "a step claim is false": Fault(
        planted("post.turns[l] == pre.turns[l] + 1),", "post.turns[l] == pre.turns[l] + 2),"),
        "lockers/clear/step/a_change_of_hands_goes_through_free",
        "l=0: or_(and_(post.person[l] == pre.person[l]",
        "clear()",
    ),
    "an invariant is false": Fault(
        planted("lockers.use[l] == Use.FREE))", "lockers.use[l] == Use.TAKEN))"),
        "lockers/init/establishes/free_lockers_are_listed",
        "l=0: iff(lockers.free.has(l), lockers.use[l] == Use.TAKEN)",
        "create()",
    ),
    "an invariant reads outside": Fault(
        with_more(EDGE.format(guard="")),
        "lockers/invariant/the_next_locker_is_free/is_well_defined",
        "read at 1, outside a table of 1 entries",
        "",
        with_more(EDGE.format(guard="not_(lockers.all(Locker).has(l + 1)), ")),
    ),
    "items of a batch interfere": Fault(
        planted("    lockers.use[locker] = Use.TAKEN\n", "    lockers.use.relabel(lambda l: Use.TAKEN)\n"),
        "lockers/take_batch/items_do_not_interfere",
        "I4: take_batch: items do not interfere.",
        "for take_batch/items_do_not_interfere(",
    ),
    "a repeated item passes": Fault(
        planted("    lockers.use[locker] = Use.TAKEN\n", ""),
        "lockers/take_batch/a_repeated_item_is_refused",
        "I2: take_batch: a repeated item is refused.",
        "for take_batch/a_repeated_item_is_refused(",
    ),
    "a bad item becomes good": Fault(
        planted("    lockers.use[locker] = Use.TAKEN\n", "    lockers.use.relabel(lambda l: Use.FREE)\n"),
        "lockers/take_batch/a_bad_item_stays_bad",
        "I4: take_batch: a bad item stays bad.",
        "for take_batch/a_bad_item_stays_bad(",
    ),
    "one key is written twice": Fault(
        with_more(SAME_KEY_TWICE),
        "lockers/swap/preserves/taken_lockers_are_counted",
        "counts(lockers.taken",
        "swap(",
        with_more(RIGHT_SWAP),
    ),
    "one of two writes is not counted": Fault(
        with_more(ONE_COUNTED),
        "lockers/swap/preserves/taken_lockers_are_counted",
        "counts(lockers.taken",
        "swap(",
        with_more(RIGHT_SWAP),
    ),
    "a bulk update that is not counted": Fault(
        with_more(EVICT.format(left="lockers.taken - 1", whose="lockers.person[l] == person")),
        "lockers/evict/preserves/taken_lockers_are_counted",
        "counts(lockers.taken",
        "evict(person=",
        with_more(EVICT.format(left="0", whose="person > NOBODY")),
    ),
}


def test_the_spec_without_faults_is_decided(decide: Decide) -> None:
    for claim in {fault.claim for fault in FAULTS.values() if fault.mended is LOCKERS}:
        assert decide(LOCKERS, claim) == ("unsat", None), claim


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_fault_is_refuted_with_a_table(decide: Decide, fault: Fault) -> None:
    verdict, found = decide(fault.text, fault.claim)
    assert (verdict, found is None) == ("sat", False)
    assert found is not None
    assert found.claim == fault.claim
    assert fault.because in found.conjunct
    assert fault.step in found.call
    table = found.table().splitlines()
    assert f"because:  {found.conjunct}" in table
    assert next(line for line in table if line.startswith("violated: ")).endswith(", ".join(found.violated))
    about = "/".join(fault.claim.split("/")[-2:])
    assert {about, about.split("/")[1], about.split("/")[0]} & set(found.violated)
    if found.after is not None and found.after != found.before:
        assert any("->" in line for line in table[1:])


@pytest.mark.parametrize("fault", [f for f in FAULTS.values() if f.mended is not LOCKERS], ids=lambda f: f.claim)
def test_without_the_fault_there_is_no_counterexample(decide: Decide, fault: Fault) -> None:
    assert decide(fault.mended, fault.claim) == ("unsat", None)


KEYWORDS = '''
@define
def is_small(lockers: Lockers, bound: Int) -> Bool:
    """A definition that is called by keyword."""
    return lockers.taken < bound


@invariant("L9")
def few_are_taken(lockers: Lockers) -> Bool:
    """L9: false."""
    return and_(
        lockers.taken >= 0,
        forall(domain=lockers.all(Locker), body=lambda l: is_small(lockers, bound=1)),
    )
'''


def test_a_claim_written_with_keywords_is_explained_as_far_as_it_goes(decide: Decide) -> None:
    verdict, found = decide(with_more(KEYWORDS), "lockers/take/preserves/few_are_taken")
    assert verdict == "sat"
    assert found is not None
    assert found.conjunct == "forall(domain=lockers.all(Locker), body=lambda l: is_small(lockers, bound=1))"


def pytest_on(folder: Path) -> tuple[int, str]:
    """Run pytest on a folder of saved tests, as a user would."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), str(folder)]
    done = subprocess.run(command, cwd=folder.parent, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_saved_counterexamples_fail_until_the_fault_is_mended(decide: Decide, make: Any, tmp_path: Path) -> None:
    tests, modules = tmp_path / "saved", []
    faults = list(FAULTS.values())[::3]
    for number, fault in enumerate(faults):
        made = make(fault.text, f"faulty_{number}")
        _, found = decide_loaded(made, fault.claim)
        assert found is not None
        kept = save(found, tests / str(number))
        kept.rename(kept.with_name(f"test_{number}.py"))
        kept.with_suffix(".json").rename(kept.with_name(f"test_{number}.json"))
        modules.append((tmp_path / f"faulty_{number}.py", fault.mended))
    code, said = pytest_on(tests)
    assert code == 1, said
    assert f"{len(faults)} failed" in said
    assert "passed" not in said
    assert "violated: " in said
    assert "because:  counts(lockers.taken" in said
    for path, mended in modules:
        path.write_text(mended)
    code, said = pytest_on(tests)
    assert code == 0, said
    assert f"{len(faults)} passed" in said


def decide_loaded(module: Any, claim: str) -> tuple[str, Counterexample | None]:
    """As `decide`, for a module that is imported already."""
    from poolproof.proofs import tasks

    subject = module.SUBJECT
    said = tasks.solve_task(subject, {claim: tasks.obligations_of(subject)[claim].text})[claim]
    return said["verdict"], Counterexample(**said["counterexample"]) if said["counterexample"] else None


# ----------------------------------------------------------------------------------------------------- saved by hand


@pytest.fixture
def saved(make: Any, tmp_path: Path) -> Path:
    """The JSON of a counterexample."""
    fault = FAULTS["an effect is missing"]
    _, found = decide_loaded(make(fault.text), fault.claim)
    assert found is not None
    return save(found, tmp_path / "saved").with_suffix(".json")


def test_a_saved_counterexample_is_replayed(saved: Path) -> None:
    found = replay(saved)
    assert found is not None
    assert found.table() == Counterexample(**json.loads(saved.read_text())).table()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda plain: plain | {"version": 2}, "expected poolproof-counterexample version 1, got .* 2"),
        (lambda plain: plain | {"format": "trace"}, "expected poolproof-counterexample version 1, got trace 1"),
        (lambda plain: plain | {"before": {"total": 1}}, "the saved state does not fit Lockers"),
        (lambda plain: plain | {"before": plain["before"] | {"use": ["LOST"]}}, "the saved state does not fit Lockers"),
        (lambda plain: plain | {"claim": "lockers/theorem/gone", "arguments": {}}, "lockers has no claim"),
    ],
)
def test_a_file_that_is_no_counterexample_is_loud(saved: Path, change: Callable[[Any], Any], message: str) -> None:
    saved.write_text(json.dumps(change(json.loads(saved.read_text()))))
    with pytest.raises(SpecError, match=message):
        replay(saved)


def test_a_file_that_is_not_json_is_loud(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("no")
    with pytest.raises(SpecError, match="not a saved counterexample"):
        replay(tmp_path / "x.json")
    with pytest.raises(SpecError, match="not a saved counterexample"):
        replay(tmp_path / "missing.json")


def test_a_state_survives_being_plain(make: Any) -> None:
    made = make(LOCKERS)
    state = made.SPEC.initial(total=3)
    made.take(state, 1, 2)
    again = state_from_plain(made.Lockers, json.loads(json.dumps(state.plain())))
    assert again.plain() == state.plain()
    assert again.key(ghosts=True) == state.key(ghosts=True)
    made.leave(again, 1, 2)
    assert made.SPEC.violations(again) == []
