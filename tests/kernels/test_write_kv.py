"""Keys and values in pages of a buffer, byte by byte: each element is what numpy and ml_dtypes make of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import oracles
import pytest
import states
import torch
from torch import Tensor

from poolproof.kernels import write_kv
from poolproof.kernels.layout import KernelArgumentError
from poolproof.kernels.write_kv import WriteKV, read_kv_reference, write_kv_reference
from poolproof.page_views import KVViews, LatentViews, views
from poolproof.sub_pools import KVPages, LatentPages, Resolved, resolve

BF16, FP16, FP32, E4M3, E5M2 = torch.bfloat16, torch.float16, torch.float32, torch.float8_e4m3fn, torch.float8_e5m2
GIVEN, STORED = [BF16, FP16, FP32], [BF16, FP16, FP32, E4M3, E5M2]
FP8 = {E4M3: np.dtype(ml_dtypes.float8_e4m3fn), E5M2: np.dtype(ml_dtypes.float8_e5m2)}
INTS = {1: torch.uint8, 2: torch.int16, 4: torch.int32}
PAGES = 6

pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")  # numpy, of infinities and NaNs


def bits_of(tensor: Tensor) -> Tensor:
    """The same bytes as integers."""
    return tensor.view(INTS[tensor.element_size()])


def numbers_of(rows: Tensor) -> np.ndarray:
    """The exact numbers of a tensor, in float64."""
    return oracles.numbers(oracles.bits_of(rows), rows.dtype)


def stored(rows: Tensor, dtype: torch.dtype, scale: Tensor | None = None) -> Tensor:
    """The integers that rows (n, heads, elements) become in pages of a dtype."""
    if rows.dtype == dtype:
        return bits_of(rows.contiguous().cpu())
    wide = numbers_of(rows)
    with np.errstate(all="ignore"):
        if dtype in FP8:
            over = np.ones(1) if scale is None else scale.detach().cpu().double().numpy().reshape(-1)
            # A quotient in float64, rounded to float32, is the quotient of float32 numbers rounded once.
            wide = (wide / over[:, None]).astype(np.float32)
            largest = float(ml_dtypes.finfo(FP8[dtype]).max)
            bits = np.clip(wide, -largest, largest).astype(FP8[dtype]).view(np.uint8)
            return torch.from_numpy(np.where(np.isnan(wide), np.uint8(0x7F), bits))
        bits = np.ascontiguousarray(wide.astype(oracles.NUMPY[dtype])).view(oracles.unsigned(dtype))
    return bits_of(oracles.tensor_of(np.where(np.isnan(wide), oracles.NAN[dtype], bits), dtype))


@dataclass
class Pool:
    """A buffer with keys and values in it, of which the second layer is written."""

    buffer: Tensor
    resolved: Resolved

    def sides(self, buffer: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Pages of keys and of values, in this buffer or another one; latent rows have no values."""
        found = views(self.buffer if buffer is None else buffer, self.resolved)
        if isinstance(found, LatentViews):
            return found.latent[1], None
        assert isinstance(found, KVViews)
        return found.k[1], found.v[1]

    @property
    def tokens(self) -> int:
        """Physical tokens of the pool."""
        k = self.sides()[0]
        return k.shape[0] * k.shape[1]


def pool(
    dtype: torch.dtype, page_size: int, heads: int, dim: int, v_dim: int | None, device: torch.device, seed: int = 0
) -> Pool:
    """A pool of two layers over random bytes; of latent rows where values have no elements."""
    name = str(dtype).removeprefix("torch.")
    if v_dim is None:
        declared: Any = LatentPages("it", layers=2, latent_dim=dim, rope_dim=0, dtype=name, page_size=page_size)
    else:
        declared = KVPages(
            "it", layers=2, kv_heads=heads, head_dim=dim, v_head_dim=v_dim, dtype=name, page_size=page_size
        )
    resolved = resolve([declared])[0]
    generator = torch.Generator().manual_seed(seed)
    size = PAGES * resolved.page_bytes + 8
    return Pool(torch.randint(0, 256, (size,), dtype=torch.uint8, generator=generator).to(device), resolved)


def some_rows(dtype: torch.dtype, shape: tuple[int, ...], seed: int, device: torch.device) -> Tensor:
    """Numbers of like sizes, among them others of all sizes, NaNs and infinities."""
    rng = np.random.default_rng(seed)
    near = torch.from_numpy(rng.standard_normal(shape) * 2.0 ** rng.integers(-12, 9, shape)).to(dtype)
    far = states.mixed(dtype, shape, seed)
    return torch.where(torch.from_numpy(rng.random(shape) < 0.7), near, far).to(device)


def some_tokens(count: int, tokens: int, seed: int = 0) -> Tensor:
    """Distinct tokens, none of them the sink."""
    return torch.from_numpy(np.random.default_rng(seed).permutation(np.arange(1, tokens))[:count].copy())


def place(pages: Tensor, found: Tensor, rows: Tensor, tokens: list[int]) -> None:
    """Put integers where they belong, and into the sink what was found there, which one of its rows must have brought.

    Args:
        pages: [pages, page_size, heads, elements] of a copy of the bytes from before.
        found: the same pages after a call.
        rows: (n, heads, elements), as integers.
        tokens: n of them.
    """
    size, sink = pages.shape[1], []
    into, after = bits_of(pages), bits_of(found)
    for n, token in enumerate(tokens):
        if token <= 0 or token >= len(pages) * size:
            sink.append(rows[n])
        else:
            into[token // size, token % size] = rows[n].reshape(into.shape[2:])
    if sink:
        there = after[0, 0].cpu().reshape(rows.shape[1:])
        assert (torch.stack(sink) == there).any(0).all(), "an element of the sink is that of no row for it"
        into[0, 0] = there.reshape(into.shape[2:])


def write_and_compare(
    it: Pool, keys: Tensor, values: Tensor | None, tokens: Tensor, *scales: Tensor | None, write: Any = None
) -> None:
    """Write; every byte of the buffer is as expected, and so are the rows that were given."""
    before = [t.clone() for t in (keys, values, tokens) if t is not None]
    clone = it.buffer.cpu().clone()
    (write or WriteKV(*it.sides()))(keys, values, tokens, *scales)
    scales = (*scales, None, None)[:2]
    given = zip(it.sides(clone), it.sides(), (keys, values), scales, strict=True)
    for pages, found, rows, scale in given:
        if rows is not None:
            assert pages is not None
            assert found is not None
            wide = rows.reshape(len(rows), 1 if pages.dim() == 3 else pages.shape[2], -1)
            place(pages, found, stored(wide, pages.dtype, scale), tokens.tolist())
    assert torch.equal(it.buffer.cpu(), clone)
    after = [t for t in (keys, values, tokens) if t is not None]
    assert all(torch.equal(bits(a), bits(b)) for a, b in zip(after, before, strict=True))


def bits(tensor: Tensor) -> Tensor:
    """Integers, as they are or of the same bytes."""
    return bits_of(tensor) if tensor.is_floating_point() else tensor


SHAPES = [
    *((1, 1, 1, 1), (1, 3, 128, 5), (3, 3, 5, 2), (3, 1, 128, 64), (16, 1, 64, 64), (16, 3, 96, 80)),
    *((64, 3, 80, 128), (1, 1, 1, None), (3, 1, 80, None), (16, 1, 576, None), (16, 8, 256, 64)),
]


@pytest.mark.parametrize(("of", "to"), [(BF16, BF16), (FP32, E4M3)], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_any_shape(shape: tuple[int, int, int, int | None], of: torch.dtype, to: torch.dtype, device: Any) -> None:
    page_size, heads, dim, v_dim = shape
    it = pool(to, page_size, heads, dim, v_dim, device)
    tokens = some_tokens(19, it.tokens).to(device)
    keys = some_rows(of, (len(tokens), heads, dim), 1, device)
    values = None if v_dim is None else some_rows(of, (len(tokens), heads, v_dim), 2, device)
    write_and_compare(it, keys, values, tokens)


@pytest.mark.parametrize("to", STORED, ids=str)
@pytest.mark.parametrize("of", GIVEN, ids=str)
def test_any_dtype(of: torch.dtype, to: torch.dtype, device: torch.device) -> None:
    """Keys and values of two dtypes; rounded half to even, to subnormals, infinities or the largest number too."""
    it = pool(to, 3, 3, 80, 64, device)
    tokens = some_tokens(13, it.tokens).to(device)
    other = GIVEN[GIVEN.index(of) - 1]
    keys, values = some_rows(of, (13, 3, 80), 3, device), some_rows(other, (13, 3, 64), 4, device)
    write_and_compare(it, keys, values, tokens)


SCALES = {
    "none": None,
    "one": [1.0],
    "a third": [1 / 3],
    "tiny": [2.0**-140],
    "huge": [3e38],
    "each head": [0.013, 7.0, 1e-3],
    "odd ones": [0.0, float("nan"), -2.5],
    "ends": [float("inf"), 2.0**-149, 1.1754944e-38],
}


@pytest.mark.parametrize("dtype", FP8, ids=str)
@pytest.mark.parametrize("kind", SCALES)
def test_scales(kind: str, dtype: torch.dtype, device: torch.device) -> None:
    """Of all heads or of each, of keys or of values, whatever number it is, in turns for one binding."""
    numbers = SCALES[kind]
    scale = None if numbers is None else torch.tensor(numbers, device=device)
    other = torch.tensor(0.7, device=device)
    it = pool(dtype, 3, 3, 64, 5, device)
    tokens = some_tokens(7, it.tokens).to(device)
    keys, values = some_rows(BF16, (7, 3, 64), 5, device), some_rows(FP32, (7, 3, 5), 6, device)
    write = WriteKV(*it.sides())
    write_and_compare(it, keys, values, tokens, scale, other, write=write)
    write_and_compare(it, keys, values, tokens, other.reshape(1, 1), scale, write=write)
    if scale is not None and len(scale) == 3:
        spread = torch.stack([scale, other.expand(3)], 1)
        write_and_compare(it, keys, values, tokens, spread[:, 0], spread[:, 1], write=write)


@pytest.mark.parametrize("dtype", FP8, ids=str)
def test_fp8_numbers_ties_and_their_neighbours(dtype: torch.dtype, device: torch.device) -> None:
    """Of every fp8 number, over scales of powers of two, where quotients are exact, and others."""
    numbers = np.arange(0x80, dtype=np.uint8).view(FP8[dtype]).astype(np.float32)
    numbers = numbers[np.isfinite(numbers)]
    ties = np.concatenate([(numbers[:-1] + numbers[1:]) / 2, numbers[-1:] * np.float32(1.04)])
    near = np.concatenate([numbers, ties, np.nextafter(ties, np.float32(0)), np.nextafter(ties, np.float32(np.inf))])
    near = np.resize(np.concatenate([near, -near]), (8, 1, 128))
    it = pool(dtype, 16, 1, 128, 128, device)
    tokens = some_tokens(8, it.tokens).to(device)
    for scale in (1.0, 2.0**-9, 2.0**30, 0.37, 3.0):
        rows = torch.from_numpy(near * np.float32(scale)).to(device)
        one = torch.tensor([scale], device=device)
        write_and_compare(it, rows, rows, tokens, one, one)


@pytest.mark.parametrize("dtype", FP8, ids=str)
@pytest.mark.parametrize("of", [BF16, FP16], ids=str)
def test_every_number_of_16_bits_as_fp8(of: torch.dtype, dtype: torch.dtype, device: torch.device) -> None:
    every = torch.arange(-0x8000, 0x8000, dtype=torch.int32).to(torch.int16).view(of).reshape(32, 8, 256).to(device)
    it = pool(dtype, 16, 8, 256, 256, device)
    write_and_compare(it, every, every, some_tokens(32, it.tokens).to(device), None, torch.tensor(0.3, device=device))


NANS = {
    FP32: [0x7FC00000, 0xFFC00000, 0x7F800001, 0xFF812345, 0x7FFFFFFF],
    FP16: [0x7E00, 0xFE00, 0x7C01, 0xFD55, 0x7FFF],
    BF16: [0x7FC0, 0xFFC0, 0x7F81, 0xFFD5, 0x7FFF],
}


@pytest.mark.parametrize("to", STORED, ids=str)
@pytest.mark.parametrize("of", GIVEN, ids=str)
def test_nans(of: torch.dtype, to: torch.dtype, device: torch.device) -> None:
    """Quiet and signalling ones, with payloads and signs, are kept where the dtype is, or become one."""
    rows = oracles.tensor_of(np.array(NANS[of] * 4).reshape(4, 1, 5), of).to(device)
    pages = torch.zeros((3, 2, 1, 5), device=device).to(to)
    WriteKV(pages)(rows, None, torch.arange(1, 5, device=device))
    found = bits_of(pages).reshape(6, 5)[1:5].cpu()
    if of == to:
        assert torch.equal(found, bits_of(rows.cpu()).reshape(4, 5))
    else:
        assert (found == {**oracles.NAN, E4M3: 0x7F, E5M2: 0x7F}[to]).all()


PADDED = {
    "negative": [-1, -1, 7, -(2**31), 5],
    "beyond": [18, 17, 2**31 - 1, 19],
    "the sink": [0, 3],
    "one": [4, -1, 1],
    "all": [-1] * 40,
    "all sorts": [0, -5, 18, 11, 10, 1],
}


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32], ids=str)
@pytest.mark.parametrize("kind", PADDED)
def test_padding_goes_to_the_sink(kind: str, dtype: torch.dtype, device: torch.device) -> None:
    tokens = torch.tensor(PADDED[kind], dtype=dtype, device=device)
    for to in (BF16, E4M3):
        it = pool(to, 3, 2, 5, 64, device)
        assert it.tokens == 18
        keys, values = (some_rows(BF16, (len(tokens), 2, dim), dim, device) for dim in (5, 64))
        write_and_compare(it, keys, values, tokens)


def test_tokens_far_beyond_the_pages(device: torch.device) -> None:
    it = pool(BF16, 3, 2, 5, 5, device)
    tokens = torch.tensor([2**62, 2**32 + 3, -(2**63), 2**63 - 1, 4], device=device)
    keys = some_rows(BF16, (5, 2, 5), 1, device)
    write_and_compare(it, keys, keys, tokens)


def test_the_sink_stays_finite(device: torch.device) -> None:
    it = pool(E4M3, 1, 2, 64, 64, device)
    keys = 3e38 * torch.linspace(-1, 1, 50 * 2 * 64, device=device).reshape(50, 2, 64)
    WriteKV(*it.sides())(keys, keys, torch.full((50,), -1, device=device))
    assert all(side is not None and side[0].float().isfinite().all() for side in it.sides())


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32], ids=str)
def test_no_tokens_are_no_work(dtype: torch.dtype, device: torch.device) -> None:
    it = pool(BF16, 3, 2, 5, 64, device)
    before = it.buffer.clone()
    tokens = torch.zeros(0, dtype=dtype, device=device)
    WriteKV(*it.sides())(torch.zeros((0, 2, 5), device=device), torch.zeros((0, 2, 64), device=device), tokens)
    assert torch.equal(it.buffer, before)


def laid_out(rows: Tensor, kind: str) -> Tensor:
    """The same rows with other strides, or another alignment."""
    n, heads, dim = rows.shape
    if kind == "of a fused row":
        wide = rows.new_full((n, 2 * heads * dim + 8), 77)
        wide[:, 8 : 8 + heads * dim] = rows.reshape(n, -1)
        return wide[:, 8 : 8 + heads * dim].view(n, heads, dim)
    if kind == "heads first":
        return rows.transpose(0, 1).contiguous().transpose(0, 1)
    if kind == "one element on":
        wide = rows.new_full((rows.numel() + 1,), 77)
        wide[1:] = rows.reshape(-1)
        return wide[1:].view(n, heads, dim)
    if kind in ("odd steps", "odd steps and start"):
        start = int(kind == "odd steps and start")
        wide = rows.new_full((n, heads + 1, dim + 3), 77)
        wide[:, start : heads + start, start : dim + start] = rows
        return wide[:, start : heads + start, start : dim + start]
    if kind == "one row for all":
        return rows[:1].expand(n, heads, dim)
    return rows


LAYOUTS = [
    *("plain", "of a fused row", "heads first", "one element on", "odd steps", "odd steps and start"),
    *("one row for all", "plain"),
]


@pytest.mark.parametrize(("dtype", "dim", "v_dim"), [(BF16, 64, 128), (E4M3, 5, 80)], ids=str)
def test_one_binding_serves_rows_of_any_strides(dtype: torch.dtype, dim: int, v_dim: int, device: torch.device) -> None:
    """In turns, with counts of one and others, so that no call is launched as one before was that steps otherwise."""
    it = pool(dtype, 16, 3, dim, v_dim, device)
    write = WriteKV(*it.sides())
    for n, kind in enumerate(LAYOUTS):
        for count, other in ((17, kind), (1, LAYOUTS[n - 1]), (16, LAYOUTS[n - 1])):
            keys = laid_out(some_rows(BF16, (count, 3, dim), n, device), kind)
            values = laid_out(some_rows(BF16, (count, 3, v_dim), n + 10, device), other)
            tokens = some_tokens(count, it.tokens, n).to(device)
            if count == 17:
                tokens = torch.stack([tokens, tokens], 1)[:, 0].to(torch.int32 if n % 2 else torch.int64)
            write_and_compare(it, keys, values, tokens, write=write)


def test_calls_that_compile_differently_are_kept_apart(device: torch.device) -> None:
    """And no others: a launch is prepared once for rows of any number and strides that are aligned alike."""
    write = WriteKV(*pool(E4M3, 16, 3, 64, 64, device).sides())
    rows, tokens = torch.zeros((8, 3, 64), dtype=BF16, device=device), torch.arange(8, device=device)
    one, each = torch.ones(1, device=device), torch.ones(3, device=device)
    first = write.plan(rows, rows, tokens)[1]
    for like in ("of a fused row", "heads first", "plain"):
        assert write.plan(laid_out(rows, like)[:5], laid_out(rows, like)[:5], tokens[:5])[1] is first
    odd = [laid_out(rows, like) for like in ("one element on", "odd steps", "odd steps and start")]
    others = [(other, rows, tokens) for other in (*odd, rows.half(), rows.float())]
    others += [(rows, other, tokens) for other in (*odd, rows.half(), rows.float())]
    others += [(rows, rows, tokens.int()), (rows[:4], rows[:4], tokens[::2])]
    others += [(rows, rows, tokens, *scales) for scales in ((one, None), (None, one), (each, None), (each, one))]
    kept = [first, *(write.plan(*other)[1] for other in others)]
    assert len(set(map(id, kept))) == len(kept)


def test_rows_that_take_part_in_autograd(device: torch.device) -> None:
    it = pool(FP32, 3, 2, 5, 5, device)
    keys = torch.randn((4, 2, 5), device=device, requires_grad=True)
    write_and_compare(it, keys.detach(), keys.detach(), some_tokens(4, it.tokens).to(device))
    again = it.buffer.clone()
    WriteKV(*it.sides())(keys, keys * 1, some_tokens(4, it.tokens).to(device))
    assert torch.equal(it.buffer, again)


def test_rows_of_one_head_need_no_axis_for_it(device: torch.device) -> None:
    for it in (pool(FP16, 3, 1, 80, None, device), pool(E5M2, 3, 1, 80, 64, device)):
        tokens = some_tokens(9, it.tokens).to(device)
        keys = some_rows(FP16, (9, 80), 1, device)
        values = None if it.sides()[1] is None else some_rows(FP16, (9, 1, 64), 2, device)
        write_and_compare(it, keys, values, tokens)


@pytest.mark.parametrize("page_size", [1, 16])
def test_latent_rows_in_two_parts(page_size: int, device: torch.device) -> None:
    """The latent and the rotary key come apart: the parts of the pages are bound as those of keys and of values."""
    it = pool(BF16, page_size, 1, 80, None, device)
    latent = it.sides()[0]
    parts = some_rows(BF16, (5, 64), 1, device), some_rows(BF16, (5, 16), 2, device)
    tokens = some_tokens(5, it.tokens).to(device)
    WriteKV(latent[..., :64], latent[..., 64:])(*parts, tokens)
    assert torch.equal(bits_of(read_kv_reference(latent, tokens, dtype=BF16)), bits_of(torch.cat(parts, 1)))


def test_keys_and_values_in_turns(device: torch.device) -> None:
    """Of one tensor with an axis for both, wherever the axis is."""
    for axis in range(4):
        shape = [4, 3, 2, 8]
        shape.insert(axis, 2)
        both = torch.zeros(shape, dtype=BF16, device=device)
        k, v = both.select(axis, 0), both.select(axis, 1)
        tokens = some_tokens(6, 12).to(device)
        keys, values = some_rows(BF16, (6, 2, 8), 1, device), some_rows(BF16, (6, 2, 8), 2, device)
        WriteKV(k, v)(keys, values, tokens)
        for pages, rows in ((k, keys), (v, values)):
            assert torch.equal(bits_of(read_kv_reference(pages, tokens, dtype=BF16)), bits_of(rows))


@pytest.mark.parametrize("dtype", STORED, ids=str)
def test_the_reference_on_the_device(dtype: torch.dtype, device: torch.device) -> None:
    """In torch it is the same, on the CPU and on the device."""
    it = pool(dtype, 3, 3, 80, 5, device)
    scales = (torch.tensor([0.3, 7.0, 1.0], device=device), torch.tensor(3.0, device=device))

    def reference(*given: Any) -> None:
        write_kv_reference(*it.sides(), *given)

    keys, values = some_rows(FP32, (9, 3, 80), 3, device), some_rows(BF16, (9, 3, 5), 4, device)
    tokens = some_tokens(9, it.tokens).to(device)
    write_and_compare(it, keys, values, tokens, *(scales if dtype in FP8 else ()), write=reference)


@pytest.mark.parametrize("to", GIVEN, ids=str)
@pytest.mark.parametrize("of", STORED, ids=str)
def test_reading_back(of: torch.dtype, to: torch.dtype, device: torch.device) -> None:
    """All bytes there are: fp8 times the scale, rounded to float32 and then to the dtype; other numbers cast."""
    k, v = pool(of, 3, 2, 40, 6, device).sides()
    assert v is not None
    tokens = torch.tensor([5, 17, -1, 1, 0, 99], dtype=torch.int32, device=device)
    for pages, scale in ((k, torch.tensor([0.3, 7.0], device=device)), (v, torch.tensor(1 / 3, device=device))):
        rows = bits_of(pages.cpu())[[1, 5, 0, 0, 0, 0], [2, 2, 0, 1, 0, 0]]
        found = read_kv_reference(pages, tokens, scale if of in FP8 else None, to).cpu()
        if of in FP8:
            with np.errstate(all="ignore"):
                wide = rows.numpy().view(FP8[of]).astype(np.float32) * scale.cpu().numpy().reshape(-1, 1)
            expected = stored(torch.from_numpy(wide), to)
            if to == FP32:
                expected = torch.where(torch.from_numpy(np.isnan(wide)), 0x7FC00000, expected)
        else:
            expected = stored(rows.view(of), to)
        assert found.shape == (6, 2, pages.shape[-1])
        assert torch.equal(bits_of(found), expected)


def test_what_was_written_is_read_back_within_half_a_step(device: torch.device) -> None:
    it = pool(E4M3, 3, 2, 64, 64, device)
    k, v = it.sides()
    rows, scale = torch.randn((5, 2, 64), device=device), torch.tensor([0.02, 0.05], device=device)
    tokens = some_tokens(5, it.tokens).to(device)
    WriteKV(k, v)(rows, rows, tokens, scale, scale)
    error = (read_kv_reference(k, tokens, scale) - rows).abs()
    assert (error <= rows.abs() / 16 * 1.0001 + scale[:, None] * 2.0**-10).all()


PLAIN = torch.zeros((4, 3, 2, 8), dtype=BF16)
OVERLAPPING = torch.zeros(4 * 3 * 2 * 8, dtype=BF16).as_strided((4, 3, 2, 8), (24, 8, 8, 1))
BAD_PAGES = [
    ((3, None), "k_pages are a int, not a torch tensor"),
    ((PLAIN.int(), None), "k_pages are torch.int32; pages hold bfloat16, float16, float32, float8_e4m3fn or"),
    ((PLAIN[0, 0], None), "k_pages have the shape (2, 8); they have the axes (pages, page_size, kv_heads, head_dim)"),
    ((PLAIN[:0], None), "k_pages have the shape (0, 3, 2, 8); they have the axes"),
    ((PLAIN.transpose(2, 3), None), "k_pages have the strides (48, 16, 1, 8): the elements of a head must be without"),
    ((OVERLAPPING, None), "k_pages of the shape (4, 3, 2, 8) and strides (24, 8, 8, 1) have several elements in one"),
    ((PLAIN[:1].expand(4, 3, 2, 8), None), "k_pages of the shape (4, 3, 2, 8) and strides (0, 16, 8, 1) have several"),
    ((PLAIN.float().requires_grad_(), None), "k_pages are a plain strided tensor that takes no part in autograd"),
    ((PLAIN.to_sparse(), None), "k_pages are a plain strided tensor"),
    ((PLAIN, PLAIN.half()), "k_pages are torch.bfloat16 on cpu, v_pages torch.float16 on cpu: give both one dtype"),
    ((PLAIN, PLAIN.to("meta")), "k_pages are torch.bfloat16 on cpu, v_pages torch.bfloat16 on meta"),
    ((PLAIN, PLAIN[:, :2].clone()), "k_pages have the shape (4, 3, 2, 8), v_pages (4, 2, 2, 8): both have the axes"),
    ((PLAIN, PLAIN[:, :, :1].clone()), "k_pages have the shape (4, 3, 2, 8), v_pages (4, 3, 1, 8): both have the axes"),
    ((PLAIN, PLAIN), "k_pages and v_pages share bytes: they are 0 bytes apart, of the shapes (4, 3, 2, 8) and"),
    ((PLAIN[..., :5], PLAIN[..., 4:]), "k_pages and v_pages share bytes: they are 8 bytes apart"),
]


@pytest.mark.parametrize(("pages", "text"), BAD_PAGES, ids=range(len(BAD_PAGES)))
def test_pages_that_do_not_fit_are_refused(pages: tuple[Any, Any], text: str) -> None:
    with pytest.raises(KernelArgumentError) as refusal:
        WriteKV(*pages)
    assert str(refusal.value).startswith(text)


ROWS, TOKENS, ONE = torch.zeros((5, 2, 8), dtype=BF16), torch.arange(1, 6), torch.ones(1)
BAD_CALLS: list[tuple[tuple[Any, ...], type[Exception], str]] = [
    ((ROWS, ROWS, [1, 2, 3, 4, 5]), TypeError, "tokens are a torch tensor on cpu, not list; torch.tensor makes one"),
    ((ROWS, ROWS, TOKENS.float()), TypeError, "tokens are int64 or int32, not torch.float32"),
    ((ROWS, ROWS, TOKENS.to(torch.int16)), TypeError, "tokens are int64 or int32, not torch.int16"),
    ((ROWS, ROWS, TOKENS > 0), TypeError, "tokens are int64 or int32, not torch.bool"),
    ((ROWS, ROWS, TOKENS.to("meta")), KernelArgumentError, "tokens are on meta, the pages on cpu: move them"),
    ((ROWS, ROWS, TOKENS[:, None]), KernelArgumentError, "tokens have the shape (5, 1): give one axis"),
    ((ROWS, ROWS, TOKENS[:4]), ValueError, "5 keys for 4 tokens: give as many of either"),
    ((ROWS, ROWS[:4], TOKENS), ValueError, "4 values for 5 tokens: give as many of either"),
    ((ROWS[:, :1], ROWS, TOKENS), KernelArgumentError, "keys have the shape (5, 1, 8): k_pages of the shape (4, 3, 2"),
    ((ROWS, ROWS[..., :7], TOKENS), KernelArgumentError, "values have the shape (5, 2, 7): v_pages of the shape (4, 3"),
    ((ROWS.reshape(5, 16), ROWS, TOKENS), KernelArgumentError, "keys have the shape (5, 16): k_pages of the shape"),
    ((ROWS.double(), ROWS, TOKENS), KernelArgumentError, "keys are torch.float64 on cpu: give bfloat16, float16 or"),
    ((ROWS.to(E4M3), ROWS, TOKENS), KernelArgumentError, "keys are torch.float8_e4m3fn on cpu: give bfloat16"),
    ((ROWS, ROWS.to("meta"), TOKENS), KernelArgumentError, "values are torch.bfloat16 on meta: give bfloat16"),
    (
        (ROWS, None, TOKENS),
        KernelArgumentError,
        "values are a NoneType, not a torch tensor; bound pages take (5, 2, 8)",
    ),
    ((None, ROWS, TOKENS), KernelArgumentError, "keys are a NoneType, not a torch tensor"),
    (
        (torch.zeros((5, 2, 16), dtype=BF16)[..., ::2], ROWS, TOKENS),
        KernelArgumentError,
        "keys have the strides (32, 16, 2)",
    ),
    (
        (torch.zeros((5, 2, 8), dtype=torch.complex64).conj().imag, ROWS, TOKENS),
        KernelArgumentError,
        "keys have the strides (32, 16, 2): the last axis must be without gaps",
    ),
    ((ROWS, ROWS, TOKENS, 1.0), KernelArgumentError, "the scale of keys is a float: give a float32 tensor on cpu"),
    ((ROWS, ROWS, TOKENS, ONE.double()), KernelArgumentError, "the scale of keys is torch.float64 on cpu: give"),
    ((ROWS, ROWS, TOKENS, None, ONE.to("meta")), KernelArgumentError, "the scale of values is torch.float32 on meta"),
    ((ROWS, ROWS, TOKENS, torch.ones(3)), KernelArgumentError, "the scale of keys has the shape (3,): give one elem"),
    ((ROWS, ROWS, TOKENS, torch.ones(2, 1)), KernelArgumentError, "the scale of keys has the shape (2, 1): give one"),
]


@pytest.mark.parametrize(("given", "error", "text"), BAD_CALLS, ids=range(len(BAD_CALLS)))
def test_what_does_not_fit_is_refused_and_nothing_written(
    given: tuple[Any, ...], error: type[Exception], text: str, device: torch.device
) -> None:
    if device.type == "cuda":
        pytest.skip("the messages name the CPU")
    k, v = (torch.full((4, 3, 2, 8), 7.0).to(E4M3) for _ in range(2))
    with pytest.raises(error) as refusal:
        WriteKV(k, v)(*given)
    assert str(refusal.value).startswith(text)
    assert (k.float() == 7).all()
    assert (v.float() == 7).all()


def test_only_fp8_takes_a_scale_and_only_bound_values_are_taken() -> None:
    k, v = PLAIN.clone(), PLAIN.clone()
    with pytest.raises(KernelArgumentError, match="a scale for values, but v_pages are torch"):
        WriteKV(k, v)(ROWS, ROWS, TOKENS, None, ONE)
    for more in ((ROWS, None, None), (None, None, ONE)):
        with pytest.raises(KernelArgumentError, match="but no v_pages are bound: pass None for both"):
            WriteKV(k)(ROWS, more[0], TOKENS, *more[1:])
    with pytest.raises(KernelArgumentError, match="a scale for rows, but pages are torch"):
        read_kv_reference(k, TOKENS, ONE)
    with pytest.raises(KernelArgumentError, match="rows are read as bfloat16, float16 or float32, not"):
        read_kv_reference(k, TOKENS, dtype=E4M3)
    with pytest.raises(TypeError, match="tokens are int64 or int32"):
        read_kv_reference(k, TOKENS.float())


def test_more_tokens_than_go_into_a_launch_are_refused(monkeypatch: pytest.MonkeyPatch, device: torch.device) -> None:
    if device.type == "cpu" and not write_kv.interpreter.is_on():
        pytest.skip("torch has no launch")
    monkeypatch.setattr(write_kv, "MOST", 3)
    it = pool(BF16, 3, 1, 64, 64, device)
    most = write_kv.BLOCK // 64
    write, rows = WriteKV(*it.sides()), torch.zeros((most + 1, 64), dtype=BF16, device=device)
    tokens = torch.full((most + 1,), -1, device=device)
    write(rows[1:], rows[1:], tokens[1:])
    with pytest.raises(ValueError, match=f"{most + 1} tokens in one call: at most {most} go into a launch"):
        write(rows, rows, tokens)


def test_meta_pages_are_checked_and_nothing_more() -> None:
    pages, rows, tokens = (t.to("meta") for t in (PLAIN, ROWS, TOKENS))
    write = WriteKV(pages, pages)
    write(rows, rows, tokens)
    with pytest.raises(ValueError, match="5 keys for 4 tokens"):
        write(rows, rows, tokens[:4])


@pytest.mark.parametrize(
    ("size", "columns"),
    [(1, 1), (5, 8), (64, 64), (80, 128), (240, 256), (256, 256), (576, 64), (640, 128), (1024, 1024), (2048, 1024)],
)
def test_programs_leave_few_threads_idle(size: int, columns: int) -> None:
    assert write_kv._columns(size) == columns


on_the_device = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


class TestOnTheDevice:
    """What only a CUDA device can tell."""

    pytestmark = on_the_device
    device = torch.device("cuda")

    def given(self, it: Pool, count: int, seed: int) -> list[Tensor]:
        """Keys, values and tokens."""
        k, v = it.sides()
        assert v is not None
        keys = some_rows(BF16, (count, *k.shape[2:]), seed, self.device)
        values = some_rows(BF16, (count, *v.shape[2:]), seed + 1, self.device)
        return [keys, values, some_tokens(count, it.tokens, seed).to(self.device)]

    @pytest.mark.parametrize("dtype", [BF16, E4M3, E5M2], ids=str)
    def test_graphs_replay_with_other_tokens(self, dtype: torch.dtype) -> None:
        """Captured once, under an alarm for synchronisations; replayed with other rows, tokens and scales in place."""
        it = pool(dtype, 16, 3, 128, 64, self.device)
        given = self.given(it, 40, 1)
        scales = [torch.tensor([0.5, 2.0, 0.3], device=self.device), torch.tensor(0.7, device=self.device)]
        scales = scales if dtype in FP8 else []
        write = WriteKV(*it.sides())
        write(*given, *scales)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            torch.cuda.set_sync_debug_mode("error")
            try:
                write(*given, *scales)
            finally:
                torch.cuda.set_sync_debug_mode("default")
        others = self.given(it, 40, 7)
        others[2][3], others[2][9] = -1, 10**9

        def replay(*_: Any) -> None:
            for old, new in zip(given, others, strict=True):
                old.copy_(new)
            for scale in scales:
                scale.mul_(3)
            graph.replay()

        new_scales = [scale * 3 for scale in scales]
        write_and_compare(it, *others, *new_scales, write=replay)

    def test_nothing_waits_and_nothing_is_allocated(self) -> None:
        for dtype in (BF16, E5M2):
            it = pool(dtype, 16, 3, 128, 64, self.device)
            keys, values, tokens = self.given(it, 40, 1)
            one = torch.ones(1, device=self.device) if dtype == E5M2 else None
            write = WriteKV(*it.sides())
            torch.cuda.set_sync_debug_mode("error")
            try:
                write(keys, values, tokens, one)
                torch.cuda.reset_peak_memory_stats()
                before = torch.cuda.max_memory_allocated()
                write(keys, values, tokens, one)
                write(keys[:3], values[:3], tokens[:3], one)
                assert torch.cuda.max_memory_allocated() == before
            finally:
                torch.cuda.set_sync_debug_mode("default")

    def test_many_tokens(self) -> None:
        """More programs than a second or third grid axis could have, and all elements by torch."""
        k, v = (torch.zeros((70_000, 16, 2, dim), dtype=E4M3, device=self.device) for dim in (64, 5))
        count = 1_000_003
        keys, values = (torch.randn((count, 2, dim), dtype=BF16, device=self.device) * 100 for dim in (64, 5))
        tokens = torch.randperm(70_000 * 16, device=self.device)[:count]
        scale = torch.tensor([0.3, 1.7], device=self.device)
        WriteKV(k, v)(keys, values, tokens, scale, scale)
        expected = [torch.zeros_like(k), torch.zeros_like(v)]
        write_kv_reference(expected[0], expected[1], keys, values, tokens, scale, scale)
        assert torch.equal(bits_of(k), bits_of(expected[0]))
        assert torch.equal(bits_of(v), bits_of(expected[1]))

    @pytest.mark.parametrize("dtype", [BF16, E4M3], ids=str)
    def test_pages_beyond_2_to_the_31_bytes_and_elements(self, dtype: torch.dtype) -> None:
        """The last pages of such a buffer, and those about 2**31 bytes, are written, and nothing else is."""
        page = 16 * 2 * 128
        pages = 2**31 // (2 * page) + 4
        buffer = torch.zeros(pages * 2 * page, dtype=torch.int16 if dtype == BF16 else torch.uint8, device=self.device)
        assert buffer.numel() > 2**31
        k, v = (
            buffer.view(dtype).as_strided((pages, 16, 2, 128), (2 * page, 256, 128, 1), start) for start in (0, page)
        )
        last, half = pages * 16, 2**30 // (2 * page) * 16
        tokens = torch.tensor([1, last - 1, half - 1, half, half + 1, last - 49, last], device=self.device)
        rows = torch.randn((2, 7, 2, 128), dtype=BF16, device=self.device)
        WriteKV(k, v)(*rows, tokens)
        assert torch.equal(read_kv_reference(k, tokens).to(dtype).float(), rows[0].float().to(dtype).float())
        assert torch.equal(read_kv_reference(v, tokens).to(dtype).float(), rows[1].float().to(dtype).float())
        written = sum(int(torch.count_nonzero(bits_of(row.float().to(dtype)))) for row in rows)
        assert int(torch.count_nonzero(buffer)) == written

    def test_steps_beyond_2_to_the_31_elements(self) -> None:
        """Of rows and of pages: a page, a head and a token each lie so far apart."""
        far = 2**31 + 64
        wide = torch.zeros(far + 2 * 64, dtype=BF16, device=self.device)
        rows = wide.as_strided((2, 2, 64), (far, 64, 1))
        rows.copy_(torch.randn((2, 2, 64)))
        heads_apart = wide.as_strided((2, 2, 64), (64, far, 1))
        into = torch.zeros(far + 2 * 64, dtype=BF16, device=self.device)
        tokens = torch.tensor([1, 0], device=self.device)
        for strides in ((far, 64, 64, 1), (64, 64, far, 1)):
            pages = into.zero_().as_strided((2, 1, 2, 64), strides)
            for given in (rows, heads_apart):
                WriteKV(pages)(given, None, tokens)
                assert torch.equal(read_kv_reference(pages, tokens, dtype=BF16), given)
