"""Which part of a claim is false: the violated conjunct, at the element that shows it, in the spec's own words."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from poolproof.spec.language import IllDefined, Refused
from poolproof.spec.language.source import is_binding, parse, statements


def explain(claim: Any, arguments: Sequence[Any]) -> str:
    """One line for the innermost false part of a claim, for example "slot=1: pool.owner[slot] == Owner.FREE"."""
    if claim.kind == "batch":
        return str(claim.doc)
    path, text = _descend(claim.function, list(arguments))
    return f"{', '.join(path)}: {text}" if path else text


def _descend(function: Any, arguments: list[Any]) -> tuple[list[str], str]:
    node = parse(function)
    names = [arg.arg for arg in node.args.args]
    scope = {**function.__globals__, **dict(zip(names, arguments, strict=True))}
    for statement in statements(node):
        if is_binding(statement):
            module = ast.Module(body=[statement], type_ignores=[])
            exec(compile(ast.fix_missing_locations(module), "<claim>", "exec"), scope)  # the claim's own source
        elif isinstance(statement, ast.Return) and statement.value is not None:
            return _false_part(statement.value, scope, [])
    return [], function.__name__


def _evaluate(node: ast.expr, scope: dict[str, Any]) -> Any:
    body = node.body if isinstance(node, ast.Lambda) and not node.args.args else node
    return eval(compile(ast.fix_missing_locations(ast.Expression(body)), "<claim>", "eval"), scope)


def _is_false(node: ast.expr, scope: dict[str, Any]) -> bool:
    try:
        return _evaluate(node, scope) is False
    except (IllDefined, Refused):
        return True


def _false_part(node: ast.expr, scope: dict[str, Any], path: list[str]) -> tuple[list[str], str]:
    """Go down into the part that is false; the values of bound variables are collected on the way."""
    if isinstance(node, ast.Lambda) and not node.args.args:
        node = node.body
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        name = node.func.id
        if name == "and_":
            for part in node.args:
                if _is_false(part, scope):
                    return _false_part(part, scope, path)
        elif name == "implies":
            return _false_part(node.args[1], scope, path)
        elif name == "forall" and isinstance(node.args[1], ast.Lambda):
            return _false_element(node.args[0], node.args[1], scope, path)
        elif getattr(getattr(scope.get(name), "__spec_item__", None), "kind", "") == "definition":
            inner, text = _descend(scope[name], [_evaluate(arg, scope) for arg in node.args])
            return [*path, *inner], text
    return path, ast.unparse(node)


def _false_element(domain: ast.expr, body: ast.Lambda, scope: dict[str, Any], path: list[str]) -> tuple[list[str], str]:
    names = [variable.arg for variable in body.args.args]
    for element in _evaluate(domain, scope):
        bound = dict(zip(names, element if isinstance(element, tuple) else (element,), strict=True))
        if _is_false(body.body, {**scope, **bound}):
            shown = [f"{name}={int(value)}" for name, value in bound.items()]
            return _false_part(body.body, {**scope, **bound}, [*path, *shown])
    return path, ast.unparse(body)
