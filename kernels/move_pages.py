"""Pages of a buffer, copied into holes of it: what a compaction does."""

from __future__ import annotations

import torch
import triton
from torch import Tensor
from triton import language as tl

from poolproof.kernels import interpreter
from poolproof.kernels.launch import Prepared
from poolproof.kernels.layout import is_outside, slot_at
from poolproof.kernels.slot_copy import MOST_PROGRAMS
from poolproof.kernels.slots import Slots, count_of, slot_pair
from poolproof.kernels.units import check_buffer, in_units, unit_of, vector_of

BLOCK_BYTES = 4096
WARPS = 4
"""The fastest of those that were measured on an H200."""


class MovePages:
    """Copies pages of one size inside a buffer: page i is the bytes `[i * page_bytes, (i + 1) * page_bytes)`.

    One launch on the current stream; on the CPU it is done in torch.
    """

    def __init__(self, buffer: Tensor, page_bytes: int) -> None:
        """Bind a buffer.

        Args:
            buffer: [bytes], uint8, contiguous. Bytes behind the last whole page are left alone.
            page_bytes: bytes of a page, any number.

        Raises:
            KernelArgumentError: the buffer is of another kind, or has no page of this size.
        """
        check_buffer(buffer, (page_bytes,))
        self.page_bytes, self._device = page_bytes, buffer.device
        self.pages = buffer.numel() // page_bytes
        self._rows = buffer[: self.pages * page_bytes].view(self.pages, page_bytes)
        unit, vector = unit_of(buffer, (page_bytes,)), vector_of(buffer, (page_bytes,))
        size = page_bytes // unit
        block = min(BLOCK_BYTES // unit, triton.next_power_of_2(size))
        self._blocks = triton.cdiv(size, block)
        fixed = (in_units(buffer, unit), size, self._blocks, self.pages)
        self.prepared = Prepared(_move, fixed, BLOCK=block, VECTOR=vector, WHOLE=size % block == 0, num_warps=WARPS)

    def __call__(self, sources: Slots, holes: Slots) -> None:
        """Copy pages.

        Args:
            sources: pages; none is a hole of the same call.
            holes: as many pages, each once.

        Numbers from the host are checked. Numbers on the device are not read back: the copy of one that the buffer does
        not have is left out, so that such lists may be padded with -1; that no hole is a source, or given twice, is for
        the caller to know.

        Raises:
            TypeError: the numbers are not integers.
            ValueError: there are not as many of either, the buffer has no such page, or a hole is a source or given
                twice.
        """
        counts = self.pages, self.pages
        source, hole = slot_pair(sources, holes, self._device, counts, is_one_pool=True, noun="page")
        count = count_of(source)
        if count * self._blocks > MOST_PROGRAMS:
            raise ValueError(f"{count} pages in one call: at most {MOST_PROGRAMS // self._blocks} go into one launch")
        if count == 0 or self._device.type == "meta":
            return
        if self._device.type == "cuda" or interpreter.is_on():
            self.prepared.launch(self._blocks * count, source, hole)
        else:
            move_pages_reference(self._rows, source, hole)


def move_pages_reference(rows: Tensor, source: int | Tensor, hole: int | Tensor) -> None:
    """The same in torch, on any device; `rows` are the pages, [pages, page_bytes]."""
    source, hole = (torch.as_tensor(pages, device=rows.device).reshape(-1) for pages in (source, hole))
    known = (source >= 0) & (source < len(rows)) & (hole >= 0) & (hole < len(rows))
    rows[hole[known]] = rows[source[known]]


@triton.jit(do_not_specialize=["source", "hole", "size", "blocks", "pages"])
def _move(
    source, hole, buffer, size, blocks, pages,
    BLOCK: tl.constexpr, VECTOR: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    """A program copies one block of one page, of `size` units."""
    program = tl.program_id(0)
    nth = program // blocks
    start = slot_at(source, nth)
    end = slot_at(hole, nth)
    if (is_outside(start, pages) | is_outside(end, pages)) == 0:
        first = (program % blocks).to(tl.int64) * BLOCK
        at = tl.max_contiguous(tl.multiple_of(first + tl.arange(0, BLOCK), VECTOR), VECTOR)
        a = buffer + tl.multiple_of(start * size, VECTOR)
        b = buffer + tl.multiple_of(end * size, VECTOR)
        if WHOLE:
            tl.store(b + at, tl.load(a + at))
        else:
            inside = at < tl.multiple_of(size.to(tl.int64), VECTOR)
            tl.store(b + at, tl.load(a + at, mask=inside), mask=inside)
