"""A state cache beside what the oracle says: tree, requests, figures after each operation, now and then all bytes."""

from __future__ import annotations

from typing import Any

from poolproof.cached_request import CachedRequest
from poolproof.fuzz.cache_engine import Engine
from poolproof.fuzz.cache_oracle import CacheOracle, Key, Running
from poolproof.fuzz.cache_states import raw
from poolproof.fuzz.cache_world import World
from poolproof.radix_tree import Node
from poolproof.spec.arithmetic import ceil_div


class Departure(AssertionError):
    """The cache is not in the state that follows from the calls."""


class CacheComparison:
    """A cache and the oracle.

    Args:
        world: the cache, its pools and their bytes.
        oracle: what must be.
        engine: knows what must be where.
        live: the requests, by number.
    """

    def __init__(self, world: World, oracle: CacheOracle, engine: Engine, live: dict[int, CachedRequest]) -> None:
        self._world, self._oracle, self._engine, self._live = world, oracle, engine, live

    # ------------------------------------------------------------------------------------------------------- as noted

    def key_of(self, node: Node) -> Key:
        """The tokens that lead to a node."""
        return tuple(self._world.cache._tree.tokens_of(node).tolist())

    def compare(self, operation: str) -> None:
        """Raises Departure where tree, requests or figures are not those of the oracle."""
        tree, oracle = self._world.cache._tree, self._oracle
        nodes = {self.key_of(node): self._has_checkpoint(node) for node in tree.nodes.values()}
        self._same(operation, "nodes of the tree, and which of them have a checkpoint", nodes, oracle.nodes())
        numbers = list(self._world.cache._requests)
        self._same(operation, "live requests", sorted(numbers), sorted(oracle.running))
        for number, running in oracle.running.items():
            self._compare_request(operation, self._live[number], running)
        self._compare_figures(operation)

    def _has_checkpoint(self, node: Node) -> bool:
        return self._world.states.checkpoint_of(node.number) is not None

    def _compare_request(self, operation: str, request: CachedRequest, running: Running) -> None:
        size = self._world.cache.page_size
        shared = len(running.kept) // size
        tracks = 2 if self._oracle.strategy == "extra_buffer" else 0
        ours = (request.cached, request.length, request.tracked, request.shared, len(request.tracks))
        theirs = (running.cached, running.length, running.tracked, shared, tracks)
        self._same(operation, f"cached, length, tracked, shared, tracks of {request!r}", ours, theirs)
        if len(request.pages) < ceil_div(running.length, size):
            raise Departure(f"{operation}: {request!r} has fewer pages than its {running.length} tokens take")
        node = self._world.cache._tree.pages_of(request._node).tolist()
        self._same(operation, f"shared pages of {request!r}", request.pages[:shared].tolist(), node)
        slots = {request.state, *request.tracks}
        if len(slots) != 1 + tracks or None in slots:
            raise Departure(f"{operation}: {request!r} has the slots {slots}")

    def _compare_figures(self, operation: str) -> None:
        stats, oracle = self._world.cache.stats(), self._oracle
        pages = len(oracle.prefixes(list(oracle.nodes())))
        theirs = {
            "pages": pages,
            "tokens": pages * oracle.page_size,
            "idle_pages": oracle.idle_pages(),
            "checkpoints": len(oracle.checkpoints),
            "requests": len(oracle.running),
            **oracle.counts,
        }
        ours = {name: getattr(stats, name) for name in theirs}
        self._same(operation, "figures", ours, theirs)

    @staticmethod
    def _same(operation: str, what: str, ours: Any, theirs: Any) -> None:
        if ours != theirs:
            if isinstance(ours, dict) and isinstance(theirs, dict):
                ours, theirs = (
                    {key: value for key, value in one.items() if key not in other or other[key] != value}
                    for one, other in ((ours, theirs), (theirs, ours))
                )
            raise Departure(f"{operation}: {what}: the cache has {ours}, the oracle {theirs}")

    # ------------------------------------------------------------------------------------------------------ the bytes

    def expect_bytes(self) -> None:
        """Look at every byte that is known: pages and checkpoints of the tree, requests. The device was drained."""
        world = self._world
        for node in world.cache._tree.nodes.values():
            key = self.key_of(node)
            pages = world.cache.kv.physical(world.cache._tree.pages_of(node)).tolist()
            self._engine.expect_pages(pages, key, f"node of {list(key)}")
            if key in self._oracle.checkpoints:
                self._expect_checkpoint(node, key)
        for number, running in self._oracle.running.items():
            self.expect_request(self._live[number], running)

    def _expect_checkpoint(self, node: Node, key: Key) -> None:
        checkpoints = self._world.states.checkpoints
        slot = self._world.states.checkpoint_of(node.number)
        assert slot is not None
        page = int(checkpoints.physical(slot)[0])
        data, what = raw(self._oracle.checkpoints[key].parts), f"checkpoint of {list(key)}"
        runs = self._world.runs("checkpoint")
        self._world.memory.expect(checkpoints._pool, checkpoints.name, page, runs, data, what)

    def expect_request(self, request: CachedRequest, running: Running) -> None:
        """Look at what a request has: its KV, its state and its latest track. The device was drained."""
        world, what = self._world, f"request {request.number} at {running.length} tokens"
        count = ceil_div(running.length, world.cache.page_size)
        pages = world.cache.kv.physical(request.pages[:count]).tolist()
        self._engine.expect_pages(pages, running.tokens[: running.length], what)
        if running.state is not None:
            page = int(world.states.states.physical(request.state or 0)[0])
            self._engine.expect_state(page, running.state, what)
        latest = world.states._tenants[request.number].latest
        if running.track is not None and latest is not None:
            page = int(world.states.states.physical(latest)[0])
            self._engine.expect_state(page, running.track[0], f"track of {what}")

    # ------------------------------------------------------------------------------------------------------ snapshots

    def whole(self) -> tuple[Any, ...]:
        """Everything that decides what happens next, but for bytes."""
        cache = self._world.cache
        stock = cache._stock
        pools = [pool.snapshot() for pool in self._world.pools]
        return (pools, self.logical(), stock.checkpoints, stock.clock, cache._admitted)

    def logical(self) -> tuple[Any, ...]:
        """Who owns what: what a call leaves as it was that is begun, and fails in the midst of it."""
        cache = self._world.cache
        nodes = [
            (n.number, n.length, n.data, n.pages.tolist(), n.pins, n.stamp, -1 if n.parent is None else n.parent.number)
            for n in cache._tree.nodes.values()
        ]
        requests = [
            (r.number, r.pages.tolist(), r.shared, r.length, r.tracked, r.state, r.tracks, r._node.number)
            for r in cache._requests.values()
        ]
        bound = [int(table.bound) for pool in self._world.pools for table in pool._tables]
        return (bound, self._world.states.snapshot(), nodes, requests)
