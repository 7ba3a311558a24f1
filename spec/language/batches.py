"""Batches: one action over many items, all or nothing.

A batch is the fold of single steps. That it may check every item first and only then act is a theorem, by induction
over the batch from three facts about two steps, which are obligations of every batch:

1. no interference: if x and y are both allowed and differ, y is still allowed after x;
2. no repetition: x is refused after x;
3. no rescue: if y is refused, it is still refused after x.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from poolproof.spec.language.errors import Refused, SpecError
from poolproof.spec.language.items import Item, Parameter, item_of
from poolproof.spec.language.logic import and_, implies, not_
from poolproof.spec.language.readings import after, enabled


class Batch:
    """An action applied to a sequence of items in turn: every item, or none and `Refused`."""

    def __init__(self, item: Item, over: str, doc: str) -> None:
        self.item = item
        self.over = over
        self.__doc__ = doc
        self.name = f"{item.name}_batch"
        self.module = item.module
        self.position = next((i for i, p in enumerate(item.parameters) if p.name == over), -1)
        if self.position < 0:
            raise SpecError(f"{item.name} has no parameter {over!r} to batch over")
        self._guards, self._effects = item.guards, item.effects

    def __call__(self, state: Any, *arguments: Any) -> None:
        """Apply the batch; the argument in the place of `over` is the sequence of items.

        Raises:
            Refused: an item occurs twice or is refused by itself. The state is as it was.
        """
        head, items, tail = arguments[: self.position], arguments[self.position], arguments[self.position + 1 :]
        if len(set(items)) != len(items):
            raise Refused(f"{self.name}: an item occurs twice")
        guards, effects = self._guards, self._effects
        for item in items:
            guards(state, *head, item, *tail)
        for item in items:
            effects(state, *head, item, *tail)

    def fold(self, state: Any, *arguments: Any) -> None:
        """The defining reading: single steps in turn. Refusal midway leaves the earlier steps done."""
        head, items, tail = arguments[: self.position], arguments[self.position], arguments[self.position + 1 :]
        for item in items:
            self.item.function(state, *head, item, *tail)

    def facts(self) -> list[BatchFact]:
        """The three claims from which, by induction, the batch equals its fold and is all or nothing."""
        return [BatchFact(self, name, tag) for name, tag in _FACTS]


_FACTS = (("items_do_not_interfere", "I4"), ("a_repeated_item_is_refused", "I2"), ("a_bad_item_stays_bad", "I4"))


class BatchFact:
    """One claim about two steps of a batch, with the face of a theorem; its last parameter is the other item."""

    kind = "batch"

    def __init__(self, batch: Batch, name: str, tag: str) -> None:
        self.batch = batch
        self.name = name
        self.tags = (tag,)
        self.doc = f"{tag}: {batch.name}: {name.replace('_', ' ')}."
        over = batch.item.parameters[batch.position]
        names = {p.name for p in batch.item.parameters}
        other = next(n for n in (f"other{'_' * i}" for i in range(len(names) + 1)) if n not in names)
        self.parameters = (*batch.item.parameters, Parameter(other, over.sort, False))

    def function(self, state: Any, *arguments: Any) -> bool:
        """The claim in a state, for an item, the shared arguments, and another item (last)."""
        action, place = self.batch.item.function, self.batch.position
        first, other = arguments[:-1], arguments[-1]
        second = (*first[:place], other, *first[place + 1 :])

        def later(args: tuple[Any, ...]) -> bool:
            return enabled(action, after(action, state, *first), *args)

        differ = first[place] != other
        allowed = enabled(action, state, *first)
        if self.name == "items_do_not_interfere":
            both = and_(allowed, enabled(action, state, *second), differ)
            return implies(both, lambda: later(second))
        if self.name == "a_repeated_item_is_refused":
            return implies(allowed, lambda: not_(later(first)))
        bad = and_(allowed, not_(enabled(action, state, *second)), differ)
        return implies(bad, lambda: not_(later(second)))


_batches: dict[str, list[Batch]] = {}


def batch(function: Callable[..., Any], over: str, doc: str) -> Callable[..., None]:
    """The batch form of an action; the parameter `over` becomes a sequence of items."""
    made = Batch(item_of(function), over, doc)
    _batches.setdefault(made.module, []).append(made)
    return made


def batches_of(module: str) -> Sequence[Batch]:
    """All batches of a module."""
    return _batches.get(module, [])
