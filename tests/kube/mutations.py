"""Makes wrong objects out of right ones, for comparing two servers."""

from __future__ import annotations

import copy
import random
from typing import Any

Path = tuple[Any, ...]
VALUES: tuple[Any, ...] = (
    "", "Bad Value!", "ok-name", -1, 0, 1, 99999, True, False, [], {}, None, "10%", "1Gi", "-5",
    "x" * 70, "a.b/c",
)  # fmt: skip
_FIXED = {("metadata",), ("metadata", "name"), ("metadata", "generateName")}


def paths(value: Any, path: Path = ()) -> list[Path]:
    """Return the path of every value in an object, the object's own first."""
    out = [path]
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    else:
        return out
    for key, item in items:
        out += paths(item, (*path, key))
    return out


def mutated(body: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """Return a copy with one to three fields removed, repeated or replaced."""
    out = copy.deepcopy(body)
    for _ in range(rng.choice((1, 1, 2, 3))):
        found = [p for p in paths(out) if p and p[0] not in ("apiVersion", "kind")]
        found = [p for p in found if p not in _FIXED]
        if not found:
            return out
        *above, last = rng.choice(found)
        parent: Any = out
        for key in above:
            parent = parent[key]
        _change(parent, last, rng)
    return out


def _change(parent: Any, key: Any, rng: random.Random) -> None:
    value, choice = parent[key], rng.random()
    if choice < 0.25:
        del parent[key]
    elif choice < 0.35 and isinstance(value, list) and value:
        value.append(copy.deepcopy(rng.choice(value)))
    else:
        alike = [other for other in VALUES if type(other) is type(value)]
        similar = alike and rng.random() < 0.8
        parent[key] = rng.choice(alike if similar else VALUES)
