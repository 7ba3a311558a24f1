"""Checkpoints as states of another dtype than their scales, checked as the kernels check, and done in torch."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from poolproof.kernels.layout import check_states
from poolproof.kernels.slot_copy import SlotCopy
from poolproof.kernels.slots import Slots, slot_pair

Dequantize = Callable[[Tensor, Tensor, torch.dtype], Tensor]
"""States of codes (..., d_v, d_k) and scales (..., 1, d_k) in a dtype."""


class CastLoad(SlotCopy):
    """`load(sources, targets)` does `active[:, targets] = dequantize(codes[:, sources], scale[:, sources])`, cast.

    What `DequantizeLoad` refuses is refused here, before a byte is written. On a device nothing waits, and slots whose
    numbers lie there must be the pools'.
    """

    def __init__(self, codes: Tensor, scale: Tensor, active: Tensor, dequantize: Dequantize) -> None:
        """Bind the pools.

        Args:
            codes: (layers, checkpoint slots, heads, d_v, d_k), int8, any strides.
            scale: (layers, checkpoint slots, heads, 1, d_k).
            active: (layers, slots, heads, d_v, d_k), any floating-point dtype, any strides.
            dequantize: the codec.

        Raises:
            KernelArgumentError: the tensors do not fit together.
            TypeError: the active states are of no floating-point dtype.
        """
        check_floating(active.dtype)
        states = torch.empty((), dtype=scale.dtype, device=active.device).expand(active.shape)
        check_states(states, codes, scale.squeeze(3))
        super().__init__([codes, scale], [active], (codes.shape[1], active.shape[1]))
        self.active, self.codes, self.scale, self.dequantize = active, codes, scale, dequantize
        self._bind([])

    def __call__(self, sources: Slots, targets: Slots) -> None:
        """Copy slots, as `SlotCopy` has it, on every device in torch."""
        source, target = slot_pair(sources, targets, self._device, self._counts, self._meetings)
        if self._device.type != "meta":
            self._in_torch(source, target)

    def _in_torch(self, source: int | Tensor, target: int | Tensor) -> None:
        loaded = self.dequantize(self.codes[:, source], self.scale[:, source], self.active.dtype)
        self.active[:, target] = loaded


def check_floating(dtype: torch.dtype) -> None:
    """Raises TypeError where states cannot be loaded in a dtype."""
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise TypeError(f"states are loaded in a floating-point dtype such as torch.bfloat16, not {dtype!r}"[:200])
