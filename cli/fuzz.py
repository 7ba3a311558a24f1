"""`poolproof fuzz`: drive an allocator against the spec, and keep what breaks it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from poolproof.cli.console import print_json, print_lines
from poolproof.cli.fuzz_cache import TARGETS, fuzz_rounds, play_round_again
from poolproof.cli.prove import live_progress

if TYPE_CHECKING:
    from poolproof.fuzz.campaign import CampaignResult, Failure
    from poolproof.fuzz.unified_campaign import Setting, UnifiedResult


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(fuzz)


def fuzz(
    target: Annotated[
        str,
        typer.Argument(help="slot-pool, unified-pool, state-cache, checkpoint-pool, or module:factory of your own."),
    ],
    time: Annotated[float | None, typer.Option("--time", help="Seconds to spend.")] = None,
    ops: Annotated[
        int | None,
        typer.Option(
            "--ops",
            help="Checked operations to reach (by default 200,000; 20,000 of unified-pool, 5,000 of the other two).",
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of everything; drawn and shown by default.")] = None,
    save_dir: Annotated[Path, typer.Option(help="Where the trace of a failure is saved.")] = Path("poolproof-failures"),
    jobs: Annotated[int, typer.Option(min=1, help="Processes (unified-pool, state-cache, checkpoint-pool).")] = 1,
    number: Annotated[int | None, typer.Option("--round", help="One buffer, cache or pool of the seed.")] = None,
    keep: Annotated[str | None, typer.Option(help="Operations of --round, such as 0,4,17; all by default.")] = None,
    device: Annotated[
        str, typer.Option(help="Where the buffers are: host, tensor (kernels interpreted), cuda; of these three.")
    ] = "host",
    scale: Annotated[int, typer.Option(min=1, help="Pages so many times as large (unified-pool only).")] = 1,
    guard: Annotated[bool, typer.Option("--guard", help="Pools with guard=True (unified-pool, --scale 64).")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Drive an allocator and the spec in lockstep, and compare the whole state after every operation."""
    check_use(number, keep, seed, ops, time, jobs)
    if seed is None:
        from secrets import randbelow

        seed = randbelow(1 << 32)
    if target == "unified-pool":
        setting = setting_of(device, scale, guard)
        if number is not None:
            passed = play_again(seed, number, kept_numbers(keep), as_json, setting)
        else:
            passed = fuzz_unified(seed, ops, time, jobs, as_json, setting)
        raise typer.Exit(0 if passed else 1)
    if (scale, guard) != (1, False):
        raise typer.BadParameter("--scale and --guard are for the target unified-pool")
    if target in TARGETS:
        setting_of(device, scale, guard)
        if number is not None:
            passed = play_round_again(target, seed, number, kept_numbers(keep), as_json, device)
        else:
            passed = fuzz_rounds(target, seed, ops, time, jobs, as_json, device)
        raise typer.Exit(0 if passed else 1)
    if jobs != 1 or number is not None or keep is not None or device != "host":
        raise typer.BadParameter(
            "--jobs, --round, --keep and --device are for the targets unified-pool, state-cache and checkpoint-pool"
        )
    from poolproof.fuzz.campaign import run_campaign

    with live_progress("fuzzing") as progress:
        result = run_campaign(target, ops=ops, seconds=time, seed=seed, save_dir=save_dir, progress=progress)
    if as_json:
        print_json(result.plain())
    else:
        print_lines(report_lines(result))
    raise typer.Exit(0 if result.passed else 1)


def setting_of(device: str, scale: int, guard: bool) -> Setting:
    """Where the buffers of a campaign are. Kernels on the CPU are interpreted, which Triton is told before it loads.

    Raises:
        SettingError: no such device, or torch is not there, or sees none.
    """
    from importlib.util import find_spec

    from poolproof.fuzz.errors import SettingError
    from poolproof.fuzz.unified_campaign import Setting

    setting = Setting(device, scale, guard)
    if device == "host":
        return setting
    if find_spec("torch") is None:
        raise SettingError(f"--device {device} needs torch, which is not installed: install poolproof[torch]")
    if device == "tensor":
        os.environ["TRITON_INTERPRET"] = "1"
        return setting
    import torch

    if not torch.cuda.is_available():
        raise SettingError("--device cuda: torch sees no CUDA device")
    return setting


def fuzz_unified(seed: int, ops: int | None, seconds: float | None, jobs: int, as_json: bool, setting: Setting) -> bool:
    """A campaign against the unified pool; has it passed?"""
    from poolproof.fuzz.unified_campaign import run_unified

    with live_progress("fuzzing") as progress:
        result = run_unified(seed, ops, seconds, jobs, progress, setting)
    if as_json:
        print_json(result.plain())
    else:
        print_lines(unified_lines(result))
    return result.passed


def check_use(
    number: int | None, keep: str | None, seed: int | None, ops: int | None, seconds: float | None, jobs: int
) -> None:
    """Raises BadParameter for options that do not go together."""
    if number is None:
        if keep is not None:
            raise typer.BadParameter("--keep says which operations of --round; give both")
    elif seed is None or number < 0:
        raise typer.BadParameter(f"--round {number} is a buffer of a seed, counted from 0: give --seed too")
    elif ops is not None or seconds is not None or jobs != 1:
        raise typer.BadParameter("--round plays one buffer; --ops, --time and --jobs are for campaigns")


def kept_numbers(keep: str | None) -> set[int] | None:
    """The operations that `--keep` names."""
    from poolproof.fuzz.unified_campaign import LENGTH

    if keep is None:
        return None
    try:
        kept = {int(part) for part in keep.split(",")}
    except ValueError:
        raise typer.BadParameter(f"--keep {keep}: give numbers such as 0,4,17") from None
    if not kept <= set(range(LENGTH)):
        raise typer.BadParameter(f"--keep {keep}: a buffer has the operations 0 to {LENGTH - 1}")
    return kept


def play_again(seed: int, number: int, kept: set[int] | None, as_json: bool, setting: Setting) -> bool:
    """One buffer of a campaign again; was nothing wrong?"""
    from poolproof.fuzz.unified_campaign import play

    driver, error = play(seed, number, kept, with_trace=True, setting=setting)
    trace = driver.shadow.history or []
    message = None if error is None else f"{type(error).__name__}: {error}"
    if as_json:
        where = {"device": setting.device, "scale": setting.scale, "guard": setting.guard}
        found = {"passed": error is None, "failure": message, "trace": trace}
        print_json({"seed": seed, "round": number, **where, **found})
    else:
        print_lines([*(f"    {line}" for line in trace), "passed" if message is None else f"FAILED: {message}"])
    return error is None


def unified_lines(result: UnifiedResult) -> list[str]:
    """A campaign against the unified pool as text; the last line is the verdict."""
    tally, found, (canary, after) = result.tally, result.found, result.canary
    rate = tally.operations / max(result.seconds, 1e-9)
    lines = [
        f"unified-pool: {tally.operations:,} checked operations, {tally.steps:,} steps of the spec, on "
        f"{tally.rounds:,} buffers, {rate:,.0f} operations a second, seed {result.seed}",
        f"  again: {result.reproduce}",
        "  operation                 times",
        *(f"  {name:<20} {count:>10,}" for name, count in sorted(tally.counts.items())),
        "  action of the spec        steps    refusals that the pool shared",
    ]
    refusals: dict[str, int] = {}
    for name, count in tally.refusals.items():
        action = name.partition(":")[0]
        refusals[action] = refusals.get(action, 0) + count
    for action in sorted({*tally.actions, *refusals}):
        lines.append(f"  {action:<20} {tally.actions.get(action, 0):>10,} {refusals.get(action, 0):>10,}")
    guards = result.plain()["guards"]
    lines.append(f"  guards of the spec that said no where the pool did: {guards['said_no']} of {guards['of']}")
    lines.append(
        f"{canary}, broken on purpose: found after {after:,} operations"
        if after
        else f"the fuzzer is blind: {canary}, broken on purpose, was not found"
    )
    if found is not None:
        lines += [
            "",
            f"FAILED on buffer {found.round}: {found.message}",
            f"  {len(found.kept)} operations; the pool did:",
        ]
        lines += [f"    {line}" for line in found.trace]
        lines += [f"  reproduce: {found.reproduce}", ""]
    return [*lines, "passed" if result.passed else "failed"]


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
