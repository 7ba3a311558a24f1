"""Measures the fuzzer's checked operations a second on one core: `python bench/fuzz.py [--ops N] [--json FILE]`.

Every operation is done by the shipped slot pool and by the spec, and their whole states are compared after it.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import statistics
import sys
from importlib.metadata import version
from pathlib import Path

from poolproof.fuzz.campaign import run_campaign


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="slot-pool")
    parser.add_argument("--ops", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results = [run_campaign(options.target, ops=options.ops, seed=options.seed) for _ in range(options.repeat)]
    assert all(result.passed for result in results)
    rates = [result.rate for result in results]
    figures = {
        "what": "checked operations a second, one core",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": "python bench/fuzz.py " + " ".join(sys.argv[1:]),
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "poolproof": version("poolproof"),
        "target": options.target,
        "seed": options.seed,
        "operations": results[0].operations,
        "operations_per_second": {"median": round(statistics.median(rates)), "all": [round(rate) for rate in rates]},
    }
    print(f"{statistics.median(rates):,.0f} checked operations a second (best {max(rates):,.0f})")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
