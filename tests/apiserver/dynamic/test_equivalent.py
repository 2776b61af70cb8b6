"""A webhook or policy that names one version is asked about writes in all, in its own version."""

import pytest

from tests.apiserver.crd.converted import GROUP, convert, definition, gate, path
from tests.apiserver.dynamic.hooks import HOOKS, Hooks, allow, patching
from tests.apiserver.dynamic.test_webhooks import MUTATING, VALIDATING, configure
from tests.definitions import DEFINITIONS

SCALERS = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers"


def about(version, group=GROUP, resource="gates"):
    rule = {"operations": ["*"], "apiGroups": [group], "apiVersions": [version]}
    return [{**rule, "resources": [resource]}]


@pytest.fixture
async def hooks(tmp_path):
    async with Hooks(tmp_path) as started:
        started.handlers |= {"/convert": convert, "/v": allow}
        yield started


@pytest.fixture
async def gates(api, hooks):
    await api.ok("POST", DEFINITIONS, definition(hooks))
    return api


def admissions(hooks):
    return [asked for asked in hooks.asked if "operation" in asked]


async def test_a_validating_webhook_is_shown_its_version(gates, hooks):
    await configure(gates, hooks, VALIDATING, {"path": "/v", "rules": about("v2")})

    await gates.ok("POST", path("v1"), gate("v1", "a", hostPort="h:80"))
    await gates.ok("PATCH", path("v1", "a"), {"spec": {"hostPort": "h:81"}})
    await gates.ok("DELETE", path("v1", "a"))

    created, changed, deleted = admissions(hooks)
    assert {"group": GROUP, "version": "v2", "kind": "Gate"} == created["kind"]
    assert {"group": GROUP, "version": "v2", "resource": "gates"} == created["resource"]
    assert "v1" == created["requestKind"]["version"] == created["requestResource"]["version"]
    assert (f"{GROUP}/v2", "80") == (
        created["object"]["apiVersion"],
        created["object"]["spec"]["port"],
    )
    assert ("80", "81") == (
        changed["oldObject"]["spec"]["port"],
        changed["object"]["spec"]["port"],
    )
    assert (None, "81") == (deleted["object"], deleted["oldObject"]["spec"]["port"])


async def test_what_a_mutating_webhook_makes_comes_back_in_the_version_of_the_write(gates, hooks):
    hooks.handlers["/m"] = patching({"op": "replace", "path": "/spec/port", "value": "443"})
    await configure(gates, hooks, MUTATING, {"path": "/m", "rules": about("v2")})

    made = await gates.ok("POST", path("v1"), gate("v1", "a", hostPort="h:80"))

    assert (f"{GROUP}/v1", "h:443") == (made["apiVersion"], made["spec"]["hostPort"])
    assert "443" == (await gates.ok("GET", path("v2", "a")))["spec"]["port"]


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"rules": about("v2"), "matchPolicy": "Exact"}, id="exact"),
        pytest.param({"rules": about("v9")}, id="a version that is not served"),
    ],
)
async def test_other_versions_are_not_meant(gates, hooks, more):
    await configure(gates, hooks, VALIDATING, {"path": "/v", **more})

    await gates.ok("POST", path("v1"), gate("v1", "a", hostPort="h:80"))

    assert [] == admissions(hooks)


async def test_the_version_of_the_write_goes_first(gates, hooks):
    rules = [*about("v2"), *about("v1")]
    await configure(gates, hooks, VALIDATING, {"path": "/v", "rules": rules})

    await gates.ok("POST", path("v1"), gate("v1", "a", hostPort="h:80"))

    assert ["v1"] == [asked["kind"]["version"] for asked in admissions(hooks)]
    assert [] == [asked for asked in hooks.asked if "objects" in asked]


async def test_conditions_see_what_the_webhook_would(gates, hooks):
    condition = {"name": "c", "expression": "object.spec.port == '80'"}
    more = {"rules": about("v2"), "matchConditions": [condition]}
    await configure(gates, hooks, VALIDATING, {"path": "/v", **more})

    await gates.ok("POST", path("v1"), gate("v1", "a", hostPort="h:80"))
    await gates.ok("POST", path("v1"), gate("v1", "b", hostPort="h:81"))

    assert ["a"] == [asked["name"] for asked in admissions(hooks)]


async def test_built_in_kinds_are_shown_in_the_version_that_is_named(api, hooks):
    rules = about("v2", "autoscaling", "horizontalpodautoscalers")
    hooks.handlers["/m"] = patching({"op": "replace", "path": "/spec/maxReplicas", "value": 7})
    await configure(api, hooks, MUTATING, {"path": "/m", "rules": rules})
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    spec = {"scaleTargetRef": target, "maxReplicas": 3, "targetCPUUtilizationPercentage": 50}

    made = await api.ok("POST", SCALERS, {"metadata": {"name": "a"}, "spec": spec})

    (asked,) = hooks.asked
    assert "autoscaling/v2" == asked["object"]["apiVersion"]
    assert "cpu" == asked["object"]["spec"]["metrics"][0]["resource"]["name"]
    assert (7, 50) == (
        made["spec"]["maxReplicas"],
        made["spec"]["targetCPUUtilizationPercentage"],
    )


async def test_a_policy_sees_its_version(gates):
    policy = {
        "metadata": {"name": "p"},
        "spec": {
            "matchConstraints": {"resourceRules": about("v2")},
            "validations": [{"expression": "object.spec.port != '80'"}],
        },
    }
    binding = {
        "metadata": {"name": "b"},
        "spec": {"policyName": "p", "validationActions": ["Deny"]},
    }
    await gates.ok("POST", f"{HOOKS}/validatingadmissionpolicies", policy)
    await gates.ok("POST", f"{HOOKS}/validatingadmissionpolicybindings", binding)

    refused = await gates.call("POST", path("v1"), gate("v1", "a", hostPort="h:80"))
    await gates.ok("POST", path("v1"), gate("v1", "b", hostPort="h:81"))

    assert 422 == refused.status
    assert "failed expression: object.spec.port != '80'" in refused.body["message"]


async def test_a_mutating_policy_changes_its_version(gates):
    text = "[JSONPatch{op: 'replace', path: '/spec/port', value: '443'}]"
    policy = {
        "metadata": {"name": "p"},
        "spec": {
            "matchConstraints": {"resourceRules": about("v2")},
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": text}}],
            "reinvocationPolicy": "Never",
        },
    }
    await gates.ok("POST", f"{HOOKS}/mutatingadmissionpolicies", policy)
    body = {"metadata": {"name": "b"}, "spec": {"policyName": "p"}}
    await gates.ok("POST", f"{HOOKS}/mutatingadmissionpolicybindings", body)

    made = await gates.ok("POST", path("v1"), gate("v1", "a", hostPort="h:80"))

    assert "h:443" == made["spec"]["hostPort"]
