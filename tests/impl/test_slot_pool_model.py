"""Random calls, good and bad, against a model in plain dicts and sets, with and without the spec in lockstep."""

from __future__ import annotations

import random
from typing import Any

import pytest

import poolproof as pp
from poolproof import Owner, SlotPool
from poolproof.slot_group import Group

HOLDERS = 3
CALLS = [*["alloc"] * 3, *["free", "transfer", "take"] * 2, "retire", "reclaim", "open_group", "close"]


class Model:
    """What a pool of n slots should look like; each method says whether the call is allowed and does it."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.tenancy = dict.fromkeys(range(slots + 1), 0)
        self.clear()

    def clear(self) -> None:
        for slot in getattr(self, "held", {}):
            self.tenancy[slot] += 1
        self.free = set(range(1, self.slots + 1))
        self.held: dict[int, tuple[Owner, int]] = {}
        self.pending: set[int] = set()
        self.reserve: set[int] | None = None

    def owner(self, slot: int) -> Owner:
        if slot in self.held:
            return self.held[slot][0]
        places = {Owner.FREE: self.free, Owner.PENDING: self.pending, Owner.RESERVED: self.reserve or set()}
        return next((owner for owner, place in places.items() if slot in place), Owner.SINK)

    def can_give(self, ids: list[int], holder: int) -> bool:
        return len(set(ids)) == len(ids) and all(i in self.held and self.held[i][1] == holder for i in ids)

    def give(self, ids: list[int], to: set[int]) -> None:
        for slot in ids:
            del self.held[slot]
            self.tenancy[slot] += 1
            to.add(slot)

    def compare(self, pool: SlotPool) -> None:
        every = range(self.slots + 1)
        assert pool.owners().tolist() == [self.owner(slot) for slot in every]
        assert pool.holders().tolist() == [self.held.get(slot, (None, -1))[1] for slot in every]
        assert pool.tenancies().tolist() == list(self.tenancy.values())
        kinds = [owner for owner, _ in self.held.values()]
        stats = pool.stats()
        assert pool.capacity() == stats.free == len(self.free)
        assert (stats.reserved, stats.pending) == (len(self.reserve or ()), len(self.pending))
        assert (stats.in_requests, stats.in_cache) == (kinds.count(Owner.REQUEST), kinds.count(Owner.CACHE))
        assert pool.check() == []


class Driver:
    """Makes one random call to the pool and the same to the model; the two must agree on whether it is allowed."""

    def __init__(self, slots: int, seed: int, shadow: bool) -> None:
        self.random = random.Random(seed)
        self.pool, self.model = SlotPool(slots, shadow=shadow), Model(slots)
        self.group: Group | None = None
        self.refused = 0

    def step(self) -> None:
        name = "clear" if self.random.random() < 0.005 else self.random.choice(CALLS)
        getattr(self, name)()

    def call(self, allowed: bool, error: type[Exception], function: Any, *arguments: Any, **named: Any) -> Any:
        if allowed:
            return function(*arguments, **named)
        self.refused += 1
        before = self.pool.snapshot()
        with pytest.raises(error):
            function(*arguments, **named)
        assert self.pool.snapshot() == before
        return None

    def holder(self) -> int:
        return self.random.randrange(HOLDERS)

    def some(self, candidates: Any) -> list[int]:
        """A few of the candidates in any order, now and then with an id that does not belong, or one twice."""
        pool = sorted(candidates)
        ids = self.random.sample(pool, self.random.randint(0, min(len(pool), 6)))
        if self.random.random() < 0.25:
            ids.insert(self.random.randint(0, len(ids)), self.random.randint(-2, self.model.slots + 2))
        return ids

    def mine(self, holder: int) -> list[int]:
        return self.some(slot for slot, (_, owner) in self.model.held.items() if owner == holder)

    def alloc(self) -> None:
        n, holder = self.random.randint(0, 5), self.holder()
        ids = self.call(n <= len(self.model.free), pp.PoolExhausted, self.pool.alloc, n, holder)
        if ids is not None:
            self.hand_out(ids.tolist(), n, holder, self.model.free)

    def hand_out(self, ids: list[int], n: int, holder: int, place: set[int]) -> None:
        assert len(ids) == len(set(ids)) == n
        assert place.issuperset(ids)
        place.difference_update(ids)
        self.model.held.update((slot, (Owner.REQUEST, holder)) for slot in ids)

    def free(self) -> None:
        self.give(self.pool.free, self.model.free)

    def retire(self) -> None:
        self.give(self.pool.retire, self.model.pending)

    def give(self, function: Any, place: set[int]) -> None:
        holder = self.holder()
        ids = self.mine(holder)
        allowed = self.model.can_give(ids, holder)
        self.call(allowed, pp.InvalidFree, function, ids, holder)
        if allowed:
            self.model.give(ids, place)

    def reclaim(self) -> None:
        ids = self.some(self.model.pending)
        allowed = len(set(ids)) == len(ids) and self.model.pending.issuperset(ids)
        self.call(allowed, pp.InvalidFree, self.pool.reclaim, ids)
        if allowed:
            self.model.pending.difference_update(ids)
            self.model.free.update(ids)

    def transfer(self) -> None:
        holder, heir, to = self.holder(), self.holder(), self.random.choice([Owner.REQUEST, Owner.CACHE])
        ids = self.mine(holder)
        allowed = self.model.can_give(ids, holder) and all(self.model.held[slot] != (to, heir) for slot in ids)
        self.call(allowed, pp.InvalidTransfer, self.pool.transfer, ids, holder=holder, to=to, heir=heir)
        if allowed:
            for slot in ids:
                self.model.held[slot] = to, heir
                self.model.tenancy[slot] += 1

    def open_group(self) -> None:
        n = self.random.randint(0, 8)
        if self.model.reserve is not None:
            self.call(False, pp.GroupError, self.pool.open_group, n)
            return
        group = self.call(n <= len(self.model.free), pp.PoolExhausted, self.pool.open_group, n)
        if group is not None:
            self.group = group
            self.model.reserve = {slot for slot in self.model.free if self.pool.owners()[slot] == Owner.RESERVED}
            self.model.free -= self.model.reserve
            assert len(self.model.reserve) == n

    def take(self) -> None:
        if self.group is None:
            return
        n, holder, reserve = self.random.randint(0, 3), self.holder(), self.model.reserve
        allowed = reserve is not None and n <= len(reserve)
        ids = self.call(allowed, pp.GroupError, self.group.take, n, holder)
        if allowed and reserve is not None:
            self.hand_out(ids.tolist(), n, holder, reserve)

    def close(self) -> None:
        if self.group is None:
            return
        reserve = self.model.reserve
        self.call(reserve is not None, pp.GroupError, self.group.close)
        if reserve is not None:
            self.model.free |= reserve
            self.model.reserve = None

    def clear(self) -> None:
        self.pool.clear()
        self.model.clear()


@pytest.mark.parametrize("shadow", [False, True], ids=["alone", "shadowed"])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("slots", [1, 5, 40])
def test_the_pool_agrees_with_a_model(slots: int, seed: int, shadow: bool) -> None:
    driver = Driver(slots, seed, shadow)
    for _ in range(400):
        driver.step()
        driver.model.compare(driver.pool)
    assert 20 < driver.refused < 380
