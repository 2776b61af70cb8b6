"""A histogram whose `observe` costs a bisection and two additions.

prometheus_client's own walks its buckets with a lock for each; a scheduler observes five times for
every pod. This one is for a single thread (the event loop) and is read by the same registry.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString


class Child:
    """The histogram of one set of label values."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: list[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class Histogram(Collector):
    """A family of histograms; without labels it is its only child."""

    def __init__(
        self,
        name: str,
        text: str,
        labels: Sequence[str],
        bounds: Iterable[float],
        registry: CollectorRegistry,
    ) -> None:
        self._name, self._text, self._labels = name, text, tuple(labels)
        self._bounds = sorted(bounds)
        self._children: dict[tuple[str, ...], Child] = {}
        self._only = None if labels else self.labels()
        registry.register(self)

    def labels(self, *values: str) -> Child:
        """Return the child of these label values; keep it if it is used often."""
        child = self._children.get(values)
        if child is None:
            assert len(values) == len(self._labels), self._name
            child = self._children[values] = Child(self._bounds)
        return child

    def observe(self, value: float) -> None:
        """Count a value of a family without labels."""
        assert self._only is not None, self._name
        self._only.observe(value)

    def collect(self) -> Iterable[HistogramMetricFamily]:
        family = HistogramMetricFamily(self._name, self._text, labels=self._labels)
        for values, child in self._children.items():
            family.add_metric(values, _cumulative(child), child.total)
        yield family


def _cumulative(child: Child) -> list[tuple[str, float]]:
    rows, total = [], 0
    for bound, count in zip([*child.bounds, float("inf")], child.counts, strict=True):
        total += count
        shown = floatToGoString(bound)  # type: ignore[no-untyped-call]
        rows.append((shown, float(total)))
    return rows
