"""The page about the language: its fragments are lines of the shipped specs, and what it says of products is so."""

from __future__ import annotations

import pytest
import z3
from test_documents import ROOT, blocks

from poolproof.proofs.smtlib import PRODUCT_LEMMAS
from poolproof.proofs.theorems import STATEMENTS

PAGE = ROOT / "docs" / "spec.md"
SPECS = [ROOT / "spec" / "slots.py", ROOT / "spec" / "buffer.py", ROOT / "spec" / "schedule.py"]
SHIPPED = {line.strip() for path in SPECS for line in path.read_text().splitlines()}


def test_the_fragments_are_lines_of_the_shipped_specs() -> None:
    example = (ROOT / "docs" / "examples" / "pins.py").read_text()
    quoted = [line.strip() for block in blocks(PAGE, "python") if block != example for line in block.splitlines()]
    assert [line for line in quoted if line not in SHIPPED] == []


def test_every_tag_of_the_shipped_theorems_is_named() -> None:
    assert [tag for tag in STATEMENTS if f"* **{tag}** " not in PAGE.read_text()] == []


@pytest.mark.parametrize("lemma", PRODUCT_LEMMAS[1:])
def test_what_is_told_of_products_is_true_of_integers(lemma: str) -> None:
    product = "(define-fun times ((i Int) (p Int)) Int (* i p))"
    solver = z3.Solver()
    solver.from_string(f"{product}\n{lemma.replace('(assert ', '(assert (not ', 1)})")
    assert solver.check() == z3.unsat
