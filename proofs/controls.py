"""Controls: a proof that nothing can break shows nothing.

Every mutant of an action must be refuted by some claim about that action, or be declared redundant with a reason;
every claim must be broken by some mutant, or be in the action's FRAME (no field in common), or be declared IMPLIED
with a reason. A mutant counts as refuted only by a concrete step that the run reading confirms.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from poolproof.proofs.arguments import allowed, worth_asking
from poolproof.proofs.concrete import arguments_of, broken_by, holds, refusing, run, state_of, violated
from poolproof.proofs.explore import Scene, claim_name, show_call, some_actions
from poolproof.proofs.mutate import Mutant, fields_named, shifted
from poolproof.proofs.obligations import Generator
from poolproof.proofs.smtlib import Printer, script
from poolproof.proofs.solver import Answer, solve_each
from poolproof.spec.language import IllDefined, Item, SpecError, Specification, State, fields_of
from poolproof.spec.language.source import parse
from poolproof.spec.language.state import nested_sizes
from poolproof.spec.language.terms import TRUE, Term

SAMPLES = 80
RESTART = 40
WALK = 4_000
SPOILED = 30
"""From so many states in which an action is enabled, one step of every action is tried that may disable it."""
NEAR = 6
"""So many states are kept for one guard that refuses after such a step."""
CONTROL_LIMIT = 3_000_000
"""Of the solver's resources for one question: a step that is not found within it counts as not found."""
ASKED = 14
"""So many mutants are asked about a claim that none of them breaks in a sampled state."""
TOGETHER = 8
"""So many claims are asked about in one script."""
MORE_STEPS = 8
"""How many more breaking steps are run once a mutant is refuted, for the claims that they break besides."""


@dataclass
class Kill:
    """One changed action and the claims that it breaks, each with a step that shows it."""

    mutant: str
    action: str
    line: int
    broken: dict[str, str] = field(default_factory=dict)


class Killer:
    """Looks for what a changed action breaks, at given small sizes."""

    def __init__(
        self, spec: Specification[Any], sizes: dict[str, int], broken: Iterable[str] = (), scenes: Sequence[Scene] = ()
    ) -> None:
        """`broken` names claims that need no breaking any more; sampling walks along the `scenes` too."""
        self.spec = spec
        self.sizes = sizes
        self.scenes = scenes
        self.generator = Generator(spec)
        self.printer = Printer(sizes)
        self.known = [self.printer.term(term) for term in self.generator.known]
        self.missing = {claim_name(claim) for claim in _state_claims(spec)} - set(broken)
        self._samples: dict[str, list[Any]] = {}
        self._before: dict[tuple[str, int], dict[tuple[Any, ...], Any]] = {}

    def goals_for(self, item: Item, changed: Specification[Any]) -> tuple[list[Term], dict[str, Term]]:
        """What may be assumed for the claims about a changed action, and the claims, well-definedness among them.

        Guards and well-definedness are assumed for every claim but well-definedness, which speaks of the guards' own
        reads too.
        """
        generator = self.generator.with_spec(changed)
        wd, *rest = generator.of_action(changed.action(item.name))
        rest = [o for o in rest if not o.frame]
        assumed = [*rest[0].hypotheses[len(generator.known) :], wd.goal] if rest else []
        return assumed, {o.about: o.goal for o in [wd, *rest]}

    def run(self, item: Item, mutant: Mutant, wanted: set[str] | None = None) -> Kill:
        """Claims that the mutant breaks in sampled states: by a step, or claims about a state that speak of it.

        Claims about states are tried until this mutant has broken something, and beyond that while some of the
        `wanted` ones, those that no mutant has broken by default, are not yet broken.
        """
        kill = Kill(mutant.label, item.name, mutant.line)
        changed = self.spec.with_body(item, mutant.function)
        twin = changed.action(item.name)
        wanted = self.missing if wanted is None else wanted
        self._run_in_samples(kill, changed, item, twin)
        concerned = {claim_name(c) for c in _state_claims(changed) if _concerns(changed, c, twin)}
        for state in self.samples(item):
            if kill.broken and not (concerned & wanted) - set(kill.broken):
                break
            self._try_theorems(kill, changed, twin, state, wanted)
        return kill

    def search(self, item: Item, mutant: Mutant, kill: Kill, aims: set[str]) -> None:
        """Have the solver look for steps that break the `aims`, still to be broken; for any claim where none is yet.

        Those that speak of what the mutant changed are asked first.
        """
        changed = self.spec.with_body(item, mutant.function)
        twin = changed.action(item.name)
        assumed, goals = self.goals_for(item, changed)
        wanted = {name: goal for name, goal in goals.items() if name in aims}
        self._ask(kill, changed, twin, assumed, wanted)
        claims = {c.name: c for c in [*changed.invariants, *changed.steps, *changed.ensures(twin)]}
        near = {name: _nearness(mutant, claims[name]) if name in claims else 0.0 for name in goals}
        left = sorted(set(goals) - aims, key=lambda name: (-near[name], name))
        for start in range(0, max(len(left), 1), TOGETHER):
            if not kill.broken:
                group = {name: goals[name] for name in left[start : start + TOGETHER]}
                self._ask(kill, changed, twin, assumed, group, aims=False)
            if start == 0:
                self._ask_about_states(kill, changed, twin)

    def search_states(self, item: Item, mutant: Mutant, kill: Kill, wanted: set[str]) -> None:
        """Have the solver look for states in which claims about states that no mutant has broken fail."""
        changed = self.spec.with_body(item, mutant.function)
        self._ask_about_states(kill, changed, changed.action(item.name), wanted)

    def concerned(self, item: Item) -> set[str]:
        """The claims about states that no mutant has broken and that speak of an action by name."""
        claims = [c for c in _state_claims(self.spec) if claim_name(c) in self.missing]
        return {claim_name(c) for c in claims if _speaks_of(c, item)}

    def _ask_about_states(
        self, kill: Kill, changed: Specification[Any], twin: Item, wanted: set[str] | None = None
    ) -> None:
        """Have the solver look for a state in which a claim about states that speaks of the action fails.

        Only the `wanted` ones are asked about where they are given, and otherwise none once something is broken.
        """
        if wanted is None and kill.broken:
            return
        generator = self.generator.with_spec(changed)
        claims = {claim_name(c): c for c in _state_claims(changed) if _speaks_of(c, twin)}
        claims = {name: claim for name, claim in claims.items() if wanted is None or name in wanted}
        if not claims:
            return
        goals = {name: generator.of_claim(claim) for name, claim in claims.items()}
        text = script(self.printer.fork(), self.generator.known, goals, switches=True)
        for name, answer in solve_each(text, list(goals), CONTROL_LIMIT):
            if answer.model is None:
                continue
            state = state_of(changed, self.sizes, answer.model)
            arguments = list(arguments_of(claims[name].parameters, answer.model).values())
            if not violated(changed, state) and not holds(changed, claims[name], state, *arguments):
                kill.broken[name] = show_call(name, claims[name].parameters, arguments)
                self.missing.discard(name)
                if wanted is None:
                    return

    def _ask(
        self,
        kill: Kill,
        changed: Specification[Any],
        twin: Item,
        assumed: list[Term],
        goals: dict[str, Term],
        aims: bool = True,
    ) -> None:
        """Have the solver look for a step that breaks each of some claims, or any of them."""
        wanted = {name: goal for name, goal in goals.items() if name not in kill.broken and goal is not TRUE}
        alone = wanted.pop("is_well_defined", None)
        asked = [(assumed, wanted)] if wanted else []
        asked += [] if alone is None else [([], {"is_well_defined": alone})]
        for facts, group in asked:
            text = script(self.printer.fork(), [*self.generator.known, *facts], group, switches=True)
            for name, answer in solve_each(text, list(group), CONTROL_LIMIT):
                if answer.model is not None and name not in kill.broken:
                    self._confirm(kill, changed, twin, answer)
                    if not aims:
                        return

    def _run_in_samples(self, kill: Kill, changed: Specification[Any], item: Item, twin: Item) -> None:
        """Run the changed action in sampled states, first with what the action itself would refuse."""
        more = MORE_STEPS
        with changed.active():
            for state in self.samples(item):
                before = self._outcomes(item, state)
                wrong: list[tuple[Any, ...]] = []
                now = list(allowed(changed, twin, state, ill_defined=wrong.append))
                for arguments in [*wrong[:1], *sorted(now, key=before.__contains__)[:2]]:
                    outcome = run(changed, twin, state, arguments)
                    if outcome.after is not None and outcome.after.key(True) == self._key_after(item, state, arguments):
                        continue  # the action itself does the same, and breaks nothing
                    broken = broken_by(changed, twin, state, arguments, outcome)
                    more -= bool(broken)
                    if broken and outcome.after is not None and self.missing:
                        self._try_theorems(kill, changed, twin, outcome.after, self.missing)
                    for name in broken:
                        kill.broken.setdefault(name, show_call(twin.name, twin.parameters, arguments))
                    if more < 0:
                        return

    def kill_initial(self, mutant: Mutant) -> Kill:
        """Every claim about the initial state that a mutant of the initializer breaks, whatever was there before."""
        kill = Kill(mutant.label, "init", mutant.line)
        changed = self.spec.with_body(self.spec.initializer, mutant.function)
        generator = self.generator.with_spec(changed)
        goals = {o.about: o.goal for o in generator.of_initial()}
        real = [term for _, term in generator.rosters]
        text = script(Printer(self.sizes), [*generator.least, *real], goals)
        for _, answer in solve_each(text, list(goals), CONTROL_LIMIT):
            if answer.model is not None:
                before = state_of(changed, self.sizes, answer.model)
                outcome = run(changed, changed.initializer, before, ())
                for name in broken_by(changed, changed.initializer, before, (), outcome):
                    kill.broken.setdefault(name, f"{changed.initializer.name}()")
        return kill

    def samples(self, item: Item) -> list[Any]:
        """Reachable states, found by a random walk that is the same every time, many of them with an action enabled."""
        if item.name not in self._samples:
            self._samples[item.name] = walk(self.spec, self.sizes, item, self.scenes)
        return self._samples[item.name]

    def _outcomes(self, item: Item, state: State) -> dict[tuple[Any, ...], Any]:
        """What the action itself allows in a sampled state, worked out once for all of its mutants."""
        key = (item.name, id(state))  # the samples are kept for as long as this is
        if key not in self._before:
            self._before[key] = dict.fromkeys(allowed(self.spec, item, state))
        return self._before[key]

    def _key_after(self, item: Item, state: State, arguments: tuple[Any, ...]) -> Any:
        """The state to which the action itself leads, by its key; None where it refuses."""
        outcomes = self._outcomes(item, state)
        if arguments in outcomes and outcomes[arguments] is None:
            after = run(self.spec, item, state, arguments).after
            outcomes[arguments] = None if after is None else after.key(True)
        return outcomes.get(arguments)

    def _confirm(self, kill: Kill, changed: Specification[Any], twin: Item, answer: Answer) -> None:
        assert answer.model is not None
        before = state_of(changed, self.sizes, answer.model)
        if violated(changed, before):
            return
        arguments = list(arguments_of(twin.parameters, answer.model).values())
        outcome = run(changed, twin, before, arguments)
        shown = show_call(twin.name, twin.parameters, arguments)
        for name in broken_by(changed, twin, before, arguments, outcome):
            kill.broken.setdefault(name, shown)
        for state in (before, outcome.after):
            if state is not None and self.missing:
                self._try_theorems(kill, changed, twin, state, self.missing)

    def _try_theorems(self, kill: Kill, changed: Specification[Any], twin: Item, state: Any, wanted: set[str]) -> None:
        """Claims about states: the wanted ones, and all of them while this mutant has broken nothing."""
        for claim in _state_claims(changed):
            name = claim_name(claim)
            if name in kill.broken or (kill.broken and name not in wanted):
                continue
            if not _concerns(changed, claim, twin):
                continue
            for arguments in worth_asking(changed, claim, state):
                if not holds(changed, claim, state, *arguments):
                    kill.broken[name] = show_call(claim.name, claim.parameters, arguments)
                    self.missing.discard(name)
                    break


def walk(spec: Specification[Any], sizes: dict[str, Any], wanted: Item, scenes: Sequence[Scene] = ()) -> list[State]:
    """Different reachable states of an instance, on random walks of a few steps each.

    Walks begin in the initial state or in one that a scene meets. The states are the first ones met, those in which an
    action is enabled, and neighbours of those in which one of its guards refuses. Of some actions drawn the one that
    was taken less often goes first, so that rare ones are met.
    """
    draw = random.Random(0)
    first = spec.state.blank(**nested_sizes(sizes))
    _litter(first, draw)
    try:
        spec.initializer.function(first)
    except IllDefined:
        return []
    found: dict[Any, State] = {first.key(): first}
    bases = list({met.key(): met for scene in [(), *scenes] for met in [first, *_met_in(spec, first, scene)]}.values())
    enabled = {s.key(): s for s in bases if next(allowed(spec, wanted, s), None) is not None}
    state, taken = first, {item.name: 0 for item in spec.actions}
    for steps in range(1, WALK):
        if len(found) >= SAMPLES and len(enabled) >= SAMPLES:
            break
        state = draw.choice(bases) if steps % RESTART == 0 else _stroll(spec, state, taken, draw)
        if len(found) < SAMPLES:
            found[state.key()] = state
        if len(enabled) < SAMPLES and next(allowed(spec, wanted, state), None) is not None:
            enabled[state.key()] = state
    return list({**enabled, **_spoiled(spec, wanted, list(enabled.values()), draw), **found}.values())


def _met_in(spec: Specification[Any], state: State, scene: Scene) -> Iterator[State]:
    """The states after each step of a scene."""
    for name, *arguments in scene:
        after = run(spec, spec.action(name), state, tuple(arguments)).after
        if after is None:
            raise SpecError(f"{spec.name}: a scene says {name}{tuple(arguments)}, which is refused there")
        yield after
        state = after


def _spoiled(spec: Specification[Any], wanted: Item, enabled: list[State], draw: random.Random) -> dict[Any, State]:
    """For each guard of an action a few states in which it refuses, one step from where the action is enabled.

    A mutant without the guard is enabled there, and most likely nothing else stands in its way.
    """
    found: dict[Any, State] = {}
    kept: dict[Any, int] = {}
    for state in draw.sample(enabled, min(len(enabled), SPOILED)):
        arguments = draw.choice(list(allowed(spec, wanted, state)))
        for item in spec.actions:
            choices = list(allowed(spec, item, state))
            after = run(spec, item, state, draw.choice(choices)).after if choices else None
            guard = None if after is None else refusing(spec, wanted, after, arguments)
            is_new = after is not None and after.key() not in found
            if after is not None and is_new and guard is not None and kept.get(guard, 0) < NEAR:
                kept[guard] = kept.get(guard, 0) + 1
                found[after.key()] = after
    return found


def _stroll(spec: Specification[Any], state: State, taken: dict[str, int], draw: random.Random) -> State:
    """The state after one of three actions drawn, or the same one where neither is enabled."""
    for item in some_actions(spec, taken, draw):
        choices = list(allowed(spec, item, state))
        after = run(spec, item, state, draw.choice(choices)).after if choices else None
        if after is not None:
            taken[item.name] += 1
            return after
    return state


def _litter(state: State, draw: random.Random) -> None:
    """Put something into every table of integers: what a new state finds may be anything."""
    for f in fields_of(type(state)):
        table = getattr(state, f.name)
        if f.kind == "component":
            _litter(table, draw)
        elif f.kind == "map" and f.value is int and not f.given:
            table.relabel(lambda *key: draw.randrange(2, 9))


def _concerns(spec: Specification[Any], claim: Any, action: Item) -> bool:
    """Does a claim about states speak of this action, or of no action at all?"""
    called = frozenset() if claim.kind == "batch" else _names_in(claim.function)
    return _speaks_of(claim, action) or (
        claim.kind != "batch" and called.isdisjoint(item.name for item in spec.actions)
    )


def _speaks_of(claim: Any, action: Item) -> bool:
    """Does a claim about states speak of this action by name?"""
    if claim.kind == "batch":
        return bool(claim.batch.item.name == action.name)
    return action.name in _names_in(claim.function)


@cache
def _names_in(function: Callable[..., Any]) -> frozenset[str]:
    return frozenset(node.id for node in ast.walk(parse(function)) if isinstance(node, ast.Name))


def _state_claims(spec: Specification[Any]) -> list[Any]:
    return [*spec.theorems, *(fact for b in spec.batches for fact in b.facts())]


def _nearness(mutant: Mutant, claim: Item) -> float:
    """Which part of the fields that a claim speaks of is in what the mutant changed."""
    spoken = fields_named(parse(claim.function), claim.function)
    return len(spoken & mutant.fields) / max(len(spoken), 1)


def shifted_reads(spec: Specification[Any], sizes: dict[str, int]) -> dict[str, str]:
    """For each invariant that reads a table: its twin whose first index is one too low, if that leaves the table."""
    found: dict[str, str] = {}
    try:
        state = spec.initial(**sizes)
    except IllDefined:
        return found
    for claim in spec.invariants:
        twin = shifted(claim)
        if twin is None:
            continue
        try:
            twin.function(state)
        except IllDefined as problem:
            found[claim.name] = f"{twin.name} ({problem})"
    return found
