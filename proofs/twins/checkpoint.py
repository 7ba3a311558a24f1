"""Planted faults of two pools of states. Each body is ours; the mechanism is that of the report named beside it."""

from __future__ import annotations

from collections.abc import Mapping

from poolproof.proofs.subject import Twin
from poolproof.spec.checkpoint import (
    ACTIVE_SINK,
    NO_NODE,
    NOBODY,
    NOTHING,
    NOWHERE,
    Active,
    Checkpoint,
    Lifecycle,
    Lock,
    Node,
    Part,
    Phase,
    Request,
    Scope,
    Stage,
    Use,
    admit,
    advance,
    begin_store,
    clear,
    donates,
    evict,
    is_being_loaded,
    is_being_read,
    is_complete,
    is_ready,
    leave,
    owns,
    publish,
    release,
    release_lock,
    start,
    store_part,
    track,
)
from poolproof.spec.language import Chosen, Int, and_, exists, forall, ite, not_, or_, require, variant


@variant(release)
def release_keeps_the_track(pool: Lifecycle, r: Request, a: Active) -> None:
    """The slot goes back to the pool, but the request still has it noted as its track."""
    require(owns(pool, r, a))
    require(not_(pool.loading[a]))
    require(not_(is_being_read(pool, a)))
    is_own = pool.own[r] == a
    pool.queued -= ite(pool.use[a] == Use.QUEUED, 1, 0)
    pool.running -= ite(pool.use[a] == Use.RUNNING, 1, 0)
    pool.tracks -= ite(pool.use[a] == Use.TRACK, 1, 0)
    pool.use[a] = Use.FREE
    pool.holder[a] = NOBODY
    pool.own[r] = ite(is_own, NOWHERE, pool.own[r])
    pool.loaded.relabel(lambda b, p: False, where=lambda b, p: b == a)
    pool.free_actives.add(a)


@variant(leave)
def leave_with_its_tracks(pool: Lifecycle, r: Request) -> None:
    """A session is closed: what it holds beside pages is not asked for."""
    require(pool.all(Request).has(r))
    require(pool.phase[r] != Phase.IDLE)
    require(forall(pool.all(Lock), lambda lock: not_(and_(pool.is_held[lock], pool.locker[lock] == r))))
    pool.phase[r] = Phase.IDLE


@variant(leave)
def leave_after_a_rejected_hit(pool: Lifecycle, r: Request) -> None:
    """A request that was not admitted goes, and the slot that its match took stays taken."""
    require(pool.all(Request).has(r))
    require(pool.phase[r] != Phase.IDLE)
    require(pool.latest[r] == NOWHERE)
    require(forall(pool.all(Checkpoint), lambda c: not_(donates(pool, r, c))))
    require(forall(pool.all(Lock), lambda lock: not_(and_(pool.is_held[lock], pool.locker[lock] == r))))
    pool.phase[r] = Phase.IDLE


@variant(admit)
def admit_counts_running_states_only(pool: Lifecycle, r: Request, a: Chosen[Active]) -> None:
    """The slot of a queued request is not counted: only running ones are."""
    require(pool.all(Request).has(r))
    require(pool.phase[r] == Phase.QUEUED)
    require(pool.own[r] == NOWHERE)
    require(pool.all(Active).has(a))
    require(pool.use[a] == Use.FREE)
    pool.use[a] = Use.QUEUED
    pool.holder[a] = r
    pool.own[r] = a
    pool.free_actives.remove(a)
    pool.position[a] = 0
    pool.loaded.relabel(lambda b, p: True, where=lambda b, p: b == a)
    pool.moment[a] = pool.clock
    pool.depth[a] = 0
    pool.part_moment.relabel(lambda b, p: pool.clock, where=lambda b, p: b == a)
    pool.part_depth.relabel(lambda b, p: 0, where=lambda b, p: b == a)
    pool.part_tokens.relabel(lambda b, p: 0, where=lambda b, p: b == a)
    pool.clock += 1


@variant(release)
def release_leaves_the_load_running(pool: Lifecycle, r: Request, a: Active) -> None:
    """The slot goes back, and what was to be copied into it stays noted."""
    require(owns(pool, r, a))
    require(not_(is_being_read(pool, a)))
    is_own = pool.own[r] == a
    pool.queued -= ite(pool.use[a] == Use.QUEUED, 1, 0)
    pool.running -= ite(pool.use[a] == Use.RUNNING, 1, 0)
    pool.tracks -= ite(pool.use[a] == Use.TRACK, 1, 0)
    pool.use[a] = Use.FREE
    pool.holder[a] = NOBODY
    pool.own[r] = ite(is_own, NOWHERE, pool.own[r])
    pool.latest[r] = ite(pool.latest[r] == a, pool.spare[r], pool.latest[r])
    pool.spare[r] = ite(is_own, pool.spare[r], NOWHERE)
    pool.loaded.relabel(lambda b, p: False, where=lambda b, p: b == a)
    pool.free_actives.add(a)


@variant(start)
def start_before_the_load(pool: Lifecycle, r: Request) -> None:
    """The request is shown its slot before anything has filled it."""
    require(pool.all(Request).has(r))
    require(pool.phase[r] == Phase.QUEUED)
    require(pool.own[r] != NOWHERE)
    pool.use[pool.own[r]] = Use.RUNNING
    pool.phase[r] = Phase.RUNNING
    pool.queued -= 1
    pool.running += 1


@variant(publish)
def publish_a_half_written_state(pool: Lifecycle, r: Request, c: Checkpoint, n: Node) -> None:
    """A donation is shown before its copy has ended."""
    require(donates(pool, r, c))
    require(pool.all(Node).has(n))
    require(pool.is_kept[n])
    require(pool.checkpoint[n] == NOTHING)
    require(pool.key_length[n] == pool.length[c])
    pool.stage[c] = Stage.CACHED
    pool.donor[c] = NOBODY
    pool.node_of[c] = n
    pool.checkpoint[n] = c
    pool.storing -= 1
    pool.cached += 1


@variant(publish)
def publish_without_the_side_rows(pool: Lifecycle, r: Request, c: Checkpoint, n: Node) -> None:
    """The main part has arrived; other parts are not looked at."""
    require(donates(pool, r, c))
    require(not_(pool.copying[c]))
    require(exists(pool.all(Part), lambda p: pool.stored[c, p]))
    require(pool.all(Node).has(n))
    require(pool.is_kept[n])
    require(pool.checkpoint[n] == NOTHING)
    require(pool.key_length[n] == pool.length[c])
    pool.stage[c] = Stage.CACHED
    pool.donor[c] = NOBODY
    pool.node_of[c] = n
    pool.checkpoint[n] = c
    pool.storing -= 1
    pool.cached += 1


@variant(start)
def start_on_what_came_back(pool: Lifecycle, r: Request) -> None:
    """Resuming, the request takes what was saved as the whole state."""
    require(pool.all(Request).has(r))
    require(pool.phase[r] == Phase.QUEUED)
    require(pool.own[r] != NOWHERE)
    require(not_(pool.loading[pool.own[r]]))
    pool.use[pool.own[r]] = Use.RUNNING
    pool.phase[r] = Phase.RUNNING
    pool.queued -= 1
    pool.running += 1


@variant(start)
def start_without_the_draft_rows(pool: Lifecycle, r: Request) -> None:
    """One part of the state has been restored, and that is enough."""
    require(pool.all(Request).has(r))
    require(pool.phase[r] == Phase.QUEUED)
    require(pool.own[r] != NOWHERE)
    require(not_(pool.loading[pool.own[r]]))
    require(exists(pool.all(Part), lambda p: pool.loaded[pool.own[r], p]))
    pool.use[pool.own[r]] = Use.RUNNING
    pool.phase[r] = Phase.RUNNING
    pool.queued -= 1
    pool.running += 1


@variant(advance)
def advance_writes_what_is_published(pool: Lifecycle, r: Request, tokens: Int) -> None:
    """The producer goes on in place while what it donated is still being copied."""
    require(pool.all(Request).has(r))
    require(pool.phase[r] == Phase.RUNNING)
    require(pool.own[r] != NOWHERE)
    require(tokens > 0)
    a = pool.own[r]
    length = pool.position[a] + tokens
    pool.position[a] = length
    pool.moment[a] = pool.clock
    pool.part_moment.relabel(lambda b, p: pool.clock, where=lambda b, p: b == a)
    pool.part_tokens.relabel(lambda b, p: length, where=lambda b, p: b == a)
    pool.clock += 1


@variant(release_lock)
def release_without_the_scope(pool: Lifecycle, r: Request, lock: Lock) -> None:
    """A lock is released without saying which scope it was taken with: all of them go."""
    require(pool.all(Lock).has(lock))
    require(pool.is_held[lock])
    require(pool.locker[lock] == r)
    n = pool.locked[lock]
    pool.is_held[lock] = False
    pool.page_pins[n] -= 1
    pool.state_pins[n] -= 1


@variant(release_lock)
def release_twice(pool: Lifecycle, r: Request, lock: Lock) -> None:
    """Two sites both release the lock."""
    require(pool.all(Lock).has(lock))
    require(pool.locker[lock] == r)
    n = pool.locked[lock]
    pool.is_held[lock] = False
    pool.page_pins[n] -= ite(pool.scope[lock] == Scope.PAGES, 1, 0)
    pool.state_pins[n] -= ite(pool.scope[lock] == Scope.STATE, 1, 0)


@variant(publish)
def publish_at_the_uncapped_match(pool: Lifecycle, r: Request, c: Checkpoint, n: Node) -> None:
    """The state goes to a node whose key is of another length."""
    require(donates(pool, r, c))
    require(not_(pool.copying[c]))
    require(is_complete(pool, c))
    require(pool.all(Node).has(n))
    require(pool.is_kept[n])
    require(pool.checkpoint[n] == NOTHING)
    pool.stage[c] = Stage.CACHED
    pool.donor[c] = NOBODY
    pool.node_of[c] = n
    pool.checkpoint[n] = c
    pool.storing -= 1
    pool.cached += 1


@variant(begin_store)
def begin_store_notes_the_grid(pool: Lifecycle, r: Request, a: Active, c: Chosen[Checkpoint]) -> None:
    """The length that is noted is not that of this request."""
    require(owns(pool, r, a))
    require(is_ready(pool, a))
    require(pool.position[a] > 0)
    require(pool.all(Checkpoint).has(c))
    require(pool.stage[c] == Stage.FREE)
    pool.stage[c] = Stage.STORING
    pool.donor[c] = r
    pool.source[c] = a
    pool.copying[c] = True
    pool.length[c] = pool.position[a] + 1
    pool.free_checkpoints.remove(c)
    pool.storing += 1
    pool.donated[c] = pool.moment[a]
    pool.donated_depth[c] = pool.depth[a]


@variant(evict)
def evict_what_the_running_request_holds(pool: Lifecycle, n: Chosen[Node]) -> None:
    """Locks are not looked at."""
    require(pool.all(Node).has(n))
    require(pool.checkpoint[n] != NOTHING)
    require(not_(is_being_loaded(pool, pool.checkpoint[n])))
    c = pool.checkpoint[n]
    pool.stage[c] = Stage.FREE
    pool.node_of[c] = NO_NODE
    pool.stored.relabel(lambda d, p: False, where=lambda d, p: d == c)
    pool.checkpoint[n] = NOTHING
    pool.cached -= 1
    pool.free_checkpoints.add(c)


@variant(release)
def release_while_it_is_copied(pool: Lifecycle, r: Request, a: Active) -> None:
    """The active slot goes back at once, though the donation is still being copied from it."""
    require(owns(pool, r, a))
    require(not_(pool.loading[a]))
    is_own = pool.own[r] == a
    pool.queued -= ite(pool.use[a] == Use.QUEUED, 1, 0)
    pool.running -= ite(pool.use[a] == Use.RUNNING, 1, 0)
    pool.tracks -= ite(pool.use[a] == Use.TRACK, 1, 0)
    pool.use[a] = Use.FREE
    pool.holder[a] = NOBODY
    pool.own[r] = ite(is_own, NOWHERE, pool.own[r])
    pool.latest[r] = ite(pool.latest[r] == a, pool.spare[r], pool.latest[r])
    pool.spare[r] = ite(is_own, pool.spare[r], NOWHERE)
    pool.loaded.relabel(lambda b, p: False, where=lambda b, p: b == a)
    pool.free_actives.add(a)


@variant(clear)
def clear_keeps_the_checkpoints(pool: Lifecycle) -> None:
    """The nodes go, and their checkpoint slots stay taken."""
    require(forall(pool.all(Active), lambda a: not_(pool.loading[a])))
    require(forall(pool.all(Checkpoint), lambda c: not_(pool.copying[c])))
    pool.use.relabel(lambda a: Use.FREE)
    pool.use[ACTIVE_SINK] = Use.SINK
    pool.holder.relabel(lambda a: NOBODY)
    pool.free_actives.fill(Active(1), pool.actives)
    pool.queued = 0
    pool.running = 0
    pool.tracks = 0
    pool.waiting = 0
    pool.loaded.relabel(lambda a, p: False)
    pool.stored.relabel(lambda c, p: False)
    pool.phase.relabel(lambda r: Phase.IDLE)
    pool.own.relabel(lambda r: NOWHERE)
    pool.latest.relabel(lambda r: NOWHERE)
    pool.spare.relabel(lambda r: NOWHERE)
    pool.is_kept.relabel(lambda n: False)
    pool.checkpoint.relabel(lambda n: NOTHING)
    pool.page_pins.relabel(lambda n: 0)
    pool.state_pins.relabel(lambda n: 0)
    pool.is_held.relabel(lambda lock: False)


@variant(track)
def track_overwrites_the_latest(pool: Lifecycle, r: Request) -> None:
    """The snapshot goes into the buffer that still holds the last good one."""
    require(pool.all(Request).has(r))
    require(pool.own[r] != NOWHERE)
    require(pool.spare[r] != NOWHERE)
    require(pool.position[pool.own[r]] > 0)
    require(not_(is_being_read(pool, pool.latest[r])))
    a = pool.own[r]
    to = pool.latest[r]
    pool.position[to] = pool.position[a]
    pool.loaded.relabel(lambda b, p: True, where=lambda b, p: b == to)
    pool.moment[to] = pool.moment[a]
    pool.depth[to] = pool.depth[a]
    pool.part_moment.relabel(lambda b, p: pool.part_moment[a, p], where=lambda b, p: b == to)
    pool.part_depth.relabel(lambda b, p: pool.part_depth[a, p], where=lambda b, p: b == to)
    pool.part_tokens.relabel(lambda b, p: pool.part_tokens[a, p], where=lambda b, p: b == to)


@variant(leave)
def leave_with_a_donation(pool: Lifecycle, r: Request) -> None:
    """A sequence goes before what it computed is registered for reuse."""
    require(pool.all(Request).has(r))
    require(pool.phase[r] != Phase.IDLE)
    require(pool.own[r] == NOWHERE)
    require(pool.latest[r] == NOWHERE)
    require(forall(pool.all(Lock), lambda lock: not_(and_(pool.is_held[lock], pool.locker[lock] == r))))
    pool.phase[r] = Phase.IDLE


@variant(release)
def release_only_what_was_donated(pool: Lifecycle, r: Request, a: Active) -> None:
    """A request ends only after its state was stored, and where no slot is free that never happens."""
    require(owns(pool, r, a))
    require(or_(pool.position[a] == 0, pool.free_checkpoints.size > 0))
    require(not_(pool.loading[a]))
    require(not_(is_being_read(pool, a)))
    is_own = pool.own[r] == a
    pool.queued -= ite(pool.use[a] == Use.QUEUED, 1, 0)
    pool.running -= ite(pool.use[a] == Use.RUNNING, 1, 0)
    pool.tracks -= ite(pool.use[a] == Use.TRACK, 1, 0)
    pool.use[a] = Use.FREE
    pool.holder[a] = NOBODY
    pool.own[r] = ite(is_own, NOWHERE, pool.own[r])
    pool.latest[r] = ite(pool.latest[r] == a, pool.spare[r], pool.latest[r])
    pool.spare[r] = ite(is_own, pool.spare[r], NOWHERE)
    pool.loaded.relabel(lambda b, p: False, where=lambda b, p: b == a)
    pool.free_actives.add(a)


@variant(leave)
def leave_without_the_acknowledgement(pool: Lifecycle, r: Request) -> None:
    """A request is gone, and the lock that it took for a copy is never released."""
    require(pool.all(Request).has(r))
    require(pool.phase[r] != Phase.IDLE)
    require(pool.own[r] == NOWHERE)
    require(pool.latest[r] == NOWHERE)
    require(forall(pool.all(Checkpoint), lambda c: not_(donates(pool, r, c))))
    pool.phase[r] = Phase.IDLE


@variant(store_part)
def store_part_into_a_full_block(pool: Lifecycle, c: Checkpoint, p: Part) -> None:
    """A block that is full and shared is written in place."""
    require(pool.all(Checkpoint).has(c))
    require(pool.all(Part).has(p))
    a = pool.source[c]
    pool.stored[c, p] = True
    pool.image_moment[c, p] = pool.part_moment[a, p]
    pool.image_depth[c, p] = pool.part_depth[a, p] + 1
    pool.image_tokens[c, p] = pool.part_tokens[a, p]


TWINS = (
    Twin(
        "sglang#26941",
        "Release gives the track buffers back and leaves their handles on the request, which uses them again.",
        "release",
        release_keeps_the_track,
        ("a_request_names_only_slots_that_it_owns",),
    ),
    Twin(
        "sglang#23496",
        "Closing a session frees its pages, but neither its state slot nor its track buffers.",
        "leave",
        leave_with_its_tracks,
        ("an_idle_request_holds_no_slot",),
    ),
    Twin(
        "sglang#16067",
        "A match takes a slot before admission decides, and the path that rejects returns without giving it back.",
        "leave",
        leave_after_a_rejected_hit,
        ("an_idle_request_holds_no_slot",),
    ),
    Twin(
        "sglang#20185",
        "The checker looks at running requests and the cache; a slot of a queued request counts as leaked.",
        "admit",
        admit_counts_running_states_only,
        ("queued_states_are_counted",),
    ),
    Twin(
        "sglang#29354",
        "A rollback returns the slot but keeps the source of its copy, so a retry copies from what was evicted.",
        "release",
        release_leaves_the_load_running,
        ("only_own_states_are_loaded",),
    ),
    Twin(
        "sglang#30986",
        "A slot is published on the request before its load is known to go ahead, and an abort leaves it unfilled.",
        "start",
        start_before_the_load,
        ("a_running_state_is_whole",),
    ),
    Twin(
        "sglang#38355",
        "What an unfinished prefill has so far goes into the tree while its owner still writes it.",
        "publish",
        publish_a_half_written_state,
        ("a_cached_checkpoint_is_complete",),
    ),
    Twin(
        "sglang#38619",
        "Side rows are indexed by the active slot, which is freed after the donation; the checkpoint lacks them.",
        "publish",
        publish_without_the_side_rows,
        ("a_cached_checkpoint_is_complete",),
    ),
    Twin(
        "sglang#22493",
        "A retracted request's pages are saved without its state; it resumes on what lies in its new slot.",
        "start",
        start_on_what_came_back,
        ("a_running_state_is_whole",),
    ),
    Twin(
        "sglang#21125",
        "Loading back restores the target model's bytes alone; the draft model reads rows that nothing filled.",
        "start",
        start_without_the_draft_rows,
        ("a_running_state_is_whole",),
    ),
    Twin(
        "vLLM#57908",
        "The last state block is published and written on in place, so the cache shows a later state than its key.",
        "advance",
        advance_writes_what_is_published,
        ("what_is_being_stored_stays",),
    ),
    Twin(
        "sglang#27038",
        "A temporary lock is released without its scope, and takes other requests' locks with it.",
        "release_lock",
        release_without_the_scope,
        (
            "page_pins_are_counted",
            "state_pins_are_counted",
        ),
    ),
    Twin(
        "LMCache#1034",
        "Pins and unpins are paired wrongly: retrieval and clean-up both unpin, and the count falls below zero.",
        "release_lock",
        release_twice,
        ("page_pins_are_counted",),
    ),
    Twin(
        "tokenspeed#243",
        "Pages are matched up to a cap and the state beyond it, so that the two are of different lengths.",
        "publish",
        publish_at_the_uncapped_match,
        ("a_checkpoint_is_as_long_as_its_key",),
    ),
    Twin(
        "sglang#33450",
        "Chunk states lie on one grid over the whole batch; of all but the first request another state is cached.",
        "begin_store",
        begin_store_notes_the_grid,
        (
            "what_is_being_stored_stays",
            "a_donation_begins_with_an_empty_slot",
        ),
    ),
    Twin(
        "TensorRT-LLM#17926",
        "Storing a snapshot may evict, and what it evicts belongs to the request that is being stored.",
        "evict",
        evict_what_the_running_request_holds,
        ("a_lock_keeps_what_it_says",),
    ),
    Twin(
        "sglang#28468",
        "Slots are freed in the middle of a copy, since copies in flight pin nothing.",
        "release",
        release_while_it_is_copied,
        ("what_is_being_stored_stays",),
    ),
    Twin(
        "sglang#23216",
        "A reset drops the nodes of the tree, but not the slots that they hold in the other pool.",
        "clear",
        clear_keeps_the_checkpoints,
        ("a_clear_restores_the_initial_state",),
    ),
    Twin(
        "sglang#23346",
        "A saved state is a view of a shared buffer, which the next snapshot overwrites.",
        "track",
        track_overwrites_the_latest,
        ("a_snapshot_takes_the_older_buffer",),
    ),
    Twin(
        "TensorRT-LLM#15018",
        "A sequence is removed before its blocks are registered: they stay allocated, and nobody has them noted.",
        "leave",
        leave_with_a_donation,
        ("exactly_donations_have_a_donor",),
    ),
    Twin(
        "sglang#36770",
        "Storing a checkpoint is optional, yet where every slot is taken the allocation asserts, and the engine dies.",
        "release",
        release_only_what_was_donated,
        ("a_request_can_end_without_a_free_checkpoint",),
    ),
    Twin(
        "sglang#35869",
        "Locks are taken under one condition and released under a stricter one, until nothing can be evicted.",
        "leave",
        leave_without_the_acknowledgement,
        ("a_lock_is_somebodys_on_something",),
    ),
    Twin(
        "TensorRT-LLM#12306",
        "A block of the tree that is matched in full is taken over and written in place, though others share it.",
        "store_part",
        store_part_into_a_full_block,
        ("cached_bytes_never_change",),
    ),
)

_ADMISSION = "admission: what a request is charged before it is given anything is for the spec of the budget"
_EXTENTS = "a page is one owner's here, and has no tokens: what part of it is filled is noted above the allocator"
_CHOICE = "which victim is chosen, and by what order, is left open by a spec; that ranks agree is tested of the pools"

NOT_EXPRESSED: Mapping[str, str] = {
    "sglang#38840": _EXTENTS,
    "sglang#31616": _EXTENTS,
    "sglang#13826": _EXTENTS,
    "TensorRT-LLM#16037": "no slot or page has a relation to another one, so that freeing one leaves none behind",
    "sglang#40305": "which class carries a check: here `check` and `shadow` are on the path that ships, in every pool",
    "sglang#29678 (review)": _ADMISSION,
    "sglang#34676": "several calls that are one operation: what takes several slots is one batch, all of it or nothing",
    "sglang#33773": _ADMISSION,
    "sglang#19169": _ADMISSION,
    "sglang#33442": _CHOICE,
    "tokenspeed#248": _CHOICE,
    "sglang#35270": "pages of a tree's nodes are not modelled; the cache's own check counts them against the pool's",
    "sglang#33862": "a second tier: states in host memory are not offered",
    "sglang#12432": "a checker that is given another size: here the sizes are the state's own",
    "mini-sglang#149": "a check that sums only: here each slot is in exactly one place, and checks look at every one",
}
