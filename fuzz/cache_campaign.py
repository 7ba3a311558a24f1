"""A campaign against the state cache: one small cache after another, until one shows a fault or all is spent."""

from __future__ import annotations

import random
import shlex
from collections import Counter
from collections.abc import Callable, Collection
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from multiprocessing import get_context
from time import perf_counter
from typing import Any, Final

from poolproof.errors import LayoutError
from poolproof.fuzz.cache_canaries import CANARIES
from poolproof.fuzz.cache_driver import CacheDriver
from poolproof.fuzz.cache_layouts import draw_cache_layout
from poolproof.fuzz.cache_world import SHIPPED, Make
from poolproof.fuzz.devices import device_of
from poolproof.fuzz.errors import SettingError
from poolproof.fuzz.unified_campaign import LENGTH, Found

TARGET: Final = "state-cache"
DEFAULT_OPS: Final = 5_000
CANARY_ROUNDS: Final = 200
_ATTEMPTS: Final = 200
_BATCH: Final = 2


@dataclass
class CacheTally:
    """What some rounds came to.

    Attributes:
        rounds: caches.
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

    def add(self, other: CacheTally) -> None:
        """Add up."""
        self.rounds += other.rounds
        self.operations += other.operations
        self.steps += other.steps
        self.deepest = max(self.deepest, other.deepest)
        self.counts.update(other.counts)
        if other.failure is not None and (self.failure is None or other.failure < self.failure):
            self.failure = other.failure


@dataclass(frozen=True)
class CacheResult:
    """What a campaign came to.

    Attributes:
        canary: name of the cache that was broken on purpose, and after how many operations it was found; 0 for never.
    """

    seed: int
    seconds: float
    tally: CacheTally
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
    def reproduce(self) -> str:
        """The command that does the same again."""
        budget = ["--seed", str(self.seed), "--ops", str(self.tally.operations)]
        return shlex.join(["poolproof", "fuzz", TARGET, *options_of(self.device), *budget])

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        found, tally = self.found, self.tally
        return {
            "target": TARGET,
            "seed": self.seed,
            "device": self.device,
            "passed": self.passed,
            "seconds": round(self.seconds, 3),
            "operations": tally.operations,
            "operations_a_second": round(self.rate, 1),
            "spec_steps": tally.steps,
            "caches": tally.rounds,
            "hits": tally.counts["admit hit"],
            "quantised_at_most": tally.deepest,
            "operations_by_outcome": dict(sorted(tally.counts.items())),
            "canary": {"name": self.canary[0], "found_after": self.canary[1]},
            "failure": None if found is None else {**found.__dict__, "kept": list(found.kept)},
            "reproduce": self.reproduce,
        }


def options_of(device: str) -> list[str]:
    """The device as the command line has it; nothing where it is as by default."""
    return [] if device == "host" else ["--device", device]


def open_cache_driver(name: str, make: Make = SHIPPED, device: str = "host") -> CacheDriver:
    """A driver of the first layout drawn for this name that is possible.

    Raises:
        SettingError: none is; there is no such device.
    """
    device_of(device)
    refusal: LayoutError | None = None
    for attempt in range(_ATTEMPTS):
        try:
            return CacheDriver(name, draw_cache_layout(random.Random(f"{name}/{attempt}")), make, device)
        except LayoutError as error:
            refusal = error
    raise SettingError(f"none of {_ATTEMPTS} layouts is possible on {device}: {refusal}")


def play_cache(
    seed: int,
    number: int,
    kept: Collection[int] | None = None,
    make: Make = SHIPPED,
    with_trace: bool = False,
    device: str = "host",
) -> tuple[CacheDriver, Exception | None]:
    """One cache of a seed: the driver afterwards, and what was wrong."""
    driver = open_cache_driver(f"{seed}/{number}", make, device)
    driver.history = [] if with_trace else None
    try:
        driver.run(LENGTH, kept)
    except Exception as error:  # whatever a broken cache raises is the finding
        return driver, error
    return driver, None


def play_caches(seed: int, numbers: Collection[int], make: Make = SHIPPED, device: str = "host") -> CacheTally:
    """Some caches of a seed, one after the other, up to the first failure."""
    tally = CacheTally()
    for number in numbers:
        driver, error = play_cache(seed, number, make=make, device=device)
        failure = None if error is None else (number, driver.at, _text(error))
        deepest = driver.oracle.deepest
        tally.add(CacheTally(1, driver.checked, driver.steps, deepest, driver.counts, failure))
        if failure is not None:
            break
    return tally


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def shrink_cache(seed: int, number: int, last: int, make: Make = SHIPPED, device: str = "host") -> Found | None:
    """Leave operations out as long as the cache still shows a failure of its kind: larger parts first.

    Returns:
        None where the same operations show no failure again.
    """
    kept = list(range(last + 1))
    kind = type(play_cache(seed, number, kept, make, device=device)[1])
    if kind is type(None):
        return None
    size = max(len(kept) // 2, 1)
    while size:
        start = 0
        while start < len(kept):
            shorter = kept[:start] + kept[start + size :]
            if shorter and isinstance(play_cache(seed, number, shorter, make, device=device)[1], kind):
                kept = shorter
            else:
                start += size
        size //= 2
    driver, error = play_cache(seed, number, kept, make, True, device)
    assert error is not None
    again = ["poolproof", "fuzz", TARGET, *options_of(device), "--seed", str(seed), "--round", str(number)]
    again += ["--keep", ",".join(map(str, kept))]
    return Found(number, tuple(kept), _text(error), tuple(driver.history or ()), shlex.join(again))


def shrunk(seed: int, failure: tuple[int, int, str], device: str = "host") -> Found:
    """The failure made short; as it was, if the same cache shows none again, as a race on a device need not."""
    number, last, message = failure
    found = shrink_cache(seed, number, last, device=device)
    if found is not None:
        return found
    again = ["poolproof", "fuzz", TARGET, *options_of(device), "--seed", str(seed), "--round", str(number)]
    return Found(number, tuple(range(last + 1)), f"{message} (and not when it was run again)", (), shlex.join(again))


def look_for_cache_canary(seed: int, make: Make | None = None, device: str = "host") -> tuple[str, int]:
    """Fuzz a cache that is broken on purpose: its name, and after how many operations it was found; 0 for never."""
    broken = make or CANARIES[seed % len(CANARIES)]
    checked = 0
    for number in range(CANARY_ROUNDS):
        tally = play_caches(seed, [number], broken, device)
        checked += tally.operations
        if tally.failure is not None:
            return broken.name, checked + 1
    return broken.name, 0


def run_cache(
    seed: int,
    ops: int | None = None,
    seconds: float | None = None,
    jobs: int = 1,
    progress: Callable[[str, int, int], None] | None = None,
    device: str = "host",
) -> CacheResult:
    """Fuzz the state cache until it fails or the budget is spent.

    Args:
        seed: of everything; cache i depends on the seed and i only.
        ops: operations to reach; the last caches are finished, so there may be some more.
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

    def is_over(tally: CacheTally) -> bool:
        """Has it failed, or is the budget spent?"""
        spent = perf_counter() - started if seconds is not None else tally.operations
        show(TARGET, int(spent), int(budget))
        return tally.failure is not None or spent >= budget

    tally = _alone(seed, is_over, device) if jobs == 1 else _together(seed, jobs, is_over, device)
    elapsed = perf_counter() - started
    found = None
    if tally.failure is not None:
        show("shrinking", 0, 1)
        found = shrunk(seed, tally.failure, device)
    return CacheResult(seed, elapsed, tally, found, look_for_cache_canary(seed, device=device), device)


def _alone(seed: int, is_over: Callable[[CacheTally], bool], device: str) -> CacheTally:
    tally = CacheTally()
    while not is_over(tally):
        tally.add(play_caches(seed, [tally.rounds], device=device))
    return tally


def _together(seed: int, jobs: int, is_over: Callable[[CacheTally], bool], device: str) -> CacheTally:
    """Each process takes the next few caches."""
    tally, given = CacheTally(), 0
    context = get_context("spawn" if device == "cuda" else None)  # a device is not shared by a fork
    with ProcessPoolExecutor(jobs, context) as workers:
        running: set[Future[CacheTally]] = set()
        while not is_over(tally):
            while len(running) < 2 * jobs:
                running.add(workers.submit(play_caches, seed, range(given, given + _BATCH), device=device))
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
