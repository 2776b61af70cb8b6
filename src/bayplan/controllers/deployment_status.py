"""The conditions of a Deployment: available, progressing in time, failing to make pods."""

from __future__ import annotations

from bayplan.controllers.objects import (
    Json,
    Object,
    condition,
    seconds_of,
    timestamp,
    with_condition,
)

NO_DEADLINE = (1 << 31) - 1
OWN = ("Available", "Progressing", "ReplicaFailure")
DONE, GOING_ON, LATE = "NewReplicaSetAvailable", "ReplicaSetUpdated", "ProgressDeadlineExceeded"


def conditions(
    deployment: Object,
    new: Object | None,
    sets: list[Object],
    status: Json,
    enough: bool,
    clock: float,
) -> list[Json]:
    """Return the conditions of a deployment whose new counts are in `status`."""
    now = timestamp(clock)
    found = with_condition(
        deployment.status,
        "Available",
        "True" if enough else "False",
        "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
        f"Deployment {'has' if enough else 'does not have'} minimum availability.",
        now,
    )
    progress = _progress(deployment, new, status, clock)
    if progress is not None:
        found = with_condition({"conditions": found}, "Progressing", *progress, now)
    failure = _failure(new, sets)
    found = [item for item in found if failure or item.get("type") != "ReplicaFailure"]
    if failure:
        text = failure.get("message", "")
        reason = failure.get("reason", "FailedCreate")
        found = with_condition({"conditions": found}, "ReplicaFailure", "True", reason, text, now)
    old = {item.get("type"): item for item in deployment.status.get("conditions") or []}
    found = [dict(item) for item in found]
    for item in found:
        if item.get("type") not in OWN:
            continue
        before = old.get(item["type"], {})
        same = all(before.get(name) == item.get(name) for name in ("reason", "status"))
        moved = item.get("type") == "Progressing" and progress is not None and progress[1] != LATE
        if not same or (moved and _has_moved(deployment, status)):
            item["lastUpdateTime"] = now
        item.setdefault("lastUpdateTime", item.get("lastTransitionTime", now))
    return found


def seconds_left(deployment: Object, found: list[Json], clock: float) -> float | None:
    """Return when to look again at a rollout that may miss its deadline."""
    progress = condition({"conditions": found}, "Progressing")
    deadline = _deadline(deployment)
    if deadline is None or progress.get("reason") != GOING_ON:
        return None
    return max(seconds_of(progress.get("lastUpdateTime")) + deadline - clock + 1, 1.0)


def _progress(
    deployment: Object, new: Object | None, status: Json, clock: float
) -> tuple[str, str, str] | None:
    """Return status, reason and message of Progressing; None: as it is."""
    current = condition(deployment.status, "Progressing")
    deadline = _deadline(deployment)
    all_new = status["replicas"] == status["updatedReplicas"]
    if deadline is None or (all_new and current.get("reason") == DONE and new is not None):
        return None
    name = (
        f'ReplicaSet "{new.metadata.name}"' if new else f'Deployment "{deployment.metadata.name}"'
    )
    wanted = deployment.spec.get("replicas", 1)
    if all_new and status["updatedReplicas"] == wanted == status["availableReplicas"]:
        return "True", DONE, f"{name} has successfully progressed."
    if not current or _has_moved(deployment, status) or current.get("reason") == DONE:
        return "True", GOING_ON, f"{name} is progressing."
    since = seconds_of(current.get("lastUpdateTime"))
    if not deployment.spec.get("paused") and clock - since >= deadline:
        return "False", LATE, f"{name} has timed out progressing."
    return None


def _has_moved(deployment: Object, status: Json) -> bool:
    old: Json = deployment.status

    def count(source: Json, name: str) -> int:
        return int(source.get(name) or 0)

    outdated = count(status, "replicas") - count(status, "updatedReplicas")
    outdated_before = count(old, "replicas") - count(old, "updatedReplicas")
    return outdated < outdated_before or any(
        count(status, name) > count(old, name)
        for name in ("updatedReplicas", "readyReplicas", "availableReplicas")
    )


def _deadline(deployment: Object) -> int | None:
    seconds = deployment.spec.get("progressDeadlineSeconds", 600)
    return int(seconds) if seconds is not None and seconds != NO_DEADLINE else None


def _failure(new: Object | None, sets: list[Object]) -> Json:
    """Return the condition of a set that cannot make its pods, the newest set's first."""
    for s in ([new] if new else []) + sets:
        found = condition(s.status, "ReplicaFailure")
        if found.get("status") == "True":
            return found
    return {}
