"""What a checkpoint pool refuses beyond what every pool does. Each error says the numbers and the remedy."""

from __future__ import annotations

from poolproof.errors import PoolError


class LifecycleError(PoolError):
    """A request, node or slot is not in the phase that the operation needs."""


class LockError(LifecycleError):
    """A lock is missing, is in the way, or was released before."""
