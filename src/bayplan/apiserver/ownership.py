"""Field ownership of ordinary writes: who last wrote which field (`metadata.managedFields`).

Calls `bayplan.apiserver.apply` with what a request says about its writer.
"""

from __future__ import annotations

from bayplan.api.schema import Type
from bayplan.apiserver import crd
from bayplan.apiserver.apply import track_update
from bayplan.apiserver.backend import Backend
from bayplan.apiserver.codec import Object
from bayplan.apiserver.kinds import Kind
from bayplan.apiserver.request import Request

UPDATE = "Update"


def type_of(kind: Kind) -> Type | None:
    """Return the type of a custom kind; built-in ones are known by their name."""
    if not kind.custom:
        return None
    return crd.type_of(kind)


def track(backend: Backend, request: Request, obj: Object, old: Object | None) -> None:
    """Put the fields that a write set or changed down to its writer."""
    if not backend.track_managers:
        return
    kind = request.kind
    tracked = track_update(
        old,
        obj,
        request.field_manager,
        UPDATE,
        backend.now(),
        request.subresource,
        kind=type_of(kind),
        has_status="status" in kind.subresources,
    )
    if tracked is not obj:
        obj["metadata"] = tracked["metadata"]
