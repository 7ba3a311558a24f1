"""What a state cache can give up, and in which order: checkpoints, the least recently used first, and the KV with them.

Evicting a node frees its checkpoint. A leaf without one can never be hit, so its pages go too, and then upwards those
of every node that has become such a leaf, up to what a request keeps. Where the bytes are shared, either kind serves a
shortage of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from poolproof.radix_tree import Node, RadixTree

if TYPE_CHECKING:
    from poolproof.cache_reports import Tally
    from poolproof.checkpoint_owners import Donation
    from poolproof.checkpoint_pool import CheckpointPool
    from poolproof.sub_pool import SubPool
    from poolproof.unified_pool import UnifiedPool

Wanted: TypeAlias = Sequence[tuple["UnifiedPool", Mapping[str, int]]]
"""Pages by sub-pool, of several pools."""

Entry: TypeAlias = tuple[int, int]
"""A stamp and the number of the node that had it: it is stale where the node has another one now, or is gone."""

_FEW: Final = 64


class CacheStock:
    """The nodes of a tree with the pages and checkpoints that belong to them.

    A node's stamp is that of its last use, and not 0 exactly while it has a checkpoint. Stamps are distinct, so that
    the order of eviction, by stamp and number, is total and the same on every rank.

    Args:
        tree: the nodes, whose pages are ids of `kv`.
        kv: the sub-pool of the pages.
        states: the pool of the checkpoints, which knows every node by its number.
        tally: counts evictions.

    Attributes:
        checkpoints: nodes with a checkpoint.
        clock: the last stamp that was given.
    """

    def __init__(self, tree: RadixTree, kv: SubPool, states: CheckpointPool, tally: Tally) -> None:
        self._tree, self._kv, self._states, self._tally = tree, kv, states, tally
        self.checkpoints = self.clock = 0
        self._oldest: list[Entry] = []
        """A heap: among others an entry of each node with a checkpoint."""
        self._oldest_leaves: list[Entry] = []
        """A heap: among others an entry of each leaf with a checkpoint."""

    def publish(self, donation: Donation, node: Node) -> None:
        """A donation becomes the checkpoint of a node that has none."""
        donation.publish(node.number)
        self.checkpoints += 1
        self.touch(node)

    def touch(self, node: Node) -> None:
        """A node with a checkpoint was used just now."""
        self.clock += 1
        node.stamp = self.clock
        self._list(self._oldest, node)
        if node.is_leaf:
            self._list(self._oldest_leaves, node)

    def prune(self, node: Node) -> None:
        """Remove a node if it is of no use any more, and then upwards every such node.

        That is one without a checkpoint that no request keeps, and that has no two nodes below it to tell apart: a leaf
        goes with its pages, and one between two becomes a part of the lower one.
        """
        freed = []
        while node.parent is not None and not node.stamp and len(node.children) < 2 and not self._is_locked(node):
            parent = node.parent
            self._states.remove_node(node.number)
            if node.children:
                self._tree.merge(node)
                break
            freed.append(self._tree.remove(node))
            node = parent
        if not freed:
            return
        pages = np.concatenate(freed)
        self._kv.free(pages)
        self._tally.evicted_pages += len(pages)
        if node.stamp and node.is_leaf:
            self._list(self._oldest_leaves, node)

    def evict(self, nodes: int) -> int:
        """Evict the least recently used checkpoints.

        Args:
            nodes: how many.

        Returns:
            How many were evicted: fewer where all others are locked.
        """
        before = self._tally.evictions
        self._evict_until(lambda: self._tally.evictions == before + nodes, leaves=False)
        return self._tally.evictions - before

    def make_room(self, wanted: Wanted) -> bool:
        """Evict until the pages can be had, in every pool those of its demand together.

        Only what helps a pool is evicted for it: any checkpoint where it holds the checkpoints, and leaves where it
        holds the KV alone. Nothing is evicted where the bytes of all that is idle would be too few.

        Returns:
            Whether they can be had now. If not, nothing was evicted, or all that would help.
        """
        short = [(pool, demand) for pool, demand in wanted if not pool.fits(demand)]
        if not all(self._may_suffice(pool, demand) for pool, demand in short):
            return False
        return all(self._make_room_in(pool, demand) for pool, demand in short)

    def _make_room_in(self, pool: UnifiedPool, demand: Mapping[str, int]) -> bool:
        return self._evict_until(lambda: pool.fits(demand), leaves=self._states.checkpoints._pool is not pool)

    def _may_suffice(self, pool: UnifiedPool, demand: Mapping[str, int]) -> bool:
        """Has the pool as many bytes, with those of everything idle? Their places are left out of account."""
        idle = 0
        for sub_pool, pages in ((self._kv, self._tree.idle_pages), (self._states.checkpoints, self.checkpoints)):
            idle += pages * sub_pool.layout.page_bytes if sub_pool._pool is pool else 0
        if not idle:
            return False
        stats = pool.stats()
        taken = sum(each.used_bytes + each.pending * each.page_bytes for each in stats.sub_pools)
        need = sum(n * pool[name].layout.page_bytes for name, n in demand.items())
        return need <= stats.total_bytes - stats.sink_bytes - taken + idle

    def _evict_until(self, is_enough: Callable[[], bool], leaves: bool) -> bool:
        """Evict the oldest first, any checkpoint or only leaves that nobody keeps, until it is enough. Is it?"""
        heap, aside = self._oldest_leaves if leaves else self._oldest, list[Entry]()
        found = is_enough()
        try:
            while heap and not found:
                entry = heappop(heap)
                victim = self._tree.nodes.get(entry[1])
                if victim is None or victim.stamp != entry[0] or (leaves and not victim.is_leaf):
                    continue
                aside.append(entry)
                if not self._is_locked(victim, with_pages=leaves):
                    self._evict(victim)
                    aside.pop()
                    found = is_enough()
        finally:
            for entry in aside:
                heappush(heap, entry)
        return found

    def _evict(self, node: Node) -> None:
        self._states.evict(node.number)
        node.stamp = 0
        self.checkpoints -= 1
        self._tally.evictions += 1
        self.prune(node)

    def _is_locked(self, node: Node, with_pages: bool = True) -> bool:
        """Does a request keep this very node, or its checkpoint? Whoever keeps one below it has no lock here."""
        pins = self._states.pins
        return pins(node.number, "state") > 0 or (with_pages and pins(node.number, "pages") > 0)

    def _list(self, heap: list[Entry], node: Node) -> None:
        """Enter a node into a heap; stale entries are thrown out when they are the most."""
        heappush(heap, (node.stamp, node.number))
        if len(heap) > _FEW + 2 * len(self._tree.nodes):
            leaves = heap is self._oldest_leaves
            listed = [each for each in self._tree.nodes.values() if each.stamp and (each.is_leaf or not leaves)]
            heap[:] = [(each.stamp, each.number) for each in listed]
            heapify(heap)
