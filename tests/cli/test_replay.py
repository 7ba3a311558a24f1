"""`poolproof replay` as a user meets it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., subprocess.CompletedProcess[str]]

HEADER = {"format": "poolproof-trace", "version": 1, "target": "slot-pool", "sizes": {"": 2}}


def write(path: Path, *lines: object) -> str:
    """Write JSON lines; the file's name."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path.name


def test_a_saved_trace_that_no_longer_fails_passes(poolproof: Command, tmp_path: Path) -> None:
    name = write(tmp_path / "trace.jsonl", {**HEADER, "message": "it was so"}, {"op": "alloc", "n": 1})
    said = poolproof("replay", name, cwd=tmp_path).stdout
    assert "it was so" in said
    assert said.splitlines()[-1] == "passed"


def test_a_saved_trace_is_of_no_model(poolproof: Command, tmp_path: Path) -> None:
    name = write(tmp_path / "trace.jsonl", HEADER, {"op": "alloc", "n": 1})
    assert "--model" in poolproof("replay", name, "--model", "gpt-oss-20b", cwd=tmp_path, status=2).stderr


def test_a_saved_trace_that_fails_says_how(poolproof: Command, tmp_path: Path) -> None:
    sink = {"op": "free", "picks": [["sink"]]}
    name = write(tmp_path / "trace.jsonl", {**HEADER, "target": "canary-sink-freed"}, sink)
    said = poolproof("replay", name, cwd=tmp_path, status=1).stdout
    assert "violates I2" in said
    assert f"reproduce: poolproof replay {name}" in said


def test_a_made_up_request_trace_is_replayed_and_written(poolproof: Command, tmp_path: Path) -> None:
    made = ("--synthetic", "60", "--seed", "4", "--slots", "400")
    first = json.loads(poolproof("replay", *made, "--write", "t.jsonl.gz", "--json", cwd=tmp_path).stdout)
    assert first["verdict"] == "passed"
    assert first["requests"] == 60
    second = json.loads(poolproof("replay", "t.jsonl.gz", "--slots", "400", "--json", cwd=tmp_path).stdout)
    for report in (first, second):
        for name in ("seconds", "steps_per_second", "reproduce"):
            del report[name]
    assert first == second


def test_a_request_trace_as_text(poolproof: Command, tmp_path: Path) -> None:
    request = {"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": [0]}
    name = write(tmp_path / "trace.jsonl", request, request, request)
    done = poolproof("replay", name, "--limit", "2", cwd=tmp_path)
    assert done.stdout.startswith("2 requests through a pool")
    assert "violations  0" in done.stdout
    assert done.stdout.splitlines()[-1] == "passed"
    assert done.stderr == ""


def test_a_model_replays_a_request_trace_and_reports_its_figures(poolproof: Command, tmp_path: Path) -> None:
    made = ("--synthetic", "40", "--seed", "4", "--model", "Qwen3-Next-80B-A3B", "--bytes", "5GiB", "--tp", "2")
    said = json.loads(poolproof("replay", *made, "--check-every", "9", "--json", cwd=tmp_path).stdout)
    assert said["kind"] == "unified"
    assert said["verdict"] == "passed"
    assert (said["model"], said["bytes"], said["shadow"]) == ("Qwen3-Next-80B-A3B", 5 << 30, False)
    assert (said["requests"], said["done"], said["refusals"], said["violations"]) == (40, 40, 0, [])
    assert set(said["peak_bytes"]) == {"full", "state", "checkpoint", "together"}
    assert 0 < said["peak_bytes"]["state"] < said["peak_bytes"]["together"] <= 5 << 30
    assert set(said["pages_moved"]) == set(said["peak_bytes"])
    assert 0 <= said["hit_rate"] <= 1
    numbers = ("waits", "blocks", "hits", "evictions", "checkpoints", "checkpoints_not_kept", "compactions")
    for name in (*numbers, "urgent_compactions", "steps", "most_running", "checks", "seconds", "virtual_seconds"):
        assert said[name] >= 0
    again = said["reproduce"].split()[1:]
    assert json.loads(poolproof(*again, "--json", cwd=tmp_path).stdout)["steps"] == said["steps"]


def test_a_model_replays_with_the_spec_in_lockstep(poolproof: Command, tmp_path: Path) -> None:
    request = {"timestamp": 0, "input_length": 1030, "output_length": 1000, "hash_ids": [0, 1, 2]}
    name = write(tmp_path / "trace.jsonl", request, request, request | {"timestamp": 90_000})
    done = poolproof("replay", name, "--model", "Gemma-3-12B", "--shadow", "--bytes", "90", cwd=tmp_path)
    first, *_, last = done.stdout.splitlines()
    assert first.startswith("3 requests through 90 B of Gemma-3-12B, the spec in lockstep on small pages")
    assert "violations   0" in done.stdout
    assert "window" in done.stdout
    assert last == "passed"


def test_a_model_that_does_not_fit_is_one_line_with_numbers(poolproof: Command, tmp_path: Path) -> None:
    small = ("--synthetic", "3", "--model", "Qwen3-Next-80B-A3B", "--bytes", "1MiB")
    done = poolproof("replay", *small, cwd=tmp_path, status=2)
    assert "a buffer of 1048576 bytes is too small" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (({"timestamp": 0},), "line 1: no request"),
        (({**HEADER, "version": 9},), "line 1: a trace of version 9"),
        ((HEADER, {"op": "alloc"}), "line 2: no operation"),
        ((HEADER | {"target": "nothing"},), "no target 'nothing'"),
    ],
)
def test_a_corrupt_trace_is_one_line_and_exit_code_2(
    lines: tuple[object, ...], said: str, poolproof: Command, tmp_path: Path
) -> None:
    done = poolproof("replay", write(tmp_path / "trace.jsonl", *lines), cwd=tmp_path, status=2)
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("missing.jsonl",), "missing.jsonl"),
        ((".",), "directory"),
        ((), "--synthetic"),
        (("x.jsonl", "--synthetic", "3"), "--synthetic"),
        (("x.jsonl", "--write", "y.jsonl"), "--write"),
        (("--synthetic", "0"), "--synthetic"),
        (("--synthetic", "3", "--slots", "0"), "--slots"),
        (("--synthetic", "3", "--bytes", "1GiB"), "--model"),
        (("--synthetic", "3", "--shadow", "--tp", "2"), "--tp, --shadow"),
        (("--synthetic", "3", "--model", "gpt-oss-20b", "--slots", "3"), "bytes, not slots"),
        (("--synthetic", "3", "--model", "gpt-oss-20b", "--bytes", "many"), "is no number of bytes"),
        (("--synthetic", "3", "--model", "gpt-oss-20b", "--shadow", "--page-size", "8"), "--page-size"),
        (("--synthetic", "3", "--model", "gpt-oss-20b", "--page-size", "48"), "48 tokens"),
        (("--synthetic", "3", "--model", "gpt-oss-20b", "--tp", "3"), "tp = 3"),
        (("--synthetic", "3", "--model", "nothing"), "no model 'nothing'"),
    ],
)
def test_wrong_use_is_exit_code_2(arguments: tuple[str, ...], said: str, poolproof: Command, tmp_path: Path) -> None:
    assert said in poolproof("replay", *arguments, cwd=tmp_path, status=2).stderr
