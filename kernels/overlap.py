"""Do tensors that a launch reads and writes side by side share bytes? Told when pools are bound, and slot by slot.

Pools may be views of one buffer, each over all of it, as those of sub-pools that share one are. Then it depends on the
slots of a call whether bytes meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from torch import Tensor

LAYERS, SLOTS = 0, 1
"""The first axes of every tensor of a pool."""


def extent(tensor: Tensor, start: int = 0) -> int:
    """Bytes from the first element to the end of the last one, along the axes from `start` on."""
    reach = sum((tensor.shape[axis] - 1) * tensor.stride(axis) for axis in range(start, tensor.dim()))
    return (reach + 1) * tensor.element_size()


def step(tensor: Tensor, axis: int) -> int:
    """Bytes from one index of an axis to the next."""
    return tensor.stride(axis) * tensor.element_size()


def meets_itself(tensor: Tensor) -> bool:
    """May two elements lie in the same place? Each axis must step over all that the smaller ones reach."""
    reach = 0
    for stride, size in sorted((tensor.stride(axis), tensor.shape[axis]) for axis in range(tensor.dim())):
        if size > 1 and stride <= reach:
            return True
        reach += (size - 1) * stride
    return False


def are_in_one_place(a: Tensor, b: Tensor) -> bool:
    """Does one lie within the bytes that the other reaches over?"""
    if not (a.numel() and b.numel()) or a.device.type == "meta":
        return False
    first, second = sorted((tensor.data_ptr(), extent(tensor)) for tensor in (a, b))
    return first[0] + first[1] > second[0]


def _element(tensor: Tensor) -> int:
    """Bytes that one layer of one slot reaches over."""
    return extent(tensor, SLOTS + 1)


def _reach(tensor: Tensor, axis: int) -> int:
    """Bytes that all of one of the first axes reaches over, the other one at one place."""
    return (tensor.shape[axis] - 1) * step(tensor, axis) + _element(tensor)


def _are_within(a: Tensor, b: Tensor, inner: int, outer: int) -> bool:
    """Does what both reach along the inner axis end before the next place of the outer one, of the same step?"""
    if max(a.shape[outer], b.shape[outer]) == 1:
        return True
    gap = b.data_ptr() - a.data_ptr()
    together = max(_reach(a, inner), gap + _reach(b, inner)) - min(0, gap)
    return step(a, outer) == step(b, outer) and together <= step(a, outer)


def _misses(a: Tensor, b: Tensor, axis: int, lengths: tuple[int, int]) -> bool:
    """Are stretches of such lengths, one at each place of an axis of the same step, apart?"""
    if max(a.shape[axis], b.shape[axis]) == 1:
        gap = b.data_ptr() - a.data_ptr()
        return gap >= lengths[0] or -gap >= lengths[1]
    period = step(a, axis)
    off = (b.data_ptr() - a.data_ptr()) % max(period, 1)
    return step(b, axis) == period and off >= lengths[0] and off + lengths[1] <= period


def are_apart(a: Tensor, b: Tensor) -> bool:
    """Do two tensors of one pool share no byte? Told from where they lie: far apart, or in turns by slot or layer."""
    if not are_in_one_place(a, b):
        return True
    for inner, outer in ((LAYERS, SLOTS), (SLOTS, LAYERS)):
        if _misses(a, b, outer, (_reach(a, inner), _reach(b, inner))):
            return True
        if _are_within(a, b, inner, outer) and _misses(a, b, inner, (_element(a), _element(b))):
            return True
    return False


class Meeting(NamedTuple):
    """Two tensors of which one is read and one written, which share bytes for some slots.

    Attributes:
        gap: bytes from the read tensor's first element to the written one's.
        read_step, write_step: bytes from slot to slot.
        read_length, write_length: bytes of a slot, or of one layer of it where layers are farther apart than slots.
        is_same: the same slot of both is the same bytes.
        is_apart: the same slot of both shares no byte.
    """

    gap: int
    read_step: int
    write_step: int
    read_length: int
    write_length: int
    is_same: bool = False
    is_apart: bool = False

    def bad(self, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """The targets whose bytes another copy reads, or their own where a copy is not of a slot to itself."""
        source, target = np.asarray(sources)[:, None], np.asarray(targets)[None, :]
        first, second = source * self.read_step, target * self.write_step + self.gap
        meets = (first < second + self.write_length) & (second < first + self.read_length)
        if self.is_apart:
            meets &= source != target
        elif self.is_same:
            np.fill_diagonal(meets, meets.diagonal() & (source[:, 0] != target[0]))
        found: np.ndarray = target[0][meets.any(axis=0)]
        return found


def meeting(read: Tensor, written: Tensor) -> Meeting | None:
    """How slots of two tensors may meet; None if they never do.

    Raises:
        ValueError: it cannot be told by slots.
    """
    if not are_in_one_place(read, written):
        return None
    gap, steps = written.data_ptr() - read.data_ptr(), (step(read, SLOTS), step(written, SLOTS))
    is_same = gap == 0 and read.stride() == written.stride() and read.shape[2:] == written.shape[2:]
    is_apart = steps[0] == steps[1] and are_apart(read, written)
    if all(tensor.shape[SLOTS] == 1 or step(tensor, SLOTS) >= _reach(tensor, LAYERS) for tensor in (read, written)):
        return Meeting(gap, *steps, _reach(read, LAYERS), _reach(written, LAYERS), is_same, is_apart)
    if _are_within(read, written, SLOTS, LAYERS):
        return Meeting(gap, *steps, _element(read), _element(written), is_same, is_apart)
    raise ValueError


def meetings(reads: Sequence[Tensor], writes: Sequence[Tensor]) -> list[Meeting]:
    """How what is read and what is written may meet, checked as far as it does not depend on the slots.

    Where the n-th tensor read is the n-th written, a slot may be copied to itself.

    Raises:
        ValueError: a written tensor lies over itself or another one, or over what is read in a way that slots do not
            tell. The message says which.
    """
    for n, written in enumerate(writes):
        if written.numel() and meets_itself(written):
            raise ValueError(
                f"a tensor of the shape {tuple(written.shape)} and strides {written.stride()} is written, several "
                "elements of which lie in one place: give it a place for each element"
            )
        if not all(are_apart(written, other) for other in writes[:n]):
            raise ValueError("two tensors that are written share bytes: give each its own")
    found = []
    for m, read in enumerate(reads):
        for n, written in enumerate(writes):
            try:
                one = meeting(read, written)
            except ValueError:
                raise ValueError(
                    "a tensor that is read and one that is written share bytes, but neither whole slots nor layers of "
                    "the same step: lay both out slot by slot, or give each its own"
                ) from None
            if one is not None:
                found.append(one if m == n else one._replace(is_same=False))
    return found
