"""A state cache under test with the pools below it, the device that they share, and the bytes in them."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from poolproof.buffer_shadow import BufferShadow
from poolproof.checkpoint_memory import standalone
from poolproof.checkpoint_pool import CheckpointPool
from poolproof.checkpoint_shadow import CheckpointShadow
from poolproof.fuzz.cache_layouts import Buffer, CacheLayout
from poolproof.fuzz.cache_memory import CacheMemory, DeviceCacheMemory, HostCacheMemory, Runs, runs_of
from poolproof.fuzz.cache_streams import open_streams
from poolproof.state_cache import StateCache
from poolproof.sub_pool import SubPool
from poolproof.unified_pool import UnifiedPool

STEPS: Final = 28
LEASES: Final = 5
_SPOILED: Final = 0x5A


@dataclass(frozen=True)
class Make:
    """The classes under test: the shipped ones, or some that are broken on purpose.

    Attributes:
        cache, states, pool: of the cache, of the pool of states and checkpoints, and of the buffers. Without a cache it
            is the pool of states and checkpoints that is used.
        has_shadow: whether the spec of `states` runs in lockstep.
    """

    cache: type[StateCache] | None = StateCache
    states: type[CheckpointPool] = CheckpointPool
    pool: type[UnifiedPool] = UnifiedPool
    has_shadow: bool = True

    @property
    def name(self) -> str:
        """Of what is not the shipped one."""
        shipped = (None, StateCache, CheckpointPool, UnifiedPool)
        made = (self.cache, self.states, self.pool)
        return next((one.__name__ for one in made if one is not None and one not in shipped), "shipped")


SHIPPED: Final = Make()


class World:
    """Pools and cache.

    Args:
        layout: what they are made from.
        draw: where the times of the device come from.
        make: the classes under test.
        device: "host", "tensor" or "cuda".
        is_shared: whether others take slots of states and checkpoints as well.

    Attributes:
        layout: what they were made from.
        pool: has the KV pages.
        pools: all, once each.
        states: the pool of states and checkpoints.
        cache: the cache, where there is one.
        streams: the device.
        memory: the bytes.
        shadows: the specs of the buffers, where they run.
    """

    def __init__(
        self, layout: CacheLayout, draw: random.Random, make: Make, device: str, is_shared: bool = False
    ) -> None:
        self.layout = layout
        self.streams: Any = open_streams(device, layout.order, draw)
        buffers = [self._open(make, buffer, device) for buffer in layout.buffers]
        self.pool, home = buffers[0], buffers[-1]
        if layout.slots and is_shared:
            apart = self._open(make, _apart(home["state"], layout), device)
            self.states = make.states(home["state"], apart["checkpoint"], shared=True)
        elif layout.slots:
            self.states = make.states.beside(home["state"], layout.slots, codec=layout.codec)
        else:
            self.states = make.states(home["state"], home["checkpoint"], shared=is_shared)
        self.pools = list(dict.fromkeys([*buffers, self.states.checkpoints._pool]))
        self.shadows = [self._follow(pool) for pool in self.pools] if layout.is_shadowed else []
        if make.has_shadow:
            self.states._journal = CheckpointShadow(self.states)
        self.streams.watch(self.states._bytes)
        self.streams.spoil = self._spoil
        self.memory: CacheMemory = DeviceCacheMemory(self.pools) if device == "cuda" else HostCacheMemory(self.pools)
        if make.cache is not None:
            self.cache = make.cache(self.pool, self.states, kv=layout.kv, strategy=layout.strategy)

    def _open(self, make: Make, buffer: Buffer, device: str) -> UnifiedPool:
        kind: Any = make.pool
        if device == "tensor":
            kind = type(kind.__name__, (kind,), {"_open_bytes": UnifiedPool._open_tensor})
        pool: UnifiedPool = kind(*buffer, device="cuda" if device == "cuda" else "cpu", events=self.streams)
        return pool

    @staticmethod
    def _follow(pool: UnifiedPool) -> BufferShadow:
        shadow = BufferShadow(pool, steps=STEPS, leases=LEASES)
        pool._follow(shadow)
        return shadow

    def _spoil(self, pool: UnifiedPool, name: str, page: int) -> None:
        """What a copy leaves that fails in the midst of it: half of what it writes is something else."""
        half = max(pool[name].layout.page_bytes // 2, 1)
        self.memory.write(pool, name, page, ((0, half),), np.full(half, _SPOILED, np.uint8))

    @property
    def kv_row(self) -> int:
        """Bytes of a page that one token has."""
        layout = self.cache.kv.layout
        return layout.page_bytes // layout.page_size

    def runs(self, name: str) -> Runs:
        """The parts of a state or a checkpoint in its slot."""
        sub_pool = self.states.states if name == "state" else self.states.checkpoints
        return runs_of(sub_pool.layout)


def _apart(states: SubPool, layout: CacheLayout) -> Buffer:
    """A buffer for the checkpoints alone, as `CheckpointPool.beside` makes it, which shares no slots."""
    total = CheckpointPool.estimate(states, layout.slots, layout.codec).total
    return total, (standalone(states, layout.codec),)
