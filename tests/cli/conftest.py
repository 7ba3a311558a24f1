"""The command line as a user meets it: a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

PROGRAM = "from poolproof.cli.main import main; main()"
Command = Callable[..., subprocess.CompletedProcess[str]]


def run_poolproof(*arguments: str, cwd: Path, status: int = 0, **more: str) -> subprocess.CompletedProcess[str]:
    """Run `poolproof ARGUMENTS` in a folder; the exit code must be `status`, and nobody may see a traceback."""
    command = [sys.executable, "-c", PROGRAM, *arguments]
    environment = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1", **more}
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, env=environment)
    assert done.returncode == status, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture
def poolproof() -> Command:
    """The command, as a function."""
    return run_poolproof
