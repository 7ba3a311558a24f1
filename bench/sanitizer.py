"""compute-sanitizer over the kernels' GPU tests: `python bench/sanitizer.py [--tools ...] [--json FILE]`.

Each tool, side by side with the others, runs the GPU-marked tests of tests/kernels but those of huge buffers. Torch
does not pool its allocations meanwhile, so that memcheck and initcheck see each tensor by itself. Needs a CUDA device,
compute-sanitizer and pytest.

Exit codes: 0 no tool found anything; 1 one did, or a test failed; 2 wrong use.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HOME = Path(__file__).resolve().parent.parent
TOOLS = ("memcheck", "racecheck", "initcheck")
TESTS = "tests/kernels"
LEFT_OUT = "not 2_to_the_31 and not every_maximum and not every_code and not wide and not million"
"""Tests that take gigabytes, or run over all numbers of a format: minutes become hours under a tool."""

_SUMMARY = re.compile(r"ERROR SUMMARY: (\d+) error")
_RACES = re.compile(r"RACECHECK SUMMARY: (\d+) hazard")
_CLOSING = re.compile(r"(?:(\d+) failed, )?(\d+) passed")


def command(tool: str, tests: str) -> list[str]:
    """The program that runs the tests under a tool."""
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "gpu", "-k", LEFT_OUT]
    return ["compute-sanitizer", "--tool", tool, *pytest, *tests.split()]


def run(tool: str, tests: str) -> dict[str, Any]:
    """Run the tests under a tool: what it found, and what became of the tests."""
    begin = time.perf_counter()
    environment = {**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    done = subprocess.run(command(tool, tests), capture_output=True, text=True, cwd=HOME, env=environment)
    found = [int(n) for n in (_RACES if tool == "racecheck" else _SUMMARY).findall(done.stdout)]
    closing = _CLOSING.search(done.stdout)
    failed, passed = (int(closing[1] or 0), int(closing[2])) if closing else (0, 0)
    reports = [line for line in done.stdout.splitlines() if line.startswith("========= ")]
    return {
        "tool": tool,
        "errors": sum(found) if found else None,
        "passed": passed,
        "failed": failed,
        "exit_code": done.returncode,
        "seconds": round(time.perf_counter() - begin, 1),
        "reports": [line for line in reports if "SUMMARY" not in line and "COMPUTE-SANITIZER" not in line][:40],
        "tail": [] if closing else (done.stdout + done.stderr).splitlines()[-20:],
    }


def is_clean(result: dict[str, Any]) -> bool:
    """Has the tool run tests, and found nothing?"""
    return bool(result["errors"] == 0 and result["passed"] and not result["exit_code"])


def facts() -> dict[str, Any]:
    """What was run, with what, where."""
    import torch
    import triton

    version = subprocess.run(["compute-sanitizer", "--version"], capture_output=True, text=True).stdout
    digest = hashlib.sha256()
    for path in sorted((HOME / "kernels").glob("*.py")):
        digest.update(path.read_bytes())
    return {
        "what": "compute-sanitizer over the kernels' GPU tests",
        "date": datetime.date.today().isoformat(),
        "command": "python bench/sanitizer.py",
        "card": torch.cuda.get_device_name(),
        "versions": {
            "compute-sanitizer": (re.findall(r"Version ([\d.]+)", version) or ["?"])[0],
            "torch": torch.__version__,
            "triton": triton.__version__,
        },
        "source": digest.hexdigest()[:16],
        "left_out": LEFT_OUT,
    }


def main() -> None:
    """Run the tools, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=list(TOOLS))
    parser.add_argument("--tests", default=TESTS, help="what pytest is given")
    parser.add_argument("--json", type=Path, help="write the result here")
    options = parser.parse_args()
    if shutil.which("compute-sanitizer") is None:
        parser.error("compute-sanitizer is not on the PATH; it comes with the CUDA toolkit")
    with ThreadPoolExecutor(len(options.tools)) as together:
        tools = list(together.map(lambda tool: run(tool, options.tests), options.tools))
    found = {**facts(), "tools": tools}
    print("| tool | errors | tests | seconds |\n|---|---:|---:|---:|")
    for one in found["tools"]:
        tests = f"{one['passed']} passed" + (f", {one['failed']} failed" if one["failed"] else "")
        print(f"| {one['tool']} | {one['errors']} | {tests} | {one['seconds']} |")
        print(*one["reports"], *one["tail"], sep="\n")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    sys.exit(0 if all(map(is_clean, found["tools"])) else 1)


if __name__ == "__main__":
    main()
