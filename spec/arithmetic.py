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
