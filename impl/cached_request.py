"""A request that runs with a prefix cache: what it was given, and how far it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from poolproof.holds import Handle
from poolproof.pool_state import unwritable

if TYPE_CHECKING:
    from poolproof.checkpoint_owners import Lock
    from poolproof.radix_tree import Node, Pages, Tokens
    from poolproof.state_cache import StateCache


class CachedRequest(Handle):
    """A request, as `StateCache.admit` returns it. It is for looking at; `StateCache` has what can be done with it.

    Attributes:
        number: its own, never given to another request of the cache.
        cached: tokens that came out of the cache, a multiple of the page size: their KV is in the first pages, and the
            state began as the one behind them. Without any, the state is that of no tokens, which the first step begins
            from without reading the slot.
        pages: [n], int64, the KV pages in order, which cannot be written: token i lies on page i // page_size. Those
            that `shared` counts belong to the cache, and must not be written on.
        shared: how many of the pages belong to the cache.
        state: the id of its active slot; None once it has ended.
        length: tokens that KV and state have consumed, as `StateCache.computed` was told.
        tracked: tokens that the latest track has consumed; 0 without one.
        tracks: under "extra_buffer" the ids of its two track buffers; otherwise ().
        is_live: until it finishes, is retracted or aborted.
    """

    __slots__ = (
        "_cache",
        "_known",
        "_lock",
        "_node",
        "_pages",
        "cached",
        "is_live",
        "length",
        "number",
        "shared",
        "state",
        "tracked",
        "tracks",
    )

    def __init__(self, cache: StateCache, number: int, known: Tokens, node: Node, pages: Pages) -> None:
        self._cache, self.number = cache, number
        self._known = known
        """The tokens that it is known to have, to compare others with."""
        self._node = node
        """Where its shared pages end; the root without any."""
        self._lock: Lock | None = None
        """Keeps that node, and with it all nodes above; None at the root."""
        self._pages = unwritable(pages)
        self.cached = self.length = node.length
        self.shared = len(pages)
        self.tracked = 0
        self.state: int | None = None
        self.tracks: tuple[int, ...] = ()
        self.is_live = False

    @property
    def pages(self) -> Pages:
        """See the class."""
        return self._pages

    def __repr__(self) -> str:
        live = "" if self.is_live else ", ended"
        return (
            f"CachedRequest({self.number}, cached={self.cached}, length={self.length}, pages={len(self._pages)}, "
            f"shared={self.shared}, state={self.state}{live})"
        )
