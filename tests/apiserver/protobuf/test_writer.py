"""Protobuf answers: what is written is what the reader, and so a Go client, reads."""

import base64
import json
import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from bayplan.api.schema import catalog, type_for
from bayplan.api.schema import decode as canonical
from bayplan.apiserver.codec import encode_value
from bayplan.apiserver.protobuf import decode, encode, enveloped, fields
from bayplan.apiserver.protobuf.stored import MEMORY, Memory, StoredWriter
from tests.apiserver.api import CONFIGMAPS, PODS, configmap, pod
from tests.apiserver.objects import objects
from tests.definitions import DEFINITIONS, definition

SAMPLES = json.loads((Path(__file__).parent / "samples.json").read_text())
PROTOBUF = "application/vnd.kubernetes.protobuf"
ASKED = {"accept": PROTOBUF}
KINDS = sorted(
    tuple(key.rsplit("/", 1))
    for key, name in catalog().kinds.items()
    if "metadata" in type_for(*key.rsplit("/", 1)).fields
    and not name.startswith("meta.")
    and not key.endswith("List")
)
FEW = settings(
    max_examples=4,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def normal(obj):
    """Return the canonical object without what has no number: inner kinds, our own fields."""
    type_ = type_for(obj["apiVersion"], obj["kind"])
    found, _ = canonical(obj, type_)
    return {**numbered(found, type_), "apiVersion": obj["apiVersion"], "kind": obj["kind"]}


def numbered(value, type_):
    if type_.kind == "struct":
        known = {name: field for name, field in type_.fields.items() if field.number}
        return {k: numbered(v, known[k].type) for k, v in value.items() if k in known}
    if type_.kind == "list":
        return [numbered(v, type_.elem) for v in value]
    if type_.kind == "map":
        return {k: numbered(v, type_.elem) for k, v in value.items()}
    return value


@pytest.mark.parametrize(("version", "kind"), KINDS)
@FEW
@given(data=st.data())
def test_what_is_written_is_read_again(version, kind, data):
    obj = normal(data.draw(objects(version, kind)))

    assert obj == normal(decode(encode(obj)))


@settings(FEW, max_examples=60)
@given(st.sampled_from(KINDS), st.sampled_from((40, 1000, MEMORY)), st.data())
def test_stored_values_are_written_as_their_objects(named, limit, data):
    """Also by a memory so small that it forgets at every second part."""
    version, kind = named
    first, second = (normal(data.draw(objects(version, kind))) for _ in range(2))
    writer = StoredWriter(type_for(version, kind), Memory(limit))

    for obj, revision in ((first, 77), (second, 77), (first, 77), (first, 78), (second, 77)):
        obj["metadata"]["resourceVersion"] = str(revision)
        written = enveloped(version, kind, writer.write(encode_value(obj), revision))
        assert obj == normal(decode(written))


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample["json"]["kind"])
def test_samples_of_the_real_server_hold_no_more_than_ours(sample):
    real = decode(base64.b64decode(sample["protobuf"]))

    assert normal(real) == normal(decode(encode(sample["json"])))


def test_rules_in_rules_keep_their_lists_apart():
    """The operations of a policy's rule and its groups have the same number, a level apart."""
    rule = {
        "apiGroups": ["apps"],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE"],
        "resourceNames": ["x"],
        "resources": ["deployments"],
    }
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "p"},
        "spec": {"matchConstraints": {"resourceRules": [rule]}},
    }

    assert [rule] == decode(encode(policy))["spec"]["matchConstraints"]["resourceRules"]


@given(st.text(max_size=20))
@example('quoted " and \\ escaped \u2603 \u0001')
def test_any_text_is_copied(text):
    obj = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": text, "namespace": "n"}}
    writer = StoredWriter(type_for("v1", "Pod"), Memory())

    written = enveloped("v1", "Pod", writer.write(encode_value(obj), 1))

    assert text == decode(written)["metadata"]["name"]


# -- over HTTP -----------------------------------------------------------------------------------


async def test_one_object_a_list_and_an_error(api):
    made = await api.ok("POST", PODS, pod("a"))
    await api.ok("POST", PODS, pod("b"))
    for path in (PODS, f"{PODS}/a", f"{PODS}/none"):
        plain = await api.call("GET", path)

        answer = await api.call("GET", path, headers=ASKED)

        assert (plain.status, PROTOBUF) == (answer.status, answer.headers["content-type"])
        assert normal(plain.body) == normal(decode(answer.raw))
    assert (
        made["metadata"]["uid"]
        == decode((await api.call("GET", f"{PODS}/a", headers=ASKED)).raw)["metadata"]["uid"]
    )


async def test_long_lists_are_whole(api):
    for number in range(620):
        await api.ok("POST", CONFIGMAPS, configmap(f"c{number}"))

    found = decode((await api.call("GET", CONFIGMAPS, headers=ASKED)).raw)

    plain = await api.ok("GET", CONFIGMAPS)
    assert normal(plain) == normal(found)


async def test_writes_answer_in_protobuf(api):
    created = await api.call("POST", CONFIGMAPS, configmap("c"), headers=ASKED)
    changed = decode(created.raw)
    changed["data"] = {"b": "2"}
    body = encode(changed)
    updated = await api.call("PUT", f"{CONFIGMAPS}/c", body, {**ASKED, "content-type": PROTOBUF})
    deleted = await api.call("DELETE", f"{CONFIGMAPS}/c", headers=ASKED)

    assert [201, 200, 200] == [created.status, updated.status, deleted.status]
    assert {"b": "2"} == decode(updated.raw)["data"]
    assert "Success" == decode(deleted.raw)["status"]


def frames(data):
    """The events of a watch: their types and decoded objects."""
    found, at = [], 0
    while at < len(data):
        (size,) = struct.unpack_from(">I", data, at)
        parts = dict(fields(data[at + 4 : at + 4 + size]))
        found.append((bytes(parts[1]).decode(), decode(bytes(dict(fields(parts[2]))[1]))))
        at += 4 + size
    return found


async def until(stream, count):
    while len(frames(b"".join(stream.pieces))) < count:
        stream.arrived.clear()
        await stream.arrived.wait()
    return frames(b"".join(stream.pieces))


async def test_watches_send_frames(api):
    await api.ok("POST", CONFIGMAPS, configmap("a"))
    query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    stream = await api.watch(f"{CONFIGMAPS}?{query}&allowWatchBookmarks=true", ASKED)
    await until(stream, 2)
    await api.ok("DELETE", f"{CONFIGMAPS}/a")
    found = await until(stream, 3)
    await stream.leave()

    assert f"{PROTOBUF};stream=watch" == stream.headers["content-type"]
    assert ["ADDED", "BOOKMARK", "DELETED"] == [kind for kind, _ in found]
    assert "a" == found[0][1]["metadata"]["name"] == found[2][1]["metadata"]["name"]
    assert "ConfigMap" == found[1][1]["kind"]
    assert {"k8s.io/initial-events-end": "true"} == found[1][1]["metadata"]["annotations"]


async def test_a_watch_of_the_forgotten_past_ends_with_a_status(api):
    await api.ok("POST", PODS, pod("a"))
    await api.server.store.compact(api.server.store.revision)
    stream = await api.watch(f"{PODS}?watch=1&resourceVersion=1", ASKED)
    [(kind, status)] = await until(stream, 1)
    await stream.leave()

    assert ("ERROR", "Status", 410) == (kind, status["kind"], status["code"])


def asked_as(form, media=PROTOBUF):
    return {"accept": f"{media};as={form};g=meta.k8s.io;v=v1,application/json"}


async def test_metadata_only(api):
    await api.ok("POST", PODS, pod("a"))

    one = await api.call("GET", f"{PODS}/a", headers=asked_as("PartialObjectMetadata"))
    many = await api.call("GET", PODS, headers=asked_as("PartialObjectMetadataList"))

    (raw,) = [value for number, value in fields(one.raw[4:]) if number == 2]
    assert b"a" == bytes(dict(fields(dict(fields(raw))[1]))[1])
    assert PROTOBUF == many.headers["content-type"]


async def test_tables_are_not_written_in_protobuf(api):
    answer = await api.call("GET", PODS, headers=asked_as("Table"))
    refused = await api.call(
        "GET", PODS, headers={"accept": f"{PROTOBUF};as=Table;g=meta.k8s.io;v=v1"}
    )

    assert ("application/json", "PodList") == (answer.headers["content-type"], answer.body["kind"])
    assert 406 == refused.status


async def test_custom_kinds_fall_back_to_json(api, crd):
    answer = await api.call("GET", crd, headers={"accept": f"{PROTOBUF},application/json"})
    refused = await api.call("GET", crd, headers=ASKED)

    assert "application/json" == answer.headers["content-type"]
    assert 406 == refused.status


@pytest.fixture
async def crd(api):
    await api.ok("POST", DEFINITIONS, definition("ships", "ships.example"))
    return "/apis/ships.example/v1/namespaces/default/ships"
