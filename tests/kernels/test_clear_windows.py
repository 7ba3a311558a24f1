"""Conv windows that become zeros, alone and beside others that are copied: what torch's indexing gives, byte for byte.

Whole buffers are compared, so that neighbours of what is written are seen to stay as they were.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from places import needs_cuda
from test_copy_windows import CASTS, CHECKPOINTS, KINDS, SLOTS, expect, laid_out, whole, windows
from torch import Tensor

from poolproof.kernels import interpreter, move_windows
from poolproof.kernels.clear_windows import ClearWindows, clear_windows, clear_windows_reference
from poolproof.kernels.copy_windows import copy_windows
from poolproof.kernels.layout import KernelArgumentError
from poolproof.kernels.move_windows import (
    CopyAndClearWindows,
    copy_and_clear_windows,
    copy_and_clear_windows_reference,
)
from poolproof.kernels.slots import Slots, device_slots, host_slots
from poolproof.page_views import CheckpointViews, StateViews, views
from poolproof.sub_pools import Checkpoints, KVPages, Resolved, StateSlots, resolve

INTS = {1: torch.uint8, 2: torch.int16, 4: torch.int32}
WHOLE = {1: np.uint8, 2: np.int16, 4: np.int32}
NARROW = [torch.bool, torch.uint8, torch.int8, torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e8m0fnu]
DTYPES = [*NARROW, torch.bfloat16, torch.float16, torch.int16, torch.float32, torch.int32, torch.complex32]
MIXED = [torch.bfloat16, torch.float8_e5m2, torch.float32, torch.int8]
TWO = [(2, 12, 4), (1, 5, 3)]
LAYOUTS = ["plain", "transposed", "slot-major", "sliced"]


def pool(
    shapes: list[tuple[int, ...]],
    dtypes: list[torch.dtype],
    device: torch.device,
    layout: str = "plain",
    slots: int = SLOTS,
) -> list[Tensor]:
    """Windows (layers, slots, channels, width) of random bits, none of whose elements is 0."""
    found = []
    for n, (layers, channels, width) in enumerate(shapes):
        dtype = dtypes[n % len(dtypes)]
        whole_numbers = INTS[dtype.itemsize]
        rng = np.random.default_rng(n)
        bits = rng.integers(1, torch.iinfo(whole_numbers).max, (layers, slots, channels, width))
        found.append(laid_out(torch.from_numpy(bits).to(whole_numbers).to(device), layout).view(dtype))
    return found


def numbers(slots: object) -> list[int]:
    """Slots of any form as a list."""
    return np.atleast_1d(np.array(slots.tolist() if isinstance(slots, Tensor) else slots)).astype(int).tolist()


def without(window: Tensor, slots: object, memory: np.ndarray) -> np.ndarray:
    """All bytes that a window lies among once some slots are cleared."""
    elements = memory.copy().view(WHOLE[window.element_size()])
    inside = torch.from_numpy(elements).as_strided(window.shape, window.stride(), window.storage_offset())
    for slot in numbers(slots):
        inside[:, slot].fill_(0)
    return elements.view(np.uint8)


def clear_and_compare(cleared: list[Tensor], slots: object) -> None:
    """Clear; all bytes are as expected."""
    expected = [without(window, slots, whole(window)) for window in cleared]
    clear_windows(cleared, slots)
    for n, window in enumerate(cleared):
        assert np.array_equal(whole(window), expected[n]), f"window {n}"


def move_and_compare(source: list[Tensor], target: list[Tensor], *slots: object) -> None:
    """Copy and clear by (sources, targets, clears); the targets' bytes are as expected, the sources' as they were."""
    copied, before = expect(source, target, numbers(slots[0]), numbers(slots[1])), [whole(a) for a in source]
    expected = [without(b, slots[2], memory) for b, memory in zip(target, copied, strict=True)]
    copy_and_clear_windows(source, target, *slots)
    for n, b in enumerate(target):
        assert np.array_equal(whole(b), expected[n]), f"window {n}"
    assert all(np.array_equal(whole(a), old) for a, old in zip(source, before, strict=True))


def same(tensors: list[Tensor], before: list[np.ndarray]) -> bool:
    """Are all bytes as they were?"""
    return all(np.array_equal(whole(tensor), old) for tensor, old in zip(tensors, before, strict=True))


# ------------------------------------------------------------------------------------------------------------- clearing


@pytest.mark.parametrize("kind", KINDS)
def test_any_number_of_windows_of_any_size_is_cleared(kind: str, device: torch.device) -> None:
    clear_and_compare(pool(KINDS[kind], MIXED, device), [3, 0])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_elements_of_any_kind_are_cleared(dtype: torch.dtype, device: torch.device) -> None:
    """All bits are zeros afterwards, those of formats without a zero too."""
    clear_and_compare(pool(TWO, [dtype], device), [1, 4])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.bfloat16, torch.float32], ids=str)
def test_any_strides_are_cleared(layout: str, dtype: torch.dtype, device: torch.device) -> None:
    clear_and_compare(pool([(2, 12, 4), (1, 7, 3), (1, 1, 1)], [dtype], device, layout), [2, 0])


FORMS = [
    4,
    np.int32(4),
    [1],
    (3, 0, 1),
    range(1, 4),
    np.array([2, 0], np.uint8),
    np.arange(5)[::-2],
    torch.tensor(3),
    torch.tensor([4, 0], dtype=torch.int32),
    torch.arange(5)[::3],
    [2, 2, 2],
    torch.tensor([1, 4, 1]),
    [],
    np.array([]),
    torch.tensor([], dtype=torch.int64),
]


@pytest.mark.parametrize("slots", FORMS, ids=repr)
def test_slots_to_clear_in_any_form(slots: object, device: torch.device) -> None:
    """A slot that is given several times is cleared like any other."""
    clear_and_compare(pool(TWO, MIXED, device), slots)
    clear_and_compare(pool(TWO, MIXED, device), slots.to(device) if isinstance(slots, Tensor) else slots)


def test_nothing_to_clear_is_no_work(device: torch.device) -> None:
    clear_windows([], [0, 1])
    nothing = pool([(2, 0, 3), (0, 4, 3), (2, 4, 0)], MIXED, device)
    clear_windows(nothing, 0)
    assert ClearWindows(nothing).launches == ()
    clear_windows(pool([(2, 4, 3)], MIXED, device, slots=0), [])


def test_one_binding_clears_again_and_again(device: torch.device) -> None:
    cleared = pool(KINDS["five"], MIXED, device)
    clear = ClearWindows(cleared)
    for slots in ([0, 2], 1, [], [4], [2, 3]):
        expected = [without(window, slots, whole(window)) for window in cleared]
        clear(slots)
        assert same(cleared, expected)


def test_four_tensors_take_one_launch() -> None:
    for count, launches in ((1, 1), (4, 1), (5, 2), (9, 3)):
        some = windows([(1, 5, 3)] * count, SLOTS, [torch.float32], torch.device("cpu"))
        assert len(ClearWindows(some).launches) == launches
        assert len(CopyAndClearWindows(some, [window.clone() for window in some]).launches) == launches


def test_the_references_take_numbers_and_lists() -> None:
    cpu = torch.device("cpu")
    for slots in (3, torch.tensor([0, 3, 3])):
        cleared = pool(KINDS["four"], MIXED, cpu, "sliced")
        expected = [without(window, slots, whole(window)) for window in cleared]
        clear_windows_reference(cleared, slots)
        assert same(cleared, expected)
    for sources, targets, clears in ((4, 1, 2), (torch.tensor([0, 0]), torch.tensor([3, 1]), torch.tensor([0]))):
        source = windows(KINDS["four"], SLOTS, CASTS, cpu)
        target = windows(KINDS["four"], CHECKPOINTS, CASTS[1:], cpu, seed=4)
        copied = expect(source, target, numbers(sources), numbers(targets))
        expected = [without(b, clears, memory) for b, memory in zip(target, copied, strict=True)]
        copy_and_clear_windows_reference(list(zip(source, target, strict=True)), sources, targets, clears)
        assert same(target, expected)


GOOD = torch.zeros((2, 4, 3, 5))


@pytest.mark.parametrize(
    ("refused", "text"),
    [
        ([GOOD, [1]], "window 1 is a list, not a torch tensor"),
        ([GOOD[0]], "window 0: the shape is (4, 3, 5); the axes are (layers, slots, channels, width)"),
        ([GOOD, GOOD.double()], "window 1: torch.float64; elements of windows have 1, 2 or 4 bytes"),
        ([GOOD.to(torch.complex64)], "window 0: torch.complex64; elements of windows have 1, 2 or 4 bytes"),
        ([GOOD, GOOD[:, :3].clone()], "windows have [3, 4] slots: windows of one pool have as many"),
        ([GOOD, GOOD.to("meta")], "windows are on "),
        ([GOOD.clone().requires_grad_()], "pools are plain strided tensors"),
        ([GOOD.to_sparse()], "pools are plain strided tensors"),
        ([GOOD, GOOD], "two tensors that are written share bytes"),
        ([GOOD[:1].expand(2, 4, 3, 5)], "a tensor of the shape (2, 4, 3, 5) and strides "),
    ],
)
def test_windows_that_cannot_be_cleared_are_refused(refused: list[Tensor], text: str) -> None:
    with pytest.raises(KernelArgumentError) as refusal:
        ClearWindows(refused)
    assert str(refusal.value).startswith(text)


@pytest.mark.parametrize(
    ("slots", "error", "text"),
    [
        (1.0, TypeError, "the slots to clear must be integers, not float64"),
        (True, TypeError, "the slots to clear must be integers, not bool"),
        ([[1]], ValueError, "the slots to clear must have no or one axis"),
        ([0, -1], ValueError, "the slots to clear are 0 to 4, not -1; drop padding before the call"),
        ([5, 0], ValueError, "the slots to clear are 0 to 4, not 5; drop padding before the call"),
        (torch.tensor([0, 7]), ValueError, "the slots to clear are 0 to 4, not 7; drop padding before the call"),
        (torch.zeros(1, device="meta"), ValueError, "the slots to clear are on meta, the pools on "),
    ],
)
def test_what_cannot_be_cleared_is_refused(
    slots: object, error: type[Exception], text: str, device: torch.device
) -> None:
    cleared = pool(KINDS["four"], MIXED, device)
    before = [whole(window) for window in cleared]
    with pytest.raises(error) as refusal:
        clear_windows(cleared, slots)
    assert str(refusal.value).startswith(text)
    assert same(cleared, before)


def test_meta_windows_are_checked_and_nothing_more() -> None:
    meta = [torch.zeros((2, 4, 3, 5), device="meta")]
    clear_windows(meta, [0, 1])
    copy_and_clear_windows(meta, meta, [0, 1], [2, 3], [])
    with pytest.raises(ValueError, match="the slots to clear are 0 to 3, not 4"):
        clear_windows(meta, 4)
    with pytest.raises(ValueError, match="the slots to clear are 0 to 3, not 4"):
        copy_and_clear_windows(meta, meta, [0, 1], [2, 3], 4)


# ------------------------------------------------------------------------------------------------- copying and clearing


@pytest.mark.parametrize("kind", KINDS)
def test_any_number_of_windows_of_any_size_is_moved(kind: str, device: torch.device) -> None:
    source = windows(KINDS[kind], CHECKPOINTS, [torch.bfloat16], device)
    target = windows(KINDS[kind], SLOTS, [torch.bfloat16], device, seed=50)
    move_and_compare(source, target, [3, 3], [1, 0], [4, 2])


@pytest.mark.parametrize("to", CASTS, ids=str)
@pytest.mark.parametrize("of", CASTS, ids=str)
def test_casts_beside_zeros(of: torch.dtype, to: torch.dtype, device: torch.device) -> None:
    shapes = [(2, 64, 4), (1, 5, 3)]
    source, target = windows(shapes, CHECKPOINTS, [of], device), windows(shapes, SLOTS, [to], device, seed=9)
    source[0][:, 3, 0] = float("nan")
    move_and_compare(source, target, [3, 0], [1, 3], [0, 4])


@pytest.mark.parametrize("to", LAYOUTS)
@pytest.mark.parametrize("of", LAYOUTS)
def test_any_strides_are_moved(of: str, to: str, device: torch.device) -> None:
    shapes = [(2, 12, 4), (1, 7, 3)]
    source = windows(shapes, CHECKPOINTS, [torch.bfloat16], device, layout=of)
    target = windows(shapes, SLOTS, [torch.float16, torch.bfloat16], device, layout=to, seed=3)
    move_and_compare(source, target, [3, 0], [1, 3], [2])


@pytest.mark.parametrize(
    ("sources", "targets", "clears"),
    [
        (3, 1, 0),
        (np.int32(3), [1], torch.tensor([4, 0])),
        ([3, 1], torch.tensor([1, 0]), np.array([2])),
        (torch.tensor([3, 0], dtype=torch.int32), np.array([1, 0], np.uint8), (2, 4, 2)),
        (range(3), (3, 0, 1), []),
        ([], [], [3, 0]),
        ((), np.array([]), 3),
        (2, 4, ()),
        (torch.tensor([], dtype=torch.int64), torch.tensor([], dtype=torch.int64), torch.tensor([4, 0])),
        (torch.arange(4)[::3], torch.arange(4)[1::2], torch.arange(5)[::2]),
        ([], [], []),
    ],
    ids=repr,
)
def test_slots_to_move_in_any_form(sources: object, targets: object, clears: object, device: torch.device) -> None:
    source, target = windows(TWO, CHECKPOINTS, CASTS, device), windows(TWO, SLOTS, CASTS[1:], device, seed=3)
    move_and_compare(source, target, sources, targets, clears)
    target = windows(TWO, SLOTS, CASTS[1:], device, seed=8)
    on = [slots.to(device) if isinstance(slots, Tensor) else slots for slots in (sources, targets, clears)]
    move_and_compare(source, target, *on)


def test_without_clears_it_is_a_copy(device: torch.device) -> None:
    source = windows(KINDS["five"], CHECKPOINTS, CASTS, device)
    copied, moved = (windows(KINDS["five"], SLOTS, CASTS[1:], device, seed=3) for _ in range(2))
    for sources, targets in (([0, 3], [4, 1]), (2, 2)):
        copy_windows(source, copied, sources, targets)
        CopyAndClearWindows(source, moved)(sources, targets)
        assert same(moved, [whole(window) for window in copied])


def test_one_binding_moves_again_and_again(device: torch.device) -> None:
    source = windows(KINDS["five"], CHECKPOINTS, CASTS, device)
    target = windows(KINDS["five"], SLOTS, CASTS, device, seed=3)
    move = CopyAndClearWindows(source, target)
    for sources, targets, clears in (([0], [0], [2]), ([1, 2], [3, 1], [4, 0]), ([], [], 1), (3, 2, [])):
        copied = expect(source, target, numbers(sources), numbers(targets))
        expected = [without(b, clears, memory) for b, memory in zip(target, copied, strict=True)]
        move(sources, targets, clears)
        assert same(target, expected)


def test_a_source_pool_without_slots(device: torch.device) -> None:
    source = windows(KINDS["four"], 0, CASTS, device)
    move_and_compare(source, windows(KINDS["four"], SLOTS, CASTS, device, seed=3), [], [], [3, 0])


def test_slots_change_places_within_a_pool(device: torch.device) -> None:
    """Sources, targets and clears of one pool, none of which is another."""
    of_one = windows(KINDS["one"], 6, CASTS, device)
    copied = expect(of_one, of_one, [0, 1], [3, 2])
    expected = [without(window, [5], memory) for window, memory in zip(of_one, copied, strict=True)]
    copy_and_clear_windows(of_one, of_one, [0, 1], [3, 2], [5])
    assert same(of_one, expected)


@pytest.mark.parametrize(
    ("slots", "error", "text"),
    [
        (([0, 1], [2], [3]), ValueError, "2 source slots and 1 target slots: give as many of either"),
        (([0, 1], [2, 2], [3]), ValueError, "target slot 2 is given more than once: give each target once"),
        (([0, 4], [1, 2], [3]), ValueError, "the source slots are 0 to 3, not 4"),
        (([0, 1], [2, 5], [3]), ValueError, "the target slots are 0 to 4, not 5"),
        (([0, 1], [2, 3], [-1]), ValueError, "the slots to clear are 0 to 4, not -1"),
        (([0, 1], [2, 3], 1.5), TypeError, "the slots to clear must be integers"),
        (([0, 1], [2, 3], [4, 3, 2]), ValueError, "slot 2 is both a target and to be cleared: do either"),
        ((0, 1, 1), ValueError, "slot 1 is both a target and to be cleared: do either"),
    ],
)
def test_what_cannot_be_moved_is_refused(
    slots: tuple[object, object, object], error: type[Exception], text: str, device: torch.device
) -> None:
    source = windows(KINDS["five"], CHECKPOINTS, CASTS, device)
    target = windows(KINDS["five"], SLOTS, CASTS, device, seed=3)
    before = [whole(window) for window in (*source, *target)]
    with pytest.raises(error) as refusal:
        copy_and_clear_windows(source, target, *slots)
    assert str(refusal.value).startswith(text)
    assert same([*source, *target], before)


def test_what_is_read_is_not_written(device: torch.device) -> None:
    """Within a pool, and between pools that are views of one buffer: what lies where decides, not the number."""
    of_one = windows(KINDS["one"], SLOTS, [torch.float32], device)
    before = [whole(window) for window in of_one]
    shifted = [[of_one[0][:, :4]], [of_one[0][:, 1:]]]
    for source, target, slots, slot in (
        (of_one, of_one, (2, 2, [0, 2]), "2 is both a target"),
        (of_one, of_one, ([0, 1], [1, 2], [4]), "1 lies over"),
        (of_one, of_one, ([0, 1], [3, 4], [2, 1]), "1, to be cleared, lies over"),
        (*shifted, ([0, 1], [2, 3], [0]), "0, to be cleared, lies over"),
    ):
        with pytest.raises(ValueError, match=f"slot {slot}"):
            copy_and_clear_windows(source, target, *slots)
    assert same(of_one, before)
    expected = without(shifted[1][0], [1], expect(*shifted, [0, 1], [2, 3])[0])
    copy_and_clear_windows(*shifted, [0, 1], [2, 3], [1])
    assert np.array_equal(whole(of_one[0]), expected)


@pytest.mark.parametrize("refused", [[GOOD.int()], [GOOD[0]], [], [GOOD[:, :, :2]]], ids=["int", "3 axes", "0", "2"])
def test_windows_that_cannot_be_copied_are_refused(refused: list[Tensor]) -> None:
    with pytest.raises(KernelArgumentError):
        CopyAndClearWindows(refused, [GOOD.clone()])


# ------------------------------------------------------------------------------------------------------- unified buffer


def declared(conv_dtype: str, layers: int = 3) -> tuple[Resolved, ...]:
    """Pages, checkpoints and states that share a buffer; windows of awkward shapes, more than one launch takes."""
    shapes = [(11, 3), (7, 1), (1, 3), (5, 2), (1, 1)]
    state = StateSlots(
        "state", layers=layers, conv_shapes=shapes, temporal_shape=(3, 5, 9), conv_dtype=conv_dtype,
        temporal_dtype="float32", grows="down",
    )  # fmt: skip
    pages = KVPages("full", layers=2, kv_heads=3, head_dim=5, dtype="bfloat16", page_size=4, grows="up")
    return resolve([pages, Checkpoints("checkpoint", grows="float"), state])


def buffer_of(size: int, device: torch.device) -> Tensor:
    """Bytes, none of them 0."""
    return torch.from_numpy(np.random.default_rng(3).integers(1, 256, size, np.uint8)).to(device)


def conv_of(buffer: Tensor, resolved: Resolved) -> tuple[Tensor, ...]:
    """The conv windows of a sub-pool."""
    seen = views(buffer, resolved)
    assert isinstance(seen, StateViews | CheckpointViews)
    return seen.conv


@pytest.mark.parametrize("conv_dtype", ["bfloat16", "float32", "float8_e4m3fn"])
def test_views_of_a_unified_buffer_are_cleared(conv_dtype: str, device: torch.device) -> None:
    _, _, state = declared(conv_dtype)
    buffer = buffer_of(6 * state.page_bytes + 4, device)
    after = buffer.clone()
    for window in conv_of(after, state):
        window.view(INTS[window.element_size()])[:, [5, 2]] = 0
    clear_windows(conv_of(buffer, state), [5, 2])
    assert torch.equal(buffer, after)
    assert int((buffer == 0).sum()) == 2 * 3 * (33 + 7 + 3 + 10 + 1) * torch.empty(0, dtype=window.dtype).itemsize


def test_views_of_a_unified_buffer_are_moved(device: torch.device) -> None:
    """Checkpoints lie low, states high: cached windows go to some states, others become zeros."""
    _, saved, state = declared("bfloat16")
    buffer = buffer_of(8 * state.page_bytes, device)
    after = buffer.clone()
    for a, b in zip(conv_of(after, saved), conv_of(after, state), strict=True):
        b[:, [7, 4]] = a[:, [0, 2]].clone()
        b[:, [6, 5]] = 0
    copy_and_clear_windows(conv_of(buffer, saved), conv_of(buffer, state), [0, 2], [7, 4], [6, 5])
    assert torch.equal(buffer, after)
    last = buffer.numel() // saved.page_bytes - 1
    with pytest.raises(ValueError, match="lies over a slot that the same call reads"):
        copy_and_clear_windows(conv_of(buffer, saved), conv_of(buffer, state), [last], [4], [7])
    assert torch.equal(buffer, after)


def test_a_stage_without_layers(device: torch.device) -> None:
    _, saved, state = declared("bfloat16", layers=0)
    buffer = buffer_of(4 * state.page_bytes, device)
    after = buffer.clone()
    clear_windows(conv_of(buffer, state), [0, 1])
    copy_and_clear_windows(conv_of(buffer, saved), conv_of(buffer, state), [0], [1], [2])
    assert torch.equal(buffer, after)


# -------------------------------------------------------------------------------------------------- lists on the device


@pytest.fixture
def unseen(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> torch.device:
    """A device whose tensors of slots are not looked at: a CUDA device, or the CPU with kernels interpreted."""
    if device.type == "cpu" and not interpreter.is_on():
        pytest.skip("torch takes checked numbers only")

    def taken(slots: Slots, on: torch.device, count: int, what: str) -> np.ndarray | Tensor:
        return device_slots(slots, on, what) if isinstance(slots, Tensor) else host_slots(slots, count, what)

    monkeypatch.setattr(move_windows, "numbers_of", taken)
    return device


@pytest.mark.parametrize("layout", ["plain", "sliced"])
def test_slots_to_clear_that_the_pool_has_not_are_left_out(layout: str, unseen: torch.device) -> None:
    cleared = pool(TWO, MIXED, unseen, layout)
    expected = [without(window, [4, 1], whole(window)) for window in cleared]
    for slots in ([4, -1, 1, 9, 4], [-1, -1, -1], [2**40, 4, -(2**40)]):
        clear_windows(cleared, torch.tensor(slots, device=unseen))
        assert same(cleared, expected)


@pytest.mark.parametrize("layout", ["plain", "sliced"])
def test_moves_of_slots_that_the_pools_have_not_are_left_out(layout: str, unseen: torch.device) -> None:
    """Nothing is cleared in place of a copy that is left out, nor copied in place of a slot to clear."""
    source = windows(TWO, CHECKPOINTS, CASTS, unseen, layout)
    target = windows(TWO, SLOTS, CASTS[1:], unseen, layout, seed=3)
    copied = expect(source, target, [3, 0], [1, 4])
    expected = [without(b, [0, 2], memory) for b, memory in zip(target, copied, strict=True)]
    move = CopyAndClearWindows(source, target)
    lists = [3, -1, 0, 2, 4, 2**40], [1, 3, 4, -1, 3, 3], [-1, 0, 5, 2, -(2**40), 2**40, 0, -1]
    move(*(torch.tensor(slots, device=unseen) for slots in lists))
    assert same(target, expected)
    padding = torch.full((3,), -1, device=unseen)
    move(padding, padding, padding)
    assert same(target, expected)


@pytest.mark.parametrize("there", [(0, 1, 2), (0, 1), (2,), (0, 2), (1,)], ids=str)
def test_lists_of_the_host_and_the_device_go_together(there: tuple[int, ...], unseen: torch.device) -> None:
    source, target = windows(KINDS["one"], CHECKPOINTS, CASTS, unseen), windows(KINDS["one"], SLOTS, CASTS, unseen)
    for lists in (([3, 0], [1, 4], [0, 2]), ([], [], [3]), ([2], [2], [])):
        given = [torch.tensor(x, dtype=torch.int64, device=unseen) if n in there else x for n, x in enumerate(lists)]
        move_and_compare(source, target, *given)


def test_lists_of_the_device_are_checked_as_far_as_their_kind_goes(unseen: torch.device) -> None:
    source, target = windows(KINDS["one"], CHECKPOINTS, CASTS, unseen), windows(KINDS["one"], SLOTS, CASTS, unseen)
    before = [whole(window) for window in target]
    pair, real = torch.tensor([1, 0], device=unseen), torch.ones(2, device=unseen)
    for error, slots in (
        (ValueError, (pair, pair[:1], pair)),
        (ValueError, (pair, [1, 1], pair)),
        (ValueError, (pair, [1, 2], [2])),
        (ValueError, (pair, pair, [5])),
        (ValueError, (pair, pair, pair[None])),
        (TypeError, (pair, pair, real)),
    ):
        with pytest.raises(error):
            copy_and_clear_windows(source, target, *slots)
    assert same(target, before)


CUDA = torch.device("cuda")


def on_device(test: Callable[..., None]) -> Callable[..., None]:
    """A test of what only a CUDA device has."""
    return pytest.mark.gpu(needs_cuda(test))


def on_cuda(*slots: list[int]) -> list[Tensor]:
    """Lists on the device, of its int64."""
    return [torch.tensor(each, dtype=torch.int64, device=CUDA) for each in slots]


@on_device
def test_nothing_waits_for_the_device() -> None:
    """No call reads anything back, whatever form its slots have."""
    source = windows(KINDS["five"], CHECKPOINTS, CASTS, CUDA)
    target = windows(KINDS["five"], SLOTS, CASTS, CUDA, seed=3)
    move, clear = CopyAndClearWindows(source, target), ClearWindows(target)
    (pair,) = on_cuda([1, 0])
    torch.cuda.set_sync_debug_mode("error")
    try:
        for slots in (0, [0, 1], np.array([2, 3]), pair, pair[0], pair.int(), torch.tensor([3, 1]), []):
            clear(slots)
            move(pair, pair, slots)
            move([2], [3], pair)
            move(slots, slots, [4])
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.cuda.synchronize()


@on_device
def test_graphs_replay_with_other_slots() -> None:
    """Captured once, where a wait for the device would raise; replayed with other numbers in the same lists."""
    source = windows(KINDS["five"], CHECKPOINTS, CASTS, CUDA)
    target = windows(KINDS["five"], SLOTS, CASTS[1:], CUDA, seed=3)
    cleared = pool(KINDS["five"], MIXED, CUDA)
    move, clear = CopyAndClearWindows(source, target), ClearWindows(cleared)
    sources, targets, clears = on_cuda([-1, -1], [-1, -1], [-1, -1, -1])
    before = [whole(window) for window in (*target, *cleared)]
    move(sources, targets, clears)
    clear(clears)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        torch.cuda.set_sync_debug_mode("error")
        try:
            move(sources, targets, clears)
            clear(clears)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    assert same([*target, *cleared], before)
    for lists, kept in (
        (([3, 0], [1, 4], [0, -1, 2]), ([3, 0], [1, 4], [0, 2])),
        (([2, -1], [3, 0], [-1, 4, 4]), ([2], [3], [4])),
    ):
        copied = expect(source, target, kept[0], kept[1])
        expected = [without(b, kept[2], memory) for b, memory in zip(target, copied, strict=True)]
        expected += [without(window, kept[2], whole(window)) for window in cleared]
        for held, new in zip((sources, targets, clears), lists, strict=True):
            held.copy_(torch.tensor(new))
        graph.replay()
        assert same([*target, *cleared], expected)


@on_device
@pytest.mark.parametrize("dtype", [torch.uint8, torch.bfloat16], ids=str)
def test_slots_beyond_2_to_the_31_elements(dtype: torch.dtype) -> None:
    """The highest slots are cleared and written, their neighbours and the lowest are not; then every other one."""
    slots = 2**31 // 4096 + 5
    window = torch.full((1, slots, 1024, 4), 7, dtype=dtype, device=CUDA)
    assert window.numel() > 2**31
    last = slots - 1
    clear_windows([window], last)
    clear_windows([window], on_cuda([last - 2, -1, slots])[0])
    if dtype.is_floating_point:
        source = torch.full((1, 3, 1024, 4), 5, dtype=torch.float32, device=CUDA)
        copy_and_clear_windows([source], [window], *on_cuda([2, 0], [last - 3, -1], [last - 1]))
        assert (window[0, last - 3] == 5).all()
        assert not window[0, last - 1].any()
        window[0, last - 3 : last] = torch.tensor([7, 0, 7], dtype=dtype, device=CUDA)[:, None, None]
    assert not window[0, [last, last - 2]].any()
    assert (window[0, last - 1] == 7).all()
    assert (window[0, : last - 2] == 7).all()
    clear_windows([window], torch.arange(0, slots, 2, device=CUDA))
    assert not window[0, ::2].any()
    assert (window[0, 1::2] == 7).all()


@on_device
@pytest.mark.parametrize("strides", [(2**31, 64, 4, 1), (64, 2**30, 4, 1), (64, 128, 2**30, 2**28)], ids=str)
def test_strides_beyond_2_to_the_31_elements(strides: tuple[int, ...]) -> None:
    """Layers, slots and elements of a slot that lie far apart, among bytes that stay as they are."""
    shape = (2, 3, 3, 2)
    size = sum((length - 1) * stride for length, stride in zip(shape, strides, strict=True)) + 1
    assert size > 2**31
    buffer = torch.full((size,), 7, dtype=torch.uint8, device=CUDA)
    window = buffer.as_strided(shape, strides)
    clear_windows([window], [2, 0])
    assert not window[:, [2, 0]].any()
    assert (window[:, 1] == 7).all()
    assert int((buffer != 7).sum()) == 2 * 2 * 3 * 2
