"""The fuzzer of the unified pool: it finds what is broken, says how to see it again, and repeats itself."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable

import pytest

from poolproof.errors import SpecViolation
from poolproof.fuzz.buffer_layouts import draw_layout
from poolproof.fuzz.errors import SettingError
from poolproof.fuzz.memory import WrongBytes, pattern
from poolproof.fuzz.queued_device import QueuedDevice
from poolproof.fuzz.unified_campaign import SMALL, look_for_canary, play, play_rounds, run_unified, shrink
from poolproof.fuzz.unified_canaries import CANARIES, CopiesInAnotherOrder, KeepsNothingForSteps, LeavesOldBytes
from poolproof.spec.schedule import SPEC
from poolproof.steps import Step
from poolproof.unified_pool import UnifiedPool


@pytest.mark.parametrize("broken", CANARIES, ids=lambda broken: broken.__name__)
def test_every_broken_pool_is_found(broken: Callable[..., UnifiedPool]) -> None:
    """Each is broken in one way that a public report had."""
    name, after = look_for_canary(11, broken)
    assert name == broken.__name__
    assert after > 0


def test_wrong_bytes_are_found_by_looking_at_them() -> None:
    """The spec has no quarrel with a pool that only forgets to write zeros, or copies the wrong page."""
    for broken in (LeavesOldBytes, CopiesInAnotherOrder):
        errors = (play(5, number, make=broken)[1] for number in range(200))
        assert isinstance(next(error for error in errors if error is not None), WrongBytes)


def test_the_shipped_pool_passes_and_all_actions_are_taken() -> None:
    tally = play_rounds(2, range(60))
    assert tally.failure is None
    assert tally.operations > 6000
    unseen = {item.name for item in SPEC.actions} - set(tally.actions)
    assert unseen == {"ask_capacity", "write_padding"}, "of the two nothing shows in the tables"


def test_the_same_seed_does_the_same() -> None:
    first, second = (play(7, 3, with_trace=True)[0].shadow.history for _ in range(2))
    assert first == second
    assert first
    assert play_rounds(7, range(4)).counts == play_rounds(7, range(4)).counts


def test_processes_share_the_work_and_find_the_same() -> None:
    alone, together = run_unified(9, ops=3000), run_unified(9, ops=3000, jobs=2)
    assert alone.passed
    assert together.passed
    assert together.tally.operations >= alone.tally.operations >= 3000


def test_a_failure_is_made_short_and_can_be_seen_again() -> None:
    number = next(n for n in range(100) if play(1, n, make=LeavesOldBytes)[1] is not None)
    driver, error = play(1, number, make=LeavesOldBytes)
    found = shrink(1, number, driver.at, LeavesOldBytes)
    assert len(found.kept) <= 6
    assert found.message.startswith("WrongBytes: ")
    assert f"--seed 1 --round {number} --keep {','.join(map(str, found.kept))}" in found.reproduce
    again = play(1, number, found.kept, LeavesOldBytes)[1]
    assert f"WrongBytes: {again}" == found.message
    assert any("take_" in line for line in found.trace)
    assert error is not None


def test_a_campaign_against_a_broken_pool_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poolproof.fuzz.unified_campaign.play_rounds.__defaults__", (LeavesOldBytes, SMALL))
    monkeypatch.setattr("poolproof.fuzz.unified_campaign.play.__defaults__", (None, LeavesOldBytes, False, SMALL))
    monkeypatch.setattr("poolproof.fuzz.unified_campaign.shrink.__defaults__", (LeavesOldBytes, SMALL))
    result = run_unified(3, ops=2000)
    assert not result.passed
    assert result.found is not None
    assert result.plain()["failure"]["message"].startswith("WrongBytes")


@pytest.mark.parametrize(("ops", "seconds"), [(5, 1.0), (0, None), (-3, None), (None, 0.0)])
def test_a_budget_must_be_one(ops: int | None, seconds: float | None) -> None:
    with pytest.raises(SettingError):
        run_unified(1, ops, seconds)


def test_layouts_are_of_all_kinds() -> None:
    kinds: Counter[str] = Counter()
    for seed in range(300):
        total, made = draw_layout(random.Random(seed))
        kinds.update(one.kind for one in made)
        assert total >= 24
    assert set(kinds) == {"kv", "mla", "window", "state", "checkpoint", "pages"}


def test_patterns_of_writes_differ_and_are_not_zero() -> None:
    assert pattern(0, 4).tolist() == [0, 0, 0, 0]
    rows = {tuple(pattern(stamp, 3).tolist()) for stamp in range(1, 200)}
    assert len(rows) == 199
    assert all(0 not in row for row in rows)


def test_the_device_keeps_streams_in_order_and_waits() -> None:
    """Work of one stream in order; what waits comes after what it waits for; nothing else is promised."""
    orders = set()
    for seed in range(30):
        device, seen = QueuedDevice(random.Random(seed)), []
        steps = [Step(None, n, stream, 0) for n, stream in enumerate([None, 1, 1])]  # type: ignore[arg-type]
        device.give(None, lambda seen=seen: seen.append("a"))
        device.launched(steps[0])
        device.give(1, lambda seen=seen: seen.append("b"))
        device.launched(steps[1])
        device.wait(steps[2].stream, steps[0])
        device.give(1, lambda seen=seen: seen.append("c"))
        device.launched(steps[2])
        device.pass_time(4)
        device.completed(steps[2])
        assert seen.index("a") < seen.index("c")
        assert seen.index("b") < seen.index("c")
        orders.add(tuple(seen))
    assert len(orders) == 2


def test_a_spec_violation_names_what_the_pool_did() -> None:
    errors = [error for n in range(12) if (error := play(2, n, make=KeepsNothingForSteps)[1]) is not None]
    assert all(isinstance(error, SpecViolation) for error in errors)
    assert any("take_back" in str(error) for error in errors)


def test_no_order_depends_on_how_names_are_hashed() -> None:
    """Ranks of one engine are processes of their own: what each does, and in which order, follows from the calls."""
    program = "\n".join(
        [
            "from poolproof.fuzz.unified_campaign import play",
            "for number in (28, 86, 97, 114):",
            "    print(*play(20261130, number, with_trace=True)[0].shadow.history, sep='\\n')",
        ]
    )
    seen = set()
    for seed in ("1", "2", "3", "4"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
        )
        seen.add(done.stdout)
    assert len(seen) == 1
    assert "take_back" in seen.pop()
