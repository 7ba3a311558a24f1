"""Conv windows at the start of a step, in one launch: those of some slots are copied, those of others become zeros."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from poolproof.kernels import interpreter
from poolproof.kernels.copy_windows import Pair, check_windows, copy_windows_reference, filled, window_launches
from poolproof.kernels.overlap import Meeting
from poolproof.kernels.slot_copy import SlotCopy
from poolproof.kernels.slots import Slots, check_meetings, check_targets, numbers_of

INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32}
"""By their bytes."""


class WindowMoves(SlotCopy):
    """Copies slots between pairs of tensors, and clears slots of the second ones.

    Where a pair has one dtype, which may be any of 1, 2 or 4 bytes, bits are copied as they are. Up to four pairs take
    one launch on the current stream. On the CPU it is done in torch.
    """

    def __init__(self, pairs: Sequence[Pair]) -> None:
        """`pairs`: (layers, slots, channels, width) each, checked but for where they lie.

        Raises:
            KernelArgumentError: a tensor is on a device without kernels, or what is written lies over something else.
        """
        counts = (pairs[0][0].shape[1], pairs[0][1].shape[1]) if pairs else (0, 0)
        super().__init__([a for a, _ in pairs], [b for _, b in pairs], counts)
        self._pairs = [(in_integers(a), in_integers(b)) if a.dtype == b.dtype else (a, b) for a, b in filled(pairs)]
        self._bind(window_launches(self._pairs, clears=True))

    def __call__(self, sources: Slots, targets: Slots, clears: Slots = ()) -> None:
        """Copy slots, and clear others.

        Args:
            sources: slots of the sources' pool; one may be given several times.
            targets: as many slots of the targets' pool, each once.
            clears: slots of the targets' pool which are no targets; one may be given several times.

        Numbers from the host are checked; for pools on the CPU those of tensors are. Numbers on a device are not read
        back: the copy or the clearing of one that its pool does not have is left out, so that such lists may be padded
        with -1; that no target is given twice or to be cleared, and that nothing written lies over what the call reads,
        is for the caller to know. Without any tensors there is nothing to do.

        Raises:
            TypeError: the slots are not integers.
            ValueError: there are not as many sources as targets, one is no slot of its pool, or what is written lies
                over what is written or read by the same call.
        """
        if not self._pairs:
            return
        numbers = self._numbers(sources, targets, clears)
        copied, cleared = len(numbers[0]), len(numbers[2])
        if copied + cleared > self._most:
            raise ValueError(f"{copied + cleared} slots in one call: at most {self._most} go into one launch")
        if copied + cleared == 0 or self._device.type == "meta":
            return
        source, target, clear = _packed(numbers, self._device)
        if self._device.type == "cuda" or interpreter.is_on():
            for each, prepared in self.launches:
                prepared.launch(each * (copied + cleared), source, target, copied, clear, cleared)
            return
        if copied:
            self._in_torch(source, target)
        if cleared:
            zero([b for _, b in self._pairs], clear)

    def _in_torch(self, source: int | Tensor, target: int | Tensor) -> None:
        copy_windows_reference(self._pairs, source, target)

    def _numbers(self, sources: Slots, targets: Slots, clears: Slots) -> tuple[np.ndarray | Tensor, ...]:
        """The slots: arrays of the host, which are checked, and tensors of the device."""
        source = numbers_of(sources, self._device, self._counts[0], "the source slots")
        target = numbers_of(targets, self._device, self._counts[1], "the target slots")
        clear = numbers_of(clears, self._device, self._counts[1], "the slots to clear")
        if len(source) != len(target):
            raise ValueError(f"{len(source)} source slots and {len(target)} target slots: give as many of either")
        if isinstance(target, np.ndarray):
            check_targets(target)
        if isinstance(source, np.ndarray) and isinstance(target, np.ndarray):
            check_meetings(source, target, self._meetings)
        if isinstance(clear, np.ndarray):
            _check_clears(source, target, clear, self._meetings)
        return source, target, clear


class CopyAndClearWindows(WindowMoves):
    """Copies slots between the conv tensors of two pools as `CopyWindows` does, and clears further slots of the second.

    `target[i][:, targets] = source[i][:, sources]`, cast, and `target[i][:, clears] = 0`, in no order.
    """

    def __init__(self, source: Sequence[Tensor], target: Sequence[Tensor]) -> None:
        """Bind the pools, as `CopyWindows` takes them.

        Args:
            source: tensors (layers, slots, channels, width), bfloat16, float16 or float32, any strides.
            target: as many tensors of the same layers, channels and width; each may have a dtype of its own.

        Raises:
            KernelArgumentError: the tensors do not fit together.
        """
        check_windows(source, target)
        super().__init__(list(zip(source, target, strict=True)))


def copy_and_clear_windows(
    source: Sequence[Tensor], target: Sequence[Tensor], sources: Slots, targets: Slots, clears: Slots
) -> None:
    """`CopyAndClearWindows(source, target)(sources, targets, clears)`, for a single call."""
    CopyAndClearWindows(source, target)(sources, targets, clears)


def copy_and_clear_windows_reference(
    pairs: Sequence[Pair], source: int | Tensor, target: int | Tensor, clear: int | Tensor
) -> None:
    """The same in torch, on any device, of slots that the pools have."""
    copy_windows_reference(pairs, source, target)
    zero([b for _, b in pairs], clear)


def zero(windows: Sequence[Tensor], slots: int | Tensor) -> None:
    """Every bit of some slots becomes 0, in torch, on any device."""
    for window in windows:
        in_integers(window)[:, slots] = 0


def in_integers(tensor: Tensor) -> Tensor:
    """The bits of a tensor whose elements have 1, 2 or 4 bytes, in place."""
    return tensor.view(INTEGERS[tensor.element_size()])


def _check_clears(
    source: np.ndarray | Tensor, target: np.ndarray | Tensor, clear: np.ndarray, meetings: Sequence[Meeting]
) -> None:
    """Raises ValueError where a slot to clear is a target or lies over what is read, as far as the host knows them."""
    both = set(clear.tolist()).intersection(target.tolist()) if isinstance(target, np.ndarray) else ()
    if both:
        raise ValueError(f"slot {min(both)} is both a target and to be cleared: do either, or use two calls")
    if not isinstance(source, np.ndarray):
        return
    for meeting in meetings:
        over = meeting._replace(is_same=False).bad(source, clear)
        if over.size:
            raise ValueError(f"slot {over[0]}, to be cleared, lies over a slot that the same call reads: use two calls")


def _packed(numbers: Sequence[np.ndarray | Tensor], device: torch.device) -> list[int] | list[Tensor]:
    """Lists of slots as a launch takes them, those of the host brought to the device together.

    Where all are from the host and none has more than one slot they become plain numbers, an empty one 0.
    """
    arrays = [slots for slots in numbers if isinstance(slots, np.ndarray)]
    lengths = [len(slots) for slots in arrays]
    if len(arrays) == len(numbers) and max(lengths) <= 1:
        return [int(slots[0]) if len(slots) else 0 for slots in arrays]
    there = torch.empty(sum(lengths), dtype=torch.int64, device=device)
    if len(there):
        there.copy_(torch.from_numpy(np.concatenate(arrays)), non_blocking=True)
    parts = iter(there.split(lengths) if lengths else ())
    return [slots if isinstance(slots, Tensor) else next(parts) for slots in numbers]
