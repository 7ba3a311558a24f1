"""`poolproof check`: the main job. The proofs, a short fuzz of the shipped pool, one verdict."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING, Annotated

import typer

from poolproof.cli.console import print_json
from poolproof.cli.prove import live_progress, require_solver, run

if TYPE_CHECKING:
    from poolproof.fuzz.campaign import CampaignResult
    from poolproof.proofs.results import Report

TARGET = "slot-pool"
DEFAULT_OPS = 100_000


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
    """Prove every theorem, fuzz the shipped pool for a moment, and give one verdict."""
    require_solver()
    from poolproof.proofs.ledger import differences, read
    from poolproof.proofs.prove import Options

    report = run(Options(jobs=jobs, use_cache=not no_cache))
    report.problems += [f"the shipped ledger differs: {line}" for line in differences(read(), report)]
    campaign = _fuzz(random.SystemRandom().getrandbits(31) if seed is None else seed, ops)
    passed = report.passed and campaign.passed
    if as_json:
        whole = {"prove": report.plain(), "fuzz": campaign.plain()}
        print_json({"verdict": "passed" if passed else "failed", **whole})
    else:
        _show(report, campaign, passed)
    raise typer.Exit(0 if passed else 1)


def _fuzz(seed: int, ops: int) -> CampaignResult:
    from poolproof.fuzz.campaign import run_campaign

    with live_progress("fuzzing") as progress:
        return run_campaign(target=TARGET, ops=ops, seed=seed, progress=progress)


def _show(report: Report, campaign: CampaignResult, passed: bool) -> None:
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
    console.print("[bold green]check passed[/]" if passed else "[bold red]check failed[/]")
