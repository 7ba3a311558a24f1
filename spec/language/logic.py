"""The connectives of the spec language, for concrete and for symbolic values alike.

The right-hand parts of `and_`, `or_`, `implies` and `ite` may be lambdas: they are only read where the left side lets
them be, so a table may be indexed there by an id that the left side has found to be good.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import CodeType
from typing import Any, TypeVar, cast, overload

from poolproof.spec.language import tracing
from poolproof.spec.language.errors import NotBoolean, Refused, SortMismatch
from poolproof.spec.language.symbolic import SymbolicIds, boolean
from poolproof.spec.language.terms import Term, lift, sort_of

T = TypeVar("T")
Lazy = bool | Callable[[], bool]

premises_met: set[tuple[CodeType, int]] | None = None
"""Where not None, `implies` records where it was called with a true premise: the explorer's premise witnesses."""


def _value(part: Any) -> Any:
    return part() if callable(part) else part


def _truth(value: Any) -> bool:
    """A symbolic truth value, typed as the concrete one that it stands for."""
    return cast(bool, value)


def _concrete(value: Any, what: str) -> bool:
    if value is True or value is False:
        return value
    raise NotBoolean(f"{what} must be a truth value, got {type(value).__name__} {value!r}")


def require(condition: bool) -> None:
    """A guard. Every guard of an action precedes every effect.

    Raises:
        Refused: the condition is false (run reading).
        GuardAfterEffect: an effect came first (symbolic reading).
    """
    if condition is True:
        return
    if condition is False:
        raise Refused
    if not isinstance(condition, Term):
        raise NotBoolean(f"require must be given a truth value, got {type(condition).__name__} {condition!r}")
    tracing.current().guard(boolean(condition, "require"))


def and_(*parts: Lazy) -> bool:
    """All parts hold; a lambda is read only where the parts before it hold."""
    for index, part in enumerate(parts):
        value = part() if callable(part) else part
        if value is True:
            continue
        if value is False:
            return False
        if isinstance(value, Term):
            return _symbolic_chain("and", value, parts[index + 1 :])
        _concrete(value, "a part of and_")
    return True


def or_(*parts: Lazy) -> bool:
    """Some part holds; a lambda is read only where no part before it holds."""
    for index, part in enumerate(parts):
        value = part() if callable(part) else part
        if value is False:
            continue
        if value is True:
            return True
        if isinstance(value, Term):
            return _symbolic_chain("or", value, parts[index + 1 :])
        _concrete(value, "a part of or_")
    return False


def _symbolic_chain(op: str, first: Term, rest: tuple[Any, ...]) -> Any:
    """The symbolic form of `and_` or `or_`, each part read under what the earlier ones leave open."""
    first = boolean(first, f"a part of {op}_")
    if not rest:
        return first
    assumed = first if op == "and" else Term("not", (first,), bool)
    with tracing.current().assuming(assumed):
        second = boolean(_value(rest[0]), f"a part of {op}_")
        others = _symbolic_chain(op, second, rest[1:])
    return Term(op, (first, others), bool)


def not_(condition: bool) -> bool:
    """The condition does not hold."""
    if isinstance(condition, Term):
        return _truth(Term("not", (boolean(condition, "not_"),), bool))
    return not _concrete(condition, "not_")


def implies(premise: bool, conclusion: Lazy) -> bool:
    """The conclusion holds wherever the premise does."""
    if isinstance(premise, Term):
        left = boolean(premise, "the premise of implies")
        with tracing.current().assuming(left):
            right = boolean(_value(conclusion), "the conclusion of implies")
        return _truth(Term("=>", (left, right), bool))
    if not _concrete(premise, "the premise of implies"):
        return True
    if premises_met is not None:
        frame = sys._getframe(1)
        premises_met.add((frame.f_code, frame.f_lasti))
    value = _value(conclusion)
    return _truth(value) if isinstance(value, Term) else _concrete(value, "the conclusion of implies")


def iff(left: bool, right: bool) -> bool:
    """Both hold or neither does."""
    if isinstance(left, Term) or isinstance(right, Term):
        return _truth(Term("=", (boolean(left, "iff"), boolean(right, "iff")), bool))
    return _concrete(left, "iff") is _concrete(right, "iff")


@overload
def ite(condition: bool, then: Callable[[], T], otherwise: Callable[[], T]) -> T: ...
@overload
def ite(condition: bool, then: Callable[[], T], otherwise: T) -> T: ...
@overload
def ite(condition: bool, then: T, otherwise: Callable[[], T]) -> T: ...
@overload
def ite(condition: bool, then: T, otherwise: T) -> T: ...
def ite(condition: bool, then: Any, otherwise: Any) -> Any:
    """`then` where the condition holds, `otherwise` where it does not; lambdas are read only on their side."""
    if not isinstance(condition, Term):
        return _value(then if _concrete(condition, "the condition of ite") else otherwise)
    test = boolean(condition, "the condition of ite")
    trace = tracing.current()
    with trace.assuming(test):
        yes = _value(then)
    with trace.assuming(Term("not", (test,), bool)):
        no = _value(otherwise)
    sort = sort_of(yes) if isinstance(yes, Term) or not isinstance(no, Term) else sort_of(no)
    return Term("ite", (test, lift(yes, sort), lift(no, sort)), sort)


def forall(domain: Iterable[T], body: Callable[..., bool]) -> bool:
    """The body holds for every element of the domain (`pool.all(Kind)`, `between(low, high)`, or a set).

    Over a set of tuples the body takes their parts.
    """
    if hasattr(domain, "quantify"):
        return _truth(domain.quantify("forall", body))
    for item in domain:
        value = body(*item) if isinstance(item, tuple) else body(item)
        if value is False:
            return False
        if value is not True:
            return _mixed(value, "forall")
    return True


def exists(domain: Iterable[T], body: Callable[..., bool], witness: Callable[[], T] | None = None) -> bool:
    """The body holds for some element of the domain. In a goal `witness` names it, which the solver needs."""
    if hasattr(domain, "quantify"):
        return _truth(domain.quantify("exists", body, witness))
    for item in domain:
        value = body(*item) if isinstance(item, tuple) else body(item)
        if value is True:
            return True
        if value is not False:
            return _mixed(value, "exists")
    return False


def _mixed(value: Any, what: str) -> Any:
    if isinstance(value, Term):
        raise SortMismatch(f"{what} over a concrete domain met a symbolic body; use between(...) or pool.all(...)")
    return _concrete(value, f"the body of {what}")


def between(low: int, high: int) -> Iterable[int]:
    """The integers low .. high - 1."""
    if isinstance(low, Term) or isinstance(high, Term):
        return cast(Iterable[int], SymbolicIds(int, lift(low, int), lift(high, int)))
    return range(low, high)


def counts(counter: int, domain: Iterable[T], predicate: Callable[[T], bool]) -> bool:
    """The counter is the number of elements for which the predicate holds. Only as the whole body of an invariant.

    Counting is not first-order. The claim is proved by what each write changes: if only the entries k1, k2, ... of the
    tables that the predicate reads were written, the count changes by the sum of the changes at those entries.
    """
    if isinstance(counter, Term) and not isinstance(domain, SymbolicIds):
        raise SortMismatch("counts(...) counts over pool.all(Kind) or between(low, high), not over a set")
    if not isinstance(domain, SymbolicIds):
        return counter == sum(_concrete(predicate(item), "the predicate of counts") for item in domain)
    trace = tracing.current()
    variable = trace.fresh(domain.sort)
    with trace.binding(variable, domain.low, domain.high):
        inside = boolean(predicate(cast(Any, variable)), "the predicate of counts")
    return _truth(Term("counts", (lift(counter, int), variable, domain.low, domain.high, inside), bool))


__all__ = [
    "and_",
    "between",
    "counts",
    "exists",
    "forall",
    "iff",
    "implies",
    "ite",
    "not_",
    "or_",
    "require",
]
