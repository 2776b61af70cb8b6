"""Questions about the cluster that a scheduler serves, under the configuration that it runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from bayplan.client import Client
from bayplan.scheduler.live import LiveScheduler

if TYPE_CHECKING:
    from bayplan.inspect import Cluster
    from bayplan.inspect.http import Questions

EXPLAIN = "/bayplan/explain/"
"""Path below which pods are explained, by a scheduler and by the API server of `bayplan up`."""
NAMES = "/bayplan/scheduler/names"
"""Path at which the API server of `bayplan up` tells whose pods its scheduler takes, as JSON."""

Answer = Callable[[str, Mapping[str, str], bytes | None], Awaitable[tuple[int, bytes]]]
"""Path below the prefix, query, body of a POST; returns status and JSON."""


def questions(live: LiveScheduler, client: Client) -> Answer:
    """Answer from what the API server shows, read when somebody asks; loaded then, too."""
    loaded: list[Questions] = []

    async def answer(
        path: str, query: Mapping[str, str], body: bytes | None = None
    ) -> tuple[int, bytes]:
        if not loaded:
            loaded.append(_questions(live, client))
        return await loaded[0].answer(path, query, body)

    return answer


def _questions(live: LiveScheduler, client: Client) -> Questions:
    from bayplan.inspect import Cluster, Settings
    from bayplan.inspect.http import Questions
    from bayplan.inspect.sources.live import read_client

    async def load() -> Cluster:
        core = live.core
        objects, origin = await read_client(client, "this cluster")
        settings = Settings(
            core.config,
            core.gates,
            core.registry,
            "the running scheduler",
            extenders=core.engine.extenders,
        )
        return Cluster(objects, origin=origin, settings=settings)

    return Questions(load)
