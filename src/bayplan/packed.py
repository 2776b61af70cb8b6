"""The one reader of gzip: never unpacks more than it was allowed to.

Bounds hold while unpacking, so a small bomb costs what the bound says and no more. Past a megabyte
the result of `unpack` may also not be more than 200 times what was sent: no honest JSON is. `lines`
is for files of any length, whose lines are bounded. What was packed in parts is read as one; a body
of thousands of them is refused, since each costs time and holds nothing.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import IO

from bayplan.errors import BayplanError

WINDOW = 16 + zlib.MAX_WBITS
MAGIC = b"\x1f\x8b"
FREE_BYTES = 1 << 20
MAX_RATIO = 200
CHUNK = 1 << 16
STEP = 512
MAX_MEMBERS = 4096  # of 64 KB each, as some write them, they hold a quarter of a gigabyte


class PackedError(BayplanError):
    """The data is not gzip, or ends too early."""


class CutOffError(PackedError):
    """The data ends too early."""

    def __init__(self) -> None:
        super().__init__("gzip: the body ends too early")


class TooLargeError(PackedError):
    """The data unpacks to more than is allowed."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the unpacked body is larger than {limit} bytes")
        self.limit = limit


def unpack(data: bytes, limit: int) -> bytes:
    """Return what gzipped data holds, at most `limit` bytes of it."""
    limit = min(limit, max(FREE_BYTES, MAX_RATIO * len(data)))
    parts: list[bytes] = []
    at, left = 0, limit
    for _ in range(MAX_MEMBERS):
        at, left = _member(memoryview(data), at, parts, left)
        if left < 0:
            raise TooLargeError(limit)
        while data[at : at + 1] == b"\0":  # padding between members
            padding = data[at : at + STEP]
            at += len(padding) - len(padding.lstrip(b"\0"))
        if at == len(data):
            return parts[0] if len(parts) == 1 else b"".join(parts)
    raise PackedError(f"gzip: the body has more than {MAX_MEMBERS} parts")


def _member(data: memoryview, at: int, parts: list[bytes], left: int) -> tuple[int, int]:
    """Unpack one of several files; return where it ends and what is left of what is allowed.

    It is handed over in growing pieces: of the one in which it ends the rest is copied, so a body
    of many small files would else cost the square of its length.
    """
    stream, step = zlib.decompressobj(WINDOW), STEP
    while not stream.eof and left >= 0:
        piece = data[at : at + step]
        if not piece:
            raise CutOffError
        parts.append(_decompress(stream, piece, left + 1))
        left -= len(parts[-1])
        at += len(piece) - len(stream.unused_data)
        step *= 2
    return at, left


def lines(file: IO[bytes], limit: int) -> Iterator[bytes]:
    """Yield the lines of a gzipped file, each with its end, none longer than `limit` bytes."""
    held: list[bytes] = []  # of the line that has not ended
    size = 0
    for piece in _pieces(file):
        for part in piece.splitlines(keepends=True):
            held.append(part)
            size += len(part)
            if size > limit:
                raise TooLargeError(limit)
            if part.endswith(b"\n"):
                yield b"".join(held)
                held, size = [], 0
    if held:
        yield b"".join(held)


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    """Yield what a file holds, at most `CHUNK` bytes at once."""
    stream, data = zlib.decompressobj(WINDOW), file.read(CHUNK)
    while data:
        yield _decompress(stream, data, CHUNK)
        if stream.eof:
            data = stream.unused_data.lstrip(b"\0")
            while not data and (more := file.read(CHUNK)):
                data = more.lstrip(b"\0")
            if not data:
                return
            stream = zlib.decompressobj(WINDOW)
        else:
            data = stream.unconsumed_tail or file.read(CHUNK)
    raise CutOffError


def _decompress(stream: zlib._Decompress, data: bytes | memoryview, limit: int) -> bytes:
    try:
        return stream.decompress(data, limit)
    except zlib.error as error:
        raise PackedError(f"gzip: {error}") from error


def pack(data: bytes) -> bytes:
    """Return data gzipped quickly."""
    packer = zlib.compressobj(1, zlib.DEFLATED, WINDOW)
    return packer.compress(data) + packer.flush()
