"""Ways to a pass that means nothing, each closed: cache, references, tags, waivers, exits, and lost findings."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., subprocess.CompletedProcess[str]]
EXAMPLE = Path(__file__).resolve().parents[2] / "docs" / "examples" / "pins.py"


@pytest.fixture
def pins(tmp_path: Path) -> Callable[..., Path]:
    """Writes a changed copy of the worked example into a folder of its own."""

    def write(name: str, *changes: tuple[str, str]) -> Path:
        text = EXAMPLE.read_text()
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        (tmp_path / f"{name}.py").write_text(text)
        return tmp_path

    return write


NEVER = ("require(pool.all(Page).has(page))\n    pool.pinned +=", "require(page < Page(0))\n    pool.pinned +=")


def test_a_subject_is_the_one_that_was_named(poolproof: Command, pins: Callable[..., Path]) -> None:
    pins("pins")
    folder = pins("vacuous", NEVER)  # its ref still names the sound one
    out = poolproof("prove", "--spec", "vacuous:SUBJECT", cwd=folder, status=1).stdout
    assert "UNKNOWN    z3" in out


def test_a_changed_constant_is_another_question(poolproof: Command, pins: Callable[..., Path]) -> None:
    folder = pins(
        "pins",
        ("from poolproof.proofs.subject", "from limits import LIMIT\nfrom poolproof.proofs.subject"),
        ("    pool.pinned += ite", "    require(pool.pinned < LIMIT)\n    pool.pinned += ite"),
        ("class Page(Id):", "NONE = 0\n\n\nclass Page(Id):"),
    )
    for limit, enabled in ((9, True), (0, False)):
        (folder / "limits.py").write_text(f"LIMIT = {limit}\n")
        done = poolproof("prove", "--spec", "pins:SPEC", "--json", cwd=folder, status=1, PYTHONDONTWRITEBYTECODE="1")
        (seen,) = json.loads(done.stdout)["explorations"]
        assert (seen["actions"]["pin"]["shortest_trace"] is not None) is enabled


def test_a_decorator_without_parentheses_is_an_error(poolproof: Command, pins: Callable[..., Path]) -> None:
    folder = pins("pins", ('@theorem("I13")', "@theorem"))
    assert "@theorem takes names" in poolproof("prove", "--spec", "pins:SPEC", cwd=folder, status=2).stderr


def test_a_waiver_of_everything_is_a_failure(poolproof: Command, pins: Callable[..., Path]) -> None:
    folder = pins("pins", ("    mutant_sizes=", '    redundant={"*": "because"},\n    mutant_sizes='))
    assert (
        "declared redundant, but refuted" in poolproof("prove", "--spec", "pins:SUBJECT", cwd=folder, status=1).stdout
    )


def test_a_counterexample_is_never_another_specs(poolproof: Command, pins: Callable[..., Path]) -> None:
    pins("pins")
    folder = pins("other", ('name="pins"', 'name="other"'), ("pins_are_never_negative", "no_pin_is_negative"))
    poolproof("prove", "--spec", "pins:FAULTY", cwd=folder, status=1)
    out = poolproof("prove", "--spec", "other:FAULTY", cwd=folder, status=1).stdout
    assert "violated: no_pin_is_negative" in out
    assert "violated: pins_are_never_negative" not in out


def test_what_is_false_only_when_empty_is_refuted(poolproof: Command, pins: Callable[..., Path]) -> None:
    folder = pins("pins")
    text = (folder / "pins.py").read_text()
    start, end = text.index("    return implies("), text.index("SPEC = Specification")
    (folder / "pins.py").write_text(text[:start] + "    return pool.total > 0\n\n\n" + text[end:])
    out = poolproof("prove", "--spec", "pins:SPEC", cwd=folder, status=1).stdout
    assert "REFUTED pins/theorem/what_is_pinned_can_be_unpinned" in out


def test_integers_are_sampled_and_so_explored(poolproof: Command, pins: Callable[..., Path]) -> None:
    claim = 'page: Page) -> Bool:\n    """I13: each pin'
    folder = pins(
        "pins",
        ("def pin(pool: Pins, page: Page)", "def pin(pool: Pins, page: Page, why: Int)"),
        (claim, claim.replace("Page)", "Page, why: Int)")),
    )
    report = json.loads(poolproof("prove", "--spec", "pins:SPEC", "--json", cwd=folder, status=0).stdout)
    (seen,) = [o for o in report["obligations"] if o["kind"] == "explore"]
    assert seen["grade"] == "EXPLORED"
    assert "int from {-1, 0, 1, 2, 3}" in seen["witness"]


def test_a_target_that_ends_the_process_is_a_finding(poolproof: Command, tmp_path: Path) -> None:
    body = "import sys\n\n\nclass Gone:\n    def __init__(self, slots): ...\n"
    (tmp_path / "gone.py").write_text(body + "    def alloc(self, n): sys.exit(0)\n    def free(self, ids): ...\n")
    out = poolproof("fuzz", "gone:Gone", "--ops", "200", "--seed", "1", cwd=tmp_path, status=1).stdout
    assert "SystemExit" in out


def test_a_finding_that_cannot_be_saved_is_a_finding(poolproof: Command, pins: Callable[..., Path]) -> None:
    folder = pins("pins")
    done = poolproof("prove", "--spec", "pins:FAULTY", "--save-dir", "pins.py/x", cwd=folder, status=1)
    assert "violated: pins_are_never_negative" in done.stdout
    assert "cannot save" in done.stderr
    fuzzed = poolproof("fuzz", "canary-double-free", "--seed", "1", "--save-dir", "pins.py/x", cwd=folder, status=1)
    assert "FAILED" in fuzzed.stdout
    assert "cannot save" in fuzzed.stderr


def test_a_module_that_fails_to_import_is_wrong_use(poolproof: Command, tmp_path: Path) -> None:
    (tmp_path / "boom.py").write_text("raise RuntimeError('no')\n")
    (tmp_path / "syntax.py").write_text("def (\n")
    for name in ("boom", "syntax"):
        assert f"cannot load '{name}:X'" in poolproof("prove", "--spec", f"{name}:X", cwd=tmp_path, status=2).stderr
