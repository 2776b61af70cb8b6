"""The pod table: what STATUS, READY and RESTARTS say.

STATUS is the phase until something more telling is known: a gate, a waiting or terminated
container, init containers that are not done, a deletion. The rules are those of the real API
server.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from bayplan.apiserver.tables.text import NONE, age, human_duration, moment

Object = Mapping[str, Any]


class _Count:
    """Restarts, and when the last one was."""

    def __init__(self) -> None:
        self.restarts = 0
        self.last: datetime | None = None

    def add(self, status: Object) -> None:
        self.restarts += status.get("restartCount", 0)
        ended = (status.get("lastState") or {}).get("terminated")
        finished = moment(ended.get("finishedAt")) if ended else None
        if finished is not None and (self.last is None or finished > self.last):
            self.last = finished

    def text(self, now: datetime) -> str:
        if self.restarts == 0 or self.last is None:
            return str(self.restarts)
        return f"{self.restarts} ({human_duration((now - self.last).total_seconds())} ago)"


class _View:
    """One pod while its row is worked out."""

    def __init__(self, pod: Object) -> None:
        self.pod = pod
        self.spec: Object = pod.get("spec") or {}
        self.status: Object = pod.get("status") or {}
        self.conditions = self.status.get("conditions") or []
        self.reason: str = self.status.get("reason") or self.status.get("phase") or ""
        self.ready = 0
        self.count = _Count()
        inits = self.spec.get("initContainers") or []
        self.sidecars = {c["name"] for c in inits if c.get("restartPolicy") == "Always"}
        self.total = len(self.spec.get("containers") or ()) + len(self.sidecars)

    def has(self, type_: str) -> bool:
        return any(c.get("type") == type_ and c.get("status") == "True" for c in self.conditions)

    def work_out(self) -> None:
        for condition in self.conditions:
            if (
                condition.get("type") == "PodScheduled"
                and condition.get("reason") == "SchedulingGated"
            ):
                self.reason = "SchedulingGated"
        sidecar_count = _Count()
        initializing = self._init_containers(sidecar_count)
        if not initializing or self.has("Initialized"):
            self.count = sidecar_count
            self._containers()
        if self.pod["metadata"].get("deletionTimestamp"):
            if self.status.get("reason") == "NodeLost":
                self.reason = "Unknown"
            elif self.status.get("phase") not in ("Succeeded", "Failed"):
                self.reason = "Terminating"

    def _init_containers(self, sidecar_count: _Count) -> bool:
        total = len(self.spec.get("initContainers") or ())
        for index, status in enumerate(self.status.get("initContainerStatuses") or ()):
            self.count.add(status)
            sidecar = status.get("name") in self.sidecars
            if sidecar:
                sidecar_count.add(status)
            state = status.get("state") or {}
            ended, waiting = state.get("terminated"), state.get("waiting") or {}
            if ended is not None and ended.get("exitCode", 0) == 0:
                continue
            if sidecar and status.get("started"):
                self.ready += bool(status.get("ready"))
                continue
            if ended is not None:
                self.reason = f"Init:{_ended(ended)}"
            elif waiting.get("reason", "PodInitializing") not in ("", "PodInitializing"):
                self.reason = f"Init:{waiting['reason']}"
            else:
                self.reason = f"Init:{index}/{total}"
            return True
        return False

    def _containers(self) -> None:
        running, failed = False, ""
        for status in reversed(self.status.get("containerStatuses") or ()):
            self.count.add(status)
            state = status.get("state") or {}
            waiting, ended = state.get("waiting") or {}, state.get("terminated")
            if waiting.get("reason"):
                self.reason = waiting["reason"]
            elif ended is not None:
                self.reason = _ended(ended)
                if ended.get("exitCode", 0) != 0:
                    failed = self.reason
            elif status.get("ready") and state.get("running") is not None:
                running = True
                self.ready += 1
        if self.reason == "Completed":
            if running and self.has("Ready"):
                self.reason = "Running"
            elif failed:
                self.reason = failed
            elif running:
                self.reason = "NotReady"

    def gates(self) -> str:
        gates = self.spec.get("readinessGates") or []
        if not gates:
            return NONE
        states = {c.get("type"): c.get("status") for c in reversed(self.conditions)}
        met = sum(states.get(gate.get("conditionType")) == "True" for gate in gates)
        return f"{met}/{len(gates)}"


def _ended(state: Object) -> str:
    if state.get("reason"):
        return str(state["reason"])
    if state.get("signal"):
        return f"Signal:{state['signal']}"
    return f"ExitCode:{state.get('exitCode', 0)}"


def pod_row(pod: Object, now: datetime) -> list[Any]:
    """The cells of one pod, wide ones included."""
    view = _View(pod)
    view.work_out()
    ips = view.status.get("podIPs") or [{}]
    return [
        pod["metadata"]["name"],
        f"{view.ready}/{view.total}",
        view.reason,
        view.count.text(now),
        age(pod, now),
        ips[0].get("ip") or NONE,
        view.spec.get("nodeName") or NONE,
        view.status.get("nominatedNodeName") or NONE,
        view.gates(),
    ]


_ENDINGS = {
    "Succeeded": "The pod has completed successfully.",
    "Failed": "The pod failed.",
}


def pod_conditions(pod: Object) -> list[dict[str, str]]:
    """Row conditions: kubectl leaves completed pods out of some views by these."""
    phase = (pod.get("status") or {}).get("phase")
    if phase not in _ENDINGS:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": _ENDINGS[phase]}]
