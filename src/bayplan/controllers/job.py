"""Runs a Job's pods until enough of them have succeeded.

`parallelism`, `completions`, `backoffLimit` (in all or per index), `maxFailedIndexes`,
`activeDeadlineSeconds`, `suspend`, Indexed jobs, success and pod failure policies, `managedBy`, and
deletion after `ttlSecondsAfterFinished`. After failures new pods wait 10 s, 20 s, … as upstream.

Pods are counted as long as they are there, without the tracking finalizer of upstream, so a
finished pod that is deleted by hand is run again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import islice

import msgspec

from bayplan.client.resources import JOBS
from bayplan.controllers.job_rules import (
    FAIL_INDEX,
    FAIL_JOB,
    IGNORE,
    INDEX,
    action_on,
    index_of,
    is_indexed,
    ranges,
    success_rule,
)
from bayplan.controllers.objects import (
    Json,
    Object,
    condition,
    is_active,
    is_finished,
    is_ready,
    seconds_of,
    selector_of,
    with_condition,
)
from bayplan.controllers.pods import BURST, PodControl, pod_from
from bayplan.controllers.runtime import Kit, OneWorker, Worker, together

MANAGER = "kubernetes.io/job-controller"
BACKOFF_FIRST, BACKOFF_LAST = 10.0, 600.0
INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
_LIMIT = "Job has reached the specified backoff limit"
_DEADLINE = "Job was active longer than specified deadline"
_INDEXES = "Job has failed indexes"
_TOO_MANY = "Job has exceeded the specified maximal number of failed indexes"
_REACHED = "Reached expected number of succeeded pods"


class _Count(msgspec.Struct):
    """How a job's pods stand, by what its policies say."""

    active: list[Object]
    ending: list[Object]  # deleted, but still there
    done: set[int]
    failed: list[Object]  # those that count
    failed_indexes: set[int]
    stop: tuple[str, str] = ("", "")  # a failure policy ended the job: reason and message


class JobController(OneWorker):
    """Makes pods, counts how they end, and says when the job is over."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._worker = Worker(kit, "job", self._sync)
        self._control = PodControl(kit, JOBS, self._worker.queue)
        self._worker.use(self._control.caches)

    async def _sync(self, key: str) -> float | None:
        job = self._control.owners.get(key)
        if job is None or job.deleted or job.spec.get("managedBy", MANAGER) != MANAGER:
            return None
        if _finished(job):
            return await self._expire(job)
        pods = await self._control.claim(job, selector_of(job.spec.get("selector")))
        count = _count(job, pods)
        verdict = self._verdict(job, count)
        wait = None
        if verdict[0] or job.spec.get("suspend"):
            for pod in count.active:
                await self._control.delete(pod, job)
            count.ending += count.active
            count.active = []
        else:
            pause = await self._scale(job, count)
            wait = min((w for w in (self._deadline(job), pause) if w is not None), default=None)
        await self._write_status(job, count, verdict)
        return wait

    def _verdict(self, job: Object, count: _Count) -> tuple[str, str, str]:
        """Return how the job ends, if it does: condition, reason, message."""
        for type_ in ("FailureTarget", "SuccessCriteriaMet"):  # decided before: pods are ending
            if (old := condition(job.status, type_)).get("status") == "True":
                return type_, old.get("reason", ""), old.get("message", "")
        if count.stop[0]:
            return "FailureTarget", *count.stop
        remaining = self._deadline(job)
        if remaining is not None and remaining <= 0:
            return "FailureTarget", "DeadlineExceeded", _DEADLINE
        if (rule := success_rule(job, count.done)) is not None:
            return "SuccessCriteriaMet", "SuccessPolicy", f"Matched rules at index {rule}"
        per_index = job.spec.get("backoffLimitPerIndex") is not None
        if len(count.failed) > job.spec.get("backoffLimit", 2**31 - 1 if per_index else 6):
            return "FailureTarget", "BackoffLimitExceeded", _LIMIT
        most = job.spec.get("maxFailedIndexes")
        if most is not None and len(count.failed_indexes) > most:
            return "FailureTarget", "MaxFailedIndexesExceeded", _TOO_MANY
        return _completion(job, count)

    def _deadline(self, job: Object) -> float | None:
        limit, start = job.spec.get("activeDeadlineSeconds"), job.status.get("startTime")
        if limit is None or not start or _finished(job):
            return None
        return float(seconds_of(start) + limit - self._kit.clock())

    async def _scale(self, job: Object, count: _Count) -> float | None:
        """Start or stop pods; return how long failures make new ones wait."""
        wanted: int = job.spec.get("parallelism", 1)
        completions = job.spec.get("completions")
        if completions is not None:
            wanted = min(wanted, completions - len(count.done) - len(count.failed_indexes))
        elif count.done:
            wanted = len(count.active)  # a work queue: once one has succeeded, none is started
        surplus = count.active[max(wanted, 0) :]
        for pod in surplus:
            await self._control.delete(pod, job)
        count.ending += surplus
        count.active = count.active[: max(wanted, 0)]
        busy = len(count.active)
        if job.spec.get("podReplacementPolicy") == "Failed" or job.spec.get("podFailurePolicy"):
            busy += len(count.ending)
        missing = wanted - busy
        if missing <= 0:
            return None
        if (wait := self._backoff(count)) > 0:
            return wait
        more = min(missing, BURST)
        indexes: Sequence[int | None] = [None] * more
        if is_indexed(job):
            indexes = _free_indexes(job, count, more)
        bodies = [_pod(job, index) for index in indexes]
        await together(partial(self._control.create, body, job) for body in bodies)
        return 0.0 if missing > BURST else None

    def _backoff(self, count: _Count) -> float:
        if not count.failed:
            return 0.0
        last = max(map(_ended_at, count.failed))
        pause = min(BACKOFF_FIRST * 2 ** min(len(count.failed) - 1, 10), BACKOFF_LAST)
        return float(last + pause - self._kit.clock())

    async def _write_status(
        self, job: Object, count: _Count, verdict: tuple[str, str, str]
    ) -> None:
        now, suspended = self._kit.now(), bool(job.spec.get("suspend"))
        status: Json = {
            "active": len(count.active),
            "ready": sum(map(is_ready, count.active)),
            "terminating": len(count.ending),
            "succeeded": len(count.done),
            "failed": len(count.failed),
            "uncountedTerminatedPods": {},
        }
        if suspended:
            if job.status.get("startTime"):
                status["startTime"] = None
        elif not job.status.get("startTime"):
            status["startTime"] = now
        if is_indexed(job):
            status["completedIndexes"] = ranges(count.done)
            if job.spec.get("backoffLimitPerIndex") is not None:
                status["failedIndexes"] = ranges(count.failed_indexes)
        status["conditions"] = self._conditions(job, count, verdict, now)
        if any(c["type"] == "Complete" for c in status["conditions"]):
            status["completionTime"] = now
            self._tell(job, "Completed", "Job completed")
        elif any(c["type"] == "Failed" for c in status["conditions"]):
            self._tell(job, verdict[1], verdict[2], warning=True)
        await self._kit.set_status(JOBS, job, status)

    def _conditions(
        self, job: Object, count: _Count, verdict: tuple[str, str, str], now: str
    ) -> list[Json]:
        conditions: list[Json] = job.status.get("conditions") or []
        suspended, paused = bool(job.spec.get("suspend")), condition(job.status, "Suspended")
        if verdict[0]:
            conditions = _add(conditions, *verdict, now)
            if not count.ending and not count.active:
                last = "Failed" if verdict[0] == "FailureTarget" else "Complete"
                conditions = _add(conditions, last, verdict[1], verdict[2], now)
        elif suspended or paused:
            value, why, text = (
                ("True", "JobSuspended", "Job suspended")
                if suspended
                else ("False", "JobResumed", "Job resumed")
            )
            if paused.get("status") != value:
                self._tell(job, why.removeprefix("Job"), text)
                conditions = with_condition(job.status, "Suspended", value, why, text, now)
                conditions[-1].setdefault("lastProbeTime", now)
        return conditions

    def _tell(self, job: Object, reason: str, text: str, *, warning: bool = False) -> None:
        self._kit.events.record(JOBS, job.metadata, reason, text, "job-controller", warning=warning)

    async def _expire(self, job: Object) -> float | None:
        """Delete a finished job once its time is up."""
        ttl = job.spec.get("ttlSecondsAfterFinished")
        if ttl is None:
            return None
        end = max(
            seconds_of(condition(job.status, type_).get("lastTransitionTime"))
            for type_ in ("Complete", "Failed")
        )
        wait = end + ttl - self._kit.clock()
        if wait > 0:
            return float(wait)
        uid = job.metadata.uid
        await self._kit.delete(JOBS, job.key, uid=uid, propagation="Background")
        return None


def _count(job: Object, pods: list[Object]) -> _Count:
    count = _Count([], [], set(), [], set())
    per_index: dict[int, int] = {}
    for number, pod in enumerate(pods):
        if is_active(pod):
            count.active.append(pod)
        elif pod.status.get("phase") == "Succeeded":
            count.done.add(index_of(pod) if is_indexed(job) else number)
        elif not is_finished(pod):
            count.ending.append(pod)
        else:
            action, text = action_on(job, pod)
            if action == FAIL_JOB:
                count.stop = ("PodFailurePolicy", text)
            if action == FAIL_INDEX:
                count.failed_indexes.add(index_of(pod))
            if action != IGNORE:
                count.failed.append(pod)
                per_index[index_of(pod)] = per_index.get(index_of(pod), 0) + 1
    limit = job.spec.get("backoffLimitPerIndex")
    if limit is not None:
        count.failed_indexes |= {index for index, n in per_index.items() if n > limit}
    count.failed_indexes -= count.done
    return count


def _completion(job: Object, count: _Count) -> tuple[str, str, str]:
    """Say whether all that was asked for is done, or can no longer be."""
    completions = job.spec.get("completions")
    if completions is None:
        over = bool(count.done) and not count.active and not count.ending
    else:
        over = len(count.done) + len(count.failed_indexes) >= completions
    if not over:
        return "", "", ""
    if count.failed_indexes:
        return "FailureTarget", "FailedIndexes", _INDEXES
    return "SuccessCriteriaMet", "CompletionsReached", _REACHED


def _finished(job: Object) -> bool:
    return any(
        condition(job.status, type_).get("status") == "True" for type_ in ("Complete", "Failed")
    )


def _ended_at(pod: Object) -> float:
    return max(
        (
            seconds_of((c.get("state") or {}).get("terminated", {}).get("finishedAt"))
            for c in pod.status.get("containerStatuses") or []
        ),
        default=seconds_of(pod.metadata.creation_timestamp),
    )


def _free_indexes(job: Object, count: _Count, most: int) -> list[int]:
    taken = {index_of(pod) for pod in (*count.active, *count.ending)}
    taken |= count.done | count.failed_indexes
    free = (n for n in range(job.spec.get("completions", 0)) if n not in taken)
    return list(islice(free, most))


def _pod(job: Object, number: int | None) -> Json:
    body = pod_from(job.spec.get("template") or {}, JOBS, job.metadata)
    if number is None:
        return body
    index, metadata = str(number), body["metadata"]
    metadata["generateName"] = f"{job.metadata.name}-{index}-"
    metadata["annotations"] = {**metadata.get("annotations", {}), INDEX: index}
    metadata["labels"] = {**metadata["labels"], INDEX: index}
    body["spec"].setdefault("hostname", f"{job.metadata.name}-{index}")
    for field in ("initContainers", "containers"):
        if given := body["spec"].get(field):
            body["spec"][field] = [_with_index(container) for container in given]
    return body


def _with_index(container: Json) -> Json:
    """Tell a container its index by a variable, unless it has one of that name."""
    given: list[Json] = container.get("env") or []
    if any(item.get("name") == INDEX_VARIABLE for item in given):
        return container
    path = f"metadata.labels['{INDEX}']"
    variable = {"name": INDEX_VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": path}}}
    return {**container, "env": [*given, variable]}


def _add(conditions: list[Json], type_: str, reason: str, message: str, now: str) -> list[Json]:
    found = with_condition({"conditions": conditions}, type_, "True", reason, message, now)
    found[-1].setdefault("lastProbeTime", now)
    return found
