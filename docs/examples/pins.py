"""Pages that readers pin: a page with pins may not be evicted."""

from poolproof.proofs.subject import Subject, Twin
from poolproof.spec.language import (
    Bool,
    Id,
    Int,
    Map,
    Size,
    Specification,
    State,
    action,
    and_,
    counts,
    enabled,
    ensures,
    forall,
    implies,
    initial,
    invariant,
    ite,
    require,
    theorem,
    variant,
)


class Page(Id):
    """A page, 0 <= page < total."""


class Pins(State):
    """How often each page is pinned, and how many pages are pinned at all."""

    total: Size[Page]
    pins: Map[Page, Int]
    pinned: Int


@initial
def create(pool: Pins) -> None:
    """Nothing is pinned."""
    pool.pins.relabel(lambda page: 0)
    pool.pinned = 0


@action
def pin(pool: Pins, page: Page) -> None:
    """One more reader needs the page."""
    require(pool.all(Page).has(page))
    pool.pinned += ite(pool.pins[page] == 0, 1, 0)
    pool.pins[page] += 1


@action
def unpin(pool: Pins, page: Page) -> None:
    """One reader is done with the page."""
    require(pool.all(Page).has(page))
    require(pool.pins[page] > 0)
    pool.pinned -= ite(pool.pins[page] == 1, 1, 0)
    pool.pins[page] -= 1


@invariant("I13")
def pins_are_never_negative(pool: Pins) -> Bool:
    """I13: no page is unpinned more often than it was pinned."""
    return forall(pool.all(Page), lambda page: pool.pins[page] >= 0)


@invariant("I21")
def pinned_pages_are_counted(pool: Pins) -> Bool:
    """I21: the count of pinned pages is their number."""
    return counts(pool.pinned, pool.all(Page), lambda page: pool.pins[page] > 0)


@ensures(pin, "I13")
def a_pin_holds(pre: Pins, post: Pins, page: Page) -> Bool:
    """I13: each pin is one pin."""
    return post.pins[page] == pre.pins[page] + 1


@ensures(unpin, "I13")
def an_unpin_releases_one_pin(pre: Pins, post: Pins, page: Page) -> Bool:
    """I13: release exactly what was acquired."""
    return post.pins[page] == pre.pins[page] - 1


@theorem("I13")
def what_is_pinned_can_be_unpinned(pool: Pins, page: Page) -> Bool:
    """I13, the other side: a reader who holds a pin is never refused."""
    return implies(
        and_(pool.all(Page).has(page), lambda: pool.pins[page] > 0),
        lambda: enabled(unpin, pool, page),
    )


SPEC = Specification(name="pins", state=Pins, at_least={"total": 0})


@variant(unpin)
def unpin_without_asking(pool: Pins, page: Page) -> None:
    """Two sites both unpin: the count goes below zero."""
    require(pool.all(Page).has(page))
    pool.pinned -= ite(pool.pins[page] == 1, 1, 0)
    pool.pins[page] -= 1


SUBJECT = Subject(
    spec=SPEC,
    twins=(
        Twin(
            fault="LMCache#1034",
            story="Retrieval and clean-up both unpin an object; its pin count ends below zero.",
            action="unpin",
            function=unpin_without_asking,
            refutes=("pins_are_never_negative",),
        ),
    ),
    mutant_sizes=({"total": 2},),
    explore_sizes=({"total": 2},),
    ref="pins:SUBJECT",
)

FAULTY = SPEC.with_body(SPEC.action("unpin"), unpin_without_asking)
