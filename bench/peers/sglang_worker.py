"""Time SGLang's allocator of a shared buffer on a trace of operations: `PEER_PYTHON sglang_worker.py [TRACE]`.

Runs under the peer's own python (README.md says how to make it) and imports nothing of ours. It drives SGLang's pair of
`MultiEndedAllocator`s through the objects that its scheduler calls: `UnifiedMambaTokenToKVPoolAllocator` for KV pages,
which grow down from the end of the buffer, `UnifiedMambaSlotAllocator` for state slots, which grow up from its start.
All tables are CPU tensors. TRACE is a file of JSON lines, `-` or nothing for stdin; one JSON object goes to stdout.

The first line is the header:

    {"total_bytes": 67108864, "page_size": 16, "kv_page_bytes": 32768, "state_bytes": 1048576}

    total_bytes    size of the buffer, a multiple of 8
    page_size      tokens in a KV page
    kv_page_bytes  bytes of a page, a multiple of 32 * page_size
    state_bytes    bytes of a state slot, a multiple of 8
    lazy           (true) holes are filled by flushes, as the engine does by default; false: every free fills them
    data           (false) true: the buffer exists, pages are zeroed when handed out and copied when moved;
                   false: only the tables are kept and total_bytes may be of any size
    ranges         (true) SGLang's profiler ranges stay, as they do in its engine; false: they are taken out, which
                   shows the work of the allocator alone
    passes         (1) timed passes; one pass before them is not timed
    threads        (1) threads of torch

Each further line is an operation. A handle is a string or a number; it names what one `alloc` or `extend` began.

    {"op": "alloc", "pool": "full", "id": 7, "n": 3}     three KV pages, or {"pool": "state"}: state slots
    {"op": "extend", "id": 7, "old": 40, "new": 75}      the sequence of 7 grows from 40 to 75 tokens; old 0 begins it
    {"op": "extend", "id": [7, 8], "old": [75, 9], "new": [76, 10]}         several sequences in one call
    {"op": "free", "id": 7}                              everything that 7 holds
    {"op": "flush"}                                      what the scheduler does between steps
    {"op": "flush", "urgent": true}                      both ends in full, as when the other end needs room

Calls are chosen as the engine chooses them: an extend by one token of every sequence is `alloc_decode` (kind "decode"),
any other `alloc_extend`; with one token a page both are `alloc`. Pages go back by `free_segment`. Tensors of lengths
and last tokens, which the engine has at hand, are made before the clock starts. What the allocator refuses is
counted, and timed as a kind of its own; operations on a handle that lacks what was refused are skipped and counted.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib.util
import json
import platform
import statistics
import sys
import time
import types
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from typing import Any

import torch

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


def stand_in(name: str, **names: object) -> types.ModuleType:
    """An empty module under this name."""
    module = types.ModuleType(name)
    module.__dict__.update(names)
    sys.modules[name] = module
    return module


def stub_torchvision() -> list[str]:
    """STUB, only where torchvision is not installed.

    SGLang's configurations of vision models import it when the package is loaded; no allocator uses it. It exists for
    CUDA builds of torch only on some indexes, and such a build does not load beside a CPU torch. Transformers looks for
    the real one once, so it is imported before.
    """
    if importlib.util.find_spec("torchvision"):
        return []
    importlib.import_module("transformers")
    stand_in("torchvision.transforms.functional", InterpolationMode=None)
    stand_in("torchvision", transforms=stand_in("torchvision.transforms", InterpolationMode=None))
    return ["torchvision"]


class TorchKernel:
    """Answers to `kernel[grid](...)` with a torch function, and knows how long that took."""

    def __init__(self, work: Callable[..., None]) -> None:
        self.work = work
        self.nanoseconds = 0

    def __getitem__(self, grid: object) -> Callable[..., None]:
        return self.run

    def run(self, *arguments: Any) -> None:
        """What the launch of the kernel would be."""
        begin = time.perf_counter_ns()
        self.work(*arguments)
        self.nanoseconds += time.perf_counter_ns() - begin

    def taken(self) -> int:
        """Time since the last question."""
        nanoseconds, self.nanoseconds = self.nanoseconds, 0
        return nanoseconds


def replace_kernels() -> tuple[TorchKernel, TorchKernel]:
    """SUBSTITUTE: the two Triton kernels that write token ids have no CPU form in the allocator of the shared buffer.

    SGLang's plain paged allocator has torch forms of the same two for machines without Triton; those are put in place.
    A launch on a GPU costs less host time than they do, so their time is also reported apart.
    """
    from sglang.srt.mem_cache.allocator import paged, unified_sub_pool

    def extend(prefixes: Any, lengths: Any, last: Any, free: Any, out: Any, _: int, page_size: int) -> None:
        paged.alloc_extend_naive(prefixes, lengths, last, free, out, page_size, "cpu")

    def decode(lengths: Any, last: Any, free: Any, out: Any, _: int, page_size: int) -> None:
        pages = int((lengths % page_size == 1).sum())
        paged.alloc_decode_naive(lengths, last, free, out, page_size, pages)

    kernels = TorchKernel(extend), TorchKernel(decode)
    unified_sub_pool.alloc_extend_kernel, unified_sub_pool.alloc_decode_kernel = kernels
    return kernels


def remove_ranges() -> None:
    """Take out the profiler ranges around the calls: several a call, and in sum about as dear as the call itself."""
    from sglang.srt.mem_cache import unified_memory_pool
    from sglang.srt.mem_cache.allocator import unified_mamba, unified_sub_pool

    for module in (unified_memory_pool, unified_mamba, unified_sub_pool):
        module.record_function = contextlib.nullcontext


class NoData:
    """A store whose bytes do not exist: nothing to copy; not being one of SGLang's pools, it is never zeroed."""

    def move_physical_pages(self, *_: object) -> None:
        """Nothing to copy."""


def make_buffer(header: Header) -> Any:
    """Their shared buffer: one layer of KV at the high end, one of states at the low end."""
    from sglang.srt.mem_cache import unified_memory_pool as pools

    token = header.kv_page_bytes // header.page_size
    full = pools.MHASubPoolSpec(
        name="full",
        layer_num=1,
        grow_direction="down",
        head_num=1,
        head_dim=token // 4,
        store_dtype=torch.bfloat16,
    )
    states = pools.MambaSubPoolSpec(
        name="mamba",
        layer_num=1,
        grow_direction="up",
        conv_state_shapes=((header.state_bytes // 4, 1),),
        conv_dtype=torch.bfloat16,
        temporal_state_shape=(header.state_bytes // 8, 1, 1),
        temporal_dtype=torch.float32,
    )
    return pools.UnifiedKVPool(
        total_bytes=header.total_bytes,
        sub_pool_specs=[full, states],
        device="cpu" if header.data else "meta",
        enable_memory_saver=False,
        page_size=header.page_size,
    )


def make_stores(header: Header, buffer: Any) -> Any:
    """What copies and zeroes pages: their pools over the buffer, or nothing."""
    if not header.data:
        return types.SimpleNamespace(full_kv_pool=NoData(), mamba_pool=NoData())
    from sglang.srt.mem_cache import unified_memory_pool as pools

    pages = pools.UnifiedMHATokenToKVPool(
        unified_buffer=buffer, sub_pool_name="full", page_size=header.page_size, enable_alt_stream=False
    )
    slots = pools.UnifiedMambaPool(unified_buffer=buffer, sub_pool_name="mamba", spec_state_size=1, mamba_layer_ids=[0])
    return types.SimpleNamespace(full_kv_pool=pages, mamba_pool=slots)


def make_pair(header: Header) -> tuple[Any, Any]:
    """The allocator of pages, which owns both ends, and that of slots."""
    from sglang.srt.mem_cache.allocator.unified_mamba import UnifiedMambaTokenToKVPoolAllocator
    from sglang.srt.mem_cache.unified_memory_pool import UnifiedMambaSlotAllocator
    from sglang.srt.runtime_context import get_parallel

    get_parallel().override_permanently(
        attn_dcp_size=1, attn_dcp_rank=0
    )  # one device; an engine states it at its start
    buffer = make_buffer(header)
    pages = UnifiedMambaTokenToKVPoolAllocator(
        unified_buffer=buffer,
        kvcache=make_stores(header, buffer),
        device="cpu",
        page_size=header.page_size,
        lazy_compaction=header.lazy,
    )
    return pages, UnifiedMambaSlotAllocator(pages.mamba_allocator, buffer.max_slots("mamba") - 1, "cpu")


def timed(call: Callable[[], Any]) -> tuple[Any, int]:
    """What a call gives, and its time in nanoseconds."""
    begin = time.perf_counter_ns()
    result = call()
    return result, time.perf_counter_ns() - begin


def as_list(value: Any) -> list[Any]:
    """One thing or several."""
    return value if isinstance(value, list) else [value]


@dataclass
class Growth:
    """One sequence that an extend makes longer."""

    handle: Handle
    old: int
    new: int


@dataclass
class Counts:
    """What the passes counted."""

    samples: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    refused: Counter[str] = field(default_factory=Counter)
    skipped: int = 0
    moves: int = 0
    most_pages: int = 0
    most_slots: int = 0
    violations: list[str] = field(default_factory=list)


class Replay:
    """Performs operations; knows what every handle holds."""

    def __init__(self, header: Header) -> None:
        self.kernels = replace_kernels()
        if not header.ranges:
            remove_ranges()
        self.pages, self.slots = make_pair(header)
        self.page_size = header.page_size
        self.counts = Counts()
        self.rows: dict[Handle, torch.Tensor] = {}  # token ids in the order of the sequence, or ids of slots
        self.stateful: set[Handle] = set()
        self.lost: set[Handle] = set()
        self.does = {"alloc": self.alloc, "extend": self.extend, "free": self.free, "flush": self.flush}

    def clear(self) -> None:
        """Back to empty."""
        self.pages.clear()
        self.slots.clear()
        self.rows, self.stateful, self.lost = {}, set(), set()

    def capacity(self) -> dict[str, int]:
        """What an empty buffer gives to either end alone."""
        return {
            "pages": self.pages.available_size() // self.page_size,
            "slots": self.slots.schedulable_available_size(),
        }

    def run(self, trace: Iterable[Op]) -> None:
        """One pass over a trace."""
        self.clear()
        for op in trace:
            self.does[op["op"]](op)
            self.observe()
        self.counts.violations += self.pages.verify_byte_accounting()

    def observe(self) -> None:
        """Keep the most that was ever allocated."""
        counts, ends = self.counts, self.pages
        counts.most_pages = max(counts.most_pages, ends.full_attn_allocator.allocated_count() // self.page_size)
        counts.most_slots = max(counts.most_slots, ends.mamba_allocator.allocated_count())

    def ask(self, kind: str, call: Callable[[], Any], kernel: TorchKernel | None = None) -> Any:
        """Time one request; None when it is refused."""
        result, nanoseconds = timed(call)
        inside = kernel.taken() if kernel else 0
        if result is None:
            self.counts.refused[kind] += 1
            self.counts.samples[f"{kind}_refused"].append(nanoseconds)
            return None
        self.counts.samples[kind].append(nanoseconds)
        if inside:
            self.counts.samples[f"{kind}_without_kernel"].append(nanoseconds - inside)
        return result

    def begin(self, handle: Handle) -> None:
        """A handle may begin once."""
        if handle in self.rows or handle in self.lost:
            raise ValueError(f"handle {handle!r} is in use")

    def alloc(self, op: Op) -> None:
        """Whole pages or slots."""
        handle, pool, n = op["id"], op["pool"], op["n"]
        self.begin(handle)
        call = {"full": partial(self.pages.alloc, n * self.page_size), "state": partial(self.slots.alloc, n)}[pool]
        row = self.ask(f"alloc_{pool}", call)
        if row is None:
            self.lost.add(handle)
            return
        self.rows[handle] = row
        if pool == "state":
            self.stateful.add(handle)

    def free(self, op: Op) -> None:
        """All that a handle holds."""
        handle = op["id"]
        if handle in self.lost:
            self.lost.remove(handle)
            self.counts.skipped += 1
            return
        row = self.rows.pop(handle)
        state = handle in self.stateful
        self.stateful.discard(handle)
        call = partial(self.slots.free, row) if state else partial(self.pages.free_segment, row, start_pos=0)
        self.counts.samples["free_state" if state else "free_full"].append(timed(call)[1])

    def flush(self, op: Op) -> None:
        """Fill holes: as much as the scheduler asks for between steps, or all."""
        ends = self.pages.full_attn_allocator, self.pages.mamba_allocator
        urgent = op.get("urgent", False)
        calls = [end.flush_for_allocation for end in ends] if urgent else [self.pages.flush_opportunistic]
        moved, nanoseconds = timed(lambda: sum(call() for call in calls))
        self.counts.moves += moved
        self.counts.samples["flush_urgent" if urgent else "flush"].append(nanoseconds)

    def growths(self, op: Op) -> list[Growth]:
        """The sequences of an extend, without those that lack what was refused."""
        named = [Growth(*one) for one in zip(*(as_list(op[key]) for key in ("id", "old", "new")), strict=True)]
        for one in named:
            if one.old == 0:
                self.begin(one.handle)
        able = [one for one in named if one.old == 0 or len(self.rows.get(one.handle, ())) >= one.old]
        self.counts.skipped += len(named) - len(able)
        return able

    def extend(self, op: Op) -> None:
        """Sequences grow: tokens fill their last page, then new pages."""
        growths = self.growths(op)
        if not growths:
            return
        kind, call, kernel = self.call_to_grow(growths)
        tokens = self.ask(kind, call, kernel)
        if tokens is None:
            self.lost.update(one.handle for one in growths if one.old == 0)
            return
        parts = tokens.split([one.new - one.old for one in growths])
        for one, part in zip(growths, parts, strict=True):
            self.rows[one.handle] = torch.cat([self.row(one), part])

    def row(self, one: Growth) -> torch.Tensor:
        """The tokens that a sequence has; the rest of its last page goes unused until now."""
        row = self.rows.get(one.handle, torch.empty(0, dtype=torch.int64))
        if -(-one.old // self.page_size) != -(-len(row) // self.page_size):
            raise ValueError(f"handle {one.handle!r} holds {len(row)} tokens, which is not the pages of {one.old}")
        return row[: one.old]

    def call_to_grow(self, growths: list[Growth]) -> tuple[str, Callable[[], Any], TorchKernel | None]:
        """Kind, call and kernel by which the engine makes these sequences grow."""
        single = all(one.old and one.new == one.old + 1 for one in growths)
        kind = "decode" if single else "extend"
        total = sum(one.new - one.old for one in growths)
        if self.page_size == 1:
            return kind, partial(self.pages.alloc, total), None
        rows = [self.row(one) for one in growths]
        last = torch.tensor([int(row[-1]) if len(row) else -1 for row in rows])
        old, new = (torch.tensor([getattr(one, key) for one in growths]) for key in ("old", "new"))
        if single:
            return kind, partial(self.pages.alloc_decode, new, new, last), self.kernels[1]
        return kind, partial(self.pages.alloc_extend, old, old, new, new, last, total), self.kernels[0]


def summary(samples: list[int]) -> dict[str, float]:
    """Count and microseconds of one kind."""
    ordered = sorted(samples)
    return {
        "count": len(ordered),
        "least_us": round(ordered[0] / 1000, 3),
        "median_us": round(statistics.median(ordered) / 1000, 3),
        "mean_us": round(statistics.fmean(ordered) / 1000, 3),
        "p90_us": round(ordered[(9 * len(ordered) - 1) // 10] / 1000, 3),
    }


def measure(header: Header, trace: list[Op]) -> dict[str, Any]:
    """A pass to warm up, then the timed ones."""
    replay = Replay(header)
    replay.run(trace)
    replay.counts = Counts()
    gc.collect()
    gc.disable()
    for _ in range(header.passes):
        replay.run(trace)
    replay.clear()
    counts = replay.counts
    return {
        "capacity": replay.capacity(),
        "timings": {kind: summary(samples) for kind, samples in sorted(counts.samples.items())},
        "refused": dict(counts.refused),
        "skipped": counts.skipped,
        "moves": counts.moves,
        "most": {"pages": counts.most_pages, "slots": counts.most_slots},
        "violations": counts.violations,
    }


def read(name: str) -> tuple[Header, list[Op]]:
    """Header and operations of a trace."""
    with contextlib.nullcontext(sys.stdin) if name == "-" else open(name, encoding="utf-8") as file:
        header, *trace = [json.loads(line) for line in file if line.strip()]
    return Header(**header), trace


def main() -> None:
    """Replay the trace that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace", nargs="?", default="-", help="a file of JSON lines; - or nothing: stdin")
    header, trace = read(parser.parse_args().trace)
    torch.set_num_threads(header.threads)
    with contextlib.redirect_stdout(sys.stderr):  # whatever the peer prints
        stubs = stub_torchvision()
        result = measure(header, trace)
    versions = {name: version(name) for name in ("sglang", "torch")} | {"python": platform.python_version()}
    about = {"peer": "sglang", "versions": versions, "device": "cpu", "stubs": stubs, "header": vars(header)}
    print(json.dumps(about | result))


if __name__ == "__main__":
    main()
