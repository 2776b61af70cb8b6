"""What the Kubernetes API types are made of: fields, list kinds, merge keys, protobuf numbers.

    type_ = type_for("v1", "Pod")                     # None for kinds that are not built in obj,
    dropped = decode(body, type_)                 # canonical form; FieldTypeError is a 400 texts
    = problems(type_, body, raw_bytes)           # unknown and duplicate fields, upstream's words
    message = strict_message(body, texts)              # the 400 of fieldValidation=Strict type_ =
    custom_resource(openapi_schema, "Harbour") # the same for a custom resource

`hack/extract-schema` writes the data. It holds no descriptions.
"""

from bayplan.api.schema.decode import FieldTypeError, decode, decode_fields
from bayplan.api.schema.model import Field, Type, catalog, custom_resource, struct, type_for
from bayplan.api.schema.scalars import canonical_micro_time, canonical_quantity, canonical_time
from bayplan.api.schema.strict import (
    duplicate_fields,
    problems,
    strict_message,
    unknown_fields,
)

__all__ = [
    "Field",
    "FieldTypeError",
    "Type",
    "canonical_micro_time",
    "canonical_quantity",
    "canonical_time",
    "catalog",
    "custom_resource",
    "decode",
    "decode_fields",
    "duplicate_fields",
    "problems",
    "strict_message",
    "struct",
    "type_for",
    "unknown_fields",
]
