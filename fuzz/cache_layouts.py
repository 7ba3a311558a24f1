"""What a state cache under test stands on, drawn at random: small pools, one to three of them, and what is in them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, get_args

from poolproof.fuzz.cache_streams import KINDS
from poolproof.state_cache import STRATEGIES, Strategy
from poolproof.sub_pools import (
    Checkpoints,
    Codec,
    Declaration,
    Grows,
    KVPages,
    LatentPages,
    Pages,
    StateSlots,
    Zero,
    resolve,
)

Buffer: TypeAlias = tuple[int, tuple[Declaration, ...]]
"""Bytes, and the sub-pools."""

ARRANGEMENTS: Final = ("one", "one", "kv apart", "checkpoints apart", "three")
"""Which sub-pools share their bytes; checkpoints that are apart are a pool that `CheckpointPool.beside` makes."""

DTYPES: Final = ("bfloat16", "float16", "float32")
ALPHABETS: Final = ((0, 1), (0, 1), (5, 6, 7), (0, 2**62), tuple(range(40)))
"""Token ids. Few of them, so that prefixes are shared and part."""


@dataclass(frozen=True)
class CacheLayout:
    """All that is drawn of a cache and the pools under it.

    Attributes:
        arrangement: one of ARRANGEMENTS.
        buffers: of the pools; the first one has the KV pages.
        kv: the name of the sub-pool of KV pages.
        slots: of the pool of checkpoints that is made beside the states; 0 where they are in one of the buffers.
        states: the declaration of the states.
        codec: of the checkpoints.
        strategy: of the cache.
        alphabet: token ids.
        order: the kind of device, see `poolproof.fuzz.cache_streams`.
        is_shadowed: whether the specs of the buffers run in lockstep too.
    """

    arrangement: str
    buffers: tuple[Buffer, ...]
    kv: str
    slots: int
    states: StateSlots
    codec: Codec
    strategy: Strategy
    alphabet: tuple[int, ...]
    order: str
    is_shadowed: bool

    @property
    def page_size(self) -> int:
        """Tokens a page."""
        return next(one.page_size for one in resolve(self.buffers[0][1]) if one.name == self.kv)


def draw_cache_layout(draw: random.Random) -> CacheLayout:
    """A layout in which room is short."""
    arrangement, strategy = draw.choice(ARRANGEMENTS), draw.choice(STRATEGIES)
    kv, states = _kv(draw), _states(draw)
    codec: Codec = draw.choice(["int8", "int8", "int8", "none"])
    checkpoints = Checkpoints("checkpoint", of="state", codec=codec)
    groups: dict[str, list[Declaration]] = {
        "one": [kv, states, checkpoints],
        "kv apart": [kv],
        "checkpoints apart": [kv, states],
        "three": [kv],
    }
    first = groups[arrangement]
    if draw.random() < 0.3:
        first.append(Pages("other", bytes=draw.choice([8, 24, 40]), grows="float"))
    apart: dict[str, list[Declaration]] = {"kv apart": [states, checkpoints], "three": [states]}
    second = apart.get(arrangement, [])
    counts = {
        kv.name: draw.choice([draw.randint(8, 20), draw.randint(20, 48)]),
        "state": draw.randint(2, 6) if strategy == "no_buffer" else draw.randint(4, 12),
        "checkpoint": draw.randint(1, 6),
        "other": 2,
    }
    return CacheLayout(
        arrangement,
        tuple(_buffer(draw, group, counts) for group in (first, second) if group),
        kv.name,
        0 if arrangement in ("one", "kv apart") else counts["checkpoint"],
        states,
        codec,
        strategy,
        draw.choice(ALPHABETS),
        draw.choice(KINDS),
        draw.random() < 0.3,
    )


def _kv(draw: random.Random) -> Declaration:
    """Pages of tokens, of one of the kinds that a cache takes."""
    name, size = draw.choice(["full", "full", "kv"]), draw.choice([1, 2, 2, 3, 4])
    kind = draw.choice(["kv", "kv", "mla", "pages"])
    zero: Zero = draw.choice(["on_handout", "never"])
    if kind == "pages":
        return Pages(name, bytes=draw.choice([4, 8, 12]) * size, page_size=size, grows="up", zero=zero)
    if kind == "mla":
        dim = draw.choice([3, 6])
        return LatentPages(name, layers=1, latent_dim=dim, rope_dim=1, dtype="bfloat16", page_size=size, zero=zero)
    layers, dtype = draw.choice([1, 2]), draw.choice(["float8_e4m3fn", "bfloat16"])
    return KVPages(name, layers=layers, kv_heads=1, head_dim=2, dtype=dtype, page_size=size, zero=zero)


def _states(draw: random.Random) -> StateSlots:
    """States of a few numbers: the codec is followed on fractions."""
    windows = [(draw.choice([1, 3]), draw.choice([1, 2])) for _ in range(draw.choice([0, 1, 1, 2]))]
    return StateSlots(
        "state",
        layers=draw.choice([1, 1, 1, 2, 2, 0]),
        conv_shapes=windows,
        temporal_shape=(draw.choice([1, 1, 2]), draw.choice([1, 2, 3]), draw.choice([1, 2])),
        conv_dtype=draw.choice(DTYPES),
        temporal_dtype=draw.choice(DTYPES),
        zero=draw.choice(["never", "never", "on_handout"]),
    )


def _buffer(draw: random.Random, group: Sequence[Declaration], counts: dict[str, int]) -> Buffer:
    """Sub-pools in any order of the chain, and bytes for about so many pages of each."""
    order = draw.sample(list(group), len(group))
    up, down, between = get_args(Grows)
    places = [up, *[between] * (len(order) - 2), *([down] if len(order) > 1 else [])]
    placed = tuple(replace(one, grows=grows) for one, grows in zip(order, places, strict=True))
    sizes = {one.name: one.page_bytes for one in resolve(placed)}
    pages = sum(size * counts[name] for name, size in sizes.items())
    return 2 * max(sizes.values()) + pages + draw.randrange(8), placed
