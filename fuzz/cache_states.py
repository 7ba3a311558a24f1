"""The recurrent states of a model that is made up: bits that follow from the tokens and from what was quantised before.

A step overwrites some elements, drawn from the tokens so far, and leaves the others as it found them: what the codec
made of a state goes on in the state after it, and is quantised again with the next donation. The codec is the exact one
of `poolproof.spec.codec`, on fractions; nothing here knows a pool or a tensor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from poolproof.spec.codec import FORMATS, load, store
from poolproof.sub_pools import Codec, StateSlots

Bits: TypeAlias = NDArray[Any]
"""Elements of a storage format, as unsigned integers of the same width."""

State: TypeAlias = tuple[Bits, ...]
"""A state: the temporal one, [layers, H, d_v, d_k], and then each conv window, [layers, channels, kernel - 1]."""

SPECIAL: Final = {
    "bfloat16": (0, 0x8000, 1, 0x8001, 0x007F, 0x0080, 0x7F7F, 0xFF7F),
    "float16": (0, 0x8000, 1, 0x8001, 0x03FF, 0x0400, 0x7BFF, 0xFBFF),
    "float32": (0, 1 << 31, 1, (1 << 31) + 1, 0x7FFFFF, 0x800000, 0x7F7FFFFF, 0xFF7FFFFF),
}
"""Zeros, subnormals, the least normal and the largest finite number."""

LOST: Final = {"bfloat16": (0x7F80, 0xFFC1), "float16": (0xFC00, 0x7E01), "float32": (0x7F800000, 0xFFC00001)}
"""An infinity and a NaN, which the codec stores as the one NaN of `NANS`."""

NANS: Final = {"bfloat16": 0x7FC0, "float16": 0x7E00, "float32": 0x7FC00000}


class Stored(NamedTuple):
    """A checkpoint, and what it is loaded as.

    Attributes:
        parts: as they lie in a slot: codes [layers, H, d_v, d_k], scales [layers, H, d_k] and conv windows; or, without
            a codec, those of the state.
        loaded: the state after a hit.
        depth: how many times something of it was quantised at most.
    """

    parts: tuple[NDArray[Any], ...]
    loaded: State
    depth: int


class StateModel:
    """States of one shape.

    Args:
        declared: says layers, shapes and dtypes.
        codec: of checkpoints.
    """

    def __init__(self, declared: StateSlots, codec: Codec) -> None:
        self._codec = codec
        self._dtypes = (declared.temporal_dtype, *(declared.conv_dtype for _ in declared.conv_shapes))
        shapes = (declared.temporal_shape, *declared.conv_shapes)
        self._shapes = [(declared.layers, *shape) for shape in shapes]

    def step(self, old: State | None, tokens: Sequence[int]) -> State:
        """The state behind these tokens, by a step that finds `old`; None for the state of no tokens."""
        draw = np.random.default_rng(crc32(np.array(tokens, np.int64).tobytes()))
        new = tuple(_drawn(draw, dtype, shape) for dtype, shape in zip(self._dtypes, self._shapes, strict=True))
        if old is None:
            return new
        return tuple(np.where(draw.random(a.shape) < 0.5, a, b) for a, b in zip(old, new, strict=True))

    def store(self, state: State, depth: int) -> Stored:
        """The checkpoint of a state that was quantised so many times."""
        if self._codec == "none":
            return Stored(state, state, depth)
        temporal, dtype = state[0], self._dtypes[0]
        layers, heads, _, columns = temporal.shape
        codes = np.zeros(temporal.shape, np.int8)
        scales = np.zeros((layers, heads, columns), temporal.dtype)
        loaded = np.zeros_like(temporal)
        for at in np.ndindex(layers, heads, columns):
            place = (at[0], at[1], slice(None), at[2])
            codes[place], scales[at], loaded[place] = _channel(dtype, tuple(temporal[place].tolist()))
        return Stored((codes, scales, *state[1:]), (loaded, *state[1:]), depth + 1)


def raw(parts: Sequence[NDArray[Any]]) -> NDArray[np.uint8]:
    """The bytes of parts [layers, ...], layer by layer."""
    layers = [part[layer].tobytes() for layer in range(len(parts[0])) for part in parts]
    return np.frombuffer(b"".join(layers), np.uint8)


def _drawn(draw: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Bits:
    """Numbers of many sizes, now and then a special one."""
    wide = (draw.standard_normal(shape) * 10.0 ** draw.integers(-3, 4, shape)).astype(np.float32)
    bits = _narrow(dtype, wide)
    kind, which = draw.random(shape), draw.integers(0, 8, shape)
    bits = np.where(kind < 0.06, np.array(SPECIAL[dtype], bits.dtype)[which], bits)
    return np.where(kind > 0.995, np.array(LOST[dtype], bits.dtype)[which % 2], bits)


def _narrow(dtype: str, wide: NDArray[np.float32]) -> Bits:
    """Float32 numbers as bits of a format: as they are, rounded, or cut off."""
    if dtype == "float16":
        return wide.astype(np.float16).view(np.uint16)
    bits = np.atleast_1d(wide).view(np.uint32).reshape(wide.shape)
    return (bits >> 16).astype(np.uint16) if dtype == "bfloat16" else bits


def _number(dtype: str, bits: int) -> float:
    """What bits of a format stand for."""
    if dtype == "float16":
        return float(np.uint16(bits).view(np.float16))
    return float(np.uint32(bits << 16 if dtype == "bfloat16" else bits).view(np.float32))


def _bits(dtype: str, number: float) -> int:
    """The bits of a number that the format has."""
    if math.isnan(number):
        return NANS[dtype]
    return int(_narrow(dtype, np.full(1, number, np.float32))[0])


@lru_cache(maxsize=1 << 16)
def _channel(dtype: str, bits: tuple[int, ...]) -> tuple[tuple[int, ...], int, tuple[int, ...]]:
    """A channel's codes, its scale, and what it is loaded as."""
    storage = FORMATS[dtype]
    channel = store(storage, [_number(dtype, each) for each in bits])
    scale = NANS[dtype] if channel.scale is None else _bits(dtype, float(channel.scale))
    return channel.codes, scale, tuple(_bits(dtype, each) for each in load(storage, channel))
