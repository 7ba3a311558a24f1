"""What a run of the proofs found: one result an obligation, and the controls beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

PROVED, EXHAUSTED, EXPLORED, REFUTED, UNKNOWN = "PROVED", "EXHAUSTED", "EXPLORED", "REFUTED", "UNKNOWN"
GRADES = (PROVED, EXHAUSTED, EXPLORED, REFUTED, UNKNOWN)


@dataclass
class Result:
    """One obligation and its grade.

    Attributes:
        claim, module, kind, tags, doc: as in `Obligation`.
        grade: PROVED, EXHAUSTED, EXPLORED, REFUTED or UNKNOWN.
        solver: which solver decided, with its version.
        resources: what it spent, by its own counter (Z3's rlimit), which does not depend on the machine's load.
        seconds: time that the decision took (when it was made, if it comes from the cache).
        witness: where the premise is met in a reachable state.
        twins: changed actions that break the claim; or "FRAME", or "IMPLIED: reason".
        note: why the grade is not better.
        counterexample: plain fields of a confirmed counterexample, if there is one.
        second: what the second solver said: "unsat", "sat", "no second opinion", or "" where none was asked.
    """

    claim: str
    module: str
    kind: str
    tags: tuple[str, ...]
    doc: str
    grade: str = UNKNOWN
    solver: str = ""
    resources: int = 0
    seconds: float = 0.0
    witness: str = ""
    twins: list[str] = field(default_factory=list)
    note: str = ""
    counterexample: dict[str, Any] | None = None
    second: str = ""
    cached: bool = False

    @property
    def failed(self) -> bool:
        """Does this result fail the run?"""
        return self.grade in (REFUTED, UNKNOWN) or self.second == "sat"


@dataclass
class Control:
    """One changed action: a mutant or a hand-written twin, and what it broke.

    `expected` names the claims that had to break (a twin), `reason` why nothing had to (a declared redundant mutant).
    """

    name: str
    module: str
    action: str
    line: int
    broken: dict[str, str]
    fault: str = ""
    story: str = ""
    expected: tuple[str, ...] = ()
    reason: str = ""

    @property
    def failed(self) -> bool:
        """Was the change not refuted as it had to be?"""
        if self.expected:
            return not set(self.expected) <= set(self.broken)
        return not self.broken and not self.reason


@dataclass
class Report:
    """Everything that one run found; `refs` says where specifications that are not shipped were loaded from."""

    obligations: list[Result] = field(default_factory=list)
    mutants: list[Control] = field(default_factory=list)
    twins: list[Control] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    explorations: list[dict[str, Any]] = field(default_factory=list)
    refs: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def failures(self) -> list[str]:
        """Everything that fails the run, one line each."""
        lines = [f"{r.grade} {r.claim}{': ' + r.note if r.note else ''}" for r in self.obligations if r.failed]
        lines += [f"not refuted: mutant of {c.module}/{c.name}" for c in self.mutants if c.failed]
        lines += [f"not refuted as declared: twin {c.module}/{c.name} ({c.fault})" for c in self.twins if c.failed]
        return lines + self.problems

    @property
    def passed(self) -> bool:
        """Is everything proved, and every control refuted?"""
        return not self.failures

    def by_tag(self) -> dict[str, list[Result]]:
        """The results under each fault-catalogue invariant, in its order; untagged ones are left out."""
        found: dict[str, list[Result]] = {}
        for result in self.obligations:
            for tag in result.tags:
                found.setdefault(tag, []).append(result)
        return dict(sorted(found.items(), key=lambda item: tag_order(item[0])))

    def plain(self) -> dict[str, Any]:
        """The report as JSON has it."""
        return {
            "verdict": "passed" if self.passed else "failed",
            "seconds": round(self.seconds, 3),
            "failures": self.failures,
            "theorems": {tag: grade_of(results) for tag, results in self.by_tag().items()},
            "obligations": [_plain_result(result) for result in self.obligations],
            "twins": [_plain_control(control) for control in self.twins],
            "mutants": [_plain_control(control) for control in self.mutants],
            "explorations": self.explorations,
        }


def tag_order(tag: str) -> tuple[int, str]:
    """I2 comes before I10."""
    digits = "".join(c for c in tag if c.isdigit())
    return (int(digits) if digits else 0, tag)


def matches(pattern: str, claim: str, about: str, tags: Sequence[str]) -> bool:
    """Does a pattern of `--only` (a glob, a claim's name within its kind, or a theorem) speak of a claim?"""
    return bool(pattern) and (fnmatchcase(claim, pattern) or fnmatchcase(about, pattern) or pattern in tags)


def is_chosen(only: Sequence[str], claim: str, about: str, tags: Sequence[str]) -> bool:
    """Is a claim asked for: by one of the patterns, or because there are none?"""
    return not only or any(matches(pattern, claim, about, tags) for pattern in only)


def grade_of(results: Sequence[Result]) -> str:
    """The grade of a theorem that rests on these results: the weakest of them, refutation first."""
    for grade in (REFUTED, UNKNOWN, EXPLORED, EXHAUSTED):
        if any(result.grade == grade for result in results):
            return grade
    return PROVED if results else UNKNOWN


def _plain_result(result: Result) -> dict[str, Any]:
    return {
        "claim": result.claim,
        "grade": result.grade,
        "module": result.module,
        "kind": result.kind,
        "theorems": list(result.tags),
        "solver": result.solver,
        "resources": result.resources,
        "seconds": round(result.seconds, 4),
        "cached": result.cached,
        "witness": result.witness,
        "twins": result.twins,
        "note": result.note,
        "second_opinion": result.second,
        "counterexample": result.counterexample,
    }


def _plain_control(control: Control) -> dict[str, Any]:
    return {
        "name": control.name,
        "module": control.module,
        "action": control.action,
        "line": control.line,
        "fault": control.fault,
        "story": control.story,
        "expected": list(control.expected),
        "refuted": bool(control.broken),
        "broken": control.broken,
        "reason": control.reason,
    }
