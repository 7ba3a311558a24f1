"""Many runs from one seed: pools of many sizes, swarms of operations, schedules; and a canary that must be found."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import msgspec

from poolproof.fuzz.canaries import CANARIES, Canary
from poolproof.fuzz.coverage import Coverage
from poolproof.fuzz.divergence import Divergence
from poolproof.fuzz.errors import SettingError
from poolproof.fuzz.generate import (
    RandomSource,
    draw_length,
    draw_operation,
    draw_schedule,
    draw_slots,
    draw_swarm,
)
from poolproof.fuzz.loading import LoadedTarget, load_target
from poolproof.fuzz.runs import run_trace
from poolproof.fuzz.shrink import note_failure, shrink
from poolproof.fuzz.targets import Profile
from poolproof.fuzz.traces import Header, Trace, save_trace

DEFAULT_OPS: Final = 200_000
CANARY_OPS: Final = 100_000
"""How many checked operations a campaign has to find its canary."""

_NEEDS: Final = {
    "alloc": "",
    "free": "",
    "retire": "retire",
    "reclaim": "retire",
    "transfer": "transfer",
    "open_group": "groups",
    "reserve": "groups",
    "take": "groups",
    "close_group": "groups",
    "clear": "clear",
}
"""The capability that a target needs for each action of the spec."""

Progress = Callable[[str, int, int], None]
"""Called with what is done now, how much of it, and of how much."""


@dataclass(frozen=True)
class CanaryVerdict:
    """Was the broken allocator found?

    Attributes:
        name: which one; "" where none fits what the target promises.
        found: whether it was found.
        operations: checked operations until then.
    """

    name: str
    found: bool
    operations: int


@dataclass(frozen=True)
class Failure:
    """A run in which the target left the spec.

    Attributes:
        divergence: where, in the shrunk trace.
        trace: the shrunk trace.
        length: operations of the trace as it was found.
        path: where the shrunk trace is saved, None where it is not.
        reproduce: the one command that shows the failure again.
    """

    divergence: Divergence
    trace: Trace
    length: int
    path: Path | None
    reproduce: str


@dataclass(frozen=True)
class CampaignResult:
    """What a campaign has shown.

    Attributes:
        target: name of the target.
        seed: the seed; with `operations` it determines everything but the times.
        runs: pools driven.
        seconds: time spent on the target, shrinking and the canary not counted.
        operations: operations done or refused by target and spec alike, and compared.
        coverage: what was exercised.
        profile: what the target offers and promises.
        canary: whether the campaign can see.
        failure: the first failure; None where there is none.
    """

    target: str
    seed: int
    runs: int
    seconds: float
    operations: int
    coverage: Coverage
    profile: Profile
    canary: CanaryVerdict
    failure: Failure | None = field(default=None)

    @property
    def rate(self) -> float:
        """Checked operations a second."""
        return self.operations / self.seconds if self.seconds else 0.0

    @property
    def passed(self) -> bool:
        """No failure, and the canary was found."""
        return self.failure is None and self.canary.found

    @property
    def unreached(self) -> list[str]:
        """Actions of the spec never done, and guards that never said no, though the target can make them."""
        capable = {action for action, need in _NEEDS.items() if not need or need in self.profile.capabilities}
        return self.coverage.unreached(frozenset(capable))

    @property
    def reproduce(self) -> str:
        """The one command that runs this campaign again."""
        return reproduce_campaign(self.target, self.seed, self.operations)

    def plain(self) -> dict[str, Any]:
        """The result for JSON."""
        failure = self.failure
        return {
            "verdict": "passed" if self.passed else "failed",
            "target": self.target,
            "seed": self.seed,
            "operations": self.operations,
            "runs": self.runs,
            "seconds": round(self.seconds, 3),
            "operations_per_second": round(self.rate),
            "coverage": self.coverage.plain(),
            "unreached": self.unreached,
            "capabilities": sorted(self.profile.capabilities),
            "unclaimed": self.profile.unclaimed,
            "canary": {"name": self.canary.name, "found": self.canary.found, "operations": self.canary.operations},
            "failure": None
            if failure is None
            else {
                **msgspec.to_builtins(failure.divergence, enc_hook=str),
                "message": str(failure.divergence),
                "length": len(failure.trace.operations),
                "found_length": failure.length,
                "saved": None if failure.path is None else str(failure.path),
                "reproduce": failure.reproduce,
            },
            "reproduce": self.reproduce,
        }


def run_campaign(
    target: str = "slot-pool",
    ops: int | None = None,
    seconds: float | None = None,
    seed: int = 0,
    save_dir: Path | None = None,
    progress: Progress | None = None,
) -> CampaignResult:
    """Fuzz a target until it fails or the budget is spent.

    Args:
        target: a named target, or module:factory.
        ops: checked operations to reach (the last run is finished, so there may be a few hundred more).
        seconds: time to spend instead; the operations reached are in the result, so that `ops` can repeat it.
        seed: the seed of everything.
        save_dir: where to save the shrunk trace of a failure; None saves nothing.
        progress: called now and then.

    Raises:
        TargetError: the target cannot be loaded or made.
        SettingError: both budgets are given, or one that is not positive.
    """
    budget = _budget(ops, seconds)
    loaded = load_target(target)
    show = progress or (lambda what, done, of: None)
    coverage, checked, runs, found = Coverage(), 0, 0, None
    started = perf_counter()
    for trace in draw_traces(target, loaded.profile, seed):
        run = run_trace(loaded, trace, coverage=coverage)
        runs += 1
        checked += run.checked
        elapsed = perf_counter() - started
        show(target, *((checked, budget) if seconds is None else (int(elapsed), int(budget))))
        if run.divergence is not None:
            found = trace, run.divergence
        if found or (checked >= budget if seconds is None else elapsed >= budget):
            break
    elapsed = perf_counter() - started
    failure = None
    if found:
        show("shrinking", 0, 1)
        failure = _failure(loaded, *found, save_dir, reproduce_campaign(target, seed, checked))
    show("canary", 0, 1)
    verdict = look_for_canary(loaded.profile, seed)
    return CampaignResult(target, seed, runs, elapsed, checked, coverage, loaded.profile, verdict, failure)


def _budget(ops: int | None, seconds: float | None) -> Any:
    if ops is not None and seconds is not None:
        raise SettingError("a campaign is given a number of operations or a time, not both")
    budget = seconds if seconds is not None else DEFAULT_OPS if ops is None else ops
    if not budget > 0:
        raise SettingError(f"a budget of {budget}; it must be more than zero")
    return budget


def reproduce_campaign(target: str, seed: int, ops: int) -> str:
    """The command that runs a campaign again."""
    return shlex.join(["poolproof", "fuzz", target, "--seed", str(seed), "--ops", str(ops)])


def draw_traces(target: str, profile: Profile, seed: int) -> Iterator[Trace]:
    """The runs of a campaign, without end. Run i depends on the seed, i and the profile only."""
    index = 0
    while True:
        source = RandomSource(f"{seed}/{index}")
        swarm = draw_swarm(source, profile)
        header = Header(target=target, sizes={"": draw_slots(source)}, schedule=draw_schedule(source), seed=seed)
        yield Trace(header, tuple([draw_operation(source, swarm) for _ in range(draw_length(source))]))
        index += 1


def _failure(loaded: LoadedTarget, trace: Trace, divergence: Divergence, save_dir: Path | None, again: str) -> Failure:
    length = len(trace.operations)
    short, divergence = shrink(loaded, note_failure(trace, divergence), divergence)
    if save_dir is None:
        return Failure(divergence, short, length, None, again)
    name = re.sub(r"[^A-Za-z0-9]+", "-", loaded.name).strip("-")
    path = save_dir / f"{name}-seed-{short.header.seed}-{short.header.theorem}.jsonl"
    try:
        save_trace(short, path)
    except OSError as problem:  # the finding counts, saved or not
        print(f"poolproof: cannot save the trace as {path}: {problem.strerror}", file=sys.stderr)
        return Failure(divergence, short, length, None, again)
    return Failure(divergence, short, length, path, shlex.join(["poolproof", "replay", str(path)]))


def canary_for(profile: Profile, seed: int) -> Canary | None:
    """The canary of this seed among those that what is offered and promised must show; None where there is none."""
    fitting = [canary for canary in CANARIES if canary.shows_under(profile)]
    return fitting[seed % len(fitting)] if fitting else None


def look_for_canary(profile: Profile, seed: int, canary: Canary | None = None) -> CanaryVerdict:
    """Fuzz a broken allocator exactly as the target is fuzzed.

    Args:
        profile: what the target offers and promises.
        seed: the campaign's seed.
        canary: which one; that of the seed by default.
    """
    canary = canary or canary_for(profile, seed)
    if canary is None:
        return CanaryVerdict("", False, 0)
    loaded = LoadedTarget(canary.name, canary.make)
    shared = Profile(loaded.profile.capabilities & profile.capabilities, loaded.profile.promises & profile.promises)
    checked = 0
    for trace in draw_traces(canary.name, shared, seed):
        run = run_trace(loaded, trace, shared)
        checked += run.checked
        if run.divergence is not None or checked >= CANARY_OPS:
            return CanaryVerdict(canary.name, run.divergence is not None, checked)
    raise AssertionError("draw_traces has no end")
