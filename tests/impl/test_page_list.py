"""The set of pages that is kept as a list, against a Python set."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolproof.page_list import PageList

PAGES = 12


def array(pages: object) -> np.ndarray:
    return np.array(list(pages), np.int64)


def holds(found: PageList, expected: set[int], pages: int = PAGES) -> None:
    """Every query answers as the set does."""
    assert found.size == len(expected)
    assert sorted(found.members.tolist()) == sorted(expected)
    assert np.flatnonzero(found.has(np.arange(pages))).tolist() == sorted(expected)
    assert np.flatnonzero(found.marks(0, pages)).tolist() == sorted(expected)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["add", "add one", "take", "remove", "some", "clear"]), st.randoms(use_true_random=False)
        )
    )
)
def test_it_is_a_set(operations: list[tuple[str, random.Random]]) -> None:
    pages, expected = PageList(PAGES), set[int]()
    for operation, draw in operations:
        inside, outside = sorted(expected), sorted(set(range(PAGES)) - expected)
        if operation == "add":
            new = draw.sample(outside, draw.randint(0, len(outside)))
            pages.add(array(new))
            expected |= set(new)
        elif operation == "add one" and outside:
            page = draw.choice(outside)
            pages.add_one(page)
            expected.add(page)
        elif operation == "take":
            taken = pages.take(draw.randint(0, len(inside))).tolist()
            assert len(set(taken)) == len(taken)
            assert set(taken) <= expected
            expected -= set(taken)
        elif operation == "remove":
            old = draw.sample(inside, draw.randint(0, len(inside)))
            pages.remove(array(old))
            expected -= set(old)
        elif operation == "some":
            low, high = draw.randint(0, PAGES), draw.randint(0, PAGES)
            within = {page for page in expected if low <= page < high}
            n = draw.randint(0, len(within))
            found = pages.some(n, low, high).tolist()
            assert len(found) == len(set(found)) == n
            assert set(found) <= within
        else:
            pages.clear()
            expected = set()
        holds(pages, expected)


def test_take_gives_what_was_added_last() -> None:
    pages = PageList(PAGES)
    pages.add(array([7, 3]))
    pages.add(array([5]))
    assert pages.take(2).tolist() == [3, 5]
    assert pages.members.tolist() == [7]


@pytest.mark.parametrize("removed", [[0], [9], [0, 9], [8, 9], [0, 1, 2], [9, 8, 7, 0], list(range(10))])
def test_those_at_the_end_fill_the_places_of_the_removed(removed: list[int]) -> None:
    pages = PageList(PAGES)
    pages.add(array(range(10)))
    pages.remove(array(removed))
    holds(pages, set(range(10)) - set(removed))
    pages.add(array(removed))
    holds(pages, set(range(10)))


def test_it_grows_past_its_first_room() -> None:
    pages, expected = PageList(1000), set[int]()
    for start in range(0, 1000, 50):
        pages.add(np.arange(start, start + 50))
        expected |= set(range(start, start + 50))
        holds(pages, expected, 1000)
    pages.remove(np.arange(0, 1000, 2))
    holds(pages, set(range(1, 1000, 2)), 1000)


@pytest.mark.parametrize("n", [1, 63, 64, 65, 200, 300])
def test_some_looks_as_far_as_it_must(n: int) -> None:
    """Those that are wanted were added first, behind many others."""
    pages = PageList(1000)
    pages.add(np.arange(1000))
    found = pages.some(n, 0, 300)
    assert len(np.unique(found)) == n
    assert found.max(initial=0) < 300


def test_what_take_and_some_return_is_not_the_list_itself() -> None:
    pages = PageList(PAGES)
    pages.add(array([1, 2, 3]))
    pages.some(2, 0, PAGES)[:] = 9
    pages.take(1)[:] = 9
    holds(pages, {1, 2})
