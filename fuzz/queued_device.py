"""A device that works when it pleases: streams are queues, and how far each has got is drawn at random.

Work of one stream is done in order; a stream that waits for a step goes on once that step's work is done. Nothing else
is promised, so that a pool that forgets to wait shows wrong bytes sooner or later.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import Any

from poolproof.steps import HOME, Step

Work = Callable[[], None]


class QueuedDevice:
    """An `EventSource` whose streams run at random times.

    Args:
        draw: where the times come from.
    """

    is_immediate = False
    streams = (HOME, HOME, HOME, 1, 2)

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        self._queues: dict[Any, deque[tuple[str, Any]]] = {}
        self._done: set[int] = set()
        self._told = 0

    def give(self, stream: Any, work: Work) -> None:
        """Work for a stream."""
        self._queues.setdefault(stream, deque()).append(("work", work))

    def place(self, stream: Any) -> Any:
        """See `EventSource`."""
        return stream

    def begun(self, step: Step) -> None:
        """See `EventSource`. The pool asks for waits for steps, so that one it forgets shows; what no step is of,

        such as telling a device of tables, is waited for here.
        """
        if step.stream is not HOME and self._told:
            self._queues.setdefault(step.stream, deque()).append(("wait", -self._told))

    def run(self, step: Step | None, work: Work) -> None:
        """See `EventSource`."""
        self.give(HOME, work)
        if step is None:
            self._told += 1
            self._queues[HOME].append(("event", -self._told))

    def wait(self, stream: Any, other: Step) -> None:
        """See `EventSource`."""
        self._queues.setdefault(stream, deque()).append(("wait", other.number))

    def launched(self, step: Step) -> None:
        """See `EventSource`."""
        self._queues.setdefault(step.stream, deque()).append(("event", step.number))

    def completed(self, step: Step) -> None:
        """See `EventSource`: whoever says so has waited for it."""
        while step.number not in self._done:
            if not self._advance(step.stream):
                self.pass_time(1)

    def mark(self) -> None:
        """See `EventSource`: leases are given when what they are of is over."""

    def join(self) -> None:
        """See `EventSource`: whoever looks at bytes at once has drained the device."""

    def is_capturing(self) -> bool:
        """See `EventSource`."""
        return False

    def pass_time(self, most: int) -> None:
        """Some streams get on, by so many pieces of work at most."""
        for _ in range(self._draw.randint(1, most)):
            waiting = [stream for stream, queue in self._queues.items() if queue]
            if not waiting:
                return
            self._advance(self._draw.choice(waiting))

    def drain(self) -> None:
        """All that can be done is done."""
        while any(self._advance(stream) for stream in list(self._queues)):
            pass

    def _advance(self, stream: Any) -> bool:
        """One piece of work of a stream; False where it has none, or waits."""
        queue = self._queues.get(stream)
        if not queue or (queue[0][0] == "wait" and queue[0][1] not in self._done):
            return False
        kind, what = queue.popleft()
        if kind == "work":
            what()
        elif kind == "event":
            self._done.add(what)
        return True
