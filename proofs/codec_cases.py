"""The proofs of spec/codec.py by exhaustion: every finite maximum and every threshold of bfloat16 and float16.

Scales come from the spec itself, on fractions. Codes are worked out on float64 arrays, in which every
product of the definition is exact. Between two thresholds a code does not change, since codes keep order (proved over
the reals), so that the three numbers of the format about each threshold, and the largest, stand for all elements.
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
def thresholds(storage: Format) -> tuple[np.ndarray, np.ndarray]:
    """For every scale, and every place at which codes may change: scale, and four numbers about there, in order.

    They are the last number below k + 1/2 scales, the first that is not, and the one after that, since a tie may go
    either way; and the largest element of the channel.
    """
    every = np.array([float(x) for x in numbers(storage)])
    of = {float(stated_scale(storage, Fraction(amax))): amax for amax in every}  # the largest maximum of each scale
    scale = np.repeat(np.array(list(of)), LARGEST_CODE)
    amax = np.repeat(np.array(list(of.values())), LARGEST_CODE)
    edge = scale * np.tile(np.arange(LARGEST_CODE) + 0.5, len(of))
    at = np.searchsorted(every, edge)
    near = [every[np.minimum(at + step, len(every) - 1)] for step in (-1, 0, 1)]
    return scale, np.stack([*(np.minimum(x, amax) for x in near), amax])


Code = Callable[[np.ndarray, np.ndarray], np.ndarray]


def bad_codes(storage: Format, code: Code, every: int = 1) -> list[str]:
    """The thresholds, or every n-th of them, at which a code is off, out of order or out of range."""
    scale, near = thresholds(storage)
    scale, near = scale[::every], near[:, ::every]
    found = np.stack([code(x, scale) for x in near])
    bad = (np.diff(found, axis=0) < 0).any(axis=0) | (found > LARGEST_CODE).any(axis=0)
    bad |= (np.abs(near - found * scale) > scale * SLACK).any(axis=0)
    bad |= np.any([code(-x, scale) != -q for x, q in zip(near, found, strict=True)], axis=0)
    return [f"scale {scale[n]}: {near[:, n].tolist()} have {found[:, n].tolist()}" for n in np.flatnonzero(bad)]


def past_the_last(x: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """A fault: the largest elements of a channel have a code more than there are."""
    more: np.ndarray = (np.abs(x) > 126.9 * scale) * np.sign(x)
    wrong: np.ndarray = codes(x, scale) + more
    return wrong


def late_after_a_tie(x: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """A fault: what is just above an even tie is still rounded down."""
    q = codes(x, scale)
    over = np.abs(x) - (np.abs(q) - 0.5) * scale
    late: np.ndarray = ((over > 0) & (over < scale * 2.0**-4) & (np.abs(q) % 2 == 1)) * np.sign(x)
    wrong: np.ndarray = q - late
    return wrong


FAULTS = (truncated, past_the_last, late_after_a_tie)


def _result(name: str, doc: str, cases: int, bad: list[str], faults: dict[str, list[str]], start: float) -> Result:
    result = Result(name, "codec", "cases", ("I18",), doc)
    result.solver, result.witness = "every case", f"{cases} cases"
    result.twins = [
        f"{fault} (fails {len(broken)} cases, first: {broken[0]})" for fault, broken in faults.items() if broken
    ]
    missed = [fault for fault, broken in faults.items() if not broken]
    result.grade = REFUTED if bad or missed else EXHAUSTED
    result.note = "; ".join([*bad[:3], *(f"{fault} was not found" for fault in missed)])
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
        bad, faults = bad_scales(f, stated_scale), {"nearest_scale": bad_scales(f, nearest_scale, SOME)}
        made.append(_result(f"codec/{f.name}/every_maximum", doc, len(numbers(f)), bad, faults, start))
        start = time.perf_counter()
        doc = "At every threshold of every scale codes are near, in order, odd, and at most 127."
        bad, faults = bad_codes(f, codes), {fault.__name__: bad_codes(f, fault, SOME) for fault in FAULTS}
        made.append(_result(f"codec/{f.name}/every_threshold", doc, thresholds(f)[1].size, bad, faults, start))
    return made
