"""The schedule's spec: readings agree, scenes of work in flight, and a simulated device that keeps every promise."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from device_events import Broken, Device
from differential import Chance, compare_step
from scenes import Scene, Walk, compare_readings

from poolproof.proofs.buffer import CHAIN
from poolproof.proofs.mutate import mutants
from poolproof.proofs.schedule import SMALL
from poolproof.spec.language import SpecError
from poolproof.spec.language.source import is_guard, parse, statements
from poolproof.spec.schedule import NO_STEP, SPEC, Phase, credit, is_building

SEED = 7102
RARE = frozenset({"clear", "close_gate", "lay_float_aside"})
NEEDS_PAGES_THAT_LAST = {"read", "publish"}
FREES = frozenset({"let_go", "let_go_later", "retire"})
SLOW = {"relocate": 2, "read": 4, "write_page": 4}
HOME, AWAY, OTHER = 0, 1, 2
LOW, HIGH = 0, 1

SIZES = {
    "buffer.sub_pools": 2,
    "buffer.pages": 7,
    "buffer.virtual_ids": 5,
    "buffer.total": 14,
    "buffer.page_bytes": (2, 2),
    "buffer.ids": (5, 5),
    "buffer.id_owner": (0, 1),
    "buffer.zeroed": (False, True),
    "buffer.sink_bytes": 2,
    "buffer.bottom": 1,
    "buffer.top": 7,
    "steps": 4,
    "leases": 2,
}


TIME = {"steps": SMALL["steps"], "leases": SMALL["leases"]}
FLOATING = {**{f"buffer.{name}": size for name, size in CHAIN.items()}, **TIME}


# ------------------------------------------------------------------------------------------------- the readings agree


@pytest.mark.parametrize("item", SPEC.actions, ids=lambda item: item.name)
def test_steps_agree(item: Any) -> None:
    trials, sizes = SLOW.get(item.name, 5), FLOATING if "float" in item.name else SMALL
    rare = RARE | FREES if item.name in NEEDS_PAGES_THAT_LAST else RARE
    seen = compare_readings(Walk(SPEC, sizes, SEED + sum(map(ord, item.name)), rare), item, trials)
    assert seen["done"] == trials, seen
    guards = [s for s in statements(parse(item.function)) if is_guard(s)]
    assert not guards or seen["refused"] >= trials // 2, seen


def test_initial_states_agree_whatever_was_there() -> None:
    chance = Chance(SPEC, SEED)
    for trial in range(3):
        before = chance.state({"buffer": {n.removeprefix("buffer."): v for n, v in SMALL.items() if "." in n}, **TIME})
        assert compare_step(SPEC, SPEC.initializer, before, (), f"seed {SEED}, trial {trial}") == "done"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"steps": 0}, "steps is 0, at least 1 is needed"),
        ({"leases": 0}, "leases is 0, at least 1 is needed"),
        ({"buffer.top": 9}, "buffer: these sizes do not fit: the_ends_are_in_place"),
        ({"buffer.sink_bytes": 1}, "buffer: these sizes do not fit: pages_have_bytes_and_the_sink_holds_one"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        SPEC.initial(**{**SIZES, **wrong})


# ------------------------------------------------------------------------------------------------------------- scenes


class Engine(Scene):
    """An engine with work in flight."""

    def __init__(self) -> None:
        super().__init__(SPEC, SIZES)

    def page(self, k: int, v: int) -> int:
        """Where an id's page is."""
        return int(self.state.buffer.physical[k, v])

    def take(self, k: int, *ids: int) -> None:
        """Bind fresh pages at the frontier."""
        for v in ids:
            page = self.state.buffer.last[k] if k == LOW else self.state.buffer.first[k] - 1
            self.do("take_frontier", k, v, page)

    def hole(self, v: int) -> int:
        """Make a hole of a page of the up end."""
        page = self.page(LOW, v)
        self.do("let_go", LOW, v)
        self.do("take_back", LOW, page)
        return page

    def run(self, s: int, stream: int, *accesses: tuple[Any, ...]) -> None:
        """Begin a step, add accesses to it, and launch it."""
        self.do("begin", s, stream)
        for name, *arguments in accesses:
            self.do(name, s, *arguments)
        self.do("launch", s)

    def finish(self, *steps: int) -> None:
        """Complete steps, one after the other, and deal with their results."""
        for s in steps:
            self.do("complete", s)
            self.do("retire", s)

    def fill(self, k: int, *ids: int) -> None:
        """Have a step at home write the pages of ids, and be done with it."""
        self.run(3, HOME, *(("write_page", k, v, 7) for v in ids))
        self.finish(3)

    def sees(self, s: int) -> None:
        """Have a step at home see the ids as they are, and be over."""
        self.run(s, HOME)
        self.do("complete", s)

    def changed_by(self, name: str, *arguments: int) -> set[str]:
        """Do a step; which fields are others after it, ghosts left out."""
        before = self.state.plain()
        self.do(name, *arguments)
        return {field for field, value in self.state.plain().items() if value != before[field]} - SPEC.ghosts

    def device(self, page: int) -> list[int]:
        """What the device holds in a page."""
        return [self.state.device[b] for b in (2 * page, 2 * page + 1)]


def test_a_page_is_used_again_at_once_on_the_stream_that_used_it() -> None:
    engine = Engine()
    engine.take(LOW, 1)
    engine.run(0, HOME, ("write_page", LOW, 1, 5))
    page = engine.hole(1)  # the step is still in flight
    engine.do("take_hole", LOW, 2, page)
    engine.run(1, HOME, ("write_page", LOW, 2, 6))
    engine.refuses("complete", 1)
    engine.do("complete", 0)
    assert engine.device(page) == [5, 5]
    engine.do("complete", 1)
    assert engine.device(page) == [6, 6]


def test_a_transfer_keeps_a_freed_page_pending_until_it_completes() -> None:
    engine = Engine()
    engine.take(LOW, 1)
    engine.fill(LOW, 1)
    engine.run(0, AWAY, ("read", LOW, 1))
    page = engine.page(LOW, 1)
    engine.do("let_go", LOW, 1)
    engine.refuses("take_back", LOW, page)
    engine.do("complete", 0)
    engine.do("take_back", LOW, page)
    engine.do("take_hole", LOW, 2, page)


def test_a_transfer_waits_for_every_step_at_home() -> None:
    """What lay in its pages before may be any home step's."""
    engine = Engine()
    engine.take(LOW, 1, 2)
    engine.fill(LOW, 2)
    engine.run(0, HOME, ("write_page", LOW, 1, 5))
    engine.do("begin", 1, AWAY)
    engine.refuses("read", 1, LOW, 2)
    engine.refuses("write_page", 1, LOW, 2, 6)
    engine.do("wait_for", 1, 0)
    engine.do("read", 1, LOW, 2)


def test_a_reader_waits_for_a_writer_on_another_stream() -> None:
    engine = Engine()
    engine.take(LOW, 1)
    engine.do("begin", 0, AWAY)
    engine.do("write_page", 0, LOW, 1, 5)
    engine.do("begin", 1, HOME)
    engine.refuses("wait_for", 1, 0)  # it has no event yet
    engine.do("launch", 0)
    engine.refuses("read", 1, LOW, 1)
    engine.refuses("wait_for", 0, 1)
    engine.refuses("wait_for", 1, 1)
    engine.do("wait_for", 1, 0)
    engine.do("read", 1, LOW, 1)
    engine.do("launch", 1)
    engine.refuses("wait_for", 1, 0)  # it is launched
    engine.refuses("complete", 1)
    engine.do("complete", 0)
    engine.do("complete", 1)


def test_a_writer_waits_for_a_reader_on_another_stream_but_readers_for_none() -> None:
    engine = Engine()
    engine.take(LOW, 1)
    engine.fill(LOW, 1)
    engine.run(0, AWAY, ("read", LOW, 1))
    engine.do("begin", 1, HOME)
    engine.do("read", 1, LOW, 1)
    engine.refuses("write_page", 1, LOW, 1, 5)
    engine.do("wait_for", 1, 0)
    engine.do("write_page", 1, LOW, 1, 5)


def test_steps_of_two_streams_complete_out_of_order_and_those_of_one_do_not() -> None:
    engine = Engine()
    engine.take(LOW, 1, 2)
    engine.run(0, AWAY, ("write_page", LOW, 1, 5))
    engine.run(1, OTHER, ("write_page", LOW, 2, 6))
    engine.run(2, AWAY, ("read", LOW, 1))
    engine.refuses("complete", 2)
    engine.do("complete", 1)
    assert engine.device(engine.page(LOW, 2)) == [6, 6]
    engine.do("complete", 0)
    engine.do("complete", 2)
    assert [engine.state.phase[s] for s in range(4)] == [Phase.OVER, Phase.OVER, Phase.OVER, Phase.IDLE]
    assert set(engine.state.writer.values()) == {NO_STEP}


def test_only_the_newest_step_of_a_stream_is_built() -> None:
    engine = Engine()
    engine.take(LOW, 1)
    engine.fill(LOW, 1)
    engine.do("begin", 0, HOME)
    engine.do("begin", 1, HOME)
    assert [is_building(engine.state, s) for s in range(4)] == [False, True, False, False]
    engine.refuses("read", 0, LOW, 1)
    for s, stream in ((1, HOME), (-1, HOME), (4, HOME), (2, -1)):
        engine.refuses("begin", s, stream)
    engine.do("read", 1, LOW, 1)
    engine.refuses("read", 1, LOW, 1)  # it reads the page already
    engine.refuses("launch", 1)  # a stream runs what it is handed in order, and step 0 comes first
    engine.refuses("complete", 0)
    engine.do("launch", 0)
    engine.do("launch", 1)
    engine.refuses("read", 1, LOW, 1)
    engine.refuses("launch", 1)
    engine.refuses("complete", 1)  # step 0 is not complete
    engine.do("complete", 0)
    engine.do("complete", 1)


def test_a_lease_waits_until_no_write_is_on_its_way() -> None:
    engine = Engine()
    engine.take(LOW, 1)
    engine.do("begin", 0, HOME)
    engine.do("write_page", 0, LOW, 1, 1)
    engine.do("launch", 0)
    engine.do("let_go", LOW, 1)
    engine.do("take_back", LOW, engine.state.buffer.first[LOW])
    engine.do("take_hole", LOW, 2, engine.state.buffer.first[LOW])
    engine.refuses("lease_page", 0, LOW, 2)  # the write for id 1 would land in what id 2 is given from outside
    engine.do("complete", 0)
    engine.do("lease_page", 0, LOW, 2)


def test_padding_goes_by_the_captured_tables() -> None:
    engine = Engine()
    engine.take(LOW, 1)
    engine.do("begin", 0, HOME)
    engine.do("let_go", LOW, 1)
    engine.refuses("write_padding", 0, LOW, 1, 1)  # the step's own table still leads to the page


def test_a_lease_outlives_the_free() -> None:
    engine = Engine()
    engine.take(LOW, 1)
    page = engine.page(LOW, 1)
    engine.do("lease_page", 0, LOW, 1)
    engine.refuses("lease_page", 0, LOW, 1)
    engine.do("lease_page", 1, LOW, 1)
    engine.do("let_go", LOW, 1)
    engine.refuses("lease_page", 0, LOW, 1)
    for lease in (1, 0):
        engine.refuses("take_back", LOW, page)
        engine.do("release_page", lease, LOW, page)
        engine.refuses("release_page", lease, LOW, page)
    engine.do("take_back", LOW, page)


def test_gates_nest_and_each_is_opened_by_whoever_closed_it() -> None:
    engine = Engine()
    engine.take(LOW, 1, 2)
    hole = engine.hole(1)
    engine.do("close_gate", 0, LOW)
    engine.refuses("close_gate", 0, LOW)
    for lease, k in ((-1, LOW), (2, LOW), (0, -1), (0, 2)):
        engine.refuses("close_gate", lease, k)
        engine.refuses("open_gate", lease, k)
    engine.refuses("open_gate", 1, LOW)  # somebody else closed it
    engine.refuses("open_gate", 0, HIGH)
    engine.do("close_gate", 1, LOW)
    engine.do("begin", 0, HOME)
    engine.refuses("relocate", 0, LOW, 2, hole)
    engine.do("open_gate", 0, LOW)
    engine.refuses("open_gate", 0, LOW)
    engine.refuses("relocate", 0, LOW, 2, hole)
    engine.do("open_gate", 1, LOW)
    engine.refuses("open_gate", 1, LOW)
    engine.do("relocate", 0, LOW, 2, hole)
    assert engine.page(LOW, 2) == hole


def test_a_remembered_credit_is_dropped_whenever_it_may_be_wrong() -> None:
    engine = Engine()
    engine.take(LOW, 1, 2, 3)
    engine.fill(LOW, 2)
    hole = engine.hole(1)

    def asked() -> tuple[bool, int]:
        """Whether the last answer was still remembered, and what is answered now."""
        remembered = bool(engine.state.memo_holds[LOW])
        engine.do("ask_capacity", LOW)
        assert engine.state.memo[LOW] == credit(engine.state, LOW)
        return remembered, int(engine.state.memo[LOW])

    assert asked() == (False, 1)
    assert asked() == (True, 1)
    engine.do("close_gate", 0, LOW)
    assert asked() == (False, 0)
    engine.do("open_gate", 0, LOW)
    assert asked() == (False, 1)
    engine.do("lease_page", 0, LOW, 2)
    assert asked() == (False, 0)
    engine.do("release_page", 0, LOW, engine.page(LOW, 2))
    assert asked() == (False, 1)
    engine.run(0, AWAY, ("read", LOW, 2))
    assert asked() == (False, 0)
    engine.do("complete", 0)
    assert asked() == (False, 1)
    engine.do("retire", 0)
    assert asked() == (True, 1)
    page = engine.page(LOW, 2)
    engine.do("let_go", LOW, 2)
    assert asked() == (False, 0)
    engine.do("take_back", LOW, page)
    assert asked() == (False, 2)
    engine.do("take_hole", LOW, 4, hole)
    assert asked() == (False, 1)
    engine.do("close_gate", 1, HIGH)
    assert asked() == (True, 1)


def test_a_group_of_deferred_frees_keeps_the_pages_not_the_ids() -> None:
    engine = Engine()
    engine.take(LOW, 1, 2)
    page = engine.page(LOW, 1)
    engine.do("let_go_later", LOW, 1)
    engine.refuses("let_go_later", LOW, 1)
    engine.refuses("take_back", LOW, page)
    engine.take(LOW, 1)  # the id is somebody else's by now
    engine.do("end_group")
    engine.do("take_back", LOW, page)
    assert engine.page(LOW, 1) == page + 2


def test_queued_zeroing_comes_before_the_first_read() -> None:
    engine = Engine()
    engine.take(HIGH, 1)
    page = engine.page(HIGH, 1)
    assert engine.state.to_zero[HIGH, page]
    engine.sees(3)
    engine.do("begin", 0, HOME)
    engine.refuses("read", 0, HIGH, 1)
    engine.refuses("write_page", 0, HIGH, 1, 5)
    engine.refuses("publish", 3, HIGH, 1)
    engine.do("zero", 0, HIGH, page)
    engine.refuses("zero", 0, HIGH, page)
    engine.refuses("read", 0, HIGH, 1)  # one step does not read what it writes
    engine.do("launch", 0)
    engine.run(1, HOME, ("read", HIGH, 1))
    engine.do("complete", 0)
    assert engine.device(page) == [0, 0]
    engine.do("complete", 1)
    engine.refuses("publish", 3, HIGH, 1)  # zeros are nothing to give to others


def test_a_zeroed_page_shows_nothing_of_its_last_tenant() -> None:
    engine = Engine()
    engine.take(HIGH, 1)
    page = engine.page(HIGH, 1)
    engine.run(0, HOME, ("zero", HIGH, page), ("write_page", HIGH, 1, 9))
    engine.do("let_go", HIGH, 1)
    engine.do("take_back", HIGH, page)
    engine.do("take_hole", HIGH, 2, page)
    engine.do("begin", 1, HOME)
    engine.refuses("read", 1, HIGH, 2)
    engine.do("zero", 1, HIGH, page)
    engine.do("launch", 1)
    engine.do("complete", 0)
    assert engine.device(page) == [9, 9]
    engine.do("complete", 1)
    assert engine.device(page) == [0, 0]


def test_nothing_is_published_while_its_writer_is_in_flight() -> None:
    engine = Engine()
    engine.take(LOW, 1, 2)
    engine.fill(LOW, 2)
    engine.sees(0)
    engine.do("begin", 1, HOME)
    engine.do("write_page", 1, LOW, 1, 5)
    engine.refuses("publish", 0, LOW, 1)
    engine.do("launch", 1)
    engine.refuses("publish", 0, LOW, 1)
    for s in (-1, 1, 2, 4):  # of none of them there are results
        engine.refuses("publish", s, LOW, 2)
    engine.do("publish", 0, LOW, 2)
    engine.do("complete", 1)
    engine.do("publish", 1, LOW, 1)
    for s in (0, 1):
        engine.refuses("publish", s, LOW, 1)
        for v in (-1, 0, 3, 5):
            engine.refuses("publish", s, LOW, v)
    engine.do("let_go", LOW, 1)
    assert not engine.state.published[LOW, 1]


def test_what_its_owner_has_not_written_is_neither_read_nor_published() -> None:
    engine = Engine()
    engine.take(LOW, 1)
    engine.fill(LOW, 1)
    page = engine.hole(1)
    engine.do("take_hole", LOW, 2, page)  # where the last owner's bytes still are
    engine.sees(0)
    engine.do("begin", 1, HOME)
    engine.refuses("read", 1, LOW, 2)
    engine.refuses("publish", 0, LOW, 2)
    engine.do("write_page", 1, LOW, 2, 5)
    engine.do("launch", 1)
    engine.run(2, HOME, ("read", LOW, 2))
    engine.do("complete", 1)
    engine.do("publish", 0, LOW, 2)
    assert engine.device(page) == [5, 5]


def test_zeros_that_are_promised_are_read_unwritten() -> None:
    engine = Engine()
    engine.take(HIGH, 1)
    engine.run(0, HOME, ("zero", HIGH, engine.page(HIGH, 1)))
    engine.run(1, HOME, ("read", HIGH, 1))
    assert not engine.state.filled[HIGH, 1]


@pytest.mark.parametrize("let_go", ["let_go", "let_go_later"])
def test_a_step_publishes_only_for_the_tenant_that_it_saw(let_go: str) -> None:
    engine = Engine()
    engine.sees(2)  # nobody
    engine.take(LOW, 1)
    engine.run(0, HOME, ("write_page", LOW, 1, 5))
    engine.run(1, HOME, ("read", LOW, 1))
    engine.do("complete", 0)
    engine.do(let_go, LOW, 1)
    engine.refuses("publish", 0, LOW, 1)  # the id is dead
    engine.take(LOW, 1)
    engine.do("complete", 1)
    engine.fill(LOW, 1)
    for s in (0, 1, 2):
        engine.refuses("publish", s, LOW, 1)
    engine.do("retire", 0)
    engine.sees(0)
    engine.do("publish", 0, LOW, 1)


def test_after_a_clear_no_step_from_before_it_publishes() -> None:
    engine = Engine()
    engine.take(LOW, 1)
    engine.run(0, HOME, ("write_page", LOW, 1, 5))
    engine.do("complete", 0)
    engine.do("publish", 0, LOW, 1)
    engine.do("clear")
    assert not engine.state.published[LOW, 1]
    engine.take(LOW, 1)
    engine.sees(1)
    engine.refuses("publish", 1, LOW, 1)  # nothing is filled any more
    engine.fill(LOW, 1)
    engine.refuses("publish", 0, LOW, 1)
    engine.do("publish", 1, LOW, 1)


def test_a_page_that_moves_is_still_its_owners_and_filled() -> None:
    engine = Engine()
    engine.take(LOW, 1, 2, 3)
    engine.fill(LOW, 2)
    engine.sees(0)
    first, second = engine.hole(1), engine.page(LOW, 2)
    engine.do("begin", 1, HOME)
    engine.do("relocate", 1, LOW, 2, first)
    engine.do("launch", 1)
    engine.refuses("publish", 0, LOW, 2)  # the copy is on its way
    engine.run(2, HOME, ("read", LOW, 2))
    engine.do("complete", 1)
    assert engine.device(first) == [7, 7]
    engine.do("publish", 0, LOW, 2)
    engine.do("take_back", LOW, second)
    engine.do("begin", 3, HOME)
    engine.do("relocate", 3, LOW, 3, second)
    engine.do("launch", 3)
    engine.finish(2, 3)
    engine.do("begin", 3, HOME)
    engine.refuses("read", 3, LOW, 3)  # the move has filled nothing
    engine.refuses("publish", 0, LOW, 3)


def test_a_step_that_is_over_keeps_its_place_until_it_is_retired() -> None:
    engine = Engine()
    engine.take(LOW, 1)
    engine.fill(LOW, 1)
    for s in (-1, 0, 4):
        engine.refuses("retire", s)
    engine.do("begin", 0, HOME)
    engine.refuses("retire", 0)
    engine.do("launch", 0)
    engine.refuses("retire", 0)
    engine.do("complete", 0)
    engine.do("begin", 1, HOME)
    for name, *arguments in (
        ("begin", 0, HOME),
        ("read", 0, LOW, 1),
        ("launch", 0),
        ("complete", 0),
        ("wait_for", 1, 0),
    ):
        engine.refuses(name, *arguments)
    engine.do("read", 1, LOW, 1)  # what is over keeps nobody waiting
    assert engine.changed_by("retire", 0) == {"phase"}
    engine.refuses("retire", 0)
    engine.refuses("publish", 0, LOW, 1)
    engine.do("begin", 0, HOME)


def test_that_a_step_is_over_changes_no_table() -> None:
    engine = Engine()
    engine.take(LOW, 1, 2)
    engine.take(HIGH, 1)
    engine.do("let_go", LOW, 2)
    engine.run(0, HOME, ("write_page", LOW, 1, 5))
    engine.do("begin", 1, AWAY)
    engine.do("wait_for", 1, 0)
    engine.do("read", 1, LOW, 1)
    engine.do("launch", 1)
    engine.do("ask_capacity", LOW)
    assert engine.changed_by("complete", 0) == {"phase", "waits", "writes", "memo_holds"}
    assert engine.changed_by("complete", 1) == {"phase", "reads"}


def test_captured_tables_serve_no_access_once_the_tables_have_changed() -> None:
    engine = Engine()
    engine.take(LOW, 1)
    engine.fill(LOW, 1)
    engine.do("begin", 0, HOME)
    engine.take(LOW, 2)
    engine.refuses("read", 0, LOW, 1)
    engine.refuses("write_page", 0, LOW, 1, 5)
    engine.take(HIGH, 1)
    engine.do("begin", 1, HOME)
    engine.do("read", 1, LOW, 1)
    engine.do("launch", 0)
    assert [engine.state.seen[s, LOW, 2] for s in (0, 1)] == [-1, engine.page(LOW, 2)]


def test_what_is_leased_or_being_zeroed_or_away_from_home_is_not_relocated() -> None:
    engine = Engine()
    engine.take(LOW, 1, 2)
    hole = engine.hole(1)
    engine.do("lease_page", 0, LOW, 2)
    engine.do("begin", 0, HOME)
    engine.refuses("relocate", 0, LOW, 2, hole)
    engine.do("release_page", 0, LOW, engine.page(LOW, 2))
    engine.do("begin", 1, AWAY)
    engine.refuses("relocate", 1, LOW, 2, hole)
    engine.do("relocate", 0, LOW, 2, hole)
    engine.take(HIGH, 1, 2)
    engine.do("let_go", HIGH, 1)
    engine.do("take_back", HIGH, 6)
    engine.do("begin", 2, HOME)
    engine.refuses("relocate", 2, HIGH, 2, 6)


def test_copies_of_one_step_never_overlap() -> None:
    engine = Engine()
    engine.take(LOW, 1, 2, 3)
    engine.run(0, HOME, ("write_page", LOW, 2, 5), ("write_page", LOW, 3, 6))
    first = engine.hole(1)
    second = engine.page(LOW, 2)
    engine.do("begin", 1, HOME)
    engine.do("relocate", 1, LOW, 2, first)
    engine.do("take_back", LOW, second)
    engine.refuses("relocate", 1, LOW, 3, second)  # the other copy reads there
    engine.do("begin", 2, HOME)
    engine.do("relocate", 2, LOW, 3, second)
    engine.refuses("relocate", 2, LOW, 2, 3)
    for s in (1, 2):
        engine.do("launch", s)
    for s in (0, 1, 2):
        engine.do("complete", s)
    assert (engine.device(first), engine.device(second)) == ([5, 5], [6, 6])


def test_padding_writes_the_sink_in_a_step_that_is_built() -> None:
    engine = Engine()
    engine.take(LOW, 1)
    engine.refuses("write_padding", 0, LOW, -1, 5)
    engine.do("begin", 0, HOME)
    for v in (-1, 0, 3, 5, 99):
        engine.do("write_padding", 0, LOW, v, 5)
    engine.refuses("write_padding", 0, LOW, 1, 5)
    assert [engine.state.buffer.memory[b] for b in (0, 1)] == [5, 5]


def test_a_clear_is_refused_while_anything_is_open() -> None:
    engine = Engine()
    engine.take(LOW, 1, 2, 3)
    engine.take(HIGH, 1)
    page = engine.page(LOW, 1)
    for opened, *closed in (
        (("begin", 0, HOME), ("launch", 0), ("complete", 0)),
        (("lease_page", 0, LOW, 1), ("release_page", 0, LOW, page)),
        (("close_gate", 1, HIGH), ("open_gate", 1, HIGH)),
        (("let_go_later", LOW, 2), ("end_group",)),
    ):
        engine.do(*opened)
        for step in closed:
            engine.refuses("clear")
            engine.do(*step)
    engine.do("ask_capacity", HIGH)
    assert engine.state.phase[0] is Phase.OVER  # which keeps nobody from it
    versions = dict(engine.state.version)
    assert engine.state.phase[0] is Phase.OVER  # which keeps nobody from it
    engine.do("clear")
    assert all(engine.state.version[k] > versions[k] for k in versions)
    assert set(engine.state.buffer.physical.values()) == {0, -1}
    assert not any((*engine.state.to_zero.values(), *engine.state.memo_holds.values()))
    engine.take(LOW, 1)


# ------------------------------------------------------------------------------------------------------- random walks

MIXED = {
    **SIZES,
    "buffer.pages": 12,
    "buffer.total": 12,
    "buffer.page_bytes": (1, 2),
    "buffer.bottom": 2,
    "buffer.top": 6,
}
OFTEN = (
    *("begin", "read", "write_page", "relocate", "launch", "complete", "retire"),
    *("take_hole", "take_back", "zero", "wait_for"),
)


def play(spec: Any, sizes: dict[str, Any], seed: int, steps: int, often: tuple[str, ...] = OFTEN) -> Device:
    """Random steps of the spec, each told to a simulated device, which completes what it may in any order."""
    walk, state = Walk(spec, sizes, seed, RARE), spec.initial(**sizes)
    device = Device({name.removeprefix("buffer."): value for name, value in sizes.items()}, walk.draw)
    usual = [a for a in spec.actions if a.name not in RARE]
    usual += [spec.action(name) for name in 3 * often]
    for step in range(steps):
        item = walk.draw.choice(spec.actions if walk.draw.random() < 0.05 else usual)
        arguments = walk.allowed(item, state)
        if arguments is None:
            continue
        if item.name == "begin":
            arguments = (arguments[0], walk.draw.choice((HOME, HOME, AWAY, OTHER)))
        if item.name in ("write_page", "write_padding"):
            arguments = (*arguments[:-1], step + 1)
        with spec.active():
            item.function(state, *arguments)
        try:
            device.hears(item.name, arguments)
            device.compares(state)
        except Broken as problem:
            raise Broken(f"seed {seed}, step {step}: {item.name}{arguments}: {problem}") from None
    return device


@pytest.mark.parametrize(
    ("sizes", "seed", "steps"), [(SIZES, SEED, 12_000), (MIXED, SEED + 1, 12_000), (SMALL, SEED + 2, 40_000)]
)
def test_whatever_order_the_device_chooses_every_promise_is_kept(sizes: dict[str, Any], seed: int, steps: int) -> None:
    device = play(SPEC, sizes, seed, steps)
    assert device.completed > 300
    assert device.kept > 60
    assert device.early > 100
    assert device.published > 20


ARRIVED = "forall(pool.all(Step), lambda t: lies_clear_of_writes(pool, t, k, pool.buffer.physical[k, v]))"
FAULTS: list[tuple[str, str, tuple[str, ...]]] = [
    ("read", "drops `require(is_behind_writers(pool, s, k, page))`", ()),
    ("read", "drops `require(pool.captured[s, k] == pool.version[k])`", ()),
    ("read", "drops `require(not_(pool.to_zero[k, page]))`", ()),
    ("read", "drops `require(or_(pool.filled[k, v], pool.buffer.zeroed[k]))`", ()),
    ("write_page", "drops `require(is_behind_readers(pool, s, k, page))`", ()),
    ("write_page", "drops `require(is_behind_writers(pool, s, k, page))`", ()),
    ("write_page", "drops `require(pool.captured[s, k] == pool.version[k])`", ()),
    ("relocate", "drops `require(lies_clear_of_reads(pool, s, k, hole))`", ("take_back", "write_page")),
    ("relocate", "drops `require(pool.pins[k, page] == 0)`", ("lease_page", "let_go", "take_back")),
    (
        "relocate",
        "drops `require(pool.gates[k] == 0)`",
        ("close_gate", "open_gate", "open_gate", "let_go", "take_back"),
    ),
    ("take_back", "drops `require(pool.pins[k, page] == 0)`", ()),
    ("take_back", "drops `require(not_(pool.deferred.has((k, page))))`", ()),
    ("publish", f"drops `require({ARRIVED})`", ("take_hole",)),
    ("publish", "drops `require(pool.same[s, k, v])`", ("let_go", "take_hole")),
    ("publish", "drops `require(pool.filled[k, v])`", ()),
    ("close_gate", "drops `pool.memo_holds[k] = False`", ("open_gate", "ask_capacity", "let_go", "take_back")),
]


def breaks(spec: Any, sizes: dict[str, Any], seed: int, often: tuple[str, ...]) -> bool:
    """Does the simulated device find a promise that is not kept?"""
    try:
        play(spec, sizes, seed, 1500, OFTEN + often)
    except Broken:
        return True
    return False


@pytest.mark.parametrize(("action", "fault", "often"), FAULTS, ids=[f"{a}-{n}" for n, (a, *_) in enumerate(FAULTS)])
def test_the_simulated_device_notices_a_missing_guard(action: str, fault: str, often: tuple[str, ...]) -> None:
    """With a fault in the spec, some walk ends in a broken promise; what it needs is made to happen often."""
    item = SPEC.action(action)
    mutant = next(m for m in mutants(SPEC, item) if m.name == fault)
    faulty = SPEC.with_body(item, mutant.function)
    tried = itertools.product(range(SEED, SEED + 24), (SIZES, MIXED))
    assert any(breaks(faulty, sizes, seed, (action, *often)) for seed, sizes in tried)
