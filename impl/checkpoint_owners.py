"""Who owns slots of a checkpoint pool: requests and nodes, and the handles of locks and donations."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from poolproof.arguments import as_int
from poolproof.errors import InvalidHolder
from poolproof.holds import Handle
from poolproof.scoped import Scoped

if TYPE_CHECKING:
    from poolproof.checkpoint_bytes import Copy
    from poolproof.checkpoint_nodes import CheckpointNodes
    from poolproof.checkpoint_pool import CheckpointPool

Scope: TypeAlias = Literal["pages", "state"]
"""What a lock keeps: the node with its pages, or the node's checkpoint too."""

Source: TypeAlias = Literal["own", "track"]
"""Which state of a request is donated: its own, or that of its latest track buffer."""


class Tenant:
    """A request that waits or runs.

    Attributes:
        number: the request.
        is_running: or else it waits in the queue.
        own: the slot of its own state; None without one.
        latest, spare: its track buffers, the one that was written last and the one whose turn is next.
        locks: those it holds, by number.
        donations: those it has under way, by checkpoint.
    """

    __slots__ = ("donations", "is_running", "latest", "locks", "number", "own", "spare")

    def __init__(self, number: int) -> None:
        self.number, self.is_running = number, False
        self.own: int | None = None
        self.latest: int | None = None
        self.spare: int | None = None
        self.locks: dict[int, Lock] = {}
        self.donations: dict[int, Donation] = {}

    @property
    def slots(self) -> list[int]:
        """Its active slots, in the order in which they are given back."""
        return [slot for slot in (self.spare, self.latest, self.own) if slot is not None]

    def state_lock(self, node: int) -> Lock | None:
        """A lock of scope "state" that it holds on a node."""
        for lock in self.locks.values():
            if lock.node == node and lock.scope == "state":
                return lock
        return None

    def __str__(self) -> str:
        phase = "runs" if self.is_running else "waits"
        return f"request {self.number} {phase} " + ("without a slot" if self.own is None else f"on slot {self.own}")


class Place:
    """A node of the cache.

    Attributes:
        number: the node.
        length: tokens of its key.
        checkpoint: the slot of its checkpoint; None without one.
        stored: tokens that the checkpoint's state has seen; 0 without one.
        pages, state: locks that are held on it, by scope.
    """

    __slots__ = ("checkpoint", "length", "number", "pages", "state", "stored")

    def __init__(self, number: int, length: int) -> None:
        self.number, self.length = number, length
        self.checkpoint: int | None = None
        self.stored = self.pages = self.state = 0


class Lock(Scoped, Handle):
    """A node that a request keeps, as `CheckpointPool.lock` returns it. As a context manager it releases itself.

    Attributes:
        number: the place in the order in which all locks of the pool were taken.
        request, node: who keeps what.
        scope: "pages" or "state".
        is_held: until the release.
    """

    __slots__ = ("_pool", "is_held", "node", "number", "request", "scope")

    def __init__(self, pool: CheckpointNodes, number: int, request: int, node: int, scope: Scope) -> None:
        self._pool, self.number, self.request, self.node, self.scope = pool, number, request, node, scope
        self.is_held = True

    def release(self) -> None:
        """The request keeps the node no longer by this lock.

        Raises:
            LockError: it was released before, by whoever ended the request if not by the caller.
        """
        self._pool._unlock(self)

    def _leave(self) -> None:
        if self.is_held:
            self.release()

    def __repr__(self) -> str:
        return f"Lock(request {self.request}, node {self.node}, {self.scope!r}, held={self.is_held})"


class DonationPhase(Enum):
    """How far a donation is."""

    STORING = "storing"
    STORED = "stored"
    PUBLISHED = "published"
    DROPPED = "dropped"


class Donation(Handle):
    """A state that a request gives to the cache, as `CheckpointPool.donate` returns it.

    Attributes:
        request: whose state it is.
        checkpoint: the slot that it is stored in.
        length: tokens that the state has seen.
        active: the slot that it is copied from.
        phase: storing until the copy is complete, then stored until it is published or dropped.
    """

    __slots__ = ("_copy", "_pending", "_pool", "active", "checkpoint", "length", "phase", "request")

    def __init__(
        self, pool: CheckpointPool, request: int, active: int, checkpoint: int, length: int, copy: Copy | None
    ) -> None:
        self._pool, self.request, self.active, self.checkpoint = pool, request, active, checkpoint
        self.length, self._copy = length, copy
        self.phase = DonationPhase.STORED if copy is None else DonationPhase.STORING
        self._pending = False

    @property
    def is_in_flight(self) -> bool:
        """Whether its copy has begun and not been completed."""
        return self._copy is not None

    def complete(self) -> None:
        """The copy is over, as the caller knows: at the same place on every rank. At home it is from the beginning.

        Raises:
            LifecycleError: it was completed before.
            StepError: it comes after a step that is in flight.
        """
        self._pool._complete(self)

    def publish(self, node: int) -> None:
        """The checkpoint is the node's from now on, and nobody writes to it any more.

        Args:
            node: one without a checkpoint, whose key has just as many tokens.

        Raises:
            LifecycleError: the copy is in flight, the donation was published or dropped before, there is no such node,
                or it has a checkpoint, or a key of another length.
        """
        self._pool._publish(self, node)

    def drop(self) -> None:
        """The checkpoint is not wanted: its slot is free, or as soon as the copy into it is over.

        Raises:
            LifecycleError: the donation was published or dropped before.
        """
        self._pool._drop(self)

    def __repr__(self) -> str:
        flight = ", in flight" if self.is_in_flight else ""
        return (
            f"Donation(request {self.request}, checkpoint {self.checkpoint}, {self.length} tokens, "
            f"{self.phase.value}{flight})"
        )


def as_number(name: str, value: Any) -> int:
    """The number of a request or node.

    Raises:
        TypeError: the value is no integer.
        InvalidHolder: it is negative.
    """
    if type(value) is int and value >= 0:
        return value
    number = as_int(name, value)
    if number < 0:
        raise InvalidHolder(name, number)
    return number
