"""What an engine does beside a checkpoint pool: steps over states and checkpoints, and copies that are in flight.

A step reads the state that a slot has, and leaves another one; or it only looks. Every read is compared with what the
oracle says, whenever the device comes to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from poolproof.fuzz.cache_comparison import Departure
from poolproof.fuzz.cache_engine import Engine, Work
from poolproof.fuzz.cache_states import State, StateModel, raw
from poolproof.fuzz.cache_world import World
from poolproof.fuzz.checkpoint_oracle import Active, Kept
from poolproof.page_table import Pages
from poolproof.steps import Step
from poolproof.sub_pool import SubPool


@dataclass
class StateWork(Work):
    """A step on a slot.

    Attributes:
        active: the slot that it writes, and whose state is `state` once it is launched; None where it only looks.
    """

    active: Active | None = None


@dataclass(eq=False)
class Flying:
    """Copies in flight on another stream.

    Attributes:
        what: in words.
        steps: one in each pool.
        complete: the call that ends them.
        ended: what to note then.
    """

    what: str
    steps: tuple[Step, ...]
    complete: Callable[[], None]
    ended: Callable[[], None]


class CheckpointEngine(Engine):
    """Steps over the states and checkpoints of a world, and copies between them.

    Args:
        world: where they run; it has no cache.
        model: what states are.

    Attributes:
        copies: those in flight.
    """

    def __init__(self, world: World, model: StateModel) -> None:
        super().__init__(world, model)
        self.copies: list[Flying] = []

    @property
    def _states(self) -> SubPool:
        return self._world.states.states

    @property
    def _checkpoints(self) -> SubPool:
        return self._world.states.checkpoints

    # ---------------------------------------------------------------------------------------------------------- steps

    def expect_kept(self, page: int, kept: Kept, what: str) -> None:
        """A physical checkpoint slot holds a checkpoint."""
        if kept.stored is not None:
            name, runs, data = self._checkpoints.name, self._world.runs("checkpoint"), raw(kept.stored.parts)
            self._world.memory.expect(self._checkpoints._pool, name, page, runs, data, what)

    def step(self, active: Active, serial: int, stream: Any) -> bool:
        """A step begins that reads a slot's state and leaves another one. False: it must wait for others."""
        pool, name, old = self._states._pool, self._states.name, active.state
        new = self._model.step(old, [serial])
        work = StateWork(active=active, state=new)
        reads = {} if old is None else {(pool, name): active.slot}
        if not self._begin(work, reads, {(pool, name): active.slot}, stream):
            return False
        active.is_filled = True
        (step, kernels) = work.steps[0]
        if old is not None:
            kernels.append(self._state_reader(step, old, f"a step reads active slot {active.slot}"))
        page, data, runs = int(step.writes[name][0]), raw(new), self._world.runs("state")
        kernels.append(lambda: self._world.memory.write(pool, name, page, runs, data))
        return True

    def look_at(self, active: Active | None, kept: Kept | None, stream: Any) -> bool:
        """A step begins that compares what is in slots. False: it must wait for others."""
        work, reads = StateWork(), dict[Any, Any]()
        if active is not None:
            reads[self._states._pool, self._states.name] = [active.slot]
        if kept is not None:
            reads[self._checkpoints._pool, self._checkpoints.name] = [kept.slot]
        if not self._begin(work, reads, {}, stream):
            return False
        for step, kernels in work.steps:
            if active is not None and active.state is not None and self._states.name in step.reads:
                kernels.append(self._state_reader(step, active.state, f"a look at active slot {active.slot}"))
            if kept is not None and self._checkpoints.name in step.reads:
                kernels.append(self._kept_reader(step, Kept(kept.slot, kept.stored)))
        return True

    def _state_reader(self, step: Step, state: State, what: str) -> Callable[[], None]:
        page = int(step.reads[self._states.name][0])
        return lambda: self.expect_state(page, state, what)

    def _kept_reader(self, step: Step, kept: Kept) -> Callable[[], None]:
        page = int(step.reads[self._checkpoints.name][0])
        return lambda: self.expect_kept(page, kept, f"a look at checkpoint slot {kept.slot}")

    def launch(self, work: Work) -> Work:
        """See `Engine`; what it writes is known from now on."""
        work = super().launch(work)
        if isinstance(work, StateWork) and work.active is not None:
            work.active.state = work.state
        return work

    def is_stepped(self, active: Active | None) -> bool:
        """Is a step begun that writes this slot, and not launched?"""
        return any(isinstance(work, StateWork) and work.active is active for work in self.opened)

    def must_wait(
        self, stream: Any, reads: Sequence[tuple[SubPool, Any]], writes: Sequence[tuple[SubPool, Any]]
    ) -> bool:
        """Is a step open that a copy on this stream must come behind?

        Args:
            stream: of the copy.
            reads, writes: ids by sub-pool.
        """
        read, written = ([(one, one.physical(ids)) for one, ids in each] for each in (reads, writes))
        pools = (self._states._pool, self._checkpoints._pool)
        opened = [step for work in self.opened for step, _ in work.steps if step._pool in pools]
        return any(step.stream is None or step.stream == stream or _conflict(step, read, written) for step in opened)

    # -------------------------------------------------------------------------------------------------------- the end

    def before(self, step: Step) -> Step | None:
        """A step in flight that the device completes before this one, steps of the pool's own between them or not."""
        found, later = None, [step]
        for other in reversed(step._pool._flight.steps):
            if any(other.is_before(one) for one in later):
                if other.own:
                    later.append(other)
                else:
                    found = other
        return found

    def is_blocked(self, steps: Sequence[Step]) -> bool:
        """Does one of these come after a step in flight?"""
        return any(self.before(step) is not None for step in steps)

    def complete(self, step: Step) -> Step:
        """Complete a step or a copy, or what comes before it; what was completed."""
        copy = next((copy for copy in self.copies if step in copy.steps), None)
        for one in (step,) if copy is None else copy.steps:
            before = self.before(one)
            if before is not None:
                return self.complete(before)
        if copy is not None:
            self.copies.remove(copy)
            copy.complete()
            copy.ended()
        elif step in self.flying:
            self.flying.remove(step)
            step.complete()
            step.retire()
        else:
            raise Departure(f"{step!r} is in flight, and nobody can complete it")
        return step

    def complete_all(self) -> None:
        """See `Engine`; copies too."""
        while self.copies:
            self.complete(self.copies[0].steps[0])
        while self.flying:
            self.complete(self.flying[0])
        super().complete_all()


def _conflict(step: Step, read: list[tuple[SubPool, Pages]], written: list[tuple[SubPool, Pages]]) -> bool:
    """Does a step write what is to be read or written, or read what is to be written?"""
    pairs = [(step.writes, read), (step.writes, written), (step.reads, written)]
    return any(
        one._pool is step._pool and set(pages.tolist()) & set(touched[one.name].tolist())
        for touched, asked in pairs
        for one, pages in asked
        if one.name in touched
    )
