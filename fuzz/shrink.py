"""A failing trace made short: with Hypothesis where it is installed and gets there, else by leaving out chunks.

Both are deterministic. A shorter trace counts only if it violates the same claim.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from poolproof.fuzz.divergence import Divergence
from poolproof.fuzz.events import Schedule
from poolproof.fuzz.loading import LoadedTarget
from poolproof.fuzz.runs import run_trace
from poolproof.fuzz.targets import Profile
from poolproof.fuzz.traces import Trace

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

Fails = Callable[[Trace], bool]

_SHORT = 4
"""A trace of so few operations is short enough; a longer one goes another round, as long as that helps."""
_COARSE = 4
"""Hypothesis takes seconds on hundreds of operations, so runs of this many are left out before it is asked."""


def shrink(
    target: LoadedTarget, trace: Trace, divergence: Divergence, profile: Profile | None = None
) -> tuple[Trace, Divergence]:
    """A short trace that fails as this one does, with its failure noted in its header.

    Args:
        target: what fails.
        trace: a trace on which it fails with `divergence`.
        profile: what is expected of the target, its own profile by default.

    Raises:
        TargetError: the target cannot be made.
    """

    def failure(candidate: Trace) -> Divergence | None:
        found = run_trace(target, candidate, profile).divergence
        return found if found is not None and found.is_like(divergence) else None

    def fails(candidate: Trace) -> bool:
        return failure(candidate) is not None

    cut = trace.with_(trace.operations[: divergence.number])
    best, before = cut if fails(cut) else trace, None
    while best != before and (before is None or len(best.operations) > _SHORT):
        before = best
        best = _renumbered(_smaller(_fewer(best, fails), fails), fails)
        best = leave_out_chunks(_plainer(best, fails), fails)
    found = failure(best)
    if found is None:  # the target is not deterministic
        return trace, divergence
    return note_failure(best, found), found


def note_failure(trace: Trace, divergence: Divergence) -> Trace:
    """The trace with this failure in its header."""
    return trace.with_(
        step=divergence.number, theorem=divergence.theorem, claim=divergence.claim, message=str(divergence)
    )


def _fewer(trace: Trace, fails: Fails) -> Trace:
    trace = leave_out_chunks(trace, fails, least=_COARSE)
    if find_spec("hypothesis") is not None:
        from poolproof.fuzz.strategies import parts_of

        found = _found(parts_of(trace), fails)
        if found is not None:
            return found
    return leave_out_chunks(trace, fails)


def _plainer(trace: Trace, fails: Fails) -> Trace:
    if find_spec("hypothesis") is None:
        return trace
    from poolproof.fuzz.strategies import plainer_than

    return _found(plainer_than(trace), fails) or trace


def _found(strategy: SearchStrategy[Trace], fails: Fails) -> Trace | None:
    """The simplest failing example that Hypothesis gets to, always the same one."""
    from hypothesis import HealthCheck, Phase, Verbosity, find, settings
    from hypothesis.errors import NoSuchExample

    how = settings(
        max_examples=200,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=tuple(HealthCheck),
        verbosity=Verbosity.quiet,
    )
    try:
        return find(strategy, fails, settings=how, random=Random(0))
    except NoSuchExample:
        return None


def _smaller(trace: Trace, fails: Fails) -> Trace:
    """The least pool, and steps that complete at once, where the trace still fails."""
    at_once = trace.with_(schedule=Schedule())
    best = at_once if fails(at_once) else trace
    for slots in range(1, trace.slots):
        candidate = best.with_(sizes={"": slots})
        if fails(candidate):
            return candidate
    return best


def _renumbered(trace: Trace, fails: Fails) -> Trace:
    """Holders numbered from 0 in the order in which they occur, where the trace still fails."""
    numbers: dict[int, int] = {}
    operations: list[Any] = []
    for operation in trace.operations:
        old = {name: getattr(operation, name) for name in ("holder", "heir") if getattr(operation, name, -1) >= 0}
        new = {name: numbers.setdefault(number, len(numbers)) for name, number in old.items()}
        operations.append(msgspec.structs.replace(operation, **new))
    candidate = trace.with_(operations)
    return candidate if fails(candidate) else trace


def leave_out_chunks(trace: Trace, fails: Fails, least: int = 1) -> Trace:
    """Leave out runs of operations, long ones first and none below `least`, as long as the trace still fails."""
    operations: list[Any] = list(trace.operations)
    size = len(operations)
    while size >= least:
        at = len(operations) - size
        while at >= 0:
            shorter = operations[:at] + operations[at + size :]
            if fails(trace.with_(shorter)):
                operations = shorter
            at -= size
        size = size // 2 if size > 1 or not operations else 0
    return trace.with_(operations)
