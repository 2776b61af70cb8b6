"""Chooses the built-in controllers by name and keeps them running beside an API server.

    manager = ControllerManager(client, select("*"))
    async with manager.running():
        ...

Each controller is a task. One that raises is logged, counted and started again after a pause that
grows; the others do not notice. All share one client and one cache a resource. With a fixed `clock`
and `seed` and the in-process transport a run on a virtual-time loop is repeatable.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol

import structlog

from bayplan.apiserver.backend import Backend
from bayplan.apiserver.local import LocalTransport
from bayplan.apiserver.server import ApiServer
from bayplan.apiserver.signs import SignsOfLife
from bayplan.client import Client, Informer
from bayplan.config import DEFAULT_GATES, FeatureGates
from bayplan.controllers.autoscaler import AutoscalerController
from bayplan.controllers.certificates import CertificateSigner
from bayplan.controllers.cronjob import CronJobController
from bayplan.controllers.daemonset import DaemonSetController
from bayplan.controllers.deployment import DeploymentController
from bayplan.controllers.disruption import DisruptionController
from bayplan.controllers.endpoints import EndpointsController
from bayplan.controllers.ephemeral import EphemeralClaimController
from bayplan.controllers.garbage import GarbageCollector
from bayplan.controllers.job import JobController
from bayplan.controllers.kubelet import Kubelet
from bayplan.controllers.kubelet.answers import Answers
from bayplan.controllers.namespace import NamespaceController
from bayplan.controllers.nodelifecycle import NodeLifecycleController
from bayplan.controllers.objects import Json
from bayplan.controllers.podgc import PodGarbageCollector
from bayplan.controllers.protection import PodGroupProtection, ProtectionController
from bayplan.controllers.replicaset import (
    ReplicaSetController,
    ReplicationControllerController,
)
from bayplan.controllers.resourcequota import ResourceQuotaController
from bayplan.controllers.rootca import RootCaPublisher
from bayplan.controllers.runtime import Kit
from bayplan.controllers.serviceaccount import ServiceAccountController
from bayplan.controllers.statefulset import StatefulSetController
from bayplan.controllers.volumes import VolumeBinder
from bayplan.errors import ConfigError
from bayplan.supervised import end, supervised

log = structlog.get_logger(__name__)


class Controller(Protocol):
    """Something that runs until it is cancelled, and can be run again after it has failed."""

    async def run(self) -> None: ...


CONTROLLERS: dict[str, Callable[[Kit], Controller]] = {
    "namespace": NamespaceController,
    "serviceaccount": ServiceAccountController,
    "root-ca-certificate-publisher": RootCaPublisher,
    "certificatesigningrequest-signing": CertificateSigner,
    "garbagecollector": GarbageCollector,
    "replicaset": ReplicaSetController,
    "replicationcontroller": ReplicationControllerController,
    "deployment": DeploymentController,
    "statefulset": StatefulSetController,
    "daemonset": DaemonSetController,
    "job": JobController,
    "cronjob": CronJobController,
    "endpoints": EndpointsController,
    "persistentvolume-binder": VolumeBinder,
    "volume-protection": ProtectionController,
    "podgroup-protection": PodGroupProtection,
    "ephemeral-claims": EphemeralClaimController,
    "disruption": DisruptionController,
    "resourcequota": ResourceQuotaController,
    "nodelifecycle": NodeLifecycleController,
    "podgc": PodGarbageCollector,
    "horizontalpodautoscaler": AutoscalerController,
    "kubelet": Kubelet,
}


def select(spec: str) -> list[str]:
    """Read `--controllers`: names, `*` for all, `-name` for all but that one.

    The order of the words does not matter; "" selects none. Raises ConfigError.
    """
    words = [word.strip() for word in spec.split(",") if word.strip()]
    for word in words:
        if word != "*" and word.removeprefix("-") not in CONTROLLERS:
            raise ConfigError(
                f'--controllers "{word}" is not known; use *, -NAME or some of '
                f"{', '.join(CONTROLLERS)}"
            )
    without = {word[1:] for word in words if word.startswith("-")}
    named = {word for word in words if not word.startswith("-")}
    every = "*" in named or (bool(without) and not named)
    return [name for name in CONTROLLERS if (every or name in named) and name not in without]


def options_for(
    authority: bytes | None,
    signing_key: bytes | None = None,
    gates: FeatureGates = DEFAULT_GATES,
) -> Json:
    """Return the options of controllers that run beside a server with this CA certificate.

    With the authority's key they sign certificates that were asked for and approved.

    They record events; in simulations, where nobody reads them, they do not.
    """
    found: Json = {
        "root-ca": authority.decode() if authority else "",
        "events": True,
        "release": gates.release,
    }
    if authority and signing_key:
        found |= {"signing-cert": authority.decode(), "signing-key": signing_key.decode()}
    if gates["GenericWorkload"]:
        found["pod-groups"] = "v1beta1" if gates.since("1.37") else "v1alpha2"
    return found


@asynccontextmanager
async def beside(
    app: ApiServer, token: str, names: Sequence[str], options: Json | None = None
) -> AsyncIterator[None]:
    """Run controllers in the process of the API server itself, without sockets."""
    if not names:
        yield
        return
    client = Client(LocalTransport(app, token=token))
    try:
        manager = ControllerManager(client, names, options=options)
        manager.attach(app.backend)
        async with manager.running():
            yield
    finally:
        await client.transport.close()


class ControllerManager:
    """A set of controllers on one API server.

    `options` are read by single controllers: see the docstring of each.
    """

    def __init__(
        self,
        client: Client,
        names: Sequence[str],
        *,
        clock: Callable[[], float] = time.time,
        seed: int = 0,
        options: Json | None = None,
        kit: Kit | None = None,
        others: Mapping[str, Callable[[Kit], Controller]] | None = None,
    ) -> None:
        """`kit`: another than one made of the other arguments; `others`: in place of built-in
        controllers."""
        self.kit = kit or Kit(client, clock=clock, seed=seed, options=options)
        self.failures: Counter[str] = Counter()
        self._tasks: list[asyncio.Task[None]] = []
        self._makers = CONTROLLERS | dict(others or {})
        self._controllers = {name: self._makers[name](self.kit) for name in names}

    def attach(self, backend: Backend) -> None:
        """Let the server of this process and the simulated kubelets know each other."""
        kubelet = self._controllers.get("kubelet")
        backend.containers = Answers(kubelet) if isinstance(kubelet, Kubelet) else None
        self.kit.signs = SignsOfLife(backend)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[ControllerManager]:
        """Run the controllers while the block runs; their caches are filled when it begins."""
        self.start()
        try:
            for informer in self.kit.informers():
                await informer.wait_synced()
            yield self
        finally:
            await self.stop()

    def start(self) -> None:
        self.kit.on_cache = self._follow
        for informer in self.kit.informers():
            self._follow(informer)
        self._tasks.append(supervised("event recorder", self.kit.events.run, self.failures))
        for name, controller in self._controllers.items():
            self._begin(name, controller)

    def add(self, name: str) -> None:
        """Run one more controller; one that runs already goes on."""
        if name not in self._controllers:
            self._controllers[name] = self._makers[name](self.kit)
            self._begin(name, self._controllers[name])

    def _begin(self, name: str, controller: Controller) -> None:
        self._tasks.append(supervised(name, controller.run, self.failures))

    async def stop(self) -> None:
        await end(*self._tasks)
        self._tasks.clear()

    def _follow(self, informer: Informer[Any]) -> None:
        name = f"informer {informer.resource.plural}"
        self._tasks.append(supervised(name, informer.run, self.failures))
