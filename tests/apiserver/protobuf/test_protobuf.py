"""Protobuf bodies, as Go clients write them.

`samples.json` holds objects in both forms, taken from the real kube-apiserver v1.36.4.
"""

import base64
import contextlib
import json
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.api.schema import decode as canonical
from bayplan.api.schema import type_for
from bayplan.apiserver.protobuf import MAGIC, ProtobufError, decode

SAMPLES = json.loads((Path(__file__).parent / "samples.json").read_text())


def told(value, type_):
    """What the real server printed, without lists and maps that are null."""
    if type_ is None or not isinstance(value, dict | list):
        return value
    if isinstance(value, list):
        return [told(item, type_.elem) for item in value]
    types = {key: type_.elem or ((f := type_.fields.get(key)) and f.type) for key in value}
    return {
        key: told(item, types[key])
        for key, item in value.items()
        if item is not None or types[key].kind not in ("list", "map")
    }


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample["json"]["kind"])
def test_both_forms_of_an_object_are_the_same(sample):
    expected = sample["json"]
    type_ = type_for(expected["apiVersion"], expected["kind"])

    obj, dropped = canonical(decode(base64.b64decode(sample["protobuf"])), type_)

    assert told(expected, type_) == obj
    assert not dropped


def test_bodies_that_are_no_protobuf_are_refused():
    for body in (b"", b"{}", MAGIC, MAGIC + b"\xff\xff", MAGIC + b"\x0a\x05\x0a\x02v1"):
        with pytest.raises(ProtobufError):
            decode(body)


@settings(deadline=None)
@given(st.binary(max_size=60), st.integers(0, 400))
def test_damaged_bodies_never_raise_anything_else(noise, at):
    body = bytearray(base64.b64decode(SAMPLES[0]["protobuf"]))
    at = min(at, len(body))
    body[at : at + len(noise)] = noise
    with contextlib.suppress(ProtobufError):
        decode(bytes(body))


def field(number, value):
    """Return a length-delimited field of less than 128 bytes."""
    return bytes([number << 3 | 2, len(value)]) + value


def varint(number, value):
    value &= (1 << 64) - 1
    groups = [value >> shift & 127 for shift in range(0, max(value.bit_length(), 1), 7)]
    return bytes([number << 3, *(group | 128 for group in groups[:-1]), groups[-1]])


def test_the_year_one_has_four_digits():
    moment = varint(1, -62135596798) + varint(2, 0)
    lease = field(2, field(3, moment))
    head = field(1, b"coordination.k8s.io/v1") + field(2, b"Lease")

    obj = decode(MAGIC + field(1, head) + field(2, lease))

    assert "0001-01-01T00:00:02.000000Z" == obj["spec"]["acquireTime"]


def envelope(version, kind, body):
    return MAGIC + field(1, version + kind) + field(2, body)


def of(version, kind, body):
    return envelope(field(1, version), field(2, kind), body)


HUGE = 1 << 36
NAMED = field(1, field(1, b"x"))
MAXIMUM = bytes([9 << 3 | 1])  # of JSONSchemaProps


BOMBS = {
    "a name": of(b"v1", b"ConfigMap", field(1, varint(1, HUGE))),
    "metadata": of(b"v1", b"ConfigMap", varint(1, HUGE)),
    "a key": of(b"v1", b"ConfigMap", field(2, varint(1, HUGE))),
    "a kind": envelope(varint(1, HUGE), varint(2, HUGE), b""),
    "raw": of(b"apps/v1", b"ControllerRevision", NAMED + field(2, varint(1, HUGE))),
    "bytes": of(b"v1", b"Secret", NAMED + field(2, field(1, b"a") + varint(2, HUGE))),
    "a quantity": of(
        b"v1", b"Node", NAMED + field(3, field(1, field(1, b"cpu") + varint(2, HUGE)))
    ),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_number_in_the_place_of_text_does_not_become_as_many_zeros(name):
    with pytest.raises(ProtobufError):
        decode(BOMBS[name])


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_numbers_that_json_has_not_are_refused(number):
    schema = MAXIMUM + struct.pack("<d", number)
    body = field(2, field(7, field(4, field(1, schema))))

    with pytest.raises(ProtobufError, match="unsupported value"):
        decode(of(b"apiextensions.k8s.io/v1", b"CustomResourceDefinition", NAMED + body))
