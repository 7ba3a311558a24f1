"""Pages of one buffer that are copied into holes of it: what numpy's slices give, byte for byte.

Whole allocations are compared, so that bytes before, behind and between the pages are seen to stay as they were.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from places import OnTheDevice
from torch import Tensor

from poolproof.kernels import interpreter, move_pages
from poolproof.kernels.layout import KernelArgumentError
from poolproof.kernels.move_pages import MovePages, move_pages_reference
from poolproof.kernels.units import UNITS, check_buffer, in_units, unit_of, vector_of

SIZES = [1, 2, 3, 7, 16, 40, 1000, 4096, 4100, 20_000]
OFFSETS = [0, 1, 2, 4, 8]
SPARE = 5
"""Bytes of every allocation behind the buffer."""


@dataclass
class Memory:
    """An allocation of bytes, none of them 0, and a buffer that is a slice of it."""

    whole: Tensor
    buffer: Tensor

    @property
    def start(self) -> int:
        """Where the buffer starts in the allocation."""
        return self.buffer.data_ptr() - self.whole.data_ptr()

    def bytes(self) -> np.ndarray:
        """All of the allocation."""
        return self.whole.cpu().numpy().copy()


def memory(size: int, device: torch.device, offset: int = 0, seed: int = 0) -> Memory:
    """A buffer of so many bytes at an offset into an allocation."""
    values = np.random.default_rng(seed).integers(1, 256, offset + size + SPARE, np.uint8)
    whole = torch.empty(len(values), dtype=torch.uint8, device=device).copy_(torch.from_numpy(values))
    assert whole.data_ptr() % 16 == 0
    return Memory(whole, whole[offset : offset + size])


def plain(pages: object) -> list[int]:
    """Pages of any form as a list."""
    return [int(n) for n in np.atleast_1d(np.asarray(pages.tolist() if isinstance(pages, Tensor) else pages))]


def moved(it: Memory, page_bytes: int, sources: list[int], holes: list[int]) -> np.ndarray:
    """The allocation afterwards; pages that the buffer does not have are left out."""
    before, pages = it.bytes(), it.buffer.numel() // page_bytes
    after = before.copy()
    for source, hole in zip(sources, holes, strict=True):
        if 0 <= source < pages and 0 <= hole < pages:
            a, b = (it.start + page * page_bytes for page in (source, hole))
            after[b : b + page_bytes] = before[a : a + page_bytes]
    return after


def move_and_compare(
    it: Memory, page_bytes: int, sources: object, holes: object, move: Callable[..., None] | None = None
) -> None:
    """Move; every byte of the allocation is as expected."""
    expected = moved(it, page_bytes, plain(sources), plain(holes))
    (move or MovePages(it.buffer, page_bytes))(sources, holes)
    assert np.array_equal(it.bytes(), expected)


# ----------------------------------------------------------------------------------------------------- sizes and places


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("size", SIZES)
def test_pages_of_any_size_in_a_buffer_at_any_address(size: int, offset: int, device: torch.device) -> None:
    it = memory(6 * size + min(size - 1, 3), device, offset)
    move_and_compare(it, size, [4, 0], [1, 5])
    move_and_compare(it, size, 5, 3)


@pytest.mark.parametrize("rest", [0, 1, 7, 8, 39])
def test_a_rest_behind_the_last_page_is_left_alone(rest: int, device: torch.device) -> None:
    it = memory(3 * 40 + rest, device, seed=rest)
    assert MovePages(it.buffer, 40).pages == 3
    move_and_compare(it, 40, [0], [2])
    move_and_compare(it, 40, [2], [1])


@pytest.mark.parametrize(("size", "offset"), [(1, 0), (3, 1), (16, 8), (4100, 0)])
def test_one_page_of_two(size: int, offset: int, device: torch.device) -> None:
    it = memory(2 * size, device, offset)
    move_and_compare(it, size, 1, 0)
    assert torch.equal(it.buffer[:size], it.buffer[size:])


def test_a_source_of_several_holes(device: torch.device) -> None:
    it = memory(1000 * 6, device)
    move_and_compare(it, 1000, [3, 3, 0, 3], [1, 4, 2, 5])


@pytest.mark.parametrize("size", [3, 16])
def test_many_pages(size: int, device: torch.device) -> None:
    """Half of the pages go into the other half, in any order."""
    order = np.random.default_rng(1).permutation(200)
    move_and_compare(memory(200 * size + size - 1, device), size, order[:100], order[100:])


def test_one_binding_serves_many_calls(device: torch.device) -> None:
    it = memory(7 * 1000 + 1, device, 8)
    move = MovePages(it.buffer, 1000)
    for sources, holes in ((0, 1), ([2, 3, 4], [6, 5, 0]), ([], []), (6, 2), ([1], [3]), ([0, 1], [3, 4])):
        move_and_compare(it, 1000, sources, holes, move)


def test_two_sizes_of_one_buffer(device: torch.device) -> None:
    it = memory(4100 * 4, device)
    for size, sources, holes in ((4100, [0], [2]), (40, [1, 100], [300, 409]), (4100, [3], [1])):
        move_and_compare(it, size, sources, holes)


# -------------------------------------------------------------------------------------------------------- pages, listed

FORMS = [
    (4, 1),
    (np.int32(4), np.uint8(1)),
    ([4], torch.tensor(1)),
    (torch.tensor([4, 0], dtype=torch.int32), np.array([1, 5], np.uint8)),
    (range(3), (3, 5, 4)),
    (torch.arange(6)[::3], np.arange(6)[5:3:-1]),
    (np.array([0, 2], ">i4"), [np.int64(3), 5]),
    ([torch.tensor(2), torch.tensor(2)], (0, 1)),
]


@pytest.mark.parametrize(("sources", "holes"), FORMS, ids=repr)
def test_pages_in_any_form(sources: object, holes: object, device: torch.device) -> None:
    """From the host and, tensors, from the device; a list of either beside a list of the other too."""
    it = memory(6 * 40 + 3, device)
    move = MovePages(it.buffer, 40)
    move_and_compare(it, 40, sources, holes, move)
    on = [pages.to(device) if isinstance(pages, Tensor) else pages for pages in (sources, holes)]
    for given in (on, [torch.tensor(plain(sources), device=device), holes]):
        it.whole.copy_(memory(6 * 40 + 3, device, seed=2).whole)
        move_and_compare(it, 40, *given, move)


@pytest.mark.parametrize("empty", [[], (), range(0), np.array([]), torch.tensor([], dtype=torch.int64)], ids=repr)
def test_no_pages_is_no_work(empty: object, device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is launched, in torch nothing is done."""
    it = memory(6 * 40, device)
    move, before = MovePages(it.buffer, 40), it.bytes()
    monkeypatch.setattr(move.prepared, "launch", None)
    monkeypatch.setattr(move_pages, "move_pages_reference", None)
    move(empty, empty)
    move(empty, empty.to(device) if isinstance(empty, Tensor) else empty)
    assert np.array_equal(it.bytes(), before)
    with pytest.raises(TypeError, match="not callable"):
        move(0, 1)


PADDED = {
    "padding": ([-1, 4, 0, -1, 2, -1], [-1, 1, 3, -1, 5, -1]),
    "either": ([-1, 4, 0, 2], [1, -1, 3, 5]),
    "beyond": ([6, 4, 2, 0], [1, 6, 7, 5]),
    "far beyond": ([2**31, 4, 2**40, -(2**63), 2**63 - 1, 0, 2**32], [1, 2**32 + 3, 3, 5, 3, 2, 3]),
    "all": ([-1] * 9, [-1] * 9),
}


def unseen(move: MovePages, sources: Tensor, holes: Tensor) -> None:
    """The copies of lists that are not looked at: on a device by a call, otherwise by what a call comes to."""
    if sources.device.type == "cuda":
        move(sources, holes)
    elif interpreter.is_on():
        move.prepared.launch(move._blocks * len(sources), sources, holes)
    else:
        move_pages_reference(move._rows, sources, holes)


@pytest.mark.parametrize("size", [40, 4100])
@pytest.mark.parametrize("kind", PADDED)
def test_lists_on_the_device_may_be_padded(kind: str, size: int, device: torch.device) -> None:
    """What the buffer does not have is left out; the rest at its end is no page."""
    it = memory(6 * size + 39, device, 4)
    sources, holes = (torch.tensor(pages, device=device) for pages in PADDED[kind])
    move = MovePages(it.buffer, size)
    move_and_compare(it, size, sources, holes, lambda *lists: unseen(move, *lists))
    assert [sources.tolist(), holes.tolist()] == [*PADDED[kind]]


def test_the_reference_takes_numbers_and_lists(device: torch.device) -> None:
    it = memory(6 * 40, device)
    rows = it.buffer.view(6, 40)
    for sources, holes in ((4, 1), (-1, 2), (2, 6), (torch.tensor([0, 6, 4]), torch.tensor([2, 5, -1]))):
        move_and_compare(it, 40, sources, holes, lambda *pages: move_pages_reference(rows, *pages))


# ------------------------------------------------------------------------------------------------------------- refusals

REFUSED = [
    (1.0, 2, TypeError, "the source pages must be integers, not float64"),
    (1, True, TypeError, "the target pages must be integers, not bool"),
    ([1, 2], [3.0, 4.0], TypeError, "the target pages must be integers, not float64"),
    (None, 1, TypeError, "the source pages must be integers, not object"),
    ([[1]], [2], ValueError, "the source pages must have no or one axis, not the shape (1, 1)"),
    ([1, 2], [3], ValueError, "2 source pages and 1 target pages: give as many of either"),
    ([], 3, ValueError, "0 source pages and 1 target pages: give as many of either"),
    (6, 0, ValueError, "the source pages are 0 to 5, not 6; drop padding before the call"),
    (0, 6, ValueError, "the target pages are 0 to 5, not 6; drop padding before the call"),
    ([0, -1], [1, -1], ValueError, "the source pages are 0 to 5, not -1; drop padding before the call"),
    ([0, 1], [2, -1], ValueError, "the target pages are 0 to 5, not -1; drop padding before the call"),
    (torch.tensor([0, -1]), torch.tensor([1, 2]), ValueError, "the source pages are 0 to 5, not -1; drop padding"),
    ([0, 2**70], [1, 3], ValueError, "the source pages are 0 to 5, not 1180591620717411303424; drop padding"),
    ([0, 1], [2, 2], ValueError, "target page 2 is given more than once: give each target once"),
    (np.array([4, 4, 4]), np.array([5, 1, 5]), ValueError, "target page 5 is given more than once"),
    (torch.tensor([0, 1]), torch.tensor([3, 3]), ValueError, "target page 3 is given more than once"),
    (3, 3, ValueError, "page 3 is a source and a target: copy in two calls, each target no source of its call"),
    ([3], np.array(3), ValueError, "page 3 is a source and a target: copy in two calls"),
    ([0, 1], [1, 2], ValueError, "page 1 is a source and a target: copy in two calls"),
    ([0, 5, 4], [4, 1, 5], ValueError, "page 4 is a source and a target: copy in two calls"),
    (np.array([2, 1]), range(1, 3), ValueError, "page 1 is a source and a target: copy in two calls"),
    (torch.tensor([2, 1]), torch.tensor([0, 2]), ValueError, "page 2 is a source and a target: copy in two calls"),
]


@pytest.mark.parametrize(("sources", "holes", "error", "text"), REFUSED, ids=range(len(REFUSED)))
def test_what_cannot_be_moved_is_refused_and_nothing_changed(
    sources: object, holes: object, error: type[Exception], text: str, device: torch.device
) -> None:
    it = memory(6 * 40 + 3, device)
    before = it.bytes()
    with pytest.raises(error) as refusal:
        MovePages(it.buffer, 40)(sources, holes)
    assert str(refusal.value).startswith(text)
    assert np.array_equal(it.bytes(), before)


@pytest.mark.parametrize(("sources", "holes", "error", "text"), REFUSED, ids=range(len(REFUSED)))
def test_numbers_from_the_host_are_checked_for_meta_buffers_too(
    sources: object, holes: object, error: type[Exception], text: str
) -> None:
    with pytest.raises(error) as refusal:
        MovePages(torch.zeros(6 * 40 + 3, dtype=torch.uint8, device="meta"), 40)(sources, holes)
    assert str(refusal.value).startswith(text)


def test_lists_on_another_device_are_refused(device: torch.device) -> None:
    it = memory(6 * 40, device)
    before, move = it.bytes(), MovePages(it.buffer, 40)
    elsewhere = torch.zeros(1, dtype=torch.int64, device="meta")
    with pytest.raises(ValueError, match=f"the source pages are on meta, the pools on {it.buffer.device}"):
        move(elsewhere, 1)
    with pytest.raises(ValueError, match=f"the target pages are on meta, the pools on {it.buffer.device}"):
        move([1], elsewhere)
    assert np.array_equal(it.bytes(), before)


def test_more_pages_than_go_into_a_launch_are_refused(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    it = memory(6 * 4100, device)
    monkeypatch.setattr(move_pages, "MOST_PROGRAMS", 5)
    before, move = it.bytes(), MovePages(it.buffer, 4100)
    with pytest.raises(ValueError, match="3 pages in one call: at most 2 go into one launch"):
        move([0, 1, 2], [3, 4, 5])
    assert np.array_equal(it.bytes(), before)
    move_and_compare(it, 4100, [0, 1], [3, 4], move)


BUFFER = torch.zeros(100, dtype=torch.uint8)
BAD = [
    ([1, 2], 1, "a buffer is one contiguous row of torch.uint8, not list"),
    (BUFFER.to(torch.int8), 1, "a buffer is one contiguous row of torch.uint8, not torch.int8 of (100,)"),
    (BUFFER.view(10, 10), 1, "a buffer is one contiguous row of torch.uint8, not torch.uint8 of (10, 10)"),
    (BUFFER[::2], 1, "a buffer is one contiguous row of torch.uint8, not torch.uint8 of (50,)"),
    (BUFFER, 0, "pages of 0 bytes in a buffer of 100: make them 1 to that"),
    (BUFFER, -8, "pages of -8 bytes in a buffer of 100: make them 1 to that"),
    (BUFFER, 101, "pages of 101 bytes in a buffer of 100: make them 1 to that"),
    (BUFFER, 8.0, "pages of 8.0 bytes in a buffer of 100: make them 1 to that"),
    (BUFFER, True, "pages of True bytes in a buffer of 100: make them 1 to that"),
    (BUFFER[:0], 1, "pages of 1 bytes in a buffer of 0: make them 1 to that"),
]


@pytest.mark.parametrize(("buffer", "size", "text"), BAD, ids=range(len(BAD)))
def test_a_buffer_that_has_no_such_pages_is_refused(buffer: Tensor, size: int, text: str) -> None:
    with pytest.raises(KernelArgumentError) as refusal:
        MovePages(buffer, size)
    assert str(refusal.value) == text


@pytest.mark.parametrize("offset", [0, 3, 8])
def test_meta_buffers_move_nothing(offset: int) -> None:
    buffer = torch.zeros(120 + offset, dtype=torch.uint8, device="meta")[offset:]
    move = MovePages(buffer, 40)
    assert move.pages == 3
    move(0, 1)
    move([], [])
    with pytest.raises(ValueError, match="the target pages are 0 to 2, not 3"):
        move(0, 3)


# ---------------------------------------------------------------------------------------------------------------- units

WIDEST = [
    ((4096,), 0, 8, 2),
    ((4096,), 8, 8, 1),
    ((4096,), 4, 4, 1),
    ((4096,), 2, 2, 1),
    ((4096,), 1, 1, 1),
    ((40,), 0, 8, 1),
    ((40,), 16, 8, 1),
    ((4100,), 0, 4, 1),
    ((4098, 16), 0, 2, 1),
    ((16, 32, 4096), 48, 8, 2),
    ((16, 7), 0, 1, 1),
]


@pytest.mark.parametrize(("sizes", "offset", "unit", "vector"), WIDEST, ids=str)
def test_the_widest_units_that_fit(sizes: tuple[int, ...], offset: int, unit: int, vector: int) -> None:
    it = memory(9001, torch.device("cpu"), offset)
    check_buffer(it.buffer, sizes)
    assert (unit_of(it.buffer, sizes), vector_of(it.buffer, sizes)) == (unit, vector)
    row = in_units(it.buffer, unit)
    assert (row.dtype, row.numel(), row.data_ptr()) == (UNITS[unit], 9001 // unit, it.buffer.data_ptr())
    assert np.array_equal(row.numpy().view(np.uint8), it.buffer[: 9001 // unit * unit].numpy())


@pytest.mark.parametrize("shift", range(8))
def test_an_allocation_that_starts_anywhere(shift: int, device: torch.device) -> None:
    """The buffer starts at a multiple of 8 bytes, but so many bytes into memory that itself starts elsewhere."""
    if device.type == "cuda":
        pytest.skip("torch's own allocations start at a multiple of 512")
    memory_of_numpy = np.random.default_rng(0).integers(0, 256, 200, np.uint8)
    first = (shift - memory_of_numpy.ctypes.data) % 8
    whole = torch.from_numpy(memory_of_numpy[first : first + 150])
    it = Memory(whole, whole[-shift % 8 :][: 3 * 40 + 3])
    assert it.buffer.data_ptr() % 8 == 0
    move_and_compare(it, 40, [2], [0])


# -------------------------------------------------------------------------------------------------------- on the device


class TestOnTheDevice(OnTheDevice):
    """What only a CUDA device can tell."""

    def test_nothing_waits_for_the_device(self) -> None:
        """No call reads anything back, whatever form its pages have."""
        it = memory(9 * 1000, self.device)
        move = MovePages(it.buffer, 1000)
        wide = [torch.tensor(pages, device=self.device) for pages in ([0, 1, -1], [7, 8, -1])]
        narrow, one = [pages.to(torch.int32) for pages in wide], [pages[1] for pages in wide]
        expected = moved(it, 1000, [0, 1, 2, 3], [7, 8, 5, 6])
        torch.cuda.set_sync_debug_mode("error")
        try:
            for sources, holes in (wide, narrow, one, (wide[0][:2], [7, 8]), ([2, 3], np.array([5, 6])), (2, 5)):
                move(sources, holes)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        assert np.array_equal(it.bytes(), expected)

    def test_a_call_allocates_nothing(self) -> None:
        it = memory(9 * 1000, self.device)
        move = MovePages(it.buffer, 1000)
        sources, holes = (torch.tensor(pages, device=self.device) for pages in ([0, 1], [7, 8]))
        move(sources, holes)
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.max_memory_allocated()
        move(sources, holes)
        move(2, 5)
        assert torch.cuda.max_memory_allocated() == before

    def test_graphs_replay_with_other_pages(self) -> None:
        """Captured once; replayed with other pages, and padding, in the same lists."""
        it = memory(9 * 4100 + 7, self.device, 4)
        move = MovePages(it.buffer, 4100)
        sources, holes = (torch.full((3,), -1, device=self.device) for _ in range(2))
        move(sources, holes)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            move(sources, holes)
        for given in (([0, 8, 3], [1, 2, 4]), ([5, -1, 9], [0, 2, 3]), ([1, 2, 3], [8, 7, -1])):
            expected = moved(it, 4100, *given)
            sources.copy_(torch.tensor(given[0]))
            holes.copy_(torch.tensor(given[1]))
            graph.replay()
            assert np.array_equal(it.bytes(), expected)

    def test_a_million_pages(self) -> None:
        """More programs than a second or third grid axis could have."""
        buffer = torch.randint(0, 256, (2_000_000 * 24,), dtype=torch.uint8, device=self.device)
        order = torch.randperm(2_000_000, device=self.device)
        sources, holes = order[:1_000_000], order[1_000_000:]
        expected = buffer.cpu().numpy().reshape(-1, 24).copy()
        expected[holes.cpu().numpy()] = expected[sources.cpu().numpy()]
        MovePages(buffer, 24)(sources, holes)
        assert np.array_equal(buffer.cpu().numpy(), expected.reshape(-1))

    def move_far(self, buffer: Tensor, size: int, sources: list[int], holes: list[int], given: str) -> None:
        """Random pages in a buffer of zeros are moved to their holes, and no other byte is changed."""
        rows = buffer[: buffer.numel() // size * size].view(-1, size)
        values = torch.randint(1, 256, (len(sources), size), dtype=torch.uint8, device=self.device)
        for source, value in zip(sources, values, strict=True):
            rows[source] = value
        move = MovePages(buffer, size)
        if given == "lists":
            move(torch.tensor(sources, device=self.device), torch.tensor(holes, device=self.device))
        else:
            for source, hole in zip(sources, holes, strict=True):
                move(source, hole)
        for n in range(len(sources)):
            assert torch.equal(rows[sources[n]], values[n])
            assert torch.equal(rows[holes[n]], values[n])
        assert int(torch.count_nonzero(buffer)) == 2 * len(sources) * size

    @pytest.mark.parametrize("given", ["lists", "numbers"])
    @pytest.mark.parametrize(("size", "offset"), [(4096, 0), (4100, 0), (1001, 1), (2**20, 8), (1, 0)], ids=str)
    def test_pages_beyond_2_to_the_31_bytes(self, size: int, offset: int, given: str) -> None:
        """The first and the last pages, and those about 2**31 and 2**32, as numbers too where pages are bytes."""
        buffer = torch.zeros(5 * 2**30 + 3 + offset, dtype=torch.uint8, device=self.device)[offset:]
        pages, half, full = buffer.numel() // size, 2**31 // size, 2**32 // size
        sources = [0, half - 2, half + 2, full + 2, pages - 3]
        holes = [pages - 1, full - 1, half, 1, full + 1]
        self.move_far(buffer, size, sources, holes, given)

    @pytest.mark.parametrize("offset", [0, 1])
    def test_a_page_of_more_than_2_to_the_31_bytes(self, offset: int) -> None:
        """One in units of a byte, its blocks farther than 2**31 units into it, and one in wider units."""
        size = 2**31 + 8 * 1000 + offset
        buffer = torch.zeros(5 * 2**30 + offset, dtype=torch.uint8, device=self.device)[offset:]
        self.move_far(buffer, size, [0], [1], "lists")
        assert MovePages(buffer, size).pages == 2
