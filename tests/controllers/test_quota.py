"""Quotas: written by their controller, enforced by admission."""

from __future__ import annotations

import pytest

from bayplan.client import ClientError
from bayplan.client.resources import PODS
from bayplan.controllers.resourcequota import RESOURCE_QUOTAS
from tests.controllers.cluster import Json, cluster, virtual


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
