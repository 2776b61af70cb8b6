"""A new inventory that differs little is taken over without building the table anew."""

import random

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.global_scheduler.inventory import Flavor, Site
from bayplan.global_scheduler.placer import DEFAULT_POLICY, NoSite, Placer
from bayplan.global_scheduler.plugins import in_tree_registry
from bayplan.global_scheduler.service import Allocations
from bayplan.global_scheduler.table import SiteTable
from bayplan.store import MemoryStore
from tests.global_scheduler.sites import ask, three_sites
from tests.global_scheduler.test_quick import inventory, request


def columns(table):
    found = {"open": table.open, "eips": table.eip_free}
    for key, pool in table.pools.items():
        for name in ("vcpus", "memory", "free_vcpus", "free_memory"):
            found[f"{key} {name}"] = getattr(pool, name)
    return found | {kind: column.free for kind, column in table.storage.items()}


def changed(choose, before):
    """Other amounts of some hosts, other statuses of some sites."""
    hosts, sites = list(before.hosts), list(before.sites)
    for _ in range(choose(range(1, 4))):
        place = choose(range(len(hosts)))
        hosts[place] = msgspec.structs.replace(
            hosts[place], vcpus=choose((8, 90)), used_vcpus=choose((0, 3)), memory=choose((9, 700))
        )
        place = choose(range(len(sites)))
        status = choose(("Normal", "Offline"))
        sites[place] = msgspec.structs.replace(sites[place], status=status)
    return msgspec.structs.replace(before, hosts=tuple(hosts), sites=tuple(sites))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_an_adjusted_table_is_as_a_new_one(seed):
    choose = random.Random(seed).choice
    before = inventory(choose, 12)
    after = changed(choose, before)
    placer = Placer(DEFAULT_POLICY, in_tree_registry())
    adjusted, fresh = SiteTable(before), SiteTable(after)
    for number in range(6):
        found = placer.decide(adjusted, request(choose, number))
        for placement in () if isinstance(found, NoSite) else found:
            adjusted.apply(placement.charges)
            fresh.apply(placement.charges)

    assert adjusted.adjust(before, after) or any(host.count for host in before.hosts)
    if not any(host.count for host in before.hosts):
        for name, column in columns(fresh).items():
            assert np.array_equal(column, columns(adjusted)[name]), name
        for number in range(4):
            wanted = request(choose, number)
            assert placer.decide(fresh, wanted) == placer.decide(adjusted, wanted)


def test_other_differences_need_a_new_table():
    before = three_sites()
    table = SiteTable(before)
    for changes in (
        {"sites": (*before.sites, Site("s-d", "regB", "az2"))},
        {"sites": (msgspec.structs.replace(before.sites[0], zone="az9"), *before.sites[1:])},
        {"hosts": before.hosts[1:]},
        {"hosts": (msgspec.structs.replace(before.hosts[0], types="hi"), *before.hosts[1:])},
        {"flavors": (*before.flavors, Flavor("regA", "f9", 1, 1, "gp"))},
        {"eip_pools": before.eip_pools[1:]},
    ):
        assert not table.adjust(before, three_sites(**changes))


async def test_a_drained_site_stays_closed_when_the_inventory_changes_a_little():
    before = three_sites()
    placer = Placer(DEFAULT_POLICY, in_tree_registry())
    service = Allocations(MemoryStore(), before, placer, clock=lambda: 0.0)
    await service.start()
    table = service.table
    await service.close_site("s-c")
    await service.create(ask())
    hosts = (msgspec.structs.replace(before.hosts[0], used_vcpus=9), *before.hosts[1:])

    away = [msgspec.structs.replace(site, status="Offline") for site in before.sites]

    for sites in (before.sites, tuple(away), before.sites):  # the drained one is away and back
        service.replace_inventory(three_sites(hosts=hosts, sites=sites))

        assert table is service.table
        assert not table.open[table.row_of("s-c")]
    assert table.open[table.row_of("s-a")]
    await service.stop()
