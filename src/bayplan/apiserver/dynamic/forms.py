"""A write in the version that a webhook or policy names, where that is another than its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import msgspec

from bayplan.api.patch import clone
from bayplan.apiserver.admission import Attributes
from bayplan.apiserver.aside import aside
from bayplan.apiserver.codec import Object
from bayplan.apiserver.kinds import Kind
from bayplan.apiserver.request import Request

if TYPE_CHECKING:
    from bayplan.apiserver.backend import Backend

# Bodies of other subresources are no objects of the kind, and the same in all its versions.
SAME_KIND = ("", "status")


async def shown(backend: Backend, kind: Kind, attrs: Attributes, request: Request) -> Attributes:
    """Return a write as it looks in a kind that is a form of the request's."""
    if kind is request.kind:
        return attrs
    obj, old = attrs.obj, attrs.old
    if attrs.subresource in SAME_KIND:
        there = [each for each in (obj, old) if each]
        made = iter([await converted(backend, request, request.kind, kind, each) for each in there])
        obj, old = next(made) if obj else obj, next(made) if old else old
    return msgspec.structs.replace(
        attrs, group=kind.group, version=kind.version, resource=kind.resource, obj=obj, old=old
    )


async def converted(
    backend: Backend, request: Request, given: Kind, wanted: Kind, obj: Object
) -> Object:
    """Return an object of one form of a kind in another. Raises what a conversion webhook says."""
    named = {"kind": given.kind, **obj, "apiVersion": given.api_version}
    converter = getattr(given, "converter", None)
    if converter is not None:
        made = await converter.convert(backend.caller, [named], wanted.version)
        return cast("Object", made[0])
    named = cast("Object", await aside(request, clone, named))
    to_stored, to_view = backend.codec(given).to_stored, backend.codec(wanted).to_view
    named = named if given.custom or to_stored is None else to_stored(named)
    named = named if wanted.custom or to_view is None else to_view(named)
    return {**named, "kind": wanted.kind, "apiVersion": wanted.api_version}
