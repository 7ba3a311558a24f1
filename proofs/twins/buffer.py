"""Planted faults of spec/buffer.py. Each body is ours; the mechanism is that of the report named beside it."""

from __future__ import annotations

from poolproof.proofs.subject import Twin

TWINS: tuple[Twin, ...] = ()
