"""`enabled` and `after`: an action inside a claim, and which body stands for an action at the moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from poolproof.spec.language import tracing
from poolproof.spec.language.errors import Refused
from poolproof.spec.language.items import Item, item_of, lifted
from poolproof.spec.language.symbolic import SymbolicState
from poolproof.spec.language.terms import conjunction

_bodies: dict[Item, Item] = {}


@contextmanager
def bodies(replacements: dict[Item, Item]) -> Iterator[None]:
    """Within: `enabled` and `after` read the replacement of an action (a mutant or a twin)."""
    global _bodies
    outer, _bodies = _bodies, replacements
    try:
        yield
    finally:
        _bodies = outer


def body_of(function: Callable[..., Any]) -> Item:
    """The record that stands for a spec function now."""
    item = item_of(function)
    return _bodies.get(item, item)


def enabled(function: Callable[..., Any], state: Any, *arguments: Any) -> bool:
    """Would the action be allowed in this state with these arguments?"""
    item = body_of(function)
    if isinstance(state, SymbolicState):
        with tracing.nested() as inner:
            item.guards(state.snapshot(), *lifted(item, arguments))
        return conjunction(inner.guards)  # type: ignore[return-value]
    try:
        item.guards(state, *arguments)
    except Refused:
        return False
    return True


def after(function: Callable[..., Any], state: Any, *arguments: Any) -> Any:
    """The state that the action's effects lead to; meaningful where the action is enabled."""
    item = body_of(function)
    if isinstance(state, SymbolicState):
        twin = state.snapshot()
        with tracing.nested():
            item.effects(twin, *lifted(item, arguments))
        return twin
    copy = state.copy()
    item.effects(copy, *arguments)
    return copy
