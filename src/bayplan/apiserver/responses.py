"""How results become bytes: whole objects, tables, metadata only; JSON, indented JSON, YAML,
protobuf.

The common case, one stored object as compact JSON, is a splice without decoding. Everything else
decodes and renders. Compression and headers are added by the server.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from bayplan.api import yaml
from bayplan.apiserver import protobuf
from bayplan.apiserver.aside import aside_of, decoded
from bayplan.apiserver.backend import Backend
from bayplan.apiserver.codec import Object
from bayplan.apiserver.errors import ApiError, bad_request
from bayplan.apiserver.kinds import Kind
from bayplan.apiserver.negotiate import JSON, PARTIAL, PARTIAL_LIST, PROTOBUF, TABLE, WHOLE, YAML
from bayplan.apiserver.request import Request
from bayplan.store import KeyValue

_encoder = msgspec.json.Encoder()
JSON_TYPE = b"application/json"


class Answer(NamedTuple):
    """A finished response."""

    status: int
    body: bytes
    content_type: bytes = JSON_TYPE
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Stream(NamedTuple):
    """A response whose body comes in pieces; `close` is called at its end, whichever way."""

    status: int
    chunks: AsyncIterator[bytes]
    content_type: bytes = JSON_TYPE
    close: Callable[[], None] = lambda: None
    headers: tuple[tuple[bytes, bytes], ...] = ()
    packed: bool = False  # whether it is long enough to be compressed
    straight: Callable[[Callable[[bytes], bool] | None], None] | None = None
    """Takes what writes framed chunks without waiting, for use while `chunks` waits."""
    bare: Callable[[Callable[[bytes], bool]], None] | None = None
    """The same for chunks that are not framed."""


def dump(value: Any, media: str = JSON, *, pretty: bool = False) -> bytes:
    """Encode plain data for a client."""
    if media == YAML:
        return yaml.dump(value).encode()
    if media == PROTOBUF:
        return protobuf.encode(value)
    data = _encoder.encode(value)
    return _indented(data) if pretty else data


def writable(kind: Kind) -> bool:
    """Say whether objects of a kind have a protobuf form."""
    return not kind.custom and protobuf.known(kind.api_version, kind.kind)


YAML_FACTOR = 8  # how much longer it takes to write YAML than to do anything else


async def value_answer(
    backend: Backend, request: Request, kv: KeyValue, status: int = 200
) -> Answer:
    """Answer with one stored object."""
    codec = backend.codec(request.kind)
    output = request.output
    if output.form == WHOLE and output.media == JSON:
        body = await aside_of(0 if codec.spliced else len(kv.value), codec.whole, kv)
        if request.pretty:
            body = await aside_of(len(body), _indented, body)
        return Answer(status, body)
    if output.form == WHOLE and output.media == PROTOBUF:
        body = await aside_of(len(kv.value), codec.protobuf, kv)
        return Answer(status, body, output.content_type)
    obj = await decoded(request, codec, kv)
    return await object_answer(request, obj, status, len(kv.value))


def _indented(body: bytes) -> bytes:
    return msgspec.json.format(body, indent=2) + b"\n"


async def object_answer(request: Request, obj: Object, status: int = 200, size: int = 0) -> Answer:
    """Answer with one object; a long one is written beside the event loop."""
    size = size or len(request.body) + request.stored
    factor = YAML_FACTOR if request.output.media == YAML else 1
    return await aside_of(size * factor, _object_answer, request, obj, status)


def _object_answer(request: Request, obj: Object, status: int) -> Answer:
    """Answer with one object in the form that was asked for."""
    output = request.output
    shown: Object = obj
    if output.form == TABLE:
        version = obj["metadata"].get("resourceVersion", "")
        shown = table(request, [obj], {"resourceVersion": version})
    elif output.form in (PARTIAL, PARTIAL_LIST):
        shown = partial(obj, output.version)
    body = dump(shown, output.media, pretty=request.pretty)
    return Answer(status, body, output.content_type)


def plain_answer(request: Request, obj: Object, status: int = 200) -> Answer:
    """Answer with data that is not an object of the resource (a Status, a Scale)."""
    media = request.output.media
    return Answer(status, dump(obj, media, pretty=request.pretty), media.encode())


def partial(obj: Object, version: str) -> Object:
    """Return an object's metadata as a PartialObjectMetadata."""
    return {
        "kind": PARTIAL,
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": obj["metadata"],
    }


def table(
    request: Request, objects: Iterable[Object], metadata: Object, *, columns: bool = True
) -> Object:
    """Return objects as a Table, with as much of each as `includeObject` asks for."""
    include = request.query.get("includeObject") or "Metadata"
    if include not in ("None", "Metadata", "Object"):
        raise bad_request(
            f'Unable to convert to Table as requested: includeObject: Invalid value: "{include}": '
            "must be 'Metadata', 'Object', 'None', or empty"
        )
    from bayplan.apiserver import tables  # loaded when the first is asked for

    version = request.output.version
    return tables.render(
        request.kind, objects, metadata, include=include, version=version, columns=columns
    )


def error_answer(error: ApiError, *, media: str = JSON, pretty: bool = False) -> Answer:
    return Answer(
        error.code, dump(error.status(), media, pretty=pretty), media.encode(), error.headers
    )


async def refusal(error: ApiError, *, media: str, pretty: bool) -> Answer:
    """Answer with an error; one of very many fields is written beside the event loop."""
    size = len(error.message) * (YAML_FACTOR if media == YAML else 1)
    return await aside_of(size, error_answer, error, media=media, pretty=pretty)


def success(details: Object | None = None, code: int | None = None) -> Object:
    """Return a Status that says Success."""
    status: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details:
        status["details"] = details
    if code:
        status["code"] = code
    return status
