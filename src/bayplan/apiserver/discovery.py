"""Discovery: which groups, versions and resources there are, in the old and the aggregated form.

Documents are built from the registry on demand and kept until it changes.
"""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from typing import Any

from bayplan.apiserver.kinds import Kind, Registry, Subresource
from bayplan.apiserver.remotes import Remotes

Object = dict[str, Any]
AGGREGATED_TYPE = b"application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

# Subresources that exist in discovery but need a kubelet; asking for them is answered with a 503.
_STREAMS = ("create", "get")
_PROXY = ("create", "delete", "get", "patch", "update")
KUBELET_SUBRESOURCES: dict[str, tuple[Subresource, ...]] = {
    "nodes": (Subresource("proxy", "NodeProxyOptions", _PROXY),),
    "services": (Subresource("proxy", "ServiceProxyOptions", _PROXY),),
    "pods": (
        Subresource("attach", "PodAttachOptions", _STREAMS),
        Subresource("exec", "PodExecOptions", _STREAMS),
        Subresource("portforward", "PodPortForwardOptions", _STREAMS),
        Subresource("proxy", "PodProxyOptions", _PROXY),
    ),
}


def subresources_of(kind: Kind) -> list[Subresource]:
    more = KUBELET_SUBRESOURCES.get(kind.resource, ()) if not kind.group else ()
    return sorted([*kind.subresources.values(), *more], key=lambda sub: sub.name)


class Discovery:
    """The discovery documents of one registry."""

    def __init__(self, registry: Registry, remotes: Remotes) -> None:
        self._registry = registry
        self._remotes = remotes
        self._generation = -1
        self._documents: dict[str, Object] = {}

    def document(self, path: str, *, aggregated: bool) -> Object | None:
        """Return the document of `/api`, `/apis`, `/apis/G`, `/api/V` or `/apis/G/V`."""
        if self._generation != self._registry.generation:
            self._documents.clear()
            self._generation = self._registry.generation
        key = f"{path}?{aggregated}"
        if key not in self._documents:
            built = self._build(path, aggregated)
            if built is None:
                return None
            self._documents[key] = built
        return self._documents[key]

    def _build(self, path: str, aggregated: bool) -> Object | None:
        parts = path.strip("/").split("/")
        groups = self.groups()
        if parts == ["api"]:
            return self._aggregated([""]) if aggregated else _api_versions()
        if parts == ["apis"]:
            named = [group for group in groups if group]
            return self._aggregated(named) if aggregated else self._group_list(named)
        if parts[0] == "api" and len(parts) == 2:
            return self._resources("", parts[1])
        if len(parts) == 2:
            return self._group(parts[1], tagged=True) if parts[1] in groups and parts[1] else None
        return self._resources(parts[1], parts[2]) if len(parts) == 3 else None

    def groups(self) -> list[str]:
        """Return all groups, those of servers behind this one last."""
        own = [*self._registry.group_versions()]
        return own + [group for group in self._remotes.groups() if group not in own]

    def _versions(self, group: str) -> list[str]:
        """Return the versions of a group, the preferred one first."""
        own = self._registry.versions_of(group)
        other = [remote.version for remote in self._remotes.versions(group)]
        return [*by_priority([v for v in own if v not in other]), *other]

    def _group_list(self, groups: list[str]) -> Object:
        return {
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": [self._group(group) for group in groups],
        }

    def _group(self, group: str, *, tagged: bool = False) -> Object:
        versions = [
            {"groupVersion": f"{group}/{version}", "version": version}
            for version in self._versions(group)
        ]
        head: Object = {"kind": "APIGroup", "apiVersion": "v1"} if tagged else {}
        return {**head, "name": group, "versions": versions, "preferredVersion": versions[0]}

    def _kinds(self, group: str, version: str) -> list[Kind]:
        found = self._registry.of_version(group, version)
        return sorted(found, key=lambda kind: kind.resource)

    def _resources(self, group: str, version: str) -> Object | None:
        kinds = self._kinds(group, version)
        if not kinds:
            return None
        resources: list[Object] = []
        for kind in kinds:
            resources.append(_resource(kind))
            resources.extend(_subresource(kind, sub) for sub in subresources_of(kind))
        found: Object = {"kind": "APIResourceList"}
        if group:  # the core group's list has no version, since before there were any
            found["apiVersion"] = "v1"
        found["groupVersion"] = f"{group}/{version}" if group else version
        found["resources"] = resources
        return found

    def _aggregated(self, groups: list[str]) -> Object:
        return {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": "apidiscovery.k8s.io/v2",
            "metadata": {},
            "items": [self._aggregated_group(group) for group in groups],
        }

    def _aggregated_group(self, group: str) -> Object:
        versions = [self._aggregated_version(group, each) for each in self._versions(group)]
        metadata: Object = {"name": group, "creationTimestamp": None} if group else {}
        return {"metadata": metadata or {"creationTimestamp": None}, "versions": versions}

    def _aggregated_version(self, group: str, version: str) -> Object:
        remote = self._remotes.get(group, version)
        if remote is not None:
            return remote.aggregated()
        return {
            "version": version,
            "resources": [_aggregated_resource(k) for k in self._kinds(group, version)],
            "freshness": "Current",
        }


_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?$")


def by_priority(versions: list[str]) -> list[str]:
    """Order versions as kubectl prefers them: stable before beta before alpha, newest first."""

    def rank(version: str) -> tuple[int, int, int, str]:
        match = _VERSION.match(version)
        if match is None:
            return (3, 0, 0, version)
        stage = {None: 0, "beta": 1, "alpha": 2}[match[2]]
        return (stage, -int(match[1]), -int(match[3] or 0), version)

    return sorted(versions, key=rank)


def _api_versions() -> Object:
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}],
    }


def _extras(kind: Kind) -> Object:
    out: Object = {}
    if kind.short_names:
        out["shortNames"] = list(kind.short_names)
    if kind.categories:
        out["categories"] = list(kind.categories)
    return out


def _resource(kind: Kind) -> Object:
    return {
        "name": kind.resource,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(kind.verbs),
        **_extras(kind),
        **_stored_as(kind),
    }


def _stored_as(kind: Kind) -> Object:
    """Return the hash by which clients see that the stored version has changed."""
    if not kind.stored:
        return {}
    group = kind.storage[0] if kind.storage[1] else kind.group
    version = kind.storage_version or kind.version
    digest = sha256(f"{group}/{version}/{kind.kind}".encode()).digest()
    return {"storageVersionHash": b64encode(digest[:8]).decode()}


def _subresource(kind: Kind, sub: Subresource) -> Object:
    where: Object = {"group": sub.group, "version": sub.version} if sub.version else {}
    return {
        "name": f"{kind.resource}/{sub.name}",
        "singularName": "",
        "namespaced": kind.namespaced,
        **where,
        "kind": sub.kind,
        "verbs": list(sub.verbs),
    }


def _response_kind(kind: str, group: str = "", version: str = "") -> Object:
    return {"group": group, "version": version, "kind": kind}


def _aggregated_resource(kind: Kind) -> Object:
    where = (kind.group, kind.version) if kind.custom else ("", "")
    out: Object = {
        "resource": kind.resource,
        "responseKind": _response_kind(kind.kind, *where),
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(kind.verbs),
        **_extras(kind),
    }
    subs = [
        {
            "subresource": sub.name,
            "responseKind": _response_kind(sub.kind, sub.group, sub.version)
            if sub.version
            else _response_kind(sub.kind, *where),
            "verbs": list(sub.verbs),
        }
        for sub in subresources_of(kind)
    ]
    if subs:
        out["subresources"] = subs
    return out
