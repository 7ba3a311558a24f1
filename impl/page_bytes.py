"""The bytes of the one buffer: pages are copied and zeroed by number. On `meta` there are none, and nothing is done."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


class PageBytes:
    """A buffer of bytes on a torch device.

    Args:
        total: bytes.
        device: "cpu" or "meta".

    Attributes:
        buffer: [total], uint8.
    """

    def __init__(self, total: int, sink: int, device: str) -> None:
        import torch

        self.buffer: Any = torch.empty(total, dtype=torch.uint8, device=device)
        self.buffer[:sink] = 0
        self._rows: dict[int, Any] = {}
        self._there = self.buffer.device.type != "meta"

    def rows(self, page_bytes: int) -> Any:
        """[pages, page_bytes], a numpy view of the buffer."""
        found = self._rows.get(page_bytes)
        if found is None:
            pages = len(self.buffer) // page_bytes
            found = self.buffer[: pages * page_bytes].numpy().reshape(pages, page_bytes)
            self._rows[page_bytes] = found
        return found

    def copy(self, page_bytes: int, sources: NDArray[np.int64], targets: NDArray[np.int64]) -> None:
        """Copy pages side by side: no target is a source."""
        if self._there:
            rows = self.rows(page_bytes)
            rows[targets] = rows[sources]

    def zero(self, page_bytes: int, pages: NDArray[np.int64]) -> None:
        """Set pages to zero."""
        if self._there:
            self.rows(page_bytes)[pages] = 0
