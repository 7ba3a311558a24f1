"""A pool is one thing: it is neither copied nor pickled."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest

import poolproof as pp


@pytest.mark.parametrize("twin", [copy.copy, copy.deepcopy, pickle.dumps])
@pytest.mark.parametrize("shadow", [False, True])
def test_a_pool_has_no_twin(twin: Callable[[object], object], shadow: bool) -> None:
    pool = pp.SlotPool(4, shadow=shadow)
    ids = pool.alloc(2)
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        twin(pool)
    pool.free(ids)
    assert pool.check() == []
