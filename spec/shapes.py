"""What lies where inside a page, and how many pages a request needs: plain integer arithmetic over an engine's numbers.

All sizes are bytes unless a name says otherwise. Physical page i of a sub-pool is bytes [i * P, (i + 1) * P) counted
from byte 0 of the one buffer. The *sink* is bytes [0, largest P): page 0 of every sub-pool, where padding rows write;
no page that touches it is handed out. Inside a page the layers follow one another (layer-major), and inside a layer
the tensors do.

Nothing here does I/O or imports anything but the shared arithmetic, so allocator, proofs and command line can share it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from poolproof.spec.arithmetic import ceil_div

ITEM_BYTES: Final = {
    "float32": 4,
    "bfloat16": 2,
    "float16": 2,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "int8": 1,
    "uint8": 1,
}
"""Bytes of one element, by the name of the dtype."""


@dataclass(frozen=True)
class Part:
    """One tensor of one layer inside a page: `rows` rows, one after the other.

    A row is what a kernel addresses at once: the heads of one token, the state of one head, a whole conv window.
    """

    name: str
    offset: int
    rows: int
    row_elements: int
    item_bytes: int

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return self.row_elements * self.item_bytes

    @property
    def end(self) -> int:
        """Bytes from the layer's start to the end of the tensor."""
        return self.offset + self.rows * self.row_bytes


@dataclass(frozen=True)
class PageLayout:
    """One page: `layers` times the same parts, `layer_bytes` apart; the next page starts `page_bytes` further on."""

    layers: int
    layer_bytes: int
    page_bytes: int
    parts: tuple[Part, ...]

    @property
    def layer_used(self) -> int:
        """Bytes that one layer's parts use."""
        return max(part.end for part in self.parts)

    @property
    def used(self) -> int:
        """Bytes from the page's start to the end of its last row."""
        return (self.layers - 1) * self.layer_bytes + self.layer_used

    def row_start(self, page: int, layer: int, part: int, row: int) -> int:
        """The byte of the buffer at which a row starts."""
        tensor = self.parts[part]
        return page * self.page_bytes + layer * self.layer_bytes + tensor.offset + row * tensor.row_bytes


def round_up(amount: int, unit: int) -> int:
    """The least multiple of a unit that is at least the amount."""
    return ceil_div(amount, unit) * unit


def packed(layers: int, tensors: Sequence[tuple[str, int, int, int]], unit: int = 1) -> PageLayout:
    """Layers of tensors (name, rows, elements a row, bytes an element), one after the other.

    Every tensor and every layer starts at a multiple of `unit` and of the largest element.
    """
    step = max(item for _, _, _, item in tensors)
    step = round_up(unit, step) if unit > 1 else step
    parts: list[Part] = []
    for name, rows, elements, item in tensors:
        parts.append(Part(name, round_up(parts[-1].end, step) if parts else 0, rows, elements, item))
    layer_bytes = round_up(parts[-1].end, step)
    return PageLayout(layers, layer_bytes, layers * layer_bytes, tuple(parts))


def kv_layout(
    layers: int, kv_heads: int, head_dim: int, v_head_dim: int, item_bytes: int, page_size: int, unit: int = 1
) -> PageLayout:
    """A page of `page_size` tokens of keys and values.

    Bytes a page, unpadded: layers * page_size * kv_heads * (head_dim + v_head_dim) * item_bytes.
    """
    tensors = [
        ("k", page_size, kv_heads * head_dim, item_bytes),
        ("v", page_size, kv_heads * v_head_dim, item_bytes),
    ]
    return packed(layers, tensors, unit)


def latent_layout(
    layers: int, latent_dim: int, rope_dim: int, item_bytes: int, page_size: int, unit: int = 1
) -> PageLayout:
    """A page of latent attention (MLA): one row a token holds the compressed latent and the shared rotary key.

    Bytes a page, unpadded: layers * page_size * (latent_dim + rope_dim) * item_bytes.
    """
    return packed(layers, [("latent", page_size, latent_dim + rope_dim, item_bytes)], unit)


def state_layout(
    layers: int,
    conv_shapes: Sequence[tuple[int, ...]],
    temporal_shape: tuple[int, int, int],
    conv_item: int,
    temporal_item: int,
    unit: int = 1,
) -> PageLayout:
    """A state slot: each linear layer's temporal state [H, d_v, d_k], then its conv windows (channels, kernel - 1).

    Bytes a slot, unpadded: layers * (H * d_v * d_k * temporal_item + sum of channels * (kernel - 1) * conv_item).
    """
    heads, d_v, d_k = temporal_shape
    return packed(layers, [("temporal", heads, d_v * d_k, temporal_item), *_windows(conv_shapes, conv_item)], unit)


def checkpoint_layout(
    layers: int,
    conv_shapes: Sequence[tuple[int, ...]],
    temporal_shape: tuple[int, int, int],
    conv_item: int,
    scale_item: int,
    unit: int = 1,
) -> PageLayout:
    """A checkpoint slot: int8 temporal state, a scale per (layer, head, k-channel), conv windows at their own dtype.

    Bytes a slot, unpadded: layers * (H * d_v * d_k + H * d_k * scale_item + conv windows as in a state slot).
    """
    heads, d_v, d_k = temporal_shape
    tensors = [("temporal", heads, d_v * d_k, 1), ("scale", heads, d_k, scale_item)]
    return packed(layers, [*tensors, *_windows(conv_shapes, conv_item)], unit)


def opaque_layout(page_bytes: int) -> PageLayout:
    """Pages of which only the size is known: one row."""
    return PageLayout(1, page_bytes, page_bytes, (Part("bytes", 0, 1, page_bytes, 1),))


def _windows(shapes: Sequence[tuple[int, ...]], item: int) -> list[tuple[str, int, int, int]]:
    return [(f"conv{number}", 1, prod(shape), item) for number, shape in enumerate(shapes)]


def with_strides(layout: PageLayout, layer_bytes: int | None = None, page_bytes: int | None = None) -> PageLayout:
    """The layout with the strides that an engine states; whether the rows then fit is for a proof to say."""
    layer = layout.layer_bytes if layer_bytes is None else layer_bytes
    page = layout.layers * layer if page_bytes is None else page_bytes
    return replace(layout, layer_bytes=layer, page_bytes=page)


@dataclass(frozen=True)
class Index:
    """The integer with which a kernel addresses a sub-pool.

    Attributes:
        bits, signed: its type.
        unit: "elements" of the tensor's dtype, or "bytes".
        base: counted from the first byte of the "buffer", or of the layer's "view".
    """

    bits: int
    signed: bool
    unit: str
    base: str = "buffer"

    @property
    def limit(self) -> int:
        """The largest index that does not wrap."""
        return int(2 ** (self.bits - self.signed)) - 1

    def wrapped(self, index: int) -> int:
        """What the integer type makes of an index."""
        low = -(self.limit + 1) if self.signed else 0
        return (index - low) % int(2**self.bits) + low

    def scale(self, layout: PageLayout, part: int) -> int:
        """Bytes that one step of the index stands for."""
        return 1 if self.unit == "bytes" else layout.parts[part].item_bytes

    def reach(self, layout: PageLayout, part: int) -> int:
        """Bytes from the start of a page to the farthest place that is indexed in this part of it."""
        tensor = layout.parts[part]
        layer = 0 if self.base == "view" else layout.row_start(0, layout.layers - 1, part, 0)
        return layer + tensor.rows * tensor.row_bytes - self.scale(layout, part)

    def largest(self, layout: PageLayout, page: int, part: int) -> int:
        """The largest index with which this part of a page is addressed."""
        return (page * layout.page_bytes + self.reach(layout, part)) // self.scale(layout, part)

    def first_bad_page(self, layout: PageLayout) -> int:
        """The least page id at which some index wraps; every later page has one too."""
        over = [
            (self.limit + 1) * self.scale(layout, part) - self.reach(layout, part) for part in range(len(layout.parts))
        ]
        return ceil_div(max(0, min(over)), layout.page_bytes)


@dataclass(frozen=True)
class SubPool:
    """One sub-pool of the buffer.

    Attributes:
        name, kind: kinds are "kv", "mla", "window", "state", "checkpoint" and "pages".
        grows: "up", "down" or "float".
        layout: what lies in one page or slot.
        index: how kernels address it.
        page_size: tokens a page; 0 where pages do not hold tokens.
        window: tokens of a sliding window; 0 without one.
        ids_of: the sub-pool whose ids a window binds pages for.
        per_request: slots that one request needs at once, where pages do not hold tokens.
    """

    name: str
    kind: str
    grows: str
    layout: PageLayout
    index: Index
    page_size: int = 0
    window: int = 0
    ids_of: str = ""
    per_request: int = 0

    @property
    def page_bytes(self) -> int:
        """Bytes from one page to the next."""
        return self.layout.page_bytes

    def pages_for(self, tokens: int, step_tokens: int) -> int:
        """Pages or slots that one request of so many tokens holds at its peak."""
        if not self.page_size:
            return self.per_request
        whole = ceil_div(tokens, self.page_size)
        return min(whole, self.window_pages(step_tokens)) if self.window else whole

    def window_pages(self, step_tokens: int) -> int:
        """Pages that a window can touch during a step: those of its tokens before the step and of the step's own.

        The tokens may start anywhere in a page, so n of them touch up to ceil((n - 1) / page_size) + 1 pages.
        """
        return ceil_div(self.window + step_tokens - 1, self.page_size) + 1


@dataclass(frozen=True)
class Buffer:
    """One engine: the buffer, its sub-pools in chain order (up, floats, down), and the requests it must serve.

    Attributes:
        alignment: bytes that every page and row must start at a multiple of.
        max_context: tokens of the longest request.
        step_tokens: tokens that one step adds to a request at most (the prefill chunk).
        max_requests: requests that run at once at most.
    """

    name: str
    total_bytes: int
    alignment: int
    max_context: int
    step_tokens: int
    max_requests: int
    sub_pools: tuple[SubPool, ...]

    @property
    def sink_bytes(self) -> int:
        """The size of the shared sink: the largest page."""
        return max(sub_pool.page_bytes for sub_pool in self.sub_pools)

    def pages(self, sub_pool: SubPool) -> int:
        """How many whole pages the buffer has for a sub-pool, those of the sink included."""
        return self.total_bytes // sub_pool.page_bytes

    def first_page(self, sub_pool: SubPool) -> int:
        """The least page id that may be handed out: the first page above the sink."""
        return ceil_div(self.sink_bytes, sub_pool.page_bytes)

    def demand(self, tokens: int) -> tuple[int, ...]:
        """Pages of each sub-pool that one request of so many tokens holds at its peak, its checkpoints included."""
        return tuple(sub_pool.pages_for(tokens, self.step_tokens) for sub_pool in self.sub_pools)

    def starting_demand(self, requests: int) -> tuple[int, ...]:
        """Pages of each sub-pool that so many requests of one token hold; none of them has a checkpoint yet."""
        return tuple(
            0 if sub_pool.kind == "checkpoint" else requests * sub_pool.pages_for(1, self.step_tokens)
            for sub_pool in self.sub_pools
        )

    def smallest_total(self, demand: Sequence[int]) -> int:
        """The least number of bytes whose sub-pools can hold this demand side by side above the sink."""
        at = self.sink_bytes
        for sub_pool, pages in zip(self.sub_pools, demand, strict=True):
            at = (ceil_div(at, sub_pool.page_bytes) + pages) * sub_pool.page_bytes
        return at
