"""The shipped models: bytes worked out by hand, and what a rank or a stage of them holds."""

from __future__ import annotations

import pytest

from poolproof.spec.models import (
    MODELS,
    Linear,
    Model,
    ModelError,
    conv_shapes,
    kv_heads_on_rank,
    model_named,
    temporal_shape,
)
from poolproof.spec.shapes import checkpoint_layout, kv_layout, latent_layout, state_layout


def state_bytes(model: Model, temporal_item: int) -> int:
    """A state slot of the whole model, conv windows in two bytes an element."""
    assert model.linear is not None
    shapes = (conv_shapes(model.linear, 1), temporal_shape(model.linear, 1))
    return state_layout(model.count("LB"), *shapes, conv_item=2, temporal_item=temporal_item).page_bytes


def kv_bytes(model: Model, layers: int) -> int:
    """A page of 16 tokens in two bytes an element."""
    if model.latent_dim:
        return latent_layout(layers, model.latent_dim, model.rope_dim, 2, 16).page_bytes
    return kv_layout(layers, model.kv_heads, model.head_dim, model.head_dim, 2, 16).page_bytes


@pytest.mark.parametrize(
    ("name", "full", "window", "state32", "state16"),
    [
        # 12 layers x 16 tokens x 2 heads x (256 + 256) x 2; 36 x (32 x 128 x 128 x 4 + 8192 x 3 x 2)
        ("Qwen3-Next-80B-A3B", 393_216, 0, 77_266_944, 39_518_208),
        # 7 layers x 16 tokens x (512 + 64) x 2; 20 x (32 x 128 x 128 x 4 + 3 x 4096 x 3 x 2)
        ("Kimi-Linear-48B-A3B", 129_024, 0, 43_417_600, 22_446_080),
        # 72 layers x 16 tokens x 4 heads x (128 + 128) x 2; 72 x (32 x 128 x 256 x 4 + 5120 x 3 x 2)
        ("Falcon-H1-34B", 2_359_296, 0, 304_201_728, 153_206_784),
        # 4 layers x 16 tokens x 8 heads x (128 + 128) x 2; 24 x (128 x 64 x 128 x 4 + 10240 x 3 x 2)
        ("Nemotron-H-8B", 262_144, 0, 102_137_856, 51_806_208),
        # 12 layers of each kind x 16 tokens x 8 heads x (64 + 64) x 2
        ("gpt-oss-20b", 393_216, 393_216, 0, 0),
        # 8 and 40 layers x 16 tokens x 8 heads x (256 + 256) x 2
        ("Gemma-3-12B", 1_048_576, 5_242_880, 0, 0),
        # 10 and 52 layers x 16 tokens x 16 heads x (128 + 128) x 2
        ("Gemma-3-27B", 1_310_720, 6_815_744, 0, 0),
    ],
)
def test_bytes_of_a_page_and_a_slot(name: str, full: int, window: int, state32: int, state16: int) -> None:
    model = MODELS[name]
    assert kv_bytes(model, model.count("FB")) == full
    assert (kv_bytes(model, model.count("W")) if model.window else 0) == window
    assert (state_bytes(model, 4) if model.linear else 0) == state32
    assert (state_bytes(model, 2) if model.linear else 0) == state16


def test_every_model_is_in_that_list() -> None:
    (parameters,) = (mark for mark in test_bytes_of_a_page_and_a_slot.pytestmark if mark.name == "parametrize")  # type: ignore[attr-defined]
    assert {row[0] for row in parameters.args[1]} == set(MODELS)


@pytest.mark.parametrize(
    ("name", "layers", "full", "window", "linear"),
    [
        ("Qwen3-Next-80B-A3B", 48, 12, 0, 36),
        ("Kimi-Linear-48B-A3B", 27, 7, 0, 20),
        ("Falcon-H1-34B", 72, 72, 0, 72),
        ("Nemotron-H-8B", 52, 4, 0, 24),
        ("gpt-oss-20b", 24, 12, 12, 0),
        ("Gemma-3-12B", 48, 8, 40, 0),
        ("Gemma-3-27B", 62, 10, 52, 0),
    ],
)
def test_layers_of_each_kind(name: str, layers: int, full: int, window: int, linear: int) -> None:
    model = MODELS[name]
    counts = (len(model.pattern), model.count("FB"), model.count("W"), model.count("LB"))
    assert counts == (layers, full, window, linear)


def test_full_layers_lie_where_the_configurations_say() -> None:
    def places(name: str) -> list[int]:
        return [number for number, letter in enumerate(MODELS[name].pattern, 1) if letter == "F"]

    assert places("Kimi-Linear-48B-A3B") == [4, 8, 12, 16, 20, 24, 27]
    assert places("Qwen3-Next-80B-A3B") == list(range(4, 49, 4))
    assert places("Nemotron-H-8B") == [8, 19, 30, 41]
    assert places("gpt-oss-20b") == list(range(2, 25, 2))
    assert places("Gemma-3-27B") == list(range(6, 61, 6))


def test_a_checkpoint_is_about_half_a_state() -> None:
    linear = MODELS["Qwen3-Next-80B-A3B"].linear
    assert linear is not None
    layout = checkpoint_layout(36, conv_shapes(linear, 1), temporal_shape(linear, 1), conv_item=2, scale_item=2)
    # 36 x (32 x 128 x 128 + 32 x 128 x 2 + 8192 x 3 x 2)
    assert layout.page_bytes == 20_938_752


@pytest.mark.parametrize(
    ("name", "tp", "heads", "temporal", "conv"),
    [
        ("Qwen3-Next-80B-A3B", 2, 1, (16, 128, 128), ((4096, 3),)),
        ("Qwen3-Next-80B-A3B", 8, 1, (4, 128, 128), ((1024, 3),)),
        ("Falcon-H1-34B", 2, 2, (16, 128, 256), ((2560, 3),)),
        ("Falcon-H1-34B", 4, 1, (8, 128, 256), ((1536, 3),)),  # 2 groups on 4 ranks: each keeps one, 1024 + 2 x 256
        ("Nemotron-H-8B", 8, 1, (16, 64, 128), ((1280, 3),)),
    ],
)
def test_what_one_rank_holds(
    name: str, tp: int, heads: int, temporal: tuple[int, ...], conv: tuple[tuple[int, ...], ...]
) -> None:
    model = MODELS[name]
    assert model.linear is not None
    assert kv_heads_on_rank(model, tp) == heads
    assert temporal_shape(model.linear, tp) == temporal
    assert conv_shapes(model.linear, tp) == conv


def test_kimi_keeps_three_windows() -> None:
    linear = MODELS["Kimi-Linear-48B-A3B"].linear
    assert linear is not None
    assert conv_shapes(linear, 4) == ((1024, 3),) * 3


def test_what_cannot_be_split_is_refused_with_the_numbers() -> None:
    with pytest.raises(ModelError, match="2 key/value heads, which tp = 3"):
        kv_heads_on_rank(MODELS["Qwen3-Next-80B-A3B"], 3)
    with pytest.raises(ModelError, match="32 linear heads cannot be split over tp = 5"):
        temporal_shape(Linear("gdn", 32, 128, 128, 16, 4), 5)
    with pytest.raises(ModelError, match="16 conv groups cannot be split over tp = 32"):
        conv_shapes(Linear("gdn", 32, 128, 128, 16, 4), 32)
    with pytest.raises(ModelError, match="no model 'GPT-9' is shipped; shipped: Qwen3-Next"):
        model_named("GPT-9")


def test_every_model_names_its_source() -> None:
    for model in MODELS.values():
        hub, _, rest = model.source.partition(", ")
        assert hub.count("/") == 1
        assert rest.startswith("config.json")
        assert "://" not in model.source
