"""What-if, capacity and diff over HTTP: several values in one parameter are parted by `;`.

Paths on the server are refused: who may ask must not thereby read its files.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from bayplan.api import yaml
from bayplan.config import from_data
from bayplan.inspect.cluster import Cluster
from bayplan.inspect.errors import InspectError
from bayplan.inspect.whatif import parse_changes
from bayplan.inspect.whatif.applying import SUFFIXES
from bayplan.inspect.whatif.changes import Apply

PARTED = ";"


def what_if(cluster: Cluster, query: Mapping[str, str]) -> Any:
    """`changes=drain=node-1;scale=deployment/web=3`, or `each=node`."""
    if query.get("each"):
        return cluster.each(query["each"])
    changes = parse_changes(_parts(query, "changes", "drain=node-1"))
    if any(isinstance(change, Apply) for change in changes):
        raise InspectError("apply reads files, which is not done over HTTP; use bayplan whatif")
    return cluster.what_if(*changes)


def capacity(cluster: Cluster, query: Mapping[str, str]) -> Any:
    """`templates=3xdeployment/web;cpu=1,memory=2Gi`."""
    templates = _parts(query, "templates", "deployment/web")
    if any(Path(item).suffix in SUFFIXES for item in templates):
        raise InspectError("templates in files are not read over HTTP; name an owner or amounts")
    return cluster.capacity(*templates, keep_free=query.get("keepFree", ""))


def diff(cluster: Cluster, query: Mapping[str, str]) -> Any:
    """`config=` a KubeSchedulerConfiguration as JSON or YAML."""
    text = query.get("config", "")
    document = yaml.load(text) if text else None
    if not isinstance(document, dict):
        raise InspectError("give config= with a KubeSchedulerConfiguration as JSON or YAML")
    settings = cluster.settings
    config = from_data(document, settings.gates)
    return cluster.diff(msgspec.structs.replace(settings, config=config, source="the request"))


def _parts(query: Mapping[str, str], name: str, example: str) -> list[str]:
    found = [part for part in query.get(name, "").split(PARTED) if part.strip()]
    if not found:
        raise InspectError(f"give {name}={example}, several parted by {PARTED}")
    return found
