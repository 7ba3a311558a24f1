"""What two pools of states may do together: active slots of requests, and checkpoint slots of a prefix cache.

A request owns active slots: its own state, and under `extra_buffer` two track buffers that take turns. A state is
donated: it is quantised into a checkpoint slot, which a node of the cache is given once it is complete. A hit is the
way back: the checkpoint is dequantised into a fresh active slot, a private copy. A node has a key of some tokens and at
most one checkpoint, of just that many tokens. Copies are in flight until they end, and whoever lets go of a slot
meanwhile leaves it pending. Slot 0 of either pool is the sink.

A state has parts: the temporal state (of a checkpoint, codes and scales), conv windows, whatever side rows an engine
keeps. There is any number of them, and they are copied one by one. As ghosts, each part of each slot says of which
moment it is, at how many tokens, and how many times it was quantised since it was computed.

Which slot is taken, and which node is evicted, is the implementation's choice.
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


class Active(Id):
    """A slot of the pool of active states."""


class Checkpoint(Id):
    """A slot of the pool of checkpoints."""


class Request(Id):
    """A place for a request, used again once the request has left."""


class Node(Id):
    """A place for a node of the prefix cache."""


class Lock(Id):
    """A place for a lock that a request holds on a node."""


class Part(Id):
    """A part of a state: temporal state or codes, scales, a conv window, side rows."""


class Use(Enumeration):
    """What an active slot is used for."""

    FREE = 0
    QUEUED = 1
    RUNNING = 2
    TRACK = 3
    PENDING = 4
    SINK = 5


class Stage(Enumeration):
    """How far a checkpoint slot is."""

    FREE = 0
    STORING = 1
    CACHED = 2
    PENDING = 3
    SINK = 4


class Phase(Enumeration):
    """How far a request is."""

    IDLE = 0
    QUEUED = 1
    RUNNING = 2


class Scope(Enumeration):
    """What a lock keeps: the node with its pages, or the node's checkpoint too."""

    PAGES = 0
    STATE = 1


ACTIVE_SINK = Active(0)
CHECKPOINT_SINK = Checkpoint(0)
NOBODY = Request(-1)
NOWHERE = Active(-1)
NOTHING = Checkpoint(-1)
NO_NODE = Node(-1)


class Lifecycle(State):
    """Two pools, the requests and nodes that own their slots, and the copies between them."""

    actives: Size[Active]
    checkpoints: Size[Checkpoint]
    requests: Size[Request]
    nodes: Size[Node]
    locks: Size[Lock]
    parts: Size[Part]
    use: Map[Active, Use]
    holder: Map[Active, Request]
    free_actives: Roster[Active]
    queued: Int
    running: Int
    tracks: Int
    waiting: Int
    position: Map[Active, Int]
    loaded: Map[tuple[Active, Part], Bool]
    loading: Map[Active, Bool]
    origin: Map[Active, Checkpoint]
    stage: Map[Checkpoint, Stage]
    donor: Map[Checkpoint, Request]
    node_of: Map[Checkpoint, Node]
    free_checkpoints: Roster[Checkpoint]
    storing: Int
    cached: Int
    parked: Int
    length: Map[Checkpoint, Int]
    stored: Map[tuple[Checkpoint, Part], Bool]
    copying: Map[Checkpoint, Bool]
    source: Map[Checkpoint, Active]
    phase: Map[Request, Phase]
    own: Map[Request, Active]
    latest: Map[Request, Active]
    spare: Map[Request, Active]
    is_kept: Map[Node, Bool]
    key_length: Map[Node, Int]
    checkpoint: Map[Node, Checkpoint]
    page_pins: Map[Node, Int]
    state_pins: Map[Node, Int]
    is_held: Map[Lock, Bool]
    locked: Map[Lock, Node]
    scope: Map[Lock, Scope]
    locker: Map[Lock, Request]
    clock: Ghost[Int]
    moment: Ghost[Map[Active, Int]]
    depth: Ghost[Map[Active, Int]]
    part_moment: Ghost[Map[tuple[Active, Part], Int]]
    part_depth: Ghost[Map[tuple[Active, Part], Int]]
    part_tokens: Ghost[Map[tuple[Active, Part], Int]]
    donated: Ghost[Map[Checkpoint, Int]]
    donated_depth: Ghost[Map[Checkpoint, Int]]
    image_moment: Ghost[Map[tuple[Checkpoint, Part], Int]]
    image_depth: Ghost[Map[tuple[Checkpoint, Part], Int]]
    image_tokens: Ghost[Map[tuple[Checkpoint, Part], Int]]


# ---------------------------------------------------------------------------------------------------- definitions


@define
def is_tenant(use: Use) -> Bool:
    """Does a request own a slot of this use?"""
    return or_(use == Use.QUEUED, use == Use.RUNNING, use == Use.TRACK)


@define
def owns(pool: Lifecycle, r: Request, a: Active) -> Bool:
    """Is the handle (r, a) live: does the request own the active slot now?"""
    return and_(pool.all(Active).has(a), lambda: is_tenant(pool.use[a]), lambda: pool.holder[a] == r)


@define
def donates(pool: Lifecycle, r: Request, c: Checkpoint) -> Bool:
    """Is the handle (r, c) live: is the slot one that the request stores a donation in?"""
    return and_(pool.all(Checkpoint).has(c), lambda: pool.stage[c] == Stage.STORING, lambda: pool.donor[c] == r)


@define
def is_being_read(pool: Lifecycle, a: Active) -> Bool:
    """Is a copy out of the active slot in flight?"""
    return exists(pool.all(Checkpoint), lambda c: and_(pool.copying[c], pool.source[c] == a))


@define
def is_being_loaded(pool: Lifecycle, c: Checkpoint) -> Bool:
    """Is a copy out of the checkpoint in flight?"""
    return exists(pool.all(Active), lambda a: and_(pool.loading[a], pool.origin[a] == c))


@define
def is_whole(pool: Lifecycle, a: Active) -> Bool:
    """Has every part of the active state arrived?"""
    return forall(pool.all(Part), lambda p: pool.loaded[a, p])


@define
def is_complete(pool: Lifecycle, c: Checkpoint) -> Bool:
    """Has every part of the checkpoint arrived?"""
    return forall(pool.all(Part), lambda p: pool.stored[c, p])


@define
def is_ready(pool: Lifecycle, a: Active) -> Bool:
    """Is it a whole state, nothing of which is still on its way?"""
    return and_(not_(pool.loading[a]), is_whole(pool, a))


@define
def holds_nothing(pool: Lifecycle, r: Request) -> Bool:
    """Has the request given everything back: active slots, donations, locks?"""
    return and_(
        pool.own[r] == NOWHERE,
        pool.latest[r] == NOWHERE,
        forall(pool.all(Checkpoint), lambda c: not_(donates(pool, r, c))),
        forall(pool.all(Lock), lambda lock: not_(and_(pool.is_held[lock], pool.locker[lock] == r))),
    )


@define
def keeps(pool: Lifecycle, lock: Lock, n: Node, scope: Scope) -> Bool:
    """Is the lock held on this node with this scope?"""
    return and_(pool.is_held[lock], pool.locked[lock] == n, pool.scope[lock] == scope)


# -------------------------------------------------------------------------------------------- actions: requests


@initial
def create(pool: Lifecycle) -> None:
    """Both pools are free but for their sinks; there are no requests, nodes or locks."""
    pool.use.relabel(lambda a: Use.FREE)
    pool.use[ACTIVE_SINK] = Use.SINK
    pool.holder.relabel(lambda a: NOBODY)
    pool.free_actives.fill(Active(1), pool.actives)
    pool.queued = 0
    pool.running = 0
    pool.tracks = 0
    pool.waiting = 0
    pool.loaded.relabel(lambda a, p: False)
    pool.loading.relabel(lambda a: False)
    pool.stage.relabel(lambda c: Stage.FREE)
    pool.stage[CHECKPOINT_SINK] = Stage.SINK
    pool.donor.relabel(lambda c: NOBODY)
    pool.node_of.relabel(lambda c: NO_NODE)
    pool.free_checkpoints.fill(Checkpoint(1), pool.checkpoints)
    pool.storing = 0
    pool.cached = 0
    pool.parked = 0
    pool.stored.relabel(lambda c, p: False)
    pool.copying.relabel(lambda c: False)
    pool.phase.relabel(lambda r: Phase.IDLE)
    pool.own.relabel(lambda r: NOWHERE)
    pool.latest.relabel(lambda r: NOWHERE)
    pool.spare.relabel(lambda r: NOWHERE)
    pool.is_kept.relabel(lambda n: False)
    pool.checkpoint.relabel(lambda n: NOTHING)
    pool.page_pins.relabel(lambda n: 0)
    pool.state_pins.relabel(lambda n: 0)
    pool.is_held.relabel(lambda lock: False)


@action
def enqueue(pool: Lifecycle, r: Chosen[Request]) -> None:
    """A request arrives, and waits."""
    require(pool.all(Request).has(r))
    require(pool.phase[r] == Phase.IDLE)
    pool.phase[r] = Phase.QUEUED


@action
def admit(pool: Lifecycle, r: Request, a: Chosen[Active]) -> None:
    """A queued request that has hit nothing is given an active slot for the state before its first token."""
    require(pool.all(Request).has(r))
    require(pool.phase[r] == Phase.QUEUED)
    require(pool.own[r] == NOWHERE)
    require(pool.all(Active).has(a))
    require(pool.use[a] == Use.FREE)
    pool.use[a] = Use.QUEUED
    pool.holder[a] = r
    pool.own[r] = a
    pool.free_actives.remove(a)
    pool.queued += 1
    pool.position[a] = 0
    pool.loaded.relabel(lambda b, p: True, where=lambda b, p: b == a)
    pool.moment[a] = pool.clock
    pool.depth[a] = 0
    pool.part_moment.relabel(lambda b, p: pool.clock, where=lambda b, p: b == a)
    pool.part_depth.relabel(lambda b, p: 0, where=lambda b, p: b == a)
    pool.part_tokens.relabel(lambda b, p: 0, where=lambda b, p: b == a)
    pool.clock += 1


@action
def hit(pool: Lifecycle, r: Request, n: Node, lock: Lock, a: Chosen[Active]) -> None:
    """A queued request that keeps a node's checkpoint by a lock is given an active slot, which the load begins to fill.

    Others may be evicted for the slot meanwhile; the lock keeps this node.
    """
    require(pool.all(Request).has(r))
    require(pool.phase[r] == Phase.QUEUED)
    require(pool.own[r] == NOWHERE)
    require(pool.all(Node).has(n))
    require(pool.all(Lock).has(lock))
    require(keeps(pool, lock, n, Scope.STATE))
    require(pool.locker[lock] == r)
    require(pool.checkpoint[n] != NOTHING)
    require(pool.all(Active).has(a))
    require(pool.use[a] == Use.FREE)
    found = pool.checkpoint[n]
    pool.use[a] = Use.QUEUED
    pool.holder[a] = r
    pool.own[r] = a
    pool.free_actives.remove(a)
    pool.queued += 1
    pool.position[a] = pool.length[found]
    pool.loading[a] = True
    pool.origin[a] = found
    pool.moment[a] = pool.donated[found]
    pool.depth[a] = pool.donated_depth[found] + 1


@action
def load_part(pool: Lifecycle, a: Active, p: Part) -> None:
    """A part of a checkpoint arrives in the active slot, dequantised."""
    require(pool.all(Active).has(a))
    require(pool.all(Part).has(p))
    require(pool.loading[a])
    found = pool.origin[a]
    pool.loaded[a, p] = True
    pool.part_moment[a, p] = pool.image_moment[found, p]
    pool.part_depth[a, p] = pool.image_depth[found, p]
    pool.part_tokens[a, p] = pool.image_tokens[found, p]


@action
def end_load(pool: Lifecycle, a: Active) -> None:
    """The load is over. Where parts are missing it has failed: such a state is of no use."""
    require(pool.all(Active).has(a))
    require(pool.loading[a])
    pool.loading[a] = False


@action
def start(pool: Lifecycle, r: Request) -> None:
    """A queued request begins to run, on a state that is whole."""
    require(pool.all(Request).has(r))
    require(pool.phase[r] == Phase.QUEUED)
    require(pool.own[r] != NOWHERE)
    require(is_ready(pool, pool.own[r]))
    pool.use[pool.own[r]] = Use.RUNNING
    pool.phase[r] = Phase.RUNNING
    pool.queued -= 1
    pool.running += 1


@action
def advance(pool: Lifecycle, r: Request, tokens: Int) -> None:
    """A step of the model folds tokens into the request's own state: all parts of it, together."""
    require(pool.all(Request).has(r))
    require(pool.phase[r] == Phase.RUNNING)
    require(pool.own[r] != NOWHERE)
    require(tokens > 0)
    require(not_(is_being_read(pool, pool.own[r])))
    a = pool.own[r]
    length = pool.position[a] + tokens
    pool.position[a] = length
    pool.moment[a] = pool.clock
    pool.part_moment.relabel(lambda b, p: pool.clock, where=lambda b, p: b == a)
    pool.part_tokens.relabel(lambda b, p: length, where=lambda b, p: b == a)
    pool.clock += 1


@action
def add_track(pool: Lifecycle, r: Request, a: Chosen[Active]) -> None:
    """A running request is given a track buffer, the first or the second."""
    require(pool.all(Request).has(r))
    require(pool.phase[r] == Phase.RUNNING)
    require(pool.spare[r] == NOWHERE)
    require(pool.all(Active).has(a))
    require(pool.use[a] == Use.FREE)
    is_first = pool.latest[r] == NOWHERE
    pool.use[a] = Use.TRACK
    pool.holder[a] = r
    pool.spare[r] = ite(is_first, NOWHERE, a)
    pool.latest[r] = ite(is_first, a, pool.latest[r])
    pool.free_actives.remove(a)
    pool.tracks += 1
    pool.position[a] = 0


@action
def track(pool: Lifecycle, r: Request) -> None:
    """The request's own state is copied to the track buffer whose turn it is, which is the latest from now on."""
    require(pool.all(Request).has(r))
    require(pool.own[r] != NOWHERE)
    require(pool.spare[r] != NOWHERE)
    require(pool.position[pool.own[r]] > 0)
    require(not_(is_being_read(pool, pool.spare[r])))
    a = pool.own[r]
    to = pool.spare[r]
    pool.spare[r] = pool.latest[r]
    pool.latest[r] = to
    pool.position[to] = pool.position[a]
    pool.loaded.relabel(lambda b, p: True, where=lambda b, p: b == to)
    pool.moment[to] = pool.moment[a]
    pool.depth[to] = pool.depth[a]
    pool.part_moment.relabel(lambda b, p: pool.part_moment[a, p], where=lambda b, p: b == to)
    pool.part_depth.relabel(lambda b, p: pool.part_depth[a, p], where=lambda b, p: b == to)
    pool.part_tokens.relabel(lambda b, p: pool.part_tokens[a, p], where=lambda b, p: b == to)


@action
def release(pool: Lifecycle, r: Request, a: Active) -> None:
    """A request gives an active slot back: when it ends, is rejected, retracted or aborted. The handle goes with it."""
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
    pool.latest[r] = ite(pool.latest[r] == a, pool.spare[r], pool.latest[r])
    pool.spare[r] = ite(is_own, pool.spare[r], NOWHERE)
    pool.loaded.relabel(lambda b, p: False, where=lambda b, p: b == a)
    pool.free_actives.add(a)


@action
def retire_active(pool: Lifecycle, r: Request, a: Active) -> None:
    """A request gives an active slot back while a copy into it or out of it is in flight: the slot waits for that."""
    require(owns(pool, r, a))
    require(or_(pool.loading[a], is_being_read(pool, a)))
    is_own = pool.own[r] == a
    pool.queued -= ite(pool.use[a] == Use.QUEUED, 1, 0)
    pool.running -= ite(pool.use[a] == Use.RUNNING, 1, 0)
    pool.tracks -= ite(pool.use[a] == Use.TRACK, 1, 0)
    pool.waiting += 1
    pool.use[a] = Use.PENDING
    pool.holder[a] = NOBODY
    pool.own[r] = ite(is_own, NOWHERE, pool.own[r])
    pool.latest[r] = ite(pool.latest[r] == a, pool.spare[r], pool.latest[r])
    pool.spare[r] = ite(is_own, pool.spare[r], NOWHERE)


@action
def reclaim_active(pool: Lifecycle, a: Active) -> None:
    """No copy touches the pending slot any more: it is free."""
    require(pool.all(Active).has(a))
    require(pool.use[a] == Use.PENDING)
    require(not_(pool.loading[a]))
    require(not_(is_being_read(pool, a)))
    pool.use[a] = Use.FREE
    pool.waiting -= 1
    pool.loaded.relabel(lambda b, p: False, where=lambda b, p: b == a)
    pool.free_actives.add(a)


@action
def retract(pool: Lifecycle, r: Request) -> None:
    """A running request without active slots goes back to the queue. It resumes by a hit, or from its first token."""
    require(pool.all(Request).has(r))
    require(pool.phase[r] == Phase.RUNNING)
    require(pool.own[r] == NOWHERE)
    require(pool.latest[r] == NOWHERE)
    pool.phase[r] = Phase.QUEUED


@action
def leave(pool: Lifecycle, r: Request) -> None:
    """A request that has given everything back is gone: finished, rejected for good, or aborted."""
    require(pool.all(Request).has(r))
    require(pool.phase[r] != Phase.IDLE)
    require(holds_nothing(pool, r))
    pool.phase[r] = Phase.IDLE


# ------------------------------------------------------------------------------------------- actions: donations


@action
def begin_store(pool: Lifecycle, r: Request, a: Active, c: Chosen[Checkpoint]) -> None:
    """A request donates a state: its own (`no_buffer`), or that of a track buffer (`extra_buffer`)."""
    require(owns(pool, r, a))
    require(is_ready(pool, a))
    require(pool.position[a] > 0)
    require(pool.all(Checkpoint).has(c))
    require(pool.stage[c] == Stage.FREE)
    pool.stage[c] = Stage.STORING
    pool.donor[c] = r
    pool.source[c] = a
    pool.copying[c] = True
    pool.length[c] = pool.position[a]
    pool.free_checkpoints.remove(c)
    pool.storing += 1
    pool.donated[c] = pool.moment[a]
    pool.donated_depth[c] = pool.depth[a]


@action
def store_part(pool: Lifecycle, c: Checkpoint, p: Part) -> None:
    """A part of the donated state arrives in the checkpoint slot, quantised."""
    require(pool.all(Checkpoint).has(c))
    require(pool.all(Part).has(p))
    require(pool.copying[c])
    a = pool.source[c]
    pool.stored[c, p] = True
    pool.image_moment[c, p] = pool.part_moment[a, p]
    pool.image_depth[c, p] = pool.part_depth[a, p] + 1
    pool.image_tokens[c, p] = pool.part_tokens[a, p]


@action
def end_store(pool: Lifecycle, c: Checkpoint) -> None:
    """The copy is over. Where parts are missing it has failed: such a slot can only be dropped."""
    require(pool.all(Checkpoint).has(c))
    require(pool.copying[c])
    pool.copying[c] = False


@action
def publish(pool: Lifecycle, r: Request, c: Checkpoint, n: Node) -> None:
    """A complete donation becomes the checkpoint of a node that has none, and whose key has just as many tokens."""
    require(donates(pool, r, c))
    require(not_(pool.copying[c]))
    require(is_complete(pool, c))
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


@action
def drop(pool: Lifecycle, r: Request, c: Checkpoint) -> None:
    """A donation is given up: the node has a checkpoint already, the copy failed, or the request was aborted."""
    require(donates(pool, r, c))
    require(not_(pool.copying[c]))
    pool.stage[c] = Stage.FREE
    pool.donor[c] = NOBODY
    pool.stored.relabel(lambda d, p: False, where=lambda d, p: d == c)
    pool.storing -= 1
    pool.free_checkpoints.add(c)


@action
def retire_checkpoint(pool: Lifecycle, r: Request, c: Checkpoint) -> None:
    """A donation is given up while the copy is in flight: the slot waits for that."""
    require(donates(pool, r, c))
    require(pool.copying[c])
    pool.stage[c] = Stage.PENDING
    pool.donor[c] = NOBODY
    pool.storing -= 1
    pool.parked += 1


@action
def reclaim_checkpoint(pool: Lifecycle, c: Checkpoint) -> None:
    """No copy touches the pending slot any more: it is free."""
    require(pool.all(Checkpoint).has(c))
    require(pool.stage[c] == Stage.PENDING)
    require(not_(pool.copying[c]))
    require(not_(is_being_loaded(pool, c)))
    pool.stage[c] = Stage.FREE
    pool.stored.relabel(lambda d, p: False, where=lambda d, p: d == c)
    pool.parked -= 1
    pool.free_checkpoints.add(c)


# ----------------------------------------------------------------------------------------------- actions: the cache


@action
def add_node(pool: Lifecycle, n: Chosen[Node], length: Int) -> None:
    """The cache has a node more, whose key has so many tokens."""
    require(pool.all(Node).has(n))
    require(not_(pool.is_kept[n]))
    require(length > 0)
    pool.is_kept[n] = True
    pool.key_length[n] = length


@action
def remove_node(pool: Lifecycle, n: Node) -> None:
    """A node goes that has no checkpoint, and that nobody keeps."""
    require(pool.all(Node).has(n))
    require(pool.is_kept[n])
    require(pool.checkpoint[n] == NOTHING)
    require(pool.page_pins[n] == 0)
    require(pool.state_pins[n] == 0)
    pool.is_kept[n] = False


@action
def take_lock(pool: Lifecycle, r: Request, lock: Chosen[Lock], n: Node, scope: Scope) -> None:
    """A request keeps a node, or its checkpoint too, for as long as it needs it."""
    require(pool.all(Request).has(r))
    require(pool.phase[r] != Phase.IDLE)
    require(pool.all(Node).has(n))
    require(pool.is_kept[n])
    require(pool.all(Lock).has(lock))
    require(not_(pool.is_held[lock]))
    pool.is_held[lock] = True
    pool.locked[lock] = n
    pool.scope[lock] = scope
    pool.locker[lock] = r
    pool.page_pins[n] += ite(scope == Scope.PAGES, 1, 0)
    pool.state_pins[n] += ite(scope == Scope.STATE, 1, 0)


@action
def release_lock(pool: Lifecycle, r: Request, lock: Lock) -> None:
    """A request gives up a lock of its own: the node and the scope are those of the lock."""
    require(pool.all(Lock).has(lock))
    require(pool.is_held[lock])
    require(pool.locker[lock] == r)
    n = pool.locked[lock]
    pool.is_held[lock] = False
    pool.page_pins[n] -= ite(pool.scope[lock] == Scope.PAGES, 1, 0)
    pool.state_pins[n] -= ite(pool.scope[lock] == Scope.STATE, 1, 0)


@action
def evict(pool: Lifecycle, n: Chosen[Node]) -> None:
    """A node's checkpoint goes, which no lock keeps and no copy reads."""
    require(pool.all(Node).has(n))
    require(pool.checkpoint[n] != NOTHING)
    require(pool.state_pins[n] == 0)
    require(not_(is_being_loaded(pool, pool.checkpoint[n])))
    c = pool.checkpoint[n]
    pool.stage[c] = Stage.FREE
    pool.node_of[c] = NO_NODE
    pool.stored.relabel(lambda d, p: False, where=lambda d, p: d == c)
    pool.checkpoint[n] = NOTHING
    pool.cached -= 1
    pool.free_checkpoints.add(c)


@action
def evict_later(pool: Lifecycle, n: Chosen[Node]) -> None:
    """A node's checkpoint goes, which no lock keeps, while a copy reads it: the slot waits for that."""
    require(pool.all(Node).has(n))
    require(pool.checkpoint[n] != NOTHING)
    require(pool.state_pins[n] == 0)
    require(is_being_loaded(pool, pool.checkpoint[n]))
    c = pool.checkpoint[n]
    pool.stage[c] = Stage.PENDING
    pool.node_of[c] = NO_NODE
    pool.checkpoint[n] = NOTHING
    pool.cached -= 1
    pool.parked += 1


@action
def clear(pool: Lifecycle) -> None:
    """Back to two new pools, whoever owned what: no copy is in flight. No byte is touched."""
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
    pool.stage.relabel(lambda c: Stage.FREE)
    pool.stage[CHECKPOINT_SINK] = Stage.SINK
    pool.donor.relabel(lambda c: NOBODY)
    pool.node_of.relabel(lambda c: NO_NODE)
    pool.free_checkpoints.fill(Checkpoint(1), pool.checkpoints)
    pool.storing = 0
    pool.cached = 0
    pool.parked = 0
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


# ------------------------------------------------------------------------------- invariants: the pool of active states


@invariant("I1")
def the_sink_of_the_actives_is_only_the_sink(pool: Lifecycle) -> Bool:
    """I1: active slot 0, and no other, belongs to the sink."""
    return forall(pool.all(Active), lambda a: iff(pool.use[a] == Use.SINK, a == ACTIVE_SINK))


@invariant("I1")
def free_actives_are_listed(pool: Lifecycle) -> Bool:
    """I1: the list of free active slots holds exactly those that are free."""
    return forall(pool.all(Active), lambda a: iff(pool.free_actives.has(a), pool.use[a] == Use.FREE))


@invariant("I1", "I3")
def exactly_the_tenanted_slots_have_a_holder(pool: Lifecycle) -> Bool:
    """I1, I3: an active slot names a request exactly while it is that request's."""
    return forall(
        pool.all(Active),
        lambda a: ite(
            is_tenant(pool.use[a]), lambda: pool.all(Request).has(pool.holder[a]), lambda: pool.holder[a] == NOBODY
        ),
    )


@invariant("I1", "I3")
def a_slot_is_where_its_request_says(pool: Lifecycle) -> Bool:
    """I1, I3: a request's slot is its own state or one of its tracks, as its use says, and in its phase."""
    return forall(
        pool.all(Active),
        lambda a: implies(
            and_(is_tenant(pool.use[a]), pool.all(Request).has(pool.holder[a])),
            lambda: and_(
                implies(
                    pool.use[a] == Use.QUEUED,
                    lambda: and_(pool.own[pool.holder[a]] == a, pool.phase[pool.holder[a]] == Phase.QUEUED),
                ),
                implies(
                    pool.use[a] == Use.RUNNING,
                    lambda: and_(pool.own[pool.holder[a]] == a, pool.phase[pool.holder[a]] == Phase.RUNNING),
                ),
                implies(
                    pool.use[a] == Use.TRACK,
                    lambda: and_(
                        or_(pool.latest[pool.holder[a]] == a, pool.spare[pool.holder[a]] == a),
                        pool.phase[pool.holder[a]] == Phase.RUNNING,
                    ),
                ),
            ),
        ),
    )


@invariant("I3")
def a_request_names_only_slots_that_it_owns(pool: Lifecycle) -> Bool:
    """I3: what a request has noted as its own state or as a track is that; a slot given back is noted nowhere."""
    return forall(
        pool.all(Request),
        lambda r: and_(
            implies(
                pool.own[r] != NOWHERE,
                lambda: and_(
                    pool.all(Active).has(pool.own[r]),
                    lambda: or_(pool.use[pool.own[r]] == Use.QUEUED, pool.use[pool.own[r]] == Use.RUNNING),
                    lambda: pool.holder[pool.own[r]] == r,
                ),
            ),
            implies(
                pool.latest[r] != NOWHERE,
                lambda: and_(
                    pool.all(Active).has(pool.latest[r]),
                    lambda: pool.use[pool.latest[r]] == Use.TRACK,
                    lambda: pool.holder[pool.latest[r]] == r,
                ),
            ),
            implies(
                pool.spare[r] != NOWHERE,
                lambda: and_(
                    pool.all(Active).has(pool.spare[r]),
                    lambda: pool.use[pool.spare[r]] == Use.TRACK,
                    lambda: pool.holder[pool.spare[r]] == r,
                    pool.spare[r] != pool.latest[r],
                    pool.latest[r] != NOWHERE,
                ),
            ),
        ),
    )


@invariant("I21")
def queued_states_are_counted(pool: Lifecycle) -> Bool:
    """I21: the count of slots of queued requests is their number."""
    return counts(pool.queued, pool.all(Active), lambda a: pool.use[a] == Use.QUEUED)


@invariant("I21")
def running_states_are_counted(pool: Lifecycle) -> Bool:
    """I21: the count of slots of running requests' own states is their number."""
    return counts(pool.running, pool.all(Active), lambda a: pool.use[a] == Use.RUNNING)


@invariant("I21")
def tracks_are_counted(pool: Lifecycle) -> Bool:
    """I21: the count of track buffers is their number."""
    return counts(pool.tracks, pool.all(Active), lambda a: pool.use[a] == Use.TRACK)


@invariant("I21")
def pending_actives_are_counted(pool: Lifecycle) -> Bool:
    """I21: the count of pending active slots is their number."""
    return counts(pool.waiting, pool.all(Active), lambda a: pool.use[a] == Use.PENDING)


@invariant("I21")
def actives_are_conserved(pool: Lifecycle) -> Bool:
    """I21: free + queued + running + tracks + pending + the sink = all active slots."""
    return pool.free_actives.size + pool.queued + pool.running + pool.tracks + pool.waiting + 1 == pool.actives


@invariant("I6")
def a_running_state_is_whole(pool: Lifecycle) -> Bool:
    """I6: a request computes only on a state that has arrived."""
    return forall(pool.all(Active), lambda a: implies(pool.use[a] == Use.RUNNING, lambda: is_ready(pool, a)))


@invariant("I6")
def only_own_states_are_loaded(pool: Lifecycle) -> Bool:
    """I6: a load goes to a queued request's slot, or to one that waits for the load to end."""
    return forall(
        pool.all(Active),
        lambda a: implies(pool.loading[a], or_(pool.use[a] == Use.QUEUED, pool.use[a] == Use.PENDING)),
    )


@invariant("I3")
def an_unused_slot_holds_no_part(pool: Lifecycle) -> Bool:
    """I3: what a slot held for an earlier request does not count as there."""
    return forall(
        pool.all(Active),
        lambda a: implies(
            or_(pool.use[a] == Use.FREE, pool.use[a] == Use.SINK),
            lambda: forall(pool.all(Part), lambda p: not_(pool.loaded[a, p])),
        ),
    )


@invariant("I7")
def a_state_is_of_a_moment_before_now(pool: Lifecycle) -> Bool:
    """I7: what is computed next is of a moment that no state has, nor any checkpoint."""
    return and_(
        forall(
            pool.all(Active),
            lambda a: implies(
                or_(pool.loading[a], exists(pool.all(Part), lambda p: pool.loaded[a, p])), pool.moment[a] < pool.clock
            ),
        ),
        forall(
            pool.all(Checkpoint),
            lambda c: implies(
                or_(pool.stage[c] == Stage.STORING, pool.stage[c] == Stage.CACHED, pool.stage[c] == Stage.PENDING),
                pool.donated[c] < pool.clock,
            ),
        ),
    )


@invariant("I7", "I19")
def the_parts_of_a_state_belong_together(pool: Lifecycle) -> Bool:
    """I7, I19: all parts of a state are of one moment and one loss, and at as many tokens as its position says."""
    return forall(
        pool.all(Active),
        lambda a: forall(
            pool.all(Part),
            lambda p: implies(
                pool.loaded[a, p],
                and_(
                    pool.part_moment[a, p] == pool.moment[a],
                    pool.part_depth[a, p] == pool.depth[a],
                    pool.part_tokens[a, p] == pool.position[a],
                ),
            ),
        ),
    )


# --------------------------------------------------------------------------------- invariants: the pool of checkpoints


@invariant("I1")
def the_sink_of_the_checkpoints_is_only_the_sink(pool: Lifecycle) -> Bool:
    """I1: checkpoint slot 0, and no other, belongs to the sink."""
    return forall(pool.all(Checkpoint), lambda c: iff(pool.stage[c] == Stage.SINK, c == CHECKPOINT_SINK))


@invariant("I1")
def free_checkpoints_are_listed(pool: Lifecycle) -> Bool:
    """I1: the list of free checkpoint slots holds exactly those that are free."""
    return forall(pool.all(Checkpoint), lambda c: iff(pool.free_checkpoints.has(c), pool.stage[c] == Stage.FREE))


@invariant("I1", "I3")
def exactly_donations_have_a_donor(pool: Lifecycle) -> Bool:
    """I1, I3: a checkpoint slot names a request, which is not idle, exactly while that stores a donation there."""
    return forall(
        pool.all(Checkpoint),
        lambda c: ite(
            pool.stage[c] == Stage.STORING,
            lambda: and_(pool.all(Request).has(pool.donor[c]), lambda: pool.phase[pool.donor[c]] != Phase.IDLE),
            lambda: pool.donor[c] == NOBODY,
        ),
    )


@invariant("I1", "I3")
def exactly_cached_slots_have_a_node(pool: Lifecycle) -> Bool:
    """I1, I3: a checkpoint slot names a node exactly while it is that node's."""
    return forall(
        pool.all(Checkpoint),
        lambda c: ite(
            pool.stage[c] == Stage.CACHED,
            lambda: and_(pool.all(Node).has(pool.node_of[c]), lambda: pool.checkpoint[pool.node_of[c]] == c),
            lambda: pool.node_of[c] == NO_NODE,
        ),
    )


@invariant("I1", "I3")
def a_node_names_only_its_checkpoint(pool: Lifecycle) -> Bool:
    """I1, I3: what a node has noted as its checkpoint is cached and its own; no node that is gone has one."""
    return forall(
        pool.all(Node),
        lambda n: implies(
            pool.checkpoint[n] != NOTHING,
            lambda: and_(
                pool.is_kept[n],
                pool.all(Checkpoint).has(pool.checkpoint[n]),
                lambda: pool.stage[pool.checkpoint[n]] == Stage.CACHED,
                lambda: pool.node_of[pool.checkpoint[n]] == n,
            ),
        ),
    )


@invariant("I21")
def donations_are_counted(pool: Lifecycle) -> Bool:
    """I21: the count of donations is their number."""
    return counts(pool.storing, pool.all(Checkpoint), lambda c: pool.stage[c] == Stage.STORING)


@invariant("I21")
def cached_checkpoints_are_counted(pool: Lifecycle) -> Bool:
    """I21: the count of cached checkpoints is their number."""
    return counts(pool.cached, pool.all(Checkpoint), lambda c: pool.stage[c] == Stage.CACHED)


@invariant("I21")
def pending_checkpoints_are_counted(pool: Lifecycle) -> Bool:
    """I21: the count of pending checkpoint slots is their number."""
    return counts(pool.parked, pool.all(Checkpoint), lambda c: pool.stage[c] == Stage.PENDING)


@invariant("I21")
def checkpoints_are_conserved(pool: Lifecycle) -> Bool:
    """I21: free + donations + cached + pending + the sink = all checkpoint slots."""
    return pool.free_checkpoints.size + pool.storing + pool.cached + pool.parked + 1 == pool.checkpoints


@invariant("I6", "I7")
def a_cached_checkpoint_is_complete(pool: Lifecycle) -> Bool:
    """I6, I7: what can be hit has all its parts, and no copy into it is in flight."""
    return forall(
        pool.all(Checkpoint),
        lambda c: implies(pool.stage[c] == Stage.CACHED, lambda: and_(not_(pool.copying[c]), is_complete(pool, c))),
    )


@invariant("I3")
def a_free_checkpoint_holds_no_part(pool: Lifecycle) -> Bool:
    """I3: what a slot held for an earlier node does not count as there."""
    return forall(
        pool.all(Checkpoint),
        lambda c: implies(
            or_(pool.stage[c] == Stage.FREE, pool.stage[c] == Stage.SINK),
            lambda: and_(not_(pool.copying[c]), forall(pool.all(Part), lambda p: not_(pool.stored[c, p]))),
        ),
    )


@invariant("I7", "I19")
def the_parts_of_a_checkpoint_are_images_of_one_state(pool: Lifecycle) -> Bool:
    """I7, I19: all parts of a checkpoint are of the donated moment, quantised once more, at its number of tokens."""
    return forall(
        pool.all(Checkpoint),
        lambda c: forall(
            pool.all(Part),
            lambda p: implies(
                pool.stored[c, p],
                and_(
                    pool.image_moment[c, p] == pool.donated[c],
                    pool.image_depth[c, p] == pool.donated_depth[c] + 1,
                    pool.image_tokens[c, p] == pool.length[c],
                ),
            ),
        ),
    )


# ------------------------------------------------------------------------------------------ invariants: both together


@invariant("I19")
def a_checkpoint_is_as_long_as_its_key(pool: Lifecycle) -> Bool:
    """I19: the state of a node was computed from just as many tokens as the node's key has."""
    return forall(
        pool.all(Checkpoint),
        lambda c: implies(
            and_(pool.stage[c] == Stage.CACHED, pool.all(Node).has(pool.node_of[c])),
            lambda: pool.length[c] == pool.key_length[pool.node_of[c]],
        ),
    )


@invariant("I5", "I7")
def what_is_being_stored_stays(pool: Lifecycle) -> Bool:
    """I5, I7: while a donation is copied, its source is whole, still the donated state, and nobody else's."""
    return forall(
        pool.all(Checkpoint),
        lambda c: implies(
            pool.copying[c],
            lambda: and_(
                pool.all(Active).has(pool.source[c]),
                lambda: or_(is_tenant(pool.use[pool.source[c]]), pool.use[pool.source[c]] == Use.PENDING),
                lambda: is_ready(pool, pool.source[c]),
                lambda: pool.moment[pool.source[c]] == pool.donated[c],
                lambda: pool.depth[pool.source[c]] == pool.donated_depth[c],
                lambda: pool.position[pool.source[c]] == pool.length[c],
                lambda: or_(pool.stage[c] == Stage.STORING, pool.stage[c] == Stage.PENDING),
            ),
        ),
    )


@invariant("I5", "I7")
def what_is_being_loaded_stays(pool: Lifecycle) -> Bool:
    """I5, I7: while a checkpoint is loaded, it is complete, and cached or pending; the slot expects just that state."""
    return forall(
        pool.all(Active),
        lambda a: implies(
            pool.loading[a],
            lambda: and_(
                pool.all(Checkpoint).has(pool.origin[a]),
                lambda: or_(pool.stage[pool.origin[a]] == Stage.CACHED, pool.stage[pool.origin[a]] == Stage.PENDING),
                lambda: not_(pool.copying[pool.origin[a]]),
                lambda: is_complete(pool, pool.origin[a]),
                lambda: pool.moment[a] == pool.donated[pool.origin[a]],
                lambda: pool.depth[a] == pool.donated_depth[pool.origin[a]] + 1,
                lambda: pool.position[a] == pool.length[pool.origin[a]],
            ),
        ),
    )


@invariant("I13")
def page_pins_are_counted(pool: Lifecycle) -> Bool:
    """I13: the pins of a node's pages are the locks on it with that scope."""
    return forall(
        pool.all(Node),
        lambda n: counts(pool.page_pins[n], pool.all(Lock), lambda lock: keeps(pool, lock, n, Scope.PAGES)),
    )


@invariant("I13")
def state_pins_are_counted(pool: Lifecycle) -> Bool:
    """I13: the pins of a node's checkpoint are the locks on it with that scope."""
    return forall(
        pool.all(Node),
        lambda n: counts(pool.state_pins[n], pool.all(Lock), lambda lock: keeps(pool, lock, n, Scope.STATE)),
    )


@invariant("I13")
def a_node_that_is_not_there_has_no_pins(pool: Lifecycle) -> Bool:
    """I13: nobody keeps what is not there."""
    return forall(
        pool.all(Node),
        lambda n: implies(not_(pool.is_kept[n]), and_(pool.page_pins[n] == 0, pool.state_pins[n] == 0)),
    )


@invariant("I13")
def a_lock_is_somebodys_on_something(pool: Lifecycle) -> Bool:
    """I13: a held lock is a request's that is not idle, and on a node that is there."""
    return forall(
        pool.all(Lock),
        lambda lock: implies(
            pool.is_held[lock],
            lambda: and_(
                pool.all(Request).has(pool.locker[lock]),
                lambda: pool.phase[pool.locker[lock]] != Phase.IDLE,
                pool.all(Node).has(pool.locked[lock]),
                lambda: pool.is_kept[pool.locked[lock]],
                or_(pool.scope[lock] == Scope.PAGES, pool.scope[lock] == Scope.STATE),
            ),
        ),
    )


@invariant("I3", "I21")
def an_idle_request_holds_no_slot(pool: Lifecycle) -> Bool:
    """I3, I21: who is not there owns nothing, in neither pool."""
    return forall(
        pool.all(Request),
        lambda r: and_(
            implies(pool.phase[r] == Phase.IDLE, pool.own[r] == NOWHERE),
            implies(pool.phase[r] != Phase.RUNNING, pool.latest[r] == NOWHERE),
        ),
    )


release_batch = batch(release, over="a", doc="A request gives back all of these active slots, or none.")


# -------------------------------------------------------------------------------------------------------- theorems


@define
def places_of_active(pool: Lifecycle, a: Active) -> Int:
    """In how many places is the active slot: the free list, a request's hands, pending, the sink?"""
    return (
        ite(pool.free_actives.has(a), 1, 0)
        + ite(pool.holder[a] != NOBODY, 1, 0)
        + ite(pool.use[a] == Use.PENDING, 1, 0)
        + ite(a == ACTIVE_SINK, 1, 0)
    )


@define
def places_of_checkpoint(pool: Lifecycle, c: Checkpoint) -> Int:
    """In how many places is the checkpoint slot: the free list, a donor's hands, a node, pending, the sink?"""
    return (
        ite(pool.free_checkpoints.has(c), 1, 0)
        + ite(pool.donor[c] != NOBODY, 1, 0)
        + ite(pool.node_of[c] != NO_NODE, 1, 0)
        + ite(pool.stage[c] == Stage.PENDING, 1, 0)
        + ite(c == CHECKPOINT_SINK, 1, 0)
    )


@theorem("I1")
def every_active_slot_is_in_exactly_one_place(pool: Lifecycle) -> Bool:
    """I1: free, a request's, pending, or the sink."""
    return forall(pool.all(Active), lambda a: places_of_active(pool, a) == 1)


@theorem("I1")
def every_checkpoint_slot_is_in_exactly_one_place(pool: Lifecycle) -> Bool:
    """I1: free, a donation, a node's, pending, or the sink."""
    return forall(pool.all(Checkpoint), lambda c: places_of_checkpoint(pool, c) == 1)


@theorem("I1")
def the_sinks_are_never_handed_out(pool: Lifecycle, r: Request, n: Node, lock: Lock, a: Active) -> Bool:
    """I1: nobody is ever given slot 0 of either pool."""
    return and_(
        not_(enabled(admit, pool, r, ACTIVE_SINK)),
        not_(enabled(hit, pool, r, n, lock, ACTIVE_SINK)),
        not_(enabled(add_track, pool, r, ACTIVE_SINK)),
        not_(enabled(begin_store, pool, r, a, CHECKPOINT_SINK)),
    )


@theorem("I2")
def only_its_owner_can_give_a_slot_back(pool: Lifecycle, r: Request, a: Active) -> Bool:
    """I2: giving back twice, or what one does not own, a negative id, one past the end or the sink, is refused."""
    return implies(
        not_(owns(pool, r, a)),
        lambda: and_(not_(enabled(release, pool, r, a)), not_(enabled(retire_active, pool, r, a))),
    )


@theorem("I2")
def only_its_donor_can_end_a_donation(pool: Lifecycle, r: Request, c: Checkpoint, n: Node) -> Bool:
    """I2: who has not donated a slot can neither publish nor give it up, nor can anyone twice."""
    return implies(
        not_(donates(pool, r, c)),
        lambda: and_(
            not_(enabled(publish, pool, r, c, n)),
            not_(enabled(drop, pool, r, c)),
            not_(enabled(retire_checkpoint, pool, r, c)),
        ),
    )


@theorem("I4")
def an_abort_is_never_stuck(pool: Lifecycle, r: Request, a: Active, c: Checkpoint, lock: Lock) -> Bool:
    """I4: at every point, whatever a request holds it can give back, and without anything it can leave."""
    return and_(
        implies(
            owns(pool, r, a), lambda: or_(enabled(release, pool, r, a), lambda: enabled(retire_active, pool, r, a))
        ),
        implies(
            donates(pool, r, c), lambda: or_(enabled(drop, pool, r, c), lambda: enabled(retire_checkpoint, pool, r, c))
        ),
        implies(
            and_(pool.all(Lock).has(lock), lambda: pool.is_held[lock], lambda: pool.locker[lock] == r),
            lambda: enabled(release_lock, pool, r, lock),
        ),
        implies(
            and_(pool.all(Request).has(r), lambda: pool.phase[r] != Phase.IDLE, lambda: holds_nothing(pool, r)),
            lambda: enabled(leave, pool, r),
        ),
    )


@theorem("I4")
def a_request_can_end_without_a_free_checkpoint(pool: Lifecycle, r: Request, a: Active) -> Bool:
    """I4: a donation is optional. Where no checkpoint slot is free it is skipped, and the active slot goes back."""
    return implies(
        and_(
            pool.free_checkpoints.size == 0,
            owns(pool, r, a),
            lambda: not_(pool.loading[a]),
            lambda: not_(is_being_read(pool, a)),
        ),
        lambda: enabled(release, pool, r, a),
    )


@define
def is_the_same(pool: Lifecycle, other: Lifecycle) -> Bool:
    """Has everybody in both the same slots, donations, checkpoints and locks, and are as many slots free?"""
    return and_(
        forall(
            pool.all(Active),
            lambda a: and_(
                pool.use[a] == other.use[a],
                pool.holder[a] == other.holder[a],
                iff(pool.free_actives.has(a), other.free_actives.has(a)),
                iff(pool.loading[a], other.loading[a]),
                forall(pool.all(Part), lambda p: iff(pool.loaded[a, p], other.loaded[a, p])),
            ),
        ),
        forall(
            pool.all(Checkpoint),
            lambda c: and_(
                pool.stage[c] == other.stage[c],
                pool.donor[c] == other.donor[c],
                pool.node_of[c] == other.node_of[c],
                iff(pool.free_checkpoints.has(c), other.free_checkpoints.has(c)),
                iff(pool.copying[c], other.copying[c]),
                forall(pool.all(Part), lambda p: iff(pool.stored[c, p], other.stored[c, p])),
            ),
        ),
        forall(
            pool.all(Request),
            lambda r: and_(
                pool.own[r] == other.own[r],
                pool.latest[r] == other.latest[r],
                pool.spare[r] == other.spare[r],
                pool.phase[r] == other.phase[r],
            ),
        ),
        forall(
            pool.all(Node),
            lambda n: and_(
                iff(pool.is_kept[n], other.is_kept[n]),
                pool.checkpoint[n] == other.checkpoint[n],
                pool.page_pins[n] == other.page_pins[n],
                pool.state_pins[n] == other.state_pins[n],
            ),
        ),
        forall(pool.all(Lock), lambda lock: iff(pool.is_held[lock], other.is_held[lock])),
        pool.free_actives.size == other.free_actives.size,
        pool.free_checkpoints.size == other.free_checkpoints.size,
        and_(pool.queued == other.queued, pool.running == other.running, pool.tracks == other.tracks),
        and_(pool.waiting == other.waiting, pool.storing == other.storing),
        and_(pool.cached == other.cached, pool.parked == other.parked),
    )


@theorem("I4")
def a_rejected_hit_leaves_nothing(pool: Lifecycle, r: Request, n: Node, lock: Lock, a: Active) -> Bool:
    """I4: a request that is given a slot for a hit, and then not admitted, leaves no slot and no handle behind."""
    return implies(
        enabled(hit, pool, r, n, lock, a),
        lambda: and_(
            enabled(end_load, after(hit, pool, r, n, lock, a), a),
            lambda: enabled(release, after(end_load, after(hit, pool, r, n, lock, a), a), r, a),
            lambda: is_the_same(pool, after(release, after(end_load, after(hit, pool, r, n, lock, a), a), r, a)),
        ),
    )


@theorem("I4")
def an_aborted_donation_leaves_nothing(pool: Lifecycle, r: Request, a: Active, c: Checkpoint) -> Bool:
    """I4: between taking a checkpoint slot and publishing it, a donation can be given up without a trace."""
    return implies(
        enabled(begin_store, pool, r, a, c),
        lambda: and_(
            enabled(end_store, after(begin_store, pool, r, a, c), c),
            lambda: enabled(drop, after(end_store, after(begin_store, pool, r, a, c), c), r, c),
            lambda: is_the_same(pool, after(drop, after(end_store, after(begin_store, pool, r, a, c), c), r, c)),
        ),
    )


@theorem("I4")
def capacity_n_means_that_n_admissions_succeed(pool: Lifecycle, r: Request, n: Int) -> Bool:
    """I4: with more than n free active slots a queued request is given one, and n are left."""
    return implies(
        and_(
            pool.all(Request).has(r),
            lambda: pool.phase[r] == Phase.QUEUED,
            lambda: pool.own[r] == NOWHERE,
            n >= 0,
            pool.free_actives.size > n,
        ),
        lambda: exists(
            pool.all(Active),
            lambda a: and_(enabled(admit, pool, r, a), lambda: after(admit, pool, r, a).free_actives.size >= n),
            witness=lambda: pool.free_actives.pick(),
        ),
    )


@theorem("I4")
def capacity_n_means_that_n_donations_succeed(pool: Lifecycle, r: Request, a: Active, n: Int) -> Bool:
    """I4: with more than n free checkpoint slots a state can be donated, and n are left."""
    return implies(
        and_(
            owns(pool, r, a),
            lambda: is_ready(pool, a),
            lambda: pool.position[a] > 0,
            n >= 0,
            pool.free_checkpoints.size > n,
        ),
        lambda: exists(
            pool.all(Checkpoint),
            lambda c: and_(
                enabled(begin_store, pool, r, a, c),
                lambda: after(begin_store, pool, r, a, c).free_checkpoints.size >= n,
            ),
            witness=lambda: pool.free_checkpoints.pick(),
        ),
    )


@theorem("I5")
def what_is_being_read_is_not_written(pool: Lifecycle, r: Request, tokens: Int) -> Bool:
    """I5: no step computes on a state, and no snapshot overwrites one, that a donation is still copied from."""
    return implies(
        pool.all(Request).has(r),
        lambda: and_(
            implies(is_being_read(pool, pool.own[r]), lambda: not_(enabled(advance, pool, r, tokens))),
            implies(is_being_read(pool, pool.spare[r]), lambda: not_(enabled(track, pool, r))),
        ),
    )


@theorem("I11")
def a_running_request_can_go_on(pool: Lifecycle, r: Request, tokens: Int) -> Bool:
    """I11: a running request that nothing is copied from can compute, and take snapshots once it has computed."""
    return implies(
        and_(
            pool.all(Request).has(r),
            lambda: pool.phase[r] == Phase.RUNNING,
            lambda: pool.own[r] != NOWHERE,
            lambda: not_(is_being_read(pool, pool.own[r])),
            tokens > 0,
        ),
        lambda: and_(
            enabled(advance, pool, r, tokens),
            implies(
                and_(
                    pool.spare[r] != NOWHERE,
                    pool.position[pool.own[r]] > 0,
                    not_(is_being_read(pool, pool.spare[r])),
                ),
                lambda: enabled(track, pool, r),
            ),
        ),
    )


@theorem("I11")
def what_is_pending_comes_back(pool: Lifecycle, a: Active, c: Checkpoint) -> Bool:
    """I11: once its copies have ended, a pending slot of either pool can be taken back."""
    return and_(
        implies(
            and_(
                pool.all(Active).has(a),
                lambda: pool.use[a] == Use.PENDING,
                lambda: not_(pool.loading[a]),
                lambda: not_(is_being_read(pool, a)),
            ),
            lambda: enabled(reclaim_active, pool, a),
        ),
        implies(
            and_(
                pool.all(Checkpoint).has(c),
                lambda: pool.stage[c] == Stage.PENDING,
                lambda: not_(pool.copying[c]),
                lambda: not_(is_being_loaded(pool, c)),
            ),
            lambda: enabled(reclaim_checkpoint, pool, c),
        ),
    )


@theorem("I11")
def an_idle_checkpoint_can_always_be_evicted(pool: Lifecycle, n: Node) -> Bool:
    """I11: a checkpoint that no lock keeps can go, at once or behind the copy that reads it."""
    return implies(
        and_(pool.all(Node).has(n), lambda: pool.checkpoint[n] != NOTHING, lambda: pool.state_pins[n] == 0),
        lambda: or_(enabled(evict, pool, n), enabled(evict_later, pool, n)),
    )


@theorem("I1")
def a_key_has_a_token_or_more(pool: Lifecycle, n: Node, length: Int) -> Bool:
    """I1: there is a node for every key but the empty one, while there is a place."""
    return implies(
        and_(pool.all(Node).has(n), lambda: not_(pool.is_kept[n])),
        lambda: iff(enabled(add_node, pool, n, length), length > 0),
    )


@theorem("I6")
def only_a_complete_donation_is_published(pool: Lifecycle, r: Request, c: Checkpoint, n: Node) -> Bool:
    """I6: while its copy is in flight, or where a part is missing, nothing becomes a checkpoint."""
    return implies(
        and_(pool.all(Checkpoint).has(c), lambda: or_(pool.copying[c], not_(is_complete(pool, c)))),
        lambda: not_(enabled(publish, pool, r, c, n)),
    )


@theorem("I6")
def a_request_starts_only_on_a_state_that_arrived(pool: Lifecycle, r: Request) -> Bool:
    """I6: a request begins to run exactly when its state has arrived, be it loaded or fresh."""
    return implies(
        and_(pool.all(Request).has(r), lambda: pool.phase[r] == Phase.QUEUED, lambda: pool.own[r] != NOWHERE),
        lambda: iff(enabled(start, pool, r), is_ready(pool, pool.own[r])),
    )


@theorem("I7")
def a_second_checkpoint_is_redundant(pool: Lifecycle, r: Request, c: Checkpoint, n: Node) -> Bool:
    """I7: where a node has a checkpoint already, a donation cannot replace it, and its slot can be given back."""
    return implies(
        and_(
            donates(pool, r, c),
            lambda: not_(pool.copying[c]),
            pool.all(Node).has(n),
            lambda: pool.checkpoint[n] != NOTHING,
        ),
        lambda: and_(not_(enabled(publish, pool, r, c, n)), enabled(drop, pool, r, c)),
    )


@theorem("I6", "I19")
def a_complete_donation_can_be_published(pool: Lifecycle, r: Request, c: Checkpoint, n: Node) -> Bool:
    """I6, I19, the other side: a node of the donation's length that has no checkpoint is given it."""
    return implies(
        and_(
            donates(pool, r, c),
            lambda: not_(pool.copying[c]),
            lambda: is_complete(pool, c),
            pool.all(Node).has(n),
            lambda: pool.is_kept[n],
            lambda: pool.checkpoint[n] == NOTHING,
            lambda: pool.key_length[n] == pool.length[c],
        ),
        lambda: enabled(publish, pool, r, c, n),
    )


@theorem("I11", "I23")
def an_eviction_makes_room(pool: Lifecycle, n: Node, r: Request, a: Active) -> Bool:
    """I11, I23: an idle checkpoint can be evicted, and a donation that waited for a slot succeeds with it."""
    return implies(
        and_(
            pool.all(Node).has(n),
            lambda: pool.checkpoint[n] != NOTHING,
            lambda: pool.state_pins[n] == 0,
            lambda: not_(is_being_loaded(pool, pool.checkpoint[n])),
            owns(pool, r, a),
            lambda: is_ready(pool, a),
            lambda: pool.position[a] > 0,
        ),
        lambda: and_(
            enabled(evict, pool, n),
            lambda: after(evict, pool, n).free_checkpoints.size == pool.free_checkpoints.size + 1,
            lambda: enabled(begin_store, after(evict, pool, n), r, a, pool.checkpoint[n]),
        ),
    )


@theorem("I13", "I23")
def what_is_locked_is_not_evicted(pool: Lifecycle, lock: Lock, n: Node) -> Bool:
    """I13, I23: a lock on a node's state keeps its checkpoint, and either kind of lock keeps the node."""
    return implies(
        and_(pool.all(Lock).has(lock), lambda: pool.is_held[lock], lambda: pool.locked[lock] == n),
        lambda: and_(
            not_(enabled(remove_node, pool, n)),
            implies(
                pool.scope[lock] == Scope.STATE,
                lambda: and_(not_(enabled(evict, pool, n)), not_(enabled(evict_later, pool, n))),
            ),
        ),
    )


@theorem("I13")
def only_its_holder_can_release_a_lock(pool: Lifecycle, r: Request, lock: Lock) -> Bool:
    """I13: releasing twice, or another request's lock, is refused."""
    return implies(
        not_(and_(pool.all(Lock).has(lock), lambda: pool.is_held[lock], lambda: pool.locker[lock] == r)),
        lambda: not_(enabled(release_lock, pool, r, lock)),
    )


@theorem("I13")
def a_node_that_nobody_needs_can_go(pool: Lifecycle, n: Node) -> Bool:
    """I13: once every lock is released and the checkpoint evicted, nothing keeps a node."""
    return implies(
        and_(
            pool.all(Node).has(n),
            lambda: pool.is_kept[n],
            lambda: pool.checkpoint[n] == NOTHING,
            lambda: pool.page_pins[n] == 0,
            lambda: pool.state_pins[n] == 0,
        ),
        lambda: enabled(remove_node, pool, n),
    )


@theorem("I4", "I23")
def a_locked_checkpoint_can_be_hit(pool: Lifecycle, r: Request, n: Node, lock: Lock) -> Bool:
    """I4, I23: while an active slot is free, a queued request that keeps a node's checkpoint can be given it."""
    return implies(
        and_(
            pool.all(Request).has(r),
            lambda: pool.phase[r] == Phase.QUEUED,
            lambda: pool.own[r] == NOWHERE,
            pool.all(Lock).has(lock),
            lambda: keeps(pool, lock, n, Scope.STATE),
            lambda: pool.locker[lock] == r,
            lambda: pool.checkpoint[n] != NOTHING,
            pool.free_actives.size > 0,
        ),
        lambda: exists(
            pool.all(Active), lambda a: enabled(hit, pool, r, n, lock, a), witness=lambda: pool.free_actives.pick()
        ),
    )


@theorem("I23")
def an_eviction_disturbs_no_running_hit(
    pool: Lifecycle, r: Request, n: Node, lock: Lock, a: Active, victim: Node
) -> Bool:
    """I23: whoever is evicted while a hit looks for a slot, the hit can go on, from the same checkpoint."""
    return and_(
        implies(
            and_(enabled(hit, pool, r, n, lock, a), enabled(evict, pool, victim)),
            lambda: and_(
                enabled(hit, after(evict, pool, victim), r, n, lock, a),
                lambda: after(evict, pool, victim).checkpoint[n] == pool.checkpoint[n],
            ),
        ),
        implies(
            and_(enabled(hit, pool, r, n, lock, a), enabled(evict_later, pool, victim)),
            lambda: and_(
                enabled(hit, after(evict_later, pool, victim), r, n, lock, a),
                lambda: after(evict_later, pool, victim).checkpoint[n] == pool.checkpoint[n],
            ),
        ),
    )


@theorem("I21")
def counts_of_slots_are_never_negative(pool: Lifecycle) -> Bool:
    """I21: no count is below zero or above the size of its pool."""
    return and_(
        and_(pool.queued >= 0, pool.queued < pool.actives),
        and_(pool.running >= 0, pool.running < pool.actives),
        and_(pool.tracks >= 0, pool.tracks < pool.actives),
        and_(pool.waiting >= 0, pool.waiting < pool.actives),
        and_(pool.storing >= 0, pool.storing < pool.checkpoints),
        and_(pool.cached >= 0, pool.cached < pool.checkpoints),
        and_(pool.parked >= 0, pool.parked < pool.checkpoints),
        forall(pool.all(Node), lambda n: and_(pool.page_pins[n] >= 0, pool.state_pins[n] >= 0)),
    )


# ----------------------------------------------------------------------------------------------- claims about steps


@define
def is_legal_use(old: Use, new: Use) -> Bool:
    """The lifecycle of an active slot."""
    return or_(
        old == new,
        and_(old == Use.FREE, or_(new == Use.QUEUED, new == Use.TRACK)),
        and_(old == Use.QUEUED, new == Use.RUNNING),
        and_(is_tenant(old), or_(new == Use.FREE, new == Use.PENDING)),
        and_(old == Use.PENDING, new == Use.FREE),
    )


@define
def is_legal_stage(old: Stage, new: Stage) -> Bool:
    """The lifecycle of a checkpoint slot."""
    return or_(
        old == new,
        and_(old == Stage.FREE, new == Stage.STORING),
        and_(old == Stage.STORING, new == Stage.CACHED),
        and_(or_(old == Stage.STORING, old == Stage.CACHED), or_(new == Stage.FREE, new == Stage.PENDING)),
        and_(old == Stage.PENDING, new == Stage.FREE),
    )


@step("I1", "I2")
def slots_change_only_along_their_lifecycles(pre: Lifecycle, post: Lifecycle) -> Bool:
    """I1, I2: a slot is never handed out but from the free list, and never cached but from a donation."""
    return and_(
        forall(pre.all(Active), lambda a: is_legal_use(pre.use[a], post.use[a])),
        forall(pre.all(Checkpoint), lambda c: is_legal_stage(pre.stage[c], post.stage[c])),
    )


@define
def is_untouched(pre: Lifecycle, post: Lifecycle, c: Checkpoint) -> Bool:
    """Has the checkpoint slot the same bytes, of the same length, as before?"""
    return and_(
        pre.length[c] == post.length[c],
        pre.donated[c] == post.donated[c],
        pre.donated_depth[c] == post.donated_depth[c],
        forall(
            pre.all(Part),
            lambda p: and_(
                iff(pre.stored[c, p], post.stored[c, p]),
                pre.image_moment[c, p] == post.image_moment[c, p],
                pre.image_depth[c, p] == post.image_depth[c, p],
                pre.image_tokens[c, p] == post.image_tokens[c, p],
            ),
        ),
    )


@step("I7")
def cached_bytes_never_change(pre: Lifecycle, post: Lifecycle) -> Bool:
    """I7: whatever anyone does, a checkpoint that stays cached stays what it was, at the same node."""
    return forall(
        pre.all(Checkpoint),
        lambda c: implies(
            and_(pre.stage[c] == Stage.CACHED, post.stage[c] == Stage.CACHED),
            lambda: and_(is_untouched(pre, post, c), pre.node_of[c] == post.node_of[c]),
        ),
    )


@step("I5", "I7")
def a_slot_keeps_its_bytes_while_a_copy_reads_it(pre: Lifecycle, post: Lifecycle) -> Bool:
    """I5, I7: until the copy ends, a donated state and a loaded checkpoint are not touched."""
    return and_(
        forall(
            pre.all(Checkpoint),
            lambda c: implies(
                and_(pre.copying[c], post.copying[c]),
                lambda: and_(pre.source[c] == post.source[c], pre.moment[pre.source[c]] == post.moment[pre.source[c]]),
            ),
        ),
        forall(
            pre.all(Active),
            lambda a: implies(
                and_(pre.loading[a], post.loading[a]),
                lambda: and_(pre.origin[a] == post.origin[a], is_untouched(pre, post, pre.origin[a])),
            ),
        ),
    )


@step("I13", "I23")
def a_lock_keeps_what_it_says(pre: Lifecycle, post: Lifecycle) -> Bool:
    """I13, I23: as long as a lock is held, its node stays, and with scope STATE the node's checkpoint does too."""
    return forall(
        pre.all(Lock),
        lambda lock: implies(
            and_(pre.is_held[lock], post.is_held[lock]),
            lambda: and_(
                pre.locked[lock] == post.locked[lock],
                pre.scope[lock] == post.scope[lock],
                pre.locker[lock] == post.locker[lock],
                post.is_kept[pre.locked[lock]],
                pre.key_length[pre.locked[lock]] == post.key_length[pre.locked[lock]],
                implies(
                    and_(pre.scope[lock] == Scope.STATE, pre.checkpoint[pre.locked[lock]] != NOTHING),
                    lambda: post.checkpoint[pre.locked[lock]] == pre.checkpoint[pre.locked[lock]],
                ),
            ),
        ),
    )


@define
def is_same_state(pre: Lifecycle, post: Lifecycle, a: Active) -> Bool:
    """Has the active slot the same owner and the same state as before?"""
    return and_(
        pre.use[a] == post.use[a],
        pre.holder[a] == post.holder[a],
        pre.position[a] == post.position[a],
        pre.moment[a] == post.moment[a],
        pre.depth[a] == post.depth[a],
        iff(pre.loading[a], post.loading[a]),
        forall(pre.all(Part), lambda p: iff(pre.loaded[a, p], post.loaded[a, p])),
    )


@define
def other_states_are_untouched(pre: Lifecycle, post: Lifecycle, a: Active) -> Bool:
    """Every active slot but this one is as it was."""
    return forall(pre.all(Active), lambda b: implies(b != a, lambda: is_same_state(pre, post, b)))


@define
def is_same_checkpoint(pre: Lifecycle, post: Lifecycle, c: Checkpoint) -> Bool:
    """Has the checkpoint slot the same owner and the same bytes as before?"""
    return and_(
        pre.stage[c] == post.stage[c],
        pre.donor[c] == post.donor[c],
        pre.node_of[c] == post.node_of[c],
        iff(pre.copying[c], post.copying[c]),
        is_untouched(pre, post, c),
    )


@define
def other_checkpoints_are_untouched(pre: Lifecycle, post: Lifecycle, c: Checkpoint) -> Bool:
    """Every checkpoint slot but this one is as it was."""
    return forall(pre.all(Checkpoint), lambda d: implies(d != c, lambda: is_same_checkpoint(pre, post, d)))


@define
def is_same_request(pre: Lifecycle, post: Lifecycle, r: Request) -> Bool:
    """Is the request in the same phase, with the same slots?"""
    return and_(
        pre.phase[r] == post.phase[r],
        pre.own[r] == post.own[r],
        pre.latest[r] == post.latest[r],
        pre.spare[r] == post.spare[r],
    )


@define
def other_requests_are_untouched(pre: Lifecycle, post: Lifecycle, r: Request) -> Bool:
    """Every request but this one is as it was."""
    return forall(pre.all(Request), lambda q: implies(q != r, lambda: is_same_request(pre, post, q)))


@define
def is_same_node(pre: Lifecycle, post: Lifecycle, n: Node) -> Bool:
    """Has the node the same key, checkpoint and pins?"""
    return and_(
        iff(pre.is_kept[n], post.is_kept[n]),
        pre.key_length[n] == post.key_length[n],
        pre.checkpoint[n] == post.checkpoint[n],
        pre.page_pins[n] == post.page_pins[n],
        pre.state_pins[n] == post.state_pins[n],
    )


@define
def other_nodes_are_untouched(pre: Lifecycle, post: Lifecycle, n: Node) -> Bool:
    """Every node but this one is as it was."""
    return forall(pre.all(Node), lambda m: implies(m != n, lambda: is_same_node(pre, post, m)))


@define
def locks_are_untouched(pre: Lifecycle, post: Lifecycle) -> Bool:
    """Every lock is held, or not, as before."""
    return forall(pre.all(Lock), lambda lock: iff(pre.is_held[lock], post.is_held[lock]))


@define
def the_cache_is_untouched(pre: Lifecycle, post: Lifecycle) -> Bool:
    """No node and no lock has changed."""
    return and_(other_nodes_are_untouched(pre, post, NO_NODE), locks_are_untouched(pre, post))


@ensures(create, "I25")
def new_pools_are_free(pre: Lifecycle, post: Lifecycle) -> Bool:
    """I25: whatever the memory held before, all but the sinks is free, and nobody is there."""
    return and_(
        forall(post.all(Active), lambda a: or_(a == ACTIVE_SINK, post.use[a] == Use.FREE)),
        forall(post.all(Checkpoint), lambda c: or_(c == CHECKPOINT_SINK, post.stage[c] == Stage.FREE)),
        forall(post.all(Request), lambda r: post.phase[r] == Phase.IDLE),
        forall(post.all(Node), lambda n: not_(post.is_kept[n])),
        forall(post.all(Lock), lambda lock: not_(post.is_held[lock])),
    )


@ensures(enqueue, "I21")
def an_arrival_waits(pre: Lifecycle, post: Lifecycle, r: Request) -> Bool:
    """I21: a request that was not there is queued, with nothing."""
    return and_(
        pre.phase[r] == Phase.IDLE,
        post.phase[r] == Phase.QUEUED,
        holds_nothing(post, r),
        other_requests_are_untouched(pre, post, r),
        other_states_are_untouched(pre, post, NOWHERE),
        the_cache_is_untouched(pre, post),
        other_checkpoints_are_untouched(pre, post, NOTHING),
    )


@ensures(admit, "I3", "I4")
def an_admission_gives_a_fresh_state(pre: Lifecycle, post: Lifecycle, r: Request, a: Active) -> Bool:
    """I3, I4: the request owns a slot that was free, with the state before its first token."""
    return and_(
        pre.use[a] == Use.FREE,
        owns(post, r, a),
        post.own[r] == a,
        post.use[a] == Use.QUEUED,
        post.position[a] == 0,
        post.depth[a] == 0,
        is_ready(post, a),
        other_states_are_untouched(pre, post, a),
        other_requests_are_untouched(pre, post, r),
        other_checkpoints_are_untouched(pre, post, NOTHING),
        the_cache_is_untouched(pre, post),
    )


@ensures(hit, "I7", "I13", "I19")
def a_hit_begins_a_private_copy(pre: Lifecycle, post: Lifecycle, r: Request, n: Node, lock: Lock, a: Active) -> Bool:
    """I7, I13, I19: a slot that was free expects the node's checkpoint, at the length of its key; the node keeps it."""
    return and_(
        pre.use[a] == Use.FREE,
        pre.is_held[lock],
        pre.locker[lock] == r,
        pre.phase[r] == Phase.QUEUED,
        owns(post, r, a),
        post.own[r] == a,
        post.use[a] == Use.QUEUED,
        post.loading[a],
        post.origin[a] == pre.checkpoint[n],
        post.position[a] == pre.key_length[n],
        forall(pre.all(Part), lambda p: not_(post.loaded[a, p])),
        other_states_are_untouched(pre, post, a),
        other_requests_are_untouched(pre, post, r),
        other_checkpoints_are_untouched(pre, post, NOTHING),
        the_cache_is_untouched(pre, post),
    )


@ensures(load_part, "I7")
def a_part_arrives_as_it_was_stored(pre: Lifecycle, post: Lifecycle, a: Active, p: Part) -> Bool:
    """I7: the part is the checkpoint's, and nothing else has changed."""
    return and_(
        pre.loading[a],
        post.loading[a],
        post.loaded[a, p],
        post.part_moment[a, p] == pre.image_moment[pre.origin[a], p],
        forall(
            pre.all(Part),
            lambda q: implies(q != p, lambda: iff(pre.loaded[a, q], post.loaded[a, q])),
        ),
        other_states_are_untouched(pre, post, a),
        other_checkpoints_are_untouched(pre, post, NOTHING),
        other_requests_are_untouched(pre, post, NOBODY),
        the_cache_is_untouched(pre, post),
    )


@ensures(end_load, "I7", "I19")
def a_whole_load_is_the_image_of_what_was_donated(pre: Lifecycle, post: Lifecycle, a: Active) -> Bool:
    """I7, I19: where all parts have arrived, each is the donated state's, quantised once more, at its position."""
    return and_(
        pre.loading[a],
        not_(post.loading[a]),
        implies(
            is_whole(pre, a),
            lambda: and_(
                is_ready(post, a),
                post.position[a] == pre.length[pre.origin[a]],
                forall(
                    pre.all(Part),
                    lambda p: and_(
                        post.part_moment[a, p] == pre.donated[pre.origin[a]],
                        post.part_depth[a, p] == pre.donated_depth[pre.origin[a]] + 1,
                        post.part_tokens[a, p] == pre.length[pre.origin[a]],
                    ),
                ),
            ),
        ),
        implies(not_(is_whole(pre, a)), lambda: not_(is_ready(post, a))),
        pre.use[a] == post.use[a],
        other_states_are_untouched(pre, post, a),
        other_checkpoints_are_untouched(pre, post, NOTHING),
        other_requests_are_untouched(pre, post, NOBODY),
        the_cache_is_untouched(pre, post),
    )


@ensures(start, "I6")
def a_start_keeps_the_state(pre: Lifecycle, post: Lifecycle, r: Request) -> Bool:
    """I6: the request runs on the state that it has, which has arrived."""
    return and_(
        post.phase[r] == Phase.RUNNING,
        post.use[post.own[r]] == Use.RUNNING,
        is_ready(pre, pre.own[r]),
        pre.own[r] == post.own[r],
        pre.moment[pre.own[r]] == post.moment[pre.own[r]],
        pre.position[pre.own[r]] == post.position[pre.own[r]],
        other_states_are_untouched(pre, post, pre.own[r]),
        other_requests_are_untouched(pre, post, r),
        the_cache_is_untouched(pre, post),
        other_checkpoints_are_untouched(pre, post, NOTHING),
    )


@ensures(advance, "I7", "I19")
def a_step_changes_its_own_state_alone(pre: Lifecycle, post: Lifecycle, r: Request, tokens: Int) -> Bool:
    """I7, I19: the own state is later by so many tokens; no checkpoint, track or other state has changed."""
    return and_(
        pre.phase[r] == Phase.RUNNING,
        tokens > 0,
        post.position[pre.own[r]] == pre.position[pre.own[r]] + tokens,
        post.moment[pre.own[r]] == pre.clock,
        post.depth[pre.own[r]] == pre.depth[pre.own[r]],
        is_ready(post, pre.own[r]),
        other_states_are_untouched(pre, post, pre.own[r]),
        other_checkpoints_are_untouched(pre, post, NOTHING),
        other_requests_are_untouched(pre, post, NOBODY),
        the_cache_is_untouched(pre, post),
    )


@ensures(add_track, "I4")
def a_new_track_holds_nothing_yet(pre: Lifecycle, post: Lifecycle, r: Request, a: Active) -> Bool:
    """I4: a running request owns a track buffer more, at most two, with no state in it."""
    return and_(
        pre.use[a] == Use.FREE,
        pre.phase[r] == Phase.RUNNING,
        owns(post, r, a),
        post.use[a] == Use.TRACK,
        post.position[a] == 0,
        ite(pre.latest[r] == NOWHERE, post.latest[r] == a, and_(post.spare[r] == a, post.latest[r] == pre.latest[r])),
        forall(pre.all(Part), lambda p: not_(post.loaded[a, p])),
        pre.own[r] == post.own[r],
        other_states_are_untouched(pre, post, a),
        other_requests_are_untouched(pre, post, r),
        the_cache_is_untouched(pre, post),
        other_checkpoints_are_untouched(pre, post, NOTHING),
    )


@ensures(track, "I7", "I19")
def a_snapshot_takes_the_older_buffer(pre: Lifecycle, post: Lifecycle, r: Request) -> Bool:
    """I7, I19: the latest track is the own state now, and what was the latest is kept until the next turn."""
    return and_(
        post.latest[r] == pre.spare[r],
        post.spare[r] == pre.latest[r],
        is_ready(post, post.latest[r]),
        post.position[post.latest[r]] == pre.position[pre.own[r]],
        post.position[post.latest[r]] > 0,
        post.moment[post.latest[r]] == pre.moment[pre.own[r]],
        post.depth[post.latest[r]] == pre.depth[pre.own[r]],
        pre.own[r] == post.own[r],
        pre.phase[r] == post.phase[r],
        other_states_are_untouched(pre, post, post.latest[r]),
        other_requests_are_untouched(pre, post, r),
        other_checkpoints_are_untouched(pre, post, NOTHING),
        the_cache_is_untouched(pre, post),
    )


@define
def has_let_go(pre: Lifecycle, post: Lifecycle, r: Request, a: Active) -> Bool:
    """Did the request own the slot, has it no handle to it any more, and kept the others?"""
    return and_(
        owns(pre, r, a),
        not_(owns(post, r, a)),
        post.own[r] != a,
        post.latest[r] != a,
        post.spare[r] != a,
        implies(pre.own[r] != a, post.own[r] == pre.own[r]),
        implies(and_(pre.latest[r] != a, pre.latest[r] != NOWHERE), post.latest[r] == pre.latest[r]),
        implies(pre.own[r] == a, post.spare[r] == pre.spare[r]),
        pre.phase[r] == post.phase[r],
        not_(enabled(release, post, r, a)),
        other_states_are_untouched(pre, post, a),
        other_requests_are_untouched(pre, post, r),
        other_checkpoints_are_untouched(pre, post, NOTHING),
        the_cache_is_untouched(pre, post),
    )


@ensures(release, "I2", "I3")
def a_release_ends_the_handle(pre: Lifecycle, post: Lifecycle, r: Request, a: Active) -> Bool:
    """I2, I3: the slot is free, nothing is read or written there, and the request has no handle to it."""
    return and_(
        has_let_go(pre, post, r, a),
        not_(pre.loading[a]),
        not_(is_being_read(pre, a)),
        post.use[a] == Use.FREE,
    )


@ensures(retire_active, "I2", "I3", "I5")
def a_slot_under_a_copy_waits(pre: Lifecycle, post: Lifecycle, r: Request, a: Active) -> Bool:
    """I2, I3, I5: the handle is dead, and nobody can be given the slot before it is reclaimed."""
    return and_(
        has_let_go(pre, post, r, a),
        or_(pre.loading[a], is_being_read(pre, a)),
        post.use[a] == Use.PENDING,
        not_(post.free_actives.has(a)),
    )


@ensures(reclaim_active, "I2", "I5")
def a_reclaimed_state_is_free(pre: Lifecycle, post: Lifecycle, a: Active) -> Bool:
    """I2, I5: only what was given back becomes free, once no copy touches it."""
    return and_(
        pre.use[a] == Use.PENDING,
        not_(pre.loading[a]),
        not_(is_being_read(pre, a)),
        post.use[a] == Use.FREE,
        other_states_are_untouched(pre, post, a),
        other_requests_are_untouched(pre, post, NOBODY),
        the_cache_is_untouched(pre, post),
        other_checkpoints_are_untouched(pre, post, NOTHING),
    )


@ensures(retract, "I3")
def a_retracted_request_has_no_state(pre: Lifecycle, post: Lifecycle, r: Request) -> Bool:
    """I3: it waits again, and can resume only from a checkpoint or from its first token."""
    return and_(
        pre.phase[r] == Phase.RUNNING,
        post.phase[r] == Phase.QUEUED,
        post.own[r] == NOWHERE,
        post.latest[r] == NOWHERE,
        post.spare[r] == NOWHERE,
        other_requests_are_untouched(pre, post, r),
        other_states_are_untouched(pre, post, NOWHERE),
        other_checkpoints_are_untouched(pre, post, NOTHING),
        the_cache_is_untouched(pre, post),
    )


@ensures(leave, "I3", "I21")
def who_leaves_has_nothing(pre: Lifecycle, post: Lifecycle, r: Request) -> Bool:
    """I3, I21: no slot, donation or lock outlives its request."""
    return and_(
        pre.phase[r] != Phase.IDLE,
        post.phase[r] == Phase.IDLE,
        holds_nothing(pre, r),
        holds_nothing(post, r),
        other_requests_are_untouched(pre, post, r),
        other_states_are_untouched(pre, post, NOWHERE),
        other_checkpoints_are_untouched(pre, post, NOTHING),
        the_cache_is_untouched(pre, post),
    )


@ensures(begin_store, "I4", "I7", "I19")
def a_donation_begins_with_an_empty_slot(pre: Lifecycle, post: Lifecycle, r: Request, a: Active, c: Checkpoint) -> Bool:
    """I4, I7, I19: a slot that was free expects the state as it is now, at its position; its owner keeps the state."""
    return and_(
        pre.stage[c] == Stage.FREE,
        owns(pre, r, a),
        is_ready(pre, a),
        pre.position[a] > 0,
        donates(post, r, c),
        post.copying[c],
        post.source[c] == a,
        post.length[c] == pre.position[a],
        forall(pre.all(Part), lambda p: not_(post.stored[c, p])),
        other_checkpoints_are_untouched(pre, post, c),
        other_states_are_untouched(pre, post, NOWHERE),
        other_requests_are_untouched(pre, post, NOBODY),
        the_cache_is_untouched(pre, post),
    )


@ensures(store_part, "I7")
def a_part_is_stored_as_it_is(pre: Lifecycle, post: Lifecycle, c: Checkpoint, p: Part) -> Bool:
    """I7: the part is the donated state's, quantised once more, and nothing else has changed."""
    return and_(
        pre.copying[c],
        post.copying[c],
        post.stored[c, p],
        post.image_moment[c, p] == pre.part_moment[pre.source[c], p],
        forall(
            pre.all(Part),
            lambda q: implies(q != p, lambda: iff(pre.stored[c, q], post.stored[c, q])),
        ),
        pre.stage[c] == post.stage[c],
        other_checkpoints_are_untouched(pre, post, c),
        other_states_are_untouched(pre, post, NOWHERE),
        other_requests_are_untouched(pre, post, NOBODY),
        the_cache_is_untouched(pre, post),
    )


@ensures(end_store, "I6")
def a_copy_ends_as_it_is(pre: Lifecycle, post: Lifecycle, c: Checkpoint) -> Bool:
    """I6: nothing but the copy ends; what has not arrived by now does not count as there."""
    return and_(
        pre.copying[c],
        not_(post.copying[c]),
        pre.stage[c] == post.stage[c],
        is_untouched(pre, post, c),
        other_checkpoints_are_untouched(pre, post, c),
        other_states_are_untouched(pre, post, NOWHERE),
        other_requests_are_untouched(pre, post, NOBODY),
        the_cache_is_untouched(pre, post),
    )


@ensures(publish, "I3", "I6", "I7", "I19")
def a_published_checkpoint_is_the_nodes(pre: Lifecycle, post: Lifecycle, r: Request, c: Checkpoint, n: Node) -> Bool:
    """I3, I6, I7, I19: complete and of the key's length, it passes to the node; the donor's handle is dead."""
    return and_(
        donates(pre, r, c),
        not_(pre.copying[c]),
        is_complete(pre, c),
        pre.checkpoint[n] == NOTHING,
        post.checkpoint[n] == c,
        post.stage[c] == Stage.CACHED,
        post.length[c] == post.key_length[n],
        is_untouched(pre, post, c),
        not_(donates(post, r, c)),
        pre.key_length[n] == post.key_length[n],
        pre.page_pins[n] == post.page_pins[n],
        pre.state_pins[n] == post.state_pins[n],
        other_nodes_are_untouched(pre, post, n),
        locks_are_untouched(pre, post),
        other_checkpoints_are_untouched(pre, post, c),
        other_states_are_untouched(pre, post, NOWHERE),
        other_requests_are_untouched(pre, post, NOBODY),
    )


@ensures(drop, "I2", "I3")
def a_dropped_donation_is_free(pre: Lifecycle, post: Lifecycle, r: Request, c: Checkpoint) -> Bool:
    """I2, I3: the slot is free, and the donor's handle is dead."""
    return and_(
        donates(pre, r, c),
        not_(pre.copying[c]),
        not_(donates(post, r, c)),
        post.stage[c] == Stage.FREE,
        other_checkpoints_are_untouched(pre, post, c),
        other_states_are_untouched(pre, post, NOWHERE),
        other_requests_are_untouched(pre, post, NOBODY),
        the_cache_is_untouched(pre, post),
    )


@ensures(retire_checkpoint, "I2", "I3", "I5")
def a_donation_given_up_under_its_copy_waits(pre: Lifecycle, post: Lifecycle, r: Request, c: Checkpoint) -> Bool:
    """I2, I3, I5: the donor's handle is dead, and nobody can be given the slot before it is reclaimed."""
    return and_(
        donates(pre, r, c),
        pre.copying[c],
        not_(donates(post, r, c)),
        post.stage[c] == Stage.PENDING,
        not_(post.free_checkpoints.has(c)),
        other_checkpoints_are_untouched(pre, post, c),
        other_states_are_untouched(pre, post, NOWHERE),
        other_requests_are_untouched(pre, post, NOBODY),
        the_cache_is_untouched(pre, post),
    )


@ensures(reclaim_checkpoint, "I2", "I5")
def a_reclaimed_checkpoint_is_free(pre: Lifecycle, post: Lifecycle, c: Checkpoint) -> Bool:
    """I2, I5: only what was given back becomes free, once no copy touches it."""
    return and_(
        pre.stage[c] == Stage.PENDING,
        not_(pre.copying[c]),
        not_(is_being_loaded(pre, c)),
        post.stage[c] == Stage.FREE,
        other_checkpoints_are_untouched(pre, post, c),
        other_states_are_untouched(pre, post, NOWHERE),
        other_requests_are_untouched(pre, post, NOBODY),
        the_cache_is_untouched(pre, post),
    )


@ensures(add_node, "I1")
def a_new_node_has_nothing(pre: Lifecycle, post: Lifecycle, n: Node, length: Int) -> Bool:
    """I1: a node that was not there is, with a key of so many tokens, no checkpoint and no pin."""
    return and_(
        not_(pre.is_kept[n]),
        post.is_kept[n],
        length > 0,
        post.key_length[n] == length,
        post.checkpoint[n] == NOTHING,
        post.page_pins[n] == 0,
        post.state_pins[n] == 0,
        other_nodes_are_untouched(pre, post, n),
        locks_are_untouched(pre, post),
        other_checkpoints_are_untouched(pre, post, NOTHING),
        other_states_are_untouched(pre, post, NOWHERE),
        other_requests_are_untouched(pre, post, NOBODY),
    )


@ensures(remove_node, "I13")
def only_a_node_that_nobody_keeps_goes(pre: Lifecycle, post: Lifecycle, n: Node) -> Bool:
    """I13: it was there, without a checkpoint and without a lock."""
    return and_(
        pre.is_kept[n],
        not_(post.is_kept[n]),
        pre.checkpoint[n] == NOTHING,
        forall(pre.all(Lock), lambda lock: not_(and_(pre.is_held[lock], pre.locked[lock] == n))),
        other_nodes_are_untouched(pre, post, n),
        locks_are_untouched(pre, post),
        other_checkpoints_are_untouched(pre, post, NOTHING),
        other_states_are_untouched(pre, post, NOWHERE),
        other_requests_are_untouched(pre, post, NOBODY),
    )


@define
def pins_differ_by(pre: Lifecycle, post: Lifecycle, n: Node, scope: Scope, by: Int) -> Bool:
    """Has the node so many pins of this scope more, and of the other as many?"""
    return and_(
        post.page_pins[n] == pre.page_pins[n] + ite(scope == Scope.PAGES, by, 0),
        post.state_pins[n] == pre.state_pins[n] + ite(scope == Scope.STATE, by, 0),
        pre.checkpoint[n] == post.checkpoint[n],
        pre.key_length[n] == post.key_length[n],
        iff(pre.is_kept[n], post.is_kept[n]),
        other_nodes_are_untouched(pre, post, n),
    )


@define
def other_locks_are_untouched(pre: Lifecycle, post: Lifecycle, lock: Lock) -> Bool:
    """Every lock but this one is held, or not, as before."""
    return forall(
        pre.all(Lock), lambda other: implies(other != lock, lambda: iff(pre.is_held[other], post.is_held[other]))
    )


@ensures(take_lock, "I13")
def a_lock_is_one_pin(pre: Lifecycle, post: Lifecycle, r: Request, lock: Lock, n: Node, scope: Scope) -> Bool:
    """I13: one pin more of the lock's scope on its node; the lock is the request's."""
    return and_(
        pre.phase[r] != Phase.IDLE,
        pre.is_kept[n],
        not_(pre.is_held[lock]),
        keeps(post, lock, n, scope),
        post.locker[lock] == r,
        pins_differ_by(pre, post, n, scope, 1),
        other_locks_are_untouched(pre, post, lock),
        other_requests_are_untouched(pre, post, NOBODY),
        other_checkpoints_are_untouched(pre, post, NOTHING),
        other_states_are_untouched(pre, post, NOWHERE),
    )


@ensures(release_lock, "I13")
def a_release_gives_up_just_its_pin(pre: Lifecycle, post: Lifecycle, r: Request, lock: Lock) -> Bool:
    """I13: one pin less, on the node and of the scope that the lock was taken with."""
    return and_(
        pre.is_held[lock],
        pre.locker[lock] == r,
        not_(post.is_held[lock]),
        pins_differ_by(pre, post, pre.locked[lock], pre.scope[lock], -1),
        other_locks_are_untouched(pre, post, lock),
        other_requests_are_untouched(pre, post, NOBODY),
        other_checkpoints_are_untouched(pre, post, NOTHING),
        other_states_are_untouched(pre, post, NOWHERE),
    )


@define
def has_lost_its_checkpoint(pre: Lifecycle, post: Lifecycle, n: Node) -> Bool:
    """Had the node a checkpoint that no lock kept, and has it none now? All else about nodes is as before."""
    return and_(
        pre.checkpoint[n] != NOTHING,
        post.checkpoint[n] == NOTHING,
        forall(pre.all(Lock), lambda lock: not_(keeps(pre, lock, n, Scope.STATE))),
        pre.page_pins[n] == post.page_pins[n],
        iff(pre.is_kept[n], post.is_kept[n]),
        pre.key_length[n] == post.key_length[n],
        pre.state_pins[n] == post.state_pins[n],
        other_nodes_are_untouched(pre, post, n),
        locks_are_untouched(pre, post),
        other_checkpoints_are_untouched(pre, post, pre.checkpoint[n]),
        other_states_are_untouched(pre, post, NOWHERE),
        other_requests_are_untouched(pre, post, NOBODY),
    )


@ensures(evict, "I2", "I13")
def an_evicted_checkpoint_is_free(pre: Lifecycle, post: Lifecycle, n: Node) -> Bool:
    """I2, I13: no lock kept it and no copy read it; its slot is free."""
    return and_(
        has_lost_its_checkpoint(pre, post, n),
        post.stage[pre.checkpoint[n]] == Stage.FREE,
        not_(is_being_loaded(pre, pre.checkpoint[n])),
    )


@ensures(evict_later, "I5", "I13")
def a_checkpoint_evicted_under_a_load_waits(pre: Lifecycle, post: Lifecycle, n: Node) -> Bool:
    """I5, I13: no lock kept it; the copy that reads it goes on, and nobody can be given its slot before that ends."""
    return and_(
        has_lost_its_checkpoint(pre, post, n),
        is_being_loaded(pre, pre.checkpoint[n]),
        post.stage[pre.checkpoint[n]] == Stage.PENDING,
        is_untouched(pre, post, pre.checkpoint[n]),
        not_(post.free_checkpoints.has(pre.checkpoint[n])),
    )


@ensures(clear, "I25")
def a_clear_restores_the_initial_state(pre: Lifecycle, post: Lifecycle) -> Bool:
    """I25: whoever owned what, both pools are as new, nobody is there, and no copy was in flight."""
    return and_(
        forall(pre.all(Active), lambda a: not_(pre.loading[a])),
        forall(pre.all(Checkpoint), lambda c: not_(pre.copying[c])),
        is_the_same(after(create, pre), post),
    )


SPEC = Specification(
    name="checkpoint",
    state=Lifecycle,
    at_least={"actives": 1, "checkpoints": 1, "requests": 1, "nodes": 1, "locks": 1, "parts": 1},
    samples={int: (0, 1, 2)},
)
