"""Concrete cases of a claim: from a solver's model to a state, and from a state to the claims that it breaks.

A counterexample counts only once the run reading has confirmed it.
"""

from __future__ import annotations

import itertools
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from poolproof.proofs.smtlib import argument_name, field_name
from poolproof.proofs.solver import Model
from poolproof.spec.language import IllDefined, Item, Map, Parameter, Refused, Set, Specification, State, fields_of
from poolproof.spec.language.sorts import is_enumeration
from poolproof.spec.language.state import Field, nested_sizes, zero_of


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
        elif f.given:
            continue
        elif f.family:
            _fill_family(state, f, model, symbol)
        elif f.kind == "map":
            table = getattr(state, f.name)
            values = {key: concrete(f.value, model.value(symbol, *_parts(key))) for key in table}
            setattr(state, f.name, Map(values))
        elif f.kind == "roster":
            _fill_roster(getattr(state, f.name), model, symbol, ())
        elif f.kind == "set":
            setattr(state, f.name, _members(state, f, model, symbol, ()))
        elif f.kind == "scalar":
            setattr(state, f.name, concrete(f.value, model.value(symbol)))


def _parts(key: Any) -> tuple[int, ...]:
    return key if isinstance(key, tuple) else (key,)


def _fill_family(state: State, f: Field, model: Model, symbol: str) -> None:
    family = getattr(state, f.name)
    for place in list(family):
        if f.kind == "roster":
            _fill_roster(family[place], model, symbol, _parts(place))
        else:
            family[place] = _members(state, f, model, symbol, _parts(place))


def _fill_roster(roster: Any, model: Model, symbol: str, place: tuple[int, ...]) -> None:
    size = model.value(symbol + ".size", *place) or 0
    members = [model.value(symbol + ".member", *place, index) or 0 for index in range(min(size, roster.limit))]
    roster.members = dict.fromkeys(m for m in members if 0 <= m < roster.limit)


def _members(state: State, f: Field, model: Model, symbol: str, place: tuple[int, ...]) -> Set[Any]:
    """The members of a set among the ids that a small instance has, and one beyond on either side."""
    ranges = [range(-1, len(state.all(sort)) + 1 if sort in state._domains else 4) for sort in f.keys]
    found = [key for key in itertools.product(*ranges) if model.value(symbol, *place, *key)]
    return Set(found if len(ranges) > 1 else (key for (key,) in found))


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


def refusing(spec: Specification[Any], item: Item, before: State, arguments: Sequence[Any]) -> tuple[str, int] | None:
    """The guard that refuses an action, by file and line; None where none does."""
    state = before.copy()
    with spec.active():
        try:
            item.function(state, *arguments)
        except Refused as refusal:
            *_, (frame, line), _ = traceback.walk_tb(refusal.__traceback__)
            return frame.f_code.co_filename, line
        except IllDefined:
            return None
    return None


def holds(spec: Specification[Any], claim: Any, *arguments: Any) -> bool:
    """Does a claim hold in the run reading? Reading outside a table counts as false."""
    with spec.active():
        try:
            return bool(claim.function(*arguments))
        except IllDefined:
            return False


def violated(spec: Specification[Any], state: State) -> list[str]:
    """The names of the invariants that a state breaks; one that reads outside a table is broken."""
    broken = [claim.name for claim in spec.invariants if not holds(spec, claim, state)]
    for name, inner in spec.components.items():
        broken += [f"{name}.{claim}" for claim in violated(inner, getattr(state, name))]
    return broken


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
