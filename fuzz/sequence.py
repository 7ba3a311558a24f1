"""A request in a unified pool: the pages that it has, those that it may yet need, and what slides out of its window."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from poolproof.fuzz.model_shape import Shape
from poolproof.fuzz.mooncake import BLOCK_TOKENS, Request
from poolproof.spec.arithmetic import ceil_div

Pages = NDArray[np.int64]


@dataclass(slots=True, eq=False)
class Sequence:
    """One request. Tokens are those of the pool.

    Attributes:
        blocks: the full blocks of its prompt.
        prompt: tokens of the prompt.
        end: tokens when it is over.
        hit: blocks taken over from the cache, the first ones.
        pages: ids by place in the sequence, those taken over included; `count` of them are there.
        length: tokens so far.
        tail: the last id.
        state: its slot, 0 without one.
        kept_from: the first page whose page of the window is kept to the end, for the cache.
        window_from: the first page after the full blocks that still has a page of the window.
        window_promised: pages of the window that it may yet need.
        has_waited: whether there was no room when it was first looked at.
    """

    blocks: tuple[int, ...]
    prompt: int
    end: int
    hit: int = 0
    pages: Pages = field(default_factory=lambda: np.empty(0, np.int64))
    count: int = 0
    length: int = 0
    tail: int = 0
    state: int = 0
    kept_from: int = 0
    window_from: int = 0
    window_promised: int = 0
    has_waited: bool = False

    @property
    def is_over(self) -> bool:
        """Whether all its tokens are there."""
        return self.length == self.end


class Needs:
    """How many pages a sequence needs, and when, in a pool of a shape."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape

    def sequence(self, request: Request) -> Sequence:
        """The sequence of a request of the trace."""
        prompt = self.shape.tokens(request.input_length)
        full = request.input_length // BLOCK_TOKENS
        return Sequence(request.hash_ids[:full], prompt, prompt + self.shape.tokens(request.output_length))

    def most_hits(self, sequence: Sequence) -> int:
        """How many blocks it could take over: at least one token is left to compute."""
        block = self.shape.block_pages * self.shape.page_size
        return min(len(sequence.blocks), (sequence.prompt - 1) // block)

    def at_prompt(self, sequence: Sequence, hit: int) -> dict[str, int]:
        """New pages for the prompt behind the blocks taken over; a window is bound for the last of them."""
        taken = hit * self.shape.block_pages
        pages = ceil_div(sequence.prompt, self.shape.page_size)
        demand = {"full": pages - taken}
        if self.shape.window:
            demand["window"] = pages - self.kept_from(sequence, hit)
        if self.shape.has_states:
            demand["state"] = 1
        return demand

    def afterwards(self, sequence: Sequence, hit: int) -> dict[str, int]:
        """Pages that it may need beyond those of the prompt."""
        size = self.shape.page_size
        pages = ceil_div(sequence.end, size) - ceil_div(sequence.prompt, size)
        demand = {"full": pages}
        if self.shape.window:
            demand["window"] = min(pages, self.shape.window_pages + 2)
        return demand

    def kept_from(self, sequence: Sequence, hit: int) -> int:
        """The first of its own pages from which on the window reaches the end of its full blocks."""
        size = self.shape.block_pages
        return max(hit * size, len(sequence.blocks) * size - self.shape.window_pages)

    def slid_to(self, sequence: Sequence) -> int:
        """The first page that a window still reaches."""
        return max(sequence.length - self.shape.window, 0) // self.shape.page_size
