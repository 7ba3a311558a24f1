"""The fuzzer of the state cache: its oracle knows every byte, it repeats itself, and it says how to see a failure."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch

from poolproof import Checkpoints, KVPages, StateSlots, UnifiedPool
from poolproof.checkpoint_pool import CheckpointPool
from poolproof.cli.main import main
from poolproof.fuzz import cache_campaign
from poolproof.fuzz.cache_campaign import open_cache_driver, play_cache, play_caches, run_cache, shrink_cache, shrunk
from poolproof.fuzz.cache_canaries import ForgetsConvWindows
from poolproof.fuzz.cache_layouts import ARRANGEMENTS, DTYPES, draw_cache_layout
from poolproof.fuzz.cache_oracle import CacheOracle
from poolproof.fuzz.cache_states import StateModel, raw
from poolproof.fuzz.cache_streams import KINDS, InjectedFault, OrderedQueues, Queues, open_streams
from poolproof.fuzz.cache_world import Make
from poolproof.fuzz.errors import SettingError
from poolproof.kernels import interpreter
from poolproof.kernels.codec import BITS, dequantize, quantize
from poolproof.steps import Step

BROKEN = Make(states=ForgetsConvWindows)
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.fixture(autouse=True)
def kernels_in_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not interpreted, which takes a hundred times as long."""
    monkeypatch.setattr(interpreter, "is_on", lambda: False)


# ---------------------------------------------------------------------------------------------------------- the oracle


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_oracle_and_the_codec_of_the_kernels_are_of_one_mind(dtype: str) -> None:
    """Over chains of donations and hits: fractions on the one side, tensors on the other."""
    shape = StateSlots(
        "s", layers=2, conv_shapes=[(3, 1)], temporal_shape=(2, 3, 2), conv_dtype="float16", temporal_dtype=dtype
    )
    model = StateModel(shape, "int8")
    for start in range(8):
        tokens = [start]
        state, depth = model.step(None, tokens), 0
        for turn in range(3):
            stored = model.store(state, depth)
            temporal = torch.from_numpy(state[0].astype(np.int64)).to(BITS[getattr(torch, dtype)])
            codes, scales = quantize(temporal.view(getattr(torch, dtype)))
            loaded = dequantize(codes, scales)
            assert np.array_equal(codes.numpy(), stored.parts[0])
            for ours, theirs in ((scales, stored.parts[1]), (loaded, stored.loaded[0])):
                found = ours.view(BITS[ours.dtype]).numpy().view(theirs.dtype)
                assert np.array_equal(found, theirs)
            assert np.array_equal(stored.loaded[1], state[1])
            tokens.append(turn)
            state, depth = model.step(stored.loaded, tokens), stored.depth
        assert depth == 3


def test_a_step_keeps_some_of_what_it_finds() -> None:
    """So that what was quantised before is quantised again."""
    shape = StateSlots(
        "s", layers=1, conv_shapes=[], temporal_shape=(4, 8, 8), conv_dtype="float32", temporal_dtype="float32"
    )
    model = StateModel(shape, "none")
    one, other = model.step(None, [1]), model.step(None, [2])
    after = model.step(one, [1, 2]), model.step(other, [1, 2])
    assert 0.3 < (after[0][0] == one[0]).mean() < 0.7
    assert 0.3 < (after[0][0] == after[1][0]).mean() < 0.7
    assert model.store(one, 4).depth == 4
    assert raw(model.store(one, 0).parts).tobytes() == one[0].tobytes()


def oracle_of(*keys: tuple[int, ...]) -> CacheOracle:
    """An oracle of pages of two tokens with these keys, the first one used first."""
    oracle = CacheOracle(2, "no_buffer", StateModel(open_cache_driver("1/0").layout.states, "none"))
    oracle.checkpoints = dict.fromkeys(keys)  # type: ignore[assignment]
    return oracle


def test_the_oracle_knows_where_nodes_are() -> None:
    oracle = oracle_of((1, 1, 2, 2, 3, 3), (1, 1, 2, 2, 3, 4), (1, 1, 2, 9), (5, 5))
    assert oracle.nodes() == {
        (1, 1): False,
        (1, 1, 2, 2): False,
        (1, 1, 2, 2, 3, 3): True,
        (1, 1, 2, 2, 3, 4): True,
        (1, 1, 2, 9): True,
        (5, 5): True,
    }
    assert len(oracle.prefixes(list(oracle.nodes()))) == 6
    assert oracle.restorable([5, 5], None) == ()
    assert oracle.restorable([5, 5, 1], None) == (5, 5)
    assert oracle.restorable([1, 1, 2, 9, 3, 3], 3) == ()


def test_the_oracle_knows_what_goes_first() -> None:
    oracle = oracle_of((1, 1), (2, 2), (1, 1, 2, 2))
    assert list(oracle.victims(False, ())) == [(1, 1), (2, 2), (1, 1, 2, 2)]
    assert list(oracle.victims(False, (2, 2))) == [(1, 1), (1, 1, 2, 2)]
    assert list(oracle.victims(True, ())) == [(2, 2), (1, 1, 2, 2)]
    assert oracle.idle_pages() == 3
    assert oracle.idle_pages((1, 1)) == 2


# ------------------------------------------------------------------------------------------------------------- streams


def test_steps_of_several_pools_are_told_apart() -> None:
    streams = Queues(random.Random(1))
    one, other = (Step(None, 0, 1, 0) for _ in range(2))  # type: ignore[arg-type]
    streams.wait(2, other)
    seen: list[str] = []
    streams.give(2, lambda: seen.append("late"))
    streams.launched(one)
    streams.drain()
    assert seen == []
    streams.launched(other)
    streams.drain()
    assert seen == ["late"]


def test_streams_that_keep_no_track_are_in_order() -> None:
    """As CUDA streams: away comes behind home when a step begins, home behind a step that is over."""
    for seed in range(20):
        streams, seen = OrderedQueues(random.Random(seed)), list[str]()
        step = Step(None, 0, 1, 0)  # type: ignore[arg-type]
        streams.run(None, lambda seen=seen: seen.append("a"))
        streams.begun(step)
        streams.give(1, lambda seen=seen: seen.append("b"))
        streams.launched(step)
        streams.completed(step)
        streams.give(None, lambda seen=seen: seen.append("c"))
        streams.pass_time(3)
        streams.drain()
        assert seen == ["a", "b", "c"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_can_be_made_to_fail(kind: str) -> None:
    streams: Any = open_streams("host", kind, random.Random(1))
    sub_pools = [
        KVPages("full", layers=1, kv_heads=1, head_dim=2, dtype="bfloat16"),
        StateSlots(
            "state", layers=1, conv_shapes=[], temporal_shape=(1, 2, 2), conv_dtype="float32", temporal_dtype="float32"
        ),
        Checkpoints("checkpoint"),
    ]
    pool = UnifiedPool(800, sub_pools, events=streams)
    states = CheckpointPool(pool["state"], pool["checkpoint"])
    streams.watch(states._bytes)
    spoiled: list[str] = []
    streams.spoil = lambda pool, name, page: spoiled.append(name)
    states.enqueue(1)
    step = pool.begin_step(writes={"state": states.admit(1)})
    step.launched()
    states.start(1)
    states.advance(1, 4)
    streams.is_armed = True
    with pytest.raises(InjectedFault):
        states.donate(1)
    streams.drain()
    assert spoiled == ["checkpoint"]
    assert states.stats().storing == 0
    assert states.donate(1) is not None
    assert states.check() == []


def test_layouts_are_of_all_kinds() -> None:
    seen: Counter[Any] = Counter()
    for seed in range(200):
        layout = draw_cache_layout(random.Random(seed))
        seen.update([layout.arrangement, layout.strategy, layout.order, layout.states.temporal_dtype, layout.codec])
        seen.update([layout.is_shadowed, len(layout.states.conv_shapes), layout.page_size])
    wanted = [*ARRANGEMENTS, "no_buffer", "extra_buffer", *KINDS, *DTYPES, "int8", "none", True, False, 0, 1, 2, 3, 4]
    assert all(seen[one] > 5 for one in wanted)


# ------------------------------------------------------------------------------------------------------------ campaigns


def test_the_shipped_cache_passes() -> None:
    tally = play_caches(2, range(6))
    assert tally.failure is None
    assert tally.operations > 800
    assert tally.steps > 2000
    for name in ("admit hit", "keep kept", "keep deduplicated", "compute full", "misuse refused"):
        assert tally.counts[name] > 1, name
    for ending in (" fault", " waits", " full"):
        assert sum(n for name, n in tally.counts.items() if name.endswith(ending)) > 5, ending


def test_the_same_seed_does_the_same_however_names_are_hashed() -> None:
    """Ranks of one engine are processes of their own: what each does, and in which order, follows from the calls."""
    program = "\n".join(
        [
            "from poolproof.fuzz.cache_campaign import play_cache",
            "print(*play_cache(3, 5, with_trace=True)[0].history, sep='\\n')",
        ]
    )
    plain = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment = {**plain, "PYTHONHASHSEED": "1"}
    there = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert play_cache(3, 5, with_trace=True)[0].history == there.stdout.splitlines()


def test_a_failure_is_made_short_and_can_be_seen_again() -> None:
    number = next(n for n in range(100) if play_cache(11, n, make=BROKEN)[1] is not None)
    driver, error = play_cache(11, number, make=BROKEN)
    assert error is not None
    found = shrink_cache(11, number, driver.at, BROKEN)
    assert found is not None
    assert len(found.kept) <= 12
    assert found.message.startswith("WrongBytes: ")
    assert f"--seed 11 --round {number} --keep {','.join(map(str, found.kept))}" in found.reproduce
    again = play_cache(11, number, found.kept, BROKEN, with_trace=True)
    assert f"WrongBytes: {again[1]}" == found.message
    assert tuple(again[0].history or ()) == found.trace
    assert any("keep(" in line or "finish(" in line or "retract(" in line for line in found.trace)


def test_a_failure_that_does_not_show_again_is_kept() -> None:
    found = shrunk(2, (0, 5, "WrongBytes: a race"))
    assert found.message == "WrongBytes: a race (and not when it was run again)"
    assert found.reproduce == "poolproof fuzz state-cache --seed 2 --round 0"


def broken_campaign(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on all caches are broken."""
    plain = open_cache_driver
    monkeypatch.setattr(cache_campaign, "open_cache_driver", lambda name, make, device: plain(name, BROKEN, device))


def test_a_campaign_against_a_broken_cache_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    broken_campaign(monkeypatch)
    result = run_cache(11, ops=500)
    assert not result.passed
    assert result.found is not None
    plain = json.loads(json.dumps(result.plain()))
    assert plain["failure"]["message"].startswith("WrongBytes")
    assert plain["failure"]["reproduce"].startswith("poolproof fuzz state-cache --seed 11 --round ")


def test_a_budget_must_be_one() -> None:
    for ops, seconds in ((5, 1.0), (0, None), (-3, None), (None, 0.0)):
        with pytest.raises(SettingError):
            run_cache(1, ops, seconds)
    with pytest.raises(SettingError, match="no device 'gpu'"):
        run_cache(1, 5, device="gpu")


# --------------------------------------------------------------------------------------------------------- command line


def poolproof(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code and what was printed."""
    with pytest.raises(SystemExit) as ended:
        main(["fuzz", "state-cache", *arguments])
    printed = capsys.readouterr()
    return int(ended.value.code or 0), printed.out, printed.err


def test_a_campaign_from_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = poolproof(capsys, "--seed", "5", "--ops", "100", "--json")
    report = json.loads(out)
    assert (status, err) == (0, "")
    assert report["passed"]
    assert report["target"] == "state-cache"
    assert report["operations"] >= 100
    assert report["canary"]["found_after"] > 0
    assert report["reproduce"] == f"poolproof fuzz state-cache --seed 5 --ops {report['operations']}"
    status, out, _ = poolproof(capsys, "--seed", "5", "--time", "0.1")
    assert status == 0
    assert out.splitlines()[-1] == "passed"
    assert "operations a second, seed 5" in out
    assert "broken on purpose: found after" in out


def test_one_cache_again(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    status, out, _ = poolproof(capsys, "--seed", "5", "--round", "0", "--keep", "0,1,2,3,4,5,6,7")
    assert (status, out.splitlines()[-1]) == (0, "passed")
    broken_campaign(monkeypatch)
    number = next(n for n in range(100) if play_cache(11, n)[1] is not None)
    status, out, _ = poolproof(capsys, "--seed", "11", "--round", str(number), "--json")
    report = json.loads(out)
    assert (status, report["passed"]) == (1, False)
    assert report["failure"].startswith("WrongBytes")
    assert report["trace"]


def test_wrong_use_is_refused(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for arguments, said in (
        (("--scale", "2"), "for the target unified-pool"),
        (("--guard",), "for the target unified-pool"),
        (("--device", "gpu"), "no device 'gpu'"),
        (("--ops", "0"), "more than zero"),
        (("--round", "1"), "give --seed too"),
        (("--seed", "1", "--round", "1", "--keep", "a"), "give numbers"),
    ):
        status, out, err = poolproof(capsys, *arguments)
        assert (status, out) == (2, "")
        assert said in err
    monkeypatch.setattr("poolproof.cli.fuzz_cache.find_spec", lambda name: None)
    assert "needs torch" in poolproof(capsys, "--ops", "5")[2]


# -------------------------------------------------------------------------------------------------------------- devices


def test_kernels_in_the_interpreter_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert torch.cuda.is_available() or interpreter.is_on()
    tally = play_caches(4, [0], device="tensor")
    assert tally.failure is None
    assert tally.operations > 100


def test_processes_share_the_work() -> None:
    together = run_cache(5, ops=100, jobs=2)
    assert together.passed
    assert together.tally.operations >= 100


@pytest.mark.gpu
@needs_cuda
def test_the_cache_holds_on_a_device() -> None:
    tally = play_caches(3, range(6), device="cuda")
    assert tally.failure is None
    assert tally.operations > 500


@pytest.mark.gpu
@needs_cuda
def test_a_broken_cache_is_found_on_a_device() -> None:
    errors = (play_cache(5, number, make=BROKEN, device="cuda")[1] for number in range(40))
    assert next(error for error in errors if error is not None) is not None
