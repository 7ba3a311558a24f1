"""The codec as it is defined: its formats round as ml-dtypes and numpy do; its channels are what brute force finds."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from itertools import pairwise

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poolproof.spec.codec import FLOAT32, FORMATS, Channel, Exact, Format, load, quantized, scale_of, store

NUMPY = {"bfloat16": np.dtype(ml_dtypes.bfloat16), "float16": np.dtype("f2"), "float32": np.dtype("f4")}
ALL = list(FORMATS.values())
NARROW = [FORMATS["bfloat16"], FORMATS["float16"]]
for_all = pytest.mark.parametrize("storage", ALL, ids=lambda storage: storage.name)
for_narrow = pytest.mark.parametrize("storage", NARROW, ids=lambda storage: storage.name)
tried = settings(max_examples=150, deadline=None, derandomize=True)


def numbers(storage: Format, bits: np.ndarray) -> np.ndarray:
    """The numbers with these bits, in the storage format."""
    dtype = NUMPY[storage.name]
    return np.ascontiguousarray(bits.astype(f"u{dtype.itemsize}")).view(dtype)


@cache
def infinity(storage: Format) -> int:
    """The bits of the format's infinity; the finite magnitudes are those below."""
    dtype = NUMPY[storage.name]
    return int(np.array([np.inf]).astype(dtype).view(f"u{dtype.itemsize}")[0])


@cache
def all_numbers(storage: Format) -> np.ndarray:
    """All finite numbers of a narrow format that are not negative, in order, as float64."""
    return numbers(storage, np.arange(infinity(storage))).astype(np.float64)


def some_bits(storage: Format, count: int, seed: int) -> np.ndarray:
    """Bits of finite magnitudes: subnormals, both ends, powers of two and what is below them, and some more."""
    top, width = infinity(storage), storage.precision - 1
    powers = np.arange(1, top >> width, max(1, (top >> width) // 30)) << width
    some = np.random.default_rng(seed).integers(0, top, count)
    return np.unique(np.concatenate([np.arange(40), powers, powers - 1, top - 1 - np.arange(40), some]))


def exactly(value: np.generic | float) -> Fraction:
    """A floating-point number as a fraction."""
    return Fraction(float(value))


@for_all
def test_formats_are_as_finfo_says(storage: Format) -> None:
    limits = ml_dtypes.finfo(NUMPY[storage.name])
    assert storage.largest == exactly(limits.max)
    assert storage.least == exactly(limits.smallest_subnormal)
    assert storage.spacing(Fraction(1)) == exactly(limits.eps)
    assert Fraction(2) ** storage.least_exponent == exactly(limits.smallest_normal)
    assert storage.largest_exponent == math.frexp(float(limits.max))[1] - 1
    normal32 = exactly(np.finfo(np.float32).smallest_normal)
    assert storage.least_scale == max(normal32, exactly(limits.smallest_subnormal))


@for_all
def test_the_least_scale_has_a_normal_reciprocal_and_the_largest_too(storage: Format) -> None:
    for amax in (Fraction(0), storage.least, storage.largest):
        reciprocal = Exact(storage).reciprocal(scale_of(Exact(storage), amax))
        assert Fraction(2) ** -126 <= reciprocal <= FLOAT32.largest
    with np.errstate(over="ignore"):
        below = np.float32(1) / np.nextafter(np.float32(storage.least_scale), np.float32(0))
    assert storage.name == "float16" or float(below) >= 2.0**126


def hard_values(storage: Format, seed: int = 0) -> np.ndarray:
    """Numbers of the format, ties between neighbours, and float64 numbers right beside them and elsewhere between."""
    bits = some_bits(storage, 200, seed)
    low, high = (numbers(storage, b).astype(np.float64) for b in (bits[:-1], bits[:-1] + 1))
    middle = (low + high) / 2
    between = low + (high - low) * np.random.default_rng(seed).random(len(low))
    largest = float(storage.largest)
    step = float(storage.spacing(storage.largest))
    ends = largest + step * np.array([0, 0.25, 0.5 - 2.0**-20, 0.5, 0.5 + 2.0**-20, 1.0])
    return np.concatenate([low, middle, between, ends])


@for_all
def test_nearest_is_the_cast(storage: Format) -> None:
    """bfloat16 is cast from float32, so that it is cast once."""
    values = hard_values(storage)
    if storage.name == "bfloat16":
        values = np.concatenate([values[:-6].astype(np.float32), np.nextafter(values[:-6].astype(np.float32), 0)])
    else:
        values = np.concatenate([values, np.nextafter(values, 0), np.nextafter(values, np.inf)])
    with np.errstate(over="ignore"):
        casts = values.astype(NUMPY[storage.name])
    for value, cast in zip(values.tolist(), casts.astype(np.float64).tolist(), strict=True):
        for sign in (1, -1):
            found = storage.nearest(sign * Fraction(value))
            assert (abs(found) > storage.largest) == math.isinf(cast)
            assert math.isinf(cast) or found == sign * Fraction(cast)


@for_all
def test_beyond_the_largest_number_the_next_one_counts(storage: Format) -> None:
    step = storage.spacing(storage.largest)
    for part, next_one in ((Fraction(49, 100), 0), (Fraction(1, 2), 1), (Fraction(51, 100), 1), (Fraction(1), 1)):
        assert storage.nearest(storage.largest + part * step) == storage.largest + next_one * step
    assert storage.largest + step == Fraction(2) ** (storage.largest_exponent + 1)


@for_all
def test_up_is_the_least_number_not_below(storage: Format) -> None:
    bits = some_bits(storage, 200, 1)[1:-1]
    below, value, above = (numbers(storage, bits + n).astype(np.float64).tolist() for n in (-1, 0, 1))
    for a, b, c in zip(below, value, above, strict=True):
        if not math.isfinite(c):
            continue
        hair = (Fraction(c) - Fraction(b)) / 10**30
        assert storage.up(Fraction(b)) == Fraction(b)
        assert storage.up(Fraction(b) + hair) == storage.up((Fraction(b) + Fraction(c)) / 2) == Fraction(c)
        assert storage.up(Fraction(b) - hair) == Fraction(b)
        assert storage.up(-Fraction(b) - hair) == -Fraction(b)
        assert storage.up(-Fraction(b) + hair) == -Fraction(a)
    assert storage.up(Fraction(0)) == 0
    assert storage.up(storage.least / 10**30) == storage.least


@for_all
def test_spacing_is_the_distance_to_the_next_number(storage: Format) -> None:
    for bits in some_bits(storage, 200, 2).tolist():
        value, above = (float(numbers(storage, np.array([b]))[0]) for b in (bits, bits + 1))
        if math.isfinite(above):
            gap = Fraction(above) - Fraction(value)
            assert storage.spacing(Fraction(value)) == storage.spacing(-Fraction(value)) == gap
            assert storage.spacing(Fraction(value) + gap / 3) == gap
    if storage.name != "bfloat16":
        value = numbers(storage, some_bits(storage, 200, 3)[:-1])
        assert [float(storage.spacing(exactly(x))) for x in value] == np.spacing(value).astype(float).tolist()


@for_narrow
def test_every_maximum_has_the_least_scale_that_holds_it(storage: Format) -> None:
    """Of all numbers of the format, the first whose 127-fold is not below the maximum, from the least scale on."""
    amax = all_numbers(storage)
    found = np.searchsorted(127 * amax, amax, side="left")
    expected = np.maximum(amax[found], float(storage.least_scale))
    exact = Exact(storage)
    assert [float(scale_of(exact, Fraction(x))) for x in amax.tolist()] == expected.tolist()


def test_scales_of_float32() -> None:
    """The neighbours are asked: the scale holds the maximum, and the number below it does not."""
    storage = FORMATS["float32"]
    for amax in numbers(storage, some_bits(storage, 1500, 4)):
        scale = scale_of(Exact(storage), exactly(amax))
        below = np.nextafter(np.float32(scale), np.float32(0))
        assert Fraction(float(np.float32(scale))) == scale
        assert 127 * scale >= exactly(amax)
        assert scale == storage.least_scale or 127 * exactly(below) < exactly(amax)


def nearest_code(x: Fraction, scale: Fraction) -> int:
    """Of all codes the nearest to x times numpy's reciprocal, of two the even one."""
    product = x * exactly(np.float32(1) / np.float32(float(scale)))
    return min(range(-128, 129), key=lambda q: (abs(product - q), q % 2))


@for_all
def test_codes_by_brute_force(storage: Format) -> None:
    """Random elements, and those next to half-integers times the scale."""
    rng = np.random.default_rng(6)
    dtype = NUMPY[storage.name]
    for amax in numbers(storage, rng.choice(some_bits(storage, 200, 5), 60)):
        scale = scale_of(Exact(storage), exactly(amax))
        ties = ((rng.integers(-127, 127, 3) + 0.5) * float(scale)).astype(dtype)
        around = np.concatenate(
            [ties, np.nextafter(ties, dtype.type(0)), (rng.uniform(-1, 1, 3) * float(amax)).astype(dtype)]
        )
        for x in (float(amax), *np.clip(around.astype(float), -float(amax), float(amax)).tolist()):
            assert quantized(Exact(storage), Fraction(x), scale) == nearest_code(Fraction(x), scale), (x, scale)


def test_ties_go_to_even_codes() -> None:
    halves = [n + 0.5 for n in range(-127, 127)]
    for storage in NARROW:
        channel = store(storage, [127.0, *halves])
        assert channel.scale == 1
        assert channel.codes[1:] == tuple(round(x) for x in halves)
        assert all(code % 2 == 0 for code in channel.codes[1:])


def test_the_reciprocal_form_departs_from_division_next_to_ties_only() -> None:
    storage, rng, apart = FORMATS["float32"], np.random.default_rng(7), 0
    for _ in range(300):
        amax = np.float32(rng.uniform(1, 2))
        scale = scale_of(Exact(storage), exactly(amax))
        x = np.float32((rng.integers(100, 126) + 0.5) * float(scale))
        ratio = exactly(x) / scale
        if quantized(Exact(storage), exactly(x), scale) != round(ratio):
            apart += 1
            assert abs(ratio - math.floor(ratio) - Fraction(1, 2)) < 127 * Fraction(2) ** -24
    assert apart > 0


def elements(storage: Format, not_finite: bool = False) -> st.SearchStrategy[float]:
    """Numbers of a format, by their bits, so that all exponents are as likely."""
    top = infinity(storage)
    size = 8 * NUMPY[storage.name].itemsize
    ends = st.sampled_from(
        [0, 1, 2, (1 << (storage.precision - 1)) - 1, 1 << (storage.precision - 1), top - 1, top - 2]
    )
    last = (1 << (size - 1)) - 1 if not_finite else top - 1
    magnitude = st.one_of(ends, st.integers(0, last), st.integers(0, 1 << storage.precision))
    return st.builds(
        lambda bits, sign: float(numbers(storage, np.array([bits | sign << (size - 1)]))[0]), magnitude, st.booleans()
    )


def channels(storage: Format) -> st.SearchStrategy[list[float]]:
    """Channels of numbers of any size, and of multiples of one number, which have like sizes."""
    factors = st.lists(st.integers(-254, 254), min_size=1, max_size=8)

    def multiples(unit: float, by: list[int]) -> list[float]:
        with np.errstate(over="ignore"):
            wide = (np.array(by) / 2 * unit).astype(NUMPY[storage.name]).astype(float)
        return np.clip(wide, -float(storage.largest), float(storage.largest)).tolist()

    return st.one_of(
        st.lists(elements(storage), min_size=1, max_size=8), st.builds(multiples, elements(storage), factors)
    )


drawn = given(data=st.data())


@for_all
@drawn
@tried
def test_finite_states_have_codes_in_range_and_come_back_finite(storage: Format, data: st.DataObject) -> None:
    state = data.draw(channels(storage))
    channel = store(storage, state)
    assert channel.scale is not None
    assert storage.least_scale <= channel.scale <= storage.largest
    assert storage.nearest(channel.scale) == channel.scale
    assert len(channel.codes) == len(state)
    assert all(type(q) is int and -127 <= q <= 127 for q in channel.codes)
    assert all(map(math.isfinite, load(storage, channel)))


@for_all
@drawn
@tried
def test_the_error_is_bounded(storage: Format, data: st.DataObject) -> None:
    """Half a scale, and what the reciprocal is off by."""
    state = data.draw(channels(storage))
    channel = store(storage, state)
    for x, q in zip(state, channel.codes, strict=True):
        assert abs(Fraction(x) - q * channel.scale) <= channel.scale * (Fraction(1, 2) + 127 * Fraction(2) ** -24)


@for_all
@drawn
@tried
def test_what_is_loaded_is_within_half_a_spacing_or_saturated(storage: Format, data: st.DataObject) -> None:
    channel = store(storage, data.draw(channels(storage)))
    for q, back in zip(channel.codes, load(storage, channel), strict=True):
        product = q * channel.scale
        assert float(np.array(back).astype(NUMPY[storage.name])) == back
        if abs(product) > storage.largest:
            assert Fraction(back) == (storage.largest if q > 0 else -storage.largest)
        else:
            assert abs(Fraction(back) - product) <= storage.spacing(product) / 2
        assert back != 0 or (q == 0 and math.copysign(1, back) == 1)


@for_all
@drawn
@tried
def test_signs_and_order_are_kept(storage: Format, data: st.DataObject) -> None:
    state = data.draw(channels(storage))
    channel = store(storage, state)
    mirrored = store(storage, [-x for x in state])
    assert mirrored == Channel(tuple(-q for q in channel.codes), channel.scale)
    assert load(storage, mirrored) == [-x for x in load(storage, channel)]
    ordered = sorted(zip(state, channel.codes, load(storage, channel), strict=True))
    for (_, q, back), (_, next_q, next_back) in pairwise(ordered):
        assert q <= next_q
        assert back <= next_back


@for_all
@drawn
@tried
def test_an_element_depends_on_the_largest_one_only(storage: Format, data: st.DataObject) -> None:
    """Order and company do not matter; a larger maximum never has a smaller scale."""
    state = data.draw(channels(storage))
    channel = store(storage, state)
    order = data.draw(st.permutations(range(len(state))))
    assert store(storage, [state[n] for n in order]) == Channel(tuple(channel.codes[n] for n in order), channel.scale)
    largest = max(state, key=abs)
    for x, q in zip(state, channel.codes, strict=True):
        assert store(storage, [largest, x]).codes[1] == q
    assert store(storage, [*state, data.draw(elements(storage))]).scale >= channel.scale


@for_all
@drawn
@tried
def test_a_channel_that_is_not_finite_is_lost_as_a_whole(storage: Format, data: st.DataObject) -> None:
    state = data.draw(st.lists(elements(storage, not_finite=True), max_size=6))
    state.insert(data.draw(st.integers(0, len(state))), data.draw(st.sampled_from([math.nan, math.inf, -math.inf])))
    channel = store(storage, state)
    assert channel == Channel((0,) * len(state), None)
    back = load(storage, channel)
    assert len(back) == len(state)
    assert all(map(math.isnan, back))


@for_all
def test_zeros_have_the_least_scale_and_come_back(storage: Format) -> None:
    for state in ([], [0.0], [0.0, -0.0, 0.0]):
        channel = store(storage, state)
        assert channel == Channel((0,) * len(state), storage.least_scale)
        assert [math.copysign(1, x) for x in load(storage, channel)] == [1] * len(state)


@for_all
def test_the_largest_numbers_come_back_as_near_as_they_can(storage: Format) -> None:
    largest = float(storage.largest)
    channel = store(storage, [largest, -largest, 0.0, float(storage.least)])
    assert channel.codes == (127, -127, 0, 0)
    back = load(storage, channel)
    assert back == [min(float(storage.nearest(127 * channel.scale)), largest), -back[0], 0.0, 0.0]
    assert 0 <= storage.largest - Fraction(back[0]) <= channel.scale / 2 or back[0] == largest


@for_all
def test_the_least_numbers(storage: Format) -> None:
    """Below half the least scale there is nothing; float16's least number is its own scale."""
    least = float(storage.least)
    channel = store(storage, [least, -least, 3 * least])
    assert channel.scale == storage.least_scale
    if storage.name == "float16":
        assert channel.codes == (1, -1, 3)
        assert load(storage, channel) == [least, -least, 3 * least]
    else:
        assert channel.codes == (0, 0, 0)
    half = float(storage.least_scale) / 2
    if storage.name != "float16":
        assert store(storage, [half, 1.5 * half, -3 * half]).codes == (0, 1, -2)


@for_all
def test_powers_of_two_times_127_are_kept_exactly(storage: Format) -> None:
    for exponent in (-10, 0, 7):
        state = [n * 2.0**exponent for n in (127, -127, 64, -1, 3, 0)]
        channel = store(storage, state)
        assert channel == Channel((127, -127, 64, -1, 3, 0), Fraction(2) ** exponent)
        assert load(storage, channel) == state
