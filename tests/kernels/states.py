"""States to store, (d_v, channels), as bits or a tensor: random ones, and those that are made to break a codec."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import oracles
import torch
from torch import Tensor

ROWS = 16


def sign_bit(dtype: torch.dtype) -> int:
    """The bits of -0.0."""
    return 1 << (8 * dtype.itemsize - 1)


def maxima(dtype: torch.dtype, seed: int = 0) -> np.ndarray:
    """Bits of finite magnitudes: both ends, each exponent's first and last number, and some more."""
    top, width = oracles.infinity(dtype), oracles.FRACTION_BITS[dtype]
    firsts = np.arange(0, top, 1 << width)
    some = np.random.default_rng(seed).integers(0, top, 200)
    return np.unique(np.concatenate([np.arange(20), firsts, firsts[1:] - 1, np.arange(top - 20, top), some]))


def wild(dtype: torch.dtype, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Finite elements of all exponents."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, oracles.infinity(dtype), shape) | rng.integers(0, 2, shape) * sign_bit(dtype)


def even(dtype: torch.dtype, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Channels, along the last axis, of elements of one magnitude each, from the least to the largest."""
    rng = np.random.default_rng(seed)
    low, high = np.log2(np.finfo(np.float32).tiny) - 8, 127
    if dtype == torch.float16:
        low, high = -24, 15
    factor = 2.0 ** rng.uniform(low, high, shape[-1])
    values = torch.from_numpy(rng.uniform(-1, 1, shape) * factor)
    return oracles.bits_of(values.to(dtype)).astype(np.int64)


def mixed(dtype: torch.dtype, shape: tuple[int, ...], seed: int) -> Tensor:
    """Channels of all kinds, a few of them not finite, as a tensor (..., d_v, d_k)."""
    rng = np.random.default_rng(seed)
    rows = (*shape[:-2], 1, shape[-1])
    bits = np.where(rng.random(rows) < 0.5, wild(dtype, shape, seed + 1), even(dtype, shape, seed + 2))
    special = np.array([0, sign_bit(dtype), 1, oracles.infinity(dtype) - 1])
    bits = np.where(rng.random(shape) < 0.1, rng.choice(special, shape), bits)
    gone = oracles.infinity(dtype) + rng.integers(0, 2, shape) * rng.integers(
        0, 1 << oracles.FRACTION_BITS[dtype], shape
    )
    gone |= rng.integers(0, 2, shape) * sign_bit(dtype)
    bits = np.where((rng.random(rows) < 0.1) & (rng.random(shape) < 0.2), gone, bits)
    return oracles.tensor_of(bits, dtype)


def near_ties(dtype: torch.dtype, seed: int = 1) -> np.ndarray:
    """Each maximum, with elements on and on either side of half-integers times the scale."""
    amax = maxima(dtype, seed)
    scale = oracles.numbers(oracles.scales(amax, dtype), dtype)
    return thresholds(amax, scale, np.random.default_rng(seed).integers(0, 127, ROWS // 3), dtype)


def thresholds(amax: np.ndarray, scale: np.ndarray, steps: np.ndarray, dtype: torch.dtype) -> np.ndarray:
    """Row 0 the maximum, then the storage numbers next to (step + 1/2) * scale, none above the maximum."""
    wanted = (steps[:, None] + 0.5) * scale[None, :]
    near = oracles.bits_of(torch.from_numpy(np.minimum(wanted, oracles.numbers(amax, dtype)[None, :])).to(dtype))
    around = np.concatenate([near.astype(np.int64) + step for step in (-1, 0, 1)])
    return np.concatenate([amax[None, :], np.clip(around, 0, amax[None, :])])


def ties(dtype: torch.dtype) -> np.ndarray:
    """127 times a power of two, and odd multiples of half of it: products that are exactly half-integers."""
    exponents = range(-20, 9) if dtype == torch.float16 else range(-120, 120, 7)
    odd = np.array([1, 3, 5, 7, 9, 63, 125, 127, 129, 251, 253, 61, 101, 31, 33])  # halves of them, in 8 bits
    columns = [np.concatenate([[127.0], odd / 2 * np.where(np.arange(15) % 2, 1, -1)]) * 2.0**e for e in exponents]
    return oracles.bits_of(torch.from_numpy(np.stack(columns, axis=1)).to(dtype)).astype(np.int64)


def constant(dtype: torch.dtype) -> np.ndarray:
    """All elements equal, of every maximum, of either sign."""
    amax = maxima(dtype)
    return np.tile(np.concatenate([amax, amax | sign_bit(dtype)]), (ROWS, 1))


def alternating(dtype: torch.dtype) -> np.ndarray:
    """One magnitude, signs in turn."""
    return np.tile(maxima(dtype), (ROWS, 1)) | (np.arange(ROWS) % 2 * sign_bit(dtype))[:, None]


def one_huge(dtype: torch.dtype) -> np.ndarray:
    """One huge element a channel among little ones, in each place."""
    little = wild(dtype, (ROWS, 2 * ROWS), 5) & ~(7 << (8 * dtype.itemsize - 4))
    huge = np.arange(2 * ROWS) % ROWS
    little[huge, np.arange(2 * ROWS)] = oracles.infinity(dtype) - 1 - np.arange(2 * ROWS)
    return little


def subnormals(dtype: torch.dtype) -> np.ndarray:
    """Nothing but subnormals and zeros of both signs."""
    rng = np.random.default_rng(7)
    bits = rng.integers(0, 1 << oracles.FRACTION_BITS[dtype], (ROWS, 64)) >> rng.integers(0, 8, 64)[None, :]
    return bits | rng.integers(0, 2, bits.shape) * sign_bit(dtype)


def not_finite(dtype: torch.dtype) -> np.ndarray:
    """One NaN or infinity in a channel: each sign, payloads large and small, each row."""
    top, sign = oracles.infinity(dtype), sign_bit(dtype)
    found = np.array([top, top | sign, top + 1, (top + 1) | sign, sign - 1, 2 * sign - 1, oracles.NAN[dtype]])
    bits = wild(dtype, (ROWS, ROWS * len(found)), 9)
    column = np.arange(bits.shape[1])
    bits[column % ROWS, column] = found[column // ROWS]
    return bits


KINDS: dict[str, Callable[[torch.dtype], np.ndarray]] = {
    "random": lambda dtype: wild(dtype, (ROWS, 300), 11),
    "even": lambda dtype: even(dtype, (ROWS, 300), 12),
    "near ties": near_ties,
    "ties": ties,
    "constant": constant,
    "alternating": alternating,
    "one huge": one_huge,
    "subnormals": subnormals,
    "not finite": not_finite,
}
