"""One engine kept through random changes, against the real scheduler made anew at every step.

A kept answer that was not renewed shows here: the cluster changes, another pod is asked about, and
the oracle starts from scratch each time. Changes are those that informers deliver: nodes, pods and
all else that scheduling reads come, change and go.
"""

from __future__ import annotations

import copy
from typing import Any

from bayplan.api import KINDS, Node, Pod, convert
from bayplan.config import FeatureGates, default_config, from_data
from bayplan.conformance.compare import differences, leaving
from bayplan.conformance.fuzz import MANY_TRIES, Difference, ours
from bayplan.conformance.known import Sides, known
from bayplan.conformance.oracle import Oracle
from bayplan.engine.engine import Engine
from bayplan.engine.replay import LATER, describe, load_objects
from bayplan.plugins import in_tree_registry
from bayplan.testing.cases.draw import Draw
from bayplan.testing.cases.families import FAMILIES, case, equipped
from bayplan.testing.cases.nodes import nodes
from bayplan.testing.cases.pods import running

Body = dict[str, Any]
OTHERS = {kind.RESOURCE.lower(): kind for kind in KINDS.values()}
KEPT = (
    *("mixed", "interpod", "softspread", "preempt", "spread", "defaultspread", "profiles"),
    *("volumes", "drivers", "devices", "devicesmore", "deviceresource", "devicescoring"),
    *("manyvictims", "manyclaims", "devicesodd", "devicesheld", "devicesheld"),
)
"""Families whose clusters sequences start from."""


class Sequence:
    """One sequence; `step` changes the cluster and compares one decision."""

    def __init__(self, oracle: Oracle, gates: FeatureGates, seed: str) -> None:
        family = self._family = Draw(seed, {}).pick(KEPT)
        first = case(family, seed)
        traits = {key: value for key, value in FAMILIES[family].items() if key != "nominated"}
        self._draw = Draw(f"sequence-{seed}", traits)
        self._oracle, self._gates = oracle, gates
        self._seed, self._steps, self._made = seed, 0, 0
        self._objects: Body = first["objects"]
        placed = [body for body in self._objects["pods"] if body["spec"].get("nodeName")]
        self._objects["pods"] = placed
        self._heard = list(placed)
        """As the pods of a node lie in a scheduler's cache that has heard of all changes."""
        self._given: Body = {key: first[key] for key in ("config",) if key in first}
        config = from_data(first["config"], gates) if self._given else default_config(gates)
        self._engine = Engine.build(config, in_tree_registry(), gates=gates)
        load_objects(self._engine.cache, self._objects)

    def step(self) -> Difference | None:
        """Change something, ask both about a new pod."""
        self._steps += 1
        for _ in range(self._draw.number(1, 3)):
            self._change()
        self._list_nodes_as_kept()
        name = f"{self._seed}-{self._steps}"
        asked = equipped(self._draw, f"pending-{self._steps}", self._names())
        body = {"id": f"sequence-{name}", "family": "sequence", "pod": asked, **self._given}
        whole: Body = {**body, "objects": {**self._objects, "pods": self._heard}}
        self._oracle.begin(whole)
        got = describe(self._engine, self._engine.schedule(convert(Pod, asked), LATER))
        want = self._oracle.end(whole)
        lines = differences(want, got, leaving(whole))
        if lines and "postFilter" in want:  # a rare candidate may not have come up yet
            want = self._oracle.decide(whole, tries=MANY_TRIES)
            lines = differences(want, got, leaving(whole))
        sides = Sides(want, got, lambda case: ours(case, self._gates))
        if not lines or known(whole, lines, sides):
            return None
        return Difference({**copy.deepcopy(whole), "expect": want}, lines)

    def _list_nodes_as_kept(self) -> None:
        """The first of several errors is told: the oracle must list nodes as they came and went."""
        table = self._engine.cache.table
        places = {table.name_of(row): place for place, row in enumerate(table.order.tolist())}
        self._objects["nodes"].sort(key=lambda body: places[body["metadata"]["name"]])

    def _names(self) -> list[str]:
        return [body["metadata"]["name"] for body in self._objects["nodes"]]

    def _change(self) -> None:
        kinds = ("pod+", "pod+", "pod-", "pod~", "node+", "node-", "node~", "other", "other")
        kind = self._draw.pick(kinds)
        held, cache = self._objects["pods"], self._engine.cache
        self._made += 1
        if kind == "pod+":
            held.append(running(self._draw, f"q{self._made}", self._names()))
            self._hear(held[-1])
        elif kind == "pod-" and held:
            gone = held.pop(self._draw.number(0, len(held) - 1))
            cache.delete(convert(Pod, gone))
            self._take_off(gone)
        elif kind == "pod~" and held:
            body = self._draw.pick(held)
            self._take_off(body)
            body["metadata"]["labels"] = {"app": self._draw.pick(("web", "db")), "ver": "1"}
            self._hear(body)
            self._take_off(body)  # and its kubelet has started it anew
            body["status"]["startTime"] = f"2026-01-01T00:00:{self._made % 60:02}Z"
            self._hear(body)
        elif kind.startswith("node"):
            self._change_node(kind[-1])
        elif kind == "other":
            self._change_other()

    def _hear(self, body: Body) -> None:
        """A pod comes to the end of its node, as in the real scheduler's cache."""
        self._heard.append(body)
        self._engine.cache.put(convert(Pod, body))

    def _take_off(self, body: Body) -> None:
        """The last pod of the node takes the place of one that goes, as in that cache."""
        heard, node = self._heard, body["spec"]["nodeName"]
        places = [n for n, other in enumerate(heard) if other["spec"]["nodeName"] == node]
        place = next(n for n in places if heard[n] is body)
        heard[place] = heard[places[-1]]
        del heard[places[-1]]

    def _change_other(self) -> None:
        """Put an object of another kind as another case of the family has it, or remove one."""
        plurals = sorted(self._objects.keys() - {"nodes", "pods"})
        plural = self._draw.pick(plurals)
        held, cache = self._objects[plural], self._engine.cache
        kind = OTHERS[plural.lower()]
        fresh = case(self._family, f"{self._seed}-{self._made}")["objects"].get(plural) or ()
        gone = bool(held) and (not fresh or self._draw.chance(0.3))
        if not gone and not fresh:
            return
        key = _key(self._draw.pick(held if gone else fresh))
        new = [] if gone else [body for body in fresh if _key(body) == key]
        stay = {_name(body) for body in new}
        for body in [body for body in held if _key(body) == key or _name(body) in stay]:
            held.remove(body)
            if _name(body) not in stay:
                cache.delete(convert(kind, body))
        for body in new:
            held.append(body)
            cache.put(convert(kind, body))

    def _change_node(self, kind: str) -> None:
        found, cache = self._objects["nodes"], self._engine.cache
        if kind == "+":
            (fresh,) = nodes(self._draw, 1)
            fresh["metadata"]["name"] = f"late-{self._made}"
            found.append(fresh)
            cache.add_node(convert(Node, fresh))
            return
        victim = self._draw.pick(found)
        name = victim["metadata"]["name"]
        if kind == "-":
            if len(found) > 1 and all(p["spec"]["nodeName"] != name for p in self._objects["pods"]):
                found.remove(victim)
                cache.remove_node(name)
            return
        (fresh,) = nodes(self._draw, 1)
        fresh["metadata"]["name"] = name
        found[found.index(victim)] = fresh
        cache.update_node(convert(Node, fresh))


def _key(body: Body) -> tuple[str, str]:
    """What changes as one: slices of a pool agree on how many they are, all else by name."""
    pool = body.get("spec", {}).get("pool")
    return _name(body) if pool is None else (body["spec"]["driver"], pool["name"])


def _name(body: Body) -> tuple[str, str]:
    return body["metadata"].get("namespace", ""), body["metadata"]["name"]
