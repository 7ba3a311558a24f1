"""What checkpoints take: bytes by part before anything is allocated, and whether a device has them."""

from __future__ import annotations

import os
from math import prod
from pathlib import Path
from typing import Any, Final, NamedTuple

from poolproof.arguments import as_count
from poolproof.errors import LayoutError
from poolproof.spec.codec import FORMATS
from poolproof.sub_pool import SubPool
from poolproof.sub_pools import Checkpoints, Codec, Resolved, StateSlots, resolve

_MEMORY: Final = Path("/proc/meminfo")


class CheckpointMemory(NamedTuple):
    """Bytes of so many checkpoint slots.

    Attributes:
        qdata: of the int8 codes; of the temporal states where checkpoints are plain copies.
        scale: of the scales; 0 where they are plain copies.
        conv: of the conv windows.
        total: of a buffer of its own that holds them, padding and the slot of the sink included.
    """

    qdata: int
    scale: int
    conv: int
    total: int


def declaration_of(states: SubPool | Resolved | StateSlots) -> StateSlots:
    """The declaration that slots of these states have.

    Raises:
        LayoutError: it is a sub-pool of another kind.
        TypeError: it is no sub-pool at all.
    """
    if isinstance(states, StateSlots):
        return states
    layout = states.layout if isinstance(states, SubPool) else states
    if not isinstance(layout, Resolved):
        raise TypeError(f"states are a sub-pool, its layout or StateSlots, not {states!r}"[:200])
    if layout.kind != "state":
        raise LayoutError(f"sub-pool {layout.name!r} is of kind {layout.kind!r}: checkpoints are of StateSlots")
    conv: list[Any] = list(layout.shapes[1:])
    temporal: Any = layout.shapes[0]
    return StateSlots(
        layout.name,
        layers=layout.layout.layers,
        conv_shapes=conv,
        temporal_shape=temporal,
        conv_dtype=layout.dtypes[1] if conv else layout.dtypes[0],
        temporal_dtype=layout.dtypes[0],
    )


def standalone(states: SubPool | Resolved | StateSlots, codec: Codec = "int8") -> Checkpoints:
    """Checkpoints of these states as the one sub-pool of a buffer."""
    return Checkpoints("checkpoint", of=declaration_of(states), codec=codec, grows="up")


def estimate(states: SubPool | Resolved | StateSlots, slots: int, codec: Codec = "int8") -> CheckpointMemory:
    """What so many checkpoints of these states take.

    Raises:
        LayoutError: states are of another kind, or of a dtype that the codec does not take.
        TypeError, ValueError: slots is no integer or negative.
    """
    slots = as_count("slots", slots)
    layout = resolve([standalone(states, codec)])[0]
    sizes = {
        part.name: slots * layout.layout.layers * prod(shape) * part.item_bytes
        for shape, part in zip(layout.shapes, layout.layout.parts, strict=True)
    }
    qdata, scale = sizes.pop("temporal"), sizes.pop("scale", 0)
    return CheckpointMemory(qdata, scale, sum(sizes.values()), (slots + 1) * layout.page_bytes)


def slots_of(sub_pool: SubPool) -> int:
    """How many slots the buffer has for a sub-pool that has all of it: those of the sink are not counted."""
    pool, size = sub_pool._pool, sub_pool.layout.page_bytes
    return pool.total_bytes // size - -(-pool.sink_bytes // size)


def free_memory(device: str) -> int | None:
    """Bytes that a device has free; None where that does not matter or cannot be known."""
    if device == "meta":
        return None
    if device.startswith("cuda"):
        import torch

        where = torch.device(device)
        free, _ = torch.cuda.mem_get_info(where)
        return int(free + torch.cuda.memory_reserved(where) - torch.cuda.memory_allocated(where))
    for line in _MEMORY.read_text().splitlines() if _MEMORY.exists() else ():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def check_memory(need: CheckpointMemory, slots: int, free: int | None, device: str) -> None:
    """Raises LayoutError where the buffer of so many slots is more than the device has free."""
    if free is None or need.total <= free:
        return
    each = need.total // (slots + 1)
    most = max(free // each - 1, 0)
    raise LayoutError(
        f"{slots} checkpoints take {need.total} bytes ({need.qdata} of codes, {need.scale} of scales, {need.conv} of "
        f"conv windows, {each} a slot), and {device} has {free} free: make slots {most} or fewer, make the other pools "
        f"of the device smaller, or plan with device='meta'. Nothing was allocated."
    )


def is_plain_copy(checkpoints: Resolved) -> bool:
    """Are these checkpoints as large as their states, without a codec?"""
    return all(part.name != "scale" for part in checkpoints.layout.parts)


def check_pair(states: SubPool, checkpoints: SubPool) -> None:
    """Raises LayoutError where checkpoints of one sub-pool are not those of the other one's states."""
    for what, sub_pool in (("states", states), ("checkpoints", checkpoints)):
        if not isinstance(sub_pool, SubPool):
            raise TypeError(f"{what} must be a sub-pool such as pool['state'], not {sub_pool!r}"[:200])
    one, other = states.layout, checkpoints.layout
    if other.kind != "checkpoint":
        raise LayoutError(f"sub-pool {other.name!r} is of kind {other.kind!r}: declare Checkpoints(of={one.name!r})")
    want = declaration_of(states)
    if any(dtype not in FORMATS for dtype in one.dtypes):
        raise LayoutError(
            f"states {one.name!r} are of {', '.join(one.dtypes)}; slots are copied of {', '.join(FORMATS)}"
        )
    if other.layout.parts[0].name == "bytes":
        raise LayoutError(f"sub-pool {other.name!r} is of plain bytes: declare Checkpoints(of={one.name!r})")
    if is_plain_copy(other):
        expected, dtypes = (one.layout.layers, one.shapes), one.dtypes
    else:
        expected = (one.layout.layers, (one.shapes[0], (one.shapes[0][0], one.shapes[0][2]), *one.shapes[1:]))
        dtypes = ("int8", one.dtypes[0], *one.dtypes[1:])
    if (other.layout.layers, other.shapes) != expected or other.dtypes != dtypes:
        raise LayoutError(
            f"checkpoints {other.name!r} have {other.layout.layers} layers of the shapes {other.shapes} and dtypes "
            f"{other.dtypes}, those of states {want.name!r} {expected[0]} of {expected[1]} and {dtypes}: declare "
            f"Checkpoints(of={one.name!r})"
        )
