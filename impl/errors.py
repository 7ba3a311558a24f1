"""What a pool refuses, and why. Every error says the numbers and the remedy, and leaves the pool as it was."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, Final

LISTED: Final = 8
"""How many offending ids an error carries at most."""


class PoolError(Exception):
    """Base of all errors of the pools."""

    # Worker processes hand errors over pickled, and the default would call __init__ with the message alone.
    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(kind: type[PoolError], args: tuple[Any, ...], fields: dict[str, Any]) -> PoolError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(fields)
    return error


class PoolExhausted(PoolError):
    """An allocation asks for more slots than are free.

    Attributes:
        need: slots asked for.
        have: slots free now.
        reclaimable: pending slots, free once the steps in flight are over and `reclaim` is called.
        evictable: slots owned by the cache.
        reserved: slots held back by the open group.
        slots: slots of the pool, the sink not counted.
    """

    def __init__(self, *, need: int, have: int, reclaimable: int, evictable: int, reserved: int, slots: int) -> None:
        super().__init__(
            f"{need} slots needed, {have} of {slots} free ({reclaimable} pending, {evictable} in the cache, "
            f"{reserved} held back by the open group); reclaim pending slots, evict cached ones, admit less, "
            f"or make the pool larger. Nothing was changed."
        )
        self.need = need
        self.have = have
        self.reclaimable = reclaimable
        self.evictable = evictable
        self.reserved = reserved
        self.slots = slots


class Fault(Enum):
    """Why slot ids are refused: what is wrong with them, and the remedy."""

    NEGATIVE = "negative", "drop padding such as -1 before the call"
    OUT_OF_RANGE = "out of range", "pass slot ids of this pool; token ids and ids of other pools are none"
    SINK = "the sink", "slot 0 takes the writes of padding rows and is never handed out; drop it before the call"
    NOT_OWNED = "not owned by anyone", "forget a handle when it is given back; it may have been freed before"
    FOREIGN = "owned by another holder", "only the owner gives a slot back or passes it on; use `transfer` first"
    NOT_PENDING = "not pending", "reclaim each retired slot once"
    DUPLICATE = "listed more than once", "list each slot once in a call"
    UNCHANGED = "owned by the heir already", "a transfer must change the holder or the kind of owner"

    def __init__(self, text: str, remedy: str) -> None:
        self.text = text
        self.remedy = remedy


class InvalidIds(PoolError, ValueError):
    """Slot ids are refused.

    Attributes:
        operation: the method that refused.
        fault: what is wrong with the ids.
        ids: the first few offending ids (an id that int64 cannot hold shows as the nearest int64).
        count: how many offending ids there are.
    """

    def __init__(self, operation: str, fault: Fault, ids: Sequence[int], *, slots: int) -> None:
        first = tuple(ids[:LISTED])
        listed = ", ".join(map(str, first)) + (", ..." if len(ids) > len(first) else "")
        what = f"{len(ids)} id is" if len(ids) == 1 else f"{len(ids)} ids are"
        super().__init__(
            f"{operation}: {what} {fault.text}: [{listed}] (slots of this pool are 1..{slots}); {fault.remedy}. "
            f"Nothing was changed."
        )
        self.operation = operation
        self.fault = fault
        self.ids = first
        self.count = len(ids)


class InvalidFree(InvalidIds):
    """`free`, `retire` or `reclaim` was given ids that the caller cannot give back."""


class InvalidTransfer(InvalidIds):
    """`transfer` was given ids that the caller cannot pass on, or that would not change hands."""


class InvalidHolder(PoolError, ValueError):
    """A holder is negative.

    Attributes:
        holder: the refused number.
    """

    def __init__(self, name: str, holder: int) -> None:
        super().__init__(f"{name} is {holder}; number requests and cache nodes from 0 up. Nothing was changed.")
        self.holder = holder


class InvalidOwner(PoolError, ValueError):
    """A slot can pass on to a request or to the cache only.

    Attributes:
        owner: the refused kind of owner.
    """

    def __init__(self, owner: int) -> None:
        super().__init__(
            f"to={owner!r}: a slot passes on to Owner.REQUEST or Owner.CACHE; use free or retire to give it back. "
            f"Nothing was changed."
        )
        self.owner = owner


class GroupError(PoolError):
    """A pre-allocation group is used wrongly: a second one, one that is closed, or for more than it holds back."""


class WrongThread(PoolError, RuntimeError):
    """A second thread calls a pool. The thread of the first call drives it.

    Attributes:
        driver: identifier of the driving thread.
        caller: identifier of the thread that called.
    """

    def __init__(self, driver: int, caller: int) -> None:
        super().__init__(
            f"thread {caller} calls a pool that thread {driver} drives; hand the work over to that thread. "
            f"Nothing was changed."
        )
        self.driver = driver
        self.caller = caller


class SpecViolation(PoolError, AssertionError):
    """The pool and the spec that runs in lockstep with it disagree: a bug of the pool, or damage from outside.

    Attributes:
        operation: the operation after which they first disagree, with its arguments.
        field: the field of the spec's state that differs, or "verdict": one allows what the other refuses.
        slots: the first few slots that differ, empty for a scalar field.
        pool_value: what the pool has there, one value a slot, or the scalar.
        spec_value: what the spec has there.
    """

    def __init__(
        self, operation: str, field: str, slots: Sequence[int], pool_value: Any, spec_value: Any, why: str = ""
    ) -> None:
        where = f" at slots {list(slots)}" if slots else ""
        super().__init__(
            f"{operation}: {field}{where}: the pool has {pool_value!r}, the spec {spec_value!r}{why and f' ({why})'}; "
            f"stop using this pool and report the sequence of operations"
        )
        self.operation = operation
        self.field = field
        self.slots = tuple(slots)
        self.pool_value = pool_value
        self.spec_value = spec_value


class LayoutError(PoolError, ValueError):
    """Sub-pools are declared wrongly, or a buffer cannot hold them; the message says the numbers and the remedy."""
