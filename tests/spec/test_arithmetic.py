"""The shared arithmetic against what it means, on every pair of small numbers and on large ones."""

from __future__ import annotations

import itertools
import random

import pytest

from poolproof.spec.arithmetic import ceil_div

SMALL = list(itertools.product(range(60), range(1, 25)))
_draw = random.Random(8)
LARGE = [(_draw.randrange(1 << 80), _draw.randrange(1, 1 << 40)) for _ in range(500)]
EDGES = [
    ((1 << 63) - 1, 1 << 31),
    ((1 << 64) - 1, 16),
    (0, 1 << 62),
    (1, 1 << 62),
    ((1 << 53) + 1, 1),
    ((1 << 53) + 1, 2),
]


@pytest.mark.parametrize("pairs", [SMALL, LARGE, EDGES], ids=["small", "large", "edges"])
def test_ceil_div_is_the_least_number_of_units_that_suffices(pairs: list[tuple[int, int]]) -> None:
    for amount, unit in pairs:
        units = ceil_div(amount, unit)
        assert units * unit >= amount
        assert units == 0 or (units - 1) * unit < amount


def test_a_unit_of_zero_is_an_error() -> None:
    with pytest.raises(ZeroDivisionError):
        ceil_div(3, 0)
