"""What a Bayplan scheduler remembers of a pod: attempts, history, what it waits for.

Asked is the API server that the kubeconfig names, which is `bayplan up`'s if it knows the path, and
a scheduler whose address the user gave. Credentials go nowhere else.
"""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import groupby
from urllib.parse import urlsplit

import msgspec

from bayplan.client import ApiError, Connection, NotFound, TransportError, connect, load_kubeconfig
from bayplan.engine.loop.explain import Explanation
from bayplan.errors import BayplanError
from bayplan.inspect.sources.live import run_beside
from bayplan.scheduler.inspecting import EXPLAIN

LOOPBACK = ("127.0.0.1", "::1", "localhost")


def remembered(pod: str, kubeconfig: str, context: str, scheduler: str) -> tuple[str, ...]:
    """Lines about a pod (`namespace/name`); none if no Bayplan scheduler knows it."""
    connection = load_kubeconfig(kubeconfig or None, context=context)
    if scheduler:
        connection = scheduler_at(connection, scheduler.rstrip("/"))
    try:
        body = run_beside(lambda: _ask(connection, pod))
    except (TransportError, ApiError) as problem:
        if scheduler and not isinstance(problem, NotFound):  # which says that it knows no such pod
            raise BayplanError(f"asking the scheduler: {problem}; check --scheduler") from problem
        return ()
    try:
        return tuple(_lines(msgspec.json.decode(body, type=Explanation)))
    except msgspec.DecodeError:
        return ()


def scheduler_at(connection: Connection, server: str) -> Connection:
    """A scheduler's own server; one whose certificate cannot be verified learns no secret."""
    if urlsplit(server).hostname in LOOPBACK:  # a self-signed certificate by default
        return Connection(server=server, insecure=True)
    return msgspec.structs.replace(connection, server=server)


async def _ask(connection: Connection, pod: str) -> bytes:
    client = connect(connection)
    try:
        return await client.request("GET", f"{EXPLAIN}{pod}")
    finally:
        await client.close()


def _lines(found: Explanation) -> list[str]:
    lines = [f"{found.place}, {found.attempts} attempt{'s' * (found.attempts != 1)}"]
    if found.waits_for:
        lines.append(f"waits for events of {', '.join(found.waits_for)}")
    if found.backoff_until:
        lines.append(f"in backoff until {_time(found.backoff_until)}")
    attempt = found.attempt
    if attempt is not None:
        end = attempt.node or attempt.message
        lines.append(f"last attempt {_time(attempt.time)}: {end}")
    told: list[str] = []
    if found.changed:
        some = "; ".join(f"{c.node}: {c.before} -> {c.now}" for c in found.changed[:3])
        lines.append(f"changed since: {some}")
    for (what, detail), alike in groupby(found.history, key=lambda h: (h.what, h.detail)):
        *_, last = several = list(alike)
        times = f" ({len(several)} times)" if len(several) > 1 else ""
        told.append(f"{_time(last.time)}  {what}{times}  {detail}".rstrip())
    return lines + told[-8:]


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
