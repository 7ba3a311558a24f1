"""Time SGLang's allocator of a shared buffer on a trace of operations: `PEER_PYTHON sglang_worker.py [TRACE]`.

Runs under the peer's own python (README.md says how to make it) and imports nothing of ours but the trace format. It
drives SGLang's pair of `MultiEndedAllocator`s through the objects that its scheduler calls:
`UnifiedMambaTokenToKVPoolAllocator` for KV pages, which grow down from the end of the buffer,
`UnifiedMambaSlotAllocator` for state slots, which grow up from its start. All tables are CPU tensors. TRACE is a file
as traces.py describes it, `-` or nothing for stdin; one JSON object goes to stdout. Two members of the header are for
this worker:

    lazy           (true) holes are filled by flushes, as the engine does by default; false: every free fills them
    ranges         (true) SGLang's profiler ranges stay, as they do in its engine; false: they are taken out, which
                   shows the work of the allocator alone

Calls are chosen as the engine chooses them: an extend by one token of every sequence is `alloc_decode` (kind "decode"),
any other `alloc_extend`; with one token a page both are `alloc`. Pages go back by `free_segment`. Tensors of lengths
and last tokens, which the engine has at hand, are made before the clock starts. `admit` takes slots, then pages, and
gives the slots back where there are no pages. `KIND_without_kernel` leaves out the forms of two kernels that stand in
for a launch, see `replace_kernels`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import time
import types
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from typing import Any

import torch
from traces import Growth, Header, Replay, work


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


class SGLangReplay(Replay):
    """Tokens in the order of the sequence stand for pages, as in the engine; slots are their ids."""

    def __init__(self, header: Header) -> None:
        super().__init__(header)
        self.kernels = replace_kernels()
        if not header.ranges:
            remove_ranges()
        self.pages, self.slots = make_pair(header)

    def reset(self) -> None:
        """See `Replay`."""
        self.pages.clear()
        self.slots.clear()

    def capacity(self) -> dict[str, int]:
        """See `Replay`."""
        return {
            "pages": self.pages.available_size() // self.page_size,
            "slots": self.slots.schedulable_available_size(),
        }

    def used(self) -> tuple[int, int]:
        """See `Replay`."""
        ends = self.pages
        return ends.full_attn_allocator.allocated_count() // self.page_size, ends.mamba_allocator.allocated_count()

    def violations(self) -> list[str]:
        """See `Replay`."""
        found: list[str] = self.pages.verify_byte_accounting()
        return found

    def take_pages(self, n: int) -> Any:
        """See `Replay`."""
        return self.pages.alloc(n * self.page_size)

    def take_slots(self, n: int) -> Any:
        """See `Replay`."""
        return self.slots.alloc(n)

    def take_both(self, pages: int, slots: int) -> tuple[Any, Any] | None:
        """See `Replay`."""
        got = self.slots.alloc(slots)
        if got is None:
            return None
        tokens = self.pages.alloc(pages * self.page_size)
        if tokens is None:
            self.slots.free(got)
            return None
        return tokens, got

    def give_pages(self, pages: Any) -> None:
        """See `Replay`."""
        self.pages.free_segment(pages, start_pos=0)

    def give_slots(self, slots: Any) -> None:
        """See `Replay`."""
        self.slots.free(slots)

    def tokens(self, pages: Any) -> int:
        """See `Replay`."""
        return len(pages)

    def row(self, one: Growth) -> torch.Tensor:
        """The tokens that a sequence has; the rest of its last page goes unused until now."""
        row: torch.Tensor = self.held[one.handle][0] if one.old else torch.empty(0, dtype=torch.int64)
        return row[: one.old]

    def grow_call(self, growths: list[Growth], kind: str) -> Callable[[], Any]:
        """See `Replay`."""
        total = sum(one.new - one.old for one in growths)
        if self.page_size == 1:
            return partial(self.pages.alloc, total)
        rows = [self.row(one) for one in growths]
        last = torch.tensor([int(row[-1]) if len(row) else -1 for row in rows])
        old, new = (torch.tensor([getattr(one, key) for one in growths]) for key in ("old", "new"))
        if kind == "decode":
            return partial(self.pages.alloc_decode, new, new, last)
        return partial(self.pages.alloc_extend, old, old, new, new, last, total)

    def grown(self, growths: list[Growth], result: Any) -> list[Any]:
        """See `Replay`."""
        parts = result.split([one.new - one.old for one in growths])
        return [torch.cat([self.row(one), part]) for one, part in zip(growths, parts, strict=True)]

    def flush_call(self, urgent: bool) -> Callable[[], int]:
        """See `Replay`."""
        ends = self.pages.full_attn_allocator, self.pages.mamba_allocator
        calls = [end.flush_for_allocation for end in ends] if urgent else [self.pages.flush_opportunistic]
        return lambda: sum(call() for call in calls)

    def variants(self, kind: str, result: Any, nanoseconds: int) -> dict[str, int]:
        """See `Replay`."""
        inside = sum(kernel.taken() for kernel in self.kernels)
        return {"": nanoseconds} | ({"_without_kernel": nanoseconds - inside} if inside else {})


def make(header: Header) -> tuple[Replay, dict[str, Any]]:
    """A replay, and what there is to say of it."""
    torch.set_num_threads(header.threads)
    stubs = stub_torchvision()
    return SGLangReplay(header), {"versions": {name: version(name) for name in ("sglang", "torch")}, "stubs": stubs}


if __name__ == "__main__":
    work("sglang", make, __doc__)
