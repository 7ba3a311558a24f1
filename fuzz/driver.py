"""A trace of operations through a target, against the spec."""

from __future__ import annotations

from dataclasses import dataclass

from poolproof.fuzz.divergence import Divergence
from poolproof.fuzz.loading import LoadedTarget
from poolproof.fuzz.lockstep import Lockstep
from poolproof.fuzz.tally import Tally
from poolproof.fuzz.targets import Profile
from poolproof.fuzz.traces import Trace


@dataclass(frozen=True)
class Run:
    """What came of a trace.

    Attributes:
        tally: what was checked.
        divergence: where the target left the spec; None where it never did.
    """

    tally: Tally
    divergence: Divergence | None


def drive(target: LoadedTarget, trace: Trace, profile: Profile | None = None) -> Run:
    """Run a trace on a new target, then let everybody give everything back.

    Args:
        target: what to drive.
        trace: sizes, schedule and operations.
        profile: what to expect of the target, its own profile by default.

    Raises:
        TargetError: the target cannot be made.
    """
    lockstep = None
    tally = Tally()
    made = target.make(trace.slots)
    try:
        lockstep = Lockstep(made, profile or target.profile, trace.slots, trace.header.schedule)
        tally = lockstep.tally
        for operation in trace.operations:
            lockstep.apply(operation)
        lockstep.finish()
    except Divergence as divergence:
        return Run(tally, divergence)
    return Run(tally, None)
