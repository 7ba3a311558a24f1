"""The codec in torch: the bytes of its definition on fractions; of integer arithmetic where all inputs are tried."""

from __future__ import annotations

import math
import struct
from fractions import Fraction

import ml_dtypes
import numpy as np
import oracles
import pytest
import states
import torch

from poolproof.kernels import codec
from poolproof.spec.codec import FORMATS, Channel, Exact, load, scale_of, store

ALL = oracles.DTYPES
NARROW = [torch.bfloat16, torch.float16]


def spec_format(dtype: torch.dtype) -> object:
    """The definition's name for a dtype."""
    return FORMATS[str(dtype).removeprefix("torch.")]


def bits_of_fraction(value: Fraction | None, dtype: torch.dtype) -> int:
    """The bits of a number of a storage format, or of the one NaN."""
    if value is None:
        return oracles.NAN[dtype]
    if dtype == torch.float16:
        return int(struct.unpack("<H", struct.pack("<e", float(value)))[0])
    bits = struct.unpack("<I", struct.pack("<f", float(value)))[0]
    assert dtype == torch.float32 or bits & 0xFFFF == 0
    return int(bits) if dtype == torch.float32 else int(bits) >> 16


def assert_as_defined(bits: np.ndarray, dtype: torch.dtype) -> None:
    """Codes, scales and what is loaded of channels (d_v, channels), each against the definition."""
    codes, scale = codec.quantize(oracles.tensor_of(bits, dtype))
    loaded, numbers = oracles.bits_of(codec.dequantize(codes, scale)), oracles.numbers(bits, dtype)
    for n, column in enumerate(numbers.T.tolist()):
        expected = store(spec_format(dtype), column)
        assert tuple(codes[:, n].tolist()) == expected.codes, (dtype, column)
        assert int(oracles.bits_of(scale)[n]) == bits_of_fraction(expected.scale, dtype), (dtype, column)
        back = load(spec_format(dtype), expected)
        wanted = [bits_of_fraction(None if math.isnan(x) else Fraction(x), dtype) for x in back]
        assert loaded[:, n].tolist() == wanted, (dtype, column)


@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("kind", states.KINDS)
def test_it_gives_the_bytes_of_the_definition(kind: str, dtype: torch.dtype) -> None:
    bits = states.KINDS[kind](dtype)
    assert_as_defined(bits[:, :: max(1, bits.shape[1] // 150)], dtype)


@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("kind", states.KINDS)
def test_the_definition_and_the_integers_agree(kind: str, dtype: torch.dtype) -> None:
    """The two oracles: what holds of the one is tried with the other where there is too much for fractions."""
    bits = states.KINDS[kind](dtype)[:, :120]
    codes, scale = oracles.stored(bits, dtype)
    for n, column in enumerate(oracles.numbers(bits, dtype).T.tolist()):
        expected = store(spec_format(dtype), column)
        assert (tuple(codes[:, n].tolist()), int(scale[n])) == (expected.codes, bits_of_fraction(expected.scale, dtype))


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_every_maximum_has_the_defined_scale(dtype: torch.dtype) -> None:
    """Each finite number that is not negative, as a channel of one element."""
    amax = np.arange(oracles.infinity(dtype))
    exact = Exact(spec_format(dtype))
    expected = [bits_of_fraction(scale_of(exact, Fraction(x)), dtype) for x in oracles.numbers(amax, dtype).tolist()]
    codes, scale = codec.quantize(oracles.tensor_of(amax[None], dtype))
    assert np.array_equal(oracles.bits_of(scale), np.array(expected))
    assert np.array_equal(oracles.scales(amax, dtype), np.array(expected))
    assert np.array_equal(codes.numpy(), oracles.codes(amax[None], np.array(expected), dtype))


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_every_maximum_and_the_elements_next_to_its_half_integers(dtype: torch.dtype) -> None:
    """Each maximum with the storage numbers on and next to (k + 1/2) * scale, of all k."""
    for amax in np.array_split(np.arange(oracles.infinity(dtype)), 32):
        scale = oracles.scales(amax, dtype)
        bits = states.thresholds(amax, oracles.numbers(scale, dtype), np.arange(127), dtype)
        codes, found = codec.quantize(oracles.tensor_of(bits, dtype))
        assert np.array_equal(oracles.bits_of(found), scale)
        assert np.array_equal(codes.numpy(), oracles.codes(bits, scale, dtype))


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_every_code_of_every_scale_is_loaded_as_ml_dtypes_and_numpy_round(dtype: torch.dtype) -> None:
    scale = np.unique(oracles.scales(np.arange(oracles.infinity(dtype)), dtype))
    codes = np.repeat(np.arange(-127, 128, dtype=np.int8)[:, None], len(scale), axis=1)
    found = codec.dequantize(torch.from_numpy(codes), oracles.tensor_of(scale, dtype))
    assert np.array_equal(oracles.bits_of(found), oracles.loaded(codes, scale, dtype))


def test_ml_dtypes_arithmetic_agrees_on_bfloat16() -> None:
    """The definition spelled with ml_dtypes: quotient and nextafter for the scale, product for what is loaded."""
    bf16 = ml_dtypes.bfloat16
    amax = np.arange(oracles.infinity(torch.bfloat16)).astype(np.uint16).view(bf16)
    near = amax / bf16(127)
    up = np.where(near.astype(float) * 127 < amax.astype(float), np.nextafter(near, bf16(np.inf)), near)
    expected = np.maximum(up, ml_dtypes.finfo(bf16).smallest_normal)
    scale = codec.scale_of(torch.from_numpy(amax.view(np.int16)).view(torch.bfloat16))
    assert np.array_equal(oracles.bits_of(scale), expected.view(np.uint16))
    largest = ml_dtypes.finfo(bf16).max
    for q in (-127, -126, -65, -3, -1, 0, 1, 2, 77, 127):
        codes = torch.full((1, len(expected)), q, dtype=torch.int8)
        loaded = oracles.bits_of(codec.dequantize(codes, scale))[0].view(bf16)
        assert np.array_equal(loaded, np.clip(bf16(q) * expected, -largest, largest))


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_every_nan_and_infinity_loses_its_channel(dtype: torch.dtype) -> None:
    """Every pattern that is no number, in channels long enough for vector instructions."""
    top, sign = oracles.infinity(dtype), states.sign_bit(dtype)
    gone = np.concatenate([np.arange(top, sign), np.arange(top, sign) | sign])
    for bits in (np.stack([np.zeros_like(gone), gone, gone ^ gone]), gone[None]):
        codes, scale = codec.quantize(oracles.tensor_of(bits, dtype))
        assert (oracles.bits_of(scale) == oracles.NAN[dtype]).all()
        assert not codes.any()
        assert (oracles.bits_of(codec.dequantize(codes, scale)) == oracles.NAN[dtype]).all()
    rows = np.tile(gone[:, None], (1, 2))
    rows[:, 1] = 1
    _, scale = codec.quantize(oracles.tensor_of(rows, dtype))
    assert oracles.bits_of(scale).tolist() == [oracles.NAN[dtype], oracles.least_scale(dtype)]


def test_the_canonical_bits() -> None:
    assert {torch.bfloat16: 0x7FC0, torch.float16: 0x7E00, torch.float32: 0x7FC0_0000} == codec.NAN_BITS
    for dtype in ALL:
        limits = torch.finfo(dtype)
        ends = torch.tensor([limits.max, limits.smallest_normal, torch.nan], dtype=dtype)
        largest, normal, nan = oracles.bits_of(ends).tolist()
        assert codec.LARGEST_BITS[dtype] == largest
        assert codec.LEAST_SCALE_BITS[dtype] == (1 if dtype == torch.float16 else normal)
        assert codec.NAN_BITS[dtype] == nan
        assert codec.BITS[dtype].itemsize == dtype.itemsize


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_no_zero_has_a_sign(dtype: torch.dtype) -> None:
    state = torch.tensor([[-0.0, -0.0, 0.0], [-0.0, 1.0, -1e-7]], dtype=dtype)
    codes, scale = codec.quantize(state)
    loaded = codec.dequantize(codes, scale)
    assert not codes[0].any()
    assert not oracles.bits_of(loaded[0]).any()
    assert not oracles.bits_of(loaded[:, 0]).any()


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_axes_before_the_channels_and_strides_do_not_matter(dtype: torch.dtype) -> None:
    state = states.mixed(dtype, (2, 3, 5, 7), 4)
    codes, scale = codec.quantize(state)
    turned = codec.quantize(state.transpose(-1, -2).contiguous().transpose(-1, -2))
    for n in np.ndindex(2, 3):
        alone = codec.quantize(state[n].clone())
        assert torch.equal(codes[n], alone[0])
        assert np.array_equal(oracles.bits_of(scale[n]), oracles.bits_of(alone[1]))
    assert torch.equal(codes, turned[0])
    assert np.array_equal(oracles.bits_of(scale), oracles.bits_of(turned[1]))
    loaded = codec.dequantize(codes.transpose(-1, -2).contiguous().transpose(-1, -2), scale)
    assert np.array_equal(oracles.bits_of(loaded), oracles.bits_of(codec.dequantize(codes, scale)))


@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0), (0, 3, 5, 7), (2, 0, 5, 7)])
def test_empty_states(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    codes, scale = codec.quantize(torch.zeros(shape, dtype=dtype))
    assert (codes.shape, codes.dtype) == (torch.Size(shape), torch.int8)
    assert (scale.shape, scale.dtype) == (torch.Size((*shape[:-2], shape[-1])), dtype)
    assert (oracles.bits_of(scale) == oracles.least_scale(dtype)).all()
    loaded = codec.dequantize(codes, scale)
    assert (loaded.shape, loaded.dtype) == (torch.Size(shape), dtype)
    if shape == (0, 5):
        assert store(spec_format(dtype), []) == Channel((), spec_format(dtype).least_scale)
