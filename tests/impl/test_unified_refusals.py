"""What a unified pool refuses: the type of the error, its numbers and remedy, and that the pool is as it was."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from buffers import chain_of, finish, plain, refused, with_window

import poolproof as pp
from poolproof import Pages, UnifiedPool

BAD_IDS = [
    ([2, -1, -7], (-7, -1), "negative; drop padding"),
    ([2, 32], (32,), "out of range"),
    ([2**70], (2**63 - 1,), "out of range"),
    ([-(2**70), 2], (-(2**63),), "negative"),
    (np.array([2, 2**64 - 1], np.uint64), (2**63 - 1,), "out of range"),
    ([0, 2], (0,), "the sink"),
    ([2, 5, 9], (5, 9), "not live; forget an id"),
    ([3, 2, 3], (3,), "listed more than once"),
    (np.array([4, 4, 2, 2]), (2, 4), "listed more than once"),
]


@pytest.fixture
def pool() -> UnifiedPool:
    """Of sub-pool "a" the ids 1 to 4 are live, of which the first two are written; of "b" 1 and 2."""
    pool = plain(31, 1, 2)
    finish(pool.begin_step(writes={"a": pool["a"].alloc(4)[:2]}))
    pool["b"].alloc(2)
    return pool


def calls(pool: UnifiedPool) -> dict[str, Callable[[Any], Any]]:
    """Every method that takes ids of live pages of "a"."""
    step = pool.begin_step()
    step.launched()
    step.complete()
    return {
        "free": pool["a"].free,
        "lease": lambda ids: pool.lease("a", ids, "test"),
        "begin_step(reads)": lambda ids: pool.begin_step(reads={"a": ids}),
        "begin_step(writes)": lambda ids: pool.begin_step(writes={"b": [1], "a": ids}),
        "publish": lambda ids: step.publish("a", ids),
    }


@pytest.mark.parametrize("method", ["free", "lease", "begin_step(reads)", "begin_step(writes)", "publish"])
@pytest.mark.parametrize(("ids", "named", "why"), BAD_IDS)
def test_ids_that_are_not_live_or_doubled(
    pool: UnifiedPool, method: str, ids: Any, named: tuple[int, ...], why: str
) -> None:
    call = calls(pool)[method]
    error = refused(pool, pp.InvalidPages, lambda: call(ids))
    assert (error.name, error.operation, error.ids, error.count) == ("a", method, named, len(named))
    assert why in str(error)
    assert "1..31" in str(error)
    assert "Nothing was changed" in str(error)


@pytest.mark.parametrize("method", ["free", "lease", "begin_step(reads)", "begin_step(writes)", "publish"])
@pytest.mark.parametrize("ids", [[1.5], np.ones(2), [True], "12", None, [[1, 2]], np.ones((2, 1), np.int64), [None]])
def test_ids_that_are_no_integers(pool: UnifiedPool, method: str, ids: Any) -> None:
    call = calls(pool)[method]
    refused(pool, (TypeError, ValueError), lambda: call(ids))


class OnDevice:
    """What a CUDA tensor looks like, on a machine that has none."""

    device = torch.device("cuda")

    def __array__(self, dtype: Any = None) -> Any:
        raise AssertionError("a copy from the device")


@pytest.mark.parametrize("method", ["free", "lease", "begin_step(reads)", "begin_step(writes)", "publish"])
def test_ids_on_a_device_are_refused_without_a_copy(pool: UnifiedPool, method: str) -> None:
    call = calls(pool)[method]
    assert ".cpu()" in str(refused(pool, TypeError, lambda: call(OnDevice())))


def test_many_bad_ids_are_counted_and_the_first_named(pool: UnifiedPool) -> None:
    error = refused(pool, pp.InvalidPages, lambda: pool["a"].free(range(10, 30)))
    assert (error.ids, error.count) == (tuple(range(10, 18)), 20)
    assert "20 ids are" in str(error)
    assert "17, ..." in str(error)


@pytest.mark.parametrize("at", [0, 62, 63, 64, 65, 149])
def test_one_double_in_a_long_list_is_seen(at: int) -> None:
    pool = UnifiedPool(400, chain_of(1, 1))
    ids = pool["a"].alloc(150)
    twice = np.append(ids, ids[at])
    error = refused(pool, pp.InvalidPages, lambda: pool["a"].free(twice))
    assert error.ids == (ids[at],)


def test_a_second_free_is_refused(pool: UnifiedPool) -> None:
    pool["a"].free([2, 3])
    assert "not live" in str(refused(pool, pp.InvalidPages, lambda: pool["a"].free(3)))


# -------------------------------------------------------------------------------------------------------------- numbers


def test_too_many_pages_are_refused_with_the_numbers(pool: UnifiedPool) -> None:
    have = pool.capacity("b")
    error = refused(pool, pp.BufferExhausted, lambda: pool["b"].alloc(have + 3))
    assert (error.name, error.need, error.have) == ("b", have + 3, have)
    assert (error.need_bytes, error.have_bytes) == (2 * have + 6, 2 * have)
    assert (error.reclaimable, error.free_ids) == (0, 13)
    for words in (f"{have + 3} pages", f"{have} (", "release leases", "open gates", "Nothing was changed"):
        assert words in str(error)
    assert isinstance(error, pp.PoolExhausted)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.need) == (pp.BufferExhausted, str(error), error.need)


def test_pending_pages_are_named_as_such(pool: UnifiedPool) -> None:
    lease = pool.lease("a", [3, 4], "rdma")
    pool["a"].free([2, 3, 4])
    error = refused(pool, pp.BufferExhausted, lambda: pool["a"].alloc(30))
    assert error.reclaimable == 2
    assert "2 pages are pending" in str(error)
    lease.release()


@pytest.mark.parametrize("n", [-1, -(2**70), 1.0, "1", None, True, np.float64(1)])
def test_numbers_that_are_none(pool: UnifiedPool, n: Any) -> None:
    for call in (
        lambda: pool["a"].alloc(n),
        lambda: pool["a"].try_alloc(n),
        lambda: pool.alloc({"b": 1, "a": n}),
        lambda: pool.fits({"b": 1, "a": n}),
        lambda: pool.compact(moves=n),
    ):
        refused(pool, (TypeError, ValueError), call)


def test_a_huge_number_is_refused_as_too_many(pool: UnifiedPool) -> None:
    assert refused(pool, pp.BufferExhausted, lambda: pool["a"].alloc(2**70)).need == 2**70
    assert not pool.fits({"a": 2**70})


@pytest.mark.parametrize(
    ("tails", "old", "new"),
    [([1], [0, 1], [1, 2]), ([1], [3], [2]), ([1], [-1], [2]), ([1, 2], [0, 0], [1])],
)
def test_lengths_that_do_not_grow(pool: UnifiedPool, tails: list[int], old: list[int], new: list[int]) -> None:
    refused(pool, ValueError, lambda: pool["a"].extend(tails, old, new))


def test_a_tail_page_with_room_must_be_live_and_ones_own() -> None:
    pool = UnifiedPool(20, [Pages("a", bytes=1, grows="up", page_size=4)], shadow=True)
    ids = pool["a"].alloc(2)
    for tails in ([ids[0], 9], [ids[0], ids[0]], [ids[0], 0], [-1, ids[0]]):
        refused(pool, pp.InvalidPages, lambda tails=tails: pool["a"].extend(tails, [1, 2], [5, 6]))
    refused(pool, pp.BufferExhausted, lambda: pool["a"].extend(ids, [1, 2], [5, 90]))
    assert len(pool["a"].extend([ids[0], 77], [1, 4], [5, 9])) == 3


# -------------------------------------------------------------------------------------------------------------- windows


def test_a_window_owns_no_ids() -> None:
    pool = with_window()
    ids = pool["full"].alloc(2)
    assert "bind" in str(refused(pool, TypeError, lambda: pool["window"].alloc(1)))
    refused(pool, TypeError, lambda: pool["window"].try_alloc(1))
    assert "alloc" in str(refused(pool, TypeError, lambda: pool["full"].bind(ids)))
    assert "1 pages of window" in str(refused(pool, ValueError, lambda: pool.alloc({"window": 1})))
    refused(pool, ValueError, lambda: pool.alloc({"full": 1, "window": 2}))


@pytest.mark.parametrize(
    ("ids", "why"), [([1, 5], "not live"), ([1, 1], "more than once"), ([0], "sink"), ([-1], "neg")]
)
def test_a_window_binds_live_ids_only(ids: list[int], why: str) -> None:
    pool = with_window()
    pool["full"].alloc(3)
    assert why in str(refused(pool, pp.InvalidPages, lambda: pool["window"].bind(ids)))


def test_a_window_binds_an_id_once_and_frees_what_it_bound() -> None:
    pool = with_window()
    pool["full"].alloc(3)
    pool["window"].bind([2])
    error = refused(pool, pp.InvalidPages, lambda: pool["window"].bind([1, 2]))
    assert (error.name, error.operation, error.ids) == ("window", "bind", (2,))
    refused(pool, pp.InvalidPages, lambda: pool["window"].free([2, 3]))
    refused(pool, pp.InvalidPages, lambda: pool.lease("window", [1], "test"))
    refused(pool, pp.InvalidPages, lambda: pool.begin_step(writes={"window": [1]}))


def test_a_window_without_room_binds_nothing() -> None:
    pool = with_window(30)
    ids = pool["full"].alloc(6)
    have = pool.capacity("window")
    error = refused(pool, pp.BufferExhausted, lambda: pool["window"].bind(ids))
    assert (error.name, error.need, error.have) == ("window", 6, have)


# --------------------------------------------------------------------------------------------------------- declarations


@pytest.mark.parametrize(
    ("sub_pools", "words"),
    [
        ([], "declare at least one"),
        ([Pages("a", bytes=1, grows="down")], "'up'"),
        ([Pages("a", bytes=1, grows="up"), Pages("b", bytes=1, grows="up")], "exactly one"),
        ([Pages("a", bytes=1, grows="up"), Pages("b", bytes=1, grows="float")], "'down'"),
        ([Pages("a", bytes=1, grows="up"), Pages("a", bytes=1, grows="down")], "named 'a'"),
        ([Pages("a", bytes=6, grows="up", align=4)], "multiple of align = 4; set bytes to 8"),
        (
            [
                Pages("a", bytes=1, grows="up"),
                pp.WindowPages("w", ids_of="x", layers=1, kv_heads=1, head_dim=1, dtype="int8"),
            ],
            "there is no such sub-pool",
        ),
        (
            [pp.Checkpoints("a", of="x", grows="up")],
            "there is no such sub-pool",
        ),
    ],
)
def test_declarations_that_make_no_chain(sub_pools: list[Any], words: str) -> None:
    with pytest.raises(pp.LayoutError, match=words.replace("(", r"\(")):
        UnifiedPool(100, sub_pools)


@pytest.mark.parametrize(("total", "sizes"), [(0, (1,)), (1, (1,)), (5, (3,)), (10, (4, 4)), (11, (1, 5, 1))])
def test_a_buffer_that_is_too_small(total: int, sizes: tuple[int, ...]) -> None:
    with pytest.raises(pp.LayoutError, match=f"a buffer of {total} bytes is too small.*need .*larger"):
        plain(total, *sizes)


@pytest.mark.parametrize("total", [-1, 1.5, "20", None, True])
def test_a_number_of_bytes_that_is_none(total: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        plain(total, 1, 1)


def test_a_name_that_is_none(pool: UnifiedPool) -> None:
    step = pool.begin_step()
    finish(step)
    for call in (
        lambda: pool["x"],
        lambda: pool.capacity("x"),
        lambda: pool.fits({"a": 1, "x": 1}),
        lambda: pool.alloc({"a": 1, "x": 1}),
        lambda: pool.begin_step(writes={"a": [1], "x": [1]}),
        lambda: pool.begin_step(reads={"a": [1], "x": [1]}),
        lambda: pool.lease("x", [1], "test"),
        lambda: pool.gate("x", "test"),
        lambda: pool.views("x"),
        lambda: step.same("x", [1]),
    ):
        assert "'a', 'b'" in str(refused(pool, KeyError, call))


# ------------------------------------------------------------------------------------------------------ steps and holds


def test_a_read_of_what_nobody_has_written(pool: UnifiedPool) -> None:
    error = refused(pool, pp.StepError, lambda: pool.begin_step(reads={"a": [1, 2, 3, 4]}))
    assert "2 pages of 'a'" in str(error)
    assert "[3, 4]" in str(error)
    assert "zero='on_handout'" in str(error)


def test_a_refused_step_writes_nothing(pool: UnifiedPool) -> None:
    refused(pool, pp.StepError, lambda: pool.begin_step(reads={"a": [3]}, writes={"a": [3]}))
    refused(pool, pp.InvalidPages, lambda: pool.begin_step(writes={"a": [3], "b": [9]}))
    refused(pool, pp.StepError, lambda: pool.begin_step(reads={"a": [3]}))


def test_a_lease_of_what_is_being_written(pool: UnifiedPool) -> None:
    step = pool.begin_step(writes={"a": [2]})
    error = refused(pool, pp.LeaseError, lambda: pool.lease("a", [1, 2], "rdma"))
    assert "[2]" in str(error)
    step.launched()
    refused(pool, pp.LeaseError, lambda: pool.lease("a", [2], "rdma"))
    step.complete()
    pool.lease("a", [1, 2], "rdma").release()


def test_nothing_is_ended_twice(pool: UnifiedPool) -> None:
    lease, gate, group = pool.lease("a", [1], "x"), pool.gate("a", "y"), pool.free_group()
    for held, error in ((lease, pp.LeaseError), (gate, pp.GateError), (group, pp.GroupError)):
        end = next(getattr(held, name) for name in ("release", "open", "end") if hasattr(held, name))
        with held:
            pass
        refused(pool, error, end)
    assert pool.check() == []


def test_two_leases_of_a_page_are_two(pool: UnifiedPool) -> None:
    first, second = pool.lease("a", [4], "one"), pool.lease("a", [4], "two")
    pool["a"].free(4)
    first.release()
    refused(pool, pp.LeaseError, first.release)
    assert pool.stats().sub_pools[0].pending == 1
    second.release()
    assert pool.stats().sub_pools[0].pending == 0


@pytest.mark.parametrize("what", ["step", "away", "lease", "gate", "group"])
def test_a_busy_pool_is_not_cleared(pool: UnifiedPool, what: str) -> None:
    held: Any = {
        "step": lambda: pool.begin_step(),
        "away": lambda: pool.begin_step(stream=1),
        "lease": lambda: pool.lease("b", [1], "rdma"),
        "gate": lambda: pool.gate("b", "rdma"),
        "group": lambda: pool.free_group(),
    }[what]()
    error = refused(pool, pp.PoolBusy, pool.clear)
    assert "1 in the way" in str(error)
    assert ("a group of frees" if what == "group" else repr(held)) in str(error)
    if what in ("step", "away"):
        finish(held)
    else:
        held.__exit__(None, None, None)
    pool.clear()
    assert pool.check() == []


@pytest.mark.parametrize("when", ["open", "launched", "over", "retired"])
def test_a_step_goes_its_way_once(pool: UnifiedPool, when: str) -> None:
    step = pool.begin_step(writes={"a": [1]})
    phases = ["open", "launched", "over", "retired"]
    ways = {"launched": step.launched, "over": step.complete, "retired": step.retire}
    for phase in phases[1 : phases.index(when) + 1]:
        ways[phase]()
    for phase, way in ways.items():
        if phases.index(phase) != phases.index(when) + 1:
            refused(pool, pp.StepError, way)
    if when != "over":
        refused(pool, pp.StepError, lambda: step.publish("a", [1]))


# -------------------------------------------------------------------------------------------------------------- threads


def in_a_thread(call: Callable[[], Any]) -> Any:
    """What the call returns or raises in another thread."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(call())
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found[0]


def test_a_second_thread_is_refused(pool: UnifiedPool) -> None:
    step, gate, group = pool.begin_step(), pool.gate("a", "x"), pool.free_group()
    before = pool.snapshot()
    for call in (
        lambda: pool["a"].alloc(1),
        lambda: pool["a"].try_alloc(1),
        lambda: pool["a"].free([1]),
        lambda: pool["a"].extend([1], [0], [1]),
        lambda: pool.alloc({"a": 1}),
        lambda: pool.compact(),
        lambda: pool.begin_step(),
        lambda: pool.lease("a", [1], "x"),
        lambda: pool.gate("a", "x"),
        lambda: pool.free_group(),
        lambda: pool.clear(),
        step.launched,
        step.complete,
        step.retire,
        lambda: step.publish("a", [1]),
        gate.open,
        group.end,
    ):
        error = in_a_thread(call)
        assert isinstance(error, pp.WrongThread), error
        assert error.driver == threading.get_ident() != error.caller
        assert "hand the work over" in str(error)
    assert pool.snapshot() == before


def test_any_thread_may_release_a_lease(pool: UnifiedPool) -> None:
    lease = pool.lease("a", [4], "rdma")
    pool["a"].free(4)
    assert in_a_thread(lease.release) is None
    assert not lease.is_held
    assert isinstance(in_a_thread(lease.release), pp.LeaseError)
    with pytest.raises(pp.LeaseError):
        lease.release()
    pool["b"].alloc(0)
    assert pool.snapshot().leases == ()
    assert pool.stats().sub_pools[0].pending == 0
    assert pool.check() == []


def test_a_pool_may_be_made_by_another_thread_than_it_is_used_by() -> None:
    pool = in_a_thread(lambda: plain(20, 1, 1))
    assert len(pool["a"].alloc(2)) == 2


@pytest.mark.parametrize("twin", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_pool_has_no_twin(pool: UnifiedPool, twin: Callable[[object], object]) -> None:
    error = refused(pool, TypeError, lambda: twin(pool))
    assert "cannot be copied or pickled" in str(error)
    for part in (pool["a"], pool.lease("a", [1], "x"), pool.gate("a", "x"), pool.begin_step()):
        if twin is not copy.copy:
            refused(pool, TypeError, lambda part=part: twin(part))


def test_tokens_and_buffers_of_another_kind(pool: UnifiedPool) -> None:
    before = pool.snapshot()
    for tokens in (torch.zeros(2), torch.zeros(2, dtype=torch.uint8)):
        with pytest.raises(TypeError):
            pool["a"].translate(tokens)
    assert pool.snapshot() == before
