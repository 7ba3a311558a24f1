"""Public faults as sequences of operations on a unified pool: none of them happens. `docs/faults.md` lists them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from buffers import (
    every_kind,
    extent,
    finish,
    holes,
    pending,
    places,
    plain,
    queued,
    read,
    refused,
    rows,
    values,
    with_window,
    write,
)

import poolproof as pp
from poolproof import Pages, UnifiedPool

Scenario = Callable[[], None]
SCENARIOS: dict[str, Scenario] = {}


def fault(*names: str) -> Callable[[Scenario], Scenario]:
    """The reports that a scenario is about, as group and report."""

    def note(scenario: Scenario) -> Scenario:
        SCENARIOS[" ".join(names)] = scenario
        return scenario

    return note


def windowed(page_size: int = 1) -> UnifiedPool:
    """Tokens and their windows, pages of which hold several tokens."""
    sub_pools = [
        pp.KVPages("full", layers=1, kv_heads=1, head_dim=1, dtype="uint8", page_size=page_size),
        pp.WindowPages("window", layers=1, kv_heads=1, head_dim=1, dtype="uint8"),
    ]
    return UnifiedPool(60, sub_pools, shadow=True)


def scrambled(**more: Any) -> tuple[UnifiedPool, np.ndarray]:
    """A pool whose three live ids of "a" have moved since they were written, with the number of each in its page."""
    pool = plain(12, 1, 1, **more)
    ids = pool["a"].alloc(6)
    write(pool, "a", ids, ids)
    pool["a"].free(ids[:3])
    pool["b"].alloc(8)
    assert places(pool, "a", ids[3:]) != ids[3:].tolist()
    return pool, ids[3:]


# ---------------------------------------------------------------------------------------------------- life of a slot


@fault("SLOT", "sglang#26941")
def a_released_handle_is_dead() -> None:
    pool = plain(20, 2, 1)
    ids = pool["a"].alloc(3)
    pool["a"].free(ids)
    for call in (
        lambda: pool["a"].free(ids),
        lambda: pool.begin_step(writes={"a": ids}),
        lambda: pool.lease("a", ids, "reuse"),
    ):
        refused(pool, pp.InvalidPages, call)
    assert pool.stats().used_bytes == 0


@fault("SLOT", "sglang#23496")
def short_sessions_leave_nothing_behind() -> None:
    pool = every_kind()
    capacities = {layout.name: pool.capacity(layout.name) for layout in pool.layouts}
    for _ in range(6):
        given = pool.alloc({"full": 2, "window": 1, "state": 1, "opaque": 1})
        for name in ("full", "state", "opaque"):
            pool[name].free(given[name])
    assert {layout.name: pool.capacity(layout.name) for layout in pool.layouts} == capacities
    assert pool.stats().used_bytes == 0


@fault("SLOT", "sglang#16067")
def a_request_that_is_turned_away_has_taken_nothing() -> None:
    pool = plain(20, 1, 4)
    pool["a"].alloc(14)
    refused(pool, pp.BufferExhausted, lambda: pool.alloc({"b": 1, "a": 1}))
    assert pool["b"].try_alloc(1) is None
    assert pool.stats().sub_pools[1].bound == 0


@fault("SLOT", "sglang#38836")
def no_slot_is_no_id() -> None:
    pool = plain(20, 2, 1)
    ids = pool["a"].alloc(2)
    refused(pool, pp.InvalidPages, lambda: pool["a"].free([-1, ids[0]]))
    pool["a"].free(ids)


@fault("SLOT", "Megatron-LM#6584")
def a_handle_is_a_value() -> None:
    pool = plain(20, 1, 1)
    ids = pool["a"].alloc(4)
    handle, page = ids[:1], pool["a"].physical(ids[:1])
    kept = (handle.tolist(), page.tolist())
    pool["a"].free(ids[1:])
    pool["a"].alloc(2)
    assert (handle.tolist(), page.tolist()) == kept


@fault("SLOT", "LMCache#5005")
def two_callers_never_get_one_page() -> None:
    pool = plain(20, 1, 1)
    first = pool["a"].alloc(1)
    pool["a"].free(first)
    refused(pool, pp.InvalidPages, lambda: pool["a"].free(first))
    second, third = pool["a"].alloc(1), pool["a"].alloc(1)
    assert second.tolist() != third.tolist()
    assert places(pool, "a", second) != places(pool, "a", third)


@fault("SLOT", "vLLM#42571")
def a_page_is_freed_once_within_a_batch() -> None:
    pool = windowed()
    ids = pool.alloc({"full": 3, "window": 3})["full"]
    refused(pool, pp.InvalidPages, lambda: pool["window"].free([ids[1], ids[1]]))
    refused(pool, pp.InvalidPages, lambda: pool["full"].free([*ids, ids[0]]))
    pool["full"].free(ids)
    assert pool.stats().sub_pools[0].free_ids == pool.stats().sub_pools[0].ids


@fault("SLOT", "sglang#31616", "sglang#13826")
def what_is_recorded_is_what_was_given() -> None:
    pool = UnifiedPool(40, [Pages("a", bytes=2, grows="up", page_size=4)], shadow=True)
    recorded, length = pool["a"].extend([0], [0], [3]).tolist(), 3
    for more in (1, 2, 5, 1, 3):
        recorded += pool["a"].extend(recorded[-1:], [length], [length + more]).tolist()
        length += more
        assert len(recorded) == -(-length // 4) == pool.stats().sub_pools[0].bound
    pool["a"].free(recorded)
    assert pool.stats().used_bytes == 0


@fault("SLOT", "LMCache#1034")
def whoever_pins_unpins_once() -> None:
    pool = plain(20, 1, 1)
    ids = pool["a"].alloc(1)
    leases = [pool.lease("a", ids, "lookup"), pool.lease("a", ids, "load")]
    pool["a"].free(ids)
    leases[1].release()
    refused(pool, pp.LeaseError, leases[1].release)
    assert pending(pool, "a") == [1]
    leases[0].release()
    assert pending(pool, "a") == []


@fault("SLOT", "sglang#14209")
def a_clear_touches_no_byte() -> None:
    pool = plain(20, 1, 1, zero="on_handout")
    write(pool, "a", pool["a"].alloc(3), 7)
    pool["a"].alloc(2)
    before = pool.buffer.clone()
    pool.clear()
    assert torch.equal(pool.buffer, before)


@fault("SLOT", "sglang#38355")
def what_is_freed_is_published_no_longer() -> None:
    pool = plain(20, 1, 1)
    ids = pool["a"].alloc(2)
    step = pool.begin_step(writes={"a": ids})
    step.launched()
    step.complete()
    step.publish("a", ids)
    pool["a"].free(ids)
    again = pool["a"].alloc(2)
    assert not step.same("a", again).any()
    refused(pool, pp.StepError, lambda: pool.begin_step(reads={"a": again}))


@fault("SLOT", "sglang#40305")
def a_double_free_is_seen_in_every_kind() -> None:
    pool = every_kind()
    for layout in pool.layouts:
        owner = layout.ids_of or layout.name
        ids = pool.alloc({owner: 2, layout.name: 2})[owner]
        pool[layout.name].free(ids)
        refused(pool, pp.InvalidPages, lambda layout=layout, ids=ids: pool[layout.name].free(ids))


@fault("DUAL", "sglang#38519")
def ids_without_a_window_page_free_no_sink() -> None:
    pool = windowed()
    ids = pool.alloc({"full": 4, "window": 1})["full"]
    refused(pool, pp.InvalidPages, lambda: pool["window"].free(ids))
    pool["full"].free(ids)
    assert 0 not in holes(pool, "window")
    assert 0 not in places(pool, "window", pool.alloc({"full": 4, "window": 4})["window"])


@fault("DUAL", "sglang#25805")
def a_recycled_id_has_no_old_page() -> None:
    pool = windowed()
    ids = pool.alloc({"full": 4, "window": 4})["full"]
    pool["full"].free(ids[:3])
    again = pool.alloc({"full": 3, "window": 1})
    assert (pool["window"].physical(again["full"]) > 0).tolist() == [False, False, True]
    pool["full"].free(again["full"])
    pool["full"].free(ids[3:])
    assert pool.stats().used_bytes == 0


@fault("DUAL", "vLLM#51837")
def keys_and_values_lie_in_the_page() -> None:
    pool = every_kind()
    given = pool.alloc({"full": 3, "state": 2})
    views = pool.views("full")
    pool.buffer[:] = 0
    step = pool.begin_step(writes={"full": given["full"]})
    for layer in (*views.k, *views.v):
        layer[torch.tensor(step.writes["full"])] = 1.0
    written = rows(pool, "full")[step.writes["full"]]
    finish(step)
    assert (written != 0).all()
    assert int((pool.buffer != 0).sum()) == written.size


# --------------------------------------------------------------------------------------------------------- joint room


@fault("2END", "sglang#34441")
def what_the_cache_frees_reaches_the_states() -> None:
    pool = plain(42, 1, 6)
    cached = pool["a"].alloc(36)
    assert pool["b"].try_alloc(1) is None
    pool["a"].free(cached[:6])
    assert pool.capacity("b") == 1
    pool["b"].free(pool["b"].alloc(1))
    states = pool["b"].alloc(1)
    assert pool["a"].try_alloc(1) is None
    pool["b"].free(states)
    assert pool.capacity("a") == 6


@fault("2END", "sglang#39294")
def each_alone_is_not_both_together() -> None:
    pool = plain(5, 1, 1)
    assert (pool.capacity("a"), pool.capacity("b")) == (4, 4)
    assert not pool.fits({"a": 4, "b": 4})
    refused(pool, pp.BufferExhausted, lambda: pool.alloc({"a": 4, "b": 4}))
    assert pool.fits({"a": 2, "b": 2})
    pool.alloc({"a": 2, "b": 2})


@fault("2END", "sglang#35158")
def bytes_are_conserved() -> None:
    pool = plain(40, 2, 3, 4)
    ids = {name: pool[name].alloc(3) for name in "abc"}
    lease = pool.lease("b", ids["b"][:1], "test")
    for name in "abc":
        pool[name].free(ids[name][:2])
    stats = pool.stats()
    inside = sum((row.bound + row.holes + row.pending) * row.page_bytes for row in stats.sub_pools)
    assert stats.sink_bytes + stats.gap_bytes + inside == stats.total_bytes
    lease.release()
    with pytest.raises(pp.LayoutError, match="too small"):
        plain(12, 2, 3, 4)


@fault("2END", "sglang#32184")
def the_sink_is_counted_once_and_given_to_nobody() -> None:
    pool = plain(12, 3, 3)
    assert pool.capacity("a") == pool.capacity("b") == 3
    ids = pool["b"].alloc(3)
    assert min(places(pool, "b", ids)) == 1
    assert 0 not in ids.tolist()


@fault("2END", "tt-metal#44366")
def frontiers_do_not_cross() -> None:
    pool = plain(31, 2, 3)
    given = 0
    for _ in range(40):
        for name in "ab":
            given += len(pool[name].try_alloc(1) or ())
        low, high = extent(pool, "a")[1] * 2, extent(pool, "b")[0] * 3
        assert low <= high
    assert given == pool.stats().sub_pools[0].bound + pool.stats().sub_pools[1].bound


@fault("2END", "sglang#37506")
def a_window_takes_the_ids_of_its_owner_or_nothing() -> None:
    pool = windowed()
    ids = pool["full"].alloc(28)
    refused(pool, TypeError, lambda: pool["window"].alloc(1))
    assert pool.capacity("window") == 1
    refused(pool, pp.BufferExhausted, lambda: pool["window"].bind(ids[:2]))
    pool["window"].bind(ids[-1:])


# ---------------------------------------------------------------------------------------------------------- movement


@fault("COMP", "sglang#39982 (a)")
def the_float_asks_the_gate_too() -> None:
    pool = plain(41, 1, 1, 1)
    ids = pool["b"].alloc(4)
    before = places(pool, "b", ids)
    with pool.gate("b", "transfer"):
        for name in "ac":
            taken = pool[name].alloc(pool.capacity(name))
            assert pool[name].try_alloc(1) is None
            assert places(pool, "b", ids) == before
            pool[name].free(taken)


@fault("COMP", "sglang#39982 (b)", "sglang#33362")
def capacity_knows_the_gates_of_now() -> None:
    pool = plain(20, 1, 1)
    ids = pool["b"].alloc(6)
    pool["b"].free(ids[:3])
    found = [pool.capacity("a")]
    gate = pool.gate("b", "transfer")
    found.append(pool.capacity("a"))
    refused(pool, pp.BufferExhausted, lambda: pool["a"].alloc(found[0]))
    pool["a"].free(pool["a"].alloc(found[1]))
    gate.open()
    found.append(pool.capacity("a"))
    assert found == [16, 13, 16]
    assert len(pool["a"].alloc(16)) == 16


@fault("COMP", "sglang#33362 (gate)", "sglang#39479")
def an_address_that_went_out_stays_good() -> None:
    pool = plain(20, 1, 1)
    ids = pool["a"].alloc(6)
    write(pool, "a", ids, ids)
    lease = pool.lease("a", ids[4:], "rdma")
    pool["a"].free(ids[:3])
    pool.compact(urgent=True)
    pool["b"].alloc(pool.capacity("b"))
    assert places(pool, "a", ids[4:]) == lease.physical.tolist()
    pool["a"].free(ids[4:])
    pool["a"].alloc(pool.capacity("a"))
    assert rows(pool, "a")[lease.physical, 0].tolist() == ids[4:].tolist()
    lease.release()


@fault("COMP", "sglang#36731", "sglang#37506 (repairs)", "llama.cpp#12253")
def moves_copy_pages_and_not_ids() -> None:
    pool, ids = scrambled()
    assert values(pool, "a", ids) == ids.tolist()
    assert pool.compact(urgent=True) == []


@fault("COMP", "llama.cpp#14059")
def a_plan_finds_the_holes_that_it_counted() -> None:
    pool = plain(40, 1, 2, 1)
    ids = {name: pool[name].alloc(8) for name in "abc"}
    for name in "abc":
        write(pool, name, ids[name], ids[name])
        pool[name].free(ids[name][[0, 2, 3, 6]])
    bounds = {name: pool.capacity(name) for name in "abc"}
    for move in pool.compact(urgent=True):
        assert len(move.sources) == len(move.targets) == len({*move.sources.tolist(), *move.targets.tolist()}) // 2
    assert {name: pool.capacity(name) for name in "abc"} == bounds
    for name in "abc":
        assert values(pool, name, ids[name][[1, 4, 5, 7]]) == ids[name][[1, 4, 5, 7]].tolist()


@fault("COMP", "llama.cpp#10873")
def an_urgent_demand_is_met_whatever_must_move() -> None:
    pool = UnifiedPool(400, [Pages("a", bytes=1, grows="up"), Pages("b", bytes=1, grows="down")])
    ids = pool["a"].alloc(399)
    pool["a"].free(ids[::2])
    assert len(pool["b"].alloc(200)) == 200
    assert pool.capacity("b") == 0
    assert pool.check() == []


# -------------------------------------------------------------------------------------------------------- translation


@fault("XLAT", "sglang#31471", "sglang#24395")
def ids_are_no_pages() -> None:
    pool, ids = scrambled()
    step = pool.begin_step(writes={"a": ids})
    assert step.writes["a"].tolist() == places(pool, "a", ids) != ids.tolist()
    finish(step)
    found = pool["a"].translate(torch.tensor(ids))
    assert found.tolist() == places(pool, "a", ids)


@fault("XLAT", "sglang#33517")
def prefix_and_new_pages_are_translated_alike() -> None:
    pool, prefix = scrambled()
    pool["b"].free(list(range(1, 9)))
    mixed = np.concatenate([prefix, pool["a"].alloc(2)])
    step = pool.begin_step(writes={"a": mixed})
    assert step.writes["a"].tolist() == pool["a"].translate(torch.tensor(mixed)).tolist()
    finish(step)


@fault("XLAT", "sglang#38521")
def a_window_has_a_table_of_its_own() -> None:
    pool = with_window()
    ids = pool.alloc({"full": 6, "window": 4})["full"]
    pool["window"].free(ids[3:4])
    bound = [ids[2], *ids[4:]]
    pool.compact(urgent=True)
    tokens = torch.tensor(bound)
    assert pool["window"].translate(tokens).tolist() == places(pool, "window", bound)
    assert pool["full"].translate(tokens).tolist() == places(pool, "full", bound)
    assert pool["window"].translate(tokens).tolist() != pool["full"].translate(tokens).tolist()


@fault("XLAT", "vLLM#56734")
def rows_of_the_dead_lead_to_the_sink() -> None:
    pool = plain(20, 1, 1)
    ids = pool["a"].alloc(4)
    row = torch.tensor(ids)
    pool["a"].free(ids)
    assert pool["a"].translate(row).tolist() == [0] * 4
    pool["b"].alloc(18)
    assert pool["a"].translate(row).tolist() == [0] * 4


@fault("XLAT", "TensorRT-LLM#15546", "vLLM#53919")
def a_step_keeps_its_own_table() -> None:
    device = queued()
    pool = plain(12, 1, 1, events=device)
    ids = pool["a"].alloc(6)
    staging = ids.copy()
    step = pool.begin_step(writes={"a": staging})
    promised = step.writes["a"].tolist()
    for v, page in zip(ids.tolist(), promised, strict=True):
        device.give(None, lambda v=v, page=page: rows(pool, "a").__setitem__(page, v))
    step.launched()
    staging[:] = staging[::-1].copy()
    pool["a"].free(ids[:3])
    pool["b"].alloc(8)
    assert step.writes["a"].tolist() == promised
    step.complete()
    device.drain()
    assert step.same("a", ids).tolist() == [False] * 3 + [True] * 3
    assert values(pool, "a", ids[3:]) == ids[3:].tolist()


@fault("XLAT", "vLLM#53142")
def tokens_are_counted_in_pages_of_their_own() -> None:
    sub_pools = [
        Pages("a", bytes=4, grows="up", page_size=4),
        Pages("b", bytes=3, grows="down", page_size=3),
    ]
    pool = UnifiedPool(60, sub_pools, shadow=True)
    for name, size in (("a", 4), ("b", 3)):
        v = int(pool[name].alloc(3)[2])
        page = int(pool[name].physical(v)[0])
        tokens = torch.arange(v * size, (v + 1) * size)
        assert pool[name].translate(tokens).tolist() == list(range(page * size, (page + 1) * size))
        beyond = torch.tensor([pool[name].ids * size, 10**9])
        assert (pool[name].translate(beyond) < size).all()


# --------------------------------------------------------------------------------------------- reuse while in flight


@fault("ASYNC", "vLLM#45096", "sglang#24527")
def a_page_is_not_given_on_while_a_step_away_writes_it() -> None:
    pool = plain(20, 1, 1)
    ids = pool["a"].alloc(3)
    step = pool.begin_step(writes={"a": ids}, stream="network")
    pages = set(step.writes["a"].tolist())
    pool["a"].free(ids)
    others = pool["a"].alloc(pool.capacity("a"))
    assert not pages & set(places(pool, "a", others))
    finish(step)
    assert set(places(pool, "a", pool["a"].alloc(3))) == pages


@fault("ASYNC", "vllm-ascend#16315")
def deferred_frees_drain_without_another_batch() -> None:
    pool = plain(20, 1, 1)
    ids = pool["a"].alloc(19)
    step = pool.begin_step(writes={"a": ids}, stream=1)
    pool["a"].free(ids)
    error = refused(pool, pp.BufferExhausted, lambda: pool["a"].alloc(1))
    assert error.reclaimable == 19
    finish(step)
    assert pool.capacity("a") == 19


@fault("ASYNC", "sglang#38961", "sglang#28468")
def a_lease_ends_with_its_release_and_with_nothing_else() -> None:
    pool = plain(20, 1, 1)
    ids = pool["a"].alloc(4)
    leases = [pool.lease("a", ids[:2], "rank 0"), pool.lease("a", ids[1:3], "rank 1")]
    with pool.free_group():
        pool["a"].free(ids)
    for _ in range(3):
        finish(pool.begin_step())
        pool.compact(urgent=True)
    assert pending(pool, "a") == [1, 2, 3]
    leases[0].release()
    assert pending(pool, "a") == [2, 3]
    leases[1].release()
    assert pending(pool, "a") == []


@fault("ASYNC", "vLLM#45704", "sglang#36743")
def a_copy_waits_for_the_kernel_and_not_for_a_counter() -> None:
    found: list[int] = []
    for seed in range(10):
        device = queued(seed)
        pool = plain(20, 1, 1, events=device)
        ids = pool["a"].alloc(1)
        page = places(pool, "a", ids)[0]
        load = pool.begin_step(writes={"a": ids}, stream="load")
        for value in (1, 2, 3):
            device.give("load", lambda value=value, page=page, pool=pool: rows(pool, "a").__setitem__(page, value))
        load.launched()
        refused(pool, pp.StepError, lambda load=load, ids=ids: load.publish("a", ids))
        store = pool.begin_step(reads={"a": ids}, stream="store")
        device.give("store", lambda page=page, pool=pool: found.append(int(rows(pool, "a")[page, 0])))
        store.launched()
        load.complete()
        store.complete()
    assert found == [3] * 10


@fault("ASYNC", "tokenspeed#279")
def a_forward_does_not_overtake_the_write_back() -> None:
    found: list[int] = []
    for seed in range(10):
        device = queued(seed)
        pool = plain(2, 1, events=device)
        ids = pool["a"].alloc(1)
        write(pool, "a", ids, 5)
        back = pool.begin_step(reads={"a": ids}, stream="host")
        device.give("host", lambda pool=pool: found.append(int(rows(pool, "a")[1, 0])))
        back.launched()
        pool["a"].free(ids)
        assert pool["a"].try_alloc(1) is None
        back.complete()
        forward = pool.begin_step(writes={"a": pool["a"].alloc(1)})
        device.give(None, lambda pool=pool: rows(pool, "a").__setitem__(1, 9))
        finish(forward)
    assert found == [5] * 10


@fault("ASYNC", "sglang#39765")
def a_step_that_was_built_keeps_pages_that_are_freed_after() -> None:
    pool = plain(20, 1, 1)
    ids = pool["a"].alloc(2)
    write(pool, "a", ids, ids)
    step = pool.begin_step(reads={"a": ids}, stream=1)
    pool["a"].free(ids[1:])
    write(pool, "a", pool["a"].alloc(5), 9)
    assert rows(pool, "a")[step.reads["a"], 0].tolist() == ids.tolist()
    assert step.same("a", ids).tolist() == [True, False]
    finish(step)


@fault("ASYNC", "vllm-ascend#15674")
def every_hold_has_an_end() -> None:
    pool = plain(20, 1, 1)
    most = pool.capacity("a")
    for n in range(8):
        ids = pool["a"].alloc(3)
        lease, group = pool.lease("a", ids, "store"), pool.free_group()
        step = pool.begin_step(writes={"a": pool["a"].alloc(1)}, stream=n % 2)
        pool["a"].free(ids)
        pool["a"].free([v for v in range(1, pool["a"].ids) if pool["a"].physical(v)[0]])
        lease.release()
        group.end()
        finish(step)
        assert pool.capacity("a") == most


# -------------------------------------------------------------------------------------------------------- stale bytes


@fault("INIT", "vLLM#35219", "vLLM#56524", "sglang#33974 (1)")
def another_kind_leaves_no_nan() -> None:
    pool = every_kind()
    pool.buffer[:] = 0xFF
    states = pool["state"].alloc(pool.capacity("state"))
    write(pool, "state", states, 0xFF)
    pool["state"].free(states)
    ids = pool.alloc({"full": 4, "window": 4, "latent": 3})
    step = pool.begin_step(writes={"full": ids["full"]})
    page = int(step.writes["full"][0])
    views = pool.views("full")
    views.k[0][page, 0] = 1.0
    finish(step)
    assert not any(layer[page].float().isnan().any() for layer in (*views.k, *views.v))
    assert (read(pool, "window", ids["window"]) == 0).all()
    assert (read(pool, "latent", ids["latent"]) == 0).all()


@fault("INIT", "tpu-inference#3412", "sglang#30986")
def a_state_is_not_read_before_it_is_written() -> None:
    pool = every_kind()
    old = pool["state"].alloc(1)
    write(pool, "state", old, 7)
    pool["state"].free(old)
    fresh = pool["state"].alloc(1)
    refused(pool, pp.StepError, lambda: pool.begin_step(reads={"state": fresh}))
    idle = pool.begin_step()
    idle.launched()
    idle.complete()
    refused(pool, pp.StepError, lambda: idle.publish("state", fresh))
    write(pool, "state", fresh, 8)
    assert values(pool, "state", fresh) == [8]


# ------------------------------------------------------------------------------------------------------------ padding


@fault("PAD", "TensorRT-LLM#13151", "vLLM#43810")
def padding_reaches_the_sink_and_nobody_else() -> None:
    pool = windowed(2)
    ids = pool.alloc({"full": 3, "window": 3})["full"]
    batch = torch.cat([torch.tensor(ids * 2), torch.full((5,), -1)])
    for name in ("full", "window"):
        found = pool[name].translate(batch)
        assert found[3:].tolist() == [0] * 5
        assert (found[:3] >= pool.sink_bytes // pool[name].layout.page_bytes).all()
    refused(pool, pp.InvalidPages, lambda: pool.begin_step(writes={"full": [*ids, -1]}))
    assert (pool["full"].physical([*ids, -1, 0]) > 0).tolist() == [True] * 3 + [False] * 2


# ----------------------------------------------------------------------------------------------- counts and refusals


@fault("ACCT", "sglang#23216")
def a_clear_gives_back_all_there_is() -> None:
    pool = every_kind()
    fresh = every_kind()
    pool.alloc({"full": 3, "window": 2, "state": 1, "checkpoint": 1, "opaque": 2, "bytes": 4, "absent": 1})
    pool["bytes"].free([1, 3])
    pool.clear()
    for layout in pool.layouts:
        assert pool.capacity(layout.name) == fresh.capacity(layout.name)
    assert [row.free_ids for row in pool.stats().sub_pools] == [row.free_ids for row in fresh.stats().sub_pools]


@fault("ACCT", "mllm#656", "sglang#35270", "mini-sglang#149")
def counts_are_sizes_of_sets() -> None:
    pool = windowed()
    ids = pool.alloc({"full": 6, "window": 4})["full"]
    lease = pool.lease("window", ids[3:4], "test")
    pool["full"].free(ids[1:4])
    for row, tables in zip(pool.stats().sub_pools, pool.snapshot().sub_pools, strict=True):
        bound = [page for page in tables.physical[1:] if page >= 0]
        assert row.bound == len(bound) == len(set(bound))
        assert row.holes == len({*tables.holes})
        assert row.pending == len({*tables.pending})
        assert not {*bound} & {*tables.holes} | {*tables.holes} & {*tables.pending} | {*bound} & {*tables.pending}
        assert row.bound + row.holes + row.pending == tables.last - tables.first
    lease.release()


@fault("ADM", "sglang#34676")
def three_parts_are_taken_together_or_not_at_all() -> None:
    pool = plain(30, 1, 4, 4)
    pool.alloc({"b": 2, "c": 2})
    pool["c"].alloc(1)
    demand = {"a": 1, "b": 1, "c": 1}
    while pool.fits(demand):
        pool.alloc(demand)
    refused(pool, pp.BufferExhausted, lambda: pool.alloc(demand))


@fault("ADM", "kvcached#364")
def a_failure_half_way_gives_everything_back() -> None:
    pool = windowed()
    pool["full"].alloc(26)
    assert pool.capacity("full") == 3
    refused(pool, pp.BufferExhausted, lambda: pool.alloc({"full": 2, "window": 2}))
    with pool.free_group():
        refused(pool, pp.BufferExhausted, lambda: pool.alloc({"full": 4}))
        pool["full"].free([1])
    assert pool.capacity("full") == 4


@fault("ADM", "TensorRT-LLM#15018")
def an_abort_before_publication_leaves_nothing_to_hit() -> None:
    pool = plain(20, 1, 1)
    ids = pool["a"].alloc(3)
    step = pool.begin_step(writes={"a": ids})
    step.launched()
    pool["a"].free(ids)
    step.complete()
    refused(pool, pp.InvalidPages, lambda: step.publish("a", ids))
    again = pool["a"].alloc(3)
    refused(pool, pp.StepError, lambda: step.publish("a", again))


@fault("ADM", "sglang#33442")
def ranks_with_the_same_calls_decide_the_same() -> None:
    found = []
    for seed in (1, 2):
        device = queued(seed)
        pool = plain(20, 1, 1, events=device)
        ids = pool["a"].alloc(10)
        step = pool.begin_step(writes={"a": ids[:5]}, stream="load")
        step.launched()
        device.pass_time(5 * seed)
        pool["a"].free(ids[2:8])
        capacities = [pool.capacity("a"), pool.capacity("b")]
        pool.compact(urgent=True)
        step.complete()
        found.append((capacities, pool.capacity("b"), pool.snapshot()))
    assert found[0] == found[1]


@pytest.mark.parametrize("report", SCENARIOS)
def test_the_fault_does_not_happen(report: str) -> None:
    SCENARIOS[report]()
