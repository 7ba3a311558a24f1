"""Saved traces: one JSON object a line, first what the trace is, then its operations.

{"format":"poolproof-trace","version":1,"target":"slot-pool","sizes":{"":4},...}
{"op":"alloc","n":2}
{"op":"free","picks":[["mine"]]}
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from poolproof.fuzz.errors import TraceError
from poolproof.fuzz.events import Schedule
from poolproof.fuzz.operations import AnyOperation

FORMAT: Final = "poolproof-trace"
VERSION: Final = 1


class Header(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """What a trace is of.

    Attributes:
        target: the target's name, as `poolproof fuzz` takes it.
        sizes: usable slots by sub-pool, "" where there is only one.
        schedule: when steps in flight complete.
        seed: the seed of the campaign that found it; None for a trace made by hand.
        step: number of the failing operation, counted from 1 (one past the last: the closing check); None where none
            fails.
        theorem: number of the violated invariant.
        claim: name of the violated claim.
        message: the failure in words.
    """

    format: str = FORMAT
    version: int = VERSION
    target: str
    sizes: dict[str, int]
    schedule: Schedule = Schedule()
    seed: int | None = None
    step: int | None = None
    theorem: str = ""
    claim: str = ""
    message: str = ""


class Trace(msgspec.Struct, frozen=True):
    """Operations, and what they are to be run on."""

    header: Header
    operations: tuple[AnyOperation, ...]

    @property
    def slots(self) -> int:
        """Usable slots of the one pool."""
        return self.header.sizes[""]

    def with_(self, operations: Sequence[AnyOperation] | None = None, **header: object) -> Trace:
        """This trace with other operations or other header fields."""
        changed = msgspec.structs.replace(self.header, **header) if header else self.header
        return Trace(changed, self.operations if operations is None else tuple(operations))


def save_trace(trace: Trace, path: Path) -> None:
    """Write a trace.

    Raises:
        OSError: the file cannot be written.
    """
    encode = msgspec.json.encode
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\n".join([encode(trace.header), *map(encode, trace.operations), b""]))


def looks_like_trace(line: bytes) -> bool:
    """Is this the first line of a saved trace, of whatever version?"""
    try:
        return msgspec.json.decode(line, type=_Mark).format is not None
    except msgspec.MsgspecError:
        return False


def read_trace(path: Path) -> Trace:
    """Read a saved trace.

    Raises:
        TraceError: it is of another format or version, or a line is corrupt; the error has its number and the reason.
        OSError: the file cannot be read.
    """
    lines = path.read_bytes().splitlines()
    if not lines:
        raise TraceError(str(path), 0, "the file is empty")
    header = _header(str(path), lines[0])
    decode = msgspec.json.Decoder(AnyOperation).decode
    operations = []
    for number, line in enumerate(lines[1:], 2):
        try:
            operations.append(decode(line))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise TraceError(str(path), number, f"no operation: {error}") from error
    return Trace(header, tuple(operations))


class _Mark(msgspec.Struct):
    """What every version of the first line has."""

    format: str | None = None
    version: int | None = None


def _header(path: str, line: bytes) -> Header:
    try:
        mark = msgspec.json.decode(line, type=_Mark)
        if mark.format != FORMAT:
            raise TraceError(path, 1, f"not a saved trace: its format is {mark.format!r}, not {FORMAT!r}")
        if mark.version != VERSION:
            raise TraceError(path, 1, f"a trace of version {mark.version}; this poolproof reads version {VERSION}")
        header = msgspec.json.decode(line, type=Header)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise TraceError(path, 1, f"no header of a trace: {error}") from error
    if header.sizes.keys() != {""} or header.sizes[""] < 1:
        raise TraceError(path, 1, f'sizes is {header.sizes}; want {{"": slots}} with at least one slot')
    if not 0 <= header.schedule.shortest <= header.schedule.longest:
        raise TraceError(path, 1, "the schedule is no range of ticks; want 0 <= shortest <= longest")
    return header


def is_saved_trace(path: Path) -> bool:
    """Does this file begin as a saved trace of some version does?

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        return looks_like_trace(file.readline(1 << 16))
