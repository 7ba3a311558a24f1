"""Who could have how much room, against trying every place of every extent."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import pytest

from poolproof import chain
from poolproof.chain import NOWHERE, Span

SEEDS = range(12)
SCENES = 60


def places(spans: Sequence[Span], k: int, size: int, low: int, high: int) -> Iterator[tuple[int, int]]:
    """Bytes at which extent k could begin and end, of `size` pages or more, between two bytes."""
    span, is_down = spans[k], 0 < k == len(spans) - 1
    for first in range(high // span.page_bytes + 1):
        for last in range(first + size, high // span.page_bytes + 1):
            if (k == 0 and first != span.first) or (is_down and last != span.last):
                continue
            if first * span.page_bytes >= low and first <= span.low and last >= span.high:
                yield first * span.page_bytes, last * span.page_bytes


def ends(spans: Sequence[Span], sizes: Sequence[int], low: int, high: int, first: int, last: int) -> set[int]:
    """Bytes at which the extents first to last - 1 can end, stacked above a byte."""
    floors = {low}
    for k in range(first, last):
        if sizes[k]:
            floors = {end for floor in floors for _, end in places(spans, k, sizes[k], floor, high)}
    return floors


def starts(spans: Sequence[Span], sizes: Sequence[int], low: int, high: int, first: int) -> set[int]:
    """Bytes at which the extents from `first` on can begin, stacked below a byte."""
    ceilings = {high}
    for k in range(len(spans) - 1, first - 1, -1):
        if sizes[k]:
            ceilings = {start for ceiling in ceilings for start, _ in places(spans, k, sizes[k], low, ceiling)}
    return ceilings


def has_places(spans: Sequence[Span], sizes: Sequence[int], sink: int, total: int) -> bool:
    return bool(ends(spans, sizes, sink, total, 0, len(spans)))


def scene(draw: random.Random) -> tuple[list[Span], int, int]:
    """Extents as a pool could have them: in order, some empty, with holes inside, some of their pages fixed."""
    count = draw.randint(1, 4)
    sizes = [draw.randint(1, 4) for _ in range(count)]
    total, sink = draw.randint(max(sizes) + 4, 20), max(sizes)
    spans, floor = [], sink
    for k, size in enumerate(sizes):
        is_down, start = 0 < k == count - 1, -(-floor // size)
        if is_down:
            last = total // size
            first = draw.randint(start, last) if start <= last else last
            first = max(first, last - 4)
        else:
            first = start if k == 0 else start + draw.choice([0, 0, 1, 2])
            last = first + draw.randint(0, 3)
        if last * size > total or first >= last:
            empty = first if k == 0 else last if is_down else 0
            spans.append(Span(size, empty, empty, 0, NOWHERE, 0))
            continue
        spans.append(filled(draw, size, first, last))
        floor = last * size
    return spans, sink, total


def filled(draw: random.Random, size: int, first: int, last: int) -> Span:
    """An extent with holes inside, but none at its ends; some or all of it is fixed."""
    length = last - first
    used = min(length, 2) + sum(draw.random() < 0.5 for _ in range(length - 2))
    low, high = NOWHERE, 0
    kind = draw.choice(["free", "free", "fixed", "frozen"])
    if kind == "fixed":
        low = draw.randrange(first, last)
        high = draw.randint(low + 1, min(last, low + used))
    elif kind == "frozen":
        low, high = first, last
    return Span(size, first, last, used, low, high)


def scenes(seed: int) -> Iterator[tuple[random.Random, list[Span], int, int]]:
    draw = random.Random(seed)
    for _ in range(SCENES):
        spans, sink, total = scene(draw)
        assert has_places(spans, [span.size for span in spans], sink, total)
        yield draw, spans, sink, total


@pytest.mark.parametrize("seed", SEEDS)
def test_floors_and_ceilings(seed: int) -> None:
    for _, spans, sink, total in scenes(seed):
        sizes = [span.size for span in spans]
        for k in range(len(spans)):
            assert chain.floor_below(spans, k, sink) == min(ends(spans, sizes, sink, total, 0, k)), (spans, k)
            assert chain.ceiling_above(spans, k, total) == max(starts(spans, sizes, sink, total, k + 1)), (spans, k)


@pytest.mark.parametrize("seed", SEEDS)
def test_room_is_what_the_largest_extent_adds(seed: int) -> None:
    for _, spans, sink, total in scenes(seed):
        for k, span in enumerate(spans):
            room = chain.room(spans, k, sink, total)
            sizes = [other.size for other in spans]
            for more, fits in ((room, True), (room + 1, False)):
                sizes[k] = span.last - span.first + more
                assert has_places(spans, sizes, sink, total) == fits, (spans, k, room)


@pytest.mark.parametrize("seed", SEEDS)
def test_room_above_and_below_are_rooms_of_their_sides(seed: int) -> None:
    """With the other frontier where it is, an extent can grow by so many pages, and by no more."""
    for _, spans, sink, total in scenes(seed):
        sizes = [span.size for span in spans]
        for k, span in enumerate(spans):
            if not span.size:
                continue
            low, high = span.first * span.page_bytes, span.last * span.page_bytes
            above = [start // span.page_bytes - span.last for start in starts(spans, sizes, high, total, k + 1)]
            below = [span.first - -(-end // span.page_bytes) for end in ends(spans, sizes, sink, low, 0, k)]
            is_down = 0 < k == len(spans) - 1
            assert chain.room_above(spans, k, total) == (0 if is_down else max(above)), (spans, k)
            assert chain.room_below(spans, k, sink) == (0 if k == 0 else max(below)), (spans, k)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_joint_demand_fits_where_there_are_places(seed: int) -> None:
    seen = set()
    for draw, spans, sink, total in scenes(seed):
        for _ in range(8):
            demand = [draw.choice([0, 0, 1, 1, 2, 3]) for _ in spans]
            sizes = [span.size + more for span, more in zip(spans, demand, strict=True)]
            fits = has_places(spans, sizes, sink, total)
            assert (chain.lowest_starts(spans, demand, sink, total) is not None) == fits, (spans, demand)
            seen.add(fits)
    assert seen == {True, False}


@pytest.mark.parametrize("seed", SEEDS)
def test_room_is_the_joint_demand_of_one(seed: int) -> None:
    for _, spans, sink, total in scenes(seed):
        for k, span in enumerate(spans):
            most = span.last - span.first - span.size + chain.room(spans, k, sink, total)
            for n, fits in ((most, True), (most + 1, False)):
                demand = [n if j == k else 0 for j in range(len(spans))]
                assert (chain.lowest_starts(spans, demand, sink, total) is not None) == fits, (spans, k, n)


def test_nothing_fixed_and_nothing_asked_always_fits() -> None:
    spans = [Span(2, 2, 3, 1, NOWHERE, 0), Span(3, 0, 0, 0, NOWHERE, 0), Span(1, 9, 10, 1, NOWHERE, 0)]
    assert chain.lowest_starts(spans, [0, 0, 0], 3, 10) is not None
    assert [chain.room(spans, k, 3, 10) for k in range(3)] == [1, 1, 3]
