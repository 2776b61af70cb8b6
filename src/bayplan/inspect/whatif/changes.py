"""What a what-if changes, as data, and how it is written on a command line.

| written | means |
| --- | --- |
| `drain=NODE` or a label selector | cordon, then evict as `kubectl drain` does |
| `cordon=…`, `uncordon=…` | mark nodes (un)schedulable |
| `remove=…` | the nodes are gone, at once, with what ran there |
| `add=3xSHAPE` | nodes like NODE, of an instance type, or `cpu=8,memory=32Gi,zone=b` |
| `apply=FILE or DIR` | manifests, as `kubectl apply` |
| `delete=KIND/NAME` | a pod or an owner with its pods |
| `scale=deployment/web=30` | another number of replicas |
| `priority=deployment/web=CLASS or number` | the pods are made again with that priority |
| `request=deployment/web=cpu=500m,memory=1Gi` | the pods are made again with these requests |
| `patch=pod/web-0=[{"op": …}]` | the same with a JSON patch of the pod |
| `patch=node/NODE=[{"op": …}]` | the node changes: taints, labels, what it offers |

Changes are carried out in the order in which they are given. Parsing needs no cluster; what a name
stands for is looked up when the change is carried out, and an unknown one is an error with the
nearest names.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

import jsonpatch
import msgspec

from bayplan.api.quantity import QuantityError, nanos
from bayplan.inspect.errors import InspectError

MOST_NODES = 10_000  # twice what the largest cluster has that Kubernetes promises to bear
MOST_PODS = 300_000


class BadChange(InspectError):
    """A change is not written as it should be; the text shows how."""


class Change(msgspec.Struct, frozen=True, tag_field="change", tag=str.lower, rename="camel"):
    """Base of all changes."""

    @property
    def text(self) -> str:
        """The change as a person says it."""
        return f"{type(self).__name__.lower()} {self._what}"

    @property
    def _what(self) -> str:
        raise NotImplementedError


class OfNodes(Change, frozen=True):
    """Base of changes of nodes that a name or a label selector stands for."""

    nodes: str

    @property
    def _what(self) -> str:
        return self.nodes


class Drain(OfNodes, frozen=True):
    """Empty nodes in the way of `kubectl drain`."""


class Cordon(OfNodes, frozen=True):
    """Mark nodes unschedulable."""


class Uncordon(OfNodes, frozen=True):
    """Mark nodes schedulable."""


class Remove(OfNodes, frozen=True):
    """Lose nodes, with everything on them."""


class Add(Change, frozen=True):
    """Add nodes of a shape."""

    count: Annotated[int, msgspec.Meta(ge=1, le=MOST_NODES)]
    shape: str

    @property
    def _what(self) -> str:
        return f"{self.count} x {self.shape}"


class Apply(Change, frozen=True):
    """Apply manifests: of a file or folder, or given as they are."""

    path: str = ""
    documents: tuple[dict[str, Any], ...] = ()

    @property
    def _what(self) -> str:
        return self.path or f"{len(self.documents)} manifest(s)"


class OfOwner(Change, frozen=True, kw_only=True):
    """Base of changes of a pod or owner."""

    kind: str
    name: str
    namespace: str = ""

    @property
    def _what(self) -> str:
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.kind}/{self.name}{where}"


class Delete(OfOwner, frozen=True, kw_only=True):
    """Delete a pod, or an owner with its pods."""


class Scale(OfOwner, frozen=True, kw_only=True):
    """Give an owner another number of replicas."""

    replicas: Annotated[int, msgspec.Meta(ge=0, le=MOST_PODS)]

    @property
    def text(self) -> str:
        return f"scale {self._what} to {self.replicas}"


class Priority(OfOwner, frozen=True, kw_only=True):
    """Give an owner's pods another priority: a class's name or a number."""

    priority: str

    @property
    def text(self) -> str:
        return f"priority of {self._what} to {self.priority}"


class Request(OfOwner, frozen=True, kw_only=True):
    """Give all containers of an owner's pods, or of one pod, other requests."""

    requests: dict[str, str]

    @property
    def text(self) -> str:
        amounts = ",".join(f"{name}={amount}" for name, amount in self.requests.items())
        return f"request of {self._what} to {amounts}"


class Patch(OfOwner, frozen=True, kw_only=True):
    """Make an owner's pods, or one pod, again with a JSON patch applied; or change a node."""

    patch: tuple[dict[str, Any], ...]

    @property
    def text(self) -> str:
        paths = ", ".join(str(op.get("path", "")) for op in self.patch)
        return f"patch {self._what} at {paths}"


NODE_WORDS = ("node", "nodes", "no")

AnyChange = (
    Drain | Cordon | Uncordon | Remove | Add | Apply | Delete | Scale | Priority | Request | Patch
)

LOWEST, HIGHEST = -(2**31), 1_000_000_000
"""What the value of a priority class of a user may be."""
_WHOLE = re.compile(r"-?[0-9]{1,10}\Z")
_ADD = re.compile(r"^\s*(?:(\d+)\s*x\s*)?(?:like\s+(?:node\s+)?)?(\S.*?)\s*$")
_EXAMPLES = {
    "add": "3xnode-1, 3xm5.large or 3xcpu=8,memory=32Gi,zone=b",
    "delete": "deployment/web or pod/web-0 (NAMESPACE/KIND/NAME for another namespace)",
    "scale": "deployment/web=30",
    "priority": "deployment/web=high-priority or deployment/web=1000",
    "patch": 'pod/web-0=[{"op": "add", "path": "/spec/priority", "value": 10}]',
    "request": "deployment/web=cpu=500m,memory=1Gi or pod/web-0=cpu=2",
}


_NODES: dict[str, type[Drain | Cordon | Uncordon | Remove]] = {
    "drain": Drain,
    "cordon": Cordon,
    "uncordon": Uncordon,
    "remove": Remove,
}


def parse_change(verb: str, text: str) -> AnyChange:
    """Read one change; raises BadChange, which shows how it is written."""
    value = text.strip()
    if not value:
        raise BadChange(f"--{verb} is empty; write --{verb} {_EXAMPLES.get(verb, 'NODE')}")
    if verb in _NODES:
        return _NODES[verb](value)
    if verb == "apply":
        return Apply(value)
    if verb == "add":
        return _add(value)
    if verb == "delete":
        return Delete(**_named(verb, value))
    if verb == "request":
        return _request(value)
    if verb == "patch":
        return _patch(value)
    if verb in ("scale", "priority"):
        return _assigned(verb, value)
    known = ", ".join((*_NODES, *_EXAMPLES, "apply"))
    raise BadChange(f'"{verb}" is not a change; use {known}')


def parse_changes(items: list[str]) -> list[AnyChange]:
    """Read changes written `verb=value`, as a program or a request gives them."""
    found = []
    for item in items:
        verb, sign, value = item.partition("=")
        if not sign:
            raise BadChange(f'change "{item}" has no value; write for example drain=node-1')
        found.append(parse_change(verb.strip(), value))
    return found


def _add(value: str) -> Add:
    match = _ADD.match(value)
    assert match is not None
    given = match.group(1) or "1"
    count = int(given) if len(given) < 10 else 0
    if not 0 < count <= MOST_NODES:
        raise BadChange(f"--add {value}: the number of nodes must be from 1 to {MOST_NODES}")
    return Add(count, match.group(2))


def _assigned(verb: str, value: str) -> Scale | Priority:
    target, sign, given = value.rpartition("=")
    if not sign or not given:
        raise BadChange(f"--{verb} {value}: no value is given; write --{verb} {_EXAMPLES[verb]}")
    named = _named(verb, target)
    if verb == "priority":
        if given.lstrip("-").isdigit() and not _is_priority(given):
            raise BadChange(
                f'--priority {value}: "{given}" is not from {LOWEST} to {HIGHEST}; '
                "for a system's priority name its class, as system-cluster-critical"
            )
        return Priority(**named, priority=given)
    if not (given.isascii() and given.isdigit()) or len(given) > 9 or int(given) > MOST_PODS:
        raise BadChange(
            f'--scale {value}: "{given}" is not a number of replicas from 0 to {MOST_PODS}'
        )
    return Scale(**named, replicas=int(given))


def _request(value: str) -> Request:
    target, _, given = value.partition("=")
    amounts = dict(part.strip().partition("=")[::2] for part in given.split(","))
    if not all(name and _is_amount(amount) for name, amount in amounts.items()):
        raise BadChange(f"--request {value}: write --request {_EXAMPLES['request']}")
    return Request(**_named("request", target), requests=amounts)


def _patch(value: str) -> Patch:
    target, _, given = value.partition("=")
    try:
        ops = msgspec.json.decode(given, type=tuple[dict[str, Any], ...])
        jsonpatch.JsonPatch(list(ops))
    except (msgspec.DecodeError, jsonpatch.InvalidJsonPatch) as problem:
        raise BadChange(f"--patch {value}: {problem}; write {_EXAMPLES['patch']}") from problem
    return Patch(**_named("patch", target), patch=ops)


def _is_priority(text: str) -> bool:
    """Whether a class of a user may have this number; system classes have higher ones."""
    return bool(_WHOLE.match(text)) and LOWEST <= int(text) <= HIGHEST


def _is_amount(text: str) -> bool:
    try:
        return nanos(text) >= 0
    except QuantityError:
        return False


def _named(verb: str, text: str) -> dict[str, str]:
    parts = text.split("/")
    if len(parts) not in (2, 3) or not all(parts):
        raise BadChange(f"--{verb} {text}: write {_EXAMPLES[verb]}")
    namespace = parts.pop(0) if len(parts) == 3 else ""
    return {"kind": parts[0].lower(), "name": parts[1], "namespace": namespace}
