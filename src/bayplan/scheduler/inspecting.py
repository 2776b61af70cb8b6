"""Questions about the cluster that a scheduler serves, under the configuration that it runs."""

from __future__ import annotations

from bayplan.client import Client
from bayplan.inspect import Cluster, Settings
from bayplan.inspect.http import Questions
from bayplan.inspect.sources.live import read_client
from bayplan.scheduler.live import LiveScheduler


def questions(live: LiveScheduler, client: Client) -> Questions:
    """Answer from what the API server shows, read when somebody asks."""

    async def load() -> Cluster:
        core = live.core
        objects, origin = await read_client(client, "this cluster")
        settings = Settings(core.config, core.gates, core.registry, "the running scheduler")
        return Cluster(objects, origin=origin, settings=settings)

    return Questions(load)
