"""ResourceQuota: counts and sums of a namespace against its quotas.

As upstream, a quota binds from the moment that its controller has written `status.hard`; a server
without that controller enforces none. Usage is counted from the stored objects, so that a late
`status.used` admits nothing too much. Scopes are respected for pods. What a request adds is not
written to the quota's status: that is the controller's work (`used_of` counts for it).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Protocol

from bayplan.api import quantity
from bayplan.api.quotas import Usage, in_scope, pod_usage, undeclared
from bayplan.apiserver.admission.tally import Tally
from bayplan.apiserver.admission.types import CREATE, UPDATE, Attributes, Reader, forbidden


class Kind(Protocol):
    """Names a kind: its group and its plural resource."""

    @property
    def group(self) -> str: ...

    @property
    def resource(self) -> str: ...


_NANO = quantity.NANO
ENTRIES = 1 << 18  # objects of which is kept what they use, some 700 bytes each; sums count too
# Resources whose number a quota can bound under their own name.
_COUNTED = (
    "pods",
    "services",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
)


def kind_counted(name: str) -> tuple[str, str]:
    """Return group and resource of the objects that use what a quota names."""
    if name.startswith("count/"):
        resource, _, group = name.removeprefix("count/").partition(".")
        return group, resource
    if name in _COUNTED:
        return "", name
    if name.startswith("services."):
        return "", "services"
    if name == "requests.storage" or ".storageclass.storage.k8s.io/" in name:
        return "", "persistentvolumeclaims"
    return "", "pods"


class Quotas:
    """Refuses a create or a change that would exceed a quota of its namespace; one per server."""

    def __init__(self, most: int = ENTRIES) -> None:
        self._most = most
        self._tallies: dict[tuple[str, ...], Tally] = {}
        self._kept: Counter[tuple[str, ...]] = Counter()
        self._round: Iterator[tuple[str, ...]] = iter(())

    def check(self, attrs: Attributes, reader: Reader) -> None:
        self._look_round(reader)
        walked: set[Tally] = set()
        for quota, hard, wanted in _concerned(attrs, reader):
            _demand_declared(attrs, quota, hard)
            if wanted:
                tally = self._tally(quota, attrs)
                if tally not in walked:
                    reader.tally(attrs.group, attrs.resource, attrs.namespace, tally)
                    walked.add(tally)
                _compare(attrs, quota, hard, wanted, tally.totals)

    def counted(self, attrs: Attributes, reader: Reader) -> list[Tally]:
        """Return what `check` will count with, of objects of this kind and namespace."""
        found = [
            self._tally(quota, attrs) for quota, _, wanted in _concerned(attrs, reader) if wanted
        ]
        return list(dict.fromkeys(found))

    def _tally(self, quota: dict[str, Any], attrs: Attributes) -> Tally:
        """Return what counts for a quota, and for others of the namespace with its scopes."""
        spec, group, resource = quota.get("spec") or {}, attrs.group, attrs.resource
        scopes = {name: spec.get(name) for name in ("scopes", "scopeSelector")}
        key = attrs.namespace, group, resource, str(scopes)
        found = self._tallies.pop(key, None) or Tally(partial(_counted, scopes, group, resource))
        self._tallies[key] = found
        self._kept[key] = 1 + found.size
        while self._kept.total() > self._most and len(self._tallies) > 1:
            self._let_go(next(iter(self._tallies)))  # of which was heard longest ago
        return found

    def _look_round(self, reader: Reader) -> None:
        """Look whether the namespace of a tally is still there: with each write at another."""
        key = next(self._round, None)
        if key is None:
            self._round = iter(list(self._tallies))
        elif reader.get("", "namespaces", "", key[0]) is None:
            self._let_go(key)

    def _let_go(self, key: tuple[str, ...]) -> None:
        self._tallies.pop(key, None)
        self._kept.pop(key, None)


def _concerned(
    attrs: Attributes, reader: Reader
) -> Iterator[tuple[dict[str, Any], dict[str, str], Usage]]:
    """Yield the quotas that a write falls under, what they allow and what they are asked for."""
    if not attrs.namespace or not may_grow(attrs):
        return
    quotas = list(reader.list("", "resourcequotas", attrs.namespace))
    if not quotas:
        return
    added = _usage(attrs.group, attrs.resource, attrs.obj)
    if attrs.old is not None:  # only what it uses more than before
        before = _usage(attrs.group, attrs.resource, attrs.old)
        more = {name: amount - before.get(name, 0) for name, amount in added.items()}
        added = {name: amount for name, amount in more.items() if amount > 0}
    for quota in quotas:
        hard: dict[str, str] = (quota.get("status") or {}).get("hard") or {}
        if (attrs.group, attrs.resource) == ("", "pods") and not in_scope(
            quota.get("spec") or {}, attrs.obj
        ):
            continue
        yield quota, hard, {name: amount for name, amount in added.items() if name in hard}


# What may come to use more by a change: sizes of claims, types of services, resized pods.
_GROWING = (("persistentvolumeclaims", ""), ("services", ""), ("pods", "resize"))


def may_grow(attrs: Attributes) -> bool:
    """Say whether a write may use more of a quota than before."""
    if attrs.operation == CREATE:
        return not attrs.subresource
    changed = (attrs.resource, attrs.subresource)
    return attrs.operation == UPDATE and not attrs.group and changed in _GROWING


def _demand_declared(attrs: Attributes, quota: dict[str, Any], hard: dict[str, str]) -> None:
    """A quota on cpu or memory demands that each container says how much it needs."""
    if attrs.resource != "pods" or attrs.group:
        return
    missing = undeclared(hard, attrs.obj)
    if missing:
        name = quota["metadata"]["name"]
        raise forbidden(attrs, f"failed quota: {name}: must specify {'; '.join(missing)}")


def _compare(
    attrs: Attributes,
    quota: dict[str, Any],
    hard: dict[str, str],
    wanted: Usage,
    used: Usage,
) -> None:
    over = sorted(n for n, a in wanted.items() if used.get(n, 0) + a > quantity.nanos(hard[n]))
    if not over:
        return
    asked = ",".join(f"{n}={quantity.format_nanos(wanted[n])}" for n in over)
    have = ",".join(f"{n}={quantity.format_nanos(used.get(n, 0))}" for n in over)
    limit = ",".join(f"{n}={hard[n]}" for n in over)
    name = quota["metadata"]["name"]
    why = f"exceeded quota: {name}, requested: {asked}, used: {have}, limited: {limit}"
    raise forbidden(attrs, why)


def used_of(quota: dict[str, Any], objects: Iterable[dict[str, Any]], kind: Kind) -> Usage:
    """Return what the given objects of one kind use of a quota, in nanos by resource name."""
    totals: Usage = {}
    for obj in objects:
        for name, amount in _counted(quota["spec"], kind.group, kind.resource, obj).items():
            totals[name] = totals.get(name, 0) + amount
    return totals


def _counted(spec: dict[str, Any], group: str, resource: str, obj: dict[str, Any]) -> Usage:
    """Return what one object uses of a quota."""
    if resource == "pods" and not group:
        if not in_scope(spec, obj):
            return {}
        if _is_finished(obj):  # it uses nothing any more, but is stored
            return {"count/pods": _NANO}
    return _usage(group, resource, obj)


def _is_finished(pod: dict[str, Any]) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _usage(group: str, resource: str, obj: dict[str, Any]) -> Usage:
    qualified = f"count/{resource}.{group}" if group else f"count/{resource}"
    usage: Usage = {qualified: _NANO}
    if group:
        return usage
    if resource in _COUNTED:
        usage[resource] = _NANO
    if resource == "pods":
        usage.update(pod_usage(obj))
    elif resource == "persistentvolumeclaims":
        resources = (obj.get("spec") or {}).get("resources") or {}
        size = (resources.get("requests") or {}).get("storage")
        if size is not None:
            usage["requests.storage"] = quantity.nanos(size)
            storage_class = (obj.get("spec") or {}).get("storageClassName")
            if storage_class:
                prefix = f"{storage_class}.storageclass.storage.k8s.io/"
                usage[f"{prefix}requests.storage"] = quantity.nanos(size)
                usage[f"{prefix}persistentvolumeclaims"] = _NANO
    elif resource == "services":
        usage.update(_service_usage(obj))
    return usage


def _service_usage(service: dict[str, Any]) -> Usage:
    spec = service.get("spec") or {}
    ports = len(spec.get("ports") or ()) * _NANO
    if spec.get("type") == "NodePort":
        return {"services.nodeports": ports}
    if spec.get("type") == "LoadBalancer":
        return {"services.loadbalancers": _NANO, "services.nodeports": ports}
    return {}
