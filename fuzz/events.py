"""When do steps in flight complete? Event sources: on a device events come from the driver, in tests from a schedule.

The pool only ever sees the `EventSource` protocol, so the code that waits for a step is the same on every source.
"""

from __future__ import annotations

from typing import Final, Protocol

import msgspec

from poolproof.fuzz.errors import SettingError


class Event(Protocol):
    """A point in the work submitted to a device."""

    def is_complete(self) -> bool:
        """Has all work before this point been done? Once true, it stays true. Never blocks."""
        ...


class EventSource(Protocol):
    """Gives events behind the work submitted so far."""

    def record(self) -> Event:
        """An event that completes when everything submitted before this call has been done."""
        ...


class CompletedEvent:
    """An event of work that has been done already."""

    __slots__ = ()

    def is_complete(self) -> bool:
        """Always."""
        return True


class ImmediateEvents:
    """A device that does everything at once: each event is complete when it is recorded."""

    def record(self) -> CompletedEvent:
        """An event that is complete."""
        return CompletedEvent()


class Schedule(msgspec.Struct, frozen=True):
    """How long steps take, in ticks; the delays are drawn from the seed, one for each event in order of recording.

    Delays differ, so events complete out of order. `longest=0` means at once.
    """

    seed: int = 0
    shortest: int = 0
    longest: int = 0

    def delay(self, index: int) -> int:
        """The number of ticks that the event recorded as number `index` takes."""
        return self.shortest + _scatter(self.seed + index) % (self.longest - self.shortest + 1)

    def validate(self) -> None:
        """Check the bounds.

        Raises:
            SettingError: they are no range of ticks.
        """
        if not 0 <= self.shortest <= self.longest:
            raise SettingError(f"a schedule of {self.shortest}..{self.longest} ticks; want 0 <= shortest <= longest")


_MASK: Final = (1 << 64) - 1


def _scatter(number: int) -> int:
    """A well-mixed 64-bit number for each integer (the finalizer of SplitMix64)."""
    z = (number * 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


class ScheduledEvent:
    """An event that completes at a tick of its source's clock."""

    __slots__ = ("_due", "_source")

    def __init__(self, source: ScheduledEvents, due: int) -> None:
        self._source = source
        self._due = due

    def is_complete(self) -> bool:
        """Has the clock reached the tick?"""
        return self._source.now >= self._due


class ScheduledEvents:
    """A device whose steps take as long as a schedule says, on a clock that the test moves on."""

    __slots__ = ("_recorded", "_schedule", "now")

    def __init__(self, schedule: Schedule) -> None:
        schedule.validate()
        self._schedule = schedule
        self._recorded = 0
        self.now = 0

    def record(self) -> ScheduledEvent:
        """An event that completes after the schedule's next delay."""
        event = ScheduledEvent(self, self.now + self._schedule.delay(self._recorded))
        self._recorded += 1
        return event

    def advance(self, ticks: int = 1) -> None:
        """Move the clock on."""
        self.now += ticks

    def finish(self) -> None:
        """Move the clock on until every event recorded so far is complete."""
        self.now += self._schedule.longest
