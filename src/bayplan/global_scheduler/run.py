"""Puts the global scheduler together: files, store, HTTP API, and the API server's objects.

Everything runs on one event loop. Inventory, policy and members are read again when a file changes;
a broken file, or a folder that is away, is reported once and the last good state stays. Background
work is supervised: what fails is begun again.
"""

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec
import structlog

from bayplan import asgi
from bayplan.client import Client
from bayplan.errors import BayplanError, ConfigError
from bayplan.global_scheduler import files
from bayplan.global_scheduler.dispatch import Dispatcher
from bayplan.global_scheduler.draining import Lost
from bayplan.global_scheduler.evicting import Evictions
from bayplan.global_scheduler.http import Api
from bayplan.global_scheduler.inventory import Inventory, merged
from bayplan.global_scheduler.kinds import in_tree_adapters
from bayplan.global_scheduler.members import MemberConfig, Members, read_members
from bayplan.global_scheduler.partition import Partition
from bayplan.global_scheduler.placer import Placer
from bayplan.global_scheduler.placing import Placing
from bayplan.global_scheduler.plugins import in_tree_registry
from bayplan.global_scheduler.resources import ResourceInventory
from bayplan.global_scheduler.service import Allocations
from bayplan.global_scheduler.supervise import keep
from bayplan.global_scheduler.writer import OPERATIONS
from bayplan.listening import listen
from bayplan.store import MemoryStore, SqliteStore, Store
from bayplan.supervised import end

log = structlog.get_logger(__name__)

Work = Callable[[], Awaitable[None]]
GRACE_SECONDS = 2
"""For who is being answered when the end has come."""


class Options(msgspec.Struct, frozen=True):
    """How to run."""

    directory: Path
    host: str = ""
    port: int = -1
    store: str = "sqlite"
    data: Path | None = None
    etcd_servers: tuple[str, ...] = ()
    token: str = ""
    name: str = "global-scheduler"
    reread_seconds: float = 2.0
    """How often files are looked at for changes."""
    share: bool = False
    """Share objects with other global schedulers on the same API server."""


@asynccontextmanager
async def open_store(options: Options) -> AsyncIterator[tuple[Store, int]]:
    """The store, and how many operations one of its transactions takes."""
    store: Store
    limit = OPERATIONS
    if options.store == "memory":
        store = MemoryStore()
    elif options.store == "etcd":
        from bayplan.store.etcd import EtcdStore
        from bayplan.store.etcd_batch import MAX_OPS

        if not options.etcd_servers:
            raise ConfigError(
                "--store etcd needs --etcd-servers, for example http://127.0.0.1:2379"
            )
        store = await EtcdStore.open(options.etcd_servers)
        limit = MAX_OPS
    else:
        data = options.data or options.directory / "data"
        store = await SqliteStore.open(data)
    try:
        yield store, limit
    finally:
        await store.close()


class _BrokenFiles(ConfigError):
    """The files have problems; only another change can mend them."""


class GlobalScheduler:
    """A running global scheduler; use `running`."""

    def __init__(self, service: Allocations, base: files.Base, options: Options) -> None:
        self.service = service
        self.base = base
        self.options = options
        self.seen: tuple[files.Change, files.Change] = ((), ())
        """The files, and kubeconfigs of members, as they were when they were read last."""
        self.port = 0
        self.placings: list[Placing] = []
        self.members = Members(partial(self.add_inventory, "members"))
        self._more: dict[str, Inventory] = {}

    def add_inventory(self, source: str, more: Inventory) -> None:
        """Go on with what another source (resources, members) now says, beside the files."""
        if more != self._more.get(source):
            self._more[source] = more
            self._use()

    def _use(self) -> None:
        total = self.base.inventory
        for _, more in sorted(self._more.items()):
            total = merged(total, more)
        self.service.replace_inventory(total)
        for placing in self.placings:
            placing.hint()

    async def reread(self) -> None:
        """Read the files again when they are no longer as they were; until cancelled."""
        directory = self.options.directory
        said = ""
        while True:
            await asyncio.sleep(self.options.reread_seconds)
            try:
                now = await asyncio.to_thread(self._look)
                if now != self.seen:
                    await self.take(*await asyncio.to_thread(_read, directory))
                    now = now[0], self.members.kubeconfigs
            except _BrokenFiles as error:
                log.error("inventory was not taken", problem=str(error))
                self.seen, said = now, ""
                continue
            except (BayplanError, OSError) as error:  # it may come back: go on with what there is
                if str(error) != said:
                    log.error("inventory was not taken", problem=str(error))
                said = str(error)
                continue
            if said:
                log.info("inventory can be read again")
            self.seen, said = now, ""

    def _look(self) -> tuple[files.Change, files.Change]:
        kubeconfigs = tuple(files.last_change(path) for path, _, _ in self.members.kubeconfigs)
        return files.newest_change(self.options.directory), kubeconfigs

    async def take(self, base: files.Base, placer: Placer, configs: list[MemberConfig]) -> None:
        """Go on with other files: all of them, or none when one cannot be used."""
        await self.members.take(configs)
        self.base = base
        self.service.placer = placer
        self._use()
        log.info("inventory taken", sites=len(base.inventory.sites), members=len(configs))


def _read(directory: Path) -> tuple[files.Base, Placer, list[MemberConfig]]:
    """Everything in the directory; raises one error that lists all problems."""
    base, problems = files.load(directory)
    configs, more = read_members(directory)
    if problems + more:
        raise _BrokenFiles("; ".join(str(problem) for problem in (problems + more)[:20]))
    try:
        placer = Placer(base.policy, in_tree_registry(fake_spot=base.conf.spot_fake))
    except ConfigError as problem:
        raise _BrokenFiles(str(problem)) from problem
    return base, placer, configs


@asynccontextmanager
async def running(options: Options, client: Client | None = None) -> AsyncIterator[GlobalScheduler]:
    """Run until the context is left; `client` adds the API server's objects."""
    before = files.newest_change(options.directory)
    base, placer, configs = _read(options.directory)
    async with open_store(options) as (store, limit):
        service = Allocations(
            store,
            base.inventory,
            placer,
            clock=time.time,
            name=options.name,
            operations=limit,
        )
        await service.start()
        scheduler = GlobalScheduler(service, base, options)
        tasks: list[asyncio.Task[None]] = []
        try:
            await scheduler.members.take(configs)
            scheduler.seen = before, scheduler.members.kubeconfigs
            for name, work in _background(scheduler, client).items():
                tasks.append(asyncio.create_task(keep(name, work)))
            gc.freeze()  # inventory and records stay; the collector need not look at them again
            stop = await _serve(scheduler)
            try:
                yield scheduler
            finally:
                await stop()
        finally:
            await end(*tasks)
            await scheduler.members.close()
            await service.stop()


def _background(scheduler: GlobalScheduler, client: Client | None) -> dict[str, Work]:
    """All that goes on beside the requests, by what to call it."""
    work: dict[str, Work] = {
        "reading the files": scheduler.reread,
        "watching members": scheduler.members.run,
        "replacing what was lost": Lost(
            scheduler.service,
            lambda: scheduler.base.conf.replace_lost_after,
            clock=time.monotonic,
            pause=asyncio.sleep,
        ).run,
    }
    if client is not None:
        resources = ResourceInventory(client, partial(scheduler.add_inventory, "resources"))
        work |= _place_objects(scheduler, client)
        work["dispatching"] = Dispatcher(client, scheduler.members).run
        work["watching the inventory"] = resources.run
    return work


def _place_objects(scheduler: GlobalScheduler, client: Client) -> dict[str, Work]:
    options = scheduler.options
    partition = Partition(client, options.name, clock=time.time)
    is_mine = partition.is_mine if options.share else lambda uid: True
    placings = {
        f"placing {kind}": Placing(
            client, scheduler.service, adapter, clock=time.time, is_mine=is_mine
        )
        for kind, adapter in in_tree_adapters().items()
    }
    scheduler.placings = list(placings.values())
    scheduler.service.evict = Evictions(client, placings["placing pods"].informer).evict

    def moved() -> None:
        for placing in scheduler.placings:
            placing.reconsider()

    partition.on_change(moved)
    work: dict[str, Work] = {name: placing.run for name, placing in placings.items()}
    if options.share:
        work["sharing objects"] = partition.run
    return work


async def _serve(scheduler: GlobalScheduler) -> Callable[[], Awaitable[None]]:
    """Listen; returns what ends it."""
    options, conf = scheduler.options, scheduler.base.conf
    api = Api(scheduler.service, ttl=conf.ttl_seconds, token=options.token)
    host = options.host or conf.address
    port = conf.port if options.port < 0 else options.port
    listener = listen(host, port, "--bind")
    scheduler.port = listener.getsockname()[1]
    settings = asgi.config(api, timeout_graceful_shutdown=GRACE_SECONDS, lifespan="off")
    return await asgi.begin(settings, listener)
