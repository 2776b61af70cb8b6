"""What is asked for: an allocation is a stack times replicas, with a selector of sites.

A stack (resource group) is a list of resources that land together on one site. Each resource is
`count` equal machines with an ordered list of acceptable flavors. Values here are checked; reading
them from JSON, with all problems and their paths, is `request`'s work.
"""

import msgspec

CENTRALIZE = "centralize"
DISCRETE = "discrete"
ALONE = "alone"


class SpotRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """Asks for a machine that may be taken back; hours 0 means open-ended."""

    max_price: str = ""
    spot_duration_hours: int = 0
    spot_duration_count: int = 1
    interruption_policy: str = "immediate"

    @property
    def hours_key(self) -> str:
        """The key of the finite offer that answers this request."""
        return f"{self.spot_duration_hours * self.spot_duration_count}h"


class FlavorChoice(msgspec.Struct, frozen=True, omit_defaults=True):
    """One acceptable flavor."""

    flavor_id: str
    spot: SpotRequest | None = None


class Resource(msgspec.Struct, frozen=True, omit_defaults=True):
    """`count` equal machines; of one allocation at most `max_per_host` (0: any) share a host."""

    name: str
    flavors: tuple[FlavorChoice, ...]
    count: int = 1
    resource_type: str = "vm"
    storage: dict[str, int] = {}
    need_eip: bool = False
    max_per_host: int = 0


class RegionChoice(msgspec.Struct, frozen=True, omit_defaults=True):
    """One acceptable region, with the zones that are (all when empty)."""

    region: str = ""
    availability_zone: tuple[str, ...] = ()


class Geo(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where on earth; empty fields do not matter."""

    country: str = ""
    area: str = ""
    province: str = ""
    city: str = ""


class Requirement(msgspec.Struct, frozen=True):
    """One requirement on the labels of stacks that a site already has."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class Strategy(msgspec.Struct, frozen=True, omit_defaults=True):
    """How replicas spread over sites and regions."""

    location_strategy: str = ""
    region_strategy: str = ""


class Spread(msgspec.Struct, frozen=True, omit_defaults=True):
    """How many replicas a site, zone or region may have, and over how many they must go; 0: any."""

    max_per_site: int = 0
    max_per_zone: int = 0
    max_per_region: int = 0
    min_sites: int = 0
    min_zones: int = 0
    min_regions: int = 0


class Latency(msgspec.Struct, frozen=True):
    """At most so many milliseconds from a site to a point that the inventory knows."""

    to: str
    max_ms: float


class Residency(msgspec.Struct, frozen=True, omit_defaults=True):
    """Countries in which data may be, and in which it must not."""

    countries: tuple[str, ...] = ()
    except_countries: tuple[str, ...] = ()


class Selector(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which sites may be chosen, and how replicas spread over them."""

    geo_location: Geo = Geo()
    regions: tuple[RegionChoice, ...] = ()
    operator: str = ""
    site_id: str = ""
    strategy: Strategy = Strategy()
    spread: Spread = Spread()
    residency: Residency = Residency()
    latency: tuple[Latency, ...] = ()
    max_price: float | None = None
    """The most that one replica may cost an hour."""
    stack_affinity: tuple[Requirement, ...] = ()
    stack_antiaffinity: tuple[Requirement, ...] = ()


class Stack(msgspec.Struct, frozen=True, omit_defaults=True):
    """The atomic unit of placement."""

    name: str
    resources: tuple[Resource, ...]
    labels: dict[str, str] = {}

    @property
    def eips(self) -> int:
        """Addresses that one replica needs: one a machine."""
        return sum(resource.count for resource in self.resources if resource.need_eip)

    @property
    def storage(self) -> dict[str, int]:
        """GB that one replica needs, by volume type."""
        total: dict[str, int] = {}
        for resource in self.resources:
            for volume_type, size in resource.storage.items():
                total[volume_type] = total.get(volume_type, 0) + size * resource.count
        return total


class Allocation(msgspec.Struct, frozen=True, omit_defaults=True):
    """One request."""

    id: str
    stack: Stack
    selector: Selector = Selector()
    replicas: int = 1
    domain: str = ""
    priority: int = 0
    preempt: bool = False
    """Whether allocations of lower priority may be released to make room."""
    alternatives: tuple[Selector, ...] = ()
    """Selectors to try in this order when the first does not fit."""
    starts_at: float = 0.0
    ends_at: float = 0.0
    """Seconds since 1970 between which room is held; 0: from now, without end."""

    def overlaps(self, other: "Allocation") -> bool:
        """Whether both hold room at the same time."""
        return (not self.ends_at or other.starts_at < self.ends_at) and (
            not other.ends_at or self.starts_at < other.ends_at
        )
