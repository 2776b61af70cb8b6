"""HorizontalPodAutoscalers on simulated usage."""

from __future__ import annotations

import msgspec
import pytest

from bayplan.client.resources import DEPLOYMENTS
from bayplan.controllers.autoscaler import AUTOSCALERS
from bayplan.controllers.autoscaling import replicas_for, within_policy
from tests.controllers.cluster import Cluster, Json, cluster, virtual, workload


def scaler(utilization: int, most: int, **more: object) -> Json:
    target = {"type": "Utilization", "averageUtilization": utilization}
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": target}}
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"scaleTargetRef": reference, "minReplicas": 1, "maxReplicas": most, "metrics": [metric]}
    return {"metadata": {"name": "web"}, "spec": {**spec, **more}}


async def deploy(made: Cluster, usage: str, replicas: int = 1) -> None:
    body = workload("web", replicas)
    body["spec"]["template"]["metadata"]["annotations"] = {"bayplan.dev/cpu": usage}
    body["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100m"}}
    await made.create(DEPLOYMENTS, body)
    await made.settle(10)


async def replicas(made: Cluster) -> int:
    return int((await made.get(DEPLOYMENTS, "web"))["spec"]["replicas"])


@virtual
async def test_pods_come_when_they_are_busy_and_go_when_they_are_not() -> None:
    async with cluster(nodes=3) as made:
        await deploy(made, "200m@0 20m@300 20m@100000")
        await made.create(AUTOSCALERS, scaler(50, 8))
        await made.settle(10)
        assert 4 == await replicas(made)  # 200 % of a request where 50 % are wanted
        await made.settle(40)
        assert 8 == await replicas(made)
        status = (await made.get(AUTOSCALERS, "web"))["status"]
        found = {c["type"]: (c["status"], c["reason"]) for c in status["conditions"]}
        assert ("True", "ValidMetricFound") == found["ScalingActive"]
        assert ("True", "TooManyReplicas") == found["ScalingLimited"]
        assert 200 == status["currentMetrics"][0]["resource"]["current"]["averageUtilization"]

        await made.settle(260)
        assert 8 == await replicas(made)  # for five minutes nobody believes it
        await made.settle(700)
        assert await replicas(made) <= 4


@virtual
async def test_what_is_missing_is_told_of() -> None:
    async with cluster() as made:
        await made.create(AUTOSCALERS, scaler(50, 8))
        await made.settle(20)
        status = (await made.get(AUTOSCALERS, "web"))["status"]
        assert ["FailedGetScale"] == [c["reason"] for c in status["conditions"]]
        await made.create(DEPLOYMENTS, workload("web", 1))
        await made.settle(40)

        status = (await made.get(AUTOSCALERS, "web"))["status"]
        found = {c["type"]: c for c in status["conditions"]}
        assert "FailedGetResourceMetric" == found["ScalingActive"]["reason"]
        assert "missing request for cpu" in found["ScalingActive"]["message"]


@virtual
async def test_metrics_tell_what_pods_and_nodes_use() -> None:
    async with cluster() as made:
        await deploy(made, "250m", 2)
        root = "/apis/metrics.k8s.io/v1beta1"
        pods = msgspec.json.decode(await made.client.request("GET", f"{root}/pods"))
        nodes = msgspec.json.decode(await made.client.request("GET", f"{root}/nodes"))
        none = await made.client.request("GET", f"{root}/pods?labelSelector=app%3Dother")

        usage = {
            item["metadata"]["namespace"]: item["containers"][0]["usage"] for item in pods["items"]
        }
        assert {"default": {"cpu": "250000000n", "memory": "4096Ki"}} == usage
        assert ["250000000n"] * 2 == [item["usage"]["cpu"] for item in nodes["items"]]
        assert [] == msgspec.json.decode(none)["items"]


@pytest.mark.parametrize(
    ("used", "unready", "expected"),
    [
        ({"a": 100, "b": 100}, [], 4),
        ({"a": 52, "b": 52}, [], 2),
        ({"a": 10, "b": 10}, [], 1),
        ({"a": 100}, [], 2),
        ({"a": 200, "b": 0}, ["b"], 4),
        ({"a": 10}, [], 2),
    ],
    ids=["twice", "tolerated", "idle", "missing", "unready", "missing-down"],
)
def test_how_many_replicas_are_wanted(
    used: dict[str, int], unready: list[str], expected: int
) -> None:
    assert expected == replicas_for(2, used, {"a": 100, "b": 100}, unready, 0.5)[0]


def test_policies_bound_each_change() -> None:
    rules = {"policies": [{"type": "Pods", "value": 2, "periodSeconds": 60}]}

    assert 6 == within_policy(4, 10, rules, [], 100.0)
    assert 4 == within_policy(4, 10, rules, [(90.0, 2)], 100.0)
    assert 2 == within_policy(4, 1, rules, [], 100.0)
    assert 4 == within_policy(4, 1, {"selectPolicy": "Disabled"}, [], 100.0)
