"""Every capacity is a source: a host pool, a volume pool, an address pool, a spot offer.

A source's id says what it is, not which site uses it; sites refer to sources, and several may refer
to one. What an allocation takes is written down by source, so it stays taken when a site leaves the
inventory, and is taken once however many sites share the source.

| id | amounts |
| --- | --- |
| `hosts/REGION/ZONE/TYPES` | vcpus and memory of the hosts of a place |
| `own/SITE/TYPES` | vcpus and memory of hosts that belong to one site, such as a member cluster's |
| `volumes/REGION/ZONE/TYPE` | GB |
| `eips/REGION/POOL` | addresses |
| `spot/SITE/FLAVOR/POLICY/HOURS` | machines; no hours: open-ended |
"""

import msgspec

from bayplan.global_scheduler.stack import SpotRequest

HOSTS, OWN, VOLUMES, EIPS, SPOT = "hosts", "own", "volumes", "eips", "spot"


class Charges(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one replica takes, by source: as many amounts as the source has.

    Where a source lists real hosts, `hosts` has how much of it is taken from which.
    """

    takes: dict[str, tuple[int, ...]] = {}
    hosts: dict[str, tuple[tuple[str, int, int], ...]] = {}


def source_id(kind: str, *parts: str) -> str:
    """The id of a source; a slash inside a part is escaped."""
    return "/".join((kind, *(part.replace("%", "%25").replace("/", "%2F") for part in parts)))


def spot_id(site: str, flavor: str, policy: str, hours: str) -> str:
    return source_id(SPOT, site, flavor, policy, hours)


def offer_of(flavor: str, request: SpotRequest) -> tuple[str, str, str]:
    """Flavor, interruption policy and hours of the offer that answers a spot request."""
    policy = "delay" if request.interruption_policy == "delay" else "immediate"
    return flavor, policy, request.hours_key if request.spot_duration_hours else ""


class OldCharges(msgspec.Struct, frozen=True):
    """What records said before charges named sources: pools of the site, by their text."""

    vcpus: dict[str, int] = {}
    memory: dict[str, int] = {}
    storage: dict[str, int] = {}
    eips: dict[str, int] = {}

    def by_source(self, site: str, region: str, zone: str, *, member: bool) -> Charges:
        """The same in terms of sources, for a replica on this site."""
        takes: dict[str, tuple[int, ...]] = {}
        for types in self.vcpus.keys() | self.memory.keys():
            source = source_id(OWN, site, types)
            if not member:
                source = source_id(HOSTS, region, zone, types)
            takes[source] = (self.vcpus.get(types, 0), self.memory.get(types, 0))
        for kind, size in self.storage.items():
            takes[source_id(VOLUMES, region, zone, kind)] = (size,)
        for pool, count in self.eips.items():
            takes[source_id(EIPS, region, pool.removeprefix(f"{region}/"))] = (count,)
        return Charges(takes)
