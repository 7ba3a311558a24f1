"""Host time of the slot pool by operation, batch and pool size: `python bench/slot_pool.py [--json FILE]`."""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np

import poolproof as pp

BATCHES = (1, 16, 256)
SIZES = (10**3, 10**4, 10**5, 10**6, 10**7)


def microseconds(work: Callable[[], object], seconds: float = 0.2, repeat: int = 5) -> float:
    """Median over repeats of the mean time of one call."""
    calls, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds / 4:
        work()
        calls += 1
    means = []
    for _ in range(repeat):
        start = time.perf_counter()
        for _ in range(calls):
            work()
        means.append((time.perf_counter() - start) / calls * 1e6)
    return statistics.median(means)


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


def figures() -> list[dict[str, object]]:
    """One row for each operation, batch and pool size."""
    rows: list[dict[str, object]] = []
    for make in (alloc_and_free, retire_and_reclaim, donate_and_evict):
        for size in SIZES:
            pool = half_full(size)
            for batch in BATCHES:
                rows.append(row(make, size, batch, False, microseconds(make(pool, batch))))
    for size in SIZES[:2]:
        shadowed = half_full(size, shadow=True)
        rows.append(row(alloc_and_free, size, 16, True, microseconds(alloc_and_free(shadowed, 16))))
    return rows


def row(make: Callable[..., object], size: int, batch: int, shadow: bool, time_: float) -> dict[str, object]:
    """One figure, printed as it is made."""
    print(f"{make.__name__:<20} {size:>9} slots  batch {batch:>4}  shadow {shadow!s:<5} {time_:9.2f} us")
    return {"work": make.__name__, "slots": size, "batch": batch, "shadow": shadow, "microseconds": round(time_, 3)}


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    report = {
        "what": "host time of SlotPool, microseconds for the whole work named",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": "python bench/slot_pool.py " + " ".join(sys.argv[1:]),
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "figures": figures(),
    }
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
