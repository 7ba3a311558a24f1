"""Times the run reading of the slots spec, in microseconds: `python bench/spec_step.py [--json FILE]`.

Every action, every batch and every invariant by itself; what brings the pool back for the next round is not timed.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from poolproof.spec import slots
from poolproof.spec.slots import SPEC, Owner

SIZES = (16, 1024)
BATCH = 15
SECONDS = 0.15
CACHE = Owner.CACHE

Calls = tuple[tuple[Callable[..., Any], tuple[Any, ...]], ...]

CASES: dict[str, tuple[Calls, tuple[Callable[..., Any], tuple[Any, ...]], Calls]] = {
    "alloc": ((), (slots.alloc, (0, 1)), ((slots.free, (0, 1)),)),
    "free": (((slots.alloc, (0, 1)),), (slots.free, (0, 1)), ()),
    "retire": (((slots.alloc, (0, 1)),), (slots.retire, (0, 1)), ((slots.reclaim, (1,)),)),
    "reclaim": (((slots.alloc, (0, 1)), (slots.retire, (0, 1))), (slots.reclaim, (1,)), ()),
    "transfer": (((slots.alloc, (0, 1)),), (slots.transfer, (0, 1, CACHE, 1)), ((slots.free, (1, 1)),)),
    "open_group": ((), (slots.open_group, ()), ((slots.close_group, ()),)),
    "reserve": (((slots.open_group, ()),), (slots.reserve, (1,)), ((slots.close_group, ()),)),
    "take": (
        ((slots.open_group, ()), (slots.reserve, (1,))),
        (slots.take, (0, 1)),
        ((slots.free, (0, 1)), (slots.close_group, ())),
    ),
    "close_group": (((slots.open_group, ()), (slots.reserve, (1,))), (slots.close_group, ()), ()),
    "clear": (((slots.alloc, (0, 1)),), (slots.clear, ()), ()),
}
"""For each action: what leads to it, the action itself with its arguments, and what leads back."""


def batched(items: list[int]) -> dict[str, tuple[Calls, tuple[Callable[..., Any], tuple[Any, ...]], Calls]]:
    """For each batch: what leads to it, the batch with its arguments, and what leads back."""
    alloc, free = (slots.alloc_batch, (0, items)), (slots.free_batch, (0, items))
    retire, reclaim = (slots.retire_batch, (0, items)), (slots.reclaim_batch, (items,))
    opened, reserve, closed = (slots.open_group, ()), (slots.reserve_batch, (items,)), (slots.close_group, ())
    return {
        "alloc_batch": ((), alloc, (free,)),
        "free_batch": ((alloc,), free, ()),
        "retire_batch": ((alloc,), retire, (reclaim,)),
        "reclaim_batch": ((alloc, retire), reclaim, ()),
        "transfer_batch": ((alloc,), (slots.transfer_batch, (0, items, CACHE, 1)), ((slots.free_batch, (1, items)),)),
        "reserve_batch": ((opened,), reserve, (closed,)),
        "take_batch": ((opened, reserve), (slots.take_batch, (0, items)), (free, closed)),
    }


def microseconds(before: Callable[[], object], timed: Callable[[], object], after: Callable[[], object]) -> float:
    """The median time of one call, less that of reading the clock."""
    clock = time.perf_counter_ns
    spent: list[int] = []
    taken: list[int] = []
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end or len(spent) < 20:
        before()
        start = clock()
        timed()
        stop = clock()
        after()
        spent.append(stop - start)
        start = clock()
        taken.append(clock() - start)
    return max(0.0, statistics.median(spent) - statistics.median(taken)) / 1e3


def nothing() -> None:
    """Nothing to do before or after."""


def all_of(pool: slots.Slots, calls: Calls) -> Callable[[], None]:
    """These calls in turn."""

    def do() -> None:
        for function, arguments in calls:
            function(pool, *arguments)

    return do


def figures(total: int) -> Iterator[tuple[str, str, float]]:
    """Kind, name and microseconds a step (an item, for batches), at one size."""
    pool = SPEC.initial(total=total)
    for name, (there, (action, arguments), back) in CASES.items():
        spent = microseconds(all_of(pool, there), partial(action, pool, *arguments), all_of(pool, back))
        yield "action", name, spent
    for name, (there, (action, arguments), back) in batched(list(range(1, BATCH + 1))).items():
        spent = microseconds(all_of(pool, there), partial(action, pool, *arguments), all_of(pool, back))
        yield f"batch of {BATCH}, an item", name, spent / BATCH
    for claim in SPEC.invariants:
        yield "invariant", claim.name, microseconds(nothing, partial(claim.function, pool), nothing)
    yield "invariant", "all", microseconds(nothing, partial(SPEC.violations, pool), nothing)


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for size in SIZES:
        for kind, name, spent in figures(size):
            rows.append({"slots": size, "kind": kind, "name": name, "microseconds": round(spent, 3)})
            print(f"{size:>6} slots  {kind:<22} {name:<40} {spent:>10.3f} us")
    steps = [row["microseconds"] for row in rows if row["kind"] != "invariant"]
    print(f"median over all steps: {statistics.median(steps):.3f} us")
    report = {
        "what": "run reading of spec/slots.py, microseconds a step",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": " ".join(["python bench/spec_step.py", *sys.argv[1:]]),
        "python": platform.python_version(),
        "figures": rows,
    }
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
