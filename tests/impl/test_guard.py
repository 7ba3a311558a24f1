"""Guard mode: every kind of stray access is found and named, and nothing else is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

import poolproof as pp
from poolproof.guard_layout import POISON, guarded
from poolproof.sub_pools import resolve

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
DEVICES = ["cpu", pytest.param("cuda", marks=[pytest.mark.gpu, needs_cuda])]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    """Where the pool is."""
    return str(request.param)


def declarations(zero: Any = "on_handout") -> list[Any]:
    """Keys and values of 128 bytes a page that grow up, a float of 100, states of 256 that grow down."""
    return [
        pp.KVPages("full", layers=1, kv_heads=1, head_dim=8, dtype="bfloat16", page_size=4, grows="up", zero=zero),
        pp.Pages("float", bytes=100, grows="float", zero="never"),
        pp.Pages("state", bytes=256, grows="down", zero=zero),
    ]


def make(device: str, zero: Any = "on_handout", **options: Any) -> pp.UnifiedPool:
    """A pool with a guard."""
    return pp.UnifiedPool(16384, declarations(zero), device=device, guard=True, **options)


def body(pool: pp.UnifiedPool, name: str, page: int) -> Any:
    """The bytes of a page, without its zone."""
    layout = pool[name].layout
    guard = pool._guard
    assert guard is not None
    return pool.buffer[page * layout.page_bytes : page * layout.page_bytes + guard.zones[layout.chain_index].body]


def written(pool: pp.UnifiedPool, **ids: Any) -> None:
    """A step that writes, over at once."""
    step = pool.begin_step(writes=ids)
    for name, pages in step.writes.items():
        for page in pages.tolist():
            body(pool, name, page)[:] = 7
    step.launched()
    step.complete()
    step.retire()


def told(pool: pp.UnifiedPool) -> None:
    """Whatever is due is done."""
    step = pool.begin_step()
    step.launched()
    step.complete()
    step.retire()


def overrun(pool: pp.UnifiedPool, beyond: int = 0) -> tuple[Any, int]:
    """Three pages of the float are written, the second one's zone too: their ids, and that page."""
    ids = pool["float"].alloc(3)
    written(pool, float=ids)
    page, size = int(pool["float"].physical(ids[1])[0]), pool["float"].layout.page_bytes
    pool.buffer[page * size + 100 + beyond] += 1
    return ids, page


def names(pool: pp.UnifiedPool) -> Sequence[str]:
    """What is wrong, by name."""
    return [violation.name for violation in pool.check()]


def test_a_healthy_pool_has_nothing_to_find(device: str) -> None:
    pool = make(device, shadow=True)
    full, flying = pool["full"].alloc(6), pool["float"].alloc(5)
    written(pool, full=full, float=flying)
    pool["full"].free(full[[0, 2, 4]])
    assert pool.compact(urgent=True)
    state = pool["state"].alloc(3)
    told(pool)
    assert all(int(body(pool, "state", page).sum()) == 0 for page in pool["state"].physical(state).tolist())
    pool["float"].free(flying)
    written(pool, full=full[[1, 3, 5]], state=state)
    assert names(pool) == []
    pool.clear()
    assert names(pool) == []
    written(pool, full=pool["full"].alloc(4))
    assert names(pool) == []


@pytest.mark.parametrize("beyond", [0, 1, 15, 40])
def test_a_write_beyond_a_page_is_found(device: str, beyond: int) -> None:
    pool = make(device)
    ids, page = overrun(pool, beyond)
    (found,) = pool.check()
    assert found.name == "guard_red_zone"
    assert f"page {page} of 'float'" in found.text
    assert f"id {ids[1]}'s" in found.text
    assert "100 bytes" in found.text


def test_a_write_before_a_page_is_found(device: str) -> None:
    pool = make(device)
    ids = pool["full"].alloc(3)
    written(pool, full=ids)
    page, size = int(pool["full"].physical(ids[2])[0]), pool["full"].layout.page_bytes
    pool.buffer[page * size - 1] = 0
    assert names(pool) == ["guard_red_zone"]


def test_a_write_after_a_free_is_found(device: str) -> None:
    pool = make(device)
    ids = pool["full"].alloc(4)
    written(pool, full=ids)
    page = int(pool["full"].physical(ids[1])[0])
    pool["full"].free(ids[1:2])
    told(pool)
    body(pool, "full", page)[3] = 0
    (found,) = pool.check()
    assert found.name == "guard_poison"
    assert f"page {page} of 'full'" in found.text


def test_a_write_after_a_free_is_found_when_the_page_is_given_away_again(device: str) -> None:
    pool = make(device)
    ids = pool["full"].alloc(4)
    written(pool, full=ids)
    page = int(pool["full"].physical(ids[1])[0])
    pool["full"].free(ids[1:2])
    told(pool)
    body(pool, "full", page)[3] = 0
    again = pool["full"].alloc(1)
    written(pool, full=again)
    assert pool["full"].physical(again).tolist() == [page]
    assert names(pool) == ["guard_poison"]
    assert names(pool) == []


def test_a_red_zone_that_was_written_is_found_after_the_free(device: str) -> None:
    pool = make(device)
    ids = overrun(pool)[0]
    pool["float"].free(ids)
    told(pool)
    assert names(pool) == ["guard_red_zone"]


def test_a_write_to_a_page_that_has_moved_is_found(device: str) -> None:
    pool = make(device)
    ids = pool["full"].alloc(4)
    written(pool, full=ids)
    stale = int(pool["full"].physical(ids[3])[0])
    pool["full"].free(ids[:1])
    (move,) = pool.compact(urgent=True)
    assert move.sources.tolist() == [stale]
    told(pool)
    body(pool, "full", stale)[0] = 0
    assert names(pool) == ["guard_poison"]


def test_reads_of_freed_moved_and_unwritten_pages_are_no_numbers(device: str) -> None:
    pool = make(device, zero="never")
    ids = pool["full"].alloc(4)
    written(pool, full=ids)
    old = pool["full"].physical(ids)
    keys = pool.views("full").k[0]
    assert not keys[torch.from_numpy(old).to(device)].isnan().any()
    pool["full"].free(ids[:1])
    pool.compact(urgent=True)
    told(pool)
    assert keys[int(old[3])].isnan().all(), "it has moved to the hole"
    fresh = pool["full"].alloc(2)
    told(pool)
    assert keys[torch.from_numpy(pool["full"].physical(fresh)).to(device)].isnan().all()


def test_a_write_to_bytes_of_no_sub_pool_is_found(device: str) -> None:
    pool = make(device)
    written(pool, full=pool["full"].alloc(2))
    pool.buffer[9000] = 1
    (found,) = pool.check()
    assert found.name == "guard_poison"
    assert "byte 9000" in found.text


def test_the_sink_may_be_written(device: str) -> None:
    pool = make(device)
    written(pool, full=pool["full"].alloc(2))
    pool.buffer[: pool.sink_bytes] = 3
    assert names(pool) == []


def tokens_of(pool: pp.UnifiedPool, ids: Any, device: str) -> tuple[Any, Any]:
    """The last token of each id, and where it lies."""
    tokens = torch.from_numpy(np.asarray(ids) * 4 + 3).to(device)
    return tokens, pool["full"].translate(tokens)


def test_verify_finds_pages_that_moved(device: str) -> None:
    pool = make(device)
    ids = pool["full"].alloc(4)
    written(pool, full=ids)
    tokens, physical = tokens_of(pool, ids, device)
    pool["full"].verify(tokens, physical)
    pool["full"].verify(torch.full_like(tokens, -1), torch.zeros_like(physical))
    assert names(pool) == []
    pool["full"].free(ids[:1])
    pool.compact(urgent=True)
    told(pool)
    pool["full"].verify(*tokens_of(pool, ids[1:], device))
    assert names(pool) == []
    pool["full"].verify(tokens, physical)
    (found,) = pool.check()
    assert found.name == "guard_tags"
    assert "2 tokens of 'full'" in found.text, "the one that was freed, and the one that has moved to its page"


def test_verify_finds_an_id_that_lives_again(device: str) -> None:
    """The same id on the same page, bound anew: only the time of the bind tells."""
    pool = make(device)
    ids = pool["full"].alloc(2)
    written(pool, full=ids)
    tokens, physical = tokens_of(pool, ids, device)
    step = pool.begin_step(reads={"full": ids})
    pool["full"].verify(tokens, physical, step)
    step.launched()
    step.complete()
    assert names(pool) == []
    pool["full"].free(ids)
    again = pool["full"].alloc(2)
    written(pool, full=again)
    assert sorted(again.tolist()) == sorted(ids.tolist())
    now = tokens_of(pool, again, device)
    pool["full"].verify(*now)
    assert names(pool) == []
    pool["full"].verify(*now, step)
    assert names(pool) == ["guard_tags"]


def test_pages_that_an_open_step_may_write_are_not_poisoned() -> None:
    """Two steps at home begin before either is launched; what the second was given meanwhile, it may write."""
    pool = make("cpu", zero="never")
    written(pool, full=pool["full"].alloc(1))
    first = pool.begin_step()
    ids = pool["full"].alloc(2)
    second = pool.begin_step(writes={"full": ids})
    first.launched()
    for page in second.writes["full"].tolist():
        body(pool, "full", page)[:] = 9
    second.launched()
    first.complete()
    second.complete()
    told(pool)
    assert all(int(body(pool, "full", page)[0]) == 9 for page in pool["full"].physical(ids).tolist())
    assert names(pool) == []


def test_a_leased_page_is_poisoned_before_the_lease_or_not_at_all(device: str) -> None:
    pool = make(device, zero="never")
    ids = pool["full"].alloc(2)
    lease = pool.lease("full", ids, "rdma")
    for page in lease.physical.tolist():
        body(pool, "full", page)[:] = 5
    told(pool)
    assert all(int(body(pool, "full", page)[0]) == 5 for page in lease.physical.tolist())
    pool["full"].free(ids)
    told(pool)
    assert int(body(pool, "full", int(lease.physical[0]))[0]) == 5, "kept until the release"
    lease.release()
    told(pool)
    assert int(body(pool, "full", int(lease.physical[0]))[0]) == POISON
    assert names(pool) == []


def test_views_and_token_rows_leave_the_zones_out() -> None:
    from poolproof.page_views import token_rows

    plain = resolve(declarations())[0]
    wide, zone = guarded(plain)
    assert wide.page_bytes == zone.page_bytes >= plain.page_bytes + 64
    assert zone.body == plain.page_bytes
    pool = make("cpu")
    assert token_rows(pool.buffer, pool["full"].layout, "k").rows_per_page * 16 == pool["full"].layout.page_bytes
    pages = pool["full"].alloc(3)
    views = pool.views("full")
    step = pool.begin_step(writes={"full": pages})
    for page in step.writes["full"].tolist():
        views.k[0][page] = views.v[0][page] = 1.0
    step.launched()
    step.complete()
    assert names(pool) == []


@pytest.mark.parametrize("size", [1, 3, 8, 100, 4096])
def test_zones_lie_behind_pages_of_any_size(size: int) -> None:
    _, zone = guarded(resolve([pp.Pages("a", bytes=size, grows="up")])[0])
    assert zone.body >= size
    assert zone.tag % 8 == 0
    assert zone.page_bytes % 8 == 0
    assert zone.tag + 16 <= zone.page_bytes
    assert zone.page_bytes - zone.body >= 64


def test_what_a_guard_cannot_do_is_refused() -> None:
    with pytest.raises(pp.LayoutError, match="no bytes to look at"):
        pp.UnifiedPool(16384, declarations(), device="meta", guard=True)
    plain = pp.UnifiedPool(16384, declarations())
    tokens = torch.zeros(2, dtype=torch.int64)
    with pytest.raises(ValueError, match="make it with guard=True"):
        plain["full"].verify(tokens, tokens)
    with pytest.raises(ValueError, match="give one for each"):
        make("cpu")["full"].verify(tokens, tokens[:1])


def test_verify_knows_pages_that_were_just_handed_out(device: str) -> None:
    """Before any step, and in a second step at home that began while the first was open."""
    pool = make(device)
    ids = pool["full"].alloc(3)
    pool["full"].verify(*tokens_of(pool, ids, device))
    assert names(pool) == []
    pool = make(device, zero="never")
    written(pool, full=pool["full"].alloc(1))
    first = pool.begin_step()
    ids = pool["full"].alloc(2)
    second = pool.begin_step(writes={"full": ids})
    tokens = torch.from_numpy(ids * 4).to(device)
    physical = torch.from_numpy(second.writes["full"] * 4).to(device)
    first.launched()
    pool["full"].verify(tokens, physical, second)
    second.launched()
    first.complete()
    second.complete()
    assert names(pool) == []


def test_verify_takes_token_ids_of_context_parallel_ranks(device: str) -> None:
    pool = make(device)
    ids = pool["full"].alloc(3)
    written(pool, full=ids)
    tokens = torch.from_numpy((ids * 4 + 1) * 2 + 1).to(device)
    physical = pool["full"].translate(tokens, ranks=2)
    pool["full"].verify(tokens, physical, ranks=2)
    assert names(pool) == []
    pool["full"].verify(tokens, physical)
    assert names(pool) == ["guard_tags"]


def test_a_stray_in_a_hole_is_found_after_a_page_has_moved_there(device: str) -> None:
    pool = make(device)
    ids = pool["full"].alloc(4)
    written(pool, full=ids)
    page = int(pool["full"].physical(ids[0])[0])
    pool["full"].free(ids[:1])
    told(pool)
    body(pool, "full", page)[5] = 0
    (move,) = pool.compact(urgent=True)
    assert move.targets.tolist() == [page]
    assert names(pool) == ["guard_poison"]


def test_a_stray_is_found_after_a_clear(device: str) -> None:
    pool = make(device)
    overrun(pool)
    pool.clear()
    assert names(pool) == ["guard_red_zone"]
    assert names(pool) == []


def test_old_looks_are_counted_where_they_are_no_longer_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poolproof.guard._NOTES", 3)
    pool = make("cpu")
    ids = overrun(pool)[0]
    pool["float"].free(ids)
    for _ in range(8):
        written(pool, float=pool["float"].alloc(1))
    (found,) = pool.check()
    assert "1 pages were wrong at looks so long ago" in found.text


@pytest.mark.gpu
@needs_cuda
def test_a_guard_waits_for_nothing_before_check() -> None:
    pool = make("cuda")
    written(pool, full=pool["full"].alloc(4))
    tokens = torch.arange(4, 20, device="cuda")
    out = torch.empty_like(tokens)

    def work() -> None:
        ids = pool["full"].alloc(5)
        step = pool.begin_step(writes={"full": ids})
        pool["full"].verify(tokens, pool["full"].translate(tokens, out=out), step)
        step.launched()
        step.complete()
        pool["full"].free(ids[::2])
        pool.compact(urgent=True)
        pool.lease("full", ids[1::2], "test").release()
        pool["full"].free(ids[1::2])

    work()  # what takes time is compiled once
    torch.cuda.synchronize()
    torch.cuda._sleep(400_000_000)
    torch.cuda.set_sync_debug_mode("error")
    try:
        work()
        assert not torch.cuda.current_stream().record_event().query(), "the device is far behind"
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert names(pool) == []


@pytest.mark.gpu
@needs_cuda
def test_verify_is_replayed_in_a_graph() -> None:
    pool = make("cuda")
    ids = pool["full"].alloc(4)
    written(pool, full=ids)
    tokens = torch.from_numpy(ids * 4).cuda()
    stale = pool["full"].translate(tokens)
    out = torch.empty_like(tokens)
    warm = torch.cuda.Stream()
    with torch.cuda.stream(warm):
        pool["full"].verify(tokens, pool["full"].translate(tokens, out=out))
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        pool["full"].translate(tokens, out=out)
        pool["full"].verify(tokens, out)
        pool["full"].verify(tokens, stale)
    graph.replay()
    assert names(pool) == []
    pool["full"].free(ids[:1])
    pool.compact(urgent=True)
    told(pool)
    tokens[0] = -1
    graph.replay()
    assert names(pool) == ["guard_tags"], "the stale number of the page that moved; those of the table are right"
