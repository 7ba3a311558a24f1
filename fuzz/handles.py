"""Are the ids that a target hands out values, or views of its own storage?"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from operator import index
from typing import Any, Final

WATCHED: Final = 4
_SCRIBBLE: Final = -7


def plain_ids(raw: Any) -> list[int]:
    """The ids in what a target returned (a sequence, an array or a CPU tensor), as plain ints.

    Raises:
        TypeError: it holds something other than integers, or is nested.
    """
    listed = raw.tolist() if hasattr(raw, "tolist") else list(raw)
    if not isinstance(listed, list):
        raise TypeError(f"want a sequence of ids, got {raw!r}")
    if set(map(type, listed)) <= {int}:
        return listed
    if any(isinstance(item, bool) for item in listed):
        raise TypeError(f"a truth value is no id: {listed!r}")
    return [index(item) for item in listed]


class Handles:
    """The last few things that a target handed out, watched for changes.

    What leaves the watch is overwritten, as its owner may do: that must not reach the target's storage.
    """

    __slots__ = ("_watched",)

    def __init__(self) -> None:
        self._watched: deque[tuple[Any, Callable[[], list[int]], list[int]]] = deque()

    def note(self, raw: Any, ids: list[int]) -> None:
        """Watch what was handed out; `ids` are its plain ids now."""
        if not ids or not hasattr(raw, "__setitem__"):
            return
        self._watched.append((raw, getattr(raw, "tolist", None) or partial(list, raw), ids.copy()))
        if len(self._watched) > WATCHED:
            old, _, was = self._watched.popleft()
            _overwrite(old, was)

    def find_changed(self) -> tuple[list[int], list[int]] | None:
        """Something handed out that has changed since: its ids then and now."""
        for _, read, ids in self._watched:
            if read() != ids:
                return ids, read()
        return None


def _overwrite(raw: Any, ids: list[int]) -> None:
    try:
        for at in range(len(ids)):
            raw[at] = _SCRIBBLE
    except (TypeError, ValueError, RuntimeError):
        return  # read-only: cannot be used to reach the target's storage either
