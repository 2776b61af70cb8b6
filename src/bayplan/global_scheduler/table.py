"""Sites as columns: one row a site, one array a fact, kept up to date as stacks come and go.

Rows are in order of site id, so that ties between equal scores always go to the smaller id.
Machines are counted by *pool*: all hosts of a site whose `resource_type` text is the same, such as
`gp||hi-mem`, which serves flavors of type `gp` and of type `hi-mem`. What is free belongs to
sources (see `sources`); a column shows at each row what the row's source has, so all rows that
share a source move together. What Bayplan placed is added to what the inventory says is used, so a
new inventory never forgets a placement.

What it does not do: decide, or remember allocations (`placer`, `ledger`).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from bayplan.global_scheduler.hosts import HostRoom
from bayplan.global_scheduler.inventory import Flavor, Host, Inventory, Site
from bayplan.global_scheduler.sources import (
    EIPS,
    HOSTS,
    OWN,
    SPOT,
    VOLUMES,
    Charges,
    source_id,
    spot_id,
)

IntArray = npt.NDArray[np.int64]
CodeArray = npt.NDArray[np.int32]
BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]
LabelKey = frozenset[tuple[str, str]]
Slot = tuple[tuple[IntArray, ...], "int | IntArray"]
"""Where a source's amounts stand: the columns, and the rows that share it."""

T = TypeVar("T")
NO_POOL = -1
TOUCHES_KEPT = 10_000
_NO_ROWS = (f"{EIPS}/", f"{SPOT}/")
"""Sources that no column of machines or volumes shows."""
FACTS = ("region", "zone", "operator", "country", "area", "province", "city")


class Pool(msgspec.Struct):
    """Machines of one kind, one entry a site; `sources` has the source of each row.

    `hosts` is there when some of its sources list real hosts.
    """

    types: frozenset[str]
    sources: dict[int, str]
    vcpus: IntArray
    memory: IntArray
    free_vcpus: IntArray
    free_memory: IntArray
    hosts: HostRoom | None = None

    def machines_at(self, row: int, vcpus: int, memory: int) -> int:
        """How many machines of a size a site takes now."""
        if self.hosts is not None and row in self.sources:
            span = self.hosts.span(self.hosts.numbers[self.sources[row]])
            return int(self.hosts.per_host(span, vcpus, memory).sum())
        free = self.free_vcpus[row] // vcpus, self.free_memory[row] // memory
        return max(0, int(min(free)))


class Storage(msgspec.Struct):
    """Volumes of one type in GB, one entry a site; `there` marks sites that have the type."""

    total: IntArray
    free: IntArray
    there: BoolArray


class FlavorColumns(msgspec.Struct):
    """One flavor over all sites: where it is sold, and its size by resource type.

    A size is a number where all regions agree, else an array with zeros outside the type.
    """

    sold: BoolArray
    sizes: dict[str, tuple[int | IntArray, int | IntArray]]
    price: FloatArray | None = None
    """What a machine costs an hour, not a number where that is not known; made when needed."""


class SiteTable:
    """All sites; see the module's text."""

    def __init__(self, inventory: Inventory) -> None:
        sites = sorted(_with_unknown_sites(inventory), key=lambda site: site.id)
        self.sites = sites
        self.count = len(sites)
        self.volume_types = inventory.volume_types
        self._row = {site.id: row for row, site in enumerate(sites)}
        self._codes: dict[str, int] = {"": 0}
        self.facts: dict[str, CodeArray] = {
            fact: np.fromiter(
                (self._code(getattr(site, fact)) for site in sites), np.int32, self.count
            )
            for fact in FACTS
        }
        self.open: BoolArray = np.fromiter((s.open for s in sites), np.bool_, self.count)
        self.exclusive = {row: s.domains for row, s in enumerate(sites) if s.domains is not None}
        self._rows_of_region = _group(self.facts["region"])
        self._place = _rows_by_place(sites)
        self._slots: dict[str, Slot] = {}
        self.epoch = 0
        """Moves when what was kept about the table must be thrown away."""
        self.touched: list[int | IntArray] = []
        """Rows whose machines or volumes changed in this epoch, as they did."""
        self._latency: dict[str, FloatArray] = {}
        self.quotas = {quota.domain: quota for quota in inventory.quotas}
        self._lay_out_machines(inventory)
        self._lay_out_spot()
        self._lay_out_storage(inventory)
        self._lay_out_addresses(inventory)
        self._lay_out_flavors(inventory.flavors)
        self.stacks: defaultdict[LabelKey, dict[int, int]] = defaultdict(dict)
        """How many stacks with these labels each row has."""

    def _code(self, text: str) -> int:
        return self._codes.setdefault(text, len(self._codes))

    def code_of(self, text: str) -> int:
        """The code of a fact's value; -1 when no site has it."""
        return self._codes.get(text, -1)

    def row_of(self, site_id: str) -> int | None:
        return self._row.get(site_id)

    def close(self, site_id: str, *, closed: bool = True) -> None:
        """Take nothing more on a site, or open it again if its status allows."""
        row = self._row.get(site_id)
        if row is not None:
            self.open[row] = not closed and self.sites[row].open
            self._new_epoch()

    def _new_epoch(self) -> None:
        self.epoch += 1
        self.touched.clear()

    def _touch(self, at: "int | IntArray") -> None:
        if len(self.touched) >= TOUCHES_KEPT:
            self._new_epoch()
        self.touched.append(at)

    def adjust(self, old: Inventory, new: Inventory) -> bool:
        """Go on with a new inventory if only amounts of hosts and statuses differ; else False.

        What was placed stays charged, so this costs what changed, not what is placed.
        """
        same = ("flavors", "eip_pools", "volume_pools", "volume_types", "quotas")
        if any(getattr(old, name) != getattr(new, name) for name in same):
            return False
        sites, hosts = _changed(old.sites, new.sites), _changed(old.hosts, new.hosts)
        if sites is None or hosts is None:
            return False
        known = all(self.sites[self._row[a.id]] == a == _like(b, a, "status") for a, b in sites)
        amounts = ("vcpus", "memory", "used_vcpus", "used_memory")
        if not known or any(a.count or a != _like(b, a, *amounts) for a, b in hosts):
            return False
        sources = [self._source_of(host) for host, _ in hosts]
        if any(source in self._rooms or source not in self._slots for source in sources):
            return False
        for _, site in sites:
            self.sites[self._row[site.id]] = site
            self.open[self._row[site.id]] = site.open
        for source, (before, after) in zip(sources, hosts, strict=True):
            pool = self.pools[after.types]
            columns = (pool.vcpus, pool.memory, pool.free_vcpus, pool.free_memory)
            rows = self._slots[source][1]
            more = zip(columns, _amounts([after]), _amounts([before]), strict=True)
            for column, now, then in more:
                column[rows] += now - then
        self._new_epoch()
        return True

    def _source_of(self, host: Host) -> str:
        if host.site in self._row:
            return source_id(OWN, host.site, host.types)
        return source_id(HOSTS, host.region, host.zone, host.types)

    def rows_of_region(self, region: str) -> IntArray:
        """The rows of a region, in order."""
        return self._rows_of_region.get(self.code_of(region), np.empty(0, np.int64))

    def _lay_out_machines(self, inventory: Inventory) -> None:
        """Hosts that name no site serve the sites of their place without such hosts themselves."""
        self.pools: dict[str, Pool] = {}
        hosts: dict[str, dict[str, list[Host]]] = {}
        for (site, region, zone, types), group in _host_groups(inventory, self._row).items():
            pool = self.pools.get(types)
            if pool is None:
                one, two, three, four = (np.zeros(self.count, np.int64) for _ in range(4))
                served = frozenset(types.split("||"))
                pool = self.pools[types] = Pool(served, {}, one, two, three, four)
            if site:
                source, rows = source_id(OWN, site, types), [self._row[site]]
            else:
                source = source_id(HOSTS, region, zone, types)
                rows = [row for row in self._place[(region, zone)] if row not in pool.sources]
            pool.sources.update(dict.fromkeys(rows, source))
            columns = (pool.vcpus, pool.memory, pool.free_vcpus, pool.free_memory)
            self._add_source(source, columns[2:], rows)
            for column, amount in zip(columns, _amounts(group), strict=True):
                column[rows] = amount
            hosts.setdefault(types, {})[source] = group
        self._rooms: dict[str, HostRoom] = {}
        """The hosts of each source whose pool lists some."""
        for types, groups in hosts.items():
            if any(host.count for group in groups.values() for host in group):
                self._list_hosts(self.pools[types], groups)
        self._pools_of_type: dict[str, list[str]] = {}
        # a pool that serves fewer types is used first, so that flexible machines stay free
        for key in sorted(self.pools, key=lambda key: (len(self.pools[key].types), key)):
            for kind in self.pools[key].types:
                self._pools_of_type.setdefault(kind, []).append(key)

    def _list_hosts(self, pool: Pool, groups: Mapping[str, list[Host]]) -> None:
        numbers = {source: number for number, source in enumerate(groups)}
        of_row = np.full(self.count, len(groups), np.int64)
        for row, source in pool.sources.items():
            of_row[row] = numbers[source]
        pool.hosts = HostRoom(groups, of_row)
        self._rooms.update(dict.fromkeys(groups, pool.hosts))
        for source in groups:
            self._show_hosts(source)

    def _show_hosts(self, source: str) -> None:
        """Bring the sums of a source up to date with its hosts."""
        if (slot := self._slots.get(source)) is not None:
            columns, at = slot
            for column, amount in zip(columns, self._rooms[source].left(source), strict=True):
                column[at] = amount
            self._touch(at)

    def pools_of(self, *types: str) -> list[str]:
        """The pools that serve any of the types, each once, most specific first."""
        found = (key for kind in types for key in self._pools_of_type.get(kind, ()))
        return list(dict.fromkeys(found))

    def _add_source(self, source: str, columns: tuple[IntArray, ...], rows: list[int]) -> None:
        if rows:
            self._slots[source] = columns, rows[0] if len(rows) == 1 else np.array(rows)

    def _lay_out_spot(self) -> None:
        self.offers: dict[tuple[str, str, str], IntArray] = {}
        """Flavor, policy and hours to the machines that each site still offers."""
        for row, site in enumerate(self.sites):
            for flavor, policies in site.spot.items():
                for policy, spot in policies.items():
                    for hours, amount in (("", spot.infinite), *spot.finite.items()):
                        offer = (flavor, policy, hours)
                        column = self.offers.get(offer)
                        if column is None:
                            column = self.offers[offer] = np.zeros(self.count, np.int64)
                        column[row] = amount
                        self._add_source(spot_id(site.id, *offer), (column,), [row])

    def _lay_out_storage(self, inventory: Inventory) -> None:
        self.storage: dict[str, Storage] = {}
        self._volume_sources: dict[tuple[int, str], str] = {}
        for pool in inventory.volume_pools:
            column = self.storage.get(pool.type)
            if column is None:
                column = self.storage[pool.type] = Storage(
                    np.zeros(self.count, np.int64),
                    np.zeros(self.count, np.int64),
                    np.zeros(self.count, np.bool_),
                )
            rows = self._place.get((pool.region, pool.zone), [])
            column.total[rows] += pool.total
            column.free[rows] += pool.total - pool.used
            column.there[rows] = True
            source = source_id(VOLUMES, pool.region, pool.zone, pool.type)
            self._add_source(source, (column.free,), rows)

    def _lay_out_addresses(self, inventory: Inventory) -> None:
        self.eip_keys: list[str] = []
        self.eip_regions = frozenset(pool.region for pool in inventory.eip_pools)
        numbers: dict[tuple[str, str], int] = {}
        sizes: list[int] = []
        free: list[int] = []
        for pool in inventory.eip_pools:
            if (number := numbers.get((pool.region, pool.name))) is None:
                numbers[(pool.region, pool.name)] = len(sizes)
                self.eip_keys.append(f"{pool.region}/{pool.name}")
                sizes.append(pool.size)
                free.append(pool.size - pool.used)
            else:
                sizes[number], free[number] = pool.size, pool.size - pool.used
        pooled = {self.code_of(region) for region in self.eip_regions}
        self.eip_limited: BoolArray = np.isin(self.facts["region"], list(pooled))
        """Sites of regions about which address pools are known."""
        self.eip_size = np.array(sizes, np.int64)
        self.eip_free = np.array(free, np.int64)
        self.eip_sources = [source_id(EIPS, region, name) for region, name in numbers]
        for number, source in enumerate(self.eip_sources):
            self._add_source(source, (self.eip_free,), [number])
        self.eip_pool: CodeArray = np.fromiter(
            (numbers.get((s.region, s.eip_pool), NO_POOL) for s in self.sites), np.int32, self.count
        )

    def _lay_out_flavors(self, flavors: Iterable[Flavor]) -> None:
        self.flavors: dict[str, dict[str, Flavor]] = {}
        """Flavor id to region to flavor."""
        for flavor in flavors:
            self.flavors.setdefault(flavor.id, {})[flavor.region] = flavor
        self._flavor_columns: dict[str, FlavorColumns] = {}

    def flavor(self, flavor_id: str) -> FlavorColumns:
        """The columns of a flavor, made when it is first asked for."""
        columns = self._flavor_columns.get(flavor_id)
        if columns is None:
            columns = self._flavor_columns[flavor_id] = self._make_flavor(flavor_id)
        return columns

    def _make_flavor(self, flavor_id: str) -> FlavorColumns:
        by_region = self.flavors.get(flavor_id, {})
        sold = np.zeros(self.count, np.bool_)
        for region, flavor in by_region.items():
            if flavor.vcpus <= 0 or flavor.memory <= 0:
                continue
            rows = self.rows_of_region(region)
            zones = self.facts["zone"][rows]
            sold[rows] = flavor.sold_in("")  # as in all zones that the flavor does not name
            for zone in flavor.zone_flags:
                sold[rows[zones == self.code_of(zone)]] = flavor.sold_in(zone)
        if len({(f.type, f.vcpus, f.memory) for f in by_region.values()}) == 1:
            one = next(iter(by_region.values()))
            return FlavorColumns(sold, {one.type: (one.vcpus, one.memory)})
        sizes: dict[str, tuple[int | IntArray, int | IntArray]] = {}
        for kind in sorted({flavor.type for flavor in by_region.values()}):
            vcpus, memory = np.zeros(self.count, np.int64), np.zeros(self.count, np.int64)
            for region, flavor in by_region.items():
                if flavor.type == kind:
                    vcpus[self.rows_of_region(region)] = flavor.vcpus
                    memory[self.rows_of_region(region)] = flavor.memory
            sizes[kind] = (vcpus, memory)
        return FlavorColumns(sold, sizes)

    def price(self, flavor_id: str) -> FloatArray:
        """What a machine of a flavor costs an hour at each site."""
        columns = self.flavor(flavor_id)
        if columns.price is None:
            columns.price = np.full(self.count, np.nan)
            for region, flavor in self.flavors.get(flavor_id, {}).items():
                if flavor.price is not None:
                    columns.price[self.rows_of_region(region)] = flavor.price
        return columns.price

    def latency(self, point: str) -> FloatArray:
        """Milliseconds from each site to a point; not a number where that is not known."""
        if point not in self._latency:
            known = (site.latency.get(point, np.nan) for site in self.sites)
            self._latency[point] = np.fromiter(known, np.float64, self.count)
        return self._latency[point]

    def volume_source(self, row: int, kind: str) -> str:
        """The source of a site's volumes of one type."""
        found = self._volume_sources.get((row, kind))
        if found is None:
            site = self.sites[row]
            found = source_id(VOLUMES, site.region, site.zone, kind)
            self._volume_sources[(row, kind)] = found
        return found

    @property
    def sources(self) -> Iterable[str]:
        """The ids of all sources."""
        return self._slots.keys()

    def free(self, source: str) -> tuple[int, ...]:
        """What a source has left; nothing when it is not known."""
        columns, at = self._slots.get(source, ((), 0))
        first = at if isinstance(at, int) else int(at[0])
        return tuple(int(column[first]) for column in columns)

    def has_room(self, charges: Charges) -> bool:
        """Whether every source that is known has what the charges take."""
        return all(
            left >= amount
            for source, amounts in charges.takes.items()
            for left, amount in zip(self.free(source), amounts, strict=False)
        )

    def covers(self, charges: Charges) -> bool:
        """Whether no source, and no host, of charges that were applied has given too much."""
        for source in charges.takes:
            if (room := self._rooms.get(source)) is not None:
                if not room.covers(source, charges.hosts.get(source, ())):
                    return False
            elif min(self.free(source), default=0) < 0:
                return False
        return True

    def apply(self, charges: Charges, times: int = 1) -> None:
        """Take charges from their sources (`times` -1 gives back); unknown ones are left out."""
        for source, amounts in charges.takes.items():
            if (room := self._rooms.get(source)) is not None:
                room.apply(source, amounts, charges.hosts.get(source, ()), times)
                self._show_hosts(source)
                continue
            slot = self._slots.get(source)
            if slot is not None:
                columns, at = slot
                for column, amount in zip(columns, amounts, strict=True):
                    column[at] -= amount * times
                if not source.startswith(_NO_ROWS):
                    self._touch(at)

    def note_stack(self, row: int, labels: Mapping[str, str], times: int = 1) -> None:
        """Remember (or forget) that a stack with these labels is on a row."""
        key: LabelKey = frozenset(labels.items())
        counts = self.stacks[key]
        counts[row] = counts.get(row, 0) + times
        if counts[row] <= 0:
            del counts[row]
            if not counts:
                del self.stacks[key]


def _changed(old: Sequence[T], new: Sequence[T]) -> list[tuple[T, T]] | None:
    """The entries that differ, before and after; None when some came or went."""
    if len(old) != len(new):
        return None
    return [(a, b) for a, b in zip(old, new, strict=True) if a is not b and a != b]


def _like(entry: T, other: T, *names: str) -> T:
    """An entry with these fields as another has them."""
    values = {name: getattr(other, name) for name in names}
    return msgspec.structs.replace(entry, **values)  # type: ignore[type-var]


def _group(codes: CodeArray) -> dict[int, IntArray]:
    if not len(codes):
        return {}
    order = np.argsort(codes, kind="stable")
    values, starts = np.unique(codes[order], return_index=True)
    parts = np.split(order, starts[1:])
    return {int(v): part.astype(np.int64) for v, part in zip(values, parts, strict=True)}


def _rows_by_place(sites: list[Site]) -> dict[tuple[str, str], list[int]]:
    places: dict[tuple[str, str], list[int]] = {}
    for row, site in enumerate(sites):
        places.setdefault((site.region, site.zone), []).append(row)
    return places


def _host_groups(
    inventory: Inventory, known: Mapping[str, int]
) -> dict[tuple[str, str, str, str], list[Host]]:
    """Site (or none), region, zone and types to hosts; those that name a site first."""
    groups: dict[tuple[str, str, str, str], list[Host]] = {}
    for host in inventory.hosts:
        place = (host.site, "", "") if host.site in known else ("", host.region, host.zone)
        groups.setdefault((*place, host.types), []).append(host)
    return dict(sorted(groups.items(), key=lambda item: not item[0][0]))


def _amounts(hosts: Iterable[Host]) -> tuple[int, int, int, int]:
    """Vcpus, memory, and both as far as they are free."""
    vcpus = memory = used_vcpus = used_memory = 0
    for host in hosts:
        times = host.count or 1
        vcpus += host.vcpus * times
        memory += host.memory * times
        used_vcpus += host.used_vcpus * times
        used_memory += host.used_memory * times
    return vcpus, memory, vcpus - used_vcpus, memory - used_memory


def _with_unknown_sites(inventory: Inventory) -> list[Site]:
    """The sites (of one id, the last), plus one for each place that has hosts but is not listed."""
    sites = list({site.id: site for site in inventory.sites}.values())
    known = {(site.region, site.zone) for site in sites}
    for host in inventory.hosts:
        place = (host.region, host.zone)
        if place not in known:
            known.add(place)
            sites.append(Site(id=f"{host.region}--{host.zone}", region=host.region, zone=host.zone))
    return sites
