"""Inventory from the API server: the custom resources Site, Flavor, EIPPool and VolumePool.

A resource's spec has the fields of one entry of the matching file; a Site's spec also carries its
hosts. A resource with a problem is left out and reported, the others count.
"""

import asyncio
from collections.abc import Callable

import structlog

from bayplan.client import Client, Informer
from bayplan.client.resources import Resource
from bayplan.global_scheduler import inventory as inv
from bayplan.global_scheduler.fields import Fields, Problem
from bayplan.global_scheduler.kinds import GROUP, VERSION, Placeable

log = structlog.get_logger(__name__)

SITES = Resource(GROUP, VERSION, "sites", "Site", namespaced=False)
FLAVORS = Resource(GROUP, VERSION, "flavors", "Flavor", namespaced=False)
EIP_POOLS = Resource(GROUP, VERSION, "eippools", "EIPPool", namespaced=False)
VOLUME_POOLS = Resource(GROUP, VERSION, "volumepools", "VolumePool", namespaced=False)
KINDS = (SITES, FLAVORS, EIP_POOLS, VOLUME_POOLS)


class ResourceInventory:
    """Watches the four kinds and hands out an inventory when one changes."""

    def __init__(self, client: Client, changed: Callable[[inv.Inventory], None]) -> None:
        self._changed = changed
        self._dirty = asyncio.Event()
        self.informers = {kind: Informer(client, kind, Placeable, optional=True) for kind in KINDS}
        for informer in self.informers.values():
            informer.add_handler(lambda changes: self._dirty.set())

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in self.informers.values():
                group.create_task(informer.run())
            group.create_task(self._hand_out())

    async def _hand_out(self) -> None:
        while True:
            await self._dirty.wait()
            await asyncio.sleep(0.05)  # changes come in bunches: one new table for all
            self._dirty.clear()
            self._changed(self.inventory())

    def inventory(self) -> inv.Inventory:
        """The inventory as it stands."""
        sites: list[inv.Site] = []
        hosts: list[inv.Host] = []
        for fields in self._each(SITES):
            site = inv.read_site(fields)
            found = inv.read_hosts(fields)
            if self._good(fields):
                sites.append(site)
                hosts += found
        flavors = [
            flavor
            for fields in self._each(FLAVORS)
            if (flavor := inv.read_flavor(fields)) and self._good(fields)
        ]
        addresses = [
            pool
            for fields in self._each(EIP_POOLS)
            for pool in inv.read_eip_pools(fields)
            if self._good(fields)
        ]
        volumes = [
            pool
            for fields in self._each(VOLUME_POOLS)
            for pool in inv.read_volume_pools(fields, honour_reserved=False)
            if self._good(fields)
        ]
        return inv.Inventory(
            tuple(sites),
            tuple(hosts),
            tuple(flavors),
            tuple(addresses),
            tuple(volumes),
            frozenset(pool.type for pool in volumes),
        )

    def _each(self, kind: Resource) -> list[Fields]:
        result = []
        for name, item in sorted(self.informers[kind].store.items()):
            problems: list[Problem] = []
            body = item.body
            if isinstance(body, dict):
                key = "site_id" if kind is SITES else "id" if kind is FLAVORS else "name"
                body = {key: name, **body}
            result.append(Fields(body, problems, "spec", f"{kind.plural}/{name}"))
        return result

    @staticmethod
    def _good(fields: Fields) -> bool:
        for problem in fields.problems:
            log.warning("resource was not taken", problem=str(problem))
        return not fields.problems
