"""Checked operations a second of the fuzzer: `python bench/fuzz.py [--ops N] [--seeds N] [--json FILE]`.

Rates are by processor time of the one process, so that a busy machine does not show in them; those by wall clock stand
beside them.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import statistics
import sys
import time
from importlib.metadata import version
from pathlib import Path

from poolproof.fuzz.campaign import draw_traces
from poolproof.fuzz.generate import RandomSource, draw_operation, draw_swarm
from poolproof.fuzz.loading import load_target
from poolproof.fuzz.runs import run_trace

TARGETS = ("slot-pool", "plain-pool")


def drive(name: str, ops: int, seed: int) -> dict[str, object]:
    """Rates of one campaign, without canary; it must find nothing."""
    target = load_target(name)
    checked, runs = 0, 0
    wall, processor = time.perf_counter(), time.process_time()
    for trace in draw_traces(name, target.profile, seed):
        run = run_trace(target, trace)
        assert run.divergence is None, run.divergence
        checked += run.checked
        runs += 1
        if checked >= ops:
            break
    processor, wall = time.process_time() - processor, time.perf_counter() - wall
    return {
        "target": name,
        "seed": seed,
        "operations": checked,
        "runs": runs,
        "operations_per_processor_second": round(checked / processor),
        "operations_per_second": round(checked / wall),
    }


def drawn_per_second(ops: int) -> int:
    """Operations drawn a second of processor time, nothing run."""
    source = RandomSource("bench")
    swarm = draw_swarm(source, load_target(TARGETS[0]).profile)
    start = time.process_time()
    for _ in range(ops):
        draw_operation(source, swarm)
    return round(ops / (time.process_time() - start))


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ops", type=int, default=200_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    figures, rows = {}, []
    for name in TARGETS:
        rates = []
        for seed in range(options.seeds):
            rows.append(drive(name, options.ops, seed))
            rates.append(int(str(rows[-1]["operations_per_processor_second"])))
        figures[name] = statistics.median(rates)
        print(f"{name}: {figures[name]:,.0f} checked operations a second of one core (median of {len(rates)} seeds)")
    report = {
        "what": "operations done or refused by target and spec alike and compared in full, per second of one core",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": "python bench/fuzz.py " + " ".join(sys.argv[1:]),
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "msgspec": version("msgspec"),
        "cores": os.cpu_count(),
        "median_operations_per_processor_second": figures,
        "drawn_per_processor_second": drawn_per_second(options.ops),
        "figures": rows,
    }
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
