"""Guard mode: red zones between pages, poison in what is nobody's, and tags that say whose a page is.

It finds what a memory checker cannot see inside one allocation: writes beyond a page, writes to pages that were freed
or have moved away, and reads of those (poison is a NaN, and `verify` compares tags). Nothing waits for the device
before `check`: what is found in between is noted there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from poolproof.guard_layout import POISON, Zone
from poolproof.page_table import NO_ID, NOTHING, Pages, PageTable, distinct
from poolproof.violation import Violation

if TYPE_CHECKING:
    from poolproof.steps import Step

_AT_ONCE: Final = 1 << 26
"""Bytes that are looked at at once."""

_NOTES: Final = 4096
"""So many looks are kept; of older ones only how many pages were wrong."""

_LISTED: Final = 8

Work = Callable[[], None]
Look = tuple[Tensor, Callable[[int], Violation]]
"""Which of some things are wrong, on the device, and what to say of the n-th."""


class Guard:
    """The red zones, poison and tags of one buffer.

    Args:
        buffer: [bytes], uint8.
        tables, zones, names: of the sub-pools.
        sink: bytes of the sink, which anybody may write to.
    """

    def __init__(
        self, buffer: Tensor, tables: Sequence[PageTable], zones: Sequence[Zone], names: Sequence[str], sink: int
    ) -> None:
        self.buffer, self._tables, self.zones, self._names, self._sink = buffer, tables, zones, names, sink
        self._rows = [self._pages_of(zone.page_bytes) for zone in zones]
        self._strays = torch.zeros(len(tables), dtype=torch.int64, device=buffer.device)
        self._looks: deque[Look] = deque()
        self._forgotten = torch.zeros((), dtype=torch.int64, device=buffer.device)
        for table in tables:
            table.touched = []
        self._late: list[list[Pages]] = [[] for _ in tables]
        self._tags = [np.zeros((len(table.hold), 2), np.int64) for table in tables]
        self._is_wiped = False
        buffer[sink:] = POISON

    def _pages_of(self, page_bytes: int) -> Tensor:
        pages = self.buffer.numel() // page_bytes
        return self.buffer[: pages * page_bytes].view(pages, page_bytes)

    # ------------------------------------------------------------------------------------------------ keeping it so

    def is_behind(self) -> bool:
        """Are there pages to poison or to tag?"""
        return self._is_wiped or any(table.touched for table in self._tables) or any(self._late)

    def postpone(self) -> None:
        """What was handed out may be written from now on: it is tagged later, and not poisoned any more."""
        for table, late in zip(self._tables, self._late, strict=True):
            late += table.touched or []
            table.touched = []

    def wipe(self) -> Work:
        """Every page is going to be nobody's; a last look at all of them."""
        looks = [self._note(k, pages, self._tags[k][pages]) for k, pages in self._settled()]
        for k, table in enumerate(self._tables):
            table.touched, self._late[k] = [], []
            self._tags[k][:] = 0
        self._is_wiped = True
        return _all(looks)

    def _settled(self) -> Iterator[tuple[int, Pages]]:
        """By sub-pool, the pages of the extent that are as they were left."""
        for k, table in enumerate(self._tables):
            skipped = [*(table.touched or []), *self._late[k], table.pending.members]
            pages = np.arange(table.first, table.last)
            pages = pages[~np.isin(pages, np.concatenate(skipped))]
            if len(pages):
                yield k, pages

    def due(self, is_open: bool) -> tuple[Work, Work] | None:
        """What is to be done on the home stream before pages are zeroed, and after: poison, and tags.

        While a step at home is open, whose work is to come first, nothing is.
        """
        if is_open:
            self.postpone()
            return None
        return self._prepare() if self.is_behind() else None

    def _prepare(self) -> tuple[Work, Work]:
        before: list[Work] = []
        if self._is_wiped:
            self._is_wiped = False
            before.append(lambda: self._fill(self.buffer[self._sink :]))
        touched = [_together(table.touched or []) for table in self._tables]
        late = [_together(pages) for pages in self._late]
        # What waits for somebody and was touched has been bound and freed since: nobody has written it yet.
        freed = [table.virtual[pages] == NO_ID for table, pages in zip(self._tables, touched, strict=True)]
        late_freed = [self._is_free(k, pages) for k, pages in enumerate(late)]
        before += self._looks_at(touched, late)
        written = [pages[~free] for pages, free in zip(late, late_freed, strict=True)]
        for k in range(len(self._tables)):
            before += self._poison(k, distinct(np.concatenate([touched[k][freed[k]], late[k][late_freed[k]]])), written)
        after: list[Work] = []
        for k, table in enumerate(self._tables):
            fresh = touched[k][~freed[k]]
            fresh = fresh[~np.isin(fresh, written[k])]
            if len(fresh) and not table.zeroed:
                before.append(self._poison_pages(k, fresh))
            after += self._tag(k, distinct(np.concatenate([fresh, written[k]])))
            waiting = written[k][table.virtual[written[k]] == NO_ID]  # pages that were written, and are not let go yet
            table.touched, self._late[k] = [], [waiting] if len(waiting) else []
        return _all(before), _all(after)

    def _is_free(self, k: int, pages: Pages) -> NDArray[np.bool_]:
        """Which pages, that may have been written, are nobody's, and wait for nobody."""
        table = self._tables[k]
        free: NDArray[np.bool_] = (table.virtual[pages] == NO_ID) & ~table.pending.has(pages)
        return free

    def _fill(self, stretch: Tensor) -> None:
        stretch.fill_(POISON)

    def _poison(self, k: int, pages: Pages, written: list[Pages]) -> Iterator[Work]:
        """Poison pages that were let go, but for bytes that others have taken since and may have written."""
        self._tags[k][pages] = 0
        apart = self._is_apart(k, pages, written)
        if apart.any():
            yield self._poison_pages(k, pages[apart])
        size = self.zones[k].page_bytes
        for page in pages[~apart].tolist():
            low = page * size
            for start, end in [*self._taken(written, low, low + size), (low + size, 0)]:
                if start > low:
                    yield self._filling(low, start)
                low = max(low, end)

    def _taken(self, written: list[Pages], low: int, high: int) -> list[tuple[int, int]]:
        """In order, the bytes of pages that reach into a stretch."""
        sized = [(pages, zone.page_bytes) for pages, zone in zip(written, self.zones, strict=True)]
        every = sorted((page * size, (page + 1) * size) for pages, size in sized for page in pages.tolist())
        return [(start, end) for start, end in every if start < high and end > low]

    def _filling(self, low: int, high: int) -> Work:
        return lambda: self._fill(self.buffer[low:high])

    def _poison_pages(self, k: int, pages: Pages) -> Work:
        return lambda: self._fill_rows(self._rows[k], pages)

    def _fill_rows(self, rows: Tensor, pages: Pages) -> None:
        rows.index_fill_(0, self._on_device(pages), POISON)

    def _tag(self, k: int, pages: Pages) -> Iterator[Work]:
        """Tag bound pages as they are now."""
        table, zone = self._tables[k], self.zones[k]
        pages = pages[table.virtual[pages] != NO_ID]
        if not len(pages):
            return
        ids = table.virtual[pages]
        born = table.born[ids]
        self._tags[k][pages] = np.stack([ids, born], axis=1)
        tagged, rows = zone.tagged(ids, born), self._rows[k]
        yield lambda: self._write_zones(rows[:, zone.body :], pages, tagged)

    def _write_zones(self, zones: Tensor, pages: Pages, tagged: NDArray[np.uint8]) -> None:
        zones.index_copy_(0, self._on_device(pages), self._on_device(tagged))

    def moved(self, k: int, sources: Pages, holes: Pages) -> Work:
        """Pages are going to be copied with their zones; a last look at the holes."""
        look = self._note(k, holes.copy(), self._tags[k][holes])
        self._tags[k][holes] = self._tags[k][sources]
        return look

    def _gaps(self) -> Iterator[tuple[int, int]]:
        """Stretches of bytes that are in no extent."""
        below = self._sink
        for table in self._tables:
            if not table.is_empty:
                yield below, table.first * table.page_bytes
                below = table.last * table.page_bytes
        yield below, self.buffer.numel()

    def _on_device(self, numbers: NDArray[Any]) -> Tensor:
        found = torch.from_numpy(np.ascontiguousarray(numbers))
        if not self.buffer.is_cuda:
            return found
        return found.pin_memory().to(self.buffer.device, non_blocking=True)

    # ------------------------------------------------------------------------------------------------------- looking

    def _looks_at(self, touched: list[Pages], late: list[Pages]) -> Iterator[Work]:
        """Before pages that changed hands are poisoned and tagged: are they still as they were left?"""
        for k, every in enumerate(touched):
            pages = every[~np.isin(every, late[k])]
            alone = pages[self._is_apart(k, pages, [*touched, *late])]
            if len(alone):
                yield self._note(k, alone, self._tags[k][alone].copy())

    def _is_apart(self, k: int, pages: Pages, changed: list[Pages]) -> NDArray[np.bool_]:
        """Which pages share no byte with pages of other sub-pools that changed hands: those may have been theirs."""
        size, apart = self.zones[k].page_bytes, np.ones(len(pages), np.bool_)
        for n, others in enumerate(changed):
            j = n % len(self._tables)
            if j == k or not len(others):
                continue
            other = self.zones[j].page_bytes
            ends = np.sort(others) * other + other
            nearest = np.searchsorted(ends, pages * size, side="right")
            begins = np.concatenate([ends - other, [np.iinfo(np.int64).max]])[nearest]
            apart &= begins >= (pages + 1) * size
        return apart

    def _note(self, k: int, pages: Pages, tags: NDArray[np.int64]) -> Work:
        """Look at pages, and remember what to say of them."""

        def work() -> None:
            """On the stream."""
            if not len(pages):
                return
            wrong = self._is_changed(k, pages, tags)
            self._looks.append((wrong, lambda n: self._violation(k, int(pages[n]), tags[n])))
            if len(self._looks) > _NOTES:
                self._forgotten += self._looks.popleft()[0].sum()

        return work

    def _is_changed(self, k: int, pages: Pages, tags: NDArray[np.int64]) -> Tensor:
        """[n]: which pages are not poison, or where they have a tag, have another zone."""
        zone, rows = self.zones[k], self._rows[k]
        is_bound, at = tags[:, 0] != 0, self._on_device(pages)
        expected = np.where(is_bound[:, None], zone.tagged(tags[:, 0], tags[:, 1]), np.uint8(POISON))
        wrong = (rows[:, zone.body :][at] != self._on_device(expected)).any(dim=1)
        free = self._on_device(pages[~is_bound])
        if len(free):
            bodies = torch.zeros(len(pages), dtype=torch.bool, device=wrong.device)
            bodies[self._on_device(np.flatnonzero(~is_bound))] = self._is_unpoisoned(rows[:, : zone.body], free)
            wrong |= bodies
        return wrong

    def _is_unpoisoned(self, rows: Tensor, pages: Tensor) -> Tensor:
        step = max(_AT_ONCE // max(rows.shape[1], 1), 1)
        parts = [(rows[pages[n : n + step]] != POISON).any(dim=1) for n in range(0, len(pages), step)]
        return torch.cat(parts)

    def verify(
        self,
        table: PageTable,
        tokens: Tensor,
        physical: Tensor,
        page_size: int,
        ranks: int,
        step: Step | None,
        is_capturing: bool,
    ) -> None:
        """See `SubPool.verify`. Pages not tagged yet are left out, except in a graph, which would keep the list."""
        if tokens.shape != physical.shape or tokens.device != physical.device:
            raise ValueError(
                f"{tuple(tokens.shape)} tokens on {tokens.device} and {tuple(physical.shape)} physical ones on "
                f"{physical.device}: give one for each"
            )
        zone = self.zones[table.index]
        tags = self.buffer[: self._rows[table.index].numel()].view(torch.int64)
        tags = tags.as_strided((len(table.hold), 2), (zone.page_bytes // 8, 1), tags.storage_offset() + zone.tag // 8)
        pages = torch.div(physical.long(), page_size, rounding_mode="floor")
        used = tags[pages.clamp(0, len(table.hold) - 1)]
        wrong = used[..., 0] != torch.div(tokens.long(), page_size * ranks, rounding_mode="floor")
        if step is not None:
            wrong |= used[..., 1] >= step.began
        untagged = [*self._late[table.index], *(table.touched or [])]
        if untagged and not is_capturing:
            left_out = torch.zeros(len(table.hold), dtype=torch.bool, device=pages.device)
            left_out.index_fill_(0, self._on_device(np.concatenate(untagged)), True)
            wrong &= ~left_out[pages.clamp(0, len(left_out) - 1)]
        self._strays[table.index] += (wrong & (tokens >= 0) & (pages != 0)).sum()

    def check(self) -> list[Violation]:
        """All that is wrong, and was at an earlier look. Waits for the device; what is not tagged yet is left out."""
        found = list(self._noted())
        for k, pages in self._settled():
            tags = self._tags[k][pages]
            wrong = self._is_changed(k, pages, tags).cpu().numpy()
            found += [self._violation(k, int(pages[n]), tags[n]) for n in np.flatnonzero(wrong)[:_LISTED]]
        return found + list(self._check_gaps()) + list(self._check_strays())

    def _noted(self) -> Iterator[Violation]:
        forgotten = int(self._forgotten)
        self._forgotten.zero_()
        if forgotten:
            text = f"{forgotten} pages were wrong at looks so long ago that it is not known which: check more often"
            yield Violation("I14", "guard_red_zone", text)
        while self._looks:
            wrong, say = self._looks.popleft()
            yield from (say(int(n)) for n in torch.nonzero(wrong)[:_LISTED, 0].tolist())

    def _check_gaps(self) -> Iterator[Violation]:
        if self.is_behind():
            return
        for low, high in self._gaps():
            for start in range(low, high, _AT_ONCE):
                stretch = self.buffer[start : min(start + _AT_ONCE, high)]
                wrong = torch.nonzero(stretch != POISON)[:1, 0].tolist()
                if wrong:
                    at = start + wrong[0]
                    text = f"byte {at} of the buffer was written; bytes {low} to {high - 1} belong to no sub-pool"
                    yield Violation("I5", "guard_poison", text)
                    break

    def _check_strays(self) -> Iterator[Violation]:
        strays = self._strays.tolist()
        self._strays.zero_()
        for name, n in zip(self._names, strays, strict=True):
            if n:
                text = f"{n} tokens of {name!r} were used where their ids' pages are not, or no longer are"
                yield Violation("I9", "guard_tags", text)

    def _violation(self, k: int, page: int, tag: NDArray[np.int64]) -> Violation:
        zone, name, v = self.zones[k], self._names[k], int(tag[0])
        if v:
            text = (
                f"the red zone of page {page} of {name!r} was written; the page is id {v}'s since {tag[1]}: something "
                f"wrote beyond its {zone.body} bytes, or before the next page"
            )
            return Violation("I14", "guard_red_zone", text)
        text = f"page {page} of {name!r} was written though it is nobody's: its id was freed, or had moved away"
        return Violation("I5", "guard_poison", text)


def _together(pages: Sequence[Pages]) -> Pages:
    return distinct(np.concatenate([NOTHING, *pages]))


def _all(works: list[Work]) -> Work:
    """One after the other."""

    def work() -> None:
        for each in works:
            each()

    return work
