"""Symbolic values: small immutable expressions that stand in for integers, truth values and ids while a spec is traced.

A term refuses every Python operation that would need its concrete value, so that half a formula is never lost
silently. Terms are turned into SMT-LIB text elsewhere; nothing here needs a solver.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

from poolproof.spec.language.errors import SortMismatch, SymbolicBranch
from poolproof.spec.language.sorts import Id, is_enumeration, is_id, is_integer

_REMEDY = "use and_, or_, not_, implies, ite, forall or exists"


class Version:
    """One version of a table: a base function, or an earlier version with one write on top.

    `write` is ("base",), ("set", keys, value) or ("where", variables, condition, value); keys and variables are
    tuples, as long as `key_sorts`.
    """

    __slots__ = ("field", "key_sorts", "parent", "value_sort", "write")

    def __init__(
        self,
        field: str,
        key_sorts: tuple[Any, ...],
        value_sort: Any,
        parent: Version | None = None,
        write: tuple[Any, ...] = ("base",),
    ) -> None:
        self.field = field
        self.key_sorts = key_sorts
        self.value_sort = value_sort
        self.parent = parent
        self.write = write


class Term:
    """A symbolic value: an operator, its arguments and the sort of the whole."""

    __slots__ = ("args", "op", "sort")

    def __init__(self, op: str, args: tuple[Any, ...], sort: Any) -> None:
        self.op = op
        self.args = args
        self.sort = sort

    def _loud(self, what: str) -> NoReturn:
        raise SymbolicBranch(f"a symbolic {name_of(self.sort)} was used {what}; {_REMEDY}")

    def __bool__(self) -> bool:
        self._loud("as a Python truth value (if, while, and, or, not, in, chained comparison, assert)")

    def __hash__(self) -> int:
        self._loud("as a dictionary key or set member")

    def __index__(self) -> int:
        self._loud("as a Python index")

    def __int__(self) -> int:
        self._loud("as a Python int")

    def __iter__(self) -> Iterator[Any]:
        self._loud("as an iterable")

    def __contains__(self, item: object) -> bool:
        self._loud("with `in`")

    def __len__(self) -> int:
        self._loud("with len()")

    def __format__(self, spec: str) -> str:
        self._loud("in a formatted string")

    def __str__(self) -> str:
        self._loud("as text")

    def __invert__(self) -> Term:
        self._loud("with ~")

    def __and__(self, other: object) -> Term:
        self._loud("with &")

    def __or__(self, other: object) -> Term:
        self._loud("with |")

    def __repr__(self) -> str:
        return f"<symbolic {name_of(self.sort)} {self.op}>"

    def __eq__(self, other: object) -> Term:  # type: ignore[override]
        return Term("=", (self, lift(other, self.sort)), bool)

    def __ne__(self, other: object) -> Term:  # type: ignore[override]
        return Term("not", (self == other,), bool)

    def _compare(self, op: str, other: object, flipped: bool) -> Term:
        right = lift(other, self.sort)
        if not is_integer(self.sort):
            raise SortMismatch(f"{name_of(self.sort)} has no order")
        return Term(op, (right, self) if flipped else (self, right), bool)

    def __lt__(self, other: object) -> Term:
        return self._compare("<", other, False)

    def __le__(self, other: object) -> Term:
        return self._compare("<=", other, False)

    def __gt__(self, other: object) -> Term:
        return self._compare("<", other, True)

    def __ge__(self, other: object) -> Term:
        return self._compare("<=", other, True)

    def _arithmetic(self, op: str, other: object, flipped: bool) -> Term:
        if not is_integer(self.sort):
            raise SortMismatch(f"{name_of(self.sort)} has no arithmetic")
        right, sort = _operand(self, op, other)
        return Term(op, (right, self) if flipped else (self, right), sort)

    def __add__(self, other: object) -> Term:
        return self._arithmetic("+", other, False)

    def __radd__(self, other: object) -> Term:
        return self._arithmetic("+", other, True)

    def __sub__(self, other: object) -> Term:
        return self._arithmetic("-", other, False)

    def __rsub__(self, other: object) -> Term:
        return self._arithmetic("-", other, True)

    def __mul__(self, other: object) -> Term:
        return self._arithmetic("*", other, False)

    def __rmul__(self, other: object) -> Term:
        return self._arithmetic("*", other, True)

    def __floordiv__(self, other: object) -> Term:
        return self._division("div", other)

    def __mod__(self, other: object) -> Term:
        return self._division("mod", other)

    def _division(self, op: str, other: object) -> Term:
        # SMT-LIB's div rounds as Python's // only for a positive divisor, so only literal ones are read.
        if isinstance(other, bool) or not isinstance(other, int) or other <= 0:
            raise SymbolicBranch(f"{op} needs a positive literal divisor; state the product instead")
        return self._arithmetic(op, other, False)

    def __neg__(self) -> Term:
        return 0 - self


def _operand(left: Term, op: str, other: object) -> tuple[Term, Any]:
    """The other operand of an arithmetic operator, and the sort of the result."""
    if isinstance(other, Term):
        if other.sort is left.sort:
            return other, int if is_id(left.sort) else left.sort
        if other.sort is int and is_id(left.sort) and op in "+-":
            return other, left.sort
        if left.sort is int and is_id(other.sort) and op == "+":
            return other, other.sort
    elif type(other) is int:
        return Term("lit", (other,), int), left.sort
    elif isinstance(other, Id) and type(other) is left.sort:
        return Term("lit", (int(other),), left.sort), int
    elif isinstance(other, Id) and left.sort is int and op == "+":
        return Term("lit", (int(other),), type(other)), type(other)
    raise SortMismatch(f"{name_of(left.sort)} {op} {describe(other)} has no meaning")


def name_of(sort: Any) -> str:
    """The sort's name, for messages and for SMT-LIB."""
    return getattr(sort, "__name__", str(sort))


def describe(value: object) -> str:
    """A value as error messages show it."""
    return f"symbolic {name_of(value.sort)}" if isinstance(value, Term) else f"{type(value).__name__} {value!r}"


def lift(value: object, sort: Any) -> Term:
    """The value as a term of this sort.

    Raises:
        SortMismatch: the value is of another sort (a plain integer where an id is expected included).
    """
    if isinstance(value, Term):
        if value.sort is sort:
            return value
    elif sort is bool:
        if isinstance(value, bool):
            return Term("lit", (value,), bool)
    elif is_enumeration(sort):
        if isinstance(value, sort):
            return Term("lit", (value,), sort)
    elif is_id(sort):
        if type(value) is sort:
            return Term("lit", (int(value),), sort)  # type: ignore[call-overload]
    elif sort is int and isinstance(value, int) and not isinstance(value, bool):
        return Term("lit", (int(value),), int)
    raise SortMismatch(f"expected {name_of(sort)}, got {describe(value)}")


def sort_of(value: object) -> Any:
    """The sort of a concrete or symbolic value."""
    if isinstance(value, Term):
        return value.sort
    kind = type(value)
    return kind if kind is bool or is_id(kind) or is_enumeration(kind) else int


def conjunction(parts: list[Term]) -> Term:
    """All of the parts."""
    flat = [part for part in parts if not is_literal(part, True)]
    return flat[0] if len(flat) == 1 else Term("and", tuple(flat), bool) if flat else TRUE


def same(left: Term, right: Term) -> bool:
    """Are two terms made alike of the same fields? Others than fields never count as the same."""
    return left is right or (
        left.op == right.op
        and left.sort is right.sort
        and len(left.args) == len(right.args)
        and all(
            same(a, b) if isinstance(a, Term) and isinstance(b, Term) else type(a) is type(b) is str and a == b
            for a, b in zip(left.args, right.args, strict=True)
        )
    )


def is_literal(term: Term, value: object) -> bool:
    """Is the term this literal?"""
    return term.op == "lit" and term.args[0] is value


def children(term: Term) -> Iterator[Term]:
    """The terms directly inside a term, those of the table versions that it reads included."""
    for arg in term.args:
        if isinstance(arg, Term):
            yield arg
        elif isinstance(arg, Version):
            yield from version_terms(arg)


def version_terms(version: Version) -> Iterator[Term]:
    """The terms inside a table version and its ancestors."""
    step: Version | None = version
    while step is not None:
        for part in step.write[1:]:
            yield from part if isinstance(part, tuple) else (part,)
        step = step.parent


def fields_read(term: Term) -> frozenset[str]:
    """The names of the state fields that a term reads."""
    found: set[str] = set()
    seen: set[int] = set()
    stack = [term]
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if node.op == "field":
            found.add(node.args[0])
        elif node.op == "read":
            found.add(node.args[0].field)
        stack.extend(children(node))
    return frozenset(found)


TRUE = Term("lit", (True,), bool)
FALSE = Term("lit", (False,), bool)
