"""Slots as a whole: states and windows stored and loaded in one launch, with the bytes that two copies would give."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import oracles
import pools
import pytest
import torch
from places import needs_cuda
from pools import CHECKPOINTS, LAYOUTS, SLOTS, Pools
from test_copy_windows import expect, whole, windows
from test_store_load import expect_load, expect_store
from torch import Tensor

from poolproof.kernels.layout import KernelArgumentError
from poolproof.kernels.quantize_store import QuantizeStore
from poolproof.kernels.slot_copy import SlotCopy
from poolproof.kernels.whole_slots import LoadSlots, StoreSlots

KINDS = {
    "none": [],
    "one": [(2, 12, 4)],
    "more than a block": [(1, 2049, 2)],
    "three": [(2, 12, 4), (1, 5, 3), (3, 7, 1)],
    "four, one empty": [(2, 12, 4), (1, 5, 0), (3, 7, 1), (2, 1, 4)],
    "six": [(1, n, 3) for n in range(1, 7)],
}
STATES = {
    "whole tiles": (2, 3, 64, 128),
    "ragged tiles": (2, 1, 5, 7),
    "many rows": (1, 2, 300, 3),
    "none": (2, 1, 0, 4),
}


class Both:
    """Pools of states and checkpoints with their windows, and what becomes of them."""

    def __init__(self, of_states: Pools, active: Sequence[Tensor], cached: Sequence[Tensor]) -> None:
        self.states, self.active, self.cached = of_states, list(active), list(cached)

    def store(self, sources: object, targets: object, numbers: tuple[list[int], list[int]]) -> None:
        """Store, and compare every byte."""
        pool = self.states
        expected, _ = expect_store(pool, *numbers)
        self._compare(
            lambda: StoreSlots(pool.active, pool.codes, pool.scales, self.active, self.cached)(sources, targets),  # type: ignore[arg-type]
            expected,
            (whole_of(self.active), expect(self.active, self.cached, *numbers)),
        )

    def load(self, sources: object, targets: object, numbers: tuple[list[int], list[int]]) -> None:
        """Load, and compare every byte."""
        pool = self.states
        self._compare(
            lambda: LoadSlots(pool.codes, pool.scales, pool.active, self.cached, self.active)(sources, targets),  # type: ignore[arg-type]
            expect_load(pool, *numbers),
            (expect(self.cached, self.active, *numbers), whole_of(self.cached)),
        )

    def _compare(
        self, copy: Callable[[], None], expected: Pools, expected_windows: tuple[list[np.ndarray], ...]
    ) -> None:
        copy()
        assert self.states.same_bytes(expected)
        for found, wanted in zip((self.active, self.cached), expected_windows, strict=True):
            assert all(map(np.array_equal, whole_of(found), wanted))


def whole_of(found: Sequence[Tensor]) -> list[np.ndarray]:
    """All bytes that windows lie among."""
    return [whole(window) for window in found]


def both(
    device: torch.device,
    shape: tuple[int, int, int, int] = (2, 1, 5, 7),
    kind: str = "one",
    dtype: torch.dtype = torch.bfloat16,
    layout: str = "plain",
    cast: torch.dtype | None = None,
) -> Both:
    """Pools; with `cast` the windows of checkpoints have another dtype than those of states."""
    of_states = pools.make(layout, dtype, *shape, seed=3).copy(device)
    active = windows(KINDS[kind], SLOTS, [dtype], device, layout)
    cached = windows(KINDS[kind], CHECKPOINTS, [cast or dtype], device, layout, seed=40)
    return Both(of_states, active, cached)


@pytest.mark.parametrize(
    ("shape", "kind"), [*(("ragged tiles", kind) for kind in KINDS), *((shape, "three") for shape in STATES)]
)
def test_any_states_with_any_windows(shape: str, kind: str, device: torch.device) -> None:
    made = both(device, STATES[shape], kind)
    made.store([4, 0, 4], [1, 3, 0], ([4, 0, 4], [1, 3, 0]))
    made.load([3, 1], [2, 4], ([3, 1], [2, 4]))
    made.load(3, 0, ([3], [0]))
    made.store(2, 2, ([2], [2]))


@pytest.mark.parametrize("dtype", oracles.DTYPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_strides(layout: str, dtype: torch.dtype, device: torch.device) -> None:
    made = both(device, (2, 3, 16, 64), "three", dtype, layout)
    made.store([4, 0], [1, 3], ([4, 0], [1, 3]))
    made.load([3, 1, 3], [2, 4, 1], ([3, 1, 3], [2, 4, 1]))


@pytest.mark.parametrize("dtype", oracles.DTYPES, ids=str)
def test_windows_are_cast(dtype: torch.dtype, device: torch.device) -> None:
    cast = torch.float32 if dtype != torch.float32 else torch.bfloat16
    made = both(device, (2, 3, 16, 64), "three", dtype, cast=cast)
    made.store([4, 0], [1, 3], ([4, 0], [1, 3]))
    made.load([3, 1], [2, 4], ([3, 1], [2, 4]))


def compiled_in(copy: SlotCopy) -> list[dict[str, object]]:
    """Of each launch, the arguments that another kernel would have to be compiled for."""
    found = []
    for _, prepared in copy.launches:
        given = dict(zip(prepared.kernel.arg_names[3:], prepared.fixed, strict=False)) | prepared.options
        stated = prepared.kernel.fn.__annotations__
        found.append({name: value for name, value in given.items() if "constexpr" in str(stated.get(name))})
    return found


def test_the_number_of_slots_is_not_compiled_in() -> None:
    made = []
    for slots, cached in ((5, 4), (70, 3)):
        of_states = pools.make("plain", torch.bfloat16, 2, 3, 16, 64, slots=slots, checkpoints=cached)
        active, copies = (windows(KINDS["six"], n, [torch.bfloat16], torch.device("cpu")) for n in (slots, cached))
        states = of_states.active, of_states.codes, of_states.scales
        made.append([*compiled_in(StoreSlots(*states, active, copies)), *compiled_in(QuantizeStore(*states))])
    assert made[0] == made[1]
    assert made[0][0]["PART0"] is not None
    assert made[0][-1]["heads"] == 3


@pytest.mark.gpu
@needs_cuda
def test_lists_on_the_device_may_be_padded() -> None:
    made = both(torch.device("cuda"), kind="three")
    sources, targets = (torch.tensor(numbers, device="cuda") for numbers in ([4, -1, 0, 9], [1, 2, -1, 3]))
    made.store(sources, targets, ([4], [1]))
    made.load(targets, sources, ([1], [4]))


def test_no_slots_are_no_work(device: torch.device) -> None:
    made = both(device, kind="three")
    made.store([], [], ([], []))
    made.load([], [], ([], []))


def test_a_pool_has_as_many_windows_as_states(device: torch.device) -> None:
    made = both(device)
    pool = made.states
    with pytest.raises(KernelArgumentError, match="windows of 4 and 5 slots, states of 5 and 4"):
        StoreSlots(pool.active, pool.codes, pool.scales, made.cached, made.active)
    with pytest.raises(KernelArgumentError, match="windows of 5 and 4 slots, states of 4 and 5"):
        LoadSlots(pool.codes, pool.scales, pool.active, made.active, made.cached)


def test_windows_lie_where_the_states_do() -> None:
    made = both(torch.device("cpu"))
    active, cached = ([window.to("meta") for window in found] for found in (made.active, made.cached))
    pool = made.states
    with pytest.raises(KernelArgumentError, match="windows are on meta, states on cpu"):
        StoreSlots(pool.active, pool.codes, pool.scales, active, cached)


def test_windows_do_not_lie_over_states(device: torch.device) -> None:
    made = both(device)
    pool = made.states
    over = pool.active[:, :, 0, :1, :3]  # (layers, slots, 1, 3): some of the states themselves
    with pytest.raises(KernelArgumentError, match="share bytes"):
        LoadSlots(pool.codes, pool.scales, pool.active, [window[:, :, :1, :3] for window in made.cached], [over])


def test_slots_are_checked(device: torch.device) -> None:
    made = both(device)
    pool, before = made.states, made.states.copy()
    store = StoreSlots(pool.active, pool.codes, pool.scales, made.active, made.cached)
    kept = whole_of(made.cached)
    for sources, targets, why in (
        (5, 0, "are 0 to 4, not 5"),
        (0, 4, "are 0 to 3, not 4"),
        ([0, 1], [2, 2], "given more than once"),
        ([0, 1], [2], "give as many"),
    ):
        with pytest.raises(ValueError, match=why):
            store(sources, targets)
    assert pool.same_bytes(before)
    assert all(map(np.array_equal, whole_of(made.cached), kept))
