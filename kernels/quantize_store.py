"""Active state slots to int8 checkpoint slots, in one launch: gather, the largest magnitudes, codes, scatter.

What one slot is like is compiled into the kernel, as in `dequantize_load`.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
from torch import Tensor
from triton import language as tl

from poolproof.kernels.codec import BITS, LARGEST_BITS, LEAST_SCALE_BITS, NAN_BITS, quantize
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

NARROW = Tiles((Tile(64, 128, 1, 255), Tile(128, 64, 2, 128), Tile(256, 64, 4, 128)), Tile(256, 16, 1))
TILES = {
    torch.bfloat16: NARROW,
    torch.float16: NARROW,
    torch.float32: Tiles((Tile(128, 64, 2, 168), Tile(256, 32, 2, 168)), Tile(256, 16, 1)),
}
"""A program holds all rows of its k-channels, up to 256; of more, each is read twice."""


class QuantizeStore(SlotCopy):
    """Stores states of one active pool as checkpoints of one checkpoint pool.

    `store(sources, targets)` does `codes[:, targets], scales[:, targets] = quantize(active[:, sources])`, in one launch
    on the current stream, without a synchronisation. On the CPU it is done in torch.
    """

    def __init__(self, active: Tensor, codes: Tensor, scales: Tensor, lost: Tensor | None = None) -> None:
        """Bind the pools.

        Args:
            active: (layers, slots, heads, d_v, d_k), bfloat16, float16 or float32, any strides.
            codes: (layers, checkpoint slots, heads, d_v, d_k), int8, any strides.
            scales: (layers, checkpoint slots, heads, d_k), the dtype of `active`, any strides.
            lost: an int32 tensor of one element; the number of channels that were not finite is added to it.

        Raises:
            KernelArgumentError: the tensors do not fit together.
        """
        check_states(active, codes, scales, lost)
        super().__init__([active], [codes, scales], (active.shape[1], codes.shape[1]))
        self.active, self.codes, self.scales, self.lost = active, codes, scales, lost
        each, arguments, options = store_arguments(active, codes, scales, lost)
        fixed = (*arguments, active.shape[1], codes.shape[1])
        self._bind([(each, Prepared(store_states, fixed, **options))] if each else [])

    def _in_torch(self, source: int | Tensor, target: int | Tensor) -> None:
        quantize_store_reference(self.active, self.codes, self.scales, source, target, self.lost)


def quantize_store(
    active: Tensor, codes: Tensor, scales: Tensor, sources: Slots, targets: Slots, lost: Tensor | None = None
) -> None:
    """`QuantizeStore(active, codes, scales, lost)(sources, targets)`, for a single call."""
    QuantizeStore(active, codes, scales, lost)(sources, targets)


def quantize_store_reference(
    active: Tensor,
    codes: Tensor,
    scales: Tensor,
    source: int | Tensor,
    target: int | Tensor,
    lost: Tensor | None = None,
) -> None:
    """The same in torch, on any device."""
    stored, scale = quantize(active[:, source])
    codes[:, target] = stored
    scales[:, target] = scale
    if lost is not None:
        lost += scale.isnan().sum()


def store_arguments(
    active: Tensor, codes: Tensor, scales: Tensor, lost: Tensor | None
) -> tuple[int, tuple[Any, ...], dict[str, Any]]:
    """The programs that one slot takes, what `store_program` takes from `active_ptr` to `blocks`, and its options."""
    bits = BITS[active.dtype]
    layers, _, heads, rows, columns = active.shape
    tile = TILES[active.dtype].of(rows, columns)
    arguments = (
        *(active.view(bits), codes, scales.view(bits), lost),
        *strides(active, codes, scales),
        *(heads, rows, columns, tile.blocks(columns)),
    )
    options = {
        "FORMAT": FORMATS[active.dtype],
        "LARGEST": LARGEST_BITS[active.dtype],
        "LEAST": LEAST_SCALE_BITS[active.dtype],
        "NAN": NAN_BITS[active.dtype],
        "WIDE": is_wide(active, (3, 4)) or is_wide(codes, (3, 4)),
        "WHOLE": tile.is_whole(rows, columns),
        "PARTS": tile.parts(rows),
        **tile.options,
    }
    return layers * heads * tile.blocks(columns), arguments, options


@triton.jit
def _too_low(bits, amax, FORMAT: tl.constexpr):
    """Is 127 times the number with these bits below `amax`? The fused sum has the exact one's sign."""
    return tl.fma(number(bits, FORMAT), 127.0, -amax) < 0


@triton.jit
def _scale_bits(amax_bits, FORMAT: tl.constexpr, LEAST: tl.constexpr):
    """The bits of max(round_up(amax / 127), least scale): from just below the quotient, up while it is too low."""
    amax = number(amax_bits, FORMAT)
    if FORMAT == 0:
        bits = ((amax * 0.007874015748031496).to(tl.int32, bitcast=True) >> 16).to(tl.int16)
    elif FORMAT == 1:
        bits = (amax * 0.007874015748031496).to(tl.float16).to(tl.int16, bitcast=True)
    else:
        bits = tl.div_rn(amax, tl.full(amax.shape, 127.0, tl.float32)).to(tl.int32, bitcast=True)
    one = tl.full(bits.shape, 1, bits.dtype)
    bits = tl.maximum(bits - one, tl.zeros_like(bits))
    bits = tl.where(_too_low(bits, amax, FORMAT), bits + one, bits)
    bits = tl.where(_too_low(bits, amax, FORMAT), bits + one, bits)
    bits = tl.where(_too_low(bits, amax, FORMAT), bits + one, bits)
    return tl.maximum(bits, tl.full(bits.shape, LEAST, bits.dtype))


@triton.jit
def _rows(part, ROWS: tl.constexpr, WIDE: tl.constexpr):
    """The rows of d_v in a part."""
    row = part * ROWS + tl.arange(0, ROWS)[:, None]
    if WIDE:
        row = row.to(tl.int64)
    return row


@triton.jit
def _load_rows(states, row, rows, channels, step, WHOLE: tl.constexpr):
    """The elements of a tile, zeros where there are none."""
    if WHOLE:
        bits = tl.load(states + row * step)
    else:
        bits = tl.load(states + row * step, mask=(row < rows) & channels[None, :], other=0)
    return bits


@triton.jit
def _store_rows(codes, row, rows, channels, step, code, WHOLE: tl.constexpr):
    """The codes of a tile, where it has elements."""
    if WHOLE:
        tl.store(codes + row * step, code)
    else:
        tl.store(codes + row * step, code, mask=(row < rows) & channels[None, :])


@triton.jit
def _largest(bits, FORMAT: tl.constexpr):
    """The bits of the largest magnitude of each column."""
    sign_off = 0x7FFFFFFF if FORMAT == 2 else 0x7FFF
    return tl.max(bits & tl.full(bits.shape, sign_off, bits.dtype), axis=0).to(bits.dtype)


@triton.jit
def _codes(bits, finite, reciprocal, FORMAT: tl.constexpr):
    """x * r + 1.5 * 2**23, rounded once, has round_half_even(x * r) in its low byte."""
    rounded = tl.fma(number(bits, FORMAT), reciprocal[None, :], 12582912.0)
    code = rounded.to(tl.int32, bitcast=True).to(tl.int8)
    return tl.where(finite[None, :], code, tl.zeros_like(code))


@triton.jit
def store_program(
    program, source, target, slots,
    active_ptr, codes_ptr, scales_ptr, lost_ptr,
    a_layer, a_slot, a_head, a_row, a_column,
    c_layer, c_slot, c_head, c_row, c_column,
    s_layer, s_slot, s_head, s_column,
    heads, rows, columns, blocks, from_slots, to_slots,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, FORMAT: tl.constexpr, LARGEST: tl.constexpr, LEAST: tl.constexpr,
    NAN: tl.constexpr, WIDE: tl.constexpr, WHOLE: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """Some k-channels of one head of one layer of one slot, where the pools have it.

    More than one part of rows is read twice.
    """
    head, block, nth, layer = place(program, heads, blocks, slots)
    slot = slot_at(source, nth)
    to = slot_at(target, nth)
    if (is_outside(slot, from_slots) | is_outside(to, to_slots)) == 0:
        column = block * COLUMNS + tl.arange(0, COLUMNS)
        channels = None if WHOLE else column < columns
        if WIDE:
            column = column.to(tl.int64)
        states = active_ptr + layer * a_layer + slot * a_slot + head * a_head + column[None, :] * a_column
        codes = codes_ptr + layer * c_layer + to * c_slot + head * c_head + column[None, :] * c_column
        row = _rows(0, ROWS, WIDE)
        bits = _load_rows(states, row, rows, channels, a_row, WHOLE)
        amax_bits = _largest(bits, FORMAT)
        for part in range(1, PARTS):
            further = _load_rows(states, _rows(part, ROWS, WIDE), rows, channels, a_row, WHOLE)
            amax_bits = tl.maximum(amax_bits, _largest(further, FORMAT))
        finite = amax_bits <= tl.full(amax_bits.shape, LARGEST, amax_bits.dtype)
        scale_bits = _scale_bits(tl.where(finite, amax_bits, tl.zeros_like(amax_bits)), FORMAT, LEAST)
        reciprocal = tl.div_rn(tl.full(scale_bits.shape, 1.0, tl.float32), number(scale_bits, FORMAT))
        _store_rows(codes, row, rows, channels, c_row, _codes(bits, finite, reciprocal, FORMAT), WHOLE)
        for part in range(1, PARTS):
            more = _rows(part, ROWS, WIDE)
            further = _load_rows(states, more, rows, channels, a_row, WHOLE)
            _store_rows(codes, more, rows, channels, c_row, _codes(further, finite, reciprocal, FORMAT), WHOLE)
        stored = tl.where(finite, scale_bits, tl.full(scale_bits.shape, NAN, scale_bits.dtype))
        first = scales_ptr + layer * s_layer + to * s_slot + head * s_head
        tl.store(first + column.to(tl.int64) * s_column, stored, mask=channels)
        if lost_ptr is not None:
            gone = (finite == 0) if WHOLE else (finite == 0) & channels
            count = tl.sum(gone.to(tl.int32), axis=0)
            tl.atomic_add(lost_ptr, count, mask=count > 0)


@triton.jit(do_not_specialize=["source", "target", "slots", "from_slots", "to_slots"])
def store_states(
    source, target, slots,
    active_ptr, codes_ptr, scales_ptr, lost_ptr,
    a_layer, a_slot, a_head: tl.constexpr, a_row: tl.constexpr, a_column: tl.constexpr,
    c_layer, c_slot, c_head: tl.constexpr, c_row: tl.constexpr, c_column: tl.constexpr,
    s_layer, s_slot, s_head: tl.constexpr, s_column: tl.constexpr,
    heads: tl.constexpr, rows: tl.constexpr, columns: tl.constexpr, blocks: tl.constexpr,
    from_slots, to_slots,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, FORMAT: tl.constexpr, LARGEST: tl.constexpr, LEAST: tl.constexpr,
    NAN: tl.constexpr, WIDE: tl.constexpr, WHOLE: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """States alone."""
    store_program(tl.program_id(0), source, target, slots,
                  active_ptr, codes_ptr, scales_ptr, lost_ptr,
                  a_layer, a_slot, a_head, a_row, a_column,
                  c_layer, c_slot, c_head, c_row, c_column,
                  s_layer, s_slot, s_head, s_column,
                  heads, rows, columns, blocks, from_slots, to_slots,
                  ROWS, COLUMNS, FORMAT, LARGEST, LEAST,
                  NAN, WIDE, WHOLE, PARTS)  # fmt: skip
