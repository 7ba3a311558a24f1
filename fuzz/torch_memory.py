"""The bytes of a pool whose buffer is a torch tensor: patterns are written and looked for on its device, by streams.

The only tensors that the fuzzer touches itself, with `cuda_device`.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import torch

from poolproof.device_bytes import DeviceBytes
from poolproof.fuzz.memory import PERIOD, POISON, ZEROS, body_of, pattern
from poolproof.unified_pool import UnifiedPool

_MOST: Final = 1 << 14
"""Expectations between two times that all are looked at."""


class TorchMemory:
    """The bytes of a pool, on a device. What a reader finds stays there until `settle`."""

    def __init__(self, pool: UnifiedPool) -> None:
        assert isinstance(pool._bytes, DeviceBytes)
        self._pool, self._table, self._bytes = pool, pool._bytes, pool._bytes.tensor
        device = self._bytes.device
        size = max(layout.page_bytes for layout in pool.layouts)
        rows = [pattern(stamp, size) for stamp in (ZEROS, *range(1, PERIOD + 1))]
        self._patterns = torch.from_numpy(np.stack(rows)).to(device)
        self._bytes[pool.sink_bytes :] = POISON
        self._found = torch.zeros(_MOST, dtype=torch.bool, device=device)
        self._expected: list[str] = []
        self._wrong: list[str] = []
        self.settle()

    def _page(self, name: str, page: int) -> torch.Tensor:
        size = self._pool[name].layout.page_bytes
        return self._bytes[page * size : page * size + body_of(self._pool, name)]

    def _pattern(self, stamp: int, size: int) -> torch.Tensor:
        return self._patterns[0 if stamp == ZEROS else (stamp - 1) % PERIOD + 1, :size]

    def write(self, name: str, page: int, stamp: int) -> None:
        """See `Memory`."""
        found = self._page(name, page)
        found.copy_(self._pattern(stamp, len(found)))

    def _next(self, what: str) -> torch.Tensor:
        """Where the device notes whether something is wrong."""
        self._expected.append(what)
        return self._found[len(self._expected) - 1]

    def expect(self, name: str, page: int, stamp: int, what: str) -> None:
        """See `Memory`."""
        found = self._page(name, page)
        different = found != self._pattern(stamp, len(found))
        torch.any(different, out=self._next(f"{what}: page {page} holds other bytes than those of write {stamp}"))

    def expect_table(self, name: str, ids: list[int], pages: list[int], what: str) -> None:
        """See `Memory`."""
        size, table = self._pool[name].layout.page_size, self._pool._at(name)
        tokens, expected = (
            torch.tensor([number * size + size - 1 for number in numbers], pin_memory=self._bytes.is_cuda).to(
                self._bytes.device, non_blocking=True
            )
            for numbers in (ids, pages)
        )
        found = self._table.translate(table, tokens, size, None, 1, None)
        text = f"{what}: the device's table does not lead ids {ids} of {name} to pages {pages}"
        torch.any(found != expected, out=self._next(text))

    def wrong(self) -> list[str]:
        """See `Memory`."""
        if len(self._expected) > _MOST - 1024:
            self.settle()
        return self._wrong

    def settle(self) -> None:
        """See `Memory`."""
        if self._bytes.is_cuda:
            torch.cuda.synchronize(self._bytes.device)
        flags = self._found[: len(self._expected)].tolist()
        self._wrong += [what for what, is_wrong in zip(self._expected, flags, strict=True) if is_wrong]
        self._expected = []
