"""SGLang's store of int8 states over the codec of these kernels: slots are the caller's, and so is their lifecycle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from poolproof.arguments import as_count
from poolproof.compat.bound import LastBound
from poolproof.compat.cast_load import CastLoad, check_floating
from poolproof.compat.sizes import as_size, as_tensor
from poolproof.errors import LayoutError
from poolproof.kernels import codec
from poolproof.kernels.dequantize_load import DequantizeLoad, dequantize_load
from poolproof.kernels.layout import KernelArgumentError
from poolproof.kernels.quantize_store import QuantizeStore, quantize_store
from poolproof.kernels.slots import Slots, numbers_of

AXES = "(layers, slots, heads, d_v, d_k)"


class Int8CheckpointStore:
    """States of all layers as int8 codes with one scale a layer, slot, head and k-channel.

    On a CUDA device each call that takes a pool is one launch on the current stream, without a synchronisation.
    Slots are numbers or tensors of no or one axis: those on the host, or of a store on the CPU, are checked; those on a
    device are not read back, and what the store does not have is left out.

    Args:
        num_layers, num_slots, num_heads, head_v_dim, head_k_dim: sizes.
        device: "cuda", "cpu" or "meta".
        scale_dtype: bfloat16, float16 or float32, the dtype of the states.

    Attributes:
        num_layers, num_slots, H, d_v, d_k, device: as given.
        qdata: int8 (layers, slots, heads, d_v, d_k), as it was found until it is stored.
        scale: (layers, slots, heads, 1, d_k), NaN until a slot is stored, so that nothing plausible is loaded before.

    Raises:
        TypeError, ValueError: a size is no count, heads or a head's sizes are 0, or the dtype is another.
    """

    QMAX: ClassVar[int] = codec.LARGEST_CODE

    def __init__(
        self,
        *,
        num_layers: int,
        num_slots: int,
        num_heads: int,
        head_v_dim: int,
        head_k_dim: int,
        device: str | torch.device,
        scale_dtype: torch.dtype = torch.bfloat16,
    ) -> None:
        codec.bits_of(scale_dtype)
        self.num_layers = as_count("num_layers", num_layers)
        self.num_slots = as_count("num_slots", num_slots)
        self.H = as_size("num_heads", num_heads)
        self.d_v = as_size("head_v_dim", head_v_dim)
        self.d_k = as_size("head_k_dim", head_k_dim)
        self.device = device
        shape = self.num_layers, self.num_slots, self.H, self.d_v, self.d_k
        self.qdata = torch.empty(shape, dtype=torch.int8, device=device)
        self.scale = torch.full((*shape[:3], 1, self.d_k), torch.nan, dtype=scale_dtype, device=device)
        self._stores = LastBound(self._bind_store)
        self._loads = LastBound(self._bind_load)

    # ------------------------------------------------------------------------------------------------------ the codec

    @classmethod
    def quantize(cls, state: Tensor) -> tuple[Tensor, Tensor]:
        """Codes and scales of states (..., d_v, d_k) of bfloat16, float16 or float32.

        Returns:
            int8 (..., d_v, d_k), and the states' dtype (..., 1, d_k).

        Raises:
            TypeError: another dtype.
        """
        codes, scale = codec.quantize(as_tensor("state", state))
        return codes, scale.unsqueeze(-2)

    @staticmethod
    def dequantize(q: Tensor, scale: Tensor, out_dtype: torch.dtype) -> Tensor:
        """The states that codes (..., d_v, d_k) and scales (..., 1, d_k) stand for, in a floating-point dtype.

        Products beyond its largest number become that number; where a scale is not finite all are NaN.

        Raises:
            TypeError: no floating-point dtype, or scales of another dtype than bfloat16, float16 or float32.
        """
        check_floating(out_dtype)
        if out_dtype == scale.dtype:
            return codec.dequantize(q, scale.squeeze(-2))
        codec.bits_of(scale.dtype)
        lost, largest = ~scale.isfinite(), torch.finfo(out_dtype).max
        wide = (q.double() * torch.where(lost, 0, scale).double()).clamp(-largest, largest)
        return torch.where(lost, torch.full((), torch.nan, dtype=out_dtype, device=q.device), wide.to(out_dtype))

    # ----------------------------------------------------------------------------------------------- states and slots

    def store(self, slots: Slots, state: Tensor) -> None:
        """Quantise states into slots.

        Args:
            slots: as many as there are states, each once.
            state: (layers, states, heads, d_v, d_k), or without the second axis for one; the dtype of the scales.

        Raises:
            LayoutError: the dtype is another than that of the scales.
            KernelArgumentError: the shape or device does not fit.
            TypeError, ValueError: the slots are no integers, not as many, not the store's, or listed twice; or what
                should be a tensor is none.
        """
        self._check_dtype(state)
        if state.dim() == 4:
            state = state.unsqueeze(1)
        if state.dim() != 5:
            raise KernelArgumentError(f"states have the axes {AXES}, not the shape {tuple(state.shape)}")
        quantize_store(state, self.qdata, self._scales(), np.arange(state.shape[1]), slots)

    def load(self, slots: Slots, out_dtype: torch.dtype) -> Tensor:
        """The states of slots (layers, slots, heads, d_v, d_k), without the second axis where `slots` is a number.

        Raises:
            TypeError, ValueError: the slots are no integers or not the store's, or `out_dtype` as for `dequantize`.
        """
        check_floating(out_dtype)
        listed = _listed(slots, self.qdata, "slots")
        if out_dtype == self.scale.dtype:
            shape = self.num_layers, len(listed), *self.qdata.shape[2:]
            loaded = torch.full(shape, torch.nan, dtype=out_dtype, device=self.qdata.device)
            dequantize_load(self.qdata, self._scales(), loaded, listed, np.arange(len(listed)))
        else:
            loaded = self.dequantize(self.qdata[:, listed], self.scale[:, listed], out_dtype)
        return loaded[:, 0] if isinstance(slots, int) or getattr(slots, "ndim", 1) == 0 else loaded

    def store_from_pool(self, src_temporal: Tensor, src_slots: Slots, dst_slots: Slots) -> None:
        """Quantise slots of a pool (layers, slots, heads, d_v, d_k), any strides, into slots of the store.

        Raises:
            LayoutError, KernelArgumentError, TypeError, ValueError: as `store`.
        """
        self.store_of(src_temporal)(src_slots, dst_slots)

    def copy_to_pool(self, dst_temporal: Tensor, src_slots: Slots, dst_slots: Slots) -> None:
        """Dequantise slots of the store into slots of a pool, in the pool's dtype.

        One launch where that is the dtype of the scales. Else it is done in torch, after the same checks, and slots
        whose numbers lie on a device must be the pools'.

        Raises:
            KernelArgumentError, TypeError, ValueError: as `store`, or the pool is of no floating-point dtype. Nothing
                was written.
        """
        self.load_of(dst_temporal)(src_slots, dst_slots)

    def store_of(self, temporal: Tensor) -> QuantizeStore:
        """What quantises slots of this pool into the store, made once for as long as the pool stays the same.

        Raises:
            LayoutError, KernelArgumentError: the pool does not fit.
        """
        self._check_dtype(temporal)
        return self._stores.to((temporal,))

    def load_of(self, temporal: Tensor) -> DequantizeLoad | CastLoad:
        """What dequantises slots of the store into this pool, made once for as long as the pool stays the same.

        Raises:
            KernelArgumentError: the pool does not fit.
            TypeError: it is no tensor of a floating-point dtype.
        """
        return self._loads.to((as_tensor("a pool of states", temporal),))

    def mem_usage_bytes(self) -> int:
        """Bytes of codes and scales."""
        return self.qdata.nbytes + self.scale.nbytes

    def bytes_per_slot(self) -> int:
        """Bytes of codes and scales of one slot."""
        return self.mem_usage_bytes() // max(1, self.num_slots)

    # ------------------------------------------------------------------------------------------------------- internals

    def _scales(self) -> Tensor:
        return self.scale.squeeze(3)

    def _bind_store(self, tensors: Sequence[Tensor]) -> QuantizeStore:
        return QuantizeStore(tensors[0], self.qdata, self._scales())

    def _bind_load(self, tensors: Sequence[Tensor]) -> DequantizeLoad | CastLoad:
        if tensors[0].dtype != self.scale.dtype:
            return CastLoad(self.qdata, self.scale, tensors[0], self.dequantize)
        return DequantizeLoad(self.qdata, self._scales(), tensors[0])

    def _check_dtype(self, states: Tensor) -> None:
        if as_tensor("states", states).dtype != self.scale.dtype:
            raise LayoutError(
                f"states are {states.dtype} and scales {self.scale.dtype}: codes would be chosen with one scale and "
                f"loaded with another; pass scale_dtype={states.dtype} (temporal_dtype of a pool). Nothing was stored."
            )


def _listed(slots: Slots, pool: Tensor, what: str) -> Tensor:
    """Slots of a pool as a tensor of one axis, on the pool's device; those from the host are checked."""
    numbers = numbers_of(slots, pool.device, pool.shape[1], what)
    return numbers if isinstance(numbers, Tensor) else torch.from_numpy(numbers).to(pool.device, non_blocking=True)
