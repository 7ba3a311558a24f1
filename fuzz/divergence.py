"""Where a target and the spec part: the report of a failure."""

from __future__ import annotations

from typing import Any

import msgspec


class Divergence(msgspec.Struct, frozen=True, kw_only=True):
    """The first difference between a target and the spec.

    Attributes:
        number: the operation of the trace, counted from 1; one past the last for the closing check of a run.
        operation: the call, with the ids that its picks meant.
        field: what differs: a field of the spec's state, "verdict" (one did what the other refuses), "ids" (what was
            handed out), "handle" (an id handed out earlier), "available", "check" or "crash".
        slots: the first few slots that differ; empty where the field is not a table.
        target: what the target has there.
        spec: what the spec has there.
        theorem: number of the violated invariant in the fault catalogue, such as I2.
        claim: name of the violated claim.
        note: more, in words; often the target's own.
    """

    number: int
    operation: str
    field: str
    slots: tuple[int, ...]
    target: Any
    spec: Any
    theorem: str
    claim: str
    note: str = ""

    def __str__(self) -> str:
        at = (
            f" of slot {self.slots[0]}"
            if len(self.slots) == 1
            else f" of slots {list(self.slots)}"
            if self.slots
            else ""
        )
        note = f" ({self.note})" if self.note else ""
        return (
            f"operation {self.number}, {self.operation}: {self.field}{at}: target {_shown(self.target)}, "
            f"spec {_shown(self.spec)}{note}; violates {self.theorem} {self.claim}"
        )

    def is_like(self, other: Divergence) -> bool:
        """Do both violate the same claim? That is what stays while a failing trace is cut down."""
        return (self.theorem, self.claim) == (other.theorem, other.claim)


def _shown(value: Any) -> str:
    if isinstance(value, list | tuple) and len(value) == 1:
        value = value[0]
    return value if isinstance(value, str) else repr(value)


class Diverged(Exception):
    """A target and the spec part."""

    def __init__(self, divergence: Divergence) -> None:
        super().__init__(str(divergence))
        self.divergence = divergence
