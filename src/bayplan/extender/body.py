"""Reading request bodies and writing answers in plain ASGI, with the limits that a server needs.

Bodies may be gzipped either way. A body over the limit is refused while it arrives, also when it
only grows large by being unpacked.
"""

import zlib
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from bayplan.errors import BayplanError

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

MAX_BODY = 256 * 1024 * 1024
GZIP_FROM = 128 * 1024  # as kube-apiserver: below it packing costs more than it saves
GZIP_WINDOW = 16 + zlib.MAX_WBITS


class BodyError(BayplanError):
    """A request body that cannot be taken."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def header(scope: MutableMapping[str, Any], name: bytes) -> bytes:
    """The value of a request header, empty when it is not there."""
    for key, value in scope["headers"]:
        if key == name:
            return bytes(value)
    return b""


async def read_body(
    scope: MutableMapping[str, Any], receive: Receive, limit: int = MAX_BODY
) -> bytes:
    """Read a whole request body, unpacked."""
    parts: list[bytes] = []
    size = 0
    while True:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise BodyError(400, "the client went away before the body was complete")
        part = event.get("body", b"")
        size += len(part)
        if size > limit:
            raise BodyError(413, f"the body is larger than {limit} bytes")
        parts.append(part)
        if not event.get("more_body"):
            break
    body = b"".join(parts)
    encoding = header(scope, b"content-encoding").lower()
    if encoding == b"gzip":
        return unpack(body, limit)
    if encoding not in (b"", b"identity"):
        raise BodyError(415, f"content encoding {encoding.decode('latin-1')!r} is not supported")
    return body


def unpack(body: bytes, limit: int = MAX_BODY) -> bytes:
    """Unpack gzip, refusing what grows beyond the limit."""
    stream = zlib.decompressobj(GZIP_WINDOW)
    try:
        data = stream.decompress(body, limit + 1)
    except zlib.error as cause:
        raise BodyError(400, f"the body is not gzip: {cause}") from cause
    if len(data) > limit:
        raise BodyError(413, f"the unpacked body is larger than {limit} bytes")
    return data


async def respond(
    send: Send,
    status: int,
    body: bytes,
    content_type: str,
    *,
    scope: MutableMapping[str, Any] | None = None,
) -> None:
    """Send an answer, gzipped when `scope` is given, it is large and the client takes it."""
    headers = [(b"content-type", content_type.encode())]
    if scope and len(body) >= GZIP_FROM and b"gzip" in header(scope, b"accept-encoding"):
        packer = zlib.compressobj(1, zlib.DEFLATED, GZIP_WINDOW)
        body = packer.compress(body) + packer.flush()
        headers.append((b"content-encoding", b"gzip"))
    headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
