"""A pool on a CUDA device: no call waits for the device, and streams, graphs and leases see the right bytes.

What must not matter is how far the device is, so streams are held up (`hold`) until long after the host has gone on.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from buffers import refused
from test_device_bytes import CHAINS, POISON, Together, kinds, known, rows, told

import poolproof as pp
from poolproof import Pages, UnifiedPool, WindowPages

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
DEVICE = "cuda"
TOTAL = 10_240
LONG = 400_000_000
"""Cycles: about 0.2 seconds, in which the host makes a thousand calls."""


def declared(zero: Any) -> list[Any]:
    """ "a" grows up, "b" and its window "w" float, "c" grows down; pages of 64, 96, 64 and 160 bytes."""
    return [
        Pages("a", bytes=64, page_size=4, grows="up", zero=zero),
        Pages("b", bytes=96, page_size=2, grows="float", zero=zero),
        WindowPages("w", ids_of="b", layers=1, kv_heads=1, head_dim=16, dtype="uint8", grows="float", zero=zero),
        Pages("c", bytes=160, grows="down", zero=zero),
    ]


def make(zero: Any = "never") -> UnifiedPool:
    """A pool whose home is the current stream, filled with garbage; all kernels that it needs are compiled."""
    warm_up()
    return opened(zero)


def opened(zero: Any) -> UnifiedPool:
    pool = UnifiedPool(TOTAL, declared(zero), device=DEVICE)
    pool.buffer[pool.sink_bytes :] = POISON
    return pool


@cache
def warm_up() -> None:
    """Zero, move and translate pages of every size."""
    pool = opened("on_handout")
    for name in "abc":
        ids = pool[name].alloc(4)
        pool["w"].bind(ids) if name == "b" else None
        step = pool.begin_step(writes={name: ids})
        pool[name].translate(torch.arange(4, device=DEVICE))
        step.launched()
        step.complete()
        pool[name].free(ids[1:3])
        assert pool.compact(urgent=True)
    torch.cuda.synchronize()


@cache
def others() -> tuple[Any, Any]:
    """Two streams that are nobody's home."""
    stream: Any = torch.cuda.Stream
    return stream(), stream()


@pytest.fixture(autouse=True)
def _is_quiet() -> Iterator[None]:
    """Nothing is left on the device by a test that failed."""
    yield
    torch.cuda.set_sync_debug_mode("default")
    torch.cuda.synchronize()


def on(stream: Any) -> AbstractContextManager[Any]:
    """The stream is the current one; None leaves the one that is, which is home."""
    return nullcontext() if stream is None else torch.cuda.stream(stream)


def hold(stream: Any = None, cycles: int = LONG) -> Any:
    """Hold a stream up; the event is behind that, so that until it is over the stream has done nothing since."""
    with on(stream):
        torch.cuda._sleep(cycles)
        return torch.cuda.current_stream().record_event()


def fill(pool: UnifiedPool, name: str, ids: Any, values: Sequence[int], stream: Any = None) -> pp.Step:
    """A step writes a value to each page; it is launched."""
    step = pool.begin_step(writes={name: ids}, stream=stream)
    with on(stream):
        for page, value in zip(step.writes[name].tolist(), values, strict=True):
            rows(pool, name)[page].fill_(value)
    step.launched()
    return step


def began(pool: UnifiedPool, **touched: Any) -> pp.Step:
    """A step at home with no work of its own; it is launched."""
    step = pool.begin_step(**touched)
    step.launched()
    return step


def over(*steps: pp.Step) -> None:
    """Steps are over as far as the engine is concerned."""
    for step in steps:
        step.complete()
        step.retire()


def room_for(pool: UnifiedPool, name: str, count: int) -> torch.Tensor:
    """[count, page_bytes], where copies of pages go."""
    return torch.full((count, pool[name].layout.page_bytes), 251, dtype=torch.uint8, device=DEVICE)


def copy(pool: UnifiedPool, name: str, pages: Any, out: torch.Tensor, stream: Any = None) -> None:
    """Copy pages to `out`, on a stream."""
    with on(stream):
        for page, place in zip(pages.tolist(), out, strict=True):
            place.copy_(rows(pool, name)[page])


def values_of(pages: torch.Tensor) -> list[int]:
    """The one value that each page is filled with, once the device is done."""
    torch.cuda.synchronize()
    found = pages.cpu()
    assert bool((found == found[:, :1]).all())
    return found[:, 0].tolist()


def values(pool: UnifiedPool, name: str, ids: Any) -> list[int]:
    """The one value that the page of each id is filled with, once the device is done."""
    torch.cuda.synchronize()
    return values_of(rows(pool, name).cpu()[torch.from_numpy(pool[name].physical(ids))])


# ------------------------------------------------------------------------------------------------- the host never waits


def all_calls(pool: UnifiedPool, away: Any, tokens: torch.Tensor, outs: Sequence[torch.Tensor]) -> int:
    """Every call that an engine makes; how many pages moved. In the end all pages are free."""
    a, b, c = pool["a"], pool["b"], pool["c"]
    ids, floats = a.alloc(8), pool.alloc({"b": 4, "w": 2})["b"]
    pool["w"].bind(floats[:1])
    assert len(a.extend(ids[-1:], [2], [11])) == 2
    assert pool.fits({"a": 1, "c": 1})
    assert a.try_alloc(10**6) is None
    home = pool.begin_step(writes={"a": ids, "b": floats})
    a.translate(tokens, out=outs[0])
    home.launched()
    there = pool.begin_step(reads={"a": ids[:2]}, stream=away)
    with on(away):
        a.translate(tokens, out=outs[1])
    there.launched()
    a.free(ids[:4])
    home.complete()
    home.publish("a", ids[4:6])
    home.retire()
    over(there)
    before = [known(pool, name) for name in "abwc"]
    with pool.lease("a", ids[6:], "test"), pool.gate("b", "test"), pool.free_group():
        b.free(floats[1:2])
        pool.compact()
    pool.compact(urgent=True)
    c.free(c.alloc(c.capacity()))
    pairs = zip(np.concatenate(before), np.concatenate([known(pool, name) for name in "abwc"]), strict=True)
    pool.stats()
    pool.snapshot()
    a.translate(tokens, out=outs[0])
    over(fill(pool, "a", a.alloc(2), [1, 2], away), fill(pool, "a", a.alloc(1), [3]))
    pool.clear()
    new = a.alloc(3)
    step = pool.begin_step(reads={"a": new})
    a.translate(tokens, out=outs[0])
    step.launched()
    over(step)
    a.free(new)
    return sum(0 < old != new > 0 for old, new in pairs)


@pytest.mark.parametrize("is_staged", [True, False], ids=["staging there", "staging to be made"])
def test_no_call_waits_for_the_device(is_staged: bool) -> None:
    """With what is staged for the device in memory that is there, as after a while, and in memory that must be made."""
    pool, away = make("on_handout"), others()[0]
    tokens = torch.arange(-1, 4 * pool["a"].ids, device=DEVICE)
    outs = [torch.empty_like(tokens) for _ in range(2)]
    if is_staged:
        hold()  # as many copies wait for the device as will do below
    assert all_calls(pool, away, tokens, outs) > 0
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    with pytest.raises(RuntimeError, match="synchroniz"):
        tokens[0].item()
    busy = hold(cycles=5 * LONG)
    moved = all_calls(pool, away, tokens, outs)
    assert not busy.query()
    torch.cuda.set_sync_debug_mode("default")
    assert moved > 0
    pages = [page for page in outs[0].tolist() if page >= 4]
    assert len(pages) == 3 * 4  # three ids were live when it was translated last
    over(began(pool))
    assert told(pool, "a") == known(pool, "a")
    assert pool.check() == []


# --------------------------------------------------------------------------------------------------------------- graphs


def test_a_captured_graph_finds_pages_wherever_they_are() -> None:
    pool, most = make(), 64
    tokens, where, seen = (
        {name: torch.full((most, *shape), -1, dtype=dtype, device=DEVICE) for name, shape in shapes.items()}
        for shapes, dtype in (
            ({"a": (), "b": ()}, torch.int64),
            ({"a": (), "b": ()}, torch.int64),
            ({"a": (16,), "b": (48,)}, torch.uint8),
        )
    )
    sizes = {name: pool[name].layout.page_size for name in "ab"}
    written: dict[str, dict[int, int]] = {"a": {}, "b": {}}

    def work() -> None:
        """Where tokens are, and what is there: nothing of it is known on the host."""
        for name, size in sizes.items():
            pool[name].translate(tokens[name], out=where[name])
            pages = pool.views(name).pages.unflatten(1, (size, -1))
            seen[name].copy_(pages[where[name] // size, where[name] % size])

    def replay(*dead: int) -> None:
        """Tokens of live ids are found with what was written last, dead ids of "a" and padding with the sink's."""
        step = pool.begin_step(reads={name: [*written[name]] for name in sizes})
        gone = {"a": dead, "b": ()}
        for name, size in sizes.items():
            ids = [number * size + offset for number in [*written[name], *gone[name]] for offset in range(size)]
            tokens[name].copy_(torch.tensor(ids + [-1] * (most - len(ids))))
        graph.replay()
        step.launched()
        over(step)
        torch.cuda.synchronize()
        for name, size in sizes.items():
            pages = np.repeat(pool[name].physical([*written[name]]), size)
            places = (pages * size + np.tile(np.arange(size), len(written[name]))).tolist()
            sink = [offset for _ in gone[name] for offset in range(size)]
            assert where[name].tolist() == places + sink + [0] * (most - len(places) - len(sink))
            found = np.repeat([*written[name].values()], size).tolist()
            assert values_of(seen[name]) == found + [0] * (most - len(found))

    def give(name: str, count: int, first: int) -> None:
        ids = pool[name].alloc(count)
        over(fill(pool, name, ids, range(first, first + count)))
        written[name] |= dict(zip(ids.tolist(), range(first, first + count), strict=True))

    with on(others()[0]):
        work()
    torch.cuda.synchronize()
    pool["a"].alloc(1)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    assert told(pool, "a") != known(pool, "a")  # nothing of the pool's own was captured, or done
    give("a", 8, 1)
    give("b", 5, 101)
    replay()
    dead = [*written["a"]][:4]
    pool["a"].free(dead)
    written["a"] = {number: value for number, value in written["a"].items() if number not in dead}
    replay(*dead)
    assert sum(len(move.ids) for move in pool.compact(urgent=True)) > 0
    replay(*dead)
    for end in "ac":
        before = pool["b"].physical([*written["b"]])
        ids = pool[end].alloc(pool[end].capacity())
        assert (pool["b"].physical([*written["b"]]) != before).all()  # the float had to give way
        replay()
        over(fill(pool, end, ids, [77] * len(ids)))
        replay()
        pool[end].free(ids)
        give("b", 2, 201 if end == "a" else 211)
        replay(*(ids[:2].tolist() if end == "a" else ()))
    assert pool.check() == []


# ----------------------------------------------------------------------------------------------------- leases and frees


@pytest.mark.parametrize("is_released_first", [False, True])
def test_a_copy_elsewhere_sees_the_old_bytes_whatever_home_does(is_released_first: bool) -> None:
    pool, away = make(), others()[0]
    ids = pool["a"].alloc(8)
    over(fill(pool, "a", ids, range(1, 9)))
    out = room_for(pool, "a", 4)
    lease = pool.lease("a", ids[:4], "offload")
    step = pool.begin_step(reads={"a": ids[:4]}, stream=away)
    busy = hold(away, 3 * LONG)
    copy(pool, "a", lease.physical, out, away)
    step.launched()
    pool["a"].free(ids[:6])
    assert sum(len(move.ids) for move in pool.compact(urgent=True)) == 2
    again = pool["a"].alloc(3)
    over(fill(pool, "a", again, [60, 61, 62]))
    assert not {*pool["a"].physical(again).tolist()} & {*lease.physical.tolist()}
    assert not busy.query()
    if is_released_first:
        lease.release()
        over(step)
    else:
        over(step)
        lease.release()
    last = pool["a"].alloc(4)
    assert {*pool["a"].physical(last).tolist()} == {*lease.physical.tolist()}
    over(fill(pool, "a", last, [90, 91, 92, 93]))
    assert not busy.query()
    assert values_of(out) == [1, 2, 3, 4]
    assert values(pool, "a", [*last, *again, *ids[6:]]) == [90, 91, 92, 93, 60, 61, 62, 7, 8]


def test_what_moves_into_the_pages_of_a_step_that_is_over_comes_behind_it() -> None:
    """The pool's own copies, too, come behind a step elsewhere that was completed before the device was done."""
    pool, away = make(), others()[0]
    ids = pool["a"].alloc(4)
    over(fill(pool, "a", ids, [1, 2, 3, 4]))
    out = room_for(pool, "a", 2)
    step = pool.begin_step(reads={"a": ids[:2]}, stream=away)
    busy = hold(away)
    copy(pool, "a", step.reads["a"], out, away)
    step.launched()
    pool["a"].free(ids[:2])
    assert pool.compact(urgent=True) == []
    over(step)
    (move,) = pool.compact(urgent=True)
    assert sorted(move.targets.tolist()) == sorted(step.reads["a"].tolist())
    assert not busy.query()
    assert values_of(out) == [1, 2]
    assert values(pool, "a", ids[2:]) == [3, 4]


def test_zeroing_comes_behind_a_step_that_is_over() -> None:
    pool, away = make("on_handout"), others()[0]
    ids = pool["a"].alloc(2)
    over(fill(pool, "a", ids, [5, 6]))
    out = room_for(pool, "a", 2)
    step = pool.begin_step(reads={"a": ids}, stream=away)
    busy = hold(away)
    copy(pool, "a", step.reads["a"], out, away)
    step.launched()
    pool["a"].free(ids)
    over(step)
    new = pool["a"].alloc(2)
    assert {*pool["a"].physical(new).tolist()} == {*step.reads["a"].tolist()}
    over(began(pool, reads={"a": new}))
    assert not busy.query()
    assert values_of(out) == [5, 6]
    assert values(pool, "a", new) == [0, 0]


@pytest.mark.parametrize("what", ["written", "zeroed", "moved"])
def test_whoever_waits_for_a_lease_sees_what_home_did(what: str) -> None:
    pool, foreign = make("on_handout"), others()[0]
    ids = pool["a"].alloc(4)
    over(fill(pool, "a", ids, [1, 2, 3, 4]))
    out = room_for(pool, "a", 2)
    torch.cuda.synchronize()
    busy = hold()
    if what == "written":
        over(fill(pool, "a", ids[2:], [7, 8]))
    elif what == "moved":
        pool["a"].free(ids[:2])
        assert len(pool.compact(urgent=True)) == 1
    leased = pool["a"].alloc(2) if what == "zeroed" else ids[2:]
    with pool.lease("a", leased, "rdma") as lease:
        foreign.wait_event(lease.ready)
        copy(pool, "a", lease.physical, out, foreign)
        assert not busy.query()
        assert values_of(out) == {"written": [7, 8], "zeroed": [0, 0], "moved": [3, 4]}[what]


# --------------------------------------------------------------------------------------------------- who waits for whom


@pytest.mark.parametrize(("first", "second"), [("writes", "reads"), ("reads", "writes"), ("writes", "writes")])
@pytest.mark.parametrize("places", [(0, None), (None, 0), (0, 1)], ids=["away home", "home away", "away away"])
def test_of_steps_that_conflict_the_second_waits(first: str, second: str, places: Any) -> None:
    pool, streams = make(), [None if place is None else others()[place] for place in places]
    ids = pool["a"].alloc(2)
    over(fill(pool, "a", ids, [1, 1]))
    outs = [room_for(pool, "a", 2) for _ in range(2)]
    torch.cuda.synchronize()
    busy, steps = hold(streams[0]), []
    for kind, stream, out, value in zip((first, second), streams, outs, (2, 3), strict=True):
        if kind == "writes":
            steps.append(fill(pool, "a", ids, [value] * 2, stream))
        else:
            steps.append(pool.begin_step(reads={"a": ids}, stream=stream))
            copy(pool, "a", steps[-1].reads["a"], out, stream)
            steps[-1].launched()
    assert not busy.query()
    assert values(pool, "a", ids) == [3 if second == "writes" else 2] * 2
    if first == "reads":
        assert values_of(outs[0]) == [1, 1]
    if second == "reads":
        assert values_of(outs[1]) == [2, 2]
    over(*steps)


def test_of_steps_that_do_not_conflict_none_waits() -> None:
    pool, (away, other) = make(), others()
    ids = pool["a"].alloc(3)
    over(fill(pool, "a", ids, [1, 1, 1]))
    busy = hold(away, 5 * LONG)
    steps = [fill(pool, "a", ids[at : at + 1], [2 + at], stream) for at, stream in enumerate((away, None, other))]
    for stream in (torch.cuda.current_stream(), other):
        stream.synchronize()
    assert not busy.query()
    over(*steps)
    assert values(pool, "a", ids) == [2, 3, 4]


def test_a_step_elsewhere_waits_for_what_it_is_told_to_come_after() -> None:
    pool, (away, other) = make(), others()
    ids = pool["a"].alloc(2)
    over(fill(pool, "a", ids, [1, 1]))
    out = room_for(pool, "a", 1)
    torch.cuda.synchronize()
    busy = hold(away)
    first = fill(pool, "a", ids[:1], [2], away)
    page = pool["a"].physical(ids[:1])  # the pool knows nothing of this read
    second = pool.begin_step(reads={"a": ids[1:]}, stream=other, after=[first])
    copy(pool, "a", page, out, other)
    second.launched()
    assert not busy.query()
    assert values_of(out) == [2]
    over(first, second)


@pytest.mark.parametrize("end", ["a", "c"])
def test_pages_that_moved_at_home_are_read_elsewhere_with_their_bytes(end: str) -> None:
    pool, away = make(), others()[0]
    ids = {"a": pool["a"].alloc(6), "b": pool["b"].alloc(4)}
    for name, given in ids.items():
        over(fill(pool, name, given, range(1, len(given) + 1)))
    pool["a"].free(ids["a"][:3])
    ids["a"] = ids["a"][3:]
    before = {name: pool[name].physical(given) for name, given in ids.items()}
    outs = {name: room_for(pool, name, len(given)) for name, given in ids.items()}
    torch.cuda.synchronize()
    busy = hold()
    pool[end].alloc(pool[end].capacity())
    assert (pool["b"].physical(ids["b"]) != before["b"]).all()
    assert (pool["a"].physical(ids["a"]) != before["a"]).all() == (end == "c")
    step = pool.begin_step(reads=ids, stream=away)
    for name, out in outs.items():
        copy(pool, name, step.reads[name], out, away)
    step.launched()
    assert not busy.query()
    assert values_of(outs["a"]) == [4, 5, 6]
    assert values_of(outs["b"]) == [1, 2, 3, 4]
    over(step)


@pytest.mark.parametrize("is_taken_by_home", [True, False])
def test_a_step_elsewhere_translates_ids_that_were_freed_meanwhile(is_taken_by_home: bool) -> None:
    """What the table says of them changes behind the step, on the device too."""
    pool, (away, other) = make(), others()
    ids = pool["a"].alloc(3)
    over(fill(pool, "a", ids, [1, 2, 3]))
    tokens = torch.tensor([4 * number + 1 for number in ids.tolist()], device=DEVICE)
    found, later = torch.empty_like(tokens), torch.empty_like(tokens)
    torch.cuda.synchronize()
    step = pool.begin_step(reads={"a": ids}, stream=away)
    busy = hold(away)
    with on(away):
        pool["a"].translate(tokens, out=found)
    step.launched()
    pool["a"].free(ids)
    new = pool["a"].alloc(3)
    assert {*new.tolist()} == {*ids.tolist()}
    last = pool.begin_step(writes={"a": new}, stream=None if is_taken_by_home else other)
    with on(None if is_taken_by_home else other):
        pool["a"].translate(tokens, out=later)
    last.launched()
    assert not busy.query()
    torch.cuda.synchronize()
    assert found.tolist() == (4 * step.reads["a"] + 1).tolist()
    assert later.tolist() == (4 * pool["a"].physical(ids) + 1).tolist()
    assert found.tolist() != later.tolist()
    over(step, last)


# ----------------------------------------------------------------------------------------------------------------- home


def test_the_home_stream_is_home_by_any_name() -> None:
    with on(others()[0]):
        pool = make()
        ids = pool["a"].alloc(2)
        home = torch.cuda.current_stream()
        for stream in (home, others()[0], torch.cuda.ExternalStream(home.cuda_stream)):
            step = pool.begin_step(writes={"a": ids}, stream=stream)
            assert step.is_home
            step.launched()
            over(step)
        step = pool.begin_step(writes={"a": ids}, stream=others()[0])
        step.launched()
        pool["a"].free(ids)
        assert pool.stats().sub_pools[0].pending == 0  # pages that a step at home touches are kept for nobody
        over(step)
    assert not pool.begin_step(stream=torch.cuda.current_stream()).is_home


@pytest.mark.parametrize("stream", [1, 0, "away", object()])
def test_what_is_no_stream_is_refused(stream: Any) -> None:
    pool = make()
    ids = pool["a"].alloc(2)
    error = refused(pool, TypeError, lambda: pool.begin_step(writes={"a": ids}, stream=stream))
    assert "torch.cuda.Stream" in str(error)


def test_all_that_a_pool_does_is_done_on_its_home() -> None:
    """Made under a stream of its own and driven under another one, it does not hold that one up but where it must."""
    home = others()[0]
    with on(home):
        pool = make("on_handout")
    ids = pool["a"].alloc(6)
    with on(home):
        step = pool.begin_step(writes={"a": ids})
        for page, value in zip(step.writes["a"].tolist(), range(1, 7), strict=True):
            rows(pool, "a")[page].fill_(value)
        step.launched()
    over(step)
    out = room_for(pool, "a", 2)
    tokens = torch.tensor([4 * number for number in ids.tolist()], device=DEVICE)
    torch.cuda.synchronize()
    busy = hold(home)
    pool["a"].free(ids[:3])
    assert len(pool.compact(urgent=True)) == 1
    new = pool["a"].alloc(2)
    step = pool.begin_step(reads={"a": new})
    copy(pool, "a", step.reads["a"], out, home)
    step.launched()
    over(step)
    torch.cuda.current_stream().synchronize()
    assert not busy.query()
    pool["a"].free(ids[3:4])
    found = pool["a"].translate(tokens)
    assert not busy.query()
    assert found.tolist() == (4 * pool["a"].physical(ids)).tolist()
    assert busy.query()  # the translation is of the table as it is now, behind all that
    assert values_of(out) == [0, 0]
    assert values(pool, "a", ids[4:]) == [5, 6]


# ------------------------------------------------------------------------------------------------------------- refusals


def test_a_pool_that_does_not_fit_is_refused_before_it_takes_memory() -> None:
    total, reserved = torch.cuda.mem_get_info()[1], torch.cuda.memory_reserved()
    with pytest.raises(pp.LayoutError, match="free"):
        UnifiedPool(total + (1 << 30), [Pages("a", bytes=1 << 20, grows="up")], device=DEVICE)
    assert torch.cuda.memory_reserved() == reserved


@pytest.mark.parametrize(
    ("tokens", "error"),
    [
        (torch.arange(4), ValueError),
        (np.arange(4), TypeError),
        ([1, 2], TypeError),
        (torch.zeros(4), TypeError),
        (torch.arange(4, dtype=torch.int16), TypeError),
    ],
    ids=["on the host", "an array", "a list", "floats", "int16"],
)
def test_tokens_that_are_elsewhere_or_no_integers_are_refused(tokens: Any, error: type[Exception]) -> None:
    pool = make()
    pool["a"].alloc(2)
    over(began(pool))
    refused(pool, error, lambda: pool["a"].translate(tokens))
    on_device = torch.arange(4, device=DEVICE)
    refused(pool, ValueError, lambda: pool["a"].translate(on_device, out=torch.arange(4)))
    assert pool["a"].translate(on_device).shape == (4,)


# --------------------------------------------------------------------------------------------------------- as on a host


@pytest.mark.parametrize("place", [None, 0], ids=["home", "away"])
def test_fresh_pages_read_as_zeros(place: int | None) -> None:
    pool, stream = make("on_handout"), None if place is None else others()[place]
    ids = {name: pool[name].alloc(3) for name in "abc"}
    for name in "abc":
        over(fill(pool, name, ids[name], [9, 9, 9]))
        pool[name].free(ids[name][:1])
    assert pool.compact(urgent=True)
    new = {"a": pool["a"].alloc(4), "b": pool["b"].alloc(3), "c": pool["c"].alloc(2)}
    pool["w"].bind(new["b"][1:])
    new["w"] = new["b"][1:]
    outs = {name: room_for(pool, name, len(given)) for name, given in new.items()}
    torch.cuda.synchronize()
    for name, given in new.items():
        assert bool((rows(pool, name).cpu()[torch.from_numpy(pool[name].physical(given))] != 0).all())
    busy = hold()
    step = pool.begin_step(reads=new, stream=stream)
    for name, out in outs.items():
        copy(pool, name, step.reads[name], out, stream)
    step.launched()
    assert not busy.query()
    for name, out in outs.items():
        assert values_of(out) == [0] * len(out), name
    for name in "abc":
        assert values(pool, name, ids[name][1:]) == [9, 9]
    over(step)


@pytest.mark.parametrize("sub_pools", [kinds(), declared("never")], ids=["kinds", "plain"])
def test_layouts_and_views_are_those_of_a_host(sub_pools: list[Any]) -> None:
    host, pool = UnifiedPool(TOTAL, sub_pools), UnifiedPool(TOTAL, sub_pools, device=DEVICE)
    assert host.layouts == pool.layouts
    assert host.snapshot() == pool.snapshot()
    assert not pool.buffer[: pool.sink_bytes].any()
    assert pool.buffer.data_ptr() % 512 == 0
    for layout in pool.layouts:
        found = [tensors(pool.views(layout.name)) for pool in (host, pool)]
        assert len(found[0]) == len(found[1]) > 0
        for one, other in zip(*found, strict=True):
            assert (one.shape, one.stride(), one.dtype) == (other.shape, other.stride(), other.dtype)
            assert one.storage_offset() - host.buffer.storage_offset() // one.itemsize == (
                other.storage_offset() - pool.buffer.storage_offset() // other.itemsize
            )
            assert other.device == pool.buffer.device


def tensors(views: Any) -> list[torch.Tensor]:
    """All tensors of a sub-pool's views."""
    fields = [getattr(views, name) for name in views.__dataclass_fields__]
    return [tensor for field in fields for tensor in (field if isinstance(field, tuple) else (field,))]


@pytest.mark.parametrize("look", [1, 20], ids=["step by step", "far ahead"])
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("chain", CHAINS)
def test_random_calls_do_what_they_do_on_a_host(chain: str, seed: int, look: int) -> None:
    """The device's streams are held up at random; with far looks the host is far ahead of them."""
    host, pool = UnifiedPool(*CHAINS[chain]), UnifiedPool(*CHAINS[chain], device=DEVICE)
    draw = random.Random(seed)

    @contextmanager
    def slowly(stream: Any) -> Iterator[None]:
        with on(stream):
            torch.cuda._sleep(draw.randint(1, 300_000))
            yield

    uses: list[Callable[[Any], AbstractContextManager[Any]]] = [lambda _: nullcontext(), slowly]
    together = Together(seed, [host, pool], [(1, 2), others()], uses, torch.cuda.synchronize)
    together.run(300, look)
    assert min(together.counts[name] for name in ("alloc", "begin", "complete", "moved")) > 0
    assert pool.check() == []
    assert [told(pool, name) for name in together.names] == [known(host, name) for name in together.names]
