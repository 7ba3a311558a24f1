"""Campaigns: what they report, that the seed determines them, and other people's allocators."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from poolproof.fuzz.campaign import draw_traces, run_campaign
from poolproof.fuzz.errors import SettingError, TargetError
from poolproof.fuzz.loading import load_target

TIMES = ("seconds", "operations_per_second")


def test_the_shipped_pool_passes_and_every_guard_is_reached() -> None:
    result = run_campaign("slot-pool", ops=20_000, seed=2)
    assert result.passed
    assert result.operations >= 20_000
    assert result.unreached == []
    assert result.profile.unclaimed == []
    assert all(action["done"] for action in result.coverage.plain()["actions"].values())


def test_the_plain_pool_passes() -> None:
    assert run_campaign("plain-pool", ops=10_000, seed=3).passed


def test_the_seed_determines_everything_but_the_times() -> None:
    first, second = (run_campaign("slot-pool", ops=3_000, seed=7).plain() for _ in range(2))
    for name in TIMES:
        del first[name], second[name]
    assert first == second
    assert run_campaign("slot-pool", ops=3_000, seed=8).plain()["coverage"] != first["coverage"]


def test_a_failure_and_its_shrunk_trace_are_determined_too() -> None:
    first, second = (run_campaign("canary-clear-forgets-pending", seed=4).failure for _ in range(2))
    assert first is not None
    assert second is not None
    assert first.trace == second.trace


def test_the_operations_reached_in_a_given_time_reproduce_the_campaign() -> None:
    timed = run_campaign("slot-pool", seconds=0.3, seed=5)
    again = run_campaign("slot-pool", ops=timed.operations, seed=5)
    assert again.operations == timed.operations
    assert again.coverage.plain() == timed.coverage.plain()
    assert shlex.split(timed.reproduce)[2:] == ["slot-pool", "--seed", "5", "--ops", str(timed.operations)]


def test_runs_vary_in_size_schedule_and_kind_of_operation() -> None:
    stream = draw_traces("slot-pool", load_target("slot-pool").profile, 0)
    traces = [next(stream) for _ in range(60)]
    assert min(trace.slots for trace in traces) <= 2
    assert max(trace.slots for trace in traces) >= 40
    assert {trace.header.schedule.longest for trace in traces} >= {0, 5, 30, 100}
    kinds = {frozenset(type(op).__name__ for op in trace.operations) for trace in traces}
    assert len(kinds) > 10


@pytest.mark.parametrize("name", ["Minimal", "Careless", "FromZero"])
def test_a_minimal_target_passes(name: str, here: Path) -> None:
    result = run_campaign(f"allocators:{name}", ops=5_000, seed=1)
    assert result.passed, result.failure and str(result.failure.divergence)


def test_what_a_target_does_not_promise_is_left_out_and_said(here: Path) -> None:
    assert "freed" in run_campaign("allocators:Careless", ops=2_000, seed=1).plain()["unclaimed"]


@pytest.mark.parametrize(
    ("name", "theorem"), [("CarelessAndSilent", "I2"), ("Leaky", "I4"), ("Crashing", "I4")], ids=lambda value: value
)
def test_a_broken_minimal_target_is_found(name: str, theorem: str, here: Path) -> None:
    failure = run_campaign(f"allocators:{name}", ops=20_000, seed=1).failure
    assert failure is not None
    assert failure.divergence.theorem == theorem
    assert len(failure.trace.operations) <= 4


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nothing", "no target 'nothing'"),
        ("nowhere:Pool", "cannot import nowhere"),
        ("allocators:Missing", "has no Missing"),
        ("allocators:not_callable", "is no factory"),
        ("allocators:explodes", "no memory for"),
        ("allocators:NoFree", "has no method free"),
    ],
)
def test_a_target_that_is_none_is_a_typed_error(name: str, reason: str, here: Path) -> None:
    with pytest.raises(TargetError, match=reason):
        run_campaign(name, ops=100)


@pytest.mark.parametrize("budget", [{"ops": 0}, {"seconds": -1.0}, {"ops": 5, "seconds": 1.0}])
def test_a_budget_that_is_none_is_a_typed_error(budget: dict[str, float]) -> None:
    with pytest.raises(SettingError):
        run_campaign("slot-pool", **budget)  # type: ignore[arg-type]
