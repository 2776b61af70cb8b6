"""Endpoints and EndpointSlices follow services and pods, and then stand still."""

from __future__ import annotations

from typing import Any

from bayplan.client.resources import DEPLOYMENTS, ENDPOINTS, SERVICES
from bayplan.controllers.endpoints import MANAGED_BY, MIRROR, SLICES
from tests.controllers.cluster import cluster, virtual, workload


def _service(name: str, **spec: Any) -> dict[str, Any]:
    ports = [{"name": "http", "port": 80, "targetPort": 8080}]
    return {"metadata": {"name": name}, "spec": {"ports": ports, **spec}}


@virtual
async def test_ready_pods_are_listed_until_the_service_goes() -> None:
    async with cluster(options={"kubelet": {"lease-seconds": 0}}) as made:
        await made.create(DEPLOYMENTS, workload("web", 120))
        await made.create(SERVICES, _service("web", selector={"app": "web"}))
        await made.settle(20)

        slices = await made.list(SLICES, "kubernetes.io/service-name=web")
        assert [20, 100] == sorted(len(s["endpoints"]) for s in slices)
        assert [{"name": "http", "port": 8080, "protocol": "TCP"}] == slices[0]["ports"]
        assert all(e["conditions"]["ready"] for s in slices for e in s["endpoints"])
        subset = (await made.get(ENDPOINTS, "web"))["subsets"][0]
        assert 120 == len(subset["addresses"])
        after = made.server.store.revision
        await made.settle(600)
        assert after == made.server.store.revision

        await made.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 1}})
        await made.settle(20)
        slices = await made.list(SLICES, "kubernetes.io/service-name=web")
        assert [1] == [len(s["endpoints"]) for s in slices]
        await made.delete(SERVICES, "web")
        await made.settle(20)
        assert [] == await made.list(SLICES, "kubernetes.io/service-name=web")
        assert not await made.exists(ENDPOINTS, "web")


@virtual
async def test_endpoints_written_by_hand_are_mirrored() -> None:
    async with cluster(nodes=0) as made:
        await made.create(SERVICES, _service("far"))
        subset = {"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 9376}]}
        await made.create(ENDPOINTS, {"metadata": {"name": "far"}, "subsets": [subset]})
        await made.settle(5)

        (found,) = await made.list(SLICES, "kubernetes.io/service-name=far")
        assert MIRROR == found["metadata"]["labels"][MANAGED_BY]
        assert ["10.1.2.3"] == found["endpoints"][0]["addresses"]
        await made.delete(ENDPOINTS, "far")
        await made.settle(5)
        assert [] == await made.list(SLICES, "kubernetes.io/service-name=far")
