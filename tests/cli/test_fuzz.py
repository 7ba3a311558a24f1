"""`poolproof fuzz` as a user meets it."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., subprocess.CompletedProcess[str]]

BROKEN = """
class Pool:
    def __init__(self, slots):
        self.unused = list(range(1, slots + 1))
    def alloc(self, n):
        if n <= len(self.unused):
            return [self.unused.pop() for _ in range(n)]
    def free(self, ids):
        self.unused.extend(ids)
"""


def test_a_good_pool_passes(poolproof: Command, tmp_path: Path) -> None:
    done = poolproof("fuzz", "slot-pool", "--ops", "2000", "--seed", "1", cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == "passed"
    assert "--seed 1" in done.stdout
    assert "broken on purpose: found" in done.stdout
    assert done.stderr == ""
    assert list(tmp_path.iterdir()) == []


def test_json_is_one_object(poolproof: Command, tmp_path: Path) -> None:
    report = json.loads(poolproof("fuzz", "slot-pool", "--time", "0.2", "--json", cwd=tmp_path).stdout)
    assert report["verdict"] == "passed"
    assert report["operations"] > 0
    assert str(report["seed"]) in report["reproduce"]
    assert report["canary"]["found"]
    assert report["failure"] is None


def test_a_broken_allocator_of_ones_own_is_reported_saved_and_replayed(poolproof: Command, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(BROKEN)
    said = poolproof("fuzz", "mine:Pool", "--seed", "2", "--save-dir", "found", cwd=tmp_path, status=1).stdout
    assert "violates I2" in said
    command = next(line for line in said.splitlines() if "reproduce:" in line).partition("reproduce: ")[2]
    program, *arguments = shlex.split(command)
    assert program == "poolproof"
    again = poolproof(*arguments, cwd=tmp_path, status=1).stdout
    assert "I2" in again
    assert again.splitlines()[-1] == "failed"
    report = json.loads(poolproof(*arguments, "--json", cwd=tmp_path, status=1).stdout)
    assert report["same_failure"]


def test_a_failure_in_json_has_everything(poolproof: Command, tmp_path: Path) -> None:
    said = poolproof("fuzz", "canary-sink-freed", "--seed", "3", "--json", cwd=tmp_path, status=1).stdout
    failure = json.loads(said)["failure"]
    assert {"number", "operation", "field", "slots", "target", "spec", "theorem", "claim", "saved"} <= set(failure)
    assert Path(tmp_path, failure["saved"]).exists()
    assert failure["reproduce"].startswith("poolproof replay ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nothing",), "no target 'nothing'"),
        (("nowhere:Pool",), "cannot import nowhere"),
        (("slot-pool", "--ops", "5", "--time", "1"), "not both"),
        (("slot-pool", "--ops", "0"), "more than zero"),
        (("slot-pool", "--ops", "many"), "--ops"),
        ((), "argument"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(
    arguments: tuple[str, ...], said: str, poolproof: Command, tmp_path: Path
) -> None:
    done = poolproof("fuzz", *arguments, cwd=tmp_path, status=2)
    assert said in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_the_command_starts_without_its_heavy_parts(option: str, tmp_path: Path) -> None:
    program = (
        "import sys\nfrom poolproof.cli.main import main\n"
        f"try: main(['{option}'])\n"
        "except SystemExit as end: code = end.code\n"
        "heavy = set(sys.modules) & {'z3', 'hypothesis', 'numpy', 'torch', 'crosshair'}\n"
        "sys.exit(f'imported {heavy}' if heavy else code)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
