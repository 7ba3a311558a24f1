"""Integer arithmetic that the spec and the shipped pools share. Loop-free, so that it can be proved for all integers.

The `pre:` and `post:` lines are contracts that CrossHair checks (`poolproof prove` runs it).
"""

from __future__ import annotations


def ceil_div(amount: int, unit: int) -> int:
    """The least number of units that hold an amount.

    pre: amount >= 0
    pre: unit > 0
    post: __return__ >= 0
    post: __return__ * unit >= amount
    post: (__return__ - 1) * unit < amount or __return__ == 0
    """
    return (amount + unit - 1) // unit


def round_up(amount: int, unit: int) -> int:
    """The least multiple of a unit that is not below an amount.

    pre: amount >= 0
    pre: unit > 0
    post: __return__ >= amount
    post: __return__ - amount < unit
    post: __return__ % unit == 0
    """
    return ceil_div(amount, unit) * unit


def shortfall(need: int, have: int) -> int:
    """How many of what is needed are missing; never negative.

    pre: need >= 0
    pre: have >= 0
    post: __return__ >= 0
    post: have + __return__ >= need
    post: __return__ == 0 or have + __return__ == need
    """
    return need - have if need > have else 0
