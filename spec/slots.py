"""What one pool of slots may do.

A slot is a fixed-size piece of the pool, named by a `Slot` id. Slot 0 is the sink: padding rows write there, and it
is never handed out. Every other slot has exactly one owner at any time: it is free, held back by the open
pre-allocation group, owned by a request or by the cache, or pending (given back, but a step in flight may still touch
it). Which free slot is handed out is the implementation's choice and so a parameter.

Invariant names I1, I2, ... are those of the fault catalogue in docs/spec.md.
"""

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


class Slot(Id):
    """A slot of the pool, 0 <= slot < total."""


class Holder(Id):
    """A request or a cache node: whoever may own slots. Any number from 0 up."""


class Owner(Enumeration):
    """What kind of owner a slot has."""

    FREE = 0
    RESERVED = 1
    REQUEST = 2
    CACHE = 3
    PENDING = 4
    SINK = 5


SINK = Slot(0)
NOBODY = Holder(-1)


class Slots(State):
    """One pool: who owns each slot, on whose behalf, and the counts that the pool reports."""

    total: Size[Slot]
    owner: Map[Slot, Owner]
    holder: Map[Slot, Holder]
    tenancy: Ghost[Map[Slot, Int]]
    free_slots: Roster[Slot]
    reserved_slots: Roster[Slot]
    in_requests: Int
    in_cache: Int
    in_pending: Int
    group_is_open: Bool


# ---------------------------------------------------------------------------------------------------- definitions


@define
def is_slot(pool: Slots, slot: Slot) -> Bool:
    """Is this an id of the pool other than the sink?"""
    return and_(pool.all(Slot).has(slot), slot != SINK)


@define
def is_holder(holder: Holder) -> Bool:
    """Can this id own slots?"""
    return holder > NOBODY


@define
def is_tenant(owner: Owner) -> Bool:
    """Does this kind of owner act on behalf of a holder?"""
    return or_(owner == Owner.REQUEST, owner == Owner.CACHE)


@define
def holds(pool: Slots, holder: Holder, slot: Slot) -> Bool:
    """Is the handle (holder, slot) live: does `holder` own `slot` now?"""
    return and_(is_slot(pool, slot), lambda: is_tenant(pool.owner[slot]), lambda: pool.holder[slot] == holder)


@define
def is_dead(pool: Slots, slot: Slot, tenancy: Int) -> Bool:
    """Has this tenancy of the slot ended? Freeing or transferring a slot ends one and numbers the next."""
    return tenancy < pool.tenancy[slot]


# -------------------------------------------------------------------------------------------------------- actions


@initial
def create(pool: Slots) -> None:
    """Everything is free but the sink; no group is open."""
    pool.owner.relabel(lambda slot: Owner.FREE)
    pool.owner[SINK] = Owner.SINK
    pool.holder.relabel(lambda slot: NOBODY)
    pool.tenancy.relabel(lambda slot: 0)
    pool.free_slots.fill(Slot(1), pool.total)
    pool.reserved_slots.empty()
    pool.in_requests = 0
    pool.in_cache = 0
    pool.in_pending = 0
    pool.group_is_open = False


@action
def alloc(pool: Slots, request: Holder, slot: Chosen[Slot]) -> None:
    """Give one free slot to a request."""
    require(is_holder(request))
    require(pool.all(Slot).has(slot))
    require(pool.owner[slot] == Owner.FREE)
    pool.owner[slot] = Owner.REQUEST
    pool.holder[slot] = request
    pool.free_slots.remove(slot)
    pool.in_requests += 1


@action
def free(pool: Slots, holder: Holder, slot: Slot) -> None:
    """The holder gives a slot back; it can be handed out again at once."""
    require(pool.all(Slot).has(slot))
    require(is_tenant(pool.owner[slot]))
    require(pool.holder[slot] == holder)
    pool.in_requests -= ite(pool.owner[slot] == Owner.REQUEST, 1, 0)
    pool.in_cache -= ite(pool.owner[slot] == Owner.CACHE, 1, 0)
    pool.owner[slot] = Owner.FREE
    pool.holder[slot] = NOBODY
    pool.tenancy[slot] += 1
    pool.free_slots.add(slot)


@action
def retire(pool: Slots, holder: Holder, slot: Slot) -> None:
    """The holder gives a slot back while a step in flight may still touch it: it waits, pending, for `reclaim`."""
    require(pool.all(Slot).has(slot))
    require(is_tenant(pool.owner[slot]))
    require(pool.holder[slot] == holder)
    pool.in_requests -= ite(pool.owner[slot] == Owner.REQUEST, 1, 0)
    pool.in_cache -= ite(pool.owner[slot] == Owner.CACHE, 1, 0)
    pool.owner[slot] = Owner.PENDING
    pool.holder[slot] = NOBODY
    pool.tenancy[slot] += 1
    pool.in_pending += 1


@action
def reclaim(pool: Slots, slot: Slot) -> None:
    """Nothing in flight touches the pending slot any more: it is free."""
    require(pool.all(Slot).has(slot))
    require(pool.owner[slot] == Owner.PENDING)
    pool.owner[slot] = Owner.FREE
    pool.in_pending -= 1
    pool.free_slots.add(slot)


@action
def transfer(pool: Slots, holder: Holder, slot: Slot, kind: Owner, heir: Holder) -> None:
    """Ownership passes on: a request donates to the cache, the cache or a session hands over to a request."""
    require(pool.all(Slot).has(slot))
    require(is_tenant(pool.owner[slot]))
    require(pool.holder[slot] == holder)
    require(is_tenant(kind))
    require(is_holder(heir))
    require(or_(heir != holder, kind != pool.owner[slot]))
    pool.in_requests += ite(kind == Owner.REQUEST, 1, 0) - ite(pool.owner[slot] == Owner.REQUEST, 1, 0)
    pool.in_cache += ite(kind == Owner.CACHE, 1, 0) - ite(pool.owner[slot] == Owner.CACHE, 1, 0)
    pool.owner[slot] = kind
    pool.holder[slot] = heir
    pool.tenancy[slot] += 1


@action
def open_group(pool: Slots) -> None:
    """Begin a pre-allocation group: slots can now be held back for the requests of one batch."""
    require(not_(pool.group_is_open))
    pool.group_is_open = True


@action
def reserve(pool: Slots, slot: Chosen[Slot]) -> None:
    """Hold a free slot back for the open group."""
    require(pool.group_is_open)
    require(pool.all(Slot).has(slot))
    require(pool.owner[slot] == Owner.FREE)
    pool.owner[slot] = Owner.RESERVED
    pool.free_slots.remove(slot)
    pool.reserved_slots.add(slot)


@action
def take(pool: Slots, request: Holder, slot: Chosen[Slot]) -> None:
    """Give a slot of the open group's reserve to a request."""
    require(is_holder(request))
    require(pool.all(Slot).has(slot))
    require(pool.owner[slot] == Owner.RESERVED)
    pool.owner[slot] = Owner.REQUEST
    pool.holder[slot] = request
    pool.reserved_slots.remove(slot)
    pool.in_requests += 1


@action
def close_group(pool: Slots) -> None:
    """End the group: what is left of its reserve is free again."""
    require(pool.group_is_open)
    pool.owner.relabel(lambda slot: Owner.FREE, where=lambda slot: pool.owner[slot] == Owner.RESERVED)
    pool.free_slots.absorb(pool.reserved_slots)
    pool.reserved_slots.empty()
    pool.group_is_open = False


@action
def clear(pool: Slots) -> None:
    """Back to the initial state, whatever was open or owned; every tenancy ends."""
    pool.tenancy.relabel(lambda slot: pool.tenancy[slot] + 1, where=lambda slot: is_tenant(pool.owner[slot]))
    pool.owner.relabel(lambda slot: Owner.FREE)
    pool.owner[SINK] = Owner.SINK
    pool.holder.relabel(lambda slot: NOBODY)
    pool.free_slots.fill(Slot(1), pool.total)
    pool.reserved_slots.empty()
    pool.in_requests = 0
    pool.in_cache = 0
    pool.in_pending = 0
    pool.group_is_open = False


alloc_batch = batch(alloc, over="slot", doc="All of the chosen slots go to the request, or none does.")
free_batch = batch(free, over="slot", doc="The holder gives back all of these slots, or none.")
retire_batch = batch(retire, over="slot", doc="The holder gives back all of these slots to wait, or none.")
reclaim_batch = batch(reclaim, over="slot", doc="All of these pending slots are free again, or none is.")
transfer_batch = batch(transfer, over="slot", doc="All of these slots pass on, or none does.")
reserve_batch = batch(reserve, over="slot", doc="All of the chosen slots are held back, or none is.")
take_batch = batch(take, over="slot", doc="All of the chosen reserved slots go to the request, or none does.")


# ------------------------------------------------------------------------------------------------------ invariants


@invariant("I1")
def the_sink_is_only_the_sink(pool: Slots) -> Bool:
    """I1: slot 0, and no other, belongs to the sink."""
    return forall(pool.all(Slot), lambda slot: iff(pool.owner[slot] == Owner.SINK, slot == SINK))


@invariant("I1")
def free_slots_are_listed(pool: Slots) -> Bool:
    """I1: the list of free slots holds exactly the slots whose owner says free."""
    return forall(pool.all(Slot), lambda slot: iff(pool.free_slots.has(slot), pool.owner[slot] == Owner.FREE))


@invariant("I1")
def reserved_slots_are_listed(pool: Slots) -> Bool:
    """I1: the open group's reserve holds exactly the slots whose owner says reserved."""
    return forall(pool.all(Slot), lambda slot: iff(pool.reserved_slots.has(slot), pool.owner[slot] == Owner.RESERVED))


@invariant("I1", "I3")
def exactly_the_owned_slots_have_a_holder(pool: Slots) -> Bool:
    """I1, I3: a slot names a holder exactly while a request or the cache owns it; nothing else keeps a relation."""
    return forall(
        pool.all(Slot),
        lambda slot: ite(
            is_tenant(pool.owner[slot]), lambda: is_holder(pool.holder[slot]), lambda: pool.holder[slot] == NOBODY
        ),
    )


@invariant("I1")
def a_reserve_needs_an_open_group(pool: Slots) -> Bool:
    """I1: no slot stays reserved once the group is closed."""
    return implies(not_(pool.group_is_open), pool.reserved_slots.size == 0)


@invariant("I21")
def requests_are_counted(pool: Slots) -> Bool:
    """I21: the count of request-owned slots is their number."""
    return counts(pool.in_requests, pool.all(Slot), lambda slot: pool.owner[slot] == Owner.REQUEST)


@invariant("I21")
def cached_slots_are_counted(pool: Slots) -> Bool:
    """I21: the count of cache-owned slots is their number."""
    return counts(pool.in_cache, pool.all(Slot), lambda slot: pool.owner[slot] == Owner.CACHE)


@invariant("I21")
def pending_slots_are_counted(pool: Slots) -> Bool:
    """I21: the count of pending slots is their number."""
    return counts(pool.in_pending, pool.all(Slot), lambda slot: pool.owner[slot] == Owner.PENDING)


@invariant("I21")
def slots_are_conserved(pool: Slots) -> Bool:
    """I21: free + reserved + requests + cache + pending + the sink = total."""
    return (
        pool.free_slots.size + pool.reserved_slots.size + pool.in_requests + pool.in_cache + pool.in_pending + 1
        == pool.total
    )


@invariant("I3")
def tenancies_are_numbered_from_zero(pool: Slots) -> Bool:
    """I3: tenancy numbers start at 0."""
    return forall(pool.all(Slot), lambda slot: pool.tenancy[slot] >= 0)


# -------------------------------------------------------------------------------------------------------- theorems


@define
def places(pool: Slots, slot: Slot) -> Int:
    """In how many places is this slot: the free list, the reserve, somebody's hands, pending, the sink?"""
    return (
        ite(pool.free_slots.has(slot), 1, 0)
        + ite(pool.reserved_slots.has(slot), 1, 0)
        + ite(pool.holder[slot] != NOBODY, 1, 0)
        + ite(pool.owner[slot] == Owner.PENDING, 1, 0)
        + ite(slot == SINK, 1, 0)
    )


@theorem("I1")
def every_slot_is_in_exactly_one_place(pool: Slots) -> Bool:
    """I1: the free list, the reserve, the holders, the pending slots and the sink are a partition of all slots."""
    return forall(pool.all(Slot), lambda slot: places(pool, slot) == 1)


@theorem("I1")
def the_sink_is_never_handed_out(pool: Slots, request: Holder) -> Bool:
    """I1: neither the pool nor an open group ever gives slot 0 to anyone."""
    return and_(
        not_(enabled(alloc, pool, request, SINK)),
        not_(enabled(reserve, pool, SINK)),
        not_(enabled(take, pool, request, SINK)),
    )


@theorem("I2")
def only_a_live_handle_can_be_given_back(pool: Slots, holder: Holder, slot: Slot) -> Bool:
    """I2: freeing twice, freeing what one does not own, a negative id, an id past the end or the sink is refused."""
    return implies(
        not_(holds(pool, holder, slot)),
        lambda: and_(not_(enabled(free, pool, holder, slot)), not_(enabled(retire, pool, holder, slot))),
    )


@theorem("I2")
def only_a_live_handle_can_be_passed_on(pool: Slots, holder: Holder, slot: Slot, kind: Owner, heir: Holder) -> Bool:
    """I2: nobody can transfer a slot that he does not own."""
    return implies(not_(holds(pool, holder, slot)), lambda: not_(enabled(transfer, pool, holder, slot, kind, heir)))


@theorem("I2")
def only_a_pending_slot_can_be_reclaimed(pool: Slots, slot: Slot) -> Bool:
    """I2: reclaiming an id that is outside the pool, or that is not pending, is refused."""
    return implies(
        or_(not_(pool.all(Slot).has(slot)), lambda: pool.owner[slot] != Owner.PENDING),
        lambda: not_(enabled(reclaim, pool, slot)),
    )


@theorem("I2")
def a_live_handle_can_always_be_given_back(pool: Slots, holder: Holder, slot: Slot) -> Bool:
    """I2, the other side: an owner is never refused."""
    return implies(
        holds(pool, holder, slot),
        lambda: and_(enabled(free, pool, holder, slot), enabled(retire, pool, holder, slot)),
    )


@theorem("I2")
def a_live_handle_can_always_be_passed_on(pool: Slots, holder: Holder, slot: Slot, kind: Owner, heir: Holder) -> Bool:
    """I2, the other side: a transfer that changes the holder or the kind of owner is never refused to the owner."""
    return implies(
        and_(
            holds(pool, holder, slot),
            is_tenant(kind),
            is_holder(heir),
            lambda: or_(heir != holder, pool.owner[slot] != kind),
        ),
        lambda: enabled(transfer, pool, holder, slot, kind, heir),
    )


@theorem("I4")
def capacity_n_means_that_n_allocs_succeed(pool: Slots, request: Holder, n: Int) -> Bool:
    """I4: with more than n free slots one alloc succeeds and leaves n; so, by induction, n of n succeed."""
    return implies(
        and_(is_holder(request), n >= 0, pool.free_slots.size > n),
        lambda: exists(
            pool.all(Slot),
            lambda slot: and_(
                enabled(alloc, pool, request, slot), lambda: after(alloc, pool, request, slot).free_slots.size >= n
            ),
            witness=lambda: pool.free_slots.pick(),
        ),
    )


@theorem("I4")
def capacity_n_means_that_n_reservations_succeed(pool: Slots, n: Int) -> Bool:
    """I4: an open group can hold back as many slots as there are free ones."""
    return implies(
        and_(pool.group_is_open, n >= 0, pool.free_slots.size > n),
        lambda: exists(
            pool.all(Slot),
            lambda slot: and_(enabled(reserve, pool, slot), lambda: after(reserve, pool, slot).free_slots.size >= n),
            witness=lambda: pool.free_slots.pick(),
        ),
    )


@theorem("I4")
def a_reserve_of_n_means_that_n_takes_succeed(pool: Slots, request: Holder, n: Int) -> Bool:
    """I4: what a group has held back can be taken, to the last slot."""
    return implies(
        and_(is_holder(request), n >= 0, pool.reserved_slots.size > n),
        lambda: exists(
            pool.all(Slot),
            lambda slot: and_(
                enabled(take, pool, request, slot), lambda: after(take, pool, request, slot).reserved_slots.size >= n
            ),
            witness=lambda: pool.reserved_slots.pick(),
        ),
    )


@theorem("I21")
def counts_are_never_negative(pool: Slots) -> Bool:
    """I21: no count is below zero or above the size of the pool."""
    return and_(
        and_(pool.in_requests >= 0, pool.in_requests < pool.total),
        and_(pool.in_cache >= 0, pool.in_cache < pool.total),
        and_(pool.in_pending >= 0, pool.in_pending < pool.total),
        and_(pool.free_slots.size >= 0, pool.free_slots.size < pool.total),
        and_(pool.reserved_slots.size >= 0, pool.reserved_slots.size < pool.total),
    )


# ----------------------------------------------------------------------------------------------- claims about steps


@define
def is_legal_edge(old: Owner, new: Owner) -> Bool:
    """The lifecycle of a slot."""
    return or_(
        old == new,
        and_(old == Owner.FREE, or_(new == Owner.REQUEST, new == Owner.RESERVED)),
        and_(old == Owner.RESERVED, or_(new == Owner.REQUEST, new == Owner.FREE)),
        and_(is_tenant(old), or_(is_tenant(new), new == Owner.FREE, new == Owner.PENDING)),
        and_(old == Owner.PENDING, new == Owner.FREE),
    )


@step("I1", "I2")
def owners_change_only_along_the_lifecycle(pre: Slots, post: Slots) -> Bool:
    """I1, I2: a slot becomes free only from a holder, a reserve or a fence that let it go; the sink stays the sink."""
    return forall(pre.all(Slot), lambda slot: is_legal_edge(pre.owner[slot], post.owner[slot]))


@step("I3")
def a_dead_handle_stays_dead(pre: Slots, post: Slots) -> Bool:
    """I3: tenancies never go back, so a tenancy that has ended never lives again."""
    return forall(pre.all(Slot), lambda slot: pre.tenancy[slot] <= post.tenancy[slot])


@step("I3")
def a_change_of_hands_ends_the_tenancy(pre: Slots, post: Slots) -> Bool:
    """I3: when a slot leaves its holder, every handle of that tenancy dies; while it stays, the handle lives."""
    return forall(
        pre.all(Slot),
        lambda slot: implies(
            is_tenant(pre.owner[slot]),
            lambda: iff(
                and_(pre.owner[slot] == post.owner[slot], pre.holder[slot] == post.holder[slot]),
                pre.tenancy[slot] == post.tenancy[slot],
            ),
        ),
    )


@define
def others_are_untouched(pre: Slots, post: Slots, slot: Slot) -> Bool:
    """Every slot but this one keeps its owner, holder and tenancy."""
    return forall(
        pre.all(Slot),
        lambda other: implies(
            other != slot,
            lambda: and_(
                pre.owner[other] == post.owner[other],
                pre.holder[other] == post.holder[other],
                pre.tenancy[other] == post.tenancy[other],
            ),
        ),
    )


@define
def group_is_untouched(pre: Slots, post: Slots) -> Bool:
    """The step neither opens nor closes a group."""
    return iff(pre.group_is_open, post.group_is_open)


@ensures(create, "I25")
def a_new_pool_is_free(pre: Slots, post: Slots) -> Bool:
    """I25: whatever the memory held before, all but the sink is free, tenancies begin at 0, no group is open."""
    return and_(
        forall(post.all(Slot), lambda slot: or_(slot == SINK, post.owner[slot] == Owner.FREE)),
        forall(post.all(Slot), lambda slot: post.tenancy[slot] == 0),
        not_(post.group_is_open),
    )


@ensures(alloc, "I4")
def an_alloc_gives_the_slot_to_the_request(pre: Slots, post: Slots, request: Holder, slot: Slot) -> Bool:
    """I4: the request can use and give back what it was given, and nothing else changed."""
    return and_(
        holds(post, request, slot),
        post.owner[slot] == Owner.REQUEST,
        post.tenancy[slot] == pre.tenancy[slot],
        pre.owner[slot] == Owner.FREE,
        others_are_untouched(pre, post, slot),
        group_is_untouched(pre, post),
    )


@ensures(free, "I2", "I3")
def a_free_ends_the_handle(pre: Slots, post: Slots, holder: Holder, slot: Slot) -> Bool:
    """I2, I3: who frees owned the slot; afterwards the handle is dead and the slot is free."""
    return and_(
        holds(pre, holder, slot),
        post.owner[slot] == Owner.FREE,
        post.holder[slot] == NOBODY,
        post.tenancy[slot] == pre.tenancy[slot] + 1,
        not_(enabled(free, post, holder, slot)),
        others_are_untouched(pre, post, slot),
        group_is_untouched(pre, post),
    )


@ensures(retire, "I2", "I3")
def a_retire_ends_the_handle_but_not_the_wait(pre: Slots, post: Slots, holder: Holder, slot: Slot) -> Bool:
    """I2, I3: the handle is dead, and nobody can be given the slot before it is reclaimed."""
    return and_(
        holds(pre, holder, slot),
        post.owner[slot] == Owner.PENDING,
        post.holder[slot] == NOBODY,
        post.tenancy[slot] == pre.tenancy[slot] + 1,
        not_(post.free_slots.has(slot)),
        not_(enabled(free, post, holder, slot)),
        others_are_untouched(pre, post, slot),
        group_is_untouched(pre, post),
    )


@ensures(reclaim, "I2")
def a_reclaim_frees_a_pending_slot(pre: Slots, post: Slots, slot: Slot) -> Bool:
    """I2: only what was given back becomes free, and nothing else changed."""
    return and_(
        pre.owner[slot] == Owner.PENDING,
        post.owner[slot] == Owner.FREE,
        post.tenancy[slot] == pre.tenancy[slot],
        others_are_untouched(pre, post, slot),
        group_is_untouched(pre, post),
    )


@ensures(transfer, "I2", "I3")
def a_transfer_ends_the_old_handle(
    pre: Slots, post: Slots, holder: Holder, slot: Slot, kind: Owner, heir: Holder
) -> Bool:
    """I2, I3: the heir owns the slot as asked; the former holder has no say over it any more."""
    return and_(
        holds(pre, holder, slot),
        holds(post, heir, slot),
        post.owner[slot] == kind,
        implies(heir != holder, lambda: not_(enabled(free, post, holder, slot))),
        post.tenancy[slot] == pre.tenancy[slot] + 1,
        others_are_untouched(pre, post, slot),
        group_is_untouched(pre, post),
    )


@ensures(open_group, "I4")
def opening_a_group_changes_no_slot(pre: Slots, post: Slots) -> Bool:
    """I4: one group at a time, and it begins with an empty reserve."""
    return and_(
        not_(pre.group_is_open),
        post.group_is_open,
        post.reserved_slots.size == 0,
        others_are_untouched(pre, post, SINK),
    )


@ensures(reserve, "I1")
def a_reserve_holds_a_free_slot_back(pre: Slots, post: Slots, slot: Slot) -> Bool:
    """I1: the slot passes from the free list to the reserve of a group that is open."""
    return and_(
        pre.group_is_open,
        pre.owner[slot] == Owner.FREE,
        post.owner[slot] == Owner.RESERVED,
        post.tenancy[slot] == pre.tenancy[slot],
        others_are_untouched(pre, post, slot),
        group_is_untouched(pre, post),
    )


@ensures(take, "I4")
def a_take_gives_a_reserved_slot_to_the_request(pre: Slots, post: Slots, request: Holder, slot: Slot) -> Bool:
    """I4: the request can use and give back what it was given out of the reserve."""
    return and_(
        pre.owner[slot] == Owner.RESERVED,
        holds(post, request, slot),
        post.owner[slot] == Owner.REQUEST,
        post.tenancy[slot] == pre.tenancy[slot],
        others_are_untouched(pre, post, slot),
        group_is_untouched(pre, post),
    )


@ensures(close_group, "I4")
def closing_a_group_frees_just_its_reserve(pre: Slots, post: Slots) -> Bool:
    """I4: every reserved slot is free again, and every other slot is as it was."""
    return and_(
        pre.group_is_open,
        not_(post.group_is_open),
        forall(
            pre.all(Slot),
            lambda slot: and_(
                post.owner[slot] == ite(pre.owner[slot] == Owner.RESERVED, Owner.FREE, lambda: pre.owner[slot]),
                post.holder[slot] == pre.holder[slot],
                post.tenancy[slot] == pre.tenancy[slot],
            ),
        ),
        post.free_slots.size == pre.free_slots.size + pre.reserved_slots.size,
    )


@ensures(clear, "I25")
def a_clear_restores_the_initial_state(pre: Slots, post: Slots) -> Bool:
    """I25: whatever was open or owned, all but the tenancy numbers is as in a new pool."""
    fresh = after(create, pre)
    return and_(
        forall(
            pre.all(Slot),
            lambda slot: and_(
                post.owner[slot] == fresh.owner[slot],
                post.holder[slot] == fresh.holder[slot],
                iff(post.free_slots.has(slot), fresh.free_slots.has(slot)),
                iff(post.reserved_slots.has(slot), fresh.reserved_slots.has(slot)),
            ),
        ),
        post.free_slots.size == fresh.free_slots.size,
        post.reserved_slots.size == fresh.reserved_slots.size,
        post.in_requests == fresh.in_requests,
        post.in_cache == fresh.in_cache,
        post.in_pending == fresh.in_pending,
        iff(post.group_is_open, fresh.group_is_open),
    )


@ensures(clear, "I3")
def a_clear_ends_every_handle(pre: Slots, post: Slots) -> Bool:
    """I3: nobody owns anything, and no handle from before lives."""
    return forall(
        pre.all(Slot),
        lambda slot: and_(
            not_(is_tenant(post.owner[slot])),
            implies(is_tenant(pre.owner[slot]), lambda: is_dead(post, slot, pre.tenancy[slot])),
            post.tenancy[slot] == pre.tenancy[slot] + ite(is_tenant(pre.owner[slot]), 1, 0),
        ),
    )


SPEC = Specification(
    name="slots",
    state=Slots,
    at_least={"total": 1},
    samples={Holder: (NOBODY, Holder(0), Holder(1))},
)
