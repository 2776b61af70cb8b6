"""Sites as columns: one row a site, one array a fact, kept up to date as stacks come and go.

Rows are in order of site id, so that ties between equal scores always go to the smaller id.
Machines are counted by *pool*: all hosts of a site whose `resource_type` text is the same, such as
`gp||hi-mem`, which serves flavors of type `gp` and of type `hi-mem`. Addresses are counted by the
regional pool that several sites share. What Bayplan placed is added to what the inventory says is
used, so a new inventory never forgets a placement.

What it does not do: decide, or remember allocations (`placer`, `ledger`).
"""

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec
import numpy as np
import numpy.typing as npt

from bayplan.global_scheduler.inventory import Flavor, Inventory, Site

IntArray = npt.NDArray[np.int64]
CodeArray = npt.NDArray[np.int32]
BoolArray = npt.NDArray[np.bool_]
LabelKey = frozenset[tuple[str, str]]

NO_POOL = -1
FACTS = ("region", "zone", "operator", "country", "area", "province", "city")


class Charges(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one replica takes from its site, in the terms of the ledger."""

    vcpus: dict[str, int] = {}
    memory: dict[str, int] = {}
    storage: dict[str, int] = {}
    eips: dict[str, int] = {}


class Pool(msgspec.Struct):
    """Machines of one kind, one entry a site."""

    types: frozenset[str]
    vcpus: IntArray
    memory: IntArray
    free_vcpus: IntArray
    free_memory: IntArray


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
        self._lay_out_machines(inventory)
        self._lay_out_storage(inventory)
        self._lay_out_addresses(inventory)
        self._lay_out_flavors(inventory.flavors)
        self.stacks: dict[LabelKey, Counter[int]] = {}
        """How many stacks with these labels each row has."""

    def _code(self, text: str) -> int:
        return self._codes.setdefault(text, len(self._codes))

    def code_of(self, text: str) -> int:
        """The code of a fact's value; -1 when no site has it."""
        return self._codes.get(text, -1)

    def row_of(self, site_id: str) -> int | None:
        return self._row.get(site_id)

    def rows_of_region(self, region: str) -> IntArray:
        """The rows of a region, in order."""
        return self._rows_of_region.get(self.code_of(region), np.empty(0, np.int64))

    def _lay_out_machines(self, inventory: Inventory) -> None:
        self.pools: dict[str, Pool] = {}
        for host in inventory.hosts:
            pool = self.pools.get(host.types)
            if pool is None:
                arrays = [np.zeros(self.count, np.int64) for _ in range(4)]
                pool = Pool(frozenset(host.types.split("||")), *arrays)
                self.pools[host.types] = pool
            row = self._place[(host.region, host.zone)][0]
            pool.vcpus[row] += host.vcpus
            pool.memory[row] += host.memory
            pool.free_vcpus[row] += host.vcpus - host.used_vcpus
            pool.free_memory[row] += host.memory - host.used_memory
        self._pools_of_type: dict[str, list[str]] = {}
        # a pool that serves fewer types is used first, so that flexible machines stay free
        for key in sorted(self.pools, key=lambda key: (len(self.pools[key].types), key)):
            for kind in self.pools[key].types:
                self._pools_of_type.setdefault(kind, []).append(key)

    def pools_of(self, *types: str) -> list[str]:
        """The pools that serve any of the types, each once, most specific first."""
        found = (key for kind in types for key in self._pools_of_type.get(kind, ()))
        return list(dict.fromkeys(found))

    def _lay_out_storage(self, inventory: Inventory) -> None:
        self.storage: dict[str, Storage] = {}
        for pool in inventory.volume_pools:
            column = self.storage.get(pool.type)
            if column is None:
                column = self.storage[pool.type] = Storage(
                    np.zeros(self.count, np.int64),
                    np.zeros(self.count, np.int64),
                    np.zeros(self.count, np.bool_),
                )
            for row in self._place.get((pool.region, pool.zone), ()):
                column.total[row] += pool.total
                column.free[row] += pool.total - pool.used
                column.there[row] = True

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
        self._eip_number = {key: number for number, key in enumerate(self.eip_keys)}
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
            for row in self.rows_of_region(region):
                sold[row] = (
                    flavor.vcpus > 0 and flavor.memory > 0 and flavor.sold_in(self.sites[row].zone)
                )
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

    def apply(self, row: int, charges: Charges, times: int = 1) -> None:
        """Take charges from a row (`times` -1 gives them back); unknown pools are left out."""
        for key, amount in charges.vcpus.items():
            if key in self.pools:
                self.pools[key].free_vcpus[row] -= amount * times
        for key, amount in charges.memory.items():
            if key in self.pools:
                self.pools[key].free_memory[row] -= amount * times
        for kind, amount in charges.storage.items():
            if kind in self.storage:
                self.storage[kind].free[row] -= amount * times
        for key, amount in charges.eips.items():
            if (number := self._eip_number.get(key)) is not None:
                self.eip_free[number] -= amount * times

    def note_stack(self, row: int, labels: Mapping[str, str], times: int = 1) -> None:
        """Remember (or forget) that a stack with these labels is on a row."""
        key: LabelKey = frozenset(labels.items())
        counts = self.stacks.setdefault(key, Counter())
        counts[row] += times
        if counts[row] <= 0:
            del counts[row]
            if not counts:
                del self.stacks[key]


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


def _with_unknown_sites(inventory: Inventory) -> list[Site]:
    """The sites, plus one for each place that has hosts but is not listed."""
    sites = list(inventory.sites)
    known = {(site.region, site.zone) for site in sites}
    for host in inventory.hosts:
        place = (host.region, host.zone)
        if place not in known:
            known.add(place)
            sites.append(Site(id=f"{host.region}--{host.zone}", region=host.region, zone=host.zone))
    return sites
