"""docs/recall.md shows the committed result."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "recall.md").read_text()
RESULT = ROOT / "bench" / "results" / "recall.json"


def test_the_tables_are_those_of_the_result() -> None:
    command = [sys.executable, str(ROOT / "bench" / "recall.py"), "--show", str(RESULT)]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert f"<!-- begin recall -->\n{shown.strip()}\n<!-- end recall -->" in PAGE
    assert not json.loads(RESULT.read_text())["smoke"]
