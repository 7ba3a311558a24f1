"""One page at a time takes a shorter way to the same place."""

from __future__ import annotations

import random
from typing import Any

import pytest
from buffers import chain_of, finish

from poolproof import InvalidPages, UnifiedPool
from poolproof.steps import HOME


def one_of(pool: UnifiedPool, name: str, is_short: bool) -> int | None:
    """An id, the short way or the long way."""
    if is_short:
        return pool._alloc_one(pool[name]._table)
    ids = pool[name].try_alloc(1)
    return None if ids is None else int(ids[0])


@pytest.mark.parametrize("zero", ["never", "on_handout"])
@pytest.mark.parametrize("seed", range(5))
def test_one_id_is_the_next_id_with_the_next_page(seed: int, zero: Any) -> None:
    draw = random.Random(seed)
    pools = [UnifiedPool(60, chain_of(1, 2, 3, zero=zero)) for _ in range(2)]
    live: list[tuple[str, int]] = []
    for _ in range(300):
        name = draw.choice("abc")
        if live and draw.random() < 0.45:
            name, v = live.pop(draw.randrange(len(live)))
            pools[0][name].free(v)  # a number goes the short way
            pools[1][name].free([v])
        else:
            found = [one_of(pool, name, is_short) for pool, is_short in zip(pools, (True, False), strict=True)]
            assert found[0] == found[1]
            if found[0] is not None:
                live.append((name, found[0]))
        if draw.random() < 0.1:
            for pool in pools:
                finish(pool.begin_step())
        assert pools[0].snapshot() == pools[1].snapshot()
        assert pools[0].check() == []
    assert pools[0].capacity("a") == pools[1].capacity("a")


def test_where_the_difference_could_be_told_one_id_goes_the_long_way() -> None:
    for zero in ("never", "on_handout"):
        pool = UnifiedPool(60, chain_of(2, 3, zero=zero))
        table = pool["a"]._table
        pool["a"].alloc(6)
        before = pool.snapshot()
        for v in (0, -1, 7, 99, 2**70):
            assert not pool._free_one(table, v)
            with pytest.raises((InvalidPages, ValueError)):
                pool["a"].free(v)
        assert pool.snapshot() == before
        assert pool._free_one(table, 6) == (zero == "never")  # zeroing waits
        finish(pool.begin_step(writes={"a": [1, 2]}))
        lease = pool.lease("a", 1, "read by a copy")
        assert not pool._free_one(table, 2)
        lease.release()
        with pool.free_group():
            assert not pool._free_one(table, 2)
        assert pool._free_one(table, 2)
        assert not pool._free_one(table, 2)
        assert pool.check() == []
    shadowed = UnifiedPool(60, chain_of(2, 3), shadow=True)
    shadowed["a"].alloc(1)
    assert not shadowed._free_one(shadowed["a"]._table, 1)


def test_a_copy_at_home_is_a_step_that_is_over() -> None:
    pools = [UnifiedPool(60, chain_of(2, 3)) for _ in range(2)]
    for pool in pools:
        pool["a"].alloc(2)
        pool["b"].alloc(2)
        finish(pool.begin_step(writes={"a": [1, 2]}))
    short, long = pools
    assert short._copy_one(short["a"]._table, 1, short, short["b"]._table, 2) == (
        short["a"].physical(1)[0],
        short["b"].physical(2)[0],
    )
    finish(long.begin_step(reads={"a": 1}, writes={"b": 2}))
    assert short.snapshot() == long.snapshot()
    assert short.check() == []


def test_where_the_difference_could_be_told_a_copy_is_a_step() -> None:
    pool = UnifiedPool(60, chain_of(2, 3))
    a, b = pool["a"]._table, pool["b"]._table
    pool["a"].alloc(2)
    pool["b"].alloc(2)
    finish(pool.begin_step(writes={"a": 1}))
    before = pool.snapshot()
    for read, written in ((2, 1), (0, 1), (9, 1), (-1, 1), (1, 0), (1, 9), (1, -1), (3, 1), (1, 3)):
        assert pool._copy_one(a, read, pool, b, written) is None
    assert pool.snapshot() == before
    for stream in (HOME, "aside"):
        step = pool.begin_step(stream=stream)
        assert pool._copy_one(a, 1, pool, b, 1) is None
        step.launched()
        assert (pool._copy_one(a, 1, pool, b, 1) is None) == (stream is not HOME)
        step.complete()
        step.retire()
    shadowed = UnifiedPool(60, chain_of(2, 3), shadow=True)
    shadowed["a"].alloc(1)
    shadowed["b"].alloc(1)
    finish(shadowed.begin_step(writes={"a": 1}))
    assert shadowed._copy_one(shadowed["a"]._table, 1, shadowed, shadowed["b"]._table, 1) is None
    zeroed = UnifiedPool(60, chain_of(2, 3, zero="on_handout"))
    zeroed["a"].alloc(1)
    zeroed["b"].alloc(1)
    assert zeroed._copy_one(zeroed["a"]._table, 1, zeroed, zeroed["b"]._table, 1) is None
    finish(zeroed.begin_step())
    assert zeroed._copy_one(zeroed["a"]._table, 1, zeroed, zeroed["b"]._table, 1) is not None


def test_a_copy_from_pool_to_pool_is_a_step_of_each() -> None:
    """Where either of them could tell, it is no short one, and neither has changed."""
    pools = [[UnifiedPool(60, chain_of(2, 3)) for _ in range(2)] for _ in range(2)]
    for one, other in pools:
        one["a"].alloc(2)
        other["b"].alloc(2)
        finish(one.begin_step(writes={"a": [1, 2]}))
    (one, other), (reader, writer) = pools
    assert one._copy_one(one["a"]._table, 1, other, other["b"]._table, 2) is not None
    finish(reader.begin_step(reads={"a": 1}))
    finish(writer.begin_step(writes={"b": 2}))
    assert (one.snapshot(), other.snapshot()) == (reader.snapshot(), writer.snapshot())
    for pool in (one, other):
        step = pool.begin_step(stream="aside")
        before = one.snapshot(), other.snapshot()
        assert one._copy_one(one["a"]._table, 1, other, other["b"]._table, 1) is None
        assert (one.snapshot(), other.snapshot()) == before
        finish(step)
