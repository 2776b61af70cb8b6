"""The live driver: feeds the pure scheduler with what happens and has done what it decides.

One loop, one task. Informers hand changes to the core as they arrive, whole batches at a time; so
do actions with their results. Each turn of the loop lets the core decide a bounded number of pods
and starts what it wants done. When there is nothing to do it sleeps until something arrives or
the core's next deadline (backoff, a permit's time limit). Deciding pauses while many bindings are
on their way, so that a pod of higher priority that comes late does not stand behind thousands of
decisions that nobody can carry out yet. Where extenders or plugins make the core wait, it decides
in a thread (`wariness`), and what arrives meanwhile is held back.

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
from bayplan.client.fence import Holds, always
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
from bayplan.scheduler.wariness import SLOW_TURN, Wariness, has_outsiders
from bayplan.supervised import to_its_end

if TYPE_CHECKING:
    from bayplan.observe.spans import Spans

log = structlog.get_logger(__name__)

MAX_PENDING_BINDS = 512
PODS_PER_TURN = 64
SECONDS_PER_TURN = 0.010
"""After so long a turn begins no further pod; the lease and the network want their turn too."""
LONG_TURN = 1.0
"""One attempt is never cut, so the first that a plugin delays makes all wait; it is told."""
SECONDS_PER_CHANGE = 0.001
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
        holds: Holds = always,
    ) -> None:
        """`aside` runs an attempt that may wait for extenders; a simulation has no threads.

        `rest` is awaited before each turn: in a simulation, until all else of a moment is done.
        `holds` tells whether the lease is held: nothing is sent without it.
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
        self._aside = self._running = False
        self._aside_ended = asyncio.Event()
        self._held: list[Callable[[], None]] = []
        self._wary = Wariness()
        self._suspect(registry)
        self._feed = Feed(
            client, self._changed, gates=gates, jitter=jitter, keep_texts=bool(config.extenders)
        )
        self._performer = Performer(client, recorder, self.metrics, self._report, spans, holds)

    # -- what the process asks

    async def explain(self, key: str) -> bytes | None:
        """Return why a pod (`namespace/name`) is where it is, as JSON; None if it is not known."""
        await self.quiet()
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
        """Tell whether attempts are made in a thread; the core must be left alone then."""
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
        """Return when no attempt is under way in a thread, before the next one begins."""
        while self._aside:
            await self._aside_ended.wait()

    def reconfigure(
        self,
        config: KubeSchedulerConfiguration,
        registry: Registry,
        extenders: Sequence[Extender] = (),
    ) -> None:
        """Use another configuration from now on; raises and changes nothing if it is bad."""
        if self._aside:
            raise ConfigError("a scheduling attempt waits for an extender or plugin; try again")
        self._take_held()
        self.core.reconfigure(config, self._wall(), registry=registry, extenders=extenders)
        self._suspect(registry)
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
        self._running = True
        try:
            while not performing.done():
                if self._rest is not None:
                    await self._rest()
                if self._goes_aside:
                    await self._turn_aside()
                else:
                    self._turn()
                await self._pause()
            performing.result()
        finally:
            self._running = False
            self._take_held()
            with contextlib.suppress(asyncio.CancelledError):
                await self._performer.finish(GRACE)
            performing.cancel()
            await asyncio.gather(performing, return_exceptions=True)

    @property
    def _real(self) -> bool:
        """Whether time is; in virtual time turns must not depend on how fast the machine is."""
        return self._wall is time.time

    def _suspect(self, registry: Registry) -> None:
        """Begin in a thread where plugins are not ours: nobody knows yet if they wait."""
        profiles = list(self.core.engine.profiles.values())
        if self._real and has_outsiders(profiles, registry):
            self._wary.begin()

    @property
    def _goes_aside(self) -> bool:
        """Whether to decide in a thread: an attempt may wait, or is one of many pods at once."""
        if any(extender.blocking for extender in self.core.engine.extenders):
            return True
        return self._real and (bool(self._wary) or self.core.has_groups)

    def _turn(self) -> None:
        self._take_held()
        begun = time.perf_counter()
        until = begun + SECONDS_PER_TURN if self._real else None
        limit = PODS_PER_TURN if self._has_room else 0
        actions = self.core.step(self._wall(), limit=limit, until=until)
        self._took(took := time.perf_counter() - begun)
        if self._real and took > LONG_TURN:
            log.warning(
                "deciding held the event loop and goes on in a thread; "
                "plugins must not wait, see write-a-plugin.md",
                seconds=round(took, 3),
                metric="scheduler_plugin_execution_duration_seconds",
            )
        if actions:
            self._performer.perform(actions)

    def _took(self, seconds: float, allowed: float = SLOW_TURN) -> None:
        if self._real:
            self._wary.took(seconds, allowed)

    async def _turn_aside(self) -> None:
        """Decide in a thread, because the core may wait; what arrives is held back.

        Plugins are also asked about what arrives, so where they may wait the thread takes it over.
        """
        self._aside, tries, begun = True, self.core.ready, time.perf_counter()
        limit = PODS_PER_TURN_ASIDE if self._has_room else 0
        step = self._take_and_step(self._held) if self._wary else self.core.step
        if self._wary:
            self._held = []
        try:
            actions = await self._run_aside(step, self._wall(), limit=limit)
        finally:
            self._aside = False
            self._aside_ended.set()
            self._aside_ended = asyncio.Event()
            if not self._wary:
                self._take_held()
        if tries or actions:  # what was held back may have brought the pods
            self._took(time.perf_counter() - begun)
        if actions:
            self._performer.perform(actions)

    def _take_and_step(self, held: Sequence[Callable[[], None]]) -> Callable[..., list[Action]]:
        def step(now: float, *, limit: int) -> list[Action]:
            self._take_all(held)
            return self.core.step(now, limit=limit)

        return step

    def _take_held(self) -> None:
        """Take over what came while a thread used the core."""
        held, self._held = self._held, []
        self._take_all(held)

    def _take_all(self, held: Sequence[Callable[[], None]]) -> None:
        for take in held:
            try:
                take()
            except Exception:  # nor may an odd result hide what came after it
                self.metrics.handling_errors.inc()
                log.exception("result not taken over")

    @property
    def _has_room(self) -> bool:
        return self._performer.pending_binds <= MAX_PENDING_BINDS - PODS_PER_TURN

    async def _pause(self) -> None:
        """Let the network work; sleep when there is nothing to decide."""
        if self._held or (self.core.ready and self._has_room):
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
        if self._hold(partial(self._take, changes)):
            return
        begun = time.perf_counter()
        self._take(changes)
        allowed = SLOW_TURN + SECONDS_PER_CHANGE * len(changes)
        if (took := time.perf_counter() - begun) > allowed:
            self._took(took, allowed)
        core = self.core
        # Most changes, such as a pod that runs now, leave nothing to decide; who polls is asked.
        if core.ready or core.bindings.polls or core.next_wake() < self._sleeps_until:
            self._wake.set()

    def _take(self, changes: Sequence[Change[Object]]) -> None:
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

    def _report(self, result: Input) -> None:
        if self._hold(partial(self._handle, result)):
            return
        begun = time.perf_counter()
        self._handle(result)
        if (took := time.perf_counter() - begun) > SLOW_TURN:
            self._took(took)
        self._wake.set()

    def _handle(self, result: Input) -> None:
        self.core.handle(result, self._wall())

    def _hold(self, take: Callable[[], None]) -> bool:
        """Keep something for later, if a thread uses the core or takes it over; in order."""
        if not (self._aside or self._held or (self._running and self._wary)):
            return False
        self._held.append(take)
        self._wake.set()
        return True
