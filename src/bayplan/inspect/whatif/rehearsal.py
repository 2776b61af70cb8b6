"""A trial with the steps of a pod's life that a drain needs: told to go, gone, nominated.

Also puts back the order of the pods on each node that was touched, so that the next question finds
the engine exactly as the first did.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from bayplan.api import Pod
from bayplan.engine.cycle.decisions import Decision
from bayplan.engine.engine import Engine
from bayplan.framework import PodInfo
from bayplan.inspect.trial import Trial

TERMINATING = "2000-01-01T00:00:00Z"
"""When a pod that is going was told to; only that it was matters."""


class Rehearsal(Trial):
    """Changes an engine's cluster step by step; afterwards it is as before."""

    def __init__(self, engine: Engine, now: float) -> None:
        super().__init__(engine, now)
        self._orders: dict[str, list[str]] = {}

    def __enter__(self) -> Rehearsal:
        return self

    def undo(self, to: int = 0) -> None:
        super().undo(to)
        if to:
            return
        for name, order in self._orders.items():
            place = {uid: number for number, uid in enumerate(order)}
            pods = self.engine.cache.table.pods_of(name)
            pods.sort(key=lambda info: place.get(info.uid, len(place)))
        self._orders.clear()

    def place(self, pod: Pod | PodInfo) -> Decision:
        nominator = self.engine.cache.nominator
        uid = pod.uid
        nominated = nominator.node_of(uid) if len(nominator) else ""
        decision = super().place(pod)
        if decision.placed and nominated:
            self._back.append(lambda: nominator.add(decision.info, nominated))
        return decision

    def fill(self, pod: Pod) -> Decision:
        """Like `place`, but nobody is preempted for it."""
        decision = self.engine.place_all((pod,), self.now).decisions[0]
        if decision.placed:
            self._back.append(lambda: self.engine.undo(decision))
        return decision

    def terminate(self, info: PodInfo) -> PodInfo:
        """A pod is told to go; until it is gone it uses what it used."""
        pod, name = info.pod, info.node_name
        self._remember(name)
        meta = replace(pod.metadata, deletion_timestamp=TERMINATING)
        self.put(replace(pod, metadata=meta, spec=replace(pod.spec, node_name=name)))
        found = self.engine.cache.pod(info.uid)
        assert found is not None
        return found

    def take(self, info: PodInfo) -> None:
        """A pod is gone from its node."""
        self._remember(info.node_name)
        self.delete(info.pod)

    def nominate(self, pod: Pod, node_name: str) -> None:
        """Set a node aside for a pod; no longer, if the name is empty."""
        nominator = self.engine.cache.nominator
        info, before = self.engine.cache.infos.make(pod), nominator.node_of(pod.uid)
        nominator.add(info, node_name)
        self._back.append(lambda: nominator.add(info, before))

    def afterwards(self, back: Callable[[], object]) -> None:
        """Something beside the engine changed; this takes it back."""
        self._back.append(back)

    def pods_on(self, name: str) -> list[PodInfo]:
        """The pods on a node, as the API server lists them: by namespace and name."""
        pods = self.engine.cache.table.pods_of(name)
        return sorted(pods, key=lambda info: (info.pod.namespace, info.pod.name))

    def _remember(self, name: str) -> None:
        if name not in self._orders:
            pods = self.engine.cache.table.pods_of(name)
            self._orders[name] = [info.uid for info in pods]
