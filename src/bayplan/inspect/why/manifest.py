"""Pods out of a file: of a pod or of the template of a workload, as the API server would make."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from bayplan.api import Pod, yaml
from bayplan.errors import DecodeError
from bayplan.inspect.admission import admitted
from bayplan.inspect.cluster import Cluster
from bayplan.inspect.errors import CORRECT, SourceError, damaged


def read_pods(cluster: Cluster, filename: str) -> list[Pod]:
    """One pod for each object in a file that is or makes pods; `-` is standard input."""
    documents = read_documents(filename)
    try:
        return pods_of(cluster, documents)
    except (DecodeError, SourceError) as problem:
        raise damaged(filename, problem, CORRECT) from problem


def read_documents(filename: str) -> list[Any]:
    """The documents of a file, those of lists one by one."""
    try:
        text = sys.stdin.read() if filename == "-" else Path(filename).read_text()
        documents = yaml.load_all(text)
        lists = [d.get("items") if isinstance(d, dict) else None for d in documents]
        return [
            item
            for document, items in zip(documents, lists, strict=True)
            for item in (items if isinstance(items, list) else [document])
        ]
    except (OSError, UnicodeDecodeError) as problem:
        reason = getattr(problem, "strerror", None) or "it is not text"
        raise damaged(filename, reason, "give a manifest of a pod or workload") from problem
    except (DecodeError, SourceError) as problem:
        raise damaged(filename, problem, CORRECT) from problem


def pods_of(cluster: Cluster, documents: list[Any]) -> list[Pod]:
    """Pods of decoded documents; raises SourceError if there is none."""
    found = []
    for document in documents:
        body = _pod_body(document)
        if body is not None:
            found.append(admitted(cluster, body))
    if not found:
        raise SourceError("there is no pod, and nothing that makes pods, in it")
    return found


def _pod_body(item: Any) -> dict[str, Any] | None:
    if not isinstance(item, dict) or not isinstance(item.get("spec"), dict):
        return None
    if item.get("kind") == "Pod":
        return dict(item)
    spec = item["spec"]
    if isinstance(spec.get("jobTemplate"), dict):
        spec = spec["jobTemplate"].get("spec") or {}
    template = spec.get("template")
    if not isinstance(template, dict):
        return None
    meta, above = template.get("metadata") or {}, item.get("metadata") or {}
    if not isinstance(meta, dict) or not isinstance(above, dict):
        return None
    meta = {**meta}
    meta.setdefault("name", f"{above.get('name', 'pod')}-new")
    if above.get("namespace"):
        meta["namespace"] = above["namespace"]
    return {"metadata": meta, "spec": template.get("spec") or {}}
