"""What a slot pool refuses: the type of the error, what it says, and that the pool is as it was."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from buffers import refused

import poolproof as pp
from poolproof import Fault, Owner, SlotPool

SLOTS = 12


@pytest.fixture(params=[False, True], ids=["alone", "shadowed"])
def pool(request: pytest.FixtureRequest) -> SlotPool:
    """Slots 1-4 of request 1, 5-6 of cache node 1, 7 of request 2, 8 pending, 9-12 free."""
    pool = SlotPool(SLOTS, shadow=request.param)
    pool.alloc(6, holder=1)
    pool.transfer([5, 6], holder=1, to=Owner.CACHE, heir=1)
    pool.alloc(1, holder=2)
    pool.retire(pool.alloc(1))
    return pool


BAD_FOR_HOLDER_1 = [
    ([3, -1, 2, -7], Fault.NEGATIVE, (-1, -7)),
    ([3, 13], Fault.OUT_OF_RANGE, (13,)),
    ([-(2**70)], Fault.NEGATIVE, (-(2**63),)),
    ([1, 2**70, 2**63], Fault.OUT_OF_RANGE, (2**63 - 1, 2**63 - 1)),
    (np.array([1, 2**64 - 1], np.uint64), Fault.OUT_OF_RANGE, (2**63 - 1,)),
    ([0, 1], Fault.SINK, (0,)),
    ([1, 8, 9], Fault.NOT_OWNED, (8, 9)),
    ([1, 7], Fault.FOREIGN, (7,)),
    ([7], Fault.FOREIGN, (7,)),
    ([2, 1, 2, 3, 1], Fault.DUPLICATE, (1, 2)),
    ([5, 5], Fault.DUPLICATE, (5,)),
    ([1, 5, 1], Fault.DUPLICATE, (1,)),
]


@pytest.mark.parametrize(("ids", "fault", "named"), BAD_FOR_HOLDER_1)
@pytest.mark.parametrize("operation", ["free", "retire", "transfer"])
def test_ids_that_the_holder_cannot_give_away(
    pool: SlotPool, operation: str, ids: Any, fault: Fault, named: tuple[int, ...]
) -> None:
    if operation == "transfer":
        error = refused(pool, pp.InvalidTransfer, lambda: pool.transfer(ids, holder=1, to=Owner.CACHE, heir=3))
    else:
        error = refused(pool, pp.InvalidFree, lambda: getattr(pool, operation)(ids, 1))
    assert (error.operation, error.fault, error.ids, error.count) == (operation, fault, named, len(named))
    assert str(list(named)) in str(error)
    assert fault.text in str(error)
    assert fault.remedy in str(error)
    assert pool.stats().refusals[operation] == 1


@pytest.mark.parametrize(
    ("ids", "fault", "named"),
    [
        ([8, -1], Fault.NEGATIVE, (-1,)),
        ([8, 13], Fault.OUT_OF_RANGE, (13,)),
        ([0], Fault.SINK, (0,)),
        ([1, 8, 9], Fault.NOT_PENDING, (1, 9)),
        ([8, 8], Fault.DUPLICATE, (8,)),
    ],
)
def test_ids_that_cannot_be_reclaimed(pool: SlotPool, ids: Any, fault: Fault, named: tuple[int, ...]) -> None:
    error = refused(pool, pp.InvalidFree, lambda: pool.reclaim(ids))
    assert (error.operation, error.fault, error.ids) == ("reclaim", fault, named)


@pytest.mark.parametrize("at", [0, 4094, 4095, 4096, 4998])
def test_one_duplicate_in_a_long_list_is_seen(at: int) -> None:
    pool = SlotPool(5000)
    ids = pool.alloc(5000)
    twice = ids.copy()
    twice[at] = ids[-1]
    for n in (5000, 5000 - at):
        error = refused(pool, pp.InvalidFree, lambda n=n: pool.free(twice[-n:]))
        assert (error.fault, error.ids) == (Fault.DUPLICATE, (ids[-1],))
    pool.free(ids)


def test_a_second_free_is_refused(pool: SlotPool) -> None:
    pool.free(3, holder=1)
    assert refused(pool, pp.InvalidFree, lambda: pool.free(3, holder=1)).fault is Fault.NOT_OWNED


def test_a_second_reclaim_is_refused(pool: SlotPool) -> None:
    pool.reclaim(8)
    assert refused(pool, pp.InvalidFree, lambda: pool.reclaim(8)).fault is Fault.NOT_PENDING


def test_the_former_holder_has_no_say(pool: SlotPool) -> None:
    pool.transfer(1, holder=1, to=Owner.REQUEST, heir=4)
    assert refused(pool, pp.InvalidFree, lambda: pool.free(1, holder=1)).fault is Fault.FOREIGN


def test_reserved_slots_cannot_be_freed(pool: SlotPool) -> None:
    pool.open_group(2)
    assert refused(pool, pp.InvalidFree, lambda: pool.free([9, 10])).fault is Fault.NOT_OWNED


def test_a_long_list_is_cut_short() -> None:
    pool = SlotPool(SLOTS)
    error = refused(pool, pp.InvalidFree, lambda: pool.free(range(1, 13)))
    assert (error.ids, error.count) == (tuple(range(1, 9)), 12)
    assert "12 ids are" in str(error)
    assert "8, ...]" in str(error)
    assert "1..12" in str(error)


@pytest.mark.parametrize(("to", "same"), [(Owner.REQUEST, [1, 4]), (Owner.CACHE, [5])])
def test_a_transfer_must_change_something(pool: SlotPool, to: Owner, same: list[int]) -> None:
    error = refused(pool, pp.InvalidTransfer, lambda: pool.transfer([1, 4, 5], holder=1, to=to, heir=1))
    assert (error.fault, list(error.ids)) == (Fault.UNCHANGED, same)
    error = refused(pool, pp.InvalidTransfer, lambda: pool.transfer(same, holder=1, to=to, heir=1))
    assert error.fault is Fault.UNCHANGED


@pytest.mark.parametrize("to", [Owner.FREE, Owner.RESERVED, Owner.PENDING, Owner.SINK])
def test_a_transfer_goes_to_a_request_or_the_cache(pool: SlotPool, to: Owner) -> None:
    error = refused(pool, pp.InvalidOwner, lambda: pool.transfer([1], holder=1, to=to, heir=2))
    assert error.owner == to
    assert pool.stats().refusals["transfer"] == 1


@pytest.mark.parametrize("to", [6, -1, True, "cache", None, 3.0])
def test_a_kind_of_owner_is_an_owner(pool: SlotPool, to: Any) -> None:
    error = refused(pool, TypeError, lambda: pool.transfer([1], holder=1, to=to, heir=2))
    assert not isinstance(error, pp.PoolError)


def test_exhaustion_says_the_numbers(pool: SlotPool) -> None:
    pool.open_group(1)
    error = refused(pool, pp.PoolExhausted, lambda: pool.alloc(np.int64(4)))
    assert (error.need, error.have, error.reclaimable, error.evictable, error.reserved) == (4, 3, 1, 2, 1)
    assert error.slots == SLOTS
    assert "4 slots needed, 3 of 12 free (1 pending, 2 in the cache, 1 held back" in str(error)
    assert "reclaim" in str(error)
    before = pool.snapshot()
    assert pool.try_alloc(4) is None
    assert pool.snapshot() == before
    assert pool.stats().refusals["alloc"] == 2


def test_a_group_needs_its_slots_now(pool: SlotPool) -> None:
    error = refused(pool, pp.PoolExhausted, lambda: pool.open_group(5))
    assert (error.need, error.have) == (5, 4)
    assert pool.stats().refusals["open_group"] == 1
    assert pool.open_group(4).remaining == 4


@pytest.mark.parametrize(
    "call",
    [
        lambda pool, holder: pool.alloc(1, holder),
        lambda pool, holder: pool.try_alloc(1, holder),
        lambda pool, holder: pool.free([1], holder),
        lambda pool, holder: pool.retire([1], holder),
        lambda pool, holder: pool.transfer([1], holder=holder, to=Owner.CACHE, heir=2),
        lambda pool, holder: pool.transfer([1], holder=1, to=Owner.CACHE, heir=holder),
        lambda pool, holder: pool._group.take(1, holder),
    ],
    ids=["alloc", "try_alloc", "free", "retire", "transfer from", "transfer to", "take"],
)
def test_holders_are_numbers_from_zero_up(pool: SlotPool, call: Callable[[SlotPool, Any], Any]) -> None:
    pool.open_group(1)
    assert refused(pool, pp.InvalidHolder, lambda: call(pool, -1)).holder == -1
    assert sum(pool.stats().refusals.values()) == 1
    for odd in (1.0, True, "1", None, np.bool_(True)):
        assert not isinstance(refused(pool, TypeError, lambda odd=odd: call(pool, odd)), pp.PoolError)
    assert not isinstance(refused(pool, ValueError, lambda: call(pool, 2**60)), pp.PoolError)


def test_holders_may_be_large_and_come_from_numpy(pool: SlotPool) -> None:
    largest = 2**60 - 2
    ids = pool.alloc(1, np.int64(largest))
    assert pool.holders()[ids].tolist() == [largest]
    pool.transfer(ids, holder=np.int64(largest), to=Owner.CACHE, heir=np.uint8(3))
    pool.free(ids, np.int8(3))
    ids = pool.alloc(1, np.int64(0))
    assert pool.holders()[ids].tolist() == [0]


@pytest.mark.parametrize("n", [-1, np.int64(-5)])
def test_counts_are_not_negative(pool: SlotPool, n: int) -> None:
    group = pool.open_group(1)
    refused(pool, ValueError, lambda: group.take(n))
    group.close()
    for call in (pool.alloc, pool.try_alloc, pool.open_group):
        assert "zero or more" in str(refused(pool, ValueError, lambda call=call: call(n)))


@pytest.mark.parametrize("n", [1.0, True, "1", None, np.float64(2), np.array([1, 2])])
def test_counts_are_integers(pool: SlotPool, n: Any) -> None:
    for call in (pool.alloc, pool.try_alloc, pool.open_group):
        refused(pool, TypeError, lambda call=call: call(n))


@pytest.mark.parametrize("slots", [0, -1, 1.5, True, None])
def test_a_pool_has_slots(slots: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="slots"):
        SlotPool(slots)


class Elsewhere:
    """What a tensor on a device looks like to a pool."""

    class device:
        type = "cuda"

    def __array__(self, dtype: Any = None) -> Any:
        raise AssertionError("a pool must not copy from a device")


@pytest.mark.parametrize(
    ("ids", "remedy"),
    [
        (np.array([1.0]), "astype"),
        (np.array([]), "astype"),
        (np.array([True]), "astype"),
        (np.array(["1"]), "astype"),
        (np.array([1], object), "astype"),
        ([1.0], "int"),
        ([1, True], "int"),
        ([None], "int"),
        ("12", "int"),
        (1.0, "int"),
        (True, "int"),
        (np.bool_(True), "int"),
        (None, "int"),
        ({1, 2}, "int"),
        ([[1], [2]], "int"),
        (Elsewhere(), ".cpu()"),
    ],
)
def test_ids_are_integers_on_the_host(pool: SlotPool, ids: Any, remedy: str) -> None:
    for call in (
        lambda: pool.free(ids, 1),
        lambda: pool.retire(ids, 1),
        lambda: pool.reclaim(ids),
        lambda: pool.transfer(ids, holder=1, to=Owner.CACHE, heir=2),
        lambda: pool.tenancy(ids),
        lambda: pool.is_live(ids, [0]),
    ):
        assert remedy in str(refused(pool, TypeError, call))


def test_ids_have_one_dimension(pool: SlotPool) -> None:
    assert "reshape" in str(refused(pool, ValueError, lambda: pool.free(np.array([[1, 2]]), 1)))


def test_tensors_on_the_cpu_are_ids(pool: SlotPool) -> None:
    torch = pytest.importorskip("torch")
    pool.free(torch.tensor([1, 2]), 1)
    pool.free(torch.tensor(3, dtype=torch.int32), 1)
    refused(pool, TypeError, lambda: pool.free(torch.tensor([4.0]), 1))
    assert ".cpu()" in str(
        refused(pool, TypeError, lambda: pool.free(torch.empty(1, dtype=torch.int64, device="meta"), 1))
    )


def test_queries_of_stray_ids_are_refused(pool: SlotPool) -> None:
    assert refused(pool, pp.InvalidIds, lambda: pool.tenancy([1, 13])).fault is Fault.OUT_OF_RANGE
    assert refused(pool, pp.InvalidIds, lambda: pool.tenancy(-1)).fault is Fault.NEGATIVE
    refused(pool, ValueError, lambda: pool.is_live([1, 2], [0]))


def in_another_thread(call: Callable[[], Any]) -> Any:
    outcome: list[Any] = []

    def body() -> None:
        try:
            outcome.append(call())
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    return outcome[0]


@pytest.mark.parametrize(
    "call",
    [
        lambda pool: pool.alloc(1),
        lambda pool: pool.try_alloc(1),
        lambda pool: pool.free([1], 1),
        lambda pool: pool.retire([1], 1),
        lambda pool: pool.reclaim([8]),
        lambda pool: pool.transfer([1], holder=1, to=Owner.CACHE, heir=2),
        lambda pool: pool.open_group(1),
        lambda pool: pool._group.take(1),
        lambda pool: pool._group.close(),
        lambda pool: pool.clear(),
        lambda pool: pool.owners(),
        lambda pool: pool.holders(),
        lambda pool: pool.tenancies(),
        lambda pool: pool.tenancy([1]),
        lambda pool: pool.is_live([1], [0]),
        lambda pool: pool.snapshot(),
    ],
)
def test_one_thread_drives_a_pool(pool: SlotPool, call: Callable[[SlotPool], Any]) -> None:
    pool.open_group(2)
    before = pool.snapshot()
    error = in_another_thread(lambda: call(pool))
    assert isinstance(error, pp.WrongThread)
    assert error.driver == threading.get_ident() != error.caller
    assert pool.snapshot() == before
    assert pool.check() == []


def test_any_thread_may_look(pool: SlotPool) -> None:
    assert in_another_thread(pool.check) == []
    assert in_another_thread(pool.stats) == pool.stats()
    assert in_another_thread(pool.capacity) == pool.capacity()


def test_the_thread_of_the_first_operation_drives() -> None:
    pool = SlotPool(4)
    assert pool.owners().size == 5
    assert in_another_thread(lambda: pool.alloc(1)).tolist() == [1]
    with pytest.raises(pp.WrongThread):
        pool.alloc(1)


def all_errors() -> list[pp.PoolError]:
    pool = SlotPool(3)
    pool.alloc(1)
    errors = [pp.WrongThread(1, 2), pp.SpecViolation("free(0, [1])", "owner", [1], [0], [2])]
    for call in (
        lambda: pool.alloc(9),
        lambda: pool.free([2]),
        lambda: pool.alloc(1, -1),
        lambda: pool.transfer([1], holder=0, to=Owner.REQUEST, heir=0),
        lambda: pool.transfer([1], holder=0, to=Owner.FREE, heir=0),
        lambda: (pool.open_group(0), pool.open_group(0)),
    ):
        with pytest.raises(pp.PoolError) as raised:
            call()
        errors.append(raised.value)
    return errors


@pytest.mark.parametrize("error", all_errors(), ids=lambda error: type(error).__name__)
def test_errors_survive_the_way_to_another_process(error: pp.PoolError) -> None:
    twin = pickle.loads(pickle.dumps(error))
    assert type(twin) is type(error)
    assert str(twin) == str(error)
    assert vars(twin) == vars(error)
