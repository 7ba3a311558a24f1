"""A simulated device: streams and waits as a partial order, every access an event of its own, bytes with labels.

It is told what the program does and believes none of the spec's tables; who has an id, and what he wrote there, it
keeps count of itself. An access may happen as soon as all that its step is behind of has completed, and at the latest
when its step completes; which of them happens when is random. Within a step only accesses of the same bytes are in
order, and those of two copies not even then. Pages are looked up in the tables as they were when the step began.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field
from typing import Any

UNKNOWN = -7
ZERO = 0


class Broken(AssertionError):
    """A promise that was not kept."""


@dataclass
class Access:
    """A read, with what it was promised, or a write, with what it brings; `copy` numbers the copy that it is of."""

    begin: int
    labels: list[int]
    is_write: bool
    copy: int = 0
    done: bool = False

    def overlaps(self, other: Access) -> bool:
        """Have they a byte in common?"""
        return self.begin < other.begin + len(other.labels) and other.begin < self.begin + len(self.labels)

    def is_after(self, other: Access) -> bool:
        """Must it, of the same step and added later, happen after the other one?"""
        if self.copy and other.copy:
            return self.copy == other.copy
        return (self.is_write or other.is_write) and self.overlaps(other)


@dataclass
class Running:
    """A step in flight, or over; the pages and the tenants of the ids are those that it saw when it began."""

    stream: int
    number: int
    tables: dict[tuple[int, int], int]
    tenants: dict[tuple[int, int], int]
    behind: set[int] = field(default_factory=set)
    accesses: list[Access] = field(default_factory=list)


class Device:
    """The device, and what the program has said so far."""

    def __init__(self, sizes: dict[str, Any], draw: random.Random) -> None:
        self.size: tuple[int, ...] = sizes["page_bytes"]
        self.zeroed: tuple[bool, ...] = sizes["zeroed"]
        self.total: int = sizes["total"]
        self.draw = draw
        self.numbers = itertools.count(1)
        self.bytes = [UNKNOWN - 1 - b for b in range(self.total)]
        self.said = list(self.bytes)
        self.steps: dict[int, Running] = {}
        self.over: dict[int, Running] = {}
        self.gates: list[set[int]] = [set() for _ in self.size]
        self.leases: set[tuple[int, int, int]] = set()
        self.deferred: set[tuple[int, int]] = set()
        self.completed = self.kept = self.early = self.published = 0
        self.forget()

    def forget(self) -> None:
        """No id has a page."""
        self.page: dict[tuple[int, int], int] = {}
        self.tenant: dict[tuple[int, int], int] = {}
        self.wrote: dict[tuple[int, int], list[int]] = {}
        self.pending: set[tuple[int, int]] = set()
        self.holes: set[tuple[int, int]] = set()
        self.to_zero: set[tuple[int, int]] = set()

    # ------------------------------------------------------------------------------------------------ partial order

    def predecessors(self, s: int) -> list[int]:
        """The steps in flight that must complete before a step goes ahead."""
        own = self.steps[s]
        return [
            t for t, o in self.steps.items() if (o.stream == own.stream and o.number < own.number) or t in own.behind
        ]

    def ready(self, s: int) -> list[Access]:
        """The accesses of a step that may happen now: its predecessors are over, and it is none of its own behind."""
        if self.predecessors(s):
            return []
        own = self.steps[s].accesses
        return [a for n, a in enumerate(own) if not a.done and all(b.done or not a.is_after(b) for b in own[:n])]

    def happens(self, access: Access) -> None:
        """One access takes place."""
        place = slice(access.begin, access.begin + len(access.labels))
        if access.is_write:
            self.bytes[place] = access.labels
        else:
            pairs = list(zip(self.bytes[place], access.labels, strict=True))
            if any(promised != UNKNOWN and found != promised for found, promised in pairs):
                raise Broken(f"a step was promised {access.labels}, and has read {self.bytes[place]}")
            self.kept += 1
        access.done = True

    def proceeds(self) -> None:
        """Some accesses happen, in any order that is possible."""
        while self.draw.random() < 0.5:
            ready = [access for s in self.steps for access in self.ready(s)]
            if not ready:
                return
            self.happens(self.draw.choice(ready))
            self.early += 1

    # -------------------------------------------------------------------------------------------------- the program

    def hears(self, name: str, arguments: tuple[Any, ...]) -> None:
        """The program has done something; then the device goes on."""
        getattr(self, f"on_{name}", lambda *ignored: None)(*arguments)
        self.proceeds()

    def labels(self, k: int, page: int) -> list[int]:
        """What the program says of a page."""
        return self.said[page * self.size[k] : (page + 1) * self.size[k]]

    def says(self, k: int, page: int, labels: list[int]) -> None:
        """The program says what a page holds from now on."""
        self.said[page * self.size[k] : (page + 1) * self.size[k]] = labels

    def add(self, s: int, k: int, page: int, labels: list[int], is_write: bool, copy: int = 0) -> None:
        """An access is added to a step."""
        self.steps[s].accesses.append(Access(page * self.size[k], labels, is_write, copy))

    def is_free(self, k: int, page: int) -> None:
        """Nobody outside may still have bytes that are given to somebody."""
        wanted = Access(page * self.size[k], [0] * self.size[k], True)
        kept = {(j, other) for _, j, other in self.leases} | self.deferred | self.pending
        for j, other in kept | {(j, other) for (j, _), other in self.page.items()}:
            if wanted.overlaps(Access(other * self.size[j], [0] * self.size[j], True)):
                raise Broken(f"page {page} of {k} is given away, and overlaps page {other} of {j}")

    def on_begin(self, s: int, stream: int) -> None:
        """A step begins, where none is in flight and the results of none are still to be dealt with."""
        if s in self.steps or s in self.over:
            raise Broken(f"step {s} begins, and is not dealt with")
        self.steps[s] = Running(stream, next(self.numbers), dict(self.page), dict(self.tenant))

    def on_wait_for(self, s: int, t: int) -> None:
        """A step waits for another."""
        self.steps[s].behind.add(t)

    def on_read(self, s: int, k: int, v: int) -> None:
        """A step will read, and is promised what the id's owner wrote last; or zeros, where they are promised."""
        promised = self.labels(k, self.page[k, v])
        if promised != self.wrote.get((k, v), [ZERO] * self.size[k] if self.zeroed[k] else None):
            raise Broken(f"id {v} of {k} is read as {promised}, its owner wrote {self.wrote.get((k, v))}")
        self.add(s, k, self.steps[s].tables.get((k, v), 0), promised, False)

    def on_write_page(self, s: int, k: int, v: int, stamp: int) -> None:
        """A step will write something new."""
        written = [1000 * stamp + i for i in range(self.size[k])]
        self.says(k, self.page[k, v], written)
        self.wrote[k, v] = written
        self.add(s, k, self.steps[s].tables.get((k, v), 0), written, True)

    def on_zero(self, s: int, k: int, page: int) -> None:
        """A step will write zeros."""
        self.to_zero.discard((k, page))
        self.says(k, page, [ZERO] * self.size[k])
        self.add(s, k, page, [ZERO] * self.size[k], True)

    def on_relocate(self, s: int, k: int, v: int, hole: int) -> None:
        """A step will copy a page."""
        source, copied = self.page[k, v], self.labels(k, self.page[k, v])
        if self.gates[k] or any((j, other) == (k, source) for _, j, other in self.leases):
            raise Broken(f"page {source} of {k} moves, though it was to stay")
        self.holes.discard((k, hole))
        self.is_free(k, hole)
        copy = next(self.numbers)
        self.add(s, k, source, copied, False, copy)
        self.add(s, k, hole, [-1000 * copy if label == UNKNOWN else label for label in copied], True, copy)
        self.says(k, hole, copied)
        self.page[k, v] = hole
        self.pending.add((k, source))

    def on_complete(self, s: int) -> None:
        """A step is over: whatever of it has not happened yet happens now."""
        if self.predecessors(s):
            raise Broken(f"step {s} has completed before {self.predecessors(s)}")
        while ready := self.ready(s):
            self.happens(self.draw.choice(ready))
        self.over[s] = self.steps.pop(s)
        if not all(access.done for access in self.over[s].accesses):
            raise Broken(f"step {s} was never done")
        for other in self.steps.values():
            other.behind.discard(s)
        self.completed += 1

    def on_retire(self, s: int) -> None:
        """What it brought has been dealt with."""
        del self.over[s]

    def on_lease_page(self, lease: int, k: int, v: int) -> None:
        """Somebody outside has the page's address."""
        self.leases.add((lease, k, self.page[k, v]))

    def on_release_page(self, lease: int, k: int, page: int) -> None:
        """He no longer uses it."""
        self.leases.remove((lease, k, page))

    def on_close_gate(self, lease: int, k: int) -> None:
        """Nothing moves."""
        if lease in self.gates[k]:
            raise Broken(f"{lease} has closed the gate of {k} already")
        self.gates[k].add(lease)

    def on_open_gate(self, lease: int, k: int) -> None:
        """One reason less for that."""
        if lease not in self.gates[k]:
            raise Broken(f"{lease} opens the gate of {k}, which he has not closed")
        self.gates[k].discard(lease)

    def on_publish(self, s: int, k: int, v: int) -> None:
        """After a step others may read the page: its tenant is whom the step saw, and his bytes have arrived."""
        if self.over[s].tenants.get((k, v)) != self.tenant[k, v]:
            raise Broken(f"id {v} of {k} is published, and is not the one that step {s} saw")
        page = self.page[k, v]
        held = self.bytes[page * self.size[k] : (page + 1) * self.size[k]]
        if held != self.wrote.get((k, v)):
            raise Broken(f"id {v} of {k} is published, its owner wrote {self.wrote.get((k, v))}, the device has {held}")
        self.published += 1

    def on_take_frontier(self, k: int, v: int, page: int) -> None:
        """An id is given a page; nothing is known of it until it is zeroed, where that is promised."""
        self.is_free(k, page)
        self.holes.discard((k, page))
        self.page[k, v] = page
        self.tenant[k, v] = next(self.numbers)
        if self.zeroed[k]:
            self.to_zero.add((k, page))
            self.says(k, page, [UNKNOWN] * self.size[k])

    on_take_hole = on_take_frontier

    def on_let_go(self, k: int, v: int) -> None:
        """An id loses its page."""
        page = self.page.pop((k, v))
        del self.tenant[k, v]
        self.wrote.pop((k, v), None)
        self.pending.add((k, page))
        self.to_zero.discard((k, page))

    def on_let_go_later(self, k: int, v: int) -> None:
        """The same, and the page is kept for the group."""
        self.deferred.add((k, self.page[k, v]))
        self.on_let_go(k, v)

    def on_end_group(self) -> None:
        """The group keeps nothing."""
        self.deferred.clear()

    def on_take_back(self, k: int, page: int) -> None:
        """A pending page is a hole."""
        self.pending.remove((k, page))
        self.is_free(k, page)
        self.holes.add((k, page))

    def on_widen(self, k: int, page: int) -> None:
        """A hole more."""
        self.is_free(k, page)
        self.holes.add((k, page))

    def on_clear(self) -> None:
        """Everything is free, and nothing may be open."""
        if self.steps or self.leases or self.deferred or any(self.gates):
            raise Broken("a clear while something is open")
        self.forget()

    # --------------------------------------------------------------------------------------------------- comparison

    def credit(self, k: int) -> int:
        """The holes of a sub-pool, if every page of it could be moved now."""
        away = [a for step in self.steps.values() if step.stream for a in step.accesses]
        mine = {page for j, page in [*((j, p) for (j, _), p in self.page.items()), *self.holes] if j == k}
        pages = [Access(page * self.size[k], [0] * self.size[k], True) for page in mine]
        busy = any(a.overlaps(page) for a in away for page in pages)
        held = {j for j, _ in (*self.pending, *self.to_zero, *((j, page) for _, j, page in self.leases))}
        return 0 if self.gates[k] or k in held or busy else sum(j == k for j, _ in self.holes)

    def compares(self, pool: Any) -> None:
        """The spec's tables say the same, and a credit that it remembers is right."""
        for k in range(len(self.size)):
            given_up = {page for j, page in self.holes if j == k} - set(pool.buffer.holes[k])
            if any(pool.buffer.first[k] <= page < pool.buffer.last[k] for page in given_up):
                raise Broken(f"pages {given_up} of {k} are no holes")
            self.holes -= {(k, page) for page in given_up}
            if pool.memo_holds[k] and pool.memo[k] != self.credit(k):
                raise Broken(f"the credit of {k} is remembered as {pool.memo[k]}, and is {self.credit(k)}")
            if pool.gates[k] != len(self.gates[k]):
                raise Broken(f"{pool.gates[k]} gates of {k} are closed, by {self.gates[k]}")
        if {key: page for key, page in pool.buffer.physical.items() if key[1] and page >= 0} != self.page:
            raise Broken("ids lead to other pages")
        if {key for key, is_filled in pool.filled.items() if is_filled} != set(self.wrote):
            raise Broken(f"other ids are filled than {set(self.wrote)}")
        if not self.steps and any(
            pool.device[b] != 0 and self.bytes[b] // 1000 != pool.device[b]
            for b in range(self.total)
            if self.said[b] >= 1000
        ):
            raise Broken("all is done, and the device holds something else")
