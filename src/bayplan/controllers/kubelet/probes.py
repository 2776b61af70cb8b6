"""The probes of a simulated container: when they are asked and what they answer.

An answer is told (see `behaviour`), or worked out: a command that the simulation understands is
run, a page of an image whose files are known is looked for. Everything else answers well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bayplan.controllers.kubelet.behaviour import Told
from bayplan.controllers.kubelet.files import Files
from bayplan.controllers.kubelet.processes import Log, Process
from bayplan.controllers.kubelet.programs import FOREVER
from bayplan.controllers.kubelet.syntax import NotUnderstoodError
from bayplan.controllers.objects import Json

WEB = 80
PROBES = {"startup": "startupProbe", "readiness": "readinessProbe", "liveness": "livenessProbe"}


class Probe:
    """One probe of one running container.

    `passed` is None until enough answers agree. One that always answers well is asked only once.
    """

    __slots__ = ("_ask", "_failures", "_next", "_spec", "_successes", "passed")

    def __init__(self, spec: Json, started: float, ask: Callable[[float], bool] | None) -> None:
        self._spec = spec
        self._ask = ask
        self._next = started + float(spec.get("initialDelaySeconds") or 0)
        self._failures = self._successes = 0
        self.passed: bool | None = None

    def advance(self, now: float) -> float:
        """Ask as often as it is time; return when to ask next."""
        while self._next <= now:
            good = self._ask(self._next) if self._ask is not None else True
            self._count(good)
            if self._ask is None:
                self._next = FOREVER
                self.passed = True
            else:
                period = float(self._spec.get("periodSeconds") or 10)
                self._next = max(self._next + period, now - period)
        return self._next

    def _count(self, good: bool) -> None:
        self._successes = self._successes + 1 if good else 0
        self._failures = 0 if good else self._failures + 1
        if self._successes >= int(self._spec.get("successThreshold") or 1):
            self.passed = True
        elif self._failures >= int(self._spec.get("failureThreshold") or 3):
            self.passed = False


def probes_of(
    container: Json,
    told: Told,
    started: float,
    files: Files,
    variables: Mapping[str, str],
    root: str,
) -> dict[str, Probe]:
    """Return the probes of a container that starts now, those that it has and those told of."""
    found: dict[str, Probe] = {}
    for name, field in PROBES.items():
        spec: Json | None = container.get(field)
        if spec is None and name == "readiness" and told.text("ready") == "false":
            spec = {"failureThreshold": 1}
        if spec is None and told.text(name):
            spec = {"periodSeconds": 1, "failureThreshold": 1}
        if spec is not None:
            ask = _answers(name, container, spec, told, started, files, variables, root)
            found[name] = Probe(spec, started, ask)
    return found


def _answers(
    name: str,
    container: Json,
    spec: Json,
    told: Told,
    started: float,
    files: Files,
    variables: Mapping[str, str],
    root: str,
) -> Callable[[float], bool] | None:
    """Return how a probe is answered; None: always well."""
    if name == "readiness" and told.text("ready") == "false":
        return lambda now: False
    if told.probe(name, 0.0) is not None:
        return lambda now: bool(told.probe(name, now - started))
    if command := (spec.get("exec") or {}).get("command"):
        limit = float(spec.get("timeoutSeconds") or 1)
        try:
            Process.script(started, command, variables, files, Log())
        except NotUnderstoodError:
            return None
        return lambda now: _run(command, variables, files, now, limit)
    if root and not _listens(container, spec):
        return lambda now: False
    if root and (page := spec.get("httpGet")):
        path = f"{root.rstrip('/')}/{str(page.get('path', '')).lstrip('/')}"
        return lambda now: files.exists(path)  # of a folder, both servers show what it holds
    return None


def _listens(container: Json, spec: Json) -> bool:
    """Tell whether a web server listens where it is asked: at 80, or where its ports say."""
    asked = (spec.get("httpGet") or spec.get("tcpSocket") or {}).get("port", WEB)
    ports = container.get("ports") or ()
    return asked == WEB or any(asked in (p.get("name"), p.get("containerPort")) for p in ports)


def _run(
    command: list[str], variables: Mapping[str, str], files: Files, now: float, limit: float
) -> bool:
    process = Process.script(now, command, variables, files, Log())
    process.advance(now + limit)
    return process.code == 0
