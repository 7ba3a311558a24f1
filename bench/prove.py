"""Times `poolproof prove`, cold and warm, as whole processes: `python bench/prove.py [--jobs N] [--json FILE]`."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

PROGRAM = "from poolproof.cli.main import main; main()"


def timed(cache: str, *arguments: str) -> float:
    """Seconds of one whole process."""
    start = time.perf_counter()
    command = [sys.executable, "-c", PROGRAM, "prove", "--json", *arguments]
    environment = {**os.environ, "POOLPROOF_CACHE_DIR": cache}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert json.loads(done.stdout)["verdict"] == "passed"
    return time.perf_counter() - start


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    cold, warm = [], []
    for _ in range(options.repeat):
        with tempfile.TemporaryDirectory() as cache:
            cold.append(timed(cache, "--jobs", str(options.jobs)))
            warm.append(timed(cache, "--jobs", str(options.jobs)))
    figures = {
        "what": "poolproof prove, whole process, seconds",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": "python bench/prove.py " + " ".join(sys.argv[1:]),
        "python": platform.python_version(),
        "z3": version("z3-solver"),
        "cores": os.cpu_count(),
        "jobs": options.jobs,
        "cold_seconds": {"median": statistics.median(cold), "all": cold},
        "warm_seconds": {"median": statistics.median(warm), "all": warm},
    }
    print(f"cold {statistics.median(cold):.1f} s, warm {statistics.median(warm):.2f} s ({options.jobs} jobs)")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
