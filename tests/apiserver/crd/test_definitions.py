"""CustomResourceDefinitions: defaults, validation, names and conditions."""

import copy

import pytest

from bayplan.apiserver.crd import definitions
from tests.apiserver.crd.test_objects import definition

NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"


def prepared(**version):
    obj = definition(**version)
    definitions.default(obj)
    definitions.prepare_for_create(obj)
    return obj


def fields(causes):
    return [(c.field, c.reason.removeprefix("FieldValue")) for c in causes]


def test_names_and_conversion_have_defaults():
    obj = prepared()

    assert ("ship", "ShipList") == (
        obj["spec"]["names"]["singular"],
        obj["spec"]["names"]["listKind"],
    )
    assert {"strategy": "None"} == obj["spec"]["conversion"]
    assert ["v1"] == obj["status"]["storedVersions"]
    assert [] == definitions.validate_create(obj)


def test_names_are_accepted_at_once():
    obj = definitions.establish(prepared(), [], NOW)

    assert definitions.is_established(obj)
    assert obj["spec"]["names"] == obj["status"]["acceptedNames"]
    assert ["NoConflicts", "InitialNamesAccepted"] == [
        c["reason"] for c in obj["status"]["conditions"]
    ]


def test_taken_names_are_not_accepted():
    first = definitions.establish(prepared(), [], NOW)
    second = prepared()
    second["metadata"]["name"] = "boats.sea.example"
    second["spec"]["names"] |= {"plural": "boats", "shortNames": ["sh"]}

    second = definitions.establish(second, [first, second], NOW)

    assert not definitions.is_established(second)
    by_type = {c["type"]: c for c in second["status"]["conditions"]}
    assert "False" == by_type["NamesAccepted"]["status"]
    assert "is already in use" in by_type["NamesAccepted"]["message"]


def test_conditions_keep_their_time_while_they_do_not_change():
    obj = definitions.establish(prepared(), [], NOW)

    again = definitions.establish(obj, [obj], LATER)

    assert obj["status"] == again["status"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda o: o["metadata"].update(name="x"), [("metadata.name", "Invalid")]),
        (lambda o: o["spec"].update(scope="Everywhere"), [("spec.scope", "NotSupported")]),
        (lambda o: o["spec"].pop("scope"), [("spec.scope", "Required")]),
        (
            lambda o: o["spec"]["versions"][0].pop("schema"),
            [("spec.versions[0].schema.openAPIV3Schema", "Required")],
        ),
        (
            lambda o: o["spec"]["versions"][0].update(storage=False),
            [("spec.versions", "Invalid")],
        ),
        (
            lambda o: o["spec"]["versions"][0].update(
                additionalPrinterColumns=[{"name": "X", "type": "text", "jsonPath": ".a["}]
            ),
            [
                ("spec.additionalPrinterColumns[0].type", "Invalid"),
                ("spec.additionalPrinterColumns[0].JSONPath", "Invalid"),
            ],
        ),
        (
            lambda o: o["spec"].update(conversion={"strategy": "Webhook"}),
            [
                ("spec.conversion.webhookClientConfig", "Required"),
                ("spec.conversion.conversionReviewVersions", "Required"),
            ],
        ),
    ],
)
def test_definitions_are_validated(change, expected):
    obj = prepared()
    change(obj)

    assert expected == fields(definitions.validate_create(obj))


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({"type": "string"}, "type"),
        ({}, "type"),
        ({"type": "object", "properties": {"a": {}}}, "properties[a].type"),
        ({"type": "object", "properties": {"a": {"type": "array"}}}, "properties[a].items"),
        ({"type": "object", "properties": {"a": {"type": "text"}}}, "properties[a].type"),
        (
            {"type": "object", "properties": {"a": {"type": "integer", "default": "x"}}},
            "properties[a].default",
        ),
    ],
)
def test_schemas_must_be_structural(schema, path):
    obj = prepared(schema={"openAPIV3Schema": schema})

    found = [field for field, _ in fields(definitions.validate_create(obj))]

    assert [f"spec.validation.openAPIV3Schema.{path}"] == found


def test_problems_are_told_of_a_version_where_versions_differ():
    obj = prepared()
    schema = {"type": "object", "properties": {"a": {}}}
    version = {
        "name": "v2",
        "served": True,
        "storage": False,
        "schema": {"openAPIV3Schema": schema},
    }
    obj["spec"]["versions"].append(version)

    found = [field for field, _ in fields(definitions.validate_create(obj))]

    assert ["spec.versions[1].schema.openAPIV3Schema.properties[a].type"] == found


def test_the_storage_version_may_change_and_is_remembered():
    old = definitions.establish(prepared(), [], NOW)
    new = copy.deepcopy(old)
    version = copy.deepcopy(new["spec"]["versions"][0])
    new["spec"]["versions"][0]["storage"] = False
    new["spec"]["versions"].append({**version, "name": "v2"})

    definitions.prepare_for_update(new, old)

    assert ["v1", "v2"] == new["status"]["storedVersions"]
    assert 2 == new["metadata"]["generation"]
    assert [] == definitions.validate_update(new, old)


def test_an_established_definition_keeps_its_scope_and_kind():
    old = definitions.establish(prepared(), [], NOW)
    new = copy.deepcopy(old)
    new["spec"]["scope"] = "Cluster"
    new["spec"]["names"]["kind"] = "Boat"

    assert [("spec.scope", "Invalid"), ("spec.names.kind", "Invalid")] == fields(
        definitions.validate_update(new, old)
    )
