"""A small spec over a product: it lends what another spec's stacks hold, and performs that spec's actions."""

from __future__ import annotations

import stacks
from stacks import Box, Clerk, Shelf, Stacks

from poolproof.spec.language import (
    Bool,
    Id,
    Int,
    Map,
    Set,
    Size,
    Specification,
    State,
    action,
    after,
    and_,
    assumption,
    enabled,
    forall,
    implies,
    initial,
    invariant,
    not_,
    perform,
    require,
    step,
    theorem,
)

take, open_up, sweep, write, refill_all, wipe = (
    stacks.take,
    stacks.open_up,
    stacks.sweep,
    stacks.write,
    stacks.refill_all,
    stacks.wipe,
)


class Patron(Id):
    """Whoever borrows."""


class Annex(State):
    """The product."""

    stacks: Stacks
    patrons: Size[Patron]
    debt: Map[Patron, Int]
    lent: Map[Patron, Set[tuple[Shelf, Box]]]
    visits: Int


@assumption
def there_is_a_patron(annex: Annex) -> Bool:
    """Somebody comes."""
    return annex.patrons > 0


@initial
def open_annex(annex: Annex) -> None:
    """Nobody owes anything."""
    perform(open_up, annex.stacks)
    annex.debt.relabel(lambda patron: 0)
    annex.lent.empty()
    annex.visits = 0


@action
def lend(annex: Annex, patron: Patron, shelf: Shelf, box: Box, clerk: Clerk) -> None:
    """Guards and effects around those of the component."""
    require(annex.all(Patron).has(patron))
    require(annex.visits < 4)
    old = annex.debt[patron]
    perform(take, annex.stacks, shelf, box, clerk)
    annex.debt[patron] = old + annex.stacks.weight[shelf] + annex.stacks.taken[shelf]
    annex.lent[patron] = annex.stacks.reads[clerk].with_((shelf, box))
    annex.visits += 1


@action
def tidy(annex: Annex, patron: Patron, clerk: Clerk) -> None:
    """What the component's guards ask for is asked here too, and its effects are seen by those that follow."""
    require(not_(annex.lent[patron].disjoint(annex.stacks.loans)))
    perform(sweep, annex.stacks, clerk)
    annex.debt.relabel(lambda p: annex.stacks.total, where=lambda p: p != patron)


@action
def note(annex: Annex, patron: Patron, box: Box) -> None:
    """Arguments that are worked out, and a component of which no more than one field changes."""
    perform(write, annex.stacks, Shelf(0), box + 1, annex.debt[patron] * 2)
    annex.visits = annex.visits - 1


@action
def restock(annex: Annex, shelf: Shelf, box: Box) -> None:
    """A component's action without guards, ill defined for bad boxes."""
    perform(refill_all, annex.stacks, shelf, box)


@action
def close(annex: Annex, clerk: Clerk) -> None:
    """Nothing but the component's action, and one effect."""
    perform(wipe, annex.stacks, clerk)
    annex.lent.empty()


@action
def leave(annex: Annex, patron: Patron) -> None:
    """The component stays as it is."""
    require(annex.all(Patron).has(patron))
    annex.lent[patron] = annex.lent[patron].minus(annex.stacks.loans)


@invariant("A1")
def what_is_lent_is_out(annex: Annex) -> Bool:
    """A1: over a product."""
    return forall(annex.all(Patron), lambda p: forall(annex.lent[p], lambda k, i: annex.stacks.loans.has((k, i))))


@theorem("A2")
def a_loan_is_noted(annex: Annex, patron: Patron, shelf: Shelf, box: Box, clerk: Clerk) -> Bool:
    """A2: an action that performs another, inside a claim."""
    return implies(
        enabled(lend, annex, patron, shelf, box, clerk),
        lambda: and_(
            enabled(take, annex.stacks, shelf, box, clerk),
            after(lend, annex, patron, shelf, box, clerk).stacks.taken[shelf] == annex.stacks.taken[shelf] + 1,
            after(lend, annex, patron, shelf, box, clerk).stacks.loans.has((shelf, box)),
            not_(enabled(lend, after(lend, annex, patron, shelf, box, clerk), patron, shelf, box, clerk)),
        ),
    )


@step("A3")
def weights_stay(pre: Annex, post: Annex) -> Bool:
    """A3: over the component of two states."""
    return and_(
        forall(pre.stacks.all(Shelf), lambda k: pre.stacks.weight[k] == post.stacks.weight[k]),
        pre.visits <= post.visits,
    )


SPEC = Specification(name="annex", state=Annex, at_least={"patrons": 1}, components={"stacks": stacks.SPEC})
