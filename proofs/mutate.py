"""Mutants of an action: every guard and every effect dropped, swapped or off by one, as real functions.

A mutant is made from the action's syntax tree, so the same mutated function can be run, traced and explored.
Definitions that a guard or effect calls are mutated too, part by part, in a private copy of the action's namespace.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from poolproof.spec.language import Item, Specification, State, fields_of
from poolproof.spec.language.sorts import is_enumeration
from poolproof.spec.language.source import is_binding, is_guard, parse, rebuild, statements

_ORDER = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
_OTHER_METHOD = {"add": "remove", "remove": "add", "with_": "without", "without": "with_"}


_Change = tuple[str, tuple[ast.stmt | ast.expr, ...], Callable[..., Any]]
"""A change's name, the syntax that it is about, and the changed action."""


@dataclass(frozen=True)
class Mutant:
    """One changed action.

    Attributes:
        action: the action's name.
        name: what was done, for example "drops `require(pool.group_is_open)`".
        line: where, in the spec's file.
        function: the mutated function.
        fields: the names of the fields in what was changed.
    """

    action: str
    name: str
    line: int
    function: Callable[..., Any]
    fields: frozenset[str] = frozenset()

    @property
    def label(self) -> str:
        """Action and change in one line."""
        return f"{self.action}: {self.name}"


def mutants(spec: Specification[Any], item: Item) -> list[Mutant]:
    """All mutants of one action, in the order of its source, without repetitions."""
    node = parse(item.function)
    names = _field_names(spec.state)
    made: dict[str, Mutant] = {}
    for name, nodes, function in [*_of_body(node, item, _peers(spec.state)), *_of_definitions(spec, node, item)]:
        fields = names & frozenset[str]().union(*(fields_named(part, item.function) for part in nodes))
        made.setdefault(name, Mutant(item.name, name, nodes[0].lineno, function, fields))
    return list(made.values())


def _field_names(state: type[State]) -> frozenset[str]:
    """The names of a state's fields, those of its components among them."""
    inner = (_field_names(f.value) for f in fields_of(state) if f.kind == "component")
    return frozenset(f.name for f in fields_of(state)).union(*inner)


def fields_named(node: ast.AST, function: Callable[..., Any]) -> frozenset[str]:
    """The names of the fields that some syntax of a function speaks of, itself or through definitions and actions."""
    found = {inner.attr for inner in ast.walk(node) if isinstance(inner, ast.Attribute)}
    names = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
    for name in sorted(names - {*function.__code__.co_varnames}):  # a parameter may be named as an action is
        called = function.__globals__.get(name)
        if hasattr(called, "__spec_item__"):
            found |= _fields_of(called)
    return frozenset(found)


@cache
def _fields_of(function: Callable[..., Any]) -> frozenset[str]:
    return fields_named(parse(function), function)


def _peers(state: type[State]) -> dict[str, str]:
    """For each field the next one of the same kind and sorts, for swapping."""
    groups: dict[Any, list[str]] = {}
    for f in fields_of(state):
        if f.kind in ("map", "roster", "set", "scalar") and not f.given:
            groups.setdefault((f.kind, f.family, f.key, f.value, f.ghost), []).append(f.name)
    return {name: g[(i + 1) % len(g)] for g in groups.values() if len(g) > 1 for i, name in enumerate(g)}


def _of_body(node: ast.FunctionDef, item: Item, peers: dict[str, str]) -> Iterator[_Change]:
    """Every change of a statement of the action itself."""
    body = statements(node)
    for index, statement in enumerate(body):
        if not is_binding(statement):  # what a dropped name would leave behind is no function
            dropped = [*body[:index], *body[index + 1 :]]
            yield f"drops `{ast.unparse(statement)}`", (statement,), rebuild(node, dropped, item.function)
        for changed in _variants(statement, item.function.__globals__, peers):
            other = [*body[:index], changed, *body[index + 1 :]]
            name = f"`{ast.unparse(changed)}` for `{ast.unparse(statement)}`"
            yield name, (statement, changed), rebuild(node, other, item.function)


def _variants(statement: ast.stmt, names: dict[str, Any], peers: dict[str, str]) -> Iterator[ast.stmt]:
    """Copies of a statement with one small change each."""
    for path, node in _walk(statement, ()):
        for changed in _changes(node, names, peers, in_guard=is_guard(statement)):
            twin = copy.deepcopy(statement)
            yield _put(twin, path, changed)
    if isinstance(statement, ast.AugAssign):
        twin = copy.deepcopy(statement)
        twin.op = ast.Sub() if isinstance(statement.op, ast.Add) else ast.Add()
        yield twin


def _walk(node: ast.AST, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], ast.AST]]:
    for field, value in ast.iter_fields(node):
        children = value if isinstance(value, list) else [value]
        for index, child in enumerate(children):
            if isinstance(child, ast.AST):
                here = (*path, (field, index if isinstance(value, list) else None))
                yield here, child
                yield from _walk(child, here)


def _put(root: Any, path: tuple[Any, ...], value: ast.AST) -> Any:
    node = root
    for field, index in path[:-1]:
        node = getattr(node, field) if index is None else getattr(node, field)[index]
    field, index = path[-1]
    if index is None:
        setattr(node, field, value)
    else:
        getattr(node, field)[index] = value
    return ast.fix_missing_locations(root)


def _changes(node: ast.AST, names: dict[str, Any], peers: dict[str, str], in_guard: bool) -> Iterator[ast.AST]:
    """What else could stand in the place of one expression."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _ORDER:
        yield ast.Compare(left=node.left, ops=[_ORDER[type(node.ops[0])]()], comparators=node.comparators)
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield ast.Constant(node.value + 1)
    elif isinstance(node, ast.Constant) and type(node.value) is bool:
        yield ast.Constant(not node.value)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        other_op = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
        yield ast.BinOp(left=node.left, op=other_op, right=node.right)
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        yield from _other_members(node, names.get(node.value.id))
        if node.attr in peers and node.value.id not in names:
            yield ast.Attribute(value=node.value, attr=peers[node.attr], ctx=node.ctx)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _OTHER_METHOD:
        other = ast.Attribute(value=node.func.value, attr=_OTHER_METHOD[node.func.attr], ctx=ast.Load())
        yield ast.Call(func=other, args=node.args, keywords=node.keywords)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("and_", "or_"):
        for index in range(len(node.args) if in_guard else 0):
            yield ast.Call(func=node.func, args=[*node.args[:index], *node.args[index + 1 :]], keywords=[])


def _other_members(node: ast.Attribute, sort: Any) -> Iterator[ast.AST]:
    """The other members of an enumeration."""
    if not is_enumeration(sort) or node.attr not in sort.__members__:
        return
    for member in sort.__members__:
        if member != node.attr:
            yield ast.Attribute(value=node.value, attr=member, ctx=ast.Load())


def _of_definitions(spec: Specification[Any], node: ast.FunctionDef, item: Item) -> Iterator[_Change]:
    """The action with one part of a definition that it calls dropped."""
    called = {n.func.id for n in ast.walk(node) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
    for definition in spec.definitions:
        if definition.name not in called:
            continue
        inner = parse(definition.function)
        for path, call in _walk(inner, ()):
            if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in ("and_", "or_")):
                continue
            for index, part in enumerate(call.args):
                less = ast.Call(func=call.func, args=[*call.args[:index], *call.args[index + 1 :]], keywords=[])
                changed = _put(copy.deepcopy(inner), path, less)
                twin = rebuild(changed, statements(changed), definition.function)
                name = f"{definition.name} without `{ast.unparse(part)}`"
                function = rebuild(node, statements(node), item.function, {definition.name: twin})
                yield name, (part,), function


def shifted(claim: Item) -> Mutant | None:
    """A claim whose first table index is one too low; None where it reads no table."""
    node = parse(claim.function)
    for path, inner in _walk(node, ()):
        index = _index_of(inner)
        if index is None:
            continue
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        below: ast.expr = ast.BinOp(left=parts[0], op=ast.Sub(), right=ast.Constant(1))
        lower = ast.Tuple(elts=[below, *parts[1:]], ctx=ast.Load()) if isinstance(index, ast.Tuple) else below
        if isinstance(inner, ast.Subscript):
            changed: ast.expr = ast.Subscript(value=inner.value, slice=lower, ctx=inner.ctx)
        else:
            assert isinstance(inner, ast.Call)
            changed = ast.Call(func=inner.func, args=[lower], keywords=[])
        twin = _put(copy.deepcopy(node), path, changed)
        function = rebuild(twin, statements(twin), claim.function)
        return Mutant(claim.name, f"reads `{ast.unparse(changed)}`", getattr(inner, "lineno", 0), function)
    return None


def _index_of(node: ast.AST) -> ast.expr | None:
    if isinstance(node, ast.Subscript):
        return node.slice
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "has":
        return node.args[0]
    return None
