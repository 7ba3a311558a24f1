"""Host time of the slot pool by operation, batch and pool size: `python bench/slot_pool.py [--json FILE]`."""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np

import poolproof as pp

BATCHES = (1, 16, 256)
SIZES = (10**3, 10**4, 10**5, 10**6, 10**7)
SHADOWED = (32, 10**3, 10**4)


def microseconds(work: Callable[[], object], seconds: float = 0.4) -> tuple[float, float]:
    """Least and median time of one call, over many short runs: other load on the machine spoils some runs, not all."""
    calls, start = 0, time.perf_counter()
    while time.perf_counter() - start < 0.002:
        work()
        calls += 1
    means: list[float] = []
    while time.perf_counter() - start < seconds or len(means) < 3:
        begin = time.perf_counter_ns()
        for _ in range(calls):
            work()
        means.append((time.perf_counter_ns() - begin) / calls / 1000)
    return min(means), statistics.median(means)


def half_full(slots: int, shadow: bool = False) -> pp.SlotPool:
    """A pool in which every other slot is owned, so that free slots lie scattered."""
    pool = pp.SlotPool(slots, shadow=shadow)
    ids = pool.alloc(slots)
    np.random.default_rng(0).shuffle(ids)
    pool.free(ids[: slots // 2])
    return pool


def alloc_and_free(pool: pp.SlotPool, batch: int) -> Callable[[], None]:
    """One alloc and the free of what it gave."""
    return lambda: pool.free(pool.alloc(batch))


def retire_and_reclaim(pool: pp.SlotPool, batch: int) -> Callable[[], None]:
    """One alloc whose slots go back by way of pending."""

    def work() -> None:
        ids = pool.alloc(batch)
        pool.retire(ids)
        pool.reclaim(ids)

    return work


def donate_and_evict(pool: pp.SlotPool, batch: int) -> Callable[[], None]:
    """One alloc whose slots go to the cache and are evicted."""

    def work() -> None:
        ids = pool.alloc(batch)
        pool.transfer(ids, holder=0, to=pp.Owner.CACHE, heir=1)
        pool.free(ids, holder=1)

    return work


def source_hash() -> str:
    """What was measured: a digest of the pool's sources."""
    home = Path(__file__).resolve().parent.parent / "impl"
    texts = (file.name.encode() + file.read_bytes() for file in sorted(home.glob("*.py")))
    return hashlib.sha256(b"".join(texts)).hexdigest()[:16]


def figures() -> list[dict[str, object]]:
    """One row for each operation, batch and pool size."""
    rows: list[dict[str, object]] = []
    for make in (alloc_and_free, retire_and_reclaim, donate_and_evict):
        for size in SIZES:
            pool = half_full(size)
            rows += [row(make, pool, batch, False) for batch in BATCHES]
    for size in SHADOWED:
        rows.append(row(alloc_and_free, half_full(size, shadow=True), 16, True))
    return rows


def row(
    make: Callable[[pp.SlotPool, int], Callable[[], None]], pool: pp.SlotPool, batch: int, shadow: bool
) -> dict[str, object]:
    """One figure, printed as it is made."""
    least, median = microseconds(make(pool, batch))
    work = make.__name__
    where = f"{work:<20} {pool.slots:>9} slots  batch {batch:>4}  shadow {shadow!s:<5}"
    print(f"{where} {least:9.2f} us, median {median:9.2f} us")
    return {
        "work": work,
        "slots": pool.slots,
        "batch": batch,
        "shadow": shadow,
        "microseconds": round(least, 3),
        "median_microseconds": round(median, 3),
    }


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here too")
    options = parser.parse_args()
    report = {
        "what": "host time of SlotPool, microseconds for the whole work named: least and median of many short runs",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": "python bench/slot_pool.py --json FILE",
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "machine": f"{os.cpu_count()} x {platform.machine()}",
        "source": source_hash(),
        "figures": figures(),
    }
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
