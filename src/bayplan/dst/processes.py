"""The processes of the simulated system: each can be started, crashed, and has a clock of its own.

What runs in them is the real code. A crash cuts the process off first, so that its last words (a
lease given back, a status written) never leave it, and then ends its tasks.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Callable
from typing import Protocol

from bayplan.apiserver.server import ApiServer
from bayplan.client import Client, Response
from bayplan.client.fence import Holds
from bayplan.clock import rest
from bayplan.config import DEFAULT_GATES, default_config
from bayplan.controllers.manager import ControllerManager
from bayplan.dst.disk import Disk
from bayplan.dst.invariants import LEASE, UNSEEN
from bayplan.dst.network import Host, Link, Network
from bayplan.dst.truth import Broken, Truth
from bayplan.framework import Extender
from bayplan.global_scheduler.inventory import Inventory
from bayplan.global_scheduler.placer import DEFAULT_POLICY, Placer
from bayplan.global_scheduler.plugins import in_tree_registry as global_registry
from bayplan.global_scheduler.service import Allocations
from bayplan.plugins import in_tree_registry
from bayplan.scheduler.event_recorder import EventRecorder
from bayplan.scheduler.live import LiveScheduler
from bayplan.sim.schedulers import PatientCaller, SimulatedScheduler
from bayplan.store.errors import StoreError
from bayplan.store.sqlite import SqliteStore

EPOCH = 1_800_000_000.0
TOKEN = "simulated"
LETTERS = "bcdfghjklmnpqrstvwxz2456789"
CONTROLLERS = (
    "namespace",
    "garbagecollector",
    "replicaset",
    "deployment",
    "job",
    "nodelifecycle",
    "podgc",
    "kubelet",
)
FOLLOWED = ("configmaps", "deployments", "jobs", "namespaces", "nodes", "pods", "replicasets")
"""Resources that runs make objects of; the other fifty are watched in thorough runs alone."""
RESTART_SECONDS = 1.0
Told = Callable[[str, Response], None]


def drawn_id(rng: random.Random) -> str:
    """A uid that the seed decides."""
    return str(uuid.UUID(int=rng.getrandbits(128), version=4))


class Clock:
    """The time of day as one process believes it to be."""

    def __init__(self) -> None:
        self.skew = 0.0

    def __call__(self) -> float:
        return EPOCH + asyncio.get_running_loop().time() + self.skew


class Process(Protocol):
    """Something that crashes and starts again."""

    clock: Clock
    up: bool

    async def start(self) -> None: ...

    async def crash(self) -> None: ...


class ApiProcess:
    """The API server on its disk."""

    def __init__(self, disk: Disk, truth: Truth, rng: random.Random) -> None:
        self.clock = Clock()
        self.host = Host()
        self.up = False
        self._disk = disk
        self._truth = truth
        self._rng = rng
        self.server: ApiServer | None = None

    async def start(self) -> None:
        """Start it, again and again while its disk does not let it."""
        while True:
            store = self._disk.open()
            self._truth.follow(store)
            self.server = ApiServer(
                store,
                clock=self.clock,
                uid=lambda: drawn_id(self._rng),
                suffix=lambda: "".join(self._rng.choices(LETTERS, k=5)),
                admin_token=TOKEN,
                check_capacity=True,
                track_managers=False,
            )
            self.up = True
            try:
                await self.server.start()
            except StoreError:
                await self.crash()
                await asyncio.sleep(RESTART_SECONDS)
                continue
            self.host.app = self.server
            return

    async def crash(self) -> None:
        assert self.server is not None
        self.up = False
        self._truth.leave()
        self._disk.crash()
        await self.host.crash()
        await self.server.close()


class Part:
    """What processes that talk to the API server have in common: a link and a clock."""

    def __init__(self, name: str, network: Network, api: ApiProcess, tell: Told) -> None:
        self.name = name
        self.clock = Clock()
        self.up = False
        self._network = network
        self._api = api
        self._tell = tell
        self._link: Link | None = None

    def client(self) -> Client:
        """Return a client on the way that this life of the process has."""
        if self._link is None:
            self._link = self._network.link(self.name, self._api.host, TOKEN)
            self._link.told = self._tell
        return Client(self._link, timeout=20.0)

    def cut_off(self) -> None:
        self.up = False
        if self._link is not None:
            self._link.kill()
        self._link = None


class SchedulerPart(Part):
    """A scheduler that takes part in the election."""

    def __init__(
        self,
        name: str,
        network: Network,
        api: ApiProcess,
        tell: Told,
        extenders: tuple[Extender, ...],
    ) -> None:
        super().__init__(name, network, api, tell)
        self._extenders = extenders
        self._starting: asyncio.Task[None] | None = None
        self._unled = ""
        self.process = SimulatedScheduler(
            self._make, self.client, self.clock, elect=True, identity=name
        )

    def _make(self, recorder: EventRecorder, holds: Holds) -> LiveScheduler:
        return LiveScheduler(
            config=default_config(),
            gates=DEFAULT_GATES,
            registry=in_tree_registry(),
            client=self.client(),
            recorder=recorder,
            extenders=self._extenders,
            wall=self.clock,
            jitter=lambda: 0.0,
            aside=PatientCaller(self._extenders),
            rest=rest,
            holds=holds,
        )

    def client(self) -> Client:
        made = super().client()
        assert self._link is not None
        self._link.asked = self._asks
        return made

    def _asks(self, method: str, target: str) -> None:
        """See what it sends: without the lease it may only read, and ask for the lease."""
        elector = self.process.elector
        if method != "GET" and "/leases" not in target and not (elector and elector.holds()):
            self._unled = f"{method} {target}"

    async def start(self) -> None:
        self.up = True
        self._starting = asyncio.create_task(self.process.start())

    async def crash(self) -> None:
        self.cut_off()
        assert self._starting is not None
        self._starting.cancel()
        await asyncio.gather(self._starting, return_exceptions=True)
        await self.process.stop()

    @property
    def leads(self) -> bool:
        elector = self.process.elector
        return self.up and elector is not None and elector.is_leader

    def check(self) -> None:
        """Raise what has ended a part of it, or what it should not have sent."""
        if self._unled:
            raise Broken(LEASE, f"{self.name} sends without a lease: {self._unled}")
        for task in (self._starting, *self.process.tasks):
            if task is not None and task.done() and not task.cancelled() and task.exception():
                raise Broken(UNSEEN, f"{self.name}: {task.exception()!r}")


class ControllersPart(Part):
    """Controllers and kubelets."""

    _manager: ControllerManager | None = None
    thorough = False

    async def start(self) -> None:
        self.up = True
        collecting = {"discover-seconds": 0, "resources": () if self.thorough else FOLLOWED}
        self._manager = ControllerManager(
            self.client(),
            CONTROLLERS,
            clock=self.clock,
            options={"garbagecollector": collecting},
        )
        self._manager.start()

    async def crash(self) -> None:
        self.cut_off()
        assert self._manager is not None
        await self._manager.stop()


class GlobalProcess:
    """Two global schedulers on one store."""

    def __init__(self, disk: Disk, truth: Truth, inventory: Inventory, rng: random.Random) -> None:
        self.clock = Clock()
        self.up = False
        self.services: list[Allocations] = []
        self._disk = disk
        self._truth = truth
        self._inventory = inventory
        self._rng = rng
        self._store: SqliteStore | None = None

    async def start(self) -> None:
        self._store = self._disk.open()
        self._truth.follow(self._store)
        self.services = [
            Allocations(
                self._store,
                self._inventory,
                Placer(DEFAULT_POLICY, global_registry()),
                clock=self.clock,
                name=name,
                new_id=lambda: drawn_id(self._rng),
            )
            for name in ("one", "two")
        ]
        self.up = True
        for service in self.services:
            await service.start()

    async def crash(self) -> None:
        self.up = False
        self._truth.leave()
        self._disk.crash()
        for service in self.services:
            await service.stop(0.0)
