"""The codec once more, by other means: storage numbers looked up, integers for codes, ml-dtypes and numpy for rounding.

Everything is a numpy array of bits. Nothing here is taken from poolproof.
"""

from __future__ import annotations

from functools import cache

import ml_dtypes
import numpy as np
import torch
from torch import Tensor

NUMPY = {torch.bfloat16: np.dtype(ml_dtypes.bfloat16), torch.float16: np.dtype("f2"), torch.float32: np.dtype("f4")}
FRACTION_BITS = {torch.bfloat16: 7, torch.float16: 10, torch.float32: 23}
LEAST_EXPONENT = {torch.bfloat16: -126, torch.float16: -14, torch.float32: -126}
NAN = {torch.bfloat16: 0x7FC0, torch.float16: 0x7E00, torch.float32: 0x7FC0_0000}
DTYPES = list(NUMPY)


def unsigned(dtype: torch.dtype) -> np.dtype:
    """Unsigned integers as wide as a storage format."""
    return np.dtype(f"u{dtype.itemsize}")


def bits_of(tensor: Tensor) -> np.ndarray:
    """A tensor's bits, as unsigned integers."""
    signed = torch.int32 if tensor.dtype.itemsize == 4 else torch.int16
    return tensor.contiguous().view(signed).cpu().numpy().view(unsigned(tensor.dtype))


def tensor_of(bits: np.ndarray, dtype: torch.dtype) -> Tensor:
    """The tensor with these bits."""
    signed = np.dtype(f"i{dtype.itemsize}")
    return torch.from_numpy(np.ascontiguousarray(bits.astype(unsigned(dtype)).view(signed))).view(dtype)


def numbers(bits: np.ndarray, dtype: torch.dtype) -> np.ndarray:
    """The numbers that bits stand for, exactly, in float64."""
    with np.errstate(invalid="ignore"):  # a NaN that signals
        return np.ascontiguousarray(bits.astype(unsigned(dtype))).view(NUMPY[dtype]).astype(np.float64)


@cache
def infinity(dtype: torch.dtype) -> int:
    """The bits of the format's infinity: finite magnitudes are below, NaNs above."""
    return (1 << (8 * dtype.itemsize - 1)) - (1 << FRACTION_BITS[dtype])


@cache
def least_scale(dtype: torch.dtype) -> int:
    """The bits of the least scale."""
    return {torch.bfloat16: 0x0080, torch.float16: 0x0001, torch.float32: 0x0080_0000}[dtype]


@cache
def _products(dtype: torch.dtype) -> np.ndarray:
    """127 times each number of a 16-bit format, in order."""
    return 127 * numbers(np.arange(infinity(dtype)), dtype)


def scales(amax: np.ndarray, dtype: torch.dtype) -> np.ndarray:
    """Bits of the least storage number not below a 127th of a maximum, nor below the least scale."""
    wanted = numbers(amax, dtype)
    if dtype == torch.float32:
        near = (wanted / 127).astype(np.float32).view(np.uint32).astype(np.int64)
        found = np.full(near.shape, -1)
        for candidate in (near + 2, near + 1, near, near - 1, near - 2):
            fits = (candidate >= 0) & (127 * numbers(np.maximum(candidate, 0), dtype) >= wanted)
            found = np.where(fits, candidate, found)
    else:
        found = np.searchsorted(_products(dtype), wanted, side="left")
    return np.maximum(found, least_scale(dtype)).astype(unsigned(dtype))


def parts(bits: np.ndarray, dtype: torch.dtype) -> tuple[np.ndarray, np.ndarray]:
    """The integers m and e of the magnitude m * 2**e."""
    width = FRACTION_BITS[dtype]
    magnitude = bits.astype(np.int64) & ((1 << (8 * dtype.itemsize - 1)) - 1)
    field = magnitude >> width
    fraction = magnitude & ((1 << width) - 1)
    return np.where(field > 0, fraction | (1 << width), fraction), np.maximum(field, 1) + LEAST_EXPONENT[
        dtype
    ] - 1 - width


def codes(state: np.ndarray, scale: np.ndarray, dtype: torch.dtype) -> np.ndarray:
    """round_half_even(x * round32(1 / scale)) in integers, for finite elements (d_v, d_k) and scales (d_k)."""
    reciprocal = np.float32(1) / numbers(scale, dtype).astype(np.float32)
    x, x_exponent = parts(state, dtype)
    r, r_exponent = parts(reciprocal.view(np.uint32), torch.float32)
    product, shift = x * r, -(x_exponent + r_exponent)
    assert (shift[product > 0] > 0).all(), "the product of an element and a reciprocal is no fraction"
    shift = np.clip(shift, 1, 62)
    whole, rest, half = product >> shift, product & ((np.int64(1) << shift) - 1), np.int64(1) << (shift - 1)
    magnitude = whole + ((rest > half) | ((rest == half) & (whole & 1 == 1)))
    sign = (state.astype(np.int64) >> (8 * dtype.itemsize - 1)) & 1
    return np.where(sign == 1, -magnitude, magnitude)


def stored(state: np.ndarray, dtype: torch.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Codes (d_v, d_k) and scale bits (d_k) of a state's bits (d_v, d_k)."""
    magnitude = state.astype(np.int64) & ((1 << (8 * dtype.itemsize - 1)) - 1)
    amax = magnitude.max(axis=0, initial=0)
    lost = amax >= infinity(dtype)
    scale = scales(np.where(lost, 0, amax), dtype)
    code = codes(np.where(lost, 0, state), scale, dtype)
    assert np.abs(code).max(initial=0) <= 127
    return code.astype(np.int8), np.where(lost, NAN[dtype], scale).astype(unsigned(dtype))


def loaded(code: np.ndarray, scale: np.ndarray, dtype: torch.dtype) -> np.ndarray:
    """Bits of saturate(round(q * scale)), NaN throughout where the scale is NaN. The product is exact in float64."""
    lost = scale > infinity(dtype)
    product = code.astype(np.float64) * numbers(np.where(lost, 0, scale), dtype)
    with np.errstate(over="ignore"):
        rounded = product.astype(NUMPY[dtype]) + np.zeros((), NUMPY[dtype])  # -0.0 + 0.0 is 0.0
    bits = np.ascontiguousarray(rounded).view(unsigned(dtype)).astype(np.int64)
    sign = 1 << (8 * dtype.itemsize - 1)
    bits = np.where(bits & (sign - 1) == infinity(dtype), bits - 1, bits)
    return np.where(lost, NAN[dtype], bits).astype(unsigned(dtype))
