"""Saved traces: what is written is read back, and everything else is refused with line and reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from poolproof.fuzz.errors import TraceError
from poolproof.fuzz.events import Schedule
from poolproof.fuzz.operations import Alloc, Clear, Free, Pick, PickKind, Transfer
from poolproof.fuzz.traces import Header, Trace, is_saved_trace, read_trace, save_trace

TRACE = Trace(
    Header(target="slot-pool", sizes={"": 3}, seed=4, schedule=Schedule(1, 2, 3), step=2, theorem="I2", claim="c"),
    (
        Alloc(n=2, holder=1, beyond=True),
        Free(picks=(Pick(PickKind.MINE, 1), Pick(PickKind.SINK)), holder=1),
        Transfer(picks=(), to="request", heir=3),
        Clear(pool="full"),
    ),
)


def test_a_trace_is_read_back_as_it_was_saved(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "trace.jsonl"
    save_trace(TRACE, path)
    assert is_saved_trace(path)
    assert read_trace(path) == TRACE


@pytest.mark.parametrize(
    ("line", "text", "reason"),
    [
        (1, '{"format":"poolproof-trace","version":2}', "version 2"),
        (1, '{"format":"poolproof-trace","version":1}', "no header"),
        (1, '{"timestamp": 0}', "format is None"),
        (1, "not json", "no header"),
        (1, '{"format":"poolproof-trace","version":1,"target":"slot-pool","sizes":{"":0}}', "at least one slot"),
        (1, '{"format":"poolproof-trace","version":1,"target":"t","sizes":{"":1},"more":1}', "more"),
        (3, '{"op":"alloc"}', "missing required field `n`"),
        (3, '{"op":"explode"}', "explode"),
        (3, '{"op":"free","picks":[["theirs"]]}', "theirs"),
        (3, '{"op":"alloc","n":"two"}', "Expected `int`"),
        (3, "", "no operation"),
        (3, "\udcff", "no operation"),
    ],
)
def test_a_corrupt_line_is_an_error_with_its_number(tmp_path: Path, line: int, text: str, reason: str) -> None:
    path = tmp_path / "trace.jsonl"
    save_trace(TRACE, path)
    lines = path.read_bytes().splitlines()
    lines[line - 1] = text.encode(errors="surrogateescape")
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(TraceError, match=reason) as found:
        read_trace(path)
    assert found.value.line == line


def test_an_empty_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.touch()
    with pytest.raises(TraceError, match="empty"):
        read_trace(path)
