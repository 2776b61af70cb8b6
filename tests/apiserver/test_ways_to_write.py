"""One object by POST, PUT and apply; what every write asks, whichever way it comes."""

import pytest

from bayplan.apiserver.verbs import options
from tests.apiserver.api import CONFIGMAPS, PODS, configmap, pod
from tests.apiserver.test_autoscaler_form import V1, old
from tests.definitions import DEFINITIONS, definition

SPACE = "/api/v1/namespaces/default"
OWN = ("uid", "creationTimestamp", "resourceVersion", "managedFields", "name")
PORTS = {"ports": [{"port": 80}]}
READY = PORTS | {"addresses": [{"ip": "10.1.2.3"}]}
APPLY = {"content-type": "application/apply-patch+yaml"}
STRATEGIC = {"content-type": "application/strategic-merge-patch+json"}


def same(obj):
    """What does not tell one object from another of its kind."""
    meta = {name: value for name, value in obj["metadata"].items() if name not in OWN}
    spec = {name: value for name, value in obj.get("spec", {}).items() if "IP" not in name[:10]}
    return {**obj, "metadata": meta, "spec": spec}


@pytest.mark.parametrize(
    ("place", "version", "kind", "body", "ways"),
    [
        (PODS, "v1", "Pod", {"spec": pod("x")["spec"]}, ("POST", "PATCH")),
        (f"{SPACE}/services", "v1", "Service", {"spec": PORTS}, ("POST", "PUT", "PATCH")),
        (f"{SPACE}/endpoints", "v1", "Endpoints", {"subsets": [READY]}, ("POST", "PUT", "PATCH")),
    ],
    ids=["pod", "service", "endpoints"],
)
async def test_an_object_is_the_same_however_it_was_created(api, place, version, kind, body, ways):
    made = []
    for way in ways:
        name = f"x-{way.lower()}"
        full = {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **body}
        target = place if way == "POST" else f"{place}/{name}"
        more = {"headers": APPLY} if way == "PATCH" else {}
        target += "?fieldManager=me" if way == "PATCH" else ""
        made.append(same(await api.ok(way, target, full, **more)))

    assert all(each == made[0] for each in made)
    assert made[0] != same({"metadata": {}, **body}), "there are defaults"


async def test_addresses_and_ports_are_handed_out_when_they_are_asked_for(api):
    body = {"metadata": {"name": "s"}, "spec": PORTS}
    made = await api.ok("POST", f"{SPACE}/services", body)
    assert "nodePort" not in made["spec"]["ports"][0]
    assert made["spec"]["clusterIP"] == made["spec"]["clusterIPs"][0] != "None"

    changed = await api.ok("PATCH", f"{SPACE}/services/s", {"spec": {"type": "NodePort"}})

    assert 30000 <= changed["spec"]["ports"][0]["nodePort"] < 32768


async def test_admission_is_asked_before_anything_is_deleted(api):
    """It keeps the namespaces that there must be."""
    answer = await api.call("DELETE", SPACE)

    assert (403, "Forbidden") == (answer.status, answer.body["reason"])
    assert "Active" == (await api.ok("GET", SPACE))["status"]["phase"]


@pytest.mark.parametrize(
    ("version", "text"),
    [
        ("", "Invalid value: 0: must be specified for an update"),
        ("0", "Invalid value: 0: must be specified for an update"),
        ("x", "Invalid value: x: must be an integer"),
    ],
)
async def test_a_version_that_says_nothing_is_named(api, version, text):
    await api.ok("POST", DEFINITIONS, definition("boats"))
    body = {"apiVersion": "example.com/v1", "kind": "Boat", "metadata": {"name": "b"}}
    place = "/apis/example.com/v1/namespaces/default/boats"
    await api.ok("POST", place, body)
    body["metadata"]["resourceVersion"] = version

    answer = await api.call("PUT", f"{place}/b", body)

    (cause,) = answer.body["details"]["causes"]
    assert (422, "metadata.resourceVersion", text) == (
        answer.status,
        cause["field"],
        cause["message"],
    )


@pytest.mark.parametrize(
    ("ops", "status", "reason", "hidden"),
    [
        ([{"op": "remove", "path": "/none"}], 422, "Invalid", True),
        ([{"op": "test", "path": "/data/a", "value": "2"}], 422, "Invalid", True),
        ([{"op": "jump", "path": "/data/a"}], 422, "Invalid", True),
        ([{"op": "test", "path": "/data"}] * 10_001, 413, "RequestEntityTooLarge", False),
        ({"op": "remove"}, 400, "BadRequest", False),
    ],
)
async def test_why_a_patch_cannot_be_applied(api, ops, status, reason, hidden):
    await api.ok("POST", CONFIGMAPS, configmap("c"))
    headers = {"content-type": "application/json-patch+json"}

    answer = await api.call("PATCH", f"{CONFIGMAPS}/c", ops, headers)

    assert (status, reason) == (answer.status, answer.body["reason"])
    assert hidden == answer.body["message"].startswith("the server rejected our request due to")


async def test_an_older_form_takes_every_kind_of_patch(api):
    await api.ok("POST", V1, old())
    applied = old(maxReplicas=7) | {"metadata": {"name": "h"}}

    for headers, body, query in (
        (STRATEGIC, {"spec": {"maxReplicas": 6}}, ""),
        (APPLY, applied, "?fieldManager=me&force=true"),
    ):
        shown = await api.ok("PATCH", f"{V1}/h{query}", body, headers=headers)
        assert "autoscaling/v1" == shown["apiVersion"]
        assert body["spec"]["maxReplicas"] == shown["spec"]["maxReplicas"]


@pytest.mark.parametrize(("ahead", "kinds"), [(0, ["ADDED"]), (9, ["ERROR"])])
async def test_a_watch_with_all_there_is_waits_for_its_version(api, monkeypatch, ahead, kinds):
    monkeypatch.setattr(options, "FUTURE_WAIT_SECONDS", 0.01)
    await api.ok("POST", CONFIGMAPS, configmap("c"))
    asked = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    version = api.server.store.revision + ahead
    selected = "fieldSelector=metadata.name%3Dc"

    stream = await api.watch(f"{CONFIGMAPS}?{asked}&{selected}&resourceVersion={version}")

    events = await stream.until(1)
    await stream.leave()
    assert kinds == [event["type"] for event in events]
    assert not ahead or 504 == events[0]["object"]["code"]


@pytest.mark.parametrize("more", [{}, {"generateName": "c-"}], ids=["named", "and made"])
async def test_a_name_that_is_taken_is_not_given_twice(api, more):
    await api.ok("POST", CONFIGMAPS, configmap("c"))

    answer = await api.call("POST", CONFIGMAPS, configmap("c", **more))

    assert (409, "AlreadyExists") == (answer.status, answer.body["reason"])
    assert bool(more) == ("not able to generate a unique name" in answer.body["message"])


@pytest.mark.parametrize(
    ("place", "body", "details"),
    [
        (CONFIGMAPS, {}, {"kind": "configmaps"}),
        (V1, old(), {"group": "autoscaling", "kind": "horizontalpodautoscalers"}),
    ],
    ids=["core", "of a group"],
)
async def test_what_is_gone_is_named(api, place, body, details):
    made = await api.ok("POST", place, body | {"metadata": {"name": "x"}})

    gone = await api.ok("DELETE", f"{place}/x")

    assert details | {"name": "x", "uid": made["metadata"]["uid"]} == gone["details"]
