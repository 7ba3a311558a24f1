"""Pages that become zeros and table entries that are rewritten, in one launch: what numpy makes of the same lists.

The allocations around the buffer and around the table are compared as a whole, so that neighbours are seen to stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
import torch
from places import OnTheDevice
from test_move_pages import OFFSETS, SIZES, Memory, memory
from torch import Tensor

from poolproof.kernels import refresh_pages
from poolproof.kernels.layout import KernelArgumentError
from poolproof.kernels.refresh_pages import UPDATES, RefreshPages, refresh_pages_reference

TOP = 2**31 - 1
Lists = Sequence[Sequence[int]]


@dataclass
class Work:
    """A buffer and a table, each a slice of an allocation."""

    memory: Memory
    entries: Tensor
    table: Tensor

    def state(self) -> tuple[np.ndarray, np.ndarray]:
        """Both allocations."""
        return self.memory.bytes(), self.entries.cpu().numpy().copy()


def work(size: int, device: torch.device, offset: int = 0, entries: int = 40, start: int = 3) -> Work:
    """A buffer of so many bytes, none of them 0, and a table that starts at an entry of a longer one."""
    values = np.random.default_rng(9).integers(1, TOP, start + entries + 2, np.int32)
    longer = torch.from_numpy(values).to(device)
    return Work(memory(size, device, offset), longer, longer[start : start + entries])


def refreshed(
    it: Work, sizes: Sequence[int], zeros: Lists, places: Sequence[int], values: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Both allocations afterwards."""
    data, entries = it.state()
    for size, pages in zip(sizes, zeros, strict=True):
        for page in pages:
            first = it.memory.start + page * size
            assert first + size <= it.memory.start + it.memory.buffer.numel()
            data[first : first + size] = 0
    first = (it.table.data_ptr() - it.entries.data_ptr()) // 4
    for place, value in zip(places, values, strict=True):
        assert 0 <= place < it.table.numel()
        entries[first + place] = value
    return data, entries


def packed(refresh: RefreshPages, zeros: Lists, places: Sequence[int], values: Sequence[int]) -> np.ndarray:
    """The lists as one row, without a number left over."""
    row = np.full(refresh.length([len(pages) for pages in zeros], len(places)), -77, np.int64)
    refresh.pack(
        row, [np.array(pages, np.int64) for pages in zeros], *(np.array(n, np.int64) for n in (places, values))
    )
    return row


def refresh_and_compare(
    it: Work,
    sizes: Sequence[int],
    zeros: Lists,
    places: Sequence[int] = (),
    values: Sequence[int] = (),
    refresh: RefreshPages | None = None,
) -> None:
    """Refresh; every byte of both allocations is as expected, and what was packed as it was."""
    expected = refreshed(it, sizes, zeros, places, values)
    refresh = refresh or RefreshPages(it.memory.buffer, sizes, it.table)
    row = torch.from_numpy(packed(refresh, zeros, places, values)).to(it.table.device)
    before = row.clone()
    refresh(row, [len(pages) for pages in zeros], len(places))
    found = it.state()
    assert np.array_equal(found[0], expected[0])
    assert np.array_equal(found[1], expected[1])
    assert torch.equal(row, before)


# ---------------------------------------------------------------------------------------------------------------- zeros


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("size", SIZES)
def test_pages_of_any_size_in_a_buffer_at_any_address(size: int, offset: int, device: torch.device) -> None:
    it = work(6 * size + min(size - 1, 3), device, offset)
    refresh_and_compare(it, [size], [[4, 0]])
    refresh_and_compare(it, [size], [[5]])


GROUPS = {
    "small": (16, 40, 1000),
    "odd": (1, 3, 7),
    "small and large": (3, 20_000),
    "large and small": (20_000, 1, 4100),
    "twice the same": (40, 40),
    "five": (2, 16, 4096, 1000, 4100),
    "nine": (8, 16, 24, 32, 40, 48, 56, 64, 72),
    "several blocks each": (4100, 8200, 12_296),
}


@pytest.mark.parametrize("offset", [0, 1, 4])
@pytest.mark.parametrize("kind", GROUPS)
def test_several_sizes_and_entries_together(kind: str, offset: int, device: torch.device) -> None:
    """Of the first size page 1 and the last one, of the next ones more."""
    sizes = GROUPS[kind]
    room = 4 * max(sizes) + 3
    zeros = [[1, room // size - 1, 0, *range(2, 2 + k)][: 1 + k % 3] for k, size in enumerate(sizes)]
    refresh_and_compare(work(room, device, offset), sizes, zeros, [0, 39, 7, 8], [5, 0, TOP, 1])


@pytest.mark.parametrize("updates", [0, 2])
@pytest.mark.parametrize("counts", [*product((0, 1, 3), repeat=3)], ids=str)
def test_sizes_without_pages_among_others(counts: tuple[int, ...], updates: int, device: torch.device) -> None:
    """Of three sizes each has no page, one or several; with and without entries."""
    it = work(6 * 4100, device)
    zeros = [[5, 0, 2][:count] if k == 1 else [count, 40, 9][:count] for k, count in enumerate(counts)]
    refresh_and_compare(it, [40, 4100, 16], zeros, [11, 3][:updates], [7, 8][:updates])


def test_pages_of_two_sizes_that_share_bytes(device: torch.device) -> None:
    refresh_and_compare(work(4 * 4096, device), [4096, 40], [[1, 3], [102, 103, 204, 205, 0]])


def test_a_page_that_is_listed_twice(device: torch.device) -> None:
    refresh_and_compare(work(5000, device), [1000, 40], [[2, 4, 2], [0, 0]])


def test_many_pages(device: torch.device) -> None:
    order = np.random.default_rng(1).permutation(200).tolist()
    refresh_and_compare(work(200 * 3 + 1, device), [3, 1], [order[:70], order[:50]])


# -------------------------------------------------------------------------------------------------------------- entries


@pytest.mark.parametrize("start", [0, 1, 2, 4])
@pytest.mark.parametrize("updates", [1, 2, UPDATES - 1, UPDATES, UPDATES + 1, 3 * UPDATES + 7])
def test_any_number_of_entries(updates: int, start: int, device: torch.device) -> None:
    """In any order, of a table that starts anywhere; entries that are not named stay."""
    rng = np.random.default_rng(updates)
    it = work(100, device, entries=4 * UPDATES, start=start)
    places = rng.permutation(4 * UPDATES)[:updates].tolist()
    refresh_and_compare(it, [10], [[]], places, rng.integers(0, TOP, updates).tolist())
    refresh_and_compare(it, [10], [[9, 3]], places[::-1], rng.integers(0, TOP, updates).tolist())


def test_every_entry(device: torch.device) -> None:
    it = work(100, device, entries=700)
    refresh_and_compare(it, [10], [[]], range(700), range(700, 0, -1))


def test_numbers_of_all_sizes(device: torch.device) -> None:
    refresh_and_compare(work(100, device), [10], [[]], [0, 39, 5, 6, 7, 8], [0, 1, TOP, -1, -(2**31), 2**30])


def test_a_place_may_be_named_twice_with_one_value(device: torch.device) -> None:
    """Side by side and far apart, for different programs too."""
    it = work(100, device, entries=2 * UPDATES)
    places = [*range(UPDATES), 3, 3, *range(UPDATES)]
    refresh_and_compare(it, [10], [[1]], places, [place + 1000 for place in places])


def test_a_table_without_entries(device: torch.device) -> None:
    refresh_and_compare(work(100, device, entries=0), [10, 7], [[3], [13]])


# ---------------------------------------------------------------------------------------------------- what is done when


def test_nothing_is_no_work(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is launched, in torch nothing is done."""
    it = work(100, device)
    refresh, before = RefreshPages(it.memory.buffer, [10, 3], it.table), it.state()
    monkeypatch.setattr(refresh.prepared, "launch", None)
    monkeypatch.setattr(refresh_pages, "refresh_pages_reference", None)
    row = torch.from_numpy(packed(refresh, [[], []], [], [])).to(device)
    assert row.tolist() == [0, 0, 0, 0]
    refresh(row, [0, 0], 0)
    assert all(np.array_equal(a, b) for a, b in zip(it.state(), before, strict=True))
    with pytest.raises(TypeError, match="not callable"):
        refresh(torch.zeros(6, dtype=torch.int64, device=device), [0, 0], 1)


def test_a_row_that_is_too_short_or_of_another_kind_is_refused(device: torch.device) -> None:
    it = work(100, device)
    refresh, before = RefreshPages(it.memory.buffer, [10, 3], it.table), it.state()
    for row in (torch.zeros(5, dtype=torch.int64), torch.zeros(6, dtype=torch.int32)):
        with pytest.raises(ValueError, match=f"^{len(row)} numbers of {row.dtype} for 0 pages and 1 entries, which ta"):
            refresh(row.to(device), [0, 0], 1)
    assert all(np.array_equal(a, b) for a, b in zip(it.state(), before, strict=True))


def test_one_binding_serves_many_calls(device: torch.device) -> None:
    it = work(4 * 4100 + 3, device, 4)
    refresh = RefreshPages(it.memory.buffer, [4100, 40], it.table)
    for zeros, places in (
        ([[0], []], []),
        ([[], [300, 7]], [1, 2]),
        ([[], []], [39]),
        ([[3], [200]], []),
        ([[], []], []),
    ):
        refresh_and_compare(it, [4100, 40], zeros, places, [place + 5 for place in places], refresh)


def test_a_part_of_a_longer_row(device: torch.device) -> None:
    """What is before and behind in the staging memory is not looked at."""
    it = work(5000, device)
    refresh = RefreshPages(it.memory.buffer, [1000, 40], it.table)
    expected = refreshed(it, [1000, 40], [[3], [0, 24]], [5, 39], [1, 2])
    row = packed(refresh, [[3], [0, 24]], [5, 39], [1, 2])
    staging = torch.full((len(row) + 9,), 2**62, dtype=torch.int64, device=device)
    for start in (0, 1, 3):
        it.memory.whole.copy_(memory(5000, device).whole)
        staging.fill_(2**62)[start : start + len(row)] = torch.from_numpy(row).to(device)
        refresh(staging[start:], [1, 2], 2)
        assert all(np.array_equal(a, b) for a, b in zip(it.state(), expected, strict=True))


def test_the_reference_is_given_all(device: torch.device) -> None:
    it = work(5000, device, 1)
    refresh = RefreshPages(it.memory.buffer, [1000, 7], it.table)
    lists = [[4, 0], [713]], [5, 39, 5], [1, TOP, 1]
    expected = refreshed(it, [1000, 7], *lists)
    row = torch.from_numpy(packed(refresh, *lists)).to(device)
    refresh_pages_reference(it.memory.buffer, [1000, 7], it.table, row, [2, 1], 3)
    assert all(np.array_equal(a, b) for a, b in zip(it.state(), expected, strict=True))


# ----------------------------------------------------------------------------------------------------------- the layout


def test_how_it_is_packed() -> None:
    """The first program of each size, its first page's place among the pages, the pages, the places, their values."""
    it = work(40_000, torch.device("cpu"))
    refresh = RefreshPages(it.memory.buffer, [8, 20_000, 4096, 16], it.table)
    assert refresh.blocks == (1, 5, 1, 1)
    assert refresh.head == 8
    assert refresh.length([2, 3, 0, 1], 2) == 8 + 6 + 4
    row = packed(refresh, [[70, 71], [1, 0, 1], [], [5]], [30, 31], [400, 401])
    starts = [0, 2, 2 + 3 * 5, 2 + 3 * 5]
    assert row.tolist() == [*starts, *(0, 2, 5, 5), *(70, 71, 1, 0, 1, 5), *(30, 31), *(400, 401)]


def test_no_more_is_packed_than_the_length() -> None:
    it = work(100, torch.device("cpu"))
    refresh = RefreshPages(it.memory.buffer, [10], it.table)
    row = np.full(12, -77, np.int64)
    refresh.pack(row, [np.array([4])], np.array([1, 2]), np.array([8, 9]))
    assert refresh.length([1], 2) == 7
    assert row.tolist() == [0, 0, 4, 1, 2, 8, 9, *[-77] * 5]


@pytest.mark.parametrize(
    ("sizes", "offset", "blocks"),
    [
        ([4096], 0, (1,)),
        ([4104], 0, (2,)),
        ([1], 0, (1,)),
        ([3, 20_000], 0, (1, 5)),
        ([8, 20_000], 1, (1, 5)),
        ([8192, 4100, 4], 4, (2, 2, 1)),
        ([2**15, 40], 0, (8, 1)),
    ],
    ids=str,
)
def test_programs_for_a_page_of_each_size(sizes: list[int], offset: int, blocks: tuple[int, ...]) -> None:
    it = work(2**16, torch.device("cpu"), offset)
    assert RefreshPages(it.memory.buffer, sizes, it.table).blocks == blocks


# ------------------------------------------------------------------------------------------------------------- refusals


def test_more_than_goes_into_a_launch_is_refused(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    it = work(4 * 4100, device, entries=2 * UPDATES)
    monkeypatch.setattr(refresh_pages, "MOST_PROGRAMS", 5)
    refresh, before = RefreshPages(it.memory.buffer, [4100, 40], it.table), it.state()
    for zeros, places in (([[0, 1], [4, 9]], []), ([[0, 1], [4]], [7]), ([[0], [4, 5]], range(UPDATES + 1))):
        row = torch.from_numpy(packed(refresh, zeros, places, places)).to(device)
        with pytest.raises(ValueError, match=f"^{sum(map(len, zeros))} pages to zero and .*; a launch has 5"):
            refresh(row, [len(pages) for pages in zeros], len(places))
    assert all(np.array_equal(a, b) for a, b in zip(it.state(), before, strict=True))
    refresh_and_compare(it, [4100, 40], [[0, 1], [4]], refresh=refresh)
    refresh_and_compare(it, [4100, 40], [[0], [4]], range(UPDATES + 1), range(UPDATES + 1), refresh)


def test_a_count_for_every_size(device: torch.device) -> None:
    it = work(100, device)
    refresh, before = RefreshPages(it.memory.buffer, [10, 3], it.table), it.state()
    with pytest.raises(ValueError, match="zip"):
        refresh(torch.zeros(9, dtype=torch.int64, device=device), [1], 0)
    assert all(np.array_equal(a, b) for a, b in zip(it.state(), before, strict=True))


BUFFER, TABLE = torch.zeros(100, dtype=torch.uint8), torch.zeros(8, dtype=torch.int32)
BAD = [
    (BUFFER, [10], TABLE.long(), "a table is one contiguous row of int32 on cpu, not torch.int64 (8,) on cpu"),
    (BUFFER, [10], TABLE.view(2, 4), "a table is one contiguous row of int32 on cpu, not torch.int32 (2, 4) on cpu"),
    (BUFFER, [10], TABLE[::2], "a table is one contiguous row of int32 on cpu, not torch.int32 (4,) on cpu"),
    (BUFFER, [10], TABLE.to("meta"), "a table is one contiguous row of int32 on cpu, not torch.int32 (8,) on meta"),
    (BUFFER.to("meta"), [10], TABLE, "a table is one contiguous row of int32 on meta, not torch.int32 (8,) on cpu"),
    (BUFFER.to(torch.int8), [10], TABLE, "a buffer is one contiguous row of torch.uint8, not torch.int8 of (100,)"),
    (BUFFER[::2], [10], TABLE, "a buffer is one contiguous row of torch.uint8, not torch.uint8 of (50,)"),
    (BUFFER, [10, 101], TABLE, "pages of 101 bytes in a buffer of 100: make them 1 to that"),
    (BUFFER, [10, 0], TABLE, "pages of 0 bytes in a buffer of 100: make them 1 to that"),
    (BUFFER, [10, 5.0], TABLE, "pages of 5.0 bytes in a buffer of 100: make them 1 to that"),
]


@pytest.mark.parametrize(("buffer", "sizes", "table", "text"), BAD, ids=range(len(BAD)))
def test_what_does_not_fit_is_refused(buffer: Tensor, sizes: list[int], table: Tensor, text: str) -> None:
    with pytest.raises(KernelArgumentError) as refusal:
        RefreshPages(buffer, sizes, table)
    assert str(refusal.value) == text


def test_meta_buffers_are_left_alone() -> None:
    refresh = RefreshPages(BUFFER.to("meta"), [10, 7], TABLE.to("meta"))
    refresh(torch.zeros(7, dtype=torch.int64, device="meta"), [1, 0], 1)
    assert refresh.blocks == (1, 1)
    assert refresh.length([1, 0], 1) == 7


# -------------------------------------------------------------------------------------------------------- on the device


class TestOnTheDevice(OnTheDevice):
    """What only a CUDA device can tell."""

    def test_nothing_waits_and_nothing_is_allocated(self) -> None:
        it = work(4 * 4100, self.device)
        lists = [[3, 1], [0]], [5, 39], [1, 2]
        refresh, expected = RefreshPages(it.memory.buffer, [4100, 40], it.table), refreshed(it, [4100, 40], *lists)
        row = torch.from_numpy(packed(refresh, *lists)).to(self.device)
        torch.cuda.set_sync_debug_mode("error")
        try:
            refresh(row, [2, 1], 2)
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.max_memory_allocated()
            refresh(row, [2, 1], 2)
            assert torch.cuda.max_memory_allocated() == before
        finally:
            torch.cuda.set_sync_debug_mode("default")
        assert all(np.array_equal(a, b) for a, b in zip(it.state(), expected, strict=True))

    def test_graphs_replay_with_other_pages(self) -> None:
        """Captured once; replayed with other pages, places and values, as many of each."""
        it = work(9 * 4100, self.device)
        refresh = RefreshPages(it.memory.buffer, [4100, 40], it.table)
        first = packed(refresh, [[0, 1], [600]], [0, 1], [2, 3])
        row = torch.from_numpy(first).to(self.device)
        refresh(row, [2, 1], 2)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            refresh(row, [2, 1], 2)
        for lists in (([[8, 3], [111]], [5, 39], [1, 2]), ([[5, 4], [700]], [38, 0], [TOP, 0])):
            expected = refreshed(it, [4100, 40], *lists)
            row.copy_(torch.from_numpy(packed(refresh, *lists)))
            graph.replay()
            assert all(np.array_equal(a, b) for a, b in zip(it.state(), expected, strict=True))

    def test_a_million_pages_and_entries(self) -> None:
        """More programs than a second or third grid axis could have."""
        buffer = torch.randint(1, 256, (2_000_000 * 24,), dtype=torch.uint8, device=self.device)
        table = torch.full((1_500_000,), 7, dtype=torch.int32, device=self.device)
        rng = np.random.default_rng(2)
        zeros = [rng.permutation(2_000_000)[:1_000_000], rng.permutation(3_000_000)[:100_000]]
        places = rng.permutation(1_500_000)[:1_000_000]
        values = rng.integers(0, TOP, 1_000_000)
        expected, entries = buffer.cpu().numpy(), table.cpu().numpy()
        expected.reshape(-1, 24)[zeros[0]] = 0
        expected.reshape(-1, 16)[zeros[1]] = 0
        entries[places] = values
        refresh = RefreshPages(buffer, [24, 16], table)
        row = np.empty(refresh.length([1_000_000, 100_000], 1_000_000), np.int64)
        refresh.pack(row, zeros, places, values)
        refresh(torch.from_numpy(row).to(self.device), [1_000_000, 100_000], 1_000_000)
        assert np.array_equal(buffer.cpu().numpy(), expected)
        assert np.array_equal(table.cpu().numpy(), entries)

    @pytest.mark.parametrize(
        ("sizes", "offset"),
        [([4096, 2**20, 40], 0), ([4100, 1001], 1), ([1, 2**20 + 8], 0), ([2**31 + 8008, 4096], 0), ([2**31 + 1], 1)],
        ids=str,
    )
    def test_pages_beyond_2_to_the_31_bytes(self, sizes: list[int], offset: int) -> None:
        """The last page of each size, and those about 2**31 and 2**32; pages of more than 2**31 bytes too."""
        buffer = torch.full((5 * 2**30 + 3 + offset,), 7, dtype=torch.uint8, device=self.device)[offset:]
        table = torch.full((2**21 + 5,), 7, dtype=torch.int32, device=self.device)
        spans, zeros = [], []
        for size in sizes:
            last = buffer.numel() // size - 1
            zeros.append(sorted({last, *(n // size for n in (2**31, 2**32, 2**31 + 3 * size) if n // size <= last)}))
            spans += [(page * size, (page + 1) * size) for page in zeros[-1]]
        places, values = [2**21 + 4, 2**20, 0, 2**21], [1, 2, TOP, 0]
        refresh = RefreshPages(buffer, sizes, table)
        row = torch.from_numpy(packed(refresh, zeros, places, values)).to(self.device)
        refresh(row, [len(pages) for pages in zeros], len(places))
        end = count = 0
        for first, until in sorted(spans):
            assert not buffer[first:until].any()
            count += max(until - max(first, end), 0)
            end = max(end, until)
        assert int((buffer == 7).sum()) == buffer.numel() - count
        assert table[places].tolist() == values
        assert int((table == 7).sum()) == table.numel() - len(places)
