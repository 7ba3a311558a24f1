"""bench/cache_payoff.py and docs/cache.md: a smoke run, and a page that says what the committed result says."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import poolproof as pp
from poolproof.cli.main import make_app
from poolproof.fuzz.cache_replay_result import EVERY

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "bench" / "cache_payoff.py"
RESULT = ROOT / "bench" / "results" / "cache_payoff.json"
PAGE = (ROOT / "docs" / "cache.md").read_text()
PLOT = ROOT / "docs" / "images" / "cache_payoff.svg"


def run(*arguments: object) -> str:
    """Run the bench; what it prints."""
    command = [sys.executable, str(BENCH), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def bench() -> Iterator[Any]:
    """The bench as a module."""
    spec = importlib.util.spec_from_file_location("cache_payoff_bench", BENCH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str]:
    """A smoke run: its result, and what it printed."""
    file = tmp_path_factory.mktemp("bench") / "result.json"
    printed = run("--smoke", "--json", file)
    assert run("--show", file) == printed
    return json.loads(file.read_text()), printed


def test_a_result_says_what_was_measured_and_of_what(smoke: tuple[dict[str, Any], str]) -> None:
    result, _ = smoke
    assert {"what", "date", "command", "python", "numpy", "poolproof", "source", "seconds"} <= set(result)
    assert result["smoke"]
    assert result["trace"]["name"] == "made up"
    assert (result["trace"]["requests"], result["trace"]["limit"]) == (40, None)


def test_arms_have_equal_bytes_and_passed(smoke: tuple[dict[str, Any], str]) -> None:
    result, _ = smoke
    arms = result["arms"]
    assert {row["table"] for row in arms} == {"memory", "policies", "splits", "models"}
    assert {row["verdict"] for row in arms} == {"passed"}
    for name, unlike in (("memory", ("static", "checkpoints")), ("policies", ("policy", "checkpoints"))):
        sizes: dict[int, set[tuple[Any, ...]]] = {}
        for row in arms:
            if row["table"] == name:
                sizes.setdefault(row["bytes"], set()).add(tuple(row[key] for key in unlike))
        assert len(sizes) == 2
        assert len({frozenset(kinds) for kinds in sizes.values()}) == 1
    assert all(row["peak_bytes"]["together"] <= row["bytes"] for row in arms)


def test_no_arm_hits_more_than_a_cache_without_bounds(smoke: tuple[dict[str, Any], str]) -> None:
    result, _ = smoke
    most = {(row["policy"], row["requests"]): row["cached_tokens"] for row in result["unbounded"]}
    assert all(0 < row["cached_tokens"] <= most[row["policy"], row["requests"]] for row in result["arms"])


def test_the_capacity_factors_are_exact(smoke: tuple[dict[str, Any], str]) -> None:
    result, printed = smoke
    for row in result["capacity"]:
        factor = Fraction(row["plain_bytes"], row["int8_bytes"])
        assert row["factor"] == str(factor)
        assert f"| {factor} | {float(factor):.6f} |" in printed
    assert {row["factor"] for row in result["capacity"] if row["model"] == "Qwen3-Next-80B-A3B"} == {"134/71", "131/36"}


def test_a_request_costs_what_it_computes_stores_and_loads(smoke: tuple[dict[str, Any], str]) -> None:
    result, _ = smoke
    known = result["costs"]
    for row in result["sweep"]:
        length = row["prefix_tokens"] + 256
        assert row["ms_without"] == pytest.approx(length * known["recompute_us_a_token"] / 1e3)
        assert row["prefilled_tokens"] == row["requests"] * length - row["hits"] * row["prefix_tokens"]
        copies = sum(row[n] * known[f"{row['codec']}_{way}_us"] for n, way in (("kept", "store"), ("hits", "load")))
        spent = row["prefilled_tokens"] * known["recompute_us_a_token"] + copies
        assert row["ms_a_request"] == pytest.approx(spent / row["requests"] / 1e3, abs=1e-4)
        assert row["kept"] == row["requests"] - row["hits"]


def test_the_costs_are_those_that_were_measured(smoke: tuple[dict[str, Any], str]) -> None:
    known = smoke[0]["costs"]
    measured = json.loads((ROOT / "bench" / "results" / known["from"]).read_text())
    for codec, kind in (("int8", "int8, one buffer"), ("none", "copies, one buffer")):
        for way, work in (("store", "donate"), ("load", "hit")):
            (device,) = (r for r in measured["device"] if (r["kind"], r["work"]) == (kind, work))
            (host,) = (r for r in measured["host"] if (r["kind"], r["work"], r["way"]) == (kind, work, "idle"))
            assert known[f"{codec}_{way}_us"] == pytest.approx(device["cold_us"] + host["median_us"], abs=0.01)


def test_prefixes_are_drawn_as_asked(bench: Any) -> None:
    made = bench.prefixed(5, 1024, 400, "uniform", 3)
    assert made == bench.prefixed(5, 1024, 400, "uniform", 3)
    assert made != bench.prefixed(5, 1024, 400, "uniform", 4)
    assert [request.hash_ids[:2] for request in made[:5]] == [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]
    assert len({request.hash_ids[2] for request in made}) == len(made) == 405
    counts = [[r.hash_ids[0] for r in bench.prefixed(5, 512, 400, law, 0)[5:]].count(0) for law in ("uniform", "zipf")]
    assert 50 < counts[0] < 110
    assert 140 < counts[1] < 210


def test_what_a_cache_without_bounds_hits(bench: Any) -> None:
    made = [
        bench.Request(0, length, 1, ids) for length, ids in ((1100, (0, 1, 2)), (1600, (0, 1, 3, 4)), (1024, (0, 1)))
    ]
    assert [bench.unbounded(made, policy)["cached_tokens"] for policy in ("ends", "blocks")] == [1024, 1024 + 512]


def test_a_plot_is_the_same_for_the_same_result(bench: Any, smoke: tuple[dict[str, Any], str], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for name in ("a.svg", "b.svg"):
        bench.draw(smoke[0], tmp_path / name)
    text = (tmp_path / "a.svg").read_text()
    assert text == (tmp_path / "b.svg").read_text()
    assert bench.digest(smoke[0]) in text


# ------------------------------------------------------------------------------------------------------------- the page


def test_the_page_and_the_plot_are_those_of_the_committed_result(bench: Any) -> None:
    result = json.loads(RESULT.read_text())
    (part,) = re.findall(r"<!-- begin cache payoff -->\n(.*?)\n<!-- end cache payoff -->", PAGE, re.S)
    assert part == bench.markdown(result)
    assert bench.digest(result) in PLOT.read_text()
    assert not result["smoke"]
    assert {row["verdict"] for row in result["arms"]} == {"passed"}


def test_the_sizes_on_the_page_are_those_of_the_result() -> None:
    result, text = json.loads(RESULT.read_text()), " ".join(PAGE.split())
    row = next(each for each in result["capacity"] if each["state_dtype"] == "bfloat16")
    kv, plain, codes = (row[name] for name in ("kv_bytes_a_token", "plain_bytes", "int8_bytes"))
    assert f"as the KV of {codes / kv:,.0f} tokens in int8, and of {plain / kv:,.0f} as a copy" in text
    short, middle, long = (f"{(n * kv + plain) / (n * kv + codes):.2f} times" for n in (512, 2048, 8192))
    assert f"{short} as many prefixes of 512 tokens" in text
    assert f"{middle} as many of 2,048 tokens, {long} as many of 8,192" in text
    assert f"at every block it is {short} for all lengths" in text
    assert f"have {result['trace']['prompt_tokens'] / result['trace']['requests']:,.0f} tokens on average" in text


def test_the_example_runs() -> None:
    (program,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.S | re.M)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.findall(r"^# (.*)$", program, re.M) == done.stdout.splitlines()


def test_the_calls_exist() -> None:
    (table,) = re.findall(r"\| call \| does \|\n\|---\|---\|\n(.*?)\n\n", PAGE, re.S)
    called = [name for row in table.splitlines() for name in re.findall(r"`(?:cache\.)?(\w+)", row.split("|")[1])]
    assert len(called) > 12
    assert [name for name in called if not hasattr(pp.StateCache, name)] == []


def test_the_options_exist_and_have_the_defaults_that_the_page_says() -> None:
    said = CliRunner().invoke(make_app(), ["replay", "--help"], env={"COLUMNS": "200"}).output
    named = set(re.findall(r"(--[a-z][a-z-]*)", PAGE))
    assert len(named) > 10
    assert [name for name in named if name not in said and f'"{name}"' not in BENCH.read_text()] == []
    assert EVERY == {"blocks": 1, "both": 8}
