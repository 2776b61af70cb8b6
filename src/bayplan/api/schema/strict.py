"""Unknown and duplicate fields, for `fieldValidation=Strict` and `Warn`.

Words and paths are those of the real API server: `unknown field "spec.containers[0].comand"`,
`duplicate field "spec.nodeName"`. Duplicates are invisible once a body is decoded, so the text is
looked at again; a cheap count of keys first rules out nearly every body.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from bayplan.api.place import Place, below, shown
from bayplan.api.schema.model import Type

_KEY = re.compile(rb'"\s*:')
# Where quotes may stand in a text.
_KEY_OR_TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"(\s*+:)?+', re.DOTALL)
LIMIT = 100  # upstream reports no more problems than this


def unknown_fields(type_: Type, obj: Any) -> list[str]:
    """The paths of fields that the type does not have, in the order of the object."""
    found: list[Place] = []
    _walk(type_, obj, "", found)
    return shown(found)


def _walk(type_: Type, value: Any, path: Place | str, found: list[Place]) -> None:
    if type_.kind == "struct" and isinstance(value, dict):
        for key, item in value.items():
            inner = below(path, key)
            field = type_.fields.get(key)
            if field is not None:
                _walk(field.type, item, inner, found)
            elif not type_.preserve:
                found.append(inner)
    elif type_.kind == "list" and isinstance(value, list) and type_.elem is not None:
        for index, item in enumerate(value):
            _walk(type_.elem, item, Place(path, index), found)
    elif type_.kind == "map" and isinstance(value, dict) and type_.elem is not None:
        for key, item in value.items():
            _walk(type_.elem, item, below(path, key), found)


def duplicate_fields(body: bytes, obj: Any, added: int = 0) -> list[str]:
    """The paths of keys that occur twice in one object of a JSON body that decoded to `obj`.

    `added` is how many keys `obj` has got since.
    """
    if b"\\" in body:
        keys = sum(1 for found in _KEY_OR_TEXT.finditer(body) if found[1])
        same = keys == count_keys(obj) - added
    else:  # no text has a quote in it
        same = len(_KEY.findall(body)) == msgspec.json.encode(obj).count(b'":') - added
    if same:
        return []
    found: list[Place] = []
    _report(json.loads(body, object_pairs_hook=_Pairs), "", found)
    return shown(found)


def count_keys(value: Any) -> int:
    """How many keys all dicts inside a value have together."""
    total, stack = 0, [value]
    while stack:
        item = stack.pop()
        if type(item) is dict:
            total += len(item)
            stack.extend(item.values())
        elif type(item) is list:
            stack.extend(item)
    return total


class _Pairs(list[tuple[str, Any]]):
    """The pairs of one JSON object, duplicates included."""


def _report(value: Any, path: Place | str, found: list[Place]) -> None:
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for key, item in value:
            inner = below(path, key)
            if key in seen:
                found.append(inner)
            seen.add(key)
            _report(item, inner, found)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _report(item, Place(path, index), found)


def problems(type_: Type, obj: Any, body: bytes | None = None) -> list[str]:
    """Everything that strict validation reports: warnings, or the parts of one error.

    Give `body` if it is JSON; duplicates in YAML are the YAML reader's to find.
    """
    duplicates = duplicate_fields(body, obj) if body is not None else []
    unknown = unknown_fields(type_, obj)
    texts = [f'unknown field "{path}"' for path in unknown]
    texts += [f'duplicate field "{path}"' for path in dict.fromkeys(duplicates)]
    return texts[:LIMIT]


def strict_message(obj: dict[str, Any], found: list[str]) -> str:
    """The text of the 400 that Strict answers with."""
    kind, version = obj.get("kind", ""), str(obj.get("apiVersion", "")).rsplit("/", 1)[-1]
    joined = ", ".join(found)
    return (
        f'{kind} in version "{version}" cannot be handled as a {kind}: '
        f"strict decoding error: {joined}"
    )
