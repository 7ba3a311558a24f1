"""What every copy of slots between two pools does at a call: check the slots, then launch, or do it in torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from poolproof.kernels import interpreter
from poolproof.kernels.launch import Prepared
from poolproof.kernels.layout import KernelArgumentError
from poolproof.kernels.slots import Slots, count_of, slot_pair

MOST_PROGRAMS = 2**31 - 1
"""Of one launch axis."""


class SlotCopy(ABC):
    """Copies of slots from one pool to another, bound to their tensors."""

    def __init__(self, device: torch.device, counts: tuple[int, int], shared: bool = False) -> None:
        """`counts`: slots of the sources' and of the targets' pool, which are one pool where they are `shared`."""
        if device.type not in ("cuda", "cpu", "meta"):
            raise KernelArgumentError(f"pools are on cuda, cpu or meta, not on {device}")
        self._device, self._counts, self._shared = device, counts, shared

    def __call__(self, sources: Slots, targets: Slots) -> None:
        """Copy slots.

        Args:
            sources: slots of the sources' pool; one may be given several times.
            targets: as many slots of the targets' pool, each once.

        Numbers from the host are checked. Those that lie on the device are not read back: the copy of one that its
        pool does not have is left out, so that lists may be padded with -1; that none is a target twice, nor, within
        one pool, both source and target, is for the caller to know.

        Raises:
            TypeError: the slots are not integers.
            ValueError: there are not as many of either, one is no slot of its pool, or copies would meet.
        """
        source, target = slot_pair(sources, targets, self._device, self._counts, self._shared)
        count = count_of(source)
        if count > self._most:
            raise ValueError(f"{count} slots in one call: at most {self._most} go into one launch")
        if count == 0:
            return
        if self._device.type == "cuda" or interpreter.is_on():
            for each, prepared in self.launches:
                prepared.launch(each * count, source, target, count)
        elif self._device.type == "cpu":
            self._in_torch(source, target)

    def _bind(self, launches: Sequence[tuple[int, Prepared]]) -> None:
        """Take the launches that make up a call, each with its programs for one slot: one at least."""
        self.launches = () if self._device.type == "meta" else tuple(launches)
        self._most = MOST_PROGRAMS // max((each for each, _ in launches), default=1)

    @abstractmethod
    def _in_torch(self, source: int | Tensor, target: int | Tensor) -> None:
        """The same in torch."""
