"""A pool on torch tensors does what the plain host pool does: the same ids, pages and bytes, and a table that is told.

The buffer is a tensor of the CPU here; `test_cuda_pool` makes the same random calls to a pool on a device.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from buffers import chain_of, finish
from numpy.typing import NDArray

import poolproof as pp
from poolproof import Checkpoints, KVPages, LatentPages, Pages, StateSlots, UnifiedPool, WindowPages
from poolproof.device_bytes import DeviceBytes
from poolproof.events import Immediate
from poolproof.page_bytes import Changes, HostBytes

POISON = 0xEE
OnTensors: Any = type("OnTensors", (UnifiedPool,), {"_open_bytes": UnifiedPool._open_tensor})


def kinds() -> list[Any]:
    """A sub-pool of every kind, of odd sizes, with windows of two owners."""
    return [
        KVPages("full", layers=2, kv_heads=1, head_dim=1, dtype="float8_e4m3fn", page_size=2),
        LatentPages("latent", layers=1, latent_dim=2, rope_dim=1, dtype="uint8", grows="float"),
        WindowPages("window", layers=1, kv_heads=1, head_dim=1, dtype="int8", grows="float"),
        WindowPages("narrow", ids_of="latent", layers=1, kv_heads=1, head_dim=3, dtype="uint8", grows="float"),
        StateSlots(
            "state",
            layers=2,
            conv_shapes=[(1, 2)],
            temporal_shape=(1, 2, 1),
            conv_dtype="bfloat16",
            temporal_dtype="bfloat16",
        ),
        Checkpoints("checkpoint", of="state"),
        Pages("bytes", bytes=3, grows="float"),
    ]


def rows(pool: UnifiedPool, name: str) -> torch.Tensor:
    """[pages, page_bytes], the buffer as a sub-pool's pages, wherever it is."""
    size = pool[name].layout.page_bytes
    pages = pool.total_bytes // size
    return pool.buffer[: pages * size].view(pages, size)


def told(pool: UnifiedPool, name: str) -> list[int]:
    """The page of each id as the device has it; it must be one that is told of tables."""
    bytes_of: Any = pool._bytes
    assert isinstance(bytes_of, DeviceBytes)
    return bytes_of.table(pool._at(name).index).tolist()


def known(pool: UnifiedPool, name: str) -> list[int]:
    """The page of each id as the pool has it, 0 for those without one."""
    return pool[name].physical(range(pool[name].ids)).tolist()


class Together:
    """The same random calls to several pools: they must give the same answers, and have the same bytes.

    Args:
        seed: of what is drawn.
        pools: all alike, on devices of any kind, the last one with tables on its device.
        streams: for each pool, two streams beside home.
        use: for each pool, makes a stream the current one.
        settle: all that was given to a device is done.
    """

    def __init__(
        self,
        seed: int,
        pools: Sequence[UnifiedPool],
        streams: Sequence[Sequence[Any]],
        use: Sequence[Callable[[Any], AbstractContextManager[Any]]],
        settle: Callable[[], None] = lambda: None,
    ) -> None:
        self.draw, self.pools, self.streams, self.use = random.Random(seed), pools, streams, use
        self.settle = settle
        self.names = [layout.name for layout in pools[0].layouts]
        self.owners = {layout.name: layout.ids_of or layout.name for layout in pools[0].layouts}
        self.steps: list[Sequence[Any]] = []
        self.over: list[Sequence[Any]] = []
        self.held: list[Sequence[Any]] = []
        self.reads: list[Sequence[torch.Tensor]] = []
        self.counts: Counter[str] = Counter()
        self.is_looking = True
        for pool in pools:
            pool.buffer[pool.sink_bytes :] = POISON

    def run(self, operations: int, look: int = 1) -> None:
        """Make so many calls; look at the bytes, and what is translated, at every `look`-th of them."""
        weights = {
            "alloc": 10, "together": 3, "bind": 6, "extend": 3, "free": 13, "begin": 18, "launch": 20, "complete": 14,
            "end": 6, "lease": 3, "release": 4, "compact": 9, "clear": 1,
        }  # fmt: skip
        for number in range(operations):
            self.is_looking = number % look == 0
            (name,) = self.draw.choices([*weights], [*weights.values()])
            before = [known(self.pools[0], name) for name in self.names]
            done = getattr(self, name)()
            self.counts[name] += done is not False
            after = [known(self.pools[0], name) for name in self.names]
            pairs = zip(np.concatenate(before), np.concatenate(after), strict=True)
            self.counts["moved"] += sum(0 < old != new > 0 for old, new in pairs)
            self.compare_tables()
            if self.is_looking:
                self.compare_bytes()
        self.drain()
        for pool in self.pools:
            finish(pool.begin_step())
        self.compare_tables()
        self.compare_bytes()

    def drain(self) -> None:
        """All steps are over, and nothing is held."""
        for step in [step for steps in self.steps for step in steps]:
            _ = step.launched() if step.phase.value == "open" else None
            step.complete()
        for handle in [handle for handles in self.held for handle in handles]:
            _ = handle.release() if isinstance(handle, pp.Lease) else handle.open()
        self.steps, self.held = [], []

    def compare_tables(self) -> None:
        """All pools are in one state; but how streams print is each device's own."""
        found = [pool.snapshot() for pool in self.pools]
        found = [one._replace(steps=tuple(step._replace(stream="") for step in one.steps)) for one in found]
        assert all(one == found[0] for one in found)

    def compare_bytes(self) -> None:
        """All pools hold the same bytes, and steps have read the same."""
        self.settle()
        for found in [[pool.buffer for pool in self.pools], *self.reads]:
            assert all(torch.equal(one.cpu(), found[0].cpu()) for one in found)
        self.reads = []

    def compare_translations(self) -> None:
        """Every pool translates as its tables say: live ids, dead ones, padding, and beyond."""
        for name in self.names:
            size, ids = self.pools[0][name].layout.page_size, self.pools[0][name].ids
            tokens = torch.tensor([-1, -(2**40), *range((ids + 2) * size), 2**40])
            pages = np.array([0, 0, *np.repeat([*known(self.pools[0], name), 0, 0], size), 0])
            offsets = np.array([0, 0, *np.tile(np.arange(size), ids + 2), 2**40 % size])
            for pool in self.pools:
                found = pool[name].translate(tokens.to(pool.buffer.device))
                assert found.tolist() == (pages * size + offsets).tolist()

    # -------------------------------------------------------------------------------------------------- what is drawn

    def live(self, name: str) -> NDArray[np.int64]:
        """The ids of a sub-pool that have a page."""
        return np.flatnonzero(known(self.pools[0], name))

    def some(self, ids: NDArray[np.int64], most: int = 4) -> NDArray[np.int64]:
        """A few of these ids, as a fresh array."""
        return np.array(self.draw.sample(ids.tolist(), min(len(ids), self.draw.randint(1, most))), np.int64)

    def stream(self, at: int, place: int) -> Any:
        """A stream of a pool; of place -1 it is home."""
        return None if place < 0 else self.streams[at][place]

    # ------------------------------------------------------------------------------------ calls; False: there was none

    def alloc(self) -> None:
        name, n = self.draw.choice([name for name in self.names if self.owners[name] == name]), self.draw.randint(0, 5)
        _alike(_result(pool[name].alloc, n) for pool in self.pools)

    def together(self) -> None:
        demand = {name: self.draw.randint(1, 2) for name in self.names if self.draw.random() < 0.4}
        for name in list(demand):
            demand[self.owners[name]] = max(demand.get(self.owners[name], 0), demand[name])
        given = _alike(_result(pool.alloc, demand) for pool in self.pools)
        for name in demand if isinstance(given[0], dict) else ():
            _alike(one[name] for one in given)

    def bind(self) -> bool | None:
        windows = [name for name in self.names if self.owners[name] != name]
        name = self.draw.choice(windows) if windows else self.names[0]
        free = np.setdiff1d(self.live(self.owners[name]), self.live(name))
        if not len(free):
            return False
        ids = self.some(free)
        _alike(_result(pool[name].bind, ids) for pool in self.pools)
        return None

    def extend(self) -> bool | None:
        live = self.live(self.names[0])
        if not len(live):
            return False
        tail, old, more = int(self.draw.choice(live)), self.draw.randint(0, 5), self.draw.randint(0, 5)
        _alike(_result(pool[self.names[0]].extend, [tail], [old], [old + more]) for pool in self.pools)
        return None

    def free(self) -> bool | None:
        name = self.draw.choice(self.names)
        live = self.live(name)
        if not len(live):
            return False
        ids = self.some(live, 6)
        _alike(_result(pool[name].free, ids) for pool in self.pools)
        return None

    def begin(self) -> bool | None:
        """A step begins: it reads what was written or zeroed, and writes a pattern."""
        if len(self.steps) > 4:
            return False
        reads, writes = {}, {}
        for name in self.draw.sample(self.names, 2):
            live, table = self.live(name), self.pools[0]._at(name)
            filled = live if table.zeroed else live[table.flags[live] != 0]
            reads |= {name: self.some(filled)} if len(filled) else {}
            writes |= {name: self.some(live)} if len(live) else {}
        place, value = self.draw.choice([-1, -1, 0, 1]), self.draw.randint(1, 200)
        streams = [self.stream(at, place) for at in range(len(self.pools))]
        # A device that is behind may not be told while certain steps are open; a host need not be told.
        may_differ = self.pools[-1]._bytes.is_behind() and any(steps[0].phase.value == "open" for steps in self.steps)
        last = _result(self.pools[-1].begin_step, reads, writes, streams[-1])
        if may_differ and last is pp.StepError:
            self.counts["refused"] += 1
            return False
        steps = _alike(
            [_result(pool.begin_step, reads, writes, streams[at]) for at, pool in enumerate(self.pools[:-1])] + [last]
        )
        if isinstance(steps[0], type):
            return False
        if self.is_looking:
            self.compare_translations()
        found = []
        for pool, step, stream, use in zip(self.pools, steps, streams, self.use, strict=True):
            with use(stream):
                found.append([rows(pool, name)[page].clone() for name in reads for page in step.reads[name].tolist()])
                for row in [rows(pool, name)[page] for name in writes for page in step.writes[name].tolist()]:
                    row.fill_(value)
        self.reads += zip(*found, strict=True)
        self.steps.append(steps)
        return None

    def launch(self) -> bool | None:
        ready = [steps for steps in self.steps if steps[0].phase.value == "open"]
        if not ready:
            return False
        steps = self.draw.choice(ready)
        _alike(_result(step.launched) for step in steps)
        return None

    def complete(self) -> bool | None:
        ready = [steps for steps in self.steps if steps[0].phase.value == "launched" or self.draw.random() < 0.1]
        if not ready:
            return False
        steps = ready[0] if self.draw.random() < 0.7 else self.draw.choice(ready)
        if _alike(_result(step.complete) for step in steps)[0] is None:
            self.steps.remove(steps)
            self.over.append(steps)
        return None

    def end(self) -> bool | None:
        """Publish a little, if a step's results allow it, and retire the step."""
        if not self.over:
            return False
        steps = self.over.pop(0)
        for name in self.names:
            live = self.live(name)
            ids = self.some(live, 2) if len(live) else live
            _alike(_result(step.publish, name, ids) for step in steps)
        _alike(_result(step.retire) for step in steps)
        return None

    def lease(self) -> bool | None:
        name = self.draw.choice(self.names)
        live = self.live(name)
        if not len(live) or len(self.held) > 1:
            return False
        ids = self.some(live)
        arguments = [(name, ids, "test")] if self.draw.random() < 0.7 else [(name, "test")]
        taken = _alike(
            _result(pool.lease if len(given) == 3 else pool.gate, *given) for pool in self.pools for given in arguments
        )
        if not isinstance(taken[0], type):
            self.held.append(taken)
        return None

    def release(self) -> bool | None:
        if not self.held:
            return False
        for handle in self.held.pop(self.draw.randrange(len(self.held))):
            _ = handle.release() if isinstance(handle, pp.Lease) else handle.open()
        return None

    def compact(self) -> None:
        urgent = self.draw.random() < 0.5
        moved = [pool.compact(urgent, moves=3) for pool in self.pools]
        for field in ("ids", "sources", "targets"):
            _alike(np.concatenate([[0], *(getattr(move, field) for move in moves)]) for moves in moved)

    def clear(self) -> None:
        """Refused where something is in the way; done where nothing is."""
        _alike(_result(pool.clear) for pool in self.pools)
        if self.draw.random() < 0.5:
            self.drain()
            assert _alike(_result(pool.clear) for pool in self.pools)[0] is None


def _result(call: Callable[..., Any], *arguments: Any) -> Any:
    """What a call gives, or the class of its refusal."""
    try:
        return call(*arguments)
    except pp.PoolError as error:
        return type(error)


def _alike(found: Iterable[Any]) -> list[Any]:
    """Answers, which must be of one kind, and arrays equal."""
    answers = list(found)
    for answer in answers:
        assert type(answer) is type(answers[0])
        if isinstance(answer, type):
            assert answer is answers[0]
        if isinstance(answer, np.ndarray):
            assert answer.tolist() == answers[0].tolist()
    return answers


CHAINS = {
    "kinds": (150, kinds()),
    "roomy": (400, kinds()),
    "zeroed": (60, chain_of(3, 2, 4, zero="on_handout")),
    "as found": (48, chain_of(1, 2, 3, 2)),
}
"""Bytes and sub-pools."""


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("chain", CHAINS)
def test_random_calls_do_what_they_do_to_the_host_pool(chain: str, seed: int) -> None:
    host, tensor = UnifiedPool(*CHAINS[chain]), OnTensors(*CHAINS[chain])
    assert (type(host._bytes), type(tensor._bytes)) == (HostBytes, DeviceBytes)
    together = Together(seed, [host, tensor], [(1, 2)] * 2, [lambda _: nullcontext()] * 2)
    together.run(400)
    assert min(together.counts[name] for name in ("alloc", "begin", "complete", "lease", "moved")) > 0
    for name in together.names:
        assert host[name].translate(torch.arange(9)).tolist() == tensor[name].translate(torch.arange(9)).tolist()
        assert (told(tensor, name), tensor.check()) == (known(host, name), [])


# ------------------------------------------------------------------------------------------------ what a device is told


class Listener:
    """What a pool tells its device: places and values of each refresh, and what is wiped."""

    def __init__(self, pool: UnifiedPool, monkeypatch: pytest.MonkeyPatch) -> None:
        self.heard: list[tuple[dict[int, int], tuple[tuple[int, int], ...], int]] = []
        refresh = pool._bytes.refresh

        def listen(zeros: Any, changes: Changes) -> None:
            entries = dict(zip(changes.places.tolist(), changes.values.tolist(), strict=True))
            self.heard.append((entries, changes.wiped, sum(len(pages) for pages in zeros)))
            refresh(zeros, changes)

        monkeypatch.setattr(pool._bytes, "refresh", listen)


def two(total: int = 40, zero: Any = "never") -> UnifiedPool:
    """A pool on a tensor: "a" grows up, "b" down, pages of 2 and 4 bytes."""
    pool: UnifiedPool = OnTensors(total, chain_of(2, 4, zero=zero))
    return pool


def test_nothing_is_told_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = two()
    listener = Listener(pool, monkeypatch)
    finish(pool.begin_step())
    assert listener.heard == []
    ids, other = pool["a"].alloc(3), pool["b"].alloc(1)
    assert pool._bytes.is_behind()
    finish(pool.begin_step())
    start = pool["a"].ids
    pages = dict(zip(ids.tolist(), pool["a"].physical(ids).tolist(), strict=True))
    assert listener.heard == [(pages | {start + int(other[0]): int(pool["b"].physical(other)[0])}, (), 0)]
    assert not pool._bytes.is_behind()
    assert pool._bytes.behind() == {}
    finish(pool.begin_step(writes={"a": ids}))
    finish(pool.begin_step(stream=1))
    pool["a"].translate(torch.arange(4))
    assert len(listener.heard) == 1
    pool["a"].free(ids[:1])
    finish(pool.begin_step())
    assert listener.heard[1:] == [({int(ids[0]): 0}, (), 0)]


@pytest.mark.parametrize("what", ["alloc", "free", "move", "clear"])
def test_a_change_is_told_before_the_next_step(what: str) -> None:
    pool = two()
    ids = pool["a"].alloc(6)
    finish(pool.begin_step())
    before = told(pool, "a")
    if what == "alloc":
        pool["a"].alloc(2)
    elif what == "clear":
        pool.clear()
    else:
        pool["a"].free(ids[:2])
    if what == "move":
        finish(pool.begin_step())
        before = told(pool, "a")
        assert len(pool.compact(urgent=True)) == 1
    assert told(pool, "a") == before
    assert told(pool, "a") != known(pool, "a")
    step = pool.begin_step()
    assert told(pool, "a") == known(pool, "a") != before
    finish(step)


def test_between_steps_a_translation_is_up_to_date_and_within_one_it_is_as_of_the_step() -> None:
    pool = two()
    ids = pool["a"].alloc(4)
    pages = pool["a"].physical(ids).tolist()
    assert pool["a"].translate(torch.tensor(ids)).tolist() == pages
    step = pool.begin_step(writes={"a": ids})
    pool["a"].free(ids[:1])
    assert pool["a"].translate(torch.tensor(ids)).tolist() == pages
    finish(step)
    assert pool["a"].translate(torch.tensor(ids)).tolist() == [0, *pages[1:]]
    assert not pool._bytes.is_behind()


def test_after_a_clear_old_ids_lead_to_the_sink_and_new_ones_to_their_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = two()
    ids = pool["a"].alloc(5)
    finish(pool.begin_step(writes={"a": ids}))
    pool["a"].alloc(2)
    pool.clear()
    listener = Listener(pool, monkeypatch)
    new = pool["a"].alloc(2)
    found = pool["a"].translate(torch.tensor(ids)).tolist()
    assert found == [int(pool["a"].physical(number)[0]) if number in new else 0 for number in ids.tolist()]
    both = pool["a"].ids, pool["b"].ids
    assert [wiped for _, wiped, _ in listener.heard] == [((0, both[0]), (both[0], sum(both)))]
    assert [sorted(entries) for entries, _, _ in listener.heard] == [sorted(new.tolist())]
    finish(pool.begin_step())
    assert len(listener.heard) == 1


def test_many_changes_between_steps_are_told_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    pool: UnifiedPool = OnTensors(4000, chain_of(1, 1))
    listener = Listener(pool, monkeypatch)
    kept = pool["a"].alloc(3)
    for _ in range(5000):
        pool["a"].free(pool["a"].alloc(1))
    table: Any = pool._at("a")
    assert len(table.changed) < 5000
    finish(pool.begin_step())
    ((entries, _, _),) = listener.heard
    assert {number: page for number, page in entries.items() if page} == dict(
        zip(kept.tolist(), pool["a"].physical(kept).tolist(), strict=True)
    )
    assert told(pool, "a") == known(pool, "a")


def test_zeroing_and_tables_are_told_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = two(zero="on_handout")
    pool.buffer[pool.sink_bytes :] = POISON
    listener = Listener(pool, monkeypatch)
    ids, other = pool["a"].alloc(3), pool["b"].alloc(2)
    step = pool.begin_step(reads={"a": ids, "b": other})
    assert [(len(entries), zeros) for entries, _, zeros in listener.heard] == [(5, 5)]
    assert not rows(pool, "a")[torch.tensor(step.reads["a"])].any()
    assert not rows(pool, "b")[torch.tensor(step.reads["b"])].any()
    assert int((pool.buffer == POISON).sum()) == pool.total_bytes - pool.sink_bytes - 3 * 2 - 2 * 4


# ---------------------------------------------------------------------------------------------------- arrays of callers


def test_arrays_that_a_caller_writes_to_do_no_harm() -> None:
    """Ids that came back or were given are the caller's: what the device is told of does not depend on them."""
    pool: UnifiedPool = OnTensors(200, kinds())
    ids = pool["full"].alloc(6)
    numbers = ids.copy()
    ids[:] = 1
    together = pool.alloc({"state": 1, "bytes": 2})
    mine = {name: given.copy() for name, given in together.items()}
    for given in together.values():
        given[:] = 0
    bound = numbers[:3].copy()
    pool["window"].bind(bound)
    bound[:] = numbers[5]
    gone = numbers[4:].copy()
    pool["full"].free(gone)
    gone[:] = numbers[0]
    moved = pool.compact(urgent=True)
    for move in moved:
        move.ids[:] = 0
    step = pool.begin_step(writes=mine)
    for name in [layout.name for layout in pool.layouts]:
        assert told(pool, name) == known(pool, name)
        assert np.count_nonzero(told(pool, name)) == {"full": 4, "window": 3, "state": 1, "bytes": 2}.get(name, 0)
    finish(step)
    assert pool.check() == []


def test_pages_that_come_back_cannot_be_written_to_or_are_the_callers() -> None:
    pool = two()
    ids = pool["a"].alloc(2)
    pages = pool["a"].physical(ids)
    pages[:] = 3
    step = pool.begin_step(writes={"a": ids})
    with pytest.raises(ValueError, match="read-only"):
        step.writes["a"][0] = 3
    assert step.writes["a"].tolist() == pool["a"].physical(ids).tolist() == told(pool, "a")[1:3]


@pytest.mark.parametrize("device", ["cuda:99", "cuda:x"])
def test_a_device_that_is_not_there_is_refused(device: str) -> None:
    with pytest.raises(pp.LayoutError, match="cuda:"):
        pp.UnifiedPool(1 << 16, [pp.Pages("a", bytes=64, grows="up")], device=device)


def test_a_lease_that_cannot_be_marked_keeps_nothing() -> None:
    class Failing(Immediate):
        """A device on which no event can be recorded."""

        def mark(self) -> None:
            raise RuntimeError("the device is lost")

    pool = pp.UnifiedPool(1 << 12, [pp.Pages("a", bytes=64, grows="up")], events=Failing())
    ids = pool["a"].alloc(2)
    with pytest.raises(RuntimeError, match="the device is lost"):
        pool.lease("a", ids, "test")
    assert pool.check() == []
    pool["a"].free(ids)
    assert pool["a"].capacity() == 63
