"""The OpenAPI document says of requests and answers what the server does: no more, no less."""

import json

import httpx
import msgspec
import pytest

from bayplan.global_scheduler import answers
from bayplan.global_scheduler.fields import Problem
from bayplan.global_scheduler.http import Api
from bayplan.global_scheduler.openapi import document
from bayplan.global_scheduler.placer import DEFAULT_POLICY, NoSite, Placer
from bayplan.global_scheduler.plugins import in_tree_registry
from bayplan.global_scheduler.request import read_allocation
from bayplan.global_scheduler.service import Allocations
from bayplan.global_scheduler.why import Why
from bayplan.store import MemoryStore
from tests.global_scheduler.sites import ID, three_sites

WISH = {"key": "app", "operator": "in", "values": ["a"]}
SELECTOR = {
    "geo_location": {"country": "de", "area": "west", "province": "nrw", "city": "bonn"},
    "regions": [{"region": "r", "availability_zone": ["z"]}],
    "operator": "op",
    "node_id": "",
    "strategy": {"location_strategy": "", "region_strategy": ""},
    "residency": {"countries": ["de"], "except_countries": ["fr"]},
    "latency": [{"to": "x", "max_ms": 1}],
    "max_price": 5,
    "spread": dict.fromkeys(
        ("max_per_site", "max_per_zone", "max_per_region", "min_sites", "min_zones", "min_regions"),
        1,
    ),
    "stack_affinity": [WISH],
    "stack_antiaffinity": [WISH],
}
SPOT = {
    "max_price": "1",
    "spot_duration_hours": 2,
    "spot_duration_count": 2,
    "interruption_policy": "delay",
}
RESOURCE = {
    "name": "vm",
    "resource_type": "vm",
    "flavors": [{"flavor_id": "f", "spot": SPOT}],
    "storage": {"SAS": 5},
    "need_eip": False,
    "count": 2,
    "max_per_host": 2,
}
WHOLE = {
    "id": ID,
    "resource_group": {"name": "g", "labels": {"app": "a"}, "resources": [RESOURCE]},
    "selector": SELECTOR,
    "replicas": 2,
    "domain_id": "d",
    "priority": 3,
    "preempt": True,
    "alternatives": [SELECTOR],
    "starts_at": 5,
    "ends_at": 10,
}
"""Everything that the document knows, with values that are allowed and no default."""
GONE = object()


def parts(schema, value, way=()):
    """Every part of a request with its schema; of a list its only entry."""
    yield way, schema
    if schema.get("type") == "object" and "properties" in schema:
        assert schema["properties"].keys() == value.keys(), f"{way}: the document knows others"
        for name, inner in schema["properties"].items():
            yield from parts(inner, value[name], (*way, name))
    elif schema.get("type") == "array":
        yield from parts(schema["items"], value[0], (*way, 0))


def schemas():
    return document()["components"]["schemas"]


def request_parts():
    return list(parts(schemas()["AllocationRequest"]["properties"]["allocation"], WHOLE))


def changed(way, value):
    """The whole request with another value at one place."""
    body = at = json.loads(json.dumps(WHOLE))
    for step in way[:-1]:
        at = at[step]
    if value is GONE:
        del at[way[-1]]
    else:
        at[way[-1]] = value
    return body


def read(body):
    found, problems = read_allocation(
        {"allocation": body}, flavors={"f"}, volume_types={"SAS"}, new_id=ID
    )
    return found, [str(problem) for problem in problems]


def tried(schema):
    """Values at both sides of each bound, and whether they are allowed."""
    for choice in schema.get("anyOf", ()):
        yield from tried(choice)
    if "minimum" in schema:
        yield from ((schema["minimum"], True), (schema["minimum"] - 1, False))
    if "maximum" in schema:
        yield from ((schema["maximum"], True), (schema["maximum"] + 1, False))
    if "minLength" in schema:
        for count, bound in (
            (-1, "minLength"),
            (0, "minLength"),
            (0, "maxLength"),
            (1, "maxLength"),
        ):
            yield "n" * (schema[bound] + count), count == 0
    if "enum" in schema:
        yield from ((choice, True) for choice in schema["enum"])
        yield "something else", False


def test_a_request_is_taken_up_to_the_bounds_of_the_document():
    assert [] == read(WHOLE)[1]
    for way, schema in request_parts():
        for value, allowed in tried(schema):
            if way[-1] == "operator" and allowed:
                continue  # each takes another number of values
            assert allowed == (not read(changed(way, value))[1]), (way, value)
        if "minItems" in schema:
            assert read(changed(way, []))[1], way
            assert schema["minItems"] == 1


def test_a_field_may_be_left_out_unless_it_is_required_and_then_has_its_default():
    """How many values a wish takes hangs on its operator, and is told elsewhere."""
    for way, schema in request_parts():
        for field, inner in schema.get("properties", {}).items():
            if field == "values":
                continue
            left_out, problems = read(changed((*way, field), GONE))

            assert (field in schema.get("required", ())) == bool(problems), (way, field)
            if "default" in inner:
                assert left_out == read(changed((*way, field), inner["default"]))[0], (way, field)
                assert left_out != read(WHOLE)[0], "else it would tell nothing"


@pytest.fixture
async def client():
    service = Allocations(
        MemoryStore(),
        three_sites(),
        Placer(DEFAULT_POLICY, in_tree_registry()),
        clock=lambda: 1000.0,
    )
    await service.start()
    transport = httpx.ASGITransport(Api(service))
    async with httpx.AsyncClient(transport=transport, base_url="http://global") as client:
        resource = {"name": "r", "flavors": [{"flavor_id": "f2"}]}
        client.service = service
        client.ask = {"allocation": {"resource_group": {"name": "g", "resources": [resource]}}}
        made = await client.post("/v1/allocations", json=client.ask)
        client.made = f"/v1/allocations/{made.json()['allocation']['id']}"
        yield client
    await service.stop()


async def test_a_parameter_is_taken_up_to_the_bounds_of_the_document(client):
    seen = set()
    for path, found in document()["paths"].items():
        for method in found.keys() - {"parameters"}:
            for parameter in found[method].get("parameters", ()):
                values = dict(tried(parameter["schema"]))
                if parameter["schema"]["type"] == "boolean":
                    values = {"true": True, "false": True, "perhaps": False}
                for value, allowed in values.items():
                    given = {f"{parameter['in']}": {parameter["name"]: str(value)}}
                    answer = await client.request(
                        method,
                        path.replace("/v1/allocations/{id}", client.made),
                        params=given.get("query"),
                        headers=given.get("header"),
                        json=client.ask if method == "post" else None,
                    )
                    seen.add(parameter["name"])
                    assert allowed == (answer.status_code != 400), (path, given, answer.text)
                if "maxLength" in parameter["schema"]:
                    most = parameter["schema"]["maxLength"]
                    for count, status in ((most, 201), (most + 1, 400)):
                        answer = await client.post(
                            path, json=client.ask, headers={parameter["name"]: "k" * count}
                        )
                        assert status == answer.status_code, answer.text

    assert {"limit", "moves", "ttl_seconds", "dry_run", "explain", "reserve"} == seen


@pytest.mark.parametrize(
    ("method", "path", "kind", "entry"),
    [
        ("POST", "/v1/allocations", "AllocationsRequest", "ask"),
        ("POST", "/v1/rebalance", "Moves", {"allocation": "a", "from": "s-a", "to": "s-b"}),
        ("POST", "{}/move", "Move", "s-a"),
        ("PATCH", "{}", "Resize", None),
    ],
    ids=["several", "rebalance", "move", "resize"],
)
async def test_other_bodies_are_taken_up_to_the_bounds_of_the_document(
    client, method, path, kind, entry
):
    schema = schemas()[kind]
    [(field, inner)] = schema["properties"].items()
    assert [field] == schema["required"]
    values = list(tried(inner))
    if inner["type"] == "array":
        one = client.ask["allocation"] if entry == "ask" else entry
        for name in one if "properties" in inner["items"] else ():
            needed = name in inner["items"].get("required", ())
            values += [([{key: one[key] for key in one if key != name}], not needed)]
        values += [([one] * inner.get("minItems", 0), True)]
        if "minItems" in inner:
            values += [([one] * (inner["minItems"] - 1), False)]
        if "maxItems" in inner:
            values += [([one] * inner["maxItems"], True), ([one] * (inner["maxItems"] + 1), False)]
    for body, allowed in [({}, False), *(({field: value}, ok) for value, ok in values)]:
        answer = await client.request(method, path.format(client.made), json=body)

        assert allowed == (answer.status_code != 400), (str(body)[:99], answer.text)


async def test_a_plan_has_as_many_moves_as_the_document_says(client, monkeypatch):
    service, asked = client.service, []
    whole = service.plan

    async def plan(most):
        asked.append(most)
        return await whole(most)

    monkeypatch.setattr(service, "plan", plan)
    [moves] = document()["paths"]["/v1/rebalance"]["get"]["parameters"]
    await client.get("/v1/rebalance")

    assert [moves["schema"]["default"]] == asked


PLACING = {"createAllocation", "resizeAllocation", "moveAllocation"}


def test_every_refusal_of_an_operation_is_in_the_document():
    """What has a body may be refused for it, what changes something needs the store, and so on."""
    for path, found in document()["paths"].items():
        for method in found.keys() - {"parameters"}:
            operation = found[method]
            has_body, has_query = "requestBody" in operation, "parameters" in operation
            names_one = "{id}" in path or operation["operationId"] == "whatIf"
            changes = method != "get" and operation["operationId"] != "whatIf"
            wanted = {401}
            wanted |= {400} if has_body or has_query else set()
            wanted |= {413, 415} if has_body else set()
            wanted |= {404} if names_one else set()
            wanted |= {409} if operation["operationId"] in PLACING else set()
            wanted |= {503} if changes else set()

            told = {int(code) for code in operation["responses"]}
            assert wanted == {code for code in told if code >= 400}, operation["operationId"]
            for code, answer in operation["responses"].items():
                kind = answer.get("content", {"application/json": {"schema": {}}})
                is_error = kind["application/json"]["schema"].get("$ref", "").endswith("/Error")
                assert is_error == (int(code) >= 400), (operation["operationId"], code)


def test_the_document_knows_every_field_of_an_explanation_and_of_an_error():
    known = schemas()["Error"]["properties"]
    fields = msgspec.structs.fields(Why)
    assert [field.name for field in fields] == list(known["explain"]["properties"])
    assert [field.name for field in fields if field.required] == known["explain"]["required"]

    bodies = [
        answers.error_body("code", "message"),
        answers.bad_body([Problem("a.b", "is missing")]),
        answers.no_site_body(NoSite(1, {"full": 1}, {"s": "full"})),
        answers.why_body(Why(1, (), 1, 0)),
    ]
    assert set(known) == {name for body in bodies for name in body}
    assert list(bodies[0]) == schemas()["Error"]["required"]
    [told] = bodies[1]["details"]
    assert told.keys() == known["details"]["items"]["properties"].keys()


def test_nothing_in_the_document_is_empty():
    def walk(value, way):
        assert value is not None, way
        if isinstance(value, dict):
            for name, inner in value.items():
                if name in ("schema", "items", "additionalProperties"):
                    assert inner.keys() & {"type", "$ref", "anyOf", "enum"}, (*way, name)
                walk(inner, (*way, name))
        for number, inner in enumerate(value if isinstance(value, list | tuple) else ()):
            walk(inner, (*way, number))

    walk(document(), ())
    assert {"object"} == {schema["type"] for schema in schemas().values()}
