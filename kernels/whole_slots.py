"""Slots as a whole, temporal states and conv windows, to int8 checkpoints and back, in one launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
    window_arguments,
    window_launches,
)
from poolproof.kernels.dequantize_load import dequantize_load_reference, load_arguments, load_program, load_states
from poolproof.kernels.launch import Prepared
from poolproof.kernels.layout import KernelArgumentError, check_states
from poolproof.kernels.quantize_store import quantize_store_reference, store_arguments, store_program, store_states
from poolproof.kernels.slot_copy import SlotCopy

BLOCK = 512
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
        self._pairs = _pairs(active_windows, cached_windows, counts)
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
        self._pairs = _pairs(cached_windows, active_windows, counts)
        super().__init__([codes, scales, *cached_windows], [active, *active_windows], counts)
        self.active, self.codes, self.scales = active, codes, scales
        arguments = load_arguments(codes, scales, active)
        self._bind(_launches(_load_whole, load_states, arguments, self._pairs, counts))

    def _in_torch(self, source: int | Tensor, target: int | Tensor) -> None:
        dequantize_load_reference(self.codes, self.scales, self.active, source, target)
        copy_windows_reference(self._pairs, source, target)


def _pairs(source: Sequence[Tensor], target: Sequence[Tensor], counts: tuple[int, int]) -> list[Pair]:
    """The windows that have elements.

    Raises:
        KernelArgumentError: they do not fit together, or have more or fewer slots than the states.
    """
    check_windows(source, target)
    found = (source[0].shape[1], target[0].shape[1]) if source else counts
    if found != counts:
        raise KernelArgumentError(
            f"windows of {found[0]} and {found[1]} slots, states of {counts[0]} and {counts[1]}: a pool has as many of "
            f"either"
        )
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
    more, windows, flat = window_arguments(pairs[:TOGETHER], block)
    first = Prepared(whole, (each, *arguments, *windows, *counts), **options, **flat, BLOCK=block)
    return [(each + more, first), *window_launches(pairs[TOGETHER:])]


UNSPECIALIZED = ["source", "target", "slots", "each", "each0", "each1", "each2", "from_slots", "to_slots"]
"""Parameters whose values must not change how the kernel is compiled."""


@triton.jit(do_not_specialize=UNSPECIALIZED)
def _store_whole(
    source, target, slots, each,
    active_ptr, codes_ptr, scales_ptr, lost_ptr,
    a_layer, a_slot, a_head, a_row, a_column,
    c_layer, c_slot, c_head, c_row, c_column,
    s_layer, s_slot, s_head, s_column,
    heads, rows, columns, blocks,
    a0, b0, a1, b1, a2, b2, a3, b3,
    a0_layer, a0_slot, a0_channel, a0_column, b0_layer, b0_slot, b0_channel, b0_column,
    a1_layer, a1_slot, a1_channel, a1_column, b1_layer, b1_slot, b1_channel, b1_column,
    a2_layer, a2_slot, a2_channel, a2_column, b2_layer, b2_slot, b2_channel, b2_column,
    a3_layer, a3_slot, a3_channel, a3_column, b3_layer, b3_slot, b3_channel, b3_column,
    size0, size1, size2, size3, width0, width1, width2, width3, blocks0, blocks1, blocks2, blocks3,
    each0, each1, each2, from_slots, to_slots,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, FORMAT: tl.constexpr, LARGEST: tl.constexpr, LEAST: tl.constexpr,
    NAN: tl.constexpr, WIDE: tl.constexpr, WHOLE: tl.constexpr, PARTS: tl.constexpr,
    BLOCK: tl.constexpr, FLAT0: tl.constexpr, FLAT1: tl.constexpr, FLAT2: tl.constexpr, FLAT3: tl.constexpr,
):  # fmt: skip
    """Every tile of the states, and then the windows."""
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
                     a0_layer, a0_slot, a0_channel, a0_column, b0_layer, b0_slot, b0_channel, b0_column,
                     a1_layer, a1_slot, a1_channel, a1_column, b1_layer, b1_slot, b1_channel, b1_column,
                     a2_layer, a2_slot, a2_channel, a2_column, b2_layer, b2_slot, b2_channel, b2_column,
                     a3_layer, a3_slot, a3_channel, a3_column, b3_layer, b3_slot, b3_channel, b3_column,
                     size0, size1, size2, size3, width0, width1, width2, width3, blocks0, blocks1, blocks2, blocks3,
                     each0, each1, each2, from_slots, to_slots,
                     BLOCK, FLAT0, FLAT1, FLAT2, FLAT3)  # fmt: skip


@triton.jit(do_not_specialize=UNSPECIALIZED)
def _load_whole(
    source, target, slots, each,
    codes_ptr, scales_ptr, active_ptr,
    c_layer, c_slot, c_head, c_row, c_column,
    s_layer, s_slot, s_head, s_column,
    a_layer, a_slot, a_head, a_row, a_column,
    heads, rows, columns, blocks, parts,
    a0, b0, a1, b1, a2, b2, a3, b3,
    a0_layer, a0_slot, a0_channel, a0_column, b0_layer, b0_slot, b0_channel, b0_column,
    a1_layer, a1_slot, a1_channel, a1_column, b1_layer, b1_slot, b1_channel, b1_column,
    a2_layer, a2_slot, a2_channel, a2_column, b2_layer, b2_slot, b2_channel, b2_column,
    a3_layer, a3_slot, a3_channel, a3_column, b3_layer, b3_slot, b3_channel, b3_column,
    size0, size1, size2, size3, width0, width1, width2, width3, blocks0, blocks1, blocks2, blocks3,
    each0, each1, each2, from_slots, to_slots,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, FORMAT: tl.constexpr, LARGEST: tl.constexpr, NAN: tl.constexpr,
    WIDE: tl.constexpr, WHOLE: tl.constexpr,
    BLOCK: tl.constexpr, FLAT0: tl.constexpr, FLAT1: tl.constexpr, FLAT2: tl.constexpr, FLAT3: tl.constexpr,
):  # fmt: skip
    """Every tile of the states, and then the windows."""
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
                     a0_layer, a0_slot, a0_channel, a0_column, b0_layer, b0_slot, b0_channel, b0_column,
                     a1_layer, a1_slot, a1_channel, a1_column, b1_layer, b1_slot, b1_channel, b1_column,
                     a2_layer, a2_slot, a2_channel, a2_column, b2_layer, b2_slot, b2_channel, b2_column,
                     a3_layer, a3_slot, a3_channel, a3_column, b3_layer, b3_slot, b3_channel, b3_column,
                     size0, size1, size2, size3, width0, width1, width2, width3, blocks0, blocks1, blocks2, blocks3,
                     each0, each1, each2, from_slots, to_slots,
                     BLOCK, FLAT0, FLAT1, FLAT2, FLAT3)  # fmt: skip
