"""Reading request bodies and writing answers in plain ASGI, with the limits that a server needs.

Bodies may be gzipped either way. A body over the limit is refused while it arrives, also when it
only grows large by being unpacked; so is one for which all that are under way leave no room.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from bayplan import packed
from bayplan.errors import BayplanError
from bayplan.intake import FullError, Share

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

MAX_BODY = 64 * 1024 * 1024  # 10,000 whole nodes of 6 KB
GZIP_FROM = 128 * 1024  # as kube-apiserver: below it packing costs more than it saves


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
    scope: MutableMapping[str, Any], receive: Receive, share: Share, limit: int = MAX_BODY
) -> bytes:
    """Read a whole request body, unpacked, and count it as a share of what the server holds."""
    try:
        return await _read(scope, receive, share, limit)
    except FullError as full:
        raise BodyError(429, str(full)) from full


async def _read(
    scope: MutableMapping[str, Any], receive: Receive, share: Share, limit: int
) -> bytes:
    announced = header(scope, b"content-length")
    if announced.isdigit() and (len(announced) > 18 or int(announced) > limit):
        raise BodyError(413, f"the body is larger than {limit} bytes")
    parts: list[bytes] = []
    while True:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise BodyError(400, "the client went away before the body was complete")
        part = event.get("body", b"")
        share.take(len(part))
        if share.size > limit:
            raise BodyError(413, f"the body is larger than {limit} bytes")
        parts.append(part)
        if not event.get("more_body"):
            break
    body = b"".join(parts)
    encoding = header(scope, b"content-encoding").lower()
    if encoding == b"gzip":
        body = _unpack(body, limit)
        share.take(len(body))
        return body
    if encoding not in (b"", b"identity"):
        raise BodyError(415, f"content encoding {encoding.decode('latin-1')!r} is not supported")
    return body


def _unpack(body: bytes, limit: int) -> bytes:
    try:
        return packed.unpack(body, limit)
    except packed.TooLargeError as cause:
        raise BodyError(413, str(cause)) from cause
    except packed.PackedError as cause:
        raise BodyError(400, f"the body is not gzip: {cause}") from cause


async def respond(
    send: Send,
    status: int,
    body: bytes,
    content_type: str,
    *,
    scope: MutableMapping[str, Any] | None = None,
    more: tuple[tuple[bytes, bytes], ...] = (),
) -> None:
    """Send an answer, gzipped when `scope` is given, it is large and the client takes it."""
    headers = [(b"content-type", content_type.encode()), *more]
    if scope and len(body) >= GZIP_FROM and b"gzip" in header(scope, b"accept-encoding"):
        body = packed.pack(body)
        headers.append((b"content-encoding", b"gzip"))
    headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
