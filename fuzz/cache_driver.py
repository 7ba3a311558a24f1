"""Random use of a state cache on a device that works when it pleases, beside an oracle that knows every byte.

What the cache must hold follows from the calls alone (see `poolproof.fuzz.cache_oracle`): which prefixes it restores,
what it evicts and in which order, and, bit for bit, what a request finds that hits. The specs of the pools below run in
lockstep. What is refused must leave everything as it was, also where a copy fails in the midst of it.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from poolproof.cached_request import CachedRequest
from poolproof.fuzz.cache_comparison import CacheComparison, Departure
from poolproof.fuzz.cache_engine import Engine, Work
from poolproof.fuzz.cache_layouts import CacheLayout
from poolproof.fuzz.cache_misuse import misuses
from poolproof.fuzz.cache_oracle import CacheOracle, Key, Running
from poolproof.fuzz.cache_outsiders import Outsiders
from poolproof.fuzz.cache_room import Purpose, Room
from poolproof.fuzz.cache_states import StateModel
from poolproof.fuzz.cache_streams import InjectedFault
from poolproof.fuzz.cache_world import STEPS, Make, World
from poolproof.fuzz.round_play import RoundPlay
from poolproof.page_errors import BufferExhausted, StepError
from poolproof.spec.arithmetic import ceil_div
from poolproof.unified_pool import UnifiedPool

MOST: Final = 5
"""Requests at a time."""

"""Operations between two times that everything is looked at."""

_WEIGHTS: Final = {
    "admit": 16,
    "compute": 22,
    "launch": 20,
    "complete": 8,
    "track": 8,
    "keep": 12,
    "finish": 10,
    "retract": 3,
    "abort": 1.5,
    "look": 4,
    "match": 1,
    "evict": 0.7,
    "make_room": 1.2,
    "clear": 0.3,
    "compact": 3,
    "lease": 2,
    "release": 3,
    "gate": 0.5,
    "open_gate": 2,
    "group": 0.5,
    "end_group": 3,
    "take": 3,
    "give_back": 3,
    "misuse": 2,
    "time": 4,
}
_ALWAYS: Final = (
    "admit",
    "compute",
    "launch",
    "complete",
    "track",
    "keep",
    "finish",
    "release",
    "open_gate",
    "end_group",
    "give_back",
)
_FAULTS: Final = 0.06


Chosen: TypeAlias = tuple[CachedRequest, Running]


class NoRoom(Exception):
    """`try_admit` has returned None."""


class CacheDriver(RoundPlay):
    """One cache and its use.

    Args:
        seed: of everything that is drawn; each operation draws from it and its own number, so that leaving one out
            changes the others as little as can be.
        layout: what the cache stands on.
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
        self.world = World(layout, self.draw, make, device)
        self.cache = self.world.cache
        model = StateModel(layout.states, layout.codec)
        self.oracle = CacheOracle(layout.page_size, layout.strategy, model)
        self.engine = Engine(self.world, model)
        self.outsiders = Outsiders(self.world, self.draw)
        self.live: dict[int, CachedRequest] = {}
        self.comparison = CacheComparison(self.world, self.oracle, self.engine, self.live)
        self.room = Room(self.world, self.oracle, self.comparison)
        self.ended: CachedRequest | None = None
        self.checked = self.at = 0
        self.counts: Counter[str] = Counter()
        self.history: list[str] | None = None
        self._detail, self._evicted = "", 0
        weights = {name: weight * self.draw.choice((1, 1, 2, 4, 0)) for name, weight in _WEIGHTS.items()}
        self._weights = weights | {name: max(weights[name], _WEIGHTS[name]) for name in _ALWAYS}

    # ------------------------------------------------------------------------------------------------------ comparing

    def _settle(self, everything: bool) -> None:
        """The device gets on; what is wrong ends the run; where many steps are in flight, all end."""
        self.world.streams.pass_time(3)
        if max(len(pool._flight.steps) for pool in self.world.pools) > STEPS - 16:
            self._finish_steps()
        self.comparison.compare(self._detail)
        if everything:
            self.check_everything()
        self._raise_wrong()

    def check_everything(self) -> None:
        """All bytes that are known, once the device has done what it was given; cache and pools are healthy."""
        self.world.streams.drain()
        self.comparison.expect_bytes()
        self.outsiders.check()
        self.world.memory.settle()
        self._raise_wrong()
        found = self.cache.check()
        if found:
            raise Departure(f"check: {'; '.join(map(str, found[:4]))}")

    def _try(self, purpose: Purpose | None, call: Callable[[], Any], copies: bool = False) -> tuple[str, Any]:
        """What came of a call, "done", "full", "waits" or "fault", and what it returned.

        Args:
            purpose: what it may evict for; None for nothing.
            call: what is called.
            copies: whether it copies slots, so that it may have to wait for steps, or a copy may fail.
        """
        whole, logical, outcome, value = self.comparison.whole(), self.comparison.logical(), "done", None
        self.room.begin(purpose)
        self.world.streams.is_armed = copies and self.draw.random() < _FAULTS
        try:
            value = call()
        except (BufferExhausted, NoRoom):
            outcome = "full"
        except StepError:
            outcome = "waits"
        except InjectedFault:
            outcome = "fault"
        self.world.streams.disarm()
        self._evicted = evicted = self.room.evicted
        self.room.begin(None)
        if outcome == "done":
            return outcome, value
        self._check_refused(outcome, purpose, copies)
        is_same = whole == self.comparison.whole() if outcome == "full" else logical == self.comparison.logical()
        if not evicted and not is_same:
            raise Departure(f"{self._detail}: it was refused ({outcome}), and something has changed")
        return outcome, None

    def _check_refused(self, outcome: str, purpose: Purpose | None, copies: bool) -> None:
        """There is a reason for what was refused."""
        if outcome == "full":
            if purpose is None:
                raise Departure(f"{self._detail}: it needs no room, and there is none for it")
            self.room.evicted = self._evicted
            self.room.check_refusal(purpose)
        elif not copies or (outcome == "waits" and not self.engine.is_open(*self.world.pools)):
            raise Departure(f"{self._detail}: it was refused ({outcome}), and nothing is in its way")

    def _finish_steps(self) -> None:
        """Launch and complete everything."""
        while self.engine.opened:
            self._launch_one(self.engine.opened[0])
        self.engine.complete_all()

    # ----------------------------------------------------------------------------------------------- requests, tokens

    def _request(self, fits: Callable[[CachedRequest, Running], bool] | None = None) -> Chosen | None:
        """Any live request, or one that fits."""
        pairs = [(request, self.oracle.running[number]) for number, request in self.live.items()]
        found = [pair for pair in pairs if fits is None or fits(*pair)]
        return self.draw.choice(found) if found else None

    def _is_whole(self, length: int) -> bool:
        """Are these whole pages of tokens, and any at all?"""
        return length > 0 and length % self.layout.page_size == 0

    def _has_something(self, request: CachedRequest, running: Running) -> bool:
        """Could a prefix of the request be kept now?"""
        return self._is_whole(self.oracle.donor(running)[1])

    def _more(self, most: int) -> list[int]:
        """Some tokens, at least one."""
        size, found = self.layout.page_size, list[int]()
        for _ in range(self.draw.randint(0, most)):
            token = self.draw.choice(self.layout.alphabet)
            found += [token] * size if self.draw.random() < 0.7 else self.draw.choices(self.layout.alphabet, k=size)
        return found + self.draw.choices(self.layout.alphabet, k=self.draw.randint(1, size))

    def _some_tokens(self) -> list[int]:
        """A prompt: often one that begins like another."""
        known = list(self.oracle.checkpoints)
        if not known or self.draw.random() < 0.1:
            known = [tuple(running.tokens) for running in self.oracle.running.values()]
        if not known or self.draw.random() < 0.1:
            return self._more(4)
        one = known[-1] if self.draw.random() < 0.4 else self.draw.choice(known)
        end = len(one) if self.draw.random() < 0.8 else self.draw.randint(0, len(one))
        more = self._more(2) if self.draw.random() < 0.85 or not end else []
        return [*one[:end], *more][: 12 * self.layout.page_size]

    def _slots(self) -> int:
        return 3 if self.layout.strategy == "extra_buffer" else 1

    def _of_state(self, pages: int) -> tuple[UnifiedPool, dict[str, int]]:
        states = self.world.states.states
        return states._pool, {states.name: pages}

    def _of_checkpoint(self) -> tuple[UnifiedPool, dict[str, int]]:
        checkpoints = self.world.states.checkpoints
        return checkpoints._pool, {checkpoints.name: 1}

    # ----------------------------------------------------------------------------------------------------- operations

    def _admit(self) -> str | None:
        if len(self.live) >= MOST:
            return None
        tokens, limit = self._some_tokens(), self.draw.choice([*[None] * 7, 0, self.draw.randint(0, 20)])
        key = self.oracle.restorable(tokens, limit)
        self._detail = f"admit({tokens}, at_most={limit})"
        purpose = Purpose([self._of_state(self._slots())], key)
        call = self._admitted if self.draw.random() < 0.3 else self.cache.admit
        outcome, request = self._try(purpose, lambda: call(tokens, at_most=limit), bool(key))
        if outcome == "full":
            self.oracle.counts["refused"] += 1
            self._make_way()
        if outcome != "done":
            return outcome
        if request.number in self.live or request.cached != len(key):
            raise Departure(f"{self._detail}: {request!r}, and {list(key)} can be restored")
        self.live[request.number] = request
        running = self.oracle.admit(request.number, tokens, key)
        self._detail += f" = request {request.number}, {len(key)} cached"
        if key:
            self._look_at_once(request, running)
        return "hit" if key else "miss"

    def _admitted(self, tokens: list[int], at_most: int | None) -> CachedRequest:
        request = self.cache.try_admit(tokens, at_most=at_most)
        if request is None:
            raise NoRoom
        return request

    def _look_at_once(self, request: CachedRequest, running: Running) -> None:
        """All that was restored is compared: by a step, when the device comes to it, or now."""
        if self.draw.random() < 0.6 and self.engine.look(
            request, running, self.draw.choice(self.world.streams.streams)
        ):
            if self.draw.random() < 0.6:
                self._launch_one(self.engine.opened[-1])
            return
        self.world.streams.drain()
        self.comparison.expect_request(request, running)
        self.world.memory.settle()

    def _compute(self) -> str | None:
        found = self._request(lambda request, _: not self.engine.is_waiting(request))
        if found is None:
            return None
        request, running = found
        if running.length == len(running.tokens):
            running.tokens += self._more(2)
        size = self.layout.page_size
        length = self.draw.randint(running.length + 1, len(running.tokens))
        if self.draw.random() < 0.85:
            length = max(length // size * size, min(running.length // size * size + size, len(running.tokens)))
        self._detail = f"compute(request {request.number} from {running.length} to {length})"
        more = ceil_div(length, size) - len(request.pages)
        wanted = Purpose([(self.world.pool, {self.cache.kv.name: more})]) if more > 0 else None
        outcome, new = self._try(wanted, lambda: self.cache.extend(request, length))
        if outcome != "done":
            self._make_way()
            return outcome
        if len(new) != max(more, 0) or new.tolist() != request.pages[len(request.pages) - len(new) :].tolist():
            raise Departure(f"extend({request!r}, {length}): new pages {new.tolist()}, and {more} were missing")
        if not self.engine.compute(request, running, length, self.draw.choice(self.world.streams.streams)):
            return "waits"
        if self.draw.random() < 0.8:
            self._launch_one(self.engine.opened[-1])
        return "done"

    def _make_way(self) -> None:
        """Where there is no room, an engine lets some request end."""
        if self.draw.random() < 0.5:
            self._retract()

    def _launch(self) -> str | None:
        if not self.engine.opened:
            return None
        self._launch_one(self.draw.choice(self.engine.opened))
        return "done"

    def _launch_one(self, work: Work) -> None:
        """Launch work, or what must come before it, and what depends on it is known."""
        work = self.engine.launch(work)
        request = work.request
        if request is None or not request.is_live:
            return
        running = self.oracle.running[request.number]
        self.cache.computed(request, work.length)
        running.length, running.state = work.length, work.state
        if self.layout.strategy == "extra_buffer" and self._is_whole(running.length) and self.draw.random() < 0.4:
            self._track_one(request, running)

    def _complete(self) -> str | None:
        if not self.engine.flying:
            return None
        step = self.draw.choice(self.engine.flying)
        before = self.engine.before(step)
        if before is not None and self.draw.random() < 0.5:
            self._detail = f"complete({step!r}), which comes after {before!r}"
            return self._must_refuse(step.complete, StepError)
        self.engine.complete(step)
        return "done"

    def _look(self) -> str | None:
        found = self._request(lambda request, _: not self.engine.is_waiting(request))
        if found is None:
            return None
        self._detail = f"look(request {found[0].number})"
        return "done" if self.engine.look(*found, self.draw.choice(self.world.streams.streams)) else "waits"

    def _track(self) -> str | None:
        found = self._request(lambda _, running: self._is_whole(running.length))
        if found is None or self.layout.strategy != "extra_buffer":
            return None
        self._detail = f"track(request {found[0].number} at {found[1].length})"
        return self._track_one(*found)

    def _track_one(self, request: CachedRequest, running: Running) -> str:
        """A snapshot of a request at the end of a page."""
        outcome, _ = self._try(None, lambda: self.cache.track(request), True)
        if outcome == "done":
            self.oracle.track(running)
        return outcome

    # ---------------------------------------------------------------------------------------------------- keep and end

    def _keep(self) -> str | None:
        found = self._request(self._has_something)
        if found is None:
            return None
        request, running = found
        tokens = running.tokens[: self.oracle.donor(running)[1]]
        self._detail = f"keep(request {request.number}, {tokens})"
        return self._store(request, tuple(tokens), lambda: self.cache.keep(request, tokens))

    def _finish(self) -> str | None:
        return self._end(lambda request, tokens: self.cache.finish(request, tokens), "finish")

    def _retract(self) -> str | None:
        return self._end(lambda request, tokens: self.cache.retract(request, tokens), "retract")

    def _end(self, call: Callable[[CachedRequest, list[int]], Any], name: str) -> str | None:
        found = self._request(self._has_something if self.draw.random() < 0.8 else None)
        if found is None:
            return None
        request, running = found
        tokens = running.tokens[: self.draw.randint(max(running.length, 1), len(running.tokens))]
        self._detail = f"{name}(request {request.number} at {running.length}, {tokens})"
        _, length = self.oracle.donor(running)
        key = tuple(tokens[:length]) if self._is_whole(length) else ()
        if key:
            outcome = self._store(request, key, lambda: call(request, tokens))
        else:
            outcome, value = self._try(None, lambda: call(request, tokens))
            if value:
                raise Departure(f"{self._detail}: there is nothing to keep, and it is kept")
        if outcome not in ("waits", "fault"):
            self._forget(request)
        return outcome

    def _store(self, request: CachedRequest, key: Key, call: Callable[[], Any]) -> str:
        """A prefix of a request is to be kept by a call: what comes of it, told to the oracle."""
        running, is_there = self.oracle.running[request.number], key in self.oracle.checkpoints
        must_store = self.oracle.must_store(running, key)
        purpose = Purpose([self._of_checkpoint()]) if must_store else None
        had_room = purpose is not None and not self.room.short(purpose)
        before, whole = self.cache.stats(), self.comparison.whole()
        outcome, value = self._try(purpose, call, must_store)
        if outcome != "done":
            return outcome
        after = self.cache.stats()
        is_kept = after.kept + after.deduplicated > before.kept + before.deduplicated
        if value is not None and value != is_kept:
            raise Departure(f"{self._detail}: it returns {value}, and its figures say {is_kept}")
        if is_kept != (is_there or (must_store and is_kept)) or (had_room and not is_kept):
            raise Departure(f"{self._detail}: kept {is_kept}, there before {is_there}, to be stored {must_store}")
        if is_kept:
            self.oracle.keep(running, key)
            return "kept" if must_store else "deduplicated"
        if request.is_live:
            self._check_skipped(purpose, whole)
        self.oracle.skip()
        return "full" if must_store else "skipped"

    def _check_skipped(self, purpose: Purpose | None, whole: Any) -> None:
        """A prefix of a request that goes on was not kept: it is as before, and there is no room if any is needed."""
        if purpose is not None:
            self.room.evicted = self._evicted
            self.room.check_refusal(purpose)
        if not self._evicted and whole != self.comparison.whole():
            raise Departure(f"{self._detail}: it was skipped, and something has changed")

    def _abort(self) -> str | None:
        found = self._request()
        if found is None:
            return None
        request, running = found
        self._detail = f"abort(request {request.number} at {running.length})"
        call = self.cache.abort if self.draw.random() < 0.7 else self.cache.retract
        self._try(None, lambda: call(request))
        self._forget(request)
        return "done"

    def _forget(self, request: CachedRequest) -> None:
        """A request has ended."""
        self.oracle.end(request.number)
        del self.live[request.number]
        self.ended = request
        if request.is_live or len(request.pages) or request.state is not None or request.tracks:
            raise Departure(f"{self._detail}: {request!r} has ended, and has something left")

    # ------------------------------------------------------------------------------------------------------------ room

    def _evict(self) -> str:
        n = self.draw.choice([0, 1, 1, 1, 2, 9])
        self._detail = f"evict({n})"
        expected = min(n, len(self.oracle.checkpoints))
        _, found = self._try(Purpose(), lambda: self.cache.evict(n))
        if found != expected:
            raise Departure(f"{self._detail} evicts {found}, and {expected} can be")
        return "done"

    def _make_room(self) -> str:
        demand = {}
        for pool in self.world.pools:
            for layout in pool.layouts:
                if self.draw.random() < (0.6 if layout.name == self.cache.kv.name else 0.3):
                    demand[layout.name] = self.draw.choice([0, 1, 1, 2, 3, 6])
        demand = dict(self.draw.sample(list(demand.items()), len(demand)))
        self._detail = f"make_room({demand})"
        wanted: dict[int, tuple[UnifiedPool, dict[str, int]]] = {}
        for name, n in demand.items():
            pool = next(pool for pool in self.world.pools if name in pool._places)
            wanted.setdefault(id(pool), (pool, {}))[1][name] = n
        purpose = Purpose(list(wanted.values()))
        whole = self.comparison.whole()
        self.room.begin(purpose if demand else None)
        found = self.cache.make_room(demand)
        is_room = not self.room.short(purpose)
        if found != is_room:
            raise Departure(f"{self._detail} says {found}, and the pools {is_room}")
        if not found:
            self.room.check_refusal(purpose)
        if not self.room.evicted and whole != self.comparison.whole():
            raise Departure(f"{self._detail}: nothing was evicted, and something has changed")
        self.room.begin(None)
        return "done" if found else "full"

    def _clear(self) -> str | None:
        if self.live:
            return None
        self._try(Purpose(), self.cache.clear)
        if self.cache.kv._table.bound or self.cache.stats().nodes:
            raise Departure("clear: something is left")
        return "done"

    def _match(self) -> str:
        tokens, limit = self._some_tokens(), self.draw.choice([None, None, self.draw.randint(0, 20)])
        self._detail = f"match({tokens}, at_most={limit})"
        key, whole = self.oracle.restorable(tokens, limit), self.comparison.whole()
        length, number = self.cache.match(tokens, at_most=limit)
        found = () if number is None else self.comparison.key_of(self.cache._tree.nodes[number])
        if (length, found) != (len(key), key):
            raise Departure(f"{self._detail} finds {length} tokens, {list(found)}; {list(key)} can be restored")
        if whole != self.comparison.whole():
            raise Departure(f"{self._detail}: a look has changed something")
        return "done"

    # ---------------------------------------------------------------------------------------------- others, wrong use

    def _compact(self) -> str:
        return self.outsiders.compact()

    def _lease(self) -> str | None:
        """Lease pages of tokens that are computed, or a checkpoint: what nobody writes any more."""
        checkpoints = self.world.states.checkpoints
        cached = list(self.world.states._nodes)
        if cached and self.draw.random() < 0.5:
            return self.outsiders.lease(checkpoints, [self.draw.choice(cached)])
        found = self._request()
        if found is None:
            return None
        request, running = found
        whole = request.pages[: running.length // self.layout.page_size].tolist()
        return self.outsiders.lease(self.cache.kv, self.draw.sample(whole, min(len(whole), self.draw.randint(1, 3))))

    def _release(self) -> str | None:
        return self.outsiders.release()

    def _gate(self) -> str | None:
        return self.outsiders.gate()

    def _open_gate(self) -> str | None:
        return self.outsiders.open_gate()

    def _group(self) -> str:
        return self.outsiders.group()

    def _end_group(self) -> str | None:
        return self.outsiders.end_group()

    def _take(self) -> str | None:
        return self.outsiders.take()

    def _give_back(self) -> str | None:
        return self.outsiders.give_back()

    def _misuse(self) -> str:
        """A call that the state does not allow is refused, and changes nothing."""
        what, errors, call = self.draw.choice(misuses(self.world, self.oracle, self.live, self.ended, self.draw))
        self._detail = f"misuse: {what}"
        return self._must_refuse(call, *errors)

    def _must_refuse(self, call: Callable[[], Any], *errors: type[Exception]) -> str:
        """The call is refused with one of these errors, and changes nothing."""
        whole = self.comparison.whole()
        try:
            call()
        except errors:
            if whole != self.comparison.whole():
                raise Departure(f"{self._detail}: it was refused, and something has changed") from None
            return "refused"
        raise Departure(f"{self._detail}: it was not refused")

    def _time(self) -> None:
        """The device gets on."""
        self.world.streams.pass_time(20)
