"""The bytes of several pools under test: written by a model's steps, and compared when the device comes to it.

Tensors are reached through the pools alone, so that this works wherever their buffers are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from poolproof.fuzz.memory import POISON
from poolproof.sub_pools import Resolved
from poolproof.unified_pool import UnifiedPool

Runs: TypeAlias = tuple[tuple[int, int], ...]
"""Stretches of a page, by first byte and end."""

Data: TypeAlias = NDArray[np.uint8]

_SHOWN: Final = 24


def runs_of(layout: Resolved) -> Runs:
    """The parts of a slot, layer by layer: what lies between them is nobody's."""
    page = layout.layout
    starts = [(layer * page.layer_bytes, part) for layer in range(page.layers) for part in page.parts]
    return tuple((at + part.offset, at + part.end) for at, part in starts)


class CacheMemory(Protocol):
    """What a driver does with bytes. Work is done where and when it is called: on the current stream of a device.

    A page is given by its pool, the name of its sub-pool and its number; what is written or compared are stretches of
    it, one after the other.
    """

    def write(self, pool: UnifiedPool, name: str, page: int, runs: Runs, data: Data) -> None:
        """Write to stretches of a page."""

    def expect(self, pool: UnifiedPool, name: str, page: int, runs: Runs, data: Data, what: str) -> None:
        """Stretches of a page hold these bytes; where they do not, `wrong` says so."""

    def read(self, pool: UnifiedPool, name: str, page: int) -> Data:
        """What a page holds now; the device has done all it was given."""

    def wrong(self) -> list[str]:
        """What was found to be wrong, as far as it can be known without waiting."""

    def settle(self) -> None:
        """The device has done all it was given: what it found is known from now on."""


class HostCacheMemory:
    """Bytes on the CPU, in arrays or torch tensors."""

    def __init__(self, pools: Sequence[UnifiedPool]) -> None:
        self._bytes: dict[int, Data] = {id(pool): pool.buffer.numpy() for pool in pools}
        self._wrong: list[str] = []
        for pool in pools:
            self._bytes[id(pool)][pool.sink_bytes :] = POISON

    def _page(self, pool: UnifiedPool, name: str, page: int) -> Data:
        size = pool[name].layout.page_bytes
        return self._bytes[id(pool)][page * size : (page + 1) * size]

    def write(self, pool: UnifiedPool, name: str, page: int, runs: Runs, data: Data) -> None:
        """See `CacheMemory`."""
        found, at = self._page(pool, name, page), 0
        for start, end in runs:
            found[start:end] = data[at : at + end - start]
            at += end - start

    def expect(self, pool: UnifiedPool, name: str, page: int, runs: Runs, data: Data, what: str) -> None:
        """See `CacheMemory`."""
        found = self._page(pool, name, page)
        held = np.concatenate([found[:0], *(found[start:end] for start, end in runs)])
        if not np.array_equal(held, data):
            at = int((held != data).argmax())
            self._wrong.append(
                f"{what}: page {page} of {name} holds {held[at : at + _SHOWN].tolist()} from byte {at} of "
                f"{len(data)} on, not {data[at : at + _SHOWN].tolist()}"
            )

    def read(self, pool: UnifiedPool, name: str, page: int) -> Data:
        """See `CacheMemory`."""
        return self._page(pool, name, page).copy()

    def wrong(self) -> list[str]:
        """See `CacheMemory`."""
        return self._wrong

    def settle(self) -> None:
        """See `CacheMemory`."""


class DeviceCacheMemory:
    """Bytes on a CUDA device. What a comparison finds stays there until `settle`, after the device was drained."""

    def __init__(self, pools: Sequence[UnifiedPool]) -> None:
        self._found: list[tuple[Any, str]] = []
        self._wrong: list[str] = []
        for pool in pools:
            pool.buffer[pool.sink_bytes :] = POISON

    @staticmethod
    def _page(pool: UnifiedPool, name: str, page: int) -> Any:
        size = pool[name].layout.page_bytes
        return pool.buffer[page * size : (page + 1) * size]

    @staticmethod
    def _upload(pool: UnifiedPool, data: Data) -> Any:
        """The bytes on the device, without waiting for it."""
        pinned = pool.buffer.new_empty(len(data), device="cpu", pin_memory=True)
        pinned.numpy()[:] = data
        return pinned.to(pool.buffer.device, non_blocking=True)

    def write(self, pool: UnifiedPool, name: str, page: int, runs: Runs, data: Data) -> None:
        """See `CacheMemory`."""
        found, given, at = self._page(pool, name, page), self._upload(pool, data), 0
        for start, end in runs:
            found[start:end] = given[at : at + end - start]
            at += end - start

    def expect(self, pool: UnifiedPool, name: str, page: int, runs: Runs, data: Data, what: str) -> None:
        """See `CacheMemory`."""
        found, given, at = self._page(pool, name, page), self._upload(pool, data), 0
        for start, end in runs:
            is_wrong = (found[start:end] != given[at : at + end - start]).any()
            self._found.append((is_wrong, f"{what}: bytes {start} to {end} of page {page} of {name} are others"))
            at += end - start

    def read(self, pool: UnifiedPool, name: str, page: int) -> Data:
        """See `CacheMemory`."""
        found: Data = self._page(pool, name, page).cpu().numpy().copy()
        return found

    def wrong(self) -> list[str]:
        """See `CacheMemory`."""
        return self._wrong

    def settle(self) -> None:
        """See `CacheMemory`."""
        found, self._found = self._found, []
        self._wrong += [what for is_wrong, what in found if bool(is_wrong)]
