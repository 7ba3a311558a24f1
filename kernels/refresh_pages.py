"""What the device must know before a step, in one launch: pages are zeroed, and page tables rewritten."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import triton
from numpy.typing import NDArray
from torch import Tensor
from triton import language as tl

from poolproof.kernels import interpreter
from poolproof.kernels.launch import Prepared
from poolproof.kernels.layout import KernelArgumentError
from poolproof.kernels.slot_copy import MOST_PROGRAMS
from poolproof.kernels.units import check_buffer, in_units, unit_of, vector_of

BLOCK_BYTES = 4096
WARPS = 4
UPDATES = 512
"""Table entries that a program writes."""


class RefreshPages:
    """Zeroes pages of several sizes of one buffer, and writes entries of one table, on the current stream.

    What is to be done comes as one row of int64 (`pack`), so that one copy brings it to the device.
    """

    def __init__(self, buffer: Tensor, page_bytes: Sequence[int], table: Tensor) -> None:
        """Bind a buffer and a table.

        Args:
            buffer: [bytes], uint8, contiguous.
            page_bytes: bytes of a page, for each sub-pool.
            table: [entries], int32, contiguous: the tables of all sub-pools, one behind the other.

        Raises:
            KernelArgumentError: one is of another kind.
        """
        check_buffer(buffer, page_bytes)
        if table.dtype != torch.int32 or table.dim() != 1 or not table.is_contiguous() or table.device != buffer.device:
            raise KernelArgumentError(
                f"a table is one contiguous row of int32 on {buffer.device}, not {table.dtype} {tuple(table.shape)} on "
                f"{table.device}"
            )
        self.page_bytes, self._buffer, self._table = tuple(page_bytes), buffer, table
        unit = unit_of(buffer, page_bytes)
        largest = triton.next_power_of_2(max(page_bytes) // unit)
        block = min(BLOCK_BYTES // unit, largest)
        sizes = [size // unit for size in page_bytes]
        self.blocks = tuple(triton.cdiv(size, block) for size in sizes)
        self.head = 2 * len(sizes)
        shapes = torch.tensor([*sizes, *self.blocks], dtype=torch.int64).to(buffer.device)
        fixed = (in_units(buffer, unit), table, shapes)
        vector = vector_of(buffer, page_bytes)
        self.prepared = Prepared(
            _refresh, fixed, SIZES=len(sizes), BLOCK=block, VECTOR=vector, UPDATES=UPDATES, num_warps=WARPS
        )

    def length(self, zeros: Sequence[int], updates: int) -> int:
        """How many numbers `pack` needs, for so many pages of each size and so many entries."""
        return self.head + sum(zeros) + 2 * updates

    def pack(
        self, out: NDArray[np.int64], zeros: Sequence[NDArray[np.int64]], places: NDArray[np.int64],
        values: NDArray[np.int64],
    ) -> None:  # fmt: skip
        """Write down what is to be done.

        Args:
            out: [length], written.
            zeros: for each page size, the pages to zero.
            places, values: entries of the table, and what to write there; a place may be given twice with one value.
        """
        program = entry = 0
        count = len(self.blocks)
        for k, pages in enumerate(zeros):
            out[k], out[count + k] = program, entry
            start = self.head + entry
            out[start : start + len(pages)] = pages
            entry += len(pages)
            program += len(pages) * self.blocks[k]
        start = self.head + entry
        out[start : start + len(places)] = places
        out[start + len(places) : start + 2 * len(places)] = values

    def __call__(self, packed: Tensor, zeros: Sequence[int], updates: int) -> None:
        """Do it.

        Args:
            packed: int64, on the buffer's device: as `pack` wrote it, for pages and places that there are.
            zeros: how many pages of each size it zeroes.
            updates: how many entries it writes.

        Raises:
            ValueError: it is more than goes into one launch, or not as many numbers of int64 as that takes.
        """
        programs = sum(n * each for n, each in zip(zeros, self.blocks, strict=True))
        writers = triton.cdiv(updates, UPDATES)
        if programs + writers > MOST_PROGRAMS:
            raise ValueError(
                f"{sum(zeros)} pages to zero and {updates} entries take {programs + writers} programs; a launch has "
                f"{MOST_PROGRAMS}: do it in several"
            )
        if programs + writers == 0 or self._buffer.device.type == "meta":
            return
        if packed.dtype != torch.int64 or packed.numel() < self.length(zeros, updates):
            raise ValueError(
                f"{packed.numel()} numbers of {packed.dtype} for {sum(zeros)} pages and {updates} entries, which take "
                f"{self.length(zeros, updates)} of int64"
            )
        if self._buffer.device.type == "cuda" or interpreter.is_on():
            self.prepared.launch(programs + writers, packed, programs, updates, sum(zeros))
        else:
            refresh_pages_reference(self._buffer, self.page_bytes, self._table, packed, zeros, updates)


def refresh_pages_reference(
    buffer: Tensor, page_bytes: Sequence[int], table: Tensor, packed: Tensor, zeros: Sequence[int], updates: int
) -> None:
    """The same in torch, on any device."""
    at = 2 * len(page_bytes)
    for size, n in zip(page_bytes, zeros, strict=True):
        pages = buffer.numel() // size
        buffer[: pages * size].view(pages, size)[packed[at : at + n]] = 0
        at += n
    table[packed[at : at + updates]] = packed[at + updates : at + 2 * updates].to(torch.int32)


@triton.jit(do_not_specialize=["packed", "zeroing", "updates", "pages"])
def _refresh(
    packed, zeroing, updates, pages, buffer, table, shapes,
    SIZES: tl.constexpr, BLOCK: tl.constexpr, VECTOR: tl.constexpr, UPDATES: tl.constexpr,
):  # fmt: skip
    """The first programs zero a block of a page each, the others write entries."""
    program = tl.program_id(0)
    if program < zeroing:
        size = tl.load(shapes)
        blocks = tl.load(shapes + SIZES)
        start = tl.load(packed)
        entry = tl.load(packed + SIZES)
        for k in tl.static_range(1, SIZES):
            begin = tl.load(packed + k)
            is_next = begin <= program
            start = tl.where(is_next, begin, start)
            entry = tl.where(is_next, tl.load(packed + SIZES + k), entry)
            size = tl.where(is_next, tl.load(shapes + k), size)
            blocks = tl.where(is_next, tl.load(shapes + SIZES + k), blocks)
        nth = (program - start) // blocks
        page = tl.load(packed + 2 * SIZES + entry + nth)
        first = ((program - start) % blocks) * BLOCK
        at = tl.max_contiguous(tl.multiple_of(first + tl.arange(0, BLOCK), VECTOR), VECTOR)
        base = buffer + tl.multiple_of(page * size, VECTOR)
        zero = tl.zeros([BLOCK], buffer.dtype.element_ty)
        tl.store(base + at, zero, mask=at < tl.multiple_of(size, VECTOR))
    else:
        at_entry = (program - zeroing).to(tl.int64) * UPDATES + tl.arange(0, UPDATES)
        inside = at_entry < updates
        written = packed + 2 * SIZES + pages
        place = tl.load(written + at_entry, mask=inside)
        value = tl.load(written + updates + at_entry, mask=inside)
        tl.store(table + place, value.to(tl.int32), mask=inside)
