"""The lemmas about products of two unknowns that proofs rest on, each proved of the integers' own multiplication.

The symbolic form of an obligation prints index * size as an uninterpreted `times` with `PRODUCT_LEMMAS`. That is sound
because each lemma holds when `times` is multiplication: here each is negated, over that meaning, and found `unsat`.
"""

from __future__ import annotations

import time

from poolproof.proofs.results import PROVED, UNKNOWN, Result
from poolproof.proofs.smtlib import PRODUCT_LEMMAS
from poolproof.proofs.solver import LONG_LIMIT, solve, solver_name

_MEANING = "(define-fun times ((i Int) (p Int)) Int (* i p))"

NAMES = ("pages_do_not_overlap", "the_next_page_begins_where_one_ends", "page_zero_begins_at_zero")

_FALSE = (
    "(forall ((i Int) (j Int) (p Int)) (=> (and (< 0 p) (< i j)) (< (+ (times i p) p) (times j p))))",
    "(forall ((i Int) (j Int) (p Int)) (=> (and (< 0 p) (= j (+ i 2))) (= (times j p) (+ (times i p) p))))",
    "(forall ((p Int)) (= (times 1 p) 0))",
)
"""A false neighbour of each lemma, which must be refuted."""

_PREMISES = ("(< 0 1)", "(and (< 0 2) (= 4 (+ 3 1)))", "true")


def lemmas() -> dict[str, str]:
    """The lemmas as they stand in every obligation's text, by name, less the triggers."""
    stated = [line.removeprefix("(assert ").removesuffix(")") for line in PRODUCT_LEMMAS if line.startswith("(assert")]
    return dict(zip(NAMES, stated, strict=True))


def _decide(claim: str) -> str:
    return solve(f"{_MEANING}\n(assert (not {claim}))\n(check-sat)\n", LONG_LIMIT).verdict


def claims() -> list[str]:
    """The names of all claims."""
    return [f"arithmetic/products/{name}" for name in NAMES]


def results() -> list[Result]:
    """One result for each lemma, with a premise that is met and a false neighbour that is refuted."""
    made = []
    for (name, lemma), wrong, premise in zip(lemmas().items(), _FALSE, _PREMISES, strict=True):
        start = time.perf_counter()
        result = Result(f"arithmetic/products/{name}", "arithmetic", "lemma", (), name.replace("_", " "))
        verdict, met, refuted = _decide(lemma), _decide(f"(not {premise})"), _decide(wrong)
        result.solver = solver_name()
        result.witness = f"the premise is met, for example {premise}" if met == "sat" else ""
        result.twins = [f"refuted: {wrong}"] if refuted == "sat" else []
        result.grade = PROVED if verdict == "unsat" and result.witness and result.twins else UNKNOWN
        result.note = "" if result.grade == PROVED else f"{verdict}; witness {met}; false neighbour {refuted}"
        result.seconds = time.perf_counter() - start
        made.append(result)
    return made
