"""Request traces through the shipped slot pool in virtual time, with the spec in lockstep.

One slot holds one block of 512 tokens. A request that arrives pins the blocks of its prompt that the prefix cache has
(from the first on, without a gap) and is given slots for the rest of its prompt and for what it will generate, all or
none. Where the pool is short, unpinned blocks are evicted, those used longest ago first; where even all of them would
not suffice, nothing is evicted and the request is refused. When it is over it donates the full blocks of its prompt
that the cache has not got meanwhile, and its other slots are freed.

Time is a simple model, made to let requests overlap as they do in service: a request takes 0.1 ms for each token of
its prompt that was not cached and 25 ms for each token that it generates. Requests that end when another arrives end
first, in the order of their numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from time import perf_counter
from typing import Any, Final

import msgspec

from poolproof.fuzz.binding import Binding
from poolproof.fuzz.coverage import Coverage
from poolproof.fuzz.divergence import Diverged, Divergence
from poolproof.fuzz.errors import SettingError
from poolproof.fuzz.lockstep import Lockstep
from poolproof.fuzz.mooncake import BLOCK_TOKENS, Request
from poolproof.fuzz.prefix_cache import PrefixCache
from poolproof.fuzz.slot_target import SlotPoolTarget
from poolproof.fuzz.targets import profile_of
from poolproof.fuzz.touched import TouchedComparison
from poolproof.spec.arithmetic import ceil_div
from poolproof.spec.slots import Owner

DEFAULT_SLOTS: Final = 32_768
"""Slots of a replay's pool unless given: 16.8 million tokens."""
FULL_EVERY: Final = 20_000
"""The whole state is compared after this many steps, besides at the end."""
_CACHE: Final = 0
_PREFILL_US: Final = 100
_DECODE_US: Final = 25_000

Progress = Callable[[str, int, int], None]


@dataclass
class ReplayResult:
    """What a replay has shown.

    Attributes:
        slots: slots of the pool.
        requests: requests that arrived.
        blocks: blocks of the prompts of the requests that were not refused.
        hits: those of them that the cache had.
        evictions: blocks evicted.
        refusals: requests refused.
        peak: most slots in use at once, the cache included.
        steps: operations of the pool, each of them compared with the spec.
        seconds: how long it took.
        virtual_seconds: virtual time between the first arrival and the end of the last request.
        violations: where the pool left the spec; the replay ends at the first.
    """

    slots: int
    requests: int = 0
    blocks: int = 0
    hits: int = 0
    evictions: int = 0
    refusals: int = 0
    peak: int = 0
    steps: int = 0
    seconds: float = 0.0
    virtual_seconds: float = 0.0
    violations: list[Divergence] = field(default_factory=list)

    @property
    def hit_rate(self) -> float:
        """The share of prompt blocks that the cache had."""
        return self.hits / self.blocks if self.blocks else 0.0

    @property
    def rate(self) -> float:
        """Checked steps a second."""
        return self.steps / self.seconds if self.seconds else 0.0

    @property
    def passed(self) -> bool:
        """The pool never left the spec."""
        return not self.violations

    def plain(self) -> dict[str, Any]:
        """The result for JSON."""
        return {
            "verdict": "passed" if self.passed else "failed",
            "slots": self.slots,
            "requests": self.requests,
            "blocks": self.blocks,
            "hits": self.hits,
            "hit_rate": round(self.hit_rate, 6),
            "peak_slots": self.peak,
            "evictions": self.evictions,
            "refusals": self.refusals,
            "steps": self.steps,
            "seconds": round(self.seconds, 3),
            "steps_per_second": round(self.rate),
            "virtual_seconds": round(self.virtual_seconds, 3),
            "violations": [msgspec.to_builtins(violation, enc_hook=str) for violation in self.violations],
        }


@dataclass
class _Running:
    """A request that is running: its number as a holder, the blocks it has pinned, those it fills, and its slots."""

    number: int
    pinned: tuple[int, ...]
    fills: tuple[int, ...]
    slots: list[int]


def replay_requests(
    requests: Sequence[Request],
    slots: int = DEFAULT_SLOTS,
    full_every: int = FULL_EVERY,
    progress: Progress | None = None,
) -> ReplayResult:
    """Replay a request trace.

    Args:
        requests: in the order of their arrival.
        slots: slots of the pool.
        full_every: the whole state is compared after this many steps, besides at the end.
        progress: called now and then.

    Raises:
        SettingError: slots is not positive.
    """
    if slots < 1:
        raise SettingError(f"a pool of {slots} slots; it needs at least one")
    replay = _Replay(slots, full_every)
    started = perf_counter()
    try:
        replay.run(requests, progress or (lambda what, done, of: None))
    except Diverged as diverged:
        replay.result.violations.append(msgspec.structs.replace(diverged.divergence, number=replay.pool.checked))
    result = replay.result
    result.seconds = perf_counter() - started
    result.steps, result.peak = replay.pool.checked, replay.peak
    return result


class _Replay:
    """The state of a replay."""

    def __init__(self, slots: int, full_every: int) -> None:
        self._target = SlotPoolTarget(slots)
        binding = Binding(self._target, profile_of(self._target, "slot-pool"))
        self.pool = Lockstep(
            binding,
            slots,
            Coverage(),
            lambda bound, state: TouchedComparison(bound, state, self._target.pool, full_every),
        )
        self.result = ReplayResult(slots)
        self._cache = PrefixCache()
        self._running: dict[int, _Running] = {}
        self._ends: list[tuple[int, int]] = []  # (when in us, number of the request)
        self._now = 0

    @property
    def peak(self) -> int:
        """Most slots in use at once so far."""
        return self._target.pool.stats().peak

    def run(self, requests: Sequence[Request], progress: Progress) -> None:
        """Let all requests arrive and end."""
        for number, request in enumerate(requests, 1):  # the cache is holder 0
            self._now = request.timestamp * 1000
            self._end_due(self._now)
            self._arrive(number, request)
            if number % 256 == 0:
                progress("requests", number, len(requests))
        while self._ends:
            self._now = self._ends[0][0]
            self._end_due(self._now)
        if requests:
            self.result.virtual_seconds = self._now / 1e6 - requests[0].timestamp / 1e3
        self.pool.check_health()

    def _arrive(self, number: int, request: Request) -> None:
        self.result.requests += 1
        cached = self._cache.longest_prefix(request.hash_ids)
        pinned, fills = request.hash_ids[:cached], request.hash_ids[cached:]
        need = ceil_div(request.input_length + request.output_length, BLOCK_TOKENS) - cached
        self._cache.pin(pinned)
        self._make_room(need)
        slots = self.pool.alloc(need, number)
        if slots is None:
            self.result.refusals += 1
            self._cache.unpin(pinned)
            return
        self.result.blocks += len(request.hash_ids)
        self.result.hits += cached
        self._running[number] = _Running(number, pinned, fills, slots)
        missed = max(0, request.input_length - cached * BLOCK_TOKENS)
        heappush(self._ends, (self._now + missed * _PREFILL_US + request.output_length * _DECODE_US, number))

    def _make_room(self, need: int) -> None:
        short = need - self._target.pool.capacity()
        if 0 < short <= self._cache.evictable:
            self.pool.free(self._cache.evict(short), _CACHE)
            self.result.evictions += short

    def _end_due(self, now: int) -> None:
        while self._ends and self._ends[0][0] <= now:
            self._end(self._running.pop(heappop(self._ends)[1]))

    def _end(self, request: _Running) -> None:
        """Donate what the cache has not got, free the rest, unpin."""
        new = [i for i, block in enumerate(request.fills) if block not in self._cache]
        given = [request.slots[i] for i in new]
        if new:
            self.pool.transfer(given, request.number, Owner.CACHE, _CACHE)
        kept = set(new)
        rest = [slot for i, slot in enumerate(request.slots) if i not in kept]
        if rest:
            self.pool.free(rest, request.number)
        self._cache.touch([block for i, block in enumerate(request.fills) if i not in kept])
        self._cache.insert([request.fills[i] for i in new], given)
        self._cache.unpin(request.pinned)
