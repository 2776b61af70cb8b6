"""Metrics under kube-scheduler's names and labels, so that its dashboards work unchanged.

Children are looked up once and kept, because `labels()` costs more than the increment. Times are
given by the caller: this module has no clock. The help texts are ours; names, labels, buckets and
types are upstream's (v1.36). A metric of upstream that has no meaning here (goroutines) is absent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.process_collector import ProcessCollector

from bayplan.observe.histogram import Child, Histogram

# Upstream's exposition has no `_created` series.
disable_created_metrics()  # type: ignore[no-untyped-call]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def exponential(first: float, factor: float, count: int) -> list[float]:
    """Return bucket bounds as client_golang's ExponentialBuckets makes them."""
    return [first * factor**i for i in range(count)]


MILLISECONDS = exponential(0.001, 2, 15)
TENTHS_OF_MS = exponential(0.0001, 2, 12)
MICROSECONDS = exponential(0.00001, 1.5, 20)


class SchedulerMetrics:
    """All metrics of one scheduler process, in a registry of their own."""

    def __init__(self, *, process: bool = True) -> None:
        self.registry = CollectorRegistry()
        if process:
            ProcessCollector(registry=self.registry)
        self._attempt_metrics()
        self._queue_metrics()
        self._plugin_metrics()
        self._api_metrics()
        self._scheduled: dict[tuple[str, str], tuple[Counter, Child]] = {}
        self._sli: dict[int, Child] = {}
        self._api: dict[tuple[str, bool], tuple[Counter, Child]] = {}
        self._timed: dict[tuple[str, tuple[str, ...]], Child] = {}
        self.times: dict[str, Histogram] = {
            "algorithm": self.algorithm_duration,
            "event": self.event_handling,
            "hint": self.hint_execution,
            "permit": self.permit_wait,
            "plugin": self.plugin_execution,
            "point": self.extension_point,
        }
        """What the scheduler's core measures, by the names that it has for it."""
        self._shown: dict[int, set[tuple[str, ...]]] = {}
        self._totals: dict[tuple[int, tuple[str, ...]], float] = {}

    # -- definitions

    def _attempt_metrics(self) -> None:
        self.schedule_attempts = self._counter(
            "schedule_attempts", "Attempts to schedule pods, by result.", "result", "profile"
        )
        self.attempt_duration = self._histogram(
            "scheduling_attempt_duration_seconds",
            "Time of one attempt: algorithm and binding.",
            MILLISECONDS,
            "result",
            "profile",
        )
        self.algorithm_duration = self._histogram(
            "scheduling_algorithm_duration_seconds", "Time of the algorithm.", MILLISECONDS
        )
        self.sli_duration = self._histogram(
            "pod_scheduling_sli_duration_seconds",
            "Time from a pod's first attempt to its binding, gates excluded.",
            exponential(0.01, 2, 20),
            "attempts",
        )
        self.pod_attempts = self._histogram(
            "pod_scheduling_attempts", "Attempts that a pod needed.", exponential(1, 2, 5)
        )
        self.preemption_victims = self._histogram(
            "preemption_victims", "Victims of one preemption.", exponential(1, 2, 7)
        )
        self.preemption_attempts = self._counter(
            "preemption_attempts", "Attempts that asked whether preemption would help."
        )
        self.permit_wait = self._histogram(
            "permit_wait_duration_seconds", "Time of waiting on permit.", MILLISECONDS, "result"
        )

    def _queue_metrics(self) -> None:
        self.pending_pods = self._gauge("pending_pods", "Pods that wait, by queue.", "queue")
        self.incoming_pods = self._counter(
            "queue_incoming_pods", "Pods that entered a queue, by event.", "queue", "event"
        )
        self.unschedulable_pods = self._gauge(
            "unschedulable_pods", "Pods that a plugin rejected.", "plugin", "profile"
        )
        self.cache_size = self._gauge("cache_size", "Objects in the cache.", "type")
        self.inflight_events = self._gauge(
            "inflight_events", "Events kept for pods under way.", "event"
        )
        self.event_handling = self._histogram(
            "event_handling_duration_seconds",
            "Time of handling an event (of pods sampled).",
            TENTHS_OF_MS,
            "event",
        )
        self.after_flush = self._counter(
            "pod_scheduled_after_flush", "Pods bound after a flush of the unschedulable queue."
        )

    def _plugin_metrics(self) -> None:
        self.extension_point = self._histogram(
            "framework_extension_point_duration_seconds",
            "Time of all plugins of an extension point (sampled before binding).",
            TENTHS_OF_MS,
            "extension_point",
            "status",
            "profile",
        )
        self.plugin_execution = self._histogram(
            "plugin_execution_duration_seconds",
            "Time of one plugin at one extension point (sampled).",
            MICROSECONDS,
            "plugin",
            "extension_point",
            "status",
        )
        self.plugin_evaluation = self._counter(
            "plugin_evaluation",
            "Calls of a plugin in sampled attempts (1 in 10); one may be about all nodes.",
            "plugin",
            "extension_point",
            "profile",
        )
        self.hint_execution = self._histogram(
            "queueing_hint_execution_duration_seconds",
            "Time of a queueing hint (sampled).",
            MICROSECONDS,
            "plugin",
            "event",
            "hint",
        )

    def _api_metrics(self) -> None:
        self.api_calls = self._counter(
            "async_api_call_execution", "Writes to the API server.", "call_type", "result"
        )
        self.api_duration = self._histogram(
            "async_api_call_duration_seconds",
            "Time of a write to the API server.",
            MILLISECONDS,
            "call_type",
            "result",
        )
        self.pending_api_calls = self._gauge(
            "pending_async_api_calls", "Writes that wait or are under way.", "call_type"
        )
        self.requests = Counter(
            "rest_client_requests",
            "Requests to the API server by code, method and host.",
            ["code", "method", "host"],
            registry=self.registry,
        )
        self.request_duration = Histogram(
            "rest_client_request_duration_seconds",
            "Time of requests to the API server.",
            ["verb", "host"],
            (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0),
            self.registry,
        )
        self.leader = Gauge(
            "leader_election_master_status",
            "1 while this process leads.",
            ["name"],
            registry=self.registry,
        )
        self.events = Counter(
            "bayplan_events",
            "Events by what became of them.",
            ["outcome"],
            registry=self.registry,
        )
        self.plugin_errors = Counter(
            "bayplan_plugin_errors",
            "Exceptions of plugins, which failed one pod each.",
            ["plugin", "method"],
            registry=self.registry,
        )
        self.extender_ahead = Counter(
            "bayplan_extender_ahead",
            "What came of asking extenders about pods ahead of their turn.",
            ["result"],
            registry=self.registry,
        )
        self.handling_errors = Counter(
            "bayplan_handling_errors",
            "Changes of objects and results of actions that could not be taken over.",
            registry=self.registry,
        )
        self.reloads = Counter(
            "bayplan_config_reloads",
            "Reloads of the configuration, by outcome.",
            ["outcome"],
            registry=self.registry,
        )

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"scheduler_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"scheduler_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: Iterable[float], *labels: str) -> Histogram:
        return Histogram(f"scheduler_{name}", text, labels, buckets, self.registry)

    # -- the hot ones

    def attempt(self, result: str, profile: str, seconds: float) -> None:
        """Count an attempt that ended in `result` (scheduled, unschedulable, error)."""
        counter, child = self._of(result, profile)
        counter.inc()
        child.observe(seconds)

    def _of(self, result: str, profile: str) -> tuple[Counter, Child]:
        pair = self._scheduled.get((result, profile))
        if pair is None:
            pair = self._scheduled[result, profile] = (
                self.schedule_attempts.labels(result, profile),
                self.attempt_duration.labels(result, profile),
            )
        return pair

    def took(self, what: str, labels: tuple[str, ...], seconds: float) -> None:
        """Record a time of the scheduler's core."""
        child = self._timed.get((what, labels))
        if child is None:
            child = self._timed[what, labels] = self.times[what].labels(*labels)
        child.observe(seconds)

    def bind_took(self, profile: str, plugin: str, seconds: float, failed: bool) -> None:
        """Record the time of a binding: as extension point, as plugin and as call."""
        status = "Error" if failed else "Success"
        self.took("point", ("Bind", status, profile), seconds)
        self.took("plugin", (plugin, "Bind", status), seconds)
        self.api_call("pod_binding", seconds, failed)

    def api_call(self, kind: str, seconds: float, failed: bool) -> None:
        """Record a write to the API server."""
        pair = self._api.get((kind, failed))
        if pair is None:
            labels = (kind, "error" if failed else "success")
            pair = self._api[kind, failed] = (
                self.api_calls.labels(*labels),
                self.api_duration.labels(*labels),
            )
        pair[0].inc()
        pair[1].observe(seconds)

    def request_observer(self, host: str) -> Callable[[str, int, float], None]:
        """Return what a client calls after each request."""
        known: dict[tuple[str, int], tuple[Counter, Child]] = {}

        def observe(method: str, code: int, seconds: float) -> None:
            pair = known.get((method, code))
            if pair is None:
                shown = str(code) if code else "<error>"
                pair = known[method, code] = (
                    self.requests.labels(shown, method, host),
                    self.request_duration.labels(method, host),
                )
            pair[0].inc()
            pair[1].observe(seconds)

        return observe

    def raise_to(self, counter: Counter, labels: tuple[str, ...], value: float) -> None:
        """Bring a counter up to a total that is counted elsewhere."""
        key = (id(counter), labels)
        counter.labels(*labels).inc(max(value - self._totals.get(key, 0.0), 0.0))
        self._totals[key] = value

    def show(self, gauge: Gauge, counts: Mapping[tuple[str, ...], int]) -> None:
        """Set all values of a gauge; label values that are gone count as none."""
        shown = self._shown.setdefault(id(gauge), set())
        for labels in shown - set(counts):
            gauge.labels(*labels).set(0)
        for labels, count in counts.items():
            gauge.labels(*labels).set(count)
        shown |= set(counts)

    def bound(self, attempts: int, seconds: float) -> None:
        """Record what it took to bind a pod: attempts, and time since the first one."""
        capped = min(attempts, 15)
        child = self._sli.get(capped)
        if child is None:
            label = "15+" if attempts >= 15 else str(capped)
            child = self._sli[capped] = self.sli_duration.labels(label)
        child.observe(seconds)
        self.pod_attempts.observe(attempts)

    def exposition(self) -> bytes:
        """Return the text that `/metrics` serves."""
        return generate_latest(self.registry)
