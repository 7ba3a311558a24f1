"""Controls: a proof that nothing can break shows nothing.

Every mutant of an action must be refuted by some claim about that action, or be declared redundant with a reason;
every claim must be broken by some mutant, or be in the action's FRAME (no field in common), or be declared IMPLIED
with a reason. A mutant counts as refuted only by a concrete step that the run reading confirms.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any

from poolproof.proofs.concrete import arguments_of, broken_by, holds, run, state_of, violated
from poolproof.proofs.explore import Explorer, argument_tuples, claim_name, show_call
from poolproof.proofs.mutate import Mutant, shifted
from poolproof.proofs.obligations import Generator
from poolproof.proofs.smtlib import Printer, script
from poolproof.proofs.solver import LONG_LIMIT, Answer, solve_each
from poolproof.spec.language import IllDefined, Item, Specification
from poolproof.spec.language.source import parse
from poolproof.spec.language.terms import Term, conjunction

SAMPLES = 300


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
        self._samples: list[Any] = []

    def script_for(self, item: Item, function: Any) -> tuple[Specification[Any], list[str], str]:
        """The changed spec, the claims about the changed action, and the bounded script with a switch for each.

        Guards are assumed for every claim but well-definedness, which speaks of the guards' own reads too; the others
        assume well-definedness.
        """
        changed = self.spec.with_body(item, function)
        generator = self.generator.with_spec(changed)
        wd, *rest = generator.of_action(changed.action(item.name))
        rest = [o for o in rest if not o.frame]
        assumed = [*rest[0].hypotheses[len(generator.known) :], wd.goal] if rest else []
        goals = {wd.about: wd.goal} | {o.about: _under(assumed, o.goal) for o in rest}
        return changed, list(goals), script(self.printer.fork(), generator.known, goals)

    def kill(self, item: Item, mutant: Mutant, thorough: bool = False) -> Kill:
        """Every claim about the action that the mutant breaks at these sizes.

        Claims about states are tried while no other mutant has broken them, or until this one has broken something;
        `thorough` tries them all.
        """
        kill = Kill(mutant.label, item.name, mutant.line)
        changed, names, text = self.script_for(item, mutant.function)
        answers = solve_each(text, names, LONG_LIMIT)
        twin = changed.action(item.name)
        for name in names:
            answer = answers[name]
            if answer.model is not None and name not in kill.broken:
                self._confirm(kill, changed, twin, answer)
        for state in () if kill.broken and not thorough else self.samples():
            self._try_theorems(kill, changed, twin, state, thorough)
        return kill

    def kill_initial(self, mutant: Mutant) -> Kill:
        """Every claim about the initial state that a mutant of the initializer breaks, whatever was there before."""
        kill = Kill(mutant.label, "init", mutant.line)
        changed = self.spec.with_body(self.spec.initializer, mutant.function)
        generator = self.generator.with_spec(changed)
        goals = {o.about: o.goal for o in generator.of_initial()}
        real = [term for _, term in generator.rosters]
        text = script(Printer(self.sizes), [*generator.least, *real], goals)
        for answer in solve_each(text, list(goals), LONG_LIMIT).values():
            if answer.model is not None:
                before = state_of(changed, self.sizes, answer.model)
                outcome = run(changed, changed.initializer, before, ())
                for name in broken_by(changed, changed.initializer, before, (), outcome):
                    kill.broken.setdefault(name, f"{changed.initializer.name}()")
        return kill

    def samples(self) -> list[Any]:
        """Reachable states of a smaller instance, for the claims that no single step breaks."""
        if not self._samples:
            given = any(not isinstance(size, int) for size in self.sizes.values())
            smaller = self.sizes if given else {name: max(2, size - 1) for name, size in self.sizes.items()}
            explorer = Explorer(self.spec, smaller, SAMPLES)
            explorer.run(check=False)
            self._samples = explorer.seen
        return self._samples

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
                self._try_theorems(kill, changed, twin, state)

    def _try_theorems(
        self, kill: Kill, changed: Specification[Any], twin: Item, state: Any, thorough: bool = False
    ) -> None:
        """Claims about states: those not yet broken by any mutant, or all while this mutant has broken none."""
        for claim in _state_claims(changed):
            name = claim_name(claim)
            if name in kill.broken or (kill.broken and not thorough and name not in self.missing):
                continue
            if not _concerns(changed, claim, twin):
                continue
            for arguments in argument_tuples(changed, state, claim.parameters):
                if not holds(changed, claim, state, *arguments):
                    kill.broken[name] = show_call(claim.name, claim.parameters, arguments)
                    self.missing.discard(name)
                    break


def _concerns(spec: Specification[Any], claim: Any, action: Item) -> bool:
    """Does a claim about states speak of this action, or of no action at all?"""
    if claim.kind == "batch":
        return bool(claim.batch.item.name == action.name)
    called = {node.id for node in ast.walk(parse(claim.function)) if isinstance(node, ast.Name)}
    return action.name in called or called.isdisjoint(item.name for item in spec.actions)


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
