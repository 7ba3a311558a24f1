"""`poolproof check`: the main job, as the README calls it."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., subprocess.CompletedProcess[str]]
pytestmark = pytest.mark.timeout(1500)  # all proofs and their controls, beside other tests


@pytest.mark.usefixtures("whole_run")
def test_check_passes_and_says_so(poolproof: Command, tmp_path: Path) -> None:
    out = poolproof("check", "--ops", "5000", "--seed", "3", cwd=tmp_path).stdout
    assert re.search(r"^I25 +PROVED ", out, re.M)
    assert "mutants:" in out
    assert "seed 3" in out
    assert out.splitlines()[-1] == "check passed"


@pytest.mark.usefixtures("whole_run")
def test_check_has_one_verdict_in_json(poolproof: Command, tmp_path: Path) -> None:
    whole = json.loads(poolproof("check", "--ops", "2000", "--seed", "3", "--json", cwd=tmp_path).stdout)
    assert whole["verdict"] == "passed"
    assert whole["prove"]["verdict"] == "passed"
    assert whole["fuzz"]["operations"] >= 2000
    assert whole["fuzz"]["canary"]["found"] is True
    assert whole["fuzz_unified"]["operations"] >= 2000 / 20
    assert whole["fuzz_unified"]["canary"]["found_after"] > 0


def test_a_budget_of_nothing_is_wrong_use(poolproof: Command, tmp_path: Path) -> None:
    assert "ops" in poolproof("check", "--ops", "0", cwd=tmp_path, status=2).stderr
