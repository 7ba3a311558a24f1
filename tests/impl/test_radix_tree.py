"""The radix tree of token ids: what it finds, how it is cut and pruned, and a dictionary of prefixes beside it."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from poolproof.radix_tree import Node, RadixTree, as_tokens, upwards

SIZE = 4


def array(values: Any) -> NDArray[np.int64]:
    return np.array(list(values), np.int64)


def pages_for(tokens: NDArray[np.int64], first: int = 1) -> NDArray[np.int64]:
    return np.arange(first, first + len(tokens) // SIZE)


@pytest.fixture
def tree() -> RadixTree:
    """One leaf of the tokens 0 to 15, on the pages 1 to 4."""
    tree = RadixTree(SIZE)
    tree.append(tree.root, array(range(16)), array([1, 2, 3, 4]))
    return tree


def test_a_new_tree_has_nothing() -> None:
    tree = RadixTree(SIZE)
    assert tree.match(array(range(9))) == (tree.root, 0, None)
    assert (tree.nodes, tree.pages, tree.idle_pages, tree.pinned) == ({}, 0, 0, 0)
    assert tree.pages_of(tree.root).shape == tree.tokens_of(tree.root).shape == (0,)


@pytest.mark.parametrize(
    ("tokens", "at_most", "length", "whole"),
    [
        (range(16), None, 16, True),
        (range(40), None, 16, True),
        (range(15), None, 12, False),
        (range(16), 15, 12, False),
        (range(16), 4, 4, False),
        (range(16), 3, 0, False),
        (range(16), 0, 0, False),
        (range(3), None, 0, False),
        ([*range(8), 99, 9, 10, 11], None, 8, False),
        ([*range(11), 99], None, 8, False),
        ([0, 1, 2, 99, *range(4, 16)], None, 0, False),
        ([99], None, 0, False),
    ],
)
def test_what_is_matched_is_whole_pages(
    tree: RadixTree, tokens: Any, at_most: int | None, length: int, whole: bool
) -> None:
    path, leaf = tree.match(array(tokens), at_most), tree.nodes[1]
    assert path.length == length
    assert path.node is (leaf if whole else tree.root)
    assert path.branch is (leaf if length and not whole else None)


def test_children_that_differ_within_the_first_page_lie_side_by_side(tree: RadixTree) -> None:
    tree.append(tree.root, array([0, 1, 2, 9]), array([5]))
    assert tree.match(array([0, 1, 2, 9])).length == 4
    assert tree.match(array([0, 1, 2, 3])).length == 4
    assert tree.match(array([0, 1, 2, 8])).length == 0


def test_the_halves_of_a_split_share_what_there_was(tree: RadixTree) -> None:
    lower = tree.nodes[1]
    tree.pin(lower)
    lower.stamp = 7
    upper = tree.split(lower, 8)
    assert (upper.number, upper.length, upper.pins, upper.stamp) == (2, 8, 1, 0)
    assert (lower.number, lower.length, lower.pins, lower.stamp) == (1, 16, 1, 7)
    assert (upper.parent, lower.parent) == (tree.root, upper)
    assert (upper.pages.tolist(), lower.pages.tolist()) == ([1, 2], [3, 4])
    assert tree.pages_of(lower).tolist() == [1, 2, 3, 4]
    assert tree.tokens_of(lower).tolist() == list(range(16))
    assert (tree.pages, tree.idle_pages, tree.pinned) == (4, 0, 2)
    assert tree.match(array(range(16))) == (lower, 16, None)
    assert tree.match(array(range(8))) == (upper, 8, None)
    tree.unpin(lower)
    assert (tree.idle_pages, tree.pinned) == (4, 0)


@pytest.mark.parametrize("is_pinned", [False, True])
def test_a_merge_undoes_a_split(tree: RadixTree, is_pinned: bool) -> None:
    lower = tree.nodes[1]
    below = tree.append(lower, array(range(4)), array([9]))
    lower.stamp = 7
    if is_pinned:
        tree.pin(below)
    upper = tree.split(lower, 8)
    assert tree.merge(upper) is lower
    assert (lower.number, lower.parent, lower.length, lower.stamp) == (1, tree.root, 16, 7)
    assert (lower.tokens.tolist(), lower.pages.tolist()) == (list(range(16)), [1, 2, 3, 4])
    assert (sorted(tree.nodes), tree.pages, tree.idle_pages) == ([1, 2], 5, 0 if is_pinned else 5)
    assert tree.pinned == (2 if is_pinned else 0)
    assert tree.match(array([*range(16), *range(4)])) == (below, 20, None)


def test_only_one_between_two_is_merged(tree: RadixTree) -> None:
    lower = tree.nodes[1]
    upper = tree.split(lower, 8)
    tree.pin(upper)
    for node in (tree.root, upper, lower):
        with pytest.raises(ValueError, match="cannot be merged"):
            tree.merge(node)
    tree.unpin(upper)
    tree.append(upper, array(range(50, 54)), array([9]))
    with pytest.raises(ValueError, match="cannot be merged"):
        tree.merge(upper)
    assert sorted(tree.nodes) == [1, 2, 3]


def test_pins_keep_a_node_and_all_above_it(tree: RadixTree) -> None:
    top = tree.nodes[1]
    middle = tree.append(top, array(range(4)), array([5]))
    low = tree.append(middle, array(range(8)), array([6, 7]))
    tree.pin(middle)
    assert [node.pins for node in (top, middle, low)] == [1, 1, 0]
    assert (tree.idle_pages, tree.pinned) == (2, 2)
    tree.pin(low, above=middle)
    assert [node.pins for node in (top, middle, low)] == [1, 1, 1]
    tree.unpin(low)
    assert [node.pins for node in (top, middle, low)] == [0, 0, 0]
    assert (tree.idle_pages, tree.pinned) == (7, 0)
    tree.pin(tree.root)
    tree.unpin(tree.root)
    with pytest.raises(ValueError, match="no pins to take back"):
        tree.unpin(low)


def test_only_a_leaf_that_nobody_keeps_is_removed(tree: RadixTree) -> None:
    top = tree.nodes[1]
    low = tree.append(top, array(range(4)), array([5]))
    tree.pin(low)
    for node in (tree.root, top, low):
        with pytest.raises(ValueError, match="cannot be removed"):
            tree.remove(node)
    tree.unpin(low)
    assert tree.remove(low).tolist() == [5]
    with pytest.raises(ValueError, match="cannot be removed"):
        tree.remove(low)
    assert tree.remove(top).tolist() == [1, 2, 3, 4]
    assert (tree.nodes, tree.pages, tree.idle_pages) == ({}, 0, 0)
    assert tree.append(tree.root, array(range(4)), array([5])).number == 3


@pytest.mark.parametrize(
    ("tokens", "pages", "why"),
    [
        (range(4), [5, 6], "4 tokens on 2 pages"),
        (range(5), [5], "5 tokens on 1 pages"),
        ([], [], "0 tokens on 0 pages"),
        (range(8), [5, 6], "begins with the same page"),
    ],
)
def test_what_cannot_be_appended(tree: RadixTree, tokens: Any, pages: list[int], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        tree.append(tree.root, array(tokens), array(pages))
    assert (list(tree.nodes), tree.pages) == ([1], 4)


@pytest.mark.parametrize("length", [-4, 0, 3, 6, 16, 20])
def test_where_a_node_cannot_be_split(tree: RadixTree, length: int) -> None:
    for node in (tree.root, tree.nodes[1]):
        with pytest.raises(ValueError, match="cannot be split"):
            tree.split(node, length)
    assert list(tree.nodes) == [1]


def test_arrays_are_copied(tree: RadixTree) -> None:
    tokens, pages = array(range(50, 54)), array([9])
    leaf = tree.append(tree.root, tokens, pages)
    tokens[:], pages[:] = 0, 0
    tree.pages_of(leaf)[:] = 0
    tree.tokens_of(leaf)[:] = 0
    assert (leaf.tokens.tolist(), leaf.pages.tolist()) == ([50, 51, 52, 53], [9])


def test_a_page_holds_a_token() -> None:
    with pytest.raises(ValueError, match="page_size is 0"):
        RadixTree(0)


def test_a_deep_path_is_walked_without_recursion() -> None:
    tree, node = RadixTree(1), None
    for depth in range(5000):
        node = tree.append(node or tree.root, array([depth]), array([depth + 1]))
    assert node is not None
    assert tree.match(np.arange(6000)).node is node
    assert tree.pages_of(node).tolist() == list(range(1, 5001))
    tree.pin(node)
    assert tree.pinned == 5000
    tree.unpin(node)


# -------------------------------------------------------------------------------------------------------------- tokens


@pytest.mark.parametrize("form", [list, tuple, np.array, torch.tensor, lambda ids: np.array(ids, np.uint16), range])
def test_tokens_come_in_any_form(form: Any) -> None:
    made = range(3) if form is range else form([0, 1, 2])
    found = as_tokens(made)
    assert (found.tolist(), found.dtype) == ([0, 1, 2], np.int64)


@pytest.mark.parametrize(
    ("tokens", "error", "why"),
    [
        ([], ValueError, "no tokens"),
        (np.empty(0, np.int64), ValueError, "no tokens"),
        ([3, -1], ValueError, "token 1 is -1"),
        ([3, 2**63], ValueError, "token 1 is 9223372036854775807 as an int64; token ids are 0 to"),
        (np.array([2**64 - 1], np.uint64), ValueError, "token 0 is"),
        (np.ones((2, 2), np.int64), ValueError, "1-D"),
        (5, TypeError, "one number"),
        (np.int64(5), TypeError, "one number"),
        (np.array(5), TypeError, "one number"),
        ([1.5], TypeError, "int"),
        (np.ones(3), TypeError, "integers"),
        ("abc", TypeError, "integers"),
        ([True], TypeError, "int"),
        (None, TypeError, "int"),
    ],
)
def test_what_no_tokens_are(tokens: Any, error: type[Exception], why: str) -> None:
    with pytest.raises(error, match=why):
        as_tokens(tokens)


# --------------------------------------------------------------------------------------------------------- at random


class Model:
    """Prefixes, each with the page that its last page is."""

    def __init__(self) -> None:
        self.page: dict[tuple[int, ...], int] = {}

    def match(self, tokens: list[int]) -> int:
        length = 0
        while length + SIZE <= len(tokens) and tuple(tokens[: length + SIZE]) in self.page:
            length += SIZE
        return length

    def pages(self, tokens: list[int]) -> list[int]:
        return [self.page[tuple(tokens[:end])] for end in range(SIZE, len(tokens) + 1, SIZE)]


def insert(tree: RadixTree, tokens: list[int], page: int) -> Node:
    """The node of these tokens, with new pages where the tree has none."""
    key = array(tokens)
    path = tree.match(key)
    node = tree.split(path.branch, path.length) if path.branch else path.node
    if path.length < len(key):
        node = tree.append(node, key[path.length :], pages_for(key[path.length :], page))
    return node


@pytest.mark.parametrize("seed", range(6))
def test_it_is_a_dictionary_of_prefixes(seed: int) -> None:
    draw, tree, model, pinned = random.Random(seed), RadixTree(SIZE), Model(), list[Node]()
    made = 1
    for _ in range(400):
        tokens = [draw.randrange(2) for _ in range(draw.randrange(1, 24))]
        if draw.random() < 0.5:
            tokens = tokens[: len(tokens) // SIZE * SIZE]
        found = tree.match(array(tokens)) if tokens else None
        if found is not None:
            assert found.length == model.match(tokens)
        action = draw.random()
        if action < 0.5 and tokens and len(tokens) % SIZE == 0:
            node = insert(tree, tokens, made)
            for end in range(model.match(tokens) + SIZE, len(tokens) + 1, SIZE):
                model.page[tuple(tokens[:end])] = made
                made += 1
            assert tree.tokens_of(node).tolist() == tokens
            assert tree.pages_of(node).tolist() == model.pages(tokens)
        elif action < 0.6:
            between = [n for n in tree.nodes.values() if [c.pins for c in n.children.values()] == [n.pins]]
            if between:
                node = draw.choice(between)
                assert node not in pinned
                tree.merge(node)
        elif action < 0.75 and tree.nodes:
            pinned.append(draw.choice(list(tree.nodes.values())))
            tree.pin(pinned[-1])
        elif action < 0.85 and pinned:
            tree.unpin(pinned.pop(draw.randrange(len(pinned))))
        else:
            free = [node for node in tree.nodes.values() if node.is_leaf and not node.pins]
            if free:
                leaf = draw.choice(free)
                prefix = tree.tokens_of(leaf).tolist()
                for end in range(len(prefix) - len(leaf.tokens) + SIZE, len(prefix) + 1, SIZE):
                    del model.page[tuple(prefix[:end])]
                tree.remove(leaf)
        agree(tree, model, pinned)


def agree(tree: RadixTree, model: Model, pinned: list[Node]) -> None:
    """The tree has the pages of the model, and counts what it has."""
    nodes = list(tree.nodes.values())
    assert sorted(page for node in nodes for page in node.pages.tolist()) == sorted(model.page.values())
    assert tree.pages == len(model.page)
    for node in nodes:
        assert node.pins == sum(node in upwards(each) for each in pinned)
        assert node.length % SIZE == 0
        assert len(node.tokens) == len(node.pages) * SIZE > 0
    assert tree.idle_pages == sum(len(node.pages) for node in nodes if not node.pins)
    assert tree.pinned == sum(node.pins > 0 for node in nodes)
