"""What a tensor of ids on a device holds, known without reading it back."""

from __future__ import annotations

from typing import NamedTuple
from weakref import ref

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.storage import UntypedStorage


class _Entry(NamedTuple):
    storage: ref[UntypedStorage]
    ids: NDArray[np.int64]
    version: int


class HandedOut:
    """The host's copy of id tensors, found again by the tensor or by any view of it.

    A view is known by its storage, so `ids[0]`, `ids[0].unsqueeze(0)` and `ids[1:]` are found; a copy is not, nor what
    was written to since, which torch counts. An entry lives as long as its tensor or a view of it does.
    """

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[int, _Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def remember(self, tensor: Tensor, ids: NDArray[np.int64]) -> None:
        """Note what a fresh int64 tensor of one axis holds, all of its storage."""
        storage = tensor.untyped_storage()
        key = id(storage)

        def forget(_: object, entries: dict[int, _Entry] = self._entries) -> None:
            entries.pop(key, None)

        self._entries[key] = _Entry(ref(storage, forget), ids, tensor._version)

    def recall(self, tensor: Tensor) -> NDArray[np.int64] | None:
        """What the tensor holds, a fresh int64 array of one axis; None where that is not known."""
        storage = tensor.untyped_storage()
        entry = self._entries.get(id(storage))
        if entry is None or entry.storage() is not storage or tensor.dtype != torch.int64 or tensor.dim() > 1:
            return None
        if tensor.is_inference() or tensor._version != entry.version:
            return None
        if tensor.dim() == 0 or tensor.shape[0] == 1:
            start = tensor.storage_offset()
            return entry.ids[start : start + 1].copy()
        places = np.arange(tensor.shape[0]) * int(tensor.stride(0)) + int(tensor.storage_offset())
        return entry.ids.take(places)
