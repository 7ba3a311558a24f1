"""The arguments that a small instance tries, found parameter by parameter.

Trying every combination of every value is wasteful where the first guard already says no. An action's guards, and the
premise of a claim, are therefore asked in their order as soon as the parameters that they look at have values.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from poolproof.spec.language import IllDefined, Item, Parameter, Refused, Specification, State, fields_of, item_of
from poolproof.spec.language.sorts import is_enumeration, is_id
from poolproof.spec.language.source import is_binding, is_guard, is_perform, parse, rebuild, statements


def values(spec: Specification[Any], state: State, parameter: Parameter) -> Sequence[Any]:
    """The values that a small instance tries for a parameter: all ids of the kind and one beyond on either side."""
    if parameter.sort in spec.samples:
        return spec.samples[parameter.sort]
    if is_id(parameter.sort):
        size = largest(state, parameter.sort)
        return range(-1, 2 if size is None else size + 1)
    if is_enumeration(parameter.sort):
        return list(parameter.sort)
    return (False, True) if parameter.sort is bool else range(-1, 4)


def largest(state: State, sort: Any) -> int | None:
    """How many ids of a kind there are, where there are most of them; None where the kind has no size."""
    parts = [getattr(state, f.name) for f in fields_of(type(state)) if f.kind == "component"]
    sizes = [size for size in (largest(part, sort) for part in parts) if size is not None]
    return max([*sizes, len(state.all(sort))] if sort in state._domains else sizes, default=None)


def argument_tuples(
    spec: Specification[Any], state: State, parameters: Sequence[Parameter]
) -> Iterator[tuple[Any, ...]]:
    """All arguments that a small instance tries."""
    return itertools.product(*(values(spec, state, p) for p in parameters))


@dataclass(frozen=True)
class Test:
    """One condition, and how many of the leading parameters must have values before it can be asked."""

    after: int
    ask: Callable[..., Any]


def allowed(
    spec: Specification[Any],
    item: Item,
    state: State,
    refused: Callable[[Refused], None] = lambda refusal: None,
    ill_defined: Callable[[tuple[Any, ...]], None] = lambda arguments: None,
) -> Iterator[tuple[Any, ...]]:
    """The arguments with which an action is enabled.

    `refused` hears of every refusal, `ill_defined` of arguments with which a guard reads outside a table.
    """

    def ask(test: Test, arguments: tuple[Any, ...]) -> bool:
        """Does a guard let the arguments pass?"""
        try:
            test.ask(state, *arguments)
        except Refused as refusal:
            refused(refusal)
            return False
        except IllDefined:
            ill_defined(arguments)
            return False
        return True

    return _search(spec, state, item.parameters, _guards(item.function, len(item.parameters)), ask)


def worth_asking(spec: Specification[Any], claim: Any, state: State) -> Iterator[tuple[Any, ...]]:
    """The arguments with which a claim's premise is true, or cannot be read; all of them where it has no premise."""

    def ask(test: Test, arguments: tuple[Any, ...]) -> bool:
        """Is a part of the premise true, or beyond reading?"""
        try:
            return bool(test.ask(state, *arguments))
        except IllDefined:
            return True  # what cannot be read yet is no reason to leave an argument out

    tests = () if claim.kind == "batch" else _premise(claim.function, len(claim.parameters))
    return _search(spec, state, claim.parameters, tests, ask)


def _search(
    spec: Specification[Any],
    state: State,
    parameters: Sequence[Parameter],
    tests: Sequence[Test],
    ask: Callable[[Test, tuple[Any, ...]], bool],
) -> Iterator[tuple[Any, ...]]:
    choices = [values(spec, state, p) for p in parameters]
    blank = tuple(choice[0] for choice in choices)
    at = [[test for test in tests if test.after == index] for index in range(len(parameters) + 1)]

    def descend(chosen: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        """The tuples that begin so and pass every test."""
        padded = (*chosen, *blank[len(chosen) :])
        if not all(ask(test, padded) for test in at[len(chosen)]):
            return
        if len(chosen) == len(parameters):
            yield chosen
            return
        for value in choices[len(chosen)]:
            yield from descend((*chosen, value))

    return descend(())


@lru_cache(maxsize=4096)
def _guards(function: Callable[..., Any], count: int) -> tuple[Test, ...]:
    """An action's guards, those of the actions that it performs included, in their order."""
    node = parse(function)
    names = [arg.arg for arg in node.args.args][len(node.args.args) - count :]
    bindings: list[ast.stmt] = []
    tests: list[Test] = []
    for statement in statements(node):
        if is_binding(statement):
            bindings.append(statement)
        elif is_guard(statement):
            needed = _last_name([*bindings, statement], names)
            tests.append(Test(needed, rebuild(node, [*bindings, statement], function)))
        elif is_perform(statement):
            tests += _performed(node, bindings, statement, function, names)
    return _in_order(tests)


def _performed(
    node: ast.FunctionDef,
    bindings: list[ast.stmt],
    statement: ast.stmt,
    function: Callable[..., Any],
    names: list[str],
) -> Iterator[Test]:
    """The guards of a performed action, with its arguments worked out."""
    call = statement.value  # type: ignore[attr-defined]
    item = item_of(eval(compile(ast.Expression(call.args[0]), "<spec>", "eval"), function.__globals__))
    _, *inner_names = [arg.arg for arg in parse(item.function).args.args]
    needs = {inner: _last_name([*bindings, arg], names) for inner, arg in zip(inner_names, call.args[2:], strict=True)}
    given = ast.Return(ast.Tuple(elts=call.args[1:], ctx=ast.Load()))
    worked_out = rebuild(node, [*bindings, ast.copy_location(given, statement)], function)
    for test in _guards(item.function, len(inner_names)):
        needed = max([needs[name] for name in inner_names[: test.after]], default=0)

        def ask(*arguments: Any, inner: Callable[..., Any] = test.ask) -> None:
            """Ask the performed action's guard."""
            inner(*worked_out(*arguments))

        yield Test(needed, ask)


@lru_cache(maxsize=4096)
def _premise(function: Callable[..., Any], count: int) -> tuple[Test, ...]:
    """The parts of a claim's premise, in their order; none where the claim is no implication."""
    node = parse(function)
    *bindings, last = statements(node)
    premise = last.value if isinstance(last, ast.Return) else None
    if not isinstance(premise, ast.Call) or _called(premise) != "implies":
        return ()
    names = [arg.arg for arg in node.args.args][len(node.args.args) - count :]
    tests = []
    for part in _conjuncts(premise.args[0]):
        returned = ast.copy_location(ast.Return(part), last)
        tests.append(Test(_last_name([*bindings, part], names), rebuild(node, [*bindings, returned], function)))
    return _in_order(tests)


def _conjuncts(premise: ast.expr) -> Iterator[ast.expr]:
    inner = premise.body if isinstance(premise, ast.Lambda) else premise
    if isinstance(inner, ast.Call) and _called(inner) == "and_":
        for part in inner.args:
            yield from _conjuncts(part)
    else:
        yield inner


def _called(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _last_name(nodes: Sequence[ast.AST], names: list[str]) -> int:
    """How many of the leading parameters some syntax looks at: up to the last one that it names."""
    used = {n.id for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name)}
    return max((index + 1 for index, name in enumerate(names) if name in used), default=0)


def _in_order(tests: Sequence[Test]) -> tuple[Test, ...]:
    """The tests, each no earlier than those before it: a later one may rely on what an earlier one has ruled out."""
    least, ordered = 0, []
    for test in tests:
        least = max(least, test.after)
        ordered.append(Test(least, test.ask))
    return tuple(ordered)
