"""What handling an object depends on its kind for: one strategy for each sort of kind.

Built-in kinds follow the tables of `validation` and `api.defaults`, kinds of definitions their
schemas, and CustomResourceDefinitions themselves rules of their own. `strategy_of` is the only
place that tells them apart; the pipeline calls what it returns in upstream's order.
"""

from __future__ import annotations

from typing import Protocol

from bayplan.api.defaults import apply_defaults
from bayplan.apiserver import crd, validation
from bayplan.apiserver.backend import Backend
from bayplan.apiserver.codec import Object
from bayplan.apiserver.definition_sync import establish, is_definition
from bayplan.apiserver.gated_fields import drop
from bayplan.apiserver.kinds import Kind
from bayplan.apiserver.validation.causes import Cause
from bayplan.apiserver.validation.strategy import bump_generation

# Groups whose objects bring expressions, which are compiled when they are judged.
EXPRESSED = frozenset({"admissionregistration.k8s.io", "resource.k8s.io"})


class Strategy(Protocol):
    """How objects of a kind are completed and judged. Objects are changed in place."""

    def is_costly(self, kind: Kind) -> bool:
        """Whether judging may take long however small the object is: users' rules run."""

    def default(self, kind: Kind, obj: Object) -> None: ...

    def prepare_for_create(self, kind: Kind, obj: Object) -> None: ...

    def validate_create(self, kind: Kind, obj: Object) -> list[Cause]:
        """Return what is wrong with a new object, apart from its metadata."""

    def prepare_for_update(
        self, kind: Kind, obj: Object, old: Object, subresource: str, now: str
    ) -> None: ...

    def validate_update(
        self, kind: Kind, obj: Object, old: Object, subresource: str
    ) -> list[Cause]: ...

    def accept(self, backend: Backend, obj: Object, subresource: str) -> None:
        """Do what follows from an object that is valid, before it is admitted and stored."""


class BuiltIn:
    """Kinds that the server knows by itself."""

    def is_costly(self, kind: Kind) -> bool:
        return kind.group in EXPRESSED

    def default(self, kind: Kind, obj: Object) -> None:
        apply_defaults(kind.group, kind.resource, obj)

    def prepare_for_create(self, kind: Kind, obj: Object) -> None:
        validation.prepare_for_create(kind.group, kind.resource, obj)
        if kind.generation:
            obj["metadata"]["generation"] = 1
        drop(kind.hidden, obj, None)

    def validate_create(self, kind: Kind, obj: Object) -> list[Cause]:
        return []

    def prepare_for_update(
        self, kind: Kind, obj: Object, old: Object, subresource: str, now: str
    ) -> None:
        drop(kind.hidden, obj, old)
        validation.prepare_for_update(kind.group, kind.resource, obj, old, subresource, now)
        if kind.generation and not subresource:
            bump_generation(obj, old)

    def validate_update(
        self, kind: Kind, obj: Object, old: Object, subresource: str
    ) -> list[Cause]:
        return []

    def accept(self, backend: Backend, obj: Object, subresource: str) -> None:
        return


class Custom:
    """Kinds that definitions add: the schema of their version holds."""

    def is_costly(self, kind: Kind) -> bool:
        return crd.is_costly(kind)

    def default(self, kind: Kind, obj: Object) -> None:
        crd.default(kind, obj)

    def prepare_for_create(self, kind: Kind, obj: Object) -> None:
        crd.prepare_for_create(kind, obj)

    def validate_create(self, kind: Kind, obj: Object) -> list[Cause]:
        return crd.validate_create(kind, obj)

    def prepare_for_update(
        self, kind: Kind, obj: Object, old: Object, subresource: str, now: str
    ) -> None:
        crd.prepare_for_update(kind, obj, old, subresource)

    def validate_update(
        self, kind: Kind, obj: Object, old: Object, subresource: str
    ) -> list[Cause]:
        return crd.validate_update(kind, obj, old, subresource)

    def accept(self, backend: Backend, obj: Object, subresource: str) -> None:
        return


class Definition:
    """CustomResourceDefinitions: their names are accepted in the write that brings them."""

    def is_costly(self, kind: Kind) -> bool:
        return True

    def default(self, kind: Kind, obj: Object) -> None:
        crd.definitions.default(obj)

    def prepare_for_create(self, kind: Kind, obj: Object) -> None:
        crd.definitions.prepare_for_create(obj)

    def validate_create(self, kind: Kind, obj: Object) -> list[Cause]:
        return crd.definitions.validate_create(obj)

    def prepare_for_update(
        self, kind: Kind, obj: Object, old: Object, subresource: str, now: str
    ) -> None:
        crd.definitions.prepare_for_update(obj, old, subresource)

    def validate_update(
        self, kind: Kind, obj: Object, old: Object, subresource: str
    ) -> list[Cause]:
        return crd.definitions.validate_update(obj, old, subresource)

    def accept(self, backend: Backend, obj: Object, subresource: str) -> None:
        if not subresource:
            establish(backend, obj)


_BUILT_IN, _CUSTOM, _DEFINITION = BuiltIn(), Custom(), Definition()


def strategy_of(kind: Kind) -> Strategy:
    """Return how objects of a kind are handled."""
    if kind.custom:
        return _CUSTOM
    return _DEFINITION if is_definition(kind) else _BUILT_IN
