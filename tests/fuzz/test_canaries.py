"""Every broken allocator is found, and its trace cut down to a few operations that fail in the same way."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from poolproof.fuzz.campaign import CANARY_OPS, canary_for, look_for_canary, run_campaign
from poolproof.fuzz.canaries import CANARIES, Canary
from poolproof.fuzz.loading import load_target
from poolproof.fuzz.runs import run_trace
from poolproof.fuzz.traces import read_trace

CANARY = pytest.mark.parametrize("canary", CANARIES, ids=lambda canary: canary.name)


@CANARY
def test_a_canary_is_found_cut_down_and_saved(canary: Canary, tmp_path: Path) -> None:
    result = run_campaign(canary.name, ops=CANARY_OPS, seed=11, save_dir=tmp_path)
    assert not result.passed
    failure = result.failure
    assert failure is not None
    assert failure.path is not None
    assert len(failure.trace.operations) <= 6
    assert re.fullmatch(r"I\d+|meta", failure.divergence.theorem)
    again = run_trace(load_target(canary.name), read_trace(failure.path))
    assert again.divergence == failure.divergence


@CANARY
@pytest.mark.parametrize("seed", [0, 1])
def test_a_canary_is_found_within_the_budget_of_a_campaign(canary: Canary, seed: int) -> None:
    verdict = look_for_canary(load_target("slot-pool").profile, seed, canary)
    assert verdict.found
    assert verdict.operations < CANARY_OPS / 4


def test_seeds_rotate_through_all_canaries() -> None:
    profile = load_target("slot-pool").profile
    names = {canary.name for seed in range(len(CANARIES)) if (canary := canary_for(profile, seed))}
    assert names == {canary.name for canary in CANARIES}


@pytest.mark.parametrize("name", ["Minimal", "Careless", "FromZero"])
def test_a_poor_target_gets_a_canary_that_its_promises_show(name: str, here: Path) -> None:
    profile = load_target(f"allocators:{name}").profile
    fitting = [canary for canary in CANARIES if canary.shows_under(profile)]
    assert len(fitting) >= 4
    for canary in fitting:
        assert look_for_canary(profile, 5, canary).found, canary.name


def test_a_blind_campaign_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    import poolproof.fuzz.campaign as campaign

    healthy = Canary("canary-that-is-healthy", load_target("plain-pool")._factory, frozenset(), frozenset())  # type: ignore[arg-type]
    monkeypatch.setattr(campaign, "CANARIES", (healthy,))
    monkeypatch.setattr(campaign, "CANARY_OPS", 2_000)
    result = run_campaign(ops=500, seed=1)
    assert result.failure is None
    assert not result.canary.found
    assert not result.passed
