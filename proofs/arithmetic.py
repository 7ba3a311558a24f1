"""The proofs of spec/arithmetic.py: CrossHair on the contracts of each loop-free integer function.

CrossHair's "Confirmed" counts as PROVED only here: integers, no loops, and a precondition that a witness satisfies.
Each function has a wrong twin that CrossHair must refute.
"""

from __future__ import annotations

import ast
import inspect
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any, get_type_hints

from poolproof.proofs.results import PROVED, REFUTED, UNKNOWN, Result
from poolproof.proofs.twins import arithmetic as twins
from poolproof.spec import arithmetic
from poolproof.spec.language.source import parse

WITNESS = (7, 3)

PAIRS: tuple[tuple[Callable[..., int], Callable[..., int]], ...] = ((arithmetic.ceil_div, twins.ceil_div_rounds_down),)


def checker_name() -> str:
    """The checker and its version."""
    return f"crosshair {version('crosshair-tool')}"


def conditions(function: Callable[..., Any], kind: str) -> list[str]:
    """The `pre:` or `post:` lines of a contract."""
    lines = (line.strip() for line in (inspect.getdoc(function) or "").splitlines())
    return [line.removeprefix(f"{kind}:").strip() for line in lines if line.startswith(f"{kind}:")]


def check(function: Callable[..., Any]) -> list[tuple[str, str, str]]:
    """What CrossHair says of each postcondition: (postcondition, grade, message)."""
    from crosshair.core_and_libs import MessageType, analyze_function, run_checkables
    from crosshair.options import AnalysisKind, AnalysisOptionSet

    options = AnalysisOptionSet(
        analysis_kind=[AnalysisKind.PEP316], report_all=True, per_condition_timeout=20, per_path_timeout=10
    )
    grades = {MessageType.CONFIRMED: PROVED, MessageType.POST_FAIL: REFUTED, MessageType.EXEC_ERR: REFUTED}
    messages = list(run_checkables(analyze_function(function, options)))
    said = {message.line: message for message in messages}
    apart = (MessageType.EXEC_ERR, MessageType.PRE_UNSAT)  # told of another line than the postcondition's
    elsewhere = next((message for message in messages if message.state in apart), None)
    _, first = inspect.getsourcelines(function)
    found = []
    for number, line in enumerate(inspect.getsource(function).splitlines(), first):
        if line.strip().startswith("post:"):
            message = said.get(number, elsewhere)
            grade = UNKNOWN if message is None else grades.get(message.state, UNKNOWN)
            text = "the checker said nothing" if message is None else message.message
            found.append((line.strip().removeprefix("post:").strip(), grade, text))
    return found


def is_of_integers(function: Callable[..., Any]) -> bool:
    """Are all parameters and the result integers or truth values? Of nothing else is a confirmation believed."""
    hints = get_type_hints(function)
    return set(inspect.signature(function).parameters) | {"return"} == set(hints) and set(hints.values()) <= {int, bool}


def is_loop_free(function: Callable[..., Any]) -> bool:
    """Has the function no loop and no recursion, so that confirming all paths confirms all inputs?

    What it calls must be loop-free functions of its own module.
    """
    return _is_loop_free(function, ())


def _is_loop_free(function: Any, callers: tuple[Any, ...]) -> bool:
    if function in callers or not inspect.isfunction(function):
        return False
    loops = (ast.For, ast.While, ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)
    nodes = list(ast.walk(parse(function)))
    calls = [node.func for node in nodes if isinstance(node, ast.Call)]
    called = [function.__globals__.get(call.id) if isinstance(call, ast.Name) else None for call in calls]
    return not any(isinstance(node, loops) for node in nodes) and all(
        _is_loop_free(other, (*callers, function)) for other in called
    )


def witness(function: Callable[..., Any]) -> str:
    """A call that satisfies the precondition, or "" where the sample does not: then the contract may be vacuous."""
    scope = dict(zip(inspect.signature(function).parameters, WITNESS, strict=True))
    if not all(eval(condition, {}, dict(scope)) for condition in conditions(function, "pre")):
        return ""
    return f"{function.__name__}{WITNESS} = {function(*WITNESS)}"


def claims() -> list[str]:
    """The names of all claims, one for each postcondition."""
    return [f"arithmetic/{f.__name__}/{post}" for f, _ in PAIRS for post in conditions(f, "post")]


def results() -> list[Result]:
    """One result for each postcondition of each function."""
    made = []
    for function, twin in PAIRS:
        start = time.perf_counter()
        refuted = sorted(post for post, grade, _ in check(twin) if grade == REFUTED)
        shown, simple = witness(function), is_loop_free(function) and is_of_integers(function)
        found = check(function)
        for post, grade, message in found:
            result = Result(f"arithmetic/{function.__name__}/{post}", "arithmetic", "contract", (), message)
            result.solver, result.witness = checker_name(), shown
            result.seconds = (time.perf_counter() - start) / len(found)
            result.twins = [f"{twin.__name__} (breaks {', '.join(refuted)})"] if refuted else []
            result.grade = grade
            if grade == PROVED and not (shown and refuted and simple):
                lacking = "a witness, a refuted twin, loop-freedom or integers only"
                result.grade, result.note = UNKNOWN, f"confirmed, but without {lacking}"
            elif grade != PROVED:
                result.note = message
            made.append(result)
    return made
