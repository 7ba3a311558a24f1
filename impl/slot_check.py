"""The invariants of the spec, tested against the stored arrays of a slot pool and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from poolproof.slot_key import (
    CACHE,
    FREE,
    NOBODY,
    OUTSIDE,
    PENDING,
    REQUEST,
    RESERVED,
    SINK,
    are_tenants,
    holders_of,
    owners_of,
)
from poolproof.violation import Violation

if TYPE_CHECKING:
    from poolproof.slot_pool import SlotPool

_LISTED: Final = 8


def check_slots(pool: SlotPool) -> list[Violation]:
    """The broken claims, [] for a healthy pool. Where the arrays cannot be read at all, only that is reported."""
    unreadable = list(_storage(pool))
    return unreadable or [found for claim in _CLAIMS for found in claim(pool)]


def _listed(ids: NDArray[np.int64]) -> str:
    more = ", ..." if ids.size > _LISTED else ""
    return f"[{', '.join(map(str, ids[:_LISTED].tolist()))}{more}]"


def _storage(pool: SlotPool) -> Iterator[Violation]:
    total = pool.total
    for name, array, length in (
        ("_keys", pool._keys, total + 1),
        ("_stack", pool._stack, total - 1),
        ("_stamp", pool._stamp, total),
        ("_tenancies", pool._tenancies.ended, total),
    ):
        if array.shape != (length,) or array.dtype != np.int64:
            text = f"{name} is {array.dtype}{list(array.shape)}, not int64[{length}]"
            yield Violation("I1", "storage_is_well_formed", text)
    for name, count, limit in (
        ("_head", pool._head, len(pool._stack)),
        ("_reserve_head", pool._reserve_head, len(pool._reserve)),
        ("_tenancies.logged", pool._tenancies.logged, len(pool._tenancies.log)),
    ):
        if not 0 <= count <= limit:
            yield Violation("I21", "counts_are_never_negative", f"{name} is {count}, outside 0..{limit}")


def _places(pool: SlotPool) -> Iterator[Violation]:
    """Every id is counted once for each list that names it and for an owner that keeps no list."""
    owners = owners_of(pool._keys[:-1])
    places = np.isin(owners, (REQUEST, CACHE, PENDING, SINK)).astype(np.int64)
    for ids in (pool._stack[pool._head :], pool._reserve[pool._reserve_head :]):
        np.add.at(places, ids[(ids >= 0) & (ids < pool.total)], 1)
    wrong = np.flatnonzero(places != 1)
    if wrong.size:
        text = f"{wrong.size} slots are in no place or in several: {_listed(wrong)}"
        yield Violation("I1", "every_slot_is_in_exactly_one_place", text)


def _sink(pool: SlotPool) -> Iterator[Violation]:
    is_sink = owners_of(pool._keys[:-1]) == SINK
    if not is_sink[0]:
        yield Violation("I1", "the_sink_is_only_the_sink", f"slot 0 has the owner {pool._keys[0] & 7}")
    others = np.flatnonzero(is_sink[1:]) + 1
    if others.size:
        yield Violation("I1", "the_sink_is_only_the_sink", f"slots {_listed(others)} belong to the sink")
    if pool._keys[-1] != OUTSIDE:
        text = f"the key that stands for ids past the end is {pool._keys[-1]}"
        yield Violation("I2", "only_a_live_handle_can_be_given_back", text)


def _free_list(pool: SlotPool) -> Iterator[Violation]:
    return _list(pool, pool._stack[pool._head :], FREE, "free_slots_are_listed")


def _reserve_list(pool: SlotPool) -> Iterator[Violation]:
    return _list(pool, pool._reserve[pool._reserve_head :], RESERVED, "reserved_slots_are_listed")


def _list(pool: SlotPool, ids: NDArray[np.int64], owner: int, name: str) -> Iterator[Violation]:
    members = np.flatnonzero(owners_of(pool._keys[:-1]) == owner)
    once, times = np.unique(ids, return_counts=True)
    for text, wrong in (
        ("listed more than once", once[times > 1]),
        ("listed with another owner, or none of the pool's", np.setdiff1d(once, members)),
        ("not listed", np.setdiff1d(members, once)),
    ):
        if wrong.size:
            yield Violation("I1", name, f"{wrong.size} slots are {text}: {_listed(wrong)}")


def _holders(pool: SlotPool) -> Iterator[Violation]:
    keys = pool._keys[:-1]
    wrong = np.flatnonzero(are_tenants(keys) != (holders_of(keys) > NOBODY))
    wrong = np.union1d(wrong, np.flatnonzero(holders_of(keys) < NOBODY))
    if wrong.size:
        text = f"{wrong.size} slots have an owner without a holder or the reverse: {_listed(wrong)}"
        yield Violation("I1", "exactly_the_owned_slots_have_a_holder", text)


def _group(pool: SlotPool) -> Iterator[Violation]:
    left = len(pool._reserve) - pool._reserve_head
    if pool._group is None and left:
        yield Violation("I1", "a_reserve_needs_an_open_group", f"{left} slots are reserved and no group is open")


def _counters(pool: SlotPool) -> Iterator[Violation]:
    owners = owners_of(pool._keys[:-1])
    for name, owner, counter in (
        ("requests_are_counted", REQUEST, pool._in_requests),
        ("cached_slots_are_counted", CACHE, pool._in_cache),
        ("pending_slots_are_counted", PENDING, pool._in_pending),
    ):
        number = int(np.count_nonzero(owners == owner))
        if counter != number:
            yield Violation("I21", name, f"the count is {counter}, {number} slots have that owner")
        if not 0 <= counter < pool.total:
            yield Violation("I21", "counts_are_never_negative", f"{name}: the count is {counter} of {pool.total} slots")


def _conservation(pool: SlotPool) -> Iterator[Violation]:
    parts = {
        "free": len(pool._stack) - pool._head,
        "reserved": len(pool._reserve) - pool._reserve_head,
        "in requests": pool._in_requests,
        "in the cache": pool._in_cache,
        "pending": pool._in_pending,
        "sink": 1,
    }
    if sum(parts.values()) != pool.total:
        text = " + ".join(f"{count} {name}" for name, count in parts.items())
        yield Violation("I21", "slots_are_conserved", f"{text} = {sum(parts.values())}, not {pool.total}")
    if not pool._head <= pool._peak <= pool.slots:
        text = f"the peak is {pool._peak}, {pool._head} of {pool.slots} slots are not free now"
        yield Violation("I21", "peak_is_between_use_and_size", text)


def _tenancies(pool: SlotPool) -> Iterator[Violation]:
    wrong = np.flatnonzero(pool._tenancies.ended < 0)
    if wrong.size:
        text = f"{wrong.size} slots have a negative tenancy number: {_listed(wrong)}"
        yield Violation("I3", "tenancies_are_numbered_from_zero", text)
    logged = pool._tenancies.log[: pool._tenancies.logged]
    strays = logged[(logged < 1) | (logged >= pool.total)]
    if strays.size:
        text = f"the log of ended tenancies holds {strays.size} ids that are no slots: {_listed(strays)}"
        yield Violation("I3", "tenancies_are_numbered_from_zero", text)


_CLAIMS: Final[tuple[Callable[[SlotPool], Iterator[Violation]], ...]] = (
    _places,
    _sink,
    _free_list,
    _reserve_list,
    _holders,
    _group,
    _counters,
    _conservation,
    _tenancies,
)
