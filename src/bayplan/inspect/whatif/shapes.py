"""Nodes that do not exist yet: like one that does, of an instance type, or given by numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from bayplan.api import Node, NodeSpec, NodeStatus, ObjectMeta, Taint
from bayplan.api.meta import Quantity
from bayplan.api.quantity import QuantityError, parse
from bayplan.inspect.errors import unknown
from bayplan.inspect.whatif.changes import BadChange

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
STATE_TAINTS = "node.kubernetes.io/"
"""Taints that a node gets from its state; a new node starts without."""
PODS = "110"
NATIVE = ("cpu", "memory", "pods", "ephemeral-storage")
NUMBERED = ("hugepages-", "attachable-volumes-")
"""Resources without a domain, and how others of them begin."""


def new_nodes(count: int, shape: str, nodes: Mapping[str, Node]) -> Iterator[Node]:
    """Nodes of a shape, with names that are free."""
    base, stem = _base(shape, nodes)
    number = 0
    for _ in range(count):
        number += 1
        while f"{stem}-new-{number}" in nodes:
            number += 1
        yield named(base, f"{stem}-new-{number}")


def named(base: Node, name: str) -> Node:
    """The same node under another name."""
    labels = {**base.labels, HOSTNAME: name}
    taints = tuple(t for t in base.spec.taints if not t.key.startswith(STATE_TAINTS))
    return Node(
        metadata=ObjectMeta(name=name, uid=name, labels=labels, annotations=base.annotations),
        spec=NodeSpec(taints=taints),
        status=replace(base.status, conditions=()),
    )


def _base(shape: str, nodes: Mapping[str, Node]) -> tuple[Node, str]:
    head, _, rest = shape.partition(",")
    if "=" in head:
        return _given(shape), "node"
    found = nodes.get(head) or _of_type(head, nodes)
    if found is None:
        types = {node.labels.get(INSTANCE_TYPE, "") for node in nodes.values()} - {""}
        raise unknown("node or instance type", head, [*types, *nodes])
    return (_changed(found, rest) if rest else found), found.name


def _of_type(name: str, nodes: Mapping[str, Node]) -> Node | None:
    fitting = (n for n in nodes.values() if n.labels.get(INSTANCE_TYPE) == name)
    return min(fitting, key=lambda node: node.name, default=None)


def _given(shape: str) -> Node:
    empty = Node(metadata=ObjectMeta(name="node"), status=NodeStatus(allocatable={"pods": PODS}))
    node = _changed(empty, shape)
    missing = [name for name in ("cpu", "memory") if name not in node.status.allocatable]
    if missing:
        raise BadChange(
            f"--add {shape}: {' and '.join(missing)} must be given, as in cpu=8,memory=32Gi"
        )
    return node


def _changed(node: Node, text: str) -> Node:
    """A node with `zone=`, `label.KEY=`, `taint=KEY=VALUE:EFFECT` and amounts written over it."""
    labels, taints = dict(node.labels), list(node.spec.taints)
    amounts: dict[str, Quantity] = dict(node.status.allocatable)
    for item in text.split(","):
        key, sign, value = item.strip().partition("=")
        if not sign or not value:
            raise BadChange(f'--add …{text}: "{item}" is not KEY=VALUE')
        if key == "zone":
            labels[ZONE] = value
        elif key.startswith("label."):
            labels[key.removeprefix("label.")] = value
        elif key == "taint":
            taints.append(_taint(value))
        else:
            if "/" not in key and key not in NATIVE and not key.startswith(NUMBERED):
                known = f"use {', '.join(NATIVE)} or DOMAIN/NAME, such as nvidia.com/gpu"
                raise BadChange(f'--add …{text}: "{key}" is no resource of nodes; {known}')
            try:
                negative = parse(value).nanos < 0
            except QuantityError as problem:
                said = f'--add …{text}: {key}: "{value}" is no amount, such as 2, 500m or 4Gi'
                raise BadChange(said) from problem
            if negative:
                raise BadChange(
                    f'--add …{text}: {key}: "{value}" is below 0; write as in cpu=8,memory=32Gi'
                )
            amounts[key] = value
    return replace(
        node,
        metadata=replace(node.metadata, labels=labels),
        spec=replace(node.spec, taints=tuple(taints)),
        status=replace(node.status, allocatable=amounts, capacity=amounts),
    )


def _taint(text: str) -> Taint:
    body, sign, effect = text.rpartition(":")
    if not sign or effect not in ("NoSchedule", "PreferNoSchedule", "NoExecute"):
        raise BadChange(f'--add …: taint "{text}" is not KEY=VALUE:NoSchedule')
    key, _, value = body.partition("=")
    return Taint(key, value, effect)
