"""Expressions of admission: match conditions, policies, messages, mutations.

They see `object`, `oldObject`, `request`, `namespaceObject`, `params`, `variables` and
`authorizer`. Objects are dynamic, as upstream has them when a policy is run; `request` is typed, so
mistakes in it are found when the policy is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from bayplan.api.user import User
from bayplan.apiserver.admission import Attributes
from bayplan.apiserver.authorization import Action, Authorizer
from bayplan.apiserver.codec import Object
from bayplan.apiserver.request import Request
from bayplan.cel import types as t
from bayplan.cel.environment import Environment, base_library
from bayplan.cel.errors import CostExceeded
from bayplan.cel.kubernetes import PATCHES
from bayplan.cel.overloads import KNOWN, Declaring, Library, join
from bayplan.cel.program import Frame

_REQUEST = "kubernetes.AdmissionRequest"
_STRINGS = t.list_of(t.STRING)


def _struct(named: str, /, **fields: t.Type) -> tuple[t.Type, dict[str, dict[str, t.Type]]]:
    return t.struct(named), {named: dict(fields)}


def _request_structs() -> dict[str, dict[str, t.Type]]:
    kind, kinds = _struct(
        "kubernetes.GroupVersionKind", group=t.STRING, version=t.STRING, kind=t.STRING
    )
    resource, resources = _struct(
        "kubernetes.GroupVersionResource", group=t.STRING, version=t.STRING, resource=t.STRING
    )
    user, users = _struct(
        "kubernetes.UserInfo",
        username=t.STRING,
        uid=t.STRING,
        groups=_STRINGS,
        extra=t.map_of(t.STRING, _STRINGS),
    )
    _, whole = _struct(
        _REQUEST,
        kind=kind,
        resource=resource,
        subResource=t.STRING,
        requestKind=kind,
        requestResource=resource,
        requestSubResource=t.STRING,
        name=t.STRING,
        namespace=t.STRING,
        operation=t.STRING,
        userInfo=user,
        dryRun=t.BOOL,
        options=t.DYN,
    )
    return {**kinds, **resources, **users, **whole}


@dataclass(frozen=True)
class Asking:
    """A question to the authorizer, as it is put together: `group("").resource("pods")…`."""

    authorizer: Authorizer
    user: User
    action: Action
    cel_type: str = "kubernetes.authorization.Authorizer"

    def about(self, cel_type: str, **changed: str) -> Asking:
        kind = f"kubernetes.authorization.{cel_type}"
        return replace(self, action=self.action._replace(**changed), cel_type=kind)


@dataclass(frozen=True)
class Decision:
    allowed: bool
    reason: str
    cel_type: str = "kubernetes.authorization.Decision"


def _check(asking: Asking, verb: str) -> Decision:
    allowed, reason = asking.authorizer.allows(asking.user, asking.action._replace(verb=verb))
    return Decision(allowed, reason)


def _service_account(asking: Asking, namespace: str, name: str) -> Asking:
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    user = User(f"system:serviceaccount:{namespace}:{name}", (*groups, "system:authenticated"))
    return replace(asking, user=user)


@lru_cache(maxsize=1)
def _library() -> Library:
    declare = Declaring()
    add = declare.add
    add("path", "authorizer_path", "authorizer.(string) pathcheck",
        lambda a, path: a.about("PathCheck", path=path))  # fmt: skip
    add("group", "authorizer_group", "authorizer.(string) groupcheck",
        lambda a, group: a.about("GroupCheck", group=group))  # fmt: skip
    add("serviceAccount", "authorizer_serviceaccount", "authorizer.(string, string) authorizer",
        _service_account)  # fmt: skip
    add("resource", "groupcheck_resource", "groupcheck.(string) resourcecheck",
        lambda a, resource: a.about("ResourceCheck", resource=resource))  # fmt: skip
    for name in ("subresource", "namespace", "name"):
        add(name, f"resourcecheck_{name}", "resourcecheck.(string) resourcecheck",
            lambda a, value, name=name: a.about("ResourceCheck", **{name: value}))  # fmt: skip
    for name in ("fieldSelector", "labelSelector"):
        add(name, f"authorizer_{name.lower()}", "resourcecheck.(string) resourcecheck",
            lambda a, selector: a)  # fmt: skip
    add("check", "pathcheck_check", "pathcheck.(string) decision", _check)
    add("check", "resourcecheck_check", "resourcecheck.(string) decision", _check)
    add("allowed", "decision_allowed", "decision.() bool", lambda d: d.allowed)
    add("reason", "decision_reason", "decision.() string", lambda d: d.reason)
    add("errored", "decision_errored", "decision.() bool", lambda d: False)
    add("error", "decision_error", "decision.() string", lambda d: "")
    return join((base_library(), declare.library, PATCHES.library))


def environment(*, params: bool, variables: Mapping[str, t.Type] | None = None) -> Environment:
    """Where expressions of admission are compiled; `variables` are the policy's own."""
    known = {
        "object": t.DYN,
        "oldObject": t.DYN,
        "request": t.struct(_REQUEST),
        "namespaceObject": t.DYN,
        "authorizer": KNOWN["authorizer"],
        "authorizer.requestResource": KNOWN["resourcecheck"],
    }
    structs = _request_structs()
    if params:
        known["params"] = t.DYN
    if variables is not None:
        known["variables"] = t.struct("kubernetes.variables")
        structs["kubernetes.variables"] = dict(variables)
    return Environment(known, structs=structs, library=_library())


def activation(
    attrs: Attributes, request: Request, authorizer: Authorizer, namespace: Object | None
) -> dict[str, Any]:
    """The values that expressions see."""
    asking = Asking(authorizer, request.user, Action(""))
    resource = asking.about(
        "ResourceCheck",
        group=attrs.group,
        resource=attrs.resource,
        subresource=attrs.subresource,
        namespace=attrs.namespace,
        name=attrs.name,
    )
    return {
        "object": attrs.obj or None,
        "oldObject": attrs.old,
        "request": describe(attrs, request),
        "namespaceObject": namespace,
        "authorizer": asking,
        "authorizer.requestResource": resource,
    }


def describe(attrs: Attributes, request: Request) -> Object:
    """A write as AdmissionRequest tells it, without its objects."""
    kind = request.kind
    shown = {"group": attrs.group, "version": attrs.version}
    given = {"group": kind.group, "version": kind.version}
    return {
        "kind": {**shown, "kind": kind.kind},
        "resource": {**shown, "resource": attrs.resource},
        "subResource": attrs.subresource,
        "requestKind": {**given, "kind": kind.kind},
        "requestResource": {**given, "resource": kind.resource},
        "requestSubResource": attrs.subresource,
        "name": attrs.name,
        "namespace": attrs.namespace,
        "operation": attrs.operation,
        "userInfo": user_info(request.user),
        "dryRun": attrs.dry_run,
        "options": options(attrs, request),
    }


def user_info(user: User) -> Object:
    found: Object = {"username": user.name, "uid": user.uid, "groups": list(user.groups)}
    found["extra"] = {key: list(values) for key, values in user.extra}
    return found


def options(attrs: Attributes, request: Request) -> Object:
    kind = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}
    name = "PatchOptions" if request.verb == "patch" else kind[attrs.operation]
    found: Object = {"kind": name, "apiVersion": "meta.k8s.io/v1"}
    for key in ("fieldManager", "fieldValidation"):
        if request.query.get(key):
            found[key] = request.query[key]
    if attrs.dry_run:
        found["dryRun"] = ["All"]
    return found


class Budget:
    """What the expressions of one policy may still cost, beside the limit of each."""

    def __init__(self, left: int) -> None:
        self.left = left

    def frame(self, variables: dict[str, Any], limit: int) -> Frame:
        if self.left <= 0:
            raise CostExceeded
        return Frame(variables, min(limit, self.left))

    def spent(self, frame: Frame) -> None:
        self.left -= frame.cost
