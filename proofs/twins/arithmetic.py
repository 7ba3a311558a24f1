"""Wrong twins of spec/arithmetic.py; CrossHair must refute each."""

from __future__ import annotations


def ceil_div_rounds_down(amount: int, unit: int) -> int:
    """The tail that fills no whole unit is forgotten.

    pre: amount >= 0
    pre: unit > 0
    post: __return__ >= 0
    post: __return__ * unit >= amount
    post: (__return__ - 1) * unit < amount or __return__ == 0
    """
    return amount // unit
