"""Objects out of YAML text, with an error that says where."""

from __future__ import annotations

from bayplan.api import yaml
from bayplan.errors import DecodeError
from bayplan.sim.errors import ScenarioError
from bayplan.sim.objects import Object


def parse_objects(text: str) -> list[Object]:
    """Read the objects of a YAML text of one or more documents; Lists are taken apart."""
    try:
        documents = yaml.load_all(text)
    except DecodeError as problem:
        raise ScenarioError(f"objects in YAML: {problem}") from problem
    found: list[Object] = []
    for document in documents:
        if document is None:
            continue
        if not isinstance(document, dict):
            raise ScenarioError(f"objects in YAML: {type(document).__name__} is not an object")
        if str(document.get("kind", "")).endswith("List") and "items" in document:
            found += document["items"] or []
        else:
            found.append(document)
    return found
