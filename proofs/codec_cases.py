"""The proofs of spec/codec.py by exhaustion: every finite maximum and every threshold of bfloat16 and float16.

Scales come from the spec itself, on fractions. Codes are worked out on float64 arrays, in which every
product of the definition is exact. Between two thresholds a code does not change, since codes keep order (proved over
the reals), so that the two numbers of the format next to each threshold stand for all elements.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from fractions import Fraction
from functools import cache

import numpy as np

from poolproof.proofs.results import EXHAUSTED, REFUTED, Result
from poolproof.spec.codec import BFLOAT16, FLOAT16, FLOAT32, LARGEST_CODE, Exact, Format, scale_of

FORMATS = (BFLOAT16, FLOAT16)
SLACK = 0.5 + LARGEST_CODE * 2.0**-24
"""How far a code may be from its element, in scales."""

SOME = 97
"""A fault is looked for in every so-manieth case."""

Scale = Callable[[Format, Fraction], Fraction]


@cache
def numbers(storage: Format) -> list[Fraction]:
    """Every finite number of a 16-bit format that is not negative, in order."""
    exponents = range(storage.least_exponent, storage.largest_exponent + 1)
    hidden = 2 ** (storage.precision - 1)
    small = [n * storage.least for n in range(hidden)]
    steps = (Fraction(2) ** (e + 1 - storage.precision) for e in exponents)
    return small + [n * step for step in steps for n in range(hidden, 2 * hidden)]


@cache
def stated_scale(storage: Format, amax: Fraction) -> Fraction:
    """The scale as the spec defines it."""
    scale: Fraction = scale_of(Exact(storage), amax)
    return scale


def nearest_scale(storage: Format, amax: Fraction) -> Fraction:
    """A fault: the quotient is rounded to the nearest number, as engines do."""
    return storage.nearest(amax / LARGEST_CODE)


def bad_scales(storage: Format, scale: Scale, every: int = 1) -> list[str]:
    """The maxima, or every n-th of them, whose scale is not the least number of the format that will do."""
    found, sizes = [], numbers(storage)
    before = dict(zip(sizes[1:], sizes, strict=False))
    for amax in sizes[::every]:
        s = scale(storage, amax)
        if s not in before or s < storage.least_scale or s * LARGEST_CODE < amax:
            found.append(f"amax {float(amax)}: scale {float(s)} is no scale for it")
        elif s > storage.least_scale and before[s] * LARGEST_CODE >= amax:
            found.append(f"amax {float(amax)}: scale {float(s)} is larger than it must be")
        elif not Fraction(2) ** -126 <= FLOAT32.nearest(1 / s) <= FLOAT32.largest:
            found.append(f"amax {float(amax)}: the scale {float(s)} has no reciprocal in float32")
    return found


def codes(x: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """The codes of elements, all float64."""
    reciprocal: np.ndarray = (1.0 / scale).astype(np.float32).astype(np.float64)
    rounded: np.ndarray = np.rint(x * reciprocal)
    return rounded


def truncated(x: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """A fault: codes are cut off."""
    cut: np.ndarray = np.trunc(x / scale)
    return cut


@cache
def thresholds(storage: Format) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For every scale, and every element at which its codes may change: scale, the number below, the number above."""
    every = np.array([float(x) for x in numbers(storage)])
    of = {float(stated_scale(storage, Fraction(amax))): amax for amax in every}  # the largest maximum of each scale
    scale = np.repeat(np.array(list(of)), LARGEST_CODE)
    amax = np.repeat(np.array(list(of.values())), LARGEST_CODE)
    edge = scale * np.tile(np.arange(LARGEST_CODE) + 0.5, len(of))
    at = np.searchsorted(every, edge)
    below, above = every[at - 1], every[np.minimum(at, len(every) - 1)]
    inside = above <= amax
    return scale[inside], below[inside], above[inside]


def bad_codes(storage: Format, code: Callable[[np.ndarray, np.ndarray], np.ndarray], every: int = 1) -> list[str]:
    """The thresholds, or every n-th of them, at which a code is off, out of order or out of range."""
    scale, below, above = (column[::every] for column in thresholds(storage))
    low, high = code(below, scale), code(above, scale)
    bad = (low > high) | (high > LARGEST_CODE)
    for x, q in ((below, low), (above, high)):
        bad |= np.abs(x - q * scale) > scale * SLACK
        bad |= code(-x, scale) != -q
    return [f"scale {scale[n]}: {below[n]} and {above[n]} have {low[n]} and {high[n]}" for n in np.flatnonzero(bad)]


def _result(name: str, doc: str, cases: int, bad: list[str], fault: str, broken: list[str], start: float) -> Result:
    result = Result(name, "codec", "cases", ("I18",), doc)
    result.solver, result.witness = "every case", f"{cases} cases"
    result.twins = [f"{fault} (fails {len(broken)} of every {SOME}th case, first: {broken[0]})"] if broken else []
    result.grade = EXHAUSTED if not bad and broken else REFUTED
    result.note = "; ".join(bad[:3]) or ("" if broken else f"{fault} was not found")
    result.seconds = time.perf_counter() - start
    return result


def claims() -> list[str]:
    """The names of all claims."""
    return [f"codec/{f.name}/{what}" for f in FORMATS for what in ("every_maximum", "every_threshold")]


def results() -> list[Result]:
    """Two results for each 16-bit format."""
    made = []
    for f in FORMATS:
        start = time.perf_counter()
        doc = "The scale of every finite maximum holds it in 127 steps, is finite, and no larger than it must be."
        bad, broken = bad_scales(f, stated_scale), bad_scales(f, nearest_scale, SOME)
        made.append(_result(f"codec/{f.name}/every_maximum", doc, len(numbers(f)), bad, "nearest_scale", broken, start))
        start = time.perf_counter()
        doc = "At every threshold of every scale codes are near, in order, odd, and at most 127."
        bad, broken = bad_codes(f, codes), bad_codes(f, truncated, SOME)
        cases = 2 * len(thresholds(f)[0])
        made.append(_result(f"codec/{f.name}/every_threshold", doc, cases, bad, "truncated", broken, start))
    return made
