"""Nodes: taints, resources, and what may not change."""

from __future__ import annotations

import ipaddress
import re

from bayplan.api.defaults.json_types import Object
from bayplan.api.names import label_value
from bayplan.apiserver.validation.causes import (
    Cause,
    Causes,
    duplicate,
    forbidden,
    internal,
    invalid,
    one_of,
    quote,
    repeated,
)
from bayplan.apiserver.validation.labels import validate_label_name
from bayplan.apiserver.validation.resources import validate_amount
from bayplan.apiserver.validation.scheduling import EFFECTS

# Upstream reports taints below metadata.
_TAINTS = "metadata.taints"
_FEATURE = re.compile(r"[A-Z][a-zA-Z0-9]*(/[a-zA-Z0-9]+)*")


def validate_node(node: Object) -> Causes:
    spec, status = node.get("spec") or {}, node.get("status") or {}
    causes = _validate_taints(spec.get("taints") or [])
    causes += _validate_resources(status)
    causes += _validate_features(status.get("declaredFeatures") or [])
    cidrs = spec.get("podCIDRs") or []
    for i, cidr in enumerate(cidrs):
        if not _is_cidr(cidr):
            text = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
            causes.append(invalid(f"spec.podCIDRs[{i}]", cidr, text))
    wrong = next((i for i, cidr in enumerate(cidrs) if not _is_cidr(cidr)), None)
    if len(cidrs) > 1 and wrong is not None:
        text = "invalid PodCIDRs. failed to check with dual stack with error:"
        text += f"invalid CIDR[{wrong}]: <nil> (invalid CIDR address: {cidrs[wrong]})"
        causes.append(internal("spec.podCIDRs", text))
    if len(cidrs) > 1 and (len(cidrs) > 2 or len({":" in cidr for cidr in cidrs}) < 2):
        text = "may specify no more than one CIDR for each IP family"
        causes.append(invalid("spec.podCIDRs", cidrs, text))
    return causes


def _is_cidr(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return "/" in text


def _validate_taints(taints: list[Object]) -> Causes:
    causes: Causes = []
    seen: set[tuple[str, str]] = set()
    for i, taint in enumerate(taints):
        path = f"{_TAINTS}[{i}]"
        key, effect = taint.get("key", ""), taint.get("effect", "")
        causes += validate_label_name(f"{path}.key", key)
        problems = label_value(taint.get("value", ""))
        if problems:
            causes.append(invalid(f"{path}.value", taint["value"], ";".join(problems)))
        causes += one_of(f"{path}.effect", effect, EFFECTS)
        if (key, effect) in seen:
            text = f"Duplicate value: {quote(taint)}: taints must be unique by key and effect pair"
            causes.append(Cause("FieldValueDuplicate", path, text))
        seen.add((key, effect))
    return causes


def _validate_resources(status: Object) -> Causes:
    causes: Causes = []
    for kind in ("capacity", "allocatable"):
        for name, value in (status.get(kind) or {}).items():
            causes += validate_amount(f"status.{kind}.{name}", name, value)
    return causes


def _validate_features(features: list[str]) -> Causes:
    causes: Causes = []
    for i, name in enumerate(features):
        path = f"status.declaredFeatures[{i}]"
        if not _FEATURE.fullmatch(name):
            causes.append(invalid(path, name, f'invalid feature name "{name}"'))
        if i and features[i - 1] == name:
            causes.append(duplicate(path, name))
        elif i and features[i - 1] > name:
            causes.append(invalid(path, name, "list must be sorted alphabetically"))
    return causes


def validate_node_update(node: Object, old: Object) -> Causes:
    spec, before = node.get("spec") or {}, old.get("spec") or {}
    status = node.get("status") or {}
    causes = _validate_resources(status)
    causes += _validate_features(status.get("declaredFeatures") or [])
    addresses = status.get("addresses") or []
    for i in sorted(repeated(addresses)):
        causes.append(duplicate(f"status.addresses[{i}]", addresses[i]))
    if before.get("podCIDRs") and before["podCIDRs"] != spec.get("podCIDRs"):
        text = 'node updates may not change podCIDR except from "" to valid'
        causes.append(forbidden("spec.podCIDRs", text))
    if before.get("providerID") and before["providerID"] != spec.get("providerID"):
        text = 'node updates may not change providerID except from "" to valid'
        causes.append(forbidden("spec.providerID", text))
    causes += _validate_taints(spec.get("taints") or [])
    if spec.get("externalID", "") != before.get("externalID", ""):
        causes.append(forbidden("spec.externalID", "may not be updated"))
    return causes
