"""Short descriptions for the OpenAPI documents, of types, their fields and query parameters.

`kubectl explain` shows them. Those of types and fields are in `words.txt`, which has all fields of
the most used kinds; other kinds have words only for what all kinds share.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from importlib import resources

TYPE_META = {
    "apiVersion": "APIVersion defines the version of the schema in which this object is written.",
    "kind": "Kind names the type of this object, in CamelCase.",
}
OBJECT = {**TYPE_META, "metadata": "Standard object's metadata: its name, labels and owners."}
LIST = {**TYPE_META, "metadata": "Standard list metadata: its version and where to go on."}
EVERYWHERE = "*"  # the section of names that mean the same in every type of the table
ITSELF = "="  # stands for the type in its own section
PARAMETERS = {
    "allowWatchBookmarks": "Send bookmarks, which tell the newest version without a change.",
    "continue": "The token of the part before, to go on with a list.",
    "dryRun": "All: do everything but store the result.",
    "fieldManager": "The name under which set fields are noted.",
    "fieldSelector": "Restrict the list of returned objects by their fields.",
    "fieldValidation": "What happens to unknown or doubled fields: Ignore, Warn or Strict.",
    "force": "Take fields over from other managers when applying.",
    "gracePeriodSeconds": "Seconds that the object may take to end; 0 ends it at once.",
    "labelSelector": "Restrict the list of returned objects by their labels.",
    "limit": "The most objects of one answer; a token tells where to go on.",
    "name": "Name of the object.",
    "namespace": "Namespace of the object.",
    "orphanDependents": "Deprecated: use propagationPolicy.",
    "pretty": "Indent the answer.",
    "propagationPolicy": "What happens to dependents: Orphan, Background or Foreground.",
    "resourceVersion": "The version that the answer must be at least, or be exactly.",
    "resourceVersionMatch": "How resourceVersion is meant: NotOlderThan or Exact.",
    "sendInitialEvents": "Begin a watch with all objects that are there.",
    "timeoutSeconds": "Seconds after which a list or watch ends.",
    "watch": "Watch for changes to the described resources instead of listing them.",
}


@cache
def _table() -> Mapping[str, Mapping[str, str]]:
    """Read the sections by type; one that names several types counts for each."""
    found: dict[str, dict[str, str]] = {}
    names: list[str] = []
    text = resources.files(__package__).joinpath("words.txt").read_text("utf-8")
    for line in text.splitlines():
        if line.startswith("["):
            names = line.strip("[]").split()
            for name in names:
                found.setdefault(name, {})
        elif line and not line.startswith("#"):
            field, _, words = line.partition(" ")
            for name in names:
                found[name][field] = words
    return found


def of_type(name: str, fields: Collection[str]) -> Mapping[str, str]:
    """Return the descriptions of the fields of a type, and of the type itself as `ITSELF`."""
    table = _table()
    shared: Mapping[str, str] = {}
    if OBJECT.keys() <= set(fields):
        shared = LIST if name.endswith("List") else OBJECT
    own = table.get(name)
    return shared if own is None else {**table[EVERYWHERE], **shared, **own}
