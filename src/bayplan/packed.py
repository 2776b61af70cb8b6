"""The one reader of gzip: never unpacks more than it was allowed to.

Bounds hold while unpacking, so a small bomb costs what the bound says and no more. Past a megabyte
the result of `unpack` may also not be more than 200 times what was sent: no honest JSON is. `lines`
is for files of any length, whose lines are bounded. What was packed in parts is read as one.
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
    out = b""
    while True:
        stream = zlib.decompressobj(WINDOW)
        piece = _decompress(stream, data, limit + 1 - len(out))
        out = out + piece if out else piece
        if len(out) > limit:
            raise TooLargeError(limit)
        if not stream.eof:
            raise CutOffError
        data = stream.unused_data.lstrip(b"\0")
        if not data:
            return out


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


def _decompress(stream: zlib._Decompress, data: bytes, limit: int) -> bytes:
    try:
        return stream.decompress(data, limit)
    except zlib.error as error:
        raise PackedError(f"gzip: {error}") from error


def pack(data: bytes) -> bytes:
    """Return data gzipped quickly."""
    packer = zlib.compressobj(1, zlib.DEFLATED, WINDOW)
    return packer.compress(data) + packer.flush()
