"""The page about public faults is what the twins give, and names every fault once as planted or as not expressed."""

from __future__ import annotations

import importlib.util
import re

from test_documents import ROOT

from poolproof.proofs.faults import FAULTS, GROUPS, table

NAME = "docs/faults.md"
PAGE = (ROOT / NAME).read_text()


def cells(part: str) -> list[list[str]]:
    """The rows of a generated table, without its head."""
    (text,) = re.findall(rf"<!-- begin {part} -->\n(.*?)<!-- end {part} -->", PAGE, re.S)
    return [re.split(r" *\| *", line)[1:-1] for line in text.splitlines()[2:]]


def test_the_page_is_current() -> None:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    assert generate.rewritten(NAME, PAGE, {}) == PAGE


def test_every_group_is_counted() -> None:
    counted = {row[0]: row[2].removesuffix(" so far") for row in cells("groups")}
    assert counted == {group: str(len(FAULTS[group])) for group in GROUPS}


def test_every_fault_is_on_the_page() -> None:
    planted = {(row[1], row[3]) for row in cells("faults")}
    assert planted == {(row.fault, f"`{row.subject}/{row.twin}`") for row in table() if row.twin}
    assert {row[1]: row[3] for row in cells("not expressed")} == {
        row.fault: row.reason for row in table() if row.reason
    }
