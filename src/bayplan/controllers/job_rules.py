"""What a Job's policies say about pods that have ended: pure functions of its spec and pods."""

from __future__ import annotations

from bisect import bisect_left

from bayplan.api.labels import parse_int64
from bayplan.controllers.objects import Json, Object, condition

INDEX = "batch.kubernetes.io/job-completion-index"
FAIL_JOB, FAIL_INDEX, IGNORE, COUNT = "FailJob", "FailIndex", "Ignore", "Count"


def is_indexed(job: Object) -> bool:
    return bool(job.spec.get("completionMode") == "Indexed")


def index_of(pod: Object) -> int:
    text = pod.metadata.annotations.get(INDEX, "")
    return number if (number := parse_int64(text)) is not None else -1


def action_on(job: Object, pod: Object) -> tuple[str, str]:
    """Return what the pod failure policy does about a failed pod, and in which words."""
    policy: Json = job.spec.get("podFailurePolicy") or {}
    for number, rule in enumerate(policy.get("rules") or []):
        why = _exit_code_match(rule.get("onExitCodes"), pod) or _condition_match(
            rule.get("onPodConditions"), pod
        )
        if why:
            action = rule.get("action", COUNT)
            return action, f"{why} matching {action} rule at index {number}"
    return COUNT, ""


def _exit_code_match(wanted: Json | None, pod: Object) -> str:
    if not wanted:
        return ""
    name = wanted.get("containerName")
    both = ("initContainerStatuses", "containerStatuses")
    for container in [c for field in both for c in pod.status.get(field) or []]:
        ended = (container.get("state") or {}).get("terminated")
        if not ended or not ended.get("exitCode") or (name and container["name"] != name):
            continue
        found = ended["exitCode"] in (wanted.get("values") or [])
        if found == (wanted.get("operator") == "In"):
            return (
                f"Container {container['name']} for pod {pod.key} failed with exit code "
                f"{ended['exitCode']}"
            )
    return ""


def _condition_match(wanted: list[Json] | None, pod: Object) -> str:
    for item in wanted or []:
        if condition(pod.status, item["type"]).get("status") == item.get("status", "True"):
            return f"Pod {pod.key} has condition {item['type']}"
    return ""


def success_rule(job: Object, done: set[int]) -> int | None:
    """Return the first rule of the success policy that the succeeded indexes satisfy."""
    policy: Json = job.spec.get("successPolicy") or {}
    ordered = sorted(done) if policy else []
    for number, rule in enumerate(policy.get("rules") or []):
        counted, needed = len(done), rule.get("succeededCount")
        among = parse_ranges(rule.get("succeededIndexes") or "")
        if among:
            counted = sum(map(len, (_within(ordered, each) for each in among)))
        if needed is None:
            needed = sum(map(len, among)) or job.spec.get("completions", 0)
        if counted >= needed:
            return number
    return None


def _within(ordered: list[int], wanted: range) -> list[int]:
    return ordered[bisect_left(ordered, wanted.start) : bisect_left(ordered, wanted.stop)]


def parse_ranges(text: str) -> list[range]:
    """Read indexes as they are written: `0-2,5`. There may be billions."""
    parts = (part.partition("-") for part in filter(None, text.split(",")))
    return [range(int(first), int(last or first) + 1) for first, _, last in parts]


def ranges(numbers: set[int]) -> str:
    """Write indexes as upstream does: `0-2,5`, and two in a row as `0,1`."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and parts[-1][-1] == number - 1:
            parts[-1] = [parts[-1][0], number]
        else:
            parts.append([number])
    return ",".join(
        f"{part[0]},{part[-1]}" if part[-1] == part[0] + 1 else "-".join(map(str, part))
        for part in parts
    )
