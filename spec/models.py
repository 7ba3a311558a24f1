"""Public models whose cache shapes are shipped. Every number is from the model's own `config.json`.

`source` names the repository on the model hub and the keys that were read. Shapes are those of one rank: a tensor
parallel size splits heads, a pipeline stage takes a run of layers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


class ModelError(ValueError):
    """A model that is not shipped, or cannot be split as asked."""


@dataclass(frozen=True)
class Linear:
    """The recurrent layers of a hybrid model.

    Attributes:
        kind: "gdn" (gated delta net), "kda" (Kimi delta attention) or "mamba2".
        heads, d_v, d_k: the temporal state of a layer, [heads, d_v, d_k]; for Mamba-2 d_v is the head's size and d_k
            the size of its state.
        groups: heads or groups of the conv's key side.
        conv_kernel: width of the causal convolution; the last `conv_kernel - 1` columns are kept.
    """

    kind: str
    heads: int
    d_v: int
    d_k: int
    groups: int
    conv_kernel: int


@dataclass(frozen=True)
class Model:
    """One model.

    Attributes:
        source: where the numbers are from.
        pattern: one letter a layer: F full attention, W sliding window, L linear, B full attention and linear side by
            side, - neither.
        positions: the longest context that the configuration allows, in tokens.
        kv_heads, head_dim: keys and values; both are of one size in all these models.
        latent_dim, rope_dim: latent attention keeps these in the place of keys and values.
        window: tokens of the sliding window.
        linear: the recurrent layers.
        dtype: the dtype of the model, and so of keys, values and conv windows.
        temporal_dtype: what engines keep the recurrent state in where nobody says otherwise.
    """

    name: str
    source: str
    pattern: str
    positions: int
    kv_heads: int = 0
    head_dim: int = 0
    latent_dim: int = 0
    rope_dim: int = 0
    window: int = 0
    linear: Linear | None = None
    dtype: str = "bfloat16"
    temporal_dtype: str = "float32"

    def count(self, letters: str, first: int = 0, end: int | None = None) -> int:
        """How many layers of a pipeline stage [first, end) are of these kinds."""
        return sum(letter in letters for letter in self.pattern[first:end])


MODELS: Final = {
    model.name: model
    for model in (
        Model(
            name="Qwen3-Next-80B-A3B",
            source="Qwen/Qwen3-Next-80B-A3B-Instruct, config.json: num_hidden_layers 48, full_attention_interval 4, "
            "num_key_value_heads 2, head_dim 256, linear_num_value_heads 32, linear_value_head_dim 128, "
            "linear_num_key_heads 16, linear_key_head_dim 128, linear_conv_kernel_dim 4, "
            "max_position_embeddings 262144",
            pattern="LLLF" * 12,
            positions=262144,
            kv_heads=2,
            head_dim=256,
            linear=Linear("gdn", heads=32, d_v=128, d_k=128, groups=16, conv_kernel=4),
        ),
        Model(
            name="Kimi-Linear-48B-A3B",
            source="moonshotai/Kimi-Linear-48B-A3B-Instruct, config.json: num_hidden_layers 27, kv_lora_rank 512, "
            "qk_rope_head_dim 64, model_max_length 1048576, linear_attn_config: full_attn_layers "
            "[4, 8, 12, 16, 20, 24, 27] counted from 1, num_heads 32, head_dim 128, short_conv_kernel_size 4",
            pattern="LLLF" * 6 + "LLF",
            positions=1048576,
            latent_dim=512,
            rope_dim=64,
            linear=Linear("kda", heads=32, d_v=128, d_k=128, groups=32, conv_kernel=4),
        ),
        Model(
            name="Falcon-H1-34B",
            source="tiiuae/Falcon-H1-34B-Instruct, config.json: num_hidden_layers 72, num_key_value_heads 4, "
            "head_dim 128, mamba_d_ssm 4096, mamba_n_heads 32, mamba_d_head 128, mamba_d_state 256, "
            "mamba_n_groups 2, mamba_d_conv 4, max_position_embeddings 262144",
            pattern="B" * 72,
            positions=262144,
            kv_heads=4,
            head_dim=128,
            linear=Linear("mamba2", heads=32, d_v=128, d_k=256, groups=2, conv_kernel=4),
        ),
        Model(
            name="Nemotron-H-8B",
            source="nvidia/Nemotron-H-8B-Base-8K, config.json: hybrid_override_pattern (M: L, *: F), "
            "num_key_value_heads 8, attention_head_dim 128, mamba_num_heads 128, mamba_head_dim 64, "
            "ssm_state_size 128, n_groups 8, conv_kernel 4, max_position_embeddings 8192",
            pattern="M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-".replace("M", "L").replace("*", "F"),
            positions=8192,
            kv_heads=8,
            head_dim=128,
            linear=Linear("mamba2", heads=128, d_v=64, d_k=128, groups=8, conv_kernel=4),
        ),
        Model(
            name="gpt-oss-20b",
            source="openai/gpt-oss-20b, config.json: num_hidden_layers 24, layer_types (sliding and full in turn), "
            "num_key_value_heads 8, head_dim 64, sliding_window 128, max_position_embeddings 131072",
            pattern="WF" * 12,
            positions=131072,
            kv_heads=8,
            head_dim=64,
            window=128,
        ),
        Model(
            name="Gemma-3-12B",
            source="google/gemma-3-12b-it, config.json, text_config: num_hidden_layers 48, sliding_window_pattern 6, "
            "num_key_value_heads 8, head_dim 256, sliding_window 1024, max_position_embeddings 131072",
            pattern="WWWWWF" * 8,
            positions=131072,
            kv_heads=8,
            head_dim=256,
            window=1024,
        ),
        Model(
            name="Gemma-3-27B",
            source="google/gemma-3-27b-it, config.json, text_config: num_hidden_layers 62, sliding_window_pattern 6, "
            "num_key_value_heads 16, head_dim 128, sliding_window 1024, max_position_embeddings 131072",
            pattern="WWWWWF" * 10 + "WW",
            positions=131072,
            kv_heads=16,
            head_dim=128,
            window=1024,
        ),
    )
}


def model_named(name: str) -> Model:
    """The shipped model of this name.

    Raises:
        ModelError: there is none.
    """
    if name not in MODELS:
        raise ModelError(f"no model {name!r} is shipped; shipped: {', '.join(MODELS)}; or state its sub-pools")
    return MODELS[name]


def kv_heads_on_rank(model: Model, tp: int) -> int:
    """Key/value heads on one tensor parallel rank: split, or where there are fewer heads than ranks replicated.

    Raises:
        ModelError: neither heads divide by ranks nor ranks by heads.
    """
    if model.kv_heads % tp == 0:
        return model.kv_heads // tp
    if tp % model.kv_heads == 0:
        return 1
    raise ModelError(f"{model.name} has {model.kv_heads} key/value heads, which tp = {tp} neither splits nor repeats")


def temporal_shape(linear: Linear, tp: int) -> tuple[int, int, int]:
    """The temporal state of a layer on one rank: [heads, d_v, d_k].

    Raises:
        ModelError: the heads cannot be split.
    """
    if linear.heads % tp:
        raise ModelError(f"{linear.heads} linear heads cannot be split over tp = {tp}; choose a divisor")
    return linear.heads // tp, linear.d_v, linear.d_k


def conv_shapes(linear: Linear, tp: int) -> tuple[tuple[int, int], ...]:
    """The conv windows of a layer on one rank: (channels, kernel - 1) each.

    Gated delta net and Mamba-2 keep one window over values, keys and queries: heads * d_v + 2 * groups * d_k channels.
    Kimi delta attention keeps one each for queries, keys and values. Mamba-2 repeats a group that several ranks need.

    Raises:
        ModelError: heads or groups cannot be split.
    """
    heads, d_v, d_k = temporal_shape(linear, tp)
    kept = linear.conv_kernel - 1
    if linear.kind == "kda":
        return ((heads * d_k, kept), (heads * d_k, kept), (heads * d_v, kept))
    if linear.groups % tp == 0:
        groups = linear.groups // tp
    elif linear.kind == "mamba2" and tp % linear.groups == 0:
        groups = 1
    else:
        raise ModelError(f"{linear.groups} conv groups cannot be split over tp = {tp}; choose a divisor")
    return ((heads * d_v + 2 * groups * d_k, kept),)
