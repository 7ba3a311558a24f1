"""The buffer's spec: readings agree, scenes of an engine's life, and a model of bytes with tags that says the same."""

from __future__ import annotations

import re
from typing import Any

import pytest
from differential import Chance, compare_step
from flat_bytes import Flat
from scenes import Scene, Walk, compare_readings

from poolproof.proofs.buffer import SMALL, WINDOW
from poolproof.proofs.concrete import violated
from poolproof.spec.buffer import (
    NO_ID,
    PARKED,
    SINK_PAGE,
    SPEC,
    UNMAPPED,
    Place,
    can_serve,
    joint_demand_fits,
    place_of,
)
from poolproof.spec.language import Refused, SpecError
from poolproof.spec.language.source import is_guard, parse, statements

SEED = 2611
RARE = frozenset({"clear", "park_float"})
LOW, HIGH = 0, 1


def instance(page_bytes: tuple[int, ...], total: int, ids: int = 6, **more: Any) -> dict[str, Any]:
    """A buffer whose sub-pools all own their ids, with a sink as large as the largest page."""
    sink, count = max(page_bytes), len(page_bytes)
    made = {
        "sub_pools": count,
        "pages": total // min(page_bytes),
        "virtual_ids": ids,
        "total": total,
        "page_bytes": page_bytes,
        "ids": (ids,) * count,
        "id_owner": tuple(range(count)),
        "zeroed": (False,) * count,
        "sink_bytes": sink,
        "bottom": -(-sink // page_bytes[0]),
        "top": total // page_bytes[-1],
    }
    return {**made, **more}


# ------------------------------------------------------------------------------------------------- the readings agree


@pytest.mark.parametrize("item", SPEC.actions, ids=lambda item: item.name)
def test_steps_agree(item: Any) -> None:
    seen = compare_readings(Walk(SPEC, SMALL, SEED + sum(map(ord, item.name)), RARE), item, 8)
    assert seen["done"] == 8, seen
    assert not any(is_guard(s) for s in statements(parse(item.function))) or seen["refused"] > 4, seen


def test_initial_states_agree_whatever_was_there() -> None:
    chance = Chance(SPEC, SEED)
    for trial in range(4):
        before = chance.state(SMALL)
        assert compare_step(SPEC, SPEC.initializer, before, (), f"seed {SEED}, trial {trial}") == "done"


# ----------------------------------------------------------------------------------------------------- given values


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("pages_have_bytes_and_the_sink_holds_one", {"page_bytes": (1, 0, 1)}),
        ("pages_have_bytes_and_the_sink_holds_one", {"page_bytes": (1, 3, 1)}),
        ("ids_have_one_owner", {"ids": (3, 3, 0)}),
        ("ids_have_one_owner", {"ids": (3, 3, 4)}),
        ("ids_have_one_owner", {"ids": (3, 2, 2)}),
        ("ids_have_one_owner", {"id_owner": (0, 0, 3)}),
        ("ids_have_one_owner", {"id_owner": (0, 0, 1), "ids": (3, 3, 3)}),
        ("page_numbers_cover_the_buffer", {"pages": 7}),
        ("the_ends_are_in_place", {"bottom": 1}),
        ("the_ends_are_in_place", {"bottom": 9}),
        ("the_ends_are_in_place", {"top": 9}),
        ("the_ends_are_in_place", {"top": -1}),
    ],
)
def test_given_values_that_do_not_fit_are_refused_by_name(name: str, wrong: dict[str, Any]) -> None:
    assert violated(SPEC, SPEC.initial(**SMALL)) == []
    with pytest.raises(SpecError, match=rf"buffer: these sizes do not fit: {re.escape(name)} \("):
        SPEC.initial(**{**SMALL, **wrong})


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"ids": (3, 3)}, "2 value(s) for a table of 3"), ({"sub_pools": 0}, "at least 1 is needed")],
)
def test_given_tables_have_an_entry_for_every_sub_pool(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError, match=re.escape(said)):
        SPEC.initial(**{**SMALL, **wrong})


# ----------------------------------------------------------------------------------------------------------- scenes


class Engine(Scene):
    """An engine over a buffer: it writes a stamp to every page that it has, and reads all of them after every step."""

    def __init__(self, sizes: dict[str, Any]) -> None:
        super().__init__(SPEC, sizes, self.read_all)
        self.stamps: dict[tuple[int, int], int] = {}
        self.last_stamp = 0

    def read_all(self) -> None:
        """Every byte of every page that the engine wrote holds what it wrote there."""
        for (k, v), stamp in self.stamps.items():
            assert self.bytes_of(k, v) == [(stamp, i) for i in range(self.state.page_bytes[k])], (k, v)

    def bytes_of(self, k: int, v: int) -> list[tuple[int, int]]:
        """The bytes of a live id's page: which write, and which byte of it."""
        begin = self.state.physical[k, v] * self.state.page_bytes[k]
        return [(self.state.memory[b], self.state.place[b]) for b in range(begin, begin + self.state.page_bytes[k])]

    def write(self, k: int, v: int) -> None:
        """Write a new stamp to a live id's page."""
        self.stamps.pop((k, v), None)
        self.last_stamp += 1
        self.do("write", k, v, self.last_stamp)
        self.stamps[k, v] = self.last_stamp
        self.read_all()

    def push(self, k: int, v: int, down: bool = False) -> None:
        """Bind the next page on one side, and write it."""
        self.do("bind_frontier", k, v, self.state.first[k] - 1 if down else self.state.last[k])
        self.write(k, v)

    def free(self, k: int, v: int) -> int:
        """Let go of an id, and reclaim its page at once; the hole."""
        page: int = self.state.physical[k, v]
        self.stamps.pop((k, v), None)
        self.do("unbind", k, v)
        self.do("reclaim", k, page)
        return page

    def shift(self, k: int, v: int, hole: int) -> None:
        """Move a page into a hole, and reclaim the page where it was."""
        source = self.state.physical[k, v]
        self.do("move", k, v, hole)
        self.do("reclaim", k, source)

    def compact_down(self, k: int) -> None:
        """Fill every hole from the top until none is left: an up end is as short as it can be."""
        while self.state.holes[k].members:
            top = self.state.last[k] - 1
            if top not in self.state.holes[k].members:
                self.shift(k, self.state.virtual[k, top], min(self.state.holes[k].members))
            self.do("retreat_high", k)


def test_two_ends_grow_until_they_meet() -> None:
    engine = Engine(instance((1, 2), total=9))
    for v in (1, 2, 3):
        engine.push(LOW, v)
    engine.push(HIGH, 1, down=True)
    assert (engine.state.first[LOW], engine.state.last[LOW]) == (2, 5)
    assert (engine.state.first[HIGH], engine.state.last[HIGH]) == (3, 4)  # bytes 6 and 7; its top is at byte 8
    engine.refuses("bind_frontier", HIGH, 2, 2)  # bytes 4 and 5, of which the first is taken
    engine.refuses("grow", HIGH, 2)
    engine.push(LOW, 4)
    engine.refuses("bind_frontier", LOW, 5, 6)
    engine.refuses("grow", LOW, 6)


def test_the_ends_meet_without_a_gap_and_never_cross() -> None:
    engine = Engine(instance((1, 2), total=8, top=4))
    engine.push(HIGH, 1, down=True)
    engine.push(HIGH, 2, down=True)
    engine.push(LOW, 1)
    engine.push(LOW, 2)
    engine.refuses("bind_frontier", LOW, 3, 4)
    engine.free(HIGH, 2)
    engine.refuses("bind_frontier", LOW, 3, 4)  # a hole still belongs to its sub-pool
    engine.do("retreat_low", HIGH)
    engine.push(LOW, 3)
    engine.push(LOW, 4)
    engine.refuses("bind_frontier", HIGH, 2, 2)


def test_joint_demand_is_decided_on_the_joint_bytes() -> None:
    """Each of two demands of 4 fits into a gap of 7, both together do not."""
    engine = Engine(instance((1, 1), total=8))
    for k, above, below in ((LOW, 4, 0), (HIGH, 0, 4)):
        assert can_serve(engine.state, k, 0, above, below)
    assert not joint_demand_fits(engine.state, LOW, 4, HIGH, 4)
    assert joint_demand_fits(engine.state, LOW, 4, HIGH, 3)
    for v in (1, 2, 3, 4):
        engine.push(LOW, v)
    for v in (1, 2, 3):
        engine.push(HIGH, v, down=True)
    engine.refuses("bind_frontier", HIGH, 4, engine.state.first[HIGH] - 1)
    engine.refuses("bind_frontier", LOW, 5, engine.state.last[LOW])


def test_holes_are_used_again_and_pending_pages_are_not() -> None:
    engine = Engine(instance((2, 2), total=14))
    for v in (1, 2, 3):
        engine.push(LOW, v)
    page = engine.state.physical[LOW, 2]
    engine.stamps.pop((LOW, 2))
    engine.do("unbind", LOW, 2)
    assert place_of(engine.state, LOW, page) is Place.PENDING
    engine.refuses("bind_hole", LOW, 2, page)
    engine.refuses("unbind", LOW, 2)
    engine.do("reclaim", LOW, page)
    engine.refuses("reclaim", LOW, page)
    assert place_of(engine.state, LOW, page) is Place.HOLE
    engine.do("bind_hole", LOW, 4, page)
    engine.write(LOW, 4)
    assert place_of(engine.state, LOW, page) is Place.BOUND
    assert (engine.state.first[LOW], engine.state.last[LOW]) == (1, 4)
    assert engine.state.tenancy[LOW, 2] == 1
    assert engine.state.tenancy[LOW, 4] == 0


@pytest.mark.parametrize("gone", [(1,), (3, 6), (1, 2, 3), (2, 4, 6), (1, 2, 3, 4, 5, 6), (5, 1)])
def test_compaction_leaves_no_hole_and_moves_no_byte_of_what_is_live(gone: tuple[int, ...]) -> None:
    engine = Engine(instance((2, 3), total=24, ids=8, bottom=2))
    for v in range(1, 7):
        engine.push(LOW, v)
    engine.push(HIGH, 1, down=True)
    for v in gone:
        engine.free(LOW, v)
    engine.compact_down(LOW)
    assert engine.state.last[LOW] - engine.state.first[LOW] == 6 - len(gone)
    assert sorted(v for k, v in engine.stamps if k == LOW) == sorted(set(range(1, 7)) - set(gone))
    engine.read_all()


def test_zeroed_pages_are_zero_again_for_the_next_tenant() -> None:
    engine = Engine(instance((2, 2), total=10, zeroed=(True, False)))
    engine.do("bind_frontier", LOW, 1, engine.state.last[LOW])
    assert engine.bytes_of(LOW, 1) == [(0, 0), (0, 1)]
    engine.write(LOW, 1)
    page = engine.free(LOW, 1)
    engine.do("bind_hole", LOW, 2, page)
    assert engine.bytes_of(LOW, 2) == [(0, 0), (0, 1)]
    engine.push(HIGH, 1, down=True)
    page = engine.free(HIGH, 1)
    engine.do("bind_hole", HIGH, 2, page)
    assert engine.bytes_of(HIGH, 2) != [(0, 0), (0, 1)]  # nothing was promised there


FLOAT = 1


def test_a_float_grows_on_both_sides_moves_and_is_parked() -> None:
    engine = Engine(instance((1, 2, 1), total=16))
    engine.refuses("bind_frontier", FLOAT, 1, 4)  # parked: it lies nowhere
    engine.do("place_float", FLOAT, 4)
    engine.push(FLOAT, 1)
    engine.push(FLOAT, 2, down=True)
    engine.push(FLOAT, 3)
    assert (engine.state.first[FLOAT], engine.state.last[FLOAT]) == (3, 6)
    for v in (1, 2, 3, 4):
        engine.push(0, v)
    engine.refuses("bind_frontier", 0, 5, engine.state.last[0])  # byte 6 is the float's
    engine.refuses("place_float", FLOAT, 4)
    engine.refuses("park_float", FLOAT)
    # The float makes room below: it takes a page above, moves its lowest page there, and retreats.
    engine.do("grow", FLOAT, engine.state.last[FLOAT])
    engine.shift(FLOAT, engine.state.virtual[FLOAT, engine.state.first[FLOAT]], engine.state.last[FLOAT] - 1)
    engine.do("retreat_low", FLOAT)
    assert (engine.state.first[FLOAT], engine.state.last[FLOAT]) == (4, 7)
    engine.push(0, 5)
    for v in (1, 2, 3):
        engine.free(FLOAT, v)
    while engine.state.first[FLOAT] != engine.state.last[FLOAT]:
        engine.do("retreat_high", FLOAT)
    engine.do("park_float", FLOAT)
    assert engine.state.first[FLOAT] == engine.state.last[FLOAT] == PARKED
    for v in (1, 2, 3, 4, 5):
        engine.push(2, v, down=True)
    engine.refuses("place_float", FLOAT, 3)  # the up end is there
    engine.refuses("place_float", FLOAT, 6)  # and there the down end
    engine.do("place_float", FLOAT, 4)
    engine.push(FLOAT, 1)


def test_only_a_float_is_placed_or_parked() -> None:
    engine = Engine(instance((1, 2, 1), total=16))
    for k in (0, 2, -1, 3):
        engine.refuses("place_float", k, 3)
        engine.refuses("park_float", k)


def test_a_window_binds_the_tail_and_holds_its_owners_id_until_it_retires() -> None:
    """A sliding window keeps pages for the newest tokens only; its ids are those of the full sub-pool."""
    engine = Engine({**WINDOW, "total": 8, "pages": 8, "top": 4})
    full, window = 0, 1
    engine.refuses("bind_frontier", window, 1, 3)  # the id is not live in its owner
    for v in (1, 2):
        engine.push(full, v)
    engine.push(window, 2, down=True)
    engine.refuses("unbind", full, 2)
    engine.free(full, 1)
    page = engine.free(window, 2)  # out of the window: retired
    assert engine.state.physical[full, 2] != UNMAPPED
    engine.do("bind_hole", window, 2, page)  # and back again
    engine.write(window, 2)
    engine.refuses("bind_hole", window, 2, page)
    engine.free(window, 2)
    engine.free(full, 2)
    engine.refuses("bind_hole", window, 2, page)


@pytest.mark.parametrize("padding", [-1, 0, 3, 6, 99])
def test_padding_goes_to_the_sink(padding: int) -> None:
    engine = Engine(instance((1, 2), total=12))
    engine.push(LOW, 1)
    engine.push(HIGH, 1, down=True)
    for k, size in ((LOW, 1), (HIGH, 2)):
        before = dict(engine.state.memory)
        engine.do("write", k, padding, 77)
        changed = {b for b in before if engine.state.memory[b] != before[b]}
        assert changed <= set(range(size))
        assert [engine.state.memory[b] for b in range(size)] == [77] * size
        engine.do("write", k, padding, 78)


def test_a_write_of_no_stamp_is_refused() -> None:
    engine = Engine(instance((1, 2), total=12))
    engine.push(LOW, 1)
    for stamp in (0, -1):
        engine.refuses("write", LOW, 1, stamp)
    engine.refuses("write", 2, 1, 5)


def test_wrong_calls_are_refused_and_change_nothing() -> None:
    engine = Engine(instance((1, 2), total=12))
    engine.push(LOW, 1)
    engine.push(LOW, 2)
    hole = engine.free(LOW, 1)
    for k in (LOW, HIGH, -1, 2):
        for v in (-1, 0, 5, 6, 99):
            engine.refuses("unbind", k, v)
            engine.refuses("move", k, v, hole)
    for v in (-1, 0, 2, 6):
        engine.refuses("bind_hole", LOW, v, hole)
        engine.refuses("bind_frontier", LOW, v, engine.state.last[LOW])
    for page in (-1, 0, 3, 12, 13):
        engine.refuses("bind_hole", LOW, 1, page)
        engine.refuses("reclaim", LOW, page)
        engine.refuses("move", LOW, 2, page)
        engine.refuses("bind_frontier", LOW, 1, page)
        engine.refuses("grow", LOW, page)
    engine.refuses("retreat_high", LOW)  # its top page is bound
    engine.refuses("retreat_low", LOW)  # an up end never leaves the bottom
    engine.refuses("retreat_high", HIGH)
    engine.refuses("retreat_low", HIGH)  # it is empty


def test_a_clear_restores_a_new_buffer_and_touches_no_byte() -> None:
    sizes = instance((1, 2, 1), total=16)
    engine = Engine(sizes)
    engine.do("place_float", FLOAT, 4)
    for k, down in ((0, False), (FLOAT, True), (2, True)):
        for v in (1, 2):
            engine.push(k, v, down)
    memory, place = dict(engine.state.memory), dict(engine.state.place)
    engine.stamps.clear()
    engine.do("unbind", 0, 1)
    engine.do("clear")
    fresh = SPEC.initial(**sizes)
    assert engine.state.key() == fresh.key()
    assert (dict(engine.state.memory), dict(engine.state.place)) == (memory, place)
    assert [engine.state.tenancy[k, 1] for k in range(3)] == [1, 1, 1]
    assert engine.state.clears == 1
    assert all(engine.state.virtual[k, page] == NO_ID for k in range(3) for page in range(1, 16))
    assert all(engine.state.virtual[k, SINK_PAGE] == 0 for k in range(3))
    engine.push(0, 1)


# ------------------------------------------------------------------------------------------------------- random walk

WALKS = {
    "three sub-pools, a window among them": SMALL,
    "a window over an up end": {**WINDOW, "total": 9, "pages": 9, "top": 4},
    "four sub-pools, two floats": instance((2, 1, 3, 2), total=26, ids=5, zeroed=(False, True, False, True)),
    "one sub-pool": instance((2,), total=9, top=0),
}


@pytest.mark.parametrize("sizes", WALKS.values(), ids=WALKS)
def test_a_model_of_tagged_bytes_says_the_same(sizes: dict[str, Any]) -> None:
    """Whatever is asked, good or bad, spec and model allow or refuse alike, and agree about every byte."""
    walk, said = Walk(SPEC, sizes, SEED, RARE), {True: 0, False: 0}
    state, model = SPEC.initial(**sizes), Flat(sizes)
    for step in range(1500):
        rarely = walk.draw.random() < 0.05
        item = walk.draw.choice([a for a in SPEC.actions if rarely or a.name not in RARE])
        good = walk.allowed(item, state) if walk.draw.random() < 0.7 else None
        arguments = good if good is not None else walk.chance.arguments(state, item.parameters)
        if item.name == "write":
            arguments = (*arguments[:2], walk.draw.randrange(10))
        shown = f"seed {SEED}, step {step}: {item.name}{arguments}"
        allows = model.step(item.name, arguments)
        said[allows] += 1
        before = state.key(ghosts=True)
        if allows:
            item.function(state, *arguments)
            assert model.differences(state) == [], shown
        else:
            with pytest.raises(Refused):
                item.function(state, *arguments)
            assert state.key(ghosts=True) == before, shown
    assert min(said.values()) > 200, said
