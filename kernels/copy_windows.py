"""Conv windows of slots, copied between pools: several tensors of their own shapes and dtypes in one launch."""

from __future__ import annotations

from collections.abc import Sequence

import triton
from torch import Tensor
from triton import language as tl

from poolproof.kernels import interpreter
from poolproof.kernels.launch import Prepared
from poolproof.kernels.layout import KernelArgumentError, slot_at
from poolproof.kernels.slots import Slots, count_of, slot_pair

BLOCK = 2048
TOGETHER = 4
"""So many tensors are copied by one launch; more take more launches."""


class CopyWindows:
    """Copies slots between the conv tensors of two pools: `target[i][:, targets] = source[i][:, sources]`, cast.

    Up to four tensors take one launch on the current stream. On the CPU it is done in torch.
    """

    def __init__(self, source: Sequence[Tensor], target: Sequence[Tensor]) -> None:
        """Bind the pools.

        Args:
            source: tensors (layers, slots, channels, width), floating point, any strides.
            target: as many tensors of the same layers, channels and width; each may have a dtype and slots of its own.

        Raises:
            KernelArgumentError: the tensors do not fit together.
        """
        _check(source, target)
        self._pairs = [(a, b) for a, b in zip(source, target, strict=True) if a.shape[0] * a.shape[2] * a.shape[3]]
        groups = [self._pairs[start : start + TOGETHER] for start in range(0, len(self._pairs), TOGETHER)]
        self._launches = [_prepare(group) for group in groups]

    def __call__(self, sources: Slots, targets: Slots) -> None:
        """Copy slots.

        Args:
            sources, targets: as many slots of either, no target twice. That slots exist is the caller's to know.

        Raises:
            TypeError, ValueError: the slots are no lists of as many integers.
        """
        if not self._pairs:
            return
        device = self._pairs[0][0].device
        source, target = slot_pair(sources, targets, device)
        count = count_of(source)
        if count == 0:
            return
        if device.type == "cuda" or interpreter.is_on():
            for programs, prepared in self._launches:
                prepared.launch(programs * count, source, target, count)
        else:
            copy_windows_reference(self._pairs, source, target)


def copy_windows(source: Sequence[Tensor], target: Sequence[Tensor], sources: Slots, targets: Slots) -> None:
    """`CopyWindows(source, target)(sources, targets)`, for a single call."""
    CopyWindows(source, target)(sources, targets)


def copy_windows_reference(pairs: Sequence[tuple[Tensor, Tensor]], source: int | Tensor, target: int | Tensor) -> None:
    """The same in torch, on any device."""
    for a, b in pairs:
        b[:, target] = a[:, source].to(b.dtype)


def _check(source: Sequence[Tensor], target: Sequence[Tensor]) -> None:
    if len(source) != len(target):
        raise KernelArgumentError(f"{len(source)} source tensors and {len(target)} target tensors: give as many")
    for n, (a, b) in enumerate(zip(source, target, strict=True)):
        if a.dim() != 4 or b.dim() != 4 or (a.shape[0], *a.shape[2:]) != (b.shape[0], *b.shape[2:]):
            raise KernelArgumentError(
                f"window {n}: {tuple(a.shape)} cannot be copied to {tuple(b.shape)}; both have the axes "
                "(layers, slots, channels, width) and differ in slots only"
            )
        if not (a.dtype.is_floating_point and b.dtype.is_floating_point):
            raise KernelArgumentError(f"window {n}: {a.dtype} to {b.dtype}; windows are floating point")
    devices = {t.device for t in (*source, *target)}
    if len(devices) > 1:
        raise KernelArgumentError(f"windows are on {', '.join(map(str, devices))}: they must share a device")


def _prepare(pairs: Sequence[tuple[Tensor, Tensor]]) -> tuple[int, Prepared]:
    """The programs that one slot takes, and the launch of some pairs; what is left of the four places does nothing."""
    padded = [*pairs, *([pairs[0]] * (TOGETHER - len(pairs)))]
    sizes = [a.shape[2] * a.shape[3] for a, _ in padded]
    blocks = [triton.cdiv(size, BLOCK) for size in sizes]
    each = [blocks[n] * padded[n][0].shape[0] if n < len(pairs) else 0 for n in range(TOGETHER)]
    fixed = (
        *(tensor for pair in padded for tensor in pair),
        *(stride for a, b in padded for stride in (*a.stride(), *b.stride())),
        *sizes,
        *(a.shape[3] for a, _ in padded),
        *blocks,
        *(sum(each[: n + 1]) for n in range(TOGETHER - 1)),
    )
    return sum(each), Prepared(_copy, fixed, BLOCK=BLOCK)


@triton.jit
def _copy_block(
    a_ptr, b_ptr, source, target, slots, program,
    a_layer, a_slot, a_channel, a_column, b_layer, b_slot, b_channel, b_column,
    size, width, blocks,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Some elements of one slot of one layer of one tensor."""
    block = program % blocks
    rest = program // blocks
    nth = rest % slots
    layer = (rest // slots).to(tl.int64)
    at = block * BLOCK + tl.arange(0, BLOCK)
    channel = (at // width).to(tl.int64)
    column = (at % width).to(tl.int64)
    first = a_ptr + layer * a_layer + slot_at(source, nth) * a_slot
    value = tl.load(first + channel * a_channel + column * a_column, mask=at < size)
    first = b_ptr + layer * b_layer + slot_at(target, nth) * b_slot
    tl.store(first + channel * b_channel + column * b_column, value.to(b_ptr.dtype.element_ty), mask=at < size)


@triton.jit(do_not_specialize=["source", "target", "slots", "each0", "each1", "each2"])
def _copy(
    source, target, slots,
    a0, b0, a1, b1, a2, b2, a3, b3,
    a0_layer, a0_slot, a0_channel, a0_column, b0_layer, b0_slot, b0_channel, b0_column,
    a1_layer, a1_slot, a1_channel, a1_column, b1_layer, b1_slot, b1_channel, b1_column,
    a2_layer, a2_slot, a2_channel, a2_column, b2_layer, b2_slot, b2_channel, b2_column,
    a3_layer, a3_slot, a3_channel, a3_column, b3_layer, b3_slot, b3_channel, b3_column,
    size0, size1, size2, size3, width0, width1, width2, width3, blocks0, blocks1, blocks2, blocks3,
    each0, each1, each2,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """The first programs copy the first tensor, `each0` for a slot, the next ones the second, and so on."""
    program = tl.program_id(0)
    after0 = each0 * slots
    after1 = each1 * slots
    after2 = each2 * slots
    if program < after0:
        _copy_block(a0, b0, source, target, slots, program,
                    a0_layer, a0_slot, a0_channel, a0_column, b0_layer, b0_slot, b0_channel, b0_column,
                    size0, width0, blocks0, BLOCK)  # fmt: skip
    elif program < after1:
        _copy_block(a1, b1, source, target, slots, program - after0,
                    a1_layer, a1_slot, a1_channel, a1_column, b1_layer, b1_slot, b1_channel, b1_column,
                    size1, width1, blocks1, BLOCK)  # fmt: skip
    elif program < after2:
        _copy_block(a2, b2, source, target, slots, program - after1,
                    a2_layer, a2_slot, a2_channel, a2_column, b2_layer, b2_slot, b2_channel, b2_column,
                    size2, width2, blocks2, BLOCK)  # fmt: skip
    else:
        _copy_block(a3, b3, source, target, slots, program - after2,
                    a3_layer, a3_slot, a3_channel, a3_column, b3_layer, b3_slot, b3_channel, b3_column,
                    size3, width3, blocks3, BLOCK)  # fmt: skip
