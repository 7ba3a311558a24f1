"""Steps in flight that still touch slots: which slots wait for which event."""

from __future__ import annotations

from collections.abc import Iterable

from poolproof.fuzz.events import Event, EventSource


class StepsInFlight:
    """The retired slots of each step in flight. A slot waits for one step at a time.

    Args:
        source: gives the event behind each new step.
    """

    __slots__ = ("_source", "_steps")

    def __init__(self, source: EventSource) -> None:
        self._source = source
        self._steps: list[tuple[Event, list[int]]] = []

    def hold(self, slots: Iterable[int], step: int) -> None:
        """These slots wait for a step in flight, counted from 0 modulo their number + 1; the last one is a new step."""
        at = step % (len(self._steps) + 1)
        if at == len(self._steps):
            self._steps.append((self._source.record(), []))
        self._steps[at][1].extend(slots)

    def forget(self, slots: Iterable[int]) -> None:
        """These slots wait no more: somebody has reclaimed them."""
        gone = set(slots)
        for _, held in self._steps:
            held[:] = [slot for slot in held if slot not in gone]

    def forget_all(self) -> None:
        """Nothing waits any more."""
        self._steps.clear()

    def complete(self) -> list[list[int]]:
        """The slots of each step that has completed since the last call, steps without slots left out."""
        if not self._steps:
            return []
        over = [held for event, held in self._steps if event.is_complete()]
        if over:
            self._steps = [step for step in self._steps if not step[0].is_complete()]
        return [held for held in over if held]
