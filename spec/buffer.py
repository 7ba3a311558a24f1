"""What one byte buffer shared by several sub-pools may do.

The sub-pools stand in a chain over the bytes 0 .. total - 1: sub-pool 0 grows up from the sink, the last one (where
there are several) grows down from the top, and any number of floats lie between the two. Physical page i of a sub-pool
is the bytes [i * P, (i + 1) * P), counted from byte 0, where P is that sub-pool's page size; so a page number never
depends on where the sub-pool lies now. The bytes below `sink_bytes` are the sink: page 0 of every sub-pool, where
padding goes.

Everything above the allocator holds virtual ids. A sub-pool either owns its ids or, as a window, binds pages for the
ids of another one (`id_owner`). A page inside a sub-pool's extent is bound to one id, a hole, or pending: let go of,
but perhaps still touched by what is in flight. Which page, hole or id is taken is the implementation's choice.

Bytes are in the model, as ghosts: `memory` says which write a byte was last given, `place` which byte of a page that
write meant. Both are keyed by byte, and what an owner wrote by its virtual id, so an overlap is a visible fault.
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
    Size,
    Specification,
    State,
    action,
    after,
    and_,
    assumption,
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


class SubPool(Id):
    """A sub-pool, by its place in the chain from byte 0 up."""


class Page(Id):
    """A physical page of a sub-pool, counted from byte 0 of the buffer."""


class Virtual(Id):
    """What the engine holds in place of a page: an id that outlives moves."""


class Byte(Id):
    """A byte of the buffer."""


class Place(Enumeration):
    """Where a page of a sub-pool stands."""

    OUTSIDE = 0
    HOLE = 1
    BOUND = 2
    PENDING = 3


UP_END = SubPool(0)
SINK = Virtual(0)
NO_ID = Virtual(-1)
SINK_PAGE = Page(0)
UNMAPPED = Page(-1)
PARKED = Page(0)
START = Byte(0)
ZEROED = 0
UNKNOWN = -1


class Buffer(State):
    """One buffer: the extent of every sub-pool, the tables between virtual ids and pages, and what is free."""

    sub_pools: Size[SubPool]
    pages: Size[Page]
    virtual_ids: Size[Virtual]
    total: Size[Byte]
    page_bytes: Given[Map[SubPool, Int]]
    ids: Given[Map[SubPool, Int]]
    id_owner: Given[Map[SubPool, SubPool]]
    zeroed: Given[Map[SubPool, Bool]]
    sink_bytes: Given[Int]
    bottom: Given[Page]
    top: Given[Page]
    first: Map[SubPool, Page]
    last: Map[SubPool, Page]
    physical: Map[tuple[SubPool, Virtual], Page]
    virtual: Map[tuple[SubPool, Page], Virtual]
    holes: Map[SubPool, Roster[Page]]
    pending: Map[SubPool, Roster[Page]]
    unmapped: Map[SubPool, Roster[Virtual]]
    bound: Map[SubPool, Int]
    tenancy: Ghost[Map[tuple[SubPool, Virtual], Int]]
    written: Ghost[Map[tuple[SubPool, Virtual], Int]]
    memory: Ghost[Map[Byte, Int]]
    place: Ghost[Map[Byte, Int]]
    clears: Ghost[Int]


# ---------------------------------------------------------------------------------------------------- definitions


@define
def is_down_end(pool: Buffer, k: SubPool) -> Bool:
    """Is this the sub-pool that grows down from the top? A buffer of one sub-pool has none."""
    return and_(k != UP_END, k - UP_END + 1 == pool.sub_pools)


@define
def is_float(pool: Buffer, k: SubPool) -> Bool:
    """Does this sub-pool lie between the two ends?"""
    return and_(k != UP_END, k - UP_END + 1 != pool.sub_pools)


@define
def offset(pool: Buffer, k: SubPool, page: Page) -> Int:
    """The byte at which a page of a sub-pool begins."""
    return (page - SINK_PAGE) * pool.page_bytes[k]


@define
def position(pool: Buffer, k: SubPool, page: Page, byte: Byte) -> Int:
    """Which byte of the page this byte of the buffer is, counted from 0."""
    return byte - START - offset(pool, k, page)


@define
def is_in_page(pool: Buffer, k: SubPool, page: Page, byte: Byte) -> Bool:
    """Is this byte one of the page's?"""
    return and_(position(pool, k, page, byte) >= 0, position(pool, k, page, byte) < pool.page_bytes[k])


@define
def is_empty(pool: Buffer, k: SubPool) -> Bool:
    """Has the sub-pool no pages at all? Then it is in nobody's way."""
    return pool.first[k] == pool.last[k]


@define
def is_inside(pool: Buffer, k: SubPool, page: Page) -> Bool:
    """Is the page in the extent of the sub-pool?"""
    return and_(pool.first[k] <= page, page < pool.last[k])


@define
def is_live(pool: Buffer, k: SubPool, v: Virtual) -> Bool:
    """Is the id bound to a page of this sub-pool?"""
    return and_(pool.all(SubPool).has(k), pool.all(Virtual).has(v), v != SINK, lambda: pool.physical[k, v] != UNMAPPED)


@define
def is_bindable(pool: Buffer, k: SubPool, v: Virtual) -> Bool:
    """Can the sub-pool bind a page for this id: a free one of its own, or, for a window, a live one of its owner?"""
    return and_(
        pool.all(Virtual).has(v),
        lambda: pool.unmapped[k].has(v),
        lambda: or_(pool.id_owner[k] == k, pool.physical[pool.id_owner[k], v] != UNMAPPED),
    )


@define
def is_frontier(pool: Buffer, k: SubPool, page: Page) -> Bool:
    """Would the page be the extent's next one, on a side on which the sub-pool may grow?"""
    return or_(and_(not_(is_down_end(pool, k)), page == pool.last[k]), and_(k != UP_END, page == pool.first[k] - 1))


@define
def fits(pool: Buffer, k: SubPool, page: Page) -> Bool:
    """Are the page's bytes above the sink, inside the buffer, and clear of every other sub-pool, on the right side?"""
    return and_(
        pool.sink_bytes <= offset(pool, k, page),
        offset(pool, k, page) + pool.page_bytes[k] <= pool.total,
        forall(
            pool.all(SubPool),
            lambda j: and_(
                implies(and_(j < k, not_(is_empty(pool, j))), offset(pool, j, pool.last[j]) <= offset(pool, k, page)),
                implies(
                    and_(k < j, not_(is_empty(pool, j))),
                    offset(pool, k, page) + pool.page_bytes[k] <= offset(pool, j, pool.first[j]),
                ),
            ),
        ),
    )


@define
def has_dependents(pool: Buffer, k: SubPool, v: Virtual) -> Bool:
    """Has a window bound a page for this id of its owner?"""
    return exists(pool.all(SubPool), lambda w: and_(w != k, pool.id_owner[w] == k, pool.physical[w, v] != UNMAPPED))


@define
def translate(pool: Buffer, k: SubPool, v: Virtual) -> Page:
    """The page that a reader or writer of an id uses: the id's own, and the sink's for every id that has none."""
    return ite(is_live(pool, k, v), lambda: pool.physical[k, v], SINK_PAGE)


@define
def place_of(pool: Buffer, k: SubPool, page: Page) -> Place:
    """Where a page stands."""
    return ite(
        not_(is_inside(pool, k, page)),
        Place.OUTSIDE,
        lambda: ite(
            pool.holes[k].has(page),
            Place.HOLE,
            lambda: ite(pool.pending[k].has(page), Place.PENDING, Place.BOUND),
        ),
    )


# ---------------------------------------------------------------------------------------------------- assumptions


@assumption
def pages_have_bytes_and_the_sink_holds_one(pool: Buffer) -> Bool:
    """A page has at least one byte, and the sink is as large as the largest page."""
    return forall(pool.all(SubPool), lambda k: and_(pool.page_bytes[k] >= 1, pool.page_bytes[k] <= pool.sink_bytes))


@assumption
def ids_have_one_owner(pool: Buffer) -> Bool:
    """A window takes the ids of a sub-pool that owns them; both count the same ids, and the tables cover them."""
    return forall(
        pool.all(SubPool),
        lambda k: and_(
            pool.ids[k] >= 1,
            pool.ids[k] <= pool.virtual_ids,
            pool.all(SubPool).has(pool.id_owner[k]),
            lambda: pool.id_owner[pool.id_owner[k]] == pool.id_owner[k],
            lambda: pool.ids[pool.id_owner[k]] == pool.ids[k],
        ),
    )


@assumption
def page_numbers_cover_the_buffer(pool: Buffer) -> Bool:
    """Every page that lies inside the buffer has an entry in the tables."""
    return forall(pool.all(SubPool), lambda k: pool.total < (pool.pages + 1) * pool.page_bytes[k])


@assumption
def the_ends_are_in_place(pool: Buffer) -> Bool:
    """`bottom` is the up end's first page above the sink, `top` the page number at which the down end begins."""
    return forall(
        pool.all(SubPool),
        lambda k: and_(
            implies(
                k == UP_END, lambda: and_(pool.bottom >= SINK_PAGE, pool.sink_bytes <= offset(pool, k, pool.bottom))
            ),
            implies(k == UP_END, pool.bottom - SINK_PAGE <= pool.pages),
            implies(is_down_end(pool, k), lambda: and_(pool.top >= SINK_PAGE, offset(pool, k, pool.top) <= pool.total)),
            implies(is_down_end(pool, k), pool.top - SINK_PAGE <= pool.pages),
        ),
    )


# -------------------------------------------------------------------------------------------------------- actions


@initial
def create(pool: Buffer) -> None:
    """Every extent is empty, every id unmapped; the bytes are whatever they were."""
    pool.first.relabel(lambda k: ite(is_float(pool, k), PARKED, lambda: ite(k == UP_END, pool.bottom, pool.top)))
    pool.last.relabel(lambda k: pool.first[k])
    pool.physical.relabel(lambda k, v: ite(v == SINK, SINK_PAGE, UNMAPPED))
    pool.virtual.relabel(lambda k, page: ite(page == SINK_PAGE, SINK, NO_ID))
    pool.holes.empty()
    pool.pending.empty()
    pool.unmapped.fill(lambda k: Virtual(1), lambda k: pool.ids[k])
    pool.bound.relabel(lambda k: 0)
    pool.tenancy.relabel(lambda k, v: 0)
    pool.written.relabel(lambda k, v: UNKNOWN)
    pool.clears = 0


@action
def bind_frontier(pool: Buffer, k: SubPool, v: Virtual, page: Chosen[Page]) -> None:
    """Bind an id to the next page of the extent, which grows by it."""
    require(pool.all(SubPool).has(k))
    require(is_bindable(pool, k, v))
    require(is_frontier(pool, k, page))
    require(fits(pool, k, page))
    pool.last[k] = ite(page == pool.last[k], lambda: pool.last[k] + 1, lambda: pool.last[k])
    pool.first[k] = ite(page < pool.first[k], page, lambda: pool.first[k])
    pool.unmapped[k].remove(v)
    pool.physical[k, v] = page
    pool.virtual[k, page] = v
    pool.bound[k] += 1
    pool.place.relabel(
        lambda b: position(pool, k, page, b), where=lambda b: and_(pool.zeroed[k], is_in_page(pool, k, page, b))
    )
    pool.memory.relabel(lambda b: ZEROED, where=lambda b: and_(pool.zeroed[k], is_in_page(pool, k, page, b)))
    pool.written[k, v] = ite(pool.zeroed[k], ZEROED, UNKNOWN)


@action
def bind_hole(pool: Buffer, k: SubPool, v: Virtual, page: Chosen[Page]) -> None:
    """Bind an id to a hole of the extent."""
    require(pool.all(SubPool).has(k))
    require(is_bindable(pool, k, v))
    require(pool.all(Page).has(page))
    require(pool.holes[k].has(page))
    pool.holes[k].remove(page)
    pool.unmapped[k].remove(v)
    pool.physical[k, v] = page
    pool.virtual[k, page] = v
    pool.bound[k] += 1
    pool.place.relabel(
        lambda b: position(pool, k, page, b), where=lambda b: and_(pool.zeroed[k], is_in_page(pool, k, page, b))
    )
    pool.memory.relabel(lambda b: ZEROED, where=lambda b: and_(pool.zeroed[k], is_in_page(pool, k, page, b)))
    pool.written[k, v] = ite(pool.zeroed[k], ZEROED, UNKNOWN)


@action
def unbind(pool: Buffer, k: SubPool, v: Virtual) -> None:
    """Let go of an id's page, which waits, pending. A window retires a page so; an owner frees an id so."""
    require(is_live(pool, k, v))
    require(not_(has_dependents(pool, k, v)))
    pool.pending[k].add(pool.physical[k, v])
    pool.virtual[k, pool.physical[k, v]] = NO_ID
    pool.physical[k, v] = UNMAPPED
    pool.unmapped[k].add(v)
    pool.bound[k] -= 1
    pool.tenancy[k, v] += 1
    pool.written[k, v] = UNKNOWN


@action
def reclaim(pool: Buffer, k: SubPool, page: Page) -> None:
    """Nothing in flight touches a pending page any more: it is a hole."""
    require(pool.all(SubPool).has(k))
    require(pool.all(Page).has(page))
    require(pool.pending[k].has(page))
    pool.pending[k].remove(page)
    pool.holes[k].add(page)


@action
def grow(pool: Buffer, k: SubPool, page: Chosen[Page]) -> None:
    """Take the next page into the extent as a hole, for a live page to move to."""
    require(pool.all(SubPool).has(k))
    require(is_frontier(pool, k, page))
    require(fits(pool, k, page))
    pool.last[k] = ite(page == pool.last[k], lambda: pool.last[k] + 1, lambda: pool.last[k])
    pool.first[k] = ite(page < pool.first[k], page, lambda: pool.first[k])
    pool.holes[k].add(page)


@action
def retreat_high(pool: Buffer, k: SubPool) -> None:
    """The frontier of an up end or float absorbs the hole below it."""
    require(pool.all(SubPool).has(k))
    require(not_(is_down_end(pool, k)))
    require(not_(is_empty(pool, k)))
    require(pool.holes[k].has(pool.last[k] - 1))
    pool.holes[k].remove(pool.last[k] - 1)
    pool.last[k] -= 1


@action
def retreat_low(pool: Buffer, k: SubPool) -> None:
    """The frontier of a down end or float absorbs the hole above it."""
    require(pool.all(SubPool).has(k))
    require(k != UP_END)
    require(not_(is_empty(pool, k)))
    require(pool.holes[k].has(pool.first[k]))
    pool.holes[k].remove(pool.first[k])
    pool.first[k] += 1


@action
def move(pool: Buffer, k: SubPool, v: Virtual, hole: Chosen[Page]) -> None:
    """Copy a live page into a hole; only the tables change above the allocator, and the source waits, pending."""
    require(is_live(pool, k, v))
    require(pool.all(Page).has(hole))
    require(pool.holes[k].has(hole))
    source = pool.physical[k, v]
    pool.holes[k].remove(hole)
    pool.pending[k].add(source)
    pool.virtual[k, source] = NO_ID
    pool.virtual[k, hole] = v
    pool.physical[k, v] = hole
    pool.memory.relabel(
        lambda b: pool.memory[b - offset(pool, k, hole) + offset(pool, k, source)],
        where=lambda b: is_in_page(pool, k, hole, b),
    )
    pool.place.relabel(
        lambda b: pool.place[b - offset(pool, k, hole) + offset(pool, k, source)],
        where=lambda b: is_in_page(pool, k, hole, b),
    )


@action
def place_float(pool: Buffer, k: SubPool, at: Chosen[Page]) -> None:
    """Put an empty float where it can grow: its next pages are `at` upwards and `at - 1` downwards."""
    require(pool.all(SubPool).has(k))
    require(is_float(pool, k))
    require(is_empty(pool, k))
    require(fits(pool, k, at))
    pool.first[k] = at
    pool.last[k] = at


@action
def park_float(pool: Buffer, k: SubPool) -> None:
    """Put an empty float out of the way."""
    require(pool.all(SubPool).has(k))
    require(is_float(pool, k))
    require(is_empty(pool, k))
    pool.first[k] = PARKED
    pool.last[k] = PARKED


@action
def write(pool: Buffer, k: SubPool, v: Virtual, stamp: Int) -> None:
    """Write a page through the table; whatever id has no page here (padding, a dead row, -1) writes the sink."""
    require(pool.all(SubPool).has(k))
    require(stamp > ZEROED)
    page = translate(pool, k, v)
    pool.place.relabel(lambda b: position(pool, k, page, b), where=lambda b: is_in_page(pool, k, page, b))
    pool.memory.relabel(lambda b: stamp, where=lambda b: is_in_page(pool, k, page, b))
    pool.written.relabel(lambda j, u: stamp, where=lambda j, u: and_(j == k, u == v))


@action
def clear(pool: Buffer) -> None:
    """Back to the initial state; only metadata changes, no byte is touched, and every tenancy ends."""
    pool.tenancy.relabel(
        lambda k, v: pool.tenancy[k, v] + 1, where=lambda k, v: and_(v != SINK, pool.physical[k, v] != UNMAPPED)
    )
    pool.first.relabel(lambda k: ite(is_float(pool, k), PARKED, lambda: ite(k == UP_END, pool.bottom, pool.top)))
    pool.last.relabel(lambda k: pool.first[k])
    pool.physical.relabel(lambda k, v: ite(v == SINK, SINK_PAGE, UNMAPPED))
    pool.virtual.relabel(lambda k, page: ite(page == SINK_PAGE, SINK, NO_ID))
    pool.holes.empty()
    pool.pending.empty()
    pool.unmapped.fill(lambda k: Virtual(1), lambda k: pool.ids[k])
    pool.bound.relabel(lambda k: 0)
    pool.written.relabel(lambda k, v: UNKNOWN)
    pool.clears += 1


# ------------------------------------------------------------------------------------------------------ invariants


@invariant("I14")
def extents_are_page_ranges(pool: Buffer) -> Bool:
    """I14: every extent runs from a first page to a last one, within the tables."""
    return forall(
        pool.all(SubPool),
        lambda k: and_(
            pool.first[k] >= SINK_PAGE, pool.first[k] <= pool.last[k], pool.last[k] - SINK_PAGE <= pool.pages
        ),
    )


@invariant("I14")
def the_ends_do_not_move(pool: Buffer) -> Bool:
    """I14: the up end begins at the bottom, the down end at the top."""
    return forall(
        pool.all(SubPool),
        lambda k: and_(
            implies(k == UP_END, pool.first[k] == pool.bottom),
            implies(is_down_end(pool, k), pool.last[k] == pool.top),
        ),
    )


@invariant("I14")
def extents_are_between_sink_and_end(pool: Buffer) -> Bool:
    """I14: no extent reaches into the sink or beyond the buffer."""
    return forall(
        pool.all(SubPool),
        lambda k: implies(
            not_(is_empty(pool, k)),
            and_(pool.sink_bytes <= offset(pool, k, pool.first[k]), offset(pool, k, pool.last[k]) <= pool.total),
        ),
    )


@invariant("I14")
def extents_are_in_order(pool: Buffer) -> Bool:
    """I14: frontiers never cross: of two extents the later in the chain begins where the earlier has ended."""
    return forall(
        pool.all(SubPool),
        lambda j: forall(
            pool.all(SubPool),
            lambda k: implies(
                and_(j < k, not_(is_empty(pool, j)), not_(is_empty(pool, k))),
                offset(pool, j, pool.last[j]) <= offset(pool, k, pool.first[k]),
            ),
        ),
    )


@invariant("I9", "I22")
def the_sink_is_the_sink_of_all(pool: Buffer) -> Bool:
    """I9, I22: id 0 is page 0 in every sub-pool, and page 0 is id 0."""
    return forall(
        pool.all(SubPool),
        lambda k: and_(pool.physical[k, SINK] == SINK_PAGE, pool.virtual[k, SINK_PAGE] == SINK),
    )


@invariant("I9")
def ids_lead_to_pages_and_back(pool: Buffer) -> Bool:
    """I9: a live id leads to a page of its sub-pool's extent, which leads back to it."""
    return forall(
        pool.all(SubPool),
        lambda k: forall(
            pool.all(Virtual),
            lambda v: implies(
                and_(v != SINK, pool.physical[k, v] != UNMAPPED),
                lambda: and_(
                    v - SINK < pool.ids[k],
                    pool.all(Page).has(pool.physical[k, v]),
                    is_inside(pool, k, pool.physical[k, v]),
                    lambda: pool.virtual[k, pool.physical[k, v]] == v,
                ),
            ),
        ),
    )


@invariant("I9")
def pages_lead_to_ids_and_back(pool: Buffer) -> Bool:
    """I9: a bound page leads to an id, which leads back to it."""
    return forall(
        pool.all(SubPool),
        lambda k: forall(
            pool.all(Page),
            lambda page: implies(
                and_(page != SINK_PAGE, pool.virtual[k, page] != NO_ID),
                lambda: and_(
                    pool.virtual[k, page] != SINK,
                    pool.all(Virtual).has(pool.virtual[k, page]),
                    lambda: pool.physical[k, pool.virtual[k, page]] == page,
                ),
            ),
        ),
    )


@invariant("I9")
def windows_bind_only_live_ids(pool: Buffer) -> Bool:
    """I9: a window has pages only for ids that are live in the sub-pool that owns them."""
    return forall(
        pool.all(SubPool),
        lambda w: forall(
            pool.all(Virtual),
            lambda v: implies(
                and_(v != SINK, pool.physical[w, v] != UNMAPPED), pool.physical[pool.id_owner[w], v] != UNMAPPED
            ),
        ),
    )


@invariant("I1", "I9")
def unmapped_ids_are_listed(pool: Buffer) -> Bool:
    """I1, I9: exactly the ids of the id space that have no page are listed as unmapped; a fresh id has no mapping."""
    return forall(
        pool.all(SubPool),
        lambda k: forall(
            pool.all(Virtual),
            lambda v: iff(
                pool.unmapped[k].has(v), and_(v != SINK, v - SINK < pool.ids[k], pool.physical[k, v] == UNMAPPED)
            ),
        ),
    )


@invariant("I1")
def holes_are_free_pages(pool: Buffer) -> Bool:
    """I1: a hole lies in the extent, is bound to no id, and is not pending."""
    return forall(
        pool.all(SubPool),
        lambda k: forall(
            pool.all(Page),
            lambda page: implies(
                pool.holes[k].has(page),
                and_(is_inside(pool, k, page), pool.virtual[k, page] == NO_ID, not_(pool.pending[k].has(page))),
            ),
        ),
    )


@invariant("I1")
def pending_pages_belong_to_nobody(pool: Buffer) -> Bool:
    """I1: a pending page lies in the extent and is bound to no id."""
    return forall(
        pool.all(SubPool),
        lambda k: forall(
            pool.all(Page),
            lambda page: implies(
                pool.pending[k].has(page), and_(is_inside(pool, k, page), pool.virtual[k, page] == NO_ID)
            ),
        ),
    )


@invariant("I1")
def every_page_of_an_extent_is_accounted_for(pool: Buffer) -> Bool:
    """I1: a page in the extent is bound, a hole, or pending."""
    return forall(
        pool.all(SubPool),
        lambda k: forall(
            pool.all(Page),
            lambda page: implies(
                and_(is_inside(pool, k, page), pool.virtual[k, page] == NO_ID),
                or_(pool.holes[k].has(page), pool.pending[k].has(page)),
            ),
        ),
    )


@invariant("I21")
def bound_pages_are_counted(pool: Buffer) -> Bool:
    """I21: for every sub-pool the count of bound pages is their number."""
    return forall(
        pool.all(SubPool),
        lambda k: counts(
            pool.bound[k],
            pool.all(Page),
            lambda page: and_(pool.virtual[k, page] != NO_ID, pool.virtual[k, page] != SINK),
        ),
    )


@invariant("I21")
def pages_are_conserved(pool: Buffer) -> Bool:
    """I21: bound + holes + pending = the pages of the extent, and so times the page size its bytes."""
    return forall(
        pool.all(SubPool),
        lambda k: pool.bound[k] + pool.holes[k].size + pool.pending[k].size == pool.last[k] - pool.first[k],
    )


@invariant("I21")
def ids_are_conserved(pool: Buffer) -> Bool:
    """I21: bound + unmapped + the sink = the ids of the sub-pool's id space."""
    return forall(pool.all(SubPool), lambda k: pool.bound[k] + pool.unmapped[k].size + 1 == pool.ids[k])


@invariant("I8", "I14", "I15")
def what_is_read_is_what_was_written(pool: Buffer) -> Bool:
    """I8, I14, I15: byte for byte, a live id's page holds what its owner wrote last, or promised zeros."""
    return forall(
        pool.all(SubPool),
        lambda k: forall(
            pool.all(Virtual),
            lambda v: forall(
                pool.all(Byte),
                lambda b: implies(
                    and_(
                        v != SINK,
                        pool.physical[k, v] != UNMAPPED,
                        pool.written[k, v] != UNKNOWN,
                        is_in_page(pool, k, pool.physical[k, v], b),
                    ),
                    and_(
                        pool.memory[b] == pool.written[k, v],
                        pool.place[b] == position(pool, k, pool.physical[k, v], b),
                    ),
                ),
            ),
        ),
    )


# -------------------------------------------------------------------------------------------------------- theorems


@define
def places(pool: Buffer, k: SubPool, page: Page) -> Int:
    """In how many places is this page: bound to an id, among the holes, pending?"""
    return (
        ite(pool.virtual[k, page] != NO_ID, 1, 0)
        + ite(pool.holes[k].has(page), 1, 0)
        + ite(pool.pending[k].has(page), 1, 0)
    )


@theorem("I1")
def every_page_is_in_exactly_one_place(pool: Buffer, k: SubPool, page: Page) -> Bool:
    """I1: a page inside the extent is bound, a hole or pending, and just one of these; outside it is none of them."""
    return implies(
        and_(pool.all(SubPool).has(k), pool.all(Page).has(page), page != SINK_PAGE),
        lambda: places(pool, k, page) == ite(is_inside(pool, k, page), 1, 0),
    )


@theorem("I1", "I22")
def the_sink_is_never_handed_out(pool: Buffer, k: SubPool, v: Virtual, page: Page) -> Bool:
    """I1, I22: no id is ever bound to page 0, and id 0 is never bound, unbound or moved."""
    return and_(
        not_(enabled(bind_frontier, pool, k, SINK, page)),
        not_(enabled(bind_hole, pool, k, SINK, page)),
        not_(enabled(bind_frontier, pool, k, v, SINK_PAGE)),
        not_(enabled(bind_hole, pool, k, v, SINK_PAGE)),
        not_(enabled(unbind, pool, k, SINK)),
        not_(enabled(move, pool, k, SINK, page)),
        not_(enabled(move, pool, k, v, SINK_PAGE)),
    )


@theorem("I2")
def only_a_live_id_can_be_let_go_of(pool: Buffer, k: SubPool, v: Virtual, page: Page) -> Bool:
    """I2: freeing twice, a foreign or negative id, an id of another sub-pool's space or the sink is refused."""
    return implies(
        not_(is_live(pool, k, v)),
        and_(not_(enabled(unbind, pool, k, v)), not_(enabled(move, pool, k, v, page))),
    )


@theorem("I2")
def a_live_id_can_always_be_let_go_of(pool: Buffer, k: SubPool, v: Virtual) -> Bool:
    """I2, the other side: nobody is refused who lets go of a page, once no window holds one for the same id."""
    return implies(
        and_(is_live(pool, k, v), lambda: not_(has_dependents(pool, k, v))), lambda: enabled(unbind, pool, k, v)
    )


@theorem("I2", "I9")
def a_window_can_always_retire_a_page(pool: Buffer, w: SubPool, v: Virtual) -> Bool:
    """I2, I9: windows have no dependents, so retiring an out-of-window page is never refused."""
    return implies(and_(is_live(pool, w, v), lambda: pool.id_owner[w] != w), lambda: enabled(unbind, pool, w, v))


@theorem("I2")
def a_pending_page_can_always_be_reclaimed(pool: Buffer, k: SubPool, page: Page) -> Bool:
    """I2: a page is reclaimed if it is pending, and refused otherwise."""
    return iff(
        and_(pool.all(SubPool).has(k), pool.all(Page).has(page), lambda: pool.pending[k].has(page)),
        enabled(reclaim, pool, k, page),
    )


@theorem("I9")
def two_ids_never_share_a_page(pool: Buffer, k: SubPool, v: Virtual, u: Virtual) -> Bool:
    """I9: in one sub-pool no two live ids lead to the same page."""
    return implies(
        and_(is_live(pool, k, v), is_live(pool, k, u), v != u), lambda: pool.physical[k, v] != pool.physical[k, u]
    )


@theorem("I9")
def a_window_owns_no_ids(pool: Buffer, w: SubPool, v: Virtual, page: Page) -> Bool:
    """I9: one sub-pool owns each id space; a window binds a page only for an id that is live there."""
    return implies(
        and_(
            pool.all(SubPool).has(w),
            lambda: pool.id_owner[w] != w,
            lambda: not_(is_live(pool, pool.id_owner[w], v)),
        ),
        lambda: and_(not_(enabled(bind_frontier, pool, w, v, page)), not_(enabled(bind_hole, pool, w, v, page))),
    )


@theorem("I9", "I11")
def whatever_fits_can_be_bound(pool: Buffer, k: SubPool, v: Virtual, page: Page) -> Bool:
    """I9, I11: an own id without a page, or for a window a live id of its owner, is refused no page that fits."""
    return implies(
        and_(
            pool.all(SubPool).has(k),
            lambda: pool.all(Virtual).has(v),
            lambda: v != SINK,
            lambda: v - SINK < pool.ids[k],
            lambda: pool.physical[k, v] == UNMAPPED,
            lambda: or_(pool.id_owner[k] == k, is_live(pool, pool.id_owner[k], v)),
        ),
        lambda: and_(
            iff(enabled(bind_frontier, pool, k, v, page), and_(is_frontier(pool, k, page), fits(pool, k, page))),
            iff(
                enabled(bind_hole, pool, k, v, page),
                and_(pool.all(Page).has(page), lambda: pool.holes[k].has(page)),
            ),
        ),
    )


@theorem("I11")
def whatever_fits_can_be_taken(pool: Buffer, k: SubPool, page: Page) -> Bool:
    """I11: the extent can take its next page exactly where that fits."""
    return implies(
        pool.all(SubPool).has(k),
        lambda: iff(enabled(grow, pool, k, page), and_(is_frontier(pool, k, page), fits(pool, k, page))),
    )


@theorem("I14")
def bytes_of_two_pages_never_overlap(pool: Buffer, j: SubPool, u: Virtual, k: SubPool, v: Virtual, b: Byte) -> Bool:
    """I14: no byte belongs to two live ids, whether of one sub-pool or of two, and none of theirs to the sink."""
    return implies(
        and_(
            is_live(pool, j, u),
            is_live(pool, k, v),
            or_(j != k, u != v),
            lambda: is_in_page(pool, j, pool.physical[j, u], b),
        ),
        lambda: and_(
            not_(is_in_page(pool, k, pool.physical[k, v], b)),
            b - START >= pool.sink_bytes,
            b - START < pool.total,
        ),
    )


@theorem("I9", "I22")
def an_id_without_a_page_means_the_sink(pool: Buffer, k: SubPool, v: Virtual) -> Bool:
    """I9, I22: translation is total: a live id is its page inside the extent, every other one the sink."""
    return implies(
        pool.all(SubPool).has(k),
        lambda: ite(
            is_live(pool, k, v),
            lambda: is_inside(pool, k, translate(pool, k, v)),
            lambda: translate(pool, k, v) == SINK_PAGE,
        ),
    )


@theorem("I22")
def anything_can_be_written(pool: Buffer, k: SubPool, v: Virtual, stamp: Int) -> Bool:
    """I22: a write is never refused because of its id; padding is no error."""
    return implies(and_(pool.all(SubPool).has(k), stamp > ZEROED), lambda: enabled(write, pool, k, v, stamp))


@theorem("I21")
def counts_are_never_negative(pool: Buffer, k: SubPool) -> Bool:
    """I21: no count is negative, none is above the pages of the extent or the ids of the id space."""
    return implies(
        pool.all(SubPool).has(k),
        lambda: and_(
            pool.bound[k] >= 0,
            pool.holes[k].size >= 0,
            pool.pending[k].size >= 0,
            pool.unmapped[k].size >= 0,
            pool.bound[k] <= pool.last[k] - pool.first[k],
            pool.bound[k] < pool.ids[k],
        ),
    )


# ------------------------------------------------------------------------------------------- capacity and progress


@define
def has_room_above(pool: Buffer, k: SubPool, n: Int) -> Bool:
    """Do n more pages fit above the extent? (An empty float first has to be placed.)"""
    return and_(
        not_(is_down_end(pool, k)),
        or_(k == UP_END, not_(is_empty(pool, k))),
        offset(pool, k, pool.last[k] + n) <= pool.total,
        forall(
            pool.all(SubPool),
            lambda j: implies(
                and_(k < j, not_(is_empty(pool, j))),
                offset(pool, k, pool.last[k] + n) <= offset(pool, j, pool.first[j]),
            ),
        ),
    )


@define
def has_room_below(pool: Buffer, k: SubPool, n: Int) -> Bool:
    """Do n more pages fit below the extent? (An empty float first has to be placed.)"""
    return and_(
        k != UP_END,
        or_(is_down_end(pool, k), not_(is_empty(pool, k))),
        pool.first[k] - n >= SINK_PAGE,
        pool.sink_bytes <= offset(pool, k, pool.first[k] - n),
        forall(
            pool.all(SubPool),
            lambda j: implies(
                and_(j < k, not_(is_empty(pool, j))),
                offset(pool, j, pool.last[j]) <= offset(pool, k, pool.first[k] - n),
            ),
        ),
    )


@define
def can_serve(pool: Buffer, k: SubPool, holes: Int, above: Int, below: Int) -> Bool:
    """The capacity of a sub-pool that owns ids: so many holes, so many pages on either side, ids for all of them."""
    return and_(
        pool.all(SubPool).has(k),
        lambda: pool.id_owner[k] == k,
        and_(holes >= 0, above >= 0, below >= 0),
        lambda: pool.holes[k].size >= holes,
        lambda: or_(above == 0, has_room_above(pool, k, above)),
        lambda: or_(below == 0, has_room_below(pool, k, below)),
        lambda: pool.unmapped[k].size >= holes + above + below,
    )


@theorem("I4", "I21")
def capacity_in_holes_is_bound(pool: Buffer, k: SubPool, holes: Int, above: Int, below: Int) -> Bool:
    """I4: one bind into a hole succeeds and leaves the rest of the capacity; so, by induction, all of it."""
    return implies(
        and_(holes > 0, can_serve(pool, k, holes, above, below)),
        lambda: exists(
            pool.all(Virtual),
            lambda v: exists(
                pool.all(Page),
                lambda page: and_(
                    enabled(bind_hole, pool, k, v, page),
                    lambda: can_serve(after(bind_hole, pool, k, v, page), k, holes - 1, above, below),
                ),
                witness=lambda: pool.holes[k].pick(),
            ),
            witness=lambda: pool.unmapped[k].pick(),
        ),
    )


@theorem("I4", "I21")
def capacity_above_is_bound(pool: Buffer, k: SubPool, holes: Int, above: Int, below: Int) -> Bool:
    """I4: one bind at the upper frontier succeeds and leaves the rest of the capacity."""
    return implies(
        and_(above > 0, can_serve(pool, k, holes, above, below)),
        lambda: exists(
            pool.all(Virtual),
            lambda v: and_(
                enabled(bind_frontier, pool, k, v, pool.last[k]),
                lambda: can_serve(after(bind_frontier, pool, k, v, pool.last[k]), k, holes, above - 1, below),
            ),
            witness=lambda: pool.unmapped[k].pick(),
        ),
    )


@theorem("I4", "I21")
def capacity_below_is_bound(pool: Buffer, k: SubPool, holes: Int, above: Int, below: Int) -> Bool:
    """I4: one bind at the lower frontier succeeds and leaves the rest of the capacity."""
    return implies(
        and_(below > 0, can_serve(pool, k, holes, above, below)),
        lambda: exists(
            pool.all(Virtual),
            lambda v: and_(
                enabled(bind_frontier, pool, k, v, pool.first[k] - 1),
                lambda: can_serve(after(bind_frontier, pool, k, v, pool.first[k] - 1), k, holes, above, below - 1),
            ),
            witness=lambda: pool.unmapped[k].pick(),
        ),
    )


@define
def share_a_gap(pool: Buffer, j: SubPool, k: SubPool) -> Bool:
    """Do these two sub-pools grow towards each other, with nothing that has pages between them?"""
    return and_(
        pool.all(SubPool).has(j),
        pool.all(SubPool).has(k),
        j < k,
        lambda: or_(j == UP_END, not_(is_empty(pool, j))),
        lambda: or_(is_down_end(pool, k), not_(is_empty(pool, k))),
        lambda: forall(pool.all(SubPool), lambda i: implies(and_(j < i, i < k), is_empty(pool, i))),
    )


@define
def joint_demand_fits(pool: Buffer, j: SubPool, m: Int, k: SubPool, n: Int) -> Bool:
    """Do m pages of the lower and n pages of the upper sub-pool fit into the one gap together?"""
    return and_(
        share_a_gap(pool, j, k),
        and_(m >= 0, n >= 0),
        lambda: offset(pool, j, pool.last[j] + m) <= offset(pool, k, pool.first[k] - n),
    )


@theorem("I4", "I11")
def joint_demand_is_decided_on_the_joint_bytes(
    pool: Buffer, j: SubPool, m: Int, k: SubPool, n: Int, v: Virtual
) -> Bool:
    """I4, I11: what fits jointly can be bound on either side first, and the rest of the demand still fits."""
    return implies(
        joint_demand_fits(pool, j, m, k, n),
        lambda: and_(
            implies(
                and_(m > 0, is_bindable(pool, j, v)),
                lambda: and_(
                    enabled(bind_frontier, pool, j, v, pool.last[j]),
                    lambda: joint_demand_fits(after(bind_frontier, pool, j, v, pool.last[j]), j, m - 1, k, n),
                ),
            ),
            implies(
                and_(n > 0, is_bindable(pool, k, v)),
                lambda: and_(
                    enabled(bind_frontier, pool, k, v, pool.first[k] - 1),
                    lambda: joint_demand_fits(after(bind_frontier, pool, k, v, pool.first[k] - 1), j, m, k, n - 1),
                ),
            ),
        ),
    )


@define
def work_above(pool: Buffer, k: SubPool) -> Int:
    """What is left to compact from the top: three steps a page, less what the top page has behind it."""
    return 3 * (pool.last[k] - pool.first[k]) + ite(
        pool.holes[k].has(pool.last[k] - 1), 0, lambda: ite(pool.pending[k].has(pool.last[k] - 1), 1, 2)
    )


@define
def work_below(pool: Buffer, k: SubPool) -> Int:
    """What is left to compact from the bottom: three steps a page, less what the lowest page has behind it."""
    return 3 * (pool.last[k] - pool.first[k]) + ite(
        pool.holes[k].has(pool.first[k]), 0, lambda: ite(pool.pending[k].has(pool.first[k]), 1, 2)
    )


@define
def is_less_above(pre: Buffer, post: Buffer, k: SubPool) -> Bool:
    """Is there less left to compact from the top, and never less than nothing?"""
    return or_(is_empty(post, k), lambda: and_(work_above(post, k) < work_above(pre, k), work_above(post, k) >= 0))


@define
def is_less_below(pre: Buffer, post: Buffer, k: SubPool) -> Bool:
    """Is there less left to compact from the bottom, and never less than nothing?"""
    return or_(is_empty(post, k), lambda: and_(work_below(post, k) < work_below(pre, k), work_below(post, k) >= 0))


@theorem("I8", "I11")
def compaction_from_above_ends_without_holes(pool: Buffer, k: SubPool) -> Bool:
    """I11: while there is a hole, the top page can retreat, be reclaimed or move into one, and less is left to do."""
    return implies(
        and_(
            pool.all(SubPool).has(k),
            not_(is_down_end(pool, k)),
            lambda: pool.holes[k].size > 0,
        ),
        lambda: ite(
            pool.holes[k].has(pool.last[k] - 1),
            lambda: and_(enabled(retreat_high, pool, k), is_less_above(pool, after(retreat_high, pool, k), k)),
            lambda: ite(
                pool.pending[k].has(pool.last[k] - 1),
                lambda: and_(
                    enabled(reclaim, pool, k, pool.last[k] - 1),
                    is_less_above(pool, after(reclaim, pool, k, pool.last[k] - 1), k),
                ),
                lambda: exists(
                    pool.all(Page),
                    lambda hole: and_(
                        enabled(move, pool, k, pool.virtual[k, pool.last[k] - 1], hole),
                        lambda: is_less_above(pool, after(move, pool, k, pool.virtual[k, pool.last[k] - 1], hole), k),
                    ),
                    witness=lambda: pool.holes[k].pick(),
                ),
            ),
        ),
    )


@theorem("I8", "I11")
def compaction_from_below_ends_without_holes(pool: Buffer, k: SubPool) -> Bool:
    """I11: the same from the lower side, for the down end and for floats."""
    return implies(
        and_(pool.all(SubPool).has(k), k != UP_END, lambda: pool.holes[k].size > 0),
        lambda: ite(
            pool.holes[k].has(pool.first[k]),
            lambda: and_(enabled(retreat_low, pool, k), is_less_below(pool, after(retreat_low, pool, k), k)),
            lambda: ite(
                pool.pending[k].has(pool.first[k]),
                lambda: and_(
                    enabled(reclaim, pool, k, pool.first[k]),
                    is_less_below(pool, after(reclaim, pool, k, pool.first[k]), k),
                ),
                lambda: exists(
                    pool.all(Page),
                    lambda hole: and_(
                        enabled(move, pool, k, pool.virtual[k, pool.first[k]], hole),
                        lambda: is_less_below(pool, after(move, pool, k, pool.virtual[k, pool.first[k]], hole), k),
                    ),
                    witness=lambda: pool.holes[k].pick(),
                ),
            ),
        ),
    )


@theorem("I8", "I11")
def a_float_can_make_room_above(pool: Buffer, k: SubPool) -> Bool:
    """I11: a float with room below takes a page there, and its top page, if bound, can move to it."""
    return implies(
        and_(
            pool.all(SubPool).has(k),
            lambda: is_float(pool, k),
            lambda: has_room_below(pool, k, 1),
            lambda: pool.virtual[k, pool.last[k] - 1] != NO_ID,
        ),
        lambda: and_(
            enabled(grow, pool, k, pool.first[k] - 1),
            enabled(
                move,
                after(grow, pool, k, pool.first[k] - 1),
                k,
                pool.virtual[k, pool.last[k] - 1],
                pool.first[k] - 1,
            ),
        ),
    )


@theorem("I8", "I11")
def a_float_can_make_room_below(pool: Buffer, k: SubPool) -> Bool:
    """I11: a float with room above takes a page there, and its lowest page, if bound, can move to it."""
    return implies(
        and_(
            pool.all(SubPool).has(k),
            lambda: is_float(pool, k),
            lambda: has_room_above(pool, k, 1),
            lambda: pool.virtual[k, pool.first[k]] != NO_ID,
        ),
        lambda: and_(
            enabled(grow, pool, k, pool.last[k]),
            enabled(move, after(grow, pool, k, pool.last[k]), k, pool.virtual[k, pool.first[k]], pool.last[k]),
        ),
    )


@theorem("I11")
def an_empty_float_is_in_nobodys_way(pool: Buffer, k: SubPool, at: Page) -> Bool:
    """I11: it can be parked, and placed wherever a page of it fits."""
    return implies(
        and_(pool.all(SubPool).has(k), lambda: is_float(pool, k), lambda: is_empty(pool, k)),
        lambda: and_(
            enabled(park_float, pool, k),
            iff(enabled(place_float, pool, k, at), fits(pool, k, at)),
            implies(
                fits(pool, k, at),
                lambda: and_(
                    fits(after(place_float, pool, k, at), k, at),
                    is_frontier(after(place_float, pool, k, at), k, at),
                ),
            ),
        ),
    )


@theorem("I11", "I14")
def an_empty_float_takes_no_room(pool: Buffer, k: SubPool, at: Page, j: SubPool, page: Page) -> Bool:
    """I11, I14: wherever an empty float is placed, what fits another sub-pool is what fitted before."""
    return implies(
        and_(pool.all(SubPool).has(j), j != k, enabled(place_float, pool, k, at)),
        lambda: iff(fits(pool, j, page), fits(after(place_float, pool, k, at), j, page)),
    )


@theorem("I8")
def moves_of_a_batch_are_a_parallel_copy(
    pool: Buffer, k: SubPool, v: Virtual, hole: Page, u: Virtual, other: Page, b: Byte
) -> Bool:
    """I8: of two moves allowed at once with different ids and holes, neither writes what the other reads or writes."""
    return implies(
        and_(
            enabled(move, pool, k, v, hole),
            enabled(move, pool, k, u, other),
            v != u,
            hole != other,
            pool.all(Byte).has(b),
            lambda: or_(is_in_page(pool, k, pool.physical[k, u], b), is_in_page(pool, k, other, b)),
        ),
        lambda: and_(
            after(move, pool, k, v, hole).memory[b] == pool.memory[b],
            after(move, pool, k, v, hole).place[b] == pool.place[b],
        ),
    )


# ----------------------------------------------------------------------------------------------- claims about steps


@define
def is_legal_edge(old: Place, new: Place) -> Bool:
    """The lifecycle of a page: a bound one waits, pending, before it is a hole; only holes leave the extent."""
    return or_(
        old == new,
        and_(old == Place.OUTSIDE, or_(new == Place.HOLE, new == Place.BOUND)),
        and_(old == Place.HOLE, or_(new == Place.BOUND, new == Place.OUTSIDE)),
        and_(old == Place.BOUND, new == Place.PENDING),
        and_(old == Place.PENDING, new == Place.HOLE),
    )


@step("I1", "I5")
def pages_change_only_along_the_lifecycle(pre: Buffer, post: Buffer) -> Bool:
    """I1, I5: unless everything is cleared, no page is reused before it has been pending and reclaimed."""
    return forall(
        pre.all(SubPool),
        lambda k: forall(
            pre.all(Page),
            lambda page: implies(
                pre.clears == post.clears, is_legal_edge(place_of(pre, k, page), place_of(post, k, page))
            ),
        ),
    )


@step("I3", "I9")
def a_tenancy_lasts_as_long_as_its_mapping(pre: Buffer, post: Buffer) -> Bool:
    """I3, I9: a tenancy ends when the id loses its page, at no other time, and never comes back."""
    return forall(
        pre.all(SubPool),
        lambda k: forall(
            pre.all(Virtual),
            lambda v: (
                post.tenancy[k, v]
                == pre.tenancy[k, v] + ite(and_(pre.physical[k, v] != UNMAPPED, post.physical[k, v] == UNMAPPED), 1, 0)
            ),
        ),
    )


@step("I14")
def page_sizes_and_ends_stay(pre: Buffer, post: Buffer) -> Bool:
    """I14: the up end never leaves the bottom, the down end never the top."""
    return forall(
        pre.all(SubPool),
        lambda k: and_(
            implies(k == UP_END, pre.first[k] == post.first[k]),
            implies(is_down_end(pre, k), pre.last[k] == post.last[k]),
        ),
    )


@define
def ids_are_untouched(pre: Buffer, post: Buffer, k: SubPool, v: Virtual) -> Bool:
    """Every id but this one, in every sub-pool, keeps its page and what was written there."""
    return forall(
        pre.all(SubPool),
        lambda j: forall(
            pre.all(Virtual),
            lambda u: implies(
                or_(j != k, u != v),
                and_(
                    pre.physical[j, u] == post.physical[j, u],
                    pre.written[j, u] == post.written[j, u],
                ),
            ),
        ),
    )


@define
def extents_are_untouched(pre: Buffer, post: Buffer) -> Bool:
    """Every sub-pool lies where it lay."""
    return forall(pre.all(SubPool), lambda j: and_(pre.first[j] == post.first[j], pre.last[j] == post.last[j]))


@define
def others_lie_where_they_lay(pre: Buffer, post: Buffer, k: SubPool) -> Bool:
    """Every sub-pool but this one keeps its extent."""
    return forall(
        pre.all(SubPool),
        lambda j: implies(j != k, and_(pre.first[j] == post.first[j], pre.last[j] == post.last[j])),
    )


@define
def bytes_are_untouched(pre: Buffer, post: Buffer) -> Bool:
    """No byte of the buffer changes."""
    return forall(pre.all(Byte), lambda b: and_(pre.memory[b] == post.memory[b], pre.place[b] == post.place[b]))


@define
def bytes_outside_are_untouched(pre: Buffer, post: Buffer, k: SubPool, page: Page) -> Bool:
    """No byte outside this page changes."""
    return forall(
        pre.all(Byte),
        lambda b: implies(
            not_(is_in_page(pre, k, page, b)),
            and_(pre.memory[b] == post.memory[b], pre.place[b] == post.place[b]),
        ),
    )


@define
def shows_no_earlier_tenant(post: Buffer, k: SubPool, page: Page) -> Bool:
    """Where zeroing is promised, every byte of the page is zero."""
    return implies(
        post.zeroed[k],
        forall(post.all(Byte), lambda b: implies(is_in_page(post, k, page, b), post.memory[b] == ZEROED)),
    )


@ensures(create, "I25")
def a_new_buffer_is_free(pre: Buffer, post: Buffer) -> Bool:
    """I25: whatever the tables held, no id is live, no extent has a page, and no byte was touched."""
    return and_(
        forall(post.all(SubPool), lambda k: and_(is_empty(post, k), post.unmapped[k].size + 1 == post.ids[k])),
        forall(post.all(SubPool), lambda k: forall(post.all(Virtual), lambda v: not_(is_live(post, k, v)))),
        forall(post.all(SubPool), lambda k: implies(is_float(post, k), post.first[k] == PARKED)),
        forall(
            post.all(SubPool),
            lambda k: forall(post.all(Virtual), lambda v: and_(post.tenancy[k, v] == 0, post.written[k, v] == UNKNOWN)),
        ),
        bytes_are_untouched(pre, post),
        post.clears == 0,
    )


@ensures(bind_frontier, "I4", "I9", "I15")
def a_bind_at_the_frontier_gives_the_page(pre: Buffer, post: Buffer, k: SubPool, v: Virtual, page: Page) -> Bool:
    """I4, I9, I15: the id leads to a page that was outside; it shows no earlier tenant; nothing else changed."""
    return and_(
        not_(is_inside(pre, k, page)),
        not_(is_live(pre, k, v)),
        post.physical[k, v] == page,
        post.written[k, v] == ite(pre.zeroed[k], ZEROED, UNKNOWN),
        or_(pre.id_owner[k] == k, lambda: is_live(pre, pre.id_owner[k], v)),
        post.last[k] - post.first[k] == pre.last[k] - pre.first[k] + 1,
        shows_no_earlier_tenant(post, k, page),
        bytes_outside_are_untouched(pre, post, k, page),
        implies(not_(pre.zeroed[k]), bytes_are_untouched(pre, post)),
        ids_are_untouched(pre, post, k, v),
        others_lie_where_they_lay(pre, post, k),
    )


@ensures(bind_hole, "I4", "I9", "I15")
def a_bind_of_a_hole_gives_the_page(pre: Buffer, post: Buffer, k: SubPool, v: Virtual, page: Page) -> Bool:
    """I4, I9, I15: the id leads to what was a hole; it shows no earlier tenant; nothing else changed."""
    return and_(
        pre.holes[k].has(page),
        not_(is_live(pre, k, v)),
        post.physical[k, v] == page,
        post.written[k, v] == ite(pre.zeroed[k], ZEROED, UNKNOWN),
        or_(pre.id_owner[k] == k, lambda: is_live(pre, pre.id_owner[k], v)),
        post.holes[k].size == pre.holes[k].size - 1,
        shows_no_earlier_tenant(post, k, page),
        bytes_outside_are_untouched(pre, post, k, page),
        implies(not_(pre.zeroed[k]), bytes_are_untouched(pre, post)),
        ids_are_untouched(pre, post, k, v),
        extents_are_untouched(pre, post),
    )


@ensures(unbind, "I2", "I3", "I5")
def an_unbound_page_waits(pre: Buffer, post: Buffer, k: SubPool, v: Virtual) -> Bool:
    """I2, I3, I5: the id was live and is dead; its page is pending, so that nobody can be given it yet."""
    return and_(
        is_live(pre, k, v),
        not_(is_live(post, k, v)),
        post.written[k, v] == UNKNOWN,
        post.pending[k].has(pre.physical[k, v]),
        not_(post.holes[k].has(pre.physical[k, v])),
        post.pending[k].size == pre.pending[k].size + 1,
        not_(has_dependents(pre, k, v)),
        not_(enabled(unbind, post, k, v)),
        ids_are_untouched(pre, post, k, v),
        extents_are_untouched(pre, post),
        bytes_are_untouched(pre, post),
    )


@ensures(reclaim, "I1", "I21")
def a_reclaimed_page_is_a_hole(pre: Buffer, post: Buffer, k: SubPool, page: Page) -> Bool:
    """I1, I21: what was pending is a hole, and nothing else changed."""
    return and_(
        pre.pending[k].has(page),
        post.holes[k].has(page),
        post.holes[k].size == pre.holes[k].size + 1,
        ids_are_untouched(pre, post, k, NO_ID),
        extents_are_untouched(pre, post),
        bytes_are_untouched(pre, post),
    )


@ensures(grow, "I14", "I21")
def growing_adds_one_hole(pre: Buffer, post: Buffer, k: SubPool, page: Page) -> Bool:
    """I14, I21: the extent has one page more, which was outside and is a hole."""
    return and_(
        not_(is_inside(pre, k, page)),
        post.holes[k].has(page),
        post.holes[k].size == pre.holes[k].size + 1,
        post.last[k] - post.first[k] == pre.last[k] - pre.first[k] + 1,
        ids_are_untouched(pre, post, k, NO_ID),
        others_lie_where_they_lay(pre, post, k),
        bytes_are_untouched(pre, post),
    )


@ensures(retreat_high, "I11", "I21")
def a_retreat_from_above_absorbs_a_hole(pre: Buffer, post: Buffer, k: SubPool) -> Bool:
    """I11, I21: the extent gives up its top page, which was a hole, and nothing else."""
    return and_(
        pre.holes[k].has(pre.last[k] - 1),
        post.last[k] == pre.last[k] - 1,
        post.first[k] == pre.first[k],
        post.holes[k].size == pre.holes[k].size - 1,
        ids_are_untouched(pre, post, k, NO_ID),
        others_lie_where_they_lay(pre, post, k),
        bytes_are_untouched(pre, post),
    )


@ensures(retreat_low, "I11", "I21")
def a_retreat_from_below_absorbs_a_hole(pre: Buffer, post: Buffer, k: SubPool) -> Bool:
    """I11, I21: the extent gives up its lowest page, which was a hole, and nothing else."""
    return and_(
        pre.holes[k].has(pre.first[k]),
        post.first[k] == pre.first[k] + 1,
        post.last[k] == pre.last[k],
        post.holes[k].size == pre.holes[k].size - 1,
        ids_are_untouched(pre, post, k, NO_ID),
        others_lie_where_they_lay(pre, post, k),
        bytes_are_untouched(pre, post),
    )


@ensures(move, "I8", "I9")
def a_move_changes_only_where_the_page_lies(pre: Buffer, post: Buffer, k: SubPool, v: Virtual, hole: Page) -> Bool:
    """I8, I9: the id leads to the former hole, with the bytes that it had; the source waits; no other id notices."""
    return and_(
        is_live(pre, k, v),
        pre.holes[k].has(hole),
        post.physical[k, v] == hole,
        post.written[k, v] == pre.written[k, v],
        post.pending[k].has(pre.physical[k, v]),
        forall(
            pre.all(Byte),
            lambda b: implies(
                is_in_page(pre, k, hole, b),
                lambda: and_(
                    post.memory[b] == pre.memory[b - offset(pre, k, hole) + offset(pre, k, pre.physical[k, v])],
                    post.place[b] == pre.place[b - offset(pre, k, hole) + offset(pre, k, pre.physical[k, v])],
                ),
            ),
        ),
        bytes_outside_are_untouched(pre, post, k, hole),
        ids_are_untouched(pre, post, k, v),
        extents_are_untouched(pre, post),
    )


@ensures(place_float, "I11", "I14")
def a_placed_float_is_empty_and_fits(pre: Buffer, post: Buffer, k: SubPool, at: Page) -> Bool:
    """I11, I14: only a float, only while it is empty, only where a page of it fits; nothing else changed."""
    return and_(
        is_float(pre, k),
        is_empty(pre, k),
        fits(pre, k, at),
        is_empty(post, k),
        post.first[k] == at,
        ids_are_untouched(pre, post, k, NO_ID),
        others_lie_where_they_lay(pre, post, k),
        bytes_are_untouched(pre, post),
    )


@ensures(park_float, "I11", "I14")
def a_parked_float_is_empty(pre: Buffer, post: Buffer, k: SubPool) -> Bool:
    """I11, I14: only a float, only while it is empty; nothing else changed."""
    return and_(
        is_float(pre, k),
        is_empty(pre, k),
        is_empty(post, k),
        post.first[k] == PARKED,
        ids_are_untouched(pre, post, k, NO_ID),
        others_lie_where_they_lay(pre, post, k),
        bytes_are_untouched(pre, post),
    )


@ensures(write, "I9", "I22")
def a_write_reaches_its_page_or_the_sink(pre: Buffer, post: Buffer, k: SubPool, v: Virtual, stamp: Int) -> Bool:
    """I9, I22: every byte of the id's page holds the write; where the id has none, only the sink's bytes change."""
    return and_(
        stamp != ZEROED,
        forall(
            pre.all(Byte),
            lambda b: implies(is_in_page(pre, k, translate(pre, k, v), b), post.memory[b] == stamp),
        ),
        bytes_outside_are_untouched(pre, post, k, translate(pre, k, v)),
        implies(is_live(pre, k, v), lambda: post.written[k, v] == stamp),
        implies(
            not_(is_live(pre, k, v)),
            forall(pre.all(Byte), lambda b: implies(b - START >= pre.sink_bytes, pre.memory[b] == post.memory[b])),
        ),
        ids_are_untouched(pre, post, k, v),
        extents_are_untouched(pre, post),
    )


@ensures(clear, "I25")
def a_clear_restores_the_initial_state(pre: Buffer, post: Buffer) -> Bool:
    """I25: tables, extents and counts are as in a new buffer, whatever was open; no byte is touched."""
    fresh = after(create, pre)
    return and_(
        forall(
            pre.all(SubPool),
            lambda k: and_(
                post.first[k] == fresh.first[k],
                post.last[k] == fresh.last[k],
                post.bound[k] == fresh.bound[k],
                post.holes[k].size == fresh.holes[k].size,
                post.pending[k].size == fresh.pending[k].size,
                post.unmapped[k].size == fresh.unmapped[k].size,
            ),
        ),
        forall(
            pre.all(SubPool),
            lambda k: forall(
                pre.all(Virtual),
                lambda v: and_(
                    post.physical[k, v] == fresh.physical[k, v],
                    post.written[k, v] == fresh.written[k, v],
                    iff(post.unmapped[k].has(v), fresh.unmapped[k].has(v)),
                ),
            ),
        ),
        forall(
            pre.all(SubPool),
            lambda k: forall(pre.all(Page), lambda page: post.virtual[k, page] == fresh.virtual[k, page]),
        ),
        bytes_are_untouched(pre, post),
        post.clears == pre.clears + 1,
    )


SPEC = Specification(
    name="buffer",
    state=Buffer,
    at_least={"sub_pools": 1, "pages": 1, "virtual_ids": 1},
    samples={int: (0, 1)},
)
