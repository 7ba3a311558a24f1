"""Request traces through a `poolproof.StateCache` at a full model's sizes, in virtual time, with continuous batching.

A block of the trace becomes 512 token ids that follow from its number, so that equal numbers mean equal prefixes. The
pools are those of a shipped model on `meta`: all books are kept, and no bytes.

A request is admitted, first come first served, once all that it and the running ones may yet need can be had, what is
idle in the cache evicted for it if need be. So nothing that is asked for later is refused; what is, is a violation. It
begins with the longest prefix that the cache can restore, and the rest of its prompt is computed in chunks, which end
where the policy wants a checkpoint (see `CacheSetting`) and keeps one. Then it grows with all others by 16 tokens a
virtual step, until its output is done. What it generated is in no other prompt of a trace, and is not kept.

A virtual step takes `prefill_us` for each token of a prompt that is computed in it, and 25 ms for each token by which
requests grow. Prompts are computed one after another, so that the second of two equal ones can hit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from collections.abc import Sequence as Listed
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from poolproof.cached_request import CachedRequest
from poolproof.checkpoint_pool import CheckpointPool
from poolproof.errors import PoolError
from poolproof.fuzz.cache_replay_result import CacheResult, CacheSetting, Progress
from poolproof.fuzz.errors import SettingError
from poolproof.fuzz.mooncake import BLOCK_TOKENS, Request
from poolproof.fuzz.unified_result import violation_of
from poolproof.model_pools import sub_pools_for
from poolproof.spec.arithmetic import ceil_div
from poolproof.state_cache import StateCache
from poolproof.steps import Step
from poolproof.sub_pools import Checkpoints, StateSlots, resolve
from poolproof.unified_pool import UnifiedPool
from poolproof.violation import Violation

GROWS_BY: Final = 16
"""Tokens by which a running request grows in a virtual step."""
_DECODE_US: Final = 25_000
_KV, _STATE, _CHECKPOINT = "full", "state", "checkpoint"

Tokens = NDArray[np.int64]


def replay_cache(requests: Listed[Request], setting: CacheSetting, *, progress: Progress | None = None) -> CacheResult:
    """Replay a request trace through a prefix cache.

    Args:
        requests: in the order of their arrival.
        setting: pools and policy.
        progress: called now and then.

    Raises:
        LayoutError: the model cannot be split so, or a buffer holds not even one page of each kind.
        SettingError: the pools hold not one request of the trace, or the buffer of checkpoints not one.
    """
    return _Replay(setting).run(requests, progress or (lambda what, done, of: None))


def tokens_of(request: Request) -> Tokens:
    """[input_length], int64, the token ids of a prompt: a function of the numbers of its blocks."""
    blocks = np.array(request.hash_ids, np.int64)
    return (blocks[:, None] * BLOCK_TOKENS + np.arange(BLOCK_TOKENS)).reshape(-1)[: request.input_length]


@dataclass(slots=True, eq=False)
class _Run:
    """A request of the trace on its way.

    Attributes:
        request: of the trace.
        end: tokens when it is over.
        pages: KV pages that it needs by then.
        has_waited: whether there was no room when it was first looked at.
        live: what the cache has made of it, once it is admitted.
    """

    request: Request
    end: int
    pages: int
    has_waited: bool = False
    live: CachedRequest | None = None


class _Replay:
    """The state of a replay."""

    def __init__(self, setting: CacheSetting) -> None:
        self._setting = setting
        self._pool, self._states = _pools(setting)
        self._cache = StateCache(self._pool, self._states, kv=_KV)
        self._pools = tuple(dict.fromkeys((self._pool, self._states.checkpoints._pool)))
        self._new = self._capacities()
        self._waiting: deque[_Run] = deque()
        self._running: list[_Run] = []
        self._owed = 0
        """KV pages that running requests may yet need."""
        self._ends: set[int] = set()
        """Blocks at whose ends a checkpoint was ever kept."""
        self._flight: Step | None = None
        self._now = 0.0
        self.result = _empty_result(setting, self._pool, self._states)

    # -------------------------------------------------------------------------------------------------------- the run

    def run(self, requests: Listed[Request], progress: Progress) -> CacheResult:
        """Let all requests arrive and end."""
        result, started = self.result, perf_counter()
        result.requests = len(requests)
        arrivals = deque(self._possible(requests))
        self._now = begins = requests[0].timestamp * 1000.0 if requests else 0.0
        self._guard(lambda: self._serve(arrivals, progress))
        self._note_cache()
        if not result.violations:
            self._guard(self._close)
        result.virtual_seconds = (self._now - begins) / 1e6
        result.seconds = perf_counter() - started
        return result

    def _guard(self, work: Callable[[], None]) -> None:
        """The replay asks for nothing that may be refused."""
        try:
            work()
        except PoolError as error:
            self.result.violations.append(violation_of(error, self.result.steps))

    def _serve(self, arrivals: deque[_Run], progress: Progress) -> None:
        """Until all requests have ended."""
        result = self.result
        while (arrivals or self._waiting or self._running) and not result.violations:
            self._moment(arrivals)
            if result.steps % 64 == 0:
                progress("requests", result.done, result.requests)

    def _possible(self, requests: Listed[Request]) -> list[_Run]:
        """The requests that the empty pools can hold.

        Raises:
            SettingError: there are none.
        """
        size = self._setting.page_size
        ends = [request.input_length + request.output_length for request in requests]
        all_runs = [_Run(one, end, ceil_div(end, size)) for one, end in zip(requests, ends, strict=True)]
        most = max((run.pages for run in all_runs if self._pool.fits({_KV: run.pages, _STATE: 1})), default=0)
        runs = [run for run in all_runs if run.pages <= most]
        self.result.refusals = len(all_runs) - len(runs)
        if all_runs and not runs:
            least, sizes = min(run.pages for run in all_runs), self.result.page_bytes
            need = least * sizes[_KV] + sizes[_STATE]
            raise SettingError(
                f"a buffer of {self._pool.total_bytes} bytes, {self._pool.sink_bytes} of them the sink, holds none of "
                f"{len(requests)} requests: the smallest needs {need} bytes ({least} KV pages and a state); make it "
                f"larger"
            )
        return runs

    def _moment(self, arrivals: deque[_Run]) -> None:
        """Requests arrive, are admitted, and a step is done; where there is nothing to do, time passes."""
        while arrivals and arrivals[0].request.timestamp * 1000 <= self._now:
            self._waiting.append(arrivals.popleft())
        is_working = self._admit() or bool(self._running)
        if is_working:
            self._step()
        elif self._waiting:
            text = f"step {self.result.steps}: nothing runs, and a request that fitted new pools does not fit"
            self.result.violations.append(Violation("I4", "an_emptied_pool_is_as_new", text))
        elif arrivals:
            self._now = arrivals[0].request.timestamp * 1000
        self._pool.compact()

    def _close(self) -> None:
        """Everything is given back: the pools must be as new."""
        self._check()
        self._land()
        self._cache.clear()
        self._check()
        left = {row.name: row.bound for pool in self._pools for row in pool.stats().sub_pools if row.bound}
        if left or self._capacities() != self._new:
            text = f"all was freed: {left or 'nothing'} is bound, capacities {self._capacities()}, at first {self._new}"
            self.result.violations.append(Violation("I21", "what_is_freed_is_to_be_had_again", text))

    def _check(self) -> None:
        self.result.checks += 1
        self.result.violations += self._cache.check()

    def _capacities(self) -> dict[str, int]:
        return {layout.name: pool.capacity(layout.name) for pool in self._pools for layout in pool.layouts}

    # ------------------------------------------------------------------------------------------------------ admission

    def _admit(self) -> bool:
        """Take requests from the queue, in order, as long as there is room, and compute their prompts. Any?"""
        before = len(self._running)
        while self._waiting and len(self._running) < self._setting.max_batch:
            run = self._waiting[0]
            if not self._grant(run):
                self.result.waits += not run.has_waited
                run.has_waited = True
                break
            self._running.append(self._waiting.popleft())
            self._prefill(run)
        return len(self._running) > before

    def _grant(self, run: _Run) -> bool:
        """Admit a request if all that it may need can be had, beyond what was promised to running ones."""
        if self._running and not self._may_fit(run):
            return False
        tokens = tokens_of(run.request)
        live = self._cache.try_admit(tokens)
        if live is None:
            return False
        owed = run.pages - len(live.pages)
        if not self._cache.make_room({_KV: self._owed + owed}):
            self._cache.abort(live)
            return False
        run.live = live
        self._owed += owed
        self._note_admission(live, run.request)
        return True

    def _may_fit(self, run: _Run) -> bool:
        """Are there bytes enough, if nothing of the request is in the cache and everything idle is evicted?"""
        sizes, stats = self.result.page_bytes, self._cache.stats()
        pages = stats.pages - stats.idle_pages + stats.request_pages + self._owed + run.pages
        need = pages * sizes[_KV] + (len(self._running) + 1) * sizes[_STATE]
        return need + sum(sizes.values()) <= self._pool.total_bytes - self._pool.sink_bytes

    def _note_admission(self, live: CachedRequest, request: Request) -> None:
        """A hit must end where a checkpoint was kept."""
        self.result.hits += live.cached > 0
        self.result.cached_tokens += live.cached
        self.result.prompt_tokens += request.input_length
        last, rest = divmod(live.cached, BLOCK_TOKENS)
        if rest or (last and request.hash_ids[last - 1] not in self._ends):
            text = f"step {self.result.steps}: {live!r} hit a prefix that was never kept"
            self.result.violations.append(Violation("I19", "a_hit_is_of_a_prefix_that_was_kept", text))

    def _prefill(self, run: _Run) -> None:
        """Compute a prompt behind what was restored, in chunks, and keep checkpoints where the policy wants them."""
        live, prompt = run.live, run.request.input_length
        assert live is not None
        self._owed -= len(self._cache.extend(live, prompt))
        self._now += (prompt - live.cached) * self._setting.prefill_us
        tokens = tokens_of(run.request)
        for stop in self._setting.stops(prompt):
            if stop > live.length:
                self._compute(live, stop)
                if self._cache.keep(live, tokens[:stop]):
                    self._ends.add(run.request.hash_ids[stop // BLOCK_TOKENS - 1])
        if prompt > live.length:
            self._compute(live, prompt)
        self._note_peak()

    def _compute(self, live: CachedRequest, length: int) -> None:
        """One chunk of a prompt: it reads what is there, and writes behind."""
        first, last = live.length // self._setting.page_size, ceil_div(length, self._setting.page_size)
        slot = np.array([live.state], np.int64)
        reads = {_KV: live.pages[max(first - 1, 0) : first], _STATE: slot} if live.length else {}
        self._launch(reads, {_KV: live.pages[first:last], _STATE: slot})
        self._cache.computed(live, length)

    # --------------------------------------------------------------------------------------------------- virtual steps

    def _step(self) -> None:
        """Every running request grows; those that are over leave."""
        result = self.result
        result.steps += 1
        result.most_running = max(result.most_running, len(self._running))
        self._leave()
        if self._running:
            self._grow()
            self._now += GROWS_BY * _DECODE_US
            self._note_peak()
            self._leave()
        if result.steps % self._setting.check_every == 0:
            self._check()

    def _grow(self) -> None:
        """Running requests grow by some tokens: one step reads their tails and, in turn, all pages of one of them."""
        size, ends, tails = self._setting.page_size, [], []
        for run in self._running:
            live = _live(run)
            end = min(live.length + GROWS_BY, run.end)
            first = live.length // size
            if end > len(live.pages) * size:
                self._owed -= len(self._cache.extend(live, end))
            ends.append(end)
            tails.append(live.pages[first : ceil_div(end, size)])
        slots = np.array([_live(run).state for run in self._running], np.int64)
        whole = _live(self._running[self.result.steps % len(self._running)])
        reads = {_KV: whole.pages[: ceil_div(whole.length, size)], _STATE: slots}
        self._launch(reads, {_KV: np.concatenate(tails), _STATE: slots})
        for run, end in zip(self._running, ends, strict=True):
            self._cache.computed(_live(run), end)

    def _leave(self) -> None:
        """Requests that are over give everything back."""
        over = [run for run in self._running if _live(run).length == run.end]
        for run in over:
            self._cache.abort(_live(run))
            run.live = None
        if over:
            self._running = [run for run in self._running if run.live is not None]
            self.result.done += len(over)

    def _launch(self, reads: dict[str, Any], writes: dict[str, Any]) -> None:
        """A step of the pool is launched, and the one before is over."""
        step = self._pool.begin_step(reads, writes)
        step.launched()
        self._land()
        self._flight = step

    def _land(self) -> None:
        if self._flight is not None:
            self._flight.complete()
            self._flight.retire()
            self._flight = None

    # --------------------------------------------------------------------------------------------------------- figures

    def _note_peak(self) -> None:
        rows = [row for pool in self._pools for row in pool.stats().sub_pools]
        used = {row.name: row.used_bytes for row in rows}
        used["together"] = sum(used.values())
        peak = self.result.peak
        for name, size in used.items():
            peak[name] = max(peak.get(name, 0), size)

    def _note_cache(self) -> None:
        stats = self._cache.stats()
        for name in ("kept", "deduplicated", "skipped", "duplicate_pages", "evictions", "evicted_pages"):
            setattr(self.result, name, getattr(stats, name))
        self.result.cached_at_end = stats.checkpoints


def _pools(setting: CacheSetting) -> tuple[UnifiedPool, CheckpointPool]:
    """The pool of KV pages and states, and the checkpoints in it or in a buffer of their own."""
    declared = sub_pools_for(
        setting.model,
        tp=setting.tp,
        page_size=setting.page_size,
        temporal_dtype=setting.state_dtype,
        checkpoints=True,
    )
    kv, checkpoints, state = declared
    assert isinstance(checkpoints, Checkpoints)
    assert isinstance(state, StateSlots)
    if setting.checkpoints == "none":
        checkpoints = replace(checkpoints, codec="none")
    if setting.static is None:
        pool = UnifiedPool(setting.total_bytes, [kv, checkpoints, state], device="meta")
        return pool, CheckpointPool(pool[_STATE], pool[_CHECKPOINT])
    alone = replace(checkpoints, of=state, grows="up")
    size = resolve([alone])[0].page_bytes
    apart = int(setting.total_bytes * setting.static) // size * size
    if apart < 2 * size:
        raise SettingError(
            f"static = {setting.static} of {setting.total_bytes} bytes is less than a checkpoint and the sink, "
            f"{2 * size} bytes; make it larger"
        )
    pool = UnifiedPool(setting.total_bytes - apart, [kv, state], device="meta")
    return pool, CheckpointPool(pool[_STATE], UnifiedPool(apart, [alone], device="meta")[_CHECKPOINT])


def _empty_result(setting: CacheSetting, pool: UnifiedPool, states: CheckpointPool) -> CacheResult:
    """A result that knows the sizes."""
    apart = states.checkpoints._pool
    layouts = {layout.name: layout for each in (pool, apart) for layout in each.layouts}
    return CacheResult(
        setting,
        page_bytes={name: layout.page_bytes for name, layout in layouts.items()},
        state_bytes=layouts[_STATE].page_bytes,
        static_bytes=0 if apart is pool else apart.total_bytes,
    )


def _live(run: _Run) -> CachedRequest:
    assert run.live is not None
    return run.live
