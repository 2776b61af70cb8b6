"""A scheduler with all its plugins, and a world that does what it says."""

from __future__ import annotations

from msgspec.structs import replace

from bayplan.api import Condition, Node, Object, Pod
from bayplan.config import from_data
from bayplan.engine.loop import (
    Bind,
    BindDone,
    CallApi,
    CallsDone,
    Evict,
    Evicted,
    PatchPod,
    RecordEvent,
    Scheduler,
)
from bayplan.plugins import in_tree_registry

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def config_of(**fields):
    """A configuration; plugins that are not registered (yet) are left out."""
    return from_data({**HEAD, **fields})


class World:
    """An API server in miniature: keeps objects, carries actions out, shows changes."""

    def __init__(self, *objects: Object, config=None, registry=None, **options) -> None:
        self.now = 1000.0
        self.scheduler = Scheduler(
            config or config_of(),
            {**in_tree_registry(), **(registry or {})},
            now=self.now,
            **options,
        )
        self.objects: dict[tuple[str, str], Object] = {}
        self.events: list[RecordEvent] = []
        self.actions: list[object] = []
        self.version = 0
        self.fail_binds: list[str] = []
        """Errors for the next binds; an empty text lets one pass."""
        self.silent = False
        """Whether binds are carried out but not shown yet."""
        self.limit = 1
        """How many pods a step of `run` may try."""
        self.show(*objects)

    # --- objects ---

    def show(self, *objects: Object) -> None:
        for item in objects:
            item = getattr(item, "build", lambda item=item: item)()
            self.version += 1
            meta = replace(item.metadata, resource_version=str(self.version))
            item = replace(item, metadata=meta)
            self.objects[item.KIND, item.key] = item
            self.scheduler.put(item, self.now)
        self.scheduler.validate()

    def gone(self, kind: str, key: str) -> None:
        self.scheduler.delete(self.objects.pop((kind, key)), self.now)
        self.scheduler.validate()

    def pod(self, name: str, namespace: str = "default") -> Pod:
        pod = self.objects["Pod", f"{namespace}/{name}"]
        assert isinstance(pod, Pod)
        return pod

    def node_of(self, name: str) -> str:
        return self.pod(name).spec.node_name

    def condition(self, name: str) -> Condition | None:
        conditions = self.pod(name).status.conditions
        return next((c for c in conditions if c.type == "PodScheduled"), None)

    def change_node(self, name: str, **spec) -> None:
        node = self.objects["Node", name]
        assert isinstance(node, Node)
        self.show(replace(node, spec=replace(node.spec, **spec)))

    # --- running ---

    def step(self, limit: int = 1) -> list[object]:
        actions = self.scheduler.step(self.now, limit)
        self.scheduler.validate()
        self.actions += actions
        return actions

    def carry_out(self, actions: list[object]) -> None:
        for action in actions:
            self._carry_out(action)

    def run(self, steps: int = 200) -> None:
        """Step and carry out until nothing is left to do right now."""
        for _ in range(steps):
            actions = self.step(self.limit)
            self.carry_out(actions)
            if not actions and not self.scheduler.ready:
                return
        raise AssertionError("the scheduler does not come to rest")

    def wait(self, seconds: float) -> None:
        """Let time pass, waking the scheduler when it asks for it."""
        end = self.now + seconds
        while (wake := self.scheduler.next_wake()) <= end:
            self.now = max(self.now, wake)
            self.run()
        self.now = end
        self.run()

    def _carry_out(self, action: object) -> None:
        if isinstance(action, Bind):
            error = self.fail_binds.pop(0) if self.fail_binds else ""
            uid = action.pod.uid
            if not error:
                error = self._bind(action)
            self.report(BindDone(uid, error))
        elif isinstance(action, CallApi):
            self.report(CallsDone(action.work))
        elif isinstance(action, Evict):
            if ("Pod", action.victim.key) in self.objects:
                self.gone("Pod", action.victim.key)
            self.report(Evicted(action.preemptor.uid, action.victim.uid))
        elif isinstance(action, PatchPod):
            self._patch(action)
        elif isinstance(action, RecordEvent):
            self.events.append(action)

    def report(self, result: object) -> None:
        self.scheduler.handle(result, self.now)
        self.scheduler.validate()

    def _bind(self, action: Bind) -> str:
        pod = self.objects.get(("Pod", action.pod.key))
        if pod is None or pod.uid != action.pod.uid:
            return f'pods "{action.pod.name}" not found'
        assert isinstance(pod, Pod)
        if pod.spec.node_name:
            return f'pod {pod.name} is already assigned to node "{pod.spec.node_name}"'
        status = replace(pod.status, nominated_node_name="")
        bound = replace(pod, spec=replace(pod.spec, node_name=action.node_name), status=status)
        if self.silent:
            self.objects["Pod", pod.key] = bound
        else:
            self.show(bound)
        return ""

    def _patch(self, action: PatchPod) -> None:
        pod = self.objects.get(("Pod", action.pod.key))
        if not isinstance(pod, Pod) or pod.uid != action.pod.uid:
            return
        status = pod.status
        if action.condition is not None:
            kept = tuple(c for c in status.conditions if c.type != action.condition.type)
            status = replace(status, conditions=(*kept, action.condition))
        if action.nominated_node_name is not None:
            status = replace(status, nominated_node_name=action.nominated_node_name)
        self.show(replace(pod, status=status))

    def notes(self) -> list[str]:
        return [event.note for event in self.events]


def kinds(actions, kind):
    return [action for action in actions if isinstance(action, kind)]
