"""From bytes or plain data to structs, with errors that name the object and the field.

msgspec decodes straight into structs, and refuses `null` where a field has no `None`. Go programs
write `null` for empty lists and maps, so a refused object is decoded once more without its nulls;
only objects that hold one pay for this. Objects are decoded for reading: fields without a struct
member are dropped, so what comes out must not be written back.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple, TypeVar

import msgspec

from bayplan.api.meta import Object
from bayplan.errors import DecodeError

T = TypeVar("T", bound=Object)

_PATH = re.compile(r" - at `\$\.?(.*)`$")


class Page(NamedTuple):
    """What a list answer holds: decoded items, its position, and the items that were refused."""

    items: list[Any]
    resource_version: str
    continue_token: str
    problems: list[DecodeError]


class _ListMeta(msgspec.Struct, rename="camel", gc=False):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _RawList(msgspec.Struct, gc=False):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[msgspec.Raw] | None = None


_RAW_LIST = msgspec.json.Decoder(_RawList)


@cache
def _decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    return msgspec.json.Decoder(kind)


def decode(kind: type[T], data: bytes | bytearray | memoryview | str | msgspec.Raw) -> T:
    """Decode one object from JSON."""
    try:
        try:
            decoded: T = _decoder(kind).decode(data)
            return decoded
        except msgspec.ValidationError:
            plain = msgspec.json.decode(data)  # refuses numbers without end, too
        return convert(kind, plain)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise DecodeError(f"decoding a {kind.KIND}: {problem}") from problem


def convert(kind: type[T], data: object) -> T:
    """Turn plain data (a decoded JSON or YAML document) into a struct."""
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError:
        pass  # perhaps only because of nulls, which are rare
    try:
        return msgspec.convert(strip_nulls(data), kind)
    except msgspec.ValidationError as problem:
        raise DecodeError(_describe(kind, data, str(problem))) from problem


def decode_list(kind: type[T], data: bytes | str) -> Page:
    """Decode a list answer item by item; an item that is refused does not spoil the others."""
    try:
        raw = _RAW_LIST.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise DecodeError(f"decoding a list of {kind.KIND}: {problem}") from problem
    items: list[T] = []
    problems: list[DecodeError] = []
    for item in raw.items or ():
        try:
            items.append(decode(kind, item))
        except DecodeError as problem:
            problems.append(problem)
    return Page(items, raw.metadata.resource_version, raw.metadata.continue_, problems)


def encode(value: Object) -> bytes:
    """Encode what a struct holds, with its kind; for tests, records and tools."""
    head = {"apiVersion": value.API_VERSION, "kind": value.KIND}
    return msgspec.json.encode(head | msgspec.to_builtins(value))


def to_builtins(value: Object) -> dict[str, Any]:
    """Return what a struct holds as plain data, with its kind."""
    body: dict[str, Any] = msgspec.json.decode(encode(value))
    return body


def plain(value: msgspec.Struct) -> dict[str, Any]:
    """Return any struct as plain data, with lists where it has tuples."""
    body: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(value))
    return body


def strip_nulls(data: object) -> object:
    """Return plain data without null members; Go's decoder treats them as absent too."""
    if isinstance(data, dict):
        return {k: strip_nulls(v) for k, v in data.items() if v is not None}
    if isinstance(data, list | tuple):
        return [strip_nulls(v) for v in data if v is not None]
    return data


def _describe(kind: type[Object], data: object, problem: str) -> str:
    """Name the kind, the object and the field in one line."""
    match = _PATH.search(problem)
    field = match.group(1) if match else ""
    text = problem[: match.start()] if match else problem
    where = f", field {field}" if field else ""
    return f'decoding {kind.KIND} "{_name_of(data)}"{where}: {text[:1].lower()}{text[1:]}'


def _name_of(data: object) -> str:
    metadata = data.get("metadata") if isinstance(data, Mapping) else None
    if not isinstance(metadata, Mapping):
        return ""
    namespace, name = metadata.get("namespace") or "", metadata.get("name") or ""
    return f"{namespace}/{name}" if namespace else str(name)
