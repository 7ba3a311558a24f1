"""Planted faults of spec/buffer.py. Each body is ours; the mechanism is that of the report named beside it."""

from __future__ import annotations

from collections.abc import Mapping

from poolproof.proofs.subject import Twin
from poolproof.spec.buffer import (
    NO_ID,
    PARKED,
    SINK,
    SINK_PAGE,
    UNKNOWN,
    UNMAPPED,
    UP_END,
    ZEROED,
    Buffer,
    Page,
    SubPool,
    Virtual,
    bind_frontier,
    bind_hole,
    clear,
    create,
    fits,
    grow,
    has_dependents,
    is_bindable,
    is_down_end,
    is_empty,
    is_float,
    is_frontier,
    is_in_page,
    is_live,
    move,
    offset,
    position,
    reclaim,
    retreat_high,
    translate,
    unbind,
    write,
)
from poolproof.spec.language import Chosen, Int, and_, ite, not_, or_, require, variant

# -------------------------------------------------------------------------------------------- letting go of a page


@variant(unbind)
def unbind_keeps_the_row(pool: Buffer, k: SubPool, v: Virtual) -> None:
    """The dead id's row of the table still names the page, and a dummy batch writes through it."""
    require(is_live(pool, k, v))
    require(not_(has_dependents(pool, k, v)))
    pool.pending[k].add(pool.physical[k, v])
    pool.virtual[k, pool.physical[k, v]] = NO_ID
    pool.unmapped[k].add(v)
    pool.bound[k] -= 1
    pool.tenancy[k, v] += 1
    pool.written[k, v] = UNKNOWN


@variant(unbind)
def unbind_forgets_the_window(pool: Buffer, k: SubPool, v: Virtual) -> None:
    """The id is free although a window still has a page for it, which the next owner of the id inherits."""
    require(is_live(pool, k, v))
    pool.pending[k].add(pool.physical[k, v])
    pool.virtual[k, pool.physical[k, v]] = NO_ID
    pool.physical[k, v] = UNMAPPED
    pool.unmapped[k].add(v)
    pool.bound[k] -= 1
    pool.tenancy[k, v] += 1
    pool.written[k, v] = UNKNOWN


@variant(reclaim)
def reclaim_loses_the_page(pool: Buffer, k: SubPool, page: Page) -> None:
    """The page leaves the pending list and enters no other: bytes drift out of the books."""
    require(pool.all(SubPool).has(k))
    require(pool.all(Page).has(page))
    require(pool.pending[k].has(page))
    pool.pending[k].remove(page)


# ------------------------------------------------------------------------------------------------- binding a page


@variant(bind_frontier)
def bind_frontier_counts_the_whole_gap(pool: Buffer, k: SubPool, v: Virtual, page: Chosen[Page]) -> None:
    """Each of the two sides of a gap takes all of it for its own: what the other one has taken is not looked at."""
    require(pool.all(SubPool).has(k))
    require(is_bindable(pool, k, v))
    require(is_frontier(pool, k, page))
    require(pool.sink_bytes <= offset(pool, k, page))
    require(offset(pool, k, page) + pool.page_bytes[k] <= pool.total)
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


@variant(bind_frontier)
def bind_frontier_takes_any_free_id(pool: Buffer, k: SubPool, v: Virtual, page: Chosen[Page]) -> None:
    """A tail is allocated on the window by itself, with ids of the window's own choice."""
    require(pool.all(SubPool).has(k))
    require(pool.all(Virtual).has(v))
    require(pool.unmapped[k].has(v))
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


@variant(bind_frontier)
def bind_frontier_zeroes_one_kind(pool: Buffer, k: SubPool, v: Virtual, page: Chosen[Page]) -> None:
    """Only the sub-pool of the attention layers is zeroed on hand-out; the kinds added later are passed over."""
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
        lambda b: position(pool, k, page, b),
        where=lambda b: and_(k == UP_END, pool.zeroed[k], is_in_page(pool, k, page, b)),
    )
    pool.memory.relabel(
        lambda b: ZEROED, where=lambda b: and_(k == UP_END, pool.zeroed[k], is_in_page(pool, k, page, b))
    )
    pool.written[k, v] = ite(pool.zeroed[k], ZEROED, UNKNOWN)


@variant(bind_hole)
def bind_hole_leaves_one_layer_dirty(pool: Buffer, k: SubPool, v: Virtual, page: Chosen[Page]) -> None:
    """Zeroing is on where a page holds more than one layer, so a page of just one keeps its last tenant's bytes."""
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
        lambda b: position(pool, k, page, b),
        where=lambda b: and_(pool.zeroed[k], pool.page_bytes[k] > 1, is_in_page(pool, k, page, b)),
    )
    pool.memory.relabel(
        lambda b: ZEROED, where=lambda b: and_(pool.zeroed[k], pool.page_bytes[k] > 1, is_in_page(pool, k, page, b))
    )
    pool.written[k, v] = ite(pool.zeroed[k], ZEROED, UNKNOWN)


@variant(bind_hole)
def bind_hole_tells_no_window(pool: Buffer, k: SubPool, v: Virtual, page: Chosen[Page]) -> None:
    """The call that binds a window's page for its owner's id was never wired up: the page is taken, the row is not."""
    require(pool.all(SubPool).has(k))
    require(is_bindable(pool, k, v))
    require(pool.all(Page).has(page))
    require(pool.holes[k].has(page))
    pool.holes[k].remove(page)
    pool.unmapped[k].remove(v)
    pool.physical[k, v] = ite(pool.id_owner[k] == k, page, UNMAPPED)
    pool.virtual[k, page] = v
    pool.bound[k] += 1
    pool.place.relabel(
        lambda b: position(pool, k, page, b), where=lambda b: and_(pool.zeroed[k], is_in_page(pool, k, page, b))
    )
    pool.memory.relabel(lambda b: ZEROED, where=lambda b: and_(pool.zeroed[k], is_in_page(pool, k, page, b)))
    pool.written[k, v] = ite(pool.zeroed[k], ZEROED, UNKNOWN)


# ------------------------------------------------------------------------------------------------ frontiers, holes


@variant(grow)
def grow_passes_the_other_frontier(pool: Buffer, k: SubPool, page: Chosen[Page]) -> None:
    """The side that is packed from the top goes on downwards through what lies at the bottom."""
    require(pool.all(SubPool).has(k))
    require(is_frontier(pool, k, page))
    require(or_(is_down_end(pool, k), fits(pool, k, page)))
    require(page > SINK_PAGE)
    require(pool.all(Page).has(page))
    pool.last[k] = ite(page == pool.last[k], lambda: pool.last[k] + 1, lambda: pool.last[k])
    pool.first[k] = ite(page < pool.first[k], page, lambda: pool.first[k])
    pool.holes[k].add(page)


@variant(retreat_high)
def retreat_high_helps_only_itself(pool: Buffer, k: SubPool) -> None:
    """Recovery looks at the side that is short of bytes alone: the peer's freed pages never reach the gap."""
    require(pool.all(SubPool).has(k))
    require(not_(is_down_end(pool, k)))
    require(k != UP_END)
    require(not_(is_empty(pool, k)))
    require(pool.holes[k].has(pool.last[k] - 1))
    pool.holes[k].remove(pool.last[k] - 1)
    pool.last[k] -= 1


# --------------------------------------------------------------------------------------------------------- moving


@variant(move)
def move_stops_at_a_cap(pool: Buffer, k: SubPool, v: Virtual, hole: Chosen[Page]) -> None:
    """A pass of compaction has a cap on its moves: where there is more to do, it does not go on."""
    require(is_live(pool, k, v))
    require(pool.all(Page).has(hole))
    require(pool.holes[k].has(hole))
    require(pool.holes[k].size <= 1)
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


@variant(move)
def move_finds_fewer_holes_than_planned(pool: Buffer, k: SubPool, v: Virtual, hole: Chosen[Page]) -> None:
    """The plan says that the source is a hole afterwards, but nothing records it: fewer are found than planned."""
    require(is_live(pool, k, v))
    require(pool.all(Page).has(hole))
    require(pool.holes[k].has(hole))
    source = pool.physical[k, v]
    pool.holes[k].remove(hole)
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


@variant(move)
def move_copies_by_virtual_id(pool: Buffer, k: SubPool, v: Virtual, hole: Chosen[Page]) -> None:
    """The copy is handed the virtual id where it expects a physical page, and takes the wrong page's bytes."""
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
        lambda b: pool.memory[b - offset(pool, k, hole) + offset(pool, k, SINK_PAGE + (v - SINK))],
        where=lambda b: is_in_page(pool, k, hole, b),
    )
    pool.place.relabel(
        lambda b: pool.place[b - offset(pool, k, hole) + offset(pool, k, SINK_PAGE + (v - SINK))],
        where=lambda b: is_in_page(pool, k, hole, b),
    )


@variant(move)
def move_leaves_the_recorded_page(pool: Buffer, k: SubPool, v: Virtual, hole: Chosen[Page]) -> None:
    """What was saved of a request names its former pages: after a move it is restored to where it no longer lives."""
    require(is_live(pool, k, v))
    require(pool.all(Page).has(hole))
    require(pool.holes[k].has(hole))
    source = pool.physical[k, v]
    pool.holes[k].remove(hole)
    pool.pending[k].add(source)
    pool.virtual[k, source] = NO_ID
    pool.virtual[k, hole] = v
    pool.memory.relabel(
        lambda b: pool.memory[b - offset(pool, k, hole) + offset(pool, k, source)],
        where=lambda b: is_in_page(pool, k, hole, b),
    )
    pool.place.relabel(
        lambda b: pool.place[b - offset(pool, k, hole) + offset(pool, k, source)],
        where=lambda b: is_in_page(pool, k, hole, b),
    )


# -------------------------------------------------------------------------------------------------------- writing


@variant(write)
def write_takes_the_id_for_a_page(pool: Buffer, k: SubPool, v: Virtual, stamp: Int) -> None:
    """A raw virtual id is used as a physical page: right until the first move, wrong from then on."""
    require(pool.all(SubPool).has(k))
    require(stamp > ZEROED)
    page = ite(is_live(pool, k, v), lambda: SINK_PAGE + (v - SINK), SINK_PAGE)
    pool.place.relabel(lambda b: position(pool, k, page, b), where=lambda b: is_in_page(pool, k, page, b))
    pool.memory.relabel(lambda b: stamp, where=lambda b: is_in_page(pool, k, page, b))
    pool.written.relabel(lambda j, u: stamp, where=lambda j, u: and_(j == k, u == v))


@variant(write)
def write_translates_the_prefix_only(pool: Buffer, k: SubPool, v: Virtual, stamp: Int) -> None:
    """One list mixes two kinds of ids: those of the prefix are translated, those of fresh rows are not."""
    require(pool.all(SubPool).has(k))
    require(stamp > ZEROED)
    is_fresh = and_(is_live(pool, k, v), lambda: pool.written[k, v] <= ZEROED)
    page = ite(is_fresh, lambda: SINK_PAGE + (v - SINK), translate(pool, k, v))
    pool.place.relabel(lambda b: position(pool, k, page, b), where=lambda b: is_in_page(pool, k, page, b))
    pool.memory.relabel(lambda b: stamp, where=lambda b: is_in_page(pool, k, page, b))
    pool.written.relabel(lambda j, u: stamp, where=lambda j, u: and_(j == k, u == v))


@variant(write)
def write_translates_by_the_owner(pool: Buffer, k: SubPool, v: Virtual, stamp: Int) -> None:
    """The place of a window's write is left in the terms of the sub-pool that owns the ids."""
    require(pool.all(SubPool).has(k))
    require(stamp > ZEROED)
    page = translate(pool, pool.id_owner[k], v)
    pool.place.relabel(lambda b: position(pool, k, page, b), where=lambda b: is_in_page(pool, k, page, b))
    pool.memory.relabel(lambda b: stamp, where=lambda b: is_in_page(pool, k, page, b))
    pool.written.relabel(lambda j, u: stamp, where=lambda j, u: and_(j == k, u == v))


@variant(write)
def write_counts_in_another_unit(pool: Buffer, k: SubPool, v: Virtual, stamp: Int) -> None:
    """The address is worked out with the page size of another group than the one that the page is of."""
    require(pool.all(SubPool).has(k))
    require(stamp > ZEROED)
    page = translate(pool, k, v)
    pool.place.relabel(
        lambda b: position(pool, pool.id_owner[k], page, b), where=lambda b: is_in_page(pool, pool.id_owner[k], page, b)
    )
    pool.memory.relabel(lambda b: stamp, where=lambda b: is_in_page(pool, pool.id_owner[k], page, b))
    pool.written.relabel(lambda j, u: stamp, where=lambda j, u: and_(j == k, u == v))


@variant(write)
def write_lays_the_halves_apart(pool: Buffer, k: SubPool, v: Virtual, stamp: Int) -> None:
    """Two views of a page do not agree on its bytes: this one takes every other page's worth, far apart."""
    require(pool.all(SubPool).has(k))
    require(stamp > ZEROED)
    page = translate(pool, k, v)
    far = ite(is_live(pool, k, v), pool.page_bytes[k], 0)
    pool.place.relabel(lambda b: position(pool, k, page, b) - far, where=lambda b: is_in_page(pool, k, page, b - far))
    pool.memory.relabel(lambda b: stamp, where=lambda b: is_in_page(pool, k, page, b - far))
    pool.written.relabel(lambda j, u: stamp, where=lambda j, u: and_(j == k, u == v))


@variant(write)
def write_pads_with_a_stale_row(pool: Buffer, k: SubPool, v: Virtual, stamp: Int) -> None:
    """Padding has no slot of its own: the padded row has an index left from before, and a live page behind it."""
    require(pool.all(SubPool).has(k))
    require(stamp > ZEROED)
    page = ite(is_live(pool, k, v), lambda: translate(pool, k, v), pool.first[k])
    pool.place.relabel(lambda b: position(pool, k, page, b), where=lambda b: is_in_page(pool, k, page, b))
    pool.memory.relabel(lambda b: stamp, where=lambda b: is_in_page(pool, k, page, b))
    pool.written.relabel(lambda j, u: stamp, where=lambda j, u: and_(j == k, u == v))


@variant(write)
def write_indexes_from_the_end(pool: Buffer, k: SubPool, v: Virtual, stamp: Int) -> None:
    """A padded row has the id -1, which as an index is the last page."""
    require(pool.all(SubPool).has(k))
    require(stamp > ZEROED)
    page = ite(v == NO_ID, SINK_PAGE + (pool.pages - 1), translate(pool, k, v))
    pool.place.relabel(lambda b: position(pool, k, page, b), where=lambda b: is_in_page(pool, k, page, b))
    pool.memory.relabel(lambda b: stamp, where=lambda b: is_in_page(pool, k, page, b))
    pool.written.relabel(lambda j, u: stamp, where=lambda j, u: and_(j == k, u == v))


# ------------------------------------------------------------------------------------------- clearing and creating


@variant(clear)
def clear_touches_every_byte(pool: Buffer) -> None:
    """The reset fills the buffer with zeros, although its memory may have been given back to the driver."""
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
    pool.memory.relabel(lambda b: ZEROED)
    pool.clears += 1


@variant(create)
def create_hands_out_the_sink(pool: Buffer) -> None:
    """The planner counts on K ids and the pool has K + 1: the padding sink is among those that can be had."""
    pool.first.relabel(lambda k: ite(is_float(pool, k), PARKED, lambda: ite(k == UP_END, pool.bottom, pool.top)))
    pool.last.relabel(lambda k: pool.first[k])
    pool.physical.relabel(lambda k, v: ite(v == SINK, SINK_PAGE, UNMAPPED))
    pool.virtual.relabel(lambda k, page: ite(page == SINK_PAGE, SINK, NO_ID))
    pool.holes.empty()
    pool.pending.empty()
    pool.unmapped.fill(lambda k: SINK, lambda k: pool.ids[k])
    pool.bound.relabel(lambda k: 0)
    pool.tenancy.relabel(lambda k, v: 0)
    pool.written.relabel(lambda k, v: UNKNOWN)
    pool.clears = 0


TWINS: tuple[Twin, ...] = (
    Twin(
        "vLLM#56734",
        "An idle rank's dummy batch writes through table rows that still name the pages of former occupants.",
        "unbind",
        unbind_keeps_the_row,
        ("ids_lead_to_pages_and_back", "unmapped_ids_are_listed"),
    ),
    Twin(
        "sglang#25805",
        "Tail-only allocation leaves the mappings of recycled ids in place, and their pages are freed twice.",
        "unbind",
        unbind_forgets_the_window,
        ("windows_bind_only_live_ids",),
    ),
    Twin(
        "sglang#35158",
        "Sizes are summed up again and nothing checks that bytes are conserved: pages leave every list unseen.",
        "reclaim",
        reclaim_loses_the_page,
        ("pages_are_conserved", "every_page_of_an_extent_is_accounted_for"),
    ),
    Twin(
        "sglang#39294",
        "Two sides of one gap both count it: each has room for its part of a demand, the pair has not.",
        "bind_frontier",
        bind_frontier_counts_the_whole_gap,
        ("extents_are_in_order", "whatever_fits_can_be_bound"),
    ),
    Twin(
        "sglang#37506 (tail pricing)",
        "A tail allocation asks the window for ids, although another sub-pool owns them.",
        "bind_frontier",
        bind_frontier_takes_any_free_id,
        ("windows_bind_only_live_ids", "a_window_owns_no_ids"),
    ),
    Twin(
        "vLLM#56524",
        "Zeroing on hand-out covers attention pages only; state pages are never recorded for it.",
        "bind_frontier",
        bind_frontier_zeroes_one_kind,
        ("what_is_read_is_what_was_written", "a_bind_at_the_frontier_gives_the_page"),
    ),
    Twin(
        "sglang#33974 (1)",
        "Pages are handed out with their last tenant's bytes where a shard owns exactly one layer.",
        "bind_hole",
        bind_hole_leaves_one_layer_dirty,
        ("what_is_read_is_what_was_written", "a_bind_of_a_hole_gives_the_page"),
    ),
    Twin(
        "sglang#38521",
        "The builder of three pools is not given the call that binds a window's pages for the owner's ids.",
        "bind_hole",
        bind_hole_tells_no_window,
        ("pages_lead_to_ids_and_back", "a_bind_of_a_hole_gives_the_page"),
    ),
    Twin(
        "tt-metal#44366",
        "What is packed from the top runs into what is packed from the bottom, and overwrites it.",
        "grow",
        grow_passes_the_other_frontier,
        ("extents_are_in_order",),
    ),
    Twin(
        "sglang#34441",
        "Recovery frees pages of the side that asks, while the bytes it needs are evictable on the other one.",
        "retreat_high",
        retreat_high_helps_only_itself,
        ("compaction_from_above_ends_without_holes",),
    ),
    Twin(
        "llama.cpp#10873",
        "A defragmentation pass stops at its cap of moves, and no slot is found although enough is free.",
        "move",
        move_stops_at_a_cap,
        ("compaction_from_above_ends_without_holes",),
    ),
    Twin(
        "llama.cpp#14059",
        "Moves are made by a plan that is no longer what the cache holds: the hole count does not come out.",
        "move",
        move_finds_fewer_holes_than_planned,
        ("a_move_changes_only_where_the_page_lies", "pages_are_conserved"),
    ),
    Twin(
        "sglang#36731",
        "Copies from and to the host are given virtual ids where the host pool expects physical pages.",
        "move",
        move_copies_by_virtual_id,
        ("what_is_read_is_what_was_written", "a_move_changes_only_where_the_page_lies"),
    ),
    Twin(
        "sglang#37506 (repairs)",
        "State that was saved before pages moved is restored to the pages that it had then.",
        "move",
        move_leaves_the_recorded_page,
        ("a_move_changes_only_where_the_page_lies", "ids_lead_to_pages_and_back"),
    ),
    Twin(
        "sglang#31471",
        "The transfer layer takes virtual ids for physical offsets, which is right until compaction moves a page.",
        "write",
        write_takes_the_id_for_a_page,
        ("a_write_reaches_its_page_or_the_sink",),
    ),
    Twin(
        "sglang#33517",
        "A kernel reads prefix rows by translated ids and the rows just written by untranslated ones.",
        "write",
        write_translates_the_prefix_only,
        ("a_write_reaches_its_page_or_the_sink",),
    ),
    Twin(
        "sglang#24395",
        "The place where the window pool is written stays in ids of the full pool.",
        "write",
        write_translates_by_the_owner,
        ("a_write_reaches_its_page_or_the_sink",),
    ),
    Twin(
        "vLLM#53142",
        "The column of the state group is worked out with the block size of the attention group.",
        "write",
        write_counts_in_another_unit,
        ("a_write_reaches_its_page_or_the_sink",),
    ),
    Twin(
        "vLLM#51837",
        "One layout keeps keys and values far apart, so that block b of one group lies over page b' of another.",
        "write",
        write_lays_the_halves_apart,
        ("what_is_read_is_what_was_written",),
    ),
    Twin(
        "TensorRT-LLM#13151",
        "Padded rows of a graph have indices of requests that are parked, and write to their pages.",
        "write",
        write_pads_with_a_stale_row,
        ("a_write_reaches_its_page_or_the_sink",),
    ),
    Twin(
        "vLLM#43810",
        "Padding is marked by -1, which as an array index is the last slot.",
        "write",
        write_indexes_from_the_end,
        ("a_write_reaches_its_page_or_the_sink",),
    ),
    Twin(
        "sglang#14209",
        "Clearing the pool fills tensors with zeros whose memory has been released to the driver.",
        "clear",
        clear_touches_every_byte,
        ("a_clear_restores_the_initial_state",),
    ),
    Twin(
        "sglang#32184",
        "The planner reserves K slots while the pool allocates K + 1, the padding sink included.",
        "",
        create_hands_out_the_sink,
        ("ids_are_conserved", "unmapped_ids_are_listed"),
    ),
)

NOT_EXPRESSED: Mapping[str, str] = {
    "sglang#33091": "eviction: when it stops is decided by the loop around the allocator, with admission",
    "sglang#36729": "admission: which demands a planner turns away is for the spec of the budget",
    "sglang#36730 (review)": "admission: which sides a joint budget tests is for the spec of the budget",
    "sglang#37496": "engine glue: from which list a backup takes its ids; here every access names sub-pool and id",
    "sglang#36730 (review 2)": "engine glue: a keyword that an override drops; for the classes' contract tests",
    "aiter#4245": "a kernel: what it reads in the sink and multiplies by zero; the spec promises nothing of the sink",
    "vLLM#44211": "kernels and codecs: a list of NaN sources; its share in the pool is vLLM#35219 and vLLM#56524 here",
    "sglang#30974": "a kernel: an output buffer of its own, in no pool, that it leaves unwritten",
}
