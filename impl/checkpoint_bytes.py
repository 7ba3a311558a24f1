"""The bytes of states and checkpoints: quantised, loaded and copied from slot to slot, in steps of their pools.

At home a copy is over as soon as it is launched, as far as bookkeeping goes: all that comes later at home comes behind
it. It is a step of the pool's own, so that it may stand behind an engine's step which is still in flight. On another
stream it is in flight until the caller completes it. On "meta" nothing is copied.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, TypeAlias

from poolproof.arguments import Ids, as_ids
from poolproof.checkpoint_memory import is_plain_copy
from poolproof.errors import LayoutError
from poolproof.events import Immediate
from poolproof.holds import Handle
from poolproof.page_errors import StepError
from poolproof.page_table import Pages
from poolproof.pool_steps import _check_stream
from poolproof.steps import Phase, Step

if TYPE_CHECKING:
    from poolproof.kernels.slot_copy import SlotCopy
    from poolproof.sub_pool import SubPool
    from poolproof.unified_pool import UnifiedPool

Kernel: TypeAlias = Callable[[Any, Any], None]
"""Copies slots, given by their physical pages."""


class Copy(Handle):
    """Copies in flight on a stream of the caller's.

    Attributes:
        steps: the step that they are, or one for each of two pools.
    """

    __slots__ = ("steps",)

    def __init__(self, steps: tuple[Step, ...]) -> None:
        self.steps = steps

    @property
    def is_in_flight(self) -> bool:
        """Whether it has not been completed."""
        return any(step.is_in_flight for step in self.steps)

    def complete(self) -> None:
        """The copies are over, as the caller knows: at the same place on every rank.

        Raises:
            StepError: they were before, or come after a step that is in flight. Nothing was changed.
        """
        for step in self.steps:
            step._pool._enter()
            if step.phase is not Phase.LAUNCHED:
                raise StepError(f"{step!r} is over already: complete a copy once. Nothing was changed.")
            step._pool._flight.check_first(step)
        for step in self.steps:
            step.complete()
            step.retire()

    def __repr__(self) -> str:
        return f"Copy({', '.join(map(repr, self.steps))})"


class CheckpointBytes:
    """The two directions of the codec, and copies among active slots, bound to two sub-pools once.

    Args:
        states, checkpoints: the sub-pools, of one pool or of two, which belong together.

    Raises:
        LayoutError: the two lie on different devices or streams.
    """

    def __init__(self, states: SubPool, checkpoints: SubPool) -> None:
        check_places(states._pool, checkpoints._pool)
        self._states, self._checkpoints = states, checkpoints
        self._pools = tuple(dict.fromkeys((states._pool, checkpoints._pool)))
        self._pairs: list[tuple[Step, Step]] = []
        self._store, self._load, self._copy = kernels(states, checkpoints)

    def store(self, active: Ids, checkpoints: Ids, stream: Any = None) -> Copy | None:
        """Quantise states into checkpoints; the copy, if it is on another stream than home."""
        return self._run(self._store, self._states, active, self._checkpoints, checkpoints, stream)

    def load(self, checkpoints: Ids, active: Ids, stream: Any = None) -> Copy | None:
        """Dequantise checkpoints into states; the copy, if it is on another stream than home."""
        return self._run(self._load, self._checkpoints, checkpoints, self._states, active, stream)

    def copy(self, source: Ids, target: Ids) -> None:
        """Copy states as they are, at home."""
        self._run(self._copy, self._states, source, self._states, target, None)

    def check_launched(self, stream: Any = None) -> None:
        """Raises StepError where a step at home, or on this stream, is open: a copy would overtake its work."""
        for pool in self._pools:
            for step in pool._flight.steps:
                if step.phase is Phase.OPEN and (step.stream is None or step.stream == stream):
                    raise StepError(f"{step!r} is open: launch it before slots are copied. Nothing was changed.")

    def check_source(self, active: int, stream: Any) -> None:
        """Raises what a store from this slot would, before a slot is taken for it."""
        pool = self._states._pool
        if stream is not None:
            _check_stream(stream)
            stream = pool._events.place(stream)
        self.check_launched(stream)
        if not pool._is_filled(self._states._table, active):
            pool._check_filled(self._states.name, as_ids(active))

    def _run(
        self, kernel: Kernel | None, source: SubPool, reads: Ids, target: SubPool, writes: Ids, stream: Any
    ) -> Copy | None:
        if self._pairs:
            self._end_pairs()
        pool = source._pool
        if stream is None and type(reads) is int and type(writes) is int:
            pages = pool._copy_one(source._table, reads, target._pool, target._table, writes)
            if pages is not None:
                if kernel is not None:
                    pool._events.run(None, lambda: kernel(*pages))
                return None
        steps = self._begin(source, reads, target, writes, stream)
        read, written = steps[0].reads[source.name], steps[-1].writes[target.name]
        try:
            if kernel is not None:
                _give(steps[0], lambda: kernel(_one(read), _one(written)))
        except BaseException:
            self._end(steps, failed=True)
            raise
        self._end(steps)
        return None if steps[0].own else Copy(steps)

    def _begin(self, source: SubPool, reads: Ids, target: SubPool, writes: Ids, stream: Any) -> tuple[Step, ...]:
        """The open step of a copy, or one in each pool; at home they are the pools' own."""
        pools = (source._pool,) if source._pool is target._pool else (source._pool, target._pool)
        if stream is not None:
            _check_stream(stream)
            stream = pools[0]._events.place(stream)
        self.check_launched(stream)
        if len(pools) == 1:
            step = pools[0].begin_step({source.name: reads}, {target.name: writes}, stream)
            step.own = step.stream is None
            return (step,)
        target._pool._check_live("begin_step(writes)", target._table, as_ids(writes))
        first = pools[0].begin_step({source.name: reads}, stream=stream)
        first.own = first.stream is None
        try:
            second = pools[1].begin_step(writes={target.name: writes}, stream=stream)
        except BaseException:
            self._end((first,), failed=True)
            raise
        second.own = second.stream is None
        return first, second

    def _end(self, steps: tuple[Step, ...], failed: bool = False) -> None:
        """The work of steps is on its stream. At home that ends them; what has failed is the pools' own to end."""
        for step in steps:
            step.own |= failed
            if step.own:
                step._pool._launch_own(step)
                step._pool._done("launched")
            else:
                step.launched()
        if len(steps) == 2 and steps[0].own and any(step.is_in_flight for step in steps):
            self._pairs.append((steps[0], steps[1]))

    def _end_pairs(self) -> None:
        """Where one of a copy's two steps is over, its work is, and so is the other."""
        for pair in self._pairs:
            for one, other in (pair, pair[::-1]):
                pool = other._pool
                first, ahead = pool._flight.before(other)
                if other.is_in_flight and not one.is_in_flight and first is None:
                    for own in (*ahead, other):
                        pool._end_own(own)
                    pool._done("complete")
        self._pairs = [pair for pair in self._pairs if any(step.is_in_flight for step in pair)]


def _give(step: Step, work: Callable[[], None]) -> None:
    """Do work on the stream of its step."""
    events, stream = step._pool._events, step.stream
    if stream is None:
        events.run(step, work)
    elif hasattr(events, "give"):  # a device that keeps queues of its own
        events.give(stream, work)
    else:
        with _on(stream):
            work()


def _on(stream: Any) -> Any:
    if not hasattr(stream, "cuda_stream"):
        return nullcontext()
    import torch

    return torch.cuda.stream(stream)


def _one(pages: Pages) -> Any:
    """One page as a number, which kernels take without a copy to the device."""
    return pages.item() if len(pages) == 1 else pages


def check_places(states: UnifiedPool, checkpoints: UnifiedPool) -> None:
    """Raises LayoutError where two pools are not on one device, with one home stream."""
    if states is checkpoints:
        return
    a, b = states._bytes.device, checkpoints._bytes.device
    if a != b:
        raise LayoutError(f"states are on {a!r}, checkpoints on {b!r}: make both pools on one device")
    one, other = states._events, checkpoints._events
    if one is other or (isinstance(one, Immediate) and isinstance(other, Immediate)):
        return
    homes = [getattr(getattr(events, "home", None), "cuda_stream", None) for events in (one, other)]
    if homes[0] is None or homes[0] != homes[1]:
        raise LayoutError("the pools of states and of checkpoints have different home streams: give both one `events`")


def kernels(states: SubPool, checkpoints: SubPool) -> tuple[Kernel | None, Kernel | None, Kernel | None]:
    """What stores, loads and copies states; Nones where there are no bytes."""
    if states._pool._bytes.device == "meta":
        return None, None, None
    from poolproof.kernels.copy_windows import CopyWindows
    from poolproof.kernels.whole_slots import LoadSlots, StoreSlots

    active, cached = states._pool.views(states.name), checkpoints._pool.views(checkpoints.name)
    whole = [active.temporal.flatten(2, 3), *active.conv]
    if is_plain_copy(checkpoints.layout):
        copies = [cached.temporal.flatten(2, 3), *cached.conv]
        store, load = CopyWindows(whole, copies), CopyWindows(copies, whole)
        return _kernel(store), _kernel(load), _kernel(CopyWindows(whole, whole))
    return (
        _kernel(StoreSlots(active.temporal, cached.codes, cached.scales, active.conv, cached.conv)),
        _kernel(LoadSlots(cached.codes, cached.scales, active.temporal, cached.conv, active.conv)),
        _kernel(CopyWindows(whole, whole)),
    )


def _kernel(copy: SlotCopy) -> Kernel:
    """A copy whose single slots go to its launches at once: what it checks of them, the pools have.

    On a device its kernels are compiled now, and not in the midst of serving: by a program for slots that are left out.
    """
    if copy._device.type != "cuda" or not copy.launches:
        return copy
    (each, first), *others = copy.launches
    for _, prepared in copy.launches:
        prepared.launch_one(1, -1, -1)

    def launch(source: Any, target: Any) -> None:
        """One slot at once, several as they are."""
        if type(source) is not int:
            copy(source, target)
            return
        first.launch_one(each, source, target)
        for programs, further in others:
            further.launch_one(programs, source, target)

    return launch
