"""Host time and room of UnifiedPool, beside SGLang's: `python bench/unified_pool.py [--peer PYTHON] [--json FILE]`.

Three parts, each measured in this run:

* operations: host time of each operation on a trace that both pools replay, at equal bytes and in alternating runs.
  `--peer` names the python of the peer's environment (bench/peers/README.md says how to make one); without it the
  figures are ours alone. The peer runs as it ships, with profiler ranges around its calls, and without them.
* room: what each can still allocate at equal bytes. A trace of requests goes through both: a request is admitted where
  a state and the pages of its prompt and its output are to be had, or else dropped; nothing waits, nothing is cached.
  `--trace` names a Mooncake trace; by default one is made up. See `requests_trace`.
* sizes: host time over the number of pages, ours alone.

`--smoke` runs everything at tiny sizes, where the times mean nothing. `--show FILE` prints a result as Markdown.
Exit codes: 0 measured, whatever the figures; 1 a pool did not do what the trace counts on; 2 wrong use.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import hashlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from peers.scripts import OPERATIONS, PAGE_SIZE, Buffer, Ops, operations_trace, requests_trace

import poolproof as pp
from poolproof.fuzz.errors import TraceError
from poolproof.fuzz.mooncake import Request, read_requests
from poolproof.fuzz.synthetic import make_requests
from poolproof.sub_pools import resolve

HOME = Path(__file__).resolve().parent
WORKERS = {"poolproof": HOME / "peers" / "poolproof_worker.py", "sglang": HOME / "peers" / "sglang_worker.py"}
GOAL = 0.2
"""Part of the peer's time that ours may take."""

PEER_LEAVES_OUT = "_without_kernel"
"""The peer's extends are taken without the stand-in for a kernel, for ours give no token ids either."""
WE_ADD = "_with_tokens"
"""Our allocations are taken with the work of naming every token, which the peer's do."""

STATISTICS = ("least_us", "median_us", "p90_us")


class BenchError(Exception):
    """A worker failed, or a pool did not do what a trace counts on."""


# ------------------------------------------------------------------------------------------------------------ the plans


@dataclass(frozen=True)
class Plan:
    """What is measured, and how often.

    Attributes:
        buffers: of the operations.
        sequences: that decode at once.
        turns: repetitions within a pass.
        rounds, passes: runs of each worker, and timed passes of a run.
        room: the buffer of the requests.
        requests: how many are made up.
        sizes: pages of the pools.
        seconds: of measuring each row of the sizes.
    """

    buffers: tuple[Buffer, ...]
    sequences: int
    turns: int
    rounds: int
    passes: int
    room: Buffer
    requests: int
    sizes: tuple[int, ...]
    seconds: float


def model(name: str, total: int) -> Buffer:
    """A buffer with the pages and states of a model on one rank."""
    sizes = {layout.name: layout.page_bytes for layout in resolve(pp.sub_pools_for(name, page_size=PAGE_SIZE))}
    return Buffer(f"{name}, {total / 2**30:g} GiB", total, sizes["full"], sizes["state"])


def full_plan() -> Plan:
    """The whole measurement."""
    qwen = "Qwen3-Next-80B-A3B"
    small = (2**30, 2**15, 2**20)
    return Plan(
        buffers=(
            model(qwen, 32 * 2**30),
            Buffer("pages of 32 KiB, 1 GiB", *small),
            Buffer("pages of 32 KiB, 1 GiB, real bytes", *small, data=True),
        ),
        sequences=64,
        turns=160,
        rounds=5,
        passes=1,
        room=model(qwen, 10 * 2**30),
        requests=4000,
        sizes=(10**3, 10**4, 10**5, 10**6, 10**7),
        seconds=0.4,
    )


def smoke_plan() -> Plan:
    """Everything, tiny."""
    return Plan(
        buffers=(Buffer("smoke", 2**24, 2**14, 2**18), Buffer("smoke, real bytes", 2**24, 2**14, 2**18, data=True)),
        sequences=4,
        turns=4,
        rounds=1,
        passes=1,
        room=Buffer("smoke", 2**26, 2**14, 2**18),
        requests=60,
        sizes=(10**3, 2 * 10**3),
        seconds=0.002,
    )


# ---------------------------------------------------------------------------------------------------------- the workers


class Workers:
    """Runs the workers on traces.

    Args:
        peer: the python of the peer's environment; None without one.
        folder: for the traces.
    """

    def __init__(self, peer: str | None, folder: Path) -> None:
        self.peer, self._file = peer, folder / "trace.jsonl"
        self.versions: dict[str, dict[str, str]] = {}

    def run(self, name: str, header: dict[str, Any], ops: Ops) -> dict[str, Any]:
        """One run of a worker in a process of its own."""
        self._file.write_text("".join(json.dumps(line) + "\n" for line in [header, *ops]))
        python = sys.executable if name == "poolproof" else self.peer
        assert python is not None
        command = [python, str(WORKERS[name]), str(self._file)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise BenchError(f"the worker of {name} failed:\n{done.stderr[-2000:]}")
        result: dict[str, Any] = json.loads(done.stdout)
        if result["violations"]:
            raise BenchError(f"{name}'s own check of its accounts: {result['violations'][:4]}")
        self.versions[name] = result["versions"]
        return result


def merged(runs: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Several runs as one: the least of all, and the median run's median and p90."""
    return {
        kind: {
            "count": sum(run["timings"][kind]["count"] for run in runs),
            "least_us": min(run["timings"][kind]["least_us"] for run in runs),
            "median_us": round(statistics.median(run["timings"][kind]["median_us"] for run in runs), 3),
            "p90_us": round(statistics.median(run["timings"][kind]["p90_us"] for run in runs), 3),
        }
        for kind in runs[0]["timings"]
    }


def operations(plan: Plan, workers: Workers) -> list[dict[str, Any]]:
    """One row for each buffer and kind."""
    return [row for buffer in plan.buffers for row in _operations(plan, workers, buffer)]


def _operations(plan: Plan, workers: Workers, buffer: Buffer) -> list[dict[str, Any]]:
    ops = operations_trace(buffer, plan.sequences, plan.turns)
    runs: dict[str, list[dict[str, Any]]] = {"ours": [], "peer": [], "peer_without_ranges": []}
    for _ in range(plan.rounds):
        for side, name in (("peer", "sglang"), ("ours", "poolproof"), ("peer_without_ranges", "sglang")):
            if name == "poolproof" or workers.peer:
                header = buffer.header(plan.passes, side != "peer_without_ranges")
                runs[side].append(workers.run(name, header, ops))
                if runs[side][-1]["refused"]:
                    raise BenchError(f"{name} refused what the trace counts on: {runs[side][-1]['refused']}")
        print(f"operations, {buffer.name}: a round is over", file=sys.stderr)
    times = {side: merged(found) for side, found in runs.items() if found}
    moves = {side: found[-1]["moves"] // plan.passes for side, found in runs.items() if found}
    return [_compared(buffer, kind, times, moves, runs) for kind in OPERATIONS]


def _like_for_like(kind: str, side: str, timings: dict[str, Any]) -> dict[str, float]:
    """The times of a kind without the part that the other side has not got."""
    found: dict[str, float] = timings.get(f"{kind}{WE_ADD if side == 'ours' else PEER_LEAVES_OUT}", timings[kind])
    return found


def _by_round(ours: Sequence[dict[str, Any]], peers: Sequence[dict[str, Any]], kind: str) -> list[float]:
    """Ratios of medians, from the least to the largest: how far rounds differ on a machine that others use too."""
    pairs = [
        (_like_for_like(kind, "ours", one["timings"]), _like_for_like(kind, "peer", other["timings"]))
        for one, other in zip(ours, peers, strict=True)
    ]
    return sorted(round(one["median_us"] / other["median_us"], 4) for one, other in pairs)


def _compared(
    buffer: Buffer, kind: str, times: dict[str, Any], moves: dict[str, int], runs: dict[str, list[dict[str, Any]]]
) -> dict[str, Any]:
    """One kind on both sides."""
    row: dict[str, Any] = {"buffer": buffer.name, "pages": buffer.pages, "data": buffer.data, "kind": kind}
    for side, found in times.items():
        row[side] = _like_for_like(kind, side, found)
    row["ours_without_tokens"] = times["ours"][kind] if f"{kind}{WE_ADD}" in times["ours"] else None
    if kind == "flush":
        row["moves_of_a_pass"] = moves
    for side in ("peer", "peer_without_ranges"):
        if side in row:
            ratios = {name: round(row["ours"][name] / row[side][name], 4) for name in STATISTICS}
            row[side] = {**row[side], "ratio": ratios, "met": ratios["median_us"] <= GOAL}
            row[side]["ratio_by_round"] = _by_round(runs["ours"], runs[side], kind)
    return row


def room(plan: Plan, workers: Workers, requests: Sequence[Request], source: str) -> dict[str, Any]:
    """Both pools on a trace of requests."""
    buffer, found = plan.room, []
    for what, ends in (("all at once", False), ("over time", True)):
        ops = requests_trace(requests, ends)
        for name in WORKERS if workers.peer else ("poolproof",):
            result = workers.run(name, buffer.header(1), ops)
            refused, first = result["refused"].get("admit", 0), result["first_refused"]
            before = None if first is None else sum(op["op"] == "admit" for op in ops[:first])
            found.append(
                {
                    "what": what,
                    "pool": name,
                    "capacity": result["capacity"],
                    "admitted": len(requests) - refused,
                    "refused": refused,
                    "admitted_before_the_first_refusal": before,
                    "most": result["most"],
                    "most_of_the_buffer": round(result["most"]["bytes"] / buffer.total, 5),
                    "moves_of_flushes": result["moves"],
                    "admit": result["timings"]["admit"],
                }
            )
            print(f"room, {what}: {name} is done", file=sys.stderr)
    sizes = {"total_bytes": buffer.total, "kv_page_bytes": buffer.kv_page, "state_bytes": buffer.state}
    return {"buffer": buffer.name, **sizes, "trace": source, "requests": len(requests), "runs": found}


# ------------------------------------------------------------------------------------------------ over numbers of pages

Samples = Iterator[int]
"""Nanoseconds of one piece of work after the other; what comes between them is not timed."""
_CLOCK = time.perf_counter_ns
_PAGE, _NEIGHBOUR = 64, 256
Made = tuple[pp.UnifiedPool, Any]


def make_pool(pages: int) -> pp.UnifiedPool:
    """A pool of so many small pages, and a neighbour whose pages are four times as large."""
    declared = [pp.Pages("full", bytes=_PAGE, grows="up"), pp.Pages("next", bytes=_NEIGHBOUR, grows="down")]
    return pp.UnifiedPool(pages * _PAGE, declared, device="meta")


def step(pool: pp.UnifiedPool) -> None:
    """An empty step: what was handed out is zeroed."""
    one = pool.begin_step()
    one.launched()
    one.complete()


def make_scattered(pages: int) -> Made:
    """A pool of which a half is owned and a quarter is holes, all in no order; and the ids that are owned."""
    pool = make_pool(pages)
    ids = pool["full"].alloc(3 * pages // 4)
    np.random.default_rng(0).shuffle(ids)
    pool["full"].free(ids[pages // 2 :])
    step(pool)
    return pool, ids[: pages // 2]


def make_brimful(pages: int, holes: int = 0) -> Made:
    """A pool without a gap, but so many holes in no order; and the ids that are owned."""
    pool = make_pool(pages)
    pool["next"].alloc(4)
    ids = pool["full"].alloc(pool["full"].capacity())
    np.random.default_rng(0).shuffle(ids)
    pool["full"].free(ids[:holes])
    step(pool)
    return pool, ids[holes:]


scattered, brimful = lru_cache(1)(make_scattered), lru_cache(1)(make_brimful)
"""For works that leave a pool as they found it."""


def places(rng: Any, many: int, n: int) -> Any:
    """n of many places, none twice."""
    if many < 8 * n:
        return rng.permutation(many)[:n]
    found = np.unique(rng.integers(0, many, n))
    while len(found) < n:
        found = np.unique(np.concatenate([found, rng.integers(0, many, n - len(found))]))
    return rng.permutation(found)


def cycles(pool: Any) -> Samples:
    """alloc(16) and its free, again and again."""
    full = pool["full"]
    while True:
        begin = _CLOCK()
        full.free(full.alloc(16))
        taken = _CLOCK() - begin
        step(pool)
        yield taken


def alloc_and_free(pages: int) -> Samples:
    """alloc(16) of fresh pages and its free, no holes"""
    pool = make_pool(pages)
    pool["full"].alloc(pages // 2)
    yield from cycles(pool)


def alloc_and_free_in_holes(pages: int) -> Samples:
    """alloc(16) into holes and its free, a quarter of the pages holes"""
    yield from cycles(scattered(pages)[0])


def alloc_of_both(pages: int) -> Samples:
    """alloc of 16 pages and 1 of the neighbour's together"""
    pool, _ = scattered(pages)
    while True:
        begin = _CLOCK()
        got = pool.alloc({"full": 16, "next": 1})
        taken = _CLOCK() - begin
        for name, ids in got.items():
            pool[name].free(ids)
        step(pool)
        yield taken


def capacity(pages: int) -> Samples:
    """capacity(), the first after a change"""
    pool, _ = scattered(pages)
    full = pool["full"]
    while True:
        full.free(full.alloc(1))
        step(pool)
        begin = _CLOCK()
        full.capacity()
        yield _CLOCK() - begin


def home_step(pages: int) -> Samples:
    """a step that reads 256 ids and writes 256 others: begin_step, launched, complete"""
    return _steps(pages, None)


def step_elsewhere(pages: int) -> Samples:
    """the same on another stream, where pages are kept until it is over"""
    return _steps(pages, "other")


def _steps(pages: int, stream: str | None) -> Samples:
    (pool, ids), rng = scattered(pages), np.random.default_rng(1)
    half = min(256, len(ids) // 2)
    while True:
        picked = ids[places(rng, len(ids), 2 * half)]
        reads, writes = {"full": picked[:half]}, {"full": picked[half:]}
        begin = _CLOCK()
        one = pool.begin_step(reads, writes, stream)
        one.launched()
        one.complete()
        taken = _CLOCK() - begin
        one.retire()
        yield taken


def step_after_allocs(pages: int) -> Samples:
    """an empty step behind four alloc(16), whose pages it must zero"""
    pool, _ = scattered(pages)
    full = pool["full"]
    while True:
        ids = [full.alloc(16) for _ in range(4)]
        begin = _CLOCK()
        step(pool)
        taken = _CLOCK() - begin
        full.free(np.concatenate(ids))
        yield taken


def lease_and_release(pages: int) -> Samples:
    """a lease of 16 pages and its release"""
    (pool, ids), rng = scattered(pages), np.random.default_rng(1)
    while True:
        picked = ids[places(rng, len(ids), 16)]
        begin = _CLOCK()
        pool.lease("full", picked, "bench").release()
        yield _CLOCK() - begin


def alloc_by_moves(pages: int) -> Samples:
    """alloc(16) of the neighbour for which 64 pages move, 64 holes"""
    (pool, ids), rng = brimful(pages), np.random.default_rng(1)
    full, neighbour = pool["full"], pool["next"]
    while True:
        some = places(rng, len(ids), 64)
        full.free(ids[some])
        begin = _CLOCK()
        got = neighbour.alloc(16)
        taken = _CLOCK() - begin
        neighbour.free(got)
        ids[some] = full.alloc(64)
        step(pool)
        yield taken


def compact(pages: int) -> Samples:
    """compact(moves=64), 64 holes"""
    (pool, ids), rng = brimful(pages), np.random.default_rng(1)
    full = pool["full"]
    while True:
        some = places(rng, len(ids), 64)
        full.free(ids[some])
        begin = _CLOCK()
        pool.compact(moves=64)
        taken = _CLOCK() - begin
        ids[some] = full.alloc(64)
        step(pool)
        yield taken


def alloc_by_moves_among_holes(pages: int) -> Samples:
    """alloc(16) of the neighbour for which the last 64 pages are vacated, a quarter of the pages holes"""
    while True:
        neighbour = make_brimful(pages, pages // 4)[0]["next"]
        while True:
            begin = _CLOCK()
            got = neighbour.try_alloc(16)
            taken = _CLOCK() - begin
            if got is None:
                break
            yield taken


def compact_among_holes(pages: int) -> Samples:
    """compact(moves=64), a quarter of the pages holes"""
    while True:
        pool, _ = make_scattered(pages)
        while True:
            begin = _CLOCK()
            moves = pool.compact(moves=64)
            taken = _CLOCK() - begin
            if sum(len(move.ids) for move in moves) < 64:
                break
            yield taken


SIZED = (
    alloc_and_free,
    alloc_and_free_in_holes,
    alloc_of_both,
    capacity,
    home_step,
    step_elsewhere,
    step_after_allocs,
    lease_and_release,
    alloc_by_moves,
    compact,
    alloc_by_moves_among_holes,
    compact_among_holes,
)
"""What is timed over numbers of pages. The first line of each docstring names it in tables."""


def sampled(samples: Samples, seconds: float) -> list[float]:
    """Microseconds, in order; the first few are left out."""
    for _ in range(3):
        next(samples)
    found: list[float] = []
    gc.collect()
    gc.disable()
    start = time.perf_counter()
    while len(found) < 10 or (time.perf_counter() - start < seconds and len(found) < 10_000):
        found.append(next(samples) / 1000)
    gc.enable()
    return sorted(found)


def sizes(plan: Plan) -> list[dict[str, Any]]:
    """One row for each work and number of pages."""
    rows = []
    for pages in plan.sizes:
        for work in SIZED:
            found = sampled(work(pages), plan.seconds)
            rows.append(
                {
                    "work": work.__name__,
                    "pages": pages,
                    "samples": len(found),
                    "least_us": round(found[0], 3),
                    "median_us": round(statistics.median(found), 3),
                    "p90_us": round(found[(9 * len(found) - 1) // 10], 3),
                }
            )
        print(f"sizes, {pages:,} pages: done", file=sys.stderr)
    scattered.cache_clear()
    brimful.cache_clear()
    return rows


# ----------------------------------------------------------------------------------------------------------- the report


def source_hash() -> str:
    """What was measured: a digest of the pool's sources."""
    home = HOME.parent / "impl"
    texts = (file.name.encode() + file.read_bytes() for file in sorted(home.glob("*.py")))
    return hashlib.sha256(b"".join(texts)).hexdigest()[:16]


def machine() -> str:
    """The processor and how many of its cores there are."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{os.cpu_count()} x {names[0] if names else platform.machine()}"


def measure(plan: Plan, peer: str | None, trace: Path | None, smoke: bool) -> dict[str, Any]:
    """One run."""
    source = f"made up, seed 0, {plan.requests} requests" if trace is None else trace.name
    requests = make_requests(plan.requests, 0) if trace is None else read_requests(trace)
    before, load = source_hash(), os.getloadavg()[0]
    options = f"{' --smoke' if smoke else ''}{' --peer PYTHON' if peer else ''}{' --trace FILE' if trace else ''}"
    with tempfile.TemporaryDirectory() as folder:
        workers = Workers(peer, Path(folder))
        parts = {
            "operations": operations(plan, workers),
            "room": room(plan, workers, requests, source),
            "sizes": sizes(plan),
        }
    after = source_hash()
    return {
        "what": "UnifiedPool: microseconds of host time; ratios are ours to the peer's",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": f"python bench/unified_pool.py{options} --json FILE",
        "python": platform.python_version(),
        "versions": workers.versions,
        "machine": machine(),
        "load": [round(load, 2), round(os.getloadavg()[0], 2)],
        "source": before if before == after else f"{before}, and {after} at the end",
        "smoke": smoke,
        "peer": "sglang" if peer else "skipped: no --peer",
        "goal": GOAL,
        "rounds": plan.rounds,
        "passes": plan.passes,
        **parts,
    }


Table = tuple[str, Sequence[str], list[list[str]]]


def _us(value: float) -> str:
    return f"{value:.1f}" if value < 1000 else f"{value:,.0f}"


def tables(result: dict[str, Any]) -> list[Table]:
    """The figures as tables of text: title, heads, rows."""
    return [*_operation_tables(result), _room_table(result["room"]), _size_table(result["sizes"])]


def _operation_tables(result: dict[str, Any]) -> list[Table]:
    found: list[Table] = []
    for name in dict.fromkeys(row["buffer"] for row in result["operations"]):
        rows = [row for row in result["operations"] if row["buffer"] == name]
        heads = ["operation", "least", "median", "p90"]
        if "peer" in rows[0]:
            heads += ["SGLang least", "median", "p90", "ratio of medians", "of least"]
            heads += ["without ranges: median", "ratio of medians", "of least"]
        lines = []
        for row in rows:
            line = [OPERATIONS[row["kind"]], *(_us(row["ours"][key]) for key in STATISTICS)]
            if "peer" in row:
                bare = row["peer_without_ranges"]
                line += [*(_us(row["peer"][key]) for key in STATISTICS), *_ratios(row["peer"])]
                line += [_us(bare["median_us"]), *_ratios(bare)]
            lines.append(line)
        found.append((f"Host time in us, {name} ({rows[0]['pages']:,} pages)", heads, lines))
    return found


def _ratios(side: dict[str, Any]) -> list[str]:
    return [f"{side['ratio'][key]:.2f}" for key in ("median_us", "least_us")]


def _room_table(found: dict[str, Any]) -> Table:
    heads = ["requests", "pool", "admitted", "refused", "before the first refusal", "most pages", "slots"]
    heads += ["of the buffer", "admit, median us"]
    lines = []
    for run in found["runs"]:
        first, most = run["admitted_before_the_first_refusal"], run["most"]
        counts = [run["admitted"], run["refused"], "all" if first is None else first, most["pages"], most["slots"]]
        line = [run["what"], run["pool"], *(f"{n:,}" if isinstance(n, int) else n for n in counts)]
        lines.append([*line, f"{run['most_of_the_buffer']:.2%}", _us(run["admit"]["median_us"])])
    return f"Room at equal bytes: {found['buffer']}; {found['requests']:,} requests, {found['trace']}", heads, lines


def _size_table(rows: list[dict[str, Any]]) -> Table:
    pages = list(dict.fromkeys(row["pages"] for row in rows))
    lines: dict[str, list[str]] = {}
    titles = {work.__name__: (work.__doc__ or "").splitlines()[0] for work in SIZED}
    for row in rows:
        cell = f"{_us(row['least_us'])} / {_us(row['median_us'])}"
        lines.setdefault(row["work"], [titles[row["work"]]]).append(cell)
    heads = ["work", *(f"{n:,}" for n in pages)]
    return "Host time in us over the number of pages: least / median", heads, [*lines.values()]


def heading(result: dict[str, Any]) -> str:
    """Where and when."""
    versions = "; ".join(
        f"{name}: {', '.join(f'{key} {value}' for key, value in found.items())}"
        for name, found in result["versions"].items()
    )
    stale = ", STALE: the pool has changed since" if result["source"] != source_hash() else ""
    first = "smoke run, its times mean nothing: " if result["smoke"] else ""
    peer = "" if result["peer"] == "sglang" else f"\n\nThe peer was left out ({result['peer']})."
    return f"{first}{result['machine']}, {result['date']}, pool {result['source']}{stale}; {versions}{peer}"


def goals(result: dict[str, Any]) -> str:
    """What has met the goal, and what has not, without data; the least of a run suffers least from other work."""
    lines = []
    for side, name in (("peer", "as shipped"), ("peer_without_ranges", "without ranges")):
        rows = [row for row in result["operations"] if side in row and not row["data"]]
        for key, what in (("median_us", "median"), ("least_us", "least")):
            ratios = [(row["kind"], row[side]["ratio"][key]) for row in rows]
            missed = [f"{kind} ({ratio:.2f})" for kind, ratio in ratios if ratio > result["goal"]]
            if rows:
                found = f"{len(rows) - len(missed)} of {len(rows)}{'; not ' * bool(missed)}{', '.join(missed)}"
                lines.append(f"At most {result['goal']:g} of SGLang's {what} time {name}: {found}")
    return "\n\n".join(lines)


def markdown(result: dict[str, Any]) -> str:
    """The figures as Markdown."""
    parts = [heading(result)]
    for title, heads, rows in tables(result):
        lines = ["| " + " | ".join(row) + " |" for row in [list(heads), *rows]]
        lines.insert(1, "|---" + "|---:" * (len(heads) - 1) + "|")
        parts += [f"{title}:", "\n".join(lines)]
    return "\n\n".join([*parts, goals(result)]).strip()


def has_peer(python: str) -> bool:
    """Does this python have SGLang?"""
    find = "import importlib.util, sys; sys.exit(importlib.util.find_spec('sglang') is None)"
    try:
        return subprocess.run([python, "-c", find], capture_output=True).returncode == 0
    except OSError:
        return False


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--peer", metavar="PYTHON", help="the python of the peer's environment")
    parser.add_argument("--trace", type=Path, metavar="FILE", help="a Mooncake request trace, gzipped or not")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--smoke", action="store_true", help="try everything at tiny sizes")
    kind.add_argument("--show", type=Path, metavar="FILE", help="print a result as Markdown, and measure nothing")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here too")
    options = parser.parse_args()
    if options.show is not None:
        if options.peer or options.trace or options.json:
            parser.error("--show measures nothing: leave the other options out")
        try:
            shown = markdown(json.loads(options.show.read_text()))
        except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            parser.error(f"{options.show} is no result of this program: {error!r}")
        print(shown)
        return
    if options.json and not options.json.parent.is_dir():
        parser.error(f"--json {options.json}: there is no folder {options.json.parent}")
    if options.peer and not has_peer(options.peer):
        parser.error(f"--peer {options.peer}: no python that has sglang; see bench/peers/README.md")
    try:
        plan = smoke_plan() if options.smoke else full_plan()
        result = measure(plan, options.peer, options.trace, options.smoke)
    except (OSError, TraceError) as error:
        parser.error(f"--trace {options.trace}: {error}")
    except BenchError as error:
        sys.exit(str(error))
    print(markdown(result))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
