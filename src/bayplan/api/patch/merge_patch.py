"""RFC 7386 JSON merge patch.

Inputs are never changed; unchanged parts are shared with the result.
"""

from __future__ import annotations

from typing import Any

from bayplan.api.patch.errors import BadPatch, not_a_map
from bayplan.api.patch.values import without_nulls


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
        return without_nulls(value)
    return _merge(current, value) if isinstance(value, dict) else value
