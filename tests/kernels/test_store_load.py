"""Both directions of the codec's kernels: the bytes of the reference, wherever and however the pools lie."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import oracles
import pools
import pytest
import torch
from pools import LAYOUTS, Pools

from poolproof.kernels import interpreter
from poolproof.kernels.codec import BITS, NAN_BITS, dequantize, quantize
from poolproof.kernels.dequantize_load import DequantizeLoad, dequantize_load, dequantize_load_reference
from poolproof.kernels.layout import KernelArgumentError, is_wide
from poolproof.kernels.quantize_store import QuantizeStore, quantize_store, quantize_store_reference

SHAPES = [
    *((1, 1, v, k) for v, k in ((1, 1), (1, 128), (5, 7), (5, 48), (100, 7), (100, 128), (128, 1), (128, 48))),
    (2, 3, 5, 7),
    (2, 3, 100, 48),
    (1, 1, 300, 130),
    (1, 2, 256, 5),
    (1, 1, 257, 3),
    (1, 1, 1025, 17),
]


def expect_store(before: Pools, sources: list[int], targets: list[int]) -> tuple[Pools, int]:
    """What storing does to the bytes, one state at a time on the CPU, and how many channels are lost."""
    after, lost = before.copy(), 0
    for source, target in zip(sources, targets, strict=True):
        for layer in range(before.active.shape[0]):
            codes, scale = quantize(before.active[layer, source].contiguous().cpu())
            after.codes[layer, target] = codes
            after.scales[layer, target] = scale
            lost += int(scale.isnan().sum())
    return after, lost


def expect_load(before: Pools, sources: list[int], targets: list[int]) -> Pools:
    """What loading does to the bytes, one state at a time on the CPU."""
    after = before.copy()
    for source, target in zip(sources, targets, strict=True):
        for layer in range(before.active.shape[0]):
            codes, scale = before.codes[layer, source].cpu(), before.scales[layer, source].cpu()
            after.active[layer, target] = dequantize(codes.contiguous(), scale.contiguous())
    return after


def store_and_load(before: Pools, device: torch.device) -> None:
    """Store three states and load three, one of them twice; all bytes are as expected."""
    found = before.copy(device)
    lost = torch.tensor([3], dtype=torch.int32, device=device)
    quantize_store(found.active, found.codes, found.scales, [4, 0, 4], [0, 3, 1], lost)
    expected, gone = expect_store(before, [4, 0, 4], [0, 3, 1])
    assert found.same_bytes(expected)
    assert lost.tolist() == [3 + gone]
    dequantize_load(found.codes, found.scales, found.active, [3, 0, 3], [2, 1, 0])
    assert found.same_bytes(expect_load(expected, [3, 0, 3], [2, 1, 0]))


@pytest.mark.parametrize("dtype", oracles.DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_any_shape(shape: tuple[int, int, int, int], dtype: torch.dtype, device: torch.device) -> None:
    store_and_load(pools.make("plain", dtype, *shape, seed=sum(shape)), device)


@pytest.mark.parametrize("dtype", oracles.DTYPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(2, 3, 5, 7), (1, 2, 16, 64)], ids=str)
def test_any_strides(shape: tuple[int, int, int, int], layout: str, dtype: torch.dtype, device: torch.device) -> None:
    store_and_load(pools.make(layout, dtype, *shape, seed=2), device)


def test_layouts_lie_as_they_say() -> None:
    for layout in LAYOUTS:
        made = pools.make(layout, torch.bfloat16, 2, 3, 5, 7)
        assert made.active.is_contiguous() == (layout == "plain")
        assert made.codes.untyped_storage().data_ptr() == made.buffers[1].data_ptr()
    assert len(made.buffers) == 2, "the envelope holds codes and scales in one buffer"
    assert made.active.stride(1) > 2 * 3 * 5 * 7


def test_a_state_that_is_expanded_can_be_stored(device: torch.device) -> None:
    before = pools.make("plain", torch.float16, 1, 2, 5, 7)
    found = before.copy(device)
    one = found.active[:, :1, :1].expand(1, 5, 2, 5, 7)
    quantize_store(one, found.codes, found.scales, 3, 1)
    codes, scale = quantize(before.active[0, 0, 0])
    assert torch.equal(found.codes[0, 1].cpu(), codes.expand(2, 5, 7))
    assert np.array_equal(oracles.bits_of(found.scales[0, 1]), oracles.bits_of(scale.expand(2, 7)))


FORMS: dict[str, Callable[[list[int], torch.device], object]] = {
    "int": lambda ids, device: ids[0],
    "numpy scalar": lambda ids, device: np.int32(ids[0]),
    "0-D array": lambda ids, device: np.array(ids[0], np.uint8),
    "0-D tensor": lambda ids, device: torch.tensor(ids[0]),
    "0-D device tensor": lambda ids, device: torch.tensor(ids[0], device=device, dtype=torch.int16),
    "list": lambda ids, device: ids[:2],
    "tuple": lambda ids, device: tuple(ids[:2]),
    "range": lambda ids, device: range(2),
    "numpy array": lambda ids, device: np.array(ids[:2], np.int32)[::-1],
    "int32 tensor": lambda ids, device: torch.tensor(ids[:2], dtype=torch.int32),
    "int64 device tensor": lambda ids, device: torch.tensor(ids[:2], device=device),
    "int32 device tensor": lambda ids, device: torch.tensor(ids[:2], device=device, dtype=torch.int32),
    "strided device tensor": lambda ids, device: torch.tensor([ids[0], 3, ids[1], 3], device=device)[::2],
    "list of one": lambda ids, device: ids[:1],
    "list of numpy scalars": lambda ids, device: [np.int64(n) for n in ids[:2]],
}


@pytest.mark.parametrize("form", FORMS)
def test_slots_in_any_form(form: str, device: torch.device) -> None:
    before = pools.make("slot-major", torch.bfloat16, 2, 1, 5, 7)
    found = before.copy(device)
    sources, targets = FORMS[form]([3, 1], device), FORMS[form]([2, 0], device)
    numbers = [np.atleast_1d(x.cpu() if isinstance(x, torch.Tensor) else x).tolist() for x in (sources, targets)]
    store, load = (
        QuantizeStore(found.active, found.codes, found.scales),
        DequantizeLoad(found.codes, found.scales, found.active),
    )
    store(sources, targets)
    expected, _ = expect_store(before, *numbers)
    assert found.same_bytes(expected)
    load(targets, sources)
    assert found.same_bytes(expect_load(expected, *reversed(numbers)))


@pytest.mark.parametrize(
    ("sources", "targets"),
    [(4, [1]), ([4], 1), (np.int64(4), torch.tensor(1)), (torch.tensor([4]), 1), ((4,), np.array([1]))],
)
def test_forms_may_be_mixed(sources: object, targets: object, device: torch.device) -> None:
    before = pools.make("plain", torch.float32, 1, 1, 5, 7)
    found = before.copy(device)
    quantize_store(found.active, found.codes, found.scales, sources, targets)
    assert found.same_bytes(expect_store(before, [4], [1])[0])


@pytest.mark.parametrize("empty", [[], (), np.array([], np.int32), np.array([]), torch.tensor([], dtype=torch.int64)])
def test_no_slots_is_no_work(empty: object, device: torch.device) -> None:
    before = pools.make("plain", torch.float16, 2, 1, 5, 7)
    found, lost = before.copy(device), torch.zeros(1, dtype=torch.int32, device=device)
    quantize_store(found.active, found.codes, found.scales, empty, empty, lost)
    dequantize_load(found.codes, found.scales, found.active, empty, empty)
    assert found.same_bytes(before)
    assert lost.item() == 0


@pytest.mark.parametrize("zero", ["layers", "heads", "d_k", "slots"])
def test_zero_sizes_are_no_work(zero: str, device: torch.device) -> None:
    sizes = {"layers": 2, "heads": 2, "d_v": 5, "d_k": 7} | ({} if zero == "slots" else {zero: 0})
    counts = {"slots": 0, "checkpoints": 0} if zero == "slots" else {}
    before = pools.make("plain", torch.bfloat16, **sizes, **counts)
    found, lost = before.copy(device), torch.zeros((), dtype=torch.int32, device=device)
    slots = [] if zero == "slots" else [0, 1]
    quantize_store(found.active, found.codes, found.scales, slots, slots, lost)
    dequantize_load(found.codes, found.scales, found.active, slots, slots)
    assert found.same_bytes(before)
    assert lost.item() == 0


@pytest.mark.parametrize("dtype", oracles.DTYPES, ids=str)
def test_empty_channels_have_the_least_scale(dtype: torch.dtype, device: torch.device) -> None:
    before = pools.make("plain", dtype, 2, 3, 0, 7)
    found = before.copy(device)
    quantize_store(found.active, found.codes, found.scales, [1, 2], [0, 3])
    dequantize_load(found.codes, found.scales, found.active, [1, 2], [0, 3])
    assert found.same_bytes(expect_store(before, [1, 2], [0, 3])[0])
    assert (oracles.bits_of(found.scales[:, [0, 3]]) == oracles.least_scale(dtype)).all()


def test_lost_channels_are_added_up(device: torch.device) -> None:
    active = torch.zeros((2, 2, 3, 5, 34), dtype=torch.float16, device=device)
    active[0, 0, 0, 2, [0, 15, 16, 33]] = torch.nan
    active[1, 0, 2, :, 7] = torch.inf
    active[1, 1, 1, 0, 3] = -torch.inf
    codes = torch.zeros_like(active, dtype=torch.int8)
    scales = torch.zeros((2, 2, 3, 34), dtype=torch.float16, device=device)
    for shape in ((), (1, 1)):
        lost = torch.zeros(shape, dtype=torch.int32, device=device)
        store = QuantizeStore(active, codes, scales, lost)
        store(0, 1)
        assert lost.item() == 5
        store([1, 0], [1, 0])
        assert lost.item() == 5 + 6
    assert int(scales.isnan().sum()) == 6


def test_the_same_pools_serve_many_calls(device: torch.device) -> None:
    """Calls of one slot, of some and of none, in turn: what the first launch compiled serves the later ones."""
    before = pools.make("envelope", torch.bfloat16, 2, 2, 16, 32)
    found, expected = before.copy(device), before.copy()
    store = QuantizeStore(found.active, found.codes, found.scales)
    load = DequantizeLoad(found.codes, found.scales, found.active)
    for sources, targets in ([[0], [0]], [[1, 2], [3, 1]], [[], []], [[4, 0, 3, 2], [3, 2, 0, 1]], [[1], [2]]):
        store(sources, targets)
        expected = expect_store(expected, sources, targets)[0]
        if len(sources) == 1:
            store(sources[0], targets[0])
        assert found.same_bytes(expected)
        load(targets, sources)
        expected = expect_load(expected, targets, sources)
        if len(sources) == 1:
            load(targets[0], sources[0])
        assert found.same_bytes(expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_a_scale_that_is_not_finite_is_loaded_as_the_one_nan(dtype: torch.dtype, device: torch.device) -> None:
    bits = BITS[dtype]
    scale = torch.tensor([float("inf"), -float("inf"), float("nan"), -float("nan")], dtype=dtype, device=device)
    codes = torch.tensor([-128, -127, 0, 1, 127], dtype=torch.int8, device=device)
    codes = codes[:, None].expand(5, 4).contiguous()[None, None, None]
    active = torch.zeros(codes.shape, dtype=dtype, device=device)
    for load in (dequantize_load, lambda *given: dequantize_load_reference(*given[:3], 0, 0)):
        load(codes, scale[None, None, None], active.zero_(), 0, 0)
        assert (active.view(bits) == NAN_BITS[dtype]).all()


def test_the_references_of_the_launchers_agree() -> None:
    """`*_reference`, which take slots as numbers and as tensors, and lists with repeats."""
    before = pools.make("slot-major", torch.float32, 2, 3, 5, 7)
    for source, target in ((3, 1), (torch.tensor([3, 0, 3]), torch.tensor([1, 0, 2]))):
        found, lost = before.copy(), torch.zeros(1, dtype=torch.int32)
        numbers = np.atleast_1d(source).tolist(), np.atleast_1d(target).tolist()
        quantize_store_reference(found.active, found.codes, found.scales, source, target, lost)
        expected, gone = expect_store(before, *numbers)
        assert found.same_bytes(expected)
        assert lost.item() == gone
        dequantize_load_reference(found.codes, found.scales, found.active, target, source)
        if isinstance(source, int):
            assert found.same_bytes(expect_load(expected, [1], [3]))


STATE = (2, 5, 3, 5, 7)
BAD_POOLS = [
    ({"active": ((2, 5, 3, 5, 7), torch.float64)}, "states are bfloat16, float16 or float32, not torch.float64"),
    ({"active": ((2, 5, 3, 5, 7), torch.int8)}, "states are bfloat16, float16 or float32, not torch.int8"),
    ({"active": ((2, 5, 3, 35), torch.float16)}, "a state pool has the axes (layers, slots, heads, d_v, d_k), not"),
    ({"codes": ((2, 4, 3, 5, 8), torch.int8)}, "codes have the shape (2, 4, 3, 5, 8), not (2, slots, 3, 5, 7)"),
    ({"codes": ((2, 4, 3, 7, 5), torch.int8)}, "codes have the shape (2, 4, 3, 7, 5), not (2, slots, 3, 5, 7)"),
    ({"codes": ((1, 4, 3, 5, 7), torch.int8)}, "codes have the shape (1, 4, 3, 5, 7), not (2, slots, 3, 5, 7)"),
    ({"codes": ((2, 4, 3, 35), torch.int8)}, "codes have the shape (2, 4, 3, 35), not (2, slots, 3, 5, 7)"),
    ({"codes": ((2, 4, 3, 5, 7), torch.uint8)}, "codes are int8, not torch.uint8"),
    ({"scales": ((2, 4, 3, 5), torch.float16)}, "scales have the shape (2, 4, 3, 5), not (2, 4, 3, 7)"),
    ({"scales": ((2, 3, 3, 7), torch.float16)}, "scales have the shape (2, 3, 3, 7), not (2, 4, 3, 7)"),
    ({"scales": ((2, 4, 3, 7), torch.float32)}, "scales have the state's dtype torch.float16, not torch.float32"),
    ({"scales": ((2, 4, 3, 7), torch.float16, "meta")}, "states are on cpu, codes on cpu, scales on meta"),
    ({"codes": ((2, 4, 3, 5, 7), torch.int8, "meta")}, "states are on cpu, codes on meta, scales on cpu"),
    ({"lost": ((1,), torch.int64)}, "the count of lost channels is one int32 on cpu, not 1 of torch.int64 on cpu"),
    ({"lost": ((2,), torch.int32)}, "the count of lost channels is one int32 on cpu, not 2 of torch.int32 on cpu"),
    (
        {"lost": ((1,), torch.int32, "meta")},
        "the count of lost channels is one int32 on cpu, not 1 of torch.int32 on meta",
    ),
]


@pytest.mark.parametrize(("bad", "text"), BAD_POOLS)
def test_pools_that_do_not_fit_are_refused(bad: dict[str, tuple], text: str) -> None:
    good = {
        "active": (STATE, torch.float16),
        "codes": ((2, 4, 3, 5, 7), torch.int8),
        "scales": ((2, 4, 3, 7), torch.float16),
        "lost": ((1,), torch.int32),
    }
    tensors = {}
    for name, (shape, dtype, *where) in (good | bad).items():
        tensors[name] = torch.zeros(shape, dtype=dtype, device=where[0] if where else "cpu")
    with pytest.raises(KernelArgumentError) as refusal:
        QuantizeStore(**tensors)
    assert str(refusal.value).startswith(text)
    if "lost" not in bad:
        del tensors["lost"]
        with pytest.raises(ValueError) as refusal:
            DequantizeLoad(**tensors)
        assert str(refusal.value).startswith(text)


BAD_SLOTS = [
    (1.0, 1, TypeError, "the source slots must be integers, not float64"),
    (1, [1.0], TypeError, "the target slots must be integers, not float64"),
    ([1, 2.5], [1, 2], TypeError, "the source slots must be integers, not float64"),
    (True, 1, TypeError, "the source slots must be integers, not bool"),
    ([1, 2], [True, False], TypeError, "the target slots must be integers, not bool"),
    (1, np.bool_(True), TypeError, "the target slots must be integers, not bool"),
    (torch.tensor([1.0]), [1], TypeError, "the source slots must be integers, not torch.float32"),
    (torch.tensor(True), 1, TypeError, "the source slots must be integers, not bool"),
    (1j, 1, TypeError, "the source slots must be integers, not complex128"),
    (None, 1, TypeError, ""),
    ("1", 1, TypeError, ""),
    ([1, None], [1, 2], TypeError, ""),
    ([[1, 2]], [1, 2], ValueError, "the source slots must have no or one axis, not the shape (1, 2)"),
    ([1], torch.tensor([[1]]), ValueError, "the target slots must have no or one axis, not the shape (1, 1)"),
    (np.zeros((0, 2), int), [], ValueError, "the source slots must have no or one axis, not the shape (0, 2)"),
    ([1, 2], [1], ValueError, "2 source slots and 1 target slots: give as many of either"),
    (1, [], ValueError, "1 source slots and 0 target slots: give as many of either"),
    (torch.tensor([1, 2, 3]), np.array([1]), ValueError, "3 source slots and 1 target slots: give as many of either"),
    (torch.zeros(1, dtype=torch.int64, device="meta"), 1, ValueError, "the source slots are on meta"),
]


@pytest.mark.parametrize(("sources", "targets", "error", "text"), BAD_SLOTS)
def test_slots_that_are_none_are_refused(
    sources: object, targets: object, error: type[Exception], text: str, device: torch.device
) -> None:
    before = pools.make("plain", torch.float16, 2, 1, 5, 7)
    found, lost = before.copy(device), torch.zeros(1, dtype=torch.int32, device=device)
    for call in (
        QuantizeStore(found.active, found.codes, found.scales, lost),
        DequantizeLoad(found.codes, found.scales, found.active),
    ):
        with pytest.raises(error) as refusal:
            call(sources, targets)
        assert str(refusal.value).startswith(text)
    assert found.same_bytes(before)
    assert lost.item() == 0


@pytest.mark.parametrize(
    ("shape", "strides", "wide"),
    [
        ((1, 2, 1, 128, 64), (0, 64, 0, 2**24, 1), False),
        ((1, 2, 1, 129, 64), (0, 64, 0, 2**24, 1), True),
        ((1, 2, 1, 129, 1), (0, 64, 0, 2**24, 1), True),
        ((1, 2, 1, 3, 64), (0, 64, 0, 2**30 - 32, 1), False),
        ((1, 2, 1, 3, 64), (0, 64, 0, 2**30 - 31, 1), True),
        ((1, 2, 1, 3, 65), (0, 64, 0, 2**30 - 32, 1), True),
        ((9, 9, 9, 128, 128), (2**40, 2**40, 2**40, 128, 1), False),
        ((1, 1, 1, 1, 1), (2**40, 2**40, 2**40, 2**40, 2**40), False),
        ((1, 1, 1, 1, 2), (0, 0, 0, 0, 2**31 - 1), False),
        ((1, 1, 1, 1, 2), (0, 0, 0, 0, 2**31), True),
        ((1, 1, 1, 2, 2), (0, 0, 0, 2**30, 2**30), True),
    ],
)
def test_wide_offsets_are_told(shape: tuple[int, ...], strides: tuple[int, ...], wide: bool) -> None:
    """Is the furthest element of a head 2**31 elements off its first?"""
    far = torch.empty_strided(shape, strides, dtype=torch.int8, device="meta")
    assert is_wide(far, (3, 4)) == wide
    assert wide == ((shape[3] - 1) * strides[3] + (shape[4] - 1) * strides[4] >= 2**31)


@pytest.mark.parametrize("dtype", oracles.DTYPES, ids=str)
def test_a_number_that_no_pool_has_is_left_out_on_the_device(dtype: torch.dtype, device: torch.device) -> None:
    """What a launch does with a padded list: from the host such a list is refused before."""
    before = pools.make("slot-major", dtype, 2, 3, 5, 7)
    found, lost = before.copy(device), torch.zeros(1, dtype=torch.int32, device=device)
    sources, targets = [-1, 4, 5, 0, 2], [0, 1, 2, -1, 4]
    lists = [torch.tensor(slots, device=device) for slots in (sources, targets)]
    store = QuantizeStore(found.active, found.codes, found.scales, lost)
    load = DequantizeLoad(found.codes, found.scales, found.active)
    for copy, given in ((store, lists), (load, lists[::-1])):
        if device.type == "cpu":
            with pytest.raises(ValueError, match="slots are 0 to"):
                copy(*given)
            assert found.same_bytes(before)
    if not (device.type == "cuda" or interpreter.is_on()):
        return
    ((each, prepared),) = store.launches
    prepared.launch(each * 5, *lists, 5)
    expected, gone = expect_store(before, [4], [1])
    assert found.same_bytes(expected)
    assert lost.tolist() == [gone]
    ((each, prepared),) = load.launches
    prepared.launch(each * 5, *lists[::-1], 5)
    assert found.same_bytes(expect_load(expected, [1], [4]))


@pytest.mark.parametrize(
    ("sources", "targets", "text"),
    [
        (-1, 0, "the source slots are 0 to 4, not -1"),
        (0, 4, "the target slots are 0 to 3, not 4"),
        ([0, 5], [0, 1], "the source slots are 0 to 4, not 5"),
        (np.int64(-3), 1, "the source slots are 0 to 4, not -3"),
        ([0, 1], [3, 3], "target slot 3 is given more than once"),
    ],
)
def test_slots_of_no_pool_are_refused(sources: object, targets: object, text: str, device: torch.device) -> None:
    before = pools.make("plain", torch.bfloat16, 1, 2, 5, 7)
    found = before.copy(device)
    with pytest.raises(ValueError, match=text):
        quantize_store(found.active, found.codes, found.scales, sources, targets)
    assert found.same_bytes(before)


def test_meta_pools_are_checked_and_nothing_more() -> None:
    made = pools.make("plain", torch.bfloat16, 1, 2, 5, 7).copy("meta")
    quantize_store(made.active, made.codes, made.scales, [0, 4], [1, 2])
    dequantize_load(made.codes, made.scales, made.active, 1, 4)
    with pytest.raises(ValueError, match="the target slots are 0 to 4, not 5"):
        dequantize_load(made.codes, made.scales, made.active, 1, 5)


def test_more_programs_than_a_launch_has_are_refused() -> None:
    heads, count = 2**22, 600
    active = torch.zeros((2, count, heads, 1, 1), dtype=torch.float32, device="meta")
    codes, scales = torch.zeros_like(active, dtype=torch.int8), torch.zeros_like(active[..., 0])
    most = (2**31 - 1) // (2 * heads)
    with pytest.raises(ValueError, match=f"{most + 1} slots in one call: at most {most} go into one launch"):
        QuantizeStore(active, codes, scales)(range(most + 1), range(most + 1))
    QuantizeStore(active, codes, scales)(range(most), range(most))


def test_pools_of_autograd_are_refused() -> None:
    made = pools.make("plain", torch.bfloat16, 1, 2, 5, 7)
    with pytest.raises(KernelArgumentError, match="pools are plain strided tensors"):
        QuantizeStore(made.active.clone().requires_grad_(), made.codes, made.scales)


def test_what_is_written_has_a_place_for_each_element(device: torch.device) -> None:
    made = pools.make("plain", torch.bfloat16, 1, 2, 5, 7).copy(device)
    for active, codes, scales, text in (
        (made.active, made.codes[:, :, :, :1].expand(made.codes.shape), made.scales, "several elements of which"),
        (made.active, made.codes, made.scales[..., :1].expand(made.scales.shape), "several elements of which"),
        (made.active, made.codes, made.buffers[1].view(torch.bfloat16)[:56].reshape(1, 4, 2, 7), "share bytes"),
        (made.active, made.buffers[0].view(torch.int8)[:280].reshape(1, 4, 2, 5, 7), made.scales, None),
    ):
        if text is not None:
            with pytest.raises(KernelArgumentError, match=text):
                QuantizeStore(active, codes, scales)
            continue
        store = QuantizeStore(active, codes, scales)
        with pytest.raises(ValueError, match="target slot 1 lies over a slot that the same call reads"):
            store(0, 1)
        store(4, 1)


@pytest.mark.parametrize("what", ["active", "codes", "scales", "lost"])
def test_what_is_no_tensor_is_refused(what: str) -> None:
    made = pools.make("plain", torch.bfloat16, 1, 2, 5, 7)
    given = {"active": made.active, "codes": made.codes, "scales": made.scales, "lost": None, what: np.zeros(3)}
    with pytest.raises(KernelArgumentError, match=f"{what} is a ndarray, not a torch tensor"):
        QuantizeStore(**given)
