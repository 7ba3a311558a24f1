"""The kinds of owner that a slot can have."""

from __future__ import annotations

from enum import IntEnum


class Owner(IntEnum):
    """What kind of owner a slot has; every slot has exactly one."""

    FREE = 0
    """Nobody: `alloc` can hand it out."""
    RESERVED = 1
    """Held back by the open pre-allocation group."""
    REQUEST = 2
    """A running request."""
    CACHE = 3
    """A node of the prefix cache."""
    PENDING = 4
    """Given back, but a step in flight may still touch it."""
    SINK = 5
    """Slot 0, where padding rows write."""
