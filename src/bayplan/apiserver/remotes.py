"""What is known of API servers behind this one: what they answer for, whether they do.

Plain data without a connection; `aggregation` looks at the servers and fills it in, discovery and
OpenAPI read it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from bayplan.api.meta import with_condition

GROUP, RESOURCE = "apiregistration.k8s.io", "apiservices"
Object = dict[str, Any]


class Resource(msgspec.Struct, rename="camel"):
    """A kind or subresource, as a server describes what it serves."""

    name: str | None = None
    singular_name: str | None = None
    namespaced: bool | None = None
    group: str | None = None
    version: str | None = None
    kind: str | None = None
    verbs: list[str] | None = None
    short_names: list[str] | None = None
    categories: list[str] | None = None


class Discovered(msgspec.Struct):
    """The list of what a server serves; anything of another shape is no answer."""

    resources: list[Resource] | None = None


class Remote:
    """One version of a group that another server answers for."""

    def __init__(self, obj: Object) -> None:
        spec = obj["spec"]
        service = spec["service"]
        self.name: str = obj["metadata"]["name"]
        self.group: str = spec.get("group", "")
        self.version: str = spec["version"]
        self.namespace: str = service.get("namespace", "")
        self.service_name: str = service.get("name", "")
        self.port: int = service.get("port") or 443
        self.bundle: str = spec.get("caBundle") or ""
        self.insecure = bool(spec.get("insecureSkipTLSVerify"))
        self.priority: tuple[int, int] = (
            spec.get("groupPriorityMinimum", 0),
            spec.get("versionPriority", 0),
        )
        self.available = False
        self.reason, self.message = "", ""
        self.resources: list[Resource] = []
        self.description = b""

    @property
    def key(self) -> tuple[str, str]:
        return self.group, self.version

    @property
    def place(self) -> tuple[object, ...]:
        """Return all that its APIService says of it."""
        where = self.namespace, self.service_name, self.port, self.bundle, self.insecure
        return *where, self.priority

    def seen(self, resources: list[Resource], description: bytes) -> None:
        """Note that it answered, and with what."""
        self.available, self.reason, self.message = True, "Passed", "all checks passed"
        self.resources = resources
        self.description = description

    def lost(self, reason: str, message: str) -> None:
        """Note that it does not answer."""
        self.available, self.reason, self.message = False, reason, message

    def told(self) -> tuple[object, ...]:
        """Return all that clients can see of it."""
        return self.available, self.reason, self.message, self.resources, self.description

    def conditions(self, known: list[Object] | None, now: str) -> list[Object]:
        """Return the conditions of the APIService's status."""
        made = {
            "type": "Available",
            "status": "True" if self.available else "False",
            "lastTransitionTime": now,
            "reason": self.reason,
            "message": self.message,
        }
        return with_condition(known, made, now)

    def aggregated(self) -> Object:
        """Return its part of an aggregated discovery document."""
        main: dict[str, Object] = {}
        for item in self.resources:
            name, _, sub = (item.name or "").partition("/")
            kind = {
                "group": item.group or "",
                "version": item.version or "",
                "kind": item.kind or "",
            }
            shown: Object = {"responseKind": kind, "verbs": item.verbs or []}
            if sub:
                owner = main.setdefault(name, {"resource": name})
                owner.setdefault("subresources", []).append({"subresource": sub, **shown})
                continue
            shown["resource"] = name
            shown["scope"] = "Namespaced" if item.namespaced else "Cluster"
            shown["singularResource"] = item.singular_name or ""
            if item.short_names:
                shown["shortNames"] = item.short_names
            if item.categories:
                shown["categories"] = item.categories
            main[name] = {**main.get(name, {}), **shown}
        freshness = "Current" if self.available else "Stale"
        return {
            "version": self.version,
            "resources": [main[name] for name in sorted(main)],
            "freshness": freshness,
        }


class Remotes:
    """The servers behind one server, by group and version."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, str], Remote] = {}

    def __bool__(self) -> bool:
        return bool(self.known)

    def replace(self, remotes: Iterable[Remote]) -> bool:
        """Know these and no others; say whether that changes what is served."""
        before = self.known
        self.known = {}
        for remote in remotes:
            known = before.get(remote.key)
            # One that is where it was stays the same, with what is being seen of it.
            self.known[remote.key] = known if known and known.place == remote.place else remote
        return before != self.known

    def get(self, group: str, version: str) -> Remote | None:
        return self.known.get((group, version))

    def versions(self, group: str) -> list[Remote]:
        """Return what is known of a group, the preferred version first."""
        found = [remote for remote in self.known.values() if remote.group == group]
        return sorted(found, key=lambda remote: -remote.priority[1])

    def groups(self) -> list[str]:
        """Return the groups, those with the higher priority first."""
        first: dict[str, int] = {}
        for remote in self.known.values():
            first[remote.group] = max(first.get(remote.group, 0), remote.priority[0])
        return sorted(first, key=lambda group: (-first[group], group))
