"""A checkpoint pool beside what the oracle says: who has what after each operation, now and then all bytes."""

from __future__ import annotations

from typing import Any

from poolproof.fuzz.cache_comparison import Departure
from poolproof.fuzz.cache_world import World
from poolproof.fuzz.checkpoint_engine import CheckpointEngine
from poolproof.fuzz.checkpoint_oracle import CheckpointOracle, Gift, Hold


class CheckpointComparison:
    """A checkpoint pool and the oracle.

    Args:
        world: the pool, those below it and their bytes.
        oracle: what must be.
        engine: knows what must be where.
        gifts, holds: donations and locks that were ever made and are still looked at, ended ones too.
    """

    def __init__(
        self, world: World, oracle: CheckpointOracle, engine: CheckpointEngine, gifts: list[Gift], holds: list[Hold]
    ) -> None:
        self._world, self._oracle, self._engine = world, oracle, engine
        self._gifts, self._holds = gifts, holds

    def compare(self, operation: str, with_pools: bool) -> None:
        """Raises Departure where what the pool tells is not what the oracle knows, or its check finds something.

        Args:
            operation: which has just been done.
            with_pools: whether the pools below are checked too, which takes most of the time.
        """
        pool, oracle = self._world.states, self._oracle
        ours, theirs = pool.snapshot(), oracle.snapshot()
        for field in theirs._fields:
            self._same(operation, field, getattr(ours, field), getattr(theirs, field))
        self._compare_queries(operation)
        for gift in self._gifts:
            told = (gift.handle.phase.value, gift.handle.is_in_flight, gift.handle.checkpoint, gift.handle.length)
            known = (gift.phase, gift.in_flight, gift.kept.slot, gift.length)
            self._same(operation, f"{gift.handle!r}", told, known)
        for hold in self._holds:
            told_lock = (hold.handle.is_held, hold.handle.number, hold.handle.node, hold.handle.scope)
            self._same(operation, f"{hold.handle!r}", told_lock, (hold.is_held, hold.number, hold.node, hold.scope))
        found = pool.check() if with_pools else [*pool.check_states(), *pool.check_checkpoints()]
        if found:
            raise Departure(f"{operation}: check: {'; '.join(map(str, found[:4]))}")

    def _compare_queries(self, operation: str) -> None:
        pool, oracle = self._world.states, self._oracle
        for number, asker in oracle.requests.items():
            own = asker.own
            told = (pool.slot_of(number), None if own is None else pool.position(number))
            self._same(operation, f"request {number}", told, (None, None) if own is None else (own.slot, own.position))
        for number, node in oracle.nodes.items():
            queries = (pool.checkpoint_of(number), pool.pins(number, "pages"), pool.pins(number, "state"))
            kept = None if node.kept is None else node.kept.slot
            pins = oracle.pins(number, "pages"), oracle.pins(number, "state")
            self._same(operation, f"node {number}", queries, (kept, *pins))
        self._same(operation, "in_flight", pool.in_flight(), tuple(gift.handle for gift in oracle.flying))
        stats, figures = pool.stats(), oracle.figures()
        self._same(operation, "figures", {name: getattr(stats, name) for name in figures}, figures)

    @staticmethod
    def _same(operation: str, what: str, ours: Any, theirs: Any) -> None:
        if ours != theirs:
            raise Departure(f"{operation}: {what}: the pool has {ours}, the oracle {theirs}")

    # ------------------------------------------------------------------------------------------------------ the bytes

    def expect_bytes(self) -> None:
        """Look at every slot whose bytes are known. The device was drained.

        A slot that is zeroed when it is handed out need not be before somebody reads it.
        """
        states, checkpoints = self._world.states.states, self._world.states.checkpoints
        for whose, active in self._oracle.all_actives():
            if active.state is not None and active.state is not self._oracle.zeros:
                page = int(states.physical(active.slot)[0])
                self._engine.expect_state(page, active.state, f"active slot {active.slot}, {whose}")
        for whose, kept in self._oracle.all_kept():
            page = int(checkpoints.physical(kept.slot)[0])
            self._engine.expect_kept(page, kept, f"checkpoint slot {kept.slot}, {whose}")

    # ------------------------------------------------------------------------------------------------------ snapshots

    def whole(self) -> tuple[Any, ...]:
        """Everything that decides what happens next, but for bytes."""
        return ([pool.snapshot() for pool in self._world.pools], self.logical())

    def logical(self) -> tuple[Any, ...]:
        """Who owns what: what a call leaves as it was that is begun, and fails in the midst of it."""
        bound = [int(table.bound) for pool in self._world.pools for table in pool._tables]
        states = self._world.states
        live = [sub_pool._table.physical > 0 for sub_pool in (states.states, states.checkpoints)]
        return (bound, [one.nonzero()[0].tolist() for one in live], states.snapshot())
