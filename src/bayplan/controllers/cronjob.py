"""Makes Jobs by the clock: concurrency policy, deadline, suspension, time zone, history.

A schedule that was missed is run once, for the latest missed moment, if its deadline allows it.
"""

from __future__ import annotations

from bayplan.client import AlreadyExists, ApiError, Change, Resource
from bayplan.client.resources import JOBS
from bayplan.controllers.objects import (
    Json,
    Object,
    condition,
    owner_reference,
    seconds_of,
    timestamp,
)
from bayplan.controllers.runtime import Kit, OneWorker, Worker, owner_index
from bayplan.controllers.schedule import Schedule, ScheduleError

CRON_JOBS = Resource("batch", "v1", "cronjobs", "CronJob")
SCHEDULED_AT = "batch.kubernetes.io/cronjob-scheduled-timestamp"
FAR = 3600.0 * 24
_ALREADY = "Not starting job because prior execution is running and concurrency policy is Forbid"


class CronJobController(OneWorker):
    """Wakes at the next moment of each schedule."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._crons = kit.cache(CRON_JOBS)
        self._jobs = kit.cache(JOBS)
        self._jobs.add_index("owner", owner_index)
        self._worker = Worker(kit, "cronjob", self._sync, (self._crons, self._jobs))
        self._crons.listen(lambda change: self._worker.queue.add(change.new.key))
        self._jobs.listen(self._job_changed)

    def _job_changed(self, change: Change[Object]) -> None:
        owner = change.new.metadata.controller
        if owner is not None and owner.kind == "CronJob":
            self._worker.queue.add(f"{change.new.metadata.namespace}/{owner.name}")

    async def _sync(self, key: str) -> float | None:
        cron = self._crons.get(key)
        if cron is None or cron.deleted:
            return None
        jobs = self._jobs.by("owner", cron.metadata.uid)
        active = [job for job in jobs if not _ended(job)]
        status: Json = {"active": [_reference(job) for job in active]}
        if times := [t for job in jobs if (t := job.status.get("completionTime"))]:
            last = max([*times, cron.status.get("lastSuccessfulTime") or ""])
            status["lastSuccessfulTime"] = last
        self._tell_completed(cron, active)
        await self._clean_up(cron, jobs)
        wait = None
        if not cron.spec.get("suspend"):
            wait = await self._schedule(cron, active, status)
        await self._kit.set_status(CRON_JOBS, cron, status)
        return wait

    async def _schedule(self, cron: Object, active: list[Object], status: Json) -> float | None:
        """Start what is due; return how long it is until the next moment."""
        try:
            schedule = Schedule(cron.spec.get("schedule", ""), cron.spec.get("timeZone") or "")
        except ScheduleError as error:
            text = f"unparseable schedule: {cron.spec.get('schedule')!r} : {error}"
            self._tell(cron, "UnparseableSchedule", text, warning=True)
            return None
        now = self._kit.clock()
        since = seconds_of(cron.status.get("lastScheduleTime") or cron.metadata.creation_timestamp)
        deadline = cron.spec.get("startingDeadlineSeconds")
        if deadline is not None:
            since = max(since, now - deadline)
        due = schedule.latest(since, now)
        upcoming = schedule.next(now)
        wait = min(upcoming - now, FAR) if upcoming is not None else None
        if upcoming is None:
            text = f"invalid schedule: {cron.spec.get('schedule')} : it names no moment"
            self._tell(cron, "InvalidSchedule", text, warning=True)
        if due is None or not await self._may_start(cron, active):
            return wait
        if await self._start(cron, due, status):
            status["lastScheduleTime"] = timestamp(due)
        return wait

    async def _may_start(self, cron: Object, active: list[Object]) -> bool:
        policy = cron.spec.get("concurrencyPolicy", "Allow")
        if policy == "Forbid" and active:
            self._tell(cron, "JobAlreadyActive", _ALREADY)
            return False
        if policy == "Replace":
            for job in active:
                await self._delete(cron, job)
            active.clear()
        return True

    async def _start(self, cron: Object, due: float, status: Json) -> bool:
        template: Json = cron.spec.get("jobTemplate") or {}
        given: Json = template.get("metadata") or {}
        notes = {**(given.get("annotations") or {}), SCHEDULED_AT: timestamp(due)}
        body: Json = {
            "metadata": {
                "name": f"{cron.metadata.name}-{int(due // 60)}",
                "labels": given.get("labels") or {},
                "annotations": notes,
                "ownerReferences": [owner_reference(CRON_JOBS, cron.metadata)],
            },
            "spec": template.get("spec") or {},
        }
        try:
            made = await self._kit.create(JOBS, body, cron.metadata.namespace)
        except AlreadyExists:
            return True
        except ApiError as error:
            self._tell(cron, "FailedCreate", f"Error creating job: {error.message}", warning=True)
            raise
        self._tell(cron, "SuccessfulCreate", f"Created job {made['metadata']['name']}")
        kept = [r for r in status["active"] if cron.spec.get("concurrencyPolicy") != "Replace"]
        status["active"] = [*kept, _reference_to(made["metadata"])]
        return True

    async def _clean_up(self, cron: Object, jobs: list[Object]) -> None:
        for type_, field, default in (
            ("Complete", "successfulJobsHistoryLimit", 3),
            ("Failed", "failedJobsHistoryLimit", 1),
        ):
            limit = cron.spec.get(field, default)
            done = [job for job in jobs if condition(job.status, type_).get("status") == "True"]
            done.sort(key=lambda job: job.status.get("startTime") or "")
            for job in done[: max(len(done) - limit, 0)]:
                if not job.deleted:
                    await self._delete(cron, job)

    async def _delete(self, cron: Object, job: Object) -> None:
        uid = job.metadata.uid
        await self._kit.delete(JOBS, job.key, uid=uid, propagation="Background")
        self._tell(cron, "SuccessfulDelete", f"Deleted job {job.metadata.name}")

    def _tell_completed(self, cron: Object, active: list[Object]) -> None:
        going = {job.metadata.uid for job in active}
        for reference in cron.status.get("active") or []:
            job = self._jobs.get(f"{cron.metadata.namespace}/{reference.get('name')}")
            if reference.get("uid") in going or job is None:
                continue
            how = "Complete" if condition(job.status, "Complete") else "Failed"
            text = f"Saw completed job: {job.metadata.name}, condition: {how}"
            self._tell(cron, "SawCompletedJob", text)

    def _tell(self, cron: Object, reason: str, text: str, *, warning: bool = False) -> None:
        self._kit.events.record(
            CRON_JOBS, cron.metadata, reason, text, "cronjob-controller", warning=warning
        )


def _ended(job: Object) -> bool:
    ends = ("Complete", "Failed")
    return any(condition(job.status, type_).get("status") == "True" for type_ in ends)


def _reference(job: Object) -> Json:
    meta = job.metadata
    return _reference_to(
        {
            "namespace": meta.namespace,
            "name": meta.name,
            "uid": meta.uid,
            "resourceVersion": meta.resource_version,
        }
    )


def _reference_to(metadata: Json) -> Json:
    # Not the version: it moves with every status, and the list would with it.
    names = ("namespace", "name", "uid")
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        **{name: metadata[name] for name in names},
    }
