"""A slot pool in plain Python lists: an independent target that offers everything, and the body of the canaries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from poolproof.spec.slots import Owner

NOBODY: Final = -1
_TENANTS: Final = (Owner.REQUEST, Owner.CACHE)


class Refusal(Exception):
    """The pool refuses the call; nothing was changed."""


@dataclass
class PlainSnapshot:
    """The whole state, under the spec's names."""

    owner: list[Owner]
    holder: list[int]
    tenancy: list[int]
    free_slots: list[int]
    reserved_slots: list[int]
    in_requests: int
    in_cache: int
    in_pending: int
    group_is_open: bool


class PlainPool:
    """A correct slot pool, the plainest that there is. Ids are 1..slots; see `poolproof.spec.slots` for what they mean.

    Args:
        slots: number of usable slots.
    """

    refusals = (Refusal,)

    def __init__(self, slots: int) -> None:
        self.total = slots + 1
        self.tenancy = [0] * self.total
        self.reset()

    def reset(self) -> None:
        """Everything is free but the sink."""
        self.owner = [Owner.SINK] + [Owner.FREE] * (self.total - 1)
        self.holder = [NOBODY] * self.total
        self.unused = list(range(1, self.total))
        self.reserve: list[int] = []
        self.open = False
        self.counts = dict.fromkeys((Owner.REQUEST, Owner.CACHE, Owner.PENDING), 0)

    # ------------------------------------------------------------------------------------------------------- guards

    def check_holder(self, holder: int) -> None:
        """Refuse a number that names nobody."""
        if holder < 0:
            raise Refusal(f"holder {holder}")

    def check_distinct(self, ids: list[int]) -> None:
        """Refuse a batch that names a slot twice."""
        if len(set(ids)) != len(ids):
            raise Refusal("an id occurs twice")

    def check_range(self, ids: list[int]) -> None:
        """Refuse the sink and whatever is no slot."""
        for slot in ids:
            if not 0 < slot < self.total:
                raise Refusal(f"{slot} is no slot")

    def check_held(self, ids: list[int], holder: int) -> None:
        """Refuse slots that the holder does not own."""
        for slot in ids:
            if self.owner[slot] not in _TENANTS or self.holder[slot] != holder:
                raise Refusal(f"{holder} does not hold {slot}")

    def check_pending(self, ids: list[int]) -> None:
        """Refuse slots that wait for nothing."""
        for slot in ids:
            if self.owner[slot] != Owner.PENDING:
                raise Refusal(f"{slot} is not pending")

    def check_batch(self, ids: list[int], holder: int) -> None:
        """All that `free`, `retire` and `transfer` ask of their ids."""
        self.check_distinct(ids)
        self.check_range(ids)
        self.check_held(ids, holder)

    # --------------------------------------------------------------------------------------------------- operations

    def give(self, ids: list[int], holder: int, owner: Owner) -> None:
        """These slots go to a holder."""
        for slot in ids:
            self.owner[slot] = owner
            self.holder[slot] = holder
        self.counts[owner] += len(ids)

    def leave(self, ids: list[int], owner: Owner) -> None:
        """These slots leave their holder."""
        for slot in ids:
            self.counts[self.owner[slot]] -= 1
            self.owner[slot] = owner
            self.holder[slot] = NOBODY
            self.tenancy[slot] += 1

    def pull(self, n: int) -> list[int]:
        """Take n ids off the free list."""
        if n > len(self.unused):
            raise Refusal(f"{n} slots needed, {len(self.unused)} free")
        ids, self.unused = self.unused[:n], self.unused[n:]
        return ids

    def alloc(self, n: int, holder: int = 0) -> list[int]:
        """Give n free slots to a request."""
        self.check_holder(holder)
        ids = self.pull(n)
        self.give(ids, holder, Owner.REQUEST)
        return ids.copy()

    def try_alloc(self, n: int, holder: int = 0) -> list[int] | None:
        """As `alloc`, but None where fewer are free."""
        try:
            return self.alloc(n, holder)
        except Refusal:
            return None

    def free(self, ids: list[int], holder: int = 0) -> None:
        """The holder gives slots back."""
        self.check_batch(ids, holder)
        self.leave(ids, Owner.FREE)
        self.unused.extend(ids)

    def retire(self, ids: list[int], holder: int = 0) -> None:
        """The holder gives slots back, to wait."""
        self.check_batch(ids, holder)
        self.leave(ids, Owner.PENDING)
        self.counts[Owner.PENDING] += len(ids)

    def reclaim(self, ids: list[int]) -> None:
        """These pending slots are free."""
        self.check_distinct(ids)
        self.check_range(ids)
        self.check_pending(ids)
        for slot in ids:
            self.owner[slot] = Owner.FREE
        self.counts[Owner.PENDING] -= len(ids)
        self.unused.extend(ids)

    def transfer(self, ids: list[int], holder: int, to: Owner, heir: int) -> None:
        """The slots pass on."""
        self.check_batch(ids, holder)
        self.check_holder(heir)
        if to not in _TENANTS:
            raise Refusal(f"to {to.name}")
        if any(self.owner[slot] == to for slot in ids) and heir == holder:
            raise Refusal("nothing would change")
        self.leave(ids, to)
        self.give(ids, heir, to)

    def open_group(self, n: int) -> list[int]:
        """Hold n free slots back."""
        if self.open:
            raise Refusal("a group is open")
        self.reserve = self.pull(n)
        for slot in self.reserve:
            self.owner[slot] = Owner.RESERVED
        self.open = True
        return self.reserve.copy()

    def take(self, n: int, holder: int = 0) -> list[int]:
        """Give n reserved slots to a request."""
        self.check_holder(holder)
        if not self.open or n > len(self.reserve):
            raise Refusal(f"{n} slots needed, {len(self.reserve)} held back")
        ids, self.reserve = self.reserve[:n], self.reserve[n:]
        self.give(ids, holder, Owner.REQUEST)
        return ids.copy()

    def close_group(self) -> None:
        """What is left of the reserve is free again."""
        if not self.open:
            raise Refusal("no group is open")
        for slot in self.reserve:
            self.owner[slot] = Owner.FREE
        self.unused.extend(self.reserve)
        self.reserve, self.open = [], False

    def clear(self) -> None:
        """Back to the initial state; every tenancy ends."""
        for slot, owner in enumerate(self.owner):
            self.tenancy[slot] += owner in _TENANTS
        self.reset()

    # ------------------------------------------------------------------------------------------------------ reading

    def available(self) -> int:
        """How many slots one `alloc` can get."""
        return len(self.unused)

    def snapshot(self) -> PlainSnapshot:
        """The whole state (the lists are the pool's own)."""
        return PlainSnapshot(
            self.owner,
            self.holder,
            self.tenancy,
            self.unused,
            self.reserve,
            self.counts[Owner.REQUEST],
            self.counts[Owner.CACHE],
            self.counts[Owner.PENDING],
            self.open,
        )
