"""Operations, whole traces and parts of a trace through Hypothesis, which can make what fails small."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from hypothesis import strategies as st

from poolproof.fuzz.generate import draw_operation, draw_schedule, draw_slots, draw_swarm
from poolproof.fuzz.operations import AnyOperation, Pick
from poolproof.fuzz.targets import Profile
from poolproof.fuzz.traces import Header, Trace

_DRAWS: Final[dict[int, st.SearchStrategy[int]]] = {}


class HypothesisSource:
    """Choices of a Hypothesis example.

    Args:
        draw: what `st.composite` passes.
    """

    def __init__(self, draw: Callable[[st.SearchStrategy[int]], int]) -> None:
        self._draw = draw

    def below(self, n: int) -> int:
        """An integer 0 <= i < n that shrinks towards 0."""
        return self._draw(_DRAWS.setdefault(n, st.integers(0, n - 1)))


@st.composite
def traces(draw: st.DrawFn, target: str, profile: Profile, most: int = 40) -> Trace:
    """Whole runs of at most this many operations."""
    source = HypothesisSource(draw)
    swarm = draw_swarm(source, profile)
    header = Header(target=target, sizes={"": draw_slots(source)}, schedule=draw_schedule(source))
    operations = [draw_operation(source, swarm) for _ in range(source.below(most + 1))]
    return Trace(header, tuple(operations))


@st.composite
def parts_of(draw: st.DrawFn, trace: Trace) -> Trace:
    """A trace less some of its operations; nearly all of them are kept in most examples."""
    rare = 8 * max(8, len(trace.operations))
    kept = [op for op in trace.operations if draw(st.integers(0, rare))]
    return trace.with_(kept)


@st.composite
def plainer_than(draw: st.DrawFn, trace: Trace) -> Trace:
    """A trace with smaller numbers and shorter batches; most numbers are kept in most examples."""
    return trace.with_([_plainer(draw, op) for op in trace.operations])


def _plainer(draw: st.DrawFn, operation: AnyOperation) -> AnyOperation:
    values: dict[str, Any] = {name: getattr(operation, name) for name in operation.__struct_fields__}
    for name, value in values.items():
        if name == "picks":
            kept = [pick for pick in value if draw(_LEVELS)]
            values[name] = tuple(Pick(pick.kind, _less(draw, pick.k)) for pick in kept)
        elif type(value) is int and value > 0:
            values[name] = _less(draw, value)
    return type(operation)(**values)


_LEVELS: Final = st.integers(0, 255)


def _less(draw: st.DrawFn, value: int) -> int:
    return min(value, draw(_LEVELS)) if value else 0
