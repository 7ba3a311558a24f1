"""A campaign against the unified pool: one small buffer after another, until one shows a fault or all is spent."""

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
from poolproof.fuzz.buffer_layouts import draw_layout, scaled
from poolproof.fuzz.devices import device_of
from poolproof.fuzz.errors import SettingError
from poolproof.fuzz.schedule_guards import guards_in_all
from poolproof.fuzz.unified_canaries import CANARIES
from poolproof.fuzz.unified_driver import UnifiedDriver
from poolproof.unified_pool import UnifiedPool

TARGET: Final = "unified-pool"
LENGTH: Final = 250
"""Operations on one buffer."""

GUARDED_SCALE: Final = 64
DEFAULT_OPS: Final = 20_000
CANARY_ROUNDS: Final = 400
ATTEMPTS: Final = 200
"""Layouts that are drawn for a buffer, until one is possible."""
_BATCH: Final = 8
"""Buffers that a process takes at a time."""


@dataclass(frozen=True)
class Setting:
    """Where buffers are, and how large.

    Attributes:
        device: "host", "tensor" or "cuda", see `poolproof.fuzz.devices`.
        scale: pages are so many times as large as those of a few bytes.
        guard: pools are made with `guard=True`, which must find nothing.
    """

    device: str = "host"
    scale: int = 1
    guard: bool = False

    def __post_init__(self) -> None:
        """Raises SettingError where there is no such device, or the scale is not positive."""
        device_of(self.device)
        if self.scale < 1:
            raise SettingError(f"a scale of {self.scale}; it must be 1 or more")
        if self.guard and self.scale < GUARDED_SCALE:
            raise SettingError(f"a guard needs pages larger than its red zones: a scale of {GUARDED_SCALE} or more")

    @property
    def options(self) -> list[str]:
        """As the command line has it; nothing where all is as by default."""
        given = ["--device", self.device] if self.device != "host" else []
        given += ["--scale", str(self.scale)] if self.scale != 1 else []
        return given + ["--guard"] * self.guard


SMALL: Final = Setting()


@dataclass
class Tally:
    """What some rounds came to.

    Attributes:
        rounds: buffers.
        operations: operations done or refused, and compared.
        steps: steps of the spec.
        counts: operations by name and outcome.
        actions: steps of the spec by action.
        refusals: refusals of the spec by action and guard, where the pool refused too.
        failure: the first failure: round, operation and text.
    """

    rounds: int = 0
    operations: int = 0
    steps: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    actions: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    failure: tuple[int, int, str] | None = None

    def add(self, other: Tally) -> None:
        """Add up."""
        self.rounds += other.rounds
        self.operations += other.operations
        self.steps += other.steps
        for mine, theirs in (
            (self.counts, other.counts),
            (self.actions, other.actions),
            (self.refusals, other.refusals),
        ):
            mine.update(theirs)
        if other.failure is not None and (self.failure is None or other.failure < self.failure):
            self.failure = other.failure


@dataclass(frozen=True)
class Found:
    """A failure, made as short as it was found to be possible.

    Attributes:
        round, kept: which buffer of the seed, and which of its operations.
        message: what was wrong.
        trace: what the pool did, as steps of the spec.
        reproduce: the command that shows it again.
    """

    round: int
    kept: tuple[int, ...]
    message: str
    trace: tuple[str, ...]
    reproduce: str


@dataclass(frozen=True)
class UnifiedResult:
    """What a campaign came to.

    Attributes:
        canary: name of the pool that was broken on purpose, and after how many operations it was found; 0 for never.
    """

    seed: int
    seconds: float
    tally: Tally
    found: Found | None
    canary: tuple[str, int]
    setting: Setting = SMALL

    @property
    def passed(self) -> bool:
        """Was there no failure, and is the fuzzer not blind?"""
        return self.found is None and self.canary[1] > 0

    @property
    def reproduce(self) -> str:
        """The command that does the same again."""
        budget = ["--seed", str(self.seed), "--ops", str(self.tally.operations)]
        return shlex.join(["poolproof", "fuzz", TARGET, *self.setting.options, *budget])

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        found, tally = self.found, self.tally
        return {
            "target": TARGET,
            "seed": self.seed,
            "device": self.setting.device,
            "scale": self.setting.scale,
            "guard": self.setting.guard,
            "passed": self.passed,
            "seconds": round(self.seconds, 3),
            "operations": tally.operations,
            "spec_steps": tally.steps,
            "buffers": tally.rounds,
            "operations_by_outcome": dict(sorted(tally.counts.items())),
            "actions": dict(sorted(tally.actions.items())),
            "refusals": dict(sorted(tally.refusals.items())),
            "guards": {"said_no": len(tally.refusals), "of": guards_in_all()},
            "canary": {"name": self.canary[0], "found_after": self.canary[1]},
            "failure": None if found is None else {**found.__dict__, "kept": list(found.kept)},
            "reproduce": self.reproduce,
        }


def open_driver(name: str, make: Callable[..., UnifiedPool] = UnifiedPool, setting: Setting = SMALL) -> UnifiedDriver:
    """A driver of the first layout drawn for this name that is possible.

    Raises:
        SettingError: none is, as where a device has no memory for any.
    """
    refusal: LayoutError | None = None
    for attempt in range(ATTEMPTS):
        layout = scaled(*draw_layout(random.Random(f"{name}/{attempt}")), setting.scale)
        try:
            return UnifiedDriver(name, *layout, make, device_of(setting.device), setting.guard)
        except LayoutError as error:
            refusal = error
    raise SettingError(f"none of {ATTEMPTS} layouts is possible with {setting}: {refusal}")


def play(
    seed: int,
    number: int,
    kept: Collection[int] | None = None,
    make: Callable[..., UnifiedPool] = UnifiedPool,
    with_trace: bool = False,
    setting: Setting = SMALL,
) -> tuple[UnifiedDriver, Exception | None]:
    """One buffer of a seed: the driver afterwards, and what was wrong."""
    driver = open_driver(f"{seed}/{number}", make, setting)
    driver.shadow.history = [] if with_trace else None
    try:
        driver.run(LENGTH, kept)
    except Exception as error:  # whatever a broken pool raises is the finding
        return driver, error
    return driver, None


def play_rounds(
    seed: int, numbers: Collection[int], make: Callable[..., UnifiedPool] = UnifiedPool, setting: Setting = SMALL
) -> Tally:
    """Some buffers of a seed, one after the other, up to the first failure."""
    tally = Tally()
    for number in numbers:
        driver, error = play(seed, number, make=make, setting=setting)
        failure = None if error is None else (number, driver.at, f"{type(error).__name__}: {error}")
        refusals = Counter({f"{action}: {guard}": n for (action, guard), n in driver.refusals.items()})
        tally.add(
            Tally(
                1,
                driver.checked,
                driver.shadow.taken,
                driver.counts,
                Counter(driver.shadow.counts),
                refusals,
                failure,
            )
        )
        if failure is not None:
            break
    return tally


def shrink(
    seed: int, number: int, last: int, make: Callable[..., UnifiedPool] = UnifiedPool, setting: Setting = SMALL
) -> Found:
    """Leave operations out as long as the buffer still shows a failure: larger parts first, then one by one."""
    kept = list(range(last + 1))
    size = max(len(kept) // 2, 1)
    while size:
        start = 0
        while start < len(kept):
            shorter = kept[:start] + kept[start + size :]
            if shorter and play(seed, number, shorter, make, setting=setting)[1] is not None:
                kept = shorter
            else:
                start += size
        size //= 2
    driver, error = play(seed, number, kept, make, True, setting)
    numbers = ",".join(map(str, kept))
    again = ["poolproof", "fuzz", TARGET, *setting.options, "--seed", str(seed)]
    again += ["--round", str(number), "--keep", numbers]
    message = f"{type(error).__name__}: {error}"
    return Found(number, tuple(kept), message, tuple(driver.shadow.history or ()), shlex.join(again))


def shrink_or_keep(seed: int, failure: tuple[int, int, str], setting: Setting = SMALL) -> Found:
    """The failure made short; as it was, if the same buffer shows none again, as a race on a device need not."""
    number, last, message = failure
    if play(seed, number, range(last + 1), setting=setting)[1] is not None:
        return shrink(seed, number, last, setting=setting)
    again = ["poolproof", "fuzz", TARGET, *setting.options, "--seed", str(seed), "--round", str(number)]
    return Found(number, tuple(range(last + 1)), f"{message} (and not when it was run again)", (), shlex.join(again))


def look_for_canary(
    seed: int, make: Callable[..., UnifiedPool] | None = None, setting: Setting = SMALL
) -> tuple[str, int]:
    """Fuzz a pool that is broken on purpose: its name, and after how many operations it was found; 0 for never."""
    broken = make or CANARIES[seed % len(CANARIES)]
    checked = 0
    for number in range(CANARY_ROUNDS):
        tally = play_rounds(seed, [number], broken, setting)
        checked += tally.operations
        if tally.failure is not None:
            return getattr(broken, "__name__", "?"), checked + 1
    return getattr(broken, "__name__", "?"), 0


def run_unified(
    seed: int,
    ops: int | None = None,
    seconds: float | None = None,
    jobs: int = 1,
    progress: Callable[[str, int, int], None] | None = None,
    setting: Setting = SMALL,
) -> UnifiedResult:
    """Fuzz the unified pool until it fails or the budget is spent.

    Args:
        seed: of everything; buffer i depends on the seed and i only.
        ops: operations to reach; the last buffers are finished, so there may be some more.
        seconds: time to spend instead.
        jobs: processes.
        progress: called now and then.
        setting: where the buffers are, and how large.

    Raises:
        SettingError: both budgets are given, or one that is not positive.
    """
    if ops is not None and seconds is not None:
        raise SettingError("a campaign is given a number of operations or a time, not both")
    budget = seconds if seconds is not None else DEFAULT_OPS if ops is None else ops
    if not budget > 0:
        raise SettingError(f"a budget of {budget}; it must be more than zero")
    started, show = perf_counter(), progress or (lambda what, done, of: None)

    def is_over(tally: Tally) -> bool:
        """Has it failed, or is the budget spent?"""
        spent = perf_counter() - started if seconds is not None else tally.operations
        show(TARGET, int(spent), int(budget))
        return tally.failure is not None or spent >= budget

    tally = _alone(seed, is_over, setting) if jobs == 1 else _together(seed, jobs, is_over, setting)
    elapsed = perf_counter() - started
    found = None
    if tally.failure is not None:
        show("shrinking", 0, 1)
        found = shrink_or_keep(seed, tally.failure, setting)
    return UnifiedResult(seed, elapsed, tally, found, look_for_canary(seed, setting=setting), setting)


def _alone(seed: int, is_over: Callable[[Tally], bool], setting: Setting) -> Tally:
    tally = Tally()
    while not is_over(tally):
        tally.add(play_rounds(seed, [tally.rounds], setting=setting))
    return tally


def _together(seed: int, jobs: int, is_over: Callable[[Tally], bool], setting: Setting) -> Tally:
    """Each process takes the next few buffers."""
    tally, given = Tally(), 0
    context = get_context("spawn" if setting.device == "cuda" else None)  # a device is not shared by a fork
    with ProcessPoolExecutor(jobs, context) as workers:
        running: set[Future[Tally]] = set()
        while not is_over(tally):
            while len(running) < 2 * jobs:
                running.add(workers.submit(play_rounds, seed, range(given, given + _BATCH), setting=setting))
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
