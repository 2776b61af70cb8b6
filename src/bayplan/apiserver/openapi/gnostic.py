"""Writes an OpenAPI v2 document in the protobuf form that Go's discovery client asks for.

The form is that of the gnostic models (`OpenAPIv2.proto`): a message for every object of the
document, extensions as YAML text (JSON is YAML). Only what our v2 documents contain is written.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping
from typing import Any

from bayplan.apiserver.protobuf.writer import delimited, tag, varint

Document = Mapping[str, Any]
_METHODS = {"get": 2, "put": 3, "post": 4, "delete": 5, "patch": 8}
_SCHEMA_TEXTS = {"$ref": 1, "format": 2, "title": 3, "description": 4, "pattern": 13}
_SCHEMA_NUMBERS = {"multipleOf": 6, "maximum": 7, "minimum": 9}
_SCHEMA_INTEGERS = {
    "exclusiveMaximum": 8, "exclusiveMinimum": 10, "maxLength": 11, "minLength": 12,
    "maxItems": 14, "minItems": 15, "uniqueItems": 16, "maxProperties": 17, "minProperties": 18,
}  # fmt: skip


def encode_document(document: Document) -> bytes:
    """Return the document as a gnostic `Document` message."""
    info = document["info"]
    paths = [
        message(2, text(1, path), message(2, *_path_item(item)))
        for path, item in document["paths"].items()
    ]
    definitions = [
        message(1, text(1, name), message(2, *_schema(schema)))
        for name, schema in document["definitions"].items()
    ]
    return b"".join(
        [
            text(1, document["swagger"]),
            message(2, text(1, info["title"]), text(2, info["version"])),
            message(8, *paths),
            message(9, *definitions),
        ]
    )


# -- the wire format -----------------------------------------------------------------------------


def chunk(number: int, data: bytes) -> bytes:
    return delimited(tag(number), data)


def message(number: int, *parts: bytes) -> bytes:
    return chunk(number, b"".join(parts))


def text(number: int, value: str) -> bytes:
    return chunk(number, value.encode())


def integer(number: int, value: int) -> bytes:
    return tag(number, 0) + varint(int(value))


def double(number: int, value: float) -> bytes:
    return tag(number, 1) + struct.pack("<d", value)


# -- objects of the document ---------------------------------------------------------------------


def _any(number: int, value: Any) -> bytes:
    return message(number, text(2, json.dumps(value, separators=(",", ":")) + "\n"))


def _extensions(number: int, source: Document) -> Iterable[bytes]:
    for key, value in source.items():
        if key.startswith("x-"):
            yield message(number, text(1, key), _any(2, value))


def _schema(schema: Document) -> Iterable[bytes]:
    for key, value in schema.items():
        if key in _SCHEMA_TEXTS:
            yield text(_SCHEMA_TEXTS[key], value)
        elif key in _SCHEMA_NUMBERS:
            yield double(_SCHEMA_NUMBERS[key], value)
        elif key in _SCHEMA_INTEGERS:
            yield integer(_SCHEMA_INTEGERS[key], value)
        elif key == "type":
            yield message(22, text(1, value))
        elif key == "required":
            yield from (text(19, name) for name in value)
        elif key == "enum":
            yield from (_any(20, item) for item in value)
        elif key == "default":
            yield _any(5, value)
        elif key == "items" and isinstance(value, Mapping):
            yield message(23, message(1, *_schema(value)))
        elif key == "properties":
            named = (message(1, text(1, k), message(2, *_schema(v))) for k, v in value.items())
            yield message(25, *named)
        elif key == "additionalProperties":
            inner = message(1, *_schema(value)) if isinstance(value, Mapping) else integer(2, value)
            yield message(21, inner)
        elif key == "allOf":
            yield from (message(24, *_schema(item)) for item in value)
    yield from _extensions(31, schema)


def _path_item(item: Document) -> Iterable[bytes]:
    for method, number in _METHODS.items():
        if method in item:
            yield message(number, *_operation(item[method]))
    for parameter in item.get("parameters") or ():
        yield message(9, _parameter(parameter))


def _operation(operation: Document) -> Iterable[bytes]:
    yield text(5, operation["operationId"])
    for media in operation.get("produces") or ():
        yield text(6, media)
    for media in operation.get("consumes") or ():
        yield text(7, media)
    for parameter in operation.get("parameters") or ():
        yield message(8, _parameter(parameter))
    responses = [
        message(1, text(1, code), message(2, message(1, *_response(answer))))
        for code, answer in operation["responses"].items()
    ]
    yield message(9, *responses)
    yield from _extensions(13, operation)


def _response(answer: Document) -> Iterable[bytes]:
    yield text(1, answer["description"])
    yield message(2, message(1, *_schema(answer["schema"])))


def _parameter(parameter: Document) -> bytes:
    name, place = parameter["name"], parameter["in"]
    if place == "body":
        required = integer(4, parameter.get("required", False))
        schema = message(5, *_schema(parameter["schema"]))
        return message(1, message(1, text(2, name), text(3, place), required, schema))
    # Query and path parameters have the same fields, numbered differently from the type on.
    kind, number = (6, 3) if place == "query" else (5, 4)
    required = integer(1, parameter.get("required", False))
    inner = message(number, required, text(2, place), text(4, name), text(kind, parameter["type"]))
    return message(1, message(2, inner))
