"""From the name of a target to what makes it: `slot-pool`, a canary, or anybody's `module:factory`."""

from __future__ import annotations

import importlib
import sys
from functools import reduce
from pathlib import Path
from typing import Any, Final

from poolproof.fuzz.errors import TargetError
from poolproof.fuzz.targets import Factory, Profile, profile_of

_PROBE_SLOTS: Final = 4


class LoadedTarget:
    """A target by name.

    Attributes:
        name: as given.
        profile: what it offers and promises.
    """

    def __init__(self, name: str, factory: Factory) -> None:
        self.name = name
        self._factory = factory
        self.profile: Profile = profile_of(self.make(_PROBE_SLOTS), name)

    def make(self, slots: int) -> Any:
        """A new target with this many usable slots.

        Raises:
            TargetError: the factory fails.
        """
        try:
            return self._factory(slots)
        except Exception as error:
            told = f"{type(error).__name__}: {error}"
            raise TargetError(f"{self.name}: cannot be made with {slots} slots: {told}") from error


def named_targets() -> dict[str, Factory]:
    """The targets that have a name, the shipped pool first."""
    from poolproof.fuzz.canaries import CANARIES
    from poolproof.fuzz.plain_pool import PlainPool
    from poolproof.fuzz.slot_target import SlotPoolTarget

    return {
        "slot-pool": SlotPoolTarget,
        "plain-pool": PlainPool,
        **{canary.name: canary.make for canary in CANARIES},
    }


def load_target(name: str) -> LoadedTarget:
    """The target of this name; `module:factory` is imported with the current folder on the path.

    Raises:
        TargetError: there is none, it cannot be imported or made, or it lacks what every target must have.
    """
    named = named_targets()
    if name in named:
        return LoadedTarget(name, named[name])
    module, colon, path = name.partition(":")
    if not (module and colon and path):
        known = ", ".join(known for known in named if not known.startswith("canary-"))
        raise TargetError(f"no target {name!r}; give module:factory, or one of {known}")
    return LoadedTarget(name, _imported(name, module, path))


def _imported(name: str, module: str, path: str) -> Factory:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found = importlib.import_module(module)
    except Exception as error:
        raise TargetError(f"{name}: cannot import {module}: {type(error).__name__}: {error}") from error
    try:
        factory = reduce(getattr, path.split("."), found)
    except AttributeError:
        raise TargetError(f"{name}: module {module} has no {path}") from None
    if not callable(factory):
        raise TargetError(f"{name}: {path} is no factory, but {type(factory).__name__} {factory!r}")
    return factory
