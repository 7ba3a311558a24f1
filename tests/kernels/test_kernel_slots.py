"""Slots as kernels take them: one int64 tensor of one axis without gaps, or two numbers; checked where they can be."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from poolproof.kernels.overlap import Meeting
from poolproof.kernels.slots import count_of, device_slots, host_slots, slot_pair

CPU = torch.device("cpu")
MANY = 2**41
FORMS = [
    7,
    [7],
    (7, 0, 3),
    range(3, 0, -1),
    np.int8(7),
    np.array(7, np.uint64),
    np.array([7, 0, 3], np.uint16),
    np.arange(9)[::-2],
    np.array([7, 3], ">i4"),
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


def plain(slots: object) -> list[int]:
    """The numbers themselves."""
    return [int(n) for n in np.atleast_1d(np.asarray(slots))]


@pytest.mark.parametrize("slots", FORMS, ids=repr)
def test_any_form_from_the_host_becomes_one_list(slots: object) -> None:
    found = host_slots(slots, MANY, "the slots")
    assert (found.dtype, found.ndim) == (np.int64, 1)
    assert found.tolist() == plain(slots)


@pytest.mark.parametrize("slots", [x for x in FORMS if isinstance(x, torch.Tensor)], ids=repr)
def test_a_tensor_in_place_becomes_one_list(slots: torch.Tensor) -> None:
    """What a kernel reads: as many int64 numbers, next to each other in memory."""
    found = device_slots(slots, CPU, "the slots")
    assert (found.dtype, found.dim()) == (torch.int64, 1)
    assert found.is_contiguous(), "a kernel reads the n-th number at the n-th place"
    assert found.tolist() == plain(slots)


@pytest.mark.parametrize("empty", [[], (), np.array([]), np.zeros(0, int), torch.tensor([]), range(0)], ids=repr)
def test_none_at_all(empty: object) -> None:
    found = host_slots(empty, 5, "the slots")
    assert (found.dtype, found.shape) == (np.int64, (0,))
    assert all(count_of(slots) == 0 for slots in slot_pair(empty, [], CPU, (5, 5)))


def test_one_pair_stays_two_numbers() -> None:
    for one in (3, np.int64(3), [3], torch.tensor(3), np.array([3])):
        assert slot_pair(one, 4, CPU, (5, 5)) == (3, 4)
        assert all(type(slot) is int for slot in slot_pair(one, 4, CPU, (5, 5)))
    assert count_of(3) == 1
    source, target = slot_pair([3, 0], (4, 1), CPU, (5, 5))
    assert (source.tolist(), target.tolist(), count_of(source)) == ([3, 0], [4, 1], 2)
    assert source.is_contiguous()
    assert target.is_contiguous()


def test_what_was_given_is_not_changed() -> None:
    """The caller's list may change afterwards, a numpy array's too."""
    for given in (np.array([1, 2], np.int64), torch.tensor([1, 2])):
        found, _ = slot_pair(given, [3, 4], CPU, (5, 5))
        given[:] = 0
        assert found.tolist() == [1, 2]


BAD = [
    (1.0, TypeError, "the slots must be integers, not float64: 1.0"),
    ([True], TypeError, "the slots must be integers, not bool: [True]"),
    (torch.zeros(2, dtype=torch.complex64), TypeError, "the slots must be integers, not torch.complex64"),
    (None, TypeError, "the slots must be integers, not object: None"),
    ("a", TypeError, "the slots must be integers, not <U1: 'a'"),
    (["a"], TypeError, "the slots must be integers, not <U1: ['a']"),
    ([2**70], ValueError, "the slots are 0 to 8, not 1180591620717411303424; drop padding"),
    (-(2**70), ValueError, "the slots are 0 to 8, not -1180591620717411303424; drop padding"),
    ([True, 2], TypeError, "the slots must be integers, not bool: [True, 2]"),
    (torch.zeros(1, dtype=torch.bfloat16), TypeError, "the slots must be integers, not torch.bfloat16"),
    (np.timedelta64(3, "s"), TypeError, "the slots must be integers, not timedelta64"),
    ([[1], [2, 3]], ValueError, "the slots are no list of slot numbers: "),
    ([[]], ValueError, "the slots must have no or one axis, not the shape (1, 0)"),
    (torch.zeros((1, 1), dtype=torch.int64), ValueError, "the slots must have no or one axis, not the shape (1, 1)"),
    (-1, ValueError, "the slots are 0 to 8, not -1; drop padding before the call"),
    ([0, 9, 3, -2], ValueError, "the slots are 0 to 8, not 9, -2; "),
    (np.arange(9, 30), ValueError, "the slots are 0 to 8, not 9, 10, 11, 12, 13, 14, 15, 16, ...; "),
    (np.array([2**64 - 1], np.uint64), ValueError, "the slots are 0 to 8, not 18446744073709551615; "),
]


@pytest.mark.parametrize(("slots", "error", "text"), BAD, ids=repr)
def test_what_is_no_slot_is_refused(slots: object, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as refusal:
        host_slots(slots, 9, "the slots")
    assert str(refusal.value).startswith(text)


@pytest.mark.parametrize(
    ("slots", "error", "text"),
    [
        (torch.zeros(1), TypeError, "the slots must be integers, not torch.float32"),
        (
            torch.zeros((1, 1), dtype=torch.int64),
            ValueError,
            "the slots must have no or one axis, not the shape (1, 1)",
        ),
        (torch.zeros(1, device="meta"), ValueError, "the slots are on meta, the pools on cpu: move them there first"),
    ],
)
def test_a_tensor_in_place_is_refused(slots: torch.Tensor, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as refusal:
        device_slots(slots, CPU, "the slots")
    assert str(refusal.value) == text


@pytest.mark.parametrize(
    ("sources", "targets", "text"),
    [
        (1, [1, 2], "1 source slots and 2 target slots: give as many of either"),
        ([1, 2], [3, 3], "target slot 3 is given more than once: give each target once"),
        (5, 0, "the source slots are 0 to 4, not 5; drop padding before the call"),
        (0, 8, "the target slots are 0 to 7, not 8; drop padding before the call"),
        (0, -1, "the target slots are 0 to 7, not -1; drop padding before the call"),
    ],
)
def test_copies_that_are_none_are_refused(sources: object, targets: object, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        slot_pair(sources, targets, CPU, (5, 8))


ONE_POOL = Meeting(gap=0, read_step=8, write_step=8, read_length=8, write_length=8, is_same=True)
TWO_OF_A_POOL = ONE_POOL._replace(gap=4, read_length=4, write_length=4, is_same=False, is_apart=True)
PAGES_OF_ANOTHER_SIZE = Meeting(gap=0, read_step=8, write_step=12, read_length=8, write_length=12)


@pytest.mark.parametrize(
    ("meeting", "sources", "targets", "slot"),
    [
        (ONE_POOL, [1, 2], [2, 3], 2),
        (ONE_POOL, [1, 2, 2], [1, 4, 3], None),
        (ONE_POOL, 1, 1, None),
        (ONE_POOL, [1, 2], [2, 1], 2),
        (TWO_OF_A_POOL, [1, 2], [2, 1], None),
        (PAGES_OF_ANOTHER_SIZE, 1, 1, 1),
        (PAGES_OF_ANOTHER_SIZE, [0, 4], [1, 2], 2),
        (PAGES_OF_ANOTHER_SIZE, [0, 3], [1, 3], None),
    ],
)
def test_copies_that_meet_are_refused(meeting: Meeting, sources: object, targets: object, slot: int | None) -> None:
    if slot is None:
        slot_pair(sources, targets, CPU, (5, 5), [meeting])
    else:
        with pytest.raises(ValueError, match=f"target slot {slot} lies over a slot that the same call reads"):
            slot_pair(sources, targets, CPU, (5, 5), [meeting])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("slots", FORMS, ids=repr)
def test_on_the_device_nothing_is_read_back(slots: object) -> None:
    """Numbers on the device are taken unseen; those from the host are copied there."""
    device = torch.device("cuda", torch.cuda.current_device())
    given = slots.to(device) if isinstance(slots, torch.Tensor) else slots
    targets = torch.arange(len(plain(slots)), device=device)
    torch.cuda.set_sync_debug_mode("error")
    try:
        source, target = slot_pair(given, targets, device, (MANY, MANY))
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert source.tolist() == plain(slots)
    assert source.is_contiguous()
    assert target.tolist() == list(range(len(plain(slots))))
