"""A prefix cache over the pages of a unified pool: which block lies in which pages, and which is to go first.

It counts references; the pool does not. A block can be resumed from if the cache keeps a checkpoint of the recurrent
state at its end, and, where windows slide, the window's pages up to there.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from poolproof.fuzz.model_shape import Shape

Pages = NDArray[np.int64]
NO_SLOT: Final = 0


@dataclass(slots=True, eq=False)
class Block:
    """A cached block.

    Attributes:
        pages: [block_pages], its ids.
        windowed: how many of them, from the last one back, have a page of the window.
        checkpoint: the slot of the state at its end, NO_SLOT without one.
        pins: running requests that use it.
    """

    pages: Pages
    windowed: int
    checkpoint: int = NO_SLOT
    pins: int = 0


class BlockCache:
    """Cached blocks by their number in the trace, which names a block with all that precedes it.

    The order of eviction is total: by last use, and among the blocks of one request the deepest first, so that no
    block outlives the prefix that it needs.

    Attributes:
        idle_pages: by sub-pool, the pages of blocks that nobody has pinned.
    """

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._blocks: dict[int, Block] = {}
        self._idle: OrderedDict[int, Block] = OrderedDict()
        self.idle_pages = {"full": 0, "window": 0, "checkpoint": 0}

    def __len__(self) -> int:
        return len(self._blocks)

    @property
    def evictable(self) -> int:
        """How many blocks nobody has pinned."""
        return len(self._idle)

    def get(self, block: int) -> Block | None:
        """The cached block of this number."""
        return self._blocks.get(block)

    def deepest(self, blocks: Sequence[int]) -> int:
        """How many of these blocks, from the first, can be taken over, and the request go on behind them."""
        found: list[Block] = []
        for block in blocks:
            cached = self._blocks.get(block)
            if cached is None:
                break
            found.append(cached)
        return next((n for n in range(len(found), 0, -1) if self._can_resume(found, n)), 0)

    def _can_resume(self, found: list[Block], depth: int) -> bool:
        if self._shape.has_states and found[depth - 1].checkpoint == NO_SLOT:
            return False
        left, size = self._shape.window_pages, self._shape.block_pages
        for cached in reversed(found[:depth]):
            if left <= 0:
                return True
            if cached.windowed < min(left, size):
                return False
            left -= size
        return True

    def pin(self, blocks: Sequence[int]) -> list[Block]:
        """A request uses these cached blocks: none is evicted before its `unpin`. The blocks."""
        pinned = [self._blocks[block] for block in blocks]
        for block, cached in zip(blocks, pinned, strict=True):
            if not cached.pins:
                del self._idle[block]
                self._count(cached, -1)
            cached.pins += 1
        return pinned

    def unpin(self, blocks: Sequence[int]) -> None:
        """The request is over. The blocks are in the order of the prompt."""
        for block in reversed(blocks):
            cached = self._blocks[block]
            cached.pins -= 1
            if not cached.pins:
                self._idle[block] = cached
                self._count(cached, 1)

    def insert(self, block: int, cached: Block) -> None:
        """Cache a block that is not cached, pinned once."""
        cached.pins = 1
        self._blocks[block] = cached

    def evict(self, n: int) -> list[Block]:
        """Forget the n blocks that were used longest ago, or as many as nobody has pinned; they are the caller's."""
        gone = []
        for _ in range(min(n, len(self._idle))):
            block, cached = self._idle.popitem(last=False)
            del self._blocks[block]
            self._count(cached, -1)
            gone.append(cached)
        return gone

    def _count(self, cached: Block, sign: int) -> None:
        self.idle_pages["full"] += sign * len(cached.pages)
        self.idle_pages["window"] += sign * cached.windowed
        self.idle_pages["checkpoint"] += sign * (cached.checkpoint != NO_SLOT)
