"""Random lives of a cluster on a real kube-apiserver, with the real scheduler and with ours.

Both are started on the same API server, one after the other; every life has a namespace of its own.
Compared are the node, nomination, conditions and events of every pod at each moment at which it
settled. The real scheduler draws where nodes or victims are equally good: a life that differs is
played by it again, and counts as drawn if it does not do the same as before.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from bayplan.api import yaml
from bayplan.client import AlreadyExists, Client, Forbidden, NotFound, connect, load_kubeconfig
from bayplan.client.resources import EVENTS, NAMESPACES, NODES, PODS, PRIORITY_CLASSES
from bayplan.conformance.compare import differences
from bayplan.errors import BayplanError
from bayplan.testing.cases.lives import PRIORITIES, life
from bayplan.testing.servers import Process, ServedCluster

Body = dict[str, Any]
REAL, OURS = "kube-scheduler", "bayplan"
PATIENCE = 60.0
PAUSE = 0.5
"""Seconds for a scheduler to see a changed node: pods have a watch of their own, which may lead."""
QUIET = 1.0
STUCK = 8.0
"""Seconds after which a pod that was promised a node counts as waiting."""
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TOLD = ("type", "status", "reason", "message")


class Stage:
    """A real API server on which lives are played by one scheduler at a time."""

    def __init__(self, cluster: ServedCluster, version: str) -> None:
        self._cluster, self._version = cluster, version
        self._process: Process | None = None
        self._playing = ""
        self._played = 0

    def play(self, scheduler: str, seed: object) -> Body:
        """One life with one scheduler; what became of every pod."""
        self._start(scheduler)
        self._played += 1
        return asyncio.run(self._play(f"{scheduler}-{self._played}", life(seed)))

    def stop(self) -> None:
        """End the scheduler."""
        if self._process is not None:
            self._process.stop()
            self._process = None

    def _start(self, scheduler: str) -> None:
        if self._process is not None and self._playing == scheduler:
            return
        self.stop()
        self._playing = scheduler
        config = self._config()
        if scheduler == REAL:
            self._process = self._cluster.kube_scheduler(config)
        else:
            version = f"--emulated-version={self._version}"
            self._process = self._cluster.bayplan_scheduler(config, version)

    def _config(self) -> Path:
        path = self._cluster.folder / "live.yaml"
        connection = {"kubeconfig": str(self._cluster.kubeconfig), "qps": 5000, "burst": 5000}
        document = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": connection,
        }
        path.write_text(yaml.dump(document), encoding="utf-8")
        return path

    async def _play(self, namespace: str, steps: Sequence[Body]) -> Body:
        client = connect(load_kubeconfig(self._cluster.kubeconfig), qps=0)
        try:
            return await Life(client, namespace, self._words).play(steps)
        finally:
            await client.close()

    def _words(self) -> str:
        return self._process.last_words() if self._process is not None else ""


class Life:
    """One life in one namespace."""

    def __init__(self, client: Client, namespace: str, words: Any) -> None:
        self._client, self._namespace, self._words = client, namespace, words
        self._nodes: list[str] = []
        self._placed: list[str] = []
        self._waiting = ""
        self._seen: Body = {}

    async def play(self, steps: Sequence[Body]) -> Body:
        """Take the steps; then clear away what is left."""
        await self._prepare()
        try:
            for step in steps:
                await self._take(step)
            await self._observe_all()
        finally:
            await self._clear()
        return self._seen

    async def _prepare(self) -> None:
        await self._client.create(NAMESPACES, {"metadata": {"name": self._namespace}})
        for name, value in PRIORITIES.items():
            try:
                body = {"metadata": {"name": name}, "value": value}
                await self._client.create(PRIORITY_CLASSES, body)
            except AlreadyExists:
                continue

    async def _take(self, step: Body) -> None:
        if "nodes" in step:
            for body in step["nodes"]:
                await self._client.create(NODES, body)
                self._nodes.append(body["metadata"]["name"])
            await asyncio.sleep(PAUSE)
            return
        await self._forget_waiting()
        if "delete" in step and self._placed:
            number = step["delete"] % len(self._placed)
            await self._delete(self._placed.pop(number))
        elif "close" in step:
            await self._client.patch(NODES, step["close"], {"spec": {"unschedulable": True}})
            await asyncio.sleep(PAUSE)
        elif "pod" in step:
            await self._create(step["pod"])
            await self._settle(step["pod"]["metadata"]["name"])

    async def _create(self, body: Body) -> None:
        """Admission learns of a new PriorityClass by a watch: first tries may be too early."""
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    await self._client.create(PODS, body, self._namespace)
                    return
                except Forbidden as refused:
                    if "no PriorityClass with name" not in str(refused):
                        raise
                    await asyncio.sleep(0.05)

    async def _settle(self, name: str) -> None:
        """Wait until a pod has a node, or none and no hope of one."""
        pod: Body = {}
        now = asyncio.get_running_loop().time
        promised = 0.0
        try:
            async with asyncio.timeout(PATIENCE):
                while not (_is_bound(pod) or _is_hopeless(pod)):
                    await asyncio.sleep(0.03)
                    pod = await self._get(name)
                    # the real scheduler may miss that the victims are gone and wait for minutes
                    promised = promised or (now() if _nominated(pod) else 0.0)
                    if promised and now() - promised > STUCK:
                        break
        except TimeoutError:
            raise BayplanError(f"{name} stays {pod}; {self._words()}") from None
        self._see(pod)
        if _is_bound(pod):
            self._placed.append(name)
            # what a kubelet writes: without it the real one compares victims by chance
            number = int(name.removeprefix("p"))
            started = {"status": {"startTime": f"2026-01-01T00:00:{number:02}Z"}}
            await self._client.patch(PODS, name, started, self._namespace, subresource="status")
        else:
            self._waiting = name
        # victims are gone; who counts on them in later steps must not
        there = {each["metadata"]["name"] for each in await self._pods()}
        self._placed = [each for each in self._placed if each in there]

    async def _forget_waiting(self) -> None:
        if self._waiting:
            self._see(await self._get(self._waiting))
            await self._delete(self._waiting)
            self._waiting = ""

    async def _get(self, name: str) -> Body:
        text = await self._client.get(PODS, name, self._namespace)
        found: Body = msgspec.json.decode(text)
        return found

    async def _pods(self) -> list[Body]:
        text = await self._client.list(PODS, self._namespace)
        found: list[Body] = msgspec.json.decode(text)["items"]
        return found

    async def _delete(self, name: str) -> None:
        try:
            await self._client.delete(PODS, name, self._namespace, grace_period=0)
        except NotFound:
            return

    def _see(self, pod: Body) -> None:
        about = self._seen.setdefault(pod["metadata"]["name"], {})
        about["node"] = pod["spec"].get("nodeName", "")
        about["nominated"] = pod["status"].get("nominatedNodeName", "")
        about["conditions"] = {
            each["type"]: {key: each.get(key, "") for key in _TOLD}
            for each in pod["status"].get("conditions", ())
        }

    async def _observe_all(self) -> None:
        """See all pods once nothing was told for a moment, and what was told of each."""
        now = asyncio.get_running_loop().time
        last: Any = None
        since = now()
        while now() - since < QUIET:
            events = msgspec.json.decode(await self._client.list(EVENTS, self._namespace))["items"]
            told = sorted(
                {(each["regarding"]["name"], each["reason"], self._text(each)) for each in events}
            )
            if told != last:
                last, since = told, now()
            await asyncio.sleep(0.1)
        for pod in await self._pods():
            self._see(pod)
        for name, reason, text in last or ():
            self._seen.setdefault(name, {}).setdefault("events", []).append(f"{reason}: {text}")

    def _text(self, event: Body) -> str:
        return _UID.sub("<uid>", event.get("note", "").replace(self._namespace, "<ns>"))

    async def _clear(self) -> None:
        for pod in await self._pods():
            await self._delete(pod["metadata"]["name"])
        for name in self._nodes:
            await self._client.delete(NODES, name)


def _is_bound(pod: Body) -> bool:
    return bool(pod.get("spec", {}).get("nodeName"))


def _is_hopeless(pod: Body) -> bool:
    status = pod.get("status", {})
    told = [each for each in status.get("conditions", ()) if each["type"] == "PodScheduled"]
    failed = any(each.get("reason") == "Unschedulable" for each in told)
    return failed and not _nominated(pod)


def _nominated(pod: Body) -> str:
    return str(pod.get("status", {}).get("nominatedNodeName", ""))


class Verdict(msgspec.Struct):
    """What came of one life."""

    lines: list[str]
    drawn: bool = False
    """Whether the real scheduler did not do the same twice."""


def compare(stage: Stage, seeds: Sequence[object], again: int = 3) -> dict[object, Verdict]:
    """Play lives with the real scheduler, then with ours, then those that differ once more."""
    real = {seed: stage.play(REAL, seed) for seed in seeds}
    ours = {seed: stage.play(OURS, seed) for seed in seeds}
    found = {seed: Verdict(differences(real[seed], ours[seed])) for seed in seeds}
    for seed, verdict in found.items():
        for _ in range(again if verdict.lines else 0):
            other = stage.play(REAL, seed)
            verdict.drawn = verdict.drawn or bool(differences(real[seed], other))
    return found
