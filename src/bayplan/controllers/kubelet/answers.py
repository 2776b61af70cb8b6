"""What simulated kubelets answer about containers: logs, commands run in them, what they print."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from bayplan.apiserver.containers import Containers, LogOptions, Write, container_of
from bayplan.apiserver.errors import ApiError, bad_request
from bayplan.controllers.kubelet.container import Container
from bayplan.controllers.kubelet.files import Files
from bayplan.controllers.kubelet.kubelet import Kubelet
from bayplan.controllers.kubelet.pod import PodRun
from bayplan.controllers.kubelet.processes import Log, Process
from bayplan.controllers.kubelet.programs import FOREVER
from bayplan.controllers.kubelet.syntax import NotUnderstoodError
from bayplan.controllers.kubelet.usage import node_metrics, pod_metrics
from bayplan.controllers.objects import micro_timestamp, seconds_of

MAX_GENERATED = 10_000
LEAST_PAUSE = 0.001  # seconds between two lines that are generated
NOT_SIMULATED = (
    "this pod runs on no simulated node, so nothing is known of what happens in its containers"
)
LONGEST_COMMAND = 3600.0


class Answers(Containers):
    """Answers for all simulated nodes of a cluster."""

    def __init__(self, kubelet: Kubelet) -> None:
        self._kubelet = kubelet

    def _find(self, pod: dict[str, Any], name: str) -> tuple[PodRun, Container]:
        name = container_of(pod, name)
        run = self._kubelet.runs.get(pod["metadata"]["uid"])
        if run is None:
            if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
                raise bad_request(f'the log of container "{name}" was not kept over a restart')
            raise ApiError(503, "ServiceUnavailable", NOT_SIMULATED)
        return run, next(c for c in run.containers if c.name == name)

    # -- logs

    def log(self, pod: dict[str, Any], options: LogOptions) -> AsyncIterator[bytes]:
        run, container = self._find(pod, options.container)
        name = pod["metadata"]["name"]
        log = container.before if options.previous else container.log
        if options.previous and log is None:
            what = f'previous terminated container "{container.name}" in pod "{name}" not found'
            raise bad_request(what)
        if log is None:
            what = f'container "{container.name}" in pod "{name}" is waiting to start'
            raise bad_request(f"{what}: {container.reason or 'ContainerCreating'}")
        return self._lines(run, container, log, options)

    async def _lines(
        self, run: PodRun, container: Container, log: Log, options: LogOptions
    ) -> AsyncIterator[bytes]:
        since = -FOREVER
        if options.since_seconds is not None:
            since = _now() - options.since_seconds
        if options.since_time:
            since = seconds_of(options.since_time) - run.wall
        generated = _Generated(run, container, log)
        found = [item for item in _merge(log, generated, _now()) if item[0] >= since]
        if options.tail is not None:
            found = found[-options.tail :] if options.tail else []
        left = options.limit
        seen, rest = (log.written, log.begun), b""
        while True:
            for moment, line in [(None, rest), *found] if rest else found:
                text = line
                if options.timestamps and moment is not None:
                    text = f"{micro_timestamp(moment + run.wall)} ".encode() + line
                if left is not None:
                    text = text[:left]
                    left -= len(text)
                yield text
                if left == 0:
                    return
            if not options.follow or (log.closed and (log.written, log.begun) == seen):
                return
            await generated.change(log)
            rest, found = log.since(*seen)
            seen = log.written, log.begun
            found += generated.until(_now())

    # -- commands

    async def execute(
        self,
        pod: dict[str, Any],
        container: str,
        command: list[str],
        given: Callable[[], Awaitable[bytes]] | None,
        write: Write,
    ) -> int:
        """Run a command that the simulation understands; of others it is said that it does not."""
        run, found = self._find(pod, container)
        _running(found)
        taken = await given() if given is not None else b""
        files, output = _running(found), _Output()
        try:
            process = Process.script(_now(), command, found.variables, files, output, taken)
        except NotUnderstoodError as error:
            text = f"{command[0]}: not run, for the container is simulated: {error}\n"
            await write(2, text.encode())
            return 126
        end = _now() + LONGEST_COMMAND
        while True:
            due = process.advance(_now())
            for piece in output.taken():
                await write(1, piece)
            if process.code is not None or _now() > end:
                self._kubelet.look(run)
                return process.code if process.code is not None else 124
            await asyncio.sleep(max(min(due, end) - _now(), 0.0))

    async def attach(self, pod: dict[str, Any], container: str) -> AsyncIterator[bytes]:
        _, found = self._find(pod, container)
        _running(found)
        async for line in self.log(pod, LogOptions(container=found.name, follow=True, tail=0)):
            yield line

    # -- usage

    def usage(self, resource: str, namespace: str, name: str) -> list[dict[str, Any]]:
        now, kubelet = _now(), self._kubelet
        if resource == "pods":
            found = [pod_metrics(run, now) for run in kubelet.runs.values()]
            return [
                item
                for item in found
                if item is not None
                and namespace in ("", item["metadata"]["namespace"])
                and name in ("", item["metadata"]["name"])
            ]
        stamp = kubelet.stamp(now)
        return [
            node_metrics(node, kubelet.runs_on(node.metadata.name), stamp, now)
            for node in kubelet.simulated_nodes()
            if name in ("", node.metadata.name)
        ]


def _running(container: Container) -> Files:
    """Return the files of a container that runs. Raises a 400."""
    if container.state != "running" or container.files is None:
        raise bad_request(f'container "{container.name}" is not running')
    return container.files


class _Output:
    """What a command has printed and nobody was sent yet."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, moment: float, data: bytes) -> None:
        self._pieces.append(data)

    def taken(self) -> list[bytes]:
        """Return what is to be sent."""
        pieces, self._pieces = self._pieces, []
        return pieces


class _Generated:
    """The lines that a container was told to write every so often; they cost nothing unread."""

    def __init__(self, run: PodRun, container: Container, log: Log) -> None:
        self._text = run.told.text("log")
        self._every = max(run.told.seconds("log-seconds") or 1.0, LEAST_PAUSE)
        self._started = container.started
        self._container = container
        self._log = log
        self._next = 0

    def until(self, now: float) -> list[tuple[float, bytes]]:
        """Return the lines that are due and were not returned yet."""
        if not self._text:
            return []
        end = self._container.ended if self._log.closed else now
        count = int((end - self._started) / self._every + 1e-6)
        first = max(self._next, count - MAX_GENERATED)
        self._next = count
        return [
            (self._started + n * self._every, f"{self._text} {n}\n".encode())
            for n in range(first, count)
        ]

    async def change(self, log: Log) -> None:
        """Wait for the next line of either kind."""
        if not self._text:
            await log.change()
            return
        due = self._started + (self._next + 1) * self._every
        try:
            async with asyncio.timeout(max(due - _now(), 0.0)):
                await log.change()
        except TimeoutError:
            return


def _merge(log: Log, generated: _Generated, now: float) -> list[tuple[float, bytes]]:
    more = generated.until(now)
    return sorted([*log.lines, *more], key=lambda item: item[0]) if more else list(log.lines)


def _now() -> float:
    return asyncio.get_running_loop().time()
