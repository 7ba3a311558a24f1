"""How the pool's own device work is ordered with everybody else's: the seam between bookkeeping and streams.

The pool never asks how far a device is: what it decides follows from calls alone, so that ranks which make the same
calls decide the same. What it needs of time is that work on a stream stays in order, and that one stream can wait for
another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from poolproof.steps import Step


class EventSource(Protocol):
    """Streams and events.

    Attributes:
        is_immediate: work is over when `run` returns.
    """

    is_immediate: bool

    def run(self, step: Step, work: Callable[[], None]) -> None:
        """Do the pool's own work of a step, on the home stream, behind all that is on it."""

    def wait(self, step: Step, other: Step) -> None:
        """What the step's stream is given from now on starts after the other step, which is launched, is over."""

    def launched(self, step: Step) -> None:
        """The step's work is on its stream: note the place, for others to wait for."""

    def completed(self, step: Step) -> None:
        """The caller knows the step to be over."""


class Immediate:
    """A host, on which work is over when it is done: streams are names."""

    is_immediate = True

    def run(self, step: Step, work: Callable[[], None]) -> None:
        """See `EventSource`."""
        work()

    def wait(self, step: Step, other: Step) -> None:
        """See `EventSource`: nothing to do, since whatever was launched is over."""

    def launched(self, step: Step) -> None:
        """See `EventSource`: nothing to note."""

    def completed(self, step: Step) -> None:
        """See `EventSource`: nothing to note."""
