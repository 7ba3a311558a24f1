"""What must be true of a state cache: its tree, what its nodes and requests own, and who keeps what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from poolproof.radix_tree import Node, upwards
from poolproof.violation import Violation

if TYPE_CHECKING:
    from poolproof.cached_request import CachedRequest
    from poolproof.state_cache import StateCache

_LISTED = 8


def check_cache(cache: StateCache) -> list[Violation]:
    """The broken claims, [] for a healthy cache. Where the tree cannot be walked, only that is reported of it."""
    found = [*_shape(cache), *_owners(cache)]
    if not found:
        found = [each for claim in _CLAIMS for each in claim(cache)]
    states = cache.states
    is_below = cache.pool is states.states._pool or cache.pool is states.checkpoints._pool
    return found + states.check() + ([] if is_below else cache.pool.check())


def _walk(cache: StateCache) -> list[Node]:
    """All nodes that can be reached from the root, it included; those that are reached twice come twice."""
    tree, found = cache._tree, [cache._tree.root]
    for node in found:
        if len(found) > len(tree.nodes) + 1:
            break
        found.extend(node.children.values())
    return found


def _shape(cache: StateCache) -> Iterator[Violation]:
    """Every node is reached once, from the parent that it names, by the first page of its tokens."""
    tree, nodes = cache._tree, _walk(cache)
    if sorted(node.number for node in nodes) != sorted([0, *tree.nodes]):
        text = f"{len(nodes)} nodes are reached from the root, {len(tree.nodes) + 1} are listed, or not the same ones"
        yield Violation("I1", "every_node_is_in_the_tree_once", text)
        return
    for node in nodes:
        for key, child in node.children.items():
            is_first = key == child.tokens[: tree.page_size].tobytes()
            if child.parent is not node or not is_first or tree.nodes.get(child.number) is not child:
                text = f"{child!r} lies below {node!r}, and names another parent, page or number"
                yield Violation("I1", "every_node_is_in_the_tree_once", text)


def _owners(cache: StateCache) -> Iterator[Violation]:
    """The tree and the CheckpointPool speak of the same nodes and requests."""
    for what, ours, theirs in (
        ("nodes", cache._tree.nodes.keys(), cache.states._places.keys()),
        ("requests", cache._requests.keys(), cache.states._tenants.keys()),
    ):
        odd = sorted(ours ^ theirs)
        if odd:
            text = f"{what} {odd[:_LISTED]} are known to only one of the cache and its CheckpointPool"
            yield Violation("I21", "the_cache_and_its_states_agree", text)


def _lengths(cache: StateCache) -> Iterator[Violation]:
    tree = cache._tree
    for node in tree.nodes.values():
        assert node.parent is not None
        tokens = len(node.tokens)
        if not tokens or tokens != len(node.pages) * tree.page_size or node.length != node.parent.length + tokens:
            text = f"{node!r} has {tokens} tokens on {len(node.pages)} pages of {tree.page_size}, below {node.parent!r}"
            yield Violation("I19", "a_node_has_whole_pages_of_tokens", text)


def _figures(cache: StateCache) -> Iterator[Violation]:
    """What is counted along the way is what is there."""
    tree, nodes = cache._tree, cache._tree.nodes.values()
    for name, count, truth in (
        ("pages", tree.pages, sum(len(node.pages) for node in nodes)),
        ("idle_pages", tree.idle_pages, sum(len(node.pages) for node in nodes if not node.pins)),
        ("pinned", tree.pinned, sum(node.pins > 0 for node in nodes)),
        ("checkpoints", cache._stock.checkpoints, sum(node.stamp > 0 for node in nodes)),
    ):
        if count != truth:
            yield Violation("I21", "figures_are_counts", f"{name} is {count}, and there are {truth}")


def _checkpoints(cache: StateCache) -> Iterator[Violation]:
    """A stamp says that there is a checkpoint; a node has one, or a request keeps it, or two nodes part there."""
    states = cache.states
    for node in cache._tree.nodes.values():
        slot = states.checkpoint_of(node.number)
        if (slot is None) != (node.stamp == 0):
            text = f"{node!r} has the stamp {node.stamp} and the checkpoint {slot}"
            yield Violation("I19", "a_stamp_means_a_checkpoint", text)
        if not node.stamp and len(node.children) < 2 and not states.pins(node.number, "pages"):
            text = f"{node!r} can never be hit, nobody keeps it, and no two nodes part there"
            yield Violation("I11", "every_node_is_of_use", text)


def _order(cache: StateCache) -> Iterator[Violation]:
    """Stamps are distinct, and whatever can be evicted is listed."""
    stock, listed = cache._stock, [node for node in cache._tree.nodes.values() if node.stamp]
    doubled = [stamp for stamp, n in Counter(node.stamp for node in listed).items() if n > 1 or stamp > stock.clock]
    if doubled:
        text = f"stamps {sorted(doubled)[:_LISTED]} are doubled, or beyond the clock, {stock.clock}"
        yield Violation("I20", "the_order_of_eviction_is_total", text)
    for name, heap in (("oldest", stock._oldest), ("oldest leaves", stock._oldest_leaves)):
        entries = set(heap)
        for node in listed:
            if (node.is_leaf or heap is stock._oldest) and (node.stamp, node.number) not in entries:
                yield Violation("I11", "what_can_be_evicted_is_listed", f"{node!r} is not among the {name}")


def _pins(cache: StateCache) -> Iterator[Violation]:
    """Each running request keeps one node by a lock, and with it all nodes above."""
    locks, pins = Counter[int](), Counter[int]()
    for request in cache._requests.values():
        nodes = [node.number for node in upwards(request._node)]
        locks.update(nodes[:1])
        pins.update(nodes)
    for node in cache._tree.nodes.values():
        pages, state = (cache.states.pins(node.number, scope) for scope in ("pages", "state"))
        if (node.pins, pages, state) != (pins[node.number], locks[node.number], 0):
            text = (
                f"{node!r}: {pins[node.number]} requests keep it, {locks[node.number]} of them itself; it has {pages} "
                f"locks of its pages and {state} of its checkpoint"
            )
            yield Violation("I13", "locks_are_those_of_running_requests", text)


def _pages(cache: StateCache) -> Iterator[Violation]:
    """Every live KV id belongs to one node or one request, and to no other."""
    kv = cache.kv
    owned = [node.pages for node in cache._tree.nodes.values()]
    owned += [request.pages[request.shared :] for request in cache._requests.values()]
    ids = np.concatenate([np.empty(0, np.int64), *owned])
    is_known = (ids > 0) & (ids < kv.ids)
    counts = np.bincount(ids[is_known], minlength=kv.ids)
    is_live = kv.physical(np.arange(kv.ids)) > 0
    for bad, text in (
        (ids[~is_known], "are owned and no ids of the sub-pool"),
        (np.flatnonzero(counts > 1), "are owned more than once"),
        (np.flatnonzero((counts > 0) & ~is_live), "are owned and not live"),
        (np.flatnonzero((counts == 0) & is_live), "are live and nobody's"),
    ):
        if len(bad):
            listed = f"{bad[:_LISTED].tolist()}{'...' if len(bad) > _LISTED else ''}"
            yield Violation("I21", "every_page_has_one_owner", f"{len(bad)} pages {text}: {listed}")


def _requests(cache: StateCache) -> Iterator[Violation]:
    for number, request in cache._requests.items():
        for is_wrong, text in _of(cache, request):
            if is_wrong:
                yield Violation("I19", "a_request_is_where_it_says", f"{request!r} {text}")
        if request.number != number or not request.is_live:
            yield Violation("I1", "running_requests_are_listed", f"{request!r} is listed as {number}")


def _of(cache: StateCache, request: CachedRequest) -> Iterator[tuple[bool, str]]:
    states, tree, shared = cache.states, cache._tree, request.pages[: request.shared]
    position, slot = states.position(request.number), states.slot_of(request.number)
    yield request._node is not tree.nodes.get(request._node.number, tree.root), "keeps a node that is gone"
    yield not np.array_equal(shared, tree.pages_of(request._node)), f"has other pages than {request._node!r}"
    yield request.length > len(request.pages) * tree.page_size, "has computed more than its pages hold"
    yield request.length < request._node.length, f"has computed less than {request._node!r} has"
    yield position != request.length, f"has a state that is at {position} tokens"
    yield slot != request.state, f"has its state in slot {slot}"
    key, known = tree.tokens_of(request._node), request._known
    yield not np.array_equal(key, known[: len(key)]), f"has other tokens than {request._node!r}"


_CLAIMS = (_lengths, _figures, _checkpoints, _order, _pins, _pages, _requests)
