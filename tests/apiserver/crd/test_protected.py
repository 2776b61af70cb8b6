"""What a definition may not take, and what must go before it."""

import pytest

from tests.apiserver.test_bombs import DEFINITIONS, THINGS, definition, thing

APPROVED = {"api-approved.kubernetes.io": "https://example.com/pull/1"}


@pytest.mark.parametrize(
    ("annotations", "status", "words"),
    [
        ({}, 422, "protected groups must have approval annotation"),
        ({"api-approved.kubernetes.io": "yes"}, 422, "with either a URL or a reason starting with"),
        ({"api-approved.kubernetes.io": "unapproved, a test"}, 201, ""),
        (APPROVED, 201, ""),
    ],
)
async def test_groups_of_kubernetes_need_approval(api, annotations, status, words):
    made = definition({}, group="new.k8s.io", annotations=annotations)

    answer = await api.call("POST", DEFINITIONS, made)

    assert status == answer.status, answer.body
    assert words in answer.body.get("message", "")


async def test_a_definition_does_not_replace_what_is_built_in(api):
    rules = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"
    await api.ok("POST", rules, {"metadata": {"name": "mine"}, "rules": []})
    made = definition({}, "roles", "rbac.authorization.k8s.io", annotations=APPROVED)

    found = await api.ok("POST", DEFINITIONS, made)
    conditions = {c["type"]: c["status"] for c in found["status"]["conditions"]}
    await api.ok("DELETE", f"{DEFINITIONS}/roles.rbac.authorization.k8s.io")

    assert "False" == conditions["NamesAccepted"]
    assert "mine" == (await api.ok("GET", f"{rules}/mine"))["metadata"]["name"]


async def test_a_definition_waits_for_its_objects(api):
    path = f"{DEFINITIONS}/things.example.com"
    await api.ok("POST", DEFINITIONS, definition({}))
    held = thing() | {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
    await api.ok("POST", THINGS, held)
    await api.ok("POST", THINGS, thing())

    gone = await api.ok("DELETE", path)
    left = await api.ok("GET", THINGS)
    refused = await api.call("POST", THINGS, thing())

    assert ["customresourcecleanup.apiextensions.k8s.io"] == gone["metadata"]["finalizers"]
    assert ["held"] == [item["metadata"]["name"] for item in left["items"]]
    assert left["items"][0]["metadata"]["deletionTimestamp"]
    why = "create not allowed while custom resource definition is terminating"
    assert f'things.example.com "x" is forbidden: {why}' == refused.body["message"]
    assert (403, 200) == (refused.status, (await api.call("GET", path)).status)

    await api.ok("PATCH", f"{THINGS}/held", {"metadata": {"finalizers": None}})

    assert 404 == (await api.call("GET", path)).status
    assert 404 == (await api.call("GET", THINGS)).status


async def test_a_definition_without_objects_goes_at_once(api):
    await api.ok("POST", DEFINITIONS, definition({}))
    await api.ok("DELETE", f"{DEFINITIONS}/things.example.com")

    assert 404 == (await api.call("GET", f"{DEFINITIONS}/things.example.com")).status


async def test_a_deprecated_version_warns_and_tells_its_storage(api):
    made = definition({})
    made["spec"]["versions"][0] |= {"deprecated": True}
    await api.ok("POST", DEFINITIONS, made)

    answer = await api.call("GET", THINGS)
    core = await api.ok("GET", "/api/v1")

    kind, version = made["spec"]["names"]["kind"], made["spec"]["versions"][0]["name"]
    assert f"example.com/{version} {kind} is deprecated" in answer.headers["warning"]
    hashes = {item["name"]: item.get("storageVersionHash") for item in core["resources"]}
    assert ("xPOwRZ+Yhw8=", None) == (hashes["pods"], hashes["pods/status"])
