"""A prefix cache over a slot pool: one cached block a slot, pinned while requests use it, evicted in LRU order."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence


class PrefixCache:
    """Which slot holds which block, and which block is to go first.

    The order of eviction is total: by last use, and among the blocks of one request the deepest first, so that no
    block outlives the prefix that it needs.
    """

    def __init__(self) -> None:
        self._slots: dict[int, int] = {}
        self._pins: dict[int, int] = {}
        self._idle: OrderedDict[int, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, block: int) -> bool:
        return block in self._slots

    @property
    def evictable(self) -> int:
        """How many blocks nobody has pinned."""
        return len(self._idle)

    def longest_prefix(self, blocks: Sequence[int]) -> int:
        """How many of these blocks, from the first, are cached without a gap."""
        return next((i for i, block in enumerate(blocks) if block not in self._slots), len(blocks))

    def pin(self, blocks: Sequence[int]) -> None:
        """A request uses these cached blocks: none is evicted before its `unpin`."""
        for block in blocks:
            self._pins[block] = self._pins.get(block, 0) + 1
            self._idle.pop(block, None)

    def unpin(self, blocks: Sequence[int]) -> None:
        """The request is over. The blocks are in the order of the prompt."""
        for block in reversed(blocks):
            left = self._pins[block] - 1
            if left:
                self._pins[block] = left
            else:
                del self._pins[block]
                self._idle[block] = None

    def touch(self, blocks: Sequence[int]) -> None:
        """These cached blocks were used just now. They are in the order of the prompt."""
        for block in reversed(blocks):
            if block in self._idle:
                self._idle.move_to_end(block)

    def insert(self, blocks: Sequence[int], slots: Sequence[int]) -> None:
        """Cache these blocks, none of which is cached, in these slots. They are in the order of the prompt."""
        for block, slot in zip(reversed(blocks), reversed(slots), strict=True):
            self._slots[block] = slot
            self._idle[block] = None

    def evict(self, n: int) -> list[int]:
        """Forget the n blocks that were used longest ago; their slots. There must be as many that nobody has pinned."""
        return [self._slots.pop(self._idle.popitem(last=False)[0]) for _ in range(n)]
