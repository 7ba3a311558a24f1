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
    from poolproof.errors import (
        Fault,
        GroupError,
        InvalidFree,
        InvalidHolder,
        InvalidIds,
        InvalidOwner,
        InvalidTransfer,
        PoolError,
        PoolExhausted,
        SpecViolation,
        WrongThread,
    )
    from poolproof.owner import Owner
    from poolproof.slot_group import Group
    from poolproof.slot_pool import SlotPool
    from poolproof.slot_reports import SlotSnapshot, SlotStats
    from poolproof.violation import Violation

__version__ = "0.1.0"

_HOMES: Final = {
    "Fault": "errors",
    "Group": "slot_group",
    "GroupError": "errors",
    "InvalidFree": "errors",
    "InvalidHolder": "errors",
    "InvalidIds": "errors",
    "InvalidOwner": "errors",
    "InvalidTransfer": "errors",
    "Owner": "owner",
    "PoolError": "errors",
    "PoolExhausted": "errors",
    "SlotPool": "slot_pool",
    "SlotSnapshot": "slot_reports",
    "SlotStats": "slot_reports",
    "SpecViolation": "errors",
    "Violation": "violation",
    "WrongThread": "errors",
}

__all__ = [
    "Fault",
    "Group",
    "GroupError",
    "InvalidFree",
    "InvalidHolder",
    "InvalidIds",
    "InvalidOwner",
    "InvalidTransfer",
    "Owner",
    "PoolError",
    "PoolExhausted",
    "SlotPool",
    "SlotSnapshot",
    "SlotStats",
    "SpecViolation",
    "Violation",
    "WrongThread",
    "__version__",
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
