"""One trace on one new target: what a campaign, the shrinker and a replay do over and over."""

from __future__ import annotations

from dataclasses import dataclass

from poolproof.fuzz.binding import Binding
from poolproof.fuzz.coverage import Coverage
from poolproof.fuzz.divergence import Diverged, Divergence
from poolproof.fuzz.driver import Driver
from poolproof.fuzz.loading import LoadedTarget
from poolproof.fuzz.targets import Profile
from poolproof.fuzz.traces import Trace


@dataclass(frozen=True)
class Run:
    """What came of a trace.

    Attributes:
        checked: operations done or refused, and compared.
        divergence: where the target left the spec; None where it never did.
    """

    checked: int
    divergence: Divergence | None


def run_trace(
    target: LoadedTarget, trace: Trace, profile: Profile | None = None, coverage: Coverage | None = None
) -> Run:
    """Run a trace, and the closing check, on a new target.

    Args:
        target: what to drive.
        trace: size, schedule and operations.
        profile: what to expect of the target, its own profile by default.
        coverage: where to count; a new one by default.

    Raises:
        TargetError: the target cannot be made.
    """
    binding = Binding(target.make(trace.slots), profile or target.profile)
    driver = None
    try:
        driver = Driver(binding, trace.slots, trace.header.schedule, coverage)
        driver.run(trace.operations)
    except Diverged as diverged:
        return Run(driver.checked if driver is not None else 0, diverged.divergence)
    return Run(driver.checked, None)
