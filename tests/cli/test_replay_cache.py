"""`poolproof replay --cache` as a user meets it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., subprocess.CompletedProcess[str]]

MODEL = ("--cache", "--model", "Qwen3-Next-80B-A3B")
MADE = ("--synthetic", "30", "--seed", "4", *MODEL, "--bytes", "5GiB")


def test_a_cache_replays_a_request_trace_and_reports_its_figures(poolproof: Command, tmp_path: Path) -> None:
    options = ("--policy", "both", "--every", "2", "--check-every", "9", "--page-size", "128", "--prefill-us", "5")
    said = json.loads(poolproof("replay", *MADE, *options, "--json", cwd=tmp_path).stdout)
    assert (said["kind"], said["verdict"]) == ("cache", "passed")
    assert (said["model"], said["bytes"], said["checkpoints"]) == ("Qwen3-Next-80B-A3B", 5 << 30, "int8")
    assert (said["policy"], said["every"], said["page_size"], said["prefill_us"]) == ("both", 2, 128, 5.0)
    assert (said["static"], said["static_bytes"], said["state_dtype"]) == (None, 0, "bfloat16")
    assert (said["capacity_factor"], said["capacity_factor_decimal"]) == ("134/71", 1.887324)
    assert (said["requests"], said["done"], said["refusals"], said["violations"]) == (30, 30, 0, [])
    assert said["cached_tokens"] + said["prefilled_tokens"] == said["prompt_tokens"]
    assert 0 < said["token_hit_rate"] < 1
    assert 0 < said["request_hit_rate"] < 1
    assert set(said["peak_bytes"]) == {"full", "state", "checkpoint", "together"}
    for name in ("waits", "hits", "kept", "deduplicated", "skipped", "duplicate_pages", "evictions", "evicted_pages"):
        assert said[name] >= 0
    for name in ("cached_at_end", "steps", "most_running", "checks", "seconds", "virtual_seconds"):
        assert said[name] > 0
    again = said["reproduce"].split()[1:]
    repeated = json.loads(poolproof(*again, "--json", cwd=tmp_path).stdout)
    assert {**repeated, "seconds": 0} == {**said, "seconds": 0}


def test_plain_copies_in_a_split_as_text(poolproof: Command, tmp_path: Path) -> None:
    options = ("--static", "0.25", "--checkpoints", "none", "--policy", "ends", "--limit", "9")
    done = poolproof("replay", *MADE, *options, cwd=tmp_path)
    first, *_, last = done.stdout.splitlines()
    assert first.startswith("9 requests through a prefix cache over 5.0 GiB of Qwen3-Next-80B-A3B, 1.2 GiB of them for")
    for part in ("at the end of the last full block of a prompt", "plain copies of states", "factor 1 = 1.000000"):
        assert part in done.stdout
    for part in ("hit rate", "of tokens", "of requests", "computed", "kept", "evictions", "peak bytes", "refusals"):
        assert part in done.stdout
    assert "violations   0" in done.stdout
    assert last == "passed"
    assert done.stderr == ""


def test_a_failure_is_exit_code_1_with_the_command_that_gives_it_again(poolproof: Command, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "from poolproof.violation import Violation\n"
        "from poolproof.state_cache import StateCache\n"
        "StateCache.check = lambda cache: [Violation('I1', 'planted', 'nothing is wrong')]\n"
    )
    options = ("--static", "0.25", "--limit", "9")
    done = poolproof("replay", *MADE, *options, cwd=tmp_path, status=1, PYTHONPATH=str(tmp_path))
    assert "planted" in done.stdout
    command = "poolproof replay --synthetic 30 --seed 4 --limit 9 --cache --model Qwen3-Next-80B-A3B"
    assert f"  reproduce: {command} --bytes 5368709120 --static 0.25" in done.stdout.splitlines()
    assert done.stdout.splitlines()[-1] == "failed"
    plain = json.loads(
        poolproof("replay", *MADE, *options, "--json", cwd=tmp_path, status=1, PYTHONPATH=str(tmp_path)).stdout
    )
    assert plain["verdict"] == "failed"
    assert plain["violations"][0]["claim"] == "planted"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--cache",), "--model"),
        (("--policy", "ends"), "--policy: only with --cache"),
        (("--model", "Qwen3-Next-80B-A3B", "--static", "0.5", "--every", "2"), "--every, --static: only with --cache"),
        (("--cache", "--slots", "9"), "--model"),
        ((*MODEL, "--slots", "9"), "bytes, not slots"),
        ((*MODEL, "--shadow"), "without the spec"),
        ((*MODEL, "--policy", "some"), "policy = 'some'; want one of blocks, ends, both"),
        ((*MODEL, "--policy", "ends", "--every", "2"), "leave it out"),
        ((*MODEL, "--every", "0"), "--every"),
        ((*MODEL, "--checkpoints", "fp8"), "checkpoints = 'fp8'; want one of int8, none"),
        ((*MODEL, "--static", "1"), "static = 1.0"),
        ((*MODEL, "--static", "half"), "--static"),
        ((*MODEL, "--page-size", "48"), "48 tokens"),
        ((*MODEL, "--tp", "3"), "tp = 3"),
        ((*MODEL, "--bytes", "1MiB"), "too small"),
        (("--cache", "--model", "gpt-oss-20b"), "no recurrent states"),
        (("--cache", "--model", "nothing"), "no model 'nothing'"),
    ],
)
def test_wrong_use_is_exit_code_2(arguments: tuple[str, ...], said: str, poolproof: Command, tmp_path: Path) -> None:
    done = poolproof("replay", "--synthetic", "3", *arguments, cwd=tmp_path, status=2)
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_saved_trace_goes_through_no_cache(poolproof: Command, tmp_path: Path) -> None:
    header = {"format": "poolproof-trace", "version": 1, "target": "slot-pool", "sizes": {"": 2}}
    (tmp_path / "t.jsonl").write_text(json.dumps(header) + "\n" + json.dumps({"op": "alloc", "n": 1}) + "\n")
    assert "a saved trace has" in poolproof("replay", "t.jsonl", *MODEL, cwd=tmp_path, status=2).stderr
