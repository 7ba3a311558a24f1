"""Planted faults of spec/schedule.py. Each body is ours; the mechanism is that of the report named beside it."""

from __future__ import annotations

from collections.abc import Mapping

from poolproof.proofs.subject import Twin
from poolproof.spec.buffer import (
    SINK,
    UNMAPPED,
    UP_END,
    Page,
    SubPool,
    Virtual,
    bind_hole,
    is_down_end,
    is_in_page,
    is_live,
    move,
    offset,
    reclaim,
    unbind,
    write,
)
from poolproof.spec.language import Chosen, Int, and_, exists, forall, implies, not_, or_, perform, require, variant
from poolproof.spec.schedule import (
    HOME,
    Lease,
    Phase,
    Schedule,
    Step,
    Stream,
    ask_capacity,
    begin,
    close_gate,
    credit,
    end_group,
    is_added,
    is_away,
    is_behind_readers,
    is_behind_writers,
    is_building,
    is_in_flight,
    lease_page,
    let_go,
    lies_clear_of_reads,
    lies_clear_of_writes,
    open_gate,
    publish,
    read,
    release_page,
    relocate,
    take_back,
    take_hole,
    touches,
    wait_for,
    write_padding,
    write_page,
)

# --------------------------------------------------------------------------------------------------- leases, gates


@variant(lease_page)
def lease_page_pins_nothing(pool: Schedule, lease: Lease, k: SubPool, v: Virtual) -> None:
    """The address is translated and handed on, but nothing keeps the page there until its last use."""
    require(pool.all(Lease).has(lease))
    require(is_live(pool.buffer, k, v))
    page = pool.buffer.physical[k, v]
    require(not_(pool.held[lease, k, page]))
    pool.held[lease, k, page] = True
    pool.memo_holds[k] = False


@variant(release_page)
def release_page_keeps_the_pin(pool: Schedule, lease: Lease, k: SubPool, page: Page) -> None:
    """The end of the use is not reported, so the temporary reference is never dropped."""
    require(pool.all(Lease).has(lease))
    require(pool.all(SubPool).has(k))
    require(pool.all(Page).has(page))
    require(pool.held[lease, k, page])
    pool.held[lease, k, page] = False
    pool.memo_holds[k] = False


@variant(close_gate)
def close_gate_keeps_the_memo(pool: Schedule, lease: Lease, k: SubPool) -> None:
    """The remembered capacity still counts on holes that the closed gate blocks."""
    require(pool.all(Lease).has(lease))
    require(pool.all(SubPool).has(k))
    require(not_(pool.closed[lease, k]))
    pool.closed[lease, k] = True
    pool.gates[k] += 1


@variant(open_gate)
def open_gate_keeps_the_memo(pool: Schedule, lease: Lease, k: SubPool) -> None:
    """The remembered capacity still withholds the holes that the gate blocked until now."""
    require(pool.all(Lease).has(lease))
    require(pool.all(SubPool).has(k))
    require(pool.closed[lease, k])
    pool.closed[lease, k] = False
    pool.gates[k] -= 1


@variant(ask_capacity)
def ask_capacity_sees_no_gate(pool: Schedule, k: SubPool) -> None:
    """The holes of a sub-pool are credited although its gate is closed and compaction does nothing."""
    require(pool.all(SubPool).has(k))
    pool.memo[k] = pool.buffer.holes[k].size
    pool.memo_holds[k] = True


@variant(ask_capacity)
def ask_capacity_counts_the_neighbour(pool: Schedule, k: SubPool) -> None:
    """What a neighbour could give up is in this sub-pool's credit as well as in its own."""
    require(pool.all(SubPool).has(k))
    pool.memo[k] = credit(pool, k) + credit(pool, UP_END)
    pool.memo_holds[k] = True


# ---------------------------------------------------------------------------------------------------------- movers


@variant(relocate)
def relocate_asks_one_gate(pool: Schedule, s: Step, k: SubPool, v: Virtual, hole: Chosen[Page]) -> None:
    """Pages of the down end stay behind a closed gate; the path that moves every other sub-pool's does not ask it."""
    require(is_building(pool, s))
    require(pool.stream[s] == HOME)
    require(is_live(pool.buffer, k, v))
    require(pool.all(Page).has(hole))
    page = pool.buffer.physical[k, v]
    require(or_(not_(is_down_end(pool.buffer, k)), pool.gates[k] == 0))
    require(pool.pins[k, page] == 0)
    require(not_(pool.to_zero[k, page]))
    require(is_behind_writers(pool, s, k, page))
    require(lies_clear_of_writes(pool, s, k, page))
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


@variant(relocate)
def relocate_looks_at_the_queue(pool: Schedule, s: Step, k: SubPool, v: Virtual, hole: Chosen[Page]) -> None:
    """The gate closes when a transfer is queued; an address that was given out before does not count."""
    require(is_building(pool, s))
    require(pool.stream[s] == HOME)
    require(is_live(pool.buffer, k, v))
    require(pool.all(Page).has(hole))
    page = pool.buffer.physical[k, v]
    require(pool.gates[k] == 0)
    require(not_(pool.to_zero[k, page]))
    require(is_behind_writers(pool, s, k, page))
    require(lies_clear_of_writes(pool, s, k, page))
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


@variant(relocate)
def relocate_waits_for_every_gate(pool: Schedule, s: Step, k: SubPool, v: Virtual, hole: Chosen[Page]) -> None:
    """A flush does nothing while any gate is closed, although only one sub-pool's credit is dropped for it."""
    require(is_building(pool, s))
    require(pool.stream[s] == HOME)
    require(is_live(pool.buffer, k, v))
    require(pool.all(Page).has(hole))
    page = pool.buffer.physical[k, v]
    require(forall(pool.all(SubPool), lambda j: pool.gates[j] == 0))
    require(pool.pins[k, page] == 0)
    require(not_(pool.to_zero[k, page]))
    require(is_behind_writers(pool, s, k, page))
    require(lies_clear_of_writes(pool, s, k, page))
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


@variant(relocate)
def relocate_overlaps_its_copies(pool: Schedule, s: Step, k: SubPool, v: Virtual, hole: Chosen[Page]) -> None:
    """The copies of one pass read and write the same pages, in no order."""
    require(is_building(pool, s))
    require(pool.stream[s] == HOME)
    require(is_live(pool.buffer, k, v))
    require(pool.all(Page).has(hole))
    page = pool.buffer.physical[k, v]
    require(pool.gates[k] == 0)
    require(pool.pins[k, page] == 0)
    require(not_(pool.to_zero[k, page]))
    require(is_behind_writers(pool, s, k, page))
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


# -------------------------------------------------------------------------------------------------- table staging


@variant(begin)
def begin_reuses_the_staging_table(pool: Schedule, s: Chosen[Step], stream: Stream) -> None:
    """All steps take their tables from one staging buffer, which the next step overwrites in place."""
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
    pool.seen.relabel(lambda t, k, v: pool.buffer.physical[k, v])
    pool.begun.relabel(lambda t, k, v: pool.buffer.tenancy[k, v], where=lambda t, k, v: t == s)


@variant(begin)
def begin_permutes_the_rows(pool: Schedule, s: Chosen[Step], stream: Stream) -> None:
    """The next step puts the shared buffer into its own order before the last step's event has been awaited."""
    require(pool.all(Step).has(s))
    require(pool.phase[s] == Phase.IDLE)
    require(stream >= HOME)
    pool.phase[s] = Phase.OPEN
    pool.stream[s] = stream
    pool.ticket[s] = pool.clock
    pool.clock += 1
    pool.captured.relabel(lambda t, k: pool.version[k])
    pool.same.relabel(
        lambda t, k, v: and_(v != SINK, pool.buffer.physical[k, v] != UNMAPPED), where=lambda t, k, v: t == s
    )
    pool.seen.relabel(lambda t, k, v: pool.buffer.physical[k, v], where=lambda t, k, v: t == s)
    pool.begun.relabel(lambda t, k, v: pool.buffer.tenancy[k, v], where=lambda t, k, v: t == s)


@variant(let_go)
def let_go_leaves_built_steps_their_table(pool: Schedule, k: SubPool, v: Virtual) -> None:
    """A duplicate is freed under a step that has captured the table, and nothing tells that table from the new one."""
    require(is_live(pool.buffer, k, v))
    page = pool.buffer.physical[k, v]
    perform(unbind, pool.buffer, k, v)
    pool.to_zero[k, page] = False
    pool.filled[k, v] = False
    pool.published[k, v] = False
    pool.same.relabel(lambda s, j, u: False, where=lambda s, j, u: and_(j == k, u == v))
    pool.memo_holds[k] = False


# ------------------------------------------------------------------------------------------------ reuse in flight


@variant(take_back)
def take_back_forgets_remote_writers(pool: Schedule, k: SubPool, page: Page) -> None:
    """The page's owner has let go, so it is free; that somebody else still writes to it is not looked at."""
    require(pool.all(SubPool).has(k))
    require(pool.all(Page).has(page))
    require(pool.pins[k, page] == 0)
    require(not_(pool.deferred.has((k, page))))
    require(forall(pool.all(Step), lambda t: implies(is_away(pool, t), not_(pool.reads[t].has((k, page))))))
    perform(reclaim, pool.buffer, k, page)
    pool.memo_holds[k] = False


@variant(take_back)
def take_back_forgets_copies_to_the_host(pool: Schedule, k: SubPool, page: Page) -> None:
    """Only writers keep a page back: the source of a copy that is under way is free for the next tenant."""
    require(pool.all(SubPool).has(k))
    require(pool.all(Page).has(page))
    require(pool.pins[k, page] == 0)
    require(not_(pool.deferred.has((k, page))))
    require(forall(pool.all(Step), lambda t: implies(is_away(pool, t), not_(pool.writes[t].has((k, page))))))
    perform(reclaim, pool.buffer, k, page)
    pool.memo_holds[k] = False


@variant(take_back)
def take_back_times_out(pool: Schedule, k: SubPool, page: Page) -> None:
    """The time-out releases the page while a peer that has its address has not yet said that it is done."""
    require(pool.all(SubPool).has(k))
    require(pool.all(Page).has(page))
    require(not_(pool.deferred.has((k, page))))
    require(forall(pool.all(Step), lambda t: implies(is_away(pool, t), not_(touches(pool, t, k, page)))))
    perform(reclaim, pool.buffer, k, page)
    pool.memo_holds[k] = False


@variant(take_back)
def take_back_needs_a_batch(pool: Schedule, k: SubPool, page: Page) -> None:
    """Deferred frees are drained by the next batch only: with no batch left to run they never are."""
    require(pool.all(SubPool).has(k))
    require(pool.all(Page).has(page))
    require(pool.pins[k, page] == 0)
    require(not_(pool.deferred.has((k, page))))
    require(exists(pool.all(Step), lambda t: is_in_flight(pool, t)))
    require(forall(pool.all(Step), lambda t: implies(is_away(pool, t), not_(touches(pool, t, k, page)))))
    perform(reclaim, pool.buffer, k, page)
    pool.memo_holds[k] = False


@variant(end_group)
def end_group_completes_nothing(pool: Schedule) -> None:
    """The end of what the pages were kept for is never signalled, so that they are kept for good."""
    pool.deferred = pool.deferred.join(pool.deferred)


@variant(write_page)
def write_page_trusts_the_stream(pool: Schedule, s: Step, k: SubPool, v: Virtual, stamp: Int) -> None:
    """A transfer from outside writes a fresh page as if it were ordered behind the steps that still write there."""
    require(is_building(pool, s))
    require(is_live(pool.buffer, k, v))
    require(pool.captured[s, k] == pool.version[k])
    page = pool.buffer.physical[k, v]
    require(not_(pool.to_zero[k, page]))
    require(or_(pool.stream[s] != HOME, is_behind_writers(pool, s, k, page)))
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


@variant(write_page)
def write_page_overtakes_the_write_back(pool: Schedule, s: Step, k: SubPool, v: Virtual, stamp: Int) -> None:
    """A forward pass writes a page of which a write-back still reads the old contents: its fence was removed."""
    require(is_building(pool, s))
    require(is_live(pool.buffer, k, v))
    require(pool.captured[s, k] == pool.version[k])
    page = pool.buffer.physical[k, v]
    require(not_(pool.to_zero[k, page]))
    require(is_behind_writers(pool, s, k, page))
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


@variant(wait_for)
def wait_for_remembers_one_event(pool: Schedule, s: Step, t: Step) -> None:
    """A step keeps a single event to wait for, and a new one takes the place of the last."""
    require(pool.all(Step).has(s))
    require(pool.all(Step).has(t))
    require(pool.phase[s] == Phase.OPEN)
    require(pool.phase[t] == Phase.LAUNCHED)
    require(pool.ticket[t] < pool.ticket[s])
    pool.waits.relabel(lambda u, w: w == t, where=lambda u, w: u == s)


@variant(read)
def read_does_not_await_the_load(pool: Schedule, s: Step, k: SubPool, v: Virtual) -> None:
    """A page is copied while the load that fills it, on a stream of its own, is half done."""
    require(is_building(pool, s))
    require(is_live(pool.buffer, k, v))
    require(pool.captured[s, k] == pool.version[k])
    require(or_(pool.filled[k, v], pool.buffer.zeroed[k]))
    page = pool.buffer.physical[k, v]
    require(not_(pool.to_zero[k, page]))
    require(lies_clear_of_writes(pool, s, k, page))
    pool.reads[s] = pool.reads[s].with_((k, page))
    pool.memo_holds[k] = False
    pool.promised.relabel(lambda t, b: pool.buffer.memory[b], where=lambda t, b: is_added(pool, t, b, s, k, page))
    pool.source.relabel(lambda t, b: pool.writer[b], where=lambda t, b: is_added(pool, t, b, s, k, page))
    pool.read_in.relabel(lambda t, b: k, where=lambda t, b: is_added(pool, t, b, s, k, page))
    pool.read_page.relabel(lambda t, b: page, where=lambda t, b: is_added(pool, t, b, s, k, page))
    pool.reading.relabel(lambda t, b: True, where=lambda t, b: is_added(pool, t, b, s, k, page))


@variant(write_padding)
def write_padding_through_old_rows(pool: Schedule, s: Step, k: SubPool, v: Virtual, stamp: Int) -> None:
    """A dummy batch's rows are what was left in the table, and lead to pages that somebody else has by now."""
    require(is_building(pool, s))
    perform(write, pool.buffer, k, v, stamp)


# ------------------------------------------------------------------------------------------ publication, fresh pages


@variant(publish)
def publish_by_the_host_counter(pool: Schedule, s: Step, k: SubPool, v: Virtual) -> None:
    """The host has counted the step as done, so its pages can be read; the device has not written them yet."""
    require(pool.all(Step).has(s))
    require(pool.phase[s] == Phase.LAUNCHED)
    require(is_live(pool.buffer, k, v))
    require(pool.same[s, k, v])
    require(pool.filled[k, v])
    require(not_(pool.published[k, v]))
    pool.published[k, v] = True


@variant(publish)
def publish_without_the_restore(pool: Schedule, s: Step, k: SubPool, v: Virtual) -> None:
    """A fresh page counts as one with contents, although nothing has been put there since its last tenant."""
    require(pool.all(Step).has(s))
    require(pool.phase[s] == Phase.OVER)
    require(is_live(pool.buffer, k, v))
    require(pool.same[s, k, v])
    require(not_(pool.published[k, v]))
    require(forall(pool.all(Step), lambda t: lies_clear_of_writes(pool, t, k, pool.buffer.physical[k, v])))
    pool.published[k, v] = True


@variant(publish)
def publish_whoever_has_the_id_now(pool: Schedule, s: Step, k: SubPool, v: Virtual) -> None:
    """The results of a step are put down to whoever has the id by the time that they are dealt with."""
    require(pool.all(Step).has(s))
    require(pool.phase[s] == Phase.OVER)
    require(is_live(pool.buffer, k, v))
    require(pool.filled[k, v])
    require(not_(pool.published[k, v]))
    require(forall(pool.all(Step), lambda t: lies_clear_of_writes(pool, t, k, pool.buffer.physical[k, v])))
    pool.published[k, v] = True


@variant(take_hole)
def take_hole_queues_no_zeroing(pool: Schedule, k: SubPool, v: Virtual, page: Chosen[Page]) -> None:
    """A page is handed to a tenant of another type with its last tenant's bytes, which read as NaN."""
    perform(bind_hole, pool.buffer, k, v, page)
    pool.version[k] += 1
    pool.to_zero[k, page] = False
    pool.memo_holds[k] = False
    pool.stale.relabel(lambda b: True, where=lambda b: and_(pool.buffer.zeroed[k], is_in_page(pool.buffer, k, page, b)))


TWINS: tuple[Twin, ...] = (
    Twin(
        "sglang#36743",
        "A hit copies a state that the host, layer by layer on its own stream, has half restored.",
        "read",
        read_does_not_await_the_load,
        ("readers_are_promised_what_their_source_leaves",),
    ),
    Twin(
        "sglang#39479",
        "A translation is right when it is made; then compaction moves the page while the copy is under way.",
        "lease_page",
        lease_page_pins_nothing,
        ("a_lease_pins_its_page", "leases_are_counted"),
    ),
    Twin(
        "vllm-ascend#15674",
        "Workers do not report that a store is complete, and temporary references are never dropped.",
        "release_page",
        release_page_keeps_the_pin,
        ("a_release_gives_up_just_its_own_hold", "leases_are_counted"),
    ),
    Twin(
        "vllm-ascend#15674",
        "A path that finds every key already stored never signals completion of the free that it delayed.",
        "end_group",
        end_group_completes_nothing,
        ("an_ended_group_holds_nothing_back",),
    ),
    Twin(
        "sglang#39982 (b)",
        "The memo of schedulable capacity survives a gate that closes, and credits blocked holes.",
        "close_gate",
        close_gate_keeps_the_memo,
        ("a_remembered_credit_is_the_credit",),
    ),
    Twin(
        "sglang#39982 (b)",
        "The memo of schedulable capacity survives a gate that opens, and withholds holes that can be drained.",
        "open_gate",
        open_gate_keeps_the_memo,
        ("a_remembered_credit_is_the_credit",),
    ),
    Twin(
        "sglang#33362",
        "With the gate closed a flush does nothing, but capacity still credits the peer's holes.",
        "ask_capacity",
        ask_capacity_sees_no_gate,
        ("a_remembered_credit_is_the_credit", "an_asked_credit_is_remembered"),
    ),
    Twin(
        "sglang#33362",
        "With the gate closed a flush does nothing, but capacity still credits the peer's holes.",
        "relocate",
        relocate_waits_for_every_gate,
        ("credit_can_be_realised",),
    ),
    Twin(
        "sglang#39294",
        "Two sides of one gap both count it: each has room for its part of a demand, the pair has not.",
        "ask_capacity",
        ask_capacity_counts_the_neighbour,
        ("a_remembered_credit_is_the_credit", "an_asked_credit_is_remembered"),
    ),
    Twin(
        "sglang#39982 (a)",
        "The middle pool's pages are moved while the transfer gate, which the end pools ask, is closed.",
        "relocate",
        relocate_asks_one_gate,
        ("leased_pages_do_not_move", "no_mover_passes_a_lease_or_a_gate"),
    ),
    Twin(
        "sglang#33362 (gate)",
        "A page's address reaches the sender before the request is in the queue at which the gate looks.",
        "relocate",
        relocate_looks_at_the_queue,
        ("leased_pages_do_not_move", "no_mover_passes_a_lease_or_a_gate"),
    ),
    Twin(
        "llama.cpp#12253",
        "From the first defragmentation on, text is garbage. The cause is not in the report; moves that overlap do it.",
        "relocate",
        relocate_overlaps_its_copies,
        ("copies_of_a_step_are_parallel",),
    ),
    Twin(
        "TensorRT-LLM#15546",
        "Page tables are copied asynchronously from one host buffer, which the next step overwrites in place.",
        "begin",
        begin_reuses_the_staging_table,
        ("a_step_keeps_its_snapshot",),
    ),
    Twin(
        "vLLM#53919",
        "Results of one step land in a host buffer that the next step permutes before it awaits the event.",
        "begin",
        begin_permutes_the_rows,
        ("a_step_keeps_its_snapshot",),
    ),
    Twin(
        "sglang#39765",
        "The next batch has captured the table when duplicates that it names are freed.",
        "let_go",
        let_go_leaves_built_steps_their_table,
        ("captured_tables_are_current_or_told_apart", "tables_tell_their_versions"),
    ),
    Twin(
        "sglang#24527",
        "After an abort a page is handed out while the remote writer may still write to it.",
        "take_back",
        take_back_forgets_remote_writers,
        ("pages_touched_from_away_are_kept", "whoever_is_outside_keeps_his_page"),
    ),
    Twin(
        "sglang#28468",
        "Slots are freed in the middle of a copy within one sweep of evictions: copies under way pin nothing.",
        "take_back",
        take_back_forgets_copies_to_the_host,
        ("pages_touched_from_away_are_kept",),
    ),
    Twin(
        "sglang#38961",
        "The deferral of frees is defeated: the time-out path releases pages without the peer's word.",
        "take_back",
        take_back_times_out,
        ("leased_pages_are_kept", "whoever_is_outside_keeps_his_page"),
    ),
    Twin(
        "vllm-ascend#16315",
        "Freed blocks wait behind a fence that only the next batch advances, and there is none.",
        "take_back",
        take_back_needs_a_batch,
        ("pending_pages_drain",),
    ),
    Twin(
        "vLLM#45096",
        "A state block is given to a request that the network fills, while a step in flight still rewrites it.",
        "write_page",
        write_page_trusts_the_stream,
        ("earlier_writers_are_ahead_of_the_last",),
    ),
    Twin(
        "tokenspeed#279",
        "A fence between a write-back and what follows it is gone: here because another one took its place.",
        "wait_for",
        wait_for_remembers_one_event,
        ("readers_are_promised_what_their_source_leaves",),
    ),
    Twin(
        "tokenspeed#279",
        "Without its fence a forward pass overwrites a slot that a write-back in the same plan still reads.",
        "write_page",
        write_page_overtakes_the_write_back,
        ("no_writer_overtakes_a_reader",),
    ),
    Twin(
        "vLLM#56734",
        "An idle rank's dummy batch writes through table rows that still name the pages of former occupants.",
        "write_padding",
        write_padding_through_old_rows,
        ("padding_reaches_the_sink_alone",),
    ),
    Twin(
        "vLLM#45704",
        "A store reads pages that are computed by the host's count and not yet on the device.",
        "publish",
        publish_by_the_host_counter,
        ("what_is_published_is_on_the_device",),
    ),
    Twin(
        "vLLM#53919",
        "Results of one step are read in the order of the next one, and so are put down to other requests.",
        "publish",
        publish_whoever_has_the_id_now,
        ("what_is_published_is_on_the_device",),
    ),
    Twin(
        "tpu-inference#3412",
        "A hit is announced for a slot that was just taken fresh: nothing has restored the state there.",
        "publish",
        publish_without_the_restore,
        ("what_is_published_is_on_the_device",),
    ),
    Twin(
        "vLLM#35219",
        "A page of one type goes to a layer of another type unzeroed, and its old bits read as NaN.",
        "take_hole",
        take_hole_queues_no_zeroing,
        ("a_fresh_hole_is_not_read_before_it_is_zeroed", "zeroed_pages_have_no_stale_byte"),
    ),
)

NOT_EXPRESSED: Mapping[str, str] = {}
