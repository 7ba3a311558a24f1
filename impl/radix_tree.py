"""The compact radix tree of a prefix cache: token ids on its edges, and the KV pages that hold them.

Every node ends at a whole page, so that a page has one owner. Children of a node differ within their first page, by
which they are found: token ids that part in the midst of a page part at its beginning. What a node is worth, and when
it goes, is for `poolproof.state_cache` to say; the tree knows no pool.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from poolproof.arguments import Ids, as_ids

Tokens: TypeAlias = NDArray[np.int64]
"""Token ids."""

Pages: TypeAlias = NDArray[np.int64]
"""KV page ids."""

NOTHING: Final = np.empty(0, np.int64)
_ITEM: Final = NOTHING.itemsize
_LARGEST: Final = int(np.iinfo(np.int64).max)


def as_tokens(tokens: Ids) -> Tokens:
    """Token ids as a 1-D int64 array; it may share memory with the argument.

    Args:
        tokens: a sequence of ints, or a 1-D integer array or CPU tensor; from 0 up to 2**63 - 2.

    Raises:
        TypeError: they are no integers, or one alone.
        ValueError: there are none, one is negative or too large, or the array has more than one dimension.
    """
    array = as_ids(tokens)
    if getattr(tokens, "ndim", 1) == 0 or not hasattr(tokens, "__len__"):
        raise TypeError(f"tokens is {tokens!r}, one number; pass a sequence of them. Nothing was changed.")
    if not len(array):
        raise ValueError("there are no tokens; pass at least one. Nothing was changed.")
    if int(array.view(np.uint64).max()) >= _LARGEST:  # negative ones are larger still
        at = int(np.flatnonzero((array < 0) | (array == _LARGEST))[0])
        raise ValueError(
            f"token {at} is {array[at]} as an int64; token ids are 0 to 2**63 - 2: drop padding such as -1. Nothing "
            f"was changed."
        )
    return array


class Node:
    """A place in the tree: the prefix that ends here.

    Attributes:
        number: its own, never given to another node of the tree; that of the root is 0.
        parent: the node above; None of the root.
        children: by the bytes of the tokens of their first page.
        data: the bytes of the tokens between the parent's end and this one's, whole pages of them; of the root none.
        tokens: [n], those tokens, which cannot be written.
        pages: [n / page_size], the KV pages that hold them.
        length: tokens of the whole prefix.
        pins: how many keep this node, or one below it.
        stamp: when it was of use last, by the clock of whoever counts that; 0 for never.
    """

    __slots__ = ("children", "data", "length", "number", "pages", "parent", "pins", "stamp")

    def __init__(self, number: int, parent: Node | None, data: bytes, pages: Pages) -> None:
        self.number, self.parent, self.data, self.pages = number, parent, data, pages
        self.length: int = len(data) // _ITEM + (0 if parent is None else parent.length)
        self.children: dict[bytes, Node] = {}
        self.pins = self.stamp = 0

    @property
    def tokens(self) -> Tokens:
        """See the class."""
        return np.frombuffer(self.data, np.int64)

    @property
    def is_leaf(self) -> bool:
        """Whether nothing lies below it."""
        return not self.children

    def __repr__(self) -> str:
        return f"Node({self.number}, length={self.length}, children={len(self.children)}, pins={self.pins})"


class Path(NamedTuple):
    """How far tokens lead from the root.

    Attributes:
        node: the deepest node whose whole prefix they begin with.
        length: how many tokens the tree has of them, a multiple of the page size.
        branch: the child of `node` on whose edge they end or part, after a page of it at least; None without one.
    """

    node: Node
    length: int
    branch: Node | None


class RadixTree:
    """Prefixes, sharing what they have in common.

    The time of a call depends on the tokens and nodes of one path, not on the size of the tree. Arrays that are given
    are copied, arrays that are returned are fresh.

    Args:
        page_size: tokens a page.

    Attributes:
        root: the empty prefix, which is always there.
        nodes: by number, in the order in which they were made, all but the root.
        pages: KV pages of all nodes.
        idle_pages: those of nodes without pins.
        pinned: nodes with pins.
    """

    def __init__(self, page_size: int) -> None:
        if page_size < 1:
            raise ValueError(f"page_size is {page_size}; a page holds at least one token")
        self.page_size = page_size
        self.root = Node(0, None, b"", NOTHING)
        self.nodes: dict[int, Node] = {}
        self.pages = self.idle_pages = self.pinned = 0
        self._made = 0

    def match(self, tokens: Tokens, at_most: int | None = None) -> Path:
        """How far the tree has these tokens, whole pages only.

        Args:
            tokens: [n], int64.
            at_most: so many tokens of them; None for all.
        """
        size, node, data = self.page_size, self.root, tokens.tobytes()
        end = (len(tokens) if at_most is None else min(at_most, len(tokens))) // size * size
        while node.length < end:
            at = node.length
            child = node.children.get(data[at * _ITEM : (at + size) * _ITEM])
            if child is None:
                break
            if child.length > end or not data.startswith(child.data, at * _ITEM):
                return Path(node, at + _common(child.tokens, tokens[at:end]) // size * size, child)
            node = child
        return Path(node, node.length, None)

    def pages_of(self, node: Node) -> Pages:
        """[length / page_size], the pages of the node's whole prefix, in order."""
        edges = [above.pages for above in upwards(node)]
        return np.concatenate(edges[::-1]) if edges else NOTHING.copy()

    def tokens_of(self, node: Node) -> Tokens:
        """[length], the tokens of the node's whole prefix."""
        edges = [above.data for above in upwards(node)]
        return np.frombuffer(b"".join(edges[::-1]), np.int64).copy()

    def append(self, parent: Node, tokens: Tokens, pages: Pages) -> Node:
        """A new leaf below a node.

        Args:
            parent: a node of the tree.
            tokens: [n], n > 0; no child of the parent begins with the same page.
            pages: [n / page_size].

        Raises:
            ValueError: tokens and pages do not agree in number, or such a child is there.
        """
        if not len(tokens) or len(tokens) != len(pages) * self.page_size:
            raise ValueError(f"{len(tokens)} tokens on {len(pages)} pages of {self.page_size}: a page holds as many")
        data = tokens.tobytes()
        if self._key(data) in parent.children:
            raise ValueError(f"{parent!r} has a child that begins with the same page: split that one")
        leaf = Node(self._next(), parent, data, pages.copy())
        parent.children[self._key(data)] = self.nodes[leaf.number] = leaf
        self.pages += len(pages)
        self.idle_pages += len(pages)
        return leaf

    def split(self, node: Node, length: int) -> Node:
        """Cut a node's edge in two: a new node ends at this length, and the node itself begins there.

        The new node has the node's pins, for whoever keeps the lower half keeps the upper one.

        Args:
            node: any but the root.
            length: tokens, a multiple of the page size, beyond the parent's and below the node's.

        Returns:
            The upper half.

        Raises:
            ValueError: the length is no such one.
        """
        parent = node.parent
        if parent is None or not parent.length < length < node.length or length % self.page_size:
            above = 0 if parent is None else parent.length
            raise ValueError(f"{node!r} cannot be split at {length}: whole pages of {above} to {node.length} tokens")
        pages = (length - parent.length) // self.page_size
        cut = (length - parent.length) * _ITEM
        upper = Node(self._next(), parent, node.data[:cut], node.pages[:pages].copy())
        upper.pins = node.pins
        self.pinned += 1 if node.pins else 0
        parent.children[self._key(upper.data)] = self.nodes[upper.number] = upper
        node.parent, node.data, node.pages = upper, node.data[cut:], node.pages[pages:].copy()
        upper.children[self._key(node.data)] = node
        return upper

    def merge(self, node: Node) -> Node:
        """Take a node out from between its parent and its only child, to which its edge goes: a split undone.

        Returns:
            The child.

        Raises:
            ValueError: it is the root, has not just one child, or pins that are not its child's.
        """
        children = list(node.children.values())
        if node.parent is None or len(children) != 1 or children[0].pins != node.pins:
            raise ValueError(f"{node!r} cannot be merged: only one between two, without pins of its own, can")
        child = children[0]
        child.parent, child.data = node.parent, node.data + child.data
        child.pages = np.concatenate([node.pages, child.pages])
        child.parent.children[self._key(child.data)] = child
        del self.nodes[node.number]
        self.pinned -= 1 if node.pins else 0
        return child

    def remove(self, leaf: Node) -> Pages:
        """Take a leaf off the tree.

        Returns:
            The pages of its edge.

        Raises:
            ValueError: it is the root, has children or pins, or is no node of the tree.
        """
        if leaf.parent is None or leaf.children or leaf.pins or self.nodes.get(leaf.number) is not leaf:
            raise ValueError(f"{leaf!r} cannot be removed: only a leaf of the tree without pins can")
        del leaf.parent.children[self._key(leaf.data)]
        del self.nodes[leaf.number]
        self.pages -= len(leaf.pages)
        self.idle_pages -= len(leaf.pages)
        return leaf.pages

    def pin(self, node: Node, above: Node | None = None) -> None:
        """Keep a node and all above it: up to the root, or to a node above that is kept already and not counted."""
        for each in upwards(node):
            if each is above:
                return
            if not each.pins:
                self.idle_pages -= len(each.pages)
                self.pinned += 1
            each.pins += 1

    def unpin(self, node: Node) -> None:
        """Take back one pin of a node and all above it.

        Raises:
            ValueError: it has none.
        """
        if node.parent is not None and not node.pins:
            raise ValueError(f"{node!r} has no pins to take back")
        for each in upwards(node):
            each.pins -= 1
            if not each.pins:
                self.idle_pages += len(each.pages)
                self.pinned -= 1

    def _key(self, data: bytes) -> bytes:
        return data[: self.page_size * _ITEM]

    def _next(self) -> int:
        self._made += 1
        return self._made

    def __repr__(self) -> str:
        return f"RadixTree(page_size={self.page_size}, nodes={len(self.nodes)}, pages={self.pages})"


def upwards(node: Node) -> Iterator[Node]:
    """The node and those above it, the root left out."""
    while node.parent is not None:
        yield node
        node = node.parent


def _common(edge: Tokens, tokens: Tokens) -> int:
    """How many tokens the two have in common at their beginning."""
    n = min(len(edge), len(tokens))
    equal = edge[:n] == tokens[:n]
    return n if equal.all() else int(equal.argmin())
