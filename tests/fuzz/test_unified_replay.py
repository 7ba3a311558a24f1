"""Request traces through a unified pool: what a replay shows, and that it would notice."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from poolproof.errors import LayoutError
from poolproof.fuzz.block_cache import Block, BlockCache
from poolproof.fuzz.counted_pool import CountedPool
from poolproof.fuzz.errors import SettingError
from poolproof.fuzz.model_shape import Shape, full_shape, small_shape
from poolproof.fuzz.mooncake import Request, read_requests
from poolproof.fuzz.synthetic import make_requests
from poolproof.fuzz.unified_replay import replay_unified
from poolproof.fuzz.unified_result import UnifiedResult
from poolproof.page_table import PageTable
from poolproof.sub_pools import resolve

REAL = os.environ.get("POOLPROOF_MOONCAKE_TRACE", "")
HYBRID, WINDOW = "Qwen3-Next-80B-A3B", "Gemma-3-12B"
GIB = 1 << 30
SMALL = [
    Request(0, 1500, 800, (1, 2, 3)),
    Request(0, 1024, 300, (4, 5)),
    Request(30_000, 2100, 600, (1, 2, 6, 7, 8)),
    Request(31_000, 3000, 100, (4, 5, 9, 10, 11, 12)),
    Request(60_000, 900, 2000, (13, 14)),
    Request(90_000, 2100, 10, (1, 2, 6, 7, 15)),
    Request(90_001, 2600, 700, (1, 2, 6, 7, 16, 17)),
]


def without_time(result: UnifiedResult) -> dict[str, Any]:
    """All that a replay determines."""
    plain = result.plain()
    del plain["seconds"]
    return plain


@pytest.mark.parametrize(
    ("model", "size"),
    [(HYBRID, 5 * GIB), ("Kimi-Linear-48B-A3B", 2 * GIB), (WINDOW, 14 * GIB), ("gpt-oss-20b", 5 * GIB)],
)
def test_under_pressure_blocks_are_evicted_and_pages_move_and_nothing_is_violated(model: str, size: int) -> None:
    result = replay_unified(make_requests(200, 1), model, total_bytes=size, check_every=20)
    assert result.violations == []
    assert result.passed
    assert (result.done, result.refusals) == (200, 0)
    assert min(result.evictions, result.compactions, result.hits, result.waits) > 0
    assert result.checks >= result.steps // 20 + 2
    assert result.peak_bytes <= size
    assert result.peak_bytes <= sum(result.peak_by_kind.values())
    assert all(pages > 0 for pages in result.peak.values()), "every kind was used"
    assert sum(result.moved.values()) >= result.compactions >= result.urgent


def test_states_and_checkpoints_share_the_buffer_with_pages() -> None:
    result = replay_unified(make_requests(200, 1), HYBRID, total_bytes=5 * GIB)
    assert set(result.peak) == {"full", "state", "checkpoint"}
    assert result.urgent > 0
    assert result.checkpoints > 0
    assert result.moved["checkpoint"] > 0, "the float gave way"


def test_a_replay_is_determined_by_its_trace() -> None:
    runs = [replay_unified(make_requests(120, 5), HYBRID, total_bytes=6 * GIB) for _ in range(2)]
    assert without_time(runs[0]) == without_time(runs[1])
    other = replay_unified(make_requests(120, 6), HYBRID, total_bytes=6 * GIB)
    assert without_time(other) != without_time(runs[0])


def test_a_prompt_is_taken_over_up_to_the_end_of_an_earlier_one() -> None:
    first, longer = Request(0, 1024, 1, (1, 2)), Request(60_000, 1536, 1, (1, 2, 3))
    other = Request(120_000, 1536, 1, (1, 4, 5))
    result = replay_unified([first, longer, other], HYBRID)
    assert (result.blocks, result.hits) == (8, 2), "a state is kept at the end of a prompt, not inside it"


def test_one_token_at_least_is_computed() -> None:
    again = [Request(0, 1024, 1, (1, 2)), Request(60_000, 1024, 1, (1, 2))]
    assert replay_unified(again, HYBRID).hits == 0, "no state is kept one block before the end"
    assert replay_unified(again, "gpt-oss-20b").hits == 0, "nor are the window's pages"
    longer = [again[0], Request(60_000, 1025, 1, (1, 2, 3))]
    assert replay_unified(longer, "gpt-oss-20b").hits == 2


def test_a_request_that_not_even_an_empty_pool_can_hold_is_refused_and_the_others_run() -> None:
    large = Request(1, 120_000, 10, tuple(range(10, 245)))
    result = replay_unified([Request(0, 600, 20, (1, 2)), large, Request(2, 600, 20, (3, 4))], HYBRID, total_bytes=GIB)
    assert result.passed
    assert (result.done, result.refusals, result.waits) == (2, 1, 0)


def test_a_budget_that_holds_no_request_is_an_error_with_numbers() -> None:
    large = Request(0, 120_000, 10, tuple(range(235)))
    with pytest.raises(SettingError, match=r"a buffer of 1073741824 bytes.*none of 1 requests.*7501 of 'full'"):
        replay_unified([large], HYBRID, total_bytes=GIB)


def test_a_budget_that_holds_no_page_is_an_error_with_numbers() -> None:
    with pytest.raises(LayoutError, match=r"a buffer of 1000000 bytes is too small.*state 77266944"):
        replay_unified([SMALL[0]], HYBRID, total_bytes=1_000_000)


@pytest.mark.parametrize(
    ("change", "said"),
    [({"page_size": 48}, "48 tokens"), ({"max_batch": 0}, "max_batch = 0"), ({"check_every": 0}, "check_every = 0")],
)
def test_settings_out_of_range_are_errors(change: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingError, match=said):
        replay_unified(SMALL, HYBRID, **change)


def test_an_unknown_model_is_an_error_that_lists_the_shipped_ones() -> None:
    with pytest.raises(LayoutError, match="no model 'x' is shipped; shipped: Qwen3-Next"):
        replay_unified(SMALL, "x")


def test_more_ranks_hold_more_requests() -> None:
    one, four = (replay_unified(make_requests(60, 2), HYBRID, total_bytes=5 * GIB, tp=tp) for tp in (1, 4))
    assert one.page_bytes["state"] == 4 * four.page_bytes["state"]
    assert four.waits < one.waits


def test_the_batch_is_limited() -> None:
    result = replay_unified(make_requests(60, 2), HYBRID, max_batch=3)
    assert result.passed
    assert result.most_running == 3
    assert result.waits == 0, "it is not room that they wait for"


# ----------------------------------------------------------------------------------------------- the spec in lockstep


@pytest.mark.parametrize(("model", "size"), [(HYBRID, 64), (WINDOW, 128), ("gpt-oss-20b", 40)])
def test_the_spec_follows_a_small_replay(model: str, size: int) -> None:
    result = replay_unified(SMALL, model, total_bytes=size, check_every=1, shadow=True)
    assert result.violations == []
    assert result.passed
    assert (result.done, result.refusals) == (len(SMALL), 0)
    assert min(result.hits, result.evictions, result.compactions) > 0


def test_small_pages_keep_the_proportions_and_the_chain() -> None:
    large, small = resolve(full_shape(HYBRID).sub_pools), resolve(small_shape(HYBRID).sub_pools)
    assert [(s.name, s.kind, s.grows) for s in small] == [(s.name, s.kind, s.grows) for s in large]
    assert [s.page_bytes for s in small] == [2, 3, 12]
    assert [round(2 * s.page_bytes / (32 * large[0].page_bytes), 1) for s in large[1:]] == [3.4, 12.3]


# ------------------------------------------------------------------------------------------------- it would notice


def test_a_grant_that_cannot_be_kept_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        CountedPool, "fits", lambda self, demand: self.pool.fits(demand)
    )  # what is promised is forgotten
    result = replay_unified(make_requests(200, 1), HYBRID, total_bytes=5 * GIB)
    assert not result.passed
    assert [(v.theorem, v.name) for v in result.violations] == [("I4", "what_fits_is_to_be_had")]
    assert "sub-pool 'full'" in result.violations[0].text


def test_ids_that_are_lost_are_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    push = PageTable.push_ids
    monkeypatch.setattr(PageTable, "push_ids", lambda self, ids: push(self, ids[1:] if len(ids) > 3 else ids))
    result = replay_unified(make_requests(20, 1), HYBRID)
    assert not result.passed
    assert result.violations


def test_the_spec_notices_a_page_that_was_not_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PageTable, "trim", lambda self: None)
    add = PageTable._add_holes
    monkeypatch.setattr(PageTable, "_add_holes", lambda self, pages: add(self, pages[1:]))
    result = replay_unified(SMALL, HYBRID, total_bytes=64, shadow=True)
    assert [violation.theorem for violation in result.violations] == ["spec"]


# -------------------------------------------------------------------------------------------------------- the cache


def block(shape: Shape, first: int, windowed: int = 0, checkpoint: int = 0) -> Block:
    """A block with the ids from `first` on."""
    return Block(np.arange(first, first + shape.block_pages), windowed, checkpoint)


def test_the_cache_evicts_the_longest_unused_first_and_of_a_prompt_the_deepest_block() -> None:
    shape = full_shape("Qwen3-Next-80B-A3B")
    cache = BlockCache(shape)
    for number, first in ((10, 1), (11, 101), (20, 201)):
        cache.insert(number, block(shape, first, checkpoint=number))
    assert cache.evict(3) == []
    cache.unpin([10, 11])
    cache.unpin([20])
    assert cache.idle_pages == {"full": 96, "window": 0, "checkpoint": 3}
    cache.pin([10])
    assert cache.evictable == 2
    assert [gone.checkpoint for gone in cache.evict(1)] == [11]
    cache.unpin([10])
    assert [gone.checkpoint for gone in cache.evict(9)] == [20, 10]
    assert len(cache) == 0
    assert set(cache.idle_pages.values()) == {0}


def test_a_state_is_needed_at_the_end_of_what_is_taken_over() -> None:
    shape = full_shape(HYBRID)
    cache = BlockCache(shape)
    cache.insert(1, block(shape, 1, checkpoint=1))
    cache.insert(2, block(shape, 101))
    assert cache.deepest([1, 2, 3]) == 1
    assert cache.deepest([2]) == 0
    assert cache.deepest([3, 1]) == 0


def test_a_whole_window_is_needed_at_the_end_of_what_is_taken_over() -> None:
    shape = full_shape(WINDOW)  # its window reaches back two blocks
    cache = BlockCache(shape)
    for number, windowed in ((1, 32), (2, 32), (3, 16), (4, 32)):
        cache.insert(number, block(shape, 100 * number, windowed))
    assert cache.deepest([1, 2, 3, 4]) == 2
    assert cache.deepest([1]) == 1


@pytest.mark.skipif(not REAL, reason="no Mooncake trace; set POOLPROOF_MOONCAKE_TRACE to its file")
def test_the_head_of_a_real_trace_is_replayed_without_a_violation() -> None:
    result = replay_unified(read_requests(Path(REAL), limit=500), HYBRID, total_bytes=16 * GIB, check_every=50)
    assert result.passed
    assert (result.done, result.refusals) == (500, 0)
    assert min(result.evictions, result.compactions, result.hits, result.waits) > 0
