"""Admission: what the API server changes or refuses because of *other* objects.

The chain is data (`CHAIN`), in upstream's order; `Chain` is what is switched on of it. `admit` runs
the mutating half before the strategy prepares the object, `validate` the other half after
validation, `settle` what counts, at the very end; `counted` says what of that takes long. All are
synchronous, read through a `Reader`, change `attrs.obj` in place, and refuse by raising
`AdmissionError`, which carries the Status.

    attrs = Attributes(CREATE, "", "v1", "pods", "", namespace, name, obj)
    chain.admit(attrs, reader)
    …
    chain.validate(attrs, reader)

Webhooks and policies of users are in `bayplan.apiserver.dynamic`.
"""

from __future__ import annotations

from bayplan.apiserver.admission.chain import CHAIN, OPTIONAL, Chain, disabled_plugins
from bayplan.apiserver.admission.types import (
    CREATE,
    DELETE,
    UPDATE,
    AdmissionError,
    Attributes,
    Reader,
)

__all__ = [
    "CHAIN",
    "CREATE",
    "DELETE",
    "OPTIONAL",
    "UPDATE",
    "AdmissionError",
    "Attributes",
    "Chain",
    "Reader",
    "disabled_plugins",
]
