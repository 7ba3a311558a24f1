"""Small Triton kernels, for what is asked of Triton itself. Nothing of poolproof is imported here."""

from __future__ import annotations

import torch
import triton
from torch import Tensor
from triton import language as tl

BLOCK = 1024


@triton.jit
def _narrow(source, target, size, BLOCK: tl.constexpr):
    """Cast to the target's dtype."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(source + at, mask=at < size, other=0.0)
    tl.store(target + at, value.to(target.dtype.element_ty), mask=at < size)


@triton.jit
def _cut(source, target, size, BLOCK: tl.constexpr):
    """Cast to the target's dtype, towards zero."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(source + at, mask=at < size, other=0.0)
    tl.store(target + at, value.to(target.dtype.element_ty, fp_downcast_rounding="rtz"), mask=at < size)


@triton.jit
def _fma(x, y, z, target, size, BLOCK: tl.constexpr):
    """x * y + z."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    fused = tl.fma(tl.load(x + at, mask=inside), tl.load(y + at, mask=inside), tl.load(z + at, mask=inside))
    tl.store(target + at, fused, mask=inside)


@triton.jit(do_not_specialize=["first", "count"])
def add_at(first, count, target, step, BLOCK: tl.constexpr):
    """Add `step` and the number of programs to an element, which is given by its number or a list of them."""
    if first.dtype.is_ptr():  # noqa: SIM108 - the branches have other types
        at = tl.load(first + tl.program_id(0))
    else:
        at = first.to(tl.int64)
    tl.atomic_add(target + at, step + count)


def narrow(source: Tensor, dtype: torch.dtype) -> Tensor:
    """A tensor of one axis, cast by Triton."""
    target = torch.zeros(source.shape, dtype=dtype, device=source.device)
    _narrow[(triton.cdiv(source.numel(), BLOCK),)](source, target, source.numel(), BLOCK=BLOCK)
    return target


def cut(source: Tensor, dtype: torch.dtype) -> Tensor:
    """A tensor of one axis, cast by Triton towards zero."""
    target = torch.zeros(source.shape, dtype=dtype, device=source.device)
    _cut[(triton.cdiv(source.numel(), BLOCK),)](source, target, source.numel(), BLOCK=BLOCK)
    return target


def fused(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    """x * y + z of tensors of one axis, by Triton."""
    target = torch.zeros_like(z)
    _fma[(triton.cdiv(x.numel(), BLOCK),)](x, y, z, target, x.numel(), BLOCK=BLOCK)
    return target
