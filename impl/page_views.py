"""A buffer of bytes seen as the tensors that kernels take: strided views, counted from byte 0, which never move.

Every view covers the whole buffer: index i of its page axis is physical page i, wherever the sub-pool lies now. So a
view is made once, survives moves, and can be captured in a CUDA graph; which pages may be touched is the allocator's to
say. Nothing is copied, and the bytes between rows belong to nobody or to another sub-pool.

Alignment is counted from byte 0 of the buffer: that the buffer itself starts at a multiple of `align` is the
allocator's to see to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import torch
from torch import Tensor

from poolproof.errors import LayoutError
from poolproof.spec.shapes import ITEM_BYTES
from poolproof.sub_pools import Resolved


@dataclass(frozen=True, eq=False)
class KVViews:
    """Keys and values, in the dtype of the declaration.

    Attributes:
        k: a view for each layer, [pages, page_size, kv_heads, head_dim].
        v: a view for each layer, [pages, page_size, kv_heads, v_head_dim].
    """

    k: tuple[Tensor, ...]
    v: tuple[Tensor, ...]


@dataclass(frozen=True, eq=False)
class LatentViews:
    """Latent rows, in the dtype of the declaration.

    Attributes:
        latent: a view for each layer, [pages, page_size, latent_dim + rope_dim]: the latent, then the rotary key.
    """

    latent: tuple[Tensor, ...]


@dataclass(frozen=True, eq=False)
class StateViews:
    """Recurrent states.

    Attributes:
        temporal: [layers, slots, H, d_v, d_k], in the temporal dtype.
        conv: a view for each window, [layers, slots, channels, kernel - 1], in the conv dtype.
    """

    temporal: Tensor
    conv: tuple[Tensor, ...]


@dataclass(frozen=True, eq=False)
class CheckpointViews:
    """Cached states.

    Attributes:
        codes: [layers, slots, H, d_v, d_k], int8.
        scales: [layers, slots, H, d_k], in the temporal dtype of the states.
        conv: a view for each window, [layers, slots, channels, kernel - 1], in the conv dtype.
    """

    codes: Tensor
    scales: Tensor
    conv: tuple[Tensor, ...]


@dataclass(frozen=True, eq=False)
class PageViews:
    """Pages of unknown content.

    Attributes:
        pages: [pages, page_bytes], uint8.
    """

    pages: Tensor


Views: TypeAlias = KVViews | LatentViews | StateViews | CheckpointViews | PageViews


@dataclass(frozen=True, eq=False)
class TokenRows:
    """One tensor of a sub-pool, token by token: for kernels that take one index in the place of page and offset.

    Attributes:
        layers: a view for each layer, [rows, kv_heads, head_dim] or [rows, latent_dim + rope_dim]. The `page_size` rows
            of a page follow one another; where a page takes more rows than it has tokens, those between belong to other
            tensors and must not be touched.
        page_size: tokens a page.
        rows_per_page: rows from the first token of a page to the first token of the next.
    """

    layers: tuple[Tensor, ...]
    page_size: int
    rows_per_page: int

    def row_of(self, token: Any) -> Any:
        """The row of a physical token id `page * page_size + offset`; an int, an integer array or a tensor of them.

        Where `rows_per_page` is `page_size`, it is the token id itself.
        """
        return token // self.page_size * self.rows_per_page + token % self.page_size


def views(buffer: Tensor, resolved: Resolved) -> Views:
    """A sub-pool's tensors, as views of the whole buffer.

    The page (or slot) axis has buffer bytes // page_bytes entries, those of the sink included.

    Args:
        buffer: 1-D, contiguous, uint8, on any device; its byte 0 is byte 0 of page 0.
        resolved: one of what `poolproof.sub_pools.resolve` returned.

    Returns:
        KVViews for KVPages and WindowPages, LatentViews for LatentPages, StateViews for StateSlots and for
        Checkpoints that are plain copies, CheckpointViews for other Checkpoints of StateSlots, PageViews for Pages and
        Checkpoints of stated bytes.

    Raises:
        LayoutError: the buffer is of another kind, holds no page, or lies where elements cannot be read.
    """
    _check(buffer, resolved)
    names = [part.name for part in resolved.layout.parts]
    parts = [_part(buffer, resolved, number) for number in range(len(names))]
    if names[0] == "k":
        return KVViews(_layers(parts[0]), _layers(parts[1]))
    if names[0] == "latent":
        return LatentViews(_layers(parts[0]))
    if names[0] == "bytes":
        return PageViews(parts[0][0])
    if "scale" in names:
        return CheckpointViews(parts[0], parts[1], tuple(parts[2:]))
    return StateViews(parts[0], tuple(parts[1:]))


def token_rows(buffer: Tensor, resolved: Resolved, part: str) -> TokenRows:
    """One tensor of a sub-pool whose pages hold tokens, with one axis for page and offset.

    Args:
        buffer: as for `views`.
        resolved: of KVPages, WindowPages or LatentPages.
        part: "k", "v" or "latent".

    Raises:
        LayoutError: there is no such tensor of tokens; or a page of several tokens is no whole number of its rows, so
            that no stride leads from the last token of a page to the first of the next; or as for `views`.
    """
    _check(buffer, resolved)
    names = [each.name for each in resolved.layout.parts]
    if part not in names or part not in ("k", "v", "latent"):
        raise LayoutError(f"sub-pool {resolved.name!r} has no token rows {part!r}; its tensors are {', '.join(names)}")
    number = names.index(part)
    row_bytes = resolved.layout.parts[number].row_bytes
    # A page of one token need not be a whole number of rows: there is no second row that the stride must fit.
    step = resolved.page_bytes if resolved.page_size == 1 else row_bytes
    if resolved.page_bytes % step:
        raise LayoutError(
            f"sub-pool {resolved.name!r}: a page of {resolved.page_bytes} bytes is no whole number of rows of {part}, "
            f"which take {row_bytes}; index views(...) by [page, offset], or declare page_size = 1"
        )
    per_page = resolved.page_bytes // step
    rows = (_pages(buffer, resolved) - 1) * per_page + resolved.page_size
    tensor = _strided(buffer, resolved, number, (rows, *resolved.shapes[number][1:]), step)
    return TokenRows(_layers(tensor), resolved.page_size, per_page)


def _layers(part: Tensor) -> tuple[Tensor, ...]:
    return tuple(part[layer] for layer in range(part.shape[0]))


def _part(buffer: Tensor, resolved: Resolved, number: int) -> Tensor:
    shape = (_pages(buffer, resolved), *resolved.shapes[number])
    return _strided(buffer, resolved, number, shape, resolved.page_bytes)


def _strided(buffer: Tensor, resolved: Resolved, number: int, shape: tuple[int, ...], step: int) -> Tensor:
    """[layers, *shape] of one part, where the first axis of the shape takes `step` bytes and the others are packed."""
    layout = resolved.layout
    part = layout.parts[number]
    item = part.item_bytes
    typed = buffer[: len(buffer) // item * item].view(getattr(torch, resolved.dtypes[number]))
    strides = (layout.layer_bytes // item, step // item, *_packed(shape[1:]))
    # The offset that as_strided takes is counted from the storage, of which the buffer may be a part.
    return typed.as_strided((layout.layers, *shape), strides, typed.storage_offset() + part.offset // item)


def _packed(shape: Sequence[int]) -> list[int]:
    return [prod(shape[axis + 1 :]) for axis in range(len(shape))]


def _pages(buffer: Tensor, resolved: Resolved) -> int:
    return len(buffer) // resolved.page_bytes


def _check(buffer: Tensor, resolved: Resolved) -> None:
    if not isinstance(buffer, Tensor) or buffer.dtype != torch.uint8 or buffer.dim() != 1 or not buffer.is_contiguous():
        found = (
            f"{buffer.dtype} of shape {tuple(buffer.shape)}" if isinstance(buffer, Tensor) else type(buffer).__name__
        )
        raise LayoutError(f"the buffer is {found}; it must be one contiguous row of torch.uint8")
    name, total, page = resolved.name, len(buffer), resolved.page_bytes
    if total < page:
        raise LayoutError(f"the buffer has {total} bytes and a page of {name!r} takes {page}; make it larger")
    largest = max(ITEM_BYTES[dtype] for dtype in resolved.dtypes)
    if buffer.storage_offset() % largest or buffer.data_ptr() % largest:
        raise LayoutError(
            f"the buffer starts at address {buffer.data_ptr()}, {buffer.storage_offset()} bytes into its storage; "
            f"elements of {name!r} take {largest} bytes, so both must be multiples of {largest}"
        )
