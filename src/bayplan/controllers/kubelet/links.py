"""The environment variables by which a container finds the Services of its namespace."""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.client import Change
from bayplan.controllers.objects import Object
from bayplan.controllers.runtime import Cache, namespace_index

HERE, ALWAYS = "default", "kubernetes"  # every container is told of this Service


class Links:
    """The variables of each namespace; made when first asked for, shared by all its pods."""

    def __init__(self, services: Cache[Object]) -> None:
        self._services = services
        self._kept: dict[tuple[str, bool], Mapping[str, str]] = {}
        services.add_index("namespace", namespace_index)
        services.listen(self._changed)

    def _changed(self, change: Change[Object]) -> None:
        self._kept.clear()

    def of(self, pod: Object) -> Mapping[str, str]:
        """Return the variables of a pod's containers, as a kubelet makes them."""
        key = pod.metadata.namespace, bool(pod.spec.get("enableServiceLinks", True))
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = self._made(*key)
        return found

    def _made(self, namespace: str, linked: bool) -> Mapping[str, str]:
        found: dict[str, str] = {}
        for service in self._services.by("namespace", HERE):
            if service.metadata.name == ALWAYS:
                found |= _variables(service)
        for service in self._services.by("namespace", namespace) if linked else ():
            found |= _variables(service)
        return found


def _variables(service: Object) -> dict[str, str]:
    address, ports = service.spec.get("clusterIP"), service.spec.get("ports") or []
    if address in (None, "", "None") or not ports:
        return {}
    name = _variable(service.metadata.name)
    found = {f"{name}_SERVICE_HOST": address, f"{name}_SERVICE_PORT": str(ports[0]["port"])}
    host = f"[{address}]" if ":" in address else address
    for place, port in enumerate(ports):
        number, protocol = port["port"], port.get("protocol") or "TCP"
        if port.get("name"):
            found[f"{name}_SERVICE_PORT_{_variable(port['name'])}"] = str(number)
        link = f"{name}_PORT_{number}_{protocol.upper()}"
        found[link] = f"{protocol.lower()}://{host}:{number}"
        found[f"{link}_PROTO"] = protocol.lower()
        found[f"{link}_PORT"] = str(number)
        found[f"{link}_ADDR"] = address
        if place == 0:
            found[f"{name}_PORT"] = found[link]
    return found


def _variable(name: str) -> str:
    return name.upper().replace("-", "_")
