"""The protobuf form of built-in objects, both ways; field numbers come from the schema table."""

from bayplan.apiserver.protobuf.reader import MAGIC, ProtobufError, decode, fields
from bayplan.apiserver.protobuf.stored import stored_writer
from bayplan.apiserver.protobuf.writer import (
    encode,
    enveloped,
    event_frame,
    known,
    list_item,
    list_pieces,
    message,
)

__all__ = [
    "MAGIC",
    "ProtobufError",
    "decode",
    "encode",
    "enveloped",
    "event_frame",
    "fields",
    "known",
    "list_item",
    "list_pieces",
    "message",
    "stored_writer",
]
