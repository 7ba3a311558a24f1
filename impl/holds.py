"""Leases and gates: pages that stay where they are, because somebody outside addresses them physically."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from poolproof.page_table import Pages, range_of
from poolproof.scoped import Scoped

if TYPE_CHECKING:
    from poolproof.unified_pool import UnifiedPool


class Handle:
    """What stands for something that a pool keeps: there is one of it, which is neither copied nor pickled."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        """There is one of it."""
        raise TypeError(f"a {type(self).__name__} cannot be copied or pickled; pass it on itself")


class Lease(Scoped, Handle):
    """Pages that are promised to stay, as `UnifiedPool.lease` returns it. As a context manager it releases itself.

    Attributes:
        name: the sub-pool.
        physical: [n], the pages of the ids that were leased, in their order: good until the release, whatever is freed
            meanwhile. Page i is bytes [i * page_bytes, (i + 1) * page_bytes) of the buffer.
        why: as given, for messages.
        range: between which numbers the pages lie.
        ready: on a CUDA device, an event: what addresses the pages, and is no step of the pool, waits for it first.
            None on a host.
    """

    __slots__ = ("_pool", "is_held", "name", "physical", "range", "ready", "why")

    def __init__(self, pool: UnifiedPool, name: str, physical: Pages, why: str, ready: Any = None) -> None:
        self._pool, self.name, self.physical, self.why, self.ready = pool, name, physical, why, ready
        self.is_held = True
        self.range = range_of(physical)

    def release(self) -> None:
        """The last use of the pages' addresses is over. Any thread may call it; it takes effect at the next operation.

        Raises:
            LeaseError: it was released before.
        """
        self._pool._give_back(self)

    def _leave(self) -> None:
        if self.is_held:
            self.release()

    def __repr__(self) -> str:
        return f"Lease({len(self.physical)} pages of {self.name!r}, {self.why!r}, held={self.is_held})"


class Gate(Scoped, Handle):
    """A closed gate: no page of the sub-pool moves. As a context manager it opens itself.

    Attributes:
        name: the sub-pool.
        why: as given, for messages.
        is_closed: until `open`.
    """

    __slots__ = ("_pool", "is_closed", "name", "why")

    def __init__(self, pool: UnifiedPool, name: str, why: str) -> None:
        self._pool, self.name, self.why = pool, name, why
        self.is_closed = True

    def open(self) -> None:
        """Pages may move again, unless another gate of the sub-pool is closed.

        Raises:
            GateError: it was opened before.
        """
        self._pool._open_gate(self)

    def _leave(self) -> None:
        if self.is_closed:
            self.open()

    def __repr__(self) -> str:
        return f"Gate({self.name!r}, {self.why!r}, closed={self.is_closed})"


class FreeGroup(Scoped, Handle):
    """A group of frees whose pages are kept until it ends. As a context manager it ends itself.

    Attributes:
        is_open: until `end`.
    """

    __slots__ = ("_pool", "is_open")

    def __init__(self, pool: UnifiedPool) -> None:
        self._pool = pool
        self.is_open = True

    def end(self) -> None:
        """The pages of the group's frees can be handed out again.

        Raises:
            GroupError: it has ended before.
        """
        self._pool._end_group(self)

    def _leave(self) -> None:
        if self.is_open:
            self.end()
