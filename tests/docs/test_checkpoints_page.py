"""docs/checkpoints.md says what is so: its example runs, and what it names is there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "checkpoints.md").read_text()


def test_the_example_runs() -> None:
    (program,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.S | re.M)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.findall(r"^# (.*)$", program, re.M) == done.stdout.splitlines()


def test_every_call_that_is_named_is_there() -> None:
    from poolproof import CheckpointPool

    table = PAGE.split("| call | does |")[1].split("\n\n")[0]
    calls = " ".join(row.split("|")[1] for row in table.splitlines() if row.startswith("| `"))
    names = set(re.findall(r"`(?:CheckpointPool\.)?([a-z_]+)(?:\(|`)", calls)) - {"publish", "drop"}
    assert names >= {"enqueue", "hit", "donate", "evict", "check_states"}
    assert [name for name in sorted(names) if not hasattr(CheckpointPool, name)] == []
