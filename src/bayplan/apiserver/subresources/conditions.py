"""Setting a condition in a status, as upstream's helper does."""

from __future__ import annotations

from bayplan.apiserver.codec import Object


def set_condition(obj: Object, condition: Object, now: str) -> None:
    """Add a condition to an object's status or replace the one of its type.

    The time of the last transition changes only when the status does.
    """
    status = obj.setdefault("status", {})
    conditions: list[Object] = status.setdefault("conditions", [])
    for index, old in enumerate(conditions):
        if old.get("type") == condition["type"]:
            changed = old.get("status") != condition["status"]
            moment = now if changed else old.get("lastTransitionTime", now)
            conditions[index] = {**condition, "lastTransitionTime": moment}
            return
    conditions.append({**condition, "lastTransitionTime": now})
