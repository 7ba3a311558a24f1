"""Slots as kernels take them: one int64 tensor of one axis without gaps, or two numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from poolproof.kernels.slots import count_of, slot_list, slot_pair

CPU = torch.device("cpu")
FORMS = [
    7,
    [7],
    (7, 0, 3),
    range(3, 0, -1),
    np.int8(7),
    np.array(7, np.uint64),
    np.array([7, 0, 3], np.uint16),
    np.arange(9)[::-2],
    np.array([7, 3], ">i4").astype("i4"),
    torch.tensor(7),
    torch.tensor([7, 3], dtype=torch.uint8),
    torch.tensor([7, 0, 3], dtype=torch.int64),
    torch.arange(9)[1::3],
    torch.arange(9, dtype=torch.int32)[1::3],
    torch.arange(12).reshape(3, 4)[:, 1],
    torch.tensor(5).expand(3),
    [np.int64(7), 3],
    [torch.tensor(7), torch.tensor(3)],
    [2**40],
]


@pytest.mark.parametrize("slots", FORMS, ids=repr)
def test_any_form_becomes_one_list(slots: object) -> None:
    """What a kernel reads: as many int64 numbers, next to each other in memory."""
    found = slot_list(slots, CPU, "the slots")
    plain = slots.tolist() if isinstance(slots, torch.Tensor) else slots
    expected = np.atleast_1d(np.array([int(n) for n in plain] if isinstance(plain, list) else plain)).astype(np.int64)
    assert (found.dtype, found.shape, found.device) == (torch.int64, (len(expected),), CPU)
    assert found.tolist() == expected.tolist()
    assert found.is_contiguous(), "a kernel reads the n-th number at the n-th place"


@pytest.mark.parametrize("empty", [[], (), np.array([]), np.zeros(0, int), torch.tensor([]), range(0)], ids=repr)
def test_none_at_all(empty: object) -> None:
    found = slot_list(empty, CPU, "the slots")
    assert (found.dtype, found.shape) == (torch.int64, (0,))


def test_two_numbers_stay_numbers() -> None:
    assert slot_pair(3, 4, CPU) == (3, 4)
    assert count_of(3) == 1
    source, target = slot_pair(3, [4], CPU)
    assert (source.tolist(), target.tolist(), count_of(source)) == ([3], [4], 1)
    source, target = slot_pair([], [], CPU)
    assert count_of(source) == count_of(target) == 0


def test_what_was_given_is_not_changed() -> None:
    """The caller's list may change afterwards, a numpy array's too."""
    given = np.array([1, 2], np.int64)
    found = slot_list(given, CPU, "the slots")
    given[:] = 9
    assert found.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("slots", "error", "text"),
    [
        (1.0, TypeError, "the slots must be integers, not torch.float64"),
        ([True], TypeError, "the slots must be integers, not torch.bool"),
        (torch.zeros(2, dtype=torch.complex64), TypeError, "the slots must be integers, not torch.complex64"),
        ([2**70], TypeError, ""),
        (["a"], TypeError, ""),
        ([[1], [2, 3]], ValueError, ""),
        ([[]], ValueError, "the slots must have no or one axis, not the shape (1, 0)"),
        (
            torch.zeros((1, 1), dtype=torch.int64),
            ValueError,
            "the slots must have no or one axis, not the shape (1, 1)",
        ),
        (torch.zeros(1, device="meta"), ValueError, "the slots are on meta, the state on cpu: move it there first"),
    ],
    ids=repr,
)
def test_what_is_none_is_refused(slots: object, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as refusal:
        slot_list(slots, CPU, "the slots")
    assert str(refusal.value).startswith(text)


def test_unequal_counts_are_refused() -> None:
    with pytest.raises(ValueError, match="1 source slots and 2 target slots: give as many of either"):
        slot_pair(1, [1, 2], CPU)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("slots", FORMS, ids=repr)
def test_on_the_device_nothing_is_read_back(slots: object) -> None:
    device = torch.device("cuda")
    expected = slot_list(slots, CPU, "the slots").tolist()
    given = slots.to(device) if isinstance(slots, torch.Tensor) else slots
    torch.cuda.set_sync_debug_mode("error")
    try:
        found = slot_list(given, device, "the slots")
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert found.tolist() == expected
    assert found.is_contiguous()
