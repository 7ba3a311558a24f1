"""Request traces through a prefix cache: what a replay shows, and that it would notice."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from poolproof.cached_request import CachedRequest
from poolproof.checkpoint_nodes import CheckpointNodes
from poolproof.errors import LayoutError
from poolproof.fuzz.cache_replay import replay_cache, tokens_of
from poolproof.fuzz.cache_replay_result import CacheResult, CacheSetting
from poolproof.fuzz.errors import SettingError
from poolproof.fuzz.mooncake import Request, read_requests
from poolproof.fuzz.synthetic import make_requests
from poolproof.page_errors import BufferExhausted
from poolproof.state_cache import StateCache

REAL = os.environ.get("POOLPROOF_MOONCAKE_TRACE", "")
HYBRID = "Qwen3-Next-80B-A3B"
GIB = 1 << 30
SETTING = CacheSetting(HYBRID, 5 * GIB, check_every=10)
ONE_AFTER_ANOTHER = [
    Request(0, 1500, 40, (1, 2, 3)),
    Request(10_000, 2100, 40, (1, 2, 6, 7, 8)),
    Request(20_000, 2560, 40, (1, 2, 6, 7, 9)),
    Request(30_000, 1024, 40, (1, 2)),
    Request(40_000, 300, 40, (10,)),
]
"""All requests end before the next one arrives."""


def without_time(result: CacheResult) -> dict[str, Any]:
    """All that a replay determines."""
    plain = result.plain()
    del plain["seconds"]
    return plain


def test_tokens_follow_from_the_blocks() -> None:
    first, second = (tokens_of(request) for request in ONE_AFTER_ANOTHER[:2])
    assert (len(first), len(second)) == (1500, 2100)
    assert np.array_equal(first[:1024], second[:1024])
    assert not np.isin(first[1024:], second).any()
    assert len(set(second.tolist())) == 2100


@pytest.mark.parametrize(
    ("policy", "every", "prompt", "stops"),
    [
        ("blocks", 0, 2100, [512, 1024, 1536, 2048]),
        ("blocks", 3, 2100, [1536]),
        ("blocks", 3, 3072, [1536, 3072]),
        ("ends", 0, 2100, [2048]),
        ("ends", 0, 2048, [2048]),
        ("both", 3, 2100, [1536, 2048]),
        ("both", 0, 4096, [4096]),
        ("both", 0, 9000, [4096, 8192, 8704]),
        ("blocks", 0, 511, []),
        ("both", 0, 511, []),
    ],
)
def test_a_policy_says_where_prompts_are_given_checkpoints(
    policy: Any, every: int, prompt: int, stops: list[int]
) -> None:
    assert replace(SETTING, policy=policy, every=every).stops(prompt) == stops


@pytest.mark.parametrize(
    ("policy", "every", "cached", "kept"),
    [
        # Of the fourth prompt, which is all known, one token is left out: its first block is hit, where that is kept.
        ("blocks", 1, 1024 + 2048 + 512, 2 + 2 + 1),
        ("ends", 0, 1024 + 2048, 1 + 1 + 1),
        ("both", 3, 1024 + 2048, 1 + 2 + 1),
    ],
)
def test_what_is_hit_and_stored_is_as_the_policy_has_it(policy: Any, every: int, cached: int, kept: int) -> None:
    result = replay_cache(ONE_AFTER_ANOTHER, replace(SETTING, policy=policy, every=every))
    assert result.passed
    assert (result.cached_tokens, result.kept, result.deduplicated, result.evictions) == (cached, kept, 1, 0)
    assert result.prompt_tokens == sum(request.input_length for request in ONE_AFTER_ANOTHER)
    assert result.prefilled_tokens == result.prompt_tokens - cached
    assert result.cached_at_end == kept


@pytest.mark.parametrize(
    ("model", "size", "static", "checkpoints"),
    [
        (HYBRID, 5 * GIB, None, "int8"),
        (HYBRID, 5 * GIB, None, "none"),
        (HYBRID, 5 * GIB, 0.25, "int8"),
        (HYBRID, 5 * GIB, 0.25, "none"),
        ("Kimi-Linear-48B-A3B", 2 * GIB, None, "int8"),
        ("Nemotron-H-8B", 4 * GIB, 0.25, "none"),
    ],
)
def test_under_pressure_the_cache_gives_way_and_nothing_is_violated(
    model: str, size: int, static: float | None, checkpoints: Any
) -> None:
    setting = replace(SETTING, model=model, total_bytes=size, static=static, checkpoints=checkpoints, every=4)
    result = replay_cache(make_requests(120, 1), setting)
    assert result.violations == []
    assert result.passed
    assert (result.done, result.refusals) == (120, 0)
    assert min(result.evictions, result.hits, result.waits, result.kept) > 0
    assert result.checks >= result.steps // 10 + 2
    assert set(result.peak) == {"full", "state", "checkpoint", "together"}
    assert max(result.peak.values()) == result.peak["together"] <= size
    assert result.peak["checkpoint"] <= (result.static_bytes or size)
    assert result.kept - result.evictions == result.cached_at_end


def test_plain_copies_take_the_bytes_of_a_state_and_the_factor_is_exact() -> None:
    plain, codes = (replay_cache(ONE_AFTER_ANOTHER, replace(SETTING, checkpoints=c)) for c in ("none", "int8"))
    assert plain.page_bytes["checkpoint"] == plain.state_bytes
    assert plain.capacity_factor == 1
    assert codes.capacity_factor == Fraction(134, 71)
    assert codes.state_bytes * 71 == codes.page_bytes["checkpoint"] * 134


def test_at_equal_bytes_smaller_checkpoints_hit_more() -> None:
    requests = make_requests(150, 3)
    hits = [
        replay_cache(requests, replace(SETTING, checkpoints=codec, total_bytes=6 * GIB)).cached_tokens
        for codec in ("none", "int8")
    ]
    assert hits[0] < hits[1]


def test_a_split_has_the_bytes_of_one_buffer() -> None:
    split = replay_cache(ONE_AFTER_ANOTHER, replace(SETTING, static=0.25))
    assert split.passed
    assert split.static_bytes % split.page_bytes["checkpoint"] == 0
    assert 0 <= 5 * GIB // 4 - split.static_bytes < split.page_bytes["checkpoint"]


@pytest.mark.parametrize("setting", [SETTING, replace(SETTING, policy="both", static=0.5, checkpoints="none")])
def test_the_same_trace_is_replayed_the_same_way(setting: CacheSetting) -> None:
    requests = make_requests(60, 7)
    assert without_time(replay_cache(requests, setting)) == without_time(replay_cache(requests, setting))


def test_a_request_too_large_for_the_pools_is_refused_and_the_others_run() -> None:
    requests = [Request(0, 300_000, 10, tuple(range(586))), *ONE_AFTER_ANOTHER[1:]]
    result = replay_cache(requests, SETTING)
    assert result.passed
    assert (result.refusals, result.done) == (1, 4)


def test_requests_without_output_and_without_a_full_block_run() -> None:
    requests = [Request(0, 1, 0, (0,)), Request(0, 512, 0, (1,)), Request(0, 512, 1, (1,)), Request(0, 513, 0, (1, 2))]
    result = replay_cache(requests, SETTING)
    assert result.passed
    assert (result.done, result.cached_tokens, result.kept, result.deduplicated) == (4, 512, 1, 1)


def test_a_token_that_is_computed_takes_its_time() -> None:
    slow, fast = (replay_cache(ONE_AFTER_ANOTHER[:1], replace(SETTING, prefill_us=us)) for us in (1000.0, 0.0))
    assert slow.virtual_seconds - fast.virtual_seconds == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model": "nothing"}, "no model 'nothing'"),
        ({"model": "gpt-oss-20b"}, "no recurrent states"),
        ({"policy": "all"}, "policy = 'all'"),
        ({"checkpoints": "fp8"}, "checkpoints = 'fp8'"),
        ({"state_dtype": "int8"}, "state_dtype"),
        ({"page_size": 48}, "pages of 48"),
        ({"page_size": 1024}, "pages of 1024"),
        ({"static": 0.0}, "static = 0.0"),
        ({"static": 1.0}, "static = 1.0"),
        ({"every": -1}, "every = -1"),
        ({"policy": "ends", "every": 2}, "leave it out"),
        ({"max_batch": 0}, "max_batch = 0"),
        ({"check_every": 0}, "check_every = 0"),
        ({"prefill_us": -1.0}, "prefill_us"),
        ({"prefill_us": float("nan")}, "prefill_us"),
    ],
)
def test_a_setting_out_of_range_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingError, match=said):
        replace(SETTING, **change)


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"static": 0.001}, SettingError, "less than a checkpoint and the sink"),
        ({"total_bytes": 1 << 20}, LayoutError, "too small"),
        ({"total_bytes": 160_000_000}, SettingError, "holds none of 1 requests: the smallest needs 192086016"),
        ({"tp": 3}, LayoutError, "tp = 3"),
    ],
)
def test_pools_that_cannot_be_are_refused(change: dict[str, Any], error: Any, said: str) -> None:
    with pytest.raises(error, match=said):
        replay_cache([Request(0, 6144, 1, tuple(range(12)))], replace(SETTING, **change))


# ------------------------------------------------------------------------------------------------------ it would notice


def leak_pages(patch: pytest.MonkeyPatch) -> None:
    """An abort forgets the pages of the request."""
    given = StateCache._let_go

    def leaky(cache: StateCache, request: CachedRequest) -> None:
        request._pages = request.pages[: request.shared]
        given(cache, request)

    patch.setattr(StateCache, "_let_go", leaky)


def hit_too_much(patch: pytest.MonkeyPatch) -> None:
    """A request is told that it has a page more than it has."""
    init = CachedRequest.__init__

    def boastful(request: CachedRequest, *args: Any) -> None:
        init(request, *args)
        if request.cached:
            request.cached += 64

    patch.setattr(CachedRequest, "__init__", boastful)


def refuse(patch: pytest.MonkeyPatch) -> None:
    """What was promised is not to be had."""

    def refusing(cache: StateCache, request: CachedRequest, length: int) -> Any:
        raise BufferExhausted("full", need=1, have=0, page_bytes=1, reclaimable=0, free_ids=1, slots=1)

    patch.setattr(StateCache, "extend", refusing)


def keep_slots(patch: pytest.MonkeyPatch) -> None:
    """An eviction forgets to free the slot."""
    evict = CheckpointNodes.evict

    def forgetful(states: Any, node: int) -> None:
        free, states.checkpoints._pool._free = states.checkpoints._pool._free, lambda *_: None
        try:
            evict(states, node)
        finally:
            states.checkpoints._pool._free = free

    patch.setattr(CheckpointNodes, "evict", forgetful)


@pytest.mark.parametrize(
    ("fault", "claim"),
    [
        (leak_pages, "every_page_has_one_owner"),
        (hit_too_much, "a_hit_is_of_a_prefix_that_was_kept"),
        (refuse, "what_fits_is_to_be_had"),
        (keep_slots, "exactly_cached_slots_have_a_node"),
    ],
)
def test_a_faulty_cache_is_found(
    fault: Callable[[pytest.MonkeyPatch], None], claim: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault(monkeypatch)
    result = replay_cache(ONE_AFTER_ANOTHER, SETTING)
    assert not result.passed
    assert claim in {violation.name for violation in result.violations}


@pytest.mark.skipif(not REAL, reason="POOLPROOF_MOONCAKE_TRACE names no trace")
@pytest.mark.parametrize("static", [None, 0.125])
def test_the_real_trace(static: float | None) -> None:
    setting = CacheSetting(HYBRID, 64 * GIB, policy="ends", static=static, prefill_us=2.5)
    result = replay_cache(read_requests(Path(REAL), 1500), setting)
    assert result.violations == []
    assert result.done == 1500
    assert result.evictions > 0
