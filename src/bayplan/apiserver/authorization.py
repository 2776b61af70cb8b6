"""Who may do what: everything (AlwaysAllow), or what RBAC objects grant.

Roles and bindings are read from the store when a decision needs them and cached by the store's
revision, so a new binding counts from the next request on. Members of system:masters may do
everything. Rules of aggregated ClusterRoles are computed here, not written back.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

import msgspec

from bayplan.api.labels import SelectorError, compile_selector
from bayplan.api.meta import LabelSelector
from bayplan.api.user import User
from bayplan.apiserver.auth import MASTERS
from bayplan.apiserver.codec import Object
from bayplan.apiserver.reader import CachedReader

RBAC = "rbac.authorization.k8s.io"


class Action(NamedTuple):
    """What someone wants to do; `path` is set instead of a resource for other URLs."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""


class Authorizer(Protocol):
    """Decides whether a user may do something."""

    def allows(self, user: User, action: Action) -> tuple[bool, str]:
        """Return the decision and, where there is one, the reason."""

    def rules(self, user: User, namespace: str) -> list[Object]:
        """Return the RBAC rules that apply to a user in a namespace."""

    def rules_of(self, reference: Object, namespace: str) -> list[Object] | None:
        """Return the rules of the role that a binding names; None if there is no such role."""


class AlwaysAllow:
    """Everyone who is authenticated may do everything."""

    def allows(self, user: User, action: Action) -> tuple[bool, str]:
        return True, ""

    def rules(self, user: User, namespace: str) -> list[Object]:
        return [
            {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
            {"verbs": ["*"], "nonResourceURLs": ["*"]},
        ]

    def rules_of(self, reference: Object, namespace: str) -> list[Object] | None:
        return []


class OnLoop:
    """Decides on the event loop, whoever asks: the caches behind a decision belong to it."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self.rules, self.rules_of = authorizer.rules, authorizer.rules_of

    def allows(self, user: User, action: Action) -> tuple[bool, str]:
        if threading.get_ident() == self._thread:
            return self._authorizer.allows(user, action)
        return asyncio.run_coroutine_threadsafe(self._allows(user, action), self._loop).result()

    async def _allows(self, user: User, action: Action) -> tuple[bool, str]:
        return self._authorizer.allows(user, action)


class Rbac:
    """Grants what Roles and ClusterRoles allow their subjects."""

    def __init__(self, reader: CachedReader) -> None:
        self._reader = reader

    def allows(self, user: User, action: Action) -> tuple[bool, str]:
        if MASTERS in user.groups:
            return True, ""
        for rules, source in self._granted(user, action.namespace):
            if any(rule_allows(rule, action) for rule in rules):
                return True, f"RBAC: allowed by {source}"
        return False, ""

    def rules(self, user: User, namespace: str) -> list[Object]:
        if MASTERS in user.groups:
            return AlwaysAllow().rules(user, namespace)
        return [rule for rules, _ in self._granted(user, namespace) for rule in rules]

    def _granted(self, user: User, namespace: str) -> Iterator[tuple[list[Object], str]]:
        for binding in self._reader.list(RBAC, "clusterrolebindings"):
            if binds(binding, user, ""):
                yield self._rules_by(binding, ""), _source(binding, user)
        if namespace:
            for binding in self._reader.list(RBAC, "rolebindings", namespace):
                if binds(binding, user, namespace):
                    yield self._rules_by(binding, namespace), _source(binding, user)

    def _rules_by(self, binding: Object, namespace: str) -> list[Object]:
        return self.rules_of(binding.get("roleRef") or {}, namespace) or []

    def rules_of(self, reference: Object, namespace: str) -> list[Object] | None:
        name = reference.get("name", "")
        if reference.get("kind") == "Role":
            role = self._reader.get(RBAC, "roles", namespace, name)
            return None if role is None else role.get("rules") or []
        role = self._reader.get(RBAC, "clusterroles", "", name)
        if role is None:
            return None
        return [*(role.get("rules") or []), *self._aggregated(role)]

    def _aggregated(self, role: Object) -> Iterator[Object]:
        selectors = (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ()
        for selector in selectors:
            try:
                compiled = compile_selector(msgspec.convert(selector, LabelSelector))
            except (SelectorError, msgspec.ValidationError):
                continue
            for other in self._reader.list(RBAC, "clusterroles"):
                labels = other["metadata"].get("labels") or {}
                if other["metadata"]["name"] != role["metadata"]["name"] and compiled.matches(
                    labels
                ):
                    yield from other.get("rules") or ()


def _source(binding: Object, user: User) -> str:
    metadata, role = binding["metadata"], binding.get("roleRef") or {}
    where = f"/{metadata['namespace']}" if metadata.get("namespace") else ""
    return (
        f'{binding["kind"]} "{metadata["name"]}{where}" of {role.get("kind")} "{role.get("name")}" '
        f'to User "{user.name}"'
    )


def binds(binding: Object, user: User, namespace: str) -> bool:
    """Say whether one of a binding's subjects is this user."""
    for subject in binding.get("subjects") or ():
        kind, name = subject.get("kind"), subject.get("name")
        if kind == "User" and name == user.name:
            return True
        if kind == "Group" and name in user.groups:
            return True
        if kind == "ServiceAccount":
            where = subject.get("namespace") or namespace
            if user.name == f"system:serviceaccount:{where}:{name}":
                return True
    return False


def rule_allows(rule: Object, action: Action) -> bool:
    """Say whether one rule of a role allows an action."""
    if not _in(rule.get("verbs"), action.verb):
        return False
    if action.path:
        return any(_path_matches(p, action.path) for p in rule.get("nonResourceURLs") or ())
    if not _in(rule.get("apiGroups"), action.group):
        return False
    names = rule.get("resourceNames") or ()
    if names and action.name not in names:
        return False
    return _resource_matches(rule.get("resources") or (), action)


def _in(allowed: Iterable[str] | None, wanted: str) -> bool:
    return any(item in ("*", wanted) for item in allowed or ())


def _path_matches(pattern: str, path: str) -> bool:
    if pattern in ("*", path):
        return True
    return pattern.endswith("*") and path.startswith(pattern[:-1])


def _resource_matches(resources: Iterable[str], action: Action) -> bool:
    wanted = f"{action.resource}/{action.subresource}" if action.subresource else action.resource
    for resource in resources:
        if resource in ("*", wanted):
            return True
        if action.subresource and resource == f"*/{action.subresource}":
            return True
    return False
