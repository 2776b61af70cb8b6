"""Several schedulers on one store, every sort of request, deaths at any moment."""

import asyncio
import random
from collections import Counter

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.errors import BayplanError
from bayplan.global_scheduler import writer
from bayplan.global_scheduler.draining import drain
from bayplan.global_scheduler.inventory import Flavor, Host, Inventory, Quota, Site
from bayplan.global_scheduler.ledger import STAGED, Ledger
from bayplan.global_scheduler.placer import DEFAULT_POLICY, Placer
from bayplan.global_scheduler.plugins import in_tree_registry
from bayplan.global_scheduler.service import Allocations
from bayplan.global_scheduler.table import SiteTable
from bayplan.store import MemoryStore
from bayplan.store.errors import Unavailable
from tests.global_scheduler.sites import ask
from tests.global_scheduler.test_service import snapshot, with_id

SITES, ROOM, QUOTA = 6, 4, 9


def world(*, hosts):
    """Sites whose machines are counted by their sum, or on two real hosts each."""
    names = [f"{n}" for n in range(SITES)]
    size = {"count": 2, "name": "h"} if hosts else {}
    each = ROOM // 2 if hosts else ROOM
    return Inventory(
        sites=tuple(Site(f"s{n}", f"r{n}", "z") for n in names),
        hosts=tuple(Host(f"r{n}", "z", "gp", each, 100, **size) for n in names),
        flavors=tuple(Flavor(f"r{n}", "f", 1, 1, "gp") for n in names),
        quotas=(Quota("small", {"replicas": QUOTA}),),
    )


class Wavering(MemoryStore):
    """Takes its time, and sometimes loses an answer, before or after the work."""

    def __init__(self, rng):
        super().__init__()
        self.rng, self.steady = rng, False

    async def transact(self, ops):
        for _ in range(self.rng.randrange(4)):
            await asyncio.sleep(0)
        lost = 0 if self.steady else self.rng.choices((0, 1, 2), (90, 5, 5))[0]
        if lost == 1:
            raise Unavailable("no answer, and nothing was done")
        done = await super().transact(ops)
        if lost == 2:
            raise Unavailable("no answer, but it was done")
        return done


class World:
    """The schedulers, and what they acknowledged."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.inventory = world(hosts=self.rng.random() < 0.5)
        self.store = Wavering(self.rng)
        self.now = 1000.0
        self.born = 0
        self.services = []
        self.held = set()
        self.let_go = set()

    async def bear(self):
        self.born += 1
        service = Allocations(
            self.store,
            self.inventory,
            Placer(DEFAULT_POLICY, in_tree_registry()),
            clock=lambda: self.now,
            name=f"s{self.born}",
            operations=8,
            pause=_soon,
            crowded=self.rng.choice((0, 0, 1000)),
        )
        service.ledger.on_change(lambda record, came: self.let_go.update(record.preempted))
        await service.start()
        self.services.append(service)

    def request(self):
        rng = self.rng
        wanted = with_id(
            ask(
                rng.choice((1, 1, 2, SITES)),
                flavors=("f",),
                count=rng.choice((1, 1, 2)),
                storage={},
                need_eip=False,
                domain=rng.choice(("", "small")),
            )
        )
        begin = rng.choice((0.0, 0.0, 2000.0))
        return msgspec.structs.replace(
            wanted,
            priority=rng.randrange(3),
            preempt=rng.random() < 0.2,
            starts_at=begin,
            ends_at=begin + 500 if begin else 0.0,
        )

    async def act(self):
        rng = self.rng
        service = rng.choice(self.services)
        some = rng.choice(sorted(self.held)) if self.held else ""
        kind = rng.choice(("create",) * 4 + ("all", "release", "resize", "move", "drain", "die"))
        try:
            if kind == "create":
                key = rng.choice(("", f"k{rng.randrange(5)}"))
                record = await service.create(self.request(), key=key, fingerprint=key)
                self.held.add(record.id)
            elif kind == "all":
                records = await service.create_all([self.request() for _ in range(3)])
                self.held.update(record.id for record in records)
            elif kind == "release" and some:
                self.let_go.add(some)
                await service.release(some)
            elif kind == "resize" and some:
                await service.resize(some, rng.randint(1, 4))
            elif kind == "move" and some:
                await service.move(some, {f"s{rng.randrange(SITES)}"})
            elif kind == "drain" and rng.random() < 0.2:
                site = f"s{rng.randrange(SITES)}"
                await drain(service, site)
                await service.open_site(site)
            elif kind == "die" and len(self.services) > 1:
                self.services.remove(service)
                await self.bear()
                await service.stop(0.0)
        except BayplanError:
            pass


async def _soon(seconds):
    await asyncio.sleep(min(seconds, 0.0005))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1 << 32), st.sampled_from((1, 3)))
def test_whatever_several_schedulers_do_nothing_is_oversold_or_forgotten(seed, schedulers):
    looks, writer.STAGE_LOOKS = writer.STAGE_LOOKS, 60
    try:
        asyncio.run(_live(seed, schedulers))
    finally:
        writer.STAGE_LOOKS = looks


async def _live(seed, schedulers):
    lives = World(seed)
    for _ in range(schedulers):
        await lives.bear()
    for _ in range(6):
        await asyncio.gather(*(lives.act() for _ in range(8)))
    lives.store.steady = True
    writer.STAGE_LOOKS = 3
    async with asyncio.timeout(60):
        while (await lives.store.range(STAGED)).items:
            await asyncio.sleep(0.001)
        while any(s.ledger.seen < lives.store.revision for s in lives.services):
            await asyncio.sleep(0.001)
    await _judge(lives)
    for service in lives.services:
        await service.stop()


async def _judge(lives):
    ledger = Ledger(lives.store, SiteTable(lives.inventory))
    await ledger.load()
    taken, timed = Counter(), Counter()
    for record in ledger.records.values():
        later = bool(record.allocation.starts_at)
        for group in record.groups:
            for source, (vcpus, _) in group.charges.takes.items():
                named = group.charges.hosts.get(source, (("", vcpus, 0),))
                for host, part, _ in named:
                    (timed if later else taken)[f"{source} {host}"] += part
    limit = ROOM // 2 if lives.inventory.hosts[0].count else ROOM
    assert max((taken + timed).values(), default=0) <= limit
    replicas = sum(len(r.groups) for r in ledger.records.values() if r.allocation.domain)
    assert replicas <= QUOTA
    keys = Counter(record.key for record in ledger.records.values() if record.key)
    assert max(keys.values(), default=1) == 1
    assert lives.held - lives.let_go <= set(ledger.records)
    for service in lives.services:
        assert set(ledger.records) == set(service.ledger.records)
        assert snapshot(ledger.table) == snapshot(service.table)
        assert service.ledger.by_site.keys() >= {
            group.selected.node_id for r in ledger.records.values() for group in r.groups
        }
