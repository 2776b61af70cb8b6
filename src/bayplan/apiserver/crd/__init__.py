"""Custom resources: definitions, the kinds they add, and the handling of their objects.

    definitions.default / prepare_for_* / validate_* / establish      CustomResourceDefinitions
    kinds_of(definition)                                               the kinds to serve
    prune, default, prepare_for_*, validate_*                          custom objects, by kind
    type_of(kind), scale_paths(kind)                                   for apply and scale

Versions share one stored form, or a webhook converts between them (`conversion`).
"""

from bayplan.apiserver.crd import definitions
from bayplan.apiserver.crd.custom_kind import is_costly, kinds_of, scale_paths, type_of
from bayplan.apiserver.crd.objects import (
    default,
    prepare_for_create,
    prepare_for_update,
    prune,
    validate_create,
    validate_update,
)

__all__ = [
    "default",
    "definitions",
    "is_costly",
    "kinds_of",
    "prepare_for_create",
    "prepare_for_update",
    "prune",
    "scale_paths",
    "type_of",
    "validate_create",
    "validate_update",
]
