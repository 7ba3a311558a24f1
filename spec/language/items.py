"""The decorators that say what a spec function is, and the record kept of each."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar, get_type_hints

from poolproof.spec.language import tracing
from poolproof.spec.language.errors import SpecError
from poolproof.spec.language.sorts import unwrap
from poolproof.spec.language.source import check_source, halves
from poolproof.spec.language.state import State
from poolproof.spec.language.symbolic import SymbolicState
from poolproof.spec.language.terms import Term, lift

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Parameter:
    """One parameter after the state(s): name, sort, and whether it is the implementation's choice."""

    name: str
    sort: Any
    chosen: bool


class Item:
    """A registered spec function.

    `kind` is action, initial, definition, invariant, theorem, step or ensures. `tags` are invariant ids such as I2.
    """

    def __init__(self, kind: str, function: Callable[..., Any], tags: tuple[str, ...] = (), of: Any = None) -> None:
        self.kind = kind
        self.function = function
        self.tags = tags
        self.of = of
        self.name: str = function.__name__
        self.module: str = function.__module__
        self.doc: str = inspect.getdoc(function) or ""
        if not self.doc:
            raise SpecError(f"{self.module}.{self.name}: every spec function says in a docstring what it means")

    @cached_property
    def _halves(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        return halves(self.function, (_perform_guards, _perform_effects))

    @property
    def guards(self) -> Callable[..., Any]:
        """The action with its guards only."""
        return self._halves[0]

    @property
    def effects(self) -> Callable[..., Any]:
        """The action with its effects only."""
        return self._halves[1]

    @cached_property
    def states(self) -> int:
        """How many leading parameters are states (two for step theorems and ensures)."""
        return sum(isinstance(sort, type) and issubclass(sort, State) for sort in self._sorts.values())

    @cached_property
    def _sorts(self) -> dict[str, Any]:
        hints = get_type_hints(self.function, include_extras=True)
        names = list(inspect.signature(self.function).parameters)
        missing = [name for name in names if name not in hints]
        if missing:
            raise SpecError(f"{self.module}.{self.name}: parameter(s) {', '.join(missing)} need an annotation")
        return {name: unwrap(hints[name])[0] for name in names}

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters after the state(s)."""
        hints = get_type_hints(self.function, include_extras=True)
        return tuple(
            Parameter(name, sort, "chosen" in unwrap(hints[name])[1])
            for name, sort in self._sorts.items()
            if not (isinstance(sort, type) and issubclass(sort, State))
        )


_registry: dict[str, list[Item]] = {}


def registered(module: str) -> list[Item]:
    """All items of a module, in the order of their definition."""
    return _registry.get(module, [])


def item_of(function: Any) -> Item:
    """The record of a spec function.

    Raises:
        SpecError: it is none.
    """
    item = getattr(function, "__spec_item__", None)
    if not isinstance(item, Item):
        raise SpecError(f"{function!r} is not a registered spec function")
    return item


def _register(function: F, kind: str, tags: tuple[str, ...] = (), of: Any = None, listed: bool = True) -> F:
    node = check_source(function, effects_allowed=kind in ("action", "initial"))
    function.__spec_node__ = node  # type: ignore[attr-defined]
    item = Item(kind, function, tags, of)
    function.__spec_item__ = item  # type: ignore[attr-defined]
    if listed:
        _registry.setdefault(item.module, []).append(item)
    return function


def action(function: F) -> F:
    """A transition: guards (`require`), then effects, in a straight line."""
    return _register(function, "action")


def initial(function: F) -> F:
    """The effects that turn a blank state into the initial one."""
    return _register(function, "initial")


def assumption(function: F) -> F:
    """What an instance's sizes and given fields must satisfy; everything is proved under it."""
    return _register(function, "assumption")


def define(function: F) -> F:
    """A named piece of logic without effects."""
    return _register(function, "definition")


def _tags(name: str, tags: tuple[Any, ...]) -> tuple[str, ...]:
    """Tags as given; a decorator without its parentheses would otherwise register nothing.

    Raises:
        SpecError: one is no text.
    """
    for tag in tags:
        if not isinstance(tag, str):
            raise SpecError(f"@{name} takes names of theorems in parentheses, for example @{name}('I1'), or @{name}()")
    return tags


def invariant(*tags: str) -> Callable[[F], F]:
    """A claim about every reachable state, proved by induction over the actions."""
    tags = _tags("invariant", tags)
    return lambda function: _register(function, "invariant", tags)


def theorem(*tags: str) -> Callable[[F], F]:
    """A claim that follows from the invariants; parameters after the state stand for any value."""
    tags = _tags("theorem", tags)
    return lambda function: _register(function, "theorem", tags)


def step(*tags: str) -> Callable[[F], F]:
    """A claim about the states before and after any action."""
    tags = _tags("step", tags)
    return lambda function: _register(function, "step", tags)


def ensures(of: Callable[..., Any], *tags: str) -> Callable[[F], F]:
    """A claim about the states before and after one action; it takes the action's parameters too."""
    tags = _tags("ensures", tags)
    return lambda function: _register(function, "ensures", tags, of=item_of(of))


def perform(function: Callable[..., Any], state: Any, *arguments: Any) -> None:
    """Another component's action as part of this one: its guards strengthen these, its effects come first.

    A component that only changes in this way keeps its invariants.

    Raises:
        SpecError: it is no action, so nothing would happen.
    """
    item = item_of(function)
    if item.kind not in ("action", "initial"):
        raise SpecError(f"{item.name} is no action; only actions are performed")
    _perform(item, item.function, state, arguments)


def _perform_guards(function: Callable[..., Any], state: Any, *arguments: Any) -> None:
    item = item_of(function)
    _perform(item, item.guards, state, arguments)


def _perform_effects(function: Callable[..., Any], state: Any, *arguments: Any) -> None:
    item = item_of(function)
    _perform(item, item.effects, state, arguments)


def _perform(item: Item, body: Callable[..., Any], state: Any, arguments: tuple[Any, ...]) -> None:
    if not isinstance(state, SymbolicState):
        body(state, *arguments)
        return
    with tracing.current().performing(item, state._prefix):
        body(state, *lifted(item, arguments))


def lifted(item: Item, arguments: tuple[Any, ...]) -> list[Term]:
    """The arguments of an action as terms of its parameters' sorts.

    Raises:
        SpecError: there are too many or too few.
    """
    if len(arguments) != len(item.parameters):
        wanted = ", ".join(p.name for p in item.parameters) or "none"
        raise SpecError(f"{item.name} takes the arguments {wanted}, not {len(arguments)}")
    return [lift(value, p.sort) for p, value in zip(item.parameters, arguments, strict=True)]


def variant(of: Callable[..., Any]) -> Callable[[F], F]:
    """Another body for an action, for example a planted fault; it counts only in a spec made with it."""
    return lambda function: _register(function, "action", of=item_of(of), listed=False)
