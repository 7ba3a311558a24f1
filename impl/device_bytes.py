"""The bytes of the one buffer as a torch tensor, and what its device knows of the page tables: all work by kernels.

The device's page tables are one row of int32 for all sub-pools. They are told of changes, together with the zeroing
that is due, in one launch before a step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from poolproof.errors import LayoutError
from poolproof.kernels.move_pages import MovePages
from poolproof.kernels.refresh_pages import RefreshPages
from poolproof.kernels.translate_tokens import TranslateTokens, check_share
from poolproof.page_bytes import Changes
from poolproof.page_table import NOTHING, Pages, PageTable, together

ALIGNMENT: Final = 512
"""Bytes that device allocations start at a multiple of."""

_STAGED: Final = 4096


class DeviceBytes:
    """A `PageBytes` on a CUDA device, or in a torch tensor of the CPU.

    Args:
        total: bytes.
        tables: the sub-pools' tables, whose changes are noted from now on.
        sink: bytes of the sink, which start as zeros, all others as whatever they were.
        device: a torch device.
        align: a power of two, of which the buffer's address is a multiple.
        home: the stream that everything is made on; None for the current one.

    Raises:
        LayoutError: the device has less free memory, or there are more pages than int32 holds.
    """

    def __init__(
        self, total: int, tables: Sequence[PageTable], sink: int, device: Any, align: int, home: Any = None
    ) -> None:
        where = torch.device(device)
        _check(total, tables, where)
        self.device, self._tables = str(where), tables
        for table in tables:
            table.changed = []
        self._starts = np.cumsum([0, *(table.ids for table in tables)]).tolist()
        self._moves: dict[int, MovePages] = {}
        self._translations: dict[tuple[int, int, int, int | None], TranslateTokens] = {}
        with on_stream(home):
            self._make(total, where, sink, max(align, ALIGNMENT))

    def _make(self, total: int, where: torch.device, sink: int, align: int) -> None:
        self.tensor: Tensor = _aligned(total, where, align)
        self.tensor[:sink] = 0
        self.physical = torch.zeros(self._starts[-1], dtype=torch.int32, device=where)
        self._refresh = RefreshPages(self.tensor, [table.page_bytes for table in self._tables], self.physical)
        self._staging = torch.empty(_STAGED, dtype=torch.int64, device=where)

    def is_behind(self) -> bool:
        """See `PageBytes`."""
        return any(table.changed or table.is_wiped for table in self._tables)

    def behind(self) -> Mapping[int, Pages]:
        """See `PageBytes`."""
        return {k: together(table.changed) for k, table in enumerate(self._tables) if table.changed}

    def copy(self, page_bytes: int, sources: Pages, holes: Pages) -> None:
        """See `PageBytes`."""
        move = self._moves.get(page_bytes)
        if move is None:
            move = self._moves[page_bytes] = MovePages(self.tensor, page_bytes)
        n = len(sources)

        def fill(out: NDArray[np.int64]) -> None:
            out[:n], out[n:] = sources, holes

        lists = self._upload(2 * n, fill)
        move(lists[:n], lists[n:])

    def take_changes(self) -> Changes:
        """See `PageBytes`."""
        places, values, wiped = [NOTHING], [NOTHING], []
        for table, start in zip(self._tables, self._starts, strict=False):
            if table.is_wiped:
                wiped.append((start, start + table.ids))
                table.is_wiped = False
            if table.changed:
                ids = together(table.changed)
                places.append(ids + start)
                values.append(np.maximum(table.physical[ids], 0))
                table.changed = []
        return Changes(np.concatenate(places), np.concatenate(values), tuple(wiped))

    def refresh(self, zeros: Sequence[Pages], changes: Changes) -> None:
        """See `PageBytes`."""
        for start, end in changes.wiped:
            self.physical[start:end] = 0
        counts, updates = [len(pages) for pages in zeros], len(changes.places)
        length = self._refresh.length(counts, updates)
        if length > self._refresh.head:
            packed = self._upload(length, lambda out: self._refresh.pack(out, zeros, changes.places, changes.values))
            self._refresh(packed, counts, updates)

    def _upload(self, length: int, fill: Callable[[NDArray[np.int64]], None]) -> Tensor:
        """Numbers on the device, good until the next upload: what reads them is on the same stream."""
        if self.tensor.device.type != "cuda":
            array = np.empty(length, np.int64)
            fill(array)
            return torch.from_numpy(array)
        if length > len(self._staging):
            self._staging = torch.empty(2 * length, dtype=torch.int64, device=self.tensor.device)
        pinned = torch.empty(length, dtype=torch.int64, pin_memory=True)  # kept by torch until the copy is over
        fill(pinned.numpy())
        return self._staging[:length].copy_(pinned, non_blocking=True)

    def table(self, k: int) -> Tensor:
        """[ids], int32: the page of each id of sub-pool k, 0 for those without one, as far as the device was told."""
        return self.physical[self._starts[k] : self._starts[k + 1]]

    def translate(self, table: PageTable, tokens: Any, page_size: int, out: Any, ranks: int, rank: int | None) -> Any:
        """See `PageBytes`."""
        key = table.index, page_size, ranks, rank
        found = self._translations.get(key)
        if found is None:
            check_share(ranks, rank)
            found = TranslateTokens(self.table(table.index), page_size, len(table.hold), ranks, rank)
            self._translations[key] = found
        return found(tokens, out)


def on_stream(stream: Any) -> AbstractContextManager[Any]:
    """A block in which the stream is the current one; None changes nothing."""
    return nullcontext() if stream is None else torch.cuda.stream(stream)


def _check(total: int, tables: Sequence[PageTable], device: torch.device) -> None:
    most = max(len(table.hold) for table in tables)
    if most > 2**31:
        raise LayoutError(f"{most} pages: on a device there are at most {2**31} of a size; make pages larger")
    if device.type == "cuda":
        free, whole = torch.cuda.mem_get_info(device)
        free += torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)  # torch's own, and unused
        need = total + 4 * sum(table.ids for table in tables) + 2 * ALIGNMENT
        if need > free:
            raise LayoutError(
                f"a buffer of {total} bytes and its page tables need {need}, and {device} has {free} of {whole} bytes "
                f"free; make total_bytes smaller, or plan with device='meta'"
            )


def _aligned(total: int, device: torch.device, align: int) -> Tensor:
    spare = align if align > ALIGNMENT or device.type != "cuda" else 0
    try:
        raw = torch.empty(total + spare, dtype=torch.uint8, device=device)
    except torch.OutOfMemoryError as error:
        raise LayoutError(f"{device} has no {total + spare} bytes in one piece: {error}") from None
    start = -raw.data_ptr() % align
    return raw[start : start + total]
