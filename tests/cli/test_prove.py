"""`poolproof prove` as a user meets it: output, files, exit codes, wrong use."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., subprocess.CompletedProcess[str]]

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
SLOTS = ("--spec", "poolproof.proofs.slots:SUBJECT")


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """A folder with the worked example of the docs."""
    shutil.copy(EXAMPLES / "pins.py", tmp_path)
    return tmp_path


def run_test(test: Path) -> subprocess.CompletedProcess[str]:
    """Run one saved test beside the example."""
    command = [sys.executable, "-m", "pytest", "-q", str(test)]
    return subprocess.run(command, cwd=test.parents[1], capture_output=True, text=True)


def test_one_line_an_obligation_and_a_verdict(poolproof: Command, tmp_path: Path) -> None:
    out = poolproof("prove", "--only", "slots/clear/ensures/*", cwd=tmp_path).stdout
    assert re.search(r"^slots/clear/ensures/a_clear_restores_the_initial_state +PROVED ", out, re.M)
    assert out.splitlines()[-1].startswith("passed: 2 PROVED, 1 EXHAUSTED")


def test_json_is_one_object_with_the_promised_keys(poolproof: Command, tmp_path: Path) -> None:
    report = json.loads(poolproof("prove", *SLOTS, "--only", "I25", "--json", cwd=tmp_path).stdout)
    assert report["verdict"] == "passed"
    first = report["obligations"][0]
    assert {"claim", "grade", "module", "seconds", "witness", "twins"} <= set(first)
    assert first["grade"] == "PROVED"
    assert first["witness"]
    assert first["twins"]


def test_only_takes_globs_names_and_theorems(poolproof: Command, tmp_path: Path) -> None:
    for pattern in ("slots/open_group/*", "opening_a_group_changes_no_slot", "I25"):
        report = json.loads(poolproof("prove", *SLOTS, "--only", pattern, "--json", cwd=tmp_path).stdout)
        assert report["obligations"]


def test_an_unknown_pattern_is_wrong_use(poolproof: Command, tmp_path: Path) -> None:
    said = poolproof("prove", "--only", "no/such/claim", cwd=tmp_path, status=2).stderr
    assert "no/such/claim" in said
    assert "I21" in said


def test_junit_has_a_case_for_each_claim_and_control(poolproof: Command, tmp_path: Path) -> None:
    poolproof("prove", *SLOTS, "--only", "I25", "--junit", "out/report.xml", cwd=tmp_path)
    suite = ET.parse(tmp_path / "out" / "report.xml").getroot()
    names = [case.get("name") for case in suite]
    assert "slots/clear/ensures/a_clear_restores_the_initial_state" in names
    assert any(name is not None and name.startswith("control: ") for name in names)
    assert (suite.get("failures"), suite.get("errors")) == ("0", "0")


def test_a_faulty_spec_is_refuted_shown_and_saved(poolproof: Command, example: Path) -> None:
    done = poolproof("prove", "--spec", "pins:FAULTY", "--junit", "report.xml", cwd=example, status=1)
    assert "violated: pins_are_never_negative" in done.stdout
    assert "because:  page=0: pool.pins[page] >= 0" in done.stdout
    assert "reproduce: poolproof prove --spec pins:FAULTY" in done.stdout
    assert int(ET.parse(example / "report.xml").getroot().get("failures", "0")) >= 1
    (test,) = (example / "poolproof-counterexamples").glob("test_*.py")
    replayed = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", str(test)], cwd=example, capture_output=True, text=True
    )
    assert replayed.returncode == 1
    assert "pins_are_never_negative" in replayed.stdout


def test_a_saved_counterexample_passes_once_the_fault_is_mended(poolproof: Command, example: Path) -> None:
    poolproof("prove", "--spec", "pins:FAULTY", cwd=example, status=1)
    (saved,) = (example / "poolproof-counterexamples").glob("*.json")
    saved.write_text(saved.read_text().replace("pins:FAULTY", "pins:SUBJECT"))
    test = saved.with_suffix(".py")
    replayed = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", str(test)], cwd=example, capture_output=True, text=True
    )
    assert replayed.returncode == 0, replayed.stdout


def test_a_ledger_is_written_and_compared(poolproof: Command, example: Path) -> None:
    poolproof("prove", "--spec", "pins:SUBJECT", "--update-ledger", "ledger.json", cwd=example)
    poolproof("prove", "--spec", "pins:SUBJECT", "--ledger", "ledger.json", cwd=example)
    ledger = json.loads((example / "ledger.json").read_text())
    ledger["claims"]["pins/pin/is_well_defined"]["grade"] = "EXPLORED"
    (example / "ledger.json").write_text(json.dumps(ledger))
    out = poolproof("prove", "--spec", "pins:SUBJECT", "--ledger", "ledger.json", cwd=example, status=1).stdout
    assert "pins/pin/is_well_defined" in out


@pytest.mark.parametrize(
    ("content", "reason"),
    [('{"format": "poolproof-ledger", "version": 99}', "version 99"), ("not json", "not a ledger")],
)
def test_a_foreign_ledger_is_wrong_use(poolproof: Command, example: Path, content: str, reason: str) -> None:
    (example / "ledger.json").write_text(content)
    assert (
        reason in poolproof("prove", "--spec", "pins:SUBJECT", "--ledger", "ledger.json", cwd=example, status=2).stderr
    )


@pytest.mark.parametrize("ref", ["nowhere", "nowhere:SPEC", "json:loads", "poolproof.spec.slots:NOTHING"])
def test_a_spec_that_cannot_be_loaded_is_wrong_use(poolproof: Command, tmp_path: Path, ref: str) -> None:
    assert ref.split(":")[0] in poolproof("prove", "--spec", ref, cwd=tmp_path, status=2).stderr


def test_an_unknown_second_solver_is_wrong_use(poolproof: Command, tmp_path: Path) -> None:
    assert "cvc5" in poolproof("prove", "--second-opinion", "oracle", cwd=tmp_path, status=2).stderr


def test_the_second_solver_agrees(poolproof: Command, tmp_path: Path) -> None:
    asked = ("prove", *SLOTS, "--only", "I25", "--second-opinion", "cvc5", "--json")
    report = json.loads(poolproof(*asked, cwd=tmp_path).stdout)
    said = {o["second_opinion"] for o in report["obligations"] if o["kind"] != "explore"}
    assert said == {"unsat"}


def test_a_partial_run_writes_no_ledger(poolproof: Command, tmp_path: Path) -> None:
    poolproof("prove", *SLOTS, "--only", "I25", "--update-ledger", "ledger.json", cwd=tmp_path, status=2)
    assert not (tmp_path / "ledger.json").exists()
