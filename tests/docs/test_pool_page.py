"""The page of the unified pool: its example gives what it says, and its calls exist."""

from __future__ import annotations

import re
import subprocess
import sys

from test_documents import ROOT, blocks

import poolproof as pp

PAGE = ROOT / "docs" / "pool.md"


def test_the_example_runs() -> None:
    (program,) = blocks(PAGE, "python")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.findall(r"^# (.*)$", program, re.M) == done.stdout.splitlines()


def test_the_calls_exist() -> None:
    (table,) = re.findall(r"\| call \| does \|\n\|---\|---\|\n(.*?)\n\n", PAGE.read_text(), re.S)
    called = [name for row in table.splitlines() for name in re.findall(r"`(\w[\w\[\].]*)", row.split("|")[1])]
    homes = {"pool": pp.UnifiedPool, "pool[name]": pp.SubPool, "step": pp.Step}
    for name in called:
        home, _, method = name.rpartition(".")
        kinds = [homes[home]] if home else list(homes.values())
        assert any(hasattr(kind, method) for kind in kinds), name
