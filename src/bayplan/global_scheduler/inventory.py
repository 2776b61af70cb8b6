"""What sites there are and what they have: the facts that placement starts from.

An `Inventory` is plain data, whatever it was read from: the JSON files of CONFIG_BASE (both
generations of spelling), custom resources, or member clusters. It says nothing about what Bayplan
itself placed; the ledger does.
"""

import re
from collections.abc import Mapping

import msgspec

from bayplan.global_scheduler.fields import Fields

CLOSED = frozenset({"Offline", "Sellout"})
EXCLUSIVE = "exclusive_domains"
QUOTA_FIELDS = ("replicas", "vcpus", "memory", "storage", "eips", "spot")
_AZ_FLAG = re.compile(r"([\w-]+)\((\w+)\)")
_NOT_SOLD = frozenset({"sellout", "abandon"})


class Spot(msgspec.Struct, frozen=True):
    """How many spot machines of one flavor a site can give, open-ended or for whole hours."""

    infinite: int = 0
    finite: Mapping[str, int] = {}


class Site(msgspec.Struct, frozen=True):
    """One region and availability zone (one cluster)."""

    id: str
    region: str
    zone: str
    status: str = "Normal"
    country: str = ""
    area: str = ""
    province: str = ""
    city: str = ""
    operator: str = ""
    eip_pool: str = ""
    domains: frozenset[str] | None = None
    spot: Mapping[str, Mapping[str, Spot]] = {}
    cluster: str = ""
    latency: Mapping[str, float] = {}
    """Milliseconds to named points."""

    @property
    def open(self) -> bool:
        return self.status not in CLOSED


class Host(msgspec.Struct, frozen=True):
    """Machines of one kind; `types` is what may run on them, joined by `||`.

    They serve all sites of their place, or only the `site` that they name. With a `count` they are
    that many real hosts of this size each, and machines must fit them whole; without, only the sum
    counts.
    """

    region: str
    zone: str
    types: str
    vcpus: int
    memory: int
    used_vcpus: int = 0
    used_memory: int = 0
    site: str = ""
    name: str = ""
    count: int = 0


class Flavor(msgspec.Struct, frozen=True):
    """A size of machine, in one region."""

    region: str
    id: str
    vcpus: int
    memory: int
    type: str
    abandoned: bool = False
    zone_flags: Mapping[str, str] = {}
    price: float | None = None
    """What a machine costs an hour; None when it is not known."""

    def sold_in(self, zone: str) -> bool:
        """Whether the flavor is offered in a zone of its region."""
        flag = self.zone_flags.get(zone)
        if self.abandoned:
            return flag is not None and flag not in _NOT_SOLD
        return flag not in _NOT_SOLD


class EipPool(msgspec.Struct, frozen=True):
    """Addresses that all sites of a region with this pool's name share."""

    region: str
    name: str
    size: int
    used: int = 0


class VolumePool(msgspec.Struct, frozen=True):
    """Storage of one type in one zone, in GB."""

    region: str
    zone: str
    type: str
    total: int
    used: int = 0


class Quota(msgspec.Struct, frozen=True):
    """What the allocations of one domain may take altogether, by what; see `quotas`."""

    domain: str
    limits: Mapping[str, int] = {}


class Inventory(msgspec.Struct, frozen=True):
    """Everything there is."""

    sites: tuple[Site, ...] = ()
    hosts: tuple[Host, ...] = ()
    flavors: tuple[Flavor, ...] = ()
    eip_pools: tuple[EipPool, ...] = ()
    volume_pools: tuple[VolumePool, ...] = ()
    volume_types: frozenset[str] = frozenset()
    quotas: tuple[Quota, ...] = ()


def merged(one: Inventory, other: Inventory) -> Inventory:
    """Two inventories as one."""
    parts = {
        name: getattr(one, name) + getattr(other, name)
        for name in ("sites", "hosts", "flavors", "eip_pools", "volume_pools", "quotas")
    }
    return Inventory(**parts, volume_types=one.volume_types | other.volume_types)


def read_site(fields: Fields) -> Site:
    """One entry of sites.json or site_infos.json."""
    domains: frozenset[str] | None = None
    for attribute in fields.items("site_attributes"):
        if attribute.text("site_attr") == EXCLUSIVE:
            names = attribute.text("site_attr_value").split(",")
            domains = frozenset(name.strip() for name in names if name.strip())
    operator = fields.raw("operator")
    return Site(
        id=fields.text("id", "site_id", required=True),
        region=fields.text("region", required=True),
        zone=fields.text("az", "availability_zone", required=True),
        status=fields.text("status", default="Normal"),
        country=fields.text("country"),
        area=fields.text("area"),
        province=fields.text("province"),
        city=fields.text("city"),
        operator=operator if isinstance(operator, str) else fields.object("operator").text("name"),
        eip_pool=fields.text("eip_type_name"),
        domains=domains,
        spot=_read_spot(fields),
        cluster=fields.text("cluster", "cluster_name"),
        latency=_read_latency(fields),
    )


def _read_latency(fields: Fields) -> dict[str, float]:
    """`latency_ms`: point to milliseconds."""
    reader = fields.object("latency_ms")
    return {point: reader.number(point, least=0.0) for point in fields.mapping("latency_ms")}


def _read_spot(fields: Fields) -> dict[str, dict[str, Spot]]:
    """`spot_resources`: flavor → interruption policy → what can be had."""
    result: dict[str, dict[str, Spot]] = {}
    outer = fields.object("spot_resources")
    for flavor in fields.mapping("spot_resources"):
        by_policy = outer.object(flavor)
        result[flavor] = {}
        for policy in ("delay", "immediate"):
            entry = by_policy.object(policy)
            hours = entry.object("finite")
            finite = {key: hours.integer(key) for key in entry.mapping("finite")}
            result[flavor][policy] = Spot(entry.integer("infinite"), finite)
    return result


def read_hosts(fields: Fields, *, pack: bool = False) -> list[Host]:
    """One entry of site_nodes.json or site_resources.json: the hosts of a site.

    A host with `host_count` is a class of that many real hosts; with `pack` each one is real.
    """
    region = fields.text("region", required=True)
    zone = fields.text("availability_zone", required=True)
    site = fields.text("site_id")
    result = []
    names: set[str] = set()
    for host in fields.items("node_infos", "hosts"):
        count = host.integer("host_count", default=int(pack), least=0)
        name = host.text("edge_node_id", "host_name", "name")
        if count and (not name or name in names):
            host.problem("edge_node_id", f'"{name}" is listed twice' if name else "is missing")
        names.add(name)
        ratio = host.number("cpu_allocation_ratio", default=1.0, least=0.0)
        result.append(
            Host(
                region=region,
                zone=zone,
                types=host.text("resource_type", required=True),
                vcpus=host.whole("total_vcpus", host.integer("total_vcpus", least=0) * ratio),
                memory=host.integer("total_mem", least=0),
                used_vcpus=host.integer("used_vcpus", least=0),
                used_memory=host.integer("used_mem", least=0),
                site=site,
                name=name,
                count=count,
            )
        )
    return result


def read_flavor(fields: Fields) -> Flavor:
    """One entry of flavors.json."""
    region = fields.text("region", required=True)
    identity = fields.text("id", required=True)
    key = fields.text("region_flavor_id")
    if key and region and identity and key != f"{region}|{identity}":
        fields.problem("region_flavor_id", f'must be "{region}|{identity}", got "{key}"')
    extra = fields.object("os_extra_specs")
    vcpus = fields.integer("vcpus")
    memory = fields.integer("ram")
    for name, value in (("vcpus", vcpus), ("ram", memory)):
        if value <= 0:
            fields.problem(name, "must be above 0: such a flavor has no capacity anywhere")
    flags = {
        match[1]: match[2]
        for part in extra.text("cond:operation:az").split(",")
        if (match := _AZ_FLAG.fullmatch(part.strip()))
    }
    return Flavor(
        region=region,
        id=identity,
        vcpus=vcpus,
        memory=memory,
        type=extra.text("resource_type", required=True),
        abandoned=extra.text("cond:operation:status") == "abandon",
        zone_flags=flags,
        price=fields.number("price", least=0.0) if fields.has("price") else None,
    )


def read_eip_pools(fields: Fields) -> list[EipPool]:
    """One region of eip_pools.json."""
    region = fields.text("region", required=True)
    return [
        EipPool(
            region=region,
            name=pool.text("name", required=True),
            size=pool.integer("size", least=0),
            used=pool.integer("used", least=0),
        )
        for pool in fields.items("common_pools")
    ]


def read_volume_pools(fields: Fields, *, honour_reserved: bool) -> list[VolumePool]:
    """One region of volume_pools.json."""
    region = fields.text("region", required=True)
    result = []
    for pool in fields.items("pools"):
        facts = pool.object("capabilities")
        ratio = facts.number("max_over_subscription_ratio", default=1.0)
        used = facts.number("provisioned_capacity_gb", least=0.0)
        total = facts.number("total_capacity_gb", least=0.0) * (ratio if ratio > 0 else 1.0)
        if honour_reserved:
            total *= 1.0 - min(facts.number("reserved_percentage", least=0.0), 1.0)
        result.append(
            VolumePool(
                region=region,
                zone=pool.text("availability_zone", required=True),
                type=facts.text("volume_type", required=True),
                total=facts.whole("total_capacity_gb", total),
                used=facts.whole("provisioned_capacity_gb", used),
            )
        )
    return result


def read_quota(fields: Fields) -> Quota:
    """One entry of quotas.json; the domain `*` is every domain that has none of its own."""
    limits = {name: fields.integer(name, least=0) for name in QUOTA_FIELDS if fields.has(name)}
    return Quota(fields.text("domain_id", required=True), limits)
