"""bench/unified_pool.py: a smoke run, alone and beside a stand-in for the peer, what it prints, and what it refuses."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "bench" / "unified_pool.py"
WORKERS = ROOT / "bench" / "peers"
TIMES = {"count", "least_us", "median_us", "p90_us"}
SMALL = {"total_bytes": 2**20, "page_size": 16, "kv_page_bytes": 2**14, "state_bytes": 2**16}


def run(*arguments: object, script: Path = BENCH) -> subprocess.CompletedProcess[str]:
    """Run a script."""
    return subprocess.run([sys.executable, str(script), *map(str, arguments)], capture_output=True, text=True)


def replayed(folder: Path, *ops: dict[str, Any], **header: Any) -> dict[str, Any]:
    """What our worker says of a trace."""
    file = folder / "trace.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in [{**SMALL, **header}, *ops]))
    done = run(file, script=WORKERS / "poolproof_worker.py")
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The result of a smoke run; the peer is our own worker under another name."""
    folder = tmp_path_factory.mktemp("bench")
    python = folder / "python"
    ours = f"exec {sys.executable} {WORKERS / 'poolproof_worker.py'} $2"
    python.write_text(f'#!/bin/sh\nif [ "$1" = -c ]; then exit 0; fi\n{ours}\n')
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    done = run("--smoke", "--peer", python, "--json", folder / "result.json")
    assert done.returncode == 0, done.stderr
    return folder / "result.json"


def test_a_result_says_what_was_measured_where_and_of_what(smoke: Path) -> None:
    result = json.loads(smoke.read_text())
    assert {"what", "date", "command", "python", "versions", "machine", "load", "source", "goal"} <= set(result)
    assert result["smoke"]
    assert result["peer"] == "sglang"
    assert set(result["versions"]) == {"poolproof", "sglang"}


def test_every_operation_is_compared(smoke: Path) -> None:
    rows = json.loads(smoke.read_text())["operations"]
    assert {row["data"] for row in rows} == {False, True}
    for row in rows:
        assert set(row["ours"]) >= TIMES
        assert row["ours"]["count"] > 0
        for side in ("peer", "peer_without_ranges"):
            assert set(row[side]) == {*TIMES, "ratio", "ratio_by_round", "met"}
            assert row[side]["ratio"]["median_us"] == pytest.approx(
                row["ours"]["median_us"] / row[side]["median_us"], abs=1e-4
            )


def test_room_is_the_same_for_the_same_pool(smoke: Path) -> None:
    room = json.loads(smoke.read_text())["room"]
    by_pool: dict[str, list[Any]] = {}
    for found in room["runs"]:
        assert found["admitted"] + found["refused"] == room["requests"]
        assert 0 < found["most_of_the_buffer"] <= 1
        by_pool.setdefault(found["pool"], []).append({key: found[key] for key in ("what", "admitted", "most")})
    assert by_pool["poolproof"] == by_pool["sglang"]
    assert len(by_pool["poolproof"]) == 2


def test_every_work_has_a_time_at_every_size(smoke: Path) -> None:
    rows = json.loads(smoke.read_text())["sizes"]
    assert len(rows) == len({row["work"] for row in rows}) * len({row["pages"] for row in rows})
    assert all(0 < row["least_us"] <= row["median_us"] <= row["p90_us"] for row in rows)


def test_a_result_is_shown(smoke: Path) -> None:
    done = run("--show", smoke)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("smoke run, its times mean nothing")
    assert "STALE" not in done.stdout
    assert done.stdout.count("|---|") == 4
    older = json.loads(smoke.read_text()) | {"source": "0"}
    smoke.with_name("older.json").write_text(json.dumps(older))
    assert "STALE" in run("--show", smoke.with_name("older.json")).stdout


def test_without_a_peer_ours_is_measured_alone_and_said_so(tmp_path: Path) -> None:
    trace = tmp_path / "requests.jsonl"
    one = {"timestamp": 0, "input_length": 600, "output_length": 3, "hash_ids": [1, 2]}
    trace.write_text(json.dumps(one) + "\n")
    done = run("--smoke", "--trace", trace, "--json", tmp_path / "result.json")
    assert done.returncode == 0, done.stderr
    assert "The peer was left out" in done.stdout
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["peer"] == "skipped: no --peer"
    assert all("peer" not in row for row in result["operations"])
    assert result["room"]["trace"] == "requests.jsonl"
    assert [found["most"]["pages"] for found in result["room"]["runs"]] == [38, 38]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--smok",), "unrecognized"),
        (("--smoke", "--show", "x"), "not allowed"),
        (("--show", "no-such-file"), "no result of this program"),
        (("--show", BENCH), "no result of this program"),
        (("--show", "x", "--peer", sys.executable), "leave the other options out"),
        (("--json", "no-such-folder/x.json"), "no folder"),
        (("--smoke", "--trace", "no-such-file"), "no-such-file"),
        (("--smoke", "--trace", BENCH), "no request"),
        (("--peer", "no-such-python"), "no python that has sglang"),
        (("--peer", "false"), "no python that has sglang"),
    ],
)
def test_wrong_use_is_told(arguments: tuple[object, ...], said: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr


def test_a_worker_times_every_kind_and_counts_what_is_refused(tmp_path: Path) -> None:
    result = replayed(
        tmp_path,
        {"op": "alloc", "pool": "full", "id": 1, "n": 4},
        {"op": "alloc", "pool": "state", "id": 2, "n": 1},
        {"op": "extend", "id": [3, 4], "old": [0, 0], "new": [17, 3]},
        {"op": "extend", "id": [3, 4], "old": [17, 3], "new": [18, 4]},
        {"op": "admit", "id": 5, "pages": 2, "states": 1},
        {"op": "admit", "id": 6, "pages": 10**6, "states": 1},
        {"op": "free", "id": 6},
        {"op": "cycle", "n": 3},
        {"op": "free", "id": 1, "as": "mine"},
        {"op": "flush"},
        {"op": "flush", "urgent": True},
        {"op": "free", "id": 5},
        passes=2,
        data=True,
    )
    plain = {kind for kind in result["timings"] if "_with_" not in kind}
    assert plain == {
        *("alloc_full", "alloc_state", "extend", "decode", "admit", "admit_refused", "cycle", "mine"),
        *("flush", "flush_urgent", "free_admitted"),
    }
    assert result["timings"]["cycle"]["count"] == 2
    assert result["refused"] == {"admit": 2}
    assert result["first_refused"] == 5
    assert result["skipped"] == 2
    assert result["most"] == {"pages": 9, "slots": 2, "bytes": 9 * 2**14 + 2 * 2**16}
    assert result["violations"] == []


def test_a_handle_is_not_begun_twice(tmp_path: Path) -> None:
    op = {"op": "alloc", "pool": "full", "id": 1, "n": 1}
    (tmp_path / "trace.jsonl").write_text("".join(json.dumps(line) + "\n" for line in [SMALL, op, op]))
    done = run(tmp_path / "trace.jsonl", script=WORKERS / "poolproof_worker.py")
    assert done.returncode == 1
    assert "handle 1 is in use" in done.stderr
