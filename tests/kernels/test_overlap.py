"""Which tensors share bytes: told from strides, and right where bytes are marked one by one."""

from __future__ import annotations

import itertools
import random

import pytest
import torch
from torch import Tensor

from poolproof.kernels.overlap import are_apart, meeting, meetings, meets_itself


def touched(tensor: Tensor) -> list[int]:
    """The bytes of every element, one after the other."""
    at = [0]
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        at = [offset + n * stride for offset in at for n in range(size)]
    width = tensor.element_size()
    first = tensor.storage_offset() * width
    return [first + offset * width + byte for offset in at for byte in range(width)]


def random_view(draw: random.Random, buffer: Tensor, axes: int) -> Tensor:
    """A view of (layers, slots, ...), axes in some order, with or without gaps between."""
    shape = [draw.choice([1, 2, 3]) for _ in range(axes)]
    order = list(range(axes)) if draw.random() < 0.6 else draw.sample(range(axes), axes)
    strides, reach = [0] * axes, draw.choice([1, 1, 2])
    for axis in reversed(order):
        strides[axis] = reach
        reach = reach * shape[axis] + draw.choice([0, 0, 1, 5]) - draw.choice([0, 0, 0, 1])
        reach = max(reach, 1)
    size = sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + 1
    return buffer.as_strided(shape, strides, draw.randrange(len(buffer) - size + 1))


def test_a_tensor_that_meets_itself_is_told() -> None:
    draw, buffer, seen = random.Random(1), torch.zeros(2000, dtype=torch.int16), set()
    for _ in range(3000):
        view = random_view(draw, buffer, 4)
        bytes_of = touched(view)
        if len(set(bytes_of)) < len(bytes_of):
            assert meets_itself(view), (view.shape, view.stride())
        seen.add((len(set(bytes_of)) < len(bytes_of), meets_itself(view)))
    assert {(True, True), (False, False)} <= seen


def test_tensors_that_count_as_apart_are() -> None:
    draw, buffer, seen = random.Random(2), torch.zeros(400, dtype=torch.int8), set()
    for _ in range(6000):
        a, b = random_view(draw, buffer, 4), random_view(draw, buffer, 4)
        b = b if draw.random() < 0.5 else buffer.as_strided(a.shape, a.stride(), draw.randrange(20))
        is_apart = not set(touched(a)) & set(touched(b))
        if are_apart(a, b):
            assert is_apart, (a.shape, a.stride(), b.shape, b.stride())
        seen.add((is_apart, are_apart(a, b)))
    assert {(True, True), (False, False)} <= seen


def test_slots_that_count_as_clear_are() -> None:
    """Whatever `meeting` lets pass shares no byte, but for a slot with itself."""
    draw, buffer, seen = random.Random(3), torch.zeros(600, dtype=torch.int8), [0, 0, 0]
    for _ in range(6000):
        a = random_view(draw, buffer, 4)
        b = random_view(draw, buffer, 4) if draw.random() < 0.4 else buffer.as_strided(a.shape, a.stride(), 7)
        if meets_itself(a) or meets_itself(b):
            continue
        try:
            found = meeting(a, b)
        except ValueError:
            seen[0] += 1
            continue
        for s, t in itertools.product(range(a.shape[1]), range(b.shape[1])):
            shares = bool(set(touched(a[:, s])) & set(touched(b[:, t])))
            if found is None or not found.bad([s], [t]).size:
                seen[1] += 1
                assert not shares or (s == t and touched(a[:, s]) == touched(b[:, t])), (a.stride(), b.stride(), s, t)
            else:
                seen[2] += 1
    assert min(seen) > 100, seen


def test_pages_of_two_sizes_in_one_buffer_can_be_bound() -> None:
    """As sub-pools of a unified pool lie: every view is over the whole buffer, page after page."""
    buffer = torch.zeros(7200, dtype=torch.uint8)
    states = buffer.view(torch.bfloat16).as_strided((2, 20, 5, 7), (90, 180, 7, 1))
    codes = buffer.view(torch.int8).as_strided((2, 36, 5, 7), (100, 200, 7, 1))
    scales = buffer.view(torch.bfloat16).as_strided((2, 36, 7), (50, 100, 1), 25)
    found = meetings([states], [codes, scales])
    assert [(one.is_same, one.is_apart) for one in found] == [(False, False), (False, False)]
    assert [one.bad([0, 9], [0, 2]).tolist() for one in found] == [[0], [0]], "state 0 is bytes 0 to 249"
    assert [one.bad([9, 9], [3, 17]).tolist() for one in found] == [[17], [17]], "state 9 is bytes 3240 to 3489"
    assert [one.bad([9, 9], [15, 18]).tolist() for one in found] == [[], []]


@pytest.mark.parametrize("name", ["whole", "meta", "empty"])
def test_what_has_no_bytes_meets_nothing(name: str) -> None:
    pools = {"whole": torch.zeros(2, 3, 4), "meta": torch.zeros(2, 3, 4, device="meta"), "empty": torch.zeros(2, 0, 4)}
    other = torch.zeros_like(pools[name])
    assert meeting(pools[name], other) is None
    assert meetings([pools[name]], [other]) == []
