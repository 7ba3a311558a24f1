"""Several sub-pools at once beside gates and open steps; and what the pool hands out is nobody else's to change."""

from __future__ import annotations

import copy
import pickle
import random
import threading

import numpy as np
import pytest
import torch

import poolproof as pp
from poolproof.fuzz.queued_device import QueuedDevice


def kv(kind: type, name: str, **options: object) -> object:
    """One byte of key and one of value a page."""
    return kind(name, layers=1, kv_heads=1, head_dim=1, dtype="uint8", zero="never", **options)


def chain3() -> list[object]:
    """Three sub-pools of one-byte pages."""
    return [
        pp.Pages(name, bytes=1, grows=grows, zero="never")
        for name, grows in (("a", "up"), ("f", "float"), ("d", "down"))
    ]


@pytest.mark.parametrize("hold", ["gate", "open step"])
@pytest.mark.parametrize("window", ["below its owner", "above its owner"])
def test_a_window_s_share_is_left_where_a_float_cannot_move(hold: str, window: str) -> None:
    """Owners are bound before windows, and must leave them the room that was promised; nothing moves past the hold."""
    owner_up = window == "above its owner"
    full, w = (
        kv(pp.KVPages, "full", grows="up" if owner_up else "float"),
        kv(pp.WindowPages, "w", ids_of="full", grows="float" if owner_up else "up"),
    )
    others = [pp.Pages("b", bytes=2, grows="float", zero="never"), pp.Pages("d", bytes=2, grows="down", zero="never")]
    pool = pp.UnifiedPool(40, [full, w, *others], shadow=True)
    ids = pool["full"].alloc(1)
    pool["w"].bind(ids)
    pool["b"].alloc(1)
    held = pool.gate("b", "test") if hold == "gate" else pool.begin_step()
    for n in range(7, 0, -1):
        demand = {"full": n, "w": n, "b": 3}
        if pool.fits(demand):
            break
    before = pool["b"].physical(np.arange(pool["b"].ids)).tolist()
    got = pool.alloc(demand)
    after = pool["b"].physical(np.arange(pool["b"].ids)).tolist()
    assert n >= 4
    assert [len(got[name]) for name in demand] == [n, n, 3]
    assert all(old in (0, new) for old, new in zip(before, after, strict=True))
    assert pool.check() == []
    assert held is not None


@pytest.mark.parametrize("hold", ["gate", "open step"])
def test_an_empty_float_fits_whatever_holds_the_others(hold: str) -> None:
    pool = pp.UnifiedPool(12, chain3(), shadow=True)
    held = pool.gate("f", "test") if hold == "gate" else pool.begin_step()
    assert pool.capacity("f") == 11
    assert pool.fits({"f": 11})
    assert not pool.fits({"f": 11, "a": 1})
    assert {name: len(ids) for name, ids in pool.alloc({"a": 1, "f": 10}).items()} == {"a": 1, "f": 10}
    assert held is not None


def test_of_nothing_and_of_too_much() -> None:
    pool = pp.UnifiedPool(40, [kv(pp.KVPages, "full"), kv(pp.WindowPages, "w", ids_of="full")], shadow=True)
    assert [len(ids) for ids in pool.alloc({"w": 0}).values()] == [0]
    assert pool.alloc({}) == {}
    with pytest.raises(
        pp.BufferExhausted, match=r"1 of 'w', 100 of 'full' together: sub-pool 'full': 100 pages"
    ) as short:
        pool.alloc({"w": 1, "full": 100})
    assert short.value.demand == {"w": 1, "full": 100}
    with pytest.raises(ValueError, match="2 pages of window 'w' for 1 new ids of 'full'"):
        pool.alloc({"full": 1, "w": 2})
    with pytest.raises(pp.BufferExhausted, match="18446744073709551618 pages"):
        pool["full"].extend([0, 0, 0], [0, 0, 0], [2**63 - 1, 2**63 - 1, 4])
    assert pool.check() == []


def test_what_is_handed_out_shares_nothing() -> None:
    device = QueuedDevice(random.Random(0))
    pool = pp.UnifiedPool(40, [kv(pp.KVPages, "full"), kv(pp.WindowPages, "w", ids_of="full")], events=device)
    got = pool.alloc({"full": 4, "w": 2})
    got["w"][:] = 99
    assert got["full"].tolist() == [1, 2, 3, 4]
    step = pool.begin_step(writes={"full": got["full"]})
    rows = pool.buffer.numpy()[: pool["full"].ids * 2 - 2].reshape(-1, 2)
    rows[step.writes["full"]] = got["full"][:, None]
    step.launched()
    device.drain()
    pool["full"].free(got["full"][:1])
    (moved,) = pool.compact(urgent=True)
    for array in (moved.sources, moved.targets, step.writes["full"]):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 7
    device.drain()
    assert rows[pool["full"].physical([2, 3, 4])].tolist() == [[2, 2], [3, 3], [4, 4]]


def test_moves_for_an_alloc_are_not_kept() -> None:
    pool = pp.UnifiedPool(12, chain3())
    for _ in range(5):
        a = pool["a"].alloc(6)
        pool["a"].free(a[:4])
        d = pool["d"].alloc(pool.capacity("d"))
        pool["a"].free(a[4:])
        pool["d"].free(d)
    assert pool.compact(urgent=True) == []


def test_a_refused_lease_of_fresh_pages_changes_nothing() -> None:
    """Their zeroing must be over, which a step at home that completes says."""
    device = QueuedDevice(random.Random(0))
    pool = pp.UnifiedPool(12, [pp.Pages("a", bytes=1, grows="up")], events=device, shadow=True)
    ids = pool["a"].alloc(3)
    before = pool.snapshot()
    with pytest.raises(
        pp.LeaseError, match="wait to be zeroed before the next step at home: begin, launch and complete"
    ):
        pool.lease("a", ids, "rdma")
    assert pool.snapshot() == before
    step = pool.begin_step()
    step.launched()
    step.complete()
    assert pool.lease("a", ids, "rdma").physical.tolist() == pool["a"].physical(ids).tolist()


def test_the_pool_s_own_steps_end_with_the_next_one_that_completes() -> None:
    pool = pp.UnifiedPool(12, chain3(), events=QueuedDevice(random.Random(0)), shadow=True)
    ids = pool["a"].alloc(3)
    pool["a"].free(ids[:1])
    pool.compact(urgent=True)
    pool["a"].free(ids[1:])
    with pytest.raises(pp.PoolBusy, match="own steps end with the next step at home that completes"):
        pool.clear()
    step = pool.begin_step()
    step.launched()
    step.complete()
    pool.clear()


def test_handles_are_neither_copied_nor_pickled() -> None:
    pool = pp.UnifiedPool(12, chain3())
    ids = pool["a"].alloc(2)
    for handle in (pool.lease("a", ids, "test"), pool.gate("a", "test"), pool.begin_step(), pool.free_group(), pool):
        for work in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="cannot be copied or pickled"):
                work(handle)


def test_steps_of_other_pools_are_refused() -> None:
    pool, other = pp.UnifiedPool(12, chain3(), shadow=True), pp.UnifiedPool(12, chain3())
    step = other.begin_step()
    step.launched()
    for after in ([step], [3]):
        with pytest.raises(pp.StepError, match="are not all steps of this pool"):
            pool.begin_step(after=after)


def test_pages_that_were_freed_again_need_no_zeroing() -> None:
    pool = pp.UnifiedPool(12, [pp.Pages("a", bytes=1, grows="up")], shadow=True)
    first = pool.begin_step()
    pool["a"].free(pool["a"].alloc(1))
    second = pool.begin_step()
    pool["a"].alloc(1)
    with pytest.raises(pp.StepError, match="cannot zero pages that were handed out"):
        pool.begin_step()
    assert (first.number, second.number) == (0, 1)


def test_a_buffer_that_just_fits_is_taken() -> None:
    sub_pools = [pp.Pages("a", bytes=3, grows="up"), pp.Pages("b", bytes=3, grows="down")]
    pool = pp.UnifiedPool(9, sub_pools)
    assert [len(pool[name].alloc(1)) for name in ("a", "b")] == [1, 1]
    with pytest.raises(pp.LayoutError, match="need 9; make total_bytes larger"):
        pp.UnifiedPool(8, sub_pools)


def test_translations_that_would_go_wrong_are_refused() -> None:
    pool = pp.UnifiedPool(4096, [pp.Pages("a", bytes=1, page_size=2**20, grows="up", zero="never")])
    pool["a"].alloc(4095)
    with pytest.raises(TypeError, match="int32 does not hold; pass int64"):
        pool["a"].translate(torch.tensor([2**20], dtype=torch.int32))
    for out in (torch.zeros(3, 2, dtype=torch.int64), torch.zeros(2, dtype=torch.bool)):
        with pytest.raises(ValueError, match="the tokens are"):
            pool["a"].translate(torch.tensor([2**20, 5]), out=out)


class Failing(QueuedDevice):
    """A device on which one kind of call fails when it is told to."""

    fails = ""

    def run(self, step: pp.Step | None, work: object) -> None:
        if self.fails == "run":
            raise MemoryError("no room for a copy")
        super().run(step, work)  # type: ignore[arg-type]

    def wait(self, stream: object, other: pp.Step) -> None:
        if self.fails == "wait":
            raise RuntimeError("the device is lost")
        super().wait(stream, other)

    def launched(self, step: pp.Step) -> None:
        if self.fails == "launched":
            raise RuntimeError("the device is lost")
        super().launched(step)


def test_a_pool_whose_copy_failed_is_not_used_on() -> None:
    device = Failing(random.Random(0))
    pool = pp.UnifiedPool(12, chain3(), events=device)
    ids = pool["a"].alloc(3)
    pool["a"].free(ids[:1])
    device.fails = "run"
    with pytest.raises(MemoryError):
        pool.compact(urgent=True)
    device.fails = ""
    for use in (lambda: pool["a"].alloc(1), lambda: pool.begin_step(), lambda: pool.capacity("a"), pool.clear):
        with pytest.raises(pp.PoolBroken, match=r"no room for a copy.*stop using this pool"):
            use()


@pytest.mark.parametrize("fails", ["wait", "launched"])
def test_a_device_that_fails_at_a_step_leaves_it_as_it_was(fails: str) -> None:
    device = Failing(random.Random(0))
    pool = pp.UnifiedPool(12, chain3(), events=device, shadow=True)
    home = pool.begin_step()
    home.launched()
    other = pool.begin_step(stream=2)
    before, device.fails = pool.snapshot(), fails
    call = (lambda: pool.begin_step(stream=1)) if fails == "wait" else other.launched
    with pytest.raises(RuntimeError, match="the device is lost"):
        call()
    assert pool.snapshot() == before
    device.fails = ""
    other.launched()
    pool.begin_step(stream=1).launched()


def test_a_release_in_the_midst_of_an_operation_waits_for_the_next() -> None:
    """As a signal handler or a finalizer may call it."""

    class Releasing(QueuedDevice):
        lease: pp.Lease

        def run(self, step: pp.Step | None, work: object) -> None:
            self.lease.release()
            super().run(step, work)  # type: ignore[arg-type]

    device = Releasing(random.Random(0))
    pool = pp.UnifiedPool(12, chain3(), events=device, shadow=True)
    ids = pool["a"].alloc(4)
    device.lease = pool.lease("a", ids[1:2], "test")
    pool["a"].free(ids[[0, 1]])
    assert pool._at("a").pending.size == 1
    assert [len(move.ids) for move in pool.compact(urgent=True)] == [1]
    assert pool.check() == []
    assert pool._at("a").pending.size == 0


@pytest.mark.parametrize("align", [1, 64, 1024, 65536])
def test_the_buffer_starts_where_its_sub_pools_want_it(align: int) -> None:
    for _ in range(5):
        pool = pp.UnifiedPool(8 * 65536, [pp.Pages("a", bytes=65536, grows="up", align=align)])
        assert pool.buffer.data_ptr() % max(align, 512) == 0


def test_what_another_thread_released_counts_at_once() -> None:
    pool = pp.UnifiedPool(12, chain3(), shadow=True)
    ids = pool["a"].alloc(8)
    lease = pool.lease("a", ids[7:], "test")
    pool["a"].free(ids[:6])
    short = pool.capacity("d")
    thread = threading.Thread(target=lease.release)
    thread.start()
    thread.join()
    assert pool.capacity("d") > short
    assert pool.fits({"d": pool.capacity("d")})
    assert len(pool["d"].alloc(pool.capacity("d"))) > short


def test_steps_to_wait_for_may_come_from_any_iterable() -> None:
    pool = pp.UnifiedPool(12, chain3(), shadow=True)
    first = pool.begin_step(stream=1)
    first.launched()
    assert pool.begin_step(after=iter([first])).waits == {first}


def test_streams_that_cannot_be_compared_are_refused() -> None:
    pool = pp.UnifiedPool(12, chain3())
    for stream in (np.array([1, 2]), float("nan")):
        with pytest.raises(TypeError, match="stream"):
            pool.begin_step(stream=stream)
    assert pool.begin_step(stream="copies").stream == "copies"


@pytest.mark.parametrize("wrong", [["a"], "a", 3, None])
def test_what_is_no_mapping_is_refused(wrong: object) -> None:
    pool = pp.UnifiedPool(12, chain3())
    for call in (pool.alloc, pool.fits):
        with pytest.raises(TypeError, match="a demand is a mapping such as"):
            call(wrong)
    if wrong is not None:
        with pytest.raises(TypeError, match="reads is a mapping such as"):
            pool.begin_step(reads=wrong)


def test_errors_have_what_their_kinds_have() -> None:
    pool = pp.UnifiedPool(12, chain3())
    with pytest.raises(pp.PoolExhausted) as short:
        pool["a"].alloc(99)
    assert (short.value.need, short.value.slots, short.value.evictable, short.value.reserved) == (99, 12, 0, 0)
    faults = {-1: pp.Fault.NEGATIVE, 0: pp.Fault.SINK, 5: pp.Fault.NOT_OWNED, 99: pp.Fault.OUT_OF_RANGE}
    for bad, fault in faults.items():
        with pytest.raises(pp.InvalidFree) as refusal:
            pool["a"].free(bad)
        assert refusal.value.fault is fault


def test_buffers_and_tables_that_no_host_holds_are_refused() -> None:
    with pytest.raises(pp.LayoutError, match="the tables of a 1125899906842624 pages take"):
        pp.UnifiedPool(1 << 50, [pp.Pages("a", bytes=1, grows="up")], device="meta")
    with pytest.raises(TypeError, match="has not the methods of an EventSource"):
        pp.UnifiedPool(12, chain3(), events=3)
