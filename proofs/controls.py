"""Controls: a proof that nothing can break shows nothing.

Every mutant of an action must be refuted by some claim about that action, or be declared redundant with a reason;
every claim must be broken by some mutant, or be in the action's FRAME (no field in common), or be declared IMPLIED
with a reason. A mutant counts as refuted only by a concrete step that the run reading confirms.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from poolproof.proofs.arguments import allowed, worth_asking
from poolproof.proofs.concrete import arguments_of, broken_by, holds, run, state_of, violated
from poolproof.proofs.explore import claim_name, show_call
from poolproof.proofs.mutate import Mutant, shifted
from poolproof.proofs.obligations import Generator
from poolproof.proofs.smtlib import Printer, script
from poolproof.proofs.solver import Answer, solve_each
from poolproof.spec.language import IllDefined, Item, Specification, State, fields_of
from poolproof.spec.language.source import parse
from poolproof.spec.language.state import nested_sizes
from poolproof.spec.language.terms import TRUE, Term, conjunction

SAMPLES = 80
RESTART = 40
WALK = 4_000
CONTROL_LIMIT = 3_000_000
"""Of the solver's resources for one question: a step that is not found within it counts as not found."""
ASKED = 14
"""So many mutants are asked about a claim that none of them breaks in a sampled state."""
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

    def __init__(self, spec: Specification[Any], sizes: dict[str, int]) -> None:
        self.spec = spec
        self.sizes = sizes
        self.generator = Generator(spec)
        self.printer = Printer(sizes)
        self.known = [self.printer.term(term) for term in self.generator.known]
        self.missing = {claim_name(claim) for claim in _state_claims(spec)}
        self._samples: dict[str, list[Any]] = {}
        self._before: dict[tuple[str, int], frozenset[tuple[Any, ...]]] = {}

    def goals_for(self, item: Item, changed: Specification[Any]) -> dict[str, Term]:
        """The claims about a changed action, each with what may be assumed for it.

        Guards are assumed for every claim but well-definedness, which speaks of the guards' own reads too; the others
        assume well-definedness.
        """
        generator = self.generator.with_spec(changed)
        wd, *rest = generator.of_action(changed.action(item.name))
        rest = [o for o in rest if not o.frame]
        assumed = [*rest[0].hypotheses[len(generator.known) :], wd.goal] if rest else []
        # What an action ensures is nearest to its guards and quickest to find broken, so it is asked first.
        return {wd.about: wd.goal} | {o.about: _under(assumed, o.goal) for o in reversed(rest)}

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
        """Have the solver look for steps that break the `aims`, still to be broken; for any claim where none is yet."""
        changed = self.spec.with_body(item, mutant.function)
        twin = changed.action(item.name)
        goals = self.goals_for(item, changed)
        self._ask(kill, changed, twin, {name: goals[name] for name in goals if name in aims})
        if not kill.broken:
            claims = {claim.name for claim in [*changed.steps, *changed.ensures(twin)]}
            near = {name: goals[name] for name in goals if name in claims - aims}
            self._ask(kill, changed, twin, near, aims=False)
            self._ask_about_states(kill, changed, twin)
            if not kill.broken:
                far = {name: goals[name] for name in goals if name not in claims | aims}
                self._ask(kill, changed, twin, far, aims=False)

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
        text = script(self.printer.fork(), self.generator.known, {**goals, "": TRUE})
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
        self, kill: Kill, changed: Specification[Any], twin: Item, goals: dict[str, Term], aims: bool = True
    ) -> None:
        """Have the solver look for a step that breaks each of some claims, or any of them."""
        wanted = {name: goal for name, goal in goals.items() if name not in kill.broken and goal is not TRUE}
        if not wanted:
            return
        text = script(self.printer.fork(), self.generator.known, {**wanted, "": TRUE})  # always with switches
        for name, answer in solve_each(text, list(wanted), CONTROL_LIMIT):
            if answer.model is not None and name not in kill.broken:
                self._confirm(kill, changed, twin, answer)
                if not aims:
                    return

    def _run_in_samples(self, kill: Kill, changed: Specification[Any], item: Item, twin: Item) -> None:
        """Run the changed action in sampled states, first with what the action itself would refuse."""
        more = MORE_STEPS
        with changed.active():
            for state in self.samples(item):
                before = self._allowed_before(item, state)
                wrong: list[tuple[Any, ...]] = []
                now = list(allowed(changed, twin, state, ill_defined=wrong.append))
                for arguments in [*wrong[:1], *sorted(now, key=before.__contains__)[:2]]:
                    outcome = run(changed, twin, state, arguments)
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
            self._samples[item.name] = walk(self.spec, self.sizes, item)
        return self._samples[item.name]

    def _allowed_before(self, item: Item, state: State) -> frozenset[tuple[Any, ...]]:
        """What the action itself allows in a sampled state, worked out once for all of its mutants."""
        key = (item.name, id(state))  # the samples are kept for as long as this is
        if key not in self._before:
            self._before[key] = frozenset(allowed(self.spec, item, state))
        return self._before[key]

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


def walk(spec: Specification[Any], sizes: dict[str, Any], wanted: Item) -> list[State]:
    """Different reachable states of an instance, on random walks of a few steps each from the initial state.

    Half of them are the first ones met, the others those in which an action is enabled. Of three actions drawn the one
    that was taken less often goes first, so that rare ones are met.
    """
    draw = random.Random(0)
    first = spec.state.blank(**nested_sizes(sizes))
    _litter(first, draw)
    try:
        spec.initializer.function(first)
    except IllDefined:
        return []
    found: dict[Any, State] = {first.key(): first}
    enabled: dict[Any, State] = {}
    state, taken = first, {item.name: 0 for item in spec.actions}
    for steps in range(1, WALK):
        if len(found) >= SAMPLES and len(enabled) >= SAMPLES:
            break
        state = first if steps % RESTART == 0 else _stroll(spec, state, taken, draw)
        if len(found) < SAMPLES:
            found[state.key()] = state
        if len(enabled) < SAMPLES and next(allowed(spec, wanted, state), None) is not None:
            enabled[state.key()] = state
    return list({**enabled, **found}.values())


def _stroll(spec: Specification[Any], state: State, taken: dict[str, int], draw: random.Random) -> State:
    """The state after one of three actions drawn, or the same one where neither is enabled."""
    drawn = draw.sample(spec.actions, min(3, len(taken)))
    for item in sorted(drawn, key=lambda item: taken[item.name]):
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


def _under(assumed: list[Term], goal: Term) -> Term:
    return Term("=>", (conjunction(assumed), goal), bool)


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
