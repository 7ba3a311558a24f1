"""What a codec must do, as named checks. Each raises AssertionError with its own name; a planted fault must meet one.

A codec is a pair of functions on tensors: `quantize(state)` and `dequantize(codes, scale)`, of the shapes of
`poolproof.kernels.codec`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import oracles
import states
import torch
from torch import Tensor


@dataclass(frozen=True)
class Codec:
    """The two directions, on tensors of some device."""

    quantize: Callable[[Tensor], tuple[Tensor, Tensor]]
    dequantize: Callable[[Tensor, Tensor], Tensor]
    device: torch.device = torch.device("cpu")  # noqa: RUF009 - a constant

    def stored(self, bits: np.ndarray, dtype: torch.dtype) -> tuple[np.ndarray, np.ndarray]:
        """Codes and scale bits of a state's bits (d_v, channels)."""
        codes, scale = self.quantize(oracles.tensor_of(bits, dtype).to(self.device))
        return codes.cpu().numpy(), oracles.bits_of(scale)

    def loaded(self, codes: np.ndarray, scale: np.ndarray, dtype: torch.dtype) -> np.ndarray:
        """Bits of the state that codes and scale bits stand for."""
        on = torch.from_numpy(codes).to(self.device), oracles.tensor_of(scale, dtype).to(self.device)
        return oracles.bits_of(self.dequantize(*on))


def differ(name: str, kind: str, found: np.ndarray, expected: np.ndarray) -> None:
    """Fail with the check's name and the first places where two arrays differ."""
    assert found.shape == expected.shape, f"{name}: {kind}: shapes {found.shape} and {expected.shape}"
    where = np.argwhere(found != expected)
    first = [f"at {tuple(map(int, at))} {found[tuple(at)]}, not {expected[tuple(at)]}" for at in where[:3]]
    assert len(where) == 0, f"{name}: {kind}: {len(where)} of {found.size} differ: {'; '.join(first)}"


def check_scales(codec: Codec, dtype: torch.dtype) -> None:
    """A scale is the least storage number whose 127-fold is not below any element, and no less than the least scale."""
    for kind, make in states.KINDS.items():
        bits = make(dtype)
        differ("scales", kind, codec.stored(bits, dtype)[1], oracles.stored(bits, dtype)[1])


def check_codes(codec: Codec, dtype: torch.dtype) -> None:
    """A code is the nearest integer, half to even, of the element times the reciprocal, for the scale it came with."""
    for kind, make in states.KINDS.items():
        bits = make(dtype)
        codes, scale = codec.stored(bits, dtype)
        lost = scale > oracles.infinity(dtype)
        kept = np.where(lost, oracles.least_scale(dtype), scale)
        expected = np.where(lost, 0, oracles.codes(np.where(lost, 0, bits), kept, dtype))
        differ("codes", kind, codes.astype(np.int64), expected)


def check_lost(codec: Codec, dtype: torch.dtype) -> None:
    """A channel with a NaN or an infinity is stored as zeros and the one NaN, and comes back as that NaN."""
    bits = states.not_finite(dtype)
    codes, scale = codec.stored(bits, dtype)
    differ("lost", "scales", scale, np.full_like(scale, oracles.NAN[dtype]))
    differ("lost", "codes", codes, np.zeros_like(codes))
    loaded = codec.loaded(codes, scale, dtype)
    differ("lost", "loaded", loaded, np.full_like(loaded, oracles.NAN[dtype]))


def check_loads(codec: Codec, dtype: torch.dtype) -> None:
    """Every code times scales of every size is rounded once and saturated; no -0.0 is loaded."""
    scale = oracles.scales(states.maxima(dtype), dtype)
    codes = np.repeat(np.arange(-127, 128, dtype=np.int8)[:, None], len(scale), axis=1)
    differ("loads", "all codes", codec.loaded(codes, scale, dtype), oracles.loaded(codes, scale, dtype))


def check_channels(codec: Codec, dtype: torch.dtype) -> None:
    """A channel is stored as if it were alone, whatever is beside it, and however many elements it has."""
    for rows, columns in ((1, 1), (3, 5), (5, 17), (7, 33)):
        bits = states.wild(dtype, (rows, columns), rows) & ~(3 << (8 * dtype.itemsize - 4))
        codes, scale = codec.stored(bits, dtype)
        alone = [codec.stored(bits[:, [n]], dtype) for n in range(columns)]
        differ("channels", f"codes of {rows} rows", codes, np.concatenate([a[0] for a in alone], axis=1))
        differ("channels", f"scales of {rows} rows", scale, np.concatenate([a[1] for a in alone]))
        differ("channels", f"codes of {rows} rows, by the oracle", codes, oracles.stored(bits, dtype)[0])


CHECKS = {
    "scales": check_scales,
    "codes": check_codes,
    "lost": check_lost,
    "loads": check_loads,
    "channels": check_channels,
}
