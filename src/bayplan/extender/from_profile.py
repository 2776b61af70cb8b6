"""Serves the filter and score plugins of a profile as an extender.

A cluster that keeps kube-scheduler can so use Python plugins today. The plugins run in the same
engine as in the scheduler. Nodes come with each call, or from a watched cluster when the scheduler
sends names only; only then are the pods that already run known, which plugins that look at usage
(ports, resources, affinity, spread) need. Totals are brought from the plugins' scale to 0..10.

What it does not do: preempt, reserve or bind. kube-scheduler does.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from bayplan.api import Node, Object, Pod
from bayplan.config import load_file
from bayplan.engine.cache import Cache
from bayplan.engine.cycle.decisions import Decision
from bayplan.engine.engine import Engine
from bayplan.errors import BayplanError, ConfigError
from bayplan.extender.answers import Rejection
from bayplan.extender.wire import MAX_EXTENDER_PRIORITY
from bayplan.framework import Code, Registry
from bayplan.framework.contract.points import MAX_SCORE


class ProfileExtender:
    """The implementation that the kit serves; everything runs on the server's loop."""

    def __init__(self, engine: Engine, scheduler_name: str) -> None:
        self._engine = engine
        self._cache: Cache = engine.cache
        self._known: dict[str, Node] = {}
        self._watched = False
        self.name = scheduler_name
        profile = engine.profiles[scheduler_name]
        self._most = MAX_SCORE * max(sum(profile.weight_of(p.name) for p in profile.score), 1)

    @classmethod
    def load(cls, path: Path, scheduler_name: str, registry: Registry) -> "ProfileExtender":
        """Read a KubeSchedulerConfiguration and build one of its profiles."""
        config = load_file(path).config
        names = [profile.scheduler_name for profile in config.profiles]
        chosen = scheduler_name or names[0]
        if chosen not in names:
            raise ConfigError(f'{path} has no profile "{chosen}"; it has: {", ".join(names)}')
        return cls(Engine.build(config, registry), chosen)

    def changed(self, changes: Sequence[tuple[str, Object, Object | None]]) -> None:
        """Take over what a watched cluster tells."""
        self._watched = True
        for kind, item, _ in changes:
            if isinstance(item, Pod) and not item.spec.node_name:
                continue
            if kind == "DELETED":
                self._cache.delete(item)
            else:
                self._cache.put(item)

    async def filter(self, pod: Pod, nodes: list[Node]) -> Rejection:
        """Which nodes the profile's filters reject, and why."""
        decision = self._decide(pod, nodes)
        statuses = self._engine.node_statuses(decision)
        failed: dict[str, str] = {}
        unresolvable: dict[str, str] = {}
        for node in nodes:
            name = node.metadata.name
            status = statuses.get(name)
            if status is not None:
                final = status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
                (unresolvable if final else failed)[name] = status.message
        return Rejection(failed, unresolvable)

    async def prioritize(self, pod: Pod, nodes: list[Node]) -> dict[str, int]:
        """The profile's totals on the scale of extenders."""
        decision = self._decide(pod, nodes)
        names, _, totals, _ = self._engine.all_scores(decision)
        scores = {
            name: int(total) * MAX_EXTENDER_PRIORITY // self._most
            for name, total in zip(names, totals.tolist(), strict=True)
        }
        return {node.metadata.name: scores.get(node.metadata.name, 0) for node in nodes}

    def _decide(self, pod: Pod, nodes: list[Node]) -> Decision:
        if not self._watched:
            self._take(nodes)
        spec = msgspec.structs.replace(pod.spec, scheduler_name=self.name)
        asked = msgspec.structs.replace(pod, spec=spec)
        decision = self._engine.schedule(asked, 0.0, post_filter=False)
        if decision.status is not None and decision.status.code is Code.ERROR:
            raise BayplanError(decision.status.message)
        return decision

    def _take(self, nodes: list[Node]) -> None:
        """Make the cache hold the nodes of this call; the same objects come with most calls."""
        for node in nodes:
            name = node.metadata.name
            if self._known.get(name) is not node:
                self._known[name] = node
                self._cache.put(node)
