"""Targets by name: the pool that ships, the plain one, the canaries, and other people's by module:factory."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from poolproof.fuzz.errors import TargetError
from poolproof.fuzz.plain_pool import PlainPool
from poolproof.fuzz.targets import Factory

SLOT_POOL = "slot-pool"


class SlotPoolTarget:
    """`poolproof.SlotPool` with the face of a target."""

    def __init__(self, slots: int) -> None:
        import poolproof

        self.refusals = (poolproof.PoolError,)
        self._pool = pool = poolproof.SlotPool(slots)
        self._owner = poolproof.Owner
        self._group: Any = None
        self._closed = poolproof.GroupError
        self.alloc, self.try_alloc, self.free = pool.alloc, pool.try_alloc, pool.free
        self.retire, self.reclaim, self.clear = pool.retire, pool.reclaim, pool.clear
        self.available, self.snapshot, self.check = pool.capacity, pool.snapshot, pool.check

    def transfer(self, ids: list[int], holder: int, to: int, heir: int) -> None:
        """`SlotPool.transfer`."""
        self._pool.transfer(ids, holder=holder, to=self._owner(int(to)), heir=heir)

    def open_group(self, n: int) -> Any:
        """`SlotPool.open_group`; the ids that the group holds back."""
        self._group = self._pool.open_group(n)
        return self._pool.snapshot().reserved_slots

    def take(self, n: int, holder: int) -> Any:
        """`Group.take`."""
        return self._opened().take(n, holder)

    def close_group(self) -> None:
        """`Group.close`."""
        self._opened().close()

    def _opened(self) -> Any:
        if self._group is None or not self._group.is_open:
            raise self._closed("no group is open")
        return self._group


def load_target(name: str) -> Factory:
    """The factory behind a target's name: slot-pool, plain-pool, a canary, or module:factory.

    Raises:
        TargetError: there is no such target, or it cannot be imported.
    """
    from poolproof.fuzz.canaries import CANARIES

    named: dict[str, Factory] = {SLOT_POOL: SlotPoolTarget, "plain-pool": PlainPool}
    named |= {canary.name: canary.make for canary in CANARIES}
    if name in named:
        return named[name]
    if ":" not in name:
        known = ", ".join([SLOT_POOL, "plain-pool"])
        raise TargetError(f"no target {name!r}; give module:factory, or one of {known} (or a canary)")
    return _import(name)


def _import(name: str) -> Factory:
    module_name, _, attribute = name.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module_name)
        for part in attribute.split("."):
            found = getattr(found, part)
    except Exception as problem:  # whatever the foreign module raises while it is imported
        raise TargetError(f"cannot import target {name!r}: {type(problem).__name__}: {problem}") from problem
    if not callable(found):
        raise TargetError(f"target {name!r} is a {type(found).__name__}, not a factory that takes the number of slots")
    factory: Factory = found
    return factory
