"""What the shared buffer may do while steps are in flight: the product of `spec/buffer.py` and time.

A step is a piece of device work on a stream: a forward pass, a copy by the allocator itself, a transfer from or to a
host or another machine. Its reads and writes are resolved to physical pages when they are added, and take place at some
time before it completes. Steps of one stream run in the order in which they began, and a step may wait for another one;
everything else may run in any order. The allocator's own work, and the engine's forward passes, are on the home stream.

Two memories are told apart, as ghosts. `buffer.memory` is what the program says: every access takes effect at the call.
`device` is what the device does: a step's reads and writes take effect when it completes. That the second always shows
a reader what the first has promised is the theorem behind fences, pending pages, leases and gates.

The buffer changes only through its own actions, with stronger guards here, so all that is proved of it holds here too.
"""

from __future__ import annotations

from poolproof.spec.buffer import (
    SINK,
    SINK_PAGE,
    START,
    UNMAPPED,
    UP_END,
    ZEROED,
    Buffer,
    Byte,
    Page,
    SubPool,
    Virtual,
    bind_frontier,
    bind_hole,
    create,
    grow,
    is_down_end,
    is_in_page,
    is_inside,
    is_live,
    move,
    offset,
    park_float,
    place_float,
    reclaim,
    retreat_high,
    retreat_low,
    unbind,
    write,
)
from poolproof.spec.buffer import SPEC as BUFFER
from poolproof.spec.buffer import clear as clear_buffer
from poolproof.spec.language import (
    Bool,
    Chosen,
    Enumeration,
    Ghost,
    Id,
    Int,
    Map,
    Set,
    Size,
    Specification,
    State,
    action,
    after,
    and_,
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
    perform,
    require,
    step,
    theorem,
)


class Step(Id):
    """A place for a step in flight; it is used again once the step has completed."""


class Stream(Id):
    """A stream of the device, or a channel of transfers."""


class Lease(Id):
    """Somebody outside, who is promised that pages which he addresses physically stay, or that none moves."""


class Phase(Enumeration):
    """How far a step is."""

    IDLE = 0
    OPEN = 1
    LAUNCHED = 2
    OVER = 3


HOME = Stream(0)
NO_STEP = Step(-1)


class Schedule(State):
    """A buffer, and everything that is in flight over it."""

    buffer: Buffer
    steps: Size[Step]
    leases: Size[Lease]
    phase: Map[Step, Phase]
    stream: Map[Step, Stream]
    ticket: Map[Step, Int]
    clock: Int
    waits: Map[tuple[Step, Step], Bool]
    reads: Map[Step, Set[tuple[SubPool, Page]]]
    writes: Map[Step, Set[tuple[SubPool, Page]]]
    version: Map[SubPool, Int]
    captured: Map[tuple[Step, SubPool], Int]
    same: Map[tuple[Step, SubPool, Virtual], Bool]
    held: Map[tuple[Lease, SubPool, Page], Bool]
    pins: Map[tuple[SubPool, Page], Int]
    closed: Map[tuple[Lease, SubPool], Bool]
    gates: Map[SubPool, Int]
    deferred: Set[tuple[SubPool, Page]]
    filled: Map[tuple[SubPool, Virtual], Bool]
    published: Map[tuple[SubPool, Virtual], Bool]
    to_zero: Map[tuple[SubPool, Page], Bool]
    memo: Map[SubPool, Int]
    memo_holds: Map[SubPool, Bool]
    device: Ghost[Map[Byte, Int]]
    writer: Ghost[Map[Byte, Step]]
    reading: Ghost[Map[tuple[Step, Byte], Bool]]
    writing: Ghost[Map[tuple[Step, Byte], Bool]]
    promised: Ghost[Map[tuple[Step, Byte], Int]]
    result: Ghost[Map[tuple[Step, Byte], Int]]
    source: Ghost[Map[tuple[Step, Byte], Step]]
    read_in: Ghost[Map[tuple[Step, Byte], SubPool]]
    read_page: Ghost[Map[tuple[Step, Byte], Page]]
    written_in: Ghost[Map[tuple[Step, Byte], SubPool]]
    written_page: Ghost[Map[tuple[Step, Byte], Page]]
    stale: Ghost[Map[Byte, Bool]]
    seen: Ghost[Map[tuple[Step, SubPool, Virtual], Page]]
    begun: Ghost[Map[tuple[Step, SubPool, Virtual], Int]]


# ---------------------------------------------------------------------------------------------------- definitions


@define
def is_in_flight(pool: Schedule, s: Step) -> Bool:
    """Has the step begun and not completed?"""
    return or_(pool.phase[s] == Phase.OPEN, pool.phase[s] == Phase.LAUNCHED)


@define
def is_before(pool: Schedule, s: Step, t: Step) -> Bool:
    """Does the device complete step s before it lets step t go ahead?"""
    return or_(and_(pool.stream[s] == pool.stream[t], pool.ticket[s] < pool.ticket[t]), pool.waits[t, s])


@define
def touches(pool: Schedule, s: Step, k: SubPool, page: Page) -> Bool:
    """Does the step read or write the page?"""
    return or_(pool.reads[s].has((k, page)), pool.writes[s].has((k, page)))


@define
def is_away(pool: Schedule, s: Step) -> Bool:
    """Is the step in flight on another stream than home, where nothing but a wait orders it?"""
    return and_(is_in_flight(pool, s), pool.stream[s] != HOME)


@define
def is_building(pool: Schedule, s: Step) -> Bool:
    """Can accesses be added to the step: it is open, and the newest of its stream?"""
    return and_(
        pool.all(Step).has(s),
        lambda: pool.phase[s] == Phase.OPEN,
        lambda: forall(
            pool.all(Step),
            lambda t: implies(
                and_(is_in_flight(pool, t), pool.stream[t] == pool.stream[s]), pool.ticket[t] <= pool.ticket[s]
            ),
        ),
    )


@define
def is_next_of_its_stream(pool: Schedule, s: Step) -> Bool:
    """Has every step of the stream that began before this one been launched?"""
    return forall(
        pool.all(Step),
        lambda t: implies(
            and_(pool.phase[t] == Phase.OPEN, pool.stream[t] == pool.stream[s]), pool.ticket[s] <= pool.ticket[t]
        ),
    )


@define
def is_kept(pool: Schedule, k: SubPool, page: Page) -> Bool:
    """Are the page's bytes still the page's: is it bound, or pending?"""
    return and_(is_inside(pool.buffer, k, page), not_(pool.buffer.holes[k].has(page)))


@define
def is_behind_writers(pool: Schedule, s: Step, k: SubPool, page: Page) -> Bool:
    """Is step s ordered behind everyone in flight who may write the page, or wrote the bytes when they were another's?

    Away from home nothing is known of what lay there before, so such a step waits for every home step.
    """
    return forall(
        pool.all(Step),
        lambda t: implies(
            and_(
                t != s,
                is_in_flight(pool, t),
                or_(and_(pool.stream[t] == HOME, pool.stream[s] != HOME), pool.writes[t].has((k, page))),
            ),
            is_before(pool, t, s),
        ),
    )


@define
def is_behind_readers(pool: Schedule, s: Step, k: SubPool, page: Page) -> Bool:
    """Is step s ordered behind everyone in flight who may read the page?"""
    return forall(
        pool.all(Step),
        lambda t: implies(and_(t != s, is_in_flight(pool, t), pool.reads[t].has((k, page))), is_before(pool, t, s)),
    )


@define
def lies_clear_of_reads(pool: Schedule, s: Step, k: SubPool, page: Page) -> Bool:
    """Has the page no byte in common with any that the step reads?"""
    return forall(
        pool.reads[s],
        lambda j, other: or_(
            offset(pool.buffer, j, other) + pool.buffer.page_bytes[j] <= offset(pool.buffer, k, page),
            offset(pool.buffer, k, page) + pool.buffer.page_bytes[k] <= offset(pool.buffer, j, other),
        ),
    )


@define
def lies_clear_of_writes(pool: Schedule, s: Step, k: SubPool, page: Page) -> Bool:
    """Has the page no byte in common with any that the step writes?"""
    return forall(
        pool.writes[s],
        lambda j, other: or_(
            offset(pool.buffer, j, other) + pool.buffer.page_bytes[j] <= offset(pool.buffer, k, page),
            offset(pool.buffer, k, page) + pool.buffer.page_bytes[k] <= offset(pool.buffer, j, other),
        ),
    )


@define
def is_added(pool: Schedule, t: Step, b: Byte, s: Step, k: SubPool, page: Page) -> Bool:
    """Is (t, b) one of the accesses that step s makes by touching the page?"""
    return and_(t == s, is_in_page(pool.buffer, k, page, b))


@define
def is_quiet(pool: Schedule, k: SubPool) -> Bool:
    """Can every page of the sub-pool be moved now: no gate is closed, no page leased, pending, or touched from away?"""
    return and_(
        pool.gates[k] == 0,
        pool.buffer.pending[k].size == 0,
        forall(pool.buffer.all(Page), lambda page: and_(pool.pins[k, page] == 0, not_(pool.to_zero[k, page]))),
        forall(
            pool.all(Step),
            lambda t: implies(
                is_away(pool, t), forall(pool.buffer.all(Page), lambda page: not_(touches(pool, t, k, page)))
            ),
        ),
    )


@define
def credit(pool: Schedule, k: SubPool) -> Int:
    """How many pages a neighbour may count on from this sub-pool's holes: those that compaction can give up now."""
    return ite(is_quiet(pool, k), pool.buffer.holes[k].size, 0)


# ------------------------------------------------------------------------------------------------ actions: steps


@initial
def start(pool: Schedule) -> None:
    """A new buffer, and nothing in flight."""
    perform(create, pool.buffer)
    pool.phase.relabel(lambda s: Phase.IDLE)
    pool.waits.relabel(lambda s, t: False)
    pool.reads.empty()
    pool.writes.empty()
    pool.held.relabel(lambda lease, k, page: False)
    pool.pins.relabel(lambda k, page: 0)
    pool.closed.relabel(lambda lease, k: False)
    pool.gates.relabel(lambda k: 0)
    pool.deferred = pool.deferred.none()
    pool.filled.relabel(lambda k, v: False)
    pool.published.relabel(lambda k, v: False)
    pool.to_zero.relabel(lambda k, page: False)
    pool.memo_holds.relabel(lambda k: False)
    pool.device.relabel(lambda b: pool.buffer.memory[b])
    pool.writer.relabel(lambda b: NO_STEP)
    pool.reading.relabel(lambda s, b: False)
    pool.writing.relabel(lambda s, b: False)


@action
def begin(pool: Schedule, s: Chosen[Step], stream: Stream) -> None:
    """A step begins on a stream: its place in the stream's order is fixed, and the tables are captured."""
    require(pool.all(Step).has(s))
    require(pool.phase[s] == Phase.IDLE)
    require(stream >= HOME)
    pool.phase[s] = Phase.OPEN
    pool.stream[s] = stream
    pool.ticket[s] = pool.clock
    pool.clock += 1
    pool.captured.relabel(lambda t, k: pool.version[k], where=lambda t, k: t == s)
    pool.same.relabel(
        lambda t, k, v: and_(v != SINK, pool.buffer.physical[k, v] != UNMAPPED), where=lambda t, k, v: t == s
    )
    pool.seen.relabel(lambda t, k, v: pool.buffer.physical[k, v], where=lambda t, k, v: t == s)
    pool.begun.relabel(lambda t, k, v: pool.buffer.tenancy[k, v], where=lambda t, k, v: t == s)


@action
def wait_for(pool: Schedule, s: Step, t: Step) -> None:
    """An open step waits for the event of one that began before it and is launched."""
    require(pool.all(Step).has(s))
    require(pool.all(Step).has(t))
    require(pool.phase[s] == Phase.OPEN)
    require(pool.phase[t] == Phase.LAUNCHED)
    require(pool.ticket[t] < pool.ticket[s])
    pool.waits[s, t] = True


@action
def read(pool: Schedule, s: Step, k: SubPool, v: Virtual) -> None:
    """A step reads an id's page, found through the tables that it captured, behind every writer in flight.

    What its owner has not filled is read only where zeros are promised. A page that the step reads already is not
    added again.
    """
    require(is_building(pool, s))
    require(is_live(pool.buffer, k, v))
    require(pool.captured[s, k] == pool.version[k])
    require(or_(pool.filled[k, v], pool.buffer.zeroed[k]))
    page = pool.buffer.physical[k, v]
    require(not_(pool.to_zero[k, page]))
    require(lies_clear_of_writes(pool, s, k, page))
    require(lies_clear_of_reads(pool, s, k, page))
    require(is_behind_writers(pool, s, k, page))
    pool.reads[s] = pool.reads[s].with_((k, page))
    pool.memo_holds[k] = False
    pool.promised.relabel(lambda t, b: pool.buffer.memory[b], where=lambda t, b: is_added(pool, t, b, s, k, page))
    pool.source.relabel(lambda t, b: pool.writer[b], where=lambda t, b: is_added(pool, t, b, s, k, page))
    pool.read_in.relabel(lambda t, b: k, where=lambda t, b: is_added(pool, t, b, s, k, page))
    pool.read_page.relabel(lambda t, b: page, where=lambda t, b: is_added(pool, t, b, s, k, page))
    pool.reading.relabel(lambda t, b: True, where=lambda t, b: is_added(pool, t, b, s, k, page))


@action
def write_page(pool: Schedule, s: Step, k: SubPool, v: Virtual, stamp: Int) -> None:
    """A step writes an id's page, behind every reader and writer in flight."""
    require(is_building(pool, s))
    require(is_live(pool.buffer, k, v))
    require(pool.captured[s, k] == pool.version[k])
    page = pool.buffer.physical[k, v]
    require(not_(pool.to_zero[k, page]))
    require(is_behind_writers(pool, s, k, page))
    require(is_behind_readers(pool, s, k, page))
    perform(write, pool.buffer, k, v, stamp)
    pool.writes[s] = pool.writes[s].with_((k, page))
    pool.filled[k, v] = True
    pool.memo_holds[k] = False
    pool.result.relabel(lambda t, b: pool.buffer.memory[b], where=lambda t, b: is_added(pool, t, b, s, k, page))
    pool.written_in.relabel(lambda t, b: k, where=lambda t, b: is_added(pool, t, b, s, k, page))
    pool.written_page.relabel(lambda t, b: page, where=lambda t, b: is_added(pool, t, b, s, k, page))
    pool.writing.relabel(lambda t, b: True, where=lambda t, b: is_added(pool, t, b, s, k, page))
    pool.writer.relabel(lambda b: s, where=lambda b: is_in_page(pool.buffer, k, page, b))
    pool.stale.relabel(lambda b: False, where=lambda b: is_in_page(pool.buffer, k, page, b))


@action
def zero(pool: Schedule, s: Step, k: SubPool, page: Page) -> None:
    """A step does the zeroing of a fresh page that was put off until now, before it does anything else to the bytes."""
    require(is_building(pool, s))
    require(pool.all(SubPool).has(k))
    require(pool.all(Page).has(page))
    require(pool.to_zero[k, page])
    require(is_behind_writers(pool, s, k, page))
    require(lies_clear_of_reads(pool, s, k, page))
    require(lies_clear_of_writes(pool, s, k, page))
    pool.to_zero[k, page] = False
    pool.writes[s] = pool.writes[s].with_((k, page))
    pool.memo_holds[k] = False
    pool.result.relabel(lambda t, b: ZEROED, where=lambda t, b: is_added(pool, t, b, s, k, page))
    pool.written_in.relabel(lambda t, b: k, where=lambda t, b: is_added(pool, t, b, s, k, page))
    pool.written_page.relabel(lambda t, b: page, where=lambda t, b: is_added(pool, t, b, s, k, page))
    pool.writing.relabel(lambda t, b: True, where=lambda t, b: is_added(pool, t, b, s, k, page))
    pool.writer.relabel(lambda b: s, where=lambda b: is_in_page(pool.buffer, k, page, b))
    pool.stale.relabel(lambda b: False, where=lambda b: is_in_page(pool.buffer, k, page, b))


@action
def write_padding(pool: Schedule, s: Step, k: SubPool, v: Virtual, stamp: Int) -> None:
    """A step writes a padded or dead row: the bytes go to the sink, of which nobody is promised anything."""
    require(is_building(pool, s))
    require(pool.all(SubPool).has(k))
    require(pool.captured[s, k] == pool.version[k])
    require(not_(is_live(pool.buffer, k, v)))
    perform(write, pool.buffer, k, v, stamp)


@action
def launch(pool: Schedule, s: Step) -> None:
    """The step is handed to its stream, after those of the stream that began before it; others can wait for it."""
    require(pool.all(Step).has(s))
    require(pool.phase[s] == Phase.OPEN)
    require(is_next_of_its_stream(pool, s))
    pool.phase[s] = Phase.LAUNCHED


@action
def complete(pool: Schedule, s: Step) -> None:
    """The step is over. The device completes steps in any order that streams and waits leave open.

    The program learns of it here, at a call of its own; no decision reads how far the device is between calls.
    """
    require(pool.all(Step).has(s))
    require(pool.phase[s] == Phase.LAUNCHED)
    require(forall(pool.all(Step), lambda t: implies(is_in_flight(pool, t), not_(is_before(pool, t, s)))))
    pool.phase[s] = Phase.OVER
    pool.waits.relabel(lambda t, u: False, where=lambda t, u: or_(t == s, u == s))
    pool.memo_holds.relabel(lambda k: False)
    pool.reads[s] = pool.reads[s].none()
    pool.writes[s] = pool.writes[s].none()
    pool.device.relabel(lambda b: pool.result[s, b], where=lambda b: pool.writing[s, b])
    pool.writer.relabel(lambda b: NO_STEP, where=lambda b: pool.writer[b] == s)
    pool.source.relabel(lambda t, b: NO_STEP, where=lambda t, b: pool.source[t, b] == s)
    pool.reading.relabel(lambda t, b: False, where=lambda t, b: t == s)
    pool.writing.relabel(lambda t, b: False, where=lambda t, b: t == s)


@action
def retire(pool: Schedule, s: Step) -> None:
    """The results of a step that is over have been dealt with; its place is free."""
    require(pool.all(Step).has(s))
    require(pool.phase[s] == Phase.OVER)
    pool.phase[s] = Phase.IDLE


# ------------------------------------------------------------------------------- actions: leases, gates, publication


@action
def lease_page(pool: Schedule, lease: Lease, k: SubPool, v: Virtual) -> None:
    """Somebody outside, whom no stream orders, learns a page's address: it stays, and no write is on its way there."""
    require(pool.all(Lease).has(lease))
    require(is_live(pool.buffer, k, v))
    page = pool.buffer.physical[k, v]
    require(not_(pool.to_zero[k, page]))
    require(forall(pool.all(Step), lambda t: lies_clear_of_writes(pool, t, k, page)))
    require(not_(pool.held[lease, k, page]))
    pool.held[lease, k, page] = True
    pool.pins[k, page] += 1
    pool.memo_holds[k] = False


@action
def release_page(pool: Schedule, lease: Lease, k: SubPool, page: Page) -> None:
    """The last use of the address is over, for this lease."""
    require(pool.all(Lease).has(lease))
    require(pool.all(SubPool).has(k))
    require(pool.all(Page).has(page))
    require(pool.held[lease, k, page])
    pool.held[lease, k, page] = False
    pool.pins[k, page] -= 1
    pool.memo_holds[k] = False


@action
def close_gate(pool: Schedule, lease: Lease, k: SubPool) -> None:
    """No page of the sub-pool moves until this gate, and everybody else's, is open again."""
    require(pool.all(Lease).has(lease))
    require(pool.all(SubPool).has(k))
    require(not_(pool.closed[lease, k]))
    pool.closed[lease, k] = True
    pool.gates[k] += 1
    pool.memo_holds[k] = False


@action
def open_gate(pool: Schedule, lease: Lease, k: SubPool) -> None:
    """Whoever closed a gate opens it."""
    require(pool.all(Lease).has(lease))
    require(pool.all(SubPool).has(k))
    require(pool.closed[lease, k])
    pool.closed[lease, k] = False
    pool.gates[k] -= 1
    pool.memo_holds[k] = False


@action
def publish(pool: Schedule, s: Step, k: SubPool, v: Virtual) -> None:
    """After a step, others may be given an id's contents: still the id that the step saw, filled, and on the device."""
    require(pool.all(Step).has(s))
    require(pool.phase[s] == Phase.OVER)
    require(is_live(pool.buffer, k, v))
    require(pool.same[s, k, v])
    require(pool.filled[k, v])
    require(not_(pool.published[k, v]))
    require(forall(pool.all(Step), lambda t: lies_clear_of_writes(pool, t, k, pool.buffer.physical[k, v])))
    pool.published[k, v] = True


@action
def ask_capacity(pool: Schedule, k: SubPool) -> None:
    """The credit of a sub-pool is worked out and remembered."""
    require(pool.all(SubPool).has(k))
    pool.memo[k] = credit(pool, k)
    pool.memo_holds[k] = True


# ------------------------------------------------------------------------------------- actions: the buffer, in time


@action
def take_frontier(pool: Schedule, k: SubPool, v: Virtual, page: Chosen[Page]) -> None:
    """Bind the next page; where zeroing is promised it is queued for the next step."""
    perform(bind_frontier, pool.buffer, k, v, page)
    pool.version[k] += 1
    pool.to_zero[k, page] = pool.buffer.zeroed[k]
    pool.memo_holds[k] = False
    pool.stale.relabel(lambda b: True, where=lambda b: and_(pool.buffer.zeroed[k], is_in_page(pool.buffer, k, page, b)))


@action
def take_hole(pool: Schedule, k: SubPool, v: Virtual, page: Chosen[Page]) -> None:
    """Bind a hole; where zeroing is promised it is queued for the next step."""
    perform(bind_hole, pool.buffer, k, v, page)
    pool.version[k] += 1
    pool.to_zero[k, page] = pool.buffer.zeroed[k]
    pool.memo_holds[k] = False
    pool.stale.relabel(lambda b: True, where=lambda b: and_(pool.buffer.zeroed[k], is_in_page(pool.buffer, k, page, b)))


@action
def let_go(pool: Schedule, k: SubPool, v: Virtual) -> None:
    """Free an id, or retire a window's page, whatever is in flight or leased: the page waits, pending."""
    require(is_live(pool.buffer, k, v))
    page = pool.buffer.physical[k, v]
    perform(unbind, pool.buffer, k, v)
    pool.version[k] += 1
    pool.to_zero[k, page] = False
    pool.filled[k, v] = False
    pool.published[k, v] = False
    pool.same.relabel(lambda s, j, u: False, where=lambda s, j, u: and_(j == k, u == v))
    pool.memo_holds[k] = False


@action
def let_go_later(pool: Schedule, k: SubPool, v: Virtual) -> None:
    """The same inside a group of deferred frees: the id dies now, the page is kept until the group ends."""
    require(is_live(pool.buffer, k, v))
    page = pool.buffer.physical[k, v]
    perform(unbind, pool.buffer, k, v)
    pool.deferred = pool.deferred.with_((k, page))
    pool.version[k] += 1
    pool.to_zero[k, page] = False
    pool.filled[k, v] = False
    pool.published[k, v] = False
    pool.same.relabel(lambda s, j, u: False, where=lambda s, j, u: and_(j == k, u == v))
    pool.memo_holds[k] = False


@action
def end_group(pool: Schedule) -> None:
    """The group of deferred frees ends."""
    pool.deferred = pool.deferred.none()


@action
def take_back(pool: Schedule, k: SubPool, page: Page) -> None:
    """A pending page is a hole once no lease, no group, and no step away from home still has it.

    A step at home needs no waiting for: whoever uses the bytes next is behind it on the stream, or waits for it.
    """
    require(pool.all(SubPool).has(k))
    require(pool.all(Page).has(page))
    require(pool.pins[k, page] == 0)
    require(not_(pool.deferred.has((k, page))))
    require(forall(pool.all(Step), lambda t: implies(is_away(pool, t), not_(touches(pool, t, k, page)))))
    perform(reclaim, pool.buffer, k, page)
    pool.memo_holds[k] = False


@action
def widen(pool: Schedule, k: SubPool, page: Chosen[Page]) -> None:
    """The extent takes its next page as a hole."""
    perform(grow, pool.buffer, k, page)
    pool.memo_holds[k] = False


@action
def give_up_high(pool: Schedule, k: SubPool) -> None:
    """The frontier retreats from above."""
    perform(retreat_high, pool.buffer, k)
    pool.memo_holds[k] = False


@action
def give_up_low(pool: Schedule, k: SubPool) -> None:
    """The frontier retreats from below."""
    perform(retreat_low, pool.buffer, k)
    pool.memo_holds[k] = False


@action
def relocate(pool: Schedule, s: Step, k: SubPool, v: Virtual, hole: Chosen[Page]) -> None:
    """A step at home copies a page into a hole: not past a closed gate, not a leased page, behind its writers.

    The copies of one step run in parallel, so that none may read what another one writes.
    """
    require(is_building(pool, s))
    require(pool.stream[s] == HOME)
    require(is_live(pool.buffer, k, v))
    page = pool.buffer.physical[k, v]
    require(pool.gates[k] == 0)
    require(pool.pins[k, page] == 0)
    require(not_(pool.to_zero[k, page]))
    require(is_behind_writers(pool, s, k, page))
    require(lies_clear_of_writes(pool, s, k, page))
    require(lies_clear_of_reads(pool, s, k, page))
    require(lies_clear_of_reads(pool, s, k, hole))
    require(lies_clear_of_writes(pool, s, k, hole))
    perform(move, pool.buffer, k, v, hole)
    pool.reads[s] = pool.reads[s].with_((k, page))
    pool.writes[s] = pool.writes[s].with_((k, hole))
    pool.version[k] += 1
    pool.memo_holds[k] = False
    pool.promised.relabel(lambda t, b: pool.buffer.memory[b], where=lambda t, b: is_added(pool, t, b, s, k, page))
    pool.source.relabel(lambda t, b: pool.writer[b], where=lambda t, b: is_added(pool, t, b, s, k, page))
    pool.read_in.relabel(lambda t, b: k, where=lambda t, b: is_added(pool, t, b, s, k, page))
    pool.read_page.relabel(lambda t, b: page, where=lambda t, b: is_added(pool, t, b, s, k, page))
    pool.reading.relabel(lambda t, b: not_(pool.stale[b]), where=lambda t, b: is_added(pool, t, b, s, k, page))
    pool.result.relabel(lambda t, b: pool.buffer.memory[b], where=lambda t, b: is_added(pool, t, b, s, k, hole))
    pool.written_in.relabel(lambda t, b: k, where=lambda t, b: is_added(pool, t, b, s, k, hole))
    pool.written_page.relabel(lambda t, b: hole, where=lambda t, b: is_added(pool, t, b, s, k, hole))
    pool.writing.relabel(lambda t, b: True, where=lambda t, b: is_added(pool, t, b, s, k, hole))
    pool.writer.relabel(lambda b: s, where=lambda b: is_in_page(pool.buffer, k, hole, b))
    pool.stale.relabel(
        lambda b: pool.stale[b - offset(pool.buffer, k, hole) + offset(pool.buffer, k, page)],
        where=lambda b: is_in_page(pool.buffer, k, hole, b),
    )


@action
def put_float(pool: Schedule, k: SubPool, at: Chosen[Page]) -> None:
    """Place an empty float."""
    perform(place_float, pool.buffer, k, at)


@action
def lay_float_aside(pool: Schedule, k: SubPool) -> None:
    """Park an empty float."""
    perform(park_float, pool.buffer, k)


@action
def clear(pool: Schedule) -> None:
    """Everything is free again; refused while a step is in flight, a lease or gate open, or a group deferring frees."""
    require(forall(pool.all(Step), lambda s: not_(is_in_flight(pool, s))))
    require(forall(pool.all(SubPool), lambda k: pool.gates[k] == 0))
    require(forall(pool.all(SubPool), lambda k: forall(pool.all(Page), lambda page: pool.pins[k, page] == 0)))
    require(forall(pool.deferred, lambda k, page: False))
    perform(clear_buffer, pool.buffer)
    pool.version.relabel(lambda k: pool.version[k] + 1)
    pool.to_zero.relabel(lambda k, page: False)
    pool.filled.relabel(lambda k, v: False)
    pool.published.relabel(lambda k, v: False)
    pool.same.relabel(lambda s, k, v: False)
    pool.memo_holds.relabel(lambda k: False)


# ------------------------------------------------------------------------------------------------------ invariants


@invariant("I5")
def tickets_are_in_order(pool: Schedule) -> Bool:
    """I5: every step in flight has a ticket of its own, drawn before now."""
    return forall(
        pool.all(Step),
        lambda s: forall(
            pool.all(Step),
            lambda t: implies(
                is_in_flight(pool, s),
                and_(
                    pool.ticket[s] < pool.clock,
                    implies(and_(is_in_flight(pool, t), s != t), pool.ticket[s] != pool.ticket[t]),
                ),
            ),
        ),
    )


@invariant("I5")
def waits_look_back(pool: Schedule) -> Bool:
    """I5: a step waits only for steps in flight that began before it, so that no two wait for each other."""
    return forall(
        pool.all(Step),
        lambda s: forall(
            pool.all(Step),
            lambda t: implies(
                pool.waits[s, t],
                and_(is_in_flight(pool, s), is_in_flight(pool, t), pool.ticket[t] < pool.ticket[s]),
            ),
        ),
    )


@invariant("I5")
def read_sets_hold_pages(pool: Schedule) -> Bool:
    """I5: read sets hold pages of the tables."""
    return forall(
        pool.all(Step),
        lambda s: forall(pool.reads[s], lambda k, page: and_(pool.all(SubPool).has(k), pool.all(Page).has(page))),
    )


@invariant("I5")
def write_sets_hold_pages(pool: Schedule) -> Bool:
    """I5: write sets hold pages of the tables."""
    return forall(
        pool.all(Step),
        lambda s: forall(pool.writes[s], lambda k, page: and_(pool.all(SubPool).has(k), pool.all(Page).has(page))),
    )


@invariant("I5")
def only_steps_in_flight_touch_pages(pool: Schedule) -> Bool:
    """I5: what is not in flight reads and writes nothing."""
    return forall(
        pool.all(Step),
        lambda s: forall(
            pool.all(SubPool),
            lambda k: forall(pool.all(Page), lambda page: implies(touches(pool, s, k, page), is_in_flight(pool, s))),
        ),
    )


@invariant("I5")
def reads_are_of_pages(pool: Schedule) -> Bool:
    """I5: every byte that a step reads is one of a page in its read set."""
    return forall(
        pool.all(Step),
        lambda s: forall(
            pool.all(Byte),
            lambda b: implies(
                pool.reading[s, b],
                and_(
                    pool.all(SubPool).has(pool.read_in[s, b]),
                    pool.all(Page).has(pool.read_page[s, b]),
                    pool.reads[s].has((pool.read_in[s, b], pool.read_page[s, b])),
                    lambda: is_in_page(pool.buffer, pool.read_in[s, b], pool.read_page[s, b], b),
                    b - START >= pool.buffer.sink_bytes,
                ),
            ),
        ),
    )


@invariant("I5")
def writes_are_of_pages(pool: Schedule) -> Bool:
    """I5: every byte that a step writes, other than the sink's, is one of a page in its write set."""
    return forall(
        pool.all(Step),
        lambda s: forall(
            pool.all(Byte),
            lambda b: implies(
                pool.writing[s, b],
                and_(
                    pool.all(SubPool).has(pool.written_in[s, b]),
                    pool.all(Page).has(pool.written_page[s, b]),
                    pool.writes[s].has((pool.written_in[s, b], pool.written_page[s, b])),
                    lambda: is_in_page(pool.buffer, pool.written_in[s, b], pool.written_page[s, b], b),
                    b - START >= pool.buffer.sink_bytes,
                ),
            ),
        ),
    )


@invariant("I5")
def pages_touched_from_away_are_kept(pool: Schedule) -> Bool:
    """I5: a page that a step away from home reads or writes is bound or pending, so its bytes are nobody else's."""
    return forall(
        pool.all(Step),
        lambda s: forall(
            pool.all(SubPool),
            lambda k: forall(
                pool.all(Page),
                lambda page: implies(and_(is_away(pool, s), touches(pool, s, k, page)), is_kept(pool, k, page)),
            ),
        ),
    )


@invariant("I5", "I8")
def leased_pages_are_kept(pool: Schedule) -> Bool:
    """I5, I8: a leased page is bound or pending, so its address means the same bytes until the last release."""
    return forall(
        pool.all(SubPool),
        lambda k: forall(pool.all(Page), lambda page: implies(pool.pins[k, page] > 0, is_kept(pool, k, page))),
    )


@invariant("I8")
def leases_are_counted(pool: Schedule) -> Bool:
    """I8: the pins of a page are the leases that hold it."""
    return forall(
        pool.all(SubPool),
        lambda k: forall(
            pool.all(Page),
            lambda page: counts(pool.pins[k, page], pool.all(Lease), lambda lease: pool.held[lease, k, page]),
        ),
    )


@invariant("I8", "I13")
def gates_are_counted(pool: Schedule) -> Bool:
    """I8, I13: the gates of a sub-pool that are closed are those that somebody has closed and not opened."""
    return forall(
        pool.all(SubPool), lambda k: counts(pool.gates[k], pool.all(Lease), lambda lease: pool.closed[lease, k])
    )


@invariant("I3", "I5")
def deferred_pages_wait(pool: Schedule) -> Bool:
    """I3, I5: a page that a group of deferred frees holds is pending, so nobody is given it."""
    return forall(
        pool.all(SubPool),
        lambda k: forall(
            pool.all(Page),
            lambda page: implies(pool.deferred.has((k, page)), pool.buffer.pending[k].has(page)),
        ),
    )


@invariant("I15")
def only_bound_pages_wait_for_zeroing(pool: Schedule) -> Bool:
    """I15: zeroing is queued only for pages that are bound."""
    return forall(
        pool.all(SubPool),
        lambda k: forall(
            pool.all(Page),
            lambda page: implies(
                pool.to_zero[k, page],
                and_(
                    pool.buffer.zeroed[k],
                    is_kept(pool, k, page),
                    not_(pool.buffer.pending[k].has(page)),
                ),
            ),
        ),
    )


@invariant("I15")
def pages_that_wait_for_zeroing_are_untouched_from_away(pool: Schedule) -> Bool:
    """I15: a page whose zeroing is queued is read and written by no step away from home."""
    return forall(
        pool.all(Step),
        lambda s: forall(
            pool.all(SubPool),
            lambda k: forall(
                pool.all(Page),
                lambda page: implies(and_(is_away(pool, s), touches(pool, s, k, page)), not_(pool.to_zero[k, page])),
            ),
        ),
    )


@invariant("I15")
def pages_that_wait_for_zeroing_count_as_zero(pool: Schedule) -> Bool:
    """I15: what the program says of a page whose zeroing is queued is zero, so nothing was written there meanwhile."""
    return forall(
        pool.all(SubPool),
        lambda k: forall(
            pool.all(Page),
            lambda page: forall(
                pool.all(Byte),
                lambda b: implies(
                    and_(pool.to_zero[k, page], is_in_page(pool.buffer, k, page, b)),
                    and_(pool.buffer.memory[b] == ZEROED, pool.stale[b]),
                ),
            ),
        ),
    )


@invariant("I15")
def zeroed_pages_have_no_stale_byte(pool: Schedule) -> Bool:
    """I15: where zeroing is promised, every byte of a bound page is known once its zeroing is no longer queued."""
    return forall(
        pool.all(SubPool),
        lambda k: forall(
            pool.all(Page),
            lambda page: forall(
                pool.all(Byte),
                lambda b: implies(
                    and_(
                        pool.buffer.zeroed[k],
                        is_kept(pool, k, page),
                        not_(pool.buffer.pending[k].has(page)),
                        not_(pool.to_zero[k, page]),
                        is_in_page(pool.buffer, k, page, b),
                    ),
                    not_(pool.stale[b]),
                ),
            ),
        ),
    )


@invariant("I5")
def what_nobody_is_writing_is_on_the_device(pool: Schedule) -> Bool:
    """I5: a known byte that no step in flight writes holds on the device what the program says."""
    return forall(
        pool.all(Byte),
        lambda b: implies(
            and_(b - START >= pool.buffer.sink_bytes, pool.writer[b] == NO_STEP, not_(pool.stale[b])),
            pool.device[b] == pool.buffer.memory[b],
        ),
    )


@invariant("I5")
def the_last_writer_is_in_flight(pool: Schedule) -> Bool:
    """I5: whoever counts as a byte's last writer is in flight and writes it."""
    return forall(
        pool.all(Byte),
        lambda b: implies(
            and_(b - START >= pool.buffer.sink_bytes, pool.writer[b] != NO_STEP),
            and_(
                pool.all(Step).has(pool.writer[b]),
                lambda: is_in_flight(pool, pool.writer[b]),
                lambda: pool.writing[pool.writer[b], b],
            ),
        ),
    )


@invariant("I5")
def the_last_writer_has_the_last_word(pool: Schedule) -> Bool:
    """I5: the last writer in flight of a known byte leaves there what the program says."""
    return forall(
        pool.all(Byte),
        lambda b: implies(
            and_(
                b - START >= pool.buffer.sink_bytes,
                pool.writer[b] != NO_STEP,
                pool.all(Step).has(pool.writer[b]),
                not_(pool.stale[b]),
            ),
            lambda: pool.result[pool.writer[b], b] == pool.buffer.memory[b],
        ),
    )


@invariant("I5")
def earlier_writers_are_ahead_of_the_last(pool: Schedule) -> Bool:
    """I5: every other writer in flight of a byte completes before the last one."""
    return forall(
        pool.all(Step),
        lambda t: forall(
            pool.all(Byte),
            lambda b: implies(
                pool.writing[t, b],
                and_(
                    is_in_flight(pool, t),
                    pool.writer[b] != NO_STEP,
                    pool.all(Step).has(pool.writer[b]),
                    lambda: or_(pool.writer[b] == t, lambda: is_before(pool, t, pool.writer[b])),
                ),
            ),
        ),
    )


@invariant("I5")
def readers_without_a_source_find_it_on_the_device(pool: Schedule) -> Bool:
    """I5: what a reader was promised and nobody still has to write is on the device."""
    return forall(
        pool.all(Step),
        lambda s: forall(
            pool.all(Byte),
            lambda b: implies(
                and_(pool.reading[s, b], pool.source[s, b] == NO_STEP),
                and_(is_in_flight(pool, s), pool.device[b] == pool.promised[s, b]),
            ),
        ),
    )


@invariant("I5")
def no_writer_overtakes_a_reader(pool: Schedule) -> Bool:
    """I5: every writer in flight of a byte that a reader will find on the device completes after the reader."""
    return forall(
        pool.all(Step),
        lambda s: forall(
            pool.all(Byte),
            lambda b: forall(
                pool.all(Step),
                lambda t: implies(
                    and_(pool.reading[s, b], pool.source[s, b] == NO_STEP, t != s, pool.writing[t, b]),
                    is_before(pool, s, t),
                ),
            ),
        ),
    )


@invariant("I5")
def readers_are_promised_what_their_source_leaves(pool: Schedule) -> Bool:
    """I5: what a reader was promised is what its source, a writer in flight ahead of it, leaves there."""
    return forall(
        pool.all(Step),
        lambda s: forall(
            pool.all(Byte),
            lambda b: implies(
                and_(pool.reading[s, b], pool.source[s, b] != NO_STEP),
                and_(
                    is_in_flight(pool, s),
                    pool.source[s, b] != s,
                    pool.all(Step).has(pool.source[s, b]),
                    lambda: pool.writing[pool.source[s, b], b],
                    lambda: is_before(pool, pool.source[s, b], s),
                    lambda: pool.result[pool.source[s, b], b] == pool.promised[s, b],
                ),
            ),
        ),
    )


@invariant("I5")
def no_writer_comes_between_source_and_reader(pool: Schedule) -> Bool:
    """I5: any other writer in flight of the byte completes before the source does, or after the reader."""
    return forall(
        pool.all(Step),
        lambda s: forall(
            pool.all(Byte),
            lambda b: forall(
                pool.all(Step),
                lambda t: implies(
                    and_(
                        pool.reading[s, b],
                        pool.all(Step).has(pool.source[s, b]),
                        t != s,
                        t != pool.source[s, b],
                        pool.writing[t, b],
                    ),
                    lambda: or_(is_before(pool, t, pool.source[s, b]), is_before(pool, s, t)),
                ),
            ),
        ),
    )


@invariant("I24")
def versions_are_captured_before_they_pass(pool: Schedule) -> Bool:
    """I24: no step has captured a version of a table that is yet to come."""
    return forall(
        pool.all(Step),
        lambda s: forall(
            pool.all(SubPool), lambda k: implies(is_in_flight(pool, s), pool.captured[s, k] <= pool.version[k])
        ),
    )


@invariant("I24")
def captured_tables_are_current_or_told_apart(pool: Schedule) -> Bool:
    """I24: while the version of a table is the one that a step captured, the table is what the step saw."""
    return forall(
        pool.all(Step),
        lambda s: forall(
            pool.all(SubPool),
            lambda k: forall(
                pool.all(Virtual),
                lambda v: implies(
                    and_(is_in_flight(pool, s), pool.captured[s, k] == pool.version[k]),
                    pool.seen[s, k, v] == pool.buffer.physical[k, v],
                ),
            ),
        ),
    )


@invariant("I12")
def a_remembered_credit_is_the_credit(pool: Schedule) -> Bool:
    """I12: what is remembered of a sub-pool's credit is what working it out now would give, gates included."""
    return forall(pool.all(SubPool), lambda k: implies(pool.memo_holds[k], pool.memo[k] == credit(pool, k)))


@invariant("I6")
def filled_pages_are_written(pool: Schedule) -> Bool:
    """I6: an id counts as filled only while it is live, and its owner has written its page."""
    return forall(
        pool.all(SubPool),
        lambda k: forall(
            pool.all(Virtual),
            lambda v: implies(
                pool.filled[k, v], and_(is_live(pool.buffer, k, v), lambda: pool.buffer.written[k, v] > ZEROED)
            ),
        ),
    )


@invariant("I6")
def filled_pages_have_no_stale_byte(pool: Schedule) -> Bool:
    """I6: every byte of a filled page is known."""
    return forall(
        pool.all(SubPool),
        lambda k: forall(
            pool.all(Virtual),
            lambda v: forall(
                pool.all(Byte),
                lambda b: implies(
                    and_(pool.filled[k, v], is_in_page(pool.buffer, k, pool.buffer.physical[k, v], b)),
                    not_(pool.stale[b]),
                ),
            ),
        ),
    )


@invariant("I15")
def zeroed_ids_hold_zeros_or_their_own(pool: Schedule) -> Bool:
    """I15: where zeroing is promised, what a live id holds is zeros or what its owner wrote."""
    return forall(
        pool.all(SubPool),
        lambda k: forall(
            pool.all(Virtual),
            lambda v: implies(
                and_(pool.buffer.zeroed[k], is_live(pool.buffer, k, v)), pool.buffer.written[k, v] >= ZEROED
            ),
        ),
    )


@invariant("I6")
def published_ids_are_filled(pool: Schedule) -> Bool:
    """I6: only what has been written is published."""
    return forall(
        pool.all(SubPool),
        lambda k: forall(pool.all(Virtual), lambda v: implies(pool.published[k, v], pool.filled[k, v])),
    )


@invariant("I24")
def the_same_id_has_the_same_tenancy(pool: Schedule) -> Bool:
    """I24: an id counts as the one that a step saw only while it is live, and has never been let go since."""
    return forall(
        pool.all(Step),
        lambda s: forall(
            pool.all(SubPool),
            lambda k: forall(
                pool.all(Virtual),
                lambda v: implies(
                    and_(pool.phase[s] != Phase.IDLE, pool.same[s, k, v]),
                    and_(is_live(pool.buffer, k, v), pool.begun[s, k, v] == pool.buffer.tenancy[k, v]),
                ),
            ),
        ),
    )


# -------------------------------------------------------------------------------------------------------- theorems


@theorem("I5", "I8")
def whoever_is_outside_keeps_his_page(pool: Schedule, k: SubPool, page: Page) -> Bool:
    """I5, I8: what a lease or a step away from home has is neither free for another id, nor reclaimed, nor given up."""
    return implies(
        and_(
            pool.all(SubPool).has(k),
            pool.all(Page).has(page),
            lambda: or_(
                pool.pins[k, page] > 0,
                exists(pool.all(Step), lambda s: and_(is_away(pool, s), touches(pool, s, k, page))),
            ),
        ),
        lambda: and_(is_kept(pool, k, page), not_(enabled(take_back, pool, k, page))),
    )


@theorem("I8")
def no_mover_passes_a_lease_or_a_gate(pool: Schedule, s: Step, k: SubPool, v: Virtual, hole: Page) -> Bool:
    """I8: a leased page, and any page behind a closed gate, stays where it is, whoever asks."""
    return implies(
        and_(
            is_live(pool.buffer, k, v),
            lambda: or_(pool.pins[k, pool.buffer.physical[k, v]] > 0, pool.gates[k] > 0),
        ),
        lambda: not_(enabled(relocate, pool, s, k, v, hole)),
    )


@theorem("I2", "I5")
def freeing_is_never_refused_for_what_is_in_flight(pool: Schedule, k: SubPool, v: Virtual) -> Bool:
    """I2, I5: steps, leases and gates never keep an owner from letting go; the page waits in his place."""
    return and_(
        iff(enabled(let_go, pool, k, v), enabled(unbind, pool.buffer, k, v)),
        iff(enabled(let_go_later, pool, k, v), enabled(unbind, pool.buffer, k, v)),
    )


@theorem("I4", "I20")
def binding_is_never_refused_for_what_is_in_flight(pool: Schedule, k: SubPool, v: Virtual, page: Page) -> Bool:
    """I4, I20: what can be bound depends on the tables alone, never on how far the device is."""
    return and_(
        iff(enabled(take_frontier, pool, k, v, page), enabled(bind_frontier, pool.buffer, k, v, page)),
        iff(enabled(take_hole, pool, k, v, page), enabled(bind_hole, pool.buffer, k, v, page)),
        iff(enabled(widen, pool, k, page), enabled(grow, pool.buffer, k, page)),
        iff(enabled(give_up_high, pool, k), enabled(retreat_high, pool.buffer, k)),
        iff(enabled(give_up_low, pool, k), enabled(retreat_low, pool.buffer, k)),
        iff(enabled(put_float, pool, k, page), enabled(place_float, pool.buffer, k, page)),
        iff(enabled(lay_float_aside, pool, k), enabled(park_float, pool.buffer, k)),
    )


@theorem("I11", "I20")
def pending_pages_drain(pool: Schedule, k: SubPool, page: Page) -> Bool:
    """I11, I20: a pending page comes back exactly when lease, group and steps away from home have let go of it."""
    return implies(
        and_(pool.all(SubPool).has(k), pool.all(Page).has(page), lambda: pool.buffer.pending[k].has(page)),
        lambda: iff(
            enabled(take_back, pool, k, page),
            and_(
                pool.pins[k, page] == 0,
                not_(pool.deferred.has((k, page))),
                forall(
                    pool.all(Step),
                    lambda t: or_(not_(is_away(pool, t)), not_(touches(pool, t, k, page))),
                ),
            ),
        ),
    )


@theorem("I11")
def the_first_step_can_complete(pool: Schedule, s: Step) -> Bool:
    """I11: of the steps in flight the one with the lowest ticket is held up by nobody, so fences always drain."""
    return implies(
        and_(
            pool.all(Step).has(s),
            lambda: pool.phase[s] == Phase.LAUNCHED,
            lambda: forall(pool.all(Step), lambda t: implies(is_in_flight(pool, t), pool.ticket[s] <= pool.ticket[t])),
        ),
        lambda: enabled(complete, pool, s),
    )


@theorem("I11", "I20")
def a_step_with_nobody_ahead_can_complete(pool: Schedule, s: Step) -> Bool:
    """I11, I20: steps complete out of order: only an earlier one of the same stream, or an awaited one, holds it up."""
    return implies(
        and_(
            pool.all(Step).has(s),
            lambda: pool.phase[s] == Phase.LAUNCHED,
            lambda: forall(
                pool.all(Step),
                lambda t: or_(
                    not_(is_in_flight(pool, t)),
                    and_(
                        or_(pool.stream[t] != pool.stream[s], pool.ticket[t] >= pool.ticket[s]),
                        not_(pool.waits[s, t]),
                    ),
                ),
            ),
        ),
        lambda: enabled(complete, pool, s),
    )


@define
def can_clash(pool: Schedule, t: Step, s: Step, k: SubPool, page: Page, writing: Bool) -> Bool:
    """Must step s, which is to read or write the page, be behind step t?"""
    return and_(
        t != s,
        is_in_flight(pool, t),
        or_(
            and_(pool.stream[t] == HOME, pool.stream[s] != HOME),
            pool.writes[t].has((k, page)),
            and_(writing, pool.reads[t].has((k, page))),
        ),
        not_(is_before(pool, t, s)),
    )


@theorem("I11")
def an_access_is_refused_only_for_a_clash(pool: Schedule, s: Step, k: SubPool, v: Virtual, stamp: Int) -> Bool:
    """I11: readers never wait for readers, nor any step for what it is behind of, or for pages that it does not use."""
    return implies(
        and_(
            is_building(pool, s),
            is_live(pool.buffer, k, v),
            lambda: pool.captured[s, k] == pool.version[k],
            lambda: not_(pool.to_zero[k, pool.buffer.physical[k, v]]),
            stamp > 0,
        ),
        lambda: and_(
            implies(
                and_(
                    or_(pool.filled[k, v], pool.buffer.zeroed[k]),
                    lies_clear_of_writes(pool, s, k, pool.buffer.physical[k, v]),
                    lies_clear_of_reads(pool, s, k, pool.buffer.physical[k, v]),
                    not_(exists(pool.all(Step), lambda t: can_clash(pool, t, s, k, pool.buffer.physical[k, v], False))),
                ),
                lambda: enabled(read, pool, s, k, v),
            ),
            implies(
                not_(exists(pool.all(Step), lambda t: can_clash(pool, t, s, k, pool.buffer.physical[k, v], True))),
                lambda: enabled(write_page, pool, s, k, v, stamp),
            ),
        ),
    )


@theorem("I11", "I15")
def zeroing_is_refused_only_for_a_clash(pool: Schedule, s: Step, k: SubPool, page: Page) -> Bool:
    """I11, I15: queued zeroing waits for nobody but those in flight who may still write the bytes."""
    return implies(
        and_(
            is_building(pool, s),
            pool.all(SubPool).has(k),
            pool.all(Page).has(page),
            lambda: pool.to_zero[k, page],
            lambda: lies_clear_of_reads(pool, s, k, page),
            lambda: lies_clear_of_writes(pool, s, k, page),
            lambda: not_(exists(pool.all(Step), lambda t: can_clash(pool, t, s, k, page, False))),
        ),
        lambda: enabled(zero, pool, s, k, page),
    )


@theorem("I11")
def a_copy_is_refused_only_for_a_clash(pool: Schedule, s: Step, k: SubPool, v: Virtual, hole: Page) -> Bool:
    """I11: a page that nobody keeps in its place moves to any hole that the step's other accesses leave alone."""
    return implies(
        and_(
            is_building(pool, s),
            is_live(pool.buffer, k, v),
            pool.all(Page).has(hole),
            lambda: pool.buffer.holes[k].has(hole),
            lambda: pool.stream[s] == HOME,
            lambda: pool.gates[k] == 0,
            lambda: pool.pins[k, pool.buffer.physical[k, v]] == 0,
            lambda: not_(pool.to_zero[k, pool.buffer.physical[k, v]]),
            lambda: lies_clear_of_writes(pool, s, k, pool.buffer.physical[k, v]),
            lambda: lies_clear_of_reads(pool, s, k, pool.buffer.physical[k, v]),
            lambda: lies_clear_of_reads(pool, s, k, hole),
            lambda: lies_clear_of_writes(pool, s, k, hole),
            lambda: not_(exists(pool.all(Step), lambda t: can_clash(pool, t, s, k, pool.buffer.physical[k, v], False))),
        ),
        lambda: enabled(relocate, pool, s, k, v, hole),
    )


@theorem("I6", "I11", "I24")
def whatever_has_arrived_can_be_published(pool: Schedule, s: Step, k: SubPool, v: Virtual) -> Bool:
    """I6, I11: after a step, only a write in flight keeps a filled page of an id that it saw from being published."""
    return implies(
        and_(
            pool.all(Step).has(s),
            lambda: pool.phase[s] == Phase.OVER,
            is_live(pool.buffer, k, v),
            lambda: pool.same[s, k, v],
            lambda: pool.filled[k, v],
            lambda: not_(pool.published[k, v]),
            lambda: forall(pool.all(Step), lambda t: lies_clear_of_writes(pool, t, k, pool.buffer.physical[k, v])),
        ),
        lambda: enabled(publish, pool, s, k, v),
    )


@theorem("I11")
def an_open_step_can_be_launched(pool: Schedule, s: Step) -> Bool:
    """I11: of the open steps of a stream the one that began first can be launched, whatever else is in flight."""
    return implies(
        and_(
            pool.all(Step).has(s),
            lambda: pool.phase[s] == Phase.OPEN,
            lambda: forall(
                pool.all(Step),
                lambda t: implies(
                    and_(pool.phase[t] == Phase.OPEN, pool.stream[t] == pool.stream[s]),
                    pool.ticket[s] <= pool.ticket[t],
                ),
            ),
        ),
        lambda: enabled(launch, pool, s),
    )


@theorem("I11")
def a_step_can_begin(pool: Schedule, s: Step, stream: Stream) -> Bool:
    """I11: wherever there is a place for one, a step can begin, on any stream."""
    return implies(
        and_(pool.all(Step).has(s), lambda: pool.phase[s] == Phase.IDLE, stream >= HOME),
        lambda: enabled(begin, pool, s, stream),
    )


@theorem("I11")
def a_step_can_wait_for_any_event(pool: Schedule, s: Step, t: Step) -> Bool:
    """I11: whatever is launched can be waited for by a step that began later and is still open."""
    return implies(
        and_(
            pool.all(Step).has(s),
            pool.all(Step).has(t),
            lambda: pool.phase[s] == Phase.OPEN,
            lambda: pool.phase[t] == Phase.LAUNCHED,
            lambda: pool.ticket[t] < pool.ticket[s],
        ),
        lambda: enabled(wait_for, pool, s, t),
    )


@theorem("I22")
def padding_is_never_refused(pool: Schedule, s: Step, k: SubPool, v: Virtual, stamp: Int) -> Bool:
    """I22: a step being built can always write a dead row."""
    return implies(
        and_(
            is_building(pool, s),
            pool.all(SubPool).has(k),
            lambda: pool.captured[s, k] == pool.version[k],
            not_(is_live(pool.buffer, k, v)),
            stamp > 0,
        ),
        lambda: enabled(write_padding, pool, s, k, v, stamp),
    )


@theorem("I8")
def leases_and_gates_are_never_refused(pool: Schedule, lease: Lease, k: SubPool, v: Virtual, page: Page) -> Bool:
    """I8: a live page can be leased once by each lease, what is held can be released, what is closed opened."""
    return implies(
        and_(pool.all(Lease).has(lease), pool.all(SubPool).has(k)),
        lambda: and_(
            iff(enabled(close_gate, pool, lease, k), not_(pool.closed[lease, k])),
            iff(enabled(open_gate, pool, lease, k), pool.closed[lease, k]),
            implies(
                and_(
                    is_live(pool.buffer, k, v),
                    lambda: not_(pool.held[lease, k, pool.buffer.physical[k, v]]),
                    lambda: not_(pool.to_zero[k, pool.buffer.physical[k, v]]),
                    lambda: forall(
                        pool.all(Step), lambda t: lies_clear_of_writes(pool, t, k, pool.buffer.physical[k, v])
                    ),
                ),
                lambda: enabled(lease_page, pool, lease, k, v),
            ),
            implies(
                and_(pool.all(Page).has(page), lambda: pool.held[lease, k, page]),
                lambda: enabled(release_page, pool, lease, k, page),
            ),
        ),
    )


@theorem("I10", "I11", "I12")
def credit_can_be_realised(pool: Schedule, s: Step, k: SubPool) -> Bool:
    """I10, I11, I12: while there is credit, the top page can be given up, or moved into a hole by a fresh step."""
    return implies(
        and_(
            is_building(pool, s),
            lambda: pool.stream[s] == HOME,
            lambda: forall(pool.reads[s], lambda j, page: False),
            lambda: forall(pool.writes[s], lambda j, page: False),
            pool.all(SubPool).has(k),
            lambda: not_(is_down_end(pool.buffer, k)),
            lambda: credit(pool, k) > 0,
        ),
        lambda: ite(
            pool.buffer.holes[k].has(pool.buffer.last[k] - 1),
            lambda: enabled(give_up_high, pool, k),
            lambda: exists(
                pool.all(Page),
                lambda hole: enabled(relocate, pool, s, k, pool.buffer.virtual[k, pool.buffer.last[k] - 1], hole),
                witness=lambda: pool.buffer.holes[k].pick(),
            ),
        ),
    )


@theorem("I10", "I11", "I12")
def credit_can_be_realised_below(pool: Schedule, s: Step, k: SubPool) -> Bool:
    """I10, I11, I12: the same from the lower side, for the down end and for floats."""
    return implies(
        and_(
            is_building(pool, s),
            lambda: pool.stream[s] == HOME,
            lambda: forall(pool.reads[s], lambda j, page: False),
            lambda: forall(pool.writes[s], lambda j, page: False),
            pool.all(SubPool).has(k),
            k != UP_END,
            lambda: credit(pool, k) > 0,
        ),
        lambda: ite(
            pool.buffer.holes[k].has(pool.buffer.first[k]),
            lambda: enabled(give_up_low, pool, k),
            lambda: exists(
                pool.all(Page),
                lambda hole: enabled(relocate, pool, s, k, pool.buffer.virtual[k, pool.buffer.first[k]], hole),
                witness=lambda: pool.buffer.holes[k].pick(),
            ),
        ),
    )


@theorem("I10", "I12")
def giving_up_a_page_uses_one_credit(pool: Schedule, k: SubPool) -> Bool:
    """I10, I12: the page that goes is the only one that leaves the credit, so credit n is good for n pages."""
    return implies(
        and_(pool.all(SubPool).has(k), lambda: credit(pool, k) > 0),
        lambda: and_(
            implies(
                enabled(give_up_high, pool, k),
                lambda: credit(after(give_up_high, pool, k), k) == credit(pool, k) - 1,
            ),
            implies(
                enabled(give_up_low, pool, k),
                lambda: credit(after(give_up_low, pool, k), k) == credit(pool, k) - 1,
            ),
        ),
    )


@theorem("I10", "I11", "I12")
def a_vacated_page_can_be_given_up(pool: Schedule, k: SubPool) -> Bool:
    """I10, I11: the top page, once nobody outside has it, is reclaimed and given up in two steps."""
    return implies(
        and_(
            pool.all(SubPool).has(k),
            lambda: not_(is_down_end(pool.buffer, k)),
            lambda: not_(pool.buffer.first[k] == pool.buffer.last[k]),
            lambda: enabled(take_back, pool, k, pool.buffer.last[k] - 1),
        ),
        lambda: enabled(give_up_high, after(take_back, pool, k, pool.buffer.last[k] - 1), k),
    )


@theorem("I25")
def a_quiet_pool_can_be_cleared(pool: Schedule) -> Bool:
    """I25: clear is refused exactly while something is in flight, leased, gated or deferred."""
    return iff(
        enabled(clear, pool),
        and_(
            forall(pool.all(Step), lambda s: or_(pool.phase[s] == Phase.IDLE, pool.phase[s] == Phase.OVER)),
            forall(pool.all(SubPool), lambda k: pool.gates[k] == 0),
            forall(pool.all(SubPool), lambda k: forall(pool.all(Page), lambda page: pool.pins[k, page] == 0)),
            forall(pool.deferred, lambda k, page: False),
        ),
    )


# ----------------------------------------------------------------------------------------------- claims about steps


@step("I8")
def leased_pages_do_not_move(pre: Schedule, post: Schedule) -> Bool:
    """I8: an id whose page is leased, or behind a closed gate, keeps that page for as long as it lives."""
    return forall(
        pre.all(SubPool),
        lambda k: forall(
            pre.all(Virtual),
            lambda v: implies(
                and_(
                    is_live(pre.buffer, k, v),
                    is_live(post.buffer, k, v),
                    lambda: or_(pre.pins[k, pre.buffer.physical[k, v]] > 0, pre.gates[k] > 0),
                ),
                lambda: pre.buffer.physical[k, v] == post.buffer.physical[k, v],
            ),
        ),
    )


@step("I24")
def a_step_keeps_its_snapshot(pre: Schedule, post: Schedule) -> Bool:
    """I24: until its results are dealt with, a step sees the tables, its place in the order and its sets as it did."""
    return forall(
        pre.all(Step),
        lambda s: and_(
            implies(
                and_(pre.phase[s] != Phase.IDLE, post.phase[s] != Phase.IDLE),
                and_(
                    pre.ticket[s] == post.ticket[s],
                    pre.stream[s] == post.stream[s],
                    forall(
                        pre.all(SubPool),
                        lambda k: and_(
                            pre.captured[s, k] == post.captured[s, k],
                            forall(
                                pre.all(Virtual),
                                lambda v: and_(
                                    pre.seen[s, k, v] == post.seen[s, k, v], pre.begun[s, k, v] == post.begun[s, k, v]
                                ),
                            ),
                        ),
                    ),
                ),
            ),
            implies(
                and_(is_in_flight(pre, s), is_in_flight(post, s)),
                forall(
                    pre.all(SubPool),
                    lambda k: forall(
                        pre.all(Page),
                        lambda page: and_(
                            implies(pre.reads[s].has((k, page)), post.reads[s].has((k, page))),
                            implies(pre.writes[s].has((k, page)), post.writes[s].has((k, page))),
                        ),
                    ),
                ),
            ),
        ),
    )


@step("I24")
def an_id_is_the_same_for_as_long_as_it_lives(pre: Schedule, post: Schedule) -> Bool:
    """I24: of the ids that a step saw exactly those that are let go, or cleared, stop being the same for it."""
    return forall(
        pre.all(Step),
        lambda s: forall(
            pre.all(SubPool),
            lambda k: forall(
                pre.all(Virtual),
                lambda v: implies(
                    and_(pre.phase[s] != Phase.IDLE, post.phase[s] != Phase.IDLE),
                    iff(
                        post.same[s, k, v],
                        and_(pre.same[s, k, v], post.buffer.tenancy[k, v] == pre.buffer.tenancy[k, v]),
                    ),
                ),
            ),
        ),
    )


@step("I5")
def a_step_in_flight_keeps_its_promises(pre: Schedule, post: Schedule) -> Bool:
    """I5: while a step is in flight, what it was promised stays promised."""
    return forall(
        pre.all(Step),
        lambda s: forall(
            pre.all(Byte),
            lambda b: implies(
                and_(pre.reading[s, b], is_in_flight(post, s)),
                and_(post.reading[s, b], post.promised[s, b] == pre.promised[s, b]),
            ),
        ),
    )


@step("I5")
def tables_tell_their_versions(pre: Schedule, post: Schedule) -> Bool:
    """I5, I24: a table that changes gets a new version."""
    return forall(
        pre.all(SubPool),
        lambda k: forall(
            pre.all(Virtual),
            lambda v: implies(
                pre.buffer.physical[k, v] != post.buffer.physical[k, v], pre.version[k] < post.version[k]
            ),
        ),
    )


@ensures(complete, "I5")
def a_step_has_read_what_it_was_promised(pre: Schedule, post: Schedule, s: Step) -> Bool:
    """I5: when a step completes, every byte that it read was what the program had promised it; its writes are done."""
    return and_(
        pre.phase[s] == Phase.LAUNCHED,
        forall(pre.all(Byte), lambda b: implies(pre.reading[s, b], pre.device[b] == pre.promised[s, b])),
        forall(pre.all(Byte), lambda b: implies(pre.writing[s, b], post.device[b] == pre.result[s, b])),
        forall(pre.all(Byte), lambda b: implies(not_(pre.writing[s, b]), post.device[b] == pre.device[b])),
        post.phase[s] == Phase.OVER,
        forall(pre.all(Step), lambda t: implies(t != s, pre.phase[t] == post.phase[t])),
    )


@ensures(complete, "I20")
def an_event_decides_nothing(pre: Schedule, post: Schedule, s: Step) -> Bool:
    """I20: that a step is over changes no table, no free list and no extent: nothing by which a bind is decided."""
    return forall(
        pre.all(SubPool),
        lambda k: and_(
            pre.buffer.first[k] == post.buffer.first[k],
            pre.buffer.last[k] == post.buffer.last[k],
            pre.version[k] == post.version[k],
            forall(pre.all(Virtual), lambda v: pre.buffer.physical[k, v] == post.buffer.physical[k, v]),
            forall(
                pre.all(Page),
                lambda page: and_(
                    iff(pre.buffer.holes[k].has(page), post.buffer.holes[k].has(page)),
                    iff(pre.buffer.pending[k].has(page), post.buffer.pending[k].has(page)),
                    iff(pre.to_zero[k, page], post.to_zero[k, page]),
                ),
            ),
        ),
    )


@ensures(retire, "I24")
def a_retired_step_was_over(pre: Schedule, post: Schedule, s: Step) -> Bool:
    """I24: nothing of it was in flight; its place is free, and every other step is as far as it was."""
    return and_(
        pre.phase[s] == Phase.OVER,
        post.phase[s] == Phase.IDLE,
        forall(pre.all(Step), lambda t: implies(t != s, pre.phase[t] == post.phase[t])),
    )


@ensures(read, "I5", "I6", "I15")
def a_read_is_promised_what_the_program_says(pre: Schedule, post: Schedule, s: Step, k: SubPool, v: Virtual) -> Bool:
    """I5, I6, I15: the step will see what the id's owner wrote last, or promised zeros, byte for byte."""
    return and_(
        pre.seen[s, k, v] == pre.buffer.physical[k, v],
        post.reads[s].has((k, pre.buffer.physical[k, v])),
        pre.buffer.written[k, v] >= ZEROED,
        forall(
            pre.all(Byte),
            lambda b: implies(
                is_in_page(pre.buffer, k, pre.buffer.physical[k, v], b),
                and_(post.reading[s, b], post.promised[s, b] == pre.buffer.written[k, v]),
            ),
        ),
    )


@ensures(write_page, "I5")
def a_write_is_known_from_the_call_on(
    pre: Schedule, post: Schedule, s: Step, k: SubPool, v: Virtual, stamp: Int
) -> Bool:
    """I5: the step will write the whole page, and readers from now on are promised what it writes."""
    return and_(
        pre.seen[s, k, v] == pre.buffer.physical[k, v],
        not_(pre.to_zero[k, pre.buffer.physical[k, v]]),
        post.writes[s].has((k, pre.buffer.physical[k, v])),
        post.filled[k, v],
        forall(
            pre.all(Byte),
            lambda b: implies(
                is_in_page(pre.buffer, k, pre.buffer.physical[k, v], b),
                and_(post.writing[s, b], post.result[s, b] == stamp, not_(post.stale[b]), post.writer[b] == s),
            ),
        ),
    )


@ensures(write_padding, "I22")
def padding_reaches_the_sink_alone(pre: Schedule, post: Schedule, s: Step, k: SubPool, v: Virtual, stamp: Int) -> Bool:
    """I22: a dead row of a step being built writes page 0, and no byte that anyone is promised."""
    return and_(
        is_building(pre, s),
        implies(and_(pre.all(Virtual).has(v), v != SINK), lambda: pre.seen[s, k, v] == UNMAPPED),
        forall(
            pre.all(Byte),
            lambda b: ite(
                is_in_page(pre.buffer, k, SINK_PAGE, b),
                post.buffer.memory[b] == stamp,
                lambda: post.buffer.memory[b] == pre.buffer.memory[b],
            ),
        ),
    )


@ensures(zero, "I15")
def a_queued_zeroing_is_done_once(pre: Schedule, post: Schedule, s: Step, k: SubPool, page: Page) -> Bool:
    """I15: the step writes zeros to every byte of the fresh page, so no earlier tenant's bytes show."""
    return and_(
        pre.to_zero[k, page],
        not_(post.to_zero[k, page]),
        post.writes[s].has((k, page)),
        forall(
            pre.all(Byte),
            lambda b: implies(
                is_in_page(pre.buffer, k, page, b),
                and_(
                    post.writing[s, b],
                    post.result[s, b] == ZEROED,
                    post.writer[b] == s,
                    not_(post.stale[b]),
                    not_(pre.reading[s, b]),
                    not_(pre.writing[s, b]),
                ),
            ),
        ),
    )


@ensures(take_frontier, "I15")
def a_fresh_frontier_page_is_not_read_before_it_is_zeroed(
    pre: Schedule, post: Schedule, k: SubPool, v: Virtual, page: Page
) -> Bool:
    """I15: where zeroing is promised it is queued, which keeps every step from reading and writing the fresh page."""
    return and_(
        post.to_zero[k, page] == pre.buffer.zeroed[k],
        implies(
            pre.buffer.zeroed[k],
            and_(
                forall(pre.all(Step), lambda s: not_(enabled(read, post, s, k, v))),
                forall(pre.all(Step), lambda s: not_(enabled(write_page, post, s, k, v, 1))),
            ),
        ),
    )


@ensures(take_hole, "I15")
def a_fresh_hole_is_not_read_before_it_is_zeroed(
    pre: Schedule, post: Schedule, k: SubPool, v: Virtual, page: Page
) -> Bool:
    """I15: where zeroing is promised it is queued, which keeps every step from reading and writing the fresh page."""
    return and_(
        post.to_zero[k, page] == pre.buffer.zeroed[k],
        implies(
            pre.buffer.zeroed[k],
            and_(
                forall(pre.all(Step), lambda s: not_(enabled(read, post, s, k, v))),
                forall(pre.all(Step), lambda s: not_(enabled(write_page, post, s, k, v, 1))),
            ),
        ),
    )


@ensures(publish, "I6", "I24")
def what_is_published_is_on_the_device(pre: Schedule, post: Schedule, s: Step, k: SubPool, v: Virtual) -> Bool:
    """I6, I24: what the id's owner wrote has reached the device, and he had the id when the step began."""
    return and_(
        pre.phase[s] == Phase.OVER,
        not_(pre.published[k, v]),
        post.published[k, v],
        pre.begun[s, k, v] == pre.buffer.tenancy[k, v],
        pre.buffer.written[k, v] > ZEROED,
        forall(
            pre.all(Byte),
            lambda b: implies(
                is_in_page(pre.buffer, k, pre.buffer.physical[k, v], b), pre.device[b] == pre.buffer.written[k, v]
            ),
        ),
    )


@ensures(relocate, "I5", "I8")
def copies_of_a_step_are_parallel(pre: Schedule, post: Schedule, s: Step, k: SubPool, v: Virtual, hole: Page) -> Bool:
    """I5, I8: no byte that a copy writes is read or written by another copy of the step; the copy runs at home."""
    return and_(
        pre.stream[s] == HOME,
        pre.gates[k] == 0,
        pre.pins[k, pre.buffer.physical[k, v]] == 0,
        not_(pre.to_zero[k, pre.buffer.physical[k, v]]),
        post.reads[s].has((k, pre.buffer.physical[k, v])),
        post.writes[s].has((k, hole)),
        forall(
            pre.all(Byte),
            lambda b: implies(
                is_in_page(pre.buffer, k, hole, b),
                and_(not_(pre.reading[s, b]), not_(pre.writing[s, b]), post.writing[s, b], post.writer[b] == s),
            ),
        ),
        forall(
            pre.all(Byte),
            lambda b: implies(
                is_in_page(pre.buffer, k, pre.buffer.physical[k, v], b),
                and_(
                    not_(pre.writing[s, b]),
                    iff(post.reading[s, b], not_(pre.stale[b])),
                    post.promised[s, b] == pre.buffer.memory[b],
                ),
            ),
        ),
    )


@ensures(let_go_later, "I3", "I5")
def a_deferred_free_keeps_its_own_page(pre: Schedule, post: Schedule, k: SubPool, v: Virtual) -> Bool:
    """I3, I5: what the group will give back is the page that the id had when it was asked, whoever has the id then."""
    return and_(
        post.deferred.has((k, pre.buffer.physical[k, v])),
        not_(is_live(post.buffer, k, v)),
        not_(enabled(take_back, post, k, pre.buffer.physical[k, v])),
        not_(post.published[k, v]),
        not_(post.filled[k, v]),
        forall(pre.all(Step), lambda s: not_(post.same[s, k, v])),
    )


@ensures(let_go, "I3", "I5")
def a_free_ends_publication(pre: Schedule, post: Schedule, k: SubPool, v: Virtual) -> Bool:
    """I3: a dead id is not published, its page waits for no zeroing, and no group holds it back."""
    return and_(
        not_(post.published[k, v]),
        not_(post.filled[k, v]),
        forall(pre.all(Step), lambda s: not_(post.same[s, k, v])),
        not_(post.to_zero[k, pre.buffer.physical[k, v]]),
        forall(post.deferred, lambda j, page: pre.deferred.has((j, page))),
    )


@ensures(end_group, "I11")
def an_ended_group_holds_nothing_back(pre: Schedule, post: Schedule) -> Bool:
    """I11: no page is kept for a group that has ended."""
    return forall(pre.all(SubPool), lambda k: forall(pre.all(Page), lambda page: not_(post.deferred.has((k, page)))))


@ensures(begin, "I24")
def a_step_begins_with_the_tables_of_now(pre: Schedule, post: Schedule, s: Step, stream: Stream) -> Bool:
    """I24: the step is the newest of all, and has captured the tables as they are, and who has which id."""
    return and_(
        pre.phase[s] == Phase.IDLE,
        stream >= HOME,
        post.phase[s] == Phase.OPEN,
        post.stream[s] == stream,
        post.ticket[s] == pre.clock,
        post.clock == pre.clock + 1,
        forall(
            pre.all(SubPool),
            lambda k: and_(
                post.captured[s, k] == pre.version[k],
                forall(
                    pre.all(Virtual),
                    lambda v: and_(
                        iff(post.same[s, k, v], is_live(pre.buffer, k, v)),
                        post.begun[s, k, v] == pre.buffer.tenancy[k, v],
                    ),
                ),
            ),
        ),
        forall(pre.all(Step), lambda t: implies(t != s, pre.phase[t] == post.phase[t])),
    )


@ensures(wait_for, "I5")
def a_wait_orders_two_steps(pre: Schedule, post: Schedule, s: Step, t: Step) -> Bool:
    """I5: the step cannot complete before the one that it waits for."""
    return and_(pre.phase[s] == Phase.OPEN, pre.phase[t] == Phase.LAUNCHED, is_before(post, t, s))


@ensures(launch, "I5")
def a_launched_step_is_built(pre: Schedule, post: Schedule, s: Step) -> Bool:
    """I5: it was open, and nothing can be added to it any more."""
    return and_(
        pre.phase[s] == Phase.OPEN,
        is_next_of_its_stream(pre, s),
        post.phase[s] == Phase.LAUNCHED,
    )


@ensures(lease_page, "I8")
def a_lease_pins_its_page(pre: Schedule, post: Schedule, lease: Lease, k: SubPool, v: Virtual) -> Bool:
    """I8: the lease holds the page that the id has now."""
    return and_(
        not_(pre.held[lease, k, pre.buffer.physical[k, v]]),
        not_(pre.to_zero[k, pre.buffer.physical[k, v]]),
        forall(
            pre.all(Byte),
            lambda b: implies(
                is_in_page(pre.buffer, k, pre.buffer.physical[k, v], b),
                forall(pre.all(Step), lambda t: not_(pre.writing[t, b])),
            ),
        ),
        post.held[lease, k, pre.buffer.physical[k, v]],
        post.pins[k, pre.buffer.physical[k, v]] > 0,
    )


@ensures(release_page, "I8", "I13")
def a_release_gives_up_just_its_own_hold(pre: Schedule, post: Schedule, lease: Lease, k: SubPool, page: Page) -> Bool:
    """I8, I13: what was held is released, once, and every other hold stays."""
    return and_(
        pre.held[lease, k, page],
        not_(post.held[lease, k, page]),
        post.pins[k, page] == pre.pins[k, page] - 1,
        forall(
            pre.all(Lease),
            lambda other: implies(other != lease, iff(pre.held[other, k, page], post.held[other, k, page])),
        ),
    )


@ensures(close_gate, "I8", "I13")
def a_closed_gate_is_counted(pre: Schedule, post: Schedule, lease: Lease, k: SubPool) -> Bool:
    """I8, I13: one gate more is closed, by one who had not closed it."""
    return and_(
        not_(pre.closed[lease, k]),
        post.closed[lease, k],
        post.gates[k] == pre.gates[k] + 1,
        forall(pre.all(Lease), lambda other: implies(other != lease, iff(pre.closed[other, k], post.closed[other, k]))),
    )


@ensures(open_gate, "I8", "I13")
def an_opened_gate_leaves_the_others_closed(pre: Schedule, post: Schedule, lease: Lease, k: SubPool) -> Bool:
    """I8, I13: one gate less is closed, opened by the one who closed it; everybody else's stay."""
    return and_(
        pre.closed[lease, k],
        not_(post.closed[lease, k]),
        pre.gates[k] > 0,
        post.gates[k] == pre.gates[k] - 1,
        forall(pre.all(Lease), lambda other: implies(other != lease, iff(pre.closed[other, k], post.closed[other, k]))),
    )


@ensures(ask_capacity, "I12")
def an_asked_credit_is_remembered(pre: Schedule, post: Schedule, k: SubPool) -> Bool:
    """I12: what is remembered is what was worked out."""
    return and_(post.memo_holds[k], post.memo[k] == credit(pre, k))


@ensures(clear, "I25")
def a_clear_leaves_nothing_in_flight(pre: Schedule, post: Schedule) -> Bool:
    """I25: nothing was in flight, nothing is published or to be zeroed, and captured tables are told from the new."""
    return and_(
        forall(pre.all(Step), lambda s: not_(is_in_flight(pre, s))),
        forall(pre.all(SubPool), lambda k: forall(pre.all(Virtual), lambda v: not_(post.filled[k, v]))),
        forall(pre.all(SubPool), lambda k: forall(pre.all(Virtual), lambda v: not_(post.published[k, v]))),
        forall(pre.all(SubPool), lambda k: forall(pre.all(Page), lambda page: not_(post.to_zero[k, page]))),
        forall(pre.all(SubPool), lambda k: pre.version[k] < post.version[k]),
    )


@ensures(start, "I25")
def a_new_schedule_is_idle(pre: Schedule, post: Schedule) -> Bool:
    """I25: whatever was there before, nothing is in flight, leased, gated, deferred or published."""
    return and_(
        forall(post.all(Step), lambda s: not_(is_in_flight(post, s))),
        forall(post.all(SubPool), lambda k: and_(post.gates[k] == 0, not_(post.memo_holds[k]))),
        forall(post.all(SubPool), lambda k: forall(post.all(Page), lambda page: post.pins[k, page] == 0)),
        forall(post.all(SubPool), lambda k: forall(post.all(Page), lambda page: not_(post.deferred.has((k, page))))),
        forall(post.all(SubPool), lambda k: forall(post.all(Virtual), lambda v: not_(post.filled[k, v]))),
        forall(post.all(SubPool), lambda k: forall(post.all(Virtual), lambda v: not_(post.published[k, v]))),
    )


SPEC = Specification(
    name="schedule",
    state=Schedule,
    at_least={"steps": 1, "leases": 1},
    samples={int: (0, 1), Stream: (HOME, Stream(1), Stream(-1))},
    components={"buffer": BUFFER},
)
