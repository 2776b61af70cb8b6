"""The inventory of the reference's second worked example, and a shorthand for requests."""

from bayplan.global_scheduler.inventory import (
    EipPool,
    Flavor,
    Host,
    Inventory,
    Site,
    VolumePool,
)
from bayplan.global_scheduler.stack import (
    Allocation,
    FlavorChoice,
    Resource,
    Selector,
    Stack,
    Strategy,
)

ID = "7a41e0a0-bad9-49cc-9948-9531aa79c2b7"


def three_sites(**changes):
    """s-a and s-b in regA share the address pool ipA; s-c is in regB."""
    parts = {
        "sites": (
            Site("s-a", "regA", "az1", eip_pool="ipA"),
            Site("s-b", "regA", "az2", eip_pool="ipA"),
            Site("s-c", "regB", "az1", eip_pool="ipB"),
        ),
        "hosts": (
            Host("regA", "az1", "gp", 32, 128, 8, 32),
            Host("regA", "az2", "gp", 32, 64, 20, 20),
            Host("regB", "az1", "gp", 64, 64),
        ),
        "flavors": tuple(
            Flavor(region, flavor, vcpus, ram, "gp")
            for region in ("regA", "regB")
            for flavor, vcpus, ram in (("f4", 4, 8), ("f2", 2, 4))
        ),
        "eip_pools": (EipPool("regA", "ipA", 10, 4), EipPool("regB", "ipB", 3, 1)),
        "volume_pools": (
            VolumePool("regA", "az1", "SAS", 1000, 300),
            VolumePool("regA", "az2", "SAS", 600, 0),
            VolumePool("regB", "az1", "SAS", 500, 100),
        ),
        "volume_types": frozenset({"SAS"}),
    }
    return Inventory(**(parts | changes))


def ask(replicas=1, *, flavors=("f4", "f2"), count=2, location="", region="", **changes):
    """The worked example's request."""
    resource = {
        "name": "r",
        "flavors": tuple(FlavorChoice(flavor) for flavor in flavors),
        "count": count,
        "storage": {"SAS": 50},
        "need_eip": True,
    }
    selector = changes.pop("selector", {})
    labels = changes.pop("labels", {})
    domain = changes.pop("domain", "")
    return Allocation(
        id=ID,
        stack=Stack("web", (Resource(**(resource | changes)),), labels),
        selector=Selector(strategy=Strategy(location, region), **selector),
        replicas=replicas,
        domain=domain,
    )
