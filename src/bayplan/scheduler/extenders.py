"""The extenders of a configuration, ready to be asked.

They share one caller (connections, a thread for the network) and the texts of pods and nodes, which
come from the live scheduler's informers once it exists.
"""

from __future__ import annotations

import sys

from bayplan.config import KubeSchedulerConfiguration
from bayplan.extender.client import ExtenderMetrics, HttpExtender, TextCache
from bayplan.extender.http import Caller
from bayplan.observe.metrics import SchedulerMetrics
from bayplan.scheduler.live import LiveScheduler

SWITCH_SECONDS = 0.0005


class Extenders:
    """Makes the extenders of one configuration after another."""

    def __init__(self, metrics: SchedulerMetrics) -> None:
        self._caller = Caller()
        # An attempt that waits for an answer must not then wait 5 ms more for the loop's thread.
        sys.setswitchinterval(SWITCH_SECONDS)
        self._texts = TextCache()
        self._metrics = ExtenderMetrics(metrics.registry)

    def of(self, config: KubeSchedulerConfiguration) -> list[HttpExtender]:
        """The extenders of a configuration; raises ConfigError for a bad certificate."""
        return [
            HttpExtender(entry, self._caller, self._texts, self._metrics)
            for entry in config.extenders
        ]

    def take_texts_from(self, live: LiveScheduler) -> None:
        """Send whole objects as this scheduler's informers have them."""
        self._texts.source = live

    def close(self) -> None:
        """Close connections."""
        self._caller.close()
