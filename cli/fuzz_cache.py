"""The part of `poolproof fuzz` that is about the state cache: a campaign, one cache of it again, and the report."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from poolproof.cli.console import print_json, print_lines
from poolproof.cli.prove import live_progress

if TYPE_CHECKING:
    from poolproof.fuzz.cache_campaign import CacheResult


def can_fuzz_cache() -> bool:
    """Is there what the copies between active slots and checkpoints need?"""
    return find_spec("torch") is not None and find_spec("triton") is not None


def require_torch() -> None:
    """Raises SettingError where a state cache has no bytes to look at."""
    from poolproof.fuzz.errors import SettingError

    if not can_fuzz_cache():
        raise SettingError("state-cache needs torch and triton, on the host too: install poolproof[torch]")


def fuzz_cache(seed: int, ops: int | None, seconds: float | None, jobs: int, as_json: bool, device: str) -> bool:
    """A campaign against the state cache; has it passed?"""
    require_torch()
    from poolproof.fuzz.cache_campaign import run_cache

    with live_progress("fuzzing") as progress:
        result = run_cache(seed, ops, seconds, jobs, progress, device)
    if as_json:
        print_json(result.plain())
    else:
        print_lines(cache_lines(result))
    return result.passed


def play_cache_again(seed: int, number: int, kept: set[int] | None, as_json: bool, device: str) -> bool:
    """One cache of a campaign again; was nothing wrong?"""
    require_torch()
    from poolproof.fuzz.cache_campaign import play_cache

    driver, error = play_cache(seed, number, kept, with_trace=True, device=device)
    trace = driver.history or []
    message = None if error is None else f"{type(error).__name__}: {error}"
    if as_json:
        found = {"passed": error is None, "failure": message, "trace": trace}
        print_json({"seed": seed, "round": number, "device": device, "layout": str(driver.layout), **found})
    else:
        verdict = "passed" if message is None else f"FAILED: {message}"
        print_lines([f"on {driver.layout}", *(f"    {line}" for line in trace), verdict])
    return error is None


def cache_lines(result: CacheResult) -> list[str]:
    """A campaign against the state cache as text; the last line is the verdict."""
    tally, found, (canary, after) = result.tally, result.found, result.canary
    lines = [
        f"state-cache: {tally.operations:,} checked operations, {tally.steps:,} steps of the specs, on "
        f"{tally.rounds:,} caches, {result.rate:,.0f} operations a second, seed {result.seed}",
        f"  again: {result.reproduce}",
        f"  {tally.counts['admit hit']:,} hits, each compared bit for bit; some of it was quantised "
        f"{tally.deepest} times over",
        "  operation                 times",
        *(f"  {name:<20} {count:>10,}" for name, count in sorted(tally.counts.items())),
        f"{canary}, broken on purpose: found after {after:,} operations"
        if after
        else f"the fuzzer is blind: {canary}, broken on purpose, was not found",
    ]
    if found is not None:
        lines += ["", f"FAILED on cache {found.round}: {found.message}", f"  {len(found.kept)} operations:"]
        lines += [f"    {line}" for line in found.trace]
        lines += [f"  reproduce: {found.reproduce}", ""]
    return [*lines, "passed" if result.passed else "failed"]
