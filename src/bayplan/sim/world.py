"""A whole cluster in virtual time: the real driver, engine, API server and controllers, no sockets.

Nothing here reads the wall clock or a global random number: time is the loop's, uids and name
endings come from the seed. So the same scenario and seed write the same objects in the same order,
and the log of what was written has the same hash, on any machine. `real_time` runs the same world
on an ordinary loop.
"""

import asyncio
import random
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import msgspec

from bayplan.apiserver.controllers.manager import ControllerManager, select
from bayplan.apiserver.server import ApiServer
from bayplan.client import AsgiTransport, Client
from bayplan.config import DEFAULT_GATES, FeatureGates, KubeSchedulerConfiguration, default_config
from bayplan.framework import Extender, Registry
from bayplan.plugins import in_tree_registry
from bayplan.scheduler.events import EventRecorder
from bayplan.scheduler.live import LiveScheduler
from bayplan.sim.faults import FaultyTransport
from bayplan.sim.log import EventLog
from bayplan.store import MemoryStore

EPOCH = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


class Settings(msgspec.Struct, frozen=True):
    """How a world is made."""

    seed: int = 0
    config: KubeSchedulerConfiguration | None = None
    gates: FeatureGates = DEFAULT_GATES
    registry: Registry | None = None
    controllers: str = "*"
    extenders: tuple[Extender, ...] = ()
    scheduler: bool = True
    """False: the scenario brings its own, as the lessons do."""
    options: dict[str, object] = {}
    """Of the controllers, by controller name."""


class World:
    """A running cluster; `client` is what scenarios use."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.rng = random.Random(settings.seed)
        self.store = MemoryStore()
        self.api = ApiServer(
            self.store,
            clock=self.now,
            uid=self._uid,
            suffix=self._suffix,
            admin_token="simulation",
            check_capacity=False,
        )
        self.log = EventLog(self.elapsed)
        self.faults = FaultyTransport(self._transport(), random.Random(settings.seed + 1))
        self.client = Client(self._transport(), timeout=None)
        self.scheduler: LiveScheduler | None = None
        self._begin = 0.0

    def now(self) -> float:
        """The simulated time of day, in seconds since 1970."""
        return EPOCH + self.elapsed()

    def elapsed(self) -> float:
        """Seconds since the scenario began."""
        try:
            return asyncio.get_running_loop().time() - self._begin
        except RuntimeError:  # before the loop runs
            return 0.0

    def _uid(self) -> str:
        return str(uuid.UUID(int=self.rng.getrandbits(128), version=4))

    def _suffix(self) -> str:
        return "".join(self.rng.choice(SUFFIX_LETTERS) for _ in range(5))

    def _transport(self) -> AsgiTransport:
        return AsgiTransport(self.api, token=self.api.admin_token)

    def begin(self) -> None:
        """Let the scenario's clock start now."""
        self._begin = asyncio.get_running_loop().time()

    def new_client(self) -> Client:
        """A client of its own for another part of the cluster."""
        return Client(self._transport(), timeout=None)

    @asynccontextmanager
    async def scheduling(self) -> AsyncIterator[LiveScheduler]:
        """Run a scheduler while the block runs; its requests pass the faults."""
        recorder = EventRecorder(
            self.new_client(),
            hostname="simulation",
            wall=lambda: datetime.fromtimestamp(self.now(), UTC),
        )
        settings = self.settings
        scheduler = LiveScheduler(
            config=settings.config or default_config(),
            gates=settings.gates,
            registry=settings.registry or in_tree_registry(),
            client=Client(self.faults, timeout=None),
            recorder=recorder,
            extenders=settings.extenders,
            wall=self.now,
            jitter=lambda: 0.0,
        )
        tasks = [
            asyncio.create_task(recorder.run()),
            asyncio.create_task(scheduler.run_informers()),
        ]
        try:
            await scheduler.wait_synced()
            tasks.append(asyncio.create_task(scheduler.run()))
            self.scheduler = scheduler
            yield scheduler
            await recorder.drain(1.0)
        finally:
            for task in reversed(tasks):
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[World]:
    """Run a world while the block runs."""
    world = World(settings)
    world.begin()
    await world.api.start()
    watcher = world.store.watch("", after=0)
    following = asyncio.create_task(world.log.follow(watcher))
    manager = ControllerManager(
        world.new_client(),
        select(settings.controllers),
        clock=world.now,
        seed=settings.seed,
        options=settings.options or None,
    )
    try:
        async with manager.running():
            if settings.scheduler:
                async with world.scheduling():
                    yield world
            else:
                yield world
    finally:
        await asyncio.sleep(0)
        watcher.close()
        await following
        await world.store.close()


Clock = Callable[[], float]
