"""UnifiedPool on a device, beside copies and torch: `python bench/unified_gpu.py --gpu | --smoke [--json FILE]`.

Moving and zeroing pages, telling the device of its page tables, translating tokens, writing keys and values, copying
and clearing conv windows; then a whole compaction, and what the pool takes of a decode step. `--smoke` runs everything
at tiny sizes in Triton's interpreter, where the times mean nothing. `--show FILE` prints the tables of a result as
Markdown. Needs torch, triton and numpy, and no installed poolproof.

Exit codes: 0 measured, whatever the figures; 1 something did not do what it should, or broke; 2 wrong use.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import hashlib
import importlib.util
import json
import os
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

if __name__ == "__main__" and "--smoke" in sys.argv:
    os.environ["TRITON_INTERPRET"] = "1"  # Triton looks at it when it is first imported

import numpy as np
import torch
from torch import Tensor

if importlib.util.find_spec("poolproof") is None:  # not installed: the checkout's folders, under their import names
    for _name, _folder in (("poolproof", "impl"), ("poolproof.kernels", "kernels"), ("poolproof.spec", "spec")):
        _home = Path(__file__).resolve().parent.parent / _folder
        _spec = importlib.util.spec_from_file_location(
            _name, _home / "__init__.py", submodule_search_locations=[str(_home)]
        )
        assert _spec is not None
        assert _spec.loader is not None
        sys.modules[_name] = importlib.util.module_from_spec(_spec)
        _spec.loader.exec_module(sys.modules[_name])

from codec import Clock, environment, name_of

import poolproof as pp
from poolproof.kernels.launch import Prepared
from poolproof.kernels.move_pages import MovePages
from poolproof.kernels.move_windows import CopyAndClearWindows
from poolproof.kernels.refresh_pages import RefreshPages
from poolproof.kernels.translate_tokens import TranslateTokens
from poolproof.kernels.write_kv import WriteKV
from poolproof.sub_pools import Declaration

ROOT = Path(__file__).resolve().parent.parent

Row = dict[str, Any]
Work = Callable[[], object]

MOVE_GOAL, MOVE_GOAL_PAGE = 0.93, 2**20
"""The part of a copy's rate that moving pages of so many bytes is to reach."""

PAGE_SIZE = 16
"""Tokens a page."""

FP8_LARGEST = 448.0
MODEL = "Qwen3-Next-80B-A3B"
_NOW = time.perf_counter_ns


# ------------------------------------------------------------------------------------------------------------ the plans


@dataclass(frozen=True)
class KV:
    """What a layer's keys and values look like."""

    kv_heads: int
    head_dim: int
    dtype: torch.dtype


@dataclass(frozen=True)
class Plan:
    """What is measured, and how often.

    Attributes:
        copy_bytes, flush_bytes, repeats, calls: of the clock, and of the rates that others stand beside.
        buffer, moved: bytes of the buffer whose pages are moved and zeroed, and how many at once.
        page_sizes, torch_sizes: bytes of a page; those at which torch is measured too.
        table, updates: entries of the page table, and how many are rewritten at once.
        both: bytes of a page, and how many are zeroed, in the launch that rewrites entries too.
        ids, tokens: of the translation.
        kv, kv_layers, kv_bytes, writes: the pools that keys and values are written to, and for how many tokens.
        declared: the sub-pools of the rest; with `declared_cached`, those of the conv windows.
        window_bytes, window_slots: the pool of the conv windows, and how many are copied, and as many cleared.
        compact_bytes, states, rounds: the buffer that is compacted, the states in it, and the rounds.
        decode_bytes, batch, prompt, life: a pool that serves so many sequences, with prompts of so many tokens, each
            for so many steps.
        warm, steps, device_steps, checked_steps: decode steps of each pass.
    """

    device: torch.device
    copy_bytes: int
    flush_bytes: int
    repeats: int
    calls: int
    buffer: int
    moved: int
    page_sizes: tuple[int, ...]
    torch_sizes: tuple[int, ...]
    table: int
    updates: tuple[int, ...]
    both: tuple[int, int]
    ids: int
    tokens: tuple[int, ...]
    kv: tuple[KV, ...]
    kv_layers: int
    kv_bytes: int
    writes: tuple[int, ...]
    declared: Callable[[bool], list[Declaration]]
    window_bytes: int
    window_slots: int
    compact_bytes: int
    states: int
    rounds: int
    decode_bytes: int
    batch: int
    prompt: int
    life: int
    warm: int
    steps: int
    device_steps: int
    checked_steps: int

    @property
    def is_cuda(self) -> bool:
        """Is there a device?"""
        return self.device.type == "cuda"


def shapes_of(heads: Sequence[int], dims: Sequence[int]) -> tuple[KV, ...]:
    """Every shape, in bfloat16 and in fp8."""
    dtypes = (torch.bfloat16, torch.float8_e4m3fn)
    return tuple(KV(n, dim, dtype) for dtype in dtypes for n in heads for dim in dims)


def full_plan() -> Plan:
    """The whole measurement."""
    return Plan(
        device=torch.device("cuda"),
        copy_bytes=2**31,
        flush_bytes=2**28,
        repeats=20,
        calls=500,
        buffer=2**33,
        moved=2**30,
        page_sizes=tuple(2**n for n in range(12, 27, 2)),
        torch_sizes=(2**12, 2**16, 2**20, 2**24),
        table=2**22,
        updates=(16, 256, 4096, 65536, 2**20),
        both=(384 * 2**10, 64),
        ids=2**20 + 1,
        tokens=(256, 4096, 65536, 2**20, 2**24),
        kv=shapes_of((8, 2), (128, 256)),
        kv_layers=12,
        kv_bytes=2**32,
        writes=(256, 8192),
        declared=lambda cached: pp.sub_pools_for(MODEL, page_size=PAGE_SIZE, dtype="bfloat16", checkpoints=cached),
        window_bytes=2**34,
        window_slots=64,
        compact_bytes=2**36,
        states=16,
        rounds=5,
        decode_bytes=2**35,
        batch=256,
        prompt=256,
        life=1024,
        warm=64,
        steps=1000,
        device_steps=100,
        checked_steps=32,
    )


def tiny(cached: bool) -> list[Declaration]:
    """Sub-pools of a model that there is not."""
    shape: dict[str, Any] = {"layers": 2, "conv_shapes": [(6, 3)], "temporal_shape": (1, 8, 16)}
    declared: list[Declaration] = [
        pp.KVPages("full", layers=1, kv_heads=1, head_dim=8, dtype="bfloat16", page_size=PAGE_SIZE, grows="up"),
        pp.StateSlots("state", conv_dtype="bfloat16", temporal_dtype="float32", grows="down", **shape),
    ]
    return [*declared, pp.Checkpoints("checkpoint", of="state", grows="float")] if cached else declared


def smoke_plan() -> Plan:
    """Everything, tiny."""
    return Plan(
        device=torch.device("cpu"),
        copy_bytes=2**12,
        flush_bytes=2**10,
        repeats=2,
        calls=1,
        buffer=2**18,
        moved=2**15,
        page_sizes=(2**12, 2**14),
        torch_sizes=(2**12,),
        table=2**11,
        updates=(16, 1000),
        both=(3 * 2**10, 4),
        ids=2**9 + 1,
        tokens=(256, 4096),
        kv=shapes_of((2,), (8,)),
        kv_layers=2,
        kv_bytes=2**16,
        writes=(4, 40),
        declared=tiny,
        window_bytes=2**17,
        window_slots=3,
        compact_bytes=2**15,
        states=2,
        rounds=5,
        decode_bytes=2**17,
        batch=4,
        prompt=20,
        life=16,
        warm=2,
        steps=12,
        device_steps=4,
        checked_steps=8,
    )


# -------------------------------------------------------------------------------------------------------------- clocks


def spread(samples: Sequence[int]) -> Row:
    """Nanoseconds as figures in microseconds."""
    found = sorted(sample / 1000 for sample in samples)
    return {
        "count": len(found),
        "least_us": round(found[0], 2),
        "median_us": round(statistics.median(found), 2),
        "p90_us": round(found[(9 * len(found) - 1) // 10], 2),
    }


@contextmanager
def undisturbed() -> Iterator[None]:
    """No garbage is collected meanwhile."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class Mark:
    """A point in time: an event on a device, or else the host's clock."""

    def __init__(self, is_cuda: bool) -> None:
        self._event = torch.cuda.Event(enable_timing=True) if is_cuda else None
        self._time = 0

    def set(self) -> None:
        """It is now."""
        if self._event is None:
            self._time = _NOW()
        else:
            self._event.record()

    def until(self, other: Mark) -> float:
        """Microseconds to a later one; the device has passed both."""
        if self._event is None or other._event is None:
            return (other._time - self._time) / 1000
        return float(self._event.elapsed_time(other._event)) * 1000


class Counter:
    """Counts launches of kernels, and copies from the host to the device."""

    def __init__(self) -> None:
        self.launches = self.copies = 0
        self._is_in_launch = False

    @contextmanager
    def on(self) -> Iterator[None]:
        """It counts meanwhile."""
        ways, copy = {name: getattr(Prepared, name) for name in ("launch", "launch_one")}, Tensor.copy_

        def counted_copy(target: Tensor, source: Tensor, *more: Any, **named: Any) -> Tensor:
            self.copies += target.is_cuda and not source.is_cuda
            return copy(target, source, *more, **named)

        Tensor.copy_ = counted_copy  # type: ignore[method-assign, assignment]
        for name, way in ways.items():
            setattr(Prepared, name, self._counted(way))
        try:
            yield
        finally:
            Tensor.copy_ = copy  # type: ignore[method-assign]
            for name, way in ways.items():
                setattr(Prepared, name, way)

    def _counted(self, way: Callable[..., None]) -> Callable[..., None]:
        """A way to launch that is counted, where it is not one by way of another."""

        def launch(*arguments: Any) -> None:
            is_first, self._is_in_launch = not self._is_in_launch, True
            self.launches += is_first
            try:
                way(*arguments)
            finally:
                self._is_in_launch = not is_first

        return launch


def make_pool(plan: Plan, total: int, declared: Sequence[Declaration], device: str = "", **options: Any) -> Any:
    """A pool on the plan's device; on the CPU too its bytes are a tensor, for kernels to work on."""
    if device == "meta":
        return pp.UnifiedPool(total, declared, device="meta", **options)
    if plan.is_cuda:
        return pp.UnifiedPool(total, declared, device="cuda", **options)
    made = type("TensorPool", (pp.UnifiedPool,), {"_open_bytes": pp.UnifiedPool._open_tensor})
    return made(total, declared, device="cpu", **options)


def empty_step(pool: Any) -> None:
    """A step that touches nothing: what was handed out is zeroed, and the device told of the tables."""
    step = pool.begin_step()
    step.launched()
    step.complete()
    step.retire()


# ----------------------------------------------------------------------------------------------------------- the bench


class Bench:
    """One run: every figure stands beside rates that were measured with it.

    A part that breaks is noted, and the others go on.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan, self.clock = plan, Clock(plan)  # type: ignore[arg-type]
        self.wrong: list[str] = []
        self.broken: dict[str, str] = {}
        self.copy, self.memset = self.rates()
        self.empty = self.clock.device(lambda: None)

    def rates(self) -> tuple[float, float]:
        """Bytes that a copy on the device reads and writes, and bytes that a memset writes, in TB/s."""
        size = self.plan.copy_bytes
        source = torch.zeros(size // 4, dtype=torch.int32, device=self.plan.device).random_()
        target = torch.empty_like(source)
        copied = 2 * size / self.clock.device(lambda: target.copy_(source)) / 1e6
        return copied, size / self.clock.device(target.zero_) / 1e6

    def figures(self) -> Row:
        """Everything, in the order of the tables."""
        found: Row = {"copy_TB_per_s": round(self.copy, 4), "memset_TB_per_s": round(self.memset, 4)}
        found["empty_us"] = round(self.empty, 2)
        parts: dict[str, Work] = {
            "launch": partial(nothing, self),
            "moves": partial(moves, self),
            "zeros": partial(zeros, self),
            "tables": partial(page_tables, self),
            "translation": partial(translation, self),
            "writes": partial(kv_writes, self),
            "windows": partial(windows, self),
            "decode": partial(decode, self),
            "compaction": partial(compaction, self),
        }
        for name, part in parts.items():
            found[name] = self.run(name, part)
        copied, zeroed = self.run("the rates at the end", self.rates) or (0.0, 0.0)
        found |= {"copy_TB_per_s_at_the_end": round(copied, 4), "memset_TB_per_s_at_the_end": round(zeroed, 4)}
        return found | {"right": not self.wrong and not self.broken, "wrong": self.wrong, "broken": self.broken}

    def run(self, name: str, part: Work) -> Any:
        """A part of the run; None where it broke."""
        start = time.perf_counter()
        try:
            self.release()
            return part()
        except Exception:
            self.broken[name] = traceback.format_exc()
            print(f"{name} broke:\n{self.broken[name]}", file=sys.stderr, flush=True)
            return None
        finally:
            print(f"{name}: {time.perf_counter() - start:.1f} s", file=sys.stderr, flush=True)

    def release(self) -> None:
        """The memory of what is gone can be had."""
        gc.collect()
        if self.plan.is_cuda:
            torch.cuda.empty_cache()

    def check(self, is_right: Any, what: str) -> None:
        """Note what is not as it should be."""
        if not bool(is_right) and what not in self.wrong:
            self.wrong.append(what)
            print(f"WRONG: {what}", file=sys.stderr, flush=True)

    def rate(self, count: int, microseconds: float) -> Row:
        """A time, and bytes of it as TB/s and as a part of a copy's."""
        rate = count / microseconds / 1e6
        return {
            "us": round(microseconds, 2),
            "TB_per_s": round(rate, 4),
            "of_copy": round(rate / self.copy, 4),
        }

    def floor(self, count: int) -> float:
        """Microseconds that a copy takes for so many bytes."""
        return count / self.copy / 1e6

    def host(self, work: Work) -> Row:
        """Time until a call returns; the device is never so far behind that calls wait for it."""
        work()
        found = []
        with undisturbed():
            for n in range(self.plan.calls):
                if n % 50 == 0:
                    self.clock.wait()
                begin = _NOW()
                work()
                found.append(_NOW() - begin)
        self.clock.wait()
        return spread(found)

    def numbers(self, values: Any) -> Tensor:
        """int64 on the device."""
        return torch.as_tensor(np.asarray(values, np.int64)).to(self.plan.device)

    def picked(self, many: int, n: int, seed: int = 0) -> Tensor:
        """n of many, each once, in no order."""
        generator = torch.Generator(self.plan.device).manual_seed(seed)
        return torch.randperm(many, generator=generator, device=self.plan.device)[:n]


# --------------------------------------------------------------------------------------------------------- the kernels


def nothing(bench: Bench) -> Row:
    """Device and host time of a launch that does nothing."""
    buffer = torch.zeros(2**14, dtype=torch.uint8, device=bench.plan.device)
    if not bench.plan.is_cuda:
        return {"us": round(bench.clock.device(lambda: None), 2), "host": bench.host(lambda: None)}
    move, none = MovePages(buffer, 2**12), bench.numbers([-1])
    work = partial(move, none, none)
    return {"us": round(bench.clock.device(work), 2), "host": bench.host(work)}


def moves(bench: Bench) -> list[Row]:
    """Pages copied between random places of a large buffer, over their sizes."""
    buffer = torch.empty(bench.plan.buffer, dtype=torch.uint8, device=bench.plan.device)
    buffer.view(torch.int64).random_()
    return [_moved(bench, buffer, size) for size in bench.plan.page_sizes]


def _moved(bench: Bench, buffer: Tensor, size: int) -> Row:
    plan, pages = bench.plan, buffer.numel() // size
    n = min(plan.moved // size, pages // 2)
    both = bench.picked(pages, 2 * n, size)
    sources, holes = both[:n], both[n:]
    rows = buffer.view(torch.int64).view(pages, size // 8)
    move = MovePages(buffer, size)
    kernel = bench.clock.device(lambda: move(sources, holes))
    bench.check(torch.equal(rows[holes], rows[sources]), f"moving pages of {size} bytes")
    count = 2 * n * size
    row: Row = {"page_bytes": size, "pages": n, "bytes": count, "kernel": bench.rate(count, kernel), "torch": None}
    if size in plan.torch_sizes:

        def in_torch() -> None:
            rows[holes] = rows[sources]

        row["torch"] = bench.rate(count, bench.clock.device(in_torch))
    return row


class Refresh:
    """A launch of RefreshPages on random pages and random entries, with its list on the device."""

    def __init__(self, bench: Bench, buffer: Tensor, table: Tensor, size: int, zeros: int, updates: int) -> None:
        self.refresh = RefreshPages(buffer, [size], table)
        self.pages = bench.picked(buffer.numel() // size, zeros, 1)
        self.places = bench.picked(table.numel(), updates, 2)
        self.values = torch.arange(1, updates + 1, device=bench.plan.device)
        packed = np.empty(self.refresh.length([zeros], updates), np.int64)
        on_host = [numbers.cpu().numpy() for numbers in (self.pages, self.places, self.values)]
        self.refresh.pack(packed, [on_host[0]], on_host[1], on_host[2])
        self._packed, self._counts = bench.numbers(packed), ([zeros], updates)
        self._rows = buffer[: buffer.numel() // size * size].view(-1, size)
        self._table = table

    def __call__(self) -> None:
        self.refresh(self._packed, *self._counts)

    def is_right(self) -> bool:
        """After a call: are the pages zeros, and the entries written?"""
        written = torch.equal(self._table[self.places].to(torch.int64), self.values)
        return written and not bool(self._rows.view(torch.int64)[self.pages].any())


def zeros(bench: Bench) -> list[Row]:
    """Random pages of a large buffer zeroed, over their sizes."""
    buffer = torch.empty(bench.plan.buffer, dtype=torch.uint8, device=bench.plan.device)
    table, found = torch.zeros(16, dtype=torch.int32, device=bench.plan.device), []
    for size in bench.plan.page_sizes:
        buffer.fill_(1)
        n = min(bench.plan.moved // size, buffer.numel() // size)
        work = Refresh(bench, buffer, table, size, n, 0)
        taken = bench.clock.device(work)
        bench.check(work.is_right(), f"zeroing pages of {size} bytes")
        rate = bench.rate(n * size, taken)
        rate["of_memset"] = round(rate["TB_per_s"] / bench.memset, 4)
        found.append({"page_bytes": size, "pages": n, "bytes": n * size, **rate})
    return found


def page_tables(bench: Bench) -> list[Row]:
    """Entries rewritten in random places, alone and with pages to zero in the same launch."""
    plan, (size, n) = bench.plan, bench.plan.both
    buffer = torch.ones(4 * n * size, dtype=torch.uint8, device=plan.device)
    table = torch.zeros(plan.table, dtype=torch.int32, device=plan.device)
    alone = bench.clock.device(Refresh(bench, buffer, table, size, n, 0))
    found = []
    for updates in plan.updates:
        work = Refresh(bench, buffer, table, size, 0, updates)
        taken, host = bench.clock.device(work), bench.host(work)
        bench.check(work.is_right(), f"{updates} updates of the table")
        both = Refresh(bench, buffer.fill_(1), table, size, n, updates)
        together = bench.clock.device(both)
        bench.check(both.is_right(), f"{updates} updates of the table and {n} pages to zero")
        count = updates * (16 + 4)
        row = {"updates": updates, "bytes": count, "us": round(taken, 2), "byte_floor_us": round(bench.floor(count), 3)}
        row |= {"zeroed_pages": n, "page_bytes": size, "zeros_us": round(alone, 2), "both_us": round(together, 2)}
        found.append(row | {"host": host})
    return found


def translation(bench: Bench) -> list[Row]:
    """Tokens translated, page by page and at random."""
    table = bench.picked(bench.plan.ids, bench.plan.ids, 3).to(torch.int32)
    translate = TranslateTokens(table, PAGE_SIZE, bench.plan.ids)
    return [
        _translated(bench, translate, n, dtype, order)
        for dtype in (torch.int64, torch.int32)
        for order in ("sequential", "random")
        for n in bench.plan.tokens
    ]


def _translated(bench: Bench, translate: TranslateTokens, n: int, dtype: torch.dtype, order: str) -> Row:
    plan, table = bench.plan, translate.table
    if order == "sequential":
        ids = bench.picked(plan.ids, -(-n // PAGE_SIZE), 4)
        tokens = (ids[:, None] * PAGE_SIZE + torch.arange(PAGE_SIZE, device=plan.device)).reshape(-1)[:n]
    else:
        generator = torch.Generator(plan.device).manual_seed(5)
        tokens = torch.randint(0, plan.ids * PAGE_SIZE, (n,), generator=generator, device=plan.device)
    tokens = tokens.to(dtype).contiguous()
    entries = int(torch.unique(tokens // PAGE_SIZE).numel())
    count = 2 * n * dtype.itemsize + 4 * entries
    out = torch.empty_like(tokens)

    def in_torch() -> Tensor:
        return table[tokens // PAGE_SIZE] * PAGE_SIZE + tokens % PAGE_SIZE

    kernel = bench.clock.device(lambda: translate(tokens, out))
    bench.check(torch.equal(out, in_torch().to(dtype)), f"translating {n} {order} tokens of {dtype}")
    row: Row = {"tokens": n, "dtype": name_of(dtype), "order": order, "entries": entries, "bytes": count}
    row |= {"byte_floor_us": round(bench.floor(count), 3), "kernel": bench.rate(count, kernel)}
    row["torch"] = bench.rate(count, bench.clock.device(in_torch))
    return row | {"host": bench.host(lambda: translate(tokens, out))}


# ------------------------------------------------------------------------------------------------ keys, values, windows


def kv_writes(bench: Bench) -> list[Row]:
    """Keys and values of one layer written to the pages of a pool."""
    found: list[Row] = []
    for shape in bench.plan.kv:
        name = f"writes, {shape.kv_heads} x {shape.head_dim} {name_of(shape.dtype)}"
        found += bench.run(name, partial(_written, bench, shape)) or ()
    return found


def _written(bench: Bench, shape: KV) -> list[Row]:
    plan = bench.plan
    declared = pp.KVPages(
        "full", layers=plan.kv_layers, kv_heads=shape.kv_heads, head_dim=shape.head_dim, dtype=shape.dtype,
        page_size=PAGE_SIZE, grows="up",
    )  # fmt: skip
    pool = make_pool(plan, plan.kv_bytes, [declared])
    full, views = pool["full"], pool.views("full")
    ids = np.random.default_rng(0).permutation(full.alloc(full.capacity()))
    empty_step(pool)
    found = []
    for n in plan.writes:
        if n <= plan.writes[0]:  # decode: a token of each of n sequences
            tokens = ids[:n] * PAGE_SIZE + np.random.default_rng(1).integers(0, PAGE_SIZE, n)
        else:  # prefill: whole pages
            tokens = (ids[: -(-n // PAGE_SIZE), None] * PAGE_SIZE + np.arange(PAGE_SIZE)).reshape(-1)[:n]
        physical = full.translate(bench.numbers(tokens))
        work = KVWork(views.k[plan.kv_layers // 2], views.v[plan.kv_layers // 2], shape, physical)
        found.append(_timed_write(bench, work, shape, n))
    return found


class KVWork:
    """Keys and values of some tokens, written to pages by the kernel and by torch."""

    def __init__(self, k_pages: Tensor, v_pages: Tensor, shape: KV, tokens: Tensor) -> None:
        generator = torch.Generator(tokens.device).manual_seed(6)
        size = (len(tokens), shape.kv_heads, shape.head_dim)
        make = partial(torch.randn, generator=generator, device=tokens.device)
        self.rows = [make(size).to(torch.bfloat16) for _ in range(2)]
        self.pages, self.tokens, self.is_fp8 = [k_pages, v_pages], tokens, shape.dtype != torch.bfloat16
        scales = [make(shape.kv_heads).abs() + 0.5 for _ in range(2)] if self.is_fp8 else [None, None]
        self.scales: list[Tensor | None] = list(scales)
        self.place = tokens // PAGE_SIZE, tokens % PAGE_SIZE
        self._bits = [pages.view(torch.uint8) if self.is_fp8 else pages for pages in self.pages]
        self._write = WriteKV(k_pages, v_pages)

    def kernel(self) -> None:
        """In one launch."""
        self._write(self.rows[0], self.rows[1], self.tokens, self.scales[0], self.scales[1])

    def torch(self) -> None:
        """By index, with the places worked out before."""
        for n, bits in enumerate(self._bits):
            bits[self.place] = self.stored(n)

    def stored(self, n: int) -> Tensor:
        """Keys or values as the pages hold them."""
        rows, scale = self.rows[n], self.scales[n]
        if scale is None:
            return rows
        wide = (rows.float() / scale[:, None]).clamp(-FP8_LARGEST, FP8_LARGEST)
        return wide.to(torch.float8_e4m3fn).view(torch.uint8)

    def is_right(self) -> bool:
        """Do the pages hold what they should?"""
        return all(torch.equal(bits[self.place], self.stored(n)) for n, bits in enumerate(self._bits))


def _timed_write(bench: Bench, work: KVWork, shape: KV, n: int) -> Row:
    name = f"{n} tokens of {shape.kv_heads} x {shape.head_dim} in {name_of(shape.dtype)}"
    elements = 2 * n * shape.kv_heads * shape.head_dim
    count = elements * (2 + shape.dtype.itemsize) + n * work.tokens.element_size()
    kernel = {cache: bench.clock.device(work.kernel, cache) for cache in ("cold", "warm")}
    bench.check(work.is_right(), f"writing {name}")
    in_torch = bench.clock.device(work.torch)
    row: Row = {"tokens": n, "kv_heads": shape.kv_heads, "head_dim": shape.head_dim, "dtype": name_of(shape.dtype)}
    row |= {"bytes": count, "byte_floor_us": round(bench.floor(count), 3), "kernel": bench.rate(count, kernel["cold"])}
    row |= {"warm_us": round(kernel["warm"], 2), "torch": bench.rate(count, in_torch)}
    return row | {"host": bench.host(work.kernel), "torch_host": bench.host(work.torch)}


def windows(bench: Bench) -> Row:
    """Conv windows of checkpoints copied to states, and those of further states cleared, in the pages of a pool."""
    plan, n = bench.plan, bench.plan.window_slots
    pool = make_pool(plan, plan.window_bytes, plan.declared(True))
    got = pool.alloc({"state": 2 * n, "checkpoint": n})
    source = bench.numbers(pool["checkpoint"].physical(got["checkpoint"]))
    both = bench.numbers(pool["state"].physical(got["state"]))
    target, clear = both[:n], both[n:]
    pairs = list(zip(pool.views("checkpoint").conv, pool.views("state").conv, strict=True))
    for a, b in pairs:
        a[:, source] = torch.randn(a[:, source].shape, device=plan.device).to(a.dtype)
        b[:, clear] = 1
    move = CopyAndClearWindows([a for a, _ in pairs], [b for _, b in pairs])

    def in_torch() -> None:
        for a, b in pairs:
            b[:, target] = a[:, source]
            b[:, clear] = 0

    kernel = bench.clock.device(lambda: move(source, target, clear))
    same = all(torch.equal(b[:, target], a[:, source]) and not bool(b[:, clear].any()) for a, b in pairs)
    bench.check(same, "copying and clearing conv windows")
    each = sum(a.shape[0] * a.shape[2] * a.shape[3] * a.element_size() for a, _ in pairs)
    row: Row = {"copied": n, "cleared": n, "slot_bytes": each, "bytes": 3 * n * each}
    row |= {"kernel": bench.rate(3 * n * each, kernel)}
    row |= {"torch": bench.rate(3 * n * each, bench.clock.device(in_torch))}
    return row | {"host": bench.host(lambda: move(source, target, clear)), "torch_host": bench.host(in_torch)}


# --------------------------------------------------------------------------------------------------------- compaction


class Fragmented:
    """A full pool, a random half of whose KV pages are freed again and again."""

    def __init__(self, bench: Bench, total: int) -> None:
        self.bench, self.total = bench, total
        self.pool = make_pool(bench.plan, total, bench.plan.declared(False))
        self.pool["state"].alloc(bench.plan.states)
        self.full = self.pool["full"]
        self.page_bytes = self.full.layout.page_bytes
        self.ids = self.full.alloc(self.full.capacity())
        pages = total // self.page_bytes
        self.words = self.pool.buffer[: pages * self.page_bytes].view(torch.int64).view(pages, self.page_bytes // 8)
        self._rng = np.random.default_rng(0)
        self._missing = 0

    def fill(self) -> Tensor:
        """All pages are owned and of random content, stamped with their ids at both ends; the sums of the pages."""
        self.ids = np.concatenate([self.ids, self.full.alloc(self._missing)])
        empty_step(self.pool)
        self.words.random_()
        self.pool.buffer[: self.pool.sink_bytes] = 0
        pages, ids = (self.bench.numbers(numbers) for numbers in (self.full.physical(self.ids), self.ids))
        self.words[pages, 0], self.words[pages, -1] = ids, ~ids
        return self.words.sum(1)[pages]

    def thin_out(self) -> Tensor:
        """Free a random half; where the others are in the list of ids before."""
        order = self._rng.permutation(len(self.ids))
        kept = np.sort(order[len(order) // 2 :])
        self.full.free(self.ids[order[: len(order) // 2]])
        self._missing, self.ids = len(order) // 2, self.ids[kept]
        return self.bench.numbers(kept)

    def is_right(self, sums: Tensor) -> bool:
        """Does every page hold what it held, where the device's own table says that it is?"""
        numbers, ids = self.bench.numbers, self.bench.numbers(self.ids)
        pages = self.full.translate(ids * PAGE_SIZE) // PAGE_SIZE
        same = torch.equal(pages, numbers(self.full.physical(self.ids)))
        same &= torch.equal(self.words[pages, 0], ids) and torch.equal(self.words[pages, -1], ~ids)
        return same and torch.equal(self.words.sum(1)[pages], sums) and self.pool.check() == []


def compaction(bench: Bench) -> list[Row]:
    """Rounds of an urgent compaction, the first of which compiles.

    In every other round the device is kept busy until all is queued, so that its own time is seen.
    """
    plan, total = bench.plan, bench.plan.compact_bytes
    if plan.is_cuda:
        total = min(total, int(torch.cuda.mem_get_info()[0] * 0.8) // 2**30 * 2**30)
    fragmented = Fragmented(bench, total)
    return [_compacted(bench, fragmented, is_busy=n % 2 == 0) for n in range(plan.rounds)][1:]


def _compacted(bench: Bench, fragmented: Fragmented, is_busy: bool) -> Row:
    pool, counter = fragmented.pool, Counter()
    sums = fragmented.fill()
    sums = sums[fragmented.thin_out()]
    start, stop = Mark(bench.plan.is_cuda), Mark(bench.plan.is_cuda)
    bench.clock.wait()
    with undisturbed(), counter.on():
        if is_busy and bench.plan.is_cuda:
            torch.cuda._sleep(400_000_000)  # cycles, some 200 milliseconds
        start.set()
        begin = _NOW()
        moved = pool.compact(urgent=True)
        host = _NOW() - begin
        stop.set()
        bench.clock.wait()
        wall = _NOW() - begin
    taken, pages = start.until(stop), sum(len(move.ids) for move in moved)
    begin = _NOW()
    empty_step(pool)
    told = _NOW() - begin
    bench.check(fragmented.is_right(sums), "pages after a compaction")
    count = 2 * pages * fragmented.page_bytes
    row: Row = {"buffer": fragmented.total, "page_bytes": fragmented.page_bytes, "pages": pages, "bytes": count}
    row |= {"is_busy": is_busy, "launches": counter.launches, "copies": counter.copies}
    row["host_us"] = round(host / 1000, 1)
    row |= {"device": bench.rate(count, taken), "wall_us": None if is_busy else round(wall / 1000, 1)}
    return row | {"telling_the_device_host_us": round(told / 1000, 1)}


# -------------------------------------------------------------------------------------------------------- decode steps

CALLS = ("extend", "begin_step", "translate", "launched", "complete", "retire", "free", "admit", "step")


class Decode:
    """A pool that serves a batch: a token each a step, and from time to time a sequence ends and another one begins."""

    def __init__(self, bench: Bench, kind: str, device: str, **options: Any) -> None:
        self.bench, self.plan, self.kind, plan = bench, bench.plan, kind, bench.plan
        self.pool = make_pool(plan, plan.decode_bytes, plan.declared(False), device, **options)
        self.full, self.state, self.is_meta = self.pool["full"], self.pool["state"], device == "meta"
        if not self.is_meta and not options.get("guard"):
            self.pool.buffer[self.pool.sink_bytes :] = 1
        held = self.full.alloc(16)
        self.lens = plan.prompt + np.arange(plan.batch) * plan.life // plan.batch
        self.ids = np.zeros((plan.batch, -(-(plan.prompt + plan.life) // PAGE_SIZE) + 1), np.int64)
        for row, n in enumerate(-(-self.lens // PAGE_SIZE)):
            self.ids[row, :n] = self.full.alloc(int(n))
        self.slots = self.state.alloc(plan.batch)
        self.tails = self.ids[np.arange(plan.batch), (self.lens - 1) // PAGE_SIZE]
        self.lease = None
        empty_step(self.pool)
        if kind == "one lease":
            self.lease = self.pool.lease("full", held, "bench")
        self.tokens = torch.zeros(plan.batch, dtype=torch.int64, device="meta" if self.is_meta else plan.device)
        self.found = torch.zeros_like(self.tokens)
        self.times: dict[str, list[int]] = {name: [] for name in CALLS}
        self.number = 0

    def timed(self, name: str, work: Callable[[], Any]) -> Any:
        """Do work, and note how long the call took."""
        begin = _NOW()
        result = work()
        self.times[name].append(_NOW() - begin)
        return result

    def turn_over(self) -> None:
        """The longest sequence ends, and a new one begins."""
        row = int(self.lens.argmax())
        pages = self.ids[row, : -(-self.lens[row] // PAGE_SIZE)].copy()
        slot = self.slots[row : row + 1].copy()

        def free() -> None:
            self.full.free(pages)
            self.state.free(slot)

        self.timed("free", free)
        n = -(-self.plan.prompt // PAGE_SIZE)
        got = self.timed("admit", partial(self.pool.alloc, {"full": n, "state": 1}))
        self.lens[row] = self.plan.prompt
        self.ids[row, :n], self.slots[row] = got["full"], got["state"][0]
        self.tails[row] = got["full"][-1]

    def extend(self) -> Any:
        """Every sequence gets a token; the new pages."""
        self.number += 1
        if self.number % max(1, self.plan.life // self.plan.batch) == 0:
            self.turn_over()
        old, size = self.lens, PAGE_SIZE
        got = self.timed("extend", partial(self.full.extend, self.tails, old, old + 1))
        rows = np.flatnonzero(old % size == 0)
        self.ids[rows, old[rows] // size] = self.tails[rows] = got
        if not self.is_meta:
            self.bring(torch.from_numpy(self.tails * size + old % size))
        self.lens = old + 1
        return got

    def bring(self, tokens: Tensor) -> None:
        """The engine brings the tokens of a step to the device; nothing waits for it."""
        self.tokens.copy_(tokens.pin_memory() if self.plan.is_cuda else tokens, non_blocking=True)

    def writes(self) -> dict[str, Any]:
        """What a step writes."""
        return {"full": self.tails, **({"state": self.slots} if self.kind == "states written too" else {})}

    def reads(self) -> dict[str, Any] | None:
        """What a step reads."""
        if self.kind != "all pages read too":
            return None
        there = np.arange(self.ids.shape[1]) * PAGE_SIZE < self.lens[:, None]
        return {"full": self.ids[there]}

    def step(self, marks: Sequence[Mark] = ()) -> Any:
        """One step; the pages that it was given."""
        before = {name: len(times) for name, times in self.times.items()}
        got, reads, writes = self.extend(), self.reads(), self.writes()
        if marks and self.plan.is_cuda:
            self.bench.clock.wait()
            torch.cuda._sleep(8_000_000)  # cycles, about four milliseconds: until all is queued
        for mark in marks[:1]:
            mark.set()
        step = self.timed("begin_step", partial(self.pool.begin_step, reads, writes))
        for mark in marks[1:2]:
            mark.set()
        if not self.is_meta:
            self.timed("translate", partial(self.full.translate, self.tokens, out=self.found))
        for mark in marks[2:]:
            mark.set()
        for name in ("launched", "complete", "retire"):
            self.timed(name, getattr(step, name))
        self.times["step"].append(sum(sum(times[before[name] :]) for name, times in self.times.items()))
        return got

    def checked(self, got: Any) -> None:
        """Were the tokens found, and the new pages zeroed?"""
        physical = self.bench.numbers(self.full.physical(self.tails) * PAGE_SIZE + (self.lens - 1) % PAGE_SIZE)
        self.bench.check(torch.equal(self.found, physical), f"tokens of a decode step, {self.kind}")
        views, pages = self.pool.views("full"), self.bench.numbers(self.full.physical(got))
        is_zero = not any(bool(part[pages].any()) for part in (*views.k, *views.v))
        self.bench.check(is_zero, f"new pages of a decode step, {self.kind}")

    def row(self) -> Row:
        """Host time of the calls, device time of the pool's own work, and what was launched."""
        for _ in range(self.plan.warm):
            self.step()
        self.times = {name: [] for name in CALLS}
        with undisturbed():
            for n in range(self.plan.steps // (4 if self.kind == "guard on" else 1)):
                if n % 50 == 0:
                    self.bench.clock.wait()
                self.step()
        row: Row = {"kind": self.kind, "batch": self.plan.batch, "buffer": self.plan.decode_bytes}
        row["host"] = {name: spread(times) for name, times in self.times.items() if times}
        row |= {"device": None, "launches": None, "copies": None} if self.is_meta else self.on_the_device()
        if self.lease is not None:
            self.lease.release()
        return row

    def on_the_device(self) -> Row:
        """Device time of the pool's own work in a step, and launches and copies of a step."""
        parts = []
        for _ in range(self.plan.device_steps):
            marks = [Mark(self.plan.is_cuda) for _ in range(3)]
            self.step(marks)
            self.bench.clock.wait()
            parts.append((marks[0].until(marks[1]), marks[1].until(marks[2])))
        counter, steps, each = Counter(), self.plan.checked_steps, [sum(part) for part in parts]
        device = {
            "begin_step_us": round(statistics.median(part[0] for part in parts), 2),
            "translate_us": round(statistics.median(part[1] for part in parts), 2),
            "step_us": round(statistics.median(each), 2),
            "mean_step_us": round(statistics.mean(each), 2),
        }
        for _ in range(steps):
            with counter.on():
                got = self.step()
            self.checked(got)
        engine = steps if self.plan.is_cuda else 0  # the tokens, which the engine brings to the device
        return {
            "device": device,
            "launches": round(counter.launches / steps, 2),
            "copies": round((counter.copies - engine) / steps, 2),
        }


def decode(bench: Bench) -> list[Row]:
    """Steady decoding, in several ways."""
    found = [
        bench.run(f"decode, {kind}", partial(_decoded, bench, kind, guard=kind == "guard on"))
        for kind in ("guard off", "one lease", "states written too", "all pages read too", "guard on")
    ]
    found.append(bench.run("decode, meta", partial(_decoded, bench, "device='meta'", "meta")))
    return [row for row in found if row is not None]


def _decoded(bench: Bench, kind: str, device: str = "", **options: Any) -> Row:
    return Decode(bench, kind, device, **options).row()


# ----------------------------------------------------------------------------------------------------------- the report

Table = tuple[str, Sequence[str], list[list[str]]]


def source_hash() -> str:
    """What was measured: a digest of the sources of the kernels and the pool."""
    files = [file for folder in ("kernels", "impl") for file in sorted((ROOT / folder).glob("*.py"))]
    texts = (file.name.encode() + file.read_bytes() for file in files)
    return hashlib.sha256(b"".join(texts)).hexdigest()[:16]


def size_of(count: int) -> str:
    """Bytes in the largest unit that they are a whole number of."""
    for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if count >= 2**power and count % 2**power == 0:
            return f"{count >> power:,} {unit}"
    return f"{count:,} B"


def _us(value: float) -> str:
    return f"{value:.1f}" if value < 1000 else f"{value:,.0f}"


def _rates(part: Row | None) -> list[str]:
    if part is None:
        return ["", "", ""]
    return [_us(part["us"]), f"{part['TB_per_s']:.3f}", f"{part['of_copy']:.3f}"]


def _host(part: Row) -> str:
    return f"{_us(part['least_us'])} / {_us(part['median_us'])}"


def _move_table(rows: list[Row]) -> Table:
    lines = [[size_of(r["page_bytes"]), f"{r['pages']:,}", *_rates(r["kernel"]), *_rates(r["torch"])] for r in rows]
    heads = ("page", "pages", "us", "TB/s", "of copy", "torch us", "torch TB/s", "torch of copy")
    return "Pages moved between random places, L2 cold; bytes read and written", heads, lines


def _zero_table(rows: list[Row]) -> Table:
    lines = [[size_of(r["page_bytes"]), f"{r['pages']:,}", *_rates(r)[:2], f"{r['of_memset']:.3f}"] for r in rows]
    return "Random pages zeroed, L2 cold", ("page", "pages", "us", "TB/s", "of memset"), lines


def _update_table(rows: list[Row], result: Row) -> Table:
    launch = (result["launch"] or {"us": 0})["us"]
    lines = []
    for r in rows:
        floor, both = r["byte_floor_us"] + launch, r["zeros_us"] + r["byte_floor_us"]
        line = [f"{r['updates']:,}", f"{r['us']:.1f}", f"{r['byte_floor_us']:.2f}", f"{floor / r['us']:.2f}"]
        lines.append(
            [*line, _host(r["host"]), f"{r['zeros_us']:.1f}", f"{r['both_us']:.1f}", f"{both / r['both_us']:.2f}"]
        )
    first = rows[0]
    zeroed = f"{first['zeroed_pages']} pages of {size_of(first['page_bytes'])}"
    title = f"Table entries rewritten, alone and while {zeroed} are zeroed; a launch that does nothing: {launch:.1f} us"
    heads = (
        "entries",
        "us",
        "bytes at copy's rate, us",
        "of bytes and launch",
        "host least / median",
        "zeros alone, us",
    )
    return title, (*heads, "both, us", "of zeros and bytes"), lines


def _translation_table(rows: list[Row]) -> Table:
    lines = [
        [
            f"{r['tokens']:,} {r['dtype']} {r['order']}",
            *(f"{r['kernel']['us']:.1f}", f"{r['byte_floor_us']:.2f}", f"{r['kernel']['of_copy']:.3f}"),
            *(f"{r['torch']['us']:.1f}", f"{r['torch']['us'] / r['kernel']['us']:.1f}", _host(r["host"])),
        ]
        for r in rows
    ]
    heads = ("tokens", "us", "bytes at copy's rate, us", "of copy", "torch us", "times faster", "host least / median")
    return "Tokens translated, L2 cold; bytes of tokens and of the entries that they need", heads, lines


def _write_table(rows: list[Row]) -> Table:
    lines = [
        [
            f"{r['tokens']:,} tokens, {r['kv_heads']} x {r['head_dim']}, {r['dtype']}",
            *(_us(r["kernel"]["us"]), f"{r['byte_floor_us']:.2f}", f"{r['kernel']['of_copy']:.3f}"),
            *(_us(r["warm_us"]), _us(r["torch"]["us"]), f"{r['torch']['us'] / r['kernel']['us']:.1f}"),
            *(_host(r["host"]), _host(r["torch_host"])),
        ]
        for r in rows
    ]
    heads = ("bfloat16 to", "us", "bytes at copy's rate, us", "of copy", "L2 warm us", "torch us", "times faster")
    title = "Keys and values of one layer written to pages, L2 cold; torch is given page and offset"
    return title, (*heads, "host least / median", "torch host"), lines


def _window_table(r: Row) -> Table:
    line = [f"{r['copied']} copied, {r['cleared']} cleared", *_rates(r["kernel"]), *_rates(r["torch"])[:2]]
    line += [f"{r['torch']['us'] / r['kernel']['us']:.1f}", _host(r["host"]), _host(r["torch_host"])]
    heads = ("slots", "us", "TB/s", "of copy", "torch us", "torch TB/s", "times faster", "host least / median")
    return f"Conv windows of {size_of(r['slot_bytes'])} a slot, L2 cold", (*heads, "torch host"), [line]


def _compaction_table(rows: list[Row]) -> Table:
    lines = [
        [
            "queued before it starts" if r["is_busy"] else "as it is",
            *(f"{r['pages']:,}", f"{r['bytes'] / 1e9:.2f}", f"{r['launches']}", f"{r['copies']}"),
            *(_us(r["host_us"]), *_rates(r["device"]), "" if r["wall_us"] is None else _us(r["wall_us"])),
            _us(r["telling_the_device_host_us"]),
        ]
        for r in rows
    ]
    heads = ("device", "pages", "GB read and written", "own kernels", "copies to the device", "host us")
    title = f"Urgent compaction of a buffer of {size_of(rows[0]['buffer'])}, pages of {size_of(rows[0]['page_bytes'])}"
    return title, (*heads, "between events us", "TB/s", "of copy", "until all is over us", "next step, host us"), lines


def _decode_tables(rows: list[Row]) -> list[Table]:
    names = [name for name in CALLS if any(name in r["host"] for r in rows)]
    kinds = [r["kind"] for r in rows]
    lines = []
    for name in names:
        found = [r["host"].get(name) for r in rows]
        cells = [f"{_host(f)} / {_us(f['p90_us'])}" if f is not None else "" for f in found]
        lines.append(["all calls of a step" if name == "step" else name, *cells])
    title = f"Host us of a decode step at batch {rows[0]['batch']}: least / median / p90"
    there = [r for r in rows if r["device"] is not None]
    device = [
        [
            r["kind"],
            *(f"{r['device'][key]:.1f}" for key in ("begin_step_us", "translate_us", "step_us", "mean_step_us")),
            *(f"{r[key]:.2f}" for key in ("launches", "copies")),
        ]
        for r in there
    ]
    heads = ("pool", "zeros and tables us", "translation us", "both us", "mean us", "own kernels", "copies to it")
    return [(title, ("call", *kinds), lines), ("Device time of a decode step, median between events", heads, device)]


def goals(result: Row) -> list[list[str]]:
    """Every goal: what, what was found, and is it met?"""
    found = []
    for row in result["moves"] or ():
        if row["page_bytes"] == MOVE_GOAL_PAGE:
            part = row["kernel"]["of_copy"]
            what = f"moving pages of {size_of(MOVE_GOAL_PAGE)}: at least {MOVE_GOAL} of copy"
            found.append([what, f"{part:.3f}", "met" if part >= MOVE_GOAL else "MISSED"])
    bad = [*result["wrong"], *(f"{name} broke" for name in result["broken"])]
    found.append(["every part did what it should", ", ".join(bad) or "all of them", "MISSED" if bad else "met"])
    return found


def tables(result: Row) -> list[Table]:
    """The figures as tables of text: title, heads, rows. What broke has none."""
    makers: dict[str, Callable[[Any], list[Table]]] = {
        "moves": lambda rows: [_move_table(rows)],
        "zeros": lambda rows: [_zero_table(rows)],
        "tables": lambda rows: [_update_table(rows, result)],
        "translation": lambda rows: [_translation_table(rows)],
        "writes": lambda rows: [_write_table(rows)],
        "windows": lambda row: [_window_table(row)],
        "compaction": lambda rows: [_compaction_table(rows)],
        "decode": _decode_tables,
    }
    return [table for name, make in makers.items() if result[name] for table in make(result[name])]


def heading(result: Row) -> str:
    """Where and when, and the rates that all else stands beside."""
    where = f"{result['card']}, driver {result['driver']}, torch {result['torch']}, triton {result['triton']}"
    where = f"smoke run, its times mean nothing: {where}" if result["smoke"] else where
    stale = ", STALE: the sources have changed since" if result["source"] != source_hash() else ""
    rates = f"copy {result['copy_TB_per_s']:.3f} TB/s (at the end {result['copy_TB_per_s_at_the_end']:.3f})"
    rates += f", memset {result['memset_TB_per_s']:.3f} TB/s, nothing between two events {result['empty_us']:.1f} us"
    return f"{where}, {result['date']}, sources {result['source']}{stale}; {rates}"


def markdown(result: Row) -> str:
    """The figures as Markdown."""
    parts = [heading(result)]
    for title, heads, rows in tables(result):
        lines = ["| " + " | ".join(row) + " |" for row in [list(heads), *rows]]
        lines.insert(1, "|---" + "|---:" * (len(heads) - 1) + "|")
        parts += [f"{title}:", "\n".join(lines)]
    return "\n\n".join([*parts, "Goals: " + "; ".join(f"{a}: {b}, {c}" for a, b, c in goals(result))])


def measure(plan: Plan) -> Row:
    """One run."""
    before = source_hash()
    result = {
        "what": "UnifiedPool on a device: microseconds between CUDA events, medians, and of host time; `of_copy` is "
        "the part of what a copy on the device reads and writes a second",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": f"python bench/unified_gpu.py {'--gpu' if plan.is_cuda else '--smoke'} --json FILE",
        **environment(plan),  # type: ignore[arg-type]
        "source": before,
        "smoke": not plan.is_cuda,
        "repeats": plan.repeats,
        **Bench(plan).figures(),
    }
    if before != source_hash():
        result["source"] = f"{before}, and {source_hash()} at the end"
    return result


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    kind = parser.add_mutually_exclusive_group(required=True)
    kind.add_argument("--gpu", action="store_true", help="measure on a CUDA device")
    kind.add_argument("--smoke", action="store_true", help="try everything at tiny sizes in Triton's interpreter")
    kind.add_argument("--show", type=Path, metavar="FILE", help="print the tables of a result as Markdown")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here too")
    options = parser.parse_args()
    if options.show is not None:
        if options.json:
            parser.error("--show measures nothing: leave --json out")
        try:
            print(markdown(json.loads(options.show.read_text())))
        except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            parser.error(f"{options.show} is no result of this program: {error!r}")
        return
    if options.json and not options.json.parent.is_dir():
        parser.error(f"--json {options.json}: there is no folder {options.json.parent}")
    if options.gpu and not torch.cuda.is_available():
        parser.error("--gpu needs a CUDA device, and torch finds none")
    result = measure(full_plan() if options.gpu else smoke_plan())
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    print(markdown(result))
    if not result["right"]:
        sys.exit(f"not right: {', '.join([*result['wrong'], *result['broken']])}: the figures are worth nothing")


if __name__ == "__main__":
    main()
