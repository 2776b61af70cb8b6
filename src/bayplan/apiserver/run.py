"""The main loop of `bayplan apiserver`: serve until a signal comes."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

from bayplan.apiserver.serving import Running, Settings, running
from bayplan.observe import logs


def run(settings: Settings, controllers: str, say: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM."""
    logs.configure()
    try:
        import uvloop
    except ImportError:
        asyncio.run(_serve(settings, controllers, say))
    else:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(settings, controllers, say))


async def _serve(settings: Settings, controllers: str, say: Callable[[str], None]) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    async with running(settings) as served:
        for line in greeting(served, settings):
            say(line)
        await stopped.wait()


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
