"""CUDA streams and events, as the pool orders its work by them: streams wait for one another, the host never waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from poolproof.errors import LayoutError

if TYPE_CHECKING:
    from poolproof.steps import Step


def check_device(device: Any) -> None:
    """Raises LayoutError where there is no such CUDA device."""
    try:
        index = torch.device(device).index or 0
    except RuntimeError as error:
        raise LayoutError(f"device is {device!r}: {error}") from None
    count = torch.cuda.device_count()
    if index >= count:
        raise LayoutError(f"device is {str(device)!r}, and torch sees {count} CUDA devices; plan with device='meta'")


class CudaStreams:
    """An `EventSource` on a CUDA device.

    Work at home is in order, so it needs no events. A step on another stream comes behind all that is at home when it
    begins; what comes after its end, at home or elsewhere, comes behind it. So a step can be completed as soon as the
    engine's own logic allows, and physical order follows.

    Args:
        device: the CUDA device; by default the current one.
        home: the stream of the pool's own work and of the engine's forward passes; by default the current stream.

    Attributes:
        device: with its index.
        home: the stream.
    """

    is_immediate = True

    def __init__(self, device: Any = "cuda", home: Any = None) -> None:
        named = torch.device(device)
        if named.type != "cuda":
            raise ValueError(f"device is {named}: these are the streams of a CUDA device")
        self.device = torch.device("cuda", torch.cuda.current_device() if named.index is None else named.index)
        self.home = torch.cuda.current_stream(self.device) if home is None else home
        self._check(self.home)
        self._raw = self.home.cuda_stream
        self._events: dict[Step, Any] = {}

    def _check(self, stream: Any) -> None:
        if not isinstance(stream, torch.cuda.Stream):
            raise TypeError(f"a stream of this pool is a torch.cuda.Stream, or None for home, not {stream!r}"[:200])
        if stream.device != self.device:
            raise ValueError(f"the stream is on {stream.device}, the pool on {self.device}")

    def place(self, stream: Any) -> Any:
        """See `EventSource`: a stream of this device; the home stream itself is None."""
        if stream is None:
            return None
        self._check(stream)
        return None if stream.cuda_stream == self._raw else stream

    def begun(self, step: Step) -> None:
        """See `EventSource`."""
        if step.stream is not None:
            step.stream.wait_event(self.mark())

    def run(self, step: Step | None, work: Callable[[], None]) -> None:
        """See `EventSource`."""
        if self._is_home_current():
            work()
        else:
            with torch.cuda.stream(self.home):
                work()

    def _is_home_current(self) -> bool:
        """Is the current stream of the pool's device home? It is that device whose streams its work is given to."""
        is_home: bool = torch._C._cuda_getCurrentRawStream(self.device.index) == self._raw
        return is_home

    def wait(self, stream: Any, other: Step) -> None:
        """See `EventSource`. What is at home is in order, and others have come behind it in `begun`."""
        if other.stream is not None:
            (self.home if stream is None else stream).wait_event(self._events[other])

    def launched(self, step: Step) -> None:
        """See `EventSource`."""
        if step.stream is not None:
            self._events[step] = step.stream.record_event()

    def completed(self, step: Step) -> None:
        """See `EventSource`: home comes behind it, and so does all that comes behind home."""
        if step in self._events:
            self.home.wait_event(self._events[step])
            del self._events[step]

    def mark(self) -> Any:
        """See `EventSource`."""
        return self.home.record_event()

    def join(self) -> None:
        """See `EventSource`."""
        if not self._is_home_current():
            torch.cuda.current_stream(self.device).wait_event(self.mark())

    def is_capturing(self) -> bool:
        """See `EventSource`."""
        found: bool = torch.cuda.is_current_stream_capturing()
        return found
