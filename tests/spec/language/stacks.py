"""A small spec of tables with several keys, tables of rosters and sets, and given fields. What it says is beside the
point.
"""

from __future__ import annotations

from poolproof.spec.language import (
    Bool,
    Chosen,
    Enumeration,
    Ghost,
    Given,
    Id,
    Int,
    Map,
    Roster,
    Set,
    Size,
    Specification,
    State,
    action,
    after,
    and_,
    assumption,
    between,
    counts,
    define,
    enabled,
    ensures,
    exists,
    forall,
    iff,
    implies,
    initial,
    invariant,
    ite,
    not_,
    or_,
    require,
    step,
    theorem,
)


class Shelf(Id):
    """A shelf, 0 <= shelf < shelves."""


class Box(Id):
    """A box of every shelf, 0 <= box < boxes."""


class Clerk(Id):
    """A clerk, 0 <= clerk < clerks."""


class Gram(Id):
    """A weight; there is no table of weights."""


class Material(Enumeration):
    """What a shelf is made of."""

    WOOD = 0
    STEEL = 1


class Stacks(State):
    """Every kind of table of tables, and every kind of given field."""

    shelves: Size[Shelf]
    boxes: Size[Box]
    clerks: Size[Clerk]
    weight: Given[Map[Shelf, Int]]
    material: Given[Map[Shelf, Material]]
    limit: Given[Int]
    front: Given[Box]
    is_cold: Given[Bool]
    label: Map[tuple[Shelf, Box], Int]
    keeper: Map[tuple[Shelf, Box], Clerk]
    trips: Ghost[Map[tuple[Clerk, Clerk, Box], Int]]
    free: Map[Shelf, Roster[Box]]
    out: Map[Shelf, Roster[Box]]
    queue: Map[tuple[Shelf, Clerk], Roster[Clerk]]
    watched: Map[Shelf, Set[Box]]
    reads: Map[Clerk, Set[tuple[Shelf, Box]]]
    loans: Set[tuple[Shelf, Box]]
    taken: Map[Shelf, Int]
    mass: Gram
    total: Int


# ------------------------------------------------------------------------------------------------------ definitions


@assumption
def shelves_carry_something(stacks: Stacks) -> Bool:
    """Every shelf has a weight, and the limit leaves room for it."""
    return forall(stacks.all(Shelf), lambda k: and_(stacks.weight[k] > 0, lambda: stacks.weight[k] <= stacks.limit))


@assumption
def the_front_is_a_place(stacks: Stacks) -> Bool:
    """Not before the first box."""
    return stacks.front >= Box(0)


@define
def is_box(stacks: Stacks, shelf: Shelf, box: Box) -> Bool:
    """Is there a shelf, and a box, of this number?"""
    return and_(stacks.all(Shelf).has(shelf), stacks.all(Box).has(box))


# --------------------------------------------------------------------------------------------------------- actions


@initial
def open_up(stacks: Stacks) -> None:
    """Every box is in its place."""
    stacks.label.relabel(lambda shelf, box: stacks.weight[shelf] * (box - Box(0)))
    stacks.keeper.relabel(lambda shelf, box: Clerk(-1))
    stacks.trips.relabel(lambda clerk, other, box: 0)
    stacks.free.fill(lambda shelf: Box(0), lambda shelf: stacks.boxes)
    stacks.out.empty()
    stacks.queue.empty()
    stacks.watched.empty()
    stacks.reads.empty()
    stacks.loans = stacks.loans.none()
    stacks.taken.relabel(lambda shelf: 0)
    stacks.mass = Gram(0)
    stacks.total = 0


@action
def write(stacks: Stacks, shelf: Shelf, box: Box, amount: Int) -> None:
    """A table written at one key of two parts; products with given tables."""
    require(is_box(stacks, shelf, box))
    require(or_(stacks.is_cold, stacks.label[shelf, box] < stacks.limit))
    stacks.label[shelf, box] = amount * stacks.weight[shelf] + stacks.label[shelf, stacks.front]
    stacks.mass = Gram(0) + stacks.weight[shelf] * amount
    stacks.total = ite(stacks.material[shelf] == Material.WOOD, stacks.total + 1, stacks.limit)


@action
def write_blindly(stacks: Stacks, shelf: Shelf, box: Box) -> None:
    """Ill defined where either part of the key is outside."""
    stacks.label[shelf, box] += 1
    stacks.keeper[shelf, box + 1] = stacks.keeper[shelf, box]


@action
def swap(stacks: Stacks, shelf: Shelf, box: Box, other: Shelf, place: Box) -> None:
    """Two keys that agree in no part, in one, or in both."""
    require(is_box(stacks, shelf, box))
    require(is_box(stacks, other, place))
    kept = stacks.label[shelf, box]
    stacks.label[shelf, box] = stacks.label[other, place] + 10
    stacks.label[other, place] = kept
    stacks.keeper[shelf, place] = stacks.keeper[other, box]


@action
def relabel_row(stacks: Stacks, shelf: Shelf, box: Box) -> None:
    """Bulk updates over pairs: one row, one column, and by what the table holds."""
    require(is_box(stacks, shelf, box))
    stacks.label.relabel(lambda k, i: stacks.label[k, box] - 1, where=lambda k, i: k == shelf)
    stacks.keeper.relabel(lambda k, i: stacks.keeper[shelf, i], where=lambda k, i: stacks.label[k, i] > 0)
    stacks.trips.relabel(lambda a, b, i: stacks.trips[b, a, i] + stacks.label[shelf, i], where=lambda a, b, i: i <= box)
    stacks.taken.relabel(lambda k: stacks.label[k, box])


@action
def shift(stacks: Stacks) -> None:
    """A bulk update that leaves the table in its second part."""
    stacks.label.relabel(lambda k, i: stacks.label[k, i + 1], where=lambda k, i: i < stacks.front)


@action
def take(stacks: Stacks, shelf: Shelf, box: Chosen[Box], clerk: Clerk) -> None:
    """One member moves between rosters of two tables; sets of pairs grow."""
    require(is_box(stacks, shelf, box))
    require(stacks.all(Clerk).has(clerk))
    require(and_(stacks.free[shelf].has(box), not_(stacks.out[shelf].has(box))))
    stacks.free[shelf].remove(box)
    stacks.out[shelf].add(box)
    stacks.keeper[shelf, box] = clerk
    stacks.trips[clerk, Clerk(0), box] += 1
    stacks.loans = stacks.loans.with_((shelf, box))
    stacks.reads[clerk] = stacks.reads[clerk].with_((shelf, box)).without((shelf, stacks.front))
    stacks.taken[shelf] += 1


@action
def move_blindly(stacks: Stacks, shelf: Shelf, other: Shelf, box: Box) -> None:
    """Ill defined for bad places, for boxes that are no member, and for those that are one already."""
    stacks.out[shelf].remove(box)
    stacks.free[other].add(box)
    stacks.total = stacks.out[other].size + stacks.free[shelf].size * 10


@action
def merge(stacks: Stacks, shelf: Shelf, other: Shelf) -> None:
    """A roster takes over one of another table; ill defined where they share a member."""
    require(and_(stacks.all(Shelf).has(shelf), stacks.all(Shelf).has(other)))
    stacks.free[shelf].absorb(stacks.out[other])
    stacks.out[other].empty()


@action
def gather(stacks: Stacks, shelf: Shelf, other: Shelf) -> None:
    """A roster takes over one of the same table."""
    require(and_(stacks.all(Shelf).has(shelf), stacks.all(Shelf).has(other), shelf != other))
    stacks.out[shelf].absorb(stacks.out[other])
    stacks.taken[shelf] = stacks.out[shelf].size


@action
def refill(stacks: Stacks, shelf: Shelf, first: Box, past: Box) -> None:
    """One roster of a table is filled; ill defined unless the range is inside."""
    require(stacks.all(Shelf).has(shelf))
    stacks.out[shelf].fill(first, past)


@action
def refill_all(stacks: Stacks, shelf: Shelf, first: Box) -> None:
    """Bulk updates of rosters; ill defined where a range is not inside the table."""
    stacks.out.fill(
        lambda k: ite(k == shelf, first, Box(0)), lambda k: ite(stacks.weight[k] > 1, stacks.boxes, stacks.taken[k])
    )
    stacks.free.empty()


@action
def line_up(stacks: Stacks, shelf: Shelf, clerk: Clerk, other: Clerk) -> None:
    """Rosters in a table of two keys."""
    require(and_(stacks.all(Shelf).has(shelf), stacks.all(Clerk).has(clerk), stacks.all(Clerk).has(other)))
    require(not_(stacks.queue[shelf, clerk].has(other)))
    stacks.queue[shelf, clerk].add(other)
    stacks.total = stacks.queue[shelf, other].size


@action
def line_up_all(stacks: Stacks, clerk: Clerk) -> None:
    """A bulk update of rosters in a table of two keys."""
    stacks.queue.fill(lambda k, c: ite(c == clerk, Clerk(1), Clerk(0)), lambda k, c: stacks.clerks)


@action
def watch(stacks: Stacks, shelf: Shelf, other: Shelf, box: Box) -> None:
    """Sets in a table: each operation, on two of one table that may be the same."""
    require(stacks.all(Shelf).has(shelf))
    require(or_(not_(stacks.watched[shelf].has(box)), lambda: stacks.watched[other].disjoint(stacks.watched[shelf])))
    kept = stacks.watched[shelf]
    stacks.watched[shelf] = stacks.watched[other].join(kept).without(box)
    stacks.watched[other] = kept.minus(stacks.watched[other]).with_(box)


@action
def forget(stacks: Stacks, clerk: Clerk, other: Clerk) -> None:
    """Sets of pairs, plain ones and those in a table, assigned to one another."""
    require(stacks.all(Clerk).has(clerk))
    loans = stacks.loans
    stacks.loans = stacks.reads[clerk].minus(loans)
    stacks.reads[clerk] = loans.join(stacks.reads[other])
    stacks.reads[other] = stacks.reads[other].none()


@action
def copy_reads(stacks: Stacks, clerk: Clerk, other: Clerk) -> None:
    """A set of a table as a plain one, and back."""
    stacks.loans = stacks.reads[clerk]
    stacks.reads[other] = stacks.loans.with_((Shelf(0), stacks.front))


@action
def sweep(stacks: Stacks, clerk: Clerk) -> None:
    """Guards and bulk updates over sets of pairs."""
    require(stacks.all(Clerk).has(clerk))
    require(
        forall(
            stacks.reads[clerk],
            lambda k, i: and_(is_box(stacks, k, i), lambda: stacks.label[k, i] >= 0),
        )
    )
    stacks.label.relabel(lambda k, i: stacks.label[k, i] // 2, where=lambda k, i: stacks.loans.has((k, i)))
    stacks.total = ite(exists(stacks.loans, lambda k, i: stacks.reads[clerk].has((k, i))), 1, 0)


@action
def wipe(stacks: Stacks, clerk: Clerk) -> None:
    """Everything that can be emptied in bulk."""
    require(implies(stacks.all(Clerk).has(clerk), lambda: exists(stacks.reads[clerk], lambda k, i: i > Box(0))))
    stacks.watched.empty()
    stacks.reads.empty()
    stacks.queue.empty()
    stacks.out.empty()


# ---------------------------------------------------------------------------------------------------------- claims


@invariant("S1")
def taken_boxes_are_counted(stacks: Stacks) -> Bool:
    """S1: a count for every shelf."""
    return forall(
        stacks.all(Shelf),
        lambda k: counts(stacks.taken[k], stacks.all(Box), lambda i: stacks.keeper[k, i] >= Clerk(0)),
    )


@invariant("S1")
def labels_are_counted(stacks: Stacks) -> Bool:
    """S1: a count for every pair, over a range that may be the wrong way round."""
    return forall(
        stacks.all(Shelf),
        lambda k: forall(
            stacks.all(Clerk),
            lambda c: counts(
                stacks.queue[k, c].size,
                between(stacks.total, stacks.taken[k]),
                lambda n: exists(stacks.all(Box), lambda i: stacks.label[k, i] == n),
            ),
        ),
    )


@invariant("S2")
def no_box_is_in_two_places(stacks: Stacks) -> Bool:
    """S2: nested quantifiers over the rosters of two tables."""
    return forall(
        stacks.all(Shelf),
        lambda k: forall(stacks.all(Box), lambda i: not_(and_(stacks.free[k].has(i), stacks.out[k].has(i)))),
    )


@invariant("S2")
def reads_are_loans(stacks: Stacks) -> Bool:
    """S2: over the members of a set of pairs for every clerk."""
    return forall(
        stacks.all(Clerk),
        lambda c: forall(stacks.reads[c], lambda k, i: or_(stacks.loans.has((k, i)), i == stacks.front)),
    )


@theorem("S3")
def sets_are_as_they_say(stacks: Stacks, clerk: Clerk, shelf: Shelf, box: Box) -> Bool:
    """S3: every operation of sets of pairs; ill defined for clerks outside the table."""
    both = stacks.loans.join(stacks.reads[clerk])
    return and_(
        iff(both.has((shelf, box)), or_(stacks.loans.has((shelf, box)), stacks.reads[clerk].has((shelf, box)))),
        stacks.loans.minus(stacks.reads[clerk]).disjoint(stacks.reads[clerk]),
        both.with_((shelf, box)).has((shelf, box)),
        not_(both.without((shelf, box)).has((shelf, box))),
        not_(stacks.reads[clerk].none().has((shelf, box))),
        iff(
            stacks.loans.disjoint(stacks.reads[clerk]),
            not_(exists(stacks.loans, lambda k, i: stacks.reads[clerk].has((k, i)))),
        ),
    )


@theorem("S3")
def what_is_there_can_be_taken(stacks: Stacks, shelf: Shelf, clerk: Clerk) -> Bool:
    """S3: a witness out of a roster of a table; false where it is in two places."""
    return implies(
        and_(
            stacks.all(Shelf).has(shelf),
            lambda: stacks.free[shelf].size > 0,
            lambda: stacks.all(Clerk).has(clerk),
        ),
        lambda: exists(
            stacks.all(Box),
            lambda box: and_(
                enabled(take, stacks, shelf, box, clerk),
                lambda: after(take, stacks, shelf, box, clerk).reads[clerk].has((shelf, box)),
                lambda: after(take, stacks, shelf, box, clerk).label[shelf, box] == stacks.label[shelf, box],
            ),
            witness=lambda: stacks.free[shelf].pick(),
        ),
    )


@theorem("S4")
def a_look_outside(stacks: Stacks, shelf: Shelf, box: Box) -> Bool:
    """S4: ill defined where either part of the key is outside."""
    return or_(stacks.is_cold, lambda: stacks.label[shelf, box] > 1, lambda: stacks.watched[shelf].has(box))


@theorem("S4")
def heavy_things(stacks: Stacks, shelf: Shelf, amount: Int) -> Bool:
    """S4: arithmetic with given fields."""
    return implies(
        stacks.all(Shelf).has(shelf),
        lambda: or_(
            amount * stacks.weight[shelf] < stacks.limit,
            stacks.mass < Gram(0) + amount * 2,
            lambda: stacks.material[shelf] != Material.WOOD,
        ),
    )


@step("S5")
def labels_do_not_fall(pre: Stacks, post: Stacks) -> Bool:
    """S5: over the keys of a table of two in two states."""
    return forall(
        pre.all(Shelf),
        lambda k: forall(
            pre.all(Box),
            lambda i: implies(
                pre.free[k].has(i),
                lambda: or_(pre.label[k, i] <= post.label[k, i], post.out[k].has(i), post.loans.has((k, i))),
            ),
        ),
    )


@ensures(take, "S5")
def a_take_is_noted(pre: Stacks, post: Stacks, shelf: Shelf, box: Box, clerk: Clerk) -> Bool:
    """S5: a claim about two states and the arguments."""
    return and_(
        is_box(pre, shelf, box),
        lambda: post.keeper[shelf, box] == clerk,
        lambda: iff(post.reads[clerk].has((shelf, box)), box != pre.front),
        lambda: not_(post.free[shelf].has(box)),
        lambda: post.out[shelf].size == pre.out[shelf].size + 1,
    )


SPEC = Specification(
    name="stacks", state=Stacks, at_least={"shelves": 1, "boxes": 1, "clerks": 1}, samples={Gram: (Gram(0), Gram(2))}
)
