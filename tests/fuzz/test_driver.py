"""The driver: picks that stay meaningful, steps in flight, reports, and Hypothesis against the shipped pool."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from poolproof.fuzz.binding import Binding
from poolproof.fuzz.coverage import Coverage
from poolproof.fuzz.driver import Driver
from poolproof.fuzz.errors import SettingError
from poolproof.fuzz.events import ImmediateEvents, Schedule, ScheduledEvents
from poolproof.fuzz.loading import LoadedTarget, load_target
from poolproof.fuzz.operations import (
    Alloc,
    AnyOperation,
    Clear,
    Free,
    OpenGroup,
    Pick,
    PickKind,
    Reclaim,
    Retire,
    Transfer,
    TryAlloc,
)
from poolproof.fuzz.picks import resolve
from poolproof.fuzz.plain_pool import PlainPool
from poolproof.fuzz.runs import run_trace
from poolproof.fuzz.strategies import traces
from poolproof.fuzz.traces import Header, Trace
from poolproof.spec import slots as spec
from poolproof.spec.slots import Owner

SLOT_POOL = load_target("slot-pool")
MINE = Pick(PickKind.MINE)


AT_ONCE = Schedule()


def driver(slots: int = 4, schedule: Schedule = AT_ONCE) -> Driver:
    """A driver of a new slot pool."""
    return Driver(Binding(SLOT_POOL.make(slots), SLOT_POOL.profile), slots, schedule, Coverage())


def trace_of(*operations: AnyOperation, slots: int = 4) -> Trace:
    """These operations on a slot pool."""
    return Trace(Header(target="slot-pool", sizes={"": slots}), operations)


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(traces("slot-pool", SLOT_POOL.profile))
def test_the_shipped_pool_follows_the_spec_on_any_trace(trace: Trace) -> None:
    run = run_trace(SLOT_POOL, trace)
    assert run.divergence is None
    assert run.checked >= 1


def test_picks_name_slots_of_the_state_at_hand() -> None:
    state = spec.SPEC.initial(total=6)
    spec.alloc_batch(state, 1, [2, 4])
    spec.alloc_batch(state, 2, [3])
    named = {
        kind: resolve((Pick(kind, 1),), 1, state)
        for kind in PickKind
        if kind not in (PickKind.DUPLICATE, PickKind.PENDING, PickKind.RESERVED)
    }
    assert named == {
        PickKind.MINE: [4],
        PickKind.FREED: [5],
        PickKind.FOREIGN: [3],
        PickKind.OWNED: [3],
        PickKind.SINK: [0],
        PickKind.NEGATIVE: [-2],
        PickKind.PAST_END: [7],
        PickKind.WRAPPED: [(1 << 32) + 4],
    }
    assert resolve((MINE, MINE, MINE, Pick(PickKind.DUPLICATE)), 1, state) == [2, 4, 2]
    assert resolve((Pick(PickKind.PENDING),), 1, state) == []


def test_a_retired_slot_waits_for_its_step_and_steps_end_out_of_order() -> None:
    schedules = (Schedule(seed=seed, shortest=2, longest=9) for seed in range(100))
    schedule = next(s for s in schedules if s.delay(0) > s.delay(1) + 1)
    run = driver(schedule=schedule)
    run.step(Alloc(n=2))
    run.step(Retire(picks=(MINE,), step=0))
    run.step(Retire(picks=(MINE,), step=1))
    owner = run.lockstep.state.owner
    assert list(owner.values()).count(Owner.PENDING) == 2
    while list(owner.values()).count(Owner.PENDING) == 2:
        run.step(Alloc(n=0))
    assert owner[spec.Slot(2)] == Owner.FREE
    assert owner[spec.Slot(1)] == Owner.PENDING
    run.close()
    assert run.lockstep.state.in_pending == 0


def test_a_slot_reclaimed_out_of_turn_is_not_reclaimed_again_when_its_step_ends() -> None:
    run = driver(slots=1, schedule=Schedule(shortest=3, longest=3))
    for operation in (Alloc(n=1), Retire(picks=(MINE,)), Reclaim(picks=(Pick(PickKind.PENDING),)), Alloc(n=1)):
        run.step(operation)
    for _ in range(4):
        run.step(Alloc(n=0))
    assert run.lockstep.state.owner[spec.Slot(1)] == Owner.REQUEST


def test_clear_forgets_the_steps_in_flight() -> None:
    run = driver(slots=2, schedule=Schedule(shortest=2, longest=2))
    for operation in (Alloc(n=2), Retire(picks=(MINE, MINE)), Clear(), Alloc(n=2), Alloc(n=0), Alloc(n=0)):
        run.step(operation)
    assert run.lockstep.state.in_requests == 2
    assert run.coverage.done["reclaim"] == 0


def test_a_refused_operation_counts_and_changes_nothing() -> None:
    run = driver()
    run.step(Alloc(n=2))
    before = run.lockstep.state.key(ghosts=True)
    run.step(Alloc(n=1, beyond=True))
    run.step(Free(picks=(MINE, Pick(PickKind.SINK))))
    run.step(OpenGroup(n=1, beyond=True))
    run.step(Transfer(picks=(MINE,), to="request", heir=0))
    assert run.lockstep.state.key(ghosts=True) == before
    assert sum(run.coverage.refused.values()) == 4


def test_a_report_names_operation_field_slots_values_and_claim() -> None:
    class Forgetful(PlainPool):
        def retire(self, ids: list[int], holder: int = 0) -> None:
            super().retire(ids, holder)
            self.owner[ids[0]] = Owner.FREE

    loaded = LoadedTarget("forgetful", Forgetful)
    found = run_trace(loaded, trace_of(Alloc(n=2), Retire(picks=(MINE, MINE)))).divergence
    assert found is not None
    assert (found.number, found.field, found.slots) == (2, "owner", (1,))
    assert (list(found.target), list(found.spec)) == (["FREE"], ["PENDING"])
    assert found.theorem in ("I2", "I3")
    text = str(found)
    assert "retire" in text
    assert found.claim in text


def test_a_target_that_does_what_the_spec_refuses_has_failed() -> None:
    found = run_trace(load_target("canary-sink-freed"), trace_of(Free(picks=(Pick(PickKind.SINK),)))).divergence
    assert found is not None
    assert (found.number, found.field, found.theorem) == (1, "verdict", "I2")


def test_a_leak_shows_in_the_closing_check_at_the_latest() -> None:
    class Leak(PlainPool):
        snapshot = None  # type: ignore[assignment]
        available = None  # type: ignore[assignment]

        def free(self, ids: list[int], holder: int = 0) -> None:
            super().free(ids, holder)
            self.unused.pop()

    found = run_trace(LoadedTarget("leak", Leak), trace_of(Alloc(n=1))).divergence
    assert found is not None
    assert found.number == 2
    assert found.theorem == "I4"


def test_events_complete_when_their_source_says() -> None:
    assert ImmediateEvents().record().is_complete()
    source = ScheduledEvents(Schedule(shortest=2, longest=2))
    event = source.record()
    assert not event.is_complete()
    source.advance(2)
    assert event.is_complete()
    with pytest.raises(SettingError):
        ScheduledEvents(Schedule(shortest=3, longest=1))


def test_a_try_alloc_that_raises_for_lack_of_slots_has_failed() -> None:
    class Raises(PlainPool):
        def try_alloc(self, n: int, holder: int = 0) -> list[int] | None:
            return self.alloc(n, holder)

    found = run_trace(LoadedTarget("raises", Raises), trace_of(TryAlloc(n=1, beyond=True))).divergence
    assert found is not None
    assert found.target == "raised Refusal: 5 slots needed, 4 free"
