"""Where a target leaves the spec: everything that a person needs to see what happened."""

from __future__ import annotations

from typing import Any

from poolproof.fuzz.comparison import Difference


class Divergence(Exception):
    """A target and the spec disagree. The target is wrong, or its description as a target is.

    Attributes:
        number: how many operations of the trace were run before this one.
        action: the kind of operation, for example "free"; "reclaim" too where a step in flight has completed.
        operation: the operation with the ids that it meant, for people.
        difference: what they disagree about.
        why: more words, for example the target's reason for a refusal.
    """

    def __init__(self, number: int, action: str, operation: str, difference: Difference, why: str = "") -> None:
        super().__init__(number, action, operation, difference, why)
        self.number = number
        self.action = action
        self.operation = operation
        self.difference = difference
        self.why = why

    @property
    def signature(self) -> tuple[str, str]:
        """What makes two divergences the same failure: the kind of operation and the field."""
        return self.action, self.difference.field

    def __str__(self) -> str:
        d = self.difference
        slots = f" at slots {list(d.slots)}" if d.slots else ""
        theorem = f"{d.theorem}: " if d.theorem else ""
        why = f" ({self.why})" if self.why else ""
        return (
            f"{theorem}operation {self.number}, {self.operation}: {d.field}{slots}: "
            f"the target has {d.target!r}, the spec {d.spec!r}{why}"
        )

    def plain(self) -> dict[str, Any]:
        """The divergence for JSON."""
        d = self.difference
        return {
            "step": self.number,
            "action": self.action,
            "operation": self.operation,
            "field": d.field,
            "slots": list(d.slots),
            "target_value": d.target if isinstance(d.target, int | list) else str(d.target),
            "spec_value": d.spec if isinstance(d.spec, int | list) else str(d.spec),
            "theorem": d.theorem,
            "why": self.why,
        }
