"""OpenAPI documents: what kubectl looks for is there."""

import json

import pytest

from bayplan.api.schema import struct, type_for
from bayplan.apiserver import crd, openapi
from bayplan.apiserver.kinds import Registry
from bayplan.apiserver.openapi import words
from bayplan.apiserver.protobuf import fields
from tests.apiserver.crd.test_objects import definition


@pytest.fixture
def registry():
    return Registry()


def get(registry, path):
    return json.loads(openapi.document(registry, path).body)


def test_the_index_points_to_a_document_for_every_group(registry):
    index = get(registry, "/openapi/v3")["paths"]

    assert {"api/v1", "apis/apps/v1", "apis/batch/v1"} <= set(index)
    for path, entry in index.items():
        where, _, digest = entry["serverRelativeURL"].partition("?hash=")
        assert f"/openapi/v3/{path}" == where
        assert 128 == len(digest)
        assert "3.0.0" == get(registry, where)["openapi"]


def test_every_reference_leads_somewhere(registry):
    for path in get(registry, "/openapi/v3")["paths"]:
        document = get(registry, f"/openapi/v3/{path}")
        known = document["components"]["schemas"]
        for reference in references(document):
            assert reference.removeprefix("#/components/schemas/") in known


def references(value):
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for item in value.values():
            yield from references(item)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


def test_merge_keys_and_kinds_are_told(registry):
    schemas = get(registry, "/openapi/v3/api/v1")["components"]["schemas"]
    pod = schemas["io.k8s.api.core.v1.Pod"]
    containers = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]

    assert [{"group": "", "kind": "Pod", "version": "v1"}] == pod["x-kubernetes-group-version-kind"]
    assert ("name", "merge", "map", ["name"]) == (
        containers["x-kubernetes-patch-merge-key"],
        containers["x-kubernetes-patch-strategy"],
        containers["x-kubernetes-list-type"],
        containers["x-kubernetes-list-map-keys"],
    )


def test_patches_take_field_validation(registry):
    paths = get(registry, "/openapi/v3/apis/apps/v1")["paths"]
    patch = paths["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]

    assert {"dryRun", "fieldValidation", "fieldManager", "force"} == {
        p["name"] for p in patch["parameters"]
    }
    assert "Deployment" == patch["x-kubernetes-group-version-kind"]["kind"]


def test_custom_kinds_appear_and_vanish(registry):
    kind = crd.kinds_of(definition())[0]
    assert openapi.document(registry, "/openapi/v3/apis/sea.example/v1") is None

    registry.add(kind)
    schemas = get(registry, "/openapi/v3/apis/sea.example/v1")["components"]["schemas"]
    assert "flag" in schemas["example.sea.v1.Ship"]["properties"]["spec"]["properties"]
    assert "example.sea.v1.ShipList" in schemas

    registry.remove(kind.group, kind.version, kind.resource)
    assert openapi.document(registry, "/openapi/v3/apis/sea.example/v1") is None


def test_version_two_is_json_or_protobuf(registry):
    document = get(registry, "/openapi/v2")
    found = openapi.document(registry, "/openapi/v2", openapi.V2_PROTOBUF)

    assert "2.0" == document["swagger"]
    assert "@" not in found.content_type
    parts = dict(fields(found.body))
    assert b"2.0" == bytes(parts[1])
    names = [
        bytes(dict(fields(entry))[1]).decode() for number, entry in fields(parts[9]) if number == 1
    ]
    assert list(document["definitions"]) == names


def test_what_keeps_unknown_fields_tells_none_of_them_in_version_2(registry):
    made = definition()
    schema = made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"] = {
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {}},
        "maybe": {"type": "string", "nullable": True, "anyOf": [{"maxLength": 3}]},
    }
    schema["required"] = ["free", "maybe"]
    registry.add(crd.kinds_of(made)[0])
    name = f"example.sea.v1.{made['spec']['names']['kind']}"

    found = get(registry, "/openapi/v2")["definitions"][name]
    assert {"x-kubernetes-preserve-unknown-fields": True} == found["properties"]["free"]
    assert {} == found["properties"]["maybe"]
    assert ["free"] == found["required"]
    assert found["properties"]["apiVersion"]["description"].startswith("APIVersion defines")

    schema["x-kubernetes-preserve-unknown-fields"] = True
    again = Registry()
    again.add(crd.kinds_of(made)[0])
    found = get(again, "/openapi/v2")["definitions"][name]
    assert {"type", "x-kubernetes-group-version-kind"} == set(found)


def test_what_all_kinds_share_is_described(registry):
    definitions = get(registry, "/openapi/v2")["definitions"]
    items = definitions["io.k8s.api.core.v1.ServiceList"]["properties"]["items"]
    meta = definitions["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"]["properties"]

    assert "List of services." == items["description"]
    assert all("description" in schema for schema in meta.values())
    reference = definitions["io.k8s.api.core.v1.ObjectReference"]["properties"]
    assert "Kind of the object." == reference["kind"]["description"]


MOST_USED = [
    ("v1", "Pod"),
    ("v1", "Service"),
    ("v1", "ConfigMap"),
    ("v1", "Secret"),
    ("v1", "Node"),
    ("v1", "Namespace"),
    ("v1", "PersistentVolume"),
    ("v1", "PersistentVolumeClaim"),
    ("v1", "ServiceAccount"),
    ("v1", "Event"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "ReplicaSet"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "DaemonSet"),
    ("batch/v1", "Job"),
    ("batch/v1", "CronJob"),
    ("networking.k8s.io/v1", "Ingress"),
    ("policy/v1", "PodDisruptionBudget"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("scheduling.k8s.io/v1", "PriorityClass"),
    ("storage.k8s.io/v1", "StorageClass"),
]


def structs(type_, found):
    """Collect a type and all that it holds."""
    while type_.kind in ("list", "map"):
        type_ = type_.elem
    if type_.kind == "struct" and type_.name not in found:
        found[type_.name] = type_
        for field in type_.fields.values():
            structs(field.type, found)
    return found


@pytest.mark.parametrize(("version", "kind"), MOST_USED)
def test_every_field_of_the_most_used_kinds_is_described(version, kind):
    type_ = type_for(version, kind)
    missing = [
        f"{name}.{field}"
        for name, each in structs(type_, {}).items()
        for field in each.fields
        if each.fields[field].published and not words.of_type(name, each.fields).get(field)
    ]

    assert [] == missing
    assert words.of_type(type_.name, type_.fields)[words.ITSELF]


def test_every_word_is_about_a_field_that_there_is():
    table = words._table()
    known = {name: struct(name).fields for name in table if name != words.EVERYWHERE}
    used = {field for fields in known.values() for field in fields}
    wrong = [
        f"{name}.{field}"
        for name, fields in known.items()
        for field in table[name]
        if field not in fields and field != words.ITSELF and not shared(table, name, field)
    ]

    assert [] == wrong
    assert set() == set(table[words.EVERYWHERE]) - used


def shared(table, name, field):
    """Whether a section names several types and another of them has the field."""
    same = [other for other in table if table[other].get(field) == table[name][field]]
    return any(
        field in struct(other).fields for other in same if other not in (name, words.EVERYWHERE)
    )
