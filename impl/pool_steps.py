"""Steps of a unified pool: what work in flight touches, and what it must come behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from poolproof.arguments import Ids, as_ids
from poolproof.page_errors import StepError
from poolproof.page_table import FILLED, NOTHING, PUBLISHED, Pages, PageTable, distinct
from poolproof.pool_pages import PoolPages
from poolproof.pool_state import unwritable
from poolproof.steps import HOME, Copied, Phase, Step

if TYPE_CHECKING:
    from poolproof.guard import Guard
    from poolproof.unified_pool import UnifiedPool


def _by_name(what: str, given: Mapping[str, Ids] | None) -> Mapping[str, Ids]:
    """What was given, which must be a mapping."""
    if given is not None and not isinstance(given, Mapping):
        raise TypeError(f"{what} is a mapping such as {{'full': ids}}, not {given!r}"[:200])
    return given or {}


def _check_stream(stream: Any) -> None:
    """Raises TypeError for what cannot be told apart from other streams."""
    try:
        same = bool(stream == stream)
    except Exception as error:
        raise TypeError(f"stream {stream!r} cannot be compared: {error}") from error
    if not same:
        raise TypeError(f"stream {stream!r} is not equal to itself")


class PoolSteps(PoolPages):
    """Steps begin, are launched and end. See `UnifiedPool`."""

    def begin_step(
        self,
        reads: Mapping[str, Ids] | None = None,
        writes: Mapping[str, Ids] | None = None,
        stream: Any = HOME,
        after: Sequence[Step] = (),
    ) -> Step:
        """A piece of device work begins: its ids are resolved to pages, which stay the ids' own until it is over.

        The step waits, on its stream, for every step in flight that it must come behind; a step away from home comes
        behind all steps at home.

        Args:
            reads: ids by sub-pool whose pages it reads: filled, or zeroed when handed out.
            writes: ids by sub-pool whose pages it writes; with this the pages count as filled.
            stream: None for home; any other value that can be compared, a torch stream among them.
            after: further steps that it waits for, which are launched.

        Returns:
            The step, open: `launched` it once the work is on the stream.

        Raises:
            InvalidPages: an id is not live, or listed twice in one mapping.
            StepError: a page that is read holds nothing yet, or a step that must come before is not launched.
            WrongThread, KeyError, TypeError: as elsewhere.
        """
        self._enter()
        after = tuple(after)
        if any(not isinstance(step, Step) or step._pool is not self for step in after):
            raise StepError(f"begin_step: after = {list(after)!r} are not all steps of this pool. Nothing was changed.")
        _check_stream(stream)
        stream = self._events.place(stream)
        read = {name: self._step_ids("reads", name, ids) for name, ids in _by_name("reads", reads).items()}
        written = {name: self._step_ids("writes", name, ids) for name, ids in _by_name("writes", writes).items()}
        for name, ids in read.items():
            self._check_filled(name, ids)
        if self._has_queue():
            self._check_no_open_step("zero pages that were handed out")
        waits = self._to_wait_for(stream, read, written, after)
        self._wait_for_readers_of_tables()
        self._refresh()
        if stream is not HOME:
            waits |= {step for step in self._flight if step.is_home}
        return self._begin(stream, read, written, waits)

    def _begin(self, stream: Any, read: dict[str, Pages], written: dict[str, Pages], waits: set[Step]) -> Step:
        step = Step(cast("UnifiedPool", self), self._begun, stream, self._time + 1)
        self._events.begun(step)
        ordered = sorted(waits, key=lambda other: other.number)
        for other in ordered:  # before anything changes: a device may fail here
            self._events.wait(stream, other)
        self._time += 1
        self._begun += 1
        self._flight.steps.append(step)
        self._note("begin", step)
        for other in ordered:
            step.waits.add(other)
            self._note("wait_for", step, other)
        step.ids = [(name, ids) for given in (read, written) for name, ids in given.items()]
        step.reads = {name: unwritable(self._at(name).physical[ids]) for name, ids in read.items()}
        step.writes = {name: unwritable(self._at(name).physical[ids]) for name, ids in written.items()}
        for name, ids in read.items():
            self._note("read", step, self._places[name], ids)
        for name, ids in written.items():
            self._at(name).flags[ids] |= FILLED
            self._note("write_page", step, self._places[name], ids)
        if not step.is_home:
            self._hold_for(step)
        self._done("begin_step")
        return step

    def _copy_one(
        self, source: PageTable, read: int, other: PoolSteps, target: PageTable, written: int
    ) -> tuple[int, int] | None:
        """The pages of a copy at home from an id to one of the same or another pool, which is over with the call.

        As a step of each pool's own at home, which such pools end at once but for what is in flight before it: no step
        is open, or on another stream; no page of the two sub-pools waits to be zeroed; neither shadow nor guard looks
        on. Else None, and no change. The caller has entered the pools.
        """
        is_plain = self._is_plain() and (other is self or other._is_plain())
        if not is_plain or source.waiting or target.waiting or not (0 < read < source.ids and 0 < written < target.ids):
            return None
        page, onto = source.physical.item(read), target.physical.item(written)
        if page < 0 or onto < 0 or not self._is_filled(source, read):
            return None
        target.flags[written] = target.flags.item(written) | FILLED
        if other._flight.steps:
            other._copied.append(Copied(other.layouts[target.index].name, onto, other._begun))
        self._has_copied()
        if other is not self:
            other._has_copied()
        return page, onto

    def _is_plain(self) -> bool:
        """Is a copy at home begun and over without anything else to be done?"""
        if self._journal is not None or self._guard is not None or not self._events.is_immediate:
            return False
        steps = self._flight.steps
        return not steps or all(step.stream is HOME and step.phase is not Phase.OPEN for step in steps)

    def _has_copied(self) -> None:
        """A step has begun and is over."""
        self._time += 1
        self._begun += 1
        self._epoch += 1

    def _hold_for(self, step: Step) -> None:
        """What a step away from home touches is kept until it is over."""
        for name in dict.fromkeys([*step.reads, *step.writes]):  # in the same order on every rank
            pages = distinct(np.concatenate([step.reads.get(name, NOTHING), step.writes.get(name, NOTHING)]))
            step.touched[name] = pages
            self._at(name).keep(pages)

    def _step_ids(self, what: str, name: str, ids: Ids) -> Pages:
        checked = as_ids(ids).copy()
        self._check_live(f"begin_step({what})", self._at(name), checked)
        return checked

    @staticmethod
    def _is_filled(table: PageTable, v: int) -> bool:
        """Can the page of an id be read?"""
        return table.zeroed or bool(table.flags.item(v) & FILLED)

    def _check_filled(self, name: str, ids: Pages) -> None:
        table = self._at(name)
        if table.zeroed or not len(ids):
            return
        empty = ids[table.flags[ids] & FILLED == 0]
        if len(empty):
            raise StepError(
                f"begin_step: {len(empty)} pages of {name!r} are read that nobody has written, of ids "
                f"{empty[:8].tolist()}: write them first, or declare zero='on_handout'. Nothing was changed."
            )

    def _check_no_open_step(self, what: str) -> None:
        step = self._flight.open_home_step
        if step is not None:
            raise StepError(f"{step!r} is not launched, and before that the pool cannot {what}. Nothing was changed.")

    def _to_wait_for(
        self, stream: Any, read: dict[str, Pages], written: dict[str, Pages], after: Sequence[Step]
    ) -> set[Step]:
        """The steps on other streams that must be over first; all of them are launched."""
        waits = {step for step in after if step.is_in_flight}
        for step in self._flight:
            if step.stream == stream:
                continue
            if (step.is_home and stream is not HOME) or self._conflicts(step, read, written):
                waits.add(step)
        for step in sorted(waits, key=lambda step: step.number):
            if step.phase is Phase.OPEN:
                raise StepError(f"begin_step must wait for {step!r}: launch that first. Nothing was changed.")
        return waits

    def _wait_for_readers_of_tables(self) -> None:
        """A step may translate its ids on the device until it is over: entries of theirs stay so long.

        They change where an id was freed meanwhile. What is launched at home comes before anyway.
        """
        if not self._bytes.is_behind():
            return
        late = [step for step in self._flight if step.phase is Phase.OPEN or not step.is_home]
        changed = self._bytes.behind() if late else {}
        readers = [step for step in late if self._reads_entries(step, changed)]
        for step in readers:
            if step.phase is Phase.OPEN:
                raise StepError(
                    f"{step!r} is not launched, and ids of it were freed: launch it before the next step begins. "
                    f"Nothing was changed."
                )
        for step in readers:
            self._events.wait(HOME, step)

    def _reads_entries(self, step: Step, changed: Mapping[int, Pages]) -> bool:
        """Has the step ids among these, which are given by sub-pool?"""
        return any(
            bool(np.isin(changed[self._places[name]], ids).any())
            for name, ids in step.ids
            if self._places[name] in changed
        )

    def _conflicts(self, step: Step, read: dict[str, Pages], written: dict[str, Pages]) -> bool:
        """Does the step write what is to be read or written, or read what is to be written?"""
        for mine, names in ((step.writes, read), (step.writes, written), (step.reads, written)):
            for name, ids in names.items():
                if name in mine and np.isin(self._at(name).physical[ids], mine[name]).any():
                    return True
        return False

    def _launch(self, step: Step) -> None:
        self._enter()
        self._flight.check_launch(step)
        self._events.launched(step)
        step.phase = Phase.LAUNCHED
        self._note("launch", step)
        self._done("launched")

    def _complete(self, step: Step) -> None:
        self._enter()
        if step.phase is not Phase.LAUNCHED:
            raise StepError(f"{step!r} is not launched, or over already. Nothing was changed.")
        ahead = self._flight.check_first(step)
        self._events.completed(step)
        for own in ahead:
            self._end_own(own)
        self._end(step)
        self._complete_own()
        self._done("complete")

    def _retire(self, step: Step) -> None:
        self._enter()
        if step.phase is not Phase.OVER:
            raise StepError(f"{step!r} is in flight, or was retired before. Nothing was changed.")
        self._end_results(step)
        self._done("retire")

    def _same(self, step: Step, name: str, ids: Ids) -> NDArray[np.bool_]:
        table, ids = self._at(name), as_ids(ids)
        live: NDArray[np.bool_] = table.physical.take(ids, mode="clip") > 0
        live &= (ids > 0) & (ids < table.ids)
        live[live] = table.born[ids[live]] < step.began
        return live

    def _publish(self, step: Step, name: str, ids: Ids) -> None:
        self._enter()
        table, ids = self._at(name), as_ids(ids)
        if step.phase is not Phase.OVER:
            raise StepError(f"publish: {step!r} is not over, or is retired. Nothing was changed.")
        pages = self._check_live("publish", table, ids)
        for bad, why in (
            (~self._same(step, name, ids), "are not the ones that the step saw"),
            (table.flags[ids] & FILLED == 0, "lead to pages that nobody has written"),
            (table.flags[ids] & PUBLISHED != 0, "are published already"),
            (self._is_written(table, pages), "lead to pages that a step in flight writes"),
        ):
            if bad.any():
                raise StepError(f"publish: ids {ids[bad][:8].tolist()} of {name!r} {why}. Nothing was changed.")
        table.flags[ids] |= PUBLISHED
        self._note("publish", step, table.index, ids)
        self._done("publish")

    def _translate(self, table: PageTable, tokens: Any, out: Any, ranks: int, rank: int | None) -> Any:
        if not (self._flight.is_any_open or self._events.is_capturing()):
            if self._bytes.is_behind():
                self._enter()
                self._wait_for_readers_of_tables()
                self._tell_tables()
            self._events.join()
        size = self.layouts[table.index].page_size
        return self._bytes.translate(table, tokens, size, out, ranks, rank)

    def _verify(
        self, guard: Guard, table: PageTable, tokens: Any, physical: Any, ranks: int, step: Step | None
    ) -> None:
        is_capturing = self._events.is_capturing()
        if not (self._flight.is_any_open or is_capturing):
            if guard.is_behind():
                self._enter()
                self._refresh(with_tables=False)
            self._events.join()
        guard.verify(table, tokens, physical, self.layouts[table.index].page_size, ranks, step, is_capturing)

    def _is_written(self, table: PageTable, pages: Pages) -> NDArray[np.bool_]:
        """Which pages have a byte that a step in flight writes, through whatever sub-pool."""
        found = np.zeros(len(pages), np.bool_)
        first, size = pages * table.page_bytes, table.page_bytes
        writes = [pair for step in self._flight for pair in step.writes.items()]
        writes += [(copied.name, np.array([copied.page])) for copied in self._copied]
        for name, written in writes:
            other = self._at(name).page_bytes
            # The written page that begins last before the end of a page is the only one that can reach into it.
            begins = np.sort(written) * other
            at = np.searchsorted(begins, first + size)
            reaches = np.concatenate([[-1], begins + other])[at]
            found |= reaches > first
        return found
