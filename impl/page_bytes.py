"""The bytes of the one buffer: pages are copied and zeroed by number. On `meta` there are none, and nothing is done."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from poolproof.errors import LayoutError

if TYPE_CHECKING:
    from poolproof.page_table import Pages, PageTable

ALIGNMENT: Final = 512
"""Bytes that the buffer starts at a multiple of at least, as device allocations do."""

CHUNK: Final = 1 << 24
"""Bytes that are copied at once: a copy needs as many beside the buffer."""


class Changes(NamedTuple):
    """Entries of the device's one row of page tables that are not as they should be.

    Attributes:
        places, values: entries, and what belongs there.
        wiped: stretches of the row that are zeros but for those, by first entry and end.
    """

    places: Pages
    values: Pages
    wiped: tuple[tuple[int, int], ...] = ()


NO_CHANGES: Final = Changes(np.empty(0, np.int64), np.empty(0, np.int64))


class PageBytes(Protocol):
    """A buffer of bytes on some device. Work is given to the current stream.

    Attributes:
        device: its name.
    """

    device: str

    @property
    def tensor(self) -> Any:
        """[total], uint8."""

    def is_behind(self) -> bool:
        """Have tables changed since the device was last told?"""

    def behind(self) -> Mapping[int, Pages]:
        """By sub-pool, ids whose pages have changed since the device was last told."""

    def copy(self, page_bytes: int, sources: Pages, holes: Pages) -> None:
        """Copy pages side by side: no hole is a source."""

    def take_changes(self) -> Changes:
        """What the device is to be told now; it counts as told."""

    def refresh(self, zeros: Sequence[Pages], changes: Changes) -> None:
        """Zero pages, given by sub-pool; tell the device of changes."""

    def translate(self, table: PageTable, tokens: Any, page_size: int, out: Any, ranks: int, rank: int | None) -> Any:
        """Where tokens lie, as far as the device was told. See `SubPool.translate`."""


class HostBytes:
    """A buffer on the host, or none at all.

    Args:
        total: bytes.
        page_bytes: bytes of a page, by sub-pool.
        sink: of them, how many belong to the sink; they start as zeros, all others as whatever they were.
        device: "cpu" or "meta", or the torch device of that name.
        align: a power of two, of which the buffer's address is a multiple.

    Attributes:
        array: [total], the bytes, on the CPU; None on `meta`.

    Raises:
        LayoutError: the device is another one, or has less memory.
    """

    def __init__(
        self, total: int, page_bytes: Sequence[int], sink: int, device: str = "cpu", align: int = ALIGNMENT
    ) -> None:
        self.device, self.page_bytes = device, tuple(page_bytes)
        if self.device not in ("cpu", "meta"):
            raise LayoutError(f"device is {self.device!r}; a unified pool is on 'cpu', 'meta' or a CUDA device")
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

    def is_behind(self) -> bool:
        """See `PageBytes`: the host has the tables themselves."""
        return False

    def behind(self) -> Mapping[int, Pages]:
        """See `PageBytes`."""
        return {}

    def copy(self, page_bytes: int, sources: Pages, holes: Pages) -> None:
        """See `PageBytes`."""
        if self.array is None:
            return
        rows, most = self.rows(page_bytes), max(CHUNK // page_bytes, 1)
        for start in range(0, len(sources), most):
            rows[holes[start : start + most]] = rows[sources[start : start + most]]

    def take_changes(self) -> Changes:
        """See `PageBytes`."""
        return NO_CHANGES

    def refresh(self, zeros: Sequence[Pages], changes: Changes) -> None:
        """See `PageBytes`."""
        if self.array is not None:
            for size, pages in zip(self.page_bytes, zeros, strict=True):
                if len(pages):
                    self.rows(size)[pages] = 0

    def translate(self, table: PageTable, tokens: Any, page_size: int, out: Any, ranks: int, rank: int | None) -> Any:
        """See `PageBytes`."""
        import torch

        from poolproof.kernels.translate_tokens import check_share, check_tokens, translate_reference

        check_tokens(tokens, out, max(len(table.hold), table.ids) * page_size * ranks)
        check_share(ranks, rank)
        physical = torch.from_numpy(table.physical[: table.ids]).to(tokens.device)
        return translate_reference(tokens, physical, page_size, ranks, rank, out)


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
