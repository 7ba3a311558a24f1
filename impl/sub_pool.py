"""One sub-pool of a unified pool: what `pool["full"]` is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from poolproof.arguments import Ids, as_ids

if TYPE_CHECKING:
    from poolproof.page_table import Pages, PageTable
    from poolproof.steps import Step
    from poolproof.sub_pools import Resolved
    from poolproof.unified_pool import UnifiedPool


class SubPool:
    """A sub-pool, by name. Ids are 1 to `ids` - 1 and die when they are freed; id 0 is the sink, and never given out.

    Attributes:
        name: as declared.
    """

    __slots__ = ("_pool", "_table", "name")

    def __init__(self, pool: UnifiedPool, name: str, table: PageTable) -> None:
        self._pool, self.name, self._table = pool, name, table

    @property
    def layout(self) -> Resolved:
        """What lies where in a page."""
        return self._pool.layouts[self._table.index]

    @property
    def ids(self) -> int:
        """How many ids there are, the sink's included."""
        return self._table.ids

    def alloc(self, n: int) -> Pages:
        """Ids with a page each: holes first, then fresh pages, then those that compaction makes room for.

        Args:
            n: how many.

        Returns:
            [n], a fresh int64 array.

        Raises:
            BufferExhausted: there are fewer; see `capacity`.
            WrongThread: another thread drives the pool.
            TypeError, ValueError: n is no integer or negative, or the sub-pool is a window.
        """
        ids = self._pool._alloc(self._table, n)
        if ids is None:
            raise self._pool._exhausted(self._table, n)
        return ids

    def try_alloc(self, n: int) -> Pages | None:
        """As `alloc`, but None where there are fewer."""
        return self._pool._alloc(self._table, n)

    def bind(self, ids: Ids) -> None:
        """A window binds a page for each of these ids of its owner.

        Args:
            ids: live ids of the owner, none twice, none with a page of the window.

        Raises:
            BufferExhausted: there are fewer pages.
            InvalidPages: an id is not live in the owner, is given twice, or has a page here.
            WrongThread, TypeError, ValueError: as for `alloc`.
        """
        if not self._pool._bind(self.name, ids):
            raise self._pool._exhausted(self._table, len(as_ids(ids)))

    def free(self, ids: Ids) -> None:
        """Ids die, with the pages that windows have bound for them; of a window, only its own pages go.

        Pages that a step away from home touches, that are leased, or that a group of frees keeps wait for that.

        Args:
            ids: live ids, none twice.

        Raises:
            InvalidPages: an id is not live, or given twice.
            WrongThread, TypeError, ValueError: as for `alloc`.
        """
        self._pool._free(self._table, ids)

    def extend(self, tails: Ids, old_lens: Ids, new_lens: Ids) -> Pages:
        """Sequences grow by tokens: each fills its tail page, and is given pages for the rest.

        Args:
            tails: [batch], the last page of each sequence; anything where its old length ends with a full page.
            old_lens, new_lens: [batch], tokens before and after.

        Returns:
            The new ids, sequence after sequence: ceil(new / page_size) - ceil(old / page_size) of each.

        Raises:
            BufferExhausted: there are fewer; no sequence grows.
            InvalidPages: a tail page that has room left is not live, or two sequences share it.
            ValueError: the lengths differ in number, are negative, or shrink.
        """
        self._pool._enter()
        size = self.layout.page_size
        tail, old, new = as_ids(tails), as_ids(old_lens), as_ids(new_lens)
        if not len(tail) == len(old) == len(new):
            raise ValueError(f"{len(tail)} tail pages, {len(old)} old and {len(new)} new lengths: give as many of each")
        if len(old) and (int(old.min()) < 0 or bool((new < old).any())):
            at = int(np.flatnonzero((old < 0) | (new < old))[0])
            raise ValueError(f"sequence {at} goes from {old[at]} to {new[at]} tokens; lengths are 0 or more, and grow")
        open_tails = tail[(old % size != 0)]
        self._pool._check_live("extend", self._table, open_tails)
        return self.alloc(sum((-(-new // size) - -(-old // size)).tolist()))

    def capacity(self) -> int:
        """How many pages one `alloc` (or `bind`) can get now, an urgent compaction included."""
        return self._pool.capacity(self.name)

    def physical(self, ids: Ids) -> Pages:
        """The page of each id now, 0 (the sink's) for ids without one; it may change at the next operation.

        Returns:
            [n], a fresh int64 array.
        """
        table, wanted = self._table, as_ids(ids)
        inside = (wanted >= 0) & (wanted < table.ids)
        return np.maximum(table.physical[np.where(inside, wanted, 0)], 0)

    def translate(self, tokens: Any, out: Any = None, ranks: int = 1, rank: int | None = None) -> Any:
        """Token ids to physical token numbers, `page * page_size + offset`.

        On a CUDA device it is one launch on the current stream, which may be captured in a graph; with `out`, nothing
        is allocated. The device's tables are as of the last `begin_step`. While no step, on any stream, is begun and
        not launched, they are brought up to date first, and the current stream comes behind home.

        Args:
            tokens: an int64 or int32 tensor on the pool's device, token ids `id * page_size + offset`; padding such as
                -1, and tokens of ids without a page, become tokens of the sink.
            out: a tensor of the same shape, dtype and device to write to; `tokens` itself will do.
            ranks: of a context-parallel group, with token ids `(id * page_size + offset) * ranks + owner`.
            rank: whose tokens are wanted, so that those of others become the sink's; None for every token's place on
                the rank that owns it.

        Returns:
            `out`, or a new tensor of the shape and dtype of `tokens`.

        Raises:
            TypeError, ValueError: tokens are of another dtype, or one that the buffer's last token passes; `out` is of
                another shape or dtype; there is no such rank; tokens of a pool on CUDA are elsewhere.
        """
        return self._pool._translate(self._table, tokens, out, ranks, rank)

    def verify(self, tokens: Any, physical: Any, step: Step | None = None, ranks: int = 1) -> None:
        """Where a pool has a guard: do the pages that are about to be used carry the tags of their ids?

        On the current stream, without waiting; it may be captured in a graph, then without `step`, which a replay would
        not change. `UnifiedPool.check` says what it found.

        Args:
            tokens: int64 or int32 tensor, token ids; negative ones are left out.
            physical: as many physical token numbers, as they are going to be used; those of the sink are left out.
            step: if given, ids that were bound after it began are wrong too.
            ranks: as for `translate`.

        Raises:
            ValueError: the pool has no guard; there are not as many of either, or they are on different devices.
        """
        guard = self._pool._guard
        if guard is None:
            raise ValueError("this pool has no guard: make it with guard=True")
        self._pool._verify(guard, self._table, tokens, physical, ranks, step)

    def __repr__(self) -> str:
        table = self._table
        return f"SubPool({self.name!r}, bound={table.bound}, holes={table.holes.size}, pending={table.pending.size})"
