"""A state whose ghosts are left out: what is no ghost changes as it would with them."""

from __future__ import annotations

import random

import pytest

from poolproof.proofs.arguments import allowed
from poolproof.proofs.buffer import SUBJECT as BUFFER
from poolproof.proofs.checkpoint import SMALL as STATES
from poolproof.proofs.checkpoint import SUBJECT as CHECKPOINT
from poolproof.proofs.schedule import SMALL, SUBJECT
from poolproof.spec.language import Refused
from poolproof.spec.language.state import nested_sizes


@pytest.mark.parametrize(
    ("subject", "sizes"),
    [(SUBJECT, SMALL), (BUFFER, BUFFER.explore_sizes[0]), (CHECKPOINT, STATES)],
    ids=["schedule", "buffer", "checkpoint"],
)
def test_a_walk_is_the_same_without_ghosts(subject: object, sizes: dict[str, object]) -> None:
    spec, draw = subject.spec, random.Random(4)  # type: ignore[attr-defined]
    state = spec.initial(**nested_sizes(sizes))
    bare = state.without_ghosts()
    assert bare.key() == state.key()
    taken = 0
    for _ in range(400):
        item = draw.choice(spec.actions)
        with spec.active():
            choices = list(allowed(spec, item, state))
        if not choices:
            continue
        arguments = draw.choice(choices)
        item.function(state, *arguments)
        item.function(bare, *arguments)
        taken += 1
        assert bare.key() == state.key(), (item.name, arguments)
    assert taken >= 50


def test_guards_refuse_the_same_without_ghosts() -> None:
    state = SUBJECT.spec.initial(**nested_sizes(SMALL))
    for one in (state, state.without_ghosts()):
        with pytest.raises(Refused):
            SUBJECT.spec.action("let_go").function(one, 0, 1)


def test_ghosts_take_no_writes_and_read_as_zero() -> None:
    bare = SUBJECT.spec.initial(**nested_sizes(SMALL)).without_ghosts()
    bare.device[3] = 7
    bare.device.relabel(lambda b: 9)
    assert bare.device[3] == 0
    assert bare.copy().device[3] == 0
    assert bare.buffer.tenancy[0, 1] == 0
