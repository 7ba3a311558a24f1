"""Kernels that stay bound to the tensors of the last call, as long as the next one has the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from torch import Tensor

Copy = TypeVar("Copy")


class LastBound(Generic[Copy]):
    """Binds a kernel anew where the tensors are others than those of the last call, or have moved in memory.

    The tensors of the last call stay alive with it. Engines keep their pools' tensors, so binding is rare.
    """

    __slots__ = ("_bind", "_copy", "_key", "_tensors")

    def __init__(self, bind: Callable[[Sequence[Tensor]], Copy]) -> None:
        self._bind = bind
        self._key: list[tuple[int, int]] = []
        self._tensors: Sequence[Tensor] = ()
        self._copy: Copy | None = None

    def to(self, tensors: Sequence[Tensor]) -> Copy:
        """The kernel for these tensors."""
        key = [(id(each), each.data_ptr()) for each in tensors]
        if self._copy is None or key != self._key:
            self._copy = self._bind(tensors)
            self._key, self._tensors = key, tuple(tensors)
        return self._copy
