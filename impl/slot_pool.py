"""A pool of slots: who owns which, decided on the host.

Slot ids are 1..slots; slot 0 is the sink, where padding rows write, and is never handed out. A slot is free, held back
by the open pre-allocation group, owned by a request or by the cache, or pending (given back, but a step in flight may
still touch it). What each method may do is written down, and proved, in `poolproof.spec.slots`.
"""

from __future__ import annotations

from sys import byteorder
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from poolproof.arguments import Ids, as_count, as_holder, as_ids, as_int, as_owner
from poolproof.errors import (
    Fault,
    GroupError,
    InvalidFree,
    InvalidHolder,
    InvalidIds,
    InvalidOwner,
    InvalidTransfer,
    PoolError,
    PoolExhausted,
    WrongThread,
)
from poolproof.owner import Owner
from poolproof.slot_check import check_slots
from poolproof.slot_faults import find_held_fault, find_pending_fault, find_range_fault
from poolproof.slot_group import Group
from poolproof.slot_key import (
    CACHE,
    FREE,
    MAX_HOLDER,
    OUTSIDE,
    PENDING,
    REQUEST,
    RESERVED,
    SINK,
    are_tenants,
    holders_of,
    key_of,
    owners_of,
)
from poolproof.slot_reports import SlotSnapshot, SlotStats
from poolproof.slot_tenancies import Tenancies
from poolproof.violation import Violation

if TYPE_CHECKING:
    from poolproof.shadow import Shadow

_OPERATIONS: Final = ("alloc", "free", "retire", "reclaim", "transfer", "open_group", "take", "close_group", "clear")
_PENDING_BYTES: Final = PENDING.to_bytes(8, byteorder)
_PLACES_KEPT: Final = 4096
_PLACES: Final = np.arange(_PLACES_KEPT)
_PLACES_BYTES: Final = _PLACES.tobytes()
_NO_SLOTS: Final = np.empty(0, np.int64)
_NO_THREAD: Final = 0


class SlotPool:
    """A pool of fixed-size slots with one owner each.

    Every batch is done in full, or refused with an error that leaves the pool as it was. Ids come back as fresh int64
    arrays, never as views of what the pool stores. The time and memory of a call do not depend on the size of the pool
    (`clear`, `check` and the methods that copy a whole table excepted). The thread of the first operation drives the
    pool; `check`, `stats` and `capacity` may be called from any thread while no operation runs.

    Args:
        slots: number of usable slots, ids 1..slots.
        shadow: run the spec in lockstep and raise `SpecViolation` where the pool departs from it. Every operation then
            takes time in proportion to the size of the pool.

    Raises:
        TypeError, ValueError: `slots` is no positive integer.
    """

    __slots__ = (
        "__weakref__",
        "_calls",
        "_group",
        "_head",
        "_in_cache",
        "_in_pending",
        "_in_requests",
        "_keys",
        "_peak",
        "_refusals",
        "_reserve",
        "_reserve_head",
        "_shadow",
        "_slots",
        "_stack",
        "_stamp",
        "_tenancies",
        "_thread",
    )

    _keys: NDArray[np.int64]
    """[total + 1]: owner and holder of each slot (see slot_key), and OUTSIDE one past the end."""
    _stack: NDArray[np.int64]
    """[slots]: _stack[_head:] are the free slots, next first; what lies below _head is stale."""
    _head: int
    """How many slots are not free."""
    _reserve: NDArray[np.int64]
    """_reserve[_reserve_head:] is what the open group holds back."""
    _reserve_head: int
    _group: Group | None
    _in_requests: int
    _in_cache: int
    _in_pending: int
    _stamp: NDArray[np.int64]
    """[total]: scratch of the duplicate check; any content is as good as any other."""

    def __init__(self, slots: int, *, shadow: bool = False) -> None:
        self._slots = as_count("slots", slots)
        if self._slots == 0:
            raise ValueError("slots is 0; a pool needs at least one slot")
        self._keys = np.zeros(self._slots + 2, np.int64)
        self._tenancies = Tenancies(self._slots + 1)
        self._stack = np.empty(self._slots, np.int64)
        self._stamp = np.empty(self._slots + 1, np.int64)
        self._calls = dict.fromkeys(_OPERATIONS, 0)
        self._refusals = dict.fromkeys(_OPERATIONS, 0)
        self._thread = _NO_THREAD
        self._peak = 0
        self._make_all_free()
        self._shadow: Shadow | None = None
        if shadow:
            from poolproof.shadow import Shadow

            self._shadow = Shadow(self)

    # ------------------------------------------------------------------------------------------------- operations

    def alloc(self, n: int, holder: int = 0) -> NDArray[np.int64]:
        """Give free slots to a request.

        Args:
            n: how many slots.
            holder: number of the request, 0 or more.

        Returns:
            The slot ids, a fresh int64 array of shape [n].

        Raises:
            PoolExhausted: fewer slots are free.
            InvalidHolder: the holder is negative.
            WrongThread: another thread drives the pool.
            TypeError, ValueError: an argument is no integer, or n is negative.
        """
        ids = self.try_alloc(n, holder)
        if ids is None:
            raise self._shortage(n)
        return ids

    def try_alloc(self, n: int, holder: int = 0) -> NDArray[np.int64] | None:
        """As `alloc`, but None where fewer slots are free."""
        if get_ident() != self._thread:
            self._adopt_thread()
        n = as_count("n", n)
        holder = self._checked_holder("alloc", "holder", holder)
        end = self._head + n
        if end > self._slots:
            self._note_shortage("alloc", n)
            return None
        ids = self._stack[self._head : end].copy()
        self._keys[ids] = key_of(REQUEST, holder)
        self._head = end
        self._in_requests += n
        if end > self._peak:
            self._peak = end
        self._calls["alloc"] += 1
        if self._shadow is not None:
            self._shadow.ran(("alloc", holder, ids))
        return ids

    def free(self, ids: Ids, holder: int = 0) -> None:
        """The holder gives slots back; they can be handed out again at once.

        Args:
            ids: an int, a sequence of ints, or a 1-D integer array or CPU tensor, in any order, none twice.
            holder: number of the request or cache node that owns all of them.

        Raises:
            InvalidFree: an id is not owned by the holder, is none of the pool's, or is listed twice.
            InvalidHolder: the holder is negative.
            WrongThread: another thread drives the pool.
            TypeError, ValueError: the ids are no integers, lie on a device, or have more than one dimension.
        """
        if get_ident() != self._thread:
            self._adopt_thread()
        slots = as_ids(ids)
        holder = self._checked_holder("free", "holder", holder)
        step = ("free", holder, slots)
        requests = self._requests_among(slots, holder, step)
        self._end_tenancies(slots, FREE, requests)
        self._push(slots)
        self._calls["free"] += 1
        if self._shadow is not None:
            self._shadow.ran(step)

    def retire(self, ids: Ids, holder: int = 0) -> None:
        """The holder gives slots back while a step in flight may still touch them: they wait for `reclaim`.

        Args and errors are those of `free`.
        """
        if get_ident() != self._thread:
            self._adopt_thread()
        slots = as_ids(ids)
        holder = self._checked_holder("retire", "holder", holder)
        step = ("retire", holder, slots)
        requests = self._requests_among(slots, holder, step)
        self._end_tenancies(slots, PENDING, requests)
        self._in_pending += len(slots)
        self._calls["retire"] += 1
        if self._shadow is not None:
            self._shadow.ran(step)

    def reclaim(self, ids: Ids) -> None:
        """Nothing in flight touches these pending slots any more: they are free.

        Args:
            ids: an int, a sequence of ints, or a 1-D integer array or CPU tensor, in any order, none twice.

        Raises:
            InvalidFree: an id is not pending, is none of the pool's, or is listed twice.
            WrongThread: another thread drives the pool.
            TypeError, ValueError: the ids are no integers, lie on a device, or have more than one dimension.
        """
        if get_ident() != self._thread:
            self._adopt_thread()
        slots = as_ids(ids)
        step = ("reclaim", slots)
        keys = self._keys.take(slots, None, None, "clip")
        if keys.tobytes() != _PENDING_BYTES * len(slots):
            raise self._refused_ids(find_pending_fault(slots, keys, self._slots + 1), step)
        self._check_distinct(slots, step)
        self._keys[slots] = FREE
        self._push(slots)
        self._in_pending -= len(slots)
        self._calls["reclaim"] += 1
        if self._shadow is not None:
            self._shadow.ran(step)

    def transfer(self, ids: Ids, *, holder: int, to: Owner, heir: int) -> None:
        """Ownership passes on: a request donates to the cache, the cache or a session hands over to a request.

        Args:
            ids: an int, a sequence of ints, or a 1-D integer array or CPU tensor, in any order, none twice.
            holder: number of the request or cache node that owns all of them.
            to: `Owner.REQUEST` or `Owner.CACHE`.
            heir: number of the request or cache node that owns them from now on.

        Raises:
            InvalidTransfer: an id is not owned by the holder, is none of the pool's, is listed twice, or would change
                neither its holder nor its kind of owner.
            InvalidOwner: `to` is another kind of owner.
            InvalidHolder: the holder or the heir is negative.
            WrongThread: another thread drives the pool.
            TypeError, ValueError: the ids are no integers, lie on a device, or have more than one dimension.
        """
        if get_ident() != self._thread:
            self._adopt_thread()
        slots, owner = as_ids(ids), as_owner("to", to)
        holder = self._checked_holder("transfer", "holder", holder)
        heir = self._checked_holder("transfer", "heir", heir)
        step = ("transfer", holder, slots, owner, heir)
        if owner not in (REQUEST, CACHE):
            self._refusals["transfer"] += 1
            raise InvalidOwner(owner)
        requests = self._requests_among(slots, holder, step)
        if holder == heir and requests != (0 if owner == REQUEST else len(slots)):
            alike = self._keys.take(slots) == key_of(owner, heir)
            raise self._refused_ids((Fault.UNCHANGED, slots[alike]), step)
        self._end_tenancies(slots, key_of(owner, heir), requests)
        if owner == REQUEST:
            self._in_requests += len(slots)
        else:
            self._in_cache += len(slots)
        self._calls["transfer"] += 1
        if self._shadow is not None:
            self._shadow.ran(step)

    def open_group(self, n: int) -> Group:
        """Hold free slots back for the requests of one batch, all of them or none. One group is open at a time.

        Args:
            n: how many slots.

        Returns:
            The open group, whose `take` hands the slots out; use it as a context manager, or close it.

        Raises:
            GroupError: a group is open already.
            PoolExhausted: fewer slots are free.
            WrongThread: another thread drives the pool.
            TypeError, ValueError: n is no integer, or is negative.
        """
        if get_ident() != self._thread:
            self._adopt_thread()
        n = as_count("n", n)
        if self._group is not None:
            error = GroupError("a group is open already; close it first. Nothing was changed.")
            raise self._refused(error, ("open_group",))
        end = self._head + n
        if end > self._slots:
            self._note_shortage("open_group", n)
            raise self._shortage(n)
        self._reserve, self._reserve_head = self._stack[self._head : end].copy(), 0
        self._keys[self._reserve] = RESERVED
        self._head = end
        self._peak = max(self._peak, end)
        self._group = Group(self)
        self._calls["open_group"] += 1
        if self._shadow is not None:
            self._shadow.ran(("open_group",), ("reserve", self._reserve))
        return self._group

    def clear(self) -> None:
        """Back to a new pool, whatever was open or owned: every handle dies, and the open group with it.

        Tenancy numbers go on, and so do the peak and the counts of calls.

        Raises:
            WrongThread: another thread drives the pool.
        """
        if get_ident() != self._thread:
            self._adopt_thread()
        self._tenancies.end(np.flatnonzero(are_tenants(self._keys[:-1])))
        self._make_all_free()
        self._calls["clear"] += 1
        if self._shadow is not None:
            self._shadow.ran(("clear",))

    # ---------------------------------------------------------------------------------------------------- queries

    @property
    def slots(self) -> int:
        """Number of usable slots, the sink not counted."""
        return self._slots

    @property
    def total(self) -> int:
        """Number of slots, the sink included; ids are 0..total - 1."""
        return self._slots + 1

    def capacity(self) -> int:
        """How many slots one `alloc` can get now."""
        return self._slots - self._head

    def owners(self) -> NDArray[np.int8]:
        """The `Owner` of each slot by id, a fresh int8 array of shape [total].

        Raises:
            WrongThread: another thread drives the pool.
        """
        self._check_reader()
        return owners_of(self._keys[:-1])

    def holders(self) -> NDArray[np.int64]:
        """The holder of each slot by id, -1 for nobody, a fresh int64 array of shape [total].

        Raises:
            WrongThread: another thread drives the pool.
        """
        self._check_reader()
        return holders_of(self._keys[:-1])

    def tenancies(self) -> NDArray[np.int64]:
        """The tenancy number of each slot by id, a fresh int64 array of shape [total].

        Raises:
            WrongThread: another thread drives the pool.
        """
        self._check_reader()
        return self._tenancies.numbers().copy()

    def tenancy(self, ids: Ids) -> NDArray[np.int64]:
        """The tenancy numbers of these slots; with the holder they make handles that `is_live` can tell apart.

        A number counts the tenancies of the slot that have ended: it stays from `alloc` to `free`, `retire` or
        `transfer`.

        Returns:
            A fresh int64 array, one number an id.

        Raises:
            InvalidIds: an id is none of the pool's.
            WrongThread: another thread drives the pool.
            TypeError, ValueError: the ids are no integers, lie on a device, or have more than one dimension.
        """
        self._check_reader()
        slots = as_ids(ids)
        finding = find_range_fault(slots, self._slots + 1)
        if finding is not None:
            raise InvalidIds("tenancy", finding[0], finding[1].tolist(), slots=self._slots)
        return self._tenancies.numbers()[slots]

    def is_live(self, ids: Ids, tenancies: Ids, holder: int = 0) -> NDArray[np.bool_]:
        """Which handles are live: does the holder own the slot, and has it ever since the tenancy number was read?

        Args:
            ids: slot ids, any integers.
            tenancies: the tenancy number of each, from `tenancy`.
            holder: number of the request or cache node.

        Returns:
            A bool array, one truth value an id; False for ids that are none of the pool's.

        Raises:
            WrongThread: another thread drives the pool.
            TypeError, ValueError: an argument holds no integers, or the lengths differ.
        """
        self._check_reader()
        slots, numbers = as_ids(ids), as_ids(tenancies)
        if len(slots) != len(numbers):
            raise ValueError(f"{len(slots)} ids with {len(numbers)} tenancies; pass one tenancy an id")
        keys = self._keys.take(slots, mode="clip")
        live: NDArray[np.bool_] = are_tenants(keys) & (holders_of(keys) == as_int("holder", holder))
        live &= self._tenancies.numbers().take(slots, mode="clip") == numbers
        return live

    def check(self) -> list[Violation]:
        """Every claim of the spec's invariants, tested against the stored arrays; [] means healthy.

        Takes time and memory in proportion to the size of the pool. Any thread may call it while no operation runs.
        """
        return check_slots(self)

    def stats(self) -> SlotStats:
        """Slots by kind of owner, and calls by method. Takes constant time; any thread may call it."""
        return SlotStats(
            total=self._slots + 1,
            sink=1,
            free=self._slots - self._head,
            reserved=self._reserved_count(),
            in_requests=self._in_requests,
            in_cache=self._in_cache,
            pending=self._in_pending,
            peak=self._peak,
            operations=dict(self._calls),
            refusals=dict(self._refusals),
        )

    def snapshot(self) -> SlotSnapshot:
        """The whole state, as the spec has it, in plain ints.

        Raises:
            WrongThread: another thread drives the pool.
        """
        self._check_reader()
        keys = self._keys[:-1]
        return SlotSnapshot(
            total=self._slots + 1,
            owner=tuple((keys & 7).tolist()),
            holder=tuple(holders_of(keys).tolist()),
            tenancy=tuple(self._tenancies.numbers().tolist()),
            free_slots=tuple(self._stack[self._head :].tolist()),
            reserved_slots=tuple(self._reserve[self._reserve_head :].tolist()),
            in_requests=self._in_requests,
            in_cache=self._in_cache,
            in_pending=self._in_pending,
            group_is_open=self._group is not None,
        )

    def __reduce__(self) -> NoReturn:
        """A pool is not copied or pickled: its slots would have two owners."""
        raise TypeError("a SlotPool cannot be copied or pickled; make a new one, or take a snapshot()")

    def __repr__(self) -> str:
        return (
            f"SlotPool(slots={self._slots}, free={self.capacity()}, reserved={self._reserved_count()}, "
            f"in_requests={self._in_requests}, in_cache={self._in_cache}, pending={self._in_pending})"
        )

    # ---------------------------------------------------------------------------------------------- group's own half

    def _take(self, group: Group, n: int, holder: int) -> NDArray[np.int64]:
        if get_ident() != self._thread:
            self._adopt_thread()
        n = as_count("n", n)
        holder = self._checked_holder("take", "holder", holder)
        self._check_group(group, "take")
        end = self._reserve_head + n
        if end > len(self._reserve):
            self._note_shortage("take", n)
            left = self._reserved_count()
            raise GroupError(f"{n} slots needed, the group holds {left} back; open it with more. Nothing was changed.")
        ids = self._reserve[self._reserve_head : end].copy()
        self._keys[ids] = key_of(REQUEST, holder)
        self._reserve_head = end
        self._in_requests += n
        self._calls["take"] += 1
        if self._shadow is not None:
            self._shadow.ran(("take", holder, ids))
        return ids

    def _close(self, group: Group) -> None:
        if get_ident() != self._thread:
            self._adopt_thread()
        self._check_group(group, "close_group")
        left = self._reserve[self._reserve_head :]
        self._keys[left] = FREE
        self._push(left)
        self._reserve, self._reserve_head, self._group = _NO_SLOTS, 0, None
        self._calls["close_group"] += 1
        if self._shadow is not None:
            self._shadow.ran(("close_group",))

    def _check_group(self, group: Group, operation: str) -> None:
        if self._group is not group:
            self._refusals[operation] += 1
            raise GroupError("this group is closed; open a new one with open_group. Nothing was changed.")

    def _reserved_count(self) -> int:
        return len(self._reserve) - self._reserve_head

    # ------------------------------------------------------------------------------------------------------ changes

    def _make_all_free(self) -> None:
        self._keys[:] = FREE
        self._keys[0], self._keys[-1] = SINK, OUTSIDE
        self._stack[:] = np.arange(1, self._slots + 1)
        self._head = 0
        self._reserve, self._reserve_head = _NO_SLOTS, 0
        self._group = None
        self._in_requests = self._in_cache = self._in_pending = 0

    def _push(self, ids: NDArray[np.int64]) -> None:
        head = self._head - len(ids)
        self._stack[head : self._head] = ids
        self._head = head

    def _end_tenancies(self, ids: NDArray[np.int64], key: int, requests: int) -> None:
        """The slots leave their holder, who had `requests` of them as a request and the others as a cache node."""
        self._tenancies.end(ids)
        self._keys[ids] = key
        self._in_requests -= requests
        self._in_cache -= len(ids) - requests

    # ------------------------------------------------------------------------------------------------------- guards

    def _requests_among(self, ids: NDArray[np.int64], holder: int, step: tuple[Any, ...]) -> int:
        """How many of these ids the holder has as a request; refuses the step unless it holds them all, none twice."""
        n = len(ids)
        # Clipping sends negative ids to the sink and those past the end to OUTSIDE: one gather checks range and owner.
        keys = self._keys.take(ids, None, None, "clip")
        # Comparing memory costs a fraction of two numpy calls, and a batch of one kind is the rule.
        stored = keys.tobytes()
        request = key_of(REQUEST, holder)
        if stored == request.to_bytes(8, byteorder) * n:
            requests = n
        elif stored == (request + 1).to_bytes(8, byteorder) * n:
            requests = 0
        else:
            finding = find_held_fault(ids, keys, self._slots + 1, holder)
            if finding is not None:
                raise self._refused_ids(finding, step)
            requests = int(np.count_nonzero(keys == request))
        if n > 1:
            self._check_distinct(ids, step)
        return requests

    def _check_distinct(self, ids: NDArray[np.int64], step: tuple[Any, ...]) -> None:
        """Each id notes its place in the batch; an id listed twice keeps only one of the two."""
        n = len(ids)
        marks = _PLACES[:n] if n <= _PLACES_KEPT else np.arange(n)
        self._stamp[ids] = marks
        stamped = self._stamp.take(ids, None, None, "clip")
        if stamped.tobytes() != (_PLACES_BYTES[: 8 * n] if n <= _PLACES_KEPT else marks.tobytes()):
            raise self._refused_ids((Fault.DUPLICATE, np.unique(ids[stamped != marks])), step)

    def _checked_holder(self, operation: str, name: str, holder: int) -> int:
        if type(holder) is int and 0 <= holder <= MAX_HOLDER:
            return holder
        try:
            return as_holder(name, holder)
        except InvalidHolder:
            self._refusals[operation] += 1
            raise

    def _adopt_thread(self) -> None:
        self._check_reader()
        self._thread = get_ident()

    def _check_reader(self) -> None:
        if self._thread not in (_NO_THREAD, get_ident()):
            raise WrongThread(self._thread, get_ident())

    # ----------------------------------------------------------------------------------------------------- refusals

    def _refused_ids(self, finding: tuple[Fault, NDArray[np.int64]] | None, step: tuple[Any, ...]) -> PoolError:
        assert finding is not None
        kind = InvalidTransfer if step[0] == "transfer" else InvalidFree
        return self._refused(kind(step[0], finding[0], finding[1].tolist(), slots=self._slots), step)

    def _refused(self, error: PoolError, step: tuple[Any, ...]) -> PoolError:
        """The error to raise; with a shadow, the spec must refuse the step too."""
        self._refusals[step[0]] += 1
        if self._shadow is not None:
            self._shadow.refused(step)
        return error

    def _note_shortage(self, operation: str, n: int) -> None:
        self._refusals[operation] += 1
        if self._shadow is not None:
            self._shadow.lacked(operation, n)

    def _shortage(self, n: int) -> PoolExhausted:
        return PoolExhausted(
            need=int(n),
            have=self.capacity(),
            reclaimable=self._in_pending,
            evictable=self._in_cache,
            reserved=self._reserved_count(),
            slots=self._slots,
        )
