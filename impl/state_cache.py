"""A prefix cache of a hybrid model: KV pages and recurrent states of prefixes that requests have in common.

    pool = pp.UnifiedPool(total_bytes, [pp.KVPages("full", ...), pp.StateSlots("state", ...), pp.Checkpoints(...)])
    cache = pp.StateCache(pool, pp.CheckpointPool(pool["state"], pool["checkpoint"]))
    request = cache.admit(prompt)                      # the longest prefix that can be restored, in a state of its own
    cache.extend(request, len(prompt))                 # KV pages for the rest
    ...                                                # a step computes tokens request.cached to len(prompt) - 1
    cache.computed(request, len(prompt))
    cache.finish(request, prompt)                      # into the cache with what can be kept

A prefix can be restored where its KV *and* the state behind it are: at the deepest checkpoint on its path. So nothing
is inserted without a checkpoint at its end, and keys end at whole pages. The cache is a compact radix tree (see
`poolproof.radix_tree`); what goes when room is short, and in which order, says `poolproof.cache_stock`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal, NoReturn, TypeAlias
from weakref import ref

import numpy as np

from poolproof.arguments import Ids, as_count
from poolproof.cache_reports import CacheStats, Match, Tally, cache_stats
from poolproof.cache_stock import CacheStock
from poolproof.cached_request import CachedRequest
from poolproof.checkpoint_errors import LifecycleError
from poolproof.checkpoint_pool import CheckpointPool
from poolproof.errors import LayoutError
from poolproof.page_errors import BufferExhausted, PoolBusy
from poolproof.pool_state import unwritable
from poolproof.radix_tree import NOTHING, Node, Pages, Path, RadixTree, Tokens, as_tokens, upwards
from poolproof.spec.arithmetic import ceil_div
from poolproof.unified_pool import UnifiedPool

if TYPE_CHECKING:
    from poolproof.checkpoint_owners import Donation, Source
    from poolproof.sub_pool import SubPool
    from poolproof.violation import Violation

Strategy: TypeAlias = Literal["no_buffer", "extra_buffer"]
"""Which state is donated: the request's own, or its latest track."""

STRATEGIES: Final[tuple[Strategy, ...]] = ("no_buffer", "extra_buffer")
_KINDS: Final = ("kv", "mla", "pages")


class StateCache:
    """The cache. It owns all pages of the KV sub-pool, and all that the CheckpointPool has.

    Every operation is done in full, or refused with an error that leaves everything as it was; but what was evicted to
    make room stays evicted. Requests that run keep the pages of their prefix; a checkpoint is kept while it is loaded.

    Args:
        pool: holds the KV sub-pool.
        states: active slots and checkpoints, of the same pool, where all bytes flex, or of others. Nothing else uses
            its requests and nodes.
        kv: the name of the KV sub-pool: KVPages, LatentPages or Pages, which own their ids.
        strategy: "no_buffer": a request donates its own state, so that a prefix can be kept exactly when the request
            stands at its end. "extra_buffer": it donates the latest of two track buffers, which `track` fills.

    Raises:
        LayoutError: there is no such sub-pool, or it is of another kind; the states are those of another pool, or on
            another device.
        PoolBusy: the KV sub-pool has live pages, or the CheckpointPool nodes, requests or another cache.
        TypeError, ValueError: pool or states are something else; there is no such strategy.

    Attributes:
        pool, states, strategy: as given.
        kv: the KV sub-pool.
        page_size: tokens a page.
    """

    def __init__(
        self, pool: UnifiedPool, states: CheckpointPool, *, kv: str = "full", strategy: Strategy = "no_buffer"
    ) -> None:
        _check(pool, states, kv, strategy)
        self.pool, self.states, self.strategy = pool, states, strategy
        self.kv: SubPool = pool[kv]
        self.page_size = self.kv.layout.page_size
        self._tree = RadixTree(self.page_size)
        self._tally = Tally()
        self._stock = CacheStock(self._tree, self.kv, states, self._tally)
        self._requests: dict[int, CachedRequest] = {}
        self._admitted = 0
        self._pools = tuple(dict.fromkeys((pool, states.states._pool, states.checkpoints._pool)))
        states._cache = ref(self)

    # ------------------------------------------------------------------------------------------------ a request's life

    def admit(self, tokens: Ids, *, at_most: int | None = None) -> CachedRequest:
        """A request begins with the longest prefix of its tokens that can be restored, one token at least left out.

        It is given an active slot (under "extra_buffer" three), into which the checkpoint is loaded, and it keeps the
        prefix's pages. What it needs is kept before anything is evicted for the slots.

        Args:
            tokens: [n], n > 0: its prompt, ids from 0 up.
            at_most: restore so many tokens of them at most.

        Raises:
            BufferExhausted: the slots are not to be had, even if everything idle were evicted.
            StepError: a step at home is begun and not launched, so that nothing can be loaded.
            TypeError, ValueError: the tokens are no 1-D integers, empty or negative; `at_most` is negative.
        """
        self._enter()
        array = as_tokens(tokens).copy()
        node = self._restorable(array, at_most)
        request = CachedRequest(self, self._admitted, array, node, self._tree.pages_of(node))
        self.states.enqueue(request.number)
        self._tree.pin(node)
        try:
            self._begin(request)
        except BaseException as error:
            self._tally.refused += isinstance(error, BufferExhausted)
            self._let_go(request)
            raise
        self._admitted += 1
        self._requests[request.number] = request
        self._count(request, len(array))
        return request

    def try_admit(self, tokens: Ids, *, at_most: int | None = None) -> CachedRequest | None:
        """As `admit`, but None where the slots are not to be had."""
        try:
            return self.admit(tokens, at_most=at_most)
        except BufferExhausted:
            return None

    def extend(self, request: CachedRequest, length: int) -> Pages:
        """KV pages, so that the request has room for so many tokens.

        Args:
            length: tokens in all, no fewer than it has computed.

        Returns:
            The new ids, which are the last of its pages now; none where it has room enough.

        Raises:
            BufferExhausted: they are not to be had, even if everything idle were evicted.
            LifecycleError: the request has ended, or is one of another cache.
            ValueError: it has computed more tokens.
        """
        self._live("extend", request)
        length = as_count("length", length)
        if length < request.length:
            raise ValueError(f"extend to {length}: {request!r} has computed more. Nothing was changed.")
        more = ceil_div(length, self.page_size) - len(request.pages)
        if more <= 0:
            return NOTHING.copy()
        new = self.kv.try_alloc(more)
        if new is None:
            self._make_room_for(self.kv, more)
            new = self.kv.alloc(more)
        request._pages = unwritable(np.concatenate([request.pages, new]))
        return new

    def computed(self, request: CachedRequest, length: int) -> None:
        """A step was launched after which the request's KV and its own state are at so many tokens.

        Raises:
            LifecycleError: as for `extend`.
            ValueError: that is less than before, or beyond its pages.
        """
        self._live("computed", request)
        length = as_count("length", length)
        room = len(request.pages) * self.page_size
        if not request.length <= length <= room:
            raise ValueError(
                f"computed {length}: {request!r} is at {request.length} tokens and has room for {room}; extend it "
                f"first. Nothing was changed."
            )
        if length > request.length:
            self.states.advance(request.number, length - request.length)
            request.length = length

    def track(self, request: CachedRequest) -> None:
        """Under "extra_buffer": copy the request's own state, at a whole page, into the older of its track buffers.

        Raises:
            LifecycleError: the cache has another strategy; or as for `extend`.
            ValueError: the request is not at the end of a page.
        """
        self._live("track", request)
        if self.strategy != "extra_buffer":
            raise LifecycleError(
                f"track: the cache has strategy={self.strategy!r}, and requests no track buffers; make it with "
                f"strategy='extra_buffer'. Nothing was changed."
            )
        if not request.length or request.length % self.page_size:
            raise ValueError(
                f"track: {request!r} is at {request.length} tokens; only a state at whole pages of {self.page_size} "
                f"can be kept. Nothing was changed."
            )
        self.states.track(request.number)
        request.tracked = request.length

    def keep(self, request: CachedRequest, tokens: Ids) -> bool:
        """A prefix of a running request goes into the cache: tokens, pages and a checkpoint of the state behind them.

        Where the cache has some of the pages, the request gives its own back and has those from now on. Where it has
        the prefix with a checkpoint, nothing is stored.

        Args:
            tokens: [n], the request's first n tokens, n a multiple of the page size: under "no_buffer" as many as it
                has computed, under "extra_buffer" as its latest track has.

        Returns:
            Whether the prefix is in the cache now. It is not where no checkpoint slot is to be had, even if everything
            idle were evicted; and where the state is still as it was loaded, and the checkpoint is gone: it would be
            quantised twice.

        Raises:
            LifecycleError: there is no track; or as for `extend`.
            StepError: a step at home is begun and not launched, so that nothing can be stored.
            TypeError, ValueError: as for `admit`; the tokens are not the request's, or not as many.
        """
        self._live("keep", request)
        array = self._tokens_of("keep", request, tokens)
        source, length = self._donor(request)
        if not length:
            raise LifecycleError(f"keep: {request!r} has computed or tracked nothing. Nothing was changed.")
        if len(array) != length or length % self.page_size:
            raise ValueError(
                f"keep: {len(array)} tokens are given, the state to keep is at {length}, and pages have "
                f"{self.page_size}: give as many tokens as that state has, when it is at whole pages. "
                f"Nothing was changed."
            )
        return self._keep(request, array, source)

    def finish(self, request: CachedRequest, tokens: Ids) -> bool:
        """The request ends: what can be kept goes into the cache, and everything else is given back.

        That is all that it has computed, if it ends at a whole page; under "extra_buffer" what its latest track has.

        Args:
            tokens: [n], the request's tokens, all that it has computed at least.

        Returns:
            Whether a prefix was kept, as `keep` says.

        Raises:
            LifecycleError, StepError, TypeError, ValueError: as for `keep`.
        """
        return self._finish("finish", request, tokens)

    def _finish(self, operation: str, request: CachedRequest, tokens: Ids) -> bool:
        self._live(operation, request)
        array = self._tokens_of(operation, request, tokens)
        if len(array) < request.length:
            raise ValueError(
                f"{operation}: {len(array)} tokens are given and {request.length} were computed: give all of them, or "
                f"abort the request. Nothing was changed."
            )
        source, length = self._donor(request)
        is_kept = length > 0 and length % self.page_size == 0 and self._keep(request, array[:length], source)
        self._let_go(request)
        return is_kept

    def _end(self, operation: str, request: CachedRequest) -> None:
        self._live(operation, request)
        self._let_go(request)

    def retract(self, request: CachedRequest, tokens: Ids | None = None) -> None:
        """The request makes room, and is admitted again later, as a new one.

        Args:
            tokens: as for `finish`, to keep what can be kept; None to keep nothing.

        Raises:
            LifecycleError, StepError, TypeError, ValueError: as for `keep`.
        """
        if tokens is None:
            self._end("retract", request)
        else:
            self._finish("retract", request, tokens)

    def abort(self, request: CachedRequest) -> None:
        """The request ends, at any point, and nothing more of it is kept.

        Raises:
            LifecycleError: as for `extend`.
        """
        self._end("abort", request)

    # ------------------------------------------------------------------------------------------------------------ room

    def make_room(self, demand: Mapping[str, int]) -> bool:
        """Evict the least recently used until so many pages of each sub-pool can be had together, and no more.

        Args:
            demand: pages by sub-pool, of `pool` or of those of the CheckpointPool; of two with one name, that of
                `pool`.

        Returns:
            Whether they can be had now. If not, either nothing was evicted, because the bytes of all that is idle are
            too few; or all of it was, and it was not enough: page sizes, steps, leases or gates are in the way.

        Raises:
            WrongThread, KeyError, TypeError, ValueError: as for `UnifiedPool.fits`.
        """
        if not isinstance(demand, Mapping):
            raise TypeError(f"a demand is a mapping such as {{'full': 8}}, not {demand!r}")
        parts: dict[int, tuple[UnifiedPool, dict[str, int]]] = {}
        for name, n in demand.items():
            pool = self._pool_of(name)
            parts.setdefault(id(pool), (pool, {}))[1][name] = n
        return self._stock.make_room(list(parts.values()))

    def evict(self, nodes: int = 1) -> int:
        """Evict the least recently used checkpoints, and the pages of whatever can no longer be hit.

        Args:
            nodes: how many.

        Returns:
            How many were evicted: fewer where there are no more that are not locked.
        """
        self._enter()
        return self._stock.evict(as_count("nodes", nodes))

    def clear(self) -> None:
        """The cache is empty: all its checkpoints and pages are free.

        Raises:
            PoolBusy: requests are running.
        """
        self._enter()
        if self._requests:
            listed = ", ".join(map(repr, list(self._requests.values())[:8]))
            raise PoolBusy(f"clear: {len(self._requests)} requests run: {listed}; end them first. Nothing was changed.")
        self._stock.evict(self._stock.checkpoints)

    # --------------------------------------------------------------------------------------------------------- queries

    def match(self, tokens: Ids, *, at_most: int | None = None) -> Match:
        """What `admit` would restore now: a look, which keeps nothing and counts as no use.

        Raises:
            TypeError, ValueError: as for `admit`.
        """
        node = self._restorable(as_tokens(tokens), at_most)
        return Match(node.length, node.number or None)

    def stats(self) -> CacheStats:
        """The cache in figures; its time depends on the number of running requests alone."""
        return cache_stats(self)

    def check(self) -> list[Violation]:
        """Everything that must be true of the tree, its requests and what they own; [] means healthy.

        What the CheckpointPool and the pools under all of it say of themselves is included.
        """
        from poolproof.cache_check import check_cache

        return check_cache(self)

    # --------------------------------------------------------------------------------------------------------- matters

    def _restorable(self, tokens: Tokens, at_most: int | None) -> Node:
        """The deepest node with a checkpoint on the path of these tokens, of which one at least is left out."""
        limit = len(tokens) - 1 if at_most is None else min(len(tokens) - 1, as_count("at_most", at_most))
        path = self._tree.match(tokens, limit)
        return next((node for node in upwards(path.node) if node.stamp), self._tree.root)

    def _begin(self, request: CachedRequest) -> None:
        """Slots for a request that waits, and its state. What it needs is locked before anything may be evicted."""
        number, node, states = request.number, request._node, self.states
        is_hit, slots = node is not self._tree.root, 3 if self.strategy == "extra_buffer" else 1
        loading = None
        if is_hit:
            request._lock = states.lock(number, node.number, "pages")
            loading = states.lock(number, node.number, "state")
        self._make_room_for(states.states, slots)
        if loading is None:
            request.state = states.admit(number)
        else:
            request.state = states.hit(number, node.number)
            loading.release()
        states.start(number)
        if slots > 1:
            request.tracks = states.add_tracks(number)
        request.is_live = True

    def _count(self, request: CachedRequest, tokens: int) -> None:
        """A request was admitted: a use of what it has hit."""
        self._tally.requested_tokens += tokens
        self._tally.hit_tokens += request.cached
        if request.cached:
            self._tally.hits += 1
            self._stock.touch(request._node)
        else:
            self._tally.misses += 1

    def _make_room_for(self, sub_pool: SubPool, pages: int) -> None:
        """Raises BufferExhausted where the pages are not to be had, even by evicting."""
        if not self._stock.make_room([(sub_pool._pool, {sub_pool.name: pages})]):
            raise sub_pool._pool._exhausted(sub_pool._table, pages)

    def _donor(self, request: CachedRequest) -> tuple[Source, int]:
        """Which state the request would donate, and at how many tokens that is: all that depends on the strategy."""
        return ("own", request.length) if self.strategy == "no_buffer" else ("track", request.tracked)

    def _donate(self, request: CachedRequest, source: Source) -> Donation | None:
        """Store a state; None where there is no slot for it, even by evicting."""
        donation = self.states.donate(request.number, source)
        if donation is not None:
            return donation
        checkpoints = self.states.checkpoints
        if not self._stock.make_room([(checkpoints._pool, {checkpoints.name: 1})]):
            return None
        return self.states.donate(request.number, source)

    def _keep(self, request: CachedRequest, key: Tokens, source: Source) -> bool:
        """Keep a prefix of a request; the state to donate is at its end."""
        path, evictions = self._tree.match(key), self._tally.evictions
        if path.node.length == len(key) and path.node.stamp:
            self._tally.deduplicated += 1
            self._stock.touch(path.node)
            self._adopt(request, path.node, key)
            return True
        self.states._check_shadow("node", more=2)  # a node is split, and one is added
        self.states._check_shadow("lock")
        donation = self._donate(request, source) if len(key) > request.cached else None
        if donation is None:
            self._tally.skipped += 1
            return False
        if self._tally.evictions > evictions:  # nodes of the path may be gone, though none of the request's own
            path = self._tree.match(key)
        node = self._place(request, key, path)
        self._stock.publish(donation, node)
        self._tally.kept += 1
        self._adopt(request, node, key)
        return True

    def _place(self, request: CachedRequest, key: Tokens, path: Path) -> Node:
        """The node that ends with the key: one of the tree, the upper half of one, or a new leaf of own pages."""
        node = path.node
        if path.branch is not None:
            node = self._tree.split(path.branch, path.length)
            self._tally.splits += 1
            self.states.add_node(node.number, node.length)
        if path.length < len(key):
            pages = request.pages[path.length // self.page_size : len(key) // self.page_size]
            node = self._tree.append(node, key[path.length :], pages)
            self.states.add_node(node.number, node.length)
        return node

    def _adopt(self, request: CachedRequest, node: Node, key: Tokens) -> None:
        """The request's first pages are those of a node at or below its own, which it keeps from now on."""
        pages, old = self._tree.pages_of(node), request._node
        own = request.pages[request.shared : len(pages)]
        duplicates = own[own != pages[request.shared :]]
        request._pages = unwritable(np.concatenate([pages, request.pages[len(pages) :]]))
        request._node, request.shared = node, len(pages)
        if len(key) > len(request._known):
            request._known = key.copy()
        if node is not old:
            lock, request._lock = request._lock, self.states.lock(request.number, node.number, "pages")
            self._tree.pin(node, above=old)
            if lock is not None:
                lock.release()
            self._stock.prune(old)
        if len(duplicates):
            self.kv.free(duplicates)
            self._tally.duplicate_pages += len(duplicates)

    def _let_go(self, request: CachedRequest) -> None:
        """Everything of a request is given back: slots, donations, locks, its own pages."""
        self.states.finish(request.number)
        own, node = request.pages[request.shared :], request._node
        request.is_live, request.state, request.tracks, request._lock = False, None, (), None
        request._pages, request.shared = unwritable(NOTHING.copy()), 0
        self._requests.pop(request.number, None)
        if len(own):
            self.kv.free(own)
        self._tree.unpin(node)
        self._stock.prune(node)

    # ---------------------------------------------------------------------------------------------------------- checks

    def _enter(self) -> None:
        """An operation is refused before it begins where one of the pools would refuse it on the way."""
        for pool in self._pools:
            pool._enter()

    def _live(self, operation: str, request: CachedRequest) -> None:
        self._enter()
        if not isinstance(request, CachedRequest):
            raise TypeError(f"{operation}: {request!r} is no CachedRequest; pass what `admit` returned")
        if request._cache is not self:
            raise LifecycleError(f"{operation}: {request!r} is one of another cache. Nothing was changed.")
        if not request.is_live:
            raise LifecycleError(f"{operation}: {request!r}; admit it again. Nothing was changed.")

    def _tokens_of(self, operation: str, request: CachedRequest, tokens: Ids) -> Tokens:
        """The tokens as an array, which must agree with what is known of the request."""
        array = as_tokens(tokens)
        n = min(len(array), len(request._known))
        equal = array[:n] == request._known[:n]
        if not equal.all():
            at = int(equal.argmin())
            raise ValueError(
                f"{operation}: token {at} is {array[at]}, and that of {request!r} is {request._known[at]}: give the "
                f"request's own tokens. Nothing was changed."
            )
        return array

    def _pool_of(self, name: str) -> UnifiedPool:
        for sub_pool in (self.states.states, self.states.checkpoints):
            if sub_pool.name == name and name not in self.pool._places:
                return sub_pool._pool
        return self.pool

    def __reduce__(self) -> NoReturn:
        """A cache is not copied or pickled: its pages would have two owners."""
        raise TypeError("a StateCache cannot be copied or pickled; make a new one")

    def __repr__(self) -> str:
        tree = self._tree
        return (
            f"StateCache({self.strategy!r}, nodes={len(tree.nodes)}, pages={tree.pages}, "
            f"checkpoints={self._stock.checkpoints}, requests={len(self._requests)})"
        )


def _check(pool: UnifiedPool, states: CheckpointPool, kv: str, strategy: str) -> None:
    """Raises where a cache cannot be made of these."""
    if not isinstance(pool, UnifiedPool):
        raise TypeError(f"pool is {pool!r}, no UnifiedPool"[:200])
    if not isinstance(states, CheckpointPool):
        raise TypeError(f"states is {states!r}, no CheckpointPool: make one of the pool's states"[:200])
    if strategy not in STRATEGIES:
        raise ValueError(f"strategy is {strategy!r}; it must be one of {', '.join(STRATEGIES)}")
    if not isinstance(kv, str):
        raise TypeError(f"kv is {kv!r}; it is the name of a sub-pool of keys and values, such as 'full'"[:200])
    kinds = {layout.name: layout.kind for layout in pool.layouts}
    if kinds.get(kv) not in _KINDS:
        found = f"is of kind {kinds[kv]!r}" if kv in kinds else "is not there"
        fit = ", ".join(name for name, kind in kinds.items() if kind in _KINDS) or "none: declare KVPages"
        raise LayoutError(f"kv = {kv!r} {found} in the pool; name a sub-pool of tokens that owns its ids: {fit}")
    own = [name for name, kind in kinds.items() if kind == "state"]
    home = states.states._pool
    if own and home is not pool:
        raise LayoutError(
            f"the pool has states of its own, {', '.join(own)}, and the CheckpointPool is over {states.states!r} of "
            f"another pool: make it over one of those"
        )
    here, there = str(pool._bytes.device), str(home._bytes.device)
    if here.partition(":")[0] != there.partition(":")[0]:
        raise LayoutError(f"the pool is on {here!r}, the states on {there!r}: make both on one device")
    other = None if states._cache is None else states._cache()
    if other is not None:
        raise PoolBusy(f"the CheckpointPool is that of {other!r} already: make one for each cache, of pools of its own")
    stats, pages = states.stats(), int(pool[kv]._table.bound)
    if pages or stats.nodes or stats.queued or stats.running:
        raise PoolBusy(
            f"{pages} pages of {kv!r} are live, and the CheckpointPool has {stats.nodes} nodes and "
            f"{stats.queued + stats.running} requests: they would be nobody's. Free them, or give the cache pools of "
            f"its own"
        )
