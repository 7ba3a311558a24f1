"""The bytes of the one buffer: pages are copied and zeroed by number. On `meta` there are none, and nothing is done."""

from __future__ import annotations

import os
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from poolproof.errors import LayoutError

ALIGNMENT: Final = 512
"""Bytes that the buffer starts at a multiple of at least, as device allocations do."""

CHUNK: Final = 1 << 24
"""Bytes that are copied at once: a copy needs as many beside the buffer."""


class PageBytes:
    """A buffer of bytes.

    Args:
        total: bytes.
        sink: of them, how many belong to the sink; they start as zeros, all others as whatever they were.
        device: "cpu" or "meta", or the torch device of that name.
        align: a power of two, of which the buffer's address is a multiple.

    Attributes:
        array: [total], the bytes, on the CPU; None on `meta`.

    Raises:
        LayoutError: the device is another one, or has less memory.
    """

    def __init__(self, total: int, sink: int, device: Any, align: int = ALIGNMENT) -> None:
        self.device = str(device)
        if self.device not in ("cpu", "meta"):
            raise LayoutError(f"device is {self.device!r}; a unified pool is on 'cpu' or 'meta'")
        self.array: NDArray[np.uint8] | None = None
        self._rows: dict[int, NDArray[np.uint8]] = {}
        self._tensor: Any = None
        if self.device == "cpu":
            self.array = _aligned(total, max(align, ALIGNMENT))
            self.array[:sink] = 0
        self.total = total

    @property
    def tensor(self) -> Any:
        """[total], a uint8 torch tensor over the same bytes."""
        if self._tensor is None:
            import torch

            empty = torch.empty(self.total, dtype=torch.uint8, device="meta") if self.array is None else None
            self._tensor = torch.from_numpy(self.array) if empty is None else empty
        return self._tensor

    def rows(self, page_bytes: int) -> NDArray[np.uint8]:
        """[pages, page_bytes], a view of the bytes; there must be bytes."""
        found = self._rows.get(page_bytes)
        if found is None:
            assert self.array is not None
            pages = self.total // page_bytes
            found = self.array[: pages * page_bytes].reshape(pages, page_bytes)
            self._rows[page_bytes] = found
        return found

    def copy(self, page_bytes: int, sources: NDArray[np.int64], targets: NDArray[np.int64]) -> None:
        """Copy pages side by side: no target is a source."""
        if self.array is None:
            return
        rows, most = self.rows(page_bytes), max(CHUNK // page_bytes, 1)
        for start in range(0, len(sources), most):
            rows[targets[start : start + most]] = rows[sources[start : start + most]]

    def zero(self, page_bytes: int, pages: NDArray[np.int64]) -> None:
        """Set pages to zero."""
        if self.array is not None:
            self.rows(page_bytes)[pages] = 0


def _aligned(total: int, align: int) -> NDArray[np.uint8]:
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if total > memory:
        raise LayoutError(
            f"a buffer of {total} bytes on a host of {memory} bytes of memory; make total_bytes smaller, or plan with "
            f"device='meta'"
        )
    raw = np.empty(total + align, np.uint8)
    start = -raw.ctypes.data % align
    return raw[start : start + total]
