"""Small state caches for tests, whose bytes say which tokens they are of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Literal
from zlib import crc32

import numpy as np
import pytest
import torch
from buffers import rows
from numpy.typing import NDArray
from torch import Tensor

from poolproof import Checkpoints, KVPages, StateSlots, UnifiedPool
from poolproof.cached_request import CachedRequest
from poolproof.checkpoint_pool import CheckpointPool
from poolproof.kernels.codec import dequantize, quantize
from poolproof.state_cache import StateCache
from poolproof.steps import Step

SIZE = 4
PAGE, SLOT, CHECKPOINT = 128, 144, 128
"""Bytes of a KV page, of an active slot and of a checkpoint."""
LAYERS, TEMPORAL, CONV = 2, (2, 3, 4), (3, 2)

KV = KVPages("full", layers=1, kv_heads=1, head_dim=4, dtype="float32", page_size=SIZE)
STATES = StateSlots(
    "state", layers=LAYERS, conv_shapes=[CONV], temporal_shape=TEMPORAL, conv_dtype="float32", temporal_dtype="bfloat16"
)


class World:
    """A cache with its pools, and what a model would compute: bytes that depend on the tokens so far.

    Args:
        pages: the bytes of all sub-pools together, in KV pages; of the KV pool alone if they are apart.
        apart: the states have a pool of their own with `slots` slots, and the checkpoints one with `checkpoints`.
    """

    def __init__(
        self,
        pages: int = 40,
        strategy: Literal["no_buffer", "extra_buffer"] = "no_buffer",
        *,
        apart: bool = False,
        slots: int = 6,
        checkpoints: int = 6,
        device: str = "cpu",
        shadow: bool = False,
    ) -> None:
        if apart:
            self.pool = UnifiedPool((pages + 1) * PAGE, [KV], device=device)
            own = StateSlots(**{**vars(STATES), "grows": "up"})
            self.states = CheckpointPool.beside(
                UnifiedPool((slots + 1) * SLOT, [own], device=device)["state"], checkpoints, shadow=shadow
            )
        else:
            sub_pools = [KV, STATES, Checkpoints("checkpoint", of="state")]
            self.pool = UnifiedPool(SLOT + pages * PAGE, sub_pools, device=device)
            self.states = CheckpointPool(self.pool["state"], self.pool["checkpoint"], shadow=shadow)
        self.cache = StateCache(self.pool, self.states, strategy=strategy)
        self.home = self.states.states._pool
        self.flying: list[Step] = []

    def run(self, request: CachedRequest, tokens: Sequence[int], length: int, *, is_late: bool = False) -> None:
        """A step computes the request's tokens up to this length; if it is late, it stays in flight for now."""
        self.complete()
        self.cache.extend(request, length)
        first, last = request.length // SIZE, -(-length // SIZE)
        written = request.pages[first:last]
        writes: dict[str, Any] = {"full": written}
        steps = [self.pool.begin_step(writes=writes | ({"state": request.state} if self.home is self.pool else {}))]
        if self.home is not self.pool:
            steps.append(self.home.begin_step(writes={"state": request.state}))
        if self.pool.buffer.device.type != "meta":
            for place, page in enumerate(steps[0].writes["full"].tolist(), start=first):
                rows(self.pool, "full")[page] = page_of(tokens[: min((place + 1) * SIZE, length)])
            self._write_state(steps[-1].writes["state"].item(), tokens[:length])
        for step in steps:
            step.launched()
        self.flying = steps
        self.cache.computed(request, length)
        if not is_late:
            self.complete()

    def complete(self) -> None:
        """What is in flight is over."""
        for step in self.flying:
            step.complete()
            step.retire()
        self.flying = []

    def _write_state(self, slot: int, tokens: Sequence[int]) -> None:
        views, (temporal, conv) = self.home.views("state"), state_of(tuple(tokens))
        views.temporal[:, slot] = temporal
        views.conv[0][:, slot] = conv

    def serve(self, tokens: Sequence[int], length: int | None = None) -> bool:
        """A request from its prompt to its end."""
        request = self.cache.admit(tokens)
        self.run(request, tokens, length or len(tokens))
        return self.cache.finish(request, tokens)

    def is_restored(self, request: CachedRequest, tokens: Sequence[int]) -> bool:
        """Are the pages of a request just admitted those of its tokens, and its state one that was quantised once?"""
        assert request.cached == request.length == len(request.pages) * SIZE
        if not self.has_pages(request, tokens):
            return False
        if not request.cached:
            return True
        slot = self.home["state"].physical(request.state).item()
        views, (temporal, conv) = self.home.views("state"), state_of(tuple(tokens[: request.cached]))
        return same(views.temporal[:, slot], dequantize(*quantize(temporal))) and same(views.conv[0][:, slot], conv)

    def has_pages(self, request: CachedRequest, tokens: Sequence[int]) -> bool:
        """Are the request's whole pages those of its tokens?"""
        whole = request.length // SIZE
        found = rows(self.pool, "full")[self.pool["full"].physical(request.pages[:whole])]
        wanted = [page_of(tokens[: (place + 1) * SIZE]) for place in range(whole)]
        return bool((found == np.array(wanted, np.uint8).reshape(whole, PAGE)).all())

    def state(self) -> tuple[Any, ...]:
        """Everything that decides what happens next."""
        tree, stock = self.cache._tree, self.cache._stock
        pools = {id(p): p for p in (self.pool, self.home, self.states.checkpoints._pool)}
        nodes = [(n.number, n.length, n.data, n.pages.tolist(), n.pins, n.stamp) for n in tree.nodes.values()]
        requests = [(r.number, r.pages.tolist(), r.length, r.tracked) for r in self.cache._requests.values()]
        return (
            [pool.snapshot() for pool in pools.values()],
            self.states.snapshot(),
            nodes,
            requests,
            stock.checkpoints,
            stock.clock,
            self.cache._admitted,
        )


def same(found: Tensor, wanted: Tensor) -> bool:
    """The same bytes?"""
    bits = {torch.bfloat16: torch.int16, torch.float32: torch.int32}[wanted.dtype]
    return torch.equal(found.contiguous().view(bits), wanted.contiguous().view(bits))


@lru_cache(maxsize=4096)
def state_of(tokens: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """The state behind tokens: the temporal one, and a conv window."""
    draw = torch.Generator().manual_seed(crc32(np.array(tokens, np.int64).tobytes()))
    temporal = torch.randn(LAYERS, *TEMPORAL, generator=draw)
    return temporal.bfloat16(), torch.randn(LAYERS, *CONV, generator=draw)


def page_of(tokens: Sequence[int]) -> NDArray[np.uint8]:
    """[PAGE], a page whose last token is the last one."""
    draw = crc32(np.array(tokens, np.int64).tobytes())
    return np.frombuffer(draw.to_bytes(4, "little") * (PAGE // 4), np.uint8)


def refused(world: World, error: Any, call: Callable[[], Any]) -> Any:
    """The error that the call raises; everything must be as before and healthy."""
    before = world.state()
    with pytest.raises(error) as raised:
        call()
    assert world.state() == before
    assert world.cache.check() == []
    return raised.value
