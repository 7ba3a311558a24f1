"""Time poolproof's UnifiedPool on a trace of operations: `python poolproof_worker.py [TRACE]`.

The counterpart of sglang_worker.py: the same trace (traces.py describes it), the same sides of the buffer, the same
clock, and one JSON object on stdout. Pages go by their ids, as poolproof hands them out. Where SGLang's call also works
out a token id for each token of the pages, `KIND_with_tokens` is the same call and that work. Pages that were handed
out are zeroed by the step that follows: with "data" an empty step after every allocation of pages is part of its time,
and without, one that is not timed comes before every flush.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from traces import Growth, Header, Replay, timed, work

import poolproof as pp


class PoolproofReplay(Replay):
    """Page ids in the order of the sequence stand for pages; slots are their ids."""

    def __init__(self, header: Header) -> None:
        super().__init__(header)
        self.pool = pp.UnifiedPool(
            header.total_bytes,
            [
                pp.Pages("state", bytes=header.state_bytes, grows="up", zero="never"),
                pp.Pages("full", bytes=header.kv_page_bytes, page_size=header.page_size, grows="down"),
            ],
            device="cpu" if header.data else "meta",
        )
        self.full, self.state = self.pool["full"], self.pool["state"]
        self.offsets = np.arange(header.page_size)
        self.in_use = [0, 0]

    def reset(self) -> None:
        """See `Replay`."""
        self.pool.clear()
        self.in_use = [0, 0]

    def capacity(self) -> dict[str, int]:
        """See `Replay`."""
        return {"pages": self.full.capacity(), "slots": self.state.capacity()}

    def used(self) -> tuple[int, int]:
        """See `Replay`."""
        tables = self.pool._at("full"), self.pool._at("state")
        return tables[0].bound, tables[1].bound

    def violations(self) -> list[str]:
        """See `Replay`."""
        return [str(violation) for violation in self.pool.check()]

    def step(self) -> None:
        """An engine's step that touches nothing; what was handed out is zeroed before it."""
        step = self.pool.begin_step()
        step.launched()
        step.complete()

    def take_pages(self, n: int) -> Any:
        """See `Replay`."""
        pages = self.full.try_alloc(n)
        if self.header.data and pages is not None:
            self.step()
        return pages

    def take_slots(self, n: int) -> Any:
        """See `Replay`."""
        return self.state.try_alloc(n)

    def take_both(self, pages: int, slots: int) -> tuple[Any, Any] | None:
        """See `Replay`."""
        try:
            got = self.pool.alloc({"full": pages, "state": slots})
        except pp.BufferExhausted:
            return None
        if self.header.data:
            self.step()
        return got["full"], got["state"]

    def give_pages(self, pages: Any) -> None:
        """See `Replay`."""
        self.full.free(pages)

    def give_slots(self, slots: Any) -> None:
        """See `Replay`."""
        self.state.free(slots)

    def tokens(self, pages: Any) -> int:
        """See `Replay`."""
        return len(pages) * self.page_size

    def grow_call(self, growths: list[Growth], kind: str) -> Callable[[], Any]:
        """See `Replay`."""
        tails = np.array([int(self.held[one.handle][0][-1]) if one.old else 0 for one in growths])
        old, new = (np.array([getattr(one, key) for one in growths]) for key in ("old", "new"))
        return partial(self.grow, tails, old, new)

    def grow(self, tails: Any, old: Any, new: Any) -> Any:
        """What is timed of an extend."""
        try:
            pages = self.full.extend(tails, old, new)
        except pp.BufferExhausted:
            return None
        if self.header.data:
            self.step()
        return pages

    def grown(self, growths: list[Growth], result: Any) -> list[Any]:
        """See `Replay`."""
        size = self.page_size
        ends = np.cumsum([-(-one.new // size) - -(-one.old // size) for one in growths])
        parts = np.split(result, ends[:-1])
        return [
            np.concatenate([self.held[one.handle][0], part]) if one.old else part
            for one, part in zip(growths, parts, strict=True)
        ]

    def flush_call(self, urgent: bool) -> Callable[[], int]:
        """See `Replay`."""
        if not self.header.data:
            self.step()
        compact = partial(self.pool.compact, urgent=urgent)
        return lambda: sum(len(move.ids) for move in compact())

    def variants(self, kind: str, result: Any, nanoseconds: int) -> dict[str, int]:
        """See `Replay`."""
        pages = result[0] if isinstance(result, tuple) else result
        if kind.startswith(("extend", "decode", "alloc_state")) or pages is None:
            return {"": nanoseconds}
        more = timed(lambda: (pages[:, None] * self.page_size + self.offsets).reshape(-1))[1]
        return {"": nanoseconds, "_with_tokens": nanoseconds + more}


def make(header: Header) -> tuple[Replay, dict[str, Any]]:
    """A replay, and what there is to say of it."""
    torch.set_num_threads(header.threads)
    return PoolproofReplay(header), {"versions": {name: version(name) for name in ("poolproof", "numpy", "torch")}}


if __name__ == "__main__":
    work("poolproof", make, __doc__)
