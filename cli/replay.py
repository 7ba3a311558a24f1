"""`poolproof replay`: a saved failing trace once more, or a request trace through a shipped pool and the spec."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from poolproof.cli.console import print_json, print_lines
from poolproof.cli.prove import live_progress

if TYPE_CHECKING:
    from poolproof.fuzz.cache_replay_result import CacheResult
    from poolproof.fuzz.mooncake import Request
    from poolproof.fuzz.replay import ReplayResult
    from poolproof.fuzz.unified_result import UnifiedResult

_UNITS: Final = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(replay)


def parse_bytes(text: str) -> int:
    """A number of bytes such as 4096, 512MiB or 1.5GiB.

    Raises:
        BadParameter: it is none.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([A-Za-z]*)", text)
    if found is None or found[2] not in _UNITS:
        raise typer.BadParameter(f"{text!r} is no number of bytes; write 4096, 512MiB or 64GiB")
    return int(float(found[1]) * _UNITS[found[2]]) if "." in found[1] else int(found[1]) * _UNITS[found[2]]


def replay(
    trace: Annotated[
        Path | None, typer.Argument(help="A saved failing trace, or a Mooncake request trace (.jsonl or .jsonl.gz).")
    ] = None,
    slots: Annotated[int | None, typer.Option(min=1, help="Request traces: slots of the pool.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Request traces: only the first N requests.")] = None,
    synthetic: Annotated[int | None, typer.Option(min=1, help="Make up a trace of N requests.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of --synthetic.")] = 0,
    write: Annotated[Path | None, typer.Option(help="Write the --synthetic trace here too.")] = None,
    model: Annotated[
        str | None, typer.Option(help="Request traces: through a unified pool of this model, with continuous batching.")
    ] = None,
    total_bytes: Annotated[
        Any, typer.Option("--bytes", parser=parse_bytes, metavar="BYTES", help="--model: of the buffer, such as 64GiB.")
    ] = None,
    tp: Annotated[int | None, typer.Option(min=1, help="--model: tensor parallel ranks; the pool is one's.")] = None,
    page_size: Annotated[int | None, typer.Option(min=1, help="--model: tokens a page.")] = None,
    max_batch: Annotated[int | None, typer.Option(min=1, help="--model: most requests running at once.")] = None,
    check_every: Annotated[int | None, typer.Option(min=1, help="--model: steps between two checks.")] = None,
    shadow: Annotated[bool, typer.Option("--shadow", help="--model: pages of a few bytes, spec in lockstep.")] = False,
    cache: Annotated[bool, typer.Option("--cache", help="--model: through a prefix cache with checkpoints.")] = False,
    policy: Annotated[
        str | None, typer.Option(metavar="blocks|ends|both", help="--cache: where prompts are given checkpoints.")
    ] = None,
    every: Annotated[int | None, typer.Option(min=1, help="--cache: blocks of 512 from one to the next.")] = None,
    checkpoints: Annotated[
        str | None, typer.Option(metavar="int8|none", help="--cache: codes and scales, or plain copies of states.")
    ] = None,
    static: Annotated[
        float | None, typer.Option(metavar="PART", help="--cache: this part of the bytes for checkpoints alone.")
    ] = None,
    prefill_us: Annotated[
        float | None, typer.Option(min=0, help="--cache: virtual microseconds of a token that is computed in a prompt.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Replay a trace with the spec in lockstep."""
    if (trace is None) == (synthetic is None):
        raise typer.BadParameter("give a trace, or --synthetic N", param_hint="TRACE")
    if write is not None and synthetic is None:
        raise typer.BadParameter("only a --synthetic trace is written", param_hint="--write")
    settings = {"total_bytes": total_bytes, "tp": tp, "page_size": page_size, "max_batch": max_batch}
    settings |= {"check_every": check_every, "shadow": shadow or None}
    cached = {"policy": policy, "every": every, "checkpoints": checkpoints, "static": static, "prefill_us": prefill_us}
    settings, cached = ({k: v for k, v in each.items() if v is not None} for each in (settings, cached))
    _check_settings(model, slots, settings)
    _check_cache(cache, model, settings, cached)
    if trace is not None:
        from poolproof.fuzz.traces import is_saved_trace

        if is_saved_trace(trace):
            if slots is not None or limit is not None or model is not None:
                hint = "--slots, --limit, --model"
                raise typer.BadParameter("a saved trace has its own size, length and target", param_hint=hint)
            _replay_saved(trace, as_json)
    requests, source = _requests(trace, synthetic, seed, write, limit)
    if model is None:
        _replay_requests(requests, source, slots, as_json)
    elif cache:
        _replay_cache(requests, source, model, settings | cached, as_json)
    else:
        _replay_model(requests, source, model, settings, as_json)


def _check_settings(model: str | None, slots: int | None, settings: dict[str, Any]) -> None:
    named = [_option(name) for name in settings]
    if model is None and settings:
        raise typer.BadParameter("only with --model", param_hint=", ".join(named))
    if model is not None and slots is not None:
        raise typer.BadParameter("a pool of a model has bytes, not slots", param_hint="--slots")
    if "shadow" in settings and "page_size" in settings:
        raise typer.BadParameter("with --shadow a page is 512 tokens", param_hint="--page-size")


def _check_cache(cache: bool, model: str | None, settings: dict[str, Any], cached: dict[str, Any]) -> None:
    if not cache:
        if cached:
            raise typer.BadParameter("only with --cache", param_hint=", ".join(map(_option, cached)))
        return
    if model is None:
        raise typer.BadParameter("a prefix cache is one of a model: give --model too", param_hint="--cache")
    if "shadow" in settings:
        text = "--cache replays at a model's full sizes, without the spec; leave one of the two out"
        raise typer.BadParameter(text, param_hint="--shadow")


def _option(name: str) -> str:
    return "--" + name.removeprefix("total_").replace("_", "-")


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


def _requests(
    path: Path | None, synthetic: int | None, seed: int, write: Path | None, limit: int | None
) -> tuple[list[Request], list[str]]:
    """The request trace, and the arguments that give it again."""
    from poolproof.fuzz.mooncake import read_requests, write_requests
    from poolproof.fuzz.synthetic import make_requests

    again = [] if limit is None else ["--limit", str(limit)]
    if path is not None:
        return read_requests(path, limit), [str(path), *again]
    requests = make_requests(synthetic or 0, seed)
    if write is not None:
        write_requests(requests, write)
    return requests[:limit], ["--synthetic", str(synthetic), "--seed", str(seed), *again]


def _replay_requests(requests: list[Request], source: list[str], slots: int | None, as_json: bool) -> None:
    from poolproof.fuzz.replay import DEFAULT_SLOTS, replay_requests

    size = DEFAULT_SLOTS if slots is None else slots
    with live_progress("replaying") as progress:
        result = replay_requests(requests, size, progress=progress)
    _show_requests(result, ["poolproof", "replay", *source, "--slots", str(size)], as_json)


def _replay_model(
    requests: list[Request], source: list[str], model: str, settings: dict[str, Any], as_json: bool
) -> None:
    from poolproof.fuzz.unified_replay import replay_unified

    command = ["poolproof", "replay", *source, "--model", model]
    for name, value in settings.items():
        command += [_option(name)] if value is True else [_option(name), str(value)]
    with live_progress("replaying") as progress:
        result = replay_unified(requests, model, progress=progress, **settings)
    _show_model(result, command, as_json)


def _show_model(result: UnifiedResult, command: list[str], as_json: bool) -> None:
    import shlex

    again = shlex.join(command)
    if as_json:
        print_json({"kind": "unified", **result.plain(), "reproduce": again})
        raise typer.Exit(0 if result.passed else 1)
    peaks = {**result.peak_by_kind, "together": result.peak_bytes}
    lockstep = ", the spec in lockstep on small pages" if result.shadow else ""
    print_lines(
        [
            f"{result.requests:,} requests through {_size(result.total_bytes)} of {result.model}{lockstep} "
            f"({result.virtual_seconds:,.0f} s of virtual time)",
            f"  done         {result.done:,}, at most {result.most_running:,} at once",
            f"  hit rate     {result.hit_rate:.1%} ({result.hits:,} of {result.blocks:,} blocks)",
            f"  peak bytes   {', '.join(f'{name} {_size(size)}' for name, size in peaks.items())}",
            f"  evictions    {result.evictions:,} blocks",
            f"  checkpoints  {result.checkpoints:,}, {result.not_kept:,} not kept for lack of room",
            f"  compactions  {result.compactions:,}, {result.urgent:,} of them urgent; "
            f"{sum(result.moved.values()):,} pages moved",
            f"  refusals     {result.refusals:,}; {result.waits:,} waited for room",
            f"  violations   {len(result.violations):,}",
            f"  {result.steps:,} steps in {result.seconds:.1f} s, the tables checked {result.checks:,} times",
            *(f"    {violation}" for violation in result.violations),
            *([] if result.passed else [f"  reproduce: {again}"]),
            "passed" if result.passed else "failed",
        ]
    )
    raise typer.Exit(0 if result.passed else 1)


def _replay_cache(
    requests: list[Request], source: list[str], model: str, settings: dict[str, Any], as_json: bool
) -> None:
    from poolproof.fuzz.cache_replay import replay_cache
    from poolproof.fuzz.cache_replay_result import CacheSetting

    command = ["poolproof", "replay", *source, "--cache", "--model", model]
    for name, value in settings.items():
        command += [_option(name), str(value)]
    setting = CacheSetting(model, **settings)
    with live_progress("replaying") as progress:
        result = replay_cache(requests, setting, progress=progress)
    _show_cache(result, command, as_json)


def _show_cache(result: CacheResult, command: list[str], as_json: bool) -> None:
    import shlex

    again, asked, factor = shlex.join(command), result.setting, result.capacity_factor
    if as_json:
        print_json({"kind": "cache", **result.plain(), "reproduce": again})
        raise typer.Exit(0 if result.passed else 1)
    kind = "int8 checkpoints" if asked.checkpoints == "int8" else "plain copies of states"
    apart = f", {_size(result.static_bytes)} of them for checkpoints alone" if result.static_bytes else ""
    each = result.page_bytes["checkpoint"]
    print_lines(
        [
            f"{result.requests:,} requests through a prefix cache over {_size(asked.total_bytes)} of "
            f"{asked.model}{apart} ({result.virtual_seconds:,.0f} s of virtual time)",
            f"  policy       {asked.described}",
            f"  checkpoints  {kind}, {each:,} B each, a state of {asked.state_dtype} has {result.state_bytes:,} B; "
            f"capacity factor {factor} = {float(factor):.6f}",
            f"  done         {result.done:,}, at most {result.most_running:,} at once",
            f"  hit rate     {result.token_hit_rate:.1%} of tokens ({result.cached_tokens:,} of "
            f"{result.prompt_tokens:,}), {result.request_hit_rate:.1%} of requests",
            f"  computed     {result.prefilled_tokens:,} tokens of prompts",
            f"  kept         {result.kept:,}, {result.deduplicated:,} had a checkpoint already, "
            f"{result.skipped:,} skipped for lack of room",
            f"  evictions    {result.evictions:,} checkpoints, {result.evicted_pages:,} KV pages",
            f"  peak bytes   {', '.join(f'{name} {_size(size)}' for name, size in result.peak.items())}",
            f"  refusals     {result.refusals:,}; {result.waits:,} waited for room",
            f"  violations   {len(result.violations):,}",
            f"  {result.steps:,} steps in {result.seconds:.1f} s, cache and pools checked {result.checks:,} times",
            *(f"    {violation}" for violation in result.violations),
            *([] if result.passed else [f"  reproduce: {again}"]),
            "passed" if result.passed else "failed",
        ]
    )
    raise typer.Exit(0 if result.passed else 1)


def _size(size: int) -> str:
    """Bytes in the largest unit that they fill."""
    unit = next((u for u in ("TiB", "GiB", "MiB", "KiB") if size >= _UNITS[u]), "B")
    return f"{size:,} B" if unit == "B" else f"{size / _UNITS[unit]:,.1f} {unit}"


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
