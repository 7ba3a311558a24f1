"""Speed of `poolproof replay` on a request trace: `python bench/replay.py [TRACE] [--slots N] [--json FILE]`.

Without TRACE a synthetic trace is replayed. Seconds are of processor time; those by wall clock stand beside them.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import sys
import time
from importlib.metadata import version
from pathlib import Path

from poolproof.fuzz.mooncake import Request, read_requests
from poolproof.fuzz.replay import DEFAULT_SLOTS, replay_requests
from poolproof.fuzz.synthetic import make_requests

SEED = 0


def replay(requests: list[Request], slots: int) -> dict[str, object]:
    """One replay, which must find nothing; its result and its processor time."""
    start = time.process_time()
    result = replay_requests(requests, slots)
    processor = time.process_time() - start
    assert result.passed, result.violations
    rate = round(result.steps / processor)
    print(
        f"{slots:>8} slots: {processor:.1f} s, {rate:,} checked steps a second of one core; "
        f"hit rate {result.hit_rate:.1%}, {result.evictions:,} evictions, {result.refusals:,} refusals"
    )
    return {**result.plain(), "processor_seconds": round(processor, 3), "steps_per_processor_second": rate}


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path, nargs="?")
    parser.add_argument("--slots", type=int, nargs="+", default=[DEFAULT_SLOTS // 16, DEFAULT_SLOTS, DEFAULT_SLOTS * 8])
    parser.add_argument("--requests", type=int, default=12_000, help="requests of the synthetic trace")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.trace is None:
        requests, name = make_requests(options.requests, SEED), f"synthetic, {options.requests} requests, seed {SEED}"
    else:
        requests, name = read_requests(options.trace), options.trace.name
    given = [name for name in sys.argv[1:] if options.trace is None or name != str(options.trace)]
    report = {
        "what": "request trace through SlotPool with the spec in lockstep",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": " ".join(["python bench/replay.py", *([] if options.trace is None else [name]), *given]),
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "cores": os.cpu_count(),
        "trace": name,
        "distinct_blocks": len({block for request in requests for block in request.hash_ids}),
        "figures": [replay(requests, slots) for slots in options.slots],
    }
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
