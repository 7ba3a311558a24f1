"""`poolproof replay`: a saved failing trace once more, or a request trace through the shipped pool and the spec."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from poolproof.cli.console import print_json, print_lines
from poolproof.cli.prove import live_progress

if TYPE_CHECKING:
    from poolproof.fuzz.replay import ReplayResult


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(replay)


def replay(
    trace: Annotated[
        Path | None, typer.Argument(help="A saved failing trace, or a Mooncake request trace (.jsonl or .jsonl.gz).")
    ] = None,
    slots: Annotated[int | None, typer.Option(min=1, help="Request traces: slots of the pool.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Request traces: only the first N requests.")] = None,
    synthetic: Annotated[int | None, typer.Option(min=1, help="Make up a trace of N requests.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of --synthetic.")] = 0,
    write: Annotated[Path | None, typer.Option(help="Write the --synthetic trace here too.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Replay a trace with the spec in lockstep."""
    if (trace is None) == (synthetic is None):
        raise typer.BadParameter("give a trace, or --synthetic N", param_hint="TRACE")
    if write is not None and synthetic is None:
        raise typer.BadParameter("only a --synthetic trace is written", param_hint="--write")
    if trace is not None:
        from poolproof.fuzz.traces import is_saved_trace

        if is_saved_trace(trace):
            if slots is not None or limit is not None:
                raise typer.BadParameter("a saved trace has its own size and length", param_hint="--slots, --limit")
            _replay_saved(trace, as_json)
    _replay_requests(trace, synthetic, seed, write, slots, limit, as_json)


def _replay_saved(path: Path, as_json: bool) -> None:
    import shlex

    import msgspec

    from poolproof.fuzz.loading import load_target
    from poolproof.fuzz.runs import run_trace
    from poolproof.fuzz.traces import read_trace

    trace = read_trace(path)
    header = trace.header
    run = run_trace(load_target(header.target), trace)
    found = run.divergence
    again = shlex.join(["poolproof", "replay", str(path)])
    same = found is not None and (found.theorem, found.claim) == (header.theorem, header.claim)
    if as_json:
        plain: dict[str, Any] = {"kind": "saved", "verdict": "passed" if found is None else "failed"}
        plain |= {"target": header.target, "operations": len(trace.operations), "checked": run.checked}
        plain |= {"same_failure": same, "reproduce": again}
        plain["failure"] = None if found is None else msgspec.to_builtins(found, enc_hook=str)
        print_json(plain)
    else:
        what = f"{header.target}, {len(trace.operations)} operations on a pool of {trace.slots}"
        noted = f"  noted in the trace: {header.message}"
        if found is None:
            print_lines([f"{what}: no failure (any more)", *([noted] if header.message else []), "passed"])
        else:
            lines = [f"{what}: {found}", f"  reproduce: {again}"]
            if header.message and not same:
                lines.insert(1, noted)
            print_lines([*lines, "failed"])
    raise typer.Exit(0 if found is None else 1)


def _replay_requests(
    path: Path | None,
    synthetic: int | None,
    seed: int,
    write: Path | None,
    slots: int | None,
    limit: int | None,
    as_json: bool,
) -> None:
    from poolproof.fuzz.mooncake import read_requests, write_requests
    from poolproof.fuzz.replay import DEFAULT_SLOTS, replay_requests
    from poolproof.fuzz.synthetic import make_requests

    if path is not None:
        requests = read_requests(path, limit)
        source = [str(path)]
    else:
        requests = make_requests(synthetic or 0, seed)
        source = ["--synthetic", str(synthetic), "--seed", str(seed)]
        if write is not None:
            write_requests(requests, write)
        requests = requests[:limit]
    size = DEFAULT_SLOTS if slots is None else slots
    command = ["poolproof", "replay", *source, "--slots", str(size)]
    command += [] if limit is None else ["--limit", str(limit)]
    with live_progress("replaying") as progress:
        result = replay_requests(requests, size, progress=progress)
    _show_requests(result, command, as_json)


def _show_requests(result: ReplayResult, command: list[str], as_json: bool) -> None:
    import shlex

    again = shlex.join(command)
    if as_json:
        print_json({"kind": "requests", **result.plain(), "reproduce": again})
    else:
        print_lines(
            [
                f"{result.requests:,} requests through a pool of {result.slots:,} slots "
                f"({result.virtual_seconds:,.0f} s of virtual time)",
                f"  hit rate    {result.hit_rate:.1%} ({result.hits:,} of {result.blocks:,} blocks)",
                f"  peak slots  {result.peak:,}",
                f"  evictions   {result.evictions:,}",
                f"  refusals    {result.refusals:,}",
                f"  violations  {len(result.violations):,}",
                f"  {result.steps:,} checked steps in {result.seconds:.1f} s, {result.rate:,.0f} a second",
                *(f"    {violation}" for violation in result.violations),
                *([] if result.passed else [f"  reproduce: {again}"]),
                "passed" if result.passed else "failed",
            ]
        )
    raise typer.Exit(0 if result.passed else 1)
