"""One simulated pod: its containers in their order, from the first start to the last end."""

from __future__ import annotations

from collections.abc import Callable

from bayplan.controllers.kubelet.behaviour import Told
from bayplan.controllers.kubelet.container import Container
from bayplan.controllers.kubelet.files import Volume
from bayplan.controllers.kubelet.inputs import Inputs
from bayplan.controllers.kubelet.processes import KILLED, TERMINATED, Log, Process
from bayplan.controllers.kubelet.programs import FOREVER
from bayplan.controllers.kubelet.syntax import NotUnderstoodError
from bayplan.controllers.objects import Json, Object, seconds_of, timestamp

ROUNDING = 1e-5
Tell = Callable[[str, str, str, str], None]
"""Type, reason and text of an event, and the path of the container that it is about."""


class Wall:
    """What is added to a moment to make it a time of day.

    An object of its own, so that containers need not know their pod: the two would be a cycle,
    which stays in memory until the garbage collector comes.
    """

    __slots__ = ("offset",)

    def __init__(self, offset: float) -> None:
        self.offset = offset

    def stamp(self, moment: float) -> str:
        return timestamp(moment + self.offset)


class PodRun:
    """What happens in a pod. `advance` brings it to a moment and says when to come again."""

    def __init__(self, pod: Object, told: Told, stop: float, tell: Tell, wall: float) -> None:
        """`wall`: what is added to a moment to make it a time of day."""
        self.pod = pod
        self._wall = Wall(wall)
        self.told = told
        self.inputs: Inputs | None = None
        self.hosts: dict[tuple[str, str], Volume] = {}
        self.began = 0.0
        self.started_at = ""
        self.seen = 0.0  # when the pod was found bound here
        self.tries = 0
        self.address = ""
        self.written: Json = {}
        self.saying: Json = {}  # what is being written
        self.since: dict[str, tuple[str, str]] = {}  # condition to its value and moment
        self._stop = told.seconds("stop-seconds")
        self._stop = stop if self._stop is None else self._stop
        self.tell = tell
        self._stopping = 0.0
        self._stops: dict[str, float] = {}
        self.failed = ""  # why the pod failed as a whole
        self.text = ""
        self.containers: list[Container] = []
        self._of: dict[tuple[str, ...], list[Container]] = {}
        for one in pod.spec.get("initContainers") or []:
            role = "sidecar" if one.get("restartPolicy") == "Always" else "init"
            self.containers.append(Container(one, role, self._wall.stamp))
        self.containers += [
            Container(one, "main", self._wall.stamp) for one in pod.spec.get("containers") or []
        ]
        first = any(c.role in ("init", "sidecar") for c in self.containers)
        for container in self.containers:
            container.reason = "PodInitializing" if first else "ContainerCreating"

    @property
    def wall(self) -> float:
        return self._wall.offset

    @wall.setter
    def wall(self, offset: float) -> None:
        self._wall.offset = offset

    def stamp(self, moment: float) -> str:
        return self._wall.stamp(moment)

    def of(self, *roles: str) -> list[Container]:
        """The containers of these roles, in the order of the spec; not to be changed."""
        found = self._of.get(roles)
        if found is None:
            found = self._of[roles] = [c for c in self.containers if c.role in roles]
        return found

    @property
    def initialized(self) -> bool:
        first = self.of("init", "sidecar")
        return (
            not first
            or all(
                (c.state == "ended" and not c.code) if c.role == "init" else c.is_started
                for c in first
            )
            or any(c.started for c in self.of("main"))
        )

    def begin(self, now: float) -> None:
        """Note that the pod has come to its node, once."""
        if not self.started_at:
            self.began = now
            self.started_at = self.pod.status.get("startTime") or self.stamp(now)

    @property
    def policy(self) -> str:
        return str(self.pod.spec.get("restartPolicy", "Always"))

    def update(self, pod: Object) -> None:
        """Take over a changed spec: images, resources, ephemeral containers."""
        same, self.pod = pod.spec is self.pod.spec, pod
        if same:
            return
        given = {c.get("name"): c for c in pod.spec.get("containers") or []}
        given |= {c.get("name"): c for c in pod.spec.get("initContainers") or []}
        for container in self.containers:
            container.spec = given.get(container.name, container.spec)
        known = {c.name for c in self.containers}
        for one in pod.spec.get("ephemeralContainers") or []:
            if one.get("name") not in known:
                self.containers.append(Container(one, "ephemeral", self._wall.stamp))
                self._of.clear()

    def hears_itself(self, pod: Object) -> bool:
        """Whether a changed pod shows only what this kubelet wrote; then it is taken over."""
        new, old, said = pod.metadata, self.pod.metadata, self.saying
        if not said or pod.spec.get("readinessGates"):
            return False
        if pod.spec is not self.pod.spec and pod.spec != self.pod.spec:
            return False
        same = (
            new.generation == old.generation
            and new.deletion_timestamp == old.deletion_timestamp
            and new.finalizers == old.finalizers
            and new.annotations == old.annotations
            and new.labels == old.labels
        )
        if not same or any(pod.status.get(k) != v for k, v in said.items() if k != "conditions"):
            return False
        shown = {item.get("type"): item for item in pod.status.get("conditions") or ()}
        if any(shown.get(item["type"]) != item for item in said.get("conditions") or ()):
            return False
        self.pod = pod
        return True

    # -- going on

    def advance(self, now: float) -> float:
        """Go on until now; return the moment of the next change."""
        if self.finished:
            return FOREVER
        due = FOREVER
        for container in self.containers:
            due = min(due, container.advance(now + ROUNDING))
            if (probe := container.failed_probe) and not self._stopping:
                self._unhealthy(container, probe, now)
        if self._stopping:
            return min(due, self._advance_stop(now))
        limit = self.pod.spec.get("activeDeadlineSeconds")
        if limit is not None and self.started_at:
            end = self.began + float(limit)
            if end <= now + ROUNDING:
                self._exceed(now)
                return FOREVER
            due = min(due, end)
        due = min(due, self._advance_first(now))
        if self.initialized:
            for container in self.of("main", "ephemeral"):
                due = min(due, self._keep(container, now))
        return due

    def _advance_first(self, now: float) -> float:
        """Run init containers one after the other, and start sidecars in between."""
        if any(c.started for c in self.of("main")):
            return min((self._keep(c, now) for c in self.of("sidecar")), default=FOREVER)
        due = FOREVER
        for container in self.of("init", "sidecar"):
            due = min(due, self._keep(container, now))
            if container.role == "init" and not (container.state == "ended" and not container.code):
                if container.state == "ended" and self.policy == "Never":
                    self.failed, self.text = "", ""
                return due
            if container.role == "sidecar" and not container.is_started:
                return due
        return due

    def _keep(self, container: Container, now: float) -> float:
        """Start a container that waits, again and again as the policy says."""
        if container.state == "running":
            return FOREVER
        if container.state == "waiting" and not container.retry:
            return self._start(container, now)
        if container.state == "ended" and not self._restarts(container):
            return FOREVER
        meta = self.pod.metadata
        before = container.state
        when = container.wait_to_restart(now, f"{meta.name}_{meta.namespace}({meta.uid})")
        if container.state == "waiting" and before == "ended":
            text = f"Back-off restarting failed container {container.name} in pod {meta.name}"
            self.tell("Warning", "BackOff", f"{text}_{meta.namespace}({meta.uid})", container.path)
        if when > now + ROUNDING:
            return when
        container.restart()
        return self._start(container, now)

    def _run(self, container: Container, since: float) -> None:
        assert self.inputs is not None
        owner = self.pod.metadata.controller
        job = owner is not None and owner.kind == "Job"
        container.start(since, self.inputs, self.told, self.hosts, job)
        assert container.files is not None
        container.files.wall = self.wall

    def _start(self, container: Container, now: float) -> float:
        self._run(container, now)
        there = "already present on machine and can be accessed by the pod"
        image = f'Container image "{container.spec.get("image", "")}" {there}'
        self.tell("Normal", "Pulled", image, container.path)
        self.tell("Normal", "Created", "Container created", container.path)
        self.tell("Normal", "Started", "Container started", container.path)
        due = container.advance(now + ROUNDING)
        return now if container.state == "ended" else due

    def _restarts(self, container: Container) -> bool:
        if container.role == "ephemeral" or self._stopping:
            return False
        if container.role == "sidecar":
            return True
        policy = container.spec.get("restartPolicy") or self.policy
        if container.role == "init":
            return bool(container.code) and policy != "Never"
        return bool(policy == "Always" or (policy == "OnFailure" and container.code))

    def _unhealthy(self, container: Container, probe: str, now: float) -> None:
        title = probe.capitalize()
        self.tell("Warning", "Unhealthy", f"{title} probe failed", container.path)
        text = f"Container {container.name} failed {probe} probe, will be restarted"
        self.tell("Normal", "Killing", text, container.path)
        container.kill(now)

    def _exceed(self, now: float) -> None:
        self.failed = "DeadlineExceeded"
        self.text = "Pod was active on the node longer than the specified deadline"
        self.tell("Normal", "DeadlineExceeded", self.text, "")
        for container in self.containers:
            container.kill(now)

    # -- ending

    def stop(self, now: float, grace: float) -> None:
        """Begin to end: hooks first, then the containers have their time, then none."""
        if self._stopping:
            self._stopping = min(self._stopping, now + grace)
            return
        self._stopping = now + grace
        for container in self.containers:
            if container.state == "running":
                text = f"Stopping container {container.name}"
                self.tell("Normal", "Killing", text, container.path)
                self._stops[container.name] = now + self._hook(container, now)

    def _hook(self, container: Container, now: float) -> float:
        """Return how long a container's preStop hook takes."""
        hook: Json = (container.spec.get("lifecycle") or {}).get("preStop") or {}
        if "sleep" in hook:
            return float(hook["sleep"].get("seconds") or 0)
        command = (hook.get("exec") or {}).get("command")
        if not command or container.files is None:
            return 0.0
        try:
            process = Process.script(now, command, container.variables, container.files, Log())
        except NotUnderstoodError:
            return 0.0
        process.advance(self._stopping)
        return (process.ended if process.code is not None else self._stopping) - now

    def _advance_stop(self, now: float) -> float:
        due = self._stopping
        for container in self.of("main", "ephemeral", "init", "sidecar"):
            if container.state != "running":
                continue
            when = self._stops.get(container.name, now)
            if self._stopping <= now + ROUNDING:
                container.kill(now, KILLED)
            elif when < 0:  # it has been told to end and does so in its own time
                due = min(due, container.advance(now))
            elif when <= now + ROUNDING:
                due = min(due, self._terminate(container, now))
            else:
                due = min(due, when)
        return due if any(c.state == "running" for c in self.containers) else now

    def _terminate(self, container: Container, now: float) -> float:
        process = container.process
        assert process is not None
        if process.terminate(now):
            self._stops[container.name] = -1.0
            return container.advance(now)
        assert self._stop is not None
        if not self._stop:
            container.kill(now, TERMINATED if process.is_script else 0)
            return now
        end = now + self._stop
        code = TERMINATED if process.is_script else 0
        container.process = Process.fixed(now, self._stop, code)
        self._stops[container.name] = -1.0
        return end

    @property
    def stopped(self) -> bool:
        """Whether nothing runs any more in a pod that is to end."""
        return bool(self._stopping) and all(c.state != "running" for c in self.containers)

    # -- what it looks like

    @property
    def phase(self) -> str:
        mains = self.of("main")
        if self.failed:
            return "Failed"
        if any(c.state == "ended" and c.code for c in self.of("init")) and (
            self.policy == "Never" or self.stopped
        ):
            return "Failed"
        done = [c for c in mains if c.state == "ended" and not (self._restarts(c))]
        if self.initialized and mains and len(done) == len(mains):
            return "Failed" if any(c.code for c in mains) else "Succeeded"
        if self.stopped:
            return "Failed" if any(c.code for c in self.containers) else "Succeeded"
        return "Running" if self.initialized and any(c.started for c in mains) else "Pending"

    @property
    def finished(self) -> bool:
        return bool(self.failed) or (
            bool(self.started_at) and self.phase in ("Succeeded", "Failed")
        )

    def resume(self, status: Json) -> None:
        """Take over what an earlier process wrote of this pod."""
        self.started_at = status.get("startTime", "")
        self.began = seconds_of(self.started_at) - self.wall if self.started_at else self.began
        self.address = status.get("podIP", "")
        running: Json = {}
        for field in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"):
            running |= {item.get("name"): item for item in status.get(field) or []}
        for container in self.containers:
            found: Json = running.get(container.name) or {}
            container.resume(found)
            if started := ((found.get("state") or {}).get("running") or {}).get("startedAt"):
                identity = container.id
                self._run(container, seconds_of(started) - self.wall)
                container.id = identity or container.id
