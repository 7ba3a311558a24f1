"""Campaigns in rounds: one small random use of a target after another, until one shows a fault or all is spent.

What is under test, and how it is used, is a `Subject`. A round depends on the seed and its number alone.
"""

from __future__ import annotations

import random
import shlex
from collections import Counter
from collections.abc import Callable, Collection
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from multiprocessing import get_context
from time import perf_counter
from typing import Any, Final, Protocol, TypeVar

from poolproof.errors import LayoutError
from poolproof.fuzz.cache_layouts import CacheLayout, draw_cache_layout
from poolproof.fuzz.cache_world import SHIPPED, Make
from poolproof.fuzz.devices import device_of
from poolproof.fuzz.errors import SettingError
from poolproof.fuzz.unified_campaign import LENGTH, Found

DEFAULT_OPS: Final = 5_000
CANARY_ROUNDS: Final = 200
_ATTEMPTS: Final = 200
_BATCH: Final = 2

Progress = Callable[[str, int, int], None]


class RoundDriver(Protocol):
    """One round: a target, and what is done with it.

    Attributes:
        layout: what the target was made from.
        checked: operations done or refused, and compared.
        at: the number of the operation under way.
        counts: operations by name and outcome.
        history: every operation as text, where it is a list.
    """

    layout: Any
    checked: int
    at: int
    counts: Counter[str]
    history: list[str] | None

    @property
    def steps(self) -> int:
        """Steps of the specs that were taken."""

    @property
    def deepest(self) -> int:
        """How often something of a state that was loaded was quantised at most."""

    def run(self, operations: int, kept: Collection[int] | None = None) -> None:
        """So many operations, or those of them whose numbers are kept."""


Driver = TypeVar("Driver", bound=RoundDriver)


@dataclass(frozen=True)
class Subject:
    """What campaigns are against.

    Attributes:
        target: its name on the command line.
        open: the driver of a round, by a name that everything is drawn from, the classes under test and the device. A
            function of a module, so that processes can be told of it.
        canaries: what is broken on purpose.
        noun: what a round is about.
        hit: name and outcome of the operation that restores a checkpoint.
        shipped: what is not.
    """

    target: str
    open: Callable[[str, Make, str], RoundDriver]
    canaries: tuple[Make, ...]
    noun: str
    hit: str
    shipped: Make = SHIPPED

    def command(self, seed: int, device: str, *more: str) -> str:
        """The command line of a campaign or a round."""
        options = [] if device == "host" else ["--device", device]
        return shlex.join(["poolproof", "fuzz", self.target, *options, "--seed", str(seed), *more])


@dataclass
class Tally:
    """What some rounds came to.

    Attributes:
        rounds: how many.
        operations: operations done or refused, and compared.
        steps: steps of the specs.
        deepest: how often something of a state that was loaded was quantised at most.
        counts: operations by name and outcome.
        failure: the first failure: round, operation and text.
    """

    rounds: int = 0
    operations: int = 0
    steps: int = 0
    deepest: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    failure: tuple[int, int, str] | None = None

    def add(self, other: Tally) -> None:
        """Add up."""
        self.rounds += other.rounds
        self.operations += other.operations
        self.steps += other.steps
        self.deepest = max(self.deepest, other.deepest)
        self.counts.update(other.counts)
        if other.failure is not None and (self.failure is None or other.failure < self.failure):
            self.failure = other.failure


@dataclass(frozen=True)
class RoundResult:
    """What a campaign came to.

    Attributes:
        canary: name of what was broken on purpose, and after how many operations it was found; 0 for never.
    """

    subject: Subject
    seed: int
    seconds: float
    tally: Tally
    found: Found | None
    canary: tuple[str, int]
    device: str = "host"

    @property
    def passed(self) -> bool:
        """Was there no failure, and is the fuzzer not blind?"""
        return self.found is None and self.canary[1] > 0

    @property
    def rate(self) -> float:
        """Operations a second."""
        return self.tally.operations / max(self.seconds, 1e-9)

    @property
    def hits(self) -> int:
        """Checkpoints that were restored."""
        return self.tally.counts[self.subject.hit]

    @property
    def reproduce(self) -> str:
        """The command that does the same again."""
        return self.subject.command(self.seed, self.device, "--ops", str(self.tally.operations))

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        found, tally = self.found, self.tally
        return {
            "target": self.subject.target,
            "seed": self.seed,
            "device": self.device,
            "passed": self.passed,
            "seconds": round(self.seconds, 3),
            "operations": tally.operations,
            "operations_a_second": round(self.rate, 1),
            "spec_steps": tally.steps,
            f"{self.subject.noun}s": tally.rounds,
            "hits": self.hits,
            "quantised_at_most": tally.deepest,
            "operations_by_outcome": dict(sorted(tally.counts.items())),
            "canary": {"name": self.canary[0], "found_after": self.canary[1]},
            "failure": None if found is None else {**found.__dict__, "kept": list(found.kept)},
            "reproduce": self.reproduce,
        }


def open_possible(name: str, device: str, make: Callable[[CacheLayout], Driver]) -> Driver:
    """A driver of the first layout drawn for this name that is possible.

    Raises:
        SettingError: none is; there is no such device.
    """
    device_of(device)
    refusal: LayoutError | None = None
    for attempt in range(_ATTEMPTS):
        try:
            return make(draw_cache_layout(random.Random(f"{name}/{attempt}")))
        except LayoutError as error:
            refusal = error
    raise SettingError(f"none of {_ATTEMPTS} layouts is possible on {device}: {refusal}")


def play_round(
    subject: Subject,
    seed: int,
    number: int,
    kept: Collection[int] | None = None,
    make: Make | None = None,
    with_trace: bool = False,
    device: str = "host",
) -> tuple[RoundDriver, Exception | None]:
    """One round of a seed: the driver afterwards, and what was wrong."""
    driver = subject.open(f"{seed}/{number}", make or subject.shipped, device)
    driver.history = [] if with_trace else None
    try:
        driver.run(LENGTH, kept)
    except Exception as error:  # whatever a broken target raises is the finding
        return driver, error
    return driver, None


def play_rounds(
    subject: Subject, seed: int, numbers: Collection[int], make: Make | None = None, device: str = "host"
) -> Tally:
    """Some rounds of a seed, one after the other, up to the first failure."""
    tally = Tally()
    for number in numbers:
        driver, error = play_round(subject, seed, number, make=make, device=device)
        failure = None if error is None else (number, driver.at, text_of(error))
        tally.add(Tally(1, driver.checked, driver.steps, driver.deepest, driver.counts, failure))
        if failure is not None:
            break
    return tally


def text_of(error: Exception) -> str:
    """A failure in one line."""
    return f"{type(error).__name__}: {error}"


def shrink_round(
    subject: Subject, seed: int, number: int, last: int, make: Make | None = None, device: str = "host"
) -> Found | None:
    """Leave operations out as long as the round still shows a failure of its kind: larger parts first.

    Returns:
        None where the same operations show no failure again.
    """
    kept = list(range(last + 1))
    kind = type(play_round(subject, seed, number, kept, make, device=device)[1])
    if kind is type(None):
        return None
    size = max(len(kept) // 2, 1)
    while size:
        start = 0
        while start < len(kept):
            shorter = kept[:start] + kept[start + size :]
            if shorter and isinstance(play_round(subject, seed, number, shorter, make, device=device)[1], kind):
                kept = shorter
            else:
                start += size
        size //= 2
    driver, error = play_round(subject, seed, number, kept, make, True, device)
    assert error is not None
    again = subject.command(seed, device, "--round", str(number), "--keep", ",".join(map(str, kept)))
    return Found(number, tuple(kept), text_of(error), tuple(driver.history or ()), again)


def shorten(subject: Subject, seed: int, failure: tuple[int, int, str], device: str = "host") -> Found:
    """The failure made short; as it was, if the same round shows none again, as a race on a device need not."""
    number, last, message = failure
    found = shrink_round(subject, seed, number, last, device=device)
    if found is not None:
        return found
    again = subject.command(seed, device, "--round", str(number))
    return Found(number, tuple(range(last + 1)), f"{message} (and not when it was run again)", (), again)


def look_for_canary(subject: Subject, seed: int, make: Make | None = None, device: str = "host") -> tuple[str, int]:
    """Fuzz what is broken on purpose: its name, and after how many operations it was found; 0 for never."""
    broken = make or subject.canaries[seed % len(subject.canaries)]
    checked = 0
    for number in range(CANARY_ROUNDS):
        tally = play_rounds(subject, seed, [number], broken, device)
        checked += tally.operations
        if tally.failure is not None:
            return broken.name, checked + 1
    return broken.name, 0


def run_rounds(
    subject: Subject,
    seed: int,
    ops: int | None = None,
    seconds: float | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
    device: str = "host",
) -> RoundResult:
    """Fuzz until something fails or the budget is spent.

    Args:
        subject: what is fuzzed.
        seed: of everything; round i depends on the seed and i only.
        ops: operations to reach; the last rounds are finished, so there may be some more.
        seconds: time to spend instead.
        jobs: processes.
        progress: called now and then.
        device: "host", "tensor" or "cuda", see `poolproof.fuzz.devices`.

    Raises:
        SettingError: both budgets are given, or one that is not positive; there is no such device.
    """
    device_of(device)
    if ops is not None and seconds is not None:
        raise SettingError("a campaign is given a number of operations or a time, not both")
    budget = seconds if seconds is not None else DEFAULT_OPS if ops is None else ops
    if not budget > 0:
        raise SettingError(f"a budget of {budget}; it must be more than zero")
    started, show = perf_counter(), progress or (lambda what, done, of: None)

    def is_over(tally: Tally) -> bool:
        """Has it failed, or is the budget spent?"""
        spent = perf_counter() - started if seconds is not None else tally.operations
        show(subject.target, int(spent), int(budget))
        return tally.failure is not None or spent >= budget

    tally = _alone(subject, seed, is_over, device) if jobs == 1 else _together(subject, seed, jobs, is_over, device)
    elapsed = perf_counter() - started
    found = None
    if tally.failure is not None:
        show("shrinking", 0, 1)
        found = shorten(subject, seed, tally.failure, device)
    return RoundResult(subject, seed, elapsed, tally, found, look_for_canary(subject, seed, device=device), device)


def _alone(subject: Subject, seed: int, is_over: Callable[[Tally], bool], device: str) -> Tally:
    tally = Tally()
    while not is_over(tally):
        tally.add(play_rounds(subject, seed, [tally.rounds], device=device))
    return tally


def _together(subject: Subject, seed: int, jobs: int, is_over: Callable[[Tally], bool], device: str) -> Tally:
    """Each process takes the next few rounds."""
    tally, given = Tally(), 0
    context = get_context("spawn" if device == "cuda" else None)  # a device is not shared by a fork
    with ProcessPoolExecutor(jobs, context) as workers:
        running: set[Future[Tally]] = set()
        while not is_over(tally):
            while len(running) < 2 * jobs:
                running.add(workers.submit(play_rounds, subject, seed, range(given, given + _BATCH), device=device))
                given += _BATCH
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for one in done:
                tally.add(one.result())
        for one in running:
            one.cancel()
        for one in running:
            if not one.cancelled():
                tally.add(one.result())
    return tally
