"""Builders for dynamic resource allocation: slices of devices, classes and claims."""

from __future__ import annotations

from typing import Any

from bayplan.api import DeviceClass, ResourceClaim, ResourceSlice
from bayplan.testing.bodies import Body
from bayplan.testing.builders import Builder


def make_device(
    name: str,
    attributes: dict[str, int | bool | str] | None = None,
    capacity: dict[str, str | int] | None = None,
    **more: Any,
) -> Body:
    """Return a device's body; attributes are typed by their Python type."""
    names = {int: "int", bool: "bool", str: "string"}
    body: Body = {"name": name, **more}
    if attributes:
        body["attributes"] = {k: {names[type(v)]: v} for k, v in attributes.items()}
    if capacity:
        body["capacity"] = {k: {"value": v} for k, v in capacity.items()}
    return body


def make_slice(
    name: str, *devices: Body | str, driver: str = "gpu.example.com", node: str = "", **spec: Any
) -> Builder[ResourceSlice]:
    """Start a slice of its own pool, on one node or (without a name) on all."""
    builder = Builder(ResourceSlice, name)
    where: Body = {"nodeName": node} if node else {"allNodes": True}
    pool = {"name": node or name, "generation": 1, "resourceSliceCount": 1}
    bodies = [make_device(item) if isinstance(item, str) else item for item in devices]
    builder.spec.update({"driver": driver, "pool": pool, "devices": bodies})
    if not {"nodeSelector", "perDeviceNodeSelection"} & spec.keys():
        builder.spec.update(where)
    builder.spec.update(spec)
    return builder


def make_device_class(name: str, *expressions: str, resource: str = "") -> Builder[DeviceClass]:
    """Start a device class with CEL selectors."""
    builder = Builder(DeviceClass, name)
    builder.spec["selectors"] = [{"cel": {"expression": text}} for text in expressions]
    if resource:
        builder.spec["extendedResourceName"] = resource
    return builder


def request(device_class: str, *expressions: str, count: int | None = 1, **more: Any) -> Body:
    """Return what `exactly` holds: so many devices, or all of them (None)."""
    body: Body = {
        "deviceClassName": device_class,
        "allocationMode": "All" if count is None else "ExactCount",
        **more,
    }
    if count is not None:
        body["count"] = count
    if expressions:
        body["selectors"] = [{"cel": {"expression": text}} for text in expressions]
    return body


class ResourceClaimBuilder(Builder[ResourceClaim]):
    """Builds a resource claim."""

    def __init__(self, name: str, namespace: str = "default") -> None:
        super().__init__(ResourceClaim, name, namespace)

    @property
    def _devices(self) -> Body:
        devices: Body = self.spec.setdefault("devices", {})
        return devices

    def exactly(self, name: str, body: Body) -> ResourceClaimBuilder:
        self._devices.setdefault("requests", []).append({"name": name, "exactly": body})
        return self

    def first_of(self, name: str, **choices: Body) -> ResourceClaimBuilder:
        """Ask for the first that can be had of several named choices."""
        bodies = [{"name": key, **body} for key, body in choices.items()]
        self._devices.setdefault("requests", []).append({"name": name, "firstAvailable": bodies})
        return self

    def same(self, attribute: str, *requests: str) -> ResourceClaimBuilder:
        """Require one value of an attribute for the devices of all, or some, requests."""
        body = {"matchAttribute": attribute, "requests": list(requests)}
        self._devices.setdefault("constraints", []).append(body)
        return self

    def distinct(self, attribute: str, *requests: str) -> ResourceClaimBuilder:
        body = {"distinctAttribute": attribute, "requests": list(requests)}
        self._devices.setdefault("constraints", []).append(body)
        return self

    def allocated(
        self, *devices: tuple[str, str, str], node: str = "", request: str = "r0"
    ) -> ResourceClaimBuilder:
        """Give devices as (driver, pool, device), usable on one node if it is named."""
        results = [
            {"request": request, "driver": driver, "pool": pool, "device": device}
            for driver, pool, device in devices
        ]
        allocation: Body = {"devices": {"results": results}}
        if node:
            field = {"key": "metadata.name", "operator": "In", "values": [node]}
            allocation["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        self.status["allocation"] = allocation
        return self

    def reserved_for(self, pod: str, uid: str = "") -> ResourceClaimBuilder:
        consumer = {"resource": "pods", "name": pod, "uid": uid or f"uid-default-{pod}"}
        self.status.setdefault("reservedFor", []).append(consumer)
        return self


def make_resource_claim(name: str, namespace: str = "default") -> ResourceClaimBuilder:
    """Start a resource claim."""
    return ResourceClaimBuilder(name, namespace)
