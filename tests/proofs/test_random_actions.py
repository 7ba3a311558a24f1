"""What is proved of random actions is true: every claim accepted for all sizes holds of every step of small instances.

Guards are left out at random, so that well-definedness, invariants and step claims fail in many ways.
"""

from __future__ import annotations

import importlib
import itertools
import random
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from poolproof.proofs.concrete import broken_by, run
from poolproof.proofs.obligations import Generator, symbolic_fact
from poolproof.proofs.smtlib import Printer, script
from poolproof.proofs.solver import solve
from poolproof.spec.language import Map, Set
from poolproof.spec.language.terms import FALSE

SEED = 271
ACTIONS = 45
LIMIT = 60_000
"""What is false idles to the limit; what is true here needs far less."""

ROTA = '''\
"""Two rosters, a set and a table, made for one test."""

from __future__ import annotations

from poolproof.spec.language import *


class Slot(Id):
    """A slot."""


class Kind(Enumeration):
    """Is it on?"""

    ON = 0
    OFF = 1


class Rota(State):
    """Who is on, who waits, who is marked."""

    total: Size[Slot]
    kind: Map[Slot, Kind]
    duty: Roster[Slot]
    queue: Roster[Slot]
    marks: Set[Slot]
    head: Slot


@initial
def start(rota: Rota) -> None:
    """All are on."""
    rota.kind.relabel(lambda x: Kind.ON)
    rota.duty.fill(Slot(0), rota.total)
    rota.queue.empty()
    rota.marks = rota.marks.minus(rota.marks)
    rota.head = Slot(0)


@invariant("R1")
def who_is_on_is_listed(rota: Rota) -> Bool:
    """R1: the table and the roster agree."""
    return forall(rota.all(Slot), lambda x: iff(rota.duty.has(x), rota.kind[x] == Kind.ON))


@invariant("R2")
def marked_slots_wait(rota: Rota) -> Bool:
    """R2: over a set, whose members may be anything."""
    return forall(rota.marks, lambda x: implies(rota.all(Slot).has(x), lambda: rota.queue.has(x)))


@step("R3")
def whoever_waits_goes_on_waiting(pre: Rota, post: Rota) -> Bool:
    """R3: over both states."""
    return forall(pre.all(Slot), lambda x: implies(pre.queue.has(x), lambda: post.queue.has(x)))


@step("R4")
def the_head_is_never_below(pre: Rota, post: Rota) -> Bool:
    """R4: over scalars and sizes."""
    return or_(pre.head <= post.head, pre.duty.size > post.duty.size, lambda: post.marks.has(post.head))
'''
TAIL = '\n\nSPEC = Specification("rota", Rota, {})\n'


class Maker:
    """Random straight-line actions, with too few guards."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)

    def pick(self, *choices: str) -> str:
        return self.draw.choice(choices)

    def key(self) -> str:
        return self.pick("s", "s", "s", "t", "rota.head", "s + 1")

    def guards(self) -> list[str]:
        """Mostly what the effects need, in an order that makes sense."""
        found = [f"rota.all(Slot).has({key})" for key in ("s", "t") if self.draw.random() < 0.85]
        more = [
            "rota.duty.has(s)",
            "not_(rota.queue.has(s))",
            "rota.queue.has(t)",
            "rota.kind[s] == Kind.OFF",
            "s != t",
            "rota.marks.has(s)",
            "not_(rota.marks.has(t))",
            "rota.queue.size == 0",
            "forall(rota.all(Slot), lambda x: not_(and_(rota.duty.has(x), rota.queue.has(x))))",
            "exists(rota.marks, lambda x: x > s)",
            "rota.all(Slot).has(rota.head)",
        ]
        return found + self.draw.sample(more, self.draw.randrange(4))

    def effect(self) -> list[str]:
        key = self.key()
        return self.draw.choice(
            [
                [f"rota.duty.add({key})"],
                [f"rota.duty.remove({key})"],
                [f"rota.duty.remove({key})", f"rota.kind[{key}] = Kind.OFF"],
                [f"rota.duty.add({key})", f"rota.kind[{key}] = Kind.ON"],
                [f"rota.kind[{key}] = {self.pick('Kind.ON', 'Kind.OFF', 'rota.kind[t]')}"],
                [f"rota.queue.add({key})"],
                [f"rota.queue.remove({key})"],
                [f"rota.queue.add({key})", f"rota.marks = rota.marks.with_({key})"],
                [f"rota.marks = rota.marks.{self.pick('with_', 'without')}({key})"],
                ["rota.queue.absorb(rota.duty)"],
                ["rota.queue.absorb(rota.duty)", "rota.duty.empty()", "rota.kind.relabel(lambda x: Kind.OFF)"],
                [f"rota.queue.fill({self.pick('Slot(0)', 's')}, rota.total)"],
                ["rota.duty.fill(Slot(0), rota.total)", "rota.kind.relabel(lambda x: Kind.ON)"],
                ["rota.queue.empty()", "rota.marks = rota.marks.minus(rota.marks)"],
                [f"rota.kind.relabel(lambda x: Kind.OFF, where=lambda x: {self.pick('rota.marks.has(x)', 'x < s')})"],
                ["rota.kind.relabel(lambda x: rota.kind[x + 1], where=lambda x: rota.all(Slot).has(x + 1))"],
                ["rota.head = rota.head - 1"],
                [f"rota.head = {self.pick('s', 't', 'rota.head + 1', 'ite(s < t, s, t)')}"],
            ]
        )

    def action(self, number: int) -> str:
        lines = [f"require({guard})" for guard in self.guards()]
        for _ in range(self.draw.randrange(1, 3)):
            lines += self.effect()
        head = f'@action\ndef act{number}(rota: Rota, s: Slot, t: Slot) -> None:\n    """Made up."""'
        return "\n    ".join([f"\n\n{head}", *lines]) + "\n"


def subsets(items: range) -> Iterator[tuple[int, ...]]:
    """All subsets."""
    return itertools.chain.from_iterable(itertools.combinations(items, n) for n in range(len(items) + 1))


def sound_states(spec: Any, total: int) -> Iterator[Any]:
    """All states of a size that satisfy the invariants, ids one beyond the table among the marks and heads."""
    kinds = list(type(spec.initial(total=1).kind[0]))
    for labels in itertools.product(kinds, repeat=total):
        for queue, marks in itertools.product(subsets(range(total)), subsets(range(-1, total + 1))):
            if {x for x in marks if 0 <= x < total} <= set(queue):
                state = spec.state.blank(total=total)
                state.kind, state.marks = Map(enumerate(labels)), Set(marks)
                state.duty.members = dict.fromkeys(x for x in range(total) if labels[x] is kinds[0])
                state.queue.members = dict.fromkeys(queue)
                state.head = (len(queue) + len(marks)) % (total + 2) - 1
                yield state


@pytest.fixture(scope="module")
def rota(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A spec of many random actions."""
    maker, folder = Maker(SEED), tmp_path_factory.mktemp("rota")
    (folder / "rota_of_random_actions.py").write_text(ROTA + "".join(maker.action(n) for n in range(ACTIONS)) + TAIL)
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module("rota_of_random_actions")
    finally:
        sys.path.remove(str(folder))


@pytest.fixture(scope="module")
def truth(rota: Any) -> dict[str, set[str]]:
    """For each action the claims that it breaks in some sound state of size 1 or 2."""
    spec, broken = rota.SPEC, {}
    cases = [(state, total) for total in (1, 2) for state in sound_states(spec, total)]
    assert not any(spec.violations(state) for state, _ in cases)
    for item in spec.actions:
        found: set[str] = set()
        for state, total in cases:
            for arguments in itertools.product(range(-1, total + 1), repeat=2):
                outcome = run(spec, item, state, arguments)
                if not outcome.refused:
                    found |= set(broken_by(spec, item, state, arguments, outcome))
        broken[item.name] = found
    return broken


@pytest.fixture(scope="module")
def verdicts(rota: Any) -> dict[tuple[str, str], str]:
    """For each action and claim, what the solver says of it at all sizes."""
    generator = Generator(rota.SPEC)
    return {
        (item.name, o.about): solve(o.text, LIMIT).verdict
        for item in rota.SPEC.actions
        for o in generator.of_action(item)
    }


def test_what_is_proved_is_true(verdicts: dict[tuple[str, str], str], truth: dict[str, set[str]]) -> None:
    ill = {action for action, about in verdicts if about == "is_well_defined" and verdicts[action, about] != "unsat"}
    wrong = [
        (action, about)
        for (action, about), verdict in verdicts.items()
        if verdict == "unsat" and about in truth[action] and action not in ill
    ]
    assert wrong == [], f"seed {SEED}: proved, but false"
    wrong = [a for a in truth if verdicts[a, "is_well_defined"] == "unsat" and "is_well_defined" in truth[a]]
    assert wrong == [], f"seed {SEED}: proved to be well defined, but not"


def test_both_outcomes_are_common(verdicts: dict[tuple[str, str], str], truth: dict[str, set[str]]) -> None:
    """Otherwise the test above would say little."""
    claims = {about for _, about in verdicts}
    for about in claims - {"duty_is_a_bijection", "queue_is_a_bijection"}:
        proved = sum(verdict == "unsat" for (_, name), verdict in verdicts.items() if name == about)
        false = sum(about in broken for broken in truth.values())
        assert min(proved, false) >= 3, (about, proved, false)


def test_no_hypotheses_contradict_each_other(rota: Any, truth: dict[str, set[str]]) -> None:
    """An action that does something in some sound state has hypotheses that the solver does not find contradictory."""
    generator = Generator(rota.SPEC)
    for item in rota.SPEC.actions:
        if truth[item.name] - {"is_well_defined"}:
            known = [*generator.known, *generator.read(item).trace.guards]
            text = script(Printer(), [symbolic_fact(term) for term in known], {"nothing": FALSE})
            assert solve(text, LIMIT).verdict != "unsat", item.name
