"""Real streams of a CUDA device, on which work is held up at random."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from math import exp, log
from typing import Any, Final

import torch

from poolproof.cuda_streams import CudaStreams
from poolproof.steps import HOME

_CYCLES: Final = (2_000, 10_000_000)
"""How long a stream is held up, least and most: about a microsecond and five milliseconds, every scale as likely."""


class CudaDevice(CudaStreams):
    """Streams, each of which may be far behind the others at any time.

    Args:
        draw: where the delays come from.
    """

    _others: tuple[Any, ...] = ()

    def __init__(self, draw: random.Random) -> None:
        super().__init__()
        if not CudaDevice._others:
            make: Any = torch.cuda.Stream
            CudaDevice._others = make(self.device), make(self.device)
        self._draw = draw
        self.streams = (HOME, HOME, HOME, *CudaDevice._others)

    def give(self, stream: Any, work: Callable[[], None]) -> None:
        """Work for a stream."""
        with torch.cuda.stream(self.home if stream is None else stream):
            work()

    def pass_time(self, most: int) -> None:
        """Some streams are held up, or none."""
        for _ in range(self._draw.randint(0, min(most, 2))):
            stream, cycles = self._draw.choice(self.streams), int(exp(self._draw.uniform(*map(log, _CYCLES))))
            self.give(stream, partial(torch.cuda._sleep, cycles))

    def drain(self) -> None:
        """All that was given is done."""
        torch.cuda.synchronize(self.device)
