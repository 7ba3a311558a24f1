"""Small unified pools for tests, bytes that steps write and read, and refusals that change nothing."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from poolproof import Checkpoints, KVPages, LatentPages, Pages, SlotPool, StateSlots, UnifiedPool, WindowPages
from poolproof.fuzz.queued_device import QueuedDevice

NAMES = "abcd"


def chain_of(*sizes: int, zero: Any = "never") -> list[Pages]:
    """Plain pages of so many bytes: "a" grows up, the last one down, those between float."""
    grows: list[Any] = ["up", *["float"] * (len(sizes) - 2), *(["down"] if len(sizes) > 1 else [])]
    return [
        Pages(name, bytes=size, grows=place, zero=zero) for name, size, place in zip(NAMES, sizes, grows, strict=False)
    ]


def plain(total: int, *sizes: int, zero: Any = "never", **more: Any) -> UnifiedPool:
    """A shadowed pool of plain pages."""
    return UnifiedPool(total, chain_of(*sizes, zero=zero), shadow=True, **more)


def with_window(total: int = 60, **more: Any) -> UnifiedPool:
    """A shadowed pool of tokens and their window pages: "full" grows up, "window" down, pages of 4 and of 2 bytes."""
    sub_pools = [
        KVPages("full", layers=2, kv_heads=1, head_dim=1, dtype="uint8"),
        WindowPages("window", layers=1, kv_heads=1, head_dim=1, dtype="uint8"),
    ]
    return UnifiedPool(total, sub_pools, shadow=True, **more)


def every_kind(**more: Any) -> UnifiedPool:
    """A shadowed pool with a sub-pool of every kind, one without layers among them."""
    sub_pools = [
        KVPages("full", layers=2, kv_heads=1, head_dim=1, dtype="float8_e4m3fn", page_size=2),
        LatentPages("latent", layers=1, latent_dim=2, rope_dim=1, dtype="uint8", grows="float"),
        WindowPages("window", layers=1, kv_heads=1, head_dim=1, dtype="int8", grows="float"),
        StateSlots(
            "state",
            layers=2,
            conv_shapes=[(1, 2)],
            temporal_shape=(1, 2, 1),
            conv_dtype="bfloat16",
            temporal_dtype="bfloat16",
        ),
        Checkpoints("checkpoint", of="state"),
        Checkpoints("opaque", bytes=5),
        Pages("bytes", bytes=3, grows="float"),
        KVPages("absent", layers=0, kv_heads=1, head_dim=1, dtype="bfloat16", grows="float"),
    ]
    return UnifiedPool(160, sub_pools, shadow=True, **more)


def queued(seed: int = 0) -> QueuedDevice:
    """A device that works when it pleases."""
    return QueuedDevice(random.Random(seed))


def extent(pool: UnifiedPool, name: str) -> tuple[int, int]:
    """The first page of a sub-pool's extent, and the one past its last."""
    sub_pool = next(one for one in pool.snapshot().sub_pools if one.name == name)
    return sub_pool.first, sub_pool.last


def holes(pool: UnifiedPool, name: str) -> list[int]:
    """The free pages inside a sub-pool's extent."""
    return sorted(next(one for one in pool.snapshot().sub_pools if one.name == name).holes)


def pending(pool: UnifiedPool, name: str) -> list[int]:
    """The pages that were let go of and are kept."""
    return sorted(next(one for one in pool.snapshot().sub_pools if one.name == name).pending)


def rows(pool: UnifiedPool, name: str) -> NDArray[np.uint8]:
    """[pages, page_bytes], the buffer as a sub-pool's pages."""
    size = pool[name].layout.page_bytes
    pages = pool.total_bytes // size
    found: NDArray[np.uint8] = pool.buffer.numpy()[: pages * size].reshape(pages, size)
    return found


def finish(*steps: Any) -> None:
    """Launch and complete steps in this order, and deal with their results."""
    for step in steps:
        step.launched()
        step.complete()
        step.retire()


def write(pool: UnifiedPool, name: str, ids: Any, values: Any) -> None:
    """A step at home fills the pages of ids, a value for each (or for all of them)."""
    step = pool.begin_step(writes={name: ids})
    rows(pool, name)[step.writes[name]] = np.asarray(values, np.uint8).reshape(-1, 1)
    finish(step)


def read(pool: UnifiedPool, name: str, ids: Any) -> NDArray[np.uint8]:
    """[n, page_bytes], what a step at home finds in the pages of ids."""
    step = pool.begin_step(reads={name: ids})
    found = rows(pool, name)[step.reads[name]].copy()
    finish(step)
    return found


def values(pool: UnifiedPool, name: str, ids: Any) -> list[int]:
    """The one value that each page of ids is filled with."""
    found = read(pool, name, ids)
    assert (found == found[:, :1]).all()
    return [int(value) for value in found[:, 0]]


def refused(pool: UnifiedPool | SlotPool, error: type[Exception], call: Callable[[], Any]) -> Any:
    """The error that the call raises; the pool must be as before and healthy."""
    before = pool.snapshot()
    with pytest.raises(error) as raised:
        call()
    assert pool.snapshot() == before
    assert pool.check() == []
    return raised.value


def moved(moves: Iterable[Any]) -> dict[str, int]:
    """How many pages of each sub-pool were moved."""
    found: dict[str, int] = {}
    for move in moves:
        found[move.name] = found.get(move.name, 0) + len(move.ids)
    return found


def places(pool: UnifiedPool, name: str, ids: Sequence[int] | NDArray[np.int64]) -> list[int]:
    """The page of each id now."""
    found: list[int] = pool[name].physical(ids).tolist()
    return found
