"""A slot's owner and holder in one int64, so that one gather checks both and one scatter changes both.

    key = (holder + 1) * 8 + owner        with holder = -1 where the owner acts for nobody

The two keys of one holder, request and cache, are neighbours: request + 1 = cache.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from poolproof.owner import Owner

NOBODY: Final = -1
MAX_HOLDER: Final = (1 << 60) - 2

FREE: Final = int(Owner.FREE)
RESERVED: Final = int(Owner.RESERVED)
REQUEST: Final = int(Owner.REQUEST)
CACHE: Final = int(Owner.CACHE)
PENDING: Final = int(Owner.PENDING)
SINK: Final = int(Owner.SINK)
OUTSIDE: Final = 7
"""The key one past the last slot, where a clipped gather sends ids that are out of range."""


def key_of(owner: int, holder: int) -> int:
    """The key of a slot that `owner` has on behalf of `holder`."""
    return (holder + 1) * 8 + owner


def owners_of(keys: NDArray[np.int64]) -> NDArray[np.int8]:
    """The owner of each key, a fresh int8 array of the same shape."""
    return (keys & 7).astype(np.int8)


def holders_of(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """The holder of each key, -1 for nobody, a fresh int64 array of the same shape."""
    return (keys >> 3) - 1


def are_tenants(keys: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which keys belong to a request or to the cache."""
    tenants: NDArray[np.bool_] = (keys & 6) == REQUEST
    return tenants
