"""What ends itself where a `with` block ends, unless it has ended before."""

from __future__ import annotations

from abc import abstractmethod
from types import TracebackType
from typing import Self


class Scoped:
    """A handle that is a context manager."""

    __slots__ = ()

    @abstractmethod
    def _leave(self) -> None:
        """End, unless it has ended."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()
