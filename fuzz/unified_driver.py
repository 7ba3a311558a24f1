"""Random use of a unified pool on a device that works when it pleases, with the spec in lockstep and every byte known.

What each id's page must hold is kept beside the pool: every write leaves a pattern of its own, every read looks for the
pattern of the last write before it, whenever the device comes to it. The pool's tables are compared with the spec's
after every operation, by the pool's shadow.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from poolproof.buffer_shadow import BufferShadow
from poolproof.errors import GroupError, SpecViolation
from poolproof.fuzz.devices import HOST, Device
from poolproof.fuzz.memory import ZEROS, WrongBytes
from poolproof.fuzz.schedule_guards import guard_of
from poolproof.holds import FreeGroup, Gate, Lease
from poolproof.page_errors import BufferExhausted, GateError, InvalidPages, LeaseError, PoolBusy, StepError
from poolproof.spec import schedule as spec
from poolproof.spec.language import Refused, item_of
from poolproof.steps import Phase, Step
from poolproof.sub_pools import Declaration
from poolproof.unified_pool import UnifiedPool

STEPS: Final = 12
LEASES: Final = 4
UNKNOWN: Final = -1

_WEIGHTS: Final = {
    "alloc": 16,
    "alloc_together": 4,
    "bind": 8,
    "free": 14,
    "begin": 11,
    "launch": 20,
    "complete": 16,
    "publish": 6,
    "retire": 3,
    "lease": 5,
    "release": 5,
    "gate": 1,
    "open_gate": 3,
    "group": 2,
    "end_group": 3,
    "compact": 10,
    "bad_ids": 5,
    "bad_call": 3,
    "clear": 1,
    "time": 8,
}


class UnifiedDriver:
    """One pool and its use.

    Args:
        seed: of everything that is drawn; each operation draws from it and its own number, so that leaving one out
            changes the others as little as can be.
        total: bytes of the buffer.
        sub_pools: its declarations.
        make: makes the pool.
        device: where its bytes are.
        guard: whether the pool has a guard.

    Attributes:
        checked: operations done or refused, and compared.
        at: the number of the operation under way.
        counts: operations by name and outcome.
    """

    def __init__(
        self,
        seed: str,
        total: int,
        sub_pools: list[Declaration],
        make: Callable[..., UnifiedPool] = UnifiedPool,
        device: Device = HOST,
        guard: bool = False,
    ) -> None:
        self.seed, self.draw = seed, random.Random(seed)
        self.device, self.pool, self.memory = device.open(self.draw, total, sub_pools, make, guard)
        self.shadow = BufferShadow(self.pool, steps=STEPS, leases=LEASES)
        self.pool._follow(self.shadow)
        self.names = [layout.name for layout in self.pool.layouts]
        self.held: dict[str, dict[int, int]] = {name: {} for name in self.names}
        self.steps: list[tuple[Step, list[Callable[[], None]]]] = []
        self.over: list[Step] = []
        self.leases: list[tuple[Lease, dict[int, int]]] = []
        self.gates: list[Gate] = []
        self.group: FreeGroup | None = None
        self.grouped: list[tuple[str, int]] = []
        self.checked = self.stamp = self.at = 0
        self.counts: Counter[str] = Counter()
        self.refusals: Counter[tuple[str, str]] = Counter()

    def run(self, operations: int, kept: Collection[int] | None = None) -> None:
        """So many operations, or those of them whose numbers are kept.

        Raises:
            SpecViolation, WrongBytes: the pool is wrong.
        """
        names, weights = list(_WEIGHTS), list(_WEIGHTS.values())
        for n in range(operations) if kept is None else sorted(kept):
            self.at = n
            self.draw.seed(f"{self.seed}/{n}")
            operation = self.draw.choices(names, weights)[0]
            outcome = getattr(self, f"_{operation}")()
            if outcome is not None:
                self.counts[f"{operation} {outcome}"] += 1
                self.checked += 1
            self.device.pass_time(3)
            self._settle()
            if n % 25 == 24:
                self.check_everything()
        self.check_everything()

    # ------------------------------------------------------------------------------------------------------ comparing

    def check_everything(self) -> None:
        """Every page that must hold something does, once the device has done all it was given; the pool is healthy."""
        self.device.drain()
        self.memory.settle()
        open_writes = {
            (name, page) for step, _ in self.steps for name, pages in step.writes.items() for page in pages.tolist()
        }
        for name in self.names:
            for v, stamp in self.held[name].items():
                page = int(self.pool[name].physical(v)[0])
                table = self.pool._at(name)
                if stamp != UNKNOWN and not table.to_zero[page] and (name, page) not in open_writes:
                    self.memory.expect(name, page, stamp, f"id {v} of {name}")
        self.memory.settle()
        self._raise_wrong()
        found = self.pool.check()
        if found:
            raise SpecViolation("check", "health", (), [str(one) for one in found], "healthy")

    def _raise_wrong(self) -> None:
        wrong = self.memory.wrong()
        if wrong:
            raise WrongBytes("; ".join(wrong[:4]))

    def _settle(self) -> None:
        """What is wrong ends the run; where many steps are in flight, all end."""
        self._raise_wrong()
        for name, page in self.grouped:
            if self.pool._at(name).virtual[page] >= 0:
                raise SpecViolation("free_group", f"page of {name}", (page,), "handed out", "kept until the group ends")
        if len(self.pool._flight.steps) + len(self.over) > STEPS - 8:
            self._finish_all()

    def _finish_all(self) -> None:
        """Launch and complete everything in order, the pool's own steps with a last empty one."""
        if all(step.phase is Phase.LAUNCHED for step, _ in self.steps):
            empty = self.pool.begin_step()
            self.steps.append((empty, []))
        for step, kernels in list(self.steps):
            if step.phase is Phase.OPEN:
                self._launch_one(step, kernels)
        for step, _ in sorted(self.steps, key=lambda one: one[0].number):
            step.complete()
            step.retire()
        self.steps = []
        for step in self.over:
            if step.phase is Phase.OVER:
                step.retire()
        self.over = []

    def _refused(self, work: Callable[[], Any], *errors: type[Exception]) -> bool:
        """Does the pool refuse, with one of these errors, and stay as it was?"""
        try:
            work()
        except errors:
            self.shadow.compare("a refused call")
            return True
        return False

    def _spec_refuses(self, action: Callable[..., None], *arguments: int) -> None:
        """The spec must refuse too what the pool has refused; by which guard is counted."""
        item = item_of(action)
        try:
            item.guards(self.shadow.state, *arguments)
        except Refused as refusal:
            self.refusals[item.name, guard_of(refusal)] += 1
            return
        raise SpecViolation(f"{item.name}{arguments}", "verdict", (), "refused", "allowed")

    # ---------------------------------------------------------------------------------------------------- pages, ids

    def _owners(self) -> list[str]:
        return [layout.name for layout in self.pool.layouts if layout.ids_of is None]

    def _new(self, name: str, ids: NDArray[np.int64]) -> None:
        zeroed = self.pool[name].layout.zeroed
        for v in ids.tolist():
            if v in self.held[name]:
                raise SpecViolation("alloc", "ids", (v,), "handed out", "live already")
            self.held[name][v] = ZEROS if zeroed else UNKNOWN

    def _alloc(self) -> str:
        name = self.draw.choice(self._owners())
        capacity = self.pool.capacity(name)
        n = self.draw.choice([0, 1, 1, 2, 3, capacity, capacity + 1])
        if self.pool.fits({name: n}) != (n <= capacity):
            raise SpecViolation(f"fits({n} of {name})", "capacity", (), n > capacity, capacity)
        ids = self.pool[name].try_alloc(n)
        if (ids is not None) != (n <= capacity):
            raise SpecViolation(f"alloc({n}) of {name}", "capacity", (), ids, capacity)
        if ids is None:
            self.shadow.compare("a refused alloc")
            if not capacity:
                self._no_page(name, next((v for v in range(1, self.pool[name].ids) if v not in self.held[name]), 0))
            return "refused"
        self._new(name, ids)
        return "done"

    def _no_page(self, name: str, v: int) -> None:
        """Nothing can be had: the spec refuses the next page on either side, and there is no hole."""
        k, table = self.names.index(name), self.pool._at(name)
        for page in (table.last, table.first - 1):
            self._spec_refuses(spec.take_frontier, k, v, page)
        for page in range(table.first, table.last):
            self._spec_refuses(spec.take_hole, k, v, page)

    def _alloc_together(self) -> str:
        demand = {name: self.draw.choice([0, 1, 1, 2, 3]) for name in self._owners()}
        for layout in self.pool.layouts:
            if layout.ids_of is not None and self.draw.random() < 0.7:
                demand[layout.name] = self.draw.randint(0, demand[layout.ids_of])
        fits = self.pool.fits(demand)
        if self._refused(lambda: self._new_together(demand), BufferExhausted) == fits:
            raise SpecViolation(f"alloc({demand})", "fits", (), not fits, fits)
        return "done" if fits else "refused"

    def _new_together(self, demand: dict[str, int]) -> None:
        for name, ids in self.pool.alloc(demand).items():
            self._new(name, ids)

    def _bind(self) -> str | None:
        windows = [layout for layout in self.pool.layouts if layout.ids_of is not None]
        if not windows:
            return None
        layout = self.draw.choice(windows)
        assert layout.ids_of is not None
        free = [v for v in self.held[layout.ids_of] if v not in self.held[layout.name]]
        ids = self.draw.sample(free, min(len(free), self.draw.choice([1, 1, 2, 4])))
        capacity = self.pool.capacity(layout.name)
        refused = self._refused(lambda: self.pool[layout.name].bind(ids), BufferExhausted)
        if refused == (len(ids) <= capacity):
            raise SpecViolation(f"bind({ids}) of {layout.name}", "capacity", (), not refused, capacity)
        if refused:
            return "refused"
        self._new(layout.name, np.array(ids, np.int64))
        return "done"

    def _some(self, name: str, most: int = 4) -> list[int]:
        """Some live ids of a sub-pool, in no order."""
        return self.draw.sample(list(self.held[name]), min(len(self.held[name]), self.draw.randint(1, most)))

    def _free(self) -> str | None:
        name = self.draw.choice(self.names)
        ids = self._some(name, self.draw.choice([2, 4, 50]))
        if not ids:
            return None
        for window in self.names:
            if self.pool[window].layout.ids_of == name:
                self._note_leased(window, [v for v in ids if v in self.held[window]])
                self.held[window] = {v: s for v, s in self.held[window].items() if v not in ids}
        self._note_leased(name, ids)
        if self.group is not None:
            self.grouped += [(name, page) for page in self.pool[name].physical(ids).tolist()]
        array = np.array(ids, np.int64)
        self.pool[name].free(array)
        array.fill(-1)
        for v in ids:
            del self.held[name][v]
        return "done"

    def _note_leased(self, name: str, ids: list[int]) -> None:
        """Of leased pages that are freed: what they hold now, they must hold until the release."""
        pages = {int(self.pool[name].physical(v)[0]): self.held[name][v] for v in ids}
        for lease, kept in self.leases:
            if lease.name == name:
                kept.update({page: pages[page] for page in lease.physical.tolist() if page in pages})

    def _group(self) -> str:
        if self.group is not None:
            return "refused" if self._refused(self.pool.free_group, GroupError) else self._fail("free_group")
        self.group = self.pool.free_group()
        return "done"

    def _end_group(self) -> str | None:
        if self.group is None:
            return None
        group, self.group, self.grouped = self.group, None, []
        group.end()
        if not self._refused(group.end, GroupError):
            self._fail("end")
        return "done"

    def _fail(self, operation: str) -> str:
        raise SpecViolation(operation, "verdict", (), "done", "refused")

    def _compact(self) -> str:
        if self.draw.random() < 0.3:
            self.pool.compact(urgent=True)
        else:
            self.pool.compact(moves=self.draw.choice([0, 1, 2, 8]))
        return "done"

    # ----------------------------------------------------------------------------------------------------------- steps

    def _begin(self) -> str:
        stream = self.draw.choice(self.device.streams)
        read = {name: self._some(name) for name in self.names if self.draw.random() < 0.5}
        written = {name: self._some(name) for name in self.names if self.draw.random() < 0.5}
        read = {name: [v for v in ids if self.held[name][v] != UNKNOWN] for name, ids in read.items()}
        expected = [(name, v, self.held[name][v]) for name, ids in read.items() for v in ids]
        after = [step for step, _ in self.steps if step.phase is Phase.LAUNCHED and self.draw.random() < 0.1]
        try:
            step = self.pool.begin_step(read, written, stream=stream, after=after)
        except StepError:
            self.shadow.compare("a refused begin_step")
            return "refused"
        kernels = [self._reader(step, name, v, stamp, at) for at, (name, v, stamp) in self._numbered(expected)]
        for given, pages in ((read, step.reads), (written, step.writes)):
            kernels += [self._translator(step, name, ids, pages[name].tolist()) for name, ids in given.items() if ids]
        for name, ids in written.items():
            for v, page in zip(ids, step.writes[name].tolist(), strict=True):
                self.stamp += 1
                self.held[name][v] = self.stamp
                kernels.append(self._writer(name, page, self.stamp))
        self.steps.append((step, kernels))
        return "done"

    @staticmethod
    def _numbered(expected: list[tuple[str, int, int]]) -> list[tuple[int, tuple[str, int, int]]]:
        """Each with its place among those of its sub-pool."""
        seen: Counter[str] = Counter()
        found = []
        for one in expected:
            found.append((seen[one[0]], one))
            seen[one[0]] += 1
        return found

    def _reader(self, step: Step, name: str, v: int, stamp: int, at: int) -> Callable[[], None]:
        page = int(step.reads[name][at])
        return lambda: self.memory.expect(name, page, stamp, f"{step!r} reads id {v} of {name}")

    def _writer(self, name: str, page: int, stamp: int) -> Callable[[], None]:
        return lambda: self.memory.write(name, page, stamp)

    def _translator(self, step: Step, name: str, ids: list[int], pages: list[int]) -> Callable[[], None]:
        return lambda: self.memory.expect_table(name, ids, pages, f"{step!r}")

    def _launch_one(self, step: Step, kernels: list[Callable[[], None]]) -> None:
        for kernel in kernels:
            self.device.give(step.stream, kernel)
        kernels.clear()
        step.launched()

    def _launch(self) -> str | None:
        opened = [(step, kernels) for step, kernels in self.steps if step.phase is Phase.OPEN]
        if not opened:
            return None
        step, kernels = self.draw.choice(opened)
        first = min(other.number for other, _ in opened if other.stream == step.stream)
        if step.number != first:
            return self._step_refused(step, step.launched, spec.launch)
        self._launch_one(step, kernels)
        return "done"

    def _step_refused(self, step: Step, call: Callable[[], Any], action: Callable[..., None]) -> str:
        """The pool refuses, and so does the spec."""
        if not self._refused(call, StepError):
            self._fail(f"{action.__name__} of {step!r}")
        self._spec_refuses(action, self.shadow.number(step))
        return "refused"

    def _complete(self) -> str | None:
        if not self.steps:
            return None
        launched = [one for one in self.steps if one[0].phase is Phase.LAUNCHED]
        step, _ = self.draw.choice(launched if launched and self.draw.random() < 0.8 else self.steps)
        first = not any(other.is_before(step) for other, _ in self.steps)
        if step.phase is not Phase.LAUNCHED or not first:
            return self._step_refused(step, step.complete, spec.complete)
        step.complete()
        self.steps = [one for one in self.steps if one[0] is not step]
        self.over.append(step)
        return "done"

    def _publish(self) -> str | None:
        self.over = [step for step in self.over if step.phase is Phase.OVER]
        if not self.over:
            return None
        step, name = self.draw.choice(self.over), self.draw.choice(self.names)
        written = [v for v, stamp in self.held[name].items() if stamp > ZEROS]
        ids = self.draw.sample(written, 1) if written and self.draw.random() < 0.8 else self._some(name, 1)
        if not ids:
            return None
        if not self._refused(lambda: step.publish(name, ids), StepError):
            return "done"
        self._spec_refuses(spec.publish, self.shadow.number(step), self.names.index(name), ids[0])
        return "refused"

    def _retire(self) -> str | None:
        self.over = [step for step in self.over if step.phase is Phase.OVER]
        if not self.over:
            return None
        step = self.over.pop(self.draw.randrange(len(self.over)))
        step.retire()
        if not self._refused(step.retire, StepError):
            self._fail("retire")
        return "done"

    # ----------------------------------------------------------------------------------------------- leases and gates

    def _lease(self) -> str | None:
        name = self.draw.choice(self.names)
        ids = self._some(name, self.draw.choice([1, 3]))
        if not ids or len(self.leases) + len(self.gates) >= LEASES:
            return None
        try:
            self.leases.append((self.pool.lease(name, ids, "fuzz"), {}))
        except LeaseError:
            self.shadow.compare("a refused lease")
            if len(ids) == 1:
                self._spec_refuses(spec.lease_page, self.shadow.free_holder(), self.names.index(name), ids[0])
            return "refused"
        return "done"

    def _release(self) -> str | None:
        if not self.leases:
            return None
        lease, kept = self.leases.pop(self.draw.randrange(len(self.leases)))
        self.device.drain()
        writing = {page for step, _ in self.steps for page in step.writes.get(lease.name, np.empty(0)).tolist()}
        for page, stamp in kept.items():
            if stamp != UNKNOWN and page not in writing:
                self.memory.expect(lease.name, page, stamp, f"{lease!r}")
        self.memory.settle()
        lease.release()
        if not self._refused(lease.release, LeaseError):
            self._fail("release")
        return "done"

    def _gate(self) -> str | None:
        if len(self.leases) + len(self.gates) >= LEASES:
            return None
        self.gates.append(self.pool.gate(self.draw.choice(self.names), "fuzz"))
        return "done"

    def _open_gate(self) -> str | None:
        if not self.gates:
            return None
        gate = self.gates.pop(self.draw.randrange(len(self.gates)))
        gate.open()
        if not self._refused(gate.open, GateError):
            self._fail("open")
        return "done"

    # ----------------------------------------------------------------------------------------------------- wrong calls

    def _bad_ids(self) -> str:
        """Ids that are not live, or listed twice, among good ones: refused everywhere, and by the spec."""
        name = self.draw.choice(self.names)
        pool, good = self.pool[name], self._some(name, 3)
        dead = [v for v in range(1, pool.ids) if v not in self.held[name]] or [0]
        bad = self.draw.choice([0, -1, pool.ids, pool.ids + 7, -(2**62), self.draw.choice(dead), *good[:1]])
        ids = [*good, bad]
        self.draw.shuffle(ids)
        calls = [
            lambda: pool.free(ids),
            lambda: self.pool.lease(name, ids, "fuzz"),
            lambda: self.pool.begin_step(reads={name: ids}),
            lambda: self.pool.begin_step(writes={name: ids}),
        ]
        if not self._refused(self.draw.choice(calls), InvalidPages):
            self._fail(f"ids {ids} of {name}")
        if bad not in good:
            self._spec_refuses(spec.let_go, self.names.index(name), bad)
        return "refused"

    def _bad_call(self) -> str | None:
        """Calls that the state does not allow."""
        name = self.draw.choice(self.names)
        unknown = [v for v, stamp in self.held[name].items() if stamp == UNKNOWN]
        if unknown and self.draw.random() < 0.5:
            if not self._refused(lambda: self.pool.begin_step(reads={name: unknown[:1]}), StepError):
                self._fail("begin_step")
            return "refused"
        if self.pool[name].layout.ids_of is None:
            if not self._refused(lambda: self.pool[name].bind([]), TypeError):
                self._fail("bind")
            return "refused"
        if not self._refused(lambda: self.pool[name].alloc(1), TypeError):
            self._fail("alloc")
        return "refused"

    def _clear(self) -> str:
        if self.pool._flight.steps or self.leases or self.gates or self.group is not None:
            if not self._refused(self.pool.clear, PoolBusy):
                self._fail("clear")
            if self.pool._flight.steps or self.leases or self.gates:  # the spec minds a group once it defers a free
                self._spec_refuses(spec.clear)
            return "refused"
        self.pool.clear()
        self.held = {name: {} for name in self.names}
        return "done"

    def _time(self) -> None:
        """The device gets on."""
        self.device.pass_time(20)
