"""Takes out of any object what is nobody else's business, wherever in it that stands.

Structs have no field for a secret, an environment value or managedFields. What they do have is
annotations, of the object and of every template inside it, and parameters of device drivers, which
may be anything. Both are found by the types of the fields, so that no kind and no nested template
can be forgotten.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec
from msgspec.structs import replace

from bayplan.api import ObjectMeta
from bayplan.inspect.objects import DELETION_COST

KEPT_ANNOTATIONS = frozenset(
    {
        "pv.kubernetes.io/bind-completed",
        "pv.kubernetes.io/bound-by-controller",
        "volume.beta.kubernetes.io/storage-class",
        "volume.kubernetes.io/selected-node",
        "storageclass.kubernetes.io/is-default-class",
        "storage.alpha.kubernetes.io/migrated-plugins",
        "kubernetes.io/config.mirror",
        "resource.kubernetes.io/extended-resource-claim",
        DELETION_COST,
    }
)
"""Annotations that decisions read; none holds anything but names of Kubernetes' own objects."""

S = TypeVar("S", bound=msgspec.Struct)
FREE = dict[str, object]
"""The type of what Kubernetes itself does not look into."""


def bare(item: S) -> S:
    """The object without annotations that nobody reads and without drivers' parameters."""
    changed = {}
    for name in _fields(type(item)):
        value = getattr(item, name)
        if value:
            new = _value(name, value)
            if new is not value:
                changed[name] = new
    return replace(item, **changed) if changed else item


def _value(name: str, value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return bare(value)
    if isinstance(value, tuple):
        if isinstance(value[0], dict):
            return ()
        new = tuple(map(bare, value))
        return value if all(map(_same, new, value)) else new
    if name == "annotations":
        kept = {key: text for key, text in value.items() if _kept(key, text)}
        return value if len(kept) == len(value) else kept
    return {key: _emptied(inner) for key, inner in value.items()}


def _kept(key: str, text: str) -> bool:
    number = key != DELETION_COST or text.lstrip("+-").isdigit()
    return key in KEPT_ANNOTATIONS and number


def _same(new: object, old: object) -> bool:
    return new is old


def _emptied(value: object) -> object:
    """What a choice is called may be kept, not what it is told."""
    return bare(value) if isinstance(value, msgspec.Struct) else {}


@cache
def _fields(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    """The fields of a struct in which something may stand that is to go."""
    hints = get_type_hints(kind)
    return tuple(name for name in kind.__struct_fields__ if _leads(name, hints[name], frozenset()))


def _leads(name: str, hint: Any, above: frozenset[Any]) -> bool:
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        if hint is ObjectMeta:
            return True
        fields = {} if hint in above else get_type_hints(hint)
        return any(_leads(field, fields[field], above | {hint}) for field in fields)
    if hint == FREE or (name == "annotations" and hint == dict[str, str]):
        return True
    return any(_leads("", inner, above) for inner in get_args(hint))
