"""What a state cache must hold, worked out from the calls alone: a dictionary of prefixes in the order of their use.

A key is a prefix that has a checkpoint; the tree has a node where a key ends, where a running request keeps one, and
where two of those part. Of every key the bytes of its checkpoint are known, of every request the bytes of its state:
they follow from the tokens, and from the checkpoints that were loaded and stored on the way. No pool is asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

from poolproof.fuzz.cache_states import State, StateModel, Stored

Key: TypeAlias = tuple[int, ...]
"""Tokens of a prefix, whole pages of them."""


@dataclass
class Running:
    """A request that runs.

    Attributes:
        tokens: all that it has, computed or not.
        cached, length: tokens that were restored, and that are computed.
        kept: the prefix whose pages it has in common with the tree; () for none.
        state: its own; None before its first step.
        depth: how often something of it was quantised.
        track, tracked: the latest snapshot of it, with its depth, and the tokens of that.
    """

    tokens: list[int]
    cached: int
    kept: Key
    state: State | None
    depth: int
    length: int = 0
    track: tuple[State, int] | None = None
    tracked: int = 0

    def __post_init__(self) -> None:
        self.length = self.cached


@dataclass
class CacheOracle:
    """The state of a cache, as it must be.

    Args:
        page_size: tokens a page.
        strategy: of the cache.
        model: what states are.

    Attributes:
        checkpoints: by key, the least recently used first.
        running: requests by number.
        counts: what the cache counts too, by the names of `poolproof.cache_reports.Tally`.
        deepest: how often something of a loaded checkpoint was quantised at most.
    """

    page_size: int
    strategy: str
    model: StateModel
    checkpoints: dict[Key, Stored] = field(default_factory=dict)
    running: dict[int, Running] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    deepest: int = 0

    # ---------------------------------------------------------------------------------------------------- operations

    def restorable(self, tokens: Sequence[int], at_most: int | None) -> Key:
        """The longest key that a request of these tokens begins with; one token is left to compute."""
        most = len(tokens) - 1 if at_most is None else min(len(tokens) - 1, at_most)
        found = (key for key in self.checkpoints if len(key) <= most and tuple(tokens[: len(key)]) == key)
        return max(found, key=len, default=())

    def admit(self, number: int, tokens: Sequence[int], key: Key) -> Running:
        """A request begins with a key, or with nothing."""
        stored = self.checkpoints[key] if key else None
        state, depth = (None, 0) if stored is None else (stored.loaded, stored.depth)
        running = Running(list(tokens), len(key), key, state, depth)
        self.running[number] = running
        self.counts["hits" if key else "misses"] += 1
        self.counts["hit_tokens"] += len(key)
        self.counts["requested_tokens"] += len(tokens)
        self.deepest = max(self.deepest, depth)
        if key:
            self._use(key, self.checkpoints[key])
        return running

    def track(self, running: Running) -> None:
        """A snapshot of a request's state."""
        assert running.state is not None
        running.track, running.tracked = (running.state, running.depth), running.length

    def donor(self, running: Running) -> tuple[tuple[State, int] | None, int]:
        """The state that a request would donate, with its depth, and the tokens of that."""
        if self.strategy == "extra_buffer":
            return running.track, running.tracked
        return None if running.state is None else (running.state, running.depth), running.length

    def must_store(self, running: Running, key: Key) -> bool:
        """Is a checkpoint to be stored, to keep this prefix of the request? It may be there, or be nothing new."""
        return key not in self.checkpoints and len(key) > running.cached

    def keep(self, running: Running, key: Key) -> None:
        """A prefix of a request is in the cache from now on, if there is room for it."""
        stored = self.checkpoints.get(key)
        if stored is None:
            state, _ = self.donor(running)
            assert state is not None
            stored = self.model.store(*state)
            self.counts["kept"] += 1
        else:
            self.counts["deduplicated"] += 1
        self._use(key, stored)
        running.kept = key

    def skip(self) -> None:
        """A prefix is not kept."""
        self.counts["skipped"] += 1

    def end(self, number: int) -> None:
        """A request is gone."""
        del self.running[number]

    def evict(self, key: Key) -> None:
        """A checkpoint is gone."""
        del self.checkpoints[key]
        self.counts["evictions"] += 1

    def _use(self, key: Key, stored: Stored) -> None:
        self.checkpoints.pop(key, None)
        self.checkpoints[key] = stored

    # ------------------------------------------------------------------------------------------------------- queries

    def victims(self, leaves: bool, loading: Key) -> Iterator[Key]:
        """What can be evicted, in order: any checkpoint that is not being loaded, or only leaves that nobody keeps."""
        held = [*self.checkpoints, *(running.kept for running in self.running.values())]
        for key in self.checkpoints:
            if key == loading and key:
                continue
            is_inner = any(len(other) > len(key) and other[: len(key)] == key for other in held)
            is_kept = any(running.kept == key for running in self.running.values())
            if not (leaves and (is_inner or is_kept)):
                yield key

    def nodes(self) -> dict[Key, bool]:
        """Where the tree has nodes, and whether with a checkpoint."""
        ends = dict.fromkeys(self.checkpoints, True)
        for running in self.running.values():
            if running.kept:
                ends.setdefault(running.kept, False)
        for one, other in pairwise(sorted(ends)):
            common = self._common(one, other)
            if common:
                ends.setdefault(one[:common], False)
        return ends

    def _common(self, one: Key, other: Key) -> int:
        """Tokens that two have in common, whole pages of them."""
        n = min(len(one), len(other))
        equal = next((i for i in range(n) if one[i] != other[i]), n)
        return equal // self.page_size * self.page_size

    def prefixes(self, keys: Sequence[Key]) -> set[Key]:
        """All that have a page under these keys: each page by the prefix that ends with it."""
        size = self.page_size
        return {key[:end] for key in keys for end in range(size, len(key) + 1, size)}

    def idle_pages(self, loading: Key = ()) -> int:
        """KV pages of the tree that no request keeps, and that are not those of a key that is being loaded."""
        kept = self.prefixes([loading, *(running.kept for running in self.running.values())])
        return len(self.prefixes(list(self.checkpoints)) - kept)
