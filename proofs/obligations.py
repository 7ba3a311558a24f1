"""The obligations of a specification, generated from what its module registered; none is listed by hand.

For every spec: the initial state is well defined and establishes every invariant; every invariant is well defined;
every action is well defined, and preserves every invariant; every step claim holds of every action and every
`ensures` of its own; every theorem, and the three facts of every batch, follow from the invariants.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from poolproof.proofs.smtlib import Printer, script, with_witnesses
from poolproof.spec.language import Item, Specification
from poolproof.spec.language.errors import SpecError
from poolproof.spec.language.specification import variables
from poolproof.spec.language.state import names_of
from poolproof.spec.language.symbolic import SymbolicFamily, SymbolicRoster, SymbolicState
from poolproof.spec.language.terms import FALSE, TRUE, Term, children, conjunction, fields_read
from poolproof.spec.language.tracing import Trace, Write, tracing


@dataclass(frozen=True)
class Obligation:
    """One claim to prove.

    Attributes:
        claim: full name, for example "slots/alloc/preserves/slots_are_conserved".
        module: the specification's name.
        kind: init, invariant-wd, well-defined, preserves, step, ensures, theorem or batch.
        about: the name of the claim within its kind (the invariant's, step's, ... name).
        tags: the fault-catalogue invariants that it belongs to.
        action: the action's name, or "" where none is involved.
        hypotheses, goal: terms over an arbitrary state; `goal` may be a `counts` claim, then `delta` replaces it in
            the symbolic form.
        frame: the action writes no field that the claim reads.
        demand: the step is well defined; assumed where counterexamples to other claims are looked for.
        doc: one line for people.
    """

    claim: str
    module: str
    kind: str
    about: str
    tags: tuple[str, ...]
    action: str
    hypotheses: tuple[Term, ...]
    goal: Term
    delta: Term | None = None
    frame: bool = False
    demand: Term = TRUE
    doc: str = ""

    @cached_property
    def text(self) -> str:
        """The SMT-LIB script of the symbolic form; `unsat` proves the claim for all sizes."""
        goal = self.goal if self.delta is None else self.delta
        facts = [symbolic_fact(term) for term in self.hypotheses]
        return script(Printer(), facts, {self.claim: with_witnesses(goal)})

    def part_texts(self) -> list[str]:
        """The scripts of the parts of a goal that is a conjunction; the claim is proved when all are."""
        goal = self.goal if self.delta is None else self.delta
        facts = [symbolic_fact(term) for term in self.hypotheses]
        return [script(Printer(), facts, {self.claim: with_witnesses(part)}) for part in _parts(goal)]

    def bounded_text(self, sizes: dict[str, int]) -> str:
        """The SMT-LIB script at these sizes; `sat` is a candidate counterexample."""
        return script(Printer(sizes), [*self.hypotheses, self.demand], {self.claim: self.goal})


def _parts(goal: Term) -> list[Term]:
    """The conjuncts of a goal, those under `forall` and behind a premise included."""
    if goal.op == "and":
        return [part for arg in goal.args for part in _parts(arg)]
    if goal.op == "forall":
        return [Term("forall", (*goal.args[:3], part), bool) for part in _parts(goal.args[3])]
    if goal.op == "=>":
        return [Term("=>", (goal.args[0], part), bool) for part in _parts(goal.args[1])]
    return [goal]


def symbolic_fact(term: Term) -> Term:
    """A hypothesis in first-order form: of a count only what follows for any cardinality."""
    if not is_count(term):
        return term
    if term.op == "forall":
        return Term("forall", (*term.args[:3], symbolic_fact(term.args[3])), bool)
    counter, variable, low, high, body = term.args
    zero, width = Term("lit", (0,), int), Term("-", (high, low), int)
    some = Term("forall", (variable, low, high, Term("=>", (body, Term("<", (zero, counter), bool)), bool)), bool)
    all_at_most = Term("=>", (Term("<=", (low, high), bool), Term("<=", (counter, width), bool)), bool)
    none = Term("or", (Term("<=", (low, high), bool), Term("=", (counter, zero), bool)), bool)
    return conjunction([Term("<=", (zero, counter), bool), all_at_most, none, some])


def is_count(term: Term) -> bool:
    """Is this a `counts` claim, or one for every element of some domains?"""
    while term.op == "forall":
        term = term.args[3]
    return term.op == "counts"


def reject_nested_counts(term: Term, name: str) -> None:
    """`counts` may only be the whole of an invariant, inside `forall` at most.

    Raises:
        SpecError: it stands inside.
    """
    while is_count(term) and term.op == "forall":
        term = term.args[3]
    stack = list(children(term))
    while stack:
        node = stack.pop()
        if node.op == "counts":
            raise SpecError(f"{name}: counts(...) must be the whole body of an invariant, inside forall at most")
        stack.extend(children(node))


def _least_of(spec: Specification[Any]) -> dict[str, int]:
    """The least sizes of a specification and of those that its components follow, by full names."""
    inner = {f"{name}.{size}": n for name, one in spec.components.items() for size, n in _least_of(one).items()}
    return {name: max(n, inner.get(name, 0)) for name, n in {**inner, **spec.at_least}.items()}


@dataclass
class Reading:
    """One action read symbolically on an arbitrary state that satisfies the invariants."""

    item: Item
    pre: SymbolicState
    post: SymbolicState
    trace: Trace
    arguments: list[Term] = field(default_factory=list)


class Generator:
    """Generates the obligations of one specification."""

    def __init__(self, spec: Specification[Any]) -> None:
        self.spec = spec
        self.pre = SymbolicState.base(spec.state)
        self._read_invariants()

    def with_spec(self, spec: Specification[Any]) -> Generator:
        """The same arbitrary state and invariants, for a spec that differs in an action's body only."""
        twin = copy.copy(self)
        twin.spec = spec
        return twin

    def _read_invariants(self) -> None:
        spec = self.spec
        self.least = self._least_sizes()
        self.invariants = [(item, *self._claim(item, self.pre)) for item in spec.invariants]
        for item, claim, _ in self.invariants:
            reject_nested_counts(claim, item.name)
        rosters = [(name, self._bijection(self.pre, name)) for name in names_of(spec.state, "roster")]
        inherited = tuple(f"{name}." for name in spec.components)
        self.rosters = [(name, term) for name, term in rosters if not name.startswith(inherited or ("/",))]
        known = self._of_all_components(lambda one: one.invariants if one is not spec else [])
        self.inherited = [*(term for name, term in rosters if (name, term) not in self.rosters), *(c for c, _ in known)]
        own = [*(term for _, term in self.rosters), *(claim for _, claim, _ in self.invariants)]
        self.known = [*self.least, *self.inherited, *own]

    def _least_sizes(self) -> list[Term]:
        least = _least_of(self.spec)
        facts = []
        for name in names_of(self.spec.state, "size"):
            low = Term("lit", (least.get(name, 0),), int)
            facts.append(Term("<=", (low, Term("field", (name,), int)), bool))
        return facts + [claim for claim, _ in self._of_all_components(lambda spec: spec.assumptions)]

    def _of_all_components(self, items: Callable[[Specification[Any]], list[Item]]) -> list[tuple[Term, Term]]:
        """Claims about one state, of this specification and of those that its components follow."""
        found = [self._claim(item, self.pre) for item in items(self.spec)]
        for name, spec in self.spec.components.items():
            inner = Generator.__new__(Generator)
            inner.spec, inner.pre = spec, getattr(self.pre, name)
            found += inner._of_all_components(items)
        return found

    def _claim(self, item: Any, state: SymbolicState, arguments: Sequence[Term] = (), *more: Any) -> tuple[Term, Term]:
        """A claim's term and the condition under which it is well defined."""
        trace, value = self.spec.trace(item, state, list(arguments), *more)
        return value, conjunction(trace.demands)

    def _bijection(self, state: SymbolicState, name: str) -> Term:
        *path, last = name.split(".")
        for part in path:
            state = getattr(state, part)
        roster = getattr(state, last)
        with tracing(Trace()):
            if isinstance(roster, SymbolicRoster):
                return roster.is_bijection()
            assert isinstance(roster, SymbolicFamily)
            return roster.are_bijections()

    def read(self, item: Item) -> Reading:
        """Read one action (or the initializer) symbolically."""
        post, arguments = self.pre.snapshot(), variables(item.parameters)
        trace, _ = self.spec.trace(item, post, list(arguments))
        return Reading(item, self.pre, post, trace, arguments)

    def _make(
        self, path: str, kind: str, about: Any, hypotheses: Iterable[Term], goal: Term, **more: Any
    ) -> Obligation:
        name = getattr(about, "name", about)
        return Obligation(
            claim=f"{self.spec.name}/{path}",
            module=self.spec.name,
            kind=kind,
            about=name,
            tags=getattr(about, "tags", ()),
            hypotheses=tuple(hypotheses),
            goal=goal,
            doc=getattr(about, "doc", ""),
            **{"action": "", **more},
        )

    def _read(self, term: Term) -> set[str]:
        """The fields that a term reads; a roster for any of its parts."""
        rosters = set(names_of(self.spec.state, "roster"))
        return {owner if (owner := name.rpartition(".")[0]) in rosters else name for name in fields_read(term)}

    # ------------------------------------------------------------------------------------------------------ parts

    def all(self) -> list[Obligation]:
        """Every obligation of the specification; an action that reads no table has no well-definedness to show."""
        made = [*self.of_invariants(), *self.of_initial()]
        for item in self.spec.actions:
            made += self.of_action(item)
        made = [o for o in made + self.of_theorems() if o.about != "is_well_defined" or o.goal is not TRUE]
        claims = [o.claim for o in made]
        if len(set(claims)) < len(claims):
            twice = sorted({claim for claim in claims if claims.count(claim) > 1})
            raise SpecError(f"two obligations have one name: {', '.join(twice)}")
        return made

    def of_invariants(self) -> list[Obligation]:
        """Every invariant reads its tables inside their domains, whatever the state."""
        return [
            self._make(f"invariant/{item.name}/is_well_defined", "invariant-wd", item, self.least, demand)
            for item, _, demand in self.invariants
            if demand is not TRUE
        ]

    def of_initial(self) -> list[Obligation]:
        """The initial state is well defined and establishes every invariant."""
        reading = self.read(self.spec.initializer)
        demand = conjunction(reading.trace.demands)
        made = [self._make("init/is_well_defined", "init", "is_well_defined", self.least, demand)]
        for name, _ in self.rosters:
            goal = self._bijection(reading.post, name)
            made.append(
                self._make(f"init/establishes/{_bijection_name(name)}", "init", _bijection_name(name), self.least, goal)
            )
        real = conjunction([term for _, term in self.rosters])  # what was there before can at least be run
        for item, _, _ in self.invariants:
            goal, _ = self._claim(item, reading.post)
            more = {"delta": none_or_all(goal) if is_count(goal) else None, "demand": real}
            made.append(self._make(f"init/establishes/{item.name}", "init", item, self.least, goal, **more))
        for claim in self.spec.ensures(self.spec.initializer):
            goal, condition = self._claim(claim, reading.pre, (), reading.post)
            both = conjunction([condition, goal])
            made.append(self._make(f"init/ensures/{claim.name}", "init", claim, self.least, both, demand=real))
        return made

    def of_action(self, item: Item, reading: Reading | None = None) -> list[Obligation]:
        """One action: well-definedness, every invariant, every step claim, its own ensures."""
        reading = reading or self.read(item)
        known = [*self.known, *reading.trace.guards]
        written = {write.field for write in reading.trace.writes}
        demand = conjunction(reading.trace.demands)
        path = f"{item.name}/is_well_defined"
        made = [self._make(path, "well-defined", "is_well_defined", self.known, demand, action=item.name)]
        for name, _ in self.rosters:
            about = _bijection_name(name)
            goal = self._bijection(reading.post, name)
            more = {"action": item.name, "frame": name not in written, "demand": demand}
            made.append(self._make(f"{item.name}/preserves/{about}", "preserves", about, known, goal, **more))
        for invariant, before, _ in self.invariants:
            made.append(self._preserves(reading, known, written, invariant, before))
        for claim in [*self.spec.steps, *self.spec.ensures(item)]:
            arguments = reading.arguments if claim.kind == "ensures" else ()
            goal, condition = self._claim(claim, reading.pre, arguments, reading.post)
            path = f"{item.name}/{claim.kind}/{claim.name}"
            both = conjunction([condition, goal])
            read = self._read(both)
            more = {"action": item.name, "frame": claim.kind == "step" and not read & written, "demand": demand}
            made.append(self._make(path, claim.kind, claim, known, both, **more))
        return made

    def _preserves(
        self, reading: Reading, known: list[Term], written: set[str], invariant: Item, before: Term
    ) -> Obligation:
        goal, _ = self._claim(invariant, reading.post)
        delta = count_delta(before, goal, reading.trace.writes) if is_count(goal) else None
        read = self._read(before)
        return self._make(
            f"{reading.item.name}/preserves/{invariant.name}",
            "preserves",
            invariant,
            known,
            goal,
            delta=delta,
            action=reading.item.name,
            demand=conjunction(reading.trace.demands),
            frame=not read & written,
        )

    def of_theorems(self) -> list[Obligation]:
        """Every theorem and every batch fact follows from the invariants, and is well defined."""
        made = []
        named: list[tuple[str, Any]] = [(f"theorem/{t.name}", t) for t in self.spec.theorems]
        named += [(f"{b.name}/{fact.name}", fact) for b in self.spec.batches for fact in b.facts()]
        for path, item in named:
            made.append(self._make(path, item.kind, item, self.known, self.of_claim(item)))
        return made

    def of_claim(self, claim: Any) -> Term:
        """What a claim about one state says, and that it is well defined there."""
        goal, demand = self._claim(claim, self.pre, variables(claim.parameters))
        return conjunction([demand, goal])


def _bijection_name(name: str) -> str:
    return f"{name}_is_a_bijection"


def _at(body: Term, variable: Term, key: Term) -> Term:
    """1 where the body holds at `key`, 0 where it does not."""
    return Term("ite", (Term("at", (body, variable, key), bool), Term("lit", (1,), int), Term("lit", (0,), int)), int)


def none_or_all(goal: Term) -> Term:
    """The count is 0 and nothing satisfies the body, or it is everything and everything does."""
    if goal.op == "forall":
        return Term("forall", (*goal.args[:3], none_or_all(goal.args[3])), bool)
    counter, variable, low, high, body = goal.args
    none = conjunction(
        [
            Term("=", (counter, Term("lit", (0,), int)), bool),
            Term("forall", (variable, low, high, Term("not", (body,), bool)), bool),
        ]
    )
    every = conjunction(
        [
            Term("<=", (low, high), bool),
            Term("=", (counter, Term("-", (high, low), int)), bool),
            Term("forall", (variable, low, high, body), bool),
        ]
    )
    return Term("or", (none, every), bool)


def count_delta(before: Term, after: Term, writes: Sequence[Write]) -> Term:
    """How a counting invariant is proved: the counter moves by the sum of what the written entries change.

    Sound by finite cardinality: entries that were not written are shown to keep their truth value; each distinct
    written entry contributes the change of its own. A step that empties or fills the whole set is the other way out.
    """
    if before.op == "forall":
        each = Trace().fresh(before.args[0].sort)
        inner = count_delta(_for(before, each), _for(after, each), writes)
        known = _inside(each, *before.args[1:3])  # of an element that was not in range there was no count
        return Term("forall", (each, *after.args[1:3], conjunction([known, inner])), bool)
    counter0, variable0, low0, high0, body0 = before.args
    counter1, variable1, low1, high1, body1 = after.args
    tables = fields_read(body0) | fields_read(body1)
    written = [w.key for w in writes if w.field in tables and w.is_table and w.key is not None]
    keys = [part for key in written for part in key if part.sort is variable0.sort]
    change: Term = Term("lit", (0,), int)
    for index, key in enumerate(keys):
        seen = [Term("=", (key, earlier), bool) for earlier in keys[:index]]
        moved = Term("-", (_at(body1, variable1, key), _at(body0, variable0, key)), int)
        first = Term("not", (Term("or", (*seen, FALSE), bool),), bool)
        change = change + Term("ite", (first, moved, Term("lit", (0,), int)), int)
    fresh = Trace().fresh(variable0.sort)
    same = Term("=", (Term("at", (body0, variable0, fresh), bool), Term("at", (body1, variable1, fresh), bool)), bool)
    other = Term("or", (*(Term("=", (fresh, key), bool) for key in keys), same), bool)
    by_delta = conjunction(
        [
            Term("=", (counter1, counter0 + change), bool),
            Term("forall", (fresh, low1, high1, other), bool),
            Term("=", (low0, low1), bool),
            Term("=", (high0, high1), bool),
            *(_inside(key, low1, high1) for key in keys),
        ]
    )
    return Term("or", (by_delta, none_or_all(after)), bool)


def _for(claim: Term, each: Term) -> Term:
    """The count that a `forall` claims for one element."""
    variable, inner = claim.args[0], claim.args[3]

    def put(term: Term) -> Term:
        return Term("at", (term, variable, each), term.sort)

    if inner.op == "forall":
        bound, low, high, body = inner.args
        rest = _for(Term("forall", (variable, low, high, body), bool), each)
        return Term("forall", (bound, put(low), put(high), rest), bool)
    counter, counted, low, high, body = inner.args
    return Term("counts", (put(counter), counted, put(low), put(high), put(body)), bool)


def _inside(key: Term, low: Term, high: Term) -> Term:
    return conjunction([Term("<=", (low, key), bool), Term("<", (key, high), bool)])
