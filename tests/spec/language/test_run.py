"""The run reading: its containers are checked at their borders, and a refused action leaves everything as it was."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import depot
import harbour
import pytest
from differential import Chance

from poolproof.proofs.lowered import observed
from poolproof.spec.language import (
    IllDefined,
    Map,
    NotBoolean,
    Refused,
    Roster,
    Set,
    SpecError,
    and_,
    between,
    counts,
    exists,
    forall,
    ids,
    iff,
    implies,
    ite,
    not_,
    or_,
    require,
)

Function = Callable[..., ModuleType]

# ---------------------------------------------------------------------------------------------------------- containers


def test_a_table_is_read_and_written_inside_only() -> None:
    table: Map[int, int] = Map({0: 5, 1: 6})
    table[1] = 7
    assert (table[0], table[1]) == (5, 7)
    for key in (-1, 2):
        with pytest.raises(IllDefined, match=rf"read at {key}, outside a table of 2 entries"):
            table[key]
        with pytest.raises(IllDefined, match=rf"write at {key}, outside a table of 2 entries"):
            table[key] = 1
    assert dict(table) == {0: 5, 1: 7}


def test_a_relabel_reads_everything_before_it_writes() -> None:
    table: Map[int, int] = Map({0: 1, 1: 2, 2: 3})
    table.relabel(lambda key: table[(key + 1) % 3], where=lambda key: table[key] < 3)
    assert dict(table) == {0: 2, 1: 3, 2: 3}
    with pytest.raises(IllDefined):
        table.relabel(lambda key: table[key + 1])
    assert dict(table) == {0: 2, 1: 3, 2: 3}


def test_a_roster_is_a_set_with_a_size() -> None:
    roster: Roster[int] = Roster(4)
    roster.fill(1, 4)
    roster.remove(2)
    assert (roster.size, sorted(roster), roster.has(2), roster.has(3)) == (2, [1, 3], False, True)
    assert roster.pick() in roster
    other: Roster[int] = Roster(4)
    other.add(0)
    roster.absorb(other)
    assert (sorted(roster), sorted(other)) == ([0, 1, 3], [0])
    roster.empty()
    assert (roster.size, list(roster)) == (0, [])


ROSTER_MISUSE: dict[str, tuple[Callable[[Roster[int]], Any], str]] = {
    "has": (lambda r: r.has(4), "4 is outside a table of 4 entries"),
    "has negative": (lambda r: r.has(-1), "-1 is outside a table of 4 entries"),
    "add outside": (lambda r: r.add(4), "4 is outside a table of 4 entries"),
    "add twice": (lambda r: r.add(1), "1 is a member already"),
    "remove": (lambda r: r.remove(0), "0 is not a member"),
    "remove outside": (lambda r: r.remove(7), "7 is outside a table of 4 entries"),
    "absorb": (lambda r: r.absorb(r), "the rosters have members in common"),
    "absorb wider": (lambda r: r.absorb(wide()), "a member of the other roster is outside a table of 4 entries"),
    "fill beyond": (lambda r: r.fill(2, 5), "2 .. 5 is outside a table of 4 entries"),
    "fill below": (lambda r: r.fill(-1, 2), "-1 .. 2 is outside a table of 4 entries"),
    "fill backwards": (lambda r: r.fill(3, 2), "3 .. 2 is outside a table of 4 entries"),
}


def wide() -> Roster[int]:
    """A roster over more ids."""
    roster: Roster[int] = Roster(9)
    roster.add(8)
    return roster


@pytest.mark.parametrize(("use", "message"), ROSTER_MISUSE.values(), ids=ROSTER_MISUSE)
def test_a_misused_roster_is_ill_defined_and_unchanged(use: Callable[[Roster[int]], Any], message: str) -> None:
    roster: Roster[int] = Roster(4)
    roster.fill(1, 3)
    with pytest.raises(IllDefined, match=message):
        use(roster)
    assert sorted(roster) == [1, 2]


def test_an_empty_roster_has_nothing_to_pick() -> None:
    with pytest.raises(IllDefined, match="an empty roster has no member to pick"):
        Roster(3).pick()


def test_sets_are_values() -> None:
    one, two = ids([1, 2]), ids([2, 3])
    assert one.with_(3) == {1, 2, 3}
    assert one.without(2) == one.without(7).minus(two) == {1}
    assert one.join(two) == {1, 2, 3}
    assert not one.disjoint(two)
    assert one.minus(two).disjoint(two)
    assert (one.has(1), one.has(3), one) == (True, False, {1, 2})
    assert all(type(made) is Set for made in (one.with_(3), one.without(1), one.join(two), one.minus(two)))


# --------------------------------------------------------------------------------------------------------- connectives


def boom() -> bool:
    """Never to be called."""
    raise IllDefined("read where it must not be")


def test_connectives_read_their_right_side_only_where_they_may() -> None:
    assert and_(True, True, lambda: True) is True
    assert and_(True, False, boom) is False
    assert or_(False, True, boom) is True
    assert or_(False, lambda: False) is False
    assert (and_(), or_()) == (True, False)
    assert implies(False, boom) is True
    assert implies(True, lambda: False) is False
    assert ite(True, 1, boom) == 1
    assert ite(False, boom, lambda: 2) == 2
    assert (iff(True, False), iff(False, False), not_(False)) == (False, True, True)
    for read in (lambda: and_(True, boom), lambda: or_(False, boom), lambda: implies(True, boom)):
        with pytest.raises(IllDefined):
            read()


def test_quantifiers_and_ranges() -> None:
    assert forall(between(2, 5), lambda i: i > 1)
    assert not forall(between(2, 5), lambda i: i > 2)
    assert forall(between(5, 2), lambda i: boom())
    assert exists(between(2, 5), lambda i: i == 4, witness=boom)
    assert not exists(between(5, 2), lambda i: boom())
    assert counts(2, between(0, 5), lambda i: i % 3 == 0)
    assert not counts(3, between(0, 5), lambda i: i % 3 == 0)
    assert counts(0, between(3, -3), lambda i: boom())


NOT_BOOLEAN: dict[str, tuple[Callable[[], Any], str]] = {
    "require": (lambda: require(1), "require must be given a truth value, got int 1"),  # type: ignore[arg-type]
    "and_": (lambda: and_(True, None), "a part of and_ must be a truth value, got NoneType None"),  # type: ignore[arg-type]
    "or_": (lambda: or_(0), "a part of or_ must be a truth value, got int 0"),  # type: ignore[arg-type]
    "not_": (lambda: not_([]), "not_ must be a truth value, got list"),  # type: ignore[arg-type]
    "implies": (lambda: implies(1, True), "the premise of implies must be a truth value, got int 1"),  # type: ignore[arg-type]
    "conclusion": (lambda: implies(True, lambda: 3), "the conclusion of implies must be a truth value, got int 3"),  # type: ignore[arg-type, return-value]
    "iff": (lambda: iff(True, 1), "iff must be a truth value, got int 1"),  # type: ignore[arg-type]
    "ite": (lambda: ite(2, 1, 0), "the condition of ite must be a truth value, got int 2"),  # type: ignore[arg-type]
    "forall": (lambda: forall([1], lambda i: i), "the body of forall must be a truth value, got int 1"),  # type: ignore[arg-type, return-value]
    "exists": (lambda: exists([0], lambda i: i), "the body of exists must be a truth value, got int 0"),  # type: ignore[arg-type, return-value]
    "counts": (lambda: counts(1, [1], lambda i: i), "the predicate of counts must be a truth value, got int 1"),  # type: ignore[arg-type, return-value]
}


@pytest.mark.parametrize(("use", "message"), NOT_BOOLEAN.values(), ids=NOT_BOOLEAN)
def test_what_must_be_a_truth_value_is_one(use: Callable[[], Any], message: str) -> None:
    with pytest.raises(NotBoolean, match=message):
        use()


# --------------------------------------------------------------------------------------------------------------- states


def test_a_field_that_is_not_declared_is_loud() -> None:
    state = depot.SPEC.initial(crates=2, bays=1)
    with pytest.raises(AttributeError, match="redz"):
        state.redz = 3  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="redz"):
        _ = state.redz  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"crates": 2}, r"Depot takes the sizes \['bays', 'crates'\], got \['crates'\]"),
        (
            {"crates": 2, "bays": 1, "doors": 1},
            r"takes the sizes \['bays', 'crates'\], got \['bays', 'crates', 'doors'\]",
        ),
        ({"crates": 0, "bays": 1}, "depot: crates is 0, at least 1 is needed"),
        ({"crates": -1, "bays": 1}, "depot: crates is -1, at least 1 is needed"),
    ],
)
def test_sizes_are_checked(sizes: dict[str, int], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        depot.SPEC.initial(**sizes)


def test_sizes_of_components_are_nested_or_given_by_their_full_names() -> None:
    nested = harbour.SPEC.initial(north={"berths": 2}, south={"berths": 1}, fleet={"ships": 3})
    flat = harbour.SPEC.initial(**{"north.berths": 2, "south.berths": 1, "fleet.ships": 3})
    assert nested.plain() == flat.plain()
    with pytest.raises(SpecError, match=r"Dock takes the sizes \['berths'\], got \['berth'\]"):
        harbour.SPEC.initial(north={"berth": 2}, south={"berths": 1}, fleet={"ships": 3})
    with pytest.raises(SpecError, match=r"Dock.berths is -1; a size is never negative"):
        harbour.SPEC.initial(north={"berths": -1}, south={"berths": 1}, fleet={"ships": 3})


def test_least_sizes_of_components_are_checked(module: Callable[[str], ModuleType]) -> None:
    from spec_text import HEAD

    made = module(
        HEAD
        + '''

class Part(State):
    """A part."""

    total: Size[Slot]
    kind: Map[Slot, Kind]


class Whole(State):
    """The whole."""

    part: Part


@initial
def create(whole: Whole) -> None:
    """Everything is free."""
    whole.part.kind.relabel(lambda slot: Kind.FREE)


SPEC = Specification("whole", Whole, {"part.total": 2})
'''
    )
    with pytest.raises(SpecError, match=r"whole: part.total is 1, at least 2 is needed"):
        made.SPEC.initial(part={"total": 1})
    assert made.SPEC.initial(part={"total": 2}).part.total == 2


def test_a_copy_is_independent_and_keys_leave_ghosts_out() -> None:
    chance = Chance(depot.SPEC, 5)
    state = chance.state({"crates": 3, "bays": 2})
    before = observed(state)
    twin = state.copy()
    assert observed(twin) == before
    twin.weight[0] += 1
    twin.idle.empty()
    twin.sealed = twin.sealed.with_(7)
    twin.reds += 1
    assert observed(state) == before
    assert twin.key() != state.key()
    ghostly = state.copy()
    ghostly.moves[0] += 1
    ghostly.log += 1
    assert ghostly.key() == state.key()
    assert ghostly.key(ghosts=True) != state.key(ghosts=True)


def test_a_copy_of_a_product_copies_its_components() -> None:
    state = harbour.SPEC.initial(**{"north.berths": 2, "south.berths": 1, "fleet.ships": 1})
    twin = state.copy()
    twin.north.ship[0] = 0
    twin.north.open_berths.remove(1)
    assert state.plain()["north"] == {
        "berths": 2,
        "ship": [-1, -1],
        "open_berths": [0, 1],
        "barred": [],
        "size": 0,
        "position": False,
    }
    assert state.key() != twin.key()


def test_violations_name_the_invariants_that_a_state_breaks() -> None:
    state = depot.SPEC.initial(crates=2, bays=1)
    assert depot.SPEC.violations(state) == ["heavy_crates_between_marks_are_counted"]
    state.reds = 0
    assert depot.SPEC.violations(state) == ["reds_are_counted"]


def test_an_invariant_that_is_no_truth_value_is_loud_in_the_run_reading(function: Function) -> None:
    made = function("invariant", "return ite(pool.used == 3, pool.is_open, pool.used >= 0)")
    state = made.SPEC.initial(total=1)
    assert made.SPEC.violations(state) == []
    state.used, state.is_open = 3, 1
    with pytest.raises(NotBoolean, match="invariant holds gave int 1, not a truth value"):
        made.SPEC.violations(state)


@pytest.mark.parametrize("body", ["return pool.used", "return 3", "pool_used = pool.used"])
def test_an_invariant_that_is_no_truth_value_is_loud_when_it_is_read(function: Function, body: str) -> None:
    with pytest.raises(NotBoolean, match="invariant holds must be a truth value, got"):
        function("invariant", body)


# ----------------------------------------------------------------------------------------------------- refused actions

SPECS = [
    (depot.SPEC, {"crates": 3, "bays": 2}),
    (harbour.SPEC, {"north.berths": 2, "south.berths": 2, "fleet.ships": 2}),
]


@pytest.mark.parametrize(("spec", "sizes"), SPECS, ids=["depot", "harbour"])
def test_a_refused_action_changes_nothing(spec: Any, sizes: dict[str, int]) -> None:
    from poolproof.spec.language.state import nested_sizes

    chance, refused = Chance(spec, 77), set()
    for trial in range(300):
        for item in spec.actions:
            state = chance.state(nested_sizes(sizes))
            arguments, before = chance.arguments(state, item.parameters), observed(state)
            try:
                item.function(state, *arguments)
            except (Refused, IllDefined) as problem:
                if isinstance(problem, Refused):
                    refused.add(item.name)
                    assert observed(state) == before, f"seed 77, trial {trial}: {item.name}{arguments}"
    guarded = {item.name for item in spec.actions if "require" in item.function.__code__.co_names}
    assert refused == guarded
