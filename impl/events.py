"""How the pool's own device work is ordered with everybody else's: the seam between bookkeeping and streams.

The pool never asks how far a device is: what it decides follows from calls alone, so that ranks which make the same
calls decide the same. What it needs of time is that work on a stream stays in order, and that one stream can wait for
another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from poolproof.steps import Step


class EventSource(Protocol):
    """Streams and events.

    Attributes:
        is_immediate: work of the pool's own counts as over when `run` returns: because it is, or because whoever could
            tell comes behind it.
    """

    is_immediate: bool

    def place(self, stream: Any) -> Any:
        """A stream as steps keep it, None for home.

        Raises:
            TypeError, ValueError: it is no stream of this source.
        """

    def begun(self, step: Step) -> None:
        """A step begins: what its stream is given from now on starts after all that is on the home stream."""

    def run(self, step: Step | None, work: Callable[[], None]) -> None:
        """Do the pool's own work, on the home stream, behind all that is on it: of a step, or what no step is of."""

    def wait(self, stream: Any, other: Step) -> None:
        """What the stream is given from now on starts after the other step, which is launched, is over."""

    def launched(self, step: Step) -> None:
        """The step's work is on its stream: note the place, for others to wait for."""

    def completed(self, step: Step) -> None:
        """The step is over as far as the pool is concerned: whatever it starts from now on comes behind it."""

    def mark(self) -> Any:
        """An event behind all that is on the home stream, for others to wait for; None where nothing need wait."""

    def join(self) -> None:
        """The current stream comes behind all that is on the home stream."""

    def is_capturing(self) -> bool:
        """Is the current stream being recorded into a graph, so that nothing but what is asked for may be given it?"""


class Immediate:
    """A host, on which work is over when it is done: streams are names."""

    is_immediate = True

    def place(self, stream: Any) -> Any:
        """See `EventSource`: any value."""
        return stream

    def begun(self, step: Step) -> None:
        """See `EventSource`: nothing to do."""

    def run(self, step: Step | None, work: Callable[[], None]) -> None:
        """See `EventSource`."""
        work()

    def wait(self, stream: Any, other: Step) -> None:
        """See `EventSource`: nothing to do, since whatever was launched is over."""

    def launched(self, step: Step) -> None:
        """See `EventSource`: nothing to note."""

    def completed(self, step: Step) -> None:
        """See `EventSource`: nothing to note."""

    def mark(self) -> None:
        """See `EventSource`: nothing need wait."""

    def join(self) -> None:
        """See `EventSource`: nothing need wait."""

    def is_capturing(self) -> bool:
        """See `EventSource`: there are no graphs."""
        return False


METHODS = ("place", "begun", "run", "wait", "launched", "completed", "mark", "join", "is_capturing")
"""What an event source must have."""
