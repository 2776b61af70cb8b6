"""Hypothesis strategies for random clusters and pods, small enough to hit every rule often.

Vocabularies are tiny on purpose: few label keys, zones, ports and disks, so that selectors match,
pods collide and domains are shared. `clusters()` gives a `DrawnCluster`: plain lists of structs,
ready for the scalar reference and for the engine alike. Needs hypothesis, a development dependency.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy, composite

from bayplan.api import Namespace, Node, Pod, PodDisruptionBudget, Service
from bayplan.testing.builders import HOSTNAME, ZONE, NodeBuilder, PodBuilder, make_node, make_pod
from bayplan.testing.kinds import make_budget, make_namespace, make_service

NAMESPACES = ("default", "team-a", "team-b")
TEAMS = {"default": {}, "team-a": {"team": "a", "env": "prod"}, "team-b": {"team": "b"}}
APPS = ("web", "db", "cache")
ZONES = ("z1", "z2", "z3")
TOPOLOGY_KEYS = (ZONE, ZONE, HOSTNAME, "rack")
EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")
CPUS = ("0", "1m", "100m", "250m", "1", "2500m")
MEMORIES = ("0", "1Mi", "100M", "1Gi", "3Gi")
IMAGES = ("registry.example/web:v1", "registry.example/db", "registry.example/big:v2")
EXTENDED = "example.com/gpu"


@dataclass
class DrawnCluster:
    """What a decision is made on."""

    nodes: list[Node] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)
    services: list[Service] = field(default_factory=list)
    namespaces: list[Namespace] = field(default_factory=list)
    budgets: list[PodDisruptionBudget] = field(default_factory=list)


_T = TypeVar("_T")
_KEPT: dict[tuple[Any, ...], SearchStrategy[Any]] = {}


def _among(values: tuple[_T, ...]) -> SearchStrategy[_T]:
    """`sampled_from`, made once for equal values: making one takes longer than drawing from it."""
    if values not in _KEPT:
        _KEPT[values] = st.sampled_from(values)
    return _KEPT[values]


@cache
def label_sets() -> SearchStrategy[dict[str, str]]:
    """Labels of a pod."""
    return st.fixed_dictionaries(
        {},
        optional={
            "app": _among(APPS),
            "ver": _among(("1", "2")),
            "tier": _among(("front", "back")),
        },
    )


SELECTORS = (
    "app=web",
    "app=db",
    "app in (web,cache)",
    "app notin (web)",
    "app",
    "!tier",
    "ver=1,app",
    "tier!=back",
    "",
    None,
)
NAMESPACE_SELECTORS = ("team=a", "team", "!team", "env notin (prod)", "")
NODE_SELECTORS = st.sampled_from(({"disk": "ssd"}, {ZONE: "z1"}, {}))
NODE_REQUIREMENTS = (
    f"{ZONE} in (z1,z2)",
    f"{ZONE} notin (z3)",
    "gen>2",
    "gen<2",
    "disk=ssd",
    "!disk",
    "rack",
)


@composite
def nodes(draw: DrawFn, name: str = "node") -> Node:
    """One node."""
    builder = make_node(name).capacity(
        cpu=draw(_among(("1", "2", "4", "3500m"))),
        memory=draw(_among(("2Gi", "4Gi", "8Gi"))),
        pods=draw(_among((2, 5, 110, 110))),
    )
    if zone := draw(_among((*ZONES, ""))):
        builder.zone(zone)
    optional = {"rack": ("r1", "r2"), "disk": ("ssd",), "gen": ("1", "2", "3", "x")}
    for key, values in optional.items():
        if value := draw(_among((*values, "", ""))):
            builder.label({key: value})
    for _ in range(draw(_among((0, 0, 0, 1, 2)))):
        taint = draw(st.tuples(_among(("gpu", "old")), _among(EFFECTS)))
        builder.taint(*taint, value=draw(_among(("", "yes"))))
    if draw(st.integers(0, 9)) == 0:
        builder.cordon()
    if draw(st.booleans()):
        builder.capacity({EXTENDED: draw(st.integers(0, 4))})
    _images(draw, builder)
    return builder.build()


def _images(draw: DrawFn, builder: NodeBuilder) -> None:
    sizes = {IMAGES[0]: 40_000_000, f"{IMAGES[1]}:latest": 400_000_000, IMAGES[2]: 3_000_000_000}
    for name, size in sizes.items():
        if draw(st.integers(0, 2)) == 0:
            builder.image(name, size)


@composite
def pods(
    draw: DrawFn,
    name: str = "pod",
    node: str = "",
    namespace: str | None = None,
    about: str = "",
) -> Pod:
    """One pod; with a node it is bound there. With a plugin's name it has what that looks at."""
    builder = make_pod(name, namespace or draw(_among(NAMESPACES)))
    builder.label(draw(label_sets())).image(draw(_among(IMAGES)))
    _requests(draw, builder)
    if draw(st.booleans()):
        builder.priority(draw(_among((-5, 0, 10, 100))))
    for feature in draw(_features(about)):
        feature(draw, builder)
    if node:
        builder.node(node).started(f"2026-01-01T00:00:{draw(st.integers(0, 59)):02}Z")
        if draw(st.integers(0, 7)) == 0:
            builder.terminating()
    return builder.build()


def _requests(draw: DrawFn, builder: PodBuilder) -> None:
    found: dict[str, Any] = {}
    if draw(st.booleans()):
        found["cpu"] = draw(_among(CPUS))
    if draw(st.booleans()):
        found["memory"] = draw(_among(MEMORIES))
    if draw(st.integers(0, 5)) == 0:
        found[EXTENDED] = draw(st.integers(0, 2))
    builder.req(found)
    if draw(st.integers(0, 4)) == 0:
        builder.init(sidecar=draw(st.booleans()), cpu=draw(_among(CPUS)))
    if draw(st.integers(0, 6)) == 0:
        builder.pod_level(cpu=draw(_among(CPUS)))
    if draw(st.integers(0, 6)) == 0:
        builder.overhead(cpu="10m")


def _tolerations(draw: DrawFn, builder: PodBuilder) -> None:
    key, effect = draw(_among(("gpu", "old", ""))), draw(_among((*EFFECTS, "")))
    operator = draw(_among(("Exists", "Equal")))
    builder.tolerate(key, effect, operator=operator, value="yes" if operator == "Equal" else "")


def _node_selector(draw: DrawFn, builder: PodBuilder) -> None:
    builder.node_selector(draw(NODE_SELECTORS))


def _required_nodes(draw: DrawFn, builder: PodBuilder) -> None:
    for _ in range(draw(st.integers(1, 2))):
        builder.require_node(*draw(st.lists(_among(NODE_REQUIREMENTS), max_size=2)))


def _preferred_nodes(draw: DrawFn, builder: PodBuilder) -> None:
    for _ in range(draw(st.integers(1, 3))):
        builder.prefer_node(draw(st.integers(1, 100)), draw(_among(NODE_REQUIREMENTS)))


def _ports(draw: DrawFn, builder: PodBuilder) -> None:
    ip = draw(_among(("", "0.0.0.0", "127.0.0.1")))
    builder.host_port(draw(_among((80, 8080))), draw(_among(("TCP", "UDP"))), ip)


def _pod_affinity(draw: DrawFn, builder: PodBuilder) -> None:
    for _ in range(draw(st.integers(1, 2))):
        more: dict[str, Any] = {}
        if draw(st.integers(0, 2)) == 0:
            more["namespaces"] = draw(st.lists(_among(NAMESPACES), max_size=2))
        if draw(st.integers(0, 2)) == 0:
            more["namespaceSelector"] = draw(_among(NAMESPACE_SELECTORS))
        selector = draw(_among(SELECTORS))
        key = draw(_among(TOPOLOGY_KEYS))
        if draw(st.booleans()):
            add = draw(st.sampled_from((builder.near, builder.apart)))
            add(selector, key, **more)
        else:
            prefer = draw(st.sampled_from((builder.prefer_near, builder.prefer_apart)))
            prefer(draw(st.integers(1, 100)), selector, key, **more)


def _spread(draw: DrawFn, builder: PodBuilder) -> None:
    for _ in range(draw(st.integers(1, 2))):
        hard = draw(st.booleans())
        more: dict[str, Any] = {}
        if draw(st.integers(0, 2)) == 0:
            more["nodeTaintsPolicy"] = "Honor"
        if draw(st.integers(0, 2)) == 0:
            more["nodeAffinityPolicy"] = "Ignore"
        if draw(st.integers(0, 2)) == 0:
            more["matchLabelKeys"] = ["ver"]
        if hard and draw(st.integers(0, 2)) == 0:
            more["minDomains"] = draw(st.integers(1, 4))
        key = draw(_among(TOPOLOGY_KEYS))
        selector = draw(_among(SELECTORS))
        builder.spread(draw(st.integers(1, 3)), key, selector, hard=hard, **more)


_FEATURES = (
    _tolerations,
    _node_selector,
    _required_nodes,
    _preferred_nodes,
    _ports,
    _pod_affinity,
    _pod_affinity,
    _spread,
    _spread,
)


_ABOUT = {
    "TaintToleration": (_tolerations,),
    "NodeAffinity": (_node_selector, _required_nodes, _preferred_nodes),
    "NodePorts": (_ports,),
    "InterPodAffinity": (_pod_affinity,),
    "PodTopologySpread": (_spread, _spread, _tolerations, _required_nodes),
}


@cache
def _features(about: str) -> SearchStrategy[list[Callable[[DrawFn, PodBuilder], None]]]:
    chosen = st.sampled_from(_ABOUT.get(about, _FEATURES))
    return st.lists(chosen, min_size=bool(about), max_size=3, unique=True)


_node = cache(nodes)
_bound_pod = cache(pods)


@composite
def clusters(
    draw: DrawFn, *, max_nodes: int = 6, max_pods: int = 10, about: str = ""
) -> DrawnCluster:
    """Nodes with pods bound to them, services, namespaces and budgets; `about` as for `pods`."""
    found = [draw(_node(f"n{i}")) for i in range(draw(st.integers(1, max_nodes)))]
    names = [node.name for node in found]
    placed = [
        draw(_bound_pod(f"p{i}", draw(_among(tuple(names))), about=about))
        for i in range(draw(st.integers(0, max_pods)))
    ]
    services = [
        make_service(f"s{i}", draw(label_sets()), draw(_among(NAMESPACES))).build()
        for i in range(draw(st.integers(0, 2)))
    ]
    budgets = [
        make_budget(
            f"b{i}",
            draw(_among(SELECTORS)),
            draw(st.integers(0, 2)),
            draw(_among(NAMESPACES)),
        ).build()
        for i in range(draw(st.integers(0, 2)))
    ]
    namespaces = [make_namespace(name, labels).build() for name, labels in TEAMS.items()]
    return DrawnCluster(found, placed, services, namespaces, budgets)
