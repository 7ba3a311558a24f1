"""Sub-pools of shipped models and of configurations: bytes worked out by hand, splits, and everything refused."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from poolproof.errors import LayoutError
from poolproof.model_pools import sub_pools_for
from poolproof.spec.models import MODELS, Linear, Model
from poolproof.sub_pools import Declaration, KVPages, LatentPages, StateSlots, WindowPages, resolve

CONFIGS: dict[str, dict[str, Any]] = {
    "Qwen3-Next-80B-A3B": {
        "model_type": "qwen3_next",
        "num_hidden_layers": 48,
        "full_attention_interval": 4,
        "num_key_value_heads": 2,
        "head_dim": 256,
        "linear_num_value_heads": 32,
        "linear_value_head_dim": 128,
        "linear_num_key_heads": 16,
        "linear_key_head_dim": 128,
        "linear_conv_kernel_dim": 4,
        "torch_dtype": "bfloat16",
    },
    "Kimi-Linear-48B-A3B": {
        "model_type": "kimi_linear",
        "num_hidden_layers": 27,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
        "linear_attn_config": {
            "full_attn_layers": [4, 8, 12, 16, 20, 24, 27],
            "num_heads": 32,
            "head_dim": 128,
            "short_conv_kernel_size": 4,
        },
        "dtype": "bfloat16",
    },
    "Falcon-H1-34B": {
        "model_type": "falcon_h1",
        "num_hidden_layers": 72,
        "num_key_value_heads": 4,
        "head_dim": 128,
        "mamba_n_heads": 32,
        "mamba_d_head": 128,
        "mamba_d_state": 256,
        "mamba_n_groups": 2,
        "mamba_d_conv": 4,
        "torch_dtype": "bfloat16",
    },
    "Nemotron-H-8B": {
        "model_type": "nemotron_h",
        "hybrid_override_pattern": "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-",
        "num_key_value_heads": 8,
        "attention_head_dim": 128,
        "mamba_num_heads": 128,
        "mamba_head_dim": 64,
        "ssm_state_size": 128,
        "n_groups": 8,
        "conv_kernel": 4,
        "torch_dtype": "bfloat16",
    },
    "gpt-oss-20b": {
        "model_type": "gpt_oss",
        "num_hidden_layers": 24,
        "layer_types": ["sliding_attention", "full_attention"] * 12,
        "num_key_value_heads": 8,
        "head_dim": 64,
        "torch_dtype": "bfloat16",
    },
    "Gemma-3-12B": {
        "model_type": "gemma3",
        "text_config": {
            "num_hidden_layers": 48,
            "sliding_window_pattern": 6,
            "num_key_value_heads": 8,
            "head_dim": 256,
        },
        "torch_dtype": "bfloat16",
    },
    "Gemma-3-27B": {
        "model_type": "gemma3_text",
        "num_hidden_layers": 62,
        "sliding_window_pattern": 6,
        "num_key_value_heads": 16,
        "head_dim": 128,
        "torch_dtype": "bfloat16",
    },
}


def as_object(config: Any) -> Any:
    """The same configuration as an object with attributes, whatever is nested included."""
    if not isinstance(config, Mapping):
        return config
    return SimpleNamespace(**{key: as_object(value) for key, value in config.items()})


def config(name: str, **changes: Any) -> dict[str, Any]:
    """A configuration with some keys changed; those that are None are left out."""
    values = {**copy.deepcopy(CONFIGS[name]), **changes}
    return {key: value for key, value in values.items() if value is not None}


def sizes(declared: list[Declaration]) -> dict[str, int]:
    """Bytes of a page by sub-pool, in chain order."""
    return {found.name: found.page_bytes for found in resolve(declared)}


# ------------------------------------------------------------------------------------------------------ shipped models


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # 12 layers x 16 tokens x 2 heads x (256 + 256) x 2; 36 x (32 x 128 x 128 x 4 + 8192 x 3 x 2)
        ("Qwen3-Next-80B-A3B", {"full": 393_216, "state": 77_266_944}),
        # 7 layers x 16 tokens x (512 + 64) x 2; 20 x (32 x 128 x 128 x 4 + 3 x 4096 x 3 x 2)
        ("Kimi-Linear-48B-A3B", {"full": 129_024, "state": 43_417_600}),
        # 72 layers x 16 tokens x 4 heads x (128 + 128) x 2; 72 x (32 x 128 x 256 x 4 + 5120 x 3 x 2)
        ("Falcon-H1-34B", {"full": 2_359_296, "state": 304_201_728}),
        # 4 layers x 16 tokens x 8 heads x (128 + 128) x 2; 24 x (128 x 64 x 128 x 4 + 10240 x 3 x 2)
        ("Nemotron-H-8B", {"full": 262_144, "state": 102_137_856}),
        # 12 layers of each kind x 16 tokens x 8 heads x (64 + 64) x 2
        ("gpt-oss-20b", {"full": 393_216, "window": 393_216}),
        # 8 and 40 layers x 16 tokens x 8 heads x (256 + 256) x 2
        ("Gemma-3-12B", {"full": 1_048_576, "window": 5_242_880}),
        # 10 and 52 layers x 16 tokens x 16 heads x (128 + 128) x 2
        ("Gemma-3-27B", {"full": 1_310_720, "window": 6_815_744}),
    ],
)
def test_bytes_of_every_shipped_model(name: str, expected: dict[str, int]) -> None:
    assert sizes(sub_pools_for(name)) == expected
    assert sub_pools_for(MODELS[name]) == sub_pools_for(name)


def test_every_shipped_model_is_tested() -> None:
    assert {*CONFIGS} == {*MODELS}


def test_checkpoints_float_between_the_ends() -> None:
    declared = sub_pools_for("Qwen3-Next-80B-A3B", checkpoints=True, temporal_dtype=torch.bfloat16)
    # 36 x (32 x 128 x 128 + 32 x 128 x 2 + 8192 x 3 x 2)
    assert sizes(declared) == {"full": 393_216, "checkpoint": 20_938_752, "state": 39_518_208}
    assert [d.grows for d in declared] == ["up", "float", "down"]


def test_page_size_dtypes_and_alignment_reach_the_declarations() -> None:
    full, state = sub_pools_for(
        "Falcon-H1-34B",
        page_size=64,
        dtype=torch.float8_e4m3fn,
        conv_dtype=np.float32,
        temporal_dtype="float16",
        align=256,
    )
    assert isinstance(full, KVPages)
    assert (full.page_size, full.dtype, full.align) == (64, "float8_e4m3fn", 256)
    assert isinstance(state, StateSlots)
    assert (state.conv_dtype, state.temporal_dtype, state.align) == ("float32", "float16", 256)


@pytest.mark.parametrize(
    ("name", "tp", "heads", "temporal", "conv"),
    [
        ("Qwen3-Next-80B-A3B", 2, 1, (16, 128, 128), ((4096, 3),)),
        ("Qwen3-Next-80B-A3B", 8, 1, (4, 128, 128), ((1024, 3),)),
        ("Falcon-H1-34B", 2, 2, (16, 128, 256), ((2560, 3),)),
        ("Falcon-H1-34B", 4, 1, (8, 128, 256), ((1536, 3),)),
        ("Nemotron-H-8B", 8, 1, (16, 64, 128), ((1280, 3),)),
    ],
)
def test_what_one_rank_declares(name: str, tp: int, heads: int, temporal: Any, conv: Any) -> None:
    full, state = sub_pools_for(name, tp=tp)
    assert isinstance(full, KVPages)
    assert isinstance(state, StateSlots)
    assert (full.kv_heads, state.temporal_shape, state.conv_shapes) == (heads, temporal, conv)


def test_every_rank_holds_the_whole_latent() -> None:
    full, state = sub_pools_for("Kimi-Linear-48B-A3B", tp=4)
    assert full == LatentPages("full", layers=7, latent_dim=512, rope_dim=64, dtype="bfloat16", page_size=16)
    assert isinstance(state, StateSlots)
    assert state.conv_shapes == ((1024, 3),) * 3


@pytest.mark.parametrize(
    ("name", "stage", "layers"),
    [
        ("Qwen3-Next-80B-A3B", (0, 24), [6, 18]),
        ("Qwen3-Next-80B-A3B", (4, 7), [0, 3]),
        ("Nemotron-H-8B", (7, 8), [1, 0]),
        ("Nemotron-H-8B", (1, 2), [0, 0]),
        ("gpt-oss-20b", [2, 5], [1, 2]),
        ("Gemma-3-12B", (0, 5), [0, 5]),
        ("Gemma-3-12B", (5, 6), [1, 0]),
        ("Falcon-H1-34B", (np.int64(70), 72), [2, 2]),
    ],
)
def test_a_stage_declares_what_the_model_has(name: str, stage: Any, layers: list[int]) -> None:
    declared = sub_pools_for(name, stage=stage)
    assert [(d.name, d.grows, d.kind) for d in declared] == [(d.name, d.grows, d.kind) for d in sub_pools_for(name)]
    assert [found.layout.layers for found in resolve(declared)] == layers


def test_stages_together_hold_every_layer() -> None:
    for model in MODELS.values():
        whole = [found.layout.layers for found in resolve(sub_pools_for(model))]
        cuts = [0, 1, 7, len(model.pattern)]
        parts = [resolve(sub_pools_for(model, stage=cut)) for cut in pairwise(cuts)]
        assert [sum(found.layout.layers for found in kind) for kind in zip(*parts, strict=True)] == whole


# ------------------------------------------------------------------------------------------------------- other models


def model(pattern: str, **more: Any) -> Model:
    """A small model of this pattern."""
    values: dict[str, Any] = {
        "kv_heads": 2,
        "head_dim": 8,
        "linear": Linear("gdn", heads=2, d_v=4, d_k=8, groups=2, conv_kernel=4),
    }
    return Model(name="mine", source="", pattern=pattern, positions=64, **{**values, **more})


@pytest.mark.parametrize(
    ("pattern", "checkpoints", "chain"),
    [
        ("FWL", False, ["full up", "window float", "state down"]),
        ("FWL", True, ["full up", "window float", "checkpoint float", "state down"]),
        ("F--", False, ["full up"]),
        ("LL", False, ["state up"]),
        ("LL", True, ["checkpoint up", "state down"]),
        ("BW", False, ["full up", "window float", "state down"]),
    ],
)
def test_the_first_grows_up_and_the_last_down(pattern: str, checkpoints: bool, chain: list[str]) -> None:
    declared = sub_pools_for(model(pattern), checkpoints=checkpoints)
    assert [f"{d.name} {d.grows}" for d in declared] == chain
    assert [found.name for found in resolve(declared)] == [d.name for d in declared]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (model("---"), "mine has no layer that keeps a cache in its 3 layers"),
        (model("WL"), "mine has 1 sliding window layers and no full ones, whose ids a window could bind pages for"),
        (model("WF", latent_dim=8), "mine has latent attention and sliding windows; declare its sub-pools yourself"),
        (model("FLL", linear=None), "mine has 2 recurrent layers and linear = None; state their shape"),
        (model("FF", kv_heads=0), "sub-pool 'full' kv_heads = 0: it must be a whole number of at least 1"),
        ("GPT-9", "no model 'GPT-9' is shipped; shipped: Qwen3-Next-80B-A3B, "),
    ],
)
def test_models_that_are_refused(asked: Any, message: str) -> None:
    with pytest.raises(LayoutError) as caught:
        sub_pools_for(asked)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("Qwen3-Next-80B-A3B", {"tp": 3}, "on tp = 3 ranks: Qwen3-Next-80B-A3B has 2 key/value heads, which tp = 3 "),
        ("Kimi-Linear-48B-A3B", {"tp": 5}, "on tp = 5 ranks: 32 linear heads cannot be split over tp = 5"),
        ("Qwen3-Next-80B-A3B", {"tp": 32}, "16 conv groups cannot be split over tp = 32; choose a divisor"),
        ("gpt-oss-20b", {"tp": 0}, "sub_pools_for tp = 0: it must be a whole number of at least 1"),
        ("gpt-oss-20b", {"tp": True}, "sub_pools_for tp = True: it must be a whole number"),
        ("gpt-oss-20b", {"checkpoints": True}, "checkpoints = True: gpt-oss-20b has no recurrent layers; leave it out"),
        ("gpt-oss-20b", {"stage": (0, 25)}, "stage = (0, 25): gpt-oss-20b has the layers [0, 24); take a part of them"),
        ("gpt-oss-20b", {"stage": (5, 5)}, "stage = (5, 5): gpt-oss-20b has the layers [0, 24); take a part of them"),
        ("gpt-oss-20b", {"stage": (-1, 5)}, "sub_pools_for stage = -1: it must be a whole number of at least 0"),
        ("gpt-oss-20b", {"stage": 2}, "stage = 2: it must be the layers (first, end) of this pipeline stage"),
        ("gpt-oss-20b", {"stage": (0, 4, 8)}, "stage = (0, 4, 8): it must be the layers (first, end)"),
        ("gpt-oss-20b", {"page_size": 0}, "'full' page_size = 0: it must be a whole number of at least 1"),
        ("gpt-oss-20b", {"dtype": ""}, "'full' dtype = '': it must be one of float32"),
        ("gpt-oss-20b", {"align": 24}, "'full' align = 24: it must be a power of two"),
        ("Falcon-H1-34B", {"temporal_dtype": "fp32"}, "'state' temporal_dtype = 'fp32': it must be one of float32"),
    ],
)
def test_arguments_that_are_refused(name: str, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(LayoutError) as caught:
        sub_pools_for(name, **arguments)
    assert message in str(caught.value)


# ------------------------------------------------------------------------------------------------------ configurations


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("shape", [dict, as_object])
def test_a_configuration_gives_what_the_shipped_model_gives(name: str, shape: Any) -> None:
    assert sub_pools_for(shape(CONFIGS[name])) == sub_pools_for(name)
    assert sub_pools_for(shape(CONFIGS[name]), tp=2, stage=(0, 5)) == sub_pools_for(name, tp=2, stage=(0, 5))


@pytest.mark.parametrize(
    ("name", "key"),
    [(name, key) for name, values in CONFIGS.items() for key in values],
)
@pytest.mark.parametrize("shape", [dict, as_object])
def test_a_missing_key_is_named(name: str, key: str, shape: Any) -> None:
    with pytest.raises(LayoutError) as caught:
        sub_pools_for(shape(config(name, **{key: None})))
    assert key in str(caught.value)
    assert "; add it, or " in str(caught.value)


@pytest.mark.parametrize("name", ["Kimi-Linear-48B-A3B", "Gemma-3-12B"])
def test_a_missing_nested_key_is_named(name: str) -> None:
    outer = {"Kimi-Linear-48B-A3B": "linear_attn_config", "Gemma-3-12B": "text_config"}[name]
    for key in CONFIGS[name][outer]:
        inner = {other: value for other, value in CONFIGS[name][outer].items() if other != key}
        with pytest.raises(LayoutError, match=f"configuration {outer} has no .*{key}"):
            sub_pools_for(config(name, **{outer: inner}))


@pytest.mark.parametrize(
    ("name", "key"),
    [
        (name, key)
        for name, values in CONFIGS.items()
        for key, value in values.items()
        if isinstance(value, int) and key != "model_type"
    ],
)
@pytest.mark.parametrize("value", [0, -4, True, 4.0, "4"])
def test_a_value_that_is_no_size_is_refused(name: str, key: str, value: Any) -> None:
    if (key, value) == ("qk_rope_head_dim", 0):  # a latent without a rotary key
        assert sub_pools_for(config(name, **{key: value}))
        return
    with pytest.raises(LayoutError) as caught:
        sub_pools_for(config(name, **{key: value}))
    assert f"{key} = {value!r}: it must be a whole number of at least" in str(caught.value)


def test_layer_types_go_before_the_interval() -> None:
    types = ["full_attention", "linear_attention"] * 24
    full, state = sub_pools_for(config("Qwen3-Next-80B-A3B", layer_types=types))
    assert isinstance(full, KVPages)
    assert isinstance(state, StateSlots)
    assert (full.layers, state.layers) == (24, 24)
    types = ["full_attention", "sliding_attention"] * 31
    full, window = sub_pools_for(config("Gemma-3-27B", layer_types=types, sliding_window_pattern=None))
    assert isinstance(window, WindowPages)
    assert window.layers == 31


def test_the_dtype_is_the_configurations_own_or_the_callers() -> None:
    def dtypes(*arguments: Any, **more: Any) -> list[Any]:
        return [d.dtype if isinstance(d, KVPages) else d.conv_dtype for d in sub_pools_for(*arguments, **more)]  # type: ignore[attr-defined]

    name = "Falcon-H1-34B"
    assert dtypes(config(name, torch_dtype=torch.float16)) == ["float16", "float16"]
    assert dtypes(config(name, dtype="float16")) == ["float16", "float16"]  # before the older torch_dtype
    assert dtypes(config(name), dtype="float8_e5m2") == ["float8_e5m2", "bfloat16"]
    assert dtypes(config(name, torch_dtype=None), dtype="int8", conv_dtype="float16") == ["int8", "float16"]
    with pytest.raises(LayoutError, match="falcon_h1 configuration has no dtype or torch_dtype; add it, or pass dtype"):
        sub_pools_for(config(name, torch_dtype=None))
    with pytest.raises(LayoutError, match="has no dtype or torch_dtype; add it, or pass conv_dtype="):
        sub_pools_for(config(name, torch_dtype=None), dtype="bfloat16")
    with pytest.raises(LayoutError, match="torch_dtype = 'auto': it must be one of float32"):
        sub_pools_for(config(name, torch_dtype="auto"))


def test_the_dtype_of_a_nested_configuration_goes_first() -> None:
    nested = {**CONFIGS["Gemma-3-12B"]["text_config"], "dtype": "float16"}
    full, _ = sub_pools_for(config("Gemma-3-12B", text_config=nested))
    assert isinstance(full, KVPages)
    assert full.dtype == "float16"


def test_other_spellings_that_are_known() -> None:
    name = "Nemotron-H-8B"
    assert sub_pools_for(config(name, attention_head_dim=None, head_dim=128)) == sub_pools_for(name)
    experts = CONFIGS[name]["hybrid_override_pattern"].replace("-", "E")
    assert sub_pools_for(config(name, hybrid_override_pattern=experts)) == sub_pools_for(name)
    linear = CONFIGS["Kimi-Linear-48B-A3B"]["linear_attn_config"]
    rest = sorted({*range(1, 28)} - {*linear["full_attn_layers"]}, reverse=True)
    known = config("Kimi-Linear-48B-A3B", linear_attn_config={**linear, "kda_layers": rest})
    assert sub_pools_for(known) == sub_pools_for("Kimi-Linear-48B-A3B")
    assert sub_pools_for(config("Falcon-H1-34B", mamba_d_ssm=4096)) == sub_pools_for("Falcon-H1-34B")


KIMI = CONFIGS["Kimi-Linear-48B-A3B"]["linear_attn_config"]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({}, "the configuration has no model_type; add it"),
        (None, "the configuration has no model_type; add it"),
        (48, "the configuration has no model_type; add it"),
        ({"model_type": "llama"}, "model_type = 'llama' is not known: qwen3_next, kimi_linear, falcon_h1, "),
        ({"model_type": ["gpt_oss"]}, "model_type = ['gpt_oss'] is not known"),
        (config("Falcon-H1-34B", mamba_d_head="auto"), "mamba_d_head = 'auto': it must be a whole number"),
        (
            config("Falcon-H1-34B", mamba_d_ssm=5120),
            "the falcon_h1 configuration mamba_d_ssm = 5120 is not mamba_n_heads * mamba_d_head = 4096; correct one",
        ),
        (
            config("Nemotron-H-8B", attention_head_dim=None, head_dim=0),
            "the nemotron_h configuration head_dim = 0: it must be a whole number of at least 1",
        ),
        (
            config("gpt-oss-20b", layer_types=None),
            "the gpt_oss configuration has no layer_types; add it, or declare the sub-pools yourself",
        ),
        (
            config("Gemma-3-27B", sliding_window_pattern=None),
            "the gemma3_text configuration has no layer_types or sliding_window_pattern; add it, or declare",
        ),
        (config("Falcon-H1-34B", mamba_d_conv=1), "mamba_d_conv = 1: it must be a whole number of at least 2"),
        (config("Nemotron-H-8B", hybrid_override_pattern="M*X-"), "hybrid_override_pattern has X; known: M * - E"),
        (config("Nemotron-H-8B", hybrid_override_pattern=["M"]), "hybrid_override_pattern has ['M']; known: M * - E"),
        (
            config("gpt-oss-20b", layer_types=["full_attention"] * 23),
            "the gpt_oss configuration layer_types has 23 layers, num_hidden_layers = 24; correct one",
        ),
        (
            config("gpt-oss-20b", layer_types=["full_attention"] * 23 + ["chunked_attention"]),
            "layer_types has 'chunked_attention'; known: full_attention, sliding_attention",
        ),
        (config("gpt-oss-20b", layer_types=["linear_attention"] * 24), "layer_types has 'linear_attention'; known: "),
        (config("gpt-oss-20b", layer_types=[["full"]] * 24), "layer_types has ['full']; known: "),
        (config("gpt-oss-20b", layer_types="full_attention"), "layer_types = 'full_attention': it must be a list"),
        (config("gpt-oss-20b", layer_types=24), "layer_types = 24: it must be a list"),
        (
            config("Kimi-Linear-48B-A3B", linear_attn_config={**KIMI, "full_attn_layers": [4, 4]}),
            "linear_attn_config full_attn_layers = [4, 4]: distinct layers of 1..27 are expected",
        ),
        (
            config("Kimi-Linear-48B-A3B", linear_attn_config={**KIMI, "full_attn_layers": [28]}),
            "linear_attn_config full_attn_layers = [28]: distinct layers of 1..27 are expected",
        ),
        (
            config("Kimi-Linear-48B-A3B", linear_attn_config={**KIMI, "full_attn_layers": [0, 4]}),
            "linear_attn_config full_attn_layers = 0: it must be a whole number of at least 1",
        ),
        (
            config("Kimi-Linear-48B-A3B", linear_attn_config={**KIMI, "kda_layers": [1, 2, 3]}),
            "kda_layers and full_attn_layers are not together the layers 1..27",
        ),
        (config("Gemma-3-12B", text_config=7), "the gemma3 configuration text_config has no num_hidden_layers"),
    ],
)
def test_configurations_that_are_refused(asked: Any, message: str) -> None:
    with pytest.raises(LayoutError) as caught:
        sub_pools_for(asked)
    assert message in str(caught.value)
