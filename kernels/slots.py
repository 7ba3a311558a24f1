"""Slot numbers as kernels take them: one or many, from the host or the device.

Numbers from the host are checked against the pools before anything is launched. Numbers that lie on the device are
never read back; a kernel leaves a slot alone whose number its pools do not have, so that lists may be padded with -1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from poolproof.kernels.overlap import Meeting

Slots = int | Sequence[int] | np.ndarray | Tensor
"""A slot, or several: an int, a sequence, a numpy array or a tensor of no or one axis, of any integer dtype."""

FIRST = 8
"""So many offending numbers are listed in a message."""


def host_slots(slots: Slots, count: int, what: str) -> np.ndarray:
    """Slot numbers from the host as int64, each of them one of `count` slots.

    Raises:
        TypeError: they are not integers.
        ValueError: they have more than one axis, are of unequal lengths, or are no slots of the pool.
    """
    found = _as_array(slots, what)
    if found.ndim > 1:
        raise ValueError(f"{what} must have no or one axis, not the shape {found.shape}")
    is_long = found.dtype == object and all(isinstance(number, int) for number in found.flat)
    if found.size and not is_long and found.dtype.kind not in "iu":
        raise TypeError(f"{what} must be integers, not {found.dtype}: {slots!r}"[:200])
    outside = found[(found < 0) | (found >= count)] if found.size else found
    if outside.size:
        listed = ", ".join(map(str, outside.reshape(-1)[:FIRST])) + (", ..." if outside.size > FIRST else "")
        there = f"are 0 to {count - 1}" if count else "are none, for the pool is empty"
        raise ValueError(f"{what} {there}, not {listed}; drop padding before the call")
    return found.reshape(-1).astype(np.int64)


def _as_array(slots: Slots, what: str) -> np.ndarray:
    if isinstance(slots, Tensor):
        is_real = slots.dtype.is_floating_point or slots.dtype.is_complex
        if is_real and slots.numel():
            raise TypeError(f"{what} must be integers, not {slots.dtype}")
        return slots.detach().float().numpy() if is_real else slots.numpy()
    if isinstance(slots, list | tuple) and any(isinstance(number, bool) for number in slots):
        raise TypeError(f"{what} must be integers, not bool: {slots!r}"[:200])
    try:
        return np.asarray(slots)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{what} are no list of slot numbers: {error}") from error


def device_slots(slots: Tensor, device: torch.device, what: str) -> Tensor:
    """Slot numbers that lie on the device, as an int64 tensor of one axis without gaps. Nothing is read back.

    Raises:
        TypeError: they are not integers.
        ValueError: they have more than one axis, or lie on another device.
    """
    if slots.device != device:
        raise ValueError(f"{what} are on {slots.device}, the pools on {device}: move them there first")
    if slots.dtype == torch.int64 and slots.dim() == 1 and slots.is_contiguous():
        return slots
    if slots.dim() > 1:
        raise ValueError(f"{what} must have no or one axis, not the shape {tuple(slots.shape)}")
    if slots.numel() and (slots.dtype.is_floating_point or slots.dtype.is_complex or slots.dtype == torch.bool):
        raise TypeError(f"{what} must be integers, not {slots.dtype}")
    return slots.reshape(-1).to(torch.int64).contiguous()


def check_targets(target: np.ndarray, noun: str = "slot") -> None:
    """Raises ValueError where a target from the host is given twice."""
    order = np.sort(target)
    twice = order[1:][order[1:] == order[:-1]]
    if twice.size:
        raise ValueError(f"target {noun} {twice[0]} is given more than once: give each target once")


def check_meetings(source: np.ndarray, target: np.ndarray, meetings: Sequence[Meeting]) -> None:
    """Raises ValueError where a copy writes bytes that another one reads."""
    for meeting in meetings:
        both = meeting.bad(source, target)
        if both.size:
            raise ValueError(f"target slot {both[0]} lies over a slot that the same call reads: copy in two calls")


def check_apart(source: np.ndarray, target: np.ndarray, noun: str) -> None:
    """Raises ValueError where a target is a source."""
    shared = np.intersect1d(source, target)
    if shared.size:
        raise ValueError(
            f"{noun} {shared[0]} is a source and a target: copy in two calls, each target no source of its call"
        )


def slot_pair(
    sources: Slots,
    targets: Slots,
    device: torch.device,
    counts: tuple[int, int],
    meetings: Sequence[Meeting] = (),
    is_one_pool: bool = False,
    noun: str = "slot",
) -> tuple[int, int] | tuple[Tensor, Tensor]:
    """Sources and targets of as many copies, checked. One pair from the host stays numbers, which need no copy.

    Args:
        sources, targets: the slots.
        device: where the pools are.
        counts: how many slots the sources' and the targets' pool have.
        meetings: how slots of the two pools share bytes.
        is_one_pool: whether the two pools are one, so that no target may be a source.
        noun: what they are called in messages.

    Raises:
        TypeError: they are not integers.
        ValueError: there are not as many of either, one of them is no list of slots of its pool, or copies would meet.
    """
    is_plain = type(sources) is int and type(targets) is int and not (meetings or is_one_pool)
    if is_plain and 0 <= sources < counts[0] and 0 <= targets < counts[1]:  # type: ignore[operator]
        return sources, targets  # type: ignore[return-value]
    source = numbers_of(sources, device, counts[0], f"the source {noun}s")
    target = numbers_of(targets, device, counts[1], f"the target {noun}s")
    if len(source) != len(target):
        raise ValueError(f"{len(source)} source {noun}s and {len(target)} target {noun}s: give as many of either")
    if isinstance(target, np.ndarray):
        check_targets(target, noun)
    if isinstance(source, np.ndarray) and isinstance(target, np.ndarray):
        check_meetings(source, target, meetings)
        if is_one_pool:
            check_apart(source, target, noun)
        if len(source) == 1:
            return int(source[0]), int(target[0])
        both = torch.from_numpy(np.stack((source, target))).to(device, non_blocking=True)
        return both[0], both[1]
    return _on(source, device), _on(target, device)


def count_of(slots: int | Tensor) -> int:
    """How many slots there are."""
    return 1 if isinstance(slots, int) else slots.numel()


def numbers_of(slots: Slots, device: torch.device, count: int, what: str) -> np.ndarray | Tensor:
    """Slot numbers: an array of those from the host, which are checked, or a tensor of those on the device.

    Raises:
        TypeError, ValueError: as `host_slots` and `device_slots`.
    """
    if isinstance(slots, Tensor) and slots.device.type != "cpu":
        return device_slots(slots, device, what)
    return host_slots(slots, count, what)


def _on(numbers: np.ndarray | Tensor, device: torch.device) -> Tensor:
    return numbers if isinstance(numbers, Tensor) else torch.from_numpy(numbers).to(device, non_blocking=True)
