"""The page about an engine's own numbers: its files, outputs, claims and models are the real ones."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from test_documents import ROOT, blocks, without_times

from poolproof.proofs.engine_config import read_engine
from poolproof.proofs.engine_questions import questions
from poolproof.spec.models import MODELS

PAGE = ROOT / "docs" / "engine.md"
EXAMPLES = ROOT / "docs" / "examples"
CLAIMS = ("no_index_wraps", "one_request_fits")


@pytest.mark.parametrize("name", ["engine.toml", "engine_wraps.toml"])
def test_the_quoted_files_are_the_files(name: str) -> None:
    assert (EXAMPLES / name).read_text() in blocks(PAGE, "toml")


@pytest.mark.parametrize(
    ("arguments", "part", "status"),
    [
        (["engine.toml"], "passed:", 0),
        (["engine_wraps.toml", "--only", CLAIMS[0], "--only", CLAIMS[1]], "first bad one", 1),
    ],
)
def test_the_outputs_are_real(arguments: list[str], part: str, status: int) -> None:
    shown = next(block for block in blocks(PAGE, "text") if part in block)
    program = "from poolproof.cli.main import main; main()"
    command = [sys.executable, "-c", program, "prove", "--config", *arguments]
    done = subprocess.run(command, cwd=EXAMPLES, capture_output=True, text=True)
    printed = "\n".join(line.rstrip() for line in done.stdout.splitlines())
    assert without_times(shown) in without_times(printed + "\n")
    assert done.returncode == status


def test_every_claim_is_in_the_table() -> None:
    listed = set(re.findall(r"`([a-z_]+)`", "".join(re.findall(r"^\| (`.*?) \|", PAGE.read_text(), re.M))))
    assert {question.about for question in questions(read_engine(EXAMPLES / "engine.toml"))} <= listed


def test_every_model_is_in_the_table() -> None:
    rows = re.findall(
        r"^\| `(.+)` \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\S+), config.json \|$", PAGE.read_text(), re.M
    )
    assert [row[0] for row in rows] == list(MODELS)
    for name, layers, full, window, linear, source in rows:
        model = MODELS[name]
        counts = [len(model.pattern), model.count("FB"), model.count("W"), model.count("LB")]
        assert [int(layers), int(full), int(window), int(linear)] == counts
        assert model.source.startswith(f"{source}, config.json")
