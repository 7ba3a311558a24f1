"""Random use of a checkpoint pool on a device that works when it pleases, beside an oracle that knows every byte.

Every public call is made, in any order, allowed or not: the oracle says which of the two, and what must come of it (see
`poolproof.fuzz.checkpoint_oracle`). What is refused must leave everything as it was, also where a copy fails in the
midst of it. The specs run in lockstep in some rounds, and in others they do not.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import Any, Final, TypeVar

import numpy as np

from poolproof.checkpoint_bytes import Copy
from poolproof.checkpoint_errors import LockError
from poolproof.checkpoint_owners import Scope, Source
from poolproof.errors import PoolExhausted
from poolproof.fuzz.cache_comparison import Departure
from poolproof.fuzz.cache_layouts import CacheLayout
from poolproof.fuzz.cache_outsiders import Outsiders
from poolproof.fuzz.cache_states import StateModel
from poolproof.fuzz.cache_streams import InjectedFault
from poolproof.fuzz.cache_world import STEPS, Make, World
from poolproof.fuzz.checkpoint_comparison import CheckpointComparison
from poolproof.fuzz.checkpoint_engine import CheckpointEngine, Flying
from poolproof.fuzz.checkpoint_faults import fail_away_too
from poolproof.fuzz.checkpoint_misuse import misuses
from poolproof.fuzz.checkpoint_oracle import NO, YES, Active, Asker, CheckpointOracle, Gift, Hold, Kept, Reasons, Spot
from poolproof.fuzz.round_play import RoundPlay
from poolproof.page_errors import BufferExhausted, StepError
from poolproof.sub_pool import SubPool

MOST: Final = 6
"""Requests, nodes and slots of others at a time, about."""

_BELOW: Final = 5
"""Operations between two times that the pools below are checked too."""

_REMEMBERED: Final = 12
"""Donations and locks that are still used after they have ended."""

_WEIGHTS: Final = {
    "enqueue": 9,
    "admit": 7,
    "hit": 16,
    "start": 16,
    "advance": 3,
    "compute": 20,
    "launch": 14,
    "complete": 12,
    "add_tracks": 5,
    "track": 9,
    "give_back": 2,
    "retract": 2,
    "finish": 3,
    "donate": 18,
    "publish": 12,
    "drop": 4,
    "add_node": 2,
    "remove_node": 2,
    "lock": 6,
    "release": 5,
    "evict": 4,
    "clear": 0.25,
    "clear_below": 0.1,
    "look": 6,
    "take": 6,
    "give_away": 3,
    "store": 8,
    "load": 10,
    "neighbour": 3,
    "others": 5,
    "misuse": 2,
    "time": 4,
}
_ALWAYS: Final = ("enqueue", "admit", "hit", "start", "compute", "launch", "complete", "donate", "publish", "finish")
_OUTSIDE: Final = {
    "lease": 2,
    "release": 2,
    "gate": 1,
    "open_gate": 3,
    "group": 1,
    "end_group": 3,
    "take": 1,
    "give_back": 2,
    "compact": 3,
}
_FAULTS: Final = 0.1
_LEGAL: Final = 0.9
"""How often a call is made that is allowed, where one is."""

_ILLEGAL: Final = 0.08
"""How often another one is made else."""

_NUMBERS: Final = 1 << 40

One = TypeVar("One")
Slot = TypeVar("Slot", Active, Kept)


class CheckpointDriver(RoundPlay):
    """One checkpoint pool and its use.

    Args:
        seed: of everything that is drawn; each operation draws from it and its own number, so that leaving one out
            changes the others as little as can be.
        layout: what the pool stands on.
        make: the classes under test.
        device: "host", "tensor" or "cuda".

    Attributes:
        checked: operations done or refused, and compared.
        at: the number of the operation under way.
        counts: operations by name and outcome.
        history: every operation as text, where it is a list; None by default.
    """

    def __init__(self, seed: str, layout: CacheLayout, make: Make, device: str) -> None:
        self.seed, self.draw, self.layout = seed, random.Random(seed), layout
        is_shared, has_shadow = self.draw.random() < 0.6, self.draw.random() < 0.6
        make = replace(make, has_shadow=make.has_shadow and has_shadow)
        self.world = World(layout, self.draw, make, device, is_shared)
        self.pool = self.world.states
        self.pool.clear()  # the first call says which thread drives the pools
        fail_away_too(self.world.streams)
        model = StateModel(layout.states, layout.codec)
        zeros = None
        if layout.states.zero == "on_handout":
            zeros = tuple(np.zeros_like(part) for part in model.step(None, [0]))
        self.oracle = CheckpointOracle(model, zeros)
        self.engine = CheckpointEngine(self.world, model)
        self.outsiders = Outsiders(self.world, self.draw)
        self._gifts: list[Gift] = []
        self._holds: list[Hold] = []
        self._pages: list[int] = []
        self.comparison = CheckpointComparison(self.world, self.oracle, self.engine, self._gifts, self._holds)
        self._may_wait = device != "host"
        self.checked = self.at = 0
        self.counts: Counter[str] = Counter()
        self.history: list[str] | None = None
        self._detail = ""
        weights = {name: weight * self.draw.choice((1, 1, 2, 4, 0)) for name, weight in _WEIGHTS.items()}
        self._weights = weights | {name: max(weights[name], _WEIGHTS[name]) for name in _ALWAYS}

    # ------------------------------------------------------------------------------------------------------ comparing

    def _settle(self, everything: bool) -> None:
        """The device gets on; what is wrong ends the run; where many steps are in flight, all end."""
        self.world.streams.pass_time(3)
        if max(len(pool._flight.steps) for pool in self.world.pools) > STEPS - 16:
            self._finish_steps()
        self.comparison.compare(self._detail, everything or self.at % _BELOW == 0)
        if everything:
            self.check_bytes()
        self._raise_wrong()

    def check_bytes(self) -> None:
        """All bytes that are known, once the device has done what it was given."""
        self.world.streams.drain()
        self.comparison.expect_bytes()
        self.outsiders.check()
        self.world.memory.settle()
        self._raise_wrong()

    def _call(self, reasons: Reasons, call: Callable[[], Any], copies: bool = False) -> tuple[str, Any]:
        """What came of a call, "done", "refused", "full", "waits" or "fault", and what it returned.

        Args:
            reasons: why it must be refused.
            call: what is called.
            copies: whether it copies slots, so that a copy may fail.
        """
        whole, logical = self.comparison.whole(), self.comparison.logical()
        more: Reasons = (StepError,) if copies and self._may_wait and self.engine.opened else ()
        self.world.streams.is_armed = copies and self.draw.random() < _FAULTS
        try:
            value = call()
        except Exception as error:
            self.world.streams.disarm()
            is_fault = copies and not reasons and type(error) is InjectedFault
            if not is_fault and type(error) not in reasons + more:
                raise
            is_same = whole == self.comparison.whole() or isinstance(error, InjectedFault | StepError)
            if not is_same or logical != self.comparison.logical():
                raise Departure(f"{self._detail}: it was refused ({error}), and something has changed") from error
            return _outcome(error), None
        self.world.streams.disarm()
        if reasons:
            raise Departure(f"{self._detail}: it was not refused, as {[one.__name__ for one in reasons]}")
        return "done", value

    def _finish_steps(self) -> None:
        """Launch and complete everything."""
        while self.engine.opened:
            self.engine.launch(self.engine.opened[0])
        self.engine.complete_all()

    def _waits(
        self, stream: Any, reads: Iterable[tuple[SubPool, Any]] = (), writes: Iterable[tuple[SubPool, Any]] = ()
    ) -> Reasons:
        """Why a copy on this stream must be refused: an open step, for which it would have to wait."""
        return (StepError,) if self.engine.must_wait(stream, list(reads), list(writes)) else ()

    def _full(self, sub_pool: SubPool, n: int = 1) -> Reasons:
        """Why slots cannot be had."""
        return (BufferExhausted,) if sub_pool.capacity() < n else ()

    # -------------------------------------------------------------------------------------------------------- choices

    def _stream(self) -> Any:
        return self.draw.choice(self.world.streams.streams)

    def _pick(self, found: Iterable[One], fits: Callable[[One], Any]) -> One | None:
        """One that fits, mostly; any now and then, or where none fits."""
        every = list(found)
        fitting = [one for one in every if fits(one)]
        if fitting and self.draw.random() < _LEGAL:
            return self.draw.choice(fitting)
        is_made = every and (fitting or self.draw.random() < _ILLEGAL)
        return self.draw.choice(every) if is_made else None

    def _request(self, fits: Callable[[Asker], Any]) -> int | None:
        """The number of a request, one that fits mostly; now and then of none."""
        if self.draw.random() < 0.01:
            return self.draw.randrange(_NUMBERS)
        found = self._pick(self.oracle.requests.values(), fits)
        return None if found is None else self._number(found.number)

    def _node(self, fits: Callable[[Spot], Any]) -> int | None:
        """The same of a node."""
        if self.draw.random() < 0.01:
            return self.draw.randrange(_NUMBERS)
        found = self._pick(self.oracle.nodes.values(), fits)
        return None if found is None else self._number(found.number)

    def _number(self, number: int) -> int:
        """A number, now and then as numpy has it."""
        return number if self.draw.random() < 0.95 else np.int64(number)  # type: ignore[return-value]

    def _new_number(self, taken: Collection[int]) -> int:
        """A small number or a large one, now and then one that is taken."""
        if taken and self.draw.random() > 0.95:
            return self.draw.choice(list(taken))
        return self.draw.choice([self.draw.randrange(40), self.draw.randrange(_NUMBERS)])

    # ----------------------------------------------------------------------------------------------- requests and slots

    def _enqueue(self) -> str | None:
        if len(self.oracle.requests) >= MOST:
            return None
        number = self._new_number(self.oracle.requests)
        self._detail = f"enqueue({number})"
        outcome, _ = self._call(NO if number in self.oracle.requests else YES, lambda: self.pool.enqueue(number))
        if outcome == "done":
            self.oracle.requests[number] = Asker(number)
        return outcome

    def _admit(self) -> str | None:
        number = self._request(lambda asker: asker.is_waiting)
        if number is None:
            return None
        self._detail = f"admit({number})"
        reasons = self.oracle.reasons_admit(number) + self._full(self.pool.states)
        outcome, slot = self._call(reasons, lambda: self.pool.admit(number))
        if outcome == "done":
            self.oracle.requests[number].own = self.oracle.new_active(slot)
        return self._make_way(outcome, self._finish)

    def _hit(self) -> str | None:
        number = self._request(lambda asker: asker.is_waiting)
        node = self._node(lambda spot: spot.kept is not None)
        if number is None or node is None:
            return None
        asker, spot = self.oracle.requests.get(number), self.oracle.nodes.get(node)
        if asker is not None and spot is not None and self.draw.random() < _LEGAL and not asker.state_hold(node):
            self._lock_one(asker.number, spot.number, "state")
        self._detail = f"hit({number}, {node})"
        reads = [] if spot is None or spot.kept is None else [(self.pool.checkpoints, spot.kept.slot)]
        reasons = self.oracle.reasons_hit(number, node) + self._waits(None, reads) + self._full(self.pool.states)
        outcome, slot = self._call(reasons, lambda: self.pool.hit(number, node), True)
        if outcome == "done":
            assert asker is not None
            assert spot is not None
            assert spot.kept is not None
            asker.own = self.oracle.new_active(slot)
            asker.own.position = spot.length
            self.oracle.load(spot.kept, asker.own)
            self._look_soon(asker.own)
        return self._make_way(outcome, self._finish)

    def _make_way(self, outcome: str, operation: Callable[[], str | None]) -> str:
        """Where there is no room, somebody may give up some."""
        if outcome == "full" and self.draw.random() < 0.6:
            detail = self._detail
            found = operation()
            self._detail = f"{detail}, and {self._detail} {found}"
        return outcome

    def _start(self) -> str | None:
        number = self._request(lambda asker: not asker.is_running and asker.own is not None)
        if number is None:
            return None
        self._detail = f"start({number})"
        outcome, _ = self._call(self.oracle.reasons_start(number), lambda: self.pool.start(number))
        if outcome == "done":
            self.oracle.requests[number].is_running = True
        return outcome

    def _advance(self) -> str | None:
        """The books alone: an engine may note tokens before their step, or after it."""
        number = self._request(lambda asker: asker.is_running and asker.own is not None)
        return None if number is None else self._advance_one(number)

    def _advance_one(self, number: int) -> str:
        tokens = self.draw.choice([1, 1, 2, 3, 10**6])
        self._detail = f"advance({number}, {tokens})"
        outcome, _ = self._call(self.oracle.reasons_advance(number), lambda: self.pool.advance(number, tokens))
        if outcome == "done":
            own = self.oracle.requests[number].own
            assert own is not None
            own.position += tokens
        return outcome

    def _compute(self) -> str | None:
        """A step of the model on a request's state, or on that of another slot."""
        askers = [asker for asker in self.oracle.requests.values() if asker.own is not None]
        slots = [*((asker.number, asker.own) for asker in askers), *((None, active) for active in self.oracle.actives)]
        found = [(number, one) for number, one in slots if one is not None and not self.engine.is_stepped(one)]
        if not found:
            return None
        number, active = self.draw.choice(found)
        stream = self._stream()
        self._detail = f"compute on active slot {active.slot}, of {number}, on stream {stream}"
        is_there = self.engine.step(active, self.draw.randrange(_NUMBERS), stream)
        if is_there and self.draw.random() < 0.8:
            self.engine.launch(self.engine.opened[-1])
        if is_there and number is not None and self.draw.random() < 0.8:
            detail = self._detail
            outcome = self._advance_one(number)
            self._detail = f"{detail}, and {self._detail} {outcome}"
        return "done" if is_there else "waits"

    def _add_tracks(self) -> str | None:
        number = self._request(lambda asker: asker.is_running and asker.latest is None)
        if number is None:
            return None
        self._detail = f"add_tracks({number})"
        reasons = self.oracle.reasons_add_tracks(number) + self._full(self.pool.states, 2)
        outcome, slots = self._call(reasons, lambda: self.pool.add_tracks(number))
        if outcome == "done":
            asker = self.oracle.requests[number]
            asker.latest = self.oracle.new_active(slots[0])
            asker.spare = self.oracle.new_active(slots[1])
        return self._make_way(outcome, self._finish)

    def _track(self) -> str | None:
        number = self._request(lambda asker: not self.oracle.reasons_track(asker.number))
        if number is None:
            return None
        self._detail = f"track({number})"
        asker, states = self.oracle.requests.get(number), self.pool.states
        reasons = self.oracle.reasons_track(number)
        if asker is not None and asker.own is not None and asker.spare is not None:
            reasons += self._waits(None, [(states, asker.own.slot)], [(states, asker.spare.slot)])
        outcome, slot = self._call(reasons, lambda: self.pool.track(number), True)
        spare = None if asker is None else asker.spare
        if outcome == "fault" and spare is not None:
            spare.state, spare.is_filled = None, True
        if outcome == "done":
            assert asker is not None
            assert asker.own is not None
            assert spare is not None
            spare.state, spare.depth, spare.position = asker.own.state, asker.own.depth, asker.own.position
            spare.is_filled = True
            asker.latest, asker.spare = spare, asker.latest
            if slot != spare.slot:
                raise Departure(f"{self._detail}: it is slot {slot}, and the turn was that of {spare.slot}")
            self._look_soon(spare)
        return outcome

    def _give_back(self) -> str | None:
        number = self._request(lambda asker: asker.actives)
        if number is None:
            return None
        what: Any = self.draw.choice(["own", "tracks", "all"])
        self._detail = f"give_back({number}, {what!r})"
        reasons = YES if number in self.oracle.requests else NO
        outcome, _ = self._call(reasons, lambda: self.pool.give_back(number, what))
        if outcome == "done":
            asker = self.oracle.requests[number]
            actives = [one for one in asker.actives if what == "all" or (one is asker.own) == (what == "own")]
            self.oracle.free(asker, actives)
        return outcome

    def _retract(self) -> str | None:
        number = self._request(lambda asker: asker.is_running)
        if number is None:
            return None
        self._detail = f"retract({number})"
        asker = self.oracle.requests.get(number)
        reasons = YES if asker is not None and asker.is_running else NO
        outcome, _ = self._call(reasons, lambda: self.pool.retract(number))
        if outcome == "done" and asker is not None:
            self.oracle.free(asker, asker.actives)
            asker.is_running = False
        return outcome

    def _finish(self) -> str | None:
        number = self._request(lambda asker: True)
        if number is None:
            return None
        self._detail = f"finish({number})"
        reasons = YES if number in self.oracle.requests else NO
        outcome, _ = self._call(reasons, lambda: self.pool.finish(number))
        if outcome == "done":
            self.oracle.finish(self.oracle.requests[number])
        return outcome

    # ------------------------------------------------------------------------------------------------------ donations

    def _donate(self) -> str | None:
        source: Source = self.draw.choice(["own", "own", "track"])
        number = self._request(lambda asker: not self.oracle.reasons_donate(asker.number, source))
        if number is None:
            return None
        stream = self.draw.choice(self.world.streams.streams[2:])
        self._detail = f"donate({number}, {source!r}, stream={stream})"
        asker = self.oracle.requests.get(number)
        active = None if asker is None else asker.source(source)
        reads = [] if active is None else [(self.pool.states, active.slot)]
        reasons = self.oracle.reasons_donate(number, source) + self._waits(stream, reads)
        is_full = bool(self._full(self.pool.checkpoints))
        if is_full and reasons == (StepError,):
            return None
        whole = self.comparison.whole()
        outcome, handle = self._call(reasons, lambda: self.pool.donate(number, source, stream), True)
        if outcome != "done":
            return outcome
        if (handle is None) != is_full:
            raise Departure(f"{self._detail}: it returns {handle}, and room was {'none' if is_full else 'there'}")
        if handle is None:
            if whole != self.comparison.whole():
                raise Departure(f"{self._detail}: there is no room, and something has changed")
            return self._make_way("full", self.draw.choice([self._evict, self._drop]))
        assert asker is not None
        assert active is not None
        if handle.is_in_flight != (stream is not None) or (handle.request, handle.active) != (number, active.slot):
            raise Departure(f"{self._detail}: it returns {handle!r} from active slot {handle.active}")
        gift = self.oracle.donate(asker, active, handle)
        _remember(self._gifts, gift, lambda one: one.phase in ("published", "dropped") and not one.in_flight)
        if handle._copy is not None:
            ended: Callable[[], None] = lambda: self.oracle.complete(gift)  # noqa: E731
            self.engine.copies.append(Flying(repr(handle), handle._copy.steps, handle.complete, ended))
        return "in flight" if gift.in_flight else "done"

    def _publish(self) -> str | None:
        gift = self._pick(self._gifts, lambda one: one.phase in ("storing", "stored"))
        if gift is None:
            return None
        fits = [one.number for one in self.oracle.nodes.values() if one.length == gift.length and one.kept is None]
        node = self.draw.choice(fits) if fits and self.draw.random() < 0.9 else None
        if node is None and len(self.oracle.nodes) < 2 * MOST and self.draw.random() < 0.9:
            node = self._add_one(gift.length)
        node = self._node(lambda spot: True) if node is None else node
        if node is None:
            return None
        self._detail = f"publish({gift.handle!r}, {node})"
        target = node
        outcome, _ = self._call(self.oracle.reasons_publish(gift, node), lambda: gift.handle.publish(target))
        if outcome == "done":
            self.oracle.publish(gift, node)
        return outcome

    def _drop(self) -> str | None:
        gift = self._pick(self._gifts, lambda one: one.phase in ("storing", "stored"))
        if gift is None:
            return None
        self._detail = f"drop({gift.handle!r})"
        outcome, _ = self._call(self.oracle.reasons_drop(gift), gift.handle.drop)
        if outcome == "done":
            self.oracle.drop(gift)
        return outcome

    # ---------------------------------------------------------------------------------------------------- the device

    def _launch(self) -> str | None:
        if not self.engine.opened:
            return None
        self.engine.launch(self.draw.choice(self.engine.opened))
        return "done"

    def _complete(self) -> str | None:
        """A step or a copy ends; or one is said to, and others come before it, or it has ended."""
        ended = [gift for gift in self._gifts if not gift.in_flight]
        if ended and self.draw.random() < 0.05:
            gift = self.draw.choice(ended)
            self._detail = f"complete({gift.handle!r})"
            return self._call(NO, gift.handle.complete)[0]
        found = [(step,) for step in self.engine.flying] + [copy.steps for copy in self.engine.copies]
        if not found:
            return None
        steps = self.draw.choice(found)
        copy = next((copy for copy in self.engine.copies if copy.steps is steps), None)
        self._detail = f"complete({steps[0]!r})" if copy is None else f"complete({copy.what})"
        if self.engine.is_blocked(steps) and self.draw.random() < 0.5:
            return self._call((StepError,), steps[0].complete if copy is None else copy.complete)[0]
        self.engine.complete(steps[0])
        return "done"

    def _look(self) -> str | None:
        """A step compares what is in slots, or it is done at once."""
        actives = [one for _, one in self.oracle.all_actives() if one.is_filled and not self.engine.is_stepped(one)]
        kept = [one for _, one in self.oracle.all_kept() if one.is_filled]
        active = self.draw.choice(actives) if actives and self.draw.random() < 0.6 else None
        one = self.draw.choice(kept) if kept and self.draw.random() < 0.6 else None
        if active is None and one is None:
            return None
        stream = self._stream()
        slots = [None if each is None else each.slot for each in (active, one)]
        self._detail = f"look(active {slots[0]}, checkpoint {slots[1]}, stream={stream})"
        if not self.engine.look_at(active, one, stream):
            return "waits"
        if self.draw.random() < 0.6:
            self.engine.launch(self.engine.opened[-1])
        return "done"

    def _look_soon(self, active: Active) -> None:
        """What was copied is compared: by a step, when the device comes to it, or now."""
        if self.draw.random() < 0.6 and self.engine.look_at(active, None, self._stream()):
            if self.draw.random() < 0.7:
                self.engine.launch(self.engine.opened[-1])
            return
        self.check_bytes()

    def _time(self) -> None:
        """The device gets on."""
        self.world.streams.pass_time(20)

    # ---------------------------------------------------------------------------------------------------------- nodes

    def _add_node(self) -> str | None:
        if len(self.oracle.nodes) >= 2 * MOST:
            return None
        positions = [one.position for _, one in self.oracle.all_actives() if one.position]
        known = self.draw.choice(positions) if positions else 1
        return "refused" if self._add_one(self.draw.choice([known, known, self.draw.randint(1, 6)])) is None else "done"

    def _add_one(self, length: int) -> int | None:
        """The number of a new node; None where it was refused."""
        number = self._new_number(self.oracle.nodes)
        self._detail = f"add_node({number}, {length})"
        reasons = NO if number in self.oracle.nodes else YES
        outcome, _ = self._call(reasons, lambda: self.pool.add_node(number, length))
        if outcome != "done":
            return None
        self.oracle.nodes[number] = Spot(number, length)
        return number

    def _remove_node(self) -> str | None:
        node = self._node(lambda spot: not self.oracle.reasons_remove(spot.number))
        if node is None:
            return None
        self._detail = f"remove_node({node})"
        outcome, _ = self._call(self.oracle.reasons_remove(node), lambda: self.pool.remove_node(node))
        if outcome == "done":
            del self.oracle.nodes[node]
        return outcome

    def _lock(self) -> str | None:
        number, node = self._request(lambda asker: True), self._node(lambda spot: True)
        if number is None or node is None or sum(hold.is_held for hold in self._holds) >= 4 * MOST:
            return None
        return self._lock_one(number, node, self.draw.choice(["pages", "state"]))

    def _lock_one(self, number: int, node: int, scope: Scope) -> str:
        self._detail = f"lock({number}, {node}, {scope!r})"
        reasons = YES if number in self.oracle.requests and node in self.oracle.nodes else NO
        outcome, handle = self._call(reasons, lambda: self.pool.lock(number, node, scope))
        if outcome == "done":
            hold = self.oracle.lock(handle, int(number), int(node), scope)
            _remember(self._holds, hold, lambda one: not one.is_held)
        return outcome

    def _release(self) -> str | None:
        hold = self._pick(self._holds, lambda one: one.is_held)
        if hold is None:
            return None
        self._detail = f"release({hold.handle!r})"
        outcome, _ = self._call(YES if hold.is_held else (LockError,), hold.handle.release)
        if outcome == "done":
            self.oracle.release(hold)
        return outcome

    def _evict(self) -> str | None:
        node = self._node(lambda spot: spot.kept is not None)
        if node is None:
            return None
        self._detail = f"evict({node})"
        outcome, _ = self._call(self.oracle.reasons_evict(node), lambda: self.pool.evict(node))
        if outcome == "done":
            self.oracle.nodes[node].kept = None
        return outcome

    def _clear(self) -> str:
        self._detail = "clear()"
        outcome, _ = self._call(NO if self.oracle.flying else YES, self.pool.clear)
        if outcome == "done":
            self.oracle.clear()
        return outcome

    def _clear_below(self) -> str | None:
        """Pools below are cleared first: `clear` brings all back."""
        self._finish_steps()
        if self.outsiders.is_busy or self.oracle.flying:
            return None
        self._detail = "clear of the pools below, and clear()"
        for pool in self.world.pools:
            if self.draw.random() < 0.7:
                pool.clear()
                if self.pool.states._pool is pool:
                    self.oracle.actives.clear()
                if self.pool.checkpoints._pool is pool:
                    self.oracle.checkpoints.clear()
                if self.world.pool is pool:
                    self.outsiders.others.clear()
                    self._pages.clear()
        self.pool.clear()
        self.oracle.clear()
        return "done"

    # --------------------------------------------------------------------------------------------------------- others

    def _take(self) -> str | None:
        """Others take slots of the two, where they may."""
        if not self.pool.is_shared or len(self.oracle.actives) + len(self.oracle.checkpoints) >= MOST:
            return None
        sub_pool = self.draw.choice([self.pool.states, self.pool.checkpoints])
        n = self.draw.choice([1, 1, 2])
        self._detail = f"{sub_pool.name}.alloc({n})"
        outcome, ids = self._call(self._full(sub_pool, n), lambda: sub_pool.alloc(n))
        for slot in [] if ids is None else ids.tolist():
            if sub_pool is self.pool.states:
                self.oracle.actives.append(self.oracle.new_active(slot))
            else:
                self.oracle.checkpoints.append(self.oracle.new_kept(slot))
        return outcome

    def _give_away(self) -> str | None:
        """Others give slots back, whatever is done with them in flight."""
        found: list[tuple[SubPool, Active | Kept]] = []
        found += [(self.pool.states, active) for active in self.oracle.actives]
        found += [(self.pool.checkpoints, kept) for kept in self.oracle.checkpoints]
        if not found:
            return None
        sub_pool, one = self.draw.choice(found)
        self._detail = f"{sub_pool.name}.free({one.slot})"
        outcome, _ = self._call(YES, lambda: sub_pool.free(one.slot))
        self.oracle.actives[:] = [each for each in self.oracle.actives if each is not one]
        self.oracle.checkpoints[:] = [each for each in self.oracle.checkpoints if each is not one]
        return outcome

    def _store(self) -> str | None:
        """Others quantise states, a request's or their own, into checkpoint slots."""
        targets = self._some(self.oracle.checkpoints, [one for _, one in self.oracle.all_kept()])
        sources = self._as_many([one for _, one in self.oracle.all_actives()], targets)
        if not targets or len(sources) != len(targets):
            return None
        stream, read, written = self._stream(), [one.slot for one in sources], [one.slot for one in targets]
        self._detail = f"store_from_active({read}, {written}, stream={stream})"
        reasons = NO if any(one not in self.oracle.checkpoints for one in targets) else YES
        reasons += YES if all(one.is_filled for one in sources) else (StepError,)
        reasons += self._waits(stream, [(self.pool.states, read)], [(self.pool.checkpoints, written)])
        outcome, copy = self._call(reasons, lambda: self.pool.store_from_active(read, written, stream), True)
        for source, target in zip(sources, targets, strict=True):
            if outcome == "fault":
                target.stored, target.is_filled = None, True
            elif outcome == "done":
                self.oracle.store(source, target)
        return self._flies(copy, stream) if outcome == "done" else outcome

    def _load(self) -> str | None:
        """Others load checkpoints, a node's or their own, into their active slots."""
        targets = self._some(self.oracle.actives, [one for _, one in self.oracle.all_actives()])
        sources = self._as_many([one for _, one in self.oracle.all_kept()], targets)
        if not targets or len(sources) != len(targets):
            return None
        stream, read, written = self._stream(), [one.slot for one in sources], [one.slot for one in targets]
        self._detail = f"load_to_active({read}, {written}, stream={stream})"
        stored = {gift.kept for gift in self.oracle.flying}
        foreign = any(one not in self.oracle.actives for one in targets)
        reasons = NO if foreign or any(one in stored for one in sources) else YES
        reasons += YES if all(one.is_filled for one in sources) else (StepError,)
        reasons += self._waits(stream, [(self.pool.checkpoints, read)], [(self.pool.states, written)])
        outcome, copy = self._call(reasons, lambda: self.pool.load_to_active(read, written, stream), True)
        for source, target in zip(sources, targets, strict=True):
            if outcome == "fault":
                target.state, target.is_filled = None, True
            elif outcome == "done":
                self.oracle.load(source, target)
        return self._flies(copy, stream) if outcome == "done" else outcome

    def _some(self, ours: list[One], every: list[One]) -> list[One]:
        """One or two slots of others mostly, now and then anybody's."""
        found = ours if self.draw.random() < 0.95 else every
        return self.draw.sample(found, min(len(found), self.draw.choice([1, 1, 2])))

    def _as_many(self, found: list[Slot], targets: list[Any]) -> list[Slot]:
        """As many of these, each once; mostly such as can be read."""
        filled = [one for one in found if one.is_filled or self.draw.random() < 0.05]
        return self.draw.sample(filled, min(len(filled), len(targets)))

    def _flies(self, copy: Copy | None, stream: Any) -> str:
        """A copy of others is begun."""
        if (copy is None) != (stream is None):
            raise Departure(f"{self._detail}: it returns {copy!r}")
        if copy is None:
            return "done"
        self.engine.copies.append(Flying(repr(copy), copy.steps, copy.complete, lambda: None))
        return "in flight"

    def _neighbour(self) -> str | None:
        """Pages of tokens come and go beside."""
        pages = self.world.pool[self.layout.kv]
        if self._pages and self.draw.random() < 0.5:
            ids = self.draw.sample(self._pages, self.draw.randint(1, len(self._pages)))
            self._pages = [page for page in self._pages if page not in ids]
            pages.free(ids)
            return "freed"
        taken = pages.try_alloc(self.draw.choice([1, 2, 5, pages.capacity()]))
        self._pages += [] if taken is None else taken.tolist()
        return "full" if taken is None else "taken"

    def _others(self) -> str | None:
        """Leases, gates, groups of frees and compactions of the pools below."""
        what = self.draw.choices(list(_OUTSIDE), list(_OUTSIDE.values()))[0]
        self._detail = f"{what} of the pools below"
        if what != "lease":
            found: str | None = getattr(self.outsiders, what)()
        else:
            cached = [one.kept.slot for one in self.oracle.nodes.values() if one.kept is not None]
            found = self.outsiders.lease(self.pool.checkpoints, cached[:2])
        return None if found is None else f"{what} {found}"

    def _misuse(self) -> str:
        """A call with arguments that no state allows is refused."""
        what, errors, call = self.draw.choice(misuses(self.pool, self.oracle, self.draw))
        self._detail = f"misuse: {what}"
        return self._call(errors, call)[0]


def _outcome(error: Exception) -> str:
    if isinstance(error, InjectedFault):
        return "fault"
    if isinstance(error, PoolExhausted):
        return "full"
    return "waits" if isinstance(error, StepError) else "locked" if isinstance(error, LockError) else "refused"


def _remember(kept: list[One], one: One, is_over: Callable[[One], bool]) -> None:
    """One more; of those that are over only the last few."""
    kept.append(one)
    over = [each for each in kept if is_over(each)]
    for each in over[: max(len(over) - _REMEMBERED, 0)]:
        kept.remove(each)
