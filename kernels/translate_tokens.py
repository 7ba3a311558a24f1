"""Token ids to physical token numbers, through a page table on the device."""

from __future__ import annotations

from typing import Any

import torch
import triton
from torch import Tensor
from triton import language as tl

from poolproof.kernels import interpreter
from poolproof.kernels.launch import Prepared
from poolproof.kernels.layout import KernelArgumentError

BLOCK = 1024
WARPS = 4
ALIGNED_TO = 16
"""Bytes; from such an address on, a thread loads several tokens at once."""


def check_tokens(tokens: Tensor, out: Tensor | None, last: int) -> None:
    """Are these token ids, of numbers up to `last`, and a place for what they become?

    Raises:
        TypeError: they are no tensor of int64 or int32, or of int32, which does not hold the last token.
        ValueError: `out` has another shape, dtype or device.
    """
    if not isinstance(tokens, Tensor):
        raise TypeError(
            f"token ids are a torch tensor, not {type(tokens).__name__}; torch.from_numpy makes one of an array"
        )
    if tokens.dtype not in (torch.int64, torch.int32):
        raise TypeError(f"token ids are int64 or int32, not {tokens.dtype}")
    if tokens.dtype == torch.int32 and last > 2**31:
        raise TypeError(f"tokens go up to {last - 1}, which int32 does not hold; pass int64")
    if out is not None and not isinstance(out, Tensor):
        raise TypeError(f"out is a torch tensor, not {type(out).__name__}")
    if out is not None and (out.shape, out.dtype, out.device) != (tokens.shape, tokens.dtype, tokens.device):
        raise ValueError(
            f"out is {tuple(out.shape)} of {out.dtype} on {out.device}, the tokens are {tuple(tokens.shape)} of "
            f"{tokens.dtype} on {tokens.device}"
        )


def check_share(ranks: int, rank: int | None) -> None:
    """Raises ValueError where there is no such rank of a context-parallel group."""
    if type(ranks) is not int or ranks < 1 or not (rank is None or (type(rank) is int and 0 <= rank < ranks)):
        raise ValueError(f"rank {rank!r} of {ranks!r} ranks: ranks are 1 or more, the rank 0 to ranks - 1, or None")


class TranslateTokens:
    """Translates token ids through one table.

    In a context-parallel group of several ranks a token id is `(id * page_size + offset) * ranks + owner`: every rank
    keeps its own share of the tokens of a page.
    """

    def __init__(self, table: Tensor, page_size: int, pages: int, ranks: int = 1, rank: int | None = None) -> None:
        """Bind a table.

        Args:
            table: [ids], int32, contiguous: the page of each id, 0 (the sink's) for ids without one, so for id 0.
            page_size: tokens a page, of one rank.
            pages: pages of the buffer.
            ranks: ranks of the context-parallel group.
            rank: the rank whose tokens are wanted, all others are the sink's (for writes); None for whatever lies
                where the token's share does (for reads).

        Raises:
            KernelArgumentError: the table is of another kind.
            ValueError: there is no such rank.
        """
        if table.dtype != torch.int32 or table.dim() != 1 or not table.is_contiguous() or not table.numel():
            raise KernelArgumentError(f"a table is one contiguous row of int32, not {table.dtype} {tuple(table.shape)}")
        check_share(ranks, rank)
        self.table, self.page_size, self.ranks, self.rank = table, page_size, ranks, rank
        self.last = max(pages, table.numel()) * page_size * ranks
        self._prepared: dict[tuple[torch.dtype, bool], Prepared] = {}

    def prepared(self, dtype: torch.dtype, aligned: bool) -> Prepared:
        """The launch for tokens of one dtype, both tensors of which start at a multiple of 16 bytes or need not."""
        found = self._prepared.get((dtype, aligned))
        if found is None:
            fixed = (self.table, self.table.numel(), self.ranks, -1 if self.rank is None else self.rank)
            parts: dict[str, Any] = {"SHARED": self.ranks > 1, "OWNER": self.ranks > 1 and self.rank is not None}
            parts |= {"PAGE_SIZE": self.page_size, "ALIGNED": aligned, "BLOCK": BLOCK}
            found = self._prepared[dtype, aligned] = Prepared(_translate, fixed, **parts, num_warps=WARPS)
        return found

    def __call__(self, tokens: Tensor, out: Tensor | None = None) -> Tensor:
        """Where tokens lie: on the current stream, one launch. With contiguous `tokens` and `out` nothing is allocated.

        Args:
            tokens: int64 or int32, any shape, on the table's device.
            out: a tensor of the same shape and dtype: `tokens` itself, or one that shares no byte with it.

        Returns:
            `out`, or a new tensor: `page * page_size + offset`; tokens of the sink, `offset`, where an id has no page,
            and 0 for negative tokens and those of other ranks.

        Raises:
            TypeError, ValueError: the tensors are of another kind, or lie on another device.
        """
        check_tokens(tokens, out, self.last)
        if tokens.device != self.table.device:
            raise ValueError(f"the tokens are on {tokens.device}, the table on {self.table.device}: move them first")
        if tokens.device.type == "meta":
            return torch.empty_like(tokens) if out is None else out
        if not (tokens.device.type == "cuda" or interpreter.is_on()):
            return translate_reference(tokens, self.table, self.page_size, self.ranks, self.rank, out)
        if not tokens.is_contiguous() or not (out is None or out.is_contiguous()):
            found = self(tokens.contiguous())
            return found if out is None else out.copy_(found)
        found = torch.empty_like(tokens) if out is None else out
        if tokens.numel():
            aligned = (tokens.data_ptr() | found.data_ptr()) % ALIGNED_TO == 0
            prepared = self.prepared(tokens.dtype, aligned)
            prepared.launch(triton.cdiv(tokens.numel(), BLOCK), tokens, found, tokens.numel())
        return found


def translate_reference(
    tokens: Tensor, table: Tensor, page_size: int, ranks: int = 1, rank: int | None = None, out: Tensor | None = None
) -> Tensor:
    """The same in torch, on any device; ids of the table may also have a negative page, for none."""
    wide = tokens.to(torch.int64)
    own = wide >= 0 if rank is None else (wide >= 0) & (wide % ranks == rank)
    wide = torch.div(wide, ranks, rounding_mode="floor")
    ids = torch.div(wide, page_size, rounding_mode="floor")
    known = (ids >= 0) & (ids < len(table))
    at = table[torch.where(known, ids, 0)].to(torch.int64).clamp(min=0)
    found = torch.where(own, at * page_size + wide % page_size, 0).to(tokens.dtype)
    if out is None:
        return found
    return out.copy_(found)


@triton.jit
def _lies_at(
    token, table, ids, ranks, rank, PAGE_SIZE: tl.constexpr, SHARED: tl.constexpr, OWNER: tl.constexpr
):  # fmt: skip
    """Where tokens lie."""
    own = token >= 0
    if OWNER:
        own = own & (token % ranks == rank)
    local = token // ranks if SHARED else token
    number = local // PAGE_SIZE
    page = tl.load(table + tl.where(own & (number < ids), number, 0)).to(tl.int64)
    return tl.where(own, page * PAGE_SIZE + local % PAGE_SIZE, 0)


@triton.jit(do_not_specialize=["tokens", "out", "count", "ids", "ranks", "rank"])
def _translate(
    tokens, out, count: tl.int64, table, ids, ranks, rank,
    PAGE_SIZE: tl.constexpr, SHARED: tl.constexpr, OWNER: tl.constexpr,
    ALIGNED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A program translates a block of tokens; only the last one has a mask, which would keep loads narrow."""
    first = tl.program_id(0).to(tl.int64) * BLOCK
    at = first + tl.arange(0, BLOCK)
    begin = tokens + at
    end = out + at
    if ALIGNED:
        begin = tl.multiple_of(begin, 16)
        end = tl.multiple_of(end, 16)
    if first + BLOCK <= count:
        token = tl.load(begin).to(tl.int64)
        found = _lies_at(token, table, ids, ranks, rank, PAGE_SIZE, SHARED, OWNER)
        tl.store(end, found.to(out.dtype.element_ty))
    else:
        inside = at < count
        token = tl.load(begin, mask=inside, other=-1).to(tl.int64)
        found = _lies_at(token, table, ids, ranks, rank, PAGE_SIZE, SHARED, OWNER)
        tl.store(end, found.to(out.dtype.element_ty), mask=inside)
