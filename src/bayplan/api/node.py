# ruff: noqa: RUF012 - msgspec copies empty mutable defaults
"""Nodes and namespaces, as far as scheduling reads them."""

from typing import ClassVar

from bayplan.api.meta import Condition, Model, Object, Resources


class Taint(Model, frozen=True):
    """Keeps pods away that do not tolerate it."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Model, frozen=True):
    """`spec` of a node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    provider_id: str = ""


class ContainerImage(Model, frozen=True):
    """An image present on a node."""

    names: tuple[str, ...] = ()
    size_bytes: int = 0


class NodeStatus(Model, frozen=True):
    """`status` of a node."""

    capacity: Resources = {}
    allocatable: Resources = {}
    conditions: tuple[Condition, ...] = ()
    images: tuple[ContainerImage, ...] = ()
    declared_features: tuple[str, ...] = ()


class Node(Object, kw_only=True, frozen=True):
    """A node."""

    KIND: ClassVar[str] = "Node"
    RESOURCE: ClassVar[str] = "nodes"

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class Namespace(Object, kw_only=True, frozen=True):
    """A namespace; only its labels matter."""

    KIND: ClassVar[str] = "Namespace"
    RESOURCE: ClassVar[str] = "namespaces"
