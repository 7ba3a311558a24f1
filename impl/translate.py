"""Token ids to physical token numbers, in torch: the reference, and the CPU's own."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def translate(tokens: Any, physical: NDArray[np.int64], pages: int, page_size: int, out: Any = None) -> Any:
    """Where tokens lie.

    Args:
        tokens: int64 or int32 tensor, `id * page_size + offset`.
        physical: [ids], the page of each id, negative for those that have none.
        pages: pages of the buffer.
        page_size: tokens a page.
        out: a tensor of the same shape and dtype to write to.

    Returns:
        `page * page_size + offset`; tokens of the sink, `offset`, where an id has no page, and 0 for negative tokens.
    """
    import torch

    if not isinstance(tokens, torch.Tensor):
        raise TypeError(
            f"token ids are a torch tensor, not {type(tokens).__name__}; torch.from_numpy makes one of an array"
        )
    if tokens.dtype not in (torch.int64, torch.int32):
        raise TypeError(f"token ids are int64 or int32, not {tokens.dtype}")
    last = pages * page_size
    if tokens.dtype == torch.int32 and last > 2**31:
        raise TypeError(f"tokens go up to {last - 1}, which int32 does not hold; pass int64")
    if out is not None and (out.shape, out.dtype, out.device) != (tokens.shape, tokens.dtype, tokens.device):
        raise ValueError(
            f"out is {tuple(out.shape)} of {out.dtype} on {out.device}, the tokens are {tuple(tokens.shape)} of "
            f"{tokens.dtype} on {tokens.device}"
        )
    wide = tokens.to(torch.int64)
    ids = torch.div(wide, page_size, rounding_mode="floor")
    known = (ids >= 0) & (ids < len(physical))
    table = torch.from_numpy(physical).to(tokens.device)
    at = table[torch.where(known, ids, 0)].clamp(min=0)
    found = torch.where(wide < 0, 0, at * page_size + wide % page_size).to(tokens.dtype)
    if out is None:
        return found
    out.copy_(found)
    return out
