"""Who could have how much room in the chain of sub-pools: plain arithmetic over where each of them must be.

Every extent is described by its size in pages, and by the pages in it that cannot move now: those that are pending or
leased, or that a step away from home touches; all of them where moving is out of the question. Compaction and floats
can bring an extent to any place that holds its size and keeps what cannot move where it is. An extent of no pages is
in nobody's way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from poolproof.spec.arithmetic import ceil_div

NOWHERE: Final = 2**62
"""The first page that cannot move, where there is none."""


class Span(NamedTuple):
    """One extent.

    Attributes:
        page_bytes: bytes of a page.
        first, last: the extent is the pages first to last - 1.
        size: its pages that are no holes.
        low, high: what cannot move lies in the pages low to high - 1; NOWHERE and 0 where everything can.
    """

    page_bytes: int
    first: int
    last: int
    size: int
    low: int
    high: int


def floor_below(spans: Sequence[Span], k: int, sink_bytes: int) -> int:
    """The lowest byte that extent k could begin at, with everything below it pushed down."""
    floor = sink_bytes
    for j, span in enumerate(spans[:k]):
        if span.size:
            start = span.first if j == 0 else ceil_div(floor, span.page_bytes)
            floor = max(span.high, start + span.size) * span.page_bytes
    return floor


def ceiling_above(spans: Sequence[Span], k: int, total: int) -> int:
    """The byte before which extent k must end, with everything above it pushed up."""
    ceiling = total
    for j in range(len(spans) - 1, k, -1):
        span = spans[j]
        if span.size:
            end = span.last if j == len(spans) - 1 else ceiling // span.page_bytes
            ceiling = min(span.low, end - span.size) * span.page_bytes
    return ceiling


def room_above(spans: Sequence[Span], k: int, total: int) -> int:
    """How many pages extent k could grow upwards by, at the most."""
    span = spans[k]
    if k and k == len(spans) - 1:
        return 0
    return max(ceiling_above(spans, k, total) // span.page_bytes - span.last, 0)


def room_below(spans: Sequence[Span], k: int, sink_bytes: int) -> int:
    """How many pages extent k could grow downwards by, at the most."""
    span = spans[k]
    if k == 0:
        return 0
    return max(span.first - ceil_div(floor_below(spans, k, sink_bytes), span.page_bytes), 0)


def room(spans: Sequence[Span], k: int, sink_bytes: int, total: int) -> int:
    """How many pages beyond its own extent a sub-pool could have, at the most."""
    span = spans[k]
    if 0 < k < len(spans) - 1 and not span.size:
        bottom = ceil_div(floor_below(spans, k, sink_bytes), span.page_bytes)
        return max(ceiling_above(spans, k, total) // span.page_bytes - bottom, 0)
    return room_above(spans, k, total) + room_below(spans, k, sink_bytes)


def lowest_starts(spans: Sequence[Span], demand: Sequence[int], sink_bytes: int, total: int) -> list[int] | None:
    """The first page of every extent with so many pages more, each put as low as it can be; None if they do not fit.

    From the bottom up that leaves the most to those above. Of an extent of no pages the number means nothing.
    """
    floor, end, starts = sink_bytes, len(spans) - 1, []
    for k, (span, more) in enumerate(zip(spans, demand, strict=True)):
        size = span.size + more
        start = span.first if k == 0 else ceil_div(floor, span.page_bytes)
        starts.append(start)
        if not size:
            continue
        if k and k == end:
            return starts if min(span.low, span.last - size) >= start else None
        if span.low < start:
            return None
        floor = max(span.high, start + size) * span.page_bytes
    return starts if floor <= total else None
