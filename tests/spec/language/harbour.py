"""A small spec over a product: two docks of the same kind with sizes of their own, a fleet, and a tide over all."""

from __future__ import annotations

from poolproof.spec.language import (
    Bool,
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
    counts,
    define,
    enabled,
    ensures,
    exists,
    forall,
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


class Berth(Id):
    """A place at a dock."""


class Ship(Id):
    """A ship of the fleet."""


class Flag(Enumeration):
    """What a ship flies."""

    NONE = 0
    RED = 1


class Dock(State):
    """One dock. Its scalars are named as the parts of a roster are."""

    berths: Size[Berth]
    ship: Map[Berth, Ship]
    open_berths: Roster[Berth]
    barred: Set[Berth]
    size: Int
    position: Bool


class Fleet(State):
    """The ships."""

    ships: Size[Ship]
    flag: Map[Ship, Flag]
    trips: Ghost[Map[Ship, Int]]


class Harbour(State):
    """The product."""

    north: Dock
    south: Dock
    fleet: Fleet
    tide: Int
    flags: Int


NO_SHIP = Ship(-1)


@define
def is_free(dock: Dock, berth: Berth) -> Bool:
    """Is this a berth of the dock where no ship lies? A definition over a component."""
    return and_(dock.all(Berth).has(berth), lambda: dock.open_berths.has(berth), lambda: not_(dock.barred.has(berth)))


@define
def lies_at(dock: Dock, ship: Ship) -> Bool:
    """Does the ship lie at this dock?"""
    return exists(dock.all(Berth), lambda berth: dock.ship[berth] == ship)


@initial
def build(harbour: Harbour) -> None:
    """No ship anywhere."""
    harbour.north.ship.relabel(lambda berth: NO_SHIP)
    harbour.south.ship.relabel(lambda berth: NO_SHIP)
    harbour.north.open_berths.fill(Berth(0), harbour.north.berths)
    harbour.south.open_berths.fill(Berth(0), harbour.south.berths)
    harbour.north.barred = harbour.north.barred.minus(harbour.north.barred)
    harbour.south.barred = harbour.north.barred
    harbour.fleet.flag.relabel(lambda ship: Flag.NONE)
    harbour.fleet.trips.relabel(lambda ship: 0)
    harbour.north.size = 0
    harbour.south.size = 0
    harbour.tide = 0
    harbour.flags = 0


@action
def land(harbour: Harbour, berth: Berth, ship: Ship) -> None:
    """A ship comes to the north dock; components are written through their path and through a local name."""
    require(is_free(harbour.north, berth))
    require(harbour.fleet.all(Ship).has(ship))
    dock = harbour.north
    dock.ship[berth] = ship
    dock.open_berths.remove(berth)
    dock.size += 1
    harbour.fleet.trips[ship] += 1
    harbour.tide = -harbour.tide


@action
def cross(harbour: Harbour, source: Berth, target: Berth) -> None:
    """A ship goes from the north dock to the south dock: one step over two components."""
    require(harbour.north.all(Berth).has(source))
    require(harbour.north.ship[source] != NO_SHIP)
    require(is_free(harbour.south, target))
    harbour.south.ship[target] = harbour.north.ship[source]
    harbour.north.ship[source] = NO_SHIP
    harbour.south.open_berths.remove(target)
    harbour.north.open_berths.add(source)
    harbour.south.barred = harbour.north.barred.with_(target)
    harbour.south.position = harbour.north.position
    harbour.north.size = harbour.south.size * 3


@action
def hand_over(harbour: Harbour) -> None:
    """One dock takes over the berths of the other: ill defined where they have one in common."""
    harbour.south.open_berths.absorb(harbour.north.open_berths)
    harbour.north.open_berths.empty()


@action
def signal(harbour: Harbour, ship: Ship, flag: Flag) -> None:
    """A count in the product over a table of a component."""
    require(harbour.fleet.all(Ship).has(ship))
    require(harbour.fleet.flag[ship] != flag)
    harbour.fleet.flag[ship] = flag
    harbour.flags += ite(flag == Flag.NONE, -1, 1)


@action
def fly_all(harbour: Harbour) -> None:
    """The set that is counted fills up."""
    harbour.fleet.flag.relabel(lambda ship: Flag.RED, where=lambda ship: lies_at(harbour.north, ship))
    harbour.flags = harbour.fleet.ships


land_batch = batch(land, over="berth", doc="A ship across several berths.")


@invariant("H1")
def flags_are_counted(harbour: Harbour) -> Bool:
    """H1: the count of flags is their number."""
    return counts(harbour.flags, harbour.fleet.all(Ship), lambda ship: harbour.fleet.flag[ship] != Flag.NONE)


@invariant("H1")
def open_berths_hold_no_ship(harbour: Harbour) -> Bool:
    """H1: on both docks, each with its own size."""
    return and_(
        forall(
            harbour.north.all(Berth),
            lambda berth: implies(harbour.north.open_berths.has(berth), harbour.north.ship[berth] == NO_SHIP),
        ),
        forall(
            harbour.south.all(Berth),
            lambda berth: or_(not_(harbour.south.open_berths.has(berth)), harbour.south.ship[berth] == NO_SHIP),
        ),
    )


@theorem("H2")
def a_landing_takes_one_berth(harbour: Harbour, berth: Berth, ship: Ship) -> Bool:
    """H2: an action of the product, looked at through a component."""
    return implies(
        enabled(land, harbour, berth, ship),
        lambda: and_(
            after(land, harbour, berth, ship).north.open_berths.size == harbour.north.open_berths.size - 1,
            after(land, harbour, berth, ship).south.size == harbour.south.size,
            not_(is_free(after(land, harbour, berth, ship).north, berth)),
        ),
    )


@step("H3")
def the_far_dock_grows(pre: Harbour, post: Harbour) -> Bool:
    """H3: a claim about the components of two states."""
    return and_(
        post.south.open_berths.size <= pre.south.open_berths.size + pre.north.open_berths.size,
        or_(pre.tide <= post.tide, pre.south.position, lambda: post.north.size > pre.south.size),
        forall(pre.fleet.all(Ship), lambda ship: pre.fleet.trips[ship] <= post.fleet.trips[ship]),
    )


@ensures(cross, "H3")
def a_crossing_frees_the_source(pre: Harbour, post: Harbour, source: Berth, target: Berth) -> Bool:
    """H3: a claim about both components and the arguments."""
    return and_(
        pre.north.all(Berth).has(source),
        lambda: pre.south.all(Berth).has(target),
        lambda: post.north.open_berths.has(source),
        lambda: post.south.ship[target] == pre.north.ship[source],
        lambda: post.south.barred.has(target),
    )


SPEC = Specification(name="harbour", state=Harbour, at_least={})
