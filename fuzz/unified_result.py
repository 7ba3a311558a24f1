"""What a replay through a unified pool has shown."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from poolproof.errors import PoolError, SpecViolation
from poolproof.page_errors import BufferExhausted
from poolproof.violation import Violation


@dataclass
class UnifiedResult:
    """The figures of a replay.

    Attributes:
        model: its name.
        total_bytes: of the buffer.
        page_bytes: by sub-pool.
        shadow: whether the spec ran in lockstep, on pages of a few bytes.
        requests: requests of the trace.
        done: those that ran to their end.
        refusals: requests that not even an empty pool could hold.
        waits: requests that waited because there was no room for their peak demand.
        blocks: full blocks of the prompts of all requests that were admitted.
        hits: those of them that were taken over from the cache.
        evictions: blocks evicted.
        checkpoints: states donated to the cache.
        not_kept: states that were not donated because there was no room without breaking a promise.
        peak: most pages bound at once, by sub-pool.
        peak_bytes: most bytes bound at once, of all sub-pools together.
        compactions: copies of pages from one place to another, each of one sub-pool.
        urgent: those of them that made room for an allocation.
        moved: pages moved, by sub-pool.
        steps: virtual steps.
        most_running: most requests running at once.
        checks: how often the stored tables were tested against the invariants.
        seconds: how long it took.
        virtual_seconds: virtual time between the first arrival and the end of the last request.
        violations: the replay ends at the first.
    """

    model: str
    total_bytes: int
    shadow: bool
    page_bytes: dict[str, int] = field(default_factory=dict)
    requests: int = 0
    done: int = 0
    refusals: int = 0
    waits: int = 0
    blocks: int = 0
    hits: int = 0
    evictions: int = 0
    checkpoints: int = 0
    not_kept: int = 0
    peak: dict[str, int] = field(default_factory=dict)
    peak_bytes: int = 0
    compactions: int = 0
    urgent: int = 0
    moved: dict[str, int] = field(default_factory=dict)
    steps: int = 0
    most_running: int = 0
    checks: int = 0
    seconds: float = 0.0
    virtual_seconds: float = 0.0
    violations: list[Violation] = field(default_factory=list)

    @property
    def hit_rate(self) -> float:
        """The share of full prompt blocks that were taken over from the cache."""
        return self.hits / self.blocks if self.blocks else 0.0

    @property
    def passed(self) -> bool:
        """Nothing was violated, and every request that was not refused ran to its end."""
        return not self.violations and self.done + self.refusals == self.requests

    @property
    def peak_by_kind(self) -> dict[str, int]:
        """Most bytes bound at once, by sub-pool."""
        return {name: pages * self.page_bytes[name] for name, pages in self.peak.items()}

    def plain(self) -> dict[str, Any]:
        """The result for JSON."""
        plain: dict[str, Any] = {"verdict": "passed" if self.passed else "failed", "model": self.model}
        plain |= {"shadow": self.shadow, "bytes": self.total_bytes, "page_bytes": self.page_bytes}
        for name in ("requests", "done", "refusals", "waits", "blocks", "hits"):
            plain[name] = getattr(self, name)
        plain |= {"hit_rate": round(self.hit_rate, 6), "evictions": self.evictions}
        plain |= {"checkpoints": self.checkpoints, "checkpoints_not_kept": self.not_kept}
        plain |= {"peak_bytes": {**self.peak_by_kind, "together": self.peak_bytes}}
        plain |= {"compactions": self.compactions, "urgent_compactions": self.urgent}
        plain |= {"pages_moved": {**self.moved, "together": sum(self.moved.values())}}
        plain |= {"steps": self.steps, "most_running": self.most_running, "checks": self.checks}
        plain |= {"seconds": round(self.seconds, 3), "virtual_seconds": round(self.virtual_seconds, 3)}
        plain["violations"] = [{"theorem": v.theorem, "claim": v.name, "text": v.text} for v in self.violations]
        return plain


def violation_of(error: PoolError, step: int) -> Violation:
    """What it means that the pool raised, in this virtual step: the replay asks for nothing that may be refused."""
    text = f"step {step}: {error}"
    if isinstance(error, SpecViolation):
        return Violation("spec", error.field, text)
    if isinstance(error, BufferExhausted):
        return Violation("I4", "what_fits_is_to_be_had", text)
    return Violation("I11", "no_call_is_refused_without_a_cause", text)
