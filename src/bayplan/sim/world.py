"""A whole cluster in virtual time: the real driver, engine, API server and controllers, no sockets.

Nothing here reads the wall clock or a global random number: time is the loop's, uids and name
endings come from the seed. So the same scenario and seed write the same objects in the same order,
and the log of what was written has the same hash, on any machine. The same world runs on an
ordinary loop too, only slower.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime

import msgspec

from bayplan.apiserver.local import LocalTransport
from bayplan.apiserver.server import ApiServer
from bayplan.client import Client
from bayplan.client.fence import Holds
from bayplan.client.resources import NODES
from bayplan.clock import rest
from bayplan.config import DEFAULT_GATES, FeatureGates, KubeSchedulerConfiguration, default_config
from bayplan.controllers.manager import ControllerManager, select
from bayplan.framework import Extender, Registry
from bayplan.plugins import in_tree_registry
from bayplan.scheduler.event_recorder import EventRecorder
from bayplan.scheduler.live import LiveScheduler
from bayplan.sim.errors import ScenarioError
from bayplan.sim.extender import SimulatedExtender
from bayplan.sim.faults import GRACE, FaultyTransport
from bayplan.sim.log import Entry, EventLog
from bayplan.sim.objects import SIMULATED
from bayplan.sim.schedulers import PatientCaller, SimulatedScheduler, hold_lease
from bayplan.sim.tracker import Tracker
from bayplan.sim.transport import PatientTransport
from bayplan.store import MemoryStore

EPOCH = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_UID_FIXED, _UID_VERSION_4 = 0xF000 << 64 | 0xC000 << 48, 4 << 76 | 0x8000 << 48
# Leases would be most of all writes of a long run, and nothing would be learned from them. New
# kinds are noticed when they are defined; nobody has to look for others from time to time.
OPTIONS: dict[str, object] = {
    "kubelet": {"lease-seconds": 0},
    "garbagecollector": {"discover-seconds": 0},
}


class Settings(msgspec.Struct, frozen=True):
    """How a world is made."""

    seed: int = 0
    config: KubeSchedulerConfiguration | None = None
    gates: FeatureGates = DEFAULT_GATES
    registry: Registry | None = None
    controllers: str = "*"
    extenders: tuple[Extender, ...] = ()
    schedulers: int = 1
    """0: the scenario brings its own, as the lessons do; 2: two that know nothing of each other."""
    elect: bool = False
    """Whether schedulers elect a leader among themselves."""
    options: dict[str, object] = {}
    """Of the controllers, by controller name."""
    managed_fields: bool = False
    """Whether writes keep `metadata.managedFields`: half of an object, and read by nobody here."""
    faithful: bool | None = None
    """Whether the whole API server is used; None: where the scenario is run says so."""
    keep: bool = True
    """False: the log keeps only its hash and the past is forgotten, for very long runs."""


class World:
    """A running cluster; `client` is what scenarios use. It is the `Faults` of its scenario."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.extenders = settings.extenders
        for extender in self.extenders:
            if isinstance(extender, SimulatedExtender):
                extender.reset()
        self.rng = random.Random(settings.seed)
        self._names = random.Random(f"{settings.seed}/names")
        self.store = MemoryStore()
        self.api = ApiServer(
            self.store,
            clock=self.now,
            uid=self._uid,
            suffix=self._suffix,
            admin_token="simulation",
            check_capacity=False,
            track_managers=settings.managed_fields,
            gates=settings.gates,
        )
        self.log = EventLog(self.elapsed)
        self.log.keep = settings.keep
        self.tracker = Tracker(keep=settings.keep)
        self.log.on_entry(self._track)
        self.transport = FaultyTransport(self._transport(), random.Random(settings.seed + 1))
        self.client = Client(self._transport(), timeout=None)
        self.processes: list[SimulatedScheduler] = []
        self._begin = 0.0
        self._time: Callable[[], float] = float  # 0.0, until it begins
        self._background: set[asyncio.Task[None]] = set()
        self._losing: dict[str, asyncio.Task[None]] = {}

    def _processes(self) -> list[SimulatedScheduler]:
        return [
            SimulatedScheduler(
                self._make_scheduler,
                self._faulty_client,
                self.now,
                elect=self.settings.elect,
                identity=f"scheduler-{i}",
            )
            for i in range(self.settings.schedulers)
        ]

    def manager(self, options: dict[str, object]) -> ControllerManager:
        """Return the controllers, not started yet."""
        settings = self.settings
        return ControllerManager(
            self.new_client(),
            select(settings.controllers),
            clock=self.now,
            seed=settings.seed,
            options=options,
        )

    # -- time and chance

    def now(self) -> float:
        """The simulated time of day, in seconds since 1970."""
        return EPOCH + (self._time() - self._begin)

    def elapsed(self) -> float:
        """Seconds since the scenario began."""
        return self._time() - self._begin

    def begin(self) -> None:
        """Let the scenario's clock start now."""
        self._time = asyncio.get_running_loop().time
        self._begin = self._time()

    def _uid(self) -> str:
        # What uuid.UUID(int=…, version=4) is as text, without the object.
        bits = self.rng.getrandbits(128) & ~_UID_FIXED | _UID_VERSION_4
        text = f"{bits:032x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def _suffix(self) -> str:
        return "".join(self._names.choice(SUFFIX_LETTERS) for _ in range(5))

    # -- parts

    @property
    def scheduler(self) -> LiveScheduler | None:
        """The (first) scheduler, if it runs."""
        return self.processes[0].scheduler if self.processes else None

    def _transport(self) -> PatientTransport:
        return PatientTransport(LocalTransport(self.api, token=self.api.admin_token))

    def new_client(self) -> Client:
        """A client of its own for another part of the cluster."""
        return Client(self._transport(), timeout=None)

    def _faulty_client(self) -> Client:
        return Client(self.transport, timeout=None)

    def _make_scheduler(self, recorder: EventRecorder, holds: Holds) -> LiveScheduler:
        settings = self.settings
        return LiveScheduler(
            config=settings.config or default_config(),
            gates=settings.gates,
            registry=settings.registry or in_tree_registry(),
            client=self._faulty_client(),
            recorder=recorder,
            extenders=self.extenders,
            wall=self.now,
            jitter=lambda: 0.0,
            aside=PatientCaller(self.extenders),
            rest=rest,
            holds=holds,
        )

    def _track(self, entry: Entry) -> None:
        resource = entry.key.split("/", 2)[1]
        if resource in ("pods", "nodes", "events"):
            self.tracker.see(entry.time, entry.action, resource, entry.value)

    def queue_sizes(self) -> dict[str, int]:
        """Return the lengths of the schedulers' queues."""
        sizes = {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 0}
        for process in self.processes:
            if process.scheduler is not None:
                for name, size in process.scheduler.core.queue.pending().items():
                    sizes[name] += size
        return sizes

    # -- faults

    async def lose_node(self, name: str, *, after: float = GRACE) -> None:
        """Let a node's kubelet fall silent; `after` seconds later the node counts as lost."""
        await self.client.patch(NODES, name, {"metadata": {"annotations": {SIMULATED: "lost"}}})
        self.tracker.note(self.elapsed(), f"fault: kubelet of node {name} falls silent", "fault")
        self._losing[name] = self._spawn(self._mark_lost(name, after))

    async def _mark_lost(self, name: str, after: float) -> None:
        await asyncio.sleep(after)
        await self._set_ready(
            name, "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status."
        )

    async def bring_back(self, name: str) -> None:
        """Let a lost node's kubelet speak again; if nobody missed it yet, nobody will."""
        if losing := self._losing.pop(name, None):
            losing.cancel()
        await self.client.patch(NODES, name, {"metadata": {"annotations": {SIMULATED: "true"}}})
        await self._set_ready(name, "True", "KubeletReady", "simulated")

    async def _set_ready(self, name: str, status: str, reason: str, message: str) -> None:
        ready = {"type": "Ready", "status": status, "reason": reason, "message": message}
        await self.client.patch(
            NODES, name, {"status": {"conditions": [ready]}}, kind="strategic", subresource="status"
        )

    def api_errors(self, rate: float) -> None:
        """Let that share of the schedulers' requests fail from now on."""
        self.transport.rate = rate
        self.tracker.note(self.elapsed(), f"fault: {rate:.0%} of requests fail", "fault")

    def slow_api(self, delay: float) -> None:
        """Let every request of the schedulers take that long from now on."""
        self.transport.delay = delay
        self.tracker.note(self.elapsed(), f"fault: requests take {delay:g} s", "fault")

    def slow_extender(self, delay: float, name: str = "") -> None:
        """Let extenders (or the named one) take that long to answer from now on."""
        found = [
            extender
            for extender in self.extenders
            if isinstance(extender, SimulatedExtender) and name in ("", extender.name)
        ]
        if not found:
            raise ScenarioError(f'no simulated extender "{name}"; give the scenario one')
        for extender in found:
            extender.delay = delay
            text = f"fault: extender {extender.name} takes {delay:g} s"
            self.tracker.note(self.elapsed(), text, "fault")

    async def restart_scheduler(self, down: float = 0.0) -> None:
        """End the schedulers without warning and start them again `down` seconds later."""
        self.tracker.note(self.elapsed(), "fault: scheduler ends", "fault")
        for process in self.processes:
            await process.stop()
        await asyncio.sleep(down)
        for process in self.processes:
            await process.start()
        self.tracker.note(self.elapsed(), "scheduler started again", "fault")

    async def lose_lease(self, duration: float = 15.0) -> None:
        """Let somebody else hold the scheduler's lease for that long."""
        if not any(process.elects for process in self.processes):
            raise ScenarioError("losing a lease needs an election; set `elect: true`")
        self.tracker.note(self.elapsed(), "fault: another holds the scheduler's lease", "fault")
        self._spawn(hold_lease(self.client, duration, self.now))

    def _spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    def measure(self) -> None:
        """Follow the lengths of the queues."""
        self._spawn(self.tracker.keep_measuring(self.elapsed))

    async def stop_background(self) -> None:
        for task in list(self._background):
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)


def _merged(base: Mapping[str, object], more: Mapping[str, object]) -> dict[str, object]:
    """Options by controller: what is not said stays as it is."""
    merged = dict(base)
    for name, given in more.items():
        before = base.get(name)
        both = isinstance(before, Mapping) and isinstance(given, Mapping)
        merged[name] = {**before, **given} if both else given  # type: ignore[dict-item]
    return merged


@asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[World]:
    """Run a world of the faithful lane while the block runs."""
    async with inhabited(World(settings)) as world:
        yield world


@asynccontextmanager
async def inhabited(world: World) -> AsyncIterator[World]:
    """Start everything that lives in a world, and end it with the block."""
    settings = world.settings
    world.begin()
    await world.api.start()
    watcher = world.store.watch("", after=0)
    following = asyncio.create_task(world.log.follow(watcher))
    try:
        manager = world.manager(_merged(OPTIONS, settings.options))
        async with manager.running(), AsyncExitStack() as stack:
            world.processes = world._processes()
            for process in world.processes:
                await process.start()
                stack.push_async_callback(process.stop, drain=True)
            world.tracker.measure_queues(world.queue_sizes if world.processes else None)
            stack.push_async_callback(world.stop_background)
            if settings.keep:
                world.measure()
            yield world
    finally:
        world.tracker.measure_queues(None)
        await asyncio.sleep(0)
        watcher.close()
        await following
        await world.store.close()
