"""What an engine does beside its cache: steps that compute tokens, on several streams, open, in flight and over.

A step reads the KV and the state that a request has, and leaves those of more tokens. Every read is compared with what
the oracle says, whenever the device comes to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import numpy as np

from poolproof.cached_request import CachedRequest
from poolproof.fuzz.cache_memory import Data
from poolproof.fuzz.cache_oracle import Running
from poolproof.fuzz.cache_states import State, StateModel, raw
from poolproof.fuzz.cache_world import World
from poolproof.page_errors import StepError
from poolproof.spec.arithmetic import ceil_div
from poolproof.steps import Step
from poolproof.unified_pool import UnifiedPool

Kernel = Callable[[], None]


@dataclass
class Work:
    """Steps that belong together, one in each pool that they touch.

    Attributes:
        steps: with what they do.
        request: which is computed further, if any is.
        length, state: of that request, once they are launched.
    """

    steps: list[tuple[Step, list[Kernel]]] = field(default_factory=list)
    request: CachedRequest | None = None
    length: int = 0
    state: State | None = None


class Engine:
    """Steps over the pools of a world.

    Args:
        world: where they run.
        model: what states are.

    Attributes:
        opened: work that is begun and not launched.
        flying: steps that are launched and not over.
    """

    def __init__(self, world: World, model: StateModel) -> None:
        self._world, self._model = world, model
        self.opened: list[Work] = []
        self.flying: list[Step] = []

    # ---------------------------------------------------------------------------------------------------------- bytes

    def row(self, tokens: Sequence[int]) -> Data:
        """The KV of the last of these tokens."""
        seed = crc32(np.array(tokens, np.int64).tobytes()).to_bytes(4, "little")
        return np.resize(np.frombuffer(seed, np.uint8), self._world.kv_row)

    def rows(self, tokens: Sequence[int], start: int, end: int) -> Data:
        """The KV of tokens `start` to `end`."""
        return np.concatenate([np.empty(0, np.uint8), *(self.row(tokens[: at + 1]) for at in range(start, end))])

    def expect_pages(self, pages: Sequence[int], tokens: Sequence[int], what: str) -> None:
        """Physical pages hold the KV of these tokens, in order."""
        world, size = self._world, self._world.cache.page_size
        for place, page in enumerate(pages):
            start, end = place * size, min((place + 1) * size, len(tokens))
            runs = ((0, (end - start) * world.kv_row),)
            world.memory.expect(world.pool, world.cache.kv.name, page, runs, self.rows(tokens, start, end), what)

    def expect_state(self, page: int, state: State, what: str) -> None:
        """A physical active slot holds a state."""
        states = self._world.states.states
        self._world.memory.expect(states._pool, states.name, page, self._world.runs("state"), raw(state), what)

    # --------------------------------------------------------------------------------------------------------- begin

    def compute(self, request: CachedRequest, running: Running, length: int, stream: Any) -> bool:
        """A step begins that takes a request to this length, for which it has pages. False: it must wait for others."""
        world, size = self._world, self._world.cache.page_size
        kv, state = world.cache.kv.name, world.states.states.name
        tokens = running.tokens[:length]
        first, last = request.length // size, ceil_div(length, size)
        work = Work(request=request, length=length, state=self._model.step(running.state, tokens))
        read, written = self._read_by(request, running), request.pages[first:last]
        writes = {(world.pool, kv): written, (world.states.states._pool, state): request.state}
        if not self._begin(work, read, writes, stream):
            return False
        self._readers(work, request, running)
        kernels = self._kernels(work, world.pool)
        for place, page in enumerate(self._step(work, world.pool).writes[kv].tolist(), start=first):
            start, end = max(place * size, request.length), min((place + 1) * size, length)
            kernels.append(self._writer(page, place * size, tokens, start, end))
        home = world.states.states._pool
        slot, data = int(self._step(work, home).writes[state][0]), raw(work.state or ())
        runs = world.runs("state")
        self._kernels(work, home).append(lambda: world.memory.write(home, state, slot, runs, data))
        return True

    def look(self, request: CachedRequest, running: Running, stream: Any) -> bool:
        """A step begins that compares all that a request has. False: it must wait for others."""
        work = Work()
        if not self._begin(work, self._read_by(request, running), {}, stream):
            return False
        self._readers(work, request, running)
        return True

    def _read_by(self, request: CachedRequest, running: Running) -> dict[tuple[UnifiedPool, str], Any]:
        """The ids of what a request has: whole and begun pages, and its state."""
        world = self._world
        reads = {(world.pool, world.cache.kv.name): request.pages[: ceil_div(request.length, world.cache.page_size)]}
        if running.state is not None:
            reads[world.states.states._pool, world.states.states.name] = np.array([request.state])
        return reads

    def _begin(self, work: Work, reads: dict[Any, Any], writes: dict[Any, Any], stream: Any) -> bool:
        for pool in dict.fromkeys(pool for pool, _ in [*reads, *writes]):
            read, written = (
                {name: ids for (at, name), ids in given.items() if at is pool} for given in (reads, writes)
            )
            try:
                work.steps.append((pool.begin_step(read, written, stream=stream), []))
            except StepError:
                if not self.is_open(pool):
                    raise
                self.opened += [Work(work.steps)] if work.steps else []
                return False
        self.opened.append(work)
        return True

    def is_open(self, *pools: UnifiedPool) -> bool:
        """Is a step begun and not launched, in one of these pools?"""
        return any(step._pool in pools for work in self.opened for step, _ in work.steps)

    @staticmethod
    def _step(work: Work, pool: UnifiedPool) -> Step:
        return next(step for step, _ in work.steps if step._pool is pool)

    @staticmethod
    def _kernels(work: Work, pool: UnifiedPool) -> list[Kernel]:
        return next(kernels for step, kernels in work.steps if step._pool is pool)

    def _readers(self, work: Work, request: CachedRequest, running: Running) -> None:
        """What the work compares of a request."""
        world = self._world
        what, tokens = f"a step of request {request.number} reads its KV", running.tokens[: request.length]
        pages = self._step(work, world.pool).reads[world.cache.kv.name].tolist()
        self._kernels(work, world.pool).append(lambda: self.expect_pages(pages, tokens, what))
        state, home = running.state, world.states.states._pool
        if state is not None:
            page = int(self._step(work, home).reads[world.states.states.name][0])
            text = f"a step of request {request.number} reads its state at {request.length} tokens"
            self._kernels(work, home).append(lambda: self.expect_state(page, state, text))

    def _writer(self, page: int, first: int, tokens: Sequence[int], start: int, end: int) -> Kernel:
        world = self._world
        row, data = world.kv_row, self.rows(tokens, start, end)
        runs = (((start - first) * row, (end - first) * row),)
        return lambda: world.memory.write(world.pool, world.cache.kv.name, page, runs, data)

    # ------------------------------------------------------------------------------------------------ launch, complete

    def launch(self, work: Work) -> Work:
        """Launch work, or what comes before it on a stream; what was launched. Its work is given to the device now."""
        while before := [other for other in self.opened if self._is_before(other, work)]:
            work = before[0]
        self.opened.remove(work)
        for step, kernels in work.steps:
            for kernel in kernels:
                self._world.streams.give(step.stream, kernel)
            step.launched()
            self.flying.append(step)
        return work

    @staticmethod
    def _is_before(one: Work, other: Work) -> bool:
        """Has the first one a step on a stream of a pool where the other one has a later one?"""
        return any(
            a._pool is b._pool and a.stream == b.stream and a.number < b.number
            for a, _ in one.steps
            for b, _ in other.steps
        )

    def complete(self, step: Step) -> Step:
        """Complete a step, or what comes before it; what was completed."""
        while (before := self.before(step)) is not None:
            step = before
        step.complete()
        step.retire()
        self.flying.remove(step)
        return step

    def before(self, step: Step) -> Step | None:
        """A step in flight that the device completes before this one, steps of the pool's own between them or not."""
        own = [between for between in step._pool._flight if between.own and between.is_before(step)]
        others = [one for one in self.flying if one._pool is step._pool]
        return next((one for one in others if any(one.is_before(later) for later in [step, *own])), None)

    def complete_all(self) -> None:
        """Complete what is launched; where nothing is open, a last empty step at home ends the pools' own work too."""
        for pool in self._world.pools:
            if not self.is_open(pool) and pool._flight.steps:
                step = pool.begin_step()
                step.launched()
                self.flying.append(step)
        while self.flying:
            self.complete(self.flying[0])

    def is_waiting(self, request: CachedRequest) -> bool:
        """Is a step begun for a request, and not launched?"""
        return any(work.request is request for work in self.opened)
