"""What a spec function may be written with: anything that a symbolic reading would miss is rejected, with its line."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import ModuleType

import pytest
from spec_text import STATE, marked_line

from poolproof.spec.language import GuardAfterEffect, NotBoolean, SourceRejected, SpecError, SymbolicBranch

Function = Callable[..., ModuleType]

READS_NOT = "cannot be read symbolically"

REJECTED = {
    "if": ("action", "if pool.is_open:  # here\n    pool.used = 1", f"If {READS_NOT}; actions are straight lines"),
    "while": ("action", "while pool.is_open:  # here\n    pool.used = 1", f"While {READS_NOT}"),
    "for": ("action", "for i in pool.all(Slot):  # here\n    pool.used = 1", f"For {READS_NOT}"),
    "try": ("action", "try:  # here\n    pool.used = 1\nfinally:\n    pool.used = 2", f"Try {READS_NOT}"),
    "with": ("action", "with pool:  # here\n    pool.used = 1", f"With {READS_NOT}"),
    "assert": ("action", "assert pool.is_open  # here", f"Assert {READS_NOT}"),
    "raise": ("action", "raise ValueError  # here", f"Raise {READS_NOT}"),
    "del": ("action", "del pool.used  # here", f"Delete {READS_NOT}"),
    "global": ("action", "global counter  # here", f"Global {READS_NOT}"),
    "import": ("action", "import random  # here", f"Import {READS_NOT}"),
    "inner def": ("action", "def inner():  # here\n    pass", f"FunctionDef {READS_NOT}"),
    "pass": ("action", "pass  # here", f"Pass {READS_NOT}"),
    "bare expression": ("action", "pool.used == 3  # here", f"Expr {READS_NOT}"),
    "list comprehension": ("action", "x = [s for s in pool.all(Slot)]  # here", f"ListComp {READS_NOT}"),
    "generator": ("define", "return all(pool.used > 0 for s in pool.all(Slot))  # here", f"GeneratorExp {READS_NOT}"),
    "conditional": ("action", "pool.used = 1 if pool.is_open else 2  # here", f"IfExp {READS_NOT}"),
    "and": ("action", "require(pool.is_open and amount > 0)  # here", f"BoolOp {READS_NOT}; use the spec language's"),
    "or": ("define", "return pool.is_open or amount > 0  # here", f"BoolOp {READS_NOT}"),
    "not": ("action", "require(not pool.is_open)  # here", f"Not {READS_NOT}"),
    "invert": ("action", "require(~pool.is_open)  # here", f"Invert {READS_NOT}"),
    "walrus": ("action", "require((x := amount) > 0)  # here", f"NamedExpr {READS_NOT}"),
    "f-string": ("action", "x = f'{amount}'  # here", f"JoinedStr {READS_NOT}"),
    "list": ("action", "x = [amount]  # here", f"List {READS_NOT}"),
    "dict": ("action", "x = {slot: amount}  # here", f"Dict {READS_NOT}"),
    "slice": ("define", "return pool.kind[slot:other]  # here", f"Slice {READS_NOT}"),
    "starred": ("action", "x = and_(*pool.kind)  # here", f"Starred {READS_NOT}"),
    "await": ("action", "x = await_(amount)  # here", "await_(...) is neither of the spec language nor a @define'd"),
    "is": ("action", "require(amount is slot)  # here", "`is` and `in` cannot be read symbolically; use == or .has"),
    "is not": ("action", "require(amount is not slot)  # here", "`is` and `in` cannot"),
    "in": ("action", "require(slot in pool.locked)  # here", "`is` and `in` cannot be read symbolically"),
    "not in": ("action", "require(slot not in pool.locked)  # here", "`is` and `in` cannot be read"),
    "chained comparison": ("action", "require(0 <= amount < 5)  # here", "a chained comparison loses half of itself"),
    "bit and": ("action", "require(pool.is_open & (amount > 0))  # here", "operator BitAnd is not part of the spec"),
    "bit or": ("action", "pool.locked = pool.locked | pool.marked  # here", "operator BitOr is not part of the spec"),
    "true division": ("action", "pool.used = amount / 2  # here", "operator Div is not part of the spec language"),
    "power": ("action", "pool.used = amount ** 2  # here", "operator Pow is not part of the spec language"),
    "shift": ("action", "pool.used = 1 << amount  # here", "operator LShift is not part of the spec language"),
    "two targets": ("action", "x = y = amount  # here", "assign one name, field or table entry at a time"),
    "unpacking": ("action", "x, y = pool.kind  # here", "assign one name, field or table entry at a time"),
    "isinstance": ("action", "require(isinstance(amount, int))  # here", f"isinstance(...) {READS_NOT}"),
    "min": ("action", "pool.used = min(amount, 3)  # here", f"min(...) {READS_NOT}"),
    "range": ("define", "return forall(range(3), lambda i: amount > i)  # here", f"range(...) {READS_NOT}"),
    "getattr": ("action", "pool.used = getattr(pool, 'used')  # here", f"getattr(...) {READS_NOT}"),
    "calls a parameter": ("action", "x = holder(slot)  # here", f"holder(...) {READS_NOT}"),
    "calls a result": ("action", "x = holds_it(slot)(other)  # here", f"holds_it(slot)(...) {READS_NOT}"),
    "calls a lambda": ("action", "x = (lambda: amount)()  # here", f"lambda: amount(...) {READS_NOT}"),
    "calls a method": ("action", "x = pool.kind.get(slot)  # here", f"pool.kind.get(...) {READS_NOT}"),
    "calls a module": ("action", "pool.used = random.randint(0, 3)  # here", f"random.randint(...) {READS_NOT}"),
    "copies the state": ("action", "x = pool.copy()  # here", f"pool.copy(...) {READS_NOT}"),
    "perform in an expression": ("action", "x = perform(shut, pool, slot)  # here", "perform is a statement of an"),
    "perform in a connective": (
        "action",
        "require(and_(pool.is_open, lambda: perform(shut, pool, slot)))  # here",
        "perform is a statement of an action, never part of an expression",
    ),
    "perform in a definition": ("define", "perform(shut, pool, slot)  # here\nreturn True", "has no effects"),
    "perform in a claim": (
        "theorem",
        "return implies(pool.is_open, perform(shut, pool, slot) == 0)  # here",
        "perform is a statement of an action",
    ),
    "perform by another name": ("action", "act_as(shut, pool, slot)  # here", "neither a guard nor an effect; was"),
    "unpacked pair": ("action", "x, y = (slot, other)  # here", "assign one name, field or table entry at a time"),
    "starred in a key": ("define", "return pool.kind[*pool.kind] == Kind.FREE  # here", f"Starred {READS_NOT}"),
    "none in an effect": ("action", "pool.locked.none()  # here", "neither a guard nor an effect; was require"),
    "return in an action": ("action", "return pool.used  # here", "return stands only at the end of a definition"),
    "effect in a definition": ("define", "pool.used = 1  # here\nreturn True", "a definition or claim has no effects"),
    "call in a definition": (
        "define",
        "pool.free.empty()  # here\nreturn True",
        "a definition or claim has no effects",
    ),
    "return too early": ("define", "return amount > 0  # here\nreturn amount > 1", "return stands only at the end"),
    "require in an expression": ("action", "x = require(amount > 0)  # here", "require is a statement of an action"),
    "require in a connective": ("action", "require(and_(amount > 0, require(True)))  # here", "require is a statement"),
    "guard that is none": (
        "action",
        "and_(amount > 0, pool.is_open)  # here",
        "neither a guard nor an effect; was",
    ),
    "definition as guard": ("action", "is_good(pool)  # here", "is_good(pool) is neither a guard nor an effect"),
    "effect in a value": ("action", "x = pool.free.remove(slot)  # here", ".remove(...) is an effect and stands as a"),
    "effect in a branch": (
        "action",
        "pool.used = ite(pool.is_open, lambda: pool.free.add(slot), 0)  # here",
        ".add(...) is an effect and stands as a statement of its own",
    ),
    "effect in a guard": ("action", "require(pool.free.empty() == 0)  # here", ".empty(...) is an effect"),
    "effect in a claim": (
        "theorem",
        "return implies(pool.is_open, lambda: pool.kind.relabel(lambda s: Kind.FREE) == 0)  # here",
        ".relabel(...) is an effect",
    ),
    "pick in an effect": ("action", "pool.holder[pool.free.pick()] = holder  # here", ".pick() stands only in witness"),
    "pick in a claim": ("theorem", "return pool.free.has(pool.free.pick())  # here", ".pick() stands only in witness"),
    "helper that is not registered": ("action", "x = helper(amount)  # here", "helper(...) is neither of the spec"),
    "class that is no sort": ("action", "x = Other(amount)  # here", "Other(...) is no sort of the spec language"),
    "action in an action": ("action", "x = shut(pool)  # here", "shut(...) is an action; only enabled(...) and after"),
    "action in a claim": ("theorem", "return shut(pool) == amount  # here", "shut(...) is an action; only enabled"),
    "initializer in an action": ("action", "x = create(pool)  # here", "create(...) is an action; only enabled"),
    "batch in an action": ("action", "x = shut_all(pool, slot)  # here", "shut_all(...) is Batch; call it by its own"),
    "require by another name": (
        "action",
        "x = demand(amount > 0)  # here",
        "demand(...) is require; call it by",
    ),
    "implies by another name": (
        "theorem",
        "return so(pool.is_open, amount > 0)  # here",
        "so(...) is implies; call",
    ),
    "constant of a module": ("theorem", "return amount > random.LIMIT  # here", "random is a module; import"),
    "list of constants": ("theorem", "return amount > LIMITS[0]  # here", "LIMITS is a list, which can change"),
    "definition by another name": ("theorem", "return fine(pool)  # here", "fine(...) is neither of the spec language"),
}

MORE = """
import random

from poolproof.spec.language import implies as so
from poolproof.spec.language import perform as act_as
from poolproof.spec.language import require as demand


LIMITS = [3]


def helper(amount):
    return amount + 1


def holds_it(slot):
    return helper


class Other:
    pass
"""

ALSO = '''
@define
def is_good(pool: Pool) -> Bool:
    """Is the pool good?"""
    return pool.used >= 0


@action
def shut(pool: Pool, slot: Slot) -> None:
    """The pool closes."""
    pool.is_open = False


shut_all = batch(shut, over="slot", doc="Nonsense.")


def fine(pool):
    return is_good(pool)

'''


@pytest.mark.parametrize(("kind", "body", "message"), REJECTED.values(), ids=REJECTED)
def test_what_cannot_be_read_symbolically_is_rejected(function: Function, kind: str, body: str, message: str) -> None:
    with pytest.raises(SourceRejected) as caught:
        function(kind, body, head=MORE, state=STATE + ALSO)
    assert message in str(caught.value)
    named = re.match(r".*\.py:(\d+): ", str(caught.value))
    assert named is not None
    assert int(named.group(1)) == marked_line(caught.value)


def test_a_guard_after_an_effect_is_rejected_with_both_lines(function: Function) -> None:
    with pytest.raises(GuardAfterEffect) as caught:
        function("action", "pool.used = 1\nrequire(pool.is_open)  # here")
    line = marked_line(caught.value)
    said = f":{line}: require stands after the effect in line {line - 1}; guards come first"
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("body", "later"),
    [
        ("pool.used = 1\nperform(shut, pool, slot)  # here", "perform brings guards of its own; it stands before"),
        ("perform(shut, pool, slot)\nperform(shut, pool, other)  # here", "perform brings guards of its own"),
        ("perform(shut, pool, slot)\nrequire(pool.is_open)  # here", "require stands after the effect"),
    ],
    ids=["perform after an effect", "two performed actions", "a guard after a performed action"],
)
def test_a_performed_action_stands_between_guards_and_effects(function: Function, body: str, later: str) -> None:
    with pytest.raises(GuardAfterEffect) as caught:
        function("action", body, state=STATE + ALSO)
    assert f":{marked_line(caught.value)}: {later}" in str(caught.value)


def test_tuples_are_keys_and_no_truth_values(function: Function) -> None:
    """Python would compare tuples part by part, and ask each comparison whether it is true."""
    made = function("action", "place = (slot, other)\nrequire(pool.all(Slot).has(place[0]))\npool.used = amount")
    assert [item.name for item in made.SPEC.actions] == ["act"]
    for body in ("require((slot, other) == (other, slot))", "require((slot, holder) < (other, holder))"):
        with pytest.raises(SymbolicBranch, match="as a Python truth value"):
            function("action", f"{body}\npool.used = amount")
    for body in ("require((slot, other))", "require(and_(pool.is_open, (slot, other)))", "require(not_((slot,)))"):
        with pytest.raises(NotBoolean, match=r"must be (given )?a truth value"):
            function("action", f"{body}\npool.used = amount")


def test_a_guard_after_a_changed_parameter_is_rejected(function: Function) -> None:
    with pytest.raises(GuardAfterEffect, match="require stands after the effect"):
        function("action", "amount += 1\nrequire(amount > 0)")


def test_a_guard_cannot_hide_in_a_helper(function: Function) -> None:
    with pytest.raises(SourceRejected, match="a definition or claim has no effects"):
        function("define", "require(pool.is_open)\nreturn True")


def test_a_guard_after_an_effect_is_seen_by_tracing_too() -> None:
    """Where the source did not show it: a body that was put together some other way."""
    import depot

    from poolproof.spec.language import require
    from poolproof.spec.language.symbolic import SymbolicState
    from poolproof.spec.language.tracing import Trace, tracing

    def hides(state: depot.Depot) -> None:
        state.reds = 1
        require(state.is_open)

    with tracing(Trace()), pytest.raises(GuardAfterEffect, match="move every guard to the front of the action"):
        hides(SymbolicState.base(depot.Depot))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "@action\ndef act(pool: Pool) -> None:\n    pool.used = 1",
        "@define\ndef look(pool: Pool) -> Bool:\n    return pool.is_open",
        "@invariant('I1')\ndef holds(pool: Pool) -> Bool:\n    return pool.is_open",
        "@theorem('I1')\ndef follows(pool: Pool) -> Bool:\n    return pool.is_open",
    ],
)
def test_a_missing_docstring_is_loud(pool_spec: Function, text: str) -> None:
    with pytest.raises(SpecError, match="every spec function says in a docstring what it means"):
        pool_spec(text)


def test_a_function_without_source_is_loud() -> None:
    from poolproof.spec.language import action

    scope: dict[str, object] = {}
    exec("def act(pool):\n    'What it means.'\n    pool.used = 1", scope)
    with pytest.raises(SourceRejected, match="a spec function needs its source at hand"):
        action(scope["act"])  # type: ignore[type-var]


def test_a_lambda_is_no_spec_function() -> None:
    from poolproof.spec.language import define

    with pytest.raises(SourceRejected, match="a spec function is a plain `def`"):
        define(lambda pool: pool.used > 0)


def test_what_is_allowed_is_accepted(function: Function) -> None:
    """Local names, annotated ones too, arithmetic, keywords and lambdas are all part of the language."""
    made = function(
        "action",
        """
        kind: Kind = Kind.FREE
        before = pool.used
        require(and_(pool.all(Slot).has(slot), lambda: pool.kind[slot] != kind))
        require(exists(pool.all(Slot), lambda s: s != slot, witness=lambda: pool.free.pick()))
        pool.used += -before % 7 + 3 * (amount // 2) - 1
        pool.kind.relabel(lambda s: kind, where=lambda s: s < slot)
        pool.locked = pool.locked.join(pool.marked).without(slot)
        """,
    )
    assert [item.name for item in made.SPEC.actions] == ["act"]


def test_halves_are_the_guards_and_the_effects(function: Function) -> None:
    made = function(
        "action", "before = pool.used\nrequire(before > 0)\nrequire(pool.is_open)\npool.used = before + amount"
    )
    state = made.SPEC.initial(total=2)
    item = made.SPEC.action("act")
    item.effects(state, 0, 0, 0, 5)
    assert state.used == 5
    state.is_open = True
    item.guards(state, 0, 0, 0, 5)
    assert state.used == 5
