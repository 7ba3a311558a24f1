"""The trace of one symbolic reading: its guards, its effects, and what must hold for it to be well defined."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from poolproof.spec.language.errors import GhostLeak, GuardAfterEffect, SpecError
from poolproof.spec.language.terms import Term, fields_read, is_literal, same


@dataclass
class Write:
    """One effect: the field, the key (None where the write is bulk or the field is not a table), and the components'
    actions that it belongs to, the outermost first, each with the path of its component.
    """

    field: str
    key: tuple[Term, ...] | None
    is_table: bool
    by: tuple[tuple[Any, str], ...] = ()


@dataclass
class Trace:
    """What one symbolic reading of a spec function left behind."""

    ghosts: frozenset[str] = frozenset()
    guards: list[Term] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    demands: list[Term] = field(default_factory=list)
    performed: list[tuple[Any, str]] = field(default_factory=list)
    _path: list[tuple[str, Any]] = field(default_factory=list)
    _by: tuple[tuple[Any, str], ...] = ()

    def fresh(self, sort: Any) -> Term:
        """A new bound variable, unlike any other."""
        return Term("var", (next(_serial),), sort)

    def demand(self, condition: Term) -> None:
        """Record that `condition` must hold here, under the guards and the path taken so far."""
        if is_literal(condition, True):
            return
        closed = condition
        for kind, payload in reversed(self._path):
            if kind == "assume":
                closed = Term("=>", (payload, closed), bool)
            else:
                variable, low, high = payload
                closed = Term("forall", (variable, low, high, closed), bool)
        self.demands.append(closed)

    def ranges_over(self, variable: Term, high: Term) -> bool:
        """Is this a variable bound here to the ids below `high`?"""
        return any(
            kind == "bind" and payload[0] is variable and payload[2] is not None and same(payload[2], high)
            for kind, payload in self._path
        )

    def guard(self, condition: Term) -> None:
        """Record a guard."""
        if self.writes:
            raise GuardAfterEffect("require stands after an effect; move every guard to the front of the action")
        self.reject_ghosts(condition, "a guard")
        self.guards.append(condition)
        self._path.append(("assume", condition))  # for good: all that follows may rely on it

    def reject_ghosts(self, value: Term, what: str) -> None:
        """A value that decides something real must not depend on a ghost."""
        leaked = fields_read(value) & self.ghosts
        if leaked:
            raise GhostLeak(f"{what} depends on the ghost field(s) {', '.join(sorted(leaked))}")

    def wrote(self, name: str, key: tuple[Term, ...] | None, is_table: bool) -> None:
        """Record an effect."""
        self.writes.append(Write(name, key, is_table, self._by))

    @contextmanager
    def performing(self, item: Any, path: str) -> Iterator[None]:
        """Within: effects belong to the action of the component at this path; one inside another is part of it."""
        outer = self._by
        if all(place != path for _, place in outer):
            self.performed.append((item, path))
        self._by = (*outer, (item, path))
        try:
            yield
        finally:
            self._by = outer

    @contextmanager
    def assuming(self, condition: Term) -> Iterator[None]:
        """Within: the condition holds."""
        self._path.append(("assume", condition))
        try:
            yield
        finally:
            self._path.pop()

    @contextmanager
    def binding(self, variable: Term, low: Term | None, high: Term | None) -> Iterator[None]:
        """Within: `variable` ranges over low <= variable < high (over everything where a bound is None)."""
        self._path.append(("bind", (variable, low, high)))
        try:
            yield
        finally:
            self._path.pop()


_open: list[Trace] = []
_serial = itertools.count(1)


def current() -> Trace:
    """The trace in progress.

    Raises:
        SpecError: no symbolic reading is in progress.
    """
    if not _open:
        raise SpecError("a symbolic state can only be read while it is traced")
    return _open[-1]


@contextmanager
def tracing(trace: Trace) -> Iterator[Trace]:
    """Within: symbolic reads and writes are recorded in `trace`."""
    _open.append(trace)
    try:
        yield trace
    finally:
        _open.pop()


@contextmanager
def nested() -> Iterator[Trace]:
    """Within: guards and writes go to a trace of their own, while demands stay with the outer one.

    Used for `enabled` and `after`, which read an action inside a claim.
    """
    outer = current()
    inner = Trace(ghosts=outer.ghosts, demands=outer.demands, _path=[*outer._path])
    _open.append(inner)
    try:
        yield inner
    finally:
        _open.pop()
