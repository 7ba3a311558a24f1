"""Tables with several keys, tables of rosters and sets, given fields, and actions that perform a component's."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import ModuleType
from typing import Any

import annex
import pytest
import stacks
from differential import Chance
from spec_text import HEAD
from stacks import Box, Clerk, Gram, Material, Shelf

from poolproof.proofs.concrete import run
from poolproof.proofs.counterexample import state_from_plain
from poolproof.proofs.lowered import observed
from poolproof.proofs.obligations import Generator
from poolproof.proofs.solver import SHORT_LIMIT, solve
from poolproof.spec.language import (
    GhostLeak,
    IllDefined,
    Refused,
    SortMismatch,
    SpecError,
    after,
    enabled,
    exists,
    forall,
    ids,
)
from poolproof.spec.language.symbolic import SymbolicState
from poolproof.spec.language.tracing import Trace, tracing

Module = Callable[[str], ModuleType]

SIZES: dict[str, Any] = {"shelves": 2, "boxes": 3, "clerks": 2, "weight": [1, 3], "material": [Material.WOOD] * 2}
SIZES |= {"limit": 3, "front": 1, "is_cold": False}


@pytest.fixture
def state() -> Any:
    """The stacks at first."""
    return stacks.SPEC.initial(**SIZES)


# ---------------------------------------------------------------------------------------------------------- containers


def test_a_table_of_pairs_is_total_over_them(state: Any) -> None:
    assert list(state.label) == [(k, i) for k in range(2) for i in range(3)]
    assert list(state.trips)[:4] == [(0, 0, 0), (0, 0, 1), (0, 0, 2), (0, 1, 0)]
    assert list(state.label.values()) == [0, 1, 2, 0, 3, 6]
    state.label[1, 2] = 9
    assert (state.label[1, 2], state.label[0, 2]) == (9, 2)
    state.label.relabel(lambda k, i: state.label[k, (i + 1) % 3], where=lambda k, i: k == 0)
    assert list(state.label.values()) == [1, 2, 0, 0, 3, 9]


@pytest.mark.parametrize("key", [(2, 0), (0, 3), (-1, 0), (0, -1), (0, 0, 0), (1,), 1])
def test_a_table_of_pairs_is_read_and_written_inside_only(state: Any, key: Any) -> None:
    before = observed(state)
    with pytest.raises(IllDefined, match="outside a table of 6 entries"):
        state.label[key]
    with pytest.raises(IllDefined, match="outside a table of 6 entries"):
        state.label[key] = 1
    assert observed(state) == before


def test_rosters_of_a_table_are_apart(state: Any) -> None:
    state.free[1].remove(2)
    state.out[1].add(2)
    assert [sorted(roster) for roster in state.free.values()] == [[0, 1, 2], [0, 1]]
    assert [roster.size for roster in state.out.values()] == [0, 1]
    state.free[0].remove(2)
    state.free[0].absorb(state.out[1])
    assert sorted(state.free[0]) == [0, 1, 2]
    state.out.fill(lambda k: k, lambda k: 3)
    assert [sorted(roster) for roster in state.out.values()] == [[0, 1, 2], [1, 2]]
    state.out.empty()
    assert [roster.size for roster in state.out.values()] == [0, 0]
    state.queue.fill(lambda k, c: c, lambda k, c: k + 1)
    assert [sorted(roster) for roster in state.queue.values()] == [[0], [], [0, 1], [1]]


ILL_DEFINED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "no such roster": (lambda s: s.free[2], "read at 2, outside a table of 2 entries"),
    "no such set": (lambda s: s.reads[-1], "read at -1, outside a table of 2 entries"),
    "a set that is not there": (lambda s: s.reads.__setitem__(2, s.loans), "write at 2, outside a table of 2 entries"),
    "no such member": (lambda s: s.free[0].has(3), "3 is outside a table of 3 entries"),
    "added twice": (lambda s: s.free[0].add(0), "0 is a member already"),
    "removed twice": (lambda s: s.out[0].remove(0), "0 is not a member"),
    "absorbed by itself": (lambda s: s.free[0].absorb(s.free[1]), "the rosters have members in common"),
    "one filled too far": (lambda s: s.free[0].fill(0, 4), "0 .. 4 is outside a table of 3 entries"),
    "all filled too far": (lambda s: s.out.fill(lambda k: 0, lambda k: 2 + k * 2), "0 .. 4 is outside a table of 3"),
    "nothing to pick": (lambda s: s.out[1].pick(), "an empty roster has no member to pick"),
}


@pytest.mark.parametrize(("use", "message"), ILL_DEFINED.values(), ids=ILL_DEFINED)
def test_a_misused_table_of_containers_is_ill_defined(state: Any, use: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(IllDefined, match=message):
        use(state)


def test_sets_of_pairs_are_values(state: Any) -> None:
    state.reads[0] = state.reads[0].with_((1, 2)).with_((0, 5))
    state.reads[1] = state.reads[0].without((1, 2))
    assert state.plain()["reads"] == [[[0, 5], [1, 2]], [[0, 5]]]
    assert state.reads[0].minus(state.reads[1]) == {(1, 2)}
    assert state.reads[1].join(ids([(0, 0)])) == {(0, 5), (0, 0)}
    assert not state.reads[0].disjoint(state.reads[1])
    assert (state.reads[0].has((1, 2)), state.reads[0].has((2, 1)), state.reads[0].none()) == (True, False, set())
    assert forall(state.reads[0], lambda k, i: k + i > 2)
    assert exists(state.reads[0], lambda k, i: i == 5)
    assert not exists(state.reads[0].none(), lambda k, i: i == 5)
    state.reads.empty()
    assert [set(members) for members in state.reads.values()] == [set(), set()]


def test_a_copy_of_tables_of_containers_is_independent() -> None:
    chance = Chance(annex.SPEC, 12)
    for _ in range(5):
        product = chance.state({"stacks": SIZES, "patrons": 2})
        before, key = observed(product), product.key()
        twin: Any = product.copy()
        assert (observed(twin), twin.key()) == (before, key)
        twin.stacks.label[0, 0] += 1
        twin.stacks.free[0].fill(0, 3)
        twin.stacks.out[1].empty()
        twin.stacks.reads[0] = twin.stacks.reads[0].with_((7, 7))
        twin.stacks.loans = twin.stacks.loans.with_((7, 7))
        twin.lent[1] = twin.lent[1].with_((7, 7))
        assert (observed(product), product.key()) == (before, key)
        changed = {name for name, value in observed(twin).items() if value != before[name]}
        assert {"stacks.label", "stacks.reads", "stacks.loans", "lent"} <= changed
        ghostly: Any = product.copy()
        ghostly.stacks.trips[0, 0, 0] += 1
        assert ghostly.key() == key
        assert ghostly.key(ghosts=True) != product.key(ghosts=True)


@pytest.mark.parametrize(("spec", "sizes"), [(stacks.SPEC, SIZES), (annex.SPEC, {"stacks": SIZES, "patrons": 2})])
def test_states_of_every_kind_survive_being_plain(spec: Any, sizes: dict[str, Any]) -> None:
    chance = Chance(spec, 8)
    for _ in range(20):
        made = chance.state(sizes)
        again = state_from_plain(spec.state, json.loads(json.dumps(made.plain())))
        assert again.plain() == made.plain()
        assert again.key(ghosts=True) == made.key(ghosts=True)
        assert observed(again) == observed(made)
        item = spec.actions[0]
        arguments = chance.arguments(made, item.parameters)
        one, other = (run(spec, item, before, arguments) for before in (made, again))
        assert (one.refused, one.ill_defined) == (other.refused, other.ill_defined)


def test_a_sum_with_an_id_is_an_id() -> None:
    with tracing(Trace()):
        symbolic: Any = SymbolicState.base(stacks.Stacks)
        for value in (Gram(0) + symbolic.total, symbolic.total + Gram(2), symbolic.total + symbolic.mass):
            assert value.sort is Gram
        assert (symbolic.mass - Gram(1)).sort is int


# ------------------------------------------------------------------------------------------------------- given fields


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weight": [1]}, r"Stacks.weight: 1 value\(s\) for a table of 2"),
        ({"weight": [1, 2, 3]}, r"Stacks.weight: 3 value\(s\) for a table of 2"),
        ({"shelves": 3}, r"Stacks.weight: 2 value\(s\) for a table of 3"),
        ({"label": [0] * 6}, r"Stacks takes the sizes \['boxes', 'clerks', 'front', .*'weight'\], got"),
        ({"weight": [0, 1]}, r"stacks: these sizes do not fit: shelves_carry_something \(Every shelf has a weight"),
        ({"limit": 2}, "stacks: these sizes do not fit: shelves_carry_something"),
        ({"front": -1}, "stacks: these sizes do not fit: the_front_is_a_place"),
        ({"shelves": 0, "weight": [], "material": []}, "stacks: shelves is 0, at least 1 is needed"),
    ],
)
def test_given_fields_are_checked(change: dict[str, Any], message: str) -> None:
    for spec, sizes in ((stacks.SPEC, SIZES | change), (annex.SPEC, {"stacks": SIZES | change, "patrons": 1})):
        with pytest.raises(SpecError, match=message):
            spec.initial(**sizes)


def test_a_missing_given_field_is_loud() -> None:
    with pytest.raises(SpecError, match="Stacks takes the sizes"):
        stacks.SPEC.initial(**{name: value for name, value in SIZES.items() if name != "limit"})
    with pytest.raises(SpecError, match="annex: patrons is 0, at least 1 is needed"):
        annex.SPEC.initial(stacks=SIZES, patrons=0)


def test_given_fields_are_named_by_their_full_names_too() -> None:
    flat = annex.SPEC.initial(patrons=1, **{f"stacks.{name}": value for name, value in SIZES.items()})
    assert flat.plain() == annex.SPEC.initial(stacks=SIZES, patrons=1).plain()
    assert flat.plain()["stacks"]["material"] == ["WOOD", "WOOD"]


def test_every_obligation_is_text_that_a_solver_reads() -> None:
    """In the bounded form given fields are numbers and members, also where there are none of them."""
    nothing = SIZES | {"shelves": 0, "weight": [], "material": []}
    for spec, prefix in ((stacks.SPEC, ""), (annex.SPEC, "stacks.")):
        made = [o for o in Generator(spec).all() if o.action in ("", "write", "note") or o.kind == "ensures"]
        for obligation in made:
            texts = [obligation.text]
            for sizes in (SIZES, nothing):
                named = {"patrons": 2} | {prefix + name: value for name, value in sizes.items()}
                texts.append(obligation.bounded_text(named))
            for text in texts:
                assert solve(text, 1).verdict in ("sat", "unsat", "unknown")


# ------------------------------------------------------------------------------------------------ what is not accepted

GRID = '''

class Pool(State):
    """A small pool."""

    total: Size[Slot]
    holders: Size[Holder]
    weight: Given[Map[Slot, Int]]
    limit: Given[Int]
    grid: Map[tuple[Slot, Holder], Int]
    notes: Ghost[Map[tuple[Slot, Holder], Int]]
    lists: Map[Slot, Roster[Holder]]
    spare: Ghost[Map[Slot, Roster[Holder]]]
    marks: Set[Slot]
    pairs: Set[tuple[Slot, Holder]]
    seen: Map[Slot, Set[tuple[Slot, Holder]]]
    used: Int


@initial
def create(pool: Pool) -> None:
    """Nothing is used."""
    pool.grid.relabel(lambda s, h: 0)
    pool.lists.empty()
    pool.seen.empty()
    pool.used = 0
'''
GRID_TAIL = '\n\nSPEC = Specification("pool", Pool, {"total": 1})\n'
ACT = '@action\ndef act(pool: Pool, slot: Slot, holder: Holder, amount: Int) -> None:\n    """What it means."""\n    '

WRONG: dict[str, tuple[str, type[Exception], str]] = {
    "a given table is written": ("pool.weight[slot] = 1", SpecError, "weight is given with the sizes and never"),
    "a given table is relabelled": ("pool.weight.relabel(lambda s: 1)", SpecError, "weight is given with the sizes"),
    "a given number is written": ("pool.limit += 1", SpecError, "limit is given with the sizes and never changes"),
    "too few parts": ("pool.grid[slot] = 1", SortMismatch, r"expected a key of Slot, Holder, got 1 part\(s\)"),
    "too many parts": ("pool.grid[slot, holder, slot] = 1", SortMismatch, r"a key of Slot, Holder, got 3 part\(s\)"),
    "a pair for one": ("pool.used = pool.weight[slot, holder]", SortMismatch, r"a key of Slot, got 2 part\(s\)"),
    "a wrong second part": ("pool.grid[slot, slot] = 1", SortMismatch, "expected Holder, got symbolic Slot"),
    "a wrong first part": ("pool.grid[holder, holder] = 1", SortMismatch, "expected Slot, got symbolic Holder"),
    "a plain int as part": ("pool.grid[slot, 0] = 1", SortMismatch, "expected Holder, got int 0"),
    "a wrong value": ("pool.grid[slot, holder] = holder", SortMismatch, "expected int, got symbolic Holder"),
    "a wrong value in bulk": ("pool.grid.relabel(lambda s, h: h)", SortMismatch, "expected int, got symbolic Holder"),
    "an id for a pair": ("require(pool.pairs.has(slot))\npool.used = 1", SortMismatch, "a key of Slot, Holder, got 1"),
    "an id added to pairs": ("pool.pairs = pool.pairs.with_(slot)", SortMismatch, "a key of Slot, Holder, got 1"),
    "a pair the wrong way round": (
        "pool.pairs = pool.pairs.without((holder, slot))",
        SortMismatch,
        "expected Slot, got symbolic Holder",
    ),
    "a pair for an id": (
        "require(pool.marks.has((slot, holder)))\npool.used = 1",
        SortMismatch,
        "a key of Slot, got 2",
    ),
    "pairs joined with ids": (
        "pool.pairs = pool.pairs.join(pool.marks)",
        SortMismatch,
        "expected a key of Slot, got 2",
    ),
    "ids where pairs are": ("pool.seen[slot] = pool.marks", SortMismatch, "seen holds Slot, Holder, not Slot"),
    "pairs where ids are": ("pool.marks = pool.pairs", SortMismatch, "marks holds Slot, not Slot, Holder"),
    "a number where a set is": (
        "pool.seen[slot] = 3",
        SpecError,
        "an entry of a table of sets cannot be assigned int 3",
    ),
    "a roster is assigned": (
        "pool.lists[slot] = pool.lists[slot]",
        SpecError,
        "lists: an entry of a table of rosters cannot be assigned",
    ),
    "a table of rosters is assigned": (
        "pool.lists = pool.lists",
        SpecError,
        "lists is a roster and cannot be assigned",
    ),
    "a table of sets is assigned": ("pool.seen = pool.pairs", SpecError, "seen is a set and cannot be assigned"),
    "a table of sets is filled": (
        "pool.seen.fill(lambda s: Slot(0), lambda s: pool.total)",
        SpecError,
        "seen: only rosters are filled",
    ),
    "a wrong place": ("pool.lists[holder].add(holder)", SortMismatch, "expected Slot, got symbolic Holder"),
    "a wrong member": ("pool.lists[slot].add(slot)", SortMismatch, "expected Holder, got symbolic Slot"),
    "a wrong bound": ("pool.lists.fill(lambda s: s, lambda s: 1)", SortMismatch, "expected Holder, got symbolic Slot"),
    "tables of sets compared": (
        "require(pool.seen == pool.seen)\npool.used = 1",
        SpecError,
        "cannot be compared with ==",
    ),
    "rosters of a table compared": (
        "require(pool.lists[slot] == pool.lists[slot])\npool.used = 1",
        SpecError,
        "cannot be compared with ==",
    ),
    "a ghost entry in a guard": (
        "require(pool.notes[slot, holder] > 0)\npool.used = 1",
        GhostLeak,
        "a guard depends on",
    ),
    "a ghost roster in a guard": ("require(pool.spare[slot].size > 0)\npool.used = 1", GhostLeak, "a guard depends on"),
    "a ghost in a key": (
        "pool.grid[slot, holder + pool.notes[slot, holder]] = 1",
        GhostLeak,
        "the write to grid depends on the ghost field.s. notes",
    ),
    "a ghost roster absorbed": (
        "pool.lists[slot].absorb(pool.spare[slot])",
        GhostLeak,
        "the write to lists depends on",
    ),
    "a ghost in a set of pairs": (
        "pool.seen[slot] = pool.seen[slot].with_((slot, holder + pool.notes[slot, holder]))",
        GhostLeak,
        "the write to seen depends on the ghost",
    ),
    "a ghost place": (
        "pool.lists[slot + pool.notes[slot, holder]].add(holder)",
        GhostLeak,
        "the write to lists depends",
    ),
}


@pytest.mark.parametrize(("body", "error", "message"), WRONG.values(), ids=WRONG)
def test_what_does_not_fit_a_table_is_loud(module: Module, body: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        module(HEAD + GRID + "\n\n" + ACT + body.replace("\n", "\n    ") + GRID_TAIL)


def test_tables_are_not_iterated() -> None:
    with tracing(Trace()):
        symbolic: Any = SymbolicState.base(stacks.Stacks)
        for table in (symbolic.label, symbolic.free, symbolic.reads, symbolic.loans):
            with pytest.raises(SpecError, match="cannot be iterated; use forall"):
                list(table)
        with pytest.raises(SpecError, match=r"use \.has\(id\) instead of `in`"):
            (Shelf(0), Box(0)) in symbolic.reads[Clerk(0)]  # noqa: B015


ASSUMED = '@assumption\ndef fits(pool: Pool{more}) -> Bool:\n    """What fits."""\n    return {value}\n'


@pytest.mark.parametrize(
    ("value", "more", "message"),
    [
        ("pool.used < pool.limit", "", "assumption fits reads used, which actions can change"),
        ("forall(pool.all(Slot), lambda s: pool.lists[s].size == 0)", "", "reads lists.size, which actions can change"),
        ("pool.limit > amount", ", amount: Int", "assumption fits takes no parameter"),
        ("pool.limit", "", "assumption fits must be a truth value, got symbolic int"),
        ("or_(True, pool.limit > 0)", "", "assumption fits is True whatever the state"),
    ],
)
def test_an_assumption_is_about_what_never_changes(module: Module, value: str, more: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        module(HEAD + GRID + "\n\n" + ASSUMED.format(value=value, more=more) + GRID_TAIL)


READS = {
    "require(and_(pool.all(Slot).has(slot), pool.all(Holder).has(holder)))\npool.used = pool.grid[slot, holder]": True,
    "require(pool.all(Slot).has(slot))\npool.used = pool.grid[slot, holder]": False,
    "require(pool.all(Holder).has(holder))\npool.grid[slot, holder] = 1": False,
    "pool.grid.relabel(lambda s, h: pool.grid[s, h] + pool.weight[s])": True,
    "pool.grid.relabel(lambda s, h: pool.grid[s, h + 1])": False,
    "require(pool.all(Slot).has(slot))\npool.used = pool.lists[slot].size": True,
    "pool.used = pool.lists[slot].size": False,
    "require(pool.all(Slot).has(slot))\npool.seen[slot] = pool.pairs": True,
    "pool.seen[slot] = pool.pairs": False,
    "pool.lists.fill(lambda s: Holder(0), lambda s: pool.holders)": True,
    "pool.lists.fill(lambda s: Holder(0), lambda s: pool.weight[s])": False,
    "pool.used = ite(forall(pool.pairs, lambda s, h: pool.grid[s, h] > 0), 1, 0)": False,
    "pool.used = ite(exists(pool.pairs, lambda s, h: pool.all(Slot).has(s)), 1, 0)": True,
}


@pytest.mark.parametrize(("body", "proved"), READS.items())
def test_a_look_outside_a_table_is_an_obligation(module: Module, body: str, proved: bool) -> None:
    made = module(HEAD + GRID + "\n\n" + ACT + body.replace("\n", "\n    ") + GRID_TAIL)
    found = {o.claim: o for o in Generator(made.SPEC).all()}.get("pool/act/is_well_defined")
    assert (found is None or solve(found.text, SHORT_LIMIT).verdict == "unsat") is proved


# --------------------------------------------------------------------------------------------------- performed actions

PRODUCT: dict[str, Any] = {"stacks": SIZES, "patrons": 2}


def test_a_performed_action_is_part_of_its_action() -> None:
    made = annex.SPEC.initial(**PRODUCT)
    assert enabled(annex.lend, made, 0, 1, 2, 0)
    later = after(annex.lend, made, 0, 1, 2, 0)
    annex.lend(made, 0, 1, 2, 0)  # type: ignore[arg-type]
    assert observed(later) == observed(made)
    assert (made.stacks.taken[1], made.debt[0], made.lent[0], made.visits) == (1, 4, {(1, 2)}, 1)
    assert not made.stacks.free[1].has(2)


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [((0, 1, 2, 0), "by the component"), ((9, 1, 1, 0), "by the product"), ((0, 2, 1, 0), "by the component")],
)
def test_a_refusal_of_either_changes_neither(arguments: Any, shown: str) -> None:
    made = annex.SPEC.initial(**PRODUCT)
    annex.lend(made, 1, 1, 2, 0)  # type: ignore[arg-type]
    before = observed(made)
    assert not enabled(annex.lend, made, *arguments)
    with pytest.raises(Refused):
        annex.lend(made, *arguments)
    assert observed(made) == before, shown


def test_halves_of_an_action_perform_halves() -> None:
    item, made = annex.SPEC.action("lend"), annex.SPEC.initial(**PRODUCT)
    before = observed(made)
    item.guards(made, 0, 1, 2, 0)
    assert observed(made) == before
    item.effects(made, 0, 1, 2, 0)
    assert made.stacks.loans == {(1, 2)}
    with pytest.raises(Refused):
        item.guards(made, 0, 1, 2, 0)
    made.stacks.free[1].add(2)
    made.stacks.out[1].remove(2)
    item.effects(made, 1, 1, 2, 0)
    assert made.stacks.taken[1] == 2


def test_what_a_performed_action_leaves_undefined_is_undefined() -> None:
    made = annex.SPEC.initial(**PRODUCT)
    with pytest.raises(IllDefined, match=r"7 .. 3 is outside a table of 3 entries"):
        annex.restock(made, 1, 7)  # type: ignore[arg-type]


PART = '''

class Part(State):
    """A part."""

    total: Size[Slot]
    kind: Map[Slot, Kind]
    used: Int


@initial
def create(part: Part) -> None:
    """Everything is free."""
    part.kind.relabel(lambda slot: Kind.FREE)
    part.used = 0


@define
def is_open(part: Part) -> Bool:
    """Is something free?"""
    return part.used < part.total


@action
def fill(part: Part, slot: Slot) -> None:
    """A slot is used."""
    require(part.all(Slot).has(slot))
    require(part.kind[slot] == Kind.FREE)
    part.kind[slot] = Kind.USED
    part.used += 1


@action
def fill_first(part: Part) -> None:
    """An action that performs one of its own specification."""
    require(part.total > 0)
    perform(fill, part, Slot(0))


@invariant("P1")
def used_slots_are_counted(part: Part) -> Bool:
    """P1: the count of used slots."""
    return counts(part.used, part.all(Slot), lambda slot: part.kind[slot] == Kind.USED)


SPEC = Specification("part", Part, {"total": 1})
'''

WHOLE = '''"""A product, made for one test."""

from {part} import *
from {part} import SPEC as PART_SPEC


class Whole(State):
    """The product."""

    part: Part
    other: Part
    level: Int


@initial
def build(whole: Whole) -> None:
    """Nothing is used."""
    {build}
    whole.level = 0


@action
def act(whole: Whole, slot: Slot, holder: Holder) -> None:
    """Made up."""
    {act}


@invariant("P2")
def the_level_is_not_above(whole: Whole) -> Bool:
    """P2: made up."""
    return whole.level <= whole.part.used


SPEC = Specification("whole", Whole, {{}}, components={components})
'''

BUILD, ONE = "perform(create, whole.part)", '{"part": PART_SPEC}'

PRODUCTS: dict[str, tuple[str, str, str, type[Exception], str]] = {
    "a component is changed directly": (
        BUILD,
        "whole.part.used = 1",
        ONE,
        SpecError,
        "act changes part.used by itself; perform an action of part",
    ),
    "a component is changed after its action": (
        BUILD,
        "perform(fill, whole.part, slot)\nwhole.part.kind[slot] = Kind.FREE",
        ONE,
        SpecError,
        "act changes part.kind by itself",
    ),
    "a component's own start is performed later": (
        BUILD,
        "perform(create, whole.part)",
        ONE,
        SpecError,
        "act changes part.kind by itself",
    ),
    "another component is meant": (
        "perform(create, whole.other)",
        "whole.level = 1",
        ONE,
        SpecError,
        "build performs 0 actions of part, where one is meant",
    ),
    "a component that is changed as if it were another": (
        BUILD,
        "perform(fill, whole.part, slot)",
        '{"part": PART_SPEC, "other": PART_SPEC}',
        SpecError,
        "build performs 0 actions of part, where one is meant",
    ),
    "a component does not start": (
        "whole.other.used = 0",
        "whole.level = 1",
        ONE,
        SpecError,
        "build performs 0 actions of part, where one is meant",
    ),
    "a component starts by itself": (
        "whole.part.used = 0",
        "whole.level = 1",
        ONE,
        SpecError,
        "build changes part.used by itself",
    ),
    "a component starts with another action": (
        "perform(fill_first, whole.part)",
        "whole.level = 1",
        ONE,
        SpecError,
        "build changes part.kind by itself",
    ),
    "no such component": (BUILD, "whole.level = 1", '{"prat": PART_SPEC}', SpecError, "prat is no component that is a"),
    "a component that is a number": (
        BUILD,
        "whole.level = 1",
        '{"level": PART_SPEC}',
        SpecError,
        "level is no component that is a Part",
    ),
    "too few arguments": (BUILD, "perform(fill, whole.part)", ONE, SpecError, "fill takes the arguments slot, not 0"),
    "too many arguments": (
        BUILD,
        "perform(fill_first, whole.part, slot)",
        ONE,
        SpecError,
        "fill_first takes the arguments none, not 1",
    ),
    "an argument of another sort": (
        BUILD,
        "perform(fill, whole.part, holder)",
        ONE,
        SortMismatch,
        "expected Slot, got symbolic Holder",
    ),
    "a definition is performed": (
        BUILD,
        "perform(is_open, whole.part)\nwhole.level = 1",
        ONE,
        SpecError,
        "is_open is no action; only actions are performed",
    ),
    "no spec function is performed": (BUILD, "perform(Slot, whole.part)", ONE, SpecError, "is not a registered spec"),
}


def product(module: Module, build: str, act: str, components: str) -> ModuleType:
    """A product over a part."""
    part = module(HEAD + PART).__name__
    lines = {name: text.replace("\n", "\n    ") for name, text in (("build", build), ("act", act))}
    return module(WHOLE.format(part=part, components=components, **lines))


@pytest.mark.parametrize(("build", "act", "components", "error", "message"), PRODUCTS.values(), ids=PRODUCTS)
def test_a_product_changes_its_component_by_its_actions_only(
    module: Module, build: str, act: str, components: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        product(module, build, act, components)


@pytest.mark.parametrize(
    "act",
    [
        "perform(fill, whole.part, slot)\nwhole.level = whole.part.used",
        "perform(fill_first, whole.part)",
        "whole.other.used = whole.part.used",
        "perform(fill, whole.other, slot)",
    ],
)
def test_what_leaves_a_component_to_its_actions_is_accepted(module: Module, act: str) -> None:
    made = product(module, BUILD, act, ONE).SPEC
    inherited = Generator(made).inherited
    assert [term.op for term in inherited] == ["counts"]


TOP = '''"""A product over a product, made for one test."""

from {whole} import *
from {whole} import SPEC as WHOLE_SPEC


class Top(State):
    """The product."""

    whole: Whole
    steps: Int


@initial
def begin(top: Top) -> None:
    """No step yet."""
    perform(build, top.whole)
    top.steps = 0


@action
def go(top: Top, slot: Slot, holder: Holder) -> None:
    """One step."""
    perform(act, top.whole, slot, holder)
    top.steps += 1


@invariant("P3")
def steps_are_above(top: Top) -> Bool:
    """P3: made up."""
    return top.steps >= 0


SPEC = Specification("top", Top, {{}}, components={{"whole": WHOLE_SPEC}})
'''


def test_a_product_over_a_product_inherits_from_both(module: Module) -> None:
    whole = product(module, BUILD, "perform(fill, whole.part, slot)\nwhole.level = whole.part.used", ONE)
    made = module(TOP.format(whole=whole.__name__)).SPEC
    assert sorted(term.op for term in Generator(made).inherited) == ["<=", "counts"]
    assert len(Generator(made).least) == 2
    sizes = {"part": {"total": 2}, "other": {"total": 1}}
    state = made.initial(whole=sizes)
    made.action("go").function(state, 1, 0)
    assert (state.whole.part.used, state.whole.level, state.steps) == (1, 1, 1)
    with pytest.raises(SpecError, match="part: total is 0, at least 1 is needed"):
        made.initial(whole={**sizes, "part": {"total": 0}})
