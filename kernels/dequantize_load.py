"""int8 checkpoint slots to active state slots, in one launch: gather, products, scatter.

What one slot is like is compiled into the kernel: divisions by numbers that are not known take a while.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
from torch import Tensor
from triton import language as tl

from poolproof.kernels.codec import BITS, LARGEST_BITS, NAN_BITS, dequantize
from poolproof.kernels.launch import Prepared
from poolproof.kernels.layout import (
    FORMATS,
    Tile,
    Tiles,
    check_states,
    is_outside,
    is_wide,
    number,
    place,
    slot_at,
    strides,
)
from poolproof.kernels.slot_copy import SlotCopy
from poolproof.kernels.slots import Slots

NARROW = Tiles((Tile(32, 128, 1),), Tile(128, 16, 1))
TILES = {
    torch.bfloat16: NARROW,
    torch.float16: NARROW,
    torch.float32: Tiles((Tile(8, 128, 2),), Tile(16, 64, 1)),
}


class DequantizeLoad(SlotCopy):
    """Loads checkpoints of one checkpoint pool as states of one active pool.

    `load(sources, targets)` does `active[:, targets] = dequantize(codes[:, sources], scales[:, sources])`, in one
    launch on the current stream, without a synchronisation. On the CPU it is done in torch.
    """

    def __init__(self, codes: Tensor, scales: Tensor, active: Tensor) -> None:
        """Bind the pools.

        Args:
            codes: (layers, checkpoint slots, heads, d_v, d_k), int8, any strides.
            scales: (layers, checkpoint slots, heads, d_k), the dtype of `active`, any strides.
            active: (layers, slots, heads, d_v, d_k), bfloat16, float16 or float32, any strides.

        Raises:
            KernelArgumentError: the tensors do not fit together.
        """
        check_states(active, codes, scales)
        super().__init__([codes, scales], [active], (codes.shape[1], active.shape[1]))
        self.active, self.codes, self.scales = active, codes, scales
        each, arguments, options = load_arguments(codes, scales, active)
        fixed = (*arguments, codes.shape[1], active.shape[1])
        self._bind([(each, Prepared(load_states, fixed, **options))] if each else [])

    def _in_torch(self, source: int | Tensor, target: int | Tensor) -> None:
        dequantize_load_reference(self.codes, self.scales, self.active, source, target)


def dequantize_load(codes: Tensor, scales: Tensor, active: Tensor, sources: Slots, targets: Slots) -> None:
    """`DequantizeLoad(codes, scales, active)(sources, targets)`, for a single call."""
    DequantizeLoad(codes, scales, active)(sources, targets)


def dequantize_load_reference(
    codes: Tensor, scales: Tensor, active: Tensor, source: int | Tensor, target: int | Tensor
) -> None:
    """The same in torch, on any device."""
    active[:, target] = dequantize(codes[:, source], scales[:, source])


def load_arguments(codes: Tensor, scales: Tensor, active: Tensor) -> tuple[int, tuple[Any, ...], dict[str, Any]]:
    """The programs that one slot takes, what `load_program` takes from `codes_ptr` to `parts`, and its options."""
    bits = BITS[active.dtype]
    layers, _, heads, rows, columns = active.shape
    tile = TILES[active.dtype].of(rows, columns)
    blocks, parts = tile.blocks(columns), tile.parts(rows)
    arguments = (
        *(codes, scales.view(bits), active.view(bits)),
        *strides(codes, scales, active),
        *(heads, rows, columns, blocks, parts),
    )
    options = {
        "FORMAT": FORMATS[active.dtype],
        "LARGEST": LARGEST_BITS[active.dtype],
        "NAN": NAN_BITS[active.dtype],
        "WIDE": is_wide(active, (3, 4)) or is_wide(codes, (3, 4)),
        "WHOLE": tile.is_whole(rows, columns),
        **tile.options,
    }
    return layers * heads * blocks * parts if rows else 0, arguments, options


@triton.jit
def _saturated_bits(value, FORMAT: tl.constexpr):
    """A float32, cut to the range of the storage format and then rounded to it, as bits."""
    if FORMAT == 0:
        cut = tl.minimum(tl.maximum(value, -3.3895313892515355e38), 3.3895313892515355e38)
        bits = cut.to(tl.bfloat16).to(tl.int16, bitcast=True)
    elif FORMAT == 1:
        cut = tl.minimum(tl.maximum(value, -65504.0), 65504.0)
        bits = cut.to(tl.float16).to(tl.int16, bitcast=True)
    else:
        cut = tl.minimum(tl.maximum(value, -3.4028234663852886e38), 3.4028234663852886e38)
        bits = cut.to(tl.int32, bitcast=True)
    return bits


@triton.jit
def load_program(
    program, source, target, slots,
    codes_ptr, scales_ptr, active_ptr,
    c_layer, c_slot, c_head, c_row, c_column,
    s_layer, s_slot, s_head, s_column,
    a_layer, a_slot, a_head, a_row, a_column,
    heads, rows, columns, blocks, parts, from_slots, to_slots,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, FORMAT: tl.constexpr, LARGEST: tl.constexpr, NAN: tl.constexpr,
    WIDE: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    """Some rows of some k-channels of one head of one layer of one slot, where the pools have it."""
    head, block, nth, layer = place(program, heads, blocks * parts, slots)
    slot = slot_at(source, nth)
    to = slot_at(target, nth)
    if (is_outside(slot, from_slots) | is_outside(to, to_slots)) == 0:
        row = block % parts * ROWS + tl.arange(0, ROWS)[:, None]
        column = block // parts * COLUMNS + tl.arange(0, COLUMNS)
        inside = None if WHOLE else (row < rows) & (column < columns)[None, :]
        channels = None if WHOLE else column < columns
        if WIDE:
            row = row.to(tl.int64)
            column = column.to(tl.int64)
        first = scales_ptr + layer * s_layer + slot * s_slot + head * s_head
        scale_bits = tl.load(first + column.to(tl.int64) * s_column, mask=channels)
        sign_off = 0x7FFFFFFF if FORMAT == 2 else 0x7FFF
        magnitude = scale_bits & tl.full(scale_bits.shape, sign_off, scale_bits.dtype)
        lost = magnitude > tl.full(scale_bits.shape, LARGEST, scale_bits.dtype)
        first = codes_ptr + layer * c_layer + slot * c_slot + head * c_head
        code = tl.load(first + row * c_row + column[None, :] * c_column, mask=inside)
        bits = _saturated_bits(code.to(tl.float32) * number(scale_bits, FORMAT)[None, :], FORMAT)
        bits = tl.where(lost[None, :], tl.full(bits.shape, NAN, bits.dtype), bits)
        first = active_ptr + layer * a_layer + to * a_slot + head * a_head
        tl.store(first + row * a_row + column[None, :] * a_column, bits, mask=inside)


@triton.jit(do_not_specialize=["source", "target", "slots", "from_slots", "to_slots"])
def load_states(
    source, target, slots,
    codes_ptr, scales_ptr, active_ptr,
    c_layer, c_slot, c_head: tl.constexpr, c_row: tl.constexpr, c_column: tl.constexpr,
    s_layer, s_slot, s_head: tl.constexpr, s_column: tl.constexpr,
    a_layer, a_slot, a_head: tl.constexpr, a_row: tl.constexpr, a_column: tl.constexpr,
    heads: tl.constexpr, rows: tl.constexpr, columns: tl.constexpr, blocks: tl.constexpr, parts: tl.constexpr,
    from_slots, to_slots,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, FORMAT: tl.constexpr, LARGEST: tl.constexpr, NAN: tl.constexpr,
    WIDE: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    """States alone."""
    load_program(tl.program_id(0), source, target, slots,
                 codes_ptr, scales_ptr, active_ptr,
                 c_layer, c_slot, c_head, c_row, c_column,
                 s_layer, s_slot, s_head, s_column,
                 a_layer, a_slot, a_head, a_row, a_column,
                 heads, rows, columns, blocks, parts, from_slots, to_slots,
                 ROWS, COLUMNS, FORMAT, LARGEST, NAN, WIDE, WHOLE)  # fmt: skip
