"""A specification is checked as a whole when it is made: nothing is declared that would silently not be proved."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import depot
import pytest
from spec_text import HEAD, STATE, TAIL

from poolproof.spec.language import NotBoolean, SpecError, item_of, variant

PoolSpec = Callable[..., ModuleType]

INCREASE = '''
@action
def increase(pool: Pool, amount: Int) -> None:
    """The count grows."""
    require(amount > 0)
    pool.used += amount
'''

WRONG = {
    "two initial states": (
        "@initial\ndef again(pool: Pool) -> None:\n    'Once more.'\n    pool.used = 1",
        "needs exactly one @initial function",
    ),
    "two actions of one name": (INCREASE + INCREASE, "has two spec functions named increase"),
    "two invariants of one name": (
        "@invariant('I1')\ndef sound(pool: Pool) -> Bool:\n    'False.'\n    return pool.used == 1\n\n\n"
        "@invariant('I1')\ndef sound(pool: Pool) -> Bool:\n    'True.'\n    return pool.used >= 0",
        "has two spec functions named sound",
    ),
    "a step and an invariant of one name": (
        "@invariant('I1')\ndef sound(pool: Pool) -> Bool:\n    'One.'\n    return pool.used >= 0\n\n\n"
        "@step('I1')\ndef sound(pre: Pool, post: Pool) -> Bool:\n    'Two.'\n    return pre.used <= post.used",
        "has two spec functions named sound",
    ),
    "ensures with other parameters": (
        INCREASE + "\n\n@ensures(increase, 'I1')\ndef grows(pre: Pool, post: Pool, slot: Slot) -> Bool:\n    'Grows.'\n"
        "    return pre.used < post.used",
        "grows: ensures takes the parameters of increase",
    ),
    "ensures without the parameters": (
        INCREASE + "\n\n@ensures(increase, 'I1')\ndef grows(pre: Pool, post: Pool) -> Bool:\n    'Grows.'\n"
        "    return pre.used < post.used",
        "grows: ensures takes the parameters of increase",
    ),
    "ensures about a definition": (
        "@define\ndef fine(pool: Pool) -> Bool:\n    'Fine.'\n    return pool.used >= 0\n\n\n"
        "@ensures(fine, 'I1')\ndef grows(pre: Pool, post: Pool) -> Bool:\n    'Grows.'\n"
        "    return pre.used < post.used",
        "grows: ensures is about an action of the same module, not about fine",
    ),
    "ensures with one state": (
        INCREASE + "\n\n@ensures(increase, 'I1')\ndef grows(post: Pool, amount: Int) -> Bool:\n    'Grows.'\n"
        "    return post.used > amount",
        r"ensures grows takes 2 state\(s\), not 1",
    ),
    "a step about one state": (
        "@step('I1')\ndef grows(pre: Pool) -> Bool:\n    'Grows.'\n    return pre.used >= 0",
        r"step grows takes 2 state\(s\), not 1",
    ),
    "a theorem about two states": (
        "@theorem('I1')\ndef grows(pre: Pool, post: Pool) -> Bool:\n    'Grows.'\n    return pre.used <= post.used",
        r"theorem grows takes 1 state\(s\), not 2",
    ),
    "an invariant with a parameter": (
        "@invariant('I1')\ndef sound(pool: Pool, slot: Slot) -> Bool:\n    'One.'\n    return pool.used >= 0",
        r"invariant sound takes no parameter after the state\(s\)",
    ),
    "a parameter of no sort": (
        "@action\ndef act(pool: Pool, label: str) -> None:\n    'Text.'\n    pool.used = 1",
        "act: label cannot be of the sort str",
    ),
    "a parameter that is a set": (
        "@action\ndef act(pool: Pool, slots: Set[Slot]) -> None:\n    'A set.'\n    pool.used = 1",
        "act: slots cannot be of the sort",
    ),
    "a parameter without annotation": (
        "@action\ndef act(pool: Pool, slot) -> None:\n    'Bare.'\n    pool.used = 1",
        r"act: parameter\(s\) slot need an annotation",
    ),
    "a claim without parentheses": (
        "@invariant\ndef sound(pool: Pool) -> Bool:\n    'Bare.'\n    return pool.used >= 0",
        r"@invariant takes names of theorems in parentheses, for example @invariant\('I1'\), or @invariant\(\)",
    ),
    "a step without parentheses": (
        "@step\ndef sound(pre: Pool, post: Pool) -> Bool:\n    'Bare.'\n    return pre.used >= post.used",
        "@step takes names of theorems in parentheses",
    ),
    "enabled without an argument": (
        INCREASE + "\n\n@theorem('I1')\ndef sound(pool: Pool) -> Bool:\n    'Short.'\n"
        "    return enabled(increase, pool)",
        "increase takes the arguments amount, not 0",
    ),
    "a guard that is always false": (
        "@action\ndef act(pool: Pool) -> None:\n    'Never.'\n    require(False)\n    pool.used = 1",
        "act: a guard is false whatever the state",
    ),
    "an action that asks whether it is allowed": (
        "@action\ndef act(pool: Pool) -> None:\n    'Itself.'\n    require(enabled(act, pool))\n    pool.used = 1",
        "act reads itself through enabled or after",
    ),
    "counts over a set": (
        "@invariant('I1')\ndef sound(pool: Pool) -> Bool:\n    'Set.'\n"
        "    return counts(pool.used, pool.locked, lambda slot: slot > Slot(0))",
        r"counts\(...\) counts over pool.all\(Kind\) or between\(low, high\), not over a set",
    ),
    "an action named as another part of claims": (
        "@action\ndef theorem(pool: Pool) -> None:\n    'Confusing.'\n    pool.used = 1",
        "an action cannot be named theorem",
    ),
}


@pytest.mark.parametrize(("text", "message"), WRONG.values(), ids=WRONG)
def test_what_does_not_fit_together_is_loud(pool_spec: PoolSpec, text: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        pool_spec(text)


@pytest.mark.parametrize("kind", ["invariant", "theorem"])
def test_a_claim_that_does_not_look_at_the_state_is_loud(pool_spec: PoolSpec, kind: str) -> None:
    with pytest.raises(NotBoolean, match=f"{kind} sound is True whatever the state; it must look at the state"):
        pool_spec(f"@{kind}('I1')\ndef sound(pool: Pool) -> Bool:\n    'Always.'\n    return or_(True, pool.is_open)")


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (
            "invariant",
            "@invariant('I1')\ndef sound(pool: Pool) -> Bool:\n    'Nested.'\n"
            "    return implies(pool.is_open, lambda: {})",
        ),
        ("theorem", "@theorem('I1')\ndef sound(pool: Pool) -> Bool:\n    'Nested.'\n    return not_({})"),
        ("action", "@action\ndef act(pool: Pool) -> None:\n    'Nested.'\n    require(not_({}))\n    pool.used = 1"),
    ],
)
def test_counts_that_are_not_the_whole_of_an_invariant_are_loud(pool_spec: PoolSpec, kind: str, text: str) -> None:
    from poolproof.proofs.obligations import Generator

    made = pool_spec(text.format("counts(pool.used, pool.all(Slot), lambda s: pool.free.has(s))"))
    with pytest.raises(SpecError, match="whole body of an invariant"):
        [obligation.text for obligation in Generator(made.SPEC).all()]


def test_an_initial_state_has_no_guards(module: Callable[[str], ModuleType]) -> None:
    guarded = STATE.replace('is free."""\n', 'is free."""\n    require(pool.total > 1)\n')
    with pytest.raises(SpecError, match="create: the initial state has no guards"):
        module(HEAD + guarded + TAIL)


def test_a_module_without_an_initial_state_is_loud(module: Callable[[str], ModuleType]) -> None:
    with pytest.raises(SpecError, match="needs exactly one @initial function"):
        module(HEAD + STATE[: STATE.index("@initial")] + TAIL)


def test_a_least_size_of_no_size_is_loud(module: Callable[[str], ModuleType]) -> None:
    with pytest.raises(SpecError, match="pool: at_least names no size: totl"):
        module(HEAD + STATE + TAIL.replace('"total": 1', '"totl": 1'))


FIELDS = {
    "Ghost[Inner]": "Pool.extra: a component is no ghost; mark its fields instead",
    "Map[Slot, str]": "Pool.extra: a state cannot hold",
    "Map[Slot, Map[Slot, Int]]": "Pool.extra: a state cannot hold",
    "Map[Slot, Set[int]]": "Pool.extra: a state cannot hold",
    "Map[Slot, Roster[tuple[Slot, Slot]]]": "Pool.extra: a state cannot hold",
    "Map[tuple[Slot, int], Int]": "Pool.extra: a state cannot hold",
    "Map[tuple[Slot, ...], Int]": "Pool.extra: a state cannot hold",
    "Set[tuple[Slot, int]]": "Pool.extra: a state cannot hold",
    "Roster[tuple[Slot, Slot]]": "Pool.extra: a state cannot hold",
    "Map[tuple[Slot, Holder], Int]": r"Pool.extra: a table needs a Size\[...\] of its keys beside it",
    "Map[Holder, Set[Slot]]": r"Pool.extra: a table needs a Size\[...\] of its keys beside it",
    "Map[Holder, Roster[Slot]]": r"Pool.extra: a table needs a Size\[...\] of its keys beside it",
    "Map[Slot, Roster[Holder]]": r"Pool.extra: a table needs a Size\[...\] of its keys beside it",
    "Given[Set[Slot]]": "Pool.extra: only single values and tables of them are given",
    "Given[Roster[Slot]]": "Pool.extra: only single values and tables of them are given",
    "Given[Map[Slot, Set[Slot]]]": "Pool.extra: only single values and tables of them are given",
    "Given[Map[tuple[Slot, Slot], Int]]": "Pool.extra: a given table has one key",
    "Map[int, Int]": "Pool.extra: a state cannot hold",
    "Map[Holder, Int]": r"Pool.extra: a table needs a Size\[...\] of its keys beside it",
    "Roster[Holder]": r"Pool.extra: a table needs a Size\[...\] of its keys beside it",
    "Set[int]": "Pool.extra: a state cannot hold",
    "Size[int]": "Pool.extra: a state cannot hold",
    "float": "Pool.extra: a state cannot hold <class 'float'>",
    "list[Slot]": "Pool.extra: a state cannot hold",
}

INNER = '''

class Inner(State):
    """A component."""

    level: Int
'''


@pytest.mark.parametrize(("annotation", "message"), FIELDS.items(), ids=FIELDS)
def test_a_state_holds_only_what_can_be_read_symbolically(
    module: Callable[[str], ModuleType], annotation: str, message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        module(HEAD + INNER + STATE.replace("is_open: Bool\n", f"is_open: Bool\n    extra: {annotation}\n") + TAIL)


def test_two_sizes_of_one_kind_are_loud(module: Callable[[str], ModuleType]) -> None:
    """The readings would not agree on which of them the ids run up to."""
    with pytest.raises(SpecError, match="Pool: two sizes count the same kind of id"):
        module(HEAD + STATE.replace("is_open: Bool\n", "is_open: Bool\n    spare: Size[Slot]\n") + TAIL)


@pytest.mark.parametrize(
    "name", ["all", "copy", "key", "plain", "blank", "get", "put", "write", "note", "base", "snapshot"]
)
def test_names_that_the_language_needs_are_no_fields(module: Callable[[str], ModuleType], name: str) -> None:
    """A symbolic state would give its own method, which equals nothing."""
    with pytest.raises(SpecError, match=rf"Pool\.{name}: the name is taken by the language; choose another"):
        module(HEAD + STATE.replace("is_open: Bool\n", f"is_open: Bool\n    {name}: Int\n") + TAIL)


def test_an_unknown_action_is_named_with_the_known_ones() -> None:
    with pytest.raises(SpecError, match="depot has no action 'paynt'; it has stow, stow_anywhere, swap, paint"):
        depot.SPEC.action("paynt")


def test_another_body_must_have_the_parameters_of_its_action(pool_spec: PoolSpec) -> None:
    made = pool_spec(INCREASE)

    def other(pool: depot.Depot, crate: depot.Crate) -> None:
        """Wrong parameters."""
        pool.reds = 1

    with pytest.raises(SpecError, match="other: its parameters must have the sorts of increase's"):
        made.SPEC.with_body(made.SPEC.action("increase"), variant(made.increase)(other))


def test_enabled_and_after_read_the_body_of_the_specification(pool_spec: PoolSpec) -> None:
    from poolproof.spec.language import after, enabled

    made = pool_spec(
        INCREASE + INCREASE.replace("@action\ndef increase", "@variant(increase)\ndef careless").replace("> 0", "> -5")
    )
    changed = made.SPEC.with_body(made.SPEC.action("increase"), made.careless)
    state = made.SPEC.initial(total=1)
    assert not enabled(made.increase, state, -3)
    with changed.active():
        assert enabled(made.increase, state, -3)
        assert after(made.increase, state, -3).used == -3
    assert not enabled(made.increase, state, -3)
    assert [item.name for item in made.SPEC.actions] == [item.name for item in changed.actions] == ["increase"]
    assert item_of(made.careless).kind == "action"
