"""Pools of states and checkpoints as they lie in memory: whole tensors, and views of buffers with gaps between."""

from __future__ import annotations

from dataclasses import dataclass

import states
import torch
from torch import Tensor

LAYOUTS = ["plain", "transposed", "sliced", "slot-major", "envelope"]
SLOTS, CHECKPOINTS = 5, 4


@dataclass(frozen=True)
class View:
    """A view of a buffer of bytes."""

    buffer: int
    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    def of(self, buffers: list[Tensor]) -> Tensor:
        """The view itself."""
        return buffers[self.buffer].view(self.dtype).as_strided(self.shape, self.strides, self.offset)


@dataclass(frozen=True)
class Pools:
    """An active pool and a checkpoint pool, and the bytes that they and the gaps between them lie in."""

    buffers: list[Tensor]
    views: tuple[View, View, View]

    @property
    def active(self) -> Tensor:
        """(layers, slots, heads, d_v, d_k)"""
        return self.views[0].of(self.buffers)

    @property
    def codes(self) -> Tensor:
        """(layers, checkpoint slots, heads, d_v, d_k)"""
        return self.views[1].of(self.buffers)

    @property
    def scales(self) -> Tensor:
        """(layers, checkpoint slots, heads, d_k)"""
        return self.views[2].of(self.buffers)

    def copy(self, device: str | torch.device = "cpu") -> Pools:
        """The same pools over a copy of the bytes."""
        return Pools([buffer.to(device, copy=True) for buffer in self.buffers], self.views)

    def same_bytes(self, other: Pools) -> bool:
        """Are all bytes the same, those between the states included?"""
        return all(torch.equal(a.cpu(), b.cpu()) for a, b in zip(self.buffers, other.buffers, strict=True))


def dense(shape: tuple[int, ...], order: tuple[int, ...], step: int = 1, gap: int = 0) -> tuple[tuple[int, ...], int]:
    """Strides with the axes in an order, innermost first, and the elements that it takes."""
    strides, size = [0] * len(shape), step
    for axis in order:
        strides[axis] = size
        size = size * max(shape[axis], 1) + gap
    return tuple(strides), size


def arranged(layout: str, shape: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """The strides of a pool's tensor, and the elements that it takes."""
    axes = tuple(reversed(range(len(shape))))
    if layout == "transposed":
        return dense(shape, (axes[1], axes[0], *axes[2:]))
    if layout == "sliced":
        return dense(shape, axes, step=2, gap=3)
    if layout == "slot-major":
        return dense(shape, (*axes[:-2], 0, 1), gap=5)
    return dense(shape, axes)


def make(
    layout: str,
    dtype: torch.dtype,
    layers: int,
    heads: int,
    d_v: int,
    d_k: int,
    seed: int = 0,
    slots: int = SLOTS,
    checkpoints: int = CHECKPOINTS,
) -> Pools:
    """Pools with states of all kinds; every other byte is random."""
    shapes = [(layers, n, heads, d_v, d_k) for n in (slots, checkpoints)]
    shapes.append((layers, checkpoints, heads, d_k))
    dtypes = [dtype, torch.int8, dtype]
    if layout == "envelope":
        views, sizes = _envelopes(dtype, shapes)
    else:
        places = [arranged(layout, shape) for shape in shapes]
        views = tuple(View(n, dtypes[n], shapes[n], places[n][0]) for n in range(3))
        sizes = [places[n][1] * dtypes[n].itemsize for n in range(3)]
    generator = torch.Generator().manual_seed(seed)
    buffers = [torch.randint(0, 256, (size,), dtype=torch.uint8, generator=generator) for size in sizes]
    pools = Pools(buffers, views)
    pools.active.copy_(states.mixed(dtype, shapes[0], seed))
    return pools


def _envelopes(dtype: torch.dtype, shapes: list[tuple[int, ...]]) -> tuple[tuple[View, View, View], list[int]]:
    """Page-major: a page holds all that belongs to one slot, after a header; a checkpoint's codes and its scales."""
    header = 48
    state_strides, state_size = dense(_one_slot(shapes[0]), (4, 3, 2, 0, 1))
    scale_strides, scale_size = dense(_one_slot(shapes[2]), (3, 2, 0, 1))
    page = _aligned(header + state_size * dtype.itemsize + 16)
    codes_end = _aligned(header + state_size)
    checkpoint = _aligned(codes_end + scale_size * dtype.itemsize)
    width = dtype.itemsize
    views = (
        View(0, dtype, shapes[0], _paged(state_strides, page // width), header // width),
        View(1, torch.int8, shapes[1], _paged(state_strides, checkpoint), header),
        View(1, dtype, shapes[2], _paged(scale_strides, checkpoint // width), codes_end // width),
    )
    return views, [page * shapes[0][1], checkpoint * shapes[1][1]]


def _one_slot(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (shape[0], 1, *shape[2:])


def _paged(strides: tuple[int, ...], page: int) -> tuple[int, ...]:
    return (strides[0], page, *strides[2:])


def _aligned(size: int) -> int:
    """Up to a multiple of 8 that is none of 16, so that no pointer or stride is better aligned than it need be."""
    return -(-size // 16) * 16 + 8
