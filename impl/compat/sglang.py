"""SGLang's pools of checkpoints and slots over ours, as of its version 0.5.23: `docs/compat.md` says how they differ.

In place of `sglang.srt.mem_cache.allocator.mamba` and `sglang.srt.mem_cache.mamba_checkpoint_pool`:

    from poolproof.compat.sglang import MambaSlotAllocator
    from poolproof.compat.sglang import maybe_init_int8_mamba_checkpoint_pool
"""

from __future__ import annotations

from poolproof.compat.sglang_differences import DIFFERENCES, ON_A_DEVICE, Difference
from poolproof.compat.sglang_factory import maybe_init_int8_mamba_checkpoint_pool
from poolproof.compat.sglang_pool import CheckpointMemoryError, MambaCheckpointPool
from poolproof.compat.sglang_slots import MambaSlotAllocator
from poolproof.compat.sglang_store import Int8CheckpointStore

__all__ = [
    "DIFFERENCES",
    "ON_A_DEVICE",
    "CheckpointMemoryError",
    "Difference",
    "Int8CheckpointStore",
    "MambaCheckpointPool",
    "MambaSlotAllocator",
    "maybe_init_int8_mamba_checkpoint_pool",
]
