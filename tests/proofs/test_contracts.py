"""The contracts of the shared arithmetic: proved, their twins refuted, and nothing accepted that only looks proved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from poolproof.proofs import arithmetic
from poolproof.proofs.arithmetic import check, claims, conditions, is_loop_free, is_of_integers, results, witness
from poolproof.proofs.prove import Options, prove
from poolproof.proofs.results import PROVED, REFUTED, UNKNOWN
from poolproof.spec.arithmetic import ceil_div

Make = Callable[[str], Any]

CONTRACTS = '''\
"""Functions with contracts, made for one test."""

from __future__ import annotations


def half(amount: int, unit: int) -> int:
    """Right, and without a loop.

    pre: amount >= 0
    pre: unit > 0
    post: __return__ <= amount
    """
    return amount // 2


def half_too_large(amount: int, unit: int) -> int:
    """Wrong.

    pre: amount >= 0
    pre: unit > 0
    post: __return__ <= amount
    """
    return amount + 1


def half_raises(amount: int, unit: int) -> int:
    """Wrong for one unit.

    pre: amount >= 0
    pre: unit > 0
    post: __return__ <= amount
    """
    return amount // (unit - 2) if unit == 2 else 0


def counted(amount: int, unit: int) -> int:
    """Right, but with a loop.

    pre: amount >= 0
    pre: unit > 0
    post: __return__ <= amount
    """
    found = 0
    for _ in range(1):
        found += 0
    return found


def counted_elsewhere(amount: int, unit: int) -> int:
    """Right, but what it calls has a loop.

    pre: amount >= 0
    pre: unit > 0
    post: __return__ <= amount
    """
    return counted(amount, unit)


def recursive(amount: int, unit: int) -> int:
    """Right, but calls itself.

    pre: amount >= 0
    pre: unit > 0
    post: __return__ <= amount
    """
    return 0 if amount < unit else recursive(0, unit)


def ping(amount: int, unit: int) -> int:
    """Calls itself by way of another."""
    return pong(amount, unit)


def pong(amount: int, unit: int) -> int:
    """Calls itself by way of another."""
    return ping(amount, unit)


def library(amount: int, unit: int) -> int:
    """Right, but calls what is not at hand.

    pre: amount >= 0
    pre: unit > 0
    post: __return__ >= 0
    """
    return sum([amount, 0])


def wavering(amount: float, unit: float) -> float:
    """About something else than integers.

    pre: amount >= 0
    pre: unit > 0
    post: __return__ >= 0
    """
    return amount


def bare(amount, unit: int) -> int:
    """An annotation is missing."""
    return 0


def impossible(amount: int, unit: int) -> int:
    """A precondition that nothing meets.

    pre: amount > 0
    pre: amount < 0
    post: __return__ == 99
    """
    return amount
'''


@pytest.fixture
def made(make: Make) -> Any:
    return make(CONTRACTS)


def graded(monkeypatch: pytest.MonkeyPatch, function: Any, twin: Any) -> list[tuple[str, str]]:
    """The grade and note of each postcondition of a function, with a twin."""
    monkeypatch.setattr(arithmetic, "PAIRS", ((function, twin),))
    return [(r.grade, r.note) for r in results()]


def test_the_shipped_contracts_are_proved_and_their_twins_refuted() -> None:
    found = results()
    assert [r.claim for r in found] == claims()
    assert {r.grade for r in found} == {PROVED}
    for result in found:
        assert result.twins
        assert result.witness == "ceil_div(7, 3) = 3"
        assert result.solver.startswith("crosshair ")


def test_every_twin_has_the_contract_of_its_original() -> None:
    for function, twin in arithmetic.PAIRS:
        for kind in ("pre", "post"):
            assert conditions(function, kind) == conditions(twin, kind) != []
        assert REFUTED in {grade for _, grade, _ in check(twin)}


def test_a_right_function_is_proved(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert graded(monkeypatch, made.half, made.half_too_large) == [(PROVED, "")]


@pytest.mark.parametrize("name", ["half_too_large", "half_raises"])
def test_a_wrong_function_is_refuted_with_the_call(made: Any, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    (grade, note), *_ = graded(monkeypatch, getattr(made, name), made.half_too_large)
    assert grade == REFUTED
    assert f"{name}(" in note


@pytest.mark.parametrize("name", ["counted", "counted_elsewhere", "recursive", "library", "wavering", "impossible"])
def test_what_only_looks_proved_is_not(made: Any, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    (grade, note), *_ = graded(monkeypatch, getattr(made, name), made.half_too_large)
    assert grade == UNKNOWN
    assert note


def test_a_function_whose_twin_is_not_refuted_is_not_proved(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (grade, note), *_ = graded(monkeypatch, made.half, made.half)
    assert grade == UNKNOWN
    assert note == "confirmed, but without a witness, a refuted twin, loop-freedom or integers only"


@pytest.mark.parametrize(
    ("name", "free"),
    [
        ("half", True),
        ("counted", False),
        ("counted_elsewhere", False),
        ("recursive", False),
        ("ping", False),
        ("library", False),
    ],
)
def test_loops_and_recursion_are_seen_through_calls(made: Any, name: str, free: bool) -> None:
    assert is_loop_free(getattr(made, name)) is free
    assert is_loop_free(ceil_div)


@pytest.mark.parametrize(("name", "integers"), [("half", True), ("wavering", False), ("bare", False)])
def test_only_integers_are_believed(made: Any, name: str, integers: bool) -> None:
    assert is_of_integers(getattr(made, name)) is integers


def test_a_precondition_that_the_sample_does_not_meet_has_no_witness(made: Any) -> None:
    assert witness(made.impossible) == ""
    assert witness(made.half) == "half(7, 3) = 3"


@pytest.mark.parametrize(
    ("only", "expected"),
    [(("arithmetic/ceil_div/*",), 3), (("arithmetic/ceil_div/__return__ >= 0",), 1), (("arithmetic/products/*",), 3)],
)
def test_contracts_are_chosen_by_pattern(only: tuple[str, ...], expected: int) -> None:
    report = prove(options=Options(only=only, use_cache=False))
    assert [r.grade for r in report.obligations] == [PROVED] * expected
    assert report.mutants == report.twins == []
