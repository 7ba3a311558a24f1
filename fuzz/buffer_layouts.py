"""Small buffers of every kind of sub-pool, drawn at random: bytes are few, so that the spec can follow."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, get_args

from poolproof.sub_pools import Checkpoints, Declaration, Grows, KVPages, LatentPages, Pages, StateSlots, WindowPages

TOTALS: Final = range(24, 49)
"""Bytes of the buffers."""


def kv(name: str, draw: random.Random, grows: Grows) -> Declaration:
    """Keys and values of a few bytes a page, one or more tokens of them."""
    if draw.random() < 0.25:
        return LatentPages(
            name, layers=1, latent_dim=1, rope_dim=1, dtype="uint8", page_size=draw.choice([1, 2]), grows=grows
        )
    return KVPages(
        name,
        layers=draw.choice([1, 1, 2]),
        kv_heads=1,
        head_dim=1,
        v_head_dim=draw.choice([1, 2]),
        dtype=draw.choice(["uint8", "float8_e4m3fn"]),
        page_size=draw.choice([1, 1, 2]),
        grows=grows,
        zero=draw.choice(["on_handout", "on_handout", "never"]),
    )


def other(name: str, draw: random.Random, grows: Grows, window_of: str) -> Declaration:
    """A sub-pool of another kind."""
    kind = draw.choice(["window", "state", "checkpoint", "pages"])
    if kind == "window":
        return WindowPages(
            name,
            ids_of=window_of,
            layers=1,
            kv_heads=1,
            head_dim=1,
            v_head_dim=draw.choice([1, 2]),
            dtype="int8",
            grows=grows,
        )
    if kind == "state":
        shape = (1, 1, draw.choice([1, 2, 3]))
        return StateSlots(
            name,
            layers=1,
            conv_shapes=[(1, 1)],
            temporal_shape=shape,
            conv_dtype="uint8",
            temporal_dtype="uint8",
            grows=grows,
        )
    if kind == "checkpoint":
        return Checkpoints(name, bytes=draw.choice([2, 3, 5]), grows=grows)
    return Pages(name, bytes=draw.choice([2, 3, 4, 6]), grows=grows, zero=draw.choice(["on_handout", "never"]))


def draw_layout(draw: random.Random) -> tuple[int, list[Declaration]]:
    """Bytes of a buffer, and one to four sub-pools that fit it."""
    count = draw.choice([1, 2, 2, 3, 3, 3, 4])
    up, down, between = get_args(Grows)
    places = [up, *[between] * (count - 2), *([down] if count > 1 else [])]
    owner = draw.randrange(count)
    names = ["full" if n == owner else f"s{n}" for n in range(count)]
    made = [
        kv(name, draw, grows) if name == "full" else other(name, draw, grows, "full")
        for name, grows in zip(names, places, strict=True)
    ]
    return draw.choice(TOTALS), made


def scaled(total: int, sub_pools: Sequence[Declaration], scale: int) -> tuple[int, list[Declaration]]:
    """The same with pages that are so many times as large."""
    return total * scale, [_scaled(declaration, scale) for declaration in sub_pools]


def _scaled(declaration: Declaration, scale: int) -> Declaration:
    if isinstance(declaration, KVPages | WindowPages):
        wide = declaration.head_dim * scale
        return replace(declaration, head_dim=wide, v_head_dim=(declaration.v_head_dim or declaration.head_dim) * scale)
    if isinstance(declaration, LatentPages):
        wide = declaration.latent_dim * scale
        return replace(declaration, latent_dim=wide, rope_dim=declaration.rope_dim * scale)
    if isinstance(declaration, StateSlots):
        heads, d_v, d_k = declaration.temporal_shape
        windows = [(channels * scale, width) for channels, width in declaration.conv_shapes]
        return replace(declaration, temporal_shape=(heads, d_v, d_k * scale), conv_shapes=windows)
    assert isinstance(declaration, Checkpoints | Pages)
    assert declaration.bytes is not None
    return replace(declaration, bytes=declaration.bytes * scale)
