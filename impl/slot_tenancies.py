"""How many tenancies of each slot have ended: the number that tells a dead handle from a live one."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

_LOG: Final = 1024


class Tenancies:
    """A count of ended tenancies per slot, cheap to add to.

    An end is noted in a short log, which is added up when it is full or somebody asks: one copy in place of a gather,
    an addition and a scatter on every free.

    Args:
        total: number of slots.
    """

    __slots__ = ("ended", "log", "logged")

    ended: NDArray[np.int64]
    """[total]: the counts without what the log notes."""
    log: NDArray[np.int64]
    """log[:logged] are the slots whose tenancy has ended since."""
    logged: int

    def __init__(self, total: int) -> None:
        self.ended = np.zeros(total, np.int64)
        self.log = np.zeros(_LOG, np.int64)
        self.logged = 0

    def end(self, ids: NDArray[np.int64]) -> None:
        """The tenancies of these slots end. The ids are int64 [n], distinct and in range."""
        stop = self.logged + len(ids)
        if stop > _LOG:
            self.numbers()
            if len(ids) > _LOG:
                self.ended[ids] += 1
                return
            stop = len(ids)
        self.log[self.logged : stop] = ids
        self.logged = stop

    def numbers(self) -> NDArray[np.int64]:
        """The counts by slot, int64 [total]: the stored array itself, to be read at once and not kept."""
        if self.logged:
            np.add.at(self.ended, self.log[: self.logged], 1)
            self.logged = 0
        return self.ended
