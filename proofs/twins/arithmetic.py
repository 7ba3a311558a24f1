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


def round_up_rounds_down(amount: int, unit: int) -> int:
    """The tail of the last page is not counted.

    pre: amount >= 0
    pre: unit > 0
    post: __return__ >= amount
    post: __return__ - amount < unit
    post: __return__ % unit == 0
    """
    return amount // unit * unit


def shortfall_goes_below_zero(need: int, have: int) -> int:
    """A surplus is reported as a negative demand.

    pre: need >= 0
    pre: have >= 0
    post: __return__ >= 0
    post: have + __return__ >= need
    post: __return__ == 0 or have + __return__ == need
    """
    return need - have
