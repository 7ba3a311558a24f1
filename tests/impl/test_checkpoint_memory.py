"""What checkpoints take, before anything is allocated and afterwards; and checkpoints in a buffer of their own."""

from __future__ import annotations

from typing import Any

import pytest
from checkpoint_pools import buffer, cached, declared, lifecycle

import poolproof.checkpoint_memory as memory
from poolproof import Checkpoints, LayoutError, StateSlots, UnifiedPool
from poolproof.checkpoint_pool import CheckpointPool
from poolproof.sub_pools import resolve

GDN = StateSlots(
    "state",
    layers=36,
    conv_shapes=[(8192, 3)],
    temporal_shape=(32, 128, 128),
    conv_dtype="bfloat16",
    temporal_dtype="bfloat16",
)


def test_an_estimate_is_the_formula_of_the_layout() -> None:
    found = CheckpointPool.estimate(GDN, 64)
    assert found.qdata == 64 * 36 * 32 * 128 * 128
    assert found.scale == 64 * 36 * 32 * 128 * 2
    assert found.conv == 64 * 36 * 8192 * 3 * 2
    each = 36 * (32 * 128 * 128 + 32 * 128 * 2 + 8192 * 3 * 2)
    assert found.total == 65 * each  # the sink's slot too
    assert CheckpointPool.estimate(GDN, 0) == (0, 0, 0, each)


def test_an_estimate_is_of_a_sub_pool_its_layout_or_its_declaration() -> None:
    pool = buffer()
    layout = pool["state"].layout
    assert CheckpointPool.estimate(pool["state"], 3) == CheckpointPool.estimate(layout, 3)
    assert CheckpointPool.estimate(declared(), 3) == CheckpointPool.estimate(layout, 3)
    assert pool["checkpoint"].layout.page_bytes * 4 == CheckpointPool.estimate(layout, 3).total
    none = CheckpointPool.estimate(declared(conv_shapes=[]), 3)
    assert none.conv == 0


@pytest.mark.parametrize(
    ("states", "slots", "error"),
    [
        (declared(), -1, ValueError),
        (declared(), True, TypeError),
        (declared(), 1.0, TypeError),
        (declared(temporal_dtype="float8_e4m3fn"), 1, LayoutError),
        (buffer()["full"], 1, LayoutError),
        ("state", 1, TypeError),
    ],
)
def test_an_impossible_estimate_is_refused(states: Any, slots: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        CheckpointPool.estimate(states, slots)


def test_checkpoints_beside_take_what_was_estimated() -> None:
    pool = lifecycle("two", slots=5)
    below = pool.checkpoints._pool
    assert below is not pool.states._pool
    assert below.total_bytes == CheckpointPool.estimate(pool.states, 5).total
    assert (pool.size, pool.checkpoints.capacity(), pool.mem_usage) == (5, 5, 0)
    assert pool.bytes_per_slot == pool.checkpoints.layout.page_bytes
    cached(pool)
    assert pool.mem_usage == pool.bytes_per_slot
    assert pool.check() == []


def test_by_default_there_are_two_checkpoints_for_each_active_slot() -> None:
    states = buffer()
    pool = CheckpointPool.beside(states["state"])
    assert pool.size == 2 * states["state"].capacity() == 2 * memory.slots_of(states["state"])


def test_beside_states_without_bytes_nothing_is_allocated() -> None:
    huge = UnifiedPool(1 << 42, [StateSlots("state", **_fields(GDN), grows="up")], device="meta")
    pool = CheckpointPool.beside(huge["state"], 10_000)
    assert pool.checkpoints._pool.total_bytes == CheckpointPool.estimate(GDN, 10_000).total
    cached(pool)
    assert pool.check() == []


def _fields(declaration: StateSlots) -> dict[str, Any]:
    names = ("layers", "conv_shapes", "temporal_shape", "conv_dtype", "temporal_dtype")
    return {name: getattr(declaration, name) for name in names}


@pytest.mark.parametrize(("slots", "error"), [(0, ValueError), (-1, ValueError), (True, TypeError), (2.0, TypeError)])
def test_a_pool_has_a_whole_number_of_slots(slots: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        CheckpointPool.beside(buffer()["state"], slots)


def test_beside_takes_a_sub_pool_of_states() -> None:
    pool = buffer()
    with pytest.raises(LayoutError, match="of kind 'kv'"):
        CheckpointPool.beside(pool["full"])
    with pytest.raises(TypeError, match="must be a sub-pool"):
        CheckpointPool.beside(declared())  # type: ignore[arg-type]


def test_more_than_there_is_free_is_refused_with_the_number_that_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    states = buffer()["state"]
    each = CheckpointPool.estimate(states, 0).total
    monkeypatch.setattr("poolproof.checkpoint_pool.free_memory", lambda device: 8 * each)
    with pytest.raises(LayoutError, match="make slots 7 or fewer") as raised:
        CheckpointPool.beside(states, 8)
    text = str(raised.value)
    need = CheckpointPool.estimate(states, 8)
    for number in (*need, each, 8 * each):
        assert str(number) in text
    assert text.endswith("Nothing was allocated.")
    assert CheckpointPool.beside(states, 7).size == 7


def test_free_memory_is_that_of_the_device() -> None:
    assert memory.free_memory("meta") is None
    host = memory.free_memory("cpu")
    assert host is not None
    assert host > 0


def test_without_a_figure_of_the_host_its_memory_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    free = memory.free_memory("cpu")
    monkeypatch.setattr(memory, "_MEMORY", tmp_path / "nothing")
    whole = memory.free_memory("cpu")
    assert free is not None
    assert whole is not None
    assert whole >= free


def test_checkpoints_are_declared_of_states_that_are_elsewhere() -> None:
    alone = resolve([Checkpoints("checkpoint", of=declared(), grows="up")])[0]
    together = resolve([declared(), Checkpoints("checkpoint", of="state"), _kv()])[1]
    assert (alone.layout, alone.shapes, alone.dtypes) == (together.layout, together.shapes, together.dtypes)
    with pytest.raises(LayoutError, match="it is int"):
        resolve([Checkpoints("checkpoint", of=5, grows="up")])  # type: ignore[arg-type]
    with pytest.raises(LayoutError, match="the int8 codec takes"):
        resolve([Checkpoints("checkpoint", of=declared(temporal_dtype="int8"), grows="up")])


def _kv() -> Any:
    from poolproof import Pages

    return Pages("pages", bytes=8, grows="up")
