"""Views of one buffer against the layout's own arithmetic: byte by byte, on the CPU and on the meta device."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from poolproof.errors import LayoutError
from poolproof.page_views import (
    CheckpointViews,
    KVViews,
    LatentViews,
    PageViews,
    StateViews,
    TokenRows,
    Views,
    token_rows,
    views,
)
from poolproof.spec.shapes import ITEM_BYTES
from poolproof.sub_pools import (
    Checkpoints,
    Declaration,
    KVPages,
    LatentPages,
    Pages,
    Resolved,
    StateSlots,
    WindowPages,
    resolve,
)

INTS = {1: torch.uint8, 2: torch.int16, 4: torch.int32}
FILL = 0xA5


def falcon(**changes: Any) -> StateSlots:
    """A Mamba-2 state whose sizes are all different and none of them even."""
    values: dict[str, Any] = {
        "layers": 3,
        "conv_shapes": [(11, 3), (7, 1)],
        "temporal_shape": (3, 5, 9),
        "conv_dtype": "bfloat16",
        "temporal_dtype": "float32",
        "grows": "down",
    }
    return StateSlots("state", **{**values, **changes})


def keys(**changes: Any) -> KVPages:
    """Keys and values, longer keys than values."""
    values: dict[str, Any] = {"layers": 2, "kv_heads": 3, "head_dim": 5, "v_head_dim": 2, "dtype": "bfloat16"}
    return KVPages("full", **{"page_size": 4, **values, **changes})


def chain(**changes: Any) -> list[Declaration]:
    """A sub-pool of every kind."""
    return [
        keys(**changes),
        WindowPages("window", layers=3, kv_heads=1, head_dim=6, dtype="float8_e4m3fn", grows="float"),
        LatentPages("latent", layers=2, latent_dim=7, rope_dim=2, dtype="float16", page_size=3, grows="float"),
        Checkpoints("checkpoint"),
        Pages("other", bytes=13, grows="float"),
        falcon(),
    ]


CHAIN = {found.name: found for found in resolve(chain())}


def buffer_of(total: int) -> Tensor:
    """A buffer of so many bytes, all of them FILL."""
    return torch.full((total,), FILL, dtype=torch.uint8)


def parts_of(seen: Views) -> list[Tensor]:
    """The parts in the order of the layout, each [layers, pages, ...]."""
    match seen:
        case KVViews():
            return [torch.stack(seen.k), torch.stack(seen.v)]
        case LatentViews():
            return [torch.stack(seen.latent)]
        case StateViews():
            return [seen.temporal, *seen.conv]
        case CheckpointViews():
            return [seen.codes, seen.scales, *seen.conv]
    return [seen.pages[None]]


def tensors_of(seen: Views | TokenRows) -> list[Tensor]:
    """All the tensors of some views."""
    values = list(vars(seen).values())
    return [t for value in values for t in (value if isinstance(value, tuple) else (value,)) if isinstance(t, Tensor)]


def raw(tensor: Tensor) -> Tensor:
    """The same elements as plain integers."""
    return tensor.view(INTS[tensor.element_size()])


def row_bytes(tensor: Tensor) -> bytes:
    """The elements in order, as they lie in memory."""
    data: bytes = raw(tensor.contiguous()).numpy().tobytes()
    return data


def rows_of(found: Resolved, pages: int) -> Iterator[tuple[int, int, int, int, int]]:
    """(page, layer, part, row, first byte) of every row, by the layout's own arithmetic."""
    for page in range(pages):
        for layer in range(found.layout.layers):
            for number, part in enumerate(found.layout.parts):
                for row in range(part.rows):
                    yield page, layer, number, row, found.layout.row_start(page, layer, number, row)


def check_round_trip(found: Resolved, total: int) -> None:
    """Give every element of every view a number, and find its bytes where the layout says; all else is untouched."""
    buffer = buffer_of(total)
    seen = views(buffer, found)
    count = 1
    for tensor in tensors_of(seen):
        numbers = torch.arange(count, count + tensor.numel(), dtype=torch.int32).reshape(tensor.shape)
        raw(tensor).copy_(numbers.to(INTS[tensor.element_size()]))
        count += tensor.numel()
    memory, parts, expected = buffer.numpy().tobytes(), parts_of(seen), bytearray([FILL]) * total
    for page, layer, number, row, start in rows_of(found, total // found.page_bytes):
        part = found.layout.parts[number]
        stored = row_bytes(parts[number][layer, page].reshape(part.rows, -1)[row])
        assert len(stored) == part.row_bytes
        assert memory[start : start + len(stored)] == stored
        expected[start : start + len(stored)] = stored
    assert memory == bytes(expected)


# ---------------------------------------------------------------------------------------------------------- the shapes


def test_shapes_and_dtypes_of_every_kind() -> None:
    buffer = buffer_of(20_000)
    pages = {name: 20_000 // found.page_bytes for name, found in CHAIN.items()}
    full = views(buffer, CHAIN["full"])
    assert isinstance(full, KVViews)
    assert [tuple(t.shape) for t in full.k] == [(pages["full"], 4, 3, 5)] * 2
    assert [tuple(t.shape) for t in full.v] == [(pages["full"], 4, 3, 2)] * 2
    assert {t.dtype for t in tensors_of(full)} == {torch.bfloat16}
    window = views(buffer, CHAIN["window"])
    assert isinstance(window, KVViews)
    assert [tuple(t.shape) for t in (*window.k, *window.v)] == [(pages["window"], 4, 1, 6)] * 6
    assert {t.dtype for t in tensors_of(window)} == {torch.float8_e4m3fn}
    latent = views(buffer, CHAIN["latent"])
    assert isinstance(latent, LatentViews)
    assert [(tuple(t.shape), t.dtype) for t in latent.latent] == [((pages["latent"], 3, 9), torch.float16)] * 2
    other = views(buffer, CHAIN["other"])
    assert isinstance(other, PageViews)
    assert (tuple(other.pages.shape), other.pages.dtype) == ((pages["other"], 13), torch.uint8)


def test_shapes_of_states_and_checkpoints() -> None:
    buffer = buffer_of(20_000)
    slots = 20_000 // CHAIN["state"].page_bytes
    state = views(buffer, CHAIN["state"])
    assert isinstance(state, StateViews)
    assert (tuple(state.temporal.shape), state.temporal.dtype) == ((3, slots, 3, 5, 9), torch.float32)
    assert [tuple(t.shape) for t in state.conv] == [(3, slots, 11, 3), (3, slots, 7, 1)]
    assert {t.dtype for t in state.conv} == {torch.bfloat16}
    saved = 20_000 // CHAIN["checkpoint"].page_bytes
    checkpoint = views(buffer, CHAIN["checkpoint"])
    assert isinstance(checkpoint, CheckpointViews)
    assert (tuple(checkpoint.codes.shape), checkpoint.codes.dtype) == ((3, saved, 3, 5, 9), torch.int8)
    assert (tuple(checkpoint.scales.shape), checkpoint.scales.dtype) == ((3, saved, 3, 9), torch.float32)
    assert [tuple(t.shape) for t in checkpoint.conv] == [(3, saved, 11, 3), (3, saved, 7, 1)]


def test_checkpoints_of_stated_bytes_are_pages() -> None:
    (found,) = resolve([Checkpoints("saved", bytes=10, grows="up")])
    seen = views(buffer_of(35), found)
    assert isinstance(seen, PageViews)
    assert seen.pages.shape == (3, 10)


def test_a_stage_without_layers_has_no_tensors_to_write() -> None:
    declared = [keys(layers=0), Checkpoints("checkpoint"), falcon(layers=0)]
    full, checkpoint, state = (views(buffer_of(5000), found) for found in resolve(declared))
    assert isinstance(full, KVViews)
    assert (full.k, full.v) == ((), ())
    assert isinstance(state, StateViews)
    assert state.temporal.shape[0] == 0
    assert state.temporal.shape[2:] == (3, 5, 9)
    assert sum(t.numel() for t in (*tensors_of(checkpoint), *tensors_of(state))) == 0


def test_the_results_are_frozen() -> None:
    seen = views(buffer_of(100), CHAIN["other"])
    with pytest.raises(AttributeError):
        seen.pages = buffer_of(3)  # type: ignore[misc, union-attr]


# ----------------------------------------------------------------------------------------------------------- the bytes


@pytest.mark.parametrize("name", CHAIN)
@pytest.mark.parametrize("spare", [0, 1, 7])
def test_every_byte_is_where_the_layout_says(name: str, spare: int) -> None:
    check_round_trip(CHAIN[name], 3 * CHAIN[name].page_bytes + spare)


@pytest.mark.parametrize("align", [4, 8])
def test_so_it_is_with_padding(align: int) -> None:
    (found,) = resolve([keys(page_size=1, align=align)])
    assert found.page_bytes > 2 * 3 * 7 * 2
    check_round_trip(found, 3 * found.page_bytes + 1)
    state = falcon(conv_shapes=[(11, 3)], temporal_shape=(1, 5, 9), grows="up", align=64)
    check_round_trip(resolve([state])[0], 1600)


@pytest.mark.parametrize("dtype", sorted(ITEM_BYTES))
@pytest.mark.parametrize("page_size", [1, 4])
def test_so_it_is_for_every_dtype(dtype: str, page_size: int) -> None:
    (found,) = resolve([keys(dtype=dtype, page_size=page_size)])
    check_round_trip(found, 4 * found.page_bytes)


sizes = st.integers(1, 5)


@st.composite
def some_pool(draw: st.DrawFn) -> Resolved:
    """A small sub-pool of any kind."""
    layers, dtype = draw(st.integers(1, 3)), draw(st.sampled_from(sorted(ITEM_BYTES)))
    heads: dict[str, Any] = {"layers": layers, "kv_heads": draw(sizes), "head_dim": draw(sizes)}
    heads["v_head_dim"] = draw(sizes)
    full = KVPages("full", dtype=dtype, page_size=draw(sizes), **heads)
    window = WindowPages("window", dtype=draw(st.sampled_from(sorted(ITEM_BYTES))), grows="float", **heads)
    latent = LatentPages(
        "latent",
        layers=layers,
        latent_dim=draw(sizes),
        rope_dim=draw(sizes),
        dtype=dtype,
        page_size=draw(sizes),
        grows="float",
    )
    state = StateSlots(
        "state",
        layers=layers,
        conv_shapes=draw(st.lists(st.tuples(sizes, sizes), max_size=3)),
        temporal_shape=(draw(sizes), draw(sizes), draw(sizes)),
        conv_dtype=dtype,
        temporal_dtype=draw(st.sampled_from(["bfloat16", "float16", "float32"])),
    )
    return draw(st.sampled_from(resolve([full, window, latent, Checkpoints("checkpoint"), state])))


@given(some_pool(), st.integers(1, 3), st.integers(0, 9))
@settings(max_examples=120, deadline=None)
def test_random_shapes_round_trip(found: Resolved, pages: int, spare: int) -> None:
    check_round_trip(found, pages * found.page_bytes + spare)


def test_pages_that_share_no_byte_share_no_element() -> None:
    total = 4 * max(found.page_bytes for found in CHAIN.values())
    for one, other in combinations(CHAIN.values(), 2):
        for page in range(1, total // one.page_bytes):
            start, end = page * one.page_bytes, (page + 1) * one.page_bytes
            below, above = start // other.page_bytes - 1, -(-end // other.page_bytes)
            buffer = buffer_of(total)
            for part in parts_of_views(views(buffer, other)):
                for neighbour in {below, above} & {*range(part.shape[1])}:
                    raw(part[:, neighbour]).fill_(0)
            before = buffer[start:end].clone()
            assert bool((before == FILL).all())
            outside = torch.cat([buffer[:start], buffer[end:]])
            for part in parts_of_views(views(buffer, one)):
                raw(part[:, page]).fill_(1)
            assert not torch.equal(buffer[start:end], before)
            assert torch.equal(torch.cat([buffer[:start], buffer[end:]]), outside)


def parts_of_views(seen: Views) -> list[Tensor]:
    """As `parts_of`, but without a copy: a layer of keys and values is a part of its own."""
    if isinstance(seen, KVViews):
        return [t[None] for t in (*seen.k, *seen.v)]
    return [t[None] for t in seen.latent] if isinstance(seen, LatentViews) else parts_of(seen)


def test_fp8_is_bytes_seen_at_its_dtype() -> None:
    (found,) = resolve([keys(dtype=torch.float8_e4m3fn, page_size=2)])
    buffer = buffer_of(3 * found.page_bytes)
    seen = views(buffer, found)
    assert isinstance(seen, KVViews)
    values = torch.tensor([1.5, -2.0, 0.25, 448.0, 0.0]).to(torch.float8_e4m3fn)
    seen.k[1][2, 1, 2].copy_(values)
    start = found.layout.row_start(2, 1, 0, 1) + 2 * 5
    assert buffer[start : start + 5].tolist() == values.view(torch.uint8).tolist() == [0x3C, 0xC0, 0x28, 0x7E, 0x00]


# ------------------------------------------------------------------------------------------------------ never a copy


@pytest.mark.parametrize("name", CHAIN)
def test_every_view_has_the_buffers_own_storage_and_a_fixed_base(name: str) -> None:
    found = CHAIN[name]
    bases = []
    for total in (found.page_bytes, 5000, 20_000):
        buffer = torch.zeros(total, dtype=torch.uint8)
        tensors = tensors_of(views(buffer, found))
        for tensor in tensors:
            assert tensor.untyped_storage().data_ptr() == buffer.untyped_storage().data_ptr()
        bases.append([tensor.data_ptr() - buffer.data_ptr() for tensor in tensors])
    assert bases[0] == bases[1] == bases[2]


def test_a_buffer_may_be_a_part_of_a_storage() -> None:
    storage = buffer_of(3000)
    buffer = storage[128:2700]
    seen = views(buffer, CHAIN["state"])
    assert isinstance(seen, StateViews)
    seen.temporal[2, 0, 1, 4, 8] = 1.0
    start = 128 + CHAIN["state"].layout.row_start(0, 2, 0, 1) + (4 * 9 + 8) * 4
    assert storage[start : start + 4].view(torch.float32).item() == 1.0
    assert int((storage != FILL).sum()) == 4
    rows = token_rows(buffer, CHAIN["latent"], "latent")
    assert rows.layers[0].data_ptr() == buffer.data_ptr()


def test_a_meta_buffer_has_the_same_views_and_no_bytes() -> None:
    total = 20_001
    for found in CHAIN.values():
        here = tensors_of(views(buffer_of(total), found))
        there = tensors_of(views(torch.empty(total, dtype=torch.uint8, device="meta"), found))
        for real, planned in zip(here, there, strict=True):
            assert planned.device.type == "meta"
            assert (real.shape, real.stride(), real.dtype) == (planned.shape, planned.stride(), planned.dtype)
            assert real.storage_offset() == planned.storage_offset()


def test_full_sizes_on_the_meta_device() -> None:
    full = KVPages("full", layers=72, kv_heads=4, head_dim=128, dtype="bfloat16", page_size=16)
    state = falcon(layers=72, conv_shapes=[(5120, 3)], temporal_shape=(32, 128, 256))
    buffer = torch.empty(140 << 30, dtype=torch.uint8, device="meta")
    kv, states = (views(buffer, found) for found in resolve([full, state]))
    assert isinstance(kv, KVViews)
    assert kv.v[71].shape == ((140 << 30) // 2_359_296, 16, 4, 128)
    assert isinstance(states, StateViews)
    assert states.temporal.shape == (72, (140 << 30) // 304_201_728, 32, 128, 256)


def test_the_codec_takes_the_views_as_they_are() -> None:
    pytest.importorskip("triton")
    from poolproof.kernels.codec import quantize
    from poolproof.kernels.copy_windows import CopyWindows
    from poolproof.kernels.quantize_store import QuantizeStore

    saved, state = resolve([Checkpoints("checkpoint", grows="up"), falcon(temporal_dtype="bfloat16")])
    # Checkpoints at the bottom, states above them, as an allocator would have it.
    buffer = torch.zeros(8 * state.page_bytes, dtype=torch.uint8)
    active, stored = views(buffer, state), views(buffer, saved)
    assert isinstance(active, StateViews)
    assert isinstance(stored, CheckpointViews)
    generator = torch.Generator().manual_seed(1)
    for tensor in (active.temporal, *active.conv):
        tensor[:, 5:8] = torch.randn(tensor[:, 5:8].shape, generator=generator).to(tensor.dtype)
    codes, scales = quantize(active.temporal[:, [5, 7]])
    windows = [tensor[:, [5, 7]].clone() for tensor in active.conv]
    QuantizeStore(active.temporal, stored.codes, stored.scales)([5, 7], [2, 1])
    CopyWindows(active.conv, stored.conv)([5, 7], [2, 1])
    assert torch.equal(stored.codes[:, [2, 1]], codes)
    assert torch.equal(stored.scales[:, [2, 1]], scales)
    assert all(torch.equal(a[:, [2, 1]], b) for a, b in zip(stored.conv, windows, strict=True))
    assert not buffer[: saved.page_bytes].any()


# ---------------------------------------------------------------------------------------------------------- token rows


@pytest.mark.parametrize(
    ("declared", "per_page"),
    [
        (keys(page_size=1), {"k": 1, "v": 1}),
        (keys(page_size=1, align=16), {"k": 1, "v": 1}),
        (keys(v_head_dim=5), {"k": 16, "v": 16}),  # 2 layers of 4 keys and 4 values, all of one size
        (keys(head_dim=4), {"k": 12, "v": 24}),  # a value takes half of a key
        (keys(layers=1, head_dim=4, v_head_dim=4, dtype="float8_e5m2"), {"k": 8, "v": 8}),
        (LatentPages("full", layers=1, latent_dim=7, rope_dim=2, dtype="float16", page_size=3), {"latent": 3}),
        (LatentPages("full", layers=5, latent_dim=7, rope_dim=2, dtype="float16", page_size=3), {"latent": 15}),
        (LatentPages("full", layers=5, latent_dim=7, rope_dim=2, dtype="float16"), {"latent": 1}),
    ],
)
def test_token_rows_lie_where_the_layout_says(declared: Declaration, per_page: dict[str, int]) -> None:
    (found,) = resolve([declared])
    pages = 3
    buffer = torch.arange(pages * found.page_bytes + 5, dtype=torch.int32).to(torch.uint8)
    for number, part in enumerate(found.layout.parts):
        rows = token_rows(buffer, found, part.name)
        assert rows.rows_per_page == per_page[part.name]
        assert rows.page_size == found.page_size
        for layer, tensor in enumerate(rows.layers):
            assert tuple(tensor.shape[1:]) == found.shapes[number][1:]
            for token in range(pages * found.page_size):
                page, offset = divmod(token, found.page_size)
                start = found.layout.row_start(page, layer, number, offset)
                row = rows.row_of(token)
                assert tensor[row].data_ptr() == buffer.data_ptr() + start
                assert row_bytes(tensor[row]) == buffer[start : start + part.row_bytes].numpy().tobytes()
            assert len(tensor) == rows.row_of(pages * found.page_size - 1) + 1


@pytest.mark.parametrize("page_size", [1, 2, 8])
def test_token_rows_and_pages_are_the_same_bytes(page_size: int) -> None:
    (found,) = resolve([keys(v_head_dim=5, page_size=page_size)])
    buffer = buffer_of(6 * found.page_bytes)
    seen, rows = views(buffer, found), token_rows(buffer, found, "v")
    assert isinstance(seen, KVViews)
    tokens = torch.arange(6 * page_size)
    for layer in range(2):
        values = torch.randn(len(tokens), 3, 5).to(torch.bfloat16)
        rows.layers[layer][rows.row_of(tokens)] = values
        assert torch.equal(seen.v[layer][tokens // page_size, tokens % page_size], values)
        assert torch.equal(seen.v[layer].reshape(-1, 3, 5), values)


def test_rows_of_arrays_of_tokens() -> None:
    (found,) = resolve([keys(v_head_dim=5)])
    rows = token_rows(buffer_of(3 * found.page_bytes), found, "k")
    tokens = [0, 1, 3, 4, 11]
    expected = [0, 1, 3, 16, 35]
    assert [rows.row_of(token) for token in tokens] == expected
    assert rows.row_of(np.array(tokens)).tolist() == expected
    assert rows.row_of(torch.tensor(tokens)).tolist() == expected


def test_a_page_of_its_own_rows_alone_takes_token_ids_as_they_are() -> None:
    (found,) = resolve([LatentPages("full", layers=1, latent_dim=7, rope_dim=2, dtype="float16", page_size=3)])
    rows = token_rows(buffer_of(4 * found.page_bytes), found, "latent")
    assert rows.rows_per_page == rows.page_size
    assert [rows.row_of(token) for token in range(12)] == list(range(12))


def test_token_rows_without_layers() -> None:
    (found,) = resolve([keys(layers=0, v_head_dim=5)])
    assert token_rows(buffer_of(5000), found, "k").layers == ()


def test_rows_that_no_stride_reaches_are_refused() -> None:
    (found,) = resolve([keys()])  # a page of 2 x 4 x 3 x 7 x 2 = 336 bytes, keys of 30 and values of 12
    with pytest.raises(LayoutError, match=r"a page of 336 bytes is no whole number of rows of k, which take 30; index"):
        token_rows(buffer_of(700), found, "k")
    assert token_rows(buffer_of(700), found, "v").rows_per_page == 28


@pytest.mark.parametrize(
    ("name", "part", "tensors"),
    [
        ("full", "latent", "k, v"),
        ("latent", "k", "latent"),
        ("state", "temporal", "temporal, conv0, conv1"),
        ("other", "bytes", "bytes"),
    ],
)
def test_parts_without_tokens_are_refused(name: str, part: str, tensors: str) -> None:
    with pytest.raises(LayoutError, match=f"'{name}' has no token rows '{part}'; its tensors are {tensors}$"):
        token_rows(buffer_of(20_000), CHAIN[name], part)


# ------------------------------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("buffer", "message"),
    [
        (bytearray(500), "the buffer is bytearray; it must be one contiguous row of torch.uint8"),
        (None, "the buffer is NoneType; it must be"),
        (np.zeros(500, np.uint8), "the buffer is ndarray; it must be"),
        (torch.zeros(5000, dtype=torch.int8), r"the buffer is torch.int8 of shape \(5000,\); it must be"),
        (torch.zeros(50, 100, dtype=torch.uint8), r"the buffer is torch.uint8 of shape \(50, 100\); it must be"),
        (torch.zeros(9000, dtype=torch.uint8)[::2], r"the buffer is torch.uint8 of shape \(4500,\); it must be"),
        (torch.zeros((), dtype=torch.uint8), r"the buffer is torch.uint8 of shape \(\); it must be"),
        (torch.zeros(335, dtype=torch.uint8), "has 335 bytes and a page of 'full' takes 336; make it larger"),
        (torch.zeros(0, dtype=torch.uint8), "the buffer has 0 bytes and a page of 'full' takes 336"),
        (torch.zeros(5000, dtype=torch.uint8)[1:], "1 bytes into its storage; elements of 'full' take 2 bytes"),
        (torch.frombuffer(bytearray(5001), dtype=torch.uint8, offset=1), "both must be multiples of 2"),
        (torch.frombuffer(bytearray(5001), dtype=torch.uint8, offset=1)[1:], "1 bytes into its storage; elements of"),
    ],
)
def test_buffers_that_are_refused(buffer: Any, message: str) -> None:
    with pytest.raises(LayoutError, match=message):
        views(buffer, CHAIN["full"])
    with pytest.raises(LayoutError, match=message):
        token_rows(buffer, CHAIN["full"], "v")


def test_bytes_may_start_anywhere() -> None:
    buffer = buffer_of(100)
    seen = views(buffer[3:], CHAIN["other"])
    assert isinstance(seen, PageViews)
    assert seen.pages.data_ptr() == buffer.data_ptr() + 3
