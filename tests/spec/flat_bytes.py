"""A second opinion on the shared buffer: a flat list of bytes, each with a tag that says whose it is.

There are no page tables and no extents here. Where a sub-pool lies, which of its pages are holes, and where the page
of an id is, is all read off the tags.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

BOUND, HOLE, PENDING, SINK = "bound", "hole", "pending", "sink"


@dataclass(frozen=True)
class Tag:
    """Whose a byte is: the sub-pool, the byte at which its page begins, and what the page is (with its id if bound)."""

    k: int
    begin: int
    kind: str
    v: int = 0


NOBODYS_SINK = Tag(-1, 0, SINK)


class Flat:
    """The bytes of one buffer."""

    def __init__(self, sizes: dict[str, Any]) -> None:
        self.size: tuple[int, ...] = sizes["page_bytes"]
        self.ids: tuple[int, ...] = sizes["ids"]
        self.owner: tuple[int, ...] = sizes["id_owner"]
        self.zeroed: tuple[bool, ...] = sizes["zeroed"]
        self.sink: int = sizes["sink_bytes"]
        self.total: int = sizes["total"]
        self.ends = {0: sizes["bottom"] * self.size[0]}
        if len(self.size) > 1:
            self.ends[len(self.size) - 1] = sizes["top"] * self.size[-1]
        self.content = [(0, 0)] * self.total
        self.lost: Counter[tuple[int, int]] = Counter()
        self.forget()

    def forget(self) -> None:
        """Nobody has a byte but the sink; every sub-pool is empty, at its end or parked."""
        self.tags: list[Tag | None] = [NOBODYS_SINK if b < self.sink else None for b in range(self.total)]
        self.seat = {k: self.ends.get(k, 0) for k in range(len(self.size))}

    # -------------------------------------------------------------------------------------------------- reading tags

    def mine(self, k: int) -> list[int]:
        """All bytes of a sub-pool."""
        return [b for b, tag in enumerate(self.tags) if tag is not None and tag.k == k]

    def span(self, k: int) -> tuple[int, int]:
        """From where to where a sub-pool lies; of an empty one, where it would begin."""
        bytes_ = self.mine(k)
        return (bytes_[0], bytes_[-1] + 1) if bytes_ else (self.seat[k], self.seat[k])

    def page_of(self, k: int, v: int) -> int | None:
        """The byte at which a live id's page begins."""
        found = {tag.begin for tag in self.tags if tag is not None and (tag.k, tag.kind, tag.v) == (k, BOUND, v)}
        assert len(found) <= 1
        return found.pop() if found else None

    def kind(self, k: int, begin: int) -> str | None:
        """What the page of a sub-pool that begins at this byte is."""
        if not 0 <= begin < self.total:
            return None
        tag = self.tags[begin]
        return tag.kind if tag is not None and (tag.k, tag.begin) == (k, begin) else None

    def is_sub_pool(self, k: int) -> bool:
        """Is there such a sub-pool?"""
        return 0 <= k < len(self.size)

    def is_float(self, k: int) -> bool:
        """Is it one that lies between the ends?"""
        return self.is_sub_pool(k) and k not in self.ends

    def is_empty(self, k: int) -> bool:
        """Has it no byte?"""
        return not self.mine(k)

    def is_free_for(self, k: int, begin: int) -> bool:
        """Is a page from here on nobody's, and in its sub-pool's place in the chain?"""
        end = begin + self.size[k]
        if begin < self.sink or end > self.total or any(self.tags[begin:end]):
            return False
        below = [tag.k for tag in self.tags[:begin] if tag is not None]
        above = [tag.k for tag in self.tags[end:] if tag is not None]
        return max(below) <= k and min(above, default=k) >= k

    def is_next(self, k: int, begin: int) -> bool:
        """Does a page from here on adjoin the sub-pool on a side on which it may grow?"""
        low, high = self.span(k)
        is_down_end = k != 0 and k in self.ends
        return (begin == high and not is_down_end) or (begin + self.size[k] == low and k != 0)

    def takes(self, k: int, v: int) -> bool:
        """Has the id no page here, and may it have one?"""
        if not (self.is_sub_pool(k) and 1 <= v < self.ids[k]) or self.page_of(k, v) is not None:
            return False
        return self.owner[k] == k or self.page_of(self.owner[k], v) is not None

    # ------------------------------------------------------------------------------------------------------- changes

    def put(self, k: int, begin: int, kind: str | None, v: int = 0) -> None:
        """Tag a page; with None it is nobody's."""
        tag = None if kind is None else Tag(k, begin, kind, v)
        self.tags[begin : begin + self.size[k]] = [tag] * self.size[k]

    def fill(self, k: int, begin: int, stamp: int) -> None:
        """Write a page."""
        self.content[begin : begin + self.size[k]] = [(stamp, i) for i in range(self.size[k])]

    def bind(self, k: int, v: int, begin: int) -> None:
        """Give an id its page."""
        self.put(k, begin, BOUND, v)
        if self.zeroed[k]:
            self.fill(k, begin, 0)

    def step(self, name: str, arguments: tuple[Any, ...]) -> bool:
        """Do what an action of the spec does, if it is allowed; whether it is."""
        allowed: bool = getattr(self, f"do_{name}")(*arguments)
        return allowed

    def do_bind_frontier(self, k: int, v: int, page: int) -> bool:
        """Give an id the next page."""
        if not self.takes(k, v):
            return False
        begin = page * self.size[k]
        if not (self.is_next(k, begin) and self.is_free_for(k, begin)):
            return False
        self.bind(k, v, begin)
        return True

    def do_bind_hole(self, k: int, v: int, page: int) -> bool:
        """Give an id a hole."""
        if not self.takes(k, v) or self.kind(k, page * self.size[k]) != HOLE:
            return False
        self.bind(k, v, page * self.size[k])
        return True

    def do_unbind(self, k: int, v: int) -> bool:
        """Take an id's page away, unless a window has one for the id."""
        begin = self.page_of(k, v) if self.is_sub_pool(k) else None
        windows = [w for w, owner in enumerate(self.owner) if owner == k and w != k]
        if begin is None or any(self.page_of(w, v) is not None for w in windows):
            return False
        self.put(k, begin, PENDING)
        self.lost[k, v] += 1
        return True

    def do_reclaim(self, k: int, page: int) -> bool:
        """A pending page is a hole."""
        if not self.is_sub_pool(k) or self.kind(k, page * self.size[k]) != PENDING:
            return False
        self.put(k, page * self.size[k], HOLE)
        return True

    def do_grow(self, k: int, page: int) -> bool:
        """The next page is a hole."""
        begin = page * self.size[k] if self.is_sub_pool(k) else -1
        if not self.is_sub_pool(k) or not (self.is_next(k, begin) and self.is_free_for(k, begin)):
            return False
        self.put(k, begin, HOLE)
        return True

    def do_retreat_high(self, k: int) -> bool:
        """The uppermost page, a hole, is nobody's."""
        if not self.is_sub_pool(k) or self.is_empty(k) or (k != 0 and k in self.ends):
            return False
        begin = self.span(k)[1] - self.size[k]
        return self._give_up(k, begin, begin)

    def do_retreat_low(self, k: int) -> bool:
        """The lowest page, a hole, is nobody's."""
        if not self.is_sub_pool(k) or self.is_empty(k) or k == 0:
            return False
        begin = self.span(k)[0]
        return self._give_up(k, begin, begin + self.size[k])

    def _give_up(self, k: int, begin: int, seat: int) -> bool:
        if self.kind(k, begin) != HOLE:
            return False
        self.put(k, begin, None)
        self.seat[k] = seat
        return True

    def do_move(self, k: int, v: int, page: int) -> bool:
        """Copy an id's page into a hole."""
        source = self.page_of(k, v) if self.is_sub_pool(k) else None
        if source is None or self.kind(k, page * self.size[k]) != HOLE:
            return False
        target, size = page * self.size[k], self.size[k]
        self.content[target : target + size] = self.content[source : source + size]
        self.put(k, target, BOUND, v)
        self.put(k, source, PENDING)
        return True

    def do_place_float(self, k: int, at: int) -> bool:
        """An empty float begins here."""
        if not (self.is_float(k) and self.is_empty(k) and self.is_free_for(k, at * self.size[k])):
            return False
        self.seat[k] = at * self.size[k]
        return True

    def do_park_float(self, k: int) -> bool:
        """An empty float lies nowhere."""
        if not (self.is_float(k) and self.is_empty(k)):
            return False
        self.seat[k] = 0
        return True

    def do_write(self, k: int, v: int, stamp: int) -> bool:
        """Write an id's page, or the sink."""
        if not self.is_sub_pool(k) or stamp <= 0:
            return False
        self.fill(k, self.page_of(k, v) or 0, stamp)
        return True

    def do_clear(self) -> bool:
        """All is as at first, but for the bytes' content."""
        self.lost.update({(tag.k, tag.v) for tag in self.tags if tag is not None and tag.kind == BOUND})
        self.forget()
        return True

    # ---------------------------------------------------------------------------------------------------- comparison

    def differences(self, pool: Any) -> list[str]:
        """In what the spec's state says something else."""
        found = []
        if [(pool.memory[b], pool.place[b]) for b in range(self.total)] != self.content:
            found.append("the bytes")
        for k, size in enumerate(self.size):
            if (pool.first[k] * size, pool.last[k] * size) != self.span(k):
                found.append(f"where sub-pool {k} lies")
            kinds = {page: self.kind(k, page * size) for page in range(1, pool.pages)}
            for kind, listed in ((HOLE, pool.holes[k]), (PENDING, pool.pending[k])):
                if set(listed) != {page for page, is_kind in kinds.items() if is_kind == kind}:
                    found.append(f"the pages of sub-pool {k} that are {kind}")
            if pool.bound[k] != sum(kind == BOUND for kind in kinds.values()):
                found.append(f"the count of sub-pool {k}")
            for v in range(1, pool.virtual_ids):
                begin = self.page_of(k, v)
                if pool.physical[k, v] != (-1 if begin is None else begin // size):
                    found.append(f"the page of id {v} in sub-pool {k}")
                if pool.tenancy[k, v] != self.lost[k, v]:
                    found.append(f"the tenancies of id {v} in sub-pool {k}")
        return found
