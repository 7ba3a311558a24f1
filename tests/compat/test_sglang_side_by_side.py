"""SGLang's own package and ours, called the same: each reply is equal, or differs as is declared, and every declared
difference occurs.

The peer runs in a python of its own. POOLPROOF_SGLANG_PYTHON names it, and `bench/peers/README.md` says how it is made;
without it this file is skipped. POOLPROOF_SGLANG_SEED chooses other calls than the usual ones.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import sglang_driver
from sglang_calls import SETUPS, quantizations, random_calls
from sglang_compare import Comparison

from poolproof.compat.sglang import DIFFERENCES

PYTHON = os.environ.get("POOLPROOF_SGLANG_PYTHON", "")
SEED = int(os.environ.get("POOLPROOF_SGLANG_SEED", "20"))
ROUNDS = 3

pytestmark = pytest.mark.skipif(
    not PYTHON,
    reason="no SGLang: set POOLPROOF_SGLANG_PYTHON to a python that has it; bench/peers/README.md says how to make one",
)

Json = dict[str, Any]


@dataclass
class Runs:
    """What was called, and what either side replied.

    Attributes:
        versions: of the peer and its torch.
        runs: setup and calls.
        theirs, ours: replies of each run.
        healthy: violations that our own check found after each run.
    """

    versions: Json
    runs: list[Json]
    theirs: list[list[Json]]
    ours: list[list[Json]]
    healthy: list[list[Any]]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """The same calls on both."""
    print(f"\nPOOLPROOF_SGLANG_SEED={SEED}")
    runs = [{"setup": setup, "calls": random_calls(SEED + turn, setup)} for turn in range(ROUNDS) for setup in SETUPS]
    runs.append({"setup": SETUPS[0], "calls": quantizations(SEED)})
    file = tmp_path_factory.mktemp("sglang") / "calls.json"
    file.write_text(json.dumps({"runs": runs}))
    done = subprocess.run([PYTHON, str(sglang_driver.FILE), str(file)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    drivers = [sglang_driver.driver(run["setup"]) for run in runs]
    ours = [driver.run(run["calls"]) for driver, run in zip(drivers, runs, strict=True)]
    healthy = [[*driver.slots["active"].check(), *driver.pool.check()] for driver in drivers]
    return Runs(said["versions"], runs, said["replies"], ours, healthy)


@pytest.fixture(scope="module")
def compared(both: Runs) -> Comparison:
    """All replies, call by call."""
    comparison = Comparison()
    for run, theirs, ours in zip(both.runs, both.theirs, both.ours, strict=True):
        states = partial(sglang_driver.states, run["setup"])
        for call, there, here in zip(run["calls"], theirs, ours, strict=True):
            comparison.reply(call, there, here, states)
    return comparison


def test_the_peer_is_the_version_that_is_declared(both: Runs) -> None:
    assert both.versions["sglang"] == "0.5.23"


def test_every_reply_is_equal_or_differs_as_declared(both: Runs, compared: Comparison) -> None:
    calls = sum(len(run["calls"]) for run in both.runs)
    print(f"\n{calls} calls; sglang {both.versions['sglang']}, torch {both.versions['torch']}")
    for name, count in sorted(compared.found.items(), key=lambda item: -item[1]):
        print(f"{count:6} {name}")
    for kind, figures in sorted(compared.figures.items()):
        print(f"{kind:18} {figures.line()}")
    assert not any(both.healthy)


def test_every_declared_difference_occurs_and_no_other(compared: Comparison) -> None:
    assert {name for name, count in compared.found.items() if count} == {each.name for each in DIFFERENCES}
