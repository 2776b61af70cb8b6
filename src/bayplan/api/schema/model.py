"""The facts of the Kubernetes API types, as small shared objects.

`kubernetes.json` (written by `hack/extract-schema`) lists every struct type and its fields. A
field is `[type, protobuf number, flags, extras]`, with types in a short grammar:

    s i I b n    string, int32, int64, boolean, double        B   bytes (base64 in JSON)
    t T D        Time, MicroTime, Duration                     q   Quantity     x   IntOrString
    R J          an object of any form; any JSON value         @N  the struct named N
    []X {}X      list and map of X                             w[]X  list that is a protobuf message

Flags: r required, e omitempty, z omitzero, p pointer. Extras: list kind, map keys, merge key, patch
strategy, map kind, enum, default, rules (upstream's declared validation, where it is used here).

`by_version.json` adds the kinds that only one version of Kubernetes serves, or only behind a gate,
and fields that came with a version; a server that emulates an older one drops what is sent in them
(`apiserver.version_kinds`).

Types are built on first use and then shared: a `Type` may be compared by identity. Custom
resources get their types from `from_openapi`. Nothing here looks at objects; `decode.py` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, cached_property, lru_cache
from importlib import resources
from typing import Any, Final

import msgspec

SCALARS: Final = {
    "s": "string",
    "i": "int32",
    "I": "int64",
    "b": "boolean",
    "n": "number",
    "B": "bytes",
    "t": "time",
    "T": "microtime",
    "D": "duration",
    "q": "quantity",
    "x": "intorstring",
    "R": "object",
    "J": "any",
}


class Type:
    """What a value may be. `kind` is struct, list, map or one of SCALARS' values.

    For lists, `list_type` is atomic, set or map (with `keys`). `atomic` says that a struct or map
    is owned and replaced as a whole. `preserve` keeps unknown fields (custom resources only).
    """

    __slots__ = (
        "__dict__",
        "atomic",
        "elem",
        "keys",
        "kind",
        "list_type",
        "name",
        "preserve",
        "raw",
    )

    def __init__(
        self,
        kind: str,
        *,
        name: str = "",
        elem: Type | None = None,
        list_type: str = "atomic",
        keys: tuple[str, ...] = (),
        atomic: bool = False,
        preserve: bool = False,
        raw: Mapping[str, Any] | None = None,
    ) -> None:
        self.kind = kind
        self.name = name
        self.elem = elem
        self.list_type = list_type
        self.keys = keys
        self.atomic = atomic
        self.preserve = preserve
        self.raw = raw

    def __repr__(self) -> str:
        return f"Type({self.kind} {self.name or self.elem or ''})"

    @cached_property
    def fields(self) -> dict[str, Field]:
        """The fields of a struct by JSON name; empty for everything else."""
        if self.raw is None:
            return {}
        return {name: _field(name, entry) for name, entry in self.raw["f"].items()}

    @cached_property
    def messages(self) -> list[Any]:
        """Embedded protobuf messages: [number, {json field: number}, further ones ...]."""
        return [] if self.raw is None else list(self.raw.get("in", ()))

    @cached_property
    def short(self) -> str:
        """The bare name of a struct, as in Go."""
        return self.name.rsplit(".", 1)[-1]


class Field:
    """One field of a struct."""

    __slots__ = (
        "default", "enum", "merge_key", "name", "number", "omitempty", "omitzero", "pointer",
        "published", "required", "rules", "strategy", "type",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        type_: Type,
        number: int = 0,
        flags: str = "e",
        extras: Mapping[str, Any] | None = None,
    ) -> None:
        extras = extras or {}
        self.name = name
        self.type = type_
        self.number = number
        self.required = "r" in flags
        self.omitempty = "e" in flags
        self.omitzero = "z" in flags
        self.pointer = "p" in flags
        self.published = "x" not in flags
        self.merge_key: str = extras.get("mergeKey", "")
        self.strategy: tuple[str, ...] = tuple(filter(None, extras.get("strategy", "").split(",")))
        self.enum: list[str] = extras.get("enum", [])
        self.default: Any = extras.get("default")
        self.rules: list[str] = extras.get("rules", [])


class Catalog(msgspec.Struct):
    """The decoded data file."""

    release: str
    packages: dict[str, str]
    kinds: dict[str, str]
    types: dict[str, dict[str, Any]]
    fields: dict[str, dict[str, Any]] = {}  # further ones of types that are known already


EXTENSIONS = {"core.v1.PodSpec": {"virtualMachine": ["J", 0, "ex"]}}
"""Fields that Bayplan accepts beyond Kubernetes' own; they are kept as they are, not published."""


@cache
def catalog() -> Catalog:
    """Read the data files once (about two milliseconds)."""
    folder = resources.files(__package__)
    found, more = (
        msgspec.json.decode(folder.joinpath(name).read_bytes(), type=Catalog)
        for name in ("kubernetes.json", "by_version.json")
    )
    found.packages |= more.packages
    found.kinds |= more.kinds
    found.types |= more.types
    for name, fields in (EXTENSIONS | more.fields).items():
        found.types[name]["f"] |= fields
    return found


@cache
def struct(name: str) -> Type:
    """The struct type with this short name, such as `core.v1.PodSpec`."""
    raw = catalog().types[name]
    return Type("struct", name=name, atomic=raw.get("map") == "atomic", raw=raw)


@cache
def _granular(name: str) -> Type:
    """A struct that is atomic by itself but granular where a field says so."""
    return Type("struct", name=name, raw=catalog().types[name])


@cache
def _atomic(name: str) -> Type:
    return Type("struct", name=name, atomic=True, raw=catalog().types[name])


@cache
def scalar(letter: str) -> Type:
    return Type(SCALARS[letter])


def parse(text: str, extras: Mapping[str, Any]) -> Type:
    """Build the type of a field from the short grammar."""
    if text[0] == "@":
        match extras.get("map"):
            case "granular":
                return _granular(text[1:])
            case "atomic":
                return _atomic(text[1:])
        return struct(text[1:])
    if text.startswith("[]"):
        list_type = extras.get("list", "atomic")
        keys = tuple(extras.get("keys", ()))
        return Type("list", elem=parse(text[2:], {}), list_type=list_type, keys=keys)
    if text.startswith("w[]"):
        return Type("list", elem=parse(text[3:], {}), name="wrapped")
    if text.startswith("{}"):
        return Type("map", elem=parse(text[2:], {}), atomic=extras.get("map") == "atomic")
    return scalar(text)


def _field(name: str, entry: list[Any]) -> Field:
    extras = entry[3] if len(entry) > 3 else {}
    return Field(name, parse(entry[0], extras), entry[1], entry[2], extras)


@lru_cache(1024)  # bounded: clients name versions and kinds
def type_for(api_version: str, kind: str) -> Type | None:
    """The type of a built-in kind, or None if the kind is not known here.

    Options and list kinds of the meta group are found under every API version.
    """
    kinds = catalog().kinds
    name = kinds.get(f"{api_version}/{kind}")
    if name is None:
        name = kinds.get(f"v1/{kind}")
        if name is None or not name.startswith("meta."):
            return None
    return struct(name)


def from_openapi(schema: Mapping[str, Any], name: str = "") -> Type:
    """Build the type of a custom resource from its structural schema.

    Only what storage, pruning and apply need is taken over; value validation reads the schema
    itself.
    """
    if schema.get("x-kubernetes-int-or-string"):
        return scalar("x")
    if schema.get("x-kubernetes-embedded-resource") and "properties" not in schema:
        return scalar("R")
    match schema.get("type"):
        case "object":
            return _object_type(schema, name)
        case "array":
            items = schema.get("items") or {}
            list_type = schema.get("x-kubernetes-list-type", "atomic")
            keys = tuple(schema.get("x-kubernetes-list-map-keys", ()))
            return Type("list", elem=from_openapi(items), list_type=list_type, keys=keys)
        case "integer":
            return scalar("I")
        case "number":
            return scalar("n")
        case "boolean":
            return scalar("b")
        case "string":
            return scalar("s")
    return scalar("J")


def _object_type(schema: Mapping[str, Any], name: str) -> Type:
    atomic = schema.get("x-kubernetes-map-type") == "atomic"
    preserve = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    inner = schema.get("additionalProperties")
    if "properties" not in schema and inner:
        elem = from_openapi(inner) if isinstance(inner, Mapping) else scalar("J")
        return Type("map", elem=elem, atomic=atomic)
    type_ = Type("struct", name=name, atomic=atomic, preserve=preserve)
    required = set(schema.get("required", ()))
    fields = {
        key: Field(key, from_openapi(sub), flags="r" if key in required else "e")
        for key, sub in schema.get("properties", {}).items()
    }
    for key, sub in schema.get("properties", {}).items():
        fields[key].default = sub.get("default")
    if schema.get("x-kubernetes-embedded-resource"):
        fields.setdefault("metadata", Field("metadata", struct("meta.v1.ObjectMeta")))
    type_.__dict__["fields"] = fields  # what the cached property would compute
    return type_


def custom_resource(schema: Mapping[str, Any] | None, name: str) -> Type:
    """The type of a whole custom resource: its schema plus apiVersion, kind and metadata."""
    body = dict(schema or {"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    body.setdefault("type", "object")
    type_ = _object_type({**body, "properties": body.get("properties", {})}, name)
    type_.fields["apiVersion"] = type_.fields["kind"] = Field("", scalar("s"))
    type_.fields["metadata"] = Field("metadata", struct("meta.v1.ObjectMeta"))
    return type_
