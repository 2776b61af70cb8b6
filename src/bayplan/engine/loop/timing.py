"""How long things take, for metrics; the clock comes from outside.

When a profile is built, each plugin that an attempt calls gets a `Timed` in front of it, so that
the code that calls plugins knows nothing of it. For what every attempt calls, the clock is read in
one attempt out of ten, the first included, as kube-scheduler does; in the other nine a call is just
passed on. A call inside a timed one (a dry run of filters within PostFilter) is part of it. An
answer that the engine kept from an earlier attempt is no call: it is neither counted nor timed.

Not timed here: PreBind and Bind, which end only when the API server has answered (`binding` and the
driver do that).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bayplan.engine.queue import Gate
from bayplan.framework.contract.events import ClusterEvent
from bayplan.framework.contract.status import Code, Status
from bayplan.framework.contract.verdict import Verdict

Observer = Callable[[str, tuple[str, ...], float], None]
"""Takes what was measured (a key of `SchedulerMetrics.times`), its labels and the seconds."""

EVERY = 10
_SUCCESS, _ERROR = Code.SUCCESS.text, Code.ERROR.text
_IN_ATTEMPT = {
    "pre_filter": "PreFilter",
    "filter": "Filter",
    "filter_node": "Filter",
    "pre_score": "PreScore",
    "score": "Score",
    "score_node": "Score",
    "normalize": "ScoreExtensionNormalize",
    "reserve": "Reserve",
    "permit": "Permit",
    "pre_bind_pre_flight": "PreBindPreFlight",
}
"""Timed in sampled attempts, and added up for the whole extension point."""
_ON_THEIR_OWN = {
    "post_filter": "PostFilter",
    "pod_group_post_filter": "PodGroupPostFilter",
    "unreserve": "Unreserve",
    "post_bind": "PostBind",
}
"""Rare, so timed at every call, each call by itself."""


def _nothing(_what: str, _labels: tuple[str, ...], _seconds: float) -> None:
    """Measure nothing."""


class Timed:
    """A plugin with timers in front of some methods; everything else is the plugin's own."""

    def __init__(self, plugin: Any, timers: dict[str, Any]) -> None:
        self._plugin = plugin
        self.name = plugin.name
        # Methods are looked up once, so that those without a timer cost nothing extra.
        names = (name for name in dir(type(plugin)) if not name.startswith("_"))
        methods = {name: getattr(plugin, name) for name in names if name not in timers}
        self.__dict__.update({name: item for name, item in methods.items() if callable(item)})
        self.__dict__.update(timers)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plugin, name)


class Timing:
    """Reads the clock and hands on what it measured; without an observer it does nothing."""

    def __init__(
        self, clock: Callable[[], float] | None = None, observe: Observer | None = None
    ) -> None:
        self.clock = clock or (lambda: 0.0)
        self.observe = observe or _nothing
        self.enabled = clock is not None
        self.begun = 0.0
        """When the attempt that is under way, or the last one, began."""
        self._sampling = False
        """Whether calls of plugins are timed right now."""
        self._attempts = 0
        self._sums: dict[str, float] = {}
        self._worst: dict[str, str] = {}
        self._calls: dict[tuple[str, str, str], list[int]] = {}
        self._events: dict[int, tuple[ClusterEvent, tuple[str]]] = {}

    # --- attempts ---

    def begin(self, begun: float) -> None:
        """An attempt begins, or goes on."""
        self.begun = begun
        self._attempts += 1
        self._sampling = self._attempts % EVERY == 1 and self.enabled

    def passed_on(self, attempts: int) -> None:
        """Attempts were over before they called anything."""
        self._attempts += attempts

    def decided(self) -> None:
        """The attempt has found a node, or none."""
        self.observe("algorithm", (), self.clock() - self.begun)

    def end(self, profile: str) -> None:
        """The attempt's share of the scheduling thread is over."""
        if not self._sampling:
            return
        self._sampling = False
        for point, seconds in self._sums.items():
            self.observe("point", (point, self._worst[point], profile), seconds)
        self._sums.clear()
        self._worst.clear()

    # --- events ---

    def handled(self, event: ClusterEvent, begin: float) -> None:
        """An object's change was taken over, which meant that event."""
        known = self._events.get(id(event))  # making the label costs more than the rest
        if known is None:
            known = self._events[id(event)] = (event, (event.label,))
        self.observe("event", known[1], self.clock() - begin)

    # --- plugins ---

    def evaluations(self) -> dict[tuple[str, str, str], int]:
        """Calls in sampled attempts, by (plugin, extension point, profile)."""
        wanted = ("PreFilter", "Filter", "PreScore", "Score")
        return {key: cell[0] for key, cell in list(self._calls.items()) if key[1] in wanted}

    def wrap(self, plugin: Any, profile: str) -> Any:
        """What stands for a plugin in a profile: it with timers, or itself if it needs none."""
        timers: dict[str, Any] = {}
        for method, point in _IN_ATTEMPT.items():
            call = getattr(plugin, method, None)
            if callable(call):
                timers[method] = self._in_attempt(call, plugin.name, point, profile)
        for method, point in _ON_THEIR_OWN.items():
            call = getattr(plugin, method, None)
            if callable(call):
                timers[method] = self._on_its_own(call, plugin.name, point, profile)
        return Timed(plugin, timers) if timers else plugin

    def gates(self, profile: str, gates: Sequence[Gate]) -> list[Gate]:
        """PreEnqueue plugins with a timer in front, for the queue's sampled runs."""
        return [
            (plugin, self._on_its_own(call, plugin, "PreEnqueue", profile))
            for plugin, call in gates
        ]

    def _in_attempt(self, call: Any, plugin: str, point: str, profile: str) -> Any:
        cell = self._calls.setdefault((plugin, point, profile), [0])
        sums, worst = self._sums, self._worst

        def add(status: str, seconds: float) -> None:
            cell[0] += 1
            sums[point] = sums.get(point, 0.0) + seconds
            if worst.get(point, _SUCCESS) == _SUCCESS:
                worst[point] = _of_point(point, status)

        measured = self._measured(call, plugin, point, add)

        def timed(*args: Any) -> Any:
            return measured(*args) if self._sampling else call(*args)

        return timed

    def _on_its_own(self, call: Any, plugin: str, point: str, profile: str) -> Any:
        def tell(status: str, seconds: float) -> None:
            self.observe("point", (point, status, profile), seconds)

        return self._measured(call, plugin, point, tell)

    def _measured(
        self, call: Any, plugin: str, point: str, then: Callable[[str, float], None]
    ) -> Any:
        """A call with a timer in front; `then` is told its status and how long it took."""

        def timed(*args: Any) -> Any:
            status, sampling = _ERROR, self._sampling
            self._sampling = False
            begin = self.clock()
            try:
                answer = call(*args)
                status = status_of(answer)
                return answer
            finally:
                seconds = self.clock() - begin
                self._sampling = sampling
                self.observe("plugin", (plugin, point, status), seconds)
                then(status, seconds)

        return timed


def status_of(answer: object) -> str:
    """The status in what a plugin answered, as metrics name it."""
    if isinstance(answer, tuple):
        answer = next((part for part in answer if isinstance(part, Status)), None)
    if isinstance(answer, Status):
        return answer.code.text
    if isinstance(answer, Verdict) and not answer.passes_all and not answer.mask.any():
        return Code.UNSCHEDULABLE.text
    return _SUCCESS


def _of_point(point: str, status: str) -> str:
    """What a plugin's status means for its whole extension point.

    A plugin that skips does no harm, and rejected nodes are what filtering is for.
    """
    harmless = point == "Filter" or status == Code.SKIP.text
    return _SUCCESS if harmless and status != _ERROR else status
