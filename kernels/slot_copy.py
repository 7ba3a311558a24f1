"""What every copy of slots between two pools does at a call: check the slots, then launch, or do it in torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from poolproof.kernels import interpreter
from poolproof.kernels.launch import Prepared
from poolproof.kernels.layout import KernelArgumentError
from poolproof.kernels.overlap import meetings
from poolproof.kernels.slots import Slots, count_of, slot_pair

MOST_PROGRAMS = 2**31 - 1
"""Of one launch axis."""


class SlotCopy(ABC):
    """Copies of slots from one pool to another, bound to their tensors."""

    def __init__(self, reads: Sequence[Tensor], writes: Sequence[Tensor], counts: tuple[int, int]) -> None:
        """`counts`: slots of the sources' and of the targets' pool, whose tensors are read and written.

        Raises:
            KernelArgumentError: a tensor is on a device without kernels, or what is written lies over something else.
        """
        tensors = [*reads, *writes]
        self._device = tensors[0].device if tensors else torch.device("cpu")
        if self._device.type not in ("cuda", "cpu", "meta"):
            raise KernelArgumentError(f"pools are on cuda, cpu or meta, not on {self._device}")
        if any(tensor.layout != torch.strided or tensor.is_neg() or tensor.requires_grad for tensor in tensors):
            raise KernelArgumentError(
                "pools are plain strided tensors that take no part in autograd: make them without requires_grad, "
                "dense, and not as views that turn signs"
            )
        try:
            self._meetings = meetings(reads, writes)
        except ValueError as error:
            raise KernelArgumentError(str(error)) from None
        self._counts = counts

    def __call__(self, sources: Slots, targets: Slots) -> None:
        """Copy slots.

        Args:
            sources: slots of the sources' pool; one may be given several times.
            targets: as many slots of the targets' pool, each once.

        Numbers from the host are checked; for pools on the CPU those of tensors are. Numbers on a device are not read
        back: the copy of one that its pool does not have is left out, so that such lists may be padded with -1; that
        none is a target twice, nor lies over what the call reads, is for the caller to know.

        Raises:
            TypeError: the slots are not integers.
            ValueError: there are not as many of either, one is no slot of its pool, or copies would meet.
        """
        source, target = slot_pair(sources, targets, self._device, self._counts, self._meetings)
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
