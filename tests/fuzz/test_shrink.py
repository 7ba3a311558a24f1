"""Traces are cut down with Hypothesis, and without it."""

from __future__ import annotations

import pytest

from poolproof.fuzz import shrink as shrinking
from poolproof.fuzz.loading import load_target
from poolproof.fuzz.operations import Alloc, Clear, Free, OpenGroup, Pick, PickKind
from poolproof.fuzz.runs import run_trace
from poolproof.fuzz.shrink import leave_out_chunks, shrink
from poolproof.fuzz.traces import Header, Trace

NOISE = (Alloc(n=3, holder=1), OpenGroup(n=2), Clear(), Alloc(n=2, holder=2), Free(picks=(Pick(PickKind.MINE),)))
FAILING = Free(picks=(Pick(PickKind.MINE, 3), Pick(PickKind.DUPLICATE, 2)), holder=1)
LONG = Trace(
    Header(target="canary-duplicate-in-batch", sizes={"": 40}), (*NOISE * 12, Alloc(n=7, holder=1), FAILING, *NOISE)
)


@pytest.mark.parametrize("installed", [True, False])
def test_a_long_trace_becomes_the_two_operations_that_matter(installed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not installed:
        monkeypatch.setattr(shrinking, "find_spec", lambda name: None)
    target = load_target("canary-duplicate-in-batch")
    found = run_trace(target, LONG).divergence
    assert found is not None
    short, divergence = shrink(target, LONG, found)
    assert [type(op) for op in short.operations] == [Alloc, Free]
    assert short.slots < 40
    assert divergence.is_like(found)
    assert short.header.step == divergence.number == 2
    assert short.header.message == str(divergence)
    if installed:
        assert short.operations[0] == Alloc(n=1)


def test_chunks_are_left_out_until_every_operation_is_needed() -> None:
    def fails(trace: Trace) -> bool:
        return sum(type(op) is Clear for op in trace.operations) >= 2

    assert leave_out_chunks(LONG, fails).operations == (Clear(), Clear())
