"""`poolproof prove`: run the proofs and say, claim by claim, what was shown."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from poolproof.cli.console import print_json

if TYPE_CHECKING:
    from poolproof.proofs.prove import Options, Progress
    from poolproof.proofs.results import Report
    from poolproof.proofs.subject import Subject


class MissingSolver(RuntimeError):
    """The solver packages are not installed."""


class UnknownSolver(ValueError):
    """A second solver that is not known."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(prove)


def prove(
    only: Annotated[
        list[str] | None,
        typer.Option(help="Claims to prove: a glob over claims ('slots/free/*'), a claim's name, or a theorem (I2)."),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes to use.")] = os.cpu_count() or 1,
    spec: Annotated[
        list[str] | None, typer.Option(help="Prove this specification instead of the shipped ones: module:NAME.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="Prove the layout, index widths and least buffer of the engine in this file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    junit: Annotated[Path | None, typer.Option(help="Write a JUnit XML report.")] = None,
    second_opinion: Annotated[str, typer.Option(help="Ask a second solver about every claim: cvc5.")] = "",
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Decide everything afresh.")] = False,
    save_dir: Annotated[Path, typer.Option(help="Where counterexamples are saved as tests.")] = Path(
        "poolproof-counterexamples"
    ),
    ledger: Annotated[Path | None, typer.Option(help="Compare with this ledger; a difference fails the run.")] = None,
    update_ledger: Annotated[Path | None, typer.Option(help="Write the ledger of a whole run that passed.")] = None,
) -> None:
    """Prove every theorem for all sizes, and run the controls that show the proofs can fail."""
    require_solver()
    _require_second(second_opinion)
    if update_ledger is not None and only:
        raise typer.BadParameter("a ledger is written from a whole run; leave --only out", param_hint="--update-ledger")
    if config is not None and spec:
        raise typer.BadParameter("an engine and a specification are proved in two runs", param_hint="--config")
    from poolproof.proofs.prove import Options

    options = Options(only=only or (), jobs=jobs, second=second_opinion, use_cache=not no_cache)
    report = run(options, spec) if config is None else run_engine(options, config)
    if ledger is not None:
        compare(report, ledger)
    saved = save_counterexamples(report, save_dir)
    if junit is not None:
        from poolproof.proofs.junit import write_junit

        write_junit(report, junit)
    if update_ledger is not None and report.passed:
        from poolproof.proofs.ledger import write

        write(report, update_ledger)
    if as_json:
        print_json({**report.plain(), "saved": [str(path) for path in saved]})
    else:
        from poolproof.cli.proof_text import show

        if config is not None:
            print(f"only the engine in {config}; the theorems for all sizes are proved by: poolproof prove")
        show(report, saved)
    raise typer.Exit(0 if report.passed else 1)


def require_solver() -> None:
    """Say at once, and with the remedy, that the solvers are missing.

    Raises:
        MissingSolver: Z3 or CrossHair is not installed.
    """
    from importlib.util import find_spec

    missing = [name for name in ("z3", "crosshair") if find_spec(name) is None]
    if missing:
        raise MissingSolver(f"the proofs need {' and '.join(missing)}: pip install 'poolproof[prove]'")


def _require_second(name: str) -> None:
    from importlib.util import find_spec

    from poolproof.proofs.second_opinion import NAMES

    if name and name not in NAMES:
        raise UnknownSolver(f"no second solver {name!r}; known: {', '.join(NAMES)}")
    if name and find_spec(name) is None:
        raise MissingSolver(f"--second-opinion {name} needs {name}: pip install 'poolproof[second-opinion]'")


def run(options: Options, refs: list[str] | None = None) -> Report:
    """Run the proofs with live progress where a person watches."""
    from poolproof.proofs import prove as engine

    subjects = None if not refs else [_load(ref) for ref in refs]
    with live_progress("proving") as progress:
        options.progress = progress
        return engine.prove(subjects, options)


def run_engine(options: Options, config: Path) -> Report:
    """Decide the obligations of the engine that a file describes."""
    from poolproof.proofs.engine import EngineOptions, prove_engine
    from poolproof.proofs.engine_config import read_engine

    engine = read_engine(config)
    with live_progress("proving") as progress:
        report = prove_engine(engine, EngineOptions(only=options.only, second=options.second, progress=progress))
    report.refs[engine.name] = str(config)
    return report


def _load(ref: str) -> Subject:
    from poolproof.proofs.subject import load

    return load(ref)


@contextmanager
def live_progress(title: str) -> Iterator[Progress]:
    """A progress bar on a terminal's standard error; nothing where nobody watches."""
    if not sys.stderr.isatty():
        yield lambda what, done, of: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns: list[Any] = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()]
    # No refresh thread: the proofs fork their workers.
    with Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False) as bar:
        task = bar.add_task(title, total=None)
        yield lambda what, done, of: bar.update(
            task, description=f"{title}: {what}", completed=done, total=of, refresh=True
        )


def compare(report: Report, path: Path) -> None:
    """Add every difference from a ledger to the report's problems."""
    from poolproof.proofs.ledger import differences, read

    report.problems += [f"the ledger {path} differs: {line}" for line in differences(read(path), report)]


def save_counterexamples(report: Report, directory: Path) -> list[Path]:
    """Save every counterexample as a pytest file; where that fails the verdict is still the verdict."""
    from poolproof.proofs.counterexample import Counterexample, save

    found = [r.counterexample for r in report.obligations if r.counterexample is not None]
    try:
        return [save(Counterexample(**plain), directory) for plain in found]
    except OSError as problem:
        print(f"poolproof: cannot save counterexamples in {directory}: {problem.strerror}", file=sys.stderr)
        return []
