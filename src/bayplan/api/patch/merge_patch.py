"""RFC 7386 JSON merge patch.

Inputs are never changed; unchanged parts are shared with the result.
"""

from __future__ import annotations

from typing import Any

from bayplan.api.patch.errors import BadPatch, not_a_map


def apply_merge_patch(doc: dict[str, Any], patch: Any) -> dict[str, Any]:
    """Return the object with the patch merged in; a patch that is not an object is refused."""
    if patch is None:
        raise BadPatch("Invalid JSON Patch")
    if not isinstance(patch, dict):
        raise not_a_map(patch, "error decoding patch: ")
    return _merge(doc, patch)


def _merge(doc: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    result = dict(doc)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key), value)
    return result


def _merged(current: Any, value: Any) -> Any:
    if not isinstance(current, dict):
        return _without_nulls(value)
    return _merge(current, value) if isinstance(value, dict) else value


def _without_nulls(value: Any) -> Any:
    """Drop null members of objects at any depth; null items of lists stay."""
    if isinstance(value, dict):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_without_nulls(v) for v in value]
    return value
