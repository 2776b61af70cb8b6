"""What follows when pods are told to go or come to be: owners, scheduler and grace, until it rests.

The order is that of a real cluster whose steps are quicker than a grace period: pods that are told
to go stay on their nodes, owners make new ones at once, the scheduler tries those by priority and
age; then the grace period is over, stateful sets make theirs, and whoever found no place is tried
again. A pod that may preempt has its victims told to go and waits for their end, nominated, as in
kube-scheduler. It ends when another round would change nothing.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from msgspec.structs import replace

from bayplan.api import Pod, PodGroup
from bayplan.cluster.pod_groups import group_key
from bayplan.engine.cycle.decisions import Decision
from bayplan.framework import NominatingMode, PodInfo
from bayplan.framework.runtime.filtering import run_pre_enqueue
from bayplan.inspect.admission import Admission
from bayplan.inspect.cluster import Cluster
from bayplan.inspect.gangs import group_of, try_group
from bayplan.inspect.objects import ordinal
from bayplan.inspect.whatif.budgets import Budgets
from bayplan.inspect.whatif.making import pinned
from bayplan.inspect.whatif.owners import (
    Remake,
    is_daemon,
    is_ordered,
    release_claims,
    remake,
    successor,
    with_claims,
)
from bayplan.inspect.whatif.rehearsal import Rehearsal

GATED = "Scheduling is blocked due to non-empty scheduling gates"


Form = Callable[[Pod], Pod]


class Waiting:
    """A pod that is to be placed: what it was first, and why it waits."""

    __slots__ = ("first", "message", "node", "pod", "seen")

    def __init__(self, pod: Pod, first: Pod) -> None:
        self.pod = pod
        self.first = first
        """The pod that stood at the beginning of the chain; itself if it is new."""
        self.node = ""
        self.message = ""
        self.seen = 0


class Preempted:
    """A pod that had to go for a more important one."""

    __slots__ = ("by", "first", "node", "pod", "violates")

    def __init__(self, pod: Pod, first: Pod, node: str, by: Pod, violates: bool) -> None:
        self.pod, self.first, self.node = pod, first, node
        self.by, self.violates = by, violates


class Settling:
    """Pods on their way, and the rules by which they move."""

    def __init__(
        self,
        cluster: Cluster,
        trial: Rehearsal,
        budgets: Budgets,
        admission: Admission | None = None,
    ) -> None:
        self.cluster, self.trial, self.budgets = cluster, trial, budgets
        self.admission = admission or Admission(cluster)
        self.preempted: list[Preempted] = []
        self.known: dict[str, Waiting] = {}
        """Everything that was tried, by uid of the pod."""
        self.ends: dict[str, Waiting] = {}
        """The newest pod of each chain, by uid of its first."""
        self.unmade: dict[str, Pod] = {}
        """Pods that nobody makes again, by uid of the chain's first."""
        self._queue: list[tuple[int, int, Waiting]] = []
        self._failed: dict[str, Waiting] = {}
        self._refused: dict[str, Waiting] = {}
        """Pods that the API server does not let their owner make, by uid."""
        self._going: dict[str, tuple[PodInfo, Pod]] = {}
        """Pods whose grace period runs, with the first of their chain, by uid."""
        self._to_make: list[tuple[Pod, Pod]] = []
        self._refusals: dict[bytes, tuple[int, str]] = {}
        self._forms: dict[str, Form] = {}
        """What owners make of pods that go, where it is not the same, by uid."""
        self._rested_at = -1
        """The trial's mark when all was tried last."""
        self._number = 0

    # -- what may happen to pods ----------------------------------------------------------------

    def add(self, pod: Pod, first: Pod | None = None) -> Waiting:
        """A pod came to be that has no node yet."""
        waiting = Waiting(pod, first or pod)
        self.known[pod.uid] = waiting
        self.ends[waiting.first.uid] = waiting
        if self.cluster.pods.get(pod.key) is pod or self._admitted(waiting):
            self._push(waiting)
        return waiting

    def settled_on(self, pod: Pod, node: str) -> None:
        """A new pod that names its node itself; no scheduler is asked."""
        waiting = Waiting(pod, pod)
        self.known[pod.uid] = self.ends[pod.uid] = waiting
        if self._admitted(waiting):
            waiting.node = node
            self.trial.put(pod)

    def _admitted(self, waiting: Waiting) -> bool:
        """Whether the API server lets a new pod be made; its owner tries again later if not."""
        waiting.message = self.admission.refusal(waiting.pod)
        if waiting.message:
            self._refused[waiting.pod.uid] = waiting
            return False
        self.admission.count(waiting.pod, 1, self.trial.afterwards)
        self.trial.join(waiting.pod)
        return True

    def evict(self, info: PodInfo, form: Form | None = None) -> bool:
        """A pod is told to go, with its grace period; True if that violates a budget.

        With a form its owner makes the next one so.
        """
        first = self._first(info)
        if form is not None:
            self._forms[info.uid] = form
        violated = self.budgets.gone(info.pod, self.trial)
        self._going[info.uid] = self.trial.terminate(info), first
        if remake(info.pod) is Remake.AT_ONCE:
            self._make(info.pod, first)
        return violated

    def lose(self, info: PodInfo) -> None:
        """A pod is gone with its node, at once."""
        first = self._first(info)
        self.budgets.gone(info.pod, self.trial)
        self._take(info)
        self._gone(info.pod, first, at_once=False)

    def drop(self, info: PodInfo) -> None:
        """A pod is deleted on purpose; nobody makes it again."""
        self.ends.pop(self._first(info).uid, None)
        self.budgets.gone(info.pod, self.trial)
        self._take(info)
        release_claims(self.trial, info.pod)

    def _take(self, info: PodInfo) -> None:
        self.trial.take(info)
        self.admission.count(info.pod, -1, self.trial.afterwards)

    def withdraw(self, uid: str) -> None:
        """A pod that waits, or is still to be made, is no longer wanted."""
        self._to_make = [item for item in self._to_make if item[0].uid != uid]
        self._refused.pop(uid, None)
        waiting = self._failed.pop(uid, None)
        queued = [item for item in self._queue if item[2].pod.uid == uid]
        if queued:
            waiting = queued[0][2]
            self._queue.remove(queued[0])
            heapq.heapify(self._queue)
        if waiting is not None:
            self.trial.leave(waiting.pod)
            self.admission.count(waiting.pod, -1, self.trial.afterwards)

    def renew(self, waiting: Waiting, form: Form | None = None) -> None:
        """A pod that waits is deleted, and its owner makes it again."""
        self.withdraw(waiting.pod.uid)
        if form is not None:
            self._forms[waiting.pod.uid] = form
        self._make(waiting.pod, waiting.first)

    def remove(self, pod: Pod) -> None:
        """A pod goes on purpose, whether it has a node or waits."""
        info = self.trial.engine.cache.pod(pod.uid)
        if info is not None:
            self.drop(info)
        self.withdraw(pod.uid)

    def link(self, waiting: Waiting, first: Pod) -> None:
        """A pod takes the place of a chain that ended."""
        self.ends.pop(waiting.first.uid, None)
        waiting.first = first
        self.ends[first.uid] = waiting

    def first_of(self, pod: Pod) -> Pod:
        """The first of a pod's chain."""
        known = self.known.get(pod.uid)
        return pod if known is None else known.first

    def latest(self, pod: Pod) -> Pod:
        """What became of a pod."""
        end = self.ends.get(self.first_of(pod).uid)
        return pod if end is None else end.pod

    # -- until it rests --------------------------------------------------------------------------

    def run(self) -> None:
        """Let everything follow that follows."""
        if self.trial.mark != self._rested_at:  # something changed since: it may have made room
            self._try_again()
        while True:
            before = self.trial.mark
            self._schedule()
            self._end_grace()
            self._make_refused()
            self._make_ordered()
            if not self._queue and (self.trial.mark == before or not self._failed):
                break
            self._try_again()
        self._rested_at = self.trial.mark

    def failed(self) -> Iterable[Waiting]:
        """Pods that found no node."""
        return self._failed.values()

    def refused(self) -> Iterable[Waiting]:
        """Pods that the API server does not let be made, and why."""
        return self._refused.values()

    def unborn(self) -> Iterator[tuple[Pod, Pod]]:
        """Pods that a stateful set does not make yet, with the first of their chain."""
        return iter(self._to_make)

    def _schedule(self) -> None:
        while self._queue:
            waiting = heapq.heappop(self._queue)[2]
            refusal = self._refusal(waiting)
            if refusal:
                waiting.message = refusal
                self._failed[waiting.pod.uid] = waiting
                continue
            group = group_of(self.trial.engine, waiting.pod)
            if group is not None:
                self._schedule_group(waiting, group)
                continue
            decision = self.trial.place(waiting.pod)
            if decision.placed:
                self._placed(waiting, decision.node_name)
            else:
                self._fail(waiting, decision)

    def _placed(self, waiting: Waiting, node: str) -> None:
        waiting.node, waiting.message = node, ""
        if waiting.pod is not waiting.first:
            self.budgets.back(waiting.pod, self.trial)

    def _schedule_group(self, first: Waiting, group: PodGroup) -> None:
        """Try all pods of a group that wait in one cycle: those that it needs, or none."""
        key = group_key(first.pod)
        mine = [first, *(item[2] for item in self._queue if group_key(item[2].pod) == key)]
        self._queue = [item for item in self._queue if group_key(item[2].pod) != key]
        heapq.heapify(self._queue)
        engine = self.trial.engine
        found = try_group(engine, group, [waiting.pod for waiting in mine], self.trial.now)
        for number, waiting in enumerate(mine):
            if found.node(number):
                decision = found.cycle.decisions[number]
                self.trial.afterwards(partial(engine.undo, decision))
                self._placed(waiting, decision.node_name)
                continue
            waiting.message, node = found.told(number)
            self._failed[waiting.pod.uid] = waiting
            if node:
                self._nominate(waiting, node)
        self._evict_for(first.pod, found.victims)

    def _nominate(self, waiting: Waiting, node: str) -> Pod:
        pod = replace(waiting.pod, status=replace(waiting.pod.status, nominated_node_name=node))
        waiting.pod = pod
        self.trial.nominate(pod, node)
        return pod

    def _refusal(self, waiting: Waiting) -> str:
        """Why a pod need not be tried: it waits for others, or its like has just failed."""
        pod = waiting.pod
        if pod.spec.scheduling_gates:
            return GATED
        profiles = self.trial.engine.profiles
        if pod.spec.scheduler_name not in profiles:
            return (
                f'scheduler "{pod.spec.scheduler_name}" decides for it, which is not in the '
                "configuration; give it with --config"
            )
        if pod.spec.scheduling_group is not None:
            gate = run_pre_enqueue(profiles[pod.spec.scheduler_name], pod)
            return "" if gate is None else gate.message
        if pod.status.nominated_node_name:
            return ""
        info = self.trial.engine.cache.infos.make(pod)
        at, message = self._refusals.get(info.signature, (-1, ""))
        return message if at == self.trial.mark else ""

    def _fail(self, waiting: Waiting, decision: Decision) -> None:
        waiting.message = decision.message
        pod, nominating = waiting.pod, decision.nominating
        self._failed[pod.uid] = waiting
        node = ""
        if nominating is not None and nominating.mode is NominatingMode.OVERRIDE:
            node = nominating.nominated_node_name
        if node:
            self._preempt(waiting, decision, node)
        elif pod.status.nominated_node_name and nominating is not None:
            self.trial.nominate(pod, "")
            waiting.pod = replace(pod, status=replace(pod.status, nominated_node_name=""))
        elif decision.info.signature:
            self._refusals[decision.info.signature] = (self.trial.mark, waiting.message)

    def _preempt(self, waiting: Waiting, decision: Decision, node: str) -> None:
        pod = waiting.pod
        for other in self.trial.engine.cache.nominator.pods_for(node):
            if other.priority < pod.priority:
                self.trial.nominate(other.pod, "")
        pod = self._nominate(waiting, node)
        self._evict_for(pod, () if decision.victims is None else decision.victims.pods)

    def _evict_for(self, pod: Pod, victims: Iterable[Pod]) -> None:
        """Tell victims to go for a more important pod."""
        for victim in victims:
            info = self.trial.engine.cache.pod(victim.uid)
            if info is None:
                continue
            if info.terminating:  # told to go before all this, or a moment ago: it is waited for
                self._going.setdefault(info.uid, (info, self._first(info)))
                continue
            node, first = info.node_name, self._first(info)
            violates = self.evict(info)
            self.preempted.append(Preempted(info.pod, first, node, pod, violates))

    def _end_grace(self) -> None:
        going, self._going = self._going, {}
        for info, first in going.values():
            self._take(info)
            self._gone(info.pod, first, at_once=True)

    def _gone(self, pod: Pod, first: Pod, *, at_once: bool) -> None:
        """A pod is gone; `at_once`: an eager owner has made a new one already."""
        how = remake(pod)
        if how is not Remake.AT_ONCE:
            self.ends.pop(first.uid, None)
        if how is Remake.WHEN_GONE or is_daemon(pod):
            self._to_make.append((pod, first))
        elif how is Remake.AT_ONCE and not at_once:
            self._make(pod, first)
        elif how in (Remake.NEVER, Remake.STAYS) and not self._was_going(first):
            self.unmade[first.uid] = pod
        release_claims(self.trial, pod)

    def _was_going(self, pod: Pod) -> bool:
        """Whether somebody deleted a pod before all this."""
        now = self.cluster.pods.get(pod.key)
        return now is not None and now.uid == pod.uid and now.terminating

    def _make_refused(self) -> None:
        """Let owners try again to make what was refused."""
        refused, self._refused = self._refused, {}
        for waiting in refused.values():
            if self._admitted(waiting):
                self._push(waiting)

    def _make_ordered(self) -> None:
        """Let stateful sets make what is gone: by ordinal, waiting for those before."""
        if not self._to_make:
            return
        waiting = [*self._failed.values(), *self._refused.values()]
        stuck = {_set_of(item.pod) for item in waiting}
        stuck |= {_set_of(item[2].pod) for item in self._queue}
        self._to_make.sort(key=lambda item: (_set_of(item[0]), ordinal(item[0])))
        left: list[tuple[Pod, Pod]] = []
        for pod, first in self._to_make:
            if is_ordered(self.cluster, pod):
                if _set_of(pod) in stuck:
                    left.append((pod, first))
                    continue
                stuck.add(_set_of(pod))
            self._make(pod, first)
        self._to_make = left

    def _try_again(self) -> None:
        failed, self._failed = self._failed, {}
        for waiting in failed.values():
            self._push(waiting)

    def _make(self, pod: Pod, first: Pod) -> None:
        self._number += 1
        made = with_claims(self.trial, pod, successor(pod, self._number))
        form = self._forms.pop(pod.uid, None)
        if form is not None:
            made = form(made)
        if is_daemon(pod) and pod.spec.node_name:
            made = replace(made, spec=pinned(made.spec, pod.spec.node_name))
        self.add(made, first)

    def _first(self, info: PodInfo) -> Pod:
        return self.first_of(info.pod)

    def _push(self, waiting: Waiting) -> None:
        self._number += 1
        if not waiting.seen:
            waiting.seen = self._number
        heapq.heappush(self._queue, (-waiting.pod.priority, waiting.seen, waiting))


def _set_of(pod: Pod) -> tuple[str, str]:
    """The stateful set of a pod; empty names if it has none."""
    ref = pod.controller
    if ref is None or ref.kind != "StatefulSet":
        return ("", "")
    return (pod.namespace, ref.name)
