"""Whatever happens, in whatever order: invariants hold, no pod is bound twice, none is forgotten.

Actions are carried out late and in any order, binds fail or report an error although they worked,
events come twice or late, nodes and pods come and go. In the end a large node is added and every
pod that may be scheduled must find its place.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from bayplan.engine.loop import Bind, BindDone, Evict, Evicted
from bayplan.testing import make_node, make_pod
from tests.engine.loop.helper import World, config_of

NAMES = [f"p{i}" for i in range(8)]
NODES = ["a", "b", "c"]
POLICIES = ["work", "fail", "lie", "lose"]


class SchedulerMachine(RuleBasedStateMachine):
    """A cluster that misbehaves."""

    def __init__(self):
        super().__init__()
        self.world = World(make_node("a").capacity(cpu="2", memory="8Gi", pods="5"))
        self.pending = []
        self.bound = set()
        self.serial = 0

    @rule(
        name=st.sampled_from(NAMES),
        cpu=st.sampled_from(["500m", "1", "2", "3"]),
        priority=st.sampled_from([0, 0, 10, 20]),
        gated=st.booleans(),
        mine=st.sampled_from([True, True, True, False]),
    )
    def make_pod(self, name, cpu, priority, gated, mine):
        if ("Pod", f"default/{name}") in self.world.objects:
            return
        self.serial += 1
        builder = make_pod(name).uid(f"u{self.serial}").req(cpu=cpu).priority(priority)
        if gated:
            builder = builder.gate("g")
        if not mine:
            builder = builder.scheduler("other")
        self.world.show(builder)

    @rule(name=st.sampled_from(NAMES))
    def touch_pod(self, name):
        self._change(name, lambda body: body["metadata"].update(labels={"v": str(self.serial)}))

    @rule(name=st.sampled_from(NAMES))
    def open_gate(self, name):
        self._change(name, lambda body: body["spec"].pop("schedulingGates", None))

    @rule(name=st.sampled_from(NAMES))
    def terminate_pod(self, name):
        time = "2026-01-01T00:00:00Z"
        self._change(name, lambda body: body["metadata"].update(deletionTimestamp=time))

    def _change(self, name, change):
        import msgspec

        from bayplan.api import Pod

        pod = self.world.objects.get(("Pod", f"default/{name}"))
        if pod is None:
            return
        body = msgspec.to_builtins(pod)
        change(body)
        self.serial += 1
        self.world.show(msgspec.convert(body, Pod))

    @rule(name=st.sampled_from(NAMES))
    def delete_pod(self, name):
        if ("Pod", f"default/{name}") in self.world.objects:
            self.world.gone("Pod", f"default/{name}")

    @rule(name=st.sampled_from(NODES), cpu=st.sampled_from(["1", "2", "4"]), bad=st.booleans())
    def show_node(self, name, cpu, bad):
        builder = make_node(name).capacity(cpu=cpu, memory="8Gi", pods="5")
        self.world.show(builder.cordon() if bad else builder)

    @rule(name=st.sampled_from(NODES))
    def delete_node(self, name):
        if ("Node", name) in self.world.objects:
            self.world.gone("Node", name)

    @rule(name=st.sampled_from(NAMES))
    def bind_elsewhere(self, name):
        pod = self.world.objects.get(("Pod", f"default/{name}"))
        if pod is not None and not pod.spec.node_name:
            self._change(name, lambda body: body["spec"].update(nodeName="a"))

    @rule(name=st.sampled_from(NAMES))
    def show_again(self, name):
        pod = self.world.objects.get(("Pod", f"default/{name}"))
        if pod is not None:
            self.world.scheduler.put(pod, self.world.now)

    @rule(limit=st.integers(0, 3))
    def step(self, limit):
        for action in self.world.step(limit):
            if isinstance(action, Bind):
                uid = action.pod.uid
                waiting = [a for a in self.pending if isinstance(a, Bind) and a.pod.uid == uid]
                assert not waiting, f"{action.pod.key} is bound a second time"
            self.pending.append(action)

    @precondition(lambda self: self.pending)
    @rule(data=st.data(), policy=st.sampled_from(POLICIES))
    def carry_out(self, data, policy):
        index = data.draw(st.integers(0, len(self.pending) - 1))
        self._carry_out(self.pending.pop(index), policy)

    def _carry_out(self, action, policy):
        world = self.world
        if isinstance(action, Bind):
            error = "it failed" if policy == "fail" else self._bind(action)
            if policy == "lie":
                error = "timeout"
            world.scheduler.handle(BindDone(action.pod.uid, error), world.now)
        elif isinstance(action, Evict) and policy in ("fail", "lose"):
            done = Evicted(action.preemptor.uid, action.victim.uid, "it failed")
            world.scheduler.handle(done, world.now)
        elif policy == "lose":
            return  # a patch or an event that did not get through
        else:
            world.carry_out([action])

    def _bind(self, action):
        error = self.world._bind(action)
        if not error:
            assert action.pod.uid not in self.bound, f"{action.pod.key} was bound twice"
            self.bound.add(action.pod.uid)
        return error

    @rule(seconds=st.sampled_from([0.5, 1.0, 3.0, 12.0, 350.0]))
    def wait(self, seconds):
        self.world.now += seconds

    @rule()
    def reconfigure(self):
        self.world.scheduler.reconfigure(config_of(podInitialBackoffSeconds=2), self.world.now)

    @invariant()
    def everything_is_consistent(self):
        self.world.scheduler.validate()

    def teardown(self):
        """With room for all, every pod that may be scheduled is."""
        self.world.show(make_node("big").capacity(cpu="100", memory="800Gi", pods="500"))
        for _ in range(60):
            self.step(20)
            while self.pending:
                self._carry_out(self.pending.pop(0), "work")
            self.world.now += 11
        for (kind, key), pod in self.world.objects.items():
            if kind != "Pod" or pod.terminating or pod.spec.scheduling_gates:
                continue
            if pod.spec.scheduler_name == "default-scheduler":
                place = self.world.scheduler.place_of(key)
                assert pod.spec.node_name, f"{key} was not placed: {place}"
        assert len(self.world.scheduler.bindings) == 0
        assert self.world.scheduler.queue.in_flight_count == 0
        assert self.world.scheduler.cache.assumed_count == 0


SchedulerMachine.TestCase.settings = settings(
    max_examples=40, stateful_step_count=40, deadline=None
)
TestSchedulerMachine = SchedulerMachine.TestCase
