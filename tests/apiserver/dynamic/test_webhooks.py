"""Webhooks: who is asked, what answers do, and what happens when nobody answers."""

import pytest

from bayplan.apiserver.calling import Caller, CallError
from tests.apiserver.api import CONFIGMAPS, Api, configmap
from tests.apiserver.dynamic.hooks import HOOKS, Hooks, allow, patching

MUTATING, VALIDATING = "mutatingwebhookconfigurations", "validatingwebhookconfigurations"
KINDS = {
    MUTATING: "MutatingWebhookConfiguration",
    VALIDATING: "ValidatingWebhookConfiguration",
}


@pytest.fixture
async def hooks(tmp_path):
    async with Hooks(tmp_path) as started:
        yield started


async def configure(api: Api, hooks: Hooks, resource: str, *given, name="test"):
    body = hooks.config(KINDS[resource], *given, name=name)
    await api.ok("POST", f"{HOOKS}/{resource}", body)


async def test_a_validating_webhook_refuses_and_is_told_who_asked(api, hooks):
    hooks.handlers["/no"] = lambda request: {
        "allowed": False,
        "status": {"message": "not on a Tuesday", "code": 403, "reason": "Forbidden"},
        "warnings": ["think again"],
    }
    await configure(api, hooks, VALIDATING, {"path": "/no"})

    answer = await api.call("POST", CONFIGMAPS, configmap("a"))

    assert 403 == answer.status
    assert (
        'admission webhook "no.example.com" denied the request: not on a Tuesday'
        == (answer.body["message"])
    )
    (asked,) = hooks.asked
    assert ("CREATE", "default", "a") == (asked["operation"], asked["namespace"], asked["name"])
    assert {"group": "", "version": "v1", "kind": "ConfigMap"} == asked["kind"]
    assert ("ConfigMap", "v1") == (asked["object"]["kind"], asked["object"]["apiVersion"])
    assert asked["oldObject"] is None
    assert "system:masters" in asked["userInfo"]["groups"]


async def test_mutating_webhooks_see_what_those_before_them_made(api, hooks):
    hooks.handlers["/one"] = patching({"op": "add", "path": "/data/one", "value": "1"})
    hooks.handlers["/two"] = patching({"op": "add", "path": "/data/two", "value": "2"})
    await configure(api, hooks, MUTATING, {"path": "/one"}, {"path": "/two"})

    made = await api.ok("POST", CONFIGMAPS, configmap("a"))

    assert {"a": "1", "one": "1", "two": "2"} == made["data"]
    assert [None, "1"] == [asked["object"]["data"].get("one") for asked in hooks.asked]


async def test_a_webhook_is_asked_again_if_a_later_one_changed_something(api, hooks):
    hooks.handlers["/first"] = allow
    hooks.handlers["/later"] = patching({"op": "add", "path": "/data/x", "value": "y"})
    first = {"path": "/first", "reinvocationPolicy": "IfNeeded"}
    await configure(api, hooks, MUTATING, first, {"path": "/later"})

    await api.ok("POST", CONFIGMAPS, configmap("a"))

    assert [None, None, "y"] == [asked["object"]["data"].get("x") for asked in hooks.asked]


async def test_updates_and_deletions_are_asked_about_with_the_old_object(api, hooks):
    await api.ok("POST", CONFIGMAPS, configmap("a"))
    hooks.handlers["/v"] = allow
    await configure(api, hooks, VALIDATING, {"path": "/v"})

    await api.ok("PATCH", f"{CONFIGMAPS}/a", {"data": {"a": "2"}})
    await api.ok("DELETE", f"{CONFIGMAPS}/a")

    assert ["UPDATE", "DELETE"] == [asked["operation"] for asked in hooks.asked]
    assert ["1", "2"] == [asked["oldObject"]["data"]["a"] for asked in hooks.asked]
    assert ["2", None] == [
        (asked["object"] or {}).get("data", {}).get("a") for asked in hooks.asked
    ]


@pytest.mark.parametrize(
    ("more", "labels", "asked"),
    [
        ({"objectSelector": {"matchLabels": {"a": "b"}}}, {}, 0),
        ({"objectSelector": {"matchLabels": {"a": "b"}}}, {"a": "b"}, 1),
        ({"namespaceSelector": {"matchLabels": {"none": "such"}}}, {}, 0),
        ({"matchConditions": [{"name": "c", "expression": "object.data.a == '2'"}]}, {}, 0),
        ({"matchConditions": [{"name": "c", "expression": "request.name == 'a'"}]}, {}, 1),
    ],
)  # fmt: skip
async def test_selectors_and_conditions_say_what_is_meant(api, hooks, more, labels, asked):
    hooks.handlers["/v"] = allow
    await configure(api, hooks, VALIDATING, {"path": "/v", **more})

    await api.ok("POST", CONFIGMAPS, configmap("a", labels=labels))

    assert asked == len(hooks.asked)


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
async def test_what_cannot_be_asked_fails_by_policy(api, hooks, policy):
    hooks.handlers["/v"] = lambda request: {"raw": {"status": 500, "text": "broken"}}
    await configure(api, hooks, VALIDATING, {"path": "/v", "failurePolicy": policy})

    answer = await api.call("POST", CONFIGMAPS, configmap("a"))

    assert (201 if policy == "Ignore" else 500) == answer.status
    if policy == "Fail":
        assert (
            'Internal error occurred: failed calling webhook "v.example.com": failed to call '
            'webhook: an error on the server ("broken") has prevented the request from succeeding'
        ) == answer.body["message"]


async def test_a_condition_that_fails_refuses_by_policy(api, hooks):
    broken = {"matchConditions": [{"name": "c", "expression": "object.nothing.here == 1"}]}
    await configure(api, hooks, VALIDATING, {"path": "/v", **broken})

    answer = await api.call("POST", CONFIGMAPS, configmap("a"))

    assert 403 == answer.status
    assert "no such key: nothing" in answer.body["message"]


async def test_a_dry_run_asks_only_webhooks_without_side_effects(api, hooks):
    hooks.handlers["/v"] = allow
    given = {"path": "/v", "sideEffects": "None"}
    await configure(api, hooks, VALIDATING, given)

    await api.ok("POST", f"{CONFIGMAPS}?dryRun=All", configmap("a"))

    assert [True] == [asked["dryRun"] for asked in hooks.asked]


SERVICES = "/api/v1/namespaces/default/services"


async def test_a_webhook_behind_a_service_is_reached_by_its_external_name(api, hooks):
    """The certificate is checked for the name of the service, not for where it is."""
    hooks.handlers["/v"] = lambda request: {"allowed": False, "status": {"message": "reached"}}
    spec = {"type": "ExternalName", "externalName": "localhost"}
    await api.ok("POST", SERVICES, {"metadata": {"name": "hook"}, "spec": spec})
    service = {"namespace": "default", "name": "hook", "path": "/v", "port": hooks.port}
    config = {"service": service, "caBundle": hooks.authority}
    await configure(api, hooks, VALIDATING, {"path": "/v", "clientConfig": config})

    answer = await api.call("POST", CONFIGMAPS, configmap("a"))

    assert 'admission webhook "v.example.com" denied the request: reached' == answer.body["message"]


async def test_the_certificate_itself_is_as_good_as_its_authority(api, hooks):
    """controller-runtime's envtest gives no more than that, and a path with two slashes."""
    hooks.handlers["/v"] = lambda request: {"allowed": False, "status": {"message": "reached"}}
    leaf = hooks.certificate  # without the authority that signed it
    config = {"url": f"{hooks.url}//v", "caBundle": leaf}
    await configure(api, hooks, VALIDATING, {"path": "/v", "clientConfig": config})

    answer = await api.call("POST", CONFIGMAPS, configmap("a"))

    assert 'admission webhook "v.example.com" denied the request: reached' == answer.body["message"]


async def test_a_service_leads_to_its_endpoints(api):
    ports = [{"name": "web", "port": 443, "targetPort": 9443}]
    await api.ok("POST", SERVICES, {"metadata": {"name": "hook"}, "spec": {"ports": ports}})
    caller = Caller(api.server.backend.reader)
    config = {"service": {"namespace": "default", "name": "hook", "path": "/x"}}

    with pytest.raises(CallError, match='no endpoints available for service "hook"'):
        caller.address(config)
    await api.ok(
        "POST",
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
        {
            "metadata": {"name": "hook-1", "labels": {"kubernetes.io/service-name": "hook"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.1.2.3"]}],
            "ports": [{"name": "web", "port": 9443}],
        },
    )

    assert ("https://10.1.2.3:9443/x", "hook.default.svc") == caller.address(config)


async def test_configurations_themselves_are_never_asked_about(api, hooks):
    everything = [
        {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
    ]
    hooks.handlers["/no"] = lambda request: {"allowed": False}
    await configure(api, hooks, VALIDATING, {"path": "/no", "rules": everything})

    await api.ok("DELETE", f"{HOOKS}/{VALIDATING}/test")

    assert 201 == (await api.call("POST", CONFIGMAPS, configmap("a"))).status


async def test_a_patch_that_makes_an_invalid_object_is_refused(api, hooks):
    hooks.handlers["/m"] = patching(
        {"op": "replace", "path": "/metadata/labels", "value": {"a b": "c"}}
    )
    await configure(api, hooks, MUTATING, {"path": "/m"})

    answer = await api.call("POST", CONFIGMAPS, configmap("a", labels={"x": "y"}))

    assert 422 == answer.status
