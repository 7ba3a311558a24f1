"""The bytes of a pool under test: patterns are written to its pages, and looked for."""

from __future__ import annotations

from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from poolproof.page_bytes import HostBytes
from poolproof.unified_pool import UnifiedPool

ZEROS: Final = 0
POISON: Final = 0xFF
PERIOD: Final = 250
"""Patterns of stamps that differ by this are alike."""


class WrongBytes(AssertionError):
    """A page does not hold what its owner wrote last, or a device's table leads elsewhere."""


def pattern(stamp: int, size: int) -> NDArray[np.uint8]:
    """The bytes that a write leaves; zeros for the stamp ZEROS."""
    if stamp == ZEROS:
        return np.zeros(size, np.uint8)
    return ((stamp * 37 + np.arange(size) * 11) % PERIOD + 1).astype(np.uint8)


def body_of(pool: UnifiedPool, name: str) -> int:
    """Bytes of a page, a red zone left out."""
    guard = pool._guard
    layout = pool[name].layout
    return layout.page_bytes if guard is None else guard.zones[layout.chain_index].body


class Memory(Protocol):
    """What a driver does with bytes. Work is done where and when it is called: on the current stream of a device."""

    def write(self, name: str, page: int, stamp: int) -> None:
        """Leave a pattern in a page."""

    def expect(self, name: str, page: int, stamp: int, what: str) -> None:
        """A page holds a pattern; where it does not, `wrong` says so."""

    def expect_table(self, name: str, ids: list[int], pages: list[int], what: str) -> None:
        """The device's table leads ids to pages, if it has one."""

    def wrong(self) -> list[str]:
        """What was found to be wrong, as far as it can be known without waiting."""

    def settle(self) -> None:
        """The device has done all it was given: what it found is known from now on."""


class HostMemory:
    """The bytes of a pool on the host."""

    def __init__(self, pool: UnifiedPool) -> None:
        assert isinstance(pool._bytes, HostBytes)
        assert pool._bytes.array is not None
        self._pool, self._bytes = pool, pool._bytes.array
        self._bytes[pool.sink_bytes :] = POISON
        self._wrong: list[str] = []

    def _page(self, name: str, page: int) -> NDArray[np.uint8]:
        size = self._pool[name].layout.page_bytes
        return self._bytes[page * size : page * size + body_of(self._pool, name)]

    def write(self, name: str, page: int, stamp: int) -> None:
        """See `Memory`."""
        found = self._page(name, page)
        found[:] = pattern(stamp, len(found))

    def expect(self, name: str, page: int, stamp: int, what: str) -> None:
        """See `Memory`."""
        found = self._page(name, page)
        if not np.array_equal(found, pattern(stamp, len(found))):
            self._wrong.append(
                f"{what}: page {page} holds {found[:64].tolist()}, not {pattern(stamp, len(found))[:64].tolist()}"
            )

    def expect_table(self, name: str, ids: list[int], pages: list[int], what: str) -> None:
        """See `Memory`: a host reads the pool's own tables."""

    def wrong(self) -> list[str]:
        """See `Memory`."""
        return self._wrong

    def settle(self) -> None:
        """See `Memory`."""
