"""Bytes in the widest units that fit, so that a kernel moves as many at once as it can."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

import torch
from torch import Tensor

from poolproof.kernels.layout import KernelArgumentError

UNITS = {8: torch.int64, 4: torch.int32, 2: torch.int16, 1: torch.uint8}
"""Integers by bytes."""

VECTOR = 16
"""Bytes that a thread moves at once at most."""


def check_buffer(buffer: Tensor, page_bytes: Sequence[int]) -> None:
    """Is this a buffer that has pages of all these sizes?

    Raises:
        KernelArgumentError: it is not one contiguous row of uint8 on cuda, cpu or meta, or a page is empty or larger.
    """
    if not isinstance(buffer, Tensor) or buffer.dtype != torch.uint8 or buffer.dim() != 1 or not buffer.is_contiguous():
        what = f"{buffer.dtype} of {tuple(buffer.shape)}" if isinstance(buffer, Tensor) else type(buffer).__name__
        raise KernelArgumentError(f"a buffer is one contiguous row of torch.uint8, not {what}")
    if buffer.device.type not in ("cuda", "cpu", "meta"):
        raise KernelArgumentError(f"a buffer is on cuda, cpu or meta, not on {buffer.device}")
    for size in page_bytes:
        if type(size) is not int or not 0 < size <= buffer.numel():
            raise KernelArgumentError(f"pages of {size!r} bytes in a buffer of {buffer.numel()}: make them 1 to that")


def unit_of(buffer: Tensor, page_bytes: Sequence[int]) -> int:
    """Bytes of the widest unit of which every page is a whole number and starts at a multiple."""
    return gcd(
        max(UNITS), *page_bytes, buffer.storage_offset(), buffer.data_ptr() if buffer.device.type != "meta" else 0
    )


def vector_of(buffer: Tensor, page_bytes: Sequence[int]) -> int:
    """Units in a row that every page is a whole number of, and starts at a multiple of."""
    start = buffer.data_ptr() if buffer.device.type != "meta" else 0
    return gcd(VECTOR, *page_bytes, start) // unit_of(buffer, page_bytes)


def in_units(buffer: Tensor, unit: int) -> Tensor:
    """The buffer as a row of units, without a rest at its end."""
    return buffer[: buffer.numel() // unit * unit].view(UNITS[unit])
