"""Admission: what the API server changes or refuses because of *other* objects.

The chain is data (`CHAIN`), in upstream's order. `admit` runs the mutating half before the strategy
prepares the object; `validate` runs the other half after validation. Both are synchronous, read
through a `Reader`, change `attrs.obj` in place, and refuse by raising `AdmissionError`, which
carries the Status to answer.

    attrs = Attributes(CREATE, "", "v1", "pods", "", namespace, name, obj)
    admit(attrs, reader)
    …
    validate(attrs, reader)

Not here: the ServiceAccount plugin, webhooks, and the policy of what a bearer token may do.
"""

from __future__ import annotations

from bayplan.apiserver.admission.chain import CHAIN, admit, validate
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
    "UPDATE",
    "AdmissionError",
    "Attributes",
    "Reader",
    "admit",
    "validate",
]
