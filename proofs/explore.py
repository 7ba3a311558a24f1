"""The explore reading: every reachable state of a small instance, breadth first.

It gives witnesses (each action enabled, each guard both passed and refusing, each premise met), shortest traces, and
an independent check of every claim on every reachable state and step.
"""

from __future__ import annotations

import ast
import itertools
import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import CodeType
from typing import Any

from poolproof.proofs.arguments import allowed, largest, values, worth_asking
from poolproof.spec.language import IllDefined, Item, Parameter, Refused, SpecError, Specification, State, logic
from poolproof.spec.language.sorts import is_enumeration, is_id
from poolproof.spec.language.source import is_guard, parse, statements
from poolproof.spec.language.state import nested_sizes
from poolproof.spec.language.symbolic import SymbolicState
from poolproof.spec.language.terms import fields_read

EVERY_STEP = 6_000
"""So many steps are checked one and all; after them, those that lead to a new state."""

WANDER = 2_500
"""So many random steps are taken for what was not witnessed in the states that the limit allows."""

WANTED = 4
"""So many ways of taking a step are tried, after each of them, of an action of which something is still missing."""

WANDER_AGAIN = 25
"""After so many of them, a walk begins anew."""

EVERY_STATE = 600
"""In so many states all theorems are tried, besides the invariants; after them, those whose premise was never met."""


Scene = Sequence[tuple[Any, ...]]
"""A trace: actions' names, each with its arguments."""


@dataclass
class Found:
    """A broken claim and the shortest trace to it."""

    claim: str
    trace: list[str]
    state: State


@dataclass
class Exploration:
    """What was seen.

    Attributes:
        states, steps: how many distinct states, and steps between them.
        complete: False where the limit on states was reached.
        wandered, met: how many random steps were taken beyond the limit, for witnesses, and how many states they met.
        enabled: for each action the shortest trace that ends with it.
        refused: for each action the source lines of the guards that refused at least once.
        guards: for each action the source lines of all its guards.
        premises: for each claim where its premise was first met (the trace, and the claim's arguments).
        broken: claims that failed, each with its shortest trace.
    """

    sizes: dict[str, Any]
    states: int = 0
    steps: int = 0
    checks: int = 0
    complete: bool = True
    wandered: int = 0
    met: int = 0
    enabled: dict[str, list[str]] = field(default_factory=dict)
    refused: dict[str, set[int]] = field(default_factory=dict)
    guards: dict[str, set[int]] = field(default_factory=dict)
    premises: dict[str, str] = field(default_factory=dict)
    broken: list[Found] = field(default_factory=list)

    def gaps(self, spec: Specification[Any]) -> list[str]:
        """What was never witnessed: actions never enabled, guards that never refused, premises never met."""
        missing = [f"{a.name} was never enabled" for a in spec.actions if a.name not in self.enabled]
        for name, lines in self.guards.items():
            missing += [
                f"the guard of {name} in line {line} never refused" for line in sorted(lines - self.refused[name])
            ]
        claims = [*spec.theorems, *spec.steps, *(f for b in spec.batches for f in b.facts())]
        claims += [claim for item in spec.actions for claim in spec.ensures(item)]
        return missing + [
            f"the premise of {claim_name(c)} was never met" for c in claims if claim_name(c) not in self.premises
        ]


def claim_name(claim: Any) -> str:
    """A claim's name; a batch fact's is preceded by its batch's."""
    return f"{claim.batch.name}/{claim.name}" if claim.kind == "batch" else str(claim.name)


def sampled(spec: Specification[Any], state: State) -> dict[str, bool]:
    """The unbounded sorts of parameters, of which an instance tries only some values, and whether that is declared.

    A spec that declares `samples` for a sort says which instance is meant; all of its states can then be visited.
    """
    found: dict[str, bool] = {}
    for parameter in (p for item in spec.actions for p in item.parameters):
        sort = parameter.sort
        if sort is int or (is_id(sort) and largest(state, sort) is None):
            tried = ", ".join(str(int(value)) for value in values(spec, state, parameter))
            found[f"{sort.__name__} from {{{tried}}}"] = sort in spec.samples
    return found


def show_call(name: str, parameters: Sequence[Parameter], arguments: Sequence[Any]) -> str:
    """A step as people read it, for example alloc(request=0, slot=1)."""
    shown = (f"{p.name}={a.name if is_enumeration(type(a)) else a}" for p, a in zip(parameters, arguments, strict=True))
    return f"{name}({', '.join(shown)})"


def some_actions(spec: Specification[Any], taken: dict[str, int], draw: random.Random) -> list[Item]:
    """Some actions drawn at random, up to three but no more than half, the one that was taken less often first."""
    drawn = draw.sample(spec.actions, max(1, min(3, len(spec.actions) // 2)))
    return sorted(drawn, key=lambda item: taken[item.name])


class Explorer:
    """Breadth-first search over one instance of a specification."""

    def __init__(
        self,
        spec: Specification[Any],
        sizes: dict[str, Any],
        limit: int = 200_000,
        canonical: Callable[[Any], Any] | None = None,
        scenes: Sequence[Scene] = (),
    ) -> None:
        """`canonical` gives equal keys to states that differ in names only; the state itself by default.

        Walks beyond the limit on states begin at the ends of `scenes` too: traces to what chance seldom finds.
        """
        self.spec = spec
        self.key_of = canonical or (lambda state: state.key())
        self.limit = limit
        self.scenes = scenes
        self.result = Exploration(sizes)
        self.parents: dict[Any, tuple[Any, str]] = {}
        self.seen: list[State] = []
        self._broken: set[str] = set()
        self._met: dict[str, set[Any]] = {}
        self._on_ghosts = [claim for claim in spec.invariants if _reads(spec, claim) & spec.ghosts]
        self._allowed_now: dict[str, list[tuple[Any, ...]]] = {}

    def run(self, check: bool = True, until_broken: bool = False) -> Exploration:
        """Explore; with `check`, evaluate claims on states and steps; with `until_broken`, only until one fails."""
        with self.spec.active():
            return self._run(check, until_broken)

    def _run(self, check: bool, until_broken: bool) -> Exploration:
        spec, result = self.spec, self.result
        for item in spec.actions:
            result.guards[item.name] = {s.lineno for s in statements(parse(item.function)) if is_guard(s)}
            result.refused[item.name] = set()
        try:
            first = spec.initial(**result.sizes)
        except IllDefined:
            blank = spec.state.blank(**nested_sizes(result.sizes))
            result.broken.append(Found("init/is_well_defined", [], blank))
            return result
        start = self.key_of(first)
        self.parents[start] = (None, "")
        queue: deque[tuple[Any, State]] = deque([(start, first)])
        while queue and not (until_broken and result.broken):
            key, state = queue.popleft()
            result.states += 1
            self.seen.append(state)
            for item in spec.actions:
                queue.extend(self._steps(item, state, key, check))
            if check:
                self._check_state(state, key)
        if check and not result.complete:
            self._wander(start, first, until_broken)
        return result

    def _wander(self, start: Any, first: State, until_broken: bool) -> None:
        """Walk at random, deeper than the limit on states lets the search go, for what was not witnessed yet.

        Walks are short, and begin where an earlier one met something new.
        """
        draw = random.Random(0)
        taken = {item.name: 0 for item in self.spec.actions}
        bases = [(start, first), *(self._end_of(scene, start, first) for scene in self.scenes)]
        key, state, known = start, first, -1
        wanted: list[Item] = []
        for count in range(WANDER):
            if until_broken and self.result.broken:
                return
            if self._witnessed() > known:
                known = self._witnessed()
                wanted = self._wanted()
                bases.append((key, state))
                if not self.result.gaps(self.spec):
                    return
            if count % WANDER_AGAIN == 0:
                begun = count // WANDER_AGAIN
                key, state = bases[begun] if begun <= len(self.scenes) else draw.choice(bases)
                self._try(wanted, state, key)
            for item in some_actions(self.spec, taken, draw):
                choices = list(self._allowed(item, state, key))
                if choices:
                    key, state = self._walk_on(item, state, key, draw.choice(choices))
                    taken[item.name] += 1
                    break
            self.result.wandered += 1
            self._try(wanted, state, key)

    def _try(self, wanted: list[Item], state: State, key: Any) -> None:
        """Try actions of which something is still missing, without leaving the state."""
        for item in wanted:
            for arguments in list(self._allowed(item, state, key))[:WANTED]:
                self._walk_on(item, state, key, arguments)

    def _end_of(self, scene: Scene, key: Any, state: State) -> tuple[Any, State]:
        """The state in which a scene ends, with its key.

        Raises:
            SpecError: a step of it is not one of the instance's.
        """
        for name, *arguments in scene:
            item = self.spec.action(name)
            if tuple(arguments) not in list(self._allowed(item, state, key)):
                raise SpecError(f"{self.spec.name}: a scene says {name}{tuple(arguments)}, which is refused there")
            key, state = self._walk_on(item, state, key, tuple(arguments))
        return key, state

    def _wanted(self) -> list[Item]:
        """The actions of which something was never witnessed: a guard that refuses, or the premise of a claim."""
        result = self.result
        return [
            item
            for item in self.spec.actions
            if result.guards[item.name] - result.refused[item.name]
            or any(claim.name not in result.premises for claim in self.spec.ensures(item))
        ]

    def _witnessed(self) -> int:
        """How much has been witnessed so far."""
        result = self.result
        refused = sum(len(lines) for lines in result.refused.values())
        return refused + len(result.enabled) + len(result.premises) + sum(len(met) for met in self._met.values())

    def _walk_on(self, item: Item, state: State, key: Any, arguments: tuple[Any, ...]) -> tuple[Any, State]:
        """Take one step of a walk, and check it; what it leads to, with its key."""
        label = show_call(item.name, item.parameters, arguments)
        after = self._after(item, state, key, arguments, label)
        if after is None:
            return key, state
        self._check_step(item, state, after, arguments, key, label)
        found = self.key_of(after)
        if found not in self.parents:
            self.parents[found] = (key, label)
            self.result.met += 1
            for claim in self.spec.invariants:
                self._check(claim.name, claim, found, "", after, after)
            for claim in (c for c in self.spec.theorems if c.name not in self.result.premises):
                for tried in worth_asking(self.spec, claim, after):
                    self._check(claim.name, claim, found, "", after, after, *tried)
        return found, after

    def _steps(self, item: Item, state: State, key: Any, check: bool) -> Iterator[tuple[Any, State]]:
        """The new states that one action leads to, each with its key."""
        self._allowed_now[item.name] = list(self._allowed(item, state, key))
        for arguments in self._allowed_now[item.name]:
            label = show_call(item.name, item.parameters, arguments)
            after = self._after(item, state, key, arguments, label)
            if after is None:
                continue
            self.result.steps += 1
            found = self.key_of(after)
            is_new, every = found not in self.parents, self.result.steps <= EVERY_STEP
            if check and (is_new or every):
                self._check_step(item, state, after, arguments, key, label)
            if not is_new:
                for claim in self._on_ghosts if check and every else ():  # a known state, but its ghosts may be new
                    self._check(claim.name, claim, key, label, after, after)
                continue
            if len(self.parents) >= self.limit:
                self.result.complete = False
                continue
            self.parents[found] = (key, label)
            yield found, after

    def _after(self, item: Item, state: State, key: Any, arguments: tuple[Any, ...], label: str) -> State | None:
        """The state after a step that is allowed; None, and reported, where its effects are ill defined."""
        after = state.copy()
        try:
            item.effects(after, *arguments)
        except IllDefined:
            self._report(f"{item.name}/is_well_defined", key, label, state)
            return None
        if item.name not in self.result.enabled:
            self.result.enabled[item.name] = [*self.trace_to(key), label]
        return after

    def _allowed(self, item: Item, state: State, key: Any) -> Iterator[tuple[Any, ...]]:
        """The arguments with which an action is enabled; refusals, and reads outside a table, are noted."""
        lines = self.result.refused[item.name]

        def refused(refusal: Refused) -> None:
            """Note the line of the guard that refused."""
            at = refusal.__traceback__
            assert at is not None
            assert at.tb_next is not None
            lines.add(at.tb_next.tb_lineno)

        def ill_defined(arguments: tuple[Any, ...]) -> None:
            label = show_call(item.name, item.parameters, arguments)
            self._report(f"{item.name}/is_well_defined", key, label, state)

        return allowed(self.spec, item, state, refused, ill_defined)

    def _check_state(self, state: State, key: Any) -> None:
        for claim in self.spec.invariants:
            self._check(claim.name, claim, key, "", state, state)
        every = self.result.states <= EVERY_STATE
        for claim in self.spec.theorems:
            if not every and claim.name in self.result.premises:
                continue
            for arguments in worth_asking(self.spec, claim, state):
                self._check(claim.name, claim, key, "", state, state, *arguments)
        for batch in self.spec.batches if every else ():
            others = list(values(self.spec, state, batch.item.parameters[batch.position]))
            for fact in batch.facts():
                for first, other in itertools.product(self._allowed_now[batch.item.name], others):
                    self._check(claim_name(fact), fact, key, "", state, state, *first, other)

    def _check_step(
        self, item: Item, state: State, after: State, arguments: tuple[Any, ...], key: Any, label: str
    ) -> None:
        for claim in self.spec.steps:
            self._check(claim.name, claim, key, label, state, state, after)
        for claim in self.spec.ensures(item):
            self._check(claim.name, claim, key, label, state, state, after, *arguments)

    def _check(self, name: str, claim: Any, key: Any, label: str, state: State, *arguments: Any) -> None:
        self.result.checks += 1
        if name in self.result.premises:
            good = _true(claim, arguments)
        else:
            good, met = _watching(claim, arguments)
            if self._all_premises_met(name, claim, met):
                self.result.premises[name] = "; ".join([*self.trace_to(key), label]).strip("; ") or "the initial state"
        if not good:
            self._report(name, key, label, state)

    def _all_premises_met(self, name: str, claim: Any, met: set[Any]) -> bool:
        """Has each `implies` of a claim, and of the definitions that it calls, had a true premise by now?"""
        code, calls = _premises(claim)
        so_far = self._met.setdefault(name, set())
        so_far |= {place for place in met if place[0] in code}
        return len(so_far) >= calls

    def _report(self, claim: str, key: Any, label: str, state: State) -> None:
        if claim not in self._broken:
            self._broken.add(claim)
            trace = self.trace_to(key)
            self.result.broken.append(Found(claim, [*trace, label] if label else trace, state))

    def trace_to(self, key: Any) -> list[str]:
        """The shortest trace to a state."""
        steps = []
        while key is not None:
            key, label = self.parents[key]
            if label:
                steps.append(label)
        return steps[::-1]


def _reads(spec: Specification[Any], claim: Item) -> frozenset[str]:
    """The fields that an invariant reads."""
    trace, value = spec.trace(claim, SymbolicState.base(spec.state), [])
    return fields_read(value).union(*(fields_read(demand) for demand in trace.demands))


def _true(claim: Any, arguments: tuple[Any, ...]) -> bool:
    try:
        return bool(claim.function(*arguments))
    except IllDefined:
        return False


def _watching(claim: Any, arguments: tuple[Any, ...]) -> tuple[bool, set[Any]]:
    """Evaluate a claim, and say where it called `implies` with a true premise."""
    logic.premises_met = set()
    try:
        good = _true(claim, arguments)
        return good, logic.premises_met
    finally:
        logic.premises_met = None


@cache
def _premises(claim: Any) -> tuple[frozenset[Any], int]:
    """The code of a claim and of the definitions that it calls, and how often `implies` is called there."""
    if claim.kind == "batch":
        return frozenset(_inner(type(claim).function.__code__)), 1
    code: set[Any] = set()
    calls, waiting, seen = 0, [claim.function], set()
    while waiting:
        function = waiting.pop()
        if function in seen:
            continue
        seen.add(function)
        code |= set(_inner(function.__code__))
        for node in ast.walk(parse(function)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                calls += node.func.id == "implies"
                called = function.__globals__.get(node.func.id)
                waiting += [called] if hasattr(called, "__spec_item__") else []
    return frozenset(code), calls


def _inner(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _inner(constant)
