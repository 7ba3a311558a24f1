"""Small checkpoint pools for tests, states of random bits, and refusals that change nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from buffers import finish
from torch import Tensor

from poolproof import Checkpoints, KVPages, StateSlots, UnifiedPool
from poolproof.checkpoint_pool import CheckpointPool
from poolproof.kernels.codec import BITS, dequantize, quantize

KINDS = ("one", "two", "meta")
"""Both sub-pools of one buffer, beside KV pages; checkpoints in a buffer of their own; one buffer without bytes."""


def declared(**more: Any) -> StateSlots:
    """Small states: two layers of two heads, and two conv windows."""
    shape: dict[str, Any] = {
        "layers": 2,
        "conv_shapes": [(3, 2), (2, 1)],
        "temporal_shape": (2, 4, 8),
        "conv_dtype": "bfloat16",
        "temporal_dtype": "bfloat16",
    }
    return StateSlots("state", **(shape | more))


def buffer(total: int = 4000, states: StateSlots | None = None, **more: Any) -> UnifiedPool:
    """A buffer of KV pages, states and checkpoints."""
    sub_pools = [
        KVPages("full", layers=1, kv_heads=1, head_dim=4, dtype="bfloat16", page_size=16),
        states or declared(),
        Checkpoints("checkpoint", of="state"),
    ]
    return UnifiedPool(total, sub_pools, **({"shadow": True} | more))


def lifecycle(kind: str = "one", total: int = 4000, slots: int = 5, **more: Any) -> CheckpointPool:
    """A checkpoint pool of one of the kinds, shadowed, over shadowed buffers."""
    shadow = bool(more.get("shadow", True))
    pool = buffer(total, **({"device": "meta" if kind == "meta" else "cpu"} | more))
    if kind == "two":
        return CheckpointPool.beside(pool["state"], slots, shadow=shadow)
    return CheckpointPool(pool["state"], pool["checkpoint"], shadow=shadow)


def random_state(pool: CheckpointPool, seed: int) -> list[Tensor]:
    """The parts of one state: numbers of many sizes, zeros, and what is not finite."""
    views, draw = pool.states._pool.views(pool.states.name), torch.Generator().manual_seed(seed)
    parts = []
    for view in (views.temporal, *views.conv):
        shape = (view.shape[0], *view.shape[2:])
        part = torch.randn(shape, generator=draw) * 10.0 ** torch.randint(-3, 4, shape, generator=draw)
        part[torch.rand(shape, generator=draw) < 0.05] = 0
        parts.append(part.to(view.dtype))
    if parts[0].numel():
        parts[0][0, 0, :, 0] = 0
        parts[0][-1, -1, 0, -1] = float("nan")
    return parts


def compute(pool: CheckpointPool, request: int, tokens: int, seed: int | None = None) -> None:
    """A step of an engine at home writes the request's state, which is so many tokens further then."""
    slot = pool.slot_of(request)
    assert slot is not None
    fill(pool, slot, request * 1000 + pool.position(request) + tokens if seed is None else seed)
    pool.advance(request, tokens)


def fill(pool: CheckpointPool, slot: int, seed: int) -> None:
    """A step at home writes a random state to an active slot."""
    below = pool.states._pool
    step = below.begin_step(writes={pool.states.name: slot})
    if below._bytes.device != "meta":
        page = int(step.writes[pool.states.name][0])
        views = below.views(pool.states.name)
        for view, part in zip((views.temporal, *views.conv), random_state(pool, seed), strict=True):
            view[:, page] = part
    finish(step)


def state(pool: CheckpointPool, slot: int) -> list[Tensor]:
    """The parts of a state, as a step at home finds them in an active slot, as bits."""
    below = pool.states._pool
    step = below.begin_step(reads={pool.states.name: slot})
    views, page = below.views(pool.states.name), int(step.reads[pool.states.name][0])
    found = [bits(view[:, page]) for view in (views.temporal, *views.conv)]
    finish(step)
    return found


def stored(pool: CheckpointPool, slot: int) -> list[Tensor]:
    """The parts of a checkpoint slot as bits."""
    below = pool.checkpoints._pool
    step = below.begin_step(reads={pool.checkpoints.name: slot})
    views, page = below.views(pool.checkpoints.name), int(step.reads[pool.checkpoints.name][0])
    found = [bits(view[:, page]) for view in (views.codes, views.scales, *views.conv)]
    finish(step)
    return found


def image(parts: list[Tensor]) -> list[Tensor]:
    """What a checkpoint of a state is, as bits, by the codec's reference."""
    return [bits(part) for part in (*quantize(parts[0]), *parts[1:])]


def reloaded(parts: list[Tensor]) -> list[Tensor]:
    """What a state is after a donation and a hit, as bits."""
    return [bits(part) for part in (dequantize(*quantize(parts[0])), *parts[1:])]


def bits(part: Tensor) -> Tensor:
    """A copy as integers on the host, which compare bit for bit."""
    copied = part.clone().cpu()
    return copied.view(BITS[part.dtype]) if part.dtype in BITS else copied


def same(ours: list[Tensor], theirs: list[Tensor]) -> bool:
    """Are these the same bits?"""
    return all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def cached(pool: CheckpointPool, node: int = 7, length: int = 16, request: int = 90) -> int:
    """A node with a checkpoint, and no request left; the checkpoint's slot."""
    pool.enqueue(request)
    pool.admit(request)
    pool.start(request)
    compute(pool, request, length)
    donation = pool.donate(request)
    assert donation is not None
    pool.add_node(node, length)
    donation.publish(node)
    pool.finish(request)
    return donation.checkpoint


def running(pool: CheckpointPool, request: int = 1, tokens: int = 0) -> int:
    """A running request that has computed so many tokens; its slot."""
    pool.enqueue(request)
    slot = pool.admit(request)
    pool.start(request)
    if tokens:
        compute(pool, request, tokens)
    return slot


def whole(pool: CheckpointPool) -> Any:
    """All that a checkpoint pool and the pools below it have noted."""
    return pool.snapshot(), pool.stats(), pool.states._pool.snapshot(), pool.checkpoints._pool.snapshot()


def refused(pool: CheckpointPool, error: type[Exception], call: Callable[[], Any], match: str | None = None) -> Any:
    """The error that the call raises; the pool must be as before, and healthy."""
    before = whole(pool)
    with pytest.raises(error, match=match) as raised:
        call()
    assert whole(pool) == before
    assert pool.check() == []
    return raised.value
