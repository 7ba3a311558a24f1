"""Traces of operations on a shared buffer, and how a worker replays and times one: shared by all workers.

A trace is a file of JSON lines. KV pages grow down from the end of the buffer, state slots up from its start. Whatever
python runs a worker runs this: it needs the standard library alone. The first line is the header:

    {"total_bytes": 67108864, "page_size": 16, "kv_page_bytes": 32768, "state_bytes": 1048576}

    total_bytes    size of the buffer, a multiple of 8
    page_size      tokens in a KV page
    kv_page_bytes  bytes of a page, a multiple of 32 * page_size
    state_bytes    bytes of a state slot, a multiple of 8
    data           (false) true: the buffer exists, pages are zeroed when handed out and copied when moved;
                   false: only the tables are kept and total_bytes may be of any size
    passes         (1) timed passes; one pass before them is not timed
    threads        (1) threads of torch
    lazy, ranges   (true) for SGLang alone, see its worker

Each further line is an operation. A handle is a string or a number; it names what one operation began.

    {"op": "alloc", "pool": "full", "id": 7, "n": 3}     three KV pages, or {"pool": "state"}: state slots
    {"op": "extend", "id": 7, "old": 40, "new": 75}      the sequence of 7 grows from 40 to 75 tokens; old 0 begins it
    {"op": "extend", "id": [7, 8], "old": [75, 9], "new": [76, 10]}         several sequences in one call
    {"op": "admit", "id": 7, "pages": 30, "states": 1}   pages and slots together, all or none
    {"op": "free", "id": 7}                              everything that 7 holds
    {"op": "cycle", "n": 16}                             KV pages, and at once their free, timed together
    {"op": "flush"}                                      what the scheduler does between steps
    {"op": "flush", "urgent": true}                      both ends in full, as when the other end needs room

Times are told apart by kind: `alloc_full`, `alloc_state`, `extend`, `decode` (an extend by one token of every
sequence), `admit`, `free_full`, `free_state`, `free_admitted`, `cycle`, `flush`, `flush_urgent`; a member `"as"` of an
operation gives another name. What is refused is counted, and timed as a kind of its own, `KIND_refused`; operations
on a handle that lacks what was refused are skipped and counted. `KIND_SUFFIX` is the same work with a part added or
left out, as the worker says.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import platform
import statistics
import sys
import time
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

Handle = str | int
Op = dict[str, Any]


@dataclass(frozen=True)
class Header:
    """The first line of a trace."""

    total_bytes: int
    page_size: int
    kv_page_bytes: int
    state_bytes: int
    lazy: bool = True
    data: bool = False
    ranges: bool = True
    passes: int = 1
    threads: int = 1

    def __post_init__(self) -> None:
        if self.total_bytes % 8 or self.state_bytes % 8 or self.kv_page_bytes % (32 * self.page_size):
            raise ValueError("multiples are needed: total_bytes and state_bytes of 8, kv_page_bytes of 32 * page_size")


@dataclass
class Growth:
    """One sequence that an extend makes longer."""

    handle: Handle
    old: int
    new: int


@dataclass
class Counts:
    """What the passes counted.

    Attributes:
        samples: nanoseconds by kind.
        refused: refusals by kind.
        first_refused: how many operations came before the first one that was refused; None where none was.
        skipped: operations on what was refused.
        moves: pages that flushes moved; what an allocation moves to make room is not in it.
        most: the most pages, slots, and bytes of both that were allocated at once.
        violations: what the allocator's own check of its accounts found.
    """

    samples: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    refused: Counter[str] = field(default_factory=Counter)
    first_refused: int | None = None
    skipped: int = 0
    moves: int = 0
    most: dict[str, int] = field(default_factory=lambda: {"pages": 0, "slots": 0, "bytes": 0})
    violations: list[str] = field(default_factory=list)


def timed(call: Callable[[], Any]) -> tuple[Any, int]:
    """What a call gives, and its time in nanoseconds."""
    begin = time.perf_counter_ns()
    result = call()
    return result, time.perf_counter_ns() - begin


def as_list(value: Any) -> list[Any]:
    """One thing or several."""
    return value if isinstance(value, list) else [value]


class Replay(ABC):
    """Performs operations on an allocator, and knows what every handle holds.

    What a handle holds is the allocator's to choose: for pages anything with which a sequence can grow and pages can be
    freed, for slots anything with which they can be freed. A method that answers to a request returns None where it is
    refused. What comes before a call, and is none of the allocator's work, is left out of the time: methods that end in
    `_call` prepare, and return what is to be timed.
    """

    def __init__(self, header: Header) -> None:
        self.header, self.page_size = header, header.page_size
        self.counts = Counts()
        self.held: dict[Handle, tuple[Any, Any]] = {}  # pages and slots, either of which may be None
        self.lost: set[Handle] = set()
        self.performed = 0
        does = (self.alloc, self.extend, self.admit, self.free, self.cycle, self.flush)
        self.does: dict[str, Callable[[Op], None]] = {method.__name__: method for method in does}

    # ------------------------------------------------------------------------------------------------- the allocator

    @abstractmethod
    def reset(self) -> None:
        """The allocator is empty, as when it was made."""

    @abstractmethod
    def capacity(self) -> dict[str, int]:
        """What an empty buffer gives to either end alone: `pages` and `slots`."""

    @abstractmethod
    def used(self) -> tuple[int, int]:
        """Pages and slots that are allocated now."""

    @abstractmethod
    def violations(self) -> list[str]:
        """What the allocator's own check of its accounts finds."""

    @abstractmethod
    def take_pages(self, n: int) -> Any:
        """n KV pages."""

    @abstractmethod
    def take_slots(self, n: int) -> Any:
        """n slots."""

    @abstractmethod
    def take_both(self, pages: int, slots: int) -> tuple[Any, Any] | None:
        """Both, all or none."""

    @abstractmethod
    def give_pages(self, pages: Any) -> None:
        """KV pages are freed."""

    @abstractmethod
    def give_slots(self, slots: Any) -> None:
        """Slots are freed."""

    @abstractmethod
    def tokens(self, pages: Any) -> int:
        """How many tokens there is room for, or are: either way no page more than that number needs."""

    @abstractmethod
    def grow_call(self, growths: list[Growth], kind: str) -> Callable[[], Any]:
        """The call by which sequences grow, "decode" or "extend"."""

    @abstractmethod
    def grown(self, growths: list[Growth], result: Any) -> list[Any]:
        """What each sequence holds after it."""

    @abstractmethod
    def flush_call(self, urgent: bool) -> Callable[[], int]:
        """Compaction: how many pages moved."""

    def variants(self, kind: str, result: Any, nanoseconds: int) -> dict[str, int]:
        """Times of a request that was granted, by suffix of its kind; "" is the whole call."""
        return {"": nanoseconds}

    # ------------------------------------------------------------------------------------------------- the operations

    def run(self, trace: Iterable[Op]) -> None:
        """One pass over a trace."""
        self.clear()
        self.performed = 0
        for op in trace:
            self.does[op["op"]](op)
            self.performed += 1
            self.observe()
        self.counts.violations += self.violations()

    def clear(self) -> None:
        """Back to empty."""
        self.reset()
        self.held, self.lost = {}, set()

    def observe(self) -> None:
        """Keep the most that was ever allocated."""
        pages, slots = self.used()
        most, sizes = self.counts.most, self.header
        both = pages * sizes.kv_page_bytes + slots * sizes.state_bytes
        for key, value in (("pages", pages), ("slots", slots), ("bytes", both)):
            most[key] = max(most[key], value)

    def ask(self, kind: str, call: Callable[[], Any]) -> Any:
        """Time one request; None when it is refused."""
        result, nanoseconds = timed(call)
        if result is None:
            counts = self.counts
            counts.refused[kind] += 1
            counts.samples[f"{kind}_refused"].append(nanoseconds)
            if counts.first_refused is None:
                counts.first_refused = self.performed
            self.variants(kind, None, nanoseconds)
            return None
        for suffix, taken in self.variants(kind, result, nanoseconds).items():
            self.counts.samples[f"{kind}{suffix}"].append(taken)
        return result

    def begin(self, handle: Handle) -> None:
        """A handle may begin once."""
        if handle in self.held or handle in self.lost:
            raise ValueError(f"handle {handle!r} is in use")

    def alloc(self, op: Op) -> None:
        """Whole pages or slots."""
        handle, n = op["id"], op["n"]
        is_full = {"full": True, "state": False}[op["pool"]]
        self.begin(handle)
        call = partial(self.take_pages if is_full else self.take_slots, n)
        got = self.ask(op.get("as", f"alloc_{op['pool']}"), call)
        if got is None:
            self.lost.add(handle)
        else:
            self.held[handle] = (got, None) if is_full else (None, got)

    def admit(self, op: Op) -> None:
        """Pages and slots, all or none."""
        handle = op["id"]
        self.begin(handle)
        got = self.ask(op.get("as", "admit"), partial(self.take_both, op["pages"], op["states"]))
        if got is None:
            self.lost.add(handle)
        else:
            self.held[handle] = got

    def free(self, op: Op) -> None:
        """All that a handle holds."""
        handle = op["id"]
        if handle in self.lost:
            self.lost.remove(handle)
            self.counts.skipped += 1
            return
        pages, slots = self.held.pop(handle)
        if slots is None:
            kind, call = "free_full", partial(self.give_pages, pages)
        elif pages is None:
            kind, call = "free_state", partial(self.give_slots, slots)
        else:
            kind, call = "free_admitted", partial(self.give_both, pages, slots)
        self.counts.samples[op.get("as", kind)].append(timed(call)[1])

    def give_both(self, pages: Any, slots: Any) -> None:
        """Pages and slots are freed."""
        self.give_pages(pages)
        self.give_slots(slots)

    def cycle(self, op: Op) -> None:
        """Pages, and their free."""

        def call() -> Any:
            pages = self.take_pages(op["n"])
            if pages is not None:
                self.give_pages(pages)
            return pages

        self.ask(op.get("as", "cycle"), call)

    def flush(self, op: Op) -> None:
        """Fill holes: as much as the scheduler asks for between steps, or all."""
        urgent = op.get("urgent", False)
        moved, nanoseconds = timed(self.flush_call(urgent))
        self.counts.moves += moved
        self.counts.samples[op.get("as", "flush_urgent" if urgent else "flush")].append(nanoseconds)

    def growths(self, op: Op) -> list[Growth]:
        """The sequences of an extend, without those that lack what was refused."""
        named = [Growth(*one) for one in zip(*(as_list(op[key]) for key in ("id", "old", "new")), strict=True)]
        able = []
        for one in named:
            if one.old == 0:
                self.begin(one.handle)
            has = self.tokens(self.held[one.handle][0]) if one.old and one.handle in self.held else 0
            if has < one.old:
                continue
            if -(-one.old // self.page_size) != -(-has // self.page_size):
                raise ValueError(f"handle {one.handle!r} holds {has} tokens, which is not the pages of {one.old}")
            able.append(one)
        self.counts.skipped += len(named) - len(able)
        return able

    def extend(self, op: Op) -> None:
        """Sequences grow: tokens fill their last page, then new pages."""
        growths = self.growths(op)
        if not growths:
            return
        kind = "decode" if all(one.old and one.new == one.old + 1 for one in growths) else "extend"
        result = self.ask(op.get("as", kind), self.grow_call(growths, kind))
        if result is None:
            self.lost.update(one.handle for one in growths if one.old == 0)
            return
        for one, pages in zip(growths, self.grown(growths, result), strict=True):
            self.held[one.handle] = pages, None


def summary(samples: Sequence[int]) -> dict[str, float]:
    """Count and microseconds of one kind."""
    ordered = sorted(samples)
    return {
        "count": len(ordered),
        "least_us": round(ordered[0] / 1000, 3),
        "median_us": round(statistics.median(ordered) / 1000, 3),
        "mean_us": round(statistics.fmean(ordered) / 1000, 3),
        "p90_us": round(ordered[(9 * len(ordered) - 1) // 10] / 1000, 3),
    }


def measure(replay: Replay, trace: list[Op]) -> dict[str, Any]:
    """A pass to warm up, then the timed ones."""
    replay.run(trace)
    replay.counts = Counts()
    gc.collect()
    gc.disable()
    for _ in range(replay.header.passes):
        replay.run(trace)
    replay.clear()
    counts = replay.counts
    return {
        "capacity": replay.capacity(),
        "timings": {kind: summary(samples) for kind, samples in sorted(counts.samples.items())},
        "refused": dict(counts.refused),
        "first_refused": counts.first_refused,
        "skipped": counts.skipped,
        "moves": counts.moves,
        "most": counts.most,
        "violations": counts.violations,
    }


def read(name: str) -> tuple[Header, list[Op]]:
    """Header and operations of a trace; "-" is stdin."""
    with contextlib.nullcontext(sys.stdin) if name == "-" else open(name, encoding="utf-8") as file:
        header, *trace = [json.loads(line) for line in file if line.strip()]
    return Header(**header), trace


def work(peer: str, make: Callable[[Header], tuple[Replay, dict[str, Any]]], doc: str) -> None:
    """The whole of a worker: replay the trace that the command line names, and print one JSON object.

    Args:
        peer: its name.
        make: a replay for a header, and what else there is to say of it.
        doc: the worker's docstring.
    """
    parser = argparse.ArgumentParser(description=doc.splitlines()[0], allow_abbrev=False)
    parser.add_argument("trace", nargs="?", default="-", help="a file of JSON lines; - or nothing: stdin")
    header, trace = read(parser.parse_args().trace)
    with contextlib.redirect_stdout(sys.stderr):  # whatever the allocator prints
        replay, about = make(header)
        result = measure(replay, trace)
    about["versions"] |= {"python": platform.python_version()}
    print(json.dumps({"peer": peer, **about, "device": "cpu", "header": vars(header)} | result))
