"""Whether the API server of a page still answers, and since when not.

An informer notices a connection that breaks, but not a server that is silent, and after a long
absence it waits up to a minute before it tries again. So the server is asked for its version every
other second; when it answers again, informers without a watch begin anew at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import structlog

from bayplan.api import Object
from bayplan.client import Client, Informer
from bayplan.client.errors import ApiError, ClientError

log = structlog.get_logger(__name__)

EVERY = 2.0
PATIENCE = 4.0
GRACE = 8.0
"""Seconds that an informer may be without a watch, as it is between one and the next."""


class Reach:
    """Runs informers; call it to learn since when their server has not been heard."""

    def __init__(
        self, client: Client, informers: Sequence[Informer[Object]], clock: Callable[[], float]
    ) -> None:
        self._client = client
        self._informers = informers
        self._clock = clock
        self._answered = clock()
        self._watched = clock()
        self._silent = False

    def __call__(self) -> float | None:
        if self._silent:
            return self._answered
        return self._watched if self._clock() - self._watched > GRACE else None

    async def run(self) -> None:
        """Keep the informers running until cancelled."""
        tasks = {informer: asyncio.create_task(informer.run()) for informer in self._informers}
        try:
            while True:
                await asyncio.sleep(EVERY)
                answers = await self._answers()
                back = answers and self._silent
                self._silent = not answers
                if answers:
                    self._answered = self._clock()
                broken = [informer for informer in tasks if informer.broken.is_set()]
                if not broken:
                    self._watched = self._clock()
                for informer in broken:
                    if back or tasks[informer].done():
                        await _end(tasks[informer])
                        tasks[informer] = asyncio.create_task(informer.run())
        finally:
            await asyncio.gather(*(_end(task) for task in tasks.values()))

    async def _answers(self) -> bool:
        try:
            await self._client.request("GET", "/version", timeout=PATIENCE)
        except ApiError:  # also a refusal is an answer
            return True
        except ClientError:
            return False
        return True


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    [outcome] = await asyncio.gather(task, return_exceptions=True)
    if isinstance(outcome, Exception):
        log.error("informer of the page ended, beginning anew", err=str(outcome))
