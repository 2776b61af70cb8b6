"""Tables of custom resources: additionalPrinterColumns and the JSONPath they are written in.

The JSONPath is the part that definitions use: fields, quoted fields, indexes, `[*]`, and filters
such as `.status.conditions[?(@.type=="Ready")].status`. The first match fills the cell.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from bayplan.apiserver.tables.registry import Column, Printer, column
from bayplan.apiserver.tables.text import moment, since

Step = Callable[[list[Any]], list[Any]]
_TOKEN = re.compile(
    r"""\.?\[\?\(\s*@(?P<left>[^=!<>\s]*)\s*(?P<op>==|!=)\s*(?P<right>.+?)\s*\)\]"""
    r"""|\.?\[(?P<index>-?\d+)\]"""
    r"""|\.?\[(?P<all>\*)\]"""
    r"""|\.?\[['"](?P<quoted>[^\]]*?)['"]\]"""
    r"""|\.(?P<star>\*)"""
    r"""|\.(?P<field>(?:\\.|[^.\[\\])+)"""
)
DEFAULT_COLUMNS = [{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}]


def compile_path(path: str) -> list[Step]:
    """Turn a JSONPath into steps; raises ValueError where it is not understood."""
    text = path.strip()
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1]
    text = text.removeprefix("$").removeprefix("@")
    if text and text[0] not in ".[":
        text = "." + text
    steps, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(
                f'reading JSON path "{path}": not understood from character {at + 1} on'
            )
        steps.append(_step(match))
        at = match.end()
    return steps


def _step(match: re.Match[str]) -> Step:
    if match["op"]:
        return _filter(match["left"], match["op"], match["right"])
    if match["index"] is not None:
        at = int(match["index"])
        return lambda values: [
            v[at] for v in values if isinstance(v, list) and -len(v) <= at < len(v)
        ]
    if match["all"] or match["star"]:
        return lambda values: [item for value in values for item in _items(value)]
    name = match["quoted"] if match["quoted"] is not None else match["field"]
    name = re.sub(r"\\(.)", r"\1", name)
    return lambda values: [v[name] for v in values if isinstance(v, dict) and name in v]


def _items(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _filter(left: str, op: str, right: str) -> Step:
    steps = compile_path(left) if left else []
    quoted = len(right) > 1 and right[0] in "'\"" and right[-1] == right[0]
    wanted = right[1:-1] if quoted else json.loads(right)

    def keep(item: Any) -> bool:
        found = find(steps, item)
        return bool(found) and (found[0] == wanted) == (op == "==")

    return lambda values: [item for value in values for item in _items(value) if keep(item)]


def find(steps: Sequence[Step], obj: Any) -> list[Any]:
    """All values that a path leads to."""
    values = [obj]
    for step in steps:
        values = step(values)
    return values


def custom_printer(columns: Sequence[Mapping[str, Any]] | None) -> Printer:
    """The printer for a version of a custom resource."""
    wanted = list(columns or DEFAULT_COLUMNS)
    paths = [compile_path(item["jsonPath"]) for item in wanted]
    heads: list[Column] = [column("Name", format_="name")]
    for item in wanted:
        head = column(item["name"], item["type"], item.get("priority", 0), item.get("format", ""))
        head["description"] = item.get("description", "")
        heads.append(head)
    kinds = [item["type"] for item in wanted]

    def row(obj: Mapping[str, Any], now: datetime) -> list[Any]:
        cells = [obj["metadata"]["name"]]
        for kind, steps in zip(kinds, paths, strict=True):
            found = find(steps, obj)
            cells.append(_cell(kind, found[0], now) if found else None)
        return cells

    return Printer(heads, row)


def _cell(kind: str, value: Any, now: datetime) -> Any:
    if kind == "string":
        return value if isinstance(value, str) else _text(value)
    if kind == "date":
        if not isinstance(value, str):
            return None
        return since(value, now) if moment(value) is not None else "<invalid>"
    if kind == "boolean":
        return value if isinstance(value, bool) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if kind == "integer" else value


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
