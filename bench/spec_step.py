"""Times the run reading of the slots spec, in microseconds: `python bench/spec_step.py [--json FILE]`."""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from poolproof.spec import slots

SIZES = (16, 1024)
BATCH = 16


def microseconds(work: Callable[[], object], steps: int, repeat: int = 7) -> float:
    """Median over repeats of the mean time of one step, where `work` does so many."""
    rounds, start = 0, time.perf_counter()
    while time.perf_counter() - start < 0.05:
        work()
        rounds += 1
    means = []
    for _ in range(repeat):
        start = time.perf_counter()
        for _ in range(rounds):
            work()
        means.append((time.perf_counter() - start) / (rounds * steps) * 1e6)
    return statistics.median(means)


def works(pool: slots.Slots) -> dict[str, tuple[Callable[[], object], int]]:
    """Cycles of steps that end where they began, each with its number of steps."""
    ids = list(range(1, BATCH))

    def one() -> None:
        slots.alloc(pool, 0, 1)
        slots.free(pool, 0, 1)

    def pending() -> None:
        slots.alloc(pool, 0, 1)
        slots.retire(pool, 0, 1)
        slots.reclaim(pool, 1)

    def donated() -> None:
        slots.alloc(pool, 0, 1)
        slots.transfer(pool, 0, 1, slots.Owner.CACHE, 1)
        slots.free(pool, 1, 1)

    def grouped() -> None:
        slots.open_group(pool)
        slots.reserve(pool, 1)
        slots.take(pool, 0, 1)
        slots.free(pool, 0, 1)
        slots.close_group(pool)

    def batched() -> None:
        slots.alloc_batch(pool, 0, ids)
        slots.free_batch(pool, 0, ids)

    return {
        "alloc, free": (one, 2),
        "alloc, retire, reclaim": (pending, 3),
        "alloc, transfer, free": (donated, 3),
        "open_group, reserve, take, free, close_group": (grouped, 5),
        f"alloc_batch, free_batch of {len(ids)}, an item": (batched, 2 * len(ids)),
        "clear": (lambda: slots.clear(pool), 1),
        "all invariants": (lambda: slots.SPEC.violations(pool), 1),
    }


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    for size in SIZES:
        for name, (work, steps) in works(slots.SPEC.initial(total=size)).items():
            rows.append({"slots": size, "work": name, "microseconds": round(microseconds(work, steps), 3)})
            print(f"{size:>6} slots  {name:<50} {rows[-1]['microseconds']:>10} us a step")
    report = {
        "what": "run reading of spec/slots.py, microseconds a step",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": "python bench/spec_step.py " + " ".join(sys.argv[1:]),
        "python": platform.python_version(),
        "figures": rows,
    }
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
