"""Layouts, indices and demands against numbers worked out by hand and against counting byte by byte."""

from __future__ import annotations

import random

import pytest

from poolproof.spec.shapes import (
    Buffer,
    Index,
    PageLayout,
    SubPool,
    checkpoint_layout,
    kv_layout,
    latent_layout,
    opaque_layout,
    state_layout,
    with_strides,
)

WIDE = Index(64, True, "elements")


def test_a_page_of_keys_and_values() -> None:
    # 3 layers; 2 heads x (8 + 4) values x 2 bytes = 48 bytes a token, 4 tokens
    layout = kv_layout(3, 2, 8, 4, 2, 4)
    assert [(p.name, p.offset, p.rows, p.row_bytes) for p in layout.parts] == [("k", 0, 4, 32), ("v", 128, 4, 16)]
    assert (layout.layer_bytes, layout.page_bytes, layout.used) == (192, 576, 576)
    assert layout.row_start(page=2, layer=1, part=1, row=3) == 2 * 576 + 192 + 128 + 3 * 16


def test_a_state_slot_and_its_checkpoint() -> None:
    # temporal 2 x 4 x 8 = 64 elements, conv 6 x 3 = 18 elements
    state = state_layout(5, [(6, 3)], (2, 4, 8), conv_item=2, temporal_item=4)
    assert [(p.name, p.offset, p.rows, p.row_bytes) for p in state.parts] == [
        ("temporal", 0, 2, 128),
        ("conv0", 256, 1, 36),
    ]
    assert state.layer_bytes == 292  # 256 + 36, a multiple of 4
    saved = checkpoint_layout(5, [(6, 3)], (2, 4, 8), conv_item=2, scale_item=4)
    # 64 bytes of int8, 2 x 8 scales of 4 bytes, 36 bytes of conv
    assert [(p.name, p.offset) for p in saved.parts] == [("temporal", 0), ("scale", 64), ("conv0", 128)]
    assert saved.page_bytes == 5 * (64 + 64 + 36)


def test_a_latent_row_holds_the_rotary_key() -> None:
    assert latent_layout(2, 512, 64, 2, 16).page_bytes == 2 * 16 * 1152


def test_whole_elements_start_at_multiples_of_their_size() -> None:
    # a conv window of 3 x 1 x 2 = 6 bytes pushes the next layer's float32 to 8, not 6
    layout = state_layout(2, [(3, 1)], (1, 1, 4), conv_item=2, temporal_item=4)
    assert layout.layer_bytes == 24
    assert layout.used == 24 + 22


def test_padding_is_only_added_where_it_is_asked_for() -> None:
    assert kv_layout(1, 1, 5, 5, 2, 1).page_bytes == 20
    padded = kv_layout(2, 1, 5, 5, 2, 1, unit=16)
    assert [p.offset for p in padded.parts] == [0, 16]
    assert (padded.layer_bytes, padded.page_bytes) == (32, 64)


def test_stated_strides_replace_the_packed_ones() -> None:
    layout = kv_layout(3, 2, 8, 4, 2, 4)
    assert with_strides(layout).page_bytes == 576
    assert with_strides(layout, layer_bytes=256).page_bytes == 768
    assert with_strides(layout, page_bytes=1024).layer_bytes == 192


@pytest.mark.parametrize(
    ("bits", "signed", "limit"), [(32, True, 2147483647), (32, False, 4294967295), (64, True, 9223372036854775807)]
)
def test_limits_of_index_types(bits: int, signed: bool, limit: int) -> None:
    index = Index(bits, signed, "bytes")
    assert index.limit == limit
    assert index.wrapped(limit) == limit
    assert index.wrapped(limit + 1) == (-limit - 1 if signed else 0)


def counted(layout: PageLayout, index: Index, pages: int) -> int:
    """The first page one of whose indices is beyond the limit, by going through all of them."""
    for page in range(pages):
        for layer in range(layout.layers):
            for number, part in enumerate(layout.parts):
                view = layout.row_start(0, layer, number, 0) if index.base == "view" else 0
                for row in range(part.rows):
                    start = layout.row_start(page, layer, number, row) - view
                    step = part.item_bytes if index.unit == "elements" else 1
                    if any((start + at) // step > index.limit for at in range(0, part.row_bytes, step)):
                        return page
    return pages


@pytest.mark.parametrize("seed", range(40))
def test_the_first_bad_page_is_the_first(seed: int) -> None:
    draw = random.Random(seed)
    layout = state_layout(
        draw.randint(1, 3),
        [(draw.randint(1, 5), draw.randint(1, 3)) for _ in range(draw.randint(0, 2))],
        (draw.randint(1, 3), draw.randint(1, 3), draw.randint(1, 4)),
        conv_item=draw.choice([1, 2, 4]),
        temporal_item=draw.choice([1, 2, 4]),
        unit=draw.choice([1, 1, 8]),
    )
    unit, base = draw.choice(["elements", "bytes"]), draw.choice(["buffer", "view"])
    index = Index(draw.randint(4, 11), draw.random() < 0.5, unit, base)
    pages = index.limit * 4 // layout.page_bytes + 3
    found = counted(layout, index, pages)
    assert min(index.first_bad_page(layout), pages) == found


def pool(name: str, grows: str, page_bytes: int, **more: int) -> SubPool:
    """A sub-pool of opaque pages."""
    return SubPool(name, "pages", grows, opaque_layout(page_bytes), WIDE, **more)


def buffer(*pools: SubPool, total: int = 1000, context: int = 100, step: int = 100) -> Buffer:
    """An engine over some sub-pools."""
    return Buffer("test", total, 1, context, step, 1, pools)


def test_the_sink_is_the_largest_page_and_ids_start_behind_it() -> None:
    engine = buffer(pool("a", "up", 7), pool("b", "float", 30), pool("c", "down", 10))
    assert engine.sink_bytes == 30
    assert [engine.first_page(p) for p in engine.sub_pools] == [5, 1, 3]  # 5 * 7 = 35, 1 * 30, 3 * 10
    assert [engine.pages(p) for p in engine.sub_pools] == [142, 33, 100]


@pytest.mark.parametrize(
    ("tokens", "step", "pages"),
    [
        (1, 1, 1),
        (16, 1, 1),
        (17, 1, 2),
        (1000, 1, 9),  # 129 live tokens: one in the first page, 128 in 8 more
        (1000, 64, 13),  # 192 live tokens: one in the first page, 191 in 12 more
        (1000, 1000, 63),  # a whole prompt at once
    ],
)
def test_a_window_holds_what_a_step_can_see(tokens: int, step: int, pages: int) -> None:
    window = SubPool("w", "window", "down", opaque_layout(1), WIDE, page_size=16, window=128)
    assert window.pages_for(tokens, step) == pages


def test_window_pages_against_every_position() -> None:
    window = SubPool("w", "window", "down", opaque_layout(1), WIDE, page_size=4, window=6)
    for step in range(1, 9):
        live = 6 + step
        touched = max(len({token // 4 for token in range(start, start + live)}) for start in range(4))
        assert window.window_pages(step) == touched


def least_by_trying(engine: Buffer, demand: tuple[int, ...]) -> int:
    """The least buffer that holds the demand, by trying every size and every lowest place in it."""
    for total in range(1, 5000):
        at, fits = engine.sink_bytes, True
        for sub_pool, pages in zip(engine.sub_pools, demand, strict=True):
            size = sub_pool.page_bytes
            low = next(n for n in range(total + 1) if n * size >= at) if at <= total else total
            if sub_pool.grows == "down":
                low = total // size - pages
                fits = fits and low * size >= at
            at = (low + pages) * size
            fits = fits and at <= total
        if fits:
            return total
    raise AssertionError


@pytest.mark.parametrize("seed", range(30))
def test_the_smallest_total_is_the_smallest(seed: int) -> None:
    draw = random.Random(seed)
    chain = [("up",), ("up", "down"), ("up", "float", "down"), ("down",), ("float", "float")][seed % 5]
    engine = buffer(*(pool(f"p{n}", grows, draw.randint(1, 20)) for n, grows in enumerate(chain)))
    demand = tuple(draw.randint(0, 4) for _ in chain)
    assert engine.smallest_total(demand) == least_by_trying(engine, demand)


def test_requests_that_start_have_no_checkpoint_yet() -> None:
    saved = SubPool("c", "checkpoint", "float", opaque_layout(8), WIDE, per_request=1)
    full = SubPool("f", "kv", "up", opaque_layout(8), WIDE, page_size=16)
    engine = buffer(full, saved, pool("s", "down", 8, per_request=3))
    assert engine.demand(33) == (3, 1, 3)
    assert engine.starting_demand(5) == (5, 0, 15)
