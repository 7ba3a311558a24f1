"""Launching a kernel again and again without Triton's preparation of each call, which costs tens of microseconds."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
import triton
from torch import Tensor

from poolproof.kernels import interpreter

KNOWN = ("3.6",)
"""The Triton versions whose compiled kernels are launched directly; with others every launch goes through Triton."""


_ONE = (int, int, int)
"""What changes where one slot is copied: its source, its target, and how many there are."""

_Compiled = tuple[Any, tuple[Any, ...], tuple[Any, ...]]
"""What launches, and what it takes before and after what changes."""


def is_known(version: str) -> bool:
    """Is this a Triton version whose launcher was tried?"""
    return ".".join(version.split(".")[:2]) in KNOWN


class Prepared:
    """A kernel with arguments of which most stay as they are from launch to launch.

    What changes must not change how the kernel is compiled: tensors of the same dtype, and integers of parameters that
    are not specialised.
    """

    def __init__(self, kernel: Any, fixed: tuple[Any, ...], **options: Any) -> None:
        """`kernel` takes arguments that come with each launch, then the `fixed` ones, then `options`."""
        self.kernel = kernel
        self.fixed = fixed
        first = next(value for value in fixed if isinstance(value, Tensor))
        self._index = first.device.index if first.device.type == "cuda" else None
        self.options = options
        self._compiled: dict[tuple[type, ...], _Compiled] = {}

    def launch_one(self, programs: int, source: int, target: int) -> None:
        """`launch(programs, source, target, 1)`, for two numbers of 32 bits, in less time."""
        found = self._compiled.get(_ONE)
        if found is None or torch._C._cuda_getDevice() != self._index:
            self.launch(programs, source, target, 1)
            return
        start, before, after = found
        stream = torch._C._cuda_getCurrentRawStream(self._index)
        start(programs, 1, 1, stream, *before, source, target, 1, *after)

    def launch(self, programs: int, *changing: Any) -> None:
        """Launch on the current stream of the tensors' device, with so many programs in one axis."""
        found = self._compiled.get(tuple(map(type, changing)))
        if found is None:
            self._launch_through_triton(programs, changing)
            return
        start, before, after = found
        values = [value.data_ptr() if isinstance(value, Tensor) else value for value in changing]
        try:
            if torch._C._cuda_getDevice() == self._index:
                start(programs, 1, 1, torch._C._cuda_getCurrentRawStream(self._index), *before, *values, *after)
            else:
                with torch.cuda.device(self._index):
                    self.launch(programs, *changing)
        except OverflowError:  # a number that passes 32 bits, unlike those before: nothing was launched
            self._launch_through_triton(programs, changing)

    def _launch_through_triton(self, programs: int, changing: tuple[Any, ...]) -> None:
        """Launch through Triton, which compiles; keep what later launches need, addresses in place of tensors."""
        with nullcontext() if self._index is None else torch.cuda.device(self._index):
            compiled = self.kernel[(programs,)](*changing, *self.fixed, **self.options)
        if not interpreter.is_on() and is_known(triton.__version__):
            names = self.kernel.arg_names[len(changing) + len(self.fixed) :]
            fixed = (value.data_ptr() if isinstance(value, Tensor) else value for value in self.fixed)
            after = (*fixed, *(self.options[name] for name in names))
            self._compiled[tuple(map(type, changing))] = (*_starter(compiled), after)


def _starter(compiled: Any) -> tuple[Any, tuple[Any, ...]]:
    """What launches a compiled kernel, and what it takes between the stream and the kernel's own arguments.

    Where a kernel needs no scratch memory of its own, Triton's launcher does nothing but call what it has compiled.
    """
    run = compiled.run
    hooks = (None, None, None)
    if run.global_scratch_size or run.profile_scratch_size:
        return run, (compiled.function, compiled.packed_metadata, *hooks)
    modes = (run.launch_cooperative_grid, run.launch_pdl)
    return run.launch, (compiled.function, *modes, None, None, compiled.packed_metadata, *hooks)
