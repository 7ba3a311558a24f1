"""What a replay's pool is made of: the sub-pools of a named model, at their full size or with pages of a few bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from poolproof.errors import LayoutError
from poolproof.fuzz.errors import SettingError
from poolproof.fuzz.mooncake import BLOCK_TOKENS
from poolproof.model_pools import sub_pools_for
from poolproof.spec.arithmetic import ceil_div
from poolproof.spec.models import ModelError, model_named
from poolproof.sub_pools import Checkpoints, Declaration, KVPages, Resolved, StateSlots, WindowPages, resolve

SMALL_TOKENS: Final = 512
"""Tokens of the trace that one token of a small shape stands for: a block is one page."""


@dataclass(frozen=True)
class Shape:
    """The pool of a replay.

    Attributes:
        sub_pools: "full", and "window", "checkpoint", "state" where the model has them.
        scale: tokens of the trace that one token of the pool stands for.
        page_size: tokens of the pool a page.
        window: tokens of the pool that a sliding window reaches back; 0 without one.
        has_states: whether a sequence has a recurrent state.
    """

    sub_pools: tuple[Declaration, ...]
    scale: int
    page_size: int
    window: int
    has_states: bool

    @property
    def block_pages(self) -> int:
        """Pages of a block of the trace."""
        return BLOCK_TOKENS // self.scale // self.page_size

    @property
    def window_pages(self) -> int:
        """Pages that a sliding window reaches back, from the end of a page."""
        return ceil_div(self.window, self.page_size)

    def tokens(self, tokens: int) -> int:
        """Tokens of the trace as tokens of the pool."""
        return ceil_div(tokens, self.scale)


def full_shape(model: str, tp: int = 1, page_size: int = 16) -> Shape:
    """The sub-pools of one rank as they are, checkpoints among them where the model has states.

    Raises:
        LayoutError: the model is not shipped, or cannot be split so.
        SettingError: pages do not divide a block.
    """
    window, has_states = _traits(model)
    if page_size < 1 or BLOCK_TOKENS % page_size:
        raise SettingError(f"pages of {page_size} tokens do not divide a block of {BLOCK_TOKENS}; choose a divisor")
    sub_pools = sub_pools_for(model, tp=tp, page_size=page_size, checkpoints=has_states)
    return Shape(tuple(sub_pools), 1, page_size, window, has_states)


def small_shape(model: str, tp: int = 1) -> Shape:
    """The same chain with pages of a few bytes, in nearly the same proportion, and one page for every 512 tokens.

    Raises:
        LayoutError: the model is not shipped, or cannot be split so.
    """
    window, has_states = _traits(model)
    layouts = resolve(sub_pools_for(model, tp=tp, page_size=SMALL_TOKENS, checkpoints=has_states))
    unit = min(layout.page_bytes for layout in layouts if layout.kind in ("kv", "mla", "window"))
    small = tuple(_small(layout, unit) for layout in layouts)
    return Shape(small, SMALL_TOKENS, 1, ceil_div(window, SMALL_TOKENS), has_states)


def _traits(model: str) -> tuple[int, bool]:
    """The tokens of the sliding window, and whether there are recurrent states."""
    try:
        found = model_named(model)
    except ModelError as problem:
        raise LayoutError(str(problem)) from None
    return (found.window if found.count("W") else 0), found.count("LB") > 0


def _small(layout: Resolved, unit: int) -> Declaration:
    """A sub-pool of the same kind and place whose pages take two bytes for each `unit`."""
    name, grows, size = layout.name, layout.grows, max(1, round(2 * layout.page_bytes / unit))
    layers = max(1, round(layout.page_bytes / unit))
    if layout.kind == "state":
        shape = (1, 1, size)
        return StateSlots(
            name,
            layers=1,
            conv_shapes=[],
            temporal_shape=shape,
            conv_dtype="uint8",
            temporal_dtype="uint8",
            grows=grows,
        )
    if layout.kind == "checkpoint":
        return Checkpoints(name, bytes=size, grows=grows)
    if layout.kind == "window":
        return WindowPages(name, layers=layers, kv_heads=1, head_dim=1, dtype="uint8", grows=grows)
    return KVPages(name, layers=layers, kv_heads=1, head_dim=1, dtype="uint8", grows=grows)
