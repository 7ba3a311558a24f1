"""Planted faults of one pool of slots. Each body is ours; the mechanism is that of the report named beside it."""

from __future__ import annotations

from poolproof.proofs.subject import Twin
from poolproof.spec.language import Chosen, and_, ite, not_, or_, require, variant
from poolproof.spec.slots import (
    NOBODY,
    SINK,
    Holder,
    Owner,
    Slot,
    Slots,
    alloc,
    clear,
    close_group,
    create,
    free,
    is_holder,
    is_tenant,
    reclaim,
    retire,
    transfer,
)


@variant(free)
def free_keeps_the_holder(pool: Slots, holder: Holder, slot: Slot) -> None:
    """The slot goes back to the pool, but the handle stays on the request."""
    require(pool.all(Slot).has(slot))
    require(is_tenant(pool.owner[slot]))
    require(pool.holder[slot] == holder)
    pool.in_requests -= ite(pool.owner[slot] == Owner.REQUEST, 1, 0)
    pool.in_cache -= ite(pool.owner[slot] == Owner.CACHE, 1, 0)
    pool.owner[slot] = Owner.FREE
    pool.tenancy[slot] += 1
    pool.free_slots.add(slot)


@variant(free)
def free_forgets_the_free_list(pool: Slots, holder: Holder, slot: Slot) -> None:
    """The owner lets go, but no list takes the slot in."""
    require(pool.all(Slot).has(slot))
    require(is_tenant(pool.owner[slot]))
    require(pool.holder[slot] == holder)
    pool.in_requests -= ite(pool.owner[slot] == Owner.REQUEST, 1, 0)
    pool.in_cache -= ite(pool.owner[slot] == Owner.CACHE, 1, 0)
    pool.owner[slot] = Owner.FREE
    pool.holder[slot] = NOBODY
    pool.tenancy[slot] += 1


@variant(free)
def free_takes_any_number(pool: Slots, holder: Holder, slot: Slot) -> None:
    """The id is not looked at before it indexes the table: -1 reaches the last entry."""
    require(is_tenant(pool.owner[slot]))
    require(pool.holder[slot] == holder)
    pool.in_requests -= ite(pool.owner[slot] == Owner.REQUEST, 1, 0)
    pool.in_cache -= ite(pool.owner[slot] == Owner.CACHE, 1, 0)
    pool.owner[slot] = Owner.FREE
    pool.holder[slot] = NOBODY
    pool.tenancy[slot] += 1
    pool.free_slots.add(slot)


@variant(free)
def free_goes_on_after_zero(pool: Slots, holder: Holder, slot: Slot) -> None:
    """A second release is clamped to zero and goes on into the release branch, owned or not."""
    require(pool.all(Slot).has(slot))
    require(slot != SINK)
    pool.in_requests -= ite(pool.owner[slot] == Owner.REQUEST, 1, 0)
    pool.in_cache -= ite(pool.owner[slot] == Owner.CACHE, 1, 0)
    pool.owner[slot] = Owner.FREE
    pool.holder[slot] = NOBODY
    pool.tenancy[slot] += 1
    pool.free_slots.add(slot)


@variant(free)
def free_takes_the_sink(pool: Slots, holder: Holder, slot: Slot) -> None:
    """Ids without a mapping resolve to the shared sentinel, which is freed like any page."""
    require(pool.all(Slot).has(slot))
    require(or_(slot == SINK, and_(is_tenant(pool.owner[slot]), pool.holder[slot] == holder)))
    pool.in_requests -= ite(pool.owner[slot] == Owner.REQUEST, 1, 0)
    pool.in_cache -= ite(pool.owner[slot] == Owner.CACHE, 1, 0)
    pool.owner[slot] = Owner.FREE
    pool.holder[slot] = NOBODY
    pool.tenancy[slot] += 1
    pool.free_slots.add(slot)


@variant(free)
def free_marks_later(pool: Slots, holder: Holder, slot: Slot) -> None:
    """Every item of a batch is checked against the state before the batch, so a repeated item passes twice."""
    require(pool.all(Slot).has(slot))
    require(is_tenant(pool.owner[slot]))
    require(pool.holder[slot] == holder)
    pool.tenancy[slot] += 1


@variant(free)
def free_disturbs_other_handles(pool: Slots, holder: Holder, slot: Slot) -> None:
    """Handles are views of the allocator's own storage: freeing one slot changes what another handle says."""
    require(pool.all(Slot).has(slot))
    require(is_tenant(pool.owner[slot]))
    require(pool.holder[slot] == holder)
    pool.in_requests -= ite(pool.owner[slot] == Owner.REQUEST, 1, 0)
    pool.in_cache -= ite(pool.owner[slot] == Owner.CACHE, 1, 0)
    pool.owner[slot] = Owner.FREE
    pool.holder.relabel(lambda other: holder, where=lambda other: is_tenant(pool.owner[other]))
    pool.holder[slot] = NOBODY
    pool.tenancy[slot] += 1
    pool.free_slots.add(slot)


@variant(retire)
def retire_does_not_wait(pool: Slots, holder: Holder, slot: Slot) -> None:
    """The slot can be handed out at once although a remote writer still has its address."""
    require(pool.all(Slot).has(slot))
    require(is_tenant(pool.owner[slot]))
    require(pool.holder[slot] == holder)
    pool.in_requests -= ite(pool.owner[slot] == Owner.REQUEST, 1, 0)
    pool.in_cache -= ite(pool.owner[slot] == Owner.CACHE, 1, 0)
    pool.owner[slot] = Owner.FREE
    pool.holder[slot] = NOBODY
    pool.tenancy[slot] += 1
    pool.free_slots.add(slot)


@variant(reclaim)
def reclaim_frees_what_is_in_use(pool: Slots, slot: Slot) -> None:
    """A time-out releases the slot without asking whether it was given back."""
    require(pool.all(Slot).has(slot))
    require(or_(pool.owner[slot] == Owner.PENDING, is_tenant(pool.owner[slot])))
    pool.in_pending -= ite(pool.owner[slot] == Owner.PENDING, 1, 0)
    pool.in_requests -= ite(pool.owner[slot] == Owner.REQUEST, 1, 0)
    pool.in_cache -= ite(pool.owner[slot] == Owner.CACHE, 1, 0)
    pool.owner[slot] = Owner.FREE
    pool.holder[slot] = NOBODY
    pool.free_slots.add(slot)


@variant(transfer)
def transfer_keeps_the_former_holder(pool: Slots, holder: Holder, slot: Slot, kind: Owner, heir: Holder) -> None:
    """Pages enter the cache while the request still owns them; its abort then frees pages that the cache serves."""
    require(pool.all(Slot).has(slot))
    require(is_tenant(pool.owner[slot]))
    require(pool.holder[slot] == holder)
    require(is_tenant(kind))
    require(is_holder(heir))
    require(or_(heir != holder, kind != pool.owner[slot]))
    pool.in_requests += ite(kind == Owner.REQUEST, 1, 0) - ite(pool.owner[slot] == Owner.REQUEST, 1, 0)
    pool.in_cache += ite(kind == Owner.CACHE, 1, 0) - ite(pool.owner[slot] == Owner.CACHE, 1, 0)
    pool.owner[slot] = kind
    pool.tenancy[slot] += 1


@variant(transfer)
def transfer_does_not_move_the_counts(pool: Slots, holder: Holder, slot: Slot, kind: Owner, heir: Holder) -> None:
    """One path adds to a count, its mirror does not take away; the evictable count ends below zero."""
    require(pool.all(Slot).has(slot))
    require(is_tenant(pool.owner[slot]))
    require(pool.holder[slot] == holder)
    require(is_tenant(kind))
    require(is_holder(heir))
    require(or_(heir != holder, kind != pool.owner[slot]))
    pool.in_requests += ite(kind == Owner.REQUEST, 1, 0) - ite(pool.owner[slot] == Owner.REQUEST, 1, 0)
    pool.in_cache -= ite(pool.owner[slot] == Owner.CACHE, 1, 0)
    pool.owner[slot] = kind
    pool.holder[slot] = heir
    pool.tenancy[slot] += 1


@variant(alloc)
def alloc_needs_one_to_spare(pool: Slots, request: Holder, slot: Chosen[Slot]) -> None:
    """Capacity credits what allocation then refuses: the last free slot cannot be had."""
    require(is_holder(request))
    require(pool.all(Slot).has(slot))
    require(pool.owner[slot] == Owner.FREE)
    require(pool.free_slots.size > 1)
    pool.owner[slot] = Owner.REQUEST
    pool.holder[slot] = request
    pool.free_slots.remove(slot)
    pool.in_requests += 1


@variant(close_group)
def close_group_leaks_the_reserve(pool: Slots) -> None:
    """A rejected admission returns without giving back what it had set aside."""
    require(pool.group_is_open)
    pool.owner.relabel(lambda slot: Owner.FREE, where=lambda slot: pool.owner[slot] == Owner.RESERVED)
    pool.reserved_slots.empty()
    pool.group_is_open = False


@variant(clear)
def clear_forgets_the_cache(pool: Slots) -> None:
    """The flush drops the tree's nodes but not the slots that they hold."""
    pool.tenancy.relabel(lambda slot: pool.tenancy[slot] + 1, where=lambda slot: is_tenant(pool.owner[slot]))
    pool.owner.relabel(lambda slot: Owner.FREE, where=lambda slot: pool.owner[slot] != Owner.CACHE)
    pool.owner[SINK] = Owner.SINK
    pool.holder.relabel(lambda slot: NOBODY)
    pool.free_slots.fill(Slot(1), pool.total)
    pool.reserved_slots.empty()
    pool.in_requests = 0
    pool.in_cache = 0
    pool.in_pending = 0
    pool.group_is_open = False


@variant(clear)
def clear_leaves_the_group_open(pool: Slots) -> None:
    """A reset that does not know about the open group: its reserve is listed as free and as reserved."""
    require(not_(pool.group_is_open))
    pool.tenancy.relabel(lambda slot: pool.tenancy[slot] + 1, where=lambda slot: is_tenant(pool.owner[slot]))
    pool.owner.relabel(lambda slot: Owner.FREE)
    pool.owner[SINK] = Owner.SINK
    pool.holder.relabel(lambda slot: NOBODY)
    pool.free_slots.fill(Slot(1), pool.total)
    pool.in_requests = 0
    pool.in_cache = 0
    pool.in_pending = 0
    pool.group_is_open = True


@variant(create)
def create_counts_the_sink(pool: Slots) -> None:
    """The pool is built one slot larger than the planner reserved: the sink is counted among the free slots."""
    pool.owner.relabel(lambda slot: Owner.FREE)
    pool.holder.relabel(lambda slot: NOBODY)
    pool.tenancy.relabel(lambda slot: 0)
    pool.free_slots.fill(SINK, pool.total)
    pool.reserved_slots.empty()
    pool.in_requests = 0
    pool.in_cache = 0
    pool.in_pending = 0
    pool.group_is_open = False


TWINS = (
    Twin(
        "sglang#26941",
        "Release returns a request's slots but leaves the handles on it; the next alloc is skipped or doubled.",
        "free",
        free_keeps_the_holder,
        ("exactly_the_owned_slots_have_a_holder", "a_free_ends_the_handle"),
    ),
    Twin(
        "sglang#23496",
        "Closing a session frees the KV rows and drops the state slots without returning them.",
        "free",
        free_forgets_the_free_list,
        ("free_slots_are_listed", "slots_are_conserved"),
    ),
    Twin(
        "sglang#38836",
        "Clean-up passes the marker for `no slot` (-1) to the allocator.",
        "free",
        free_takes_any_number,
        ("is_well_defined",),
    ),
    Twin(
        "LMCache#5005",
        "A negative reference count is clamped to 0 and the release goes on: two callers get one page.",
        "free",
        free_goes_on_after_zero,
        ("only_a_live_handle_can_be_given_back", "is_well_defined"),
    ),
    Twin(
        "sglang#38519",
        "Unmapped entries resolve to sentinel page 0, which is freed again and again.",
        "free",
        free_takes_the_sink,
        ("the_sink_is_only_the_sink", "owners_change_only_along_the_lifecycle"),
    ),
    Twin(
        "vLLM#42571",
        "One batched free names a block twice; both copies enter the free list.",
        "free",
        free_marks_later,
        ("free_batch/a_repeated_item_is_refused", "a_free_ends_the_handle"),
    ),
    Twin(
        "Megatron-LM#6584",
        "Handles are views of the free stack's cells: a free changes what other handles say.",
        "free",
        free_disturbs_other_handles,
        ("a_free_ends_the_handle",),
    ),
    Twin(
        "sglang#24527",
        "After an abort a page is handed out while the remote writer may still write to it.",
        "retire",
        retire_does_not_wait,
        ("a_retire_ends_the_handle_but_not_the_wait",),
    ),
    Twin(
        "sglang#38961",
        "The time-out path releases at once, without the drain that the slot was waiting for.",
        "reclaim",
        reclaim_frees_what_is_in_use,
        ("a_reclaim_frees_a_pending_slot", "only_a_pending_slot_can_be_reclaimed"),
    ),
    Twin(
        "sglang#38355",
        "Pages of an unfinished prefill enter the tree while the request still owns them, and its abort frees them.",
        "transfer",
        transfer_keeps_the_former_holder,
        ("a_transfer_ends_the_old_handle",),
    ),
    Twin(
        "mllm#656",
        "A split does not mirror the accounting of the add path; the evictable count goes negative.",
        "transfer",
        transfer_does_not_move_the_counts,
        ("cached_slots_are_counted", "slots_are_conserved"),
    ),
    Twin(
        "sglang#33362",
        "A request is admitted by a capacity that allocation cannot realise, and fails afterwards.",
        "alloc",
        alloc_needs_one_to_spare,
        ("capacity_n_means_that_n_allocs_succeed",),
    ),
    Twin(
        "sglang#16067",
        "A slot set aside before admission decides is not given back when admission says no.",
        "close_group",
        close_group_leaks_the_reserve,
        ("free_slots_are_listed", "closing_a_group_frees_just_its_reserve"),
    ),
    Twin(
        "sglang#23216",
        "A cache flush drops the tree nodes but not the slots they hold.",
        "clear",
        clear_forgets_the_cache,
        ("a_clear_restores_the_initial_state", "a_clear_ends_every_handle"),
    ),
    Twin(
        "kvcached#364",
        "Clean-up restores the pages but not the reservation ledger.",
        "clear",
        clear_leaves_the_group_open,
        ("a_clear_restores_the_initial_state",),
    ),
    Twin(
        "sglang#32184",
        "The planner reserves K slots while the pool allocates K + 1, the padding sink included.",
        "",
        create_counts_the_sink,
        ("the_sink_is_only_the_sink", "slots_are_conserved"),
    ),
)
