"""What would happen if: changes to an engine that are all taken back.

    with cluster.trial() as trial:
        trial.put(cordoned)
        for pod in evicted:
            trial.delete(pod)
        decisions = [trial.place(unbound(pod)) for pod in evicted]

Every change costs what it changes, and so does taking it back, because the engine follows its
journal; a trial over one node of 5,000 does not rebuild anything. Nodes that come or go move rows:
that is one pass over the columns each way, and a node that comes back comes last in its zone, as
a server would see it. Who only needs a node not to be used marks it unschedulable instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from bayplan.api import Node, Object, Pod
from bayplan.cluster.pod_groups import members_of
from bayplan.engine.cycle.decisions import Decision
from bayplan.engine.engine import Engine
from bayplan.framework import PodInfo


class Trial:
    """A block in which an engine's cluster may be changed; afterwards it is as before."""

    def __init__(self, engine: Engine, now: float) -> None:
        self.engine = engine
        self.now = now
        self._back: list[Callable[[], object]] = []
        self._start = engine.next_start

    def __enter__(self) -> Trial:
        return self

    def __exit__(self, *error: object) -> None:
        self.undo()

    def undo(self, to: int = 0) -> None:
        """Take changes back, the last first, down to a `mark`."""
        while len(self._back) > to:
            self._back.pop()()
        if not to:
            self.engine.next_start = self._start

    @property
    def mark(self) -> int:
        """Where to `undo` back to."""
        return len(self._back)

    # -- changes ------------------------------------------------------------------------------

    def put(self, item: Object) -> None:
        """Add or replace an object of any kind."""
        if isinstance(item, Node):
            self._put_node(item)
        elif isinstance(item, Pod):
            self._put_pod(item)
        else:
            self._put_other(item)

    def delete(self, item: Object) -> None:
        """Take an object of any kind away; unknown ones are no error."""
        cache = self.engine.cache
        if isinstance(item, Node):
            row = cache.table.row_of(item.name)
            if row is not None:
                old = cache.table.nodes[row]
                cache.remove_node(item.name)
                self._back.append(lambda: cache.add_node(old))
        elif isinstance(item, Pod):
            self._delete_pod(item.uid)
        else:
            lister = cache.objects.of_kind(item.KIND)
            gone = None if lister is None else lister.delete(item.key)
            if lister is not None and gone is not None:
                self._back.append(lambda: lister.put(gone))

    def place(self, pod: Pod | PodInfo) -> Decision:
        """Decide for a pod and, if it finds a node, keep it there until the trial ends."""
        decision = self.engine.place(pod, self.now)
        if decision.placed:
            self._back.append(lambda: self.engine.undo(decision))
        return decision

    def decide(self, pod: Pod | PodInfo, *, preempt: bool = True) -> Decision:
        """Decide for a pod and change nothing."""
        return self.engine.schedule(pod, self.now, post_filter=preempt)

    def preempt(self, decision: Decision) -> list[Pod]:
        """Take away the victims that a decision names, and nominate its pod; returns them."""
        cache = self.engine.cache
        victims = list(decision.victims.pods) if decision.victims is not None else []
        for victim in victims:
            self._delete_pod(victim.uid)
        nominating = decision.nominating
        if nominating is not None and nominating.nominated_node_name:
            uid, before = decision.info.uid, cache.nominator.node_of(decision.info.uid)
            cache.nominator.add(decision.info, nominating.nominated_node_name)
            self._back.append(
                lambda: (
                    cache.nominator.add(decision.info, before)
                    if before
                    else cache.nominator.delete(uid)
                )
            )
        return victims

    def put_all(self, items: Iterable[Object]) -> None:
        """`put`, one after the other."""
        for item in items:
            self.put(item)

    # -- how ----------------------------------------------------------------------------------

    def _put_node(self, node: Node) -> None:
        cache = self.engine.cache
        row = cache.table.row_of(node.name)
        if row is None:
            cache.add_node(node)
            self._back.append(lambda: cache.remove_node(node.name))
            return
        old = cache.table.nodes[row]
        cache.update_node(node)
        self._back.append(lambda: cache.update_node(old))

    def _put_pod(self, pod: Pod) -> None:
        """A pod as the API server shows it; only placed ones count, and members of groups."""
        self._delete_pod(pod.uid)
        self.join(pod)
        if pod.spec.node_name and not pod.finished:
            cache = self.engine.cache
            cache.add_pod(pod)
            self._back.append(lambda: cache.remove_pod(pod))

    def join(self, pod: Pod) -> None:
        """A pod is a member of its group, if it has one."""
        if pod.spec.scheduling_group is not None:
            members = members_of(self.engine.cache.objects)
            members.put(pod)
            self._back.append(lambda: members.delete(pod))

    def leave(self, pod: Pod) -> None:
        """A pod is no longer a member of its group."""
        if pod.spec.scheduling_group is not None:
            members = members_of(self.engine.cache.objects)
            members.delete(pod)
            self._back.append(lambda: members.put(pod))

    def _delete_pod(self, uid: str) -> None:
        cache = self.engine.cache
        info = cache.pod(uid)
        if info is None:
            return
        pod, node = info.pod, info.node_name
        places = cache.table.places_on(node)
        self.leave(pod)
        self._back.append(lambda: cache.table.arrange(node, places))
        if cache.is_assumed(uid):
            cache.forget(pod)
            self._back.append(lambda: cache.assume(info, node))
        else:
            cache.remove_pod(pod)
            self._back.append(lambda: cache.add_pod(pod))

    def _put_other(self, item: Object) -> None:
        lister = self.engine.cache.objects.of_kind(item.KIND)
        if lister is None or type(item) is not lister.kind:
            return
        old = lister.get(item.key)
        lister.put(item)
        self._back.append(lambda: lister.delete(item.key) if old is None else lister.put(old))


def unbound(pod: Pod) -> Pod:
    """The pod as it would be made again: without a node, a nomination or a status."""
    spec = replace(pod.spec, node_name="") if pod.spec.node_name else pod.spec
    return Pod(metadata=pod.metadata, spec=spec)
