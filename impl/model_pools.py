"""The sub-pools that a model needs, declared from its name or its configuration.

    pool = pp.UnifiedPool(total_bytes=8 << 30, sub_pools=sub_pools_for("Qwen3-Next-80B-A3B", tp=2, checkpoints=True))

How a model's layers split over ranks is worked out in `poolproof.spec.models`; here its numbers become declarations. Of
a configuration only what is there is read, and nothing is guessed. Only the layers of the model proper count: draft
layers for multi-token prediction are not declared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from poolproof.errors import LayoutError
from poolproof.spec.models import Linear, Model, ModelError, conv_shapes, kv_heads_on_rank, model_named, temporal_shape
from poolproof.sub_pools import (
    Checkpoints,
    Declaration,
    Dtype,
    KVPages,
    LatentPages,
    StateSlots,
    WindowPages,
    dtype_name,
    whole_number,
)


def sub_pools_for(
    config: str | Model | Mapping[str, Any] | object,
    *,
    tp: int = 1,
    stage: tuple[int, int] | None = None,
    page_size: int = 16,
    dtype: Dtype | None = None,
    conv_dtype: Dtype | None = None,
    temporal_dtype: Dtype | None = None,
    checkpoints: bool = False,
    align: int = 1,
) -> list[Declaration]:
    """The sub-pools of one rank: "full", "window", "checkpoint" and "state", those that the model has.

    The first of them grows up, the last one down, others float. A pipeline stage without layers of a kind that the
    model has declares that sub-pool with no layers, so that all stages make the same calls.

    Args:
        config: the name of a shipped model; a `poolproof.spec.models.Model`; or a configuration as the model hub has
            it, a mapping or an object, of model_type qwen3_next, kimi_linear, falcon_h1, nemotron_h, gpt_oss, gemma3 or
            gemma3_text.
        tp: tensor parallel ranks, over which heads split; fewer key/value heads than ranks are repeated.
        stage: the layers [first, end) of this rank's pipeline stage, counted from 0; all where nothing is said.
        page_size: tokens a page.
        dtype: of keys and values; the model's where nothing is said.
        conv_dtype: of the conv windows; the model's where nothing is said.
        temporal_dtype: of the temporal state; float32 where nothing is said, for it is the engine's choice.
        checkpoints: add int8 checkpoints of the states?
        align: bytes, of every sub-pool.

    Raises:
        LayoutError: the model is not known or cannot be split so, or the configuration lacks a key or has an impossible
            value; the message says which.
    """
    model = _model_of(config)
    ranks, span = whole_number("sub_pools_for", "tp", tp), _stage(model, stage)
    token = {"page_size": page_size, "dtype": dtype}
    state = {"conv_dtype": conv_dtype, "temporal_dtype": temporal_dtype}
    try:
        makers = [*_attention(model, ranks, span, token), *_recurrent(model, ranks, span, state, checkpoints)]
    except ModelError as problem:
        raise LayoutError(f"{model.name} on tp = {ranks} ranks: {problem}") from None
    if not makers:
        raise LayoutError(f"{model.name} has no layer that keeps a cache in its {len(model.pattern)} layers")
    grows = ["up", *["float"] * (len(makers) - 2), "down"]
    return [make(grows=grows[place], align=align) for place, make in enumerate(makers)]


_Maker = Callable[..., Declaration]


def _attention(model: Model, tp: int, span: tuple[int, int], token: dict[str, Any]) -> list[_Maker]:
    """Full attention, then sliding windows that bind pages for its ids."""
    has_full, has_windows = model.count("FB") > 0, model.count("W") > 0
    if not has_full and not has_windows:
        return []
    if not has_full:
        raise LayoutError(
            f"{model.name} has {model.count('W')} sliding window layers and no full ones, whose ids a window could "
            "bind pages for; declare KVPages for them"
        )
    dtype = _dtype(model, token, "dtype")
    full = {"layers": model.count("FB", *span), "dtype": dtype, "page_size": token["page_size"]}
    if model.latent_dim:
        if has_windows:
            raise LayoutError(f"{model.name} has latent attention and sliding windows; declare its sub-pools yourself")
        return [partial(LatentPages, "full", latent_dim=model.latent_dim, rope_dim=model.rope_dim, **full)]
    heads: dict[str, Any] = {"kv_heads": kv_heads_on_rank(model, tp), "head_dim": model.head_dim}
    makers: list[_Maker] = [partial(KVPages, "full", **heads, **full)]
    if has_windows:
        makers.append(partial(WindowPages, "window", layers=model.count("W", *span), dtype=dtype, **heads))
    return makers


def _recurrent(model: Model, tp: int, span: tuple[int, int], dtypes: dict[str, Any], checkpoints: bool) -> list[_Maker]:
    """Checkpoints if they are wanted, then states."""
    if not model.count("LB"):
        if checkpoints:
            raise LayoutError(f"checkpoints = True: {model.name} has no recurrent layers; leave it out")
        return []
    if model.linear is None:
        raise LayoutError(f"{model.name} has {model.count('LB')} recurrent layers and linear = None; state their shape")
    state = partial(
        StateSlots,
        "state",
        layers=model.count("LB", *span),
        conv_shapes=conv_shapes(model.linear, tp),
        temporal_shape=temporal_shape(model.linear, tp),
        conv_dtype=_dtype(model, dtypes, "conv_dtype"),
        temporal_dtype=model.temporal_dtype if dtypes["temporal_dtype"] is None else dtypes["temporal_dtype"],
    )
    return [partial(Checkpoints, "checkpoint", of="state"), state] if checkpoints else [state]


def _stage(model: Model, stage: tuple[int, int] | None) -> tuple[int, int]:
    layers = len(model.pattern)
    if stage is None:
        return 0, layers
    if not isinstance(stage, tuple | list) or len(stage) != 2:
        raise LayoutError(f"stage = {stage!r}: it must be the layers (first, end) of this pipeline stage")
    first, end = (whole_number("sub_pools_for", "stage", bound, 0) for bound in stage)
    if not first < end <= layers:
        raise LayoutError(f"stage = {stage!r}: {model.name} has the layers [0, {layers}); take a part of them")
    return first, end


def _dtype(model: Model, given: Mapping[str, Any], key: str) -> Any:
    if given[key] is None and not model.dtype:
        raise LayoutError(f"{model.name} has no dtype or torch_dtype; add it, or pass {key}=")
    return model.dtype if given[key] is None else given[key]


# ------------------------------------------------------------------------------------------------------- configurations


class _Keys:
    """A configuration, read key by key from a mapping or an object; None counts as missing."""

    def __init__(self, config: Any, where: str) -> None:
        self.config = config
        self.where = where

    def get(self, key: str) -> Any:
        """The value, or None."""
        return self.config.get(key) if isinstance(self.config, Mapping) else getattr(self.config, key, None)

    def first(self, *keys: str) -> str:
        """The first of these keys that is there."""
        for key in keys:
            if self.get(key) is not None:
                return key
        raise LayoutError(f"{self.where} has no {' or '.join(keys)}; add it, or declare the sub-pools yourself")

    def take(self, key: str) -> Any:
        """The value under a key."""
        return self.get(self.first(key))

    def number(self, *keys: str, least: int = 1) -> int:
        """The whole number under the first of these keys that is there."""
        key = self.first(*keys)
        return whole_number(self.where, key, self.get(key), least)

    def nested(self, key: str) -> _Keys:
        """The configuration under a key."""
        return _Keys(self.take(key), f"{self.where} {key}")

    def listed(self, key: str) -> list[Any]:
        """The list under a key."""
        value = self.take(key)
        if not isinstance(value, Iterable) or isinstance(value, str | Mapping):
            raise LayoutError(f"{self.where} {key} = {value!r}: it must be a list")
        return list(value)

    def numbers(self, key: str) -> list[int]:
        """The list of whole numbers under a key."""
        return [whole_number(self.where, key, value) for value in self.listed(key)]

    def dtype(self) -> str:
        """The dtype of the model, "" where nothing is said."""
        # Newer configurations say `dtype`; the older name warns where both exist, so it comes second.
        for key in ("dtype", "torch_dtype"):
            value = self.get(key)
            if value is not None:
                return dtype_name(self.where, key, value)
        return ""


def _model_of(config: Any) -> Model:
    if isinstance(config, Model):
        return config
    if isinstance(config, str):
        try:
            return model_named(config)
        except ModelError as problem:
            raise LayoutError(str(problem)) from None
    keys = _Keys(config, "the configuration")
    kind = keys.take("model_type")
    if kind not in list(_READERS):  # a list, for what is there need not be hashable
        raise LayoutError(f"model_type = {kind!r} is not known: {', '.join(_READERS)}; declare the sub-pools yourself")
    keys.where = f"the {kind} configuration"
    return _READERS[kind](keys)


def _model(keys: _Keys, pattern: str, dtype: str | None = None, **shapes: Any) -> Model:
    # Nothing in a page depends on how long a context may be, so its length need not be there.
    dtype = keys.dtype() if dtype is None else dtype
    return Model(name=keys.where, source="", pattern=pattern, positions=0, dtype=dtype, **shapes)


def _heads(keys: _Keys) -> dict[str, Any]:
    return {"kv_heads": keys.number("num_key_value_heads"), "head_dim": keys.number("head_dim")}


def _pattern(keys: _Keys, letters: Mapping[str, str], *every: str) -> str:
    """A letter a layer: from `layer_types`, or where that is missing every n-th layer is full, n under a key."""
    layers = keys.number("num_hidden_layers")
    if keys.first("layer_types", *every) in every:
        n, other = keys.number(*every), next(letter for letter in letters.values() if letter != "F")
        return "".join(other if number % n else "F" for number in range(1, layers + 1))
    types = keys.listed("layer_types")
    unknown = [kind for kind in types if kind not in list(letters)]
    if unknown:
        raise LayoutError(f"{keys.where} layer_types has {unknown[0]!r}; known: {', '.join(letters)}")
    if len(types) != layers:
        raise LayoutError(
            f"{keys.where} layer_types has {len(types)} layers, num_hidden_layers = {layers}; correct one"
        )
    return "".join(letters[kind] for kind in types)


def _qwen3_next(keys: _Keys) -> Model:
    linear = Linear(
        "gdn",
        heads=keys.number("linear_num_value_heads"),
        d_v=keys.number("linear_value_head_dim"),
        d_k=keys.number("linear_key_head_dim"),
        groups=keys.number("linear_num_key_heads"),
        conv_kernel=keys.number("linear_conv_kernel_dim", least=2),
    )
    letters = {"full_attention": "F", "linear_attention": "L"}
    return _model(keys, _pattern(keys, letters, "full_attention_interval"), linear=linear, **_heads(keys))


def _kimi_linear(keys: _Keys) -> Model:
    inner, layers = keys.nested("linear_attn_config"), keys.number("num_hidden_layers")
    full = inner.numbers("full_attn_layers")
    if len(set(full)) != len(full) or max(full, default=0) > layers:
        raise LayoutError(f"{inner.where} full_attn_layers = {full}: distinct layers of 1..{layers} are expected")
    rest = sorted({*range(1, layers + 1)} - {*full})
    if inner.get("kda_layers") is not None and sorted(inner.numbers("kda_layers")) != rest:
        raise LayoutError(f"{inner.where} kda_layers and full_attn_layers are not together the layers 1..{layers}")
    heads, size = inner.number("num_heads"), inner.number("head_dim")
    kernel = inner.number("short_conv_kernel_size", least=2)
    return _model(
        keys,
        "".join("F" if layer in full else "L" for layer in range(1, layers + 1)),
        latent_dim=keys.number("kv_lora_rank"),
        rope_dim=keys.number("qk_rope_head_dim", least=0),
        linear=Linear("kda", heads=heads, d_v=size, d_k=size, groups=heads, conv_kernel=kernel),
    )


def _falcon_h1(keys: _Keys) -> Model:
    heads, size = keys.number("mamba_n_heads"), keys.number("mamba_d_head")
    inner = keys.get("mamba_d_ssm")
    if inner is not None and inner != heads * size:
        raise LayoutError(
            f"{keys.where} mamba_d_ssm = {inner!r} is not mamba_n_heads * mamba_d_head = {heads * size}; correct one"
        )
    linear = Linear(
        "mamba2",
        heads=heads,
        d_v=size,
        d_k=keys.number("mamba_d_state"),
        groups=keys.number("mamba_n_groups"),
        conv_kernel=keys.number("mamba_d_conv", least=2),
    )
    return _model(keys, "B" * keys.number("num_hidden_layers"), linear=linear, **_heads(keys))


def _nemotron_h(keys: _Keys) -> Model:
    text = keys.take("hybrid_override_pattern")
    letters = {"M": "L", "*": "F", "-": "-", "E": "-"}
    unknown = sorted({*map(str, text)} - {*letters}) if isinstance(text, str) else [repr(text)]
    if unknown:
        raise LayoutError(f"{keys.where} hybrid_override_pattern has {unknown[0]}; known: {' '.join(letters)}")
    linear = Linear(
        "mamba2",
        heads=keys.number("mamba_num_heads"),
        d_v=keys.number("mamba_head_dim"),
        d_k=keys.number("ssm_state_size"),
        groups=keys.number("n_groups"),
        conv_kernel=keys.number("conv_kernel", least=2),
    )
    kv_heads, head_dim = keys.number("num_key_value_heads"), keys.number("attention_head_dim", "head_dim")
    pattern = "".join(letters[letter] for letter in text)
    return _model(keys, pattern, linear=linear, kv_heads=kv_heads, head_dim=head_dim)


def _gpt_oss(keys: _Keys) -> Model:
    return _model(keys, _pattern(keys, _WINDOWS), **_heads(keys))


def _gemma3_text(keys: _Keys) -> Model:
    return _model(keys, _pattern(keys, _WINDOWS, "sliding_window_pattern"), **_heads(keys))


def _gemma3(keys: _Keys) -> Model:
    text = keys.nested("text_config")
    pattern = _pattern(text, _WINDOWS, "sliding_window_pattern")
    return _model(text, pattern, text.dtype() or keys.dtype(), **_heads(text))


_WINDOWS: Final = {"full_attention": "F", "sliding_attention": "W"}
_READERS: Final[dict[str, Callable[[_Keys], Model]]] = {
    "qwen3_next": _qwen3_next,
    "kimi_linear": _kimi_linear,
    "falcon_h1": _falcon_h1,
    "nemotron_h": _nemotron_h,
    "gpt_oss": _gpt_oss,
    "gemma3": _gemma3,
    "gemma3_text": _gemma3_text,
}
