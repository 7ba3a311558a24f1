"""A spec with tables of every newer kind that is right, and a product over it, as text, so that tests can plant faults.

The product is to be made with the name of the module that the first one became.
"""

from __future__ import annotations

GRANARY = '''\
"""Sacks in silos, made for one test."""

from __future__ import annotations

from poolproof.proofs.subject import Subject, Twin
from poolproof.spec.language import *


class Silo(Id):
    """A silo, 0 <= silo < silos."""


class Sack(Id):
    """A place for a sack in every silo, 0 <= sack < sacks."""


class Cart(Id):
    """A cart, 0 <= cart < carts."""


class Grain(Enumeration):
    """What a silo is for."""

    RYE = 0
    OATS = 1


NOBODY = Cart(-1)


class Granary(State):
    """Which cart brought which sack."""

    silos: Size[Silo]
    sacks: Size[Sack]
    carts: Size[Cart]
    weight: Given[Map[Silo, Int]]
    grain: Given[Map[Silo, Grain]]
    owner: Map[tuple[Silo, Sack], Cart]
    free: Map[Silo, Roster[Sack]]
    load: Map[Cart, Set[tuple[Silo, Sack]]]
    held: Set[tuple[Silo, Sack]]
    filled: Map[Silo, Int]
    mass: Map[Silo, Int]


@assumption
def grain_has_a_weight(granary: Granary) -> Bool:
    """A sack weighs something, wherever it is."""
    return forall(granary.all(Silo), lambda k: granary.weight[k] > 0)


@define
def is_place(granary: Granary, silo: Silo, sack: Sack) -> Bool:
    """Is there such a silo, and a place in it of this number?"""
    return and_(granary.all(Silo).has(silo), granary.all(Sack).has(sack))


@initial
def build(granary: Granary) -> None:
    """Every place is free."""
    granary.owner.relabel(lambda k, i: NOBODY)
    granary.free.fill(lambda k: Sack(0), lambda k: granary.sacks)
    granary.load.empty()
    granary.held = granary.held.none()
    granary.filled.relabel(lambda k: 0)
    granary.mass.relabel(lambda k: 0)


@action
def store(granary: Granary, silo: Silo, sack: Chosen[Sack], cart: Cart) -> None:
    """A cart brings one sack."""
    require(is_place(granary, silo, sack))
    require(granary.all(Cart).has(cart))
    require(granary.owner[silo, sack] == NOBODY)
    granary.owner[silo, sack] = cart
    granary.free[silo].remove(sack)
    granary.load[cart] = granary.load[cart].with_((silo, sack))
    granary.held = granary.held.with_((silo, sack))
    granary.filled[silo] += 1
    granary.mass[silo] += granary.weight[silo]


@action
def fetch(granary: Granary, silo: Silo, sack: Sack, cart: Cart) -> None:
    """A cart takes a sack that it brought."""
    require(is_place(granary, silo, sack))
    require(granary.all(Cart).has(cart))
    require(granary.load[cart].has((silo, sack)))
    granary.owner[silo, sack] = NOBODY
    granary.free[silo].add(sack)
    granary.load[cart] = granary.load[cart].without((silo, sack))
    granary.held = granary.held.without((silo, sack))
    granary.filled[silo] -= 1
    granary.mass[silo] -= granary.weight[silo]


@action
def hand_over(granary: Granary, cart: Cart, other: Cart) -> None:
    """One cart takes over all that another one has."""
    require(granary.all(Cart).has(cart))
    require(granary.all(Cart).has(other))
    require(cart != other)
    granary.owner.relabel(lambda k, i: other, where=lambda k, i: granary.owner[k, i] == cart)
    granary.load[other] = granary.load[other].join(granary.load[cart])
    granary.load[cart] = granary.load[cart].none()


@action
def clear(granary: Granary) -> None:
    """Everything is gone."""
    granary.owner.relabel(lambda k, i: NOBODY)
    granary.free.fill(lambda k: Sack(0), lambda k: granary.sacks)
    granary.load.empty()
    granary.held = granary.held.minus(granary.held)
    granary.filled.relabel(lambda k: 0)
    granary.mass.relabel(lambda k: 0)


@invariant("G1")
def free_places_are_listed(granary: Granary) -> Bool:
    """G1: every silo lists exactly the places that nobody has."""
    return forall(
        granary.all(Silo),
        lambda k: forall(granary.all(Sack), lambda i: iff(granary.free[k].has(i), granary.owner[k, i] == NOBODY)),
    )


@invariant("G1")
def loads_are_owned(granary: Granary) -> Bool:
    """G1: what is loaded is the cart's own, and is held."""
    return forall(
        granary.all(Cart),
        lambda c: forall(
            granary.load[c],
            lambda k, i: and_(is_place(granary, k, i), lambda: granary.owner[k, i] == c),
        ),
    )


@invariant("G1")
def what_is_owned_is_loaded(granary: Granary) -> Bool:
    """G1: whoever has a sack has it on the list."""
    return forall(
        granary.all(Silo),
        lambda k: forall(
            granary.all(Sack),
            lambda i: or_(
                granary.owner[k, i] == NOBODY,
                lambda: and_(
                    granary.all(Cart).has(granary.owner[k, i]),
                    lambda: granary.load[granary.owner[k, i]].has((k, i)),
                ),
            ),
        ),
    )


@invariant("G1")
def held_places_have_an_owner(granary: Granary) -> Bool:
    """G1: over a set of pairs."""
    return forall(granary.held, lambda k, i: and_(is_place(granary, k, i), lambda: granary.owner[k, i] != NOBODY))


@invariant("G2")
def filled_places_are_counted(granary: Granary) -> Bool:
    """G2: a count for every silo."""
    return forall(
        granary.all(Silo),
        lambda k: counts(granary.filled[k], granary.all(Sack), lambda i: granary.owner[k, i] != NOBODY),
    )


@invariant("G2")
def mass_is_weight_by_number(granary: Granary) -> Bool:
    """G2: a product with a given table."""
    return forall(granary.all(Silo), lambda k: granary.mass[k] == granary.filled[k] * granary.weight[k])


@theorem("G3")
def a_free_place_can_be_used(granary: Granary, silo: Silo, cart: Cart) -> Bool:
    """G3: a positive size of a list yields a member."""
    return implies(
        and_(
            granary.all(Silo).has(silo), granary.all(Cart).has(cart), lambda: granary.free[silo].size > 0
        ),
        lambda: exists(
            granary.all(Sack),
            lambda sack: enabled(store, granary, silo, sack, cart),
            witness=lambda: granary.free[silo].pick(),
        ),
    )


@theorem("G3")
def only_the_owner_can_fetch(granary: Granary, silo: Silo, sack: Sack, cart: Cart, other: Cart) -> Bool:
    """G3: nobody else gets what a cart brought."""
    return implies(
        and_(enabled(fetch, granary, silo, sack, cart), cart != other),
        lambda: not_(enabled(fetch, granary, silo, sack, other)),
    )


@step("G4")
def mass_moves_by_whole_sacks(pre: Granary, post: Granary) -> Bool:
    """G4: a silo that gets heavier has fewer free places."""
    return forall(
        pre.all(Silo),
        lambda k: implies(pre.mass[k] < post.mass[k], lambda: post.free[k].size < pre.free[k].size),
    )


@ensures(store, "G5")
def a_store_takes_one_place(pre: Granary, post: Granary, silo: Silo, sack: Sack, cart: Cart) -> Bool:
    """G5: the place is the cart's, and no other changes hands."""
    return and_(
        pre.free[silo].has(sack),
        post.held.has((silo, sack)),
        forall(
            pre.all(Silo),
            lambda k: forall(
                pre.all(Sack),
                lambda i: or_(and_(k == silo, i == sack), pre.owner[k, i] == post.owner[k, i]),
            ),
        ),
    )


@ensures(fetch, "G5")
def a_fetch_frees_the_place(pre: Granary, post: Granary, silo: Silo, sack: Sack, cart: Cart) -> Bool:
    """G5: the place can be used again, and is held no longer."""
    return and_(post.free[silo].has(sack), not_(post.held.has((silo, sack))), pre.load[cart].has((silo, sack)))


@ensures(hand_over, "G5")
def a_hand_over_leaves_nothing(pre: Granary, post: Granary, cart: Cart, other: Cart) -> Bool:
    """G5: the first cart has nothing, the second has what both had."""
    return and_(
        forall(post.load[cart], lambda k, i: not_(is_place(post, k, i))),
        forall(pre.load[cart], lambda k, i: post.load[other].has((k, i))),
        not_(exists(pre.load[other], lambda k, i: not_(post.load[other].has((k, i))))),
    )


@ensures(clear, "G5")
def a_clear_leaves_nothing(pre: Granary, post: Granary) -> Bool:
    """G5: all places are free, nothing is held."""
    return and_(
        forall(pre.all(Silo), lambda k: post.free[k].size == pre.sacks),
        not_(exists(post.held, lambda k, i: is_place(pre, k, i))),
    )


@variant(fetch)
def fetch_by_anybody(granary: Granary, silo: Silo, sack: Sack, cart: Cart) -> None:
    """Nobody asks whose sack it is."""
    require(is_place(granary, silo, sack))
    require(granary.all(Cart).has(cart))
    require(granary.owner[silo, sack] != NOBODY)
    granary.owner[silo, sack] = NOBODY
    granary.free[silo].add(sack)
    granary.load[cart] = granary.load[cart].without((silo, sack))
    granary.held = granary.held.without((silo, sack))
    granary.filled[silo] -= 1
    granary.mass[silo] -= granary.weight[silo]


@variant(store)
def store_with_one_to_spare(granary: Granary, silo: Silo, sack: Chosen[Sack], cart: Cart) -> None:
    """The last free place of a silo cannot be had."""
    require(is_place(granary, silo, sack))
    require(granary.all(Cart).has(cart))
    require(granary.owner[silo, sack] == NOBODY)
    require(granary.free[silo].size > 1)
    granary.owner[silo, sack] = cart
    granary.free[silo].remove(sack)
    granary.load[cart] = granary.load[cart].with_((silo, sack))
    granary.held = granary.held.with_((silo, sack))
    granary.filled[silo] += 1
    granary.mass[silo] += granary.weight[silo]


TWINS = (
    Twin("made-up#1", "Anybody's sack is fetched.", "fetch", fetch_by_anybody, ("loads_are_owned",)),
    Twin("made-up#2", "The last place is refused.", "store", store_with_one_to_spare, ("a_free_place_can_be_used",)),
)
SPEC = Specification("granary", Granary, {"silos": 1, "sacks": 1, "carts": 1})

SMALL = {"silos": 2, "sacks": 1, "carts": 2, "weight": [1, 2], "grain": [Grain.RYE, Grain.OATS]}
TALL = {"silos": 1, "sacks": 2, "carts": 2, "weight": [3], "grain": [Grain.OATS]}

SUBJECT = Subject(
    SPEC,
    twins=TWINS,
    mutant_sizes=(SMALL, TALL),
    explore_sizes=(SMALL,),
    explore_limit=300,
    implied={
        "*/free_is_a_bijection": "a roster changes only through its own operations",
        "init/is_well_defined": "it fills within its sizes, and reads nothing",
        "clear/is_well_defined": "it fills within its sizes, and reads nothing",
        "hand_over/held_places_have_an_owner": "it gives places to a cart, and takes none from all",
        "wd/held_places_have_an_owner": "no sack is held at first, so nothing is read there",
    },
    redundant={
        "fetch: drops `require(is_place*": "what is loaded is in a place",
        "fetch: is_place without *": "what is loaded is in a place",
    },
    ref=f"{__name__}:SUBJECT",
)
'''

ESTATE = '''\
"""A product over a granary, made for one test."""

from __future__ import annotations

from GRANARY_MODULE import *
from GRANARY_MODULE import SPEC as GRANARY_SPEC
from GRANARY_MODULE import SMALL, TALL


class Farmer(Id):
    """A farmer, 0 <= farmer < farmers."""


class Estate(State):
    """Who owes what for the room that was used."""

    granary: Granary
    farmers: Size[Farmer]
    due: Map[Farmer, Int]
    kept: Map[Farmer, Set[tuple[Silo, Sack]]]


@initial
def found(estate: Estate) -> None:
    """Nobody owes anything."""
    perform(build, estate.granary)
    estate.due.relabel(lambda f: 0)
    estate.kept.empty()


@action
def deliver(estate: Estate, farmer: Farmer, silo: Silo, sack: Sack, cart: Cart) -> None:
    """A farmer has a sack stored."""
    require(estate.all(Farmer).has(farmer))
    perform(store, estate.granary, silo, sack, cart)
    estate.due[farmer] += estate.granary.weight[silo]
    estate.kept[farmer] = estate.kept[farmer].with_((silo, sack))


@action
def collect(estate: Estate, farmer: Farmer, silo: Silo, sack: Sack, cart: Cart) -> None:
    """A farmer gets a sack back."""
    require(estate.all(Farmer).has(farmer))
    require(is_place(estate.granary, silo, sack))
    require(estate.kept[farmer].has((silo, sack)))
    perform(fetch, estate.granary, silo, sack, cart)
    estate.kept[farmer] = estate.kept[farmer].without((silo, sack))


@action
def settle(estate: Estate, farmer: Farmer) -> None:
    """A farmer pays."""
    require(estate.all(Farmer).has(farmer))
    estate.due[farmer] = 0


@invariant("E1")
def nobody_is_owed(estate: Estate) -> Bool:
    """E1: it takes the component's assumption."""
    return forall(estate.all(Farmer), lambda f: estate.due[f] >= 0)


@invariant("E1")
def what_is_kept_is_in_a_silo(estate: Estate) -> Bool:
    """E1: what a farmer is said to keep has a place that some cart filled."""
    return forall(
        estate.all(Farmer),
        lambda f: forall(
            estate.kept[f],
            lambda k, i: and_(
                is_place(estate.granary, k, i), lambda: estate.granary.owner[k, i] != NOBODY
            ),
        ),
    )


@invariant("E1")
def a_place_is_kept_by_one(estate: Estate) -> Bool:
    """E1: no two farmers keep one place."""
    return forall(
        estate.all(Farmer),
        lambda f: forall(
            estate.all(Farmer),
            lambda g: forall(estate.kept[f], lambda k, i: or_(f == g, not_(estate.kept[g].has((k, i))))),
        ),
    )


@theorem("E2")
def what_is_kept_is_not_delivered_again(estate: Estate, farmer: Farmer, silo: Silo, sack: Sack, cart: Cart) -> Bool:
    """E2: an action that performs another, inside a claim."""
    return implies(
        and_(estate.all(Farmer).has(farmer), lambda: estate.kept[farmer].has((silo, sack))),
        lambda: not_(enabled(deliver, estate, farmer, silo, sack, cart)),
    )


@ensures(found, "E3")
def a_new_estate_is_empty(pre: Estate, post: Estate) -> Bool:
    """E3: nobody owes anything, and every place is free."""
    return and_(
        forall(pre.all(Farmer), lambda f: post.due[f] == 0),
        forall(post.granary.all(Silo), lambda k: post.granary.free[k].size == pre.granary.sacks),
    )


@ensures(deliver, "E3")
def a_delivery_is_kept(pre: Estate, post: Estate, farmer: Farmer, silo: Silo, sack: Sack, cart: Cart) -> Bool:
    """E3: through both."""
    return and_(
        pre.due[farmer] < post.due[farmer],
        post.granary.load[cart].has((silo, sack)),
        post.kept[farmer].has((silo, sack)),
        post.granary.filled[silo] == pre.granary.filled[silo] + 1,
    )


@ensures(collect, "E3")
def a_collection_is_over(pre: Estate, post: Estate, farmer: Farmer, silo: Silo, sack: Sack, cart: Cart) -> Bool:
    """E3: through both."""
    return and_(not_(post.kept[farmer].has((silo, sack))), post.granary.free[silo].has(sack))


@ensures(settle, "E3")
def what_is_settled_is_gone(pre: Estate, post: Estate, farmer: Farmer) -> Bool:
    """E3: one farmer owes nothing."""
    return and_(post.due[farmer] == 0, forall(pre.all(Farmer), lambda f: post.due[f] <= pre.due[f]))


@variant(deliver)
def deliver_on_paper(estate: Estate, farmer: Farmer, silo: Silo, sack: Sack, cart: Cart) -> None:
    """Nothing is stored."""
    require(estate.all(Farmer).has(farmer))
    require(is_place(estate.granary, silo, sack))
    estate.due[farmer] += estate.granary.weight[silo]
    estate.kept[farmer] = estate.kept[farmer].with_((silo, sack))


ON_PAPER = ("what_is_kept_is_not_delivered_again", "what_is_kept_is_in_a_silo")
SPEC = Specification("estate", Estate, {"farmers": 1}, components={"granary": GRANARY_SPEC})


def sized(sizes):
    """Sizes of the product."""
    return {"farmers": 2, **{f"granary.{name}": value for name, value in sizes.items()}}


SUBJECT = Subject(
    SPEC,
    twins=(Twin("made-up#3", "A sack is booked and not stored.", "deliver", deliver_on_paper, ON_PAPER),),
    mutant_sizes=(sized(SMALL), sized(TALL)),
    explore_sizes=(sized(SMALL),),
    explore_limit=200,
    implied={
        "init/is_well_defined": "it reads nothing",
        "collect/a_place_is_kept_by_one": "it only takes away",
        "settle/nobody_is_owed": "it only lets off",
    },
    redundant={"collect: *is_place*": "the granary asks for it too"},
    ref=f"{__name__}:SUBJECT",
)
'''


def planted(text: str, *changes: tuple[str, str]) -> str:
    """The text with a fault in it."""
    for old, new in changes:
        assert old in text, f"nothing to replace: {old}"
        text = text.replace(old, new, 1)
    return text
