"""Objects as tables, the form in which kubectl asks for lists.

    table = render(kind, objects, list_metadata, include="Metadata", version="v1")

Columns, their order and the text of the cells are those of the real API server's printers;
descriptions of columns are left empty. For custom resources the definition says which columns
there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Protocol

from bayplan.apiserver.tables.custom import compile_path, custom_printer, find
from bayplan.apiserver.tables.pods import pod_conditions
from bayplan.apiserver.tables.registry import Printer, printer_for
from bayplan.apiserver.tables.text import human_duration

__all__ = ["compile_path", "find", "human_duration", "printer", "render"]


class TableKind(Protocol):
    """What a table needs to know of a kind; custom kinds also have `printer_columns`."""

    @property
    def group(self) -> str: ...
    @property
    def kind(self) -> str: ...


_printer_for = lru_cache(maxsize=None)(printer_for)


def printer(kind: TableKind) -> Printer:
    """The columns and the row function of a kind."""
    columns = getattr(kind, "printer_columns", None)
    if columns is not None:
        return custom_printer(columns)
    return _printer_for(kind.group, kind.kind)


def render(
    kind: TableKind,
    objects: Iterable[Mapping[str, Any]],
    metadata: Mapping[str, Any] | None = None,
    *,
    include: str = "Metadata",
    version: str = "v1",
    columns: bool = True,
    now: datetime | None = None,
) -> dict[str, Any]:
    """Return a Table; `include` is the request's includeObject (None, Metadata or Object)."""
    found = printer(kind)
    moment = now or datetime.now(UTC)
    is_pod = kind.kind == "Pod" and not kind.group
    rows = []
    for obj in objects:
        row: dict[str, Any] = {"cells": found.row(obj, moment)}
        if is_pod and (conditions := pod_conditions(obj)):
            row["conditions"] = conditions
        row["object"] = _included(obj, include, version)
        rows.append(row)
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": dict(metadata or {}),
        "columnDefinitions": found.columns if columns else None,
        "rows": rows,
    }


def _included(obj: Mapping[str, Any], include: str, version: str) -> Mapping[str, Any] | None:
    if include == "None":
        return None
    if include == "Object":
        return obj
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": obj["metadata"],
    }
