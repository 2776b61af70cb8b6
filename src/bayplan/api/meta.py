"""What every Kubernetes object has in common, and the base of all structs.

The structs hold only what scheduling reads. Unknown fields are ignored when decoding, so they must
never be written back to an API server: writers send patches or the bytes that they received.
Conventions: lists are tuples, `()` when absent; maps are dicts, `{}` when absent; strings are `""`.
`None` appears only where absent and empty lead to different decisions.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, ClassVar

import msgspec

from bayplan.api.remembered import remembered

Quantity = str | int | float
"""A quantity as it is written; `bayplan.api.quantity` gives it a value."""

Resources = dict[str, Quantity]


class Model(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Base of all API structs: immutable, camelCase on the wire, untracked by the collector."""


class OwnerReference(Model, frozen=True):
    """`metadata.ownerReferences[]`."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class ObjectMeta(Model, frozen=True):
    """`metadata`, as far as scheduling reads it."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str = ""
    deletion_timestamp: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()


class Object(Model, kw_only=True, frozen=True):
    """Base of the top-level kinds; gives the short names everybody needs."""

    API_VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str] = ""
    RESOURCE: ClassVar[str] = ""

    metadata: ObjectMeta = ObjectMeta()

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def namespace(self) -> str:
        return self.metadata.namespace

    @property
    def uid(self) -> str:
        return self.metadata.uid

    @property
    def labels(self) -> dict[str, str]:
        return self.metadata.labels

    @property
    def annotations(self) -> dict[str, str]:
        return self.metadata.annotations

    @property
    def key(self) -> str:
        """`namespace/name`, or the name alone for kinds without a namespace."""
        meta = self.metadata
        return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name

    @property
    def terminating(self) -> bool:
        return self.metadata.deletion_timestamp != ""

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that manages this object, if any."""
        return next((ref for ref in self.metadata.owner_references if ref.controller), None)


class LabelSelectorRequirement(Model, frozen=True):
    """One of `matchExpressions`."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Model, frozen=True):
    """A label selector; a missing one (None) matches nothing, an empty one everything."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class NodeSelectorRequirement(Model, frozen=True):
    """One requirement on a node's labels or fields."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Model, frozen=True):
    """Requirements that must all hold; a term without any matches nothing."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Model, frozen=True):
    """Terms of which one must match."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class Condition(Model, frozen=True):
    """A status condition of any kind."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


@remembered(65536)
def parse_time(text: str) -> float:
    """Return an RFC 3339 time as seconds since the epoch."""
    return datetime.fromisoformat(text).timestamp()


def with_condition(
    known: Iterable[dict[str, Any]] | None, new: dict[str, Any], now: str
) -> list[dict[str, Any]]:
    """Return conditions with one set, in its place; its time moves only when its status does."""
    found = list(known or ())
    for index, old in enumerate(found):
        if old.get("type") == new["type"]:
            same = old.get("status") == new["status"]
            since = (old.get("lastTransitionTime") if same else None) or now
            found[index] = {**new, "lastTransitionTime": since}
            return found
    return [*found, {**new, "lastTransitionTime": now}]
