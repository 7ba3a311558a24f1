"""The int8 state codec of spec/codec.py on torch tensors: the reference of the kernels on any device, and the CPU path.

Every step is exact or rounds once, so that all devices give the same bytes: quotients are corrected against an exact
product, products are taken in float64, where those of a code or an element and a scale fit.
"""

from __future__ import annotations

import torch
from torch import Tensor

LARGEST_CODE = 127

BITS = {torch.bfloat16: torch.int16, torch.float16: torch.int16, torch.float32: torch.int32}
"""The integers of the same width, for each storage format."""

LEAST_SCALE_BITS = {torch.bfloat16: 0x0080, torch.float16: 0x0001, torch.float32: 0x0080_0000}
"""The least scale of each format: 2**-126, and 2**-24 for float16."""

LARGEST_BITS = {torch.bfloat16: 0x7F7F, torch.float16: 0x7BFF, torch.float32: 0x7F7F_FFFF}
"""The largest finite number of each format; what has a greater magnitude, as an integer, is an infinity or a NaN."""

NAN_BITS = {torch.bfloat16: 0x7FC0, torch.float16: 0x7E00, torch.float32: 0x7FC0_0000}
"""The one NaN that is ever stored or loaded."""


def bits_of(dtype: torch.dtype) -> torch.dtype:
    """The integers as wide as a storage format.

    Raises:
        TypeError: it is none.
    """
    if dtype not in BITS:
        raise TypeError(f"states and scales are bfloat16, float16 or float32, not {dtype}")
    return BITS[dtype]


def scale_of(amax: Tensor) -> Tensor:
    """The scale of channels by their largest magnitudes.

    Args:
        amax: finite, not negative, in a storage format.

    Returns:
        max(round_up(amax / 127), least scale), shape and dtype of `amax`.

    Raises:
        TypeError: no storage format.
    """
    bits = bits_of(amax.dtype)
    near = (amax.double() / LARGEST_CODE).to(amax.dtype)
    too_low = near.double() * LARGEST_CODE < amax.double()
    up = (near.view(bits) + too_low.to(bits)).clamp(min=LEAST_SCALE_BITS[amax.dtype])
    return up.view(amax.dtype)


def quantize(state: Tensor) -> tuple[Tensor, Tensor]:
    """The codes and scales of a state, one scale for each index of all axes but the last but one.

    Args:
        state: (..., d_v, d_k), bfloat16, float16 or float32.

    Returns:
        Codes, int8, (..., d_v, d_k), and scales, the state's dtype, (..., d_k). A channel that is not finite has zeros
        and the scale NaN.

    Raises:
        TypeError: no storage format.
    """
    bits = bits_of(state.dtype)
    if state.shape[-2] == 0:
        amax = state.new_zeros((*state.shape[:-2], state.shape[-1])).view(bits)
    else:
        amax = state.abs().contiguous().view(bits).amax(-2)
    finite = amax <= LARGEST_BITS[state.dtype]
    scale = scale_of(torch.where(finite, amax, 0).view(state.dtype))
    reciprocal = (1.0 / scale.double()).float()
    wide = torch.where(finite.unsqueeze(-2), state, 0).double() * reciprocal.double().unsqueeze(-2)
    stored = torch.where(finite, scale.view(bits), NAN_BITS[state.dtype]).view(state.dtype)
    return wide.round().to(torch.int8), stored


def dequantize(codes: Tensor, scale: Tensor) -> Tensor:
    """The state that codes and scales stand for.

    Args:
        codes: int8, (..., d_v, d_k).
        scale: the storage format, (..., d_k).

    Returns:
        (..., d_v, d_k) in the scale's dtype: saturate(round(q * scale)), and NaN where the scale is not finite.

    Raises:
        TypeError: the scale has no storage format.
    """
    bits = bits_of(scale.dtype)
    largest = torch.finfo(scale.dtype).max
    lost = ~scale.isfinite()
    wide = codes.double() * torch.where(lost, 0, scale).double().unsqueeze(-2)
    loaded = wide.to(scale.dtype).clamp(-largest, largest)
    return torch.where(lost.unsqueeze(-2), NAN_BITS[scale.dtype], loaded.view(bits)).view(scale.dtype)
