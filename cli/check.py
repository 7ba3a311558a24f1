"""`poolproof check`: the main job. The proofs, a short fuzz of the shipped pools, one verdict."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING, Annotated, Any

import typer

from poolproof.cli.console import print_json
from poolproof.cli.fuzz_cache import can_fuzz_cache
from poolproof.cli.prove import live_progress, require_solver, run

if TYPE_CHECKING:
    from poolproof.cli.console import Paper
    from poolproof.fuzz.campaign import CampaignResult
    from poolproof.fuzz.round_campaign import RoundResult
    from poolproof.fuzz.unified_campaign import UnifiedResult
    from poolproof.proofs.results import Report

TARGET = "slot-pool"
DEFAULT_OPS = 100_000
UNIFIED_PART = 20
"""The unified pool gets one operation in so many: each takes the spec so many times longer."""

CACHE_PART = 200
"""The same of the state cache, where torch is installed."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(check)


def check(
    jobs: Annotated[int, typer.Option(min=1, help="Processes for the proofs.")] = os.cpu_count() or 1,
    ops: Annotated[int, typer.Option(min=1, help="Checked operations of the fuzz.")] = DEFAULT_OPS,
    seed: Annotated[int | None, typer.Option(help="Seed of the fuzz; drawn and printed where it is not given.")] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Decide everything afresh.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Prove every theorem, fuzz the shipped pools for a moment, and give one verdict."""
    require_solver()
    from poolproof.proofs.ledger import differences, read
    from poolproof.proofs.prove import Options

    report = run(Options(jobs=jobs, use_cache=not no_cache))
    report.problems += [f"the shipped ledger differs: {line}" for line in differences(read(), report)]
    seed = random.SystemRandom().getrandbits(31) if seed is None else seed
    campaign, unified = _fuzz(seed, ops), _fuzz_unified(seed, -(-ops // UNIFIED_PART))
    cache = _fuzz_cache(seed, -(-ops // CACHE_PART)) if can_fuzz_cache() else None
    passed = report.passed and campaign.passed and unified.passed and (cache is None or cache.passed)
    if as_json:
        whole: dict[str, Any] = {"prove": report.plain(), "fuzz": campaign.plain(), "fuzz_unified": unified.plain()}
        whole["fuzz_cache"] = None if cache is None else cache.plain()
        print_json({"verdict": "passed" if passed else "failed", **whole})
    else:
        _show(report, campaign, unified, cache, passed)
    raise typer.Exit(0 if passed else 1)


def _fuzz(seed: int, ops: int) -> CampaignResult:
    from poolproof.fuzz.campaign import run_campaign

    with live_progress("fuzzing") as progress:
        return run_campaign(target=TARGET, ops=ops, seed=seed, progress=progress)


def _fuzz_unified(seed: int, ops: int) -> UnifiedResult:
    from poolproof.fuzz.unified_campaign import run_unified

    with live_progress("fuzzing") as progress:
        return run_unified(seed, ops, progress=progress)


def _fuzz_cache(seed: int, ops: int) -> RoundResult:
    from poolproof.fuzz.cache_campaign import run_cache

    with live_progress("fuzzing") as progress:
        return run_cache(seed, ops, progress=progress)


def _show(
    report: Report, campaign: CampaignResult, unified: UnifiedResult, cache: RoundResult | None, passed: bool
) -> None:
    from poolproof.cli.console import Paper
    from poolproof.cli.proof_text import control_lines, show_failures, show_verdict, theorem_table

    console = Paper()
    console.print(theorem_table(report))
    for line in control_lines(report):
        console.print(line, markup=False)
    show_failures(report, [], console)
    show_verdict(report, console)
    console.print(
        f"fuzz of {campaign.target}: {campaign.operations} operations compared in full with the spec, "
        f"{campaign.rate:,.0f} a second, seed {campaign.seed}",
        markup=False,
    )
    found = "found" if campaign.canary.found else "NOT found: the fuzzer is blind"
    console.print(f"canary {campaign.canary.name}: {found} after {campaign.canary.operations} operations", markup=False)
    if campaign.failure is not None:
        console.print(str(campaign.failure.divergence), style="red", markup=False)
        console.print(f"reproduce: {campaign.failure.reproduce}", markup=False)
    _show_unified(unified, console)
    _show_cache(cache, console)
    console.print("[bold green]check passed[/]" if passed else "[bold red]check failed[/]")


def _show_unified(unified: UnifiedResult, console: Paper) -> None:
    tally, (canary, after) = unified.tally, unified.canary
    console.print(
        f"fuzz of unified-pool: {tally.operations} operations, {tally.steps} steps of the spec, every byte known, "
        f"{tally.operations / max(unified.seconds, 1e-9):,.0f} a second, seed {unified.seed}",
        markup=False,
    )
    found = f"found after {after} operations" if after else "NOT found: the fuzzer is blind"
    console.print(f"canary {canary}: {found}", markup=False)
    if unified.found is not None:
        console.print(unified.found.message, style="red", markup=False)
        console.print(f"reproduce: {unified.found.reproduce}", markup=False)


def _show_cache(cache: RoundResult | None, console: Paper) -> None:
    if cache is None:
        console.print("no fuzz of state-cache, which needs torch and triton: install poolproof[torch]", markup=False)
        return
    tally, (canary, after) = cache.tally, cache.canary
    console.print(
        f"fuzz of state-cache: {tally.operations} operations, {tally.steps} steps of the specs, "
        f"{tally.counts['admit hit']} hits compared bit for bit, {cache.rate:,.0f} operations a second, "
        f"seed {cache.seed}",
        markup=False,
    )
    found = f"found after {after} operations" if after else "NOT found: the fuzzer is blind"
    console.print(f"canary {canary}: {found}", markup=False)
    if cache.found is not None:
        console.print(cache.found.message, style="red", markup=False)
        console.print(f"reproduce: {cache.found.reproduce}", markup=False)
