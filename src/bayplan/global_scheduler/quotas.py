"""What a domain (tenant) takes altogether, and what it may.

Usage follows from charges, so it is right after a restart and whoever placed what. A domain without
a quota of its own has that of `*`, if there is one.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from bayplan.errors import BayplanError
from bayplan.global_scheduler.inventory import Quota
from bayplan.global_scheduler.sources import EIPS, HOSTS, OWN, SPOT, VOLUMES, Charges

ANYBODY = "*"
_AMOUNTS = {
    HOSTS: ("vcpus", "memory"),
    OWN: ("vcpus", "memory"),
    VOLUMES: ("storage",),
    EIPS: ("eips",),
    SPOT: ("spot",),
}


class QuotaError(BayplanError):
    """A domain would take more than it may."""


def usage(charges: Iterable[Charges]) -> Counter[str]:
    """What charges take, by the names that quotas have; each is one replica's."""
    total: Counter[str] = Counter()
    add_usage(total, charges)
    return total


def add_usage(total: Counter[str], charges: Iterable[Charges], times: int = 1) -> None:
    """Add what charges take to a total (`times` -1 takes it off)."""
    for one in charges:
        total["replicas"] += times
        for source, amounts in one.takes.items():
            names = _AMOUNTS.get(source.partition("/")[0], ())
            for name, amount in zip(names, amounts, strict=False):
                total[name] += amount * times


def check(
    quotas: Mapping[str, Quota], domain: str, used: Mapping[str, int], more: Mapping[str, int]
) -> None:
    """Raise QuotaError when a domain that uses something may not have more."""
    quota = quotas.get(domain) or quotas.get(ANYBODY)
    if quota is None:
        return
    for name, limit in quota.limits.items():
        total = used.get(name, 0) + more.get(name, 0)
        if total > limit and more.get(name, 0) > 0:
            raise QuotaError(
                f'domain "{domain}" would have {total} {name} and may have {limit}; '
                f"it has {used.get(name, 0)} now"
            )
