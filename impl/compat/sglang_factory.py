"""SGLang's opt-in: a pool of checkpoints where its settings ask for one."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from typing import Any, Final

import torch

from poolproof.arguments import as_count
from poolproof.compat.sglang_pool import MambaCheckpointPool

SETTINGS: Final = "sglang.srt.runtime_context"
"""The engine's module that knows its settings; it is asked where the engine has loaded it, and never imported here."""

_logger: Final = logging.getLogger(__name__)


def maybe_init_int8_mamba_checkpoint_pool(
    *,
    mamba_size: int,
    cache_params: Any,
    mamba_layer_ids: Sequence[int],
    device: str | torch.device,
    settings: Any = None,
) -> MambaCheckpointPool | None:
    """A pool of checkpoints for the active pool of `mamba_size` slots, where the settings ask for one.

    Args:
        mamba_size: slots of the active pool.
        cache_params: `shape.temporal` (heads, d_v, d_k), `shape.conv` (shapes), `dtype.temporal` and `dtype.conv`.
        mamba_layer_ids: one entry a layer.
        device: where the pool is made.
        settings: `enable_int8_mamba_checkpoint` and `int8_mamba_ckpt_size`, slots, None or 0 for twice `mamba_size`;
            None for those of SGLang in this process.

    Returns:
        The pool; None where the settings do not ask for one, or there are none.

    Raises:
        CheckpointMemoryError: the pool would take more memory than is free; the message says what to lower.
        LayoutError, TypeError, ValueError: as `MambaCheckpointPool`.
    """
    settings = _settings_of_the_engine() if settings is None else settings
    if settings is None or not settings.enable_int8_mamba_checkpoint:
        return None
    heads, d_v, d_k = cache_params.shape.temporal
    pool = MambaCheckpointPool(
        num_layers=len(mamba_layer_ids),
        num_slots=settings.int8_mamba_ckpt_size or 2 * as_count("mamba_size", mamba_size),
        num_heads=heads,
        head_v_dim=d_v,
        head_k_dim=d_k,
        conv_shapes=cache_params.shape.conv,
        conv_dtype=cache_params.dtype.conv,
        temporal_dtype=cache_params.dtype.temporal,
        device=device,
    )
    _logger.info(
        "checkpoint pool: %d slots of int8 states, %d bytes, beside %d active slots; SGLang's KV budget does not count "
        "these bytes",
        pool.num_slots,
        pool.mem_usage_bytes(),
        mamba_size,
    )
    return pool


def _settings_of_the_engine() -> Any:
    """The settings of mamba pools; None where SGLang is not loaded, or has none yet."""
    engine = sys.modules.get(SETTINGS)
    if engine is None:
        return None
    try:
        return engine.get_exec().mamba
    except ValueError:  # settings are not published
        return None
