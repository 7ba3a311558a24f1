"""Request traces through a unified pool of a named model, in virtual time, with continuous batching.

A request is admitted, first come first served, once the pool says that its peak demand can be had on top of all that
was promised to running requests: pages for prompt and output, less what the prefix cache has, and a slot for its state.
So an allocation for an admitted request never fails; one that does is a violation.

A virtual step prefills what was admitted and lets every running request grow by one page of tokens: coarse, for an
engine's step is one token, but each page is bound at the same place among the others. A step is begun with reads and
writes, launched, and completed after the next one is launched. Then the requests that ended in it leave: full blocks
of the prompt pass to the prefix cache, the state is copied to a checkpoint slot there, the rest is freed. Between two
steps pages are compacted. A window is bound for the last pages of a prompt and for new pages, and freed as it moves on.

A model of the allocator's traffic, not of an engine: a step takes 20 us for each token of the prompts that it prefills
and 25 ms for each token by which requests grow, a prompt is prefilled in one step however long it is, and the state at
a request's end stands for the one at its last full block of the prompt.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from collections.abc import Sequence as Listed
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from poolproof.errors import PoolError
from poolproof.fuzz.block_cache import NO_SLOT, Block, BlockCache
from poolproof.fuzz.counted_pool import CountedPool
from poolproof.fuzz.errors import SettingError
from poolproof.fuzz.model_shape import Shape, full_shape, small_shape
from poolproof.fuzz.mooncake import Request
from poolproof.fuzz.sequence import Needs, Sequence
from poolproof.fuzz.unified_result import UnifiedResult, violation_of
from poolproof.page_table import distinct
from poolproof.steps import Step
from poolproof.violation import Violation

DEFAULT_BYTES: Final = 64 << 30
"""Bytes of the buffer unless given."""
DEFAULT_SMALL_BYTES: Final = 1024
"""The same with pages of a few bytes."""
PAGE_SIZE: Final = 16
MAX_BATCH: Final = 256
CHECK_EVERY: Final = 64
_PREFILL_US: Final = 20
_DECODE_US: Final = 25_000
_EVICTED_AT_ONCE: Final = 4
_OWN_STEPS: Final = 4
"""With the spec in lockstep, steps of the pool's own in flight before an allocation; the spec holds a dozen at all."""

Pages = NDArray[np.int64]
Progress = Callable[[str, int, int], None]
_NONE: Final = np.empty(0, np.int64)


def replay_unified(
    requests: Listed[Request],
    model: str,
    *,
    total_bytes: int | None = None,
    tp: int = 1,
    page_size: int = PAGE_SIZE,
    max_batch: int = MAX_BATCH,
    check_every: int = CHECK_EVERY,
    shadow: bool = False,
    progress: Progress | None = None,
) -> UnifiedResult:
    """Replay a request trace.

    Args:
        requests: in the order of their arrival.
        model: the name of a shipped model.
        total_bytes: of the buffer; 64 GiB unless given, with `shadow` 1024 bytes.
        tp: tensor parallel ranks; the pool is that of one of them.
        page_size: tokens a page; with `shadow` a page is 512 tokens.
        max_batch: most requests running at once.
        check_every: the stored tables are tested against the invariants after this many virtual steps, and at the end.
        shadow: run the spec in lockstep, on pages of a few bytes.
        progress: called now and then.

    Raises:
        LayoutError: the model is not shipped or cannot be split so, or the buffer holds not even one page of each kind.
        SettingError: a number is out of range, or the buffer holds not one request of the trace.
    """
    for name, value in (("max_batch", max_batch), ("check_every", check_every)):
        if value < 1:
            raise SettingError(f"{name} = {value}; want at least 1")
    shape = small_shape(model, tp) if shadow else full_shape(model, tp, page_size)
    size = (DEFAULT_SMALL_BYTES if shadow else DEFAULT_BYTES) if total_bytes is None else total_bytes
    replay = _Replay(shape, size, max_batch, check_every, UnifiedResult(model, size, shadow))
    return replay.run(requests, progress or (lambda what, done, of: None))


@dataclass
class _Flown:
    """A step in flight, and what is to be done once it is over: requests that ended, or checkpoints that it wrote."""

    step: Step
    ended: list[Sequence] = field(default_factory=list)
    checkpoints: Pages = field(default_factory=lambda: _NONE)


class _Replay:
    """The state of a replay."""

    def __init__(self, shape: Shape, size: int, max_batch: int, check_every: int, result: UnifiedResult) -> None:
        self._shape, self._needs, self._max_batch, self._check_every = shape, Needs(shape), max_batch, check_every
        self._pool = CountedPool(size, shape.sub_pools, result.shadow)
        self._new = self._pool.capacities()
        self._cache = BlockCache(shape)
        self._waiting: deque[Sequence] = deque()
        self._running: list[Sequence] = []
        self._flight: deque[_Flown] = deque()
        self._now = self._landed_at = 0
        self.result = result

    # -------------------------------------------------------------------------------------------------------- the run

    def run(self, requests: Listed[Request], progress: Progress) -> UnifiedResult:
        """Let all requests arrive and end."""
        result, started = self.result, perf_counter()
        result.requests, result.page_bytes = len(requests), self._pool.page_bytes
        arrivals = deque((request.timestamp * 1000, self._needs.sequence(request)) for request in requests)
        self._refuse(arrivals, requests)
        try:
            while (arrivals or self._waiting or self._running or self._flight) and not result.violations:
                self._moment(arrivals)
                if result.steps % 64 == 0:
                    progress("requests", result.done, len(requests))
            self._close()
        except PoolError as error:
            result.violations.append(violation_of(error, result.steps))
        self._note_pool()
        result.virtual_seconds = self._now / 1e6 - requests[0].timestamp / 1e3 if requests else 0.0
        result.seconds = perf_counter() - started
        return result

    def _refuse(self, arrivals: deque[tuple[int, Sequence]], requests: Listed[Request]) -> None:
        """Drop the requests that not even the empty pool can hold.

        Raises:
            SettingError: it can hold none.
        """
        kept = [(when, sequence) for when, sequence in arrivals if self._pool.fits(self._peak(sequence, 0))]
        self.result.refusals = len(arrivals) - len(kept)
        if arrivals and not kept:
            least = min(arrivals, key=lambda arrival: arrival[1].end)[1]
            demand = self._peak(least, 0)
            need = sum(n * self._pool.page_bytes[name] for name, n in demand.items())
            pages = ", ".join(f"{n} of {name!r}" for name, n in demand.items())
            raise SettingError(
                f"a buffer of {self.result.total_bytes} bytes, {self._pool.pool.sink_bytes} of them the sink, holds "
                f"none of {len(requests)} requests: the smallest needs pages of {need} bytes ({pages}); make it larger"
            )
        arrivals.clear()
        arrivals.extend(kept)

    def _moment(self, arrivals: deque[tuple[int, Sequence]]) -> None:
        """Requests arrive, are admitted, and a step is done; where there is nothing to do, time passes."""
        while arrivals and arrivals[0][0] <= self._now:
            self._waiting.append(arrivals.popleft()[1])
        admitted = self._admit()
        if admitted or self._running:
            self._step(admitted)
        elif self._flight:
            self._land(len(self._flight))
        elif self._waiting:
            text = f"step {self.result.steps}: nothing runs, nothing is cached, and a request that fitted does not fit"
            self.result.violations.append(Violation("I4", "an_emptied_pool_is_as_new", text))
        elif arrivals:
            self._now = arrivals[0][0]
        self._pool.compact()

    def _close(self) -> None:
        """Everything is given back: the pool must be as new."""
        if self.result.violations:
            return
        self._check()
        self._drop(self._cache.evict(len(self._cache)))
        self._check()
        left, now = {name: n for name, n in self._pool.bound.items() if n}, self._pool.capacities()
        if left or now != self._new:
            text = f"all was freed: {left or 'nothing'} counts as bound, capacities are {now}, at first {self._new}"
            self.result.violations.append(Violation("I21", "what_is_freed_is_to_be_had_again", text))

    def _check(self) -> None:
        self.result.checks += 1
        self.result.violations += self._pool.pool.check()

    def _note_pool(self) -> None:
        result, pool = self.result, self._pool
        result.peak, result.peak_bytes = pool.peak, pool.peak_bytes
        result.compactions, result.moved = pool.moves.copies, pool.moves.pages
        result.urgent = pool.moves.copies - pool.idle_copies

    # ------------------------------------------------------------------------------------------------------ admission

    def _peak(self, sequence: Sequence, hit: int) -> dict[str, int]:
        """All that it may have at once, beyond the blocks that it takes over."""
        demand = self._needs.at_prompt(sequence, hit)
        for name, n in self._needs.afterwards(sequence, hit).items():
            demand[name] += n
        return demand

    def _admit(self) -> list[Sequence]:
        """Take requests from the queue, in order, as long as there is room."""
        admitted: list[Sequence] = []
        while self._waiting and len(self._running) + len(admitted) < self._max_batch:
            self._thin_out()
            sequence = self._waiting[0]
            hit = self._cache.deepest(sequence.blocks[: self._needs.most_hits(sequence)])
            alone = not (admitted or self._running or self._flight)
            if not (self._grant(sequence, hit, alone) or (alone and hit and self._grant(sequence, 0, alone))):
                self.result.waits += not sequence.has_waited
                sequence.has_waited = True
                break
            admitted.append(self._waiting.popleft())
            self.result.blocks += len(sequence.blocks)
            self.result.hits += sequence.hit
        return admitted

    def _grant(self, sequence: Sequence, hit: int, alone: bool) -> bool:
        """Give a request its pages, if its peak demand can be had; `alone` where nobody else holds any."""
        taken = self._cache.pin(sequence.blocks[:hit])
        if not self._make_room(self._peak(sequence, hit), alone):
            self._cache.unpin(sequence.blocks[:hit])
            return False
        given = self._pool.alloc(self._needs.at_prompt(sequence, hit))
        later = self._needs.afterwards(sequence, hit)
        self._pool.promise(later)
        known = [*(block.pages for block in taken), given["full"]]
        sequence.pages = np.concatenate([*known, np.empty(later["full"], np.int64)])
        sequence.count = len(sequence.pages) - later["full"]
        sequence.hit, sequence.tail = hit, int(given["full"][-1])
        sequence.state = int(given["state"][0]) if self._shape.has_states else NO_SLOT
        sequence.kept_from = self._needs.kept_from(sequence, hit)
        sequence.window_from = len(sequence.blocks) * self._shape.block_pages
        sequence.window_promised = later.get("window", 0)
        return True

    def _make_room(self, demand: dict[str, int], alone: bool = False) -> bool:
        """Evict until the demand fits; nothing at all where that might not be enough, unless nothing else is held."""
        if self._pool.fits(demand):
            return True
        if not alone and not self._pool.surely_fits_without(self._cache.idle_pages, demand):
            return False
        while self._cache.evictable:
            self._drop(self._cache.evict(_EVICTED_AT_ONCE))
            if self._pool.fits(demand):
                return True
        return False

    def _drop(self, blocks: list[Block]) -> None:
        """Evicted blocks are freed."""
        if not blocks:
            return
        self.result.evictions += len(blocks)
        self._pool.free("full", np.concatenate([b.pages for b in blocks]), sum(b.windowed for b in blocks))
        slots = [block.checkpoint for block in blocks if block.checkpoint != NO_SLOT]
        if slots:
            self._pool.free("checkpoint", np.array(slots, np.int64))

    # --------------------------------------------------------------------------------------------------- virtual steps

    def _step(self, admitted: list[Sequence]) -> None:
        """One step: admitted requests are prefilled, running ones grow."""
        self._thin_out()
        running, size = self._running, self._shape.page_size
        reads, writes = self._decode(running)
        self._prefill(admitted, reads, writes)
        step = self._pool.pool.begin_step(_joined(reads), _joined(writes))
        step.launched()
        new_tokens = sum(s.prompt - s.hit * self._shape.block_pages * size for s in admitted)
        self._now += self._shape.scale * (new_tokens * _PREFILL_US + bool(running) * size * _DECODE_US)
        self._running = running + admitted
        self._slide(running)
        self.result.steps += 1
        self.result.most_running = max(self.result.most_running, len(self._running))
        before, ended = len(self._flight), [s for s in self._running if s.is_over]
        if ended:
            self._running = [s for s in self._running if not s.is_over]
        self._flight.append(_Flown(step, ended))
        self._land(before + (self.result.shadow and self.result.steps % 2))
        if self.result.steps % self._check_every == 0:
            self._check()

    def _decode(self, running: list[Sequence]) -> tuple[dict[str, list[Pages]], dict[str, list[Pages]]]:
        """Running requests grow by a page of tokens; what the step reads and writes for them.

        It reads the tail of each and, in turn, all pages of one of them.
        """
        reads: dict[str, list[Pages]] = {"full": [], "window": [], "state": [], "checkpoint": []}
        writes: dict[str, list[Pages]] = {"full": [], "window": [], "state": []}
        if not running:
            return reads, writes
        size, whole = self._shape.page_size, running[self.result.steps % len(running)]
        old = np.array([s.length for s in running], np.int64)
        new = np.minimum(old + size, np.array([s.end for s in running], np.int64))
        tails = np.array([s.tail for s in running], np.int64)
        reads["full"] += [tails, whole.pages[: whole.count]]
        ids = self._pool.extend(tails, old, new)
        written = np.concatenate([tails[old % size != 0], ids])
        writes["full"].append(written)
        if self._shape.window:
            reads["window"] += [tails, whole.pages[max(whole.window_from, whole.kept_from) : whole.count]]
            self._pool.bind_window(ids)
            writes["window"].append(written)
        if self._shape.has_states:
            states = np.array([s.state for s in running], np.int64)
            reads["state"].append(states)
            writes["state"].append(states)
        self._note_growth(running, new, -(-new // size) > -(-old // size), ids)
        return reads, writes

    def _note_growth(self, running: list[Sequence], lengths: Pages, grown: NDArray[np.bool_], ids: Pages) -> None:
        fresh = iter(ids.tolist())
        has_window = bool(self._shape.window)
        for sequence, length, has_grown in zip(running, lengths.tolist(), grown.tolist(), strict=True):
            sequence.length = length
            if has_grown:
                sequence.tail = sequence.pages[sequence.count] = next(fresh)
                sequence.count += 1
                sequence.window_promised -= has_window

    def _prefill(self, admitted: list[Sequence], reads: dict[str, list[Pages]], writes: dict[str, list[Pages]]) -> None:
        """Prompts are read from the cache as far as it has them, and written behind."""
        shape = self._shape
        for sequence in admitted:
            taken = sequence.hit * shape.block_pages
            reads["full"].append(sequence.pages[:taken])
            writes["full"].append(sequence.pages[taken : sequence.count])
            if shape.window:
                reads["window"].append(sequence.pages[max(taken - shape.window_pages, 0) : taken])
                writes["window"].append(sequence.pages[sequence.kept_from : sequence.count])
            if shape.has_states:
                writes["state"].append(np.array([sequence.state], np.int64))
                if sequence.hit:
                    block = self._cache.get(sequence.blocks[sequence.hit - 1])
                    assert block is not None, "a block that a request has pinned is cached"
                    reads["checkpoint"].append(np.array([block.checkpoint], np.int64))
            sequence.length = sequence.prompt

    def _slide(self, running: list[Sequence]) -> None:
        """Pages of the window that no token to come can see are freed."""
        if not self._shape.window:
            return
        gone: list[Pages] = []
        for sequence in running:
            to = min(self._needs.slid_to(sequence), sequence.count)
            if to > sequence.window_from:
                gone.append(sequence.pages[sequence.window_from : to])
                self._pool.promised["window"] += to - sequence.window_from
                sequence.window_promised += to - sequence.window_from
                sequence.window_from = to
        if gone:
            self._pool.free("window", np.concatenate(gone))

    # ------------------------------------------------------------------------------------------------- after a step

    def _thin_out(self) -> None:
        """The spec in lockstep cannot follow many steps in flight."""
        if self.result.shadow and self._pool.moves.own_steps - self._landed_at > _OWN_STEPS:
            self._land(len(self._flight))

    def _land(self, n: int) -> None:
        """The first n steps in flight are over; what they were for is dealt with.

        First what is to be published, for leaving may move pages, and a page is not published while a copy to it is in
        flight.
        """
        over = [self._flight.popleft() for _ in range(n)]
        for flown in over:
            flown.step.complete()
        if not self._flight:
            self._landed_at = self._pool.moves.own_steps
        for flown in over:
            if len(flown.checkpoints):
                still = flown.checkpoints[flown.step.same("checkpoint", flown.checkpoints)]
                flown.step.publish("checkpoint", still)
        for flown in over:
            if flown.ended:
                self._leave(flown.step, flown.ended)
            flown.step.retire()

    def _leave(self, step: Step, ended: list[Sequence]) -> None:
        """Requests are over: what the cache can use it keeps, and the rest is freed."""
        published: list[Pages] = []
        for sequence in ended:
            published += self._donate_blocks(sequence)
        if published:
            step.publish("full", np.concatenate(published))
        pairs = [pair for sequence in ended if (pair := self._donate_state(sequence)) is not None]
        if pairs:
            states, slots = (np.array(column, np.int64) for column in zip(*pairs, strict=True))
            copy = self._pool.pool.begin_step(reads={"state": states}, writes={"checkpoint": slots})
            copy.launched()
            self._flight.append(_Flown(copy, checkpoints=slots))
        if self._shape.has_states:
            self._pool.free("state", np.array([sequence.state for sequence in ended], np.int64))
        for sequence in ended:
            self._cache.unpin(sequence.blocks)
            sequence.pages = _NONE
        self.result.done += len(ended)

    def _donate_blocks(self, sequence: Sequence) -> list[Pages]:
        """The full blocks of the prompt pass to the cache, which pins them all; what it has already is freed."""
        size, given = self._shape.block_pages, []
        rest = [sequence.pages[len(sequence.blocks) * size : sequence.count]]
        windowed = sequence.count - sequence.window_from if self._shape.window else 0
        for place in range(sequence.hit, len(sequence.blocks)):
            number, pages = sequence.blocks[place], sequence.pages[place * size : (place + 1) * size]
            kept = min(size, max(0, (place + 1) * size - sequence.kept_from)) if self._shape.window else 0
            cached = self._cache.get(number)
            if cached is None:
                self._cache.insert(number, Block(pages, kept))
                given.append(pages)
                continue
            self._cache.pin([number])
            if cached.pins == 1 and kept > cached.windowed:
                given.append(pages)
                pages, cached.pages = cached.pages, pages
                kept, cached.windowed = cached.windowed, kept
            rest.append(pages)
            windowed += kept
        self._pool.free("full", np.concatenate(rest), windowed)
        self._pool.promise({"full": len(sequence.pages) - sequence.count}, -1)
        if self._shape.window:
            self._pool.promise({"window": sequence.window_promised}, -1)
        return given

    def _donate_state(self, sequence: Sequence) -> tuple[int, int] | None:
        """A checkpoint slot for the state of a request that is over: both slots, or None where none is kept."""
        block = self._cache.get(sequence.blocks[-1]) if sequence.blocks else None
        if not self._shape.has_states or block is None or block.checkpoint != NO_SLOT:
            return None
        if not self._make_room({"checkpoint": 1}):
            self.result.not_kept += 1
            return None
        block.checkpoint = int(self._pool.alloc({"checkpoint": 1})["checkpoint"][0])
        self.result.checkpoints += 1
        return sequence.state, block.checkpoint


def _joined(parts: dict[str, list[Pages]]) -> dict[str, Any]:
    """By sub-pool, each id once."""
    return {name: distinct(np.concatenate(lists)) for name, lists in parts.items() if lists}
