"""Who else uses the pools below a cache: leases, gates, groups of frees, pages of others, and compactions."""

from __future__ import annotations

import random
from collections.abc import Sequence

from poolproof.errors import GroupError
from poolproof.fuzz.cache_memory import Data
from poolproof.fuzz.cache_world import LEASES, World
from poolproof.fuzz.memory import WrongBytes
from poolproof.holds import FreeGroup, Gate, Lease
from poolproof.page_errors import LeaseError
from poolproof.sub_pool import SubPool
from poolproof.unified_pool import UnifiedPool

OTHER = "other"
"""The sub-pool of pages that are nobody's in the cache."""


class Outsiders:
    """What is held in the pools of a world, and not by its cache.

    Args:
        world: the pools.
        draw: where choices come from.

    Attributes:
        others: ids of pages that are not the cache's.
    """

    def __init__(self, world: World, draw: random.Random) -> None:
        self._world, self._draw = world, draw
        self._leases: list[tuple[Lease, UnifiedPool, list[Data]]] = []
        self._gates: list[tuple[Gate, UnifiedPool]] = []
        self._groups: list[tuple[FreeGroup, UnifiedPool]] = []
        self.others: list[int] = []

    def _held(self, pool: UnifiedPool) -> int:
        """Leases and gates of a pool."""
        return sum(other is pool for _, other, _ in self._leases) + sum(other is pool for _, other in self._gates)

    @property
    def is_busy(self) -> bool:
        """Is anything held that a pool cannot be cleared under?"""
        return bool(self._leases or self._gates or self._groups)

    # ------------------------------------------------------------------------------------------------------- leases

    def lease(self, sub_pool: SubPool, ids: Sequence[int]) -> str | None:
        """Lease pages that nobody writes any more. What they hold they hold until the release, whatever is freed."""
        pool = sub_pool._pool
        if not ids or self._held(pool) >= LEASES - 1:
            return None
        try:
            lease = pool.lease(sub_pool.name, ids, "fuzz")
        except LeaseError:
            return "refused"
        self._world.streams.drain()
        pages = [self._world.memory.read(pool, sub_pool.name, page) for page in lease.physical.tolist()]
        self._leases.append((lease, pool, pages))
        return "done"

    def release(self) -> str | None:
        """One lease ends; its pages must hold what they held."""
        if not self._leases:
            return None
        lease, pool, pages = self._leases.pop(self._draw.randrange(len(self._leases)))
        self._check(lease, pool, pages)
        lease.release()
        return "done"

    def check(self) -> None:
        """All leased pages hold what they held. The device was drained."""
        for held in self._leases:
            self._check(*held)

    def _check(self, lease: Lease, pool: UnifiedPool, pages: list[Data]) -> None:
        self._world.streams.drain()
        for page, held in zip(lease.physical.tolist(), pages, strict=True):
            if (self._world.memory.read(pool, lease.name, page) != held).any():
                raise WrongBytes(f"{lease!r}: page {page} was overwritten before the release")

    # ------------------------------------------------------------------------------------------- gates, groups, pages

    def gate(self) -> str | None:
        """Nothing of a sub-pool moves for a while."""
        pool = self._draw.choice(self._world.pools)
        if self._held(pool) >= LEASES - 1:
            return None
        self._gates.append((pool.gate(self._draw.choice(pool.layouts).name, "fuzz"), pool))
        return "done"

    def open_gate(self) -> str | None:
        """Something may move again."""
        if not self._gates:
            return None
        gate, _ = self._gates.pop(self._draw.randrange(len(self._gates)))
        gate.open()
        return "done"

    def group(self) -> str:
        """What is freed is kept for a while."""
        pool = self._draw.choice(self._world.pools)
        try:
            self._groups.append((pool.free_group(), pool))
        except GroupError:
            if all(other is not pool for _, other in self._groups):
                raise
            return "refused"
        return "done"

    def end_group(self) -> str | None:
        """What was freed meanwhile can be handed out."""
        if not self._groups:
            return None
        group, _ = self._groups.pop(self._draw.randrange(len(self._groups)))
        group.end()
        return "done"

    def take(self) -> str | None:
        """Somebody else takes pages, for which nothing is evicted."""
        if OTHER not in {layout.name for layout in self._world.pool.layouts}:
            return None
        ids = self._world.pool[OTHER].try_alloc(self._draw.choice([1, 1, 2, 4]))
        if ids is None:
            return "refused"
        self.others += ids.tolist()
        return "done"

    def give_back(self) -> str | None:
        """Somebody else gives pages back."""
        if not self.others:
            return None
        ids = self._draw.sample(self.others, self._draw.randint(1, len(self.others)))
        self.others = [v for v in self.others if v not in ids]
        self._world.pool[OTHER].free(ids)
        return "done"

    def compact(self) -> str:
        """Pages move."""
        pool = self._draw.choice(self._world.pools)
        if self._draw.random() < 0.3:
            pool.compact(urgent=True)
        else:
            pool.compact(moves=self._draw.choice([0, 1, 2, 8]))
        return "done"
