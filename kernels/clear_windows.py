"""Conv windows of slots become zeros: several tensors of their own shapes and dtypes in one launch."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from poolproof.kernels.copy_windows import check_tensors, check_together
from poolproof.kernels.layout import KernelArgumentError
from poolproof.kernels.move_windows import INTEGERS, WindowMoves, zero
from poolproof.kernels.slots import Slots


class ClearWindows:
    """Clears slots of the conv tensors of a pool: every bit of `windows[i][:, slots]` becomes 0.

    Up to four tensors take one launch on the current stream. On the CPU it is done in torch.
    """

    def __init__(self, windows: Sequence[Tensor]) -> None:
        """Bind the pool.

        Args:
            windows: tensors (layers, slots, channels, width) of any dtypes of 1, 2 or 4 bytes and any strides.

        Raises:
            KernelArgumentError: a tensor is of another kind, or they do not belong together.
        """
        _check(windows)
        self._moves = WindowMoves([(_nothing_for(window), window) for window in windows])
        self.launches = self._moves.launches

    def __call__(self, slots: Slots) -> None:
        """Clear slots; one may be given several times.

        Numbers from the host are checked; for pools on the CPU those of tensors are. Numbers on a device are not read
        back: one that the pool does not have is left out, so that such lists may be padded with -1. Without any tensors
        there is nothing to do.

        Raises:
            TypeError: the slots are not integers.
            ValueError: one is no slot of the pool.
        """
        self._moves((), (), slots)


def clear_windows(windows: Sequence[Tensor], slots: Slots) -> None:
    """`ClearWindows(windows)(slots)`, for a single call."""
    ClearWindows(windows)(slots)


def clear_windows_reference(windows: Sequence[Tensor], slots: int | Tensor) -> None:
    """The same in torch, on any device, of slots that the pool has."""
    zero(windows, slots)


def _nothing_for(window: Tensor) -> Tensor:
    """A window of the same kind without slots, from which nothing is copied."""
    layers, _, channels, width = window.shape
    return window.new_empty((layers, 0, channels, width))


def _check(windows: Sequence[Tensor]) -> None:
    check_tensors(windows)
    for n, window in enumerate(windows):
        if window.dim() != 4:
            raise KernelArgumentError(
                f"window {n}: the shape is {tuple(window.shape)}; the axes are (layers, slots, channels, width)"
            )
        if window.element_size() not in INTEGERS:
            raise KernelArgumentError(f"window {n}: {window.dtype}; elements of windows have 1, 2 or 4 bytes")
    check_together({"windows": windows})
