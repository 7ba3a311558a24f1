"""A small spec that uses every part of the language on one state. What it says of depots is beside the point."""

from __future__ import annotations

from poolproof.spec.language import (
    Bool,
    Chosen,
    Enumeration,
    Ghost,
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
    batch,
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


class Crate(Id):
    """A crate, 0 <= crate < crates."""


class Bay(Id):
    """A bay, 0 <= bay < bays."""


class Worker(Id):
    """Anybody; there is no table of workers."""


class Colour(Enumeration):
    """What a crate is painted."""

    RED = 0
    GREEN = 1
    BLUE = 2


class Depot(State):
    """Every kind of field once or twice."""

    crates: Size[Crate]
    bays: Size[Bay]
    colour: Map[Crate, Colour]
    bay: Map[Crate, Bay]
    weight: Map[Crate, Int]
    is_full: Map[Bay, Bool]
    moves: Ghost[Map[Crate, Int]]
    idle: Roster[Crate]
    ready: Roster[Crate]
    sealed: Set[Crate]
    watched: Set[Crate]
    staff: Set[Worker]
    reds: Int
    low: Int
    high: Int
    head: Crate
    is_open: Bool
    log: Ghost[Int]


# ---------------------------------------------------------------------------------------------------- definitions


@define
def is_crate(depot: Depot, crate: Crate) -> Bool:
    """Is this one of the depot's crates?"""
    return depot.all(Crate).has(crate)


@define
def weight_of(depot: Depot, crate: Crate) -> Int:
    """What a crate weighs; nothing where there is no crate."""
    return ite(is_crate(depot, crate), lambda: depot.weight[crate], 0)


@define
def is_in_full_bay(depot: Depot, crate: Crate) -> Bool:
    """Does the crate stand in a bay that is full?"""
    return and_(
        is_crate(depot, crate), lambda: depot.all(Bay).has(depot.bay[crate]), lambda: depot.is_full[depot.bay[crate]]
    )


# -------------------------------------------------------------------------------------------------------- actions


@initial
def found(depot: Depot) -> None:
    """An empty depot of red crates."""
    depot.colour.relabel(lambda crate: Colour.RED)
    depot.bay.relabel(lambda crate: Bay(-1))
    depot.weight.relabel(lambda crate: 0)
    depot.is_full.relabel(lambda bay: False)
    depot.moves.relabel(lambda crate: 0)
    depot.idle.fill(Crate(0), depot.crates)
    depot.ready.empty()
    depot.sealed = depot.sealed.minus(depot.sealed)
    depot.watched = depot.sealed
    depot.staff = depot.staff.minus(depot.staff)
    depot.reds = depot.crates
    depot.low = 0
    depot.high = 0
    depot.head = Crate(-1)
    depot.is_open = False
    depot.log = 0


@action
def stow(depot: Depot, crate: Crate, bay: Chosen[Bay]) -> None:
    """A map written at one key, arithmetic with literals, a ghost that counts."""
    require(is_crate(depot, crate))
    require(depot.all(Bay).has(bay))
    require(not_(depot.is_full[bay]))
    old = depot.bay[crate]
    depot.bay[crate] = bay
    depot.weight[crate] = 3 * depot.weight[crate] - depot.low // 2 + depot.high % 3 - (old - bay)
    depot.moves[crate] += 1
    depot.is_full[bay] = depot.weight[crate] > 4
    depot.log = depot.log + depot.moves[crate]


@action
def stow_anywhere(depot: Depot, crate: Crate, bay: Bay) -> None:
    """No guard at all: ill defined for bad ids."""
    depot.bay[crate] = bay
    depot.is_full[bay] = depot.is_full[depot.bay[crate]]


@action
def swap(depot: Depot, first: Crate, second: Crate) -> None:
    """Two keys of one table that may be the same."""
    require(is_crate(depot, first))
    require(is_crate(depot, second))
    colour = depot.colour[first]
    depot.colour[first] = depot.colour[second]
    depot.colour[second] = colour
    depot.weight[first] += 1
    depot.weight[second] *= 2
    depot.weight[first] -= 5


@action
def paint(depot: Depot, crate: Crate, colour: Colour) -> None:
    """A counter that follows a table."""
    require(is_crate(depot, crate))
    require(or_(depot.is_open, depot.colour[crate] != colour, lambda: depot.weight[crate] < 0))
    depot.reds += ite(colour == Colour.RED, 1, 0) - ite(depot.colour[crate] == Colour.RED, 1, 0)
    depot.colour[crate] = colour


@action
def repaint(depot: Depot, old: Colour, new: Colour) -> None:
    """Bulk updates, the second of which reads what the first wrote."""
    depot.colour.relabel(lambda crate: new, where=lambda crate: depot.colour[crate] == old)
    depot.weight.relabel(
        lambda crate: ite(
            depot.colour[crate] == new, lambda: depot.weight[crate] + 1, lambda: -depot.weight[crate] // 3
        )
    )
    depot.is_full.relabel(
        lambda bay: exists(depot.all(Crate), lambda crate: and_(depot.bay[crate] == bay, depot.weight[crate] > 0)),
        where=lambda bay: not_(depot.is_full[bay]),
    )


@action
def wrap(depot: Depot, crate: Crate) -> None:
    """A bulk update around the value at one key."""
    require(is_crate(depot, crate))
    depot.weight.relabel(lambda other: depot.weight[crate] + depot.weight[other], where=lambda other: other != crate)
    depot.weight[crate] = 0
    depot.bay.relabel(lambda other: depot.bay[crate], where=lambda other: is_in_full_bay(depot, other))


@action
def push(depot: Depot) -> None:
    """A bulk update that leaves the table where the bays are bad."""
    depot.weight.relabel(lambda crate: ite(depot.is_full[depot.bay[crate]], 1, 0), where=lambda crate: crate < Crate(2))


@action
def park(depot: Depot, crate: Crate) -> None:
    """A roster takes a member in, another lets it go."""
    require(is_crate(depot, crate))
    require(depot.ready.has(crate))
    require(not_(depot.idle.has(crate)))
    depot.ready.remove(crate)
    depot.idle.add(crate)
    depot.head = crate


@action
def add_blindly(depot: Depot, crate: Crate) -> None:
    """Ill defined for members and for ids outside the table."""
    depot.idle.add(crate)


@action
def remove_blindly(depot: Depot, crate: Crate, other: Crate) -> None:
    """Ill defined for anything but two different members."""
    depot.idle.remove(crate)
    depot.idle.remove(other)
    depot.idle.add(crate)


@action
def merge(depot: Depot) -> None:
    """One roster takes over another, then both change."""
    depot.ready.absorb(depot.idle)
    depot.idle.empty()
    depot.low = depot.ready.size


@action
def restock(depot: Depot, first: Crate, past: Crate) -> None:
    """Ill defined unless the range is inside the table."""
    depot.idle.fill(first, past)
    depot.high = depot.idle.size


@action
def restock_tail(depot: Depot, first: Crate) -> None:
    """A roster is filled up to a size, and gives its first member up."""
    require(is_crate(depot, first))
    depot.idle.fill(first, depot.crates)
    depot.idle.remove(first)
    depot.ready.empty()
    depot.ready.absorb(depot.idle)


@action
def seal(depot: Depot, crate: Crate) -> None:
    """Sets of a sized kind, with members outside it too."""
    require(not_(depot.sealed.has(crate)))
    depot.sealed = depot.sealed.with_(crate)
    depot.watched = depot.watched.without(crate)


@action
def trade(depot: Depot) -> None:
    """Sets joined, reduced and exchanged."""
    require(or_(not_(depot.sealed.disjoint(depot.watched)), depot.is_open))
    sealed = depot.sealed
    depot.sealed = depot.sealed.join(depot.watched).without(depot.head)
    depot.watched = sealed.minus(depot.watched).with_(depot.head)


@action
def weigh_sealed(depot: Depot) -> None:
    """A guard over a set, and a bulk update where a set says."""
    require(forall(depot.sealed, lambda crate: and_(is_crate(depot, crate), lambda: depot.weight[crate] >= 0)))
    depot.weight.relabel(lambda crate: depot.weight[crate] // 2, where=lambda crate: depot.sealed.has(crate))
    depot.is_open = exists(depot.watched, lambda crate: depot.sealed.has(crate))


@action
def hire(depot: Depot, worker: Worker, rival: Worker) -> None:
    """A set of a kind without a size."""
    require(or_(worker != rival, depot.staff.has(rival)))
    depot.staff = depot.staff.with_(worker).without(rival)
    depot.is_open = forall(depot.staff, lambda other: other > Worker(-1))


@action
def shift(depot: Depot, by: Int, flip: Bool) -> None:
    """Scalars: integers, a truth value, an id; division rounds down."""
    require(exists(between(depot.low, depot.high), lambda i: i * 2 > by))
    depot.low = by // 3 - depot.low % 4
    depot.high = by * -2 + (7 - depot.high)
    depot.is_open = iff(flip, depot.is_open)
    depot.head = ite(flip, depot.head + 1, Crate(0))


@action
def audit(depot: Depot, crate: Crate, colour: Colour) -> None:
    """Other actions inside guards and effects."""
    require(enabled(paint, depot, crate, colour))
    require(or_(not_(enabled(seal, depot, crate)), lambda: after(seal, depot, crate).sealed.has(crate)))
    depot.reds = after(paint, depot, crate, colour).reds * 2
    depot.colour[crate] = after(swap, depot, crate, Crate(0)).colour[crate]


stow_batch = batch(stow, over="crate", doc="All of these crates go to one bay, or none does.")
seal_batch = batch(seal, over="crate", doc="All of these crates are sealed, or none is.")


# ---------------------------------------------------------------------------------------------------------- claims


@invariant("D1")
def reds_are_counted(depot: Depot) -> Bool:
    """D1: the count of red crates is their number."""
    return counts(depot.reds, depot.all(Crate), lambda crate: depot.colour[crate] == Colour.RED)


@invariant("D1")
def heavy_crates_between_marks_are_counted(depot: Depot) -> Bool:
    """D1: a count over a range that may be empty or the wrong way round."""
    return counts(
        depot.reds,
        between(depot.low, depot.high),
        lambda i: exists(depot.all(Crate), lambda crate: depot.weight[crate] == i),
    )


@invariant("D2")
def idle_crates_are_not_ready(depot: Depot) -> Bool:
    """D2: no crate is on both rosters."""
    return forall(depot.all(Crate), lambda crate: not_(and_(depot.idle.has(crate), depot.ready.has(crate))))


@invariant("D2")
def sealed_crates_weigh_something(depot: Depot) -> Bool:
    """D2: a claim over the members of a set, each of which may be outside the table."""
    return forall(depot.sealed, lambda crate: weight_of(depot, crate) != 0)


@invariant("D3")
def staff_are_few(depot: Depot) -> Bool:
    """D3: claims over sets without a table."""
    return and_(
        not_(exists(depot.staff, lambda worker: worker < Worker(0))),
        forall(depot.staff, lambda one: forall(depot.staff, lambda two: or_(one == two, one - two < 3, two > one))),
    )


@invariant("D3")
def bays_are_good(depot: Depot) -> Bool:
    """D3: a table that names entries of another."""
    return forall(
        depot.all(Crate),
        lambda crate: implies(
            depot.all(Bay).has(depot.bay[crate]),
            lambda: iff(depot.is_full[depot.bay[crate]], depot.weight[crate] > depot.low),
        ),
    )


@theorem("D4")
def some_crate_can_be_parked(depot: Depot, n: Int) -> Bool:
    """D4: an existential with a witness, and actions inside a claim."""
    return implies(
        and_(depot.ready.size > n, n >= 0),
        lambda: exists(
            depot.all(Crate),
            lambda crate: and_(enabled(park, depot, crate), lambda: after(park, depot, crate).ready.size >= n),
            witness=lambda: depot.ready.pick(),
        ),
    )


@theorem("D4")
def odd_things_add_up(depot: Depot, a: Int, b: Crate, flag: Bool, colour: Colour) -> Bool:
    """D4: arithmetic and choices over parameters of every sort."""
    return and_(
        or_(flag, a // 4 * 4 + a % 4 == a),
        ite(flag, lambda: weight_of(depot, b) <= a * 3, lambda: weight_of(depot, b + 1) > -a),
        lambda: or_(colour == Colour.BLUE, b - depot.head < 2, lambda: depot.colour[b] == colour),
    )


@theorem("D5")
def every_range_has_a_middle(depot: Depot) -> Bool:
    """D5: nested quantifiers over ranges whose ends depend on each other."""
    return forall(
        between(depot.low, depot.high),
        lambda i: exists(between(depot.low, i + 1), lambda j: and_(2 * j >= depot.low + i, j <= depot.high)),
    )


@theorem("D5")
def sets_are_as_they_say(depot: Depot, crate: Crate, other: Crate) -> Bool:
    """D5: every operation of a set, as seen by membership."""
    both = depot.sealed.join(depot.watched)
    return and_(
        iff(both.has(crate), or_(depot.sealed.has(crate), depot.watched.has(crate))),
        depot.sealed.minus(depot.watched).disjoint(depot.watched),
        iff(both.with_(crate).has(other), or_(crate == other, both.has(other))),
        not_(both.without(crate).has(crate)),
        iff(depot.sealed.disjoint(depot.watched), forall(depot.sealed, lambda key: not_(depot.watched.has(key)))),
    )


@theorem("D5")
def sealed_crates_are_in_the_depot(depot: Depot) -> Bool:
    """D5: false of sets with members outside the table, in both readings."""
    return and_(
        forall(depot.sealed, lambda crate: is_crate(depot, crate)),
        depot.watched.disjoint(depot.sealed),
        not_(exists(depot.watched, lambda crate: not_(is_crate(depot, crate)))),
    )


@theorem("D6")
def a_look_outside(depot: Depot, crate: Crate) -> Bool:
    """D6: ill defined for ids outside the table."""
    return or_(depot.is_open, lambda: depot.idle.has(crate), lambda: depot.weight[crate] > 1)


@step("D7")
def weights_do_not_fall(pre: Depot, post: Depot) -> Bool:
    """D7: a claim about two states."""
    return forall(
        pre.all(Crate),
        lambda crate: implies(
            pre.idle.has(crate),
            lambda: or_(pre.weight[crate] <= post.weight[crate], not_(post.idle.has(crate)), pre.low == post.high),
        ),
    )


@ensures(paint, "D7")
def a_painted_crate_has_the_colour(pre: Depot, post: Depot, crate: Crate, colour: Colour) -> Bool:
    """D7: a claim about two states and the arguments."""
    return and_(
        is_crate(pre, crate),
        lambda: post.colour[crate] == colour,
        lambda: post.reds - pre.reds == ite(pre.colour[crate] == colour, 0, ite(colour == Colour.RED, 1, -1)),
        lambda: not_(enabled(paint, post, crate, colour)),
    )


SPEC = Specification(
    name="depot",
    state=Depot,
    at_least={"crates": 1, "bays": 1},
    samples={Worker: (Worker(-1), Worker(0), Worker(2))},
)
