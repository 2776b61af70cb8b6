"""Whatever the order of events: a pod is in one place, none is lost, order and backoff hold."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from bayplan.engine.queue import Place, QueuedPod
from bayplan.engine.queue.changes import ASSIGNED_POD_DELETE, NODE_ADD
from bayplan.testing import make_node, make_pod
from tests.engine.queue.helper import NODE_ADD_ONLY, PICKY, POD_DELETE, make_queue

PLUGINS = (NODE_ADD_ONLY, POD_DELETE, PICKY, "Nobody")
NAMES = [f"p{i}" for i in range(6)]


class QueueMachine(RuleBasedStateMachine):
    """Whatever the order of events, a pod is in exactly one queue."""

    flying = Bundle("flying")

    def __init__(self):
        super().__init__()
        self.queue = make_queue()
        self.now = 1000.0
        self.model = {}  # key to pod: what must be in the queue or in flight
        self.in_flight = {}  # uid to QueuedPod
        self.failures = {}  # uid to (rejections, errors in a row)
        self.serial = 0

    @rule(name=st.sampled_from(NAMES), priority=st.integers(0, 2), gated=st.booleans())
    def add(self, name, priority, gated):
        if f"default/{name}" in self.model:
            return
        self.serial += 1
        builder = make_pod(name).uid(f"u{self.serial}").priority(priority)
        pod = (builder.gate("x") if gated else builder).build()
        self.model[pod.key] = pod
        self.failures[pod.uid] = (0, 0)
        self.queue.add(pod, self.now)

    @rule(name=st.sampled_from(NAMES), free=st.booleans())
    def update(self, name, free):
        old = self.model.get(f"default/{name}")
        if old is None:
            return
        builder = make_pod(name).uid(old.uid).priority(old.priority).label(v=str(self.serial))
        gated = old.spec.scheduling_gates and not free
        new = (builder.gate("x") if gated else builder).build()
        self.model[new.key] = new
        self.queue.update(old, new, self.now)

    @rule(name=st.sampled_from(NAMES))
    def delete(self, name):
        pod = self.model.pop(f"default/{name}", None)
        if pod is not None:
            self.queue.delete(pod)

    @rule(target=flying)
    def pop(self):
        active = [item for item in self.queue if item.place is Place.ACTIVE]
        backoff = [item for item in self.queue if item.place is Place.BACKOFF]
        item = self.queue.pop()
        if item is None:
            assert not active
            assert not backoff
            return None
        assert item.pod is self.model[item.key]
        assert not item.pod.spec.scheduling_gates
        if active:
            best = min((-other.pod.priority, other.timestamp) for other in active)
            assert best == (-item.pod.priority, item.timestamp)
        else:
            ends = [self.queue.backoff.expiration(other) for other in backoff]
            assert self.queue.backoff.expiration(item) == min(ends)
        self.in_flight[item.pod.uid] = item
        return item

    @rule(item=consumes(flying), plugins=st.sets(st.sampled_from(PLUGINS)))
    def fail(self, item, plugins):
        if not isinstance(item, QueuedPod):
            return
        del self.in_flight[item.pod.uid]
        current = self.model.get(item.key)
        if current is None or current.uid != item.pod.uid:
            self.queue.done(item.pod.uid)
            return
        rejections, errors = self.failures[current.uid]
        self.failures[current.uid] = (rejections + 1, 0) if plugins else (rejections, errors + 1)
        item.pod = current
        item.rejected_by(plugins)
        place = self.queue.add_unschedulable(item, self.now)
        assert place is not Place.IN_FLIGHT
        if not plugins:
            gated = current.spec.scheduling_gates
            assert place is (Place.UNSCHEDULABLE if gated else Place.ERROR_BACKOFF)

    @rule(item=consumes(flying))
    def succeed(self, item):
        if not isinstance(item, QueuedPod):
            return
        del self.in_flight[item.pod.uid]
        self.queue.done(item.pod.uid)
        current = self.model.get(item.key)
        if current is not None and current.uid == item.pod.uid:
            del self.model[item.key]

    @rule(event=st.sampled_from([NODE_ADD, ASSIGNED_POD_DELETE]), name=st.sampled_from(NAMES))
    def event(self, event, name):
        node = make_node("n").label({"for": name}).build()
        self.queue.move_all(event, None, node, self.now)

    @rule(name=st.sampled_from(NAMES))
    def activate(self, name):
        pod = self.model.get(f"default/{name}")
        if pod is not None:
            self.queue.activate([pod], self.now)

    @rule(seconds=st.sampled_from([0.0, 0.3, 1.0, 2.5, 11.0, 31.0, 400.0]))
    def wait(self, seconds):
        self.now += seconds
        self.queue.flush(self.now)
        for item in self.queue:
            if item.place in (Place.BACKOFF, Place.ERROR_BACKOFF):
                assert self.queue.backoff.active(item, self.now)

    @invariant()
    def every_pod_is_in_one_place(self):
        self.queue.validate()
        queued = {item.key for item in self.queue}
        flying = {item.key for uid, item in self.in_flight.items() if self._current(uid, item.key)}
        assert queued | flying == set(self.model)
        assert not queued & flying

    def _current(self, uid, key):
        pod = self.model.get(key)
        return pod is not None and pod.uid == uid

    @invariant()
    def backoff_follows_the_series(self):
        for item in self.queue:
            rejections, errors = self.failures[item.pod.uid]
            count = errors or rejections
            if item.place in (Place.BACKOFF, Place.ERROR_BACKOFF) and count:
                series = [1, 2, 4, 8][count - 1] if count <= 4 else 10
                end = self.queue.backoff.expiration(item)
                assert end == (item.timestamp + series) // 1

    @invariant()
    def nothing_is_kept_without_flights(self):
        if not self.in_flight:
            assert self.queue.in_flight_event_count == 0


QueueMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestQueueMachine = QueueMachine.TestCase
