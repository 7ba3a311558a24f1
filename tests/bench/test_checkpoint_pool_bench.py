"""bench/checkpoint_pool.py: a smoke run in the interpreter, what it prints, the docs' tables, and what it refuses."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "bench" / "checkpoint_pool.py"
RESULT = ROOT / "bench" / "results" / "checkpoint_pool.json"
PAGE = ROOT / "docs" / "checkpoints.md"
STALE = "STALE: the sources have changed since.\n\n"
TIMES = {"count", "least_us", "median_us", "p90_us"}
KINDS = {f"{codec}, {where}" for codec in ("int8", "copies") for where in ("one buffer", "two buffers")}
WORKS = {
    *("hit", "lock, hit, release", "a hit of several", "donate", "donate, beyond the others"),
    *("donate, add_node, publish", "track", "finish", "evict"),
}


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
    about = {"what", "date", "command", "card", "driver", "torch", "triton", "python", "machine", "source", "repeats"}
    assert about | {"copy_TB_per_s", "copy_TB_per_s_at_the_end", "empty_us"} <= set(result)
    assert (result["state_bytes"], result["checkpoint_bytes"]) == (39_518_208, 20_938_752)
    assert result["smoke"]
    assert result["right"]
    assert result["wrong"] == []
    assert result["broken"] == {}


def test_every_work_is_timed_on_the_host_in_pools_of_every_kind(result: dict[str, Any]) -> None:
    rows = result["host"]
    assert {(row["kind"], row["way"], row["work"]) for row in rows} == {
        (kind, way, work) for kind in KINDS for way in ("meta", "cpu") for work in WORKS
    }
    assert all(set(row) >= TIMES and row["count"] > 0 for row in rows)
    assert {row["each"] > 1 for row in rows if row["work"] == "a hit of several"} == {True}
    assert {row["each"] for row in rows if row["work"] != "a hit of several"} == {1}


def test_what_the_device_is_given_is_timed_and_counted(result: dict[str, Any]) -> None:
    rows = {(row["kind"], row["work"]): row for row in result["device"]}
    assert set(rows) == {(kind, work) for kind in KINDS for work in ("hit", "a hit of several", "donate", "track")}
    assert all(row["cold_us"] > 0 and row["warm_us"] > 0 and row["goal_us"] > 2 for row in rows.values())
    for codec in ("int8", "copies"):
        for work in ("hit", "a hit of several", "donate"):
            assert rows[f"{codec}, one buffer", work]["launches"] == 1
            assert rows[f"{codec}, two buffers", work]["launches"] >= 1
        assert rows[f"{codec}, one buffer", "track"]["launches"] == 1
    state, codes, scales = 2 * (8 * 16 + 6 * 3), 8 * 16 + 2 * 6 * 3, 2 * 16
    assert rows["int8, one buffer", "hit"]["bytes"] == state + codes + scales
    assert rows["copies, one buffer", "hit"]["bytes"] == rows["int8, one buffer", "track"]["bytes"] == 2 * state


def test_the_cache_is_timed_with_room_and_in_a_full_buffer(result: dict[str, Any]) -> None:
    roomy, full = sorted({row["buffer"] for row in result["cache"]}, reverse=True)
    by_buffer = {size: [row for row in result["cache"] if row["buffer"] == size] for size in (roomy, full)}
    assert {row["evictions_a_request"] for row in by_buffer[roomy]} == {0}
    assert all(row["evictions_a_request"] > 0 for row in by_buffer[full])
    works = {row["work"] for row in by_buffer[full]}
    assert {work.partition(",")[0] for work in works} == {"match", "admit", "extend", "computed", "keep", "finish"}
    assert works < {row["work"] for row in by_buffer[roomy]}
    assert all(set(row) >= TIMES for row in result["cache"])


def test_a_result_is_shown(smoke: tuple[Path, str]) -> None:
    file, printed = smoke
    done = run("--show", file)
    assert done.returncode == 0, done.stderr
    assert done.stdout.removeprefix(STALE) == printed.removeprefix(STALE)
    assert printed.removeprefix(STALE).startswith("smoke run, its times mean nothing")
    assert printed.count("|---|") == 4
    assert printed.splitlines()[-1] == "* every part did what it should: all of them, met"


def test_a_result_of_a_device_names_its_goals_and_what_broke(result: dict[str, Any], tmp_path: Path) -> None:
    times = {"count": 1, "least_us": 7.0, "median_us": 8.0, "p90_us": 9.0}
    hit = {"kind": "int8, one buffer", "work": "hit", "each": 1}
    host = [{**hit, **times, "way": "idle"}, {**hit, **times, "way": "busy", "median_us": 10.5}]
    device = [{**result["device"][0], "cold_us": 1.0}, {**result["device"][1], "cold_us": 99.0}]
    other = result | {"source": "0", "host": host, "device": device, "cache": [], "broken": {"cache": "why"}}
    (tmp_path / "other.json").write_text(json.dumps(other))
    shown = run("--show", tmp_path / "other.json").stdout
    assert shown.startswith(STALE)
    assert shown.count("|---|") == 3
    goals = shown.splitlines()[-3:]
    assert goals[0].endswith("7.0 / 8.0 with launches, device idle, 7.0 / 10.5 with launches, device busy, MISSED")
    assert goals[1].endswith("in a row, int8, one buffer, 99.0 us, MISSED")
    assert goals[2] == "* every part did what it should: cache broke, MISSED"


def test_the_page_shows_the_committed_result() -> None:
    (part,) = re.findall(r"<!-- begin hit costs -->\n(.*?)<!-- end hit costs -->", PAGE.read_text(), re.S)
    shown = run("--show", RESULT)
    assert shown.returncode == 0, shown.stderr
    assert part == shown.stdout.removeprefix(STALE)
    assert not json.loads(RESULT.read_text())["smoke"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "required"),
        (("--smok",), "required"),
        (("--smoke", "--gpu"), "not allowed"),
        (("--host", "--show", "x"), "not allowed"),
        (("--show", "no-such-file"), "no result of this program"),
        (("--show", BENCH), "no result of this program"),
        (("--show", "x", "--json", "y"), "leave --json out"),
        (("--docs", "--json", "y"), "leave --json out"),
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
