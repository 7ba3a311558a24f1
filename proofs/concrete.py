"""Concrete cases of a claim: from a solver's model to a state, and from a state to the claims that it breaks.

A counterexample counts only once the run reading has confirmed it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from poolproof.proofs.smtlib import argument_name, field_name
from poolproof.proofs.solver import Model
from poolproof.spec.language import IllDefined, Item, Map, Parameter, Refused, Set, Specification, State, fields_of
from poolproof.spec.language.sorts import is_enumeration
from poolproof.spec.language.state import nested_sizes, zero_of


def state_of(spec: Specification[Any], sizes: dict[str, int], model: Model) -> State:
    """The state that a model describes at these sizes."""
    state: State = spec.state.blank(**nested_sizes(sizes))
    _fill(state, model, "")
    return state


def _fill(state: State, model: Model, prefix: str) -> None:
    for f in fields_of(type(state)):
        name = prefix + f.name
        symbol = field_name(name)
        if f.kind == "component":
            _fill(getattr(state, f.name), model, f"{name}.")
        elif f.kind == "map":
            table = getattr(state, f.name)
            setattr(state, f.name, Map({key: concrete(f.value, model.value(symbol, key)) for key in table}))
        elif f.kind == "roster":
            roster = getattr(state, f.name)
            size = model.value(symbol + ".size") or 0
            members = [model.value(symbol + ".member", index) or 0 for index in range(min(size, roster.limit))]
            roster.members = dict.fromkeys(m for m in members if 0 <= m < roster.limit)
        elif f.kind == "set":
            top = len(state.all(f.key)) + 1 if f.key in state._domains else 4
            setattr(state, f.name, Set(key for key in range(-1, top) if model.value(symbol, key)))
        elif f.kind == "scalar":
            setattr(state, f.name, concrete(f.value, model.value(symbol)))


def concrete(sort: Any, value: Any) -> Any:
    """A model's value as the run reading holds it; what the model leaves open is the sort's zero."""
    if value is None:
        return zero_of(sort)
    if is_enumeration(sort):
        return sort[str(value).rpartition(".")[2]]
    return value


def arguments_of(parameters: Sequence[Parameter], model: Model) -> dict[str, Any]:
    """The arguments that a model chose."""
    return {p.name: concrete(p.sort, model.value(argument_name(p.name))) for p in parameters}


@dataclass(frozen=True)
class Outcome:
    """What happened when an action was run: refused, ill defined, or the state after it."""

    after: State | None
    refused: bool = False
    ill_defined: str = ""


def run(spec: Specification[Any], item: Item, before: State, arguments: Sequence[Any]) -> Outcome:
    """Run one action on a copy of a state."""
    state = before.copy()
    with spec.active():
        try:
            item.function(state, *arguments)
        except Refused:
            return Outcome(None, refused=True)
        except IllDefined as problem:
            return Outcome(None, ill_defined=str(problem))
    return Outcome(state)


def holds(spec: Specification[Any], claim: Any, *arguments: Any) -> bool:
    """Does a claim hold in the run reading? Reading outside a table counts as false."""
    with spec.active():
        try:
            return bool(claim.function(*arguments))
        except IllDefined:
            return False


def violated(spec: Specification[Any], state: State) -> list[str]:
    """The names of the invariants that a state breaks; one that reads outside a table is broken."""
    return [claim.name for claim in spec.invariants if not holds(spec, claim, state)]


def broken_by(
    spec: Specification[Any], item: Item, before: State, arguments: Sequence[Any], outcome: Outcome
) -> list[str]:
    """The claims about this action that one concrete step breaks, by the `about` of their obligations."""
    if outcome.refused:
        return []
    if outcome.after is None:
        return ["is_well_defined"]
    after = outcome.after
    broken = violated(spec, after)
    if item is not spec.initializer:
        broken += [claim.name for claim in spec.steps if not holds(spec, claim, before, after)]
    broken += [claim.name for claim in spec.ensures(item) if not holds(spec, claim, before, after, *arguments)]
    return broken
