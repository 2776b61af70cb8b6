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
    """`count` equal machines."""

    name: str
    flavors: tuple[FlavorChoice, ...]
    count: int = 1
    resource_type: str = "vm"
    storage: dict[str, int] = {}
    need_eip: bool = False


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


class Selector(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which sites may be chosen, and how replicas spread over them."""

    geo_location: Geo = Geo()
    regions: tuple[RegionChoice, ...] = ()
    operator: str = ""
    site_id: str = ""
    strategy: Strategy = Strategy()
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
