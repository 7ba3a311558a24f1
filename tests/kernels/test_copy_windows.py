"""Conv windows, copied between pools of other dtypes, slots and strides: what torch's indexing and casts give."""

from __future__ import annotations

import numpy as np
import oracles
import pytest
import states
import torch
from torch import Tensor

from poolproof.kernels.copy_windows import CopyWindows, copy_windows, copy_windows_reference
from poolproof.kernels.layout import KernelArgumentError

SLOTS, CHECKPOINTS = 5, 4
ONE_NAN = {
    dtype: oracles.tensor_of(np.array(bits), dtype)
    for dtype, bits in ((torch.bfloat16, 0x7FC0), (torch.float16, 0x7E00), (torch.float32, 0x7FC00000))
}
KINDS = {
    "one": [(2, 12, 4)],
    "one element": [(1, 1, 1)],
    "four": [(2, 12, 4), (1, 5, 3), (3, 7, 1), (2, 1, 4)],
    "five": [(2, 12, 4), (1, 5, 3), (3, 7, 1), (2, 1, 4), (1, 3, 5)],
    "nine": [(1, n, 3) for n in range(1, 10)],
    "more than a block": [(2, 700, 4), (1, 2048, 1), (1, 2049, 2)],
    "empty among others": [(2, 0, 4), (1, 5, 3), (0, 5, 3), (1, 5, 0)],
}


def random_window(shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> Tensor:
    """Numbers of all sizes, infinities and zeros among them."""
    bits = states.wild(torch.float32, shape, seed)
    bits = np.where(
        np.random.default_rng(seed).random(shape) < 0.5, states.even(torch.float16, shape, seed) << 16, bits
    )
    return oracles.tensor_of(bits % 2**32, torch.float32).nan_to_num().to(dtype)


def laid_out(tensor: Tensor, layout: str) -> Tensor:
    """The same numbers with other strides; whatever is between them is 77."""
    if layout == "plain":
        return tensor.contiguous()
    if layout == "transposed":
        return tensor.transpose(-1, -2).contiguous().transpose(-1, -2)
    if layout == "slot-major":
        return tensor.transpose(0, 1).contiguous().transpose(0, 1)
    wide = tensor.new_full((*tensor.shape[:2], tensor.shape[2] + 2, 2 * tensor.shape[3] + 1), 77)
    found = wide[:, :, 1:-1, 1::2]
    found.copy_(tensor)
    return found


def windows(
    shapes: list[tuple[int, ...]],
    slots: int,
    dtypes: list[torch.dtype],
    device: torch.device,
    layout: str = "plain",
    seed: int = 0,
) -> list[Tensor]:
    """A pool's windows: (layers, slots, channels, width) each."""
    found = []
    for n, (layers, channels, width) in enumerate(shapes):
        window = random_window((layers, slots, channels, width), dtypes[n % len(dtypes)], seed + n)
        found.append(laid_out(window.to(device), layout))
    return found


def whole(tensor: Tensor) -> np.ndarray:
    """All bytes that a window's tensor lies among."""
    return torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage().cpu()).numpy().copy()


def expect(source: list[Tensor], target: list[Tensor], sources: list[int], targets: list[int]) -> list[np.ndarray]:
    """All bytes of the targets afterwards, by torch's casts on the CPU, slot by slot."""
    found = []
    for a, b in zip(source, target, strict=True):
        base = torch.empty(0, dtype=b.dtype).set_(b.untyped_storage().cpu().clone())
        after = base.as_strided(b.shape, b.stride(), b.storage_offset())
        for from_slot, to_slot in zip(sources, targets, strict=True):
            value = a[:, from_slot].cpu().to(b.dtype)
            after[:, to_slot] = value if a.dtype == b.dtype else torch.where(value.isnan(), ONE_NAN[b.dtype], value)
        found.append(whole(after))
    return found


def copy_and_compare(source: list[Tensor], target: list[Tensor], sources: object, targets: object) -> None:
    """Copy; the targets' bytes are as expected, the sources' as they were."""
    numbers = [
        np.atleast_1d(np.array(x.tolist() if isinstance(x, Tensor) else x)).astype(int).tolist()
        for x in (sources, targets)
    ]
    expected, before = expect(source, target, *numbers), [whole(a) for a in source]
    copy_windows(source, target, sources, targets)
    for n, b in enumerate(target):
        assert np.array_equal(whole(b), expected[n]), f"window {n}"
    assert all(np.array_equal(whole(a), old) for a, old in zip(source, before, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_any_number_of_windows_of_any_size(kind: str, device: torch.device) -> None:
    source = windows(KINDS[kind], SLOTS, [torch.float32], device)
    target = windows(KINDS[kind], CHECKPOINTS, [torch.float32], device, seed=50)
    copy_and_compare(source, target, [4, 0, 4], [1, 3, 0])
    copy_and_compare(target, source, [1, 2], [2, 1])
    copy_and_compare(source, target, 3, 2)


CASTS = [torch.float32, torch.bfloat16, torch.float16]


@pytest.mark.parametrize("to", CASTS, ids=str)
@pytest.mark.parametrize("of", CASTS, ids=str)
def test_casts(of: torch.dtype, to: torch.dtype, device: torch.device) -> None:
    """Rounded half to even, to subnormals and to infinities too; numbers of a wider format come as they are."""
    shapes = [(2, 64, 4), (1, 5, 3)]
    copy_and_compare(windows(shapes, SLOTS, [of], device), windows(shapes, 4, [to], device, seed=9), [4, 0], [1, 3])


def test_windows_of_several_dtypes_go_together(device: torch.device) -> None:
    shapes = KINDS["five"]
    source = windows(shapes, SLOTS, CASTS, device)
    target = windows(shapes, CHECKPOINTS, CASTS[1:], device, seed=5)
    copy_and_compare(source, target, [4, 0, 1], [1, 3, 0])


def test_bits_are_kept_where_the_dtype_is(device: torch.device) -> None:
    """NaNs with their payloads, infinities and zeros of both signs."""
    bits = np.array([0x7FC1, 0xFFC0, 0x7F81, 0x7F80, 0xFF80, 0x8000, 0x0001, 0x8001]).reshape(1, 1, 2, 4)
    source = [oracles.tensor_of(bits, torch.bfloat16).to(device)]
    target = [torch.zeros((1, 2, 2, 4), dtype=torch.bfloat16, device=device)]
    copy_windows(source, target, 0, 1)
    assert np.array_equal(oracles.bits_of(target[0][:, 1:]), bits)
    assert not target[0][:, 0].any()


@pytest.mark.parametrize("to", CASTS, ids=str)
@pytest.mark.parametrize("of", CASTS, ids=str)
def test_nans_are_cast_to_one_nan(of: torch.dtype, to: torch.dtype, device: torch.device) -> None:
    """Quiet and signalling ones, with payloads and signs; where nothing is cast they are kept."""
    bits = {torch.float32: [0x7FC00000, 0xFFC00000, 0x7F800001, 0xFF812345, 0x7FFFFFFF]}
    bits[torch.float16] = [0x7E00, 0xFE00, 0x7C01, 0xFD55, 0x7FFF]
    bits[torch.bfloat16] = [0x7FC0, 0xFFC0, 0x7F81, 0xFFD5, 0x7FFF]
    source = [oracles.tensor_of(np.array(bits[of] * 20).reshape(1, 1, 20, 5), of).to(device)]
    target = [torch.zeros((1, 1, 20, 5), dtype=to, device=device)]
    copy_windows(source, target, 0, 0)
    one = int(oracles.bits_of(ONE_NAN[to]).reshape(-1)[0])
    assert oracles.bits_of(target[0]).reshape(-1).tolist() == (bits[of] if of == to else [one] * 5) * 20


@pytest.mark.parametrize("to", ["plain", "transposed", "slot-major", "sliced"])
@pytest.mark.parametrize("of", ["plain", "transposed", "slot-major", "sliced"])
def test_any_strides(of: str, to: str, device: torch.device) -> None:
    shapes = [(2, 12, 4), (3, 7, 3)]
    source = windows(shapes, SLOTS, [torch.bfloat16], device, layout=of)
    target = windows(shapes, CHECKPOINTS, [torch.float16, torch.bfloat16], device, layout=to, seed=3)
    copy_and_compare(source, target, [4, 0, 4], [1, 3, 0])


@pytest.mark.parametrize(
    ("sources", "targets"),
    [
        (4, 1),
        (np.int32(4), [1]),
        ([4], torch.tensor(1)),
        (torch.tensor([4, 0], dtype=torch.int32), np.array([1, 0], np.uint8)),
        (range(3), (3, 0, 1)),
        (torch.arange(5)[::3], torch.arange(4)[1::2]),
    ],
    ids=repr,
)
def test_slots_in_any_form(sources: object, targets: object, device: torch.device) -> None:
    source = windows(KINDS["four"], SLOTS, CASTS, device)
    target = windows(KINDS["four"], CHECKPOINTS, CASTS, device, seed=3)
    copy_and_compare(source, target, sources, targets)
    on = [x.to(device) if isinstance(x, Tensor) else x for x in (sources, targets)]
    copy_and_compare(source, target, *on)


@pytest.mark.parametrize("empty", [[], np.array([]), torch.tensor([], dtype=torch.int64)], ids=repr)
def test_no_slots_is_no_work(empty: object, device: torch.device) -> None:
    source, target = (windows(KINDS["five"], 4, CASTS, device, seed=n) for n in (0, 1))
    before = [whole(b) for b in target]
    copy_windows(source, target, empty, empty)
    assert all(np.array_equal(whole(b), old) for b, old in zip(target, before, strict=True))


def test_no_windows_is_no_work(device: torch.device) -> None:
    copy_windows([], [], [0, 1], [2, 3])
    nothing = [torch.zeros((2, 4, 0, 3), device=device)]
    copy_windows(nothing, nothing, 0, 1)


def test_one_binding_serves_many_calls(device: torch.device) -> None:
    source = windows(KINDS["five"], SLOTS, CASTS, device)
    target = windows(KINDS["five"], CHECKPOINTS, CASTS, device, seed=3)
    copy = CopyWindows(source, target)
    for sources, targets in ([[0], [0]], [[1, 2, 4], [3, 1, 0]], [[], []], [[3], [2]]):
        expected = expect(source, target, sources, targets)
        copy(sources, targets)
        if len(sources) == 1:
            copy(sources[0], targets[0])
        assert all(np.array_equal(whole(b), wanted) for b, wanted in zip(target, expected, strict=True))


def test_the_reference_takes_numbers_and_lists() -> None:
    cpu = torch.device("cpu")
    source, target = windows([(2, 12, 4)], SLOTS, CASTS, cpu), windows([(2, 12, 4)], 4, CASTS[1:], cpu, seed=3)
    for from_slot, to_slot in ((4, 1), (torch.tensor([0, 4]), torch.tensor([3, 0]))):
        expected = expect(source, target, np.atleast_1d(from_slot).tolist(), np.atleast_1d(to_slot).tolist())
        copy_windows_reference(list(zip(source, target, strict=True)), from_slot, to_slot)
        assert np.array_equal(whole(target[0]), expected[0])


GOOD = torch.zeros((2, 4, 3, 5))
BAD = [
    ([GOOD], [], "1 source tensors and 0 target tensors: give as many"),
    ([GOOD[0]], [GOOD[0]], "window 0: (4, 3, 5) cannot be copied to (4, 3, 5); both have the axes"),
    ([GOOD, GOOD], [GOOD, GOOD[:1]], "window 1: (2, 4, 3, 5) cannot be copied to (1, 4, 3, 5); both have the axes"),
    ([GOOD], [GOOD[:, :, :2]], "window 0: (2, 4, 3, 5) cannot be copied to (2, 4, 2, 5); both have the axes"),
    ([GOOD], [GOOD[..., :2]], "window 0: (2, 4, 3, 5) cannot be copied to (2, 4, 3, 2); both have the axes"),
    ([GOOD.int()], [GOOD], "window 0: torch.int32 to torch.float32; windows are bfloat16, float16 or float32"),
    (
        [GOOD],
        [GOOD.to(torch.complex64)],
        "window 0: torch.float32 to torch.complex64; windows are bfloat16, float16 or float32",
    ),
    ([GOOD.double()], [GOOD], "window 0: torch.float64 to torch.float32; windows are bfloat16, float16 or float32"),
    ([GOOD.to(torch.float8_e5m2)], [GOOD], "window 0: torch.float8_e5m2 to torch.float32; windows are bfloat16"),
    ([GOOD], [GOOD.to("meta")], "windows are on "),
    ([GOOD, GOOD[:, :3]], [GOOD, GOOD], "source windows have [3, 4] slots: windows of one pool have as many"),
    ([GOOD], [GOOD.clone().requires_grad_()], "pools are plain strided tensors"),
    (GOOD[None], [GOOD], "source windows are a Tensor, not a list of tensors"),
    ([GOOD], None, "target windows are a NoneType, not a list of tensors"),
]


@pytest.mark.parametrize(("source", "target", "text"), BAD)
def test_windows_that_do_not_fit_are_refused(source: list[Tensor], target: list[Tensor], text: str) -> None:
    with pytest.raises(KernelArgumentError) as refusal:
        CopyWindows(source, target)
    assert str(refusal.value).startswith(text)


@pytest.mark.parametrize(
    ("sources", "targets", "error"),
    [
        *((1.0, 1, TypeError), (True, 1, TypeError), ([[1]], [1], ValueError), ([1, 2], [1], ValueError)),
        *((-1, 0, ValueError), (0, 4, ValueError), ([0, 4], [0, 1], ValueError), ([0, 1], [2, 2], ValueError)),
    ],
)
def test_slots_that_are_none_are_refused(
    sources: object, targets: object, error: type[Exception], device: torch.device
) -> None:
    source, target = (windows(KINDS["one"], 4, CASTS, device, seed=n) for n in (0, 1))
    before = [whole(b) for b in target]
    with pytest.raises(error):
        copy_windows(source, target, sources, targets)
    assert np.array_equal(whole(target[0]), before[0])


def test_copies_within_a_pool_must_not_meet(device: torch.device) -> None:
    windows_of = windows(KINDS["four"], SLOTS, CASTS, device)
    before = [whole(a) for a in windows_of]
    with pytest.raises(ValueError, match="target slot 1 lies over a slot that the same call reads"):
        copy_windows(windows_of, windows_of, [0, 1], [1, 2])
    assert all(np.array_equal(whole(a), old) for a, old in zip(windows_of, before, strict=True))
    expected = expect(windows_of, windows_of, [0, 1], [3, 2])
    copy_windows(windows_of, windows_of, [0, 1], [3, 2])
    assert all(np.array_equal(whole(a), new) for a, new in zip(windows_of, expected, strict=True))


def test_meta_pools_are_checked_and_nothing_more() -> None:
    meta = [torch.zeros((2, 4, 3, 5), device="meta")]
    copy_windows(meta, meta, [0, 1], [2, 3])
    with pytest.raises(ValueError, match="the target slots are 0 to 3, not 4"):
        copy_windows(meta, meta, 0, 4)


def test_windows_of_one_buffer_are_told_apart_by_slot(device: torch.device) -> None:
    """Two views of one buffer, one a slot further on: what lies where decides, not the number."""
    whole_pool = windows([(2, 12, 4)], SLOTS, [torch.float32], device)[0]
    source, target = whole_pool[:, :4], whole_pool[:, 1:]
    before = whole_pool.clone()
    with pytest.raises(ValueError, match="target slot 0 lies over a slot that the same call reads"):
        copy_windows([source], [target], [0, 1], [0, 1])
    with pytest.raises(ValueError, match="target slot 2 lies over a slot that the same call reads"):
        copy_windows([source], [target], 3, 2)
    assert torch.equal(whole_pool, before)
    copy_windows([source], [target], [0, 1], [2, 1])
    assert torch.equal(whole_pool[:, [2, 3]], before[:, [1, 0]])


def test_windows_that_lie_over_each_other_are_refused(device: torch.device) -> None:
    a, b, c = (torch.zeros((2, 4, 3, 5), device=device) for _ in range(3))
    for source, target, text in (
        ([a, b], [c, c], "two tensors that are written share bytes"),
        ([a], [c[:1].expand(2, 4, 3, 5)], "several elements of which lie in one place"),
    ):
        with pytest.raises(KernelArgumentError, match=text):
            CopyWindows(source, target)
    with pytest.raises(ValueError, match="target slot 0 lies over a slot that the same call reads"):
        CopyWindows([a, b], [b, a])(0, 0)
    CopyWindows([a, b], [b, a])(0, 1)
