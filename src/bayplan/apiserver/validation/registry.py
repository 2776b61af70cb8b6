"""Which strategy serves which resource, as one table (see the package docstring for the order)."""

from __future__ import annotations

from bayplan.apiserver.validation.errors import Cause

Object = dict[str, object]


def prepare_for_create(group: str, resource: str, obj: Object) -> None:
    """Clear and set what a client may not choose on create: status, generation, derived fields."""


def prepare_for_update(
    group: str, resource: str, obj: Object, old: Object, subresource: str = ""
) -> None:
    """Keep of `old` what this path may not write, and raise `metadata.generation` if spec changed."""


def validate_create(group: str, resource: str, obj: Object) -> list[Cause]:
    """Return every problem of a new object (metadata included)."""
    return []


def validate_update(
    group: str, resource: str, obj: Object, old: Object, subresource: str = ""
) -> list[Cause]:
    """Return every problem of a changed object: its own, and changes that are not allowed."""
    return []


def canonicalize(group: str, resource: str, obj: Object) -> None:
    """Bring a valid object into the stored form (a namespace's name label, for instance)."""


def create_on_update(group: str, resource: str) -> bool:
    """Say whether PUT of a missing object creates it (Leases do, Pods answer 404)."""
    return False


def unconditional_update(group: str, resource: str) -> bool:
    """Say whether PUT without resourceVersion is allowed (custom resources demand one)."""
    return True


def warnings_on_create(group: str, resource: str, obj: Object) -> list[str]:
    """Return texts for `Warning` headers of a create."""
    return []


def warnings_on_update(group: str, resource: str, obj: Object, old: Object) -> list[str]:
    """Return texts for `Warning` headers of an update."""
    return []
