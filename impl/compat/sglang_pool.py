"""SGLang's pool of checkpoints: slots from `MambaSlotAllocator`, temporal states as int8, conv windows as they are."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from poolproof.arguments import as_count
from poolproof.checkpoint_errors import LifecycleError
from poolproof.checkpoint_memory import free_memory
from poolproof.compat.bound import LastBound
from poolproof.compat.sglang_slots import MambaSlotAllocator
from poolproof.compat.sglang_store import Int8CheckpointStore
from poolproof.compat.sizes import Active, active_of, as_shapes, as_size, item_bytes
from poolproof.errors import LayoutError
from poolproof.kernels.copy_windows import CopyWindows
from poolproof.kernels.layout import KernelArgumentError
from poolproof.kernels.slot_copy import SlotCopy
from poolproof.kernels.slots import Slots, slot_pair
from poolproof.violation import Violation

NEVER: Final = -1
"""In place of a tenancy number: nothing was ever stored."""


class CheckpointMemoryError(LayoutError, RuntimeError):
    """The device has less memory free than the checkpoints take; nothing was allocated."""


class MambaCheckpointPool:
    """Checkpoints of the states of an active pool, which is any object with `mamba_cache.temporal` and `.conv`.

    A store and a load are two launches each on the current stream of a CUDA device, without a synchronisation; on the
    CPU they are done in torch. Checkpoint slots that are known on the host (numbers, tensors on the CPU, what `alloc`
    returned and views of it) must be handed out, and what is loaded must have been stored since. Other tensors on a
    device are not read back for that.

    Args:
        num_layers, num_slots, num_heads, head_v_dim, head_k_dim: sizes; slot 0 comes on top of `num_slots`.
        conv_shapes: of each conv tensor, (channels, width) or (channels,), without layers and slots.
        conv_dtype: bfloat16, float16 or float32.
        device: "cuda", "cpu" or "meta".
        temporal_dtype: bfloat16 (None), float16 or float32, the dtype of the active states.
        shadow: run the spec of slots in lockstep, see `SlotPool`.

    Attributes:
        num_slots, device: as given.
        temporal: the `Int8CheckpointStore` of `num_slots + 1` slots.
        conv: tensors (layers, num_slots + 1, *shape), zeros until a slot is stored.
        allocator: the `MambaSlotAllocator` of `num_slots` slots.

    Raises:
        CheckpointMemoryError: more memory than is free.
        LayoutError: a conv shape has another number of axes.
        TypeError, ValueError: a size is no count, slots, heads or a head's sizes are 0, or a dtype is another.
    """

    def __init__(
        self,
        *,
        num_layers: int,
        num_slots: int,
        num_heads: int,
        head_v_dim: int,
        head_k_dim: int,
        conv_shapes: Sequence[tuple[int, ...]],
        conv_dtype: torch.dtype,
        device: str | torch.device,
        temporal_dtype: torch.dtype | None = None,
        shadow: bool = False,
    ) -> None:
        dtype = torch.bfloat16 if temporal_dtype is None else temporal_dtype
        num_slots, shapes = as_size("num_slots", num_slots), as_shapes(conv_shapes)
        sizes = {"num_layers": num_layers, "num_heads": num_heads, "head_v_dim": head_v_dim, "head_k_dim": head_k_dim}
        _check_windows(conv_dtype)
        need = self.estimate_mem_usage_bytes(
            **sizes, num_slots=num_slots, conv_shapes=shapes, conv_dtype=conv_dtype, temporal_dtype=dtype
        )
        _check_memory(need, num_slots, str(device))
        self.num_slots = num_slots
        self.device = device
        self.allocator = MambaSlotAllocator(num_slots, device, shadow=shadow)
        self.temporal = Int8CheckpointStore(**sizes, num_slots=num_slots + 1, device=device, scale_dtype=dtype)
        first = self.temporal.num_layers, num_slots + 1
        self.conv = [torch.zeros(*first, *shape, dtype=conv_dtype, device=device) for shape in shapes]
        self._stores = LastBound(lambda windows: CopyWindows(_flat(windows), _flat(self.conv)))
        self._loads = LastBound(lambda windows: CopyWindows(_flat(self.conv), _flat(windows)))
        self._stored_in: NDArray[np.int64] = np.full(num_slots + 1, NEVER)
        self._are_all_known = True

    # ------------------------------------------------------------------------------------------------------ the slots

    def alloc(self, n: int = 1) -> Tensor | None:
        """Take checkpoint slots: int64 [n] on the device, or None where fewer are free. See `MambaSlotAllocator`."""
        return self.allocator.alloc(n)

    def free(self, slots: Tensor) -> None:
        """Give checkpoint slots back. Raises InvalidFree where one is not handed out; see `MambaSlotAllocator`."""
        self.allocator.free(slots)

    def available_size(self) -> int:
        """How many checkpoint slots an `alloc` can get now."""
        return self.allocator.available_size()

    def clear(self) -> None:
        """All checkpoint slots are free. Their bytes stay as they are until they are stored again."""
        self.allocator.clear()
        self._are_all_known = True

    def check(self) -> list[Violation]:
        """Every claim of the spec of slots, tested against the allocator; [] means healthy."""
        return self.allocator.check()

    # ------------------------------------------------------------------------------------------------------ the bytes

    def store_from_active(self, active_mamba_pool: Any, active_slots: Slots, ckpt_slots: Slots) -> None:
        """Quantise temporal states of the active pool into checkpoint slots, and copy their conv windows.

        Raises:
            InvalidIds: a checkpoint slot is not handed out, or is listed twice.
            LayoutError, KernelArgumentError: the active pool has other shapes, dtypes or another device.
            TypeError, ValueError: it is no active pool; the slots are no integers, not as many of either, or not its.
        """
        active = active_of(active_mamba_pool)
        temporal, windows = self.temporal.store_of(active.temporal), self._stores.to(active.conv)
        _check_slots(active)
        known, tenancies = self.allocator.known_ids(ckpt_slots), None
        if known is not None:
            self.allocator.check_live("store_from_active", known, distinct=True)
            tenancies = self.allocator.tenancies(known)
        _check_call(windows, active_slots, ckpt_slots)
        temporal(active_slots, ckpt_slots)
        windows(active_slots, ckpt_slots)
        if tenancies is None:
            self._are_all_known = False
        else:
            self._stored_in[known] = tenancies

    def load_to_active(self, active_mamba_pool: Any, ckpt_slots: Slots, active_slots: Slots) -> None:
        """Dequantise checkpoint slots into slots of the active pool, and copy their conv windows.

        Raises:
            InvalidIds: a checkpoint slot is not handed out.
            LifecycleError: nothing was stored in a checkpoint slot since it was handed out.
            KernelArgumentError: the active pool has other shapes or another device.
            TypeError, ValueError: it is no active pool; the slots are no integers, not as many of either, not its, or
                an active one is listed twice.
        """
        active = active_of(active_mamba_pool)
        temporal, windows = self.temporal.load_of(active.temporal), self._loads.to(active.conv)
        _check_slots(active)
        known = self.allocator.known_ids(ckpt_slots)
        if known is not None:
            self._check_stored(known)
        _check_call(windows, ckpt_slots, active_slots)
        temporal(ckpt_slots, active_slots)
        windows(ckpt_slots, active_slots)

    def _check_stored(self, ids: NDArray[np.int64]) -> None:
        self.allocator.check_live("load_to_active", ids)
        empty = ids[self._stored_in[ids] != self.allocator.tenancies(ids)]
        if len(empty) and self._are_all_known:
            raise LifecycleError(
                f"load_to_active: nothing was stored in {len(empty)} checkpoint slots since they were handed out: "
                f"{empty[:8].tolist()}; store before the first load. Nothing was changed."
            )

    # --------------------------------------------------------------------------------------------------------- memory

    @staticmethod
    def estimate_mem_usage_bytes(
        *,
        num_layers: int,
        num_slots: int,
        num_heads: int,
        head_v_dim: int,
        head_k_dim: int,
        conv_shapes: Sequence[tuple[int, ...]],
        conv_dtype: torch.dtype,
        temporal_dtype: torch.dtype,
    ) -> dict[str, int]:
        """Bytes of such a pool, slot 0 included, by part: "qdata", "scale", "conv" and "total". Allocates nothing.

        Raises:
            LayoutError, TypeError, ValueError: as the pool itself, but any dtype and 0 slots are taken.
        """
        slots = as_count("num_layers", num_layers) * (as_count("num_slots", num_slots) + 1)
        channels = as_size("num_heads", num_heads) * as_size("head_k_dim", head_k_dim)
        qdata = slots * channels * as_size("head_v_dim", head_v_dim)
        scale = slots * channels * item_bytes("temporal_dtype", temporal_dtype)
        conv = slots * sum(map(prod, as_shapes(conv_shapes))) * item_bytes("conv_dtype", conv_dtype)
        return {"qdata": qdata, "scale": scale, "conv": conv, "total": qdata + scale + conv}

    def mem_usage_bytes(self) -> int:
        """Bytes of codes, scales and conv windows."""
        return self.temporal.mem_usage_bytes() + sum(window.nbytes for window in self.conv)


def _check_memory(need: dict[str, int], slots: int, device: str) -> None:
    free = free_memory(device)
    if free is None or need["total"] < free:
        return
    each = need["total"] // (slots + 1)
    raise CheckpointMemoryError(
        f"{slots} checkpoint slots and slot 0 take {need['total']} bytes ({need['qdata']} of codes, {need['scale']} of "
        f"scales, {need['conv']} of conv windows), {device} has {free} free: lower num_slots (--int8-mamba-ckpt-size) "
        f"to {max((free - 1) // each - 1, 0)}, or give the other pools less (--mem-fraction-static). Nothing was "
        f"allocated."
    )


def _check_windows(dtype: torch.dtype) -> None:
    if dtype not in (torch.bfloat16, torch.float16, torch.float32):
        raise LayoutError(f"conv windows are bfloat16, float16 or float32, not {dtype}")


def _check_slots(active: Active) -> None:
    """Raises KernelArgumentError where the parts of an active pool, bound already, have not as many slots."""
    slots = active.temporal.shape[1]
    for window in active.conv:
        if window.shape[1] != slots:
            raise KernelArgumentError(f"an active pool has {slots} temporal states and {window.shape[1]} conv windows")


def _check_call(windows: SlotCopy, sources: Slots, targets: Slots) -> None:
    """Raises ValueError where windows would be refused whose states would not: such as share bytes in these slots."""
    if windows._meetings:
        slot_pair(sources, targets, windows._device, windows._counts, windows._meetings)


def _flat(windows: Sequence[Tensor]) -> list[Tensor]:
    """Windows of one axis have width 1."""
    return [window.unsqueeze(-1) if window.dim() == 3 else window for window in windows]
