"""bench/unified_gpu.py: a smoke run in the interpreter, what it prints, what breaks in it, and what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "bench" / "unified_gpu.py"
PARTS = {"launch", "moves", "zeros", "tables", "translation", "writes", "windows", "decode", "compaction"}
RATE = {"us", "TB_per_s", "of_copy"}
TIMES = {"count", "least_us", "median_us", "p90_us"}


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the bench."""
    return subprocess.run([sys.executable, str(BENCH), *map(str, arguments)], capture_output=True, text=True)


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The result of a smoke run, and what it printed."""
    file = tmp_path_factory.mktemp("bench") / "result.json"
    done = run("--smoke", "--json", file)
    assert done.returncode == 0, done.stderr
    return file, done.stdout


@pytest.fixture(scope="module")
def result(smoke: tuple[Path, str]) -> dict[str, Any]:
    """The same, read."""
    found: dict[str, Any] = json.loads(smoke[0].read_text())
    return found


def test_a_result_says_what_was_measured_where_and_of_what(result: dict[str, Any]) -> None:
    assert {"what", "date", "command", "card", "driver", "torch", "triton", "python", "source", "repeats"} <= set(
        result
    )
    assert {"copy_TB_per_s", "memset_TB_per_s", "empty_us", "copy_TB_per_s_at_the_end"} <= set(result)
    assert result["smoke"]
    assert result["right"]
    assert result["wrong"] == []
    assert result["broken"] == {}


def test_every_part_has_figures(result: dict[str, Any]) -> None:
    assert set(result) >= PARTS
    assert all(result[part] for part in PARTS)
    assert all(set(row["kernel"]) == RATE for part in ("moves", "translation", "writes") for row in result[part])
    assert {row["torch"] is None for row in result["moves"]} == {True, False}
    assert all({*RATE, "of_memset"} <= set(row) for row in result["zeros"])
    assert all(row["us"] > 0 and row["both_us"] > 0 and row["byte_floor_us"] > 0 for row in result["tables"])
    assert {(row["dtype"], row["order"]) for row in result["translation"]} == {
        (dtype, order) for dtype in ("int64", "int32") for order in ("sequential", "random")
    }
    assert {row["dtype"] for row in result["writes"]} == {"bfloat16", "float8_e4m3fn"}
    assert result["windows"]["copied"] == result["windows"]["cleared"] > 0


def test_a_compaction_moves_pages_in_one_launch(result: dict[str, Any]) -> None:
    rows = result["compaction"]
    assert {row["is_busy"] for row in rows} == {False, True}
    for row in rows:
        assert row["launches"] == 1
        assert row["bytes"] == 2 * row["pages"] * row["page_bytes"] > 0
        assert set(row["device"]) == RATE


def test_a_decode_step_is_timed_call_by_call(result: dict[str, Any]) -> None:
    rows = {row["kind"]: row for row in result["decode"]}
    assert set(rows) == {
        *("guard off", "one lease", "states written too", "all pages read too", "guard on", "device='meta'")
    }
    calls = {"extend", "begin_step", "launched", "complete", "retire", "free", "admit", "step"}
    for kind, row in rows.items():
        is_meta = kind == "device='meta'"
        assert set(row["host"]) == (calls if is_meta else {*calls, "translate"})
        assert all(set(times) == TIMES for times in row["host"].values())
        assert (row["device"] is None) == is_meta
    assert rows["guard off"]["launches"] >= 1


def test_a_result_is_shown(smoke: tuple[Path, str]) -> None:
    file, printed = smoke
    done = run("--show", file)
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed
    assert printed.startswith("smoke run, its times mean nothing")
    assert "STALE" not in printed
    assert printed.count("|---|") == 9
    assert printed.splitlines()[-1] == "Goals: every part did what it should: all of them, met"


def test_a_result_of_other_sources_is_stale_and_what_broke_is_said(result: dict[str, Any], tmp_path: Path) -> None:
    page = result["moves"][0] | {"page_bytes": 2**20}
    other = result | {"source": "0", "moves": [page], "windows": None, "wrong": ["zeros"], "broken": {"windows": "why"}}
    (tmp_path / "other.json").write_text(json.dumps(other))
    shown = run("--show", tmp_path / "other.json").stdout
    assert "STALE" in shown
    assert shown.count("|---|") == 8
    assert "moving pages of 1 MiB: at least 0.93 of copy: " in shown
    assert shown.splitlines()[-1].endswith("every part did what it should: zeros, windows broke, MISSED")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "required"),
        (("--smok",), "required"),
        (("--smoke", "--gpu"), "not allowed"),
        (("--smoke", "--show", "x"), "not allowed"),
        (("--show", "no-such-file"), "no result of this program"),
        (("--show", BENCH), "no result of this program"),
        (("--show", "x", "--json", "y"), "leave --json out"),
        (("--smoke", "--json", "no-such-folder/x.json"), "no folder"),
    ],
)
def test_wrong_use_is_told(arguments: tuple[object, ...], said: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr


def test_without_a_device_it_says_so() -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a device")
    done = run("--gpu")
    assert done.returncode == 2
    assert "needs a CUDA device" in done.stderr
