"""Where the bytes of a pool under test are, and what works on them: on the host, on torch tensors, on a CUDA device."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from poolproof.events import EventSource
from poolproof.fuzz.errors import SettingError
from poolproof.fuzz.memory import HostMemory, Memory
from poolproof.fuzz.queued_device import QueuedDevice
from poolproof.sub_pools import Declaration
from poolproof.unified_pool import UnifiedPool


class Streams(EventSource, Protocol):
    """An event source to which a driver gives work."""

    @property
    def streams(self) -> Sequence[Any]:
        """Streams to choose from, the more likely ones several times."""

    def give(self, stream: Any, work: Callable[[], None]) -> None:
        """Work for a stream."""

    def pass_time(self, most: int) -> None:
        """The device gets on, or is held up."""

    def drain(self) -> None:
        """All that can be done is done."""


Make = Callable[..., UnifiedPool]
Opened = tuple[Streams, UnifiedPool, Memory]


class Device:
    """A kind of device: `open` makes a pool on it.

    Attributes:
        name: as the command line has it.
    """

    name = "host"

    def open(
        self, draw: random.Random, total: int, sub_pools: list[Declaration], make: Make, guard: bool = False
    ) -> Opened:
        """Streams, a pool that orders its work by them, and its bytes."""
        streams = QueuedDevice(draw)
        pool = make(total, sub_pools, events=streams, guard=guard)
        return streams, pool, HostMemory(pool)


class TensorDevice(Device):
    """A torch tensor of the CPU: the pool's kernels run in Triton's interpreter if that is on, and else in torch."""

    name = "tensor"

    def open(
        self, draw: random.Random, total: int, sub_pools: list[Declaration], make: Make, guard: bool = False
    ) -> Opened:
        """See `Device`."""
        from poolproof.fuzz.torch_memory import TorchMemory

        streams = QueuedDevice(draw)
        pool = _on_tensors(make)(total, sub_pools, events=streams, guard=guard)
        return streams, pool, TorchMemory(pool)


class CudaDevices(Device):
    """A CUDA device, with real streams that are held up at random."""

    name = "cuda"

    def open(
        self, draw: random.Random, total: int, sub_pools: list[Declaration], make: Make, guard: bool = False
    ) -> Opened:
        """See `Device`."""
        from poolproof.fuzz.cuda_device import CudaDevice
        from poolproof.fuzz.torch_memory import TorchMemory

        streams = CudaDevice(draw)
        pool = make(total, sub_pools, device="cuda", events=streams, guard=guard)
        return streams, pool, TorchMemory(pool)


HOST: Final = Device()
DEVICES: Final = {device.name: device for device in (HOST, TensorDevice(), CudaDevices())}


def device_of(name: str) -> Device:
    """The device of this name.

    Raises:
        SettingError: there is none.
    """
    if name not in DEVICES:
        raise SettingError(f"no device {name!r}; there are: {', '.join(DEVICES)}")
    return DEVICES[name]


def _on_tensors(make: Make) -> Make:
    """A kind of pool whose buffer is a torch tensor also on the CPU."""
    if not isinstance(make, type):
        raise SettingError("a pool on tensors is made from a class of pools")
    return type(make.__name__, (make,), {"_open_bytes": UnifiedPool._open_tensor})
