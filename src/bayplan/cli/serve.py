"""The main loop of `bayplan apiserver`: serve until a signal comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from bayplan import eventloop, stopping
from bayplan.apiserver.serving import Running, Settings, running
from bayplan.cli.fresh import FreshDirectory
from bayplan.config import FeatureGates
from bayplan.observe import logs


def run(settings: Settings, controllers: str, say: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM."""
    logs.configure()
    names = _select(controllers)
    eventloop.run(_serve(settings, names, say))


async def _serve(settings: Settings, controllers: list[str], say: Callable[[str], None]) -> None:
    stopped = asyncio.Event()
    stopping.stop_on_signals(stopped, stopping.STORE_GRACE)
    with FreshDirectory(settings.data) as data:
        async with running(settings) as served, _beside(served, controllers, settings.gates):
            data.keep()
            for line in greeting(served, settings):
                say(line)
            await stopped.wait()


# Controllers, and the client they need, are loaded only when there are any: most servers have none.
def _select(controllers: str) -> list[str]:
    if not controllers:
        return []
    from bayplan.controllers.manager import select

    return select(controllers)


@asynccontextmanager
async def _beside(
    served: Running, controllers: list[str], gates: FeatureGates
) -> AsyncIterator[None]:
    if not controllers:
        yield
        return
    from bayplan.controllers.manager import beside, options_for

    served.server.backend.whole_cluster = True
    options = options_for(served.authority, served.signing_key, gates)
    async with beside(served.server, served.token, controllers, options):
        yield


def greeting(served: Running, settings: Settings) -> list[str]:
    """Say where the server is and how to use it; never show a token."""
    lines = [f"bayplan apiserver is ready at {served.url} (store: {settings.store})"]
    if served.kubeconfig is not None:
        lines.append(f"  export KUBECONFIG={served.kubeconfig.resolve()}")
        lines.append("  kubectl get namespaces")
    elif settings.data is not None:
        lines.append(f"  the admin token is in {settings.data.resolve() / 'admin-token'}")
    else:
        lines.append("  use --kubeconfig-out FILE to get a kubeconfig with the admin token")
    return lines
