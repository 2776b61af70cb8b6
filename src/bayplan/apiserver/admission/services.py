"""ServiceAddresses: hands out cluster IPs and node ports, and refuses those that others have.

Upstream does this in the storage of services; here it is a step of the chain because it must read
the other services. Who calls it holds the turn (`turns`), so that two writes at the same time do
not get the same one before the first is stored.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from typing import Any

from bayplan.apiserver.admission.tally import Tally
from bayplan.apiserver.admission.types import (
    CREATE,
    AdmissionError,
    Attributes,
    Reader,
)
from bayplan.apiserver.validation.causes import Cause, invalid, invalid_message
from bayplan.apiserver.validation.service_strategy import needs_node_ports

_RANGE = ipaddress.ip_network("10.96.0.0/16")
_FIRST_HOST = 10  # the first addresses stay free for well-known services
_PORTS = range(30000, 32768)
_SHOWN = f"{_PORTS[0]}-{_PORTS[-1]}"


class ServiceAddresses:
    """Chooses free cluster IPs and node ports; one per server."""

    def __init__(self) -> None:
        self._next_host = _FIRST_HOST
        self._next_port = 0
        self.taken = Tally(_taken)

    def refuse_taken(self, attrs: Attributes, reader: Reader) -> None:
        """Check what a new service asks for: as upstream, before anything else is validated."""
        if (attrs.group, attrs.resource, attrs.subresource) != ("", "services", ""):
            return
        spec = attrs.obj.get("spec") or {}
        if attrs.operation == CREATE and spec.get("type") != "ExternalName":
            self._check_asked(attrs, reader, spec)

    def assign(self, attrs: Attributes, reader: Reader) -> None:
        """Complete a valid service with the addresses it needs."""
        if not attrs.writes("services"):
            return
        spec: dict[str, Any] = attrs.obj["spec"]
        if spec.get("type") == "ExternalName":
            return
        self._check_asked(attrs, reader, spec)
        if not spec.get("clusterIP"):
            spec["clusterIP"] = self._free_address(self._now(reader))
            spec["clusterIPs"] = [spec["clusterIP"]]
        elif not spec.get("clusterIPs"):
            spec["clusterIPs"] = [spec["clusterIP"]]
        first = spec["clusterIPs"][0]
        if not spec.get("ipFamilies"):
            spec["ipFamilies"] = ["IPv6" if ":" in first else "IPv4"]
        if spec.get("ipFamilyPolicy") is None:
            headless = first == "None" and not spec.get("selector")
            spec["ipFamilyPolicy"] = "RequireDualStack" if headless else "SingleStack"
        if headless_without_selector(spec) and attrs.operation == CREATE:
            spec["ipFamilies"] = [*spec["ipFamilies"], "IPv6"][:2]
        if needs_node_ports(spec):
            self._assign_ports(attrs, reader, spec)

    def _now(self, reader: Reader) -> Collection[str]:
        """Return what services have now."""
        reader.tally("", "services", "", self.taken)
        return self.taken.totals

    def _free_address(self, used: Collection[str]) -> str:
        size = _RANGE.num_addresses - 1
        for _ in range(size):
            address = str(_RANGE[self._next_host])
            self._next_host += 1
            if self._next_host >= size:
                self._next_host = _FIRST_HOST
            if address not in used:
                return address
        raise AdmissionError(
            "Internal error occurred: failed to allocate a serviceIP: range is full",
            code=500,
            reason="InternalError",
        )

    def _check_asked(self, attrs: Attributes, reader: Reader, spec: dict[str, Any]) -> None:
        """Refuse addresses and ports that are asked for anew and that another service has."""
        before = (attrs.old or {}).get("spec") or {}
        addresses = _addresses(spec) - _addresses(before)
        ports = _ports(spec) - _ports(before) if needs_node_ports(spec) else set()
        if not addresses and not ports:
            return
        taken = self._now(reader)
        for address in sorted(each for each in addresses if each in taken):
            given = spec.get("clusterIPs") or [spec["clusterIP"]]
            text = f"failed to allocate IP {address}: provided IP is already allocated"
            raise _refused(attrs, invalid("spec.clusterIPs", given, text))
        for i, port in enumerate(spec.get("ports") or ()):
            number = port.get("nodePort")
            if number in ports and number not in _PORTS:
                text = "provided port is not in the valid range. "
                text += f"The range of valid ports is {_SHOWN}"
                raise _refused(attrs, invalid(f"spec.ports[{i}].nodePort", number, text))
            if number in ports and str(number) in taken:
                text = "provided port is already allocated"
                raise _refused(attrs, invalid(f"spec.ports[{i}].nodePort", number, text))

    def _assign_ports(self, attrs: Attributes, reader: Reader, spec: dict[str, Any]) -> None:
        missing = [port for port in spec.get("ports") or () if not port.get("nodePort")]
        if not missing:
            return
        used, own = self._now(reader), _ports(spec)
        for port in missing:
            port["nodePort"] = self._free_port(used, own)
            own.add(port["nodePort"])

    def _free_port(self, used: Collection[str], own: set[int]) -> int:
        for _ in _PORTS:
            number = _PORTS[self._next_port % len(_PORTS)]
            # A step that shares no factor with the range visits every port once.
            self._next_port += 1009
            if number not in own and str(number) not in used:
                return number
        raise AdmissionError(
            "Internal error occurred: failed to allocate a nodePort: range is full",
            code=500,
            reason="InternalError",
        )


def _addresses(spec: dict[str, Any]) -> set[str]:
    return {*(spec.get("clusterIPs") or ()), spec.get("clusterIP") or "None"} - {"None"}


def _ports(spec: dict[str, Any]) -> set[int]:
    return {port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort")}


def _refused(attrs: Attributes, cause: Cause) -> AdmissionError:
    told = {"reason": cause.reason, "message": cause.message, "field": cause.field}
    details = {"name": attrs.name, "kind": "Service", "causes": [told]}
    text = invalid_message("Service", "", attrs.name, [cause])
    return AdmissionError(text, code=422, reason="Invalid", details=details)


def headless_without_selector(spec: dict[str, Any]) -> bool:
    return spec.get("clusterIPs") == ["None"] and not spec.get("selector")


def _taken(service: dict[str, Any]) -> dict[str, int]:
    """Return the addresses and ports of a service."""
    spec = service.get("spec") or {}
    return dict.fromkeys([*_addresses(spec), *map(str, _ports(spec))], 1)
