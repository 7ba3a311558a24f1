"""The arguments of a small instance: found parameter by parameter, they are those that trying them all would find."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from lockers_text import LOCKERS, planted

from poolproof.proofs.arguments import allowed, argument_tuples, largest, values, worth_asking
from poolproof.proofs.buffer import CHAIN
from poolproof.proofs.buffer import SUBJECT as BUFFER
from poolproof.proofs.schedule import SUBJECT as SCHEDULE
from poolproof.proofs.slots import SUBJECT as SLOTS
from poolproof.proofs.subject import Subject
from poolproof.spec.buffer import Byte, Page, SubPool, Virtual
from poolproof.spec.language import IllDefined, Refused
from poolproof.spec.schedule import Lease, Step, Stream

SUBJECTS = (SLOTS, BUFFER, SCHEDULE)
ACTIONS = [(subject, item) for subject in SUBJECTS for item in subject.spec.actions]
THEOREMS = [(subject, claim) for subject in SUBJECTS for claim in subject.spec.theorems]
MOST = 3_000

Make = Callable[[str], Any]


def label(value: Any) -> str:
    return value.name if isinstance(value, Subject) else str(value.name)


def sizes_of(subject: Subject) -> dict[str, Any]:
    """An instance in which every action can happen: for the schedule, one with a float."""
    if subject is not SCHEDULE:
        return subject.mutant_sizes[0]
    return {**{f"buffer.{name}": size for name, size in CHAIN.items()}, "steps": 2, "leases": 1}


def walk(subject: Subject, draw: random.Random) -> Iterator[Any]:
    """States that can be reached, found by trying arguments; of three actions the one taken less often goes first."""
    first = state = subject.spec.initial(**sizes_of(subject))
    usual = [a for a in subject.spec.actions if a.name not in ("clear", "close_gate", "lease_page", "let_go_later")]
    taken = Counter[str]()
    for steps in itertools.count(1):
        drawn = draw.choices(usual if draw.random() < 0.9 else subject.spec.actions, k=3)
        for item in sorted(drawn, key=lambda item: taken[item.name]):
            arguments = some_good(subject, item, state, draw)
            if arguments is not None:
                state = state.copy()
                item.effects(state, *arguments)
                taken[item.name] += 1
                break
        yield state
        state = first if steps % 150 == 0 else state


def some_good(subject: Subject, item: Any, state: Any, draw: random.Random) -> tuple[Any, ...] | None:
    """Some arguments that pass, found by trying all."""
    every = list(argument_tuples(subject.spec, state, item.parameters))
    draw.shuffle(every)
    return next((arguments for arguments in every if passes(item, state, arguments)), None)


def states(subject: Subject, about: str, count: int) -> list[Any]:
    """Some states that can be reached."""
    found = {state.key(): state for state in itertools.islice(walk(subject, random.Random(about)), 8 * count)}
    return random.Random(about).sample(list(found.values()), min(count, len(found)))


def tried(subject: Subject, state: Any, parameters: Any, draw: random.Random) -> list[tuple[Any, ...]]:
    """All argument tuples, or very many of them where there are more than that."""
    every = [values(subject.spec, state, p) for p in parameters]
    if math.prod(map(len, every)) <= MOST:
        return list(itertools.product(*every))
    return list({tuple(draw.choice(choice) for choice in every) for _ in range(MOST)})


def passes(item: Any, state: Any, arguments: tuple[Any, ...]) -> bool:
    try:
        item.guards(state, *arguments)
    except (Refused, IllDefined):
        return False
    return True


@pytest.mark.parametrize(("subject", "item"), ACTIONS, ids=label)
def test_allowed_arguments_are_those_that_no_guard_refuses(subject: Subject, item: Any) -> None:
    draw, met = random.Random(item.name), {True: 0, False: 0}
    for state in itertools.islice(walk(subject, draw), 2_000):
        before = state.key(ghosts=True)
        found = list(allowed(subject.spec, item, state))
        assert len(found) == len(set(found))
        candidates = tried(subject, state, item.parameters, draw)
        assert {a for a in candidates if passes(item, state, a)} == set(found) & set(candidates)
        assert [a for a in found if not passes(item, state, a)] == []
        assert set(found) <= set(itertools.product(*(values(subject.spec, state, p) for p in item.parameters)))
        assert state.key(ghosts=True) == before
        met[bool(found)] += 1
        if met[True] >= 5 and sum(met.values()) >= 25:
            break
    assert met[True] >= 5, met


@pytest.mark.parametrize("subject", SUBJECTS, ids=label)
def test_a_refusal_comes_from_the_guard_that_says_no_first(subject: Subject) -> None:
    """Each guard that some arguments fail at is heard of, and no other one."""
    for item in subject.spec.actions:
        for state in states(subject, f"refusals of {item.name}", 3):
            refusals: list[Refused] = []
            expected = set()
            list(allowed(subject.spec, item, state, refused=refusals.append))
            for arguments in tried(subject, state, item.parameters, random.Random(0)):
                try:
                    item.guards(state, *arguments)
                except Refused as refusal:
                    expected.add(line(refusal))
            assert expected <= {line(refusal) for refusal in refusals}, item.name


def line(refusal: Refused) -> tuple[str, int]:
    """The innermost place in a spec where an action was refused."""
    frame, places = refusal.__traceback__, []
    while frame is not None:
        name = frame.tb_frame.f_code.co_filename
        if "/spec/" in name and "/language/" not in name:
            places.append((name, frame.tb_lineno))
        frame = frame.tb_next
    return places[-1]


def holds(claim: Any, state: Any, arguments: tuple[Any, ...]) -> bool:
    try:
        return bool(claim.function(state, *arguments))
    except IllDefined:
        return False


@pytest.mark.parametrize(("subject", "claim"), THEOREMS, ids=label)
def test_what_is_not_worth_asking_is_true(subject: Subject, claim: Any) -> None:
    """Nothing but what a false premise makes true is left out, also in states that no sound spec reaches."""
    draw = random.Random(claim.name)
    with subject.spec.active():
        for state in states(subject, claim.name, 4):
            asked = list(worth_asking(subject.spec, claim, state))
            assert len(asked) == len(set(asked))
            candidates = tried(subject, state, claim.parameters, draw)
            left_out = set(candidates) - set(asked)
            for arguments in draw.sample(sorted(left_out), min(250, len(left_out))):
                assert holds(claim, state, arguments), arguments


def test_a_claim_without_a_premise_is_asked_of_everything() -> None:
    claim = next(t for t in SLOTS.spec.theorems if t.name == "the_sink_is_never_handed_out")
    state = SLOTS.spec.initial(total=2)
    asked = list(worth_asking(SLOTS.spec, claim, state))
    assert asked == list(argument_tuples(SLOTS.spec, state, claim.parameters))
    fact = SLOTS.spec.batches[0].facts()[0]
    assert list(worth_asking(SLOTS.spec, fact, state)) == list(argument_tuples(SLOTS.spec, state, fact.parameters))


def test_a_false_premise_is_not_asked_again_for_every_further_argument() -> None:
    """Of the claim about a window with ids in it, in a new buffer: none."""
    claim = next(t for t in BUFFER.spec.theorems if t.name == "bytes_of_two_pages_never_overlap")
    state = BUFFER.spec.initial(**BUFFER.mutant_sizes[0])
    assert list(worth_asking(BUFFER.spec, claim, state)) == []


def test_sizes_are_found_in_components() -> None:
    state = SCHEDULE.spec.initial(**sizes_of(SCHEDULE))
    assert [largest(state, sort) for sort in (Step, Lease, SubPool, Page, Virtual, Byte)] == [2, 1, 3, 5, 3, 5]
    assert largest(state, Stream) is None
    assert largest(state.buffer, Step) is None


def test_every_id_is_tried_and_one_beyond_on_either_side(make: Make) -> None:
    spec = make(LOCKERS).SPEC
    person, locker = spec.action("take").parameters
    state = spec.initial(total=2)
    assert list(values(spec, state, locker)) == [-1, 0, 1, 2]
    assert list(values(spec, state, person)) == [-1, 0, 1]


def test_a_guard_that_reads_outside_a_table_is_told(make: Make) -> None:
    spec = make(planted("    require(lockers.all(Locker).has(locker))\n", "")).SPEC
    wrong: list[tuple[Any, ...]] = []
    found = list(allowed(spec, spec.action("take"), spec.initial(total=1), ill_defined=wrong.append))
    assert found == [(0, 0), (1, 0)]
    assert {arguments[1] for arguments in wrong} == {-1, 1}


def test_guards_are_asked_in_their_order_even_where_a_later_one_needs_less(make: Make) -> None:
    """A guard may read what the one before it has made sure of."""
    old = "    require(lockers.all(Locker).has(locker))\n"
    spec = make(planted(old, old + "    require(lockers.taken < 2)\n    require(person < Person(1))\n")).SPEC
    state = spec.initial(total=2)
    assert list(allowed(spec, spec.action("take"), state)) == [(0, 0), (0, 1)]
