"""The logic of `CudaStreams` over simulated streams, which lag at random: completing a step never waits for one."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from typing import Any

import pytest
import torch

from poolproof.cuda_streams import CudaStreams
from poolproof.fuzz import devices
from poolproof.fuzz.memory import WrongBytes
from poolproof.fuzz.torch_memory import TorchMemory
from poolproof.fuzz.unified_campaign import Setting, play, play_rounds
from poolproof.steps import HOME
from poolproof.sub_pools import Declaration, KVPages
from poolproof.unified_pool import UnifiedPool

Work = Callable[[], None]


class Event:
    """It has happened once its stream has come to it."""

    has_happened = False

    def happen(self) -> None:
        self.has_happened = True


class Stream:
    """A queue of work, each piece perhaps behind an event."""

    def __init__(self, number: int) -> None:
        self.cuda_stream = number
        self.queue: deque[tuple[Event | None, Work]] = deque()

    def __repr__(self) -> str:
        return f"Stream({self.cuda_stream})"

    def give(self, work: Work) -> None:
        self.queue.append((None, work))

    def wait_event(self, event: Event) -> None:
        self.queue.append((event, lambda: None))

    def record_event(self) -> Event:
        event = Event()
        self.give(event.happen)
        return event

    def advance(self) -> bool:
        """One piece of work; False where there is none, or the stream waits."""
        if not self.queue:
            return False
        event, work = self.queue[0]
        if event is not None and not event.has_happened:
            return False
        self.queue.popleft()
        work()
        return True


class SimulatedStreams(CudaStreams):
    """`CudaStreams` whose home and two other streams run at random times.

    Args:
        draw: where the times come from.
    """

    home: Stream

    def __init__(self, draw: random.Random) -> None:
        self.others = Stream(1), Stream(2)
        super().__init__("cuda:0", Stream(0))
        self.device = torch.device("cpu")
        self.streams = (HOME, HOME, self.home, *self.others)
        self._draw, self._is_slow = draw, draw.random() < 0.5

    def _check(self, stream: Any) -> None:
        assert isinstance(stream, Stream)

    def run(self, step: Any, work: Work) -> None:
        self.home.give(work)

    def join(self) -> None:
        self.drain()

    def is_capturing(self) -> bool:
        return False

    def give(self, stream: Any, work: Work) -> None:
        """Work for a stream."""
        (self.home if stream is None else stream).give(work)

    def pass_time(self, most: int) -> None:
        """Some streams get on, or none: slow ones are given more work than they do."""
        for _ in range(self._draw.randint(0, 1 if self._is_slow else most)):
            self._draw.choice((self.home, *self.others)).advance()

    def get_on(self, *streams: Stream) -> None:
        """These streams do all that they can."""
        while any(stream.advance() for stream in streams):
            pass

    def drain(self) -> None:
        """All that can be done is done."""
        self.get_on(self.home, *self.others)


class SimulatedDevice(devices.Device):
    """Tensors of the CPU on which simulated streams work."""

    name = "simulated"

    def __init__(self, make_streams: type[SimulatedStreams] = SimulatedStreams) -> None:
        self.make_streams = make_streams

    def open(
        self, draw: random.Random, total: int, sub_pools: list[Declaration], make: devices.Make, guard: bool = False
    ) -> devices.Opened:
        streams = self.make_streams(draw)
        pool = devices._on_tensors(make)(total, sub_pools, events=streams, guard=guard)
        return streams, pool, TorchMemory(pool)


@pytest.fixture(autouse=True)
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """There is a device of this name, and to enter one of its streams does nothing; torch uses one core."""
    monkeypatch.setitem(devices.DEVICES, "simulated", SimulatedDevice())
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


# ------------------------------------------------------------------------------------------------------------ campaigns


@pytest.mark.parametrize(
    ("setting", "rounds", "least"), [(("simulated",), 28, 4000), (("simulated", 64, True), 12, 1500)]
)
def test_a_campaign_finds_nothing(setting: tuple[Any, ...], rounds: int, least: int) -> None:
    tally = play_rounds(5, range(rounds), setting=Setting(*setting))
    assert tally.failure is None
    assert tally.operations >= least


@pytest.mark.parametrize("method", ["begun", "wait", "completed"])
def test_streams_that_forget_to_wait_are_found(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = type(f"Without_{method}", (SimulatedStreams,), {method: lambda *arguments: None})
    monkeypatch.setitem(devices.DEVICES, "simulated", SimulatedDevice(broken))
    errors = (play(11, number, setting=Setting("simulated"))[1] for number in range(300))
    assert isinstance(next((error for error in errors if error is not None), None), WrongBytes)


# ---------------------------------------------------------------------------------------------------------- one by one


@pytest.fixture
def streams() -> SimulatedStreams:
    """Streams that do nothing by themselves."""
    return SimulatedStreams(random.Random(0))


def pool_on(streams: SimulatedStreams) -> UnifiedPool:
    """A pool on tensors whose work is on these streams."""
    full = KVPages("full", layers=1, kv_heads=1, head_dim=8, dtype="bfloat16", page_size=4, grows="up", zero="never")
    return devices._on_tensors(UnifiedPool)(4096, [full], events=streams)


def test_work_of_the_pool_is_over_at_once(streams: SimulatedStreams) -> None:
    assert CudaStreams.is_immediate is True
    assert streams.is_immediate is True


def test_the_home_stream_is_none(streams: SimulatedStreams) -> None:
    assert streams.place(streams.home) is HOME
    assert streams.place(HOME) is HOME
    assert [streams.place(stream) for stream in streams.others] == list(streams.others)
    assert pool_on(streams).begin_step(stream=streams.home).is_home


def test_completing_does_not_wait_but_home_comes_behind(streams: SimulatedStreams) -> None:
    pool, done = pool_on(streams), list[str]()
    step = pool.begin_step(writes={"full": pool["full"].alloc(2)}, stream=streams.others[0])
    streams.give(step.stream, lambda: done.append("step"))
    step.launched()
    step.complete()
    assert not done
    streams.give(HOME, lambda: done.append("home"))
    streams.get_on(streams.home)
    assert not done
    streams.drain()
    assert done == ["step", "home"]


def test_a_step_begins_behind_home(streams: SimulatedStreams) -> None:
    pool, done = pool_on(streams), list[str]()
    streams.give(HOME, lambda: done.append("home"))
    step = pool.begin_step(stream=streams.others[0])
    streams.give(step.stream, lambda: done.append("step"))
    streams.get_on(streams.others[0])
    assert not done
    streams.drain()
    assert done == ["home", "step"]


def test_events_of_pools_that_share_streams_do_not_mix(streams: SimulatedStreams) -> None:
    pools, done = [pool_on(streams), pool_on(streams)], list[str]()
    steps = [
        pool.begin_step(writes={"full": pool["full"].alloc(2)}, stream=stream)
        for pool, stream in zip(pools, streams.others, strict=True)
    ]
    assert steps[0].number == steps[1].number
    for step, name in zip(steps, ("first", "second"), strict=True):
        streams.give(step.stream, partial(done.append, name))
        step.launched()
    steps[0].complete()
    streams.give(HOME, lambda: done.append("after the first"))
    streams.get_on(streams.home, streams.others[0])
    assert done == ["first", "after the first"]
    steps[1].complete()
    streams.give(HOME, lambda: done.append("after the second"))
    streams.get_on(streams.home, streams.others[0])
    assert done == ["first", "after the first"]
    streams.drain()
    assert done == ["first", "after the first", "second", "after the second"]


def test_the_event_of_a_step_is_dropped_when_it_is_over(streams: SimulatedStreams) -> None:
    pool = pool_on(streams)
    steps = [pool.begin_step(stream=stream) for stream in (*streams.others, HOME)]
    for step in steps:
        step.launched()
    assert set(streams._events) == set(steps[:2])
    for step in steps:
        step.complete()
        assert step not in streams._events
    assert not streams._events


def test_translated_tokens_are_behind_the_tables(streams: SimulatedStreams) -> None:
    pool = pool_on(streams)
    ids = pool["full"].alloc(2)
    step = pool.begin_step(writes={"full": ids})
    step.launched()
    assert streams.home.queue
    found = pool["full"].translate(torch.from_numpy(ids * 4))
    assert found.tolist() == (pool["full"].physical(ids) * 4).tolist()
