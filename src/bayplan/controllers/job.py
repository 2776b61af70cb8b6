"""Runs a Job's pods until enough of them have succeeded.

`parallelism`, `completions`, `backoffLimit`, `activeDeadlineSeconds`, `suspend`, Indexed jobs,
and deletion after `ttlSecondsAfterFinished`. Pods are kept by uid in the cache only, without the
tracking finalizer of upstream, so a finished pod that is deleted by hand is run again.
Pod failure policies and success policies are not read.
"""

from __future__ import annotations

from functools import partial

from bayplan.client.resources import JOBS
from bayplan.controllers.objects import (
    Json,
    Object,
    condition,
    is_active,
    is_ready,
    seconds_of,
    selector_of,
    with_condition,
)
from bayplan.controllers.pods import PodControl, pod_from
from bayplan.controllers.runtime import Kit, Worker, together

INDEX = "batch.kubernetes.io/job-completion-index"


class JobController:
    """Makes pods, counts how they end, and says when the job is over."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._worker = Worker(kit, "job", self._sync)
        self._control = PodControl(kit, JOBS, self._worker.queue)
        self._worker.use(self._control.caches)

    async def run(self) -> None:
        await self._worker.run()

    async def _sync(self, key: str) -> float | None:
        job = self._control.owners.get(key)
        if job is None or job.deleted:
            return None
        if _finished(job):
            return await self._expire(job)
        pods = await self._control.claim(job, selector_of(job.spec.get("selector")))
        done = [pod for pod in pods if pod.status.get("phase") == "Succeeded"]
        failed = [pod for pod in pods if pod.status.get("phase") == "Failed"]
        active = [pod for pod in pods if is_active(pod)]
        reason, message = self._verdict(job, len(failed))
        complete = not reason and _complete(job, done, active)
        if reason or job.spec.get("suspend"):
            for pod in active:
                await self._control.delete(pod)
            active = []
        elif not complete:
            await self._scale(job, active, done)
        await self._write_status(job, active, done, failed, reason, message, complete)
        return self._deadline(job)

    def _verdict(self, job: Object, failures: int) -> tuple[str, str]:
        """Return why the job has failed, if it has."""
        if failures > job.spec.get("backoffLimit", 6):
            return "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        remaining = self._deadline(job)
        if remaining is not None and remaining <= 0:
            return "DeadlineExceeded", "Job was active longer than specified deadline"
        return "", ""

    def _deadline(self, job: Object) -> float | None:
        limit, start = job.spec.get("activeDeadlineSeconds"), job.status.get("startTime")
        if limit is None or not start or _finished(job):
            return None
        return float(seconds_of(start) + limit - self._kit.clock())

    async def _scale(self, job: Object, active: list[Object], done: list[Object]) -> None:
        parallel = job.spec.get("parallelism", 1)
        completions = job.spec.get("completions")
        wanted: int = parallel
        if completions is not None:
            wanted = min(parallel, completions - len(_counted(job, done)))
        elif done:
            wanted = len(active)  # a work queue: once one has succeeded, none is started
        for pod in active[max(wanted, 0) :]:
            await self._control.delete(pod)
        indexes = _free_indexes(job, active, done)
        bodies = [_pod(job, indexes) for _ in range(wanted - len(active))]
        namespace = job.metadata.namespace
        await together(partial(self._control.create, body, namespace) for body in bodies)

    async def _write_status(
        self,
        job: Object,
        active: list[Object],
        done: list[Object],
        failed: list[Object],
        reason: str,
        message: str,
        complete: bool,
    ) -> None:
        now = self._kit.now()
        status: Json = {
            "active": len(active),
            "ready": sum(map(is_ready, active)),
            "succeeded": len(_counted(job, done)),
            "failed": len(failed),
        }
        suspended = bool(job.spec.get("suspend"))
        if not job.status.get("startTime") and not suspended:
            status["startTime"] = now
        if _indexed(job):
            status["completedIndexes"] = _ranges(sorted(_counted(job, done)))
        conditions = job.status.get("conditions") or []
        if complete:
            text = "Reached expected number of succeeded pods"
            conditions = _add(conditions, "SuccessCriteriaMet", "CompletionsReached", text, now)
            conditions = _add(conditions, "Complete", "CompletionsReached", text, now)
            status["completionTime"] = now
        elif reason:
            conditions = _add(conditions, "FailureTarget", reason, message, now)
            conditions = _add(conditions, "Failed", reason, message, now)
        elif suspended or condition(job.status, "Suspended"):
            value, why = ("True", "JobSuspended") if suspended else ("False", "JobResumed")
            text = "Job suspended" if suspended else "Job resumed"
            conditions = with_condition(job.status, "Suspended", value, why, text, now)
        status["conditions"] = conditions
        await self._kit.set_status(JOBS, job, status)

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


def _finished(job: Object) -> bool:
    return any(
        condition(job.status, type_).get("status") == "True" for type_ in ("Complete", "Failed")
    )


def _complete(job: Object, done: list[Object], active: list[Object]) -> bool:
    completions = job.spec.get("completions")
    if completions is None:
        return bool(done) and not active
    return bool(len(_counted(job, done)) >= completions)


def _indexed(job: Object) -> bool:
    return bool(job.spec.get("completionMode") == "Indexed")


def _counted(job: Object, done: list[Object]) -> set[int]:
    """Return the successes that count: of an indexed job one for each index."""
    if not _indexed(job):
        return set(range(len(done)))
    return {int(pod.metadata.annotations.get(INDEX, -1)) for pod in done}


def _free_indexes(job: Object, active: list[Object], done: list[Object]) -> list[int]:
    if not _indexed(job):
        return []
    taken = _counted(job, [*active, *done])
    return [n for n in range(job.spec.get("completions", 0)) if n not in taken]


def _pod(job: Object, indexes: list[int]) -> Json:
    body = pod_from(job.spec.get("template") or {}, JOBS, job.metadata)
    if not indexes:
        return body
    index = str(indexes.pop(0))
    metadata = body["metadata"]
    metadata["generateName"] = f"{job.metadata.name}-{index}-"
    metadata["annotations"] = {**metadata.get("annotations", {}), INDEX: index}
    metadata["labels"] = {**metadata["labels"], INDEX: index}
    body["spec"].setdefault("hostname", f"{job.metadata.name}-{index}")
    return body


def _add(conditions: list[Json], type_: str, reason: str, message: str, now: str) -> list[Json]:
    found = with_condition({"conditions": conditions}, type_, "True", reason, message, now)
    found[-1].setdefault("lastProbeTime", now)
    return found


def _ranges(numbers: list[int]) -> str:
    """Write indexes as upstream does: `0-2,5`."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][-1] == number - 1:
            parts[-1] = [parts[-1][0], number]
        else:
            parts.append([number])
    return ",".join("-".join(map(str, part)) for part in parts)
