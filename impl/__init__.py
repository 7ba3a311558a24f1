"""poolproof: a memory pool for inference engines that is proved, not only tested.

    import poolproof as pp

    pool = pp.SlotPool(1024)
    ids = pool.alloc(16, holder=7)                               # int64 ids, or PoolExhausted
    pool.transfer(ids[:4], holder=7, to=pp.Owner.CACHE, heir=3)  # a request donates to the prefix cache
    pool.free(ids[4:], holder=7)                                 # double, foreign, stray ids: InvalidFree
    assert pool.check() == []                                    # the spec's invariants, by name

Names are loaded on first use: importing poolproof imports neither numpy nor torch nor the spec.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from poolproof.buffer_reports import BufferSnapshot, BufferStats
    from poolproof.cache_reports import CacheStats, Match
    from poolproof.cached_request import CachedRequest
    from poolproof.checkpoint_errors import LifecycleError, LockError
    from poolproof.checkpoint_memory import CheckpointMemory
    from poolproof.checkpoint_owners import Donation, Lock
    from poolproof.checkpoint_pool import CheckpointPool
    from poolproof.checkpoint_reports import CheckpointSnapshot, CheckpointStats
    from poolproof.compaction import Move
    from poolproof.cuda_streams import CudaStreams
    from poolproof.errors import (
        Fault,
        GroupError,
        InvalidFree,
        InvalidHolder,
        InvalidIds,
        InvalidOwner,
        InvalidTransfer,
        LayoutError,
        PoolError,
        PoolExhausted,
        SpecViolation,
        WrongThread,
    )
    from poolproof.events import EventSource
    from poolproof.holds import FreeGroup, Gate, Lease
    from poolproof.model_pools import sub_pools_for
    from poolproof.owner import Owner
    from poolproof.page_errors import (
        BufferExhausted,
        GateError,
        InvalidPages,
        LeaseError,
        PoolBroken,
        PoolBusy,
        StepError,
    )
    from poolproof.slot_group import Group
    from poolproof.slot_pool import SlotPool
    from poolproof.slot_reports import SlotSnapshot, SlotStats
    from poolproof.state_cache import StateCache
    from poolproof.steps import Step
    from poolproof.sub_pool import SubPool
    from poolproof.sub_pools import (
        Checkpoints,
        KVPages,
        LatentPages,
        Pages,
        StateSlots,
        WindowPages,
    )
    from poolproof.unified_pool import UnifiedPool
    from poolproof.violation import Violation

__version__ = "0.1.0"

_HOMES: Final = {
    "BufferExhausted": "page_errors",
    "BufferSnapshot": "buffer_reports",
    "BufferStats": "buffer_reports",
    "CacheStats": "cache_reports",
    "CachedRequest": "cached_request",
    "CheckpointMemory": "checkpoint_memory",
    "CheckpointPool": "checkpoint_pool",
    "CheckpointSnapshot": "checkpoint_reports",
    "CheckpointStats": "checkpoint_reports",
    "Checkpoints": "sub_pools",
    "CudaStreams": "cuda_streams",
    "Donation": "checkpoint_owners",
    "EventSource": "events",
    "Fault": "errors",
    "FreeGroup": "holds",
    "Gate": "holds",
    "GateError": "page_errors",
    "Group": "slot_group",
    "GroupError": "errors",
    "InvalidFree": "errors",
    "InvalidHolder": "errors",
    "InvalidIds": "errors",
    "InvalidOwner": "errors",
    "InvalidPages": "page_errors",
    "InvalidTransfer": "errors",
    "KVPages": "sub_pools",
    "LatentPages": "sub_pools",
    "LayoutError": "errors",
    "Lease": "holds",
    "LeaseError": "page_errors",
    "LifecycleError": "checkpoint_errors",
    "Lock": "checkpoint_owners",
    "LockError": "checkpoint_errors",
    "Match": "cache_reports",
    "Move": "compaction",
    "Owner": "owner",
    "Pages": "sub_pools",
    "PoolBroken": "page_errors",
    "PoolBusy": "page_errors",
    "PoolError": "errors",
    "PoolExhausted": "errors",
    "SlotPool": "slot_pool",
    "SlotSnapshot": "slot_reports",
    "SlotStats": "slot_reports",
    "SpecViolation": "errors",
    "StateCache": "state_cache",
    "StateSlots": "sub_pools",
    "Step": "steps",
    "StepError": "page_errors",
    "SubPool": "sub_pool",
    "UnifiedPool": "unified_pool",
    "Violation": "violation",
    "WindowPages": "sub_pools",
    "WrongThread": "errors",
    "sub_pools_for": "model_pools",
}

__all__ = [
    "BufferExhausted",
    "BufferSnapshot",
    "BufferStats",
    "CacheStats",
    "CachedRequest",
    "CheckpointMemory",
    "CheckpointPool",
    "CheckpointSnapshot",
    "CheckpointStats",
    "Checkpoints",
    "CudaStreams",
    "Donation",
    "EventSource",
    "Fault",
    "FreeGroup",
    "Gate",
    "GateError",
    "Group",
    "GroupError",
    "InvalidFree",
    "InvalidHolder",
    "InvalidIds",
    "InvalidOwner",
    "InvalidPages",
    "InvalidTransfer",
    "KVPages",
    "LatentPages",
    "LayoutError",
    "Lease",
    "LeaseError",
    "LifecycleError",
    "Lock",
    "LockError",
    "Match",
    "Move",
    "Owner",
    "Pages",
    "PoolBroken",
    "PoolBusy",
    "PoolError",
    "PoolExhausted",
    "SlotPool",
    "SlotSnapshot",
    "SlotStats",
    "SpecViolation",
    "StateCache",
    "StateSlots",
    "Step",
    "StepError",
    "SubPool",
    "UnifiedPool",
    "Violation",
    "WindowPages",
    "WrongThread",
    "__version__",
    "sub_pools_for",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
