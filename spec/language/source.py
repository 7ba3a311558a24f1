"""The source of spec functions: an allow-list over their syntax, and the guard and effect halves of an action.

What a symbolic reading would miss silently (`is`, isinstance branches, try around a refusal, loops, mutation of
globals) is rejected here by line, when the function is registered.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import textwrap
import types
from collections.abc import Callable, Iterator
from typing import Any

from poolproof.spec.language.errors import GuardAfterEffect, SourceRejected
from poolproof.spec.language.sorts import is_enumeration, is_id

_EXPRESSIONS = (
    ast.Call,
    ast.Name,
    ast.Attribute,
    ast.Subscript,
    ast.Tuple,
    ast.Constant,
    ast.Compare,
    ast.BinOp,
    ast.UnaryOp,
    ast.Lambda,
    ast.keyword,
    ast.arguments,
    ast.arg,
    ast.expr_context,
    ast.operator,
    ast.USub,
    ast.cmpop,
)
_EFFECTS = ("add", "remove", "absorb", "fill", "empty", "relabel")
_METHODS = (*_EFFECTS, "all", "has", "pick", "with_", "without", "none", "join", "minus", "disjoint")
_BANNED_COMPARISONS = (ast.Is, ast.IsNot, ast.In, ast.NotIn)
_BANNED_OPERATORS = (ast.BitAnd, ast.BitOr, ast.BitXor, ast.LShift, ast.RShift, ast.Pow, ast.Div, ast.MatMult)


def parse(function: Callable[..., Any]) -> ast.FunctionDef:
    """The syntax tree of a spec function, with the line numbers of its file.

    Raises:
        SourceRejected: the source is not at hand, or is not one plain function.
    """
    known: ast.FunctionDef | None = getattr(function, "__spec_node__", None)
    if known is not None:
        return known
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError) as problem:
        raise SourceRejected(f"{function!r}: a spec function needs its source at hand ({problem})") from None
    module = ast.parse(textwrap.dedent("".join(lines)))
    ast.increment_lineno(module, first - 1)
    node = module.body[0]
    if not isinstance(node, ast.FunctionDef):
        raise SourceRejected(f"{function!r}: a spec function is a plain `def`")
    return node


def statements(node: ast.FunctionDef) -> list[ast.stmt]:
    """The body without its docstring."""
    return node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body


def is_guard(statement: ast.stmt) -> bool:
    """Is this statement `require(...)`?"""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Call)
        and isinstance(statement.value.func, ast.Name)
        and statement.value.func.id == "require"
    )


def is_perform(statement: ast.stmt) -> bool:
    """Is this statement `perform(...)`, another component's action?"""
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "perform"


def is_binding(statement: ast.stmt) -> bool:
    """Is this statement a local name given a value?"""
    if isinstance(statement, ast.AnnAssign):
        return isinstance(statement.target, ast.Name)
    return isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)


def check_source(function: Callable[..., Any], effects_allowed: bool) -> ast.FunctionDef:
    """Check a spec function against the allow-list and give its syntax tree.

    Raises:
        SourceRejected: a construct that cannot be read symbolically, with its line.
        GuardAfterEffect: a `require` that stands after an effect.
    """
    node = parse(function)
    where = inspect.getsourcefile(function)
    effect_line = 0
    body = statements(node)
    for index, statement in enumerate(body):
        _check_statement(statement, where, effects_allowed, last=index == len(body) - 1)
        if is_guard(statement) and effect_line:
            raise GuardAfterEffect(
                f"{where}:{statement.lineno}: require stands after the effect in line {effect_line}; guards come first"
            )
        if is_perform(statement) and effect_line:
            raise GuardAfterEffect(
                f"{where}:{statement.lineno}: perform brings guards of its own; it stands before the effect in line "
                f"{effect_line}"
            )
        if not is_guard(statement) and not is_binding(statement):
            effect_line = statement.lineno
    _check_names(node, function, where)
    _check_constants(node, function, where)
    return node


def _check_statement(statement: ast.stmt, where: str | None, effects_allowed: bool, last: bool) -> None:
    line = f"{where}:{statement.lineno}"
    if isinstance(statement, ast.Return):
        if effects_allowed or not last:
            raise SourceRejected(f"{line}: return stands only at the end of a definition, never in an action")
    elif isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        if len(targets) != 1 or not isinstance(targets[0], ast.Name | ast.Attribute | ast.Subscript):
            raise SourceRejected(f"{line}: assign one name, field or table entry at a time")
        if not effects_allowed and not is_binding(statement):
            raise SourceRejected(f"{line}: a definition or claim has no effects")
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        if not effects_allowed:
            raise SourceRejected(f"{line}: a definition or claim has no effects")
    else:
        raise SourceRejected(
            f"{line}: {type(statement).__name__} cannot be read symbolically; actions are straight lines"
        )
    top_call = statement.value if isinstance(statement, ast.Expr) else None
    is_step = is_guard(statement) or is_perform(statement)
    if top_call is not None and not is_step and _method(top_call) not in _EFFECTS:
        shown = ast.unparse(top_call)
        raise SourceRejected(f"{line}: {shown} is neither a guard nor an effect; was require(...) meant?")
    witnesses = [k.value for k in ast.walk(statement) if isinstance(k, ast.keyword) and k.arg == "witness"]
    inside = {id(node) for witness in witnesses for node in ast.walk(witness)}
    for node, number in _with_lines(statement, statement.lineno):
        _check_node(node, f"{where}:{number}")
        if isinstance(node, ast.Call):
            _check_call(node, where, node is top_call, id(node) in inside)


def _method(node: ast.expr) -> str:
    """The name of the method that an expression calls, or ""."""
    return node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""


def _check_call(call: ast.Call, where: str | None, is_statement: bool, in_witness: bool) -> None:
    line, method = f"{where}:{call.lineno}", _method(call)
    if isinstance(call.func, ast.Name):
        if call.func.id in ("require", "perform") and not is_statement:
            raise SourceRejected(f"{line}: {call.func.id} is a statement of an action, never part of an expression")
    elif method not in _METHODS:
        raise SourceRejected(f"{line}: {ast.unparse(call.func)}(...) cannot be read symbolically")
    elif method in _EFFECTS and not is_statement:
        raise SourceRejected(f"{line}: .{method}(...) is an effect and stands as a statement of its own")
    elif method == "pick" and not in_witness:
        raise SourceRejected(f"{line}: .pick() stands only in witness=...; the order of a roster is a ghost")


def _with_lines(node: ast.AST, line: int) -> Iterator[tuple[ast.AST, int]]:
    """All nodes inside a node with their lines; an operator has its expression's."""
    line = getattr(node, "lineno", line)
    yield node, line
    for child in ast.iter_child_nodes(node):
        yield from _with_lines(child, line)


def _check_node(node: ast.AST, line: str) -> None:
    if isinstance(node, ast.stmt):
        return
    if not isinstance(node, _EXPRESSIONS):
        raise SourceRejected(
            f"{line}: {type(node).__name__} cannot be read symbolically; use the spec language's connectives"
        )
    if isinstance(node, ast.Compare) and len(node.ops) > 1:
        raise SourceRejected(f"{line}: a chained comparison loses half of itself symbolically; use and_")
    if isinstance(node, _BANNED_COMPARISONS):
        raise SourceRejected(f"{line}: `is` and `in` cannot be read symbolically; use == or .has")
    if isinstance(node, _BANNED_OPERATORS):
        raise SourceRejected(f"{line}: operator {type(node).__name__} is not part of the spec language")


def _check_names(node: ast.FunctionDef, function: Callable[..., Any], where: str | None) -> None:
    """Plain calls may only go to the language, to registered spec functions, or to sorts."""
    local = {arg.arg for n in ast.walk(node) if isinstance(n, ast.arguments) for arg in n.args}
    for call in (n for n in ast.walk(node) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)):
        assert isinstance(call.func, ast.Name)
        name = call.func.id
        target = function.__globals__.get(name)
        if target is None and name in function.__code__.co_freevars and function.__closure__ is not None:
            target = function.__closure__[function.__code__.co_freevars.index(name)].cell_contents
        if name in local or (hasattr(builtins, name) and target is None):
            raise SourceRejected(f"{where}:{call.lineno}: {name}(...) cannot be read symbolically")
        problem = _reject_call(name, target)
        if problem:
            raise SourceRejected(f"{where}:{call.lineno}: {problem}")


def _check_constants(node: ast.FunctionDef, function: Callable[..., Any], where: str | None) -> None:
    """Names from outside stand for sorts, spec functions and constants; nothing that can change behind a proof."""
    for name in (n for s in node.body for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)):
        value = function.__globals__.get(name.id)
        if isinstance(value, types.ModuleType):
            raise SourceRejected(f"{where}:{name.lineno}: {name.id} is a module; import the constant by its own name")
        if isinstance(value, list | dict | set | bytearray):
            raise SourceRejected(f"{where}:{name.lineno}: {name.id} is a {type(value).__name__}, which can change")


def _reject_call(name: str, target: Any) -> str:
    """Why a spec function may not call this, or ""."""
    item = getattr(target, "__spec_item__", None)
    if item is not None and item.kind in ("action", "initial"):
        return f"{name}(...) is an action; only enabled(...) and after(...) read one inside another function"
    if isinstance(target, type):
        return "" if is_id(target) or is_enumeration(target) else f"{name}(...) is no sort of the spec language"
    if item is None and not (getattr(target, "__module__", "") or "").startswith("poolproof.spec.language"):
        return f"{name}(...) is neither of the spec language nor a @define'd function"
    own = getattr(target, "__name__", "")
    return "" if name == own else f"{name}(...) is {own or type(target).__name__}; call it by its own name"


def rebuild(
    node: ast.FunctionDef, body: list[ast.stmt], function: Callable[..., Any], bindings: dict[str, Any] | None = None
) -> Callable[..., Any]:
    """A function with another body, in the same module and with the same line numbers.

    `bindings` replaces global names: that is how a changed definition reaches the action that calls it.
    """
    twin = ast.FunctionDef(
        name=node.name, args=node.args, body=body or [ast.Pass()], decorator_list=[], returns=None, type_comment=None
    )
    twin.type_params = []  # type: ignore[attr-defined]
    module = ast.Module(body=[ast.copy_location(twin, node)], type_ignores=[])
    ast.fix_missing_locations(module)
    scope = dict(function.__globals__) if bindings or function.__closure__ else function.__globals__
    if function.__closure__:
        scope.update(zip(function.__code__.co_freevars, (c.cell_contents for c in function.__closure__), strict=True))
    scope.update(bindings or {})
    local: dict[str, Any] = {}
    exec(compile(module, inspect.getsourcefile(function) or "<spec>", "exec"), scope, local)  # the spec's own source
    made: Callable[..., Any] = local[node.name]
    made.__doc__ = function.__doc__
    made.__annotations__ = function.__annotations__
    made.__module__ = function.__module__
    made.__spec_node__ = twin  # type: ignore[attr-defined]
    return made


def halves(
    function: Callable[..., Any], perform_halves: tuple[Callable[..., Any], Callable[..., Any]]
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """An action's guards alone and its effects alone, as two functions.

    `perform_halves` stand in the two for `perform`, which has both.
    """
    node = parse(function)
    body = statements(node)
    last_guard = max((i for i, s in enumerate(body) if is_guard(s) or is_perform(s)), default=-1)
    guards = body[: last_guard + 1]
    effects = [s for s in body if not is_guard(s)]
    performs = any(is_perform(s) for s in body)
    bound = [{"perform": half} if performs else None for half in perform_halves]
    return rebuild(node, guards, function, bound[0]), rebuild(node, effects, function, bound[1])
