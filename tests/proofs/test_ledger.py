"""The committed ledger is what the code gives."""

from __future__ import annotations

import copy
import os

import pytest

from poolproof.proofs import ledger
from poolproof.proofs.prove import Options, prove
from poolproof.proofs.results import Report
from poolproof.proofs.subject import SHIPPED

pytestmark = pytest.mark.timeout(1500)  # all proofs and their controls, beside other tests


@pytest.fixture(scope="module")
def report(whole_run: None) -> Report:
    """A whole run of the shipped proofs."""
    return prove(options=Options(jobs=os.cpu_count() or 1))


def test_everything_that_ships_is_proved(report: Report) -> None:
    assert report.failures == []
    assert {r.grade for r in report.obligations if r.kind not in ("explore", "cases")} == {"PROVED"}
    assert {r.grade for r in report.obligations if r.kind == "cases"} == {"EXHAUSTED"}
    explored = {(r.module, r.grade) for r in report.obligations if r.kind == "explore"}
    too_large = {"schedule", "checkpoint"}
    assert explored == {(name, "EXPLORED" if name in too_large else "EXHAUSTED") for name in SHIPPED}


def test_every_claim_has_a_witness_and_a_twin(report: Report) -> None:
    assert [r.claim for r in report.obligations if not r.witness or not r.twins] == []


def test_the_ledger_is_current(report: Report) -> None:
    assert ledger.differences(ledger.read(), report) == []


def test_the_ledger_has_no_times() -> None:
    kept = {key for claim in ledger.read()["claims"].values() for key in claim}
    assert kept == {"grade", "solver", "theorems", "witness", "twins"}


def test_a_changed_claim_shows(report: Report) -> None:
    stale = copy.deepcopy(ledger.read())
    name = next(iter(stale["claims"]))
    stale["claims"][name]["grade"] = "EXPLORED"
    del stale["twins"]["slots/free_marks_later"]
    stale["mutants"]["slots/free"]["mutants"] += 1
    shown = "\n".join(ledger.differences(stale, report))
    assert name in shown
    assert "slots/free_marks_later is not in the ledger" in shown
    assert "mutants: slots/free" in shown
