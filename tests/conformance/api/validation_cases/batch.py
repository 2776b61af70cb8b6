"""Job and CronJob."""

# ruff: noqa: E501  one case a line is easier to read

from __future__ import annotations

from typing import Any

from tests.conformance.api.validation_cases.build import Body, Step, post, template

# Generated from a job's uid, which no two runs share.
_UIDS = [
    "/spec/selector/matchLabels/batch.kubernetes.io~1controller-uid",
    "/spec/template/metadata/labels/batch.kubernetes.io~1controller-uid",
    "/spec/template/metadata/labels/controller-uid",
    "/metadata/labels/batch.kubernetes.io~1controller-uid",
    "/metadata/labels/controller-uid",
]


def job(**spec: Any) -> Body:
    return {"spec": {"template": template({}, restartPolicy="Never"), **spec}}


def cron(**spec: Any) -> Body:
    inner = {"template": template({}, restartPolicy="OnFailure")}
    return {"spec": {"schedule": "*/5 * * * *", "jobTemplate": {"spec": inner}, **spec}}


JOBS: dict[str, Body] = {
    "plain": job(),
    "labels": {"spec": {"template": template({"app": "x"}, restartPolicy="OnFailure")}},
    "restart-always": {"spec": {"template": template({})}},
    "restart-odd": {"spec": {"template": template({}, restartPolicy="Odd")}},
    "counts": job(parallelism=-1, completions=-1, backoffLimit=-1, activeDeadlineSeconds=-1, ttlSecondsAfterFinished=-1),
    "parallel": job(parallelism=3),
    "indexed": job(completionMode="Indexed", completions=3, backoffLimitPerIndex=1, maxFailedIndexes=2),
    "indexed-no-completions": job(completionMode="Indexed"),
    "indexed-bad": job(completionMode="Indexed", completions=2, maxFailedIndexes=5),
    "not-indexed": job(backoffLimitPerIndex=1, maxFailedIndexes=1),
    "mode-odd": job(completionMode="Odd"),
    "selector": job(selector={"matchLabels": {"a": "b"}}),
    "manual": {"spec": {"manualSelector": True, "selector": {"matchLabels": {"app": "x"}}, "template": template(restartPolicy="Never")}},
    "manual-mismatch": {"spec": {"manualSelector": True, "selector": {"matchLabels": {"app": "y"}}, "template": template(restartPolicy="Never")}},
    "manual-missing": {"spec": {"manualSelector": True, "template": template(restartPolicy="Never")}},
    "failure-policy": job(podFailurePolicy={"rules": [
        {"action": "Odd", "onExitCodes": {"operator": "In", "values": [0, 3, 2, 2]}}, {"action": "FailIndex", "onPodConditions": [{"type": "-"}]},
        {"action": "Count"}, {"action": "Ignore", "onExitCodes": {"operator": "Near", "values": []}, "onPodConditions": [{"type": "X", "status": "Odd"}]}]}),
    "failure-policy-ok": job(podFailurePolicy={"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}),
    "failure-policy-restart": {"spec": {"podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]},
                                        "template": template({}, restartPolicy="OnFailure")}},
    "success-policy": job(successPolicy={"rules": []}),
    "success-policy-indexed": job(completionMode="Indexed", completions=2, successPolicy={"rules": [{"succeededCount": 5}, {}]}),
    "success-policy-indexes": job(completionMode="Indexed", completions=9, successPolicy={"rules": [
        *({"succeededIndexes": text} for text in ("", "0-2,5", "0-9", "9", "3-1", "2,2", "1-2,0", "1-2-3", "x", "-1", "0-", "+1,2 ", ",")),
        {"succeededIndexes": "0-2", "succeededCount": 4}, {"succeededIndexes": "3-1", "succeededCount": 1}]}),
    "success-policy-wide": job(completionMode="Indexed", completions=2**31 - 1, parallelism=1,
                               successPolicy={"rules": [{"succeededIndexes": "0-2000000000"}]}),
    "success-policy-long": job(completionMode="Indexed", completions=9, successPolicy={"rules": [{"succeededIndexes": "1," * 40_000}]}),
    "success-policy-rules": job(completionMode="Indexed", completions=9, successPolicy={"rules": [{"succeededCount": 1}] * 21}),
    "replacement": job(podReplacementPolicy="Odd"),
    "managed-by": job(managedBy="nodomain"),
    "managed-by-ok": job(managedBy="a.example/x"),
    "suspend": job(suspend=True),
}  # fmt: skip

CRON_JOBS: dict[str, Body] = {
    "plain": cron(),
    "named": cron(schedule="@daily", timeZone="Europe/Berlin", concurrencyPolicy="Forbid"),
    "schedule-empty": cron(schedule=""),
    "schedule-fields": cron(schedule="* * * *"),
    "schedule-range": cron(schedule="61 * * * *"),
    "schedule-word": cron(schedule="0 0 * jan mon-fri"),
    "schedule-zone": cron(schedule="TZ=UTC 0 0 * * *"),
    "zone-bad": cron(timeZone="Nowhere/Land"),
    "zone-empty": cron(timeZone=""),
    "policy": cron(concurrencyPolicy="Odd"),
    "counts": cron(startingDeadlineSeconds=-1, successfulJobsHistoryLimit=-1, failedJobsHistoryLimit=-1),
    "template": {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template({}), "selector": {"matchLabels": {"a": "b"}},
                                                                            "manualSelector": True}}}},
    "name": {**cron(), "metadata": {"name": "n" * 53}},
}  # fmt: skip


def steps(namespace: str) -> list[Step]:
    out = [post("Job", c, b, namespace, compare={"ignore": _UIDS}) for c, b in JOBS.items()]
    return out + [post("CronJob", case, body, namespace) for case, body in CRON_JOBS.items()]
