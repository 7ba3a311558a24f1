"""The example of an engine loop: what comes out is right while pages move, in sixty lines, on every device."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from test_documents import ROOT

FILE = ROOT / "docs" / "examples" / "engine_loop.py"
LOOP = ("serve", "leave", "step", "attention")
NEAR = 1e-5


@pytest.fixture(scope="module")
def example() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("engine_loop", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    spec.loader.exec_module(module)
    yield module
    torch.set_num_threads(threads)
    del sys.modules[spec.name]


def served(example: Any, device: str, seed: int, total_bytes: int) -> Any:
    """Serve requests in a pool of so many bytes: all tokens are right, and the pool is empty and healthy."""
    pool, requests = example.open_pool(device, total_bytes), example.some_requests(seed)
    report = example.serve(pool, requests)
    assert report.deviation < NEAR
    assert report.tokens >= sum(request.total for request in requests)
    assert pool.check() == []
    stats = pool.stats()
    assert (stats.used_bytes, stats.steps) == (0, 0)
    assert [sub_pool.pending for sub_pool in stats.sub_pools] == [0, 0]
    assert pool.capacity("full") == (total_bytes - pool.sink_bytes) // pool["full"].layout.page_bytes
    return report


@pytest.mark.parametrize("seed", [0, 1])
def test_tokens_are_right_while_pages_move_and_sequences_wait(example: Any, seed: int) -> None:
    report = served(example, "cpu", seed, 50_000)
    assert report.moved > 0
    assert report.waits > 0
    assert report.restarts > 0


def test_nobody_waits_where_there_is_room(example: Any) -> None:
    report = served(example, "cpu", 0, 1_000_000)
    assert (report.waits, report.restarts) == (0, 0)
    assert report.tokens == sum(request.total for request in example.some_requests(0))


def test_it_would_notice_a_page_in_the_wrong_place(example: Any) -> None:
    """Where a page moves behind the back of the tables, or a token lands elsewhere, the deviation is large."""
    pool = example.open_pool("cpu", 50_000)
    copy = pool._bytes.copy
    pool._bytes.copy = lambda size, sources, holes: copy(size, sources[::-1].copy(), holes)
    assert example.serve(pool, example.some_requests(0)).deviation > 0.01


def test_it_runs_as_a_program() -> None:
    done = subprocess.run([sys.executable, str(FILE), "cpu"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    figures = dict(re.findall(r"(\w+)=([-.\de]+)", done.stdout))
    assert done.stdout.startswith("on cpu: ")
    assert float(figures["deviation"]) < NEAR
    assert int(figures["moved"]) > 0


def test_the_loop_has_sixty_lines() -> None:
    """Of code: without docstrings, comments and empty lines."""
    text = FILE.read_text()
    lines, counts = text.splitlines(), {}
    for part in ast.parse(text).body:
        if isinstance(part, ast.FunctionDef) and part.name in LOOP:
            doc = part.body[0]
            kept = [*range(part.lineno, doc.lineno), *range((doc.end_lineno or 0) + 1, (part.end_lineno or 0) + 1)]
            code = [line for line in (lines[number - 1].strip() for number in kept) if line and line[0] != "#"]
            counts[part.name] = len(code)
    assert tuple(counts) == LOOP
    assert 0 < sum(counts.values()) <= 60


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_it_is_the_same_loop_on_a_device(example: Any) -> None:
    on_host, on_device = (served(example, device, 0, 50_000) for device in ("cpu", "cuda"))
    assert on_device.moved == on_host.moved > 0
    figures = [(report.tokens, report.steps, report.waits, report.restarts) for report in (on_host, on_device)]
    assert figures[0] == figures[1]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_program_takes_the_device_by_default() -> None:
    done = subprocess.run([sys.executable, str(FILE)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("on cuda: ")
