"""Slots as a whole, temporal states and conv windows, to int8 checkpoints and back, in one launch.

What one slot is like is compiled into the kernels, as in `dequantize_load`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import triton
from torch import Tensor
from triton import language as tl

from poolproof.kernels.copy_windows import (
    TOGETHER,
    Pair,
    check_windows,
    copy_program,
    copy_windows_reference,
    filled,
    parts_of,
    window_launches,
)
from poolproof.kernels.dequantize_load import dequantize_load_reference, load_arguments, load_program, load_states
from poolproof.kernels.launch import Prepared
from poolproof.kernels.layout import KernelArgumentError, check_states
from poolproof.kernels.quantize_store import quantize_store_reference, store_arguments, store_program, store_states
from poolproof.kernels.slot_copy import SlotCopy

BLOCK = 1024
"""Elements of a window that a program copies for each of its warps: the fastest that was measured on an H200."""

Arguments = tuple[int, tuple[Any, ...], dict[str, Any]]


class StoreSlots(SlotCopy):
    """Stores slots of an active pool as slots of a checkpoint pool: `QuantizeStore` and `CopyWindows` in one launch.

    Windows beyond the first four take further launches.
    """

    def __init__(
        self,
        active: Tensor,
        codes: Tensor,
        scales: Tensor,
        active_windows: Sequence[Tensor],
        cached_windows: Sequence[Tensor],
    ) -> None:
        """Bind the pools.

        Args:
            active: (layers, slots, heads, d_v, d_k), bfloat16, float16 or float32, any strides.
            codes: (layers, checkpoint slots, heads, d_v, d_k), int8, any strides.
            scales: (layers, checkpoint slots, heads, d_k), the dtype of `active`, any strides.
            active_windows: tensors (layers, slots, channels, width), bfloat16, float16 or float32, any strides.
            cached_windows: as many of (layers, checkpoint slots, channels, width); each may have a dtype of its own.

        Raises:
            KernelArgumentError: the tensors do not fit together.
        """
        check_states(active, codes, scales)
        counts = (active.shape[1], codes.shape[1])
        self._pairs = _pairs(active_windows, cached_windows, counts, active.device)
        super().__init__([active, *active_windows], [codes, scales, *cached_windows], counts)
        self.active, self.codes, self.scales = active, codes, scales
        arguments = store_arguments(active, codes, scales, None)
        self._bind(_launches(_store_whole, store_states, arguments, self._pairs, counts))

    def _in_torch(self, source: int | Tensor, target: int | Tensor) -> None:
        quantize_store_reference(self.active, self.codes, self.scales, source, target)
        copy_windows_reference(self._pairs, source, target)


class LoadSlots(SlotCopy):
    """Loads slots of a checkpoint pool as slots of an active pool: `DequantizeLoad` and `CopyWindows` in one launch.

    Windows beyond the first four take further launches.
    """

    def __init__(
        self,
        codes: Tensor,
        scales: Tensor,
        active: Tensor,
        cached_windows: Sequence[Tensor],
        active_windows: Sequence[Tensor],
    ) -> None:
        """Bind the pools, whose tensors are as for `StoreSlots`.

        Raises:
            KernelArgumentError: the tensors do not fit together.
        """
        check_states(active, codes, scales)
        counts = (codes.shape[1], active.shape[1])
        self._pairs = _pairs(cached_windows, active_windows, counts, active.device)
        super().__init__([codes, scales, *cached_windows], [active, *active_windows], counts)
        self.active, self.codes, self.scales = active, codes, scales
        arguments = load_arguments(codes, scales, active)
        self._bind(_launches(_load_whole, load_states, arguments, self._pairs, counts))

    def _in_torch(self, source: int | Tensor, target: int | Tensor) -> None:
        dequantize_load_reference(self.codes, self.scales, self.active, source, target)
        copy_windows_reference(self._pairs, source, target)


def _pairs(
    source: Sequence[Tensor], target: Sequence[Tensor], counts: tuple[int, int], device: torch.device
) -> list[Pair]:
    """The windows that have elements.

    Raises:
        KernelArgumentError: they do not fit together, have more or fewer slots than the states, or lie elsewhere.
    """
    check_windows(source, target)
    if not source:
        return []
    found = (source[0].shape[1], target[0].shape[1])
    if found != counts:
        raise KernelArgumentError(
            f"windows of {found[0]} and {found[1]} slots, states of {counts[0]} and {counts[1]}: a pool has as many of "
            f"either"
        )
    if source[0].device != device:
        raise KernelArgumentError(f"windows are on {source[0].device}, states on {device}: they must share a device")
    return filled(list(zip(source, target, strict=True)))


def _launches(
    whole: Any, states: Any, of_states: Arguments, pairs: list[Pair], counts: tuple[int, int]
) -> list[tuple[int, Prepared]]:
    """One launch for the states and the first windows, and one for every four windows more.

    `whole` and `states`: kernels for both, and for states without windows.
    """
    each, arguments, options = of_states
    if not each:
        return window_launches(pairs)
    if not pairs:
        return [(each, Prepared(states, (*arguments, *counts), **options))]
    block = BLOCK * options["num_warps"]
    more, windows, parts = parts_of(pairs[:TOGETHER], block)
    fixed = (each, *arguments, *windows, *counts)
    return [(each + more, Prepared(whole, fixed, **options, **parts, BLOCK=block)), *window_launches(pairs[TOGETHER:])]


UNSPECIALIZED = ["source", "target", "slots", "each", "from_slots", "to_slots"]
"""Parameters whose values must not change how the kernel is compiled."""


@triton.jit(do_not_specialize=UNSPECIALIZED)
def _store_whole(
    source, target, slots, each,
    active_ptr, codes_ptr, scales_ptr, lost_ptr,
    a_layer, a_slot, a_head: tl.constexpr, a_row: tl.constexpr, a_column: tl.constexpr,
    c_layer, c_slot, c_head: tl.constexpr, c_row: tl.constexpr, c_column: tl.constexpr,
    s_layer, s_slot, s_head: tl.constexpr, s_column: tl.constexpr,
    heads: tl.constexpr, rows: tl.constexpr, columns: tl.constexpr, blocks: tl.constexpr,
    a0, b0, a1, b1, a2, b2, a3, b3,
    a0_layer, a0_slot, b0_layer, b0_slot, a1_layer, a1_slot, b1_layer, b1_slot,
    a2_layer, a2_slot, b2_layer, b2_slot, a3_layer, a3_slot, b3_layer, b3_slot, from_slots, to_slots,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, FORMAT: tl.constexpr, LARGEST: tl.constexpr, LEAST: tl.constexpr,
    NAN: tl.constexpr, WIDE: tl.constexpr, WHOLE: tl.constexpr, PARTS: tl.constexpr,
    PART0: tl.constexpr, PART1: tl.constexpr, PART2: tl.constexpr, PART3: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The states of all slots, `each` programs for one, and then their windows."""
    program = tl.program_id(0)
    after = each * slots
    if program < after:
        store_program(program, source, target, slots,
                      active_ptr, codes_ptr, scales_ptr, lost_ptr,
                      a_layer, a_slot, a_head, a_row, a_column,
                      c_layer, c_slot, c_head, c_row, c_column,
                      s_layer, s_slot, s_head, s_column,
                      heads, rows, columns, blocks, from_slots, to_slots,
                      ROWS, COLUMNS, FORMAT, LARGEST, LEAST, NAN, WIDE, WHOLE, PARTS)  # fmt: skip
    else:
        copy_program(program - after, source, target, slots, None, 0,
                     a0, b0, a1, b1, a2, b2, a3, b3,
                     a0_layer, a0_slot, b0_layer, b0_slot, a1_layer, a1_slot, b1_layer, b1_slot,
                     a2_layer, a2_slot, b2_layer, b2_slot, a3_layer, a3_slot, b3_layer, b3_slot,
                     from_slots, to_slots, PART0, PART1, PART2, PART3, BLOCK)  # fmt: skip


@triton.jit(do_not_specialize=UNSPECIALIZED)
def _load_whole(
    source, target, slots, each,
    codes_ptr, scales_ptr, active_ptr,
    c_layer, c_slot, c_head: tl.constexpr, c_row: tl.constexpr, c_column: tl.constexpr,
    s_layer, s_slot, s_head: tl.constexpr, s_column: tl.constexpr,
    a_layer, a_slot, a_head: tl.constexpr, a_row: tl.constexpr, a_column: tl.constexpr,
    heads: tl.constexpr, rows: tl.constexpr, columns: tl.constexpr, blocks: tl.constexpr, parts: tl.constexpr,
    a0, b0, a1, b1, a2, b2, a3, b3,
    a0_layer, a0_slot, b0_layer, b0_slot, a1_layer, a1_slot, b1_layer, b1_slot,
    a2_layer, a2_slot, b2_layer, b2_slot, a3_layer, a3_slot, b3_layer, b3_slot, from_slots, to_slots,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, FORMAT: tl.constexpr, LARGEST: tl.constexpr, NAN: tl.constexpr,
    WIDE: tl.constexpr, WHOLE: tl.constexpr,
    PART0: tl.constexpr, PART1: tl.constexpr, PART2: tl.constexpr, PART3: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The states of all slots, `each` programs for one, and then their windows."""
    program = tl.program_id(0)
    after = each * slots
    if program < after:
        load_program(program, source, target, slots,
                     codes_ptr, scales_ptr, active_ptr,
                     c_layer, c_slot, c_head, c_row, c_column,
                     s_layer, s_slot, s_head, s_column,
                     a_layer, a_slot, a_head, a_row, a_column,
                     heads, rows, columns, blocks, parts, from_slots, to_slots,
                     ROWS, COLUMNS, FORMAT, LARGEST, NAN, WIDE, WHOLE)  # fmt: skip
    else:
        copy_program(program - after, source, target, slots, None, 0,
                     a0, b0, a1, b1, a2, b2, a3, b3,
                     a0_layer, a0_slot, b0_layer, b0_slot, a1_layer, a1_slot, b1_layer, b1_slot,
                     a2_layer, a2_slot, b2_layer, b2_slot, a3_layer, a3_slot, b3_layer, b3_slot,
                     from_slots, to_slots, PART0, PART1, PART2, PART3, BLOCK)  # fmt: skip
