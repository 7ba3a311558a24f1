"""Pre-allocation groups: held back together, taken in parts, given back when closed."""

from __future__ import annotations

import pytest

import poolproof as pp
from poolproof import Owner, SlotPool


@pytest.fixture(params=[False, True], ids=["alone", "shadowed"])
def pool(request: pytest.FixtureRequest) -> SlotPool:
    return SlotPool(8, shadow=request.param)


def test_a_group_holds_slots_back(pool: SlotPool) -> None:
    group = pool.open_group(5)
    assert (group.remaining, group.is_open, pool.capacity()) == (5, True, 3)
    assert pool.owners().tolist().count(Owner.RESERVED) == 5
    others = pool.alloc(3)
    assert pool.try_alloc(1) is None
    mine = group.take(5, holder=7)
    assert sorted([*others, *mine]) == list(range(1, 9))
    assert set(pool.holders()[mine]) == {7}
    assert pool.check() == []


def test_closing_frees_what_is_left(pool: SlotPool) -> None:
    group = pool.open_group(5)
    first, second = group.take(1, holder=1), group.take(2, holder=2)
    assert group.remaining == 2
    group.close()
    assert (group.remaining, group.is_open, pool.capacity()) == (0, False, 5)
    pool.free(first, holder=1)
    pool.free(second, holder=2)
    assert pool.capacity() == 8
    assert pool.check() == []


def test_an_empty_group_is_allowed(pool: SlotPool) -> None:
    with pool.open_group(0) as group:
        assert group.take(0).size == 0
        with pytest.raises(pp.GroupError, match="1 slots needed, the group holds 0 back"):
            group.take(1)


def test_taking_too_much_takes_nothing(pool: SlotPool) -> None:
    group = pool.open_group(3)
    group.take(2)
    before = pool.snapshot()
    with pytest.raises(pp.GroupError, match="2 slots needed, the group holds 1 back"):
        group.take(2)
    assert pool.snapshot() == before
    assert pool.stats().refusals["take"] == 1
    assert group.take(1).size == 1


def test_one_group_at_a_time(pool: SlotPool) -> None:
    with pool.open_group(2):
        before = pool.snapshot()
        with pytest.raises(pp.GroupError, match="close it first"):
            pool.open_group(1)
        assert pool.snapshot() == before
        assert pool.stats().refusals["open_group"] == 1
    assert pool.open_group(8).remaining == 8


def test_a_with_block_closes_also_on_errors(pool: SlotPool) -> None:
    group = pool.open_group(4)
    group.take(1)
    with pytest.raises(KeyError), group:
        raise KeyError
    assert not group.is_open
    assert pool.capacity() == 7
    with pool.open_group(2) as group:
        group.close()
    assert pool.capacity() == 7


@pytest.mark.parametrize("end", ["close", "clear"])
def test_a_dead_group_stays_dead(pool: SlotPool, end: str) -> None:
    with pool.open_group(3) as group:
        group.close() if end == "close" else pool.clear()
        pool.alloc(2)
        with pool.open_group(1) as other:
            before = pool.snapshot()
            for call in (group.close, lambda: group.take(1), lambda: group.take(0)):
                with pytest.raises(pp.GroupError, match="closed"):
                    call()
            assert pool.snapshot() == before
            assert (pool.stats().refusals["take"], pool.stats().refusals["close_group"]) == (2, 1)
            assert (group.remaining, group.is_open) == (0, False)
            assert (other.remaining, other.is_open) == (1, True)
    assert pool.check() == []


def test_a_group_shows_its_figures(pool: SlotPool) -> None:
    group = pool.open_group(3)
    assert repr(group) == "Group(remaining=3)"
    group.close()
    assert repr(group) == "Group(closed)"


def test_the_peak_counts_what_is_held_back(pool: SlotPool) -> None:
    with pool.open_group(6):
        pass
    assert pool.stats().peak == 6
