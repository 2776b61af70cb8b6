"""Which pods of a cluster may move, and which stay, and why."""

from __future__ import annotations

from collections import Counter

from bayplan.api.labels import Selector
from bayplan.engine.engine import Engine
from bayplan.framework import PodInfo
from bayplan.inspect.whatif.owners import Remake, remake
from bayplan.pack.check import Check, profiles_of
from bayplan.pack.holding import holds
from bayplan.pack.model import Problem
from bayplan.pack.reading import Reading

DAEMON = "belongs to its node (DaemonSet or static)"
LEAVING = "is being deleted"
BARE = "has no owner that would make it again (--force moves it)"
KEPT = "is kept by --keep"
DEVICES = "holds devices by resource claims"
OTHER = "is placed by another scheduler"
BROKEN = "breaks a hard constraint where it is"
CHECKED = "has a constraint that only the check knows"

NODE_FILTERS = frozenset(
    ("NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodeName", "NodeDeclaredFeatures")
)
FREE = frozenset((DAEMON, LEAVING))
"""Pods that stay for these reasons do not keep a node in use."""


class Choice:
    """The pods of an engine's table, by whether they may move."""

    def __init__(
        self, engine: Engine, keep: Selector | None = None, *, force: bool = False
    ) -> None:
        self.engine = engine
        self.check = Check(
            engine.cache.table, profiles_of(engine.profiles), engine.cache.infos.make
        )
        self.movers: list[PodInfo] = []
        self.stay: dict[str, str] = {}
        """Why pods stay, by uid."""
        for info in engine.cache.table.all_pods():
            reason = self._reason(info, keep, force)
            if reason:
                self.stay[info.uid] = reason
            else:
                self.movers.append(info)
        self.lenient: frozenset[str] = frozenset()
        self._judge()

    def _reason(self, info: PodInfo, keep: Selector | None, force: bool) -> str:
        pod, how = info.pod, remake(info.pod)
        if how is Remake.STAYS:
            return DAEMON
        if info.terminating:
            return LEAVING
        if how is Remake.NEVER and not force:
            return BARE
        if keep is not None and keep.matches(pod.labels):
            return KEPT
        if pod.spec.resource_claims:
            return DEVICES
        return "" if self.engine.profile_for(pod) is not None else OTHER

    def _judge(self) -> None:
        """Pods that break a constraint now stay, unless it is only that their node is closed."""
        refused = self.check.refused(self.movers)
        lenient = {uid for uid, status in refused.items() if status.plugin in NODE_FILTERS}
        self.pin({uid for uid in refused if uid not in lenient}, BROKEN)
        self.lenient = frozenset(lenient)

    def pin(self, uids: set[str], reason: str) -> None:
        """Let pods stay where they are after all."""
        self.stay |= dict.fromkeys(uids, reason)
        self.movers = [info for info in self.movers if info.uid not in uids]

    def reading(self) -> Reading:
        engine = self.engine
        return Reading(engine.cache.table, profiles_of(engine.profiles), engine.cache.infos.make)

    def problem(self) -> Problem:
        """What is to be packed; the present placement keeps all its rules."""
        while True:
            table = self.engine.cache.table
            problem = self.reading().read(self.movers, lenient=self.lenient)
            for info in table.all_pods():
                row = table.row_of(info.node_name)
                if row is not None and self.stay.get(info.uid, DAEMON) not in FREE:
                    problem.forced[row] = True
            if holds(problem, problem.now) or not self.lenient:
                return problem
            self.pin(set(self.lenient), BROKEN)
            self.lenient = frozenset()

    def reasons(self) -> dict[str, int]:
        """How many pods stay, by why."""
        return dict(Counter(self.stay.values()).most_common())
