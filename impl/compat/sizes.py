"""Sizes, shapes and pools as engines pass them, checked before anything is allocated or written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from poolproof.arguments import as_count
from poolproof.errors import LayoutError

NOTHING = "Nothing was changed."


def as_size(name: str, value: Any) -> int:
    """One or more.

    Raises:
        TypeError: the value is no integer.
        ValueError: it is less than 1.
    """
    size = as_count(name, value)
    if size == 0:
        raise ValueError(f"{name} is 0; it must be one or more. {NOTHING}")
    return size


def as_shapes(shapes: Any) -> list[tuple[int, ...]]:
    """Shapes of conv windows without layers and slots.

    Raises:
        TypeError: they are no shapes, or a size is no integer.
        ValueError: a size is negative.
        LayoutError: a shape has another number of axes.
    """
    return [_as_shape(f"conv_shapes[{n}]", shape) for n, shape in enumerate(_listed("conv_shapes", shapes))]


def _as_shape(name: str, shape: Any) -> tuple[int, ...]:
    sizes = tuple(as_count(f"a size in {name}", size) for size in _listed(name, shape))
    if len(sizes) not in (1, 2):
        raise LayoutError(f"a conv shape is (channels, width) or (channels,), not {sizes} in {name}. {NOTHING}")
    return sizes


def _listed(name: str, value: Any) -> list[Any]:
    try:
        return list(value)
    except TypeError:
        raise TypeError(
            f"{name} is {value!r}: pass conv_shapes as a list of (channels, width) or (channels,). {NOTHING}"
        ) from None


def item_bytes(name: str, dtype: Any) -> int:
    """Bytes of one number.

    Raises:
        TypeError: it is no dtype.
    """
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"{name} must be a torch.dtype such as torch.bfloat16, got {dtype!r}. {NOTHING}")
    return dtype.itemsize


def as_tensor(name: str, value: Any) -> Tensor:
    """The same. Raises TypeError where it is no tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} must be a torch tensor, got {type(value).__name__}. {NOTHING}")
    return value


class Active(NamedTuple):
    """The tensors of an active pool."""

    temporal: Tensor
    conv: Sequence[Tensor]


def active_of(pool: Any) -> Active:
    """What an active pool has in `mamba_cache.temporal` and `mamba_cache.conv`.

    Raises:
        TypeError: it has not.
    """
    cache = getattr(pool, "mamba_cache", None)
    temporal, conv = getattr(cache, "temporal", None), getattr(cache, "conv", None)
    if isinstance(conv, Tensor):
        conv = list(conv) if conv.dim() else None
    if isinstance(temporal, Tensor) and isinstance(conv, Sequence) and all(isinstance(each, Tensor) for each in conv):
        return Active(temporal, conv)
    raise TypeError(
        f"an active pool has a tensor in mamba_cache.temporal and a list of tensors in mamba_cache.conv, not "
        f"{type(temporal).__name__} and {type(conv).__name__} as this {type(pool).__name__}: pass the engine's pool of "
        f"states. {NOTHING}"
    )
