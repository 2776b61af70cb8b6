"""The live driver: feeds the pure scheduler with what happens and has done what it decides.

One loop, one task. Informers hand changes to the core as they arrive, whole batches at a time; so
do actions with their results. Each turn of the loop lets the core decide a bounded number of pods
and starts what it wants done. When there is nothing to do it sleeps until something arrives or
the core's next deadline (backoff, a permit's time limit). Deciding pauses while many bindings are
on their way, so that a pod of higher priority that comes late does not stand behind thousands of
decisions that nobody can carry out yet.

Clock and jitter are arguments: on a virtual-time loop with an in-process API server the same
driver runs deterministically. It does not elect, serve or reload by itself; `process` does.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

import msgspec
import structlog

from bayplan.api import Object, Pod
from bayplan.client import Change, Client
from bayplan.config import FeatureGates, KubeSchedulerConfiguration
from bayplan.engine.loop import Scheduler
from bayplan.engine.loop.actions import Action
from bayplan.engine.loop.inputs import Input
from bayplan.engine.loop.timing import Timing
from bayplan.errors import ConfigError
from bayplan.framework import Registry
from bayplan.framework.contract.extender import Extender
from bayplan.observe.metrics import SchedulerMetrics
from bayplan.scheduler.event_recorder import EventRecorder
from bayplan.scheduler.feed import Feed
from bayplan.scheduler.performer import Performer
from bayplan.supervised import to_its_end

if TYPE_CHECKING:
    from bayplan.observe.spans import Spans

log = structlog.get_logger(__name__)

MAX_PENDING_BINDS = 512
PODS_PER_TURN = 64
SECONDS_PER_TURN = 0.010
"""After so long a turn begins no further pod; the lease and the network want their turn too."""
LONG_TURN = 1.0
"""One attempt is never cut, so a plugin that waits makes all wait; longer than this is told."""
PODS_PER_TURN_ASIDE = 8
LONGEST_SLEEP = 30.0
GRACE = 2.0


class Aside(Protocol):
    """Calls the core's `step` where waiting does no harm, and returns after its end."""

    async def __call__(
        self, step: Callable[..., list[Action]], now: float, /, *, limit: int
    ) -> list[Action]: ...


async def _in_thread(
    step: Callable[..., list[Action]], now: float, /, *, limit: int
) -> list[Action]:
    """Step in a thread; nobody else touches the core before its end, cancelled or not."""
    return await to_its_end(partial(step, now, limit=limit))


class LiveScheduler:
    """A scheduler on a live API server."""

    def __init__(
        self,
        *,
        config: KubeSchedulerConfiguration,
        gates: FeatureGates,
        registry: Registry,
        client: Client,
        recorder: EventRecorder,
        extenders: Sequence[Extender] = (),
        metrics: SchedulerMetrics | None = None,
        spans: Spans | None = None,
        max_in_unschedulable: float = 300.0,
        wall: Callable[[], float] = time.time,
        jitter: Callable[[], float] = random.random,
        aside: Aside = _in_thread,
        rest: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`aside` runs an attempt that may wait for extenders; a simulation has no threads.

        `rest` is awaited before each turn: in a simulation, until all else of a moment is done.
        """
        self.metrics = metrics or SchedulerMetrics(process=False)
        self._wall = wall
        self._wake = asyncio.Event()
        self._sleeps_until = -math.inf
        self.core = Scheduler(
            config,
            registry,
            gates=gates,
            extenders=extenders,
            max_in_unschedulable=max_in_unschedulable,
            now=wall(),
            timing=Timing(time.perf_counter, self.metrics.took),
        )
        self._run_aside = aside
        self._rest = rest
        self._aside = False
        self._held: list[Callable[[], None]] = []
        self._feed = Feed(
            client, self._changed, gates=gates, jitter=jitter, keep_texts=bool(config.extenders)
        )
        self._performer = Performer(client, recorder, self.metrics, self._report, spans)

    # -- what the process asks

    def explain(self, key: str) -> bytes | None:
        """Return why a pod (`namespace/name`) is where it is, as JSON; None if it is not known."""
        if self._aside:
            raise ConfigError("a scheduling attempt waits for an extender; ask again")
        found = self.core.explain(key, self._wall())
        return None if found is None else msgspec.json.encode(found)

    def text_of(self, item: Object) -> bytes | None:
        """Return the JSON of a pod or node as the API server sent it, if extenders need it."""
        return self._feed.text_of(item)

    @property
    def has_synced(self) -> bool:
        """Tell whether the caches have been filled."""
        return self._feed.has_synced

    @property
    def waits_aside(self) -> bool:
        """Tell whether an attempt waits for an extender; the core must be left alone then."""
        return self._aside

    @property
    def binding_busy(self) -> bool:
        """Tell whether bindings wait or are under way."""
        return self._performer.pending_binds > 0

    async def run_informers(self) -> None:
        """Keep the caches up to date until cancelled; needs no lease."""
        await self._feed.run()

    async def wait_synced(self) -> None:
        """Return once the caches have been filled."""
        await self._feed.wait_synced()

    async def quiet(self) -> None:
        """Return when no attempt is under way in a thread."""
        while self._aside:  # noqa: ASYNC110 - rare, and an attempt ends within its time limits
            await asyncio.sleep(0.005)

    def reconfigure(
        self,
        config: KubeSchedulerConfiguration,
        registry: Registry,
        extenders: Sequence[Extender] = (),
    ) -> None:
        """Use another configuration from now on; raises and changes nothing if it is bad."""
        if self._aside:
            raise ConfigError("a scheduling attempt waits for an extender; try again")
        self.core.reconfigure(config, self._wall(), registry=registry, extenders=extenders)
        self._wake.set()

    def pod(self, key: str) -> Pod | None:
        """Return a pod as the informer last showed it."""
        found = self._feed.informers["Pod"].store.get(key)
        return found if isinstance(found, Pod) else None

    def pods(self) -> Iterator[Pod]:
        """Return all pods as the informer last showed them."""
        return (pod for pod in self._feed.informers["Pod"].store.values() if isinstance(pod, Pod))

    def sizes(self) -> dict[str, int]:
        """Return how much is in cache and queue, for logs and status lines."""
        informers = self._feed.informers
        return {
            "nodes": len(informers["Node"].store),
            "pods": len(informers["Pod"].store),
            **self.core.queue.pending(),
            "pendingBinds": self._performer.pending_binds,
        }

    def refresh_gauges(self) -> None:
        """Bring the gauges up to date before metrics are read."""
        metrics, core = self.metrics, self.core
        for queue, count in core.queue.pending().items():
            metrics.pending_pods.labels(queue).set(count)
        rejected = core.queue.unschedulable_by_plugin()
        metrics.show(metrics.unschedulable_pods, dict(rejected.items()))
        metrics.cache_size.labels("nodes").set(len(self._feed.informers["Node"].store))
        metrics.cache_size.labels("pods").set(core.cache.pod_count)
        metrics.cache_size.labels("assumed_pods").set(core.cache.assumed_count)
        # Copies: beside a blocking extender the core steps in another thread.
        for labels, total in list(core.queue.incoming.items()):
            metrics.raise_to(metrics.incoming_pods, labels, total)
        for served in core.engine.profiles.values():
            for labels, total in list(served.problems.items()):
                metrics.raise_to(metrics.plugin_errors, labels, total)
        if core.engine.ahead is not None:
            for result, total in list(core.engine.ahead.counts.items()):
                metrics.raise_to(metrics.extender_ahead, (result,), total)
        for asked, total in core.timing.evaluations().items():
            metrics.raise_to(metrics.plugin_evaluation, asked, total)
        events = core.queue.in_flight_events()
        metrics.show(metrics.inflight_events, {(name,): n for name, n in events.items()})
        metrics.pending_api_calls.labels("pod_binding").set(self._performer.pending_binds)
        patches = self._performer.pending_patches
        metrics.pending_api_calls.labels("pod_status_patch").set(patches)

    # -- the loop

    async def run(self) -> None:
        """Schedule until cancelled; what has begun is then finished within a moment."""
        performing = asyncio.create_task(self._performer.run())
        try:
            while not performing.done():
                if self._rest is not None:
                    await self._rest()
                if any(extender.blocking for extender in self.core.engine.extenders):
                    await self._turn_aside()
                else:
                    self._turn()
                await self._pause()
            performing.result()
        finally:
            with contextlib.suppress(asyncio.CancelledError):
                await self._performer.finish(GRACE)
            performing.cancel()
            await asyncio.gather(performing, return_exceptions=True)

    def _turn(self) -> None:
        # In virtual time turns must not depend on how fast the machine is.
        begun, real = time.perf_counter(), self._wall is time.time
        until = begun + SECONDS_PER_TURN if real else None
        limit = PODS_PER_TURN if self._has_room else 0
        actions = self.core.step(self._wall(), limit=limit, until=until)
        if real and (took := time.perf_counter() - begun) > LONG_TURN:
            log.warning(
                "deciding held the event loop; plugins must not wait, see write-a-plugin.md",
                seconds=round(took, 3),
                metric="scheduler_plugin_execution_duration_seconds",
            )
        if actions:
            self._performer.perform(actions)

    async def _turn_aside(self) -> None:
        """Decide in a thread, because extenders make the core wait; what arrives is held back."""
        self._aside = True
        limit = PODS_PER_TURN_ASIDE if self._has_room else 0
        try:
            actions = await self._run_aside(self.core.step, self._wall(), limit=limit)
        finally:
            self._aside = False
            held, self._held = self._held, []
            for apply in held:
                apply()
        if actions:
            self._performer.perform(actions)

    @property
    def _has_room(self) -> bool:
        return self._performer.pending_binds <= MAX_PENDING_BINDS - PODS_PER_TURN

    async def _pause(self) -> None:
        """Let the network work; sleep when there is nothing to decide."""
        if self.core.ready and self._has_room:
            await asyncio.sleep(0)
            return
        self._wake.clear()
        self._sleeps_until = self.core.next_wake()
        delay = min(max(self._sleeps_until - self._wall(), 0.0), LONGEST_SLEEP)
        alarm = asyncio.get_running_loop().call_later(delay, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            alarm.cancel()

    def _changed(self, changes: Sequence[Change[Object]]) -> None:
        if self._aside:
            self._held.append(lambda: self._changed(changes))
            return
        core, now = self.core, self._wall()
        for kind, new, _ in changes:
            try:
                if kind == "DELETED":
                    core.delete(new, now)
                else:
                    core.put(new, now)
            except Exception:  # one odd object must not hide the changes that come with it
                self.metrics.handling_errors.inc()
                log.exception("change not taken over", kind=new.KIND, object=new.key)
        # Most changes, such as a pod that runs now, leave nothing to decide; who polls is asked.
        if core.ready or core.bindings.polls or core.next_wake() < self._sleeps_until:
            self._wake.set()

    def _report(self, result: Input) -> None:
        if self._aside:
            self._held.append(lambda: self._report(result))
            return
        self.core.handle(result, self._wall())
        self._wake.set()
