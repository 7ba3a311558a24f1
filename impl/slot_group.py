"""A pre-allocation group: slots held back together, so that the requests of one batch all get theirs or none does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from poolproof.scoped import Scoped

if TYPE_CHECKING:
    from poolproof.slot_pool import SlotPool


class Group(Scoped):
    """The handle of an open group; `SlotPool.open_group` makes it. As a context manager it closes itself at the end."""

    __slots__ = ("_pool",)

    def __init__(self, pool: SlotPool) -> None:
        self._pool = pool

    @property
    def is_open(self) -> bool:
        """Whether the group still holds its slots back: neither `close` nor the pool's `clear` has ended it."""
        return self._pool._group is self

    @property
    def remaining(self) -> int:
        """How many slots the group still holds back; none once it is closed."""
        return self._pool._reserved_count() if self.is_open else 0

    def take(self, n: int, holder: int = 0) -> NDArray[np.int64]:
        """Give slots of the reserve to a request.

        Args:
            n: how many slots.
            holder: number of the request.

        Returns:
            The slot ids, a fresh int64 array of shape [n].

        Raises:
            GroupError: the group is closed, or holds back fewer slots.
            InvalidHolder: the holder is negative.
            WrongThread: another thread drives the pool.
            TypeError, ValueError: an argument is no integer, or n is negative.
        """
        return self._pool._take(self, n, holder)

    def close(self) -> None:
        """End the group; what is left of its reserve is free again.

        Raises:
            GroupError: the group is closed already.
            WrongThread: another thread drives the pool.
        """
        self._pool._close(self)

    def _leave(self) -> None:
        if self.is_open:
            self.close()

    def __repr__(self) -> str:
        return f"Group(remaining={self.remaining})" if self.is_open else "Group(closed)"
