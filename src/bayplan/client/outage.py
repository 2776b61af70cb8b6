"""Tells once that a server cannot be reached or takes no credential, and once that it answers.

A scheduler has an informer for each of some twenty kinds; when the API server goes away all of them
notice. Those of one server share an Outage, so that an operator reads one line instead of twenty
in every round.
"""

from __future__ import annotations

import structlog

from bayplan.client.errors import ClientError, Unauthorized

log = structlog.get_logger(__name__)


class Outage:
    """What the informers of one server know about whether it is there."""

    def __init__(self) -> None:
        self._told = ""

    def failed(self, problem: ClientError) -> None:
        """The server could not be reached, or does not know who asks."""
        if isinstance(problem, Unauthorized):
            self._tell("the API server refuses the credential, trying until it does not", problem)
        else:
            self._tell("the API server cannot be reached, trying until it can", problem)

    def _tell(self, event: str, problem: ClientError) -> None:
        if self._told != event:
            self._told = event
            remedy = f"; {problem.remedy}" if problem.remedy else ""
            log.warning(event, err=f"{problem}{remedy}")

    def over(self) -> None:
        """The server answered."""
        if self._told:
            self._told = ""
            log.info("the API server answers again")
