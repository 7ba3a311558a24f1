"""Streams under several pools that share a device, and copies between slots that fail in the midst of it.

Three kinds of device, beside a CUDA one: one that works when it pleases and waits when it is told to; one that does so
too but keeps no track of the pool's own work, as CUDA streams do; and one that has done everything when a call returns.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from poolproof.events import Immediate
from poolproof.fuzz.queued_device import QueuedDevice
from poolproof.steps import HOME, Step

if TYPE_CHECKING:
    from poolproof.checkpoint_bytes import CheckpointBytes

KINDS: Final = ("queued", "ordered", "at once")
STREAMS: Final = (HOME, HOME, HOME, 1, 2)
_PATIENCE: Final = 100_000


class InjectedFault(Exception):
    """A copy between slots fails, as a launch may."""


class Faults:
    """Mixed into an event source: the next copy between slots can be made to fail.

    Attributes:
        is_armed: whether it will.
        spoil: what such a copy does to the pages that it writes before it fails.
    """

    is_armed = False

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.spoil: Callable[[tuple[Step, ...]], None] = lambda steps: None
        self._doomed: tuple[Step, ...] = ()

    def watch(self, copies: CheckpointBytes) -> None:
        """Know copies from other work: their steps begin here."""
        begin = copies._begin

        def watched(*arguments: Any) -> tuple[Step, ...]:
            steps = begin(*arguments)
            if self.is_armed:
                self.is_armed, self._doomed = False, steps
            return steps

        copies._begin = watched  # type: ignore[method-assign, assignment]

    def run(self, step: Step | None, work: Callable[[], None]) -> None:
        """See `EventSource`; where the step is that of a copy that fails, it does something else."""
        source: Any = super()
        if step is None or step not in self._doomed:
            source.run(step, work)
            return
        doomed, self._doomed = self._doomed, ()
        source.run(step, lambda: self.spoil(doomed))
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
