"""Puts the global scheduler together: files, store, HTTP API, and the API server's objects.

Everything runs on one event loop. The inventory is read again when a file changes; a broken file is
reported and the last good inventory stays.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec
import structlog
import uvicorn

from bayplan.client import Client
from bayplan.errors import BayplanError, ConfigError
from bayplan.global_scheduler import files
from bayplan.global_scheduler.dispatch import Dispatcher
from bayplan.global_scheduler.http import Api
from bayplan.global_scheduler.inventory import Inventory
from bayplan.global_scheduler.kinds import in_tree_adapters
from bayplan.global_scheduler.members import Members, read_members
from bayplan.global_scheduler.partition import Partition
from bayplan.global_scheduler.placer import Placer
from bayplan.global_scheduler.placing import Placing
from bayplan.global_scheduler.plugins import in_tree_registry
from bayplan.global_scheduler.resources import ResourceInventory
from bayplan.global_scheduler.service import OPERATIONS, Allocations
from bayplan.store import MemoryStore, SqliteStore, Store

log = structlog.get_logger(__name__)


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


class GlobalScheduler:
    """A running global scheduler; use `running`."""

    def __init__(self, service: Allocations, base: files.Base, options: Options) -> None:
        self.service = service
        self.base = base
        self.options = options
        self.port = 0
        self.placings: list[Placing] = []
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

    async def reread(self, before: files.Change) -> None:
        """Read the files again when they are no longer as they were; until cancelled."""
        directory = self.options.directory
        while True:
            await asyncio.sleep(self.options.reread_seconds)
            try:
                now = await asyncio.to_thread(files.newest_change, directory)
                if now == before:
                    continue
                base, problems = await asyncio.to_thread(files.load, directory)
            except (BayplanError, OSError) as error:  # the folder is away: it may come back
                log.error("inventory cannot be read", problem=str(error))
                continue
            before = now
            for problem in problems:
                log.error("inventory was not taken", problem=str(problem))
            if not problems:
                self.base = base
                self._use()
                log.info("inventory taken", sites=len(base.inventory.sites))


def merged(one: Inventory, other: Inventory) -> Inventory:
    """Two inventories as one."""
    parts = {
        name: getattr(one, name) + getattr(other, name)
        for name in ("sites", "hosts", "flavors", "eip_pools", "volume_pools")
    }
    return Inventory(**parts, volume_types=one.volume_types | other.volume_types)


@asynccontextmanager
async def running(
    options: Options, client: Client | None = None, *, serve: bool = True
) -> AsyncIterator[GlobalScheduler]:
    """Run until the context is left; `client` adds the API server's objects."""
    before = files.newest_change(options.directory)
    base = files.must_load(options.directory)
    placer = Placer(base.policy, in_tree_registry(fake_spot=base.conf.spot_fake))
    async with open_store(options) as (store, limit):
        service = Allocations(
            store, base.inventory, placer, clock=time.time, name=options.name, operations=limit
        )
        await service.start()
        scheduler = GlobalScheduler(service, base, options)
        tasks = [asyncio.create_task(scheduler.reread(before))]
        members = _members(scheduler)
        if members.by_name:
            tasks.append(asyncio.create_task(members.run()))
        if client is not None:
            tasks += _place_objects(scheduler, client)
            tasks.append(asyncio.create_task(Dispatcher(client, members).run()))
            resources = ResourceInventory(client, partial(scheduler.add_inventory, "resources"))
            tasks.append(asyncio.create_task(resources.run()))
        server = await _serve(scheduler) if serve else None
        try:
            yield scheduler
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if server is not None:
                await server()
            await members.close()
            await service.stop()


def _members(scheduler: GlobalScheduler) -> Members:
    """The member clusters of members.yaml."""
    members = Members(partial(scheduler.add_inventory, "members"))
    configs, problems = read_members(scheduler.options.directory)
    if problems:
        raise ConfigError("; ".join(str(problem) for problem in problems))
    members.connect(configs)
    return members


def _place_objects(scheduler: GlobalScheduler, client: Client) -> list[asyncio.Task[None]]:
    options = scheduler.options
    partition = Partition(client, options.name, clock=time.time)
    is_mine = partition.is_mine if options.share else lambda uid: True
    scheduler.placings = [
        Placing(client, scheduler.service, adapter, clock=time.time, is_mine=is_mine)
        for adapter in in_tree_adapters().values()
    ]

    def moved() -> None:
        for placing in scheduler.placings:
            placing.reconsider()

    partition.on_change(moved)
    tasks = [asyncio.create_task(placing.run()) for placing in scheduler.placings]
    if options.share:
        tasks.append(asyncio.create_task(partition.run()))
    return tasks


async def _serve(scheduler: GlobalScheduler) -> Callable[[], Awaitable[None]]:
    """Listen; returns what ends it."""
    options, conf = scheduler.options, scheduler.base.conf
    api = Api(scheduler.service, ttl=conf.ttl_seconds, token=options.token)
    config = uvicorn.Config(
        api.app,
        host=options.host or conf.address,
        port=conf.port if options.port < 0 else options.port,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=5,
        lifespan="off",
    )
    server = uvicorn.Server(config)
    config.load()
    server.lifespan = config.lifespan_class(config)
    try:
        await server.startup()
    except SystemExit:
        where = f"{config.host}:{config.port}"
        raise ConfigError(f"cannot listen on {where}; is the port taken?") from None
    scheduler.port = server.servers[0].sockets[0].getsockname()[1]
    main = asyncio.create_task(server.main_loop())

    async def stop() -> None:
        server.should_exit = True
        await main
        await server.shutdown()

    return stop
