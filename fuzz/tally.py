"""What was checked: operations, spec actions done and refused, and what was left out because nobody promised it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from poolproof.fuzz.targets import Profile

_NEEDS = {
    "retire": "retire",
    "reclaim": "retire",
    "transfer": "transfer",
    "open_group": "groups",
    "reserve": "groups",
    "take": "groups",
    "close_group": "groups",
    "clear": "clear",
}
NEVER_REFUSED = frozenset({"clear"})
"""Actions of the spec that have no guard."""


@dataclass
class Tally:
    """Counts of one run or of many.

    Attributes:
        checked: operations after which the target was compared with the spec.
        operations: how often each operation of the language was run.
        done: how often each action of the spec was done, a batch counting once.
        refused: how often each action was refused by target and spec alike.
        skipped: operations left out, by the capability or promise that the target lacks.
    """

    checked: int = 0
    operations: Counter[str] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)

    def add(self, other: Tally) -> None:
        """Add another tally's counts."""
        self.checked += other.checked
        self.operations.update(other.operations)
        self.done.update(other.done)
        self.refused.update(other.refused)
        self.skipped.update(other.skipped)

    def coverage(self, profile: Profile) -> dict[str, dict[str, int]]:
        """For each action of the spec that the target offers: how often it was done and refused."""
        names = ["alloc", "free", *(name for name, needs in _NEEDS.items() if needs in profile.capabilities)]
        return {name: {"done": self.done[name], "refused": self.refused[name]} for name in names}

    def uncovered(self, profile: Profile) -> list[str]:
        """What never happened: "retire done", "take refused", ..."""
        return [
            f"{name} {verdict}"
            for name, counts in self.coverage(profile).items()
            for verdict, count in counts.items()
            if not count and not (verdict == "refused" and name in NEVER_REFUSED)
        ]
