"""What a prefix cache with int8 checkpoints does to a model's answers: `python bench/recall.py [--json FILE]`.

A small hybrid model (bench/hybrid_model.py) is trained on associative recall (bench/recall_task.py) for some minutes.
Then it is served from pages and slots of one `UnifiedPool`, behind a `StateCache`. A conversation grows by one segment
after another. Each time a request hits the prefix so far, computes the new segment and donates its state, so
that after n segments the state was stored and loaded n times. Behind every segment a probe, a request that hits the
whole prefix and computes nothing but questions, is compared with one that gets nothing from the cache: how many answers
are right, KL(no cache || hit) of the next token, and how often both have the same most likely token.

- "int8" is the checkpoint pool as it is. In "int8, once" one request computes a whole conversation and leaves a prefix
  in the cache at the end of every segment, so that each is stored from a state that was never loaded.
- "float32 copy", "bfloat16 copy" keep a state as it is, or rounded, and load that: see `Copies`. Pages, tree, slots and
  lifecycle are the same ones.
- Every request computes in the same pieces, which end with the segments, hit or not. So where a copy loses nothing, a
  hit gives the same logits bit for bit.
- The controls damage the state at the end of the prefix and go on: what it and the attention's pages are for.

Everything follows from the printed seed; another CPU or torch may round in another way, and train another model.
Needs torch and no GPU. `--show FILE` prints a result as Markdown; `--smoke` is a run at tiny sizes, of a model that has
learned nothing.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import platform
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import torch
from hybrid_model import HybridModel, Serving, Sizes
from recall_task import NOTHING, Chain, Task, batch, chains
from torch import Tensor
from torch.nn import functional

from poolproof.cached_request import CachedRequest
from poolproof.checkpoint_owners import Donation, Source
from poolproof.checkpoint_pool import CheckpointPool
from poolproof.state_cache import StateCache
from poolproof.sub_pool import SubPool
from poolproof.unified_pool import UnifiedPool

Damage: TypeAlias = Callable[["Served", CachedRequest], None]
"""What is done to a request behind its prefix."""

DTYPE = "bfloat16"
"""Of conv windows, keys and values."""


@dataclass(frozen=True)
class Plan:
    """Sizes of a run.

    Attributes:
        task, model: what is learned, and by what; the vocabulary follows from the task.
        stages: (segments, sequences a step, steps) of the training, one stage after another.
        rate: the learning rate; from the middle of the training on it falls to a twentieth.
        chains, segments: sequences that are served, and segments of each.
        page_size: tokens a page.
        total_bytes: of the pool.
        seed: of the weights; data of the training and of the test have the next two.
    """

    task: Task = field(default_factory=Task)
    model: Sizes = field(default_factory=lambda: Sizes(0))
    stages: tuple[tuple[int, int, int], ...] = ((1, 32, 250), (2, 16, 150), (4, 8, 150), (8, 6, 500))
    rate: float = 3e-3
    chains: int = 96
    segments: int = 8
    page_size: int = 16
    total_bytes: int = 2**26
    seed: int = 0


SMOKE = Plan(
    task=Task(keys=6, values=4, fillers=2, segment=16, writes=2, questions=2, gap=4, probe=3),
    model=Sizes(0, width=16, heads=1, d_v=8, d_k=8, kv_heads=1, head_dim=8, window=4),
    stages=((1, 2, 2), (2, 2, 2)),
    chains=2,
    segments=2,
    page_size=4,
    total_bytes=2**18,
)


@dataclass(frozen=True)
class Variant:
    """A way to serve: the dtype of active states, and how prefixes come back.

    Attributes:
        state: dtype of the active states.
        checkpoint: as it is called in the tables.
        copy: the dtype that copies are kept in; None for int8.
        is_chained: every prefix is stored from a state that was loaded from the one before.
    """

    state: str
    checkpoint: str
    copy: torch.dtype | None = None
    is_chained: bool = True


VARIANTS = (
    Variant("float32", "float32 copy", torch.float32),
    Variant("float32", "bfloat16 copy", torch.bfloat16),
    Variant("float32", "int8"),
    Variant("float32", "int8, once", is_chained=False),
    Variant("bfloat16", "bfloat16 copy", torch.bfloat16),
    Variant("bfloat16", "int8"),
    Variant("bfloat16", "int8, once", is_chained=False),
)


# ------------------------------------------------------------------------------------------------------------ training


def train(plan: Plan, report: Callable[[str], None] = print) -> tuple[HybridModel, dict[str, Any]]:
    """A trained model, and how it went."""
    torch.manual_seed(plan.seed)
    model = HybridModel(sizes_of(plan))
    generator = torch.Generator().manual_seed(plan.seed + 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=plan.rate)
    steps, done, start, log = sum(stage[2] for stage in plan.stages), 0, time.process_time(), []
    for segments, count, some in plan.stages:
        for _ in range(some):
            for group in optimizer.param_groups:
                group["lr"] = plan.rate * min(1.0, (done + 1) / 50, max(0.05, 2 - 2 * done / steps))
            loss, share = train_step(model, optimizer, *batch(plan.task, count, segments, generator))
            done += 1
            if done % 50 == 0 or done == steps:
                log.append({"step": done, "segments": segments, "loss": round(loss, 4), "right": round(share, 4)})
                report(f"step {done} of {steps}: {segments} segments, loss {loss:.3f}, {share:.1%} right")
    return model.eval(), {"steps": steps, "cpu_seconds": round(time.process_time() - start, 1), "log": log}


def train_step(
    model: HybridModel, optimizer: torch.optim.Optimizer, tokens: Tensor, targets: Tensor
) -> tuple[float, float]:
    """One step; the loss of the answers before it, and the part of them that was right."""
    logits, _ = model(tokens)
    loss = functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=NOTHING)
    optimizer.zero_grad()
    torch.autograd.backward(loss)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    is_asked = targets != NOTHING
    return loss.item(), (logits.argmax(-1) == targets)[is_asked].float().mean().item()


def sizes_of(plan: Plan) -> Sizes:
    """The model's, with the task's vocabulary."""
    return Sizes(**(asdict(plan.model) | {"vocabulary": plan.task.vocabulary}))


# ------------------------------------------------------------------------------------------------------------- serving


class Copies(CheckpointPool):
    """A checkpoint pool whose hits load a copy of the state that was donated, and not what int8 made of it.

    The copy lies beside the pool, by the checkpoint's id; that of a slot which is used again is overwritten. Everything
    else is the pool's: conv windows come out of the checkpoint slot, where they are as they were.
    """

    def __init__(self, states: SubPool, checkpoints: SubPool, pool: UnifiedPool, dtype: torch.dtype) -> None:
        super().__init__(states, checkpoints)
        self._unified, self._dtype = pool, dtype
        self._temporal: Tensor = pool.views(states.name).temporal
        self._copies: dict[int, Tensor] = {}

    def donate(self, request: int, source: Source = "own", stream: Any = None) -> Donation | None:
        """As for every pool, and a copy."""
        donation = super().donate(request, source, stream)
        if donation is not None:
            at = int(self.states.physical([donation.active])[0])
            self._copies[donation.checkpoint] = self._temporal[:, at].to(self._dtype, copy=True)
        return donation

    def hit(self, request: int, node: int) -> int:
        """As for every pool, and then the copy in the place of the int8 state."""
        slot, checkpoint = super().hit(request, node), self.checkpoint_of(node)
        assert checkpoint is not None
        with Write(self._unified, slot) as at:
            self._temporal[:, at] = self._copies[checkpoint].to(self._temporal.dtype)
        return slot


class Write:
    """A step that writes one active slot: `with Write(pool, slot) as page:`."""

    def __init__(self, pool: UnifiedPool, slot: int) -> None:
        self._step = pool.begin_step(writes={"state": [slot]})

    def __enter__(self) -> int:
        return int(self._step.writes["state"][0])

    def __exit__(self, *_: object) -> None:
        self._step.launched()
        self._step.complete()
        self._step.retire()


class Served:
    """A model behind a prefix cache, with states of one dtype and checkpoints of one kind."""

    def __init__(self, plan: Plan, model: HybridModel, variant: Variant, dtype: str = DTYPE) -> None:
        self.plan, self.variant = plan, variant
        self.pool = UnifiedPool(plan.total_bytes, model.sizes.sub_pools(plan.page_size, variant.state, dtype))
        pair = self.pool["state"], self.pool["checkpoint"]
        states = CheckpointPool(*pair) if variant.copy is None else Copies(*pair, self.pool, variant.copy)
        self.cache, self.serving = StateCache(self.pool, states), Serving(model, self.pool)
        self.temporal: Tensor = self.pool.views("state").temporal

    def compute(self, request: CachedRequest, tokens: list[int], end: int) -> Tensor:
        """Go on to so many tokens, in pieces that end with the segments: logits of the tokens since."""
        found, piece = [], self.plan.task.segment
        self.cache.extend(request, end)
        assert request.state is not None
        while request.length < end:
            to = min(request.length // piece * piece + piece, end)
            part = tokens[request.length : to]
            found.append(self.serving.step(part, request.pages.tolist(), request.state, request.length))
            self.cache.computed(request, to)
        return torch.cat(found)

    def grow(self, prefix: list[int], new: int) -> None:
        """A request hits all but the last `new` tokens, computes those, and leaves the prefix in the cache."""
        request = self.cache.admit(prefix)
        self._check_hit(request, len(prefix) - new)
        self.compute(request, prefix, len(prefix))
        self._check_kept(self.cache.finish(request, prefix), len(prefix))

    def lay(self, tokens: list[int]) -> None:
        """One request computes all of this, and leaves a prefix in the cache at the end of every segment."""
        request, piece = self.cache.admit(tokens, at_most=0), self.plan.task.segment
        for end in range(piece, len(tokens) + 1, piece):
            self.compute(request, tokens, end)
            self._check_kept(self.cache.keep(request, tokens[:end]), end)
        self.cache.finish(request, tokens)

    def ask(
        self, prefix: list[int], questions: list[int], *, is_hit: bool, damage: Damage | None = None
    ) -> tuple[Tensor, Tensor]:
        """Logits behind each question, and the state in front of the first one, in float32."""
        request = self.cache.admit(prefix + questions, at_most=None if is_hit else 0)
        self._check_hit(request, len(prefix) if is_hit else 0)
        if not is_hit:
            self.compute(request, prefix, len(prefix))
        if damage is not None:
            damage(self, request)
        assert request.state is not None
        state = self.temporal[:, int(self.pool["state"].physical([request.state])[0])].float().clone()
        logits = self.compute(request, prefix + questions, len(prefix) + len(questions))
        self.cache.abort(request)
        return logits[1::2], state

    def _check_hit(self, request: CachedRequest, expected: int) -> None:
        if request.cached != expected:
            raise RuntimeError(
                f"{request.cached} tokens came out of the cache, not {expected}: make total_bytes larger than "
                f"{self.plan.total_bytes}"
            )

    def _check_kept(self, is_kept: bool, length: int) -> None:
        if not is_kept:
            raise RuntimeError(
                f"{length} tokens were not kept in the cache: make total_bytes larger than {self.plan.total_bytes}"
            )

    def violations(self) -> list[str]:
        """What is wrong with cache and pools, before and after all of it is given back."""
        found = self.cache.check()
        self.cache.clear()
        found += self.cache.check()
        used = self.pool.stats().used_bytes
        return [str(each) for each in found] + ([f"{used} bytes are used by nobody"] if used else [])


# -------------------------------------------------------------------------------------------------------------- damage


def zero_state(served: Served, request: CachedRequest) -> None:
    """The recurrent states are lost; conv windows and keys and values stay."""
    assert request.state is not None
    with Write(served.pool, request.state) as at:
        served.temporal[:, at] = 0


def halve_channels(served: Served, request: CachedRequest) -> None:
    """A fault of the codec: states are half as large in every other k-channel."""
    assert request.state is not None
    with Write(served.pool, request.state) as at:
        served.temporal[:, at, ..., ::2] *= 0.5


def zero_window(served: Served, request: CachedRequest) -> None:
    """What attention and convolution look back at is lost: the keys, values and conv windows."""
    assert request.state is not None
    step = served.pool.begin_step(writes={"full": request.pages.tolist()})
    pages = torch.tensor(step.writes["full"])
    for rows in (*served.serving.kv.k, *served.serving.kv.v):
        rows[pages] = 0
    step.launched()
    step.complete()
    step.retire()
    with Write(served.pool, request.state) as at:
        served.serving.states.conv[0][:, at] = 0


DAMAGES: dict[str, Damage] = {
    "states zeroed": zero_state,
    "states halved in every other k-channel": halve_channels,
    "keys, values and conv windows zeroed": zero_window,
}


# ------------------------------------------------------------------------------------------------------------- figures


@dataclass(frozen=True)
class Answers:
    """Of all chains after the same number of segments.

    Attributes:
        logits: [questions, vocabulary].
        states: [chains, ...], in front of the first question; None where they are not known.
    """

    logits: Tensor
    states: Tensor | None = None


def collected(some: Iterable[tuple[Tensor, Tensor]]) -> Answers:
    """Answers of one chain after another."""
    logits, states = zip(*some, strict=True)
    return Answers(torch.cat(logits), torch.stack(states))


def prefixes(tests: list[Chain], n: int) -> list[list[int]]:
    """The first n segments of every chain."""
    return [[token for segment in chain.segments[:n] for token in segment] for chain in tests]


def served_with_hits(served: Served, tests: list[Chain]) -> dict[int, Answers]:
    """Every chain is asked after each of its segments, with a hit of the whole prefix."""
    found, lengths = {}, range(1, served.plan.segments + 1)
    if not served.variant.is_chained:
        for tokens in prefixes(tests, lengths[-1]):
            served.lay(tokens)
    for n in lengths:
        if served.variant.is_chained:
            for prefix, chain in zip(prefixes(tests, n), tests, strict=True):
                served.grow(prefix, len(chain.segments[n - 1]))
        found[n] = asked(served, tests, n, is_hit=True)
    return found


def asked(served: Served, tests: list[Chain], n: int, *, is_hit: bool, damage: Damage | None = None) -> Answers:
    """Every chain is asked after n segments."""
    begun = zip(prefixes(tests, n), tests, strict=True)
    return collected(
        served.ask(prefix, chain.probes[n - 1][0], is_hit=is_hit, damage=damage) for prefix, chain in begun
    )


def without_pools(model: HybridModel, tests: list[Chain], n: int) -> Answers:
    """The model alone, on whole sequences in float32."""
    with torch.no_grad():
        rows = [p + chain.probes[n - 1][0] for p, chain in zip(prefixes(tests, n), tests, strict=True)]
        logits = torch.cat([model(torch.tensor([row]))[0] for row in rows])
    return Answers(logits[:, -len(tests[0].probes[0][0]) :][:, 1::2].flatten(0, 1))


def compared(tests: list[Chain], n: int, found: Answers, exact: Answers) -> dict[str, Any]:
    """How many answers are right, and how far they are from the exact ones: KL(exact || found) in nats."""
    p, q = (functional.log_softmax(each.logits.double(), -1) for each in (exact, found))
    kl = (p.exp() * (p - q)).sum(-1).clamp(min=0)
    made: dict[str, Any] = {
        "right": right(tests, n, found),
        "kl": digits(float(kl.mean())),
        "largest_kl": digits(float(kl.max())),
        "identical": torch.equal(found.logits, exact.logits),
        "agreement": round(float((p.argmax(-1) == q.argmax(-1)).double().mean()), 5),
    }
    if found.states is not None and exact.states is not None:
        difference = (found.states - exact.states).double().square().mean().sqrt()
        made["state"] = digits(float(difference / exact.states.double().square().mean().sqrt()))
    return made


def right(tests: list[Chain], n: int, found: Answers) -> float:
    """The part of the answers that are right."""
    wanted = [target for chain in tests for target in chain.probes[n - 1][1] if target != NOTHING]
    return round(float((found.logits.argmax(-1) == torch.tensor(wanted)).double().mean()), 5)


def digits(value: float) -> float:
    """To four digits."""
    return float(f"{value:.4g}")


def figures(plan: Plan, model: HybridModel, tests: list[Chain], report: Callable[[str], None]) -> dict[str, Any]:
    """Every way to serve, at every length; and whether the pools are healthy after it."""
    rows: list[dict[str, Any]] = []
    lengths = range(1, plan.segments + 1)
    alone = {n: without_pools(model, tests, n) for n in lengths}
    rows += [row("-", "model alone, no pools", n, {"right": right(tests, n, alone[n])}) for n in lengths]
    violations: list[str] = []
    exact: dict[str, dict[int, Answers]] = {}
    for variant in VARIANTS:
        served = Served(plan, model, variant)
        report(f"states in {variant.state}, {variant.checkpoint}")
        if variant.state not in exact:
            exact[variant.state] = {n: asked(served, tests, n, is_hit=False) for n in lengths}
            for n in lengths:
                made = compared(tests, n, exact[variant.state][n], alone[n])
                rows.append(row(variant.state, "no cache, beside the model alone", n, made))
        for n, found in served_with_hits(served, tests).items():
            rows.append(row(variant.state, variant.checkpoint, n, compared(tests, n, found, exact[variant.state][n])))
        violations += served.violations()
    return {"figures": rows, "controls": controls(plan, model, tests, exact), "violations": violations}


def row(state: str, checkpoint: str, segments: int, found: dict[str, Any]) -> dict[str, Any]:
    """One line of figures."""
    return {"state": state, "checkpoint": checkpoint, "segments": segments, "found": found}


def controls(
    plan: Plan, model: HybridModel, tests: list[Chain], exact: dict[str, dict[int, Answers]]
) -> list[dict[str, Any]]:
    """What becomes of the answers where something is lost at the end of the prefix; no cache is involved."""
    served = Served(plan, model, VARIANTS[0])
    return [
        {"damage": name, "segments": n}
        | compared(tests, n, asked(served, tests, n, is_hit=False, damage=damage), exact["float32"][n])
        for name, damage in DAMAGES.items()
        for n in sorted({1, plan.segments})
    ]


def difference_to_whole(plan: Plan, model: HybridModel, tests: list[Chain]) -> float:
    """The largest difference of a logit, served from float32 pages and slots, to the model alone."""
    n = plan.segments
    served = Served(plan, model, VARIANTS[0], dtype="float32")
    found = asked(served, tests[:4], n, is_hit=False)
    return digits(float((found.logits - without_pools(model, tests[:4], n).logits).abs().max()))


# -------------------------------------------------------------------------------------------------------------- result


def source_hash() -> str:
    """What was measured: a digest of the codec in torch, the model, the task and this file."""
    here = Path(__file__).resolve().parent
    files = (
        here.parent / "kernels" / "codec.py",
        *(here / f"{n}.py" for n in ("hybrid_model", "recall_task", "recall")),
    )
    return hashlib.sha256(b"".join(file.name.encode() + file.read_bytes() for file in files)).hexdigest()[:16]


def is_stale(result: dict[str, Any]) -> bool:
    """Was a result made by other sources than the checkout's?"""
    return bool(result.get("source") != source_hash())


def measure(plan: Plan, report: Callable[[str], None] = print) -> dict[str, Any]:
    """One run."""
    torch.set_num_threads(1)
    report(f"seed {plan.seed}")
    start = time.process_time()
    model, training = train(plan, report)
    tests = chains(plan.task, plan.chains, plan.segments, plan.seed + 2)
    found = figures(plan, model, tests, report)
    layouts = Served(plan, model, VARIANTS[-1]).pool.layouts
    return {
        "what": "answers after a hit beside answers without a cache, of a trained hybrid model",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": f"python bench/recall.py {'--smoke ' if plan == SMOKE else ''}--json FILE",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "machine": platform.machine(),
        "source": source_hash(),
        "smoke": plan == SMOKE,
        "seed": plan.seed,
        "plan": asdict(plan) | {"model": asdict(model.sizes)},
        "parameters": sum(p.numel() for p in model.parameters()),
        "bytes_bfloat16": {layout.name: layout.page_bytes for layout in layouts},
        "training": training,
        "questions": plan.chains * plan.task.probe,
        "chance": digits(1 / plan.task.values),
        **found,
        "largest_difference_to_the_model_alone": difference_to_whole(plan, model, tests),
        "cpu_seconds": round(time.process_time() - start, 1),
    }


TABLES = {
    "right": ("Answers that are right", "{:.4f}"),
    "kl": ("KL(no cache || hit), nats, mean", "{:.1e}"),
    "largest_kl": ("KL(no cache || hit), nats, largest", "{:.1e}"),
    "agreement": ("The same most likely token", "{:.4f}"),
    "state": ("The state behind the prefix, relative RMS error", "{:.1e}"),
}


def table(result: dict[str, Any], name: str) -> list[list[str]]:
    """One figure of every way to serve, by the number of segments."""
    form = TABLES[name][1]
    by_way: dict[tuple[str, str], list[str]] = {}
    for each in result["figures"]:
        if name in each["found"]:
            value = each["found"][name]
            cell = "0" if value == 0 and "e" in form else form.format(value)
            by_way.setdefault((each["state"], each["checkpoint"]), []).append(cell)
    lengths = [str(n) for n in range(1, result["plan"]["segments"] + 1)]
    return [["state", "prefix from", *lengths], *([*way, *cells] for way, cells in by_way.items())]


def control_table(result: dict[str, Any]) -> list[list[str]]:
    """The controls as text."""
    lines = [["at the end of the prefix", "segments", "right", "KL", "same token"]]
    for each in result["controls"]:
        cells = [f"{each['right']:.4f}", f"{each['kl']:.1e}", f"{each['agreement']:.4f}"]
        lines.append([each["damage"], str(each["segments"]), *cells])
    return lines


def tables(result: dict[str, Any]) -> list[tuple[str, int, list[list[str]]]]:
    """Titles, how many columns are words, and the lines."""
    made = [(title, 2, table(result, name)) for name, (title, _) in TABLES.items()]
    return [*made, ("Controls: something is lost (no cache, float32 states)", 1, control_table(result))]


def summary(result: dict[str, Any]) -> list[str]:
    """What was run, in lines."""
    plan, training = result["plan"], result["training"]
    made = ["smoke run, its figures mean nothing"] if result["smoke"] else []
    made += ["STALE: made by other sources than these"] if is_stale(result) else []
    made += [
        f"{result['parameters']} parameters, layers {plan['model']['layers']!r}, trained for {training['steps']} steps "
        f"({training['cpu_seconds']:.0f} s of a CPU) from seed {result['seed']}; {plan['chains']} conversations of up "
        f"to {plan['segments']} segments of {plan['task']['segment']} tokens, {result['questions']} questions behind "
        f"each segment; guesses are right in {result['chance']:.4f}.",
        f"Violations found in the pools: {len(result['violations'])}. Served from float32 pages and slots, the largest "
        f"difference of a logit to the model alone is {result['largest_difference_to_the_model_alone']:.1e}.",
    ]
    return made


def markdown(result: dict[str, Any]) -> str:
    """The figures as Markdown tables."""
    parts = summary(result)
    for title, words, lines in tables(result):
        made = ["| " + " | ".join(line) + " |" for line in lines]
        made.insert(1, "|---" * words + "|---:" * (len(lines[0]) - words) + "|")
        parts.append(f"{title}:\n\n" + "\n".join(made))
    return "\n\n".join(parts)


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--smoke", action="store_true", help="try everything at tiny sizes")
    kind.add_argument("--show", type=Path, metavar="FILE", help="print a result as Markdown, and measure nothing")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here too")
    options = parser.parse_args()
    if options.show is not None:
        if options.json:
            parser.error("--show measures nothing: leave --json out")
        try:
            shown = markdown(json.loads(options.show.read_text()))
        except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            parser.error(f"{options.show} is no result of this program: {error!r}")
        print(shown)
        return
    if options.json and not options.json.parent.is_dir():
        parser.error(f"--json {options.json}: there is no folder {options.json.parent}")
    result = measure(SMOKE if options.smoke else Plan())
    print(markdown(result))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
