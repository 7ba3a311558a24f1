"""What a state cache may evict for an operation, which and how many, and when it may say that there is no room."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from poolproof.fuzz.cache_comparison import CacheComparison, Departure
from poolproof.fuzz.cache_oracle import CacheOracle, Key
from poolproof.fuzz.cache_world import World
from poolproof.unified_pool import UnifiedPool


@dataclass(frozen=True)
class Purpose:
    """What an operation may evict for.

    Attributes:
        wanted: pages by sub-pool, of one pool after the other; without any, evicting is what was asked for.
        loading: a key that the operation itself needs.
    """

    wanted: Sequence[tuple[UnifiedPool, dict[str, int]]] = ()
    loading: Key = ()


class Room:
    """Watches what a cache evicts.

    Args:
        world: the cache and its pools.
        oracle: says what goes first, and is told of it.
        comparison: knows nodes by their keys.

    Attributes:
        purpose: of the operation under way; None where nothing may be evicted.
        evicted: how many were evicted since that was set.
    """

    def __init__(self, world: World, oracle: CacheOracle, comparison: CacheComparison) -> None:
        self._world, self._oracle, self._comparison = world, oracle, comparison
        self.purpose: Purpose | None = None
        self.evicted = 0
        self._evict: Callable[[int], None] = world.states.evict
        world.states.evict = self._watched  # type: ignore[method-assign]

    def begin(self, purpose: Purpose | None) -> None:
        """An operation begins."""
        self.purpose, self.evicted = purpose, 0

    def _watched(self, node: int) -> None:
        """A checkpoint is about to be evicted."""
        found = self._world.cache._tree.nodes.get(node)
        key = () if found is None else self._comparison.key_of(found)
        if self.purpose is None:
            raise Departure(f"evicts {list(key)}, for which there is no reason")
        leaves = self._is_for_leaves(self.purpose, key)
        first = next(self._oracle.victims(leaves, self.purpose.loading), None)
        if key != first:
            raise Departure(f"evicts {list(key)}, and {None if first is None else list(first)} comes first")
        self._evict(node)
        self._oracle.evict(key)
        self.evicted += 1

    def _is_for_leaves(self, purpose: Purpose, key: Key) -> bool:
        """Is there a shortage, and one that only leaves help?"""
        if not purpose.wanted:
            return False
        short = self.short(purpose)
        if not short:
            raise Departure(f"evicts {list(key)}, and there is room enough without")
        if not self.evicted and any(not self.may_suffice(*each, purpose.loading) for each in short):
            raise Departure(f"evicts {list(key)}, and the bytes of all that is idle are too few")
        return self._needs_leaves(short[0][0])

    def _needs_leaves(self, pool: UnifiedPool) -> bool:
        return pool is not self._world.states.checkpoints._pool

    @staticmethod
    def short(purpose: Purpose) -> list[tuple[UnifiedPool, dict[str, int]]]:
        """What is wanted and not to be had now."""
        return [(pool, demand) for pool, demand in purpose.wanted if not pool.fits(demand)]

    def may_suffice(self, pool: UnifiedPool, demand: dict[str, int], loading: Key) -> bool:
        """Are the free bytes of a pool and those of everything idle as many as that?"""
        cache, states, idle = self._world.cache, self._world.states, 0
        if cache.kv._pool is pool:
            idle += self._oracle.idle_pages(loading) * cache.kv.layout.page_bytes
        if states.checkpoints._pool is pool:
            idle += len(self._oracle.checkpoints) * states.checkpoints.layout.page_bytes
        stats = pool.stats()
        taken = sum(row.used_bytes + row.pending * row.page_bytes for row in stats.sub_pools)
        need = sum(n * pool[name].layout.page_bytes for name, n in demand.items())
        return idle > 0 and need <= stats.total_bytes - stats.sink_bytes - taken + idle

    def check_refusal(self, purpose: Purpose) -> None:
        """There was no room: either the bytes are too few and nothing went, or all that would help did."""
        short = self.short(purpose)
        if not short:
            raise Departure(f"says that there is no room for {purpose.wanted}, and there is")
        left = next(self._oracle.victims(self._needs_leaves(short[0][0]), purpose.loading), None)
        if left is None:
            return
        if self.evicted or all(self.may_suffice(*each, purpose.loading) for each in short):
            raise Departure(f"says that there is no room for {purpose.wanted}, and {list(left)} could be evicted")
