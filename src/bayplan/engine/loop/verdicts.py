"""Failed attempts that pods alike need not make again.

Jobs that wait for room are woken together and fail together. When an attempt has failed, the next
pod that differs in nothing scheduling reads fails for the same reasons, as long as nothing happened
in between: then the verdict is passed on instead of worked out. The pod still goes through the
queue, counts an attempt and tells why it waits, so that nothing but time is saved.

A verdict holds only if every plugin let the engine keep its answer (`depends_on`, `revision`),
every PostFilter plugin `repeats`, no extender was asked, and nobody was nominated or preempted.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import msgspec

from bayplan.engine.cycle.decisions import Decision
from bayplan.engine.cycle.records import RECORD_BYTES
from bayplan.engine.engine import Engine
from bayplan.engine.loop.shared import Failure
from bayplan.engine.queue import QueuedPod
from bayplan.framework.contract.results import CLEAR_NOMINATION

LIMIT = 256
"""Kinds of pods whose verdicts are kept."""


class Verdict(NamedTuple):
    """Why pods of one kind fail, and what that hangs on beside the cluster."""

    decision: Decision
    failure: Failure
    revisions: tuple[Hashable, ...]


class Verdicts:
    """What attempts on the cluster as it is came to."""

    def __init__(self, engine: Engine, limit: int = LIMIT) -> None:
        self.engine = engine
        self.limit = limit
        self.passed_on = 0
        """How many attempts were spared."""
        self._moment: Hashable = None
        """The state of the cluster that the verdicts are about."""
        self._known: dict[tuple[str, bytes], Verdict] = {}
        self.sure: Verdict | None = None
        """The one that the attempt under way or just over passed on."""

    def of(self, item: QueuedPod, now: float) -> Failure | None:
        """Why this pod fails, if that is known already."""
        if not self._known or not self.hold():
            return None
        pod = item.pod
        if pod.status.nominated_node_name or pod.spec.node_name:
            return None
        found = self._known.get((pod.spec.scheduler_name, self.signature_of(item)))
        if found is None or found.revisions != self.engine.revisions(found.decision):
            return None
        self.sure = found
        self.passed_on_to(found, (item,), now)
        return found.failure

    def signature_of(self, item: QueuedPod) -> bytes:
        """What a queued pod has in common with others."""
        if item.signature is None:
            item.signature = self.engine.cache.infos.make(item.pod).signature
        return item.signature

    def hold(self) -> bool:
        """Whether the cluster is as it was; if not, all verdicts are forgotten."""
        moment = self.engine.moment
        if moment == self._moment:
            return True
        self._moment = moment
        self._known.clear()
        return False

    def passed_on_to(self, verdict: Verdict, items: Sequence[QueuedPod], now: float) -> None:
        """Count and record attempts that were spared."""
        self.passed_on += len(items)
        record, ring = verdict.decision.record, self.engine.records
        if record is None or ring is None:
            return
        for item in items:
            ring.add(msgspec.structs.replace(record, pod=item.pod, now=now, bytes=RECORD_BYTES))

    def keep(self, item: QueuedPod, decision: Decision, failure: Failure) -> None:
        """Keep why a pod failed, if pods alike will fail for the same reasons."""
        if not self.limit or not _lasts(decision, item):
            return
        revisions = self.engine.revisions(decision)
        if revisions is None:
            return
        self.hold()
        if len(self._known) >= self.limit:
            del self._known[next(iter(self._known))]
        key = (decision.profile.name, decision.info.signature)
        self._known[key] = Verdict(decision, failure, revisions)

    def forget(self, engine: Engine) -> None:
        """Begin anew with another engine."""
        self.engine = engine
        self._known.clear()


def _lasts(decision: Decision, item: QueuedPod) -> bool:
    """Whether the failure says nothing about the very pod, and nothing follows from it."""
    if decision.fit_error is None or decision.next_start != decision.start:
        return False
    if decision.victims is not None or decision.effects is not None:
        return False
    said = decision.post_filter_status
    if said is not None and not said.rejected:
        return False
    nominated = decision.info.pod.status.nominated_node_name or item.pod.spec.node_name
    return decision.nominating in (None, CLEAR_NOMINATION) and not nominated
