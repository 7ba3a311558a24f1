"""The part of `poolproof fuzz` that plays in rounds: the state cache and the checkpoint pool, and the report."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from poolproof.cli.console import print_json, print_lines
from poolproof.cli.prove import live_progress

if TYPE_CHECKING:
    from poolproof.fuzz.round_campaign import RoundResult, Subject

TARGETS: Final = ("state-cache", "checkpoint-pool")


def can_fuzz_cache() -> bool:
    """Is there what the copies between active slots and checkpoints need?"""
    return find_spec("torch") is not None and find_spec("triton") is not None


def require_torch(target: str) -> None:
    """Raises SettingError where a state cache or a checkpoint pool has no bytes to look at."""
    from poolproof.fuzz.errors import SettingError

    if not can_fuzz_cache():
        raise SettingError(f"{target} needs torch and triton, on the host too: install poolproof[torch]")


def subject_of(target: str) -> Subject:
    """What a target of TARGETS is."""
    if target == "state-cache":
        from poolproof.fuzz.cache_campaign import SUBJECT

        return SUBJECT
    from poolproof.fuzz import checkpoint_campaign

    return checkpoint_campaign.SUBJECT


def fuzz_rounds(
    target: str, seed: int, ops: int | None, seconds: float | None, jobs: int, as_json: bool, device: str
) -> bool:
    """A campaign; has it passed?"""
    require_torch(target)
    from poolproof.fuzz.round_campaign import run_rounds

    with live_progress("fuzzing") as progress:
        result = run_rounds(subject_of(target), seed, ops, seconds, jobs, progress, device)
    if as_json:
        print_json(result.plain())
    else:
        print_lines(round_lines(result))
    return result.passed


def play_round_again(target: str, seed: int, number: int, kept: set[int] | None, as_json: bool, device: str) -> bool:
    """One round of a campaign again; was nothing wrong?"""
    require_torch(target)
    from poolproof.fuzz.round_campaign import play_round, text_of

    driver, error = play_round(subject_of(target), seed, number, kept, with_trace=True, device=device)
    trace = driver.history or []
    message = None if error is None else text_of(error)
    if as_json:
        found = {"passed": error is None, "failure": message, "trace": trace}
        print_json({"seed": seed, "round": number, "device": device, "layout": str(driver.layout), **found})
    else:
        verdict = "passed" if message is None else f"FAILED: {message}"
        print_lines([f"on {driver.layout}", *(f"    {line}" for line in trace), verdict])
    return error is None


def round_lines(result: RoundResult) -> list[str]:
    """A campaign as text; the last line is the verdict."""
    subject, tally, found, (canary, after) = result.subject, result.tally, result.found, result.canary
    lines = [
        f"{subject.target}: {tally.operations:,} checked operations, {tally.steps:,} steps of the specs, on "
        f"{tally.rounds:,} {subject.noun}s, {result.rate:,.0f} operations a second, seed {result.seed}",
        f"  again: {result.reproduce}",
        f"  {result.hits:,} hits, each compared bit for bit; some of it was quantised {tally.deepest} times over",
        "  operation                 times",
        *(f"  {name:<20} {count:>10,}" for name, count in sorted(tally.counts.items())),
        f"{canary}, broken on purpose: found after {after:,} operations"
        if after
        else f"the fuzzer is blind: {canary}, broken on purpose, was not found",
    ]
    if found is not None:
        lines += ["", f"FAILED on {subject.noun} {found.round}: {found.message}", f"  {len(found.kept)} operations:"]
        lines += [f"    {line}" for line in found.trace]
        lines += [f"  reproduce: {found.reproduce}", ""]
    return [*lines, "passed" if result.passed else "failed"]
