"""`poolproof fuzz`: drive an allocator against the spec, and keep what breaks it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from poolproof.cli.console import print_json, print_lines
from poolproof.cli.prove import live_progress

if TYPE_CHECKING:
    from poolproof.fuzz.campaign import CampaignResult, Failure


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(fuzz)


def fuzz(
    target: Annotated[str, typer.Argument(help="slot-pool, or module:factory of your own allocator.")],
    time: Annotated[float | None, typer.Option("--time", help="Seconds to spend.")] = None,
    ops: Annotated[int | None, typer.Option("--ops", help="Checked operations to reach (200,000 by default).")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of everything; drawn and shown by default.")] = None,
    save_dir: Annotated[Path, typer.Option(help="Where the trace of a failure is saved.")] = Path("poolproof-failures"),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Drive an allocator and the spec in lockstep, and compare the whole state after every operation."""
    from poolproof.fuzz.campaign import run_campaign

    if seed is None:
        from secrets import randbelow

        seed = randbelow(1 << 32)
    with live_progress("fuzzing") as progress:
        result = run_campaign(target, ops=ops, seconds=time, seed=seed, save_dir=save_dir, progress=progress)
    if as_json:
        print_json(result.plain())
    else:
        print_lines(report_lines(result))
    raise typer.Exit(0 if result.passed else 1)


def report_lines(result: CampaignResult) -> list[str]:
    """A campaign as text; the last line is the verdict."""
    lines = [
        f"{result.target}: {result.operations:,} checked operations on {result.runs:,} pools, "
        f"{result.rate:,.0f} a second, seed {result.seed}",
        f"  again: {result.reproduce}",
        *_coverage_lines(result),
    ]
    canary = result.canary
    if canary.found:
        lines.append(f"{canary.name}, broken on purpose: found after {canary.operations:,} operations")
    else:
        what = f"{canary.name} was not found in {canary.operations:,} operations" if canary.name else "no canary fits"
        lines.append(f"the fuzzer is blind: {what}")
    if result.failure is not None:
        lines += ["", *failure_lines(result.failure), ""]
    return [*lines, "passed" if result.passed else "failed"]


def _coverage_lines(result: CampaignResult) -> list[str]:
    plain = result.coverage.plain()
    lines = ["  operation          done    refused"]
    for name, counts in plain["operations"].items():
        if counts["done"] or counts["refused"]:
            lines.append(f"  {name:<12} {counts['done']:>10,} {counts['refused']:>10,}")
    guards = [n for action in plain["actions"].values() for n in action["guards"].values()]
    lines.append(f"  guards of the spec that said no: {sum(n > 0 for n in guards)} of {len(guards)}")
    if result.unreached and result.failure is None:
        lines.append(f"  never reached: {'; '.join(result.unreached)}")
    if result.profile.unclaimed:
        lines.append(f"  not promised by the target, so left out: {', '.join(result.profile.unclaimed)}")
    return lines


def failure_lines(failure: Failure) -> list[str]:
    """A failure as text: what, the shrunk trace, and how to see it again."""
    import msgspec

    divergence, header = failure.divergence, failure.trace.header
    trace = [f"    {i}  {msgspec.json.encode(op).decode()}" for i, op in enumerate(failure.trace.operations, 1)]
    return [
        f"FAILED at operation {divergence.number}: {divergence.operation}",
        f"  violates {divergence.theorem} {divergence.claim}",
        f"  {divergence.field}" + (f" of slots {list(divergence.slots)}" if divergence.slots else ""),
        f"    the target: {divergence.target}",
        f"    the spec:   {divergence.spec}",
        *([f"    {divergence.note}"] if divergence.note else []),
        f"  {len(failure.trace.operations)} operations (of {failure.length} as found) on a pool of "
        f"{failure.trace.slots}, seed {header.seed}:",
        *trace,
        *([f"  saved: {failure.path}"] if failure.path is not None else []),
        f"  reproduce: {failure.reproduce}",
    ]
