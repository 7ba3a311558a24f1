"""Writes the generated parts of the documents, from the committed ledger and the twins.

`python docs/generate.py [--check]`

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


def fault_groups(_: dict[str, Any]) -> str:
    """The groups of public faults: how many there are, are planted, and are not expressed."""
    from poolproof.proofs.faults import GROUPS, WHOLE, table

    rows = ["| group | about | faults | planted | twins | not expressed |", "|---|---|---|---|---|---|"]
    for group, about in GROUPS.items():
        own = [row for row in table() if row.group == group]
        planted, left = ({row.fault for row in own if bool(row.twin) is has_twin} for has_twin in (True, False))
        faults = f"{len(planted | left)}" if group in WHOLE else f"{len(planted | left)} so far"
        rows.append(
            f"| {group} | {about} | {faults} | {len(planted)} | {sum(bool(r.twin) for r in own)} | {len(left)} |"
        )
    return "\n".join(rows)


def fault_table(_: dict[str, Any]) -> str:
    """Fault, theorems and twin: what is planted, and the claims that refute it with their theorems."""
    from poolproof.proofs.faults import table, tags_of
    from poolproof.proofs.subject import SHIPPED, load

    rows = ["| group | report | broke | planted as | instead of | refuted by |", "|---|---|---|---|---|---|"]
    for row in table():
        if not row.twin:
            continue
        tags = tags_of(load(SHIPPED[row.subject]), row.action)
        by = ", ".join(f"`{claim}`" + f" ({', '.join(tags[claim])})" * bool(tags[claim]) for claim in row.refutes)
        rows.append(
            f"| {row.group} | {row.fault} | {', '.join(row.broke)} | `{row.subject}/{row.twin}` "
            f"| {f'`{row.action}`' if row.action else 'the initial state'} | {by} |"
        )
    return "\n".join(rows)


def faults_not_expressed(_: dict[str, Any]) -> str:
    """The faults of the whole groups that no shipped spec can express, and where they belong."""
    from poolproof.proofs.faults import table

    rows = ["| group | report | broke | why, and where it belongs |", "|---|---|---|---|"]
    rows += [f"| {r.group} | {r.fault} | {', '.join(r.broke)} | {r.reason} |" for r in table() if r.reason]
    return "\n".join(rows)


PARTS = {
    "README.md": {"theorems": theorem_table, "controls": control_summary},
    "docs/assurance.md": {"theorems": theorem_table, "controls": control_summary, "twins": twin_table},
    "docs/faults.md": {"groups": fault_groups, "faults": fault_table, "not expressed": faults_not_expressed},
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
