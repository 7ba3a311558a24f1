"""The campaign against the unified pool where its bytes are on tensors or a CUDA device, and where it has a guard."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from poolproof.cuda_streams import CudaStreams
from poolproof.errors import LayoutError
from poolproof.fuzz import devices
from poolproof.fuzz.buffer_layouts import draw_layout, scaled
from poolproof.fuzz.errors import SettingError
from poolproof.fuzz.memory import WrongBytes
from poolproof.fuzz.unified_campaign import (
    Setting,
    UnifiedResult,
    look_for_canary,
    play,
    play_rounds,
    run_unified,
    shrink_or_keep,
)
from poolproof.fuzz.unified_canaries import CopiesInAnotherOrder, KeepsNothingForSteps, LeavesOldBytes
from poolproof.steps import Step
from poolproof.sub_pools import resolve
from poolproof.unified_pool import UnifiedPool

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
TENSOR, GUARDED = Setting("tensor"), Setting("host", 64, True)


class TellsNothing(UnifiedPool):
    """The device is never told where pages are."""

    def _refresh(self, with_tables: bool = True) -> None:
        super()._refresh(with_tables=False)


class TellsTooEarly(UnifiedPool):
    """An entry changes while a step on another stream may still look it up."""

    def _wait_for_readers_of_tables(self) -> None:
        pass


class SpillsOver(UnifiedPool):
    """A copy of pages writes one byte too many."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        copy = self._bytes.copy

        def spill(page_bytes: int, sources: NDArray[np.int64], holes: NDArray[np.int64]) -> None:
            copy(page_bytes, sources, holes)
            self.buffer[int(holes[0]) * page_bytes - 1] = 0

        self._bytes.copy = spill  # type: ignore[method-assign]


class WritesAfterAFree(UnifiedPool):
    """A page that was freed is written to, as by a kernel that still has its number."""

    def _free(self, table: Any, ids: Any) -> None:
        page = int(self[self.layouts[table.index].name].physical(ids)[0])
        super()._free(table, ids)
        if table.holes.is_member(page) and self._flight.open_home_step is None:
            self._refresh()
            self._run(None, lambda: self.buffer[page * table.page_bytes : page * table.page_bytes + 1].zero_())


def test_kernels_in_the_interpreter_hold_for_thousands_of_operations() -> None:
    """In a process of its own, for Triton is told to interpret before it is first imported."""
    program = "\n".join(
        [
            "import os",
            "os.environ['TRITON_INTERPRET'] = '1'",
            "from poolproof.fuzz.unified_campaign import Setting, run_unified",
            "if __name__ == '__main__':",
            "    result = run_unified(20261130, ops=6_000, jobs=2, setting=Setting('tensor', 16))",
            "    from poolproof.kernels import interpreter",
            "    assert interpreter.is_on()",
            "    assert result.passed, result.found",
            "    print(result.tally.operations)",
        ]
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 6_000


@pytest.mark.parametrize("broken", [TellsNothing, TellsTooEarly, LeavesOldBytes, CopiesInAnotherOrder])
def test_what_is_wrong_with_bytes_or_tables_is_found_on_tensors(broken: Callable[..., UnifiedPool]) -> None:
    errors = (play(11, number, make=broken, setting=TENSOR)[1] for number in range(400))
    assert isinstance(next(error for error in errors if error is not None), WrongBytes)


def test_a_broken_pool_is_found_on_tensors_and_named() -> None:
    assert look_for_canary(11, KeepsNothingForSteps, TENSOR)[0] == "KeepsNothingForSteps"
    assert look_for_canary(11, KeepsNothingForSteps, TENSOR)[1] > 0


def test_a_guard_finds_nothing_in_a_healthy_pool() -> None:
    tally = play_rounds(3, range(20), setting=GUARDED)
    assert tally.failure is None
    assert tally.operations > 2500


@pytest.mark.parametrize("broken", [SpillsOver, WritesAfterAFree])
def test_a_guard_finds_what_bytes_do_not_show(broken: Callable[..., UnifiedPool]) -> None:
    errors = (play(11, number, make=broken, setting=GUARDED)[1] for number in range(400))
    assert "guard_" in str(next(error for error in errors if error is not None))


@pytest.mark.parametrize("seed", range(30))
def test_larger_pages_are_the_same_layout(seed: int) -> None:
    total, small = draw_layout(random.Random(seed))
    wide, large = scaled(total, small, 64)
    assert wide == 64 * total
    pairs = list(zip(resolve(small), resolve(large), strict=True))
    assert [64 * a.page_bytes for a, _ in pairs] == [b.page_bytes for _, b in pairs]
    assert [(a.kind, a.zeroed, a.ids_of) for a, _ in pairs] == [(b.kind, b.zeroed, b.ids_of) for _, b in pairs]


def test_the_scale_changes_nothing_but_sizes() -> None:
    small, large = (play(7, 3, with_trace=True, setting=Setting(scale=n))[0].shadow.history for n in (1, 64))
    assert small
    assert small == large


@pytest.mark.parametrize(
    ("setting", "message"),
    [(("gpu",), "no device 'gpu'"), (("host", 0), "a scale of 0"), (("host", 1, True), "a scale of 64")],
)
def test_settings_that_make_no_sense_are_refused(setting: tuple[Any, ...], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        Setting(*setting)


def test_a_campaign_says_how_to_run_it_again() -> None:
    result = run_unified(5, ops=200, setting=GUARDED)
    assert result.reproduce.startswith("poolproof fuzz unified-pool --scale 64 --guard --seed 5 --ops ")
    assert (result.plain()["device"], result.plain()["scale"], result.plain()["guard"]) == ("host", 64, True)
    assert isinstance(result, UnifiedResult)
    assert Setting("tensor").options == ["--device", "tensor"]


def test_a_failure_that_does_not_show_again_is_kept() -> None:
    found = shrink_or_keep(5, (0, 20, "WrongBytes: a race"))
    assert found.message == "WrongBytes: a race (and not when it was run again)"
    assert found.kept == tuple(range(21))
    assert found.reproduce.endswith("--seed 5 --round 0")


def test_a_buffer_for_which_no_layout_is_possible_is_refused() -> None:
    class NeverFits(UnifiedPool):
        """No device has room for it."""

        def __init__(self, *arguments: Any, **options: Any) -> None:
            raise LayoutError("no memory")

    with pytest.raises(SettingError, match=r"none of 200 layouts is possible .*no memory"):
        play(5, 0, make=NeverFits)


@pytest.mark.gpu
@needs_cuda
@pytest.mark.parametrize("setting", [Setting("cuda"), Setting("cuda", 4096), Setting("cuda", 512, True)], ids=str)
def test_the_pool_holds_on_a_device(setting: Setting) -> None:
    tally = play_rounds(3, range(12), setting=setting)
    assert tally.failure is None
    assert tally.operations > 1500


def forgetful(method: str) -> type[CudaStreams]:
    """Streams that forget to wait at one of the places where they should."""
    from poolproof.fuzz.cuda_device import CudaDevice

    return type(f"Without_{method}", (CudaDevice,), {method: lambda *arguments: None})


@pytest.mark.gpu
@needs_cuda
@pytest.mark.parametrize("method", ["begun", "wait", "completed"])
def test_streams_that_do_not_wait_are_found(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import poolproof.fuzz.cuda_device

    monkeypatch.setattr(poolproof.fuzz.cuda_device, "CudaDevice", forgetful(method))
    errors = (play(11, number, setting=Setting("cuda", 4096))[1] for number in range(200))
    assert isinstance(next((error for error in errors if error is not None), None), WrongBytes)


@pytest.mark.gpu
@needs_cuda
def test_a_pool_that_waits_for_nobody_is_found_on_a_device() -> None:
    class WaitsForNobody(UnifiedPool):
        """Steps wait for no others."""

        def _to_wait_for(self, stream: Any, read: Any, written: Any, after: Sequence[Step]) -> set[Step]:
            return set()

    assert devices.device_of("cuda").name == "cuda"
    assert look_for_canary(11, WaitsForNobody, Setting("cuda", 4096))[1] > 0
