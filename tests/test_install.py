"""The built wheel, in an environment of its own: it imports, gives the command, and says which extra is missing."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def run(*command: str, cwd: Path, status: int = 0) -> str:
    """Run a command; its output, both streams."""
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, env=clean)
    assert done.returncode == status, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of commands of an environment with the wheel and nothing but what it asks for."""
    base = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(base), str(ROOT), cwd=base)
    (wheel,) = base.glob("*.whl")
    venv.create(base / "env", with_pip=True)
    commands = base / "env" / "bin"
    constraints = str(ROOT / "constraints.txt")
    run(str(commands / "python"), "-m", "pip", "install", "--quiet", "-c", constraints, str(wheel), cwd=base)
    return commands


def test_the_wheel_gives_a_working_import(installed: Path, tmp_path: Path) -> None:
    program = "import poolproof as pp; pool = pp.SlotPool(4); print(pool.alloc(2).tolist(), pool.check())"
    assert run(str(installed / "python"), "-c", program, cwd=tmp_path).split()[-1] == "[]"


def test_the_wheel_gives_a_working_command(installed: Path, tmp_path: Path) -> None:
    assert "prove" in run(str(installed / "poolproof"), "--help", cwd=tmp_path)


def test_the_command_says_which_extra_is_missing(installed: Path, tmp_path: Path) -> None:
    said = run(str(installed / "poolproof"), "prove", cwd=tmp_path, status=2)
    assert "pip install 'poolproof[prove]'" in said
    assert "Traceback" not in said
