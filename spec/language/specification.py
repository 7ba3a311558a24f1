"""A specification: one state class and everything that its module registered about it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from poolproof.spec.language import readings, tracing
from poolproof.spec.language.batches import Batch, batches_of
from poolproof.spec.language.errors import NotBoolean, Refused, SpecError
from poolproof.spec.language.items import Item, Parameter, item_of, registered
from poolproof.spec.language.state import State, fields_of, is_scalar, names_of, nested_sizes
from poolproof.spec.language.symbolic import SymbolicState, boolean
from poolproof.spec.language.terms import Term, fields_read, name_of

S = TypeVar("S", bound=State)

RESERVED = ("init", "invariant", "theorem", "explore")
"""Second parts of claims that are not about an action."""


@dataclass(frozen=True)
class Specification(Generic[S]):
    """What may happen to a state.

    Attributes:
        name: short name, the first part of every claim.
        state: the state class.
        at_least: for each size ("total", or "slots.total" in a component) the least value that is meant; proofs
            assume no more than this of sizes.
        samples: for each unbounded id sort the values that small instances try.
        components: for each component of the state the specification that it follows. Its actions may `perform` that
            specification's actions and change the component in no other way, so its invariants hold here too.
        module: the module whose registered items are read; the caller's by default.
    """

    name: str
    state: type[S]
    at_least: dict[str, int]
    samples: dict[Any, tuple[Any, ...]] = field(default_factory=dict)
    components: dict[str, Specification[Any]] = field(default_factory=dict)
    module: str = ""
    replaced: dict[Item, Item] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.module:
            frame = inspect.currentframe()
            while frame is not None and frame.f_globals["__name__"] in (__name__, "dataclasses"):
                frame = frame.f_back
            object.__setattr__(self, "module", frame.f_globals["__name__"] if frame else "")
        if len(self._of_kind("initial")) != 1:
            raise SpecError(f"{self.module} needs exactly one @initial function")
        if not self.replaced:
            self._check_declarations()
            self._check_by_tracing()

    # ------------------------------------------------------------------------------------------------------ items

    def _of_kind(self, kind: str) -> list[Item]:
        return [self.replaced.get(item, item) for item in registered(self.module) if item.kind == kind]

    @property
    def actions(self) -> list[Item]:
        """All actions."""
        return self._of_kind("action")

    @property
    def initializer(self) -> Item:
        """The function that makes the initial state."""
        return self._of_kind("initial")[0]

    @property
    def definitions(self) -> list[Item]:
        """All named pieces of logic."""
        return self._of_kind("definition")

    @property
    def invariants(self) -> list[Item]:
        """All invariants."""
        return self._of_kind("invariant")

    @property
    def assumptions(self) -> list[Item]:
        """What is assumed of sizes and given fields."""
        return self._of_kind("assumption")

    @property
    def theorems(self) -> list[Item]:
        """All claims that follow from the invariants."""
        return self._of_kind("theorem")

    @property
    def steps(self) -> list[Item]:
        """All claims about any one step."""
        return self._of_kind("step")

    def ensures(self, of: Item) -> list[Item]:
        """The claims about steps of one action."""
        return [item for item in self._of_kind("ensures") if item.of.name == of.name]

    @property
    def batches(self) -> list[Batch]:
        """All batches."""
        return list(batches_of(self.module))

    def action(self, name: str) -> Item:
        """The action of this name.

        Raises:
            SpecError: there is none.
        """
        for item in self.actions:
            if item.name == name:
                return item
        raise SpecError(f"{self.name} has no action {name!r}; it has {', '.join(a.name for a in self.actions)}")

    def with_body(self, action: Item, function: Callable[..., Any]) -> Specification[S]:
        """This specification with another body for one action: a mutant or a planted fault.

        Parameters are matched by position and must have the action's sorts.
        """
        body = getattr(function, "__spec_item__", None) or Item("action", function)
        if [p.sort for p in body.parameters] != [p.sort for p in action.parameters]:
            raise SpecError(f"{body.name}: its parameters must have the sorts of {action.name}'s")
        twin = Item("action", function)
        twin.name, twin.doc = action.name, action.doc
        original = next(item for item in registered(self.module) if item.name == action.name)
        return replace(self, replaced={**self.replaced, original: twin})

    @contextmanager
    def active(self) -> Iterator[None]:
        """Within: `enabled` and `after` read this specification's bodies."""
        with readings.bodies(self.replaced):
            yield

    # ----------------------------------------------------------------------------------------------- run reading

    def initial(self, **sizes: Any) -> S:
        """The initial state for these sizes; those of components nested in a dict, or by their full names.

        Raises:
            SpecError: a size is missing, unknown, or below what the specification allows.
        """
        sizes = nested_sizes(sizes)
        self._check_least(sizes)
        state = self.state.blank(**sizes)
        self._check_assumptions(state)
        self.initializer.function(state)
        return state

    def _check_least(self, sizes: dict[str, Any]) -> None:
        for name, least in self.at_least.items():
            given: Any = sizes
            for part in name.split("."):
                given = given.get(part) if isinstance(given, dict) else None
            if given is not None and given < least:
                raise SpecError(f"{self.name}: {name} is {given}, at least {least} is needed")
        for name, spec in self.components.items():
            if isinstance(sizes.get(name), dict):
                spec._check_least(sizes[name])

    def _check_assumptions(self, state: State) -> None:
        for item in self.assumptions:
            if not item.function(state):
                raise SpecError(f"{self.name}: these sizes do not fit: {item.name} ({item.doc})")
        for name, spec in self.components.items():
            spec._check_assumptions(getattr(state, name))

    def violations(self, state: S) -> list[str]:
        """The names of the invariants that this state breaks.

        Raises:
            NotBoolean: an invariant gave something other than a truth value.
        """
        broken = []
        for item in self.invariants:
            holds = item.function(state)
            if not isinstance(holds, bool):
                raise NotBoolean(f"invariant {item.name} gave {type(holds).__name__} {holds!r}, not a truth value")
            if not holds:
                broken.append(item.name)
        return broken

    # ------------------------------------------------------------------------------------------ symbolic reading

    @property
    def ghosts(self) -> frozenset[str]:
        """The names of all ghost fields."""
        return frozenset(_ghosts(self.state, ""))

    def trace(self, item: Item, state: SymbolicState, arguments: list[Any], *more: Any) -> tuple[tracing.Trace, Any]:
        """Read one item symbolically: the trace, and the value it returned."""
        with self.active(), tracing.tracing(tracing.Trace(ghosts=self.ghosts)) as trace:
            try:
                value = item.function(state, *more, *arguments)
            except Refused:
                raise SpecError(f"{item.name}: a guard is false whatever the state") from None
            except RecursionError:
                raise SpecError(f"{item.name} reads itself through enabled or after") from None
        return trace, value

    def _check_declarations(self) -> None:
        """Names, parameters and sizes fit together: nothing is declared that would silently not be proved."""
        items = registered(self.module)
        names = [item.name for item in items]
        for name in names:
            if names.count(name) > 1:
                raise SpecError(f"{self.module} has two spec functions named {name}")
        unknown = set(self.at_least) - set(names_of(self.state, "size"))
        if unknown:
            raise SpecError(f"{self.name}: at_least names no size: {', '.join(sorted(unknown))}")
        parts = {f.name: f.value for f in fields_of(self.state) if f.kind == "component"}
        for name, spec in self.components.items():
            if parts.get(name) is not spec.state:
                raise SpecError(f"{self.name}: {name} is no component that is a {spec.state.__name__}")
        for item in items:
            _check_parameters(item)
            if item.kind == "ensures" and item.of not in [*self.actions, self.initializer]:
                raise SpecError(f"{item.name}: ensures is about an action of the same module, not about {item.of.name}")
            if item.kind == "action" and item.name in RESERVED:
                raise SpecError(f"an action cannot be named {item.name}; claims about other things have that name")

    def _check_by_tracing(self) -> None:
        """Read every item once, so that what only tracing can see is loud at once."""
        for item in [*self.actions, self.initializer]:
            trace, _ = self.trace(item, SymbolicState.base(self.state), variables(item.parameters))
            self._check_components(item, trace)
            if trace.guards and item is self.initializer:
                raise SpecError(f"{item.name}: the initial state has no guards")
        fixed = {f for kind in ("size", "given") for f in names_of(self.state, kind)}
        for item in [*self.assumptions, *self.invariants, *self.theorems]:
            _, value = self.trace(item, SymbolicState.base(self.state), variables(item.parameters))
            _claim(value, item)
            if item.kind == "assumption" and fields_read(value) - fixed:
                changing = ", ".join(sorted(fields_read(value) - fixed))
                raise SpecError(f"assumption {item.name} reads {changing}, which actions can change")
        for item in [*self.steps, *self._of_kind("ensures")]:
            if item.kind == "ensures" and [p.sort for p in item.parameters] != [p.sort for p in item.of.parameters]:
                raise SpecError(f"{item.name}: ensures takes the parameters of {item.of.name}")
            pre, post = SymbolicState.base(self.state), SymbolicState.base(self.state)
            _, value = self.trace(item, pre, variables(item.parameters), post)
            _claim(value, item)

    def _check_components(self, item: Item, trace: tracing.Trace) -> None:
        """A component changes only by actions of its own specification, one at a time.

        Raises:
            SpecError: it is changed otherwise.
        """
        for name, spec in self.components.items():
            meant = [spec.initializer] if item.kind == "initial" else spec.actions
            allowed = [(other, f"{name}.") for other in meant]
            changed = [write for write in trace.writes if write.field.startswith(f"{name}.")]
            direct = [write.field for write in changed if not any(by in allowed for by in write.by)]
            if direct:
                raise SpecError(f"{item.name} changes {direct[0]} by itself; perform an action of {spec.name}")
            done = [other for other in trace.performed if other in allowed]
            if len(done) > 1 or (item.kind == "initial" and not done):
                raise SpecError(f"{item.name} performs {len(done)} actions of {spec.name}, where one is meant")


def _check_parameters(item: Item) -> None:
    """The parameters are of the kinds and numbers that are read.

    Raises:
        SpecError: they are not.
    """
    states = 2 if item.kind in ("step", "ensures") else 1
    if item.kind != "definition" and item.states != states:
        raise SpecError(f"{item.kind} {item.name} takes {states} state(s), not {item.states}")
    if item.kind in ("initial", "assumption", "invariant", "step") and item.parameters:
        raise SpecError(f"{item.kind} {item.name} takes no parameter after the state(s)")
    for parameter in item.parameters:
        if item.kind != "definition" and not is_scalar(parameter.sort):
            raise SpecError(f"{item.name}: {parameter.name} cannot be of the sort {name_of(parameter.sort)}")


def _claim(value: Any, item: Item) -> None:
    boolean(value, f"{item.kind} {item.name}")
    if not isinstance(value, Term):
        raise NotBoolean(f"{item.kind} {item.name} is {value} whatever the state; it must look at the state")


def _ghosts(cls: type[State], prefix: str) -> Iterator[str]:
    for f in fields_of(cls):
        if f.kind == "component":
            yield from _ghosts(f.value, f"{prefix}{f.name}.")
        elif f.ghost:
            yield prefix + f.name
            yield from (f"{prefix}{f.name}.{part}" for part in ("size", "member", "position") if f.kind == "roster")


def variables(parameters: tuple[Parameter, ...]) -> list[Term]:
    """Arbitrary values for parameters."""
    return [Term("param", (p.name,), p.sort) for p in parameters]


__all__ = ["Specification", "item_of", "variables"]
