"""Streams under several pools that share a device, and copies between slots that fail in the midst of it.

Three kinds of device, beside a CUDA one: one that works when it pleases and waits when it is told to; one that does so
too but keeps no track of the pool's own work, as CUDA streams do; and one that has done everything when a call returns.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from poolproof.events import Immediate
from poolproof.fuzz.queued_device import QueuedDevice
from poolproof.steps import HOME, Step

if TYPE_CHECKING:
    from poolproof.checkpoint_bytes import CheckpointBytes
    from poolproof.unified_pool import UnifiedPool

KINDS: Final = ("queued", "ordered", "at once")
STREAMS: Final = (HOME, HOME, HOME, 1, 2)
_PATIENCE: Final = 100_000


class InjectedFault(Exception):
    """A copy between slots fails, as a launch may."""


class Faults:
    """Mixed into an event source: the next copy between slots can be made to fail.

    Attributes:
        is_armed: whether it will.
        spoil: what such a copy does to a page that it writes before it fails: the pool, the sub-pool, the page.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.is_armed = False
        self.spoil: Callable[[UnifiedPool, str, int], None] = lambda pool, name, page: None
        self._doomed: tuple[Step | None, list[tuple[UnifiedPool, str, int]]] | None = None

    def disarm(self) -> None:
        """No copy is made to fail any more."""
        self.is_armed, self._doomed = False, None

    def watch(self, copies: CheckpointBytes) -> None:
        """Know copies from other work: they begin here, as steps, or where nobody could tell without any."""
        begin = copies._begin

        def watched(*arguments: Any) -> tuple[Step, ...]:
            """As it is; an armed fault is that of this copy."""
            steps = begin(*arguments)
            if self.is_armed:
                last = steps[-1]
                pages = [(last._pool, name, page) for name, held in last.writes.items() for page in held.tolist()]
                self.is_armed, self._doomed = False, (steps[0], pages)
            return steps

        copies._begin = watched  # type: ignore[method-assign, assignment]
        for pool in copies._pools:
            self._watch_single(pool)

    def _watch_single(self, pool: UnifiedPool) -> None:
        plain: Any = pool._copy_one

        def watched(source: Any, read: int, other: UnifiedPool, target: Any, written: int) -> tuple[int, int] | None:
            """As it is; an armed fault is that of this copy."""
            pages: tuple[int, int] | None = plain(source, read, other, target, written)
            if pages is not None and self.is_armed:
                self.is_armed, self._doomed = False, (None, [(other, other.layouts[target.index].name, pages[1])])
            return pages

        pool._copy_one = watched  # type: ignore[method-assign, assignment]

    def run(self, step: Step | None, work: Callable[[], None]) -> None:
        """See `EventSource`; where it is the work of a copy that fails, something else is done."""
        source: Any = super()
        if self._doomed is None or step is not self._doomed[0]:
            source.run(step, work)
            return
        (_, pages), self._doomed = self._doomed, None
        for page in pages:
            source.run(step, partial(self.spoil, *page))
        raise InjectedFault("a copy between slots fails, on purpose")


class Queues(Faults, QueuedDevice):
    """A device that works when it pleases, of which steps of several pools are told apart."""

    def __init__(self, draw: random.Random) -> None:
        super().__init__(draw)
        self._keys: dict[Step, int] = {}

    def _key(self, step: Step) -> int:
        return self._keys.setdefault(step, len(self._keys) + 1)

    def _queue(self, stream: Any) -> deque[tuple[str, Any]]:
        return self._queues.setdefault(stream, deque())

    def wait(self, stream: Any, other: Step) -> None:
        """See `EventSource`."""
        self._queue(stream).append(("wait", self._key(other)))

    def launched(self, step: Step) -> None:
        """See `EventSource`."""
        self._queue(step.stream).append(("event", self._key(step)))

    def completed(self, step: Step) -> None:
        """See `EventSource`: whoever says so has waited for it."""
        for _ in range(_PATIENCE):
            if self._key(step) in self._done:
                return
            if not self._advance(step.stream):
                self.pass_time(1)
        raise AssertionError(f"the device hangs: {step!r} waits for what nobody does")


class OrderedQueues(Queues):
    """The same with the promises of `CudaStreams`: all that matters is order, and nobody waits for anything.

    A stream comes behind all that is at home when a step of it begins, and home comes behind a step that is over.
    """

    is_immediate = True

    def begun(self, step: Step) -> None:
        """See `EventSource`."""
        if step.stream is not HOME:
            self._told += 1
            self._queue(HOME).append(("event", -self._told))
            self._queue(step.stream).append(("wait", -self._told))

    def completed(self, step: Step) -> None:
        """See `EventSource`."""
        if step.stream is not HOME:
            self._queue(HOME).append(("wait", self._key(step)))


class AtOnce(Faults, Immediate):
    """A host: what is given to a stream is done."""

    streams = STREAMS

    def give(self, stream: Any, work: Callable[[], None]) -> None:
        """Work for a stream."""
        work()

    def pass_time(self, most: int) -> None:
        """Nothing is left to do."""

    def drain(self) -> None:
        """Nothing is left to do."""


def open_streams(device: str, kind: str, draw: random.Random) -> Any:
    """Streams of a device, whose times are drawn; the kind is one of KINDS, on a CUDA device whatever it is."""
    if device == "cuda":
        from poolproof.fuzz.cuda_device import CudaDevice

        return type("FaultyCuda", (Faults, CudaDevice), {})(draw)
    return {"queued": Queues, "ordered": OrderedQueues}[kind](draw) if kind != "at once" else AtOnce()
