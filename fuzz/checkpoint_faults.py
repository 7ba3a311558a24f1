"""Copies between slots that fail on a stream away from home, where no step is run but work is given."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from poolproof.fuzz.cache_streams import InjectedFault


def fail_away_too(streams: Any) -> None:
    """An armed fault of these streams is also that of a copy which is given to another stream than home."""
    plain = streams.give

    def give(stream: Any, work: Callable[[], None]) -> None:
        """As it is; where it is the work of a copy that fails, something else is done."""
        doomed = streams._doomed
        if doomed is None or doomed[0] is None or doomed[0].stream is None or stream is None:
            plain(stream, work)
            return
        streams._doomed = None
        for page in doomed[1]:
            plain(stream, partial(streams.spoil, *page))
        raise InjectedFault("a copy between slots fails, on purpose")

    streams.give = give
