"""A small spec that is right, as text, so that tests can plant faults in it."""

from __future__ import annotations

HEAD = '''\
"""Lockers, made for one test."""

from __future__ import annotations

from poolproof.proofs.subject import Subject, Twin
from poolproof.spec.language import *


class Locker(Id):
    """A locker, 0 <= locker < total."""


class Person(Id):
    """Anybody from 0 up."""


class Use(Enumeration):
    """Is a locker in use?"""

    FREE = 0
    TAKEN = 1


NOBODY = Person(-1)


class Lockers(State):
    """Who has which locker."""

    total: Size[Locker]
    use: Map[Locker, Use]
    person: Map[Locker, Person]
    turns: Ghost[Map[Locker, Int]]
    free: Roster[Locker]
    taken: Int
'''

CREATE = '''

@initial
def create(lockers: Lockers) -> None:
    """Every locker is free."""
    lockers.use.relabel(lambda locker: Use.FREE)
    lockers.person.relabel(lambda locker: NOBODY)
    lockers.turns.relabel(lambda locker: 0)
    lockers.free.fill(Locker(0), lockers.total)
    lockers.taken = 0
'''

ACTIONS = '''

@action
def take(lockers: Lockers, person: Person, locker: Chosen[Locker]) -> None:
    """A person takes a free locker."""
    require(person > NOBODY)
    require(lockers.all(Locker).has(locker))
    require(lockers.use[locker] == Use.FREE)
    lockers.use[locker] = Use.TAKEN
    lockers.person[locker] = person
    lockers.free.remove(locker)
    lockers.taken += 1


@action
def leave(lockers: Lockers, person: Person, locker: Locker) -> None:
    """A person gives a locker back."""
    require(lockers.all(Locker).has(locker))
    require(lockers.use[locker] == Use.TAKEN)
    require(lockers.person[locker] == person)
    lockers.use[locker] = Use.FREE
    lockers.person[locker] = NOBODY
    lockers.turns[locker] += 1
    lockers.free.add(locker)
    lockers.taken -= 1


@action
def clear(lockers: Lockers) -> None:
    """Everybody leaves."""
    lockers.turns.relabel(lambda l: lockers.turns[l] + 1, where=lambda l: lockers.use[l] == Use.TAKEN)
    lockers.use.relabel(lambda locker: Use.FREE)
    lockers.person.relabel(lambda locker: NOBODY)
    lockers.free.fill(Locker(0), lockers.total)
    lockers.taken = 0


take_batch = batch(take, over="locker", doc="All of these lockers, or none.")
'''

CLAIMS = '''

@invariant("L1")
def free_lockers_are_listed(lockers: Lockers) -> Bool:
    """L1: the list of free lockers holds exactly those that are not in use."""
    return forall(lockers.all(Locker), lambda l: iff(lockers.free.has(l), lockers.use[l] == Use.FREE))


@invariant("L1")
def exactly_the_taken_lockers_have_a_person(lockers: Lockers) -> Bool:
    """L1: a locker names a person exactly while it is in use."""
    return forall(
        lockers.all(Locker),
        lambda l: ite(
            lockers.use[l] == Use.TAKEN, lambda: lockers.person[l] > NOBODY, lambda: lockers.person[l] == NOBODY
        ),
    )


@invariant("L2")
def taken_lockers_are_counted(lockers: Lockers) -> Bool:
    """L2: the count is the number of lockers in use."""
    return counts(lockers.taken, lockers.all(Locker), lambda l: lockers.use[l] == Use.TAKEN)


@theorem("L3")
def only_the_person_can_leave(lockers: Lockers, person: Person, locker: Locker) -> Bool:
    """L3: whoever does not have the locker cannot give it back."""
    return implies(
        or_(
            not_(lockers.all(Locker).has(locker)),
            lambda: lockers.person[locker] != person,
            lambda: lockers.use[locker] != Use.TAKEN,
        ),
        lambda: not_(enabled(leave, lockers, person, locker)),
    )


@theorem("L4")
def a_free_locker_can_be_taken(lockers: Lockers, person: Person) -> Bool:
    """L4: a positive count of free lockers can be used up."""
    return implies(
        and_(person > NOBODY, lockers.free.size > 0),
        lambda: exists(
            lockers.all(Locker),
            lambda locker: enabled(take, lockers, person, locker),
            witness=lambda: lockers.free.pick(),
        ),
    )


@step("L5")
def a_change_of_hands_goes_through_free(pre: Lockers, post: Lockers) -> Bool:
    """L5: nobody gets a locker that somebody has; every end of a use is counted."""
    return forall(
        pre.all(Locker),
        lambda l: implies(
            pre.use[l] == Use.TAKEN,
            lambda: or_(
                and_(post.person[l] == pre.person[l], post.turns[l] == pre.turns[l]),
                and_(post.use[l] == Use.FREE, post.turns[l] == pre.turns[l] + 1),
            ),
        ),
    )


@define
def others_stay(pre: Lockers, post: Lockers, locker: Locker) -> Bool:
    """Every other locker is as it was."""
    return forall(
        pre.all(Locker),
        lambda l: or_(
            l == locker,
            and_(pre.use[l] == post.use[l], pre.person[l] == post.person[l], pre.turns[l] == post.turns[l]),
        ),
    )


@ensures(take, "L6")
def a_take_gives_the_locker(pre: Lockers, post: Lockers, person: Person, locker: Locker) -> Bool:
    """L6: a free locker goes to the person, and nothing else changes."""
    return and_(
        pre.use[locker] == Use.FREE,
        post.use[locker] == Use.TAKEN,
        post.person[locker] == person,
        post.turns[locker] == pre.turns[locker],
        others_stay(pre, post, locker),
    )


@ensures(leave, "L6")
def a_leave_frees_the_locker(pre: Lockers, post: Lockers, person: Person, locker: Locker) -> Bool:
    """L6: the person had the locker; it is free, and nothing else changes."""
    return and_(
        pre.person[locker] == person,
        post.use[locker] == Use.FREE,
        others_stay(pre, post, locker),
    )


@ensures(clear, "L6")
def a_clear_frees_everything(pre: Lockers, post: Lockers) -> Bool:
    """L6: every locker is free; a locker that was not in use has had no further turn."""
    return forall(
        post.all(Locker),
        lambda l: and_(
            post.use[l] == Use.FREE,
            or_(pre.use[l] == Use.TAKEN, pre.turns[l] == post.turns[l]),
        ),
    )


@ensures(create, "L6")
def a_new_set_of_lockers_is_free(pre: Lockers, post: Lockers) -> Bool:
    """L6: whatever was there before, every locker is free and has had no turn."""
    return forall(post.all(Locker), lambda l: and_(post.use[l] == Use.FREE, post.turns[l] == 0))
'''

SPEC = """

SPEC = Specification("lockers", Lockers, {"total": 1}, {Person: (NOBODY, Person(0), Person(1))})
"""

TWINS = '''

@variant(leave)
def leave_by_anybody(lockers: Lockers, person: Person, locker: Locker) -> None:
    """Nobody asks who comes."""
    require(lockers.all(Locker).has(locker))
    require(lockers.use[locker] == Use.TAKEN)
    lockers.use[locker] = Use.FREE
    lockers.person[locker] = NOBODY
    lockers.turns[locker] += 1
    lockers.free.add(locker)
    lockers.taken -= 1


@variant(take)
def take_with_one_to_spare(lockers: Lockers, person: Person, locker: Chosen[Locker]) -> None:
    """The last free locker cannot be had."""
    require(person > NOBODY)
    require(lockers.all(Locker).has(locker))
    require(lockers.use[locker] == Use.FREE)
    require(lockers.free.size > 1)
    lockers.use[locker] = Use.TAKEN
    lockers.person[locker] = person
    lockers.free.remove(locker)
    lockers.taken += 1


TWINS = (
    Twin("made-up#1", "Anybody's locker is emptied.", "leave", leave_by_anybody, ("only_the_person_can_leave",)),
    Twin("made-up#2", "The last one is refused.", "take", take_with_one_to_spare, ("a_free_locker_can_be_taken",)),
)
'''

SUBJECT = """

SUBJECT = Subject(
    SPEC,
    twins=TWINS,
    mutant_sizes=({"total": 2}, {"total": 1}),
    explore_sizes=({"total": 2},),
    explore_limit=200,
    implied={
        "*/*_is_a_bijection": "a roster changes only through its own operations",
        "init/is_well_defined": "it fills within its size, and reads nothing",
        "clear/is_well_defined": "it fills within its size, and reads every table where it is",
        "take/a_change_of_hands_goes_through_free": "it only touches lockers that nobody has",
    },
    ref=f"{__name__}:SUBJECT",
)
"""

LOCKERS = HEAD + CREATE + ACTIONS + CLAIMS + SPEC + TWINS + SUBJECT


def planted(old: str, new: str, text: str = LOCKERS) -> str:
    """The text with one fault in it."""
    assert old in text, f"nothing to replace: {old}"
    return text.replace(old, new, 1)


def with_more(more: str) -> str:
    """The text with some more spec functions."""
    return HEAD + CREATE + ACTIONS + CLAIMS + "\n\n" + more.strip() + "\n" + SPEC + TWINS + SUBJECT


_LAST_GUARD = "    require(lockers.use[locker] == Use.TAKEN)\n"
WITH_A_HARMLESS_TWIN = planted(
    TWINS, TWINS.replace(_LAST_GUARD, _LAST_GUARD + "    require(lockers.person[locker] == person)\n", 1)
)
