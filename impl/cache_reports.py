"""What a state cache tells about itself, in figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from poolproof.state_cache import StateCache


class Match(NamedTuple):
    """What the cache has of some tokens.

    Attributes:
        length: tokens that can be restored, KV and state; 0 for none.
        node: the number of the node whose checkpoint it is; None for none.
    """

    length: int
    node: int | None


@dataclass
class Tally:
    """Counts since the cache was made; they only grow.

    Attributes:
        hits, misses: requests that were admitted with some tokens from the cache, and without any.
        hit_tokens: tokens that came out of the cache.
        requested_tokens: tokens that requests were admitted with.
        kept: prefixes that were given a checkpoint.
        deduplicated: prefixes that had one already, so that nothing was stored.
        duplicate_pages: KV pages that requests gave back because the cache had them already.
        skipped: prefixes that were not kept: no checkpoint slot was to be had, or the state had nothing new.
        splits: nodes that were cut in two.
        evictions: checkpoints that were evicted.
        evicted_pages: KV pages that went with them.
        refused: admissions that found no slot.
    """

    hits: int = 0
    misses: int = 0
    hit_tokens: int = 0
    requested_tokens: int = 0
    kept: int = 0
    deduplicated: int = 0
    duplicate_pages: int = 0
    skipped: int = 0
    splits: int = 0
    evictions: int = 0
    evicted_pages: int = 0
    refused: int = 0


@dataclass(frozen=True)
class CacheStats:
    """A state cache in figures.

    Attributes:
        nodes: nodes of the tree.
        tokens: tokens of the tree, each prefix counted once.
        pages: KV pages of the tree.
        idle_pages: of them, those that no live request keeps.
        checkpoints: nodes with a checkpoint.
        locked: nodes that live requests keep.
        requests: live requests.
        request_pages: KV pages that belong to them and not to the tree.
        hits, misses, hit_tokens, requested_tokens, kept, deduplicated, duplicate_pages, skipped, splits, evictions,
            evicted_pages, refused: see `Tally`.
    """

    nodes: int
    tokens: int
    pages: int
    idle_pages: int
    checkpoints: int
    locked: int
    requests: int
    request_pages: int
    hits: int
    misses: int
    hit_tokens: int
    requested_tokens: int
    kept: int
    deduplicated: int
    duplicate_pages: int
    skipped: int
    splits: int
    evictions: int
    evicted_pages: int
    refused: int

    @property
    def hit_rate(self) -> float:
        """The share of the requested tokens that came out of the cache; 0 where none were requested."""
        return self.hit_tokens / self.requested_tokens if self.requested_tokens else 0.0


def cache_stats(cache: StateCache) -> CacheStats:
    """The cache in figures; its time depends on the number of live requests alone."""
    tree = cache._tree
    return CacheStats(
        nodes=len(tree.nodes),
        tokens=tree.pages * tree.page_size,
        pages=tree.pages,
        idle_pages=tree.idle_pages,
        checkpoints=cache._stock.checkpoints,
        locked=tree.pinned,
        requests=len(cache._requests),
        request_pages=sum(len(each.pages) - each.shared for each in cache._requests.values()),
        **vars(cache._tally),
    )
