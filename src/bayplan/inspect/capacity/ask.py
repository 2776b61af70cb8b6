"""Fills the cluster in the engine until the next pod finds no node; then takes it all back.

Several templates are placed in turn, each as often as its share, so that the answer holds for
growing them together. Nobody is preempted: it is the free room that counts. To keep room for losing
a node or a zone the largest number of sets is searched for which each loss still leaves every pod
with a node; of nodes the fullest are tried.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from bayplan.api import OwnerReference, Pod
from bayplan.engine.cycle.decisions import Decision
from bayplan.framework import Diagnosis
from bayplan.inspect.admission import Admission
from bayplan.inspect.admitting import admitted
from bayplan.inspect.capacity.answer import Capacity, Fit
from bayplan.inspect.capacity.stranded import stranded
from bayplan.inspect.cluster import Cluster
from bayplan.inspect.errors import InspectError
from bayplan.inspect.whatif.ask import settle
from bayplan.inspect.whatif.budgets import Budgets
from bayplan.inspect.whatif.draining import Draining
from bayplan.inspect.whatif.owners import title
from bayplan.inspect.whatif.rehearsal import Rehearsal
from bayplan.inspect.whatif.settling import Settling
from bayplan.inspect.whatif.shapes import ZONE

LIMIT = 100_000
FULLEST = 25
"""How many nodes are tried when room for losing one is to be kept."""


class Template(msgspec.Struct, frozen=True):
    """A pod to be added, and how many of it make up one set."""

    name: str
    pod: Pod
    share: int = 1


def capacity(
    cluster: Cluster,
    templates: Sequence[Template],
    *,
    keep_free: str = "",
    limit: int = LIMIT,
) -> Capacity:
    """How many more of the templates fit, together in their shares and each alone."""
    if not templates:
        raise InspectError("no template is given; name a pod, an owner or a file")
    if keep_free not in ("", "node", "zone"):
        raise InspectError(f'--keep-free "{keep_free}" is not known; use node or zone')
    notes = [f"not read: {u.what}: {u.without}" for u in cluster.origin.unread]
    with Rehearsal(cluster.engine, cluster.now) as trial:
        admission = settle(cluster, trial, Budgets(cluster)).admission
        classes = trial.engine.cache.objects.priority_classes
        ready = [replace(t, pod=admitted(_fresh(t), classes, admission.ranges)) for t in templates]
        alone = [_alone(trial, admission, item, limit) for item in ready]
        mark = trial.mark
        filling = Filling(trial, admission, ready)
        filling.run(limit)
        binding, checked, loss = filling.binding(), 0, None
        ends = filling.refused and f"the API server would refuse it: {filling.refused}"
        if keep_free:
            sets, checked, loss = _with_room(cluster, filling, keep_free, mark)
            if keep_free == "node" and 0 < checked < len(cluster.nodes):
                notes.append(
                    f"of {len(cluster.nodes)} nodes the loss of the {checked} fullest was tried"
                )
            if loss is not None:
                binding, ends = loss.binding, loss.text
            trial.undo(mark)
            filling = Filling(trial, admission, ready)
            filling.run(sets * sum(item.share for item in ready))
        return Capacity(
            sets=filling.sets,
            fits=tuple(
                _fit(cluster, filling, item, one) for item, one in zip(ready, alone, strict=True)
            ),
            binding=binding,
            ends=ends,
            stranded=() if keep_free else stranded(cluster, trial, [t.pod for t in ready]),
            keep_free=keep_free,
            checked=checked,
            limited=filling.total >= limit,
            notes=tuple(notes),
            version=cluster.settings.gates.version,
            version_note=cluster.version_note,
        )


class Filling:
    """Pods added in turn by their shares until one finds no node; whole sets are counted."""

    def __init__(
        self, trial: Rehearsal, admission: Admission, templates: Sequence[Template]
    ) -> None:
        self.trial, self.admission, self.templates = trial, admission, templates
        self.nodes: dict[str, Counter[str]] = {item.name: Counter() for item in templates}
        self.last: Decision | None = None
        self.refused = ""
        """Why the API server would not let one more be made."""
        self.sets = 0
        self.total = 0

    def run(self, limit: int) -> None:
        """Add until nothing fits, or so many are there."""
        while self.total < limit:
            placed: list[tuple[str, str]] = []
            if not self._one_set(limit, placed):
                return
            self.sets += 1
            for name, node in placed:
                self.nodes[name][node] += 1

    def _one_set(self, limit: int, placed: list[tuple[str, str]]) -> bool:
        for item in self.templates:
            for _ in range(item.share):
                if self.total >= limit:
                    return False
                pod = numbered(item, self.total)
                self.refused = self.admission.refusal(pod)
                if self.refused:
                    return False
                decision = self.trial.fill(pod)
                if not decision.placed:
                    self.last = decision
                    return False
                self.admission.count(pod, 1, self.trial.afterwards)
                self.total += 1
                placed.append((item.name, decision.node_name))
        return True

    def binding(self) -> dict[str, int]:
        """Why the last pod found no node, by how many nodes say so."""
        error = None if self.last is None else self.last.fit_error
        if error is None:
            return {}
        return dict(reasons(error.diagnosis).most_common())


def reasons(diagnosis: Diagnosis) -> Counter[str]:
    """How many nodes give each reason."""
    found: Counter[str] = Counter()
    for row in range(len(diagnosis.names)):
        found.update(diagnosis.status_of_row(row).reasons)
    return found


def numbered(item: Template, number: int) -> Pod:
    """One more pod of a template."""
    meta = item.pod.metadata
    name = f"{meta.name}-{number}"
    return replace(item.pod, metadata=replace(meta, name=name, uid=f"more:{item.name}:{number}"))


def _alone(trial: Rehearsal, admission: Admission, item: Template, limit: int) -> tuple[int, str]:
    mark = trial.mark
    filling = Filling(trial, admission, [replace(item, share=1)])
    filling.run(limit)
    trial.undo(mark)
    message = "" if filling.last is None else filling.last.message
    return filling.total, filling.refused or message


def _fit(cluster: Cluster, filling: Filling, item: Template, alone: tuple[int, str]) -> Fit:
    nodes = filling.nodes[item.name]
    zones: Counter[str] = Counter()
    for name, count in nodes.items():
        node = cluster.nodes.get(name)
        zones["" if node is None else node.labels.get(ZONE, "")] += count
    return Fit(
        template=item.name,
        share=item.share,
        together=sum(nodes.values()),
        alone=alone[0],
        zones=dict(sorted(zones.items())),
        nodes=len(nodes),
        message=alone[1],
    )


def _with_room(
    cluster: Cluster, full: Filling, what: str, mark: int
) -> tuple[int, int, Loss | None]:
    """The most sets with which any one node or zone may still be lost, and what forbids one more.

    Nothing does if the room without any loss ends first.
    """
    trial, templates = full.trial, full.templates
    low, high, checked = 0, full.sets, 0
    budgets = Budgets(cluster)
    losses: dict[int, Loss] = {}
    while low < high:
        middle = (low + high + 1) // 2
        trial.undo(mark)
        filling = Filling(trial, full.admission, templates)
        filling.run(middle * sum(item.share for item in templates))
        loss, checked = _loss(cluster, filling, what, budgets)
        if loss is None:
            low = middle
        else:
            high, losses[middle] = middle - 1, loss
    return low, checked, losses.get(low + 1)


class Loss(NamedTuple):
    """What would come of losing one node or zone."""

    text: str
    binding: dict[str, int]


def _loss(
    cluster: Cluster, filling: Filling, what: str, budgets: Budgets
) -> tuple[Loss | None, int]:
    """The first loss that leaves pods without a node; how many are tried."""
    trial = filling.trial
    groups = _groups(cluster, trial, what)
    for name, names in groups:
        mark = trial.mark
        settling = Settling(cluster, trial, budgets, filling.admission)
        Draining(trial, settling, budgets).lose(names, remove=False)
        settling.run()
        found = _told(cluster, trial, settling, f"{what} {name}")
        trial.undo(mark)
        if found is not None:
            return found, len(groups)
    return None, len(groups)


def _told(cluster: Cluster, trial: Rehearsal, settling: Settling, what: str) -> Loss | None:
    failed, unborn = list(settling.failed()), list(settling.unborn())
    if failed:
        first = failed[0]
        noun = "pod" if len(failed) == 1 else "pods"
        error = trial.decide(first.pod, preempt=False).fit_error
        binding = {} if error is None else dict(reasons(error.diagnosis).most_common())
        text = f"{len(failed)} {noun} of {title(cluster, first.pod) or first.pod.key}"
        return Loss(f"without {what}, {text} would find no node: {first.message}", binding)
    for one in settling.refused():
        return Loss(f"without {what}, {one.pod.key} would not be made again: {one.message}", {})
    if unborn:
        return Loss(f"without {what}, {unborn[0][0].key} would not be made again", {})
    if settling.preempted:
        gone = settling.preempted[0]
        return Loss(f"without {what}, {gone.pod.key} would be evicted for {gone.by.key}", {})
    return None


def _groups(cluster: Cluster, trial: Rehearsal, what: str) -> list[tuple[str, list[str]]]:
    table = trial.engine.cache.table
    if what == "zone":
        zones: dict[str, list[str]] = {}
        for name, node in cluster.nodes.items():
            zones.setdefault(node.labels.get(ZONE, ""), []).append(name)
        return [(zone or "(none)", names) for zone, names in zones.items()]
    order = (-table.requested(0)).argsort(kind="stable")[:FULLEST]
    names = [table.nodes[row].name for row in order.tolist()]
    return [(name, [name]) for name in names]


def _fresh(item: Template) -> Pod:
    """The template's pod without a node; somebody owns it and makes it again when it is lost."""
    pod = item.pod
    meta = replace(pod.metadata, namespace=pod.namespace or "default", deletion_timestamp="")
    if pod.controller is None:
        owner = OwnerReference("apps/v1", "ReplicaSet", item.name, f"more:{item.name}", True)
        meta = replace(meta, owner_references=(owner,))
    return Pod(metadata=meta, spec=replace(pod.spec, node_name=""))


def zones_text(zones: Mapping[str, int]) -> str:
    """`a 12, b 10`."""
    return ", ".join(f"{zone or 'no zone'} {count}" for zone, count in zones.items())
