"""Slot numbers as kernels take them: one or many, from the host or the device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

Slots = int | Sequence[int] | np.ndarray | Tensor
"""A slot, or several: an int, a sequence, a numpy array or a tensor of no or one axis, of any integer dtype."""


def slot_list(slots: Slots, device: torch.device, what: str) -> Tensor:
    """The slots as an int64 tensor of one axis on a device. Host numbers are copied there, device numbers never back.

    Raises:
        TypeError: they are not integers.
        ValueError: they have more than one axis, or are a tensor on another device.
    """
    if isinstance(slots, Tensor):
        found = slots
        if found.device.type not in ("cpu", device.type):
            raise ValueError(f"{what} are on {found.device}, the state on {device}: move it there first")
    else:
        found = torch.from_numpy(np.array(slots, ndmin=0))
    if found.dtype.is_floating_point or found.dtype.is_complex or found.dtype == torch.bool:
        if found.numel():
            raise TypeError(f"{what} must be integers, not {found.dtype}")
        found = found.to(torch.int64)
    if found.dim() > 1:
        raise ValueError(f"{what} must have no or one axis, not the shape {tuple(found.shape)}")
    if found.device != device:
        found = found.clone()  # the copy below may run after the caller has changed a pinned list of his own
    return found.reshape(-1).to(device=device, dtype=torch.int64, non_blocking=True).contiguous()


def slot_pair(sources: Slots, targets: Slots, device: torch.device) -> tuple[int, int] | tuple[Tensor, Tensor]:
    """Sources and targets of as many copies; two numbers from the host stay numbers, which need no copy to a device.

    Raises:
        TypeError: they are not integers.
        ValueError: there are not as many of either, or one of them is no list of slots.
    """
    if type(sources) is int and type(targets) is int:
        return sources, targets
    source, target = slot_list(sources, device, "the source slots"), slot_list(targets, device, "the target slots")
    if source.numel() != target.numel():
        raise ValueError(f"{source.numel()} source slots and {target.numel()} target slots: give as many of either")
    return source, target


def count_of(slots: int | Tensor) -> int:
    """How many slots there are."""
    return 1 if isinstance(slots, int) else slots.numel()
