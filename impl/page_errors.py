"""What a unified pool refuses beyond what every pool does. Each error says the numbers and the remedy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from poolproof.errors import LISTED, Fault, InvalidFree, PoolError, PoolExhausted


class BufferExhausted(PoolExhausted):
    """An allocation asks for more pages than the buffer can give, a compaction included.

    Attributes:
        name: the sub-pool; of several that were asked for together one that falls short by itself, if any does.
        need, have: pages asked for, and what one `alloc` of this sub-pool could get now.
        need_bytes, have_bytes: the same in bytes.
        slots: ids of the sub-pool.
        evictable, reserved: 0; the pool knows no cache and holds nothing back.
        reclaimable: pages of the sub-pool that are pending: free once steps, leases and groups let go of them.
        free_ids: ids of the sub-pool that lead to no page.
        demand: what was asked for together, by sub-pool; empty where it was one.
    """

    def __init__(
        self,
        name: str,
        *,
        need: int,
        have: int,
        page_bytes: int,
        reclaimable: int,
        free_ids: int,
        slots: int,
        demand: Mapping[str, int] | None = None,
    ) -> None:
        together = ", ".join(f"{n} of {other!r}" for other, n in (demand or {}).items())
        asked = f"{together} together: " if together else ""
        PoolError.__init__(
            self,
            f"{asked}sub-pool {name!r}: {need} pages ({need * page_bytes} bytes) needed, {have} ({have * page_bytes} "
            f"bytes) to be had{' alone' if asked else ''}, a compaction included; {reclaimable} pages are pending, "
            f"{free_ids} ids are free. Free pages here or in the sub-pools beside, complete steps, release leases, "
            f"open gates, admit less, or make the buffer larger. Nothing was changed.",
        )
        self.name = name
        self.need, self.have = need, have
        self.need_bytes, self.have_bytes = need * page_bytes, have * page_bytes
        self.reclaimable = reclaimable
        self.free_ids = free_ids
        self.slots, self.evictable, self.reserved = slots, 0, 0
        self.demand = dict(demand or {})


class InvalidPages(InvalidFree):
    """Page ids are refused.

    Attributes:
        fault: what is wrong with the ids.
        name: the sub-pool.
        operation: the method that refused.
        ids: the first few offending ids.
        count: how many offending ids there are.
    """

    def __init__(self, name: str, operation: str, fault: Fault, ids: Sequence[int], most: int, why: str = "") -> None:
        listed = ", ".join(map(str, ids[:LISTED])) + (", ..." if len(ids) > LISTED else "")
        what = f"{len(ids)} id is" if len(ids) == 1 else f"{len(ids)} ids are"
        PoolError.__init__(
            self,
            f"{operation} in sub-pool {name!r}: {what} {why or _WHY[fault]}: [{listed}] (ids of this sub-pool are "
            f"1..{most}). Nothing was changed.",
        )
        self.name = name
        self.operation = operation
        self.fault = fault
        self.ids = tuple(ids[:LISTED])
        self.count = len(ids)


class StepError(PoolError):
    """A step cannot begin, go on or end as asked."""


class LeaseError(PoolError):
    """Pages cannot be leased or a lease not released as asked."""


class GateError(PoolError):
    """A gate was opened before."""


class PoolBroken(PoolError):
    """Moving or zeroing bytes failed half-way: what the pages hold is not known, and the pool must not be used on."""


class PoolBusy(PoolError):
    """Something is in flight or held that the operation would pull the ground from under."""


_WHY: Final = {
    Fault.SINK: "the sink, which nobody is given; drop padding before the call",
    Fault.NEGATIVE: "negative; drop padding such as -1 before the call",
    Fault.OUT_OF_RANGE: "out of range; pass page ids of this sub-pool, not token ids or ids of another one",
    Fault.NOT_OWNED: "not live; forget an id when it is given back",
    Fault.DUPLICATE: "listed more than once; list each page once in a call",
}
