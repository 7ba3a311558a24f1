"""Does a cache of checkpoints pay, and int8 ones more than plain copies? `python bench/cache_payoff.py --trace FILE`.

Replays a request trace through `poolproof.StateCache` at a model's full sizes, in pools without bytes, over a number of
settings: bytes, int8 checkpoints beside plain copies, one buffer beside a fixed split, and policies. Then made-up
requests whose prompts begin with one of N prefixes, over N: hit rates from the replay, times from measured costs of
storing and loading a checkpoint (bench/results/checkpoint_pool.json) against a stated cost of computing a token.

Without `--trace` a trace of 12,000 requests is made up. `--show FILE` prints a result as Markdown, with `--plot SVG` it
is drawn there too, which needs matplotlib, and `--docs` puts both into docs/. `--smoke` is a run at tiny sizes.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import platform
import re
import sys
from bisect import bisect
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from fractions import Fraction
from importlib.metadata import version
from itertools import accumulate
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Any

from poolproof.fuzz.cache_replay import replay_cache
from poolproof.fuzz.cache_replay_result import CacheSetting
from poolproof.fuzz.mooncake import BLOCK_TOKENS, Request, read_requests
from poolproof.fuzz.synthetic import make_requests
from poolproof.model_pools import sub_pools_for
from poolproof.spec.models import MODELS
from poolproof.sub_pools import resolve

ROOT = Path(__file__).resolve().parent.parent
COSTS = ROOT / "bench" / "results" / "checkpoint_pool.json"
RESULT = ROOT / "bench" / "results" / "cache_payoff.json"
PAGE, PLOT, PART = ROOT / "docs" / "cache.md", ROOT / "docs" / "images" / "cache_payoff.svg", "cache payoff"

MODEL = "Qwen3-Next-80B-A3B"
MORE_MODELS = ("Kimi-Linear-48B-A3B", "Falcon-H1-34B")
DTYPE = "bfloat16"
GIB = 1 << 30
RECOMPUTE_US = 20.0
RECOMPUTE_WHY = (
    "an assumption, nothing measured: 6 GFLOP a token (3e9 active parameters) at 30 % of the 989 TFLOP/s that the "
    "data sheet of the H200 has for dense bfloat16; attention over the prefix comes on top and is left out"
)
REPLICAS = 8
"""Devices that serve a trace together, each at RECOMPUTE_US a token."""
SUFFIX, OUTPUT = 256, 16
"""Tokens of a made-up prompt behind its prefix, and of its output."""


@dataclass(frozen=True)
class Plan:
    """Sizes of a run.

    Attributes:
        made_up: requests of the trace where none is given.
        memory: bytes of the arms over memory.
        splits: parts of the bytes that a fixed split gives to checkpoints; the first one over memory.
        first: requests of the trace for the arms over policies, splits and models; it is cut there.
        policy_memory: bytes of the arms over policies; those over splits and models take the middle one.
        sweep_bytes: of the pool that the prefixes go through.
        prefix_tokens: lengths of the prefixes; under Zipf's law the first alone.
        prefixes: numbers of distinct prefixes.
        requests: made-up ones that are counted, after one of each prefix.
        seed: of the made-up ones.
    """

    made_up: int = 12_000
    memory: tuple[int, ...] = (64 * GIB, 128 * GIB, 256 * GIB, 512 * GIB)
    splits: tuple[float, ...] = (1 / 8, 1 / 16, 1 / 4, 1 / 2, 5 / 8)
    first: int = 2_000
    policy_memory: tuple[int, ...] = (64 * GIB, 128 * GIB, 256 * GIB)
    sweep_bytes: int = 16 * GIB
    prefix_tokens: tuple[int, ...] = (512, 2048, 8192)
    prefixes: tuple[int, ...] = (32, 64, 96, 128, 192, 256, 320, 384, 512, 768, 1024)
    requests: int = 1_000
    seed: int = 0


SMOKE = Plan(40, (5 * GIB, 8 * GIB), (1 / 4, 1 / 2), 20, (5 * GIB, 6 * GIB), 1 * GIB, (512, 1024), (4, 40), 30)


# ---------------------------------------------------------------------------------------------------------------- arms


@dataclass(frozen=True)
class Arm:
    """One replay of the trace, or of its first requests."""

    table: str
    setting: CacheSetting
    limit: int | None = None


def arms(plan: Plan) -> list[Arm]:
    """All replays of the trace."""
    base = CacheSetting(MODEL, state_dtype=DTYPE, prefill_us=RECOMPUTE_US / REPLICAS, check_every=1024, policy="ends")
    found = []
    for size in plan.memory:
        for static in (None, plan.splits[0]):
            for codec in ("none", "int8"):
                setting = replace(base, total_bytes=size, checkpoints=codec, static=static)
                found.append(Arm("memory", setting))
    for size in plan.policy_memory:
        for policy in ("ends", "both", "blocks"):
            for codec in ("none", "int8"):
                setting = replace(base, total_bytes=size, checkpoints=codec, policy=policy)
                found.append(Arm("policies", setting, plan.first))
    middle = plan.policy_memory[len(plan.policy_memory) // 2]
    for policy in ("ends", "blocks"):
        for static in sorted(plan.splits):
            setting = replace(base, total_bytes=middle, policy=policy, static=static)
            found.append(Arm("splits", setting, plan.first))
    for model in MORE_MODELS:
        for codec in ("none", "int8"):
            setting = replace(base, model=model, total_bytes=middle, checkpoints=codec)
            found.append(Arm("models", setting, plan.first))
    return found


_trace: list[Request] = []


def take(requests: list[Request]) -> None:
    """The trace of this process."""
    _trace[:] = requests


def replayed(arm: Arm) -> dict[str, Any]:
    """The figures of one arm.

    Raises:
        SystemExit: something was violated.
    """
    result = replay_cache(_trace[: arm.limit], arm.setting)
    if not result.passed:
        raise SystemExit(f"{arm}: {result.violations}")
    return {"table": arm.table, **result.plain()}


def unbounded(requests: Sequence[Request], policy: str) -> dict[str, Any]:
    """Tokens that a cache without bounds would restore, if each request ended before the next one came."""
    setting, kept, tokens = CacheSetting(MODEL, policy=policy), set[int](), 0  # type: ignore[arg-type]
    for request in requests:
        stops = [stop // BLOCK_TOKENS for stop in setting.stops(request.input_length)]
        most = (request.input_length - 1) // BLOCK_TOKENS
        tokens += BLOCK_TOKENS * next((n for n in range(most, 0, -1) if request.hash_ids[n - 1] in kept), 0)
        kept.update(request.hash_ids[stop - 1] for stop in stops)
    prompts = sum(request.input_length for request in requests)
    return {"policy": policy, "requests": len(requests), "cached_tokens": tokens, "prompt_tokens": prompts}


# --------------------------------------------------------------------------------------------------------------- costs


def layouts_of(model: str, dtype: str) -> dict[str, int]:
    """Bytes of a page of each sub-pool, for pages of one token."""
    declared = sub_pools_for(model, page_size=1, temporal_dtype=dtype, checkpoints=True)
    return {layout.name: layout.page_bytes for layout in resolve(declared)}


def capacities() -> list[dict[str, Any]]:
    """Of every shipped model with states: bytes of a plain copy and of an int8 checkpoint, and how many times more."""
    found = []
    for model in (each for each in MODELS.values() if each.count("LB")):
        for dtype in ("bfloat16", "float32"):
            sizes = layouts_of(model.name, dtype)
            factor = Fraction(sizes["state"], sizes["checkpoint"])
            row = {"model": model.name, "state_dtype": dtype, "plain_bytes": sizes["state"]}
            row |= {"int8_bytes": sizes["checkpoint"], "kv_bytes_a_token": sizes["full"]}
            found.append(row | {"factor": str(factor), "factor_decimal": round(float(factor), 6)})
    return found


def costs(measured: dict[str, Any]) -> dict[str, Any]:
    """Microseconds of a donation and of a hit, from a result of bench/checkpoint_pool.py; device and host add up.

    Both sub-pools are in one buffer. The host is that of a call on an idle device in the median.
    """
    device = {(row["kind"], row["work"]): row["cold_us"] for row in measured["device"]}
    host = {(row["kind"], row["work"]): row["median_us"] for row in measured["host"] if row["way"] == "idle"}
    found: dict[str, Any] = {"from": COSTS.name, "card": measured["card"], "date": measured["date"]}
    for codec, kind in (("int8", "int8, one buffer"), ("none", "copies, one buffer")):
        for way, work in (("store", "donate"), ("load", "hit")):
            found[f"{codec}_{way}_us"] = round(device[kind, work] + host[kind, work], 2)
    found |= {"recompute_us_a_token": RECOMPUTE_US, "recompute_why": RECOMPUTE_WHY}
    found["int8_hit_pays_from_tokens"] = round(found["int8_load_us"] / RECOMPUTE_US, 2)
    return found


# --------------------------------------------------------------------------------------------------------------- sweep


def prefixed(count: int, tokens: int, requests: int, law: str, seed: int) -> list[Request]:
    """One request of each prefix, then so many drawn at random: uniformly, or by Zipf's law.

    Prompts are a prefix and a part of their own; each comes when the one before is over.
    """
    random = Random(f"prefixes/{law}/{count}/{tokens}/{seed}")
    weights = list(accumulate(1 / rank if law == "zipf" else 1.0 for rank in range(1, count + 1)))
    drawn = [bisect(weights, random.random() * weights[-1]) for _ in range(requests)]
    blocks, made = tokens // BLOCK_TOKENS, []
    for number, prefix in enumerate([*range(count), *drawn]):
        ids = (*range(prefix * blocks, (prefix + 1) * blocks), count * blocks + number)
        made.append(Request(number * 2_000, tokens + SUFFIX, OUTPUT, ids))
    return made


@dataclass(frozen=True)
class Point:
    """One point of the sweep."""

    law: str
    prefixes: int
    prefix_tokens: int
    codec: str
    plan: Plan


def points(plan: Plan) -> Iterator[Point]:
    """All points of the sweep."""
    for law, lengths in (("uniform", plan.prefix_tokens), ("zipf", plan.prefix_tokens[:1])):
        for tokens in lengths:
            for count in plan.prefixes:
                for codec in ("none", "int8"):
                    yield Point(law, count, tokens, codec, plan)


def swept(point: Point) -> dict[str, Any]:
    """Hits and stores of the requests that come after one of each prefix."""
    plan = point.plan
    made = prefixed(point.prefixes, point.prefix_tokens, plan.requests, point.law, plan.seed)
    setting = CacheSetting(MODEL, plan.sweep_bytes, policy="ends", checkpoints=point.codec, check_every=1024)  # type: ignore[arg-type]
    before, after = replay_cache(made[: point.prefixes], setting), replay_cache(made, setting)
    if not (before.passed and after.passed):
        raise SystemExit(f"{point}: {before.violations or after.violations}")
    row = {"law": point.law, "prefix_tokens": point.prefix_tokens, "prefixes": point.prefixes, "codec": point.codec}
    row["requests"] = plan.requests
    for name in ("hits", "kept", "evictions", "prefilled_tokens"):
        row[name] = getattr(after, name) - getattr(before, name)
    return row


def priced(row: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    """The row with milliseconds a request: with the cache, and without one."""
    stores, loads = (known[f"{row['codec']}_{way}_us"] for way in ("store", "load"))
    computed = row["prefilled_tokens"] * known["recompute_us_a_token"]
    spent = computed + row["kept"] * stores + row["hits"] * loads
    without = (row["prefix_tokens"] + SUFFIX) * known["recompute_us_a_token"]
    return row | {"ms_a_request": round(spent / row["requests"] / 1e3, 4), "ms_without": round(without / 1e3, 4)}


# ---------------------------------------------------------------------------------------------------------------- a run


def source_hash() -> str:
    """What was measured: a digest of the cache, the pools, the replay and this file."""
    files = [*sorted((ROOT / "impl").glob("*.py")), *sorted((ROOT / "fuzz").glob("cache_replay*.py"))]
    files.append(Path(__file__).resolve())
    return hashlib.sha256(b"".join(file.name.encode() + file.read_bytes() for file in files)).hexdigest()[:16]


def command_of(trace: Path | None, limit: int | None, plan: Plan) -> str:
    """What gives the result again."""
    given = [("--smoke", plan == SMOKE), ("--trace FILE", trace), (f"--limit {limit}", limit), ("--json FILE", True)]
    return " ".join(["python bench/cache_payoff.py", *(text for text, is_given in given if is_given)])


def measure(trace: Path | None, limit: int | None, plan: Plan, jobs: int) -> dict[str, Any]:
    """One run."""
    started = perf_counter()
    requests = make_requests(plan.made_up, plan.seed) if trace is None else read_requests(trace)
    requests = requests[:limit]
    known = costs(json.loads(COSTS.read_text()))
    listed, sweep = arms(plan), list(points(plan))
    take(requests)
    with ProcessPoolExecutor(jobs, initializer=take, initargs=(requests,)) as workers:
        found = list(shown((workers.map if jobs > 1 else map)(replayed, listed), "arms", len(listed)))
        swept_rows = list(shown((workers.map if jobs > 1 else map)(swept, sweep), "points", len(sweep)))
    return {
        "what": "a prefix cache of a hybrid model under a request trace: replays in virtual time, pools without bytes",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": command_of(trace, limit, plan),
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "poolproof": version("poolproof"),
        "source": source_hash(),
        "smoke": plan == SMOKE,
        "seconds": 0.0,
        "trace": {
            "name": "made up" if trace is None else "a Mooncake trace",
            "requests": len(requests),
            "limit": limit,
            "prompt_tokens": sum(request.input_length for request in requests),
            "output_tokens": sum(request.output_length for request in requests),
            "seconds": (requests[-1].timestamp - requests[0].timestamp) / 1e3,
        },
        "first": plan.first,
        "seed": plan.seed,
        "replicas": REPLICAS,
        "costs": known,
        "capacity": capacities(),
        "unbounded": [
            unbounded(requests[:n], policy) for n in (None, plan.first) for policy in ("ends", "both", "blocks")
        ],
        "arms": found,
        "sweep_bytes": plan.sweep_bytes,
        "sweep": [priced(row, known) for row in swept_rows],
    } | {"seconds": round(perf_counter() - started, 1)}


def shown(rows: Any, what: str, of: int) -> Iterator[dict[str, Any]]:
    """The rows, counted on a terminal while they come."""
    for number, row in enumerate(rows, 1):
        if sys.stderr.isatty():
            print(f"\r{number} of {of} {what} ", end="" if number < of else "\n", file=sys.stderr, flush=True)
        yield row


# -------------------------------------------------------------------------------------------------------------- tables

CHECKPOINTS = {"none": f"{DTYPE} copies", "int8": "int8"}
POLICIES = {"ends": "prompt ends", "both": "every 8th block, prompt ends", "blocks": "every block"}
"""What tables and plots call them."""


def table(head: Sequence[str], rows: Sequence[Sequence[str]], texts: int) -> str:
    """A Markdown table whose first columns are texts, the others numbers."""
    lines = [head, *rows]
    made = ["| " + " | ".join(line) + " |" for line in lines]
    made.insert(1, "|---" * texts + "|---:" * (len(head) - texts) + "|")
    return "\n".join(made)


def gib(size: float) -> str:
    """Bytes in GiB."""
    return f"{size / GIB:,.1f}"


def whole_gib(size: float) -> str:
    """Bytes in GiB, without a fraction where there is none."""
    return gib(size).removesuffix(".0")


def buffer_of(row: dict[str, Any]) -> str:
    """One buffer, or a fixed split."""
    return "one" if row["static"] is None else f"split, {Fraction(row['static'])} checkpoints"


def arm_cells(row: dict[str, Any], possible: dict[tuple[str, int], int]) -> list[str]:
    """The figures that all tables of arms have."""
    peak, most = row["peak_bytes"], possible[row["policy"], row["requests"]]
    return [
        f"{row['token_hit_rate']:.2%}",
        f"{row['cached_tokens'] / most:.1%}",
        f"{row['request_hit_rate']:.1%}",
        f"{row['prefilled_tokens'] / 1e6:,.2f}",
        f"{row['kept']:,}",
        f"{row['evictions']:,}",
        f"{row['skipped']:,}",
        *(gib(peak[name]) for name in ("full", "checkpoint", "state")),
    ]


ARM_HEAD = (
    "tokens hit",
    "of all possible",
    "requests hit",
    "M tokens computed",
    "checkpoints stored",
    "evicted",
    "skipped",
    "peak GiB: KV",
    "checkpoints",
    "states",
)


def arms_table(result: dict[str, Any], rows: Sequence[dict[str, Any]], head: Sequence[str], cells: Any) -> str:
    """A table of arms, each with some cells in front."""
    possible = {(row["policy"], row["requests"]): row["cached_tokens"] for row in result["unbounded"]}
    return table([*head, *ARM_HEAD], [[*cells(row), *arm_cells(row, possible)] for row in rows], len(head))


def rows_of(result: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """The arms of a table; beside splits and other models stand the one buffer and the model of the policies."""
    rows = [row for row in result["arms"] if row["table"] == name]
    if name in ("memory", "policies"):
        return rows
    beside = [row for row in rows_of(result, "policies") if row["bytes"] == rows[0]["bytes"]]
    if name == "models":
        return [row for row in beside if row["policy"] == rows[0]["policy"]] + rows
    policies = dict.fromkeys(row["policy"] for row in rows)
    both = [row for row in beside if row["checkpoints"] == rows[0]["checkpoints"]] + rows
    return [row for policy in policies for row in both if row["policy"] == policy]


def capacity_table(result: dict[str, Any]) -> str:
    """Bytes by model."""
    head = ("model", "states", "plain copy, B", "int8, B", "factor", "", "KV, B a token")
    rows = [
        [
            row["model"],
            row["state_dtype"],
            f"{row['plain_bytes']:,}",
            f"{row['int8_bytes']:,}",
            row["factor"],
            f"{row['factor_decimal']:.6f}",
            f"{row['kv_bytes_a_token']:,}",
        ]
        for row in result["capacity"]
    ]
    return table(head, rows, 2)


def sweep_table(result: dict[str, Any]) -> str:
    """Over prefixes: hit rates, and milliseconds a request."""
    head = ("drawn", "prefix tokens", "prefixes", "hits bfloat16", "hits int8")
    head += ("ms without a cache", "ms bfloat16", "ms int8", "bfloat16 / int8")
    pairs: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in result["sweep"]:
        pairs.setdefault((row["law"], row["prefix_tokens"], row["prefixes"]), {})[row["codec"]] = row
    rows = []
    for (law, tokens, prefixes), pair in pairs.items():
        plain, codes = pair["none"], pair["int8"]
        rates = [f"{row['hits'] / row['requests']:.1%}" for row in (plain, codes)]
        times = [plain["ms_without"], plain["ms_a_request"], codes["ms_a_request"]]
        ratio = plain["ms_a_request"] / codes["ms_a_request"]
        if not is_all_hit(plain, codes):
            rows.append([law, str(tokens), str(prefixes), *rates, *(f"{ms:.2f}" for ms in times), f"{ratio:.2f}"])
    return table(head, rows, 1)


def is_all_hit(*rows: dict[str, Any]) -> bool:
    """Do all prefixes fit, so that every request hits?"""
    return all(row["hits"] == row["requests"] for row in rows)


def costs_text(result: dict[str, Any]) -> str:
    """What a store, a hit and a token cost."""
    known = result["costs"]
    rows = [
        [CHECKPOINTS[codec], *(f"{known[f'{codec}_{way}_us']:.1f}" for way in ("store", "load"))]
        for codec in ("none", "int8")
    ]
    return (
        f"{table(('checkpoint', 'store, us', 'load, us'), rows, 1)}\n\n"
        f"From `bench/results/{known['from']}` ({known['card']}, {known['date']}): a donation and a hit with a cold "
        f"cache, device and host one after the other. A computed token: {known['recompute_us_a_token']:g} us, "
        f"{known['recompute_why']}. So an int8 hit pays from {known['int8_hit_pays_from_tokens']:g} tokens on."
    )


def about(result: dict[str, Any]) -> str:
    """What was measured, where."""
    trace, row = result["trace"], result["arms"][0]
    cut = "" if trace["limit"] is None else f" (cut to the first {trace['limit']:,})"
    return (
        f"{MODEL}, states of {DTYPE}, pages of {row['page_size']} tokens; python {result['python']}, numpy "
        f"{result['numpy']}, {result['date']}, source {result['source']}. Trace: {trace['name']}, "
        f"{trace['requests']:,} requests{cut} in {trace['seconds']:,.0f} s, {trace['prompt_tokens']:,} tokens of "
        f"prompts; a computed token takes {row['prefill_us']:g} us of virtual time."
    )


def kind_of(row: dict[str, Any]) -> str:
    """What checkpoints are."""
    return CHECKPOINTS[row["checkpoints"]]


def arms_text(result: dict[str, Any]) -> list[str]:
    """The tables of the arms, each with a line above."""
    tables = {name: rows_of(result, name) for name in ("memory", "policies", "splits", "models")}
    first = f"the first {tables['policies'][0]['requests']:,} requests"
    middle = f"{whole_gib(tables['splits'][0]['bytes'])} GiB"
    return [
        "**Over memory**: all requests, checkpoints at prompt ends.",
        arms_table(
            result,
            tables["memory"],
            ("GiB", "checkpoints", "buffer"),
            lambda row: (whole_gib(row["bytes"]), kind_of(row), buffer_of(row)),
        ),
        f"**Over policies**: {first}, one buffer.",
        arms_table(
            result,
            tables["policies"],
            ("GiB", "policy", "checkpoints"),
            lambda row: (whole_gib(row["bytes"]), POLICIES[row["policy"]], kind_of(row)),
        ),
        f"**Over splits**: {first}, {middle}, int8.",
        arms_table(
            result,
            tables["splits"],
            ("policy", "buffer"),
            lambda row: (POLICIES[row["policy"]], buffer_of(row)),
        ),
        f"**Over models**: {first}, {middle}, one buffer, checkpoints at prompt ends.",
        arms_table(result, tables["models"], ("model", "checkpoints"), lambda row: (row["model"], kind_of(row))),
    ]


def gains(rows: Sequence[dict[str, Any]], by: str, few: Any, many: Any) -> str:
    """How many times the tokens are hit with one value of a setting that are with another, all else being equal."""
    others = [name for name in ("bytes", "policy", "static", "checkpoints") if name != by]
    found = {tuple(row[name] for name in [*others, by]): row["cached_tokens"] for row in rows}
    keys = [key[:-1] for key in found if key[-1] == many and (*key[:-1], few) in found]
    ratios = [found[*key, many] / found[*key, few] for key in keys]
    return f"{min(ratios):.2f} to {max(ratios):.2f} times"


def split_text(result: dict[str, Any], policy: str) -> str:
    """The best and the worst fixed split of a policy, beside one buffer."""
    rows = {row["static"]: row["cached_tokens"] for row in rows_of(result, "splits") if row["policy"] == policy}
    one = rows.pop(None)
    best, worst = max(rows, key=lambda static: rows[static]), min(rows, key=lambda static: rows[static])
    return (
        f"With checkpoints at {POLICIES[policy]} the best of {len(rows)} parts is {Fraction(best)}, which hits "
        f"{rows[best] / one:.2f} times the tokens of one buffer, and the worst {Fraction(worst)}, with "
        f"{rows[worst] / one:.2f} times."
    )


def fitting(result: dict[str, Any], codec: str, tokens: int) -> int:
    """The largest number of prefixes of the sweep that all fit; 0 for none."""
    rows = [row for row in result["sweep"] if (row["codec"], row["prefix_tokens"]) == (codec, tokens)]
    return max((row["prefixes"] for row in rows if row["law"] == "uniform" and is_all_hit(row)), default=0)


def in_short(result: dict[str, Any]) -> str:
    """What the tables say."""
    memory, policies = rows_of(result, "memory"), rows_of(result, "policies")
    one = [row for row in memory if row["static"] is None]
    blocks = [row for row in policies if row["policy"] == "blocks"]
    int8 = [row for row in memory if row["checkpoints"] == "int8"]
    static = next(row["static"] for row in memory if row["static"] is not None)
    plain, least = CHECKPOINTS["none"], min(row["prefix_tokens"] for row in result["sweep"])
    return "\n".join(
        [
            f"* **int8 against {plain}, at equal bytes**: {gains(one, 'checkpoints', 'none', 'int8')} the tokens hit "
            f"with checkpoints at prompt ends, {gains(blocks, 'checkpoints', 'none', 'int8')} with one at every block.",
            f"* **One buffer against a split**: {gains(int8, 'static', static, None)} the tokens hit of a buffer with "
            f"{Fraction(static)} of the bytes for checkpoints, with int8 at prompt ends. Which part is good depends on "
            f"the policy. {split_text(result, 'ends')} {split_text(result, 'blocks')}",
            f"* **Checkpoints at prompt ends against one at every block**: "
            f"{gains(policies, 'policy', 'blocks', 'ends')} the tokens hit.",
            f"* **Prefixes of {least} tokens**: of the numbers that were tried, {fitting(result, 'none', least):,} all "
            f"fit as {plain}, and {fitting(result, 'int8', least):,} in int8.",
        ]
    )


def markdown(result: dict[str, Any]) -> str:
    """A result as the part of docs/cache.md."""
    parts = [
        about(result),
        in_short(result),
        "**Capacity factor**: checkpoints in the bytes of one plain copy of the state.",
        capacity_table(result),
        *arms_text(result),
        "**What it costs**",
        costs_text(result),
        f"**Over prefixes**: {whole_gib(result['sweep_bytes'])} GiB, one buffer, seed {result['seed']}, {SUFFIX} "
        f"tokens behind the prefix, {result['sweep'][0]['requests']:,} requests after one of each prefix. Where all "
        f"prefixes fit either way there is no row.",
        sweep_table(result),
    ]
    return "\n\n".join(parts)


# ---------------------------------------------------------------------------------------------------------------- plot

COLOURS = {"none": "tab:orange", "int8": "tab:blue"}
LINES = {"ends": "-", "blocks": "--"}


def digest(result: dict[str, Any]) -> str:
    """Tells results apart, for a plot to name its own."""
    return hashlib.sha256(json.dumps(result, sort_keys=True).encode()).hexdigest()[:16]


def draw(result: dict[str, Any], file: Path) -> None:
    """Four panels as an SVG, the same bytes for the same result."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    mpl.rcParams |= {"svg.hashsalt": "cache_payoff", "svg.fonttype": "none", "font.size": 9}
    figure, panels = plt.subplots(2, 2, figsize=(11, 8), layout="constrained")
    for panel, axes in zip((draw_memory, draw_policies, draw_splits, draw_sweep), panels.flat, strict=True):
        panel(result, axes)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None, "Description": digest(result)})
    plt.close(figure)
    file.write_text("\n".join(line.rstrip() for line in file.read_text().splitlines()) + "\n")


def draw_memory(result: dict[str, Any], axes: Any) -> None:
    """Tokens hit over memory."""
    rows = [row for row in result["arms"] if row["table"] == "memory"]
    for codec in ("none", "int8"):
        for static in dict.fromkeys(row["static"] for row in rows):
            line = [row for row in rows if row["checkpoints"] == codec and row["static"] == static]
            label = f"{CHECKPOINTS[codec]}, {'one buffer' if static is None else buffer_of(line[0])}"
            sizes, hits = [row["bytes"] / GIB for row in line], [100 * row["token_hit_rate"] for row in line]
            axes.plot(sizes, hits, "o-" if static is None else "s--", color=COLOURS[codec], label=label, markersize=4)
    most = result["unbounded"][0]
    axes.axhline(100 * most["cached_tokens"] / most["prompt_tokens"], color="grey", linewidth=1, label="no bound")
    axes.set(xscale="log", xlabel="GiB", ylabel="% of prompt tokens out of the cache", ylim=(0, None))
    axes.set_xticks(
        sorted({row["bytes"] / GIB for row in rows}), [whole_gib(s) for s in sorted({r["bytes"] for r in rows})]
    )
    axes.minorticks_off()
    axes.set_title("whole trace, checkpoints at prompt ends")
    axes.legend()


def draw_policies(result: dict[str, Any], axes: Any) -> None:
    """Tokens hit by policy and memory."""
    rows = [row for row in result["arms"] if row["table"] == "policies"]
    sizes, policies = (list(dict.fromkeys(row[name] for row in rows)) for name in ("bytes", "policy"))
    for shift, codec in ((-0.2, "none"), (0.2, "int8")):
        bars = [row for row in rows if row["checkpoints"] == codec]
        places = [sizes.index(row["bytes"]) * (len(policies) + 1) + policies.index(row["policy"]) for row in bars]
        heights = [100 * row["token_hit_rate"] for row in bars]
        axes.bar([place + shift for place in places], heights, 0.4, color=COLOURS[codec], label=CHECKPOINTS[codec])
    places = [n * (len(policies) + 1) + k for n in range(len(sizes)) for k in range(len(policies))]
    names = {"ends": "ends", "both": "8th + ends", "blocks": "every block"}
    axes.set_xticks(places, [names[policy] for _ in sizes for policy in policies], rotation=60)
    for n, size in enumerate(sizes):
        axes.text(
            n * (len(policies) + 1) + 1,
            0.97,
            f"{whole_gib(size)} GiB",
            ha="center",
            va="top",
            transform=axes.get_xaxis_transform(),
        )
    axes.set(ylabel="% of prompt tokens out of the cache", ylim=(0, 1.25 * axes.get_ylim()[1]))
    axes.set_title(f"first {rows[0]['requests']:,} requests, one buffer, by policy")
    axes.legend(loc="upper left", bbox_to_anchor=(0, 0.92))


def draw_splits(result: dict[str, Any], axes: Any) -> None:
    """Tokens hit by policy and split; one buffer is a level line."""
    rows = rows_of(result, "splits")
    for policy, style in (("ends", "o"), ("blocks", "s")):
        line = {row["static"]: 100 * row["token_hit_rate"] for row in rows if row["policy"] == policy}
        one = line.pop(None)
        axes.axhline(one, color=COLOURS["int8"], label=f"{POLICIES[policy]}, one buffer", linestyle=LINES[policy])
        split = f"{style}{LINES[policy]}"
        axes.plot(list(line), list(line.values()), split, color="tab:red", label=f"{POLICIES[policy]}, split")
    parts = sorted({row["static"] for row in rows if row["static"] is not None})
    axes.set(xscale="log", xlabel="part of the bytes for checkpoints alone", ylim=(0, None))
    axes.set_ylabel("% of prompt tokens out of the cache")
    axes.set_xticks(parts, [str(Fraction(part)) for part in parts])
    axes.minorticks_off()
    axes.set_title(f"first {rows[0]['requests']:,} requests, {whole_gib(rows[0]['bytes'])} GiB, int8")
    axes.legend()


def draw_sweep(result: dict[str, Any], axes: Any) -> None:
    """Milliseconds a request over prefixes: the shortest prefixes, drawn either way."""
    shortest = min(row["prefix_tokens"] for row in result["sweep"])
    rows = [row for row in result["sweep"] if row["prefix_tokens"] == shortest]
    for codec in ("none", "int8"):
        for law, style in (("uniform", "o-"), ("zipf", "s:")):
            line = [row for row in rows if row["codec"] == codec and row["law"] == law]
            label = f"{CHECKPOINTS[codec]}, {'uniform' if law == 'uniform' else 'Zipf'}"
            counts, times = [row["prefixes"] for row in line], [row["ms_a_request"] for row in line]
            axes.plot(counts, times, style, color=COLOURS[codec], label=label, markersize=4)
    axes.axhline(rows[0]["ms_without"], color="grey", linewidth=1, label="no cache")
    axes.set(xscale="log", xlabel="distinct prefixes", ylabel="ms a request, stated cost of a token", ylim=(0, None))
    counts = sorted({row["prefixes"] for row in rows})
    axes.set_xticks(counts[:: max(1, len(counts) // 5)], [str(n) for n in counts[:: max(1, len(counts) // 5)]])
    axes.minorticks_off()
    axes.set_title(f"prefixes of {shortest} tokens, {whole_gib(result['sweep_bytes'])} GiB")
    axes.legend()


def renew_docs(result: dict[str, Any]) -> None:
    """Put a result into docs/."""
    text = PAGE.read_text()
    pattern = re.compile(rf"(<!-- begin {PART} -->\n).*?(<!-- end {PART} -->)", re.S)
    if not pattern.search(text):
        raise SystemExit(f"{PAGE} has no part {PART!r}")
    PAGE.write_text(pattern.sub(lambda found: found[1] + markdown(result) + "\n" + found[2], text))
    draw(result, PLOT)


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--smoke", action="store_true", help="tiny sizes")
    kind.add_argument("--show", type=Path, metavar="FILE", help="print a result as Markdown, and measure nothing")
    kind.add_argument("--docs", action="store_true", help="put the committed result into docs/, and measure nothing")
    parser.add_argument("--trace", type=Path, metavar="FILE", help="a request trace in the Mooncake form")
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N requests of the trace")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here too")
    parser.add_argument("--plot", type=Path, metavar="SVG", help="draw the result here; needs matplotlib")
    options = parser.parse_args()
    if options.docs:
        renew_docs(json.loads(RESULT.read_text()))
        return
    if options.show:
        result = json.loads(options.show.read_text())
    else:
        result = measure(options.trace, options.limit, SMOKE if options.smoke else Plan(), options.jobs)
    print(markdown(result))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    if options.plot:
        draw(result, options.plot)


if __name__ == "__main__":
    main()
