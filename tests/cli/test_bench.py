"""`poolproof bench`: a smoke run in the interpreter, what it refuses, and results that are out of date."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from poolproof.cli import bench

Command = Callable[..., subprocess.CompletedProcess[str]]

ROOT = Path(__file__).resolve().parents[2]
needs_torch = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs torch and triton")


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The result of a smoke run of the codec's bench."""
    file = tmp_path_factory.mktemp("bench") / "codec.json"
    script = str(ROOT / "bench" / "codec.py")
    subprocess.run([sys.executable, script, "--smoke", "--json", str(file)], check=True, capture_output=True)
    return file


@needs_torch
def test_a_smoke_run_gives_one_json_object(poolproof: Command, tmp_path: Path) -> None:
    done = poolproof("bench", "--only", "codec", "--only", "codec_accuracy", "--smoke", "--json", cwd=tmp_path)
    report = json.loads(done.stdout)
    assert report["verdict"] == "measured"
    codec, accuracy = report["benches"]["codec"], report["benches"]["codec_accuracy"]
    assert codec["same_bytes"]
    assert codec["smoke"]
    assert {"card", "driver", "torch", "triton", "source", "date", "command", "copy", "empty_microseconds"} <= set(
        codec
    )
    assert {(row["direction"], row["dtype"]) for row in codec["throughput"]} == {
        (direction, dtype) for direction in ("store", "load") for dtype in ("bfloat16", "float16", "float32")
    }
    assert {"windows", "one_slot", "host", "curve", "shapes"} <= set(codec)
    assert {"seed", "torch", "python", "source", "settling"} <= set(accuracy)
    assert {row["states"] for row in accuracy["figures"]} == {"normal", "gdn", "kda"}
    assert all(row["at_rest"] for row in accuracy["settling"] if row["scale_rounded"] == "nearest")


@needs_torch
def test_the_table_is_printed(poolproof: Command, tmp_path: Path) -> None:
    options = ("--only", "codec_accuracy", "--smoke", "--save-dir", "figures/here")
    said = poolproof("bench", *options, cwd=tmp_path).stdout
    assert "int8 per channel" in said
    assert "in a row" in said
    assert json.loads((tmp_path / "figures/here/codec_accuracy.json").read_text())["figures"]


@needs_torch
def test_a_result_of_other_kernels_is_stale(smoke: Path) -> None:
    def shown() -> str:
        command = [sys.executable, str(ROOT / "bench" / "codec.py"), "--show", str(smoke)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    fresh = shown()
    assert "STALE" not in fresh
    assert "| store bfloat16 |" in fresh
    smoke.write_text(json.dumps(json.loads(smoke.read_text()) | {"source": "0" * 16}))
    assert "STALE" in shown()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--only", "nothing"), "no bench 'nothing'"),
        (("--only", "codec"), "needs a CUDA device: give --gpu, or --smoke"),
        (("--only", "slot_pool", "--smoke"), "slot_pool has no smoke run"),
        (("--gpu", "--smoke"), "a smoke run is one without a device"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(
    arguments: tuple[str, ...], said: str, poolproof: Command, tmp_path: Path
) -> None:
    done = poolproof("bench", *arguments, cwd=tmp_path, status=2)
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


def test_without_a_checkout_it_says_so(poolproof: Command, tmp_path: Path) -> None:
    """The package alone, as an ordinary installation has it."""
    package = tmp_path / "site" / "poolproof"
    shutil.copytree(ROOT / "impl", package)
    shutil.copytree(ROOT / "cli", package / "cli")
    done = poolproof("bench", cwd=tmp_path, status=2, PYTHONPATH=str(package.parent))
    assert "run this in a checkout" in done.stderr


def test_which_benches_run() -> None:
    assert set(bench.BENCHES) == {file.stem for file in (ROOT / "bench").glob("*.py")} - {
        *("recurrence", "sanitizer", "hybrid_model", "recall_task"),
    }
    assert "codec" not in bench.chosen((), "")
    assert bench.chosen((), "--gpu") == list(bench.BENCHES)
    with_smoke = ["codec", "codec_accuracy", "recall", "checkpoint_pool", "cache_payoff", "unified_pool", "unified_gpu"]
    assert bench.chosen((), "--smoke") == with_smoke
