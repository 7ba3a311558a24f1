"""The documents say what is so: generated parts, quoted code, outputs and links."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a page in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.S | re.M)


def test_generated_parts_are_current() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "generate.py"), "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_worked_example_is_the_file() -> None:
    assert (ROOT / "docs" / "examples" / "pins.py").read_text() in blocks(ROOT / "docs" / "spec.md", "python")


def test_the_quoted_action_is_the_shipped_one() -> None:
    quoted = blocks(ROOT / "docs" / "spec.md", "python")[0]
    assert quoted in (ROOT / "spec" / "slots.py").read_text()


def without_times(text: str) -> str:
    """Output less what differs from run to run: times, and the padding that they bring."""
    return re.sub(r" +", " ", re.sub(r"\d+\.\d+ s", "_ s", text.replace(" (cached)", "")))


@pytest.mark.parametrize(("name", "part"), [("SUBJECT", "pins/pin/is_well_defined"), ("FAULTY", "violated:")])
def test_the_outputs_of_the_worked_example_are_real(name: str, part: str, tmp_path: Path) -> None:
    shown = next(block for block in blocks(ROOT / "docs" / "spec.md", "text") if part in block)
    program = "from poolproof.cli.main import main; main()"
    command = [sys.executable, "-c", program, "prove", "--spec", f"pins:{name}", "--save-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT / "docs" / "examples", capture_output=True, text=True)
    printed = "\n".join(line.rstrip() for line in done.stdout.splitlines())
    assert without_times(shown) in without_times(printed + "\n")


def test_the_readme_and_ci_install_and_test_alike() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    readme = (ROOT / "README.md").read_text()
    install = next(line for line in script.splitlines() if line.startswith("pip install"))
    assert install.replace("pip install --quiet", "pip install") in readme
    assert "python -m pytest -n 2" in script
    assert "python -m pytest -n 2" in readme


def test_the_readme_example_runs() -> None:
    (program,) = blocks(ROOT / "README.md", "python")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.findall(r"^# (.*)$", program, re.M) == done.stdout.splitlines()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
    assert [t for t in targets if not (page.parent / t).exists()] == []
