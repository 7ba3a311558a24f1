"""Shared by the tests of the specs: scenes played step by step in the run reading, and random walks through states."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from differential import Chance, compare_step

from poolproof.proofs.arguments import allowed
from poolproof.proofs.concrete import broken_by, run
from poolproof.spec.language import IllDefined, Refused, State


class Scene:
    """A state that is changed by the actions of a spec; after every step all claims about it must hold."""

    def __init__(self, spec: Any, sizes: dict[str, Any], watch: Callable[[], None] = lambda: None) -> None:
        self.spec = spec
        self.state = spec.initial(**sizes)
        self.watch = watch

    def do(self, name: str, *arguments: Any) -> None:
        """A step that must be allowed."""
        item = self.spec.action(name)
        outcome = run(self.spec, item, self.state, arguments)
        shown = f"{name}{arguments}"
        assert not outcome.refused, f"{shown} is refused"
        assert outcome.after is not None, f"{shown}: {outcome.ill_defined}"
        with self.spec.active():
            assert broken_by(self.spec, item, self.state, arguments, outcome) == [], shown
        self.state = outcome.after
        self.watch()

    def refuses(self, name: str, *arguments: Any) -> None:
        """A step that must be refused, and then changes nothing, ghosts included."""
        before = self.state.key(ghosts=True)
        with pytest.raises(Refused):
            self.spec.action(name).function(self.state, *arguments)
        assert self.state.key(ghosts=True) == before, f"{name}{arguments} is refused, but changed the state"


class Walk:
    """Random steps through the states of a spec, the same for the same seed."""

    def __init__(self, spec: Any, sizes: dict[str, Any], seed: int, rare: frozenset[str] = frozenset()) -> None:
        self.spec = spec
        self.sizes = sizes
        self.seed = seed
        self.rare = rare
        self.draw = random.Random(seed)
        self.chance = Chance(spec, seed)

    def next(self, state: State) -> State:
        """The state after one step; the same one where the action drawn is refused. What undoes much happens rarely."""
        rarely = self.draw.random() < 0.05
        item = self.draw.choice([a for a in self.spec.actions if rarely or a.name not in self.rare])
        return self.after(item, state) or state

    def after(self, item: Any, state: State) -> State | None:
        """The state after one action with some arguments that it allows; None where there are none."""
        arguments = self.allowed(item, state)
        return None if arguments is None else run(self.spec, item, state, arguments).after

    def allowed(self, item: Any, state: State) -> tuple[Any, ...] | None:
        """Some arguments that the guards let pass, or None where there are none."""
        with self.spec.active():
            choices = list(allowed(self.spec, item, state))
        return self.draw.choice(choices) if choices else None

    def refused(self, item: Any, state: State, good: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
        """Some arguments that the guards refuse, near to good ones where there are any; None where none were found."""
        for _ in range(40):
            arguments = list(self.chance.arguments(state, item.parameters))
            if good and self.draw.random() < 0.7:
                at = self.draw.randrange(len(good))
                arguments = [*good[:at], arguments[at], *good[at + 1 :]]
            try:
                item.guards(state, *arguments)
            except Refused:
                return tuple(arguments)
            except IllDefined:
                raise AssertionError(f"seed {self.seed}: {item.name}{tuple(arguments)} reads outside a table") from None
        return None

    def anywhere(self, steps: int) -> State:
        """A state that can be reached."""
        state: State = self.spec.initial(**self.sizes)
        for _ in range(steps):
            state = self.next(state)
        return state

    def where(self, item: Any, steps: int) -> State:
        """A state that can be reached, after some steps, in which an action is allowed."""
        state = self.spec.initial(**self.sizes)
        for step in range(4000):
            state = self.next(state)
            if step >= steps and self.allowed(item, state) is not None:
                return state
            if step % 100 == 99:
                state = self.spec.initial(**self.sizes)
        raise AssertionError(f"seed {self.seed}: no state found in which {item.name} is allowed")


def compare_readings(walk: Walk, item: Any, trials: int) -> Counter[str]:
    """Run and lowered reading agree on an action, in reachable states, allowed and refused; what was seen."""
    seen = Counter[str]()
    for trial in range(trials):
        state = walk.where(item, walk.draw.randrange(30))
        good = walk.allowed(item, state)
        assert good is not None
        elsewhere = state if item.parameters else walk.anywhere(40)
        for at, arguments in ((state, good), (elsewhere, walk.refused(item, elsewhere, good))):
            if arguments is not None:
                seen[compare_step(walk.spec, item, at, arguments, f"seed {walk.seed}, trial {trial}")] += 1
    return seen
