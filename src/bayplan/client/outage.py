"""Tells once that a server cannot be reached, and once that it answers again.

A scheduler has an informer for each of some twenty kinds; when the API server goes away all of them
notice. Those of one server share an Outage, so that an operator reads one line instead of twenty
in every round.
"""

from __future__ import annotations

import structlog

log = structlog.get_logger(__name__)


class Outage:
    """What the informers of one server know about whether it is there."""

    def __init__(self) -> None:
        self._told = False

    def failed(self, problem: Exception) -> None:
        """The server could not be reached."""
        if not self._told:
            self._told = True
            log.warning("the API server cannot be reached, trying until it can", err=str(problem))

    def over(self) -> None:
        """The server answered."""
        if self._told:
            self._told = False
            log.info("the API server answers again")
