"""What a simulated kubelet writes into the status of a pod."""

from __future__ import annotations

from bayplan.controllers.kubelet.pod import PodRun
from bayplan.controllers.objects import Json, condition


def pod_status(run: PodRun, host: str, now: float) -> Json:
    """Return the status of a pod as it is now."""
    phase = run.phase
    status: Json = {
        "observedGeneration": run.pod.metadata.generation or 1,
        "phase": phase,
        "startTime": run.started_at,
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "conditions": _conditions(run, phase, now),
    }
    if run.address:
        status |= {"podIP": run.address, "podIPs": [{"ip": run.address}]}
    if run.failed:
        status |= {"reason": run.failed, "message": run.text}
    for field, roles in (
        ("initContainerStatuses", ("init", "sidecar")),
        ("containerStatuses", ("main",)),
        ("ephemeralContainerStatuses", ("ephemeral",)),
    ):
        if found := run.of(*roles):
            status[field] = [container.status() for container in found]
    return status


def _conditions(run: PodRun, phase: str, now: float) -> list[Json]:
    """Return the conditions that are the kubelet's; it leaves out empty reasons."""
    mains = run.of("main", "sidecar")
    unready = [c.name for c in mains if not c.ready]
    over = phase in ("Succeeded", "Failed")
    gates = run.pod.spec.get("readinessGates") or []
    met = all(
        condition(run.pod.status, gate.get("conditionType", "")).get("status") == "True"
        for gate in gates
    )
    reason, text = "", ""
    if over:
        reason = "PodCompleted" if phase == "Succeeded" else "PodFailed"
    elif unready:
        reason = "ContainersNotReady"
        text = f"containers with unready status: [{' '.join(unready)}]"
    started = any(c.started for c in run.containers)
    rows = [
        ("PodReadyToStartContainers", started and not over, "", ""),
        ("Initialized", run.initialized, *_uninitialized(run)),
        ("ContainersReady", not over and not unready, reason, text),
    ]
    if not reason and not met:
        missing = "the status of pod readiness gate is not True"
        rows.append(("Ready", False, "ReadinessGatesNotReady", missing))
    else:
        rows.append(("Ready", not over and not unready, reason, text))
    return [_condition(run, *row, now) for row in rows]


def _uninitialized(run: PodRun) -> tuple[str, str]:
    left = [c.name for c in run.of("init") if c.state != "ended" or c.code]
    if run.initialized or not left:
        return "", ""
    return "ContainersNotInitialized", f"containers with incomplete status: [{' '.join(left)}]"


def _condition(run: PodRun, type_: str, value: bool, reason: str, text: str, now: float) -> Json:
    status = "True" if value else "False"
    before = run.since.get(type_)
    if before is None or before[0] != status:
        before = run.since[type_] = (status, run.stamp(now))
    made: Json = {
        "type": type_,
        "status": status,
        "observedGeneration": run.pod.metadata.generation or 1,
        "lastProbeTime": None,
        "lastTransitionTime": before[1],
    }
    if not value and reason:
        made["reason"] = reason
        if text:
            made["message"] = text
    return made
