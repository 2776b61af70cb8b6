"""The queue does what a plain one does, whatever happens: see `plain.py` for the rules."""

import random

import pytest

from bayplan.engine.queue import HintIndex, SchedulingQueue
from bayplan.engine.queue.changes import ASSIGNED_POD_DELETE, NODE_ADD, NODE_DELETE
from bayplan.framework.contract.events import (
    RECONFIGURED,
    ActionType,
    ClusterEvent,
    QueueingHint,
    Resource,
    on,
)
from bayplan.framework.contract.status import unresolvable
from bayplan.plugins.priority_sort import priority_key
from bayplan.testing import make_node, make_pod
from tests.engine.queue.helper import (
    BROKEN,
    EVENTS,
    GATES,
    NODE_ADD_ONLY,
    PICKY,
    POD_DELETE,
    FakeNominations,
    gate,
)
from tests.engine.queue.plain import PlainQueue

ROOMY, SECOND_GATE = "Roomy", "SecondGate"
NODE_TAINT = ClusterEvent(Resource.NODE, ActionType.UPDATE_NODE_TAINT)
NODE_LABEL = ClusterEvent(Resource.NODE, ActionType.UPDATE_NODE_LABEL)
HAPPENS = (NODE_ADD, NODE_ADD, ASSIGNED_POD_DELETE, NODE_TAINT, NODE_LABEL, NODE_DELETE,
           RECONFIGURED)  # fmt: skip
PLUGINS = (NODE_ADD_ONLY, POD_DELETE, PICKY, BROKEN, ROOMY, "Nobody")
STATE = ("attempts", "timestamp", "unschedulable_count", "consecutive_errors", "was_flushed",
         "initial_attempt_timestamp", "flush_timestamp", "unschedulable_plugins", "gating_plugin",
         "pending_plugins", "group_size")  # fmt: skip


def roomy(pod, old, new):
    """The same for all pods alike."""
    helps = new is not None and "roomy" in new.metadata.labels
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP


def held(pod):
    return unresolvable("held") if "hold" in pod.metadata.labels else None


def freed(pod, old, new):
    return QueueingHint.QUEUE if "hold" not in new.metadata.labels else QueueingHint.SKIP


LABELLED = (on(Resource.POD, ActionType.UPDATE_POD_LABEL, freed), on(Resource.NODE, ActionType.ADD))
PROFILES = {
    "default-scheduler": EVENTS
    | {ROOMY: (on(Resource.NODE, ActionType.ADD, roomy),), SECOND_GATE: LABELLED},
    "second": {NODE_ADD_ONLY: EVENTS[POD_DELETE], ROOMY: EVENTS[NODE_ADD_ONLY]},
}
GATES_OF = {"default-scheduler": [(GATES, gate), (SECOND_GATE, held)]}


def alike(pod):
    """The signature of a pod: what plugins read of it."""
    return f"{pod.priority} {pod.spec.scheduler_name} {pod.metadata.labels}".encode()


class Both:
    """The queue and the plain one through the same events."""

    def __init__(self, seed, *, early, maximum):
        self.rng = random.Random(seed)
        self.nominations = FakeNominations(), FakeNominations()
        self.queue = SchedulingQueue(
            HintIndex(PROFILES, class_hints={ROOMY}),
            self.nominations[0],
            gates=GATES_OF,
            sort_key=priority_key,
            problem=lambda *told: None,
            max_backoff=maximum,
            pop_from_backoff=early,
        )
        self.plain = PlainQueue(
            PROFILES, self.nominations[1], GATES_OF, early=early, maximum=maximum
        )
        self.now, self.serial = 1000.0, 0
        self.flying = {}  # uid to the pod as either queue knows it
        self.known = {}  # key to the newest object

    def pod(self, name, uid):
        rng = self.rng
        made = make_pod(name).uid(uid).priority(rng.choice([0, 0, 1]))
        made = made.scheduler(rng.choice(["default-scheduler"] * 3 + ["second"]))
        if rng.random() < 0.2:
            made = made.gate("x")
        if rng.random() < 0.2:
            made = made.label(hold="yes")
        if rng.random() < 0.1:
            made = made.nominated("n")
        self.known[f"default/{name}"] = pod = made.build()
        return pod

    def plugins(self):
        rng = self.rng
        sets = [
            rng.sample(PLUGINS, rng.choice([0, 1, 1, 2])),
            rng.sample(PLUGINS, rng.choice([0, 0, 1])),
        ]
        return frozenset(sets[0]), frozenset(sets[1]) - frozenset(sets[0])

    def step(self):
        self.now += self.rng.choice([0.001, 0.001, 0.25, 1.001, 3.0])
        moves = [self.add, self.add, self.update, self.delete, self.pop, self.pop, self.come_back,
                 self.come_back, self.come_back, self.happen, self.happen, self.activate, self.wait,
                 self.refuse, self.refuse, self.take, self.finish]  # fmt: skip
        self.rng.choice(moves)()

    def add(self):
        self.serial += 1
        name = f"p{self.rng.randrange(9)}"
        if f"default/{name}" in self.known:
            return
        pod = self.pod(name, f"u{self.serial}")
        other = f"default/p{self.rng.randrange(9)}"
        for queue in (self.queue, self.plain):
            queue.add(pod, self.now, queue.get(other))

    def update(self):
        if not self.known:
            return
        old = self.known[self.rng.choice(sorted(self.known))]
        uid = old.uid if self.rng.random() < 0.9 else f"{old.uid}-again"
        new = self.pod(old.name, uid)
        if new.spec.scheduler_name == old.spec.scheduler_name:
            for queue in (self.queue, self.plain):
                queue.update(old, new, self.now)
        else:
            self.known[old.key] = old

    def delete(self):
        if self.known:
            pod = self.known.pop(self.rng.choice(sorted(self.known)))
            for queue in (self.queue, self.plain):
                queue.delete(pod)

    def pop(self):
        self._flies(self.queue.pop(), self.plain.pop())

    def take(self):
        if self.known:
            pod = self.known[self.rng.choice(sorted(self.known))]
            mine = self.queue.pop_specific(pod, self.now)
            self._flies(mine, self.plain.pop_specific(pod, self.now))

    def _flies(self, mine, plain):
        assert (mine is None) == (plain is None)
        if mine is not None:
            assert mine.pod is plain.pod
            assert self.state_of(mine) == self.state_of(plain)
            mine.signature = alike(mine.pod)
            self.flying[mine.pod.uid] = mine, plain

    def come_back(self):
        """An attempt failed; perhaps a pod of a group, which perhaps is tried again at once."""
        if not self.flying:
            return
        mine, plain = self.flying.pop(self.rng.choice(sorted(self.flying)))
        if self.known.get(mine.key) is None or mine.key in self.plain.pods:
            self.finish_one(mine.pod.uid)
            return
        mine.pod = plain.pod = self.known[mine.key]
        unschedulable, pending = self.plugins()
        mine.rejected_by(unschedulable, pending)
        plain.unschedulable_plugins, plain.pending_plugins = unschedulable, pending
        size = self.rng.choice([0, 0, 0, 4])
        place = self.queue.add_unschedulable(mine, self.now, size)
        self.plain.add_unschedulable(plain, self.now, size)
        assert place.name == plain.place
        if unschedulable and self.rng.random() < 0.1:
            for queue, item in ((self.queue, mine), (self.plain, plain)):
                queue.retry(item, self.now - 5.0003, self.now)

    def finish(self):
        if self.flying:
            self.finish_one(self.flying.popitem()[0])

    def finish_one(self, uid):
        for queue in (self.queue, self.plain):
            queue.done(uid)

    def refuse(self):
        """Some pods alike are tried and rejected together."""
        if not self.plain.at("ACTIVE", "BACKOFF"):
            return
        template = alike((self.plain.order("ACTIVE") + self.plain.order("BACKOFF"))[0].pod)
        most = self.rng.randint(1, 4)
        mine, plain = (
            queue.pop_while(lambda item: alike(item.pod) == template, most)
            for queue in (self.queue, self.plain)
        )
        assert [item.pod.name for item in mine] == [item.pod.name for item in plain]
        for item in mine:
            item.signature = template
        plugins = frozenset({self.rng.choice(PLUGINS)}), frozenset[str]()
        self.queue.refused(mine, *plugins, self.now)
        self.plain.refused(plain, *plugins, self.now)
        for number, item in enumerate(mine):  # which of equals comes first is not told here
            item.timestamp = plain[number].timestamp = self.now + number / 1e6

    def happen(self):
        rng = self.rng
        event = rng.choice(HAPPENS)
        labels = {"for": f"p{rng.randrange(9)}"} | ({"roomy": "yes"} if rng.random() < 0.5 else {})
        new = None if event is RECONFIGURED else make_node("n").label(labels).build()
        check = rng.choice([None, None, lambda pod: pod.name < "p5"])
        moved = [
            queue.move_all(event, None, new, self.now, check) for queue in (self.queue, self.plain)
        ]
        assert moved[0] == moved[1]

    def activate(self):
        some = [pod for pod in self.known.values() if self.rng.random() < 0.3]
        for queue in (self.queue, self.plain):
            queue.activate(some, self.now)

    def wait(self):
        self.now += self.rng.choice([0.0, 0.5, 1.0, 4.0, 12.0, 29.0, 400.0])
        if self.rng.random() < 0.3:
            self.now = max(self.now, min(self.plain.next_flush(), self.now + 100))
        for queue in (self.queue, self.plain):
            queue.flush(self.now)

    def state_of(self, item):
        place = item.place if isinstance(item.place, str) else item.place.name
        return item.pod.name, place, {name: getattr(item, name) for name in STATE}

    def compare(self):
        queue, plain = self.queue, self.plain
        queue.validate()
        assert {item.key: self.state_of(item) for item in queue} == {
            key: self.state_of(item) for key, item in plain.pods.items()
        }
        order = [item.pod.name for item in plain.order("ACTIVE")]
        assert order == [item.pod.name for item in queue.upcoming(len(queue))]
        early = plain.at("BACKOFF") if plain.early else []
        assert bool(order or early) == queue.ready
        assert plain.next_flush() == queue.next_flush()
        assert plain.pending() == queue.pending()
        assert plain.in_flight_events() == queue.in_flight_events()
        assert len(plain.flights) == queue.in_flight_count
        assert dict(plain.incoming) == {key: n for key, n in queue.incoming.items() if n}
        assert self.nominations[1].nodes == self.nominations[0].nodes
        counts = {}
        for item in plain.pods.values():
            for plugin in item.rejectors:
                key = plugin, item.pod.spec.scheduler_name
                counts[key] = counts.get(key, 0) + 1
        assert counts == queue.unschedulable_by_plugin()


@pytest.mark.parametrize(
    ("early", "maximum"), [(True, 10.0), (False, 10.0), (True, 0.0), (True, 2.0)]
)
def test_the_queue_does_what_a_plain_one_does(early, maximum):
    for seed in range(12):
        both = Both(seed, early=early, maximum=maximum)
        for step in range(120):
            both.step()
            try:
                both.compare()
            except AssertionError as problem:
                raise AssertionError(f"seed {seed}, step {step}") from problem
