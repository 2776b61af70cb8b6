"""Serves an extender with uvicorn: address, TLS, client certificates, a clean stop on SIGTERM."""

import asyncio
import importlib
import ssl
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import uvicorn

from bayplan import asgi, eventloop, stopping
from bayplan.errors import ConfigError, Importing
from bayplan.extender.kit import Extender
from bayplan.extender.recording import Recorder
from bayplan.listening import listen as open_socket

GRACE_SECONDS = 2
"""For calls that are being answered when the end has come."""


class Listen(msgspec.Struct, frozen=True):
    """Where and how to listen."""

    host: str = "127.0.0.1"
    port: int = 8888
    cert_file: str = ""
    key_file: str = ""
    client_ca_file: str = ""


def load(target: str) -> Extender:
    """Import `module:name` (or a `file.py:name`) and return the extender found there."""
    where, _, attribute = target.partition(":")
    if where.endswith(".py"):
        path = Path(where).resolve()
        sys.path.insert(0, str(path.parent))
        where = path.stem
    else:
        sys.path.insert(0, str(Path.cwd()))
    try:
        with Importing(f'loading extender "{target}"'):
            module = importlib.import_module(where)
    except ConfigError as problem:
        cause = problem.__cause__
        if not isinstance(cause, ModuleNotFoundError) or cause.name != where:
            raise
        raise ConfigError(
            f'loading extender "{target}": there is no module "{where}" here or installed; go to '
            f"its directory, or name the file: DIRECTORY/{where}.py:{attribute or 'app'}"
        ) from cause
    found = getattr(module, attribute or "app", None)
    if found is None:
        raise ConfigError(f'loading extender "{target}": {where} has no "{attribute or "app"}"')
    if isinstance(found, type):
        found = found()
    return found if isinstance(found, Extender) else Extender(found, name=where)


def uvicorn_config(app: Extender | Recorder, listen: Listen) -> uvicorn.Config:
    """The server's settings; a bad certificate is reported here, before listening."""
    tls: dict[str, Any] = {}
    if listen.cert_file:
        tls = {"ssl_certfile": listen.cert_file, "ssl_keyfile": listen.key_file or None}
        if listen.client_ca_file:
            tls |= {
                "ssl_ca_certs": listen.client_ca_file,
                "ssl_cert_reqs": int(ssl.CERT_REQUIRED),
            }
    elif listen.client_ca_file or listen.key_file:
        what = "a client CA" if listen.client_ca_file else "a private key"
        raise ConfigError(f"{what} needs TLS: give a certificate and its key too")
    config = asgi.config(app, timeout_graceful_shutdown=GRACE_SECONDS, **tls)
    try:
        config.load()
    except (OSError, ssl.SSLError) as cause:
        raise ConfigError(f'loading certificate "{listen.cert_file}": {cause}') from cause
    return config


def serve(app: Extender | Recorder, listen: Listen, started: Callable[[int], None]) -> None:
    """Serve until SIGINT or SIGTERM; calls are finished first."""
    eventloop.run(_serve(uvicorn_config(app, listen), listen, started))


async def _serve(config: uvicorn.Config, listen: Listen, started: Callable[[int], None]) -> None:
    stopped = asyncio.Event()
    with open_socket(listen.host, listen.port, "--bind") as listener:
        end = await asgi.begin(config, listener)
        stopping.stop_on_signals(stopped)
        started(listener.getsockname()[1])
        await stopped.wait()
        await end()
