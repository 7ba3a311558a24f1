"""The fuzzer of the checkpoint pool: the shipped one passes, broken ones are found, a failure can be seen again."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
import torch

from poolproof.cli.main import main
from poolproof.fuzz import checkpoint_campaign
from poolproof.fuzz.cache_streams import InjectedFault, open_streams
from poolproof.fuzz.cache_world import Make
from poolproof.fuzz.checkpoint_campaign import SUBJECT
from poolproof.fuzz.checkpoint_canaries import CANARIES, OF_BYTES, UNSHADOWED, ForgetsToTrack, GivesBackTooMuch
from poolproof.fuzz.checkpoint_faults import fail_away_too
from poolproof.fuzz.errors import SettingError
from poolproof.fuzz.memory import WrongBytes
from poolproof.fuzz.round_campaign import (
    CANARY_ROUNDS,
    look_for_canary,
    play_round,
    play_rounds,
    run_rounds,
    shorten,
    shrink_round,
)
from poolproof.kernels import interpreter
from poolproof.steps import Step

SEED = 5
BOUND = 4_000
"""Operations within which each canary must be found."""

BROKEN = Make(cache=None, states=ForgetsToTrack, has_shadow=False)
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.fixture(autouse=True)
def kernels_in_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not interpreted, which takes a hundred times as long."""
    monkeypatch.setattr(interpreter, "is_on", lambda: False)


# ---------------------------------------------------------------------------------------------------------- campaigns


def test_the_shipped_pool_passes_whatever_is_called() -> None:
    tally = play_rounds(SUBJECT, 9, range(12))
    assert tally.failure is None
    assert tally.operations > 1500
    assert tally.steps > 2500
    assert tally.deepest >= 1
    operations = {name.partition(" ")[0] for name in tally.counts}
    public = "enqueue admit hit start advance add_tracks track give_back retract finish donate publish drop add_node"
    assert {*public.split(), "remove_node", "lock", "release", "evict", "store", "load", "complete"} <= operations
    for ending in (" fault", " waits", " full", " refused", " locked", " in flight"):
        assert sum(n for name, n in tally.counts.items() if name.endswith(ending)) > 5, ending


def test_rounds_differ_in_layout_sharing_and_shadow() -> None:
    drivers = [checkpoint_campaign.open_checkpoint_driver(f"1/{n}", SUBJECT.shipped, "host") for n in range(24)]
    kinds = [
        (driver.layout.arrangement, driver.layout.codec, driver.pool.is_shared, driver.pool._journal is not None)
        for driver in drivers
    ]
    for place, least in enumerate((4, 2, 2, 2)):
        assert len({kind[place] for kind in kinds}) >= least


@pytest.mark.parametrize("broken", CANARIES, ids=lambda broken: broken.name)
def test_every_broken_pool_is_found(broken: Make) -> None:
    """Where only bytes are wrong, they alone give it away: no spec runs, and what the pool notes is as it should be."""
    checked = 0
    for number in range(CANARY_ROUNDS):
        driver, error = play_round(SUBJECT, SEED, number, make=broken)
        checked += driver.checked
        if error is not None:
            break
    assert checked <= BOUND
    assert error is not None
    assert isinstance(error, WrongBytes) or broken not in OF_BYTES


def test_canaries_are_many_and_have_names() -> None:
    names = [broken.name for broken in CANARIES]
    assert "shipped" not in names
    assert len(set(names)) == len(names) >= 20


@pytest.mark.parametrize("broken", UNSHADOWED[2:6], ids=lambda broken: broken.name)
def test_the_oracle_finds_without_the_spec(broken: Make) -> None:
    assert not broken.has_shadow
    assert 0 < look_for_canary(SUBJECT, SEED, broken)[1] <= BOUND


def test_the_same_seed_does_the_same_however_names_are_hashed() -> None:
    program = "\n".join(
        [
            "from poolproof.fuzz.checkpoint_campaign import SUBJECT",
            "from poolproof.fuzz.round_campaign import play_round",
            "print(*play_round(SUBJECT, 3, 5, with_trace=True)[0].history, sep='\\n')",
        ]
    )
    plain = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment = {**plain, "PYTHONHASHSEED": "1"}
    there = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    driver, error = play_round(SUBJECT, 3, 5, with_trace=True)
    assert error is None
    assert driver.history
    assert there.stdout.splitlines() == driver.history


def first_failure() -> tuple[int, int]:
    """A round that shows what is broken, and the operation that does."""
    for number in range(100):
        driver, error = play_round(SUBJECT, 11, number, make=BROKEN)
        if error is not None:
            return number, driver.at
    raise AssertionError("none")


def test_a_failure_is_made_short_and_can_be_seen_again() -> None:
    number, last = first_failure()
    found = shrink_round(SUBJECT, 11, number, last, BROKEN)
    assert found is not None
    assert found.message.startswith("WrongBytes: ")
    assert len(found.kept) < last + 1
    again, error = play_round(SUBJECT, 11, number, found.kept, BROKEN, with_trace=True)
    assert f"WrongBytes: {error}" == found.message
    assert tuple(again.history or ()) == found.trace
    kept = ",".join(map(str, found.kept))
    assert found.reproduce == f"poolproof fuzz checkpoint-pool --seed 11 --round {number} --keep {kept}"


def test_a_failure_that_does_not_show_again_is_kept() -> None:
    found = shorten(SUBJECT, 2, (0, 5, "WrongBytes: a race"))
    assert found.message == "WrongBytes: a race (and not when it was run again)"
    assert found.reproduce == "poolproof fuzz checkpoint-pool --seed 2 --round 0"


def test_a_budget_must_be_one() -> None:
    for ops, seconds in ((5, 1.0), (0, None), (None, 0.0)):
        with pytest.raises(SettingError):
            run_rounds(SUBJECT, 1, ops, seconds)
    with pytest.raises(SettingError, match="no device 'gpu'"):
        run_rounds(SUBJECT, 1, 5, device="gpu")


@pytest.mark.parametrize("kind", ["queued", "ordered", "at once"])
def test_a_copy_on_another_stream_can_be_made_to_fail(kind: str) -> None:
    streams: Any = open_streams("host", kind, random.Random(1))
    fail_away_too(streams)
    step = Step(None, 0, 1, 0)  # type: ignore[arg-type]
    spoiled: list[int] = []
    streams.spoil = lambda pool, name, page: spoiled.append(page)
    streams._doomed = step, [(None, "state", 3)]
    done: list[str] = []
    streams.give(None, lambda: done.append("home"))
    with pytest.raises(InjectedFault):
        streams.give(1, lambda: done.append("copy"))
    streams.give(1, lambda: done.append("away"))
    streams.drain()
    assert (spoiled, sorted(done)) == ([3], ["away", "home"])


# --------------------------------------------------------------------------------------------------------- command line


def poolproof(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code and what was printed."""
    with pytest.raises(SystemExit) as ended:
        main(["fuzz", "checkpoint-pool", *arguments])
    printed = capsys.readouterr()
    return int(ended.value.code or 0), printed.out, printed.err


def test_a_campaign_from_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = poolproof(capsys, "--seed", "5", "--ops", "100", "--json")
    report = json.loads(out)
    assert (status, err) == (0, "")
    assert (report["target"], report["passed"]) == ("checkpoint-pool", True)
    assert report["operations"] >= 100
    assert report["pools"] >= 1
    assert report["canary"]["found_after"] > 0
    assert report["reproduce"] == f"poolproof fuzz checkpoint-pool --seed 5 --ops {report['operations']}"
    status, out, _ = poolproof(capsys, "--seed", "5", "--time", "0.1")
    assert (status, out.splitlines()[-1]) == (0, "passed")
    assert "broken on purpose: found after" in out


def broken_campaign(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on all pools are broken."""
    broken = Make(cache=None, states=GivesBackTooMuch)
    monkeypatch.setattr(checkpoint_campaign, "SUBJECT", replace(SUBJECT, shipped=broken))


def test_a_failure_from_the_command_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    status, out, _ = poolproof(capsys, "--seed", "5", "--round", "0", "--keep", "0,1,2,3,4,5,6,7")
    assert (status, out.splitlines()[-1]) == (0, "passed")
    broken_campaign(monkeypatch)
    status, out, _ = poolproof(capsys, "--seed", "11", "--ops", "2000")
    assert (status, out.splitlines()[-1]) == (1, "failed")
    command = next(line for line in out.splitlines() if "reproduce: " in line).partition("reproduce: ")[2]
    words = command.split()
    assert words[:3] == ["poolproof", "fuzz", "checkpoint-pool"]
    status, out, _ = poolproof(capsys, *words[3:], "--json")
    report = json.loads(out)
    assert (status, report["passed"]) == (1, False)
    assert report["failure"].startswith("Departure: give_back")
    assert report["trace"]


def test_wrong_use_is_refused(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for arguments, said in (
        (("--scale", "2"), "for the target unified-pool"),
        (("--device", "gpu"), "no device 'gpu'"),
        (("--ops", "0"), "more than zero"),
        (("--round", "1"), "give --seed too"),
    ):
        status, out, err = poolproof(capsys, *arguments)
        assert (status, out) == (2, "")
        assert said in err
    monkeypatch.setattr("poolproof.cli.fuzz_cache.find_spec", lambda name: None)
    assert "checkpoint-pool needs torch" in poolproof(capsys, "--ops", "5")[2]


# -------------------------------------------------------------------------------------------------------------- devices


def test_tensors_hold() -> None:
    tally = play_rounds(SUBJECT, 4, [0, 1], device="tensor")
    assert tally.failure is None
    assert tally.operations > 200


@pytest.mark.gpu
@needs_cuda
def test_the_pool_holds_on_a_device() -> None:
    tally = play_rounds(SUBJECT, 3, range(6), device="cuda")
    assert tally.failure is None
    assert tally.operations > 500


@pytest.mark.gpu
@needs_cuda
def test_a_broken_pool_is_found_on_a_device() -> None:
    errors = (play_round(SUBJECT, 5, number, make=BROKEN, device="cuda")[1] for number in range(40))
    assert next(error for error in errors if error is not None) is not None
