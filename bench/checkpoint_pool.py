"""What a hit costs: `python bench/checkpoint_pool.py --gpu | --host | --smoke [--json FILE]`.

Hits, donations and tracks of `poolproof.CheckpointPool`, at the shape of Qwen3-Next's states in bfloat16: int8
checkpoints and plain copies, in one buffer with the states and in one of their own. Host time without bytes, and with
the launches while the device is idle and while it is busy; device time with a cold and a warm L2 cache. Then the host
time of `poolproof.StateCache` for prompts of 10,000 tokens, without bytes.

`--host` leaves the device out, and runs on the CPU at tiny sizes too. `--smoke` tries everything at tiny sizes in
Triton's interpreter, where the times mean nothing. `--show FILE` prints a result as Markdown; `--docs` puts the
committed one into docs/. Needs torch, triton and numpy, and no installed poolproof.

Exit codes: 0 measured, whatever the figures; 1 something did not do what it should, or broke; 2 wrong use.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import importlib.util
import json
import os
import re
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final

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

from codec import Clock, environment
from unified_gpu import Counter, Mark, empty_step, make_pool, size_of, source_hash, spread, undisturbed

import poolproof as pp
from poolproof.kernels import codec as reference
from poolproof.sub_pools import Codec, Declaration

ROOT = Path(__file__).resolve().parent.parent
RESULT, PAGE, PART = ROOT / "bench" / "results" / "checkpoint_pool.json", ROOT / "docs" / "checkpoints.md", "hit costs"

Row = dict[str, Any]
Table = tuple[str, Sequence[str], list[list[str]]]

MODEL, PAGE_SIZE = "Qwen3-Next-80B-A3B", 16
LENGTH: Final = 4096
"""Tokens that the states of nodes have seen."""

HOST_GOAL: Final = 10.0
"""Microseconds of host time that a hit may take."""

DEVICE_PART, DEVICE_EXTRA = 0.9, 2.0
"""On the device a copy may take its bytes at this part of a copy's rate, and so many microseconds."""

WORKS: Final = (
    *("hit", "lock, hit, release", "a hit of several", "donate", "donate, beyond the others"),
    *("donate, add_node, publish", "track", "finish", "evict"),
)
"""What is timed, in the order of the tables."""

ON_DEVICE: Final = ("hit", "a hit of several", "donate", "track")
"""Of these, what the device is timed for: the others give it the same work, or none."""

WAYS: Final = {
    "meta": "without bytes",
    "idle": "with launches, device idle",
    "busy": "with launches, device busy",
    "cpu": "on the CPU at tiny sizes",
}
"""How host time is taken."""

HOLD: Final = 20_000_000
"""Cycles that the device is held up for while calls are queued, about ten milliseconds."""

GROUP: Final = 24
"""So many calls are made before the device is waited for: far fewer launches than its queue has room for."""

_NOW = time.perf_counter_ns


# ------------------------------------------------------------------------------------------------------------ the plans


@dataclass(frozen=True)
class Shape:
    """Pools to measure in.

    Attributes:
        declared: sub-pools for a codec; None for those without checkpoints.
        buffer: bytes.
        nodes: with a checkpoint each.
        several: hits in a row.
    """

    declared: Callable[[Codec | None], list[Declaration]]
    buffer: int
    nodes: int
    several: int


@dataclass(frozen=True)
class Plan:
    """What is measured, and how often.

    Attributes:
        name: the option that asks for it.
        device: cuda, or cpu without one.
        copy_bytes, flush_bytes, repeats, calls: of the clock; `calls` with launches or on the CPU too.
        meta_calls: calls without bytes.
        meta, real: the pools without bytes, and those with.
        prompt, shared: tokens of a prompt, and those of its beginning that others have too.
        prefixes: such beginnings in the cache.
        roomy, full: bytes of its buffer where there is room for all, and where there is not.
        warm, rounds: requests before the timed ones, and those.
    """

    name: str
    device: torch.device
    copy_bytes: int
    flush_bytes: int
    repeats: int
    calls: int
    meta_calls: int
    meta: Shape
    real: Shape
    prompt: int
    shared: int
    prefixes: int
    roomy: int
    full: int
    warm: int
    rounds: int

    @property
    def is_cuda(self) -> bool:
        """Is there a device?"""
        return self.device.type == "cuda"

    @property
    def has_device_times(self) -> bool:
        """Is the device timed, or in a smoke run what stands for it?"""
        return self.name != "--host"


def with_codec(declared: Sequence[Declaration], codec: Codec | None) -> list[Declaration]:
    """The same, with checkpoints of this codec before the states, which are the last; for None without any."""
    cached = [] if codec is None else [pp.Checkpoints("checkpoint", of="state", codec=codec, grows="float")]
    return [*declared[:-1], *cached, declared[-1]]


def gdn(codec: Codec | None) -> list[Declaration]:
    """36 layers of states (32, 128, 128) and windows (8192, 3), KV of 12 layers of 2 heads of 256, all bfloat16."""
    declared = pp.sub_pools_for(MODEL, page_size=PAGE_SIZE, dtype="bfloat16", temporal_dtype="bfloat16")
    return with_codec(declared, codec)


def tiny(codec: Codec | None) -> list[Declaration]:
    """Sub-pools of a model that there is not."""
    shape: dict[str, Any] = {"layers": 1, "conv_shapes": [(6, 3)], "temporal_shape": (1, 8, 16)}
    declared: list[Declaration] = [
        pp.KVPages("full", layers=1, kv_heads=1, head_dim=8, dtype="bfloat16", page_size=PAGE_SIZE, grows="up"),
        pp.StateSlots("state", conv_dtype="bfloat16", temporal_dtype="bfloat16", grows="down", **shape),
    ]
    return with_codec(declared, codec)


GDN = Shape(gdn, buffer=12 * 2**30, nodes=48, several=16)
TINY = Shape(tiny, buffer=2**16, nodes=4, several=2)


def full_plan(name: str) -> Plan:
    """The whole measurement, on the device or without one."""
    has_device = name == "--gpu"
    return Plan(
        name=name,
        device=torch.device("cuda" if has_device else "cpu"),
        copy_bytes=2**31,
        flush_bytes=2**28 if has_device else 4,
        repeats=20,
        calls=240 if has_device else 96,
        meta_calls=600,
        meta=GDN,
        real=GDN if has_device else TINY,
        prompt=10_000,
        shared=9_600,
        prefixes=8,
        roomy=2**37,
        full=6 * 2**30,
        warm=200,
        rounds=100,
    )


def smoke_plan() -> Plan:
    """Everything, tiny."""
    return Plan(
        name="--smoke",
        device=torch.device("cpu"),
        copy_bytes=2**12,
        flush_bytes=2**10,
        repeats=1,
        calls=1,
        meta_calls=2,
        meta=GDN,
        real=TINY,
        prompt=320,
        shared=160,
        prefixes=2,
        roomy=2**32,
        full=2**28,
        warm=2,
        rounds=2,
    )


# ----------------------------------------------------------------------------------------------------------- the pools


@dataclass(frozen=True)
class Kind:
    """How checkpoints are kept: by which codec, and in one buffer with the states or in one of their own."""

    codec: Codec
    is_beside: bool

    @property
    def name(self) -> str:
        """For tables."""
        return f"{'int8' if self.codec == 'int8' else 'copies'}, {'two buffers' if self.is_beside else 'one buffer'}"


CODECS: Final[tuple[Codec, ...]] = ("int8", "none")
KINDS: Final = tuple(Kind(codec, is_beside) for is_beside in (False, True) for codec in CODECS)


@dataclass(frozen=True)
class Work:
    """Something to time.

    Attributes:
        before: what makes it possible; the rest is given what it returns.
        call: what is timed.
        after: brings back what was before, given what both returned.
        each: how many of it one call does.
    """

    before: Callable[[], Any]
    call: Callable[[Any], Any]
    after: Callable[[Any, Any], object]
    each: int = 1

    def once(self) -> None:
        """Do it, and bring back what was before."""
        given = self.before()
        self.after(given, self.call(given))


class Subject:
    """Pools with checkpoints of nodes in them, and request 0, which runs and has track buffers.

    One checkpoint slot among the others is free, as in a cache that has evicted.
    """

    def __init__(self, plan: Plan, shape: Shape, where: str, kind: Kind) -> None:
        self.shape, self.where, self.kind = shape, where, kind
        declared = shape.declared(None if kind.is_beside else kind.codec)
        self.pool = make_pool(plan, shape.buffer, declared, where)  # type: ignore[arg-type]
        if kind.is_beside:
            self.states = pp.CheckpointPool.beside(self.pool["state"], 2 * shape.nodes, codec=kind.codec)
        else:
            self.states = pp.CheckpointPool(self.pool["state"], self.pool["checkpoint"])
        self.pools = list(dict.fromkeys((self.pool, self.states.checkpoints._pool)))
        self.pool["full"].alloc(4)
        self._numbers = count(1)
        self._run()
        for node in range(shape.nodes):
            self.states.add_node(node, LENGTH)
            self.donate().publish(node)
        self.gone = shape.nodes // 2
        self.states.evict(self.gone)
        self.states.remove_node(self.gone)
        self.settle()

    def _run(self) -> None:
        """Request 0 comes, and has a state of random content."""
        self.states.enqueue(0)
        slot = self.states.admit(0)
        self.states.start(0)
        step = self.pool.begin_step(writes={"state": [slot]})
        if self.where != "meta":
            for part in self.parts("state", slot):
                part.normal_()
        for end in (step.launched, step.complete, step.retire):
            end()
        self.states.advance(0, LENGTH)
        self.states.add_tracks(0)

    def parts(self, name: str, slot: int) -> list[Tensor]:
        """The tensors of one slot: the temporal state, or codes and scales, and then the windows."""
        sub_pool = self.states.states if name == "state" else self.states.checkpoints
        views, page = sub_pool._pool.views(name), int(sub_pool.physical([slot])[0])
        first = [views.codes, views.scales] if hasattr(views, "codes") else [views.temporal]
        return [part[:, page] for part in (*first, *views.conv)]

    def donate(self) -> pp.Donation:
        """A donation of request 0, for which there is a slot."""
        donation = self.states.donate(0)
        assert donation is not None
        return donation

    def settle(self) -> None:
        """An engine's step begins: the device is told of the tables."""
        for pool in self.pools:
            empty_step(pool)

    def bytes(self, name: str) -> int:
        """What the device reads and writes for one of it."""
        estimate = partial(self.states.estimate, self.pool["state"], 1)
        state, stored = estimate("none"), estimate(self.kind.codec)
        of_state = state.qdata + state.conv
        return of_state + (of_state if name == "track" else stored.qdata + stored.scale + stored.conv)

    def is_right(self) -> bool:
        """Do a donation, a hit and a track give the bytes that they should?"""
        states = self.states
        if self.where != "meta":
            source = self.parts("state", states.slot_of(0) or 0)
            donation = self.donate()
            stored = self.parts("checkpoint", donation.checkpoint)
            codes, scales = reference.quantize(source[0])
            wanted = [codes, scales, *source[1:]] if self.kind.codec == "int8" else source
            good = all(map(torch.equal, stored, wanted))
            donation.drop()
            request = self.arrive()
            hit = self.parts("state", states.hit(request, 0))
            loaded = reference.dequantize(codes, scales) if self.kind.codec == "int8" else source[0]
            good &= all(map(torch.equal, hit, [loaded, *source[1:]]))
            states.finish(request)
            good &= all(map(torch.equal, self.parts("state", states.track(0)), source))
            if not good:
                return False
        return states.check() == []

    # ----------------------------------------------------------------------------------------------------- the works

    def works(self) -> dict[str, Work]:
        """Everything that is timed, by name."""
        made = (*self._hits(), *self._donations(), *self._ends())
        return dict(zip(WORKS, made, strict=True))

    def arrive(self, node: int = 0, is_locked: bool = True) -> int:
        """A request comes, and keeps a node."""
        request = next(self._numbers)
        self.states.enqueue(request)
        if is_locked:
            self.states.lock(request, node, "state")
        return request

    def _hits(self) -> Iterator[Work]:
        states, several = self.states, self.shape.several
        nodes = [node for node in range(self.shape.nodes) if node != self.gone][:several]

        def whole(request: int) -> None:
            lock = states.lock(request, 0, "state")
            states.hit(request, 0)
            lock.release()

        def in_a_row(requests: list[int]) -> None:
            for request, node in zip(requests, nodes, strict=True):
                states.hit(request, node)

        def leave(requests: list[int], _: Any) -> None:
            for request in requests:
                states.finish(request)

        finish: Callable[[int, Any], None] = lambda request, _: states.finish(request)  # noqa: E731
        yield Work(self.arrive, lambda request: states.hit(request, 0), finish)
        yield Work(partial(self.arrive, is_locked=False), whole, finish)
        yield Work(lambda: [self.arrive(node) for node in nodes], in_a_row, leave, several)

    def _donations(self) -> Iterator[Work]:
        states, node = self.states, self.gone

        def whole(_: Any) -> None:
            donation = self.donate()
            states.add_node(node, LENGTH)
            donation.publish(node)

        def unpublish(_: Any, __: Any) -> None:
            states.evict(node)
            states.remove_node(node)

        def drop(first: pp.Donation | None, second: pp.Donation) -> None:
            second.drop()
            if first is not None:
                first.drop()

        nothing: Callable[[], None] = lambda: None  # noqa: E731
        call: Callable[[Any], Any] = lambda _: states.donate(0)  # noqa: E731
        yield Work(nothing, call, drop)
        yield Work(self.donate, call, drop)
        yield Work(nothing, whole, unpublish)

    def _ends(self) -> Iterator[Work]:
        states, node = self.states, self.gone

        def begin() -> int:
            request = self.arrive(is_locked=False)
            with states.lock(request, 0, "state"):
                states.hit(request, 0)
            states.start(request)
            return request

        def publish() -> None:
            states.add_node(node, LENGTH)
            self.donate().publish(node)

        yield Work(lambda: None, lambda _: states.track(0), lambda _, __: None)
        yield Work(begin, states.finish, lambda _, __: None)
        yield Work(publish, lambda _: states.evict(node), lambda _, __: states.remove_node(node))


# -------------------------------------------------------------------------------------------------------------- timing


class Timer(Clock):
    """Times of works, on the host and on the device."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)  # type: ignore[arg-type]
        self.counts = plan

    def hold(self, cycles: int) -> None:
        """The device is kept so long from what it is given next."""
        if self._cuda:
            torch.cuda._sleep(cycles)

    def on_host(self, subject: Subject, work: Work, way: str) -> Row:
        """Time until a call returns, of one of what it does; nothing waits for the device in a call."""
        calls = self.counts.meta_calls if way == "meta" else self.counts.calls
        found, group = [], max(1, GROUP // work.each)
        work.once()
        for n in range(-(-calls // work.each)):
            if n % group == 0:
                subject.settle()
                self.wait()
                if way == "busy":
                    self.hold(HOLD)
            given = work.before()
            if way == "idle":
                self.wait()
            begin = _NOW()
            got = work.call(given)
            found.append((_NOW() - begin) // work.each)
            work.after(given, got)
        self.wait()
        return spread(found)

    def on_device(self, work: Work, cache: str) -> float:
        """Median microseconds of one of it between events, which are queued before the device comes to them."""
        for _ in range(3 if self._cuda else 1):
            work.once()
        self.wait()
        pairs = []
        for _ in range(self.counts.repeats):
            given = work.before()
            self._prepare(cache)
            self.hold(HOLD // 2)
            start, stop = Mark(self._cuda), Mark(self._cuda)
            start.set()
            got = work.call(given)
            stop.set()
            work.after(given, got)
            pairs.append((start, stop))
        self.wait()
        return statistics.median(start.until(stop) for start, stop in pairs) / work.each


class Bench:
    """One run: what the device does stands beside the rate of a copy that was measured with it.

    A part that breaks is noted, and the others go on.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan, self.timer = plan, Timer(plan)
        self.wrong: list[str] = []
        self.broken: dict[str, str] = {}
        self.copy = self.rate() if plan.has_device_times else None

    def rate(self) -> float:
        """Bytes that a copy on the device reads and writes, in TB/s."""
        size = self.plan.copy_bytes
        source = torch.zeros(size // 4, dtype=torch.int32, device=self.plan.device).random_()
        target = torch.empty_like(source)
        return 2 * size / self.timer.device(lambda: target.copy_(source)) / 1e6

    def check(self, is_right: bool, what: str) -> None:
        """Note what went wrong."""
        if not is_right and what not in self.wrong:
            self.wrong.append(what)
            print(f"WRONG: {what}", file=sys.stderr, flush=True)

    def run(self, name: str, part: Callable[[], Any]) -> Any:
        """A part of the run; None where it broke."""
        try:
            return part()
        except Exception as error:
            self.broken[name] = repr(error)
            traceback.print_exc()
            return None
        finally:
            gc.collect()
            if self.plan.is_cuda:
                torch.cuda.empty_cache()

    def figures(self) -> Row:
        """Everything, in the order of the tables."""
        found: Row = {"copy_TB_per_s": None if self.copy is None else round(self.copy, 4)}
        found["empty_us"] = round(self.timer.device(lambda: None), 2) if self.plan.has_device_times else None
        found |= {"host": [], "device": []}
        for kind in KINDS:
            for where in ("meta", self.plan.device.type):
                host, device = self.run(f"{kind.name}, {where}", partial(self.pools, where, kind)) or ([], [])
                found["host"] += host
                found["device"] += device
        found["cache"] = self.run("cache", partial(caches, self)) or []
        at_the_end = self.run("the rate at the end", self.rate) if self.plan.has_device_times else None
        found["copy_TB_per_s_at_the_end"] = None if at_the_end is None else round(at_the_end, 4)
        return found | {"right": not self.wrong and not self.broken, "wrong": self.wrong, "broken": self.broken}

    def pools(self, where: str, kind: Kind) -> tuple[list[Row], list[Row]]:
        """Host and device times in pools of one kind."""
        subject = Subject(self.plan, self.plan.meta if where == "meta" else self.plan.real, where, kind)
        self.check(subject.is_right(), f"{kind.name}, {where}")
        works, about = subject.works(), {"kind": kind.name}
        ways = ("idle", "busy") if where == "cuda" else (where,)
        with undisturbed():
            host = [
                {**about, "way": way, "work": name, "each": work.each, **self.timer.on_host(subject, work, way)}
                for way in ways
                for name, work in works.items()
            ]
        device: list[Row] = []
        if where != "meta" and self.plan.has_device_times:
            device = [{**about, **self.on_device(subject, name, works[name])} for name in ON_DEVICE]
        self.check(subject.is_right(), f"{kind.name}, {where}, after it all")
        return host, device

    def on_device(self, subject: Subject, name: str, work: Work) -> Row:
        """Device time of one work, beside the goal."""
        assert self.copy is not None
        size, counter = subject.bytes(name), Counter()
        times = {cache: self.timer.on_device(work, cache) for cache in ("cold", "warm")}
        subject.settle()
        given = work.before()
        with counter.on():
            got = work.call(given)
        work.after(given, got)
        row: Row = {"work": name, "each": work.each, "bytes": size}
        row |= {f"{cache}_us": round(found, 2) for cache, found in times.items()}
        goal = size / (DEVICE_PART * self.copy) / 1e6 + DEVICE_EXTRA
        row |= {"goal_us": round(goal, 2), "of_copy": round(size / times["cold"] / 1e6 / self.copy, 4)}
        row |= {"launches": counter.launches / work.each, "copies": counter.copies / work.each}
        return row


# ----------------------------------------------------------------------------------------------------------- the cache


class Prompts:
    """A `StateCache` on "meta", and the requests that come to it: their prompts begin with one of some prefixes."""

    def __init__(self, plan: Plan, total: int) -> None:
        self.plan, self.size = plan, PAGE_SIZE
        self.pool = pp.UnifiedPool(total, gdn("int8"), device="meta")
        states = pp.CheckpointPool(self.pool["state"], self.pool["checkpoint"])
        self.cache = pp.StateCache(self.pool, states)
        self._random = np.random.default_rng(0)
        self.prefixes = [self.tokens(plan.shared) for _ in range(plan.prefixes)]
        self.times: dict[str, list[int]] = {}
        self.requests, self.is_right = 0, True
        for prefix in self.prefixes:
            request = self.cache.admit(prefix)
            self.compute(request, len(prefix))
            self.is_right &= self.cache.finish(request, prefix)

    def tokens(self, n: int) -> Any:
        """Tokens that no other prompt has."""
        return self._random.integers(0, 150_000, n)

    def timed(self, name: str, work: Callable[[], Any]) -> Any:
        """Do it, and note how long it took."""
        begin = _NOW()
        found = work()
        self.times.setdefault(name, []).append(_NOW() - begin)
        return found

    def compute(self, request: pp.CachedRequest, length: int) -> None:
        """The engine computes up to so many tokens."""
        new = self.timed(f"extend, {length - request.length:,} tokens", partial(self.cache.extend, request, length))
        step = self.pool.begin_step(writes={"full": new, "state": [request.state or 0]})
        for end in (step.launched, step.complete, step.retire):
            end()
        self.timed("computed", partial(self.cache.computed, request, length))

    def round(self, number: int) -> None:
        """One request of each way in which prompts come and go."""
        cache, plan, prefix = self.cache, self.plan, self.prefixes[number % len(self.prefixes)]
        own = plan.prompt - plan.shared
        hit, kept = f"hit of {plan.shared:,}", f"{own:,} behind a hit"
        prompt = np.concatenate([prefix, self.tokens(own)])
        self.timed("match", partial(cache.match, prompt))
        request = self.admitted(f"admit, {hit}", prompt, plan.shared)
        self.is_right &= self.timed(f"keep, {kept}", partial(cache.keep, request, prompt))
        longer = np.concatenate([prompt, self.tokens(8)])
        self.compute(request, len(longer))
        self.timed("finish, prompt kept before", partial(cache.finish, request, longer))

        prompt = np.concatenate([prefix, self.tokens(own)])
        request = self.admitted(f"admit, {hit}, tokens in a list", prompt.tolist(), plan.shared)
        self.is_right &= self.timed(f"finish, which keeps {kept}", partial(cache.finish, request, prompt))

        if self.is_roomy:
            prompt = self.tokens(plan.prompt)
            request = self.admitted("admit, no hit", prompt, 0)
            self.is_right &= self.timed(f"keep, {plan.prompt:,} new", partial(cache.keep, request, prompt))
            self.timed("abort", partial(cache.abort, request))

    @property
    def is_roomy(self) -> bool:
        """Has the buffer room for everything?"""
        return self.pool.total_bytes == self.plan.roomy

    def admitted(self, name: str, prompt: Any, cached: int) -> pp.CachedRequest:
        """A request is admitted, and its prompt computed."""
        request: pp.CachedRequest = self.timed(name, partial(self.cache.admit, prompt))
        self.requests += 1
        self.is_right &= request.cached == cached
        self.compute(request, len(prompt))
        return request

    def rows(self) -> list[Row]:
        """The times of some requests, after some others."""
        for n in range(self.plan.warm // (10 if self.is_roomy else 1)):
            self.round(n)
        self.times, self.requests, evicted = {}, 0, self.cache.stats().evictions
        with undisturbed():
            for n in range(self.plan.rounds):
                self.round(n)
        evicted = self.cache.stats().evictions - evicted
        about = {"buffer": self.pool.total_bytes, "evictions_a_request": round(evicted / self.requests, 2)}
        return [{**about, "work": name, **spread(times)} for name, times in self.times.items()]


def caches(bench: Bench) -> list[Row]:
    """Host times of the cache, with room for everything and in a full buffer."""
    found = []
    for total in (bench.plan.roomy, bench.plan.full):
        prompts = Prompts(bench.plan, total)
        found += prompts.rows()
        bench.check(prompts.is_right and prompts.cache.check() == [], f"cache in {size_of(total)}")
    return found


# ---------------------------------------------------------------------------------------------------------- the report


def _us(value: float) -> str:
    return f"{value:.1f}" if value < 1000 else f"{value:,.0f}"


def _host(part: Row | None) -> str:
    return "" if part is None else f"{_us(part['least_us'])} / {_us(part['median_us'])}"


def _named(name: str, row: Row) -> str:
    return name.replace("several", f"{row['each']} in a row")


def host_tables(result: Row) -> list[Table]:
    """Host times of the pool: a table for each way, a column for each kind."""
    found: list[Table] = []
    for way, title in WAYS.items():
        rows = {(r["work"], r["kind"]): r for r in result["host"] if r["way"] == way}
        kinds = list(dict.fromkeys(kind for _, kind in rows))
        lines = [
            [_named(work, rows[work, kinds[0]]), *(_host(rows.get((work, kind))) for kind in kinds)]
            for work in dict.fromkeys(work for work, _ in rows)
        ]
        if lines:
            found.append((f"Host us, least / median, {title}", ("call", *kinds), lines))
    return found


def device_table(result: Row) -> list[Table]:
    """Device times beside the goal."""
    lines = [
        [
            f"{_named(r['work'], r)}, {r['kind']}",
            *(f"{r['bytes'] / 1e6:.1f}", _us(r["cold_us"]), _us(r["warm_us"])),
            *(_us(r["goal_us"]), "met" if r["cold_us"] <= r["goal_us"] else "MISSED", f"{r['of_copy']:.3f}"),
            *(f"{r['launches']:g}", f"{r['copies']:g}"),
        ]
        for r in result["device"]
    ]
    heads = ("work", "MB read and written", "L2 cold", "L2 warm", "goal", "", "of copy, cold", "own kernels")
    return [("Device us between events", (*heads, "copies to it"), lines)] if lines else []


def cache_table(result: Row) -> list[Table]:
    """Host times of the cache."""
    rows = {(r["work"], r["buffer"]): r for r in result["cache"]}
    if not rows:
        return []
    evictions = {r["buffer"]: r["evictions_a_request"] for r in result["cache"]}
    works = list(dict.fromkeys(work for work, _ in rows))
    lines = [[work, *(_host(rows.get((work, size))) for size in evictions)] for work in works]
    heads = [f"{size_of(size)}, evictions a request: {evicted:g}" for size, evicted in evictions.items()]
    title = f"Host us of StateCache, least / median, prompts of {result['prompt']:,} tokens, without bytes"
    return [(title, ("call", *heads), lines)]


def goals(result: Row) -> list[list[str]]:
    """Every goal: what, what was found, and is it met?"""
    found = []
    ways = [way for way in ("idle", "busy") if any(r["way"] == way for r in result["host"])] or ["meta"]
    hits = [r for r in result["host"] if r["work"] == "hit"]
    for kind in dict.fromkeys(r["kind"] for r in hits):
        rows = {way: r for way in ways for r in hits if (r["way"], r["kind"]) == (way, kind)}
        shown = ", ".join(f"{_host(r)} {WAYS[way]}" for way, r in rows.items())
        is_met = bool(rows) and all(r["median_us"] <= HOST_GOAL for r in rows.values())
        what = f"a hit, {kind}: at most {HOST_GOAL:g} us on the host in the median"
        found.append([what, shown, "met" if is_met else "MISSED"])
    late = [r for r in result["device"] if r["cold_us"] > r["goal_us"]]
    if result["device"]:
        shown = "; ".join(f"{_named(r['work'], r)}, {r['kind']}, {_us(r['cold_us'])} us" for r in late)
        what = f"{len(result['device'])} works on the device, L2 cold, each its bytes at {DEVICE_PART} c and"
        found.append([f"{what} {DEVICE_EXTRA:g} us", shown or "all of them", "MISSED" if late else "met"])
    bad = [*result["wrong"], *(f"{name} broke" for name in result["broken"])]
    found.append(["every part did what it should", ", ".join(bad) or "all of them", "MISSED" if bad else "met"])
    return found


def heading(result: Row) -> str:
    """Where and when, and what the goals are made of."""
    where = f"{result['card']}, driver {result['driver']}, torch {result['torch']}, triton {result['triton']}"
    where = f"smoke run, its times mean nothing: {where}" if result["smoke"] else where
    found = f"{where}, python {result['python']} on {result['machine']}, {result['date']}, sources {result['source']}."
    found += f" Shape: {MODEL}, a state of {result['state_bytes']:,} bytes, an int8 checkpoint of "
    found += f"{result['checkpoint_bytes']:,}, bfloat16."
    if result["copy_TB_per_s"] is not None:
        at_the_end = result["copy_TB_per_s_at_the_end"]
        found += f" A copy's rate c: {result['copy_TB_per_s']:.3f} TB/s"
        found += f" (at the end {at_the_end:.3f})" if at_the_end is not None else ""
        found += f"; goal of the device: bytes / ({DEVICE_PART} c) + {DEVICE_EXTRA:g} us; nothing between two events: "
        found += f"{result['empty_us']:.1f} us."
    return found


def markdown(result: Row) -> str:
    """The figures as Markdown."""
    parts = [heading(result)]
    for title, heads, rows in (*host_tables(result), *device_table(result), *cache_table(result)):
        lines = ["| " + " | ".join(row) + " |" for row in [list(heads), *rows]]
        lines.insert(1, "|---" + "|---:" * (len(heads) - 1) + "|")
        parts += [f"{title}:", "\n".join(lines)]
    lines = [f"* {what}: {found}, {verdict}" for what, found, verdict in goals(result)]
    return "\n\n".join([*parts, "Goals:", "\n".join(lines)])


def shown(result: Row) -> str:
    """The same for a terminal, which says too whether the sources are still those that were measured."""
    stale = "" if result["source"] == source_hash() else "STALE: the sources have changed since.\n\n"
    return stale + markdown(result)


def renew_docs(result: Row) -> None:
    """Put a result into docs/."""
    text, pattern = PAGE.read_text(), re.compile(rf"(<!-- begin {PART} -->\n).*?(<!-- end {PART} -->)", re.S)
    if not pattern.search(text):
        raise SystemExit(f"{PAGE} has no part {PART!r}")
    PAGE.write_text(pattern.sub(lambda found: f"{found[1]}{markdown(result)}\n{found[2]}", text))


def machine() -> str:
    """The processor."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "some processor")


def measure(plan: Plan) -> Row:
    """One run."""
    before, sizes = source_hash(), {layout.name: layout.page_bytes for layout in _layouts()}
    result = {
        "what": "CheckpointPool and StateCache: microseconds of host time of a call, and between CUDA events; a hit of "
        "several, and what is on the device, are of one of them; `of_copy` is the part of what a copy on the device "
        "reads and writes a second",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": f"python bench/checkpoint_pool.py {plan.name} --json FILE",
        **environment(plan),  # type: ignore[arg-type]
        **({} if plan.has_device_times else {"card": "no card"}),
        "machine": machine(),
        "load": round(os.getloadavg()[0], 2),
        "source": before,
        "smoke": plan.name == "--smoke",
        "repeats": plan.repeats,
        "state_bytes": sizes["state"],
        "checkpoint_bytes": sizes["checkpoint"],
        "prompt": plan.prompt,
        **Bench(plan).figures(),
    }
    if before != source_hash():
        result["source"] = f"{before}, and {source_hash()} at the end"
    return result


def _layouts() -> Any:
    return pp.UnifiedPool(GDN.buffer, gdn("int8"), device="meta").layouts


def show(parser: argparse.ArgumentParser, file: Path, is_for_docs: bool) -> None:
    """Print a result, or put it into docs/."""
    try:
        result = json.loads(file.read_text())
        text = shown(result)
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        parser.error(f"{file} is no result of this program: {error!r}")
    if is_for_docs:
        renew_docs(result)
    else:
        print(text)


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    kind = parser.add_mutually_exclusive_group(required=True)
    kind.add_argument("--gpu", action="store_true", help="measure on a CUDA device")
    kind.add_argument("--host", action="store_true", help="measure the host alone")
    kind.add_argument("--smoke", action="store_true", help="try everything at tiny sizes in Triton's interpreter")
    kind.add_argument("--show", type=Path, metavar="FILE", help="print a result as Markdown, and measure nothing")
    kind.add_argument("--docs", action="store_true", help="put the committed result into docs/, and measure nothing")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here too")
    options = parser.parse_args()
    if options.show is not None or options.docs:
        if options.json:
            parser.error("--show and --docs measure nothing: leave --json out")
        show(parser, options.show or RESULT, options.docs)
        return
    if options.json and not options.json.parent.is_dir():
        parser.error(f"--json {options.json}: there is no folder {options.json.parent}")
    if options.gpu and not torch.cuda.is_available():
        parser.error("--gpu needs a CUDA device, and torch finds none")
    result = measure(smoke_plan() if options.smoke else full_plan("--gpu" if options.gpu else "--host"))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    print(shown(result))
    if not result["right"]:
        sys.exit(f"not right: {', '.join([*result['wrong'], *result['broken']])}: the figures are worth nothing")


if __name__ == "__main__":
    main()
