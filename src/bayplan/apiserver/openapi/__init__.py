"""`/openapi/v2` and `/openapi/v3`: what kubectl reads for explain, validation and apply.

Documents are built from the kinds of a registry on first request and kept until the registry
changes, so custom resources appear as soon as they are served. There are no descriptions. The v2
document is JSON, or the protobuf form that Go's discovery client insists on.
"""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import msgspec

from bayplan.api.schema import catalog, struct, type_for
from bayplan.apiserver.crd.kinds import CustomKind
from bayplan.apiserver.kinds import Kind, Registry
from bayplan.apiserver.openapi.gnostic import encode_document
from bayplan.apiserver.openapi.paths import Operations
from bayplan.apiserver.openapi.schemas import Schema, Writer, custom_name

JSON = "application/json"
PLAIN = "text/plain; charset=utf-8"  # what the real server says of its index
V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
INDEX = "/openapi/v3"


class Served(NamedTuple):
    """An OpenAPI answer."""

    body: bytes
    content_type: str


class _Documents:
    """The documents of one registry at one moment."""

    def __init__(self, registry: Registry) -> None:
        self.generation = registry.generation
        self.groups: dict[str, list[Kind]] = {}
        for kind in registry:
            path = f"apis/{kind.group}/{kind.version}" if kind.group else f"api/{kind.version}"
            self.groups.setdefault(path, []).append(kind)
        self._bodies: dict[str, bytes] = {}

    def v3(self, path: str) -> bytes | None:
        if path not in self.groups:
            return None
        if path not in self._bodies:
            self._bodies[path] = msgspec.json.encode(_v3(self.groups[path]))
        return self._bodies[path]

    def index(self) -> bytes:
        if "" not in self._bodies:
            paths = {}
            for path in self.groups:
                digest = hashlib.sha512(self.v3(path) or b"").hexdigest().upper()
                paths[path] = {"serverRelativeURL": f"{INDEX}/{path}?hash={digest}"}
            self._bodies[""] = msgspec.json.encode({"paths": paths})
        return self._bodies[""]

    def v2(self) -> bytes:
        if "v2" not in self._bodies:
            kinds = [kind for group in self.groups.values() for kind in group]
            self._bodies["v2"] = msgspec.json.encode(_v2(kinds))
        return self._bodies["v2"]


_known: WeakKeyDictionary[Registry, _Documents] = WeakKeyDictionary()


def document(registry: Registry, path: str, accept: str | None = None) -> Served | None:
    """The answer for a path below /openapi, or None if there is none."""
    documents = _known.get(registry)
    if documents is None or documents.generation != registry.generation:
        documents = _known[registry] = _Documents(registry)
    path = path.rstrip("/")
    if path == INDEX:
        return Served(documents.index(), PLAIN)
    if path.startswith(f"{INDEX}/"):
        body = documents.v3(path.removeprefix(f"{INDEX}/"))
        return Served(body, JSON) if body is not None else None
    if path == "/openapi/v2":
        if accept is not None and V2_PROTOBUF in accept:
            body = encode_document(msgspec.json.decode(documents.v2()))
            return Served(body, V2_PROTOBUF.replace("@", "."))  # an @ is no media type
        return Served(documents.v2(), JSON)
    return None


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
    return item, writer.add(list_type, [list_gvk])
