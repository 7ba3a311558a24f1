"""The checks of a codec pass for the codec, in torch and as kernels on every device, and find planted faults."""

from __future__ import annotations

from dataclasses import replace

import oracles
import pytest
import torch
from checks import CHECKS, Codec
from torch import Tensor

from poolproof.kernels import codec
from poolproof.kernels.dequantize_load import dequantize_load
from poolproof.kernels.quantize_store import quantize_store

REFERENCE = Codec(codec.quantize, codec.dequantize)


def kernel_quantize(state: Tensor) -> tuple[Tensor, Tensor]:
    """A state (d_v, d_k), stored by the kernel."""
    active = state[None, None, None]
    codes = torch.full(active.shape, 55, dtype=torch.int8, device=state.device)
    scales = torch.ones((1, 1, 1, state.shape[1]), dtype=state.dtype, device=state.device)
    quantize_store(active, codes, scales, 0, 0)
    return codes[0, 0, 0], scales[0, 0, 0]


def kernel_dequantize(codes: Tensor, scale: Tensor) -> Tensor:
    """Codes (d_v, d_k), loaded by the kernel."""
    active = torch.ones((1, 1, 1, *codes.shape), dtype=scale.dtype, device=scale.device)
    dequantize_load(codes[None, None, None], scale[None, None, None], active, 0, 0)
    return active[0, 0, 0]


@pytest.mark.parametrize("dtype", oracles.DTYPES, ids=str)
@pytest.mark.parametrize("check", CHECKS)
def test_the_reference_passes(check: str, dtype: torch.dtype) -> None:
    CHECKS[check](REFERENCE, dtype)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("dtype", oracles.DTYPES, ids=str)
@pytest.mark.parametrize("check", CHECKS)
def test_the_reference_passes_on_the_device(check: str, dtype: torch.dtype) -> None:
    CHECKS[check](replace(REFERENCE, device=torch.device("cuda")), dtype)


@pytest.mark.parametrize("dtype", oracles.DTYPES, ids=str)
@pytest.mark.parametrize("check", CHECKS)
def test_the_kernels_pass(check: str, dtype: torch.dtype, device: torch.device) -> None:
    CHECKS[check](Codec(kernel_quantize, kernel_dequantize, device), dtype)


def with_scale(scale_of: object, monkeypatch: pytest.MonkeyPatch) -> Codec:
    """The reference with another scale."""
    monkeypatch.setattr(codec, "scale_of", scale_of)
    return REFERENCE


def nearest_scale(amax: Tensor) -> Tensor:
    """Planted: rounded to the nearest, not up."""
    least = torch.tensor(codec.LEAST_SCALE_BITS[amax.dtype], dtype=codec.BITS[amax.dtype]).view(amax.dtype)
    return torch.maximum((amax.double() / 127).to(amax.dtype), least)


def storage_scale(amax: Tensor) -> Tensor:
    """Planted: the quotient is checked with a product in the storage format, which rounds."""
    bits = codec.BITS[amax.dtype]
    near = amax / 127
    up = near.view(bits) + (near * 127 < amax).to(bits)
    return up.clamp(min=codec.LEAST_SCALE_BITS[amax.dtype]).view(amax.dtype)


def eager_scale(amax: Tensor) -> Tensor:
    """Planted: one step too far up where the quotient is exact."""
    bits = codec.BITS[amax.dtype]
    return (codec_scale(amax).view(bits) + (codec_scale(amax).double() * 127 == amax.double()).to(bits)).view(
        amax.dtype
    )


codec_scale = codec.scale_of


@pytest.mark.parametrize("dtype", oracles.DTYPES, ids=str)
@pytest.mark.parametrize("fault", [nearest_scale, storage_scale, eager_scale])
def test_a_scale_that_is_not_rounded_up_is_found(
    fault: object, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(AssertionError, match=r"^scales: "):
        CHECKS["scales"](with_scale(fault, monkeypatch), dtype)


def scaled(state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Elements over their channel's scale, which is given too, and whether the channel is finite."""
    scale = codec.quantize(state)[1]
    finite = ~scale.isnan()
    kept = torch.where(finite.unsqueeze(-2), state, 0).double()
    return kept * (1 / torch.where(finite, scale, 1).double()).float().double().unsqueeze(-2), scale, finite


def truncated(state: Tensor) -> tuple[Tensor, Tensor]:
    """Planted: codes are cut off, not rounded."""
    wide, scale, _ = scaled(state)
    return wide.trunc().to(torch.int8), scale


def half_away(state: Tensor) -> tuple[Tensor, Tensor]:
    """Planted: ties go away from zero."""
    wide, scale, _ = scaled(state)
    return (wide.abs() + 0.5).floor().copysign(wide).to(torch.int8), scale


def rounded_twice(state: Tensor) -> tuple[Tensor, Tensor]:
    """Planted: the product is rounded to float32 before it is rounded to an integer."""
    wide, scale, _ = scaled(state)
    return wide.float().round().to(torch.int8), scale


@pytest.mark.parametrize(
    ("fault", "dtypes"),
    [(truncated, oracles.DTYPES), (half_away, oracles.DTYPES), (rounded_twice, [torch.float32])],
)
def test_a_code_that_is_not_the_nearest_is_found(fault: object, dtypes: list[torch.dtype]) -> None:
    for dtype in dtypes:
        with pytest.raises(AssertionError, match=r"^codes: "):
            CHECKS["codes"](replace(REFERENCE, quantize=fault), dtype)


def padded(state: Tensor) -> tuple[Tensor, Tensor]:
    """Planted: rows up to a power of two enter the maximum, as what the lanes beside the mask happen to hold."""
    rows = 1 << max(state.shape[-2] - 1, 0).bit_length()
    more = state.new_full((*state.shape[:-2], rows - state.shape[-2], state.shape[-1]), 1.0)
    codes, scale = codec.quantize(torch.cat([state, more], dim=-2))
    return codes[..., : state.shape[-2], :], scale


def shared(state: Tensor) -> tuple[Tensor, Tensor]:
    """Planted: the channels of a tile share the maximum."""
    codes, scale = codec.quantize(state.reshape(*state.shape[:-2], -1, 1))
    return codes.reshape(state.shape), scale.expand(*state.shape[:-2], state.shape[-1])


@pytest.mark.parametrize("dtype", oracles.DTYPES, ids=str)
@pytest.mark.parametrize("fault", [padded, shared])
def test_a_channel_that_feels_its_neighbours_is_found(fault: object, dtype: torch.dtype) -> None:
    with pytest.raises(AssertionError, match=r"^channels: "):
        CHECKS["channels"](replace(REFERENCE, quantize=fault), dtype)


def unsaturated(codes: Tensor, scale: Tensor) -> Tensor:
    """Planted: a product beyond the largest number is loaded as an infinity."""
    return (codes.double() * scale.double().unsqueeze(-2)).to(scale.dtype)


def signed_zero(codes: Tensor, scale: Tensor) -> Tensor:
    """Planted: zeros are loaded as -0.0."""
    loaded = codec.dequantize(codes, scale)
    return torch.where(loaded == 0, -loaded, loaded)


@pytest.mark.parametrize("fault", [unsaturated, signed_zero])
def test_a_load_that_is_not_canonical_is_found(fault: object) -> None:
    with pytest.raises(AssertionError, match=r"^loads: "):
        CHECKS["loads"](replace(REFERENCE, dequantize=fault), torch.float16)


def kept_nan(state: Tensor) -> tuple[Tensor, Tensor]:
    """Planted: the scale keeps the NaN's own bits."""
    codes, scale = codec.quantize(state)
    return codes, torch.where(scale.isnan(), -scale, scale)


def no_infinities(state: Tensor) -> tuple[Tensor, Tensor]:
    """Planted: only NaNs are looked for."""
    largest = torch.finfo(state.dtype).max
    return codec.quantize(torch.where(state.isnan(), state, state.clamp(-largest, largest)))


@pytest.mark.parametrize("dtype", oracles.DTYPES, ids=str)
@pytest.mark.parametrize("fault", [kept_nan, no_infinities])
def test_a_lost_channel_that_is_not_canonical_is_found(fault: object, dtype: torch.dtype) -> None:
    with pytest.raises(AssertionError, match=r"^lost: "):
        CHECKS["lost"](replace(REFERENCE, quantize=fault), dtype)
