"""Global schedulers as processes on a real etcd, killed at work."""

import asyncio
import contextlib
import multiprocessing
import random
import time
from collections import Counter
from multiprocessing.connection import wait

import pytest

from bayplan.errors import BayplanError
from bayplan.global_scheduler.ledger import STAGED, Ledger
from bayplan.global_scheduler.placer import DEFAULT_POLICY, Placer
from bayplan.global_scheduler.plugins import in_tree_registry
from bayplan.global_scheduler.service import Allocations
from bayplan.global_scheduler.table import SiteTable
from bayplan.store.etcd import EtcdStore
from bayplan.store.etcd_batch import MAX_OPS
from bayplan.testing.etcd import find_etcd, start_etcd
from tests.global_scheduler.sites import ask
from tests.global_scheduler.test_service import with_id
from tests.global_scheduler.test_several import ROOM, SITES, world

pytestmark = [
    pytest.mark.kube,
    pytest.mark.slow,
    pytest.mark.skipif(find_etcd() is None, reason="there is no etcd"),
]


async def opened(url, name):
    store = await EtcdStore.open([url])
    placer = Placer(DEFAULT_POLICY, in_tree_registry())
    service = Allocations(
        store, world(hosts=True), placer, clock=time.time, name=name, operations=MAX_OPS
    )
    await service.start()
    return store, service


def work(url, number, told):
    """Take and give back, wide and narrow, until somebody ends it.

    What the killed had taken stays theirs, so where nothing is left any one is given back.
    """

    async def forever():
        _, service = await opened(url, f"s{number}")
        rng = random.Random(number)

        async def one():
            while True:
                replicas = rng.choice((1, 1, 2, SITES))
                wanted = ask(replicas, flavors=("f",), count=1, storage={}, need_eip=False)
                try:
                    record = await service.create(with_id(wanted))
                    told.send(record.id)
                    await asyncio.sleep(rng.random() / 50)
                    await service.release(record.id)
                except BayplanError:
                    await asyncio.sleep(0.01)
                    for found in list(service.ledger.records)[:1]:
                        with contextlib.suppress(BayplanError):
                            await service.release(found)

        await asyncio.gather(*(one() for _ in range(6)))

    asyncio.run(forever())


class Killable:
    """A scheduler as a process, and a pipe of its own on which it tells what it placed.

    A queue that all write to would be locked for ever by the one that is killed while writing.
    """

    def __init__(self, url, number):
        spawn = multiprocessing.get_context("spawn")
        self.heard, told = spawn.Pipe(duplex=False)
        self.process = spawn.Process(target=work, args=(url, number, told))
        self.process.start()
        told.close()

    def kill(self):
        self.process.kill()
        self.process.join()


def hear(workers, count):
    """Wait until the workers have placed `count` more."""
    while count > 0:
        ready = wait([worker.heard for worker in workers], timeout=60)
        assert ready, "nothing was placed for a minute"
        for pipe in ready:
            pipe.recv()
        count -= len(ready)


def test_schedulers_that_are_killed_leave_nothing_oversold_or_half_done(tmp_path):
    with start_etcd(tmp_path) as server:
        workers = [Killable(server.url, number) for number in range(4)]
        try:
            hear(workers, 40)
            for gone, worker in enumerate(workers, start=1):  # in the midst of what it does
                worker.kill()
                if left := workers[gone:]:
                    hear(left, 20)
        finally:
            for worker in workers:
                worker.kill()
        asyncio.run(_judge(server.url))


async def _judge(url):
    store, service = await opened(url, "last")
    async with asyncio.timeout(60):
        while (await store.range(STAGED)).items:
            await asyncio.sleep(0.2)
    ledger = Ledger(store, SiteTable(world(hosts=True)))
    await ledger.load()
    taken = Counter()
    for record in ledger.records.values():
        assert record.allocation.replicas == len(record.groups)
        for group in record.groups:
            for source, hosts in group.charges.hosts.items():
                taken.update({f"{source} {name}": vcpus for name, vcpus, _ in hosts})

    assert max(taken.values()) <= ROOM // 2
    left = SITES * ROOM - sum(len(record.groups) for record in ledger.records.values())
    if left:
        wanted = ask(left, flavors=("f",), count=1, storage={}, need_eip=False)
        assert left == len((await service.create(with_id(wanted))).groups)
    await service.stop()
    await store.close()
