"""A key may be as long as a body, and an object may be wrong in as many places as a body holds.

A path that is written for each of those would take ten gigabytes, and an answer half of one.
"""

import asyncio
import json

import pytest

from tests import definitions
from tests.apiserver.api import CONFIGMAPS, configmap
from tests.effort import at_most

APPLY = {"content-type": "application/apply-patch+yaml"}
THINGS = "/apis/example.com/v1/namespaces/default/things"
KEY = "k" * 500_000
MANY = 20_000
WORK = 300  # yardsticks
MOST = 100 << 20  # characters of an answer
NUMBERS = {"type": "array", "items": {"type": "integer"}, "maxItems": MANY}
SMALL = {"type": "integer", "x-kubernetes-validations": [{"rule": "self < 2"}]}
SCHEMA = {
    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "numbers": {"type": "object", "additionalProperties": NUMBERS},
    "small": {"type": "object", "additionalProperties": {**NUMBERS, "items": SMALL}},
    "either": {
        "type": "array",
        "items": {"type": "string", "oneOf": [{"pattern": "x" * 2000}, {"pattern": "a"}]},
    },
    "known": {
        "type": "object",
        "additionalProperties": {
            "type": "object",
            "properties": {f"a{n}": {"type": "string"} for n in range(MANY)},
        },
    },
}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """What a thread would do counts, too."""

    async def at_once(work, *given, **named):
        return work(*given, **named)

    monkeypatch.setattr(asyncio, "to_thread", at_once)
    with at_most(WORK):
        yield


@pytest.fixture
async def things(api):
    properties = {"spec": {"type": "object", "properties": SCHEMA}}
    made = definitions.definition("things", "example.com", properties=properties)
    await api.ok("POST", definitions.DEFINITIONS, made)
    return api


def thing(**spec):
    return {
        "apiVersion": "example.com/v1",
        "kind": "Thing",
        "metadata": {"name": "x"},
        "spec": spec,
    }


def applied(**spec):
    """YAML takes a long key for one where it is told."""
    return json.dumps(thing(**spec)).replace(f'"{KEY}"', f'? "{KEY}"').encode()


@pytest.mark.parametrize(
    ("spec", "status"),
    [
        ({"free": {KEY: [1.0] * MANY}}, 201),
        ({"numbers": {KEY: [1] * MANY}}, 201),
        ({"numbers": {KEY: ["x"] * MANY}}, 422),
        ({"small": {KEY: [1] * MANY}}, 201),
        ({"small": {KEY: [2] * MANY}}, 422),
        ({"known": {KEY: {f"b{n}": "" for n in range(MANY)}}}, 400),
    ],
    ids=["free", "right", "wrong", "with a rule", "against a rule", "unknown"],
)
async def test_a_long_key_is_not_written_for_each_of_what_it_holds(things, spec, status):
    target = f"{THINGS}?fieldValidation=Strict"

    answer = await things.call("POST", target, thing(**spec))

    assert status == answer.status
    assert len(json.dumps(answer.body)) < MOST


@pytest.mark.parametrize(
    ("spec", "status"),
    [({"numbers": {KEY: [1] * MANY}}, 201), ({"numbers": {KEY: ["x"] * MANY}}, 400)],
    ids=["right", "wrong"],
)
async def test_an_applied_long_key_is_not_written_either(things, spec, status):
    target = f"{THINGS}/x?fieldManager=me"

    answer = await things.call("PATCH", target, applied(**spec), headers=APPLY)

    assert status == answer.status


async def test_keys_that_occur_twice_below_a_long_one(things):
    twice = ",".join(['"a":""'] * MANY)
    body = json.dumps(thing(known={KEY: {}})).replace("{}", f"{{{twice}}}").encode()

    answer = await things.call("POST", f"{THINGS}?fieldValidation=Strict", body)

    assert 400 == answer.status
    assert len(json.dumps(answer.body)) < MOST


@pytest.mark.parametrize("inner", [{"type": "string"}, {}], ids=["right", "wrong"])
async def test_a_definition_with_a_long_key(api, inner):
    inside = {"type": "object", "properties": {f"a{n}": inner for n in range(2 * MANY)}}
    made = definitions.definition("things", "example.com", properties={3 * KEY: inside})

    answer = await api.call("POST", f"{definitions.DEFINITIONS}?dryRun=All", made)

    assert (201 if inner else 422) == answer.status


async def test_a_definition_of_many_versions(api):
    """Each was compared with each."""
    made = definitions.definition("things", "example.com")
    one = made["spec"]["versions"][0]
    made["spec"]["versions"] += [
        {**one, "name": f"v1beta{n}", "storage": False} for n in range(2, 8000)
    ]

    await api.ok("POST", f"{definitions.DEFINITIONS}?dryRun=All", made)


async def test_conflicts_below_a_long_key_are_told_while_there_is_room(things):
    spec = {"known": {KEY: {f"a{n}": "" for n in range(MANY)}}}
    await things.ok("POST", THINGS, thing(**spec))
    spec = {"known": {KEY: {f"a{n}": "other" for n in range(MANY)}}}

    target = f"{THINGS}/x?fieldManager=me"
    answer = await things.call("PATCH", target, applied(**spec), headers=APPLY)

    assert 409 == answer.status
    assert answer.body["message"].startswith(f"Apply failed with {MANY} conflicts")
    assert len(json.dumps(answer.body)) < MOST


async def test_very_many_problems_are_one(api):
    """Half a gigabyte was answered, and nobody else in the time of writing it."""
    many = configmap("x", finalizers=["?"] * 200_000)

    answer = await api.call("POST", CONFIGMAPS, many)

    text = "Invalid value: too many problems to tell them all"
    assert (422, f'ConfigMap "x" is invalid: {text}') == (answer.status, answer.body["message"])
    assert [{"reason": "FieldValueInvalid", "message": text, "field": ""}] == (
        answer.body["details"]["causes"]
    )


async def test_what_another_branch_of_a_schema_allows_is_no_problem(things):
    await things.ok("POST", THINGS, thing(either=["a"] * MANY))


async def test_what_no_branch_of_a_schema_allows_is_counted(things):
    answer = await things.call("POST", THINGS, thing(either=["b"] * MANY))

    assert 422 == answer.status
    assert "too many problems" in answer.body["message"]
