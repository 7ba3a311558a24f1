"""State caches that are broken on purpose, each in one way: the fuzzer must find them.

In some it is the cache that is wrong, in others the pool of states and checkpoints below it, or that pool's copies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from poolproof.arguments import Ids
from poolproof.cache_stock import CacheStock
from poolproof.cached_request import CachedRequest
from poolproof.checkpoint_bytes import Copy
from poolproof.checkpoint_owners import Donation, Source
from poolproof.checkpoint_pool import CheckpointPool
from poolproof.fuzz.cache_world import Make
from poolproof.fuzz.unified_canaries import CopiesInAnotherOrder, LooksPastItsOwn, WaitsForNobody
from poolproof.page_errors import StepError
from poolproof.radix_tree import Node, Path, RadixTree, Tokens
from poolproof.state_cache import StateCache

# ------------------------------------------------------------------------------------------------- what is evicted


class _OtherStock(StateCache):
    """A cache with another stock."""

    stock: type[CacheStock] = CacheStock

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._stock = self.stock(self._tree, self.kv, self.states, self._tally)


class _Unlocked(CacheStock):
    def _is_locked(self, node: Node, with_pages: bool = True) -> bool:
        return False


class EvictsWhatItLoads(_OtherStock):
    """No lock keeps anything: a request's own checkpoint is evicted for its slot, and pages that it has."""

    stock = _Unlocked


class _WithoutPageLocks(CacheStock):
    def _is_locked(self, node: Node, with_pages: bool = True) -> bool:
        return super()._is_locked(node, with_pages=False)


class EvictsKeptLeaves(_OtherStock):
    """Leaves go that running requests keep."""

    stock = _WithoutPageLocks


class _Hashed(CacheStock):
    def _evict_until(self, is_enough: Callable[[], bool], leaves: bool) -> bool:
        for name in {str(number) for number in self._tree.nodes}:
            node = self._tree.nodes.get(int(name))
            if is_enough():
                break
            if node is None or not node.stamp or (leaves and node.children):
                continue
            if not self._is_locked(node, with_pages=leaves):
                self._evict(node)
        return is_enough()


class EvictsInTheOrderOfHashes(_OtherStock):
    """What is evicted first depends on how names are hashed: it differs from rank to rank."""

    stock = _Hashed


class _OneMore(CacheStock):
    def _evict_until(self, is_enough: Callable[[], bool], leaves: bool) -> bool:
        before = is_enough()
        found = super()._evict_until(is_enough, leaves)
        if not before:
            super()._evict_until(lambda: False, leaves)
        return found


class EvictsTooMuch(_OtherStock):
    """It goes on evicting when there is room enough."""

    stock = _OneMore


class _OnlyLeaves(CacheStock):
    def _evict_until(self, is_enough: Callable[[], bool], leaves: bool) -> bool:
        return super()._evict_until(is_enough, leaves=True)


class EvictsOnlyLeaves(_OtherStock):
    """A checkpoint between two nodes stays, where its bytes would have been enough."""

    stock = _OnlyLeaves


class _NotUpwards(CacheStock):
    spared: Node | None = None

    def prune(self, node: Node) -> None:
        """Only the node itself goes."""
        self.spared = node.parent
        super().prune(node)
        self.spared = None

    def _is_locked(self, node: Node, with_pages: bool = True) -> bool:
        return node is self.spared or super()._is_locked(node, with_pages)


class LeavesParentsBehind(_OtherStock):
    """Nodes that are of no use any more stay where their last child was."""

    stock = _NotUpwards


class AHitIsNoUse(StateCache):
    """What is hit often is evicted as if it had never been."""

    def _count(self, request: CachedRequest, tokens: int) -> None:
        clock, stamp = self._stock.clock, request._node.stamp
        super()._count(request, tokens)
        if request.cached:
            self._stock.clock, request._node.stamp = clock, stamp


# ------------------------------------------------------------------------------------------- what is matched and kept


class RestoresEverything(StateCache):
    """No token is left to compute."""

    def _restorable(self, tokens: Tokens, at_most: int | None) -> Node:
        return super()._restorable(np.append(tokens, 0), at_most)


class HitsWithoutACheckpoint(StateCache):
    """The deepest node is restored, whether it has a checkpoint or not."""

    def _restorable(self, tokens: Tokens, at_most: int | None) -> Node:
        limit = len(tokens) - 1 if at_most is None else min(len(tokens) - 1, at_most)
        return self._tree.match(tokens, limit).node


class FreesPagesOfTheTree(StateCache):
    """Of two copies of a page the one in the tree is given back."""

    def _adopt(self, request: CachedRequest, node: Node, key: Tokens) -> None:
        pages = self._tree.pages_of(node)
        own = request.pages[request.shared : len(pages)]
        theirs = pages[request.shared :][own != pages[request.shared :]]
        super()._adopt(request, node, key)
        if len(theirs):
            self.kv.free(theirs)


class StoresAgain(StateCache):
    """A prefix that is kept a second time has its checkpoint written over."""

    def _keep(self, request: CachedRequest, key: Tokens, source: Source) -> bool:
        node = self._tree.match(key).node
        if node.length == len(key) and node.stamp:
            tenant = self.states._tenants[request.number]
            active = tenant.own if source == "own" else tenant.latest
            slot = self.states.checkpoint_of(node.number)
            assert active is not None
            assert slot is not None
            try:
                self.states._bytes.store(active, slot)
            except StepError:
                return super()._keep(request, key, source)
        return super()._keep(request, key, source)


class QuantisesTwice(StateCache):
    """A state as it was loaded is stored once more."""

    def _keep(self, request: CachedRequest, key: Tokens, source: Source) -> bool:
        cached, request.cached = request.cached, 0
        try:
            return super()._keep(request, key, source)
        finally:
            request.cached = cached


class TrustsAPathAfterEvictions(StateCache):
    """A prefix is put where it belonged before others were evicted for its checkpoint."""

    hidden = 0

    def _donate(self, request: CachedRequest, source: Source) -> Donation | None:
        before = self._tally.evictions
        donation = super()._donate(request, source)
        self.hidden, self._tally.evictions = self._tally.evictions - before, before
        return donation

    def _keep(self, request: CachedRequest, key: Tokens, source: Source) -> bool:
        self.hidden = 0
        try:
            return super()._keep(request, key, source)
        finally:
            self._tally.evictions += self.hidden


class GivesTheUpperHalfTheCheckpoint(StateCache):
    """Where a node is cut in two, its checkpoint goes to the wrong half."""

    def _place(self, request: CachedRequest, key: Tokens, path: Path) -> Node:
        node = super()._place(request, key, path)
        lower, upper = path.branch, None if path.branch is None else path.branch.parent
        if lower is not None and upper is not None and upper is not node:
            places = self.states._places
            one, other = places[lower.number], places[upper.number]
            one.checkpoint, other.checkpoint = None, one.checkpoint
            if other.checkpoint is not None:
                self.states._nodes[other.checkpoint] = upper.number
            upper.stamp, lower.stamp = lower.stamp, 0
        return node


class _Mixed(RadixTree):
    def split(self, node: Node, length: int) -> Node:
        """As it should be, but for the order of the pages."""
        upper = super().split(node, length)
        upper.pages = upper.pages[::-1].copy()
        return upper


class MixesPagesInASplit(StateCache):
    """The upper half of a node that is cut in two has its pages in another order."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._tree = self._stock._tree = _Mixed(self.page_size)


class KeepsTheWrongState(StateCache):
    """Under "extra_buffer" a request's own state is donated as if it were that of its track."""

    def _donor(self, request: CachedRequest) -> tuple[Source, int]:
        return "own", super()._donor(request)[1]


class AnyLengthWillDo(CheckpointPool):
    """A donation is published for a key of another length."""

    def _publish(self, donation: Donation, node: int) -> None:
        donation.length = self._places[node].length
        super()._publish(donation, node)


# ------------------------------------------------------------------------------------------------- what is given back


class ForgetsItsPins(StateCache):
    """A request that ends goes on keeping its prefix in the tree."""

    def _let_go(self, request: CachedRequest) -> None:
        self._tree.pin(request._node)
        super()._let_go(request)


class ForgetsLocks(CheckpointPool):
    """A request that ends leaves its locks behind."""

    def finish(self, request: int) -> None:
        """As it should be, but for the locks."""
        self._tenants[request].locks.clear()
        super().finish(request)


class LosesTheSlotOfAFailedHit(CheckpointPool):
    """A load that fails leaves its slot to nobody."""

    def hit(self, request: int, node: int) -> int:
        """As it should be, unless it fails."""
        try:
            return super().hit(request, node)
        except Exception:
            self.states.try_alloc(1)
            raise


class LosesTheSlotOfAFailedStore(CheckpointPool):
    """A store that fails leaves its slot to nobody."""

    def donate(self, request: int, source: Source = "own", stream: Any = None) -> Donation | None:
        """As it should be, unless it fails."""
        try:
            return super().donate(request, source, stream)
        except Exception:
            self.checkpoints.try_alloc(1)
            raise


# ------------------------------------------------------------------------------------------------------------- copies


class _OtherCopies(CheckpointPool):
    """A pool whose copies are done in another way, given to no stream or to the wrong one."""

    def _instead(self, what: str, pages: tuple[int, int], kernel: Callable[[int, int], None]) -> None:
        """What is done with a copy between two pages."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        for name in ("store", "load"):
            self._replace(name)

    def _replace(self, name: str) -> None:
        copies, plain, kernel = self._bytes, getattr(self._bytes, name), getattr(self._bytes, f"_{name}")
        sides = (self.states, self.checkpoints) if name == "store" else (self.checkpoints, self.states)

        def copy(source: Ids, target: Ids, stream: Any = None) -> Copy | None:
            setattr(copies, f"_{name}", None)
            try:
                found: Copy | None = plain(source, target, stream)
            finally:
                setattr(copies, f"_{name}", kernel)
            pages = int(sides[0].physical(source)[0]), int(sides[1].physical(target)[0])
            self._instead(name, pages, kernel)
            return found

        setattr(copies, name, copy)


class _SomeTime(_OtherCopies):
    """Copies of one kind are done on a stream that nobody waits for, and that waits for nobody."""

    what = ""

    def _instead(self, what: str, pages: tuple[int, int], kernel: Callable[[int, int], None]) -> None:
        events: Any = self.states._pool._events
        if what == self.what:
            events.give(events.streams[-1], lambda: kernel(*pages))
        else:
            events.run(None, lambda: kernel(*pages))


class LoadsAheadOfStores(_SomeTime):
    """A checkpoint is read whether it is stored by then or not."""

    what = "load"


class StoresSomeTime(_SomeTime):
    """A checkpoint is stored when it pleases the device."""

    what = "store"


class ForgetsConvWindows(CheckpointPool):
    """A hit restores the temporal state alone."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        from poolproof.kernels.dequantize_load import DequantizeLoad

        active = self.states._pool.views(self.states.name)
        cached = self.checkpoints._pool.views(self.checkpoints.name)
        if hasattr(cached, "codes"):
            self._bytes._load = DequantizeLoad(cached.codes, cached.scales, active.temporal)


class ForgetsToTrack(CheckpointPool):
    """A track is noted, and nothing copied."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._bytes._copy = None


CANARIES: Final[tuple[Make, ...]] = (
    Make(cache=EvictsWhatItLoads),
    Make(cache=EvictsKeptLeaves),
    Make(cache=EvictsInTheOrderOfHashes),
    Make(cache=EvictsTooMuch),
    Make(cache=EvictsOnlyLeaves),
    Make(cache=LeavesParentsBehind),
    Make(cache=AHitIsNoUse),
    Make(cache=RestoresEverything),
    Make(cache=HitsWithoutACheckpoint),
    Make(cache=FreesPagesOfTheTree),
    Make(cache=StoresAgain),
    Make(cache=QuantisesTwice),
    Make(cache=TrustsAPathAfterEvictions),
    Make(cache=GivesTheUpperHalfTheCheckpoint),
    Make(cache=MixesPagesInASplit),
    Make(cache=KeepsTheWrongState),
    Make(cache=KeepsTheWrongState, states=AnyLengthWillDo),
    Make(cache=KeepsTheWrongState, states=AnyLengthWillDo, has_shadow=False),
    Make(cache=ForgetsItsPins),
    Make(states=ForgetsLocks),
    Make(states=LosesTheSlotOfAFailedHit),
    Make(states=LosesTheSlotOfAFailedStore),
    Make(states=LoadsAheadOfStores),
    Make(states=StoresSomeTime),
    Make(states=ForgetsConvWindows),
    Make(states=ForgetsToTrack),
    Make(pool=CopiesInAnotherOrder),
    Make(pool=WaitsForNobody),
    Make(pool=LooksPastItsOwn),
    Make(pool=LooksPastItsOwn, has_shadow=False),
)
