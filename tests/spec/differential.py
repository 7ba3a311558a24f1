"""The run reading against the lowered reading, on random states and random arguments, from a seed."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Any

from poolproof.proofs.concrete import run
from poolproof.proofs.lowered import lowered_claim, lowered_step, observed
from poolproof.spec.language import Field, IllDefined, Map, Refused, Set, State, fields_of
from poolproof.spec.language.sorts import is_enumeration, is_id


class Chance:
    """Random states and arguments; what was drawn can be drawn again from the seed."""

    def __init__(self, spec: Any, seed: int, unsized: Sequence[int] = (-1, 0, 1, 2)) -> None:
        self.spec = spec
        self.seed = seed
        self.unsized = unsized
        self.draw = random.Random(seed)

    def state(self, sizes: dict[str, Any]) -> State:
        """Any state of these sizes and given fields, consistent or not."""
        state: State = self.spec.state.blank(**sizes)
        self._fill(state)
        return state

    def _fill(self, state: State) -> None:
        for f in (f for f in fields_of(type(state)) if not f.given):
            value = getattr(state, f.name)
            if f.kind == "component":
                self._fill(value)
            elif f.kind == "map":
                setattr(state, f.name, Map({key: self.value(state, f.value) for key in value}))
            elif f.kind == "roster":
                for roster in value.values() if f.family else [value]:
                    roster.members = dict.fromkeys(self._members(state, f))
            elif f.kind == "set" and f.family:
                for place in value:
                    value[place] = self._set(state, f)
            elif f.kind == "set":
                setattr(state, f.name, self._set(state, f))
            elif f.kind == "scalar":
                setattr(state, f.name, self.value(state, f.value))

    def _members(self, state: State, f: Field) -> list[int]:
        """Some ids in any order."""
        members = [key for key in state.all(f.key) if self.draw.random() < 0.5]
        self.draw.shuffle(members)
        return members

    def _set(self, state: State, f: Field) -> Set[Any]:
        """Any members, of a set of tuples some that are outside in one part only."""
        values = [tuple(self.value(state, sort) for sort in f.keys) for _ in range(self.draw.randrange(4))]
        return Set(values if len(f.keys) > 1 else itertools.chain(*values))

    def value(self, state: State, sort: Any) -> Any:
        """Any value of a sort; of ids also those just outside the pool."""
        if sort is bool:
            return self.draw.random() < 0.5
        if is_enumeration(sort):
            return self.draw.choice(list(sort))
        if is_id(sort):
            domain = self.domain(state, sort)
            return self.draw.choice(self.unsized) if domain is None else self.draw.randrange(-1, domain + 1)
        return self.draw.randrange(-3, 6)

    def domain(self, state: State, sort: Any) -> int | None:
        """How many ids of a kind there are, where there are most of them."""
        parts = (getattr(state, f.name) for f in fields_of(type(state)) if f.kind == "component")
        sizes = [size for size in (self.domain(part, sort) for part in parts) if size is not None]
        return max([*sizes, len(state.all(sort))] if sort in state._domains else sizes, default=None)

    def arguments(self, state: State, parameters: Sequence[Any]) -> tuple[Any, ...]:
        """Any arguments, good or bad."""
        return tuple(self.value(state, p.sort) for p in parameters)

    def arguments_inside(self, state: State, parameters: Sequence[Any]) -> tuple[Any, ...]:
        """Any arguments whose ids exist."""
        domains = [self.domain(state, p.sort) if is_id(p.sort) else None for p in parameters]
        pairs = zip(parameters, domains, strict=True)
        return tuple(self.draw.randrange(size) if size else self.value(state, p.sort) for p, size in pairs)

    def allowed(self, item: Any, state: State, tries: int = 60) -> tuple[Any, ...] | None:
        """Arguments that the guards let pass, or None where some tries found none."""
        for _ in range(tries):
            arguments = self.arguments(state, item.parameters)
            try:
                item.guards(state, *arguments)
            except (Refused, IllDefined):
                continue
            return arguments
        return None

    def after(self, item: Any, state: State) -> tuple[State, tuple[Any, ...]]:
        """A state after one random step that was allowed, with its arguments; the same state where none was found."""
        arguments = self.allowed(item, state)
        if arguments is not None:
            after = run(self.spec, item, state, arguments).after
            if after is not None:
                return after, arguments
        return state, arguments or self.arguments(state, item.parameters)


def compare_step(spec: Any, item: Any, state: State, arguments: tuple[Any, ...], where: str) -> str:
    """Both readings of one step agree; gives what happened: refused, ill defined or done."""
    before = observed(state)
    ran = run(spec, item, state, arguments)
    assert observed(state) == before, f"{where}: running on a copy changed the state"
    said = lowered_step(spec, item, state, arguments)
    shown = f"{where}: {item.name}{arguments} on {state.plain()}"
    if ran.ill_defined:
        assert not said.well_defined, f"{shown}: run says ill defined ({ran.ill_defined}), lowered does not"
        return "ill defined"
    assert said.well_defined, f"{shown}: lowered says ill defined, run does not"
    if ran.refused:
        assert not said.allowed, f"{shown}: run refuses, lowered allows"
        return "refused"
    assert said.allowed, f"{shown}: run allows, lowered refuses"
    assert ran.after is not None
    expected = observed(ran.after)
    different = {name: (expected[name], said.after[name]) for name in expected if expected[name] != said.after[name]}
    assert not different, f"{shown}: run and lowered differ in {different}"
    return "done"


def compare_claim(
    spec: Any, claim: Any, states: Sequence[State], arguments: tuple[Any, ...], where: str, quantified: bool = False
) -> str:
    """Both readings of one claim agree; gives its value, or "ill defined".

    A quantifier of the run reading stops at the element that decides it, so where the lowered reading asks for more
    than the run reading needed, only the run reading has a value ("decided early").
    """
    shown = f"{where}: {claim.name}{arguments} on {[state.plain() for state in states]}"
    try:
        with spec.active():
            ran: Any = claim.function(*states, *arguments)
    except IllDefined:
        ran = None
    try:
        said: Any = lowered_claim(spec, claim, states, arguments, quantified)
    except IllDefined:
        return "decided early" if ran is not None else "ill defined"
    assert said is ran, f"{shown}: run says {ran}, lowered says {said}"
    return str(ran)
