"""Every state cache that is broken on purpose is found by the fuzzer, and what only bytes show by looking at them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from poolproof.fuzz.cache_campaign import look_for_cache_canary, play_cache
from poolproof.fuzz.cache_canaries import (
    CANARIES,
    AnyLengthWillDo,
    ForgetsConvWindows,
    ForgetsToTrack,
    KeepsTheWrongState,
    LoadsAheadOfStores,
    StoresAgain,
    StoresSomeTime,
)
from poolproof.fuzz.cache_world import SHIPPED, Make
from poolproof.fuzz.memory import WrongBytes
from poolproof.kernels import interpreter

SEED = 5
BOUND = 4_000
"""Operations within which each must be found."""

OF_BYTES = (
    Make(cache=StoresAgain),
    Make(states=LoadsAheadOfStores),
    Make(states=StoresSomeTime),
    Make(states=ForgetsConvWindows),
    Make(states=ForgetsToTrack),
    Make(cache=KeepsTheWrongState, states=AnyLengthWillDo),
)


@pytest.fixture(autouse=True)
def kernels_in_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not interpreted, which takes a hundred times as long."""
    monkeypatch.setattr(interpreter, "is_on", lambda: False)


@pytest.mark.parametrize("broken", CANARIES, ids=lambda broken: f"{broken.name}-{broken.has_shadow}")
def test_every_broken_cache_is_found(broken: Make) -> None:
    name, after = look_for_cache_canary(SEED, broken)
    assert name == broken.name
    assert 0 < after <= BOUND


@pytest.mark.parametrize("broken", OF_BYTES, ids=lambda broken: broken.name)
def test_bytes_alone_give_it_away(broken: Make) -> None:
    """No spec runs, and what the cache notes is as it should be: a hit, or a checkpoint, holds other bytes."""
    errors = (play_cache(SEED, number, make=replace(broken, has_shadow=False))[1] for number in range(40))
    assert isinstance(next(error for error in errors if error is not None), WrongBytes)


def test_makes_are_named_by_what_is_wrong() -> None:
    names = [make.name for make in CANARIES]
    assert SHIPPED.name == "shipped"
    assert "shipped" not in names
    assert len(set(names)) >= 24
