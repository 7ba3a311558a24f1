"""Conv windows of slots, copied between pools: several tensors of their own shapes and dtypes in one launch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import triton
from torch import Tensor
from triton import language as tl

from poolproof.kernels.codec import BITS, NAN_BITS
from poolproof.kernels.launch import Prepared
from poolproof.kernels.layout import FORMATS, KernelArgumentError, is_outside, slot_at
from poolproof.kernels.slot_copy import SlotCopy
from poolproof.kernels.slots import Slots

BLOCK = 1024
WARPS = 2
"""The fastest of those that were measured on an H200."""

TOGETHER = 4
"""So many tensors are copied by one launch; more take more launches."""

Pair = tuple[Tensor, Tensor]


class CopyWindows(SlotCopy):
    """Copies slots between the conv tensors of two pools: `target[i][:, targets] = source[i][:, sources]`, cast.

    Where the dtype stays, bits are copied as they are; where it changes, every NaN becomes one and the same. Up to four
    tensors take one launch on the current stream. On the CPU it is done in torch.
    """

    def __init__(self, source: Sequence[Tensor], target: Sequence[Tensor]) -> None:
        """Bind the pools.

        Args:
            source: tensors (layers, slots, channels, width), bfloat16, float16 or float32, any strides.
            target: as many tensors of the same layers, channels and width; each may have a dtype of its own.

        Raises:
            KernelArgumentError: the tensors do not fit together.
        """
        check_windows(source, target)
        every = list(zip(source, target, strict=True))
        counts = (source[0].shape[1], target[0].shape[1]) if every else (0, 0)
        super().__init__([a for a, _ in every], [b for _, b in every], counts)
        self._pairs = filled(every)
        self._bind(window_launches(self._pairs))

    def __call__(self, sources: Slots, targets: Slots) -> None:
        """Copy slots, as `SlotCopy` has it. Without any tensors there is nothing to do."""
        if self._pairs:
            super().__call__(sources, targets)

    def _in_torch(self, source: int | Tensor, target: int | Tensor) -> None:
        copy_windows_reference(self._pairs, source, target)


def copy_windows(source: Sequence[Tensor], target: Sequence[Tensor], sources: Slots, targets: Slots) -> None:
    """`CopyWindows(source, target)(sources, targets)`, for a single call."""
    CopyWindows(source, target)(sources, targets)


def copy_windows_reference(pairs: Sequence[Pair], source: int | Tensor, target: int | Tensor) -> None:
    """The same in torch, on any device. Where the dtype changes, every NaN becomes the one that the codec writes."""
    for a, b in pairs:
        value = a[:, source].to(b.dtype)
        if a.dtype != b.dtype:
            value.view(BITS[b.dtype])[value.isnan()] = NAN_BITS[b.dtype]
        b[:, target] = value


def check_windows(source: Sequence[Tensor], target: Sequence[Tensor]) -> None:
    """Can the windows of one pool be copied to those of the other?

    Raises:
        KernelArgumentError: they cannot; the message says why.
    """
    for what, windows in (("source", source), ("target", target)):
        if not isinstance(windows, Sequence):
            raise KernelArgumentError(f"{what} windows are a {type(windows).__name__}, not a list of tensors")
        check_tensors(windows)
    if len(source) != len(target):
        raise KernelArgumentError(f"{len(source)} source tensors and {len(target)} target tensors: give as many")
    for n, (a, b) in enumerate(zip(source, target, strict=True)):
        if a.dim() != 4 or b.dim() != 4 or (a.shape[0], *a.shape[2:]) != (b.shape[0], *b.shape[2:]):
            raise KernelArgumentError(
                f"window {n}: {tuple(a.shape)} cannot be copied to {tuple(b.shape)}; both have the axes "
                "(layers, slots, channels, width) and differ in slots only"
            )
        if a.dtype not in FORMATS or b.dtype not in FORMATS:
            raise KernelArgumentError(
                f"window {n}: {a.dtype} to {b.dtype}; windows are bfloat16, float16 or float32, whose casts give the "
                "same bytes on every device"
            )
    check_together({"source windows": source, "target windows": target})


def check_tensors(windows: Sequence[Tensor]) -> None:
    """Raises KernelArgumentError where a window is no tensor."""
    for n, window in enumerate(windows):
        if not isinstance(window, Tensor):
            raise KernelArgumentError(f"window {n} is a {type(window).__name__}, not a torch tensor")


def check_together(pools: Mapping[str, Sequence[Tensor]]) -> None:
    """What holds of all windows of a pool, and of all pools, which go by names.

    Raises:
        KernelArgumentError: windows of one pool have different numbers of slots, or two are on different devices.
    """
    for what, windows in pools.items():
        counts = {window.shape[1] for window in windows}
        if len(counts) > 1:
            raise KernelArgumentError(f"{what} have {sorted(counts)} slots: windows of one pool have as many")
    devices = {window.device for windows in pools.values() for window in windows}
    if len(devices) > 1:
        raise KernelArgumentError(f"windows are on {', '.join(map(str, devices))}: they must share a device")


def filled(pairs: Sequence[Pair]) -> list[Pair]:
    """Those whose slots have any elements."""
    return [(a, b) for a, b in pairs if a.shape[0] * a.shape[2] * a.shape[3]]


def window_launches(pairs: Sequence[Pair], clears: bool = False) -> list[tuple[int, Prepared]]:
    """The launches that copy slots of all pairs, each with the programs that one slot takes.

    What changes from launch to launch is the slots of the sources and of the targets and how many copies these are;
    with `clears` also slots of the targets that become zeros, and how many.
    """
    return [_prepare(pairs[start : start + TOGETHER], clears) for start in range(0, len(pairs), TOGETHER)]


def _is_flat(tensor: Tensor) -> bool:
    """Do the channels of a slot follow one another without a gap?"""
    return tensor.shape[2] == 1 or tensor.stride(2) == tensor.shape[3] * tensor.stride(3)


def _prepare(pairs: Sequence[Pair], clears: bool) -> tuple[int, Prepared]:
    """The programs that one slot takes, and the launch of some pairs."""
    each, arguments, parts = parts_of(pairs, BLOCK)
    counts = (pairs[0][0].shape[1], pairs[0][1].shape[1])
    fixed = (*(() if clears else (None, 0)), *arguments, *counts)
    return each, Prepared(_copy, fixed, **parts, BLOCK=BLOCK, num_warps=WARPS)


def parts_of(pairs: Sequence[Pair], block: int) -> tuple[int, tuple[Any, ...], dict[str, tuple[int, ...] | None]]:
    """How up to four pairs are copied, with a program for `block` elements.

    Returns:
        The programs that one slot takes; what `copy_program` takes of the pairs from `a0` to `b3_slot`; and `PART0` to
        `PART3`, which are compiled into the kernel: of each pair its strides along channels and columns, those of the
        target, the width, elements and programs of one slot of one layer, whether its channels follow one another
        without a gap in both, and the programs of one slot of this pair and those before it.
    """
    end, parts = 0, dict.fromkeys(f"PART{n}" for n in range(TOGETHER))
    pointers: list[Any] = [None] * (2 * TOGETHER)
    steps: list[Any] = [None] * (4 * TOGETHER)
    for n, (a, b) in enumerate(pairs):
        layers, _, channels, width = a.shape
        size = channels * width
        blocks = triton.cdiv(size, block)
        end += layers * blocks
        is_flat = _is_flat(a) and _is_flat(b)
        parts[f"PART{n}"] = (*a.stride()[2:], *b.stride()[2:], width, size, blocks, is_flat, end)
        pointers[2 * n : 2 * n + 2] = a, b
        steps[4 * n : 4 * n + 4] = (*a.stride()[:2], *b.stride()[:2])
    return end, (*pointers, *steps), parts


@triton.jit
def with_one_nan(value, found):
    """Numbers after a cast; devices differ in which NaN a NaN becomes."""
    if found.dtype == tl.float32:
        bits = found.to(tl.int32, bitcast=True)
        nan = tl.full(bits.shape, 0x7FC00000, tl.int32)
    elif found.dtype == tl.float16:
        bits = found.to(tl.int16, bitcast=True)
        nan = tl.full(bits.shape, 0x7E00, tl.int16)
    else:
        bits = found.to(tl.int16, bitcast=True)
        nan = tl.full(bits.shape, 0x7FC0, tl.int16)
    wide = value.to(tl.float32)
    return tl.where(wide == wide, bits, nan).to(found.dtype, bitcast=True)


BLOCKS, END = tl.constexpr(6), tl.constexpr(8)
"""Where the programs of one slot are in a part: of one layer, and of all up to there."""


@triton.jit
def _copy_block(
    a_ptr, b_ptr, a_layer, a_slot, b_layer, b_slot, slot, to, is_copied, nth_block, layer,
    PART: tl.constexpr, BLOCK: tl.constexpr, CLEARS: tl.constexpr,
):  # fmt: skip
    """Some elements of one slot of one layer of one tensor."""
    a_channel: tl.constexpr = PART[0]
    a_column: tl.constexpr = PART[1]
    b_channel: tl.constexpr = PART[2]
    b_column: tl.constexpr = PART[3]
    width: tl.constexpr = PART[4]
    size: tl.constexpr = PART[5]
    is_flat: tl.constexpr = PART[7]
    at = nth_block * BLOCK + tl.arange(0, BLOCK)
    a_first = a_ptr + layer * a_layer + slot * a_slot
    b_first = b_ptr + layer * b_layer + to * b_slot
    if is_flat:
        a_at = at.to(tl.int64) * a_column
        b_at = at.to(tl.int64) * b_column
    else:
        channel = (at // width).to(tl.int64)
        column = (at % width).to(tl.int64)
        a_at = channel * a_channel + column * a_column
        b_at = channel * b_channel + column * b_column
    if CLEARS:
        value = tl.load(a_first + a_at, mask=(at < size) & is_copied, other=0)
    else:
        value = tl.load(a_first + a_at, mask=at < size)
    if a_ptr.dtype.element_ty == b_ptr.dtype.element_ty:
        tl.store(b_first + b_at, value, mask=at < size)
    else:
        tl.store(b_first + b_at, with_one_nan(value, value.to(b_ptr.dtype.element_ty)), mask=at < size)


@triton.jit
def _copy_part(
    a_ptr, b_ptr, a_layer, a_slot, b_layer, b_slot,
    source, target, slots, clears, every, from_slots, to_slots, program,
    PART: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """What the program does of one tensor, where the pools have its slots. What is cleared is a copy of nothing."""
    blocks: tl.constexpr = PART[BLOCKS]
    rest = program // blocks
    nth = rest % every
    is_copied = nth < slots
    if clears is None or is_copied:
        slot = slot_at(source, nth)
        to = slot_at(target, nth)
        is_left_out = is_outside(slot, from_slots) | is_outside(to, to_slots)
    else:
        slot = tl.cast(0, tl.int64)
        to = slot_at(clears, nth - slots)
        is_left_out = is_outside(to, to_slots)
    if is_left_out == 0:
        layer = (rest // every).to(tl.int64)
        _copy_block(a_ptr, b_ptr, a_layer, a_slot, b_layer, b_slot, slot, to, is_copied, program % blocks, layer,
                    PART, BLOCK, clears is not None)  # fmt: skip


@triton.jit
def copy_program(
    program, source, target, slots, clears, cleared, a0, b0, a1, b1, a2, b2, a3, b3,
    a0_layer, a0_slot, b0_layer, b0_slot, a1_layer, a1_slot, b1_layer, b1_slot,
    a2_layer, a2_slot, b2_layer, b2_slot, a3_layer, a3_slot, b3_layer, b3_slot, from_slots, to_slots,
    PART0: tl.constexpr, PART1: tl.constexpr, PART2: tl.constexpr, PART3: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The first programs do all of the first tensor, as many for a slot as it has, the next ones of the second, ....

    Of each tensor, `slots` slots are copied, then `cleared` ones become zeros. Where `clears` is None, none do.
    """
    every = slots if clears is None else slots + cleared
    if program < PART0[END] * every:
        _copy_part(a0, b0, a0_layer, a0_slot, b0_layer, b0_slot,
                   source, target, slots, clears, every, from_slots, to_slots, program, PART0, BLOCK)  # fmt: skip
    if PART1 is not None:
        rest = program - PART0[END] * every
        if (rest >= 0) & (program < PART1[END] * every):
            _copy_part(a1, b1, a1_layer, a1_slot, b1_layer, b1_slot,
                       source, target, slots, clears, every, from_slots, to_slots, rest, PART1, BLOCK)  # fmt: skip
    if PART2 is not None:
        rest = program - PART1[END] * every
        if (rest >= 0) & (program < PART2[END] * every):
            _copy_part(a2, b2, a2_layer, a2_slot, b2_layer, b2_slot,
                       source, target, slots, clears, every, from_slots, to_slots, rest, PART2, BLOCK)  # fmt: skip
    if PART3 is not None:
        rest = program - PART2[END] * every
        if rest >= 0:
            _copy_part(a3, b3, a3_layer, a3_slot, b3_layer, b3_slot,
                       source, target, slots, clears, every, from_slots, to_slots, rest, PART3, BLOCK)  # fmt: skip


@triton.jit(do_not_specialize=["source", "target", "slots", "clears", "cleared", "from_slots", "to_slots"])
def _copy(
    source, target, slots, clears, cleared, a0, b0, a1, b1, a2, b2, a3, b3,
    a0_layer, a0_slot, b0_layer, b0_slot, a1_layer, a1_slot, b1_layer, b1_slot,
    a2_layer, a2_slot, b2_layer, b2_slot, a3_layer, a3_slot, b3_layer, b3_slot, from_slots, to_slots,
    PART0: tl.constexpr, PART1: tl.constexpr, PART2: tl.constexpr, PART3: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Windows alone."""
    copy_program(tl.program_id(0), source, target, slots, clears, cleared, a0, b0, a1, b1, a2, b2, a3, b3,
                 a0_layer, a0_slot, b0_layer, b0_slot, a1_layer, a1_slot, b1_layer, b1_slot,
                 a2_layer, a2_slot, b2_layer, b2_slot, a3_layer, a3_slot, b3_layer, b3_slot,
                 from_slots, to_slots, PART0, PART1, PART2, PART3, BLOCK)  # fmt: skip
