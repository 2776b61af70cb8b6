"""The one reader of gzip: never unpacks more than it was allowed to.

Both bounds hold while unpacking, so a small bomb costs what the bound says and no more. Past a
megabyte the result may also not be more than 200 times what was sent: no honest JSON is.
"""

from __future__ import annotations

import zlib

from bayplan.errors import BayplanError

WINDOW = 16 + zlib.MAX_WBITS
FREE_BYTES = 1 << 20
MAX_RATIO = 200


class PackedError(BayplanError):
    """The data is not gzip, or ends too early."""


class TooLargeError(PackedError):
    """The data unpacks to more than is allowed."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the unpacked body is larger than {limit} bytes")
        self.limit = limit


def unpack(data: bytes, limit: int) -> bytes:
    """Return what gzipped data holds, at most `limit` bytes of it."""
    limit = min(limit, max(FREE_BYTES, MAX_RATIO * len(data)))
    stream = zlib.decompressobj(WINDOW)
    try:
        out = stream.decompress(data, limit + 1)
    except zlib.error as error:
        raise PackedError(f"gzip: {error}") from error
    if len(out) > limit:
        raise TooLargeError(limit)
    if not stream.eof:
        raise PackedError("gzip: the body ends too early")
    return out


def pack(data: bytes) -> bytes:
    """Return data gzipped quickly."""
    packer = zlib.compressobj(1, zlib.DEFLATED, WINDOW)
    return packer.compress(data) + packer.flush()
