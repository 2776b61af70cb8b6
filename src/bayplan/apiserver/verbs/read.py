"""GET of one object and of a collection; `options` reads the parameters.

A list reads the store once and joins stored bytes; only selectors, tables and metadata-only forms
look inside objects. Long lists are sent in chunks so that other requests get their turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import NamedTuple

import msgspec

from bayplan.apiserver.aside import LARGE, Pauses, aside_of, beside, cut, size_of, turn
from bayplan.apiserver.backend import Backend
from bayplan.apiserver.codec import Codec, Object
from bayplan.apiserver.errors import (
    ApiError,
    bad_request,
    not_found,
    not_in_this_form,
    too_large_version,
)
from bayplan.apiserver.kinds import INDEXED
from bayplan.apiserver.negotiate import JSON, PARTIAL, PARTIAL_LIST, PROTOBUF, TABLE, WHOLE, YAML
from bayplan.apiserver.protobuf import list_item, list_pieces
from bayplan.apiserver.request import Request, number
from bayplan.apiserver.responses import (
    YAML_FACTOR,
    Answer,
    Stream,
    dump,
    partial,
    table,
    value_answer,
)
from bayplan.apiserver.verbs.options import (
    NEWEST,
    Selection,
    Token,
    bad_token,
    check_match,
    decode_token,
    encode_token,
    parse_version,
    selection,
    wait_for_version,
)
from bayplan.store import Compacted, FutureRevision, KeyValue, RangeResult

CHUNK_ITEMS = 500
CHUNK_BYTES = 1 << 20
PROTOBUF_ITEMS, PROTOBUF_BYTES = 100, 256 * 1024  # written without a pause
ASIDE_ITEMS = 100  # objects from which on a thread looks into them
PAGE = 1000  # how many stored objects are read at once when a selector may leave some out


async def get(backend: Backend, request: Request) -> Answer:
    """Answer with one object."""
    codec = backend.codec(request.kind)
    version = parse_version(request.query.get("resourceVersion"))
    await wait_for_version(backend, version)
    kv = await backend.get(codec, request.namespace, request.name)
    if kv is None:
        raise not_found(request.kind.group, request.kind.resource, request.name)
    if request.output.form == PARTIAL_LIST:
        raise not_in_this_form(PARTIAL_LIST, "not a list", request.kind)
    return await value_answer(backend, request, kv)


class Page(NamedTuple):
    """The objects of one list answer."""

    items: list[KeyValue]
    revision: int
    token: str
    remaining: int | None

    def metadata(self) -> Object:
        out: Object = {"resourceVersion": str(self.revision)}
        if self.token:
            out["continue"] = self.token
        if self.remaining:
            out["remainingItemCount"] = self.remaining
        return out


async def list_(backend: Backend, request: Request) -> Answer | Stream:
    """Answer with a collection, or a page of it."""
    codec = backend.codec(request.kind)
    if request.output.form == PARTIAL:
        raise not_in_this_form(PARTIAL, "a list", request.kind, "List")
    page = await read_page(backend, request, codec)
    output = request.output
    if output.form == WHOLE and output.media == JSON and not request.pretty:
        return await whole_list(codec, page)
    if output.form == WHOLE and output.media == PROTOBUF:
        return await _protobuf_list(codec, page)
    if is_long(request, page):
        await turn(request)
        return await beside(_shown_list, request, codec, page)
    return _shown_list(request, codec, page)


def is_long(request: Request, page: Page) -> bool:
    """Say whether it takes long to look into the objects and write them."""
    factor = YAML_FACTOR if request.output.media == YAML else 1
    return len(page.items) > ASIDE_ITEMS or size_of(page.items) * factor >= LARGE


def _shown_list(request: Request, codec: Codec, page: Page) -> Answer:
    """Return a list in a form that needs a look into every object."""
    output = request.output
    objects = map(codec.decode, page.items)  # one after the other, where a form leaves most out
    shown: Object
    if output.form == TABLE:
        shown = table(request, objects, page.metadata())
    elif output.form:
        shown = {
            "kind": "PartialObjectMetadataList",
            "apiVersion": f"meta.k8s.io/{output.version}",
            "metadata": page.metadata(),
            "items": [partial(obj, output.version) for obj in objects],
        }
    else:
        shown = list_object(codec, page.metadata(), objects)
    return Answer(200, dump(shown, output.media, pretty=request.pretty), output.content_type)


def list_object(codec: Codec, metadata: Object, objects: Iterable[Object]) -> Object:
    return {
        "kind": f"{codec.kind.kind}List",
        "apiVersion": codec.kind.api_version,
        "metadata": metadata,
        "items": [codec.bare(obj) for obj in objects],
    }


async def whole_list(codec: Codec, page: Page) -> Answer | Stream:
    """Return a list of objects as they are stored, none of which is taken apart if it can be."""
    head = codec.list_head + msgspec.json.encode(page.metadata()) + b',"items":['
    parts = list(cut(page.items, CHUNK_ITEMS, CHUNK_BYTES))
    if len(parts) <= 1:
        return Answer(200, head + await _items(codec, page.items) + b"]}")
    return Stream(200, _list_chunks(codec, head, parts), packed=True)


async def _protobuf_list(codec: Codec, page: Page) -> Answer | Stream:
    """Return a list in protobuf: its length stands in front, so all is written before any goes."""
    items: list[bytes] = []
    for part in cut(page.items, PROTOBUF_ITEMS, PROTOBUF_BYTES):
        if items:
            await asyncio.sleep(0)  # others have their turn
        size = size_of(part) * LARGE // PROTOBUF_BYTES
        items += await aside_of(size, _list_items, codec, part)
    kind = codec.kind
    pieces = list_pieces(kind.api_version, f"{kind.kind}List", page.metadata(), items)
    if len(items) <= CHUNK_ITEMS:
        return Answer(200, b"".join(pieces), PROTOBUF.encode())
    return Stream(200, _joined(pieces), PROTOBUF.encode(), packed=True)


def _list_items(codec: Codec, part: list[KeyValue]) -> list[bytes]:
    return [list_item(codec.message(kv)) for kv in part]


async def _joined(pieces: list[bytes]) -> AsyncIterator[bytes]:
    for start in range(0, len(pieces), CHUNK_ITEMS):
        yield b"".join(pieces[start : start + CHUNK_ITEMS])
        await asyncio.sleep(0)


async def _list_chunks(
    codec: Codec, head: bytes, parts: list[list[KeyValue]]
) -> AsyncIterator[bytes]:
    for part in parts:
        yield head + await _items(codec, part)
        head = b","
        await asyncio.sleep(0)
    yield b"]}"


async def _items(codec: Codec, part: list[KeyValue]) -> bytes:
    return await aside_of(0 if codec.spliced else size_of(part), _joined_items, codec, part)


def _joined_items(codec: Codec, part: list[KeyValue]) -> bytes:
    return b",".join(map(codec.item, part))


async def read_page(backend: Backend, request: Request, codec: Codec) -> Page:
    """Read what a list asks for: at which version, from where, how much, selected by what."""
    query = request.query
    chosen = await selection(request)
    limit = max(number(query, "limit") or 0, 0)
    number(query, "timeoutSeconds")  # of no use here, but must be a number
    check_match(query, bool(query.get("continue")))
    token = decode_token(query["continue"]) if query.get("continue") else None
    revision = await _revision(backend, query, token, limit)
    prefix = codec.collection(request.namespace if request.kind.namespaced else "")
    start = codec.prefix + token.start if token else ""
    try:
        return await _read(backend, codec, chosen, prefix, start, limit, revision)
    except Compacted as error:
        raise _expired(token, error) from error
    except FutureRevision as error:
        if token is not None:  # no list has been there yet
            raise bad_token(f"it is of the version {error.asked}, still to come") from error
        raise too_large_version(error.asked, error.current) from error


def _expired(token: Token | None, error: Compacted) -> ApiError:
    if token is None:
        text = f"too old resource version: {error.asked} ({error.compacted})"
        return ApiError(410, "Expired", text)
    text = (
        "The provided continue parameter is too old to display a consistent list result. "
        "You can start a new list without the continue parameter, or use the continue token in "
        "this response to retrieve the remainder of the results. Continuing with the provided "
        "token results in an inconsistent list - objects that were created, modified, or deleted "
        "between the time the first chunk was returned and now may show up in the list."
    )
    return ApiError(410, "Expired", text, continue_=encode_token(NEWEST, token.start))


async def _revision(
    backend: Backend, query: dict[str, str], token: Token | None, limit: int
) -> int:
    """Return the past revision to read at, or 0 for now. Waits for versions still to come."""
    if token is not None:
        if query.get("resourceVersion") not in (None, "", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        return max(token.revision, 0)
    version = parse_version(query.get("resourceVersion"))
    match = query.get("resourceVersionMatch", "")
    await wait_for_version(backend, version)
    # A limit with a version means exactly that version, from before the match parameter existed.
    if match == "Exact" or (not match and limit and version):
        return version
    return 0


async def _read(
    backend: Backend,
    codec: Codec,
    chosen: Selection,
    prefix: str,
    start: str,
    limit: int,
    revision: int,
) -> Page:
    if not chosen:
        found = await backend.versions.range(
            codec, prefix, start_after=start, limit=limit, revision=revision
        )
        return _page(codec, found.items, found.revision, found.remaining)
    if chosen.name is not None and (codec.prefix != prefix or not codec.kind.namespaced):
        return await _read_one(backend, codec, chosen, prefix + chosen.name, revision)
    return await _read_selected(backend, codec, chosen, prefix, start, limit, revision)


async def _read_one(
    backend: Backend, codec: Codec, chosen: Selection, key: str, revision: int
) -> Page:
    """Read the only object that can match a selector by name."""
    found = await backend.versions.range(codec, key, limit=1, revision=revision)
    items = [kv for kv in found.items if kv.key == key and chosen.matches(codec, kv)]
    return Page(items, found.revision, "", None)


def _page(codec: Codec, items: list[KeyValue], revision: int, remaining: int) -> Page:
    if not remaining:
        return Page(items, revision, "", None)
    token = encode_token(revision, items[-1].key[len(codec.prefix) :])
    return Page(items, revision, token, remaining)


async def candidates(
    backend: Backend,
    codec: Codec,
    chosen: Selection,
    prefix: str,
    start: str = "",
    limit: int = 0,
    revision: int = 0,
) -> RangeResult:
    """Read what may be selected: what an index by one of the fields has, or all, or a page."""
    path = INDEXED.get(codec.kind.storage) if chosen.fields and not revision else None
    if path and chosen.fields and (value := chosen.fields.exact(path)) is not None:
        return await backend.indexed.of(codec).find(value, prefix, start)
    return await backend.versions.range(
        codec, prefix, start_after=start, limit=PAGE if limit else 0, revision=revision
    )


async def _read_selected(
    backend: Backend,
    codec: Codec,
    chosen: Selection,
    prefix: str,
    start: str,
    limit: int,
    revision: int,
) -> Page:
    """Read until the page is full, leaving out what is not selected."""
    items: list[KeyValue] = []
    cost, pauses = chosen.cost, Pauses()
    while True:
        found = await candidates(backend, codec, chosen, prefix, start, limit, revision)
        revision = found.revision
        for position, kv in enumerate(found.items):
            await pauses.after(cost + len(kv.value))
            if not chosen.matches(codec, kv):
                continue
            items.append(kv)
            more = found.remaining or position + 1 < len(found.items)
            if limit and len(items) == limit and more:
                return Page(
                    items, revision, encode_token(revision, kv.key[len(codec.prefix) :]), None
                )
        if not found.remaining:
            return Page(items, revision, "", None)
        start = found.items[-1].key
