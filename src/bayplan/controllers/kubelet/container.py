"""One container of a simulated pod: it waits, runs, ends, and is started again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from zlib import crc32

from bayplan.controllers.kubelet.behaviour import Told
from bayplan.controllers.kubelet.files import Files, Volume
from bayplan.controllers.kubelet.inputs import Inputs, MissingError, command
from bayplan.controllers.kubelet.probes import Probe, probes_of
from bayplan.controllers.kubelet.processes import KILLED, Log, Process
from bayplan.controllers.kubelet.programs import FOREVER
from bayplan.controllers.kubelet.syntax import NotUnderstoodError
from bayplan.controllers.objects import Json

BACK_OFF_FIRST, BACK_OFF_LAST, BACK_OFF_FORGET = 10.0, 300.0, 600.0
MESSAGE_PATH = "/dev/termination-log"
MAX_MESSAGE = 4096
# Files of images that are known, and where a web server among them looks for its pages.
IMAGE_FILES: dict[str, tuple[Volume, str]] = {
    "httpd": (
        {
            "usr/local/apache2/htdocs/": b"",
            "usr/local/apache2/htdocs/index.html": b"<html><body>It works!</body></html>\n",
        },
        "/usr/local/apache2/htdocs",
    ),
    "agnhost test-webserver": ({"localhost.crt": b"", "localhost.key": b""}, "/"),
}


def image_name(image: str) -> str:
    """Return the last part of an image's name, without tag and digest."""
    return image.rpartition("/")[2].partition("@")[0].partition(":")[0]


_LISTS = {
    "init": "initContainers",
    "sidecar": "initContainers",
    "main": "containers",
    "ephemeral": "ephemeralContainers",
}


class Container:
    """What is known of a container, by its spec and what has happened to it."""

    __slots__ = (
        "_back_off",
        "_began",
        "_over",
        "_root",
        "_stamp",
        "before",
        "ended",
        "files",
        "id",
        "last",
        "log",
        "message",
        "probes",
        "process",
        "ready",
        "reason",
        "restarts",
        "retry",
        "role",
        "spec",
        "started",
        "state",
        "variables",
    )

    def __init__(self, spec: Json, role: str, stamp: Callable[[float], str]) -> None:
        """`role`: init, sidecar, main or ephemeral; `stamp` writes a moment as the status does."""
        self._stamp = stamp
        self._began = self._over = ""  # the moments of start and end, as the status has them
        self.spec = spec
        self.role = role
        self.state = "waiting"
        self.reason = "ContainerCreating"
        self.message = ""
        self.id = ""
        self.started = self.ended = 0.0
        self.restarts = 0
        self.ready = False
        self.last: Json = {}
        self.retry = 0.0
        self.process: Process | None = None
        self.log: Log | None = None
        self.before: Log | None = None  # of the run before this one
        self.files: Files | None = None
        self.variables: Mapping[str, str] = {}
        self.probes: dict[str, Probe] = {}
        self._back_off = 0.0
        self._root = ""

    @property
    def name(self) -> str:
        return str(self.spec.get("name", ""))

    @property
    def path(self) -> str:
        """Where it stands in the pod, as events say it."""
        return f"spec.{_LISTS[self.role]}{{{self.name}}}"

    @property
    def code(self) -> int:
        return self.process.code if self.process is not None and self.process.code else 0

    # -- starting

    def start(
        self,
        now: float,
        inputs: Inputs,
        told: Told,
        hosts: dict[tuple[str, str], Volume],
        job: bool,
    ) -> None:
        """Begin to run; `job`: a command that nobody understands ends after a second."""
        image = image_name(self.spec.get("image", ""))
        first = (self.spec.get("args") or [""])[0]
        own, self._root = IMAGE_FILES.get(f"{image} {first}".strip(), ({}, ""))
        if self.files is None or self.state == "ended":
            self.variables = inputs.environment(self.spec)
            self.files = inputs.files(self.spec, self.variables, hosts, dict(own))
        self.state, self.reason, self.message = "running", "", ""
        self.started = now
        self._began = self._stamp(now)
        self.id = f"simulated://{crc32(f'{self.name}{self._began}{self.restarts}'.encode()):08x}"
        self.log = Log()
        self.process = self._process(now, told, job)
        self.probes = {}
        if self.role in ("main", "sidecar"):
            self.probes = probes_of(self.spec, told, now, self.files, self.variables, self._root)

    def _process(self, now: float, told: Told, job: bool) -> Process:
        seconds, code = told.seconds("run-seconds"), told.number("exit-code")
        if self.role == "main" and (seconds is not None or code is not None):
            unsaid = 1.0 if job else FOREVER
            return Process.fixed(now, unsaid if seconds is None else seconds, code or 0)
        try:
            words = command(self.spec, self.variables)
        except MissingError:  # too long, in an ephemeral container
            words = []
        assert self.files is not None
        assert self.log is not None
        if words:
            try:
                return Process.script(now, words, self.variables, self.files, self.log)
            except NotUnderstoodError:
                pass
        if image_name(self.spec.get("image", "")) == "pause":
            return Process.fixed(now, FOREVER, 0)
        if self.role == "init":
            return Process.fixed(now, 0.0, 0)
        return Process.fixed(now, 1.0 if job and self.role == "main" else FOREVER, 0)

    # -- running

    def advance(self, now: float) -> float:
        """Go on until now; return when something happens next."""
        if self.state != "running" or self.process is None:
            return FOREVER
        due = self.process.advance(now)
        if self.process.code is not None:
            self.finish(self.process.ended)
            return now
        return min(due, self._advance_probes(now))

    def _advance_probes(self, now: float) -> float:
        startup = self.probes.get("startup")
        due = FOREVER
        if startup is not None and startup.passed is not True:
            due = startup.advance(now)
            if startup.passed is None:
                self.ready = False
                return due
        for name in ("readiness", "liveness"):
            if name in self.probes and (startup is None or startup.passed):
                due = min(due, self.probes[name].advance(now))
        readiness = self.probes.get("readiness")
        self.ready = readiness is None or readiness.passed is True
        return due

    @property
    def is_started(self) -> bool:
        """Whether it runs and its startup probe, if it has one, has passed."""
        startup = self.probes.get("startup")
        return self.state == "running" and (startup is None or startup.passed is True)

    @property
    def failed_probe(self) -> str:
        """The probe that demands that the container is killed."""
        for name in ("startup", "liveness"):
            if name in self.probes and self.probes[name].passed is False:
                return name
        return ""

    def kill(self, now: float, code: int = KILLED) -> None:
        if self.state == "running" and self.process is not None:
            self.process.kill(now, code)
            self.finish(now)

    def finish(self, at: float) -> None:
        """Note that the process has ended."""
        self.state, self.ready = "ended", False
        self.ended = at
        self._over = self._stamp(at)
        self.reason = "Error" if self.code else "Completed"
        self.message = self._last_words()
        self.probes = {}
        if self.log is not None:
            self.log.close()

    def _last_words(self) -> str:
        path = self.spec.get("terminationMessagePath") or MESSAGE_PATH
        if self.files is not None and self.files.is_file(path):
            text = self.files.read(path)[:MAX_MESSAGE].decode(errors="replace")
            if text:
                return text
        policy = self.spec.get("terminationMessagePolicy")
        if policy == "FallbackToLogsOnError" and self.code and self.log is not None:
            lines = b"".join(line for _, line in self.log.lines)
            return lines[-2048:].decode(errors="replace")
        return ""

    def wait_to_restart(self, now: float, pod: str) -> float:
        """Plan the next start; return its moment. The first comes at once, as upstream."""
        if self.retry == 0.0:
            if self.ended - self.started >= BACK_OFF_FORGET:
                self._back_off = 0.0
            self.retry = self.ended + self._back_off
            if self._back_off:
                self.last = self.terminated()
                self.state, self.reason = "waiting", "CrashLoopBackOff"
                self.message = (
                    f"back-off {_duration(self._back_off)} restarting failed "
                    f"container={self.name} pod={pod}"
                )
            self._back_off = min(max(self._back_off * 2, BACK_OFF_FIRST), BACK_OFF_LAST)
        return self.retry

    def restart(self) -> None:
        if self.state == "ended":
            self.last = self.terminated()
        self.restarts += 1
        self.before = self.log
        self.retry = 0.0

    # -- status

    def terminated(self) -> Json:
        found: Json = {
            "exitCode": self.code,
            "reason": self.reason,
            "startedAt": self._began,
            "finishedAt": self._over,
            "containerID": self.id,
        }
        if self.message:
            found["message"] = self.message
        return found

    def status(self) -> Json:
        image = self.spec.get("image", "")
        state: Json
        if self.state == "running":
            state = {"running": {"startedAt": self._began}}
        elif self.state == "ended":
            state = {"terminated": self.terminated()}
        else:
            state = {"waiting": {"reason": self.reason}}
            if self.message:
                state["waiting"]["message"] = self.message
        found: Json = {
            "name": self.name,
            "image": image,
            "imageID": f"simulated://{image}" if self.id else "",
            "ready": self.ready
            or (self.role == "init" and self.state == "ended" and not self.code),
            "started": self.is_started,
            "restartCount": self.restarts,
            "state": state,
            "lastState": {"terminated": self.last} if self.last else {},
        }
        if self.id:
            found["containerID"] = self.id
        if resources := self.spec.get("resources"):
            found["resources"] = resources
            if requests := resources.get("requests"):
                found["allocatedResources"] = requests
        return found

    def resume(self, status: Json) -> None:
        """Take over what an earlier process wrote of this container."""
        self.restarts = int(status.get("restartCount") or 0)
        self.id = status.get("containerID", "")
        self.last = (status.get("lastState") or {}).get("terminated") or {}
        ended = (status.get("state") or {}).get("terminated")
        if ended:
            self.state, self.reason = "ended", ended.get("reason", "")
            self.message = ended.get("message", "")
            self._began, self._over = ended.get("startedAt", ""), ended.get("finishedAt", "")
            self.process = Process.fixed(0.0, 0.0, int(ended.get("exitCode") or 0))
            self.process.advance(0.0)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
