"""The proofs of spec/codec.py by exhaustion, for bfloat16 and float16: every maximum, threshold, load and second store.

Scales come from the spec itself, on fractions. Codes, and what they are loaded as, are worked out on float64 arrays, in
which every product of the definition is exact; samples of them are compared with the spec on fractions. Between two
thresholds a code does not change, since codes keep order (proved over the reals), so that the three numbers of the
format about each threshold, and the largest, stand for all elements. Codes and loads keep order and sign, so that a
channel's largest element is still its largest when it is stored again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import compress

import numpy as np

from poolproof.proofs.results import EXHAUSTED, REFUTED, Result
from poolproof.spec import codec
from poolproof.spec.codec import BFLOAT16, FLOAT16, FLOAT32, LARGEST_CODE, Channel, Exact, Format, scale_of

FORMATS = (BFLOAT16, FLOAT16)
SLACK = 0.5 + LARGEST_CODE * 2.0**-24
"""How far a code may be from its element, in scales."""

SOME = 97
"""A fault is looked for in every so-manieth case."""

SAMPLE = 499
"""Every so-manieth load is worked out on fractions too; a fault of loading is looked for in every so-manieth scale."""

BLOCK = 128
"""So many scales are worked out at once, with all their codes."""

CODES = np.arange(-LARGEST_CODE, LARGEST_CODE + 1.0)
EXPONENT = np.uint64(0x7FF << 52)
"""The bits of a float64 number's exponent."""

MOVES = {BFLOAT16: (1, 0), FLOAT16: (0, 16)}
"""By how much a second store with another scale may move a code: between normal scales, and where one is subnormal."""

Scale = Callable[[Format, Fraction], Fraction]
Code = Callable[[np.ndarray, np.ndarray], np.ndarray]
Load = Callable[[Format, np.ndarray, np.ndarray], np.ndarray]


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


@cache
def maxima(storage: Format) -> tuple[np.ndarray, np.ndarray]:
    """Every finite maximum, in order, and its scale."""
    every = numbers(storage)
    return np.array([float(x) for x in every]), np.array([float(stated_scale(storage, x)) for x in every])


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
    every, scales = maxima(storage)
    of = dict(zip(scales.tolist(), every.tolist(), strict=True))  # the largest maximum of each scale
    scale = np.repeat(np.array(list(of)), LARGEST_CODE)
    amax = np.repeat(np.array(list(of.values())), LARGEST_CODE)
    edge = scale * np.tile(np.arange(LARGEST_CODE) + 0.5, len(of))
    at = np.searchsorted(every, edge)
    near = [every[np.minimum(at + step, len(every) - 1)] for step in (-1, 0, 1)]
    return scale, np.stack([*(np.minimum(x, amax) for x in near), amax])


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


def divided(x: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """A fault: elements are divided by the scale, which is another code next to a tie."""
    wrong: np.ndarray = np.rint(x / scale)
    return wrong


def codes_unlike_the_spec(storage: Format, code: Code, every: int = 4 * SAMPLE + 1) -> list[str]:
    """Of every n-th threshold, from the last on, the numbers about it that the spec gives another code."""
    scale, near = thresholds(storage)
    scale, near = scale[::-every], near[:, ::-every]
    found, exact = [], Exact(storage)
    for s, column in zip(scale.tolist(), near.T.tolist(), strict=True):
        have = code(np.array(column), np.full(len(column), s)).tolist()
        stated = [float(codec.quantized(exact, Fraction(x), Fraction(s))) for x in column]
        if have != stated:
            found.append(f"scale {s}: {column} have {have}, by the spec {stated}")
    return found


FAULTS = (truncated, past_the_last, late_after_a_tie)


def spacing(storage: Format, value: np.ndarray) -> np.ndarray:
    """The distance of neighbouring numbers of the format at a value's magnitude, as if exponents had no upper end."""
    power = (np.asarray(value).view(np.uint64) & EXPONENT).view(np.float64)
    step: np.ndarray = np.maximum(power, 2.0**storage.least_exponent) * 2.0 ** (1 - storage.precision)
    return step


def loaded(storage: Format, q: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """What codes are loaded as, all float64."""
    product, largest = q * scale, float(storage.largest)
    step = spacing(storage, product)
    back: np.ndarray = np.clip(np.rint(product / step) * step, -largest, largest)
    return back


def cut_off(storage: Format, q: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """A fault: what is loaded is cut off, not rounded."""
    step, back = spacing(storage, q * scale), loaded(storage, q, scale)
    wrong: np.ndarray = back - step * np.sign(back) * (np.abs(back) > np.abs(q * scale))
    return wrong


def half_away(storage: Format, q: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """A fault: of two numbers as near the larger is loaded."""
    off = q * scale - loaded(storage, q, scale)
    tie = np.abs(off) == spacing(storage, q * scale) / 2
    wrong: np.ndarray = loaded(storage, q, scale) + 2 * off * (tie & (off * q > 0))
    return wrong


def unsaturated(storage: Format, q: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """A fault: what is beyond the largest number is loaded as an infinity."""
    beyond = np.abs(q * scale) > float(storage.largest)
    return np.where(beyond, np.copysign(np.inf, q), loaded(storage, q, scale))


def not_a_number(storage: Format, q: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """A fault: zeros are loaded as 0 times infinity."""
    return np.where(q == 0, np.nan, loaded(storage, q, scale))


def negative_zero(storage: Format, q: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """A fault: zeros are loaded as -0."""
    return np.where(q == 0, -0.0, loaded(storage, q, scale))


def unsigned(storage: Format, q: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """A fault: signs are dropped."""
    wrong: np.ndarray = np.abs(loaded(storage, q, scale))
    return wrong


def out_of_order(storage: Format, q: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """A fault: even codes change places with the odd ones after them."""
    return loaded(storage, np.sign(q) * (np.abs(q) - 1 + 2 * (np.abs(q) % 2 == 0)), scale)


LOAD_FAULTS = (cut_off, half_away, unsaturated, not_a_number, negative_zero, unsigned, out_of_order)


def _off(storage: Format, product: np.ndarray, back: np.ndarray) -> np.ndarray:
    """Where a product is not loaded as the nearest number; beyond the largest: as that one, less than a spacing off."""
    step, largest = spacing(storage, product), float(storage.largest)
    off, place = np.abs(back - product), back / step
    tie_to_even = (off == step / 2) & (np.rint(place / 2) * 2 == place)
    near = (np.rint(place) == place) & ((off < step / 2) | tie_to_even)
    cut = (np.abs(back) == largest) & (off < step)
    as_it_must: np.ndarray = np.where(np.abs(product) > largest, cut, near)
    return ~as_it_must


def _wrong_loads(storage: Format, scale: np.ndarray, back: np.ndarray) -> dict[str, np.ndarray]:
    """What is wrong with what all codes are loaded as, one row a scale."""
    return {
        "not finite": ~(np.abs(back) <= float(storage.largest)),
        "not the nearest": _off(storage, CODES * scale, back),
        "not odd": back != -back[:, ::-1],
        "out of order": np.hstack([back[:, :1], back[:, :-1]]) > back,
        "no +0": (CODES == 0) & ((back != 0) | np.signbit(back)),
    }


def scales(storage: Format) -> np.ndarray:
    """Every scale that occurs, in order."""
    return np.unique(maxima(storage)[1])


def bad_loads(storage: Format, load: Load, every: int = 1) -> list[str]:
    """The codes of all scales, or of every n-th from the largest on, that are loaded as they must not be."""
    found, column = [], scales(storage)[::-every, np.newaxis]
    for start in range(0, len(column), BLOCK):
        scale = column[start : start + BLOCK]
        back = load(storage, CODES, scale)
        wrong = _wrong_loads(storage, scale, back)
        at, q = np.nonzero(np.any(list(wrong.values()), axis=0))
        why = np.stack([where[at, q] for where in wrong.values()], axis=1)
        for s, code, x, which in zip(*(a.tolist() for a in (scale[at, 0], CODES[q], back[at, q], why)), strict=True):
            found.append(f"scale {s}, code {code:.0f}: loaded as {x}, {', '.join(compress(wrong, which))}")
    return found


def loads_unlike_the_spec(storage: Format, load: Load, every: int = SAMPLE) -> list[str]:
    """Of every n-th scale and code, from the largest on, those that the spec loads as another number."""
    of, found, exact = scales(storage), [], Exact(storage)
    at = np.arange(of.size * CODES.size)[::-every]
    scale, q = of[at // CODES.size], CODES[at % CODES.size]
    for s, code, back in zip(scale.tolist(), q.tolist(), load(storage, q, scale).tolist(), strict=True):
        stated = float(codec.dequantized(exact, Fraction(code), Fraction(s)))
        if back != stated:
            found.append(f"scale {s}, code {code:.0f}: loaded as {back}, by the spec as {stated}")
    return found


def second_stores(storage: Format, load: Load, code: Code, every: int = 1) -> np.ndarray:
    """Of every n-th maximum, from the largest on: itself, scale, code, what is loaded, and that one's scale."""
    known, stated = maxima(storage)
    amax, scale = known[::-every], stated[::-every]
    q = code(amax, scale)
    back = load(storage, q, scale)
    at = np.minimum(np.searchsorted(known, back), len(known) - 1)
    return np.stack([amax, scale, q, back, np.where(known[at] == back, stated[at], np.nan)])


def bad_second_scales(storage: Format, stores: np.ndarray) -> list[str]:
    """The maxima whose second scale is beyond its bound, or neither the first nor one next to it."""
    amax, scale, _, back, second = stores
    known, _ = maxima(storage)
    near = np.abs(np.searchsorted(known, second) - np.searchsorted(known, scale)) <= 1
    bound = scale * (1 + 4 * 2.0**-storage.precision) + 2 * float(storage.least)
    bad = np.flatnonzero(~(near & (second <= bound)))
    return [f"amax {amax[n]}: scale {scale[n]}, loaded as {back[n]}, with the scale {second[n]}" for n in bad]


def channels(stores: np.ndarray) -> np.ndarray:
    """What a channel's codes depend on when it is stored again: scale, largest code, second scale, each once."""
    kinds: np.ndarray = np.unique(stores[[1, 2, 4]], axis=1)
    return kinds


def bad_second_codes(storage: Format, stores: np.ndarray, load: Load, code: Code) -> list[str]:
    """The codes that a second store with the same scale moves, or one with another scale moves too far."""
    scale, largest, second = channels(stores)[:, :, np.newaxis]
    old = np.arange(LARGEST_CODE + 1.0)
    new = code(load(storage, old, scale), second)
    normal = np.minimum(scale, second) >= 2.0**storage.least_exponent
    most = np.where(second == scale, 0, np.where(normal, *MOVES[storage]))
    bad = np.argwhere(~(np.abs(new - old) <= most) & (old <= largest)).tolist()
    return [f"scale {scale[n, 0]}, then {second[n, 0]}: code {q} becomes {new[n, q]}" for n, q in bad]


def second_stores_unlike_the_spec(storage: Format, load: Load, code: Code, every: int = SOME) -> list[str]:
    """Of every n-th maximum, with one more code beside it, those that the spec stores again in another way."""
    found = []
    for n, (amax, scale, largest, _, second) in enumerate(second_stores(storage, load, code, every).T.tolist()):
        beside = n % (int(largest) + 1)
        first = codec.store(storage, [amax])
        again = codec.store(storage, codec.load(storage, Channel((*first.codes, beside), first.scale)))
        back = load(storage, np.array([largest, beside]), np.full(2, scale))
        have = (scale, largest, second, *code(back, np.full(2, second)).tolist())
        if have != (first.scale, *first.codes, again.scale, *again.codes):
            found.append(f"amax {amax}, code {beside} beside it: {have}, by the spec {first}, then {again}")
    return found


def of_128_codes(storage: Format, q: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """A fault: codes are loaded as if there were 128 of them."""
    return loaded(storage, q * 128 / LARGEST_CODE, scale)


SECOND_FAULTS: dict[str, tuple[Load, Code]] = {
    "of_128_codes": (of_128_codes, codes),
    "unsaturated": (unsaturated, codes),
    "truncated": (loaded, truncated),
    "past_the_last": (loaded, past_the_last),
}
"""What a faulty codec loads and stores by."""


def bad_second_stores(storage: Format, load: Load, code: Code, every: int = 1) -> list[str]:
    """The second stores of every n-th maximum, from the largest on, that are not as they must be."""
    stores = second_stores(storage, load, code, every)
    return bad_second_scales(storage, stores) + bad_second_codes(storage, stores, load, code)


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


def every_maximum(f: Format, start: float) -> Result:
    """Of all scales."""
    doc = "The scale of every finite maximum holds it in 127 steps, is finite, and no larger than it must be."
    bad, faults = bad_scales(f, stated_scale), {"nearest_scale": bad_scales(f, nearest_scale, SOME)}
    return _result(f"codec/{f.name}/every_maximum", doc, len(numbers(f)), bad, faults, start)


def every_threshold(f: Format, start: float) -> Result:
    """Of all codes."""
    doc = "At every threshold of every scale codes are near, in order, odd, and at most 127."
    bad = bad_codes(f, codes) + codes_unlike_the_spec(f, codes)
    faults = {fault.__name__: bad_codes(f, fault, SOME) for fault in FAULTS}
    faults["divided"] = codes_unlike_the_spec(f, divided)
    return _result(f"codec/{f.name}/every_threshold", doc, thresholds(f)[1].size, bad, faults, start)


def every_load(f: Format, start: float) -> Result:
    """Of all that is loaded."""
    doc = (
        "Every code of every scale is loaded as the nearest number, at most half a spacing off, or, where the product "
        "is beyond the largest number, as that one, less than a spacing off: finite, odd, in order; 0 as +0."
    )
    bad = bad_loads(f, loaded) + loads_unlike_the_spec(f, loaded)
    faults = {fault.__name__: bad_loads(f, fault, SAMPLE) for fault in LOAD_FAULTS}
    return _result(f"codec/{f.name}/every_load", doc, scales(f).size * CODES.size, bad, faults, start)


def every_second_store(f: Format, start: float) -> Result:
    """Of all channels that are stored, loaded and stored again."""
    doc = (
        "Of every maximum the second scale is the first or one next to it, and at most scale * (1 + 4 * 2**-precision) "
        f"+ 2 * least number. Where it is the first, no code moves; else none by more than {max(MOVES[f])}"
        + (", and none between normal scales." if MOVES[f][0] == 0 else ".")
    )
    bad = bad_second_stores(f, loaded, codes) + second_stores_unlike_the_spec(f, loaded, codes)
    faults = {name: bad_second_stores(f, *fault, SOME) for name, fault in SECOND_FAULTS.items()}
    stores = second_stores(f, loaded, codes)
    cases = stores.shape[1] + int((channels(stores)[1] + 1).sum())
    return _result(f"codec/{f.name}/every_second_store", doc, cases, bad, faults, start)


KINDS = (every_maximum, every_threshold, every_load, every_second_store)


def claims() -> list[str]:
    """The names of all claims."""
    return [f"codec/{f.name}/{kind.__name__}" for f in FORMATS for kind in KINDS]


def results() -> list[Result]:
    """Four results for each 16-bit format."""
    return [kind(f, time.perf_counter()) for f in FORMATS for kind in KINDS]
