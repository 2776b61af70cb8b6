"""Carries changes out, one after the other, each until everything that follows from it rests."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from msgspec.structs import replace

from bayplan.api import Node, Pod
from bayplan.api.labels import SelectorError, parse_selector
from bayplan.framework import PodInfo
from bayplan.inspect.cluster import Cluster, seconds
from bayplan.inspect.errors import InspectError, unknown
from bayplan.inspect.objects import DELETION_COST, Budget, DaemonSet, Owner, ordinal
from bayplan.inspect.whatif import changes as c
from bayplan.inspect.whatif.budgets import Budgets, PodCounter, is_healthy
from bayplan.inspect.whatif.commands import commands_of
from bayplan.inspect.whatif.draining import Draining, cordoned
from bayplan.inspect.whatif.making import (
    daemon_pod,
    new_pod,
    pinned,
    pinned_to,
    with_patch,
    with_priority,
    with_requests,
)
from bayplan.inspect.whatif.owners import Remake, is_daemon, remake
from bayplan.inspect.whatif.rehearsal import Rehearsal
from bayplan.inspect.whatif.rolling import roll
from bayplan.inspect.whatif.settling import Settling, Waiting
from bayplan.inspect.whatif.shapes import new_nodes

SCALABLE = ("Deployment", "ReplicaSet", "StatefulSet", "ReplicationController")
NOT_SCALED = f"cannot be scaled; use {', '.join(SCALABLE).lower()}"
PODS = ("pod", "pods", "po")
_NO_DAEMON = {"NodeAffinity", "NodeName", "TaintToleration", "NodeUnschedulable"}
"""Where one of these refuses, a daemon set does not want to run at all."""


class Carrying:
    """One rehearsal of a list of changes."""

    def __init__(
        self, cluster: Cluster, trial: Rehearsal, budgets: Budgets, settling: Settling
    ) -> None:
        """`settling` has come to rest with what is pending now."""
        self.cluster, self.trial, self.budgets = cluster, trial, budgets
        self.settling = settling
        self.draining = Draining(trial, settling, budgets)
        self.dropped: list[Pod] = []
        """Pods that were deleted on purpose."""
        self.notes: list[str] = []
        self.commands: list[str] = []
        """What carries the changes out for real."""
        self.owners: dict[str, Owner] = {}
        """Owners that a change gave another form, by kind and key."""
        self._made: dict[str, list[Pod]] = {}
        self._renewed = 0
        self._added = 0  # nodes
        self._expected = 0  # pods that owners will have made
        self._do: dict[type[c.Change], Callable[..., None]] = {
            c.Drain: self._drain,
            c.Cordon: lambda change: self._mark(change.nodes, unschedulable=True),
            c.Uncordon: lambda change: self._mark(change.nodes, unschedulable=False),
            c.Remove: lambda change: self.draining.lose(self.nodes(change.nodes)),
            c.Add: self._add,
            c.Apply: self._apply,
            c.Delete: self._delete,
            c.Scale: lambda change: self.scale(self.owner(change), change.replicas),
            c.Priority: lambda change: self._again(
                change, partial(with_priority, trial.engine.cache.objects), change.priority
            ),
            c.Request: lambda change: self._again(change, with_requests, change.requests),
            c.Patch: self._patch,
        }

    def carry_out(self, change: c.AnyChange) -> None:
        """Do one change and let everything follow."""
        self.commands += commands_of(self, change)
        self._do[type(change)](change)
        self.settling.run()

    # -- nodes ----------------------------------------------------------------------------------

    def nodes(self, text: str) -> list[str]:
        """The nodes that a name, several names or a label selector stand for."""
        known = {node.name: node for node in self.trial.engine.cache.table.nodes}
        names = [name.strip() for name in text.split(",")]
        if all(name in known for name in names):
            return names
        if not any(sign in text for sign in "=!()"):
            missing = next(name for name in names if name not in known)
            raise unknown("node", missing, known)
        try:
            selector = parse_selector(text)
        except SelectorError as problem:
            raise InspectError(
                f'"{text}" is neither a node nor a label selector: {problem}'
            ) from problem
        found = [name for name in sorted(known) if selector.matches(known[name].labels)]
        if not found:
            raise InspectError(f'no node matches the selector "{text}"{_values_of(text, known)}')
        return found

    def node(self, name: str) -> Node:
        """A node that is there, as it is now."""
        table = self.trial.engine.cache.table
        row = table.row_of(name)
        assert row is not None
        return table.nodes[row]

    def _drain(self, change: c.Drain) -> None:
        self.commands.append(self.draining.drain(self.nodes(change.nodes)))

    def _mark(self, text: str, *, unschedulable: bool) -> None:
        for name in self.nodes(text):
            self.trial.put(cordoned(self.node(name), unschedulable))

    def _add(self, change: c.Add) -> None:
        table = self.trial.engine.cache.table
        self._added += change.count
        if self._added > c.MOST_NODES:
            raise InspectError(f"adding {self._added} nodes; at most {c.MOST_NODES} are added")
        known = {node.name: node for node in table.nodes}
        for node in list(new_nodes(change.count, change.shape, known)):
            self.add_node(node)

    def add_node(self, node: Node) -> None:
        """A node joins, and every daemon set that wants it starts a pod there; or it changes."""
        known = self.trial.engine.cache.table.row_of(node.name) is not None
        self.trial.put(node)
        if known:
            return
        for pod, template in self._daemons():
            self._start_daemon(pod, node.name, template=template)

    def apply_daemons(self, daemons: Owner) -> None:
        """A daemon set comes to be, or replaces the pods that it has."""
        pattern = self.new_pod(daemons)
        wanted = {
            node.name: made
            for node in self.trial.engine.cache.table.nodes
            if (made := self._daemon_for(pattern, node.name, template=True)) is not None
        }
        present = {self.node_of(pod): pod for pod in self.pods_of(daemons)}
        for node, pod in present.items():
            if node and node not in wanted:
                self.drop(pod)
        for node, made in wanted.items():
            if node not in present:
                self.settling.add(made)
        self.settling.run()
        known = self.cluster.of(DaemonSet).get(daemons.key)
        if known is None or known.spec.template == daemons.spec.template:
            return

        def changed(pod: Pod) -> Pod:
            return replace(pod, spec=daemon_pod(pattern, pinned_to(pod), template=True).spec)

        roll(self, daemons, changed, deleting=False)

    def _daemon_for(self, pod: Pod, node: str, *, template: bool) -> Pod | None:
        """A daemon set's pod for a node; None if it does not want to run there."""
        mine = daemon_pod(pod, node, template=template)
        error = self.trial.decide(mine, preempt=False).fit_error
        row = self.trial.engine.cache.table.row_of(node)
        if error is None or row is None:
            return mine
        return None if error.diagnosis.status_of_row(row).plugin in _NO_DAEMON else mine

    def _start_daemon(self, pod: Pod, node: str, *, template: bool) -> None:
        made = self._daemon_for(pod, node, template=template)
        if made is not None:
            self.settling.add(made)

    def add_budget(self, budget: Budget) -> None:
        """A budget comes to be, or has other limits."""
        self.budgets.add(budget, *PodCounter(self.cluster).numbers(budget))

    def _daemons(self) -> Iterable[tuple[Pod, bool]]:
        """A pattern for each daemon set's pods, and whether it is the bare template."""
        seen: set[str] = set()
        for pod in self.cluster.pods.values():
            ref = pod.controller
            if ref is not None and ref.kind == "DaemonSet" and not pod.finished:
                key = f"{pod.namespace}/{ref.name}"
                if key not in seen:
                    seen.add(key)
                    yield pod, False
        for key, daemons in self.cluster.of(DaemonSet).items():
            if key not in seen:
                yield self.new_pod(daemons), True

    # -- owners ---------------------------------------------------------------------------------

    def target(self, change: c.OfOwner) -> Owner | Pod:
        """The pod or owner that a change is about."""
        return self._pod(change) if change.kind in PODS else self.owner(change)

    def owner(self, change: c.OfOwner) -> Owner:
        if isinstance(change, c.Scale) and change.kind in PODS:
            raise InspectError(f"{change.kind}/{change.name} {NOT_SCALED}")
        where = change.namespace or self.cluster.origin.namespace
        for owner in self.owners.values():
            if owner.title == f"{change.kind}/{change.name}" and owner.namespace == where:
                return owner
        return self.cluster.owner(change.kind, change.name, where)

    def pods_of(self, owner: Owner) -> list[Pod]:
        """The pods that an owner has now: as they were, or what became of them."""
        ends = self.settling.ends
        firsts = (self.settling.first_of(pod) for pod in self.dropped)
        gone = {pod.uid for pod in (*self.dropped, *firsts)}
        found = [*self.cluster.pods_of(owner), *self._made.get(_key(owner), ())]
        now = [ends[pod.uid].pod if pod.uid in ends else pod for pod in found if not pod.finished]
        there = {pod.uid: pod for pod in now if pod.uid not in gone and not pod.terminating}
        return list(there.values())

    def scale(self, owner: Owner, replicas: int) -> None:
        """Make or delete pods until there are as many as wanted."""
        if owner.KIND not in SCALABLE:
            raise InspectError(f"{owner.title} {NOT_SCALED}")
        pods = self.pods_of(owner)
        self.expect(replicas - len(pods))
        for pod in self.leaving_order(owner, pods)[: max(len(pods) - replicas, 0)]:
            self.drop(pod)
        numbers = {ordinal(pod) for pod in pods} if owner.KIND == "StatefulSet" else set()
        like = min(pods, key=lambda pod: pod.name, default=None)
        number = 0
        for _ in range(replicas - len(pods)):
            while number in numbers:
                number += 1
            numbers.add(number)
            self.create(owner, self.new_pod(owner, number, like))
        if like is not None:
            self.budgets.resize(like, replicas - owner.wanted, self.trial)
        self.owners[_key(owner)] = replace(owner, spec=replace(owner.spec, replicas=replicas))

    def new_pod(self, owner: Owner, number: int = 0, like: Pod | None = None) -> Pod:
        """One more pod of an owner, as the API server would admit it."""
        return new_pod(owner, like, number, self.trial, self.settling.admission.ranges)

    def expect(self, more: int) -> None:
        """Say how many more pods an owner will make. Raises InspectError for too many."""
        self._expected += max(more, 0)
        if self._expected > c.MOST_PODS:
            raise InspectError(
                f"making {self._expected} more pods; at most {c.MOST_PODS} are made: "
                "give fewer replicas"
            )

    def create(self, owner: Owner, pod: Pod) -> Waiting:
        """An owner makes one more pod."""
        self._made.setdefault(_key(owner), []).append(pod)
        return self.settling.add(pod)

    def drop(self, pod: Pod) -> None:
        """Delete a pod on purpose."""
        self.settling.remove(pod)
        self.dropped.append(pod)

    def _info(self, pod: Pod) -> PodInfo | None:
        return self.trial.engine.cache.pod(pod.uid)

    def node_of(self, pod: Pod) -> str:
        """Where a pod is now; empty if it waits."""
        info = self._info(pod)
        return "" if info is None else info.node_name

    def leaving_order(self, owner: Owner, pods: list[Pod]) -> list[Pod]:
        """Pods in the order in which their controller deletes them."""
        return _surplus(owner, pods, self.node_of)

    def _delete(self, change: c.Delete) -> None:
        if change.kind not in PODS:
            for pod in self.pods_of(self.owner(change)):
                self.drop(pod)
            return
        self.delete_pod(self._pod(change))

    def _pod(self, change: c.OfOwner) -> Pod:
        pod = self.cluster.pod(change.name, change.namespace)
        end = self.settling.ends.get(pod.uid)
        return pod if end is None else end.pod

    def _again(self, change: c.OfOwner, form: Callable[..., Pod], how: object) -> None:
        def changed(pod: Pod) -> Pod:
            return form(pod, how)

        if change.kind not in PODS:
            roll(self, self.owner(change), changed, deleting=True)
            return
        pod = self._pod(change)
        first = self.settling.first_of(pod)
        self.settling.remove(pod)
        self.settling.add(self.renewed(pod, changed), first)

    def _patch(self, change: c.Patch) -> None:
        if change.kind not in c.NODE_WORDS:
            self._again(change, with_patch, change.patch)
            return
        for name in self.nodes(change.name):
            self.trial.put(with_patch(self.node(name), change.patch))

    def renewed(self, pod: Pod, form: Callable[[Pod], Pod], name: str = "") -> Pod:
        """A pod to be made in the place of another, in a new form."""
        self._renewed += 1
        uid = f"{pod.uid.partition('+')[0]}+{self._renewed}"
        fresh = replace(pod.metadata, uid=uid, name=name or pod.name, deletion_timestamp="")
        spec, node = replace(pod.spec, node_name=""), self.node_of(pod)
        return form(
            Pod(metadata=fresh, spec=pinned(spec, node) if is_daemon(pod) and node else spec)
        )

    def delete_pod(self, pod: Pod, form: Callable[[Pod], Pod] | None = None) -> None:
        """Delete a pod; its owner, if it has one, makes it again, perhaps in another form."""
        info, waiting = self._info(pod), self.settling.known.get(pod.uid)
        if remake(pod) is Remake.NEVER or (info is None and waiting is None):
            self.drop(pod)
        elif info is not None:
            self.settling.evict(info, form)
        elif waiting is not None:
            self.settling.renew(waiting, form)

    def _apply(self, change: c.Apply) -> None:
        from bayplan.inspect.whatif.applying import apply_manifests

        apply_manifests(self, change)


def _surplus(owner: Owner, pods: list[Pod], node_of: Callable[[Pod], str]) -> list[Pod]:
    """Pods in the order in which their controller deletes them."""
    if owner.KIND == "StatefulSet":
        return sorted(pods, key=ordinal, reverse=True)
    together: dict[str, int] = {}
    for pod in pods:
        together[node_of(pod)] = together.get(node_of(pod), 0) + 1

    def rank(pod: Pod) -> tuple[object, ...]:
        cost = pod.annotations.get(DELETION_COST, "0")
        price = int(cost) if cost.lstrip("-").isdigit() else 0
        node = node_of(pod)
        age = seconds(pod.metadata.creation_timestamp)
        return (bool(node), is_healthy(pod), price, -together[node], -age, pod.name)

    return sorted(pods, key=rank)


def _key(owner: Owner) -> str:
    return f"{owner.KIND}/{owner.key}"


def _values_of(text: str, nodes: dict[str, Node]) -> str:
    """What the nodes have under the selector's first key, for who guessed its value."""
    key = text.strip("!( ").partition("=")[0].rstrip("! ")
    values = sorted({node.labels[key] for node in nodes.values() if key in node.labels})
    return f"; of {key} nodes have {', '.join(values[:8])}" if values else ""
