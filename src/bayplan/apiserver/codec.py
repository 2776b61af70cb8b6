"""Between stored bytes, decoded objects and what a client reads.

A stored value is the object's JSON without `kind`, `apiVersion` and `metadata.resourceVersion`:
those follow from the key and the revision, so one stored value serves every version of a kind and
reading an object is a splice of bytes, not a decode. Metadata always comes first in a value. Where
a definition has several versions, a value ends with the one that it was stored in: the mark.

`Codec` does this for one kind. Kinds that are a second view of a stored object (events.k8s.io)
bring two conversion functions. It does not default, validate or negotiate formats.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from bayplan.api.schema import type_for
from bayplan.apiserver import event_views, protobuf
from bayplan.apiserver.kinds import Kind
from bayplan.store.protocol import KeyValue

Object = dict[str, Any]

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder()
_OPEN = b'{"metadata":{'
_SKIP = len(_OPEN)
MAX_READ = 1024  # objects whose fields are kept
_OUTSIDE = ("kind", "apiVersion", "metadata")


def encode_value(obj: Object) -> bytes:
    """Encode an object as it is stored; `obj` is not changed."""
    metadata = {k: v for k, v in obj["metadata"].items() if k != "resourceVersion"}
    value: Object = {"metadata": metadata}
    for key, field in obj.items():
        if key not in _OUTSIDE:
            value[key] = field
    # A copy of its own size: the encoder's buffer is larger by up to a half, and stays so.
    return bytes(memoryview(_encoder.encode(value)))


_MARK = re.compile(rb',"apiVersion":"([a-z0-9-]+)"\}$')


def mark(version: str) -> bytes:
    """Return the end of a value that says its version; no object has that as its last field."""
    return f',"apiVersion":"{version}"}}'.encode()


def split_mark(value: bytes) -> tuple[bytes, str]:
    """Return a stored value without its mark, and the version that it says or nothing."""
    found = _MARK.search(value, max(0, len(value) - 96))
    return (value[: found.start()] + b"}", found[1].decode()) if found else (value, "")


class Fields:
    """What selectors look at; fields are read when one asks for them.

    `asked` and `matched` are free for whoever selected last, and tell what came of it.
    """

    __slots__ = ("_read", "_values", "asked", "labels", "matched")

    def __init__(self, labels: Mapping[str, str], read: Callable[[str], str]) -> None:
        self.labels = labels
        self._read = read
        self._values: dict[str, str] = {}
        self.asked = ""
        self.matched = False

    def value_of(self, path: str) -> str:
        found = self._values.get(path)
        if found is None:
            found = self._values[path] = self._read(path)
        return found


_NO_LABELS: dict[str, str] = {}


class Codec:
    """Reads and writes the stored values of one kind."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        tags = f'"kind":"{kind.kind}","apiVersion":"{kind.api_version}",'
        self.head = ("{" + tags + '"metadata":{"resourceVersion":"').encode()
        # Built-in lists carry bare items; custom ones repeat kind and apiVersion in each.
        self.item_head = self.head if kind.custom else b'{"metadata":{"resourceVersion":"'
        self.list_head = (
            f'{{"kind":"{kind.kind}List","apiVersion":"{kind.api_version}","metadata":'
        ).encode()
        self.prefix = kind.prefix
        views = event_views.VIEWS.get((kind.group, kind.resource))
        self.to_view: Callable[[Object], Object] | None = views[0] if views else kind.view
        self.to_stored: Callable[[Object], Object] | None = views[1] if views else kind.unview
        self.spliced = self.to_view is None
        """Whether an object is shown without being taken apart."""
        self._fields = _fields_decoder(kind)
        self._read: dict[str, tuple[KeyValue, Fields]] = {}  # of keys, what was read last
        self._mark = mark(kind.storage_version) if kind.marked else b""
        self._type = None if kind.custom else type_for(kind.api_version, kind.kind)

    def key(self, namespace: str, name: str) -> str:
        return f"{self.prefix}{namespace}/{name}" if self.kind.namespaced else self.prefix + name

    def collection(self, namespace: str) -> str:
        """Return the key prefix of all objects of a namespace, or of all if it is empty."""
        return f"{self.prefix}{namespace}/" if namespace else self.prefix

    def whole(self, kv: KeyValue) -> bytes:
        """Return the JSON of a stored object as clients see it."""
        if self.to_view is not None:
            return _encoder.encode(self.decode(kv))
        value = split_mark(kv.value)[0] if self._mark else kv.value
        return b'%b%d",%b' % (self.head, kv.mod_revision, value[_SKIP:])

    def item(self, kv: KeyValue) -> bytes:
        """Return the JSON of a stored object as an item of a list."""
        if self.to_view is not None:
            return _encoder.encode(self.bare(self.decode(kv)))
        value = split_mark(kv.value)[0] if self._mark else kv.value
        return b'%b%d",%b' % (self.item_head, kv.mod_revision, value[_SKIP:])

    def bare(self, obj: Object) -> Object:
        """Return an object as an item of a list."""
        if self.kind.custom:
            return obj
        return {name: value for name, value in obj.items() if name not in ("kind", "apiVersion")}

    def message(self, kv: KeyValue) -> bytes:
        """Return a stored object as a protobuf message; only for kinds that are built in."""
        if self.to_view is not None or self._type is None:
            return protobuf.message(self.decode(kv))
        return protobuf.stored_writer(self._type).write(kv.value, kv.mod_revision)

    def protobuf(self, kv: KeyValue) -> bytes:
        """Return a stored object as a whole protobuf body."""
        return protobuf.enveloped(self.kind.api_version, self.kind.kind, self.message(kv))

    def decode(self, kv: KeyValue) -> Object:
        """Return a stored object as a new dict, with kind, apiVersion and resourceVersion."""
        obj = self.decode_value(kv.value)
        obj["metadata"]["resourceVersion"] = str(kv.mod_revision)
        return obj

    def decode_value(self, value: bytes) -> Object:
        obj: Object = {"kind": self.kind.kind, "apiVersion": self.kind.api_version}
        obj.update(_decoder.decode(split_mark(value)[0] if self._mark else value))
        return obj if self.to_view is None else self.to_view(obj)

    def encode(self, obj: Object) -> bytes:
        """Encode an object as it is stored."""
        value = encode_value(obj if self.to_stored is None else self.to_stored(obj))
        return value[:-1] + self._mark if self._mark else value

    def stale(self, kv: KeyValue) -> bool:
        """Whether a value was stored in another version than is stored now."""
        return bool(self._mark) and not kv.value.endswith(self._mark)

    def fields(self, kv: KeyValue) -> Fields:
        """Read what selectors need without decoding the rest; kept until its next change."""
        known = self._read.get(kv.key)
        if known is not None and known[0] is kv:
            return known[1]
        found = self._fields.decode(kv.value)
        fields = Fields(found.metadata.labels or _NO_LABELS, partial(self._field, found))
        if len(self._read) >= MAX_READ:
            self._read.clear()
        self._read[kv.key] = (kv, fields)
        return fields

    def _field(self, found: Any, path: str) -> str:
        """Read one field that can be selected by; others are empty."""
        if path == "metadata.name":
            return str(found.metadata.name)
        if path == "metadata.namespace":
            return str(found.metadata.namespace)
        for known, read in _READERS.get(self.kind.storage, ()):
            if path == known:
                return read(found)
        return _plain(found, path) if path in self.kind.field_labels else ""


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _plain(found: Any, path: str) -> str:
    if (stored := event_views.FIELD_NAMES.get(path)) is not None:
        path = stored
    for part in path.split("."):
        found = getattr(found, part, None)
        if found is None:
            return ""
    return _text(found)


def _false_by_default(path: str) -> Callable[[Any], str]:
    return lambda found: _plain(found, path) or "false"


def _zero_by_default(path: str) -> Callable[[Any], str]:
    return lambda found: _plain(found, path) or "0"


def _pod_ips(found: Any) -> str:
    ips = getattr(found.status, "podIPs", None) if found.status else None
    return ",".join(str(ip.get("ip", "")) for ip in ips or ())


def _event_source(found: Any) -> str:
    source = getattr(found.source, "component", None) if found.source else None
    return _text(source or found.reportingComponent)


# Selectable fields that are not simply the text of the field at that path.
_READERS: dict[tuple[str, str], tuple[tuple[str, Callable[[Any], str]], ...]] = {
    ("", "pods"): (
        ("spec.hostNetwork", _false_by_default("spec.hostNetwork")),
        ("status.podIPs", _pod_ips),
    ),
    ("", "nodes"): (("spec.unschedulable", _false_by_default("spec.unschedulable")),),
    ("", "replicationcontrollers"): (("status.replicas", _zero_by_default("status.replicas")),),
    ("batch", "jobs"): (("status.successful", _zero_by_default("status.succeeded")),),
    ("", "events"): (("source", _event_source),),
}
_EXTRA_PATHS = {
    ("batch", "jobs"): ("status.succeeded",),
    ("", "events"): (*event_views.FIELD_NAMES.values(), "source.component", "reason", "type"),
}


class _Metadata(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    labels: dict[str, str] | None = None


def _fields_decoder(kind: Kind) -> msgspec.json.Decoder[Any]:
    """Build a decoder that reads metadata and the selectable fields and skips all else."""
    tree: dict[str, Any] = {}
    for path in (*kind.field_labels, *_EXTRA_PATHS.get(kind.storage, ())):
        node = tree
        *parents, leaf = path.split(".")
        for part in parents:
            if not isinstance(node.get(part), dict):
                node[part] = {}
            node = node[part]
        node.setdefault(leaf, None)
    return msgspec.json.Decoder(_struct_of("Selectable", tree, (("metadata", _Metadata),)))


def _struct_of(name: str, tree: dict[str, Any], first: tuple[tuple[str, type], ...] = ()) -> type:
    fields: list[Any] = list(first)
    for part, below in tree.items():
        if part == "metadata":
            continue
        kind: Any = Any if not below else _struct_of(f"{name}_{part}", below) | None
        fields.append((part, kind, None))
    return msgspec.defstruct(name, fields)
