"""`poolproof prove --config` as a user meets it: output, files, exit codes, wrong use."""

from __future__ import annotations

import json
import shutil
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., subprocess.CompletedProcess[str]]

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the examples of the docs."""
    for name in ("engine.toml", "engine_wraps.toml"):
        shutil.copy(EXAMPLES / name, tmp_path)
    return tmp_path


def test_only_the_engine_is_proved_and_the_output_says_so(poolproof: Command, folder: Path) -> None:
    out = poolproof("prove", "--config", "engine.toml", cwd=folder).stdout.splitlines()
    assert out[0] == "only the engine in engine.toml; the theorems for all sizes are proved by: poolproof prove"
    assert all(line.startswith("engine/my_engine/") for line in out[1:30])
    assert out[-1].startswith("passed: 29 PROVED in ")


def test_json_is_one_object_with_witness_and_twins(poolproof: Command, folder: Path) -> None:
    report = json.loads(poolproof("prove", "--config", "engine.toml", "--json", cwd=folder).stdout)
    assert report["verdict"] == "passed"
    assert report["theorems"] == {"I11": "PROVED", "I14": "PROVED", "I16": "PROVED", "I22": "PROVED"}
    assert {o["grade"] for o in report["obligations"]} == {"PROVED"}
    assert all(o["witness"] and o["twins"] for o in report["obligations"])


def test_a_refutation_ends_with_one_and_its_command_shows_it_again(poolproof: Command, folder: Path) -> None:
    out = poolproof("prove", "--config", "engine_wraps.toml", "--junit", "out/report.xml", cwd=folder, status=1).stdout
    assert "page 910 is the first bad one of 9102" in out
    assert "the smallest total_bytes that fits is 39546224640, there are 21474836480" in out
    suite = ET.parse(folder / "out" / "report.xml").getroot()
    assert (suite.get("failures"), suite.get("errors")) == ("3", "0")
    command = next(line for line in out.splitlines() if "reproduce: " in line).partition("reproduce: poolproof ")[2]
    again = poolproof(*(word.strip("'") for word in command.split()), cwd=folder, status=1).stdout
    assert "page 910 is the first bad one of 9102" in again
    assert "failed (1): 1 REFUTED" in again


def test_only_chooses_claims(poolproof: Command, folder: Path) -> None:
    for pattern, number in (("engine/my_engine/state/*", 9), ("no_index_wraps", 3), ("I22", 3)):
        out = poolproof("prove", "--config", "engine.toml", "--only", pattern, "--json", cwd=folder).stdout
        assert len(json.loads(out)["obligations"]) == number
    said = poolproof("prove", "--config", "engine.toml", "--only", "slots/*", cwd=folder, status=2).stderr
    assert "'slots/*' matches no claim of this engine" in said


def test_a_ledger_of_an_engine_is_written_and_compared(poolproof: Command, folder: Path) -> None:
    poolproof("prove", "--config", "engine.toml", "--update-ledger", "ledger.json", cwd=folder)
    poolproof("prove", "--config", "engine.toml", "--ledger", "ledger.json", cwd=folder)
    text = (folder / "engine.toml").read_text()
    (folder / "engine.toml").write_text(text.replace('"24 GiB"', '"25 GiB"'))
    out = poolproof("prove", "--config", "engine.toml", "--ledger", "ledger.json", cwd=folder, status=1).stdout
    assert "the ledger ledger.json differs" in out


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[engine", "is not TOML"),
        ("[engine]\nname = 'e'\n", "[engine] has no total_bytes"),
        ("[engine]\nname = 'e'\ntotal_bytes = 8\nmodel = 'GPT-9'\n", "no model 'GPT-9' is shipped"),
    ],
)
def test_a_wrong_file_is_wrong_use(poolproof: Command, tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "engine.toml").write_text(content)
    assert said in poolproof("prove", "--config", "engine.toml", cwd=tmp_path, status=2).stderr


def test_wrong_use_of_the_option(poolproof: Command, folder: Path) -> None:
    assert "nowhere.toml" in poolproof("prove", "--config", "nowhere.toml", cwd=folder, status=2).stderr
    both = ("prove", "--config", "engine.toml", "--spec", "pins:SUBJECT")
    assert "--config" in poolproof(*both, cwd=folder, status=2).stderr
