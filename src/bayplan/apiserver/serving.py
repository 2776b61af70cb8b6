"""Runs an ApiServer on a socket: store, TLS, tokens, kubeconfig, uvicorn, orderly stop.

`Settings` is what the command line says; `serve` runs until it is told to stop. It is also what
`bayplan up` uses, with controllers beside the server on the same loop.
"""

from __future__ import annotations

import asyncio
import gc
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec
import structlog
from cryptography.hazmat.primitives.asymmetric import ec

from bayplan import private
from bayplan.apiserver import tls
from bayplan.apiserver.admission import disabled_plugins
from bayplan.apiserver.auth import load_tokens, new_token
from bayplan.apiserver.expiry import keep_expiring
from bayplan.apiserver.front_proxy import FrontProxy, publish
from bayplan.apiserver.kubeconfig import write_kubeconfig
from bayplan.apiserver.metrics import Metrics, TimedStore
from bayplan.apiserver.server import ApiServer
from bayplan.apiserver.tokens import ISSUER, load_key
from bayplan.apiserver.web import WebServer, server_context
from bayplan.asgi import config as quiet
from bayplan.config import DEFAULT_GATES, FeatureGates
from bayplan.edge_socket import MAX_MESSAGE, EdgeSocket
from bayplan.errors import ConfigError
from bayplan.listening import listen
from bayplan.origin import is_loopback
from bayplan.store import Store
from bayplan.store.sqlite_file import FILE_NAME
from bayplan.supervised import supervised

log = structlog.get_logger(__name__)
MODES = ("AlwaysAllow", "RBAC")
TOKEN_NAME, KEY_NAME = "admin-token", "service-account.key"
DATA_FILES = (TOKEN_NAME, "tls", FILE_NAME)


class Settings(msgspec.Struct, kw_only=True):
    """How a server is to be run."""

    data: Path | None = None
    host: str = "127.0.0.1"
    port: int = 0
    store: str = "sqlite"
    etcd_servers: list[str] = []
    etcd_cafile: Path | None = None
    etcd_certfile: Path | None = None
    etcd_keyfile: Path | None = None
    kubeconfig_out: Path | None = None
    token_file: Path | None = None
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    tls_generate: bool = True
    client_ca: Path | None = None  # whose certificates are accepted; the one made here by default
    authorization_mode: str = ""  # RBAC for what listens beyond loopback, else AlwaysAllow
    anonymous_auth: bool = True
    check_capacity: bool = False
    max_requests_inflight: int = 400
    max_mutating_requests_inflight: int = 200
    max_request_bytes: int = 3 * 1024 * 1024
    service_account_key: Path | None = None
    service_account_issuer: str = ISSUER
    enable_admission_plugins: list[str] = []
    disable_admission_plugins: list[str] = []
    event_ttl: float = 3600.0  # seconds; 0 keeps events for ever
    gates: FeatureGates = DEFAULT_GATES  # with their version: which kinds are served


class Running(msgspec.Struct, frozen=True):
    """A server that accepts connections."""

    server: ApiServer
    url: str
    token: str
    kubeconfig: Path | None
    authority: bytes | None
    signing_key: bytes | None
    stop: Callable[[], None]


async def open_store(settings: Settings) -> Store:
    """Open the store that the settings name."""
    if settings.store == "memory":
        from bayplan.store.memory import MemoryStore

        return MemoryStore()
    if settings.store == "etcd":
        from bayplan.store.etcd import EtcdStore
        from bayplan.store.etcd_client import tls_context

        if not settings.etcd_servers:
            raise ConfigError("--store etcd needs --etcd-servers")
        secure = tls_context(settings.etcd_cafile, settings.etcd_certfile, settings.etcd_keyfile)
        return await EtcdStore.open(settings.etcd_servers, tls=secure)
    from bayplan.store.sqlite import SqliteStore

    if settings.data is None:
        raise ConfigError("--store sqlite needs --data, the directory to keep objects in")
    return await SqliteStore.open(settings.data)


def _make_data(path: Path) -> None:
    try:
        private.make_directory(path, DATA_FILES)
    except OSError as error:
        raise ConfigError(
            f'making the data directory "{path}": {error.strerror}; choose another --data'
        ) from error


def _admin_token(settings: Settings) -> str:
    """Return the admin token, the same one each time for the same data directory."""
    if settings.data is None:
        return new_token()
    path = settings.data / TOKEN_NAME
    if path.exists():
        return path.read_text(encoding="utf-8").strip()
    token = new_token()
    private.write(path, token + "\n")
    return token


def _tls_files(settings: Settings) -> tls.TlsFiles | None:
    certificate, key = settings.tls_certificate, settings.tls_key
    if certificate is not None and key is not None:
        return tls.TlsFiles(certificate, key, certificate)
    if certificate is not None or key is not None:
        raise ConfigError("--tls-cert-file and --tls-private-key-file must be given together")
    if not settings.tls_generate:
        return None
    folder = settings.data or Path(tempfile.mkdtemp(prefix="bayplan-tls-"))
    return tls.generate(folder / "tls", [settings.host])


def _url(settings: Settings, listener: socket.socket, secure: bool) -> str:
    port = listener.getsockname()[1]
    host = LOOPBACK.get(settings.host, settings.host)
    shown = f"[{host}]" if ":" in host else host
    return f"{'https' if secure else 'http'}://{shown}:{port}"


def _signing_key(settings: Settings) -> ec.EllipticCurvePrivateKey | None:
    """Return the key of service account tokens; without a data directory it lives in memory."""
    if settings.service_account_key is not None:
        return load_key(settings.service_account_key)
    return load_key(settings.data / KEY_NAME, create=True) if settings.data else None


def _mode(settings: Settings) -> str:
    """Return how requests are authorized; on loopback, all who have a token may do all."""
    chosen = settings.authorization_mode
    return chosen or ("AlwaysAllow" if is_loopback(settings.host) else "RBAC")


def build_server(
    settings: Settings, store: Store, token: str, metrics: Metrics | None = None
) -> ApiServer:
    """Make the server that the settings describe, on an open store."""
    server = ApiServer(
        store,
        admin_token=token,
        signing_key=_signing_key(settings),
        issuer=settings.service_account_issuer,
        anonymous=settings.anonymous_auth,
        rbac=_mode(settings) == "RBAC",
        check_capacity=settings.check_capacity,
        max_body=settings.max_request_bytes,
        max_reads=settings.max_requests_inflight,
        max_writes=settings.max_mutating_requests_inflight,
        disabled_plugins=disabled_plugins(
            settings.enable_admission_plugins, settings.disable_admission_plugins
        ),
        gates=settings.gates,
        metrics=metrics,
    )
    if settings.token_file is not None:
        for extra, user in load_tokens(settings.token_file):
            server.authenticator.add(extra, user)
    return server


LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # of a server that listens everywhere


@asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[Running]:
    """Run a server while the block runs; it accepts connections when the block begins."""
    if settings.authorization_mode not in ("", *MODES):
        raise ConfigError(f"--authorization-mode must be one of {', '.join(MODES)}")
    if settings.data is not None:
        _make_data(settings.data)
    files = _tls_files(settings)
    async with AsyncExitStack() as stack:
        if files is not None and settings.data is None and settings.tls_certificate is None:
            stack.callback(shutil.rmtree, files.key.parent.parent, ignore_errors=True)
        listener = stack.enter_context(listen(settings.host, settings.port, "--bind"))
        metrics = Metrics()
        store = TimedStore(await open_store(settings), metrics)
        stack.push_async_callback(store.close)
        server = build_server(settings, store, _admin_token(settings), metrics)
        server.complete = True
        host, port = listener.getsockname()[:2]
        server.advertised = (LOOPBACK.get(host, host), port)
        stack.push_async_callback(server.close)
        server.identity = identity = FrontProxy()
        await server.start()
        failures = server.backend.background_failures
        await publish(server.backend, identity.authority, _client_authority(settings, files))
        if settings.event_ttl > 0:
            expire = partial(keep_expiring, server.backend, settings.event_ttl)
            stack.callback(supervised("expiry of events", expire, failures).cancel)
        stack.callback(supervised("watchdog", server.backend.watchdog.run, failures).cancel)
        gc.freeze()  # what is loaded by now stays; the collector need not look at it again
        web = _web_server(settings, server, files)
        task = asyncio.create_task(web.serve(sockets=[listener]))
        try:
            yield await _ready(settings, server, listener, files, web, task)
        finally:
            server.end_watches()
            web.should_exit = True
            await task


def _client_authority(settings: Settings, files: tls.TlsFiles | None) -> str:
    """Return the authority whose certificates clients may show here."""
    generated = files.authority if files is not None and files.authority_key is not None else None
    accepted = settings.client_ca or generated
    return accepted.read_text(encoding="utf-8", errors="replace") if accepted is not None else ""


def _web_server(settings: Settings, server: ApiServer, files: tls.TlsFiles | None) -> WebServer:
    config = quiet(  # warnings would tell of upgrades that kubectl exec tries and falls back
        server,
        lifespan="off",
        timeout_keep_alive=90,
        timeout_graceful_shutdown=1,
        ws=EdgeSocket,
        ws_per_message_deflate=False,
        ws_max_size=MAX_MESSAGE,
    )
    config.load()
    if files is None:
        return WebServer(config, None, server.backend.background_failures)
    generated = files.authority if files.authority_key is not None else None
    accepted = settings.client_ca or generated
    context = server_context(str(files.certificate), str(files.key), accepted)
    failures = server.backend.background_failures
    return WebServer(config, context, failures, plain=is_loopback(settings.host))


async def _ready(
    settings: Settings,
    server: ApiServer,
    listener: socket.socket,
    files: tls.TlsFiles | None,
    web: WebServer,
    task: asyncio.Task[None],
) -> Running:
    await web.answers(task)
    if task.done():
        raise ConfigError("the HTTP server ended before it was ready")
    url = _url(settings, listener, files is not None)
    authority = files.authority.read_bytes() if files else None
    kept = files.authority_key if files else None
    signing_key = kept.read_bytes() if kept else None
    if settings.kubeconfig_out is not None:
        write_kubeconfig(settings.kubeconfig_out, url, server.admin_token, authority)

    def stop() -> None:
        web.should_exit = True

    return Running(
        server, url, server.admin_token, settings.kubeconfig_out, authority, signing_key, stop
    )
