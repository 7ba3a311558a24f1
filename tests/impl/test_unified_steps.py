"""Steps of a unified pool: who waits for whom, what stays until when, and what may be published."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from buffers import extent, finish, holes, pending, places, plain, queued, refused, rows, values, with_window, write

import poolproof as pp
from poolproof import UnifiedPool
from poolproof.events import Immediate

SOURCES = [pytest.param(Immediate, id="host"), pytest.param(queued, id="queued")]


def waits_of(step: pp.Step) -> list[int]:
    return sorted(other.number for other in step.waits)


# ------------------------------------------------------------------------------------------------------- order of steps


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("stream", [None, 1])
def test_steps_of_a_stream_are_launched_and_completed_in_order(source: Any, stream: Any) -> None:
    pool = plain(20, 1, 1, events=source())
    first, second = (pool.begin_step(stream=stream) for _ in range(2))
    refused(pool, pp.StepError, second.launched)
    first.launched()
    second.launched()
    refused(pool, pp.StepError, second.complete)
    first.complete()
    second.complete()
    assert pool.stats().steps == 0


@pytest.mark.parametrize("source", SOURCES)
def test_steps_of_two_streams_complete_in_any_order(source: Any) -> None:
    pool = plain(20, 1, 1, events=source())
    ids = pool["a"].alloc(2)
    first = pool.begin_step(writes={"a": ids[:1]}, stream=1)
    second = pool.begin_step(writes={"a": ids[1:]}, stream=2)
    assert (waits_of(first), waits_of(second)) == ([], [])
    second.launched()
    second.complete()
    finish(first)


def test_a_step_away_comes_behind_all_at_home() -> None:
    pool = plain(20, 1, 1)
    home = pool.begin_step()
    refused(pool, pp.StepError, lambda: pool.begin_step(stream=1))
    home.launched()
    away = pool.begin_step(stream=1)
    assert waits_of(away) == [home.number]
    away.launched()
    refused(pool, pp.StepError, away.complete)
    home.complete()
    assert waits_of(away) == []
    away.complete()


@pytest.mark.parametrize(
    ("mine", "other", "must_wait"),
    [("reads", "reads", False), ("reads", "writes", True), ("writes", "reads", True), ("writes", "writes", True)],
)
@pytest.mark.parametrize("streams", [(1, 2), (1, None), (2, 1)])
def test_who_waits_for_whom(mine: str, other: str, must_wait: bool, streams: tuple[Any, Any]) -> None:
    pool = plain(20, 1, 1)
    ids = pool["a"].alloc(4)
    write(pool, "a", ids, 1)
    first = pool.begin_step(**{other: {"a": ids[:2]}}, stream=streams[0])
    if must_wait:
        refused(pool, pp.StepError, lambda: pool.begin_step(**{mine: {"a": ids[1:3]}}, stream=streams[1]))
    first.launched()
    second = pool.begin_step(**{mine: {"a": ids[1:3]}}, stream=streams[1])
    assert waits_of(second) == ([first.number] if must_wait else [])
    second.launched()
    apart = pool.begin_step(**{mine: {"a": ids[3:]}}, stream=3)
    assert first.number not in waits_of(apart)


def test_what_it_was_told_to_come_after() -> None:
    pool = plain(20, 1, 1)
    first, second = pool.begin_step(stream=1), pool.begin_step(stream=2)
    refused(pool, pp.StepError, lambda: pool.begin_step(stream=3, after=[first]))
    first.launched()
    second.launched()
    third = pool.begin_step(stream=3, after=[first, second])
    assert waits_of(third) == [first.number, second.number]
    third.launched()
    refused(pool, pp.StepError, third.complete)
    first.complete()
    second.complete()
    third.complete()
    assert waits_of(pool.begin_step(stream=1, after=[first, second, third])) == []


def test_a_step_reads_and_writes_the_same_page() -> None:
    pool = plain(20, 1, 1)
    ids = pool["a"].alloc(2)
    write(pool, "a", ids, 3)
    step = pool.begin_step(reads={"a": ids}, writes={"a": ids}, stream=1)
    assert step.reads["a"].tolist() == step.writes["a"].tolist() == places(pool, "a", ids)
    pool["a"].free(ids)
    assert pending(pool, "a") == sorted(step.reads["a"].tolist())
    finish(step)
    assert pending(pool, "a") == []


# ------------------------------------------------------------------------------------------- an open step of the engine


def test_nothing_moves_while_a_step_at_home_is_open() -> None:
    pool = plain(12, 1, 1)
    ids = pool["a"].alloc(6)
    pool["a"].free(ids[:3])
    assert pool.capacity("b") == 8
    step = pool.begin_step()
    assert pool.compact(urgent=True) == []
    assert pool.capacity("b") == 5
    assert pool["b"].try_alloc(6) is None
    step.launched()
    assert pool.capacity("b") == 8
    assert len(pool["b"].alloc(8)) == 8
    step.complete()


def test_a_step_away_lets_others_move() -> None:
    pool = plain(12, 1, 1)
    ids = pool["a"].alloc(6)
    step = pool.begin_step(writes={"a": ids[4:5]}, stream=1)
    pool["a"].free(ids[:3])
    assert pool.capacity("b") == 6
    assert [move.ids.tolist() for move in pool.compact(urgent=True)] == [ids[5:6].tolist()]
    finish(step)
    assert pool.capacity("b") == 8


def test_zeroing_waits_for_an_open_step() -> None:
    pool = plain(20, 1, 1, zero="on_handout")
    first = pool.begin_step()
    ids = pool["a"].alloc(2)
    refused(pool, pp.StepError, pool.begin_step)
    refused(pool, pp.LeaseError, lambda: pool.lease("a", ids, "test"))
    first.launched()
    second = pool.begin_step(reads={"a": ids})
    assert rows(pool, "a")[second.reads["a"]].tolist() == [[0], [0]]
    first.complete()
    finish(second)


# -------------------------------------------------------------------------------------------------------- pending pages


@pytest.mark.parametrize("source", SOURCES)
def test_pages_that_a_step_away_touches_wait_for_it(source: Any) -> None:
    pool = plain(20, 1, 1, events=source())
    ids = pool["a"].alloc(4)
    pages = places(pool, "a", ids)
    step = pool.begin_step(writes={"a": ids[1:3]}, stream=1)
    pool["a"].free(ids)
    assert pending(pool, "a") == pages[1:3]
    assert (pool.capacity("a"), pool.capacity("b")) == (17, 16)
    again = pool["a"].alloc(4)
    assert set(again.tolist()) == set(ids.tolist())
    assert not set(places(pool, "a", again)) & set(pages[1:3])
    step.launched()
    assert pending(pool, "a") == pages[1:3]
    step.complete()
    assert pending(pool, "a") == []
    assert set(places(pool, "a", pool["a"].alloc(2))) <= {*pages, *range(1, 8)}


def test_pages_of_steps_at_home_are_free_at_once() -> None:
    """Whoever gets them next comes behind on the same stream."""
    pool = plain(20, 1, 1)
    ids = pool["a"].alloc(4)
    step = pool.begin_step(writes={"a": ids})
    step.launched()
    pool["a"].free(ids)
    assert pending(pool, "a") == []
    assert pool.capacity("b") == 19
    assert waits_of(pool.begin_step(writes={"b": pool["b"].alloc(19)}, stream=1)) == [step.number]


def test_a_page_waits_for_all_that_keep_it() -> None:
    pool = plain(20, 1, 1)
    ids = pool["a"].alloc(1)
    steps = [pool.begin_step(writes={"a": ids}, stream=1)]
    steps[0].launched()
    steps.append(pool.begin_step(writes={"a": ids}, stream=2))
    lease = pool.lease("b", [], "test")
    group = pool.free_group()
    pool["a"].free(ids)
    for end in (steps[0].complete, steps[1].launched, steps[1].complete, lease.release):
        end()
        assert pending(pool, "a") == [1]
    group.end()
    assert pending(pool, "a") == []


def test_a_group_keeps_the_pages_of_its_frees() -> None:
    pool = with_window()
    ids = pool.alloc({"full": 4, "window": 4})["full"]
    most = pool.capacity("full")
    with pool.free_group() as group:
        pool["full"].free(ids[:2])
        pool["window"].free(ids[3:])
        assert (len(pending(pool, "full")), len(pending(pool, "window"))) == (2, 3)
        assert pool.capacity("full") == most
        refused(pool, pp.GroupError, pool.free_group)
        with pytest.raises(pp.InvalidPages):
            pool["full"].free(ids[:1])
    assert not group.is_open
    assert (pending(pool, "full"), pending(pool, "window")) == ([], [])
    assert pool.capacity("full") > most
    refused(pool, pp.GroupError, group.end)


# --------------------------------------------------------------------------------------------- same, publish and retire


def test_ids_given_again_are_not_the_same() -> None:
    pool = plain(12, 1, 1)
    ids = pool["a"].alloc(6)
    step = pool.begin_step(writes={"a": ids})
    step.launched()
    pool["a"].free(ids[:3])
    again = pool["a"].alloc(1)
    pool["b"].alloc(7)
    assert again[0] in ids[:3]
    assert step.same("a", ids).tolist() == [False] * 3 + [True] * 3
    assert step.same("a", [0, -1, 99, 2**62, -(2**62)]).tolist() == [False] * 5
    assert step.same("a", ids[5]).tolist() == [True]
    step.complete()
    step.publish("a", ids[3:])


@pytest.mark.parametrize("source", SOURCES)
def test_publish_is_after_the_step_and_once(source: Any) -> None:
    pool = plain(20, 1, 1, events=source())
    ids = pool["a"].alloc(4)
    step = pool.begin_step(writes={"a": ids[:3]})
    refused(pool, pp.StepError, lambda: step.publish("a", ids[:1]))
    step.launched()
    refused(pool, pp.StepError, lambda: step.publish("a", ids[:1]))
    step.complete()
    step.publish("a", ids[:1])
    refused(pool, pp.StepError, lambda: step.publish("a", ids[:2]))
    refused(pool, pp.StepError, lambda: step.publish("a", ids[3:]))
    refused(pool, pp.InvalidPages, lambda: step.publish("a", [9]))
    refused(pool, pp.InvalidPages, lambda: step.publish("a", ids[[1, 1]]))
    step.retire()
    refused(pool, pp.StepError, lambda: step.publish("a", ids[1:2]))
    refused(pool, pp.StepError, step.retire)
    refused(pool, pp.StepError, step.complete)
    refused(pool, pp.StepError, step.launched)


def test_what_is_being_written_is_not_published() -> None:
    pool = plain(20, 1, 1)
    ids = pool["a"].alloc(2)
    first = pool.begin_step(writes={"a": ids}, stream=1)
    first.launched()
    second = pool.begin_step(writes={"a": ids[:1]}, stream=2)
    first.complete()
    refused(pool, pp.StepError, lambda: first.publish("a", ids))
    first.publish("a", ids[1:])
    finish(second)
    first.publish("a", ids[:1])


def test_a_new_owner_has_neither_content_nor_publication() -> None:
    pool = plain(20, 1, 1)
    ids = pool["a"].alloc(1)
    step = pool.begin_step(writes={"a": ids})
    step.launched()
    step.complete()
    step.publish("a", ids)
    pool["a"].free(ids)
    again = pool["a"].alloc(1)
    assert again.tolist() == ids.tolist()
    refused(pool, pp.StepError, lambda: pool.begin_step(reads={"a": again}))
    refused(pool, pp.StepError, lambda: step.publish("a", again))


# ----------------------------------------------------------------------------------------------- devices that take time


@pytest.mark.parametrize("seed", range(10))
def test_a_read_finds_what_was_written_before_it(seed: int) -> None:
    """Writers and readers on three streams: each reader sees the last write before its call."""
    device, draw = queued(seed), random.Random(seed)
    pool = plain(20, 1, 1, events=device)
    ids, last, wrong = pool["a"].alloc(4), {}, []
    for n in range(1, 30):
        v = int(draw.choice(ids))
        stream = draw.choice([None, 1, 2])
        if v in last and draw.random() < 0.5:
            step = pool.begin_step(reads={"a": [v]}, stream=stream)
            device.give(stream, reader(pool, int(step.reads["a"][0]), last[v], wrong))
        else:
            step = pool.begin_step(writes={"a": [v]}, stream=stream)
            device.give(stream, writer(pool, int(step.writes["a"][0]), n))
            last[v] = n
        step.launched()
        if n % 5 == 0:
            complete_all(pool)
        device.pass_time(3)
    device.drain()
    assert wrong == []


def reader(pool: UnifiedPool, page: int, expected: int, wrong: list[int]) -> Any:
    def look() -> None:
        if rows(pool, "a")[page, 0] != expected:
            wrong.append(page)

    return look


def writer(pool: UnifiedPool, page: int, value: int) -> Any:
    def put() -> None:
        rows(pool, "a")[page] = value

    return put


def complete_all(pool: UnifiedPool) -> None:
    for step in sorted((step for step in pool._flight if not step.own), key=lambda step: step.number):
        step.complete()
        step.retire()


@pytest.mark.parametrize("seed", range(10))
def test_a_step_in_flight_keeps_its_pages_while_ids_move(seed: int) -> None:
    """The kernel of a launched step uses the pages of its beginning, before the copy that comes behind it."""
    device, wrong = queued(seed), list[int]()
    pool = plain(12, 1, 1, events=device)
    ids = pool["a"].alloc(6)
    step = pool.begin_step(writes={"a": ids})
    for v, page in zip(ids.tolist(), step.writes["a"].tolist(), strict=True):
        device.give(None, writer(pool, page, 10 + v))
    step.launched()
    promised = step.writes["a"].copy()
    pool["a"].free(ids[:3])
    pool["b"].alloc(8)
    assert step.writes["a"].tolist() == promised.tolist() != places(pool, "a", ids)
    after = pool.begin_step(reads={"a": ids[3:]})
    for v, page in zip(ids[3:].tolist(), after.reads["a"].tolist(), strict=True):
        device.give(None, reader(pool, page, 10 + v, wrong))
    after.launched()
    step.complete()
    after.complete()
    device.drain()
    assert wrong == []


@pytest.mark.parametrize("seed", range(10))
def test_zeroing_comes_behind_the_former_owner(seed: int) -> None:
    device, wrong = queued(seed), list[int]()
    pool = plain(12, 1, 1, zero="on_handout", events=device)
    ids = pool["a"].alloc(3)
    step = pool.begin_step(writes={"a": ids})
    for page in step.writes["a"].tolist():
        device.give(None, writer(pool, page, 9))
    step.launched()
    pool["a"].free(ids)
    again = pool["b"].alloc(11)
    late = pool.begin_step(reads={"b": again}, stream=1)
    for page in late.reads["b"].tolist():
        device.give(1, reader(pool, page, 0, wrong))
    late.launched()
    step.complete()
    late.complete()
    assert wrong == []


def test_the_pools_own_steps_end_with_those_behind_them() -> None:
    pool = plain(12, 1, 1, events=queued())
    ids = pool["a"].alloc(6)
    write(pool, "a", ids, np.arange(6))
    pool["a"].free(ids[:3])
    pool.compact(urgent=True)
    assert pool.stats().steps == 1
    finish(pool.begin_step())
    assert pool.stats().steps == 0
    assert values(pool, "a", ids[3:]) == [3, 4, 5]
    assert (extent(pool, "a"), holes(pool, "a")) == ((1, 4), [])


def test_what_is_pending_depends_on_calls_and_not_on_the_device() -> None:
    """Two pools with the same calls are in the same state, however far their devices are."""
    found = []
    for eager in (False, True):
        device = queued(3)
        pool = plain(12, 1, 1, events=device)
        ids = pool["a"].alloc(4)
        step = pool.begin_step(writes={"a": ids[:2]}, stream=1)
        step.launched()
        if eager:
            device.drain()
        pool["a"].free(ids)
        pool["a"].alloc(3)
        pool.compact(urgent=True)
        found.append(pool.snapshot())
    assert found[0] == found[1]
