"""Credentials: what to send with a request, and where to get new ones.

A token file is read again once a minute, because kubelets rotate it. An exec plugin runs when
there is no credential, when the last one is about to expire, and when the server answered 401; its
answer is kept in memory until then, and callers that come meanwhile wait for the one run.

Certificates that a plugin returns are handed to the transport, which then opens new connections.
Nothing here writes a secret anywhere, and no error text contains one.
"""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from bayplan.client.errors import KubeconfigError
from bayplan.client.kubeconfig import Connection, ExecPlugin, content
from bayplan.origin import is_loopback

TOKEN_FILE_PERIOD = 60.0
EXEC_TIMEOUT = 60.0
EXPIRY_MARGIN = 10.0


class Credential(msgspec.Struct, frozen=True):
    """What proves who we are: headers, and perhaps a certificate with its key."""

    headers: Mapping[str, str]
    cert: bytes = b""
    key: bytes = b""


class Credentials:
    """The current credential of a connection; `now` is wall-clock time in seconds."""

    def __init__(self, connection: Connection, *, now: Callable[[], float] = time.time) -> None:
        self._connection = connection
        self._now = now
        self._lock = asyncio.Lock()
        self._current: Credential | None = None
        self._until = float("inf")

    async def get(self) -> Credential:
        """Return a credential that is not known to be expired."""
        if self._current is not None and self._now() < self._until:
            return self._current
        async with self._lock:
            if self._current is None or self._now() >= self._until:
                await self._renew()
            assert self._current is not None
            return self._current

    async def refresh(self) -> bool:
        """Drop the credential after a 401; return whether another can be had."""
        if self._connection.exec_plugin is None and not self._connection.token_file:
            return False
        self._current = None
        return True

    async def _renew(self) -> None:
        connection = self._connection
        self._until = float("inf")
        _refuse_clear_text(connection)
        if connection.token_file:
            self._current = Credential(_bearer(_token_from(connection.token_file)))
            self._until = self._now() + TOKEN_FILE_PERIOD
        elif connection.token:
            self._current = Credential(_bearer(connection.token))
        elif connection.username:
            pair = f"{connection.username}:{connection.password}".encode()
            basic = base64.b64encode(pair).decode()
            self._current = Credential({"authorization": f"Basic {basic}"})
        elif connection.exec_plugin is not None:
            self._current, self._until = await run_exec_plugin(connection.exec_plugin, connection)
        else:
            self._current = Credential({})


def _refuse_clear_text(connection: Connection) -> None:
    """Never send a secret over plain HTTP to another machine, be it the server or a proxy."""
    url = urlsplit(connection.server)
    asked = urlsplit(connection.proxy_url) if connection.proxy_url else url
    if url.scheme != "http" or all(is_loopback(each.hostname or "") for each in (url, asked)):
        return
    has_secret = connection.token or connection.token_file or connection.username
    if has_secret or connection.exec_plugin is not None:
        raise KubeconfigError(
            f'server "{connection.server}" is plain HTTP: a credential is not sent in clear text '
            "to another machine; use https://"
        )


def _bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def _token_from(path: str) -> str:
    try:
        token = Path(path).read_text().strip()
    except OSError as problem:
        raise KubeconfigError(
            f'reading token file "{path}": {problem.strerror}; check tokenFile in the kubeconfig'
        ) from problem
    if not token:
        raise KubeconfigError(f'token file "{path}" is empty; write a token into it')
    return token


class _ExecStatus(msgspec.Struct, frozen=True, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _ExecCredential(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _ExecStatus | None = None


async def run_exec_plugin(plugin: ExecPlugin, connection: Connection) -> tuple[Credential, float]:
    """Run the plugin; return its credential and when (wall clock) to ask again."""
    command = plugin.command
    if os.sep in command:
        command = str(Path(plugin.directory) / command)
    elif shutil.which(command) is None:
        hint = f": {plugin.install_hint}" if plugin.install_hint else ""
        raise KubeconfigError(f'exec plugin "{command}" is not installed{hint}')
    output = await _run(command, plugin, connection)
    try:
        answer = msgspec.json.decode(output, type=_ExecCredential)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise KubeconfigError(
            f'exec plugin "{command}" did not print an ExecCredential: {problem}'
        ) from None
    if answer.kind != "ExecCredential" or answer.api_version != plugin.api_version:
        raise KubeconfigError(
            f'exec plugin "{command}" answered {answer.api_version} {answer.kind}, '
            f"expected {plugin.api_version} ExecCredential; set apiVersion of users[].user.exec"
        )
    status = answer.status or _ExecStatus()
    if not status.token and not (status.client_certificate_data and status.client_key_data):
        raise KubeconfigError(
            f'exec plugin "{command}" returned neither a token nor a certificate with its key'
        )
    until = float("inf")
    if status.expiration_timestamp is not None:
        when = status.expiration_timestamp
        zoned = when if when.tzinfo else when.replace(tzinfo=UTC)
        until = zoned.timestamp() - EXPIRY_MARGIN
    headers = _bearer(status.token) if status.token else {}
    credential = Credential(
        headers, status.client_certificate_data.encode(), status.client_key_data.encode()
    )
    return credential, until


async def _run(command: str, plugin: ExecPlugin, connection: Connection) -> bytes:
    environment = {**os.environ, **dict(plugin.env)}
    environment["KUBERNETES_EXEC_INFO"] = _exec_info(plugin, connection)
    try:
        process = await asyncio.create_subprocess_exec(
            command,
            *plugin.args,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
        )
    except OSError as problem:
        raise KubeconfigError(f'running exec plugin "{command}": {problem.strerror}') from problem
    try:
        async with asyncio.timeout(EXEC_TIMEOUT):
            output, _ = await process.communicate()
    except TimeoutError as cause:
        raise KubeconfigError(
            f'exec plugin "{command}" did not finish within {EXEC_TIMEOUT:.0f} s'
        ) from cause
    finally:
        if process.returncode is None:  # it takes too long, or nobody waits any more
            process.kill()
            await process.wait()
    if process.returncode:
        raise KubeconfigError(
            f'exec plugin "{command}" failed with exit code {process.returncode}; '
            "run it by hand to see why"
        )
    return output


def _exec_info(plugin: ExecPlugin, connection: Connection) -> str:
    spec: dict[str, object] = {"interactive": False}
    if plugin.provide_cluster_info:
        cluster: dict[str, object] = {"server": connection.server}
        if connection.tls_server_name:
            cluster["tls-server-name"] = connection.tls_server_name
        if connection.insecure:
            cluster["insecure-skip-tls-verify"] = True
        authority = connection.ca_data or content(connection.ca_file, "certificate-authority")
        if authority:
            cluster["certificate-authority-data"] = base64.b64encode(authority).decode()
        if connection.proxy_url:
            cluster["proxy-url"] = connection.proxy_url
        spec["cluster"] = cluster
    info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    return msgspec.json.encode(info).decode()
