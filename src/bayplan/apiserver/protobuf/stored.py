"""From stored JSON straight to protobuf, without building the object in between.

Objects of a kind resemble each other: the pods of a Deployment have the same containers, volumes
and tolerations. So a stored value is only taken apart down to the fields of `metadata`, `spec` and
`status`, each still as JSON. Text is copied; of anything larger the result is remembered by its
JSON, and the next object that has the same part needs one lookup. What is remembered is bounded:
beyond `MEMORY` bytes it is forgotten as a whole.

Kinds that are a view of a stored object cannot be written so; `writer.encode` takes their dict.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec

from bayplan.api.schema import Field, Type
from bayplan.apiserver.protobuf.writer import delimited, fields, tag

MEMORY = 8 << 20
Part = Callable[[bytes], bytes]
"""The JSON of a field in, its bytes with the tag out."""
_parse = msgspec.json.decode
_ABSENT = msgspec.Raw()


class Memory:
    """How many bytes all that is remembered has, and how to forget it."""

    def __init__(self, limit: int = MEMORY) -> None:
        self.limit = limit
        self.held = 0
        self.parts: list[dict[bytes, bytes]] = []

    def add(self, size: int) -> None:
        self.held += size
        if self.held > self.limit:
            self.held = size
            for known in self.parts:
                known.clear()


_MEMORY = Memory()


def _remembered(write: Callable[[Any], bytes], memory: Memory) -> Part:
    known: dict[bytes, bytes] = {}
    memory.parts.append(known)

    def part(data: bytes) -> bytes:
        found = known.get(data)
        if found is None:
            value = _parse(data)
            found = write(value) if value is not None else b""
            memory.add(len(data) + len(found))
            known[data] = found
        return found

    return part


def _text(number: int) -> Part:
    head = tag(number)

    def part(data: bytes) -> bytes:
        if data[:1] != b'"':
            return b""  # null
        if b"\\" in data:
            return delimited(head, _parse(data).encode())
        return delimited(head, data[1:-1])

    return part


def _part(field: Field, write: Callable[[Any], bytes], memory: Memory) -> Part:
    return _text(field.number) if field.type.kind == "string" else _remembered(write, memory)


def _parts(type_: Type, memory: Memory) -> dict[str, Part]:
    writers = fields(type_)
    return {name: _part(type_.fields[name], write, memory) for name, write in writers.items()}


class StoredWriter:
    """Writes the stored values of one type."""

    def __init__(self, type_: Type, memory: Memory = _MEMORY) -> None:
        self._own: list[tuple[str, Part]] = []
        self._structs: list[tuple[str, bytes, dict[str, Part]]] = []
        shape: list[Any] = []
        whole = _parts(type_, memory)
        for name, part in whole.items():
            field = type_.fields[name]
            if field.type.kind == "struct" and not field.type.messages:
                self._structs.append((name, tag(field.number), _parts(field.type, memory)))
                shape.append((name, dict[str, msgspec.Raw] | None, None))
            else:
                self._own.append((name, part))
                shape.append((name, msgspec.Raw, _ABSENT))
        self._decoder = msgspec.json.Decoder(msgspec.defstruct("Shape", shape))
        self._version = tag(type_.fields["metadata"].type.fields["resourceVersion"].number)

    def write(self, value: bytes, revision: int) -> bytes:
        """Return the message of a stored object, without envelope."""
        shape = self._decoder.decode(value)
        out = []
        for name, head, parts in self._structs:
            found = getattr(shape, name)
            if found is None:
                continue
            inner = [parts[key](bytes(raw)) for key, raw in found.items() if key in parts]
            if name == "metadata":
                inner.append(delimited(self._version, b"%d" % revision))
            out.append(delimited(head, b"".join(inner)))
        for name, part in self._own:
            if (raw := getattr(shape, name)) is not _ABSENT:
                out.append(part(bytes(raw)))
        return b"".join(out)


@cache
def stored_writer(type_: Type) -> StoredWriter:
    return StoredWriter(type_)
