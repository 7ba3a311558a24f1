"""The lemmas about products that every proof with two unknowns rests on."""

from __future__ import annotations

import pytest

from poolproof.proofs import products
from poolproof.proofs.results import PROVED, UNKNOWN


def test_every_lemma_is_proved_with_a_premise_and_a_false_neighbour() -> None:
    found = products.results()
    assert [r.claim for r in found] == products.claims()
    assert [r.grade for r in found] == [PROVED] * 3
    assert all(r.witness and r.twins for r in found)


def test_a_false_lemma_is_not_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = tuple(line.replace("(= j (+ i 1))", "(= j (+ i 2))") for line in products.PRODUCT_LEMMAS)
    assert wrong != products.PRODUCT_LEMMAS
    monkeypatch.setattr(products, "PRODUCT_LEMMAS", wrong)
    assert [r.grade for r in products.results()] == [PROVED, UNKNOWN, PROVED]


def test_a_false_neighbour_that_is_true_withholds_the_grade(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "_FALSE", ("true", "true", "true"))
    assert [r.grade for r in products.results()] == [UNKNOWN] * 3
