"""Declarations of sub-pools: their bytes against formulas worked out by hand, the chain, and everything refused."""

from __future__ import annotations

import dataclasses
import pickle
import subprocess
import sys
from itertools import pairwise, permutations
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from poolproof.errors import LayoutError, PoolError
from poolproof.spec.shapes import ITEM_BYTES
from poolproof.sub_pools import (
    EMPTY_PAGE_BYTES,
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

FULL: dict[str, Any] = {"layers": 3, "kv_heads": 2, "head_dim": 8, "dtype": "bfloat16", "page_size": 4}
HEADS: dict[str, Any] = {"layers": 5, "kv_heads": 2, "head_dim": 8, "dtype": "bfloat16"}
STATE: dict[str, Any] = {
    "layers": 5,
    "conv_shapes": [(6, 3)],
    "temporal_shape": (2, 4, 8),
    "conv_dtype": "bfloat16",
    "temporal_dtype": "float32",
}


def one(declaration: Declaration, *others: Declaration) -> Resolved:
    """What a declaration resolves to beside others."""
    return next(found for found in resolve([declaration, *others]) if found.name == declaration.name)


# --------------------------------------------------------------------------------------------------------------- bytes


def test_keys_and_values() -> None:
    found = one(KVPages("full", layers=12, kv_heads=2, head_dim=256, dtype="bfloat16", page_size=16))
    assert found.page_bytes == 12 * 16 * 2 * (256 + 256) * 2 == 393_216
    assert (found.kind, found.page_size, found.grows, found.zeroed, found.ids_of) == ("kv", 16, "up", True, None)
    assert found.shapes == ((16, 2, 256), (16, 2, 256))
    assert found.dtypes == ("bfloat16", "bfloat16")


def test_values_may_be_shorter_than_keys() -> None:
    found = one(KVPages("full", layers=3, kv_heads=2, head_dim=192, v_head_dim=128, dtype="float16", page_size=4))
    assert found.page_bytes == 3 * 4 * 2 * (192 + 128) * 2
    assert [(part.name, part.offset) for part in found.layout.parts] == [("k", 0), ("v", 4 * 2 * 192 * 2)]
    assert found.shapes == ((4, 2, 192), (4, 2, 128))


@pytest.mark.parametrize(("dtype", "item"), ITEM_BYTES.items())
def test_every_dtype_takes_its_bytes(dtype: str, item: int) -> None:
    found = one(KVPages("full", layers=3, kv_heads=1, head_dim=5, dtype=dtype, page_size=2))
    assert found.page_bytes == 3 * 2 * 10 * item
    assert found.dtypes == (dtype, dtype)


def test_latent_rows() -> None:
    found = one(LatentPages("full", layers=7, latent_dim=512, rope_dim=64, dtype="bfloat16", page_size=16))
    assert found.page_bytes == 7 * 16 * (512 + 64) * 2 == 129_024
    assert (found.kind, found.page_size, found.zeroed, found.shapes) == ("mla", 16, True, ((16, 576),))
    assert one(LatentPages("full", layers=1, latent_dim=8, rope_dim=0, dtype="int8")).page_bytes == 8


def test_a_window_has_the_page_size_of_its_owner() -> None:
    full = KVPages("full", layers=12, kv_heads=8, head_dim=64, dtype="bfloat16", page_size=16)
    window = WindowPages("window", layers=11, kv_heads=4, head_dim=32, v_head_dim=16, dtype="float8_e5m2")
    found = one(window, full)
    assert found.page_bytes == 11 * 16 * 4 * (32 + 16)
    assert (found.kind, found.page_size, found.ids_of, found.zeroed) == ("window", 16, "full", True)


@pytest.mark.parametrize(
    "owner",
    [
        KVPages("ids", layers=1, kv_heads=1, head_dim=1, dtype="int8", page_size=4),
        LatentPages("ids", layers=1, latent_dim=1, rope_dim=1, dtype="int8", page_size=4),
        Pages("ids", bytes=64, page_size=4, grows="up"),
    ],
)
def test_whatever_holds_tokens_and_owns_ids_can_have_a_window(owner: Declaration) -> None:
    found = one(WindowPages("window", ids_of="ids", **HEADS), owner)
    assert (found.ids_of, found.page_size, found.page_bytes) == ("ids", 4, 5 * 4 * 2 * 16 * 2)


def test_a_state_slot() -> None:
    full = Pages("full", bytes=8, grows="up")
    state = StateSlots(
        "state",
        layers=36,
        conv_shapes=[(8192, 3)],
        temporal_shape=(32, 128, 128),
        conv_dtype="bfloat16",
        temporal_dtype="bfloat16",
    )
    found = one(state, full)
    assert found.page_bytes == 36 * (32 * 128 * 128 * 2 + 8192 * 3 * 2) == 39_518_208
    assert (found.kind, found.page_size, found.grows, found.zeroed) == ("state", 1, "down", False)
    assert found.shapes == ((32, 128, 128), (8192, 3))
    assert found.dtypes == ("bfloat16", "bfloat16")


def test_a_state_with_several_windows_of_odd_shapes() -> None:
    state = StateSlots(
        "state",
        layers=2,
        conv_shapes=[(5, 3), (7, 1)],
        temporal_shape=(3, 5, 7),
        conv_dtype="float16",
        temporal_dtype="float32",
        grows="up",
    )
    found = one(state)
    # temporal 3 x 5 x 7 x 4 = 420; windows 30 and 14 bytes, each padded to the four bytes of the largest element
    assert [part.offset for part in found.layout.parts] == [0, 420, 452]
    assert found.page_bytes == 2 * (420 + 32 + 16)
    assert found.dtypes == ("float32", "float16", "float16")


def test_a_state_without_windows() -> None:
    found = one(StateSlots("state", **{**STATE, "conv_shapes": []}, grows="up"))
    assert found.page_bytes == 5 * 2 * 4 * 8 * 4
    assert found.dtypes == ("float32",)


@pytest.mark.parametrize(("temporal", "item"), [("bfloat16", 2), ("float16", 2), ("float32", 4)])
def test_a_checkpoint_follows_from_its_state(temporal: str, item: int) -> None:
    state = StateSlots(
        "mamba",
        layers=36,
        conv_shapes=[(8192, 3)],
        temporal_shape=(32, 128, 128),
        conv_dtype="bfloat16",
        temporal_dtype=temporal,
        grows="up",
    )
    found = one(Checkpoints("checkpoint", of="mamba", grows="down"), state)
    assert found.page_bytes == 36 * (32 * 128 * 128 + 32 * 128 * item + 8192 * 3 * 2)
    assert (found.kind, found.page_size, found.zeroed, found.ids_of) == ("checkpoint", 1, False, None)
    assert found.shapes == ((32, 128, 128), (32, 128), (8192, 3))
    assert found.dtypes == ("int8", temporal, "bfloat16")


def test_a_checkpoint_can_be_plain_bytes() -> None:
    found = one(Checkpoints("checkpoint", bytes=1000, grows="up"))
    assert (found.kind, found.page_bytes, found.shapes, found.dtypes) == ("checkpoint", 1000, ((1000,),), ("uint8",))


def test_plain_pages() -> None:
    found = one(Pages("other", bytes=384, grows="up", zero="never", page_size=8))
    assert (found.kind, found.page_bytes, found.page_size, found.zeroed) == ("pages", 384, 8, False)
    assert one(Pages("other", bytes=1, grows="up")).zeroed


def test_what_is_zeroed_can_be_said() -> None:
    declared: list[Declaration] = [
        KVPages("full", **FULL, zero="never"),
        StateSlots("state", **STATE, zero="on_handout"),
        Checkpoints("checkpoint", zero="on_handout"),
    ]
    assert [found.zeroed for found in resolve(declared)] == [False, True, True]


# ----------------------------------------------------------------------------------------------------------- alignment


def test_tensors_layers_and_pages_are_padded_to_align() -> None:
    found = one(KVPages("full", layers=2, kv_heads=1, head_dim=5, dtype="bfloat16", align=16))
    assert [part.offset for part in found.layout.parts] == [0, 16]
    assert (found.layout.layer_bytes, found.page_bytes, found.align) == (32, 64, 16)
    found = one(LatentPages("full", layers=3, latent_dim=4, rope_dim=1, dtype="int8", align=8))
    assert (found.layout.layer_bytes, found.page_bytes, found.align) == (8, 24, 8)


def test_an_align_below_the_largest_element_changes_nothing() -> None:
    assert one(StateSlots("s", **STATE, grows="up", align=2)).layout == one(StateSlots("s", **STATE, grows="up")).layout


def test_a_window_of_one_row_need_not_be_a_multiple() -> None:
    found = one(StateSlots("state", **{**STATE, "conv_shapes": [(5, 3)]}, grows="up", align=128))
    assert [part.offset for part in found.layout.parts] == [0, 256]
    assert found.page_bytes == 5 * 384


@pytest.mark.parametrize(
    ("declaration", "message"),
    [
        (
            KVPages("full", layers=1, kv_heads=3, head_dim=16, dtype="bfloat16", page_size=2, align=64),
            "'full' align = 64: each of the 2 rows of k takes 96 bytes, so not all start at multiples of 64; set align "
            "to 32",
        ),
        (
            KVPages("f", layers=1, kv_heads=1, head_dim=64, v_head_dim=9, dtype="bfloat16", page_size=2, align=64),
            "each of the 2 rows of v takes 18 bytes, so not all start at multiples of 64; set align to 2",
        ),
        (
            StateSlots("state", **STATE, grows="up", align=256),
            "each of the 2 rows of temporal takes 128 bytes, so not all start at multiples of 256; set align to 128",
        ),
        (
            Pages("other", bytes=1000, align=64, grows="up"),
            "'other' bytes = 1000: a page must be a multiple of align = 64; set bytes to 1024, or align to 8",
        ),
        (
            Checkpoints("saved", bytes=10, align=4, grows="up"),
            "'saved' bytes = 10: a page must be a multiple of align = 4; set bytes to 12, or align to 2",
        ),
    ],
)
def test_what_does_not_align_is_refused(declaration: Declaration, message: str) -> None:
    with pytest.raises(LayoutError) as caught:
        resolve([declaration])
    assert message in str(caught.value)


def test_rows_of_scales_align_too() -> None:
    state = StateSlots("state", **{**STATE, "temporal_dtype": "bfloat16"}, grows="up")
    with pytest.raises(LayoutError, match="each of the 2 rows of scale takes 16 bytes"):
        resolve([state, Checkpoints("checkpoint", grows="down", align=32)])


# --------------------------------------------------------------------------------------------------------- zero layers


def test_a_page_without_layers_has_bytes_all_the_same() -> None:
    # A layer of these takes 4 x 2 x (8 + 8) x 2 = 256 bytes, a page of none no more.
    assert one(KVPages("full", **{**FULL, "layers": 0})).page_bytes == 256
    large = one(KVPages("full", **{**FULL, "layers": 0, "head_dim": 1024}))
    assert large.page_bytes == EMPTY_PAGE_BYTES == 4096
    assert (large.layout.layers, large.page_size) == (0, 4)


def test_a_page_without_layers_is_aligned() -> None:
    empty = {**FULL, "layers": 0, "head_dim": 65536}
    assert one(KVPages("full", **empty, align=1 << 16)).page_bytes == 1 << 16
    assert one(KVPages("full", **empty, align=256)).page_bytes == 4096


def test_every_kind_of_layers_may_be_missing() -> None:
    none = {"layers": 0}
    found = resolve(
        [
            LatentPages("full", layers=0, latent_dim=512, rope_dim=64, dtype="bfloat16", page_size=16),
            WindowPages("window", **{**HEADS, **none}, grows="float"),
            Checkpoints("checkpoint"),
            StateSlots("state", **{**STATE, **none}),
        ]
    )
    assert [f.layout.layers for f in found] == [0, 0, 0, 0]
    assert [f.page_bytes for f in found] == [4096, 16 * 2 * 16 * 2, 64 + 64 + 36, 256 + 36]


# --------------------------------------------------------------------------------------------------------------- chain


def test_any_order_resolves_to_the_chain() -> None:
    full, state = KVPages("full", **FULL), StateSlots("state", **STATE)
    for order in permutations([full, state, Checkpoints("checkpoint")]):
        found = resolve(order)
        assert [(f.name, f.chain_index) for f in found] == [("full", 0), ("checkpoint", 1), ("state", 2)]


def test_floats_keep_the_order_given() -> None:
    ends = [Pages("top", bytes=8, grows="down"), Pages("bottom", bytes=8, grows="up")]
    for names in permutations("abc"):
        floats = [Pages(name, bytes=8, grows="float") for name in names]
        found = resolve([ends[0], *floats, ends[1]])
        assert [f.name for f in found] == ["bottom", *names, "top"]
        assert [f.grows for f in found] == ["up", "float", "float", "float", "down"]


def test_a_single_sub_pool_grows_up() -> None:
    assert resolve(iter([KVPages("full", **FULL)]))[0].chain_index == 0  # type: ignore[arg-type]  # any iterable will do


PAGE: dict[str, Any] = {"bytes": 8}


@pytest.mark.parametrize(
    ("declarations", "message"),
    [
        ([], "the buffer has no sub-pools; declare at least one"),
        (["full"], "'full' is no sub-pool; pass a list"),
        ("full", "'f' is no sub-pool; pass a list"),
        (None, "None is no sub-pool; pass a list"),
        (KVPages, "is no sub-pool; pass a list"),
        ([Declaration("bare", grows="up")], "sub-pool 'bare' is of no kind; declare KVPages"),
        (
            [Pages("a", **PAGE, grows="up"), Pages("a", **PAGE, grows="down"), Pages("a", **PAGE, grows="float")],
            "3 sub-pools are named 'a'; give each a name of its own",
        ),
        ([Pages("a", **PAGE, grows="down")], "none of 1 sub-pools has grows = 'up'; set it on exactly one: a"),
        ([Pages("a", **PAGE, grows="float")], "none of 1 sub-pools has grows = 'up'; set it on exactly one: a"),
        (
            [Pages("a", **PAGE, grows="up"), Pages("b", **PAGE, grows="float"), Pages("c", **PAGE, grows="float")],
            "none of 3 sub-pools has grows = 'down'; set it on exactly one: b, c",
        ),
        (
            [Pages("a", **PAGE, grows="up"), Pages("b", **PAGE, grows="up"), Pages("c", **PAGE, grows="down")],
            "a and b all have grows = 'up'; exactly one sub-pool of 3 may: let the others float",
        ),
        (
            [Pages("a", **PAGE, grows="up"), Pages("b", **PAGE, grows="down"), Pages("c", **PAGE, grows="down")],
            "b and c all have grows = 'down'; exactly one sub-pool of 3 may: let the others float",
        ),
        (
            [Pages("a", **PAGE, grows="up"), WindowPages("w", ids_of="b", **HEADS)],
            "'w' ids_of = 'b': there is no such sub-pool; a window binds pages for the ids of a sub-pool that holds "
            "tokens and owns its ids: a",
        ),
        (
            [Checkpoints("a", bytes=8, grows="up"), WindowPages("w", ids_of="a", **HEADS)],
            "'w' ids_of = 'a': it is Checkpoints; a window binds pages for the ids of a sub-pool that holds tokens and "
            "owns its ids: none: declare KVPages for its ids",
        ),
        (
            [
                KVPages("full", **FULL),
                WindowPages("v", **HEADS, grows="float"),
                WindowPages("w", ids_of="v", **HEADS),
            ],
            "'w' ids_of = 'v': it is WindowPages; a window binds pages for the ids of a sub-pool that holds tokens and "
            "owns its ids: full",
        ),
        ([WindowPages("w", ids_of="w", grows="up", **HEADS)], "'w' ids_of = 'w': it is WindowPages"),
        (
            [KVPages("full", **FULL), WindowPages("w", **{**HEADS, "ids_of": ["full"]})],
            "ids_of = ['full']: there is no such",
        ),
        (
            [StateSlots("full", **STATE, grows="up"), WindowPages("w", **HEADS)],
            "'w' ids_of = 'full': it is StateSlots;",
        ),
        (
            [KVPages("full", **FULL), Checkpoints("saved", grows="down")],
            "'saved' of = 'state': there is no such sub-pool; it must name StateSlots: none: declare StateSlots, or",
        ),
        (
            [KVPages("full", **FULL), StateSlots("mamba", **STATE), Checkpoints("saved", of="full")],
            "'saved' of = 'full': it is KVPages; it must name StateSlots: mamba",
        ),
        (
            [StateSlots("state", **{**STATE, "temporal_dtype": "int8"}, grows="up"), Checkpoints("c", grows="down")],
            "'c' of = 'state': its states are int8, and the int8 codec takes bfloat16, float16, float32; take "
            "codec='none', or state bytes",
        ),
    ],
)
def test_chains_that_are_refused(declarations: Any, message: str) -> None:
    with pytest.raises(LayoutError) as caught:
        resolve(declarations)
    assert message in str(caught.value)


# ------------------------------------------------------------------------------------------------------- single values


BAD_NUMBERS = [0, -1, True, False, np.bool_(True), 1.0, "3", None, (3,), float("nan")]


@pytest.mark.parametrize("value", BAD_NUMBERS)
@pytest.mark.parametrize(
    ("kind", "values", "key"),
    [
        *((KVPages, FULL, key) for key in ("kv_heads", "head_dim", "page_size")),
        *((WindowPages, HEADS, key) for key in ("kv_heads", "head_dim")),
        *(
            (LatentPages, {"layers": 1, "latent_dim": 8, "rope_dim": 8, "dtype": "int8"}, key)
            for key in ("latent_dim", "page_size")
        ),
        *((Pages, {"bytes": 8, "grows": "up"}, key) for key in ("bytes", "page_size", "align")),
    ],
)
def test_numbers_that_are_refused(kind: Any, values: dict[str, Any], key: str, value: Any) -> None:
    with pytest.raises(LayoutError) as caught:
        kind("pool", **{**values, key: value})
    assert str(caught.value) == f"sub-pool 'pool' {key} = {value!r}: it must be a whole number of at least 1"


@pytest.mark.parametrize("value", [value for value in BAD_NUMBERS if type(value) is not int])
@pytest.mark.parametrize("kind", [KVPages, StateSlots])
def test_layers_that_are_refused(kind: Any, value: Any) -> None:
    values = FULL if kind is KVPages else STATE
    with pytest.raises(LayoutError, match=r"layers = .*: it must be a whole number of at least 0"):
        kind("pool", **{**values, "layers": value})


@pytest.mark.parametrize("value", [-1, True, 2.0])
def test_other_numbers_that_are_refused(value: Any) -> None:
    with pytest.raises(LayoutError, match=r"v_head_dim = .*: it must be a whole number of at least 1"):
        KVPages("full", **FULL, v_head_dim=value)
    with pytest.raises(LayoutError, match=r"rope_dim = .*: it must be a whole number of at least 0"):
        LatentPages("full", layers=1, latent_dim=8, rope_dim=value, dtype="int8")
    with pytest.raises(LayoutError, match=r"bytes = .*: it must be a whole number of at least 1"):
        Checkpoints("saved", bytes=value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"temporal_shape": (2, 4)}, "temporal_shape: (2, 4) is no shape (H, d_v, d_k)"),
        ({"temporal_shape": 8}, "temporal_shape: 8 is no shape (H, d_v, d_k)"),
        ({"temporal_shape": "248"}, "temporal_shape: '248' is no shape (H, d_v, d_k)"),
        ({"temporal_shape": (2, 0, 8)}, "temporal_shape (H, d_v, d_k) = 0: it must be a whole number of at least 1"),
        ({"temporal_shape": (2, True, 8)}, "temporal_shape (H, d_v, d_k) = True: it must be a whole number"),
        ({"conv_shapes": [(6, 3, 1)]}, "conv_shapes: (6, 3, 1) is no shape (channels, kernel - 1)"),
        ({"conv_shapes": (6, 3)}, "conv_shapes: 6 is no shape (channels, kernel - 1)"),
        ({"conv_shapes": [(6, 0)]}, "conv_shapes (channels, kernel - 1) = 0: it must be a whole number of at least 1"),
        ({"conv_shapes": [(6, -3)]}, "conv_shapes (channels, kernel - 1) = -3: it must be a whole number"),
        ({"conv_shapes": 6}, "conv_shapes = 6: it must be a list of shapes such as [(8192, 3)], or []"),
        ({"conv_shapes": "63"}, "conv_shapes = '63': it must be a list of shapes"),
        ({"conv_shapes": None}, "conv_shapes = None: it must be a list of shapes"),
        ({"conv_dtype": "float64"}, "conv_dtype = 'float64': it must be one of float32, bfloat16"),
        ({"temporal_dtype": "fp32"}, "temporal_dtype = 'fp32': it must be one of float32, bfloat16"),
    ],
)
def test_states_that_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(LayoutError) as caught:
        StateSlots("state", **{**STATE, **changes})
    assert f"sub-pool 'state' {message}" in str(caught.value)


@pytest.mark.parametrize("name", ["", "a b", "é", None, 3, "a/b", "full\n"])
def test_names_that_are_refused(name: Any) -> None:
    with pytest.raises(LayoutError, match=r"a sub-pool's name is .*; use letters, digits"):
        Pages(name, bytes=8, grows="up")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"grows": "sideways"}, "grows = 'sideways': it must be one of up, float, down"),
        ({"grows": ["up"]}, r"grows = ['up']: it must be one of up, float, down"),
        ({"zero": True}, "zero = True: it must be one of on_handout, never"),
        ({"zero": "on_free"}, "zero = 'on_free': it must be one of on_handout, never"),
        ({"align": 12}, "align = 12: it must be a power of two"),
        ({"align": 0}, "align = 0: it must be a whole number of at least 1"),
    ],
)
def test_common_values_that_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(LayoutError) as caught:
        KVPages("full", **{**FULL, **changes})
    assert str(caught.value) == f"sub-pool 'full' {message}"


def test_both_a_state_and_bytes_are_refused() -> None:
    with pytest.raises(LayoutError, match="'saved' of = 'state', bytes = 64: state one of the two"):
        Checkpoints("saved", of="state", bytes=64)


# -------------------------------------------------------------------------------------------------------------- dtypes


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        (torch.bfloat16, "bfloat16"),
        (torch.half, "float16"),
        (torch.float, "float32"),
        (torch.float8_e4m3fn, "float8_e4m3fn"),
        (torch.float8_e5m2, "float8_e5m2"),
        (np.dtype("float16"), "float16"),
        (np.float32, "float32"),
        (np.uint8, "uint8"),
        ("torch.bfloat16", "bfloat16"),
        ("int8", "int8"),
    ],
)
def test_spellings_of_dtypes(dtype: Any, name: str) -> None:
    declared = KVPages("full", **{**FULL, "dtype": dtype})
    assert declared.dtype == name
    assert declared == KVPages("full", **{**FULL, "dtype": name})


def test_dtypes_of_another_library() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for dtype in (ml_dtypes.bfloat16, np.dtype(ml_dtypes.bfloat16)):
        assert KVPages("full", **{**FULL, "dtype": dtype}).dtype == "bfloat16"


@pytest.mark.parametrize("dtype", ["fp8", "", "float64", torch.float64, np.int64, np.dtype(">f4"), float, None, 2, []])
def test_dtypes_that_are_refused(dtype: Any) -> None:
    with pytest.raises(LayoutError) as caught:
        KVPages("full", **{**FULL, "dtype": dtype})
    assert f"sub-pool 'full' dtype = {dtype!r}: it must be one of float32, bfloat16, float16" in str(caught.value)


# ------------------------------------------------------------------------------------------------------ plain behaviour


def test_importing_and_resolving_load_neither_torch_nor_numpy() -> None:
    program = (
        "import sys\n"
        "from poolproof.sub_pools import KVPages, resolve\n"
        "import poolproof.model_pools\n"
        "resolve([KVPages('full', layers=1, kv_heads=1, head_dim=8, dtype='bfloat16')])\n"
        "assert not {'torch', 'numpy'} & set(sys.modules), sorted(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_declarations_are_values() -> None:
    state = StateSlots("state", **STATE)
    assert state == StateSlots("state", **{**STATE, "conv_shapes": ((6, np.int64(3)),), "layers": np.int32(5)})
    assert len({state, StateSlots("state", **STATE), dataclasses.replace(state, layers=4)}) == 2
    assert type(StateSlots("state", **{**STATE, "layers": np.int32(5)}).layers) is int
    with pytest.raises(dataclasses.FrozenInstanceError):
        state.layers = 3  # type: ignore[misc]
    make: Any = KVPages
    with pytest.raises(TypeError, match="positional argument"):
        make("full", "up", **FULL)
    found = resolve([dataclasses.replace(state, grows="up")])
    assert hash(found) == hash(pickle.loads(pickle.dumps(found)))


def test_the_error_is_a_pool_error_and_a_value_error() -> None:
    assert issubclass(LayoutError, PoolError)
    assert issubclass(LayoutError, ValueError)
    with pytest.raises(LayoutError) as caught:
        resolve([])
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


# -------------------------------------------------------------------------------------------------------- random shapes


sizes = st.integers(1, 9)
layers = st.integers(0, 4)
dtypes = st.sampled_from(sorted(ITEM_BYTES))
codec_dtypes = st.sampled_from(["bfloat16", "float16", "float32"])


@st.composite
def chains(draw: st.DrawFn) -> list[Declaration]:
    """A chain with a sub-pool of each kind, aligned by one byte up to four."""
    heads: dict[str, Any] = {"kv_heads": draw(sizes), "head_dim": 4 * draw(sizes), "dtype": draw(dtypes)}
    heads["v_head_dim"] = 4 * draw(sizes)
    align = draw(st.sampled_from([1, 2, 4]))
    return [
        KVPages("full", layers=draw(layers), page_size=draw(sizes), align=align, **heads),
        WindowPages("window", layers=draw(layers), grows="float", align=align, **heads),
        LatentPages(
            "latent",
            layers=draw(layers),
            latent_dim=4 * draw(sizes),
            rope_dim=4 * draw(sizes),
            dtype=draw(dtypes),
            page_size=draw(sizes),
            align=align,
            grows="float",
        ),
        Checkpoints("checkpoint", align=align),
        StateSlots(
            "state",
            layers=draw(layers),
            conv_shapes=draw(st.lists(st.tuples(sizes, sizes), max_size=3)),
            temporal_shape=(draw(sizes), draw(sizes), 4 * draw(sizes)),
            conv_dtype=draw(dtypes),
            temporal_dtype=draw(codec_dtypes),
            align=align,
        ),
    ]


@given(chains())
@settings(max_examples=150, deadline=None)
def test_whatever_resolves_is_aligned_and_without_overlap(declared: list[Declaration]) -> None:
    for found in resolve(declared):
        layout = found.layout
        assert found.page_bytes == layout.page_bytes >= layout.layers * layout.layer_bytes
        assert found.page_bytes >= 1
        assert len(found.shapes) == len(found.dtypes) == len(layout.parts)
        taken: list[tuple[int, int]] = []
        for layer in range(layout.layers):
            for number, part in enumerate(layout.parts):
                item = ITEM_BYTES[found.dtypes[number]]
                assert part.item_bytes == item
                assert int(np.prod(found.shapes[number])) == part.rows * part.row_elements
                for row in range(part.rows):
                    start = layout.row_start(1, layer, number, row)
                    assert start % item == 0
                    assert start % found.align == 0
                    taken.append((start, start + part.row_bytes))
        taken.sort()
        assert all(end <= start for (_, end), (start, _) in pairwise(taken))
        assert not taken or (taken[0][0] == found.page_bytes and taken[-1][1] <= 2 * found.page_bytes)
