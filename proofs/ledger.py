"""The committed ledger: what is claimed, with its grade, its solver and its controls, and no times.

A test compares it with what the code gives, so that a change of the code that changes a claim shows in review.
"""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from poolproof.proofs.results import Report, grade_of

FORMAT = "poolproof-ledger"
VERSION = 1
PARTS = ("theorems", "claims", "twins", "mutants")


class LedgerError(ValueError):
    """A ledger that cannot be read, or is of another version."""


def entries(report: Report) -> dict[str, Any]:
    """The report as the ledger has it."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "theorems": {tag: grade_of(results) for tag, results in report.by_tag().items()},
        "claims": {
            r.claim: {
                "grade": r.grade,
                "solver": r.solver,
                "theorems": list(r.tags),
                "witness": r.witness,
                "twins": r.twins,
            }
            for r in sorted(report.obligations, key=lambda r: r.claim)
        },
        "twins": {
            f"{c.module}/{c.name}": {
                "fault": c.fault,
                "story": c.story,
                "refuted": bool(c.broken),
                "by": list(c.expected),
            }
            for c in report.twins
        },
        "mutants": mutant_counts(report),
    }


def mutant_counts(report: Report) -> dict[str, dict[str, int]]:
    """For each action how many mutants there are, how many were refuted and how many are declared redundant."""
    counts: dict[str, dict[str, int]] = {}
    for control in report.mutants:
        row = counts.setdefault(f"{control.module}/{control.action}", {"mutants": 0, "refuted": 0, "redundant": 0})
        row["mutants"] += 1
        row["refuted"] += bool(control.broken)
        row["redundant"] += bool(control.reason)
    return dict(sorted(counts.items()))


def write(report: Report, path: Path) -> None:
    """Write the ledger; the report must be of a whole run."""
    path.write_text(json.dumps(entries(report), indent=1, ensure_ascii=False) + "\n")


def read(path: Path | None = None) -> dict[str, Any]:
    """Read a ledger: the shipped one by default.

    Raises:
        LedgerError: it cannot be read, or is of another version.
    """
    source = path or files("poolproof.proofs") / "ledger.json"
    try:
        ledger: dict[str, Any] = json.loads(source.read_text())
    except (OSError, ValueError) as problem:
        raise LedgerError(f"{source}: not a ledger ({problem})") from None
    found = (ledger.get("format"), ledger.get("version")) if isinstance(ledger, dict) else (None, None)
    if found != (FORMAT, VERSION):
        raise LedgerError(
            f"{source}: expected {FORMAT} version {VERSION}, found {found[0]} version {found[1]}; "
            "write it anew with `poolproof prove --update-ledger PATH`"
        )
    for part in PARTS:
        if not isinstance(ledger.get(part), dict):
            raise LedgerError(f"{source}: has no {part!r}; write it anew with `poolproof prove --update-ledger PATH`")
    return ledger


def differences(ledger: dict[str, Any], report: Report) -> list[str]:
    """Where a report differs from a ledger, one line each."""
    now, lines = entries(report), []
    for part in PARTS:
        old, new = ledger[part], now[part]
        lines += [f"{part}: {key} is in the ledger only" for key in old.keys() - new.keys()]
        lines += [f"{part}: {key} is not in the ledger" for key in new.keys() - old.keys()]
        for key in old.keys() & new.keys():
            before, after = _comparable(old[key]), _comparable(new[key])
            if before != after:
                lines.append(f"{part}: {key}: {before} in the ledger, {after} now")
    return sorted(lines)


def _comparable(entry: Any) -> Any:
    """What must not differ: not the solver's version, nor which of many mutants are shown for a claim."""
    if not isinstance(entry, dict) or "solver" not in entry:
        return entry
    shown = ["refuted" if not twin.startswith(("FRAME", "IMPLIED")) else twin for twin in entry["twins"]]
    return {**entry, "solver": entry["solver"].split(" ")[0], "twins": sorted(set(shown))}
