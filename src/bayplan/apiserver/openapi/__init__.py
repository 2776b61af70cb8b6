"""`/openapi/v2` and `/openapi/v3`: what kubectl reads for explain, validation and apply.

Documents are built from the kinds of a registry on first request and kept until the registry
changes, so custom resources appear as soon as they are served. Only what all kinds share is
described. The v2 document is JSON, or the protobuf form that Go's discovery client insists on.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import msgspec

from bayplan.api.schema import catalog, struct, type_for
from bayplan.apiserver.aside import beside
from bayplan.apiserver.crd.custom_kind import CustomKind
from bayplan.apiserver.kinds import Kind, Registry
from bayplan.apiserver.openapi.gnostic import encode_document
from bayplan.apiserver.openapi.paths import Operations
from bayplan.apiserver.openapi.schemas import Schema, Writer, custom_name, full_name
from bayplan.apiserver.remotes import Remotes

JSON = "application/json"
PLAIN = "text/plain; charset=utf-8"  # what the real server says of its index
V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
INDEX = "/openapi/v3"


class Served(NamedTuple):
    """An OpenAPI answer; the digest tells it from others, for clients that have one already."""

    body: bytes
    content_type: str
    digest: str


class _Documents:
    """The documents of one registry at one moment."""

    def __init__(self, registry: Registry, remotes: Remotes | None) -> None:
        self.generation = registry.generation
        self.making = asyncio.Lock()
        self._groups: dict[str, list[Kind]] = {}
        for kind in registry:
            path = f"apis/{kind.group}/{kind.version}" if kind.group else f"api/{kind.version}"
            self._groups.setdefault(path, []).append(kind)
        self._kept: dict[str, Served] = {}
        self._given = {  # what servers behind this one say of their kinds
            f"apis/{remote.group}/{remote.version}": remote.description
            for remote in (remotes.known.values() if remotes else ())
            if remote.description
        }

    def _keep(self, name: str, make: Callable[[], bytes], content_type: str = JSON) -> Served:
        if name not in self._kept:
            body = make()
            digest = hashlib.sha512(body).hexdigest().upper()
            self._kept[name] = Served(body, content_type, digest)
        return self._kept[name]

    def v3(self, path: str) -> Served | None:
        if path in self._given:
            return self._keep(path, lambda: self._given[path])
        if path not in self._groups:
            return None
        return self._keep(path, lambda: msgspec.json.encode(_v3(self._groups[path])))

    def index(self) -> Served:
        return self._keep("", self._index, PLAIN)

    def _index(self) -> bytes:
        served = {path: self.v3(path) for path in (*self._groups, *self._given)}
        paths = {
            path: {"serverRelativeURL": f"{INDEX}/{path}?hash={found.digest}"}
            for path, found in served.items()
            if found is not None
        }
        return msgspec.json.encode({"paths": paths})

    def v2(self) -> Served:
        kinds = [kind for group in self._groups.values() for kind in group]
        return self._keep("v2", lambda: msgspec.json.encode(_v2(kinds)))

    def v2_protobuf(self) -> Served:
        content_type = V2_PROTOBUF.replace("@", ".")  # an @ is no media type
        return self._keep(
            "v2.proto", lambda: encode_document(msgspec.json.decode(self.v2().body)), content_type
        )

    def answer(self, path: str, accept: str | None) -> Served | None:
        """Return the document of a path, made if it is the first time."""
        path = path.rstrip("/")
        if path == INDEX:
            return self.index()
        if path.startswith(f"{INDEX}/"):
            return self.v3(path.removeprefix(f"{INDEX}/"))
        if path == "/openapi/v2":
            protobuf = accept is not None and V2_PROTOBUF in accept
            return self.v2_protobuf() if protobuf else self.v2()
        return None


_known: WeakKeyDictionary[Registry, _Documents] = WeakKeyDictionary()


def document(
    registry: Registry, path: str, accept: str | None = None, remotes: Remotes | None = None
) -> Served | None:
    """The answer for a path below /openapi, or None if there is none."""
    return _documents(registry, remotes).answer(path, accept)


async def document_aside(
    registry: Registry, path: str, accept: str | None, remotes: Remotes
) -> Served | None:
    """The same, made beside the event loop: many definitions make large documents."""
    documents = _documents(registry, remotes)
    async with documents.making:
        return await beside(documents.answer, path, accept)


def _documents(registry: Registry, remotes: Remotes | None) -> _Documents:
    documents = _known.get(registry)
    if documents is None or documents.generation != registry.generation:
        documents = _known[registry] = _Documents(registry, remotes)
    return documents


def _v3(kinds: list[Kind]) -> dict[str, Any]:
    writer, operations = Writer(), Operations()
    _fill(kinds, writer, operations)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": catalog().release},
        "paths": operations.paths,
        "components": {"schemas": writer.found},
    }


def _v2(kinds: list[Kind]) -> dict[str, Any]:
    writer, operations = Writer(v2=True), Operations(v2=True)
    _fill(kinds, writer, operations)
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": catalog().release},
        "paths": operations.paths,
        "definitions": writer.found,
    }


def _fill(kinds: list[Kind], writer: Writer, operations: Operations) -> None:
    options = writer.add(struct("meta.v1.DeleteOptions"))
    writer.add(struct("meta.v1.Status"))
    for kind in kinds:
        item, items = _schemas(kind, writer)
        operations.add(kind, item, items, options)
        for sub in kind.subresources.values():
            group = f"{sub.group}/" if sub.group else ""
            type_ = type_for(f"{group}{sub.version or kind.version}", sub.kind)
            if type_ is not None and sub.kind != kind.kind:
                gvk = {"group": sub.group, "kind": sub.kind, "version": sub.version or "v1"}
                writer.add(type_, [gvk])


def _schemas(kind: Kind, writer: Writer) -> tuple[Schema, Schema]:
    """The references to a kind and to its list kind."""
    gvk = {"group": kind.group, "kind": kind.kind, "version": kind.version}
    list_gvk = {**gvk, "kind": f"{kind.kind}List"}
    if isinstance(kind, CustomKind):
        name = custom_name(kind.group, kind.version, kind.kind)
        item = writer.add_custom(name, kind.schema, [gvk])
        list_gvk["kind"] = kind.list_kind
        list_name = custom_name(kind.group, kind.version, kind.list_kind)
        return item, writer.add_list(list_name, item, [list_gvk])
    type_ = type_for(kind.api_version, kind.kind)
    if type_ is None:
        return {"type": "object"}, {"type": "object"}
    item = writer.add(type_, [gvk])
    list_type = type_for(kind.api_version, f"{kind.kind}List")
    if list_type is None:
        return item, {"type": "object"}
    listing = writer.add(list_type, [list_gvk])
    items = writer.found[full_name(list_type)]["properties"]["items"]
    items["description"] = f"List of {kind.resource}."
    return item, listing
