"""Carries the engine's actions out and reports how they ended.

Bindings, the bulk of all work, are taken from a queue by as many workers as there are kept
connections: no task is made for a binding. Status patches stand behind all else at the rate limit
(a share of it is theirs), and what to send is chosen when the turn has come: later patches of a pod
become one with the one that waits, one that says what the last said is not sent, and a binding
drops what waits. It waits for the patch under way: the server would otherwise mix what both say.
Events go to the recorder, which has connections of its own. Everything else is rare and gets a
task.

Nothing here decides anything: a failure is reported, and the engine forgets, requeues or gives up.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, cast

import structlog

from bayplan.api import Pod, decode
from bayplan.client import ApiError, Client, ClientError, Conflict, NotFound, is_retriable
from bayplan.client.fence import Holds, always, fenced
from bayplan.client.resources import PODS
from bayplan.engine.loop.actions import (
    Action,
    Bind,
    CallApi,
    Evict,
    ExtenderBind,
    Observe,
    PatchPod,
    RecordEvent,
)
from bayplan.engine.loop.inputs import BindDone, CallsDone, Evicted, Input
from bayplan.framework.contract.results import ApiCall
from bayplan.observe.logs import verbosity
from bayplan.observe.metrics import SchedulerMetrics
from bayplan.scheduler.apicalls import carry_out
from bayplan.scheduler.event_recorder import EventRecorder, Reference
from bayplan.supervised import end

if TYPE_CHECKING:
    from bayplan.observe.spans import Spans

log = structlog.get_logger(__name__)

BINDERS = 32
PATCHERS = 16
SAID_KEPT = 10_000
STATUS_PATCH = "application/strategic-merge-patch+json"


class Performer:
    """Performs actions on one API server."""

    def __init__(
        self,
        client: Client,
        recorder: EventRecorder,
        metrics: SchedulerMetrics,
        report: Callable[[Input], None],
        spans: Spans | None = None,
        holds: Holds = always,
    ) -> None:
        """`holds` is asked before anything is sent: where it says no, it is not."""
        self._client = fenced(client, holds)
        self._at_once = self._client.unlimited()
        self._holds = holds
        self._recorder = recorder
        self._metrics = metrics
        self._report = report
        self._spans = spans
        self._binds: deque[Bind] = deque()
        self._idle: deque[asyncio.Future[None]] = deque()
        self._binding = 0
        self._patches: dict[str, PatchPod] = {}
        """What waits, one a pod, in the order in which pods came."""
        self._patching: dict[str, asyncio.Event] = {}
        self._patchers: set[asyncio.Task[None]] = set()
        self._said: dict[str, object] = {}
        """What was last said of pods, which the informer may not show yet."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._verbose = verbosity() >= 2

    @property
    def pending_binds(self) -> int:
        """Return how many bindings wait or are under way."""
        return len(self._binds) + self._binding

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(BINDERS):
                    group.create_task(self._binder())
        finally:
            await end(*self._tasks, *self._patchers)

    async def finish(self, timeout: float) -> None:
        """Drop what has not begun and wait for the rest, at most `timeout` seconds."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        self._binds.clear()
        self._patches.clear()
        # Polling is good enough for the last moment of a process.
        while (self._binding or self._patching or self._tasks) and loop.time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    @property
    def pending_patches(self) -> int:
        """Return how many status patches wait or are under way."""
        return len(self._patches) + len(self._patching)

    def perform(self, actions: list[Action]) -> None:
        """Start actions; returns at once."""
        for action in actions:
            if type(action) is Bind:
                self._binds.append(action)
                if self._idle:
                    self._idle.popleft().set_result(None)
            else:
                self._other(action)

    def _other(self, action: Action) -> None:
        match action:
            case RecordEvent():
                self._event(action)
            case Observe():
                self._observe(action)
            case PatchPod():
                self._enqueue_patch(action)
            case Evict():
                self._spawn(self._evict(action))
            case CallApi():
                self._spawn(self._call(action))
            case ExtenderBind():
                self._spawn(self._extender_bind(action))

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("an action failed unexpectedly", exc_info=task.exception())

    # -- bindings

    async def _binder(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            if not self._binds:
                turn: asyncio.Future[None] = loop.create_future()
                self._idle.append(turn)
                try:
                    await turn
                except asyncio.CancelledError:
                    if turn in self._idle:
                        self._idle.remove(turn)
                    raise
                continue
            action = self._binds.popleft()
            self._binding += 1
            sent = time.perf_counter()
            try:
                bound = await self._bind(action)
            except Exception as problem:  # a bug must not cost a worker, nor the pod
                bound = False
                log.exception("binding failed unexpectedly", pod=action.pod.key)
                self._report(BindDone(action.pod.metadata.uid, str(problem)))
            finally:
                self._binding -= 1
            took, profile = time.perf_counter() - sent, action.pod.spec.scheduler_name
            self._metrics.bind_took(profile, "DefaultBinder", took, not bound)
            if self._spans is not None:
                self._spans.binding(action.pod, action.node_name, took, not bound)

    async def _bind(self, action: Bind) -> bool:
        meta = action.pod.metadata
        await self._patched(meta.uid)
        try:
            await self._client.bind(meta.namespace, meta.name, meta.uid, action.node_name)
        except ClientError as problem:
            if not is_retriable(problem) or not await self._bound_after_all(action):
                self._report(BindDone(meta.uid, _text(problem)))
                return False
        self._report(BindDone(meta.uid))
        if self._verbose:
            log.info(
                "Successfully bound pod to node",
                pod=f"{meta.namespace}/{meta.name}",
                node=action.node_name,
            )
        return True

    async def _bound_after_all(self, action: Bind) -> bool:
        """Find out whether a binding without a clear answer took effect.

        Until that is known the pod stays assumed: if it were forgotten, another pod could be given
        the room that it may have taken. The API server is asked until it shows the pod or says
        that there is none; no other answer tells anything.
        """
        meta, pause = action.pod.metadata, 0.1
        while True:
            try:
                pod = decode(Pod, await self._client.get(PODS, meta.name, meta.namespace))
            except NotFound:
                return False
            except ClientError as problem:
                if not is_retriable(problem):
                    log.warning("cannot tell if pod is bound", pod=meta.name, err=_text(problem))
                await asyncio.sleep(pause)
                pause = min(pause * 2, 5.0)
            else:
                mine = pod.metadata.uid == meta.uid
                return mine and pod.spec.node_name == action.node_name

    async def _extender_bind(self, action: ExtenderBind) -> None:
        bind = getattr(action.extender, "bind", None)
        uid = action.pod.metadata.uid
        if bind is None:
            self._report(BindDone(uid, f"extender {action.extender.name} cannot bind"))
            return
        await self._patched(uid)
        if not self._holds():
            self._report(BindDone(uid, "not sent, the lease was lost"))
            return
        try:
            await asyncio.to_thread(bind, action.pod, action.node_name)
        except Exception as problem:  # code from outside; the pod is tried again
            self._report(BindDone(uid, str(problem)))
        else:
            self._report(BindDone(uid))

    # -- status

    def _enqueue_patch(self, action: PatchPod) -> None:
        uid = action.pod.metadata.uid
        waiting = self._patches.get(uid)
        if waiting is None and self._said.get(uid) == _says(action):
            return
        self._patches[uid] = action if waiting is None else _merged(waiting, action)
        if len(self._patchers) < min(PATCHERS, self.pending_patches):
            task = asyncio.create_task(self._patch_all())
            self._patchers.add(task)
            task.add_done_callback(self._ended)

    async def _patch_all(self) -> None:
        """Send patches while there are any, one at a time of a pod."""
        try:
            while any(uid not in self._patching for uid in self._patches):
                await self._client.turn_behind()
                chosen = next((uid for uid in self._patches if uid not in self._patching), None)
                if chosen is None:  # a binding dropped it
                    return
                action, self._patching[chosen] = self._patches.pop(chosen), asyncio.Event()
                try:
                    await self._patch(action)
                finally:
                    self._patching.pop(chosen).set()
        finally:  # at once: a patch that comes before the task counts as done would wait for ever
            self._patchers.discard(cast("asyncio.Task[None]", asyncio.current_task()))

    async def _patched(self, uid: str) -> None:
        """Drop a pod's patch that waits, which its binding outdates; wait for one under way."""
        self._patches.pop(uid, None)
        self._said.pop(uid, None)
        if (under_way := self._patching.get(uid)) is not None:
            await under_way.wait()

    async def _patch(self, action: PatchPod) -> None:
        body, meta = action.body(), action.pod.metadata
        if not body.get("status"):
            return
        call = ApiCall("patch", "pods", meta.namespace, meta.name, body, "status", STATUS_PATCH)
        self._said.pop(meta.uid, None)
        self._said[meta.uid] = _says(action)
        if len(self._said) > SAID_KEPT:
            del self._said[next(iter(self._said))]
        sent, failed = time.perf_counter(), True
        try:
            await carry_out(self._at_once, call, self._client.turn_behind)
            failed = False
        except NotFound:
            return
        except ClientError as problem:
            level = log.debug if isinstance(problem, ApiError) else log.warning
            level("pod status not updated", pod=action.pod.key, err=str(problem))
        finally:
            if failed:
                self._said.pop(meta.uid, None)
            self._metrics.api_call("pod_status_patch", time.perf_counter() - sent, failed)

    # -- preemption and plugins

    async def _evict(self, action: Evict) -> None:
        victim, error = action.victim, ""
        meta = victim.metadata
        call = ApiCall(
            "patch",
            "pods",
            meta.namespace,
            meta.name,
            action.condition_body(),
            "status",
            STATUS_PATCH,
            ignore_not_found=True,
        )
        try:
            await carry_out(self._client, call)
            await self._client.delete(PODS, meta.name, meta.namespace, uid=meta.uid)
        except (NotFound, Conflict):
            pass  # gone, or another pod of that name: there is nothing left to take away
        except ClientError as problem:
            error = _text(problem)
            log.warning("victim not evicted", pod=victim.key, err=error)
        self._report(Evicted(action.preemptor.metadata.uid, meta.uid, error))

    async def _call(self, action: CallApi) -> None:
        error = ""
        try:
            for call in action.calls:
                await carry_out(self._client, call)
        except ClientError as problem:
            error = _text(problem)
        if action.work:
            self._report(CallsDone(action.work, error))
        elif error:
            log.warning("call of a plugin failed", plugin=action.plugin, err=error)

    # -- events and metrics

    def _event(self, action: RecordEvent) -> None:
        self._recorder.record(
            _reference(action.pod),
            type_=action.type,
            reason=action.reason,
            action=action.action,
            note=action.note,
            controller=action.scheduler_name,
            related=None if action.related is None else _reference(action.related),
            once=action.reason == "Scheduled",
        )
        if self._verbose and action.type == "Warning":
            log.info("Unable to schedule pod", pod=action.pod.key, err=action.note)

    def _observe(self, action: Observe) -> None:
        metrics = self._metrics
        if action.preemption_tried:
            metrics.preemption_attempts.inc()
        if action.result == "preempted":
            metrics.preemption_victims.observe(action.victims)
            return
        metrics.attempt(action.result, action.scheduler_name, action.seconds)
        if self._spans is not None:
            self._spans.attempt(action.pod, action.result, action.seconds)
        if action.result == "scheduled":
            metrics.bound(action.attempts, action.sli_seconds)
            if action.flushed:
                metrics.after_flush.inc()


def _merged(earlier: PatchPod, later: PatchPod) -> PatchPod:
    """Return what both say, the later one last."""
    node = later.nominated_node_name
    return PatchPod(
        later.pod,
        later.condition or earlier.condition,
        earlier.nominated_node_name if node is None else node,
        later.now,
    )


def _says(action: PatchPod) -> object:
    """Return what a patch says of which version of a pod: the same twice changes nothing."""
    version = action.pod.metadata.resource_version
    return version, action.condition, action.nominated_node_name


def _reference(pod: Pod) -> Reference:
    meta = pod.metadata
    return Reference(
        "Pod", meta.namespace, meta.name, meta.uid, resource_version=meta.resource_version
    )


def _text(problem: ClientError) -> str:
    return problem.message if isinstance(problem, ApiError) else str(problem)
