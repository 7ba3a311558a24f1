"""What is proved together: a specification, its hand-written twins, and what its author declares about the controls."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from poolproof.spec.language import Specification
from poolproof.spec.language.state import names_of


class SubjectError(ValueError):
    """A subject that cannot be loaded, or a pattern that names nothing."""


@dataclass(frozen=True)
class Twin:
    """A planted fault: another body for one action, taken from a public report.

    Attributes:
        fault: the report, as the fault table names it.
        story: what went wrong there, in one sentence.
        action: the action whose body is replaced ("" for the initializer).
        function: the faulty body.
        refutes: the claims that must be refuted because of it (names as in `Kill.broken`).
    """

    fault: str
    story: str
    action: str
    function: Callable[..., Any]
    refutes: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name of the faulty body."""
        return self.function.__name__


@dataclass(frozen=True)
class Subject:
    """A specification and its controls.

    Attributes:
        spec: the specification.
        twins: planted faults.
        mutant_sizes: sizes at which mutants are refuted; later ones are tried for what the first leaves open.
        explore_sizes: the instances whose every reachable state is visited.
        explore_limit: where an instance has more states than this, the grade is EXPLORED, not EXHAUSTED.
        scenes: traces from which the explorer walks on where an instance has more states than the limit, and along
            which the controls sample at sizes that are explored.
        canonical: gives states that differ in names only one key, by which the explorer tells them apart.
        redundant: mutants that no claim can see, with the reason (patterns over the mutant's label).
        implied: (action, claim) pairs that no mutant of that action breaks, with the reason (patterns over
            "action/claim").
        ref: "module:name", by which another process finds the subject; `load` sets it.
    """

    spec: Specification[Any]
    twins: tuple[Twin, ...] = ()
    mutant_sizes: tuple[dict[str, Any], ...] = ()
    explore_sizes: tuple[dict[str, Any], ...] = ()
    explore_limit: int = 20_000
    scenes: tuple[tuple[tuple[Any, ...], ...], ...] = ()
    canonical: Callable[[Any], Any] | None = None
    redundant: Mapping[str, str] = field(default_factory=dict)
    implied: Mapping[str, str] = field(default_factory=dict)
    ref: str = ""

    @property
    def name(self) -> str:
        """The specification's name."""
        return self.spec.name

    def reason(self, table: Mapping[str, str], key: str) -> str:
        """The declared reason for a key, or "" where there is none."""
        return table.get(self.pattern(table, key), "")

    def pattern(self, table: Mapping[str, str], key: str) -> str:
        """The first pattern of a table that a key matches, or "" where there is none."""
        return next((pattern for pattern in table if fnmatchcase(key, pattern)), "")


SHIPPED = {
    "slots": "poolproof.proofs.slots:SUBJECT",
    "buffer": "poolproof.proofs.buffer:SUBJECT",
    "schedule": "poolproof.proofs.schedule:SUBJECT",
    "checkpoint": "poolproof.proofs.checkpoint:SUBJECT",
}


def default_sizes(spec: Specification[Any]) -> dict[str, int]:
    """A small instance for a spec that declares none."""
    return {name: spec.at_least.get(name, 0) + 2 for name in names_of(spec.state, "size")}


@cache
def load(ref: str) -> Subject:
    """The subject at "module:name"; a bare specification gets default sizes and no declarations.

    Raises:
        SubjectError: nothing of the kind is there.
    """
    module_name, _, attribute = ref.partition(":")
    if not attribute:
        raise SubjectError(f"{ref!r} is not of the form module:NAME")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found = getattr(importlib.import_module(module_name), attribute)
    except (Exception, SystemExit) as problem:  # whatever a foreign module raises while it is imported
        raise SubjectError(f"cannot load {ref!r}: {type(problem).__name__}: {problem}") from problem
    if isinstance(found, Specification):
        found = Subject(spec=found)
    if isinstance(found, Subject):
        small = (default_sizes(found.spec),)
        mutant_sizes, explore_sizes = found.mutant_sizes or small, found.explore_sizes or small
        return replace(found, ref=ref, mutant_sizes=mutant_sizes, explore_sizes=explore_sizes)
    raise SubjectError(f"{ref!r} is a {type(found).__name__}, neither a Specification nor a Subject")
