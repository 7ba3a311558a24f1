"""A batch is all of its single steps in turn, or none of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from types import ModuleType
from typing import Any

import depot
import pytest
from differential import Chance

from poolproof.proofs.lowered import observed
from poolproof.spec.language import Refused, SpecError, batch

Function = Callable[..., ModuleType]


def outcome(step: Callable[..., Any], state: Any, *arguments: Any) -> tuple[bool, dict[str, Any]]:
    """Was it allowed, and what is the state after it?"""
    try:
        step(state, *arguments)
    except Refused:
        return False, observed(state)
    return True, observed(state)


@pytest.mark.parametrize("made", depot.SPEC.batches, ids=lambda made: made.name)
def test_a_batch_is_its_fold_or_nothing(made: Any) -> None:
    chance, seen = Chance(depot.SPEC, 31), Counter[bool]()
    for trial in range(400):
        state = chance.state({"crates": 4, "bays": 2})
        state.is_full.relabel(lambda bay: chance.draw.random() < 0.2)
        state.weight.relabel(lambda crate: 0)  # so that no bay is full after a step: the facts hold of these states
        state.low, state.high = 0, 0
        state.bay.relabel(lambda crate: 0)
        items = [chance.value(state, depot.Crate) for _ in range(chance.draw.randrange(4))]
        shared = [0] if made.name == "stow_batch" else []
        before, folded = observed(state), state.copy()
        allowed, after = outcome(made, state, items, *shared)
        fold_allowed, fold_after = outcome(made.fold, folded, items, *shared)
        seen[allowed] += 1
        if not allowed:
            assert after == before, f"seed 31, trial {trial}: {items} was refused and changed the state"
        elif fold_allowed:
            assert after == fold_after, f"seed 31, trial {trial}: {items}"
        if made.name == "seal_batch":
            assert allowed is fold_allowed, f"seed 31, trial {trial}: {items}"
    assert min(seen.values()) > 20


def test_a_repeated_item_is_refused() -> None:
    state = depot.SPEC.initial(crates=3, bays=1)
    with pytest.raises(Refused, match="seal_batch: an item occurs twice"):
        depot.seal_batch(state, [1, 2, 1])
    assert state.sealed == set()


def test_an_empty_batch_changes_nothing() -> None:
    state = depot.SPEC.initial(crates=3, bays=1)
    before = observed(state)
    depot.seal_batch(state, [])
    assert observed(state) == before


def test_a_batch_is_over_a_parameter_of_its_action() -> None:
    with pytest.raises(SpecError, match="seal has no parameter 'box' to batch over"):
        batch(depot.seal, over="box", doc="Nonsense.")


def test_a_batch_is_of_a_spec_function() -> None:
    with pytest.raises(SpecError, match="is not a registered spec function"):
        batch(observed, over="state", doc="Nonsense.")


def test_the_other_item_of_a_fact_has_a_name_of_its_own(function: Function) -> None:
    """A shared parameter may be called `other`; the facts are then still about any two items."""
    made = function(
        "action",
        """
        require(pool.all(Slot).has(slot))
        require(pool.all(Slot).has(other))
        pool.kind[slot] = Kind.USED
        """,
        tail="""

act_batch = batch(act, over="slot", doc="Nonsense.")
SPEC = Specification("pool", Pool, {"total": 1}, {Holder: (Holder(0), Holder(1))})
""",
    )
    for fact in made.SPEC.batches[0].facts():
        names = [p.name for p in fact.parameters]
        assert len(set(names)) == len(names) == 5
        assert fact.parameters[-1].sort is made.Slot
