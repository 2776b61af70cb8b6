"""What an engine keeps between decisions, against engines that keep nothing.

Random events go to two engines. One keeps its answers, with every limit in single digits, so that
it forgets, falls behind and starts anew all the time, and with a plugin that raises now and then;
the other forgets everything before each decision. They must decide alike, and what the first keeps
must be what plugins say when asked anew (`Engine.validate`). Needs no real scheduler.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from bayplan.api import Node, Pod, convert
from bayplan.cluster.limits import Limits
from bayplan.config import from_data
from bayplan.engine.cache import Cache
from bayplan.engine.engine import Engine
from bayplan.engine.replay import describe, load_objects
from bayplan.framework import Depends
from bayplan.plugins import in_tree_registry
from bayplan.testing.cases.draw import Draw
from bayplan.testing.cases.families import FAMILIES, case
from bayplan.testing.cases.nodes import nodes
from bayplan.testing.cases.pods import pod, running

Body = dict[str, Any]
Event = Callable[[Engine], None]

FEW = Limits(
    journal=3,
    queries=1,
    signatures=2,
    plans=2,
    answer_bytes=1,
    priorities=1,
    alike=2,
    domains=3,
    own_scores=2,
    changes=2,
    dry_runs=1,
    terms=1,
)
STARTS = ("mixed", "interpod", "softspread", "spread", "defaultspread", "preempt", "taints")
"""Families whose clusters runs start from."""
NOW = 2_000_000_000.0
EVENTS = ("place", "place", "pod+", "pod+", "pod-", "pod~", "nom")
NODE_EVENTS = ("node+", "node-", "node~")
USED = 10
"""After so many decisions all that is kept is used, which brings it up to date."""
METHODS = ("revision", "pre_filter", "filter_node", "pre_score", "score_node")


class Moody:
    """A plugin that counts pods, and raises in one method if it is told to."""

    name = "Moody"

    def __init__(self, depends: Depends) -> None:
        self._depends = depends
        self.broken = ""

    def _maybe(self, method: str) -> None:
        if method == self.broken:
            raise RuntimeError("a moment of weakness")

    def depends_on(self, pod: Pod) -> Depends:
        return self._depends

    def revision(self, state: Any, pod: Pod) -> None:
        self._maybe("revision")

    def pre_filter(self, state: Any, pod: Pod, nodes: Any) -> tuple[None, None]:
        self._maybe("pre_filter")
        return None, None

    def filter_node(self, state: Any, pod: Pod, node: Any) -> None:
        self._maybe("filter_node")

    def pre_score(self, state: Any, pod: Pod, nodes: Any, feasible: Any) -> None:
        self._maybe("pre_score")

    def score_node(self, state: Any, pod: Pod, node: Any) -> int:
        self._maybe("score_node")
        # What hangs on the node alone must not count pods.
        return len(node.name) if self._depends is Depends.NODE else min(100, len(node.pods))


class Run:
    """Two engines through one sequence of random events; `step` compares one decision."""

    def __init__(self, seed: str, limits: Limits = FEW) -> None:
        family = Draw(seed, {}).pick(STARTS)
        objects: Body = case(family, seed)["objects"]
        objects["pods"] = [body for body in objects["pods"] if body["spec"].get("nodeName")]
        self._draw = Draw(f"kept-{seed}", FAMILIES[family])
        self.seed = seed
        self._names = [body["metadata"]["name"] for body in objects["nodes"]]
        depends = self._draw.pick(tuple(Depends))
        self._moody = Moody(depends)
        self.kept = _engine(objects, self._moody, Cache(limits))
        self.forgetful = _engine(objects, Moody(depends), Cache())
        self.decisions = 0
        self._made: list[Pod] = []
        """Pods that others will be like."""
        # Winners that were listed ahead live only as long as nodes stay.
        self._kinds = EVENTS if self._draw.number(0, 1) else (*EVENTS, *NODE_EVENTS)

    def step(self) -> str:
        """Let something happen, then ask both about a pod; how they differ, or an empty text."""
        for _ in range(self._draw.number(1, 3)):
            event = self._event()
            for engine in (self.kept, self.forgetful):
                event(engine)
        asked = self._pod(f"asked-{self.decisions}")
        if self._draw.number(0, 4) == 0:
            self._moody.broken = self._draw.pick(METHODS)
            self.kept.schedule(asked, NOW)
            self._moody.broken = ""
        self.decisions += 1
        self.forgetful.forget_answers()
        mine, theirs = (engine.schedule(asked, NOW) for engine in (self.kept, self.forgetful))
        one, other = describe(self.kept, mine), describe(self.forgetful, theirs)
        if one != other or mine.node_name != theirs.node_name:
            return f"{mine} is not {theirs}: {one} is not {other}"
        try:
            self.kept.validate(use=self.decisions % USED == 0)
        except AssertionError as problem:
            return str(problem)
        return ""

    def _pod(self, name: str) -> Pod:
        """A pod; most are like one of a few before, as those of a Deployment are."""
        if len(self._made) < 4 or not self._draw.number(0, 7):
            made = convert(Pod, pod(self._draw, name, self._names))
            self._made = [*self._made[-3:], made]
            return made
        like = self._draw.pick(self._made)
        meta = msgspec.structs.replace(like.metadata, name=name, uid=name)
        return msgspec.structs.replace(like, metadata=meta)

    def _event(self) -> Event:
        kind = self._draw.pick(self._kinds)
        number = self._draw.number(0, 1 << 30)
        if kind == "place":
            wanted = self._pod(f"placed-{number}")
            return lambda engine: _ignore(engine.place(wanted, NOW))
        if kind == "pod+":
            body = convert(Pod, running(self._draw, f"r{number}", self._names))
            return lambda engine: engine.cache.put(body)
        if kind in ("pod-", "pod~"):
            return self._pod_event(kind)
        if kind == "nom":
            promised, where = self._pod(f"promised-{number}"), self._draw.pick(self._names)
            return lambda engine: engine.cache.nominator.add(
                engine.cache.infos.make(promised), where
            )
        return self._node_event(kind, number)

    def _pod_event(self, kind: str) -> Event:
        table = self.kept.cache.table
        infos = sorted((*table.all_pods(), *table.pods_aside()), key=lambda info: info.uid)
        if not infos:
            return lambda engine: None
        info = self._draw.pick(infos)
        if kind == "pod-":
            return lambda engine: engine.cache.remove_pod(info.pod)
        labels = {"app": self._draw.pick(("web", "db")), "ver": "1"}
        meta = msgspec.structs.replace(info.pod.metadata, labels=labels)
        spec = msgspec.structs.replace(info.pod.spec, node_name=info.node_name)
        changed = msgspec.structs.replace(info.pod, metadata=meta, spec=spec)
        return lambda engine: engine.cache.put(changed)

    def _node_event(self, kind: str, number: int) -> Event:
        (body,) = nodes(self._draw, 1)
        name = f"late-{number}" if kind == "node+" else self._draw.pick(self._names)
        if kind == "node-":
            return lambda engine: engine.cache.remove_node(name)
        body["metadata"]["name"] = name
        if name not in self._names:
            self._names.append(name)
        node = convert(Node, body)
        return lambda engine: engine.cache.put(node)


def _engine(objects: Body, moody: Moody, cache: Cache) -> Engine:
    config = from_data(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [
                {
                    "schedulerName": "default-scheduler",
                    "plugins": {"multiPoint": {"enabled": [{"name": Moody.name}]}},
                }
            ],
        }
    )
    registry = {**in_tree_registry(), Moody.name: lambda args, handle: moody}
    engine = Engine.build(config, registry, cache)
    load_objects(engine.cache, objects)
    return engine


def _ignore(decision: object) -> None:
    """Placed or not, both engines must agree when they are asked next."""
