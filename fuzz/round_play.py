"""How a round is played: operations are drawn by weight and done, one after the other, and all is compared."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection
from typing import Any, Final

from poolproof.fuzz.cache_world import World
from poolproof.fuzz.memory import WrongBytes

CHECKED: Final = 20
"""Operations between two times that all bytes are looked at."""

TRIES: Final = 4
"""Operations that are drawn until one has something to do."""


class RoundPlay(ABC):
    """What drivers of rounds share; a method `_name` does the operation of this name, and says what came of it.

    See the drivers for their attributes.
    """

    seed: str
    draw: random.Random
    world: World
    oracle: Any
    checked: int
    at: int
    counts: Counter[str]
    history: list[str] | None
    _detail: str
    _weights: dict[str, float]

    @property
    def steps(self) -> int:
        """Steps of the specs that were taken."""
        shadow = self.world.states._journal
        return sum(each.taken for each in self.world.shadows) + (0 if shadow is None else shadow.taken)

    @property
    def deepest(self) -> int:
        """How often something of a state that was loaded was quantised at most."""
        found: int = self.oracle.deepest
        return found

    def run(self, operations: int, kept: Collection[int] | None = None) -> None:
        """So many operations, or those of them whose numbers are kept.

        Raises:
            Departure, SpecViolation, WrongBytes: what is under test is wrong, or a pool below it; and whatever else
                they raise.
        """
        for n in range(operations) if kept is None else sorted(kept):
            self.at = n
            self.draw.seed(f"{self.seed}/{n}")
            try:
                self._do_something()
            except Exception:
                self._tell("ends in an error")
                raise
            self._settle(n % CHECKED == CHECKED - 1)
        self._settle(True)

    def _do_something(self) -> None:
        """An operation is drawn, and another one where there is nothing for it to do."""
        for operation in self.draw.choices(list(self._weights), list(self._weights.values()), k=TRIES):
            self._detail = operation
            outcome = getattr(self, f"_{operation}")()
            if outcome is not None:
                self.counts[f"{operation} {outcome}"] += 1
                self.checked += 1
                self._tell(outcome)
                return

    def _tell(self, outcome: str) -> None:
        if self.history is not None:
            self.history.append(f"{self.at}: {self._detail}: {outcome}")

    @abstractmethod
    def _settle(self, everything: bool) -> None:
        """After an operation: what is wrong ends the run."""

    def _raise_wrong(self) -> None:
        wrong = self.world.memory.wrong()
        if wrong:
            raise WrongBytes("; ".join(wrong[:3]))
