"""`/metrics/slis`: how the health checks came out, in the names that all components share."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest


class HealthSlis:
    """Counts checks as they are made, in a registry of its own: the page shows nothing else."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._last = Gauge(
            "kubernetes_healthcheck",
            "1 if the check passed when it was last made.",
            ["name", "type"],
            registry=self._registry,
        )
        self._counts = Counter(
            "kubernetes_healthchecks",
            "Checks that were made, by how they came out.",
            ["name", "status", "type"],
            registry=self._registry,
        )

    def checked(self, kind: str, name: str, passed: bool) -> None:
        """Record a check of `kind` (healthz, livez, readyz)."""
        self._last.labels(name, kind).set(1.0 if passed else 0.0)
        self._counts.labels(name, "success" if passed else "error", kind).inc()

    def exposition(self) -> bytes:
        """Return the text that `/metrics/slis` serves."""
        return generate_latest(self._registry)
