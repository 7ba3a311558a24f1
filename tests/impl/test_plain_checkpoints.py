"""Checkpoints without a codec: plain copies, as large as the states."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import poolproof as pp


def pool_of(temporal_dtype: str, **checkpoints: Any) -> pp.UnifiedPool:
    """Keys and values, states, and their checkpoints."""
    states: Any = pp.StateSlots(
        "state",
        layers=3,
        conv_shapes=[(8, 3), (4, 2)],
        temporal_shape=(2, 5, 8),
        conv_dtype="bfloat16",
        temporal_dtype=temporal_dtype,
        grows="down",
    )
    full = pp.KVPages("full", layers=1, kv_heads=1, head_dim=8, dtype="bfloat16", page_size=4, grows="up")
    return pp.UnifiedPool(60_000, [full, states, pp.Checkpoints("checkpoint", of="state", **checkpoints)])


def parts_of(pool: pp.UnifiedPool, name: str, slot: int) -> list[torch.Tensor]:
    """The tensors of a slot, of all layers."""
    views, page = pool.views(name), int(pool[name].physical([slot])[0])
    return [views.temporal[:, page], *(window[:, page] for window in views.conv)]


def computed(pool: pp.UnifiedPool, states: pp.CheckpointPool, request: int, seed: int) -> int:
    """A running request whose state is random numbers; its slot."""
    states.enqueue(request)
    slot = states.admit(request)
    states.start(request)
    step = pool.begin_step(writes={"state": [slot]})
    draw = torch.Generator().manual_seed(seed)
    for part in parts_of(pool, "state", slot):
        part.copy_(torch.randn(part.shape, generator=draw) * 100)
    step.launched()
    step.complete()
    states.advance(request, 4)
    return slot


@pytest.mark.parametrize("temporal_dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("apart", [False, True])
def test_a_hit_is_the_state_itself(temporal_dtype: str, apart: bool) -> None:
    pool = pool_of(temporal_dtype, codec="none")
    states = (
        pp.CheckpointPool.beside(pool["state"], 4, codec="none", shadow=True)
        if apart
        else pp.CheckpointPool(pool["state"], pool["checkpoint"], shadow=True)
    )
    slot = computed(pool, states, 1, seed=3)
    want = [part.clone() for part in parts_of(pool, "state", slot)]
    donation = states.donate(1)
    assert donation is not None
    states.add_node(0, 4)
    donation.publish(0)
    states.finish(1)
    computed(pool, states, 2, seed=4)
    pool.compact(urgent=True)
    states.enqueue(3)
    with states.lock(3, 0, "state"):
        copy = states.hit(3, 0)
    found = parts_of(pool, "state", copy)
    assert all(torch.equal(one, other) for one, other in zip(found, want, strict=True))
    assert states.check() == []


def test_a_plain_copy_takes_what_its_state_takes() -> None:
    plain, coded = pool_of("bfloat16", codec="none"), pool_of("bfloat16")
    assert plain["checkpoint"].layout.page_bytes == plain["state"].layout.page_bytes
    assert coded["checkpoint"].layout.page_bytes < plain["checkpoint"].layout.page_bytes
    for pool, codec in ((plain, "none"), (coded, "int8")):
        need = pp.CheckpointPool.estimate(pool["state"], 5, codec)
        each = pool["checkpoint"].layout.page_bytes
        assert need.qdata + need.scale + need.conv == 5 * each
        assert need.total == 6 * each
    assert pp.CheckpointPool.estimate(plain["state"], 5, "none").scale == 0


def test_another_codec_is_refused() -> None:
    with pytest.raises(pp.LayoutError, match="codec = 'int4'"):
        pp.Checkpoints("checkpoint", of="state", codec="int4")
    with pytest.raises(pp.LayoutError, match="codec = 'int4'"):
        pp.CheckpointPool.beside(pool_of("bfloat16")["state"], 4, codec="int4")  # type: ignore[arg-type]


def test_checkpoints_are_opted_into() -> None:
    pool = pool_of("bfloat16")
    assert pp.CheckpointPool.opt_in(pool["state"], None) is None
    states = pp.CheckpointPool.opt_in(pool["state"], "none", 3)
    assert states is not None
    assert states.size == 3
    assert states.bytes_per_slot == pool["state"].layout.page_bytes
