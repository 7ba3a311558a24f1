"""What `check` reports: a claim of the spec that does not hold of a pool."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Violation:
    """A broken claim.

    Attributes:
        theorem: number of the invariant in the fault catalogue, for example "I21".
        name: name of the claim in the spec, for example "slots_are_conserved".
        text: what was found, with the numbers.
    """

    theorem: str
    name: str
    text: str

    def __str__(self) -> str:
        return f"{self.theorem} {self.name}: {self.text}"
