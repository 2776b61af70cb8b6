"""One engine kept through random changes, against the real scheduler made anew at every step.

A kept answer that was not renewed shows here: the cluster changes, another pod is asked about, and
the oracle starts from scratch each time. Changes are those that informers deliver: nodes and pods
come, change and go.
"""

from __future__ import annotations

import copy
from typing import Any

from bayplan.api import Node, Pod, convert
from bayplan.config import FeatureGates, default_config
from bayplan.conformance.compare import differences, leaving
from bayplan.conformance.fuzz import MANY_TRIES, Difference
from bayplan.conformance.known import known
from bayplan.conformance.oracle import Oracle
from bayplan.engine.engine import Engine
from bayplan.engine.replay import describe, load_objects
from bayplan.plugins import in_tree_registry
from bayplan.testing.cases.draw import Draw
from bayplan.testing.cases.families import FAMILIES, case
from bayplan.testing.cases.nodes import nodes
from bayplan.testing.cases.pods import pod, running

Body = dict[str, Any]
KEPT = ("mixed", "interpod", "softspread", "preempt", "spread")
"""Families whose clusters sequences start from."""


class Sequence:
    """One sequence; `step` changes the cluster and compares one decision."""

    def __init__(self, oracle: Oracle, gates: FeatureGates, seed: str) -> None:
        family = Draw(seed, {}).pick(KEPT)
        first = case(family, seed)
        traits = {key: value for key, value in FAMILIES[family].items() if key != "nominated"}
        self._draw = Draw(f"sequence-{seed}", traits)
        self._oracle = oracle
        self._seed, self._steps, self._made = seed, 0, 0
        self._objects: Body = first["objects"]
        placed = [body for body in self._objects["pods"] if body["spec"].get("nodeName")]
        self._objects["pods"] = placed
        self._engine = Engine.build(default_config(gates), in_tree_registry(), gates=gates)
        load_objects(self._engine.cache, self._objects)

    def step(self) -> Difference | None:
        """Change something, ask both about a new pod."""
        self._steps += 1
        for _ in range(self._draw.number(1, 3)):
            self._change()
        name = f"{self._seed}-{self._steps}"
        asked = pod(self._draw, f"pending-{self._steps}", self._names())
        body = {"id": f"sequence-{name}", "family": "sequence", "pod": asked}
        whole: Body = {**body, "objects": self._objects}
        self._oracle.begin(whole)
        got = describe(self._engine, self._engine.schedule(convert(Pod, asked), 0.0))
        want = self._oracle.end(whole)
        lines = differences(want, got, leaving(whole))
        if lines and "postFilter" in want:  # a rare candidate may not have come up yet
            want = self._oracle.decide(whole, tries=MANY_TRIES)
            lines = differences(want, got, leaving(whole))
        if not lines or known(whole, lines):
            return None
        return Difference({**copy.deepcopy(whole), "expect": want}, lines)

    def _names(self) -> list[str]:
        return [body["metadata"]["name"] for body in self._objects["nodes"]]

    def _change(self) -> None:
        kind = self._draw.pick(("pod+", "pod+", "pod-", "pod~", "node+", "node-", "node~"))
        held, cache = self._objects["pods"], self._engine.cache
        self._made += 1
        if kind == "pod+":
            held.append(running(self._draw, f"q{self._made}", self._names()))
            cache.put(convert(Pod, held[-1]))
        elif kind == "pod-" and held:
            gone = held.pop(self._draw.number(0, len(held) - 1))
            cache.delete(convert(Pod, gone))
        elif kind == "pod~" and held:
            body = self._draw.pick(held)
            body["metadata"]["labels"] = {"app": self._draw.pick(("web", "db")), "ver": "1"}
            cache.put(convert(Pod, body))
        elif kind.startswith("node"):
            self._change_node(kind[-1])

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
