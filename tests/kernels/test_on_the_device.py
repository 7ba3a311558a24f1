"""On a CUDA device torch and the kernels give the bytes of the CPU: all of the 16-bit formats, and wide pools too."""

from __future__ import annotations

import numpy as np
import oracles
import pools
import pytest
import states
import torch
from torch import Tensor

from poolproof.kernels import codec
from poolproof.kernels.codec import dequantize, quantize
from poolproof.kernels.dequantize_load import DequantizeLoad
from poolproof.kernels.layout import is_wide
from poolproof.kernels.quantize_store import QuantizeStore

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
NARROW = [torch.bfloat16, torch.float16]
DEVICE = torch.device("cuda")


def same(a: Tensor, b: Tensor) -> bool:
    """Are the bits the same?"""
    if a.dtype in codec.BITS:
        a, b = a.view(codec.BITS[a.dtype]), b.view(codec.BITS[b.dtype])
    return torch.equal(a, b)


def checkpoints(active: Tensor) -> tuple[Tensor, Tensor]:
    """Codes and scales for a pool of as many slots."""
    codes = torch.full(active.shape, 55, dtype=torch.int8, device=active.device)
    return codes, torch.ones((*active.shape[:3], active.shape[4]), dtype=active.dtype, device=active.device)


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_every_maximum_with_every_element(dtype: torch.dtype) -> None:
    """Row 0 of a channel is its maximum, the others are 127 numbers; above the maximum they are cut down to it.

    Half of the columns have all signs turned. Torch's bytes on the device are the kernel's, and the integers' of some.
    """
    top, rows, heads = oracles.infinity(dtype), 128, 32
    amax = torch.arange(top, device=DEVICE, dtype=torch.int16)
    sign = torch.where(amax % 2 == 1, -0x8000, 0).to(torch.int16)
    blocks = -(-top // (rows - 1))
    for first in range(0, blocks, heads):
        count = min(heads, blocks - first)
        at = first * (rows - 1) + torch.arange(count * (rows - 1), device=DEVICE).reshape(count, rows - 1)
        element = torch.minimum(at[:, :, None].to(torch.int32), amax.int()).to(torch.int16)
        bits = torch.cat([amax.expand(count, 1, top), element], dim=1) | sign
        active = bits.view(dtype)[None, None]
        codes, scales = checkpoints(active)
        QuantizeStore(active, codes, scales)(0, 0)
        expected, scale = quantize(active[0, 0])
        assert same(codes[0, 0], expected)
        assert same(scales[0, 0], scale)
        loaded = torch.zeros_like(active)
        DequantizeLoad(codes, scales, loaded)(0, 0)
        assert same(loaded[0, 0], dequantize(expected, scale))
        if first % (4 * heads) == 0:
            some = bits[0, :, first % 37 :: 37].cpu().numpy().astype(np.int64) & 0xFFFF
            by_integers = oracles.stored(some, dtype)
            assert np.array_equal(expected[0, :, first % 37 :: 37].cpu().numpy(), by_integers[0])
            assert np.array_equal(oracles.bits_of(scale[0, first % 37 :: 37]), by_integers[1])


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_every_code_of_every_scale(dtype: torch.dtype) -> None:
    scale = np.unique(oracles.scales(np.arange(oracles.infinity(dtype)), dtype))
    codes = np.repeat(np.arange(-127, 128, dtype=np.int8)[:, None], len(scale), axis=1)
    on_device = torch.from_numpy(codes).to(DEVICE), oracles.tensor_of(scale, dtype).to(DEVICE)
    expected = oracles.loaded(codes, scale, dtype)
    assert np.array_equal(oracles.bits_of(dequantize(*on_device)), expected)
    active = torch.zeros((1, 1, 1, *codes.shape), dtype=dtype, device=DEVICE)
    DequantizeLoad(on_device[0][None, None, None], on_device[1][None, None, None], active)(0, 0)
    assert np.array_equal(oracles.bits_of(active[0, 0, 0]), expected)


@pytest.mark.parametrize("dtype", oracles.DTYPES, ids=str)
def test_torch_gives_the_bytes_of_the_cpu(dtype: torch.dtype) -> None:
    for seed, shape in enumerate([(3, 128, 128), (2, 100, 48), (5, 5, 7), (64, 128, 128)]):
        state = states.mixed(dtype, shape, seed)
        codes, scale = quantize(state)
        on_device = quantize(state.to(DEVICE))
        assert same(on_device[0].cpu(), codes)
        assert same(on_device[1].cpu(), scale)
        assert same(dequantize(*on_device).cpu(), dequantize(codes, scale))


def test_float32_elements_next_to_ties() -> None:
    """Random maxima of all exponents, elements on either side of half-integers times the scale: 4e7 of them."""
    rng = np.random.default_rng(1)
    for _ in range(10):
        amax = rng.integers(0, oracles.infinity(torch.float32), 1 << 15)
        scale = oracles.numbers(oracles.scales(amax, torch.float32), torch.float32)
        bits = states.thresholds(amax, scale, rng.integers(0, 127, 42), torch.float32)
        active = oracles.tensor_of(bits, torch.float32).to(DEVICE)[None, None, None]
        codes, scales = checkpoints(active)
        QuantizeStore(active, codes, scales)(0, 0)
        expected = quantize(active[0, 0, 0].cpu())
        assert same(codes[0, 0, 0].cpu(), expected[0])
        assert same(scales[0, 0, 0].cpu(), expected[1])


def test_nothing_waits_for_the_device() -> None:
    """No call reads anything back, whatever form its slots have."""
    made = pools.make("envelope", torch.bfloat16, 2, 3, 16, 32).copy(DEVICE)
    lost = torch.zeros(1, dtype=torch.int32, device=DEVICE)
    store = QuantizeStore(made.active, made.codes, made.scales, lost)
    load = DequantizeLoad(made.codes, made.scales, made.active)
    on_device = torch.tensor([1, 0], device=DEVICE, dtype=torch.int32)
    torch.cuda.set_sync_debug_mode("error")
    try:
        for slots in (0, [0, 1], np.array([2, 3]), on_device, on_device[0], torch.tensor([3, 1])):
            store(slots, slots)
            load(slots, slots)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_a_call_allocates_nothing() -> None:
    """With the slots in place, neither direction makes a temporary on the device."""
    active = torch.randn(2, 4, 3, 64, 32, device="cuda", dtype=torch.bfloat16)
    codes = torch.zeros(2, 4, 3, 64, 32, device="cuda", dtype=torch.int8)
    scales = torch.zeros(2, 4, 3, 32, device="cuda", dtype=torch.bfloat16)
    store, load = QuantizeStore(active, codes, scales), DequantizeLoad(codes, scales, active)
    slots = torch.arange(4, device="cuda")
    for call in (store, load):
        call(slots, slots)
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.max_memory_allocated()
        call(slots, slots)
        call(1, 2)
        assert torch.cuda.max_memory_allocated() == before


def test_slots_beyond_2_to_the_31_elements() -> None:
    """A pool of more than 2**31 elements: the highest slot is stored and loaded, and the lowest is not."""
    head = (2, 128, 128)
    slots = 2**31 // (2 * 128 * 128) + 2
    active = torch.zeros((1, slots, *head), dtype=torch.bfloat16, device=DEVICE)
    codes, scales = checkpoints(active)
    assert active.numel() > 2**31
    last = slots - 1
    active[0, last] = states.mixed(torch.bfloat16, head, 3).to(DEVICE)
    expected = quantize(active[0, last])
    store, load = QuantizeStore(active, codes, scales), DequantizeLoad(codes, scales, active)
    for source, target in ((last, last), ([last], torch.tensor([last - 1], device=DEVICE))):
        store(source, target)
        at = last if source == last else last - 1
        assert same(codes[0, at], expected[0])
        assert same(scales[0, at], expected[1])
        active[0, last - 2] = 1
        load(target, last - 2)
        assert same(active[0, last - 2], dequantize(*expected))
    assert (codes[0, : last - 1] == 55).all()
    assert not active[0, : last - 2].any()


@pytest.mark.parametrize("which", ["active", "codes"])
def test_rows_beyond_2_to_the_31_elements(which: str) -> None:
    """Views whose d_v stride takes a head past 2**31 elements."""
    shape, wide = (1, 2, 1, 129, 64), (0, 64, 0, 2**24, 1)
    dense = (2 * 129 * 64, 129 * 64, 129 * 64, 64, 1)
    dtypes = {"active": torch.bfloat16, "codes": torch.int8}
    made = {}
    for name, dtype in dtypes.items():
        size = 2**31 + 128 if name == which else 2 * 129 * 64
        buffer = torch.zeros(size, dtype=dtype, device=DEVICE)
        made[name] = buffer.as_strided(shape, wide if name == which else dense)
    active, codes = made["active"], made["codes"]
    assert is_wide(made[which], (3, 4))
    state = states.mixed(torch.bfloat16, shape, 8).to(DEVICE)
    active.copy_(state)
    scales = torch.zeros((1, 2, 1, 64), dtype=torch.bfloat16, device=DEVICE)
    QuantizeStore(active, codes, scales)([0, 1], [1, 0])
    expected = quantize(state.flip(1))
    assert torch.equal(codes, expected[0])
    assert same(scales, expected[1])
    DequantizeLoad(codes, scales, active)([0, 1], [0, 1])
    assert same(active.contiguous(), dequantize(*expected))


def test_a_stride_beyond_2_to_the_31_along_the_channels() -> None:
    """Scales too may lie far apart."""
    buffer = torch.zeros(2**31 + 8, dtype=torch.float16, device=DEVICE)
    scales = buffer.as_strided((1, 1, 1, 3), (0, 0, 0, 2**30))
    active = states.mixed(torch.float16, (1, 1, 1, 5, 3), 2).to(DEVICE)
    codes = torch.zeros_like(active, dtype=torch.int8)
    QuantizeStore(active, codes, scales)(0, 0)
    expected = quantize(active)
    assert same(scales.contiguous(), expected[1])
    loaded = torch.zeros_like(active)
    DequantizeLoad(codes, scales, loaded)(0, 0)
    assert same(loaded, dequantize(*expected))


def test_many_programs() -> None:
    """More programs than a second or third grid axis could have: 66 000 slots of one head each."""
    active = states.mixed(torch.bfloat16, (1, 66_000, 1, 5, 7), 4).to(DEVICE)
    codes, scales = checkpoints(active)
    slots = torch.randperm(66_000, device=DEVICE)
    QuantizeStore(active, codes, scales)(slots, slots.flip(0).contiguous())
    expected = quantize(active[:, slots])
    assert same(codes[:, slots.flip(0)], expected[0])
    assert same(scales[:, slots.flip(0)], expected[1])


def test_graphs_replay_both_directions() -> None:
    """Captured once; replayed with other slots in the same lists."""
    before = pools.make("plain", torch.bfloat16, 2, 3, 16, 64)
    found = before.copy(DEVICE)
    store = QuantizeStore(found.active, found.codes, found.scales)
    load = DequantizeLoad(found.codes, found.scales, found.active)
    slots, targets = torch.tensor([0, 1], device=DEVICE), torch.tensor([2, 3], device=DEVICE)
    store(slots, targets)
    load(targets, slots)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        store(slots, targets)
        load(targets, slots)
    slots.copy_(torch.tensor([4, 2]))
    targets.copy_(torch.tensor([1, 0]))
    graph.replay()
    expected = quantize(before.active[:, [4, 2]])
    assert same(found.codes[:, [1, 0]].cpu(), expected[0])
    assert same(found.active[:, [4, 2]].cpu(), dequantize(*expected))
