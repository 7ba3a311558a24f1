"""One byte buffer that several sub-pools share: KV pages, window pages, recurrent states, checkpoints.

A chain of sub-pools stands over the bytes: one grows up from the sink, one down from the top, floats lie between.
Everything above the pool holds ids; pages move underneath when a neighbour needs room, and no id changes. What each
operation may do is written down, and proved, in `poolproof.spec.buffer` and `poolproof.spec.schedule`.
"""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING, Any, NoReturn

from poolproof.arguments import Ids, as_ids
from poolproof.holds import Gate, Lease
from poolproof.page_errors import GateError, LeaseError, PoolBusy
from poolproof.page_table import Pages, PageTable
from poolproof.pool_state import unwritable
from poolproof.pool_steps import PoolSteps
from poolproof.sub_pool import SubPool

if TYPE_CHECKING:
    from poolproof.buffer_reports import BufferSnapshot, BufferStats
    from poolproof.guard import Guard
    from poolproof.violation import Violation


class UnifiedPool(PoolSteps):
    """A pool of pages of several sizes over one buffer.

    Every operation is done in full, or refused with an error that leaves the pool as it was. Ids and pages come back as
    fresh int64 arrays. The time of a call does not depend on the size of the buffer, but on the pages that it touches
    (`clear`, `check` and `snapshot` excepted). The thread of the first operation drives the pool.

    Args:
        total_bytes: bytes of the buffer, the sink's included.
        sub_pools: declarations, see `poolproof.sub_pools`: one grows up and, of several, one down; all others float.
        device: a CUDA device, "cpu", or "meta" for all the bookkeeping and no bytes. But for CUDA, torch is needed for
            `buffer`, `views` and `translate` only.
        events: orders the pool's own work with everybody else's; by default a host's, where work is over when done, or
            `CudaStreams(device)`, whose home is the current stream.
        shadow: run the spec in lockstep and raise `SpecViolation` where the pool departs from it. Every operation then
            takes milliseconds: for small buffers, in tests. It has room for 12 steps that are not retired (the oldest
            one that is over retires if need be), and for 12 leases and gates.
        guard: look for writes beyond pages, writes to and reads of freed pages, and pages used after they moved: see
            `poolproof.guard`. Pages are larger by a red zone, and every hand-over writes to them: for debugging.

    Raises:
        LayoutError: the declarations are impossible, or the buffer is too small for them or too large for the device.
    """

    def __getitem__(self, name: str) -> SubPool:
        """The sub-pool of this name, with its `alloc`, `free` and so on."""
        self._at(name)  # there is such a sub-pool
        return self._handles[name]

    # --------------------------------------------------------------------------------------------------- leases, gates

    def lease(self, name: str, ids: Ids, why: str) -> Lease:
        """Pages stay where they are, and keep their bytes, until the release, whatever is freed meanwhile.

        Args:
            name: the sub-pool.
            ids: live ids, none twice.
            why: for messages, such as "rdma".

        Returns:
            The lease, with the pages' numbers.

        Raises:
            InvalidPages: an id is not live, or given twice.
            LeaseError: a step in flight writes one of the pages, or a page waits for its zeroing behind a step that is
                not launched.
        """
        self._enter()
        table, ids = self._at(name), as_ids(ids)
        pages = unwritable(self._check_live("lease", table, ids).copy())
        self._check_unwritten(name, table, ids, pages)
        self._check_shadow("lease")
        if table.zeroed and table.to_zero[pages].any():
            if not self._events.is_immediate or any(step.is_home for step in self._flight):
                raise LeaseError(
                    f"lease: pages of {name!r} wait to be zeroed before the next step at home: begin, launch and "
                    f"complete one first, and what is in flight there. Nothing was changed."
                )
            self._refresh(with_tables=False)
        elif self._guard is not None:
            self._guard_before_lease(self._guard)
        lease = Lease(self, name, pages, why, self._events.mark())
        table.keep(pages)
        self._leases.append(lease)
        self._note("lease_page", lease, table.index, ids)
        self._done("lease")
        return lease

    def _guard_before_lease(self, guard: Guard) -> None:
        """Whoever leases pages may write them from now on: they are poisoned before or not at all."""
        if self._flight.open_home_step is None:
            self._refresh(with_tables=False)
        else:
            guard.postpone()

    def _check_unwritten(self, name: str, table: PageTable, ids: Pages, pages: Pages) -> None:
        written = self._is_written(table, pages)
        if written.any():
            raise LeaseError(
                f"lease: a step in flight writes pages of {name!r}, of ids {ids[written][:8].tolist()}: complete it "
                f"first. Nothing was changed."
            )

    def _check_shadow(self, what: str) -> None:
        if self._journal is not None and self._journal.free_holder() < 0:
            held = len(self._leases) + len(self._gates)
            raise PoolBusy(f"{what}: a pool with a shadow has {held} leases and gates at most. Nothing was changed.")

    def _give_back(self, lease: Lease) -> None:
        if not lease.is_held:
            raise LeaseError(f"{lease!r} was released before. Nothing was changed.")
        lease.is_held = False
        self._given_back.append(lease)  # and no more: it may be called by a signal handler in the midst of an operation

    def gate(self, name: str, why: str) -> Gate:
        """No page of the sub-pool moves until the gate is opened again; every other operation goes on."""
        self._enter()
        self._check_shadow("gate")
        table = self._at(name)
        gate = Gate(self, name, why)
        self._gates.append(gate)
        self._note("close_gate", gate, table.index)
        self._done("gate")
        return gate

    def _open_gate(self, gate: Gate) -> None:
        self._enter()
        if not gate.is_closed:
            raise GateError(f"{gate!r} was opened before. Nothing was changed.")
        gate.is_closed = False
        self._gates.remove(gate)
        self._note("open_gate", gate, self._places[gate.name])
        self._done("open_gate")

    def clear(self) -> None:
        """Back to a new pool: every id dies; no byte is touched.

        Raises:
            PoolBusy: steps are in flight, leases held, gates closed, or a group of frees is open.
        """
        self._enter()
        busy = [repr(step) for step in self._flight]
        busy += [repr(lease) for lease in self._leases] + [repr(gate) for gate in self._gates]
        busy += ["a group of frees"] if self._group is not None else []
        if busy:
            own = any(step.own for step in self._flight)
            remedy = " The pool's own steps end with the next step at home that completes." if own else ""
            raise PoolBusy(
                f"clear: {len(busy)} in the way: {', '.join(busy[:8])}; end them first.{remedy} Nothing was changed."
            )
        if self._guard is not None:
            self._run(None, self._guard.wipe())
        for table in self._tables:
            table.clear()
        self._note("clear")
        self._done("clear")

    # --------------------------------------------------------------------------------------------------------- queries

    @property
    def buffer(self) -> Any:
        """[total_bytes], uint8: the one torch tensor under everything."""
        return self._bytes.tensor

    def views(self, name: str) -> Any:
        """The sub-pool's tensors, as strided views of the buffer that never change: see `poolproof.page_views`."""
        from poolproof.page_views import views

        return views(self.buffer, self.layouts[self._at(name).index])

    def _look(self) -> None:
        """A look at the pool, from any thread: on its own, with what was released since."""
        if self._thread == get_ident():
            self._take_in()

    def stats(self) -> BufferStats:
        """The pool in figures; its time depends on the number of sub-pools, leases and gates alone."""
        self._look()
        from poolproof.buffer_reports import buffer_stats

        return buffer_stats(self)

    def snapshot(self) -> BufferSnapshot:
        """The whole state, bytes excepted, in plain ints."""
        self._look()
        from poolproof.buffer_reports import buffer_snapshot

        return buffer_snapshot(self)

    def check(self) -> list[Violation]:
        """Every claim of the spec's invariants, tested against the stored tables; [] means healthy.

        With `guard`, what is wrong with red zones, poison and tags too, which waits for the device.
        """
        self._look()
        from poolproof.buffer_check import check_buffer

        found = check_buffer(self)
        if self._guard is not None:
            self._events.join()
            found += self._guard.check()
        return found

    def __reduce__(self) -> NoReturn:
        """A pool is not copied or pickled: its pages would have two owners."""
        raise TypeError("a UnifiedPool cannot be copied or pickled; make a new one")
