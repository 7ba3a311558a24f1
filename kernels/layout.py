"""What both directions of the codec share: checks of their tensors, how a launch is cut up, bits as numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import triton
from torch import Tensor
from triton import language as tl

from poolproof.kernels.codec import BITS

FORMATS = {torch.bfloat16: 0, torch.float16: 1, torch.float32: 2}
"""The storage formats, as kernels tell them apart."""

AXES = "(layers, slots, heads, d_v, d_k)"


class KernelArgumentError(ValueError):
    """Tensors that do not belong together. Nothing was launched."""


def check_states(active: Tensor, codes: Tensor, scales: Tensor, lost: Tensor | None = None) -> None:
    """Do an active pool and a checkpoint pool fit together?

    Raises:
        KernelArgumentError: a shape, dtype or device does not fit; the message says which, and what is expected.
    """
    for what, tensor in (("active", active), ("codes", codes), ("scales", scales), ("lost", lost)):
        if not isinstance(tensor, Tensor) and not (tensor is None and what == "lost"):
            raise KernelArgumentError(f"{what} is a {type(tensor).__name__}, not a torch tensor")
    if active.dtype not in BITS:
        raise KernelArgumentError(f"states are bfloat16, float16 or float32, not {active.dtype}")
    if active.dim() != 5:
        raise KernelArgumentError(f"a state pool has the axes {AXES}, not the shape {tuple(active.shape)}")
    layers, _, heads, d_v, d_k = active.shape
    if codes.dim() != 5 or (codes.shape[0], *codes.shape[2:]) != (layers, heads, d_v, d_k):
        expected = f"({layers}, slots, {heads}, {d_v}, {d_k})"
        raise KernelArgumentError(f"codes have the shape {tuple(codes.shape)}, not {expected}")
    if scales.shape != (layers, codes.shape[1], heads, d_k):
        expected = f"({layers}, {codes.shape[1]}, {heads}, {d_k})"
        raise KernelArgumentError(f"scales have the shape {tuple(scales.shape)}, not {expected}")
    if codes.dtype != torch.int8:
        raise KernelArgumentError(f"codes are int8, not {codes.dtype}")
    if scales.dtype != active.dtype:
        raise KernelArgumentError(f"scales have the state's dtype {active.dtype}, not {scales.dtype}")
    if len({active.device, codes.device, scales.device}) > 1:
        raise KernelArgumentError(f"states are on {active.device}, codes on {codes.device}, scales on {scales.device}")
    if lost is not None and (lost.dtype, lost.numel(), lost.device) != (torch.int32, 1, active.device):
        found = f"{lost.numel()} of {lost.dtype} on {lost.device}"
        raise KernelArgumentError(f"the count of lost channels is one int32 on {active.device}, not {found}")


def is_wide(tensor: Tensor, axes: tuple[int, ...]) -> bool:
    """Can an offset within these axes pass 2**31 - 1 elements?"""
    return sum((tensor.shape[axis] - 1) * abs(tensor.stride(axis)) for axis in axes) >= 2**31


def strides(*tensors: Tensor) -> tuple[int, ...]:
    """The strides of tensors, 0 where an axis has one place: none that is never stepped along is compiled in."""
    return tuple(
        step if places > 1 else 0
        for tensor in tensors
        for places, step in zip(tensor.shape, tensor.stride(), strict=True)
    )


@dataclass(frozen=True)
class Tile:
    """How much of a head one program takes.

    Attributes:
        rows: of d_v, a power of two.
        columns: k-channels, a power of two.
        warps: that share them.
        registers: that a thread may have; fewer let more programs run side by side.
    """

    rows: int
    columns: int
    warps: int
    registers: int | None = None

    def within(self, rows: int, columns: int) -> Tile:
        """This tile, no larger than it takes for a head of so many rows and k-channels."""
        height, width = triton.next_power_of_2(max(rows, 1)), triton.next_power_of_2(max(columns, 1))
        return replace(self, rows=min(self.rows, height), columns=min(self.columns, width))

    def parts(self, rows: int) -> int:
        """How many tiles the rows of a head take."""
        return -(-max(rows, 1) // self.rows)

    def blocks(self, columns: int) -> int:
        """How many tiles the k-channels of a head take."""
        return -(-columns // self.columns)

    def is_whole(self, rows: int, columns: int) -> bool:
        """Is every tile of such a head full, so that nothing need be masked?"""
        return rows > 0 and rows % self.rows == 0 and columns % self.columns == 0

    @property
    def options(self) -> dict[str, int]:
        """How the kernel is compiled for it."""
        limit = {} if self.registers is None else {"maxnreg": self.registers}
        return {"ROWS": self.rows, "COLUMNS": self.columns, "num_warps": self.warps, **limit}


@dataclass(frozen=True)
class Tiles:
    """The fastest of the tiles that were measured on an H200.

    Attributes:
        full: for heads that are whole tiles; the first with enough rows serves, or the last.
        ragged: for all others: the fewer elements of a tile are beyond the head, the better.
    """

    full: tuple[Tile, ...]
    ragged: Tile

    def of(self, rows: int, columns: int) -> Tile:
        """The tile for heads of so many rows and k-channels."""
        full = next((tile for tile in self.full if tile.rows >= rows), self.full[-1]).within(rows, columns)
        if full.is_whole(rows, columns):
            return full
        return self.ragged.within(rows, columns)


# Triton compiles what follows a `return` even where a constexpr condition holds, so each function below returns once.


@triton.jit
def number(bits, FORMAT: tl.constexpr):
    """Bits of a storage format as the float32 of the same value."""
    if FORMAT == 0:
        value = (bits.to(tl.int32) << 16).to(tl.float32, bitcast=True)
    elif FORMAT == 1:
        value = bits.to(tl.float16, bitcast=True).to(tl.float32)
    else:
        value = bits.to(tl.float32, bitcast=True)
    return value


@triton.jit
def place(program, heads, blocks, slots):
    """Which head, block of k-channels, slot of the list and layer a program is for. Heads are next to each other."""
    rest = program // heads
    slot = rest // blocks
    return (program % heads).to(tl.int64), rest % blocks, slot % slots, (slot // slots).to(tl.int64)


@triton.jit
def slot_at(slots, nth):
    """The n-th of some slots, or the slot itself where it is a number."""
    if slots.dtype.is_ptr():  # noqa: SIM108 - the two have different types, of which the compiler may see one only
        slot = tl.load(slots + nth)
    else:
        slot = slots.to(tl.int64)
    return slot


@triton.jit
def is_outside(slot, count):
    """Has a pool of so many slots none of this number?"""
    return (slot < 0) | (slot >= count)
