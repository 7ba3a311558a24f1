"""What can go wrong outside the allocator under test: wrong settings, wrong targets, unreadable traces."""

from __future__ import annotations


class FuzzError(Exception):
    """Base of all errors of this package that mean wrong use; the message is one line."""


class SettingError(FuzzError):
    """A setting of a campaign or a replay is out of range."""


class TargetError(FuzzError):
    """A target cannot be loaded, or lacks what every target must have."""


class TraceError(FuzzError):
    """A trace cannot be read.

    Attributes:
        path: the file, as given.
        line: number of the offending line, counted from 1; 0 where the file as a whole is meant.
        reason: what is wrong with it.
    """

    def __init__(self, path: str, line: int, reason: str) -> None:
        super().__init__(f"{path}, line {line}: {reason}" if line else f"{path}: {reason}")
        self.path = path
        self.line = line
        self.reason = reason
