"""What a unified pool tells about itself: figures against counts made by hand, and the whole state in plain ints."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from buffers import chain_of

from poolproof import KVPages, Pages, StateSlots, UnifiedPool, WindowPages
from poolproof.buffer_reports import BufferSnapshot, SubPoolStats


def pool_with_window(total: int = 100) -> UnifiedPool:
    """Tokens "a" of 3 bytes upwards, their window "w" of 2 bytes, "d" of 4 bytes downwards, zeroed."""
    return UnifiedPool(
        total,
        [
            Pages("a", bytes=3, grows="up", zero="never"),
            WindowPages("w", ids_of="a", layers=1, kv_heads=1, head_dim=1, dtype="uint8", grows="float", zero="never"),
            Pages("d", bytes=4, grows="down"),
        ],
    )


def used_pool() -> UnifiedPool:
    """6 of a, of which 1 is pending, 1 a hole and 1 left the extent; 2 of w; 3 of d, of which 1 waits to be zeroed."""
    pool = pool_with_window()
    a, d = pool["a"].alloc(6), pool["d"].alloc(2)
    pool["w"].bind(a[1:3])
    pool.lease("a", a[:2], "rdma")
    pool.lease("a", a[:1], "copy")
    pool.gate("d", "graph")
    pool["a"].free(a[[0, 3, 5]])
    pool.begin_step(writes={"d": d}, stream="x").launched()
    pool["d"].alloc(1)
    return pool


def test_the_stats_of_a_new_pool() -> None:
    stats = pool_with_window().stats()
    assert [row.name for row in stats.sub_pools] == ["a", "w", "d"]
    assert [row.kind for row in stats.sub_pools] == ["pages", "window", "pages"]
    assert [row.page_bytes for row in stats.sub_pools] == [3, 2, 4]
    assert [(row.ids, row.free_ids) for row in stats.sub_pools] == [(33, 33), (33, 0), (25, 25)]
    for row in stats.sub_pools:
        counts = (row.bound, row.holes, row.pending, row.extent_bytes, row.used_bytes, row.leases, row.gates)
        assert counts == (0,) * 7
    assert (stats.total_bytes, stats.sink_bytes, stats.gap_bytes, stats.used_bytes, stats.steps) == (100, 4, 96, 0, 0)


def test_the_stats_of_a_pool_in_use() -> None:
    stats = used_pool().stats()
    a, w, d = stats.sub_pools
    assert a == SubPoolStats(
        name="a",
        kind="pages",
        page_bytes=3,
        ids=33,
        bound=3,
        holes=1,
        pending=1,
        extent_bytes=15,
        used_bytes=9,
        free_ids=30,
        leases=2,
        gates=0,
    )
    assert (w.bound, w.holes, w.pending, w.extent_bytes, w.used_bytes, w.free_ids) == (2, 0, 0, 4, 4, 1)
    assert (d.bound, d.extent_bytes, d.used_bytes, d.free_ids, d.leases, d.gates) == (3, 12, 12, 22, 0, 1)
    assert (stats.sink_bytes, stats.gap_bytes, stats.used_bytes, stats.steps) == (4, 100 - 4 - 31, 25, 1)


def test_what_the_extents_leave_is_the_gaps() -> None:
    pool = UnifiedPool(100, chain_of(3, 5, 4))
    pool.alloc({"a": 4, "b": 3, "c": 2})
    stats = pool.stats()
    assert sum(row.extent_bytes for row in stats.sub_pools) == 12 + 15 + 8
    assert stats.gap_bytes + stats.sink_bytes + 35 == stats.total_bytes


def test_stats_agree_with_the_snapshot_and_with_capacity() -> None:
    pool = used_pool()
    for row, state in zip(pool.stats().sub_pools, pool.snapshot().sub_pools, strict=True):
        assert (row.name, row.bound) == (state.name, state.bound)
        assert (row.holes, row.pending) == (len(state.holes), len(state.pending))
        assert row.extent_bytes == (state.last - state.first) * row.page_bytes
        assert row.bound == sum(page > 0 for page in state.physical) == sum(v > 0 for v in state.virtual)
        assert pool.capacity(row.name) <= row.free_ids


def test_stats_are_frozen_plain_numbers() -> None:
    stats = used_pool().stats()
    with pytest.raises(dataclasses.FrozenInstanceError):
        stats.steps = 3  # type: ignore[misc]
    values = [value for row in stats.sub_pools for value in dataclasses.astuple(row)]
    assert {type(value) for value in values} == {int, str}


def test_the_table_says_it_all() -> None:
    assert str(used_pool().stats()) == "\n".join(
        [
            "100 bytes: 25 used, 65 in gaps, 4 of the sink; 1 step in flight",
            "sub-pool  kind    page bytes  bound  holes  pending  extent bytes  used bytes  "
            "free ids  of ids  leases  gates",
            "a         pages            3      3      1        1            15           9        "
            "30      33       2      0",
            "w         window           2      2      0        0             4           4         "
            "1      33       0      0",
            "d         pages            4      3      0        0            12          12        "
            "22      25       0      1",
        ]
    )


def test_large_figures_are_grouped_and_columns_are_straight() -> None:
    state = StateSlots(
        "a-state-with-a-long-name",
        layers=36,
        conv_shapes=[(8192, 3)],
        temporal_shape=(32, 128, 128),
        conv_dtype="bfloat16",
        temporal_dtype="bfloat16",
    )
    full = KVPages("full", layers=12, kv_heads=2, head_dim=256, dtype="bfloat16")
    pool = UnifiedPool(2**30, [full, state], device="meta")
    pool[state.name].alloc(3)
    head, *lines = str(pool.stats()).splitlines()
    assert head.startswith("1,073,741,824 bytes: 118,554,624 used,")
    assert head.endswith("0 steps in flight")
    assert len({len(line) for line in lines}) == 1
    assert "39,518,208" in lines[-1]


# --------------------------------------------------------------------------------------------------------- snapshots


def plain(value: Any) -> bool:
    """Whether a value holds ints, bools, texts and tuples of such, and nothing else."""
    if isinstance(value, tuple):
        return all(map(plain, value))
    return type(value) in (int, bool, str)


def test_the_snapshot_of_a_new_pool() -> None:
    state = UnifiedPool(16, chain_of(3, 4)).snapshot()
    a, b = state.sub_pools
    assert (state.total, state.time, state.steps, state.leases, state.gates) == (16, 0, (), (), ())
    assert not state.group_is_open
    assert (a.name, a.first, a.last, b.first, b.last) == ("a", 2, 2, 4, 4)
    assert (a.physical, a.virtual) == ((0, *[-1] * 5), (0, *[-1] * 4))
    assert (b.physical, b.virtual) == ((0, *[-1] * 4), (0, *[-1] * 3))
    assert (a.free_ids, b.free_ids) == ((1, 2, 3, 4, 5), (1, 2, 3, 4))
    assert (a.holes, a.pending, a.bound, a.hold, a.born) == ((), (), 0, (0,) * 5, (0,) * 6)
    assert (a.filled, a.published, a.to_zero, a.deferred) == ((), (), (), ())


def test_the_snapshot_of_a_pool_in_use() -> None:
    state = used_pool().snapshot()
    a, w, d = state.sub_pools
    assert (a.first, a.last, a.holes, a.pending, a.bound) == (2, 7, (5,), (2,), 3)
    assert a.physical[:7] == (0, -1, 3, 4, -1, 6, -1)
    assert a.virtual[:8] == (0, -1, -1, 2, 3, -1, 5, -1)
    assert a.hold[:5] == (0, 0, 2, 1, 0)
    assert a.free_ids[:4] == (1, 4, 6, 7)
    assert (w.bound, w.free_ids) == (2, ())
    assert (d.filled, d.published, d.to_zero) == ((1, 2), (), (22,))
    assert d.hold[22:] == (0, 1, 1)
    assert state.leases == (("a", (2, 3), "rdma"), ("a", (2,), "copy"))
    assert state.gates == (("d", "graph"),)


def test_the_snapshot_tells_of_steps() -> None:
    pool = UnifiedPool(40, chain_of(2, 2))
    ids = pool["a"].alloc(3)
    home = pool.begin_step(writes={"a": ids})
    home.launched()
    pool.begin_step(reads={"a": ids[:2]}, writes={"b": [], "a": ids[1:]}, stream="x")
    first, second = pool.snapshot().steps
    assert (first.number, first.stream, first.phase, first.own, first.touched) == (0, "home", "launched", False, ())
    assert (second.number, second.stream, second.phase, second.waits) == (1, "'x'", "open", (0,))
    assert second.reads == (("a", (1, 2)),)
    assert second.writes == (("a", (2, 3)), ("b", ()))
    assert second.touched == (("a", (1, 2, 3)), ("b", ()))
    assert (first.began, second.began, pool.snapshot().time) == (2, 3, 3)


def test_the_snapshot_tells_of_a_group_and_of_what_is_published() -> None:
    pool = UnifiedPool(40, chain_of(2, 2))
    ids = pool["a"].alloc(3)
    step = pool.begin_step(writes={"a": ids})
    step.launched()
    step.complete()
    step.publish("a", ids[1:])
    with pool.free_group():
        pool["a"].free(ids[:2])
        state = pool.snapshot()
        assert state.group_is_open
        assert state.sub_pools[0].deferred == state.sub_pools[0].pending == (1, 2)
        assert (state.sub_pools[0].filled, state.sub_pools[0].published) == ((3,), (3,))
    assert not pool.snapshot().group_is_open
    assert pool.snapshot().sub_pools[0].deferred == ()


def test_snapshots_are_plain_equal_when_nothing_happened_and_their_own() -> None:
    pool = used_pool()
    before = pool.snapshot()
    assert isinstance(before, BufferSnapshot)
    assert plain(before)
    pool.stats()
    assert pool.snapshot() == before == used_pool().snapshot()
    hash(before)
    pool["a"].free(pool["a"].alloc(1))
    assert pool.snapshot() != before
    assert before == used_pool().snapshot()


def test_an_empty_float_and_numpy_numbers_are_plain_too() -> None:
    pool = UnifiedPool(60, chain_of(2, 3, 4))
    four: Any = np.int64(4)
    pool["b"].free(pool["b"].alloc(four))
    pool["a"].alloc(20)
    pool.compact(urgent=True)
    assert plain(pool.snapshot())
    assert (pool.snapshot().sub_pools[1].first, pool.snapshot().sub_pools[1].last) == (0, 0)
