"""The extenders of a configuration, ready to be asked.

They share one caller (connections, a thread for the network) and the texts of pods and nodes, which
come from the live scheduler's informers once it exists. Most configurations have none: what
extenders need is loaded and made for the first one.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from bayplan.config import KubeSchedulerConfiguration
from bayplan.framework.contract.extender import PROMISED
from bayplan.observe.metrics import SchedulerMetrics
from bayplan.scheduler.live import LiveScheduler

if TYPE_CHECKING:
    from bayplan.extender.client import ExtenderMetrics, HttpExtender, TextCache
    from bayplan.extender.http import Caller

SWITCH_SECONDS = 0.0005


class Extenders:
    """Makes the extenders of one configuration after another."""

    def __init__(self, metrics: SchedulerMetrics, ahead: str = PROMISED) -> None:
        """`ahead`: which extenders may be asked about pods ahead of their turn, one of AHEAD."""
        self._ahead = ahead
        self._metrics = metrics
        self._live: LiveScheduler | None = None
        self._shared: tuple[Caller, TextCache, ExtenderMetrics] | None = None

    def of(self, config: KubeSchedulerConfiguration) -> list[HttpExtender]:
        """The extenders of a configuration; raises ConfigError for a bad certificate."""
        if not config.extenders:
            return []
        from bayplan.extender.client import HttpExtender

        if self._shared is None:
            self._shared = self._share()
        return [HttpExtender(entry, *self._shared, ahead=self._ahead) for entry in config.extenders]

    def _share(self) -> tuple[Caller, TextCache, ExtenderMetrics]:
        from bayplan.extender.client import ExtenderMetrics, TextCache
        from bayplan.extender.http import Caller

        # An attempt that waits for an answer must not then wait 5 ms more for the loop's thread.
        sys.setswitchinterval(SWITCH_SECONDS)
        texts = TextCache()
        texts.source = self._live
        return Caller(), texts, ExtenderMetrics(self._metrics.registry)

    def take_texts_from(self, live: LiveScheduler) -> None:
        """Send whole objects as this scheduler's informers have them."""
        self._live = live
        if self._shared is not None:
            self._shared[1].source = live

    def close(self) -> None:
        """Close connections."""
        if self._shared is not None:
            self._shared[0].close()
