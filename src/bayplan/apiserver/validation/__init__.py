"""What the API server demands of an object, and what it changes before it stores one.

Order of calls, as upstream (`registry.Store`):

    create:  apply_defaults → admission.admit → (fill uid, name, creationTimestamp)
             → prepare_for_create → validate_create → canonicalize → admission.validate → store
    update:  apply_defaults → admission.admit → (copy uid, creationTimestamp … from old)
             → prepare_for_update → validate_update → canonicalize → admission.validate → store

All functions take the API group (`""` for core) and the plural resource, work on decoded JSON and
never block. `subresource` is `""`, `"status"`, or another one that writes the parent object
(`"scale"` is the caller's: it becomes an ordinary update).

Validators return every problem as a `Cause`; an empty list means valid. `invalid_message` words
the list as kube-apiserver's 422 does.

Kinds without an entry (custom resources) get metadata validation only; their schema is validated
by `bayplan.apiserver.crd`.
"""

from __future__ import annotations

from bayplan.apiserver.validation.causes import (
    Cause,
    TooManyProblems,
    invalid_message,
    quoting,
)
from bayplan.apiserver.validation.registry import (
    canonicalize,
    create_on_update,
    prepare_for_create,
    prepare_for_update,
    unconditional_update,
    validate_create,
    validate_update,
    warnings_on_create,
    warnings_on_update,
)

__all__ = [
    "Cause",
    "TooManyProblems",
    "canonicalize",
    "create_on_update",
    "invalid_message",
    "prepare_for_create",
    "prepare_for_update",
    "quoting",
    "unconditional_update",
    "validate_create",
    "validate_update",
    "warnings_on_create",
    "warnings_on_update",
]
