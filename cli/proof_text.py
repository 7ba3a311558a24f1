"""A run of the proofs as text: one line a claim, a table of theorems, the controls, and what failed."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table

from poolproof.cli.console import Paper
from poolproof.proofs.counterexample import Counterexample
from poolproof.proofs.ledger import mutant_counts
from poolproof.proofs.results import Report, Result, grade_of

COLOURS = {"PROVED": "green", "EXHAUSTED": "green", "EXPLORED": "yellow", "REFUTED": "red", "UNKNOWN": "red"}


def show(report: Report, saved: list[Path], console: Console | None = None) -> None:
    """Print a whole report."""
    console = console or Paper()
    width = max((len(r.claim) for r in report.obligations), default=0)
    for result in report.obligations:
        console.print(_line(result, width), style=COLOURS[result.grade] if result.failed else None, markup=False)
    console.print()
    console.print(theorem_table(report))
    for line in [*control_lines(report), *coverage_lines(report)]:
        console.print(line, markup=False)
    show_failures(report, saved, console)
    show_verdict(report, console)


def _line(result: Result, width: int) -> str:
    second = f"  {result.second}" if result.second else ""
    kept = " (cached)" if result.cached else ""
    note = f"  {result.note}" if result.failed and result.note else ""
    return f"{result.claim:<{width}}  {result.grade:<9}  {result.solver}  {result.seconds:.3f} s{kept}{second}{note}"


def theorem_table(report: Report) -> Table:
    """One row a theorem: its weakest grade, and how many claims it rests on."""
    table = Table("theorem", "grade", "claims", "about", box=None, pad_edge=False)
    for tag, results in report.by_tag().items():
        grade = grade_of(results)
        subjects = ", ".join(sorted({r.module for r in results}))
        table.add_row(tag, f"[{COLOURS[grade]}]{grade}[/]", str(len(results)), subjects)
    return table


def control_lines(report: Report) -> list[str]:
    """The controls in a few lines."""
    lines = []
    counts = mutant_counts(report)
    if counts:
        total = {key: sum(row[key] for row in counts.values()) for key in ("mutants", "refuted", "redundant")}
        lines.append(
            f"mutants: {total['refuted']} of {total['mutants']} refuted, {total['redundant']} declared redundant"
        )
    if report.twins:
        refuted = sum(not twin.failed for twin in report.twins)
        lines.append(f"twins of public faults: {refuted} of {len(report.twins)} refuted as declared")
    lines += [f"{r.claim}: {r.grade.lower()}, {r.doc}" for r in report.obligations if r.kind == "explore"]
    return lines


def coverage_lines(report: Report) -> list[str]:
    """What the explorer reached: each action with its shortest trace, and its guards that said no."""
    lines = []
    for seen in report.explorations:
        sizes = ", ".join(f"{name}={size}" for name, size in seen["sizes"].items())
        lines.append(f"explored {seen['module']} with {sizes}: {seen['states']} states, {seen['steps']} steps")
        for name, action in seen["actions"].items():
            trace = "; ".join(action["shortest_trace"] or ["never enabled"])
            lines.append(f"  {name:<12} {action['guards_that_refused']} of {action['guards']} guards refuse; {trace}")
    return lines


def show_failures(report: Report, saved: list[Path], console: Console) -> None:
    """Print every failure with its counterexample and the command that reproduces it."""
    for result in report.obligations:
        if result.failed:
            console.print(f"\n{result.grade} {result.claim}", style="bold red", markup=False)
            if result.doc:
                console.print(f"  {result.doc}", markup=False)
            if result.counterexample is not None:
                console.print(Counterexample(**result.counterexample).table(), markup=False)
            elif result.note:
                console.print(f"  {result.note}", markup=False)
            console.print(f"  reproduce: {reproduce(report, result)}", markup=False)
    for control in [*report.twins, *report.mutants]:
        if control.failed:
            console.print(
                f"\nnot refuted: {control.module}/{control.name} (line {control.line})", style="red", markup=False
            )
    for problem in report.problems:
        console.print(f"\n{problem}", style="red", markup=False)
    for path in saved:
        console.print(f"saved as a test: {path}", markup=False)


def reproduce(report: Report, result: Result) -> str:
    """The one command that shows this failure again."""
    option = "config" if result.kind == "engine" else "spec"
    spec = f" --{option} {report.refs[result.module]}" if result.module in report.refs else ""
    only = "" if result.kind == "explore" else f" --only '{result.claim}'"
    return f"poolproof prove{spec}{only} --no-cache"


def show_verdict(report: Report, console: Console) -> None:
    """The last line."""
    counts = {grade: sum(r.grade == grade for r in report.obligations) for grade in COLOURS}
    shown = ", ".join(f"{count} {grade}" for grade, count in counts.items() if count)
    verdict = "[bold green]passed[/]" if report.passed else f"[bold red]failed ({len(report.failures)})[/]"
    console.print(f"{verdict}: {shown} in {report.seconds:.1f} s")
