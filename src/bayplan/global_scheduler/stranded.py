"""What is free on listed hosts and yet of no use: no flavor of the place fits there any more.

For each flavor it also tells how many machines the sum of what is free would give, and how many
really fit, host by host: the difference is what fragmentation costs.
"""

from collections.abc import Iterator

import msgspec
import numpy as np

from bayplan.global_scheduler.hosts import HostRoom
from bayplan.global_scheduler.table import SiteTable


class Fit(msgspec.Struct, frozen=True):
    """How many machines of a flavor: by the sum of what is free, and on hosts."""

    flavor_id: str
    by_sum: int
    on_hosts: int


class Stranded(msgspec.Struct, frozen=True):
    """The hosts of one source; `site` is the first that refers to it."""

    site: str
    source: str
    hosts: int
    free_vcpus: int
    free_memory: int
    stranded_vcpus: int
    stranded_memory: int
    flavors: tuple[Fit, ...]


def stranded(table: SiteTable) -> Iterator[Stranded]:
    """One entry for each source that lists hosts, by site."""
    first: dict[str, tuple[int, str]] = {}
    for key, pool in table.pools.items():
        if pool.hosts is not None:
            for row, source in pool.sources.items():
                if pool.hosts.listed[pool.hosts.numbers[source]]:
                    first[source] = min(first.get(source, (row, key)), (row, key))
    for source, (row, key) in sorted(first.items(), key=lambda item: item[1]):
        room = table.pools[key].hosts
        assert room is not None
        yield _of(table, row, source, room, table.pools[key].types)


def _of(table: SiteTable, row: int, source: str, room: HostRoom, types: frozenset[str]) -> Stranded:
    number = room.numbers[source]
    span = room.span(number)
    free = np.maximum(room.free[:, span], 0)
    usable = np.zeros(free.shape[1], np.bool_)
    total = int(free[0].sum()), int(free[1].sum())
    fits = []
    for identity, (vcpus, memory) in sorted(sizes_at(table, row, types).items()):
        each = room.per_host(span, vcpus, memory)
        usable |= each > 0
        by_sum = min(total[0] // vcpus, total[1] // memory)
        fits.append(Fit(identity, by_sum, int(each.sum())))
    lost = int(free[0, ~usable].sum()), int(free[1, ~usable].sum())
    site = table.sites[row].id
    return Stranded(site, source, int(room.listed[number]), *total, *lost, tuple(fits))


def sizes_at(table: SiteTable, row: int, types: frozenset[str]) -> dict[str, tuple[int, int]]:
    """The flavors that are sold at a row for these types."""
    region = table.sites[row].region
    return {
        identity: (flavor.vcpus, flavor.memory)
        for identity, by_region in table.flavors.items()
        if (flavor := by_region.get(region)) is not None
        and flavor.type in types
        and table.flavor(identity).sold[row]
    }


def lines(found: list[Stranded]) -> Iterator[str]:
    """The report as text."""
    if not found:
        yield "no site lists hosts; host_count or pack_hosts in the inventory does"
    for entry in found:
        share = 100 * entry.stranded_vcpus // max(entry.free_vcpus, 1)
        yield (
            f"{entry.site}  {entry.source}: {entry.hosts} hosts, {entry.free_vcpus} vcpus and "
            f"{entry.free_memory} memory free, stranded {entry.stranded_vcpus} ({share} %) and "
            f"{entry.stranded_memory}"
        )
        for fit in entry.flavors:
            yield f"  {fit.flavor_id}: {fit.on_hosts} on hosts, {fit.by_sum} by the sum"
