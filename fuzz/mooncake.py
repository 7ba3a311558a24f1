"""Request traces of the Mooncake form: one JSON object a line, plain or gzipped.

    {"timestamp": 0, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1, 2, ...]}

Equal ids at the front of two requests mean that they share a prefix; an id stands for a block of 512 tokens together
with all that precedes it. What is refused, because a replay of it would mean something else or nothing: lines that are
no such object, negative numbers, an empty input, another number of ids than the input has blocks, a block listed twice
in one request, and timestamps that go back. Unknown members are ignored.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Final

import msgspec

from poolproof.fuzz.errors import TraceError
from poolproof.spec.arithmetic import ceil_div

BLOCK_TOKENS: Final = 512
"""Tokens of a block."""
_GZIP: Final = b"\x1f\x8b"

Count = Annotated[int, msgspec.Meta(ge=0)]


class Request(msgspec.Struct, frozen=True, gc=False):
    """One request.

    Attributes:
        timestamp: when it arrives, in ms.
        input_length: tokens of the prompt.
        output_length: tokens generated.
        hash_ids: one id for each block of the prompt, in order; the last block may be partly filled.
    """

    timestamp: Count
    input_length: Annotated[int, msgspec.Meta(ge=1)]
    output_length: Count
    hash_ids: tuple[Count, ...]


def read_requests(path: Path, limit: int | None = None) -> list[Request]:
    """Read a request trace, gzipped or not (told by its content).

    Args:
        path: the file.
        limit: read this many requests at most.

    Raises:
        TraceError: a line is corrupt (the error has its number and the reason), or there is no request.
        OSError: the file cannot be read.
    """
    decode = msgspec.json.Decoder(Request).decode
    requests: list[Request] = []
    for number, line in enumerate(_lines(path), 1):
        if limit is not None and len(requests) >= limit:
            break
        if not line.strip():
            continue
        try:
            request = decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise TraceError(str(path), number, f"no request: {error}") from error
        fault = _fault(request, requests[-1].timestamp if requests else 0)
        if fault:
            raise TraceError(str(path), number, fault)
        requests.append(request)
    if not requests:
        raise TraceError(str(path), 0, "no requests in this file")
    return requests


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as raw:
        packed = raw.read(2) == _GZIP
        raw.seek(0)
        read = 0
        try:
            for line in gzip.GzipFile(fileobj=raw) if packed else raw:
                read += 1
                yield line
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise TraceError(str(path), read + 1, f"the gzip stream is corrupt: {error}") from error


def _fault(request: Request, before: int) -> str:
    """What is wrong with a well-formed request, or ""."""
    blocks = ceil_div(request.input_length, BLOCK_TOKENS)
    if len(request.hash_ids) != blocks:
        return f"{len(request.hash_ids)} hash_ids for {request.input_length} tokens, which fill {blocks} blocks"
    if len(set(request.hash_ids)) != blocks:
        return "a block occurs twice in hash_ids"
    if request.timestamp < before:
        return f"timestamp {request.timestamp} lies before {before}, that of the request before"
    return ""


def write_requests(requests: Sequence[Request], path: Path) -> None:
    """Write a request trace, gzipped where the name ends in .gz; the same requests give the same bytes.

    Raises:
        OSError: the file cannot be written.
    """
    text = b"".join(msgspec.json.encode(request) + b"\n" for request in requests)
    path.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)
