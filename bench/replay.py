"""Measures the replay of a request trace: `python bench/replay.py [TRACE] [--slots N] [--json FILE]`.

Without a trace one of 12,000 requests is made up.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import sys
from importlib.metadata import version
from pathlib import Path

from poolproof.fuzz.mooncake import read_requests
from poolproof.fuzz.replay import DEFAULT_SLOTS, replay_requests
from poolproof.fuzz.synthetic import make_requests


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", nargs="?", type=Path)
    parser.add_argument("--slots", type=int, default=DEFAULT_SLOTS)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    requests = make_requests(12_000, 0) if options.trace is None else read_requests(options.trace)
    results = [replay_requests(requests, options.slots) for _ in range(options.repeat)]
    assert all(result.passed for result in results)
    best = min(results, key=lambda result: result.seconds)
    figures = {
        "what": "replay of a request trace with the spec in lockstep",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": "python bench/replay.py " + " ".join(sys.argv[1:]),
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "poolproof": version("poolproof"),
        "trace": "synthetic" if options.trace is None else options.trace.name,
        **best.plain(),
        "all_seconds": [round(result.seconds, 2) for result in results],
    }
    print(
        f"{best.requests:,} requests in {best.seconds:.1f} s, {best.rate:,.0f} checked steps a second, "
        f"hit rate {best.hit_rate:.1%}, {best.evictions:,} evictions, {best.refusals:,} refusals"
    )
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
