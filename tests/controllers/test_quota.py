"""Quotas: written by their controller, enforced by admission."""

from __future__ import annotations

import asyncio

import pytest

from bayplan.client import ClientError, Resource
from bayplan.client.resources import PODS, REPLICA_SETS, RESOURCE_QUOTAS, SERVICES
from tests.controllers.cluster import Json, cluster, virtual, workload


def pod(name: str) -> Json:
    resources = {"requests": {"cpu": "500m"}}
    container = {"name": "c", "image": "i:1", "resources": resources}
    meta = {"name": name}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {"containers": [container]},
    }


@virtual
async def test_a_quota_counts_and_refuses() -> None:
    body = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q"},
        "spec": {"hard": {"pods": "5", "requests.cpu": "1"}},
    }
    async with cluster() as made:
        await made.create(RESOURCE_QUOTAS, body)
        await made.settle()
        await made.create(PODS, pod("a"))
        await made.create(PODS, pod("b"))
        await made.settle()

        status = (await made.get(RESOURCE_QUOTAS, "q"))["status"]
        with pytest.raises(ClientError, match="exceeded quota: q"):
            await made.create(PODS, pod("c"))
        await made.delete(PODS, "a")
        await made.settle()
        await made.create(PODS, pod("c"))
        await made.patch(RESOURCE_QUOTAS, "q", {"spec": {"hard": {"requests.cpu": None}}})
        await made.settle()
        later = (await made.get(RESOURCE_QUOTAS, "q"))["status"]

    assert {"hard": {"pods": "5"}, "used": {"pods": "2"}} == later
    assert {"pods": "5", "requests.cpu": "1"} == status["hard"]
    assert {"pods": "2", "requests.cpu": "1"} == status["used"]


@virtual
async def test_every_kind_counts_from_the_first_quota_that_bounds_it() -> None:
    hard = {
        "secrets": "2",
        "configmaps": "9",
        "resourcequotas": "1",
        "replicationcontrollers": "1",
        "count/replicasets.apps": "3",
        "count/unheard.example.org": "1",
        "services.nodeports": "1",
        "requests.storage": "5Gi",
    }
    body = {"metadata": {"name": "q"}, "spec": {"hard": hard}}
    secret = Resource("", "v1", "secrets", "Secret")
    async with cluster(nodes=0) as made:
        await made.create(RESOURCE_QUOTAS, body)
        await made.settle()
        await made.create(secret, {"metadata": {"name": "a"}})
        await made.create(REPLICA_SETS, workload("web", 0))
        await made.settle()
        first = (await made.get(RESOURCE_QUOTAS, "q"))["status"]["used"]
        await made.delete(secret, "a")
        await made.settle()
        later = (await made.get(RESOURCE_QUOTAS, "q"))["status"]["used"]

    none = dict.fromkeys(hard, "0")
    counted = {"resourcequotas": "1", "count/replicasets.apps": "1"}
    assert {**none, **counted, "secrets": "1"} == first
    assert {**none, **counted} == later


@virtual
async def test_creates_at_the_same_time_do_not_exceed_a_quota_together() -> None:
    async with cluster(nodes=0) as made:
        body = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "2"}}}
        await made.create(RESOURCE_QUOTAS, body)
        await made.settle()
        calls = [made.create(PODS, pod(f"p{number}")) for number in range(6)]
        results = await asyncio.gather(*calls, return_exceptions=True)

    assert 4 == sum(isinstance(result, ClientError) for result in results)


@virtual
async def test_a_change_that_uses_more_than_the_quota_allows_is_refused() -> None:
    async with cluster() as made:
        hard = {"services.nodeports": "1", "requests.cpu": "1"}
        await made.create(RESOURCE_QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": hard}})
        await made.settle()
        for name, type_ in (("one", "NodePort"), ("two", "ClusterIP")):
            spec = {"type": type_, "ports": [{"port": 80}]}
            await made.create(SERVICES, {"metadata": {"name": name}, "spec": spec})
        await made.create(PODS, pod("a"))

        with pytest.raises(ClientError, match=r"exceeded quota: q, requested: services.nodeports"):
            await made.patch(SERVICES, "two", {"spec": {"type": "NodePort"}})
        await made.patch(SERVICES, "one", {"spec": {"type": "ClusterIP"}})
        await made.patch(SERVICES, "two", {"spec": {"type": "NodePort"}})

        for cpu, fits in (("900m", True), ("1100m", False)):
            resources = {"requests": {"cpu": cpu}}
            body = {"spec": {"containers": [{"name": "c", "image": "i:1", "resources": resources}]}}
            resize = made.client.patch(PODS, "a", body, "default", subresource="resize")
            if fits:
                await resize
            else:
                with pytest.raises(ClientError, match=r"exceeded quota: q, .* requests.cpu="):
                    await resize
