"""Writes which pods are behind each Service: Endpoints and EndpointSlices.

A Service with a selector gets one Endpoints object and slices of at most 100 endpoints for each set
of ports. Endpoints that a person wrote for a Service without a selector are mirrored into slices.
IPv4 only, as the simulated pods are.
"""

from __future__ import annotations

from contextlib import suppress

import msgspec

from bayplan.api.labels import from_map
from bayplan.client import AlreadyExists, Change, NotFound, Resource
from bayplan.client.resources import ENDPOINTS, NODES, PODS, SERVICES
from bayplan.controllers.objects import (
    Json,
    Meta,
    Object,
    is_finished,
    is_ready,
    owner_reference,
)
from bayplan.controllers.runtime import Kit, Worker, namespace_index

SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
PER_SLICE, PER_ENDPOINTS = 100, 1000
SERVICE_NAME = "kubernetes.io/service-name"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
SKIP_MIRROR = "endpointslice.kubernetes.io/skip-mirror"
HEADLESS = "service.kubernetes.io/headless"
OURS = "endpointslice-controller.k8s.io"
MIRROR = "endpointslicemirroring-controller.k8s.io"
ENDPOINTS_BY = "endpoints.kubernetes.io/managed-by"
ZONE = "topology.kubernetes.io/zone"

Ports = tuple[tuple[str, str, int, str], ...]  # name, protocol, number, application protocol


class EndpointsObject(msgspec.Struct, frozen=True):
    """What is read of Endpoints."""

    metadata: Meta
    subsets: list[Json] | None = None


class SliceObject(msgspec.Struct, frozen=True, rename="camel"):
    """What is read of an EndpointSlice."""

    metadata: Meta
    address_type: str = ""
    endpoints: list[Json] | None = None
    ports: list[Json] | None = None


class EndpointsController:
    """Follows services and pods; one key is one service."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._services = kit.cache(SERVICES)
        self._pods = kit.cache(PODS)
        self._nodes = kit.cache(NODES)
        self._endpoints = kit.typed(ENDPOINTS, EndpointsObject)
        self._slices = kit.typed(SLICES, SliceObject)
        self._services.add_index("namespace", namespace_index)
        self._pods.add_index("namespace", namespace_index)
        self._slices.add_index("service", _service_index)
        self._worker = Worker(kit, "endpoints", self._sync, (self._services, self._pods))
        self._services.listen(lambda change: self._worker.queue.add(change.new.key))
        self._pods.listen(self._pod_changed)
        self._endpoints.listen(lambda change: self._worker.queue.add(change.new.metadata.key))
        self._slices.listen(self._slice_changed)

    async def run(self) -> None:
        await self._endpoints.informer.wait_synced()
        await self._slices.informer.wait_synced()
        await self._nodes.informer.wait_synced()
        await self._worker.run()

    def _pod_changed(self, change: Change[Object]) -> None:
        services = self._services.by("namespace", change.new.metadata.namespace)
        for pod in (change.new, change.old) if services else ():
            if pod is not None:
                for service in services:
                    selector: Json = service.spec.get("selector") or {}
                    labels = pod.metadata.labels
                    if selector and all(labels.get(k) == v for k, v in selector.items()):
                        self._worker.queue.add_soon(service.key)

    def _slice_changed(self, change: Change[SliceObject]) -> None:
        for key in _service_index(change.new):
            self._worker.queue.add_soon(key)

    async def _sync(self, key: str) -> float | None:
        await self._endpoints.fresh()
        await self._slices.fresh()
        service = self._services.get(key)
        if service is None or service.deleted:
            await self._remove(key)
            return None
        if service.spec.get("type") == "ExternalName":
            return None
        if not service.spec.get("selector"):
            await self._mirror(service)
            return None
        groups = self._groups(service)
        await self._write_endpoints(service, groups)
        wanted = []
        for ports, pods in groups.items():
            for at in range(0, max(len(pods), 1), PER_SLICE):
                part = pods[at : at + PER_SLICE]
                wanted.append((_slice_ports(ports), [self._endpoint(service, p) for p in part]))
        if not wanted:
            wanted = [([], [])]
        await self._write_slices(service, wanted, OURS, SERVICES, service.metadata)
        return None

    def _groups(self, service: Object) -> dict[Ports, list[Object]]:
        """Return the service's pods by the ports they serve it on."""
        groups: dict[Ports, list[Object]] = {}
        selector = from_map(service.spec.get("selector"))
        for pod in self._pods.by("namespace", service.metadata.namespace):
            if not selector.matches(pod.metadata.labels) or not pod.status.get("podIP"):
                continue
            if is_finished(pod):
                continue
            groups.setdefault(_ports(service, pod), []).append(pod)
        return groups

    def _endpoint(self, service: Object, pod: Object) -> Json:
        ready = is_ready(pod)
        always = bool(service.spec.get("publishNotReadyAddresses"))
        conditions = {
            "ready": always or (ready and not pod.deleted),
            "serving": ready,
            "terminating": pod.deleted,
        }
        found: Json = {
            "addresses": [pod.status["podIP"]],
            "conditions": conditions,
            "targetRef": _target(pod),
        }
        if name := pod.spec.get("nodeName"):
            found["nodeName"] = name
            node = self._nodes.get(name)
            if node is not None and (zone := node.metadata.labels.get(ZONE)):
                found["zone"] = zone
        if pod.spec.get("subdomain") == service.metadata.name and pod.spec.get("hostname"):
            found["hostname"] = pod.spec["hostname"]
        return found

    async def _write_endpoints(self, service: Object, groups: dict[Ports, list[Object]]) -> None:
        subsets: list[Json] = []
        always = bool(service.spec.get("publishNotReadyAddresses"))
        for ports, pods in groups.items():
            subset: Json = {}
            for pod in [p for p in pods if not p.deleted or always][:PER_ENDPOINTS]:
                address: Json = {"ip": pod.status["podIP"], "targetRef": _target(pod)}
                if pod.spec.get("nodeName"):
                    address["nodeName"] = pod.spec["nodeName"]
                field = "addresses" if always or is_ready(pod) else "notReadyAddresses"
                subset.setdefault(field, []).append(address)
            if subset:
                for field in ("addresses", "notReadyAddresses"):
                    if field in subset:
                        subset[field].sort(key=lambda a: a["ip"])
                if ports:
                    subset["ports"] = _endpoint_ports(ports)
                subsets.append(subset)
        labels = {**service.metadata.labels, ENDPOINTS_BY: "endpoint-controller"}
        if service.spec.get("clusterIP") in ("None", ""):
            labels[HEADLESS] = ""
        found = self._endpoints.get(service.key)
        if found is None:
            metadata = {"name": service.metadata.name, "labels": labels}
            with suppress(AlreadyExists):
                body = {"metadata": metadata, "subsets": subsets}
                await self._kit.create(ENDPOINTS, body, service.metadata.namespace)
        elif (found.subsets or []) != subsets or found.metadata.labels != labels:
            gone = dict.fromkeys(found.metadata.labels)
            change: Json = {"metadata": {"labels": {**gone, **labels}}}
            change["subsets"] = subsets or None
            await self._kit.patch(ENDPOINTS, service.key, change)

    async def _mirror(self, service: Object) -> None:
        found = self._endpoints.get(service.key)
        wanted: list[tuple[list[Json], list[Json]]] = []
        if found is not None and found.metadata.labels.get(SKIP_MIRROR) != "true":
            for subset in found.subsets or []:
                each = []
                for field, ready in (("addresses", True), ("notReadyAddresses", False)):
                    for address in subset.get(field) or []:
                        one: Json = {"addresses": [address["ip"]], "conditions": {"ready": ready}}
                        for name in ("targetRef", "nodeName", "hostname"):
                            if address.get(name):
                                one[name] = address[name]
                        each.append(one)
                ports = [{"name": "", **port} for port in subset.get("ports") or []]
                wanted.append((ports, each))
        owner = found.metadata if found is not None else service.metadata
        await self._write_slices(service, wanted, MIRROR, ENDPOINTS, owner)

    async def _write_slices(
        self,
        service: Object,
        wanted: list[tuple[list[Json], list[Json]]],
        manager: str,
        resource: Resource,
        owner: Meta,
    ) -> None:
        """Make the slices of one manager what they should be; as many as can be are kept."""
        there = [
            s
            for s in self._slices.by("service", service.key)
            if s.metadata.labels.get(MANAGED_BY) == manager and not s.metadata.deletion_timestamp
        ]
        labels = {**service.metadata.labels, SERVICE_NAME: service.metadata.name}
        labels[MANAGED_BY] = manager
        if service.spec.get("clusterIP") in ("None", ""):
            labels[HEADLESS] = ""
        for number, (ports, endpoints) in enumerate(wanted):
            if number >= len(there):
                metadata = {
                    "generateName": f"{service.metadata.name}-",
                    "labels": labels,
                    "ownerReferences": [owner_reference(resource, owner)],
                }
                body: Json = {"metadata": metadata, "addressType": "IPv4"}
                body |= {"ports": ports, "endpoints": endpoints}
                await self._kit.create(SLICES, body, service.metadata.namespace)
                continue
            old = there[number]
            same = (old.ports or []) == ports and (old.endpoints or []) == endpoints
            if not same or old.metadata.labels != labels:
                gone = dict.fromkeys(old.metadata.labels)
                body = {"metadata": {"labels": {**gone, **labels}}}
                body |= {"ports": ports, "endpoints": endpoints}
                await self._kit.patch(SLICES, old.metadata.key, body)
        for old in there[len(wanted) :]:
            await self._kit.delete(SLICES, old.metadata.key, uid=old.metadata.uid)

    async def _remove(self, key: str) -> None:
        found = self._endpoints.get(key)
        if found is not None and ENDPOINTS_BY in found.metadata.labels:
            await self._kit.delete(ENDPOINTS, key, uid=found.metadata.uid)
        for old in self._slices.by("service", key):
            if old.metadata.labels.get(MANAGED_BY) in (OURS, MIRROR):
                with suppress(NotFound):
                    await self._kit.delete(SLICES, old.metadata.key, uid=old.metadata.uid)


def _service_index(obj: SliceObject) -> tuple[str, ...]:
    name = obj.metadata.labels.get(SERVICE_NAME)
    return (f"{obj.metadata.namespace}/{name}",) if name else ()


def _target(pod: Object) -> Json:
    meta = pod.metadata
    return {"kind": "Pod", "namespace": meta.namespace, "name": meta.name, "uid": meta.uid}


def _ports(service: Object, pod: Object) -> Ports:
    found = []
    for port in service.spec.get("ports") or []:
        number = _target_port(port, pod)
        if number:
            protocol = port.get("protocol", "TCP")
            found.append((port.get("name", ""), protocol, number, port.get("appProtocol", "")))
    return tuple(found)


def _target_port(port: Json, pod: Object) -> int:
    """Return the number behind a port; a name is looked up in the pod's containers."""
    target = port.get("targetPort") or port.get("port", 0)
    if isinstance(target, int):
        return target
    both = [*(pod.spec.get("containers") or []), *(pod.spec.get("initContainers") or [])]
    for item in [p for container in both for p in container.get("ports") or []]:
        if item.get("name") == target and item.get("protocol", "TCP") == port.get(
            "protocol", "TCP"
        ):
            return int(item["containerPort"])
    return 0


def _slice_ports(ports: Ports) -> list[Json]:
    return [
        {"name": name, "protocol": protocol, "port": number}
        | ({"appProtocol": application} if application else {})
        for name, protocol, number, application in ports
    ]


def _endpoint_ports(ports: Ports) -> list[Json]:
    return [
        ({"name": port["name"]} if port["name"] else {})
        | {key: value for key, value in port.items() if key != "name"}
        for port in _slice_ports(ports)
    ]
