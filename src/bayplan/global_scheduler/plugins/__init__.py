"""The plugins of the global scheduler, by the names that policy files use, old and new.

They are plugins of the same framework as kube-scheduler's, with an allocation in place of a pod and
a view of sites in place of nodes.
"""

from collections.abc import Callable

from bayplan.global_scheduler.plugins.capacity import EipAvailability, FlavorFit, Volume
from bayplan.global_scheduler.plugins.scores import SiteResourcesLeastAllocated, StackAffinity
from bayplan.global_scheduler.plugins.selectors import (
    ExclusiveSite,
    LocationAndOperator,
    RegionAndZone,
    SiteAvailability,
)

Registry = dict[str, Callable[[], object]]


def in_tree_registry(*, fake_spot: bool = False) -> Registry:
    """Plugin name to factory."""
    return {
        "SiteAvailability": SiteAvailability,
        "NodeAvailability": SiteAvailability,
        "LocationAndOperator": LocationAndOperator,
        "regionandaz": RegionAndZone,
        "Flavor": lambda: FlavorFit(fake_spot=fake_spot),
        "Volume": Volume,
        "EipAvailability": EipAvailability,
        "ExclusiveSite": ExclusiveSite,
        "ExclusiveNode": ExclusiveSite,
        "StackAffinity": StackAffinity,
        "SiteResourcesLeastAllocated": SiteResourcesLeastAllocated,
        "NodeResourcesLeastAllocated": SiteResourcesLeastAllocated,
    }
