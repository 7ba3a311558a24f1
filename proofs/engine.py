"""A run of one engine's obligations: each decided with its witness and its twin.

`unsat` counts as PROVED only with a witness (some page meets the premise) and a twin (the same question with a planted
fault, which must be `sat`). A refutation is worked out anew in exact Python integers, and without that it does not
count as one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from poolproof.proofs import results as grades
from poolproof.proofs.engine_questions import KIND, Question, questions
from poolproof.proofs.results import Report, Result
from poolproof.proofs.solver import LONG_LIMIT, SHORT_LIMIT, Answer, Model, solve, solver_name
from poolproof.proofs.subject import SubjectError
from poolproof.spec.shapes import Buffer


@dataclass
class EngineOptions:
    """How to run: which claims (globs, names or theorems; empty means all), and a second solver or ""."""

    only: Sequence[str] = ()
    second: str = ""
    progress: Callable[[str, int, int], None] = field(default=lambda what, done, of: None)


def prove_engine(engine: Buffer, options: EngineOptions | None = None) -> Report:
    """Decide the obligations of one engine.

    Raises:
        SubjectError: a pattern of `only` matches nothing.
    """
    options = options or EngineOptions()
    start = time.perf_counter()
    everything = list(questions(engine))
    for pattern in options.only:
        if not any(grades.matches(pattern, q.claim, q.about, q.tags) for q in everything):
            tags = sorted({tag for question in everything for tag in question.tags}, key=grades.tag_order)
            raise SubjectError(
                f"--only {pattern!r} matches no claim of this engine; give a glob such as "
                f"'{KIND}/{engine.name}/*', a claim's name, or a theorem: {', '.join(tags)}"
            )
    chosen = [q for q in everything if grades.is_chosen(options.only, q.claim, q.about, q.tags)]
    report = Report()
    for number, question in enumerate(chosen, 1):
        report.obligations.append(decide(question, engine.name, options.second))
        options.progress(question.claim, number, len(chosen))
    report.seconds = time.perf_counter() - start
    return report


def decide(question: Question, module: str, second: str = "") -> Result:
    """One obligation with its controls."""
    start = time.perf_counter()
    result = Result(question.claim, module, KIND, question.tags, question.doc, solver=solver_name())
    premise = replace(question.formula, premise=(*question.formula.premise, *question.exists))
    met = _solved(premise.script("false"))
    answer = _solved(question.formula.script())
    planted = _solved(question.twin.script())
    result.resources = answer.resources
    if met.model is not None:
        result.witness = _values(met.model, question.formula.names)
    if planted.verdict == "sat":
        result.twins = [question.fault]
    if answer.model is not None:
        result.note = question.confirm(answer.model)
        result.grade = grades.REFUTED if result.note else grades.UNKNOWN
        result.note = result.note or "the solver's counterexample is none in exact integers"
    elif answer.verdict != "unsat":
        result.note = answer.reason or answer.verdict
    elif met.verdict != "sat":
        result.note = "unsat, but nothing meets the premise: the buffer has no room for the pages that it speaks of"
    elif not result.twins:
        result.note = f"unsat, but so is the twin: {question.fault}"
    else:
        result.grade = grades.PROVED
    if second:
        from poolproof.proofs.second_opinion import second_opinion

        result.second = second_opinion(question.formula.script()) if answer.verdict == "unsat" else ""
    result.seconds = time.perf_counter() - start
    return result


def _solved(text: str) -> Answer:
    answer = solve(text, SHORT_LIMIT)
    return solve(text, LONG_LIMIT) if answer.verdict == "unknown" else answer


def _values(model: Model, names: Sequence[str]) -> str:
    return ", ".join(f"{name}={model.value(name)}" for name in names if model.value(name) is not None)
