"""Custom objects: pruning, defaulting, preparing, validating, rules."""

# ruff: noqa: E501  # a case is read best on one line

import copy
import json

import pytest

from bayplan.apiserver import crd
from bayplan.apiserver.crd.defaults import fill
from bayplan.apiserver.crd.formats import matches_format
from bayplan.apiserver.crd.rules import Rules
from bayplan.apiserver.crd.values import validate_value
from tests import definitions

SPEC = {
    "type": "object",
    "required": ["flag"],
    "properties": {
        "flag": {"type": "string", "minLength": 2, "pattern": "^[a-z]+$"},
        "crew": {"type": "integer", "default": 3, "minimum": 1, "maximum": 9},
        "mode": {"type": "string", "enum": ["open", "closed"], "nullable": True},
        "size": {"x-kubernetes-int-or-string": True},
        "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "holds": {
            "type": "array",
            "maxItems": 3,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string"},
                    "load": {"type": "integer", "default": 0},
                },
            },
        },
        "tags": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}
STATUS = {"type": "object", "properties": {"crew": {"type": "integer"}}}


def definition(**version):
    return definitions.definition(
        "ships",
        "sea.example",
        properties={"spec": SPEC, "status": STATUS},
        names={"shortNames": ["sh"]},
        **{"subresources": {"status": {}}, **version},
    )


KIND = crd.kinds_of(definition())[0]


def ship(**spec):
    return {
        "apiVersion": "sea.example/v1",
        "kind": "Ship",
        "metadata": {"name": "s"},
        "spec": {"flag": "no", **spec},
    }


def test_a_definition_becomes_a_kind():
    assert ("sea.example", "v1", "ships", "Ship", "ship") == (
        KIND.group, KIND.version, KIND.resource, KIND.kind, KIND.singular,
    )  # fmt: skip
    assert KIND.custom
    assert ["status"] == list(KIND.subresources)


def test_unknown_fields_are_pruned_and_reported():
    obj = ship(color="red", any={"kept": {"x": 1}}, holds=[{"name": "a", "q": 1}], tags={"a": "b"})
    obj["extra"] = 1
    obj["metadata"]["nam"] = "x"

    pruned, found = crd.prune(KIND, obj, None)

    assert {"kept": {"x": 1}} == pruned["spec"]["any"]
    assert {"flag", "any", "holds", "tags"} == set(pruned["spec"])
    assert [
        'unknown field "extra"',
        'unknown field "metadata.nam"',
        'unknown field "spec.color"',
        'unknown field "spec.holds[0].q"',
    ] == found


def test_duplicate_keys_of_the_body_are_reported():
    body = b'{"apiVersion":"x","kind":"Ship","metadata":{},"spec":{"flag":"aa","flag":"bb"}}'

    _, found = crd.prune(KIND, json.loads(body), body)

    assert ['duplicate field "spec.flag"'] == found


def test_defaults_are_filled_in_at_every_depth():
    obj = ship(holds=[{"name": "a"}], crew=None, mode=None)

    crd.default(KIND, obj)

    assert 3 == obj["spec"]["crew"]
    assert [{"name": "a", "load": 0}] == obj["spec"]["holds"]
    assert obj["spec"]["mode"] is None


def test_the_main_path_does_not_write_status_and_counts_generations():
    obj = {**ship(), "status": {"crew": 1}}
    crd.prepare_for_create(KIND, obj)
    assert "status" not in obj
    assert 1 == obj["metadata"]["generation"]

    new = {**copy.deepcopy(obj), "status": {"crew": 9}}
    crd.prepare_for_update(KIND, new, obj)
    assert "status" not in new
    assert 1 == new["metadata"]["generation"]

    new["spec"]["crew"] = 4
    crd.prepare_for_update(KIND, new, obj)
    assert 2 == new["metadata"]["generation"]


def test_the_status_path_writes_nothing_else():
    old = ship()
    new = {**ship(crew=5), "status": {"crew": 2}}

    crd.prepare_for_update(KIND, new, old, "status")

    assert old["spec"] == new["spec"]
    assert {"crew": 2} == new["status"]


@pytest.mark.parametrize(
    ("spec", "field", "reason", "text"),
    [
        ({"crew": 0}, "spec.crew", "Invalid", "spec.crew in body should be greater than or equal to 1"),
        ({"crew": 10}, "spec.crew", "Invalid", "should be less than or equal to 9"),
        ({"crew": "x"}, "spec.crew", "TypeInvalid", 'spec.crew in body must be of type integer: "string"'),
        ({"mode": "ajar"}, "spec.mode", "NotSupported", 'supported values: "open", "closed"'),
        ({"flag": "x"}, "spec.flag", "Invalid", "should be at least 2 chars long"),
        ({"flag": "XX"}, "spec.flag", "Invalid", "should match '^[a-z]+$'"),
        ({"size": True}, "spec.size", "TypeInvalid", "must be of type integer,string"),
        ({"holds": [{"name": "a"}, {"name": "a"}]}, "spec.holds[1]", "Duplicate", "Duplicate value"),
        ({"holds": [{}]}, "spec.holds[0].name", "Required", "Required value"),
        ({"holds": [{"name": n} for n in "abcd"]}, "spec.holds", "TooMany", "must have at most 3 items"),
        ({"tags": {"a": 1}}, "spec.tags.a", "TypeInvalid", "must be of type string"),
        ({"flag": None}, "spec.flag", "TypeInvalid", 'must be of type string: "null"'),
    ],
)  # fmt: skip
def test_values_are_validated_in_upstreams_words(spec, field, reason, text):
    causes = crd.validate_create(KIND, ship(**spec))

    assert [(f"FieldValue{reason}", field)] == [(c.reason, c.field) for c in causes]
    assert text in causes[0].message


def test_a_missing_field_is_required():
    obj = ship()
    del obj["spec"]["flag"]

    assert ["spec.flag"] == [c.field for c in crd.validate_create(KIND, obj)]


def test_what_the_storage_version_lacks_is_not_kept():
    both = definition()
    spec = {"type": "object", "properties": {"flag": {"type": "string"}, "new": {"type": "string"}}}
    schema = {"type": "object", "properties": {"spec": spec}}
    version = {
        "name": "v2",
        "served": True,
        "storage": False,
        "schema": {"openAPIV3Schema": schema},
    }
    both["spec"]["versions"].append(version)
    kind = crd.kinds_of(both)[1]
    obj = {**ship(new="x"), "apiVersion": "sea.example/v2"}

    crd.prepare_for_create(kind, obj)

    assert {"flag": "no"} == obj["spec"]


@pytest.mark.parametrize(
    ("crew", "found"), [(-1, [".spec.crew"]), (2**31, [".spec.crew"]), (5, [])]
)
def test_replica_counts_of_a_scale_are_checked(crew, found):
    scale = {"scale": {"specReplicasPath": ".spec.crew", "statusReplicasPath": ".status.crew"}}
    kind = crd.kinds_of(definition(subresources=scale))[0]

    causes = crd.validate_create(kind, ship(crew=crew))

    assert found == [c.field for c in causes if c.field.startswith(".")]


def test_old_mistakes_do_not_stop_other_changes():
    old = ship(crew=100)

    assert [] == crd.validate_update(KIND, ship(crew=100, mode="open"), old)
    assert ["spec.crew"] == [c.field for c in crd.validate_update(KIND, ship(crew=200), old)]


@pytest.mark.parametrize(
    ("schema", "value", "problems"),
    [
        ({"anyOf": [{"type": "string"}, {"minimum": 5}]}, 7, 0),
        ({"anyOf": [{"type": "string"}, {"minimum": 5}]}, 3, 2),
        ({"oneOf": [{"minimum": 1}, {"minimum": 5}]}, 7, 1),
        ({"oneOf": [{"minimum": 1}, {"minimum": 5}]}, 3, 0),
        ({"not": {"minimum": 5}}, 7, 1),
        ({"allOf": [{"minimum": 5}]}, 3, 2),
        ({"type": "number", "multipleOf": 0.5}, 1.5, 0),
        ({"type": "number", "multipleOf": 2}, 3, 1),
        ({"type": "integer"}, 3.0, 0),
        ({"type": "integer"}, 3.5, 2),
        ({"type": "integer", "exclusiveMinimum": True, "minimum": 3}, 3, 1),
    ],
)
def test_combinations(schema, value, problems):
    assert problems == len(validate_value(value, schema, "x"))


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("date-time", "2026-01-02T03:04:05Z", "today"),
        ("date", "2026-01-02", "2026-13-02"),
        ("ipv4", "10.0.0.1", "10.0.0.256"),
        ("ipv6", "::1", "10.0.0.1"),
        ("cidr", "10.0.0.0/8", "10.0.0.0"),
        ("uuid", "123e4567-e89b-12d3-a456-426614174000", "123"),
        ("email", "a@b.example", "nobody"),
        ("byte", "YQ==", "a"),
        ("duration", "1h30m", "soon"),
        ("uri", "https://x.example", "x"),
    ],
)
def test_formats(name, good, bad):
    assert matches_format(name, good)
    assert not matches_format(name, bad)
    assert matches_format("unheard-of", bad)


def test_rules_are_judged_where_they_apply():
    schema = {
        "type": "object",
        "properties": {"min": {"type": "integer"}, "max": {"type": "integer"}},
        "x-kubernetes-validations": [
            {"rule": "self.min <= self.max", "message": "min must not exceed max"},
            {
                "rule": "self.max >= oldSelf.max",
                "messageExpression": "'was ' + string(oldSelf.max)",
            },
        ],
    }
    rules = Rules(schema)

    assert [] == rules.validate({"min": 1, "max": 2}, None)
    assert ["min must not exceed max", "was 9"] == [
        c.message.rpartition(": ")[2]
        for c in rules.validate({"min": 3, "max": 2}, {"min": 1, "max": 9})
    ]


@pytest.mark.parametrize(
    "rule",
    [
        "self.spec.low <= self.spec.high",
        "has(self.spec) && has(self.spec.low) && self.spec.low < 9",
        "oldSelf.spec.low == self.spec.low",
        "self.metadata.name.startsWith('a')",
    ],
)
def test_a_rule_of_the_whole_object_sees_the_objects_in_it(rule):
    """What types are called must not hide the fields."""
    number = {"type": "integer"}
    spec = {"type": "object", "properties": {"low": number, "high": number}}
    schema = {"type": "object", "properties": {"spec": spec}}
    rules = Rules({**schema, "x-kubernetes-validations": [{"rule": rule}]})
    value = {"metadata": {"name": "a"}, "spec": {"low": 1, "high": 2}}
    other = {"metadata": {"name": "b"}, "spec": {"low": 10, "high": 2}}

    assert [] == rules.validate(value, value)
    assert [f"Invalid value: failed rule: {rule}"] == [
        cause.message for cause in rules.validate(other, value)
    ]


def test_a_stored_rule_that_does_not_compile_refuses_every_object():
    rules = Rules({"type": "object", "x-kubernetes-validations": [{"rule": "self.beyondUs()"}]})

    (cause,) = rules.validate({}, None)

    assert cause.message.startswith(
        'Invalid value: "object": rule compile error: ERROR: <input>:1:14: undeclared reference'
    )


async def test_a_default_that_is_newer_than_an_object_is_shown(api):
    where = definitions.DEFINITIONS
    made = await api.ok("POST", where, definition())
    names, group = made["spec"]["names"], made["spec"]["group"]
    objects = f"/apis/{group}/v1/namespaces/default/{names['plural']}"
    body = {"apiVersion": f"{group}/v1", "kind": names["kind"], "metadata": {"name": "old"}}
    await api.ok("POST", objects, body)
    schema = made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["flag"] = {"type": "string", "default": "red"}
    await api.ok("PUT", f"{where}/{made['metadata']['name']}", made)

    assert "red" == (await api.ok("GET", f"{objects}/old"))["flag"]
    assert ["red"] == [item["flag"] for item in (await api.ok("GET", objects))["items"]]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("1.0", "1"),
        ("1e3", "1000"),
        ("-0.0", "0"),
        ("9007199254740991.0", "9007199254740991"),
        ("9223372036854775807", "9223372036854775807"),
    ],
)
def test_a_whole_number_is_kept_in_the_form_that_an_integer_is_read_from(text, kept):
    holds = [{"name": "a", "load": json.loads(text)}]
    obj, _ = crd.prune(KIND, ship(flag="ab", size=json.loads(text), holds=holds), None)

    assert kept == json.dumps(obj["spec"]["size"]) == json.dumps(obj["spec"]["holds"][0]["load"])
    assert [] == crd.validate_create(KIND, obj)


@pytest.mark.parametrize(
    ("text", "complaints"),
    [("9007199254740992.0", 1), ("1e18", 1), ("1e20", 2), ("1.5", 2), ("1e308", 2)],
)
def test_a_number_that_no_integer_field_holds_exactly_is_refused(text, complaints):
    obj, _ = crd.prune(KIND, ship(flag="ab", holds=[{"name": "a", "load": json.loads(text)}]), None)

    causes = crd.validate_create(KIND, obj)

    assert complaints == len(causes)
    assert 'must be of type integer: "number"' in causes[0].message


def test_a_default_is_written_in_the_form_that_an_integer_is_read_from():
    schema = {
        "type": "object",
        "properties": {
            "a": {
                "type": "object",
                "default": {"b": 2.0},
                "properties": {"b": {"type": "integer"}},
            },
            "c": {"type": "integer", "default": 1.0},
        },
    }
    obj = {}

    fill(obj, schema)

    assert '{"a": {"b": 2}, "c": 1}' == json.dumps(obj)


def test_whole_numbers_below_what_a_schema_leaves_open_are_integers_too():
    given = {"a": 1.0, "b": [2e3, {"c": -3.0}, [4.0]], "d": 1.5, "e": True, "f": None}

    obj, found = crd.prune(KIND, ship(any=given), None)

    said = json.dumps(obj["spec"]["any"])
    assert '{"a": 1, "b": [2000, {"c": -3}, [4]], "d": 1.5, "e": true, "f": null}' == said
    assert [] == found
