"""Gives an owner's pods another form, in the order and with the limits of its controller.

| owner | how |
| --- | --- |
| Deployment | at most maxSurge more than wanted, at most maxUnavailable without a node |
| its Recreate; Job | all go, then all are made |
| StatefulSet | the highest ordinal first, one at a time, to the partition; not while one waits |
| DaemonSet | node by node, maxUnavailable without a pod; the new one first with maxSurge |
| ReplicaSet, ReplicationController, OnDelete | only who is deleted; an apply changes nothing |

New pods with a node count as ready. What finds no node ends the update there: the old ones that are
left stay, and the answer tells of the new ones as pods that wait.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from bayplan.api import Pod
from bayplan.inspect.objects import Owner, ordinal
from bayplan.inspect.whatif.budgets import scaled
from bayplan.inspect.whatif.making import new_replica_set
from bayplan.inspect.whatif.settling import Waiting

if TYPE_CHECKING:
    from bayplan.inspect.whatif.carrying import Carrying

Form = Callable[[Pod], Pod]
DEFAULT_SHARE = "25%"


def roll(carrying: Carrying, owner: Owner, form: Form, *, deleting: bool) -> None:
    """Replace an owner's pods; `deleting`: those that it leaves alone are deleted by hand."""
    pods = carrying.pods_of(owner)
    if owner.KIND == "Job":
        _all_at_once(carrying, pods, form)
    elif not owner.replaces:
        if deleting:
            _deleted(carrying, pods, form)
        else:
            carrying.notes.append(
                f"{owner.title} gives its pods the new form only when they are deleted"
            )
    elif owner.spec.paused and not deleting:
        carrying.notes.append(f"{owner.title} is paused: its pods stay as they are")
    elif owner.KIND == "StatefulSet":
        _by_ordinal(carrying, owner, pods, form)
    elif owner.KIND == "DaemonSet":
        by_node(carrying, owner, pods, form)
    elif owner.spec.strategy.type == "Recreate":
        _all_at_once(carrying, pods, _of_new_set(carrying, owner, form))
    else:
        _Rolling(carrying, owner, pods, _of_new_set(carrying, owner, form)).run()


def _of_new_set(carrying: Carrying, owner: Owner, form: Form) -> Form:
    """Pods of a deployment's new replica set."""
    labels, ref = new_replica_set(owner, carrying.trial)

    def changed(pod: Pod) -> Pod:
        made = form(pod)
        both = {
            **made.labels,
            **{key: value for key, value in labels.items() if key in made.labels},
        }
        meta = replace(made.metadata, labels=both, owner_references=(ref,))
        return replace(made, metadata=meta)

    return changed


def _all_at_once(carrying: Carrying, pods: list[Pod], form: Form) -> None:
    for pod in pods:
        carrying.settling.remove(pod)
    for pod in pods:
        carrying.settling.add(carrying.renewed(pod, form), carrying.settling.first_of(pod))
    carrying.settling.run()


def _deleted(carrying: Carrying, pods: list[Pod], form: Form) -> None:
    """All are deleted, and their owner makes them again by its own rules."""
    for pod in pods:
        carrying.delete_pod(pod, form)
    carrying.settling.run()


def _by_ordinal(carrying: Carrying, owner: Owner, pods: list[Pod], form: Form) -> None:
    ordered = owner.spec.pod_management_policy != "Parallel"
    waits = [pod for pod in pods if not carrying.node_of(pod)]
    if ordered and waits:
        carrying.notes.append(
            f"{owner.title} replaces nothing while {waits[0].name} waits; "
            f"kubectl delete pod -n {owner.namespace} {waits[0].name} lets it go on"
        )
        return
    partition = owner.spec.update_strategy.rolling.partition
    for pod in sorted(pods, key=ordinal, reverse=True):
        if ordinal(pod) < partition:
            return
        if not _one(carrying, pod, form).node:
            _stops(carrying, owner, pod)
            return


def by_node(carrying: Carrying, owner: Owner, pods: list[Pod], form: Form) -> None:
    """Replace a daemon set's pods, those that have no node first."""
    limits, whole = owner.spec.update_strategy.rolling, len(pods)
    surge = share(limits.max_surge or 0, whole, up=True)
    allowed = share(1 if limits.max_unavailable is None else limits.max_unavailable, whole, up=True)
    missing = 0
    for pod in sorted(pods, key=lambda pod: (bool(carrying.node_of(pod)), pod.name)):
        had = carrying.node_of(pod)
        found = _one(carrying, pod, form, beside=bool(surge and had))
        missing += not found.node
        if missing >= max(allowed, surge, 1):
            _stops(carrying, owner, pod)
            return


def _one(carrying: Carrying, pod: Pod, form: Form, *, beside: bool = False) -> Waiting:
    """Replace one pod; with `beside` the old one goes only when the new one has a node."""
    settling, first = carrying.settling, carrying.settling.first_of(pod)
    made = carrying.renewed(pod, form)
    if beside:
        waiting = settling.add(made)
        settling.run()
        if not waiting.node:
            return waiting
        settling.remove(pod)
        settling.link(waiting, first)
        return waiting
    settling.remove(pod)
    waiting = settling.add(made, first)
    settling.run()
    return waiting


def _stops(carrying: Carrying, owner: Owner, pod: Pod) -> None:
    carrying.notes.append(f"the update of {owner.title} stops at {pod.name}, which finds no node")


class _Rolling:
    """A deployment's rolling update, as its controller reconciles the old and the new set."""

    def __init__(self, carrying: Carrying, owner: Owner, old: list[Pod], form: Form) -> None:
        self._carrying, self._settling = carrying, carrying.settling
        self._owner, self._form = owner, form
        self._old = carrying.leaving_order(owner, old)
        self._pattern = list(self._old)
        self._new: list[Waiting] = []
        self._gone: list[Pod] = []
        """The first of the chains of old pods that went."""
        self._wanted = owner.wanted
        limits = owner.spec.strategy.rolling
        most, least = limits.max_surge, limits.max_unavailable
        surge = share(DEFAULT_SHARE if most is None else most, self._wanted, up=True)
        away = share(DEFAULT_SHARE if least is None else least, self._wanted, up=False)
        self._surge, self._least = surge, self._wanted - (away if surge or away else 1)

    def run(self) -> None:
        while self._grow() | self._shrink():
            pass
        for first, waiting in zip(self._gone, self._in_order(), strict=False):
            self._settling.link(waiting, first)
        self._carrying.dropped += self._gone[len(self._new) :]  # left by an update before
        waits = next((item for item in self._new if not item.node), None)
        if waits is not None:
            title, count = self._owner.title, len(self._old)
            self._carrying.notes.append(
                f"the rolling update of {title} stops with {count} old pods left: {waits.message}"
            )

    def _in_order(self) -> list[Waiting]:
        """New pods, those with a node first: they took the place of who went."""
        return sorted(self._new, key=lambda item: not item.node)

    def _grow(self) -> bool:
        room = self._wanted + self._surge - len(self._old) - len(self._new)
        count = max(0, min(room, self._wanted - len(self._new)))
        for _ in range(count):
            like = self._pattern[len(self._new) % len(self._pattern)] if self._pattern else None
            if like is None:
                return False
            made = self._carrying.renewed(like, self._form, f"{like.name}-new")
            self._new.append(self._carrying.create(self._owner, made))
        self._settling.run()
        return bool(count)

    def _shrink(self) -> bool:
        ready = sum(bool(item.node) for item in self._new)
        placed = [pod for pod in self._old if self._carrying.node_of(pod)]
        most = len(self._old) + len(self._new) - self._least - (len(self._new) - ready)
        waits = [pod for pod in self._old if not self._carrying.node_of(pod)][: max(most, 0)]
        spare = max(0, min(most - len(waits), len(placed) + ready - self._least))
        going = [*waits, *placed[:spare]]
        for pod in going:
            self._gone.append(self._settling.first_of(pod))
            self._settling.remove(pod)
            self._old.remove(pod)
        self._settling.run()
        # one that was preempted meanwhile goes on as what its old set made of it
        self._old = [self._settling.latest(pod) for pod in self._old]
        return bool(going)


def share(amount: int | str, whole: int, *, up: bool) -> int:
    """A number, or a share such as `25%` of a whole."""
    if isinstance(amount, str) and amount.endswith("%") and amount[:-1].isdigit() and not up:
        return int(amount[:-1]) * whole // 100
    return scaled(amount, whole)
