"""One run: the processes, what a plan does to them, and the calm between and after it.

Nothing here reads the wall clock or an unseeded random number. What must hold is looked at whenever
the clock is about to move, so between any two moments.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import tempfile
from collections.abc import Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from bayplan.apiserver.request import parse_path, parse_query
from bayplan.client import ClientError, Response
from bayplan.client.resources import NODES
from bayplan.clock.virtual import VirtualLoop
from bayplan.dst import faults, work
from bayplan.dst.disk import Disk
from bayplan.dst.invariants import (
    CONVERGE,
    ENDS,
    SOMEWHERE,
    Pods,
    Stock,
    check_leaders,
    check_requests,
    unfinished,
)
from bayplan.dst.network import Network
from bayplan.dst.outcries import heard
from bayplan.dst.plan import STEPS, Step, healed_at, plan, thorough
from bayplan.dst.processes import (
    ApiProcess,
    ControllersPart,
    GlobalProcess,
    Part,
    Process,
    SchedulerPart,
)
from bayplan.dst.registers import Registers
from bayplan.dst.truth import Broken, Meta, Truth, WatchCheck
from bayplan.global_scheduler.inventory import Flavor, Inventory, Site
from bayplan.global_scheduler.inventory import Host as Machines
from bayplan.global_scheduler.table import SiteTable
from bayplan.sim.extender import SimulatedExtender
from bayplan.sim.objects import SIMULATED, node

CALM = 120.0  # seconds until all must be well
SETTLED = 20.0  # seconds for which it must stay so; longer than a lease
GOOD_SECONDS = 5.0
WRITES = ("POST", "PUT", "PATCH", "DELETE")
SITES = Inventory(
    sites=tuple(Site(f"s-{n}", "r", f"az{n}") for n in range(2)),
    hosts=tuple(Machines("r", f"az{n}", "gp", 16, 64) for n in range(2)),
    flavors=(Flavor("r", "f4", 4, 8, "gp"), Flavor("r", "f2", 2, 4, "gp")),
)


class _Details(msgspec.Struct):
    uid: str = ""


class _Answer(msgspec.Struct):
    """What was written, or the Status of a deletion."""

    kind: str
    metadata: Meta
    details: _Details = msgspec.field(default_factory=_Details)


class World:
    """One run of one plan."""

    def __init__(self, seed: int, steps: Sequence[Step], root: Path) -> None:
        self.seed, self.steps = seed, steps
        self.truth, self.sold = Truth(), Truth()
        self.pods = Pods(self.truth)
        self.stock = Stock(self.sold, SiteTable(SITES))
        self.network = Network(self._rng("network"), self._tap)
        self.disks = [Disk(root / name, self._rng(name)) for name in ("api", "global")]
        self.api = ApiProcess(self.disks[0], self.truth, self._rng("ids"))
        self.extender = SimulatedExtender("slow", filter=lambda pod, node: "")
        rng = self._rng("extender")
        used = (self.extender,) if rng.random() < 0.3 else ()
        self.extender.ignorable = rng.random() < 0.5
        self.schedulers = [
            SchedulerPart(f"scheduler-{n}", self.network, self.api, self._told, used)
            for n in range(2)
        ]
        self.controllers = ControllersPart("controllers", self.network, self.api, self._told)
        self.controllers.thorough = thorough(seed)
        self.globals = GlobalProcess(self.disks[1], self.sold, SITES, self._rng("stages"))
        self.users = [Part(f"user-{n}", self.network, self.api, self._told) for n in range(3)]
        self.registers = Registers()
        self.trace: list[str] = []
        self.serial = 0
        self.broken: Broken | None = None
        self._tasks: dict[asyncio.Task[None], str] = {}
        self._next_look = 0.0

    def _rng(self, name: str) -> random.Random:
        return random.Random(f"{self.seed}/{name}")

    @property
    def processes(self) -> list[Process]:
        return [self.api, *self.schedulers, self.controllers, self.globals]

    # -- the run

    async def run(self) -> None:
        """Do what the plan says, let all recover on the way, and look whether they do."""
        loop = asyncio.get_running_loop()
        for process in self.processes:
            await process.start()
        for _ in range(2):
            await self.add_node(4)
        healed = healed_at(self.seed)
        await self._play(step for step in self.steps if step.at < healed)
        await self._recover()
        late = loop.time() - healed
        await self._play((step for step in self.steps if step.at >= healed), late)
        await self._calm()
        self._check_end()

    async def _play(self, steps: Iterable[Step], late: float = 0.0) -> None:
        loop = asyncio.get_running_loop()
        for step in steps:
            await asyncio.sleep(max(0.0, step.at + late - loop.time()))
            act = getattr(work, step.what, None) or getattr(faults, step.what)
            self.spawn(self._act(act, step), step.what)

    async def _act(self, act: Act, step: Step) -> None:
        try:
            said = await act(self, random.Random(step.salt))
        except ClientError as problem:
            said = f"{type(problem).__name__}"
        self.trace.append(f"{step.at:7.3f} {step.what}: {said}")

    def spawn(self, coroutine: Coroutine[Any, Any, None], what: str) -> None:
        """Let something happen beside the rest."""
        self._tasks[asyncio.ensure_future(coroutine)] = what

    async def _recover(self) -> None:
        """End all faults: from here everything must come right by itself."""
        for task in list(self._tasks):  # outages that are under way end first
            await asyncio.wait({task})
        self.network.heal()
        self.extender.delay = 0.0
        for disk in self.disks:
            disk.full, disk.errors, disk.latency = False, 0.0, 0.002
        for _ in range(1 + len(self.steps) // STEPS):  # room for all that was asked for
            await self.add_node(100)
        for key in [key for key in self.truth.now if key.startswith("core/nodes/")]:
            await self._bring_back(key.rpartition("/")[2])

    async def _calm(self) -> None:
        """Wait until all is well and stays so; what is not well after CALM is broken."""
        loop = asyncio.get_running_loop()
        end = loop.time() + CALM
        well_until = end if thorough(self.seed) else loop.time() + SETTLED
        while loop.time() < min(well_until, end):
            await asyncio.sleep(GOOD_SECONDS)
            if not thorough(self.seed) and self._left() is not None:
                well_until = loop.time() + SETTLED

    async def _bring_back(self, name: str) -> None:
        await self._insist(
            lambda: (
                self.users[0]
                .client()
                .patch(NODES, name, {"metadata": {"annotations": {SIMULATED: "true"}}})
            )
        )

    async def add_node(self, cpu: int) -> None:
        self.serial += 1
        name = f"n{self.serial}"
        made = node(name, cpu=cpu, memory="64Gi", pods=100)
        await self._insist(lambda: self.users[0].client().create(NODES, made))

    async def _insist(self, ask: Callable[[], Coroutine[Any, Any, object]]) -> None:
        for _ in range(20):
            try:
                await ask()
                return
            except ClientError:
                await asyncio.sleep(1.0)

    # -- what must hold

    def look(self) -> None:
        """Check what holds at every moment; called before the clock moves."""
        self.truth.drain()
        self.sold.drain()
        if self.broken is not None:
            raise self.broken
        now = asyncio.get_event_loop().time()
        check_leaders(part.name for part in self.schedulers if part.leads)
        if now >= self._next_look:
            self._next_look = now + GOOD_SECONDS
            self._look_closely(now)

    def _look_closely(self, now: float) -> None:
        check_requests(self.api.host, now)
        for task in self._tasks:
            if task.done() and not task.cancelled() and task.exception():
                raise task.exception()  # type: ignore[misc]
        for part in self.schedulers:
            part.check()
            scheduler = part.process.scheduler
            if scheduler is not None and part.up and not scheduler.waits_aside:
                try:
                    scheduler.core.validate()
                except AssertionError as found:
                    raise Broken(SOMEWHERE, f"{part.name}: {found}") from found

    def _check_end(self) -> None:
        self.look()
        if left := self._left():
            raise left
        self.registers.check()

    def _left(self) -> Broken | None:
        """Say what is not well yet: in the calm all requests end, and everybody knows the same."""
        waiting = [what for task, what in self._tasks.items() if not task.done()]
        if waiting:
            return Broken(ENDS, f"still waiting: {', '.join(waiting)}")
        if forgotten := self.pods.unbound():
            return Broken(SOMEWHERE, f"{', '.join(forgotten)}: {self._tell(forgotten[0])}")
        if left := unfinished(self.truth):
            return Broken(CONVERGE, "; ".join(left))
        return self._other_caches()

    def _other_caches(self) -> Broken | None:
        stored = self.pods.running()
        for part in self.schedulers:
            scheduler = part.process.scheduler
            pods = () if scheduler is None else scheduler.pods()
            known = {pod.key: pod.metadata.resource_version for pod in pods}
            if known != stored:
                odd = sorted(dict(known.items() ^ stored.items()))
                return Broken(SOMEWHERE, f"{part.name} does not know the same pods: {odd}")
        kept = {key for key in self.sold.now if key.startswith("/global/allocations/")}
        for service in self.globals.services:
            known_here = {f"/global/allocations/{name}" for name in service.ledger.records}
            if known_here != kept:
                return Broken(CONVERGE, f"global scheduler {service.name} knows other allocations")
        return None

    def _tell(self, key: str) -> str:
        told = []
        for part in self.schedulers:
            scheduler = part.process.scheduler
            if scheduler is not None:
                leads = "leads" if part.leads else "waits"
                story = "; ".join(str(note) for note in scheduler.core.story(key))
                told.append(f"{part.name} {leads}: {scheduler.core.place_of(key)} {story}")
        return " | ".join(told)

    def _told(self, method: str, answer: Response) -> None:
        """See what a client is told about its write."""
        if method not in WRITES or answer.status >= 300:
            return
        told = msgspec.json.decode(answer.body, type=_Answer)
        if told.kind != "Status":
            self.noted(lambda: self.truth.acknowledged(told.metadata, method))
        elif method == "DELETE":
            self.noted(lambda: self.truth.deleted(told.details.uid))

    def _tap(self, target: str) -> Callable[[bytes], None] | None:
        path, _, text = target.partition("?")
        query = parse_query(text.encode())
        found = parse_path(path)
        after = query.get("resourceVersion", "0")
        if found is None or self.api.server is None or after in ("", "0"):
            return None
        kind = self.api.server.backend.registry.get(found.group, found.version, found.resource)
        if kind is None or query.get("labelSelector") or query.get("fieldSelector"):
            return None
        prefix = self.api.server.backend.codec(kind).collection(found.namespace)
        check = WatchCheck(self.truth, prefix, int(after))
        return lambda chunk: self.noted(lambda: check(chunk))

    def noted(self, look: Callable[[], None]) -> None:
        """What is found in somebody else's task must not be swallowed there."""
        try:
            look()
        except Broken as broken:
            self.breaks(broken)

    def breaks(self, broken: Broken) -> None:
        """Remember what broke first; the next look raises it."""
        self.broken = self.broken or broken

    def digest(self) -> str:
        """Equal for equal runs."""
        return hashlib.sha256(repr((self.truth.log, self.sold.log)).encode()).hexdigest()[:16]


Act = Callable[[World, random.Random], Coroutine[Any, Any, str]]


class CheckedLoop(VirtualLoop):
    """Calls `look` whenever the clock is about to move."""

    look: Callable[[], None] | None = None

    def pass_time(self, timeout: float) -> None:
        if self.look is not None:
            look, self.look = self.look, None
            look()
            self.look = look
        super().pass_time(timeout)


class Ending(msgspec.Struct):
    """How a run ended."""

    failure: BaseException | None
    trace: list[str]
    digest: str
    changes: int

    @property
    def invariant(self) -> str:
        """Which invariant was broken, or what was raised."""
        if isinstance(self.failure, Broken):
            return self.failure.invariant
        return type(self.failure).__name__ if self.failure else ""


def run(seed: int, steps: Sequence[Step] | None = None) -> Ending:
    """Run a seed (or some of its steps) to its end or its failure."""
    shm = Path("/dev/shm")
    with tempfile.TemporaryDirectory(
        prefix="bayplan-dst-", dir=shm if shm.is_dir() else None
    ) as folder:
        for name in ("api", "global"):
            (Path(folder) / name / "0").mkdir(parents=True)
        world = World(seed, plan(seed) if steps is None else steps, Path(folder))
        failure: BaseException | None = None
        with heard(world.breaks), asyncio.Runner(loop_factory=CheckedLoop) as runner:
            loop = runner.get_loop()
            assert isinstance(loop, CheckedLoop)
            loop.look = world.look
            try:
                runner.run(world.run())
            except (Exception, asyncio.CancelledError) as problem:
                failure = problem
            loop.look = None
            for link in world.network.links.values():
                link.kill()
        return Ending(failure, world.trace, world.digest(), len(world.truth))
