"""The fewest nodes by trying everything: slow, plain, and written apart from what it judges.

Nodes are taken in turn, zone by zone; for each every load that it could have is tried. Two ways to
come to the same point (pods left, counts that rules will ask for) are one, the cheaper of them.
"""

import itertools
from dataclasses import dataclass, field
from functools import lru_cache
from operator import add, sub

HOST, ZONE = "host", "zone"


@dataclass(frozen=True)
class NodeSpec:
    cpu: int
    memory: int
    zone: str
    pool: str = ""
    tainted: bool = False


@dataclass(frozen=True)
class PodSpec:
    """Equal pods and what they ask for; other kinds of pods are named by number."""

    count: int
    cpu: int
    memory: int = 0
    pool: str = ""
    tolerates: bool = False
    port: int = 0
    apart: tuple[tuple[int, str], ...] = ()
    """(kind, host or zone): no pod of that kind in the same domain."""
    near: tuple[tuple[int, str], ...] = ()
    """At most one: some other pod of that kind in the same domain."""
    spread: tuple[tuple[str, int], ...] = ()
    """(host or zone, skew) among its own kind."""


@dataclass(frozen=True)
class Instance:
    nodes: tuple[NodeSpec, ...]
    kinds: tuple[PodSpec, ...] = field(default=())


def fewest(instance):
    """The fewest nodes in use, None if there is no placement at all."""
    kinds = instance.kinds
    zones = sorted({node.zone for node in instance.nodes})
    wanted = tuple(kind.count for kind in kinds)
    none = (0,) * len(kinds)
    hosts = tuple((10**6, 0) for _ in kinds)  # least and most pods of a kind on any node
    states = {(wanted, hosts, ()): 0}
    for zone in zones:
        here = {(left, hosts, none, done): n for (left, hosts, done), n in states.items()}
        for node in sorted((n for n in instance.nodes if n.zone == zone), key=repr):
            here = _node(instance, node, here)
        states = {}
        for (left, hosts, counts, done), n in here.items():
            if zone_is_fine(instance, counts):
                _keep(states, (left, hosts, (*done, counts)), n)
    ends = [
        n
        for (left, hosts, done), n in states.items()
        if left == none and _spread_is_fine(instance, hosts, done)
    ]
    return min(ends, default=None)


def _node(instance, node, states):
    by_host = tuple(any(key == HOST for key, _ in kind.spread) for kind in instance.kinds)
    after = {}
    for (left, hosts, counts, done), n in states.items():
        for load in _fine_loads(instance, node):
            rest = tuple(map(sub, left, load))
            if min(rest) < 0:
                continue
            seen = hosts
            if any(by_host):
                seen = tuple(
                    (min(low, a), max(high, a)) if counted else (low, high)
                    for (low, high), a, counted in zip(hosts, load, by_host, strict=True)
                )
            total = tuple(map(add, load, counts))
            _keep(after, (rest, seen, total, done), n + any(load))
    return after


@lru_cache(maxsize=64)
def _fine_loads(instance, node):
    return [load for load in _loads(instance, node) if node_is_fine(instance, load)]


def _keep(states, key, n):
    if n < states.get(key, 10**6):
        states[key] = n


def _loads(instance, node):
    ranges = []
    for kind in instance.kinds:
        allowed = (not kind.pool or kind.pool == node.pool) and (kind.tolerates or not node.tainted)
        most = kind.count if allowed else 0
        for need, room in ((kind.cpu, node.cpu), (kind.memory, node.memory)):
            if need:
                most = min(most, room // need)
        ranges.append(range(most + 1))
    for load in itertools.product(*ranges):
        cpu = sum(n * kind.cpu for n, kind in zip(load, instance.kinds, strict=True))
        memory = sum(n * kind.memory for n, kind in zip(load, instance.kinds, strict=True))
        if cpu <= node.cpu and memory <= node.memory:
            yield load


def node_is_fine(instance, load):
    ports = [k.port for k, n in zip(instance.kinds, load, strict=True) for _ in range(n) if k.port]
    return len(ports) == len(set(ports)) and _domain_is_fine(instance, load, HOST)


def zone_is_fine(instance, counts):
    return _domain_is_fine(instance, counts, ZONE)


def _domain_is_fine(instance, counts, key):
    for number, kind in enumerate(instance.kinds):
        if not counts[number]:
            continue
        for other, where in kind.apart:
            if where == key and counts[other] - (other == number) > 0:
                return False
        for other, where in kind.near:
            if where != key:
                continue
            alone = other == number and kind.count == 1
            if not alone and counts[other] - (other == number) < 1:
                return False
    return True


def _spread_is_fine(instance, hosts, zones):
    for number, kind in enumerate(instance.kinds):
        for key, skew in kind.spread:
            counts = hosts[number] if key == HOST else [zone[number] for zone in zones]
            if max(counts) - min(counts) > skew:
                return False
    return True
