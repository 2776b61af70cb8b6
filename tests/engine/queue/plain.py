"""A scheduling queue with no heaps, indices or shortcuts: its rules in the plainest words.

All pods are in one dict and every question is answered by looking at all of them. Events are kept
per pod in flight. It takes the same calls as `SchedulingQueue` and is compared with it.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

from bayplan.api import Pod
from bayplan.engine.queue.changes import pod_update_events
from bayplan.framework.contract.events import FORCE_ACTIVATE, UNSCHEDULABLE_TIMEOUT, QueueingHint
from bayplan.framework.contract.status import is_success

SKIP, AFTER_BACKOFF, AT_ONCE = range(3)


@dataclass
class Plain:
    """What is known of one pod."""

    pod: Pod
    timestamp: float
    place: str = "NOWHERE"
    attempts: int = 0
    unschedulable_count: int = 0
    consecutive_errors: int = 0
    initial_attempt_timestamp: float | None = None
    was_flushed: bool = False
    flush_timestamp: float = 0.0
    unschedulable_plugins: frozenset[str] = frozenset()
    pending_plugins: frozenset[str] = frozenset()
    gating_plugin: str = ""
    group_size: int = 0
    entered: int = field(default=0, compare=False)

    @property
    def rejectors(self) -> frozenset[str]:
        return self.unschedulable_plugins | self.pending_plugins


class PlainQueue:
    """The rules, for one set of plugins: `events` by profile and plugin, `gates` by profile."""

    def __init__(self, events, nominations, gates, *, early, maximum, initial=1.0, leftover=300.0):
        self.events, self.nominations, self.gates, self.early = events, nominations, gates, early
        self.initial, self.maximum, self.leftover = initial, maximum, leftover
        self.pods: dict[str, Plain] = {}
        self.flights: dict[str, list] = {}
        self.incoming: Counter = Counter()
        self.look = -math.inf  # when leftovers are looked for next
        self.serial = 0

    # -- backoff --

    def ends(self, item: Plain) -> float:
        failures = item.consecutive_errors or item.unschedulable_count
        if not failures or not self.maximum:
            return 0.0
        most = self.maximum * math.sqrt(max(1, item.group_size))
        end = item.timestamp + min(self.initial * 2 ** (failures - 1), most)
        return math.floor(end) if self.early else end

    def backs_off(self, item: Plain, now: float) -> bool:
        return self.ends(item) >= (math.floor(now) if self.early else now)

    # -- who is where --

    def get(self, key: str) -> Plain | None:
        return self.pods.get(key)

    def at(self, *places: str) -> list[Plain]:
        found = [item for item in self.pods.values() if item.place in places]
        return sorted(found, key=lambda item: item.entered)

    def order(self, place: str) -> list[Plain]:
        """In which they come out."""

        def rank(item):
            importance = (-item.pod.priority, item.timestamp)
            if place == "ACTIVE":
                return *importance, item.entered
            return self.ends(item), importance if self.early else (), item.entered

        return sorted(self.at(place), key=rank)

    def next_flush(self) -> float:
        times = [
            self.ends(item) + 1 if self.early else math.nextafter(self.ends(item), math.inf)
            for item in self.at("BACKOFF", "ERROR_BACKOFF")
        ]
        return min([*times, *([self.look] if self.at("UNSCHEDULABLE") else [])], default=math.inf)

    def pending(self) -> dict[str, int]:
        gated = sum(bool(item.gating_plugin) for item in self.at("UNSCHEDULABLE"))
        return {
            "active": len(self.at("ACTIVE")),
            "backoff": len(self.at("BACKOFF", "ERROR_BACKOFF")),
            "unschedulable": len(self.at("UNSCHEDULABLE")) - gated,
            "gated": gated,
        }

    def in_flight_events(self) -> Counter:
        """Those that the oldest one in flight has to look at."""
        oldest = next(iter(self.flights.values()), [])
        return Counter([event.label for event, *_ in oldest] + ["PodPopped"] * len(self.flights))

    # -- moves --

    def _put(self, item: Plain, place: str, counted: str, event: str) -> None:
        self.serial += 1
        self.pods[item.pod.key] = item
        item.place, item.entered = place, self.serial
        self.incoming[counted, event] += 1

    def _held(self, item: Plain) -> bool:
        gates = self.gates.get(item.pod.spec.scheduler_name, [])
        for name, asks in sorted(gates, key=lambda gate: gate[0] != item.gating_plugin):
            if not is_success(asks(item.pod)):
                item.gating_plugin = name
                item.unschedulable_plugins |= {name}
                return True
        item.gating_plugin = ""
        return False

    def _wait(self, item: Plain, event: str, now: float) -> None:
        if item.place == "UNSCHEDULABLE":
            return
        if not self.at("UNSCHEDULABLE"):
            self.look = max(self.look, now + 30)
        counted = "gated" if item.gating_plugin else "unschedulable"
        self._put(item, "UNSCHEDULABLE", counted, event)

    def _gated(self, item: Plain, event: str, now: float) -> None:
        item.was_flushed = False
        self._wait(item, event, now)

    def _activate(self, item: Plain, event: str, now: float, *, backed_off: bool = False) -> None:
        passed = backed_off and self.early  # gates were asked when backoff began
        if not passed and self._held(item):
            self._gated(item, event, now)
            return
        if item.initial_attempt_timestamp is None:
            item.initial_attempt_timestamp = now
        self._put(item, "ACTIVE", "active", event)

    def _back_off(self, item: Plain, event: str, now: float) -> None:
        if self.early and self._held(item):
            self._gated(item, event, now)
            return
        alone = item.rejectors and not item.group_size
        self._put(item, "BACKOFF" if alone else "ERROR_BACKOFF", "backoff", event)

    def _requeue(self, item: Plain, strategy: int, event: str, now: float) -> None:
        if strategy == SKIP:
            self._wait(item, event, now)
        elif strategy == AFTER_BACKOFF and self.backs_off(item, now):
            self._back_off(item, event, now)
        else:
            self._activate(item, event, now)

    # -- objects --

    def add(self, pod, now, beside=None):
        known = self.pods.get(pod.key)
        if known or pod.uid in self.flights:
            self.update(known.pod if known else pod, pod, now)
        elif beside and self.backs_off(beside, now):
            item = Plain(pod, beside.timestamp)
            item.unschedulable_count = beside.unschedulable_count
            item.consecutive_errors = beside.consecutive_errors
            item.unschedulable_plugins = beside.unschedulable_plugins
            item.group_size = beside.group_size
            self._back_off(item, "UnschedulablePodAdd", now)
            self.nominations.from_status(pod)
        else:
            self._enter(pod, "UnschedulablePodAdd", now)

    def _enter(self, pod, event, now):
        item = Plain(pod, now)
        self._activate(item, event, now)
        if item.place == "ACTIVE":
            self.nominations.from_status(pod)

    def update(self, old, new, now):
        if new.uid in self.flights:
            for event in pod_update_events(old, new):
                self._record(event, old, new)
            return
        item = self.pods.get(new.key)
        if item and item.pod.uid != new.uid:
            self.delete(item.pod)
            item = None
        if item is None:
            self._enter(new, "UnschedulablePodUpdate", now)
            return
        if item.place in ("ACTIVE", "BACKOFF") and item.pod.priority != new.priority:
            self.serial += 1
            item.entered = self.serial  # behind those that have been as important for longer
        item.pod = new
        self.nominations.updated(old, new)
        for event in pod_update_events(old, new) if item.place == "UNSCHEDULABLE" else ():
            self._requeue(item, self._strategy(item, event, old, new), event.label, now)
            if item.place != "UNSCHEDULABLE":
                break

    def delete(self, pod):
        self.nominations.deleted(pod)
        self.pods.pop(pod.key, None)

    # -- attempts --

    def pop(self):
        for place in ("ACTIVE", "BACKOFF") if self.early else ("ACTIVE",):
            for item in self.order(place)[:1]:
                if place == "BACKOFF":
                    self.incoming["active", "PopFromBackoffQ"] += 1
                self._fly(item)
                return item
        return None

    def _fly(self, item):
        del self.pods[item.pod.key]
        item.attempts += 1
        item.place = "IN_FLIGHT"
        self.flights[item.pod.uid] = []

    def pop_while(self, wanted, most):
        found = []
        line = self.order("ACTIVE") + (self.order("BACKOFF") if self.early else [])
        for item in line:
            if len(found) == most or not wanted(item):
                break
            if item.place == "BACKOFF":
                self.incoming["active", "PopFromBackoffQ"] += 1
            item.place = "NOWHERE"
            found.append(item)
        return found

    def refused(self, items, unschedulable, pending, now):
        for item in items:
            item.attempts += 1
            self._failed(item, unschedulable, pending, now, 0)
            self._wait(item, "ScheduleAttemptFailure", now)

    def pop_specific(self, pod, now):
        self.activate([pod], now, remember=False)
        item = self.pods.get(pod.key)
        if item is None or item.place != "ACTIVE":
            return None
        self._fly(item)
        return item

    def done(self, uid):
        self.flights.pop(uid, None)

    def add_unschedulable(self, item, now, group_size=0):
        flown = self.flights.pop(item.pod.uid, None)
        self._failed(item, item.unschedulable_plugins, item.pending_plugins, now, group_size)
        strategy = SKIP
        for event, old, new in flown or []:
            strategy = max(strategy, self._strategy(item, event, old, new))
        if not item.rejectors or flown is None or group_size:
            strategy = AFTER_BACKOFF
        self._requeue(item, strategy, "ScheduleAttemptFailure", now)

    def _failed(self, item, unschedulable, pending, now, group_size):
        item.unschedulable_plugins, item.pending_plugins = unschedulable, pending
        if item.rejectors:
            item.unschedulable_count, item.consecutive_errors = item.unschedulable_count + 1, 0
        else:
            item.consecutive_errors += 1
        item.place, item.timestamp, item.group_size = "NOWHERE", now, group_size
        item.was_flushed, item.flush_timestamp = False, 0.0

    # -- events --

    def _record(self, event, old, new):
        for seen in self.flights.values():
            seen.append((event, old, new))

    def _waits_for(self, item, event):
        """The hints of the plugins that rejected a pod and wait for an event, in order."""
        plugins = self.events.get(item.pod.spec.scheduler_name, {})
        return [
            (plugin, registered.hint)
            for plugin, registrations in plugins.items()
            if plugin in item.rejectors
            for registered in registrations
            if registered.event.matches(event)
        ]

    def _strategy(self, item, event, old, new):
        if event.wildcard:
            other = new is not None and new.uid != item.pod.uid
            return SKIP if other else AFTER_BACKOFF
        if item.pod.spec.scheduler_name not in self.events:
            return AFTER_BACKOFF
        said = [SKIP]
        for plugin, hint in self._waits_for(item, event):
            try:
                skips = hint is not None and hint(item.pod, old, new) is QueueingHint.SKIP
            except ValueError:
                skips = False
            if not skips:
                said.append(AT_ONCE if plugin in item.pending_plugins else AFTER_BACKOFF)
        return max(said)

    def move_all(self, event, old, new, now, check=None):
        somebody = any(
            registered.event.matches(event)
            for plugins in self.events.values()
            for registrations in plugins.values()
            for registered in registrations
        )
        if not event.wildcard and not somebody:
            return 0
        waiting = [item for item in self.at("UNSCHEDULABLE") if not check or check(item.pod)]
        moved = self._move(waiting, event, old, new, now)
        self._record(event, old, new)
        return moved

    def _move(self, items, event, old, new, now):
        for item in items:
            wakes = event.wildcard or self._waits_for(item, event)
            gate = item.gating_plugin
            if gate and not event.wildcard:
                wakes = any(plugin == gate for plugin, _ in self._waits_for(item, event))
            strategy = self._strategy(item, event, old, new) if wakes else SKIP
            if strategy != SKIP:
                self._requeue(item, strategy, event.label, now)
        return sum(item.place != "UNSCHEDULABLE" for item in items)

    def activate(self, pods, now, *, remember=True):
        for pod in pods:
            item = self.pods.get(pod.key)
            if item and item.place != "ACTIVE":
                backed_off = item.place != "UNSCHEDULABLE"
                self._activate(item, "ForceActivate", now, backed_off=backed_off)
                if item.place == "ACTIVE":
                    continue
            if remember and pod.uid in self.flights:
                self._record(FORCE_ACTIVATE, None, pod)

    def retry(self, item, timestamp, now):
        item.timestamp, item.unschedulable_count = timestamp, 0
        self.activate([item.pod], now, remember=False)

    def flush(self, now):
        for item in self.order("BACKOFF") + self.order("ERROR_BACKOFF"):
            if not self.backs_off(item, now):
                self._activate(item, "BackoffComplete", now, backed_off=True)
        if not self.at("UNSCHEDULABLE") or now < self.look:
            return
        self.look = now + 30
        long = [
            item
            for item in self.at("UNSCHEDULABLE")
            if now - max(item.timestamp, item.flush_timestamp) > self.leftover
        ]
        for item in long:
            item.was_flushed, item.flush_timestamp = True, now
        if long:
            self._move(long, UNSCHEDULABLE_TIMEOUT, None, None, now)
            self._record(UNSCHEDULABLE_TIMEOUT, None, None)
