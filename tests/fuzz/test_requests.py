"""Request traces: reading, refusing, making up, and replaying them."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from poolproof.fuzz.errors import SettingError, TraceError
from poolproof.fuzz.mooncake import BLOCK_TOKENS, Request, read_requests, write_requests
from poolproof.fuzz.prefix_cache import PrefixCache
from poolproof.fuzz.replay import replay_requests
from poolproof.fuzz.synthetic import make_requests
from poolproof.slot_pool import SlotPool
from poolproof.spec.arithmetic import ceil_div

REAL = Path(
    os.environ.get("POOLPROOF_MOONCAKE_TRACE")
    or Path(__file__).resolve().parents[3] / "shared" / "data" / "conversation_trace.jsonl.gz"
)
GOOD = {"timestamp": 5, "input_length": 600, "output_length": 3, "hash_ids": [1, 2]}


@pytest.mark.parametrize("name", ["trace.jsonl", "trace.jsonl.gz"])
def test_a_request_trace_is_read_back_as_it_was_written(name: str, tmp_path: Path) -> None:
    requests = make_requests(50, 1)
    write_requests(requests, tmp_path / name)
    assert read_requests(tmp_path / name) == requests
    assert read_requests(tmp_path / name, limit=7) == requests[:7]


def test_gzip_is_told_by_the_content(tmp_path: Path) -> None:
    path = tmp_path / "no-suffix"
    path.write_bytes(gzip.compress(json.dumps(GOOD).encode()))
    assert read_requests(path) == [Request(5, 600, 3, (1, 2))]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"input_length": None}, "input_length"),
        ({"hash_ids": None}, "missing required field `hash_ids`"),
        ({"output_length": -1}, "output_length"),
        ({"timestamp": -1}, "timestamp"),
        ({"input_length": 0, "hash_ids": []}, "input_length"),
        ({"input_length": 513.5}, "input_length"),
        ({"hash_ids": [1]}, "1 hash_ids for 600 tokens, which fill 2 blocks"),
        ({"hash_ids": [1, 1]}, "twice"),
        ({"hash_ids": [1, "x"]}, "hash_ids"),
        ({"timestamp": 4}, "timestamp 4 lies before 5"),
    ],
)
def test_a_corrupt_request_is_an_error_with_its_line(change: dict[str, Any], reason: str, tmp_path: Path) -> None:
    bad = {name: value for name, value in {**GOOD, **change}.items() if value is not None}
    path = tmp_path / "trace.jsonl"
    path.write_text(f"{json.dumps(GOOD)}\n\n{json.dumps(bad)}\n")
    with pytest.raises(TraceError, match=reason) as found:
        read_requests(path)
    assert found.value.line == 3


def test_bad_json_a_cut_gzip_and_an_empty_file_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(json.dumps(GOOD) + "\n{")
    with pytest.raises(TraceError, match="no request"):
        read_requests(path)
    path.write_bytes(gzip.compress(json.dumps(GOOD).encode() * 50)[:-20])
    with pytest.raises(TraceError, match="gzip"):
        read_requests(path)
    path.write_text("\n")
    with pytest.raises(TraceError, match="no requests"):
        read_requests(path)


def test_made_up_traces_are_determined_by_the_seed_and_look_like_traffic() -> None:
    requests = make_requests(2_000, 3)
    assert requests == make_requests(2_000, 3)
    assert requests != make_requests(2_000, 4)
    for request in requests:
        assert len(request.hash_ids) == ceil_div(request.input_length, BLOCK_TOKENS)
    blocks = [block for request in requests for block in request.hash_ids]
    assert 0.2 < 1 - len(set(blocks)) / len(blocks) < 0.9
    lengths = sorted(request.input_length for request in requests)
    assert lengths[-20] > 6 * lengths[1000]
    with pytest.raises(SettingError):
        make_requests(0, 1)


def test_the_cache_evicts_in_lru_order_and_never_what_is_pinned() -> None:
    cache = PrefixCache()
    cache.insert([10, 11], [1, 2])
    cache.insert([20], [3])
    assert cache.longest_prefix([10, 11, 12]) == 2
    assert cache.longest_prefix([11]) == 1
    assert cache.longest_prefix([9, 10]) == 0
    cache.pin([10])
    assert cache.evictable == 2
    assert cache.evict(1) == [2], "of one prompt the deepest block goes first"
    cache.unpin([10])
    assert cache.evict(2) == [3, 1]
    assert len(cache) == 0


def test_a_shared_prefix_hits_once_its_first_request_is_over() -> None:
    again = Request(100_000, 1024, 1, (1, 2))
    requests = [Request(0, 1024, 1, (1, 2)), Request(1, 1024, 1, (1, 2)), again]
    result = replay_requests(requests, slots=16)
    assert result.passed
    assert (result.blocks, result.hits, result.refusals, result.evictions) == (6, 2, 0, 0)
    assert result.peak == 6, "two requests at once, two blocks and one for the output each"


def test_a_request_that_cannot_fit_is_refused_and_evicts_nothing() -> None:
    requests = [Request(0, 512, 0, (1,)), Request(900_000, 5120, 0, tuple(range(10, 20)))]
    result = replay_requests(requests, slots=4)
    assert result.passed
    assert (result.refusals, result.evictions) == (1, 0)


def test_a_small_pool_evicts_and_refuses_and_keeps_to_the_spec() -> None:
    result = replay_requests(make_requests(400, 1), slots=700, full_every=50)
    assert result.passed
    assert result.evictions > 0
    assert result.refusals > 0
    assert result.hits > 0
    assert result.peak <= 700


def test_a_pool_that_departs_from_the_spec_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    free = SlotPool.free

    def keeps_one(self: SlotPool, ids: Any, holder: int = 0) -> None:
        free(self, ids[1:] if len(ids) > 3 else ids, holder)

    monkeypatch.setattr(SlotPool, "free", keeps_one)
    result = replay_requests(make_requests(400, 1), slots=700)
    assert not result.passed
    assert len(result.violations) == 1
    assert result.violations[0].theorem


@pytest.mark.skipif(not REAL.exists(), reason="no Mooncake trace; set POOLPROOF_MOONCAKE_TRACE to its file")
def test_the_head_of_a_real_trace_is_replayed_without_a_violation() -> None:
    requests = read_requests(REAL, limit=800)
    result = replay_requests(requests, slots=4_096)
    assert result.passed
    assert result.requests == 800
    assert result.evictions > 0
