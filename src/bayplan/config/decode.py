"""Strict decoding of configuration data into structs, with every problem and its field path.

msgspec stops at the first problem and, for frozen structs, names fields by JSON pointer. A person
who fixes a file wants all of them in the words of the file, so this walks the struct definitions
itself. Unknown fields are problems, with the nearest known name as a hint. It does no validation
of values beyond their types, and it is not for hot paths.
"""

import base64
import binascii
import difflib
import types
import typing
from typing import Annotated, Any, TypeVar, cast

import msgspec

from bayplan.api.duration import Duration, parse_duration
from bayplan.config.args import ARGS_TYPES, PluginArgs
from bayplan.config.fields import show
from bayplan.config.types import API_VERSION, PluginConfig
from bayplan.errors import DecodeError

T = TypeVar("T")
_WORDS = {str: "a string", bool: "true or false", float: "a number"}
_MISSING = object()


def decode(data: object, kind: type[T], path: str, problems: list[str]) -> T:
    """Read `data` as `kind`; append what is wrong to `problems` and use defaults there."""
    value = _decode(data, kind, path, problems)
    return cast("T", kind() if value is _MISSING else value)


def _decode(data: object, kind: Any, path: str, problems: list[str]) -> object:
    if kind is PluginConfig:
        return _plugin_config(data, path, problems)
    if kind is Duration:
        return _duration(data, path, problems)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _struct(data, kind, path, problems)
    origin = typing.get_origin(kind)
    if origin is Annotated:
        return _integer(data, 64, path, problems)
    if origin in (types.UnionType, typing.Union):
        inner = [part for part in typing.get_args(kind) if part is not types.NoneType]
        if len(inner) == 1:
            return _decode(data, inner[0], path, problems)
        return data
    if origin is tuple:
        return _list(data, typing.get_args(kind)[0], path, problems)
    if origin is dict:
        return _map(data, typing.get_args(kind)[1], path, problems)
    return _scalar(data, kind, path, problems)


def _struct(data: object, kind: type[msgspec.Struct], path: str, problems: list[str]) -> object:
    if not isinstance(data, dict):
        problems.append(_mismatch(path, "an object", data))
        return _MISSING
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    hints = typing.get_type_hints(kind, include_extras=True)
    values: dict[str, object] = {}
    for name, item in data.items():
        field = fields.get(name)
        where = f"{path}.{name}" if path else name
        if field is None:
            problems.append(_unknown(where, name, fields))
            continue
        if item is None:  # Go leaves a field alone when the file says null
            continue
        value = _decode(item, hints[field.name], where, problems)
        if value is not _MISSING:
            values[field.name] = value
    return kind(**values)


def _unknown(path: str, name: str, known: typing.Iterable[str]) -> str:
    text = f'unknown field "{path}"'
    near = difflib.get_close_matches(name, known, n=1)
    return f'{text}, did you mean "{near[0]}"?' if near else text


def _mismatch(path: str, expected: str, data: object) -> str:
    shown = show(data)
    if len(shown) > 60:
        shown = shown[:57] + "..."
    return f"{path or 'document'}: expected {expected}, got {shown}"


def _list(data: object, kind: Any, path: str, problems: list[str]) -> object:
    if not isinstance(data, list):
        problems.append(_mismatch(path, "a list", data))
        return _MISSING
    decoded = (_decode(item, kind, f"{path}[{i}]", problems) for i, item in enumerate(data))
    return tuple(item for item in decoded if item is not _MISSING)


def _map(data: object, kind: Any, path: str, problems: list[str]) -> object:
    if not isinstance(data, dict):
        problems.append(_mismatch(path, "an object", data))
        return _MISSING
    if kind is Any:
        return data
    return {key: _decode(item, kind, f"{path}.{key}", problems) for key, item in data.items()}


def _scalar(data: object, kind: Any, path: str, problems: list[str]) -> object:
    if kind is bytes:
        return _bytes(data, path, problems)
    if kind is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    if kind is int:
        return _integer(data, 32, path, problems)
    if not isinstance(data, kind):
        problems.append(_mismatch(path, _WORDS.get(kind, kind.__name__), data))
        return _MISSING
    return data


def _integer(data: object, bits: int, path: str, problems: list[str]) -> object:
    # bool is an int in Python, but not in a configuration file
    if not isinstance(data, int) or isinstance(data, bool):
        problems.append(_mismatch(path, "an integer", data))
    elif not -(1 << (bits - 1)) <= data < 1 << (bits - 1):
        problems.append(f"{path}: number {data} does not fit into int{bits}")
    else:
        return data
    return _MISSING


def _bytes(data: object, path: str, problems: list[str]) -> object:
    try:
        if isinstance(data, str):
            return base64.b64decode(data, validate=True)
        problems.append(_mismatch(path, "a base64 string", data))
    except binascii.Error as problem:
        problems.append(f"{path}: invalid base64: {problem}")
    return _MISSING


def _duration(data: object, path: str, problems: list[str]) -> object:
    if not isinstance(data, str):
        problems.append(_mismatch(path, 'a duration such as "15s"', data))
        return _MISSING
    try:
        return parse_duration(data)
    except DecodeError as problem:
        problems.append(f"{path}: {problem}")
        return _MISSING


def _plugin_config(data: object, path: str, problems: list[str]) -> object:
    """Arguments are decoded by the plugin's own type when it is in-tree, else passed on."""
    if not isinstance(data, dict):
        problems.append(_mismatch(path, "an object", data))
        return _MISSING
    known = ("name", "args")
    problems += [_unknown(f"{path}.{name}", name, known) for name in data if name not in known]
    name = _scalar(data.get("name") or "", str, f"{path}.name", problems)
    if name is _MISSING:
        return _MISSING
    args = _args(cast("str", name), data.get("args"), f"{path}.args", problems)
    return PluginConfig(name=cast("str", name), args=args)


def _args(name: str, data: object, path: str, problems: list[str]) -> PluginArgs | None:
    kind = ARGS_TYPES.get(name)
    if data is None:
        return None if kind is None else cast("PluginArgs", kind())
    if not isinstance(data, dict):
        problems.append(_mismatch(path, "an object", data))
        return None
    if kind is None:
        return data
    version, its = data.get("apiVersion", API_VERSION), data.get("kind", kind.__name__)
    if version != API_VERSION:
        problems.append(
            f"{path}: no kind {show(its)} is registered for version {show(version)}; "
            f'use "{API_VERSION}"'
        )
        return None
    if its != kind.__name__:
        problems.append(
            f"{path}: args for plugin {name} were not of type "
            f"{kind.__name__}.kubescheduler.config.k8s.io, got {its}"
        )
        return None
    plain = {key: item for key, item in data.items() if key not in ("apiVersion", "kind")}
    return cast("PluginArgs", decode(plain, kind, path, problems))
