"""One stored event, two views: core/v1 Event and events.k8s.io/v1 Event.

Events are stored in the core form. The newer group renames fields and keeps the old ones under
`deprecated…` names; the functions here translate whole objects in both directions, and
`FIELD_NAMES` does so for field selectors. They do not validate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Object = dict[str, Any]

# new name → stored name; order is that of the answer
_RENAMED = {
    "regarding": "involvedObject",
    "note": "message",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
    "reportingController": "reportingComponent",
}
_STORED = {stored: new for new, stored in _RENAMED.items()}

FIELD_NAMES = {
    "regarding.kind": "involvedObject.kind",
    "regarding.namespace": "involvedObject.namespace",
    "regarding.name": "involvedObject.name",
    "regarding.uid": "involvedObject.uid",
    "regarding.apiVersion": "involvedObject.apiVersion",
    "regarding.resourceVersion": "involvedObject.resourceVersion",
    "regarding.fieldPath": "involvedObject.fieldPath",
    "reportingController": "reportingComponent",
}


def to_new(obj: Object) -> Object:
    """Turn a stored (core) event into the events.k8s.io view."""
    out = {_STORED.get(key, key): value for key, value in obj.items()}
    out["apiVersion"] = "events.k8s.io/v1"
    for key in ("reportingController", "reportingInstance"):
        if not out.get(key):
            out.pop(key, None)
    return out


def to_core(obj: Object) -> Object:
    """Turn an events.k8s.io event into the stored form."""
    out = {_RENAMED.get(key, key): value for key, value in obj.items()}
    out["apiVersion"] = "v1"
    # The core form shows these even when they are empty.
    out.setdefault("involvedObject", {})
    out.setdefault("source", {})
    out.setdefault("reportingComponent", "")
    out.setdefault("reportingInstance", "")
    show_times(out)
    return out


def show_times(obj: Object) -> None:
    """A core event shows its times also when it has none: `--sort-by` needs the field."""
    for key in ("eventTime", "firstTimestamp", "lastTimestamp"):
        obj.setdefault(key, None)


# (group, resource) → (stored → view, view → stored)
VIEWS: dict[tuple[str, str], tuple[Callable[[Object], Object], Callable[[Object], Object]]] = {
    ("events.k8s.io", "events"): (to_new, to_core),
}
