"""Steps: pieces of device work in flight, and what each of them touches.

A step is open from `begin_step` to `launched`, in flight until `complete`, and then over: its results can be dealt
with until `retire`. Steps of one stream run in the order in which they began; a step may wait for others. The pool's
own work, moving and zeroing pages, is steps of the home stream too.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from poolproof.holds import Handle
from poolproof.page_errors import StepError
from poolproof.page_table import Pages

if TYPE_CHECKING:
    from poolproof.arguments import Ids
    from poolproof.unified_pool import UnifiedPool

HOME: Final = None
"""The stream on which the pool's own work is done, and an engine's forward passes."""


class Phase(Enum):
    """How far a step is."""

    OPEN = "open"
    LAUNCHED = "launched"
    OVER = "over"
    RETIRED = "retired"


class Step(Handle):
    """A step, as `UnifiedPool.begin_step` returns it.

    Attributes:
        number: the place in the order in which all steps of the pool began.
        stream: as given; None is home.
        ids: the ids that were given, by sub-pool, of reads and of writes.
        reads, writes: by sub-pool, the physical pages of the ids that were given, in their order, int64.
        waits: the steps that it waits for.
        began: the pool's time.
        own: whether the step is the pool's own: its own work at home, or on another stream what has failed.
    """

    __slots__ = ("_pool", "began", "ids", "number", "own", "phase", "reads", "stream", "touched", "waits", "writes")

    def __init__(self, pool: UnifiedPool, number: int, stream: Any, began: int, own: bool = False) -> None:
        self._pool, self.number, self.stream, self.began, self.own = pool, number, stream, began, own
        self.phase = Phase.OPEN
        self.reads: Mapping[str, Pages] = {}
        self.writes: Mapping[str, Pages] = {}
        self.touched: dict[str, Pages] = {}
        self.ids: list[tuple[str, Pages]] = []
        self.waits: set[Step] = set()

    @property
    def is_in_flight(self) -> bool:
        """Whether it has begun and not completed."""
        return self.phase in (Phase.OPEN, Phase.LAUNCHED)

    @property
    def is_home(self) -> bool:
        """Whether it is on the home stream."""
        return self.stream is HOME

    def is_before(self, other: Step) -> bool:
        """Whether the device completes this step before it lets the other one go ahead."""
        return (self.stream == other.stream and self.number < other.number) or self in other.waits

    def launched(self) -> None:
        """The step's work has been given to its stream.

        Raises:
            StepError: it was before, or an earlier step of the stream was not.
        """
        self._pool._launch(self)

    def complete(self) -> None:
        """The step is over, as the caller knows: at the same place on every rank.

        Pages that were kept for it are free.

        Raises:
            StepError: it was not launched, is over, or comes after a step that is in flight.
        """
        self._pool._complete(self)

    def same(self, name: str, ids: Ids) -> NDArray[np.bool_]:
        """Which ids are live, and have been since before the step began: those that its results are about.

        Args:
            name: the sub-pool.
            ids: any integers.
        """
        return self._pool._same(self, name, ids)

    def publish(self, name: str, ids: Ids) -> None:
        """After the step: others may be given these pages' contents, which are written and on the device.

        Raises:
            StepError: the step is in flight or retired, an id is not the one that the step saw, its page is not
                filled, is published already, or a step in flight writes there.
            InvalidPages: an id is not live, or given twice.
        """
        self._pool._publish(self, name, ids)

    def retire(self) -> None:
        """The results have been dealt with.

        Raises:
            StepError: the step is in flight, or was retired before.
        """
        self._pool._retire(self)

    def __repr__(self) -> str:
        where = "home" if self.is_home else repr(self.stream)
        return f"Step({self.number}, {where}, {self.phase.value})"


class Copied(NamedTuple):
    """A page that a copy at home was written to, while steps before it at home are in flight.

    Attributes:
        name: the sub-pool.
        page: in it.
        number: the copy's, in the order of all steps.
    """

    name: str
    page: int
    number: int


class Flight:
    """The steps in flight, in the order in which they began."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def __iter__(self) -> Any:
        return iter(self.steps)

    @property
    def open_home_step(self) -> Step | None:
        """A step at home that is not launched: until it is, nothing of the pool's own can be put on the stream."""
        return next((step for step in self.steps if step.is_home and step.phase is Phase.OPEN), None)

    @property
    def is_any_open(self) -> bool:
        """Is a step begun that is not launched?"""
        return any(step.phase is Phase.OPEN for step in self.steps)

    @property
    def away(self) -> list[Step]:
        """The steps on other streams than home."""
        return [step for step in self.steps if not step.is_home]

    def check_launch(self, step: Step) -> None:
        """Raises StepError where the step cannot be launched now."""
        if step.phase is not Phase.OPEN:
            raise StepError(f"{step!r} is launched already. Nothing was changed.")
        for other in self.steps:
            if other.phase is Phase.OPEN and other.stream == step.stream and other.number < step.number:
                raise StepError(
                    f"{step!r} comes after {other!r} on its stream: launch that first. Nothing was changed."
                )

    def before(self, step: Step) -> tuple[Step | None, list[Step]]:
        """What the device completes before a step: the first of others' steps, and all of the pool's own, in order.

        What comes before one of the pool's own comes before the step too.
        """
        first, own, waits, latest = None, [], set(step.waits), [step]
        for other in reversed(self.steps):
            is_on_stream = any(other.stream == one.stream for one in latest)
            if other.number >= step.number or not (is_on_stream or other in waits):
                continue
            if not other.own:
                first = other
                continue
            own.append(other)
            waits |= other.waits
            if not is_on_stream:
                latest.append(other)
        return first, own[::-1]

    def check_first(self, step: Step) -> list[Step]:
        """The pool's own steps that come before a step. Raises StepError where one of others' does."""
        first, own = self.before(step)
        if first is not None:
            raise StepError(f"{step!r} comes after {first!r}: complete that first. Nothing was changed.")
        return own

    @property
    def free_own(self) -> list[Step]:
        """The pool's own steps that have nothing of others' before them, in order."""
        found: list[Step] = []
        others: list[Step] = []
        for step in self.steps:
            is_free = step.own and not any(other.is_before(step) for other in others)
            (found if is_free else others).append(step)
        return found
