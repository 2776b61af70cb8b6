"""What admission is asked, what it may read, and how it refuses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import msgspec

from bayplan.apiserver.admission.tally import Tally
from bayplan.errors import BayplanError

CREATE = "CREATE"
UPDATE = "UPDATE"
DELETE = "DELETE"

Object = dict[str, Any]


class Reader(Protocol):
    """Reads the newest stored objects. Synchronous; answers must not be changed by the caller.

    `namespace` is `""` for cluster-scoped kinds; `list` with `""` means all namespaces.
    """

    def get(self, group: str, resource: str, namespace: str, name: str) -> Object | None: ...

    def list(self, group: str, resource: str, namespace: str = "") -> Iterable[Object]: ...

    def tally(self, group: str, resource: str, namespace: str, tally: Tally) -> None:
        """Let the sums be those of now."""


class Attributes(msgspec.Struct):
    """One write, as admission sees it.

    `obj` is the new object (for DELETE: empty), `old` the stored one on UPDATE and DELETE.
    `name` may be empty on create with generateName.
    """

    operation: str
    group: str
    version: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    obj: Object = msgspec.field(default_factory=dict)
    old: Object | None = None
    dry_run: bool = False
    warnings: list[str] = msgspec.field(default_factory=list)
    """What to tell the client although the write is let pass."""

    def writes(self, resource: str, group: str = "") -> bool:
        """Tell whether an object of this resource, not a part of it, is made or changed."""
        named = self.resource == resource and self.group == group and not self.subresource
        return named and self.operation in (CREATE, UPDATE)


class AdmissionError(BayplanError):
    """A write that admission refuses; `code`, `reason` and `details` make the Status."""

    def __init__(
        self,
        message: str,
        *,
        code: int = 403,
        reason: str = "Forbidden",
        details: Object | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.details = details or {}


def forbidden(attrs: Attributes, why: str, causes: list[Object] | None = None) -> AdmissionError:
    """Build the 403 that kube-apiserver answers when a plugin refuses a write."""
    name = attrs.name or ("Unknown" if attrs.operation == CREATE else "")
    qualified = f"{attrs.resource}.{attrs.group}" if attrs.group else attrs.resource
    details: Object = {"name": name, "kind": attrs.resource}
    if attrs.group:
        details["group"] = attrs.group
    if causes:
        details["causes"] = causes
    return AdmissionError(f'{qualified} "{name}" is forbidden: {why}', details=details)


def not_found(group: str, resource: str, name: str) -> AdmissionError:
    """Build the 404 of an object that must exist before this write."""
    qualified = f"{resource}.{group}" if group else resource
    details: Object = {"name": name, "kind": resource}
    if group:
        details["group"] = group
    return AdmissionError(
        f'{qualified} "{name}" not found', code=404, reason="NotFound", details=details
    )
