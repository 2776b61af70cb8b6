"""autoscaling/v1 shows and takes what is stored as autoscaling/v2, and loses nothing."""

import json

import pytest

from bayplan.apiserver.autoscaler_form import CONDITIONS, METRICS, to_v1, to_v2

V1 = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers"
V2 = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}


def old(name="h", **spec):
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name},
        "spec": {"scaleTargetRef": TARGET, "maxReplicas": 5, **spec},
    }


def percent(obj):
    return obj["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"]


async def test_both_forms_show_one_object(api):
    made = await api.ok("POST", V1, old(targetCPUUtilizationPercentage=50))
    assert ("autoscaling/v1", 50) == (
        made["apiVersion"],
        made["spec"]["targetCPUUtilizationPercentage"],
    )
    assert 50 == percent(await api.ok("GET", f"{V2}/h"))

    patch = {"spec": {"targetCPUUtilizationPercentage": 60, "minReplicas": 2}}
    await api.ok("PATCH", f"{V1}/h", patch)
    found = await api.ok("GET", f"{V2}/h")
    assert (60, 2) == (percent(found), found["spec"]["minReplicas"])

    found = await api.ok("GET", V1)
    assert "autoscaling/v1" == found["apiVersion"]
    assert [60] == [i["spec"]["targetCPUUtilizationPercentage"] for i in found["items"]]
    await api.ok("DELETE", f"{V1}/h")
    assert 404 == (await api.call("GET", f"{V2}/h")).status


async def test_what_the_older_form_does_not_know_survives_it(api):
    memory = {"type": "Resource", "resource": {"name": "memory"}}
    memory["resource"]["target"] = {"type": "AverageValue", "averageValue": "1Gi"}
    new = {**old(), "apiVersion": "autoscaling/v2"}
    new["spec"] = {**new["spec"], "metrics": [memory], "behavior": {"scaleDown": {}}}
    made = await api.ok("POST", V2, new)

    shown = await api.ok("GET", f"{V1}/h")
    kept = json.loads(shown["metadata"]["annotations"][METRICS])
    assert [{"name": "memory", "targetAverageValue": "1Gi"}] == [m["resource"] for m in kept]
    shown["spec"]["maxReplicas"] = 9
    await api.ok("PUT", f"{V1}/h", shown)

    again = await api.ok("GET", f"{V2}/h")
    assert {**made["spec"], "maxReplicas": 9} == again["spec"]
    assert "annotations" not in again["metadata"]


async def test_the_rules_of_the_newer_form_hold(api):
    answer = await api.call("POST", V1, old(maxReplicas=0))

    assert 422 == answer.status
    assert "spec.maxReplicas" in [cause["field"] for cause in answer.body["details"]["causes"]]


@pytest.mark.parametrize(
    "metric",
    [
        {"type": "Pods", "pods": {"metric": {"name": "q"}, "target": {"averageValue": "3"}}},
        {
            "type": "External",
            "external": {
                "metric": {"name": "q", "selector": {"matchLabels": {"a": "b"}}},
                "target": {"value": "3"},
            },
        },
        {
            "type": "Object",
            "object": {
                "describedObject": {"kind": "Service", "name": "s"},
                "metric": {"name": "q"},
                "target": {"value": "3"},
            },
        },
    ],
    ids=["pods", "external", "object"],
)
def test_metrics_come_back_as_they_were(metric):
    source = metric["type"].lower()
    target = metric[source]["target"]
    target["type"] = "AverageValue" if "averageValue" in target else "Value"
    condition = {"type": "AbleToScale", "status": "True"}
    status = {"currentReplicas": 1, "conditions": [condition]}
    new = {**old(), "apiVersion": "autoscaling/v2", "status": status}
    new["spec"]["metrics"] = [metric]

    shown = to_v1(new)
    assert CONDITIONS in shown["metadata"]["annotations"]
    assert new == to_v2(shown)


async def test_what_cannot_be_read_as_the_older_form_is_refused_as_that(api):
    made = old()
    made["metadata"]["annotations"] = {METRICS: "[1]"}
    answer = await api.call("POST", V1, made)

    assert (400, "BadRequest") == (answer.status, answer.body["reason"])
    assert (
        'HorizontalPodAutoscaler in version "v1" cannot be handled as a HorizontalPodAutoscaler: '
        "a field has another type"
    ) == answer.body["message"]
