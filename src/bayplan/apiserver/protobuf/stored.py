"""From stored JSON straight to protobuf, without building the object in between.

Objects of a kind resemble each other: the pods of a Deployment have the same containers, volumes
and tolerations. So a stored value is only taken apart down to the fields of `metadata`, `spec` and
`status`, each still as JSON. Text is copied; of anything larger that was met twice the result is
remembered by its JSON, and the next object that has the same part needs one lookup. So is the whole
of an object, for the next list. What is remembered is bounded: beyond `MEMORY` bytes all of it is
forgotten.

Kinds that are a view of a stored object cannot be written so; `writer.encode` takes their dict.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec

from bayplan.api.schema import Field, Type
from bayplan.apiserver.protobuf.writer import delimited, fields, tag

MEMORY = 32 << 20
_MARK = 64  # bytes that one takes, about
Part = Callable[[bytes], bytes]
"""The JSON of a field in, its bytes with the tag out."""
_parse = msgspec.json.decode
_ABSENT = msgspec.Raw()


class Memory:
    """How many bytes all that is remembered has, and how to forget it."""

    def __init__(self, limit: int = MEMORY) -> None:
        self.limit = limit
        self.held = 0
        self.parts: list[dict[bytes, Any] | set[int]] = []

    def add(self, size: int) -> None:
        self.held += size
        if self.held > self.limit:
            self.held = size
            for known in self.parts:
                known.clear()


_MEMORY = Memory()


def _remembered(write: Callable[[Any], bytes], memory: Memory) -> Part:
    known: dict[bytes, bytes] = {}
    met: set[int] = set()
    memory.parts += (known, met)

    def part(data: bytes) -> bytes:
        found = known.get(data)
        if found is None:
            value = _parse(data)
            found = write(value) if value is not None else b""
            if (mark := hash(data)) in met:
                memory.add(len(data) + len(found))
                known[data] = found
            else:
                memory.add(_MARK)
                met.add(mark)
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
        self._memory = memory
        self._whole: dict[bytes, tuple[int, bytes]] = {}
        memory.parts.append(self._whole)
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
        found = self._whole.get(value)
        if found is not None and found[0] == revision:
            return found[1]
        data = self._written(value, revision)
        self._memory.add(len(data))  # the value is the store's own
        self._whole[value] = revision, data
        return data

    def _written(self, value: bytes, revision: int) -> bytes:
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
