"""bench/recall.py: a smoke run ends with sane figures, serving is the model, and the task and recurrence are right."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "bench" / "recall.py"
sys.path.insert(0, str(BENCH.parent))

import recall  # noqa: E402
import recurrence  # noqa: E402
from hybrid_model import HybridModel, Serving, delta_rule  # noqa: E402
from recall_task import NOTHING, Task, batch, chains  # noqa: E402

from poolproof.unified_pool import UnifiedPool  # noqa: E402

PLAN = recall.SMOKE
FOUND = {"right", "kl", "largest_kl", "identical", "agreement"}


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the bench."""
    return subprocess.run([sys.executable, str(BENCH), *map(str, arguments)], capture_output=True, text=True)


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The result of a smoke run, and what it printed."""
    file = tmp_path_factory.mktemp("bench") / "result.json"
    done = run("--smoke", "--json", file)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return file, done.stdout


@pytest.fixture(scope="module")
def result(smoke: tuple[Path, str]) -> dict[str, Any]:
    """The same, read."""
    found: dict[str, Any] = json.loads(smoke[0].read_text())
    return found


def model() -> HybridModel:
    """A small one with random weights, strong enough for its states to matter."""
    torch.manual_seed(1)
    made = HybridModel(recall.sizes_of(PLAN))
    with torch.no_grad():
        for part in made.parameters():
            part.mul_(1.5)
    return made.eval()


def test_a_result_says_what_was_measured_where_and_of_what(result: dict[str, Any], smoke: tuple[Path, str]) -> None:
    assert {"what", "date", "command", "python", "torch", "machine", "source", "seed", "plan"} <= set(result)
    assert result["smoke"]
    assert not recall.is_stale(result)
    assert smoke[1].startswith(f"seed {result['seed']}\n")
    assert result["training"]["steps"] == sum(steps for _, _, steps in PLAN.stages)


def test_the_pools_are_healthy_and_every_way_has_figures(result: dict[str, Any]) -> None:
    assert result["violations"] == []
    ways = {(row["state"], row["checkpoint"], row["segments"]) for row in result["figures"]}
    served = {(v.state, v.checkpoint, n) for v in recall.VARIANTS for n in range(1, PLAN.segments + 1)}
    assert served < ways
    for row in result["figures"]:
        found = row["found"]
        assert 0 <= found["right"] <= 1
        if row["state"] == "-":
            continue
        assert set(found) - {"state"} == FOUND
        assert 0 <= found["agreement"] <= 1
        assert 0 <= found["kl"] <= found["largest_kl"]
    assert {row["segments"] for row in result["controls"]} == {1, PLAN.segments}


def test_a_copy_loses_nothing_and_int8_loses_little(result: dict[str, Any]) -> None:
    for row in result["figures"]:
        found, state = row["found"], row["state"]
        if row["checkpoint"] == f"{state} copy":
            assert found["identical"]
            assert found["kl"] == found["state"] == 0
        elif "copy" in row["checkpoint"] or "int8" in row["checkpoint"]:
            assert 0 < found["state"] < 0.03
            assert found["kl"] < 1e-3
    zeroed = next(each for each in result["controls"] if each["damage"] == "states zeroed")
    assert zeroed["kl"] > 1e-3


def test_a_result_is_shown(smoke: tuple[Path, str]) -> None:
    done = run("--show", smoke[0])
    assert done.returncode == 0, done.stderr
    assert smoke[1].endswith(done.stdout)
    assert done.stdout.startswith("smoke run, its figures mean nothing")
    assert "STALE" not in done.stdout
    assert done.stdout.count("|---|") == len(recall.TABLES) + 1
    assert "STALE" in recall.markdown(json.loads(smoke[0].read_text()) | {"source": "0"})


@pytest.mark.parametrize("pieces", [(40,), (16, 16, 8), (1,) * 40, (3, 5, 7, 1, 24)])
def test_serving_from_pages_and_slots_is_the_model(pieces: tuple[int, ...]) -> None:
    """In float32, whatever the pieces; pages and slot are dirty before, and out of order."""
    whole = model()
    pool = UnifiedPool(2**18, whole.sizes.sub_pools(PLAN.page_size, "float32", "float32"))
    pool.buffer.fill_(0x5A)
    pages = pool["full"].alloc(12)[::-1][2:].tolist()
    slot = int(pool["state"].alloc(2)[1])
    tokens = torch.randint(whole.sizes.vocabulary, (40,), generator=torch.Generator().manual_seed(2)).tolist()
    serving, found, length = Serving(whole, pool), [], 0
    for piece in pieces:
        found.append(serving.step(tokens[length : length + piece], pages, slot, length))
        length += piece
    with torch.no_grad():
        exact = whole(torch.tensor([tokens]))[0][0]
    torch.testing.assert_close(torch.cat(found), exact, rtol=1e-4, atol=1e-4)


def test_the_recurrence_is_that_of_the_other_bench() -> None:
    given = recurrence.inputs("gdn", 50, 2, 8, 6, seed=0)
    state = torch.randn((2, 8, 6), generator=torch.Generator().manual_seed(3))
    end, exact = recurrence.run(state, given)
    q, k, v = (part.transpose(0, 1) for part in (given.q, given.k, given.v))
    out, after = delta_rule(state, q, k, v, given.gate[..., 0].T.log(), given.beta.T)
    torch.testing.assert_close(after, end, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(out.transpose(0, 1), exact, rtol=1e-5, atol=1e-5)


def test_attention_alone_cannot_reach_the_answers() -> None:
    """A probe asks for what was last written beyond the window."""
    task = replace(Task(), segment=64, writes=4, questions=4)
    assert recall.Plan().model.window <= task.gap
    for chain in chains(task, 4, 3, seed=5):
        for n, (asked, targets) in enumerate(chain.probes, 1):
            prefix = [token for segment in chain.segments[:n] for token in segment]
            assert len(prefix) == n * task.segment
            assert max(prefix[-task.gap :]) < task.fillers
            for key, target in zip(asked[1::2], targets[1::2], strict=True):
                writes = [at for at in range(len(prefix)) if prefix[at] == key and prefix[at - 1] != task.mark]
                assert prefix[writes[-1] + 1] == target
            assert targets[::2] == [NOTHING] * task.probe


def test_a_batch_asks_for_the_last_value_written() -> None:
    task = PLAN.task
    tokens, targets = batch(task, 3, 2, torch.Generator().manual_seed(6))
    assert tokens.shape == targets.shape == (3, 2 * task.segment + 2 * task.probe)
    for row, wanted in zip(tokens.tolist(), targets.tolist(), strict=True):
        known: dict[int, int] = {}
        for at, token in enumerate(row):
            is_question = at > 0 and row[at - 1] == task.mark
            assert wanted[at] == (known[token] if is_question else NOTHING)
            if token >= task.first_value:
                known[row[at - 1]] = token


def test_zeroing_the_state_changes_the_answers_and_nothing_else_is_left() -> None:
    tests = chains(PLAN.task, 2, 2, seed=7)
    served = recall.Served(PLAN, model(), recall.VARIANTS[0])
    exact = recall.asked(served, tests, 2, is_hit=False)
    zeroed = recall.asked(served, tests, 2, is_hit=False, damage=recall.zero_state)
    assert zeroed.states is not None
    assert not zeroed.states.any()
    assert recall.compared(tests, 2, zeroed, exact)["kl"] > 1e-3
    assert served.violations() == []


def test_too_small_a_pool_is_told() -> None:
    served = recall.Served(replace(PLAN, total_bytes=2**14), model(), recall.Variant("float32", "int8"))
    with pytest.raises(RuntimeError, match="make total_bytes larger than 16384"):
        recall.served_with_hits(served, chains(PLAN.task, 8, 2, seed=8))
    assert served.cache.stats().evictions > 0
    assert served.cache.check() == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--smok",), "unrecognized"),
        (("--smoke", "--show", "x"), "not allowed"),
        (("--show", "no-such-file"), "no result of this program"),
        (("--show", BENCH), "no result of this program"),
        (("--show", "x", "--json", "y"), "leave --json out"),
        (("--smoke", "--json", "no-such-folder/x.json"), "no folder"),
    ],
)
def test_wrong_use_is_told(
    arguments: tuple[object, ...], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["recall.py", *map(str, arguments)])
    with pytest.raises(SystemExit) as done:
        recall.main()
    assert done.value.code == 2
    assert said in capsys.readouterr().err


def test_a_plan_is_written_down_whole(result: dict[str, Any]) -> None:
    made = json.loads(json.dumps(asdict(PLAN)))
    assert result["plan"] | {"model": None} == made | {"model": None}
