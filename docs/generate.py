"""Writes the parts of the documents that are generated from the committed ledger: `python docs/generate.py [--check]`.

A generated part stands between `<!-- begin NAME -->` and `<!-- end NAME -->`.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def theorem_table(ledger: dict[str, Any]) -> str:
    """The theorems with their grades."""
    from poolproof.proofs.theorems import STATEMENTS

    claims = ledger["claims"].values()
    rows = ["| theorem | says | grade | claims |", "|---|---|---|---|"]
    for tag, grade in ledger["theorems"].items():
        number = sum(tag in claim["theorems"] for claim in claims)
        rows.append(f"| {tag} | {STATEMENTS[tag]} | {grade} | {number} |")
    return "\n".join(rows)


def control_summary(ledger: dict[str, Any]) -> str:
    """Mutants, twins and explored instances in a sentence each."""
    mutants = ledger["mutants"].values()
    total, refuted, redundant = (sum(row[key] for row in mutants) for key in ("mutants", "refuted", "redundant"))
    twins = ledger["twins"].values()
    explored = [(name, claim) for name, claim in ledger["claims"].items() if "/explore/" in name]
    lines = [
        f"{refuted} of {total} automatic mutants refuted ({redundant} declared redundant); "
        f"{sum(t['refuted'] for t in twins)} of {len(twins)} planted public faults refuted.",
        *(f"`{name}`: {claim['grade']}, {claim['witness']}." for name, claim in explored),
    ]
    return "\n".join(lines)


def twin_table(ledger: dict[str, Any]) -> str:
    """The planted faults: report, what went wrong, the faulty body, the claims that refute it."""
    rows = ["| report | what went wrong there | planted as | refuted by |", "|---|---|---|---|"]
    for name, twin in sorted(ledger["twins"].items(), key=lambda item: item[1]["fault"].lower()):
        by = ", ".join(f"`{claim}`" for claim in twin["by"])
        rows.append(f"| {twin['fault']} | {twin['story']} | `{name}` | {by} |")
    return "\n".join(rows)


PARTS = {
    "README.md": {"theorems": theorem_table, "controls": control_summary},
    "docs/assurance.md": {"theorems": theorem_table, "controls": control_summary, "twins": twin_table},
}


def rewritten(name: str, text: str, ledger: dict[str, Any]) -> str:
    """The document with its generated parts renewed."""
    for part, make in PARTS[name].items():
        pattern = re.compile(rf"(<!-- begin {part} -->\n).*?(<!-- end {part} -->)", re.S)
        if not pattern.search(text):
            raise SystemExit(f"{name} has no part {part!r}")
        text = pattern.sub(lambda m, make=make: m[1] + make(ledger) + "\n" + m[2], text)
    return text


def main(check: bool) -> int:
    """Renew every document, or with `check` only say which are out of date."""
    ledger = json.loads((ROOT / "proofs" / "ledger.json").read_text())
    stale = []
    for name in PARTS:
        path = ROOT / name
        text = path.read_text()
        new = rewritten(name, text, ledger)
        if new != text:
            stale.append(name)
            if not check:
                path.write_text(new)
    for name in stale:
        print(f"{name} {'is out of date: run python docs/generate.py' if check else 'renewed'}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv))
