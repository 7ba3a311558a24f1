"""docs/codec.md says what is so: its example runs, its tables are those of the committed result, claims have names."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from poolproof.proofs import codec, codec_cases

torch = pytest.importorskip("torch")
reference = pytest.importorskip("poolproof.kernels.codec")

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "codec.md").read_text()
RESULT = ROOT / "bench" / "results" / "codec-accuracy.json"


def test_the_example_runs() -> None:
    (program,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.S | re.M)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.findall(r"^# (.*)$", program, re.M) == done.stdout.splitlines()


def test_the_tables_are_those_of_the_result() -> None:
    command = [sys.executable, str(ROOT / "bench" / "codec_accuracy.py"), "--show", str(RESULT)]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    result = json.loads(RESULT.read_text())
    assert all(table in PAGE for table in shown.strip().split("\n\n"))
    assert f"torch {result['torch']}" in PAGE
    assert not result["smoke"]


def test_every_claim_is_named() -> None:
    for claim in (*codec.claims(), *codec_cases.claims()):
        assert f"`{claim.rsplit('/', 1)[1]}`" in PAGE


def loaded(x: object) -> object:
    """What comes back after one store."""
    return reference.dequantize(*reference.quantize(x))


@pytest.mark.parametrize(("name", "rest"), [("bfloat16", 21), ("float16", None)])
def test_storing_again_and_again_settles_as_the_page_says(name: str, rest: int | None) -> None:
    """Of every finite maximum, as a channel of one element: codes keep order, so that it stays the largest."""
    dtype = getattr(torch, name)
    top = {"bfloat16": 0x7F80, "float16": 0x7C00}[name]
    start = torch.arange(top, dtype=torch.int16).view(dtype)[None]
    current = start
    for _ in range(rest or 128):
        current = loaded(current)
    after = loaded(current)
    if rest is None:
        moving = start[after != current].double()
        assert 0 < len(moving) < 1000
        assert 1.5e-4 < moving.min() < moving.max() < 2e-3
        assert torch.equal(loaded(after), current)
    else:
        assert torch.equal(after, current)
        normal = start.double() >= 2.0**-118
        growth = (current.double() / start.double())[normal].numpy()
        assert np.all((growth > 0.94) & (growth < 1.125))
