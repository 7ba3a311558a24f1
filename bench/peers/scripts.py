"""The traces that bench/unified_pool.py has both pools replay, in the form that traces.py describes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

from poolproof.fuzz.mooncake import Request

PAGE_SIZE = 16
Ops = list[dict[str, Any]]


@dataclass(frozen=True)
class Buffer:
    """Sizes in bytes."""

    name: str
    total: int
    kv_page: int
    state: int
    data: bool = False

    @property
    def pages(self) -> int:
        """KV pages of the whole buffer."""
        return self.total // self.kv_page

    def header(self, passes: int, ranges: bool = True) -> dict[str, Any]:
        """The first line of a trace."""
        sizes = {"total_bytes": self.total, "kv_page_bytes": self.kv_page, "state_bytes": self.state}
        return {**sizes, "page_size": PAGE_SIZE, "data": self.data, "passes": passes, "ranges": ranges}


class Script:
    """Writes the trace of the operations, and knows what it has allocated.

    Kinds that begin with "_" prepare what others measure.
    """

    def __init__(self, buffer: Buffer, sequences: int) -> None:
        self.buffer, self.rng = buffer, random.Random(0)
        self.ops: Ops = []
        self.loose: list[tuple[str, int]] = []
        self.lengths = [0] * sequences
        self._count = 0

    def pages(self, kind: str, n: int = 16) -> None:
        """A loose handle of pages."""
        self._count += 1
        self.loose.append((f"p{self._count}", n))
        self.ops.append({"op": "alloc", "pool": "full", "id": f"p{self._count}", "n": n, "as": kind})

    def drop(self, kind: str) -> None:
        """Some loose handle is freed."""
        at = self.rng.randrange(len(self.loose))
        self.loose[at], self.loose[-1] = self.loose[-1], self.loose[at]
        self.ops.append({"op": "free", "id": self.loose.pop()[0], "as": kind})

    def state(self, kind: str, free_kind: str) -> None:
        """A state more, and its free."""
        self.ops.append({"op": "alloc", "pool": "state", "id": "s", "n": 1, "as": kind})
        self.ops.append({"op": "free", "id": "s", "as": free_kind})

    def grow(self, kind: str, named: Sequence[int], tokens: int) -> None:
        """Sequences grow."""
        old = [self.lengths[n] for n in named]
        for n in named:
            self.lengths[n] += tokens
        new = [self.lengths[n] for n in named]
        self.ops.append({"op": "extend", "id": [f"r{n}" for n in named], "old": old, "new": new, "as": kind})

    def free_pages(self) -> int:
        """What is left between pages and states, once nothing but that is free."""
        buffer = self.buffer
        used = sum(n for _, n in self.loose) + sum(-(-length // PAGE_SIZE) for length in self.lengths)
        return buffer.pages - used - -(-(1 + len(self.lengths)) * buffer.state // buffer.kv_page)

    def fill(self) -> None:
        """No state finds room without a move any more."""
        while self.free_pages() > 16:
            self.pages("_fill")


def operations_trace(buffer: Buffer, sequences: int, turns: int) -> Ops:
    """Sequences with a state each, and loose handles of 16 pages, which three tenths of the buffer's pages are in.

    Then every operation, again and again: see `OPERATIONS`.
    """
    script = Script(buffer, sequences)
    for n in range(sequences):
        script.ops.append({"op": "alloc", "pool": "state", "id": f"s{n}", "n": 1, "as": "_begin"})
        script.grow("_begin", [n], 1 + script.rng.randrange(buffer.pages * PAGE_SIZE // (8 * sequences)))
    for _ in range(3 * buffer.pages // 160):
        script.pages("_begin")
    for _ in range(turns):
        script.ops.append({"op": "cycle", "n": 16, "as": "cycle"})
        script.pages("alloc")
        script.drop("free")
        script.ops.append({"op": "flush"})
    for _ in range(len(script.loose) // 5):
        script.drop("_holes")
    for _ in range(turns):
        script.ops.append({"op": "cycle", "n": 16, "as": "cycle_in_holes"})
        script.pages("alloc_in_holes")
        script.drop("free_in_holes")
        script.state("alloc_state", "free_state")
    for turn in range(turns):
        script.grow("decode", range(sequences), 1)
        if turn % 10 == 0:
            some = script.rng.sample(range(sequences), sequences // 8 or 1)
            script.grow("extend", some, 500)
    for _ in range(turns // 4):
        script.fill()
        for _ in range(-(-buffer.state // (16 * buffer.kv_page)) + 1):
            script.drop("_make_room")
        script.state("alloc_state_by_moves", "_undo")
    for _ in range(turns // 40 or 1):
        for _ in range(len(script.loose) // 5):
            script.drop("_make_room")
        script.ops.append({"op": "flush", "urgent": True})
        script.fill()
    return script.ops


OPERATIONS = {
    "cycle": "alloc(16) and its free, no holes",
    "alloc": "alloc(16), no holes",
    "free": "free(16), no holes",
    "flush": "flush after each free(16)",
    "cycle_in_holes": "alloc(16) and its free, among holes",
    "alloc_in_holes": "alloc(16) into holes",
    "free_in_holes": "free(16) among holes",
    "alloc_state": "alloc(1) of a state",
    "free_state": "free(1) of a state",
    "decode": "extend all sequences by 1 token",
    "extend": "extend 1/8 of them by 500 tokens",
    "alloc_state_by_moves": "alloc(1) of a state, pages must move",
    "flush_urgent": "urgent flush, 1/5 of the loose pages holes",
}
"""What is compared, by kind. Where nothing else is said, a handle is 16 pages, and a random one is freed."""

_PREFILL_US, _DECODE_US = 100, 25_000


def requests_trace(requests: Sequence[Request], ends: bool) -> Ops:
    """Requests arrive, and take a state and all their pages, or are dropped.

    Time is that of `poolproof.fuzz.replay`: 0.1 ms for each token of the prompt and 25 ms for each that is generated;
    then a request ends and frees all. Holes are filled before each arrival, as a scheduler does when it is idle.

    Args:
        requests: in the order of their arrival.
        ends: False: no request ends and nothing is flushed, which shows how much fits at once.
    """
    ops: Ops = []
    due: list[tuple[int, int]] = []
    for number, request in enumerate(requests):
        now = request.timestamp * 1000
        while ends and due and due[0][0] <= now:
            ops.append({"op": "free", "id": heappop(due)[1]})
        if ends:
            ops.append({"op": "flush"})
        pages = -(-(request.input_length + request.output_length) // PAGE_SIZE)
        ops.append({"op": "admit", "id": number, "pages": pages, "states": 1})
        heappush(due, (now + request.input_length * _PREFILL_US + request.output_length * _DECODE_US, number))
    return ops
