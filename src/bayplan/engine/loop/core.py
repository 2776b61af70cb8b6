"""The live scheduler without its I/O: events in, actions out.

`handle` takes what happened and changes state; `step` tries pods and returns what is to be done.
Both take the time as an argument. See the package's docstring for the contract with the driver.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import structlog

from bayplan.api import Object, Pod
from bayplan.config import DEFAULT_GATES, FeatureGates, KubeSchedulerConfiguration
from bayplan.config.defaults import gangs_are_on
from bayplan.engine.cache import Cache
from bayplan.engine.cycle.records import AttemptRecord, RecordRing
from bayplan.engine.engine import Engine
from bayplan.engine.loop.actions import Action
from bayplan.engine.loop.binding_cycles import POLL_SECONDS, BindingCycles
from bayplan.engine.loop.explain import Explanation, explain
from bayplan.engine.loop.failure import Failures
from bayplan.engine.loop.gangs import Gangs
from bayplan.engine.loop.inputs import (
    Added,
    BindDone,
    CallsDone,
    Deleted,
    Evicted,
    Input,
    PermitDecision,
    Updated,
)
from bayplan.engine.loop.nominations import NominationRules
from bayplan.engine.loop.objects import ObjectHandlers
from bayplan.engine.loop.pod_attempts import PodAttempts
from bayplan.engine.loop.preemption import Preemptions
from bayplan.engine.loop.shared import Shared
from bayplan.engine.loop.story import Note
from bayplan.engine.loop.timing import Timing
from bayplan.engine.loop.wiring import gates_of, hints_of, order_of
from bayplan.engine.queue import SchedulingQueue
from bayplan.errors import BayplanError
from bayplan.framework import PodInfo
from bayplan.framework.contract.events import RECONFIGURED
from bayplan.framework.contract.extender import Extender
from bayplan.framework.contract.handle import never
from bayplan.framework.contract.registry import Factory

_LOG = structlog.get_logger(__name__)

Registry = Mapping[str, Factory]


class Scheduler:
    """Schedules the pods of all its profiles."""

    def __init__(
        self,
        config: KubeSchedulerConfiguration,
        registry: Registry,
        *,
        gates: FeatureGates = DEFAULT_GATES,
        extenders: Sequence[Extender] = (),
        max_in_unschedulable: float = 300.0,
        now: float = 0.0,
        timing: Timing | None = None,
    ) -> None:
        """Build all profiles; raises ConfigError. `extenders` are those of the configuration."""
        self.timing = timing or Timing()
        self.config = config
        self.gates = gates
        self.registry = registry
        self.cache = Cache(gates=gates)
        self.records = RecordRing()
        self.engine = self._build(config, extenders)
        nominations = NominationRules(self.cache.nominator, self.cache.infos.make)
        shared = self._shared = Shared(self.engine, gates, nominations, self.timing)
        shared.now = shared.wall = now
        self._behind = 0.0
        """How much our time is ahead of the clock, because the clock was set back."""
        self.queue = shared.queue = SchedulingQueue(
            hints_of(self.engine),
            nominations,
            gates=gates_of(self.engine),
            sort_key=order_of(self.engine),
            problem=self._problem,
            initial_backoff=float(config.pod_initial_backoff_seconds),
            max_backoff=float(config.pod_max_backoff_seconds),
            max_in_unschedulable=max_in_unschedulable,
            pop_from_backoff=gates["SchedulerPopFromBackoffQ"],
        )
        if self.timing.enabled:
            self.queue.measure(self.timing.clock, self.timing.observe, self.timing.gates)
        failures = Failures(shared)
        self.bindings = BindingCycles(shared, failures)
        gangs = Gangs(shared) if gangs_are_on(gates) else None
        self._gathers = gangs is not None
        self._objects = ObjectHandlers(shared, self.bindings, gangs)
        self.preemptions = Preemptions(shared, self.bindings)
        self.attempts = PodAttempts(shared, failures, self.bindings, self.preemptions, gangs)
        self.problems = self.attempts.problems
        """Unexpected exceptions by type; the pod that was tried failed, others went on."""
        self._next_poll = math.inf

    def mute(self, *, events: bool, metrics: bool) -> None:
        """Do without actions that nobody would carry out: `RecordEvent`, or `Observe`."""
        self._shared.tells_events, self._shared.tells_metrics = not events, not metrics

    # --- events in ---

    def handle(self, event: Input, now: float) -> None:
        """Take over one thing that happened."""
        self._tick(now)
        match event:
            case Added(new=new) | Updated(new=new):
                self.put(new, now)
            case Deleted(old=old):
                self.delete(old, now)
            case BindDone(uid=uid, error=error):
                self.bindings.bind_done(uid, error)
            case CallsDone(work=work, error=error):
                self.bindings.calls_done(work, error)
            case Evicted(preemptor_uid=preemptor, victim_uid=victim, error=error):
                self.preemptions.evicted(preemptor, victim, error)
            case PermitDecision(uid=uid, plugin=plugin, allow=allow, message=message):
                self._permit(uid, plugin, allow, message)

    def put(self, new: Object, now: float) -> None:
        """An object appeared or changed; the short form of `handle(Updated(...))`.

        An object that the engine cannot take (a quantity that is none) is logged and left out.
        """
        self._tick(now)
        try:
            self._objects.changed(new)
        except Exception as problem:
            self._bad_object(new, problem)

    def delete(self, old: Object, now: float) -> None:
        """An object is gone; the short form of `handle(Deleted(...))`."""
        self._tick(now)
        try:
            self._objects.deleted(old)
        except Exception as problem:
            self._bad_object(old, problem)

    def bind_done(self, uid: str, error: str, now: float) -> None:
        """The short form of `handle(BindDone(...))`."""
        self._tick(now)
        self.bindings.bind_done(uid, error)

    def _tick(self, now: float) -> None:
        """Keep our own time: it never runs backwards, so a clock set back delays nobody."""
        shared = self._shared
        if now < shared.wall:
            self._behind += shared.wall - now
        shared.wall = now
        shared.now = now + self._behind

    def _bad_object(self, item: Object, problem: Exception) -> None:
        self.problems[f"{item.KIND}: {type(problem).__name__}"] += 1
        _LOG.error("object left out", kind=item.KIND, key=item.key, error=str(problem))

    def _problem(self, profile: str, plugin: str, method: str, error: BaseException) -> None:
        self.engine.profiles[profile].problem(plugin, method, error)

    def _permit(self, uid: str, plugin: str, allow: bool, message: str) -> None:
        waiting = self._shared.waiting.get(uid)
        if waiting is None:
            return
        if allow:
            waiting.allow(plugin)
        else:
            waiting.reject(plugin, message)

    # --- actions out ---

    @property
    def ready(self) -> bool:
        """Whether `step` has something to do right now."""
        return bool(self._shared.actions) or self.attempts.ready

    @property
    def has_groups(self) -> bool:
        """Whether pods may be tried as groups, each in one attempt, which can take long."""
        return self._gathers and bool(self.cache.objects.pod_groups)

    @property
    def calm(self) -> bool:
        """Whether no pod waits for anything: a change of another would wake nobody."""
        waits = len(self.queue) or self.queue.in_flight_count or self.bindings.polls
        return not waits and not self._gathers

    def next_wake(self) -> float:
        """When `step` has to be called even if nothing happens; infinity if never."""
        shared = self._shared
        wake = self.queue.next_flush()
        if len(shared.waiting):
            wake = min(wake, shared.waiting.next_deadline())
        if self.bindings.polls:
            wake = min(wake, self._next_poll)
        return wake - self._behind

    def step(self, now: float, limit: int = 1, until: float | None = None) -> list[Action]:
        """Try up to `limit` pods and return all that is to be done.

        Call it whenever something was handled, when `next_wake` has come, and again while `ready`.
        After `until`, by the clock that `timing` was given, no further pod is begun and the search
        for victims stops, to go on in the next step: a driver can do other things in time.
        """
        shared = self._shared
        self._tick(now)
        self._timers(shared.now)
        clock = self.timing.clock
        late = never if until is None else lambda: clock() >= until
        while limit > 0 and self.attempts.next(late):
            limit -= 1
            if len(shared.waiting):
                self._waits_over()
            else:
                limit -= self.attempts.refuse_alike(limit)
            if late():
                break
        self._poll(shared.now)  # plans the first look at what pods tried just now wait for
        actions, shared.actions = shared.actions, []
        return actions

    def _timers(self, now: float) -> None:
        if len(self.queue):
            self.queue.flush(now)
        if len(self._shared.waiting):
            self._waits_over()
        self._poll(now)

    def _poll(self, now: float) -> None:
        """Ask what binding cycles wait for, a second after the last time, however busy we are."""
        due = self._next_poll
        if self.bindings.polls and now >= due:
            self.bindings.poll()
        if not self.bindings.polls:
            self._next_poll = math.inf
        elif due == math.inf or now >= due:
            self._next_poll = now + POLL_SECONDS

    def _waits_over(self) -> None:
        # A pod whose wait ends may end that of others, so look until nothing more happens.
        while decided := self._shared.waiting.take_decided(self._shared.now):
            for waiting in decided:
                self.bindings.decided(waiting)

    # --- configuration ---

    def _build(self, config: KubeSchedulerConfiguration, extenders: Sequence[Extender]) -> Engine:
        engine = Engine.build(
            config,
            self.registry,
            self.cache,
            gates=self.gates,
            extenders=sorted(extenders, key=lambda extender: extender.ignorable),
            activate=self._activate,
            records=self.records,
            wrap=self.timing.wrap if self.timing.enabled else None,
        )
        engine.upcoming = self._upcoming
        return engine

    def _upcoming(self, count: int) -> Iterator[PodInfo]:
        """The next pods of the queue, up to the first whose attempt takes another way."""
        for item in self.queue.upcoming(count):
            pod = item.pod
            grouped = pod.spec.scheduling_group is not None
            if grouped or pod.terminating or self.cache.is_assumed(pod.metadata.uid):
                return
            try:
                info = self.cache.infos.known(pod)
            except BayplanError:
                return  # its own attempt will tell
            yield info

    def _activate(self, pods: Iterable[Pod]) -> None:
        self.queue.activate(pods, self._shared.now)

    def reconfigure(
        self,
        config: KubeSchedulerConfiguration,
        now: float,
        *,
        registry: Registry | None = None,
        extenders: Sequence[Extender] = (),
    ) -> None:
        """Take over another configuration between two steps.

        Raises ConfigError and changes nothing if a profile cannot be built. Pods of a
        profile that is gone leave the queue, those of a new one enter it, and those that were
        unschedulable are tried again: what held them back may be gone.
        Binding cycles under way end with the plugins they began with.
        """
        shared = self._shared
        self._tick(now)
        old_registry, self.registry = self.registry, registry or self.registry
        try:
            engine = self._build(config, extenders)
        except BaseException:
            self.registry = old_registry
            raise
        for handle in engine.handles:
            handle.preempting = shared.preempting
        engine.next_start = self.engine.next_start
        if self.engine.ahead is not None:
            self.engine.ahead.drop()
        self.config, self.engine, shared.engine = config, engine, engine
        self.attempts.verdicts.forget(engine)
        self.queue.reconfigure(
            hints_of(self.engine),
            gates_of(self.engine),
            sort_key=order_of(self.engine),
            initial_backoff=float(config.pod_initial_backoff_seconds),
            max_backoff=float(config.pod_max_backoff_seconds),
        )
        for pod in list(shared.unassigned.values()):
            queued = self.queue.get(pod.key) is not None
            if queued and not shared.responsible_for(pod):
                self.queue.delete(pod)
            elif not queued and shared.responsible_for(pod) and not self._is_busy(pod):
                self.queue.add(pod, shared.now)
        self.queue.move_all(RECONFIGURED, None, None, shared.now)

    def _is_busy(self, pod: Pod) -> bool:
        uid = pod.metadata.uid
        return self.cache.is_assumed(uid) or uid in self.bindings or self.queue.in_flight(uid)

    # --- for people and tests ---

    def story(self, pod: str) -> list[Note]:
        """What happened to a pod (uid or `namespace/name`), oldest first; old notes get lost."""
        return self._shared.stories.of(pod)

    def pod(self, key: str) -> Pod | None:
        """A pod that waits to be scheduled, as the informer last showed it, or a placed one."""
        found = self._shared.unassigned.get(key)
        if found is not None:
            return found
        uids = {note.uid for note in self._shared.stories.of(key)}
        infos = (self.cache.pod(uid) for uid in uids)
        return next((info.pod for info in infos if info is not None and info.pod.key == key), None)

    def judge(self, pod: Pod, now: float) -> AttemptRecord | None:
        """Try a pod on the cluster as it is, changing and remembering nothing."""
        engine = self.engine
        kept, ring = engine.records, RecordRing(limit=1)
        engine.records = ring
        try:
            engine.schedule(pod, now, post_filter=False)
        finally:
            engine.records = kept
        return next(iter(ring), None)

    def explain(self, key: str, now: float, best: int = 10) -> Explanation | None:
        """Why a pod (`namespace/name`) is where it is; None if nothing is known of it."""
        return explain(self, key, now, best)

    def place_of(self, key: str) -> str:
        """Where a pod is now, in words."""
        item = self.queue.get(key)
        if item is not None:
            return item.where
        pod = self._shared.unassigned.get(key)
        if pod is None:
            return "unknown"
        binding = self.bindings.get(pod.metadata.uid)
        if binding is not None:
            return f"{binding.phase.name.lower().replace('_', ' ')} on {binding.node_name}"
        info = self.cache.pod(pod.metadata.uid)
        return "not queued" if info is None else f"assumed on {info.node_name}"

    def validate(self) -> None:
        """Raise unless all invariants hold; counts everything anew, so it is for tests."""
        self.queue.validate()
        self.cache.validate()
        self.bindings.validate()
        self.preemptions.validate()
        shared = self._shared
        for item in self.queue:
            known = shared.unassigned.get(item.key)
            assert known is not None, f"{item.key} is queued but not known as unassigned"
            assert known.metadata.uid == item.pod.metadata.uid, (
                f"{item.key} is queued with an old uid"
            )
            assert shared.responsible_for(known), f"{item.key} is queued but not ours"
        for pod in shared.unassigned.values():
            if not shared.responsible_for(pod) or pod.terminating:
                continue
            busy = self._is_busy(pod)
            queued = self.queue.get(pod.key) is not None
            assert busy or queued, f"{pod.key} was forgotten"
            assert not (busy and queued), f"{pod.key} is queued and on its way to a node"
