"""A set of pages that is kept as a dense list: adding, taking and removing cost what they touch, and nothing else."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

_FIRST_ROOM: Final = 64


class PageList:
    """Distinct pages in no order.

    Args:
        pages: page numbers are 0 to pages - 1.
    """

    __slots__ = ("_items", "_place", "size")

    _items: NDArray[np.int64]
    """_items[:size] are the members."""
    _place: NDArray[np.int32]
    """[pages]: 1 + the place of a member in the list, 0 for all others."""
    size: int

    def __init__(self, pages: int) -> None:
        self._items = np.empty(_FIRST_ROOM, np.int64)
        self._place = np.zeros(pages, np.int32)
        self.size = 0

    @property
    def members(self) -> NDArray[np.int64]:
        """The members: a view of the list itself, to be read at once and not kept."""
        return self._items[: self.size]

    def has(self, pages: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of these pages are members."""
        found: NDArray[np.bool_] = self._place[pages] != 0
        return found

    def is_member(self, page: int) -> bool:
        """Whether one page is a member; a page past the end is none."""
        return page < len(self._place) and bool(self._place[page])

    def marks(self, first: int, last: int) -> NDArray[np.bool_]:
        """Which of the pages first to last - 1 are members."""
        found: NDArray[np.bool_] = self._place[first:last] != 0
        return found

    def add(self, pages: NDArray[np.int64]) -> None:
        """Add pages, none of which is a member, none twice."""
        end = self.size + len(pages)
        self._make_room(end)
        self._items[self.size : end] = pages
        self._place[pages] = np.arange(self.size + 1, end + 1)
        self.size = end

    def add_one(self, page: int) -> None:
        """Add a page that is no member."""
        self._make_room(self.size + 1)
        self._items[self.size] = page
        self.size += 1
        self._place[page] = self.size

    def _make_room(self, size: int) -> None:
        """Room for so many members."""
        room = len(self._items)
        if size > room:
            self._items = np.concatenate([self.members, np.empty(max(size, 2 * room) - self.size, np.int64)])

    def take(self, n: int) -> NDArray[np.int64]:
        """Remove the n members that were added last, and return them."""
        start = self.size - n
        taken = self._items[start : self.size].copy()
        self._place[taken] = 0
        self.size = start
        return taken

    def pop(self) -> int:
        """Remove the member that was added last, and return it."""
        self.size -= 1
        page: int = self._items.item(self.size)
        self._place[page] = 0
        return page

    def remove(self, pages: NDArray[np.int64]) -> None:
        """Remove members, none twice; those from the end of the list fill the places that become free."""
        size = self.size - len(pages)
        freed = self._place[pages]
        self._place[pages] = 0
        tail = self._items[size : self.size]
        fillers = tail[self._place[tail] != 0]
        freed = freed[freed <= size]
        self._items[freed - 1] = fillers
        self._place[fillers] = freed
        self.size = size

    def some(self, n: int, low: int, high: int) -> NDArray[np.int64]:
        """n members among the pages low to high - 1, of which there are as many; looked for from the end of the list.

        Each look takes twice as much of the list, so that the cost is that of the members passed over.
        """
        reach = max(2 * n, _FIRST_ROOM)
        while True:
            start = max(self.size - reach, 0)
            near = self._items[start : self.size]
            found = near[(near >= low) & (near < high)]
            if len(found) >= n or start == 0:
                return found[len(found) - n :].copy()
            reach *= 2

    def clear(self) -> None:
        """Remove all."""
        self._place[self.members] = 0
        self.size = 0
