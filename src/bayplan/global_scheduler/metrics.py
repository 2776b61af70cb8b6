"""What `/metrics` shows, and `/metrics/sites` by site.

Tenants (domains) are few and told with the rest. Sites may be ten thousands, each with several
figures, so they have a path of their own, and are written piece by piece.
"""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from bayplan.global_scheduler.quotas import ANYBODY
from bayplan.global_scheduler.service import Allocations
from bayplan.global_scheduler.table import NO_POOL, SiteTable

PIECE = 500
"""Sites that are written at once."""
_ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class Metrics:
    """The scheduler's own counts, and what its tenants use."""

    def __init__(self, service: Allocations) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "global_scheduler_requests",
            "Requests by method and status.",
            ["method", "code"],
            registry=self.registry,
        )
        self.seconds = Histogram(
            "global_scheduler_allocation_duration_seconds",
            "Time to place and store an allocation.",
            registry=self.registry,
            buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1, 5),
        )
        for name, text, value in (
            ("sites", "Sites known.", lambda: service.table.count),
            ("allocations", "Allocations held.", lambda: len(service.ledger.records)),
            ("conflicts", "Changes decided again.", lambda: service.ledger.conflicts),
            ("staged", "Batches that others have staged.", lambda: len(service.ledger.staged)),
        ):
            gauge = Gauge(f"global_scheduler_{name}", text, registry=self.registry)
            gauge.set_function(value)
        self.registry.register(_Tenants(service))


class _Tenants(Collector):
    """What each domain takes, and may."""

    def __init__(self, service: Allocations) -> None:
        self._service = service

    def collect(self) -> Iterator[GaugeMetricFamily]:
        labels = ["domain", "resource"]
        used = GaugeMetricFamily(
            "global_scheduler_domain_used", "What a domain takes.", labels=labels
        )
        quota = GaugeMetricFamily(
            "global_scheduler_domain_quota", "What a domain may take.", labels=labels
        )
        quotas = self._service.table.quotas
        for domain, amounts in sorted(self._service.ledger.used.items()):
            for resource, amount in sorted(amounts.items()):
                used.add_metric([domain, resource], amount)
        for domain in sorted({*quotas, *(self._service.ledger.used if ANYBODY in quotas else ())}):
            limits = (quotas.get(domain) or quotas[ANYBODY]).limits
            for resource, limit in sorted(limits.items()):
                quota.add_metric([domain, resource], limit)
        yield from (used, quota)


def by_site(service: Allocations) -> Iterator[bytes]:
    """Free and whole amounts, and replicas, of each site; in pieces."""
    for name, text, at in (
        ("free", "What a site has left.", 0),
        ("total", "What a site has.", 1),
        ("replicas", "Replicas held on a site.", -1),
    ):
        name = f"global_scheduler_site_{name}"
        yield f"# HELP {name} {text}\n# TYPE {name} gauge\n".encode()
        for start in range(0, service.table.count, PIECE):
            rows = range(start, min(start + PIECE, service.table.count))
            yield "".join(line for row in rows for line in _lines(service, row, name, at)).encode()


def _lines(service: Allocations, row: int, name: str, at: int) -> Iterator[str]:
    site = service.table.sites[row]
    names = (("site", site.id), ("region", site.region), ("zone", site.zone))
    labels = ",".join(f'{label}="{value.translate(_ESCAPED)}"' for label, value in names)
    if at < 0:
        yield f"{name}{{{labels}}} {sum(service.ledger.by_site.get(site.id, {}).values())}\n"
        return
    for resource, amounts in _amounts(service.table, row).items():
        yield f'{name}{{{labels},resource="{resource.translate(_ESCAPED)}"}} {amounts[at]}\n'


def _amounts(table: SiteTable, row: int) -> dict[str, tuple[int, int]]:
    """What is free and what there is, by resource."""
    pools = table.pools.values()
    amounts = {
        "vcpus": (
            sum(p.free_vcpus.item(row) for p in pools),
            sum(p.vcpus.item(row) for p in pools),
        ),
        "memory": (
            sum(pool.free_memory.item(row) for pool in pools),
            sum(pool.memory.item(row) for pool in pools),
        ),
    }
    for kind, column in table.storage.items():
        if column.there[row]:
            amounts[f"storage/{kind}"] = column.free.item(row), column.total.item(row)
    if (number := table.eip_pool.item(row)) != NO_POOL:
        amounts["eips"] = table.eip_free.item(number), table.eip_size.item(number)
    return amounts
